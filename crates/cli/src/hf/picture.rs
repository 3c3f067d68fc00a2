//! Draws a timeline of both stations' transmissions.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use hf::s5066::node::Record;
use lab::figure::timeline::{HF, Span, Station, Timeline, timeline_to_svg};
use whole::write_whole;

use super::options::Plan;
use crate::terminal;

/// The data for a picture, if one is wanted.
pub struct Picture<'a> {
    path: Option<&'a Path>,
    spans: [Vec<Span>; 2],
}

/// The most spans of a node; later ones are not drawn.
const SPANS: usize = 100_000;

impl<'a> Picture<'a> {
    /// An empty picture, to be drawn to `path`.
    pub fn new(path: Option<&'a Path>) -> Self {
        Self { path, spans: Default::default() }
    }

    /// Takes a record of node A (0) or B (1).
    pub fn note(&mut self, end: usize, record: &Record) {
        let spans = &mut self.spans[end];
        if self.path.is_some() && spans.len() < SPANS {
            spans.extend(lab::hf::span(record));
        }
    }

    /// Draws the transmissions of both stations.
    pub fn draw(mut self, plan: &Plan) -> anyhow::Result<()> {
        let Some(path) = self.path else { return Ok(()) };
        if self.spans.iter().all(Vec::is_empty) {
            let _ = writeln!(
                terminal::err(),
                "{}: nobody transmitted, so the picture is empty: nodes transmit only for clients: those of --talk, or \
                 gateways with `server` at a node (docs/guide/hf.md)",
                path.display()
            );
        }
        for spans in &mut self.spans {
            // The span of the transmitter is recorded last.
            spans.sort_by(|a, b| a.start.total_cmp(&b.start));
        }
        let stations = ["A", "B"].into_iter().zip(self.spans);
        let timeline = Timeline {
            name: "hf".to_owned(),
            title: "Who transmitted when".to_owned(),
            subtitle: format!(
                "{} and {} with {}, channel {}",
                plan.ends[0].address, plan.ends[1].address, plan.waveform, plan.channel
            ),
            legend: &HF,
            stations: stations
                .map(|(name, spans)| Station { name: name.to_owned(), spans })
                .collect(),
            note: "Data is sent again when it was lost, and to fill the last block of a \
                   transmission. Between two transmissions the radios turn round, or nobody has \
                   anything to say."
                .to_owned(),
        };
        write_whole(path, timeline_to_svg(&timeline))
            .with_context(|| format!("writing {}", path.display()))
    }
}

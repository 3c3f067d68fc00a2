//! What two nodes did: counted, captured, and kept for a picture.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use lab::figure::timeline::Span;
use proto::s5066::node::{FrameKind, Record};
use proto::time::Time;
use sim::capture::{Capture, Direction, LinkType};

/// Takes what the nodes record.
pub(super) struct Observer {
    tallies: [Tally; 2],
    captures: Vec<Capture>,
    /// The time of the epoch, since 1970.
    epoch: Duration,
    /// `None` when nobody wants a picture.
    spans: Option<[Vec<Span>; 2]>,
}

/// What a node sent and heard.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Tally {
    pub(super) transmissions: u64,
    pub(super) on_air: Duration,
    pub(super) first: Option<Time>,
    pub(super) last: Option<Time>,
    pub(super) data: u64,
    pub(super) repeats: u64,
    pub(super) acks: u64,
    pub(super) control: u64,
    pub(super) heard: u64,
    pub(super) heard_damaged: u64,
}

/// Spans of a picture at most; what comes later is not drawn.
const SPANS: usize = 100_000;

impl Observer {
    /// With captures in `folder`, and spans for a picture, if they are wanted.
    ///
    /// # Errors
    /// When a capture cannot be written.
    pub(super) fn new(folder: Option<&Path>, has_picture: bool) -> anyhow::Result<Self> {
        let mut captures = Vec::new();
        if let Some(folder) = folder {
            fs::create_dir_all(folder)
                .with_context(|| format!("making the folder {}", folder.display()))?;
            for name in ["a", "b"] {
                let path = folder.join(format!("{name}.pcapng"));
                let mut capture = Capture::create(&path)
                    .with_context(|| format!("writing {}", path.display()))?;
                capture.add_interface(name, LinkType::DPdu);
                captures.push(capture);
            }
        }
        Ok(Self {
            tallies: [Tally::default(); 2],
            captures,
            epoch: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            spans: has_picture.then(Default::default),
        })
    }

    /// Takes a record of node A (0) or B (1).
    pub(super) fn note(&mut self, end: usize, record: &Record) {
        let tally = &mut self.tallies[end];
        match record {
            Record::Keyed { start, end, .. } => {
                tally.transmissions += 1;
                tally.on_air += end.since(*start);
                tally.first = tally.first.or(Some(*start));
                tally.last = Some(*end);
            }
            Record::Sent { kind: FrameKind::Ack, .. } => tally.acks += 1,
            Record::Sent { kind: FrameKind::Control, .. } => tally.control += 1,
            Record::Sent { kind: FrameKind::Data, .. } => tally.data += 1,
            Record::Sent { kind: FrameKind::Padding, .. } => {}
            Record::Sent { kind: FrameKind::Repeat, .. } => tally.repeats += 1,
            Record::Heard { is_good, .. } => {
                tally.heard += 1;
                tally.heard_damaged += u64::from(!is_good);
            }
        }
        self.capture(end, record);
        if let Some(spans) = &mut self.spans
            && spans[end].len() < SPANS
        {
            spans[end].extend(lab::hf::span(record));
        }
    }

    /// What was counted of A and B.
    pub(super) fn tallies(&self) -> &[Tally; 2] {
        &self.tallies
    }

    /// What there is to draw, in the order of starts.
    pub(super) fn take_spans(&mut self) -> Option<[Vec<Span>; 2]> {
        let mut spans = self.spans.take()?;
        for spans in &mut spans {
            // That the transmitter was on is known last.
            spans.sort_by(|a, b| a.start.total_cmp(&b.start));
        }
        Some(spans)
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// When a capture could not be written, now or before.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.captures.iter_mut().try_for_each(Capture::finish)
    }

    fn capture(&mut self, end: usize, record: &Record) {
        let Some(capture) = self.captures.get_mut(end) else { return };
        match record {
            Record::Heard { at, octets, .. } => {
                capture.write(*at + self.epoch, 0, Direction::In, octets);
            }
            Record::Keyed { .. } => {}
            Record::Sent { start, octets, .. } => {
                capture.write(*start + self.epoch, 0, Direction::Out, octets);
            }
        }
    }
}

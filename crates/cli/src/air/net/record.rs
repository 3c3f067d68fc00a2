//! Records the transmissions on a net, as lines for programs and as a picture.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

use ::lab::figure::timeline::timeline_to_svg;
use ::lab::net::Strips;
use anyhow::Context as _;
use emulator::air::NetSeen;
use serde_json::json;
use sim::cnr::{Precedence, StationId, TransmissionKind};
use whole::{grow_private, write_whole};

use crate::air::options::NetFiles;

/// Keeps the transmissions on a net, for the outputs that the user wants.
#[derive(Debug)]
pub struct Record {
    names: Vec<String>,
    picture: Option<(PathBuf, Strips)>,
    lines: Option<Lines>,
}

/// The file of `--record`; an error while writing ends it, not the run.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: BufWriter<File>,
    failed: Option<io::Error>,
}

impl Record {
    /// Prepares the outputs of these options for stations with these `names`; `None` without outputs.
    pub fn new(files: &NetFiles, names: &[String]) -> anyhow::Result<Option<Self>> {
        let lines = files.record.as_ref().map(|path| {
            let file = grow_private(path).with_context(|| format!("writing {}", path.display()))?;
            anyhow::Ok(Lines { path: path.clone(), file: BufWriter::new(file), failed: None })
        });
        let strips = |path: &PathBuf| (path.clone(), Strips::new(names.iter().cloned()));
        let (lines, picture) = (lines.transpose()?, files.timeline.as_ref().map(strips));
        if lines.is_none() && picture.is_none() {
            return Ok(None);
        }
        Ok(Some(Self { names: names.to_vec(), picture, lines }))
    }

    /// Takes what was on the air since the last time.
    pub fn look(&mut self, seen: &[NetSeen]) {
        for seen in seen {
            if let Some((_, strips)) = &mut self.picture {
                strips.add(&seen.transmission);
            }
            let line = self.lines.is_some().then(|| self.line(seen));
            if let Some((lines, line)) = self.lines.as_mut().zip(line) {
                lines.write(&line);
            }
        }
        if let Some(lines) = self.lines.as_mut().filter(|_| !seen.is_empty()) {
            lines.flush();
        }
    }

    /// Writes the outputs; `title` names the subject.
    pub fn finish(self, title: String) -> anyhow::Result<()> {
        if let Some((path, strips)) = self.picture {
            write_whole(&path, timeline_to_svg(&strips.timeline(title)))
                .with_context(|| format!("writing {}", path.display()))?;
        }
        if let Some(Lines { path, failed: Some(error), .. }) = self.lines {
            return Err(error).with_context(|| format!("writing {}", path.display()));
        }
        Ok(())
    }

    fn line(&self, seen: &NetSeen) -> String {
        let NetSeen { transmission: it, precedence, .. } = seen;
        let name = |StationId(station): StationId| self.names[station].as_str();
        let kind = match it.kind {
            TransmissionKind::Ack => "ack",
            TransmissionKind::Data => "data",
            TransmissionKind::Update => "update",
        };
        let precedence = match precedence {
            Precedence::Urgent => "urgent",
            Precedence::Priority => "priority",
            Precedence::Routine => "routine",
        };
        let [heard, unheard] = it.heard;
        json!({
            "start_s": it.start.as_secs_f64(),
            "end_s": it.end.as_secs_f64(),
            "from": name(it.from),
            "to": it.to.map(name),
            "kind": kind,
            "precedence": precedence,
            "octets": it.octets,
            "again": it.is_repeat,
            "heard": heard,
            "unheard": unheard,
            "collided": it.collided,
            "received": it.is_received,
        })
        .to_string()
    }
}

impl Lines {
    fn write(&mut self, line: &str) {
        if self.failed.is_none() {
            self.failed = writeln!(self.file, "{line}").err();
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.file.flush().err();
        }
    }
}

//! Counts and captures the frames of two nodes.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use base::time::Time;
use hf::s5066::node::{FrameKind, Record};
use sim::capture::{Capture, Direction, LinkType};

/// Takes the records of the nodes.
pub struct Observer {
    tallies: [Tally; 2],
    captures: Vec<Capture>,
    /// The time of the epoch, since 1970.
    epoch: Duration,
}

/// Counts of a node's transmissions and receptions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Transmissions.
    pub transmissions: u64,
    /// The total time of transmissions.
    pub on_air: Duration,
    /// When the first transmission began.
    pub first: Option<Time>,
    /// When the last transmission ended.
    pub last: Option<Time>,
    /// Frames of data sent first.
    pub data: u64,
    /// Frames of data sent again.
    pub repeats: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Frames sent for links.
    pub control: u64,
    /// Frames heard.
    pub heard: u64,
    /// Damaged frames among the frames heard.
    pub heard_damaged: u64,
}

impl Observer {
    /// An observer with captures in `folder`, if given.
    ///
    /// # Errors
    /// When a capture cannot be written.
    pub fn new(folder: Option<&Path>) -> anyhow::Result<Self> {
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
        })
    }

    /// Takes a record of node A (0) or B (1).
    pub(crate) fn note(&mut self, end: usize, record: &Record) {
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
    }

    /// The counters of A and B.
    pub(crate) fn tallies(&self) -> &[Tally; 2] {
        &self.tallies
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// When a capture could not be written, now or before.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
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

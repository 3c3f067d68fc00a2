//! What a node did on the air, for pictures and captures.

use std::collections::VecDeque;

use super::Stats;
use crate::modem::Waveform;
use crate::time::Time;

/// Something that a node did or heard.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Record {
    /// A frame came from another node.
    Heard {
        /// When the modem had it.
        at: Time,
        /// Whether all of it is right.
        is_good: bool,
        /// All octets from the synchronisation on.
        octets: Vec<u8>,
    },
    /// The transmitter was on.
    Keyed {
        /// When the preamble began.
        start: Time,
        /// When the last block ended.
        end: Time,
        /// What with.
        waveform: Waveform,
    },
    /// A frame went out.
    Sent {
        /// When its first bit was on the air.
        start: Time,
        /// When its last bit was.
        end: Time,
        /// What it was for.
        kind: FrameKind,
        /// All octets from the synchronisation on.
        octets: Vec<u8>,
    },
}

/// What a frame was for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum FrameKind {
    /// An acknowledgement and nothing else.
    Ack,
    /// Links, management, resets, warnings.
    Control,
    /// Data for the first time.
    Data,
    /// Nothing: it fills a block.
    Padding,
    /// Data again.
    Repeat,
}

/// Records that wait to be fetched.
#[derive(Debug, Default)]
pub(super) struct Records(VecDeque<Record>);

/// Records kept at most.
const MAX_RECORDS: usize = 1 << 20;

impl Records {
    pub(super) fn push(&mut self, stats: &mut Stats, record: Record) {
        if self.0.len() < MAX_RECORDS {
            self.0.push_back(record);
        } else {
            stats.records_dropped += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<Record> {
        self.0.pop_front()
    }
}

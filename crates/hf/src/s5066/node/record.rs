//! Records of a node's activity on the air, for timelines and captures.

use std::collections::VecDeque;

use base::time::Time;

use super::Stats;
use crate::modem::Waveform;

/// Something that a node sent or received.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Record {
    /// A frame was received from another node.
    Heard {
        /// When the modem delivered it.
        at: Time,
        /// Whether it has no errors.
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
        /// The waveform.
        waveform: Waveform,
    },
    /// A frame was sent.
    Sent {
        /// When its first bit was on the air.
        start: Time,
        /// When its last bit was on the air.
        end: Time,
        /// Its purpose.
        kind: FrameKind,
        /// All octets from the synchronisation on.
        octets: Vec<u8>,
    },
}

/// The purpose of a frame.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum FrameKind {
    /// Only an acknowledgement.
    Ack,
    /// Links, management, resets, warnings.
    Control,
    /// The first transmission of data.
    Data,
    /// No content; the frame fills a block.
    Padding,
    /// A retransmission of data.
    Repeat,
}

/// Records that wait to be fetched.
#[derive(Debug, Default)]
pub struct Records(VecDeque<Record>);

/// The most records that are kept.
const MAX_RECORDS: usize = 1 << 20;

impl Records {
    pub fn push(&mut self, stats: &mut Stats, record: Record) {
        if self.0.len() < MAX_RECORDS {
            self.0.push_back(record);
        } else {
            stats.records_dropped += 1;
        }
    }

    pub fn pop(&mut self) -> Option<Record> {
        self.0.pop_front()
    }
}

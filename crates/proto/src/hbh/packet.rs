//! A packet that waits for its turn or for its acknowledgement.

use crate::ip::{FlowKey, Header, protocol};
use crate::time::Time;

/// A packet in HBH's hands, as IP will see it again at the next hop.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) octets: Vec<u8>,
    pub(super) header_len: usize,
    pub(super) protocol: u8,
    /// Retries left for this hop and all after it.
    pub(super) budget: u8,
    pub(super) taken_at: Time,
    pub(super) tcp: Option<Tcp>,
}

/// What of a TCP segment matters here (RFC 9293, 3.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Tcp {
    pub(super) seq: u32,
    /// Octets of payload.
    pub(super) len: u32,
    pub(super) is_syn: bool,
    pub(super) is_fin: bool,
    pub(super) is_reset: bool,
}

impl Packet {
    /// Whether others are held up until it arrives: what TCP sends next depends on it, and TCP's
    /// window grows with each acknowledgement that comes in time.
    pub(super) fn is_waited_for(&self) -> bool {
        self.tcp.is_some()
    }
}

impl Tcp {
    /// The segment that starts at `offset` of an IP packet, if it is one and its header is whole.
    pub(super) fn of(key: &FlowKey, header: &Header, packet: &[u8], offset: usize) -> Option<Self> {
        if key.protocol != protocol::TCP || (key.source_port, key.destination_port) == (0, 0) {
            return None;
        }
        let segment = packet.get(offset..header.total_len)?;
        let fixed = segment.first_chunk::<20>()?;
        let len = segment.len().checked_sub(usize::from(fixed[12] >> 4) * 4)?;
        Some(Self {
            seq: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            len: u32::try_from(len).ok()?,
            is_fin: fixed[13] & 0x01 != 0,
            is_syn: fixed[13] & 0x02 != 0,
            is_reset: fixed[13] & 0x04 != 0,
        })
    }

    /// How much of the sequence space it takes.
    pub(super) fn occupies(self) -> u32 {
        self.len + u32::from(self.is_syn) + u32::from(self.is_fin)
    }
}

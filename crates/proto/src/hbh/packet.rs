//! A packet that waits for its turn or for its acknowledgement.

use std::time::Duration;

use crate::ip::{FlowKey, Header, protocol};
use crate::time::Time;

/// How long TCP itself goes on to send a segment again, and so how long one is kept: what Linux
/// does (tcp_retries2); RFC 9293, 3.8.3, asks for at least 100 s.
pub const TCP_LIFETIME: Duration = Duration::from_secs(924);

/// A packet in HBH's hands, as IP will see it again at the next hop.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) octets: Vec<u8>,
    pub(super) header_len: usize,
    pub(super) protocol: u8,
    pub(super) taken_at: Time,
    pub(super) tcp: Option<Tcp>,
    /// Whether something before it will not come.
    pub(super) has_hole: bool,
}

/// What of a TCP segment matters here (RFC 9293, 3.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Tcp {
    pub(super) seq: u32,
    pub(super) ack: u32,
    /// Octets of payload.
    pub(super) len: u32,
    pub(super) is_syn: bool,
    pub(super) is_fin: bool,
    pub(super) is_reset: bool,
}

impl Packet {
    /// Whether others are held up until it arrives: what TCP sends next depends on it, and TCP's
    /// window grows with each acknowledgement that comes in time.
    ///
    /// Not so behind extension headers of IPv6: what is repaired of a flow must be alike.
    pub(super) fn is_waited_for(&self) -> bool {
        self.tcp.is_some() && self.protocol == protocol::TCP
    }

    /// Whether it is a TCP acknowledgement and nothing else.
    pub(super) fn is_pure_ack(&self) -> bool {
        self.is_waited_for() && self.tcp.is_some_and(|tcp| tcp.occupies() == 0 && !tcp.is_reset)
    }

    /// Whether it has waited for too long to be of use to anyone.
    ///
    /// TCP repeats what does not arrive, ever more seldom. What it has sent before an outage is the
    /// first to tell it of the end, so it is kept for as long as TCP itself would go on.
    pub(super) fn is_expired(&self, now: Time, lifetime: Duration) -> bool {
        let most = if self.tcp.is_some() { lifetime.max(TCP_LIFETIME) } else { lifetime };
        now.since(self.taken_at) > most
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
        let number = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        Some(Self {
            seq: number(4),
            ack: number(8),
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

    /// The sequence number behind it.
    pub(super) fn end(self) -> u32 {
        self.seq.wrapping_add(self.occupies())
    }
}

/// Whether sequence number `a` lies after `b` (RFC 9293, 3.4).
pub(super) fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

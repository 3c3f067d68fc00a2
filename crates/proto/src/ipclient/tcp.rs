//! What of a TCP segment tells whether it is worth sending.

use crate::ip::{FlowKey, Header, protocol};
use crate::tcp::wire::{Flags, HEADER};

/// A segment, as far as it can be told from others.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Identity {
    flow: FlowKey,
    seq: u32,
    /// Octets of the payload.
    len: usize,
    flags: u8,
}

/// What a segment is, for its repeats and successors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tcp {
    /// It acknowledges, and does nothing else.
    Ack { flow: FlowKey, ack: u32, flags: u8 },
    /// It takes up sequence numbers, so that TCP repeats it.
    Data(Identity),
}

impl Tcp {
    /// Whether it is an acknowledgement that says all that an older one of its flow says.
    pub(super) fn replaces(&self, older: Option<Self>) -> bool {
        match (self, older) {
            (
                Self::Ack { flow, ack, flags },
                Some(Self::Ack { flow: its, ack: older, flags: had }),
            ) => *flow == its && *flags == had && is_after(*ack, older),
            _ => false,
        }
    }

    /// What a datagram is, when it is a whole TCP segment.
    pub(super) fn of(header: &Header, packet: &[u8]) -> Option<Self> {
        let (flow, offset) = FlowKey::of(header, packet);
        // Fragments have no ports.
        if flow.protocol != protocol::TCP || flow.source_port == 0 {
            return None;
        }
        let octets = packet.get(offset..header.total_len)?;
        let fixed = octets.first_chunk::<HEADER>()?;
        let len = octets.len().checked_sub(usize::from(fixed[12] >> 4) * 4)?;
        let word = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let all = Flags(fixed[13]);
        // Whether it was pushed makes no difference to what is received.
        let Flags(flags) = all.without(Flags::PSH);
        if all.has(Flags::RST) || all.has(Flags::URG) {
            return None;
        }
        if len > 0 || all.has(Flags::SYN) || all.has(Flags::FIN) {
            return Some(Self::Data(Identity { flow, seq: word(4), len, flags }));
        }
        all.has(Flags::ACK).then(|| Self::Ack { flow, ack: word(8), flags })
    }
}

/// Whether sequence number `a` lies after `b`.
fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

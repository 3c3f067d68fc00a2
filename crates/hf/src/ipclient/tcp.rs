//! Recognises TCP segments that need not be sent: repeats, and acknowledgements replaced by newer ones.

use base::ip::{FlowKey, Header, protocol};
use base::serial::is_after;
use base::tcp::{Flags, Peek, Segment};

use super::route::is_multicast;

/// Fields that distinguish a segment from others.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Identity {
    flow: FlowKey,
    seq: u32,
    /// Octets of the payload.
    len: u32,
    flags: u8,
}

/// What a segment is, for its repeats and successors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tcp {
    /// It acknowledges, and does nothing else.
    Ack { flow: FlowKey, ack: u32, flags: u8 },
    /// The segment takes up sequence numbers, so that TCP repeats it.
    Data(Identity),
}

impl Tcp {
    /// Whether this acknowledgement makes an older one in the same flow superfluous.
    pub fn replaces(&self, older: Option<Self>) -> bool {
        match (self, older) {
            (
                Self::Ack { flow, ack, flags },
                Some(Self::Ack { flow: its, ack: older, flags: had }),
            ) => *flow == its && *flags == had && is_after(*ack, older),
            _ => false,
        }
    }

    /// What a datagram is, when it is a whole TCP segment.
    pub fn of(header: &Header, packet: &[u8]) -> Option<Self> {
        let (flow, offset) = FlowKey::of(header, packet);
        let segment = Peek::of(&flow, header, packet, offset)?;
        let all = segment.flags;
        // Whether it was pushed makes no difference to what is received.
        let Flags(flags) = all.without(Flags::PSH);
        if all.has(Flags::RST) || all.has(Flags::URG) {
            return None;
        }
        if segment.occupies() > 0 {
            let Peek { seq, len, .. } = segment;
            return Some(Self::Data(Identity { flow, seq, len, flags }));
        }
        all.has(Flags::ACK).then_some(Self::Ack { flow, ack: segment.ack, flags })
    }
}

/// The TCP segment that a datagram is, if it is whole and to one host.
pub fn whole(packet: &[u8]) -> Option<Segment<'_>> {
    let header = Header::parse(packet).ok()?;
    let transport = header.transport;
    let is_whole = transport.protocol == protocol::TCP && header.fragment.is_none();
    let is_to_a_host = !is_multicast(header.destination);
    Segment::parse(&header, packet, transport.offset).ok().filter(|_| is_whole && is_to_a_host)
}

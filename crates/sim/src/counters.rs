//! Counters of links and nodes.

use std::ops::{Add, AddAssign, Index, IndexMut};

use base::ip::{FlowKey, Header, minimal, protocol};
use tcp::tcpnc;

/// Packets and their octets, IP headers included.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Octets.
    pub octets: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, octets: usize) {
        self.packets += 1;
        self.octets += octets as u64;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.octets += other.octets;
    }
}

/// What a packet on a link is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// TCP segments without payload: acknowledgements, and what opens and closes connections.
    Ack,
    /// Anything with transport payload, whether or not HBH carries it, and HBH's repairs.
    Data,
    /// HBH's own acknowledgements.
    HopAck,
    /// HBH's hellos, with or without traffic.
    Hello,
    /// ICMP, and the payload of protocols unknown to us.
    Other,
    /// Messages of routing protocols.
    Routing,
}

impl Class {
    /// The class of a packet, unless `own` knows better what the payload of its protocol is.
    pub fn of(packet: &[u8], own: impl Fn(u8, &[u8]) -> Option<Self>) -> Self {
        let Ok(header) = Header::parse(packet) else { return Self::Other };
        let (key, offset) = FlowKey::of(&header, packet);
        // What a later fragment begins with is no header.
        if header.is_later_fragment() {
            return match key.protocol {
                protocol::TCP | protocol::UDP => Self::Data,
                _ => Self::Other,
            };
        }
        let payload = packet.get(offset..header.total_len).unwrap_or_default();
        own(key.protocol, payload).unwrap_or_else(|| Self::of_transport(key.protocol, payload))
    }

    pub(crate) fn of_transport(protocol: u8, payload: &[u8]) -> Self {
        match protocol {
            protocol::TCP => {
                let header = payload.first_chunk().map_or(0, base::tcp::header_len);
                if payload.len() > header { Self::Data } else { Self::Ack }
            }
            protocol::UDP => Self::Data,
            // One in another is nothing that anybody sends, and may be without end.
            protocol::MINIMAL => match minimal::carried(payload) {
                Some((protocol::MINIMAL, ..)) | None => Self::Other,
                Some((protocol, _, payload)) => Self::of_transport(protocol, payload),
            },
            tcpnc::PROTOCOL => match payload.first() {
                Some(&tcpnc::wire::KIND_ACK) => Self::Ack,
                Some(&tcpnc::wire::KIND_COMBINATION) => Self::Data,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// A tally for each class.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ByClass([Tally; 6]);

impl ByClass {
    /// All classes together.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in self.0 {
            total += tally;
        }
        total
    }

    /// All but hellos and routing, which are sent with or without traffic.
    #[must_use]
    pub fn traffic(&self) -> Tally {
        let mut traffic = self.total();
        for other in [Class::Hello, Class::Routing] {
            traffic.packets -= self[other].packets;
            traffic.octets -= self[other].octets;
        }
        traffic
    }
}

impl Index<Class> for ByClass {
    type Output = Tally;

    fn index(&self, class: Class) -> &Tally {
        &self.0[class as usize]
    }
}

impl IndexMut<Class> for ByClass {
    fn index_mut(&mut self, class: Class) -> &mut Tally {
        &mut self.0[class as usize]
    }
}

impl Add for ByClass {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
        self
    }
}

/// Counters of a port: a link in one direction, and the queue before it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PortCounters {
    /// Put on the link, whether or not they arrived.
    pub sent: ByClass,
    /// Of the packets sent, the packets lost by the link.
    pub lost: Tally,
    /// Dropped because the queue was full, where they entered the network.
    pub dropped_at_edge: Tally,
    /// Dropped because the queue was full, after they had crossed a link.
    pub dropped_inside: Tally,
    /// Dropped because the link was down.
    pub dropped_down: Tally,
    /// Marked, because enough waited (ECN).
    pub marked: Tally,
    /// TCP acknowledgements that left the queue because a newer one took their place.
    pub thinned_acks: Tally,
    /// The most packets that ever waited.
    pub longest_queue: usize,
}

impl Add for PortCounters {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self.sent = self.sent + other.sent;
        self.lost += other.lost;
        self.dropped_at_edge += other.dropped_at_edge;
        self.dropped_inside += other.dropped_inside;
        self.dropped_down += other.dropped_down;
        self.marked += other.marked;
        self.thinned_acks += other.thinned_acks;
        self.longest_queue = self.longest_queue.max(other.longest_queue);
        self
    }
}

base::counters! {
    /// What happened to packets in a node's IP stack.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct NodeCounters {
        /// Received from a link.
        pub received: counter(packets);
        /// Passed on to a link.
        pub forwarded: counter(packets);
        /// Given to this node itself.
        pub delivered: counter(packets);
        /// Made by this node.
        pub originated: counter(packets);
        /// ICMP errors sent.
        pub errors_sent: counter(messages);
        /// ICMP errors understood.
        pub errors_received: counter(messages);
        /// Dropped: no IP packet.
        pub malformed: counter(packets);
        /// Dropped: wrong or damaged transport header.
        pub malformed_transport: counter(packets);
        /// Dropped: no route.
        pub no_route: counter(packets);
        /// Dropped: the hops were used up.
        pub hops_exceeded: counter(packets);
        /// Dropped: too long for the link.
        pub too_big: counter(packets);
        /// Dropped: fragments, which hosts here do not put together.
        pub fragments: counter(packets);
        /// Dropped: nobody listens.
        pub unwanted: counter(packets);
        /// Connections not made because there were too many, or one with the same ends.
        pub connections_refused: counter(connections);
        /// Broadcasts for others, as their list said (RFC 1770).
        pub not_listed: counter(packets);
        /// TCP connections refused because all passive opens of their port were taken.
        pub passive_opens_missing: counter(connections);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_counts_as_what_its_transport_carries() {
        let packet = |protocol, payload: &[u8]| {
            let (a, b) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
            let mut packet = Vec::new();
            base::ip::Spec::new(a, b, protocol).emit(payload.len(), &mut packet);
            packet.extend_from_slice(payload);
            packet
        };
        let mut segment = [0; 33];
        segment[12] = 8 << 4;

        let class = |packet: &[u8]| Class::of(packet, |_, _| None);

        assert_eq!(class(&packet(protocol::TCP, &segment)), Class::Data);
        assert_eq!(class(&packet(protocol::TCP, &segment[..32])), Class::Ack);
        assert_eq!(class(&packet(protocol::ICMP, &[8, 0])), Class::Other);
        for segment in [&segment[..], &segment[..32]] {
            let mut tunnelled = packet(protocol::TCP, segment);
            minimal::encapsulate(&mut tunnelled, [10, 0, 0, 3].into()).unwrap();
            assert_eq!(class(&tunnelled), class(&packet(protocol::TCP, segment)));
        }
        let endless = [protocol::MINIMAL, 0, 0, 0, 10, 0, 0, 4].repeat(3);
        assert_eq!(class(&packet(protocol::MINIMAL, &endless)), Class::Other);
        assert_eq!(class(&packet(protocol::MINIMAL, &endless[..7])), Class::Other);
        assert_eq!(class(&[]), Class::Other);
    }
}

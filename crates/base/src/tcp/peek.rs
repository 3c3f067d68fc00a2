//! Reads passing segments: the few facts that queues and gateways need.

use super::wire::{Flags, HEADER, header_len};
use crate::ip::{FlowKey, Header, protocol};

/// The content of a segment's fixed header (RFC 9293, 3.1). Checksum and options are not checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peek {
    /// The sequence number of the first octet, or of SYN.
    pub seq: u32,
    /// The next octet expected; counts when ACK is set.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Octets of payload.
    pub len: u32,
}

impl Peek {
    /// Looks at the segment that starts at `offset` of an IP packet of the flow `key`; `None` when it
    /// is none, a fragment, or cut.
    #[must_use]
    pub fn of(key: &FlowKey, header: &Header, packet: &[u8], offset: usize) -> Option<Self> {
        // A fragment has no ports.
        if key.protocol != protocol::TCP || (key.source_port, key.destination_port) == (0, 0) {
            return None;
        }
        let segment = packet.get(offset..header.total_len)?;
        let fixed = segment.first_chunk::<HEADER>()?;
        let len = segment.len().checked_sub(header_len(fixed))?;
        let number = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let (seq, ack, flags) = (number(4), number(8), Flags(fixed[13]));
        Some(Self { seq, ack, flags, len: u32::try_from(len).ok()? })
    }

    /// The length of the segment in sequence space.
    #[must_use]
    #[inline]
    pub fn occupies(self) -> u32 {
        self.len + u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN))
    }

    /// The sequence number behind it.
    #[must_use]
    pub fn end(self) -> u32 {
        self.seq.wrapping_add(self.occupies())
    }

    /// Whether it opens a connection.
    #[must_use]
    pub fn is_syn(self) -> bool {
        self.flags.has(Flags::SYN)
    }

    /// Whether it resets a connection.
    #[must_use]
    pub fn is_reset(self) -> bool {
        self.flags.has(Flags::RST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::rewrite_v4_checksum;
    use crate::tcp::{Options, Segment, Timestamps};

    #[test]
    fn a_look_sees_what_a_segment_says_and_nothing_of_a_part_of_one() {
        let timestamps = Some(Timestamps { value: 1, echo: 2 });
        let mut packet = Vec::new();
        Segment {
            source: "10.0.0.1:1".parse().unwrap(),
            destination: "10.0.0.2:2".parse().unwrap(),
            seq: u32::MAX,
            ack: 7,
            flags: Flags::ACK | Flags::FIN,
            window: 0,
            urgent: 0,
            options: Options { timestamps, ..Options::default() },
            payload: b"four",
            ttl: 1,
            traffic_class: 0,
            dont_fragment: false,
        }
        .emit(&mut packet);
        let look = |packet: &[u8], total_len| {
            let header = Header { total_len, ..Header::parse(packet).unwrap() };
            let (key, offset) = FlowKey::of(&header, packet);
            Peek::of(&key, &header, packet, offset)
        };

        let seen = look(&packet, packet.len()).unwrap();

        assert_eq!((seen.seq, seen.ack, seen.len), (u32::MAX, 7, 4));
        assert_eq!((seen.occupies(), seen.end()), (5, 4));
        assert!(!seen.is_syn() && !seen.is_reset());
        packet[20 + 13] = (Flags::SYN | Flags::RST).0;
        let flagged = look(&packet, packet.len()).unwrap();
        assert!(flagged.is_syn() && flagged.is_reset());
        assert_eq!(flagged.occupies(), 5);
        // Cut in its options, in its fixed header, and the first fragment of a packet.
        assert_eq!(look(&packet, 20 + 20), None);
        assert_eq!(look(&packet, 20 + 12), None);
        packet[6] |= 0x20;
        rewrite_v4_checksum(&mut packet[..20]);
        assert_eq!(look(&packet, packet.len()), None);
    }
}

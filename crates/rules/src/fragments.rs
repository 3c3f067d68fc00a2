//! Remembers the rule that decided on the first fragment of a packet: the later fragments follow the same rule.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use base::ip::{Fragment, Header};

/// First fragments remembered at most. At the limit the oldest of the source with most entries is forgotten, so no source
/// displaces the others.
pub const LIMIT: usize = 1_024;

/// The decisions on fragmented packets, by packet.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    decided: BTreeMap<Packet, Decided>,
    /// The packets of each source, the youngest last.
    by_source: BTreeMap<IpAddr, VecDeque<Packet>>,
}

/// The identity of a fragmented packet (RFC 791, 2.3; RFC 8200, 4.5).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Packet {
    source: IpAddr,
    destination: IpAddr,
    /// Only for IPv4: the next header field of later IPv6 fragments does not count.
    protocol: Option<u8>,
    ident: u32,
}

/// The decision on a first fragment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decided {
    /// The place of the rule.
    pub rule: Option<usize>,
    /// Whether a peer splits the packet's TCP connection.
    pub is_split: bool,
    /// The length of the packet's headers: no other fragment may write there.
    pub headers: usize,
}

impl Packet {
    fn of(header: &Header, fragment: Fragment) -> Self {
        let Header { source, destination, .. } = *header;
        let protocol = header.is_v4().then_some(header.protocol);
        Self { source, destination, protocol, ident: fragment.ident }
    }
}

impl Fragments {
    /// Remembers the decision on a first fragment.
    pub fn handle_first(&mut self, header: &Header, fragment: Fragment, what: Decided) {
        let packet = Packet::of(header, fragment);
        if let Some(before) = self.decided.get_mut(&packet) {
            // A duplicate, or a reused identification: other fragments may write to the headers of neither.
            *before = Decided { headers: what.headers.max(before.headers), ..what };
            return;
        }
        if self.decided.len() >= LIMIT {
            self.forget_one();
        }
        self.decided.insert(packet, what);
        self.by_source.entry(packet.source).or_default().push_back(packet);
    }

    /// The decision on the first fragment of the same packet, if the first fragment was seen.
    pub fn find(&self, header: &Header, fragment: Fragment) -> Option<Decided> {
        self.decided.get(&Packet::of(header, fragment)).copied()
    }

    fn forget_one(&mut self) {
        let most = self.by_source.iter().max_by_key(|(_, packets)| packets.len());
        let Some(source) = most.map(|(source, _)| *source) else { return };
        if let Some(packets) = self.by_source.get_mut(&source) {
            if let Some(oldest) = packets.pop_front() {
                self.decided.remove(&oldest);
            }
            if packets.is_empty() {
                self.by_source.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base::ip::{Spec, protocol};

    use super::*;

    #[test]
    fn sources_are_forgotten_with_their_last_packet() {
        let mut fragments = Fragments::default();
        for number in 0..2 * u32::try_from(LIMIT).unwrap() {
            let source = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
            let mut packet = Vec::new();
            Spec::new(source, IpAddr::from([10, 9, 0, 1]), protocol::UDP).emit(0, &mut packet);
            let header = Header::parse(&packet).unwrap();
            let fragment =
                Fragment { offset: 0, more: true, ident: 7, kind: protocol::UDP, start: 0 };

            fragments.handle_first(
                &header,
                fragment,
                Decided { rule: None, is_split: false, headers: 8 },
            );
        }

        assert_eq!((fragments.decided.len(), fragments.by_source.len()), (LIMIT, LIMIT));
    }
}

//! Which peer an inner address belongs to.

use std::net::IpAddr;

use super::PeerId;
use crate::ip::Prefix;

/// Which peer may send from, and is sent to at, which inner addresses.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Routes {
    /// Ranges of one family, which do not overlap, in order.
    v4: Vec<Range>,
    v6: Vec<Range>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Range {
    first: u128,
    last: u128,
    peer: PeerId,
}

/// Two routes that overlap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Overlap {
    /// The position, in the list given, of the first.
    pub first: usize,
    /// The position of the second.
    pub second: usize,
}

impl Routes {
    /// The routes of all peers.
    ///
    /// # Errors
    /// When two overlap, be they of one peer or of two.
    pub fn new(routes: &[(PeerId, Prefix)]) -> Result<Self, Overlap> {
        let mut table = Self::default();
        for (second, (_, prefix)) in routes.iter().enumerate() {
            let earlier = &routes[..second];
            let first = earlier.iter().position(|(_, other)| other.overlaps(prefix));
            if let Some(first) = first {
                return Err(Overlap { first, second });
            }
        }
        for &(peer, prefix) in routes {
            let (first, last) = prefix.range();
            let ranges = if prefix.address().is_ipv4() { &mut table.v4 } else { &mut table.v6 };
            ranges.push(Range { first, last, peer });
        }
        table.v4.sort_by_key(|range| range.first);
        table.v6.sort_by_key(|range| range.first);
        Ok(table)
    }

    /// The peer that packets to this address go to.
    #[must_use]
    pub fn peer_for(&self, address: IpAddr) -> Option<PeerId> {
        let ranges = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        let address = Prefix::number(address);
        let after = ranges.partition_point(|range| range.first <= address);
        let range = ranges.get(after.checked_sub(1)?)?;
        (address <= range.last).then_some(range.peer)
    }

    /// Whether a packet's source belongs to the peer that it came from.
    #[must_use]
    pub fn is_allowed(&self, peer: PeerId, packet: &[u8]) -> bool {
        source(packet).and_then(|source| self.peer_for(source)) == Some(peer)
    }
}

fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(*packet.get(12..)?.first_chunk::<4>()?)),
        6 => Some(IpAddr::from(*packet.get(8..)?.first_chunk::<16>()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    const A: PeerId = PeerId(0);
    const B: PeerId = PeerId(1);

    #[test]
    fn addresses_belong_to_the_peer_of_their_route() {
        let routes = routes(&[(A, "10.1.0.0/16"), (B, "10.2.0.1/16"), (B, "fd00:2::/64")]);

        let peer_for = |address: &str| routes.peer_for(address.parse().unwrap());
        assert_eq!(peer_for("10.1.255.255"), Some(A));
        assert_eq!(peer_for("10.2.0.0"), Some(B));
        assert_eq!(peer_for("10.3.0.0"), None);
        assert_eq!(peer_for("10.0.255.255"), None);
        assert_eq!(peer_for("fd00:2::9"), Some(B));
        assert_eq!(peer_for("fd00:3::9"), None);
    }

    #[test]
    fn a_default_route_is_of_its_family_alone() {
        let routes = routes(&[(A, "0.0.0.0/0"), (B, "::/0")]);

        assert_eq!(routes.peer_for("255.255.255.255".parse().unwrap()), Some(A));
        assert_eq!(routes.peer_for("0.0.0.0".parse().unwrap()), Some(A));
        assert_eq!(routes.peer_for("::1".parse().unwrap()), Some(B));
    }

    #[test]
    fn overlapping_routes_are_refused() {
        let parse = |text: &str| text.parse::<Prefix>().unwrap();
        let list = [(A, parse("10.0.0.0/8")), (A, parse("fd00::/8")), (B, parse("10.2.0.0/16"))];

        assert_eq!(Routes::new(&list), Err(Overlap { first: 0, second: 2 }));
    }

    #[test]
    fn a_packet_is_allowed_by_its_source() {
        let routes = routes(&[(A, "10.1.0.0/16"), (B, "fd00:2::/64")]);
        let mut v4 = [0; 20];
        v4[0] = 0x45;
        v4[12..16].copy_from_slice(&[10, 1, 2, 3]);

        assert!(routes.is_allowed(A, &v4));
        assert!(!routes.is_allowed(B, &v4));
        assert!(!routes.is_allowed(A, &v4[..15]));
        assert!(!routes.is_allowed(A, &[]));
    }

    proptest! {
        #[test]
        fn a_network_holds_the_addresses_that_share_its_bits(
            address: u32, other: u32, bits in 0_u8..=32,
        ) {
            let prefix: Prefix = format!("{}/{bits}", Ipv4Addr::from(address)).parse().unwrap();
            let routes = Routes::new(&[(A, prefix)]).unwrap();
            let shift = 32 - u32::from(bits);
            let is_same = address.checked_shr(shift) == other.checked_shr(shift);

            prop_assert_eq!(routes.peer_for(Ipv4Addr::from(other).into()).is_some(), is_same);
        }
    }

    fn routes(list: &[(PeerId, &str)]) -> Routes {
        let list: Vec<_> = list.iter().map(|(peer, text)| (*peer, text.parse().unwrap())).collect();
        Routes::new(&list).unwrap()
    }
}

//! Finds the peer to which an inner address belongs.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use base::ip::Prefix;

use super::PeerId;

/// Inner addresses of each peer, for sources and destinations: the longest route to an address decides.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Routes {
    /// Ranges of one family in ascending order, without overlaps.
    v4: Vec<Range>,
    v6: Vec<Range>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Range {
    first: u128,
    last: u128,
    peer: PeerId,
}

/// Two routes to the same network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Twice {
    /// The position, in the list given, of the first.
    pub first: usize,
    /// The position of the second.
    pub second: usize,
}

impl Routes {
    /// The routes of all peers, which may lie within each other.
    ///
    /// # Errors
    /// When two routes have the same network, whether of one peer or of two.
    pub fn new(routes: &[(PeerId, Prefix)]) -> Result<Self, Twice> {
        let mut places = BTreeMap::new();
        for (second, (_, prefix)) in routes.iter().enumerate() {
            if let Some(first) = places.insert(prefix.network(), second) {
                return Err(Twice { first, second });
            }
        }
        let of_family = |is_v4: bool| {
            let its = routes.iter().filter(|(_, prefix)| prefix.address().is_ipv4() == is_v4);
            let ranges = its.map(|&(peer, prefix)| {
                let (first, last) = prefix.range();
                Range { first, last, peer }
            });
            flattened(ranges.collect())
        };
        Ok(Self { v4: of_family(true), v6: of_family(false) })
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
}

/// Turns nested ranges into ranges beside each other: where ranges lie within each other, the
/// innermost counts.
fn flattened(mut nested: Vec<Range>) -> Vec<Range> {
    // A range that contains others stands before them; two prefixes never overlap otherwise.
    nested.sort_by_key(|range| (range.first, Reverse(range.last)));
    let mut flat = Vec::with_capacity(2 * nested.len());
    let mut open: Vec<Range> = Vec::new();
    // The first address without a range in `flat` so far.
    let mut next = 0;
    for range in nested {
        while let Some(outer) = open.pop_if(|outer| outer.last < range.first) {
            push(&mut flat, next, outer.last, outer.peer);
            next = outer.last + 1;
        }
        if let (Some(outer), Some(before)) = (open.last(), range.first.checked_sub(1)) {
            push(&mut flat, next, before, outer.peer);
        }
        next = range.first;
        open.push(range);
    }
    while let Some(outer) = open.pop() {
        push(&mut flat, next, outer.last, outer.peer);
        // Nothing lies behind the last of all addresses.
        let Some(behind) = outer.last.checked_add(1) else { break };
        next = behind;
    }
    flat
}

fn push(flat: &mut Vec<Range>, first: u128, last: u128, peer: PeerId) {
    if first <= last {
        flat.push(Range { first, last, peer });
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
    fn a_network_is_of_one_peer_alone() {
        let parse = |text: &str| text.parse::<Prefix>().unwrap();
        let list = [(A, parse("10.0.0.0/8")), (A, parse("fd00::/8")), (B, parse("10.2.0.0/8"))];

        assert_eq!(Routes::new(&list), Err(Twice { first: 0, second: 2 }));
    }

    #[test]
    fn of_routes_within_each_other_the_longest_decides() {
        let routes = routes(&[
            (A, "10.2.0.0/16"),
            (B, "0.0.0.0/0"),
            (B, "10.2.3.4/32"),
            (A, "::/0"),
            (B, "ffff::/16"),
        ]);

        let peer_for = |address: &str| routes.peer_for(address.parse().unwrap());
        assert_eq!(peer_for("10.1.255.255"), Some(B));
        assert_eq!(peer_for("10.2.0.0"), Some(A));
        assert_eq!(peer_for("10.2.3.3"), Some(A));
        assert_eq!(peer_for("10.2.3.4"), Some(B));
        assert_eq!(peer_for("10.2.3.5"), Some(A));
        assert_eq!(peer_for("10.3.0.0"), Some(B));
        assert_eq!(peer_for("255.255.255.255"), Some(B));
        assert_eq!(peer_for("::"), Some(A));
        assert_eq!(peer_for("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), Some(B));
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

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

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn looking_up_is_looking_for_the_longest(
            list in proptest::collection::vec((any::<u16>(), 0_u8..=32, any::<bool>()), 0..12),
            asked: u16,
        ) {
            // Few bits differ, so that many lie within each other.
            let address = |bits: u16| Ipv4Addr::from(u32::from(bits) << 16 | u32::from(bits >> 8));
            let mut routes: Vec<(PeerId, Prefix)> = Vec::new();
            for (bits, len, is_a) in list {
                let prefix: Prefix = format!("{}/{len}", address(bits)).parse().unwrap();
                if routes.iter().all(|(_, other)| *other != prefix.network()) {
                    routes.push((if is_a { A } else { B }, prefix.network()));
                }
            }
            let asked = IpAddr::from(address(asked));
            let holding = routes.iter().filter(|(_, prefix)| prefix.contains(asked));
            let longest = holding.max_by_key(|(_, prefix)| prefix.bits()).map(|(peer, _)| *peer);

            prop_assert_eq!(Routes::new(&routes).unwrap().peer_for(asked), longest);
        }
    }

    fn routes(list: &[(PeerId, &str)]) -> Routes {
        let list: Vec<_> = list.iter().map(|(peer, text)| (*peer, text.parse().unwrap())).collect();
        Routes::new(&list).unwrap()
    }
}

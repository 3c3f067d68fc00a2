//! How much each network has used lately of a budget that all share.
//!
//! ```text
//!   192.0.2.7 ─▶ the address,         /24 ─┐        ┌ row 0 │ … │ until 12.1 s │ … │
//!   2001:db8::7 ─▶ the /64,           /48 ─┴ hash ─▶├ row 1 │ until 12.1 s │ … │ … │   the least of the four counts
//!                                                   └ …
//! ```
//! Each use puts a network's time of rest further into the future: the time until then is the network's debt, which
//! passes by itself. Debts stand in a count-min sketch (Cormode and Muthukrishnan, 2005) of fixed size:
//! a debt is never forgotten, however many networks there are. An idle network is taken for one in debt only if other
//! networks use all its places, which nobody can arrange without the secret key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use base::time::Time;

use super::mac::mac;
use super::wire::MAC;

/// Ranks are less than this.
pub const RANKS: u32 = 16;
/// Ranks due to the address, or to the IPv6 network of 64 bits of one subscriber.
const OWN_RANKS: u32 = 8;
/// Ranks due to the network around it, of an IPv4 provider's customer or of an IPv6 site.
const SITE_RANKS: u32 = RANKS - 1 - OWN_RANKS;
/// The debt for one use by an address. Each rank is such a debt.
const TURN: Duration = Duration::from_secs(30);
/// The debt for one use by an address, of the network around the address.
const SITE_TURN: Duration = Duration::from_millis(7_500);

const ROWS: usize = 4;
/// Places in each row, a power of two.
const PLACES: usize = 1 << 14;

/// The debts of all networks, in half a MiB once there is one.
pub struct Shares {
    key: [u8; MAC],
    /// The end of debt of the networks at each place, row after row; empty as long as nobody is in
    /// debt.
    until: Vec<Time>,
}

impl Shares {
    pub fn new(key: [u8; MAC]) -> Self {
        Self { key, until: Vec::new() }
    }

    /// The rank of an address: 0 without debt, and greater with more debt. Lower ranks go first.
    pub fn rank(&self, now: Time, ip: IpAddr) -> u32 {
        let [own, site] = networks(ip).map(|network| self.debt(now, self.places(network)));
        ranks(own).min(OWN_RANKS) + ranks(site).min(SITE_RANKS)
    }

    /// The address has used the budget once.
    pub fn note(&mut self, now: Time, ip: IpAddr) {
        if self.until.is_empty() {
            self.until = vec![Time::ZERO; ROWS * PLACES];
        }
        for (network, cost, most) in networks(ip)
            .into_iter()
            .zip([TURN, SITE_TURN])
            .zip([OWN_RANKS, SITE_RANKS])
            .map(|((network, cost), most)| (network, cost, most))
        {
            let places = self.places(network);
            let until = now + (self.debt(now, places) + cost).min(TURN * most);
            for place in places {
                // Greater debts of other networks stay.
                self.until[place] = self.until[place].max(until);
            }
        }
    }

    fn debt(&self, now: Time, places: [usize; ROWS]) -> Duration {
        let debts =
            places.map(|place| self.until.get(place).map_or(Duration::ZERO, |at| at.since(now)));
        debts.into_iter().min().unwrap_or_default()
    }

    /// One place in each row.
    fn places(&self, (address, bits): (IpAddr, u8)) -> [usize; ROWS] {
        let mut said = [0; 17];
        match address {
            IpAddr::V4(v4) => said[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => said[..16].copy_from_slice(&v6.octets()),
        }
        // No version has lengths that the other has.
        said[16] = bits;
        let hash = mac(&self.key, &said);
        std::array::from_fn(|row| {
            let drawn = u16::from_be_bytes([hash[2 * row], hash[2 * row + 1]]);
            row * PLACES + usize::from(drawn) % PLACES
        })
    }
}

/// The address or network of one subscriber, and the network around it, each with its length in
/// bits.
fn networks(ip: IpAddr) -> [(IpAddr, u8); 2] {
    match ip {
        IpAddr::V4(ip) => {
            let site = Ipv4Addr::from_bits(ip.to_bits() >> 8 << 8);
            [(ip.into(), 32), (site.into(), 24)]
        }
        IpAddr::V6(ip) => [64, 48].map(|bits| {
            let network = ip.to_bits() >> (128 - bits) << (128 - bits);
            (Ipv6Addr::from_bits(network).into(), bits)
        }),
    }
}

/// Turns in a debt, rounded up.
fn ranks(debt: Duration) -> u32 {
    u32::try_from(debt.as_nanos().div_ceil(TURN.as_nanos())).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn who_uses_more_has_a_greater_rank_until_time_has_passed() {
        let (mut shares, now) = (Shares::new([7; MAC]), Time::ZERO + TURN);
        let (much, near, far) = (ip("192.0.2.1"), ip("192.0.2.2"), ip("198.51.100.1"));

        let ranks: Vec<_> = (0..40)
            .map(|_| {
                shares.note(now, much);
                shares.rank(now, much)
            })
            .collect();

        assert_eq!(ranks[..5], [2, 3, 4, 5, 7], "four uses of a network are a rank");
        assert_eq!(ranks.last(), Some(&(RANKS - 1)));
        assert_eq!([near, far].map(|ip| shares.rank(now, ip)), [SITE_RANKS, 0]);
        assert_eq!(shares.rank(now + TURN * OWN_RANKS, much), 0);
    }

    #[test]
    fn an_ipv6_subscriber_has_64_bits_and_its_site_48() {
        let (mut shares, now) = (Shares::new([7; MAC]), Time::ZERO);

        shares.note(now, ip("2001:db8:0:1::1"));

        let rank = |text| shares.rank(now, ip(text));
        assert_eq!(["2001:db8:0:1::2", "2001:db8:0:2::1", "2001:db8:1:1::1"].map(rank), [2, 1, 0]);
    }

    #[test]
    fn thousands_in_debt_are_not_mistaken_for_one_who_is_not() {
        let (mut shares, now) = (Shares::new([7; MAC]), Time::ZERO);
        for network in 0..2_000_u128 {
            let network = (0x2001_0db8 << 32 | network) << 64;
            (0..20).for_each(|_| shares.note(now, Ipv6Addr::from_bits(network).into()));
        }

        let mistaken = (0..10_000_u32).filter(|other| {
            shares.rank(now, Ipv4Addr::from_bits(other << 9 | 10 << 24).into()) > 0
        });

        assert!(mistaken.count() < 20);
    }
}

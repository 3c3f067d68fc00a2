//! Remembers the path MTU to each gateway, from ICMP errors (RFC 1191).
//!
//! The sender of a packet in a half tunnel does not learn that the packet was too long: the ICMP error quotes the
//! tunnel's packet, and goes to the beginning of the tunnel. That node remembers the MTU (RFC 2003, section 5), and
//! refuses the next packet that is too long before it enters.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use base::time::Time;

/// How long a path's MTU holds before a longer one is tried (RFC 1191, 6.3).
const LIFETIME: Duration = Duration::from_secs(600);
/// The least MTU that is believed, in octets: all hosts take packets of this length (RFC 791), and a forger makes no
/// packet shorter.
const LEAST: usize = 576;
/// Most gateways remembered at once.
const GATEWAYS: usize = 16;

/// The paths' MTUs.
#[derive(Clone, Debug, Default)]
pub struct PathMtus {
    known: BTreeMap<Ipv4Addr, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    mtu: usize,
    until: Time,
}

impl PathMtus {
    /// Takes an error of a router: a packet of this many octets to `gateway` was longer than `mtu`.
    pub fn handle_too_big(&mut self, now: Time, gateway: Ipv4Addr, octets: usize, mtu: usize) {
        if mtu >= octets {
            return;
        }
        let known = Known { mtu: mtu.max(LEAST), until: now + LIFETIME };
        if self.known.len() == GATEWAYS && !self.known.contains_key(&gateway) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.until);
            if let Some(oldest) = oldest.map(|(gateway, _)| *gateway) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(gateway, known);
    }

    /// Octets that fit on the path to `gateway`, by an interface with this `mtu`.
    #[must_use]
    pub fn mtu(&self, now: Time, gateway: Ipv4Addr, mtu: usize) -> usize {
        let known = self.known.get(&gateway).filter(|known| now < known.until);
        known.map_or(mtu, |known| known.mtu.min(mtu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 3);

    #[test]
    fn a_path_keeps_its_mtu_for_ten_minutes() {
        let mut mtus = PathMtus::default();
        mtus.handle_too_big(Time::ZERO, GATEWAY, 1_500, 1_480);

        let other = Ipv4Addr::new(10, 128, 0, 4);
        let after = |seconds| Time::ZERO + Duration::from_secs(seconds);
        assert_eq!(mtus.mtu(after(599), GATEWAY, 1_500), 1_480);
        assert_eq!(mtus.mtu(after(599), GATEWAY, 1_400), 1_400);
        assert_eq!(mtus.mtu(after(599), other, 1_500), 1_500);
        assert_eq!(mtus.mtu(after(600), GATEWAY, 1_500), 1_500);
    }

    #[test]
    fn errors_that_cannot_be_are_not_believed() {
        let mut mtus = PathMtus::default();
        mtus.handle_too_big(Time::ZERO, GATEWAY, 1_400, 1_400);
        assert_eq!(mtus.mtu(Time::ZERO, GATEWAY, 1_500), 1_500);
        mtus.handle_too_big(Time::ZERO, GATEWAY, 1_500, 0);
        assert_eq!(mtus.mtu(Time::ZERO, GATEWAY, 1_500), LEAST);
    }

    #[test]
    fn so_many_gateways_are_remembered_and_no_more() {
        let mut mtus = PathMtus::default();
        for gateway in 0..=16 {
            let at = Time::ZERO + Duration::from_secs(u64::from(gateway));
            mtus.handle_too_big(at, Ipv4Addr::new(10, 0, 0, gateway), 1_500, 1_000);
        }
        let mtu = |gateway| mtus.mtu(Time::ZERO, Ipv4Addr::new(10, 0, 0, gateway), 1_500);
        assert_eq!((mtu(0), mtu(1), mtu(16)), (1_500, 1_000, 1_000));
    }
}

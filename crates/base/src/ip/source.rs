//! Checks the source addresses of packets that arrive through a tunnel or by radio.
//!
//! ```text
//!   sender (a peer, a node, a router) ──▶ packet ──▶ check_source ──▶ the kernel
//!                                                        └─ BadSource: dropped, counted in BadSources
//! ```
//! The kernel cannot check it: to the kernel all packets of a device come from that device, whoever sent them.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// Why the source address of a packet cannot be true.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadSource {
    /// It is multicast, broadcast, loopback, unspecified or reserved.
    #[error("its source is not the address of one host")]
    NotUnicast,
    /// The source is an address of the receiving host itself.
    #[error("its source is an address of this host")]
    Own,
    /// The configuration has it behind somebody else than the sender.
    #[error("its source belongs to another peer or node")]
    NotTheirs,
}

crate::counters! {
    /// Counters of packets dropped for their source address.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct BadSources {
        /// Packets received and dropped: their source is an address of this host.
        pub packets_from_self: counter(packets);
        /// Packets received and dropped: their source is behind another peer, node or router.
        pub packets_disallowed: counter(packets);
        /// Packets received and dropped: their source is not the address of one host.
        pub packets_not_unicast: counter(packets);
    }
}

impl BadSources {
    /// Counts a packet.
    pub fn count(&mut self, why: BadSource) {
        match why {
            BadSource::NotUnicast => self.packets_not_unicast += 1,
            BadSource::Own => self.packets_from_self += 1,
            BadSource::NotTheirs => self.packets_disallowed += 1,
        }
    }
}

/// Checks the source address of a received packet; `own` are all addresses of this host, and `may_send` says
/// whether the sender may use an address that is not among these. What is too short or no IP has no source.
///
/// # Errors
/// When the packet is to be dropped.
pub fn check_source(
    packet: &[u8],
    own: &BTreeSet<IpAddr>,
    may_send: impl FnOnce(IpAddr) -> bool,
) -> Result<(), BadSource> {
    let source = source(packet).ok_or(BadSource::NotUnicast)?;
    if own.contains(&source) {
        Err(BadSource::Own)
    } else if !is_unicast(source) {
        Err(BadSource::NotUnicast)
    } else if !may_send(source) {
        Err(BadSource::NotTheirs)
    } else {
        Ok(())
    }
}

/// The address that a packet comes from.
fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(*packet.get(12..)?.first_chunk::<4>()?)),
        6 => Some(IpAddr::from(*packet.get(8..)?.first_chunk::<16>()?)),
        _ => None,
    }
}

/// Whether an address belongs to a single host and may be seen on a link: 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/4,
/// 240.0.0.0/4, `::`, `::1`, `ff00::/8` and IPv4-mapped addresses do not (RFC 6890, RFC 4942).
#[must_use]
pub fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => (1..224).contains(&v4.octets()[0]) && !v4.is_loopback(),
        IpAddr::V6(v6) => {
            let is_mapped = v6.to_ipv4_mapped().is_some();
            !(v6.is_multicast() || v6.is_unspecified() || v6.is_loopback() || is_mapped)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    /// The beginning of a packet, up to and including the source address.
    fn from(address: &str) -> Vec<u8> {
        match at(address) {
            IpAddr::V4(v4) => [&[0x45; 12][..], &v4.octets()].concat(),
            IpAddr::V6(v6) => [&[0x60; 8][..], &v6.octets()].concat(),
        }
    }

    #[test]
    fn a_packet_comes_from_one_host_which_is_another_and_the_sender_s() {
        let own = BTreeSet::from([at("10.1.0.1"), at("fd01::1")]);
        let check = |source: &str| {
            check_source(&from(source), &own, |it| it == at("10.2.0.9") || it == at("fe80::2"))
        };

        for allowed in ["10.2.0.9", "fe80::2"] {
            assert_eq!(check(allowed), Ok(()), "{allowed}");
        }
        for (source, why) in [
            ("10.1.0.1", BadSource::Own),
            ("fd01::1", BadSource::Own),
            ("10.2.0.8", BadSource::NotTheirs),
            ("fd01::2", BadSource::NotTheirs),
        ] {
            assert_eq!(check(source), Err(why), "{source}");
        }
    }

    #[test]
    fn nobody_sends_from_an_address_that_is_not_one_host_s() {
        for source in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "224.0.0.1",
            "239.255.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "ff02::1",
            "::ffff:10.2.0.9",
        ] {
            let checked = check_source(&from(source), &BTreeSet::new(), |_| true);
            assert_eq!(checked, Err(BadSource::NotUnicast), "{source}");
        }
        for source in ["1.0.0.1", "223.255.255.254", "169.254.0.1", "fe80::1", "2001:db8::1"] {
            let packet = from(source);
            assert_eq!(check_source(&packet, &BTreeSet::new(), |_| true), Ok(()), "{source}");
            for short in [&[], &packet[..1], &packet[..packet.len() - 1], &[0x20; 40]] {
                let checked = check_source(short, &BTreeSet::new(), |_| true);
                assert_eq!(checked, Err(BadSource::NotUnicast), "{short:?}");
            }
        }
    }

    #[test]
    fn each_reason_has_its_counter() {
        let mut counted = BadSources::default();

        for why in [BadSource::NotUnicast, BadSource::Own, BadSource::NotTheirs, BadSource::Own] {
            counted.count(why);
        }

        let expected =
            BadSources { packets_from_self: 2, packets_disallowed: 1, packets_not_unicast: 1 };
        assert_eq!(counted, expected);
    }
}

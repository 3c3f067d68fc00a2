//! Minimal encapsulation: IPv4 packets within IPv4 (RFC 2004), the form of packets in a half tunnel to a gateway.
//!
//! ```text
//!  after the IP header, whose protocol is 55 and whose destination is the tunnel's end
//!   0                   1                   2                   3
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!  +---------------+-+-------------+-------------------------------+
//!  |   protocol    |S|      0      |           checksum            |  of this header alone
//!  +---------------+-+-------------+-------------------------------+
//!  |                 original destination address                  |
//!  +---------------------------------------------------------------+
//!  |                    original source address                    |  if S: another sends than did
//!  +---------------------------------------------------------------+
//! ```

use std::net::{IpAddr, Ipv4Addr};

use super::checksum::Checksum;
use super::header::{self, Header, rewrite_v4_checksum};
use super::protocol;

/// Octets that encapsulation by the source itself adds.
pub const OVERHEAD: usize = 8;
/// Octets of the header with the original source.
const LONG: usize = 12;
const SOURCE: u8 = 0x80;

/// Why a packet is not encapsulated, or why its content cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The checksum of the minimal header does not match.
    #[error("wrong checksum of the minimal header")]
    Checksum,
    /// It is a fragment: encapsulation has no room to say so (RFC 2004, 3.1).
    #[error("a fragment")]
    Fragment,
    /// It is not an IP packet.
    #[error("not an IP packet: {0}")]
    Ip(#[from] header::Malformed),
    /// The packet's protocol is not minimal encapsulation.
    #[error("protocol {0}")]
    Protocol(u8),
    /// It is longer than an IP packet can be.
    #[error("{octets} octets are too many for an IP packet")]
    TooLong {
        /// How many there would be.
        octets: usize,
    },
    /// It ends within the minimal header.
    #[error("cut within the minimal header")]
    Truncated,
    /// It is not IPv4.
    #[error("not IPv4")]
    Version,
}

/// Sends an IPv4 packet of this node to `end`, the node that forwards the packet to its destination.
///
/// # Errors
/// When it is no IPv4 packet, a fragment, or too long; it stays as it was.
pub fn encapsulate(packet: &mut Vec<u8>, end: Ipv4Addr) -> Result<(), Malformed> {
    let header = whole(packet)?;
    let IpAddr::V4(destination) = header.destination else { return Err(Malformed::Version) };
    let total = header.total_len + OVERHEAD;
    let claimed = u16::try_from(total).map_err(|_| Malformed::TooLong { octets: total })?;

    let mut minimal = [0; OVERHEAD];
    minimal[0] = header.protocol;
    minimal[4..].copy_from_slice(&destination.octets());
    let sum = Checksum::default().with(&minimal).finish();
    minimal[2..4].copy_from_slice(&sum.to_be_bytes());
    packet.truncate(header.total_len);
    packet.splice(header.len..header.len, minimal);
    packet[2..4].copy_from_slice(&claimed.to_be_bytes());
    packet[9] = protocol::MINIMAL;
    packet[16..20].copy_from_slice(&end.octets());
    rewrite_v4_checksum(&mut packet[..header.len]);
    Ok(())
}

/// Reads the encapsulation header without checking it, for observers of packets: the protocol, the destination and the
/// octets of the carried packet.
#[must_use]
pub fn carried(payload: &[u8]) -> Option<(u8, Ipv4Addr, &[u8])> {
    let &[protocol, flags, _, _, a, b, c, d] = payload.first_chunk::<OVERHEAD>()?;
    let len = if flags & SOURCE == 0 { OVERHEAD } else { LONG };
    Some((protocol, Ipv4Addr::new(a, b, c, d), payload.get(len..)?))
}

/// Restores a packet that came through a tunnel to its form at the tunnel's beginning, except for the hops.
///
/// # Errors
/// When it did not come through one, or is damaged; it stays as it was.
pub fn decapsulate(packet: &mut Vec<u8>) -> Result<(), Malformed> {
    let header = whole(packet)?;
    if header.protocol != protocol::MINIMAL {
        return Err(Malformed::Protocol(header.protocol));
    }
    let payload = &packet[header.len..header.total_len];
    let short = payload.first_chunk::<OVERHEAD>().ok_or(Malformed::Truncated)?;
    let has_source = short[1] & SOURCE != 0;
    let len = if has_source { LONG } else { OVERHEAD };
    let minimal = payload.get(..len).ok_or(Malformed::Truncated)?.to_vec();
    if Checksum::default().with(&minimal).finish() != 0 {
        return Err(Malformed::Checksum);
    }

    let total = u16::try_from(header.total_len - len).map_err(|_| Malformed::Truncated)?;
    packet.truncate(header.total_len);
    packet.drain(header.len..header.len + len);
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[9] = minimal[0];
    packet[16..20].copy_from_slice(&minimal[4..8]);
    if has_source {
        packet[12..16].copy_from_slice(&minimal[8..12]);
    }
    rewrite_v4_checksum(&mut packet[..header.len]);
    Ok(())
}

/// The header of an IPv4 packet that is no fragment.
fn whole(packet: &[u8]) -> Result<Header, Malformed> {
    let header = Header::parse(packet)?;
    if !header.is_v4() {
        return Err(Malformed::Version);
    }
    if header.fragment.is_some() {
        return Err(Malformed::Fragment);
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Spec;
    use super::*;

    const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);
    const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

    fn packet(payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let spec = Spec::new(HOST.into(), SERVER.into(), protocol::UDP);
        Spec { ident: 7, traffic_class: 0x28, ..spec }.emit(payload.len(), &mut packet);
        packet.extend_from_slice(payload);
        packet
    }

    #[test]
    fn the_source_adds_eight_octets() {
        let mut packet = packet(b"hello");

        encapsulate(&mut packet, GATEWAY).unwrap();

        let header = Header::parse(&packet).unwrap();
        assert_eq!((header.source, header.destination), (HOST.into(), GATEWAY.into()));
        assert_eq!((header.protocol, header.total_len, packet.len()), (55, 33, 33));
        // 0x1100 + 0xc000 + 0x0201 is 0xd301, whose complement is the checksum.
        assert_eq!(packet[20..], *b"\x11\x00\x2c\xfe\xc0\x00\x02\x01hello");
    }

    #[test]
    fn padding_behind_a_packet_stays_behind() {
        let sent = packet(b"hello");
        let mut packet = [&sent[..], b"padding"].concat();

        encapsulate(&mut packet, GATEWAY).unwrap();
        assert_eq!(packet.len(), sent.len() + OVERHEAD);
        packet.extend(b"padding");
        decapsulate(&mut packet).unwrap();

        assert_eq!(packet, sent);
    }

    #[test]
    fn an_observer_sees_what_is_carried_in_either_form() {
        let plain = b"\x11\x00\x2c\xfe\xc0\x00\x02\x01hello";
        let of_router = b"\x11\x80\x22\x79\xc0\x00\x02\x01\x0a\x00\x00\x05hello";

        for payload in [&plain[..], of_router] {
            assert_eq!(carried(payload), Some((protocol::UDP, SERVER, &b"hello"[..])));
        }
        assert_eq!((carried(&plain[..7]), carried(&of_router[..11])), (None, None));
    }

    #[test]
    fn a_router_that_encapsulates_says_whose_packet_it_is() {
        let mut sent = Vec::new();
        // 0x1180 + 0xc000 + 0x0201 + 0x0a00 + 0x0005 is 0xdd86.
        let payload = b"\x11\x80\x22\x79\xc0\x00\x02\x01\x0a\x00\x00\x05hello";
        let router = Ipv4Addr::new(10, 0, 0, 4);
        let spec = Spec::new(router.into(), GATEWAY.into(), protocol::MINIMAL);
        Spec { ident: 7, traffic_class: 0x28, ..spec }.emit(payload.len(), &mut sent);
        sent.extend_from_slice(payload);

        decapsulate(&mut sent).unwrap();

        assert_eq!(sent, packet(b"hello"));
    }

    #[test]
    fn what_is_not_encapsulated_stays_as_it_was() {
        let refused = |mut packet: Vec<u8>| {
            let before = packet.clone();
            let why = decapsulate(&mut packet).unwrap_err();
            assert_eq!(packet, before);
            why
        };
        let mut tunnelled = packet(b"");
        encapsulate(&mut tunnelled, GATEWAY).unwrap();
        let cut = |len: usize| {
            let mut packet = tunnelled[..len].to_vec();
            packet[3] = u8::try_from(len).unwrap();
            rewrite_v4_checksum(&mut packet[..20]);
            packet
        };
        let mut damaged = tunnelled.clone();
        damaged[25] ^= 1;
        let mut long = tunnelled.clone();
        long[21] = SOURCE;
        let mut fragment = tunnelled.clone();
        fragment[6] = 0x20;
        rewrite_v4_checksum(&mut fragment[..20]);

        assert_eq!(refused(packet(b"")), Malformed::Protocol(17));
        assert_eq!(refused(cut(27)), Malformed::Truncated);
        assert_eq!(refused(long), Malformed::Truncated);
        assert_eq!(refused(damaged), Malformed::Checksum);
        assert_eq!(refused(fragment), Malformed::Fragment);
        assert_eq!(
            refused(vec![0x60; 40]),
            Malformed::Ip(header::Malformed::Length { claimed: 0x6060 + 40, have: 40 })
        );
    }

    #[test]
    fn what_would_be_too_long_or_a_fragment_is_not_encapsulated() {
        let mut longest = packet(&vec![0; 65_535 - 20 - 7]);
        let mut fragment = packet(b"first");
        fragment[6] = 0x20;
        rewrite_v4_checksum(&mut fragment[..20]);

        let too_long = Malformed::TooLong { octets: 65_536 };
        assert_eq!(encapsulate(&mut longest, GATEWAY), Err(too_long));
        assert_eq!(encapsulate(&mut fragment, GATEWAY), Err(Malformed::Fragment));
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn the_end_of_a_tunnel_has_what_its_beginning_had(
            payload in prop::collection::vec(any::<u8>(), 0..60),
            end: Ipv4Addr,
        ) {
            let mut carried = packet(&payload);

            encapsulate(&mut carried, end).unwrap();
            decapsulate(&mut carried).unwrap();

            prop_assert_eq!(carried, packet(&payload));
        }

        #[test]
        fn any_octets_are_survived(
            source: Ipv4Addr,
            octets in prop::collection::vec(any::<u8>(), 0..40),
            raw in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut packet = Vec::new();
            Spec::new(source.into(), HOST.into(), protocol::MINIMAL).emit(octets.len(), &mut packet);
            packet.extend_from_slice(&octets);

            if decapsulate(&mut packet).is_ok() {
                prop_assert!(Header::parse(&packet).is_ok());
            }
            let mut raw = raw;
            _ = decapsulate(&mut raw);
            _ = encapsulate(&mut raw, HOST);
        }
    }
}

//! Checks which packets belong to a GRE tunnel.

use super::wire::{IPV4, IPV6};
use super::{Malformed, Packet};
use crate::ip::Header;

/// Why a packet in GRE is dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// The checksum is wrong.
    Checksum,
    /// The packet belongs to another tunnel between the two hosts, or to none.
    Key,
    /// The packet is not GRE, or contains no whole IP packet.
    Malformed,
    /// It carries neither IPv4 nor IPv6.
    Protocol,
}

/// The IP packet, without padding, in `octets`, which begin with the GRE header; `key` is the tunnel's. It stays where
/// it was received, and may be changed there.
///
/// # Errors
/// When it is not for the tunnel.
pub fn carried(octets: &mut [u8], key: Option<u32>) -> Result<&mut [u8], Refused> {
    let packet = Packet::parse(octets).map_err(|why| match why {
        Malformed::Checksum => Refused::Checksum,
        Malformed::Flags(_) | Malformed::Truncated { .. } | Malformed::Version(_) => {
            Refused::Malformed
        }
    })?;
    if packet.key != key {
        return Err(Refused::Key);
    }
    if ![IPV4, IPV6].contains(&packet.protocol) {
        return Err(Refused::Protocol);
    }
    let header = Header::parse(packet.payload).map_err(|_| Refused::Malformed)?;
    if header.source.is_ipv4() != (packet.protocol == IPV4) {
        return Err(Refused::Malformed);
    }
    let start = octets.len() - packet.payload.len();
    octets.get_mut(start..start + header.total_len).ok_or(Refused::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_of_the_tunnel_or_no_ip_is_refused() {
        let mut ip = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1];
        crate::ip::rewrite_v4_checksum(&mut ip);
        let packed = |key, protocol, payload: &[u8]| {
            let mut octets = Vec::new();
            Packet { key, protocol, payload }.emit(false, &mut octets);
            octets
        };
        let padded = [&ip[..], &[0; 3]].concat();

        let mut octets = packed(Some(7), IPV4, &padded);
        assert_eq!(carried(&mut octets, Some(7)), Ok(&mut ip[..]));
        for (mut octets, why) in [
            (packed(None, IPV4, &ip), Refused::Key),
            (packed(Some(8), IPV4, &ip), Refused::Key),
            (packed(Some(7), 0x6558, &ip), Refused::Protocol),
            (packed(Some(7), IPV6, &ip), Refused::Malformed),
            (packed(Some(7), IPV4, &ip[..19]), Refused::Malformed),
            (vec![0; 3], Refused::Malformed),
            (vec![0x80, 0, 8, 0, 0, 0, 0, 0], Refused::Checksum),
        ] {
            assert_eq!(carried(&mut octets, Some(7)), Err(why));
        }
    }

    #[test]
    fn a_packet_is_changed_where_it_was_received() {
        let mut ip = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1];
        crate::ip::rewrite_v4_checksum(&mut ip);
        let mut octets = Vec::new();
        Packet { key: None, protocol: IPV4, payload: &ip }.emit(true, &mut octets);

        carried(&mut octets, None).unwrap()[8] = 63;

        assert_eq!(octets[octets.len() - ip.len() + 8], 63);
    }
}

//! Selective directed broadcast (RFC 1770): an IPv4 option with the list of addressed hosts.
//!
//! ```text
//!  octet 0     1        2..6      6..10
//!      +-----+--------+---------+---------+-- - -
//!      | 149 | length | address | address | at most nine, then zeros up to 4 octets
//!      +-----+--------+---------+---------+-- - -
//! ```

use std::net::{IpAddr, Ipv4Addr};

use super::header::{Header, V4_HEADER, rewrite_v4_checksum};

/// Addresses that a list has at most: no more fit into a header.
pub const MOST: usize = 9;

/// The option: copied, of class 0, number 21.
const OPTION: u8 = 149;
const END: u8 = 0;
const NO_OPERATION: u8 = 1;

/// Inserts the list into an IPv4 packet without options. Returns false and leaves the packet unchanged if the packet is
/// unsuitable, an address is not IPv4, or there are too many.
pub fn list(packet: &mut Vec<u8>, addresses: &[IpAddr]) -> bool {
    let is_plain = packet.first() == Some(&0x45) && packet.len() >= V4_HEADER;
    if !is_plain || addresses.is_empty() || addresses.len() > MOST {
        return false;
    }
    let mut option = vec![OPTION, 0];
    for address in addresses {
        let IpAddr::V4(address) = address else { return false };
        option.extend_from_slice(&address.octets());
    }
    // Nine addresses are 38 octets.
    option[1] = option.len().to_le_bytes()[0];
    option.resize(option.len().next_multiple_of(4), END);
    let Ok(total) = u16::try_from(packet.len() + option.len()) else { return false };
    let len = V4_HEADER + option.len();
    packet.splice(V4_HEADER..V4_HEADER, option);
    packet[0] = 0x40 | (len / 4).to_le_bytes()[0];
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    rewrite_v4_checksum(&mut packet[..len]);
    true
}

/// Whether a broadcast addresses a host; `is_own` tells the addresses of the host. True if the packet's list contains
/// one of them, or if the packet has no list.
pub fn is_for(header: &Header, packet: &[u8], is_own: impl Fn(Ipv4Addr) -> bool) -> bool {
    if !header.is_v4() {
        return true;
    }
    let mut options = packet.get(V4_HEADER..header.len).unwrap_or_default();
    while let [kind, rest @ ..] = options {
        match (*kind, rest.first()) {
            (NO_OPERATION, _) => options = rest,
            (END, _) | (_, None) => return true,
            (kind, Some(length)) => {
                let length = usize::from(*length);
                if length < 2 || length > options.len() {
                    return true;
                }
                if kind == OPTION {
                    let (listed, _) = options[2..length].as_chunks::<4>();
                    return listed.iter().any(|octets| is_own(Ipv4Addr::from(*octets)));
                }
                options = &options[length..];
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::Spec;
    use crate::ip::udp::Datagram;

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, last)
    }

    fn packet(octets: usize) -> Vec<u8> {
        let mut packet = Vec::new();
        let payload = vec![7; octets];
        let source = (address(1), 1_624).into();
        let destination = (Ipv4Addr::BROADCAST, 1_624).into();
        Datagram { source, destination, payload: &payload }.emit(&mut packet);
        packet
    }

    fn is_for_host(packet: &[u8], last: u8) -> bool {
        let header = Header::parse(packet).expect("a packet");
        is_for(&header, packet, |own| own == address(last))
    }

    #[test]
    fn who_is_listed_is_meant_and_the_datagram_is_as_it_was() {
        let mut listed = packet(508);

        assert!(list(&mut listed, &[2, 3, 9].map(|last| address(last).into())));

        let header = Header::parse(&listed).expect("a packet");
        assert_eq!(header.len, 36, "14 octets, filled up to 16");
        let datagram = Datagram::parse(&header, &listed, header.len).expect("a datagram");
        assert_eq!(datagram.payload, vec![7; 508]);
        assert_eq!([1, 2, 3, 9].map(|last| is_for_host(&listed, last)), [false, true, true, true]);
    }

    #[test]
    fn a_packet_with_options_or_none_of_ipv4_gets_no_list() {
        let mut with_options = packet(8);
        assert!(list(&mut with_options, &[address(2).into()]));
        let cases = [
            (with_options, address(3).into()),
            (packet(8)[..19].to_vec(), address(3).into()),
            (vec![0x60; 40], address(3).into()),
            (packet(8), IpAddr::from([1; 16])),
        ];
        for (mut packet, address) in cases {
            let before = packet.clone();

            assert!(!list(&mut packet, &[address]));
            assert_eq!(packet, before);
        }
        assert!(!list(&mut packet(8), &[]));
    }

    #[test]
    fn a_packet_without_payload_gets_a_list() {
        let mut bare = Vec::new();
        Spec::new(address(1).into(), Ipv4Addr::BROADCAST.into(), 17).emit(0, &mut bare);

        assert!(list(&mut bare, &[address(2).into()]));
        assert_eq!([2, 3].map(|last| is_for_host(&bare, last)), [true, false]);
    }

    #[test]
    fn nine_fit_and_ten_do_not() {
        let addresses: Vec<IpAddr> = (1..=10).map(|last| address(last).into()).collect();
        let (plain, mut nine) = (packet(508), packet(508));

        assert!(list(&mut nine, &addresses[..9]));
        assert_eq!(nine.len(), 576);
        let mut ten = plain.clone();
        assert!(!list(&mut ten, &addresses));
        assert_eq!(ten, plain);
        assert!(is_for_host(&ten, 99), "without a list it is for all");
    }

    #[test]
    fn other_options_are_passed_over_and_broken_ones_mean_no_list() {
        let mut listed = packet(1);
        assert!(list(&mut listed, &[address(2).into()]));
        let with = |options: [u8; 8]| {
            let mut packet = listed.clone();
            packet[20..28].copy_from_slice(&options);
            rewrite_v4_checksum(&mut packet[..28]);
            is_for_host(&packet, 3)
        };

        assert!(!with([1, 149, 6, 10, 0, 0, 2, 0]));
        assert!(with([1, 149, 6, 10, 0, 0, 3, 0]));
        assert!(!with([68, 2, 149, 6, 10, 0, 0, 2]));
        for broken in [[149, 0, 0, 0, 0, 0, 0, 0], [149, 9, 10, 0, 0, 2, 0, 0]] {
            assert!(with(broken));
        }
    }
}

//! Lowers the maximum segment size in a SYN, so that TCP's packets leave room for the headers of a tunnel or of HBH
//! (RFC 4459, 3.2).

use super::{Header, V4_HEADER, V6_HEADER, protocol};
use crate::tcp::HEADER as TCP_HEADER;
use crate::tcp::header_len;

const FLAGS: usize = 13;
const SYN: u8 = 0x02;
const END: u8 = 0;
const NOTHING: u8 = 1;
const MSS: u8 = 2;

/// Lowers the segment size in a SYN to what packets of `mtu` octets carry; returns whether anything was changed.
///
/// The option limits the segments of the opposite direction. So whoever carries packets over a narrow link clamps SYNs
/// when they enter and when they leave: the other end may be older, or may know another MTU.
pub fn clamp(packet: &mut [u8], mtu: usize) -> bool {
    let Ok(header) = Header::parse(packet) else { return false };
    let headers = if header.is_v4() { V4_HEADER } else { V6_HEADER } + TCP_HEADER;
    let Some(at) = find(&header, packet) else { return false };
    let Ok(allowed) = u16::try_from(mtu.saturating_sub(headers)) else { return false };
    let asked = u16::from_be_bytes([packet[at], packet[at + 1]]);
    if asked <= allowed {
        return false;
    }

    let (old, new) = (asked.to_be_bytes(), allowed.to_be_bytes());
    packet[at..at + 2].copy_from_slice(&new);
    // At an odd offset the number's octets lie in other halves of the words summed up.
    let swap = at % 2 == 1;
    let word = |octets: [u8; 2]| {
        if swap { u16::from_le_bytes(octets) } else { u16::from_be_bytes(octets) }
    };
    let sum = &mut packet[header.transport.offset + 16..][..2];
    let updated = update(u16::from_be_bytes([sum[0], sum[1]]), word(old), word(new));
    sum.copy_from_slice(&updated.to_be_bytes());
    true
}

/// Whether a packet, or the first fragment of one, is a TCP segment with SYN.
#[must_use]
pub fn is_syn(header: &Header, packet: &[u8]) -> bool {
    let transport = header.transport;
    transport.is_whole
        && transport.protocol == protocol::TCP
        && packet.get(transport.offset + FLAGS).is_some_and(|flags| flags & SYN != 0)
}

/// Where the segment size is in a SYN.
fn find(header: &Header, packet: &[u8]) -> Option<usize> {
    if !is_syn(header, packet) {
        return None;
    }
    let transport = header.transport.offset;
    let tcp = packet.get(transport..header.total_len)?;
    let options_end = header_len(tcp.first_chunk()?);
    let mut at = TCP_HEADER;
    while at < options_end {
        match *tcp.get(at)? {
            END => return None,
            NOTHING => at += 1,
            kind => {
                let len = usize::from(*tcp.get(at + 1)?);
                if kind == MSS && len == 4 && at + 4 <= tcp.len().min(options_end) {
                    return Some(transport + at + 2);
                }
                at += len.max(2);
            }
        }
    }
    None
}

/// A checksum after a word it covers has changed (RFC 1624, equation 3).
fn update(sum: u16, old: u16, new: u16) -> u16 {
    let mut total = u32::from(!sum) + u32::from(!old) + u32::from(new);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    let [.., high, low] = total.to_be_bytes();
    !u16::from_be_bytes([high, low])
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::ip::{Checksum, Spec, pseudo_header};

    #[test]
    fn a_syn_asks_for_no_more_than_fits() {
        for (source, destination, mtu, expected) in [
            (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]), 1492, 1452_u16),
            (IpAddr::from([1; 16]), IpAddr::from([2; 16]), 1492, 1432),
            (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]), 1500, 1460),
        ] {
            for options in [&[2, 4, 0x05, 0xb4][..], &[1, 2, 4, 0x05, 0xb4, 1, 1, 0]] {
                let mut packet = segment(source, destination, SYN, options);
                let header = Header::parse(&packet).unwrap();

                let changed = clamp(&mut packet, mtu);

                let at = header.len + TCP_HEADER + if options[0] == 1 { 3 } else { 2 };
                assert_eq!(packet[at..at + 2], expected.to_be_bytes());
                assert_eq!(changed, mtu == 1492);
                assert_eq!(sum(&header, &packet), 0);
            }
        }
    }

    /// The first packet of `connect()` on Linux 6.18, over an Ethernet.
    const LINUX: [u8; 60] = [
        0x45, 0x00, 0x00, 0x3c, 0x2e, 0x1a, 0x40, 0x00, 0x40, 0x06, 0xf8, 0x9c, 0x0a, 0x01, 0x00,
        0x02, 0x0a, 0x02, 0x00, 0x01, 0xd0, 0x3a, 0x00, 0x50, 0xdc, 0xce, 0xfe, 0x1d, 0x00, 0x00,
        0x00, 0x00, 0xa0, 0x02, 0xfa, 0xf0, 0x5b, 0x6e, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04,
        0x02, 0x08, 0x0a, 0xc9, 0x88, 0x68, 0x98, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x0a,
    ];

    #[test]
    fn of_a_syn_of_linux_only_the_segment_size_and_the_checksum_change() {
        let mut packet = LINUX;

        assert!(clamp(&mut packet, 1_300));
        assert!(!clamp(&mut packet, 1_300), "the second time there is nothing left to do");

        let mut expected = LINUX;
        expected[42..44].copy_from_slice(&1_260_u16.to_be_bytes());
        // The sum of the other words has not changed: 200 less in one, 200 more in the other.
        expected[36..38].copy_from_slice(&(0x5b6e_u16 + 200).to_be_bytes());
        assert_eq!(packet, expected);
        assert_eq!(sum(&Header::parse(&packet).unwrap(), &packet), 0);
    }

    #[test]
    fn a_checksum_is_right_after_each_change_of_a_word() {
        let words = [0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff];
        let sum =
            |word: u16, rest: u16| Checksum::default().with_number(word).with_number(rest).finish();

        for (old, new) in words.iter().flat_map(|old| words.map(|new| (*old, new))) {
            for rest in [1, 0x1234, 0xffff] {
                assert_eq!(update(sum(old, rest), old, new), sum(new, rest), "{old} {new} {rest}");
            }
        }
    }

    #[test]
    fn nothing_but_a_syn_is_changed() {
        let ends = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        for (flags, options) in
            [(0x10, &[2, 4, 0x05, 0xb4][..]), (SYN, &[0, 2, 4, 0x05, 0xb4, 0, 0, 0]), (SYN, &[])]
        {
            let mut packet = segment(ends.0, ends.1, flags, options);
            let before = packet.clone();

            assert!(!clamp(&mut packet, 500));
            assert_eq!(packet, before);
        }
    }

    #[test]
    fn an_option_that_the_header_cuts_is_none_and_its_rest_is_payload() {
        let ends = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut packet = segment(ends.0, ends.1, SYN, &[1, 1, 2, 4, 0xff, 0xff, 0, 0]);
        packet[V4_HEADER + 12] = 6 << 4;
        let before = packet.clone();

        assert!(!clamp(&mut packet, 500));
        assert_eq!(packet, before);
    }

    /// The payload of a later fragment, from a file sent by TCP: looks like a SYN with a maximum segment size of 1,460
    /// octets.
    const LOOKS_LIKE_A_SYN: [u8; 24] =
        [0x0f, 0xa1, 1, 0xbb, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 2, 0x20, 0, 0, 0, 0, 0, 2, 4, 5, 0xb4];

    /// Extension headers of IPv6 before a fragment header, and the fragment's place: some cases clamp, others do not.
    #[test]
    fn what_only_looks_like_a_syn_in_a_later_fragment_stays_as_it_is() {
        let hop_by_hop = [protocol::V6_FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
        for (before, offset, more, is_clamped) in [
            (&[][..], 1_232_u16, 0, false),
            (&[], 1_232, 1, false),
            (&hop_by_hop, 8, 0, false),
            // The first fragment has the SYN, and one alone is a whole packet.
            (&[], 0, 1, true),
            (&hop_by_hop, 0, 1, true),
            (&[], 0, 0, true),
        ] {
            let ends = (IpAddr::from([1; 16]), IpAddr::from([2; 16]));
            let first = if before.is_empty() { protocol::V6_FRAGMENT } else { 0 };
            let mut packet = Vec::new();
            Spec::new(ends.0, ends.1, first)
                .emit(before.len() + 8 + LOOKS_LIKE_A_SYN.len(), &mut packet);
            packet.extend_from_slice(before);
            packet.extend_from_slice(&[protocol::TCP, 0]);
            packet.extend_from_slice(&(offset | more).to_be_bytes());
            packet.extend_from_slice(&[0, 0, 0, 7]);
            packet.extend_from_slice(&LOOKS_LIKE_A_SYN);
            let sent = packet.clone();

            assert_eq!(clamp(&mut packet, 1_280), is_clamped, "{offset} {more}");
            assert_eq!(packet == sent, !is_clamped, "{offset} {more}");
        }
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn no_options_make_it_panic(
            octets in prop::collection::vec(any::<u8>(), 0..60),
            mtu in 0_usize..2000,
        ) {
            let mut packet = Vec::new();
            let ends = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
            Spec::new(ends.0, ends.1, protocol::TCP).emit(octets.len(), &mut packet);
            packet.extend_from_slice(&octets);
            let header = Header::parse(&packet).unwrap();

            clamp(&mut packet, mtu);

            prop_assert_eq!(Header::parse(&packet), Ok(header));
        }
    }

    fn segment(source: IpAddr, destination: IpAddr, flags: u8, options: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let len = TCP_HEADER + options.len();
        Spec::new(source, destination, protocol::TCP).emit(len, &mut packet);
        let at = packet.len();
        let words = u8::try_from(len / 4).unwrap() << 4;
        packet.extend_from_slice(&[0x12, 0x34, 0, 80, 9, 8, 7, 6, 5, 4, 3, 2, words, flags]);
        packet.extend_from_slice(&[0xff, 0xff, 0, 0, 0, 0]);
        packet.extend_from_slice(options);
        let header = Header::parse(&packet).unwrap();
        let sum = sum(&header, &packet);
        packet[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    fn sum(header: &Header, packet: &[u8]) -> u16 {
        let tcp = &packet[header.len..];
        pseudo_header(header.source, header.destination, protocol::TCP, tcp.len())
            .with(tcp)
            .finish()
    }
}

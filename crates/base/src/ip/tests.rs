//! Headers, checksums, flows, ICMP errors and fragments.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::tcp;

const A: &str = "10.0.0.1";
const B: &str = "10.0.0.2";

#[test]
fn a_v4_header_is_the_octets_of_the_rfc() {
    let mut out = Vec::new();

    Spec { ident: 7, ..Spec::new(ip(A), ip(B), protocol::TCP) }.emit(0, &mut out);

    let expected = [
        0x45, 0x00, 0x00, 0x14, 0x00, 0x07, 0x40, 0x00, 0x40, 0x06, 0x26, 0xdb, 10, 0, 0, 1, 10, 0,
        0, 2,
    ];
    assert_eq!(out, expected);
}

#[test]
fn the_checksum_of_rfc_1071_section_3() {
    let sum = Checksum::default().with(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);

    assert_eq!(sum.finish(), !0xddf2);
}

#[test]
fn hops_run_out_at_one() {
    let mut packet = Vec::new();
    Spec { ttl: 2, ..Spec::new(ip(A), ip(B), protocol::UDP) }.emit(0, &mut packet);

    assert!(decrement_ttl(&mut packet));
    assert_eq!(Header::parse(&packet).unwrap().ttl, 1);
    assert!(!decrement_ttl(&mut packet));
}

#[test]
fn a_hop_can_be_given_back() {
    for (ttl, more) in [(2, 3), (254, 255), (255, 255)] {
        for (source, destination) in [(A, B), ("fd00::1", "fd00::2")] {
            let mut packet = Vec::new();
            Spec { ttl, ..Spec::new(ip(source), ip(destination), protocol::UDP) }
                .emit(0, &mut packet);

            increment_ttl(&mut packet);

            assert_eq!(Header::parse(&packet).unwrap().ttl, more);
        }
    }
}

#[test]
fn only_packets_that_speak_ecn_are_marked() {
    for (source, destination) in [(A, B), ("fd00::1", "fd00::2")] {
        for (class, marked) in [(ecn::NOT_ECT, None), (ecn::ECT_0, Some(ecn::CE))] {
            let mut packet = Vec::new();
            let spec = Spec::new(ip(source), ip(destination), protocol::UDP);
            Spec { traffic_class: class, ..spec }.emit(0, &mut packet);

            let outcome = mark_congestion(&mut packet);

            assert_eq!(outcome, marked.is_some());
            assert_eq!(Header::parse(&packet).unwrap().traffic_class, marked.unwrap_or(class));
        }
    }
}

#[test]
fn the_dscp_is_the_upper_six_bits_of_the_traffic_class() {
    for (source, destination) in [(A, B), ("fd00::1", "fd00::2")] {
        let mut packet = Vec::new();
        let spec = Spec::new(ip(source), ip(destination), protocol::UDP);
        Spec { traffic_class: 0xb9, ..spec }.emit(0, &mut packet);

        assert_eq!(dscp(&packet), 46);
    }
}

#[test]
fn ports_are_those_of_a_whole_header_of_tcp_or_udp() {
    for (source, destination) in [(A, B), ("fd00::1", "fd00::2")] {
        for (protocol, whole) in [(protocol::TCP, 20), (protocol::UDP, 8), (protocol::ICMP, 200)] {
            for octets in 4..30 {
                let mut packet = Vec::new();
                Spec::new(ip(source), ip(destination), protocol).emit(octets, &mut packet);
                packet.extend([0, 5, 0, 6]);
                packet.resize(packet.len() + octets - 4, 0);

                let ports = Header::parse(&packet).unwrap().ports(&packet);

                assert_eq!(ports, (octets >= whole).then_some((5, 6)), "{protocol}, {octets}");
            }
        }
    }
}

#[test]
fn ports_are_found_behind_v6_extension_headers() {
    let mut packet = Vec::new();
    Spec::new(ip("fd00::1"), ip("fd00::2"), 0).emit(8 + 24 + 8 + 8, &mut packet);
    packet.extend([51, 0, 1, 4, 0, 0, 0, 0]);
    // Authentication, in units of 4 octets.
    packet.extend([60, 4]);
    packet.extend([1; 22]);
    packet.extend([protocol::UDP, 0, 1, 4, 0, 0, 0, 0]);
    packet.extend([0, 5, 0, 6, 0, 8, 0, 0]);

    let (key, offset) = FlowKey::of(&Header::parse(&packet).unwrap(), &packet);

    assert_eq!((key.protocol, key.source_port, key.destination_port), (protocol::UDP, 5, 6));
    assert_eq!(offset, V6_HEADER + 40);
}

#[test]
fn a_header_longer_or_shorter_than_its_packet_is_refused() {
    let parse = |first: u8, total: u16| {
        let mut packet = Vec::new();
        Spec::new(ip(A), ip(B), protocol::UDP).emit(8, &mut packet);
        packet.resize(28, 0);
        packet[0] = first;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        let len = usize::from(first & 0x0f) * 4;
        if len <= packet.len() {
            packet[10..12].fill(0);
            let sum = Checksum::default().with(&packet[..len]).finish();
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Header::parse(&packet).map(|header| header.total_len)
    };

    assert_eq!(parse(0x45, 28), Ok(28));
    assert_eq!(parse(0x44, 28), Err(Malformed::HeaderLength(16)));
    assert_eq!(parse(0x48, 28), Err(Malformed::HeaderLength(32)));
    for claimed in [19, 29] {
        let have = 28;
        assert_eq!(
            parse(0x45, claimed),
            Err(Malformed::Length { claimed: claimed.into(), have }),
            "{claimed}"
        );
    }
}

#[test]
fn what_ends_before_its_transport_ends_within_the_packet() {
    let transport = |extension: &[u8], first: u8| {
        let mut packet = Vec::new();
        Spec::new(ip("fd00::1"), ip("fd00::2"), first).emit(extension.len(), &mut packet);
        packet.extend(extension);
        Header::parse(&packet).unwrap().transport
    };

    // Options that claim more than there is, before UDP and before further options.
    for next in [protocol::UDP, 60] {
        let cut = transport(&[next, 9, 1, 4, 0, 0, 0, 0], 0);
        assert_eq!((cut.protocol, cut.offset, cut.is_whole), (next, V6_HEADER + 8, false));
    }
    let nothing = transport(&[], protocol::NONE);
    assert_eq!((nothing.offset, nothing.is_whole), (V6_HEADER, true));
}

#[test]
fn what_no_later_fragment_may_contain_ends_with_the_transport_header() {
    let behind_options = |next: u8| {
        let packet = v6_fragment(60, 0, &[&[next, 0, 1, 4, 0, 0, 0, 0][..], &[0; 40]].concat());
        let header = Header::parse(&packet).unwrap();
        assert_eq!(header.fragment.map(|fragment| fragment.start), Some(V6_HEADER + 8));
        header.octets_of_headers()
    };

    assert_eq!([protocol::TCP, protocol::UDP].map(behind_options), [8 + 20, 8 + 8]);
}

#[test]
fn a_carry_out_of_64_bits_counts() {
    let sum = Checksum::default().with_number(u64::MAX).with_number(2_u64);

    // All ones are zero in this arithmetic.
    assert_eq!(sum.finish(), !2);
}

#[test]
fn what_may_not_be_fragmented_stays_whole() {
    let pieces = |source: &str, destination: &str, dont_fragment: bool, mtu: usize| {
        let (mut packet, mut pieces) = (Vec::new(), 0);
        let spec = Spec::new(ip(source), ip(destination), protocol::UDP);
        Spec { dont_fragment, ..spec }.emit(100, &mut packet);
        packet.resize(packet.len() + 100, 7);
        let header = Header::parse(&packet).unwrap();
        let is_done = fragment(&header, &packet, mtu, |_| pieces += 1);
        (is_done, pieces)
    };

    assert_eq!(pieces(A, B, false, 28), (true, 13));
    assert_eq!(pieces(A, B, false, 27), (false, 0));
    assert_eq!(pieces(A, B, true, 28), (false, 0));
    assert_eq!(pieces("fd00::1", "fd00::2", false, 60), (false, 0));
}

#[test]
fn fragments_of_a_packet_are_one_flow_whatever_they_begin_with() {
    let options = [protocol::TCP, 0, 1, 4, 0, 0, 0, 0];
    let first = [&options[..], &[0x13, 0x88, 0, 80], &[0; 16]].concat();
    let flows = [(0, &first[..]), (4, &[7; 8])].map(|(place, octets)| {
        let packet = v6_fragment(60, place, octets);
        let header = Header::parse(&packet).unwrap();
        (FlowKey::of(&header, &packet).0, header.ports(&packet), header.is_later_fragment())
    });

    assert_eq!(flows[0].0, flows[1].0);
    assert_eq!((flows[0].0.protocol, flows[0].0.destination_port), (60, 0));
    assert_eq!([flows[0].1, flows[1].1], [Some((5_000, 80)), None]);
    assert_eq!([flows[0].2, flows[1].2], [false, true]);
}

#[test]
fn a_lone_fragment_of_ipv6_is_a_whole_packet() {
    // RFC 6946: nothing before it, and nothing follows.
    let mut packet = v6_fragment(protocol::UDP, 0, &[0x13, 0x88, 0, 53, 0, 8, 0, 0]);
    packet[43] = 0;
    let header = Header::parse(&packet).unwrap();

    assert_eq!(header.fragment, None);
    assert_eq!(header.ports(&packet), Some((5_000, 53)));
    assert_eq!(FlowKey::of(&header, &packet).0.destination_port, 53);
}

#[test]
fn errors_of_ipv6_are_owed_to_first_fragments_that_are_no_errors() {
    let is_told =
        |packet: &[u8]| icmp::Error::TtlExceeded.emit(ip("fd00::9"), packet, &mut Vec::new());
    let options = [protocol::ICMPV6, 0, 1, 4, 0, 0, 0, 0];
    let behind_options = |kind: u8| {
        let mut packet = Vec::new();
        Spec::new(ip("fd00::1"), ip("fd00::2"), 60).emit(16, &mut packet);
        [&packet[..], &options, &[kind, 0, 0, 0, 0, 0, 0, 0]].concat()
    };

    assert!(is_told(&v6_fragment(protocol::UDP, 0, &[0; 16])));
    assert!(!is_told(&v6_fragment(protocol::UDP, 2, &[0; 16])));
    assert!(is_told(&behind_options(128)), "an echo request");
    assert!(!is_told(&behind_options(3)), "an error behind extension headers");
}

#[test]
fn errors_are_owed_only_to_hosts_about_packets_to_hosts() {
    let is_told = |source: &str, destination: &str| {
        let (mut packet, mut error) = (Vec::new(), Vec::new());
        Spec::new(ip(source), ip(destination), protocol::UDP).emit(0, &mut packet);
        let router = if ip(source).is_ipv4() { "10.0.0.9" } else { "fd00::9" };
        icmp::Error::TtlExceeded.emit(ip(router), &packet, &mut error)
    };

    for (a, b, others) in [
        (A, B, &["224.0.0.1", "255.255.255.255", "0.0.0.0"][..]),
        ("fd00::1", "fd00::2", &["ff02::1", "::"]),
    ] {
        assert!(is_told(a, b));
        for other in others {
            assert!(!is_told(other, b) && !is_told(a, other), "{other}");
        }
    }
}

#[test]
fn a_v6_datagram_needs_a_checksum_and_a_v4_one_does_not() {
    let parse = |source: &str, destination: &str| {
        let mut packet = Vec::new();
        Spec::new(ip(source), ip(destination), protocol::UDP).emit(8, &mut packet);
        let offset = packet.len();
        packet.extend([0, 5, 0, 6, 0, 8, 0, 0]);
        let header = Header::parse(&packet).unwrap();
        udp::Datagram::parse(&header, &packet, offset).map(|it| it.payload.len())
    };

    assert_eq!(parse(A, B), Ok(0));
    assert_eq!(parse("fd00::1", "fd00::2"), Err(udp::Malformed::Checksum));
}

#[test]
fn what_an_error_says_of_a_later_fragment_is_not_taken_for_a_header() {
    let report = |kind: u8, place: u16, before: &[u8]| {
        let segment = [&[0x13, 0x88, 0, 80, 1, 2, 3, 4][..], &[0; 12]].concat();
        let quoted = v6_fragment(kind, place, &[before, &segment].concat());
        let mut message = vec![1, 0, 0, 0, 0, 0, 0, 0];
        message.extend(&quoted);
        let mut packet = Vec::new();
        Spec::new(ip("fd00::9"), ip("fd00::1"), protocol::ICMPV6).emit(message.len(), &mut packet);
        packet.extend(&message);
        icmp::Report::parse(&Header::parse(&packet).unwrap(), &message)
    };

    assert_eq!(report(protocol::TCP, 1, &[]), None);
    let of_first = report(protocol::TCP, 0, &[]).unwrap();
    assert_eq!((of_first.flow.protocol, of_first.seq), (protocol::TCP, 0x0102_0304));
    let options = [protocol::TCP, 0, 1, 4, 0, 0, 0, 0];
    let flow = report(60, 0, &options).unwrap().flow;
    assert_eq!((flow.protocol, flow.destination_port), (protocol::TCP, 80));
}

/// A fragment of an IPv6 packet that more follow, whose fragmentable part begins with a header of this type, at so many
/// units of 8 octets.
fn v6_fragment(kind: u8, place: u16, octets: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let spec = Spec::new(ip("fd00::1"), ip("fd00::2"), protocol::V6_FRAGMENT);
    spec.emit(8 + octets.len(), &mut packet);
    packet.extend([kind, 0]);
    packet.extend(((place * 8) | 1).to_be_bytes());
    packet.extend([0, 0, 0, 7]);
    packet.extend(octets);
    packet
}

#[test]
fn an_error_is_read_from_its_packet_unless_it_is_damaged() {
    for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let (mut packet, mut error) = (Vec::new(), Vec::new());
        Spec::new(ip(from), ip(to), protocol::EXPERIMENT).emit(8, &mut packet);
        packet.extend([0; 8]);
        assert!(icmp::Error::ProtocolUnreachable.emit(ip(to), &packet, &mut error));
        let header = Header::parse(&error).unwrap();

        let report = icmp::Report::of_packet(&header, &error).unwrap();
        *error.last_mut().unwrap() ^= 1;
        let damaged = icmp::Report::of_packet(&header, &error);

        assert_eq!(report.error, Some(icmp::Error::ProtocolUnreachable));
        assert_eq!((report.flow.destination, report.flow.protocol), (ip(to), protocol::EXPERIMENT));
        assert_eq!(damaged, None);
    }
}

#[test]
fn each_error_is_read_as_it_was_written_with_the_flow_of_its_packet() {
    use icmp::Error::{HostUnreachable, PortUnreachable, ProtocolUnreachable, TooBig, TtlExceeded};
    let errors =
        [HostUnreachable, PortUnreachable, ProtocolUnreachable, TooBig { mtu: 1_280 }, TtlExceeded];
    for (from, to) in [("10.0.0.1:1000", "10.0.0.2:2000"), ("[fd00::1]:1000", "[fd00::2]:2000")] {
        let (source, destination) = (from.parse().unwrap(), to.parse().unwrap());
        let mut packet = Vec::new();
        tcp::Segment {
            seq: 0x0102_0304,
            payload: &[7; 1_400],
            ..tcp::Segment::bare(source, destination)
        }
        .emit(&mut packet);
        for error in errors {
            let mut message = Vec::new();
            assert!(error.emit(destination.ip(), &packet, &mut message));

            let header = Header::parse(&message).unwrap();
            let report = icmp::Report::of_packet(&header, &message).unwrap();

            assert_eq!(report.error, Some(error));
            assert_eq!(
                (report.flow.source, report.flow.destination),
                (source.ip(), destination.ip())
            );
            assert_eq!((report.flow.source_port, report.flow.destination_port), (1_000, 2_000));
            assert_eq!((report.seq, report.octets), (0x0102_0304, packet.len()));
            let longest = if source.is_ipv4() { 576 } else { 1_280 };
            assert_eq!(message.len(), longest, "as much of the packet as fits");
        }
    }
}

#[test]
fn how_much_a_router_quotes_is_no_part_of_the_size_that_fits() {
    let (mut packet, mut error) = (Vec::new(), Vec::new());
    Spec::new(ip(A), ip(B), protocol::UDP).emit(8, &mut packet);
    packet.extend([0; 8]);
    assert!(icmp::Error::TooBig { mtu: 1_492 }.emit(ip("10.0.0.9"), &packet, &mut error));
    let header = Header::parse(&error).unwrap();
    let message = &mut error[V4_HEADER..];

    // RFC 4884, 4.1: 32 words.
    message[5] = 32;

    let report = icmp::Report::parse(&header, message).unwrap();
    assert_eq!(report.error, Some(icmp::Error::TooBig { mtu: 1_492 }));
}

#[test]
fn no_error_answers_an_error() {
    let (mut packet, mut error, mut second) = (Vec::new(), Vec::new(), Vec::new());
    Spec::new(ip(A), ip(B), protocol::UDP).emit(0, &mut packet);

    assert!(icmp::Error::TooBig { mtu: 1492 }.emit(ip("10.0.0.9"), &packet, &mut error));
    assert!(!icmp::Error::TtlExceeded.emit(ip("10.0.0.8"), &error, &mut second));

    let header = Header::parse(&error).unwrap();
    assert_eq!(header.destination, ip(A));
    assert_eq!(error[20..22], [3, 4]);
    assert_eq!(error[26..28], 1492_u16.to_be_bytes());
    assert_eq!(Checksum::default().with(&error[20..]).finish(), 0);
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn no_octets_make_the_parsers_panic(octets in prop::collection::vec(any::<u8>(), 0..120)) {
        if let Ok(header) = Header::parse(&octets) {
            let (_, offset) = FlowKey::of(&header, &octets);
            let _ = udp::Datagram::parse(&header, &octets, offset);
            let mut out = Vec::new();
            let _ = icmp::Error::TtlExceeded.emit(ip(A), &octets, &mut out);
            let _ = fragment(&header, &octets, 28, |_| {});
            let mut copy = octets.clone();
            let _ = decrement_ttl(&mut copy);
            let _ = mark_congestion(&mut copy);
        }
    }

    #[test]
    fn fragments_carry_all_octets_each_at_its_place_and_none_beyond_the_longest_packet(
        place in prop_oneof![Just(0), 0..V4_PLACES, V4_PLACES - 200..V4_PLACES],
        more: bool,
        payload in prop::collection::vec(any::<u8>(), 1..2_000),
        mtu in 20_usize..1_501,
    ) {
        let spec = Spec::new(ip(A), ip(B), protocol::UDP);
        let mut packet = Vec::new();
        Spec { dont_fragment: false, ident: 7, ttl: 9, ..spec }.emit(payload.len(), &mut packet);
        packet[6..8].copy_from_slice(&(place | u16::from(more) << 13).to_be_bytes());
        rewrite_v4_checksum(&mut packet);
        packet.extend_from_slice(&payload);
        let header = Header::parse(&packet).unwrap();
        let base = usize::from(place) * 8;

        let (mut octets, mut last) = (Vec::new(), None);
        let done = fragment(&header, &packet, mtu, |piece| {
            assert!(piece.len() <= mtu && last != Some(false), "{} octets, {last:?}", piece.len());
            let its = Header::parse(piece).unwrap();
            let (at, goes_on) = its.fragment.map_or((0, false), |it| (it.offset, it.more));
            assert_eq!((at, its.total_len), (base + octets.len(), piece.len()));
            assert_eq!((its.ttl, its.source, its.destination), (9, ip(A), ip(B)));
            assert_eq!(piece[4..6], [0, 7], "the identification");
            octets.extend_from_slice(&piece[its.len..]);
            last = Some(goes_on);
        });

        let fits = V4_HEADER + base + payload.len() <= 0xffff;
        prop_assert_eq!(done, fits && mtu >= V4_HEADER + 8);
        prop_assert_eq!(last, done.then_some(more));
        let expected = if done { payload } else { Vec::new() };
        prop_assert!(octets == expected);
    }

    #[test]
    fn a_datagram_comes_back_as_it_went(
        payload in prop::collection::vec(any::<u8>(), 0..100),
        v6 in any::<bool>(),
    ) {
        let (a, b) = if v6 { ("[fd00::1]:5", "[fd00::2]:6") } else { ("10.0.0.1:5", "10.0.0.2:6") };
        let sent = udp::Datagram {
            source: a.parse().unwrap(),
            destination: b.parse().unwrap(),
            payload: &payload,
        };
        let mut packet = Vec::new();
        sent.emit(&mut packet);

        let header = Header::parse(&packet).unwrap();
        let received = udp::Datagram::parse(&header, &packet, header.len);

        prop_assert_eq!(received, Ok(sent));
    }

    #[test]
    fn a_flipped_bit_of_a_datagram_is_noticed(bit in 0_usize..(8 + 20) * 8) {
        let mut packet = Vec::new();
        let datagram = udp::Datagram {
            source: "10.0.0.1:5".parse().unwrap(),
            destination: "10.0.0.2:6".parse().unwrap(),
            payload: &[1; 20],
        };
        datagram.emit(&mut packet);
        packet[V4_HEADER + bit / 8] ^= 1 << (bit % 8);

        let header = Header::parse(&packet).unwrap();

        // A checksum of zero means none was sent, so a flip cannot reach it: it has over one bit.
        prop_assert!(udp::Datagram::parse(&header, &packet, header.len).is_err());
    }
}

/// Places that the field of a fragment has, in units of 8 octets.
const V4_PLACES: u16 = 1 << 13;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

use std::net::IpAddr;

use base::ip::Spec;
use proptest::prelude::*;

use super::*;

const ENDS: [(IpAddr, IpAddr); 2] = [
    (
        IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)),
        IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)),
    ),
    (IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)),
];

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn a_train_is_cut_into_whole_packets(
        is_v6 in any::<bool>(),
        is_tcp in any::<bool>(),
        payload in prop::collection::vec(any::<u8>(), 1..5_000),
        segment in 1_u16..1_500,
    ) {
        let (source, destination) = ENDS[usize::from(is_v6)];
        let protocol = if is_tcp { protocol::TCP } else { protocol::UDP };
        let headers: &[u8] = if is_tcp {
            &[0, 1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0x50, 0x19, 1, 1, 0, 0, 0, 0]
        } else {
            &[0, 1, 0, 2, 0, 0, 0, 0]
        };
        let mut packet = Vec::new();
        let spec = Spec::new(source, destination, protocol);
        spec.emit(headers.len() + payload.len(), &mut packet);
        packet.extend_from_slice(headers);
        packet.extend_from_slice(&payload);
        let kind = match (is_tcp, is_v6) {
            (true, false) => KIND_TCP4,
            (true, true) => KIND_TCP6,
            (false, _) => KIND_UDP,
        };
        if !is_v6 {
            packet[4..6].copy_from_slice(&[0xff, 0xfe]);
        }
        let offload = describe(kind, segment, spec.header_len());

        let mut cut = Vec::new();
        let (mut seqs, mut idents) = (Vec::new(), Vec::new());
        offload.segment(&mut packet, &mut Vec::new(), |piece| {
            let header = Header::parse(piece).unwrap();
            assert_eq!(header.total_len, piece.len());
            if !is_v6 {
                idents.push(u16::from_be_bytes([piece[4], piece[5]]));
            }
            let transport = &piece[header.len..];
            let sum = pseudo_header(source, destination, protocol, transport.len());
            assert_eq!(sum.with(transport).finish(), 0);
            if is_tcp {
                seqs.push(u32::from_be_bytes(transport[4..8].try_into().unwrap()));
                let is_last = cut.len() + transport.len() - headers.len() == payload.len();
                assert_eq!(transport[13], if is_last { 0x19 } else { 0x10 });
            }
            cut.extend_from_slice(&transport[headers.len()..]);
        }).unwrap();

        prop_assert_eq!(&cut, &payload);
        for (index, seq) in (0_u32..).zip(seqs) {
            prop_assert_eq!(seq, u32::MAX.wrapping_add(index * u32::from(segment)));
        }
        for (index, ident) in (0_u16..).zip(idents) {
            prop_assert_eq!(ident, 0xfffe_u16.wrapping_add(index), "counted up, past the end too");
        }
    }

    #[test]
    fn no_octets_make_it_panic(mut octets in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(offload) = Offload::parse(&octets, 14) {
            let packet = octets.get_mut(HEADER + 14..).unwrap_or_default();
            let mut pieces = 0;
            let _ = offload.segment(packet, &mut Vec::new(), |_| pieces += 1);
            prop_assert!(pieces <= 300);
        }
    }
}

#[test]
fn a_sum_that_was_left_open_is_completed() {
    let (source, destination) = ENDS[0];
    let mut packet = Vec::new();
    Spec::new(source, destination, protocol::UDP).emit(11, &mut packet);
    packet.extend_from_slice(&[0, 1, 0, 2, 0, 11, 0, 0, 7, 8, 9]);
    // The kernel leaves the sum over the pseudo header there, not complemented.
    let open = !pseudo_header(source, destination, protocol::UDP, 11).finish();
    packet[26..28].copy_from_slice(&open.to_be_bytes());
    let offload = Offload { needs_sum: true, sum_offset: 6, ..describe(KIND_NONE, 0, 20) };

    let mut sum = None;
    offload
        .segment(&mut packet, &mut Vec::new(), |packet| {
            let whole = pseudo_header(source, destination, protocol::UDP, 11);
            sum = Some(whole.with(&packet[20..]).finish());
        })
        .unwrap();

    assert_eq!(sum, Some(0));
}

/// Of UDP a sum of zero would say that there is none (RFC 768).
#[test]
fn a_sum_that_comes_to_zero_is_written_as_ones() {
    let (source, destination) = ENDS[0];
    let mut packet = Vec::new();
    Spec::new(source, destination, protocol::UDP).emit(10, &mut packet);
    packet.extend_from_slice(&[0, 1, 0, 2, 0, 10, 0, 0, 0, 0]);
    // With this payload all words make up 0xffff.
    let sum = pseudo_header(source, destination, protocol::UDP, 10).with(&packet[20..]).finish();
    packet[28..30].copy_from_slice(&sum.to_be_bytes());

    let mut pieces = Vec::new();
    describe(KIND_UDP, 100, 20)
        .segment(&mut packet, &mut Vec::new(), |piece| pieces.push(piece.to_vec()))
        .unwrap();

    assert_eq!(pieces.len(), 1);
    assert_eq!(pieces[0][26..28], [0xff, 0xff]);
}

#[test]
fn a_header_says_the_same_behind_another_one() {
    let open = [NEEDS_SUM, KIND_TCP4, 40, 0, 0xb4, 5, 20, 0, 16, 0, 0x45];
    let complete = [0; HEADER + 1];

    for train in [open, complete] {
        let (header, packet) = behind(&train, 14).unwrap();

        assert_eq!(Offload::parse(&header, 14), Offload::parse(&train, 0));
        assert_eq!(usize::from(header[2]), usize::from(train[2]) + usize::from(train[0]) * 14);
        assert_eq!(packet, &train[HEADER..]);
    }
    assert_eq!(behind(&open[..9], 14), None);
}

fn describe(kind: u8, segment: u16, sum_start: usize) -> Offload {
    let mut octets = [0; HEADER];
    octets[1] = kind;
    octets[4..6].copy_from_slice(&segment.to_ne_bytes());
    octets[6..8].copy_from_slice(&u16::try_from(14 + sum_start).unwrap().to_ne_bytes());
    Offload::parse(&octets, 14).unwrap()
}

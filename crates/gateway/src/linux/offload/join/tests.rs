use std::net::IpAddr;

use base::ip::Spec;
use proptest::prelude::*;

use super::*;
use crate::linux::offload::Offload;

const V4: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];

#[test]
fn segments_that_follow_each_other_become_one_train() {
    for is_v4 in [true, false] {
        let packets: Vec<_> =
            (0..5).map(|at| tcp(is_v4, 1_000, 1_000 + at * 100, TCP_ACK, 100)).collect();

        let written = joined(&packets);

        assert_eq!(written.len(), 1);
        assert_eq!(cut(&written[0]), strip(&packets));
    }
}

#[test]
fn a_short_or_pushed_segment_is_the_last() {
    let packets = [
        tcp(true, 1, 0, TCP_ACK, 100),
        tcp(true, 1, 100, TCP_ACK, 50),
        tcp(true, 1, 150, TCP_ACK, 50),
        tcp(true, 1, 200, TCP_ACK | TCP_PSH, 50),
        tcp(true, 1, 250, TCP_ACK, 50),
    ];

    let written = joined(&packets);

    let counts: Vec<_> = written.iter().map(|train| cut(train).len()).collect();
    assert_eq!(counts, [2, 2, 1]);
}

#[test]
fn what_differs_or_is_damaged_is_not_joined_but_stays_in_order() {
    let mut damaged = tcp(true, 1, 100, TCP_ACK, 100);
    *damaged.last_mut().unwrap() ^= 1;
    let mut marked = tcp(true, 1, 100, TCP_ACK, 100);
    marked[1] |= 3;
    ip::rewrite_v4_checksum(&mut marked[..20]);
    for second in [
        tcp(true, 1, 100, TCP_ACK | 1, 100),
        tcp(true, 1, 200, TCP_ACK, 100),
        tcp(true, 1, 100, TCP_ACK, 101),
        tcp(true, 1, 100, TCP_ACK, 0),
        damaged,
        marked,
    ] {
        let packets = [tcp(true, 1, 0, TCP_ACK, 100), second];

        let written = joined(&packets);

        let raw: Vec<_> = written.iter().map(|train| train[HEADER..].to_vec()).collect();
        assert_eq!(raw, packets);
    }
}

/// The kernel copies the first one's headers to all: what differs there would be lost.
#[test]
fn whatever_differs_in_a_header_is_not_joined() {
    for (is_v4, places) in [
        // Class, reserved bit, hops; reserved bits, acknowledgement, window, urgent pointer.
        (true, &[1, 6, 8, 32, 28, 34, 38][..]),
        // Class, flow label, hops; acknowledgement.
        (false, &[1, 3, 7, 48]),
    ] {
        for at in places {
            let first = tcp(is_v4, 1, 0, TCP_ACK, 100);
            let mut second = tcp(is_v4, 1, 100, TCP_ACK, 100);
            second[*at] ^= 1;
            let packets = [first, summed(second)];

            let written = joined(&packets);

            let raw: Vec<_> = written.iter().map(|train| train[HEADER..].to_vec()).collect();
            assert_eq!(raw, packets, "{is_v4} {at}");
        }
    }
}

#[test]
fn options_have_to_be_the_same() {
    let with_option = |seq, value| {
        let mut packet = tcp(true, 1, seq, TCP_ACK, 104);
        // The first word of the payload is one of options then.
        packet[32] = 6 << 4;
        packet[40..44].copy_from_slice(&[1, 1, 1, value]);
        summed(packet)
    };
    let counts = |second| {
        let written = joined(&[with_option(0, 1), with_option(100, second)]);
        written.len()
    };

    assert_eq!((counts(1), counts(0)), (1, 2));
}

#[test]
fn nothing_is_joined_to_what_was_damaged_before() {
    let mut first = tcp(true, 1, 0, TCP_ACK, 100);
    *first.last_mut().unwrap() ^= 1;
    let packets = [first, tcp(true, 1, 100, TCP_ACK, 100)];

    let written = joined(&packets);

    let raw: Vec<_> = written.iter().map(|train| train[HEADER..].to_vec()).collect();
    assert_eq!(raw, packets);
}

#[test]
fn a_train_has_64_segments_and_65535_octets_at_most() {
    for (len, most) in [(100, 64), (1_448, 45)] {
        let seq = |at: u32| at * u32::try_from(len).unwrap();
        let packets: Vec<_> = (0..70).map(|at| tcp(true, 1, seq(at), TCP_ACK, len)).collect();

        let written = joined(&packets);

        let counts: Vec<_> = written.iter().map(|train| cut(train).len()).collect();
        assert_eq!(counts, [most, 70 - most]);
        assert_eq!(
            written.iter().flat_map(|train| cut(train)).collect::<Vec<_>>(),
            strip(&packets)
        );
    }
}

/// A sum of zero says that there is none, and the kernel would make one, be it right by chance.
#[test]
fn datagrams_without_a_sum_stay_alone() {
    let mut datagram = udp(2);
    datagram[26..28].fill(0);
    datagram[28..30].fill(0);
    let ends = V4.map(IpAddr::from);
    let sum = pseudo_header(ends[0], ends[1], protocol::UDP, 10).with(&datagram[20..]).finish();
    datagram[28..30].copy_from_slice(&sum.to_be_bytes());
    let packets = [datagram.clone(), datagram];

    let written = joined(&packets);

    let raw: Vec<_> = written.iter().map(|train| train[HEADER..].to_vec()).collect();
    assert_eq!(raw, packets);
}

#[test]
fn flows_that_take_turns_are_joined_each() {
    let packets: Vec<_> =
        (0..8).map(|at| tcp(true, 1 + at % 2, u32::from(at / 2) * 100, TCP_ACK, 100)).collect();

    let written = joined(&packets);

    assert_eq!(written.len(), 2);
}

#[test]
fn datagrams_are_joined() {
    let packets: Vec<_> = (0..3).map(|_| udp(100)).collect();

    let written = joined(&packets);

    assert_eq!(written.len(), 1);
    assert_eq!(cut(&written[0]), strip(&packets));
}

#[test]
fn datagrams_stay_alone_where_the_kernel_takes_no_trains_of_them() {
    let packets: Vec<_> = (0..3).map(|_| udp(100)).collect();
    let mut joiner = Joiner::new(false);

    let mut written = Vec::new();
    for packet in &packets {
        joiner.push(packet, |train| written.push(train[HEADER..].to_vec()));
    }
    joiner.flush(|train| written.push(train[HEADER..].to_vec()));

    assert_eq!(written, packets);
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn no_packet_is_lost_or_changed_whatever_comes(
        packets in prop::collection::vec(
            (0_u16..3, 0_u32..4, any::<bool>(), prop::sample::select(vec![0_usize, 50, 100])),
            0..40,
        ),
        noise in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut packets: Vec<_> = packets
            .into_iter()
            .map(|(port, at, push, len)| {
                let flags = if push { TCP_ACK | TCP_PSH } else { TCP_ACK };
                tcp(true, port, at * 100, flags, len)
            })
            .collect();
        packets.push(noise);

        let mut out: Vec<Vec<u8>> =
            joined(&packets).iter().flat_map(|train| {
                if train[0] == 0 { vec![train[HEADER..].to_vec()] } else { cut(train) }
            }).collect();

        let mut expected = strip(&packets);
        let mut out_stripped = strip(&out);
        expected.sort();
        out_stripped.sort();
        prop_assert_eq!(out_stripped, expected);
        out.clear();
    }
}

fn joined(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut written = Vec::new();
    let mut joiner = Joiner::new(true);
    for packet in packets {
        joiner.push(packet, |train| written.push(train.to_vec()));
    }
    joiner.flush(|train| written.push(train.to_vec()));
    written
}

fn cut(train: &[u8]) -> Vec<Vec<u8>> {
    let offload = Offload::parse(train, 0).unwrap();
    let (mut packets, mut scratch) = (Vec::new(), Vec::new());
    let mut packet = train[HEADER..].to_vec();
    offload.segment(&mut packet, &mut scratch, |packet| packets.push(packet.to_vec())).unwrap();
    strip(&packets)
}

/// Without what a train numbers anew: the identification, and with it the checksum.
fn strip(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut packets = packets.to_vec();
    for packet in &mut packets {
        if packet.len() >= 20 && packet[0] == 0x45 {
            packet[4..6].fill(0);
            packet[10..12].fill(0);
        }
    }
    packets
}

fn tcp(is_v4: bool, port: u16, seq: u32, flags: u8, len: usize) -> Vec<u8> {
    let mut segment = vec![0; 20 + len];
    segment[..2].copy_from_slice(&port.to_be_bytes());
    segment[4..8].copy_from_slice(&seq.to_be_bytes());
    segment[12] = 5 << 4;
    segment[TCP_FLAGS] = flags;
    for (at, octet) in segment[20..].iter_mut().enumerate() {
        *octet = u8::try_from(at % 251).unwrap();
    }
    packet(is_v4, protocol::TCP, segment, 16)
}

fn udp(len: usize) -> Vec<u8> {
    let mut datagram = vec![7; 8 + len];
    let total = u16::try_from(8 + len).unwrap();
    datagram[4..6].copy_from_slice(&total.to_be_bytes());
    packet(true, protocol::UDP, datagram, 6)
}

fn packet(is_v4: bool, protocol: u8, mut segment: Vec<u8>, sum_at: usize) -> Vec<u8> {
    let ends =
        if is_v4 { V4.map(IpAddr::from) } else { [IpAddr::from([1; 16]), IpAddr::from([2; 16])] };
    segment[sum_at..sum_at + 2].fill(0);
    let sum = pseudo_header(ends[0], ends[1], protocol, segment.len()).with(&segment).finish();
    segment[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
    let mut packet = Vec::new();
    Spec::new(ends[0], ends[1], protocol).emit(segment.len(), &mut packet);
    packet.extend_from_slice(&segment);
    packet
}

/// The same with the sums that a segment of TCP should have.
fn summed(mut packet: Vec<u8>) -> Vec<u8> {
    let is_v4 = packet[0] >> 4 == 4;
    let (at, ends) = if is_v4 {
        ip::rewrite_v4_checksum(&mut packet[..20]);
        (20, V4.map(IpAddr::from))
    } else {
        (40, [IpAddr::from([1; 16]), IpAddr::from([2; 16])])
    };
    packet[at + 16..at + 18].fill(0);
    let segment = &packet[at..];
    let sum = pseudo_header(ends[0], ends[1], protocol::TCP, segment.len()).with(segment).finish();
    packet[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    packet
}

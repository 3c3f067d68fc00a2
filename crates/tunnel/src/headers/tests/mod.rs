//! Packets come out as they went in, whatever is lost, late or told late.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use base::ip::{Spec, ecn, mark_congestion, protocol};
use base::serial::low24;
use base::time::Time;
use proptest::prelude::*;

use super::{Compressor, Decompressor, NoContext, Packing, Place};

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn the_example_of_the_documentation() {
    let mut ends = Ends::default();
    let first = Segment { seq: 1_000, ack: 77, stamps: Some((5_000, 4_000)), ..Segment::default() };
    let later = Segment {
        seq: 1_000 + 1_386,
        ident: 1,
        stamps: Some((5_020, 4_010)),
        payload: 1_386,
        ..first
    };

    ends.carry(&first.packet());
    ends.now += 30 * MILLISECOND;
    let coded = ends.carry(&later.packet());

    let checksum = &later.packet()[36..38];
    let mut expected = vec![0b0001_1100, 0b0000_0101, 0, 1];
    expected.extend_from_slice(checksum);
    expected.extend_from_slice(&[0x00, 0x05, 0x6a, 0, 20, 0, 10]);
    assert_eq!(coded, Some(expected), "13 octets, and the context's number, for 52");
}

#[test]
fn a_context_is_used_only_after_the_peer_has_it() {
    let mut ends = Ends::default();
    let packet = |index: u32| Segment { seq: index * 100, ..Segment::default() }.packet();

    let packings = [1, 2, 3].map(|index| ends.pack(&packet(index)));
    assert!(matches!(packings[0], Packing::Announces(_)));
    assert!(matches!(packings[1..], [Packing::Whole, Packing::Whole]), "it may be lost");

    let Packing::Announces(id) = packings[0] else { unreachable!() };
    ends.far.handle_announcement(1, id, &packet(1));
    ends.tell();
    assert!(matches!(ends.pack(&packet(4)), Packing::Compressed(..)));
}

#[test]
fn a_context_that_was_lost_is_announced_again_after_a_while() {
    let mut ends = Ends::default();
    let packet = Segment::default().packet();
    assert!(matches!(ends.pack(&packet), Packing::Announces(_)));

    ends.now += 999 * MILLISECOND;
    assert!(matches!(ends.pack(&packet), Packing::Whole));
    ends.now += MILLISECOND;
    assert!(matches!(ends.pack(&packet), Packing::Announces(_)));
    // On a long path the answer takes longer.
    ends.rtt = Duration::from_secs(3);
    ends.now += Duration::from_secs(5);
    assert!(matches!(ends.pack(&packet), Packing::Whole));
    ends.now += Duration::from_secs(1);
    assert!(matches!(ends.pack(&packet), Packing::Announces(_)));
}

#[test]
fn a_place_is_taken_only_when_no_packet_that_needs_it_is_under_way() {
    let mut ends = Ends::default();
    let packet = |port: u16| datagram(port, 100);
    for port in 0..8 {
        assert!(matches!(ends.pack(&packet(port)), Packing::Announces(_)), "{port}");
    }
    ends.now += Duration::from_secs(10);

    assert!(matches!(ends.pack(&packet(8)), Packing::Whole), "all of them may still come");
    ends.floor = ends.source + 1;
    assert!(matches!(ends.pack(&packet(9)), Packing::Announces(_)));
}

#[test]
fn a_packet_of_a_context_that_was_replaced_is_dropped() {
    let mut far = Decompressor::default();
    far.handle_announcement(5, 1, &datagram(1, 10));
    far.handle_announcement(9, 1, &datagram(2, 10));
    far.handle_announcement(7, 1, &datagram(3, 10));

    let mut out = Vec::new();
    assert_eq!(far.restore(8, 1, &[0], &mut out), Err(NoContext), "it needs the one of source 5");
    assert_eq!(far.restore(9, 1, &[0], &mut out), Err(NoContext), "none needs its own source");
    assert_eq!(far.restore(10, 2, &[0], &mut out), Err(NoContext));
    assert!(out.is_empty());
    assert_eq!(far.restore(10, 1, &[0], &mut out), Ok(()));
    assert_eq!(out, datagram(2, 0)[..28], "a source that came late changes nothing");
}

#[test]
fn a_flow_that_has_come_far_gets_a_new_context_in_time() {
    let mut ends = Ends::default();
    let mut announced = 0;
    let mut longest = 0;
    for step in 0..40_000_u32 {
        ends.now += 10 * MILLISECOND;
        let stamps = Some((step * 10, step * 9));
        let segment =
            Segment { seq: step.wrapping_mul(1_400), stamps, ident: 1, ..Segment::default() };
        match ends.carry(&segment.packet()) {
            Some(coded) => longest = longest.max(coded.len()),
            None => announced += 1,
        }
    }

    assert!(longest <= 13, "{longest}: no number was too far from its context's");
    assert!((24..40).contains(&announced), "{announced} in 400 s, at least one in 16 s");
}

#[test]
fn many_flows_get_no_further_contexts_than_there_are() {
    let mut ends = Ends::default();
    let announced = (0..10_000).filter(|&flow| {
        ends.flow = flow;
        matches!(ends.pack(&datagram(u16::try_from(flow).unwrap(), 10)), Packing::Announces(_))
    });

    assert_eq!(announced.count(), super::CONTEXTS);
}

#[test]
fn flows_that_are_too_many_leave_each_other_their_places() {
    let mut ends = Ends::default();

    let whole = (0..900_u16).filter(|step| {
        ends.now += 10 * MILLISECOND;
        ends.carry(&datagram(step % 9, 100)).is_none()
    });

    assert_eq!(whole.count(), 8 + 100, "eight announcements, and all of the ninth flow");
}

#[test]
fn the_old_context_serves_until_the_new_one_is_there() {
    let mut ends = Ends::default();
    ends.carry(&datagram(0, 100));
    ends.now += Duration::from_secs(30);
    for port in 1..8 {
        ends.carry(&datagram(port, 100));
    }

    ends.now += Duration::from_secs(31);
    assert!(matches!(ends.pack(&datagram(0, 100)), Packing::Announces(_)), "it is old");

    assert!(matches!(ends.pack(&datagram(0, 100)), Packing::Compressed(..)));
}

#[test]
fn what_is_not_understood_goes_whole() {
    let plain = datagram(1, 100);
    let change = |at: usize, value: u8| {
        let mut packet = plain.clone();
        packet[at] ^= value;
        packet
    };
    let whole = [
        ("the checksum is wrong", change(10, 1)),
        ("a fragment", with_checksum(change(6, 0x20))),
        ("a later fragment", with_checksum(change(7, 1))),
        ("a length beyond the end", with_checksum(change(3, 1))),
        ("version 5", change(0, 0x10)),
        ("options", change(0, 3)),
        ("nothing", Vec::new()),
        ("one octet", vec![0x45]),
    ];

    for (why, packet) in whole {
        assert!(matches!(Ends::default().pack(&packet), Packing::Whole), "{why}");
    }
    for flags in [0x02, 0x12, 0x04, 0x11] {
        let packet = Segment { flags, ..Segment::default() }.packet();
        assert!(matches!(Ends::default().pack(&packet), Packing::Whole), "flags {flags:#x}");
    }
}

#[test]
fn a_mark_of_congestion_is_carried() {
    let mut ends = Ends::default();
    let mut packet = Segment { class: ecn::ECT_0, ..Segment::default() }.packet();
    ends.carry(&packet);

    assert!(mark_congestion(&mut packet));

    assert!(ends.carry(&packet).is_some(), "it is compressed, and checked to be the same");
}

/// A step of what happens between two ends.
#[derive(Clone, Debug)]
enum Step {
    /// What is under way at this place comes.
    Arrive(usize),
    GiveUp,
    Pack(Vec<u8>),
    /// The peer tells what it has; whether that comes.
    Tell(bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => packet().prop_map(Step::Pack),
        5 => (0_usize..6).prop_map(Step::Arrive),
        2 => any::<bool>().prop_map(Step::Tell),
        1 => Just(Step::GiveUp),
        1 => (0_u64..3_000).prop_map(Step::Wait),
    ]
}

/// A packet of one of a dozen flows, at times with anything changed in it.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let segment = (
        (any::<bool>(), 0_u16..5, prop_oneof![Just(0x10_u8), Just(0x18), any::<u8>()]),
        (near(), near(), 0_u16..3, 0_u16..3),
        (0_u8..4, prop::option::weighted(0.8, (near(), near())), 0_usize..4),
    )
        .prop_map(|((is_v6, port, flags), numbers, (class, stamps, sacks))| {
            let (seq, ack, window, ident) = numbers;
            let sacks = if stamps.is_some() { sacks.min(3) } else { sacks };
            let payload = usize::from(port) * 7;
            let own = Segment { is_v6, port, flags, seq, ack, window, ident, ..Segment::default() };
            Segment { class, stamps, sacks, payload, ..own }.packet()
        });
    let datagram = (0_u16..7, 0_usize..50).prop_map(|(port, payload)| datagram(port, payload));
    let other = prop::collection::vec(any::<u8>(), 0..30).prop_map(|octets| {
        let mut packet = Vec::new();
        spec(false, protocol::ICMP).emit(octets.len(), &mut packet);
        packet.extend_from_slice(&octets);
        packet
    });
    let change = prop::option::weighted(0.3, (0_usize..90, 0_u32..8, any::<bool>()));
    (prop_oneof![6 => segment, 3 => datagram, 1 => other], change).prop_map(
        |(mut packet, change)| {
            let Some((at, bit, is_corrected)) = change else { return packet };
            if let Some(octet) = packet.get_mut(at) {
                *octet ^= 1 << bit;
            }
            if is_corrected && packet[0] >> 4 == 4 { with_checksum(packet) } else { packet }
        },
    )
}

/// Numbers that are near each other around a wrap, and some that are not.
fn near() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => (0_u32..100_000).prop_map(|number| number.wrapping_sub(50_000)),
        1 => any::<u32>(),
    ]
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn what_arrives_is_what_was_sent(steps in prop::collection::vec(step(), 0..300)) {
        let mut ends = Ends::default();
        let mut under_way: Vec<(u64, Vec<u8>, Packing)> = Vec::new();
        for step in steps {
            match step {
                Step::Pack(packet) => {
                    let packing = ends.pack(&packet);
                    under_way.push((ends.source, packet, packing));
                }
                Step::Arrive(at) if at < under_way.len() => {
                    let (source, packet, packing) = under_way.remove(at);
                    let restored = ends.arrive(source, &packet, packing);
                    if source >= ends.floor {
                        prop_assert_eq!(restored, Ok(packet));
                    } else if let Ok(restored) = restored {
                        prop_assert_eq!(restored, packet, "given up, and it came late");
                    }
                }
                Step::Arrive(_) => {}
                Step::GiveUp => ends.floor = ends.source.saturating_sub(3),
                Step::Tell(true) => ends.tell(),
                Step::Tell(false) => drop(ends.far.poll_told(8)),
                Step::Wait(time) => ends.now += Duration::from_millis(time),
            }
            // What has come needs to be waited for no longer.
            let oldest = under_way.iter().map(|&(source, ..)| source).min();
            ends.floor = ends.floor.max(oldest.unwrap_or(ends.source + 1));
        }
    }

    #[test]
    fn any_octets_are_restored_or_refused(
        packet in packet(),
        octets in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let mut far = Decompressor::default();
        far.handle_announcement(1, 3, &packet);

        let mut out = vec![9];
        let is_restored = far.restore(2, 3, &octets, &mut out).is_ok();

        prop_assert_eq!(out[0], 9);
        prop_assert!(is_restored || out.len() == 1);
        prop_assert!(out.len() <= 1 + 100 + octets.len());
    }
}

/// Both ends.
#[derive(Default)]
struct Ends {
    now: Time,
    flow: u32,
    near: Compressor,
    far: Decompressor,
    source: u64,
    floor: u64,
    rtt: Duration,
}

impl Ends {
    fn pack(&mut self, packet: &[u8]) -> Packing {
        self.source += 1;
        let Self { flow, source, floor, rtt, .. } = *self;
        let place = Place { flow, source, floor, rtt, has_room: true };
        self.near.pack(self.now, place, packet)
    }

    fn arrive(
        &mut self,
        source: u64,
        packet: &[u8],
        packing: Packing,
    ) -> Result<Vec<u8>, NoContext> {
        match packing {
            Packing::Announces(id) => {
                self.far.handle_announcement(source, id, packet);
                Ok(packet.to_vec())
            }
            Packing::Compressed(id, headers) => {
                let mut octets = headers.octets().to_vec();
                octets.extend_from_slice(&packet[headers.replaces()..]);
                assert!(octets.len() < packet.len());
                let mut out = Vec::new();
                self.far.restore(source, id, &octets, &mut out).map(|()| out)
            }
            Packing::Whole => Ok(packet.to_vec()),
        }
    }

    fn tell(&mut self) {
        for (id, source) in self.far.poll_told(8) {
            self.near.handle_told(id, low24(source));
        }
    }

    /// A packet goes, arrives and is reported at once; its compressed headers, if they were.
    fn carry(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let packing = self.pack(packet);
        self.floor = self.source;
        assert_eq!(self.arrive(self.source, packet, packing).as_deref(), Ok(packet));
        self.tell();
        match packing {
            Packing::Compressed(_, headers) => Some(headers.octets().to_vec()),
            Packing::Announces(_) | Packing::Whole => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    is_v6: bool,
    port: u16,
    flags: u8,
    seq: u32,
    ack: u32,
    window: u16,
    ident: u16,
    class: u8,
    stamps: Option<(u32, u32)>,
    sacks: usize,
    payload: usize,
}

impl Default for Segment {
    fn default() -> Self {
        Self {
            is_v6: false,
            port: 80,
            flags: 0x10,
            seq: 0,
            ack: 0,
            window: 500,
            ident: 0,
            class: 0,
            stamps: Some((1, 1)),
            sacks: 0,
            payload: 5,
        }
    }
}

impl Segment {
    fn packet(&self) -> Vec<u8> {
        let mut options = Vec::new();
        if let Some((stamp, echoed)) = self.stamps {
            options.extend_from_slice(&[1, 1, 8, 10]);
            options.extend_from_slice(&stamp.to_be_bytes());
            options.extend_from_slice(&echoed.to_be_bytes());
        }
        if self.sacks > 0 {
            let len = 2 + 8 * self.sacks;
            options.extend_from_slice(&[1, 1, 5, u8::try_from(len).unwrap()]);
            options.resize(options.len() + 8 * self.sacks, 0x33);
        }
        let mut packet = Vec::new();
        let spec = Spec {
            traffic_class: self.class,
            ident: self.ident,
            ..spec(self.is_v6, protocol::TCP)
        };
        spec.emit(20 + options.len() + self.payload, &mut packet);
        packet.extend_from_slice(&443_u16.to_be_bytes());
        packet.extend_from_slice(&self.port.to_be_bytes());
        packet.extend_from_slice(&self.seq.to_be_bytes());
        packet.extend_from_slice(&self.ack.to_be_bytes());
        packet.push(u8::try_from(5 + options.len() / 4).unwrap() << 4);
        packet.push(self.flags);
        packet.extend_from_slice(&self.window.to_be_bytes());
        packet.extend_from_slice(&[self.seq.to_be_bytes()[3] | 1, 0x77, 0, 0]);
        packet.extend_from_slice(&options);
        packet.resize(packet.len() + self.payload, 0xa5);
        packet
    }
}

fn datagram(port: u16, payload: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    spec(false, protocol::UDP).emit(8 + payload, &mut packet);
    packet.extend_from_slice(&[0, 7]);
    packet.extend_from_slice(&port.to_be_bytes());
    packet.extend_from_slice(&u16::try_from(8 + payload).unwrap().to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.resize(packet.len() + payload, 0x5a);
    packet
}

fn spec(is_v6: bool, protocol: u8) -> Spec {
    let address = |host: u8| -> IpAddr {
        if is_v6 {
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)).into()
        } else {
            Ipv4Addr::new(10, 0, 0, host).into()
        }
    };
    Spec::new(address(1), address(2), protocol)
}

fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    base::ip::rewrite_v4_checksum(&mut packet[..20]);
    packet
}

//! Who is served, in which order, and what becomes of everybody.

use base::contract::Refused;
use base::ip::ecn;
use base::tcp::Flags;
use base::time::Time;
use proptest::prelude::*;

use super::packets::{
    NO_LIMIT, ROUND_TRIP, at, flow_of, is_marked, number_of, pop, queue, tcp, tcp_at, udp,
};
use crate::queue::{BOOKKEEPING, FLOWS};

#[test]
fn what_is_no_ip_packet_is_refused() {
    let mut queue = queue(NO_LIMIT);

    assert_eq!(queue.push(at(0), b""), Err(Refused::Malformed));
    assert_eq!(queue.push(at(0), &[0x45; 12]), Err(Refused::Malformed));
    assert!(queue.is_empty());
}

#[test]
fn what_follows_the_packet_is_cut_off() {
    let mut queue = queue(NO_LIMIT);
    let packet = udp(1, 1, 100, 0);

    queue.push(at(0), &[&packet[..], &[0; 6]].concat()).unwrap();

    assert_eq!(queue.len_octets(), 100);
    assert_eq!(pop(at(0), &mut queue).unwrap().1, packet);
}

#[test]
fn two_busy_flows_take_turns_by_octets() {
    let mut queue = queue(NO_LIMIT);
    for number in 0..300 {
        queue.push(at(0), &udp(1, number, 1_500, 0)).unwrap();
        for part in 0..3 {
            queue.push(at(0), &udp(2, 3 * number + part, 500, 0)).unwrap();
        }
    }

    let mut octets = [0_usize; 3];
    while octets[1] + octets[2] < 300_000 {
        let (_, packet) = pop(at(1), &mut queue).unwrap();
        octets[usize::from(flow_of(&packet))] += packet.len();
    }

    assert!(octets[1].abs_diff(octets[2]) <= 3_000, "{octets:?}");
}

#[test]
fn flows_are_counted_while_they_have_packets() {
    let mut queue = queue(NO_LIMIT);
    for flow in [1, 2, 3, 3] {
        queue.push(at(0), &udp(flow, 0, 100, 0)).unwrap();
    }
    assert_eq!(queue.waiting_flows(), 3);

    while pop(at(1), &mut queue).is_some() {}
    assert_eq!(queue.waiting_flows(), 0);
}

#[test]
fn a_sparse_flow_passes_beside_any_number_of_busy_ones() {
    let mut queue = queue(NO_LIMIT);
    for number in 0..100 {
        for flow in 1..50 {
            queue.push(at(0), &udp(flow, number, 1_500, 0)).unwrap();
        }
    }
    // Each has had its first turn.
    for _ in 0..60 {
        let _ = pop(at(0), &mut queue).unwrap();
    }

    for number in 0..20 {
        queue.push(at(1), &udp(99, number, 100, 0)).unwrap();
        let (popped, packet) = pop(at(1), &mut queue).unwrap();

        assert_eq!((flow_of(&packet), popped.is_sparse), (99, true), "packet {number}");
        // Its next packet comes when all the others have had a turn again.
        for _ in 0..60 {
            let (popped, _) = pop(at(1), &mut queue).unwrap();
            assert!(!popped.is_sparse);
        }
    }
}

#[test]
fn a_packet_beyond_the_room_stays_the_next() {
    let mut queue = queue(NO_LIMIT);
    queue.push(at(0), &udp(1, 1, 1_000, 0)).unwrap();
    let mut out = vec![7];

    assert_eq!(queue.next_size(), Some(1_000));
    assert_eq!(queue.pop(at(0), 999, None, ROUND_TRIP, &mut out), None);
    assert_eq!(out, [7]);
    assert!(queue.pop(at(0), 1_000, None, ROUND_TRIP, &mut out).is_some());
    assert_eq!(out.len(), 1_001);
    assert_eq!(queue.next_size(), None);
}

#[test]
fn acknowledgements_are_known_by_what_they_lack() {
    let cases: [(Flags, &[u8], bool); 6] = [
        (Flags::ACK, b"", true),
        (Flags::ACK | Flags::ECE, b"", true),
        (Flags::ACK, b"x", false),
        (Flags::SYN | Flags::ACK, b"", false),
        (Flags::FIN | Flags::ACK, b"", false),
        (Flags::RST | Flags::ACK, b"", false),
    ];
    for (flags, payload, expected) in cases {
        let mut queue = queue(NO_LIMIT);
        queue.push(at(0), &tcp(flags, payload)).unwrap();

        let (popped, _) = pop(at(0), &mut queue).unwrap();

        assert_eq!(popped.is_pure_ack, expected, "{flags:?}");
    }
}

#[test]
fn the_limit_costs_the_longest_flow_its_oldest_packets() {
    let mut queue = queue(10 * (1_000 + BOOKKEEPING));
    queue.push(at(0), &udp(1, 0, 1_000, 0)).unwrap();
    for number in 0..20 {
        queue.push(at(0), &udp(2, number, 1_000, 0)).unwrap();
    }

    let left: Vec<_> = std::iter::from_fn(|| pop(at(0), &mut queue))
        .map(|(_, packet)| (flow_of(&packet), number_of(&packet)))
        .collect();

    assert!(left.contains(&(1, 0)));
    assert_eq!(left.iter().filter(|(flow, _)| *flow == 2).map(|pair| pair.1).min(), Some(11));
    assert_eq!(queue.stats().dropped_at_limit, 11);
}

#[test]
fn a_queue_that_stands_for_too_long_is_marked_where_ecn_is_spoken() {
    let mut queue = queue(NO_LIMIT);
    for number in 0..3_000 {
        queue.push(at(0), &udp(1, number, 1_000, ecn::ECT_0)).unwrap();
        queue.push(at(0), &udp(2, number, 1_000, ecn::NOT_ECT)).unwrap();
    }

    let (mut marks, mut now) = (0, 0);
    while let Some((_, packet)) = pop(at(now), &mut queue) {
        marks += u64::from(is_marked(&packet));
        now += 1;
    }

    let stats = queue.stats();
    assert!(stats.marked > 5 && stats.marked == marks, "{stats:?}");
    assert!(stats.dropped_by_codel > 5, "{stats:?}");
    assert!(stats.marked.abs_diff(stats.dropped_by_codel) < stats.marked / 2, "{stats:?}");
}

#[test]
fn a_queue_of_one_round_trip_is_left_alone() {
    let mut queue = queue(NO_LIMIT);
    for number in 0..10_000 {
        queue.push(at(u64::from(number)), &udp(1, number, 1_000, 0)).unwrap();
        if number >= 100 {
            let _ = pop(at(u64::from(number)), &mut queue).unwrap();
        }
    }

    assert_eq!(queue.stats().dropped_by_codel, 0);
}

#[test]
fn the_last_packet_of_a_flow_is_never_dropped() {
    let mut queue = queue(NO_LIMIT);

    for number in 0..1_000 {
        let now = u64::from(number) * 10_000;
        queue.push(at(now), &udp(1, number, 1_500, 0)).unwrap();
        assert!(pop(at(now + 9_999), &mut queue).is_some());
    }
}

#[test]
fn a_clock_may_jump_to_the_end_of_time_and_back() {
    let mut queue = queue(NO_LIMIT);
    for number in 0..5_000 {
        queue.push(at(0), &udp(1, number, 1_000, ecn::ECT_0)).unwrap();
    }

    for number in 0..5_000 {
        let now = if number % 2 == 0 { Time::MAX } else { Time::ZERO };
        let (_, packet) = pop(now, &mut queue).unwrap();
        assert_eq!(number_of(&packet), number);
    }
}

#[test]
fn a_cleared_queue_is_as_new_and_has_counted() {
    let mut queue = queue(NO_LIMIT);
    for flow in 0..50 {
        queue.push(at(0), &udp(flow, 0, 100, 0)).unwrap();
    }

    queue.clear();

    assert!(queue.is_empty() && queue.next_size().is_none() && queue.len_octets() == 0);
    assert_eq!((queue.stats().cleared, queue.stats().flows), (50, 0));
    queue.push(at(0), &udp(3, 0, 100, 0)).unwrap();
    assert!(pop(at(0), &mut queue).is_some());
}

#[test]
fn flows_spread_over_the_buckets() {
    let mut queue = queue(NO_LIMIT);

    for flow in 0..1_000 {
        queue.push(at(0), &udp(flow, 0, 100, 0)).unwrap();
    }

    // 1,000 balls in 1,024 urns hit 638 of them in the mean, with a deviation of 10.
    assert!(queue.stats().flows.abs_diff(638) < 50, "{:?}", queue.stats());
    assert!(queue.stats().flows <= FLOWS);
}

#[derive(Clone, Debug)]
enum Step {
    Pop { room: usize },
    Push { flow: u16, len: usize, is_ecn: bool },
    Wait { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u16..6, 32_usize..1_500, any::<bool>())
            .prop_map(|(flow, len, is_ecn)| Step::Push { flow, len, is_ecn }),
        3 => prop_oneof![Just(1_500_usize), 20_usize..1_500].prop_map(|room| Step::Pop { room }),
        1 => (0_u64..400).prop_map(|ms| Step::Wait { ms }),
    ]
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn all_is_popped_in_the_order_of_its_flow_or_counted_and_memory_is_bounded(
        steps in prop::collection::vec(step(), 1..400),
        limit in 1_000_usize..40_000,
    ) {
        let mut queue = queue(limit);
        let (mut now, mut pushed, mut popped) = (0, 0_u64, 0_u64);
        let mut next = [0; 6];
        for step in steps {
            match step {
                Step::Push { flow, len, is_ecn } => {
                    let number = u32::try_from(pushed).unwrap();
                    let class = if is_ecn { ecn::ECT_0 } else { ecn::NOT_ECT };
                    queue.push(at(now), &udp(flow, number, len, class)).unwrap();
                    pushed += 1;
                    prop_assert!(queue.len_octets() <= limit);
                }
                Step::Pop { room } => {
                    let mut out = Vec::new();
                    let size = queue.next_size();
                    let left = queue.pop(at(now), room, None, ROUND_TRIP, &mut out);
                    prop_assert!(left.is_some() || size.is_none_or(|size| size > room)
                        || queue.stats().dropped_by_codel > 0);
                    if left.is_some() {
                        prop_assert!(out.len() <= room);
                        let (flow, number) = (usize::from(flow_of(&out)), number_of(&out));
                        prop_assert!(next[flow] <= number, "flow {flow}: {number}");
                        next[flow] = number + 1;
                        popped += 1;
                    }
                }
                Step::Wait { ms } => now += ms,
            }
        }
        while pop(at(now), &mut queue).is_some() {
            popped += 1;
        }
        let stats = queue.stats();
        prop_assert!(queue.is_empty() && queue.len_octets() == 0 && stats.flows == 0);
        prop_assert_eq!(pushed, popped + stats.dropped_at_limit + stats.dropped_by_codel);
    }
}

#[test]
fn a_repeated_segment_is_not_taken_while_its_first_copy_waits() {
    let mut queue = queue(NO_LIMIT);
    let segment = |number: u8| tcp_at(1 + 1_000 * u32::from(number), &[number; 1_000]);
    (0..8).for_each(|number| queue.push(at(0), &segment(number)).unwrap());
    let first = pop(at(1), &mut queue).unwrap().1;
    assert_eq!(first, segment(0));

    // TCP's timer has expired: it sends all again.
    (0..8).for_each(|number| queue.push(at(2), &segment(number)).unwrap());
    queue.push(at(2), &tcp_at(1_001, &[1; 500])).unwrap();

    assert_eq!(queue.stats().repeated, 7);
    let rest: Vec<Vec<u8>> = std::iter::from_fn(|| Some(pop(at(3), &mut queue)?.1)).collect();
    let expected = (1..8).chain([0]).map(segment).chain([tcp_at(1_001, &[1; 500])]);
    assert_eq!(
        rest,
        expected.collect::<Vec<_>>(),
        "what has left, or is cut otherwise, goes again"
    );
}

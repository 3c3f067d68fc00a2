use proptest::prelude::*;

use super::*;

const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn small() -> Waiting<u32> {
    Waiting::new(Config {
        packets: 4,
        packets_per_destination: 3,
        octets: 1_000,
        age: Duration::from_secs(10),
    })
}

#[test]
fn packets_are_taken_by_destination_in_the_order_of_arrival() {
    let mut waiting = small();
    for (number, destination) in [(1, NEAR), (2, FAR), (3, NEAR)] {
        assert_eq!(waiting.push(at(0), destination, 100, number), []);
    }

    assert_eq!(waiting.take(NEAR), [1, 3]);
    assert_eq!(waiting.take(NEAR), []);
    assert_eq!((waiting.len(), waiting.octets()), (1, 100));
    assert_eq!(waiting.destinations().collect::<Vec<_>>(), [FAR]);
    assert_eq!(waiting.stats(), Stats { pushed: 3, taken: 2, ..Stats::default() });
}

#[test]
fn none_waits_where_there_is_no_room_for_packets() {
    let config =
        Config { packets: 4, packets_per_destination: 3, octets: 1_000, ..Config::default() };
    for config in [
        Config { packets: 0, ..config },
        Config { packets_per_destination: 0, ..config },
        Config { octets: 99, ..config },
    ] {
        let mut waiting = Waiting::new(config);

        assert_eq!(waiting.push(at(0), NEAR, 100, 1), [(NEAR, 1)], "{config:?}");
        assert_eq!((waiting.len(), waiting.stats().evicted), (0, 1), "{config:?}");
    }
}

#[test]
fn the_oldest_makes_room() {
    let mut waiting = small();
    for number in 1..=3 {
        assert_eq!(waiting.push(at(0), NEAR, 100, number), []);
    }

    assert_eq!(waiting.push(at(1), NEAR, 100, 4), [(NEAR, 1)], "of its own destination");
    assert_eq!(waiting.push(at(1), FAR, 100, 5), []);
    assert_eq!(waiting.push(at(1), FAR, 100, 6), [(NEAR, 2)], "of all");
    assert_eq!(waiting.push(at(1), FAR, 850, 7), [(NEAR, 3), (NEAR, 4), (FAR, 5)], "by octets");
    assert_eq!(waiting.push(at(1), FAR, 1_001, 8), [(FAR, 8)], "it fits in no case");
    assert_eq!(waiting.take(FAR), [6, 7]);
    assert_eq!(waiting.stats().evicted, 6);
}

#[test]
fn what_waited_too_long_expires() {
    let mut waiting = small();
    assert_eq!(waiting.push(at(0), NEAR, 1, 1), []);
    assert_eq!(waiting.push(at(500), FAR, 1, 2), []);
    assert_eq!(waiting.next_timeout(), Some(at(10_000)));

    assert_eq!(waiting.expire(at(9_999)), []);
    assert_eq!(waiting.expire(at(10_000)), [(NEAR, 1)]);
    assert_eq!(waiting.next_timeout(), Some(at(10_500)));
    assert_eq!(waiting.expire(at(20_000)), [(FAR, 2)]);
    assert_eq!(waiting.next_timeout(), None);
    assert_eq!(waiting.stats().expired, 2);
}

#[derive(Clone, Debug)]
enum Step {
    Push(u8, usize),
    Take(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..4, 0_usize..600).prop_map(|(to, octets)| Step::Push(to, octets)),
        1 => (0_u8..4).prop_map(Step::Take),
        1 => (0_u64..6_000).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn each_packet_has_one_outcome_and_the_bounds_hold(
        steps in prop::collection::vec(step(), 0..100),
    ) {
        let mut waiting = small();
        let address = |number: u8| Ipv4Addr::new(10, 0, 0, number);
        let (mut now, mut pushed) = (Time::ZERO, 0);
        let mut gone = Vec::new();
        for step in steps {
            match step {
                Step::Push(to, octets) => {
                    let evicted = waiting.push(now, address(to), octets, pushed);
                    gone.extend(evicted.into_iter().map(|(_, packet)| packet));
                    pushed += 1;
                }
                Step::Take(to) => gone.extend(waiting.take(address(to))),
                Step::Wait(millis) => {
                    now += Duration::from_millis(millis);
                    gone.extend(waiting.expire(now).into_iter().map(|(_, packet)| packet));
                    prop_assert!(waiting.next_timeout().is_none_or(|due| due > now));
                }
            }
            prop_assert!(waiting.len() <= 4 && waiting.octets() <= 1_000);
            prop_assert_eq!(waiting.is_empty(), waiting.destinations().next().is_none());
        }

        gone.extend((0..4).flat_map(|to| waiting.take(address(to))));
        gone.sort_unstable();
        prop_assert_eq!(gone, (0..pushed).collect::<Vec<_>>());
        prop_assert_eq!((waiting.len(), waiting.octets()), (0, 0));
    }
}

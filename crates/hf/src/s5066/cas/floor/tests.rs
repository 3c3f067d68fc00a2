//! When a station may begin, in points of time.

use super::*;

const TIMES: Times = Times {
    gather: Duration::from_millis(100),
    slot: Duration::from_secs(1),
    answer: Duration::from_secs(4),
};

fn floor(access: Access) -> Floor {
    Floor::new(access, TIMES, Duration::from_secs(60), Rng::stream(1, "floor"))
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

#[test]
fn nobody_transmits_into_what_is_heard_or_was_announced() {
    let mut floor = floor(Access::PointToPoint);
    floor.handle_carrier(at(0));
    assert_eq!(floor.next_start(at(0), 0), None);

    floor.handle_announcement(at(9_400));
    floor.handle_announcement(at(9_100));
    floor.handle_announcement(at(9_300));
    floor.handle_carrier_lost(at(5_000), true, false);

    assert_eq!(floor.next_start(at(5_000), 0), Some(at(9_200)));
    assert!(!floor.is_free(at(9_000)) && floor.is_free(at(9_100)));
}

#[test]
fn one_other_station_has_ended_when_its_carrier_ends_within_the_rounding_of_what_it_announced() {
    let start = |access, lost| {
        let mut floor = floor(access);
        floor.handle_carrier(at(0));
        floor.handle_announcement(at(9_400));
        floor.handle_carrier_lost(at(lost), true, false);
        floor.next_start(at(lost), 0)
    };
    let shared = Access::Slotted { position: 0, stations: 3 };

    assert_eq!(start(Access::PointToPoint, 8_901), Some(at(9_001)));
    assert_eq!(start(Access::PointToPoint, 8_899), Some(at(9_500)), "a fade is no end");
    assert_eq!(start(shared, 9_200), Some(at(9_500)), "others may still wait");
}

#[test]
fn one_other_station_that_begins_anew_has_not_done_what_it_announced_before() {
    let start = |access| {
        let mut floor = floor(access);
        // It fails in a long transmission, and calls when it is back.
        floor.handle_carrier(at(0));
        floor.handle_announcement(at(90_000));
        floor.handle_carrier_lost(at(2_000), true, false);
        floor.handle_carrier(at(5_000));
        floor.handle_announcement(at(6_100));
        floor.handle_carrier_lost(at(6_000), true, false);
        floor.next_start(at(6_000), 0)
    };
    let shared = Access::Slotted { position: 0, stations: 3 };

    assert_eq!(start(Access::PointToPoint), Some(at(6_100)));
    assert_eq!(start(shared), Some(at(90_100)), "it may have been another station");
}

#[test]
fn the_earliest_announced_end_counts_though_it_has_passed() {
    let mut floor = floor(Access::PointToPoint);
    floor.handle_carrier(at(0));
    floor.handle_announcement(at(9_010));
    floor.handle_announcement(at(9_400));

    floor.handle_carrier_lost(at(9_050), true, false);

    assert_eq!(floor.next_start(at(9_050), 0), Some(at(9_150)));
}

#[test]
fn an_answer_is_awaited_and_its_lack_told_once() {
    let mut floor = floor(Access::PointToPoint);
    floor.handle_start(at(0), Some(0));
    floor.handle_sent(at(1_000), at(1_000), true);

    assert_eq!((floor.next_start(at(1_000), 0), floor.next_timeout()), (None, Some(at(5_000))));
    assert!(!floor.poll_silence(at(4_999), true));
    assert!(floor.poll_silence(at(5_000), true));
    assert!(!floor.poll_silence(at(5_001), true));

    assert_eq!(floor.next_start(at(5_000), 0), Some(at(5_000)));
}

#[test]
fn two_stations_that_collided_are_two_slots_apart_next_time_and_draw_from_longer_windows_later() {
    let starts = |goes_first, silences| {
        let mut floor = floor(Access::PointToPoint);
        let mut now = at(0);
        for _ in 0..silences {
            floor.handle_start(now, Some(0));
            floor.handle_sent(now, now, true);
            now += TIMES.answer;
            assert!(floor.poll_silence(now, goes_first));
        }
        floor.next_start(now, 0).expect("may try again").since(now)
    };

    assert_eq!([true, false].map(|first| starts(first, 1)), [0, 2].map(Duration::from_secs));
    for silences in 2..8 {
        let window = TIMES.slot * (1 << silences.min(MAX_BACKOFF));
        assert!(starts(true, silences) <= window - TIMES.slot * 2, "{silences}");
        let last = starts(false, silences);
        assert!(last >= TIMES.slot * 2 && last <= window, "{silences}: {last:?}");
    }
}

#[test]
fn an_answer_that_has_begun_is_heard_to_its_end() {
    let mut floor = floor(Access::PointToPoint);
    floor.handle_start(at(0), Some(0));
    floor.handle_sent(at(1_000), at(1_000), true);
    floor.handle_carrier(at(0));

    assert!(!floor.poll_silence(at(60_000), true));
    floor.handle_answer();
    floor.handle_carrier_lost(at(60_000), false, false);

    assert_eq!(floor.next_start(at(60_000), 0), Some(at(60_100)));
}

#[test]
fn who_needs_no_answer_leaves_the_others_time_to_begin() {
    let mut floor = floor(Access::PointToPoint);
    floor.handle_start(at(0), Some(0));
    floor.handle_sent(at(1_000), at(1_000), false);

    assert_eq!(floor.next_start(at(1_000), 0), Some(at(5_000)));
    assert!(!floor.poll_silence(at(9_000), true));
}

#[test]
fn who_transmitted_without_asking_lets_each_slot_pass_once() {
    let mut floor = floor(Access::Slotted { position: 0, stations: 2 });
    floor.handle_start(at(0), Some(0));
    floor.handle_sent(at(10_000), at(10_400), false);

    // Gather, the slot for an answer, and those of the round: the first of the next.
    assert_eq!(floor.next_start(at(10_000), 0), Some(at(13_500)));
}

#[test]
fn slots_belong_to_one_station_each_and_the_first_to_whom_was_asked() {
    let starts = |position, from| {
        let mut floor = floor(Access::Slotted { position, stations: 3 });
        floor.handle_carrier(at(0));
        floor.handle_carrier_lost(at(10_000), false, false);
        floor.next_start(at(from), 0)
    };

    assert_eq!(starts(0, 10_000), Some(at(11_100)));
    assert_eq!(starts(1, 10_000), Some(at(12_100)));
    assert_eq!(starts(2, 10_000), Some(at(13_100)));
    assert_eq!(starts(0, 12_000), Some(at(14_100)));
    assert_eq!(starts(0, 14_200), Some(at(14_200)));

    let mut asked = floor(Access::Slotted { position: 2, stations: 3 });
    asked.handle_carrier(at(0));
    asked.handle_carrier_lost(at(10_000), true, false);
    assert_eq!(asked.next_start(at(10_000), 0), Some(at(10_100)));
}

#[test]
fn who_was_answered_may_go_on_in_the_first_quarter_of_the_slot_for_answers() {
    let mut floor = floor(Access::Slotted { position: 2, stations: 3 });
    floor.handle_start(at(0), Some(0));
    floor.handle_sent(at(1_000), at(1_000), true);
    floor.handle_carrier(at(1_500));
    floor.handle_answer();
    floor.handle_carrier_lost(at(10_000), false, false);

    assert_eq!(
        // Later others have their turns first.
        [10_000, 10_350, 10_351].map(|from| floor.next_start(at(from), 0)),
        [10_100, 10_350, 16_100].map(|start| Some(at(start)))
    );
}

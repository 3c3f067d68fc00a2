//! Recovery of sources from repairs, and their order.

use std::time::Duration;

use base::time::Time;
use gf::coefficients::Coefficients;
use proptest::prelude::*;

use crate::receiver::Receiver;
use crate::record::fill_record_header;
use crate::stats::Received;
use crate::work::{Budget, Budgets};

const NOW: Time = Time::ZERO;
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);

#[test]
fn a_repair_makes_one_loss_good_and_the_order_is_kept() {
    let sources = chain(4);
    let mut end = End::new();

    end.source(0, &sources);
    end.source(2, &sources);
    end.source(3, &sources);
    assert_eq!(end.released(), ["0"], "what follows the hole waits");
    end.repair(100, 0..4, &sources);

    assert_eq!(end.released(), ["1", "2", "3"]);
    assert_eq!(end.stats.sources_recovered, 1);
}

#[test]
fn a_flow_does_not_wait_for_another() {
    let sources = vec![symbol("a0", 0), symbol("b0", 0), symbol("a1", 2), symbol("b1", 2)];
    let mut end = End::new();

    for number in [0, 2, 3] {
        end.source(number, &sources);
    }

    assert_eq!(end.released(), ["a0", "a1"]);
    end.source(1, &sources);
    assert_eq!(end.released(), ["b0", "b1"]);
}

#[test]
fn two_losses_need_two_repairs_and_a_third_says_nothing_new() {
    let sources = chain(6);
    let mut end = End::new();
    for number in [0, 3, 4, 5] {
        end.source(number, &sources);
    }
    end.released();

    end.repair(100, 0..6, &sources);
    assert!(end.released().is_empty());
    assert_eq!(end.receiver.holes(NOW, Duration::ZERO, &mut end.work).0.rank, 1);
    end.repair(101, 1..5, &sources);
    assert_eq!(end.released(), ["1", "2", "3", "4", "5"]);
    end.repair(102, 0..6, &sources);

    assert_eq!((end.stats.repairs_useful, end.stats.repairs_redundant), (2, 1));
}

#[test]
fn a_source_sent_again_turns_a_repair_into_another_source() {
    let sources = chain(4);
    let mut end = End::new();
    end.source(0, &sources);
    end.source(3, &sources);
    end.repair(100, 0..4, &sources);
    end.released();

    end.source(1, &sources);

    assert_eq!(end.released(), ["1", "2", "3"]);
    assert_eq!(end.stats.sources_recovered, 1);
}

#[test]
fn holes_are_reported_as_runs() {
    let sources = chain(10);
    let mut end = End::new();
    for number in [0, 1, 4, 5, 7, 9] {
        end.source(number, &sources);
    }

    let (holes, _) = end.receiver.holes(NOW, Duration::ZERO, &mut end.work);

    assert_eq!((holes.first_missing, holes.end, holes.missing), (2, 10, 4));
    assert_eq!(holes.runs, [(0, 2), (2, 1), (1, 1)]);
}

#[test]
fn what_is_given_up_holds_nothing_back() {
    let sources = chain(5);
    let mut end = End::new();
    for number in [0, 2, 4] {
        end.source(number, &sources);
    }
    end.released();

    end.receiver.handle_floor(NOW, 2, &mut end.work, &mut end.stats);
    assert_eq!(end.released(), ["2"]);
    end.receiver.handle_timeout(NOW + GIVE_UP_AFTER, &mut end.stats);

    assert_eq!(end.released(), ["4"]);
    assert_eq!(end.receiver.holes(NOW, Duration::ZERO, &mut end.work).0.missing, 0);
    assert_eq!(end.stats.sources_given_up, 2);
}

#[test]
fn a_source_that_may_only_be_late_is_not_missing() {
    let sources = chain(8);
    let mut end = End::new();
    let (lateness, later) = (Duration::from_millis(3), NOW + Duration::from_millis(3));
    end.source(0, &sources);
    end.source(3, &sources);
    end.repair(900, 0..4, &sources);

    let (at_once, ripe_at) = end.receiver.holes(NOW, lateness, &mut end.work);
    let (afterwards, _) = end.receiver.holes(later, lateness, &mut end.work);

    assert_eq!((at_once.missing, at_once.rank, ripe_at), (0, 0, Some(later)));
    assert_eq!((afterwards.missing, afterwards.rank), (2, 1), "it has an equation for them");
}

#[test]
fn a_jump_of_the_numbers_costs_bounded_memory() {
    let mut end = End::new();
    let sources = chain(1);

    for jump in [0, 70, 5_000, 5_063, 1 << 20, 1 << 30] {
        end.receiver.handle_source(NOW, jump, &sources[0], &mut end.work, &mut end.stats);
        let (holes, _) = end.receiver.holes(NOW, Duration::ZERO, &mut end.work);
        assert!(holes.missing <= 64 + 1_024, "{jump}: {}", holes.missing);
    }
}

#[test]
fn a_source_that_is_too_far_ahead_is_where_it_goes_on() {
    let mut end = End::new();
    let sources = chain(1);
    end.source(0, &sources);

    // The last for which the peer may still keep one that is known of here.
    let last = 64 + 1_024 + 64 - 1;
    end.receiver.handle_source(NOW, last, &sources[0], &mut end.work, &mut end.stats);
    let (holes, _) = end.receiver.holes(NOW, Duration::ZERO, &mut end.work);
    assert_eq!((holes.end, holes.missing), (last + 1, 64 + 1_024 - 1));
    assert_eq!(end.stats.sources_given_up, 63, "all but the first, which came");

    let base = last + 1 - (64 + 1_024);
    let next = base + 64 + 1_024 + 64;
    end.receiver.handle_source(NOW, next, &sources[0], &mut end.work, &mut end.stats);
    let (holes, _) = end.receiver.holes(NOW, Duration::ZERO, &mut end.work);
    assert_eq!((holes.first_missing, holes.end, holes.missing), (next + 1, next + 1, 0));
}

#[test]
fn a_repair_over_more_than_any_end_sends_is_refused() {
    let mut end = End { receiver: Receiver::new(8_192, GIVE_UP_AFTER, 1_500), ..End::new() };

    end.receiver.handle_repair(NOW, 7, (0, 1_025), &[1; 100], &mut end.work, &mut end.stats);
    assert_eq!((end.stats.malformed, end.receiver.end()), (1, 0));
    end.receiver.handle_repair(NOW, 7, (0, 1_024), &[1; 100], &mut end.work, &mut end.stats);

    assert_eq!((end.stats.malformed, end.stats.repairs_useful), (1, 1));
}

#[test]
fn what_is_too_long_or_came_too_late_is_counted_and_changes_nothing() {
    let (sources, mut end) = (chain(2), End::new());
    end.source(0, &sources);
    let far = 64 + 1_024 + 10;
    end.receiver.handle_source(NOW, far, &sources[0], &mut end.work, &mut end.stats);
    let (held, first) = (end.receiver.held(), end.released());
    let all = end.receiver.end();

    end.receiver.handle_source(NOW, far + 1, &[0; 1_501], &mut end.work, &mut end.stats);
    end.receiver.handle_repair(NOW, 7, (far, 2), &[0; 1_501], &mut end.work, &mut end.stats);
    end.repair(8, 0..2, &sources);

    assert_eq!((end.stats.symbols_too_long, end.stats.repairs_stale), (2, 1));
    assert_eq!((end.receiver.held(), end.receiver.end(), first.len()), (held, all, 2));
}

#[test]
fn packets_that_waited_take_no_memory_once_they_are_released_or_forgotten() {
    let mut end = End::new();
    let sources = chain(3_000);
    // Each pair in the wrong order.
    for number in (0..sources.len()).map(|at| at ^ 1) {
        end.source(number, &sources);
    }
    assert_eq!(end.released().len(), sources.len());
    let released = end.receiver.held();
    let mut other = End::new();
    (0..sources.len()).for_each(|number| other.source(number, &sources));
    other.released();

    assert_eq!(released, other.receiver.held(), "as if all had come in order");
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn whatever_comes_first_all_is_recovered_in_order(
        count in 1_usize..40,
        arrivals in Just(()).prop_perturb(|(), mut rng| {
            (0..120).map(|_| rng.random::<u32>()).collect::<Vec<_>>()
        }),
    ) {
        let sources = chain(count);
        let mut end = End::new();

        // Any mixture of sources and repairs over any window, then as many repairs as are missing.
        for (number, draw) in (1_000..).zip(&arrivals) {
            let first = *draw as usize / 7 % count;
            let last = first + *draw as usize / 1_013 % (count - first);
            if draw % 3 == 0 {
                end.source(first, &sources);
            } else {
                end.repair(number, first as u64..last as u64 + 1, &sources);
            }
        }
        for number in 0..count as u64 + 2 {
            end.repair(number, 0..count as u64, &sources);
        }

        let names: Vec<_> = (0..count).map(|number| number.to_string()).collect();
        prop_assert_eq!(end.released(), names);
        prop_assert_eq!(end.receiver.holes(NOW, Duration::ZERO, &mut end.work).0.missing, 0);
        prop_assert_eq!(end.receiver.holes(NOW, Duration::ZERO, &mut end.work).0.rank, 0);
    }
}

/// A receiver and what it counts.
struct End {
    receiver: Receiver,
    work: Budget,
    stats: Received,
}

impl End {
    fn new() -> Self {
        Self {
            receiver: Receiver::new(64, GIVE_UP_AFTER, 1_500),
            work: Budgets::default().decoding,
            stats: Received::default(),
        }
    }

    fn source(&mut self, number: usize, sources: &[Vec<u8>]) {
        let symbol = &sources[number];
        self.receiver.handle_source(NOW, number as u64, symbol, &mut self.work, &mut self.stats);
    }

    fn repair(&mut self, number: u64, window: std::ops::Range<u64>, sources: &[Vec<u8>]) {
        let covered = &sources[usize::try_from(window.start).unwrap()..][..window.clone().count()];
        let mut symbol = vec![0; covered.iter().map(Vec::len).max().unwrap()];
        for (coefficient, source) in Coefficients::of(number).zip(covered) {
            gf::accumulate(&mut symbol, &[(coefficient, source)]);
        }
        let window = (window.start, u16::try_from(window.count()).unwrap());
        self.receiver.handle_repair(NOW, number, window, &symbol, &mut self.work, &mut self.stats);
    }

    fn released(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        let mut packet = Vec::new();
        while self.receiver.poll_packet(&mut packet) {
            names.push(String::from_utf8(packet.clone()).unwrap());
        }
        names
    }
}

/// Sources with a packet each, all of one flow, of different lengths.
fn chain(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| symbol(&number.to_string(), u16::from(number > 0))).collect()
}

fn symbol(name: &str, wait: u16) -> Vec<u8> {
    let mut symbol = vec![0; 4];
    symbol.extend_from_slice(name.as_bytes());
    fill_record_header(&mut symbol, wait);
    symbol
}

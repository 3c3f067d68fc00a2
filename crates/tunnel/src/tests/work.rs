//! The work that an authenticated peer can make, in counted steps, for each kind of input.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;

use crate::receiver::{MOST_STEPS, Receiver, SLOT, STEPS_A_NANOSECOND};
use crate::stats::Received;

const LONGEST: usize = 1_400;
const WINDOW: usize = 8_192;
/// As long as 64 datagrams take at a gigabit a second.
const MOMENT: Duration = Duration::from_micros(736);
/// A repair at full rank: two passes over 512 rows of 2,048 columns and a symbol, the columns looked through once, the
/// known sources that it covers, and what each covered source costs by itself.
const REPAIR: u64 = 512 * (3 * 2_048 + 2 * LONGEST as u64) + 1_024 * (LONGEST as u64 + 2 * 64);

/// A receiver that does what a hostile peer says.
struct Victim {
    receiver: Receiver,
    stats: Received,
    now: Time,
}

impl Victim {
    fn new() -> Self {
        let receiver = Receiver::new(WINDOW, Duration::from_secs(2), LONGEST);
        Self { receiver, stats: Received::default(), now: Time::ZERO + Duration::from_secs(1) }
    }

    /// The steps of what it is told, some time after what was before.
    fn steps(&mut self, say: impl FnOnce(&mut Receiver, Time, &mut Received)) -> u64 {
        self.now += Duration::from_millis(10);
        self.at_once(say)
    }

    /// The same, at the moment of what was before.
    fn at_once(&mut self, say: impl FnOnce(&mut Receiver, Time, &mut Received)) -> u64 {
        let before = self.stats.work;
        say(&mut self.receiver, self.now, &mut self.stats);
        self.stats.work - before
    }
}

#[test]
fn a_repair_makes_bounded_work_whatever_it_covers() {
    let mut victim = Victim::new();
    let mut worst = 0;
    for number in 0..3_000_u64 {
        // Over 1,024 missing sources, with a floor that advances.
        let first = number;
        worst = worst.max(victim.steps(|receiver, now, stats| {
            receiver.handle_floor(now, first, stats);
            receiver.handle_repair(now, number, (first, 1_024), &[7; LONGEST], stats);
        }));
    }

    assert!(victim.stats.repairs_useful > 512, "{:?}", victim.stats);
    assert!(victim.stats.repairs_full > 0, "{:?}", victim.stats);
    let most = REPAIR + SLOT * 1_024;
    assert!(worst <= most, "{worst} of {most}");
    assert_eq!(victim.stats.repairs_over_budget, 0, "each had its time");
}

#[test]
fn repairs_of_a_moment_and_of_a_second_share_a_budget_and_the_rest_is_dropped_and_counted() {
    let mut victim = Victim::new();
    for number in 0..500 {
        victim.steps(|receiver, now, stats| {
            receiver.handle_repair(now, number, (0, 1_024), &[7; LONGEST], stats);
        });
    }

    let mut work = 0;
    victim.steps(|_, _, _| {});
    for number in 1_000..1_064 {
        // Each advances, so that none is redundant or too many.
        work += victim.at_once(|receiver, now, stats| {
            let floor = number - 990;
            receiver.handle_floor(now, floor, stats);
            receiver.handle_repair(now, number, (floor, 1_024), &[7; LONGEST], stats);
        });
    }

    assert!(work <= MOST_STEPS + REPAIR, "{work}");
    let Received { repairs_over_budget, repairs_full, .. } = victim.stats;
    assert!(repairs_over_budget > 10, "{repairs_over_budget} {repairs_full}");
    let before = victim.stats.repairs_over_budget;
    work = 0;
    for number in 2_000..12_000 {
        victim.now += Duration::from_micros(100);
        work += victim.at_once(|receiver, now, stats| {
            let floor = number - 1_900;
            receiver.handle_floor(now, floor, stats);
            receiver.handle_repair(now, number, (floor, 1_024), &[7; LONGEST], stats);
        });
    }
    let most = MOST_STEPS + REPAIR + STEPS_A_NANOSECOND * 1_000_000_000;
    assert!(work <= most, "{work} in a second of 10,000 repairs, {most}");
    assert!(victim.stats.repairs_over_budget > before, "{:?}", victim.stats);
    let next = victim.steps(|receiver, now, stats| {
        receiver.handle_repair(now, 20_000, (11_000, 1_024), &[7; LONGEST], stats);
    });
    assert!(next > 0, "later there is room again");
}

#[test]
fn a_source_makes_bounded_work_whatever_waits_for_it() {
    let mut victim = Victim::new();
    for number in 0..512 {
        victim.steps(|receiver, now, stats| {
            receiver.handle_repair(now, number, (0, 1_024), &[7; LONGEST], stats);
        });
    }
    let mut worst = 0;
    for number in 0..600 {
        worst = worst.max(victim.steps(|receiver, now, stats| {
            receiver.handle_source(now, number, &[0; 100], true, stats);
        }));
    }
    assert!(worst <= REPAIR, "{worst}");
    assert!(worst > 100_000, "{worst}: nothing was substituted");
}

#[test]
fn a_leap_of_the_numbers_makes_bounded_work_and_one_of_many_at_a_moment() {
    let mut victim = Victim::new();
    let mut work = 0;
    victim.steps(|_, _, _| {});
    for leap in 0..64 {
        work += victim.at_once(|receiver, now, stats| {
            receiver.handle_source(now, leap * 8_000, &[7; 20], false, stats);
            receiver.handle_floor(now, leap * 8_000 + 4_000, stats);
        });
    }

    assert!(work <= MOST_STEPS + SLOT * (WINDOW as u64 + 1_024), "{work}");
    assert!(victim.stats.leaps_refused > 60, "{:?}", victim.stats);
    let before = victim.receiver.end();
    victim.at_once(|receiver, now, stats| {
        receiver.handle_source(now, before, &[7; 20], false, stats);
    });
    assert_eq!(victim.receiver.end(), before + 1, "what follows is taken all the same");
}

#[test]
fn an_honest_fade_of_a_tenth_of_a_second_at_a_gigabit_needs_no_more_than_its_budget() {
    // 8,192 of 8,900 sources may be missing. Then come the first repairs, over the newest 1,024 of them, and all
    // sources again, 64 at a moment as a driver takes them.
    let mut victim = Victim::new();
    let missing = 8_192_u64;
    victim.steps(|receiver, now, stats| {
        receiver.handle_source(now, missing, &[0; LONGEST], false, stats);
    });
    for number in 0..64 {
        victim.now += MOMENT;
        victim.at_once(|receiver, now, stats| {
            let window = (missing - 1_023, 1_024);
            receiver.handle_repair(now, 10_000 + number, window, &[0; LONGEST], stats);
        });
    }
    for turn in 0..missing / 64 {
        victim.now += MOMENT;
        victim.at_once(|receiver, now, stats| {
            for number in turn * 64..turn * 64 + 64 {
                receiver.handle_source(now, number, &[0; LONGEST], true, stats);
            }
        });
    }

    let (holes, _) = victim.receiver.holes(victim.now);
    assert_eq!((holes.missing, holes.first_missing), (0, missing + 1), "{:?}", victim.stats);
    let Received { repairs_over_budget, leaps_refused, sources_recovered, .. } = victim.stats;
    assert_eq!((repairs_over_budget, leaps_refused), (0, 0), "{:?}", victim.stats);
    assert_eq!(sources_recovered, 64);
}

#[test]
fn an_honest_gigabit_of_which_a_fifth_is_lost_stays_within_its_budget() {
    // A quarter as many repairs as sources come, over the newest 1,024 sources.
    let mut victim = Victim::new();
    let mut rng = Rng::stream(1, "honest");
    let (mut number, mut next) = (0, 1 << 40);
    for _ in 0..400 {
        victim.now += MOMENT;
        victim.at_once(|receiver, now, stats| {
            for _ in 0..51 {
                if rng.chance(0.8) {
                    receiver.handle_source(now, number, &[0; LONGEST], false, stats);
                }
                number += 1;
            }
            for _ in 0..13 {
                let first = number.saturating_sub(1_024);
                let count = u16::try_from(number - first).unwrap();
                receiver.handle_repair(now, next, (first, count), &[0; LONGEST], stats);
                next += 1;
            }
        });
    }

    assert_eq!(victim.stats.repairs_over_budget, 0, "{:?}", victim.stats);
    assert!(victim.stats.sources_recovered > 1_000, "{:?}", victim.stats);
}

//! Tells datagrams that are late from lost ones, by how late others came: in time, as RACK does (RFC 8985).
//!
//! A datagram that others have overtaken counts as lost once it is later than late ones usually are. Jitter that lets
//! datagrams overtake each other, a few of them or all, so looks neither like loss nor like bursts of it.

use std::collections::BTreeMap;
use std::time::Duration;

use base::time::Time;

/// The lateness halves in this time, so that a path that keeps the order again is believed after a while.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// The part of the excess by which a datagram raises the lateness: a single one may be late for a reason of its own.
const RISE: f64 = 0.25;
/// No datagram is waited for longer than this; what comes later teaches nothing.
const LONGEST: Duration = Duration::from_millis(625);
/// The most runs of missing datagrams that are remembered; beyond, the oldest count as lost.
const RUNS: usize = 4_096;

/// The datagrams that others have overtaken.
#[derive(Debug, Default)]
pub struct Overtaken {
    /// The missing ones by the first number of each run; numbers and times both ascend.
    runs: BTreeMap<u64, Run>,
    /// Missing ones before this number count as lost.
    lost_before: u64,
    lost: u64,
    bursts: u64,
    lateness: Lateness,
}

/// How late things usually come: near the most of the last seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lateness {
    late: Duration,
    /// When this was measured.
    at: Time,
}

/// Missing datagrams in succession.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// One past the last number.
    end: u64,
    since: Time,
}

impl Overtaken {
    /// The datagrams from `first` to before `end` have been overtaken.
    pub fn handle_gap(&mut self, now: Time, first: u64, end: u64) {
        self.runs.insert(first, Run { end, since: now });
        if self.runs.len() > RUNS {
            self.forget_oldest();
        }
    }

    /// A datagram that was overtaken has come.
    pub fn handle_late(&mut self, now: Time, number: u64) {
        if number < self.lost_before {
            self.lost = self.lost.saturating_sub(1);
        }
        let Some((&first, &run)) = self.runs.range(..=number).next_back() else { return };
        if run.end <= number {
            return;
        }
        self.runs.remove(&first);
        if first < number {
            self.runs.insert(first, Run { end: number, ..run });
        }
        if number + 1 < run.end {
            self.runs.insert(number + 1, run);
        }
        if self.runs.len() > RUNS {
            self.forget_oldest();
        }
        self.lateness.handle_late(now, now.since(run.since));
    }

    /// How late a datagram may come before it counts as lost.
    pub fn lateness(&self, now: Time) -> Duration {
        self.lateness.get(now)
    }

    /// Counts as lost what has been missing for longer than the lateness.
    pub fn handle_time(&mut self, now: Time) {
        let lateness = self.lateness(now);
        let pending = self.runs.range(self.lost_before..);
        let mut late = (0, 0, self.lost_before);
        for (first, run) in pending.take_while(|(_, run)| run.since + lateness <= now) {
            late = (late.0 + run.end - first, late.1 + 1, run.end);
        }
        self.lost += late.0;
        self.bursts += late.1;
        self.lost_before = late.2;
        while let Some((_, run)) = self.runs.first_key_value()
            && run.end <= self.lost_before
            && run.since + LONGEST <= now
        {
            self.runs.pop_first();
        }
    }

    /// How many datagrams count as lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// In how many bursts they were lost.
    pub fn bursts(&self) -> u64 {
        self.bursts
    }

    /// Forgets the oldest run, which is lost if it did not count so yet.
    fn forget_oldest(&mut self) {
        let Some((first, run)) = self.runs.pop_first() else { return };
        if first >= self.lost_before {
            self.lost += run.end - first;
            self.bursts += 1;
            self.lost_before = run.end;
        }
    }
}

impl Lateness {
    /// Something came so late.
    pub fn handle_late(&mut self, now: Time, late: Duration) {
        let before = self.get(now);
        let late = before + late.min(LONGEST).saturating_sub(before).mul_f64(RISE);
        *self = Self { late, at: now };
    }

    pub fn get(&self, now: Time) -> Duration {
        let halvings = now.since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.late.mul_f64(libm::exp2(-halvings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// What counts as lost after 10,000 datagrams, a millisecond apart, each of them late by up to `jitter`, whose
    /// numbers divisible by `every` never come: the datagrams, the bursts and the lateness.
    fn after(jitter: u64, every: u64) -> (u64, u64, Duration) {
        let mut arrivals: Vec<(u64, u64)> = (0..10_000)
            .filter(|number| number % every != 7 % every)
            .map(|number| (number + (number * 7_919) % (jitter + 1), number))
            .collect();
        arrivals.sort_unstable();
        let (mut overtaken, mut end) = (Overtaken::default(), 0);
        let mut now = Time::ZERO;
        for (at, number) in arrivals {
            now = Time::ZERO + MS * u32::try_from(at).expect("short");
            if number < end {
                overtaken.handle_late(now, number);
            } else if number > end {
                overtaken.handle_gap(now, end, number);
            }
            end = end.max(number + 1);
            overtaken.handle_time(now);
        }
        (overtaken.lost(), overtaken.bursts(), overtaken.lateness(now))
    }

    #[test]
    fn without_jitter_what_is_overtaken_is_lost() {
        assert_eq!(after(0, 100), (100, 100, Duration::ZERO));
    }

    #[test]
    fn jitter_that_reorders_everything_is_no_loss() {
        let (lost, bursts, lateness) = after(20, 20_000);
        assert!(lost <= 2 && bursts < 40, "{lost} in {bursts} bursts");
        assert!((15 * MS..=20 * MS).contains(&lateness), "{lateness:?}");

        // The last few may still come.
        let (lost, bursts, _) = after(20, 100);
        assert!((98..=103).contains(&lost), "{lost}");
        assert!((98..140).contains(&bursts), "{bursts}");
    }

    #[test]
    fn one_late_datagram_is_not_believed() {
        let mut overtaken = Overtaken::default();
        overtaken.handle_gap(Time::ZERO, 0, 1);
        overtaken.handle_late(Time::ZERO + 400 * MS, 0);
        assert_eq!(overtaken.lateness(Time::ZERO + 400 * MS), 100 * MS);

        let later = Time::ZERO + 400 * MS + HALF_LIFE;
        assert_eq!(overtaken.lateness(later), 50 * MS, "and is forgotten");
    }

    #[test]
    fn what_came_after_it_was_counted_is_not_lost() {
        let mut overtaken = Overtaken::default();
        overtaken.handle_gap(Time::ZERO, 10, 20);
        overtaken.handle_time(Time::ZERO);
        assert_eq!((overtaken.lost(), overtaken.bursts()), (10, 1));

        for number in [12, 10, 19] {
            overtaken.handle_late(Time::ZERO + MS, number);
        }
        overtaken.handle_time(Time::ZERO + 2 * MS);
        assert_eq!((overtaken.lost(), overtaken.bursts()), (7, 1));
    }

    #[test]
    fn a_peer_that_skips_numbers_takes_no_memory() {
        let mut overtaken = Overtaken::default();
        for number in 0..100_000 {
            overtaken.handle_gap(Time::ZERO, 2 * number, 2 * number + 1);
            assert!(overtaken.runs.len() <= RUNS);
        }
        let forgotten = 100_000 - RUNS as u64;
        assert_eq!((overtaken.lost(), overtaken.bursts()), (forgotten, forgotten));
        overtaken.handle_gap(Time::ZERO, 1 << 40, 1 << 63);
        for number in 0..50_000 {
            overtaken.handle_late(Time::ZERO, (1 << 40) + 2 * number);
            assert!(overtaken.runs.len() <= RUNS);
        }
        overtaken.handle_time(Time::ZERO + LONGEST * 20);
        assert!(overtaken.runs.is_empty());
        assert_eq!(overtaken.lost(), 100_000 + (1 << 63) - (1 << 40) - 50_000);
    }
}

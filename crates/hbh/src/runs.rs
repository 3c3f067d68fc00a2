//! Records the numbers of arrived packets as runs.

use std::collections::VecDeque;

/// The largest number of runs kept beyond the first missing number.
const MOST: usize = 256;

/// All numbers below `next`, and runs of numbers beyond it.
#[derive(Clone, Debug)]
pub struct Runs {
    /// The lowest number that has not arrived and may still come.
    next: u64,
    /// From the first number up to, and without, the second; in order and apart.
    beyond: VecDeque<(u64, u64)>,
}

impl Runs {
    pub fn new(next: u64) -> Self {
        Self { next, beyond: VecDeque::new() }
    }

    /// The lowest number that has not arrived and may still come.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.beyond.is_empty()
    }

    /// The runs beyond `next`.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.beyond.iter().copied()
    }

    /// Whether a number has arrived, or will not come any more.
    pub fn contains(&self, number: u64) -> bool {
        number < self.next
            || self.before(number).checked_sub(1).is_some_and(|index| number < self.beyond[index].1)
    }

    /// Whether a number can be noted without one run too many.
    pub fn has_room(&self, number: u64) -> bool {
        self.beyond.len() < MOST || number <= self.next || {
            let at = self.before(number);
            let touches = |index: usize| {
                self.beyond
                    .get(index)
                    .is_some_and(|&(first, past)| first <= number + 1 && number <= past)
            };
            touches(at) || at.checked_sub(1).is_some_and(touches)
        }
    }

    /// Notes that a number has arrived; returns whether that is new.
    pub fn record(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        if number == self.next {
            self.settle(number + 1);
            return true;
        }
        let at = self.before(number);
        let joins_next = self.beyond.get(at).is_some_and(|&(first, _)| first == number + 1);
        let before = at.checked_sub(1).filter(|&index| self.beyond[index].1 == number);
        match (before, joins_next) {
            (Some(index), true) => {
                let (_, past) = self.beyond.remove(at).unwrap_or_default();
                self.beyond[index].1 = past;
            }
            (Some(index), false) => self.beyond[index].1 = number + 1,
            (None, true) => self.beyond[at].0 = number,
            (None, false) => self.beyond.insert(at, (number, number + 1)),
        }
        true
    }

    /// Everything below `lowest` has arrived or will not come; returns whether that is news.
    pub fn settle(&mut self, lowest: u64) -> bool {
        if lowest <= self.next {
            return false;
        }
        self.next = lowest;
        while let Some(&(first, past)) = self.beyond.front().filter(|run| run.0 <= self.next) {
            debug_assert!(first < past, "no run is empty");
            self.next = self.next.max(past);
            self.beyond.pop_front();
        }
        true
    }

    /// How many runs begin at `number` or before.
    fn before(&self, number: u64) -> usize {
        self.beyond.partition_point(|&(first, _)| first <= number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn runs_are_the_set_of_the_numbers_that_came(
            steps in prop::collection::vec((0..600_u64, any::<bool>()), 0..400),
        ) {
            let mut runs = Runs::new(0);
            let mut came = BTreeSet::new();
            let mut lowest = 0;
            for (number, is_settled) in steps {
                if is_settled && number % 16 == 0 {
                    runs.settle(number);
                    lowest = lowest.max(number);
                } else if runs.has_room(number) {
                    let is_new = number >= lowest && came.insert(number);
                    prop_assert_eq!(runs.record(number), is_new);
                }
                while came.contains(&lowest) {
                    lowest += 1;
                }
                prop_assert_eq!(runs.next(), lowest);
                let beyond: Vec<u64> = runs.runs().flat_map(|(first, past)| first..past).collect();
                prop_assert_eq!(beyond, came.range(lowest..).copied().collect::<Vec<_>>());
                prop_assert!(runs.runs().count() <= MOST);
            }
        }
    }

    #[test]
    fn there_are_not_more_runs_than_allowed_and_what_joins_them_still_counts() {
        let mut runs = Runs::new(0);
        for number in (2..).step_by(2).take(MOST) {
            assert!(runs.has_room(number) && runs.record(number));
        }
        let last = 2 * MOST as u64;

        assert!(!runs.has_room(last + 2));
        assert!(runs.has_room(last + 1) && runs.has_room(3) && runs.has_room(0));
    }
}

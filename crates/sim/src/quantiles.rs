//! Ranks in a stream of durations, in bounded memory.
//!
//! ```text
//!   0 ... FINEST    x2      x4          the last bucket is without end
//!   |64 buckets |64      |64      | ...
//! ```

use std::time::Duration;

/// Buckets of an octave: what is said is right to half of a bucket, 0.8 %.
const STEPS: usize = 64;
/// Octaves above the finest: up to about 19 hours.
const OCTAVES: usize = 32;
/// Nanoseconds below which buckets are no finer.
const FINEST: u64 = 1 << 14;

/// How many durations there were of each length, to about a hundredth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// Counts by length of duration, up to the longest duration added.
    buckets: Vec<u64>,
}

impl Quantiles {
    /// Adds one.
    pub fn add(&mut self, value: Duration) {
        let index = index(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
        if self.buckets.len() <= index {
            self.buckets.resize(index + 1, 0);
        }
        self.buckets[index] += 1;
    }

    /// The duration of the given rank, where 1 is the shortest; `None` if too few were added.
    #[must_use]
    pub fn ranked(&self, rank: u64) -> Option<Duration> {
        let mut below = 0;
        let found = self.buckets.iter().position(|count| {
            below += count;
            below >= rank.max(1)
        });
        found.map(middle)
    }
}

fn index(nanos: u64) -> usize {
    let octave = (nanos / FINEST).checked_ilog2().map_or(0, |octave| octave as usize + 1);
    if octave > OCTAVES {
        return STEPS * (OCTAVES + 1) - 1;
    }
    let (low, step) = bounds(octave);
    let within = usize::try_from((nanos - low) / step).unwrap_or(STEPS - 1);
    octave * STEPS + within
}

/// The middle of a bucket.
fn middle(index: usize) -> Duration {
    let (low, step) = bounds(index / STEPS);
    Duration::from_nanos(low + step * (index % STEPS) as u64 + step / 2)
}

/// Where an octave begins, and how long its buckets are. The first one begins at nothing.
fn bounds(octave: usize) -> (u64, u64) {
    let begin = if octave == 0 { 0 } else { FINEST << (octave - 1) };
    (begin, begin.max(FINEST) / STEPS as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn a_rank_is_that_of_the_sorted_list_to_a_hundredth(
            micros in prop::collection::vec(0..10_000_000_u64, 1..200),
            at in any::<prop::sample::Index>(),
        ) {
            let mut quantiles = Quantiles::default();
            micros.iter().for_each(|it| quantiles.add(Duration::from_micros(*it)));
            let mut sorted = micros.clone();
            sorted.sort_unstable();
            let rank = at.index(sorted.len());

            let found = quantiles.ranked(rank as u64 + 1).expect("there are as many");

            let (found, right) = (found.as_secs_f64(), sorted[rank] as f64 / 1e6);
            prop_assert!((found - right).abs() <= 0.01 * right + 1e-6, "{found} is not {right}");
            prop_assert_eq!(quantiles.ranked(sorted.len() as u64 + 1), None);
        }
    }

    #[test]
    fn the_longest_and_the_shortest_have_a_bucket() {
        let mut quantiles = Quantiles::default();
        for value in [Duration::ZERO, Duration::MAX] {
            quantiles.add(value);
        }

        assert!(quantiles.ranked(1) < Some(Duration::from_micros(1)));
        assert!(quantiles.ranked(2) > Some(Duration::from_secs(3_600)));
        assert_eq!(Quantiles::default().ranked(1), None);
    }
}

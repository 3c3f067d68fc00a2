//! Samples a scenario while it runs, and computes the metrics.

use std::time::Duration;

use base::time::Time;

use super::{BY_HOPS, CHANGES, LAG, SEEN, WITHOUT};
use crate::prelude::*;

/// How often hops and octets are looked at.
pub const STEP: Duration = Duration::from_millis(50);
/// The samples in a bin of the goodput whose variation is computed: 1 s.
const BIN: usize = 20;
/// When the paper's "first 100 s" end.
pub const EARLY: Duration = Duration::from_secs(100);
/// How far a hop count may be from its published time and still be the same.
const NEAR: Duration = Duration::from_secs(5);

/// Hops of the mobile node to the gateway, and since when: table 2 of the paper. The first is the
/// begin of the flow.
pub const TABLE_2: [(f64, usize); 31] = [
    (20.3, 2),
    (27.6, 1),
    (38.1, 2),
    (47.7, 3),
    (60.2, 2),
    (66.7, 1),
    (73.6, 2),
    (80.2, 3),
    (105.2, 2),
    (125.7, 1),
    (145.2, 2),
    (165.6, 3),
    (177.7, 2),
    (188.6, 1),
    (197.7, 2),
    (207.8, 3),
    (250.2, 2),
    (290.1, 1),
    (330.6, 2),
    (370.6, 3),
    (404.0, 2),
    (409.4, 1),
    (414.0, 2),
    (419.0, 3),
    (433.1, 2),
    (435.9, 1),
    (439.4, 2),
    (443.1, 3),
    (550.6, 2),
    (683.4, 1),
    (817.3, 2),
];

/// The first flow, sample by sample.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// When each sample was taken.
    times: Vec<Time>,
    /// Hops from the source to the gateway, or to the destination in the MANET.
    hops: Vec<Option<usize>>,
    /// Octets received so far.
    octets: Vec<u64>,
}

impl Samples {
    pub fn push(&mut self, now: Time, hops: Option<usize>, octets: u64) {
        self.times.push(now);
        self.hops.push(hops);
        self.octets.push(octets);
    }

    /// Hop counts in the order in which they came: times without a route do not count.
    pub fn changes(&self) -> Vec<(Time, usize)> {
        let mut changes: Vec<(Time, usize)> = Vec::new();
        for (time, hops) in self.times.iter().zip(&self.hops) {
            let Some(hops) = *hops else { continue };
            if changes.last().is_none_or(|(_, last)| *last != hops) {
                changes.push((*time, hops));
            }
        }
        changes
    }

    /// The measurements of the first flow.
    pub fn outcome(&self) -> Outcome {
        let early = self.changes().iter().filter(|(at, _)| *at < Time::ZERO + EARLY).count();
        let without = self.hops.iter().filter(|hops| hops.is_none()).count();
        let mut outcome = vec![
            // The first hop count is no change.
            exact(CHANGES, early.saturating_sub(1) as f64),
            exact(WITHOUT, STEP.as_secs_f64() * without as f64),
        ];
        let (seen, lag) = self.compared();
        outcome.push(exact(SEEN, seen));
        outcome.push(exact(LAG, lag));
        for (metric, hops) in BY_HOPS.into_iter().zip(1..) {
            if let Some(goodput) = self.goodput_at(hops) {
                outcome.push(exact(metric, goodput));
            }
        }
        outcome
    }

    /// Goodput in kbit/s in each bin, at its end in seconds.
    pub fn goodput_over_time(&self) -> Vec<(f64, f64)> {
        let ends: Vec<usize> = (0..self.octets.len()).step_by(BIN).collect();
        let seconds = (STEP * u32::try_from(BIN).unwrap_or(u32::MAX)).as_secs_f64();
        let bins = ends.windows(2).map(|pair| {
            let octets = self.octets[pair[1]] - self.octets[pair[0]];
            (self.times[pair[1]].as_secs_f64(), octets as f64 * 8.0 / 1_000.0 / seconds)
        });
        bins.collect()
    }

    /// Goodput in kbit/s while there are so many hops, if there are for a second in all.
    fn goodput_at(&self, hops: usize) -> Option<f64> {
        let with = |index: &usize| self.hops[*index] == Some(hops);
        let steps = (1..self.octets.len()).filter(|index| with(index) && with(&(index - 1)));
        let (count, octets) = steps.fold((0_u32, 0), |(count, octets), index| {
            (count + 1, octets + self.octets[index] - self.octets[index - 1])
        });
        let time = (STEP * count).as_secs_f64();
        (time >= 1.0).then(|| octets as f64 * 8.0 / 1_000.0 / time)
    }

    /// The share of table 2's changes seen near their times, and the greatest difference among the seen changes.
    fn compared(&self) -> (f64, f64) {
        let changes = self.changes();
        let (mut seen, mut greatest) = (0, 0.0_f64);
        for (at, hops) in TABLE_2 {
            let off = |time: &Time| (time.as_secs_f64() - at).abs();
            let same = changes.iter().filter(|(_, it)| *it == hops).map(|(time, _)| off(time));
            let nearest = same.fold(f64::INFINITY, f64::min);
            if nearest <= NEAR.as_secs_f64() {
                seen += 1;
                greatest = greatest.max(nearest);
            }
        }
        (f64::from(seen) / TABLE_2.len() as f64, greatest)
    }
}

/// The deviation of goodput in bins over its mean, of octets received so far at each step.
pub fn variation(octets: &[u64]) -> f64 {
    let ends: Vec<f64> = octets.iter().step_by(BIN).map(|it| *it as f64).collect();
    let bins: Vec<f64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = bins.iter().sum::<f64>() / bins.len() as f64;
    let squares: f64 = bins.iter().map(|it| (it - mean) * (it - mean)).sum();
    (squares / bins.len() as f64).sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(hops: impl Fn(f64) -> Option<usize>, rate: impl Fn(f64) -> u64) -> Samples {
        let mut samples = Samples::default();
        let mut octets = 0;
        for step in 0..(860 * 20) {
            let now = Time::ZERO + Duration::from_secs(20) + STEP * step;
            octets += rate(now.as_secs_f64());
            samples.push(now, hops(now.as_secs_f64()), octets);
        }
        samples
    }

    fn get(samples: &Samples, metric: &str) -> Option<f64> {
        let outcome = samples.outcome();
        outcome.iter().find(|(name, _)| *name == metric).map(|(_, value)| value.value())
    }

    /// What the paper's table says.
    fn table(now: f64) -> Option<usize> {
        TABLE_2.iter().rev().find(|(at, _)| *at <= now).map(|(_, hops)| *hops)
    }

    #[test]
    fn the_paper_agrees_with_its_own_table() {
        let samples = samples(table, |_| 100);

        assert_eq!(get(&samples, SEEN), Some(1.0));
        assert!(get(&samples, LAG).unwrap() <= 0.051);
        // The seven that follow the first before 100 s.
        assert_eq!(get(&samples, CHANGES), Some(7.0));
    }

    #[test]
    fn routes_that_come_late_or_never_are_told() {
        let late = samples(|now| table(now - 3.0), |_| 100);
        let never = samples(|_| Some(2), |_| 100);

        assert!((get(&late, LAG).unwrap() - 3.0).abs() < 0.1);
        assert_eq!(get(&late, SEEN), Some(1.0));
        assert!(get(&never, SEEN).unwrap() < 0.1);
    }

    #[test]
    fn goodput_is_told_by_hops() {
        let samples = samples(table, |now| 400 / table(now).unwrap_or(1) as u64);

        // 400 octets in 50 ms are 64 kbit/s.
        assert_eq!(get(&samples, BY_HOPS[0]).map(f64::round), Some(64.0));
        assert_eq!(get(&samples, BY_HOPS[1]).map(f64::round), Some(32.0));
        assert_eq!(get(&samples, BY_HOPS[4]), None);
    }

    #[test]
    fn what_stops_and_goes_varies() {
        let steady = samples(table, |_| 100);
        let wild = samples(table, |now| if (now / 20.0).fract() < 0.5 { 200 } else { 0 });

        assert!(variation(&steady.octets) < 0.01);
        assert!(variation(&wild.octets) > 0.5);
    }

    #[test]
    fn goodput_over_time_is_that_of_each_second() {
        let slower = samples(table, |now| if now < 40.0 { 400 } else { 200 });

        let goodput = slower.goodput_over_time();

        // 20 samples of 400 octets in a second are 64 kbit/s.
        assert_eq!(goodput.len(), 859);
        assert_eq!(goodput[5], (26.0, 64.0));
        assert_eq!(goodput[500].1, 32.0);
    }
}

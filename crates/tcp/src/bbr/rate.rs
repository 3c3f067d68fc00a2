//! Estimates the delivery rate in octets per second: one sample per round trip, and the greatest recent one.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;

use super::super::congestion::Delivery;

/// Rounds for which a sample counts.
const ROUNDS: u64 = 10;
/// Most remembered points in time: acknowledgements of a round trip, thinned when there are more.
const POINTS: usize = 512;

/// Measures the delivery rate: octets delivered since the newly acknowledged data was sent.
///
/// Samples cover a whole round trip, so that a burst of acknowledgements does not count as a rate.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    /// When how many octets had been delivered, oldest first.
    points: VecDeque<(Time, u64)>,
    delivered: u64,
    rtt: Duration,
    is_idle: bool,
}

impl Sampler {
    /// Takes an acknowledgement, and the round-trip time if it is known; octets a second.
    pub fn take(&mut self, now: Time, delivery: Delivery, rtt: Option<Duration>) -> Option<f64> {
        self.rtt = rtt.unwrap_or(self.rtt);
        self.delivered = self.delivered.max(delivery.total);
        self.is_idle = delivery.in_flight == 0;
        let is_past = |point: &&(Time, u64)| now.since(point.0) >= self.rtt;
        // A flight that ends sooner than the mean round trip is measured from its beginning: the first point is a
        // transmission after a silence as long as no point is a round trip old.
        let whole = || self.points.front().filter(|_| delivery.in_flight == 0);
        let past = self.points.iter().rev().find(is_past).or_else(whole).copied();
        let rate = past.filter(|(then, _)| *then < now).map(|(then, delivered)| {
            self.delivered.saturating_sub(delivered) as f64 / now.since(then).as_secs_f64()
        });
        // Older ones are not looked at again.
        while self.points.get(1).is_some_and(|point| now.since(point.0) > self.rtt) {
            self.points.pop_front();
        }
        if self.points.len() >= POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.points.push_back((now, self.delivered));
        rate.filter(|rate| *rate > 0.0)
    }

    /// Something was sent: after a silence the rate is measured from here on.
    pub fn note_sent(&mut self, now: Time) {
        if self.is_idle || self.points.is_empty() {
            self.points.clear();
            self.points.push_back((now, self.delivered));
            self.is_idle = false;
        }
    }

    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    pub fn rtt(&self) -> Duration {
        self.rtt
    }
}

/// The greatest sample of the last [`ROUNDS`] rounds.
#[derive(Clone, Debug, Default)]
pub struct MaxFilter {
    /// Samples by round; each is greater than all later ones.
    samples: VecDeque<(u64, f64)>,
}

impl MaxFilter {
    pub fn add(&mut self, round: u64, rate: f64) {
        while self.samples.back().is_some_and(|(_, other)| *other <= rate) {
            self.samples.pop_back();
        }
        // The first and the greatest sample of a round suffice.
        if self.samples.back().is_none_or(|(of, _)| *of != round) {
            self.samples.push_back((round, rate));
        }
        while self.samples.front().is_some_and(|(of, _)| of + ROUNDS < round) {
            self.samples.pop_front();
        }
    }

    /// Octets a second; 0 before the first.
    pub fn max(&self) -> f64 {
        self.samples.front().map_or(0.0, |(_, rate)| *rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn acknowledgements_that_come_together_are_no_rate() {
        let mut sampler = Sampler::default();
        let mut take = |millis, total| {
            let delivery = Delivery { total, in_flight: 1_000, is_app_limited: false };
            sampler.take(at(millis), delivery, Some(Duration::from_millis(100)))
        };

        assert_eq!(take(0, 0), None);
        assert_eq!(take(100, 1_000), Some(10_000.0));
        for millis in 101..=103 {
            let rate = take(millis, 1_000 + (millis - 100) * 1_000).expect("a round trip is over");
            assert!(rate <= 40_000.0, "{rate}");
        }
    }

    #[test]
    fn a_silence_does_not_count() {
        let mut sampler = Sampler::default();
        let delivery = |total, in_flight| Delivery { total, in_flight, is_app_limited: false };
        let rtt = Some(Duration::from_millis(100));
        sampler.note_sent(at(0));
        assert_eq!(sampler.take(at(100), delivery(1_000, 0), rtt), Some(10_000.0));

        sampler.note_sent(at(10_000));

        assert_eq!(sampler.take(at(10_100), delivery(2_000, 0), rtt), Some(10_000.0));
    }

    /// A mean that falls towards the time of each packet is never reached by it.
    #[test]
    fn a_lone_packet_that_is_faster_than_the_mean_is_a_sample() {
        let mut sampler = Sampler::default();
        sampler.note_sent(at(0));

        let delivery = Delivery { total: 1_000, in_flight: 0, is_app_limited: false };
        let rate = sampler.take(at(50), delivery, Some(Duration::from_millis(60)));

        assert_eq!(rate, Some(20_000.0));
    }

    #[test]
    fn the_greatest_of_ten_rounds_counts() {
        let mut filter = MaxFilter::default();
        for (round, rate) in [(1, 5.0), (2, 9.0), (3, 7.0), (3, 4.0)] {
            filter.add(round, rate);
        }
        assert_eq!(filter.max(), 9.0);

        filter.add(12, 1.0);
        assert_eq!(filter.max(), 9.0);
        filter.add(13, 1.0);
        assert_eq!(filter.max(), 7.0);
    }
}

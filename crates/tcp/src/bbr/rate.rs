//! Estimates the delivery rate in octets per second: a sample for each acknowledgement, and the greatest recent one.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;

use super::super::congestion::Delivery;

/// Rounds for which a sample counts.
const ROUNDS: u64 = 10;
/// Most remembered transmissions; when there are more, every other one is forgotten.
const MOST: usize = 4_096;

/// Measures the delivery rate: octets delivered from the time when a segment was sent until its acknowledgement comes
/// (draft-cheng-iccrg-delivery-rate-estimation-00, as Linux has it).
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    /// Transmissions, oldest first; of several with the same state only the first.
    sent: VecDeque<Sent>,
    delivered: u64,
    /// When that became known.
    delivered_at: Time,
    /// When the newest segment that has arrived was sent.
    arrived_sent_at: Time,
    is_idle: bool,
}

/// A transmission, and the state of the sampler then.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Time,
    delivered: u64,
    delivered_at: Time,
    arrived_sent_at: Time,
}

impl Sampler {
    /// Takes an acknowledgement; octets a second. A sample over less than the `least` round trip is none.
    pub fn take(&mut self, now: Time, delivery: Delivery, least: Duration) -> Option<f64> {
        self.is_idle = delivery.in_flight == 0;
        if delivery.total <= self.delivered {
            return None;
        }
        (self.delivered, self.delivered_at) = (delivery.total, now);
        let at = delivery.sent_at?;
        let older = self.sent.partition_point(|sent| sent.at <= at).saturating_sub(1);
        self.sent.drain(..older);
        let sent = *self.sent.front()?;
        self.arrived_sent_at = self.arrived_sent_at.max(at);
        // Acknowledgements that come together say nothing about a rate, nor do segments that left together.
        let span = now.since(sent.delivered_at).max(at.since(sent.arrived_sent_at));
        let octets = (self.delivered - sent.delivered) as f64;
        (span >= least && !span.is_zero()).then(|| octets / span.as_secs_f64())
    }

    /// Something was sent: after a silence the rate is measured from here on.
    pub fn note_sent(&mut self, now: Time) {
        if self.is_idle || self.sent.is_empty() {
            self.sent.clear();
            (self.delivered_at, self.arrived_sent_at) = (now, now);
            self.is_idle = false;
        }
        let Self { delivered, delivered_at, arrived_sent_at, .. } = *self;
        if self.sent.back().is_some_and(|last| last.delivered == delivered) {
            return;
        }
        if self.sent.len() >= MOST {
            let mut index = 0;
            self.sent.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.sent.push_back(Sent { at: now, delivered, delivered_at, arrived_sent_at });
    }

    pub fn delivered(&self) -> u64 {
        self.delivered
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

    fn delivery(total: u64, in_flight: u64, sent: u64) -> Delivery {
        Delivery { total, in_flight, sent_at: Some(at(sent)), is_app_limited: false }
    }

    const LEAST: Duration = Duration::from_millis(100);

    #[test]
    fn acknowledgements_that_come_together_are_no_rate() {
        let mut sampler = Sampler::default();
        for millis in 0..100 {
            sampler.note_sent(at(millis));
        }

        for millis in 0..100 {
            let took = sampler.take(at(200), delivery((millis + 1) * 1_000, 1_000, millis), LEAST);
            let rate = took.expect("200 ms are over");
            assert!(rate <= 500_000.0, "{rate}");
        }
    }

    #[test]
    fn a_span_shorter_than_any_round_trip_shows_no_rate() {
        let mut sampler = Sampler::default();
        sampler.note_sent(at(0));

        assert_eq!(sampler.take(at(99), delivery(40_000, 1_000, 0), LEAST), None);
    }

    #[test]
    fn segments_that_left_slowly_arrive_no_faster() {
        let mut sampler = Sampler::default();
        for millis in [0, 100, 200, 300] {
            sampler.note_sent(at(millis));
        }
        assert!(sampler.take(at(300), delivery(1_000, 3_000, 0), LEAST).is_some());
        sampler.note_sent(at(300));

        let rate = sampler.take(at(400), delivery(4_000, 1_000, 300), LEAST);

        assert_eq!(rate, Some(10_000.0), "3 kB left within 300 ms");
    }

    #[test]
    fn a_silence_does_not_count() {
        let mut sampler = Sampler::default();
        sampler.note_sent(at(0));
        assert_eq!(sampler.take(at(100), delivery(1_000, 0, 0), LEAST), Some(10_000.0));

        sampler.note_sent(at(10_000));

        let rate = sampler.take(at(10_100), delivery(2_000, 0, 10_000), LEAST);
        assert_eq!(rate, Some(10_000.0));
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

//! Measures the rate of delivery by the clock of the peer: for the rate control, and for an operator.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;

/// The approximate number of samples in a span.
const SAMPLES: u32 = 16;
/// The shortest time over which [`Delivered`] is measured, by both clocks.
const SPAN: Duration = Duration::from_millis(100);
/// The part of a greater rate measured before that remains with each measurement.
const KEPT: f64 = 0.9;

/// The progress of the newest datagram received, in octets sent, so that loss does not lower the rate.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    octets: u64,
}

impl Delivery {
    /// Takes the arrival at `at` of a datagram that was sent when `octets` had been sent in total.
    pub fn handle_sample(&mut self, at: Duration, octets: u64, span: Duration) {
        // The last sample is replaced until it is far enough from the one before.
        if let [.., before, last] = self.samples.make_contiguous()
            && last.at.saturating_sub(before.at) < span / SAMPLES
        {
            *last = Sample { at, octets };
        } else {
            self.samples.push_back(Sample { at, octets });
        }
        // One sample older than the span stays, as the start of the measurement.
        while self.samples.len() > 2
            && (self.samples.len() > 2 * SAMPLES as usize
                || at.saturating_sub(self.samples[1].at) >= span)
        {
            self.samples.pop_front();
        }
    }

    /// Forgets all samples: the sender paused, or the clock of the peer was set.
    pub fn clear(&mut self) {
        self.samples.clear();
    }

    /// The rate in octets per second; `None` before two samples.
    pub fn rate(&self) -> Option<f64> {
        self.rate_from(0)
    }

    /// The rate over the newest part of the samples, which follows a growing rate sooner.
    pub fn newest_rate(&self) -> Option<f64> {
        self.rate_from(self.samples.len().saturating_sub(1 + SAMPLES as usize / 4))
    }

    fn rate_from(&self, first: usize) -> Option<f64> {
        let (first, last) = (self.samples.get(first)?, self.samples.back()?);
        let elapsed = last.at.saturating_sub(first.at);
        (!elapsed.is_zero())
            .then(|| last.octets.saturating_sub(first.octets) as f64 / elapsed.as_secs_f64())
    }
}

/// The rate at which the path delivers, for an operator: what has arrived, and no more than was sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivered {
    from: Option<Arrival>,
    rate: f64,
}

/// The newest datagram that a report is about.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it was sent, and when it came by the clock of the peer.
    pub sent_at: Time,
    pub came_at: Duration,
    /// Octets sent up to it, and its number.
    pub octets: u64,
    pub number: u64,
    /// How many datagrams have come in all.
    pub received: u64,
}

impl Delivered {
    pub fn handle_report(&mut self, arrival: Arrival) {
        let Some(from) = self.from.filter(|from| from.came_at <= arrival.came_at) else {
            self.from = Some(arrival);
            return;
        };
        // The peer's clock may say anything; nothing comes faster than it was sent.
        let elapsed = (arrival.came_at - from.came_at).max(arrival.sent_at.since(from.sent_at));
        if elapsed < SPAN {
            return;
        }
        let sent = arrival.number.saturating_sub(from.number) as f64;
        let received = arrival.received.saturating_sub(from.received) as f64;
        let octets = arrival.octets.saturating_sub(from.octets) as f64;
        let rate = octets * (received / sent.max(1.0)).min(1.0) / elapsed.as_secs_f64();
        self.rate = rate.max(KEPT * self.rate);
        self.from = Some(arrival);
    }

    /// In octets a second; 0 before anything was measured.
    pub fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate after datagrams of 1,000 octets every millisecond, of which every `every`th is lost; the peer's clock
    /// goes by `tick` each time.
    fn after(datagrams: u32, every: u32, tick: Duration) -> f64 {
        let mut delivered = Delivered::default();
        let mut received = 0;
        for number in 0..datagrams {
            received += u64::from(number % every != 0);
            delivered.handle_report(Arrival {
                sent_at: Time::ZERO + Duration::from_millis(1) * number,
                came_at: tick * number,
                octets: 1_000 * u64::from(number),
                number: u64::from(number),
                received,
            });
        }
        delivered.rate()
    }

    #[test]
    fn it_is_what_arrived() {
        let millisecond = Duration::from_millis(1);

        assert!((after(1_000, 1_001, millisecond) - 1e6).abs() < 1e3);
        assert!((after(1_000, 10, millisecond) - 0.9e6).abs() < 1e4);
        assert!((after(1_000, 1_001, 4 * millisecond) - 0.25e6).abs() < 1e3, "a slower path");
    }

    #[test]
    fn it_is_never_above_what_was_sent() {
        assert!(after(1_000, 1_001, Duration::from_nanos(1)) <= 1.001e6, "a clock that lies");
        assert!(after(5, 1_001, Duration::from_millis(1)) <= 5_000.0 / 0.1);
        assert!(after(100, 1_001, Duration::from_millis(1)) < 1.0, "too short to tell");
    }
}

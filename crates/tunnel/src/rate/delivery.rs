//! The delivery rate, by the clock of the peer.

use std::collections::VecDeque;
use std::time::Duration;

/// The approximate number of samples in a span.
const SAMPLES: u32 = 16;

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

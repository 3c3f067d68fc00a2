//! How fast what was sent arrives, by the clock of the peer.

use std::collections::VecDeque;
use std::time::Duration;

/// Samples to a span, about.
const SAMPLES: u32 = 16;

/// The advance of the newest datagram, counted in octets sent, so that loss does not slow it.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    octets: u64,
}

impl Delivery {
    /// Up to `octets` had been sent when the datagram was that came `at`.
    pub(super) fn handle_sample(&mut self, at: Duration, octets: u64, span: Duration) {
        // The last one moves until it is far enough from the one before.
        if let [.., before, last] = self.samples.make_contiguous()
            && last.at.saturating_sub(before.at) < span / SAMPLES
        {
            *last = Sample { at, octets };
        } else {
            self.samples.push_back(Sample { at, octets });
        }
        // One stays that is older than the span, to measure from.
        while self.samples.len() > 2
            && (self.samples.len() > 2 * SAMPLES as usize
                || at.saturating_sub(self.samples[1].at) >= span)
        {
            self.samples.pop_front();
        }
    }

    /// Forgets all: the sender paused, or the clock of the peer was set.
    pub(super) fn clear(&mut self) {
        self.samples.clear();
    }

    /// Octets a second; `None` before two samples.
    pub(super) fn rate(&self) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let elapsed = last.at.saturating_sub(first.at);
        (!elapsed.is_zero())
            .then(|| last.octets.saturating_sub(first.octets) as f64 / elapsed.as_secs_f64())
    }
}

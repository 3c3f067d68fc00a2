//! Levels and rates over time, in bounded memory.

use std::time::Duration;

use base::time::Time;

/// Levels and rates over time, one of each for every interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// How long an interval is.
    pub interval: Duration,
    /// Octets that applications received, for each flow.
    pub received: Vec<Vec<u64>>,
    /// What each node did.
    pub nodes: Vec<Vec<NodeSample>>,
}

/// What a node did in an interval.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NodeSample {
    /// The most packets that waited whenever we looked.
    pub waiting: u64,
    /// Packets put on media.
    pub sent: u64,
    /// Sent packets that were lost on the way.
    pub lost: u64,
    /// Packets dropped before that: the queue was full, the link down, or there was no route.
    pub dropped: u64,
}

impl NodeSample {
    /// The difference to an earlier count; `waiting` stays as it is now.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            waiting: self.waiting,
            sent: self.sent.saturating_sub(before.sent),
            lost: self.lost.saturating_sub(before.lost),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }
}

/// Takes samples.
#[derive(Clone, Debug)]
pub struct Sampler {
    done: Samples,
    /// How many intervals are kept at most.
    limit: usize,
    /// Counts within the interval that ends at `due`.
    received: Vec<u64>,
    nodes: Vec<NodeSample>,
    due: Time,
}

impl NodeSample {
    /// Both, one after the other.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        Self {
            waiting: self.waiting.max(later.waiting),
            sent: self.sent + later.sent,
            lost: self.lost + later.lost,
            dropped: self.dropped + later.dropped,
        }
    }
}

impl Samples {
    /// How many intervals there are.
    #[must_use]
    pub fn len(&self) -> usize {
        let flows = self.received.iter().map(Vec::len);
        flows.chain(self.nodes.iter().map(Vec::len)).max().unwrap_or_default()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Any two intervals become one.
    fn halve(&mut self) {
        self.interval *= 2;
        for series in &mut self.received {
            join(series, |a, b| a + b);
        }
        for series in &mut self.nodes {
            join(series, NodeSample::and);
        }
    }
}

impl Sampler {
    /// Watches `flows` flows and `nodes` nodes from `now` on. Beyond `limit` intervals (two or more), every two
    /// intervals become one, and later intervals are twice as long.
    #[must_use]
    pub fn new(now: Time, interval: Duration, limit: usize, flows: usize, nodes: usize) -> Self {
        let done =
            Samples { interval, received: vec![Vec::new(); flows], nodes: vec![Vec::new(); nodes] };
        let (received, nodes) = (vec![0; flows], vec![NodeSample::default(); nodes]);
        Self { done, limit: limit.max(2) & !1, received, nodes, due: now + interval }
    }

    /// How long an interval is now.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.done.interval
    }

    /// Takes what has happened since the last call.
    pub fn add(&mut self, now: Time, received: &[u64], nodes: &[NodeSample]) {
        for (sum, octets) in self.received.iter_mut().zip(received) {
            *sum += octets;
        }
        for (sum, sample) in self.nodes.iter_mut().zip(nodes) {
            *sum = sum.and(*sample);
        }
        while now >= self.due {
            self.close();
        }
    }

    /// What there is; an interval that has only begun counts as a whole one.
    #[must_use]
    pub fn finish(mut self) -> Samples {
        let is_begun = self.received.iter().any(|octets| *octets > 0)
            || self.nodes.iter().any(|sample| *sample != NodeSample::default());
        if is_begun {
            self.close();
        }
        self.done
    }

    fn close(&mut self) {
        for (series, octets) in self.done.received.iter_mut().zip(&mut self.received) {
            series.push(std::mem::take(octets));
        }
        for (series, sample) in self.done.nodes.iter_mut().zip(&mut self.nodes) {
            series.push(std::mem::take(sample));
        }
        if self.done.len() >= self.limit {
            self.done.halve();
        }
        self.due += self.done.interval;
    }
}

/// Joins each pair of consecutive values into one value.
fn join<T: Copy>(series: &mut Vec<T>, both: impl Fn(T, T) -> T) {
    *series = series.chunks(2).filter_map(|pair| pair.iter().copied().reduce(&both)).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_have_longer_intervals_and_lose_no_octet() {
        let step = Duration::from_millis(20);
        let mut sampler = Sampler::new(Time::ZERO, step, 100, 1, 1);

        let mut now = Time::ZERO;
        for n in 0..1_000 {
            now += step;
            let node = NodeSample { waiting: n, sent: 3, lost: 1, dropped: 2 };
            sampler.add(now, &[10], &[node]);
        }
        let samples = sampler.finish();

        // 20 s in intervals of 320 ms, of which the last is not full.
        assert_eq!(samples.interval, Duration::from_millis(320));
        assert_eq!(samples.len(), 63);
        assert_eq!(samples.received[0][..2], [160, 160]);
        assert_eq!(samples.received[0].iter().sum::<u64>(), 10_000);
        let first = NodeSample { waiting: 15, sent: 48, lost: 16, dropped: 32 };
        assert_eq!(samples.nodes[0][0], first);
    }
}

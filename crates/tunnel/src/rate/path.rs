//! Measures the path by reports: round-trip time, one-way delay and the queue before the bottleneck.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::{Time, nanos};

use super::bias::Bias;
use super::flight::Sent;

/// Datagrams are sorted by length into classes of so many octets; the last class has all longer ones.
const LENGTH: u64 = 256;
const LENGTHS: usize = 7;
/// The most samples that [`Recent`] keeps.
const SAMPLES: usize = 64;

/// The measurements of the path.
#[derive(Clone, Debug, Default)]
pub struct Path {
    rtt: Rtt,
    /// The round-trip time for the window: without the time that reports waited on their way.
    turn: Rtt,
    rtt_least: Leasts,
    /// The round-trip time of the newest long datagram, in seconds.
    long: Option<f64>,
    /// The one-way delay to the peer by two clocks, of which only differences have a meaning.
    delay: Leasts,
    /// By how much the one-way delays of a short time exceed the least.
    recent: Recent,
    /// When the newest report came, and the octets of long datagrams then.
    at: Time,
    octets: u64,
    /// The one-way delay of reports, by the two clocks.
    back: Least,
    /// The part of the delay that looks like a queue and is none.
    bias: Bias,
}

/// Round-trip times in seconds, as RFC 6298 smooths them.
#[derive(Clone, Copy, Debug, Default)]
struct Rtt {
    smoothed: f64,
    variation: f64,
}

impl Path {
    /// Takes a report that came `now` and shows a round-trip time. The peer received its datagram, `sent`, at this time of
    /// the peer's clock, in nanoseconds; long datagrams have `octets`. Returns by how much the datagram's delay exceeded
    /// its minimum, in seconds, and by how much the report's delay did.
    pub fn handle_report(
        &mut self,
        now: Time,
        rtt: Duration,
        (sent, octets): (&Sent, u64),
        at: i64,
    ) -> (f64, Duration) {
        (self.at, self.octets) = (now, octets);
        self.rtt.handle_sample(rtt.as_secs_f64());
        if 2 * sent.octets() >= octets {
            self.long = Some(rtt.as_secs_f64());
        }
        let half = self.memory() / 2;
        let rtt = i64::try_from(nanos(rtt)).unwrap_or(i64::MAX);
        self.rtt_least.handle_sample(now, sent.octets(), rtt, half);
        let delay = at.saturating_sub(i64::try_from(sent.at.as_nanos()).unwrap_or(i64::MAX));
        let back = rtt.saturating_sub(delay);
        self.delay.handle_sample(now, sent.octets(), delay, half);
        self.back.handle_sample(now, back, half);

        let excess =
            |delay: i64, least: Option<i64>| delay.saturating_sub(least.unwrap_or(delay)).max(0);
        let late = u64::try_from(excess(back, self.back.get())).unwrap_or(0);
        let late = late.min(u64::try_from(rtt).unwrap_or(0));
        let turn = u64::try_from(rtt).unwrap_or(0) - late;
        self.turn.handle_sample(Duration::from_nanos(turn.max(1)).as_secs_f64());
        let queue = excess(delay, self.delay.get(now, sent.octets()));
        self.recent.handle_sample(now, queue, self.span());
        (queue as f64 / 1e9, Duration::from_nanos(late))
    }

    /// Forgets measurements by the peer's clock, because the clock was set back.
    pub fn handle_clock_change(&mut self) {
        self.delay = Leasts::default();
        self.back = Least::default();
        self.recent = Recent::default();
    }

    /// The queue before the bottleneck, in seconds.
    pub fn queue(&self) -> Option<f64> {
        Some((self.wait()? - self.bias.delay()).max(0.0))
    }

    /// By how much the delay exceeds the least one, in seconds.
    fn wait(&self) -> Option<f64> {
        Some(self.recent.get()? as f64 / 1e9)
    }

    /// Notes the delay of a report, which exceeds the least one by `single` seconds.
    pub fn note_delay(&mut self, newest: u64, single: f64) {
        if let Some(wait) = self.wait() {
            self.bias.handle_report(newest, single, wait);
        }
    }

    /// The smoothed round-trip time, in seconds; zero before the first report.
    pub fn rtt(&self) -> f64 {
        self.rtt.smoothed
    }

    /// The mean deviation of the round-trip time, in seconds.
    pub fn rtt_variation(&self) -> f64 {
        self.rtt.variation
    }

    /// The smoothed round-trip time without what reports waited on their way, in seconds.
    pub fn turn(&self) -> f64 {
        self.turn.smoothed
    }

    /// The round-trip time of the newest long datagram, in seconds.
    pub fn long_rtt(&self) -> Option<f64> {
        self.long
    }

    /// The part of the delay that looks like a queue and is none.
    pub fn bias(&self) -> &Bias {
        &self.bias
    }

    pub fn bias_mut(&mut self) -> &mut Bias {
        &mut self.bias
    }

    /// The minimum round-trip time of the last seconds, of long datagrams.
    pub fn min_rtt(&self) -> Duration {
        let nanos = self.rtt_least.get(self.at, self.octets).unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// How long delays are remembered.
    pub fn memory(&self) -> Duration {
        Duration::from_secs_f64((20.0 * self.rtt.smoothed).clamp(10.0, 200.0))
    }

    /// The time over which the current rate and queue are measured.
    pub fn span(&self) -> Duration {
        Duration::from_secs_f64((self.turn.smoothed / 2.0).clamp(0.001, 10.0))
    }
}

impl Rtt {
    fn handle_sample(&mut self, sample: f64) {
        if self.smoothed == 0.0 {
            *self = Self { smoothed: sample, variation: sample / 2.0 };
            return;
        }
        self.variation += ((self.smoothed - sample).abs() - self.variation) / 4.0;
        self.smoothed += (sample - self.smoothed) / 8.0;
    }
}

/// The minimum delay by the length of datagrams: each hop takes longer for a longer one, on slow links so much longer that
/// this would look like a queue.
#[derive(Clone, Debug, Default)]
struct Leasts([Least; LENGTHS]);

impl Leasts {
    fn handle_sample(&mut self, now: Time, octets: u64, delay: i64, half: Duration) {
        let at = length(octets);
        if self.0[at].get_at(now).is_none()
            && let Some(shorter) = at.checked_sub(1).and_then(|at| self.0[at].get_at(now))
        {
            // The first long one may meet a queue; the shorter ones are hardly faster, and may have met none.
            self.0[at].handle_sample(now, shorter, half);
        }
        self.0[at].handle_sample(now, delay, half);
    }

    /// The least delay of datagrams of about this length or longer, because longer ones take at least as long; the least
    /// of all without such a datagram.
    fn get(&self, now: Time, octets: u64) -> Option<i64> {
        let of = |from| self.0[from..].iter().filter_map(|least| least.get_at(now)).min();
        of(length(octets)).or_else(|| of(0))
    }
}

fn length(octets: u64) -> usize {
    usize::try_from(octets / LENGTH).map_or(LENGTHS - 1, |length| length.min(LENGTHS - 1))
}

/// The minimum delay of the last one to two `half` periods, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Least {
    halves: Option<Halves>,
}

#[derive(Clone, Copy, Debug)]
struct Halves {
    previous: i64,
    current: i64,
    /// When `current` becomes `previous`, and the end of the period after that.
    turn: Time,
    stale: Time,
}

impl Least {
    fn handle_sample(&mut self, now: Time, delay: i64, half: Duration) {
        let (turn, stale) = (now + half, now + 2 * half);
        let new = Halves { previous: delay, current: delay, turn, stale };
        let halves = self.halves.get_or_insert(new);
        if now >= halves.turn {
            let previous = if now < halves.stale { halves.current } else { delay };
            *halves = Halves { previous, ..new };
        }
        halves.current = halves.current.min(delay);
    }

    fn get(&self) -> Option<i64> {
        self.halves.map(|halves| halves.previous.min(halves.current))
    }

    /// The same, unless it is older than that.
    fn get_at(&self, now: Time) -> Option<i64> {
        self.halves.filter(|halves| now < halves.stale)?;
        self.get()
    }
}

/// The minimum of a short recent time, in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Recent {
    /// The samples without a later smaller one, in ascending order.
    samples: VecDeque<(Time, i64)>,
}

impl Recent {
    fn handle_sample(&mut self, now: Time, delay: i64, span: Duration) {
        while self.samples.back().is_some_and(|&(_, later)| later >= delay) {
            self.samples.pop_back();
        }
        if self.samples.len() < SAMPLES {
            self.samples.push_back((now, delay));
        }
        while self.samples.front().is_some_and(|&(at, _)| now.since(at) > span) {
            self.samples.pop_front();
        }
    }

    fn get(&self) -> Option<i64> {
        self.samples.front().map(|&(_, delay)| delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// What is least for datagrams of so many octets, after samples of seconds, octets and nanoseconds.
    fn least(samples: &[(u32, u64, i64)], octets: u64) -> Option<i64> {
        let mut leasts = Leasts::default();
        let mut now = Time::ZERO;
        for &(seconds, octets, delay) in samples {
            now = Time::ZERO + SECOND * seconds;
            leasts.handle_sample(now, octets, delay, 5 * SECOND);
        }
        leasts.get(now, octets)
    }

    #[test]
    fn a_longer_datagram_is_never_faster() {
        assert_eq!(least(&[(0, 1_400, 90), (0, 100, 50)], 1_400), Some(90));
        assert_eq!(least(&[(0, 1_400, 90), (0, 700, 95)], 700), Some(90), "met a queue");
        assert_eq!(least(&[(0, 100, 50)], 1_400), Some(50), "none is so long");
    }

    #[test]
    fn of_a_length_that_is_new_the_next_shorter_one_is_known() {
        assert_eq!(least(&[(0, 1_200, 80), (1, 1_400, 300)], 1_400), Some(80));
        assert_eq!(least(&[(0, 100, 80), (1, 1_400, 300)], 1_400), Some(300));
    }

    #[test]
    fn what_is_old_is_forgotten_at_once() {
        assert_eq!(least(&[(0, 1_400, 80), (9, 1_400, 300)], 1_400), Some(80));
        assert_eq!(least(&[(0, 1_400, 80), (600, 1_400, 300)], 1_400), Some(300));
    }
}

//! λ: the rate of a flow that was told of congestion (Marques et al., section III.B and III.C).
//!
//! ```text
//!   initial phase ──HCN──▶ permanent: λ = throughput, then λ·q at each HCN, λ + p at each RTT
//!        ▲                     │
//!        └── no HCN any more ──┘   (default profile)
//! ```

use std::time::Duration;

use base::time::Time;

use super::config::{Config, PROBE_INTERVAL};

/// λ is at least this, bit/s.
const SLOWEST: f64 = 1_000.0;
/// How long throughput is averaged over.
const MEMORY: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub struct Pacer {
    increase: f64,
    decrease: f64,
    /// Acknowledged bits per second, a moving average.
    throughput: f64,
    counted_from: Option<Time>,
    bits: f64,
    limit: Option<Limit>,
}

#[derive(Clone, Debug)]
struct Limit {
    /// λ, bit/s.
    rate: f64,
    next_send: Time,
    /// When the rate may next change upwards, and downwards.
    increase_at: Time,
    decrease_at: Time,
    /// No packet waits longer for its turn, or the flow might never hear that congestion is over.
    longest: Duration,
}

impl Pacer {
    pub fn new(config: &Config) -> Self {
        Self {
            increase: config.rate_increase,
            decrease: config.rate_decrease,
            throughput: 0.0,
            counted_from: None,
            bits: 0.0,
            limit: None,
        }
    }

    /// Takes other parameters; the rate stays.
    pub fn set_config(&mut self, config: &Config) {
        (self.increase, self.decrease) = (config.rate_increase, config.rate_decrease);
    }

    /// The peer acknowledged `octets`.
    pub fn handle_acked(&mut self, now: Time, octets: usize) {
        let from = *self.counted_from.get_or_insert(now);
        self.bits += octets as f64 * 8.0;
        let elapsed = now.since(from);
        if elapsed >= MEMORY {
            let sample = self.bits / elapsed.as_secs_f64();
            self.throughput =
                if self.throughput == 0.0 { sample } else { (self.throughput + sample) / 2.0 };
            self.counted_from = Some(now);
            self.bits = 0.0;
        }
    }

    /// The peer reports that packets come faster than the peer can forward.
    pub fn handle_congestion(&mut self, now: Time, rtt: Duration) {
        match &mut self.limit {
            None => {
                let rate = self.throughput(now).max(SLOWEST);
                self.limit = Some(Limit {
                    rate,
                    next_send: now,
                    increase_at: now + rtt,
                    decrease_at: now + rtt,
                    longest: rtt.max(PROBE_INTERVAL),
                });
            }
            Some(limit) if now >= limit.decrease_at => {
                limit.rate = (limit.rate * self.decrease).max(SLOWEST);
                limit.decrease_at = now + rtt;
                limit.increase_at = now + rtt;
            }
            Some(_) => {}
        }
    }

    /// The peer says that congestion is over.
    pub fn handle_clear(&mut self) {
        self.limit = None;
    }

    /// Lets the rate grow for the round trips that have passed.
    pub fn advance(&mut self, now: Time, rtt: Duration) {
        let Some(limit) = &mut self.limit else { return };
        if now < limit.increase_at {
            return;
        }
        limit.increase_at = now + rtt;
        limit.rate += self.increase;
    }

    /// A packet of `octets` goes out.
    pub fn handle_sent(&mut self, now: Time, octets: usize) {
        if let Some(limit) = &mut self.limit {
            let gap = Duration::from_secs_f64(octets as f64 * 8.0 / limit.rate);
            limit.next_send = limit.next_send.max(now) + gap.min(limit.longest);
        }
    }

    /// When the next packet may go; `None` for at once.
    pub fn held_until(&self, now: Time) -> Option<Time> {
        self.limit.as_ref().map(|limit| limit.next_send).filter(|&at| at > now)
    }

    /// Whether the flow has a λ.
    pub fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// λ in bit/s, if the flow has a λ.
    #[cfg(test)]
    fn rate(&self) -> Option<f64> {
        self.limit.as_ref().map(|limit| limit.rate)
    }

    /// Acknowledged bits per second.
    pub fn throughput(&self, now: Time) -> f64 {
        let elapsed = self.counted_from.map_or(0.0, |from| now.since(from).as_secs_f64());
        if self.throughput > 0.0 || elapsed == 0.0 { self.throughput } else { self.bits / elapsed }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Profile;
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn congestion_starts_the_rate_at_the_throughput_and_then_then_shrinks_it() {
        let mut pacer = congested();

        assert_eq!((pacer.rate(), pacer.is_limited()), (Some(100_000.0), true));
        pacer.handle_congestion(at(1_050), RTT);
        assert_eq!(pacer.rate(), Some(100_000.0), "once a round trip");
        pacer.handle_congestion(at(1_100), RTT);
        assert_eq!(pacer.rate(), Some(80_000.0));
    }

    #[test]
    fn packets_are_spaced_by_the_rate() {
        let mut pacer = congested();

        pacer.handle_sent(at(1_000), 1_250);

        assert_eq!(pacer.held_until(at(1_000)), Some(at(1_100)));
        assert_eq!(pacer.held_until(at(1_100)), None);
    }

    #[test]
    fn a_packet_goes_out_now_and_then_however_small_the_rate() {
        let mut pacer = congested();
        for ms in (1_100..4_000).step_by(100) {
            pacer.handle_congestion(at(ms), RTT);
        }

        pacer.handle_sent(at(4_000), 1_250);

        assert_eq!(pacer.held_until(at(4_000)), Some(at(4_500)));
    }

    #[test]
    fn the_rate_gains_p_each_round_trip_and_a_clear_lifts_it() {
        let mut pacer = congested();

        pacer.advance(at(1_100), RTT);
        assert_eq!(pacer.rate(), Some(110_000.0));

        pacer.handle_clear();
        assert_eq!((pacer.rate(), pacer.is_limited()), (None, false));
    }

    fn congested() -> Pacer {
        let mut pacer = Pacer::new(&Config::new(Profile::Default));
        for ms in [0, 500, 1_000] {
            pacer.handle_acked(at(ms), if ms == 0 { 0 } else { 6_250 });
        }
        pacer.handle_congestion(at(1_000), RTT);
        pacer
    }

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }
}

//! What is measured of a network while it is in its steady state.

use std::time::Duration;

use proto::nc;
use proto::time::Time;
use sim::{Transit, TunnelReport, World};

use super::network::{Built, Network};

/// Transits that a run keeps at most.
const TRANSITS: usize = 1 << 20;

/// When a run measures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span {
    /// What is not counted, at the beginning.
    pub warm_up: Duration,
    /// What is.
    pub window: Duration,
}

/// What a run measured in its window.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Bit/s of the application that arrived, of each session.
    pub goodputs: Vec<f64>,
    /// Those of the flow beside the tunnel.
    pub rival: Option<f64>,
    /// How much longer packets were inside the tunnel than they must be, sorted; there only.
    pub delays: Vec<Duration>,
    /// Octets that the first gateway's side put on the middle.
    pub outer: u64,
    /// Octets of the packets that left the tunnel on the other side.
    pub inner: u64,
    /// Segments that the inner TCPs sent again, in the whole run.
    pub retransmissions: u64,
    /// The ends of the tunnel, at the end.
    pub ends: Vec<TunnelReport>,
    /// Events that the whole run took.
    pub events: u64,
}

impl Measured {
    /// Runs a network, `each` second with a look at it.
    #[must_use]
    pub fn run(
        network: &Network,
        seed: u64,
        span: Span,
        mut each: impl FnMut(&World, &Built),
    ) -> Self {
        let mut built = network.build(seed);
        if let Some(tunnel) = built.tunnel {
            built.world.record_transits(tunnel, TRANSITS);
        }
        let begin = Time::ZERO + span.warm_up;
        built.run_until(begin, &mut each);
        let before = Counts::of(&built);
        let end = begin + span.window;
        built.run_until(end, &mut each);
        let after = Counts::of(&built);

        let goodput =
            |before: u64, after: u64| (after - before) as f64 * 8.0 / span.window.as_secs_f64();
        let goodputs = before.received.iter().zip(&after.received);
        let crossed = |it: &&Transit| it.from == built.gateways[0] && it.left > begin;
        let crossed: Vec<&Transit> = built.world.transits().iter().filter(crossed).collect();
        let extra = |it: &&Transit| it.took.saturating_sub(network.transit(it.octets));
        let mut delays: Vec<Duration> = crossed.iter().map(extra).collect();
        delays.sort_unstable();
        let ends = built.gateways.iter().filter_map(|gateway| {
            built.tunnel.and_then(|tunnel| built.world.tunnel(*gateway, tunnel))
        });
        Self {
            goodputs: goodputs.map(|(before, after)| goodput(*before, *after)).collect(),
            rival: before.rival.zip(after.rival).map(|(before, after)| goodput(before, after)),
            delays,
            outer: after.outer - before.outer,
            inner: crossed.iter().map(|it| it.octets as u64).sum(),
            retransmissions: built.flows.iter().map(|it| it.retransmissions(&built.world)).sum(),
            ends: ends.collect(),
            events: built.world.events(),
        }
    }

    /// The mean over the sessions, in bit/s.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.goodputs.iter().sum::<f64>() / self.goodputs.len().max(1) as f64
    }

    /// How alike the sessions fare, from 1 over their number to 1 (Jain's index).
    #[must_use]
    pub fn fairness(&self) -> f64 {
        let sum: f64 = self.goodputs.iter().sum();
        let squares: f64 = self.goodputs.iter().map(|it| it * it).sum();
        if squares == 0.0 { 0.0 } else { sum * sum / squares / self.goodputs.len() as f64 }
    }

    /// The delay that this share of the packets does not exceed; nothing where none passed.
    #[must_use]
    pub fn delay(&self, share: f64) -> Option<Duration> {
        let last = self.delays.len().checked_sub(1)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of an index"
        )]
        let place = (last as f64 * share).round() as usize;
        self.delays.get(place).copied()
    }

    /// Outer octets sent for an inner octet delivered; nothing where none was.
    #[must_use]
    pub fn cost(&self) -> Option<f64> {
        (self.inner > 0).then(|| self.outer as f64 / self.inner as f64)
    }

    /// What the core of the first gateway counted.
    #[must_use]
    pub fn stats(&self) -> Option<nc::Stats> {
        self.ends.first().map(|end| end.stats)
    }
}

impl Built {
    fn run_until(&mut self, end: Time, each: &mut impl FnMut(&World, &Self)) {
        while self.world.now() < end {
            let next = (self.world.now() + Duration::from_secs(1)).min(end);
            self.world.run_until(next);
            each(&self.world, self);
        }
    }

    /// Octets that were put on the middle so far, there.
    #[must_use]
    pub fn outer_octets(&self) -> u64 {
        let port = self.world.ends(self.middle)[0];
        self.world.port_counters(port).sent.total().octets
    }
}

/// Counters at one time.
#[derive(Clone, Debug)]
struct Counts {
    received: Vec<u64>,
    rival: Option<u64>,
    outer: u64,
}

impl Counts {
    fn of(built: &Built) -> Self {
        Self {
            received: built.flows.iter().map(|flow| flow.received(&built.world)).collect(),
            rival: built.rival.map(|flow| flow.received(&built.world)),
            outer: built.outer_octets(),
        }
    }
}

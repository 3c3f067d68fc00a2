//! What is measured of a network while it is in its steady state.

use std::time::Duration;

use proto::nc;
use sim::app::ping::{self, Ping};
use sim::{AppId, Transit, TunnelReport};

use super::build::GATEWAYS;
use super::network::Network;
use crate::claim::{Metric, Outcome};
use crate::grid::Cell;
use crate::scenario::Built;
use crate::stats::Observation;

/// Mbit/s of a session's application, the mean over the sessions.
pub(super) const GOODPUT: Metric = "goodput";
/// Jain's index of the sessions.
pub(super) const FAIRNESS: Metric = "fairness";
/// Seconds that half of the packets take longer than they must, at most.
pub(super) const P50: Metric = "delay p50";
/// Seconds that 99 of 100 packets take longer than they must, at most.
pub(super) const P99: Metric = "delay p99";
/// Octets on the middle for one of the packets that left the tunnel.
pub(super) const COST: Metric = "cost";
/// Segments that the sources sent again, in the whole run.
pub(super) const REPEATED: Metric = "repeated";
/// The share of the packets that the send buffer of the paper's tunnel had no room for.
pub(super) const OVERFLOWED: Metric = "overflowed";
/// Mbit/s of the flow beside the tunnel.
pub(super) const RIVAL: Metric = "rival";
/// Repairs for a source, in the whole run.
pub(super) const REPAIRS: Metric = "repairs";
/// The share of the requests that were answered.
pub(super) const ANSWERED: Metric = "answered";
/// Seconds to an answer, the mean.
pub(super) const ANSWER_MEAN: Metric = "answer mean";
/// Seconds to the slowest answer.
pub(super) const ANSWER_MOST: Metric = "answer most";

/// When runs on the paper's topology measure.
pub(super) const SEED_SPAN: Span =
    Span { warm_up: Duration::from_secs(5), window: Duration::from_secs(20) };
/// Transits that a run keeps at most.
const TRANSITS: usize = 1 << 20;

/// When a run measures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Span {
    /// What is not counted, at the beginning.
    pub(super) warm_up: Duration,
    /// What is.
    pub(super) window: Duration,
}

/// What a run measured in its window.
#[derive(Clone, Debug)]
struct Measured {
    /// Bit/s of the application that arrived, of each session.
    goodputs: Vec<f64>,
    /// Those of the flow beside the tunnel.
    rival: Option<f64>,
    /// How much longer packets were inside the tunnel than they must be, sorted; there only.
    delays: Vec<Duration>,
    /// Octets that the first gateway's side put on the middle.
    outer: u64,
    /// Octets of the packets that left the tunnel on the other side.
    inner: u64,
    /// The share of the packets that the send buffer of the paper's tunnel dropped, in the whole run.
    overflowed: Option<f64>,
    /// What became of requests, in the whole run.
    requests: Option<ping::Stats>,
    /// Segments that the inner TCPs sent again, in the whole run.
    retransmissions: u64,
    /// The ends of the tunnel, at the end.
    ends: Vec<TunnelReport>,
}

impl Measured {
    /// Runs a network.
    fn run(network: &Network, mut built: Built<'_>, span: Span) -> Self {
        let tunnel = built.tunnels.first().copied();
        if let Some(tunnel) = tunnel {
            built.world.record_transits(tunnel, TRANSITS);
        }
        let gateways = GATEWAYS.map(|gateway| built.nodes[gateway]);
        let begin = built.begin() + span.warm_up;
        built.world.run_until(begin);
        let before = Counts::of(network, &built);
        built.world.run_until(begin + span.window);
        let after = Counts::of(network, &built);

        let goodput =
            |before: u64, after: u64| (after - before) as f64 * 8.0 / span.window.as_secs_f64();
        let goodputs = before.received.iter().zip(&after.received);
        let crossed = |it: &&Transit| it.from == gateways[0] && it.left > begin;
        let crossed: Vec<&Transit> = built.world.transits().iter().filter(crossed).collect();
        let extra = |it: &&Transit| it.took.saturating_sub(network.transit(it.octets));
        let mut delays: Vec<Duration> = crossed.iter().map(extra).collect();
        delays.sort_unstable();
        let ends = gateways.into_iter().filter_map(|gateway| built.world.tunnel(gateway, tunnel?));
        let sender = |[sender, _]: &[AppId; 2]| built.world.transfer_sender(*sender);
        let senders = network.flows(&built).iter().filter_map(sender);
        Self {
            goodputs: goodputs.map(|(before, after)| goodput(*before, *after)).collect(),
            rival: before.rival.zip(after.rival).map(|(before, after)| goodput(before, after)),
            delays,
            outer: after.outer - before.outer,
            inner: crossed.iter().map(|it| it.octets as u64).sum(),
            overflowed: overflowed(&built),
            requests: network
                .requests(&built)
                .and_then(|app| built.world.app(app))
                .map(Ping::stats),
            retransmissions: senders.map(|sent| sent.tcp.sent.retransmissions).sum(),
            ends: ends.collect(),
        }
    }

    /// The mean over the sessions, in bit/s.
    fn goodput(&self) -> f64 {
        self.goodputs.iter().sum::<f64>() / self.goodputs.len().max(1) as f64
    }

    /// How alike the sessions fare, from 1 over their number to 1 (Jain's index).
    fn fairness(&self) -> f64 {
        let sum: f64 = self.goodputs.iter().sum();
        let squares: f64 = self.goodputs.iter().map(|it| it * it).sum();
        if squares == 0.0 { 0.0 } else { sum * sum / squares / self.goodputs.len() as f64 }
    }

    /// The delay that this share of the packets does not exceed; nothing where none passed.
    fn delay(&self, share: f64) -> Option<Duration> {
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
    fn cost(&self) -> Option<f64> {
        (self.inner > 0).then(|| self.outer as f64 / self.inner as f64)
    }

    /// All of it, for a claim.
    fn outcome(&self) -> Outcome {
        let mut outcome = vec![(GOODPUT, self.goodput() / 1e6), (FAIRNESS, self.fairness())];
        outcome.push((REPEATED, self.retransmissions as f64));
        let seconds = |share| self.delay(share).map(|delay| delay.as_secs_f64());
        let repairs = |stats: nc::Stats| {
            stats.sent.repairs_sent as f64 / stats.sent.sources_sent.max(1) as f64
        };
        let answered = |stats: &ping::Stats| stats.answered as f64 / stats.sent.max(1) as f64;
        let requests = self.requests.as_ref();
        let optional = [
            (P50, seconds(0.5)),
            (P99, seconds(0.99)),
            (COST, self.cost()),
            (OVERFLOWED, self.overflowed),
            (RIVAL, self.rival.map(|rival| rival / 1e6)),
            (REPAIRS, self.stats().map(repairs)),
            (ANSWERED, requests.map(answered)),
            (ANSWER_MEAN, requests.map(|stats| stats.rtt.mean())),
            (ANSWER_MOST, requests.map(|stats| stats.rtt.max().as_secs_f64())),
        ];
        outcome.extend(optional.into_iter().filter_map(|(metric, value)| Some((metric, value?))));
        outcome.into_iter().map(|(metric, value)| (metric, Observation::Exact(value))).collect()
    }

    /// What the core of the first gateway counted.
    fn stats(&self) -> Option<nc::Stats> {
        self.ends.first().map(|end| end.stats)
    }
}

impl Network {
    /// It, to be run.
    pub(super) fn cell(&self, span: Span) -> Cell {
        let network = self.clone();
        let planned = self.clone();
        Cell::of(
            format!("{self:?} {span:?}"),
            move |seed| planned.plan(seed, span.warm_up + span.window),
            move |built| Measured::run(&network, built, span).outcome(),
        )
    }
}

/// The share of the packets that the send buffer of the paper's tunnel had no room for.
fn overflowed(built: &Built<'_>) -> Option<f64> {
    let entry = built.world.tcpnc_tunnel(*built.tcpnc_tunnels.first()?)?.entry;
    let all = entry.packets + entry.overflowed;
    Some(entry.overflowed as f64 / all.max(1) as f64)
}

/// Counters at one time.
#[derive(Clone, Debug)]
struct Counts {
    received: Vec<u64>,
    rival: Option<u64>,
    outer: u64,
}

impl Counts {
    fn of(network: &Network, built: &Built<'_>) -> Self {
        let flows = network.flows(built).iter();
        let middle = built.world.port_counters(network.middle(built));
        Self {
            received: flows.map(|[_, sink]| built.received(*sink)).collect(),
            rival: network.rival(built).map(|sink| built.received(sink)),
            outer: middle.sent.total().octets,
        }
    }
}

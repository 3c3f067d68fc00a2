//! The measurements of a run, mostly taken in a window of time after a warm-up.

use std::time::Duration;

use base::quantity;
use sim::app::ping::{self, Ping};
use sim::{AppId, Transit, TunnelReport};
use tunnel as nc;

use super::build::GATEWAYS;
use super::network::Network;
use crate::prelude::*;
use crate::scenario::Built;

/// Mbit/s that a session's application receives, as the mean over the sessions.
pub const GOODPUT: Metric = "goodput";
/// Jain's fairness index of the sessions.
pub const FAIRNESS: Metric = "fairness";
/// The median of the extra delay inside the tunnel, in seconds.
pub const P50: Metric = "delay p50";
/// The 99th percentile of the extra delay inside the tunnel, in seconds.
pub const P99: Metric = "delay p99";
/// Octets sent on the middle link for each octet of packets that left the tunnel.
pub const COST: Metric = "cost";
/// Segments that the sources retransmitted in the whole run.
pub const REPEATED: Metric = "repeated";
/// The share of packets dropped because the send buffer of the paper's tunnel was full.
pub const OVERFLOWED: Metric = "overflowed";
/// Mbit/s of the plain flow beside the tunnel.
pub const RIVAL: Metric = "rival";
/// Repair packets for each source packet, in the whole run.
pub const REPAIRS: Metric = "repairs";
/// The share of answered requests.
pub const ANSWERED: Metric = "answered";
/// The mean time from a request to its answer, in seconds.
pub const ANSWER_MEAN: Metric = "answer mean";
/// The longest time from a request to its answer, in seconds.
pub const ANSWER_MOST: Metric = "answer most";

/// 20 s after a warm-up of 5 s: the time in which most runs on the paper's topology measure.
pub const STEADY_SPAN: Span =
    Span { warm_up: Duration::from_secs(5), window: Duration::from_secs(20) };
/// The most packets of a run whose time inside the tunnel is kept.
const TRANSITS: usize = 1 << 20;

/// The time in which a run measures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    /// The time at the beginning that does not count.
    pub warm_up: Duration,
    /// The time that counts, after the warm-up.
    pub window: Duration,
}

/// The measurements of a run, taken in its window unless they say otherwise.
#[derive(Clone, Debug)]
struct Measured {
    /// Bit/s that the application of each session received.
    goodputs: Vec<f64>,
    /// Bit/s of the plain flow beside the tunnel.
    rival: Option<f64>,
    /// The extra delay of packets inside the tunnel in the direction of the data, sorted.
    delays: Vec<Duration>,
    /// Octets that the first gateway's side sent on the middle link.
    outer: u64,
    /// Octets of the packets that left the tunnel on the other side.
    inner: u64,
    /// The share of packets that the send buffer of the paper's tunnel dropped, in the whole run.
    overflowed: Option<f64>,
    /// How long the whole run takes.
    time: Duration,
    /// Requests and their answers, in the whole run.
    requests: Option<ping::Stats>,
    /// Segments that the sources retransmitted, in the whole run.
    retransmissions: u64,
    /// Reports of both ends of the tunnel, at the end of the run.
    ends: Vec<TunnelReport>,
}

impl Measured {
    /// Runs a network and measures.
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
            time: span.warm_up + span.window,
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

    /// Jain's fairness index of the sessions: 1 when all have the same goodput.
    fn fairness(&self) -> f64 {
        let sum: f64 = self.goodputs.iter().sum();
        let squares: f64 = self.goodputs.iter().map(|it| it * it).sum();
        if squares == 0.0 { 0.0 } else { sum * sum / squares / self.goodputs.len() as f64 }
    }

    /// A quantile of the extra delay. Packets given up by the tunnel count as later than every packet that arrived;
    /// `None` if no packet passed.
    fn delay(&self, share: f64) -> Option<Observation> {
        let last = self.delays.len().checked_sub(1)?;
        let lost = self.ends.last().map_or(0, |end| end.stats.received.sources_given_up);
        let last_of_all = last.saturating_add(usize::try_from(lost).unwrap_or(usize::MAX));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of an index"
        )]
        let place = (last_of_all as f64 * share).round() as usize;
        let took = self.delays[place.min(last)].as_secs_f64();
        Some(if place > last { Observation::AtLeast(took) } else { Observation::Exact(took) })
    }

    /// Outer octets sent for each inner octet delivered; `None` if none was delivered.
    fn cost(&self) -> Option<f64> {
        (self.inner > 0).then(|| self.outer as f64 / self.inner as f64)
    }

    /// Returns the measurements as metrics of a claim.
    fn outcome(&self) -> Outcome {
        let mut outcome = vec![(GOODPUT, self.goodput() / 1e6), (FAIRNESS, self.fairness())];
        outcome.push((REPEATED, self.retransmissions as f64));
        let repairs = |stats: nc::Stats| {
            stats.sent.repairs_sent as f64 / stats.sent.sources_sent.max(1) as f64
        };
        let answered = |stats: &ping::Stats| stats.answered as f64 / stats.sent.max(1) as f64;
        let requests = self.requests.as_ref();
        let optional = [
            (COST, self.cost()),
            (OVERFLOWED, self.overflowed),
            (RIVAL, self.rival.map(|rival| rival / 1e6)),
            (REPAIRS, self.stats().map(repairs)),
            (ANSWERED, requests.map(answered)),
        ];
        let delays = [(P50, self.delay(0.5)), (P99, self.delay(0.99))];
        let delays = delays.into_iter().filter_map(|(metric, delay)| Some((metric, delay?)));
        // Requests that nobody answered are told by the share; where no answer came at all, none was quick.
        let late = |stats: &ping::Stats, seconds: f64| match stats.answered {
            0 => Observation::AtLeast(self.time.as_secs_f64()),
            _ => Observation::Exact(seconds),
        };
        let late = requests.map(|stats| {
            [
                (ANSWER_MEAN, late(stats, stats.rtt.mean())),
                (ANSWER_MOST, late(stats, stats.rtt.max().as_secs_f64())),
            ]
        });
        outcome.extend(optional.into_iter().filter_map(|(metric, value)| Some((metric, value?))));
        let exact = outcome.into_iter().map(|(metric, value)| exact(metric, value));
        exact.chain(delays).chain(late.into_iter().flatten()).collect()
    }

    /// The counters of the first gateway's tunnel.
    fn stats(&self) -> Option<nc::Stats> {
        self.ends.first().map(|end| end.stats)
    }
}

impl Network {
    /// The cell that runs this network and measures in `span`.
    pub(crate) fn cell(&self, span: Span) -> Cell {
        let network = self.clone();
        let planned = self.clone();
        let Span { warm_up, window } = span;
        let name = self.name().with("warm-up", quantity::Span(warm_up));
        Cell::of(
            name.with("window", quantity::Span(window)),
            format!("{} Span {{ warm_up: {warm_up:?}, window: {window:?} }}", self.draws()),
            move |seed| planned.plan(seed, span.warm_up + span.window),
            move |built| Measured::run(&network, built, span).outcome(),
        )
    }
}

/// The share of packets dropped because the send buffer of the paper's tunnel was full.
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

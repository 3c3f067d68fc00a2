//! Packets that nothing follows: requests and answers that are alone on their way.

use std::time::Duration;

use proto::nc;
use proto::quantity::BitRate;
use proto::time::Time;
use sim::channel;
use sim::{InterfaceConfig, LinkConfig};

use super::grid::{random, share};
use super::{GROUP, PERCENT};
use crate::answer::Check;
use crate::claim::{Claim, Finding, Line, Metric, Outcome, Table};
use crate::figure::Ink;
use crate::grid::{Cell, Drawn, Experiment, Place, Runs};
use crate::scenario::{Built, Flow, Plan, Stream, Tunnel};
use crate::stats::Observation;
use crate::words::percent;

/// Of the packets that entered the tunnel, the share that left it within a round trip and a half.
const WITHIN: Metric = "within 1.5 round trips";
/// Datagrams with data for each packet, sent again and repairs included.
const DATAGRAMS: Metric = "datagrams";

const GOAL: f64 = 0.999;
const LOSSES: [f64; 5] = [0.0, 0.01, 0.05, 0.10, 0.20];
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// From one request to the next: the answer to the one before has come, or been given up.
const INTERVAL: Duration = Duration::from_millis(500);
/// Octets of a request, and of its answer.
const REQUEST: usize = 64;
const PORT: u16 = 7_000;
/// Until the loss of the path is known.
const WARM_UP: Duration = Duration::from_secs(120);
const WINDOW: Duration = Duration::from_secs(1_000);
/// After the last packet that counts.
const REST: Duration = Duration::from_secs(5);

pub(super) fn claim() -> Claim {
    Claim {
        id: "nc-lone",
        group: GROUP,
        text: "a packet that nothing follows, a request or its answer, comes within one and a half \
               round trips with a probability of 0.999, at losses of 1 to 20 % both ways",
        source: "ours",
        experiment: || Experiment::new(LOSSES.map(Lossy).to_vec(), judge),
    }
}

/// A path of 10 Mbit/s and 100 ms both ways that loses so much in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lossy(f64);

impl Place for Lossy {
    fn cell(&self) -> Cell {
        let loss = self.0;
        let name = format!("lone {loss} {ROUND_TRIP:?} {INTERVAL:?} {REQUEST} {WINDOW:?}");
        Cell::of(name, move |seed| plan(seed, loss), measure)
    }
}

impl Drawn for Lossy {
    fn line(&self) -> Line {
        Line::new("ours", "our tunnel", Ink::Default)
    }

    fn x(&self) -> (f64, &'static str) {
        (self.0 * 100.0, PERCENT)
    }
}

fn plan(seed: u64, loss: f64) -> Plan {
    let mut plan = Plan::new(seed, WARM_UP + WINDOW + REST);
    let [asks, near, far, answers] =
        ["asks", "near", "far", "answers"].map(|name| plan.add_node(name));
    let edge = LinkConfig::symmetric(channel::Config::default(), InterfaceConfig::default());
    let rate = BitRate::from_bits_per_s(10_000_000).unwrap_or_default();
    let middle =
        channel::Config { rate, delay: ROUND_TRIP / 2, loss: random(loss), ..Default::default() };
    plan.connect(asks, near, edge.clone());
    plan.connect(near, far, LinkConfig::symmetric(middle, InterfaceConfig::default()));
    plan.connect(far, answers, edge);
    let behind = [vec![asks], vec![answers]];
    plan.tunnels.push(Tunnel { ends: [near, far], behind, config: nc::Config::default() });
    let flow = Flow::new([asks, answers], PORT).from_port(PORT).starting(Time::ZERO);
    let stream = Stream::new(flow, REQUEST, INTERVAL);
    plan.streams.push(Stream { is_answered: true, ..stream });
    plan
}

fn measure(mut built: Built<'_>) -> Outcome {
    let Some(&tunnel) = built.tunnels.first() else { return Vec::new() };
    let ends = [1, 2].map(|gateway| built.nodes[gateway]);
    let begin = built.begin() + WARM_UP;
    let end = begin + WINDOW;
    built.world.run_until(begin);
    built.world.record_transits(tunnel, 1 << 16);
    let counted = |built: &Built<'_>| {
        let stats = ends.iter().filter_map(|end| built.world.tunnel(*end, tunnel));
        stats.fold([0, 0], |[packets, datagrams], end| {
            let sent = end.stats.sent;
            let data = sent.sources_sent + sent.sources_resent + sent.repairs_sent;
            [packets + end.stats.inner.packets_in, datagrams + data]
        })
    };
    let before = counted(&built);
    built.world.run_until(end);
    let after = counted(&built);
    built.world.run_until(end + REST);
    let limit = ROUND_TRIP * 3 / 2;
    let transits = built.world.transits().iter();
    let in_time = transits.filter(|it| it.left <= end + it.took && it.took <= limit).count();
    let packets = (after[0] - before[0]).max(1) as f64;
    vec![
        (WITHIN, Observation::Exact(in_time as f64 / packets)),
        (DATAGRAMS, Observation::Exact((after[1] - before[1]) as f64 / packets)),
    ]
}

fn judge(runs: &Runs<Lossy>) -> Finding {
    let checks = runs.places().iter().map(|place| {
        let within = runs.at(place, WITHIN);
        let what = format!(
            "{} ({:.5} to {:.5}), {GOAL} asked, at a loss of {}, with {} datagrams for each",
            share(&within),
            within.low(),
            within.high(),
            percent(place.0),
            share(&runs.at(place, DATAGRAMS)),
        );
        Check::new(what, within.at_least(GOAL))
    });
    let checks: Vec<Check> = checks.collect();
    let places = || runs.places().iter();
    let measured = format!(
        "at least {:.5} in the mean of the worst, for {:.2} datagrams at most. {} runs.",
        places().map(|place| runs.at(place, WITHIN).mean).fold(1.0, f64::min),
        places().map(|place| runs.at(place, DATAGRAMS).mean).fold(0.0, f64::max),
        runs.count(),
    );
    let rows: Vec<_> = places().map(|place| (percent(place.0), *place)).collect();
    let columns = [WITHIN, "from", "to", DATAGRAMS].map(|name| (name, name));
    let title = "Lone requests and answers: the share that came in time, and what it cost";
    let table = Table::new(title, ("Loss", &columns), &rows, |column, place| {
        let within = runs.at(place, WITHIN);
        match *column {
            WITHIN => format!("{:.5}", within.mean),
            "from" => format!("{:.5}", within.low()),
            "to" => format!("{:.5}", within.high()),
            _ => format!("{:.2}", runs.at(place, DATAGRAMS).mean),
        }
    });
    let points = places().map(|place| {
        let y = (runs.at(place, WITHIN), "of the packets");
        runs.point(place, WITHIN, y)
    });
    Finding {
        points: points.collect(),
        tables: vec![table],
        assumptions: vec![
            "Both directions lose independently. From one request to the next are five round trips; \
             each answer is sent at once."
                .to_owned(),
        ],
        ..Finding::of(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn one_in_a_thousand_may_be_late() {
        let verdict = |runs, within: f64| {
            let of = |_: &Lossy| vec![(WITHIN, within), (DATAGRAMS, 3.0)];
            judge(&Runs::made_up(LOSSES.map(Lossy).to_vec(), runs, of)).verdict
        };

        assert_eq!(
            [verdict(3, 0.9995), verdict(3, 0.998)],
            [Verdict::Reproduced, Verdict::Differs]
        );
        assert_eq!(verdict(1, 0.9995), Verdict::Undecided);
    }
}

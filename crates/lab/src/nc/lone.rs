//! Packets that nothing follows: requests and answers that are alone on their way.

use std::time::Duration;

use base::quantity::BitRate;
use base::time::Time;
use sim::channel;
use sim::{InterfaceConfig, LinkConfig};
use tunnel as nc;

use super::grid::{random, share};
use super::{GROUP, PERCENT};
use crate::prelude::*;
use crate::scenario::{Built, Flow, Plan, Stream, Tunnel};

/// The share of packets out of the tunnel within a round trip and a half, among the packets into it.
const WITHIN: &str = "within 1.5 round trips";
/// Packets in time, and all packets into the tunnel.
const IN_TIME: Metric = "in time";
const PACKETS: Metric = "packets";
/// Datagrams of both ends for each packet: with data, sent again, repairs, reports and probes.
const DATAGRAMS: Metric = "datagrams";
/// Datagrams with data, sent again and repairs included.
const WITH_DATA: Metric = "with data";

const GOAL: f64 = 0.999;
const LOSSES: [f64; 5] = [0.0, 0.01, 0.05, 0.10, 0.20];
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// Later, a packet had to wait for a report.
const LIMIT: Duration = Duration::from_millis(150);
/// From one request to the next: the answer to the one before has come, or been given up.
const INTERVAL: Duration = Duration::from_millis(500);
/// Octets of a request and of an answer.
const REQUEST: usize = 64;
const PORT: u16 = 7_000;
/// Until the loss of the path is known.
const WARM_UP: Duration = Duration::from_secs(120);
const WINDOW: Duration = Duration::from_secs(1_000);
/// After the last packet that counts.
const REST: Duration = Duration::from_secs(5);

pub const CLAIM: Claim = Claim {
    id: "nc-lone",
    group: GROUP,
    text: "a packet that nothing follows, a request or its answer, comes within one and a half \
           round trips with a probability of 0.999, at losses of 1 to 20 % both ways",
    source: "ours",
    experiment: || Experiment::new(LOSSES.map(Lossy).to_vec(), judge),
};

/// A path of 10 Mbit/s and 100 ms both ways that loses so much in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lossy(f64);

impl Place for Lossy {
    fn cell(&self) -> Cell {
        let loss = self.0;
        let draws = format!("lone {loss} {ROUND_TRIP:?} {INTERVAL:?} {REQUEST} {WINDOW:?}");
        Cell::of(Name::of("lone").with("loss", loss), draws, move |seed| plan(seed, loss), measure)
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
    let (ends, config) = ([near, far], nc::Config::default());
    plan.tunnels.push(Tunnel { ends, behind, uses_all_links: false, config });
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
        stats.fold([0; 3], |[packets, data, all], end| {
            let sent = end.stats.sent;
            let with_data = sent.sources_sent + sent.sources_resent + sent.repairs_sent;
            [packets + end.stats.inner.packets_in, data + with_data, all + sent.datagrams_sent]
        })
    };
    let before = counted(&built);
    built.world.run_until(end);
    let after = counted(&built);
    built.world.run_until(end + REST);
    let transits = built.world.transits().iter();
    let in_time = transits.filter(|it| is_in_time(it.left, it.took, end)).count();
    let [packets, data, all] = [0, 1, 2].map(|it| (after[it] - before[it]) as f64);
    let each = |datagrams: f64| Observation::Exact(datagrams / packets.max(1.0));
    vec![
        exact(PACKETS, packets),
        exact(IN_TIME, in_time as f64),
        (WITH_DATA, each(data)),
        (DATAGRAMS, each(all)),
    ]
}

/// Whether a packet out of the tunnel counts; packets into the tunnel count until `end`.
fn is_in_time(left: Time, took: Duration, end: Time) -> bool {
    left <= end + took && took <= LIMIT
}

/// The share that came in time, of the packets of all runs.
fn within(runs: &Runs<Lossy>, place: &Lossy) -> Estimate {
    let [count, all] = [IN_TIME, PACKETS].map(|metric| runs.at(place, metric));
    let of_all = |it: Estimate| it.mean * f64::from(it.runs);
    Estimate::share(of_all(count), of_all(all), all.runs)
}

fn judge(runs: &Runs<Lossy>) -> Finding {
    let checks = runs.places().iter().map(|place| {
        let within = within(runs, place);
        let what = format!(
            "{:.5} ({:.5} to {:.5}), {GOAL} asked, at a loss of {}, with {} datagrams for each",
            within.mean,
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
        "at least {:.5} where it is worst, for {:.2} datagrams at most.",
        places().map(|place| within(runs, place).mean).fold(1.0, f64::min),
        places().map(|place| runs.at(place, DATAGRAMS).mean).fold(0.0, f64::max)
    );
    let rows = named(places(), |place| percent(place.0));
    let columns = named([WITHIN, "from", "to", DATAGRAMS, WITH_DATA], |name| name);
    let title = "Lone requests and answers: the share that came in time, and what it cost";
    let table = Table::new(title, ("Loss", columns), rows, |column, place| {
        let within = within(runs, place);
        match column {
            WITHIN => format!("{:.5}", within.mean),
            "from" => format!("{:.5}", within.low()),
            "to" => format!("{:.5}", within.high()),
            metric => format!("{:.2}", runs.at(place, metric).mean),
        }
    });
    let points = places().map(|place| {
        let y = (within(runs, place), "of the packets");
        runs.point(place, WITHIN, y)
    });
    Finding {
        points: points.collect(),
        tables: vec![table],
        assumptions: vec![
            "Both directions lose independently. From one request to the next are five round trips; \
             each answer is sent at once. The loss of the path is known: 240 requests came before."
                .to_owned(),
            "Packets come late independently of each other, so those of all runs count together (Wilson's \
             interval)."
                .to_owned(),
        ],
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of 4,000 packets; `in_time` gives the packets in time at each loss.
    fn made_up(runs: u32, in_time: impl Fn(f64) -> f64) -> Runs<Lossy> {
        let of = |it: &Lossy| {
            let counts = [(IN_TIME, in_time(it.0)), (PACKETS, 4_000.0)];
            counts.into_iter().chain([(DATAGRAMS, 3.0), (WITH_DATA, 2.5)]).collect()
        };
        Runs::made_up(LOSSES.map(Lossy).to_vec(), runs, of)
    }

    #[test]
    fn one_in_a_thousand_may_be_late() {
        let verdict = |runs, in_time| judge(&made_up(runs, |_| in_time)).verdict;

        assert_eq!(
            [verdict(3, 3_999.0), verdict(3, 3_992.0)],
            [Verdict::Reproduced, Verdict::Differs]
        );
        assert_eq!(verdict(1, 4_000.0), Verdict::Undecided);
        // Six of 8,000 that are late are fewer than one in a thousand, and may be chance.
        assert_eq!(verdict(2, 3_997.0), Verdict::Undecided, "however alike the runs are");
        assert_eq!(verdict(30, 3_997.0), Verdict::Reproduced);
    }

    #[test]
    fn a_single_loss_that_is_not_mastered_differs() {
        let runs = made_up(3, |loss| if loss == LOSSES[4] { 3_960.0 } else { 4_000.0 });

        assert_eq!(judge(&runs).verdict, Verdict::Differs);
    }

    #[test]
    fn packets_count_until_a_round_trip_and_a_half_is_over() {
        let end = Time::ZERO + Duration::from_secs(10);
        let is_in_time = |entered: Time, took| is_in_time(entered + took, took, end);

        assert!(is_in_time(end, ROUND_TRIP * 3 / 2));
        assert!(!is_in_time(end, ROUND_TRIP * 3 / 2 + Duration::from_nanos(1)));
        assert!(!is_in_time(end + Duration::from_nanos(1), ROUND_TRIP));
    }

    /// These bounds would show a difference if datagrams were missing or counted too often: before the window, in one
    /// direction only, repairs of losses, or reports.
    #[test]
    fn both_directions_count_and_all_that_was_sent_for_them() {
        for (loss, data, all) in [(0.0, 1.0..1.2, 1.0..2.0), (0.2, 4.0..6.5, 4.5..8.0)] {
            let outcome = Lossy(loss).cell().with_seed(1);

            let of = |metric| {
                let found = outcome.iter().find(|(name, _)| *name == metric);
                found.expect("it is measured").1.value()
            };
            assert_eq!(of(PACKETS), 4_000.0, "{loss}: {outcome:?}");
            assert!((3_980.0..=4_000.0).contains(&of(IN_TIME)), "{loss}: {outcome:?}");
            assert!(data.contains(&of(WITH_DATA)), "{loss}: {outcome:?}");
            assert!(all.contains(&of(DATAGRAMS)), "{loss}: {outcome:?}");
            assert!(of(DATAGRAMS) > of(WITH_DATA), "{loss}: {outcome:?}");
        }
    }
}

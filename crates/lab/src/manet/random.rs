//! Many nodes on the move.

use super::trial::{Network, PAPER_TCPS, Routing, TRAFFICS, Tcp, Trial, Uplink};
use super::{GOODPUT, GROUP, KBIT_S, WINDOW, assumptions, figure, goodput, points, table};
use crate::prelude::*;

/// The area suggested by the mean speed and the gateway's place, and the area in the paper's text.
pub const AREAS: [Network; 2] = [Network::Random(800), Network::Random(1_200)];
const MOVING: Network = Network::Chain51(Uplink::Fast);
/// Vegas' mean window in segments, case by case, and what counts as near 3.
const WINDOWS: [f64; 4] = [3.39, 3.08, 3.24, 2.75];
const NEAR_THREE: [f64; 2] = [2.3, 3.8];

pub const CLAIM: Claim = Claim {
    id: "manet-random",
    group: GROUP,
    text: "among 48 nodes on the move the gap between NewReno and TCP-AP is smaller than elsewhere, and \
           Vegas' mean window stays near 3 segments",
    source: "section III.C",
    experiment: || {
        let all = AREAS.into_iter().chain([MOVING, Network::Chain5]).flat_map(Trial::all);
        Experiment::new(all.collect::<Vec<_>>(), judge)
    },
};

/// What TCP-AP has less than NewReno, in kbit/s: the paper compares sums of throughput.
fn gap(runs: &Runs<Trial>, network: Network) -> Estimate {
    let of = |tcp| goodput(runs, network, tcp, Routing::Aodv);
    of(Tcp::NewReno).minus(&of(Tcp::AdaptivePacing))
}

/// The gap as a part of NewReno's goodput.
fn part(runs: &Runs<Trial>, network: Network) -> f64 {
    gap(runs, network).mean / goodput(runs, network, Tcp::NewReno, Routing::Aodv).mean
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let [taken, told] = AREAS;
    let mut checks = vec![Check::new(
        format!(
            "the gap is smaller than on Chain 5+1: {} instead of {} {KBIT_S}",
            mean(&gap(runs, taken)),
            mean(&gap(runs, MOVING))
        ),
        gap(runs, taken).below(&gap(runs, MOVING)),
    )];
    for (traffic, published) in TRAFFICS.into_iter().zip(WINDOWS) {
        let window = runs.at(&Trial::new(taken, traffic, Tcp::Vegas), WINDOW);
        let what = format!(
            "Vegas' mean window, {}: {window}, {published} published",
            traffic.title(taken)
        );
        checks.push(Check::new(what, window.within(NEAR_THREE)));
    }
    let points = points(runs, taken, Routing::Aodv, GOODPUT);
    let of = |network| {
        PAPER_TCPS.map(|tcp| {
            let mean = mean(&goodput(runs, network, tcp, Routing::Aodv));
            format!("{} {mean}", tcp.title())
        })
    };
    let below = |network| {
        format!("{} {KBIT_S} ({})", mean(&gap(runs, network)), percent(part(runs, network)))
    };
    let measured = format!(
        "{}: {} {KBIT_S}; {}: {}. TCP-AP is below NewReno by {} in the first, {} in the \
         second, {} on Chain 5+1, {} on Chain 5.",
        taken.title(),
        of(taken).join(", "),
        told.title(),
        of(told).join(", "),
        below(taken),
        below(told),
        below(MOVING),
        below(Network::Chain5)
    );
    let figure = figure(
        &points,
        "manet-random",
        "TCP among 48 nodes on the move",
        "800 x 800 m, 1 to 20 m/s, gateway in the middle, AODV",
    );
    let mut assumptions = assumptions();
    assumptions.push(
        "The text says 1200 x 1200 m. The published mean speed, 7.36 m/s, is that of setdest for \
         800 x 800 m (7.364; 7.59 for 1200 m), of which (400, 400) is the centre: 800 m are taken, \
         and 1200 m stand beside it."
            .to_owned(),
    );
    Finding {
        figures: vec![figure],
        tables: AREAS
            .into_iter()
            .flat_map(|area| [GOODPUT, WINDOW].map(|it| table(runs, area, Routing::Aodv, it)))
            .collect(),
        points,
        assumptions,
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_gap_and_small_windows_are_needed() {
        let verdict = |gap: f64, window: f64| {
            let all = AREAS.into_iter().chain([MOVING, Network::Chain5]).flat_map(Trial::all);
            let runs = Runs::made_up(all, 3, |trial| {
                let is_moving = matches!(trial.network, Network::Random(_));
                let below = match trial.tcp {
                    Tcp::AdaptivePacing if is_moving => gap,
                    Tcp::AdaptivePacing => 0.3,
                    _ => 0.0,
                };
                vec![(GOODPUT, 100.0 * (1.0 - below)), (WINDOW, window)]
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(0.1, 3.0), Verdict::Reproduced);
        assert_eq!(verdict(0.4, 3.0), Verdict::Differs);
        assert_eq!(verdict(0.1, 6.0), Verdict::Differs);
    }
}

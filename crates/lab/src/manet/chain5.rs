//! The chain at rest.

use super::trial::{Network, PAPER_TCPS, Routing, Tcp, Traffic, Trial};
use super::{GOODPUT, GROUP, KBIT_S, VARIATION, assumptions, figure, goodput, points, table};
use crate::prelude::*;

/// What still counts as close: the least over the greatest mean.
const CLOSE: f64 = 0.75;
/// The range that counts as about 20 kbit/s.
const ABOUT_TWENTY: [f64; 2] = [5.0, 40.0];
const NETWORK: Network = Network::Chain5;

pub const CLAIM: Claim = Claim {
    id: "manet-chain5",
    group: GROUP,
    text: "on a chain of five at rest with the gateway in the middle the three TCPs are close; Vegas \
           is about 20 kbit/s above TCP-AP on average; NewReno varies most over time; two flows \
           together carry more than one",
    source: "section III.A",
    experiment: || Experiment::new(Trial::all(NETWORK), judge),
};

fn judge(runs: &Runs<Trial>) -> Finding {
    let [newreno, vegas, pacing] = PAPER_TCPS.map(|tcp| goodput(runs, NETWORK, tcp, Routing::Aodv));
    let at = |traffic, tcp, metric| runs.at(&Trial::new(NETWORK, traffic, tcp), metric);
    // Where nobody else has the channel, goodput varies as the window does.
    let varies = |tcp| at(Traffic::One, tcp, VARIATION);
    let more = vegas.minus(&pacing);
    let mut checks = vec![
        Check::new(
            format!("TCP-AP has {CLOSE} of NewReno's mean at least"),
            pacing.over(&newreno).at_least(CLOSE),
        ),
        Check::new(
            format!("TCP-AP has {CLOSE} of Vegas' mean at least"),
            pacing.over(&vegas).at_least(CLOSE),
        ),
        Check::new(
            format!("Vegas is about 20 {KBIT_S} above TCP-AP: {more}"),
            more.within(ABOUT_TWENTY),
        ),
        Check::new(
            format!(
                "NewReno varies more than Vegas: {} and {}",
                mean(&varies(Tcp::NewReno)),
                mean(&varies(Tcp::Vegas))
            ),
            varies(Tcp::Vegas).below(&varies(Tcp::NewReno)),
        ),
        Check::new(
            format!("NewReno varies more than TCP-AP: {}", mean(&varies(Tcp::AdaptivePacing))),
            varies(Tcp::AdaptivePacing).below(&varies(Tcp::NewReno)),
        ),
    ];
    for tcp in PAPER_TCPS {
        let [one, two] = [Traffic::One, Traffic::Simultaneous].map(|it| at(it, tcp, GOODPUT));
        let what = format!("two flows of {} carry more than one: {two} and {one}", tcp.title());
        checks.push(Check::new(what, one.below(&two)));
    }
    let points = points(runs, NETWORK, Routing::Aodv, GOODPUT);
    let measured = format!(
        "NewReno {newreno}, Vegas {vegas}, TCP-AP {pacing} {KBIT_S} over the four traffic cases; \
         Vegas is {more} {KBIT_S} above TCP-AP."
    );
    let figure = figure(
        &points,
        "manet-chain5",
        "TCP on a chain at rest, to the Internet",
        "Five nodes 200 m apart, AODV, gateway in the middle",
    );
    Finding {
        figures: vec![figure],
        tables: vec![
            table(runs, NETWORK, Routing::Aodv, GOODPUT),
            table(runs, NETWORK, Routing::Aodv, VARIATION),
        ],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_claim_is_needed() {
        let verdict = |above: f64, newreno: f64, two: f64| {
            let runs = Runs::made_up(Trial::all(NETWORK), 3, |trial| {
                let goodput = if trial.tcp == Tcp::AdaptivePacing { 600.0 } else { 600.0 + above };
                let factor = if trial.traffic == Traffic::Simultaneous { two } else { 1.0 };
                let variation = if trial.tcp == Tcp::NewReno { newreno } else { 0.2 };
                vec![(GOODPUT, goodput * factor), (VARIATION, variation)]
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(20.0, 0.4, 1.2), Verdict::Reproduced);
        assert_eq!(verdict(100.0, 0.4, 1.2), Verdict::Differs);
        assert_eq!(verdict(-20.0, 0.4, 1.2), Verdict::Differs);
        assert_eq!(verdict(20.0, 0.2, 1.2), Verdict::Differs);
        assert_eq!(verdict(20.0, 0.4, 1.0), Verdict::Differs);
    }
}

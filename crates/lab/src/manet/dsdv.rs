//! DSDV in place of AODV.

use super::trial::{Network, PAPER_TCPS, Routing, Trial, Uplink};
use super::{GOODPUT, GROUP, assumptions, figure, goodput, points, table};
use crate::prelude::*;

/// How far from the published change ours may be, as a part of AODV's goodput.
const TOLERANCE: f64 = 0.06;
const MOVING: Network = Network::Chain51(Uplink::Fast);

pub const CLAIMS: [Claim; 2] = [
    Claim {
        id: "manet-dsdv-chain5",
        group: GROUP,
        text: "with DSDV instead of AODV goodput on Chain 5 is about 4 % lower for NewReno, 2 % for \
               Vegas and 13 % for TCP-AP",
        source: "section IV",
        experiment: || {
            Experiment::new(trials(Network::Chain5), |runs| {
                judge(runs, Network::Chain5, [0.04, 0.02, 0.13])
            })
        },
    },
    Claim {
        id: "manet-dsdv-51",
        group: GROUP,
        text: "with DSDV instead of AODV goodput on Chain 5+1 is about 12 % lower for NewReno, 21 % for \
               Vegas and 4 % for TCP-AP",
        source: "section IV",
        experiment: || {
            Experiment::new(trials(MOVING), |runs| judge(runs, MOVING, [0.12, 0.21, 0.04]))
        },
    },
];

fn trials(network: Network) -> Vec<Trial> {
    let aodv = Trial::all(network);
    let dsdv = aodv.iter().map(|trial| trial.over(Routing::Dsdv));
    dsdv.chain(aodv.iter().copied()).collect()
}

fn judge(runs: &Runs<Trial>, network: Network, lower: [f64; 3]) -> Finding {
    let (mut checks, mut told) = (Vec::new(), Vec::new());
    for (tcp, lower) in PAPER_TCPS.into_iter().zip(lower) {
        let [dsdv, aodv] =
            [Routing::Dsdv, Routing::Aodv].map(|routing| goodput(runs, network, tcp, routing));
        let ratio = dsdv.over(&aodv);
        let expected = 1.0 - lower;
        let what = format!(
            "{} has {ratio} of its goodput over AODV, {expected:.2} published",
            tcp.title()
        );
        checks.push(Check::new(what, ratio.within([expected - TOLERANCE, expected + TOLERANCE])));
        told.push(format!("{} {}", tcp.title(), percent(ratio.mean - 1.0)));
    }
    let points = points(runs, network, Routing::Dsdv, GOODPUT);
    let measured =
        format!("Change of the mean goodput over four traffic cases: {}.", told.join(", "));
    let (name, title) = match network {
        Network::Chain5 => ("manet-dsdv-chain5", "DSDV on a chain at rest"),
        Network::Chain51(_) | Network::Random(_) => {
            ("manet-dsdv-51", "DSDV with one node on the move")
        }
    };
    Finding {
        figures: vec![figure(&points, name, title, &network.title())],
        tables: [Routing::Dsdv, Routing::Aodv]
            .map(|routing| table(runs, network, routing, GOODPUT))
            .to_vec(),
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tcp_must_lose_what_is_published() {
        let verdict = |lower: [f64; 3]| {
            let runs = Runs::made_up(trials(MOVING), 3, |trial| {
                let index = PAPER_TCPS.iter().position(|it| *it == trial.tcp);
                let lost = index.map_or(0.0, |index| lower[index]);
                let kept = if trial.routing == Routing::Dsdv { 1.0 - lost } else { 1.0 };
                vec![(GOODPUT, 600.0 * kept)]
            });
            judge(&runs, MOVING, [0.12, 0.21, 0.04]).verdict
        };

        assert_eq!(verdict([0.12, 0.21, 0.04]), Verdict::Reproduced);
        assert_eq!(verdict([0.01, 0.21, 0.04]), Verdict::Differs);
        assert_eq!(verdict([0.12, 0.21, 0.2]), Verdict::Differs);
    }
}

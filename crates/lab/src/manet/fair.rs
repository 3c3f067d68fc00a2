//! Shares of two flows to the same gateway.

use super::trial::{Network, PAPER_TCPS, Tcp, Traffic, Trial, Uplink};
use super::{FIRST, GROUP, JAIN, SECOND, assumptions};
use crate::prelude::*;

const NETWORKS: [Network; 2] = [Network::Chain5, Network::Chain51(Uplink::Fast)];
const TRAFFICS: [Traffic; 2] = [Traffic::Overlapping, Traffic::Simultaneous];

pub const CLAIM: Claim = Claim {
    id: "manet-fair",
    group: GROUP,
    text: "long-term fairness of two flows is close to none for NewReno, low for Vegas, medium for TCP-AP",
    source: "table 3",
    experiment: || Experiment::new(trials(), judge),
};

fn trials() -> Vec<Trial> {
    let mut all = Vec::new();
    for network in NETWORKS {
        for traffic in TRAFFICS {
            all.extend(PAPER_TCPS.map(|tcp| Trial::new(network, traffic, tcp)));
        }
    }
    all
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let index = |networks: &[Network], tcp| {
        let of = |it: &Trial| it.tcp == tcp && networks.contains(&it.network);
        Estimate::mean_of(trials().iter().filter(|it| of(it)).map(|it| runs.at(it, JAIN)))
    };
    let mut checks = Vec::new();
    for network in NETWORKS {
        let [newreno, vegas, pacing] = PAPER_TCPS.map(|tcp| index(&[network], tcp));
        let title = network.title();
        let [a, b, c] = [&newreno, &vegas, &pacing].map(mean);
        let what = format!("{title}: NewReno ({a}) is less fair than Vegas ({b})");
        checks.push(Check::new(what, newreno.below(&vegas)));
        let what = format!("{title}: Vegas is less fair than TCP-AP ({c})");
        checks.push(Check::new(what, vegas.below(&pacing)));
    }
    let points = trials().into_iter().zip(1_u32..).map(|(trial, number)| Point {
        cell: Some(name(trial)),
        ..Point::new(
            trial.tcp.line(),
            (number.into(), "case"),
            (runs.at(&trial, JAIN), "Jain's index"),
        )
    });
    let rows = trials().into_iter().map(|trial| {
        let at = |metric| mean(&runs.at(&trial, metric));
        vec![name(trial), trial.tcp.title().to_owned(), at(JAIN), at(FIRST), at(SECOND)]
    });
    let table = Table::list(
        "Two flows to the fixed host: Jain's index while both send, goodput of each in kbit/s",
        ["case", "TCP", "Jain's index", "first", "second"],
        rows,
    );
    let told = |tcp: Tcp| format!("{} {}", tcp.title(), mean(&index(&NETWORKS, tcp)));
    let measured =
        format!("Jain's index, 0.5 where one flow has all: {}.", PAPER_TCPS.map(told).join(", "));
    Finding {
        points: points.collect(),
        tables: vec![table],
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

fn name(trial: Trial) -> String {
    format!("{}, {}", trial.network.title(), trial.traffic.title(trial.network))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_needed_on_both_networks() {
        let verdict = |on_chain5: [f64; 3]| {
            let runs = Runs::made_up(trials(), 3, |trial| {
                let index = PAPER_TCPS.iter().position(|it| *it == trial.tcp).unwrap_or_default();
                let moving = [0.6, 0.8, 0.9][index];
                let is_moving = trial.network != Network::Chain5;
                vec![(JAIN, if is_moving { moving } else { on_chain5[index] })]
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict([0.6, 0.7, 0.8]), Verdict::Reproduced);
        assert_eq!(verdict([0.7, 0.6, 0.8]), Verdict::Differs);
        assert_eq!(verdict([0.6, 0.8, 0.8]), Verdict::Differs);
    }
}

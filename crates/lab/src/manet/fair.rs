//! Shares of two flows to the same gateway.

use super::trial::{Network, PAPER_TCPS, Tcp, Traffic, Trial, Uplink};
use super::{FIRST, GROUP, JAIN, SECOND, assumptions};
use crate::answer::Check;
use crate::claim::{Claim, Finding, Point, Table};
use crate::grid::{Experiment, Runs};
use crate::stats::Estimate;
use crate::words::mean;

const NETWORKS: [Network; 2] = [Network::Chain5, Network::Chain51(Uplink::Fast)];
const TRAFFICS: [Traffic; 2] = [Traffic::Overlapping, Traffic::Simultaneous];

pub(super) fn claim() -> Claim {
    Claim {
        id: "manet-fair",
        group: GROUP,
        text: "long-term fairness of two flows is close to none for NewReno, low for Vegas, medium for TCP-AP",
        source: "table 3",
        experiment: || Experiment::new(trials(), judge),
    }
}

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
    let index = |tcp| {
        let of = |it: &Trial| it.tcp == tcp;
        Estimate::mean_of(trials().iter().filter(|it| of(it)).map(|it| runs.at(it, JAIN)))
    };
    let [newreno, vegas, pacing] = PAPER_TCPS.map(index);
    let checks = [
        Check::new("NewReno is less fair than Vegas", newreno.below(&vegas)),
        Check::new("Vegas is less fair than TCP-AP", vegas.below(&pacing)),
    ];
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
    let table = Table {
        title:
            "Two flows to the fixed host: Jain's index while both send, goodput of each in kbit/s"
                .to_owned(),
        head: ["case", "TCP", "Jain's index", "first", "second"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    };
    let told = |tcp: Tcp| format!("{} {}", tcp.title(), mean(&index(tcp)));
    let measured = format!(
        "Jain's index, 0.5 where one flow has all: {}. {} runs.",
        PAPER_TCPS.map(told).join(", "),
        runs.count()
    );
    Finding {
        points: points.collect(),
        tables: vec![table],
        assumptions: assumptions(),
        ..Finding::of(&checks, measured)
    }
}

fn name(trial: Trial) -> String {
    format!("{}, {}", trial.network.title(), trial.traffic.title(trial.network))
}

//! Flows in turns and thinned acknowledgements: the ways to more fairness that the paper leaves to others.

use super::trial::{Assumed, Network, PAPER_TCPS, Traffic, Trial, Uplink};
use super::{GOODPUT, GROUP, JAIN, KBIT_S, assumptions};
use crate::prelude::*;

const NETWORKS: [Network; 3] =
    [Network::Chain5, Network::Chain51(Uplink::Fast), Network::Chain51(Uplink::Slow)];
const QUEUES: [Assumed; 4] = [Assumed::Usual, Assumed::FairGateway, Assumed::Fair, Assumed::Thin];
/// What goodput may be lost for fairness.
const NOT_WORSE: f64 = 0.95;

pub const CLAIM: Claim = Claim {
    id: "manet-queues",
    group: GROUP,
    text: "packet scheduling at the gateway makes two flows share more fairly and costs no goodput; thinned \
           acknowledgements gain goodput",
    source: "sections II.B and V",
    experiment: || Experiment::new(trials(), judge),
};

fn trials() -> Vec<Trial> {
    let of = |network| {
        PAPER_TCPS.into_iter().flat_map(move |tcp| {
            QUEUES.map(|queues| Trial::new(network, Traffic::Simultaneous, tcp).with(queues))
        })
    };
    NETWORKS.into_iter().flat_map(of).collect()
}

/// The mean of all networks and TCPs.
fn average(runs: &Runs<Trial>, queues: Assumed, metric: &'static str) -> Estimate {
    let all = trials().into_iter().filter(|it| it.assumed == queues);
    Estimate::mean_of(all.map(|trial| runs.at(&trial, metric)))
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let of = |queues, metric| average(runs, queues, metric);
    let cost = of(Assumed::FairGateway, GOODPUT).over(&of(Assumed::Usual, GOODPUT));
    let checks = [
        Check::new(
            "flows in turns at the gateway are fairer",
            of(Assumed::Usual, JAIN).below(&of(Assumed::FairGateway, JAIN)),
        ),
        Check::new(format!("with them goodput is {cost} of what it was"), cost.at_least(NOT_WORSE)),
        Check::new(
            "thinned acknowledgements gain goodput",
            of(Assumed::Usual, GOODPUT).below(&of(Assumed::Thin, GOODPUT)),
        ),
    ];
    let told = QUEUES.map(|queues| {
        let [jain, goodput] = [JAIN, GOODPUT].map(|metric| mean(&of(queues, metric)));
        format!("{}: Jain's index {jain}, {goodput} {KBIT_S}", title(queues))
    });
    let measured =
        format!("Mean over three networks and three TCPs, two flows: {}.", told.join("; "));
    let mut points = Vec::new();
    let mut rows = Vec::new();
    let cases = NETWORKS.into_iter().flat_map(|it| PAPER_TCPS.map(|tcp| (it, tcp)));
    for ((network, tcp), number) in cases.zip(1_u32..) {
        let case = format!("{}, {}", network.title(), tcp.title());
        let at = |queues, metric| {
            let trial = Trial::new(network, Traffic::Simultaneous, tcp).with(queues);
            runs.at(&trial, metric)
        };
        let texts = QUEUES
            .map(|queues| format!("{}; {}", mean(&at(queues, JAIN)), mean(&at(queues, GOODPUT))));
        rows.push([vec![case.clone()], texts.to_vec()].concat());
        points.extend(QUEUES.into_iter().zip(0..).map(|(queues, ink)| Point {
            cell: Some(case.clone()),
            ..Point::new(
                line(queues, ink),
                (number.into(), "case"),
                (at(queues, JAIN), "Jain's index"),
            )
        }));
    }
    let table = Table::list(
        "Two flows for the whole time: Jain's index; goodput of both in kbit/s",
        [vec!["case".to_owned()], QUEUES.map(title).to_vec()].concat(),
        rows,
    );
    let x = Axis::linear("Case, numbered in the order of the table", "")
        .with_ticks((1..=9).map(f64::from));
    let figure = Figure::of(&points, "manet-queues", "Shares of two flows")
        .under("Two flows to the fixed host, AODV")
        .over(x)
        .up(Axis::linear("Jain's index", ""));
    Finding {
        figures: vec![figure],
        points,
        tables: vec![table],
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

fn title(queues: Assumed) -> String {
    match queues {
        Assumed::Usual => "routing messages first".to_owned(),
        other => other.title(),
    }
}

fn line(queues: Assumed, number: usize) -> Line {
    let (series, ink) = match queues {
        Assumed::Usual => ("usual", Ink::Tcp),
        Assumed::FairGateway => ("fairgateway", Ink::Default),
        Assumed::Fair => ("fair", Ink::Paper),
        _ => ("thin", Ink::Other(number)),
    };
    Line::new(series, title(queues), ink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_must_rise_and_goodput_must_not_fall() {
        let verdict = |jain: f64, kept: f64, thinned: f64| {
            let runs = Runs::made_up(trials(), 3, |trial| match trial.assumed {
                Assumed::FairGateway => vec![(JAIN, jain), (GOODPUT, 600.0 * kept)],
                Assumed::Thin => vec![(JAIN, 0.7), (GOODPUT, 600.0 * thinned)],
                _ => vec![(JAIN, 0.7), (GOODPUT, 600.0)],
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(0.9, 0.98, 1.1), Verdict::Reproduced);
        assert_eq!(verdict(0.7, 0.98, 1.1), Verdict::Differs);
        assert_eq!(verdict(0.9, 0.8, 1.1), Verdict::Differs);
        assert_eq!(verdict(0.9, 0.98, 1.0), Verdict::Differs);
    }
}

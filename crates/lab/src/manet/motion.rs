//! Tests whether routes follow the motion as in the paper.

use super::trial::{Network, Routing, Tcp, Traffic, Trial, Uplink};
use super::{GROUP, LAG, SEEN, WITHOUT, assumptions};
use crate::prelude::*;

const ROUTINGS: [Routing; 2] = [Routing::Ideal, Routing::Aodv];
/// The part of the changes that must be seen.
const ALL: f64 = 1.0;
/// By how many seconds each may differ from the published time. Of the ideal the published times are 1.1 s away
/// themselves: where node 5 leaves the reach of a node of the chain follows from its motion (187.5 s), and the table
/// has 188.6 s.
const LATE: [f64; 2] = [1.1, 4.0];

pub const CLAIM: Claim = Claim {
    id: "manet-51-motion",
    group: GROUP,
    text: "hops over time for Vegas on Chain 5+1 are those of the paper's table 2",
    source: "table 2",
    experiment: || Experiment::new(ROUTINGS.map(trial), judge),
};

fn trial(routing: Routing) -> Trial {
    Trial::new(Network::Chain51(Uplink::Fast), Traffic::One, Tcp::Vegas).over(routing)
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let at = |routing, metric| runs.at(&trial(routing), metric);
    let mut checks = Vec::new();
    for (routing, late) in ROUTINGS.into_iter().zip(LATE) {
        let title = routing.title();
        let seen = format!("{title}: all of table 2 is seen within 5 s");
        checks.push(Check::new(seen, at(routing, SEEN).at_least(ALL)));
        let lag = format!("{title}: each within {late} s");
        checks.push(Check::new(lag, at(routing, LAG).at_most(late)));
    }
    let told = ROUTINGS.map(|routing| {
        format!(
            "{}: {} of the 31 hop counts, {} s off at most",
            routing.title(),
            percent(at(routing, SEEN).mean),
            mean(&at(routing, LAG)),
        )
    });
    let measured = format!("{}.", told.join("; "));
    let columns =
        [("hop counts seen", SEEN), ("greatest difference, s", LAG), ("no route, s", WITHOUT)];
    let rows = named(ROUTINGS, Routing::title);
    let table =
        Table::new("Hops of node 5 over time", ("routing", columns), rows, |metric, routing| {
            at(routing, metric)
        });
    let points = ROUTINGS.into_iter().zip(1_u32..).map(|(routing, number)| {
        let line =
            crate::claim::Line::new(routing.title(), routing.title(), crate::figure::Ink::Default);
        Point::new(line, (number.into(), "routing"), (at(routing, LAG), "s"))
    });
    Finding {
        points: points.collect(),
        tables: vec![table],
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_changes_must_be_seen_and_none_late() {
        let verdict = |seen: f64, lag: f64| {
            let runs = Runs::made_up(ROUTINGS.map(trial), 3, |trial| {
                let lag = if trial.routing == Routing::Aodv { lag } else { 1.0 };
                vec![(SEEN, seen), (LAG, lag), (WITHOUT, 0.0)]
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(1.0, 1.0), Verdict::Reproduced);
        assert_eq!(verdict(0.9, 1.0), Verdict::Differs);
        assert_eq!(verdict(1.0, 4.5), Verdict::Differs);
    }
}

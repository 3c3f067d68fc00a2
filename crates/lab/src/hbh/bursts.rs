//! Delay where packets are lost in bursts, over delay where as many are lost each on its own.

use super::chain::{self, Air};
use super::sweep::scenario;
use super::{Carrier, GROUP, PERCENT, SECONDS, assumptions, curve};
use crate::claim::{Cell, Claim, Finding, Point, Results, Table, Verdict};
use crate::figure::{Axis, Figure, Ink};
use crate::stats::Estimate;
use crate::words::{mean, percent};

const LOSSES: [f64; 3] = [0.05, 0.10, 0.20];
/// Packets of a mean burst.
const BURST: u32 = 5;
/// The most that bursts may cost our profile, in the delay without them.
const GOAL: f64 = 2.0;

pub(super) fn claim() -> Claim {
    Claim {
        id: "hbh-bursts",
        group: GROUP,
        text: "losses in bursts of five packets at most double the delay of our profile",
        source: "ours; docs/hbh-limits.md",
        cells,
        judge,
    }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for carrier in Carrier::ALL {
        for loss in LOSSES {
            let chain = scenario(carrier, loss);
            cells.extend(airs().map(|air| chain.cell_over(air)));
        }
    }
    cells
}

fn airs() -> [Air; 2] {
    [Air::Bursts(BURST), Air::Independent]
}

fn delay(results: &Results, carrier: Carrier, loss: f64, air: Air) -> Estimate {
    results.estimate(&scenario(carrier, loss).name_over(air), chain::DELAY)
}

/// What bursts cost; `None` where not even single losses let all transfers end.
fn cost(results: &Results, carrier: Carrier, loss: f64) -> Option<Estimate> {
    let [bursts, single] = airs().map(|air| delay(results, carrier, loss, air));
    bursts.over(&single)
}

fn is_within_goal(results: &Results, loss: f64) -> bool {
    let cost = cost(results, Carrier::Default, loss);
    cost.is_some_and(|cost| !cost.is_lower_bound() && cost.mean <= GOAL)
}

fn judge(results: &Results) -> Finding {
    let cost = |carrier, loss| cost(results, carrier, loss);
    let text = |carrier, loss| {
        cost(carrier, loss).map_or("no transfer ends".to_owned(), |cost| mean(&cost))
    };
    let short: Vec<String> = LOSSES
        .into_iter()
        .filter(|loss| !is_within_goal(results, *loss))
        .map(|loss| format!("{} at {}", text(Carrier::Default, loss), percent(loss)))
        .collect();
    let points = points(results);
    let runs = points.first().map_or(0, |point| point.y.runs);
    let listed =
        LOSSES.map(|loss| format!("{} at {}", text(Carrier::Default, loss), percent(loss)));
    let row = |carrier: Carrier| {
        let mut row = vec![carrier.title().to_owned()];
        row.extend(LOSSES.map(|loss| text(carrier, loss)));
        row
    };
    let head = std::iter::once("Carrier".to_owned()).chain(LOSSES.map(percent));
    Finding {
        verdict: if short.is_empty() { Verdict::Reproduced } else { Verdict::Differs },
        measured: format!(
            "delay with bursts of {BURST} over that with single losses, default profile: {}. \
             {runs} runs.",
            listed.join(", ")
        ),
        reason: if short.is_empty() {
            format!("at most {GOAL} times at every loss")
        } else {
            format!("more than {GOAL} times: {}", short.join(", "))
        },
        figures: vec![figure(&points, runs)],
        tables: vec![Table {
            title: format!("Delay with bursts of {BURST} over that with single losses"),
            head: head.collect(),
            rows: Carrier::ALL.map(row).to_vec(),
        }],
        points,
        exchanges: Vec::new(),
        assumptions: assumptions(),
    }
}

fn series(carrier: Carrier, air: Air) -> String {
    match air {
        Air::Bursts(_) => format!("{}, bursts", carrier.series()),
        Air::Genie | Air::Independent => carrier.series().to_owned(),
    }
}

fn points(results: &Results) -> Vec<Point> {
    let mut points = Vec::new();
    for carrier in Carrier::ALL {
        for air in airs() {
            points.extend(LOSSES.map(|loss| Point {
                series: series(carrier, air),
                x: loss * 100.0,
                x_unit: PERCENT,
                y: delay(results, carrier, loss, air),
                y_unit: SECONDS,
                limit: scenario(carrier, loss).delay_limit(),
                limit2: None,
                sessions: None,
                cell: None,
            }));
        }
    }
    points
}

fn figure(points: &[Point], runs: u32) -> Figure {
    let mut curves = Vec::new();
    for (index, carrier) in Carrier::ALL.into_iter().enumerate() {
        let bursts = format!("{}, bursts", carrier.title());
        let name = series(carrier, Air::Bursts(BURST));
        curves.push(curve(points, &name, &bursts, Ink::Other(index)));
        curves.push(curve(points, carrier.series(), carrier.title(), carrier.ink()));
    }
    Figure {
        name: "hbh-bursts".to_owned(),
        title: "What losses in bursts cost".to_owned(),
        subtitle: format!("100 kB over four lossy hops, bursts of {BURST}, mean of {runs} runs"),
        x: Axis::linear("Loss of every link, each way", PERCENT)
            .with_ticks(LOSSES.map(|loss| loss * 100.0)),
        y: Axis::log("Delay from the first SYN to the last octet", SECONDS),
        series: curves,
        note: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Observation;

    fn verdict(bursts: impl Fn(f64) -> Observation) -> Verdict {
        let mut results = Results::default();
        for carrier in Carrier::ALL {
            for loss in LOSSES {
                let chain = scenario(carrier, loss);
                let measured = |delay| vec![(chain::DELAY, delay)];
                results.push(&chain.name(), measured(Observation::Exact(10.0)));
                let name = chain.name_over(Air::Bursts(BURST));
                results.push(&name, measured(bursts(loss)));
            }
        }
        judge(&results).verdict
    }

    #[test]
    fn bursts_may_double_the_delay_and_no_more() {
        let at_20 = |delay: f64| {
            move |loss: f64| Observation::Exact(if loss > 0.15 { delay } else { 12.0 })
        };

        assert_eq!(verdict(at_20(20.0)), Verdict::Reproduced);
        assert_eq!(verdict(at_20(20.1)), Verdict::Differs);
    }

    #[test]
    fn a_transfer_that_does_not_end_is_more_than_double() {
        assert_eq!(verdict(|_| Observation::AtLeast(15.0)), Verdict::Differs);
    }
}

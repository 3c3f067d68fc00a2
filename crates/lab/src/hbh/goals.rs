//! How near our profile comes to what links that repeat at once would give, and to the fewest
//! packets. `docs/hbh-limits.md` defines both bounds and the goals.

use super::chain::{self, Air, Chain};
use super::sweep::{LOSSES, at, delays, scenario, usages};
use super::{
    Carrier, GROUP, PACKETS, PERCENT, SECONDS, assumptions, curve, genie_curve, limit_curve,
};
use crate::claim::{Cell, Claim, Finding, Point, Results, Table, Verdict};
use crate::figure::{Axis, Figure, Ink, Mark, Series};
use crate::stats::Estimate;
use crate::words::{mean, number, percent};

/// The packets that our profile may put on all links, in the least possible, at every loss.
const USAGE_GOAL: f64 = 1.35;

/// The delay that our profile may take at a loss, in that over the genie's links. Without loss the
/// genie is plain TCP.
fn delay_goal(loss: f64) -> f64 {
    if loss <= 0.0 {
        1.03
    } else if loss <= 0.10 {
        1.12
    } else if loss <= 0.20 {
        1.2
    } else {
        1.3
    }
}

pub(super) fn claim() -> Claim {
    Claim {
        id: "hbh-goals",
        group: GROUP,
        text: "our profile is within 12 % of links that repeat every loss at once up to 10 % loss, \
               within 20 % at 20 % and 30 % at 30 %, and sends at most 1.35 times the packets that \
               any protocol needs",
        source: "ours; docs/hbh-limits.md",
        cells,
        judge,
    }
}

fn cells() -> Vec<Cell> {
    let ours = LOSSES.map(|loss| scenario(Carrier::Default, loss).cell());
    ours.into_iter().chain(genie_cells()).collect()
}

/// Plain TCP over links that repeat at once, loss by loss.
pub(super) fn genie_cells() -> Vec<Cell> {
    LOSSES.map(|loss| genie_chain(loss).cell_over(Air::Genie)).to_vec()
}

/// How long the common transfer takes over links that repeat at once.
pub(super) fn genie(results: &Results, loss: f64) -> Estimate {
    results.estimate(&genie_chain(loss).name_over(Air::Genie), chain::DELAY)
}

fn genie_chain(loss: f64) -> Chain {
    scenario(Carrier::Tcp, loss)
}

/// Our profile at a loss, in its two bounds.
#[derive(Clone, Copy, Debug)]
struct Place {
    loss: f64,
    delay: Estimate,
    genie: Estimate,
    packets: Estimate,
    fewest: f64,
}

impl Place {
    fn at(results: &Results, loss: f64) -> Self {
        let ours = |metric| at(results, Carrier::Default, loss, metric);
        Self {
            loss,
            delay: ours(chain::DELAY),
            genie: genie(results, loss),
            packets: ours(chain::PACKETS),
            fewest: scenario(Carrier::Default, loss).packets_limit().unwrap_or_default(),
        }
    }

    fn delay_ratio(&self) -> Estimate {
        let bound = self.delay.times(1.0 / self.genie.mean);
        self.delay.over(&self.genie).unwrap_or(bound)
    }

    fn packets_ratio(&self) -> Estimate {
        self.packets.times(1.0 / self.fewest)
    }

    fn is_slow(&self) -> bool {
        is_above(&self.delay_ratio(), delay_goal(self.loss))
    }

    fn is_costly(&self) -> bool {
        is_above(&self.packets_ratio(), USAGE_GOAL)
    }
}

/// Means are compared, and what has no upper end is above everything.
fn is_above(ratio: &Estimate, goal: f64) -> bool {
    ratio.is_lower_bound() || ratio.mean > goal
}

fn judge(results: &Results) -> Finding {
    let places = LOSSES.map(|loss| Place::at(results, loss));
    let ours = [Carrier::Default];
    let mut points = delays(results, &ours);
    points.extend(usages(results, &ours));
    let runs = places[0].delay.runs;
    let short: Vec<String> = places
        .iter()
        .filter(|place| place.is_slow() || place.is_costly())
        .map(|place| {
            let goal = delay_goal(place.loss);
            let (delay, packets) = (place.delay_ratio(), place.packets_ratio());
            format!(
                "{}: {} of {goal} in delay, {} of {USAGE_GOAL} in packets",
                percent(place.loss),
                mean(&delay),
                mean(&packets)
            )
        })
        .collect();
    let worst = |ratio: fn(&Place) -> Estimate| {
        places.iter().map(|place| ratio(place).mean).fold(0.0, f64::max)
    };
    Finding {
        verdict: if short.is_empty() { Verdict::Reproduced } else { Verdict::Differs },
        measured: format!(
            "delay at most {} times that over links that repeat at once, packets at most {} times \
             the fewest possible, in the same runs. {runs} runs.",
            number(worst(Place::delay_ratio)),
            number(worst(Place::packets_ratio)),
        ),
        reason: if short.is_empty() {
            "every mean is within its goal".to_owned()
        } else {
            format!("these miss a goal: {}", short.join("; "))
        },
        figures: figures(&points, runs),
        tables: vec![table(&places)],
        points,
        exchanges: Vec::new(),
        assumptions: assumptions(),
    }
}

fn table(places: &[Place]) -> Table {
    let row = |place: &Place| {
        vec![
            percent(place.loss),
            mean(&place.delay),
            mean(&place.genie),
            mean(&place.delay_ratio()),
            number(delay_goal(place.loss)),
            mean(&place.packets),
            number(place.fewest),
            mean(&place.packets_ratio()),
            number(USAGE_GOAL),
        ]
    };
    let head = ["Loss", "delay [s]", "genie [s]", "ratio", "goal"];
    let packets = ["packets", "fewest", "ratio", "goal"];
    Table {
        title: "The default profile in its bounds, and the goals".to_owned(),
        head: head.into_iter().chain(packets).map(str::to_owned).collect(),
        rows: places.iter().map(row).collect(),
    }
}

fn figures(points: &[Point], runs: u32) -> Vec<Figure> {
    let figure = |name: &str, title: &str, y: Axis, series: Vec<Series>| Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        subtitle: format!("Chain of 5 nodes, links of 300 kbit/s and 50 ms, mean of {runs} runs"),
        x: Axis::linear("Loss of every link, each way", PERCENT),
        y,
        series,
        note: String::new(),
    };
    let of = |unit: &str| -> Vec<Point> {
        points.iter().filter(|point| point.y_unit == unit).cloned().collect()
    };
    let ours = Carrier::Default;
    let data = |points: &[Point]| curve(points, ours.series(), ours.title(), ours.ink());
    let goal = |name: String, marks: Vec<Mark>| Series { name, ink: Ink::Goal, marks };

    let (slow, costly) = (of(SECONDS), of(PACKETS));
    let (limit, genie) = (limit_curve(&slow, ours.series()), genie_curve(&slow, ours.series()));
    let allowed = genie.marks.iter();
    let allowed = allowed.map(|mark| Mark::exact(mark.x, mark.y * delay_goal(mark.x / 100.0)));
    let allowed = goal("goal: 1.03 to 1.3 times that".to_owned(), allowed.collect());
    let fewest = limit_curve(&costly, ours.series());
    let usage = fewest.marks.iter().map(|mark| Mark::exact(mark.x, mark.y * USAGE_GOAL));
    let usage = goal(format!("goal: {USAGE_GOAL} times that"), usage.collect());
    vec![
        figure(
            "hbh-delay-limit",
            "How far our profile is from what physics allows",
            Axis::linear("Delay from the first SYN to the last octet", SECONDS),
            vec![limit, genie, allowed, data(&slow)],
        ),
        figure(
            "hbh-usage-limit",
            "How far our profile is from the fewest packets possible",
            Axis::linear("IP packets put on all links, acknowledgements included", ""),
            vec![fewest, usage, data(&costly)],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Observation;

    /// Results in which our profile takes `delay` times the genie and `packets` times the fewest.
    fn made_up(delay: impl Fn(f64) -> f64, packets: f64) -> Results {
        let mut results = Results::default();
        for loss in LOSSES {
            let ours = scenario(Carrier::Default, loss);
            let fewest = ours.packets_limit().expect("a transfer");
            for carrier in Carrier::ALL {
                let measured = vec![
                    (chain::DELAY, Observation::Exact(10.0 * delay(loss))),
                    (chain::PACKETS, Observation::Exact(packets * fewest)),
                ];
                results.push(&scenario(carrier, loss).name(), measured);
            }
            let genie = vec![(chain::DELAY, Observation::Exact(10.0))];
            results.push(&genie_chain(loss).name_over(Air::Genie), genie);
        }
        results
    }

    fn verdict(delay: impl Fn(f64) -> f64, packets: f64) -> Verdict {
        judge(&made_up(delay, packets)).verdict
    }

    #[test]
    fn the_verdict_follows_the_goal_of_each_loss() {
        let within = |loss: f64| delay_goal(loss) - 0.001;
        let late_at =
            |slow: f64| move |loss: f64| within(loss) + if loss == slow { 0.01 } else { 0.0 };

        assert_eq!(verdict(within, 1.34), Verdict::Reproduced);
        for slow in LOSSES {
            assert_eq!(verdict(late_at(slow), 1.34), Verdict::Differs, "{slow}");
        }
        assert_eq!(verdict(within, 1.36), Verdict::Differs);
    }

    #[test]
    fn goals_are_those_of_the_documentation() {
        let goals = [0.01, 0.10, 0.15, 0.20, 0.25, 0.30].map(delay_goal);

        assert_eq!(goals, [1.12, 1.12, 1.2, 1.2, 1.3, 1.3]);
    }

    #[test]
    fn what_falls_short_is_named() {
        let finding = judge(&made_up(|loss| if loss > 0.29 { 2.0 } else { 1.0 }, 1.0));

        assert!(finding.reason.contains("30 %: 2.00 of 1.3 in delay"), "{}", finding.reason);
        assert!(!finding.reason.contains("20 %"), "{}", finding.reason);
    }
}

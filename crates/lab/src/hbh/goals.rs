//! Compares our profile with links that repeat at once, and with the fewest possible packets.
//! `docs/results/limits.md` defines both bounds and the goals.

use super::chain;
use super::trial::{LOSSES, Trial, at, points};
use super::{Carrier, DELAY_AXIS, GROUP, PACKETS, PACKETS_AXIS, SECONDS, assumptions, figure};
use crate::prelude::*;

/// The packets that our profile may put on all links, in the least possible, at every loss.
const USAGE_GOAL: f64 = 1.35;

/// The most delay allowed to our profile at a loss, relative to the delay over the genie's links. Without loss the
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

pub const CLAIM: Claim = Claim {
    id: "hbh-goals",
    group: GROUP,
    text: "our profile is within 12 % of links that repeat every loss at once up to 10 % loss, \
           within 20 % at 20 % and 30 % at 30 %, and sends at most 1.35 times the packets that \
           any protocol needs",
    source: "ours; docs/results/limits.md",
    experiment: || Experiment::new(trials(), judge),
};

fn trials() -> Vec<Trial> {
    Trial::sweep(&[Carrier::Default]).into_iter().chain(LOSSES.map(Trial::genie)).collect()
}

fn genie(runs: &Runs<Trial>, loss: f64) -> Estimate {
    runs.at(&Trial::genie(loss), chain::DELAY)
}

fn fewest(loss: f64) -> f64 {
    Trial::new(Carrier::Default, loss).limit(chain::PACKETS).unwrap_or_default()
}

fn delay_ratio(runs: &Runs<Trial>, loss: f64) -> Estimate {
    at(runs, Carrier::Default, loss, chain::DELAY).over(&genie(runs, loss))
}

fn packets_ratio(runs: &Runs<Trial>, loss: f64) -> Estimate {
    at(runs, Carrier::Default, loss, chain::PACKETS).times(1.0 / fewest(loss))
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let (slow, costly) = (delay_ratio, packets_ratio);
    let checks = LOSSES.map(|loss| {
        let (slow, costly, goal) = (slow(runs, loss), costly(runs, loss), delay_goal(loss));
        let (delay, packets) = (mean(&slow), mean(&costly));
        [
            Check::new(
                format!("{}: {delay} of {goal} in delay", percent(loss)),
                slow.at_most(goal),
            ),
            Check::new(
                format!("{}: {packets} of {USAGE_GOAL} in packets", percent(loss)),
                costly.at_most(USAGE_GOAL),
            ),
        ]
    });
    let worst = |ratio: fn(&Runs<Trial>, f64) -> Estimate| {
        number(LOSSES.map(|loss| ratio(runs, loss).mean).into_iter().fold(0.0, f64::max))
    };
    let measured = format!(
        "delay at most {} times that over links that repeat at once, packets at most {} times \
         the fewest possible, in the same runs.",
        worst(slow),
        worst(costly)
    );
    let is_ours = |it: &&Point| it.line.series == Carrier::Default.series();
    let of = |metric, unit| -> Vec<Point> {
        points(runs, metric, unit).iter().filter(is_ours).cloned().collect()
    };
    let (delays, packets) = (of(chain::DELAY, SECONDS), of(chain::PACKETS, PACKETS));
    Finding {
        figures: figures(&delays, &packets),
        points: delays.into_iter().chain(packets).collect(),
        tables: vec![table(runs)],
        assumptions: assumptions(),
        ..runs.finding(checks.as_flattened(), measured)
    }
}

type Column = fn(&Runs<Trial>, f64) -> String;
const COLUMNS: [(&str, Column); 8] = [
    ("delay [s]", |runs, loss| mean(&at(runs, Carrier::Default, loss, chain::DELAY))),
    ("genie [s]", |runs, loss| mean(&genie(runs, loss))),
    ("ratio", |runs, loss| mean(&delay_ratio(runs, loss))),
    ("goal", |_, loss| number(delay_goal(loss))),
    ("packets", |runs, loss| mean(&at(runs, Carrier::Default, loss, chain::PACKETS))),
    ("fewest", |_, loss| number(fewest(loss))),
    ("ratio", |runs, loss| mean(&packets_ratio(runs, loss))),
    ("goal", |_, _| number(USAGE_GOAL)),
];

fn table(runs: &Runs<Trial>) -> Table {
    let title = "The default profile in its bounds, and the goals";
    Table::new(title, ("Loss", COLUMNS), named(LOSSES, percent), |value, loss| value(runs, loss))
}

fn figures(delays: &[Point], packets: &[Point]) -> Vec<Figure> {
    let delay_axis = Axis::linear(DELAY_AXIS, SECONDS);
    let title = "How far our profile is from what physics allows";
    let mut delay = figure(delays, "hbh-delay-limit", title, delay_axis);
    let allowed = delays
        .iter()
        .filter_map(|it| Some(Mark::exact(it.x, it.limit2?.mean * delay_goal(it.x / 100.0))));
    delay.series.insert(2, Series::new("goal: 1.03 to 1.3 times that", Ink::Goal, allowed));

    let title = "How far our profile is from the fewest packets possible";
    let mut usage = figure(packets, "hbh-usage-limit", title, Axis::linear(PACKETS_AXIS, ""));
    let name = format!("goal: {USAGE_GOAL} times that");
    usage.series.insert(1, Series::limit(packets, &name, Ink::Goal, USAGE_GOAL));
    vec![delay, usage]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found where our profile takes `delay` times the genie and `packets` times the fewest.
    fn finding(runs: u32, delay: impl Fn(f64) -> f64, packets: f64) -> Finding {
        judge(&Runs::made_up(trials(), runs, |it| match it.carrier {
            Carrier::Default => vec![
                (chain::DELAY, 10.0 * delay(it.loss)),
                (chain::PACKETS, packets * fewest(it.loss)),
            ],
            Carrier::Paper | Carrier::Tcp => vec![(chain::DELAY, 10.0)],
        }))
    }

    fn verdict(delay: impl Fn(f64) -> f64, packets: f64) -> Verdict {
        finding(3, delay, packets).verdict
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
        assert_eq!(finding(1, within, 1.34).verdict, Verdict::Undecided);
    }

    #[test]
    fn goals_are_those_of_the_documentation() {
        let goals = [0.01, 0.10, 0.15, 0.20, 0.25, 0.30].map(delay_goal);

        assert_eq!(goals, [1.12, 1.12, 1.2, 1.2, 1.3, 1.3]);
    }

    #[test]
    fn what_falls_short_is_named() {
        let finding = finding(3, |loss| if loss > 0.29 { 2.0 } else { 1.0 }, 1.0);

        let named = "Not so: 30 %: 2.00 ± 0 of 1.3 in delay. Shown";
        assert!(finding.reason.starts_with(named), "{}", finding.reason);
    }
}

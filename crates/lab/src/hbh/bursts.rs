//! Delay where packets are lost in bursts, over delay where as many are lost each on its own.

use super::chain::{self, Air};
use super::trial::Trial;
use super::{Carrier, DELAY_AXIS, GROUP, PERCENT, SECONDS, assumptions, listed};
use crate::prelude::*;

const LOSSES: [f64; 3] = [0.05, 0.10, 0.20];
/// Packets of a mean burst.
const BURST: u32 = 5;
/// The most that bursts may cost our profile, in the delay without them.
const GOAL: f64 = 2.0;

pub const CLAIM: Claim = Claim {
    id: "hbh-bursts",
    group: GROUP,
    text: "losses in bursts of five packets at most double the delay of our profile",
    source: "ours; docs/results/limits.md",
    experiment: || Experiment::new(trials(), judge),
};

fn trials() -> Vec<Trial> {
    let of = |carrier| {
        let airs = [Air::Bursts(BURST), Air::Independent];
        airs.map(|air| LOSSES.map(|loss| Trial { air, ..Trial::new(carrier, loss) }))
    };
    Carrier::ALL.map(of).as_flattened().concat()
}

/// What bursts cost.
fn cost(runs: &Runs<Trial>, carrier: Carrier, loss: f64) -> Estimate {
    let single = Trial::new(carrier, loss);
    let bursts = Trial { air: Air::Bursts(BURST), ..single };
    runs.at(&bursts, chain::DELAY).over(&runs.at(&single, chain::DELAY))
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let checks = LOSSES.map(|loss| {
        let cost = cost(runs, Carrier::Default, loss);
        let what = format!("{cost} of {GOAL} times at {}", percent(loss));
        Check::new(what, cost.at_most(GOAL))
    });
    let measured = format!(
        "delay with bursts of {BURST} over that with single losses, default profile: {}.",
        listed(LOSSES, |loss| cost(runs, Carrier::Default, loss))
    );
    let points = runs.points(chain::DELAY, SECONDS, |_| true);
    let title = format!("Delay with bursts of {BURST} over that with single losses");
    let rows = named(Carrier::ALL, Carrier::title);
    Finding {
        figures: vec![
            Figure::of(&points, "hbh-bursts", "What losses in bursts cost")
                .under(format!("100 kB over four lossy hops, bursts of {BURST}"))
                .over(
                    Axis::linear("Loss of every link, each way", PERCENT)
                        .with_ticks(LOSSES.map(|loss| loss * 100.0)),
                )
                .up(Axis::log(DELAY_AXIS, SECONDS)),
        ],
        tables: vec![Table::new(title, ("Carrier", named(LOSSES, percent)), rows, |loss, it| {
            cost(runs, it, loss)
        })],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(runs: u32, bursts: impl Fn(f64) -> Observation) -> Verdict {
        let delay = |it: &Trial| match it.air {
            Air::Bursts(_) => bursts(it.loss),
            Air::Genie | Air::Independent => Observation::Exact(10.0),
        };
        judge(&Runs::observed(trials(), runs, |it, _| vec![(chain::DELAY, delay(it))])).verdict
    }

    #[test]
    fn bursts_may_double_the_delay_and_no_more() {
        let at_20 = |delay: f64| {
            move |loss: f64| Observation::Exact(if loss > 0.15 { delay } else { 12.0 })
        };

        assert_eq!(verdict(3, at_20(20.0)), Verdict::Reproduced);
        assert_eq!(verdict(3, at_20(20.1)), Verdict::Differs);
        assert_eq!(verdict(1, at_20(12.0)), Verdict::Undecided);
    }

    #[test]
    fn a_transfer_that_does_not_end_is_not_shown_to_be_within_double() {
        assert_eq!(verdict(3, |_| Observation::AtLeast(15.0)), Verdict::Undecided);
        assert_eq!(verdict(3, |_| Observation::AtLeast(25.0)), Verdict::Differs);
    }
}

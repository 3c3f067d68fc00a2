//! Delay and packets over W, the window of a hop.

use hbh::{Config, Profile};

use super::GROUP;
use super::parameter::{Curve, Look, Setting, finding};
use crate::prelude::*;

const VALUES: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 127];
/// How many times the least delay counts as wasted capacity.
const WASTEFUL: f64 = 1.25;

/// The paper's profile at two losses, then ours.
static CURVES: [Curve; 3] = [
    curve("paper, 5 % loss", "paper profile, 5 % loss", Ink::Other(0), Profile::Paper, 0.05),
    curve("paper", "paper profile, 10 % loss", Ink::Paper, Profile::Paper, 0.10),
    curve("default", "default profile, 10 % loss", Ink::Default, Profile::Default, 0.10),
];

const fn curve(
    series: &'static str,
    title: &'static str,
    ink: Ink,
    profile: Profile,
    loss: f64,
) -> Curve {
    let set = |config: &mut Config, window| {
        config.window = (window, window);
    };
    Curve { series, title, ink, profile, loss, set, unit: "packets" }
}

pub const CLAIM: Claim = Claim {
    id: "hbh-w",
    group: GROUP,
    text: "a small window W behaves like stop-and-wait and wastes capacity; W must allow \
           packets and repeats in parallel; too large a W delays requests for acknowledgement",
    source: "section IV, figures 4(d) and 4(e)",
    experiment: || Experiment::new(Setting::grid(&CURVES, &VALUES), judge),
};

fn judge(runs: &Runs<Setting>) -> Finding {
    let paper = &CURVES[..2];
    let slowdown =
        |curve: &'static Curve, w| curve.delay(runs, w).over(&curve.delay(runs, curve.best(runs)));
    let large =
        |curve: &'static Curve| curve.delay(runs, curve.best(runs)).below(&curve.delay(runs, 127));
    let fewer = |curve: &'static Curve| curve.packets(runs, 127).below(&curve.packets(runs, 2));
    let mut checks: Vec<Check> = paper
        .iter()
        .map(|curve| {
            let what = format!("W = 1 takes {WASTEFUL} times the least delay ({})", curve.title);
            Check::new(what, slowdown(curve, 1).at_least(WASTEFUL))
        })
        .collect();
    checks.push(Check::new(
        "W = 127 takes longer than the best W at one of the losses",
        Answer::any(paper.iter().map(large)),
    ));
    let described = CURVES.each_ref().map(|curve| {
        let best = curve.best(runs);
        format!(
            "{}: least delay {} s with W = {best}; {} times that with W = 1, {} times with W = \
             127; packets {} from W = 2 to W = 127",
            curve.title,
            mean(&curve.delay(runs, best)),
            number(slowdown(curve, 1).mean),
            number(slowdown(curve, 127).mean),
            if fewer(curve) == Answer::Yes { "fall" } else { "do not surely fall" },
        )
    });
    let look = Look {
        name: "hbh-w",
        title: "How many packets a hop should have under way",
        x: Axis::log("W, packets sent and not acknowledged", "").with_ticks(VALUES.map(f64::from)),
        delay: Look::delay_axis(),
        note: "The limit is that of 10 % loss.",
    };
    finding(runs, &checks, &described.join("; "), &look)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hbh::chain;

    fn verdict(runs: u32, delay: impl Fn(f64) -> f64) -> Verdict {
        let settings = Setting::grid(&CURVES, &VALUES);
        let measured = |it: &Setting| vec![(chain::DELAY, delay(it.x().0))];
        judge(&Runs::made_up(settings, runs, measured)).verdict
    }

    #[test]
    fn both_ends_of_the_window_cost_delay() {
        let with = |one: f64, most: f64| {
            move |w: f64| {
                if w < 2.0 {
                    one
                } else if w > 100.0 {
                    most
                } else {
                    10.0
                }
            }
        };

        assert_eq!(verdict(3, with(15.0, 11.0)), Verdict::Reproduced);
        assert_eq!(verdict(3, with(12.0, 11.0)), Verdict::Differs);
        assert_eq!(verdict(3, with(15.0, 10.0)), Verdict::Differs);
        assert_eq!(verdict(1, with(15.0, 11.0)), Verdict::Undecided);
    }
}

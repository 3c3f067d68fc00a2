//! Delay over R, the retries of a hop.

use hbh::{Config, Profile};

use super::parameter::{Curve, Look, Setting, finding};
use super::{DELAY_AXIS, GROUP, SECONDS};
use crate::prelude::*;

/// Where the paper has the minimum.
const BEST: u16 = 4;
/// The most retries tried.
const MOST: u16 = 15;
const VALUES: [u16; 10] = [0, 1, 2, 3, BEST, 5, 6, 8, 10, MOST];
/// How much more than the least delay is still the least.
const LEAST: f64 = 1.1;

/// The paper's profile at every loss, then ours.
static CURVES: [Curve; 4] = [
    curve("paper", "paper profile, 10 % loss", Ink::Other(0), Profile::Paper, 0.10),
    curve("paper, 20 % loss", "paper profile, 20 % loss", Ink::Paper, Profile::Paper, 0.20),
    curve("paper, 30 % loss", "paper profile, 30 % loss", Ink::Other(1), Profile::Paper, 0.30),
    curve("default, 20 % loss", "default profile, 20 % loss", Ink::Default, Profile::Default, 0.20),
];

const fn curve(
    series: &'static str,
    title: &'static str,
    ink: Ink,
    profile: Profile,
    loss: f64,
) -> Curve {
    let set = |config: &mut Config, retries| {
        config.retries = u8::try_from(retries).unwrap_or(u8::MAX);
    };
    Curve { series, title, ink, profile, loss, set, unit: "retries" }
}

pub const CLAIM: Claim = Claim {
    id: "hbh-r",
    group: GROUP,
    text: "delay is least with R = 4 retries: fewer leave losses to TCP, more keep packets \
           beyond TCP's own timeout and make duplicate segments",
    source: "section IV, figure 4(c), which does not say at which loss",
    experiment: || Experiment::new(Setting::grid(&CURVES, &VALUES), judge),
};

/// It has to hold at every loss: the paper chooses one R for all.
fn judge(runs: &Runs<Setting>) -> Finding {
    let checks = CURVES[..3].iter().flat_map(|curve| {
        let (four, best) = (curve.delay(runs, BEST), curve.best(runs));
        let near = four.over(&curve.delay(runs, best)).at_most(LEAST);
        let longer = |r| (format!("R = {r} takes longer"), four.below(&curve.delay(runs, r)));
        let least = (format!("R = {BEST} is within {LEAST} times of R = {best}"), near);
        let all = [longer(1), longer(MOST), least];
        all.map(|(what, answer)| Check::new(format!("{what} ({})", curve.title), answer))
    });
    let described = CURVES.each_ref().map(|curve| {
        let values = [BEST, curve.best(runs), 0, MOST];
        let one = |r| format!("{} s with R = {r}", mean(&curve.delay(runs, r)));
        format!("{}: {}", curve.title, values.map(one).join(", "))
    });
    let look = Look {
        name: "hbh-r",
        title: "How often a hop should repeat a packet",
        x: Axis::linear("R, retries of a hop", "").with_ticks(VALUES.map(f64::from)),
        delay: Axis::log(DELAY_AXIS, SECONDS),
        note: "The limit is that of 20 % loss.",
    };
    finding(runs, &checks.collect::<Vec<_>>(), &described.join("; "), &look)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hbh::chain;

    fn verdict(runs: u32, delay: impl Fn(f64) -> f64) -> Verdict {
        let settings = Setting::grid(&CURVES, &VALUES);
        let delay = |it: &Setting| vec![(chain::DELAY, delay(crate::grid::Drawn::x(it).0))];
        judge(&Runs::made_up(settings, runs, delay)).verdict
    }

    #[test]
    fn the_least_delay_is_with_four_retries() {
        let least_at = |best: f64| move |r: f64| 10.0 + (r - best).abs();

        assert_eq!(verdict(3, least_at(4.0)), Verdict::Reproduced);
        assert_eq!(verdict(3, least_at(8.0)), Verdict::Differs);
        assert_eq!(verdict(3, |_| 10.0), Verdict::Differs);
        assert_eq!(verdict(1, least_at(4.0)), Verdict::Undecided);
    }
}

//! Delay and packets over a static retransmission timeout, against the dynamic one.

use std::time::Duration;

use hbh::{Config, Profile, Rto};

use super::GROUP;
use super::parameter::{Curve, Look, Setting, finding};
use crate::prelude::*;

/// The round trip of one hop that the paper gives, in ms.
const ROUND_TRIP: u16 = 110;
/// Timeouts in ms.
const VALUES: [u16; 10] = [60, 80, 100, 120, 150, 200, 300, 500, 1_000, 2_000];
/// The least ratio that counts as a very high overhead.
const VERY_HIGH: f64 = 1.5;
/// How many round trips are far above one.
const FAR: u16 = 4;

/// The static timeout, and two dynamic ones that are the same at every value.
static CURVES: [Curve; 3] = [
    Curve {
        set: |config, millis| config.rto = Rto::fixed(Duration::from_millis(millis.into())),
        ..curve("static", "paper profile, static RTO", Ink::Other(0), Profile::Paper)
    },
    curve("paper", "paper profile, dynamic RTO", Ink::Paper, Profile::Paper),
    curve("default", "default profile", Ink::Default, Profile::Default),
];

const fn curve(series: &'static str, title: &'static str, ink: Ink, profile: Profile) -> Curve {
    let set = |_: &mut Config, _| {};
    Curve { series, title, ink, profile, loss: 0.10, set, unit: "ms" }
}

pub const CLAIM: Claim = Claim {
    id: "hbh-rto",
    group: GROUP,
    text: "one hop takes about 110 ms there and back; a static timeout below that lowers the \
           delay at a very high overhead, one far above lowers the overhead at a poor delay; \
           the dynamic one is the compromise",
    source: "section IV, figure 4(f)",
    experiment: || Experiment::new(Setting::grid(&CURVES, &VALUES), judge),
};

fn judge(runs: &Runs<Setting>) -> Finding {
    let [fixed, dynamic, ours] = CURVES.each_ref();
    let delay = dynamic.delay(runs, VALUES[0]);
    let packets = dynamic.packets(runs, VALUES[0]);
    let below = || VALUES.into_iter().filter(|rto| *rto < ROUND_TRIP);
    let above = || VALUES.into_iter().filter(|rto| *rto > FAR * ROUND_TRIP);

    let cost = |rto| fixed.packets(runs, rto).over(&packets).at_least(VERY_HIGH);
    let checks = [
        Check::new(
            format!("a timeout below {ROUND_TRIP} ms lowers the delay"),
            Answer::any(below().map(|rto| fixed.delay(runs, rto).below(&delay))),
        ),
        Check::new(
            format!("one below {ROUND_TRIP} ms costs {VERY_HIGH} times the packets"),
            Answer::any(below().map(cost)),
        ),
        Check::new(
            format!("all more than {FAR} times above cost fewer packets than the dynamic one"),
            Answer::all(above().map(|rto| fixed.packets(runs, rto).below(&packets))),
        ),
        Check::new(
            format!("one more than {FAR} times above lengthens the delay"),
            Answer::any(above().map(|rto| delay.below(&fixed.delay(runs, rto)))),
        ),
    ];
    let text = |curve: &'static Curve, rto| {
        let (delay, packets) = (curve.delay(runs, rto), curve.packets(runs, rto));
        format!("{delay} s and {} packets", number(packets.mean))
    };
    let shown = [60, 120, 500, 2_000].map(|rto| format!("{rto} ms {}", text(fixed, rto)));
    let measured = format!(
        "static {}. Dynamic, paper profile: {}; default profile: {}",
        shown.join("; "),
        text(dynamic, VALUES[0]),
        text(ours, VALUES[0]),
    );
    let distance = |rto: &u16| (fixed.delay(runs, *rto).mean.ln() - delay.mean.ln()).abs();
    let alike = VALUES.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let look = Look {
        name: "hbh-rto",
        title: "A static retransmission timeout against a dynamic one",
        x: Axis::log("Static timeout of a hop", "ms")
            .with_ticks([60, 100, 200, 500, 1_000, 2_000].map(f64::from)),
        delay: Look::delay_axis(),
        note: "Loss 10 %. One hop takes about 110 ms there and back. The dynamic timeouts do not \
               depend on the axis.",
    };
    let finding = finding(runs, &checks, &measured, &look);
    let reason = format!(
        "{}. With the paper's constants the dynamic timeout delays like a static one of {} ms",
        finding.reason,
        alike.unwrap_or_default(),
    );
    Finding { reason, ..finding }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hbh::chain;

    /// What is found where a static timeout of so many ms gives this delay and these packets, and a
    /// dynamic one 10 s and 1,000 packets.
    fn verdict(runs: u32, of: impl Fn(f64) -> (f64, f64)) -> Verdict {
        let settings = Setting::grid(&CURVES, &VALUES);
        judge(&Runs::made_up(settings, runs, |it| {
            let is_static = it.line().series == CURVES[0].series;
            let (delay, packets) = if is_static { of(it.x().0) } else { (10.0, 1_000.0) };
            vec![(chain::DELAY, delay), (chain::PACKETS, packets)]
        }))
        .verdict
    }

    #[test]
    fn the_dynamic_timeout_is_the_compromise() {
        let trade = |millis: f64| (millis / 20.0, 200_000.0 / millis);
        let dear = |millis: f64| (millis / 20.0, 2_000.0);

        assert_eq!(verdict(3, trade), Verdict::Reproduced);
        assert_eq!(verdict(3, dear), Verdict::Differs);
        assert_eq!(verdict(1, trade), Verdict::Undecided);
    }
}

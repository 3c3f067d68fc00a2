//! Tests whether TCP/NC's loss rate and coding window follow a changing loss.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use sim::channel::Loss;
use tcp::tcpnc::{self, redundancy};

use super::grid::Load;
use super::network::Network;
use super::{GROUP, PERCENT, Scheme, assumptions};
use crate::prelude::*;
use crate::scenario::{Built, Plan};

/// A loss rate, and the metrics while it lasts: the estimate, and the coding window taken from it.
type Step = (f64, Metric, Metric);
const STEPS: [Step; 4] = [
    (0.05, "loss 1", "window 1"),
    (0.20, "loss 2", "window 2"),
    (0.10, "loss 3", "window 3"),
    (0.02, "loss 4", "window 4"),
];
/// Packets that cross the link in each step.
const STEP: usize = 6_000;
const LOOK: Duration = Duration::from_millis(500);
/// A run that has not finished its steps ends after this.
const TIME_LIMIT: Duration = Duration::from_secs(1_000);
/// The allowed error of an estimate: a share of the loss rate, but at least the second number.
const CLOSE: (f64, f64) = (0.25, 0.01);

/// A sample of the estimate.
struct Look {
    at: Time,
    /// Packets that the link had carried until then.
    packets: usize,
    loss: f64,
    window: usize,
}

impl Look {
    /// The step in whose second half the sample was taken; `None` in a first half.
    fn settled_in(&self) -> Option<usize> {
        (self.packets % STEP >= STEP / 2).then_some(self.packets / STEP)
    }
}

pub const CLAIM: Claim = Claim {
    id: "nc-lre",
    group: GROUP,
    text: "with k = 3 and the largest n for which a coding window survives with 0.9, TCP/NC follows \
           the loss rate of the link on line",
    source: "section II-B, equation (2)",
    experiment: || Experiment::new([Steps], judge),
};

/// The only place of the experiment: one run goes through all steps.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Steps;

impl Place for Steps {
    fn cell(&self) -> Cell {
        let draws = format!("lre {}", network().draws());
        Cell::of(Name::of("lre"), draws, plan, |built| outcome(&looks(built)))
    }
}

fn network() -> Network {
    Load::new(Scheme::TcpNc, 1, 0.0).network()
}

fn plan(seed: u64) -> Plan {
    let mut rng = Rng::stream(seed, "steps");
    let lost = (0..STEP * STEPS.len()).map(|packet| rng.chance(STEPS[packet / STEP].0));
    Network { loss: Loss::Trace(lost.collect()), ..network() }.plan(seed, TIME_LIMIT)
}

fn looks(mut built: Built<'_>) -> Vec<Look> {
    let [source, _] = built.transfers[0];
    let middle = network().middle(&built);
    let mut looks = Vec::new();
    loop {
        let next = built.world.now() + LOOK;
        built.world.run_until(next);
        let packets = built.world.port_counters(middle).sent.total().packets;
        let packets = usize::try_from(packets).unwrap_or(usize::MAX);
        if packets >= STEP * STEPS.len() || next > built.end() {
            return looks;
        }
        if let Some(layer) = built.world.coding(source) {
            looks.push(Look { at: next, packets, loss: layer.loss, window: layer.window });
        }
    }
}

fn outcome(looks: &[Look]) -> Outcome {
    let mut outcome = Vec::new();
    for (step, (_, loss, window)) in STEPS.into_iter().enumerate() {
        let settled = looks.iter().filter(|look| look.settled_in() == Some(step));
        let (mut count, mut losses, mut windows) = (0_u32, 0.0, 0.0);
        for look in settled {
            count += 1;
            losses += look.loss;
            windows += look.window as f64;
        }
        let count = f64::from(count.max(1));
        outcome.push(exact(loss, losses / count));
        outcome.push(exact(window, windows / count));
    }
    outcome
}

/// The metric that a column of the table shows, and a factor for it.
type Column = fn(&Step) -> (Metric, f64);

fn judge(runs: &Runs<Steps>) -> Finding {
    let config = tcpnc::Config::default();
    let ideal = |loss| redundancy::window(config.extra, loss, config.target, config.max_window);
    let (share, floor) = CLOSE;
    let checks = STEPS.map(|(loss, estimated, _)| {
        let (estimate, off) = (runs.at(&Steps, estimated), (share * loss).max(floor));
        let what =
            format!("{} loss is estimated as {} %", percent(loss), mean(&estimate.times(100.0)));
        Check::new(what, estimate.within([loss - off, loss + off]))
    });
    let points = STEPS.iter().zip(1_u8..).map(|((loss, estimated, _), step)| Point {
        limit: Some(loss * 100.0),
        sessions: Some(1),
        ..Point::new(
            Scheme::TcpNc.line(),
            (f64::from(step), "step"),
            (runs.at(&Steps, estimated).times(100.0), PERCENT),
        )
    });
    let columns: [(&str, Column); 2] = [
        ("estimate, %", |(_, estimated, _)| (*estimated, 100.0)),
        ("n chosen, mean", |(_, _, window)| (*window, 1.0)),
    ];
    let rows = named(STEPS, |(loss, ..)| format!("{}, n = {}", percent(loss), ideal(loss)));
    let title = "How TCP/NC follows a loss rate that changes";
    let table = Table::new(title, ("Loss, and the right n", columns), rows, |of, step| {
        let (metric, factor) = of(&step);
        runs.at(&Steps, metric).times(factor)
    });
    let measured =
        format!("close is {} of the loss, and at least {}.", percent(share), percent(floor));
    Finding {
        points: points.collect(),
        figures: vec![figure(runs)],
        tables: vec![table],
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

/// The estimate over time, in the run with the first seed.
fn figure(runs: &Runs<Steps>) -> Figure {
    let seed = runs.first_seed(&Steps);
    let looks = plan(seed).build(seed).map(looks).unwrap_or_default();
    let line = |value: &dyn Fn(&Look) -> f64| {
        looks.iter().map(|look| Mark::exact(look.at.as_secs_f64(), value(look))).collect::<Vec<_>>()
    };
    let true_loss = |look: &Look| STEPS[(look.packets / STEP).min(STEPS.len() - 1)].0 * 100.0;
    Figure::new("nc-lre", "The loss rate that TCP/NC estimates while the true one changes")
        .under("One session on the paper's topology, one run")
        .over(Axis::linear("Time", "s"))
        .up(Axis::linear("Loss of the middle link", PERCENT))
        .with(vec![
            Series::new("true loss", Ink::Limit, line(&true_loss)),
            Series::new("estimate", Ink::Trace(0), line(&|look| look.loss * 100.0)),
        ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_has_to_follow_every_step() {
        let verdict = |runs, off: f64| {
            let measured = STEPS.map(|(loss, estimated, _)| (estimated, loss * off)).to_vec();
            judge(&Runs::made_up([Steps], runs, |_| measured.clone())).verdict
        };

        assert_eq!([verdict(3, 1.1), verdict(3, 1.3)], [Verdict::Reproduced, Verdict::Differs]);
        assert_eq!(verdict(1, 1.1), Verdict::Undecided);
    }
}

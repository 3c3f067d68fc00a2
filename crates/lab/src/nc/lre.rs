//! Whether TCP/NC's loss rate and coding window follow a loss that changes.

use std::time::Duration;

use proto::rng::Rng;
use proto::tcpnc::{self, redundancy};
use proto::time::Time;
use sim::channel::Loss;

use super::network::Network;
use super::{GROUP, PERCENT, Scheme, assumptions, grid};
use crate::claim::{Cell, Claim, Finding, Metric, Outcome, Point, Results, Table, Verdict};
use crate::figure::{Axis, Figure, Ink, Mark, Series};
use crate::runner;
use crate::stats::{Estimate, Observation};
use crate::words::{mean, percent};

/// A loss, and what is measured while it lasts: the estimate, and the window taken from it.
const STEPS: [(f64, Metric, Metric); 4] = [
    (0.05, "loss 1", "window 1"),
    (0.20, "loss 2", "window 2"),
    (0.10, "loss 3", "window 3"),
    (0.02, "loss 4", "window 4"),
];
/// Packets on the link before the next loss.
const STEP: usize = 6_000;
const LOOK: Duration = Duration::from_millis(500);
/// Later, a run counts as it is.
const TIME_LIMIT: Duration = Duration::from_secs(1_000);
/// How far off an estimate may be: a share of the loss, and at least so much.
const CLOSE: (f64, f64) = (0.25, 0.01);

/// An estimate at a time.
struct Look {
    at: Time,
    /// Packets that the link had carried.
    packets: usize,
    loss: f64,
    window: usize,
}

impl Look {
    /// The step that it is in, once half of that is over.
    fn settled_in(&self) -> Option<usize> {
        (self.packets % STEP >= STEP / 2).then_some(self.packets / STEP)
    }
}

pub(super) fn claim() -> Claim {
    Claim {
        id: "nc-lre",
        group: GROUP,
        text: "with k = 3 and the largest n for which a coding window survives with 0.9, TCP/NC follows \
               the loss rate of the link on line",
        source: "section II-B, equation (2)",
        cells: || vec![Cell::new(name(), |seed| outcome(&looks(seed)))],
        judge,
    }
}

fn name() -> String {
    format!("lre {:?}", scenario())
}

fn scenario() -> Network {
    grid::scenario(Scheme::TcpNc, 1, 0.0)
}

fn looks(seed: u64) -> Vec<Look> {
    let mut rng = Rng::stream(seed, "steps");
    let lost = (0..STEP * STEPS.len()).map(|packet| rng.chance(STEPS[packet / STEP].0));
    let mut built = Network { loss: Loss::Trace(lost.collect()), ..scenario() }.build(seed);
    let source = built.flows[0].from;
    let mut looks = Vec::new();
    loop {
        let next = built.world.now() + LOOK;
        built.world.run_until(next);
        let packets = built.packets_on_middle();
        if packets >= STEP * STEPS.len() || next > Time::ZERO + TIME_LIMIT {
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
        outcome.push((loss, Observation::Exact(losses / count)));
        outcome.push((window, Observation::Exact(windows / count)));
    }
    outcome
}

fn judge(results: &Results) -> Finding {
    let config = tcpnc::Config::default();
    let ideal = |loss| redundancy::window(config.extra, loss, config.target, config.max_window);
    let estimate = |metric| -> Estimate { results.estimate(&name(), metric) };
    let mut points = Vec::new();
    let mut rows = Vec::new();
    let mut off = Vec::new();
    for (step, (loss, estimated, window)) in STEPS.into_iter().enumerate() {
        let (y, window) = (estimate(estimated), estimate(window));
        if (y.mean - loss).abs() > (CLOSE.0 * loss).max(CLOSE.1) {
            off.push(format!("{} is taken for {}", percent(loss), percent(y.mean)));
        }
        rows.push(vec![
            percent(loss),
            mean(&y.times(100.0)),
            ideal(loss).to_string(),
            mean(&window),
        ]);
        points.push(Point {
            series: "tcpnc".to_owned(),
            x: step as f64 + 1.0,
            x_unit: "step",
            y: y.times(100.0),
            y_unit: PERCENT,
            limit: Some(loss * 100.0),
            sessions: Some(1),
            limit2: None,
            cell: None,
        });
    }
    let (share, floor) = CLOSE;
    let close = format!("{} of the loss, and at least {}", percent(share), percent(floor));
    let listed = rows.iter().map(|row| format!("{} for {}", row[1], row[0]));
    let windows = rows.iter().map(|row| format!("{} for {}", row[3], row[2]));
    let runs = points.first().map_or(0, |point| point.y.runs);
    Finding {
        verdict: if off.is_empty() { Verdict::Reproduced } else { Verdict::Differs },
        measured: format!(
            "estimates, in %, once half of a step is over: {}; windows: {}. {runs} runs.",
            listed.collect::<Vec<_>>().join(", "),
            windows.collect::<Vec<_>>().join(", "),
        ),
        reason: if off.is_empty() {
            format!("every estimate is within {close}")
        } else {
            format!("not within {close}: {}", off.join(", "))
        },
        figures: vec![figure()],
        tables: vec![Table {
            title: "What TCP/NC makes of a loss that changes".to_owned(),
            head: ["Loss", "estimate, %", "n for that loss", "n taken, mean"]
                .map(str::to_owned)
                .to_vec(),
            rows,
        }],
        points,
        exchanges: Vec::new(),
        assumptions: assumptions(),
    }
}

/// The estimate over time, in the run with the first seed.
fn figure() -> Figure {
    let looks = looks(runner::seed(&name(), 0));
    let line = |value: &dyn Fn(&Look) -> f64| {
        looks.iter().map(|look| Mark::exact(look.at.as_secs_f64(), value(look))).collect()
    };
    let true_loss = |look: &Look| STEPS[(look.packets / STEP).min(STEPS.len() - 1)].0 * 100.0;
    Figure {
        name: "nc-lre".to_owned(),
        title: "The loss rate that TCP/NC estimates while the true one changes".to_owned(),
        subtitle: "One session on the paper's topology, one run".to_owned(),
        x: Axis::linear("Time", "s"),
        y: Axis::linear("Loss of the middle link", PERCENT),
        series: vec![
            Series { name: "true loss".to_owned(), ink: Ink::Limit, marks: line(&true_loss) },
            Series {
                name: "estimate".to_owned(),
                ink: Ink::Trace(0),
                marks: line(&|look| look.loss * 100.0),
            },
        ],
        note: String::new(),
    }
}

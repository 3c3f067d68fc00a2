//! The best initial timeout where needlines fail: figure 2.

use super::brigade::{self, Assumed, M, Tcp, Trial, value};
use super::initial::TUNED;
use super::{GROUP, RUNS, assumptions};
use crate::prelude::*;

/// How many of all packets each needline loses.
const FAILURES: [f64; 7] = [0.0, 0.02, 0.05, 0.075, 0.10, 0.15, 0.20];
/// Up to here m has a clear best; beyond it hardly differs.
const CLEAR: f64 = 0.10;
/// Initial timeouts, in seconds.
const INITIAL: [f64; 9] = [3.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 90.0];
/// m at each of them, by the mean of all in the same run.
const SHARES: [Metric; 9] = [
    "m at 3 s",
    "m at 5 s",
    "m at 10 s",
    "m at 15 s",
    "m at 20 s",
    "m at 30 s",
    "m at 40 s",
    "m at 60 s",
    "m at 90 s",
];
/// The timeout with the largest m in a run.
const LARGEST: Metric = "largest";
/// What else may be assumed.
const ASSUMED: [Assumed; 7] = [
    Assumed::Usual,
    Assumed::Standard,
    Assumed::Forgiving,
    Assumed::Bursts,
    Assumed::Tree,
    Assumed::Scattered,
    Assumed::Together,
];
pub const CLAIM: Claim = Claim {
    id: "tac-failure",
    group: GROUP,
    text: "the best initial RTO falls as the failure rate rises",
    source: "section 3.4, figure 2",
    experiment: || Experiment::new(sweeps(), judge),
};

/// All initial timeouts with the same chance.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sweep {
    failure: f64,
    assumed: Assumed,
}

fn sweeps() -> Vec<Sweep> {
    let usual = FAILURES.map(|failure| Sweep { failure, assumed: Assumed::Usual });
    let of = |assumed: &Assumed| Sweep { failure: CLEAR, assumed: *assumed };
    usual.into_iter().chain(ASSUMED[1..].iter().map(of)).collect()
}

impl Sweep {
    fn run(self, seed: u64) -> Outcome {
        let m = INITIAL.map(|initial| {
            let trial = Trial::new(Tcp { initial, ..TUNED });
            let trial = trial.failing(self.failure).with(self.assumed);
            let plan = trial.plan(seed);
            value(&trial.measure(plan.build(seed).expect("all have needlines")), M)
        });
        let all = m.iter().sum::<f64>() / m.len() as f64;
        let (best, _) = best(INITIAL.into_iter().zip(m));
        let shares = SHARES.into_iter().zip(m).map(|(name, m)| (name, m / all));
        let outcome = shares.chain([(LARGEST, best)]);
        outcome.map(|(metric, value)| exact(metric, value)).collect()
    }
}

/// Where the parabola through ln y over ln x, by least squares, is the highest of all `x`.
fn vertex(x: &[f64], y: &[f64]) -> f64 {
    let [x, y] = [x, y].map(|all| all.iter().map(|it| it.max(f64::MIN_POSITIVE).ln()));
    let (x, y): (Vec<f64>, Vec<f64>) = (x.collect(), y.collect());
    let (n, middle) = (x.len() as f64, x.iter().sum::<f64>() / x.len() as f64);
    let first: Vec<f64> = x.iter().map(|x| x - middle).collect();
    let sum = |power: i32| first.iter().map(|it| it.powi(power)).sum::<f64>();
    let skew = sum(3) / sum(2);
    // Orthogonal to the line and to what is constant.
    let second: Vec<f64> = first.iter().map(|it| it * it - skew * it - sum(2) / n).collect();
    let fit = |basis: &[f64]| {
        let products = basis.iter().zip(&y).map(|(basis, y)| basis * y).sum::<f64>();
        products / basis.iter().map(|it| it * it).sum::<f64>()
    };
    let (slope, bend) = (fit(&first), fit(&second));
    let [least, most] = extremes(x.iter().copied());
    let at = if bend < 0.0 {
        middle + (skew - slope / bend) / 2.0
    } else if slope > 0.0 {
        most
    } else {
        least
    };
    at.clamp(least, most).exp()
}

impl Place for Sweep {
    fn cell(&self) -> Cell {
        let sweep = *self;
        let name = brigade::name(self.failure, self.assumed).word("all-initial-rto");
        Cell::new(name, brigade::DRAWS, move |seed| sweep.run(seed)).at_most(RUNS)
    }
}

impl Drawn for Sweep {
    fn line(&self) -> Line {
        Line::new("optimum", "best initial RTO", Ink::Paper)
    }

    fn x(&self) -> (f64, &'static str) {
        (100.0 * self.failure, "%")
    }
}

/// The logarithm of the best initial timeout: the vertex of the parabola through the means of ln m over its logarithm,
/// since single points of a flat curve are chance. The interval combines the shifts of the vertex when each mean moves
/// by its own interval; it is that of the logarithm, since a timeout is varied in ratios and never below zero.
fn optimum(runs: &Runs<Sweep>, sweep: &Sweep) -> Estimate {
    let all = SHARES.map(|share| runs.at(sweep, share));
    let means = all.map(|it| it.mean);
    let best = vertex(&INITIAL, &means);
    let squares = all.iter().enumerate().map(|(place, it)| {
        let mut moved = means;
        moved[place] += it.ci95?;
        Some(libm::log(vertex(&INITIAL, &moved) / best).powi(2))
    });
    let squares: Option<f64> = squares.sum();
    let ci95 = squares.map(f64::sqrt);
    Estimate { mean: libm::log(best), ci95, runs: all[0].runs, ..Estimate::UNKNOWN }
}

fn judge(runs: &Runs<Sweep>) -> Finding {
    let at = |failure, assumed| optimum(runs, &Sweep { failure, assumed });
    let usual = |failure| at(failure, Assumed::Usual);
    let pairs = [(0.0, 0.02), (0.0, 0.05), (0.0, 0.075), (0.0, CLEAR), (0.02, CLEAR)];
    let checks = pairs.map(|(few, more)| {
        let what = format!(
            "the optimum is {} s at {} failures, {} s at {}",
            mean(&usual(more).exp()),
            percent(more),
            mean(&usual(few).exp()),
            percent(few)
        );
        Check::new(what, usual(more).below(&usual(few)))
    });
    let told = FAILURES.map(|it| format!("{} s at {}", mean(&usual(it).exp()), percent(it)));
    let measured = format!("{}.", told.join(", "));
    let drawn = runs.places().iter().filter(|it| it.assumed == Assumed::Usual);
    let points: Vec<Point> =
        drawn.map(|it| runs.point(it, LARGEST, (optimum(runs, it).exp(), "s"))).collect();
    let figure =
        Figure::of(&points, "tac-failure", "The best initial timeout where needlines fail")
            .under("The initial RTO where m is largest, by a parabola through the means")
            .over(Axis::linear("Packets that each needline loses", "%"))
            .up(Axis::linear("Initial RTO", "s"));
    let columns = INITIAL.into_iter().map(|it| format!("{it} s")).zip(SHARES);
    let curves = Table::new(
        "m by the mean over all initial RTOs of the same run",
        ("failures", columns.chain([("best of these, s".to_owned(), LARGEST)])),
        named(FAILURES, percent),
        |metric, failure| runs.at(&Sweep { failure, assumed: Assumed::Usual }, metric),
    );
    let others = Table::new(
        "What else may be assumed: the best initial RTO, s",
        ("assumed", named([CLEAR], percent)),
        named(ASSUMED, Assumed::title),
        |failure, assumed| at(failure, assumed).exp(),
    );
    Finding {
        figures: vec![figure],
        tables: vec![curves, others],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_optimum_must_fall() {
        let verdict = |runs, of: fn(f64) -> f64| {
            let runs = Runs::made_up(sweeps(), runs, |it| {
                let share = |initial: f64| 2.0 - (initial / of(it.failure)).ln().powi(2) / 9.0;
                SHARES.into_iter().zip(INITIAL.map(share)).collect()
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(3, |failure| 40.0 - 100.0 * failure), Verdict::Reproduced);
        assert_eq!(verdict(3, |_| 40.0), Verdict::Differs);
        assert_eq!(verdict(1, |failure| 40.0 - 100.0 * failure), Verdict::Undecided);
    }

    /// One run says 1 of all timeouts alike, the next falls or rises with them: the vertex may be anywhere.
    #[test]
    fn no_interval_of_an_optimum_reaches_below_zero() {
        let runs = Runs::observed(sweeps(), 4, |_, run| {
            let tilt = f64::from(run) - 1.5;
            let share = |initial: f64| (0.3 * tilt * (initial / 20.0).ln()).exp();
            let share = |initial| Observation::Exact(share(initial));
            SHARES.into_iter().zip(INITIAL.map(share)).collect()
        });

        let finding = judge(&runs);

        for point in &finding.points {
            assert!(0.0 < point.y.low() && point.y.low() < point.y.mean, "{point:?}");
        }
        let marks = finding.figures[0].series.iter().flat_map(|series| &series.marks);
        assert!(marks.filter_map(|mark| mark.interval).all(|[low, _]| low > 0.0));
    }

    #[test]
    fn the_vertex_is_where_a_parabola_is_highest_or_an_end() {
        let of = |shape: fn(f64) -> f64| {
            let y: Vec<f64> = INITIAL.iter().map(|x| shape(x.ln()).exp()).collect();
            vertex(&INITIAL, &y)
        };

        assert!((of(|x| 3.0 - (x - 20.0_f64.ln()).powi(2)) - 20.0).abs() < 1e-9);
        assert!((of(|x| 3.0 - 0.2 * (x - 200.0_f64.ln()).powi(2)) - 90.0).abs() < 1e-9);
        assert!((of(|x| x * x) - 90.0).abs() < 1e-9);
        assert!((of(|x| (x - 6.0).powi(2)) - 3.0).abs() < 1e-9);
    }
}

//! TCP's patience before it warns and before it gives up, where needlines fail: figures 3 and 4.

use super::brigade::{
    Assumed, BESIDE, C2_COMPLETION, C2_DELAY, DELAY, GIVEN_UP, M, M_UNIT, RATE, Tcp, Trial,
};
use super::initial::TUNED;
use super::{COMPLETION, GROUP, assumptions};
use crate::prelude::*;

/// R1, and R2 in seconds.
const PAIRS: [(u32, f64); 4] = [(2, 80.0), (3, 160.0), (3, 240.0), (4, 320.0)];
/// The paper's initial timeout, which doubles to 80, 160 and 320 s.
const INITIAL: f64 = 20.0;
const FAILURES: [f64; 7] = [0.0, 0.01, 0.02, 0.05, 0.10, 0.15, 0.20];
/// Below this pairs hardly differ.
const FEW: f64 = 0.05;
/// From here on one is to be the best.
const MANY: f64 = 0.10;
/// What hardly differs.
const HARDLY: [f64; 2] = [0.83, 1.2];
/// What else may be assumed, at the rate of [`MANY`].
const ASSUMED: [Assumed; 8] = [
    Assumed::Usual,
    Assumed::Standard,
    Assumed::Forgiving,
    Assumed::Bursts,
    Assumed::Ring,
    Assumed::Tree,
    Assumed::Scattered,
    Assumed::Hello(30),
];

pub const CLAIM: Claim = Claim {
    id: "tac-r1r2",
    group: GROUP,
    text: "with an initial RTO of 20 s (R1, R2) = (2, 80 s) is better than (3, 160 s), (3, 240 s) and (4, 320 s) in m and in \
           delay; below 5 % failures they hardly differ",
    source: "section 3.4, figures 3 and 4",
    experiment: || Experiment::new(trials(), judge),
};

fn tcp((r1, r2): (u32, f64)) -> Tcp {
    Tcp { initial: INITIAL, r1, r2, ..TUNED }
}

fn trial(pair: (u32, f64), failure: f64, assumed: Assumed) -> Trial {
    Trial::new(tcp(pair)).failing(failure).with(assumed).beside(tcp(PAIRS[0]))
}

fn trials() -> Vec<Trial> {
    let of = |failure| PAIRS.map(|pair| trial(pair, failure, Assumed::Usual));
    let aside = |assumed: &Assumed| PAIRS.map(|pair| trial(pair, MANY, *assumed));
    FAILURES.into_iter().flat_map(of).chain(ASSUMED[1..].iter().flat_map(aside)).collect()
}

fn title((r1, r2): (u32, f64)) -> String {
    format!("R1 = {r1}, R2 = {r2} s")
}

fn line(pair: (u32, f64)) -> Line {
    let ink = match PAIRS.iter().position(|it| *it == pair) {
        Some(0) => Ink::Default,
        Some(1) => Ink::Paper,
        Some(2) => Ink::Tcp,
        _ => Ink::Other(0),
    };
    Line::new(format!("{}-{}", pair.0, pair.1), title(pair), ink)
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let at = |pair, failure, metric| runs.at(&trial(pair, failure, Assumed::Usual), metric);
    let mut checks = Vec::new();
    for pair in &PAIRS[1..] {
        for failure in FAILURES {
            let by = at(*pair, failure, BESIDE);
            let what =
                format!("{} at {}: m {by} by that of the first", title(*pair), percent(failure));
            if failure < FEW {
                checks.push(Check::new(what, by.within(HARDLY)));
            } else if failure >= MANY {
                checks.push(Check::new(what, by.below(&Estimate::exact(1.0))));
                let [first, other] = [PAIRS[0], *pair].map(|pair| at(pair, failure, DELAY));
                let what = format!(
                    "{} at {}: delay {other} s, of the first {first} s",
                    title(*pair),
                    percent(failure)
                );
                checks.push(Check::new(what, first.below(&other)));
            }
        }
    }
    let told = PAIRS.map(|pair| {
        let of = |metric| number(at(pair, MANY, metric).mean);
        let [m, delay, share, rate] = [M, DELAY, COMPLETION, RATE].map(of);
        format!(
            "{} m {m} {M_UNIT}, delay {delay} s, {share} % complete, TCP {rate} bit/s",
            title(pair)
        )
    });
    let measured = format!("At {}: {}.", percent(MANY), told.join("; "));
    let of = |metric, unit| points(runs, metric, unit);
    let (m, delay) = (of(M, M_UNIT), of(DELAY, "s"));
    let other = [
        (COMPLETION, "%"),
        (RATE, "bit/s"),
        (GIVEN_UP, "connections"),
        (C2_COMPLETION, "%"),
        (C2_DELAY, "s"),
    ];
    let mut tables =
        vec![Table::of(format!("m, {M_UNIT}"), &m), Table::of("Delay, s".to_owned(), &delay)];
    tables.extend(other.map(|(it, unit)| Table::of(format!("{it}, {unit}"), &of(it, unit))));
    tables.push(others(runs));
    Finding {
        figures: vec![
            figure(&m, "tac-r1r2", "m where needlines fail", Axis::log("m = c/(d t)", M_UNIT)),
            figure(
                &delay,
                "tac-r1r2-delay",
                "Delay where needlines fail",
                Axis::linear("Delay", "s"),
            ),
        ],
        tables,
        points: m.into_iter().chain(delay).collect(),
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

fn points(runs: &Runs<Trial>, metric: Metric, unit: &'static str) -> Vec<Point> {
    let named = |pair| {
        let line = line(pair);
        Line { series: format!("{metric}, {}", line.series), ..line }
    };
    let usual = |pair, failure| trial(pair, failure, Assumed::Usual);
    Sweep::new(runs, (PAIRS, named), (FAILURES, |it| 100.0 * it, "%"), usual).points(metric, unit)
}

fn figure(points: &[Point], name: &str, what: &str, y: Axis) -> Figure {
    let x = Axis::linear("Packets that each needline loses", "%");
    Figure::of(points, name, what).under("Initial RTO 20 s, BGP over TCP").over(x).up(y)
}

fn others(runs: &Runs<Trial>) -> Table {
    let what = format!("What else may be assumed: m by that of the first, at {}", percent(MANY));
    let rows = named(ASSUMED, Assumed::title);
    Table::new(what, ("assumed", named(PAIRS, title)), rows, |pair, assumed| {
        runs.at(&trial(pair, MANY, assumed), BESIDE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pair_must_be_the_best_where_much_is_lost_and_like_others_elsewhere() {
        let verdict = |runs, few: f64, many: f64, later: f64| {
            let runs = Runs::made_up(trials(), runs, |trial| {
                let is_first = trial.tcp.r1 == 2;
                let worse = if trial.failure < FEW { few } else { many };
                let (by, delay) = if is_first { (1.0, 1.0) } else { (worse, later) };
                vec![(M, by), (BESIDE, by), (DELAY, 40.0 * delay)]
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(3, 0.97, 0.5, 2.0), Verdict::Reproduced);
        assert_eq!(verdict(3, 0.6, 0.5, 2.0), Verdict::Differs);
        assert_eq!(verdict(3, 0.97, 1.5, 2.0), Verdict::Differs);
        assert_eq!(verdict(3, 0.97, 0.5, 0.9), Verdict::Differs);
        assert_eq!(verdict(1, 0.97, 0.5, 2.0), Verdict::Undecided);
    }
}

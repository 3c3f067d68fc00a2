//! The parameters of TCP that matter on a brigade's needlines, without failures: figure 1.
//!
//! Parameters are varied one after the other, and the best value of each is kept for the next.

use super::brigade::{Assumed, BESIDE, DELAY, M, M_UNIT, RATE, Tcp, Trial};
use super::{COMPLETION, GROUP, assumptions};
use crate::prelude::*;

/// Initial timeouts, in seconds.
const INITIAL: [f64; 16] =
    [1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 50.0, 60.0, 80.0, 120.0];
/// Fewer values, for runs with other assumptions.
const FEW: [f64; 5] = [1.0, 5.0, 20.0, 35.0, 120.0];
/// The paper's optimum, in seconds.
const OPTIMUM: f64 = 35.0;
/// Below this a timeout is clearly too short.
const SHORT: f64 = 20.0;
/// What "about 4" and "about 1" may be, where 2 is between them.
const ABOUT_FOUR: [f64; 2] = [2.8, 5.7];
const ABOUT_ONE: f64 = 1.41;
/// The least ratio that counts as equal to the best.
const AS_GOOD: f64 = 0.98;
/// The best values, each kept for the following experiments; the claim's verdict confirms that they are the best.
pub const TUNED: Tcp =
    Tcp { a: 1.0 / 32.0, b: 1.0 / 32.0, c: 8.0, ack_delay: 10.0, ..Tcp::STANDARD };

/// A parameter that is varied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Parameter {
    Initial,
    A,
    B,
    C,
    AckDelay,
}

/// In the order of the paper.
const PARAMETERS: [Parameter; 5] =
    [Parameter::Initial, Parameter::A, Parameter::B, Parameter::C, Parameter::AckDelay];
/// What else may be assumed of the net.
const ASSUMED: [Assumed; 13] = [
    Assumed::Usual,
    Assumed::Speakers(6),
    Assumed::Speakers(9),
    Assumed::Speakers(16),
    Assumed::Ring,
    Assumed::Tree,
    Assumed::Scattered,
    Assumed::Hello(10),
    Assumed::Messages(60),
    Assumed::Messages(960),
    Assumed::Together,
    Assumed::Framed,
    Assumed::WithoutSlots,
];

impl Parameter {
    fn title(self) -> &'static str {
        match self {
            Self::Initial => "initial RTO",
            Self::A => "a, gain of the mean",
            Self::B => "b, gain of the deviation",
            Self::C => "c, coefficient of the deviation",
            Self::AckDelay => "ACK delay",
        }
    }

    fn values(self) -> &'static [f64] {
        match self {
            Self::Initial => &INITIAL,
            Self::A | Self::B => &[1.0 / 32.0, 1.0 / 16.0, 0.125, 0.25, 0.5],
            Self::C => &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0],
            Self::AckDelay => &[0.0, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0],
        }
    }

    fn of(self, tcp: &mut Tcp) -> &mut f64 {
        match self {
            Self::Initial => &mut tcp.initial,
            Self::A => &mut tcp.a,
            Self::B => &mut tcp.b,
            Self::C => &mut tcp.c,
            Self::AckDelay => &mut tcp.ack_delay,
        }
    }

    /// The base TCP for varying this parameter: the parameters before it have their best values.
    fn base(self) -> Tcp {
        let mut tcp = Tcp::STANDARD;
        for before in PARAMETERS.into_iter().take_while(|it| *it != self) {
            let mut tuned = TUNED;
            *before.of(&mut tcp) = *before.of(&mut tuned);
        }
        tcp
    }

    /// The best value that was found.
    fn tuned(self) -> f64 {
        let mut tuned = TUNED;
        *self.of(&mut tuned)
    }

    /// A run with a value of the parameter, beside a run with its best value.
    fn trial(self, value: f64) -> Trial {
        let (mut tcp, mut beside) = (self.base(), self.base());
        *self.of(&mut tcp) = value;
        *self.of(&mut beside) = self.tuned();
        Trial::new(tcp).beside(beside)
    }
}

pub const CLAIMS: [Claim; 2] = [
    Claim {
        id: "tac-initial-rto",
        group: GROUP,
        text: "without failures the initial RTO is the critical parameter of TCP: the largest m = c/(d t) over its values \
               is about 4 times the smallest, and about as large as the smallest over those of each gain, of the \
               deviation's coefficient, and of the ACK delay",
        source: "section 3.4, figure 1",
        experiment: || Experiment::new(all_trials(), judge),
    },
    Claim {
        id: "tac-optimum",
        group: GROUP,
        text: "without failures the best initial RTO is 35 s on needlines of 480 bit/s between 20 routers",
        source: "section 3.4, figure 1",
        experiment: || Experiment::new(trials(Parameter::Initial), judge_optimum),
    },
];

fn trials(parameter: Parameter) -> Vec<Trial> {
    parameter.values().iter().map(|value| parameter.trial(*value)).collect()
}

/// The trials of all parameters, and the trials with other assumptions.
fn all_trials() -> Vec<Trial> {
    let of = |assumed: &Assumed| FEW.map(|value| Parameter::Initial.trial(value).with(*assumed));
    let aside = ASSUMED[1..].iter().flat_map(of);
    PARAMETERS.into_iter().flat_map(trials).chain(aside).collect()
}

impl Drawn for Trial {
    fn line(&self) -> Line {
        Line::new("m", "m = c/(d t)", Ink::Paper)
    }

    fn x(&self) -> (f64, &'static str) {
        (self.tcp.initial, "s")
    }
}

fn besides(runs: &Runs<Trial>, trials: &[Trial]) -> Vec<Estimate> {
    trials.iter().map(|trial| runs.at(trial, BESIDE)).collect()
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let (mut checks, mut told, mut points, mut tables) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for parameter in PARAMETERS {
        let all = besides(runs, &trials(parameter));
        let spread = spread(&all);
        let title = parameter.title();
        let answer = match parameter {
            Parameter::Initial => spread.within(ABOUT_FOUR),
            _ => spread.at_most(ABOUT_ONE),
        };
        checks.push(Check::new(format!("{title}: largest by smallest {spread}"), answer));
        let best = all.iter().map(|it| it.mean).fold(f64::NAN, f64::max);
        let kept = Estimate::exact(1.0 / best);
        let what = format!("{title}: what is kept has {} of the best", number(kept.mean));
        checks.push(Check::new(what, kept.at_least(AS_GOOD)));
        told.push(format!("{title} {spread}"));
        let of = |value: &f64| {
            let y = (runs.at(&parameter.trial(*value), M), M_UNIT);
            let line = Line::new(title, title, Ink::Paper);
            let unit = match parameter {
                Parameter::Initial | Parameter::AckDelay => "s",
                Parameter::A | Parameter::B | Parameter::C => "",
            };
            Point::new(line, (*value, unit), y)
        };
        let drawn: Vec<Point> = parameter.values().iter().map(of).collect();
        if parameter != Parameter::Initial {
            tables.push(Table::of(format!("m over {title}, {M_UNIT}"), &drawn));
        }
        points.extend(drawn);
    }
    tables.insert(0, of_initial(runs));
    tables.push(sensitivity(runs));
    let measured = format!("The largest m by the smallest: {}.", told.join("; "));
    Finding {
        figures: vec![figure(runs)],
        tables,
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

/// What is behind m at each initial timeout.
fn of_initial(runs: &Runs<Trial>) -> Table {
    let columns =
        [(M_UNIT, M), ("completion, %", COMPLETION), ("delay, s", DELAY), ("TCP, bit/s", RATE)];
    let rows = named(INITIAL, |value| format!("{value} s"));
    Table::new("m and what it is made of", ("initial RTO", columns), rows, |metric, value| {
        runs.at(&Parameter::Initial.trial(value), metric)
    })
}

/// The claim under other assumptions.
fn sensitivity(runs: &Runs<Trial>) -> Table {
    let at = |value, assumed| runs.at(&Parameter::Initial.trial(value).with(assumed), BESIDE);
    let columns = FEW.map(|value| (format!("{value} s"), Some(value))).into_iter();
    let columns = columns.chain([("largest by smallest".to_owned(), None)]);
    let rows = named(ASSUMED, Assumed::title);
    let title = "What else may be assumed: m by that with an initial RTO of 35 s in the same run";
    Table::new(title, ("assumed", columns), rows, |value, assumed| match value {
        Some(value) => at(value, assumed),
        None => spread(&FEW.map(|value| at(value, assumed))),
    })
}

fn figure(runs: &Runs<Trial>) -> Figure {
    let drawn = trials(Parameter::Initial);
    let points: Vec<Point> =
        drawn.iter().map(|it| runs.point(it, M, (runs.at(it, M), M_UNIT))).collect();
    Figure::of(&points, "tac-initial-rto", "What the initial timeout is worth")
        .under("20 routers, needlines of 480 bit/s, no failures")
        .over(
            Axis::log("Initial RTO", "s")
                .with_ticks([1.0, 2.0, 5.0, 10.0, 20.0, 35.0, 60.0, 120.0]),
        )
        .up(Axis::linear("m = c/(d t)", M_UNIT))
}

fn judge_optimum(runs: &Runs<Trial>) -> Finding {
    let at = |value| runs.at(&Parameter::Initial.trial(value), BESIDE);
    let best = best(INITIAL.map(|value| (value, at(value).mean)));
    let by_best = at(OPTIMUM).over(&at(best.0));
    let near = INITIAL.into_iter().filter(|value| at(*value).mean >= AS_GOOD * best.1);
    let near: Vec<f64> = near.collect();
    let checks = [
        Check::new(
            format!("35 s has {by_best} of the best m, that at {} s", best.0),
            by_best.at_least(AS_GOOD),
        ),
        Check::new(
            format!("{SHORT} s has {} of that at 35 s", mean(&at(SHORT))),
            at(SHORT).at_most(AS_GOOD),
        ),
    ];
    let ends = near.first().zip(near.last()).map_or(String::new(), |(first, last)| {
        format!("From {first} to {last} s m is within 2 % of its best, that at {} s. ", best.0)
    });
    let measured = format!(
        "{ends}With {SHORT} s it has {} of what it has with 35 s, with 10 s {}.",
        mean(&at(SHORT)),
        mean(&at(10.0))
    );
    let points = runs.points(BESIDE, "that at 35 s", |_| true);
    Finding {
        tables: vec![Table::of("m by that with an initial RTO of 35 s in the same run", &points)],
        points,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in which each parameter but the first makes a difference of `others`, and the first one of `first`.
    fn made_up(runs: u32, first: f64, others: f64) -> Runs<Trial> {
        Runs::made_up(all_trials(), runs, |trial| {
            let short = trial.tcp.initial < 30.0;
            let is_tuned = trial.beside == Some(trial.tcp) || trial.tcp.initial != OPTIMUM;
            let m = if short { 1.0 / first } else { 1.0 } / if is_tuned { 1.0 } else { others };
            vec![(M, m), (BESIDE, m)]
        })
    }

    #[test]
    fn only_the_initial_timeout_may_be_critical() {
        let verdict = |runs, first, others| judge(&made_up(runs, first, others)).verdict;

        assert_eq!(verdict(3, 4.0, 1.1), Verdict::Reproduced);
        assert_eq!(verdict(3, 2.0, 1.1), Verdict::Differs);
        assert_eq!(verdict(3, 9.0, 1.1), Verdict::Differs);
        assert_eq!(verdict(3, 4.0, 1.6), Verdict::Differs);
        assert_eq!(verdict(3, 4.0, 0.9), Verdict::Differs, "what is kept must be the best");
        assert_eq!(verdict(1, 4.0, 1.1), Verdict::Undecided);
    }

    #[test]
    fn the_optimum_must_be_near_35_s() {
        let verdict = |best: f64| {
            let runs = Runs::made_up(trials(Parameter::Initial), 3, |trial| {
                vec![(BESIDE, (trial.tcp.initial.min(best) / best).max(0.1))]
            });
            judge_optimum(&runs).verdict
        };

        assert_eq!(verdict(35.0), Verdict::Reproduced);
        assert_eq!(verdict(60.0), Verdict::Differs);
        assert_eq!(verdict(15.0), Verdict::Differs);
    }

    #[test]
    fn each_parameter_is_varied_with_the_best_of_those_before() {
        let tcp = Parameter::C.base();

        assert_eq!((tcp.a, tcp.b), (TUNED.a, TUNED.b));
        assert_eq!((tcp.c, tcp.ack_delay), (Tcp::STANDARD.c, Tcp::STANDARD.ack_delay));
        assert!(PARAMETERS.into_iter().all(|it| it.values().contains(&it.tuned())));
    }
}

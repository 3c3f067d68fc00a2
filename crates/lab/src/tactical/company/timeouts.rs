//! The fixed timeouts that the comparison takes: the best of each carrier, on seeds of their own.

use super::trial::{Carrier, Purpose, Trial};
use super::{DELAY, PERCENT, SECONDS, TOLD, assumptions};
use crate::prelude::*;
use crate::tactical::GROUP;

/// The carriers whose timeout is chosen; the others take over what is.
const CARRIERS: [Carrier; 2] = [Carrier::Seed, Carrier::Tcp];
/// Seconds, in tenths.
const TIMEOUTS: [u16; 8] = [20, 30, 50, 70, 100, 150, 200, 400];
/// Light, middling and heavy load: messages an hour.
const HOURLY: [u16; 3] = [180, 720, 1_200];
/// Points in per cent: a completion this little below the best counts as equal.
const CLOSE: f64 = 1.0;
/// The same with the interval of the difference.
const SHORT: f64 = 1.5;
/// The greatest delay, as a ratio to the best delay among these timeouts.
const LATER: f64 = 1.1;

pub const CLAIM: Claim = Claim {
    id: "tac-sar-timeouts",
    group: GROUP,
    text: "the timeouts with which UDP with S/R and TCP are compared are the best of each: of those that complete most \
           messages, one with the least delay",
    source: "section 4.1, which does not say which they are",
    experiment: || Experiment::new(trials(), judge),
};

fn trial(carrier: Carrier, timeout: u16, hourly: u16) -> Trial {
    Trial { timeout, purpose: Purpose::Choose, ..Trial::new(carrier, hourly) }
}

fn trials() -> Vec<Trial> {
    let of = |carrier| TIMEOUTS.map(|timeout| HOURLY.map(|hourly| trial(carrier, timeout, hourly)));
    CARRIERS.into_iter().flat_map(of).flatten().collect()
}

/// The mean over all loads.
fn over_loads(runs: &Runs<Trial>, carrier: Carrier, timeout: u16, metric: Metric) -> Estimate {
    Estimate::mean_of(HOURLY.map(|hourly| runs.at(&trial(carrier, timeout, hourly), metric)))
}

fn seconds(timeout: u16) -> f64 {
    f64::from(timeout) / 10.0
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let mut checks = Vec::new();
    let mut told = Vec::new();
    for carrier in CARRIERS {
        let at = |timeout, metric| over_loads(runs, carrier, timeout, metric);
        let chosen = carrier.chosen();
        let complete = |timeout: &u16| at(*timeout, TOLD).mean;
        let most = TIMEOUTS.into_iter().max_by(|a, b| complete(a).total_cmp(&complete(b)));
        let most = most.unwrap_or(chosen);
        let name = carrier.title();
        let (own, best) = (at(chosen, TOLD), at(most, TOLD));
        checks.push(Check::new(
            format!(
                "{name}: {} s completes {own} %, {} s {best} %",
                seconds(chosen),
                seconds(most)
            ),
            if most == chosen { Answer::Yes } else { best.minus(&own).at_most(SHORT) },
        ));
        let close = TIMEOUTS.into_iter().filter(|it| complete(it) >= best.mean - CLOSE);
        let delay = |timeout: &u16| at(*timeout, DELAY).mean;
        let quick = close.min_by(|a, b| delay(a).total_cmp(&delay(b))).unwrap_or(chosen);
        let ratio = at(chosen, DELAY).over(&at(quick, DELAY));
        checks.push(Check::new(
            format!("{name}: its delay is {ratio} of that with {} s", seconds(quick)),
            if quick == chosen { Answer::Yes } else { ratio.at_most(LATER) },
        ));
        told.push(format!(
            "{name}: {} s, which completes {own} % in {} s",
            number(seconds(chosen)),
            mean(&at(chosen, DELAY))
        ));
    }
    let loads = "at 51, 205 and 341 bit/s of messages";
    let measured = format!("In the mean {loads}. {}.", told.join("; "));
    let light = |carrier, timeout| trial(carrier, timeout, HOURLY[0]);
    let line = |carrier| light(carrier, TIMEOUTS[0]).line();
    let sweep = Sweep::new(runs, (CARRIERS, line), (TIMEOUTS, seconds, SECONDS), light);
    let points = |metric, unit| {
        sweep.of(unit, |carrier, timeout| over_loads(runs, carrier, timeout, metric))
    };
    let (complete, delay) = (points(TOLD, PERCENT), points(DELAY, SECONDS));
    let ticks = || Axis::log("First timeout", SECONDS).with_ticks(TIMEOUTS.map(seconds));
    let subtitle = "128 octets in a net of 16 stations, mean of three loads";
    Finding {
        figures: vec![
            Figure::of(&complete, "tac-sar-timeouts", "Messages that are completed")
                .under(subtitle)
                .over(ticks())
                .up(Axis::linear("Completed", PERCENT)),
            Figure::of(&delay, "tac-sar-timeouts-delay", "How long messages take")
                .under(subtitle)
                .over(ticks())
                .up(Axis::log("Delay", SECONDS)),
        ],
        tables: vec![
            Table::of("Completed, in per cent", &complete),
            Table::of("Delay in seconds", &delay),
        ],
        points: complete.into_iter().chain(delay).collect(),
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_timeouts_must_be_the_best() {
        let verdict = |best: u16| {
            let runs = Runs::made_up(trials(), 3, |trial| {
                let off = f64::from(trial.timeout.abs_diff(trial.carrier.chosen().min(best)));
                vec![(TOLD, 95.0 - off), (DELAY, 5.0)]
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(400), Verdict::Reproduced);
        assert_eq!(verdict(20), Verdict::Differs);
    }

    #[test]
    fn they_are_chosen_by_other_chance_than_that_of_the_figures() {
        let (figure, choice) = (Trial::new(Carrier::Seed, 720), trials());
        let own = choice.iter().find(|it| it.timeout == 100 && it.hourly == 720).expect("it");

        assert_ne!(figure.cell().seed(0, 0), own.cell().seed(0, 0));
        let tcp = Trial::new(Carrier::Tcp, 720);
        assert_eq!(figure.cell().seed(0, 0), tcp.cell().seed(0, 0), "carriers share chance");
    }
}

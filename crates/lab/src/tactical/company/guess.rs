//! The influence of the first guess of a round trip.

use super::trial::{Carrier, Trial};
use super::{DELAY, MERIT, SECONDS, TOLD, TRANSMISSIONS, assumptions};
use crate::prelude::*;
use crate::tactical::GROUP;

/// Seconds, in tenths.
const GUESSES: [u16; 7] = [10, 20, 50, 100, 200, 400, 600];
/// Messages an hour.
const HOURLY: u16 = 360;
/// The best measure over the worst that is flat.
const FLAT: f64 = 1.3;
/// The least where the guess matters.
const STEEP: f64 = 3.0;
const CARRIERS: [Carrier; 3] = [Carrier::Seed, Carrier::Ours, Carrier::Tcp];

pub const CLAIM: Claim = Claim {
    id: "tac-sar-guess",
    group: GROUP,
    text: "(ours) with adaptive timeouts the first guess hardly matters: completion over delay and transmissions differs by less \
           than 1.3 over guesses from 1 to 60 s, with fixed timers by more than 3",
    source: "section 3.4 has 4 for TCP on EPLRS; section 5 asks for adaptive timeouts",
    experiment: || Experiment::new(trials(), judge),
};

fn guess(carrier: Carrier, timeout: u16) -> Trial {
    Trial { timeout, ..Trial::new(carrier, HOURLY) }
}

fn trials() -> Vec<Trial> {
    CARRIERS.into_iter().flat_map(|it| GUESSES.map(|timeout| guess(it, timeout))).collect()
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let seconds = |timeout| f64::from(timeout) / 10.0;
    let line = |carrier| guess(carrier, GUESSES[0]).line();
    let sweep = Sweep::new(runs, (CARRIERS, line), (GUESSES, seconds, SECONDS), guess);
    let [seed, ours, tcp] = CARRIERS.map(|carrier| sweep.spread(carrier, MERIT));
    let steep = if seed.low() >= STEEP { Answer::Yes } else { seed.at_least(STEEP) };
    let checks = [
        Check::new(format!("ours differs by {ours}"), ours.at_most(FLAT)),
        Check::new(format!("fixed timers differ by {seed}"), steep),
    ];
    let measured = format!(
        "The best measure over the worst: {seed} with fixed timers, {ours} with ours, {tcp} over TCP."
    );
    let merit = sweep.points(MERIT, "");
    let x = Axis::log("First guess of a round trip", SECONDS).with_ticks(GUESSES.map(seconds));
    let figure = Figure::of(&merit, "tac-sar-guess", "Completion over delay and transmissions")
        .under("128 octets, 102 bit/s, 16 stations")
        .over(x)
        .up(Axis::log("Completion / (delay x transmissions)", ""));
    Finding {
        figures: vec![figure],
        tables: vec![
            Table::of("Completion over delay and transmissions", &merit),
            Table::of("Completed, in per cent", &sweep.points(TOLD, "%")),
            Table::of("Delay in seconds", &sweep.points(DELAY, SECONDS)),
            Table::of("Transmissions for each message", &sweep.points(TRANSMISSIONS, "")),
        ],
        points: merit,
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_must_be_flat_and_the_fixed_steep() {
        let verdict = |ours: f64, fixed: f64| {
            let runs = Runs::made_up(trials(), 3, |trial| {
                let most = if trial.carrier == Carrier::Seed { fixed } else { ours };
                vec![(MERIT, if trial.timeout == GUESSES[3] { most } else { 1.0 })]
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(1.2, 4.0), Verdict::Reproduced);
        assert_eq!(verdict(1.5, 4.0), Verdict::Differs);
        assert_eq!(verdict(1.2, 2.0), Verdict::Differs);
    }
}

//! Messages to all other stations at once: stations note who has which message, and send coded repairs.

use super::trial::{Carrier, Site, Trial};
use super::{DELAY, NINE, REPEATS, TOLD, TRANSMISSIONS, assumptions, pair};
use crate::prelude::*;
use crate::tactical::{COMPLETION, GROUP};

/// Octets of a message: ten segments.
const OCTETS: u16 = 4_960;
/// Messages an hour.
const HOURLY: u16 = 6;
/// Stations: one that sends, and sixteen.
const STATIONS: u8 = 17;
/// Loss at each station, in per cent.
const LOSSES: [u8; 3] = [2, 10, 20];
const CARRIERS: [Carrier; 3] = [Carrier::Seed, Carrier::Ours, Carrier::Coded];
/// Points in per cent that are no loss.
const NO_LOSS: f64 = 3.0;

pub const CLAIM: Claim = Claim {
    id: "tac-sar-group",
    group: GROUP,
    text: "(asked for by the paper) a directed broadcast for which it is noted who has what completes more than sending \
           everything again; with repairs, each of which serves stations that lost different segments, fewer are sent again",
    source: "section 5",
    experiment: || Experiment::new(trials(), judge),
};

fn to_all(carrier: Carrier, loss: u8) -> Trial {
    Trial::new(carrier, HOURLY).of(OCTETS).at(Site::ToAll { stations: STATIONS, loss })
}

fn trials() -> Vec<Trial> {
    CARRIERS.into_iter().flat_map(|it| LOSSES.map(|loss| to_all(it, loss))).collect()
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let at = |carrier, loss, metric| runs.at(&to_all(carrier, loss), metric);
    let mut checks = Vec::new();
    for loss in LOSSES {
        let [seed, ours, _] = CARRIERS.map(|carrier| at(carrier, loss, TOLD));
        let what = format!(
            "with {loss} % loss {} % are completed by sending all again and ours",
            pair(&seed, &ours)
        );
        checks.push(Check::new(what, seed.below(&ours)));
    }
    let both =
        |loss, metric| [Carrier::Ours, Carrier::Coded].map(|carrier| at(carrier, loss, metric));
    let gain = Estimate::mean_of(LOSSES.map(|loss| {
        let [ours, coded] = both(loss, TOLD);
        coded.minus(&ours)
    }));
    let what = format!("repairs complete {gain} points more");
    checks.push(Check::new(what, gain.at_least(-NO_LOSS)));
    let ratio = Estimate::mean_of(LOSSES.map(|loss| {
        let [ours, coded] = both(loss, REPEATS);
        coded.over(&ours)
    }));
    let what = format!("with them {ratio} times as many segments are sent again, repairs included");
    checks.push(Check::new(what, ratio.below(&Estimate::exact(1.0))));
    let of =
        |metric: Metric, loss| CARRIERS.map(|carrier| mean(&at(carrier, loss, metric))).join(", ");
    let measured = format!(
        "All again, ours, ours with repairs: {}.",
        LOSSES
            .map(|loss| format!(
                "{loss} % loss: {} % completed, {} transmissions a message",
                of(TOLD, loss),
                of(TRANSMISSIONS, loss)
            ))
            .join("; ")
    );
    let line = |carrier| to_all(carrier, LOSSES[0]).line();
    let sweep = Sweep::new(runs, (CARRIERS, line), (LOSSES, f64::from, "%"), to_all);
    let table = |title: &str, metric| sweep.table(title, "loss", |it| format!("{it} %"), metric);
    Finding {
        tables: vec![
            table("Came, in per cent", COMPLETION),
            table("Came, and the sender was told, in per cent", TOLD),
            table("Segments sent again and repairs, for each message", REPEATS),
            table("Transmissions for each message", TRANSMISSIONS),
            table("Delay in seconds", DELAY),
            table("Until nine of ten came, in seconds", NINE),
        ],
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_must_complete_more_and_repairs_must_be_fewer() {
        let verdict = |told: f64, repairs: f64| {
            let runs = Runs::made_up(trials(), 3, |trial| match trial.carrier {
                Carrier::Seed => vec![(TOLD, 50.0), (REPEATS, 20.0)],
                Carrier::Ours => vec![(TOLD, told), (REPEATS, 10.0)],
                _ => vec![(TOLD, told), (REPEATS, repairs)],
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(90.0, 7.0), Verdict::Reproduced);
        assert_eq!(verdict(40.0, 7.0), Verdict::Differs);
        assert_eq!(verdict(90.0, 11.0), Verdict::Differs);
    }
}

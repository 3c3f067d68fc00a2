//! Our profile of S/R beside that with fixed timers, and TCP.

use super::rates::HOURLY;
use super::trial::{Carrier, Site, Trial};
use super::{DELAY, NINE, PERCENT, SECONDS, TOLD, TRANSMISSIONS, assumptions, pair, rate_axis};
use crate::prelude::*;
use crate::tactical::GROUP;

const CARRIERS: [Carrier; 3] = [Carrier::Seed, Carrier::Ours, Carrier::Tcp];
/// Points in per cent that are no loss.
const NO_LOSS: f64 = 0.5;
/// What may be later or more and is not worse.
const NOT_WORSE: f64 = 1.1;
/// Where nothing is to be gained: a station hardly ever has two messages, and nothing is lost.
const EASY: [(Site, u16, &str); 3] = [
    (Site::FastLink, 1_800, "a link of 1 Mbit/s"),
    (Site::ClearPair, 360, "two stations without loss"),
    (Site::Net(2), 360, "two stations"),
];
/// From this rate on fixed timers lose messages.
const LOADED: u16 = 720;

pub const CLAIM: Claim = Claim {
    id: "tac-sar-better",
    group: GROUP,
    text: "(asked for by the paper) S/R with adaptive timeouts and flow control completes more than with fixed timers, and is \
           not worse where there is nothing to gain",
    source: "section 5",
    experiment: || Experiment::new(trials(), judge),
};

fn trials() -> Vec<Trial> {
    let company = CARRIERS.into_iter().flat_map(|it| HOURLY.map(|hourly| Trial::new(it, hourly)));
    let easy = EASY
        .into_iter()
        .flat_map(|(site, hourly, _)| CARRIERS.map(|it| Trial::new(it, hourly).at(site)));
    company.chain(easy).collect()
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let at = |carrier, hourly, metric: Metric| runs.at(&Trial::new(carrier, hourly), metric);
    let mut checks = Vec::new();
    for hourly in HOURLY {
        let rate = format!("{:.0} bit/s", Trial::new(Carrier::Ours, hourly).bits());
        let [seed, ours, tcp] = CARRIERS.map(|carrier| at(carrier, hourly, TOLD));
        let what =
            format!("at {rate} {} % are completed with fixed timers and ours", pair(&seed, &ours));
        checks.push(if hourly < LOADED {
            Check::new(what, ours.minus(&seed).at_least(-NO_LOSS))
        } else {
            Check::new(what, seed.below(&ours))
        });
        let what = format!("at {rate} {} % over TCP and ours", pair(&tcp, &ours));
        checks.push(Check::new(what, ours.minus(&tcp).at_least(-NO_LOSS)));
        let [_, ours, tcp] = CARRIERS.map(|carrier| at(carrier, hourly, NINE));
        checks.push(Check::new(
            format!("at {rate} nine of ten take {} s over TCP and ours", pair(&tcp, &ours)),
            ours.below(&tcp),
        ));
    }
    // As long as fixed timers complete nearly all.
    let ratio =
        Estimate::mean_of(HOURLY[..5].iter().map(|hourly| {
            at(Carrier::Ours, *hourly, NINE).over(&at(Carrier::Seed, *hourly, NINE))
        }));
    let what =
        format!("up to 205 bit/s nine of ten take {ratio} of what they take with fixed timers");
    checks.push(Check::new(what, ratio.at_most(NOT_WORSE)));
    let mut easy = Vec::new();
    for (site, hourly, title) in EASY {
        let at = |carrier, metric| runs.at(&Trial::new(carrier, hourly).at(site), metric);
        let [seed, ours, tcp] = CARRIERS.map(|carrier| at(carrier, DELAY));
        let what = format!("{title}: {} s with fixed timers and ours", pair(&seed, &ours));
        checks.push(Check::new(what, not_worse(&ours, &seed)));
        let what = format!("{title}: {} s over TCP and ours", pair(&tcp, &ours));
        checks.push(Check::new(what, not_worse(&ours, &tcp)));
        let mut row = vec![title.to_owned()];
        row.extend(CARRIERS.map(|carrier| mean(&at(carrier, DELAY))));
        row.extend(CARRIERS.map(|carrier| mean(&at(carrier, TOLD))));
        easy.push(row);
    }
    let told = HOURLY[4..].iter().map(|hourly| {
        let all = CARRIERS.map(|carrier| mean(&at(carrier, *hourly, TOLD))).join(", ");
        format!("{all} % at {:.0} bit/s", Trial::new(Carrier::Ours, *hourly).bits())
    });
    let measured = format!(
        "Completed with fixed timers, ours and TCP: {}.",
        told.collect::<Vec<_>>().join("; ")
    );
    let is_company = |it: &Trial| it.site == Site::Net(16);
    let nine = runs.points(NINE, SECONDS, is_company);
    let figure = Figure::of(&nine, "tac-sar-better", "Until nine of ten messages came")
        .under("128 octets, 16 stations on 16 kbit/s")
        .over(rate_axis())
        .up(Axis::log("Time", SECONDS));
    let head = CARRIERS
        .map(|it| format!("{}: delay, s", it.title()))
        .into_iter()
        .chain(CARRIERS.map(|it| format!("{}: completed, %", it.title())));
    let easy = Table::list(
        "Where there is nothing to gain",
        std::iter::once("place".to_owned()).chain(head),
        easy,
    );
    let complete = runs.points(TOLD, PERCENT, is_company);
    let sent = runs.points(TRANSMISSIONS, "a message", is_company);
    Finding {
        figures: vec![figure],
        tables: vec![
            Table::of("Completed, in per cent", &complete),
            Table::of("Until nine of ten came, in seconds", &nine),
            Table::of("Transmissions for each message", &sent),
            easy,
        ],
        points: nine.into_iter().chain(complete).collect(),
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

fn not_worse(ours: &Estimate, other: &Estimate) -> crate::answer::Answer {
    ours.over(other).at_most(NOT_WORSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_must_complete_more_under_load_and_be_late_nowhere() {
        let verdict = |told: f64, late: f64| {
            let runs = Runs::made_up(trials(), 3, |trial| match trial.carrier {
                Carrier::Ours => vec![(TOLD, told), (NINE, late), (DELAY, late)],
                Carrier::Tcp => vec![(TOLD, 80.0), (NINE, 50.0), (DELAY, 50.0)],
                _ => vec![(TOLD, 90.0), (NINE, 5.0), (DELAY, 5.0)],
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(95.0, 5.2), Verdict::Reproduced);
        assert_eq!(verdict(90.0, 5.2), Verdict::Differs);
        assert_eq!(verdict(95.0, 6.0), Verdict::Differs);
    }
}

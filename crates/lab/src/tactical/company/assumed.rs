//! Tests whether the conclusions depend on the assumptions about the net.

use super::assumption::ASSUMED;
use super::trial::{Carrier, Site, Trial};
use super::{DELAY, NINE, TOLD, assumptions, pair};
use crate::prelude::*;
use crate::tactical::GROUP;

/// Messages an hour: middling and heavy load.
const HOURLY: [u16; 2] = [360, 1_200];
const CARRIERS: [Carrier; 3] = [Carrier::Seed, Carrier::Ours, Carrier::Tcp];

pub const CLAIM: Claim = Claim {
    id: "tac-sar-assumed",
    group: GROUP,
    text: "(ours) that UDP with S/R completes more than TCP at heavy load, and delays less, does not depend on what is \
           assumed of the net",
    source: "docs/protocols/channels.md",
    experiment: || Experiment::new(trials(), judge),
};

fn trials() -> Vec<Trial> {
    let sites = (0..17).map(Site::Assumed);
    sites
        .flat_map(|site| {
            CARRIERS
                .into_iter()
                .flat_map(move |carrier| HOURLY.map(|hourly| Trial::new(carrier, hourly).at(site)))
        })
        .collect()
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let mut checks = Vec::new();
    let mut rows = Vec::new();
    for (assumption, place) in ASSUMED.iter().zip(0..) {
        let at = |carrier, hourly, metric| {
            runs.at(&Trial::new(carrier, hourly).at(Site::Assumed(place)), metric)
        };
        let [middling, heavy] = HOURLY;
        let of = |carrier| at(carrier, heavy, TOLD);
        let [seed, ours, tcp] = CARRIERS.map(of);
        let [late, ours_late, tcp_late] = CARRIERS.map(|carrier| at(carrier, middling, DELAY));
        let more = tcp.below(&seed);
        let sooner = late.below(&tcp_late);
        let title = assumption.title;
        checks.push(Check::new(
            format!("{title}: {} % are completed at heavy load", pair(&seed, &tcp)),
            more,
        ));
        checks.push(Check::new(
            format!("{title}: {} s at middling load", pair(&late, &tcp_late)),
            sooner,
        ));
        let texts = [
            title.to_owned(),
            mean(&seed),
            mean(&ours),
            mean(&tcp),
            sign(more).to_owned(),
            mean(&late),
            mean(&ours_late),
            mean(&tcp_late),
            sign(sooner).to_owned(),
            mean(&at(Carrier::Seed, heavy, NINE)),
            mean(&at(Carrier::Ours, heavy, NINE)),
        ];
        rows.push(texts.to_vec());
    }
    let holds = checks.iter().filter(|check| check.answer == Answer::Yes).count();
    let measured = format!("{holds} of {} differences are as claimed.", checks.len());
    let head = [
        "assumed",
        "heavy: S/R %",
        "ours %",
        "TCP %",
        "more?",
        "middling: S/R s",
        "ours s",
        "TCP s",
        "sooner?",
        "heavy: nine of ten, S/R s",
        "ours s",
    ];
    let table = Table::list("Completed at 341 bit/s of messages, delay at 102 bit/s", head, rows);
    Finding { tables: vec![table], assumptions: assumptions(), ..runs.finding(&checks, measured) }
}

fn sign(answer: Answer) -> &'static str {
    match answer {
        Answer::Yes => "holds",
        Answer::No => "does not hold",
        Answer::Undecided => "undecided",
    }
}

#[cfg(test)]
mod tests {
    use sim::cnr::Config;

    use super::*;

    #[test]
    fn every_assumption_must_leave_the_signs_as_they_are() {
        let verdict = |told: f64| {
            let runs = Runs::made_up(trials(), 3, |trial| match (trial.carrier, trial.site) {
                (Carrier::Tcp, Site::Assumed(4)) => vec![(TOLD, told), (DELAY, 9.0)],
                (Carrier::Tcp, _) => vec![(TOLD, 50.0), (DELAY, 9.0)],
                _ => vec![(TOLD, 90.0), (DELAY, 3.0)],
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(80.0), Verdict::Reproduced);
        assert_eq!(verdict(95.0), Verdict::Differs);
    }

    #[test]
    fn each_assumption_changes_something() {
        for assumption in &ASSUMED[1..] {
            let mut config = Config::default();
            (assumption.set)(&mut config);
            assert_ne!(config, Config::default(), "{}", assumption.title);
        }
    }
}

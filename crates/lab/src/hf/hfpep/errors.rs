//! TCP over HF-PEP with bit errors.

use std::time::Duration;

use super::{MODE, assumptions};
use crate::hf::compare::{self, Compared};
use crate::hf::link::Link;
use crate::hf::transfer::{
    BER, TOTAL, UTILISATION, errored, limit, over_errors, over_pep, seconds, share,
};
use crate::hf::{GROUP, key_ups, published, radio, scientific};
use crate::prelude::*;

const OCTETS: u64 = 100_000;
/// The white paper's table: the bit error rate, and the utilisation of TCP.
const PUBLISHED: [(f64, f64); 4] = [(0.0, 0.772), (1e-6, 0.771), (1e-5, 0.761), (1e-4, 0.406)];

pub const CLAIM: Claim = Claim {
    id: "hf-ber",
    group: GROUP,
    text: "TCP over HF-PEP transfers 100 kB at 9600 bit/s with 77.2 % of a clear link, 76.1 % \
           with a bit error rate of 1e-5, and 40.6 % with 1e-4",
    source: "TCP over HF radio, tests with link errors",
    experiment: || Experiment::new(links(), judge),
};

fn link(ber: f64, key_up: Duration) -> Link {
    over_pep(errored(ber, MODE, OCTETS, key_up), false)
}

fn links() -> Vec<Link> {
    let of = |(ber, _)| key_ups::key_ups().map(|key_up| link(ber, key_up));
    PUBLISHED.into_iter().flat_map(of).collect()
}

fn judge(runs: &Runs<Link>) -> Finding {
    let radios = compare::radios(|key_up| {
        PUBLISHED.map(|(ber, theirs)| {
            let ours = runs.at(&link(ber, key_up), UTILISATION);
            Compared::share(&format!("at {}", scientific(ber)), &ours, theirs)
        })
    });
    let mut points = Vec::new();
    for (ber, theirs) in PUBLISHED {
        let fast = link(ber, radio::FASTEST);
        let point = |line, y| Point::new(line, (ber, BER), (y, UTILISATION));
        let ours = point(Line::new("ours", "ours", Ink::Default), runs.at(&fast, UTILISATION));
        points.push(Point { limit: Some(limit(&fast)), ..ours });
        points.push(point(Line::new("published", "published", Ink::Paper), published(theirs)));
    }
    let told = PUBLISHED.map(|(ber, _)| {
        let used = runs.at(&link(ber, radio::FASTEST), UTILISATION);
        format!("{} at {}", share(&used), scientific(ber))
    });
    let measured =
        format!("With a key-up of {}: {}.", compare::seconds(radio::FASTEST), told.join(", "));
    let rows = PUBLISHED.into_iter().map(|(ber, theirs)| {
        let measured = move |key_up| share(&runs.at(&link(ber, key_up), UTILISATION));
        let total = seconds(&runs.at(&link(ber, radio::FASTEST), TOTAL));
        (vec![scientific(ber), total], theirs.to_string(), measured)
    });
    let lead = [BER, "total with the fastest, s"];
    Finding {
        verdict: compare::verdict(&radios),
        reason: compare::reason(&radios),
        figures: vec![over_errors(
            &points,
            "hf-ber",
            "TCP over HF-PEP with bit errors",
            "100 kB at 9600 bit/s",
        )],
        tables: vec![compare::table("HF-PEP with bit errors: utilisation", &lead, rows)],
        points,
        assumptions: assumptions(),
        ..runs.finding(&[], measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict::{self, Beaten, Differs, Reproduced, Undecided};

    /// The verdict if we measure the published figures times `better`, with 1e-4 also times `errored`.
    fn verdict(runs: u32, better: f64, errored: f64) -> Verdict {
        judge(&Runs::made_up(links(), runs, |it| {
            let found = PUBLISHED.into_iter().find(|(ber, _)| link(*ber, it.key_up) == *it);
            let Some((ber, theirs)) = found else { return Vec::new() };
            let errored = if ber == 1e-4 { errored } else { 1.0 };
            vec![(UTILISATION, theirs * better * errored), (TOTAL, 100.0)]
        }))
        .verdict
    }

    #[test]
    fn each_rate_has_to_be_reached() {
        assert_eq!([verdict(3, 1.02, 1.0), verdict(3, 1.0, 1.0)], [Beaten, Reproduced]);
        assert_eq!([verdict(3, 0.98, 1.0), verdict(3, 1.02, 0.9)], [Differs, Differs]);
        assert_eq!(verdict(1, 1.02, 1.0), Undecided);
    }
}

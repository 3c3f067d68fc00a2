//! The first data of a connection beside the opening, in one transmission.

use std::time::Duration;

use super::{MODE, assumptions};
use crate::hf::bulk::Bulk;
use crate::hf::link::{Carrier, Link};
use crate::hf::transfer::{BUFFER, CONFIRMED, Row, over_pep, seconds};
use crate::hf::{BIT_S, GROUP, radio};
use crate::prelude::*;

/// The speeds for transferring 1 kB, with its confirmation.
const SPEEDS: [u32; 4] = [240_000, 9_600, 1_200, 300];

pub const CLAIM: Claim = Claim {
    id: "hf-first-data",
    group: GROUP,
    text: "sending the first data of a connection with the header of HF-PEP saves a round trip \
           over HF",
    source: "TCP over HF radio, HF-PEP protocol",
    experiment: || Experiment::new(links(), judge),
};

fn waiting(speed: u32) -> Link {
    over_pep(Row { speed, kilobytes: 1, published: None }.link(MODE, radio::FASTEST, BUFFER), false)
}

fn at_once(speed: u32) -> Link {
    Link {
        carrier: Carrier::HfPep { first_data: Duration::ZERO, is_compressed: false },
        ..waiting(speed)
    }
}

/// The least time of a transmission there and a transmission back.
fn round_trip(speed: u32) -> f64 {
    2.0 * Bulk::clear(speed).least(0)
}

fn links() -> Vec<Link> {
    SPEEDS.into_iter().flat_map(|speed| [waiting(speed), at_once(speed)]).collect()
}

fn judge(runs: &Runs<Link>) -> Finding {
    let times = |speed: u32| [waiting(speed), at_once(speed)].map(|it| runs.at(&it, CONFIRMED));
    let checks = SPEEDS.map(|speed| {
        let [waited, at_once] = times(speed);
        let trip = round_trip(speed);
        let what = format!(
            "at {speed} bit/s 1 kB is confirmed after {} s instead of {} s; a round trip takes {trip:.2} s",
            seconds(&waited),
            seconds(&at_once),
        );
        Check::new(what, Estimate { mean: waited.mean + trip, ..waited }.below(&at_once))
    });
    let mut points = Vec::new();
    for speed in SPEEDS {
        let lines = [("with-data", "with data", Ink::Default), ("alone", "alone", Ink::Paper)];
        for ((series, title, ink), y) in lines.into_iter().zip(times(speed)) {
            let line = Line::new(series, title, ink);
            points.push(Point::new(line, (f64::from(speed), BIT_S), (y, CONFIRMED)));
        }
    }
    let rows = SPEEDS.map(|speed| {
        let [waited, at_once] = times(speed).map(|it| seconds(&it));
        vec![speed.to_string(), waited, at_once, format!("{:.2}", round_trip(speed))]
    });
    let head = ["bit/s", "with data, s", "alone, s", "least round trip, s"];
    let table = Table::list(
        "Until 1 kB is confirmed, the opening with the first data and alone",
        head,
        rows,
    );
    Finding { tables: vec![table], points, assumptions: assumptions(), ..runs.finding(&checks, "") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict::{self, Differs, Reproduced, Undecided};

    /// The verdict if the opening alone costs so many round trips.
    fn verdict(runs: u32, trips: f64) -> Verdict {
        judge(&Runs::made_up(links(), runs, |link| {
            let speed = link.waveform.bits_per_s();
            let late = if *link == at_once(speed) { trips * round_trip(speed) } else { 0.0 };
            vec![(CONFIRMED, 10.0 + late)]
        }))
        .verdict
    }

    #[test]
    fn a_whole_round_trip_has_to_be_saved() {
        assert_eq!([verdict(3, 1.1), verdict(3, 0.9)], [Reproduced, Differs]);
        assert_eq!(verdict(1, 1.1), Undecided);
    }
}

//! Tests of shares of stations with HF-PEP.

use std::time::Duration;

use super::{CASES, Case, Fair, JAIN, LEAST, SHARE, by_station, jain, judge, places};
use super::{Channel, Scene};
use crate::claim::Verdict::{self, Differs, Reproduced, Undecided};
use crate::grid::Runs;

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn every_transfer_goes_on_and_stations_have_equal_shares() {
    for case in [Case::Ring3, Case::Pairs, Case::Uneven] {
        let scene = Scene {
            waveform: crate::hf::radio::waveform(9_600),
            channel: Channel::Clear,
            stations: case.stations(),
            transfers: case.transfers(),
        };

        let octets = scene.run(MINUTE * 10, MINUTE * 60, 1);

        assert!(octets.iter().all(|octets| *octets > 100_000), "{case:?}: {octets:?}");
        let shares: Vec<f64> = by_station(&scene, &octets).iter().map(|it| *it as f64).collect();
        assert!(jain(&shares) > 0.95, "{case:?}: {shares:?}");
    }
}

#[test]
fn shares_are_those_of_stations_that_send() {
    let scene = |transfers| Scene {
        waveform: crate::hf::radio::waveform(9_600),
        channel: Channel::Clear,
        stations: 4,
        transfers,
    };

    assert_eq!(by_station(&scene(Case::Uneven.transfers()), &[1, 2, 3, 10]), [6, 10]);
    assert_eq!(by_station(&scene(Case::Inward.transfers()), &[1, 2, 3]), [1, 2, 3]);
    for case in CASES {
        let exists = |(from, to): (usize, usize)| from.max(to) < case.stations() && from != to;
        assert!(case.transfers().into_iter().all(exists), "{case:?}");
    }
}

/// What is found of stations whose shares have this index, but for one case, which has another.
fn verdict(runs: u32, index: f64, of_pairs: f64) -> Verdict {
    let of = |Fair(case, ..): &Fair| {
        let jain = if *case == Case::Pairs { of_pairs } else { index };
        vec![(JAIN, jain), (LEAST, 0.9), (SHARE, 0.8)]
    };
    judge(&Runs::made_up(places(), runs, of)).verdict
}

#[test]
fn every_case_has_to_be_fair() {
    assert_eq!([verdict(3, 0.99, 0.97), verdict(1, 0.99, 0.97)], [Reproduced, Undecided]);
    assert_eq!([verdict(3, 0.99, 0.9), verdict(3, 0.9, 0.99)], [Differs; 2]);
}

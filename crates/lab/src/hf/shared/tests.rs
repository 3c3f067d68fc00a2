//! Tests of scheduling on a frequency that several stations share.

use std::time::Duration;

use sim::hf::Channel;

use super::scene::{Load, Scene, Served};
use super::{Case, JAIN, LONGEST, SHARE, Shared, config, jain, judge, places};
use crate::claim::Verdict::{self, Differs, Reproduced, Undecided};
use crate::grid::Runs;

const MINUTE: Duration = Duration::from_secs(60);
const SPEEDS: [&str; 2] = ["9600", "300"];

#[test]
fn equal_flows_share_equally_at_every_speed() {
    for speed in ["300", "1200", "9600", "240000"] {
        let flows = vec![Load::bulk(0, 1), Load::bulk(2, 3)];
        let served = scene(speed, 4, flows).run(MINUTE * 15, 1);

        let shares = shares(speed, &served, MINUTE * 5, MINUTE * 15);
        assert!(jain(&shares) >= 0.95, "{speed}: {shares:?}");
        assert!(shares.iter().sum::<f64>() > 0.8, "{speed}: {shares:?}");
    }
}

#[test]
fn a_third_station_has_its_turn_within_the_bound() {
    for speed in SPEEDS {
        let scene = scene(speed, 4, vec![Load::bulk(0, 1), Load::bulk(1, 0), late(2, 3)]);
        let bound = config(speed.parse().expect("a number"), 4).turn_bound();

        for seed in 1..=5 {
            let served = scene.run(MINUTE * 60, seed);

            let waits = served[2].waits.iter();
            let longest =
                waits.map(|wait| wait.expect("it arrives")).max().expect("some were sent");
            assert!(longest <= bound, "{speed}: {longest:?}, {bound:?}");
        }
    }
}

#[test]
fn a_lone_pair_loses_little_to_silent_stations() {
    for speed in SPEEDS {
        let run = |stations| {
            let scene = scene(speed, stations, vec![Load::bulk(0, 1)]);
            shares(speed, &scene.run(MINUTE * 40, 1), MINUTE * 10, MINUTE * 40)[0]
        };

        // Two stations need no pauses for others.
        let (alone, among_four) = (run(2), run(4));
        assert!(among_four > 0.97 * alone, "{speed}: {among_four} of {alone}");
    }
}

#[test]
fn stations_in_a_ring_share_equally() {
    for speed in SPEEDS {
        let ring = (0..4).map(|at| Load::bulk(at, (at + 1) % 4)).collect();
        let served = scene(speed, 4, ring).run(MINUTE * 60, 1);

        let shares = shares(speed, &served, MINUTE * 15, MINUTE * 60);
        assert!(shares.iter().sum::<f64>() > 0.85, "{speed}: {shares:?}");
        assert!(jain(&shares) >= 0.95, "{speed}: {shares:?}");
    }
}

#[test]
fn expedited_data_and_bulk_both_go_on() {
    let expedited = Load { is_expedited: true, ..Load::urgent(0, 1, MINUTE) };
    let served = scene("9600", 2, vec![Load::bulk(0, 1), expedited]).run(MINUTE * 30, 1);

    assert!(shares("9600", &served, MINUTE * 5, MINUTE * 30)[0] > 0.6);
    assert!(median(&served[1]) < Duration::from_secs(10), "{:?}", served[1].waits);
}

#[test]
fn a_dead_station_delays_no_other() {
    for (speed, most) in [("9600", 10), ("300", 25)] {
        let dead = Load { priority: 0, ..Load::urgent(0, 9, MINUTE) };
        let served = scene(speed, 4, vec![Load::urgent(0, 1, MINUTE), dead]).run(MINUTE * 40, 1);

        let longest = longest(&served[0], 0);
        assert!(longest < Duration::from_secs(most), "{speed}: {longest:?}");
    }
}

#[test]
fn urgent_messages_overtake_bulk_in_the_same_direction() {
    for (speed, most) in [("9600", 5), ("300", 30)] {
        for seed in 1..=3 {
            let loads = vec![Load::bulk(0, 1), Load::urgent(0, 1, MINUTE)];
            let served = scene(speed, 2, loads).run(MINUTE * 30, seed);

            let longest = longest(&served[1], 0);
            assert!(longest <= Duration::from_secs(most), "{speed}: {longest:?}");
        }
    }
}

#[test]
fn transmissions_are_short_while_urgent_messages_come_from_the_other_side() {
    for (speed, most) in [("9600", 25), ("300", 60)] {
        let loads = vec![Load::bulk(0, 1), Load::urgent(1, 0, MINUTE)];
        let served = scene(speed, 2, loads).run(MINUTE * 30, 1);

        let longest = longest(&served[1], served[1].unannounced());
        assert!(longest <= Duration::from_secs(most), "{speed}: {longest:?}");
        let before = shares(speed, &served, MINUTE, MINUTE * 5)[0];
        assert!(before > 0.8, "{speed}: nothing urgent has come yet, {before}");
    }
}

/// Occasional messages among stations that never pause.
fn late(from: usize, to: usize) -> Load {
    Load { priority: 0, ..Load::urgent(from, to, MINUTE * 5) }
}

fn scene(speed: &str, stations: usize, loads: Vec<Load>) -> Scene {
    let waveform = speed.parse().expect("a waveform");
    Scene { waveform, channel: Channel::Clear, stations, loads }
}

/// The share of the speed that each load had.
fn shares(speed: &str, served: &[Served], from: Duration, until: Duration) -> Vec<f64> {
    let bits = speed.parse::<f64>().expect("a number") * (until - from).as_secs_f64();
    served.iter().map(|load| load.octets(from, until) as f64 * 8.0 / bits).collect()
}

fn longest(served: &Served, skipped: usize) -> Duration {
    let waits = served.waits.iter().skip(skipped);
    waits.map(|wait| wait.expect("it arrives")).max().expect("some were sent")
}

fn median(served: &Served) -> Duration {
    let mut waits: Vec<Duration> =
        served.waits.iter().map(|wait| wait.expect("it arrives")).collect();
    waits.sort_unstable();
    waits[waits.len() / 2]
}

/// What is found of a third station that waits so long for its turn, in its bound, and of a lone pair
/// with such a share.
fn verdict(runs: u32, turn: f64, pair: f64) -> Verdict {
    let of = |Shared(case, speed, stations): &Shared| {
        let bound = config(*speed, *stations).turn_bound().as_secs_f64();
        let longest = if *case == Case::Turn { turn * bound } else { 4.0 };
        let share = if *stations > 2 { pair } else { 0.96 };
        vec![(LONGEST, longest), (JAIN, 0.99), (SHARE, share)]
    };
    judge(&Runs::made_up(places(), runs, of)).verdict
}

#[test]
fn every_goal_of_a_shared_frequency_has_to_be_met() {
    assert_eq!([verdict(3, 0.9, 0.95), verdict(1, 0.9, 0.95)], [Reproduced, Undecided]);
    assert_eq!([verdict(3, 1.1, 0.95), verdict(3, 0.9, 0.9)], [Differs; 2]);
}

//! The places of the matrix: one thing varies at a time around a base, and the corners.
//!
//! ```text
//!   base      10 Mbit/s, 100 ms, a buffer of a round trip, no loss
//!   small     2 Mbit/s, 40 ms: where buffers are a few packets
//!   corners   slow and fast, near and far, short and long buffers, with loss and without
//! ```

use super::scenario::{Jitter, Load, Losses, Path, Scenario};
use crate::everywhere;

const RATES: [u32; 6] = [300, 1_000, 3_000, 10_000, 30_000, 100_000];
const ROUND_TRIPS: [u32; 5] = [10, 40, 100, 300, 600];
const BUFFERS: [u32; 5] = [4, 10, 40, 100, 400];
const LOSSES: [f64; 5] = [0.001, 0.01, 0.05, 0.10, 0.20];
const BURSTS: [f64; 4] = [0.01, 0.05, 0.10, 0.20];
const FADES: [(f64, u32); 3] = [(0.05, 50), (0.10, 200), (0.02, 500)];
const JITTERS: [Jitter; 6] = [
    Jitter::InOrder(5),
    Jitter::InOrder(20),
    Jitter::InOrder(50),
    Jitter::Reordering(2),
    Jitter::Reordering(10),
    Jitter::Reordering(50),
];
const PAGES: [u32; 2] = [10_000, 100_000];

fn base() -> Path {
    Path::new(10_000, 100)
}

fn small() -> Path {
    Path::new(2_000, 40)
}

/// All places of the matrix, each once; the index of a place is its number.
pub fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    all.extend(varied().into_iter().map(|path| path.loading(Load::ONE)));
    all.extend(corners().into_iter().map(|path| path.loading(Load::ONE)));
    all.extend(many());
    all.extend(both_ways());
    all.extend(pages());
    all.extend(voices());
    all.extend(rivals());
    everywhere::distinct(all)
}

/// One thing at a time.
fn varied() -> Vec<Path> {
    let mut all = Vec::new();
    all.extend(RATES.map(|rate| Path::new(rate, 100)));
    all.extend(ROUND_TRIPS.map(|round_trip| Path::new(10_000, round_trip)));
    all.extend(BUFFERS.map(|buffer| base().with_buffer(buffer)));
    all.extend(BUFFERS.map(|buffer| small().with_buffer(buffer)));
    all.extend(LOSSES.map(|loss| base().losing(Losses::Single(loss))));
    all.extend(BURSTS.map(|loss| base().losing(Losses::Bursts(loss))));
    all.extend(FADES.map(|(share, millis)| base().losing(Losses::Fades(share, millis))));
    all.extend(JITTERS.map(|jitter| base().with_jitter(jitter)));
    all
}

fn corners() -> Vec<Path> {
    let mut all = Vec::new();
    for rate in [300, 2_000, 100_000] {
        for round_trip in [10, 600] {
            for buffer in [4, 400] {
                for losses in [Losses::None, Losses::Single(0.05)] {
                    all.push(Path::new(rate, round_trip).with_buffer(buffer).losing(losses));
                }
            }
        }
    }
    // The hardest losses on the longest and on the slowest path.
    for losses in [Losses::Single(0.20), Losses::Bursts(0.20)] {
        all.extend([Path::new(10_000, 600), Path::new(300, 100)].map(|path| path.losing(losses)));
    }
    all
}

/// Paths that lose, vary and queue in different ways, one of each kind.
fn kinds() -> Vec<Path> {
    vec![
        base(),
        base().losing(Losses::Single(0.01)),
        base().losing(Losses::Single(0.05)),
        base().losing(Losses::Single(0.20)),
        base().losing(Losses::Bursts(0.05)),
        base().losing(Losses::Bursts(0.20)),
        base().losing(Losses::Fades(0.10, 200)),
        base().with_jitter(Jitter::InOrder(20)),
        base().with_jitter(Jitter::Reordering(10)),
        base().with_buffer(10),
        base().with_buffer(400),
        small(),
        small().with_buffer(4),
        Path::new(10_000, 10),
        Path::new(10_000, 600),
        Path::new(300, 100),
    ]
}

fn many() -> Vec<Scenario> {
    kinds().into_iter().map(|path| path.loading(Load::TEN)).collect()
}

fn both_ways() -> Vec<Scenario> {
    let all = kinds().into_iter().filter(|path| path.kbit_per_s > 1_000);
    let mut all: Vec<Scenario> = all.map(|path| path.loading(Load::BOTH_WAYS)).collect();
    all.push(Path::new(8_000, 40).loading(Load::BOTH_WAYS));
    all
}

fn pages() -> Vec<Scenario> {
    let paths = varied().into_iter().chain(kinds());
    paths.flat_map(|path| PAGES.map(|octets| path.loading(Load::page(octets)))).collect()
}

fn voices() -> Vec<Scenario> {
    let all = kinds().into_iter();
    let mut all: Vec<Scenario> = all
        .filter(|path| path.kbit_per_s > 1_000)
        .map(|path| path.loading(Load::BESIDE_VOICE))
        .collect();
    all.push(Path::new(1_000, 100).loading(Load::BESIDE_VOICE));
    for losses in [Losses::None, Losses::Single(0.05), Losses::Bursts(0.05)] {
        all.push(base().losing(losses).loading(Load::VOICE));
        all.push(Path::new(300, 100).losing(losses).loading(Load::VOICE));
    }
    all
}

/// Clean paths, for that is where a plain flow takes its share, and a little loss.
fn rivals() -> Vec<Scenario> {
    let mut all = Vec::new();
    all.extend(BUFFERS.map(|buffer| base().with_buffer(buffer)));
    all.extend(BUFFERS.map(|buffer| small().with_buffer(buffer)));
    all.extend([10, 40, 300].map(|round_trip| Path::new(10_000, round_trip)));
    all.extend([1_000, 30_000].map(|rate| Path::new(rate, 100)));
    all.push(base().losing(Losses::Single(0.001)));
    all.push(base().with_jitter(Jitter::InOrder(20)));
    all.into_iter().map(|path| path.loading(Load::BESIDE_CUBIC)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_is_varied_and_no_place_comes_twice() {
        let all = scenarios();

        let names: std::collections::BTreeSet<String> =
            all.iter().map(Scenario::to_string).collect();
        assert_eq!(names.len(), all.len(), "two places have one name");
        assert!((150..300).contains(&all.len()), "{}", all.len());
        let has = |is: &dyn Fn(&Scenario) -> bool| all.iter().any(is);
        assert!(RATES.iter().all(|rate| has(&|it| it.path.kbit_per_s == *rate)));
        assert!(ROUND_TRIPS.iter().all(|trip| has(&|it| it.path.round_trip == *trip)));
        assert!(BUFFERS.iter().all(|buffer| has(&|it| it.path.buffer == *buffer)));
        assert!(LOSSES.iter().all(|loss| has(&|it| it.path.losses == Losses::Single(*loss))));
        assert!(BURSTS.iter().all(|loss| has(&|it| it.path.losses == Losses::Bursts(*loss))));
        assert!(JITTERS.iter().all(|jitter| has(&|it| it.path.jitter == *jitter)));
        assert!(has(&|it| it.load == Load::TEN) && has(&|it| it.load.up > 0));
        assert!(has(&|it| it.load.has_voice) && has(&|it| it.load.has_rival));
        assert!(PAGES.iter().all(|octets| has(&|it| it.load.page == Some(*octets))));
    }

    #[test]
    fn every_loss_is_possible() {
        for scenario in scenarios() {
            assert!(scenario.path.loss().is_ok(), "{scenario}");
        }
    }
}

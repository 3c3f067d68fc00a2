//! How many cases of a property are tried, and which.

use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::Location;

use proptest::test_runner::{Config, RngSeed};

/// The cases that `PROPTEST_CASES` asks for when each property is to have as many as its test says.
const USUAL: u64 = 256;
/// One property in so many takes other cases.
const OTHERS: u64 = 10;

/// Tries so many cases of the properties in a block of `proptest!`.
///
/// `PROPTEST_CASES`, usually 256, scales the cases of all properties. If `TRACKWAY_FRESH` is a number, a tenth of all
/// blocks take their cases from this number instead of `PROPTEST_RNG_SEED`; which blocks these are follows from the
/// number too.
#[must_use]
#[track_caller]
pub fn cases(cases: u32) -> Config {
    let fresh = env::var("TRACKWAY_FRESH").ok().and_then(|text| text.parse().ok());
    let mut config = scaled(cases, Config::default());
    config.rng_seed = seed(config.rng_seed, fresh, Location::caller());
    if cfg!(miri) {
        // It has no files.
        config.failure_persistence = None;
    }
    config
}

fn scaled(cases: u32, config: Config) -> Config {
    let scaled = u64::from(cases) * u64::from(config.cases) / USUAL;
    Config { cases: u32::try_from(scaled).unwrap_or(u32::MAX).max(1), ..config }
}

fn seed(usual: RngSeed, fresh: Option<u64>, place: &Location<'_>) -> RngSeed {
    let is_chosen = |fresh: &u64| {
        let mut hasher = DefaultHasher::new();
        (fresh, place.file(), place.line()).hash(&mut hasher);
        hasher.finish().is_multiple_of(OTHERS)
    };
    fresh.filter(is_chosen).map_or(usual, RngSeed::Fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_scales_the_cases_of_each_property() {
        let asked = |cases| Config { cases, ..Config::default() };

        assert_eq!(scaled(400, asked(256)).cases, 400);
        assert_eq!(scaled(400, asked(25_600)).cases, 40_000);
        assert_eq!(scaled(400, asked(16)).cases, 25);
        assert_eq!(scaled(2, asked(16)).cases, 1);
        assert_eq!(scaled(u32::MAX, asked(u32::MAX)).cases, u32::MAX);
    }

    #[test]
    fn a_tenth_of_the_blocks_take_other_cases() {
        let usual = RngSeed::Fixed(1);
        let place = Location::caller();
        assert_eq!(seed(usual, None, place), usual);

        let chosen = (2..10_002).filter(|fresh| {
            let seed = seed(usual, Some(*fresh), place);
            assert!(seed == usual || seed == RngSeed::Fixed(*fresh));
            seed != usual
        });

        assert!((900..1_100).contains(&chosen.count()));
    }
}

//! A search over all parameters at once, with races between settings.
//!
//! ```text
//!  generation 1: a Latin hypercube over the whole space ──▶ race ──▶ the best few
//!  generation 2: all of these changed a little at once  ──▶ race ──▶ the best few
//!  generation 3: ... a little less                      ──▶ race ──▶ ...
//!
//!  race: all run a few seeds; the better third runs three times as many; the better third of these all.
//! ```
//!
//! Bad settings show after a few runs, so most of the budget goes to the promising settings. All settings run with
//! the same seeds, so the common effect of a seed does not blur the comparison.

use std::collections::{BTreeMap, BTreeSet};

use base::rng::Rng;

use super::range::Values;
use super::space::Setting;
use super::trials::{Ended, Purpose, Score, Trials};

/// Generations, if the budget allows for [`LEAST`] settings in each.
const GENERATIONS: u32 = 4;
/// Settings of a generation at least.
const LEAST: u32 = 6;
/// One setting in this many goes on to the next round of a race.
const SHARE: usize = 3;
/// Settings that the next generation is made of.
const PARENTS: usize = 4;
/// How far a value changes in the second generation, as a share of its range (one standard deviation); each later
/// generation halves the change.
const CHANGE: f64 = 0.2;
/// Draws for a setting that is allowed and new.
const DRAWS: u32 = 50;

/// The result of the search.
#[derive(Clone, Debug)]
pub struct Raced {
    /// The best setting among the ones with all runs.
    pub best: Setting,
    /// The score of the best setting.
    pub score: Score,
    /// Different settings that were tried.
    pub settings: usize,
    /// How many different runs that took.
    pub runs: u32,
}

/// A setting by its places on the axes.
#[derive(Clone, Debug)]
struct Entrant {
    places: Vec<f64>,
    setting: Setting,
    name: String,
}

/// Searches with at most so many runs in all, and `runs` of the settings that may be best.
///
/// # Errors
/// When the trials end early, or hardly any setting is allowed.
pub fn race(trials: &mut Trials<'_>, runs: u32, budget: u32, seed: u64) -> Result<Raced, Ended> {
    let mut search =
        Search { runs, left: budget, had: BTreeMap::new(), finished: Vec::new(), seed };
    let rounds = rounds(runs);
    let cost = cost_of(LEAST, &rounds);
    let generations = (budget / cost.max(1)).clamp(1, GENERATIONS);
    for generation in 0..generations {
        let share = search.left / (generations - generation);
        let mut count = LEAST.min(4);
        while cost_of(count + 1, &rounds) <= share {
            count += 1;
        }
        let mut rng = Rng::stream(seed, &format!("generation {generation}"));
        let entrants = if generation == 0 {
            search.hypercube(trials, count, &mut rng)
        } else {
            search.children(
                trials,
                count,
                CHANGE * 0.5_f64.powi(generation.cast_signed() - 1),
                &mut rng,
            )
        };
        search.hold(trials, entrants, &rounds)?;
    }
    search.result(trials)
}

/// Runs of each setting after each round.
fn rounds(runs: u32) -> Vec<u32> {
    let mut rounds = vec![runs];
    while rounds.len() < 3 && rounds[0] >= 6 {
        rounds.insert(0, (rounds[0] / 3).max(2));
    }
    rounds
}

/// The runs of a race between `count` settings.
fn cost_of(count: u32, rounds: &[u32]) -> u32 {
    let (mut cost, mut had, mut count) = (0, 0, count);
    for runs in rounds {
        cost += count * (runs - had);
        had = *runs;
        count = going_on(count as usize).try_into().unwrap_or(u32::MAX);
    }
    cost
}

/// How many of `count` settings go on to the next round.
fn going_on(count: usize) -> usize {
    count.div_ceil(SHARE)
}

struct Search {
    runs: u32,
    /// Of the budget.
    left: u32,
    /// How many runs each setting has had.
    had: BTreeMap<String, u32>,
    /// Those that have had all.
    finished: Vec<Entrant>,
    seed: u64,
}

impl Search {
    /// Settings such that each parameter has all its values about equally often.
    fn hypercube(&self, trials: &Trials<'_>, count: u32, rng: &mut Rng) -> Vec<Entrant> {
        let axes = trials.space().axes.len();
        let columns: Vec<Vec<u32>> = (0..axes).map(|_| shuffled(count, rng)).collect();
        let mut entrants: Vec<Entrant> = Vec::new();
        for row in 0..count as usize {
            let cell = |column: &Vec<u32>, rng: &mut Rng| {
                (f64::from(column[row]) + rng.uniform()) / f64::from(count)
            };
            let mut places: Vec<f64> = columns.iter().map(|column| cell(column, rng)).collect();
            for _ in 0..DRAWS {
                if let Some(entrant) = self.entrant(trials, &places, &entrants) {
                    entrants.push(entrant);
                    break;
                }
                places = (0..axes).map(|_| rng.uniform()).collect();
            }
        }
        entrants
    }

    /// The best so far, and settings near them.
    fn children(
        &self,
        trials: &Trials<'_>,
        count: u32,
        change: f64,
        rng: &mut Rng,
    ) -> Vec<Entrant> {
        let parents: Vec<Entrant> = self.ranked(trials).into_iter().take(PARENTS).collect();
        let mut entrants: Vec<Entrant> = Vec::new();
        let Some(first) = parents.first() else { return self.hypercube(trials, count, rng) };
        for child in 0..count as usize {
            // The best has as many children as all others together.
            let parent = if child % 2 == 0 { first } else { &parents[child / 2 % parents.len()] };
            for draw in 0..DRAWS {
                let far = change * (1.0 + f64::from(draw) / 10.0);
                let axes = trials.space().axes.iter().zip(&parent.places);
                let places: Vec<f64> =
                    axes.map(|(axis, place)| changed(&axis.values, *place, far, rng)).collect();
                if let Some(entrant) = self.entrant(trials, &places, &entrants) {
                    entrants.push(entrant);
                    break;
                }
            }
        }
        entrants
    }

    /// A setting that is allowed, and neither among these nor tried before.
    fn entrant(&self, trials: &Trials<'_>, places: &[f64], among: &[Entrant]) -> Option<Entrant> {
        let setting = trials.space().at(places);
        let name = trials.space().name(&setting);
        let is_new = !self.had.contains_key(&name) && among.iter().all(|other| other.name != name);
        let is_good = is_new && trials.check(&setting).is_ok();
        is_good.then(|| Entrant { places: places.to_vec(), setting, name })
    }

    /// A race, as long as the budget lasts.
    fn hold(
        &mut self,
        trials: &mut Trials<'_>,
        mut entrants: Vec<Entrant>,
        rounds: &[u32],
    ) -> Result<(), Ended> {
        for (place, runs) in rounds.iter().enumerate() {
            let mut wanted = Vec::new();
            let mut paid = Vec::new();
            for entrant in entrants {
                let had = self.had.get(&entrant.name).copied().unwrap_or_default();
                let cost = runs.saturating_sub(had);
                if cost <= self.left {
                    self.left -= cost;
                    self.had.insert(entrant.name.clone(), *runs);
                    wanted.push((entrant.setting.clone(), *runs));
                    paid.push(entrant);
                }
            }
            trials.run(Purpose::Tune, &wanted)?;
            entrants = paid;
            order(trials, &mut entrants, *runs);
            if place + 1 < rounds.len() {
                entrants.truncate(going_on(entrants.len()));
            } else {
                self.finished.append(&mut entrants);
            }
            if let Some(best) = self.ranked(trials).first() {
                let score = trials.score(Purpose::Tune, &best.setting, self.runs);
                trials.tell(&best.setting, &score);
            }
        }
        Ok(())
    }

    /// Those that have had all runs, the best first.
    fn ranked(&self, trials: &Trials<'_>) -> Vec<Entrant> {
        let mut all = self.finished.clone();
        order(trials, &mut all, self.runs);
        all
    }

    fn result(&self, trials: &Trials<'_>) -> Result<Raced, Ended> {
        let ranked = self.ranked(trials);
        let Some(best) = ranked.first() else {
            let what = format!("no setting of {} draws with seed {} is allowed", DRAWS, self.seed);
            return Err(Ended::Failed(what));
        };
        Ok(Raced {
            best: best.setting.clone(),
            score: trials.score(Purpose::Tune, &best.setting, self.runs),
            settings: self.had.len(),
            runs: self.had.values().sum(),
        })
    }
}

/// Puts the best first; equals stay as they are.
fn order(trials: &Trials<'_>, entrants: &mut Vec<Entrant>, runs: u32) {
    let mut scored: Vec<(Score, Entrant)> = Vec::new();
    for entrant in entrants.drain(..) {
        let score = trials.score(Purpose::Tune, &entrant.setting, runs);
        let place = scored.iter().position(|(other, _)| trials.is_better(&score, other));
        scored.insert(place.unwrap_or(scored.len()), (score, entrant));
    }
    entrants.extend(scored.into_iter().map(|(_, entrant)| entrant));
}

/// A place near another; of a list of words now and then any other.
fn changed(values: &Values, place: f64, far: f64, rng: &mut Rng) -> f64 {
    if values.is_words() {
        return if rng.chance(0.25) { rng.uniform() } else { place };
    }
    let moved = place + far * normal(rng);
    // What would leave the range turns back at its end; places beyond both ends are seldom.
    let back = if moved < 0.0 {
        -moved
    } else if moved > 1.0 {
        2.0 - moved
    } else {
        moved
    };
    back.clamp(0.0, 1.0)
}

/// Normally distributed with mean 0 and variance 1, near enough: a sum of twelve.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0
}

/// The numbers below this in any order.
fn shuffled(count: u32, rng: &mut Rng) -> Vec<u32> {
    let mut left: BTreeSet<u32> = (0..count).collect();
    let mut numbers = Vec::new();
    while !left.is_empty() {
        let place = rng.below(left.len() as u64);
        let number = left.iter().copied().nth(usize::try_from(place).unwrap_or_default());
        let Some(number) = number else { break };
        left.remove(&number);
        numbers.push(number);
    }
    numbers
}

//! HBH where there is nothing to gain, and everywhere else: is it ever worse than plain TCP?
//!
//! ```text
//!   matrix ── scenario ──▶ run under each carrier ──▶ row: ratios, goals missed ──▶ finding
//! ```

mod finding;
mod matrix;
mod row;
mod run;
mod scenario;
#[cfg(test)]
mod tests;

use super::Carrier;
use crate::prelude::*;
use scenario::Scenario;

/// The claim, which is ours and has a group of its own: it takes minutes.
pub(super) fn claim() -> Claim {
    Claim {
        id: "hbh-everywhere",
        group: "hbh-everywhere",
        text: "whoever switches HBH on never regrets it: our profile is nowhere slower than plain \
               TCP, costs few packets where nothing is lost, and goes on within a second of an \
               outage's end",
        source: "ours; docs/results/limits.md",
        experiment: || Experiment::new(tries(&matrix::scenarios()), finding::judge),
    }
}

/// A place of the matrix under a carrier.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Try {
    scenario: Scenario,
    carrier: Carrier,
}

fn tries(scenarios: &[Scenario]) -> Vec<Try> {
    let carriers =
        |scenario: &Scenario| Carrier::ALL.map(|carrier| Try { scenario: *scenario, carrier });
    scenarios.iter().flat_map(carriers).collect()
}

impl Place for Try {
    /// The carriers of a scenario have the same seeds.
    fn cell(&self) -> Cell {
        let Self { scenario, carrier } = *self;
        let name = format!("{scenario}, {}", carrier.series());
        Cell::of(name, move |seed| scenario.plan(carrier, seed), run::measure)
            .with_draws_of(&scenario.name())
            .at_most(scenario.most_runs())
    }
}

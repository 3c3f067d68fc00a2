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
use crate::everywhere;
use crate::prelude::*;
use scenario::Scenario;

/// The claim, which is ours and has a group of its own: it takes minutes.
pub fn claim() -> Claim {
    Claim {
        id: "hbh-everywhere",
        group: "hbh-everywhere",
        text: "whoever switches HBH on never regrets it: our profile is nowhere slower than plain \
               TCP, costs few packets where nothing is lost, and goes on within a second of an \
               outage's end",
        source: "ours; docs/results/limits.md",
        experiment: || Experiment::new(everywhere::tries(&matrix::scenarios()), finding::judge),
    }
}

/// A place of the matrix under a carrier.
type Try = everywhere::Try<Scenario, Carrier>;

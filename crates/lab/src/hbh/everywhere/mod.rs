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
use crate::claim::{Cell, Claim};

/// The claim, which is ours and has a group of its own: it takes minutes.
pub(super) fn claim() -> Claim {
    Claim {
        id: "hbh-everywhere",
        group: "hbh-everywhere",
        text: "whoever switches HBH on never regrets it: our profile is nowhere slower than plain \
               TCP, costs few packets where nothing is lost, and goes on within a second of an \
               outage's end",
        source: "ours; docs/hbh-limits.md",
        cells,
        judge: finding::judge,
    }
}

fn cells() -> Vec<Cell> {
    let carriers = |scenario: scenario::Scenario| Carrier::ALL.map(|c| scenario.cell(c));
    matrix::scenarios().into_iter().flat_map(carriers).collect()
}

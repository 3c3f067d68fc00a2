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
use scenario::Scenario;

pub use finding::Hbh;

/// A place of the matrix under a carrier.
type Try = everywhere::Try<Scenario, Carrier>;

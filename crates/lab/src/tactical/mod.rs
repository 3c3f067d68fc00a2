//! The claims about TCP in a tactical internet (Liu, "The Performance of TCP in a Tactical Internet").
//!
//! ```text
//!  a brigade's EPLRS needlines ─▶ figures 1 to 4: passive opens, the initial RTO, R1 and R2
//!  a company's SINCGARS net ────▶ figures 5 and 6: TCP beside UDP with S/R
//! ```

mod brigade;
mod connect;

use crate::claim::{Claim, Metric};
use crate::scenario::{BgpReport, Built};

/// The group of all claims here.
const GROUP: &str = "tactical";
/// The most runs of a place.
const RUNS: u32 = 10;

/// The share of messages that came, in per cent.
const COMPLETION: Metric = "completion";

/// The claims, in the order of the paper.
#[must_use]
pub fn claims() -> Vec<Claim> {
    vec![connect::claim()]
}

/// Runs a network to its end and tells what became of its BGP sessions.
fn bgp_of(built: &mut Built<'_>) -> BgpReport {
    let (end, stride) = (built.end(), built.plan().duration);
    built.run_until(end, stride, |_| false);
    built.bgp().expect("there are sessions")
}

//! Claims of a published paper, and how each is tested.

use crate::grid::Experiment;

pub use crate::answer::Verdict;
pub use crate::finding::{Exchange, Finding, Line, Metric, Outcome, Point, Table};

/// A claim and how to test it.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The name of the claim, and of its experiment.
    pub id: &'static str,
    /// The group it belongs to.
    pub group: &'static str,
    /// What the paper claims, in our words.
    pub text: &'static str,
    /// Where it stands.
    pub source: &'static str,
    /// The runs of the claim, and their meaning.
    pub experiment: fn() -> Experiment,
}

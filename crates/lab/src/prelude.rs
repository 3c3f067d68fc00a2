//! The words that every claim is written in, for `use crate::prelude::*`.

pub use crate::answer::{self, Answer, Check};
pub(crate) use crate::claim::{
    Claim, Exchange, Finding, Line, Metric, Outcome, Point, Table, Verdict,
};
pub use crate::figure::{Axis, Figure, Ink, Mark, Series};
pub(crate) use crate::finding::named;
pub use crate::grid::{Cell, Drawn, Experiment, Place, Runs};
pub use crate::name::{Name, rounded};
pub(crate) use crate::stats::exact;
pub use crate::stats::{Estimate, Observation};
pub use crate::sweep::{Sweep, best, extremes, spread};
pub use crate::words::{mean, number, percent};

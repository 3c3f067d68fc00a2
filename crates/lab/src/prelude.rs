//! The words that every claim is written in, for `use crate::prelude::*`.

pub(crate) use crate::answer::{self, Answer, Check};
pub(crate) use crate::claim::{
    Claim, Exchange, Finding, Line, Metric, Outcome, Point, Table, Verdict,
};
pub(crate) use crate::figure::{Axis, Figure, Ink, Mark, Series};
pub(crate) use crate::grid::{Cell, Drawn, Experiment, Place, Runs};
pub(crate) use crate::stats::{Estimate, Observation, exact};
pub(crate) use crate::sweep::{Sweep, best, extremes, spread};
pub(crate) use crate::words::{mean, number, percent};

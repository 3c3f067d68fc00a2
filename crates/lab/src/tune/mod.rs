//! Finds the best values for parameters of a scenario file: two searches, whose results are measured again.
//!
//! ```text
//!  File ──▶ Space ──▶ sweep: one parameter after the other ─┐
//!   keys,   ranges    race: all at once, same budget ───────┴▶ Outcome: text, JSON, picture, advice
//!   text                  │
//!                         ▼
//!                      Trials ──▶ runs with common seeds ──▶ Measured ──▶ Metric
//!                         └─▶ Journal: what was run is not run again
//! ```

mod advice;
mod file;
mod journal;
mod json;
mod key;
mod measure;
mod metric;
mod outcome;
mod picture;
mod race;
mod range;
mod space;
mod subject;
mod sweep;
#[cfg(test)]
mod tests;
mod text;
mod trials;

pub use advice::{Advice, advice};
pub use file::File;
pub use journal::{Known, fingerprint, open};
pub use json::to_json;
pub use key::Key;
pub use measure::{MEASURES, Measure, Measured};
pub use metric::{BadMetric, Metric};
pub use outcome::{Effort, Found, Judgement, Laboratory, Outcome, agrees, most, search};
pub use picture::picture;
pub use range::{Asked, STEPS};
pub use space::{Axis, Setting, Space};
pub use subject::Subject;
pub use text::report;
pub use trials::{Bench, Ended, Failures, Goal, Purpose, Score, Trials};

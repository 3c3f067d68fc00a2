//! The laboratory: scenarios, experiments, statistics, figures and reports.

pub mod figure;
pub mod progress;
pub mod runner;
pub mod stats;

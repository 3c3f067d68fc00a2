//! Measuring tools of the benchmarks.

pub mod forwarder;
pub mod hub;
pub mod interface;
mod iperf;
pub mod lone;
mod ping;
pub mod sessions;
pub mod talk;

pub use iperf::{Iperf, goodput};
pub use ping::ping;

/// The value in the middle; NaN if there are no values.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

//! Tests.

mod answer;
mod confirm;
mod contract;
mod property;
mod sessions;
mod wire;

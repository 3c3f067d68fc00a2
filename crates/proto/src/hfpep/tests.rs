//! Tests.

mod answer;
mod contract;
mod property;
mod sessions;
mod wire;

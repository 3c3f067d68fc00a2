//! Tests.

mod answer;
mod contract;
mod flows;
mod property;
mod sessions;
mod wire;

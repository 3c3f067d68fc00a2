//! Tests.

mod answer;
mod confirm;
mod contract;
mod flows;
mod property;
mod sessions;
mod wire;

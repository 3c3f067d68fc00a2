//! Tests.

mod answer;
mod confirm;
mod contract;
mod flows;
mod kills;
mod property;
mod sessions;
mod wire;

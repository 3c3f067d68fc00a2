//! Tests.

mod answer;
mod wire;

//! Tests.

mod exchange;
mod property;
mod wire;

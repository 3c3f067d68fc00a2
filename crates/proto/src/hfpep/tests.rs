//! Tests.

mod wire;

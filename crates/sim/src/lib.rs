//! Deterministic network simulation: the protocol cores in virtual time.

pub mod channel;
pub mod units;

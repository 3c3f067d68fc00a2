//! Traffic rules: pass a flow to a service with options, or block the flow. The first matching rule decides.
//!
//! ```text
//!            ┌─ Table ──────────────────────────────┐
//!            │ Rule: Selector ──▶ block             │──▶ Verdict::Block
//!   Flow ───▶│       Selector ──▶ pass with Options │
//!            │ none: the automatic choice           │──▶ Verdict::Pass to a service
//!            └──────────────────────────────────────┘
//! ```
//!
//! `docs/guide/rules.md` explains the syntax of rules and how to see their decisions.

#![warn(clippy::disallowed_methods, reason = "time comes in as `now: Time`, and cores never wait")]

mod fragments;
mod ports;
mod rule;
mod selector;
mod table;
#[cfg(test)]
mod tests;

pub use ports::{NoPorts, PortRange, Ports};
pub use rule::{Action, Handshake, Options, PARAMETERS, Refusal, Rule, Service};
pub use selector::{Field, Flow, Impossible, NoProtocol, Protocol, Selector};
pub use table::{Cause, Config, Counters, Decision, Explanation, Stats, Table, Verdict};

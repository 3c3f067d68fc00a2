//! Live tests: real programs over real interfaces, each test in its own network namespaces.
//!
//! Live tests need root, so plain `cargo test` reports them as ignored; `./test` runs them.

#![expect(clippy::unwrap_used, reason = "tests")]

mod air;
mod animation;
mod attack;
mod beside;
mod check;
mod clear;
mod clock;
mod demo;
mod doctor;
mod examples;
mod explain;
mod gateway;
mod gre;
mod hf;
mod link;
mod logs;
mod managers;
mod manet;
mod namespaces;
mod obstacles;
mod reroute;
mod rights;
mod routing;
mod rules;
mod sar;
mod split;
mod standby;
mod storm;
mod tunnel;
mod walks;
mod ways;

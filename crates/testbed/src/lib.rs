//! Networks of namespaces on one machine, for live tests and benchmarks; no part of the gateway.
//!
//! ```text
//!   Namespaces    hosts, their cables and emulated links, and what runs in them
//!   Pair          two hosts on a cable
//!   Sites         two local networks with a gateway each
//!   Program       one program: started, watched, ended
//!   give_back     ends a benchmark early
//!   traffic       TCP connections of a test: transfers and flows in its background, single calls
//!   probe         what benchmarks measure with: pings, iperf3, requests, clients of HF nodes, a bare forwarder
//! ```
//!
//! Whatever is made here is gone when its [`Namespaces`] are dropped, also when a test fails.

mod give_back;
mod namespaces;
mod pair;
pub mod probe;
mod program;
mod sites;
pub mod traffic;

pub use give_back::give_back;
pub use namespaces::{Emulated, Namespaces, PREFIX};
pub use pair::Pair;
pub use program::{Program, SOON, wait_until};
pub use sites::Sites;

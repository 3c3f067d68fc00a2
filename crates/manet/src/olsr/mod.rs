//! OLSR: every node knows routes to all others before it needs them (RFC 3626).
//!
//! ```text
//!            HELLO: whom do I hear, whom do I choose to carry for me
//!  ┌──────┐ ◀─────────────────────────────────────▶ ┌──────┐
//!  │ node │                                         │ node │──▶ carries TC, MID and HNA messages
//!  └──────┘ ◀────────────────────────────────────── └──────┘    of those that chose it to all nodes
//!            TC: who chose me · MID: my other addresses · HNA: networks behind me
//!
//!  HELLO ──▶ Neighbourhood ──▶ mpr: whom to choose ─┐
//!  TC ─────▶ Topology ────┐                         ├──▶ HELLO, TC ──▶ Outbox
//!  MID, HNA ▶ tables ─────┴──▶ routes ──▶ Event     ┘     forwarded messages ──▶
//! ```

mod advert;
mod config;
mod mpr;
mod neighbourhood;
mod numbers;
mod outbox;
mod router;
mod routes;
mod soft;
mod stats;
mod topology;
pub mod wire;

pub use config::{Bounds, Config, Hysteresis, PARAMETERS, TcRedundancy};
pub use router::Olsr;
pub use stats::{Counter, Stats};

use std::net::Ipv4Addr;

/// The UDP port that messages come from and go to.
pub const PORT: u16 = 698;

/// Whether a node can have this address: networks, groups and special addresses are excluded.
fn is_node(address: Ipv4Addr) -> bool {
    matches!(address.octets()[0], 1..=126 | 128..=223)
}

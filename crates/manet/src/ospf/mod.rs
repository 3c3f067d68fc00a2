//! OSPF on point-to-point links of one area: every router knows the whole map, and calculates its routes from it (RFC
//! 2328).
//!
//! ```text
//!                hello: I hear you                      who is at the other end
//!  ┌────────┐ ◀───────────────────────────▶ ┌────────┐
//!  │ router │ ◀─ database description ────▶ │ router │  what do you know, what do I lack
//!  └────────┘ ◀─ request, update ─────────▶ └────────┘  until both know the same: Full
//!             ◀─ update, acknowledgement ─▶             every change goes to all, hop by hop
//!
//!  packet ──▶ hello ─────▶ Peer ─┐
//!         ──▶ exchange ──▶ Peer ─┼──▶ own LSA ──▶ Database ──▶ spf ──▶ Event
//!         ──▶ flooding ──────────┴───────────────────▲  └──▶ packets to neighbours
//! ```
//!
//! `docs/protocols/manet.md` lists the parts left out.

mod config;
mod database;
mod router;
mod spf;
mod stats;
pub mod wire;

pub use config::{Bounds, Config, PARAMETERS};
pub use router::{Ospf, State};
pub use stats::{Counter, Stats};

use std::net::Ipv4Addr;

/// The IP protocol number of OSPF.
pub const PROTOCOL: u8 = base::ip::protocol::OSPF;

/// `AllSPFRouters`, which all packets on point-to-point links go to (RFC 2328, 8.1).
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 5);

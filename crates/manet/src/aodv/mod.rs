//! AODV (RFC 3561): finds a route when a packet needs one. Gateways answer for the Internet as in AODV-UU; sources
//! reach them through a half tunnel.
//!
//! ```text
//!  source            neighbours              destination, or who has a route
//!    │ request, TTL 1   │                        │
//!    │ ───to all──────▶ │                        │     each node that a request passes learns the
//!    │ request, TTL 3, after 240 ms              │     way back to the source
//!    │ ───to all──────▶ │ ───────to all────────▶ │
//!    │                  │ ◀───────reply───────── │     each node that a reply passes learns the way
//!    │ ◀────reply────── │                        │     to the destination, and who uses it
//!    │                  │                        │
//!    │ ◀────error────── │ ✗                      │     those are told when it breaks
//! ```
//!
//! Each node counts sequence numbers for itself: they order news by age, and prevent loops.

mod config;
mod discovery;
mod internet;
mod neighbours;
mod node;
mod outbox;
mod requests;
mod stats;
mod table;
pub mod wire;

pub use config::{
    Bounds, Config, Hello, Hellos, Internet, PARAMETERS, Profile, Ring, Unidirectional,
};
pub use node::Aodv;
pub use stats::{Dropped, Received, Sent, Stats};

/// The UDP port of AODV (RFC 3561, 6).
pub const PORT: u16 = 654;

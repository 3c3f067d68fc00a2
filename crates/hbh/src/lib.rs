//! HBH, hop-by-hop reliability and back-pressure between IP and transport ("layer 3.5").
//!
//! ```text
//!            handle_packet (towards a peer)         poll_transmit (a link has room)
//!  routing ────────────────────────────────▶ ┌───────┐ ────────────────────────▶  link
//!          ◀──────────────────────────────── │ Relay │ ◀────────────────────────
//!            poll_restored                   └───────┘   handle_message (protocol 253)
//!                                   next_timeout / handle_timeout
//! ```
//!
//! Every node of the network runs one [`Relay`]. The driver decides where a packet goes: it hands a
//! packet whose next hop speaks HBH to [`Relay::handle_packet`], and an HBH packet that a neighbour
//! sent to [`Relay::handle_message`]; the driver routes packets from [`Relay::poll_restored`].
//!
//! A [`host::Host`] is the relay with what every node needs around it: neighbours found by hellos, authentication, and
//! other ways for packets whose route has changed. The gateway and the nodes of the simulator run one.

#![warn(clippy::disallowed_methods, reason = "time comes in as `now: Time`, and cores never wait")]

pub mod auth;
mod budget;
mod config;
mod egress;
pub mod hello;
pub mod host;
mod link;
pub mod neighbours;
mod pacer;
mod packet;
mod peer;
mod pool;
mod receiver;
mod relay;
mod repair;
mod rtt;
mod runs;
mod sender;
pub mod stats;
#[cfg(test)]
mod tests;
pub mod wire;

pub use config::{Config, PARAMETERS, Profile, Redundancy, Rto};
pub use link::{Estimates, Link, LinkReport, Peer, PeerConfig};
pub use packet::TCP_LIFETIME;
pub use relay::{Event, Evidence, Relay};
pub use repair::OVERHEAD;
pub use stats::Stats;

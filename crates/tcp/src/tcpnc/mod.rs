//! TCP with network coding: a layer between TCP and IP that masks losses (TCP/NC, with loss-rate
//! estimation and enhanced retransmission).
//!
//! ```text
//!               handle_outgoing ┌─────────────────────────────┐ poll_transmit
//!   TCP        ───────────────▶ │ Layer   Sender    (coding)  │ ─────────────▶  IP
//!   Connection ◀─────────────── │         Receiver  (solving) │ ◀─────────────
//!               poll_segment    └─────────────────────────────┘ handle_packet
//!                              next_timeout / handle_timeout
//! ```
//!
//! Segments with data travel as combinations; all other segments pass unchanged. The receiver acknowledges the oldest
//! *unseen* packet, so TCP does not notice losses covered by the redundancy. `framing` carries IP packets in the octets
//! of a connection, for tunnels. The protocol is described in `docs/protocols/tcp.md`.

mod coefficients;
mod config;
mod decoder;
pub mod framing;
mod layer;
mod loss;
mod receiver;
pub mod redundancy;
mod sender;
mod stats;
#[cfg(test)]
mod tests;
pub mod wire;

pub use config::{Config, PARAMETERS};
pub use layer::Layer;
pub use loss::Estimator;
pub use stats::Stats;

/// The IP protocol number of the layer's packets: for experiments (RFC 3692).
pub const PROTOCOL: u8 = 254;

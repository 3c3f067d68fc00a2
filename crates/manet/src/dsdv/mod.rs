//! DSDV (Perkins and Bhagwat, 1994): every node regularly sends its distances to its neighbours, and sequence numbers
//! of the destinations keep routes free of loops.
//!
//! ```text
//!  handle_message ──▶ news of a destination ──▶ Table ──▶ poll_event: routes
//!                                                 │
//!  handle_timeout ──▶ full or triggered update ──▶ Outgoing ──▶ poll_transmit
//! ```
//!
//! `docs/protocols/manet.md` says what it does where descriptions leave a choice.

mod config;
mod router;
mod stats;
mod table;
#[cfg(test)]
mod tests;
pub mod wire;

pub use config::{Config, PARAMETERS};
pub use router::Dsdv;
pub use stats::Stats;

/// The UDP port of DSDV messages, as in ns-3.
pub const PORT: u16 = 269;

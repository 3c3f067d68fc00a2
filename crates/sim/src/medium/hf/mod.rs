//! Stations on one HF frequency: half-duplex radios, whole interleaver blocks, noise and fading.
//!
//! ```text
//!   start, supply, end     ┌────────┐   Path for each ordered pair:
//!  ──────────────────────▶ │ Medium │   noise, fading ─▶ bit errors, block by block
//!  ◀────────────────────── └────────┘
//!   room, Event: carrier, octets, sent
//! ```
//!
//! Timeline of one transmission at its sender and a listener:
//!
//! ```text
//!  start  key up   preamble    block 0    block 1      last block  key down
//!    |──────|──────────────|──────────|──────────|─ ... ─|──────────|──|  Sent
//!                          ^ CarrierDetected     ^ Received 0 .. one for each block
//!                            (after propagation)   (after propagation and decoding)
//! ```
//!
//! The medium reads no clock, so it runs in virtual and in real time. Its constants and their
//! sources are in `docs/protocols/channels.md`.

mod air;
mod channel;
mod config;
mod curve;
mod fading;
mod medium;
mod net;
mod path;
mod signal;
#[cfg(test)]
mod tests;

pub(crate) use air::Air;
pub use channel::{Channel, NotAChannel, Variation};
pub use config::{Config, StationId, Stats, Timing};
pub use medium::Medium;
pub use net::Net;
pub use path::PathStats;

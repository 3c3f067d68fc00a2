//! Stations share one radio channel by the distributed coordination function of IEEE 802.11.
//!
//! ```text
//!   send           ┌────────┐   MACs: when a station sends
//!  ──────────────▶ │ Medium │   Ear: what it hears, and its back-off
//!  ◀────────────── └────────┘   Field: who is near whom
//!   Sent, Failed, Received
//! ```
//!
//! One packet, as a third station in range sees it:
//!
//! ```text
//!  busy │DIFS│ back-off │ RTS │SIFS│ CTS │SIFS│ data          │SIFS│ ACK │DIFS│ ...
//! ──────┴────┴──────────┴─────┴────┴─────┴────┴───────────────┴────┴─────┴────┴──
//!             slots, while        └──────── NAV from the RTS ───────────┘
//!             all is free
//! ```
//!
//! The medium reads no clock, so it runs in virtual and in real time. What is modelled, every
//! parameter and its source are in `docs/protocols/channels.md`.

mod agenda;
mod air;
pub mod bianchi;
mod capture;
mod config;
mod ear;
mod field;
mod frame;
mod medium;
mod propagation;
#[cfg(test)]
mod tests;
mod timing;

pub(crate) use air::Air;
pub use config::{Config, PARAMETERS, StationId, Stats};
pub use frame::{Event, Frame, FrameKind, Transmission};
pub use medium::Medium;
pub use timing::AirTime;

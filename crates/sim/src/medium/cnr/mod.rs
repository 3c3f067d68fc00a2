//! Combat net radio: stations share one slow channel as in MIL-STD-188-220.
//!
//! ```text
//!   send           ┌────────┐   Outbox: frames that wait, by precedence
//!  ──────────────▶ │ Medium │   access: when a station may transmit
//!  ◀────────────── └────────┘   hearing: who hears whom, and ways over relays
//!   Received, Sent, Failed, ...  AirTime: how long it all takes
//! ```
//!
//! One transmission at a receiving station:
//!
//! ```text
//!  │ key-up │ phasing │ header │ frame │ frame │ ... │lag│ timeout period │ NAD │ next transmission
//!  │◀─ net busy detect time ─▶│                          └ coupled acknowledgements, if any
//! ```
//!
//! Two stations that begin within the net busy detect time of each other collide. The medium reads no
//! clock. What is modelled, every parameter and how sure it is are in `docs/protocols/channels.md`.

mod access;
mod airtime;
mod config;
mod frame;
mod hearing;
mod layout;
mod medium;
mod net;
mod outbox;
mod station;
#[cfg(test)]
mod tests;

pub use airtime::AirTime;
pub use config::{
    AccessMethod, Coding, Config, HybridShares, LinkType, PARAMETERS, Preset, Scheduling,
    StationId, Stats, Timing,
};
pub use frame::{Event, Frame, Precedence, Targets, Transmission, TransmissionKind};
pub use hearing::{Hearing, NoSuchHearing};
pub use medium::Medium;
pub(crate) use net::Net;

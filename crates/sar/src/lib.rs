//! Messages over UDP: the segmentation/reassembly protocol of MIL-STD-2045-47001, made adaptive.
//!
//! ```text
//!           submit                                                  poll_transmit
//!  program ─────────▶ ┌─────────┐ start ┌───────────┐ ─────────────────────────▶  UDP, port 1624
//!                     │ Waiting │──────▶│ Outgoing  │ segments, repairs, requests
//!                     └─────────┘       └───────────┘ ◀────────────┐
//!          ◀──────────── outcomes ───────────┘        acknowledgements
//!           poll_event                                             │
//!          ◀────────── messages ──────── ┌──────────┐ ◀────────────┴──────────
//!                                        │ Incoming │          handle_datagram
//!                                        └──────────┘ ─── Answers ──────────▶
//! ```
//!
//! A [`Sar`] is a node: it sends to any destinations and receives from any sources. The octets are in
//! [`wire`]; what can be set, the profiles and our extension of the wire are in `docs/protocols/sar.md`.

#![warn(clippy::disallowed_methods, reason = "time comes in as `now: Time`, and cores never wait")]

mod answers;
mod config;
mod deadlines;
mod endpoint;
mod estimate;
mod finished;
mod incoming;
mod message;
mod outgoing;
mod peers;
mod receiver;
mod repair;
mod sender;
mod serials;
mod shares;
mod stats;
#[cfg(test)]
mod tests;
mod waiting;
pub mod wire;

pub use config::{Config, Flow, Limits, PARAMETERS, Profile, Retries, Times};
pub use endpoint::Sar;
pub use finished::{Ending, Remembered};
pub use message::{
    Arrival, Delivered, Event, Failure, Message, MessageId, NotTaken, Options, Outcome, Precedence,
    Resume, Transmit,
};
pub use shares::Source;
pub use stats::Stats;
pub use wire::Ports;

/// The UDP port that PDUs are sent to.
pub const PORT: u16 = 1624;

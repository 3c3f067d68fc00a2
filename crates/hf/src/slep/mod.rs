//! Streams and datagrams over STANAG 5066: the SIS Layer Extension Protocol.
//!
//! ```text
//!        open, write, read                            poll_octets
//!  user ───────────────────▶ ┌───────────┐ ┌────────┐ ───────────▶  node's subnetwork
//!       ◀─────────────────── │ Sending   │ │ Client │ ◀───────────  interface, TCP
//!            poll_event      │ Receiving │ └────────┘ handle_octets
//!                            └───────────┘      └── unconfirmed: at most the window
//!                              a stream: two directions, parts kept until the other end has them
//! ```
//!
//! The octets are in [`wire`]. The page `docs/protocols/slep.md` explains their meaning, the parameters and the
//! reasons.

mod coding;
mod config;
mod datagrams;
mod endpoint;
mod peer;
mod reason;
mod receive;
mod schedule;
mod send;
mod shares;
mod stats;
mod stream;
#[cfg(test)]
pub(crate) mod tests;
mod timers;
pub mod wire;

pub use config::{Config, Limits, Options, PARAMETERS, Source, Times};
pub use datagrams::{Datagram, Delivery};
pub use endpoint::{Event, Slep};
pub use reason::Reason;
pub use receive::Read;
pub use stats::Stats;
pub use stream::{Break, NotOpened, Status, Traffic, Waiting};
pub use timers::{DatagramId, StreamId};
pub use wire::Addresses;

//! The subnetwork interface sublayer, Annex A: clients, and their messages to each other.
//!
//! ```text
//!           send                octets of a TCP connection            poll_request
//!  user ─────────▶  ┌────────┐ ────────────────────────▶ ┌────────┐ ─────────────▶  links, ARQ
//!       ◀─────────  │ Client │ ◀──────────────────────── │ Server │ ◀─────────────
//!        poll_event └────────┘       S_primitives        └────────┘ handle_outcome, handle_indication
//!                                                             ▲ S_PDUs
//!                                                             ▼ between the servers of two nodes
//! ```
//!
//! The wire: [`primitive`] inside [`stream`], and [`spdu`]. Points left open by the standard, and the behaviour at
//! each bound, are in `docs/protocols/s5066.md`.

pub mod client;
mod delivery;
mod keep_alive;
mod messages;
mod output;
pub mod primitive;
mod reason;
pub mod server;
pub mod spdu;
pub mod stream;
#[cfg(test)]
mod tests;
mod ttd;

pub use super::service::{ClientId, Mode};
pub use client::Client;
pub use delivery::{Confirmation, Delivery, NotDeliverable, Service};
pub use messages::{PeerState, PeerStatus};
pub use primitive::Primitive;
pub use reason::{
    BindReason, LinkReason, NodeStatus, TerminateReason, UnavailableReason, UnbindReason,
    UnidataReason,
};
pub use server::{Config, Confirm, Event, FlowControl, Limits, Server, Stats};
pub use ttd::Ttd;

use std::fmt;

use base::parameter::{Kind, Settable, Value};

/// A subnetwork access point: what a port is to TCP, 0 to 15.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Sap(u8);

impl Sap {
    /// The IP client, Annex F table F-1.
    pub const IP_CLIENT: Self = Self(9);

    /// The access point with this number, of which only the low four bits count.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number & 0x0f)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The access point in the high half of an octet.
    const fn high(octet: u8) -> Self {
        Self(octet >> 4)
    }
}

impl Settable for Sap {
    fn to_value(&self, kind: &Kind) -> Value {
        self.0.to_value(kind)
    }

    fn from_value(value: &Value) -> Option<Self> {
        u8::from_value(value).map(Self::new)
    }
}

impl fmt::Display for Sap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

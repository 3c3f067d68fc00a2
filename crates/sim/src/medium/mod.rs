//! Media carry packets from port to port.
//!
//! ```text
//!              transmit                    deliver, lose, set_idle, wake
//!  idle port ────────────▶ Box<dyn Medium> ─────────────────────────────▶ Delivery ─▶ Queue
//!                               ▲  handle_event(token)                                  │
//!                               └───────────────────────────────────────────────────────┘
//! ```
//!
//! A medium is a folder here that implements [`Medium`]; nothing else knows it.

pub mod cnr;
mod delivery;
pub mod hf;
pub mod radio;
mod room;
mod stations;
pub mod wire;

use std::any::Any;
use std::fmt::Debug;
use std::net::IpAddr;

use base::time::Time;

use crate::engine::packets::PacketId;
use crate::ids::PortId;

pub use delivery::Delivery;
pub use room::{Admission, Room};

/// Something that carries packets between the ports attached to it.
///
/// The engine calls `attach` and `handle_address` while a network is built. In a run it calls
/// `transmit` with a packet of an idle port, and `handle_event` with what the medium asked for by
/// [`Delivery::wake`]. For each packet the medium calls [`Delivery::deliver`] once for every
/// receiver, or [`Delivery::lose`], or [`Delivery::fail`] when it knows that the receiver did not get it; and
/// [`Delivery::set_idle`] when the port may transmit again, at once or from an event of its own.
pub trait Medium: Any + Debug + Send {
    /// Takes a port, which is idle.
    fn attach(&mut self, port: PortId);

    /// Learns that a port has an address. Media whose ports are found by address remember it.
    fn handle_address(&mut self, _port: PortId, _address: IpAddr) {}

    /// Takes a packet from an idle port.
    fn transmit(
        &mut self,
        delivery: &mut Delivery<'_>,
        from: PortId,
        to: LinkAddress,
        packet: PacketId,
    );

    /// Acts on an event that it asked for. An event that no longer matters does nothing.
    fn handle_event(&mut self, _delivery: &mut Delivery<'_>, _token: u32) {}

    /// The link address for sending from a port to the neighbour with this IP address.
    fn resolve(&self, port: PortId, address: IpAddr) -> Option<LinkAddress>;

    /// The ports that hear a port directly now, as far as shortest paths and HBH are to use them.
    fn neighbours(&self, now: Time, port: PortId) -> Vec<Neighbour>;

    /// Whether a port has neighbours, now or later: where neighbours come and go, also while none is near.
    fn has_neighbours(&self, now: Time, port: PortId) -> bool {
        !self.neighbours(now, port).is_empty()
    }

    /// Whether packets to one neighbour are repeated until they are acknowledged, or come back unsent.
    fn is_acknowledged(&self) -> bool {
        false
    }

    /// Number of packets inside the medium, without packets already scheduled for delivery.
    fn under_way(&self) -> usize {
        0
    }
}

/// Whom a medium brings a packet to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkAddress {
    /// Every port in range.
    Broadcast,
    /// One port.
    Port(PortId),
}

/// A port that hears another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Neighbour {
    /// Which.
    pub port: PortId,
    /// The cost that shortest paths count.
    pub cost: u32,
}

//! Applications on nodes: sources and sinks of traffic.
//!
//! Like the protocol cores they are plain state machines, each in a file of its own here.

pub mod bgp;
pub mod dialogue;
pub mod echo;
pub mod messages;
pub mod ping;
pub mod stamp;
pub mod stream;
pub mod transfer;

use std::any::Any;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

use base::ip::udp::Datagram;
use base::time::Time;

/// An application on a node.
///
/// The node calls one `handle` method, then `poll_connect` and `poll_transmit` until they have
/// nothing more, then `next_timeout`. Before, it binds an application that is `unbound_to` some
/// destination. An application with connections is asked to `drive` one whenever something has
/// happened to it.
pub trait App: Any + Debug + Send {
    /// Takes a datagram to its UDP port.
    fn handle_datagram(&mut self, _now: Time, _datagram: &Datagram<'_>) {}

    /// Takes an ICMP error about a datagram from its UDP port.
    fn handle_error(&mut self) {}

    /// Acts on what is due.
    fn handle_timeout(&mut self, _now: Time) {}

    /// Does all that a connection allows.
    fn drive(&mut self, _now: Time, _connection: &mut tcp::Connection) {}

    /// Sets the address to send from.
    fn bind(&mut self, _local: IpAddr) {}

    /// Takes a new connection to its TCP port; its TCP.
    fn accept(&mut self) -> Option<tcp::Config> {
        None
    }

    /// Asks for a connection: from where, to where, with which TCP.
    fn poll_connect(&mut self, _now: Time) -> Option<(SocketAddr, SocketAddr, tcp::Config)> {
        None
    }

    /// Writes the next IP packet to `out`; false when there is none yet.
    fn poll_transmit(&mut self, _now: Time, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// When to call `handle_timeout` at the latest.
    fn next_timeout(&self) -> Option<Time> {
        None
    }

    /// The future destination, while the application does not know its own address yet.
    fn unbound_to(&self) -> Option<IpAddr> {
        None
    }

    /// The UDP port on which the application receives datagrams.
    fn udp_port(&self) -> Option<u16> {
        None
    }

    /// The TCP port it listens on.
    fn tcp_port(&self) -> Option<u16> {
        None
    }

    /// The only port of peers that it serves, where several applications of a node share a port.
    fn source_port(&self) -> Option<u16> {
        None
    }
}

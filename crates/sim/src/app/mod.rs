//! What runs on nodes: sources and sinks of traffic.
//!
//! Like the protocol cores they are plain state machines. A routing protocol would be another one.

pub mod echo;
pub mod ping;
pub mod stamp;
pub mod stream;
pub mod transfer;

use std::net::{IpAddr, SocketAddr};

use proto::ip::udp::Datagram;
use proto::tcp;
use proto::time::Time;

/// An application at work.
#[derive(Debug)]
pub(crate) enum App {
    Echo(echo::Echo),
    Ping(ping::Ping),
    StreamSender(stream::Sender),
    StreamSink(stream::Sink),
    TransferSender(Box<transfer::Sender>),
    TransferSink(Box<transfer::Sink>),
}

impl App {
    /// Takes a datagram to this application's port.
    pub(crate) fn handle_datagram(&mut self, now: Time, datagram: &Datagram<'_>) {
        match self {
            Self::Echo(echo) => echo.handle_datagram(datagram),
            Self::Ping(ping) => ping.handle_datagram(now, datagram),
            Self::StreamSender(_) | Self::TransferSender(_) | Self::TransferSink(_) => {}
            Self::StreamSink(sink) => sink.handle_datagram(now, datagram),
        }
    }

    /// Takes an ICMP error about a datagram of this application.
    pub(crate) fn handle_error(&mut self) {
        match self {
            Self::Ping(ping) => ping.handle_error(),
            Self::StreamSender(sender) => sender.handle_error(),
            Self::Echo(_)
            | Self::StreamSink(_)
            | Self::TransferSender(_)
            | Self::TransferSink(_) => {}
        }
    }

    /// Writes the next IP packet to `out`; false when there is none yet.
    #[must_use]
    pub(crate) fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Echo(echo) => echo.poll_transmit(out),
            Self::Ping(ping) => ping.poll_transmit(now, out),
            Self::StreamSender(sender) => sender.poll_transmit(now, out),
            Self::StreamSink(_) | Self::TransferSender(_) | Self::TransferSink(_) => false,
        }
    }

    /// When to call `poll_transmit` at the latest.
    #[must_use]
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        match self {
            Self::Ping(ping) => ping.next_timeout(),
            Self::StreamSender(sender) => sender.next_timeout(),
            Self::TransferSender(sender) => sender.next_timeout(),
            Self::Echo(_) | Self::StreamSink(_) | Self::TransferSink(_) => None,
        }
    }

    /// Sets the address to send from.
    pub(crate) fn bind(&mut self, local: IpAddr) {
        match self {
            Self::Ping(ping) => ping.bind(local),
            Self::StreamSender(sender) => sender.bind(local),
            Self::TransferSender(sender) => sender.bind(local),
            Self::Echo(_) | Self::StreamSink(_) | Self::TransferSink(_) => {}
        }
    }

    /// Whom it will send to, if it does not know its own address yet.
    pub(crate) fn unbound_to(&self) -> Option<IpAddr> {
        match self {
            Self::Ping(ping) => ping.unbound_to(),
            Self::StreamSender(sender) => sender.unbound_to(),
            Self::TransferSender(sender) => sender.unbound_to(),
            Self::Echo(_) | Self::StreamSink(_) | Self::TransferSink(_) => None,
        }
    }

    /// The UDP port whose datagrams it takes.
    pub(crate) fn udp_port(&self) -> Option<u16> {
        match self {
            Self::Echo(echo) => Some(echo.port()),
            Self::Ping(ping) => Some(ping.port()),
            Self::StreamSender(sender) => Some(sender.port()),
            Self::StreamSink(sink) => Some(sink.port()),
            Self::TransferSender(_) | Self::TransferSink(_) => None,
        }
    }

    /// The TCP port it listens on.
    pub(crate) fn tcp_port(&self) -> Option<u16> {
        match self {
            Self::TransferSink(sink) => Some(sink.port()),
            Self::Echo(_)
            | Self::Ping(_)
            | Self::StreamSender(_)
            | Self::StreamSink(_)
            | Self::TransferSender(_) => None,
        }
    }

    /// Takes a new connection; its TCP.
    pub(crate) fn accept(&mut self) -> Option<tcp::Config> {
        match self {
            Self::TransferSink(sink) => Some(sink.accept()),
            Self::Echo(_)
            | Self::Ping(_)
            | Self::StreamSender(_)
            | Self::StreamSink(_)
            | Self::TransferSender(_) => None,
        }
    }

    /// Asks for a connection: from where, to where, with which TCP.
    pub(crate) fn poll_connect(
        &mut self,
        now: Time,
    ) -> Option<(SocketAddr, SocketAddr, tcp::Config)> {
        match self {
            Self::TransferSender(sender) => sender.poll_connect(now),
            Self::Echo(_)
            | Self::Ping(_)
            | Self::StreamSender(_)
            | Self::StreamSink(_)
            | Self::TransferSink(_) => None,
        }
    }

    /// Does all that a connection allows.
    pub(crate) fn drive(&mut self, now: Time, connection: &mut tcp::Connection) {
        match self {
            Self::TransferSender(sender) => sender.drive(now, connection),
            Self::TransferSink(sink) => sink.drive(now, connection),
            Self::Echo(_) | Self::Ping(_) | Self::StreamSender(_) | Self::StreamSink(_) => {}
        }
    }

    /// Acts on what is due.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if let Self::TransferSender(sender) = self {
            sender.handle_timeout(now);
        }
    }
}

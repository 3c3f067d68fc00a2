//! The beginning of half tunnels at a node: how long packets may be on their way to each gateway.
//!
//! ```text
//!   a router's ICMP, about a packet of protocol 55 ─▶ raw socket ─▶ Inlet: the path's MTU
//! ```
//! The kernel knows nothing of half tunnels, and would tell nobody.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use base::ip::icmp::{Error, Report};
use base::ip::{Checksum, Header, minimal, protocol};
use base::time::Time;
use manet::path_mtu::PathMtus;
use tracing::trace;

use crate::config::routing::OnDemand;
use crate::service::{Entry, entries};
use crate::sys::Protocol;

/// Errors taken before others have their turn.
const READS: usize = 64;
/// Longest packet with an error that we read: more than the limit of 576 octets (RFC 1812, 4.3.2.3), as some senders
/// ignore the limit.
const LONGEST: usize = 2_048;

/// The socket that hears errors.
#[derive(Debug)]
pub struct Inlet {
    socket: Protocol,
    paths: PathMtus,
    buffer: Box<[u8]>,
    counters: Counters,
}

base::counters! {
    /// Counters of half tunnels that begin here.
    #[derive(Debug, Default)]
    struct Counters {
        /// Errors of routers: a packet in a half tunnel was too long for them.
        half_tunnels_narrowed: counter(messages);
    }
}

impl Inlet {
    /// Opens the socket, at a node that reaches the Internet by half tunnels.
    ///
    /// # Errors
    /// When the right to is missing.
    pub fn set_up(on_demand: &OnDemand) -> anyhow::Result<Option<Self>> {
        if !on_demand.has_internet {
            return Ok(None);
        }
        let socket = Protocol::open_errors()
            .context("cannot open a raw socket: root or CAP_NET_RAW is needed")?;
        let buffer = vec![0; LONGEST].into_boxed_slice();
        let (paths, counters) = (PathMtus::default(), Counters::default());
        Ok(Some(Self { socket, paths, buffer, counters }))
    }

    /// Takes the errors that have come; `local` are this host's addresses.
    pub fn take(&mut self, now: Time, local: &BTreeSet<Ipv4Addr>) {
        for _ in 0..READS {
            let len = match self.socket.receive(&mut self.buffer) {
                Ok(Some(len)) => len,
                Ok(None) => return,
                Err(error) => {
                    trace!(%error, "no ICMP");
                    return;
                }
            };
            let Some((gateway, octets, mtu)) = too_big(&self.buffer[..len], local) else {
                continue;
            };
            self.counters.half_tunnels_narrowed += 1;
            self.paths.handle_too_big(now, gateway, octets, mtu);
        }
    }

    /// Octets of the largest packet that fits into the half tunnel to `gateway`, over interfaces with this `mtu`.
    pub fn room(&self, now: Time, gateway: Ipv4Addr, mtu: usize) -> usize {
        self.paths.mtu(now, gateway, mtu).saturating_sub(minimal::OVERHEAD)
    }

    pub fn counters(&self) -> Vec<Entry> {
        entries("routing_", &self.counters)
    }
}

impl AsFd for Inlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reads an ICMP error about a packet of this host that was too long in the half tunnel to a gateway: returns the
/// gateway, the packet's length, and the length that would have fitted.
fn too_big(packet: &[u8], local: &BTreeSet<Ipv4Addr>) -> Option<(Ipv4Addr, usize, usize)> {
    let header = Header::parse(packet).ok().filter(|it| it.protocol == protocol::ICMP)?;
    let message = packet.get(header.len..header.total_len)?;
    if Checksum::default().with(message).finish() != 0 {
        return None;
    }
    let Report { error, flow, octets, .. } = Report::parse(&header, message)?;
    let (Some(Error::TooBig { mtu }), IpAddr::V4(source), IpAddr::V4(gateway)) =
        (error, flow.source, flow.destination)
    else {
        return None;
    };
    let is_ours = flow.protocol == protocol::MINIMAL && local.contains(&source);
    is_ours.then_some((gateway, octets, mtu.into()))
}

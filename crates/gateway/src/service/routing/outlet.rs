//! The end of half tunnels at a gateway: packets of the MANET's nodes to the Internet.
//!
//! ```text
//!   node ─ IP, protocol 55 ─▶ raw socket ─▶ Outlet ─▶ TUN device ─▶ routing, firewall, NAT ─▶ Internet
//! ```
//! What comes back is forwarded to the node as it is.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use base::ip::{Header, Prefix, minimal, protocol};
use tracing::{trace, warn};

use crate::config;
use crate::config::routing::OnDemand;
use crate::service::{Entry, entries};
use crate::sys::{Protocol, Tap};

/// Packets taken before others have their turn.
const READS: usize = 64;
const LONGEST: usize = 64 << 10;
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// The socket that half tunnels end at.
#[derive(Debug)]
pub struct Outlet {
    socket: Protocol,
    manet: Option<Prefix>,
    buffer: Box<[u8]>,
    counters: Counters,
}

base::counters! {
    /// Counters of half tunnels that end here.
    #[derive(Debug, Default)]
    struct Counters {
        /// Packets taken out of half tunnels.
        packets_decapsulated: counter(packets);
        /// Dropped: no such packet, or damaged.
        packets_not_decapsulated: counter(packets);
        /// Dropped: from a host outside the MANET, or to a host inside.
        packets_misdirected: counter(packets);
        /// Dropped: their source is an address of this gateway.
        packets_from_self: counter(packets);
    }
}

impl Outlet {
    /// Opens the socket, at a gateway.
    ///
    /// # Errors
    /// When the right to is missing.
    pub fn set_up(config: &config::Routing, on_demand: &OnDemand) -> anyhow::Result<Option<Self>> {
        if !on_demand.is_gateway {
            return Ok(None);
        }
        let socket = Protocol::open(protocol::MINIMAL)
            .context("cannot open a raw socket: root or CAP_NET_RAW is needed")?;
        if fs::read_to_string(FORWARDING).is_ok_and(|is| is.trim() == "0") {
            warn!(
                "net.ipv4.ip_forward is 0: nothing that the Internet answers is passed on; \
                 `sysctl -w net.ipv4.ip_forward=1` on this gateway changes that"
            );
        }
        let buffer = vec![0; LONGEST].into_boxed_slice();
        Ok(Some(Self { socket, manet: config.manet, buffer, counters: Counters::default() }))
    }

    /// Gives received packets to the kernel, as if the device had received them; `local` are this host's addresses.
    pub fn take(&mut self, tun: &Tap, local: &BTreeSet<Ipv4Addr>) {
        for _ in 0..READS {
            let len = match self.socket.receive(&mut self.buffer) {
                Ok(Some(len)) => len,
                Ok(None) => return,
                Err(error) => {
                    trace!(%error, "no packet of a half tunnel");
                    return;
                }
            };
            let mut packet = self.buffer[..len].to_vec();
            let inner =
                minimal::decapsulate(&mut packet).ok().and_then(|()| Header::parse(&packet).ok());
            let Some(header) = inner else {
                self.counters.packets_not_decapsulated += 1;
                continue;
            };
            if !self.is_outward(&header) {
                self.counters.packets_misdirected += 1;
                continue;
            }
            // The kernel takes what comes by the device from an address of this host's for ours.
            if matches!(header.source, IpAddr::V4(source) if local.contains(&source)) {
                self.counters.packets_from_self += 1;
                continue;
            }
            match tun.write(&packet) {
                Ok(()) => self.counters.packets_decapsulated += 1,
                Err(error) => trace!(%error, "packet not taken by the device"),
            }
        }
    }

    /// Whether a packet goes from a node of the MANET to somebody who is none.
    fn is_outward(&self, header: &Header) -> bool {
        let IpAddr::V4(destination) = header.destination else { return false };
        let is_node = |address| self.manet.is_some_and(|manet| manet.contains(address));
        let is_host = !destination.is_multicast()
            && !destination.is_broadcast()
            && !destination.is_loopback()
            && !destination.is_unspecified();
        is_node(header.source) && !is_node(header.destination) && is_host
    }

    pub fn counters(&self) -> Vec<Entry> {
        entries("routing_", &self.counters)
    }
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

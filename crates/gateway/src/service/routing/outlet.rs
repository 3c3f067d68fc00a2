//! The end of half tunnels at a gateway: packets of the MANET's nodes to the Internet.
//!
//! ```text
//!   node ─ IP, protocol 55 ─▶ raw socket ─▶ Outlet ─▶ TUN device ─▶ routing, firewall, NAT ─▶ Internet
//! ```
//! What comes back is forwarded to the node as it is.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use base::ip::protocol;
use manet::host::Host;
use tracing::{trace, warn};

use crate::config::routing::OnDemand;
use crate::sys::{Protocol, Tap};

/// Packets taken before others have their turn.
const READS: usize = 64;
const LONGEST: usize = 64 << 10;
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// The socket that half tunnels end at.
#[derive(Debug)]
pub struct Outlet {
    socket: Protocol,
    buffer: Box<[u8]>,
}

impl Outlet {
    /// Opens the socket, at a gateway.
    ///
    /// # Errors
    /// When the right to is missing.
    pub fn set_up(on_demand: &OnDemand) -> anyhow::Result<Option<Self>> {
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
        Ok(Some(Self { socket, buffer: vec![0; LONGEST].into_boxed_slice() }))
    }

    /// Gives received packets to the kernel, as if the device had received them.
    pub fn take(&mut self, tun: &Tap, host: &mut Host<Vec<u8>>) {
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
            if host.decapsulate(&mut packet)
                && let Err(error) = tun.write(&packet)
            {
                trace!(%error, "packet not taken by the device");
            }
        }
    }
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

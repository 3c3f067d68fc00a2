//! The beginning of half tunnels at a node: hears how long packets may be on their way to each gateway.
//!
//! ```text
//!   a router's ICMP, about a packet of protocol 55 ─▶ raw socket ─▶ Inlet ─▶ Host: the path's MTU
//! ```
//! The kernel knows nothing of half tunnels, and would tell nobody.

use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use base::ip::Header;
use base::ip::icmp::Report;
use base::time::Time;
use manet::host::Host;
use tracing::trace;

use crate::config::routing::OnDemand;
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
    buffer: Box<[u8]>,
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
        Ok(Some(Self { socket, buffer: vec![0; LONGEST].into_boxed_slice() }))
    }

    /// Takes the errors that have come.
    pub fn take(&mut self, now: Time, host: &mut Host<Vec<u8>>) {
        for _ in 0..READS {
            match self.socket.receive(&mut self.buffer) {
                Ok(Some(len)) => {
                    if let Some(Report { error, flow, octets, .. }) = report(&self.buffer[..len]) {
                        host.handle_error(now, &flow, octets, error);
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    trace!(%error, "no ICMP");
                    return;
                }
            }
        }
    }
}

impl AsFd for Inlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reads an ICMP error.
fn report(packet: &[u8]) -> Option<Report> {
    Report::of_packet(&Header::parse(packet).ok()?, packet)
}

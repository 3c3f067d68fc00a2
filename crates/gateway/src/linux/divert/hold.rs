//! Holds SYNs: the kernel reports them instead of delivering them, and later they are let in or refused.
//!
//! ```text
//!   rule ─ log, drop ─▶ NFLOG ─▶ Syn ─┬─ let in ─▶ raw socket, with a mark ─▶ lo ─▶ prerouting ─▶ listener
//!                                     └─ refuse ─▶ raw socket: reset or ICMP ─▶ client
//! ```
//! The kernel keeps nothing meanwhile: a SYN lost on this way counts as lost in the network, and its sender
//! repeats it.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use base::ip::Header;
use base::ip::icmp::Error;
use host::logged::Logged;
use host::numbers::Mark;

use super::plan::{GROUP, LET_IN, REFUSED};
use super::syn::Syn;
use crate::sys::Raw;

/// Octets of a reported packet at most: a SYN is shorter.
const LONGEST: u32 = 1_500;
/// SYNs read in one go at most, as a sender may be faster than the reader.
const READS: usize = 256;
/// Receives held SYNs, and lets them in or refuses them.
#[derive(Debug)]
pub(crate) struct Hold {
    told: Logged,
    let_in: Raw,
    refused: Raw,
}

/// The refusal sent to the sender of a SYN.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Denial {
    /// An ICMP error.
    Icmp(Error),
    /// A reset by its target.
    Reset,
}

impl Hold {
    /// Listens to what rules hold from now on.
    ///
    /// # Errors
    /// When a right or a part of the kernel is missing, or another process listens, with the remedy.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let told = Logged::open(GROUP, LONGEST).with_context(|| {
            format!(
                "handshake = \"end-to-end\" cannot be had: NFLOG group {GROUP} is in use by another \
                 process, or the kernel lacks NFT_LOG and NETFILTER_NETLINK_LOG (`modprobe -a \
                 nft_log nfnetlink_log`)"
            )
        })?;
        let raw = |mark: Mark| {
            Raw::open_marked(mark.value()).context(
                "handshake = \"end-to-end\" cannot be had: raw sockets are for root, or who has \
                 CAP_NET_RAW and CAP_NET_ADMIN",
            )
        };
        Ok(Self { told, let_in: raw(LET_IN)?, refused: raw(REFUSED)? })
    }

    /// Calls `each` with each arrived SYN and the name of the rule that holds it; `None` stands for an unreadable
    /// SYN. Returns whether the kernel had no room for further SYNs.
    ///
    /// # Errors
    /// When the socket is broken.
    pub(crate) fn read(
        &mut self,
        mut each: impl FnMut(Option<(String, Syn)>),
    ) -> anyhow::Result<bool> {
        let read = self.told.read(READS, |name, packet| {
            each(Syn::parse(packet).map(|syn| (name.into_owned(), syn)));
        });
        read.context("the kernel does not tell of SYNs any more")
    }

    /// Lets the kernel have a SYN as if no rule had held it.
    ///
    /// # Errors
    /// When the kernel does not take it.
    pub(crate) fn let_in(&self, syn: &Syn) -> io::Result<()> {
        send(&self.let_in, &syn.packet)
    }

    /// Refuses a SYN: tells the sender that there is no connection.
    ///
    /// # Errors
    /// When no way leads back to it.
    pub(crate) fn deny(&self, syn: &Syn, denial: Denial) -> io::Result<()> {
        let answer = match denial {
            Denial::Icmp(error) => syn.error(error, own_towards(syn.client.ip())?),
            Denial::Reset => syn.reset(),
        };
        answer.map_or(Ok(()), |answer| send(&self.refused, &answer))
    }
}

impl AsFd for Hold {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }
}

fn send(raw: &Raw, packet: &[u8]) -> io::Result<()> {
    let header = Header::parse(packet).map_err(io::Error::other)?;
    raw.send(&header, packet)
}

/// The source address that the kernel uses towards another host.
fn own_towards(other: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if other.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    // Nothing is sent by this. The port does not matter to the route.
    socket.connect((other, 9))?;
    Ok(socket.local_addr()?.ip())
}

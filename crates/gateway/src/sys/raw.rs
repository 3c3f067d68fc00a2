//! Sends whole IP packets, headers included, into the kernel's own routing.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd as _, OwnedFd};

use base::ip::Header;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    self, AddressFamily, ControlMessage, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn,
    SockaddrIn6,
};

/// Sockets that send ready-made packets as if a program on this node had made them.
///
/// They pass OUTPUT and POSTROUTING, and the kernel finds their way.
#[derive(Debug)]
pub struct Raw {
    v4: OwnedFd,
    /// Absent on a machine without IPv6.
    v6: Option<OwnedFd>,
}

impl Raw {
    /// Opens sockets whose packets carry a mark.
    ///
    /// # Errors
    /// When the right to open raw sockets, or to mark packets, is missing.
    pub fn open_marked(mark: u32) -> io::Result<Self> {
        let raw = Self::open()?;
        for socket in [Some(&raw.v4), raw.v6.as_ref()].into_iter().flatten() {
            socket::setsockopt(socket, socket::sockopt::Mark, &mark)?;
        }
        Ok(raw)
    }

    /// Opens the sockets.
    ///
    /// # Errors
    /// When the right to open raw sockets is missing.
    pub fn open() -> io::Result<Self> {
        let open = |family| -> Result<OwnedFd, Errno> {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            socket::socket(family, SockType::Raw, flags, SockProtocol::Raw)
        };
        let v6 = open(AddressFamily::Inet6).and_then(|v6| {
            allow_any_source(&v6)?;
            Ok(v6)
        });
        Ok(Self { v4: open(AddressFamily::Inet)?, v6: v6.ok() })
    }

    /// Sends a packet; rules by its source hold.
    ///
    /// # Errors
    /// When there is no route, a rule forbids it, or it is longer than the way there carries.
    pub fn send(&self, header: &Header, packet: &[u8]) -> io::Result<()> {
        let slices = [IoSlice::new(packet)];
        let flags = MsgFlags::MSG_DONTWAIT;
        match (header.source, header.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let to = SockaddrIn::from(SocketAddrV4::new(destination, 0));
                let source = libc::in_addr { s_addr: u32::from_ne_bytes(source.octets()) };
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: source,
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                let from = [ControlMessage::Ipv4PacketInfo(&info)];
                socket::sendmsg(self.v4.as_raw_fd(), &slices, &from, flags, Some(&to))?;
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let Some(v6) = &self.v6 else { return Err(Errno::EAFNOSUPPORT.into()) };
                let to = SockaddrIn6::from(SocketAddrV6::new(destination, 0, 0, 0));
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: source.octets() },
                    ipi6_ifindex: 0,
                };
                let from = [ControlMessage::Ipv6PacketInfo(&info)];
                socket::sendmsg(v6.as_raw_fd(), &slices, &from, flags, Some(&to))?;
            }
            _ => return Err(Errno::EAFNOSUPPORT.into()),
        }
        Ok(())
    }
}

/// Lets IPv6 packets have a source that is not this node's own: they are on their way. IPv4 asks
/// for nothing of the kind.
fn allow_any_source(v6: &OwnedFd) -> Result<(), Errno> {
    let yes = 1_i32;
    let len = libc::socklen_t::try_from(size_of_val(&yes)).expect("options are small");
    // SAFETY: `yes` is a whole `int` of `len` octets, which the kernel copies.
    let result = unsafe {
        libc::setsockopt(
            v6.as_raw_fd(),
            libc::SOL_IPV6,
            libc::IPV6_FREEBIND,
            (&raw const yes).cast(),
            len,
        )
    };
    Errno::result(result).map(drop)
}

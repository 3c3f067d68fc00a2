//! Asks the kernel about a route before sending by it.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, sockopt};

use super::Udp;

impl Udp {
    /// The source address that the kernel chooses towards `to` for packets with the firewall mark
    /// `mark`.
    ///
    /// # Errors
    /// When there is no route, or the right to mark is missing.
    pub fn route_source(to: SocketAddr, mark: u32) -> io::Result<IpAddr> {
        UdpSocket::from(towards(to, mark)?).local_addr().map(|at| at.ip())
    }
}

/// A socket that has looked for a route.
fn towards(to: SocketAddr, mark: u32) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd = socket::socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    socket::setsockopt(&fd, sockopt::Mark, &mark)?;
    socket::connect(fd.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(fd)
}

//! What the kernel says of a route before anything is sent by it.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::libc;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, sockopt};

use super::{Udp, socklen};

impl Udp {
    /// Octets of the longest packet that the route to `to` takes from here for what carries a firewall mark.
    ///
    /// # Errors
    /// When there is no route, or the right to mark is missing.
    pub fn route_mtu(to: SocketAddr, mark: u32) -> io::Result<usize> {
        let fd = towards(to, mark)?;
        let mtu = if to.is_ipv4() {
            socket::getsockopt(&fd, sockopt::IpMtu)?
        } else {
            get(&fd, libc::IPPROTO_IPV6, libc::IPV6_MTU)?
        };
        usize::try_from(mtu).map_err(io::Error::other)
    }

    /// The address that the kernel sends from to `to` for what carries a firewall mark.
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

fn get(fd: &OwnedFd, level: i32, option: i32) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut len = socklen::<i32>();
    // SAFETY: `value` is an `int` of `len` octets, alive for the call.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

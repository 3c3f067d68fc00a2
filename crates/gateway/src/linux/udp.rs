//! UDP sockets of HF-PEP, also ones that borrow addresses which are not this host's.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt};

use super::firewall::MARK;
use super::tcp::{family, flags};

/// A socket at an address of this host.
///
/// # Errors
/// When the address is taken, or none of this host's.
pub(crate) fn open(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = socket(family(at), SockType::Datagram, flags(), None)?;
    if at.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(at))?;
    Ok(UdpSocket::from(socket))
}

/// A socket that sends to one address, and hears what comes from there.
///
/// # Errors
/// When there is no way to it, or no descriptor.
pub(crate) fn open_towards(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = marked(to)?;
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(UdpSocket::from(socket))
}

/// The same from an address that need not be this host's, as [`super::divert`] brings its answers back. If the port
/// cannot be had, another is. Nothing else may be between both: the kernel would give its datagrams to either.
///
/// # Errors
/// When the right to borrow addresses is missing, or there is no way or descriptor.
pub(crate) fn open_from(from: SocketAddr, to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = marked(to)?;
    setsockopt(&socket, sockopt::IpTransparent, &true)?;
    // A client may send from one port to several targets.
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    match bind(socket.as_raw_fd(), &SockaddrStorage::from(from)) {
        // Below 1024 it takes a right that we have given up.
        Err(Errno::EADDRINUSE | Errno::EACCES) => {
            let any = SocketAddr::new(from.ip(), 0);
            bind(socket.as_raw_fd(), &SockaddrStorage::from(any))?;
        }
        outcome => outcome?,
    }
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(UdpSocket::from(socket))
}

fn marked(to: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket(family(to), SockType::Datagram, flags(), None)?;
    // Without the right to mark, nothing of ours diverts anything either.
    let _ = setsockopt(&socket, sockopt::Mark, &MARK);
    Ok(socket)
}

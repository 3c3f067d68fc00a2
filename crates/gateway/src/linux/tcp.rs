//! Opens TCP sockets, also with borrowed addresses of other hosts.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};

use host::numbers::Mark;
use host::timewait::LED;
use nix::errno::Errno;
use nix::libc::linger;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, setsockopt,
    socket, sockopt,
};

use super::firewall::{MARK, TARGET};

/// Begins to connect a prepared socket, without waiting for the outcome.
///
/// # Errors
/// When it fails at once.
pub(crate) fn start_connecting_with(
    to: SocketAddr,
    prepare: impl FnOnce(&OwnedFd) -> io::Result<()>,
) -> io::Result<TcpStream> {
    let socket = open(to, MARK)?;
    prepare(&socket)?;
    finish(socket, to)
}

/// Begins to connect to a target, from an address of this host or from `source`, which need not be this host's:
/// [`super::divert`] brings the answers back. If its port is taken or below 1024, the kernel chooses another port.
///
/// # Errors
/// When the right to borrow addresses is missing, or it fails at once.
pub(crate) fn start_connecting_to_target(
    source: Option<SocketAddr>,
    to: SocketAddr,
) -> io::Result<TcpStream> {
    let socket = open(to, TARGET)?;
    if let Some(source) = source {
        borrow(&socket, source)?;
    }
    finish(socket, to)
}

/// Listens for connections; closing resets them, also before they were accepted. `is_diverted` says that
/// connections to other addresses are led to this socket, too.
///
/// # Errors
/// When the address is taken, or the right to take others' connections is missing.
pub(crate) fn start_listening(at: SocketAddr, is_diverted: bool) -> io::Result<TcpListener> {
    start_listening_with(at, |socket| {
        setsockopt(socket, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 })?;
        if is_diverted {
            setsockopt(socket, sockopt::IpTransparent, &true)?;
            // Accepted connections have the same mark, also in TIME_WAIT, by which they are found after the diversion.
            setsockopt(socket, sockopt::Mark, &LED.value())?;
        }
        Ok(())
    })
}

/// Listens with a prepared socket; accepted connections inherit its options.
///
/// # Errors
/// When the address is taken.
pub(crate) fn start_listening_with(
    at: SocketAddr,
    prepare: impl FnOnce(&OwnedFd) -> io::Result<()>,
) -> io::Result<TcpListener> {
    let socket = socket(family(at), SockType::Stream, flags(), None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    if at.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    }
    prepare(&socket)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(at))?;
    // As many connections may wait as `net.core.somaxconn` allows. A number above musl's SOMAXCONN, 128, is an error there.
    listen(&socket, Backlog::MAXALLOWABLE)?;
    Ok(TcpListener::from(socket))
}

/// Binds a socket to an address that need not be this host's, and to another port if this one is taken or below 1024.
///
/// # Errors
/// When the right to borrow addresses is missing.
pub(crate) fn borrow(socket: &OwnedFd, from: SocketAddr) -> io::Result<()> {
    setsockopt(socket, sockopt::IpTransparent, &true)?;
    // One address may send from one port to several targets.
    setsockopt(socket, sockopt::ReuseAddr, &true)?;
    match bind(socket.as_raw_fd(), &SockaddrStorage::from(from)) {
        // Below 1024 it takes a right that we have given up.
        Err(Errno::EADDRINUSE | Errno::EACCES) => {
            let any = SocketAddr::new(from.ip(), 0);
            Ok(bind(socket.as_raw_fd(), &SockaddrStorage::from(any))?)
        }
        outcome => Ok(outcome?),
    }
}

fn open(to: SocketAddr, mark: Mark) -> io::Result<OwnedFd> {
    let socket = socket(family(to), SockType::Stream, flags(), None)?;
    // Without the right to mark, nothing of ours diverts connections either.
    let _ = setsockopt(&socket, sockopt::Mark, &mark.value());
    Ok(socket)
}

fn finish(socket: OwnedFd, to: SocketAddr) -> io::Result<TcpStream> {
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

pub(crate) fn flags() -> SockFlag {
    SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_takes_connections_with_every_c_library() {
        let listener = start_listening("127.0.0.1:0".parse().unwrap(), false).unwrap();

        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();

        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
    }
}

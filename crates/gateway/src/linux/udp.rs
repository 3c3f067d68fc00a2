//! Opens UDP sockets for services, also with borrowed addresses of other hosts.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};

use host::numbers::Mark;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockType, SockaddrIn, SockaddrIn6, SockaddrStorage, bind,
    connect, recvmsg, setsockopt, socket, sockopt,
};

use super::firewall::{MARK, TARGET};
use super::tcp::{borrow, family, flags};

/// A socket at an address of this host.
///
/// # Errors
/// When the address is taken, or none of this host's.
pub(crate) fn open(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = datagrams(at)?;
    if at.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(at))?;
    Ok(UdpSocket::from(socket))
}

/// A connected socket with this firewall mark, or none: sends to one address, and receives from this address only.
///
/// # Errors
/// When there is no way to it, no descriptor, or the right to mark is missing.
pub(crate) fn open_towards_with(to: SocketAddr, mark: Option<u32>) -> io::Result<UdpSocket> {
    let socket = datagrams(to)?;
    if let Some(mark) = mark {
        setsockopt(&socket, sockopt::Mark, &mark)?;
    }
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(UdpSocket::from(socket))
}

/// A socket connected to a target, with an address of this host or with `source`, which need not be this host's:
/// [`super::divert`] brings the answers back. If the port is taken or below 1024, the kernel chooses another port. No
/// second socket may have both addresses: the kernel would give its datagrams to either.
///
/// # Errors
/// When the right to borrow addresses is missing, or there is no way or descriptor.
pub(crate) fn open_to_target(source: Option<SocketAddr>, to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = marked(to, TARGET)?;
    if let Some(source) = source {
        borrow(&socket, source)?;
    }
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(UdpSocket::from(socket))
}

/// Sends a datagram from an address that need not be this host's. No socket stays: an answer goes to the owner of
/// the address.
///
/// # Errors
/// When the right to borrow addresses is missing, or there is no way.
pub(crate) fn send_from(from: SocketAddr, to: SocketAddr, datagram: &[u8]) -> io::Result<()> {
    let socket = marked(to, MARK)?;
    setsockopt(&socket, sockopt::IpTransparent, &true)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(from))?;
    UdpSocket::from(socket).send_to(datagram, to)?;
    Ok(())
}

/// A socket on this host's loopback interface for datagrams to other addresses, led there by [`super::capture`].
///
/// # Errors
/// When the right to take others' datagrams is missing.
pub(crate) fn open_capture(at: IpAddr) -> io::Result<UdpSocket> {
    let at = SocketAddr::new(at, 0);
    let socket = datagrams(at)?;
    setsockopt(&socket, sockopt::IpTransparent, &true)?;
    match at {
        SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4OrigDstAddr, &true)?,
        SocketAddr::V6(_) => {
            setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
            setsockopt(&socket, sockopt::Ipv6OrigDstAddr, &true)?;
        }
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(at))?;
    Ok(UdpSocket::from(socket))
}

/// The next captured datagram: its length, source and destination.
///
/// # Errors
/// When there is none.
pub(crate) fn receive_captured(
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> io::Result<(usize, SocketAddr, SocketAddr)> {
    let mut control = nix::cmsg_space!(nix::libc::sockaddr_in6);
    let mut slices = [io::IoSliceMut::new(buffer)];
    let received = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut slices,
        Some(&mut control),
        MsgFlags::MSG_DONTWAIT,
    )?;
    let from = received.address.as_ref().and_then(address_of);
    let to = received.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::Ipv4OrigDstAddr(to) => {
            let to = SockaddrIn::from(to);
            Some(SocketAddr::from((to.ip(), to.port())))
        }
        ControlMessageOwned::Ipv6OrigDstAddr(to) => {
            let to = SockaddrIn6::from(to);
            Some(SocketAddr::from((to.ip(), to.port())))
        }
        _ => None,
    });
    let ends =
        from.zip(to).ok_or_else(|| io::Error::other("the kernel does not tell addresses"))?;
    Ok((received.bytes, ends.0, ends.1))
}

fn address_of(name: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = name.as_sockaddr_in() {
        return Some(SocketAddr::from((v4.ip(), v4.port())));
    }
    name.as_sockaddr_in6().map(|v6| SocketAddr::from((v6.ip(), v6.port())))
}

fn datagrams(of: SocketAddr) -> io::Result<OwnedFd> {
    Ok(socket(family(of), SockType::Datagram, flags(), None)?)
}

fn marked(to: SocketAddr, mark: Mark) -> io::Result<OwnedFd> {
    let socket = datagrams(to)?;
    // Without the right to mark, nothing of ours diverts anything either.
    let _ = setsockopt(&socket, sockopt::Mark, &mark.value());
    Ok(socket)
}

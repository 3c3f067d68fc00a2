//! A socket for GRE with one other host.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{MsgFlags, SockaddrStorage, bind, connect, recv, send, setsockopt, sockopt};

/// Octets of an IPv4 header without options.
const HEADER_V4: usize = 20;

/// A raw socket that hears one host alone, and sends to it.
#[derive(Debug)]
pub struct Gre {
    fd: OwnedFd,
    is_v4: bool,
}

impl Gre {
    /// Opens a socket between an address of this host and another's; what is sent lives for `ttl` hops.
    ///
    /// # Errors
    /// When the right to open raw sockets is missing, or the address is not this host's.
    pub fn open(local: IpAddr, remote: IpAddr, ttl: u8) -> io::Result<Self> {
        let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is passed; the result is a new descriptor, or is refused by `result`.
        let fd = unsafe { libc::socket(family, kind, libc::IPPROTO_GRE) };
        let fd = Errno::result(fd)?;
        // SAFETY: the descriptor is open and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if local.is_ipv4() {
            setsockopt(&fd, sockopt::Ipv4Ttl, &i32::from(ttl))?;
            // A packet too long for the first link is fragmented here, and a packet too long for a later link there;
            // reports about the path by ICMP change nothing.
            set(&fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)?;
        } else {
            setsockopt(&fd, sockopt::Ipv6Ttl, &i32::from(ttl))?;
            // IPv6 routers fragment nothing: their reports are believed down to 1,280 octets, our fragments' size.
            set(&fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DONT)?;
        }
        bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(local, 0)))?;
        connect(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(remote, 0)))?;
        let gre = Self { fd, is_v4: local.is_ipv4() };
        // Packets of others from before the socket was connected; no more than fit into the socket.
        let mut stranger = [0; HEADER_V4];
        while gre.receive(&mut stranger)?.is_some() {}
        Ok(gre)
    }

    /// The next packet, from its GRE header on; `None` when there is none now.
    ///
    /// # Errors
    /// When the network has reported an error for a sent packet, or the socket is broken.
    pub fn receive<'a>(&self, into: &'a mut [u8]) -> io::Result<Option<&'a mut [u8]>> {
        let len = match recv(self.fd.as_raw_fd(), into, MsgFlags::empty()) {
            Ok(len) => len,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let packet = &mut into[..len];
        if !self.is_v4 {
            return Ok(Some(packet));
        }
        let header = packet.first().map_or(HEADER_V4, |first| usize::from(first & 0xf) * 4);
        Ok(Some(packet.get_mut(header..).unwrap_or_default()))
    }

    /// Sends a packet from its GRE header on.
    ///
    /// # Errors
    /// When there is no way, or no room.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        send(self.fd.as_raw_fd(), packet, MsgFlags::MSG_DONTWAIT)?;
        Ok(())
    }
}

impl AsFd for Gre {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn set(fd: &OwnedFd, level: i32, option: i32, value: i32) -> Result<(), Errno> {
    let len = libc::socklen_t::try_from(size_of_val(&value)).expect("options are small");
    // SAFETY: `value` is a whole `int` of `len` octets, which the kernel copies.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), len) };
    Errno::result(result).map(drop)
}

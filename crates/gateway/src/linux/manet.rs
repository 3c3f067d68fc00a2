//! Sockets for routing protocols: datagrams between neighbours on one interface, with their TTL.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use host::links;
use host::routes::{NextHop, Routes};
use host::settings::Settings;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    self, AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    SockaddrIn, sockopt,
};

/// Class selector 6, which network control has (RFC 4594, 3.1).
const CS6: i32 = 0xc0;
/// Before all other traffic where the interface has queues by priority (`TC_PRIO_CONTROL`).
const CONTROL: i32 = 7;

/// A socket for one port on one interface.
#[derive(Debug)]
pub struct Manet {
    fd: OwnedFd,
    port: u16,
}

/// A datagram that has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Came {
    /// Octets of its payload.
    pub len: usize,
    /// Who sent it.
    pub from: Ipv4Addr,
    /// Whether the packet was addressed to this node alone.
    pub is_unicast: bool,
    /// The packet's TTL on arrival.
    pub ttl: u8,
}

/// The reason why an interface with this address hears no new nodes, and the remedy; none if it hears them. A reverse
/// path filter drops packets from nodes without a route, so the first hello of such a node never arrives. Routing
/// switches off the filter of the interface itself at its start.
#[must_use]
pub fn deafness(interface: &str, own: Ipv4Addr) -> Option<(String, String)> {
    if Settings::read("all", "rp_filter").is_none_or(|value| value == "0") {
        return None;
    }
    // Any neighbour in the network of the address, if that has more than one.
    let neighbour = links::beside(own.into(), 1);
    let way = Routes::open().ok()?.towards(neighbour);
    (way == NextHop::Nowhere).then(|| {
        let what = format!(
            "the reverse path filter drops what comes on {interface} from nodes without a route, such as {neighbour}: \
             routing hears nobody new there"
        );
        let remedy = format!(
            "sysctl -w net.ipv4.conf.all.rp_filter=0 (or give {interface} an address whose prefix holds its neighbours)"
        );
        (what, remedy)
    })
}

impl Manet {
    /// Opens a socket that hears and sends on this interface alone.
    ///
    /// # Errors
    /// When the interface is gone, the port is taken, or the right to either is missing.
    pub fn open(interface: &str, port: u16) -> io::Result<Self> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket::socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
        socket::setsockopt(&fd, sockopt::BindToDevice, &interface.into())?;
        socket::setsockopt(&fd, sockopt::Broadcast, &true)?;
        // A neighbour is on the link, whatever routes there are to it.
        socket::setsockopt(&fd, sockopt::DontRoute, &true)?;
        socket::setsockopt(&fd, sockopt::Ipv4PacketInfo, &true)?;
        socket::setsockopt(&fd, sockopt::Ipv4RecvTtl, &true)?;
        socket::setsockopt(&fd, sockopt::Ipv4Tos, &CS6)?;
        // Setting the class also sets a priority, so the priority comes second. Without the right to it packets queue.
        let _ = socket::setsockopt(&fd, sockopt::Priority, &CONTROL);
        let any = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
        socket::bind(fd.as_raw_fd(), &any)?;
        Ok(Self { fd, port })
    }

    /// Takes the next datagram; `None` when there is none now.
    ///
    /// # Errors
    /// When the interface went down or the socket is broken.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<Came>> {
        let mut slices = [IoSliceMut::new(into)];
        let mut control = nix::cmsg_space!(libc::in_pktinfo, libc::c_int);
        let flags = MsgFlags::MSG_DONTWAIT;
        let (fd, control) = (self.fd.as_raw_fd(), Some(&mut control[..]));
        let message = match socket::recvmsg::<SockaddrIn>(fd, &mut slices, control, flags) {
            Ok(message) => message,
            // What was sent to a neighbour found nobody listening.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(from) = message.address.map(|address| address.ip()) else { return Ok(None) };
        let mut came = Came { len: message.bytes, from, is_unicast: false, ttl: 0 };
        for said in message.cmsgs()? {
            match said {
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    // For unicast, the header's destination is also our local address.
                    came.is_unicast = info.ipi_addr.s_addr == info.ipi_spec_dst.s_addr;
                }
                ControlMessageOwned::Ipv4Ttl(ttl) => came.ttl = u8::try_from(ttl).unwrap_or(0),
                _ => {}
            }
        }
        Ok(Some(came))
    }

    /// Sends a datagram from this address of ours to a neighbour or to all of them; false if the
    /// interface has no room now.
    ///
    /// # Errors
    /// When the interface is down, or the address is not ours any more.
    pub fn send(&self, from: Ipv4Addr, to: Ipv4Addr, ttl: u8, payload: &[u8]) -> io::Result<bool> {
        let source = libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) };
        let nobody = libc::in_addr { s_addr: 0 };
        let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: nobody };
        let ttl = libc::c_int::from(ttl.max(1));
        let control = [ControlMessage::Ipv4PacketInfo(&info), ControlMessage::Ipv4Ttl(&ttl)];
        let to = SockaddrIn::from(SocketAddrV4::new(to, self.port));
        let flags = MsgFlags::MSG_DONTWAIT;
        let slices = [IoSlice::new(payload)];
        match socket::sendmsg(self.fd.as_raw_fd(), &slices, &control, flags, Some(&to)) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Manet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

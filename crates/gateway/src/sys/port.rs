//! A packet socket that receives and sends whole frames, like the other end of a cable.

use std::ffi::c_void;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr;

use nix::errno::Errno;
use nix::libc;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockType, sockopt};

/// Octets of the offload header before each frame, `struct virtio_net_hdr`.
pub const OFFLOAD: usize = 10;

/// Octets for what waits to be received: a thousand trains of segments.
const RECEIVE_BUFFER: usize = 32 << 20;

/// An end of an emulated cable: receives all frames of an interface, and sends frames from it.
///
/// Nothing about the interface changes for good: promiscuous mode ends with the socket.
#[derive(Debug)]
pub struct Port(OwnedFd);

/// Why there is no [`Port`] on an interface.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum NoPort {
    #[error("it is down")]
    Down,
    #[error("there is no such interface")]
    Missing,
    #[error("it is not an Ethernet interface")]
    NotEthernet,
    #[error("packet sockets are for root, or who has CAP_NET_RAW")]
    NotPermitted,
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Errno> for NoPort {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::EPERM | Errno::EACCES => Self::NotPermitted,
            errno => Self::System(errno.into()),
        }
    }
}

/// One frame that was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Received {
    /// Octets read: the offload header and the frame.
    pub len: usize,
    /// The VLAN tag that the kernel took out of the frame, to go back after both addresses.
    pub tag: Option<[u8; 4]>,
}

impl Port {
    /// Opens a port on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// When the interface cannot be used or the rights are missing.
    pub fn open(name: &str) -> Result<Self, NoPort> {
        let index = if_nametoindex(name).map_err(|_| NoPort::Missing)?;
        let index = i32::try_from(index).map_err(|_| NoPort::Missing)?;
        // Without a protocol the socket hears nothing until it is bound to the interface.
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket::socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
        let port = Self(fd);
        port.set(libc::PACKET_VNET_HDR, &1_i32)?;
        port.set(libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        port.set(libc::PACKET_AUXDATA, &1_i32)?;
        let promiscuous = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: u16::try_from(libc::PACKET_MR_PROMISC).expect("a small constant"),
            mr_alen: 0,
            mr_address: [0; 8],
        };
        port.set(libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
        // Root may exceed the system's limit; others get what it allows.
        if socket::setsockopt(&port.0, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
            socket::setsockopt(&port.0, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
        }

        port.bind(index)?;
        if port.address()?.sll_hatype != libc::ARPHRD_ETHER {
            return Err(NoPort::NotEthernet);
        }
        if socket::getsockopt(&port.0, sockopt::SocketError)? == libc::ENETDOWN {
            return Err(NoPort::Down);
        }
        Ok(port)
    }

    /// Reads a frame, or a train of frames yet to be segmented, with the offload header; `None`
    /// when nothing waits.
    ///
    /// # Errors
    /// When the interface is down or gone, and with `EMSGSIZE` for a frame longer than `into`.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<Received>> {
        let mut control = MaybeUninit::<[usize; CONTROL / size_of::<usize>()]>::uninit();
        let mut slice = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        // SAFETY: all-zero octets are a valid `msghdr`: integers and null pointers.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut slice;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast::<c_void>();
        // Lengths and flags of messages have other types in musl than in glibc.
        message.msg_controllen = CONTROL as _;

        // SAFETY: `message` points to `into` and `control`, alive and unborrowed for the call,
        // with their lengths.
        let len = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
        let Ok(len) = usize::try_from(len) else {
            let error = io::Error::last_os_error();
            let is_idle = error.kind() == io::ErrorKind::WouldBlock;
            return if is_idle { Ok(None) } else { Err(error) };
        };
        if message.msg_flags & libc::MSG_TRUNC != 0 {
            return Err(Errno::EMSGSIZE.into());
        }
        Ok(Some(Received { len, tag: vlan_tag(&message) }))
    }

    /// Sends one frame behind its offload header, which is all zero for a complete frame.
    ///
    /// # Errors
    /// When the interface does not take it.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        socket::send(self.0.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT)?;
        Ok(())
    }

    /// Frames that the kernel dropped because nobody read them in time, since the last call.
    #[must_use]
    pub fn missed(&self) -> u64 {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = socklen::<libc::tpacket_stats>();
        // SAFETY: `stats` is a whole `tpacket_stats` of `len` octets, alive for the call.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        };
        if result == 0 { u64::from(stats.tp_drops) } else { 0 }
    }

    /// Whether the interface does not exist any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        // For a removed interface the kernel gives the index -1.
        self.address().is_ok_and(|address| address.sll_ifindex < 0)
    }

    fn bind(&self, index: i32) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: u16::try_from(libc::AF_PACKET).expect("a small constant"),
            sll_protocol: u16::try_from(libc::ETH_P_ALL).expect("a small constant").to_be(),
            sll_ifindex: index,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let len = socklen::<libc::sockaddr_ll>();
        // SAFETY: `address` is a whole `sockaddr_ll` of `len` octets, alive for the call.
        let result = unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), len) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The number and kind of the interface, from the kernel.
    fn address(&self) -> io::Result<libc::sockaddr_ll> {
        // SAFETY: all-zero octets are a valid `sockaddr_ll`: integers.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let mut len = socklen::<libc::sockaddr_ll>();
        // SAFETY: `address` is a whole `sockaddr_ll` of `len` octets, alive for the call. (nix has
        // no wrapper that accepts the shorter address of an interface with short addresses.)
        let result = unsafe {
            libc::getsockname(self.0.as_raw_fd(), (&raw mut address).cast(), &raw mut len)
        };
        if result == 0 { Ok(address) } else { Err(io::Error::last_os_error()) }
    }

    fn set<T: Copy>(&self, option: i32, value: &T) -> Result<(), Errno> {
        // SAFETY: `value` is a whole `T` without pointers, which the kernel copies.
        let result = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                option,
                ptr::from_ref(value).cast(),
                socklen::<T>(),
            )
        };
        Errno::result(result).map(drop)
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Octets for control messages: more than the single expected message needs.
const CONTROL: usize = 128;

fn vlan_tag(message: &libc::msghdr) -> Option<[u8; 4]> {
    // SAFETY: the kernel filled in the control buffer of `message`, which the caller keeps alive
    // and which is aligned for `cmsghdr`; `CMSG_FIRSTHDR` stays within its length.
    let header = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    // SAFETY: plain arithmetic.
    let whole = usize::try_from(unsafe { libc::CMSG_LEN(socklen::<libc::tpacket_auxdata>()) });
    let is_ours = header.cmsg_level == libc::SOL_PACKET && header.cmsg_type == libc::PACKET_AUXDATA;
    let len: usize = header.cmsg_len as _;
    if !is_ours || whole.is_ok_and(|whole| len < whole) {
        return None;
    }
    // SAFETY: the message is a whole `tpacket_auxdata`, as its type and length say.
    let data = unsafe { libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned() };
    if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let has_type = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let kind: u16 = if has_type { data.tp_vlan_tpid } else { 0x8100 };
    let ([k0, k1], [t0, t1]) = (kind.to_be_bytes(), data.tp_vlan_tci.to_be_bytes());
    Some([k0, k1, t0, t1])
}

fn socklen<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("options are small")
}

//! Receives all IPv4 packets for this host with a given protocol.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use base::ip::protocol;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{MsgFlags, recv};

/// The option of raw sockets for ICMP that names types not to be heard (raw(7)).
const ICMP_FILTER: libc::c_int = 1;
/// The type of the ICMP errors about destinations (RFC 792).
const UNREACHABLE: u32 = 3;

/// A raw socket that hears whole packets, headers and all.
#[derive(Debug)]
pub struct Protocol {
    fd: OwnedFd,
}

impl Protocol {
    /// Opens a socket for a protocol by its number.
    ///
    /// # Errors
    /// When the right to open raw sockets is missing.
    pub fn open(protocol: u8) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is passed; the result is a new descriptor, or is refused by `result`.
        let fd = unsafe { libc::socket(libc::AF_INET, kind, libc::c_int::from(protocol)) };
        let fd = Errno::result(fd)?;
        // SAFETY: the descriptor is open and nobody else has it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Opens a socket for ICMP errors of type "destination unreachable", which also report too long
    /// packets.
    ///
    /// # Errors
    /// When the right to open raw sockets is missing.
    pub fn open_errors() -> io::Result<Self> {
        let socket = Self::open(protocol::ICMP)?;
        let unwanted: u32 = !(1 << UNREACHABLE);
        let len = libc::socklen_t::try_from(size_of_val(&unwanted)).expect("options are small");
        // SAFETY: the option is read from `unwanted`, which has `len` octets, during the call only.
        let result = unsafe {
            libc::setsockopt(
                socket.fd.as_raw_fd(),
                libc::SOL_RAW,
                ICMP_FILTER,
                (&raw const unwanted).cast(),
                len,
            )
        };
        Errno::result(result)?;
        Ok(socket)
    }

    /// The next packet; `None` when there is none now.
    ///
    /// # Errors
    /// When the socket is broken.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match recv(self.fd.as_raw_fd(), into, MsgFlags::empty()) {
            Ok(len) => Ok(Some(len)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Protocol {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

//! A socket for all IPv4 packets of one protocol that are for this host.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{MsgFlags, recv};

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

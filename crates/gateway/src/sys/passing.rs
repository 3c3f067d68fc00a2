//! Descriptors that one process gives another, over a Unix socket that keeps messages apart.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Sends a message, and perhaps a descriptor with it.
///
/// # Errors
/// When nobody is at the other end.
pub fn send(socket: impl AsFd, message: &[u8], with: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let fds: Vec<RawFd> = with.iter().map(|fd| fd.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let said = if fds.is_empty() { &[][..] } else { &rights[..] };
    let socket = socket.as_fd().as_raw_fd();
    sendmsg::<()>(socket, &[IoSlice::new(message)], said, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// Waits for a message, of which it takes what fits; returns its octets, none when nobody is at the
/// other end any more, and the descriptor that came with it.
///
/// # Errors
/// When none comes in time.
pub fn receive(socket: impl AsFd, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let mut parts = [IoSliceMut::new(into)];
    let socket = socket.as_fd().as_raw_fd();
    let message = recvmsg::<()>(socket, &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut with = None;
    for said in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = said {
            for fd in fds {
                // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
                with = Some(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    Ok((message.bytes, with))
}

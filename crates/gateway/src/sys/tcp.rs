//! Options and state of TCP sockets without a safe wrapper.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::ptr;

use nix::libc;

/// Lets a socket take more only while fewer than so many octets wait in it to be sent for the first
/// time.
///
/// # Errors
/// When it is no TCP socket.
pub fn set_unsent_low_water(socket: &impl AsFd, octets: u32) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<u32>()).map_err(io::Error::other)?;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `octets` is a whole `u32` of `len` octets, alive for the call.
    let result = unsafe { libc::setsockopt(fd, level, option, (&raw const octets).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Octets that a socket has taken and its other end has not acknowledged.
///
/// # Errors
/// When it is no connected TCP socket.
pub fn unacknowledged(socket: &impl AsFd) -> io::Result<usize> {
    let mut octets: libc::c_int = 0;
    // SAFETY: for a socket, TIOCOUTQ is SIOCOUTQ, which writes one `c_int`, and `octets` is one.
    let result = unsafe {
        libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, ptr::from_mut(&mut octets))
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    usize::try_from(octets).map_err(io::Error::other)
}

/// Whether the other end has said that nothing more follows, though octets before that may be unread.
pub fn has_heard_end(socket: &impl AsFd) -> bool {
    let fd = socket.as_fd().as_raw_fd();
    let mut polled = libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: `polled` is one `pollfd`, alive for the call, which does not wait.
    let count = unsafe { libc::poll(&raw mut polled, 1, 0) };
    count > 0 && polled.revents & libc::POLLRDHUP != 0
}

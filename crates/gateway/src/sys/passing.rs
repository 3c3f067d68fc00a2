//! Passes descriptors from one process to another, over a Unix socket that keeps messages apart.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
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
    loop {
        // With a timeout the kernel does not go on by itself after a signal.
        match sendmsg::<()>(socket, &[IoSlice::new(message)], said, MsgFlags::MSG_NOSIGNAL, None) {
            Err(Errno::EINTR) => {}
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// Waits for a message, and takes as many octets as `into` can hold; returns the number of octets, 0 once the
/// other end is closed, and the descriptor that came with the message.
///
/// # Errors
/// When none comes in time.
pub fn receive(socket: impl AsFd, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let mut parts = [IoSliceMut::new(into)];
    let socket = socket.as_fd().as_raw_fd();
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = loop {
        match recvmsg::<()>(socket, &mut parts, Some(&mut space), flags) {
            Err(Errno::EINTR) => {}
            came => break came?,
        }
    };
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

/// Takes the descriptors that the service manager has handed to this process, each with its name; none the second time.
/// To be called before this process opens anything.
///
/// # Errors
/// When the service manager names other descriptors than there are.
pub fn inherit() -> io::Result<Vec<(String, OwnedFd)>> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    if IS_TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(Vec::new());
    }
    let all = sd_notify::listen_fds_with_names()?;
    // SAFETY: the service manager opened these for this process alone, they are open, and nobody takes them twice.
    Ok(all.map(|(fd, name)| (name, unsafe { OwnedFd::from_raw_fd(fd) })).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use nix::libc;
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
    use nix::sys::time::{TimeVal, TimeValLike as _};
    use nix::unistd::gettid;

    use super::*;

    #[test]
    fn a_signal_while_waiting_is_no_end_of_the_waiting() {
        extern "C" fn nothing(_: libc::c_int) {}
        let action =
            SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler does nothing.
        unsafe { sigaction(Signal::SIGURG, &action) }.unwrap();
        let kind = SockType::SeqPacket;
        let (here, there) =
            socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC).unwrap();
        setsockopt(&there, sockopt::ReceiveTimeout, &TimeVal::seconds(60)).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            tell.send(gettid()).unwrap();
            receive(&there, &mut [0; 9]).map(|(len, _)| len)
        });
        let thread = told.recv().unwrap();

        for _ in 0..3 {
            let state = format!("/proc/self/task/{thread}/stat");
            while !std::fs::read_to_string(&state).is_ok_and(|stat| stat.contains(") S ")) {
                assert!(!waiting.is_finished());
                std::thread::yield_now();
            }
            // SAFETY: it takes no memory of ours.
            unsafe {
                libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.as_raw(), libc::SIGURG)
            };
        }
        send(&here, b"an answer", None).unwrap();

        assert_eq!(waiting.join().unwrap().unwrap(), 9);
    }

    #[test]
    fn a_descriptor_comes_with_its_message_and_with_no_other() {
        let kind = SockType::SeqPacket;
        let (here, there) =
            socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let file = File::open("/proc/self/comm").unwrap();

        send(&here, b"with a file", Some(file.as_fd())).unwrap();
        send(&here, b"without one, and too long", None).unwrap();
        drop(here);

        let mut said = [0; 11];
        let (len, came) = receive(&there, &mut said).unwrap();
        let mut text = String::new();
        File::from(came.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!((&said[..len], text.is_empty()), (&b"with a file"[..], false));
        let (len, came) = receive(&there, &mut said).unwrap();
        assert_eq!((&said[..len], came.is_none()), (&b"without one"[..], true));
        let (len, came) = receive(&there, &mut said).unwrap();
        assert_eq!((len, came.is_none()), (0, true), "nobody is there any more");
    }
}

//! A TCP connection of this host that HF-PEP carries.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::libc::linger;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use proto::slep::Reason;
use proto::time::Time;

/// How long the target may take to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Octets for the kernel that wait here at most; more stay in the stream, which has its own bound.
pub(super) const UNSENT: usize = 64 << 10;

/// A connection to a client or a target.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// Until when the target may answer; `None` when it has.
    answer_until: Option<Time>,
    /// Octets from here that the stream has not taken.
    pub(super) untaken: Vec<u8>,
    /// Octets for here that the kernel has not taken: `unsent[sent..]`.
    unsent: Vec<u8>,
    sent: usize,
    /// Whether the program here has finished.
    has_heard_end: bool,
    end: End,
    /// What epoll was told to look for.
    pub(super) watched: EpollFlags,
}

/// How far the end of what goes to the program here is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    NotYet,
    /// It follows what is unsent.
    Due,
    Told,
}

/// What reading from a connection gave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Heard {
    /// The program here has finished.
    End,
    /// Nothing now.
    Nothing,
    /// So many octets.
    Octets(usize),
    /// The connection was reset.
    Reset,
}

impl Connection {
    /// One that a client has made.
    pub(super) fn accepted(stream: TcpStream) -> Self {
        Self::new(stream, None)
    }

    /// One that is being made to a target.
    pub(super) fn connecting(now: Time, stream: TcpStream) -> Self {
        Self::new(stream, Some(now + ANSWER))
    }

    fn new(stream: TcpStream, answer_until: Option<Time>) -> Self {
        // What little there is goes at once; the radio gathers.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            answer_until,
            untaken: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            has_heard_end: false,
            end: End::NotYet,
            watched: EpollFlags::empty(),
        }
    }

    /// Until when the target may answer, if it has not.
    pub(super) fn answer_until(&self) -> Option<Time> {
        self.answer_until
    }

    /// What came of the attempt to connect.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(super) fn take_answer(&mut self) -> Result<(), Reason> {
        let error = getsockopt(&self.stream, sockopt::SocketError).unwrap_or(0);
        if error != 0 {
            return Err(reason_of(&io::Error::from_raw_os_error(error)));
        }
        self.answer_until = None;
        Ok(())
    }

    /// What epoll is to look for now.
    pub(super) fn wanted(&self) -> EpollFlags {
        let mut wanted = EpollFlags::empty();
        if self.answer_until.is_some() || self.has_unsent() {
            wanted |= EpollFlags::EPOLLOUT;
        }
        if self.answer_until.is_none() && !self.has_heard_end && self.untaken.is_empty() {
            wanted |= EpollFlags::EPOLLIN;
        }
        wanted
    }

    /// Reads once.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Heard {
        match self.stream.read(into) {
            Ok(0) => {
                self.has_heard_end = true;
                Heard::End
            }
            Ok(len) => Heard::Octets(len),
            Err(error) if is_passing(&error) => Heard::Nothing,
            Err(_) => Heard::Reset,
        }
    }

    /// Whether the program here has finished.
    pub(super) fn has_heard_end(&self) -> bool {
        self.has_heard_end
    }

    /// Octets that may be added to [`Self::unsent_mut`].
    pub(super) fn room(&self) -> usize {
        UNSENT.saturating_sub(self.unsent.len() - self.sent)
    }

    /// Where octets for the program here are added.
    pub(super) fn unsent_mut(&mut self) -> &mut Vec<u8> {
        &mut self.unsent
    }

    /// What was added is all.
    pub(super) fn finish(&mut self) {
        if self.end == End::NotYet {
            self.end = End::Due;
        }
    }

    /// Gives the kernel what it takes.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(super) fn flush(&mut self) -> Result<(), Reason> {
        while self.has_unsent() {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(error) if is_passing(&error) => return Ok(()),
                Err(_) => return Err(Reason::CONNECTION_RESET),
            }
        }
        if self.sent > 0 {
            self.sent = 0;
            // A connection that is idle keeps no buffer.
            self.unsent = Vec::new();
        }
        if self.end == End::Due {
            self.end = End::Told;
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// Whether both ends have finished and the program here has all.
    pub(super) fn is_over(&self) -> bool {
        self.end == End::Told && self.has_heard_end
    }

    fn has_unsent(&self) -> bool {
        self.sent < self.unsent.len()
    }

    /// Breaks it off: the program here gets a reset.
    pub(super) fn abort(self) {
        reset(&self.stream);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Breaks a connection off with a reset, when it is dropped.
pub(super) fn reset(stream: &TcpStream) {
    // Otherwise it ends as if all were well.
    let _ = setsockopt(stream, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 });
}

/// What a failed attempt means to the other end.
pub(super) fn reason_of(error: &io::Error) -> Reason {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Reason::TARGET_REFUSED,
        ErrorKind::TimedOut => Reason::TARGET_TIMED_OUT,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Reason::TARGET_UNREACHABLE,
        _ => Reason::UNSPECIFIED,
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

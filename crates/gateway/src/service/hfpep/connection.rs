//! A TCP connection of this host, carried by HF-PEP.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use base::time::Time;
use hf::slep::Reason;
use nix::libc;
use nix::sys::epoll::EpollFlags;

use super::wire::{Heard, Parties, Wire, is_passing};
use crate::sys::tcp::unacknowledged;
use crate::tls::{Failure, HANDSHAKE};

/// How long the target may take to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Most octets waiting here for the kernel; further octets stay in the stream, which has its own bound.
pub const UNSENT: usize = 64 << 10;

/// A connection to a client or a target.
#[derive(Debug)]
pub struct Connection {
    wire: Wire,
    stage: Stage,
    /// Octets from here that the stream has not taken.
    untaken: Vec<u8>,
    /// Octets for here that the kernel has not taken: `unsent[sent..]`.
    unsent: Vec<u8>,
    sent: usize,
    /// Whether the program here has finished.
    has_heard_end: bool,
    /// Whether writing has failed.
    has_failed: bool,
    /// Whether it is broken: nothing is written any more, and what came before may still be read.
    is_broken: bool,
    /// Whether the program here is told the end only when the far one has all that it said.
    confirms_close: bool,
    end: End,
    /// What epoll was told to look for.
    watched: EpollFlags,
}

/// How far the end of what goes to the program here is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    NotYet,
    /// It follows what is unsent.
    Due,
    Told,
}

/// How far a connection to a target is; one to a client is always open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// The target may answer until then.
    Connecting(Time),
    /// The TLS handshake with it may take until then.
    Greeting(Time),
    /// It carries octets.
    Open,
}

impl Connection {
    /// A connection made by a client.
    pub fn accepted(wire: Wire) -> Self {
        Self::new(wire, Stage::Open)
    }

    /// A connection being made to a target.
    pub fn connecting(now: Time, wire: Wire) -> Self {
        Self::new(wire, Stage::Connecting(now + ANSWER))
    }

    fn new(wire: Wire, stage: Stage) -> Self {
        Self {
            wire,
            stage,
            untaken: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            has_heard_end: false,
            has_failed: false,
            is_broken: false,
            confirms_close: false,
            end: End::NotYet,
            watched: EpollFlags::empty(),
        }
    }

    /// The program here is told the end only when the far one has all that it said.
    pub fn confirm_close(&mut self) {
        self.confirms_close = true;
    }

    pub fn confirms_close(&self) -> bool {
        self.confirms_close
    }

    /// Octets from here that the stream has not taken.
    pub fn untaken(&self) -> &[u8] {
        &self.untaken
    }

    /// The stream has not taken these octets.
    pub fn keep_untaken(&mut self, octets: &[u8]) {
        self.untaken.extend_from_slice(octets);
    }

    /// The stream has taken so many octets of [`Self::untaken`].
    pub fn take_untaken(&mut self, octets: usize) {
        self.untaken.drain(..octets);
        if self.untaken.is_empty() {
            self.untaken = Vec::new();
        }
    }

    /// The events to watch with epoll, if they have changed.
    pub fn take_wanted(&mut self) -> Option<EpollFlags> {
        let wanted = self.wanted();
        (std::mem::replace(&mut self.watched, wanted) != wanted).then_some(wanted)
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The deadline of a target that we wait for.
    pub fn waits_until(&self) -> Option<Time> {
        match self.stage {
            Stage::Connecting(until) | Stage::Greeting(until) => Some(until),
            Stage::Open => None,
        }
    }

    /// Takes the outcome of the attempt to connect. After success the connection is open, unless a handshake follows.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn take_answer(&mut self, now: Time) -> Result<(), Reason> {
        self.wire.take_answer().map_err(|error| reason_of(&error))?;
        let has_tls = self.wire.has_tls();
        self.stage = if has_tls { Stage::Greeting(now + HANDSHAKE) } else { Stage::Open };
        Ok(())
    }

    /// Continues the handshake with the target. The connection is open as soon as the handshake is complete.
    ///
    /// # Errors
    /// When it fails; the target has been told.
    pub fn greet(&mut self) -> Result<(), Failure> {
        if self.wire.greet()?.is_some() {
            self.stage = Stage::Open;
        }
        Ok(())
    }

    /// What epoll is to look for now.
    fn wanted(&self) -> EpollFlags {
        let mut wanted = EpollFlags::empty();
        let is_connecting = matches!(self.stage, Stage::Connecting(_));
        if is_connecting || self.has_unsent() || self.wire.wants_flush() {
            wanted |= EpollFlags::EPOLLOUT;
        }
        if !is_connecting && !self.has_heard_end && self.untaken.is_empty() {
            wanted |= EpollFlags::EPOLLIN;
        }
        wanted
    }

    /// Reads once.
    pub fn read(&mut self, into: &mut [u8]) -> Heard {
        let heard = self.wire.read(into);
        self.has_heard_end |= matches!(heard, Heard::End | Heard::Failed(Failure::Cut));
        heard
    }

    /// Whether there may be octets that the kernel does not report any more.
    pub fn may_hold_octets(&self) -> bool {
        (self.wire.has_tls() || self.is_broken) && self.untaken.is_empty()
    }

    /// The kernel has told that it is broken, or writing has.
    pub fn hear_break(&mut self) {
        self.is_broken = true;
    }

    /// Whether it is broken.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether the program's host has acknowledged all that was written, the end too if it was told.
    pub fn is_acknowledged(&self) -> bool {
        !self.has_unsent() && unacknowledged(self).is_ok_and(|octets| octets == 0)
    }

    /// Octets that the program's host is not known to have.
    pub fn undelivered(&self) -> usize {
        self.unsent.len() - self.sent + unacknowledged(self).unwrap_or(0)
    }

    /// Whether the program here was told that nothing more comes.
    pub fn has_told_end(&self) -> bool {
        self.end == End::Told
    }

    /// Whether the kernel reports an error of the connection; the kernel reports each error once.
    pub fn takes_error(&self) -> bool {
        self.wire.take_answer().is_err()
    }

    /// Whether the program here has finished, or was cut off.
    pub fn has_heard_end(&self) -> bool {
        self.has_heard_end
    }

    /// Whether the program here has ended its direction, though octets before the end may still have to be read.
    pub fn has_ended(&self) -> bool {
        self.has_heard_end || self.wire.has_ended()
    }

    /// The client and the target of the TLS session, if known here.
    pub fn parties(&self) -> Parties {
        self.wire.parties()
    }

    /// Whether octets of this connection can be moved within the kernel.
    pub fn is_plain(&self) -> bool {
        !self.wire.has_tls()
    }

    /// The program here has finished, as was heard of somewhere else than in [`Self::read`].
    pub fn hear_end(&mut self) {
        self.has_heard_end = true;
    }

    /// Whether writing has failed: the kernel has told of a reset then, and does not tell again.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Writing has failed somewhere else than in [`Self::send`].
    pub fn fail(&mut self) {
        self.has_failed = true;
    }

    /// Whether the kernel has octets of a connection without TLS that nobody has read.
    pub fn has_unread(&self) -> bool {
        self.wire.has_unread()
    }

    /// Writes octets, as many as the kernel takes, and keeps the rest.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, mut octets: &[u8]) -> Result<(), Reason> {
        while !self.has_unsent() && !octets.is_empty() {
            match self.wire.write(octets) {
                Ok(len) => octets = &octets[len..],
                Err(error) if is_passing(&error) => break,
                Err(_) => {
                    self.has_failed = true;
                    return Err(Reason::CONNECTION_RESET);
                }
            }
        }
        self.unsent.extend_from_slice(octets);
        self.flush()
    }

    /// Octets that may be added to [`Self::unsent_mut`].
    pub fn room(&self) -> usize {
        UNSENT.saturating_sub(self.unsent.len() - self.sent)
    }

    /// Where octets for the program here are added.
    pub fn unsent_mut(&mut self) -> &mut Vec<u8> {
        &mut self.unsent
    }

    /// What was added is all.
    pub fn finish(&mut self) {
        if self.end == End::NotYet {
            self.end = End::Due;
        }
    }

    /// Writes unsent octets, as many as the kernel takes.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn flush(&mut self) -> Result<(), Reason> {
        match self.give() {
            Err(error) if !is_passing(&error) => {
                self.has_failed = true;
                Err(Reason::CONNECTION_RESET)
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn give(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            self.sent += self.wire.write(&self.unsent[self.sent..])?;
        }
        if self.sent > 0 {
            self.sent = 0;
            // A connection that is idle keeps no buffer.
            self.unsent = Vec::new();
        }
        self.wire.flush()?;
        if self.end == End::Due {
            self.wire.end()?;
            self.end = End::Told;
        }
        Ok(())
    }

    /// Whether both ends have finished and the program here has all.
    pub fn is_over(&self) -> bool {
        self.end == End::Told && self.has_heard_end
    }

    /// Whether octets wait for the kernel.
    pub fn has_unsent(&self) -> bool {
        self.sent < self.unsent.len()
    }

    /// Closes it in peace: what the kernel has is still delivered, and the end behind it.
    pub fn close(self) {
        self.wire.close();
    }

    /// Breaks it off: the program here gets a reset.
    pub fn abort(self) {
        self.wire.abort();
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

/// What a failed attempt means to the other end.
pub fn reason_of(error: &io::Error) -> Reason {
    if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
        return Reason::NO_ROOM;
    }
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Reason::TARGET_REFUSED,
        ErrorKind::TimedOut => Reason::TARGET_TIMED_OUT,
        // Permission: what the kernel calls the prohibition by a router, in ICMPv6.
        ErrorKind::HostUnreachable
        | ErrorKind::NetworkUnreachable
        | ErrorKind::PermissionDenied => Reason::TARGET_UNREACHABLE,
        _ => Reason::UNSPECIFIED,
    }
}

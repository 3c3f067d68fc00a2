//! Keeps a connection to a server, and connects again after each loss.
//!
//! ```text
//!             at once            established
//!   Waiting ───────────▶ Trying ─────────────▶ Up
//!      ▲  0.25 s, … 4 s     │ refused, 10 s     │ closed, broken, 60 s without progress
//!      └────────────────────┴───────────────────┘
//! ```

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use base::time::Time;
use host::Fault;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use tracing::debug;

use super::server::probe;
use super::unanswered;
use crate::linux::tcp::start_connecting_with;

/// A connection, or the attempt to have one.
#[derive(Debug)]
pub struct Dial {
    to: SocketAddr,
    /// The firewall mark of sent packets.
    mark: Option<u32>,
    state: State,
    /// What the kernel has not taken: `unsent[sent..]`.
    unsent: Vec<u8>,
    sent: usize,
    /// When the kernel last took something, or had nothing to take.
    moved_at: Time,
    /// How long to wait after the next failure.
    patience: Duration,
    change: Option<Change>,
    stats: Stats,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// It is lost.
    Down,
    /// It is there, and new.
    Up,
}

base::counters! {
    /// What is counted.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Attempts to connect.
        pub tried as "connects_tried": counter(connections);
        /// Attempts that led to a connection.
        pub connected as "connects": counter(connections);
        /// Connections lost.
        pub lost as "connections_lost": counter(connections);
    }
}

#[derive(Debug)]
enum State {
    Waiting { until: Time },
    Trying { stream: TcpStream, until: Time },
    Up { stream: TcpStream, since: Time },
}

/// A server that restarts is back in less than a second, and programs wait for it.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(4);
/// How long an attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// A server that takes nothing for this long is given up.
const STALL: Duration = Duration::from_secs(60);
/// Octets that may wait for the kernel.
const UNSENT: usize = 64 << 10;

impl Dial {
    /// Will connect at the first [`Self::handle_timeout`].
    #[must_use]
    pub fn new(now: Time, to: SocketAddr) -> Self {
        Self {
            to,
            mark: None,
            state: State::Waiting { until: now },
            unsent: Vec::new(),
            sent: 0,
            moved_at: now,
            patience: SHORTEST,
            change: None,
            stats: Stats::default(),
        }
    }

    /// The same, with a firewall mark on sent packets, which needs `CAP_NET_ADMIN`.
    #[must_use]
    pub fn marked(self, mark: u32) -> Self {
        Self { mark: Some(mark), ..self }
    }

    /// Appends what to wait for: one descriptor, or none.
    pub fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let (stream, events) = match &self.state {
            State::Waiting { .. } => return,
            State::Trying { stream, .. } => (stream, PollFlags::POLLOUT),
            State::Up { stream, .. } if self.waits() => {
                (stream, PollFlags::POLLIN | PollFlags::POLLOUT)
            }
            State::Up { stream, .. } => (stream, PollFlags::POLLIN),
        };
        fds.push(PollFd::new(stream.as_fd(), events));
    }

    /// Goes on after waiting; `ready` answers [`Self::watch`].
    pub fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) {
        let Some(ready) = ready.first() else { return };
        if ready.is_empty() {
            return;
        }
        match &self.state {
            State::Waiting { .. } => {}
            State::Trying { stream, .. } => match getsockopt(stream, sockopt::SocketError) {
                Ok(0) => self.rise(now),
                Ok(error) => self.fail(now, Errno::from_raw(error)),
                Err(error) => self.fail(now, error),
            },
            State::Up { .. } => self.flush(now),
        }
    }

    /// Gives up an attempt or a connection without progress, and starts the next attempt when it is due. Early and
    /// repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.next_timeout().is_none_or(|at| at > now) {
            return;
        }
        match &self.state {
            State::Waiting { .. } => self.attempt(now),
            State::Trying { .. } => self.fail(now, Errno::ETIMEDOUT),
            State::Up { .. } => self.fall(now),
        }
    }

    /// Takes octets for the server; they are lost if the connection is. Only while it is up.
    pub fn send(&mut self, now: Time, octets: &[u8]) {
        if matches!(self.state, State::Up { .. }) {
            if !self.waits() {
                self.moved_at = now;
            }
            self.unsent.extend_from_slice(octets);
            self.flush(now);
        }
    }

    /// Reads octets from the server, at most `into` full; returns their number, 0 when there is nothing.
    pub fn receive(&mut self, now: Time, into: &mut [u8]) -> usize {
        let State::Up { stream, .. } = &mut self.state else { return 0 };
        match stream.read(into) {
            Ok(0) => self.fall(now),
            Ok(len) => return len,
            Err(error) if is_passing(&error) => {}
            Err(_) => self.fall(now),
        }
        0
    }

    /// Leaves the server, to connect anew after a while.
    pub fn hang_up(&mut self, now: Time) {
        if matches!(self.state, State::Up { .. }) {
            self.fall(now);
        }
    }

    /// Writes what waits, at most until then; whether nothing waits any more.
    pub fn write_until(&mut self, now: Time, until: Instant) -> bool {
        while self.waits() {
            let State::Up { stream, .. } = &self.state else { return false };
            if !is_ready_until(stream, PollFlags::POLLOUT, until) {
                return false;
            }
            self.flush(now);
        }
        true
    }

    /// Ends the connection for good when the server has taken all, at most until then: closed with something unread,
    /// the kernel would drop what the server has not taken.
    pub fn end(&mut self, now: Time, until: Instant) {
        self.write_until(now, until);
        let state = std::mem::replace(&mut self.state, State::Waiting { until: now });
        let State::Up { mut stream, .. } = state else { return };
        if stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let mut unread = [0; 4_096];
        while is_ready_until(&stream, PollFlags::POLLIN, until)
            && stream.read(&mut unread).is_ok_and(|len| len > 0)
        {}
    }

    /// What became of the connection, once for each change.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.change.take()
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        match self.state {
            State::Waiting { until } | State::Trying { until, .. } => Some(until),
            State::Up { .. } => self.waits().then(|| self.moved_at + STALL),
        }
    }

    /// Whether there is a connection with room for more.
    #[must_use]
    pub fn has_room(&self) -> bool {
        matches!(self.state, State::Up { .. }) && self.unsent.len() - self.sent < UNSENT
    }

    /// Whether there is a connection.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// The fault of a service without its server; none while the server serves it. `whom` is the server in words, `key`
    /// the key of the configuration with its address, and `trouble` the reason why the service left the server.
    #[must_use]
    pub fn fault(
        &self,
        (whom, key): (&str, &str),
        is_served: bool,
        trouble: Option<String>,
    ) -> Option<Fault> {
        let does = match trouble {
            _ if self.is_up() && is_served => return None,
            Some(trouble) => format!("is of no use ({trouble})"),
            // Whether it refuses or is silent just now may change all the time; another text would be another fault.
            None => "refuses or is silent".to_owned(),
        };
        Some(unanswered(whom, self.to, key, &does))
    }

    /// What was counted.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    fn attempt(&mut self, now: Time) {
        self.stats.tried += 1;
        let prepare = |socket: &OwnedFd| match self.mark {
            Some(mark) => Ok(setsockopt(socket, sockopt::Mark, &mark)?),
            None => Ok(()),
        };
        match start_connecting_with(self.to, prepare) {
            Ok(stream) => self.state = State::Trying { stream, until: now + ATTEMPT },
            Err(error) => {
                let errno = error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw);
                self.fail(now, errno);
            }
        }
    }

    /// An attempt has failed.
    fn fail(&mut self, now: Time, why: Errno) {
        debug!(to = %self.to, why = why.desc(), "no connection");
        self.fall(now);
    }

    fn rise(&mut self, now: Time) {
        let state = std::mem::replace(&mut self.state, State::Waiting { until: now });
        let State::Trying { stream, .. } = state else { return };
        if stream.set_nodelay(true).and_then(|()| probe(&stream)).is_err() {
            return self.fall(now);
        }
        self.state = State::Up { stream, since: now };
        self.stats.connected += 1;
        self.change = Some(Change::Up);
    }

    fn fall(&mut self, now: Time) {
        if let State::Up { since, .. } = self.state {
            self.stats.lost += 1;
            self.change = Some(Change::Down);
            // A connection that lasted for a while is expected back soon.
            if now.since(since) > LONGEST {
                self.patience = SHORTEST;
            }
        }
        self.state = State::Waiting { until: now + self.patience };
        self.patience = (self.patience * 2).min(LONGEST);
        self.unsent.clear();
        self.sent = 0;
    }

    fn flush(&mut self, now: Time) {
        while self.waits() {
            let State::Up { stream, .. } = &mut self.state else { return };
            match stream.write(&self.unsent[self.sent..]) {
                Ok(len) => {
                    self.moved_at = now;
                    self.sent += len;
                }
                Err(error) if is_passing(&error) => break,
                Err(_) => return self.fall(now),
            }
        }
        if self.sent == self.unsent.len() || self.sent >= UNSENT {
            self.unsent.drain(..self.sent);
            self.sent = 0;
        }
    }

    fn waits(&self) -> bool {
        self.sent < self.unsent.len()
    }
}

/// Waits for a connection, at most until then.
fn is_ready_until(stream: &TcpStream, events: PollFlags, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
    let mut fds = [PollFd::new(stream.as_fd(), events)];
    !left.is_zero() && poll(&mut fds, timeout).is_ok_and(|ready| ready > 0)
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

//! The loop of every thread of the gateway: do what is due, wait, take what has come.
//!
//! ```text
//!        ┌──────────────────────────────────────────────────────────────┐
//!        ▼                                                              │
//!   Driver::act ─▶ next_timeout, watch ─▶ wait in the kernel ─▶ Driver::handle_ready
//! ```
//! Whoever holds the thread's [`Waker`] ends the wait early.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use proto::time::Time;

/// Nanoseconds by which the kernel may wake a thread late; pacing is finer than its default.
const TIMER_SLACK: u64 = 1_000;
/// Descriptors that most drivers wait for at most.
const USUAL: usize = 8;

/// What a thread does between two waits.
pub(crate) trait Driver {
    /// Does what is due, and carries what can be carried.
    ///
    /// # Errors
    /// When it cannot go on.
    fn act(&mut self, now: Time) -> anyhow::Result<()>;

    /// When to call [`Self::act`] again at the latest.
    fn next_timeout(&mut self) -> Option<Time>;

    /// Appends what to wait for.
    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>);

    /// Takes what has come; `ready` answers [`Self::watch`].
    ///
    /// # Errors
    /// When it cannot go on.
    fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> anyhow::Result<()>;
}

/// The time since a service began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

/// Ends another thread's wait.
#[derive(Debug)]
pub(crate) struct Waker(EventFd);

/// One thread's waits.
#[derive(Debug)]
pub(crate) struct Reactor {
    clock: Clock,
    waker: Arc<Waker>,
    ready: Vec<PollFlags>,
}

impl Reactor {
    /// The reactor of this thread.
    pub(crate) fn new(clock: Clock, waker: Arc<Waker>) -> Self {
        // Without it the kernel only wakes later.
        let _ = prctl::set_timerslack(TIMER_SLACK);
        Self { clock, waker, ready: Vec::new() }
    }

    /// Lets the driver act, waits, and gives it what has come; returns whether the thread was woken.
    ///
    /// # Errors
    /// When the driver cannot go on.
    pub(crate) fn turn(&mut self, driver: &mut (impl Driver + ?Sized)) -> anyhow::Result<bool> {
        driver.act(self.clock.now())?;
        let due = driver.next_timeout();
        let mut fds = Vec::with_capacity(USUAL);
        fds.push(PollFd::new(self.waker.0.as_fd(), PollFlags::POLLIN));
        driver.watch(&mut fds);
        let timeout = due.map(|due| TimeSpec::from(due.since(self.clock.now())));
        match ppoll(&mut fds, timeout, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting in the kernel"),
        }
        self.ready.clear();
        self.ready.extend(fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())));
        driver.handle_ready(self.clock.now(), &self.ready[1..])?;
        Ok(!self.ready[0].is_empty() && self.waker.0.read().is_ok())
    }
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO + self.0.elapsed()
    }
}

impl Waker {
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn new() -> anyhow::Result<Arc<Self>> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_value_and_flags(0, flags).context("cannot make an event")?;
        Ok(Arc::new(Self(event)))
    }

    pub(crate) fn wake(&self) {
        // It fails only when it was called 2^64 times: the thread is woken anyway.
        let _ = self.0.write(1);
    }
}

/// Whether a descriptor can be read, or reading it would say what is wrong with it.
pub(crate) fn has_input(ready: PollFlags) -> bool {
    ready.intersects(PollFlags::POLLIN | PollFlags::POLLERR | PollFlags::POLLHUP)
}

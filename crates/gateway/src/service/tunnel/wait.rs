//! How the threads sleep: until something arrives, or until a core is due.

use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use proto::time::Time;

use super::Shared;

/// The thread that reads the device.
pub(super) const OUTWARD: usize = 0;
/// The thread that reads the socket.
pub(super) const INWARD: usize = 1;

/// Nanoseconds by which the kernel may wake us late; pacing is finer than its default.
const SLACK: u64 = 1_000;

/// One thread's way to sleep.
pub(super) struct Sleeper {
    who: usize,
}

impl Sleeper {
    pub(super) fn new(_shared: &Shared, who: usize) -> Self {
        let _ = prctl::set_timerslack(SLACK);
        Self { who }
    }

    /// Sleeps; whether all is to end.
    ///
    /// Only one of the threads waits for a deadline. The other may sleep past it: one that is
    /// awake looks at all deadlines before it sleeps.
    pub(super) fn sleep(&mut self, shared: &Shared) -> anyhow::Result<bool> {
        let state = shared.state();
        let due = state.next_timeout();
        let others = shared.armed[1 - self.who].load(Ordering::SeqCst);
        let due = due.filter(|due| due.as_nanos() < others);
        let armed = due.map_or(u64::MAX, Time::as_nanos);
        shared.armed[self.who].store(armed, Ordering::SeqCst);
        drop(state);

        let timeout = due.map(|due| TimeSpec::from(due.since(shared.now())));
        let full = shared.is_blocked.load(Ordering::SeqCst);
        let output = if full { PollFlags::POLLOUT } else { PollFlags::empty() };
        let input = PollFlags::POLLIN;
        let mut fds = [
            PollFd::new(shared.end.as_fd(), input),
            if self.who == OUTWARD {
                PollFd::new(shared.tun.as_fd(), input)
            } else {
                PollFd::new(shared.udp.as_fd(), input | output)
            },
            PollFd::new(shared.udp.as_fd(), output),
        ];
        let polled = if self.who == OUTWARD && full { 3 } else { 2 };
        let outcome = ppoll(&mut fds[..polled], timeout, None);
        shared.armed[self.who].store(u64::MAX, Ordering::SeqCst);
        match outcome {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting for packets"),
        }
        Ok(fds[0].revents().is_some_and(|events| !events.is_empty()))
    }
}

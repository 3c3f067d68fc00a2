//! Decides when a run ends, and waits until then or until something happens.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base::time::{Time, earliest};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::{prctl, signal};

/// Keeps the clock of a run, and knows when to end.
#[derive(Debug)]
pub struct Stop {
    started: Instant,
    signals: SignalFd,
    at: Option<Time>,
}

impl Stop {
    /// The run begins now, and ends at a signal or after `duration`. Later threads leave signals to
    /// this thread.
    ///
    /// # Errors
    /// When signals cannot be waited for.
    pub fn new(duration: Option<Duration>) -> anyhow::Result<Self> {
        // The kernel otherwise lets our timers be 50 us late; a failure does no harm.
        let _ = prctl::set_timerslack(1);
        let mask = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        signal::pthread_sigmask(signal::SigmaskHow::SIG_BLOCK, Some(&mask), None)
            .context("blocking signals")?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC).context("signalfd")?;
        Ok(Self { started: Instant::now(), signals, at: duration.map(|it| Time::ZERO + it) })
    }

    /// The time of the run.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    /// Waits for descriptors, until `due` at most. Returns the events of each, or `None` at the
    /// end.
    ///
    /// # Errors
    /// When the kernel cannot wait.
    pub fn wait<'a>(
        &'a self,
        due: Option<Time>,
        watch: impl FnOnce(&mut Vec<PollFd<'a>>),
    ) -> anyhow::Result<Option<Vec<PollFlags>>> {
        let now = self.now();
        if self.at.is_some_and(|at| at <= now) {
            return Ok(None);
        }
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        watch(&mut fds);
        let timeout = earliest(due, self.at).map(|at| TimeSpec::from(at.since(now)));
        match ppoll(&mut fds, timeout, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting"),
        }
        let mut ready: Vec<_> =
            fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        let signal = ready.remove(0);
        Ok(if signal.is_empty() { Some(ready) } else { None })
    }
}

//! The loop of every thread of the gateway: do all due work, wait, take new input.
//!
//! ```text
//!        ┌──────────────────────────────────────────────────────────────┐
//!        ▼                                                              │
//!   Driver::act ─▶ next_timeout, watch ─▶ wait in the kernel ─▶ Driver::handle_ready
//! ```
//! A holder of the thread's [`Waker`] can end the wait early. Setting the clock ends the wait, too; the
//! kernel sets it when the machine wakes up, as its timers do not count the sleep.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base::time::Time;
use nix::errno::Errno;
use nix::libc::c_ulong;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{self, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds by which the kernel may wake a thread late; pacing is finer than its default.
const TIMER_SLACK: c_ulong = 1_000;
/// Descriptors that most drivers wait for at most.
const USUAL: usize = 8;

/// What a thread does between two waits.
pub trait Driver {
    /// Does all due work, and carries traffic as far as possible.
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

/// The time since a service began, what the machine slept included: keys must not become older than
/// they may because a laptop was closed.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Duration);

/// Ends another thread's wait.
#[derive(Debug)]
pub struct Waker(EventFd);

/// One thread's waits.
#[derive(Debug)]
pub struct Reactor {
    clock: Clock,
    waker: Arc<Waker>,
    settings: Settings,
    ready: Vec<PollFlags>,
}

/// Becomes readable when the clock was set, or the machine has slept.
#[derive(Debug)]
struct Settings(Option<TimerFd>);

impl Reactor {
    /// The reactor of this thread.
    pub fn new(clock: Clock, waker: Arc<Waker>) -> Self {
        // Without it the kernel only wakes later.
        let _ = prctl::set_timerslack(TIMER_SLACK);
        Self { clock, waker, settings: Settings::watch(), ready: Vec::new() }
    }

    /// Lets the driver act, waits, and gives it what has come; returns whether the thread was woken.
    ///
    /// # Errors
    /// When the driver cannot go on.
    pub fn turn(&mut self, driver: &mut (impl Driver + ?Sized)) -> anyhow::Result<bool> {
        driver.act(self.clock.now())?;
        let due = driver.next_timeout();
        let mut fds = Vec::with_capacity(USUAL);
        fds.push(PollFd::new(self.waker.0.as_fd(), PollFlags::POLLIN));
        let own = 1 + self.settings.watch_into(&mut fds);
        driver.watch(&mut fds);
        let timeout = due.map(|due| TimeSpec::from(due.since(self.clock.now())));
        match ppoll(&mut fds, timeout, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting in the kernel"),
        }
        self.ready.clear();
        self.ready.extend(fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())));
        if own == 2 && !self.ready[1].is_empty() {
            self.settings.go_on();
        }
        driver.handle_ready(self.clock.now(), &self.ready[own..])?;
        Ok(!self.ready[0].is_empty() && self.waker.0.read().is_ok())
    }
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self(since_boot())
    }

    pub fn now(self) -> Time {
        Time::ZERO + since_boot().saturating_sub(self.0)
    }
}

fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has it since 2.6.39").into()
}

impl Settings {
    /// Without it, what is due after a sleep is done when the next datagram comes, or when it would
    /// have been due without the sleep.
    fn watch() -> Self {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(timerfd::ClockId::CLOCK_REALTIME, flags).ok();
        Self(timer.filter(|timer| arm(timer).is_ok()))
    }

    /// Appends the descriptors to wait for, and returns their number.
    fn watch_into<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) -> usize {
        fds.extend(self.0.iter().map(|timer| PollFd::new(timer.as_fd(), PollFlags::POLLIN)));
        usize::from(self.0.is_some())
    }

    /// Waits for the next time.
    fn go_on(&mut self) {
        if let Some(timer) = &self.0 {
            // The result only reports the cancellation.
            let _ = timer.wait();
            if arm(timer).is_err() {
                self.0 = None;
            }
        }
    }
}

/// A time that does not come: the timer is only cancelled.
fn arm(timer: &TimerFd) -> nix::Result<()> {
    let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
    timer.set(Expiration::OneShot(TimeSpec::from(Duration::from_secs(1 << 33))), flags)
}

impl Waker {
    /// # Errors
    /// When there are no descriptors left.
    pub fn new() -> anyhow::Result<Arc<Self>> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_value_and_flags(0, flags).context("cannot make an event")?;
        Ok(Arc::new(Self(event)))
    }

    pub fn wake(&self) {
        // It fails only when it was called 2^64 times: the thread is woken anyway.
        let _ = self.0.write(1);
    }
}

/// Whether a descriptor can be read, or reading it would say what is wrong with it.
pub fn has_input(ready: PollFlags) -> bool {
    ready.intersects(PollFlags::POLLIN | PollFlags::POLLERR | PollFlags::POLLHUP)
}

//! Puts the two threads to sleep, and ends one thread with the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Context as _;
use base::time::Time;

use super::Shared;
use crate::reactor::{Driver, Reactor, Waker};
use crate::service::Setup;

/// The thread that reads the device.
pub(super) const OUTWARD: usize = 0;
/// The thread that reads the socket.
pub(super) const INWARD: usize = 1;

impl Shared {
    /// Until when a thread may sleep.
    ///
    /// Only one of the threads waits for a deadline. The other thread may sleep past the deadline: an awake thread
    /// looks at all deadlines before sleeping.
    pub(super) fn sleep(&self, who: usize) -> Option<Time> {
        let state = self.state();
        let due = state.next_timeout();
        let others = self.armed[1 - who].load(Ordering::SeqCst);
        let due = due.filter(|due| due.as_nanos() < others);
        self.armed[who].store(due.map_or(u64::MAX, Time::as_nanos), Ordering::SeqCst);
        due
    }

    /// A thread is awake.
    pub(super) fn wake_up(&self, who: usize) {
        self.armed[who].store(u64::MAX, Ordering::SeqCst);
    }
}

/// Another thread of a service. Dropping this ends the thread, and the thread's end wakes the first thread.
pub(super) struct Second {
    name: &'static str,
    is_over: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Second {
    /// Starts it; `waker` ends its waits.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start(
        name: &'static str,
        setup: &Setup<'_>,
        waker: Arc<Waker>,
        mut driver: impl Driver + Send + 'static,
    ) -> anyhow::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::new(AtomicBool::new(false));
        let wake = WakeAtEnd { has_ended: Arc::clone(&has_ended), first: Arc::clone(setup.waker) };
        let ends = Arc::clone(&is_over);
        let (clock, woken) = (setup.clock, Arc::clone(&waker));
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Also when it panics.
            let _wake = wake;
            let mut reactor = Reactor::new(clock, woken);
            while !ends.load(Ordering::SeqCst) {
                reactor.turn(&mut driver)?;
            }
            Ok(())
        });
        let thread = Some(thread.context("cannot start a thread")?);
        Ok(Self { name, is_over, has_ended, waker, thread })
    }

    /// Whether it goes on.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        match self.thread.take_if(|_| self.has_ended.load(Ordering::SeqCst)) {
            None => Ok(()),
            Some(thread) => {
                let outcome = thread.join().unwrap_or_else(|_| anyhow::bail!("it panicked"));
                outcome.and_then(|()| anyhow::bail!("it ended")).context(self.name)
            }
        }
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // The reason for its end was reported, or nobody asks any more.
            let _ = thread.join();
        }
    }
}

/// Wakes the first thread at the end of this one. The first thread may run before this one is quite gone; a flag
/// tells the first thread that the end is worth waiting for.
struct WakeAtEnd {
    has_ended: Arc<AtomicBool>,
    first: Arc<Waker>,
}

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.first.wake();
    }
}

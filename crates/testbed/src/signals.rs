//! Catches the signals that end a benchmark, for cleaning up first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// The signals that end us. Ctrl-C ends the programs that run; we tidy up and then end ourselves.
#[derive(Clone, Debug)]
pub struct Signals(Arc<(SignalFd, AtomicBool)>);

impl Signals {
    /// Call this before threads start, because threads inherit the blocked signals.
    ///
    /// # Errors
    /// When the kernel does not block the signals.
    pub fn block() -> anyhow::Result<Self> {
        let mask = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        mask.thread_block().context("cannot block signals")?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self(Arc::new((signals, AtomicBool::new(false)))))
    }

    /// Fails once a signal has come.
    ///
    /// # Errors
    /// When SIGINT, SIGTERM or SIGHUP has come.
    pub fn check(&self) -> anyhow::Result<()> {
        let (signals, has_come) = &*self.0;
        if signals.read_signal()?.is_some() {
            has_come.store(true, Ordering::SeqCst);
        }
        if has_come.load(Ordering::SeqCst) { bail!("interrupted") } else { Ok(()) }
    }
}

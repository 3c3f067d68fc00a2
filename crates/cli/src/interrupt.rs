//! Ctrl-C and its like: they end a command between two runs.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use anyhow::Context as _;
use nix::sys::signal::{SigSet, Signal};
use whole::discard_unfinished;

use crate::terminal;

/// Ends a command when the runs at work are done; a second signal ends it at once.
pub struct Interrupt {
    flag: Arc<AtomicBool>,
    signal: Arc<AtomicI32>,
}

impl Interrupt {
    /// To be called before other threads start: they inherit the signal mask, so only one thread takes the
    /// signals.
    pub fn new() -> anyhow::Result<Self> {
        let signals = block()?;
        let (flag, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI32::new(0)));
        let this = Self { flag: flag.clone(), signal: signal.clone() };
        thread::spawn(move || {
            let Ok(taken) = signals.wait() else { return };
            signal.store(taken as i32, Ordering::Relaxed);
            flag.store(true, Ordering::Relaxed);
            // Progress that cannot be shown is no reason to go on.
            let _ = writeln!(
                terminal::err(),
                "ends when the runs at work are done; again ends at once"
            );
            end_at_next(&signals, discard_unfinished);
        });
        Ok(this)
    }

    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// The exit status, as shells report a program ended by a signal.
    pub fn code(&self) -> u8 {
        128 + u8::try_from(self.signal.load(Ordering::Relaxed)).unwrap_or_default()
    }
}

/// Has a signal end the command at once, and leave no half of a file; to be called before threads start.
pub fn end_cleanly() -> anyhow::Result<()> {
    end_after(discard_unfinished)
}

/// Has a signal end the command as soon as `tidy` is done; to be called before threads start.
pub fn end_after(tidy: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let signals = block()?;
    thread::spawn(move || end_at_next(&signals, tidy));
    Ok(())
}

fn block() -> anyhow::Result<SigSet> {
    let signals = SigSet::from_iter([Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM]);
    signals.thread_block().context("cannot block signals")?;
    Ok(signals)
}

fn end_at_next(signals: &SigSet, tidy: impl FnOnce()) {
    if let Ok(signal) = signals.wait() {
        tidy();
        std::process::exit(128 + signal as i32);
    }
}

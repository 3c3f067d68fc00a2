//! What carries traffic, each service on a thread of its own, and what its supervisor knows of it.
//!
//! ```text
//!                 set_up            Driver: act, wait, take            end
//!   configuration ──────▶ Service ─────────────────────────────────────────▶
//!                            ▲ reload: another configuration   │ report: how it is
//!                            └───────── supervisor ◀───────────┘
//! ```

pub(crate) mod complaints;
mod gre;
mod hbh;
mod hfpep;
mod ipclient;
mod report;
mod routing;
mod rules;
mod s5066;
mod sar;
mod seals;
mod tunnel;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::time::Time;
use caps::Capability;

use crate::config::Config;
use crate::reactor::{Clock, Driver, Waker};

pub use sar::untrusted as sar_untrusted;

pub(crate) use report::{Entry, Report, Sample, entries, rounded};

/// All services, in the order in which they start.
pub(crate) const SERVICES: [Kind; 8] = [
    hbh::KIND,
    tunnel::KIND,
    s5066::KIND,
    ipclient::KIND,
    hfpep::KIND,
    sar::KIND,
    gre::KIND,
    routing::KIND,
];

/// The time since 1970, as the wall clock has it.
fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// A service as its supervisor knows it before it runs.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Whether a configuration asks for it.
    pub(crate) is_wanted: fn(&Config) -> bool,
    /// What its thread may do.
    pub(crate) rights: &'static [Capability],
    /// Opens all that it needs; an error says what is missing, with the remedy.
    pub(crate) set_up: fn(&Setup<'_>) -> anyhow::Result<Box<dyn Service>>,
    /// Removes what of it outlives its thread, whether that ran or not: only of one that ends for good. What fails
    /// or is made anew finds it there.
    pub(crate) clean_up: fn(),
}

/// What a service is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) config: &'a Config,
    /// Of its random numbers; nobody can guess it.
    pub(crate) seed: u64,
    /// The time of all that it is told.
    pub(crate) clock: Clock,
    /// Wakes the service's thread.
    pub(crate) waker: &'a Arc<Waker>,
    /// Whether it ran before: what it had then and is missing now may come back, and is waited for.
    pub(crate) is_restart: bool,
}

/// A service that runs.
pub(crate) trait Service: Driver {
    /// How it is.
    fn report(&self, now: Time) -> Report;

    /// Takes another configuration, which asks for it too. What did not change is not disturbed.
    ///
    /// # Errors
    /// When it cannot be taken: nothing has changed.
    fn reload(&mut self, now: Time, config: &Config) -> anyhow::Result<Reload>;

    /// Says goodbye, if there is anybody to say it to.
    fn end(&mut self, _now: Time) {}
}

/// What became of another configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Reload {
    /// It is in force, and this has changed.
    Taken(Vec<String>),
    /// It has to be made anew.
    Restart,
}

impl Reload {
    /// Of a service that takes nothing while it runs.
    pub(crate) fn unless_same(is_same: bool) -> Self {
        if is_same { Self::Taken(Vec::new()) } else { Self::Restart }
    }
}

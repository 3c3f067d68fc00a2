//! Services that carry traffic, each on its own thread, and the interface to their supervisor.
//!
//! ```text
//!                 set_up            Driver: act, wait, take            end
//!   configuration ──────▶ Service ─────────────────────────────────────────▶
//!                            ▲ reload: another configuration   │ report: how it is
//!                            └───────── supervisor ◀───────────┘
//! ```

pub mod complaints;
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

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::time::Time;
use caps::Capability;
use host::Observer;
use nix::errno::Errno;
use nix::libc;

use crate::config::Config;
use crate::legacy::{Left, Legacy};
use crate::reactor::{Clock, Driver, Waker};

pub use sar::untrusted as sar_untrusted;

pub use report::{Entry, Report, Sample, entries, of_counters, rounded};

/// All services, in the order in which they start.
pub const SERVICES: [Kind; 8] = [
    hbh::KIND,
    tunnel::KIND,
    s5066::KIND,
    ipclient::KIND,
    hfpep::KIND,
    sar::KIND,
    gre::KIND,
    routing::KIND,
];

/// The connection counters of HF-PEP, all zero, for a test of their presentation.
#[cfg(test)]
pub fn headlines_of_hfpep() -> Vec<Entry> {
    hfpep::connection_counters()
}

/// The wall clock's time since 1970.
fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// A kind of service: everything that the supervisor needs to start one.
#[derive(Debug)]
pub struct Kind {
    pub(crate) name: &'static str,
    /// Whether a configuration asks for it.
    pub(crate) is_wanted: fn(&Config) -> bool,
    /// What its thread may do.
    pub(crate) rights: &'static [Capability],
    /// Opens all that it needs; an error says what is missing, with the remedy.
    pub(crate) set_up: fn(&Setup<'_>) -> anyhow::Result<Box<dyn Service>>,
    /// Cleans up state that outlives the service's thread, once the service has ended for good; the thread need not
    /// have run. A service that fails or is started anew still finds this state.
    pub(crate) clean_up: fn(),
}

/// What a service is made from.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub(crate) config: &'a Config,
    /// Of its random numbers; nobody can guess it.
    pub(crate) seed: u64,
    /// The clock for every time that the service is given.
    pub(crate) clock: Clock,
    /// Wakes the service's thread.
    pub(crate) waker: &'a Arc<Waker>,
    /// Hears what changes on the host.
    pub(crate) observer: &'a Arc<Observer>,
    /// Whether it ran before: what it had then and is missing now may come back, and is waited for.
    pub(crate) is_restart: bool,
    /// Devices of the previous gateway.
    pub(crate) legacy: &'a Legacy,
}

/// A service that runs.
pub trait Service: Driver {
    /// How it is.
    fn report(&self, now: Time) -> Report;

    /// Takes another configuration that asks for this service too. Unchanged parts are not disturbed.
    ///
    /// # Errors
    /// When it cannot be taken: nothing has changed.
    fn reload(&mut self, now: Time, config: &Config) -> anyhow::Result<Reload>;

    /// Leaves what it has open to the next process: this one is about to end, and goes on until then.
    ///
    /// # Errors
    /// When there are no descriptors left.
    fn hand_over(&mut self) -> anyhow::Result<Vec<Left>> {
        Ok(Vec::new())
    }

    /// Says goodbye to others, if there are any.
    fn end(&mut self, _now: Time) {}
}

/// A part of this host, such as an interface, that is missing and awaited.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Absent(pub(crate) String);

/// Whether a service cannot start only because something of this host is not there yet: an interface, or an address
/// that it is to use.
pub fn is_awaited(why: &anyhow::Error) -> bool {
    let has_no_address = |error: &io::Error| error.raw_os_error() == Some(libc::EADDRNOTAVAIL);
    why.chain().any(|cause| {
        cause.is::<Absent>()
            || cause.downcast_ref().is_some_and(has_no_address)
            || cause.downcast_ref() == Some(&Errno::EADDRNOTAVAIL)
    })
}

/// What became of another configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reload {
    /// The configuration is in force, with these changes.
    Taken(Vec<String>),
    /// The service has to be made anew.
    Restart,
}

impl Reload {
    /// The reload of a service that cannot change its configuration while running.
    pub fn unless_same(is_same: bool) -> Self {
        if is_same { Self::Taken(Vec::new()) } else { Self::Restart }
    }
}

//! Examines the host again when it changes, for the faults of a running gateway.
//!
//! ```text
//!   Observer ── something changed ──▶ a thread ── look(firewalls, settings, routes) ──▶ findings ──▶ faults
//! ```
//! Other hosts may be behind a gateway, or none: what is in the way of their packets at the start is only logged, and is
//! a fault if it comes later.

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use host::fault::Fault;
use host::observer::{Interest, Observer, Subscription};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::{Finding, look};
use crate::config::Config;
use crate::firewalls::Firewalls;

/// From a change until it is looked at: changes come in groups, and some last for a moment.
const SETTLE: Duration = Duration::from_millis(500);
/// The least time between two readings of firewalls, which takes programs.
const APART: Duration = Duration::from_secs(5);

/// Examines the host until dropped.
pub(crate) struct Rounds(Arc<Shared>);

struct Shared {
    config: Mutex<Arc<Config>>,
    found: Mutex<Vec<Finding>>,
    /// Set when the configuration is another, or nobody wants to know any more.
    wake: EventFd,
}

/// Obstacles to other hosts' packets that were there from the start.
#[derive(Default)]
struct Early {
    known: Option<BTreeSet<(&'static str, String)>>,
}

impl Rounds {
    /// Starts a thread, which does `first` before all else.
    ///
    /// # Errors
    /// When there are no descriptors left, or no thread can be started.
    pub(crate) fn start(
        observer: &Observer,
        config: &Arc<Config>,
        first: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<Self> {
        let changes = observer.subscribe(Interest::Obstacles)?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_value_and_flags(0, flags).context("cannot make an event")?;
        let (config, found) = (Mutex::new(Arc::clone(config)), Mutex::default());
        let shared = Arc::new(Shared { config, found, wake });
        let its = Arc::clone(&shared);
        let work = move || {
            first();
            its.work(changes);
        };
        let thread = thread::Builder::new().name("doctor".to_owned());
        thread.spawn(work).context("cannot start a thread")?;
        Ok(Self(shared))
    }

    /// What the last look has found; a look for another configuration follows.
    pub(crate) fn faults(&self, config: &Arc<Config>) -> Vec<Fault> {
        let mut known = lock(&self.0.config);
        if !Arc::ptr_eq(&known, config) {
            *known = Arc::clone(config);
            self.0.wake();
        }
        let found = lock(&self.0.found);
        found.iter().map(|it| Fault::new(it.kind, format!("{}: {}", it.what, it.remedy))).collect()
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl Shared {
    fn wake(&self) {
        // Writing fails only when the event is set anyway.
        let _ = self.wake.write(1);
    }

    fn work(self: Arc<Self>, mut changes: Subscription) {
        let (mut firewalls, mut read_at) = (Firewalls::read(), Instant::now());
        let mut early = Early::default();
        let mut is_stale = false;
        // Without `Rounds`, nobody wants to know.
        while Arc::strong_count(&self) > 1 {
            if is_stale && read_at.elapsed() >= APART {
                (firewalls, read_at, is_stale) = (Firewalls::read(), Instant::now(), false);
            }
            let config = Arc::clone(&lock(&self.config));
            *lock(&self.found) = early.without(look(&config, &firewalls));
            self.wait(&changes, is_stale.then(|| APART.saturating_sub(read_at.elapsed())));
            thread::sleep(SETTLE);
            is_stale |= changes.skip();
            // An error only means that the event was not set.
            let _ = self.wake.read();
        }
    }

    /// Waits for a change, for at most so long.
    fn wait(&self, changes: &Subscription, at_most: Option<Duration>) {
        let mut fds = [
            PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
            PollFd::new(changes.as_fd(), PollFlags::POLLIN),
        ];
        let timeout = at_most
            .map_or(PollTimeout::NONE, |it| PollTimeout::try_from(it).unwrap_or(PollTimeout::MAX));
        // Interrupted, it looks once more.
        let _ = poll(&mut fds, timeout);
    }
}

impl Early {
    /// Removes the findings that were there from the start, and have been since.
    fn without(&mut self, found: Vec<Finding>) -> Vec<Finding> {
        let key = |it: &Finding| (it.kind.code, it.remedy.clone());
        let of_others = found.iter().filter(|it| it.is_of_others).map(key).collect();
        let known = match self.known.take() {
            Some(known) => &known & &of_others,
            None => of_others,
        };
        let is_new = |it: &Finding| !(it.is_of_others && known.contains(&key(it)));
        let found = found.into_iter().filter(is_new).collect();
        self.known = Some(known);
        found
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use host::fault::{FORWARDING, NO_ROUTE};

    use super::*;

    fn forwarding(key: &str) -> Finding {
        let (what, remedy) = (format!("{key} is 0"), format!("sysctl -w {key}=1"));
        Finding { kind: &FORWARDING, what, remedy, is_of_others: true }
    }

    #[test]
    fn what_hinders_other_hosts_from_the_start_is_no_fault_until_it_has_gone_and_come_again() {
        let (of_lan, of_wan) = (forwarding("lan0"), forwarding("wan0"));
        let no_route = Finding {
            kind: &NO_ROUTE,
            what: "no route".to_owned(),
            remedy: "add one".to_owned(),
            is_of_others: false,
        };
        let mut early = Early::default();
        let mut told =
            |found: &[&Finding]| early.without(found.iter().map(|it| (*it).clone()).collect());

        assert_eq!(told(&[&of_lan, &no_route]), std::slice::from_ref(&no_route));
        assert_eq!(told(&[&of_lan, &of_wan]), std::slice::from_ref(&of_wan));
        assert_eq!(told(&[]), []);
        assert_eq!(told(&[&of_lan]), std::slice::from_ref(&of_lan));
    }
}

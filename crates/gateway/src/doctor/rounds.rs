//! Examines the host again after each change, and reports faults to the running gateway.
//!
//! ```text
//!   Observer ── something changed ──▶ a thread ── look(firewalls, settings, routes) ──▶ findings ──▶ faults
//!                                        ▲ firewall rules: read by another thread, because `nft` may hang
//! ```
//! A gateway may have no hosts behind it. So an obstacle to forwarded packets is a fault only if it appears later; one
//! that exists at the start is only logged.

use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use host::fault::{FIREWALL, Fault, REVERSE_PATH};
use host::observer::{Interest, Observer, Subscription};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::neighbours::{self, Asked, Lost};
use super::{Finding, full_connections, look};
use crate::config::Config;
use crate::firewalls::Firewalls;

/// Wait between a change and the examination: changes come in groups, and some are undone at once.
const SETTLE: Duration = Duration::from_millis(500);
/// Least time between two readings of the firewalls, because each starts programs. Also the interval at which neighbours
/// and the connection table are polled: the kernel reports the former too often, and the latter not at all.
const APART: Duration = Duration::from_secs(5);

/// Examines the host until dropped.
pub(crate) struct Rounds(Arc<Shared>);

struct Shared {
    config: Mutex<Arc<Config>>,
    found: Mutex<Vec<Finding>>,
    /// Newly read firewall rules, until the thread takes them.
    read: Mutex<Option<Firewalls>>,
    /// Set when the configuration has changed, firewall rules were read, or the thread must end.
    wake: EventFd,
    is_over: AtomicBool,
}

/// Obstacles to other hosts' packets that exist since the start.
#[derive(Default)]
struct Early {
    known: Option<BTreeSet<(&'static str, String)>>,
}

impl Rounds {
    /// Starts the examining thread; another thread runs `first`.
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
        let (config, found, read) =
            (Mutex::new(Arc::clone(config)), Mutex::default(), Mutex::default());
        let is_over = AtomicBool::new(false);
        let shared = Arc::new(Shared { config, found, read, wake, is_over });
        let its = Arc::clone(&shared);
        spawn("doctor-start", first).context("cannot start a thread")?;
        spawn("doctor", move || its.work(changes)).context("cannot start a thread")?;
        Ok(Self(shared))
    }

    /// The faults that the last examination found. A changed `config` starts a new examination.
    pub(crate) fn faults(&self, config: &Arc<Config>) -> Vec<Fault> {
        let mut known = lock(&self.0.config);
        if !Arc::ptr_eq(&known, config) {
            *known = Arc::clone(config);
            self.0.wake();
        }
        let found = lock(&self.0.found);
        let fault = |it: &Finding| {
            let said = format!("{}: {}", it.what, it.remedy);
            Fault { peer: it.peer.clone(), is_finding: true, ..Fault::new(it.kind, said) }
        };
        found.iter().map(fault).collect()
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        self.0.wake();
    }
}

impl Shared {
    fn wake(&self) {
        // Writing fails only if the event is already set.
        let _ = self.wake.write(1);
    }

    fn work(self: Arc<Self>, mut changes: Subscription) {
        let mut firewalls: Option<Firewalls> = None;
        // The earliest time to read the firewalls again; `None` during a reading.
        let mut read_from = Some(Instant::now());
        let mut known = Arc::clone(&lock(&self.config));
        let mut early = Early::default();
        let mut is_stale = true;
        let (mut sought, mut lost) = (BTreeSet::new(), Lost::default());
        let mut asked = Asked::default();
        let mut is_full = false;
        while !self.is_over.load(Ordering::Relaxed) {
            if let Some(read) = lock(&self.read).take() {
                read_from = Some(Instant::now() + APART);
                // Keep the previous rules of a program that fails now: they have hardly changed.
                if firewalls.as_ref().is_none_or(|it| read.unread().len() <= it.unread().len()) {
                    if firewalls.is_none() {
                        early.take_firewalls(look(&known, &read, &lost));
                    }
                    firewalls = Some(read);
                } else {
                    is_stale = true;
                }
            }
            if is_stale && read_from.is_some_and(|from| from <= Instant::now()) {
                let its = Arc::clone(&self);
                let read = move || {
                    *lock(&its.read) = Some(Firewalls::read());
                    its.wake();
                };
                is_stale = spawn("firewalls", read).is_err();
                read_from = is_stale.then(|| Instant::now() + APART);
            }
            let none = Firewalls::default();
            let firewalls = firewalls.as_ref().unwrap_or(&none);
            let config = Arc::clone(&lock(&self.config));
            if !Arc::ptr_eq(&known, &config) {
                early.take_over(look(&config, firewalls, &lost), &lock(&self.found));
                known = Arc::clone(&config);
            }
            *lock(&self.found) = early.without(look(&config, firewalls, &lost));
            loop {
                let is_due = read_from.filter(|_| is_stale);
                let at_most = is_due.map(|from| from.saturating_duration_since(Instant::now()));
                if self.wait(&changes, at_most.unwrap_or(APART)) || is_due.is_some() {
                    thread::sleep(SETTLE);
                    break;
                }
                // Silent is a router that the kernel still asks for after a whole interval.
                let now = neighbours::sought_routers(&config);
                let silent = &sought & &now;
                sought = now;
                let found = Lost { silent, wrong: neighbours::wrong_entries(&config, &mut asked) };
                let was_full = mem::replace(&mut is_full, full_connections().is_some());
                if found != lost || is_full != was_full {
                    lost = found;
                    break;
                }
            }
            is_stale |= changes.skip();
            // Reading fails only if the event is not set.
            let _ = self.wake.read();
        }
    }

    /// Waits for a change until a timeout; returns whether something may have changed.
    fn wait(&self, changes: &Subscription, at_most: Duration) -> bool {
        let mut fds = [
            PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
            PollFd::new(changes.as_fd(), PollFlags::POLLIN),
        ];
        let timeout = PollTimeout::try_from(at_most).unwrap_or(PollTimeout::MAX);
        // After an interruption, look once more.
        poll(&mut fds, timeout).map_or(true, |ready| ready > 0)
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

impl Early {
    /// Starts over for another configuration: all its obstacles are early, except those that are faults now.
    fn take_over(&mut self, found: Vec<Finding>, faults: &[Finding]) {
        let of_others = found.into_iter().filter(|it| it.is_of_others);
        let is_fault = |it: &Finding| faults.iter().any(|fault| key(fault) == key(it));
        self.known = Some(of_others.filter(|it| !is_fault(it)).map(|it| key(&it)).collect());
    }

    /// Adds the obstacles that the first reading of the firewalls has found.
    fn take_firewalls(&mut self, found: Vec<Finding>) {
        let is_of_firewall = |it: &Finding| [&FIREWALL, &REVERSE_PATH].contains(&it.kind);
        let of_others = found.into_iter().filter(|it| it.is_of_others && is_of_firewall(it));
        self.known.get_or_insert_default().extend(of_others.map(|it| key(&it)));
    }

    /// Removes the findings that have existed ever since the start.
    fn without(&mut self, found: Vec<Finding>) -> Vec<Finding> {
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

/// Identifies an obstacle by its remedy, because the description may name interfaces that come and go.
fn key(of: &Finding) -> (&'static str, String) {
    (of.kind.code, of.remedy.clone())
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
        Finding { kind: &FORWARDING, what, remedy, is_of_others: true, peer: None }
    }

    #[test]
    fn what_hinders_other_hosts_from_the_start_is_no_fault_until_it_has_gone_and_come_again() {
        let (of_lan, of_wan) = (forwarding("lan0"), forwarding("wan0"));
        let no_route = Finding {
            kind: &NO_ROUTE,
            what: "no route".to_owned(),
            remedy: "add one".to_owned(),
            is_of_others: false,
            peer: None,
        };
        let mut early = Early::default();
        let mut told =
            |found: &[&Finding]| early.without(found.iter().map(|it| (*it).clone()).collect());

        assert_eq!(told(&[&of_lan, &no_route]), std::slice::from_ref(&no_route));
        assert_eq!(told(&[&of_lan, &of_wan]), std::slice::from_ref(&of_wan));
        assert_eq!(told(&[]), []);
        assert_eq!(told(&[&of_lan]), std::slice::from_ref(&of_lan));
    }

    #[test]
    fn what_another_configuration_finds_at_its_start_is_no_fault_and_a_fault_stays_one() {
        let (of_lan, of_wan) = (forwarding("lan0"), forwarding("wan0"));
        let mut early = Early::default();
        assert_eq!(early.without(Vec::new()), []);
        let faults = early.without(vec![of_lan.clone()]);
        assert_eq!(faults, std::slice::from_ref(&of_lan));

        let found = vec![of_lan.clone(), of_wan];
        early.take_over(found.clone(), &faults);

        assert_eq!(early.without(found), [of_lan]);
    }
}

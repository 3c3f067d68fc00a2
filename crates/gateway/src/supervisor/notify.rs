//! Tells systemd how the gateway is: ready, reloading, stopping, alive, and which services run.
//!
//! ```text
//!   supervisor ─ are you there? ─▶ thread of each service
//!              ◀──── yes ─────────
//!              ── WATCHDOG=1 ────▶ systemd, only if all threads have answered
//! ```
//! Without a service manager (no `NOTIFY_SOCKET`) nothing is said.

use std::env;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use base::time::Time;
use sd_notify::NotifyState;
use settings::plain::shown;
use tracing::warn;

use super::worker::{Pending, Worker};

/// Questions to services within the time after which systemd ends a silent gateway.
const BEATS: u32 = 4;

/// Sends one message to the service manager, perhaps with a descriptor.
type Send = Box<dyn Fn(&[NotifyState<'_>], Option<BorrowedFd<'_>>) -> io::Result<()>>;

/// The way to the service manager.
pub struct Notify {
    /// `None` if no service manager listens.
    send: Option<Send>,
    watchdog: Option<Watchdog>,
    /// What the service manager was told last about the services.
    told: String,
}

/// Proves to the service manager that all services work.
struct Watchdog {
    every: Duration,
    due: Time,
    /// The answers that are awaited, each with the name of its service.
    asked: Vec<(&'static str, Pending<()>)>,
}

impl Notify {
    /// The service manager that has started us, if one has.
    pub fn find() -> Self {
        if env::var_os("NOTIFY_SOCKET").is_none() {
            return Self { send: None, watchdog: None, told: String::new() };
        }
        let send = |states: &[NotifyState<'_>], with: Option<BorrowedFd<'_>>| match with {
            Some(descriptor) => sd_notify::notify_with_fds(states, &[descriptor]),
            None => sd_notify::notify(states),
        };
        Self::new(Box::new(send), sd_notify::watchdog_enabled())
    }

    /// A service manager that takes messages by `send`. With `alive_within`, it expects a sign of life in each such
    /// time.
    pub fn new(send: Send, alive_within: Option<Duration>) -> Self {
        let watchdog = alive_within.map(|within| Watchdog {
            every: within / BEATS,
            due: Time::ZERO,
            asked: Vec::new(),
        });
        Self { send: Some(send), watchdog, told: String::new() }
    }

    /// All services have started, or the configuration has been read again.
    pub fn ready(&self) {
        self.send(&[NotifyState::Ready]);
    }

    /// The configuration is about to be read again.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send(&[NotifyState::Reloading, now]),
            Err(error) => warn!(%error, "systemd is not told of a reload"),
        }
    }

    /// The services are about to end.
    pub fn stopping(&self) {
        self.send(&[NotifyState::Stopping]);
    }

    /// Gives a descriptor to the service manager, which hands it to the next process of this service.
    ///
    /// # Errors
    /// When no service manager listens.
    pub fn keep(&self, name: &str, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let send = self.send.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        // The state of the descriptor is not the service manager's business.
        let unwatched = NotifyState::Custom("FDPOLL=0");
        send(&[NotifyState::FdStore, NotifyState::FdName(name), unwatched], Some(descriptor))
    }

    /// The service manager need keep the descriptors of this name no longer.
    pub fn release(&self, name: &str) {
        self.send(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)]);
    }

    /// Says how the services are, if that has changed.
    pub fn say(&mut self, status: impl FnOnce() -> String) {
        if self.send.is_none() {
            return;
        }
        let status = status();
        if status != self.told {
            // A line feed would begin another message.
            self.send(&[NotifyState::Status(&shown(&status).replace('\n', " "))]);
            self.told = status;
        }
    }

    /// When [`Self::prove`] wants to be called again.
    pub fn next_timeout(&self) -> Option<Time> {
        self.watchdog.as_ref().map(|watchdog| watchdog.due)
    }

    /// Says that we are alive if the threads of all services have answered since the last call, and asks them again.
    pub fn prove<'a>(
        &mut self,
        now: Time,
        workers: impl Iterator<Item = (&'static str, &'a Worker)>,
    ) {
        let Some(watchdog) = self.watchdog.as_mut().filter(|watchdog| watchdog.due <= now) else {
            return;
        };
        watchdog.due = now + watchdog.every;
        watchdog.asked.retain(|(_, pending)| !pending.is_over());
        if watchdog.asked.is_empty() {
            watchdog.asked = workers.map(|(name, worker)| (name, worker.ask_alive())).collect();
            self.send(&[NotifyState::Watchdog]);
        } else {
            let silent: Vec<_> = watchdog.asked.iter().map(|(name, _)| *name).collect();
            let services = silent.join(", ");
            warn!(services, "no answer: systemd starts the gateway again if this goes on");
        }
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        if let Some(send) = &self.send
            && let Err(error) = send(states, None)
        {
            warn!(%error, "systemd is not told how the gateway is");
        }
    }
}

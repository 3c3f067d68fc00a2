//! Supervises one service: state, thread, and the time of the next attempt to start.
//!
//! ```text
//!             start                 set up
//!     off ───────────▶ starting ───────────▶ running
//!                         ▲ │ failed            │ failed
//!                         │ ▼                   │
//!                       waiting ◀───────────────┘
//!                    1 s, 2 s … 60 s
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::counter::Counter;
use base::time::Time;
use host::Observer;
use host::fault::{self, Fault};
use serde::Serialize;
use settings::plain::without_numbers;
use tracing::info;

use super::worker::{Job, Notices, Worker};
use crate::config::Config;
use crate::legacy::Legacy;
use crate::service::{Kind, Sample, is_awaited};

/// Wait before a failed service is started again: the shortest at first, doubled each time, up to the
/// longest.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// The place of a service.
#[derive(Debug)]
pub struct Slot {
    kind: &'static Kind,
    life: Life,
    state: State,
    since: SystemTime,
    /// Number of restarts after failures.
    restarts: u64,
    /// The reason of the last failure.
    why: Option<String>,
    /// Whether the last failure was only due to a missing part of the host.
    is_host_awaited: bool,
    patience: Duration,
}

#[derive(Debug)]
enum Life {
    Off,
    Starting { worker: Worker, is_retry: bool },
    Running { worker: Worker, since: Time },
    Waiting { until: Time },
}

/// How a service is, for an operator.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Running,
    /// It ended, and is started again.
    Restarting,
    /// It could not be started, and is tried again now and then.
    Failed,
}

/// The status of a service, for the operator.
#[derive(Debug, Serialize)]
pub struct Status {
    name: &'static str,
    state: State,
    /// Seconds since 1970.
    since: u64,
    restarts: u64,
    /// The reason of the service's last failure, if any.
    why: Option<String>,
}

impl Slot {
    pub fn new(kind: &'static Kind) -> Self {
        Self {
            kind,
            life: Life::Off,
            state: State::Restarting,
            since: SystemTime::now(),
            restarts: 0,
            why: None,
            is_host_awaited: false,
            patience: SHORTEST,
        }
    }

    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Starts a thread that sets the service up; a notice reports the outcome.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        &mut self,
        id: u64,
        config: &Arc<Config>,
        observer: &Arc<Observer>,
        is_restart: bool,
        legacy: &Legacy,
        notices: &Notices,
    ) -> anyhow::Result<()> {
        let is_retry = matches!(self.life, Life::Waiting { .. });
        let (config, observer) = (Arc::clone(config), Arc::clone(observer));
        let legacy = legacy.clone();
        let job = Job { kind: self.kind, config, observer, is_restart, legacy };
        let worker = Worker::start(id, job, notices.clone())?;
        self.life = Life::Starting { worker, is_retry };
        Ok(())
    }

    /// The service's thread reports that the service carries traffic.
    pub fn handle_started(&mut self, now: Time) {
        let life = std::mem::replace(&mut self.life, Life::Off);
        if let Life::Starting { worker, is_retry } = life {
            self.life = Life::Running { worker, since: now };
            self.restarts += u64::from(is_retry);
            self.turn(State::Running);
            if is_retry {
                info!(service = self.kind.name, "service runs again");
            }
        } else {
            self.life = life;
        }
    }

    /// The service's thread failed, or could not start: the service will be tried again. Returns whether the reason is
    /// another than the last time.
    pub fn handle_failure(&mut self, now: Time, why: &anyhow::Error) -> bool {
        match self.life {
            Life::Running { since, .. } => {
                if now.since(since) > LONGEST {
                    self.patience = SHORTEST;
                }
                self.turn(State::Restarting);
            }
            Life::Off | Life::Starting { .. } | Life::Waiting { .. } => self.turn(State::Failed),
        }
        self.is_host_awaited = is_awaited(why);
        if self.is_host_awaited {
            self.patience = SHORTEST;
        }
        self.life = Life::Waiting { until: now + self.patience };
        self.patience = (self.patience * 2).min(LONGEST);
        let why = Some(without_numbers(&format!("{why:#}")));
        let is_news = self.why != why;
        self.why = why;
        is_news
    }

    /// Ends the service, and forgets its past; kernel state meant to outlive the service stays.
    pub fn stop(&mut self) {
        *self = Self::new(self.kind);
    }

    /// Removes kernel state that a service stopped for good has left.
    pub fn clean_up(&self) {
        (self.kind.clean_up)();
    }

    /// The time of the next attempt to start the service.
    pub fn retry_at(&self) -> Option<Time> {
        match self.life {
            Life::Waiting { until } => Some(until),
            Life::Off | Life::Starting { .. } | Life::Running { .. } => None,
        }
    }

    pub fn is_off(&self) -> bool {
        matches!(self.life, Life::Off)
    }

    /// Its thread, while the service is being set up or runs.
    pub fn worker(&self) -> Option<&Worker> {
        match &self.life {
            Life::Starting { worker, .. } | Life::Running { worker, .. } => Some(worker),
            Life::Off | Life::Waiting { .. } => None,
        }
    }

    /// Its thread, while the service runs.
    pub fn running(&self) -> Option<&Worker> {
        match &self.life {
            Life::Running { worker, .. } => Some(worker),
            Life::Off | Life::Starting { .. } | Life::Waiting { .. } => None,
        }
    }

    /// Why the service does not run, although wanted.
    pub fn fault(&self) -> Option<Fault> {
        let why = self.why.as_ref().filter(|_| !self.is_off() && self.state != State::Running)?;
        Some(Fault::new(&fault::SERVICE, format!("{}: {why}", self.kind.name)))
    }

    pub fn status(&self) -> Status {
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Status {
            name: self.kind.name,
            state: self.state,
            since: since.as_secs(),
            restarts: self.restarts,
            why: self.why.clone(),
        }
    }

    /// Whether the service waits for a missing part of the host, such as an address.
    pub fn awaits_host(&self) -> bool {
        self.is_host_awaited && matches!(self.life, Life::Waiting { .. })
    }

    /// One that waits to be tried again is tried at once.
    pub fn retry_now(&mut self, now: Time) {
        if let Life::Waiting { until } = &mut self.life {
            *until = now;
        }
    }

    /// Changes the state; the time of the change is kept if the state is the same.
    fn turn(&mut self, state: State) {
        if self.state != state {
            self.since = SystemTime::now();
        }
        self.state = state;
    }
}

impl Status {
    /// In a few words: what runs, and why the rest does not.
    pub fn in_words(&self) -> String {
        let Self { name, state, why, .. } = self;
        match (state, why) {
            (State::Running, _) => format!("{name} runs"),
            (State::Restarting | State::Failed, Some(why)) => format!("{name} does not run: {why}"),
            (State::Restarting | State::Failed, None) => format!("{name} starts"),
        }
    }

    /// The numbers of it.
    pub fn samples(&self) -> [Sample; 2] {
        let is_up = f64::from(u8::from(self.state == State::Running));
        let up = const { &Counter::gauge("service_up", "services", "Whether the service runs.") };
        let restarts = const {
            &Counter::counter("service_restarts", "times", "Times that the service was restarted.")
        };
        [(up, is_up), (restarts, self.restarts as f64)].map(|(counter, value)| {
            let of = ("service", self.name.to_owned());
            Sample { name: counter.name.to_owned(), counter, of, value }
        })
    }
}

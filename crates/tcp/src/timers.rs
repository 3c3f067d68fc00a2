//! The deadlines of a connection.

use std::time::Duration;

use base::time::Time;

use super::config::KeepAlive;

/// The deadlines of a connection, but for the delayed acknowledgement's.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    /// Retransmission.
    pub(super) rto: Option<Time>,
    /// The next window probe, and how many there were.
    pub(super) persist: Option<Time>,
    pub(super) probes: u32,
    /// The controller's pace holds data until then.
    pub(super) pace: Option<Time>,
    pub(super) time_wait: Option<Time>,
    pub(super) keep_alive: Option<Time>,
    pub(super) keep_alive_probes: u32,
    pub(super) patience: Patience,
}

/// How long the peer has not answered what we send again (R1 and R2; RFC 1122, 4.2.3.5).
#[derive(Clone, Debug)]
pub(super) struct Patience {
    /// Retransmissions since the peer last made progress.
    pub(super) retransmissions: u32,
    /// When it did.
    pub(super) progress_at: Time,
    pub(super) give_up_at: Option<Time>,
    pub(super) is_warned: bool,
}

impl Patience {
    /// The peer answered.
    pub(super) fn reset(&mut self, now: Time) {
        *self = Self { retransmissions: 0, progress_at: now, give_up_at: None, is_warned: false };
    }
}

impl Timers {
    pub(super) fn new(now: Time) -> Self {
        Self {
            rto: None,
            persist: None,
            probes: 0,
            pace: None,
            time_wait: None,
            keep_alive: None,
            keep_alive_probes: 0,
            patience: Patience {
                retransmissions: 0,
                progress_at: now,
                give_up_at: None,
                is_warned: false,
            },
        }
    }

    /// The peer was heard.
    pub(super) fn heard(&mut self, now: Time, keep_alive: Option<KeepAlive>) {
        self.keep_alive_probes = 0;
        self.keep_alive = keep_alive.map(|keep_alive| now + at_least(keep_alive.idle));
    }

    /// The window is open: no more probes.
    pub(super) fn stop_probing(&mut self) {
        self.persist = None;
        self.probes = 0;
    }

    pub(super) fn stop(&mut self) {
        *self = Self::new(self.patience.progress_at);
    }
}

/// A timer of zero would make a driver spin.
pub(super) fn at_least(duration: Duration) -> Duration {
    duration.max(Duration::from_millis(1))
}

//! The retransmission timer: how long the sender waits for a report, and what it may send meanwhile.

use std::time::Duration;

use base::time::Time;

/// The most doublings of the timeout.
const MAX_BACKOFF: u32 = 6;
/// Datagrams allowed after each of the first timeouts, when perhaps only a report was lost: enough for the next packet
/// and its repairs; and after each further timeout.
const ALLOWANCE: u8 = 8;
const LEAST_ALLOWANCE: u8 = 2;
/// The number of first timeouts.
const FIRST: u32 = 2;
/// Datagrams earned by packets during the longest time that a report takes. Plain IP would have carried what the
/// transport sends into the silence, and a burst of losses that lasts for packets ends only by sending.
const EARNED: u32 = 2;

/// The retransmission timer: it runs while sources are not acknowledged.
#[derive(Debug)]
pub struct Silence {
    /// Since when a report is awaited; `None` while there is nothing to report.
    awaiting: Option<Time>,
    /// The number of successive timeouts.
    timeouts: u32,
    /// The number of datagrams that may still be sent before the next timeout.
    allowance: u8,
    /// Until this time, packets earn nothing more.
    earned_until: Time,
    /// Whether nothing was sent since the timeout.
    is_fresh: bool,
    /// When a source or an equation was last sent.
    last_sent: Time,
}

impl Silence {
    pub fn new(now: Time) -> Self {
        Self {
            awaiting: None,
            timeouts: 0,
            allowance: 0,
            earned_until: now,
            is_fresh: false,
            last_sent: now,
        }
    }

    /// A source or an equation was sent.
    pub fn handle_sent(&mut self, now: Time) {
        self.allowance = self.allowance.saturating_sub(1);
        self.is_fresh = false;
        self.last_sent = now;
        self.awaiting = self.awaiting.or(Some(now));
    }

    /// A report came; another one is awaited if it left sources unacknowledged.
    pub fn handle_report(&mut self, now: Time, has_unacknowledged: bool) {
        self.timeouts = 0;
        self.awaiting = has_unacknowledged.then_some(now);
    }

    /// No unacknowledged source is left.
    pub fn handle_all_given_up(&mut self) {
        self.timeouts = 0;
        self.awaiting = None;
    }

    /// No report is awaited: the timer begins with what is sent next.
    pub fn handle_nothing_awaited(&mut self) {
        self.awaiting = None;
    }

    /// The path is up again: the timer restarts.
    pub fn handle_path_up(&mut self, now: Time) {
        self.awaiting = self.awaiting.map(|_| now);
    }

    /// No report came in time; returns the number of successive timeouts.
    pub fn handle_timeout(&mut self, now: Time) -> u32 {
        self.timeouts += 1;
        self.allowance = if self.timeouts <= FIRST { ALLOWANCE } else { LEAST_ALLOWANCE };
        self.is_fresh = true;
        self.awaiting = Some(now);
        self.timeouts
    }

    /// A packet came: whether it earns a datagram. At most [`EARNED`] are earned at once, and as many in each `wait`,
    /// the longest time that a report takes.
    pub fn earns(&mut self, now: Time, wait: Duration) -> bool {
        let earns = self.earned_until <= now;
        if earns {
            let each = wait / EARNED;
            self.earned_until = self.earned_until.max(now - each * (EARNED - 1)) + each;
        }
        earns
    }

    /// One more datagram may be sent before the next timeout.
    pub fn allow_one(&mut self) {
        self.allowance = self.allowance.saturating_add(1).min(ALLOWANCE);
    }

    /// When a report that takes at most `wait` is overdue.
    pub fn ends_at(&self, wait: Duration) -> Option<Time> {
        let since = self.awaiting?;
        let since = if self.timeouts == 0 { since.max(self.last_sent) } else { since };
        Some(since + wait * (1 << self.timeouts.min(MAX_BACKOFF)))
    }

    /// Whether no report has come since the last timeout.
    pub fn is_on(&self) -> bool {
        self.timeouts > 0
    }

    /// Whether something may be sent before the next timeout.
    pub fn may_send(&self) -> bool {
        !self.is_on() || self.allowance > 0
    }

    /// Whether nothing was sent since the timeout.
    pub fn is_first_due(&self) -> bool {
        self.is_on() && self.is_fresh
    }

    /// When a source or an equation was last sent.
    pub fn last_sent(&self) -> Time {
        self.last_sent
    }
}

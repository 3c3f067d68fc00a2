//! Handles the deadlines of a connection.

use base::time::{Time, earliest};

use super::config::Limit;
use super::connection::{Connection, Probe};
use super::event::{Event, State, TimedOut};
use super::receiver::Due;
use super::timers::at_least;

impl Connection {
    /// When to call `handle_timeout` at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let timers = &self.timers;
        let delayed = match self.receiver.due {
            Due::Later(at) => Some(at),
            Due::Never | Due::Now => None,
        };
        [
            timers.persist,
            timers.pace,
            timers.time_wait,
            timers.keep_alive,
            timers.patience.give_up_at,
            delayed,
        ]
        .into_iter()
        .fold(timers.rto, earliest)
    }

    /// Whether the connection rests until its program or its peer acts: all data is acknowledged, and no timer runs
    /// except the timers of TIME-WAIT and of keep-alive probes.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let timers = &self.timers;
        let acting = [timers.rto, timers.persist, timers.pace, timers.patience.give_up_at];
        acting.iter().all(Option::is_none) && matches!(self.receiver.due, Due::Never)
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.timers.time_wait) {
            self.end(Event::Closed);
            return;
        }
        if is_due(self.timers.patience.give_up_at) {
            self.give_up();
            return;
        }
        if matches!(self.receiver.due, Due::Later(at) if at <= now) {
            self.receiver.due = Due::Now;
        }
        if is_due(self.timers.pace) {
            self.timers.pace = None;
        }
        if is_due(self.timers.rto) {
            self.handle_rto(now);
        }
        if is_due(self.timers.persist) {
            self.handle_persist(now);
        }
        if is_due(self.timers.keep_alive) {
            self.handle_keep_alive(now);
        }
    }

    fn handle_rto(&mut self, now: Time) {
        self.timers.rto = None;
        if self.is_patience_over(now) {
            self.give_up();
            return;
        }
        self.stats.feedback.timeouts += 1;
        self.sender.handle_timeout(now, self.timers.patience.retransmissions == 1);
        self.timers.rto = Some(now + self.sender.rtt.rto());
        if matches!(self.state, State::SynReceived | State::SynSent) {
            self.due.syn = true;
            self.is_syn_repeated = true;
        }
    }

    fn handle_persist(&mut self, now: Time) {
        self.timers.persist = None;
        if self.is_patience_over(now) {
            self.give_up();
            return;
        }
        self.timers.probes = self.timers.probes.saturating_add(1);
        self.timers.persist = Some(now + self.sender.probe_interval(self.timers.probes));
        self.due.probe = Some(Probe::Window);
    }

    fn handle_keep_alive(&mut self, now: Time) {
        self.timers.keep_alive = None;
        let Some(keep_alive) = self.config.keep_alive else { return };
        if self.sender.is_outstanding() || self.sender.is_probing() {
            // R2 watches over that.
            self.timers.heard(now, Some(keep_alive));
            return;
        }
        if self.timers.keep_alive_probes >= keep_alive.probes.max(1) {
            self.owe_reset();
            self.end(Event::TimedOut(TimedOut::KeepAlive));
            return;
        }
        self.timers.keep_alive_probes += 1;
        self.timers.keep_alive = Some(now + at_least(keep_alive.interval));
        self.due.probe = Some(Probe::Idle);
    }

    /// A timer expired without an answer: counts it, warns at R1, and says whether R2 is reached.
    fn is_patience_over(&mut self, now: Time) -> bool {
        let is_opening = matches!(self.state, State::SynReceived | State::SynSent);
        let r2 = if is_opening { self.config.r2_syn } else { self.config.r2 };
        let r1 = self.config.r1;
        let patience = &mut self.timers.patience;
        if Self::is_reached(r2, patience.retransmissions) {
            return true;
        }
        patience.retransmissions += 1;

        let since = self.sender.flight.since().unwrap_or(now).max(patience.progress_at);
        let has_elapsed = matches!(r1, Limit::Elapsed(limit) if now.since(since) >= limit);
        let is_r1 = has_elapsed || Self::is_reached(r1, patience.retransmissions);
        if is_r1 && !patience.is_warned {
            patience.is_warned = true;
            self.events.unresponsive = true;
            if let Limit::ElapsedSinceR1(limit) = r2 {
                patience.give_up_at = Some(now + limit);
            }
        }
        if let Limit::Elapsed(limit) = r2 {
            patience.give_up_at = Some(since + limit);
        }
        patience.give_up_at.is_some_and(|at| at <= now)
    }
}

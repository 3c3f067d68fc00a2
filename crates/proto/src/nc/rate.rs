//! Stopgap.
use super::Config;
use crate::time::Time;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Rate {
    rtt: Duration,
    min: Duration,
    var: Duration,
    rate: f64,
    next: Time,
    sent: std::collections::VecDeque<(u64, Time)>,
}
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) newest: u64,
    pub(super) newest_at: Duration,
    pub(super) delay: Duration,
    pub(super) received: u64,
    pub(super) marked: u64,
}
impl Rate {
    pub(super) fn new(now: Time, config: &Config) -> Self {
        Self {
            rtt: Duration::from_millis(500),
            min: Duration::MAX,
            var: Duration::ZERO,
            rate: config.max_rate.unwrap_or(1e9),
            next: now,
            sent: Default::default(),
        }
    }
    pub(super) fn handle_sent(&mut self, now: Time, number: u64, octets: usize) {
        self.next = self.next.max(now) + Duration::from_secs_f64(octets as f64 * 8.0 / self.rate);
        self.sent.push_back((number, now));
    }
    pub(super) fn handle_idle(&mut self, _: Time) {}
    pub(super) fn handle_report(&mut self, now: Time, report: &Report) {
        let _ = (report.newest_at, report.received, report.marked);
        while let Some(&(number, at)) = self.sent.front() {
            if number > report.newest {
                break;
            }
            self.sent.pop_front();
            if number == report.newest {
                let rtt = now.since(at).saturating_sub(report.delay);
                if self.min == Duration::MAX {
                    self.rtt = rtt;
                    self.var = rtt / 2;
                }
                self.min = self.min.min(rtt);
                let error = rtt.abs_diff(self.rtt);
                self.var = (3 * self.var + error) / 4;
                self.rtt = (7 * self.rtt + rtt) / 8;
            }
        }
    }
    pub(super) fn next_send(&self, _: Time) -> Option<Time> {
        Some(self.next)
    }
    pub(super) fn rtt(&self) -> Duration {
        self.rtt
    }
    pub(super) fn min_rtt(&self) -> Duration {
        if self.min == Duration::MAX { self.rtt } else { self.min }
    }
    pub(super) fn rtt_variation(&self) -> Duration {
        self.var
    }
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }
    pub(super) fn handle_timeout_loss(&mut self, _: Time) {}
    pub(super) fn reset(&mut self, _: Time) {}
}

//! A CUBIC sender (RFC 9438) that never repeats: its windows, not its bytes.

use std::collections::VecDeque;
use std::time::Duration;

use base::time::Time;

#[derive(Debug)]
pub struct Cubic {
    /// In segments.
    window: f64,
    threshold: f64,
    most: f64,
    /// When the window was last cut.
    cut_at: Option<Time>,
    after_cut: f64,
    /// Of a Reno flow since the cut.
    reno: f64,
    next: u64,
    /// Numbers in flight and when they were sent.
    flight: VecDeque<(u64, Time)>,
    recovery_until: u64,
    rtt: f64,
    heard: Time,
    /// The segment that the receiver has not acknowledged yet, for it waits for another.
    pub unacknowledged: Option<u64>,
}

impl Default for Cubic {
    fn default() -> Self {
        Self {
            window: 10.0,
            threshold: f64::MAX,
            most: 0.0,
            cut_at: None,
            after_cut: 0.0,
            reno: 0.0,
            next: 0,
            flight: VecDeque::new(),
            recovery_until: 0,
            rtt: 0.1,
            heard: Time::ZERO,
            unacknowledged: None,
        }
    }
}

impl Cubic {
    pub fn send(&mut self, now: Time) -> Option<u64> {
        if !self.flight.is_empty() && now.since(self.heard) > Duration::from_secs(2) {
            self.flight.clear();
            self.threshold = self.window / 2.0;
            self.window = 2.0;
        }
        if self.flight.len() as f64 >= self.window {
            return None;
        }
        if self.flight.is_empty() {
            self.heard = now;
        }
        self.flight.push_back((self.next, now));
        self.next += 1;
        Some(self.next - 1)
    }

    pub fn handle_ack(&mut self, now: Time, number: u64) {
        self.heard = now;
        let Some(index) = self.flight.iter().position(|&(n, _)| n == number) else { return };
        let (_, sent) = self.flight.remove(index).expect("just found");
        self.rtt = now.since(sent).as_secs_f64();
        while self.flight.front().is_some_and(|&(n, _)| n + 3 <= number) {
            let (lost, _) = self.flight.pop_front().expect("just seen");
            if lost >= self.recovery_until {
                self.recovery_until = self.next;
                self.most = if self.window < self.most { self.window * 0.85 } else { self.window };
                self.window = (self.window * 0.7).max(2.0);
                self.threshold = self.window;
                self.after_cut = self.window;
                self.reno = self.window;
                self.cut_at = Some(now);
            }
        }
        if number < self.recovery_until {
            return;
        }
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let cut_at = *self.cut_at.get_or_insert(now);
        let k = ((self.most - self.after_cut).max(0.0) / 0.4).cbrt();
        let t = now.since(cut_at).as_secs_f64() + self.rtt;
        let target = (0.4 * (t - k).powi(3) + self.most).clamp(self.window, 1.5 * self.window);
        self.reno += (if self.reno < self.most { 3.0 * 0.3 / 1.7 } else { 1.0 }) / self.window;
        self.window = (self.window + (target - self.window) / self.window).max(self.reno);
    }
}

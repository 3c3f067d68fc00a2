//! The window while competing with flows that fill every buffer: CUBIC (RFC 9438).

use std::time::Duration;

use base::time::Time;

/// RFC 9438, 4.1 and 4.6.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Paced datagrams are dropped at more of the overflows of a long buffer than the bursts of CUBIC, so a
/// loss leaves more of the window: found by the shares beside CUBIC that `docs/protocols/nc.md` lists.
const BETA_PACED: f64 = 0.84;
/// The same where congestion shows by loss alone and the window is greater than Reno's.
const BETA_SHORT: f64 = 0.79;
/// Where congestion shows by loss alone, the window is at most this multiple of that of a TCP with as many
/// losses. In a short buffer fewer of our datagrams are dropped than of a TCP's, and its timeouts cost more.
const FAIR: f64 = 1.15;
/// The least retransmission timeout of such a TCP beyond its round trip, in seconds, as in Linux.
const LEAST_RTO: f64 = 0.2;
/// The part of a new interval between losses in their mean.
const INTERVAL: f64 = 0.25;
/// Round trips between checks whether the queue is ours.
const LOOK: u32 = 48;
/// The same after a check that found it to be.
const LOOK_SOON: u32 = 4;

/// The state since the last sign of congestion.
#[derive(Clone, Copy, Debug)]
pub struct Compete {
    /// The window in octets at the sign of congestion, and after the cut.
    most: f64,
    after_cut: f64,
    cut_at: Time,
    /// The window that a Reno flow would have.
    reno: f64,
    /// Whether congestion at the bottleneck shows by loss alone, without a queue.
    is_by_loss: bool,
    /// The number of successive round trips with a short queue.
    quiet: u32,
    /// Round trips until the next check whether the queue is ours.
    look_in: u32,
    /// The number of successive checks that found the queue to be ours.
    own: u32,
    /// Datagrams sent from a sign of congestion to the next: in the mean, and since the last one.
    interval: f64,
    open: f64,
    /// The share that is due, in flows.
    weight: f64,
}

impl Compete {
    /// Begins after congestion with `most` octets in flight.
    pub fn new(now: Time, most: f64, window: f64) -> Self {
        let look_in = 8;
        Self {
            most,
            after_cut: window,
            cut_at: now,
            reno: window,
            is_by_loss: false,
            quiet: 0,
            look_in,
            own: 0,
            interval: 0.0,
            open: 0.0,
            weight: 1.0,
        }
    }

    /// Congestion at the bottleneck shows by loss alone, without a queue.
    pub fn by_loss(self) -> Self {
        Self { is_by_loss: true, ..self }
    }

    pub fn is_by_loss(&self) -> bool {
        self.is_by_loss
    }

    /// Takes whether a round trip was quiet; returns how many were in a row.
    pub fn note_quiet(&mut self, is_quiet: bool) -> u32 {
        self.quiet = if is_quiet { self.quiet + 1 } else { 0 };
        self.quiet
    }

    /// A check found the queue to be ours, or not; the next one is due after so many round trips.
    pub fn note_check(&mut self, is_own: bool) {
        self.own = if is_own { self.own + 1 } else { 0 };
        self.look_in = if is_own { LOOK_SOON } else { LOOK };
    }

    /// A round trip has ended in which so many `flows` inside waited: they get the share that they would get without a
    /// tunnel.
    pub fn end_round(&mut self, flows: f64) {
        self.look_in = self.look_in.saturating_sub(1);
        // At an overflow more than one of the flows would be cut, and fewer than all.
        self.weight = flows.sqrt();
    }

    /// Whether the next check whether the queue is ours is due.
    pub fn is_check_due(&self) -> bool {
        self.look_in == 0
    }

    /// Whether enough checks in a row found the queue to be ours.
    pub fn is_alone(&self) -> bool {
        self.own >= if self.is_by_loss { 8 } else { 4 }
    }

    /// Returns the window after a sign of congestion, reduced to `part` of its size.
    pub fn cut(&mut self, now: Time, window: f64, part: f64) -> f64 {
        // Fast convergence: RFC 9438, 4.7.
        let most = if window < self.most { window * (1.0 + BETA) / 2.0 } else { window };
        let Self { is_by_loss, look_in, own, interval, open, weight, .. } = *self;
        *self = Self {
            is_by_loss,
            look_in,
            own,
            interval,
            open,
            weight,
            ..Self::new(now, most, window * part)
        };
        self.after_cut
    }

    /// The window after `acked` more octets were acknowledged.
    pub fn grow(
        &mut self,
        now: Time,
        window: f64,
        acked: f64,
        rtt: Duration,
        datagram: f64,
    ) -> f64 {
        let lost = (self.most - self.after_cut).max(0.0) / datagram;
        let c = C * self.weight;
        let k = libm::cbrt(lost / c);
        let t = (now.since(self.cut_at) + rtt).as_secs_f64();
        let cubic = self.most + c * (t - k).powi(3) * datagram;
        let target = cubic.clamp(window, 1.5 * window);
        let part = (acked / window).min(1.0);
        let beta = self.of_one(if self.is_by_loss { BETA } else { BETA_PACED });
        let alpha = if self.reno < self.most {
            3.0 * self.weight.powi(2) * (1.0 - beta) / (1.0 + beta)
        } else {
            self.weight
        };
        self.reno += alpha * datagram * part;
        let most = self.fair(rtt.as_secs_f64()) * datagram;
        (window + (target - window) * part).max(self.reno).min(most)
    }

    /// Takes how many datagrams were sent in a round trip of `rtt` seconds, and whether losses were a sign of congestion;
    /// the window is so many datagrams.
    pub fn note(&mut self, sent: f64, is_event: bool, window: f64, rtt: f64) {
        self.open += sent;
        if is_event {
            self.interval = if self.interval == 0.0 {
                // What was sent before is not known, but that the window was in proportion (RFC 5348, 6.3.1).
                self.open.max(interval_for(BETA * window, rtt))
            } else {
                self.interval + (self.open - self.interval) * INTERVAL
            };
            self.open = 0.0;
        }
    }

    /// The most datagrams in flight where congestion shows by loss: few more than a TCP would have.
    fn fair(&self, rtt: f64) -> f64 {
        if !self.is_by_loss || self.interval == 0.0 {
            return f64::MAX;
        }
        // Of the losses, each flow has its part.
        FAIR * self.weight * tcp(self.weight * self.interval.max(self.open), rtt)
    }

    /// The part of the window that a loss leaves.
    pub fn beta(&self, window: f64) -> f64 {
        self.of_one(match self.is_by_loss {
            true if window <= self.reno => BETA,
            true => BETA_SHORT,
            false => BETA_PACED,
        })
    }

    /// A loss cuts the window of one flow to `part`: what remains of the window of all (MulTCP: Crowcroft and Oechslin
    /// 1998).
    fn of_one(&self, part: f64) -> f64 {
        1.0 - (1.0 - part) / self.weight
    }

    /// Whether the window is far beyond the size at which congestion was met.
    pub fn is_beyond(&self, window: f64) -> bool {
        window > 1.3 * self.most
    }
}

/// How many datagrams a TCP has in flight when one in `interval` is lost: the greater number of Reno's, with timeouts
/// (RFC 5348, 3.1), and CUBIC's (RFC 9438, 5.1).
fn tcp(interval: f64, rtt: f64) -> f64 {
    let p = 1.0 / interval.max(1.0);
    let timeouts = 3.0 * (rtt + LEAST_RTO) * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
    let reno = rtt / (rtt * (2.0 * p / 3.0).sqrt() + timeouts);
    reno.max(1.054 * libm::pow(rtt / p, 0.75))
}

/// How many datagrams there are from loss to loss where a TCP has `window` of them in flight.
fn interval_for(window: f64, rtt: f64) -> f64 {
    let (mut low, mut high) = (1.0, 1e9);
    for _ in 0..60 {
        let middle = f64::sqrt(low * high);
        if tcp(middle, rtt) < window {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

//! The rate at which the path delivers, for an operator: what has arrived, and no more than was sent.

use std::time::Duration;

use base::time::Time;

/// The shortest time over which it is measured, by both clocks.
const SPAN: Duration = Duration::from_millis(100);
/// The part of a greater rate measured before that remains with each measurement.
const KEPT: f64 = 0.9;

/// Octets a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivered {
    from: Option<Arrival>,
    rate: f64,
}

/// The newest datagram that a report is about.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it was sent, and when it came by the clock of the peer.
    pub(super) sent_at: Time,
    pub(super) came_at: Duration,
    /// Octets sent up to it, and its number.
    pub(super) octets: u64,
    pub(super) number: u64,
    /// How many datagrams have come in all.
    pub(super) received: u64,
}

impl Delivered {
    pub fn handle_report(&mut self, arrival: Arrival) {
        let Some(from) = self.from.filter(|from| from.came_at <= arrival.came_at) else {
            self.from = Some(arrival);
            return;
        };
        // The peer's clock may say anything; nothing comes faster than it was sent.
        let elapsed = (arrival.came_at - from.came_at).max(arrival.sent_at.since(from.sent_at));
        if elapsed < SPAN {
            return;
        }
        let sent = arrival.number.saturating_sub(from.number) as f64;
        let received = arrival.received.saturating_sub(from.received) as f64;
        let octets = arrival.octets.saturating_sub(from.octets) as f64;
        let rate = octets * (received / sent.max(1.0)).min(1.0) / elapsed.as_secs_f64();
        self.rate = rate.max(KEPT * self.rate);
        self.from = Some(arrival);
    }

    /// In octets a second; 0 before anything was measured.
    pub fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate after datagrams of 1,000 octets every millisecond, of which every `every`th is lost; the peer's clock
    /// goes by `tick` each time.
    fn after(datagrams: u32, every: u32, tick: Duration) -> f64 {
        let mut delivered = Delivered::default();
        let mut received = 0;
        for number in 0..datagrams {
            received += u64::from(number % every != 0);
            delivered.handle_report(Arrival {
                sent_at: Time::ZERO + Duration::from_millis(1) * number,
                came_at: tick * number,
                octets: 1_000 * u64::from(number),
                number: u64::from(number),
                received,
            });
        }
        delivered.rate()
    }

    #[test]
    fn it_is_what_arrived() {
        let millisecond = Duration::from_millis(1);

        assert!((after(1_000, 1_001, millisecond) - 1e6).abs() < 1e3);
        assert!((after(1_000, 10, millisecond) - 0.9e6).abs() < 1e4);
        assert!((after(1_000, 1_001, 4 * millisecond) - 0.25e6).abs() < 1e3, "a slower path");
    }

    #[test]
    fn it_is_never_above_what_was_sent() {
        assert!(after(1_000, 1_001, Duration::from_nanos(1)) <= 1.001e6, "a clock that lies");
        assert!(after(5, 1_001, Duration::from_millis(1)) <= 5_000.0 / 0.1);
        assert!(after(100, 1_001, Duration::from_millis(1)) < 1.0, "too short to tell");
    }
}

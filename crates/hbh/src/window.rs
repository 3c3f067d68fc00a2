//! W: the number of packets that may be in flight to a peer (Marques et al., section III.A).

use std::time::Duration;

/// Queueing delay that is always tolerated; real-time drivers have jitter of this order.
const TOLERATED: Duration = Duration::from_millis(5);

/// Where it starts: a window that is too small for a link costs TCP's slow start a round trip each
/// time that it doubles; one that is too large shrinks within a few.
const START: u8 = 64;

/// A window that grows while the round trip stays near its shortest, and shrinks as it rises.
///
/// Loss does not shrink it: on these links loss is noise.
#[derive(Clone, Debug)]
pub(super) struct Window {
    size: f64,
    bounds: (u8, u8),
    is_starting: bool,
    /// The transmission whose echo ends this round.
    round_end: u64,
    round_shortest: Option<Duration>,
    was_full: bool,
}

impl Window {
    pub(super) fn new(bounds: (u8, u8)) -> Self {
        let start = bounds.0.max(bounds.1.min(START));
        Self {
            size: f64::from(start),
            bounds,
            is_starting: true,
            round_end: 0,
            round_shortest: None,
            was_full: false,
        }
    }

    /// Packets that may be unacknowledged.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 127")]
    pub(super) fn size(&self) -> usize {
        self.size as usize
    }

    /// The window held a packet back.
    pub(super) fn handle_full(&mut self) {
        self.was_full = true;
    }

    /// The transmission number `order` came back after `rtt`; `next_order` is the next to be sent.
    pub(super) fn handle_echo(
        &mut self,
        order: u64,
        next_order: u64,
        rtt: Duration,
        shortest: Duration,
    ) {
        self.round_shortest = Some(self.round_shortest.map_or(rtt, |round| round.min(rtt)));
        if order < self.round_end {
            return;
        }
        let queueing = self.round_shortest.unwrap_or(rtt).saturating_sub(shortest);
        let target = TOLERATED.max(shortest / 2);
        if queueing > target {
            let fitting = (shortest + target).as_secs_f64() / (shortest + queueing).as_secs_f64();
            self.size *= fitting.clamp(0.5, 0.85);
            self.is_starting = false;
        } else if self.was_full && queueing < target / 2 {
            self.size += if self.is_starting { self.size } else { (self.size / 8.0).max(1.0) };
        }
        self.size = self.size.clamp(f64::from(self.bounds.0), f64::from(self.bounds.1));
        self.round_end = next_order;
        self.round_shortest = None;
        self.was_full = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_millis(100);

    #[test]
    fn it_grows_only_while_it_is_the_limit() {
        let mut window = Window::new((4, 127));

        window.handle_echo(0, 10, BASE, BASE);
        assert_eq!(window.size(), 64);

        window.handle_full();
        window.handle_echo(10, 30, BASE, BASE);
        assert_eq!(window.size(), 127);
    }

    #[test]
    fn it_shrinks_when_a_queue_builds_and_stays_within_its_bounds() {
        let mut window = Window::new((4, 127));

        for round in 1..50 {
            window.handle_full();
            window.handle_echo(round, round + 1, BASE * 2, BASE);
        }

        assert_eq!(window.size(), 4);
    }

    #[test]
    fn the_longer_the_queue_the_more_it_shrinks() {
        for (rtt, size) in [(BASE * 16 / 10, 54), (BASE * 24 / 10, 40), (BASE * 10, 32)] {
            let mut window = Window::new((4, 127));

            window.handle_echo(0, 10, rtt, BASE);

            assert_eq!(window.size(), size, "{rtt:?}");
        }
    }

    #[test]
    fn equal_bounds_fix_it() {
        let mut window = Window::new((8, 8));

        window.handle_full();
        window.handle_echo(0, 1, BASE, BASE);

        assert_eq!(window.size(), 8);
    }
}

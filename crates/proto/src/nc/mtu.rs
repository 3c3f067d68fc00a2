//! Finds the longest datagram that the path carries, by probes (RFC 8899).
//!
//! ```text
//!            reply                              tries used up
//!  Search ──────────▶ Done ── after a while ──▶ Search, the next smaller size
//!    ▲                 │ no progress
//!    │                 ▼
//!    └── no reply ── Verify: the size in use is probed; without a reply, back to the base
//! ```

use std::time::Duration;

use crate::time::Time;

/// Sizes of IP packets that paths are known for: Ethernet, `PPPoE`, common tunnels, jumbo frames.
const SIZES: [usize; 16] = [
    1_280, 1_320, 1_360, 1_380, 1_400, 1_420, 1_440, 1_460, 1_472, 1_480, 1_492, 1_500, 2_304,
    4_352, 8_166, 9_000,
];
/// A size does not pass when so many probes were not answered. A third may be lost by chance.
const TRIES: u8 = 6;
/// Between two probes while the round trip is not known.
const UNKNOWN_INTERVAL: Duration = Duration::from_millis(250);
const MIN_INTERVAL: Duration = Duration::from_millis(20);
/// After a search that did not reach the ceiling (RFC 8899, 5.1.1).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// The search for the path MTU. Sizes are those of outer IP packets.
#[derive(Debug)]
pub(super) struct Search {
    base: usize,
    ceiling: usize,
    confirmed: usize,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Done { again_at: Option<Time> },
    Probing { size: usize, tries: u8, next_at: Time, is_heard: bool },
}

impl Search {
    pub(super) fn new(now: Time, base: usize, ceiling: usize) -> Self {
        let mut search = Self {
            base,
            ceiling: ceiling.max(base),
            confirmed: base,
            state: State::Done { again_at: None },
        };
        search.restart(now);
        search
    }

    /// The greatest packet that is known to pass.
    pub(super) fn confirmed(&self) -> usize {
        self.confirmed
    }

    /// Starts again from the base, because the path is another one.
    pub(super) fn restart(&mut self, now: Time) {
        self.confirmed = self.base;
        self.probe(now, self.ceiling);
    }

    /// Anything came from the peer.
    pub(super) fn handle_heard(&mut self) {
        if let State::Probing { is_heard, .. } = &mut self.state {
            *is_heard = true;
        }
    }

    /// The peer received a packet of this size.
    pub(super) fn handle_reply(&mut self, now: Time, size: usize) {
        let State::Probing { size: probed, .. } = self.state else { return };
        if size != probed {
            return;
        }
        self.confirmed = size;
        self.finish(now);
    }

    /// The system says that packets of this size are too big for the local interface or a router.
    pub(super) fn handle_too_big(&mut self, now: Time, size: usize) {
        match self.state {
            State::Probing { size: probed, .. } if size == probed && size > self.confirmed => {
                self.probe_below(now, size);
            }
            _ if size <= self.confirmed && size > self.base => {
                self.ceiling = size - 1;
                self.restart(now);
            }
            _ => {}
        }
    }

    /// Packets of the confirmed size do not seem to arrive: the size is probed again.
    pub(super) fn verify(&mut self, now: Time) {
        if self.confirmed > self.base && matches!(self.state, State::Done { .. }) {
            self.probe(now, self.confirmed);
        }
    }

    /// The size of the probe that is to be sent now.
    pub(super) fn poll_probe(&mut self, now: Time, rtt: Option<Duration>) -> Option<usize> {
        let State::Probing { size, tries, next_at, is_heard } = self.state else { return None };
        if next_at > now {
            return None;
        }
        if tries == TRIES {
            if !is_heard {
                // Nothing at all arrives from the peer, so the size is not to blame.
                self.probe(now, size);
            } else if size == self.confirmed {
                self.confirmed = self.base;
                self.probe_below(now, size);
            } else {
                self.probe_below(now, size);
            }
            return self.poll_probe(now, rtt);
        }
        let interval = rtt.map_or(UNKNOWN_INTERVAL, |rtt| (rtt + rtt / 2).max(MIN_INTERVAL));
        let next_at = now + interval;
        self.state = State::Probing { size, tries: tries + 1, next_at, is_heard };
        Some(size)
    }

    /// When the next probe may be sent.
    pub(super) fn next_probe(&self) -> Option<Time> {
        match self.state {
            State::Done { .. } => None,
            State::Probing { next_at, .. } => Some(next_at),
        }
    }

    /// When the search begins anew.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        match self.state {
            State::Done { again_at } => again_at,
            State::Probing { .. } => None,
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if let State::Done { again_at: Some(at) } = self.state
            && at <= now
        {
            self.probe(now, self.ceiling);
        }
    }

    fn probe(&mut self, now: Time, size: usize) {
        self.state = if size > self.base {
            State::Probing { size, tries: 0, next_at: now, is_heard: false }
        } else {
            State::Done { again_at: None }
        };
    }

    fn probe_below(&mut self, now: Time, size: usize) {
        match SIZES.into_iter().rev().find(|&smaller| smaller < size && smaller > self.confirmed) {
            Some(smaller) => self.probe(now, smaller),
            None => self.finish(now),
        }
    }

    fn finish(&mut self, now: Time) {
        let again_at = (self.confirmed < self.ceiling).then(|| now + RAISE_AFTER);
        self.state = State::Done { again_at };
    }
}

//! The right to transmit on a shared frequency.
//!
//! ```text
//!   others transmit │gather│ reply of whom │ slots, or jitter: everybody else
//!  ─────────────────┤      │ was addressed │
//!    end heard, or  ▲
//!    announced: EOT, Annex C, section 3.2.3
//! ```
//!
//! Nobody transmits during a reception or before an announced end; with one other station, a carrier that ends within
//! the rounding of the announcement marks the announced end. The station that must answer the last transmission goes
//! first, and may ask for an answer itself: this is an exchange. After a long exchange, a station that has had a turn
//! in it only answers, so that others can begin.
//!
//! ```text
//!  A: data ─ B: answer, data ─ A: answer, data ─ … ─ A: answer │ slots: who has not had its turn │ the rest
//!  └──────────── exchange, shorter while others wait ──────────┘
//! ```
//!
//! After its own transmission a station gives the others, kept apart by [`Access`], time to begin.

#[cfg(test)]
mod tests;

use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, nanos};

use super::super::dts::policy::EOT_UNIT;
use super::access::{Access, Times};

/// Whether this station may transmit.
#[derive(Clone, Debug)]
pub struct Floor {
    access: Access,
    times: Times,
    /// The longest exchange while others wait.
    exchange: Duration,
    rng: Rng,
    is_transmitting: bool,
    hears_carrier: bool,
    /// The announced end of earlier transmissions.
    announced: Time,
    /// The announced end of the present reception.
    heard: Option<Time>,
    /// When the frequency last became free.
    free_at: Time,
    /// The time before which we do not transmit, although the frequency is free.
    not_before: Time,
    /// Whether the last reception asks us for an answer.
    owes_answer: bool,
    /// The time by which an awaited answer must have begun.
    awaited: Option<Time>,
    /// Whether the present reception has the awaited answer and asks for none itself. Then this
    /// station may continue, in the slot for an answer.
    is_answered: bool,
    goes_on: bool,
    /// The number of successive answers that did not come.
    silences: u32,
    current: Exchange,
    /// The highest priority at which this station has had a turn since all had one. Others go before
    /// data that is not above it.
    served: Option<u8>,
    /// The number of successive exchanges that no waiting station began.
    unwanted: u32,
}

/// The present exchange, or the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Exchange {
    begun: Time,
    /// Whether this station has had a turn in it.
    has_had_part: bool,
    /// Whether this station has added data to an answer that was to end the exchange.
    has_added: bool,
    /// Whether this station continues without the awaited answer.
    is_repeated: bool,
}

impl Floor {
    /// A frequency on which nothing has been heard.
    #[must_use]
    pub fn new(access: Access, times: Times, exchange: Duration, rng: Rng) -> Self {
        Self {
            access,
            times,
            exchange,
            rng,
            is_transmitting: false,
            hears_carrier: false,
            announced: Time::ZERO,
            heard: None,
            free_at: Time::ZERO,
            not_before: Time::ZERO,
            owes_answer: false,
            awaited: None,
            is_answered: false,
            goes_on: false,
            silences: 0,
            current: Exchange::default(),
            served: None,
            unwanted: UNWANTED,
        }
    }

    /// Changes the durations, because the waveform has changed.
    pub fn set_times(&mut self, times: Times) {
        self.times = times;
    }

    /// A reception begins.
    pub fn handle_carrier(&mut self, now: Time) {
        // A transmission is noticed half a slot after its begin, or most of a slot.
        let Times { gather, slot, .. } = self.times;
        if now > self.free_at + gather + slot + slot / 4 {
            self.begin_exchange(now - slot * 2 / 3);
        }
        self.announced = self.announced();
        self.heard = None;
        self.hears_carrier = true;
    }

    /// A frame announced that its transmission ends at `end`. The earliest of several announcements is
    /// the most accurate, because each rounds up.
    pub fn handle_announcement(&mut self, end: Time) {
        self.heard = Some(self.heard.map_or(end, |heard| heard.min(end)));
    }

    /// The reception has ended; `answers` if it asks this station for an answer, `has_others` if it had
    /// frames for other stations, which may have to answer.
    pub fn handle_carrier_lost(&mut self, now: Time, answers: bool, has_others: bool) {
        self.is_answered &= !has_others;
        self.hears_carrier = false;
        // With one other station, the announcement meant this end, rounded up. Further stations may not have heard the
        // announcement, and wait.
        if self.access == Access::PointToPoint {
            // It cannot transmit twice at a time: what it announced before, it has not done.
            self.announced = self.heard.take().unwrap_or(self.announced);
            if self.announced.since(now) < EOT_UNIT {
                self.announced = self.announced.min(now);
            }
        }
        self.set_free(now.max(self.announced()), answers);
    }

    /// The awaited answer has come.
    pub fn handle_answer(&mut self) {
        self.is_answered |= self.awaited.is_some();
        self.awaited = None;
        self.silences = 0;
    }

    /// This station starts to transmit; `turn` is the priority of its data, `None` for only an answer.
    pub fn handle_start(&mut self, now: Time, turn: Option<u8>) {
        let is_repeated = std::mem::take(&mut self.current.is_repeated);
        if !self.owes_answer && !self.may_go_on(now) && !is_repeated {
            self.begin_exchange(now);
        }
        self.goes_on = false;
        self.served = self.served.max(turn);
        self.current.has_had_part |= turn.is_some();
        self.is_transmitting = true;
        self.owes_answer = false;
        self.awaited = None;
    }

    /// This station has transmitted; `asks` if another must answer.
    ///
    /// The frequency is free for the others at `end`: when they have decoded the last block and the
    /// announced end has passed. Slots count from there.
    pub fn handle_sent(&mut self, now: Time, end: Time, asks: bool) {
        self.is_transmitting = false;
        self.free_at = end;
        if asks {
            self.awaited = Some(now + self.times.answer);
            self.not_before = Time::MAX;
            return;
        }
        self.not_before = match self.access {
            Access::Slotted { .. } => end,
            Access::Jitter { limit } => now + self.times.answer + self.rng.within(limit),
            Access::PointToPoint => now + self.times.answer,
        };
    }

    /// Whether this station, which must answer, should only answer, because the exchange was long and
    /// the station has had its turn.
    #[must_use]
    pub fn must_yield(&self, now: Time) -> bool {
        self.owes_answer
            && self.current.has_had_part
            && self.access != Access::PointToPoint
            && now.since(self.current.begun) >= self.longest_exchange()
    }

    /// Whether this station has added data to an answer that was to end the exchange.
    #[must_use]
    pub fn has_added(&self) -> bool {
        self.current.has_added
    }

    /// This station adds data to such an answer.
    pub fn handle_added(&mut self) {
        self.current.has_added = true;
    }

    /// Whether this station, which got its answer, may continue before others begin.
    fn may_go_on(&self, now: Time) -> bool {
        let Times { gather, slot, .. } = self.times;
        self.goes_on
            && self.access != Access::PointToPoint
            && now <= self.free_at + gather + slot / 4
            && now.since(self.current.begun) < self.longest_exchange()
    }

    /// This station must answer but has nothing to send.
    pub fn yield_turn(&mut self) {
        self.owes_answer = false;
    }

    /// Whether stations wait for their turn.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.access != Access::PointToPoint && self.unwanted < UNWANTED
    }

    /// The longest exchange: longer while nobody waits, so that pauses for others cost little.
    fn longest_exchange(&self) -> Duration {
        if self.is_contended() {
            self.exchange
        } else {
            self.access.longest_exchange(self.times, self.exchange)
        }
    }

    /// How long this station, with data of this priority, waits for stations without a turn yet.
    fn wait_of(&self, urgency: u8) -> Duration {
        let is_served = self.served.is_some_and(|served| served >= urgency);
        if is_served { self.wait_for_others() } else { Duration::ZERO }
    }

    fn wait_for_others(&self) -> Duration {
        self.access.wait_for_others(self.times)
    }

    /// A station begins an exchange in a slot, or after a random wait.
    fn begin_exchange(&mut self, at: Time) {
        let Times { gather, slot, .. } = self.times;
        self.current = Exchange { begun: at, ..Exchange::default() };
        let is_late = at > self.free_at + gather + slot / 2 + self.wait_for_others();
        if is_late {
            // Every station that wanted a turn has had one.
            self.served = None;
            self.unwanted = self.unwanted.saturating_add(1);
        } else {
            self.unwanted = 0;
        }
    }

    /// Whether an awaited answer did not come; true once for each. `goes_first` tells whether this station, rather than
    /// the other one, repeats its transmission at once if both have collided.
    pub fn poll_silence(&mut self, now: Time, goes_first: bool) -> bool {
        if self.hears_carrier || self.awaited.is_none_or(|awaited| awaited > now) {
            return false;
        }
        self.awaited = None;
        self.current.is_repeated = true;
        self.silences = self.silences.saturating_add(1);
        // Two stations may have collided, so next time they must not begin at the same moment.
        self.not_before = now
            + match self.access {
                Access::PointToPoint => {
                    let apart = self.apart();
                    let window = self.times.slot * (1 << self.silences.min(MAX_BACKOFF));
                    let last = if goes_first { Duration::ZERO } else { apart };
                    last + self.rng.within(window.saturating_sub(apart))
                }
                Access::Jitter { limit } => self.rng.within(limit),
                // Slots already keep stations apart.
                Access::Slotted { .. } => Duration::ZERO,
            };
        true
    }

    /// How much later than the other station one begins that goes last, if only two share the frequency. Two that collided
    /// began, and give up waiting, less than a slot apart: so the last hears the first.
    #[must_use]
    pub fn apart(&self) -> Duration {
        match self.access {
            Access::PointToPoint => self.times.slot * 2,
            Access::Jitter { .. } | Access::Slotted { .. } => Duration::ZERO,
        }
    }

    /// When this station may start to transmit data of priority `urgency`, at `now` or later; `None`
    /// while that depends on the present reception.
    #[must_use]
    pub fn next_start(&self, now: Time, urgency: u8) -> Option<Time> {
        if self.is_transmitting || self.hears_carrier || self.awaited.is_some() {
            return None;
        }
        let from = now.max(self.announced());
        if self.owes_answer || self.may_go_on(from) {
            return Some(from.max(self.free_at + self.times.gather));
        }
        let from = from.max(self.not_before);
        match self.access {
            Access::PointToPoint => Some(from),
            Access::Jitter { .. } => Some(from.max(self.not_before + self.wait_of(urgency))),
            Access::Slotted { position, stations } => {
                Some(self.slot(from, position, stations, self.wait_of(urgency)))
            }
        }
    }

    /// When to call [`Self::poll_silence`] again.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.awaited.filter(|_| !self.hears_carrier)
    }

    /// Whether the frequency is free, as far as this station knows.
    #[must_use]
    pub fn is_free(&self, now: Time) -> bool {
        !self.is_transmitting && !self.hears_carrier && self.announced() <= now
    }

    /// Whether this station transmits.
    #[must_use]
    pub fn is_transmitting(&self) -> bool {
        self.is_transmitting
    }

    fn announced(&self) -> Time {
        self.heard.map_or(self.announced, |heard| heard.max(self.announced))
    }

    fn set_free(&mut self, at: Time, answers: bool) {
        self.free_at = at;
        self.owes_answer = answers;
        self.goes_on = std::mem::take(&mut self.is_answered) && !answers;
        let Times { gather, slot, .. } = self.times;
        self.not_before = match self.access {
            Access::PointToPoint => at + gather,
            Access::Jitter { limit } => at + gather + slot + self.rng.within(limit),
            Access::Slotted { .. } => at,
        };
        // Others were heard instead of the awaited answer: wait for it at least until their end.
        if let Some(awaited) = &mut self.awaited {
            *awaited = (*awaited).max(at);
        }
    }

    /// The start of our first slot that is not over at `from`.
    fn slot(&self, from: Time, position: u8, stations: u8, others: Duration) -> Time {
        let slot = nanos(self.times.slot).max(1);
        let round = slot * u64::from(stations.max(1));
        // The first slot after the frequency became free is for an answer.
        // Then come stations that have not had a turn, then the others.
        let first =
            self.free_at + self.times.gather + others + self.times.slot * (u32::from(position) + 1);
        let since = nanos(from.since(first));
        if since == 0 {
            return first;
        }
        let into = since % round;
        if into <= slot / SLACK { from } else { from + Duration::from_nanos(round - into) }
    }
}

/// After this many successive exchanges that no waiting station began, nobody is assumed to wait.
const UNWANTED: u32 = 2;
/// The most doublings of the window in which a transmission is repeated.
const MAX_BACKOFF: u32 = 4;
/// The part of a slot in which a station may still begin, because clocks and timers are inexact.
const SLACK: u64 = 4;

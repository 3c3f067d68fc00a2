//! Who may transmit when, on a frequency that all share.
//!
//! ```text
//!   others transmit │gather│ reply of whom │ slots, or jitter: everybody else
//!  ─────────────────┤      │ was addressed │
//!    end heard, or  ▲
//!    announced: EOT, Annex C, section 3.2.3
//! ```
//!
//! Nobody transmits into what is heard or into what was announced. Whom the last transmission asks
//! for an answer goes first, and may ask in turn: an exchange. When it has lasted for long, whoever
//! has had a turn in it only answers, and the others begin.
//!
//! ```text
//!  A: data ─ B: answer, data ─ A: answer, data ─ … ─ A: answer │ slots: who has not had its turn │ the rest
//!  └──────────── exchange, shorter while others wait ──────────┘
//! ```
//! After a transmission of its own a station leaves the others the time
//! to begin. How others are kept apart is [`Access`], after Annex K; its times are ours.

use std::time::Duration;

use crate::rng::Rng;
use crate::time::Time;

/// How stations that want to transmit are kept apart.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Access {
    /// Two stations that alternate.
    #[default]
    PointToPoint,
    /// Any number: each waits for a random time once the frequency is free.
    Jitter {
        /// The longest wait.
        limit: Duration,
    },
    /// A few stations, each in slots of its own, over and over, once the frequency is free.
    Slotted {
        /// This station's place, from 0.
        position: u8,
        /// How many there are.
        stations: u8,
    },
}

impl Access {
    /// How long those wait who have had a turn, for those who have not.
    #[must_use]
    pub fn wait_for_others(self, times: Times) -> Duration {
        match self {
            Self::PointToPoint => Duration::ZERO,
            Self::Jitter { limit } => limit + times.slot,
            Self::Slotted { stations, .. } => times.slot * u32::from(stations),
        }
    }

    /// How long an exchange may last while nobody waits; `exchange` while somebody does. So asking
    /// for others takes one part in [`WORTH`] of the time.
    #[must_use]
    pub fn longest_exchange(self, times: Times, exchange: Duration) -> Duration {
        exchange.max(self.wait_for_others(times) * WORTH)
    }
}

/// How long things take on this frequency.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// Between the end of what was heard and our answer, for the layers above to answer too.
    pub gather: Duration,
    /// From the decision to transmit until others notice: switching, preamble, and some.
    pub slot: Duration,
    /// From the end of a transmission until an answer to it must have begun.
    pub answer: Duration,
}

/// Whether this station may transmit.
#[derive(Clone, Debug)]
pub struct Floor {
    access: Access,
    times: Times,
    /// How long an exchange may last while others wait.
    exchange: Duration,
    rng: Rng,
    is_transmitting: bool,
    hears_carrier: bool,
    /// When earlier transmissions end, as announced.
    announced: Time,
    /// When the one that is heard ends, as announced.
    heard: Option<Time>,
    /// When the frequency last became free.
    free_at: Time,
    /// Before that we keep silent though the frequency is free.
    not_before: Time,
    /// Whether the last that was heard asked us for an answer.
    owes_answer: bool,
    /// An answer must have begun by then.
    awaited: Option<Time>,
    /// Whether what was awaited is in what is heard, and asks for nothing in turn: then this station
    /// may go on, in the slot for an answer.
    is_answered: bool,
    goes_on: bool,
    /// Answers that did not come, in a row.
    silences: u32,
    /// When the exchange of now began, and whether this station has had a turn in it.
    begun: Time,
    has_had_part: bool,
    /// Whether it has added to an answer that was to end the exchange.
    has_added: bool,
    /// Whether it goes on without the answer that was awaited.
    is_repeated: bool,
    /// The highest priority at which this station has had a turn since all had one: with what is not
    /// above it, others go first.
    served: Option<u8>,
    /// Exchanges in a row that nobody began who had waited.
    unwanted: u32,
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
            begun: Time::ZERO,
            has_had_part: false,
            has_added: false,
            is_repeated: false,
            served: None,
            unwanted: UNWANTED,
        }
    }

    /// Things take other times from now on: the waveform has changed.
    pub fn set_times(&mut self, times: Times) {
        self.times = times;
    }

    /// Somebody transmits.
    pub fn handle_carrier(&mut self, now: Time) {
        // What was begun is noticed half a slot later, or most of one.
        let Times { gather, slot, .. } = self.times;
        if now > self.free_at + gather + slot + slot / 4 {
            self.begin_exchange(now - slot * 2 / 3);
        }
        self.announced = self.announced();
        self.heard = None;
        self.hears_carrier = true;
    }

    /// A frame said that its transmission ends at `end`; of several the earliest is nearest to the
    /// truth, because each rounds up.
    pub fn handle_announcement(&mut self, end: Time) {
        self.heard = Some(self.heard.map_or(end, |heard| heard.min(end)));
    }

    /// What was heard has ended; `answers` tells whether it asked this station for an answer,
    /// `has_others` whether it had something for others, who then may have been asked.
    pub fn handle_carrier_lost(&mut self, now: Time, answers: bool, has_others: bool) {
        self.is_answered &= !has_others;
        self.hears_carrier = false;
        self.set_free(now.max(self.announced()), answers);
    }

    /// What was awaited has come.
    pub fn handle_answer(&mut self) {
        self.is_answered |= self.awaited.is_some();
        self.awaited = None;
        self.silences = 0;
    }

    /// This station starts to transmit, not only an answer but data of the priority `turn`, if any.
    pub fn handle_start(&mut self, now: Time, turn: Option<u8>) {
        let is_repeated = std::mem::take(&mut self.is_repeated);
        if !self.owes_answer && !self.may_go_on(now) && !is_repeated {
            self.begin_exchange(now);
        }
        self.goes_on = false;
        self.served = self.served.max(turn);
        self.has_had_part |= turn.is_some();
        self.is_transmitting = true;
        self.owes_answer = false;
        self.awaited = None;
    }

    /// This station has transmitted; `asks` tells whether somebody must answer.
    ///
    /// For the others the frequency is free at `end`: when they have decoded the last block, and
    /// what was announced to them has passed. Slots count from there.
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

    /// Whether this station, which is asked for an answer, shall only answer: the exchange has
    /// lasted for long, and it has had its turn.
    #[must_use]
    pub fn must_yield(&self, now: Time) -> bool {
        self.owes_answer
            && self.has_had_part
            && self.access != Access::PointToPoint
            && now.since(self.begun) >= self.longest_exchange()
    }

    /// Whether it has added something to an answer that was to end the exchange.
    #[must_use]
    pub fn has_added(&self) -> bool {
        self.has_added
    }

    /// It adds something to such an answer.
    pub fn handle_added(&mut self) {
        self.has_added = true;
    }

    /// Whether this station, whose question was answered, may go on before others begin.
    fn may_go_on(&self, now: Time) -> bool {
        let Times { gather, slot, .. } = self.times;
        self.goes_on
            && self.access != Access::PointToPoint
            && now <= self.free_at + gather + slot / 4
            && now.since(self.begun) < self.longest_exchange()
    }

    /// This station was asked for an answer and has none.
    pub fn yield_turn(&mut self) {
        self.owes_answer = false;
    }

    /// Whether stations wait for others.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.access != Access::PointToPoint && self.unwanted < UNWANTED
    }

    /// How long an exchange may last: longer while nobody waits, so that asking costs little.
    fn longest_exchange(&self) -> Duration {
        if self.is_contended() {
            self.exchange
        } else {
            self.access.longest_exchange(self.times, self.exchange)
        }
    }

    /// How long this station waits for those who have not had a turn, with something of this priority.
    fn wait_of(&self, urgency: u8) -> Duration {
        let is_served = self.served.is_some_and(|served| served >= urgency);
        if is_served { self.wait_for_others() } else { Duration::ZERO }
    }

    fn wait_for_others(&self) -> Duration {
        self.access.wait_for_others(self.times)
    }

    /// Somebody begins an exchange in a slot, or after a random wait.
    fn begin_exchange(&mut self, at: Time) {
        let Times { gather, slot, .. } = self.times;
        self.begun = at;
        self.has_had_part = false;
        self.has_added = false;
        self.is_repeated = false;
        let is_late = at > self.free_at + gather + slot / 2 + self.wait_for_others();
        if is_late {
            // All had their turn who wanted it.
            self.served = None;
            self.unwanted = self.unwanted.saturating_add(1);
        } else {
            self.unwanted = 0;
        }
    }

    /// Whether an answer that is awaited has not come; true once for each.
    pub fn poll_silence(&mut self, now: Time) -> bool {
        if self.hears_carrier || self.awaited.is_none_or(|awaited| awaited > now) {
            return false;
        }
        self.awaited = None;
        self.is_repeated = true;
        self.silences = self.silences.saturating_add(1);
        // Two that spoke at once heard neither: the next time only one shall.
        let most = match self.access {
            Access::PointToPoint => self.times.slot * (1 << self.silences.min(MAX_BACKOFF)),
            Access::Jitter { limit } => limit,
            // In slots they are kept apart.
            Access::Slotted { .. } => Duration::ZERO,
        };
        self.not_before = now + self.rng.within(most);
        true
    }

    /// When this station may start to transmit something of priority `urgency`, at `now` or later;
    /// `None` while that depends on what will be heard.
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

    /// When to look again whether an answer has come.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.awaited.filter(|_| !self.hears_carrier)
    }

    /// Whether the frequency is free as far as is known.
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
        // Others were heard instead of what was awaited: that is waited for no longer than needed.
        if let Some(awaited) = &mut self.awaited {
            *awaited = (*awaited).max(at);
        }
    }

    /// The first start of one of our slots that is not over at `from`.
    fn slot(&self, from: Time, position: u8, stations: u8, others: Duration) -> Time {
        let slot = nanos(self.times.slot).max(1);
        let round = slot * u64::from(stations.max(1));
        // The first slot after the frequency became free is for an answer.
        // Then come those who have not had a turn, then those who have.
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

/// So many exchanges in a row that nobody began who had waited mean that nobody waits.
const UNWANTED: u32 = 2;
/// Exchanges last this many times as long as it takes to ask whether others wait, when nobody does.
const WORTH: u32 = 40;
/// Doublings of the random wait at most.
const MAX_BACKOFF: u32 = 4;
/// The part of a slot in which one may still begin: clocks and timers are not exact.
const SLACK: u64 = 4;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times {
        gather: Duration::from_millis(100),
        slot: Duration::from_secs(1),
        answer: Duration::from_secs(4),
    };

    fn floor(access: Access) -> Floor {
        Floor::new(access, TIMES, Duration::from_secs(60), Rng::stream(1, "floor"))
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn nobody_transmits_into_what_is_heard_or_was_announced() {
        let mut floor = floor(Access::PointToPoint);
        floor.handle_carrier(at(0));
        assert_eq!(floor.next_start(at(0), 0), None);

        floor.handle_announcement(at(9_400));
        floor.handle_announcement(at(9_100));
        floor.handle_announcement(at(9_300));
        floor.handle_carrier_lost(at(5_000), true, false);

        assert_eq!(floor.next_start(at(5_000), 0), Some(at(9_200)));
        assert!(!floor.is_free(at(9_000)) && floor.is_free(at(9_100)));
    }

    #[test]
    fn the_earliest_announced_end_counts_though_it_has_passed() {
        let mut floor = floor(Access::PointToPoint);
        floor.handle_carrier(at(0));
        floor.handle_announcement(at(9_010));
        floor.handle_announcement(at(9_400));

        floor.handle_carrier_lost(at(9_050), true, false);

        assert_eq!(floor.next_start(at(9_050), 0), Some(at(9_150)));
    }

    #[test]
    fn an_answer_is_awaited_and_its_lack_told_once() {
        let mut floor = floor(Access::PointToPoint);
        floor.handle_start(at(0), Some(0));
        floor.handle_sent(at(1_000), at(1_000), true);

        assert_eq!((floor.next_start(at(1_000), 0), floor.next_timeout()), (None, Some(at(5_000))));
        assert!(!floor.poll_silence(at(4_999)));
        assert!(floor.poll_silence(at(5_000)));
        assert!(!floor.poll_silence(at(5_001)));

        let start = floor.next_start(at(5_000), 0).expect("may try again");
        assert!(start >= at(5_000) && start <= at(7_000), "{start:?}");
    }

    #[test]
    fn an_answer_that_has_begun_is_heard_to_its_end() {
        let mut floor = floor(Access::PointToPoint);
        floor.handle_start(at(0), Some(0));
        floor.handle_sent(at(1_000), at(1_000), true);
        floor.handle_carrier(at(0));

        assert!(!floor.poll_silence(at(60_000)));
        floor.handle_answer();
        floor.handle_carrier_lost(at(60_000), false, false);

        assert_eq!(floor.next_start(at(60_000), 0), Some(at(60_100)));
    }

    #[test]
    fn who_needs_no_answer_leaves_the_others_time_to_begin() {
        let mut floor = floor(Access::PointToPoint);
        floor.handle_start(at(0), Some(0));
        floor.handle_sent(at(1_000), at(1_000), false);

        assert_eq!(floor.next_start(at(1_000), 0), Some(at(5_000)));
        assert!(!floor.poll_silence(at(9_000)));
    }

    #[test]
    fn who_transmitted_without_asking_lets_each_slot_pass_once() {
        let mut floor = floor(Access::Slotted { position: 0, stations: 2 });
        floor.handle_start(at(0), Some(0));
        floor.handle_sent(at(10_000), at(10_400), false);

        // Gather, the slot for an answer, and those of the round: the first of the next.
        assert_eq!(floor.next_start(at(10_000), 0), Some(at(13_500)));
    }

    #[test]
    fn slots_belong_to_one_station_each_and_the_first_to_whom_was_asked() {
        let starts = |position, from| {
            let mut floor = floor(Access::Slotted { position, stations: 3 });
            floor.handle_carrier(at(0));
            floor.handle_carrier_lost(at(10_000), false, false);
            floor.next_start(at(from), 0)
        };

        assert_eq!(starts(0, 10_000), Some(at(11_100)));
        assert_eq!(starts(1, 10_000), Some(at(12_100)));
        assert_eq!(starts(2, 10_000), Some(at(13_100)));
        assert_eq!(starts(0, 12_000), Some(at(14_100)));
        assert_eq!(starts(0, 14_200), Some(at(14_200)));

        let mut asked = floor(Access::Slotted { position: 2, stations: 3 });
        asked.handle_carrier(at(0));
        asked.handle_carrier_lost(at(10_000), true, false);
        assert_eq!(asked.next_start(at(10_000), 0), Some(at(10_100)));
    }
}

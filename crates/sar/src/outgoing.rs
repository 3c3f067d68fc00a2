//! One transfer being sent: segments sent so far, and segments that each destination has.
//!
//! ```text
//!  segments   1 2 3 4 5 6 7 8 9      sent: 1 to 8; each destination has all below `low` and some above;
//!  D1         = = = = = = . .        a segment is outstanding until all active destinations have it
//!  D2         = = . . = =
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base::time::{Time, earliest};

use super::config::{Config, Profile};
use super::message::{Message, MessageId, Options, Precedence, Resume, Transmit};
use super::repair::{self, MOST_SPAN};
use super::waiting::{To, Turn, Waiting};
use super::wire::{Body, Cover, LONGEST_MASK, Mask, Pdu, Place, Ports, REPAIR_HEADER};

/// Times that a destination may begin anew after forgetting its segments.
const MOST_RESTARTS: u8 = 3;

#[derive(Debug)]
pub struct Outgoing {
    id: MessageId,
    turn: Turn,
    ports: Ports,
    precedence: Precedence,
    is_acknowledged: bool,
    /// An earlier process may have sent the whole message.
    is_resumed: bool,
    via: Option<IpAddr>,
    destinations: Vec<Destination>,
    content: Content,
    /// State of each segment sent so far, from segment 1 on.
    sent: Vec<SentSegment>,
    /// Transmissions so far.
    transmissions: u32,
    /// Those to be sent again.
    again: BTreeSet<u16>,
    /// Repairs to be sent instead.
    repairs: Option<Repairs>,
    repair_number: u16,
    /// Segments that some active destination lacks.
    outstanding: u16,
    /// A question that waits to be sent to all.
    asks: bool,
    /// Whom the question is for, if not for all.
    alone: Alone,
    /// Questions without an answer, the oldest first.
    polls: VecDeque<Poll>,
    timing: Timing,
    /// Whether all that are left do not answer, or do not take it: it has nothing under way then, but for a
    /// question now and then.
    is_quiet: bool,
    /// Rounds in a row that brought nothing, though segments were sent as often as allowed.
    fruitless: u8,
}

/// The message, cut.
#[derive(Debug)]
struct Content {
    data: Arc<[u8]>,
    segment: u16,
    last: u16,
}

/// What timers need.
#[derive(Debug, Default)]
struct Timing {
    /// When the lifetime ends.
    expires: Option<Time>,
    /// When the question was asked for the first time.
    asked_at: Option<Time>,
    /// Nothing is sent before.
    resume_at: Option<Time>,
    /// When the question has waited long enough.
    answer_by: Option<Time>,
    /// The deadline as noted in the common list.
    due: Option<Time>,
    /// Octets in flight, as noted in the common sum.
    octets: u32,
    /// Whether the transfer is noted as having something to send: retransmissions, or new segments.
    ready: Option<Ready>,
    /// The largest round trip after the first, as Basic measures it.
    largest: Option<Duration>,
    /// Questions answered by all.
    rounds: u32,
    /// Timeouts since the last answer.
    timeouts: u32,
}

/// What there is to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ready {
    Again,
    New,
}

#[derive(Clone, Copy, Debug)]
struct SentSegment {
    /// Its latest transmission.
    at: u32,
    retries: u8,
}

#[derive(Clone, Copy, Debug)]
struct Repairs {
    first: u16,
    span: u16,
    left: u16,
}

/// What an answer tells about the round trip; `load` is the octets in flight when the question was asked.
#[derive(Clone, Copy, Debug)]
pub enum Timed {
    /// The destination alone was asked, once.
    Alone {
        trip: Duration,
        load: u64,
    },
    /// The question was asked once. `octets` of the transfer were in flight.
    Clean {
        trip: Duration,
        load: u64,
        octets: u32,
    },
    Nothing,
    /// The question was asked more than once; `most` is the time since the first.
    Repeated {
        most: Duration,
        load: u64,
    },
}

/// What an answer was worth.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Worth {
    /// It cannot be true.
    Forged,
    /// The destination has lost its segments.
    Forgotten,
    /// It tells nothing new.
    Nothing,
    Taken,
}

/// What is sent next.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    Ask,
    /// The destination with this index alone.
    AskOne(usize),
    Repair(Cover),
    Segment {
        place: Place,
        is_again: bool,
    },
}

impl Outgoing {
    pub fn new(turn: Turn, waiting: Waiting, segment: u16) -> Self {
        let Waiting { id, message, to, options, expires, .. } = waiting;
        let segment = segment.max(1);
        let count = message.data.len().div_ceil(segment.into());
        // The length was checked when the message was taken.
        let last = u16::try_from(count).unwrap_or(u16::MAX);
        let destinations = to.addresses().iter().map(|address| Destination::new(*address));
        Self {
            id,
            turn,
            ports: message.ports,
            precedence: options.precedence,
            is_acknowledged: options.is_acknowledged,
            is_resumed: options.resume.is_some(),
            via: options.via,
            destinations: destinations.collect(),
            content: Content { data: message.data, segment, last },
            sent: Vec::new(),
            transmissions: 0,
            again: BTreeSet::new(),
            repairs: None,
            repair_number: 0,
            outstanding: 0,
            asks: false,
            alone: Alone::default(),
            polls: VecDeque::new(),
            timing: Timing { expires, ..Timing::default() },
            is_quiet: false,
            fruitless: 0,
        }
    }

    pub fn id(&self) -> MessageId {
        self.id
    }

    pub fn turn(&self) -> Turn {
        self.turn
    }

    pub fn ports(&self) -> Ports {
        self.ports
    }

    pub fn precedence(&self) -> Precedence {
        self.precedence
    }

    /// Whether destinations acknowledge the message.
    pub fn is_acknowledged(&self) -> bool {
        self.is_acknowledged
    }

    /// All destinations, those with an outcome included.
    pub fn destinations(&self) -> &[Destination] {
        &self.destinations
    }

    /// Destinations without an outcome.
    pub fn open(&self) -> impl Iterator<Item = &Destination> {
        self.destinations.iter().filter(|it| it.is_open())
    }

    pub fn address(&self, index: usize) -> IpAddr {
        self.destinations[index].address
    }

    /// Ends a destination's part for good.
    pub fn close(&mut self, index: usize) {
        self.destinations[index].close();
    }

    /// Excludes a destination until it is heard.
    pub fn park(&mut self, index: usize) {
        self.destinations[index].park();
    }

    /// Whether the transfer has nothing in flight while its destinations do not answer.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Returns whether that is a change.
    pub fn set_quiet(&mut self, is_quiet: bool) -> bool {
        std::mem::replace(&mut self.is_quiet, is_quiet) != is_quiet
    }

    /// The deadline as noted in the common list.
    pub fn noted_due(&mut self) -> &mut Option<Time> {
        &mut self.timing.due
    }

    /// Whether the transfer was noted as having something to send; notes `ready` instead.
    pub fn note_ready(&mut self, ready: Option<Ready>) -> Option<Ready> {
        std::mem::replace(&mut self.timing.ready, ready)
    }

    /// Octets in flight as noted in the common sum.
    pub fn noted_octets(&self) -> u32 {
        self.timing.octets
    }

    /// Notes the octets in flight; returns them.
    pub fn note_octets(&mut self) -> u32 {
        self.timing.octets = self.octets();
        self.timing.octets
    }

    /// The next deadline: a missing answer, the end of the lifetime, or the end of a pause.
    pub fn deadline(&self) -> Option<Time> {
        let Timing { expires, resume_at, answer_by, .. } = self.timing;
        let answer_by = answer_by.filter(|_| !self.polls.is_empty());
        earliest(earliest(answer_by, expires), resume_at)
    }

    /// Ends a pause that is over; returns whether one was.
    pub fn resume(&mut self, now: Time) -> bool {
        self.timing.resume_at.take_if(|at| *at <= now).is_some()
    }

    /// Sends nothing before.
    pub fn pause_until(&mut self, at: Time) {
        self.timing.resume_at = Some(at);
    }

    /// Whether the lifetime has ended.
    pub fn has_expired(&self, now: Time) -> bool {
        self.timing.expires.is_some_and(|at| at <= now)
    }

    /// Expects the answers to the question in flight by then.
    pub fn expect_answers_by(&mut self, at: Time) {
        self.timing.answer_by = Some(at);
    }

    /// Whether the question in flight has waited long enough.
    pub fn is_answer_late(&self, now: Time) -> bool {
        self.timing.answer_by.is_some_and(|at| at <= now)
    }

    /// The question in flight was not answered in time.
    pub fn handle_silence(&mut self) {
        self.timing.timeouts += 1;
        self.timing.answer_by = None;
    }

    /// Whether a question has timed out since the last answer.
    pub fn is_retry(&self) -> bool {
        self.timing.timeouts > 0
    }

    /// How long S/R Basic waits for answers, before jitter.
    pub fn basic_round_trip(&self, config: &Config) -> Duration {
        match (self.timing.rounds, self.timing.largest) {
            (0, _) => config.times.round_trip,
            (_, None) => config.times.round_trip * u32::from(config.flow.credit),
            (_, Some(largest)) => largest,
        }
    }

    /// A round ended: all destinations have answered.
    pub fn finish_round(&mut self) {
        self.timing.rounds += 1;
    }

    /// Segments that some active destination lacks.
    pub fn outstanding(&self) -> u16 {
        self.outstanding
    }

    /// The oldest question without an answer.
    pub fn oldest_poll(&self) -> Option<Poll> {
        self.polls.front().copied()
    }

    /// When the oldest question without an answer was asked.
    pub fn polled_at(&self) -> Option<Time> {
        self.polls.front().map(|poll| poll.at)
    }

    /// The latest question without an answer.
    pub fn latest_poll(&self) -> Option<Poll> {
        self.polls.back().copied()
    }

    /// Handles a mask: the last question answered by it becomes the first; false if no question is answered.
    pub fn settle(&mut self, mask: &Mask<'_>) -> bool {
        match self.polls.iter().rposition(|poll| poll.is_answered_by(mask)) {
            Some(index) => _ = self.polls.drain(..index),
            None => return self.polls.is_empty(),
        }
        true
    }

    /// Whether the question in flight is for all destinations.
    pub fn is_asked_together(&self) -> bool {
        self.alone.is_empty()
    }

    /// Destinations of the question in flight that have not answered, by index.
    pub fn unanswered(&self) -> impl Iterator<Item = (usize, &Destination)> {
        let all = self.destinations.iter().enumerate();
        all.filter(|(index, it)| it.is_silent() && self.alone.concerns(*index))
    }

    /// Asks each destination without an answer on its own.
    pub fn ask_alone(&mut self) {
        self.alone.plan(&self.destinations);
    }

    /// Asks all destinations.
    pub fn ask_all(&mut self) {
        self.polls.clear();
        self.asks = true;
    }

    /// Takes an answer of `address` to `poll` as a measurement of the round trip.
    pub fn time_answer(&mut self, now: Time, address: IpAddr, poll: Option<Poll>) -> Timed {
        self.timing.timeouts = 0;
        let place = self.find(address);
        let alone = place.and_then(|index| self.destinations[index].asked_alone.take());
        let Some(Poll { at, load, is_clean, .. }) = poll else { return Timed::Nothing };
        if let Some(at) = alone {
            return Timed::Alone { trip: now.since(at), load };
        }
        if !is_clean {
            return match self.timing.asked_at {
                Some(first) => Timed::Repeated { most: now.since(first), load },
                None => Timed::Nothing,
            };
        }
        let trip = now.since(at);
        if self.timing.rounds > 0 {
            self.timing.largest = self.timing.largest.max(Some(trip));
        }
        Timed::Clean { trip, load, octets: self.timing.octets }
    }

    /// Goes on after an answer: if it completes a round, returns how many segments arrived; otherwise asks the next
    /// destinations.
    pub fn handle_answered(&mut self) -> Option<u16> {
        let before = self.outstanding;
        self.count_outstanding();
        self.prune();
        let arrived = before.saturating_sub(self.outstanding);
        if !self.polls.is_empty() && !self.is_over() && self.is_answered() {
            return Some(arrived);
        }
        if self.alone.is_done(&self.destinations) {
            self.ask_alone();
        }
        None
    }

    /// Writes the PDU of a transmission.
    pub fn emit(&self, serial: u16, next: Next, polls: bool, out: &mut Vec<u8>) {
        let symbol;
        let body = match next {
            Next::Ask | Next::AskOne(_) => Body::AckRequest { last_sent: self.last_sent() },
            Next::Repair(cover) => {
                let Content { data, segment, .. } = &self.content;
                let segment = usize::from(*segment);
                let mut sum = Vec::with_capacity(REPAIR_HEADER + segment);
                repair::encode(serial, &cover, data, segment, &mut sum);
                symbol = sum;
                Body::Repair { polls, cover, symbol: &symbol }
            }
            Next::Segment { place, .. } => {
                let is_acknowledged = self.is_acknowledged;
                Body::Data { is_acknowledged, polls, place, data: self.segment(place) }
            }
        };
        Pdu { ports: self.ports, serial, body }.emit(out);
    }

    /// Where a transmission goes: to the group while it is for several.
    pub fn addressed(&self, next: Next) -> Transmit {
        let precedence = self.precedence;
        if let Next::AskOne(index) = next {
            return Transmit { to: self.address(index), precedence, listed: None };
        }
        let active = || self.active().map(|destination| destination.address);
        let (first, second) = (active().next(), active().nth(1));
        match (self.via, first, second) {
            (Some(to), _, Some(_)) => Transmit { to, precedence, listed: Some(active().collect()) },
            // An existing transfer always has an active destination.
            (_, first, _) => {
                let to = first.unwrap_or(self.destinations[0].address);
                Transmit { to, precedence, listed: None }
            }
        }
    }

    pub fn active(&self) -> impl Iterator<Item = &Destination> {
        self.destinations.iter().filter(|destination| destination.is_active)
    }

    pub fn is_over(&self) -> bool {
        !self.destinations.iter().any(Destination::is_open)
    }

    /// Whether only destinations are left that do not answer.
    pub fn has_only_parked(&self) -> bool {
        self.active().next().is_none() && !self.is_over()
    }

    /// Whether a destination still has to answer.
    pub fn waits_for(&self, address: IpAddr) -> bool {
        let mut left = self.destinations.iter().filter(|it| it.is_open());
        left.any(|it| it.address == address && !it.has_answered)
    }

    /// Whether only the destination `address` is left.
    pub fn is_for(&self, address: IpAddr) -> bool {
        let mut left = self.destinations.iter().filter(|it| it.is_open());
        left.next().is_some_and(|it| it.address == address) && left.next().is_none()
    }

    /// Destinations that are known not to answer take no part at first, unless none does.
    pub fn set_apart(&mut self, is_silent: impl Fn(IpAddr) -> bool) {
        if self.active().any(|it| !is_silent(it.address)) {
            let active = self.destinations.iter_mut().filter(|it| it.is_active);
            active.filter(|it| is_silent(it.address)).for_each(Destination::park);
        }
    }

    /// Whether it is tried until its lifetime ends, however long nobody answers.
    pub fn persists(&self, config: &Config) -> bool {
        config.profile == Profile::Default && self.is_acknowledged && self.timing.expires.is_some()
    }

    /// The answer contains nothing new.
    pub fn into_waiting(self, serial: u16) -> Waiting {
        let left = self.destinations.iter().filter(|it| it.is_open()).map(|it| it.address);
        let left: Box<[IpAddr]> = left.collect();
        let to = match *left {
            [one] => To::Single(one),
            _ => To::Several(left),
        };
        let resume = Resume { serial, segment: self.content.segment };
        let options = Options {
            precedence: self.precedence,
            lifetime: None,
            is_acknowledged: self.is_acknowledged,
            via: self.via,
            resume: Some(resume),
        };
        let message = Message { ports: self.ports, data: self.content.data };
        let expires = self.timing.expires;
        Waiting { id: self.id, message, to, options, expires, parked: None }
    }

    /// Tries a destination that may answer again: with a single segment, or with a question.
    pub fn rouse(&mut self, address: IpAddr) {
        let of_it = self.destinations.iter_mut().filter(|it| it.is_open() && it.address == address);
        of_it.for_each(Destination::rouse);
        (self.timing.answer_by, self.timing.resume_at, self.timing.timeouts) = (None, None, 0);
        self.alone.clear();
        match self.is_single() && self.has_sent_all() {
            true => self.plan_all(),
            false => self.asks = self.last_sent() > 0,
        }
    }

    /// None of the remaining destinations answers: asks all, by short questions.
    pub fn ask_quietly(&mut self, config: &Config) {
        for destination in &mut self.destinations {
            destination.unpark();
            // A returning destination may have forgotten its segments.
            destination.restarts = 0;
        }
        // Octets in flight no longer count, and go again as if for the first time: by window and room. Their arrival is
        // unknown, as with segments sent by an earlier process.
        self.is_resumed = true;
        let low = self.active().map(|it| it.low).min().unwrap_or(1);
        let above = self.active().filter_map(|it| it.above.last()).max().copied().unwrap_or(0);
        let kept = low.saturating_add(config.flow.credit - 1).max(above);
        self.sent.truncate(kept.into());
        self.sent.iter_mut().for_each(|sent| sent.retries = 0);
        self.count_outstanding();
        self.again.clear();
        self.repairs = None;
        self.polls.clear();
        self.alone.clear();
        self.asks = true;
    }

    /// Octets under way.
    fn octets(&self) -> u32 {
        if self.is_quiet {
            return 0;
        }
        u32::from(self.outstanding) * self.segment_octets()
    }

    /// Octets of a datagram with a whole segment.
    pub fn segment_octets(&self) -> u32 {
        let data = usize::from(self.content.segment).min(self.content.data.len());
        u32::try_from(data + super::wire::DATA_HEADER).unwrap_or(u32::MAX)
    }

    pub fn last_sent(&self) -> u16 {
        u16::try_from(self.sent.len()).unwrap_or(u16::MAX)
    }

    pub fn has_sent_all(&self) -> bool {
        self.last_sent() == self.content.last
    }

    fn has_repeats(&self) -> bool {
        self.asks || self.alone.next().is_some() || self.repairs.is_some() || !self.again.is_empty()
    }

    fn segment(&self, place: Place) -> &[u8] {
        let start = (usize::from(place.number()) - 1) * usize::from(self.content.segment);
        let end = (start + usize::from(self.content.segment)).min(self.content.data.len());
        &self.content.data[start..end]
    }

    /// Whether a new segment may be sent now, with at most `window` segments outstanding.
    fn may_go_on(&self, config: &Config, window: u16) -> bool {
        if self.fruitless > 0 {
            return false;
        }
        let has_room = !config.profile.has_window() || self.outstanding < window;
        if self.has_sent_all() || !self.is_acknowledged {
            return !self.has_sent_all();
        }
        if config.profile.polls() && !config.profile.slides() && self.timing.rounds == 0 {
            // Basic: the first segment alone, until all have answered or were pruned.
            return self.sent.is_empty();
        }
        let is_final = self.last_sent() + 1 == self.content.last;
        // The last segment carries a question.
        let may_ask = self.may_ask(config) || config.profile.slides() && !is_final;
        has_room && may_ask
    }

    /// Whether one more question may be under way: by profile `default`, to a single destination.
    fn may_ask(&self, config: &Config) -> bool {
        let is_single = config.profile == Profile::Default && self.active().nth(1).is_none();
        self.polls.is_empty() || is_single && self.polls.len() < MOST_POLLS
    }

    /// What is sent next, if anything; repeats first.
    pub fn next(&self, config: &Config, window: u16) -> Option<Next> {
        if self.timing.resume_at.is_some() {
            return None;
        }
        if self.asks {
            return Some(Next::Ask);
        }
        if let Some(index) = self.alone.next() {
            return Some(Next::AskOne(index));
        }
        if let Some(repairs) = self.repairs {
            let first = Place::new(repairs.first, self.content.last).ok()?;
            let length = self.content.data.len();
            let tail =
                length - (usize::from(self.content.last) - 1) * usize::from(self.content.segment);
            let tail = u16::try_from(tail).ok()?;
            let cover = Cover { first, span: repairs.span, number: self.repair_number, tail };
            return Some(Next::Repair(cover));
        }
        let again = self.again.first().copied();
        let number = match again {
            Some(number) => number,
            None if self.may_go_on(config, window) => self.last_sent() + 1,
            None => return None,
        };
        let place = Place::new(number, self.content.last).ok()?;
        Some(Next::Segment { place, is_again: again.is_some() })
    }

    /// Notes that `next` is being sent; `is_held` means that this transmission uses up the octets allowed in flight.
    /// Returns whether the segment asks for an answer.
    pub fn handle_sent(
        &mut self,
        config: &Config,
        (window, is_held): (u16, bool),
        next: Next,
    ) -> bool {
        self.transmissions += 1;
        let is_repeat = self.has_repeats();
        match next {
            Next::Ask => {
                self.asks = false;
                self.alone.clear();
                return true;
            }
            Next::AskOne(_) => {
                self.alone.pop();
                return false;
            }
            Next::Repair(_) => {
                self.repair_number = self.repair_number.wrapping_add(1);
                if let Some(repairs) = &mut self.repairs {
                    repairs.left -= 1;
                    if repairs.left > 0 {
                        return false;
                    }
                }
                self.repairs = None;
            }
            Next::Segment { place, is_again: true } => {
                self.again.remove(&place.number());
                let sent = &mut self.sent[usize::from(place.number()) - 1];
                sent.at = self.transmissions;
                sent.retries = sent.retries.saturating_add(1);
            }
            Next::Segment { is_again: false, .. } => {
                self.sent.push(SentSegment { at: self.transmissions, retries: 0 });
                self.outstanding += u16::from(self.is_acknowledged);
            }
        }
        if !self.is_acknowledged || self.has_repeats() || !self.may_ask(config) {
            return false;
        }
        if self.fruitless > 0 {
            return true;
        }
        if let Some(last) = self.polls.back() {
            let step = u32::from(config.flow.ask_at.max(window / 4));
            let since = self.transmissions.saturating_sub(last.transmission);
            return since >= step || is_repeat || self.has_sent_all();
        }
        if !self.may_go_on(config, window) {
            return true;
        }
        if config.profile != Profile::Default {
            // Octets in flight are freed by answers alone: a sender without free octets has to wait for an answer.
            return is_held
                || config.profile.slides() && self.outstanding >= config.flow.ask_at.min(window);
        }
        // Where all that is left fits into the window, one question goes with the last segment.
        let left = self.content.last - self.last_sent();
        let fits = left <= window.saturating_sub(self.outstanding);
        is_held || self.outstanding >= config.flow.ask_at.min(window) && !fits
    }

    /// A partial acknowledgement arrived.
    pub fn handle_mask(&mut self, from: usize, mask: &Mask<'_>, is_answer: bool) -> Worth {
        let last_sent = self.last_sent();
        let (is_resumed, last) = (self.is_resumed, self.content.last);
        let most = if is_resumed { last } else { last_sent };
        let destination = &mut self.destinations[from];
        // No destination can have a segment never sent.
        if mask.start() > last || mask.start() - 1 > most || mask.highest_arrived() > most {
            return Worth::Forged;
        }
        // A destination that lacks the beginning again, or any segment after it had all, has lost its
        // segments. Only an answer to a question is believed, and not for ever: it may be old and late.
        let has_lost = mask.start() == 1 && destination.low > 1 || destination.low > last;
        if has_lost && is_answer && !self.polls.is_empty() {
            if destination.restarts == MOST_RESTARTS {
                return Worth::Forged;
            }
            destination.restarts += 1;
            destination.low = mask.start();
            destination.above.clear();
            self.sent.iter_mut().for_each(|sent| sent.retries = 0);
        }
        destination.unpark();
        let before = (destination.low, destination.above.len());
        destination.low = destination.low.max(mask.start());
        destination.above.extend(mask.arrived());
        destination.advance();
        destination.has_answered |= is_answer;
        // Saying the same again unasked is no answer: that could go on for ever.
        let is_progress = before != (destination.low, destination.above.len());
        if is_answer || is_progress {
            destination.requests = 0;
        }
        if is_progress && self.fruitless > 0 {
            self.fruitless = 0;
            self.sent.iter_mut().for_each(|sent| sent.retries = 0);
        }
        if !has_lost && !is_answer && !is_progress {
            return Worth::Nothing;
        }
        if has_lost { Worth::Forgotten } else { Worth::Taken }
    }

    /// Counts the outstanding segments.
    pub fn count_outstanding(&mut self) {
        let lowest = self.active().map(|destination| destination.low).min().unwrap_or(u16::MAX);
        let count = (lowest..=self.last_sent()).filter(|number| self.is_lacked(*number)).count();
        self.outstanding = u16::try_from(count).unwrap_or(u16::MAX);
        let last_sent = self.last_sent();
        // After a restart the destination may have segments that this process never sent.
        if self.is_resumed && lowest > last_sent && lowest != u16::MAX {
            self.sent.resize(usize::from(lowest) - 1, SentSegment { at: 0, retries: 0 });
        }
    }

    fn is_lacked(&self, number: u16) -> bool {
        self.active().any(|destination| destination.lacks(number))
    }

    /// Schedules retransmissions: segments sent before the question that some destination lacks. Returns the
    /// destinations that lack a segment sent as often as allowed.
    pub fn plan(&mut self, config: &Config) -> Vec<usize> {
        self.alone.clear();
        let until = self.polls.pop_front().map_or(self.transmissions, |poll| poll.transmission);
        if !self.polls.is_empty() {
            self.expect_answers();
        }
        let lowest = self.active().map(|destination| destination.low).min().unwrap_or(u16::MAX);
        let retries = &config.retries;
        let most = retries.segment.saturating_sub(u8::from(retries.first_counts));
        let mut hopeless = BTreeSet::new();
        let numbers = (lowest..=self.last_sent()).filter(|number| {
            self.sent[usize::from(*number) - 1].at <= until && self.is_lacked(*number)
        });
        for number in numbers.collect::<Vec<_>>() {
            if self.sent[usize::from(number) - 1].retries < most {
                self.again.insert(number);
                continue;
            }
            let lacking = self.destinations.iter().enumerate();
            let lacking = lacking.filter(|(_, it)| it.is_active && it.lacks(number));
            hopeless.extend(lacking.map(|(index, _)| index));
        }
        hopeless.into_iter().collect()
    }

    /// Retries segments already sent as often as allowed, one segment after a pause that doubles; returns the
    /// number of these retries so far.
    pub fn stall(&mut self) -> u8 {
        let lowest = self.active().map(|destination| destination.low).min().unwrap_or(1);
        let first = (lowest..=self.last_sent()).find(|number| self.is_lacked(*number));
        self.again = first.into_iter().collect();
        self.repairs = None;
        self.polls.clear();
        self.timing.answer_by = None;
        let before = self.fruitless;
        self.fruitless = before.saturating_add(1);
        before
    }

    /// Forgets to send again what nobody lacks any more.
    pub fn prune(&mut self) {
        let again = std::mem::take(&mut self.again);
        self.again = again.into_iter().filter(|number| self.is_lacked(*number)).collect();
        self.alone.prune(&self.destinations);
    }

    /// Replaces segments by repairs where fewer repairs suffice.
    pub fn plan_repairs(&mut self, config: &Config) {
        let is_worth_it = config.coding && self.via.is_some() && self.content.last > 1;
        if !is_worth_it || self.active().nth(1).is_none() {
            return;
        }
        let Some(first) = self.again.first().copied() else { return };
        let reach = first.saturating_add(MOST_SPAN - 1);
        let Some(end) = self.again.range(..=reach).next_back().copied() else { return };
        let covered: BTreeSet<u16> = self.again.range(first..=end).copied().collect();
        let lacks = |it: &Destination| covered.iter().filter(|number| it.lacks(**number)).count();
        let need = self.active().map(lacks).max().unwrap_or(0);
        // What is under way inside would be unknown to everyone.
        let is_all_sent = end <= self.last_sent();
        if need == 0 || need >= covered.len() || !is_all_sent {
            return;
        }
        for number in covered {
            self.again.remove(&number);
            let sent = &mut self.sent[usize::from(number) - 1];
            sent.at = self.transmissions + 1;
            sent.retries = sent.retries.saturating_add(1);
        }
        let left = u16::try_from(need).unwrap_or(u16::MAX);
        self.repairs = Some(Repairs { first, span: end - first + 1, left });
    }

    /// Plans to send everything again.
    pub fn plan_all(&mut self) {
        self.alone.clear();
        self.polls.clear();
        self.again.extend(1..=u16::try_from(self.sent.len()).unwrap_or(u16::MAX));
    }

    /// Whether to believe a destination that reports the whole message.
    pub fn may_be_complete(&self) -> bool {
        self.is_resumed || self.has_sent_all()
    }

    /// Whether nothing makes anyone answer any more, if there is nothing to send: then that is.
    pub fn is_stuck(&self) -> bool {
        let is_idle = self.polls.is_empty() && self.timing.resume_at.is_none();
        self.is_acknowledged && is_idle && self.active().next().is_some()
    }

    pub fn is_single(&self) -> bool {
        self.content.last == 1
    }

    /// Whether destinations that are asked have all answered.
    pub fn is_answered(&self) -> bool {
        self.active().all(|destination| destination.has_answered)
    }

    pub fn find(&self, address: IpAddr) -> Option<usize> {
        self.destinations.iter().position(|it| it.is_open() && it.address == address)
    }

    /// Counts segments that the latest question covered and the destination lacks.
    pub fn lacked(&self, destination: &Destination) -> u16 {
        let lacked = (destination.low..=self.last_sent()).filter(|number| {
            let is_asked = self
                .polls
                .front()
                .is_none_or(|poll| self.sent[usize::from(*number) - 1].at <= poll.transmission);
            is_asked && destination.lacks(*number)
        });
        u16::try_from(lacked.count()).unwrap_or(u16::MAX)
    }
}

// Decides which destinations of a transfer to ask for an answer: all destinations, or only some.

impl Outgoing {
    /// A question went out.
    pub fn handle_asked(&mut self, now: Time, next: Next, load: u64) {
        // Answers of several destinations are spread in time, so they prove nothing about distance.
        let is_clean = self.timing.timeouts == 0 && !self.is_shared();
        if is_clean {
            self.timing.asked_at = Some(now);
        }
        let number = match next {
            Next::Segment { place, .. } => Some(place.number()),
            Next::Ask | Next::AskOne(_) | Next::Repair(_) => None,
        };
        if number.is_none() {
            self.polls.clear();
        }
        let is_first = self.polls.is_empty();
        let transmission = self.transmissions;
        self.polls.push_back(Poll { transmission, number, at: now, load, is_clean });
        if is_first {
            self.expect_answers();
        }
    }

    /// The first question waits for its answer.
    fn expect_answers(&mut self) {
        for destination in self.destinations.iter_mut().filter(|it| it.is_active) {
            destination.requests = destination.requests.saturating_add(1);
            destination.has_answered = false;
            destination.asked_alone = None;
        }
        self.alone.clear();
    }

    /// Whether several active destinations share the transfer.
    pub fn is_shared(&self) -> bool {
        self.active().nth(1).is_some()
    }

    /// Destinations of the question in flight.
    pub fn asked(&self) -> impl Iterator<Item = &Destination> {
        let all = self.destinations.iter().enumerate();
        all.filter(|(index, it)| it.is_active && self.alone.concerns(*index)).map(|(_, it)| it)
    }

    /// A question went out to a single destination; the answers of the others count.
    pub fn handle_asked_one(&mut self, now: Time, index: usize) {
        let destination = &mut self.destinations[index];
        // The group was asked once, and now it.
        destination.asked_alone = (destination.requests == 1).then_some(now);
        destination.requests = destination.requests.saturating_add(1);
        // The question was put again in other words.
        if let Some(poll) = self.polls.front_mut() {
            (poll.is_clean, poll.number) = (false, None);
        }
    }
}

// Tracks the questions of a transfer that still lack an answer.
//
// An answer does not name its question. But a segment that asked has arrived before its answer is written, so an
// answer without this segment belongs to an earlier question. Several questions may therefore be in flight to a single
// destination, and the window moves on while answers come.

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Poll {
    /// The transmission that asked.
    transmission: u32,
    /// The segment that asked, if any.
    number: Option<u16>,
    at: Time,
    /// Octets of all transfers in flight.
    load: u64,
    /// Whether it was asked once, so that the answer tells the round trip (Karn's rule).
    is_clean: bool,
}

/// Questions to a single destination at a time.
const MOST_POLLS: usize = 8;

impl Poll {
    fn is_answered_by(&self, mask: &Mask<'_>) -> bool {
        self.number.is_none_or(|number| {
            let is_in_reach = number.saturating_sub(mask.start()) < LONGEST_MASK;
            mask.start() > number || !is_in_reach || mask.arrived().any(|it| it == number)
        })
    }
}

// Destinations to ask one by one, because they stayed silent while others of their group answered.

/// A question to some destinations only, sent to a few at a time.
#[derive(Debug, Default)]
struct Alone {
    asked: Vec<usize>,
    /// Destinations that have not been sent the question yet.
    unsent: Vec<usize>,
}

/// Destinations that are asked at a time: on a radio channel many answers at once destroy each other.
const AT_ONCE: usize = 3;

impl Alone {
    /// Plans questions to some silent destinations, the least asked first.
    fn plan(&mut self, destinations: &[Destination]) {
        let silent = destinations.iter().enumerate().filter(|(_, it)| it.is_silent());
        let mut silent: Vec<(u8, usize)> = silent.map(|(index, it)| (it.requests, index)).collect();
        silent.sort_unstable();
        silent.truncate(AT_ONCE);
        self.asked = silent.into_iter().map(|(_, index)| index).collect();
        self.unsent.clone_from(&self.asked);
    }

    fn clear(&mut self) {
        self.asked.clear();
        self.unsent.clear();
    }

    /// Nobody is asked alone: the question is for all.
    fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Whether the question is for this destination.
    fn concerns(&self, index: usize) -> bool {
        self.is_empty() || self.asked.contains(&index)
    }

    /// Whether all who were asked have answered.
    fn is_done(&self, destinations: &[Destination]) -> bool {
        let is_done = |index: &usize| !destinations[*index].is_silent();
        self.unsent.is_empty() && !self.is_empty() && self.asked.iter().all(is_done)
    }

    /// Whom to send the question next.
    fn next(&self) -> Option<usize> {
        self.unsent.last().copied()
    }

    fn pop(&mut self) {
        self.unsent.pop();
    }

    /// Drops destinations that have answered from the list to ask.
    fn prune(&mut self, destinations: &[Destination]) {
        self.unsent.retain(|index| destinations[*index].is_silent());
    }
}

// The state of each destination of a transfer: received segments and answers.

/// A destination of a transfer.
#[derive(Debug)]
pub struct Destination {
    address: IpAddr,
    is_active: bool,
    /// The destination is silent, and the message waits for it: the rounds of the others go on without it.
    is_parked: bool,
    /// It has all segments below.
    low: u16,
    /// Those that it has above.
    above: BTreeSet<u16>,
    /// Questions without an answer (RFARC).
    requests: u8,
    has_answered: bool,
    /// When the destination alone was asked; `None` unless asked exactly once.
    asked_alone: Option<Time>,
    restarts: u8,
}

impl Destination {
    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Questions without an answer (RFARC).
    pub fn requests(&self) -> u8 {
        self.requests
    }

    fn new(address: IpAddr) -> Self {
        Self {
            address,
            is_active: true,
            is_parked: false,
            low: 1,
            above: BTreeSet::new(),
            requests: 0,
            has_answered: false,
            asked_alone: None,
            restarts: 0,
        }
    }

    /// Whether the destination still has to answer.
    fn is_silent(&self) -> bool {
        self.is_active && !self.has_answered
    }

    /// It has no outcome yet.
    pub fn is_open(&self) -> bool {
        self.is_active || self.is_parked
    }

    /// Excludes the destination until it is heard.
    fn park(&mut self) {
        (self.is_active, self.is_parked) = (false, true);
    }

    /// It takes part again.
    fn unpark(&mut self) {
        if self.is_parked {
            (self.is_active, self.is_parked, self.has_answered) = (true, false, false);
        }
    }

    /// It may be there again: questions count anew.
    fn rouse(&mut self) {
        self.unpark();
        (self.requests, self.restarts, self.asked_alone) = (0, 0, None);
    }

    /// Ends the destination's part for good.
    fn close(&mut self) {
        (self.is_active, self.is_parked) = (false, false);
    }

    fn lacks(&self, number: u16) -> bool {
        number >= self.low && !self.above.contains(&number)
    }

    /// Raises `low` over all segments present without a gap.
    fn advance(&mut self) {
        while let Some(next) = self.above.first().copied()
            && next <= self.low
        {
            self.above.pop_first();
            if next == self.low {
                self.low = self.low.saturating_add(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn what_a_destination_has_without_a_gap_is_below_what_it_lacks() {
        let mut destination = Destination::new(Ipv4Addr::LOCALHOST.into());
        destination.above.extend([1, 2, 4]);

        destination.advance();

        assert_eq!((destination.low, destination.above.len()), (3, 1));
        assert_eq!([2, 3, 4, 5].map(|it| destination.lacks(it)), [false, true, false, true]);
    }

    /// Questions are asked by segments: who does not have the segment has not been asked.
    #[test]
    fn an_answer_without_the_segment_that_asked_belongs_to_an_earlier_question() {
        let poll =
            |number| Poll { transmission: 1, number, at: Time::ZERO, load: 0, is_clean: true };
        let is_answered = |number, start, arrived: &[u16]| {
            let mut mask = crate::wire::MaskBuffer::new(start);
            arrived.iter().for_each(|it| mask.set(*it));
            poll(number).is_answered_by(&mask.mask())
        };

        assert!(is_answered(None, 1, &[]));
        assert!(is_answered(Some(5), 3, &[4, 5]) && is_answered(Some(5), 6, &[]));
        assert!(!is_answered(Some(5), 3, &[4]) && !is_answered(Some(5), 5, &[6]));
        // Whether it has arrived does not fit into the mask.
        let beyond = 3 + LONGEST_MASK;
        assert!(is_answered(Some(beyond), 3, &[4]) && !is_answered(Some(beyond - 1), 3, &[4]));
    }
}

//! State kept of another node: its streams, its process and the messages owed to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::backoff::Backoff;
use base::replay::Window;
use base::rng::Rng;
use base::time::{Time, earliest};

use super::config::{Config, Limits, Times};
use super::datagrams::Exchange;
use super::reason::Reason;
use super::stream::succeeds;
use super::timers::{DatagramId, StreamId, Timer, Timers};
use super::wire::{Credit, DEFLATE, Name};
use crate::s5066::Address;

/// Numbers of streams have 15 bits.
const NUMBER_BITS: u32 = 15;
/// A number well above 0, so that any lower one can be rebuilt.
const ORIGIN: u64 = 1 << 32;
/// Size, in words, of the window of streams seen from one process: so many may be opened before the first is heard
/// of.
const SEEN_WORDS: usize = 192;
/// Processes at the other end whose streams are remembered, and processes that are known to have ended.
const MOST_EPOCHS: usize = 4;
/// Answers about streams that are not remembered, at most.
const MOST_ANSWERS: usize = 256;

/// How long after a message of a new client a rejection may still concern its predecessor: as long as a transmission
/// beside urgent traffic, ...
const BACK: Duration = Duration::from_secs(15);
/// ... and how far apart such rejections arrive.
const AT_ONCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Peer {
    streams: BTreeMap<Name, StreamId>,
    /// The number of the next stream from here.
    next: u64,
    /// Streams from here that the other end is not known to have.
    opening: BTreeSet<u64>,
    /// The process that was heard last.
    process: Option<Process>,
    /// Processes that a successor has replaced, and when: their node may still send what they had said.
    ended: VecDeque<(u16, Time)>,
    /// Codings the process can decode, as far as known.
    accepts: u8,
    /// Windows of the streams seen from each process, the newest process last.
    seen: VecDeque<(u16, Window<SEEN_WORDS>)>,
    early: BTreeMap<(u16, u16), Early>,
    early_octets: usize,
    closed: BTreeMap<Name, Closed>,
    closed_order: VecDeque<Name>,
    /// Messages owed about streams, live or ended.
    owed: BTreeMap<Name, Owed>,
    owed_hello: Option<Greeting>,
    datagrams: Exchange,
    /// Whether the node is in the list of nodes with messages owed to them.
    is_listed: bool,
    /// Set when the node's client is heard: until then, a rejection because no client took a U_PDU concerns the
    /// previous client, and nothing waits for it.
    back_until: Option<Time>,
    /// The node did not answer; the next try is due then.
    waits_until: Option<Time>,
    backoff: Backoff,
    /// Streams that wait for the next try.
    parked: Vec<StreamId>,
    /// Since when sending to the node has failed.
    failing_since: Option<Time>,
    last_word: Time,
    /// The deadline that is noted.
    timer: Option<Time>,
}

/// A process at the other end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Process {
    pub epoch: u16,
    /// It had started by then, if that is known.
    pub started: Option<Time>,
}

/// Parts that arrived before the first of their stream.
#[derive(Debug)]
struct Early {
    since: Time,
    octets: usize,
    parts: Vec<EarlyPart>,
}

#[derive(Debug)]
pub struct EarlyPart {
    pub number: u16,
    pub is_coded: bool,
    pub is_last: bool,
    pub data: Vec<u8>,
}

/// A stream that is over.
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    /// The process that initiated it.
    pub epoch: u16,
    /// Priority of a message to the other end about the end of the stream.
    pub priority: u8,
    /// Whether the other end has told of the end, or is known to be gone: its late parts need no answer.
    pub is_known: bool,
    /// The last credit of this end if both ends finished, otherwise the reason why they did not.
    pub end: Result<Credit, Reason>,
}

/// What is to be said about a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Owed {
    State {
        is_question: bool,
        is_answer: bool,
        /// Whether a question overtakes data with the node: the answer decides whether the data still has a stream.
        is_urgent: bool,
    },
    Reset(Reason),
}

impl Owed {
    /// How far a stream has come, which nobody has asked.
    pub const NEWS: Self = Self::State { is_question: false, is_answer: false, is_urgent: false };
    /// The same, as asked.
    pub const ANSWER: Self = Self::State { is_question: false, is_answer: true, is_urgent: false };

    /// The same, and the other end is to say it too.
    pub const fn question(is_urgent: bool) -> Self {
        Self::State { is_question: true, is_answer: false, is_urgent }
    }
}

/// A HELLO that is to be said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Greeting {
    pub is_question: bool,
}

/// Whether the first part of a stream is new.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Novelty {
    New,
    Old,
}

impl Peer {
    pub fn new(now: Time, config: &Config, rng: &mut Rng) -> Self {
        Self {
            streams: BTreeMap::new(),
            next: ORIGIN + rng.below(1 << NUMBER_BITS),
            opening: BTreeSet::new(),
            process: None,
            ended: VecDeque::new(),
            accepts: DEFLATE,
            seen: VecDeque::new(),
            early: BTreeMap::new(),
            early_octets: 0,
            closed: BTreeMap::new(),
            closed_order: VecDeque::new(),
            owed: BTreeMap::new(),
            owed_hello: None,
            datagrams: Exchange::default(),
            is_listed: false,
            back_until: None,
            waits_until: None,
            backoff: Backoff::new(config.times.retry),
            parked: Vec::new(),
            failing_since: None,
            last_word: now,
            timer: None,
        }
    }

    /// Its client has said something.
    pub fn handle_word(&mut self, now: Time) {
        self.back_until = Some(now + BACK);
    }

    /// The node has given a sign of life.
    pub fn handle_sign(&mut self, now: Time) {
        self.last_word = now;
        self.failing_since = None;
        self.backoff.succeed();
    }

    /// When the node last gave a sign of life.
    pub fn last_word(&self) -> Time {
        self.last_word
    }

    /// The node did not take something: nothing is sent to it for a while.
    pub fn handle_failure(&mut self, now: Time) {
        self.failing_since.get_or_insert(now);
        if self.waits_until.is_none() {
            self.waits_until = Some(now + self.backoff.fail());
        }
    }

    /// Our own node is gone, and with it the way to the streams' other ends; whether there are streams.
    pub fn handle_no_way(&mut self, now: Time) -> bool {
        if !self.streams.is_empty() {
            self.failing_since.get_or_insert(now);
        }
        !self.streams.is_empty()
    }

    /// Whether nothing is sent to the node until it is tried again.
    pub fn is_waiting(&self) -> bool {
        self.waits_until.is_some()
    }

    /// A stream waits until the node is tried again.
    pub fn park(&mut self, stream: StreamId) {
        self.parked.push(stream);
    }

    /// The node is tried again, if it waited: the streams and datagrams that waited with it.
    pub fn wake(&mut self) -> Option<(Vec<StreamId>, Vec<DatagramId>)> {
        self.waits_until.take()?;
        Some((std::mem::take(&mut self.parked), self.datagrams.take_parked()))
    }

    /// When to look at it.
    pub fn next_timeout(&self, times: &Times) -> Option<Time> {
        let early = self.early.values().map(|early| early.since).min();
        let early = early.map(|since| since + times.early);
        let given_up = self.failing_since.map(|since| since + times.give_up);
        earliest(earliest(early, given_up), self.waits_until)
    }

    /// Notes in `timers` when to look at it, unless an earlier time is noted.
    pub fn watch(&mut self, timers: &mut Timers, address: Address, at: Option<Time>) {
        timers.set(&mut self.timer, at, Timer::Peer(address));
    }

    /// It is forgotten.
    pub fn unwatch(&mut self, timers: &mut Timers, address: Address) {
        timers.clear(&mut self.timer, Timer::Peer(address));
    }

    /// The noted time has come: whether the next try is due.
    pub fn handle_timer(&mut self, now: Time) -> bool {
        self.timer = None;
        self.waits_until.is_some_and(|at| at <= now)
    }

    /// Once sending to the node has failed for `give_up`, returns the time that many seconds ago: streams that began
    /// before it are given up.
    /// Without a node of our own the count begins anew; with one there will be another failure, if there is something
    /// to fail.
    pub fn take_given_up(&mut self, now: Time, times: &Times, has_node: bool) -> Option<Time> {
        self.failing_since.filter(|since| *since + times.give_up <= now)?;
        self.failing_since = (!has_node).then_some(now);
        self.owed_hello = None;
        Some(now - times.give_up)
    }

    /// For a stream that began at `since`, sending to the node has failed since then.
    pub fn fail_since(&mut self, since: Time) {
        self.failing_since = Some(self.failing_since.map_or(since, |before| before.min(since)));
    }

    /// Forgets failures that concern nothing any more.
    pub fn settle_failures(&mut self) {
        if self.streams.is_empty() && self.owed_hello.is_none() {
            self.failing_since = None;
        }
    }

    /// A stream with the node has begun.
    pub fn add(&mut self, name: Name, stream: StreamId) {
        self.streams.insert(name, stream);
    }

    /// The stream of a name.
    pub fn stream(&self, name: Name) -> Option<StreamId> {
        self.streams.get(&name).copied()
    }

    /// All streams with the node.
    pub fn streams(&self) -> Vec<StreamId> {
        self.streams.values().copied().collect()
    }

    /// How many streams there are with the node.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// The process that was heard last.
    pub fn process(&self) -> Option<Process> {
        self.process
    }

    /// The process that was heard last may be gone.
    pub fn forget_process(&mut self) {
        self.process = None;
    }

    /// The process says which codings it can decode.
    pub fn set_accepts(&mut self, accepts: u8) {
        self.accepts = accepts;
    }

    /// Whether the process can decode this coding.
    pub fn accepts(&self, coding: u8) -> bool {
        self.accepts & coding != 0
    }

    /// What is known of the datagrams between here and the node.
    pub fn datagrams(&mut self) -> &mut Exchange {
        &mut self.datagrams
    }

    /// Whether a client is there by now, after a rejection because no client took a U_PDU. Rejections close together
    /// count as one rejection; after those, the client has to be heard again first.
    pub fn is_back(&mut self, now: Time) -> bool {
        let is_back = self.back_until.is_some_and(|until| now <= until);
        self.back_until = self.back_until.map(|until| until.min(now + AT_ONCE));
        is_back
    }

    /// A name for a new stream from here; `None` if the other end could take it for an old one.
    pub fn name(&mut self) -> Option<Name> {
        let oldest = self.opening.first().copied().unwrap_or(self.next);
        for _ in 0..1 << NUMBER_BITS {
            if self.next - oldest >= Window::<SEEN_WORDS>::BITS {
                return None;
            }
            let number = self.next;
            let name = Name { is_responder: false, number: low15(number) };
            self.next += 1;
            if !self.streams.contains_key(&name) {
                self.opening.insert(number);
                self.forget(name);
                return Some(name);
            }
        }
        None
    }

    /// The other end has this stream, or never will.
    pub fn handle_opened(&mut self, name: Name) {
        if !name.is_responder {
            let number = base::serial::expand(name.number.into(), NUMBER_BITS, self.next);
            self.opening.remove(&number);
        }
    }

    /// Streams from here that the other end is not known to have.
    pub fn opening_streams(&self) -> impl Iterator<Item = StreamId> {
        let name = |number: &u64| Name { is_responder: false, number: low15(*number) };
        self.opening.iter().filter_map(move |number| self.streams.get(&name(number)).copied())
    }

    /// Notes the process at the other end, which has not ended; returns whether the process has changed.
    pub fn handle_process(&mut self, now: Time, epoch: u16, started: Option<Time>) -> bool {
        if let Some(process) = self.process.filter(|process| succeeds(epoch, process.epoch)) {
            if self.ended.len() == MOST_EPOCHS {
                self.ended.pop_front();
            }
            self.ended.push_back((process.epoch, now));
        }
        match &mut self.process {
            Some(process) if process.epoch == epoch => {
                // A message that was delayed gives too late a start, so the earliest counts.
                process.started = earliest(process.started, started);
                false
            }
            process => {
                self.accepts = DEFLATE;
                process.replace(Process { epoch, started }).is_some()
            }
        }
    }

    /// Whether a process is known to have ended: a successor was heard after `since`. A later process that happens to
    /// draw the same epoch is heard again after that.
    pub fn has_ended(&self, epoch: u16, since: Time) -> bool {
        self.ended.iter().any(|(ended, at)| *ended == epoch && *at >= since)
    }

    /// Notes that the other end has opened a stream.
    pub fn see(&mut self, epoch: u16, number: u16) -> Novelty {
        let at = self.seen.iter().position(|(seen, _)| *seen == epoch);
        let at = at.unwrap_or_else(|| {
            if self.seen.len() == MOST_EPOCHS {
                self.seen.pop_front();
            }
            self.seen.push_back((epoch, Window::new()));
            self.seen.len() - 1
        });
        let window = &mut self.seen[at].1;
        let number = window.rebuild(ORIGIN, NUMBER_BITS, number.into());
        if window.take(number).is_ok() { Novelty::New } else { Novelty::Old }
    }

    /// Whether a stream was opened.
    pub fn has_seen(&self, epoch: u16, number: u16) -> bool {
        self.seen.iter().any(|(seen, window)| {
            let number = window.rebuild(ORIGIN, NUMBER_BITS, number.into());
            *seen == epoch && window.check(number).is_err()
        })
    }

    /// Keeps a part until the first of its stream comes; whether there was room.
    pub fn keep_early(
        &mut self,
        now: Time,
        stream: (u16, u16),
        part: EarlyPart,
        limits: &Limits,
    ) -> bool {
        // A part costs more memory than its octets.
        let octets = part.data.len() + size_of::<EarlyPart>() + size_of::<Early>();
        if self.early_octets + octets > limits.early {
            return false;
        }
        self.early_octets += octets;
        let new = Early { since: now, octets: 0, parts: Vec::new() };
        let early = self.early.entry(stream).or_insert(new);
        early.octets += octets;
        early.parts.push(part);
        true
    }

    pub fn take_early(&mut self, epoch: u16, number: u16) -> Vec<EarlyPart> {
        let Some(early) = self.early.remove(&(epoch, number)) else { return Vec::new() };
        self.early_octets -= early.octets;
        early.parts
    }

    /// Drops what came before this; how many parts.
    pub fn expire_early(&mut self, until: Time) -> u64 {
        let mut dropped = 0;
        let octets = &mut self.early_octets;
        self.early.retain(|_, early| {
            let stays = early.since > until;
            if !stays {
                dropped += early.parts.len() as u64;
                *octets -= early.octets;
            }
            stays
        });
        dropped
    }

    /// A stream is over.
    pub fn close(&mut self, name: Name, closed: Closed, most: usize) {
        self.streams.remove(&name);
        self.handle_opened(name);
        if self.closed.insert(name, closed).is_none() {
            self.closed_order.push_back(name);
        }
        while self.closed.len() > most.max(1)
            && let Some(oldest) = self.closed_order.pop_front()
        {
            self.closed.remove(&oldest);
        }
    }

    /// Forgets an ended stream by name.
    pub fn forget(&mut self, name: Name) {
        if self.closed.remove(&name).is_some() {
            self.closed_order.retain(|closed| *closed != name);
        }
    }

    pub fn closed(&self, name: Name) -> Option<&Closed> {
        self.closed.get(&name)
    }

    /// Notes what is to be said about a stream; whether there was room to.
    pub fn owe(&mut self, name: Name, owed: Owed) -> bool {
        let most = self.streams.len() + self.closed.len() + MOST_ANSWERS;
        if self.owed.len() >= most && !self.owed.contains_key(&name) {
            return false;
        }
        let before = self.owed.get(&name).copied();
        let both = match (before, owed) {
            (
                Some(Owed::State { is_question: asks, is_answer: answers, is_urgent: urges }),
                Owed::State { is_question, is_answer, is_urgent },
            ) => Owed::State {
                is_question: is_question || asks,
                is_answer: is_answer || answers,
                is_urgent: is_urgent || urges,
            },
            (Some(Owed::Reset(reason)), Owed::State { .. }) => Owed::Reset(reason),
            (_, owed) => owed,
        };
        self.owed.insert(name, both);
        true
    }

    pub fn owe_hello(&mut self, is_question: bool) {
        let asks = self.owed_hello.is_some_and(|greeting| greeting.is_question);
        self.owed_hello = Some(Greeting { is_question: is_question || asks });
    }

    /// Whether it has to be listed among the nodes with messages owed to them; it counts as listed from now on.
    pub fn list(&mut self) -> bool {
        let is_new = self.owes_anything() && !self.is_waiting() && !self.is_listed;
        self.is_listed |= is_new;
        is_new
    }

    /// Its turn in that list has come; whether something may be said to it.
    pub fn unlist(&mut self) -> bool {
        self.is_listed = false;
        !self.is_waiting()
    }

    /// Takes the HELLO that is owed.
    pub fn take_hello(&mut self) -> Option<Greeting> {
        self.owed_hello.take()
    }

    /// Takes a message owed about a stream.
    pub fn take_owed(&mut self) -> Option<(Name, Owed)> {
        self.owed.pop_first()
    }

    pub fn owes_anything(&self) -> bool {
        !self.owed.is_empty() || self.owed_hello.is_some() || self.datagrams.owes_anything()
    }

    /// Whether it can be forgotten without harm soon.
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty() && !self.owes_anything()
    }
}

/// The low 15 bits of a number.
fn low15(number: u64) -> u16 {
    base::serial::low16(number) & 0x7fff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_that_ended_first_is_forgotten_first_though_its_number_was_used_before() {
        let mut peer = peer();
        let name = |number| Name { is_responder: false, number };
        let closed = Closed { epoch: 1, priority: 0, is_known: true, end: Err(Reason::CANCELLED) };

        peer.close(name(1), closed, 2);
        peer.forget(name(1));
        for number in [2, 1, 3] {
            peer.close(name(number), closed, 2);
        }

        assert!(peer.closed(name(2)).is_none());
        assert!(peer.closed(name(1)).is_some() && peer.closed(name(3)).is_some());
    }

    #[test]
    fn early_parts_fill_their_room_and_give_it_back() {
        let mut peer = peer();
        let each = 10 + size_of::<EarlyPart>() + size_of::<Early>();
        let limits = Limits { early: 2 * each, ..Config::default().limits };
        let keep = |peer: &mut Peer, stream| {
            let part = EarlyPart { number: 1, is_coded: false, is_last: false, data: vec![0; 10] };
            peer.keep_early(Time::ZERO, (1, stream), part, &limits)
        };

        assert_eq!([1, 1, 2].map(|stream| keep(&mut peer, stream)), [true, true, false]);
        assert_eq!(peer.take_early(1, 1).len(), 2);
        assert_eq!([2, 3, 4].map(|stream| keep(&mut peer, stream)), [true, true, false]);
        assert_eq!(peer.expire_early(Time::ZERO), 2);
        assert_eq!([5, 6, 7].map(|stream| keep(&mut peer, stream)), [true, true, false]);
    }

    fn peer() -> Peer {
        Peer::new(Time::ZERO, &Config::default(), &mut Rng::stream(1, "peer"))
    }
}

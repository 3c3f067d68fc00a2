//! Flows of UDP over datagrams of [SLEP](crate::slep): a client's datagrams to one target, and its answers.
//!
//! ```text
//!  client ── UDP ── initiator ~~~~~~~~~~~~ HF ~~~~~~~~~~~~ responder ── UDP ── target
//!                     OPEN 5, whom it is between, query ─▶  not known yet: admitted, a socket
//!                          ◀─ ANSWER 5, answer              so the flow is known there
//!                     DATA 5, query ─▶
//!                          ◀─ WORD 5, unknown               after a restart: the same as OPEN again
//! ```
//!
//! Nothing waits for an answer, and nothing is asked: the first datagram of a flow, and each until the other end was
//! heard, names the flow's client and target. The octets are in [`wire`]; the design decisions are in
//! `docs/guide/hfpep.md`.

mod config;
mod stats;
#[cfg(test)]
mod tests;
pub mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, earliest};
use wire::{Body, HEADER, Message, Number, Opening, Word, checksum};

use crate::s5066::Address;
use crate::slep::{DatagramId, Delivery, Reason};

pub use config::Config;
pub use stats::Stats;

/// The flows between this end and others, opened here or there. What is to be sent goes out by
/// [`poll`](Self::poll), each as one datagram of SLEP.
///
/// - Facts in: [`handle_message`](Self::handle_message) from other nodes.
/// - Commands: [`send`](Self::send) of a client's datagram; [`answer`](Self::answer),
///   [`refuse`](Self::refuse) of a target's end.
/// - Decisions out: [`poll`](Self::poll), [`poll_ended`](Self::poll_ended).
/// - Time: [`next_timeout`](Self::next_timeout), [`handle_timeout`](Self::handle_timeout).
#[derive(Debug)]
pub struct Flows {
    config: Config,
    initiator: Initiator,
    responder: Responder,
    outgoing: VecDeque<Outgoing>,
    ended: VecDeque<FlowId>,
    stats: Stats,
}

/// Names a flow that another end has opened; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowId(pub u64);

/// Whose a client's datagram is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Client {
    /// The node with the target.
    pub peer: Address,
    /// The user's entrance at which the datagram came in.
    pub entrance: u16,
    /// The client's address.
    pub address: SocketAddr,
    /// The target's address.
    pub target: SocketAddr,
}

/// A flow between two ends, whoever opened it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Name {
    /// The other end.
    pub peer: Address,
    /// Whether it was opened here.
    pub is_initiator: bool,
    /// The flow's number, as chosen by its initiator.
    pub number: Number,
}

/// A message for another end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outgoing {
    /// Which flow it is about.
    pub flow: Name,
    /// How it is carried.
    pub delivery: Delivery,
    /// What it says.
    pub octets: Vec<u8>,
}

/// A datagram for somebody here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Arrived {
    /// For the client of a flow that was opened here.
    Answer {
        /// Whose flow it is.
        client: Client,
        /// The datagram.
        data: Vec<u8>,
    },
    /// For the target of a flow that another end has opened.
    Request {
        /// The flow; new to the user if it has not come before.
        flow: FlowId,
        /// The node that has the client.
        from: Address,
        /// Whom it is between.
        opening: wire::Opening,
        /// The datagram.
        data: Vec<u8>,
    },
}

/// Why a datagram is not carried. It has been counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotCarried {
    /// The other end has refused the flow a short time ago.
    #[error("the other end refused it: {0}")]
    Blocked(Reason),
    /// Too many flows, or too much data of this flow waits.
    #[error("too many flows, or too much waits in this one")]
    Full,
    /// The datagram is too long to fit.
    #[error("{len} octets are too long, {most} fit")]
    TooLong {
        /// Octets of it.
        len: usize,
        /// Octets that fit.
        most: usize,
    },
    /// No such flow is there.
    #[error("no such flow")]
    Unknown,
}

/// How a flow is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Status {
    /// The other end.
    pub peer: Address,
    /// Whether it was opened here.
    pub is_initiator: bool,
    /// The client.
    pub client: SocketAddr,
    /// The target.
    pub target: SocketAddr,
    /// How far it is.
    pub phase: Phase,
    /// How old it is.
    pub age: Duration,
    /// How long nothing went either way.
    pub idle: Duration,
    /// Datagrams and octets that went either way.
    pub traffic: Traffic,
}

/// How far a flow is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// The other end was not heard yet.
    Opening,
    /// Both ends know it.
    Open,
    /// The other end has refused it.
    Refused,
}

/// Datagrams of a flow, and their octets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Datagrams sent.
    pub sent: u64,
    /// Octets of them.
    pub octets_sent: u64,
    /// Datagrams that arrived.
    pub arrived: u64,
    /// Octets of them.
    pub octets_arrived: u64,
}

impl Traffic {
    fn send(&mut self, data: &[u8]) {
        self.sent += 1;
        self.octets_sent += data.len() as u64;
    }

    fn arrive(&mut self, data: &[u8]) {
        self.arrived += 1;
        self.octets_arrived += data.len() as u64;
    }
}

impl Flows {
    /// No flows yet. Flow numbers begin anywhere, so that they hardly repeat the numbers of an earlier process.
    #[must_use]
    pub fn new(config: Config, rng: &mut Rng) -> Self {
        Self {
            config,
            initiator: Initiator::new(Number::new(base::serial::low32(rng.bits()))),
            responder: Responder::new(),
            outgoing: VecDeque::new(),
            ended: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Goes on with other parameters, which hold from now on.
    pub fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    /// Takes what another end says; returns the datagram in it, if it is for anybody here.
    pub fn handle_message(&mut self, now: Time, from: Address, octets: &[u8]) -> Option<Arrived> {
        let Ok(Message { flow: number, body }) = Message::parse(octets) else {
            self.stats.malformed += 1;
            return None;
        };
        match body {
            Body::Open(opening, data) => self.handle_open(now, from, number, opening, data),
            Body::Data(data) => self.handle_data(now, from, number, data),
            Body::Answer(data) => self.handle_answer(now, from, number, data),
            Body::Word(Word::Closed) => {
                self.handle_closed(from, number);
                None
            }
            Body::Word(word) => {
                self.handle_word(now, from, number, word);
                None
            }
        }
    }

    /// Forgets flows that were idle for too long. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.expire_opened(now);
        self.expire_received(now);
    }

    /// The next message for another end.
    pub fn poll(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// The next flow of another end that is no more.
    pub fn poll_ended(&mut self) -> Option<FlowId> {
        self.ended.pop_front()
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.initiator.next_timeout(), self.responder.next_timeout())
    }

    /// The queue of a flow's datagrams to be sent.
    pub fn queue_mut(&mut self, flow: Name) -> Option<&mut Queue> {
        if flow.is_initiator {
            self.initiator.queue_mut(flow.peer, flow.number)
        } else {
            self.responder.queue_mut(flow.peer, flow.number)
        }
    }

    /// Counts a message that was dropped for want of room.
    pub fn handle_dropped(&mut self) {
        self.stats.full += 1;
    }

    /// How each flow is: those opened here first.
    pub fn status(&self, now: Time) -> impl Iterator<Item = Status> {
        self.initiator.status(now).chain(self.responder.status(now))
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            opened_here: self.initiator.len() as u64,
            opened_there: self.responder.len() as u64,
            ..self.stats
        }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Says something about a flow; it is of no use later than a datagram would be.
    fn say(&mut self, flow: Name, word: Word) {
        let mut octets = Vec::new();
        Message { flow: flow.number, body: Body::Word(word) }.emit(&mut octets);
        let delivery = Delivery { lifetime: self.config.lifetime, ..Delivery::default() };
        self.outgoing.push_back(Outgoing { flow, delivery, octets });
        self.stats.words += 1;
    }
}

// The queue of a flow: datagrams to be sent or acknowledged, within a bound.

/// Octets charged for a datagram beside its own.
const EACH: usize = 64;

/// Datagrams of a flow that SLEP has not sent yet, or that wait for the other end's acknowledgement. SLEP has a bound
/// for all flows together; without a bound for each flow, one flow would keep the others out.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<(DatagramId, usize)>,
    octets: usize,
}

impl Queue {
    /// Whether there is room for so many octets more; `waits` says whether a datagram still does.
    pub fn has_room(
        &mut self,
        len: usize,
        most: usize,
        waits: impl Fn(DatagramId) -> bool,
    ) -> bool {
        while let Some((_, octets)) = self.waiting.pop_front_if(|(id, _)| !waits(*id)) {
            self.octets -= octets;
        }
        if self.octets + len + EACH > most {
            self.waiting.retain(|(id, _)| waits(*id));
            self.octets = self.waiting.iter().map(|(_, octets)| octets).sum();
        }
        self.octets + len + EACH <= most
    }

    /// Notes a datagram that waits.
    pub fn note(&mut self, id: DatagramId, len: usize) {
        self.waiting.push_back((id, len + EACH));
        self.octets += len + EACH;
    }
}

// When flows were last used.

/// Flows by the time at which they are forgotten.
#[derive(Debug)]
struct Idle<K>(BTreeSet<(Time, K)>);

impl<K: Copy + Ord> Idle<K> {
    const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// Moves a flow to another time, from the one that it had.
    fn set(&mut self, until: &mut Time, at: Time, key: K) {
        self.0.remove(&(*until, key));
        *until = at;
        self.0.insert((at, key));
    }

    /// Moves a flow to a later time; never to an earlier one.
    fn extend(&mut self, until: &mut Time, at: Time, key: K) {
        let at = at.max(*until);
        self.set(until, at, key);
    }

    fn remove(&mut self, until: Time, key: K) {
        self.0.remove(&(until, key));
    }

    /// The next flow whose time has come.
    fn take(&mut self, now: Time) -> Option<K> {
        let (_, key) = self.0.first().copied().filter(|(until, _)| *until <= now)?;
        self.0.pop_first();
        Some(key)
    }

    fn next(&self) -> Option<Time> {
        self.0.first().map(|(until, _)| *until)
    }
}

// Flows that were opened here, for clients.

/// Names a flow: the address of the other end, and the flow's number.
type Key = (Address, Number);

#[derive(Debug)]
struct Initiator {
    flows: BTreeMap<Key, InitiatedFlow>,
    by_client: BTreeMap<Client, Number>,
    idle: Idle<Key>,
    next: Number,
}

#[derive(Debug)]
struct InitiatedFlow {
    client: Client,
    stage: Stage,
    since: Time,
    used: Time,
    until: Time,
    traffic: Traffic,
    queue: Queue,
}

#[derive(Debug)]
enum Stage {
    /// The other end was not heard yet, or no longer knows the flow: each datagram names the flow's client and target.
    Opening { last: Last },
    /// The other end was heard. The last datagram since is kept: it goes again if the other end no longer knows the
    /// flow and has not taken the datagram.
    Open { last: Last },
    /// The other end carries no datagrams of the flow.
    Refused(Reason),
}

/// The last datagram that did not name the flow's client and target.
type Last = Option<(Delivery, Vec<u8>)>;

impl Flows {
    /// Takes a client's datagram; `most` is what a datagram of SLEP carries. [`Self::poll`] has what is to be sent.
    ///
    /// # Errors
    /// When it is not carried.
    pub fn send(
        &mut self,
        now: Time,
        client: Client,
        delivery: Delivery,
        most: usize,
        data: &[u8],
    ) -> Result<(), NotCarried> {
        let opening = client.opening(delivery);
        // What fits does not depend on whether the other end was heard.
        let most = most.saturating_sub(opening.header());
        if data.len() > most {
            self.stats.too_long += 1;
            return Err(NotCarried::TooLong { len: data.len(), most });
        }
        let number = self.find(now, client)?;
        let key = (client.peer, number);
        let until = now + self.config.kept(delivery.lifetime);
        let Some(flow) = self.initiator.flows.get_mut(&key) else { return Err(NotCarried::Full) };
        let body = match &mut flow.stage {
            Stage::Opening { .. } => {
                self.stats.opening += 1;
                Body::Open(opening, data)
            }
            Stage::Open { last } => {
                *last = Some((delivery, data.to_vec()));
                Body::Data(data)
            }
            Stage::Refused(reason) => {
                self.stats.blocked += 1;
                return Err(NotCarried::Blocked(*reason));
            }
        };
        flow.used = now;
        flow.traffic.send(data);
        self.initiator.idle.extend(&mut flow.until, until, key);
        self.stats.sent += 1;
        self.outgoing.push_back(outgoing(client.peer, number, delivery, body));
        Ok(())
    }

    /// The number of a client's flow, which may be a new one.
    fn find(&mut self, now: Time, client: Client) -> Result<Number, NotCarried> {
        let Initiator { flows, by_client, idle, next } = &mut self.initiator;
        if let Some(number) = by_client.get(&client) {
            return Ok(*number);
        }
        if flows.len() >= self.config.flows {
            self.stats.refused += 1;
            return Err(NotCarried::Full);
        }
        // There are far fewer flows than numbers.
        while flows.contains_key(&(client.peer, *next)) {
            *next = next.next();
        }
        let number = *next;
        *next = number.next();
        let mut flow = InitiatedFlow {
            client,
            stage: Stage::Opening { last: None },
            since: now,
            used: now,
            until: now,
            traffic: Traffic::default(),
            queue: Queue::default(),
        };
        idle.set(&mut flow.until, now + self.config.idle, (client.peer, number));
        flows.insert((client.peer, number), flow);
        by_client.insert(client, number);
        self.stats.opened += 1;
        Ok(number)
    }

    /// An answer of a target has come.
    fn handle_answer(
        &mut self,
        now: Time,
        from: Address,
        number: Number,
        data: &[u8],
    ) -> Option<Arrived> {
        let key = (from, number);
        let Some(flow) = self.initiator.flows.get_mut(&key) else {
            self.stats.unknown += 1;
            self.say(Name { peer: from, is_initiator: true, number }, Word::Closed);
            return None;
        };
        flow.hear();
        flow.used = now;
        flow.traffic.arrive(data);
        let until = now + self.config.kept(Duration::ZERO);
        self.initiator.idle.extend(&mut flow.until, until, key);
        self.stats.answers += 1;
        Some(Arrived::Answer { client: flow.client, data: data.to_vec() })
    }

    /// The responder says something about a flow.
    fn handle_word(&mut self, now: Time, from: Address, number: Number, word: Word) {
        let key = (from, number);
        let Some(flow) = self.initiator.flows.get_mut(&key) else { return };
        match word {
            Word::Accepted => flow.hear(),
            Word::Unknown(which) => {
                let (Stage::Opening { last } | Stage::Open { last }) = &mut flow.stage else {
                    return;
                };
                // The other end may report an earlier datagram first.
                let again = last.take_if(|(_, data)| checksum(data) == which);
                flow.stage = Stage::Opening { last: last.take() };
                let Some((delivery, data)) = again else { return };
                let body = Body::Open(flow.client.opening(delivery), &data);
                self.stats.opening += 1;
                self.stats.again += 1;
                self.outgoing.push_back(outgoing(from, number, delivery, body));
            }
            Word::Refused(reason) => {
                flow.stage = Stage::Refused(reason);
                self.initiator.idle.set(&mut flow.until, now + self.config.refused, key);
            }
            // This word is for the responder.
            Word::Closed => {}
        }
    }

    fn expire_opened(&mut self, now: Time) {
        while let Some(key) = self.initiator.idle.take(now) {
            if let Some(flow) = self.initiator.flows.remove(&key) {
                self.initiator.by_client.remove(&flow.client);
                self.stats.idle += 1;
            }
        }
    }
}

impl Initiator {
    fn new(next: Number) -> Self {
        Self { flows: BTreeMap::new(), by_client: BTreeMap::new(), idle: Idle::new(), next }
    }

    fn len(&self) -> usize {
        self.flows.len()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.idle.next()
    }

    fn queue_mut(&mut self, peer: Address, number: Number) -> Option<&mut Queue> {
        self.flows.get_mut(&(peer, number)).map(|flow| &mut flow.queue)
    }

    fn status(&self, now: Time) -> impl Iterator<Item = Status> {
        self.flows.values().map(move |flow| Status {
            peer: flow.client.peer,
            is_initiator: true,
            client: flow.client.address,
            target: flow.client.target,
            phase: match flow.stage {
                Stage::Opening { .. } => Phase::Opening,
                Stage::Open { .. } => Phase::Open,
                Stage::Refused(_) => Phase::Refused,
            },
            age: now.since(flow.since),
            idle: now.since(flow.used),
            traffic: flow.traffic,
        })
    }
}

impl InitiatedFlow {
    /// The other end knows the flow.
    fn hear(&mut self) {
        if !matches!(self.stage, Stage::Open { .. }) {
            self.stage = Stage::Open { last: None };
        }
    }
}

impl Client {
    fn opening(&self, delivery: Delivery) -> Opening {
        let Delivery { priority, is_reliable, .. } = delivery;
        Opening { source: self.address, destination: self.target, is_reliable, priority }
    }
}

fn outgoing(peer: Address, number: Number, delivery: Delivery, body: Body<'_>) -> Outgoing {
    let mut octets = Vec::with_capacity(HEADER);
    Message { flow: number, body }.emit(&mut octets);
    Outgoing { flow: Name { peer, is_initiator: true, number }, delivery, octets }
}

// Flows that other ends have opened, to targets here.

#[derive(Debug)]
struct Responder {
    flows: BTreeMap<FlowId, AdmittedFlow>,
    by_name: BTreeMap<(Address, Number), FlowId>,
    idle: Idle<FlowId>,
    next: u64,
}

#[derive(Debug)]
struct AdmittedFlow {
    peer: Address,
    number: Number,
    opening: Opening,
    /// Openings since the last datagram without one.
    openings: u64,
    since: Time,
    used: Time,
    until: Time,
    traffic: Traffic,
    queue: Queue,
}

impl Flows {
    /// A datagram for a target has come, and says whom its flow is between.
    fn handle_open(
        &mut self,
        now: Time,
        from: Address,
        number: Number,
        opening: Opening,
        data: &[u8],
    ) -> Option<Arrived> {
        let responder = &self.responder;
        let known = responder.by_name.get(&(from, number)).copied();
        let is_other = |id: &FlowId| {
            responder.flows.get(id).is_none_or(|flow| !flow.opening.has_ends_of(&opening))
        };
        if let Some(id) = known.filter(is_other) {
            // Another process of that node has come to the number.
            self.stats.closed += 1;
            self.end_received(id);
        }
        let name = Name { peer: from, is_initiator: false, number };
        let id = match known.filter(|id| self.responder.flows.contains_key(id)) {
            Some(id) => id,
            None if self.responder.flows.len() >= self.config.flows => {
                self.stats.refused += 1;
                self.say(name, Word::Refused(Reason::NO_ROOM));
                return None;
            }
            None => {
                self.stats.received += 1;
                self.responder.add(now, from, number, opening)
            }
        };
        let flow = self.responder.flows.get_mut(&id)?;
        flow.opening = opening;
        flow.openings += 1;
        // The target answers the first opening, if anybody does. An initiator that repeats the opening has had no
        // answer yet, or the answer was lost; or the answer is in flight, and then so are several openings.
        let is_accepted = flow.openings > 1 && flow.openings.is_power_of_two();
        if is_accepted {
            self.say(name, Word::Accepted);
        }
        self.take(now, id, data)
    }

    /// A datagram for a target has come in a flow that is known, or was.
    fn handle_data(
        &mut self,
        now: Time,
        from: Address,
        number: Number,
        data: &[u8],
    ) -> Option<Arrived> {
        let id = self.responder.by_name.get(&(from, number)).copied();
        let Some(flow) = id.and_then(|id| self.responder.flows.get_mut(&id)) else {
            self.stats.unknown += 1;
            let name = Name { peer: from, is_initiator: false, number };
            self.say(name, Word::Unknown(checksum(data)));
            return None;
        };
        flow.openings = 0;
        self.take(now, id?, data)
    }

    fn take(&mut self, now: Time, id: FlowId, data: &[u8]) -> Option<Arrived> {
        let flow = self.responder.flows.get_mut(&id)?;
        flow.used = now;
        flow.traffic.arrive(data);
        let until = now + self.config.kept(Duration::ZERO);
        self.responder.idle.extend(&mut flow.until, until, id);
        self.stats.requests += 1;
        let AdmittedFlow { peer: from, opening, .. } = *flow;
        Some(Arrived::Request { flow: id, from, opening, data: data.to_vec() })
    }

    /// Takes an answer of a flow's target; `most` is what a datagram of SLEP carries. [`Self::poll`] has what is to be
    /// sent.
    ///
    /// # Errors
    /// When it is not carried.
    pub fn answer(
        &mut self,
        now: Time,
        id: FlowId,
        most: usize,
        data: &[u8],
    ) -> Result<(), NotCarried> {
        let Some(flow) = self.responder.flows.get_mut(&id) else {
            return Err(NotCarried::Unknown);
        };
        let most = most.saturating_sub(HEADER);
        if data.len() > most {
            self.stats.too_long += 1;
            return Err(NotCarried::TooLong { len: data.len(), most });
        }
        flow.used = now;
        flow.traffic.send(data);
        let AdmittedFlow { peer, number, opening, .. } = *flow;
        let until = now + self.config.kept(Duration::ZERO);
        self.responder.idle.extend(&mut flow.until, until, id);
        self.stats.answered += 1;
        let mut octets = Vec::with_capacity(HEADER + data.len());
        Message { flow: number, body: Body::Answer(data) }.emit(&mut octets);
        let delivery = Delivery {
            priority: opening.priority,
            is_reliable: opening.is_reliable,
            is_compressed: self.config.compresses_answers,
            lifetime: self.config.lifetime,
        };
        let flow = Name { peer, is_initiator: false, number };
        self.outgoing.push_back(Outgoing { flow, delivery, octets });
        Ok(())
    }

    /// A flow of another end is not carried: that end is told, and the flow is no more. [`Self::poll_ended`] does not
    /// tell of it.
    pub fn refuse(&mut self, id: FlowId, reason: Reason) {
        let Some(flow) = self.responder.remove(id) else { return };
        let name = Name { peer: flow.peer, is_initiator: false, number: flow.number };
        self.say(name, Word::Refused(reason));
    }

    /// Nobody at the other end knows a flow any more.
    fn handle_closed(&mut self, from: Address, number: Number) {
        if let Some(id) = self.responder.by_name.get(&(from, number)).copied() {
            self.stats.closed += 1;
            self.end_received(id);
        }
    }

    fn end_received(&mut self, id: FlowId) {
        if self.responder.remove(id).is_some() {
            self.ended.push_back(id);
        }
    }

    fn expire_received(&mut self, now: Time) {
        while let Some(id) = self.responder.idle.take(now) {
            self.stats.idle += 1;
            self.end_received(id);
        }
    }
}

impl Responder {
    fn new() -> Self {
        Self { flows: BTreeMap::new(), by_name: BTreeMap::new(), idle: Idle::new(), next: 0 }
    }

    fn add(&mut self, now: Time, peer: Address, number: Number, opening: Opening) -> FlowId {
        self.next += 1;
        let id = FlowId(self.next);
        let flow = AdmittedFlow {
            peer,
            number,
            opening,
            openings: 0,
            since: now,
            used: now,
            until: now,
            traffic: Traffic::default(),
            queue: Queue::default(),
        };
        self.flows.insert(id, flow);
        self.by_name.insert((peer, number), id);
        id
    }

    fn remove(&mut self, id: FlowId) -> Option<AdmittedFlow> {
        let flow = self.flows.remove(&id)?;
        self.idle.remove(flow.until, id);
        self.by_name.remove(&(flow.peer, flow.number));
        Some(flow)
    }

    fn len(&self) -> usize {
        self.flows.len()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.idle.next()
    }

    fn queue_mut(&mut self, peer: Address, number: Number) -> Option<&mut Queue> {
        let id = self.by_name.get(&(peer, number))?;
        self.flows.get_mut(id).map(|flow| &mut flow.queue)
    }

    fn status(&self, now: Time) -> impl Iterator<Item = Status> {
        self.flows.values().map(move |flow| Status {
            peer: flow.peer,
            is_initiator: false,
            client: flow.opening.source,
            target: flow.opening.destination,
            phase: Phase::Open,
            age: now.since(flow.since),
            idle: now.since(flow.used),
            traffic: flow.traffic,
        })
    }
}

#[cfg(test)]
mod idle {
    use super::*;

    #[test]
    fn what_was_sent_makes_room_wherever_it_stands() {
        let mut queue = Queue::default();
        let most = 3 * (10 + EACH);
        for id in 1..=3 {
            assert!(queue.has_room(10, most, |_| true));
            queue.note(DatagramId(id), 10);
        }

        assert!(!queue.has_room(0, most, |_| true));
        assert!(!queue.has_room(11, most, |id| id != DatagramId(2)));
        assert!(queue.has_room(10, most, |id| id != DatagramId(2)));
        queue.note(DatagramId(4), 10);
        assert!(!queue.has_room(0, most, |id| id != DatagramId(2)));
        assert!(queue.has_room(2 * 10 + EACH, most, |id| id == DatagramId(4)));
    }
}

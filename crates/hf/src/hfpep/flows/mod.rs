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
mod idle;
mod initiator;
mod queue;
mod responder;
mod stats;
#[cfg(test)]
mod tests;
pub mod wire;

pub use config::Config;
pub use queue::Queue;
pub use stats::Stats;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, earliest};
use initiator::Initiator;
use responder::Responder;
use wire::{Body, Message, Number, Word};

use crate::s5066::Address;
use crate::slep::{Delivery, Reason};

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

//! Flows that were opened here, for clients.

use std::collections::BTreeMap;
use std::time::Duration;

use base::time::Time;

use super::idle::Idle;
use super::wire::{Body, HEADER, Message, Number, Opening, Word, checksum};
use super::{Arrived, Client, Flows, Name, NotCarried, Outgoing, Phase, Queue, Status, Traffic};
use crate::s5066::Address;
use crate::slep::{Delivery, Reason};

/// Names a flow: the address of the other end, and the flow's number.
type Key = (Address, Number);

#[derive(Debug)]
pub(super) struct Initiator {
    flows: BTreeMap<Key, Flow>,
    by_client: BTreeMap<Client, Number>,
    idle: Idle<Key>,
    next: Number,
}

#[derive(Debug)]
struct Flow {
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
        let mut flow = Flow {
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
    pub(super) fn handle_answer(
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
    pub(super) fn handle_word(&mut self, now: Time, from: Address, number: Number, word: Word) {
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

    pub(super) fn expire_opened(&mut self, now: Time) {
        while let Some(key) = self.initiator.idle.take(now) {
            if let Some(flow) = self.initiator.flows.remove(&key) {
                self.initiator.by_client.remove(&flow.client);
                self.stats.idle += 1;
            }
        }
    }
}

impl Initiator {
    pub(super) fn new(next: Number) -> Self {
        Self { flows: BTreeMap::new(), by_client: BTreeMap::new(), idle: Idle::new(), next }
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.idle.next()
    }

    pub(super) fn queue_mut(&mut self, peer: Address, number: Number) -> Option<&mut Queue> {
        self.flows.get_mut(&(peer, number)).map(|flow| &mut flow.queue)
    }

    pub(super) fn status(&self, now: Time) -> impl Iterator<Item = Status> {
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

impl Flow {
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

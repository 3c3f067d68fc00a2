//! Flows that other ends have opened, to targets here.

use std::collections::BTreeMap;
use std::time::Duration;

use base::time::Time;

use super::idle::Idle;
use super::wire::{Body, HEADER, Message, Number, Opening, Word, checksum};
use super::{Arrived, FlowId, Flows, Name, NotCarried, Outgoing, Phase, Queue, Status, Traffic};
use crate::s5066::Address;
use crate::slep::{Delivery, Reason};

#[derive(Debug)]
pub(super) struct Responder {
    flows: BTreeMap<FlowId, Flow>,
    by_name: BTreeMap<(Address, Number), FlowId>,
    idle: Idle<FlowId>,
    next: u64,
}

#[derive(Debug)]
struct Flow {
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
    pub(super) fn handle_open(
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
    pub(super) fn handle_data(
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
        let Flow { peer: from, opening, .. } = *flow;
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
        let Flow { peer, number, opening, .. } = *flow;
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
    pub(super) fn handle_closed(&mut self, from: Address, number: Number) {
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

    pub(super) fn expire_received(&mut self, now: Time) {
        while let Some(id) = self.responder.idle.take(now) {
            self.stats.idle += 1;
            self.end_received(id);
        }
    }
}

impl Responder {
    pub(super) fn new() -> Self {
        Self { flows: BTreeMap::new(), by_name: BTreeMap::new(), idle: Idle::new(), next: 0 }
    }

    fn add(&mut self, now: Time, peer: Address, number: Number, opening: Opening) -> FlowId {
        self.next += 1;
        let id = FlowId(self.next);
        let flow = Flow {
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

    fn remove(&mut self, id: FlowId) -> Option<Flow> {
        let flow = self.flows.remove(&id)?;
        self.idle.remove(flow.until, id);
        self.by_name.remove(&(flow.peer, flow.number));
        Some(flow)
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.idle.next()
    }

    pub(super) fn queue_mut(&mut self, peer: Address, number: Number) -> Option<&mut Queue> {
        let id = self.by_name.get(&(peer, number))?;
        self.flows.get_mut(id).map(|flow| &mut flow.queue)
    }

    pub(super) fn status(&self, now: Time) -> impl Iterator<Item = Status> {
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

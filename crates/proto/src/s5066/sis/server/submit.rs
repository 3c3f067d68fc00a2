//! The way down: U_PDUs of clients wait by class, go in turn, and get an outcome.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::connection::{CLASSES, EXPEDITED, Item};
use super::{ClientId, Server};
use crate::s5066::Address;
use crate::s5066::service::{Failure, Mode, Outcome, Request, RequestId};
use crate::s5066::sis::primitive::{
    MAX_TTL, Primitive, UnidataConfirm, UnidataRejected, UnidataRequest,
};
use crate::s5066::sis::spdu::{Data, EndReason, SPdu};
use crate::s5066::sis::{
    Confirmation, Sap, Service, Transmission, Ttd, UnbindReason, UnidataReason,
};
use crate::time::Time;

/// The unit of the time to live.
const TTL_UNIT: Duration = Duration::from_secs(2);
/// S_PDUs of the node's own that wait at most.
const MAX_OWN: usize = 1_024;
/// Octets of a U_PDU by which a remote confirmation is told from others.
const KEPT: usize = 256;

/// S_PDUs of the node's own: they go before those of clients of their class.
#[derive(Default)]
pub(super) struct Own {
    classes: BTreeMap<usize, VecDeque<Request>>,
    len: usize,
}

/// A U_PDU that was handed down.
pub(super) struct Pending {
    client: ClientId,
    to: Address,
    to_sap: Sap,
    is_arq: bool,
    is_expedited: bool,
    confirmation: Confirmation,
    /// Whether the layers below are done with it.
    is_done: bool,
    /// When the remote client has to have confirmed it.
    until: Option<Time>,
    /// The start of the U_PDU; empty when nobody is told what becomes of it.
    start: Vec<u8>,
}

impl Server {
    /// Takes a U_PDU of a client that is bound.
    pub(super) fn submit(
        &mut self,
        now: Time,
        client: ClientId,
        request: UnidataRequest<'_>,
        is_expedited: bool,
    ) {
        let Some(binding) = self.binding(client) else { return };
        let service = if request.delivery.is_default() {
            Ok(binding.service)
        } else {
            request.delivery.service()
        };
        let UnidataRequest { priority, to_sap, to, u_pdu, .. } = request;
        if u_pdu.len() > usize::from(self.mtu()) {
            self.stats.too_large += 1;
            self.reject(now, client, is_expedited, UnidataReason::TOO_LARGE, to_sap, to, u_pdu);
            return;
        }
        let may_be = |service: &Service| {
            let is_arq = service.transmission == Transmission::Arq;
            !(is_arq && (to.is_group() || self.config.is_broadcast_only)) && to != self.address
        };
        let Some(service) = service.ok().filter(may_be) else {
            self.stats.no_mode += 1;
            self.reject(now, client, is_expedited, UnidataReason::NO_MODE, to_sap, to, u_pdu);
            return;
        };

        let asked = (request.ttl != 0).then(|| TTL_UNIT * request.ttl.min(MAX_TTL));
        let ttl = [asked, self.config.max_ttl].into_iter().flatten().min();
        let id = self.next_id();
        let item = Item {
            id,
            to,
            to_sap,
            priority: if is_expedited { 0 } else { priority },
            is_expedited,
            service,
            expires: ttl.map(|ttl| now + ttl),
            has_ttl: asked.is_some(),
            u_pdu: u_pdu.to_vec(),
        };
        if let Some(at) = item.expires {
            self.deadlines.insert((at, id, client));
        }
        self.stats.u_pdus_taken += 1;
        self.stats.octets_taken += u_pdu.len() as u64;
        let Some(binding) = self.binding(client) else { return };
        let ends_link = self.links.gives_way_to(binding.rank, binding.sap, &item);
        let Some(binding) = self.binding_mut(client) else { return };
        binding.queue.push(item);
        binding.expedited += usize::from(is_expedited);
        self.check_bounds(now, client);
        if ends_link {
            self.end(now, EndReason::HIGHER_PRIORITY);
        }
    }

    /// Stops a client that has too much waiting.
    pub(super) fn check_bounds(&mut self, now: Time, client: ClientId) {
        let Some(binding) = self.connections.get_mut(&client).and_then(|it| it.binding.as_mut())
        else {
            return;
        };
        let backlog = binding.queue.backlog();
        if binding.expedited > self.config.max_expedited {
            self.stats.expedited_floods += 1;
            self.unbind(now, client, Some(UnbindReason::TOO_MANY_EXPEDITED));
        } else if backlog.exceeds(self.config.flood) {
            self.stats.closed_flood += 1;
            self.close(now, client, UnbindReason::BAD_PRIMITIVES);
        } else if backlog.exceeds(self.config.flow_off) && !binding.is_flow_off {
            binding.is_flow_off = true;
            self.stats.flow_off += 1;
            self.send(now, client, &Primitive::DataFlowOff);
        } else if !backlog.exceeds(self.config.flow_on) && binding.is_flow_off {
            binding.is_flow_off = false;
            self.send(now, client, &Primitive::DataFlowOn);
        }
    }

    /// The next S_PDU to carry: expedited before all, then by priority, then clients in turn, each
    /// with its oldest; only of the priority `least` and above. Asked only while there is room for it
    /// below.
    pub fn poll_request(&mut self, now: Time, least: u8) -> Option<Request> {
        self.expire(now);
        for class in (usize::from(least)..CLASSES).rev() {
            if let Some(request) = self.own.take(class) {
                return Some(request);
            }
            for step in 1..=self.saps.len() {
                let at = (self.served[class] + step) % self.saps.len();
                let Some(client) = self.saps[at] else { continue };
                let Some(item) = self.take(client, class) else { continue };
                self.served[class] = at;
                let request = self.hand_down(now, client, item);
                self.check_bounds(now, client);
                return Some(request);
            }
        }
        None
    }

    fn take(&mut self, client: ClientId, class: usize) -> Option<Item> {
        let Self { connections, links, config, paused, .. } = self;
        let binding = connections.get_mut(&client)?.binding.as_mut()?;
        if binding.undecided >= config.max_undecided {
            return None;
        }
        let sap = binding.sap;
        binding.queue.take(class, |item| {
            let is_arq = item.service.transmission == Transmission::Arq;
            !(is_arq && paused.contains(&item.to))
                && links.permits(sap, item.to_sap, item.to, is_arq)
        })
    }

    fn hand_down(&mut self, now: Time, client: ClientId, item: Item) -> Request {
        let from = self.binding(client).map_or(Sap::new(0), |binding| binding.sap);
        let confirmation = item.service.confirmation;
        let is_confirmed = confirmation == Confirmation::Client;
        let is_compact = self.config.compact_confirm || self.compact.contains(&item.to);
        let [_, low] = halves(item.id.0);
        let ttd = item.expires.filter(|_| item.has_ttl && self.config.sends_ttd);
        let data = Data {
            priority: item.priority,
            from,
            to: item.to_sap,
            is_confirmed,
            ttd: ttd.and_then(|at| Ttd::new(self.clock(now), self.clock(at))),
            id: (is_confirmed && is_compact).then_some(low),
            u_pdu: &item.u_pdu,
        };
        let mut s_pdu = Vec::with_capacity(data.header() + item.u_pdu.len());
        SPdu::Data(data).emit(&mut s_pdu);

        if let Some(at) = item.expires {
            self.deadlines.remove(&(at, item.id, client));
        }
        let mut start = item.u_pdu;
        let kept = match confirmation {
            Confirmation::None => 0,
            Confirmation::Node => self.config.confirm_prefix,
            Confirmation::Client => self.config.confirm_prefix.max(KEPT),
        };
        start.truncate(kept);
        start.shrink_to_fit();
        let (to, to_sap, is_expedited) = (item.to, item.to_sap, item.is_expedited);
        let is_arq = item.service.transmission == Transmission::Arq;
        let pending = Pending {
            client,
            to,
            to_sap,
            is_arq,
            is_expedited,
            confirmation,
            is_done: false,
            until: None,
            start,
        };
        self.pending.insert(item.id, pending);
        if let Some(binding) = self.binding_mut(client) {
            binding.undecided += 1;
        }
        self.stats.u_pdus_sent += 1;
        Request {
            id: item.id,
            to,
            mode: mode(item.service, is_expedited),
            priority: if is_expedited { 15 } else { item.priority },
            expires: item.expires,
            is_retried: item.service.is_retried() && item.expires.is_some(),
            s_pdu,
        }
    }

    /// What became of a request.
    pub fn handle_outcome(&mut self, now: Time, id: RequestId, outcome: Outcome) {
        self.handle_link_outcome(now, id, outcome);
        let Some(pending) = self.pending.get_mut(&id).filter(|pending| !pending.is_done) else {
            return;
        };
        match outcome {
            Outcome::Done if pending.confirmation == Confirmation::Client => {
                let until = now + self.config.confirm_wait;
                pending.is_done = true;
                pending.until = Some(until);
                let client = pending.client;
                self.deadlines.insert((until, id, client));
            }
            Outcome::Done => self.decide(now, id, Ok(())),
            Outcome::Failed { why, may_have_arrived } => {
                match why {
                    Failure::TakenBack => self.stats.taken_back += 1,
                    _ => self.stats.failed += 1,
                }
                let reason = match why {
                    _ if may_have_arrived => UnidataReason::MAY_HAVE_ARRIVED,
                    Failure::Expired => UnidataReason::EXPIRED,
                    Failure::TakenBack => UnidataReason::TAKEN_BACK,
                    Failure::NoResponse | Failure::Refused | Failure::LinkLost => {
                        UnidataReason::NO_RESPONSE
                    }
                };
                self.decide(now, id, Err(reason));
            }
        }
    }

    /// A remote node says that a U_PDU reached its client, or did not. The oldest is meant of those
    /// that it can be.
    pub(super) fn handle_delivery(
        &mut self,
        now: Time,
        peer: Address,
        saps: [Sap; 2],
        which: Which<'_>,
        result: Result<(), UnidataReason>,
    ) {
        let [from, to] = saps;
        let client = self.saps[usize::from(from.number())];
        let is_it = |(id, pending): &(&RequestId, &Pending)| {
            let is_awaited = match pending.confirmation {
                Confirmation::Client => true,
                Confirmation::Node => result.is_err(),
                Confirmation::None => false,
            };
            is_awaited
                && Some(pending.client) == client
                && pending.to == peer
                && pending.to_sap == to
                && match which {
                    Which::Id(number) => halves(id.0)[1] == number,
                    Which::Start(octets) => {
                        let len = octets.len().min(pending.start.len());
                        octets[..len] == pending.start[..len]
                    }
                }
        };
        if let Some(id) = self.pending.iter().find(is_it).map(|(id, _)| *id) {
            self.decide(now, id, result);
        } else if let (Err(reason), Some(client), Which::Start(start)) = (result, client, which)
            && self.ours.contains(&peer)
        {
            // The other node has confirmed it, and found nobody to take it.
            self.stats.unreceived += 1;
            self.reject(now, client, false, reason, to, peer, start);
        } else {
            self.stats.stray_confirms += 1;
        }
    }

    /// Tells the client, if it wants to know, and forgets the U_PDU.
    fn decide(&mut self, now: Time, id: RequestId, result: Result<(), UnidataReason>) {
        let Some(pending) = self.pending.remove(&id) else { return };
        let Pending { client, to, to_sap, is_expedited, confirmation, until, start, .. } = pending;
        if let Some(until) = until {
            self.deadlines.remove(&(until, id, client));
        }
        if let Some(binding) = self.binding_mut(client) {
            binding.undecided -= 1;
            binding.expedited -= usize::from(is_expedited);
        }
        if confirmation == Confirmation::None {
            return;
        }
        match result {
            Ok(()) => {
                let u_pdu = &start[..start.len().min(self.config.confirm_prefix)];
                let confirm = UnidataConfirm { to_sap, to, u_pdu };
                self.stats.confirmed += 1;
                let primitive = if is_expedited {
                    Primitive::ExpeditedUnidataConfirm(confirm)
                } else {
                    Primitive::UnidataConfirm(confirm)
                };
                self.send(now, client, &primitive);
            }
            Err(reason) => self.reject(now, client, is_expedited, reason, to_sap, to, &start),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are the primitive's fields")]
    fn reject(
        &mut self,
        now: Time,
        client: ClientId,
        is_expedited: bool,
        reason: UnidataReason,
        to_sap: Sap,
        to: Address,
        u_pdu: &[u8],
    ) {
        let u_pdu = &u_pdu[..u_pdu.len().min(self.config.confirm_prefix)];
        let rejected = UnidataRejected { reason, to_sap, to, u_pdu };
        let primitive = if is_expedited {
            Primitive::ExpeditedUnidataRejected(rejected)
        } else {
            Primitive::UnidataRejected(rejected)
        };
        self.send(now, client, &primitive);
    }

    /// Drops what is of no more use, and gives up on confirmations.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(&(at, id, client)) = self.deadlines.first() {
            if at > now {
                return;
            }
            self.deadlines.pop_first();
            if self.pending.contains_key(&id) {
                self.stats.unconfirmed += 1;
                self.decide(now, id, Err(UnidataReason::MAY_HAVE_ARRIVED));
                continue;
            }
            while let Some(item) =
                self.binding_mut(client).and_then(|binding| binding.queue.take_expired(now))
            {
                self.stats.expired += 1;
                self.give_back(now, client, &item, UnidataReason::EXPIRED);
            }
            self.check_bounds(now, client);
        }
    }

    /// Tells a client that a U_PDU of its queue will not be sent, if it wants to know.
    pub(super) fn give_back(
        &mut self,
        now: Time,
        client: ClientId,
        item: &Item,
        reason: UnidataReason,
    ) {
        if let Some(at) = item.expires {
            self.deadlines.remove(&(at, item.id, client));
        }
        if let Some(binding) = self.binding_mut(client) {
            binding.expedited -= usize::from(item.is_expedited);
        }
        if item.service.confirmation != Confirmation::None {
            let Item { is_expedited, to_sap, to, ref u_pdu, .. } = *item;
            self.reject(now, client, is_expedited, reason, to_sap, to, u_pdu);
        }
    }

    /// What the layers below have of a client that is gone concerns nobody.
    pub(super) fn forget_pending(&mut self, client: ClientId) {
        let Self { pending, deadlines, stats, .. } = self;
        pending.retain(|id, one| {
            if one.client != client {
                return true;
            }
            if let Some(until) = one.until {
                deadlines.remove(&(until, *id, client));
            }
            stats.dropped_unbound += 1;
            false
        });
    }

    /// An S_PDU of the node's own; what it is called, unless too many wait.
    pub(super) fn send_own(
        &mut self,
        to: Address,
        mode: Mode,
        priority: u8,
        s_pdu: &SPdu<'_>,
    ) -> Option<RequestId> {
        if self.own.len >= MAX_OWN {
            self.stats.answers_dropped += 1;
            return None;
        }
        let id = self.next_id();
        let mut octets = Vec::new();
        s_pdu.emit(&mut octets);
        let (expires, is_retried) = (None, false);
        self.own.push(Request { id, to, mode, priority, expires, is_retried, s_pdu: octets });
        Some(id)
    }

    /// The oldest U_PDU that the layers below have of a client, if it is to be told of it.
    pub(super) fn pending_of(
        &self,
        client: ClientId,
        to: Address,
        to_sap: Sap,
        begins: impl Fn(&[u8]) -> bool,
    ) -> Option<RequestId> {
        let is_it = |one: &Pending| {
            one.client == client && one.to == to && one.to_sap == to_sap && !one.is_done
        };
        let such = self.pending.iter().find(|(_, one)| is_it(one) && begins(&one.start));
        such.map(|(id, _)| *id)
    }

    /// Where U_PDUs of a client go that the layers below have, with ARQ.
    pub(super) fn undecided_of(&self, client: ClientId) -> Vec<(Sap, Address)> {
        let its = self.pending.values().filter(|one| one.client == client);
        its.filter(|one| one.is_arq && !one.is_done).map(|one| (one.to_sap, one.to)).collect()
    }

    /// U_PDUs that the layers below have or remote clients have not confirmed.
    #[must_use]
    pub fn undecided(&self) -> usize {
        self.pending.len()
    }
}

/// How a confirmation says what it is about.
#[derive(Clone, Copy)]
pub(super) enum Which<'a> {
    /// By its number.
    Id(u32),
    /// By how it starts.
    Start(&'a [u8]),
}

impl Own {
    fn push(&mut self, request: Request) {
        let class = match request.mode {
            Mode::ExpeditedArq | Mode::ExpeditedNonArq => EXPEDITED,
            Mode::Arq { .. } | Mode::NonArq { .. } => usize::from(request.priority),
        };
        self.len += 1;
        self.classes.entry(class).or_default().push_back(request);
    }

    fn take(&mut self, class: usize) -> Option<Request> {
        let request = self.classes.get_mut(&class)?.pop_front()?;
        self.len -= 1;
        Some(request)
    }
}

fn mode(service: Service, is_expedited: bool) -> Mode {
    let Service { in_order, repeats, .. } = service;
    match (service.transmission, is_expedited) {
        (Transmission::Arq, false) => Mode::Arq { in_order },
        (Transmission::Arq, true) => Mode::ExpeditedArq,
        (Transmission::NonArq | Transmission::NonArqWithErrors, false) => {
            Mode::NonArq { in_order, repeats }
        }
        (Transmission::NonArq | Transmission::NonArqWithErrors, true) => Mode::ExpeditedNonArq,
    }
}

/// The high and the low 32 bits.
fn halves(number: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

//! The way down: U_PDUs of clients wait by class, and go in turn.

use std::time::Duration;

use base::time::Time;

use super::Pending;
use super::{CLASSES, Item};
use super::{ClientId, Leave, Server};
use crate::s5066::Address;
use crate::s5066::service::{MAX_PRIORITY, Mode, Request, RequestId};
use crate::s5066::sis::primitive::{MAX_TTL, Primitive, UnidataRequest};
use crate::s5066::sis::spdu::{Data, EndReason, SPdu};
use crate::s5066::sis::{Confirmation, Sap, Service, Ttd, UnbindReason, UnidataReason};

/// The unit of the time to live (A.2.1.6).
const TTL_UNIT: Duration = Duration::from_secs(2);
/// Octets of a U_PDU by which a remote confirmation is told from others.
const KEPT: usize = 256;

impl Server {
    /// Takes a U_PDU of a client that is bound.
    pub(crate) fn submit(
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
        let mtu = service.map_or(self.mtu(), |service| self.mtu_of(service));
        if u_pdu.len() > usize::from(mtu) {
            self.stats.submitted.too_large += 1;
            self.reject(now, client, is_expedited, UnidataReason::TOO_LARGE, to_sap, to, u_pdu);
            return;
        }
        let may_be = |service: &Service| {
            let is_arq = service.mode.is_arq();
            !(is_arq && (to.is_group() || self.config.is_broadcast_only)) && to != self.address
        };
        let Some(service) = service.ok().filter(may_be) else {
            self.stats.submitted.no_mode += 1;
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
        self.stats.submitted.u_pdus_taken += 1;
        self.stats.submitted.octets_taken += u_pdu.len() as u64;
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

    /// Stops a client that has too much waiting, and lets it go on (A.2.1.14, A.2.1.15).
    pub(crate) fn check_bounds(&mut self, now: Time, client: ClientId) {
        let Some(binding) = self.connections.get_mut(&client).and_then(|it| it.binding.as_mut())
        else {
            return;
        };
        let backlog = binding.queue.backlog();
        if binding.expedited > self.config.limits.max_expedited {
            self.stats.clients.expedited_floods += 1;
            self.unbind(now, client, Leave::Lost(Some(UnbindReason::TOO_MANY_EXPEDITED)));
        } else if backlog.exceeds(self.config.flow.flood) {
            self.stats.connections.closed_flood += 1;
            self.close(now, client, UnbindReason::BAD_PRIMITIVES);
        } else if backlog.exceeds(self.config.flow.off) && !binding.is_flow_off {
            binding.is_flow_off = true;
            self.stats.clients.flow_off += 1;
            self.send(now, client, &Primitive::DataFlowOff);
        } else if !backlog.exceeds(self.config.flow.on) && binding.is_flow_off {
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
        if binding.undecided >= config.limits.max_undecided {
            return None;
        }
        let sap = binding.sap;
        binding.queue.take(class, |item| {
            let is_arq = item.service.mode.is_arq();
            !(is_arq && paused.contains(&item.to))
                && links.permits(sap, item.to_sap, item.to, is_arq)
        })
    }

    /// Sends what still waits here of a client that leaves in peace, if its U_PDUs would be dropped otherwise: its last
    /// words may have come together with its leave.
    pub(crate) fn hand_over(&mut self, now: Time, client: ClientId) {
        if !self.binding(client).is_some_and(|binding| binding.drops_if_lost) {
            return;
        }
        for class in (0..CLASSES).rev() {
            while !self.own.is_full()
                && let Some(item) = self.take(client, class)
            {
                let request = self.hand_down(now, client, item);
                self.own.push(request);
            }
        }
    }

    fn hand_down(&mut self, now: Time, client: ClientId, item: Item) -> Request {
        let from = self.binding(client).map_or(Sap::new(0), |binding| binding.sap);
        let confirmation = item.service.confirmation;
        let is_confirmed = confirmation == Confirmation::Client;
        let is_compact = self.config.confirm.compact || self.compact.contains(&item.to);
        let ttd = item.expires.filter(|_| item.has_ttl && self.config.sends_ttd);
        let data = Data {
            priority: item.priority,
            from,
            to: item.to_sap,
            is_confirmed,
            ttd: ttd.and_then(|at| Ttd::new(self.clock(now), self.clock(at))),
            id: (is_confirmed && is_compact).then_some(item.id.low()),
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
            Confirmation::Node => self.config.confirm.prefix,
            Confirmation::Client => self.config.confirm.prefix.max(KEPT),
        };
        start.truncate(kept);
        start.shrink_to_fit();
        let (to, to_sap, is_expedited) = (item.to, item.to_sap, item.is_expedited);
        let is_arq = item.service.mode.is_arq();
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
        self.stats.submitted.u_pdus_sent += 1;
        let mode = match item.service.mode {
            Mode::NonArq { .. } if is_expedited => Mode::ONCE,
            mode => mode,
        };
        Request {
            id: item.id,
            to,
            mode,
            is_expedited,
            priority: if is_expedited { MAX_PRIORITY } else { item.priority },
            expires: item.expires,
            is_retried: item.service.is_retried && item.expires.is_some(),
            s_pdu,
        }
    }

    /// Queues an S_PDU of the node's own, with ARQ; returns its number, unless too many wait. An expedited S_PDU has
    /// the highest priority, like expedited ones of clients.
    pub(crate) fn send_own(
        &mut self,
        to: Address,
        is_expedited: bool,
        priority: u8,
        s_pdu: &SPdu<'_>,
    ) -> Option<RequestId> {
        if self.own.is_full() {
            self.stats.delivered.answers_dropped += 1;
            return None;
        }
        let id = self.next_id();
        let mut octets = Vec::new();
        s_pdu.emit(&mut octets);
        self.own.push(Request {
            id,
            to,
            mode: Mode::Arq { in_order: false },
            is_expedited,
            priority: if is_expedited { MAX_PRIORITY } else { priority },
            expires: None,
            is_retried: false,
            s_pdu: octets,
        });
        Some(id)
    }
}

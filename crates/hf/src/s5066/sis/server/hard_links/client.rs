//! Requests of this node's clients about hard links, and the effect of their U_PDUs on hard links.

use std::cmp::Ordering;

use base::time::Time;

use super::{Side, State, Wanted, compare};
use crate::s5066::Address;
use crate::s5066::service::ClientId;
use crate::s5066::sis::LinkReason;
use crate::s5066::sis::primitive::{HardLink, LinkKind};
use crate::s5066::sis::server::Server;
use crate::s5066::sis::server::connection::Binding;
use crate::s5066::sis::spdu::{EndReason, SPdu};

impl Server {
    /// A client wants a hard link (A.3.2.2.1).
    pub(in crate::s5066::sis::server) fn establish(
        &mut self,
        now: Time,
        client: ClientId,
        link: HardLink,
    ) {
        let Some(binding) = self.binding(client) else { return };
        let (rank, sap) = (binding.rank, binding.sap);
        if link.remote.is_group() || link.remote == self.address || self.config.is_broadcast_only {
            self.reject_link(now, client, link, LinkReason::NO_RESPONSE);
            return;
        }
        let order = |other_rank, other: HardLink| compare((rank, link), (other_rank, other));
        let waiting = self.links.next.as_ref().map(|next| order(next.rank, next.link));
        if waiting.is_some_and(|order| order != Ordering::Greater) {
            self.reject_link(now, client, link, LinkReason::HIGHER_PRIORITY);
            return;
        }
        let there = self.links.current.as_ref();
        let is_ending = there.is_some_and(|it| matches!(it.state, State::Ending { .. }));
        let order = there.map(|it| (order(it.rank, it.link), it.link));
        match order {
            Some((order, other)) if !is_ending && order != Ordering::Greater => {
                let is_same = order == Ordering::Equal && other.remote == link.remote;
                let reason = if is_same && link.kind == LinkKind::Shared {
                    LinkReason::TYPE_0_EXISTS
                } else {
                    LinkReason::HIGHER_PRIORITY
                };
                self.reject_link(now, client, link, reason);
            }
            there => {
                if let Some(next) = self.links.next.take() {
                    self.reject_link(now, next.client, next.link, LinkReason::HIGHER_PRIORITY);
                }
                self.links.next = Some(Wanted { client, sap, rank, link });
                match there {
                    None => self.start_next(now, None),
                    Some(_) if is_ending => {}
                    Some(_) => self.end(now, EndReason::HIGHER_PRIORITY),
                }
            }
        }
    }

    /// A client wants no hard link any more (A.3.2.2.2): the requesting client, or the other one for type 2.
    pub(in crate::s5066::sis::server) fn terminate(
        &mut self,
        now: Time,
        client: ClientId,
        remote: Address,
    ) {
        let is_it = |next: &mut Wanted| next.client == client && next.link.remote == remote;
        if self.links.next.take_if(is_it).is_some() {
            return;
        }
        let current = self.links.current.as_ref();
        if current.is_some_and(|it| it.client == Some(client) && it.link.remote == remote) {
            self.end(now, EndReason::CLIENT);
        }
    }

    /// A client takes a hard link of type 2, or does not.
    pub(in crate::s5066::sis::server) fn answer(
        &mut self,
        now: Time,
        client: ClientId,
        link: HardLink,
        refusal: Option<LinkReason>,
    ) {
        let Some(current) = self.links.current.as_mut() else { return };
        let is_asked = matches!(current.state, State::Indicated { .. });
        if !is_asked || current.client != Some(client) || current.link.remote != link.remote {
            return;
        }
        match refusal {
            None => {
                current.state = State::Up;
                self.stats.clients.hard_links += 1;
                self.send_link_pdu(link.remote, &SPdu::HardLinkConfirm);
                self.yield_to_rank(now);
            }
            Some(reason) => {
                self.links.current = None;
                self.send_link_pdu(link.remote, &SPdu::HardLinkRejected(reason));
                self.start_next(now, None);
            }
        }
    }

    /// The client is bound no more, and so are its hard links.
    pub(in crate::s5066::sis::server) fn handle_unbound_link(
        &mut self,
        now: Time,
        client: ClientId,
    ) {
        self.links.next.take_if(|next| next.client == client);
        let Some(current) = self.links.current.as_mut() else { return };
        if current.client.take_if(|one| *one == client).is_none() {
            return;
        }
        let reason = match current.side {
            Side::Caller { .. } => EndReason::CLIENT,
            Side::Called { .. } => EndReason::SAP_UNBOUND,
        };
        self.end(now, reason);
    }

    /// Ends the current hard link if it keeps out requests of a client with higher rank, waiting here or below.
    pub(super) fn yield_to_rank(&mut self, now: Time) {
        let bindings =
            self.connections.iter().filter_map(|(client, it)| Some((client, it.binding.as_ref()?)));
        let mut ranked = bindings.filter(|(_, binding)| self.links.is_below(binding.rank));
        let is_kept_out = ranked.any(|(client, Binding { rank, sap, queue, .. })| {
            let below = self.undecided_of(*client);
            queue.items().any(|item| self.links.gives_way_to(*rank, *sap, item))
                || below.iter().any(|(to_sap, to)| !self.links.permits(*sap, *to_sap, *to, true))
        });
        if is_kept_out {
            self.end(now, EndReason::HIGHER_PRIORITY);
        }
    }
}

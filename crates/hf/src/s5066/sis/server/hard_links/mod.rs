//! Hard links: at most one, for clients of the highest rank and priority (A.3.2.2).
//!
//! ```text
//!  caller  client asks ─▶ Making ─made─▶ Asking ─confirm─▶ Up ─▶ Ending ─▶ none
//!                            └─ not made ─┴─ rejected, too late ─▶ none
//!  called  request ─▶ Indicated (type 2) ─accept─▶ Up;   types 0 and 1: Up at once
//! ```
//!
//! A request that goes first ends the current link, and waits for this as `next`.
//!
//! Nodes whose requests cross decide alike, from facts known to both ([`goes_first`]):
//!
//! ```text
//!  whose request goes first   Asking, the other's request held ─confirm─▶ Up, the other's rejected
//!                                                             └─rejected─▶ the other's is answered
//!  the other                  Asking ─its client told─▶ Up, or Indicated
//! ```

use std::cmp::{Ordering, Reverse};

use base::time::Time;

use super::super::primitive::{HardLink, LinkKind, Primitive};
use super::super::spdu::{EndReason, SPdu};
use super::super::{LinkReason, NodeStatus, Sap, TerminateReason};
use super::Server;
use super::{Binding, Item};
use crate::s5066::Address;
use crate::s5066::service::{ClientId, Command, LinkEvent, MAX_PRIORITY, Outcome, RequestId};

#[derive(Default)]
pub struct HardLinks {
    /// The current link, up or about to be.
    current: Option<Claim>,
    /// The request that waits for the current link to end.
    next: Option<Wanted>,
}

/// A hard link that is up, or about to be.
struct Claim {
    link: HardLink,
    rank: u8,
    side: Side,
    /// The client here that asked or was asked, and is told the outcome.
    client: Option<ClientId>,
    state: State,
    /// The S_PDU whose answer is awaited.
    asked: Option<RequestId>,
    /// The other node's request, which crossed ours and goes first, and the access point called.
    held: Option<(HardLink, Sap)>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Side {
    /// A client here asked for it.
    Caller { sap: Sap },
    /// A client of the other node did, for type 2 with one here.
    Called { sap: Option<Sap> },
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum State {
    Asking { until: Time },
    Ending { until: Time },
    Indicated { until: Time },
    Making,
    Up,
}

/// A hard link that waits for the end of another.
struct Wanted {
    client: ClientId,
    sap: Sap,
    rank: u8,
    link: HardLink,
}

impl HardLinks {
    /// Whether a client's U_PDU ends the hard link, because that keeps it out and is of lower rank.
    pub fn gives_way_to(&self, rank: u8, from: Sap, item: &Item) -> bool {
        let is_arq = item.service.mode.is_arq();
        self.is_below(rank) && !self.permits(from, item.to_sap, item.to, is_arq)
    }

    /// Whether there is a hard link of a client of lower rank.
    fn is_below(&self, rank: u8) -> bool {
        self.current.as_ref().is_some_and(|current| current.rank < rank)
    }

    /// Whether a client's own hard link keeps out all these U_PDUs of the client.
    pub fn keeps_out_own<'a>(
        &self,
        client: ClientId,
        from: Sap,
        mut items: impl Iterator<Item = &'a Item>,
    ) -> bool {
        let may_go =
            |item: &Item| self.permits(from, item.to_sap, item.to, item.service.mode.is_arq());
        self.current.as_ref().is_some_and(|current| current.client == Some(client))
            && !items.any(may_go)
    }

    /// Whether a U_PDU may go now: a hard link keeps others out, by its type (A.1.1.2).
    pub fn permits(&self, from: Sap, to_sap: Sap, to: Address, is_arq: bool) -> bool {
        let Some(current) = self.current.as_ref().filter(|current| current.state == State::Up)
        else {
            return true;
        };
        let HardLink { kind, remote, remote_sap, .. } = current.link;
        if to != remote {
            return !is_arq && kind == LinkKind::Shared;
        }
        match (kind, current.side) {
            (LinkKind::Shared, _) => true,
            (LinkKind::Reserved, Side::Caller { sap }) => from == sap,
            (LinkKind::Reserved, Side::Called { .. }) => to_sap == remote_sap,
            (LinkKind::Exclusive, Side::Caller { sap }) => from == sap && to_sap == remote_sap,
            (LinkKind::Exclusive, Side::Called { sap }) => {
                Some(from) == sap && to_sap == remote_sap
            }
        }
    }
}

impl Claim {
    /// Whether it is asked for here, and the other node has not answered.
    fn is_asked_of(&self, node: Address) -> bool {
        let is_asked = matches!(self.state, State::Making | State::Asking { .. });
        is_asked && matches!(self.side, Side::Caller { .. }) && self.link.remote == node
    }
}

/// Whether one of two crossing requests goes first, each with the requesting node. Other nodes are not told the ranks
/// of clients (A.3.2.2.1), so only facts known to both count.
fn goes_first(one: (HardLink, Address), other: (HardLink, Address)) -> bool {
    let key = |(link, by): (HardLink, Address)| (link.priority, link.kind, Reverse(by));
    key(one) > key(other)
}

/// Which of two hard links goes first, each with the rank of its client (A.3.2.2.1).
fn compare(one: (u8, HardLink), other: (u8, HardLink)) -> Ordering {
    let ((rank, link), (other_rank, other)) = (one, other);
    let order = rank.cmp(&other_rank).then(link.priority.cmp(&other.priority));
    if link.remote == other.remote { order.then(link.kind.cmp(&other.kind)) } else { order }
}

// Requests of this node's clients about hard links, and the effect of their U_PDUs on hard links.

impl Server {
    /// A client wants a hard link (A.3.2.2.1).
    pub(crate) fn establish(&mut self, now: Time, client: ClientId, link: HardLink) {
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
    pub(crate) fn terminate(&mut self, now: Time, client: ClientId, remote: Address) {
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
    pub(crate) fn answer(
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
    pub(crate) fn handle_unbound_link(&mut self, now: Time, client: ClientId) {
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
    fn yield_to_rank(&mut self, now: Time) {
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

// How a hard link is asked for, lasts and ends.

impl Server {
    /// The hard link that is up, with the access point of the other end as remote access point.
    #[must_use]
    pub fn hard_link(&self) -> Option<HardLink> {
        let current = self.links.current.as_ref();
        current.filter(|current| current.state == State::Up).map(|current| current.link)
    }

    /// Whether a hard link with this node is up, or about to be made or ended.
    #[must_use]
    pub fn is_hard_linked(&self, node: Address) -> bool {
        self.links.current.as_ref().is_some_and(|current| current.link.remote == node)
    }

    /// Asks whether the other end of the current hard link is still there: a confirmation changes nothing there; a
    /// node without such a link answers with an end, and a node that is gone does not answer.
    pub fn probe_hard_link(&mut self) {
        let up = self.links.current.as_ref().filter(|current| current.state == State::Up);
        if let Some(remote) = up.map(|current| current.link.remote) {
            self.send_link_pdu(remote, &SPdu::HardLinkConfirm);
        }
    }

    /// Asks the other node to end the hard link (A.3.2.2.2).
    pub(crate) fn end(&mut self, now: Time, reason: EndReason) {
        let Some(current) = self.links.current.as_ref() else { return };
        let remote = current.link.remote;
        match current.state {
            State::Ending { .. } => {}
            State::Making => {
                if reason == EndReason::HIGHER_PRIORITY {
                    self.tell_rejected(now, LinkReason::HIGHER_PRIORITY);
                }
                self.ended(now);
            }
            State::Indicated { .. } => {
                let refusal = LinkReason::SAP_NOT_BOUND;
                self.links.current = None;
                self.send_link_pdu(remote, &SPdu::HardLinkRejected(refusal));
                self.start_next(now, None);
            }
            State::Asking { .. } | State::Up => {
                if reason == EndReason::HIGHER_PRIORITY {
                    if matches!(current.state, State::Up) {
                        self.tell_ended(now, TerminateReason::HIGHER_PRIORITY);
                    } else {
                        self.tell_rejected(now, LinkReason::HIGHER_PRIORITY);
                    }
                }
                let asked = self.send_link_pdu(remote, &SPdu::HardLinkTerminate(reason));
                let until = now + self.config.hard_link_wait;
                let Some(current) = self.links.current.as_mut() else { return };
                current.state = State::Ending { until };
                current.asked = asked;
                // Whoever was told already is not told again.
                if reason == EndReason::HIGHER_PRIORITY {
                    current.client = None;
                }
            }
        }
    }

    /// The physical link is made: asks the other node whether it may be hard (A.3.2.2.1).
    fn ask(&mut self, now: Time) {
        let Some(Claim { link, side: Side::Caller { sap }, .. }) = self.links.current else {
            return;
        };
        let HardLink { kind, priority, remote_sap, remote } = link;
        let request = SPdu::HardLinkRequest { kind, priority, requesting: sap, remote: remote_sap };
        let asked = self.send_link_pdu(remote, &request);
        let until = now + self.config.hard_link_wait;
        let Some(current) = self.links.current.as_mut() else { return };
        current.state = State::Asking { until };
        current.asked = asked;
    }

    fn start_next(&mut self, now: Time, linked: Option<Address>) {
        let Some(Wanted { client, sap, rank, link }) = self.links.next.take() else { return };
        let side = Side::Caller { sap };
        let (client, state, asked, held) = (Some(client), State::Making, None, None);
        self.links.current = Some(Claim { link, rank, side, client, state, asked, held });
        if linked == Some(link.remote) {
            self.ask(now);
        } else {
            self.commands.push_back(Command::MakeExclusive { peer: link.remote });
        }
    }

    /// The hard link that was asked for cannot be had.
    fn give_up(&mut self, now: Time, reason: LinkReason) {
        self.tell_rejected(now, reason);
        self.ended(now);
    }

    /// The hard link is no more; its physical link goes, unless the next has the same peer.
    fn ended(&mut self, now: Time) {
        let Some(current) = self.links.current.take() else { return };
        let peer = current.link.remote;
        let is_made = !matches!(current.state, State::Making);
        let is_next = self.links.next.as_ref().is_some_and(|next| next.link.remote == peer);
        if is_made && is_next {
            self.start_next(now, Some(peer));
            return;
        }
        self.commands.push_back(Command::BreakExclusive { peer });
        self.start_next(now, None);
    }

    pub(crate) fn handle_link_outcome(&mut self, now: Time, id: RequestId, outcome: Outcome) {
        let Some(current) = self.links.current.as_ref() else { return };
        if current.asked == Some(id) && outcome != Outcome::Done {
            self.handle_silence(now);
        }
    }

    pub(crate) fn handle_link_timeout(&mut self, now: Time) {
        if self.next_link_timeout().is_some_and(|until| until <= now) {
            self.handle_silence(now);
        }
    }

    pub(crate) fn next_link_timeout(&self) -> Option<Time> {
        match self.links.current.as_ref()?.state {
            State::Asking { until } | State::Ending { until } | State::Indicated { until } => {
                Some(until)
            }
            State::Making | State::Up => None,
        }
    }

    /// Whoever was to answer does not.
    fn handle_silence(&mut self, now: Time) {
        let Some(current) = self.links.current.as_ref() else { return };
        let remote = current.link.remote;
        match current.state {
            State::Asking { .. } => self.give_up(now, LinkReason::NO_RESPONSE),
            State::Ending { .. } => {
                self.tell_ended(now, TerminateReason::NO_RESPONSE);
                self.ended(now);
            }
            State::Indicated { .. } => {
                self.links.current = None;
                let refusal = LinkReason::NO_RESPONSE;
                self.send_link_pdu(remote, &SPdu::HardLinkRejected(refusal));
                self.start_next(now, None);
            }
            State::Making | State::Up => {}
        }
    }

    fn tell_rejected(&mut self, now: Time, reason: LinkReason) {
        let Some(current) = self.links.current.as_ref() else { return };
        if let Some(client) = current.client {
            self.reject_link(now, client, current.link, reason);
        }
    }

    fn tell_ended(&mut self, now: Time, reason: TerminateReason) {
        let Some(current) = self.links.current.as_ref() else { return };
        if let Some(client) = current.client {
            let link = current.link;
            self.send(now, client, &Primitive::HardLinkTerminated { reason, link });
        }
    }

    fn reject_link(&mut self, now: Time, client: ClientId, link: HardLink, reason: LinkReason) {
        self.send(now, client, &Primitive::HardLinkRejected { reason, link });
    }

    fn send_link_pdu(&mut self, to: Address, s_pdu: &SPdu<'_>) -> Option<RequestId> {
        self.send_own(to, true, MAX_PRIORITY, s_pdu)
    }
}

// Effects of the other node, and of the physical link with it, on hard links.

impl Server {
    /// Something happened to a link.
    pub fn handle_link(&mut self, now: Time, event: LinkEvent) {
        let Some(current) = self.links.current.as_mut() else { return };
        let (state, remote) = (current.state, current.link.remote);
        match event {
            LinkEvent::Made { peer, is_exclusive: true, is_caller: true }
                if peer == remote && state == State::Making =>
            {
                self.ask(now);
            }
            LinkEvent::NotMade { peer, has_answered }
                if peer == remote && state == State::Making =>
            {
                let reason = if has_answered { LinkReason::BUSY } else { LinkReason::NO_RESPONSE };
                self.give_up(now, reason);
            }
            LinkEvent::Broken { peer, is_exclusive } if peer == remote => match state {
                State::Making | State::Asking { .. } if is_exclusive => {
                    self.give_up(now, LinkReason::NO_RESPONSE);
                }
                // A soft link breaks before an exclusive one is made.
                State::Making | State::Asking { .. } => {}
                // The request of the other node may have come late, over a soft link after the exclusive one.
                State::Up | State::Indicated { .. } => {
                    self.tell_ended(now, TerminateReason::LINK_BROKEN);
                    self.links.current = None;
                    self.start_next(now, None);
                }
                State::Ending { .. } => {
                    self.links.current = None;
                    self.start_next(now, None);
                }
            },
            LinkEvent::Made { .. } | LinkEvent::NotMade { .. } | LinkEvent::Broken { .. } => {}
        }
    }

    /// The other node says something about hard links.
    pub(crate) fn handle_link_pdu(&mut self, now: Time, peer: Address, s_pdu: SPdu<'_>) {
        let state = self
            .links
            .current
            .as_ref()
            .filter(|current| current.link.remote == peer)
            .map(|current| current.state);
        match s_pdu {
            SPdu::HardLinkRequest { kind, priority, requesting, remote } => {
                let link = HardLink { kind, priority, remote_sap: requesting, remote: peer };
                self.handle_link_request(now, link, remote);
            }
            SPdu::HardLinkConfirm if matches!(state, Some(State::Asking { .. })) => {
                let Some(current) = self.links.current.as_mut() else { return };
                current.state = State::Up;
                current.asked = None;
                let (link, client, held) = (current.link, current.client, current.held.take());
                self.stats.clients.hard_links += 1;
                if let Some(client) = client {
                    let status = NodeStatus::ON;
                    self.send(now, client, &Primitive::HardLinkEstablished { status, link });
                }
                if held.is_some() {
                    let refusal = SPdu::HardLinkRejected(LinkReason::HIGHER_PRIORITY);
                    self.send_link_pdu(peer, &refusal);
                }
                self.yield_to_rank(now);
            }
            // The peer believes in a link that was given up here.
            SPdu::HardLinkConfirm if state.is_none() => {
                self.stats.submitted.stray_confirms += 1;
                self.send_link_pdu(peer, &SPdu::HardLinkTerminate(EndReason::CLIENT));
            }
            SPdu::HardLinkRejected(reason) if matches!(state, Some(State::Asking { .. })) => {
                let held = self.links.current.as_mut().and_then(|current| current.held.take());
                match held {
                    Some((link, called)) => {
                        self.tell_rejected(now, reason);
                        self.links.current = None;
                        self.handle_link_request(now, link, called);
                    }
                    None => self.give_up(now, reason),
                }
            }
            SPdu::HardLinkTerminate(reason) => {
                self.send_link_pdu(peer, &SPdu::HardLinkTerminateConfirm);
                let asked = self.links.current.as_mut().filter(|it| it.is_asked_of(peer));
                if let Some(asked) = asked {
                    // An unconfirmed link cannot end: the peer means its own request, which crossed ours.
                    asked.held = None;
                } else if state.is_some() {
                    // Breaking the physical link is left to the other node, which may need it.
                    self.tell_ended(now, reason.as_told());
                    self.links.current = None;
                    self.start_next(now, None);
                }
            }
            SPdu::HardLinkTerminateConfirm if matches!(state, Some(State::Ending { .. })) => {
                self.ended(now);
            }
            SPdu::HardLinkTerminateConfirm if state.is_none() => {
                self.commands.push_back(Command::BreakExclusive { peer });
            }
            // The peer asks whether we are there.
            SPdu::HardLinkConfirm if matches!(state, Some(State::Up)) => {}
            SPdu::HardLinkConfirm
            | SPdu::HardLinkRejected(_)
            | SPdu::HardLinkTerminateConfirm
            | SPdu::Data(_)
            | SPdu::DeliveryConfirm { .. }
            | SPdu::DeliveryFail { .. }
            | SPdu::CompactConfirm { .. } => self.stats.submitted.stray_confirms += 1,
        }
    }

    /// A client of the other node wants a hard link with this node, or with one client of it.
    fn handle_link_request(&mut self, now: Time, link: HardLink, called: Sap) {
        if self.hold(link, called) {
            return;
        }
        let is_exclusive = link.kind == LinkKind::Exclusive;
        let client = self.saps[usize::from(called.number())].filter(|_| is_exclusive);
        if is_exclusive && client.is_none() {
            self.send_link_pdu(link.remote, &SPdu::HardLinkRejected(LinkReason::SAP_NOT_BOUND));
            return;
        }
        let rank = client
            .and_then(|client| self.binding(client))
            .map_or(self.config.remote_rank, |binding| binding.rank);
        if let Some(there) = &self.links.current {
            let is_repeat = matches!(there.side, Side::Called { .. }) && there.link == link;
            let is_crossed = there.is_asked_of(link.remote);
            let is_ending = matches!(there.state, State::Ending { .. });
            let order = compare((rank, link), (there.rank, there.link));
            if !is_repeat && !is_crossed && !is_ending && order != Ordering::Greater {
                let is_equal = rank == there.rank && link.priority == there.link.priority;
                let reason = if is_equal { LinkReason::BUSY } else { LinkReason::HIGHER_PRIORITY };
                self.send_link_pdu(link.remote, &SPdu::HardLinkRejected(reason));
                return;
            }
            if !is_repeat {
                self.displace(now, link);
            }
        }

        let state = match client {
            Some(client) => {
                let status = NodeStatus::ON;
                self.send(now, client, &Primitive::HardLinkIndication { status, link });
                State::Indicated { until: now + self.config.hard_link_answer }
            }
            None => {
                self.stats.clients.hard_links += 1;
                self.send_link_pdu(link.remote, &SPdu::HardLinkConfirm);
                State::Up
            }
        };
        let side = Side::Called { sap: is_exclusive.then_some(called) };
        let (asked, held) = (None, None);
        self.links.current = Some(Claim { link, rank, side, client, state, asked, held });
        self.yield_to_rank(now);
    }

    /// Lets a request wait that crosses ours, if ours goes first.
    fn hold(&mut self, link: HardLink, called: Sap) -> bool {
        let address = self.address;
        let ours = self.links.current.as_mut().filter(|ours| {
            ours.is_asked_of(link.remote) && goes_first((ours.link, address), (link, link.remote))
        });
        let Some(ours) = ours else { return false };
        ours.held = Some((link, called));
        true
    }

    /// Ends the current link at once, for one requested by another node.
    fn displace(&mut self, now: Time, by: HardLink) {
        let Some(there) = &self.links.current else { return };
        let (peer, is_asked) = (there.link.remote, there.is_asked_of(there.link.remote));
        let is_ending = matches!(there.state, State::Ending { .. });
        if is_asked {
            let is_had = [there.link.kind, by.kind] == [LinkKind::Shared; 2] && peer == by.remote;
            let reason =
                if is_had { LinkReason::TYPE_0_EXISTS } else { LinkReason::HIGHER_PRIORITY };
            self.tell_rejected(now, reason);
        } else if !is_ending {
            self.tell_ended(now, TerminateReason::HIGHER_PRIORITY);
            let reason = EndReason::HIGHER_PRIORITY;
            self.send_link_pdu(peer, &SPdu::HardLinkTerminate(reason));
        }
        self.links.current = None;
        // A link already up is broken only after the confirmation of its end, so that the reason arrives first.
        if is_asked && peer != by.remote {
            self.commands.push_back(Command::BreakExclusive { peer });
        }
    }
}

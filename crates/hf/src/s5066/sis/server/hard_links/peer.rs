//! Effects of the other node, and of the physical link with it, on hard links.

use std::cmp::Ordering;

use base::time::Time;

use super::{Claim, Side, State, compare, goes_first};
use crate::s5066::Address;
use crate::s5066::service::{Command, LinkEvent};
use crate::s5066::sis::primitive::{HardLink, LinkKind, Primitive};
use crate::s5066::sis::server::Server;
use crate::s5066::sis::spdu::{EndReason, SPdu};
use crate::s5066::sis::{LinkReason, NodeStatus, Sap, TerminateReason};

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
            LinkEvent::Broken { peer, is_exclusive: true } if peer == remote => match state {
                State::Making | State::Asking { .. } => {
                    self.give_up(now, LinkReason::NO_RESPONSE);
                }
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
    pub(in crate::s5066::sis::server) fn handle_link_pdu(
        &mut self,
        now: Time,
        peer: Address,
        s_pdu: SPdu<'_>,
    ) {
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
    pub(super) fn handle_link_request(&mut self, now: Time, link: HardLink, called: Sap) {
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
    pub(super) fn hold(&mut self, link: HardLink, called: Sap) -> bool {
        let address = self.address;
        let ours = self.links.current.as_mut().filter(|ours| {
            ours.is_asked_of(link.remote) && goes_first((ours.link, address), (link, link.remote))
        });
        let Some(ours) = ours else { return false };
        ours.held = Some((link, called));
        true
    }

    /// Ends the current link at once, for one requested by another node.
    pub(super) fn displace(&mut self, now: Time, by: HardLink) {
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

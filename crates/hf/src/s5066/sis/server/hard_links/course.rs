//! How a hard link is asked for, lasts and ends.

use base::time::Time;

use super::{Claim, Side, State, Wanted};
use crate::s5066::Address;
use crate::s5066::service::{ClientId, Command, MAX_PRIORITY, Outcome, RequestId};
use crate::s5066::sis::primitive::{HardLink, Primitive};
use crate::s5066::sis::server::Server;
use crate::s5066::sis::spdu::{EndReason, SPdu};
use crate::s5066::sis::{LinkReason, TerminateReason};

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
    pub(in crate::s5066::sis::server) fn end(&mut self, now: Time, reason: EndReason) {
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
    pub(super) fn ask(&mut self, now: Time) {
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

    pub(super) fn start_next(&mut self, now: Time, linked: Option<Address>) {
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
    pub(super) fn give_up(&mut self, now: Time, reason: LinkReason) {
        self.tell_rejected(now, reason);
        self.ended(now);
    }

    /// The hard link is no more; its physical link goes, unless the next has the same peer.
    pub(super) fn ended(&mut self, now: Time) {
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

    pub(in crate::s5066::sis::server) fn handle_link_outcome(
        &mut self,
        now: Time,
        id: RequestId,
        outcome: Outcome,
    ) {
        let Some(current) = self.links.current.as_ref() else { return };
        if current.asked == Some(id) && outcome != Outcome::Done {
            self.handle_silence(now);
        }
    }

    pub(in crate::s5066::sis::server) fn handle_link_timeout(&mut self, now: Time) {
        if self.next_link_timeout().is_some_and(|until| until <= now) {
            self.handle_silence(now);
        }
    }

    pub(in crate::s5066::sis::server) fn next_link_timeout(&self) -> Option<Time> {
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

    pub(super) fn tell_rejected(&mut self, now: Time, reason: LinkReason) {
        let Some(current) = self.links.current.as_ref() else { return };
        if let Some(client) = current.client {
            self.reject_link(now, client, current.link, reason);
        }
    }

    pub(super) fn tell_ended(&mut self, now: Time, reason: TerminateReason) {
        let Some(current) = self.links.current.as_ref() else { return };
        if let Some(client) = current.client {
            let link = current.link;
            self.send(now, client, &Primitive::HardLinkTerminated { reason, link });
        }
    }

    pub(super) fn reject_link(
        &mut self,
        now: Time,
        client: ClientId,
        link: HardLink,
        reason: LinkReason,
    ) {
        self.send(now, client, &Primitive::HardLinkRejected { reason, link });
    }

    pub(super) fn send_link_pdu(&mut self, to: Address, s_pdu: &SPdu<'_>) -> Option<RequestId> {
        self.send_own(to, true, MAX_PRIORITY, s_pdu)
    }
}

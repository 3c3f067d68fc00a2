//! Handles primitives from the node to its client.

use base::time::Time;

use super::event::{Event, Fault, HardLinkEvent, Received};
use super::{Client, State};
use crate::s5066::seal::{Envelope, Notice, Trouble};
use crate::s5066::sis::UnidataReason;
use crate::s5066::sis::messages::{self, PeerStatus};
use crate::s5066::sis::primitive::{
    Arrival, Management, Primitive, UnidataConfirm, UnidataIndication,
};

impl Client {
    /// Takes a primitive of the node.
    pub(super) fn handle_primitive(&mut self, now: Time, primitive: Primitive<'_>) {
        let link_event = match primitive {
            Primitive::BindAccepted { sap, mtu } if self.is_binding() && sap == self.config.sap => {
                let least = self.config.least_mtu.saturating_add(self.overhead());
                if mtu < least {
                    self.stats.mtu_refused += 1;
                    self.close(Fault::Mtu { mtu, least });
                    return;
                }
                self.state = State::Bound { mtu };
                let mtu = mtu.saturating_sub(self.overhead());
                self.events.push_back(Event::Bound { mtu });
                return;
            }
            Primitive::BindRejected(reason) if self.is_binding() => {
                self.state = State::Unbound;
                self.events.push_back(Event::Refused(reason));
                return;
            }
            Primitive::UnbindIndication(reason) => {
                // Requests in flight when the binding ended earn further indications.
                if matches!(self.state, State::Bound { .. }) {
                    self.forsake();
                    self.state = State::Unbound;
                    self.events.push_back(Event::Unbound(reason));
                }
                return;
            }
            Primitive::SubnetAvailability { status, reason } => {
                self.knows_ours |= reason == messages::OURS;
                if std::mem::replace(&mut self.status, status) != status {
                    self.events.push_back(Event::Availability { status, reason });
                }
                return;
            }
            Primitive::DataFlowOn => {
                if !std::mem::replace(&mut self.is_flow_on, true) {
                    self.events.push_back(Event::FlowOn);
                }
                return;
            }
            Primitive::DataFlowOff => {
                if std::mem::replace(&mut self.is_flow_on, false) {
                    self.events.push_back(Event::FlowOff);
                }
                return;
            }
            Primitive::KeepAlive => {
                self.keep_alive.handle_keep_alive(now);
                self.handle_timeout(now);
                return;
            }
            Primitive::ManagementIndication(Management { kind: messages::KIND, body })
                if let Ok(status) = PeerStatus::parse(body) =>
            {
                self.events.push_back(Event::Peer(status));
                return;
            }
            Primitive::ManagementIndication(Management { kind, body }) => {
                self.events.push_back(Event::Management { kind, body: body.to_vec() });
                return;
            }
            Primitive::UnidataIndication(indication) => {
                return self.receive(now, indication, false);
            }
            Primitive::ExpeditedUnidataIndication(indication) => {
                return self.receive(now, indication, true);
            }
            Primitive::UnidataConfirm(confirm) => return self.confirm(confirm, false),
            Primitive::ExpeditedUnidataConfirm(confirm) => return self.confirm(confirm, true),
            Primitive::UnidataRejected(rejected) => {
                return self.reject(rejected.reason, rejected.into(), false);
            }
            Primitive::ExpeditedUnidataRejected(rejected) => {
                return self.reject(rejected.reason, rejected.into(), true);
            }
            Primitive::HardLinkEstablished { link, .. } => HardLinkEvent::Established(link),
            Primitive::HardLinkIndication { link, .. } => HardLinkEvent::Indicated(link),
            Primitive::HardLinkRejected { reason, link } => HardLinkEvent::Rejected(reason, link),
            Primitive::HardLinkTerminated { reason, link } => {
                HardLinkEvent::Terminated(reason, link)
            }
            Primitive::BindRequest { .. }
            | Primitive::UnbindRequest
            | Primitive::BindAccepted { .. }
            | Primitive::BindRejected(_)
            | Primitive::HardLinkEstablish(_)
            | Primitive::HardLinkTerminate { .. }
            | Primitive::HardLinkAccept(_)
            | Primitive::HardLinkReject { .. }
            | Primitive::ManagementRequest(_)
            | Primitive::UnidataRequest(_)
            | Primitive::ExpeditedUnidataRequest(_) => {
                self.stats.invalid += 1;
                return;
            }
        };
        self.events.push_back(Event::HardLink(link_event));
    }

    fn is_binding(&self) -> bool {
        matches!(self.state, State::Binding { .. })
    }

    fn receive(&mut self, now: Time, indication: UnidataIndication<'_>, is_expedited: bool) {
        let UnidataIndication { priority, to_sap, to, arrival, from_sap, from, u_pdu } = indication;
        if self.mtu().is_none() || to_sap != self.config.sap {
            self.stats.misplaced += 1;
            return;
        }
        self.stats.received += 1;
        if let Some(notice) = self.guard.notice(u_pdu) {
            self.stats.seals.notices_received += 1;
            let trouble = Trouble::Told(notice);
            self.events.push_back(Event::Sealing { node: from, trouble });
            return;
        }
        let envelope = Envelope { from, from_sap, to, to_sap };
        let u_pdu = match self.guard.open(now, envelope, u_pdu, &mut self.stats.seals) {
            Ok(u_pdu) => u_pdu.to_vec(),
            Err(refusal) => {
                let trouble = Trouble::Refused(refusal);
                self.events.push_back(Event::Sealing { node: from, trouble });
                // A link with the node exists, so an answer does not call anybody.
                let may_answer = arrival == Arrival::Arq && self.is_ready();
                if let Some(notice) = Notice::of(refusal).filter(|_| may_answer)
                    && self.guard.may_notify(now, from)
                {
                    self.notify(from, notice);
                }
                return;
            }
        };
        let received = Received { from, from_sap, to, priority, is_expedited, arrival, u_pdu };
        self.events.push_back(Event::Received(received));
    }

    fn confirm(&mut self, confirm: UnidataConfirm<'_>, is_expedited: bool) {
        match self.pending.take(confirm, is_expedited) {
            Some(id) => {
                self.stats.confirmed += 1;
                self.events.push_back(Event::Confirmed(id));
            }
            None => self.stats.stray += 1,
        }
    }

    fn reject(&mut self, reason: UnidataReason, which: UnidataConfirm<'_>, is_expedited: bool) {
        let to = which.to;
        if self.guard.notice(which.u_pdu).is_some() {
            return;
        }
        let start = self.guard.start_of(to, which.u_pdu).to_vec();
        let id = self.pending.take(which, is_expedited);
        self.stats.rejected += 1;
        self.events.push_back(Event::Rejected { id, to, start, reason });
    }
}

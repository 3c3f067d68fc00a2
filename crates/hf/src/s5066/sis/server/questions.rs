//! Handles requests of clients to a node of ours beyond the standard.

use base::time::Time;

use super::{ClientId, Server};
use crate::modem::Waveform;
use crate::s5066::Address;
use crate::s5066::service::Command;
use crate::s5066::sis::messages::{self, PeerState, PeerStatus, Question};
use crate::s5066::sis::primitive::{Management, Primitive};
use crate::s5066::sis::{NodeStatus, Sap, UnidataReason};

/// How it is with another node, as far as the layers below know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Known {
    /// The link with it.
    pub state: PeerState,
    /// The rate of this node's transmissions, in bit/s.
    pub bits_per_s: u32,
    /// Octets for it that were not sent yet.
    pub backlog: usize,
}

impl Server {
    /// Tells a bound client the node's state, and that the node knows more than the standard asks.
    pub(super) fn introduce(&mut self, now: Time, client: ClientId) {
        let (status, told) = self.availability;
        let reason = if self.config.has_messages { messages::OURS } else { told };
        if status != NodeStatus::ON || self.config.has_messages {
            self.send(now, client, &Primitive::SubnetAvailability { status, reason });
        }
    }

    /// Takes a management message; false for a message that is not ours.
    pub(super) fn handle_question(
        &mut self,
        now: Time,
        client: ClientId,
        message: Management<'_>,
    ) -> bool {
        if message.kind != messages::KIND || !self.config.has_messages {
            return false;
        }
        match Question::parse(message.body) {
            Ok(Question::Peer(node)) => {
                self.commands.push_back(Command::Describe { client, node });
            }
            Ok(Question::Rate { node, rate, interleaver }) => {
                let may_manage = self.binding(client).is_some_and(|binding| binding.rank == 15);
                match Waveform::of_codes(rate, interleaver) {
                    Some(waveform) if may_manage => {
                        self.commands.push_back(Command::AskRate { node, waveform });
                    }
                    Some(_) | None => self.stats.clients.management_refused += 1,
                }
            }
            Ok(Question::TakeBack { to, to_sap, start }) => {
                self.take_back(now, client, to, to_sap, start);
            }
            Err(_) => self.handle_invalid(now, client),
        }
        true
    }

    /// Answers a question about another node.
    pub fn handle_described(&mut self, now: Time, client: ClientId, node: Address, known: Known) {
        let octets_for = |one: &super::Connection| {
            let items = one.binding.iter().flat_map(|binding| binding.queue.items());
            items.filter(|item| item.to == node).map(|item| item.u_pdu.len()).sum::<usize>()
        };
        let own = self.connections.get(&client).map_or(0, octets_for);
        let all: usize = self.connections.values().map(octets_for).sum();
        let word = |octets: usize| u32::try_from(octets).unwrap_or(u32::MAX);
        let Known { state, bits_per_s, backlog } = known;
        let (backlog, own_backlog) = (word(all + backlog), word(own));
        let mut body = Vec::new();
        PeerStatus { node, state, bits_per_s, backlog, own_backlog }.emit(&mut body);
        let answer = Management { kind: messages::KIND, body: &body };
        self.send(now, client, &Primitive::ManagementIndication(answer));
    }

    /// Gives a U_PDU back to its client if nothing of it was sent: the oldest with this beginning.
    fn take_back(&mut self, now: Time, client: ClientId, to: Address, to_sap: Sap, start: &[u8]) {
        let begins = |u_pdu: &[u8]| {
            let len = u_pdu.len().min(start.len());
            len > 0 && u_pdu[..len] == start[..len]
        };
        let Some(binding) = self.binding_mut(client) else { return };
        let taken = binding
            .queue
            .take_any(|item| item.to == to && item.to_sap == to_sap && begins(&item.u_pdu));
        if let Some(item) = taken {
            self.stats.submitted.taken_back += 1;
            self.give_back(now, client, &item, UnidataReason::TAKEN_BACK);
            self.check_bounds(now, client);
        } else if let Some(id) = self.pending_of(client, to, to_sap, begins) {
            self.commands.push_back(Command::TakeBack { id });
        }
    }
}

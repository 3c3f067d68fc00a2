//! Outcomes of U_PDUs: decided by the layers below, remote nodes and clocks, and reported to the client.

use base::time::Time;

use super::connection::Item;
use super::pending::{Pending, Which};
use super::{ClientId, Server};
use crate::s5066::Address;
use crate::s5066::service::{Failure, Outcome, RequestId};
use crate::s5066::sis::primitive::{Primitive, UnidataConfirm, UnidataRejected};
use crate::s5066::sis::{Confirmation, Sap, UnidataReason};

impl Server {
    /// Takes the outcome of a request.
    pub fn handle_outcome(&mut self, now: Time, id: RequestId, outcome: Outcome) {
        self.handle_link_outcome(now, id, outcome);
        let Some(pending) = self.pending.get_mut(&id).filter(|pending| !pending.is_done) else {
            return;
        };
        match outcome {
            Outcome::Done if pending.confirmation == Confirmation::Client => {
                let until = now + self.config.confirm.wait;
                pending.is_done = true;
                pending.until = Some(until);
                let client = pending.client;
                self.deadlines.insert((until, id, client));
            }
            Outcome::Done => self.decide(now, id, Ok(())),
            Outcome::Failed { why, may_have_arrived } => {
                match why {
                    Failure::TakenBack => self.stats.submitted.taken_back += 1,
                    _ => self.stats.submitted.failed += 1,
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

    /// A remote node reports that a U_PDU reached its client, or did not. If several U_PDUs match, the report belongs
    /// to the oldest.
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
                    Which::Id(number) => id.low() == number,
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
            self.stats.submitted.unreceived += 1;
            self.reject(now, client, false, reason, to, peer, start);
        } else {
            self.stats.submitted.stray_confirms += 1;
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
                let u_pdu = &start[..start.len().min(self.config.confirm.prefix)];
                let confirm = UnidataConfirm { to_sap, to, u_pdu };
                self.stats.submitted.confirmed += 1;
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
    pub(super) fn reject(
        &mut self,
        now: Time,
        client: ClientId,
        is_expedited: bool,
        reason: UnidataReason,
        to_sap: Sap,
        to: Address,
        u_pdu: &[u8],
    ) {
        let u_pdu = &u_pdu[..u_pdu.len().min(self.config.confirm.prefix)];
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
                self.stats.submitted.unconfirmed += 1;
                self.decide(now, id, Err(UnidataReason::MAY_HAVE_ARRIVED));
                continue;
            }
            while let Some(item) =
                self.binding_mut(client).and_then(|binding| binding.queue.take_expired(now))
            {
                self.stats.submitted.expired += 1;
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

    /// Forgets the U_PDUs at the layers below whose client is gone.
    pub(super) fn forget_pending(&mut self, client: ClientId) {
        let Self { pending, deadlines, stats, .. } = self;
        pending.retain(|id, one| {
            if one.client != client {
                return true;
            }
            if let Some(until) = one.until {
                deadlines.remove(&(until, *id, client));
            }
            stats.submitted.dropped_unbound += 1;
            false
        });
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

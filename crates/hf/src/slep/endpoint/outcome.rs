//! Handles the node's verdicts on the U_PDUs handed to it: confirmed, rejected or lost.

use base::time::Time;

use super::{Content, Handed, Loss, Slep};
use crate::s5066::Address;
use crate::s5066::sis::UnidataReason;
use crate::s5066::sis::client::SendId;
use crate::slep::peer::Owed;
use crate::slep::timers::StreamId;
use crate::slep::wire::{Data, Open, Pdu};

impl Slep {
    pub(crate) fn handle_confirmed(&mut self, now: Time, id: SendId) {
        let Some(Handed { to, content, share }) = self.handed.remove(&id) else { return };
        self.stats.handed.confirmed += 1;
        self.window.handle_confirmed(now, share);
        self.handle_sign(now, to);
        match content {
            Content::Part(id, number) => {
                if number == 0 {
                    self.close_opening(id);
                }
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.sending_mut().handle_confirmed(number);
                    stream.handle_sign(now);
                    let is_last = stream.sending().is_idle();
                    self.watch(id);
                    if is_last {
                        self.see_off(id);
                    }
                    if number == 0 {
                        self.break_if_outlived(now, id);
                    }
                }
            }
            Content::Datagram(id) => self.handle_datagram_confirmed(now, id),
            Content::Hello { .. } | Content::Owed(..) | Content::Receipt => {}
        }
    }

    pub(crate) fn handle_rejected(
        &mut self,
        now: Time,
        id: Option<SendId>,
        to: Address,
        start: &[u8],
        reason: UnidataReason,
    ) {
        self.stats.handed.rejected += 1;
        // Of ours one knows; any other may have sent it all the same.
        let has_not_arrived = match reason {
            UnidataReason::SAP_NOT_BOUND | UnidataReason::TOO_LARGE | UnidataReason::NO_MODE => {
                true
            }
            UnidataReason::MAY_HAVE_ARRIVED => false,
            _ => self.client.is_node_ours(),
        };
        let loss = if has_not_arrived { Loss::NotArrived } else { Loss::MayHaveArrived };
        let handed = id.and_then(|id| self.handed.remove(&id));
        let is_back = reason == UnidataReason::SAP_NOT_BOUND
            && self.peers.get_mut(&to).is_some_and(|peer| peer.is_back(now));
        // What we wanted back says nothing about the other node.
        if !is_back && reason != UnidataReason::TAKEN_BACK {
            self.retry_later(now, to);
        }
        match handed {
            Some(Handed { to, content, share }) => {
                self.window.handle_gone(share);
                self.hand_again(to, content, loss);
            }
            None => {
                if let Some((id, number)) = self.confirmed_part(to, start) {
                    self.hand_again(to, Content::Part(id, number), loss);
                }
            }
        }
    }

    /// Asks the node to give back the parts of a stream of which it has sent nothing.
    pub(crate) fn withdraw(&mut self, id: StreamId) {
        let is_its = |content: Content| matches!(content, Content::Part(of, _) if of == id);
        let its = self.handed.iter().filter(|(_, handed)| is_its(handed.content));
        for send in its.map(|(send, _)| *send).collect::<Vec<_>>() {
            self.client.take_back(send);
        }
    }

    /// Finds a part by its first octets: the node confirmed it, then found no client to take it.
    fn confirmed_part(&self, to: Address, start: &[u8]) -> Option<(StreamId, u64)> {
        let (Pdu::Open(Open { stream: name, part, .. })
        | Pdu::Data(Data { stream: name, part, .. })) = Pdu::parse(start).ok()?
        else {
            return None;
        };
        let id = self.stream_named(to, name)?;
        let next = self.streams.get(&id)?.sending().next();
        Some((id, base::serial::expand(part.number.into(), 16, next)))
    }

    /// What the node has no more is to be handed over again.
    pub(crate) fn hand_again(&mut self, to: Address, content: Content, loss: Loss) {
        match content {
            Content::Part(id, number) => {
                if number == 0 {
                    self.close_opening(id);
                }
                let Some(stream) = self.streams.get_mut(&id) else { return };
                stream.sending_mut().handle_lost(number);
                if number == 0 {
                    match loss {
                        Loss::NotArrived => stream.take_opening_back(),
                        Loss::MayHaveArrived => stream.doubt(),
                        Loss::MayCome => stream.handle_opening_lost(),
                    }
                }
                let is_in_doubt = stream.is_in_doubt();
                self.list(id);
                self.watch(id);
                if is_in_doubt {
                    self.ask(id);
                }
            }
            Content::Owed(name, owed) => {
                let is_live = self.stream_named(to, name).is_some();
                let peer = self.peers.get(&to);
                let is_closed = peer.is_some_and(|peer| peer.closed(name).is_some());
                // What is not known here is asked for again if it matters.
                if is_live && matches!(owed, Owed::State { .. }) || is_closed {
                    self.owe(to, name, owed);
                }
            }
            Content::Datagram(id) => self.datagrams.list(id),
            Content::Receipt => {}
            Content::Hello { is_question } => self.owe_hello(to, is_question),
        }
    }

    /// A node did not take something: nothing is sent to it for a while.
    fn retry_later(&mut self, now: Time, to: Address) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        peer.handle_failure(now);
        self.watch_peer(to);
    }

    /// The binding is over: what the node had is nobody's any more.
    pub(crate) fn forsake(&mut self, now: Time) {
        for (_, Handed { to, content, share }) in std::mem::take(&mut self.handed) {
            self.stats.handed.forsaken += 1;
            self.window.handle_gone(share);
            self.hand_again(to, content, Loss::MayCome);
        }
        self.window.restart();
        let addresses: Vec<Address> = self.peers.keys().copied().collect();
        for address in addresses {
            if self.peers.get_mut(&address).is_some_and(|peer| peer.handle_no_way(now)) {
                self.watch_peer(address);
            }
        }
    }

    /// Asks about all streams because the client is bound: data for the previous client is gone, and data sent by it
    /// may be gone too.
    pub(crate) fn ask_all(&mut self, now: Time) {
        let ids: Vec<StreamId> = self.streams.keys().copied().collect();
        for id in ids {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            if !stream.is_unsent() && !stream.is_over() {
                stream.handle_sign(now);
                stream.hold_repeats(now + self.config.times.ask_after);
                self.ask(id);
                self.watch(id);
            }
        }
        let addresses: Vec<Address> = self.peers.keys().copied().collect();
        for address in addresses {
            self.wake(address);
        }
    }
}

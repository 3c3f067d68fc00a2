//! What a node does with packets that a link layer with acknowledgements gave up.

use std::time::Duration;

use super::config::Profile;
use super::link::Peer;
use super::peer::PeerState;
use super::relay::Relay;
use super::wire::{Data, FlowId, Message};
use crate::ip::Header;
use crate::time::Time;

/// An acknowledgement that is lost is owed again where its flow brought something so lately: who sends
/// no more will ask.
const RECENT: Duration = Duration::from_secs(1);

impl Relay {
    /// Takes that a packet from [`poll_transmit`](Self::poll_transmit) did not reach `peer`, where the link
    /// layer tells so. Only the default profile.
    ///
    /// What it carried is sent again without waiting for silence, and counts neither as a retry nor as a loss
    /// of the link: what such a link layer gives up it has tried often enough, so that neither repairs nor
    /// frequent acknowledgements would help. Many in a row are a silence, so that a neighbour that is gone is
    /// left alone.
    pub fn handle_unsent(&mut self, now: Time, peer: Peer, packet: &[u8]) {
        let is_away = self.peers.get(&peer).is_none_or(PeerState::is_silent);
        if self.config.profile != Profile::Default || is_away {
            return;
        }
        let Ok(header) = Header::parse(packet) else { return };
        let mut rest = &packet[header.len..header.total_len];
        while let Ok((message, after)) = Message::split_first(rest) {
            match message {
                Message::Ack(ack) => self.owe_again(now, peer, ack.flow),
                Message::Data(data) => self.lose(now, peer, &data),
                Message::Repair(_) => {}
            }
            rest = after;
        }
    }

    fn lose(&mut self, now: Time, peer: Peer, data: &Data<'_>) {
        let (Some(state), Some(sender)) =
            (self.peers.get_mut(&peer), self.senders.get_mut(&(peer, data.flow)))
        else {
            return;
        };
        let before = sender.held();
        let of = (data.seq, data.copy);
        let learned = sender.handle_unsent(now, of, &self.config, &mut self.pool);
        self.held -= before - sender.held();
        state.handle_silence(now);
        state.probe_at = now + sender.probe_interval(state, &self.config);
        self.note(peer, learned);
        self.attend(now, peer, data.flow);
    }

    fn owe_again(&mut self, now: Time, peer: Peer, flow: FlowId) {
        let at = now + self.patience(peer, false);
        let Some(receiver) = self.receivers.get_mut(&(peer, flow)) else { return };
        if now.since(receiver.used_at) <= RECENT {
            receiver.owe(at);
            self.owe(now, peer, flow);
        }
    }
}

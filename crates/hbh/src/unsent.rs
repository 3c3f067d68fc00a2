//! Handles packets that a link layer with acknowledgements gave up.

use std::time::Duration;

use base::ip::Header;
use base::time::Time;

use super::config::Profile;
use super::link::Peer;
use super::relay::{Relay, Timer};
use super::wire::{Data, FlowId, Message};

/// An acknowledgement that is lost is owed again where its flow brought something so lately: who sends
/// no more will ask.
const RECENT: Duration = Duration::from_secs(1);

/// How long a peer is left alone after the first unsent packet; the pause doubles with each further
/// packet.
const PAUSE: Duration = Duration::from_millis(50);
/// Packets that come back within this time were given up for the same reason.
const TOGETHER: Duration = Duration::from_millis(1);
/// Pauses grow so many times.
const LONGEST: u8 = 5;

impl Relay {
    /// Handles a link layer's report that a packet from [`poll_transmit`](Self::poll_transmit) did not
    /// reach `peer`. Only the default profile.
    ///
    /// The packet's content is sent again without waiting for silence, and counts neither as a retry nor as a
    /// loss of the link: such a link layer has tried often enough before it gives up, so that neither repairs
    /// nor frequent acknowledgements would help. Until the peer is heard we send it one packet now and then:
    /// each packet to a neighbour that is gone keeps the radio busy for as long as dozens that arrive.
    pub fn handle_unsent(&mut self, now: Time, peer: Peer, packet: &[u8]) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        if self.config.profile != Profile::Default {
            return;
        }
        // What waited behind the packet comes back with it.
        if state.unsent == 0 || now.since(state.unsent_at) > TOGETHER {
            state.unsent = state.unsent.saturating_add(1);
            state.unsent_at = now;
        }
        self.pause(now, peer);
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

    /// Whether the link layer gave up the last packets that were sent to `peer`.
    #[must_use]
    pub fn is_doubtful(&self, peer: Peer) -> bool {
        self.peers.get(&peer).is_some_and(|state| state.unsent > 0)
    }

    /// Leaves a peer alone for a while if the link layer gave up what was sent to it last.
    pub(super) fn pause(&mut self, now: Time, peer: Peer) {
        let Some(state) = self.peers.get_mut(&peer).filter(|state| state.unsent > 0) else {
            return;
        };
        let at = now + PAUSE * (1 << (state.unsent - 1).min(LONGEST));
        if let Some(old) = state.paused_until.replace(at) {
            self.timers.remove(&(old, Timer::Pause(peer)));
        }
        self.timers.insert((at, Timer::Pause(peer)));
    }

    /// Takes that something came from `peer`, a hello say: what the link layer gave up is tried again.
    pub fn handle_alive(&mut self, now: Time, peer: Peer) {
        let Some(state) = self.peers.get_mut(&peer).filter(|state| state.unsent > 0) else {
            return;
        };
        state.unsent = 0;
        if let Some(at) = state.paused_until {
            self.timers.remove(&(at, Timer::Pause(peer)));
            self.pause_ends(now, peer);
        }
    }

    pub(super) fn pause_ends(&mut self, now: Time, peer: Peer) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.paused_until = None;
        }
        self.attend_all(now, peer);
    }

    fn lose(&mut self, now: Time, peer: Peer, data: &Data<'_>) {
        let Some(sender) = self.senders.get_mut(&(peer, data.flow)) else { return };
        let before = sender.held();
        let of = (data.seq, data.copy);
        let learned = sender.handle_unsent(now, of, &self.config, &mut self.pool);
        self.held -= before - sender.held();
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

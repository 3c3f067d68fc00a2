//! Decides whether packets longer than a datagram are cut for the peer, which may be older.

use super::tunnel::{Event, Tunnel};
use super::understanding::PARTS;
use super::wire::{Body, Message};

impl Tunnel {
    /// Whether longer packets than a datagram carries are cut. They are before the peer had the room to show
    /// whether it joins them: an older one passes over what it does not know, and the first round trip of all
    /// others needs no waiting.
    pub(super) fn cuts(&self) -> bool {
        !self.understanding.is_strange(PARTS)
    }

    /// Learns the features that the peer understands, and drops packets that cannot be sent without
    /// them.
    pub(super) fn handle_understanding(&mut self, message: &Message<'_>) {
        let before = self.mtu();
        match message.understands {
            Some(shown) => self.understanding.handle_shown(shown),
            None if message.body == Body::Empty => self.understanding.handle_nothing_shown(),
            None => {}
        }
        if !self.cuts() && self.recorder.cut.take().is_some() {
            self.note_too_long(1);
        }
        if self.mtu() != before {
            self.events.push_back(Event::Mtu(self.mtu()));
        }
    }

    /// So many packets were too long.
    pub(super) fn note_too_long(&mut self, packets: u64) {
        if self.cuts() {
            self.stats.inner.refused_too_big += packets;
        } else {
            self.stats.inner.refused_uncut += packets;
        }
    }
}

//! Limits the lengths of packets and datagrams by the known MTU of the path.

use base::time::Time;

use super::record::{LONGEST_OUTER, RECORD_HEADER};
use super::tunnel::{Event, Tunnel};
use super::wire::{FLAGS, REPAIR_HEADER};

/// Octets that each tunnel carries, however short its datagrams are: a link has to for IPv6 (RFC 8200, 5).
const LEAST_PACKET: usize = 1_280;

impl Tunnel {
    /// The system refused a datagram of this payload because the packet would be too big.
    pub fn handle_too_big(&mut self, now: Time, payload: usize) {
        self.seen = now;
        let before = self.longest_symbols();
        self.mtu.handle_too_big(now, payload + self.config.overhead);
        self.note_mtu(before);
    }

    /// The first link towards the peer, which is where it was, takes outer packets of `max_mtu` octets now. Cheap if
    /// nothing has changed.
    pub fn handle_first_link(&mut self, now: Time, max_mtu: usize) {
        self.seen = now;
        let before = self.longest_symbols();
        self.config.max_mtu = max_mtu;
        self.mtu.handle_first_link(now, max_mtu.min(LONGEST_OUTER));
        self.note_mtu(before);
    }

    /// Octets of the longest inner packet, at least 1,280 unless the peer is an older one that joins no
    /// parts.
    #[must_use]
    pub fn mtu(&self) -> usize {
        if !self.cuts() {
            return self.whole();
        }
        let [_, passing] = self.longest_symbols();
        (passing - RECORD_HEADER).max(LEAST_PACKET)
    }

    /// Octets of the longest inner packet that one datagram carries; longer ones are cut.
    #[must_use]
    pub fn whole(&self) -> usize {
        self.max_symbol() - RECORD_HEADER
    }

    pub(super) fn handle_probe_reply(&mut self, now: Time, payload: usize) {
        let before = self.longest_symbols();
        let outer = payload + self.config.overhead;
        self.mtu.handle_reply(now, outer);
        self.reported.probes.handle_reply(outer);
        self.note_mtu(before);
    }

    /// Tells the driver when the path's MTU has changed, and gives up what is too long; `before` are the
    /// longest symbols as they were.
    pub(super) fn note_mtu(&mut self, before: [usize; 2]) {
        let after = self.longest_symbols();
        if after == before {
            return;
        }
        self.events.push_back(Event::Mtu(self.mtu()));
        let ([_, before], [_, passing]) = (before, after);
        if passing < before {
            let count = self.sender.give_up_longer(passing);
            self.note_given_up(count);
        }
    }

    /// Octets of a symbol at most.
    pub(super) fn max_symbol(&self) -> usize {
        self.symbol_of(self.mtu.confirmed())
    }

    /// Octets of the longest symbol that is made, and of the longest symbol not known to be too long.
    pub(super) fn longest_symbols(&self) -> [usize; 2] {
        [self.mtu.confirmed(), self.mtu.passing()].map(|outer| self.symbol_of(outer))
    }

    /// Octets of the symbol that fits an outer packet.
    fn symbol_of(&self, outer: usize) -> usize {
        outer - self.config.overhead - FLAGS - REPAIR_HEADER
    }
}

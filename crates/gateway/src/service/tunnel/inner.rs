//! How long inner packets may be, and what the device offers.

use tunnel::secure::PeerId;

use super::state::{LEAST_MTU, State};

impl State {
    /// The device's wanted MTU, if it has changed.
    pub(super) fn take_device_mtu(&mut self) -> Option<usize> {
        std::mem::take(&mut self.is_mtu_new).then_some(self.device_mtu)
    }

    /// The greatest packet for a peer that fits into one datagram; connections should keep to this size.
    pub(super) fn whole(&self, peer: PeerId) -> Option<usize> {
        Some(self.link(peer)?.session.as_ref()?.core.whole())
    }

    /// The device offers what the best peer takes; who sends more to another is told.
    pub(super) fn note_mtu(&mut self) {
        let sessions = self.links().filter_map(|link| link.session.as_ref());
        let most = sessions.map(|session| session.core.mtu()).max().unwrap_or(LEAST_MTU);
        let mtu = most.max(LEAST_MTU);
        if mtu != self.device_mtu {
            self.device_mtu = mtu;
            self.is_mtu_new = true;
        }
    }
}

//! From the cores to the socket.

use base::ip::ecn;
use tunnel::secure::{HEADER, OVERHEAD, PeerId, Sealer, TAG};
use tunnel::{PathId, Transmit};

use super::Shared;
use super::sockets::Way;
use crate::sys::{Head, Outbox};

/// Datagrams of one peer before the next one's turn; a train's worth.
const QUANTUM: usize = 64;

/// Seals and sends; only one thread at a time.
#[derive(Default)]
pub struct Transmitter {
    outbox: Outbox,
    /// The peer and the path of the datagrams in the outbox.
    whose: Option<(PeerId, PathId)>,
    /// The place of the socket for these datagrams.
    socket: usize,
    plain: Batch,
}

/// Datagrams of one peer, yet to be sealed.
#[derive(Default)]
pub struct Batch {
    /// The datagrams' octets, each datagram with room around it for sealing.
    octets: Vec<u8>,
    datagrams: Vec<(Transmit, usize)>,
    scratch: Vec<u8>,
}

/// Whose datagrams were filled into a batch.
pub struct Sending {
    pub peer: PeerId,
    pub path: PathId,
    pub sealer: Sealer,
    /// Where they leave from: on the first path if the peer is heard, on a further one if it can be used.
    pub way: Option<Way>,
}

impl Batch {
    fn clear(&mut self) {
        self.octets.clear();
        self.datagrams.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Octets of the datagrams, once sealed.
    pub fn octets(&self) -> u64 {
        self.octets.len() as u64
    }

    /// Takes what a core has ready, up to a quantum; whether that was all.
    pub fn fill(&mut self, mut poll: impl FnMut(&mut Vec<u8>) -> Option<Transmit>) -> bool {
        while self.datagrams.len() < QUANTUM {
            let Some(transmit) = poll(&mut self.scratch) else { return true };
            self.octets.extend_from_slice(&[0; HEADER]);
            self.octets.extend_from_slice(&self.scratch);
            self.octets.extend_from_slice(&[0; TAG]);
            self.datagrams.push((transmit, self.scratch.len() + OVERHEAD));
        }
        false
    }
}

impl Transmitter {
    /// Sends until nothing is ready or the socket is full.
    pub fn pump(&mut self, shared: &Shared) {
        loop {
            if !self.outbox.is_empty() && !self.flush(shared) {
                return;
            }
            let mut state = shared.state();
            let (now, unix) = shared.clocks();
            // What is filled from here on is sealed by this machine alone.
            if state.handle_wall_clock(now, unix) {
                shared.settle(state, now);
                state = shared.state();
            }
            self.plain.clear();
            let Some(sending) = state.fill(now, &mut self.plain) else {
                return;
            };
            drop(state);
            self.seal(shared, sending);
        }
    }

    /// Whether the socket took all.
    fn flush(&mut self, shared: &Shared) -> bool {
        let is_sent = shared.sockets.send(self.socket, &mut self.outbox);
        shared.counters.datagrams_refused.add(std::mem::take(&mut self.outbox.refused));
        if let (Some(len), Some(whose)) = (self.outbox.too_big.take(), self.whose) {
            let mut state = shared.state();
            let now = shared.now();
            state.handle_too_big(now, whose, len.saturating_sub(OVERHEAD));
        }
        if std::mem::take(&mut self.outbox.has_lost_source)
            && let Some((peer, _)) = self.whose
        {
            shared.state().lose_way(peer);
        }
        if !is_sent {
            shared.counters.socket_full.add(1);
        }
        is_sent
    }

    fn seal(&mut self, shared: &Shared, sending: Sending) {
        let Sending { peer, path, mut sealer, way } = sending;
        let mut chosen = None;
        let now = shared.now();
        self.whose = Some((peer, path));
        self.outbox.keeps_source = path != PathId::FIRST;
        let memory = self.outbox.memory();
        // The outbox is empty: its memory becomes what was filled, and the other way round.
        std::mem::swap(memory, &mut self.plain.octets);
        let mut start = 0;
        for &(transmit, len) in &self.plain.datagrams {
            let end = start + len;
            match sealer.seal(now, transmit.number, &mut self.outbox.memory()[start..end]) {
                // They all go to where the peer is; if it has moved meanwhile, the kernel may refuse the rest.
                Ok(to) => {
                    chosen = chosen.or_else(|| match path {
                        PathId::FIRST => shared.sockets.way(to, way),
                        _ => way,
                    });
                    match chosen {
                        Some(Way { socket, source, interface }) => {
                            self.socket = socket;
                            let class = class(transmit.dscp);
                            let head = Head { class, source, interface };
                            self.outbox.push_with(to, start, end, head);
                        }
                        None => shared.counters.datagrams_refused.add(1),
                    }
                }
                Err(_) => shared.counters.datagrams_unsealed.add(1),
            }
            start = end;
        }
    }
}

/// The traffic class of the outer header, if different from the socket's default; all datagrams are sent ECN-capable.
fn class(dscp: u8) -> Option<u8> {
    (dscp != 0).then_some(dscp << 2 | ecn::ECT_0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outer_header_has_a_dscp_and_is_ecn_capable() {
        assert_eq!(class(46), Some(0xba));
        assert_eq!(class(0), None);
    }
}

//! One end of a tunnel.

use std::collections::VecDeque;

use super::{Config, Stats};
use crate::rng::Rng;
use crate::time::Time;

/// One end of a tunnel to one peer.
#[derive(Debug)]
pub struct Tunnel {
    config: Config,
    stats: Stats,
    ingress: VecDeque<Vec<u8>>,
    egress: VecDeque<Vec<u8>>,
    next_number: u64,
}

/// A datagram that [`Tunnel::poll_transmit`] made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transmit {
    /// Its number, never used twice by one `Tunnel`: the nonce of the cipher. The low 32 bits are
    /// enough on the wire.
    pub number: u64,
    /// Whether it must not be fragmented and may well be too big: a probe for the path MTU.
    pub is_probe: bool,
}

/// Why an inner packet was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refused {
    /// The path is down: answer with ICMP destination unreachable.
    #[error("the path to the peer is down")]
    Down,
    /// The queue is full.
    #[error("the queue is full")]
    Full,
    /// Not an IP packet.
    #[error("not an IP packet")]
    Malformed,
    /// Answer with ICMP packet too big.
    #[error("the packet is too big, {mtu} octets fit")]
    TooBig {
        /// What fits.
        mtu: usize,
    },
}

/// What the driver should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The greatest inner packet is now of this many octets.
    Mtu(usize),
    /// The peer has been silent for too long. What waits is discarded.
    PathDown,
    /// The peer is heard.
    PathUp,
}

impl Tunnel {
    /// A tunnel to a peer whose keys were just agreed on.
    #[must_use]
    pub fn new(now: Time, config: Config, rng: Rng) -> Self {
        let _ = (now, rng);
        Self {
            config,
            stats: Stats::default(),
            ingress: VecDeque::new(),
            egress: VecDeque::new(),
            next_number: 0,
        }
    }

    /// Takes an inner IP packet to carry. How long it waits is decided here: it may be marked
    /// (ECN), or be dropped later where its flow does not know ECN.
    ///
    /// # Errors
    /// When it is not taken.
    pub fn handle_packet(&mut self, now: Time, packet: &[u8]) -> Result<(), Refused> {
        let _ = now;
        if packet.len() > self.mtu() {
            return Err(Refused::TooBig { mtu: self.mtu() });
        }
        self.stats.packets_in += 1;
        self.ingress.push_back(packet.to_vec());
        Ok(())
    }

    /// Takes the payload of an opened datagram of the peer, `is_marked` if the outer packet came with
    /// congestion experienced. The driver sends all as ECN capable, ECT(0). What cannot be read is
    /// counted.
    pub fn handle_datagram(&mut self, now: Time, number: u64, is_marked: bool, payload: &[u8]) {
        let _ = (now, number, is_marked);
        self.stats.datagrams_received += 1;
        self.egress.push_back(payload.to_vec());
    }

    /// The path has changed: the peer's address or our own. What was learnt of it is forgotten.
    pub fn handle_path_changed(&mut self, now: Time) {
        let _ = now;
    }

    /// The next inner packet to release, in place of what `out` holds.
    pub fn poll_packet(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let _ = now;
        let Some(packet) = self.egress.pop_front() else { return false };
        out.clear();
        out.extend_from_slice(&packet);
        self.stats.packets_out += 1;
        true
    }

    /// The payload of the next datagram to send, in place of what `out` holds; `None` while there
    /// is nothing to send or the rate forbids it (then [`Tunnel::next_timeout`] says until when).
    ///
    /// The choice is made now, so ask only while the bearer has room.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let _ = now;
        let packet = self.ingress.pop_front()?;
        out.clear();
        out.extend_from_slice(&packet);
        let number = self.next_number;
        self.next_number += 1;
        self.stats.datagrams_sent += 1;
        Some(Transmit { number, is_probe: false })
    }

    /// What the driver should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }

    /// When to call [`Tunnel::handle_timeout`] at the latest, and to poll again.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        None
    }

    /// The greatest inner packet, in octets.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.config.base_mtu - self.config.overhead - 8
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

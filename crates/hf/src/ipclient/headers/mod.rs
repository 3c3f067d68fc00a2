//! Compressed headers between two IP clients of ours, by what both know anyway.
//!
//! ```text
//!  datagram ─▶ Headers::wrap ─▶ U_PDU ~~~~ HF ~~~~ U_PDU ─▶ Headers::unwrap ─▶ datagram
//!                  │    first half octet:                         │
//!               Peer    4, 6     a datagram as it is            Peer
//!                       12 to 15 one with compressed headers
//!                       10       an announcement: a table of networks
//! ```
//!
//! Nothing is kept from one datagram to the next: the context is the tables of both ends, which the
//! announcements exchange, and each datagram is checked against it. So no loss can make the ends differ.
//! The octets and the reasons are in `docs/protocols/ipclient.md`.

mod announcement;
mod bits;
mod datagram;
mod held;
mod peer;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use announcement::Announcement;
use base::time::Time;

use super::route::Route;
use crate::s5066::Address;
use crate::s5066::sis::Mode;
use crate::s5066::sis::client::Received;
use crate::s5066::sis::primitive::Arrival;
pub use datagram::{Context, Undone};
use held::Held;
use peer::Peer;
pub use table::Table;

use super::stats::Headers as Stats;

/// Header compression: the peers with compressed headers, and their tables.
#[derive(Debug)]
pub(super) struct Headers {
    /// The nodes that routes lead to, no groups; none when nothing is compressed.
    peers: BTreeMap<Address, Peer>,
    held: Held,
    stats: Stats,
}

impl Headers {
    /// The tables follow from the routes.
    pub(super) fn new(now: Time, routes: &[Route], is_on: bool) -> Self {
        let nodes = routes.iter().map(|route| route.to).filter(|to| is_on && !to.is_group());
        let peers = nodes.map(|node| (node, Peer::new(now, Table::of(routes, node))));
        Self { peers: peers.collect(), held: Held::default(), stats: Stats::default() }
    }

    /// What this client told in an earlier binding has to be heard of again.
    pub(super) fn handle_bound(&mut self, now: Time) {
        self.peers.values_mut().for_each(|peer| peer.doubt(now));
    }

    /// No client takes what is sent to this node.
    pub(super) fn handle_unreceived(&mut self, now: Time, node: Address) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.doubt(now);
        }
    }

    /// The compressed form of a datagram, if its receiver is known to read it and it is shorter.
    pub(super) fn wrap(
        &self,
        now: Time,
        to: Address,
        mode: Mode,
        packet: &[u8],
    ) -> Option<Vec<u8>> {
        self.peers.get(&to)?.context(now, mode)?.compress(packet)
    }

    /// A datagram was handed over, in this compressed form if one is given.
    pub(super) fn handle_wrapped(&mut self, packet: &[u8], wrapped: Option<&[u8]>) {
        if let Some(wrapped) = wrapped {
            self.stats.compressed += 1;
            self.stats.octets_before += packet.len() as u64;
            self.stats.octets_after += wrapped.len() as u64;
        }
    }

    /// The announcement that goes along with a datagram to this node, if one is due.
    pub(super) fn due(&mut self, now: Time, to: Address, mode: Mode) -> Option<Vec<u8>> {
        self.tell(to, |peer| peer.due(now, mode))
    }

    /// An announcement to be sent by itself, and its destination.
    pub(super) fn urgent(&mut self, now: Time) -> Option<(Address, Vec<u8>)> {
        loop {
            let (&to, _) = self.peers.iter().find(|(_, peer)| peer.is_urgent())?;
            // One that may not be sent now is not urgent any more.
            if let Some(told) = self.tell(to, |peer| peer.urgent(now)) {
                return Some((to, told));
            }
        }
    }

    fn tell(
        &mut self,
        to: Address,
        which: impl FnOnce(&mut Peer) -> Option<Announcement>,
    ) -> Option<Vec<u8>> {
        let announcement = which(self.peers.get_mut(&to)?)?;
        self.stats.announcements_sent += 1;
        let mut u_pdu = Vec::new();
        announcement.emit(&mut u_pdu);
        Some(u_pdu)
    }

    /// The datagrams in a U_PDU from a client at our access point: none for an announcement, and none for octets that
    /// can be no datagram, which are counted.
    pub(super) fn unwrap(&mut self, now: Time, received: Received) -> Vec<Vec<u8>> {
        let Received { from, to, arrival, u_pdu, .. } = received;
        let first = u_pdu.first().map_or(0, |first| first >> 4);
        let is_arq = matches!(arrival, Arrival::Arq);
        let peer = self.peers.get_mut(&from).filter(|_| !to.is_group());
        if Context::is_compressed(first) {
            return self.restore(now, from, to, u_pdu, is_arq).into_iter().collect();
        }
        if first == Announcement::FIRST {
            let (Some(peer), Ok(said)) = (peer, Announcement::parse(&u_pdu)) else {
                self.stats.announcements_refused += 1;
                return Vec::new();
            };
            self.stats.announcements_received += 1;
            peer.handle_announcement(now, said, is_arq);
            let (held, dropped) = self.held.take(now, from);
            self.stats.unknown += dropped;
            let restored = held.into_iter();
            return restored
                .filter_map(|u_pdu| self.restore(now, from, to, u_pdu, is_arq))
                .collect();
        }
        if let Some(peer) = peer {
            peer.handle_plain(now, &u_pdu);
        }
        vec![u_pdu]
    }

    /// The datagram that was compressed, if it can be told now.
    fn restore(
        &mut self,
        now: Time,
        from: Address,
        to: Address,
        u_pdu: Vec<u8>,
        is_arq: bool,
    ) -> Option<Vec<u8>> {
        let Some(peer) = self.peers.get_mut(&from).filter(|_| !to.is_group()) else {
            self.stats.unknown += 1;
            return None;
        };
        match peer.handle_compressed(now, &u_pdu, is_arq) {
            Ok(packet) => {
                self.stats.restored += 1;
                return Some(packet);
            }
            Err(Undone::Unknown) => self.stats.unknown += self.held.push(now, from, u_pdu),
            Err(Undone::Check | Undone::TooLong | Undone::Unreadable) => {
                self.stats.mismatched += 1;
            }
        }
        None
    }

    pub(super) fn stats(&self) -> Stats {
        self.stats
    }
}

/// Whether a U_PDU is nothing but an announcement.
pub(super) fn is_announcement(u_pdu: &[u8]) -> bool {
    u_pdu.first().is_some_and(|first| first >> 4 == Announcement::FIRST)
}

//! Which of this host's addresses datagrams leave from: the one that the peer sends to, as long as it is heard.
//! A host with several uplinks is so answered by the address that was asked, which firewalls and address
//! translators on the way insist on.

use std::net::SocketAddr;

use proto::secure::{Incoming, PeerId};
use proto::time::Time;

use super::fresh::From;
use super::sockets::Way;
use super::state::{Link, State};

impl State {
    /// A datagram that is no data, or cannot be opened otherwise, and where it came to.
    pub(super) fn handle_other(
        &mut self,
        now: Time,
        from: SocketAddr,
        way: Way,
        datagram: &mut [u8],
    ) {
        // What it is, and why it was dropped, is counted there.
        let incoming = self.peers.handle_datagram(now, from, datagram);
        self.collect(now, Some((from, way)));
        if incoming == Incoming::Nothing
            && let Some(peer) = self.link_at(from).map(|link| link.peer)
        {
            self.note_way(peer, from, way);
        }
    }

    /// A genuine datagram of a peer came to this address of ours.
    pub(super) fn note_way(&mut self, peer: PeerId, from: SocketAddr, way: Way) {
        if self.peers.endpoint(peer) == Some(from)
            && let Some(link) = self.link_mut(peer)
        {
            link.way = Some(way);
        }
    }

    /// The kernel does not send from that address any more.
    pub(super) fn lose_way(&mut self, peer: PeerId) {
        let way = self.link(peer).and_then(|link| self.ports.loosened(link.way));
        if let Some(link) = self.link_mut(peer) {
            link.way = way;
        }
    }

    /// The next handshake or keepalive to send: from where, to where.
    pub(super) fn poll_control(&mut self, now: Time) -> Option<(From, SocketAddr, Vec<u8>)> {
        self.collect(now, None);
        self.control.pop_front().map(|(outgoing, from)| (from, outgoing.to, outgoing.datagram))
    }

    /// Takes what the keys have to send. What goes back to where a datagram came from leaves from where that
    /// came to.
    fn collect(&mut self, now: Time, came: Option<(SocketAddr, Way)>) {
        while let Some(outgoing) = self.peers.poll_transmit(now) {
            let from = match (came, outgoing.fresh) {
                (_, Some(fresh)) => self.fresh(now, fresh),
                (Some((from, way)), None) if from == outgoing.to => From::Usual(Some(way)),
                (Some(_) | None, None) => From::Usual(
                    self.link_at(outgoing.to)
                        .and_then(|link| self.ports.usual(link.way, link.fresh > 0)),
                ),
            };
            self.control.push_back((outgoing, from));
        }
    }

    fn link_at(&self, endpoint: SocketAddr) -> Option<&Link> {
        self.links().find(|link| self.peers.endpoint(link.peer) == Some(endpoint))
    }
}

//! Chooses the source address of datagrams: the address that the peer sends to, as long as the peer is heard.
//! So a host with several uplinks answers from the address that was asked, as firewalls and address translators on
//! the way demand.

use std::net::SocketAddr;

use base::time::Time;
use tunnel::secure::{Incoming, PeerId};

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
        // The peers count the datagram by kind, and by reason if dropped.
        let incoming = self.peers.handle_datagram(now, from, datagram);
        self.collect(now, Some((from, way)));
        if incoming == Incoming::Nothing
            && let Some(peer) = self.link_of(from).map(|link| link.peer)
        {
            self.note_way(peer, from, way);
        }
    }

    /// Notes our address at which a genuine datagram of a peer arrived.
    pub(super) fn note_way(&mut self, peer: PeerId, from: SocketAddr, way: Way) {
        let is_there = self.peers.endpoint(peer) == Some(from);
        let is_asked = !is_there && self.peers.asked(peer) == Some(from);
        match self.link_mut(peer) {
            Some(link) if is_there => link.way = Some(way.by_routes()),
            // An address translator lets the question pass only where the peer sends to. A route to a network that the
            // address is in may lead into a tunnel; the datagram did not come from there.
            Some(link) if is_asked => link.elsewhere = Some((from, way)),
            Some(_) | None => {}
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

    /// Takes the datagrams that the keys have to send. An answer to a datagram leaves from the address at which the
    /// datagram arrived.
    fn collect(&mut self, now: Time, came: Option<(SocketAddr, Way)>) {
        while let Some(outgoing) = self.peers.poll_transmit(now) {
            let from = match (came, outgoing.fresh) {
                (_, Some(fresh)) => self.fresh(now, fresh),
                (Some((from, way)), None) if from == outgoing.to => {
                    let is_asked =
                        self.links().any(|link| self.peers.asked(link.peer) == Some(from));
                    From::Usual(Some(if is_asked { way } else { way.by_routes() }))
                }
                (Some(_) | None, None) => From::Usual(self.way_to(outgoing.to)),
            };
            self.control.push_back((outgoing, from));
        }
    }

    /// The way to where a peer is, or is asked whether it has moved there.
    fn way_to(&self, to: SocketAddr) -> Option<Way> {
        let link = self.link_of(to)?;
        match link.elsewhere {
            Some((from, way)) if from == to => Some(way),
            Some(_) | None => self.ports.usual(link.way, link.fresh > 0),
        }
    }

    /// The peer that is at an address, or is asked whether it has moved there.
    fn link_of(&self, address: SocketAddr) -> Option<&Link> {
        let is_there = |link: &&Link| self.peers.endpoint(link.peer) == Some(address);
        let is_asked = |link: &&Link| self.peers.asked(link.peer) == Some(address);
        self.links().find(is_there).or_else(|| self.links().find(is_asked))
    }
}

//! Which of this host's addresses datagrams leave from: the one that the peer sends to, as long as it is heard.
//! A host with several uplinks is so answered by the address that was asked, which firewalls and address
//! translators on the way insist on.

use std::net::{IpAddr, SocketAddr};

use proto::secure::{Incoming, PeerId};
use proto::time::Time;

use super::state::{Link, State};

impl State {
    /// A datagram that is no data, or cannot be opened otherwise, and the address of ours that it came to.
    pub(super) fn handle_other(
        &mut self,
        now: Time,
        from: SocketAddr,
        to: Option<IpAddr>,
        datagram: &mut [u8],
    ) {
        // What it is, and why it was dropped, is counted there.
        let incoming = self.peers.handle_datagram(now, from, datagram);
        self.collect(now, Some((from, to)));
        if incoming == Incoming::Nothing
            && let Some(peer) = self.link_at(from).map(|link| link.peer)
        {
            self.note_source(peer, from, to);
        }
    }

    /// A genuine datagram of a peer came to this address of ours.
    pub(super) fn note_source(&mut self, peer: PeerId, from: SocketAddr, to: Option<IpAddr>) {
        if to.is_some()
            && self.peers.endpoint(peer) == Some(from)
            && let Some(link) = self.link_mut(peer)
        {
            link.source = to;
        }
    }

    /// The kernel does not send from that address any more.
    pub(super) fn lose_source(&mut self, peer: PeerId) {
        if let Some(link) = self.link_mut(peer) {
            link.source = None;
        }
    }

    /// The next handshake or keepalive to send: from where, to where.
    pub(super) fn poll_control(
        &mut self,
        now: Time,
    ) -> Option<(Option<IpAddr>, SocketAddr, Vec<u8>)> {
        self.collect(now, None);
        self.control.pop_front().map(|(outgoing, source)| (source, outgoing.to, outgoing.datagram))
    }

    /// Takes what the keys have to send. What goes back to where a datagram came from leaves from where that
    /// came to.
    fn collect(&mut self, now: Time, came: Option<(SocketAddr, Option<IpAddr>)>) {
        while let Some(outgoing) = self.peers.poll_transmit(now) {
            let source = match came {
                Some((from, to)) if from == outgoing.to => to,
                Some(_) | None => self.link_at(outgoing.to).and_then(|link| link.source),
            };
            self.control.push_back((outgoing, source));
        }
    }

    fn link_at(&self, endpoint: SocketAddr) -> Option<&Link> {
        self.links().find(|link| self.peers.endpoint(link.peer) == Some(endpoint))
    }
}

//! Status of a node: airtime, other stations, and waiting data.

use std::time::Duration;

use base::time::Time;

use super::Node;
use super::peer::Peer;
use crate::s5066::Address;
use crate::s5066::service::PRIORITIES;

/// Another station.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Station {
    /// Its address.
    pub address: Address,
    /// How the link to it is.
    pub link: Link,
    /// When it was last heard; `None` if it never was.
    pub heard_at: Option<Time>,
    /// Octets waiting for the station, in PDUs with nothing sent yet, over all priorities.
    pub waiting: usize,
    /// Whether the station has not acknowledged everything sent so far.
    pub is_sending: bool,
}

/// How a physical link is (Annex B).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Link {
    /// There is none.
    Down,
    /// The station is called.
    Calling,
    /// The station did not answer, and is called again later.
    Pausing,
    /// The link is established.
    Up,
}

/// Use of the air since the node began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Airtime {
    /// The time this node spent transmitting.
    pub transmitted: Duration,
    /// The time this node heard others.
    pub heard: Duration,
    /// Octets of data frames sent by this node for the first time.
    pub sent: u64,
    /// Octets of S_PDUs received by this node.
    pub delivered: u64,
}

impl Node {
    /// The stations that it knows.
    pub fn stations(&self) -> impl Iterator<Item = Station> {
        self.peers.iter().map(|(&address, peer)| peer.status(address))
    }

    /// Octets of U_PDUs with nothing sent yet, by priority: at the clients' side and for all stations. Expedited ones
    /// count with the highest priority.
    #[must_use]
    pub fn queues(&self) -> [usize; PRIORITIES] {
        let mut queues = self.sis.queues();
        let peers = self.peers.values().map(|peer| &peer.waiting);
        for waiting in peers.chain([&self.datagrams]) {
            let all = queues.iter_mut().zip(waiting.by_priority());
            all.for_each(|(sum, octets)| *sum += octets);
        }
        queues
    }

    /// How the air was used until now, current transmission and reception included.
    #[must_use]
    pub fn airtime(&self, now: Time) -> Airtime {
        let turn = self.turn.as_ref().map_or(Duration::ZERO, |turn| turn.lasts(now));
        let reception = self.reception.as_ref().map_or(Duration::ZERO, |it| it.lasts(now));
        Airtime {
            transmitted: Duration::from_nanos(self.stats.keyed_nanos) + turn,
            heard: Duration::from_nanos(self.stats.received.nanos) + reception,
            sent: self.stats.sent.data.octets,
            delivered: self.stats.s_pdus.delivered.octets,
        }
    }
}

impl Peer {
    fn status(&self, address: Address) -> Station {
        let link = match () {
            () if self.link.is_up() => Link::Up,
            () if self.contact.is_pausing() => Link::Pausing,
            () if self.link.is_calling() => Link::Calling,
            () => Link::Down,
        };
        Station {
            address,
            link,
            heard_at: Some(self.contact.heard_at).filter(|&at| at > Time::ZERO),
            waiting: self.waiting.octets(0),
            is_sending: self.has_data(),
        }
    }
}

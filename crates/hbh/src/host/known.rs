//! The peers of HBH, and for a while former peers.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use base::time::Time;

use crate::neighbours::Place;
use crate::{Peer, PeerConfig};

/// The largest number of former peers remembered: their packets may still wait for a turn.
const GONE: usize = 64;

/// A neighbour that speaks HBH with us.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Known {
    /// The neighbour's place.
    pub place: Place,
    /// The neighbour's addresses.
    pub addresses: Vec<IpAddr>,
    /// Since when the neighbour speaks HBH.
    pub since: Time,
    /// The relay's configuration of the neighbour.
    pub config: PeerConfig,
}

/// All peers and former peers.
#[derive(Debug, Default)]
pub struct KnownPeers {
    up: BTreeMap<Peer, Known>,
    gone: VecDeque<(Peer, Known)>,
}

impl KnownPeers {
    pub fn add(&mut self, peer: Peer, known: Known) {
        self.up.insert(peer, known);
    }

    /// Moves a peer to the former peers.
    pub fn remove(&mut self, peer: Peer) -> Option<&Known> {
        let known = self.up.remove(&peer)?;
        if self.gone.len() == GONE {
            self.gone.pop_front();
        }
        self.gone.push_back((peer, known));
        self.gone.back().map(|(_, known)| known)
    }

    /// The peers that are up, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Peer, &Known)> {
        self.up.iter().map(|(&peer, known)| (peer, known))
    }

    /// A peer that is up.
    pub fn up(&self, peer: Peer) -> Option<&Known> {
        self.up.get(&peer)
    }

    /// A peer that is up, to be changed.
    pub fn up_mut(&mut self, peer: Peer) -> Option<&mut Known> {
        self.up.get_mut(&peer)
    }

    /// A peer that is up, or was.
    pub fn get(&self, peer: Peer) -> Option<&Known> {
        let gone = || self.gone.iter().find(|(gone, _)| *gone == peer).map(|(_, known)| known);
        self.up.get(&peer).or_else(gone)
    }
}

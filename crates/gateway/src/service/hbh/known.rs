//! The peers of HBH, and for a while former peers.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use base::time::Time;
use hbh::Peer;
use hbh::neighbours::Place;

/// Peers remembered that are gone: packets of theirs may still wait for their turn.
const GONE: usize = 64;

/// The place of a peer and its addresses.
#[derive(Clone, Debug)]
pub struct Known {
    pub(super) place: Place,
    pub(super) addresses: Vec<IpAddr>,
    /// Since when it speaks HBH.
    pub(super) since: Time,
}

/// All of them.
#[derive(Debug, Default)]
pub struct KnownPeers {
    up: BTreeMap<Peer, Known>,
    gone: VecDeque<(Peer, Known)>,
}

impl KnownPeers {
    pub fn add(&mut self, peer: Peer, known: Known) {
        self.up.insert(peer, known);
    }

    pub fn remove(&mut self, peer: Peer) {
        let Some(known) = self.up.remove(&peer) else { return };
        if self.gone.len() == GONE {
            self.gone.pop_front();
        }
        self.gone.push_back((peer, known));
    }

    /// A peer that is up.
    pub fn up(&self, peer: Peer) -> Option<&Known> {
        self.up.get(&peer)
    }

    /// A peer that is up, or was.
    pub fn get(&self, peer: Peer) -> Option<&Known> {
        let gone = || self.gone.iter().find(|(gone, _)| *gone == peer).map(|(_, known)| known);
        self.up.get(&peer).or_else(gone)
    }
}

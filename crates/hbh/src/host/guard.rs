//! Proof that packets between neighbours are theirs, when there is a group key.

use std::collections::BTreeMap;

use crate::Peer;
use crate::auth::{Channel, End, GroupKey, TRAILER, Untrusted};

/// The key, and the conversations under it.
#[derive(Debug)]
pub struct Guard {
    key: Option<GroupKey>,
    channels: BTreeMap<Peer, Channel>,
    opened: Vec<u8>,
}

impl Guard {
    pub fn new(key: Option<GroupKey>) -> Self {
        Self { key, channels: BTreeMap::new(), opened: Vec::new() }
    }

    pub fn key(&self) -> Option<&GroupKey> {
        self.key.as_ref()
    }

    /// Octets that each packet to a neighbour is longer.
    pub fn overhead(&self) -> usize {
        if self.key.is_some() { TRAILER } else { 0 }
    }

    /// Begins a conversation with a peer; an existing conversation stays, and its numbers go on.
    pub fn add_peer(&mut self, peer: Peer, ours: End, theirs: End) {
        if let Some(key) = &self.key {
            self.channels.entry(peer).or_insert_with(|| key.channel(ours, theirs));
        }
    }

    pub fn remove_peer(&mut self, peer: Peer) {
        self.channels.remove(&peer);
    }

    /// Seals a packet for `peer`; false when the packet cannot be sent to this peer.
    pub fn seal(&mut self, peer: Peer, packet: &mut Vec<u8>) -> bool {
        self.key.is_none()
            || self.channels.get_mut(&peer).is_some_and(|channel| channel.seal(packet).is_ok())
    }

    /// The packet that `peer` made ready.
    pub fn open<'a>(&'a mut self, peer: Peer, packet: &'a [u8]) -> Result<&'a [u8], Untrusted> {
        if self.key.is_none() {
            return Ok(packet);
        }
        let channel = self.channels.get_mut(&peer).ok_or(Untrusted::Forged)?;
        channel.open(packet, &mut self.opened)?;
        Ok(&self.opened)
    }
}

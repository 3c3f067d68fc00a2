//! The neighbour on a link, and the state of the adjacency (RFC 2328, 10).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use base::time::{Time, earliest};

use super::wire::{Description, Header, Key};

/// How far a router and its neighbour are.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum State {
    /// The neighbour was heard, but has not confirmed hearing us.
    Init,
    /// Both hear each other, and agree on who leads the exchange.
    ExStart,
    /// Both describe their databases.
    Exchange,
    /// What we lack is under way.
    Loading,
    /// Both know the same: the link counts.
    Full,
}

/// A neighbour.
#[derive(Debug)]
pub(super) struct Neighbour {
    /// Its number.
    pub(super) id: Ipv4Addr,
    /// Its address on the link.
    pub(super) address: Ipv4Addr,
    /// When it is given up.
    pub(super) dead_at: Time,
    pub(super) state: State,
    pub(super) exchange: Exchange,
    pub(super) wanted: Wanted,
    pub(super) owed: Owed,
}

/// The exchange of descriptions.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Whether we lead it.
    pub(super) is_master: bool,
    /// Sequence number of the description in flight.
    pub(super) number: u32,
    /// What is still to be described.
    pub(super) left: VecDeque<Key>,
    /// The part that we sent last, or send next.
    pub(super) sent: Option<Description>,
    /// Flags, options and number of the latest description received.
    pub(super) heard: Option<([bool; 3], u8, u32)>,
    /// Whether our part is to be sent.
    pub(super) is_owed: bool,
    /// When it is to be sent again.
    pub(super) again_at: Option<Time>,
}

/// What the neighbour has and we lack.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) lsas: BTreeMap<Key, Header>,
    /// Wanted LSAs that were requested and have not arrived.
    pub(super) asked: BTreeSet<Key>,
    pub(super) again_at: Option<Time>,
}

/// What the neighbour is to get.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// LSAs that the neighbour has to acknowledge, each with the time of its retransmission; `None` while it waits to
    /// be sent now.
    pub(super) lsas: BTreeMap<Key, Option<Time>>,
    /// LSAs that the neighbour requested, or of which the neighbour has an old instance.
    pub(super) answers: BTreeSet<Key>,
}

impl Neighbour {
    pub(super) fn new(id: Ipv4Addr, address: Ipv4Addr, dead_at: Time) -> Self {
        Self {
            id,
            address,
            dead_at,
            state: State::Init,
            exchange: Exchange::default(),
            wanted: Wanted::default(),
            owed: Owed::default(),
        }
    }

    /// Returns to a state and forgets the previous exchange.
    pub(super) fn reset(&mut self, state: State) {
        self.state = state;
        self.exchange = Exchange { number: self.exchange.number, ..Exchange::default() };
        self.wanted = Wanted::default();
        self.owed = Owed::default();
    }

    /// Whether LSAs are flooded to it.
    pub(super) fn takes_lsas(&self) -> bool {
        self.state >= State::Exchange
    }

    /// Makes what is due to be sent again owed; how many LSAs.
    pub(super) fn handle_timeout(&mut self, now: Time) -> u64 {
        let is_due = |at: &mut Time| *at <= now;
        if self.exchange.again_at.take_if(is_due).is_some() {
            self.exchange.is_owed = true;
        }
        if self.wanted.again_at.take_if(is_due).is_some() {
            self.wanted.asked.clear();
        }
        let mut again = 0;
        for at in self.owed.lsas.values_mut() {
            again += u64::from(at.take_if(is_due).is_some());
        }
        again
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let again = earliest(self.exchange.again_at, self.wanted.again_at);
        let lsas = self.owed.lsas.values().flatten().min().copied();
        earliest(Some(self.dead_at), earliest(again, lsas))
    }
}

impl Wanted {
    /// What a request would ask for now. One is under way at a time.
    pub(super) fn is_askable(&self) -> bool {
        !self.lsas.is_empty() && self.asked.is_empty()
    }

    /// Forgets an LSA that came.
    pub(super) fn remove(&mut self, key: &Key) {
        self.lsas.remove(key);
        self.asked.remove(key);
        if self.asked.is_empty() {
            self.again_at = None;
        }
    }
}

impl Owed {
    /// Has an LSA sent, in its newest instance, until it is acknowledged.
    pub(super) fn add(&mut self, key: Key) {
        self.lsas.insert(key, None);
    }

    /// Takes an acknowledgement; false when none was due.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.lsas.remove(key).is_some()
    }

    /// What is to be sent now.
    pub(super) fn ready(&self) -> BTreeSet<Key> {
        let lsas = self.lsas.iter().filter(|(_, again_at)| again_at.is_none());
        lsas.map(|(key, _)| key).chain(&self.answers).copied().collect()
    }

    pub(super) fn sent(&mut self, key: &Key, again_at: Time) {
        self.answers.remove(key);
        if let Some(at) = self.lsas.get_mut(key) {
            *at = Some(again_at);
        }
    }

    /// Gives up sending an LSA.
    pub(super) fn forget(&mut self, key: &Key) {
        self.answers.remove(key);
        self.lsas.remove(key);
    }
}

//! Floods LSAs to all routers, hop by hop, until every neighbour has acknowledged (RFC 2328, 13).

use std::cmp::Ordering;

use base::time::Time;

use super::neighbour::State;
use super::router::Ospf;
use super::stats::Counter;
use super::wire::{Header, Key, Lsa};

impl Ospf {
    /// Takes an LSA of an update.
    pub(super) fn handle_lsa(&mut self, now: Time, interface: usize, lsa: Lsa) {
        if !lsa.header.key.is_known() || !lsa.is_intact() {
            self.stats.count(Counter::LsasDamaged);
            return;
        }
        let header = Header { age: lsa.header.age.min(Header::MAX_AGE), ..lsa.header };
        let key = header.key;
        let known = self.database.get(&key).map(|entry| entry.header(now));
        if header.is_over() && known.is_none() && !self.is_exchanging() {
            self.acknowledge_at_once(interface, header);
            return;
        }
        match known.map_or(Ordering::Greater, |known| header.newness(&known)) {
            Ordering::Greater => self.handle_newer(now, interface, lsa),
            Ordering::Equal | Ordering::Less if self.is_wanted(interface, &key) => {
                self.refuse_answer(interface);
            }
            Ordering::Equal => {
                self.stats.count(Counter::LsasDuplicate);
                // What it sends it has: that acknowledges ours.
                let is_implied = self.peer_mut(interface).is_some_and(|it| it.owed.remove(&key));
                if !is_implied {
                    self.acknowledge_at_once(interface, header);
                }
            }
            Ordering::Less => self.handle_older(now, interface, key),
        }
    }

    fn handle_newer(&mut self, now: Time, interface: usize, lsa: Lsa) {
        let (header, key) = (lsa.header, lsa.header.key);
        let came_at = self.database.get(&key).and_then(|entry| entry.came_at);
        if came_at.is_some_and(|at| now.since(at) < self.config.min_ls_arrival) {
            self.stats.count(Counter::LsasEarly);
            return;
        }
        let is_own = Some(key.router) == self.id;
        let most = self.config.bounds.lsas;
        let delay = self.config.ack_delay;
        if let Some(link) = self.links.get_mut(&interface) {
            link.acks.push_delayed(now, delay, header, most);
        }
        if !is_own && !self.database.has_room(&lsa, &self.config.bounds) {
            self.stats.count(Counter::LsasFull);
            if let Some(peer) = self.peer_mut(interface) {
                peer.wanted.remove(&key);
            }
            self.load(interface);
            return;
        }
        for link in self.links.values_mut() {
            if let Some(peer) = &mut link.neighbour {
                peer.owed.remove(&key);
            }
        }
        self.install(now, lsa, Some(now));
        self.flood(now, key, Some(interface));
        if is_own {
            self.reclaim(now, &header);
        }
    }

    /// Sends our newer instance to a neighbour that sent an older one.
    fn handle_older(&mut self, now: Time, interface: usize, key: Key) {
        self.stats.count(Counter::LsasOld);
        let least = self.config.min_ls_arrival;
        let Some(entry) = self.database.get_mut(&key) else { return };
        let header = entry.header(now);
        if header.is_over() && header.number == Header::LAST {
            // Its numbers are about to begin from the first again.
            return;
        }
        if entry.returned_at.is_some_and(|at| now.since(at) < least) {
            return;
        }
        entry.returned_at = Some(now);
        if let Some(peer) = self.peer_mut(interface) {
            peer.owed.answers.insert(key);
        }
    }

    pub(super) fn install(&mut self, now: Time, lsa: Lsa, came_at: Option<Time>) {
        self.stats.count(Counter::LsasInstalled);
        self.is_outdated = true;
        self.database.install(now, lsa, came_at);
    }

    /// Sends an LSA of the database to all neighbours except the one that sent it.
    pub(super) fn flood(&mut self, now: Time, key: Key, from: Option<usize>) {
        let Some(header) = self.database.get(&key).map(|entry| entry.header(now)) else { return };
        let mut ready = Vec::new();
        for (at, link) in &mut self.links {
            let Some(peer) = link.neighbour.as_mut().filter(|peer| peer.takes_lsas()) else {
                continue;
            };
            if let Some(wanted) = peer.wanted.lsas.get(&key) {
                let newness = header.newness(wanted);
                if newness == Ordering::Less {
                    continue;
                }
                peer.wanted.remove(&key);
                ready.push(*at);
                if newness == Ordering::Equal {
                    continue;
                }
            }
            if from != Some(*at) {
                peer.owed.add(key);
            }
        }
        for interface in ready {
            self.load(interface);
        }
    }

    pub(super) fn handle_acknowledgement(
        &mut self,
        now: Time,
        interface: usize,
        headers: &[Header],
    ) {
        for header in headers {
            let known = self.database.get(&header.key).map(|entry| entry.header(now));
            let is_known = known.is_some_and(|known| known.newness(header) == Ordering::Equal);
            let peer = self.peer_mut(interface).filter(|_| is_known);
            if !peer.is_some_and(|peer| peer.owed.remove(&header.key)) {
                self.stats.count(Counter::AcknowledgementsStray);
            }
        }
    }

    /// Forgets LSAs that are over, once all neighbours know; whether there were any.
    pub(super) fn forget_over(&mut self) -> bool {
        if self.is_exchanging() {
            return false;
        }
        let peers = || self.links.values().filter_map(|link| link.neighbour.as_ref());
        let is_owed = |key: &&Key| peers().any(|peer| peer.owed.lsas.contains_key(key));
        let done: Vec<Key> = self.database.over().filter(|key| !is_owed(key)).copied().collect();
        for key in &done {
            self.database.remove(key);
        }
        self.stats.add(Counter::LsasFlushed, done.len() as u64);
        !done.is_empty()
    }

    /// Whether an exchange with any neighbour is running: until its end nothing is forgotten.
    fn is_exchanging(&self) -> bool {
        let mut peers = self.links.values().filter_map(|link| link.neighbour.as_ref());
        peers.any(|peer| matches!(peer.state, State::Exchange | State::Loading))
    }

    fn is_wanted(&mut self, interface: usize, key: &Key) -> bool {
        self.peer_mut(interface).is_some_and(|peer| peer.wanted.lsas.contains_key(key))
    }

    fn acknowledge_at_once(&mut self, interface: usize, header: Header) {
        let most = self.config.bounds.lsas;
        if let Some(link) = self.links.get_mut(&interface) {
            link.acks.push_direct(header, most);
        }
    }
}

//! Database exchange: two neighbours describe their databases, and request missing LSAs (RFC 2328, 10.6 to 10.9).

use std::cmp::Ordering;
use std::collections::VecDeque;

use base::time::Time;

use super::neighbour::{Neighbour as Peer, State};
use super::router::{Link, Ospf};
use super::stats::Counter;
use super::wire::{self, Description, Header, Key, options};

/// Octets of an LSA's header.
const EACH: usize = super::router::HEADERS.1;

impl Ospf {
    /// Begins an exchange: each claims to lead it.
    pub(super) fn begin_exchange(&mut self, interface: usize) {
        let fresh = u32::try_from(self.rng.bits() & 0xffff).unwrap_or_default();
        let mtu = self.mtu(interface);
        self.set_state(interface, State::ExStart);
        let Some(peer) = self.peer_mut(interface) else { return };
        // Each exchange uses fresh sequence numbers.
        let number = peer.exchange.number.wrapping_add(1 + fresh);
        peer.exchange.number = number;
        peer.exchange.is_master = true;
        peer.exchange.is_owed = true;
        peer.exchange.sent = Some(Description {
            mtu,
            options: options::EXTERNAL,
            is_first: true,
            has_more: true,
            is_master: true,
            number,
            headers: Vec::new(),
        });
    }

    /// Restarts the exchange after a packet of the neighbour that calls for a new one.
    fn restart_exchange(&mut self, interface: usize) {
        self.stats.count(Counter::ExchangesRestarted);
        self.begin_exchange(interface);
    }

    fn mtu(&self, interface: usize) -> u16 {
        let room = self.links.get(&interface).map_or(0, Link::room);
        u16::try_from(room + base::ip::V4_HEADER).unwrap_or(u16::MAX)
    }

    pub(super) fn handle_description(&mut self, now: Time, interface: usize, it: &Description) {
        if it.mtu > self.mtu(interface) {
            self.stats.count(Counter::MtuMismatches);
            return;
        }
        let Some(own) = self.id else { return };
        let state = self.peer_mut(interface).map(|peer| peer.state);
        if state == Some(State::Init) {
            // A description also proves that the neighbour hears us.
            self.begin_exchange(interface);
        }
        let Some(peer) = self.peer_mut(interface) else { return };
        let heard = ([it.is_first, it.has_more, it.is_master], it.options, it.number);
        if peer.state == State::ExStart {
            let claims = it.is_first && it.has_more && it.is_master && it.headers.is_empty();
            let follows = !it.is_first && !it.is_master && it.number == peer.exchange.number;
            if claims && peer.id > own {
                peer.exchange.is_master = false;
                peer.exchange.number = it.number;
            } else if !follows || peer.id > own {
                return;
            }
            peer.state = State::Exchange;
            peer.exchange.again_at = None;
            peer.exchange.is_owed = false;
            peer.exchange.heard = Some(heard);
            self.list(now, interface);
            self.handle_part(now, interface, it);
            return;
        }

        let exchange = &mut peer.exchange;
        if exchange.heard == Some(heard) {
            // The answer of a slave was lost, and what a master sends again comes by its own time.
            exchange.is_owed |= !exchange.is_master;
            return;
        }
        let expected = exchange.number.wrapping_add(u32::from(!exchange.is_master));
        let is_other = exchange.heard.is_some_and(|(_, options, _)| options != it.options);
        if peer.state > State::Exchange
            || it.is_first
            || is_other
            || it.is_master == exchange.is_master
            || it.number != expected
        {
            self.restart_exchange(interface);
            return;
        }
        exchange.heard = Some(heard);
        exchange.number = it.number;
        self.handle_part(now, interface, it);
    }

    /// Lists what is to be described. What is over already is sent instead.
    fn list(&mut self, now: Time, interface: usize) {
        let mut left = VecDeque::new();
        let mut over = Vec::new();
        let room = self.links.get(&interface).map_or(0, Link::room).saturating_sub(wire::UPDATE);
        for (key, entry) in self.database.iter() {
            let header = entry.header(now);
            if usize::from(header.length) > room {
                // The neighbour would ask for it for ever.
                self.stats.count(Counter::LsasTooBig);
            } else if header.is_over() {
                over.push(*key);
            } else {
                left.push_back(*key);
            }
        }
        let Some(peer) = self.peer_mut(interface) else { return };
        over.into_iter().for_each(|key| peer.owed.add(key));
        peer.exchange.left = left;
        peer.exchange.sent = None;
    }

    /// Takes a part of the neighbour's description, and says our next one.
    fn handle_part(&mut self, now: Time, interface: usize, it: &Description) {
        if it.headers.iter().any(|header| !header.key.is_known()) {
            self.restart_exchange(interface);
            return;
        }
        let lacks = |header: &&Header| {
            let known = self.database.get(&header.key).map(|entry| entry.header(now));
            known.is_none_or(|known| known.newness(header) == Ordering::Less)
        };
        let lacking: Vec<Header> = it.headers.iter().filter(lacks).copied().collect();
        // Does not request LSAs that have no room: the adjacency forms without them.
        let most = self.config.bounds.lsas + 1;
        let mtu = self.mtu(interface);
        let Some(link) = self.links.get_mut(&interface) else { return };
        let room = link.entries(wire::DESCRIPTION, EACH);
        let Some(peer) = &mut link.neighbour else { return };
        for header in lacking {
            if peer.wanted.lsas.len() < most || peer.wanted.lsas.contains_key(&header.key) {
                peer.wanted.lsas.insert(header.key, header);
            } else {
                self.stats.count(Counter::LsasFull);
            }
        }

        let exchange = &mut peer.exchange;
        exchange.again_at = None;
        let said_all = exchange.sent.as_ref().is_some_and(|sent| !sent.has_more);
        if exchange.is_master && said_all && !it.has_more {
            self.end_exchange(interface);
            return;
        }
        let is_master = exchange.is_master;
        if is_master {
            exchange.number = exchange.number.wrapping_add(1);
        }
        let number = exchange.number;
        let part: Vec<Key> = {
            let len = room.min(exchange.left.len());
            exchange.left.drain(..len).collect()
        };
        let has_more = !exchange.left.is_empty();
        let known = part.iter().filter_map(|key| Some(self.database.get(key)?.header(now)));
        exchange.sent = Some(Description {
            mtu,
            options: options::EXTERNAL,
            is_first: false,
            has_more,
            is_master,
            number,
            headers: known.collect(),
        });
        exchange.is_owed = true;
        if !is_master && !has_more && !it.has_more {
            self.end_exchange(interface);
        }
    }

    fn end_exchange(&mut self, interface: usize) {
        if let Some(peer) = self.peer_mut(interface) {
            peer.state = State::Loading;
        }
        self.load(interface);
    }

    /// Ends the loading where nothing is lacking.
    pub(super) fn load(&mut self, interface: usize) {
        let Some(peer) = self.peer_mut(interface) else { return };
        if peer.state == State::Loading && peer.wanted.lsas.is_empty() {
            self.set_state(interface, State::Full);
        }
    }

    pub(super) fn handle_request(&mut self, interface: usize, keys: &[Key]) {
        if keys.iter().any(|key| self.database.get(key).is_none()) {
            self.restart_exchange(interface);
            return;
        }
        if let Some(peer) = self.peer_mut(interface) {
            peer.owed.answers.extend(keys);
        }
    }

    /// The neighbour's word of an LSA that we asked for turned out to be wrong.
    pub(super) fn refuse_answer(&mut self, interface: usize) {
        self.restart_exchange(interface);
    }
}

impl Peer {
    /// The next part of the description to send.
    pub(super) fn poll_description(&mut self, again_at: Time) -> Option<Description> {
        let exchange = &mut self.exchange;
        if !std::mem::take(&mut exchange.is_owed) {
            return None;
        }
        // Only the master sends unasked.
        exchange.again_at =
            (exchange.is_master && self.state <= State::Exchange).then_some(again_at);
        exchange.sent.clone()
    }
}

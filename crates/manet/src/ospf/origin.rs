//! Makes the router's own LSA (RFC 2328, 12.4 and 13.4).

use std::net::IpAddr;

use base::ip::Prefix;
use base::time::Time;

use super::greeting::mask;
use super::neighbour::State;
use super::router::Ospf;
use super::stats::Counter;
use super::wire::{Header, Key, Lsa, Point, RouterLsa, link, options};

impl Ospf {
    /// Says that the router's own LSA may have changed.
    pub(super) fn originate_soon(&mut self) {
        self.own.is_wanted = true;
    }

    /// Makes a new instance of the router's own LSA if that is due and needed.
    pub(super) fn originate(&mut self, now: Time) {
        let Some(id) = self.id else { return };
        let made_at = self.own.made_at;
        if made_at.is_some_and(|at| at + self.config.refresh_interval <= now) {
            self.own.is_forced = true;
        }
        self.own.is_wanted |= self.own.is_forced;
        let is_early = made_at.is_some_and(|at| at + self.config.min_ls_interval > now);
        if !self.own.is_wanted || is_early {
            return;
        }
        let key = Key::of_router(id);
        let mut body = Vec::new();
        self.say().emit(&mut body);
        let known = self.database.get(&key);
        if !self.own.is_forced && known.is_some_and(|known| known.body() == body) {
            self.own.is_wanted = false;
            return;
        }
        if self.own.is_wrapping {
            if known.is_some() {
                return;
            }
            self.own.is_wrapping = false;
            self.own.number = None;
        }
        let number = match self.own.number {
            None => Header::FIRST,
            Some(Header::LAST) => {
                self.own.is_wrapping = true;
                self.database.end(now, &key);
                self.flood(now, key, None);
                return;
            }
            Some(number) => number + 1,
        };
        self.stats.count(Counter::Originations);
        self.own.number = Some(number);
        self.own.made_at = Some(now);
        (self.own.is_wanted, self.own.is_forced) = (false, false);
        self.install(now, Lsa::new(key, options::EXTERNAL, number, &body), None);
        self.flood(now, key, None);
    }

    /// A neighbour has a newer LSA in this router's name: from before a restart.
    pub(super) fn reclaim(&mut self, now: Time, header: &Header) {
        self.stats.count(Counter::OriginationsRaised);
        let is_own = self.id.map(Key::of_router) == Some(header.key);
        if is_own {
            self.own.number = Some(header.number);
            (self.own.is_wanted, self.own.is_forced) = (true, true);
        } else {
            // The router has nothing of this kind left to announce.
            self.database.end(now, &header.key);
            self.flood(now, header.key, None);
        }
    }

    /// Builds the router LSA from the present links.
    fn say(&self) -> RouterLsa {
        let mut links = Vec::new();
        let metric = self.config.cost;
        for link in self.links.values() {
            let address = link.interface.address;
            if let Some(peer) = link.neighbour.as_ref().filter(|it| it.state == State::Full) {
                let data = address.to_bits();
                links.push(Point { id: peer.id, data, kind: link::POINT_TO_POINT, metric });
            }
            let data = mask(self.config.link_bits);
            let id = (address.to_bits() & data).into();
            links.push(Point { id, data, kind: link::STUB, metric });
        }
        for network in self.config.attached.iter().map(Prefix::network) {
            if let IpAddr::V4(id) = network.address() {
                let data = mask(network.bits());
                links.push(Point { id, data, kind: link::STUB, metric: 0 });
            }
        }
        RouterLsa { flags: 0, links }
    }
}

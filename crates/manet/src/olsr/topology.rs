//! Content of flooded messages: links between other nodes, their addresses, and the networks behind them; also
//! remembers the messages received (RFC 3626, 3.4, 5.4, 9.5 and 12.5).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use base::ip::Prefix;
use base::time::Time;

use super::config::Bounds;
use super::is_node;
use super::neighbourhood::all_of;
use super::soft::Soft;
use super::stats::{Counter, Stats};
use super::wire::{Addresses, Hna, Seq, Tc};

/// State of nodes beyond the neighbourhood.
#[derive(Debug)]
pub struct Topology {
    /// Links announced by nodes, with the ANSN of the announcement.
    links: Soft<(Ipv4Addr, Ipv4Addr), Seq>,
    /// Main addresses by the others.
    aliases: Soft<Ipv4Addr, Ipv4Addr>,
    /// Gateways and the networks behind them.
    networks: Soft<(Ipv4Addr, Prefix), ()>,
    duplicates: Soft<(Ipv4Addr, u16), Copies>,
}

/// What was done with a message.
#[derive(Clone, Debug, Default)]
struct Copies {
    /// The interfaces on which copies came in.
    interfaces: BTreeSet<usize>,
    is_forwarded: bool,
}

impl Topology {
    pub fn new(bounds: &Bounds) -> Self {
        Self {
            links: Soft::new(bounds.topology),
            aliases: Soft::new(bounds.aliases),
            networks: Soft::new(bounds.networks),
            duplicates: Soft::new(bounds.duplicates),
        }
    }

    /// Whether a message came before.
    pub fn is_duplicate(&self, originator: Ipv4Addr, seq: Seq) -> bool {
        self.duplicates.contains(&(originator, seq.0))
    }

    /// Remembers a message that came in on an interface, and whether it may be forwarded now: only
    /// once, and on hearing it for the first time there. `is_asked` is whether it is to be.
    pub fn remember(
        &mut self,
        until: Time,
        (originator, seq): (Ipv4Addr, Seq),
        interface: usize,
        is_asked: bool,
        stats: &mut Stats,
    ) -> bool {
        let key = (originator, seq.0);
        if !self.duplicates.contains(&key) {
            if self.duplicates.make_room() {
                stats.count(Counter::DuplicatesForgotten);
            }
            self.duplicates.renew(key, until, Copies::default());
        }
        let Some(copies) = self.duplicates.get_mut(&key) else { return false };
        let is_first = copies.interfaces.insert(interface) && !copies.is_forwarded;
        copies.is_forwarded |= is_first && is_asked;
        is_first && is_asked
    }

    /// Takes a TC message; whether it changed a link.
    pub fn handle_tc(
        &mut self,
        until: Time,
        originator: Ipv4Addr,
        tc: &Tc<'_>,
        stats: &mut Stats,
    ) -> bool {
        let known = self.links.range(all_of(originator)).next();
        if known.is_some_and(|(_, ansn)| ansn.is_after(tc.ansn)) {
            stats.count(Counter::TcOld);
            return false;
        }
        let is_told = |address: &Ipv4Addr| is_node(*address) && *address != originator;
        let strange = tc.neighbours.iter().filter(|it| !is_told(it)).count();
        stats.add_strange(strange, tc.neighbours.is_cut());
        // Known links are renewed first: a link still with an older number has ended.
        for address in tc.neighbours.iter().filter(is_told) {
            if self.links.contains(&(originator, address)) {
                self.links.renew((originator, address), until, tc.ansn);
            }
        }
        let is_older = |_: &_, ansn: &Seq| *ansn != tc.ansn;
        let mut is_changed = self.links.remove_if(all_of(originator), is_older);
        let mut count = self.links.range(all_of(originator)).count();
        for address in tc.neighbours.iter().filter(is_told) {
            let renewed = self.links.renew_of(&mut count, (originator, address), until, tc.ansn);
            is_changed |= renewed.is_new(stats, Counter::TopologyFull);
        }
        is_changed
    }

    /// Handles a MID message; returns whether an address became known. Addresses for which `is_known` is true, and
    /// addresses of other nodes, do not become the originator's.
    pub fn handle_mid(
        &mut self,
        until: Time,
        originator: Ipv4Addr,
        addresses: &Addresses<'_>,
        is_known: impl Fn(Ipv4Addr) -> bool,
        stats: &mut Stats,
    ) -> bool {
        let mut is_changed = false;
        let mut count = self.aliases.iter().filter(|(_, main)| **main == originator).count();
        let is_told = |address: &Ipv4Addr| is_node(*address) && *address != originator;
        stats.add_strange(addresses.iter().filter(|it| !is_told(it)).count(), addresses.is_cut());
        for address in addresses.iter().filter(is_told) {
            let known = self.aliases.get(&address).copied();
            let is_others = known.is_some_and(|main| main != originator)
                || known.is_none() && (is_known(address) || self.is_originator(address));
            if is_others {
                stats.count(Counter::AliasesTaken);
                continue;
            }
            let renewed = self.aliases.renew_of(&mut count, address, until, originator);
            is_changed |= renewed.is_new(stats, Counter::AliasesFull);
        }
        is_changed
    }

    /// Takes an HNA message; whether a network became known.
    pub fn handle_hna(
        &mut self,
        until: Time,
        gateway: Ipv4Addr,
        hna: &Hna<'_>,
        stats: &mut Stats,
    ) -> bool {
        let mut is_changed = false;
        let mut count = self.networks.iter().filter(|((it, _), ())| *it == gateway).count();
        let is_told = |network: &Option<Prefix>| network.as_ref().is_some_and(is_network);
        stats.add_strange(hna.iter().filter(|it| !is_told(it)).count(), hna.is_cut());
        for network in hna.iter().flatten().filter(is_network) {
            let renewed = self.networks.renew_of(&mut count, (gateway, network), until, ());
            is_changed |= renewed.is_new(stats, Counter::NetworksFull);
        }
        is_changed
    }

    /// The main address of the node with this address.
    pub fn main_of(&self, address: Ipv4Addr) -> Ipv4Addr {
        self.aliases.get(&address).copied().unwrap_or(address)
    }

    /// Main addresses by the others.
    pub fn aliases(&self) -> impl Iterator<Item = (Ipv4Addr, Ipv4Addr)> {
        self.aliases.iter().map(|(address, main)| (*address, *main))
    }

    /// The gateways and the networks behind them.
    pub fn networks(&self) -> impl Iterator<Item = (Ipv4Addr, Prefix)> {
        self.networks.iter().map(|(key, ())| *key)
    }

    /// Of whom a node tells.
    pub fn told_by(&self, node: Ipv4Addr) -> impl Iterator<Item = Ipv4Addr> {
        self.links.range(all_of(node)).map(|((_, neighbour), _)| *neighbour)
    }

    /// Whether the node has told of neighbours.
    fn is_originator(&self, node: Ipv4Addr) -> bool {
        self.told_by(node).next().is_some()
    }

    /// Removes what has ended: whether links, addresses and networks were among that.
    pub fn expire(&mut self, now: Time) -> [bool; 3] {
        self.duplicates.expire(now);
        [self.links.expire(now), self.aliases.expire(now), self.networks.expire(now)]
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let tables = [
            self.links.next_timeout(),
            self.aliases.next_timeout(),
            self.networks.next_timeout(),
            self.duplicates.next_timeout(),
        ];
        tables.into_iter().flatten().min()
    }

    /// How much is remembered: links, aliases, networks and duplicates.
    #[cfg(test)]
    pub fn sizes(&self) -> [usize; 4] {
        [self.links.len(), self.aliases.len(), self.networks.len(), self.duplicates.len()]
    }
}

/// Whether packets to these addresses can go anywhere: groups and the host itself are no networks.
fn is_network(prefix: &Prefix) -> bool {
    let std::net::IpAddr::V4(address) = prefix.address() else { return false };
    prefix.bits() == 0 || is_node(address) || address.octets()[0] == 0 && prefix.bits() < 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_what_is_the_host_itself_are_no_networks() {
        let are_networks =
            |prefixes: [&str; 3]| prefixes.map(|it| is_network(&it.parse().unwrap()));

        assert_eq!(are_networks(["0.0.0.0/0", "0.0.0.0/7", "10.9.0.0/16"]), [true; 3]);
        assert_eq!(are_networks(["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4"]), [false; 3]);
    }
}

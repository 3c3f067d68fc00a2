//! Neighbours and two-hop neighbours: links, relays chosen by this node, and relay selectors (RFC 3626, 4.2, 4.3, 7 and
//! 8).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::time::{Time, earliest};

use super::config::{Config, Hysteresis};
use super::is_node;
use super::mpr::{self, Candidate};
use super::soft::{Renewed, Soft};
use super::stats::{Counter, Stats};
use super::wire::{self, Hello, LinkCode, LinkType, NeighbourType, Seq};
use crate::Neighbour;

/// State of all neighbours.
#[derive(Debug)]
pub struct Neighbourhood {
    links: BTreeMap<Neighbour, Link>,
    /// The symmetric neighbours by their main addresses.
    symmetric: BTreeMap<Ipv4Addr, Known>,
    /// Their ends of the symmetric links, each with a route: a neighbour may have several.
    ends: BTreeSet<Neighbour>,
    /// Symmetric neighbours of our neighbours. Keys: the main address of the neighbour, and the address in the
    /// neighbour's HELLO; the owner of the second may become known later.
    two_hop: Soft<(Ipv4Addr, Ipv4Addr), ()>,
    /// MPR selectors: neighbours that chose this node to relay their broadcasts.
    selectors: Soft<Ipv4Addr, ()>,
    relays: BTreeSet<Ipv4Addr>,
    changes: Changes,
}

/// A symmetric neighbour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Known {
    /// How willing it is to carry for others.
    pub willingness: u8,
    /// The link to use.
    pub via: Neighbour,
}

/// Changes since the last query.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// Neighbours, links to them, or their neighbours: relays and routes are.
    pub is_reach: bool,
    /// Who chose this node.
    pub is_selectors: bool,
}

/// A HELLO, and how it came.
#[derive(Clone, Copy, Debug)]
pub struct Greeting<'a> {
    pub from: Neighbour,
    /// The number of the packet.
    pub seq: Seq,
    pub header: &'a wire::Header,
    pub hello: &'a Hello<'a>,
    /// The address of the receiving interface.
    pub here: Ipv4Addr,
    /// All addresses of this node.
    pub own: &'a BTreeSet<Ipv4Addr>,
}

impl Neighbourhood {
    pub fn new(config: &Config) -> Self {
        Self {
            links: BTreeMap::new(),
            symmetric: BTreeMap::new(),
            ends: BTreeSet::new(),
            two_hop: Soft::new(config.bounds.two_hop),
            selectors: Soft::new(config.bounds.links),
            relays: BTreeSet::new(),
            changes: Changes::default(),
        }
    }

    /// Learns that a packet came.
    pub fn handle_packet(&mut self, now: Time, from: Neighbour, seq: Seq, config: &Config) {
        // Nothing else counts packets.
        let Some(link) = self.links.get_mut(&from).filter(|_| config.hysteresis.is_on) else {
            return;
        };
        link.handle_packet(now, seq, &config.hysteresis, config.neighbour_hold);
        self.settle();
    }

    /// Takes a HELLO.
    pub fn handle_hello(
        &mut self,
        now: Time,
        greeting: &Greeting<'_>,
        config: &Config,
        stats: &mut Stats,
    ) {
        let Greeting { from, header, hello, here, .. } = *greeting;
        let (main, until) = (header.originator, now + header.validity());
        let is_known = self.links.contains_key(&from);
        if !is_known && self.links.len() >= config.bounds.links {
            stats.count(Counter::LinksFull);
            return;
        }
        let new = || Link::new(main, until, greeting.seq, &config.hysteresis);
        let link = self.links.entry(from).or_insert_with(new);
        link.main = main;
        link.handle_hello(until, report_on(here, hello), config.neighbour_hold);
        link.handle_interval(now, hello.interval.duration());
        let same_node = self.links.values_mut().filter(|link| link.main == main);
        same_node.for_each(|link| link.willingness = hello.willingness.min(mpr::ALWAYS));
        self.settle();

        let told = hello.blocks().flat_map(|block| block.addresses.iter());
        let strange = told.filter(|it| !is_node(*it)).count() + hello.strange();
        stats.add_strange(strange, false);
        if self.symmetric.contains_key(&main) {
            self.take_two_hop(until, greeting, stats);
            self.take_selection(until, greeting, config);
        }
    }

    fn take_two_hop(&mut self, until: Time, greeting: &Greeting<'_>, stats: &mut Stats) {
        let main = greeting.header.originator;
        let mut count = self.two_hop.range(all_of(main)).count();
        for block in greeting.hello.blocks() {
            for address in block.addresses.iter() {
                let key = (main, address);
                if block.code.neighbour == NeighbourType::Not {
                    self.changes.is_reach |= self.two_hop.remove(&key);
                    continue;
                }
                if greeting.own.contains(&address) || !is_node(address) {
                    continue;
                }
                let renewed = self.two_hop.renew_of(&mut count, key, until, ());
                self.changes.is_reach |= renewed.is_new(stats, Counter::TwoHopFull);
            }
        }
    }

    fn take_selection(&mut self, until: Time, greeting: &Greeting<'_>, config: &Config) {
        let is_relay = |code: LinkCode| code.neighbour == NeighbourType::Mpr;
        let mut chosen = greeting
            .hello
            .blocks()
            .filter(|it| is_relay(it.code))
            .flat_map(|it| it.addresses.iter());
        // A node of willingness "never" was chosen before others knew its willingness.
        if config.willingness > 0 && chosen.any(|address| greeting.own.contains(&address)) {
            let renewed = self.selectors.renew(greeting.header.originator, until, ());
            self.changes.is_selectors |= renewed == Renewed::New;
        }
    }

    /// Learns that the link layer did not reach a neighbour; whether there was a link.
    pub fn handle_break(&mut self, now: Time, at: Neighbour, config: &Config) -> bool {
        let Some(link) = self.links.get_mut(&at) else { return false };
        link.handle_break(now, config.neighbour_hold);
        self.settle();
        true
    }

    /// Forgets the links of an interface.
    pub fn remove_interface(&mut self, interface: usize) {
        self.links.retain(|at, _| at.interface != interface);
        self.settle();
    }

    /// Notes a change of addresses: another node's alias became known, or this node's own addresses changed.
    pub fn handle_names(&mut self) {
        self.changes.is_reach = true;
    }

    pub fn expire(&mut self, now: Time, config: &Config) {
        if self.next_timeout().is_none_or(|due| due > now) {
            return;
        }
        self.links.retain(|_, link| link.expire(now, &config.hysteresis, config.neighbour_hold));
        self.changes.is_reach |= self.two_hop.expire(now);
        self.changes.is_selectors |= self.selectors.expire(now);
        self.settle();
    }

    /// Recalculates the symmetric neighbours, and forgets two-hop neighbours reported by former ones.
    fn settle(&mut self) {
        let mut symmetric = BTreeMap::new();
        let mut ends = BTreeSet::new();
        for (&via, link) in self.links.iter().filter(|(_, link)| link.is_symmetric()) {
            let known = Known { willingness: link.willingness, via };
            symmetric.entry(link.main).or_insert(known);
            ends.insert(via);
        }
        if symmetric == self.symmetric && ends == self.ends {
            return;
        }
        self.changes.is_reach = true;
        for main in self.symmetric.keys().filter(|main| !symmetric.contains_key(main)) {
            self.two_hop.remove_if(all_of(*main), |_, ()| true);
            self.changes.is_selectors |= self.selectors.remove(main);
        }
        self.symmetric = symmetric;
        self.ends = ends;
    }

    /// Chooses the relays; whether they are others than before.
    pub fn choose_relays(
        &mut self,
        own: &BTreeSet<Ipv4Addr>,
        name: impl Fn(Ipv4Addr) -> Ipv4Addr,
        coverage: usize,
    ) -> bool {
        let mut reaches: BTreeMap<Ipv4Addr, BTreeSet<Ipv4Addr>> = BTreeMap::new();
        for (&(neighbour, address), ()) in self.two_hop.iter() {
            let node = name(address);
            if !own.contains(&node) && !self.symmetric.contains_key(&node) {
                reaches.entry(neighbour).or_default().insert(node);
            }
        }
        let mut interfaces: BTreeMap<usize, BTreeMap<Ipv4Addr, Candidate>> = BTreeMap::new();
        for (at, link) in &self.links {
            if link.is_symmetric() && link.willingness > 0 {
                let willingness = link.willingness;
                let reaches = reaches.get(&link.main).cloned().unwrap_or_default();
                let candidates = interfaces.entry(at.interface).or_default();
                candidates.insert(link.main, Candidate { willingness, reaches });
            }
        }
        let chosen = interfaces.values().flat_map(|candidates| mpr::select(candidates, coverage));
        let relays: BTreeSet<_> = chosen.collect();
        let is_other = relays != self.relays;
        self.relays = relays;
        is_other
    }

    /// Takes the changes since the last call.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// The neighbours listed in a HELLO on an interface, grouped by kind.
    pub fn told(&self, interface: usize) -> Vec<(LinkCode, Ipv4Addr)> {
        let mut told = Vec::new();
        let mut rest: BTreeSet<Ipv4Addr> = self.links.values().map(|link| link.main).collect();
        for (at, link) in self.links.iter().filter(|(at, _)| at.interface == interface) {
            if let Some(state) = link.state() {
                let neighbour = self.neighbourhood(link.main);
                told.push((LinkCode { link: state, neighbour }, at.address));
                rest.remove(&link.main);
            }
        }
        told.extend(rest.into_iter().map(|main| {
            let neighbour = self.neighbourhood(main);
            (LinkCode { link: LinkType::Unspecified, neighbour }, main)
        }));
        told.sort_unstable();
        told
    }

    fn neighbourhood(&self, main: Ipv4Addr) -> NeighbourType {
        if !self.symmetric.contains_key(&main) {
            NeighbourType::Not
        } else if self.relays.contains(&main) {
            NeighbourType::Mpr
        } else {
            NeighbourType::Symmetric
        }
    }

    /// The main address of the neighbour at the other end of a symmetric link.
    pub fn symmetric_at(&self, at: Neighbour) -> Option<Ipv4Addr> {
        self.links.get(&at).filter(|link| link.is_symmetric()).map(|link| link.main)
    }

    /// The symmetric neighbours by their main addresses.
    pub fn symmetric(&self) -> &BTreeMap<Ipv4Addr, Known> {
        &self.symmetric
    }

    /// The symmetric links.
    pub fn symmetric_links(&self) -> impl Iterator<Item = Neighbour> {
        self.links.iter().filter(|(_, link)| link.is_symmetric()).map(|(at, _)| *at)
    }

    /// The neighbours of neighbours.
    pub fn two_hop(&self) -> impl Iterator<Item = (Ipv4Addr, Ipv4Addr)> {
        self.two_hop.iter().map(|(key, ())| *key)
    }

    /// Whether a neighbour chose this node as a relay.
    pub fn is_selector(&self, main: Ipv4Addr) -> bool {
        self.selectors.contains(&main)
    }

    /// MPR selectors: neighbours that chose this node to relay their broadcasts.
    pub fn selectors(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.selectors.iter().map(|(main, ())| *main)
    }

    /// MPRs: the relays chosen by this node.
    pub fn relays(&self) -> &BTreeSet<Ipv4Addr> {
        &self.relays
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let links = self.links.values().map(Link::next_timeout).min();
        [self.two_hop.next_timeout(), self.selectors.next_timeout(), links]
            .into_iter()
            .flatten()
            .min()
    }

    /// How many links and neighbours of neighbours are remembered.
    #[cfg(test)]
    pub fn sizes(&self) -> [usize; 2] {
        [self.links.len(), self.two_hop.len()]
    }
}

/// The state of the link to the interface with this address, according to a HELLO.
fn report_on(here: Ipv4Addr, hello: &Hello<'_>) -> Report {
    let mut report = Report::Nothing;
    for block in hello.blocks() {
        if block.addresses.iter().any(|address| address == here) {
            match block.code.link {
                LinkType::Asymmetric | LinkType::Symmetric => return Report::Heard,
                LinkType::Lost => report = Report::Lost,
                LinkType::Unspecified => {}
            }
        }
    }
    report
}

/// All that a node said.
pub fn all_of(node: Ipv4Addr) -> std::ops::RangeInclusive<(Ipv4Addr, Ipv4Addr)> {
    (node, Ipv4Addr::UNSPECIFIED)..=(node, Ipv4Addr::BROADCAST)
}

// A link to a neighbour: the state heard in HELLOs, and the quality (RFC 3626, 7.1 and 14).

/// Most packets in a row counted as lost, and the greatest age of a packet: numbers farther away come from a restarted
/// neighbour.
const MOST_MISSING: u16 = 32;

/// A link from an interface to a neighbour's.
#[derive(Clone, Debug)]
struct Link {
    /// The neighbour's main address.
    main: Ipv4Addr,
    /// How willing it is to carry for others.
    willingness: u8,
    /// Until when the link counts as symmetric, and as heard.
    symmetric: Option<Time>,
    heard: Option<Time>,
    /// Until when it is remembered.
    until: Time,
    quality: Option<Quality>,
}

/// The neighbour's report about the link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Report {
    /// It hears this node.
    Heard,
    /// It does not any more.
    Lost,
    /// Nothing.
    Nothing,
}

/// The quality of a link: the part of the neighbour's packets that arrives.
#[derive(Clone, Debug)]
struct Quality {
    /// The mean over packets: 1 for each received, 0 for each lost.
    mean: f64,
    /// Whether it was not good enough yet.
    is_pending: bool,
    /// Until when the link counts as lost.
    lost: Option<Time>,
    /// Sequence number of the neighbour's latest packet.
    seq: Seq,
    /// How often it says HELLO, and when the next one is overdue.
    interval: Duration,
    overdue: Time,
}

impl Link {
    /// A link on which a HELLO came in a packet with this number.
    fn new(main: Ipv4Addr, until: Time, seq: Seq, hysteresis: &Hysteresis) -> Self {
        let quality = hysteresis.is_on.then_some(Quality {
            mean: hysteresis.scaling,
            is_pending: true,
            lost: None,
            seq,
            interval: Duration::MAX,
            overdue: Time::MAX,
        });
        Self { main, willingness: 0, symmetric: None, heard: None, until, quality }
    }

    /// Takes a HELLO that holds until `until`.
    fn handle_hello(&mut self, until: Time, report: Report, hold: Duration) {
        self.heard = Some(until);
        match report {
            Report::Heard => {
                self.symmetric = Some(until);
                self.until = until + hold;
            }
            Report::Lost => self.symmetric = None,
            Report::Nothing => {}
        }
        self.until = self.until.max(until);
    }

    /// Learns after what time the next HELLO comes.
    fn handle_interval(&mut self, now: Time, interval: Duration) {
        if let Some(quality) = &mut self.quality {
            quality.interval = interval;
            quality.overdue = now + interval + interval / 2;
        }
    }

    /// Counts a received packet with this number.
    fn handle_packet(&mut self, now: Time, seq: Seq, hysteresis: &Hysteresis, hold: Duration) {
        let until = self.until.min(now + hold);
        let Some(quality) = &mut self.quality else { return };
        let (ahead, behind) =
            (seq.0.wrapping_sub(quality.seq.0), quality.seq.0.wrapping_sub(seq.0));
        if behind <= MOST_MISSING {
            return;
        }
        if ahead <= MOST_MISSING {
            quality.lose(u32::from(ahead) - 1, hysteresis, until);
        }
        quality.seq = seq;
        quality.mean += hysteresis.scaling * (1.0 - quality.mean);
        if quality.mean > hysteresis.high {
            (quality.is_pending, quality.lost) = (false, None);
        }
    }

    /// Learns that the link layer did not reach the neighbour.
    fn handle_break(&mut self, now: Time, hold: Duration) {
        (self.symmetric, self.heard) = (None, None);
        self.until = now + hold;
        if let Some(quality) = &mut self.quality {
            (quality.mean, quality.is_pending) = (0.0, true);
            quality.lost = Some(now + hold);
        }
    }

    /// Acts on deadlines that have passed; returns whether to keep the link.
    fn expire(&mut self, now: Time, hysteresis: &Hysteresis, hold: Duration) -> bool {
        self.symmetric.take_if(|until| *until <= now);
        self.heard.take_if(|until| *until <= now);
        if self.until <= now {
            return false;
        }
        let until = self.until.min(now + hold);
        if let Some(quality) = &mut self.quality {
            quality.lost.take_if(|until| *until <= now);
            if quality.overdue <= now {
                let missed = now.since(quality.overdue).as_nanos() / quality.interval.as_nanos();
                let missed = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
                quality.overdue += quality.interval.saturating_mul(missed);
                quality.lose(missed, hysteresis, until);
            }
        }
        true
    }

    /// Whether packets go over it: both hear each other well enough.
    fn is_symmetric(&self) -> bool {
        let is_good = |quality: &Quality| !quality.is_pending && quality.lost.is_none();
        self.symmetric.is_some() && self.quality.as_ref().is_none_or(is_good)
    }

    /// What HELLOs say of it; `None` if nothing.
    fn state(&self) -> Option<LinkType> {
        match &self.quality {
            Some(Quality { lost: Some(_), .. }) => Some(LinkType::Lost),
            Some(Quality { is_pending: true, .. }) => None,
            Some(_) | None if self.symmetric.is_some() => Some(LinkType::Symmetric),
            Some(_) | None if self.heard.is_some() => Some(LinkType::Asymmetric),
            Some(_) | None => Some(LinkType::Lost),
        }
    }

    fn next_timeout(&self) -> Time {
        let quality = self.quality.as_ref();
        let quality = quality.and_then(|it| earliest(it.lost, Some(it.overdue)));
        let state = earliest(self.symmetric, self.heard);
        earliest(state, quality).map_or(self.until, |due| due.min(self.until))
    }
}

impl Quality {
    /// Counts lost packets; the link is lost until `until` if they were too many.
    fn lose(&mut self, packets: u32, hysteresis: &Hysteresis, until: Time) {
        let packets = i32::try_from(packets).unwrap_or(i32::MAX);
        self.mean *= libm::pow(1.0 - hysteresis.scaling, f64::from(packets));
        if self.mean < hysteresis.low && !self.is_pending {
            self.is_pending = true;
            self.lost = Some(until);
        }
    }
}

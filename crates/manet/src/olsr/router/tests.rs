//! Networks of nodes, and what they come to.

mod contract;
mod convergence;
mod hostile;
mod olsrd;
mod options;
mod relays;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::Prefix;
use base::rng::Rng;
use base::time::Time;

use super::{Config, Counter, Olsr};
use crate::{Arrival, Event, Interface, Neighbour, Notice, Route, Router};

/// How long a packet is under way.
const LATENCY: Duration = Duration::from_millis(1);
/// What an interface has room for unless a test says otherwise.
const ROOM: usize = 1_472;

/// An interface of a node.
type At = (usize, usize);

/// Nodes, and who hears whom.
struct Net {
    nodes: Vec<Option<Node>>,
    /// From the sender's interface to the hearer's.
    hears: BTreeSet<(At, At)>,
    now: Time,
    /// What is under way: when it arrives, where, from whom.
    under_way: VecDeque<(Time, At, Ipv4Addr, Vec<u8>)>,
    /// Every packet that was sent, if a test wants them.
    sent: Option<Vec<(Time, At, Vec<u8>)>>,
    loss: f64,
    rng: Rng,
}

/// A node and its forwarding table.
struct Node {
    olsr: Olsr,
    table: BTreeMap<Prefix, Route>,
    /// How many routes it was told of.
    events: usize,
    notices: Vec<Notice>,
}

/// The address of a node's interface.
fn address((node, interface): At) -> Ipv4Addr {
    let [high, low] = u16::try_from(node + 1).unwrap().to_be_bytes();
    Ipv4Addr::new(10, u8::try_from(interface).unwrap(), high, low)
}

/// The main address of a node.
fn main(node: usize) -> Ipv4Addr {
    address((node, 0))
}

fn secs(seconds: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(seconds)
}

impl Net {
    /// Nodes of one interface each, with links in both directions.
    fn new(count: usize, links: &[(usize, usize)], config: &Config) -> Self {
        let mut net = Self {
            nodes: Vec::new(),
            hears: BTreeSet::new(),
            now: Time::ZERO,
            under_way: VecDeque::new(),
            sent: None,
            loss: 0.0,
            rng: Rng::stream(11, "loss"),
        };
        for &(a, b) in links {
            net.link((a, 0), (b, 0));
        }
        for node in 0..count {
            net.nodes.push(None);
            net.start(node, config.clone(), &[0], 1);
        }
        net
    }

    fn with_loss(mut self, loss: f64) -> Self {
        self.loss = loss;
        self
    }

    /// Turns a node on that was off, or anew.
    fn start(&mut self, node: usize, config: Config, interfaces: &[usize], boot: u64) {
        let rng = Rng::stream(boot, &format!("node {node}"));
        let olsr = Olsr::new(config, rng);
        let fresh = Node { olsr, table: BTreeMap::new(), events: 0, notices: Vec::new() };
        self.nodes[node] = Some(fresh);
        for &index in interfaces {
            let interface = Interface { address: address((node, index)), room: ROOM };
            self.interface(node, index, Some(&interface));
        }
    }

    fn stop(&mut self, node: usize) {
        self.nodes[node] = None;
    }

    fn link(&mut self, a: At, b: At) {
        self.hears.extend([(a, b), (b, a)]);
    }

    fn cut(&mut self, a: At, b: At) {
        self.hears.remove(&(a, b));
        self.hears.remove(&(b, a));
    }

    fn olsr(&self, node: usize) -> &Olsr {
        &self.nodes[node].as_ref().unwrap().olsr
    }

    fn count(&self, node: usize, counter: Counter) -> u64 {
        self.olsr(node).stats().of(counter)
    }

    fn interface(&mut self, node: usize, index: usize, it: Option<&Interface>) {
        let now = self.now;
        let Some(core) = &mut self.nodes[node] else { return };
        core.olsr.handle_interface(now, index, it);
        self.drive(node);
    }

    /// The link layer of a node could not reach an interface.
    fn broken(&mut self, (node, interface): At, address: Ipv4Addr) {
        let now = self.now;
        let Some(core) = &mut self.nodes[node] else { return };
        core.olsr.handle_break(now, Neighbour { interface, address });
        self.drive(node);
    }

    /// Hands a node a packet as if a neighbour had sent it.
    fn inject(&mut self, (node, interface): At, from: Ipv4Addr, payload: &[u8]) {
        let now = self.now;
        let Some(core) = &mut self.nodes[node] else { return };
        let from = Neighbour { interface, address: from };
        let arrival = Arrival { from, is_unicast: false, ttl: 1 };
        core.olsr.handle_message(now, &arrival, payload);
        self.drive(node);
    }

    /// Lets things happen until then.
    fn run_until(&mut self, end: Time) {
        loop {
            let due = |node: &Option<Node>| node.as_ref()?.olsr.next_timeout();
            let timer = self.nodes.iter().enumerate().filter_map(|(at, it)| Some((due(it)?, at)));
            let timer = timer.min();
            let arrival = self.under_way.front().map(|it| it.0);
            let next = timer.map(|it| it.0).into_iter().chain(arrival).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next;
            if arrival == Some(next) {
                let (_, at, from, payload) = self.under_way.pop_front().unwrap();
                self.inject(at, from, &payload);
            } else if let Some((_, node)) = timer {
                let core = self.nodes[node].as_mut().unwrap();
                core.olsr.handle_timeout(next);
                self.drive(node);
            }
        }
        self.now = end;
    }

    /// Does what a driver does after it handled something.
    fn drive(&mut self, node: usize) {
        let now = self.now;
        let core = self.nodes[node].as_mut().unwrap();
        while let Some(event) = core.olsr.poll_event() {
            core.events += 1;
            match event {
                Event::Route(prefix, Some(route)) => {
                    let was = core.table.insert(prefix, route);
                    assert_ne!(was, Some(route), "a route that did not change");
                }
                Event::Route(prefix, None) => {
                    assert!(core.table.remove(&prefix).is_some(), "no route to remove");
                }
                Event::Unreachable(_) => panic!("OLSR looks for nothing"),
                Event::Notice(notice) => core.notices.push(notice),
            }
        }
        assert!(core.table.iter().map(|(p, r)| (*p, *r)).eq(core.olsr.routes()));

        let mut out = Vec::new();
        for interface in 0..4 {
            while self.nodes[node]
                .as_mut()
                .unwrap()
                .olsr
                .poll_transmit(now, interface, &mut out)
                .is_some()
            {
                assert!(out.len() <= ROOM, "{} octets", out.len());
                if let Some(sent) = &mut self.sent {
                    sent.push((now, (node, interface), out.clone()));
                }
                let from = (node, interface);
                let port = &self.nodes[node].as_ref().unwrap().olsr.ports[&interface];
                let own = port.interface.address;
                let first = (from, (0, 0));
                let hearers = self.hears.range(first..).take_while(|(sender, _)| *sender == from);
                for &(_, to) in hearers {
                    if !self.rng.chance(self.loss) {
                        let packet = (now + LATENCY, to, own, out.clone());
                        self.under_way.push_back(packet);
                    }
                }
            }
        }
    }

    /// Hops on the shortest way from a node to each other one that is on, over links that are heard
    /// in both directions.
    fn distances(&self, from: usize) -> BTreeMap<usize, u8> {
        let mut found = BTreeMap::from([(from, 0)]);
        let mut edge = VecDeque::from([from]);
        while let Some(node) = edge.pop_front() {
            for &((a, i), (b, j)) in &self.hears {
                let is_on = self.nodes[b].is_some() && self.nodes[a].is_some();
                let is_symmetric = self.hears.contains(&((b, j), (a, i)));
                if a == node && is_on && is_symmetric && !found.contains_key(&b) {
                    found.insert(b, found[&a] + 1);
                    edge.push_back(b);
                }
            }
        }
        found
    }

    /// Hops from a node to an address by the forwarding tables; `None` if packets do not arrive.
    fn walk(&self, from: usize, to: Ipv4Addr) -> Option<u8> {
        let mut node = from;
        for hops in 0..=u8::MAX {
            let is_there = (0..4).any(|interface| address((node, interface)) == to);
            if is_there {
                return Some(hops);
            }
            let table = &self.nodes[node].as_ref()?.table;
            let next = table.get(&Prefix::host(to.into()))?.next;
            let here = (node, next.interface);
            let mut hearers = self.hears.iter().filter(|(sender, _)| *sender == here);
            node = hearers.find(|(_, at)| address(*at) == next.address)?.1.0;
        }
        None
    }

    /// What is wrong with the routes: every node that is on reaches every other one over as few hops
    /// as possible, and says so, and has no route to others.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (from, node) in self.nodes.iter().enumerate() {
            let Some(Node { table, .. }) = node else { continue };
            let distances = self.distances(from);
            for to in (0..self.nodes.len()).filter(|to| *to != from) {
                let hops = table.get(&Prefix::host(main(to).into())).map(|route| route.hops);
                let (walked, wanted) = (self.walk(from, main(to)), distances.get(&to).copied());
                if hops != wanted || walked != wanted {
                    faults.push(format!("{from} to {to}: {hops:?}, {walked:?}, not {wanted:?}"));
                }
            }
        }
        faults
    }

    /// Runs until the routes are right, and says when that was.
    ///
    /// # Panics
    /// When they are not after so many seconds.
    fn converge(&mut self, within: f64) -> f64 {
        let start = self.now;
        loop {
            let faults = self.faults();
            let took = self.now.since(start).as_secs_f64();
            if faults.is_empty() {
                return took;
            }
            assert!(took < within, "after {took} s: {faults:#?}");
            self.run_until(self.now + Duration::from_millis(100));
        }
    }
}

/// The links of a line.
fn line(count: usize) -> Vec<(usize, usize)> {
    (1..count).map(|node| (node - 1, node)).collect()
}

/// The links of a ring.
fn ring(count: usize) -> Vec<(usize, usize)> {
    (0..count).map(|node| (node, (node + 1) % count)).collect()
}

/// The links of a star around node 0.
fn star(count: usize) -> Vec<(usize, usize)> {
    (1..count).map(|node| (0, node)).collect()
}

/// The links of a square.
fn grid(side: usize) -> Vec<(usize, usize)> {
    let mut links = Vec::new();
    for node in 0..side * side {
        if node % side + 1 < side {
            links.push((node, node + 1));
        }
        if node + side < side * side {
            links.push((node, node + side));
        }
    }
    links
}

/// The links of a connected network, as chance has it: a tree, and so many further links.
fn random(count: usize, further: usize, seed: u64) -> Vec<(usize, usize)> {
    let mut rng = Rng::stream(seed, "links");
    let mut below = |bound: usize| usize::try_from(rng.below(bound as u64)).unwrap();
    let mut links: BTreeSet<(usize, usize)> = (1..count).map(|node| (below(node), node)).collect();
    for _ in 0..further {
        let (a, b) = (below(count), below(count));
        if a != b {
            links.insert((a.min(b), a.max(b)));
        }
    }
    links.into_iter().collect()
}

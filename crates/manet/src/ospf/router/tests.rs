//! Networks of routers, and what they come to.

mod adjacency;
mod contract;
mod convergence;
mod hostile;
mod lsas;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::Prefix;
use base::rng::Rng;
use base::time::Time;

use super::{Config, Counter, Ospf, State};
use crate::ospf::wire::Packet;
use crate::{Arrival, Event, Interface, Neighbour, Notice, Route, Router};

const ROOM: usize = 556;

/// Routers and wires. Router 0 has the lowest number.
struct Net {
    nodes: Vec<Node>,
    /// Of each wire: its ends, each a router and an interface, and whether it works.
    wires: Vec<([(usize, usize); 2], bool)>,
    now: Time,
    /// What is under way: when it arrives, in which order it was sent, by which wire to which of its ends.
    under_way: BTreeMap<(Time, u64), (usize, usize, Vec<u8>)>,
    sent: u64,
    /// The share of packets that are lost.
    loss: f64,
    /// How long packets are under way at most.
    latency: Duration,
    rng: Rng,
    /// Every packet that was sent, if a test wants them.
    heard: Vec<(Time, usize, Packet)>,
    listens: bool,
}

struct Node {
    ospf: Ospf,
    table: BTreeMap<Prefix, Route>,
    /// What the router said of others.
    notices: Vec<Notice>,
}

/// The number of a router, and the host that it announces.
fn id(node: usize) -> Ipv4Addr {
    let [high, low] = u16::try_from(node + 1).unwrap().to_be_bytes();
    Ipv4Addr::new(172, 16, high, low)
}

fn host(node: usize) -> Prefix {
    Prefix::host(id(node).into())
}

fn config(node: usize) -> Config {
    Config { router_id: Some(id(node)), attached: vec![host(node)], ..Config::default() }
}

fn secs(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn line(count: usize) -> Vec<(usize, usize)> {
    (1..count).map(|node| (node - 1, node)).collect()
}

fn ring(count: usize) -> Vec<(usize, usize)> {
    (0..count).map(|node| (node, (node + 1) % count)).collect()
}

fn grid(columns: usize, rows: usize) -> Vec<(usize, usize)> {
    let mut wires = Vec::new();
    for row in 0..rows {
        for column in 0..columns {
            let node = row * columns + column;
            if column + 1 < columns {
                wires.push((node, node + 1));
            }
            if row + 1 < rows {
                wires.push((node, node + columns));
            }
        }
    }
    wires
}

/// The address of an end of a wire.
fn address(wire: usize, end: usize) -> Ipv4Addr {
    let [high, low] = u16::try_from(wire).unwrap().to_be_bytes();
    Ipv4Addr::new(10, high, low, u8::try_from(end + 1).unwrap())
}

impl Net {
    fn new(count: usize, wires: &[(usize, usize)]) -> Self {
        Self::with(count, wires, config)
    }

    fn with(count: usize, wires: &[(usize, usize)], config: impl Fn(usize) -> Config) -> Self {
        let mut interfaces = vec![0; count];
        let mut next = |node: usize| {
            interfaces[node] += 1;
            (node, interfaces[node] - 1)
        };
        let wires: Vec<_> = wires.iter().map(|(a, b)| ([next(*a), next(*b)], true)).collect();
        let mut net = Self {
            nodes: Vec::new(),
            wires,
            now: Time::ZERO,
            under_way: BTreeMap::new(),
            sent: 0,
            loss: 0.0,
            latency: Duration::from_millis(1),
            rng: Rng::stream(5, "wires"),
            heard: Vec::new(),
            listens: false,
        };
        for node in 0..count {
            net.nodes.push(fresh(config(node), node));
        }
        for node in 0..count {
            net.plug(node);
        }
        net
    }

    /// Starts a router anew: it knows nothing.
    fn restart(&mut self, node: usize, config: Config) {
        self.nodes[node] = fresh(config, node + 1_000);
        self.plug(node);
    }

    fn plug(&mut self, node: usize) {
        for wire in 0..self.wires.len() {
            for end in 0..2 {
                let (ends, _) = self.wires[wire];
                if ends[end].0 == node {
                    let interface = Interface { address: address(wire, end), room: ROOM };
                    let ospf = &mut self.nodes[node].ospf;
                    ospf.handle_interface(self.now, ends[end].1, Some(&interface));
                }
            }
        }
        self.drive(node);
    }

    /// Which wire this is.
    fn wire(&self, a: usize, b: usize) -> usize {
        let is_it = |ends: &[(usize, usize); 2]| [(a, b), (b, a)].contains(&(ends[0].0, ends[1].0));
        self.wires.iter().position(|(ends, _)| is_it(ends)).unwrap()
    }

    /// Lets a wire work or not; nobody is told.
    fn set(&mut self, a: usize, b: usize, works: bool) {
        let wire = self.wire(a, b);
        self.wires[wire].1 = works;
    }

    fn state(&self, a: usize, b: usize) -> Option<State> {
        let ends = self.wires[self.wire(a, b)].0;
        let (node, interface) = if ends[0].0 == a { ends[0] } else { ends[1] };
        self.nodes[node].ospf.state(interface)
    }

    fn count(&self, node: usize, counter: Counter) -> u64 {
        self.nodes[node].ospf.stats().of(counter)
    }

    fn total(&self, counter: Counter) -> u64 {
        (0..self.nodes.len()).map(|node| self.count(node, counter)).sum()
    }

    fn run(&mut self, end: Time) {
        loop {
            let timer = |(at, node): (usize, &Node)| Some((node.ospf.next_timeout()?, at));
            let timer = self.nodes.iter().enumerate().filter_map(timer).min();
            let arrival = self.under_way.first_key_value().map(|(at, _)| at.0);
            let next = timer.map(|it| it.0).into_iter().chain(arrival).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next;
            if arrival == Some(next) {
                let (_, (wire, end, octets)) = self.under_way.pop_first().unwrap();
                let (ends, works) = self.wires[wire];
                if works {
                    self.inject(ends[end], address(wire, 1 - end), &octets);
                }
            } else if let Some((_, node)) = timer {
                self.nodes[node].ospf.handle_timeout(next);
                self.drive(node);
            }
        }
        self.now = end;
    }

    fn inject(&mut self, (node, interface): (usize, usize), from: Ipv4Addr, it: &[u8]) {
        let from = Neighbour { interface, address: from };
        let arrival = Arrival { from, is_unicast: false, ttl: 1 };
        self.nodes[node].ospf.handle_message(self.now, &arrival, it);
        self.drive(node);
    }

    /// Does what a driver does.
    fn drive(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        while let Some(event) = node.ospf.poll_event() {
            match event {
                Event::Route(prefix, Some(route)) => {
                    assert_ne!(node.table.insert(prefix, route), Some(route), "nothing new");
                }
                Event::Route(prefix, None) => {
                    assert!(node.table.remove(&prefix).is_some(), "no route to remove");
                }
                Event::Notice(notice) => node.notices.push(notice),
                Event::Unreachable(_) => panic!("OSPF looks for nothing"),
            }
        }
        assert!(node.table.iter().map(|(p, r)| (*p, *r)).eq(node.ospf.routes()));
        let mut out = Vec::new();
        for wire in 0..self.wires.len() {
            for end in 0..2 {
                let (node, interface) = self.wires[wire].0[end];
                if node != at {
                    continue;
                }
                while self.nodes[at].ospf.poll_transmit(self.now, interface, &mut out).is_some() {
                    assert!(out.len() <= ROOM, "{} octets", out.len());
                    self.send(at, wire, 1 - end, &out);
                }
            }
        }
    }

    fn send(&mut self, from: usize, wire: usize, end: usize, octets: &[u8]) {
        let (packet, is_cut) = Packet::parse(octets).unwrap();
        assert!(!is_cut);
        if self.listens {
            self.heard.push((self.now, from, packet));
        }
        let late = self.rng.within(self.latency);
        if !self.rng.chance(self.loss) && self.wires[wire].1 {
            self.sent += 1;
            let at = self.now + late + Duration::from_nanos(1);
            self.under_way.insert((at, self.sent), (wire, end, octets.to_vec()));
        }
    }

    /// Hops from a router to all others over wires that work.
    fn distances(&self, from: usize) -> BTreeMap<usize, u8> {
        let mut found = BTreeMap::from([(from, 0)]);
        let mut edge = BTreeSet::from([(0, from)]);
        while let Some((hops, node)) = edge.pop_first() {
            for (ends, _) in self.wires.iter().filter(|(_, works)| *works) {
                for (a, b) in [(ends[0].0, ends[1].0), (ends[1].0, ends[0].0)] {
                    if a == node && !found.contains_key(&b) {
                        found.insert(b, hops + 1);
                        edge.insert((hops + 1, b));
                    }
                }
            }
        }
        found
    }

    /// Hops from a router to the host of another by the tables; `None` if packets do not arrive.
    fn walk(&self, from: usize, to: usize) -> Option<u8> {
        let mut node = from;
        for hops in 0..=u8::try_from(self.nodes.len()).unwrap() {
            if node == to {
                return Some(hops);
            }
            let next = self.nodes[node].table.get(&host(to))?.next;
            let leads = self.wires.iter().enumerate().find_map(|(wire, (ends, works))| {
                let near = (0..2).find(|end| ends[*end] == (node, next.interface))?;
                let is_there = *works && address(wire, 1 - near) == next.address;
                is_there.then_some(ends[1 - near].0)
            });
            node = leads?;
        }
        None
    }

    /// What is wrong: every router reaches the hosts of all others that there is a way to, by the
    /// fewest hops, and has no way to others.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for from in 0..self.nodes.len() {
            let distances = self.distances(from);
            for to in (0..self.nodes.len()).filter(|to| *to != from) {
                let (walked, wanted) = (self.walk(from, to), distances.get(&to).copied());
                if walked != wanted {
                    faults.push(format!("{from} to {to}: {walked:?}, not {wanted:?}"));
                }
            }
        }
        faults
    }

    /// Runs until all is right; how long that took, in seconds.
    fn converge(&mut self, within: u64) -> f64 {
        let start = self.now;
        for _ in 0..within * 10 {
            self.run(self.now + Duration::from_millis(100));
            if self.faults().is_empty() {
                return self.now.since(start).as_secs_f64();
            }
        }
        panic!("not after {within} s: {:?}", self.faults());
    }
}

fn fresh(config: Config, stream: usize) -> Node {
    let rng = Rng::stream(3, &format!("router {stream}"));
    Node { ospf: Ospf::new(config, rng), table: BTreeMap::new(), notices: Vec::new() }
}

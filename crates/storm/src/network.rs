//! The network of a course: which nodes hear each other, and by which neighbour each reaches each other node.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::ethernet::Mac;
use base::rng::Rng;

use crate::course::choice;

/// Share of all pairs of nodes with a link, beyond the links that connect the network.
const MORE: f64 = 0.3;

/// Nodes, connections, and shortest ways.
#[derive(Clone, Debug)]
pub struct Network {
    is_v4: bool,
    nodes: usize,
    /// Each node with each node that hears it.
    hears: BTreeSet<(usize, usize)>,
    /// The next node on the way from a node to another node.
    next: BTreeMap<(usize, usize), usize>,
}

impl Network {
    /// A connected network: each node hears an earlier node, and some pairs more hear each other.
    pub fn draw(nodes: usize, rng: &mut Rng) -> Self {
        let mut hears = BTreeSet::new();
        for node in 1..nodes {
            let earlier = choice(rng, node);
            for other in 0..node {
                if other == earlier || rng.chance(MORE) {
                    hears.extend([(node, other), (other, node)]);
                }
            }
        }
        let mut network = Self { is_v4: rng.chance(0.7), nodes, hears, next: BTreeMap::new() };
        network.next = network.ways(None).expect("each node hears an earlier node");
        network
    }

    pub fn nodes(&self) -> usize {
        self.nodes
    }

    pub fn hears(&self, node: usize, other: usize) -> bool {
        self.hears.contains(&(node, other))
    }

    /// The next node on the way to another node.
    pub fn next(&self, node: usize, to: usize) -> usize {
        self.next[&(node, to)]
    }

    /// Nodes on the way to another node, with that node.
    pub fn hops(&self, node: usize, to: usize) -> usize {
        std::iter::successors(Some(node), |&at| (at != to).then(|| self.next(at, to))).count() - 1
    }

    /// Two nodes hear each other from now on, or no more.
    pub fn change(&mut self, one: usize, other: usize) {
        for pair in [(one, other), (other, one)] {
            if !self.hears.remove(&pair) {
                self.hears.insert(pair);
            }
        }
    }

    /// Lets a node hear another node no more. Takes the pair whose loss lengthens ways most, and whose nodes still reach
    /// each other; false if no pair is left.
    pub fn lose(&mut self, pairs: &[(usize, usize)]) -> bool {
        let lengths = pairs.iter().filter(|pair| self.hears.contains(pair)).filter_map(|pair| {
            let mut less = self.clone();
            less.hears.remove(pair);
            less.distance(pair.0, pair.1)?;
            let all = pairs.iter().filter_map(|(from, to)| less.distance(*from, *to));
            Some((all.sum::<usize>(), less))
        });
        let Some((_, less)) = lengths.max_by_key(|(length, _)| *length) else { return false };
        *self = less;
        true
    }

    /// The fewest hops from a node to another node, over nodes that hear each other now; `None` without a way.
    pub fn distance(&self, from: usize, to: usize) -> Option<usize> {
        let mut hops = BTreeMap::from([(from, 0)]);
        let mut reached = VecDeque::from([from]);
        while let Some(at) = reached.pop_front() {
            let further = hops[&at] + 1;
            let is_linked = |node: &usize| self.hears(at, *node) && self.hears(*node, at);
            for node in (0..self.nodes).filter(is_linked) {
                hops.entry(node).or_insert_with(|| {
                    reached.push_back(node);
                    further
                });
            }
        }
        hops.get(&to).copied()
    }

    /// All routes avoid a pair of nodes, if each node still reaches each other node.
    pub fn avoid(&mut self, rng: &mut Rng) {
        let [one, other] = [choice(rng, self.nodes()), choice(rng, self.nodes())];
        if let Some(next) = self.ways(Some((one, other))) {
            self.next = next;
        }
    }

    pub fn address(&self, node: usize) -> IpAddr {
        let last = last(node);
        match self.is_v4 {
            true => Ipv4Addr::new(10, 0, 0, last).into(),
            false => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()).into(),
        }
    }

    /// The node with an address.
    pub fn node(&self, address: IpAddr) -> Option<usize> {
        (0..self.nodes()).find(|node| self.address(*node) == address)
    }

    /// The shortest ways; `None` if a node cannot reach another node. No way leads over `avoided`.
    fn ways(&self, avoided: Option<(usize, usize)>) -> Option<BTreeMap<(usize, usize), usize>> {
        let is_way = |one: usize, other: usize| {
            self.hears(one, other)
                && ![(one, other), (other, one)].iter().any(|pair| avoided == Some(*pair))
        };
        let mut next = BTreeMap::new();
        for to in 0..self.nodes {
            next.insert((to, to), to);
            let mut reached = VecDeque::from([to]);
            while let Some(at) = reached.pop_front() {
                for node in (0..self.nodes).filter(|&node| is_way(node, at)) {
                    next.entry((node, to)).or_insert_with(|| {
                        reached.push_back(node);
                        at
                    });
                }
            }
        }
        (next.len() == self.nodes * self.nodes).then_some(next)
    }
}

/// The hardware address of a node.
pub fn station(node: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, last(node)])
}

fn last(node: usize) -> u8 {
    u8::try_from(node + 1).expect("a few nodes")
}

//! Networks of cores over links that the tests make and break.

mod bounds;
mod contract;
mod discovery;
mod errors;
mod gateway;
mod hello;
mod hostile;
mod loops;
mod restart;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use proptest::prelude::*;

use super::super::{Bounds, Hello, Internet, Sent, Unidirectional};
use super::*;
use crate::{
    Arrival, Demand, Event, Interface, Neighbour, Notice, Passage, Route, Router, Sending,
};

/// How long a message or packet takes for a hop.
const HOP: Duration = Duration::from_millis(1);

/// Nodes 0, 1, ... and the links between them.
#[derive(Debug)]
struct Net {
    now: Time,
    nodes: Vec<Node>,
    /// In which directions there is a link.
    links: BTreeSet<(usize, usize)>,
    /// Whether cores are told of what could not be brought to a neighbour.
    has_feedback: bool,
    /// How likely messages and packets are lost, and messages to arrive twice.
    loss: f64,
    double: f64,
    /// How much longer messages may take.
    delay: Duration,
    /// What was sent and what became known, unless it is too much to keep.
    story: Option<Vec<String>>,
    /// Whether routes are checked for circles after each event.
    is_checked: bool,
    circles: Vec<String>,
    rng: Rng,
    under_way: BTreeMap<(Time, u64), Flight>,
    number: u64,
}

#[derive(Debug)]
struct Node {
    core: Aodv,
    /// The forwarding table.
    routes: BTreeMap<Ipv4Addr, Route>,
    /// Destinations of packets that wait.
    waiting: BTreeSet<Ipv4Addr>,
    unreachable: Vec<Ipv4Addr>,
    notices: Vec<Notice>,
    /// Packets that arrived: their sources.
    arrived: Vec<Ipv4Addr>,
    restarts: u64,
}

#[derive(Clone, Debug)]
enum Flight {
    Message { from: usize, to: usize, is_unicast: bool, ttl: u8, octets: Vec<u8> },
    Packet { from: usize, to: usize, source: Ipv4Addr, destination: Ipv4Addr, ttl: u8 },
    Broken { node: usize, neighbour: usize },
}

fn node(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, u8::try_from(index + 1).unwrap())
}

/// The index of the node with this address; none has the one of a stranger.
fn index(address: Ipv4Addr) -> usize {
    match address.octets() {
        [10, 0, 0, last] if last > 0 => usize::from(last) - 1,
        _ => usize::MAX,
    }
}

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn neighbour(index: usize) -> Neighbour {
    Neighbour { interface: 0, address: node(index) }
}

impl Net {
    /// So many nodes without links.
    fn new(nodes: usize, seed: u64, config: impl Fn(usize) -> Config) -> Self {
        let mut net = Self {
            now: Time::ZERO,
            nodes: Vec::new(),
            links: BTreeSet::new(),
            has_feedback: false,
            loss: 0.0,
            double: 0.0,
            delay: Duration::ZERO,
            story: Some(Vec::new()),
            is_checked: true,
            circles: Vec::new(),
            rng: Rng::stream(seed, "net"),
            under_way: BTreeMap::new(),
            number: 0,
        };
        for index in 0..nodes {
            net.nodes.push(Node {
                core: Aodv::new(config(index), Rng::stream(seed, "core")),
                routes: BTreeMap::new(),
                waiting: BTreeSet::new(),
                unreachable: Vec::new(),
                notices: Vec::new(),
                arrived: Vec::new(),
                restarts: 0,
            });
            net.start(index);
        }
        net
    }

    /// Nodes in a line.
    fn line(nodes: usize, config: impl Fn(usize) -> Config) -> Self {
        let mut net = Self::new(nodes, 1, config);
        (1..nodes).for_each(|index| net.link(index - 1, index, true));
        net
    }

    /// Makes or breaks a link, in both directions.
    fn link(&mut self, one: usize, other: usize, is_up: bool) {
        for ends in [(one, other), (other, one)] {
            if is_up {
                self.links.insert(ends);
            } else {
                self.links.remove(&ends);
            }
        }
    }

    /// A node restarts, and has forgotten all.
    fn restart(&mut self, index: usize) {
        let config = self.nodes[index].core.config().clone();
        let restarts = self.nodes[index].restarts + 1;
        let rng = Rng::stream(restarts, "restarted");
        let node = &mut self.nodes[index];
        node.core = Aodv::new(config, rng);
        node.restarts = restarts;
        node.routes.clear();
        node.waiting.clear();
        self.start(index);
    }

    fn start(&mut self, index: usize) {
        let interface = Interface { address: node(index), room: 1_472 };
        self.nodes[index].core.handle_interface(self.now, 0, Some(&interface));
        self.serve(index);
    }

    /// A node's own packet; it waits if there is no route.
    fn send(&mut self, from: usize, destination: Ipv4Addr) {
        self.route(from, node(from), destination, None, 64);
    }

    /// A message that somebody writes himself.
    fn inject(&mut self, from: Ipv4Addr, to: usize, is_unicast: bool, message: &Message) {
        let mut octets = Vec::new();
        message.emit(&mut octets);
        self.inject_octets(from, to, is_unicast, &octets);
    }

    /// The same, whatever the octets are.
    fn inject_octets(&mut self, from: Ipv4Addr, to: usize, is_unicast: bool, octets: &[u8]) {
        let from = Neighbour { interface: 0, address: from };
        let arrival = Arrival { from, is_unicast, ttl: 30 };
        self.nodes[to].core.handle_message(self.now, &arrival, octets);
        self.serve(to);
    }

    /// Time passes.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let flight = self.under_way.first_key_value().map(|(&(at, _), _)| at);
            let due = (0..self.nodes.len())
                .filter_map(|index| Some((self.nodes[index].core.next_timeout()?, index)))
                .min();
            match (flight, due) {
                (Some(at), due) if at <= end && due.is_none_or(|(due, _)| at <= due) => {
                    self.now = self.now.max(at);
                    let (_, flight) = self.under_way.pop_first().expect("there is one");
                    self.arrive(flight);
                }
                (_, Some((due, index))) if due <= end => {
                    self.now = self.now.max(due);
                    self.nodes[index].core.handle_timeout(self.now);
                    self.serve(index);
                }
                _ => break,
            }
            if self.is_checked {
                self.find_circles();
            }
        }
        self.now = end;
    }

    /// What happened since the last time this was asked.
    fn story(&mut self) -> Vec<String> {
        self.story.replace(Vec::new()).unwrap_or_default()
    }

    /// The hops of a node's route.
    fn hops(&self, from: usize, to: usize) -> Option<u8> {
        self.nodes[from].routes.get(&node(to)).map(|route| route.hops)
    }

    /// What a node counted.
    fn stats(&self, index: usize) -> Stats {
        self.nodes[index].core.stats()
    }

    fn arrive(&mut self, flight: Flight) {
        match flight {
            Flight::Broken { node, neighbour: gone } => {
                self.nodes[node].core.handle_break(self.now, neighbour(gone));
                self.serve(node);
            }
            Flight::Message { from, to, is_unicast, ttl, octets } => {
                let arrival = Arrival { from: neighbour(from), is_unicast, ttl };
                self.nodes[to].core.handle_message(self.now, &arrival, &octets);
                self.serve(to);
            }
            Flight::Packet { from, to, source, destination, ttl } => {
                if destination == node(to) {
                    self.nodes[to].arrived.push(source);
                } else {
                    self.route(to, source, destination, Some(from), ttl - 1);
                }
            }
        }
    }

    /// What a driver does with a packet.
    fn route(
        &mut self,
        at: usize,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        from: Option<usize>,
        ttl: u8,
    ) {
        if ttl == 0 {
            return;
        }
        let from = from.map(neighbour);
        let here = &mut self.nodes[at];
        match here.routes.get(&destination) {
            None => {
                if from.is_none() {
                    here.waiting.insert(destination);
                }
                here.core.handle_demand(self.now, &Demand { destination, from });
            }
            Some(route) => {
                let next = route.next;
                here.core.handle_passage(self.now, &Passage { source, destination, from, next });
                let destination = route.gateway.unwrap_or(destination);
                let to = index(next.address);
                let packet = Flight::Packet { from: at, to, source, destination, ttl };
                self.launch(at, to, packet);
            }
        }
        self.serve(at);
    }

    /// Polls a core as its driver does.
    fn serve(&mut self, index: usize) {
        self.nodes[index].core.handle_timeout(self.now);
        while let Some(event) = self.nodes[index].core.poll_event() {
            self.tell(&format!("{index} {}", short(&event)));
            match event {
                Event::Unreachable(destination) => {
                    self.nodes[index].waiting.remove(&destination);
                    self.nodes[index].unreachable.push(destination);
                }
                Event::Notice(notice) => self.nodes[index].notices.push(notice),
                Event::Route(prefix, route) => {
                    let std::net::IpAddr::V4(destination) = prefix.address() else { panic!() };
                    match route {
                        Some(route) => self.nodes[index].routes.insert(destination, route),
                        None => self.nodes[index].routes.remove(&destination),
                    };
                    if route.is_some() && self.nodes[index].waiting.remove(&destination) {
                        self.send(index, destination);
                    }
                }
            }
        }
        let mut octets = Vec::new();
        while let Some(Sending { to, ttl }) =
            self.nodes[index].core.poll_transmit(self.now, 0, &mut octets)
        {
            let (message, _) = Message::parse(&octets).expect("what is written can be read");
            self.tell(&format!("{index} {} ttl {ttl}{}", brief(&message), whom(to)));
            let is_unicast = !to.is_broadcast();
            for other in 0..self.nodes.len() {
                if other == index || is_unicast && node(other) != to {
                    continue;
                }
                let octets = octets.clone();
                let flight = Flight::Message { from: index, to: other, is_unicast, ttl, octets };
                if self.rng.chance(self.double) {
                    self.launch(index, other, flight.clone());
                }
                self.launch(index, other, flight);
            }
        }
    }

    /// Brings something to a neighbour, or not.
    fn launch(&mut self, from: usize, to: usize, flight: Flight) {
        let is_lost = !self.links.contains(&(from, to)) || self.rng.chance(self.loss);
        let is_unicast = !matches!(flight, Flight::Message { is_unicast: false, .. });
        let (after, flight) = match (is_lost, self.has_feedback && is_unicast) {
            (false, _) => (HOP + self.rng.within(self.delay), flight),
            (true, true) => (HOP, Flight::Broken { node: from, neighbour: to }),
            (true, false) => return,
        };
        self.under_way.insert((self.now + after, self.number), flight);
        self.number += 1;
    }

    /// Follows the routes to each destination from each node.
    fn find_circles(&mut self) {
        for destination in (0..self.nodes.len()).map(node) {
            for start in 0..self.nodes.len() {
                let mut path = vec![start];
                while let Some(route) = path
                    .last()
                    .filter(|&&index| node(index) != destination)
                    .and_then(|&index| self.nodes[index].routes.get(&destination))
                {
                    let next = index(route.next.address);
                    if path.contains(&next) {
                        let now = self.now;
                        self.circles.push(format!("{now:?} to {destination}: {path:?} {next}"));
                        break;
                    }
                    path.push(next);
                }
            }
        }
    }

    fn tell(&mut self, what: &str) {
        let now = self.now;
        if let Some(story) = &mut self.story {
            story.push(format!("{now:?} {what}"));
        }
    }
}

fn whom(to: Ipv4Addr) -> String {
    if to.is_broadcast() { String::new() } else { format!(" to {}", name(to)) }
}

/// A node by its index, another host by its address.
fn name(address: Ipv4Addr) -> String {
    match address.octets() {
        [10, 0, 0, last] if last > 0 => (last - 1).to_string(),
        _ => address.to_string(),
    }
}

fn short(event: &Event) -> String {
    let name = |prefix: &base::ip::Prefix| match prefix.address() {
        std::net::IpAddr::V4(address) => name(address),
        std::net::IpAddr::V6(address) => address.to_string(),
    };
    match event {
        Event::Unreachable(destination) => format!("cannot find {destination}"),
        Event::Notice(notice) => format!("notes {notice:?}"),
        Event::Route(prefix, None) => format!("loses {}", name(prefix)),
        Event::Route(prefix, Some(route)) => {
            let Route { next, hops, gateway } = route;
            let by = self::name(next.address);
            let gateway = gateway.map_or(String::new(), |gateway| format!(" gateway {gateway}"));
            format!("routes {} by {by} hops {hops}{gateway}", name(prefix))
        }
    }
}

fn brief(message: &Message) -> String {
    match message {
        Message::Request(request) => {
            let Request { originator, destination, hops, .. } = *request;
            format!("asks {} for {} hops {hops}", name(originator), name(destination))
        }
        Message::Reply(reply) if reply.destination == reply.originator => "hello".into(),
        Message::Reply(reply) => {
            let Reply { originator, destination, hops, .. } = *reply;
            format!("answers {} of {} hops {hops}", name(originator), name(destination))
        }
        Message::Error(errors) => {
            let lost: Vec<String> =
                errors.unreachable.iter().map(|&(destination, _)| name(destination)).collect();
            format!("errs {}", lost.join(","))
        }
        Message::Acknowledgement => "acknowledges".into(),
    }
}

impl Aodv {
    /// The node's sequence number, and what it knows of a destination: the sequence number, the hops
    /// and whether the route is valid.
    fn known(&self, destination: Ipv4Addr) -> Option<(Option<u32>, u8, bool)> {
        let entry = self.table.get(destination)?;
        Some((entry.sequence, entry.hops, entry.is_valid))
    }

    /// How much it remembers.
    fn sizes(&self) -> [usize; 5] {
        let (seen, neighbours) = (self.seen_requests.len(), self.neighbours.len());
        [self.table.len(), seen, neighbours, self.discoveries.len(), self.hosts.len()]
    }
}

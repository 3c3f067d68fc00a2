//! Tests a node's support for on-demand routing protocols with a gateway.
//!
//! The protocol here is a script with one answer that records all calls.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::ip::{Spec, minimal, protocol};
use base::time::Time;
use manet::{
    Arrival, Carrier, Demand, Event, Interface, Neighbour, Passage, Route, Router, Sending, waiting,
};
use sim::app::stream;
use sim::service::routing::{RoutingOptions, Unsent};
use sim::{AppId, Class, LinkConfig, LinkId, NodeId, Prefix, World};

const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
/// When the answer comes.
const ANSWER: Duration = Duration::from_secs(3);

#[test]
fn packets_wait_for_the_gateway_and_go_to_it_in_a_half_tunnel() {
    let Network { mut world, nodes, links, sink, notes } = network(Some(route()), 100, true);

    world.run_until(Time::ZERO + ANSWER - SECOND / 10);
    assert_eq!((received(&world, sink), world.packets_under_way()), (0, 3));
    world.run_until(Time::ZERO + 10 * SECOND);

    assert_eq!(received(&world, sink), 10);
    let [source, gateway] = [nodes[0], nodes[1]].map(|node| world.routing_counters(node));
    assert_eq!((source.encapsulated, gateway.decapsulated), (10, 10));
    // 100 octets of payload and 28 of headers, 8 more on the first link only.
    let first = world.port_counters(world.ends(links[0])[0]).sent[Class::Data];
    let second = world.port_counters(world.ends(links[1])[0]).sent[Class::Data];
    assert_eq!((first.octets, second.octets), (1_360, 1_280), "class of what is in a tunnel");
    assert_eq!(nodes.map(|node| world.gateway(node, HOST.into())), [Some(GATEWAY), None, None]);
    let notes = notes.lock().expect("nobody panics with it");
    assert!(notes.demands.iter().all(|demand| *demand == Demand { destination: HOST, from: None }));
    assert_eq!(notes.demands.len(), 3, "one for each packet that waited");
    let next = Neighbour { interface: 0, address: GATEWAY };
    let source = Ipv4Addr::new(10, 0, 0, 1);
    for destination in [HOST, GATEWAY] {
        let passage = Passage { source, destination, from: None, next };
        assert!(notes.passages.contains(&passage), "{:?}", notes.passages);
    }
    assert_eq!(notes.ttl, Some(7), "as sent");
}

#[test]
fn what_was_looked_for_in_vain_is_refused() {
    let Network { mut world, nodes, sink, .. } = network(None, 100, true);

    world.run_until(Time::ZERO + ANSWER);

    assert_eq!(received(&world, sink), 0);
    assert_eq!(world.routing_counters(nodes[0]).unreachable, 3);
    assert_eq!(world.node_counters(nodes[0]).no_route, 3);
    assert_eq!(world.packets_under_way(), 0);
}

#[test]
fn where_nothing_may_wait_packets_are_dropped_and_counted() {
    let Network { mut world, nodes, .. } = network(None, 100, false);

    world.run_until(Time::ZERO + 2 * SECOND);

    assert_eq!(world.routing_counters(nodes[0]).evicted, 2);
    assert_eq!(world.packets_under_way(), 0);
}

#[test]
fn the_half_tunnel_takes_eight_octets_of_the_mtu() {
    for (payload, fits) in [(1_500 - 8 - 28, true), (1_500 - 8 - 27, false)] {
        let Network { mut world, nodes, sink, .. } = network(Some(route()), payload, true);

        world.run_until(Time::ZERO + 20 * SECOND);

        let counters = world.routing_counters(nodes[0]);
        assert_eq!(received(&world, sink), if fits { 10 } else { 0 });
        assert_eq!(counters.too_big, if fits { 0 } else { 10 });
        assert_eq!(world.packets_under_way(), 0);
    }
}

#[test]
fn what_comes_damaged_out_of_a_half_tunnel_is_dropped() {
    let Network { mut world, nodes, .. } = network(Some(route()), 100, true);
    let [from, to] = [Ipv4Addr::new(10, 0, 0, 1), GATEWAY].map(IpAddr::from);
    let mut packet = Vec::new();
    Spec::new(from, to, protocol::MINIMAL).emit(8, &mut packet);
    packet.extend([17, 0, 1, 2, 10, 0, 1, 2]);

    assert!(minimal::decapsulate(&mut packet.clone()).is_err());
    world.inject(nodes[0], &packet);
    world.run_until(Time::ZERO + SECOND / 2);

    assert_eq!(world.routing_counters(nodes[1]).tunnel_malformed, 1);
    assert_eq!(world.node_counters(nodes[1]).malformed_transport, 1);
}

const SECOND: Duration = Duration::from_secs(1);

fn route() -> Route {
    let next = Neighbour { interface: 0, address: GATEWAY };
    Route { next, hops: 1, gateway: Some(GATEWAY) }
}

fn received(world: &World, sink: AppId) -> u64 {
    world.app::<stream::Sink>(sink).expect("a sink").stats().received
}

/// See [`network`].
struct Network {
    world: World,
    nodes: [NodeId; 3],
    links: [LinkId; 2],
    sink: AppId,
    notes: Arc<Mutex<Notes>>,
}

/// A node, its gateway and a host behind that; the node sends ten datagrams, one a second.
fn network(answer: Option<Route>, payload: usize, may_wait: bool) -> Network {
    let mut world = World::new(1);
    let nodes = ["node", "gateway", "host"].map(|name| world.add_node(name));
    let links =
        [(0, 1), (1, 2)].map(|(a, b)| world.connect(nodes[a], nodes[b], &LinkConfig::default()));
    let [_, at_host] = world.ends(links[1]);
    world.add_route(
        at_host,
        "10.0.0.0/24".parse().expect("a prefix"),
        Some([10, 0, 1, 1].into()),
        1,
    );
    let notes = Arc::<Mutex<Notes>>::default();
    for (node, port) in nodes.into_iter().zip(world.ends(links[0])) {
        // The gateway itself finds nothing, and needs nothing.
        let answer = answer.filter(|_| node == nodes[0]);
        let script = Script { answer, notes: Arc::clone(&notes), ..Script::default() };
        let packets = if may_wait { 512 } else { 0 };
        let waiting = waiting::Config { packets, ..waiting::Config::default() };
        let options = RoutingOptions { waiting, own_unsent: Unsent::Drop, recalls_queue: false };
        world.enable_router(node, Box::new(script), options, &[port]);
    }
    let sink = world.add_app(nodes[2], stream::Sink::new(9));
    let config = stream::SenderConfig {
        interval: SECOND,
        start: Time::ZERO + SECOND / 2,
        count: Some(10),
        ..stream::SenderConfig::new(SocketAddr::new(HOST.into(), 9), payload)
    };
    world.add_app(nodes[0], stream::Sender::new(config));
    Network { world, nodes, links, sink, notes }
}

/// The calls a script has recorded.
#[derive(Debug, Default)]
struct Notes {
    demands: Vec<Demand>,
    passages: Vec<Passage>,
    ttl: Option<u8>,
}

/// Says hello once, and answers the first demand after a while.
#[derive(Debug, Default)]
struct Script {
    answer: Option<Route>,
    notes: Arc<Mutex<Notes>>,
    has_spoken: bool,
    answers_at: Option<Time>,
    events: Vec<Event>,
}

impl Router for Script {
    fn carrier(&self) -> Carrier {
        Carrier::Udp(700)
    }

    fn handle_interface(&mut self, now: Time, _index: usize, _interface: Option<&Interface>) {
        self.answers_at = Some(now + ANSWER);
    }

    fn handle_message(&mut self, _now: Time, arrival: &Arrival, payload: &[u8]) {
        assert_eq!(payload, b"hello");
        self.notes.lock().expect("nobody panics with it").ttl = Some(arrival.ttl);
    }

    fn handle_demand(&mut self, _now: Time, demand: &Demand) {
        self.notes.lock().expect("nobody panics with it").demands.push(*demand);
    }

    fn handle_passage(&mut self, _now: Time, passage: &Passage) {
        self.notes.lock().expect("nobody panics with it").passages.push(*passage);
    }

    fn handle_break(&mut self, _now: Time, _neighbour: Neighbour) {}

    fn handle_timeout(&mut self, now: Time) {
        if self.answers_at.take_if(|at| *at <= now).is_some() {
            self.events.push(match self.answer {
                None => Event::Unreachable(HOST),
                Some(_) => Event::Route(Prefix::host(HOST.into()), self.answer),
            });
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    fn poll_transmit(
        &mut self,
        _now: Time,
        _interface: usize,
        out: &mut Vec<u8>,
    ) -> Option<Sending> {
        if std::mem::replace(&mut self.has_spoken, true) {
            return None;
        }
        out.clear();
        out.extend_from_slice(b"hello");
        Some(Sending { to: Ipv4Addr::BROADCAST, ttl: 7 })
    }

    fn next_timeout(&self) -> Option<Time> {
        self.answers_at
    }

    fn routes(&self) -> Vec<(Prefix, Route)> {
        Vec::new()
    }

    fn counters(&self) -> Vec<(&'static base::counter::Counter, u64)> {
        Vec::new()
    }
}

//! A node around a protocol that does as the tests say, and writes down what it hears.

use std::sync::{Arc, Mutex};

use base::ip::{Spec, V4_HEADER, rewrite_v4_checksum, udp};

use super::*;

const PORT: u16 = 654;
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const INTERNET: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

fn node(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

fn neighbour(last: u8) -> Neighbour {
    Neighbour { interface: 0, address: node(last) }
}

fn route(next: u8, gateway: Option<Ipv4Addr>) -> Route {
    Route { next: neighbour(next), hops: 1, gateway }
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn packet(source: Ipv4Addr, destination: Ipv4Addr, len: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let [source, destination] = [(source, 7).into(), (destination, 7).into()];
    udp::Datagram { source, destination, payload: &vec![0; len] }.emit(&mut packet);
    packet
}

/// What a protocol hears and says.
#[derive(Debug, Default)]
struct Script {
    heard: Vec<String>,
    says: VecDeque<crate::Event>,
}

/// A protocol by a script.
#[derive(Clone, Debug, Default)]
struct Scripted(Arc<Mutex<Script>>);

impl Scripted {
    fn hear(&self, what: String) {
        self.0.lock().unwrap().heard.push(what);
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().heard)
    }
}

impl Router for Scripted {
    fn carrier(&self) -> Carrier {
        Carrier::Udp(PORT)
    }

    fn handle_interface(&mut self, _now: Time, index: usize, interface: Option<&Interface>) {
        let room = interface.map(|interface| interface.room);
        self.hear(format!("interface {index} {room:?}"));
    }

    fn handle_attached(&mut self, _now: Time, reached: &[Prefix]) {
        self.hear(format!("attached {reached:?}"));
    }

    fn handle_message(&mut self, _now: Time, arrival: &Arrival, _payload: &[u8]) {
        self.hear(format!("message of {}", arrival.from.address));
    }

    fn handle_demand(&mut self, _now: Time, demand: &Demand) {
        let from = demand.from.map(|from| from.address);
        self.hear(format!("demand {} {from:?}", demand.destination));
    }

    fn handle_passage(&mut self, _now: Time, passage: &Passage) {
        let from = passage.from.map(|from| from.address);
        self.hear(format!("passage {from:?} to {}", passage.next.address));
    }

    fn handle_break(&mut self, _now: Time, neighbour: Neighbour) {
        self.hear(format!("break {}", neighbour.address));
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_event(&mut self) -> Option<crate::Event> {
        self.0.lock().unwrap().says.pop_front()
    }

    fn poll_transmit(&mut self, _: Time, _: usize, _: &mut Vec<u8>) -> Option<Sending> {
        None
    }

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn routes(&self) -> Vec<(Prefix, Route)> {
        Vec::new()
    }

    fn counters(&self) -> Vec<(&'static Counter, u64)> {
        Vec::new()
    }
}

/// A node with one interface, and its protocol.
struct Node {
    host: Host<Vec<u8>>,
    protocol: Scripted,
}

impl Node {
    fn new(config: Config) -> Self {
        let protocol = Scripted::default();
        let mut host = Host::new(Box::new(protocol.clone()), config);
        host.handle_addresses(BTreeSet::from([OURS.into()]));
        host.handle_interface(Time::ZERO, 0, Some((OURS, 1_500)));
        assert_eq!(protocol.heard(), ["interface 0 Some(1472)"]);
        Self { host, protocol }
    }

    /// Has the protocol say something, and returns what the host says.
    fn say(&mut self, event: crate::Event) -> Vec<Event<Vec<u8>>> {
        self.protocol.0.lock().unwrap().says.push_back(event);
        self.host.handle_timeout(Time::ZERO);
        self.events()
    }

    fn set(&mut self, to: &str, route: Route) -> Vec<Event<Vec<u8>>> {
        self.say(crate::Event::Route(prefix(to), Some(route)))
    }

    fn events(&mut self) -> Vec<Event<Vec<u8>>> {
        std::iter::from_fn(|| self.host.poll_event()).collect()
    }

    fn unrouted(&mut self, octets: &[u8], origin: Origin) -> Outcome<Vec<u8>> {
        let header = Header::parse(octets).unwrap();
        self.host.handle_unrouted(Time::ZERO, &header, origin, octets.len(), octets.to_vec())
    }
}

#[test]
fn an_own_packet_waits_and_goes_on_when_there_is_a_route() {
    let mut node = Node::new(Config::default());
    let [first, other] = [5, 6].map(|last| packet(OURS, self::node(last), 10));

    assert_eq!(node.unrouted(&first, Origin::Unknown), Outcome::Held);
    assert_eq!(node.unrouted(&other, Origin::Own), Outcome::Held);
    assert_eq!(node.protocol.heard(), ["demand 10.0.0.5 None", "demand 10.0.0.6 None"]);

    let there = route(2, None);
    let told = [Event::Route(prefix("10.0.0.5/32"), Some(there)), Event::Found(first, there)];
    assert_eq!(node.set("10.0.0.5/32", there), told);
    assert_eq!(node.host.waiting(), 1);
    let gone = node.say(crate::Event::Unreachable(self::node(6)));
    assert_eq!(gone, [Event::Unreachable(other)]);
}

#[test]
fn a_packet_in_vain_is_handed_back() {
    let waiting = waiting::Config { packets: 1, ..waiting::Config::default() };
    let age = waiting.age;
    let mut node = Node::new(Config { waiting, ..Config::default() });
    let [first, second] = [5, 6].map(|last| packet(OURS, self::node(last), 10));

    node.unrouted(&first, Origin::Own);
    node.unrouted(&second, Origin::Own);
    assert_eq!(node.events(), [Event::Evicted(first)]);
    assert_eq!(node.host.next_timeout(), Some(Time::ZERO + age));
    assert_eq!(node.host.expired(), 0);
    node.host.handle_timeout(Time::ZERO + age);

    assert_eq!(node.events(), [Event::Unreachable(second)]);
    let demands = node.host.stats().demands;
    assert_eq!((demands.packets_evicted, demands.packets_unreachable), (1, 1));
    assert_eq!(node.host.expired(), 1);
}

#[test]
fn the_neighbour_that_sent_a_packet_hears_of_the_broken_way_or_all_who_may_have_sent_it() {
    let mut host = Node::new(Config::default());
    let transit = packet(node(4), node(5), 10);

    for (origin, expected) in [
        (Origin::Neighbour(neighbour(2)), "demand 10.0.0.5 Some(10.0.0.2)"),
        (Origin::Unknown, "demand 10.0.0.5 Some(255.255.255.255)"),
    ] {
        assert_eq!(host.unrouted(&transit, origin), Outcome::Unreachable(transit.clone()));
        assert_eq!(host.protocol.heard(), [expected]);
    }
    host.set("10.0.0.4/32", route(3, None));
    host.unrouted(&transit, Origin::Unknown);
    assert_eq!(host.protocol.heard(), ["demand 10.0.0.5 Some(10.0.0.3)"], "the way back");
    assert_eq!(host.host.stats().demands.demands_in_transit, 3);
}

#[test]
fn what_comes_from_outside_is_a_gateways_own() {
    for (is_gateway, source, is_held) in
        [(true, INTERNET, true), (true, node(4), false), (false, INTERNET, false)]
    {
        let manet = Some(prefix("10.0.0.0/8"));
        let mut host = Node::new(Config { is_gateway, manet, ..Config::default() });

        let outcome = host.unrouted(&packet(source, node(5), 10), Origin::Unknown);

        assert_eq!(outcome == Outcome::Held, is_held, "{is_gateway} {source}");
    }
}

#[test]
fn the_protocol_hears_of_breaks_and_of_attached_networks() {
    let mut node = Node::new(Config::default());
    let reached = [prefix("192.0.2.0/24")];

    node.host.handle_break(Time::ZERO, neighbour(2));
    node.host.handle_attached(Time::ZERO, &reached);

    assert_eq!(node.protocol.heard(), ["break 10.0.0.2".into(), format!("attached {reached:?}")]);
}

#[test]
fn a_late_packet_goes_on_only_where_packets_may_be_late() {
    for may_be_late in [false, true] {
        let mut host = Node::new(Config { may_be_late, ..Config::default() });
        host.set("10.0.0.5/32", route(2, None));
        host.set("192.0.2.7/32", route(2, Some(GATEWAY)));

        let [near, far] =
            [node(5), INTERNET].map(|to| host.unrouted(&packet(OURS, to, 1), Origin::Own));
        assert_eq!(matches!(near, Outcome::Found(..)), may_be_late, "{near:?}");
        assert_eq!(matches!(far, Outcome::Found(..)), may_be_late, "{far:?}");
        let foreign = host.unrouted(&packet(node(4), INTERNET, 1), Origin::Neighbour(neighbour(4)));
        assert!(
            matches!(foreign, Outcome::Unreachable(_)),
            "half tunnels begin at the source: {foreign:?}"
        );
    }
}

#[test]
fn packets_to_no_host_do_not_wait() {
    let mut host = Node::new(Config::default());
    for to in [Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 5)] {
        let outcome = host.unrouted(&packet(OURS, to, 1), Origin::Own);
        assert!(matches!(outcome, Outcome::Malformed(_)), "{outcome:?}");
    }
    let mut v6 = Vec::new();
    let local = std::net::Ipv6Addr::LOCALHOST;
    Spec::new(local.into(), local.into(), protocol::UDP).emit(0, &mut v6);
    assert!(matches!(host.unrouted(&v6, Origin::Own), Outcome::Malformed(_)));
    host.host.handle_interface(Time::ZERO, 0, None);
    assert!(matches!(host.unrouted(&packet(OURS, node(5), 1), Origin::Own), Outcome::Malformed(_)));
    assert_eq!(host.host.stats().demands.demands_malformed, 4);
}

#[test]
fn routes_lead_to_hosts_alone() {
    for (to, expected) in [
        ("10.0.0.1/32", true),
        ("0.0.0.0/0", true),
        ("192.168.0.0/16", true),
        ("127.0.0.1/32", false),
        ("0.0.0.0/8", false),
        ("224.0.0.0/4", false),
        ("255.255.255.255/32", false),
        ("fd00::/8", false),
    ] {
        let mut host = Node::new(Config::default());
        assert_eq!(host.set(to, route(2, None)).len(), usize::from(expected), "{to}");
        assert_eq!(host.host.stats().messages.routes_forbidden, u64::from(!expected), "{to}");
    }
}

#[test]
fn a_route_is_told_once() {
    let mut host = Node::new(Config::default());
    assert_eq!(host.set("10.0.0.5/32", route(2, None)).len(), 1);
    assert_eq!(host.set("10.0.0.5/32", route(2, None)), []);
    assert_eq!(host.set("10.0.0.5/32", route(3, None)).len(), 1);
}

#[test]
fn the_most_exact_route_says_whether_there_is_a_half_tunnel() {
    let mut host = Node::new(Config::default());
    assert_eq!(host.host.gateway(INTERNET.into()), None);
    host.set("0.0.0.0/0", route(2, Some(GATEWAY)));
    host.set("10.0.0.5/32", route(3, None));

    let asked = [INTERNET, node(5), GATEWAY].map(|to| host.host.gateway(to.into()));

    assert_eq!(asked, [Some(GATEWAY), None, None]);
    assert!(host.host.has_gateways());
    host.say(crate::Event::Route(prefix("0.0.0.0/0"), None));
    assert!(!host.host.has_gateways());
    assert_eq!(host.host.gateway(INTERNET.into()), None);
}

#[test]
fn a_half_tunnel_carries_what_fits_its_path() {
    let mut host = Node::new(Config { manet: Some(prefix("10.0.0.0/8")), ..Config::default() });
    let whole = packet(OURS, INTERNET, 1_400);
    let mut carried = whole.clone();
    host.host.encapsulate(Time::ZERO, &mut carried, GATEWAY, 1_500).unwrap();
    let header = Header::parse(&carried).unwrap();
    assert_eq!((header.protocol, header.destination), (protocol::MINIMAL, GATEWAY.into()));

    let (flow, _) = FlowKey::of(&header, &carried);
    let narrow = Some(icmp::Error::TooBig { mtu: 1_000 });
    assert!(host.host.handle_error(Time::ZERO, &flow, carried.len(), narrow));
    let foreign = FlowKey { source: node(3).into(), ..flow };
    assert!(!host.host.handle_error(Time::ZERO, &foreign, carried.len(), narrow));
    let refused = host.host.encapsulate(Time::ZERO, &mut whole.clone(), GATEWAY, 1_500);
    let fits = 1_000 - minimal::OVERHEAD;
    assert_eq!(refused, Err(NotEncapsulated::TooBig { mtu: fits }));
    assert_eq!(host.host.stats().demands.packets_too_big, 1);

    let mut end = Node::new(Config { manet: Some(prefix("10.0.0.0/8")), ..Config::default() });
    end.host.handle_addresses(BTreeSet::from([GATEWAY.into()]));
    assert!(end.host.decapsulate(&mut carried));
    assert_eq!(carried, whole);
}

#[test]
fn a_gateway_takes_out_only_what_goes_from_a_node_to_a_host_outside() {
    let manet = Some(prefix("10.0.0.0/8"));
    let mut end = Node::new(Config { manet, ..Config::default() });
    let mut take = |source: Ipv4Addr, to: Ipv4Addr| {
        let mut carried = packet(source, to, 10);
        minimal::encapsulate(&mut carried, OURS).unwrap();
        end.host.decapsulate(&mut carried)
    };

    assert!(take(node(4), INTERNET));
    for (source, to) in [
        (INTERNET, Ipv4Addr::new(192, 0, 2, 8)),
        (node(4), node(5)),
        (node(4), Ipv4Addr::new(224, 0, 0, 5)),
        (node(4), Ipv4Addr::LOCALHOST),
        (OURS, INTERNET),
    ] {
        assert!(!take(source, to), "{source} {to}");
    }
    let outlet = end.host.stats().outlet;
    assert_eq!((outlet.packets_misdirected, outlet.packets_from_self), (4, 1));
}

#[test]
fn a_passage_names_the_neighbours_on_both_sides_as_far_as_anybody_knows() {
    let mut host = Node::new(Config::default());
    let pass = |host: &mut Node, source: u8, origin, next| {
        host.host.handle_passage(Time::ZERO, (node(source), node(5)), origin, next);
        host.protocol.heard()
    };

    assert!(pass(&mut host, 4, Origin::Unknown, None).is_empty(), "there is no route");
    host.set("10.0.0.5/32", route(2, None));
    host.set("10.0.0.4/32", route(3, None));
    for (source, origin, next, expected) in [
        (4, Origin::Unknown, None, "passage Some(10.0.0.3) to 10.0.0.2"),
        (
            4,
            Origin::Neighbour(neighbour(7)),
            Some(neighbour(8)),
            "passage Some(10.0.0.7) to 10.0.0.8",
        ),
        (1, Origin::Unknown, None, "passage None to 10.0.0.2"),
        (4, Origin::Own, None, "passage None to 10.0.0.2"),
        (6, Origin::Unknown, None, "passage None to 10.0.0.2"),
    ] {
        assert_eq!(pass(&mut host, source, origin, next), [expected]);
    }
}

#[test]
fn own_packets_that_were_not_delivered_are_routed_again() {
    let mut drops = Node::new(Config { drops_unsent: true, ..Config::default() });
    let mut host = Node::new(Config::default());
    let own = packet(OURS, INTERNET, 10);
    let mut carried = own.clone();
    minimal::encapsulate(&mut carried, GATEWAY).unwrap();
    let mut message = packet(OURS, node(2), 10);
    message[V4_HEADER..V4_HEADER + 4].copy_from_slice(&[2, 142, 2, 142]);

    assert!(host.host.handle_unsent(&mut own.clone()));
    assert!(host.host.handle_unsent(&mut carried));
    assert_eq!(carried, own, "another gateway may be found");
    assert!(!host.host.handle_unsent(&mut message), "the protocol sends newer ones");
    assert!(!host.host.handle_unsent(&mut packet(node(4), INTERNET, 10)), "its sender hears of it");
    assert!(!drops.host.handle_unsent(&mut own.clone()));
}

#[test]
fn our_own_messages_are_not_heard() {
    let mut host = Node::new(Config::default());
    for from in [OURS, node(2)] {
        let from = Neighbour { interface: 0, address: from };
        host.host.handle_message(Time::ZERO, &Arrival { from, is_unicast: false, ttl: 1 }, &[]);
    }
    assert_eq!(host.protocol.heard(), ["message of 10.0.0.2"]);
    let messages = host.host.stats().messages;
    assert_eq!((messages.messages_own, messages.messages_received), (1, 1));
}

#[test]
fn messages_are_known_by_their_carrier() {
    let host = Node::new(Config::default());
    let is_message = |octets: &[u8]| host.host.is_message(&Header::parse(octets).unwrap(), octets);
    let mut message = packet(OURS, node(2), 10);
    assert!(!is_message(&message));
    message[V4_HEADER + 2..V4_HEADER + 4].copy_from_slice(&PORT.to_be_bytes());
    assert!(is_message(&message));
    message[6..8].copy_from_slice(&[0, 1]);
    rewrite_v4_checksum(&mut message[..V4_HEADER]);
    assert!(!is_message(&message), "a later fragment has no ports");
    let mut ospf = Vec::new();
    Spec::new(OURS.into(), node(2).into(), 89).emit(0, &mut ospf);
    assert!(!is_message(&ospf));
    assert!(Carrier::Ip(89).carries(89, &[]));
}

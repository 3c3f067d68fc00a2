//! Tests routing protocols in nodes on a field with known radio links.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::time::Time;
use manet::dsdv;
use sim::app::stream;
use sim::medium::{Delivery, LinkAddress, Medium, Neighbour};
use sim::service::routing::{RoutingConfig, RoutingOptions, RoutingProtocol, Unsent};
use sim::{
    AppId, Class, InterfaceConfig, NodeId, PacketId, PortId, Prefix, QueueDiscipline, World,
};

/// How long every transmission takes.
const SLOT: Duration = Duration::from_millis(2);

#[test]
fn a_chain_carries_packets_once_dsdv_has_found_the_routes() {
    let mut field = Field::chain(5, &config());
    let sink = field.stream(0, 4, 1, 20);

    field.world.run_until(seconds(60));

    assert_eq!(field.received(sink), 0, "the stream starts at 100 s");
    field.world.run_until(seconds(140));
    assert_eq!(field.received(sink), 20);
    let routes = field.world.routes(field.nodes[0]);
    assert_eq!(routes.iter().map(|(_, route)| route.hops).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let sent = field.world.total().sent;
    assert!(sent[Class::Routing].packets > 50, "{sent:?}");
    assert_eq!(sent[Class::Data].packets, 20 * 4, "routing counts by itself");
    assert_eq!(field.world.packets_under_way(), 0);
}

#[test]
fn own_packets_wait_for_a_route_and_those_of_others_are_refused() {
    let mut field = Field::chain(3, &config());
    let sink = field.stream_every(0, 2, 1, 4, Time::ZERO, MOMENT);
    field.world.run_until(Time::ZERO + Duration::from_millis(10));
    // As if a neighbour had sent it: node 1 has no route to node 7.
    field.world.add_route(field.ports[0], Prefix::host(address(7)), Some(address(1)), 1);
    let stray = field.stream_every(0, 7, 2, 1, Time::ZERO, MOMENT);

    field.world.run_until(seconds(9));

    assert_eq!(field.received(sink), 4, "the first waited for the first updates");
    assert_eq!(field.received(stray), 0);
    assert_eq!(field.world.node_counters(field.nodes[0]).no_route, 0);
    assert_eq!(field.world.node_counters(field.nodes[1]).no_route, 1);
    assert_eq!(field.world.node_counters(field.nodes[0]).errors_received, 1);
    assert_eq!(field.world.packets_under_way(), 0);
}

#[test]
fn what_waits_too_long_or_is_too_much_is_counted() {
    let mut field = Field::chain(2, &config());
    let _ = field.stream_every(0, 7, 1, 8, Time::ZERO, MOMENT);

    field.world.run_until(seconds(5));
    assert_eq!(field.world.packets_under_way(), 5, "the five newest wait");
    field.world.run_until(seconds(14));

    let counters = field.world.routing_counters(field.nodes[0]);
    assert_eq!((counters.evicted, counters.expired), (3, 5));
    assert_eq!(field.world.node_counters(field.nodes[0]).no_route, 5);
    assert_eq!(field.world.packets_under_way(), 0);
}

#[test]
fn a_break_is_felt_and_own_packets_take_the_other_way() {
    for (own_unsent, recalls_queue) in
        [(Unsent::Reroute, true), (Unsent::Reroute, false), (Unsent::Drop, true)]
    {
        let dsdv = dsdv::Config { link_breaks: true, ..dsdv::Config::default() };
        let mut config = RoutingConfig::new(RoutingProtocol::Dsdv(dsdv));
        config.options = RoutingOptions { own_unsent, recalls_queue, ..config.options };
        // 0 reaches 2 by 1 or by 3.
        let mut field = Field::new(4, &[(0, 1), (1, 2), (0, 3), (2, 3)], &config, queue());
        field.world.record_routes(1_000);
        field.world.run_until(seconds(100));
        let via = field.world.routes(field.nodes[0])[1].1.next.address.octets()[3];
        let sink = field.stream_every(0, 2, 1, 40, seconds(100), Duration::from_micros(100));
        field.world.run_until(seconds(100) + Duration::from_millis(5));

        field.cut(0, via.into());
        field.world.run_until(seconds(150));

        let counters = field.world.routing_counters(field.nodes[0]);
        let lost = field.world.port_counters(field.ports[0]).lost.packets;
        let received = field.received(sink);
        assert!(field.hops_over_time(0, 2).contains(&None), "the break was recorded");
        match (own_unsent, recalls_queue) {
            (Unsent::Reroute, true) => {
                assert!(counters.unsent > 30, "the queue came back: {counters:?}");
                assert_eq!((lost, counters.evicted + received + counters.expired), (0, 40));
            }
            (Unsent::Reroute, false) => assert!(counters.unsent > 30, "one by one: {counters:?}"),
            (Unsent::Drop, _) => {
                assert_eq!(counters.rerouted, 0);
                assert_eq!(lost + received + counters.evicted + counters.expired, 40);
                assert!(lost > 30, "{lost}");
            }
        }
        assert_eq!(field.world.packets_under_way(), 0);
    }
}

#[test]
fn a_gateway_is_the_way_out_of_the_field() {
    let mut field = Field::without_routing(4, &chain(4), queue());
    let gateway = field.nodes[3];
    let host = field.world.add_node("host");
    let link = field.world.connect(gateway, host, &sim::LinkConfig::default());
    let [_, far] = field.world.ends(link);
    let back: Prefix = "10.1.0.0/16".parse().unwrap();
    field.world.add_route(far, back, Some([10, 0, 0, 1].into()), 1);
    for node in field.nodes.clone() {
        let is_gateway = node == gateway;
        let dsdv = dsdv::Config { is_gateway, ..dsdv::Config::default() };
        field.world.enable_routing(node, &RoutingConfig::new(RoutingProtocol::Dsdv(dsdv)), &[]);
    }
    let sink = field.world.add_app(host, stream::Sink::new(9));
    field.sender(0, SocketAddr::new([10, 0, 0, 2].into(), 9), 1, 10, seconds(100), SECOND);

    field.world.run_until(seconds(150));

    assert_eq!(field.received(sink), 10);
    assert_eq!(field.world.packets_under_way(), 0);
}

#[test]
fn messages_go_before_packets_where_that_is_asked_for() {
    for (queue_discipline, is_first) in
        [(QueueDiscipline::DropTail, false), (QueueDiscipline::RoutingFirst, true)]
    {
        let queue = InterfaceConfig { queue_discipline, ..queue() };
        let mut field = Field::new(2, &[(0, 1)], &config(), queue);
        field.world.run_until(seconds(40));
        // Three times what the field carries.
        let _ = field.stream_every(0, 1, 1, 90_000, seconds(40), Duration::from_micros(600));

        field.world.run_until(seconds(90));

        let sent = field.world.port_counters(field.ports[0]).sent[Class::Routing].packets;
        let made: u64 = field
            .world
            .routing_protocol_counters(field.nodes[0])
            .iter()
            .filter(|(name, _)| *name == "sent")
            .map(|(_, count)| *count)
            .sum();
        assert!(made >= 5, "{made}");
        assert_eq!(sent == made, is_first, "{sent} of {made}");
    }
}

#[test]
fn an_interface_that_goes_down_ends_the_routes_through_it() {
    let mut world = World::new(1);
    let nodes = ["a", "b", "c"].map(|name| world.add_node(name));
    let links = [(0, 1), (1, 2)]
        .map(|(a, b)| world.connect(nodes[a], nodes[b], &sim::LinkConfig::default()));
    for node in nodes {
        let ports: Vec<PortId> = links.iter().flat_map(|link| world.ends(*link)).collect();
        world.enable_routing(node, &config(), &ports);
    }
    world.run_until(seconds(60));
    assert!(!world.routes(nodes[0]).is_empty(), "over links, where they are named");
    let far: IpAddr = [10, 0, 1, 2].into();
    assert!(world.routes(nodes[0]).iter().any(|(prefix, _)| prefix.contains(far)));

    world.at(seconds(60), sim::Change::LinkDown(links[0]));
    world.run_until(seconds(61));

    assert_eq!(world.routes(nodes[0]), []);
}

/// Between datagrams that come together.
const MOMENT: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn seconds(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn config() -> RoutingConfig {
    RoutingConfig::new(RoutingProtocol::Dsdv(dsdv::Config::default()))
}

fn queue() -> InterfaceConfig {
    InterfaceConfig::default()
}

fn address(node: u8) -> IpAddr {
    Ipv4Addr::new(10, 1, 0, node).into()
}

/// Nodes with one interface each on an [`Air`].
struct Field {
    world: World,
    nodes: Vec<NodeId>,
    ports: Vec<PortId>,
    links: Links,
}

type Links = Arc<Mutex<BTreeSet<(PortId, PortId)>>>;

impl Field {
    fn chain(count: usize, config: &RoutingConfig) -> Self {
        Self::new(count, &chain(count), config, queue())
    }

    fn new(
        count: usize,
        links: &[(usize, usize)],
        config: &RoutingConfig,
        queue: InterfaceConfig,
    ) -> Self {
        let mut field = Self::without_routing(count, links, queue);
        for node in field.nodes.clone() {
            field.world.enable_routing(node, config, &[]);
        }
        field
    }

    fn without_routing(count: usize, links: &[(usize, usize)], queue: InterfaceConfig) -> Self {
        let mut world = World::new(1);
        let heard = Links::default();
        let air = world.add_medium(Air { links: Arc::clone(&heard), ..Air::default() });
        let (mut nodes, mut ports) = (Vec::new(), Vec::new());
        for index in 0..count {
            let node = world.add_node(&format!("n{index}"));
            let port = world.attach(node, air, "radio", queue);
            world.add_address(port, address(u8::try_from(index).expect("few nodes")));
            nodes.push(node);
            ports.push(port);
        }
        let field = Self { world, nodes, ports, links: heard };
        for (a, b) in links {
            let (a, b) = (field.ports[*a], field.ports[*b]);
            field.links.lock().expect("nobody panics with it").extend([(a, b), (b, a)]);
        }
        field
    }

    fn cut(&self, a: usize, b: usize) {
        let (a, b) = (self.ports[a], self.ports[b]);
        self.links
            .lock()
            .expect("nobody panics with it")
            .retain(|link| *link != (a, b) && *link != (b, a));
    }

    /// A stream of so many datagrams, one a second from 100 s on.
    fn stream(&mut self, from: usize, to: u8, port: u16, count: u64) -> AppId {
        self.stream_every(from, to, port, count, seconds(100), SECOND)
    }

    fn stream_every(
        &mut self,
        from: usize,
        to: u8,
        port: u16,
        count: u64,
        start: Time,
        interval: Duration,
    ) -> AppId {
        let destination = SocketAddr::new(address(to), 9_000 + port);
        self.sender(from, destination, port, count, start, interval);
        let at = self.nodes.get(usize::from(to)).copied().unwrap_or(self.nodes[from]);
        self.world.add_app(at, stream::Sink::new(9_000 + port))
    }

    fn sender(
        &mut self,
        from: usize,
        destination: SocketAddr,
        port: u16,
        count: u64,
        start: Time,
        interval: Duration,
    ) {
        let config = stream::SenderConfig {
            port: 5_000 + port,
            interval,
            start,
            count: Some(count),
            ..stream::SenderConfig::new(destination, 100)
        };
        self.world.add_app(self.nodes[from], stream::Sender::new(config));
    }

    fn received(&self, sink: AppId) -> u64 {
        self.world.app::<stream::Sink>(sink).expect("a sink").stats().received
    }

    /// The hops of a node's routes to another, one after the other.
    fn hops_over_time(&self, from: usize, to: u8) -> Vec<Option<u8>> {
        let changes = self.world.route_changes().iter().filter(|change| {
            change.node == self.nodes[from] && change.prefix == Prefix::host(address(to))
        });
        changes.map(|change| change.route.map(|route| route.hops)).collect()
    }
}

fn chain(count: usize) -> Vec<(usize, usize)> {
    (1..count).map(|node| (node - 1, node)).collect()
}

/// A medium with fixed links that reports failed unicasts.
#[derive(Debug, Default)]
struct Air {
    ports: Vec<PortId>,
    addresses: BTreeMap<IpAddr, PortId>,
    links: Links,
    /// Failed packets, by the tokens of events.
    failing: BTreeMap<u32, (PortId, LinkAddress, PacketId)>,
    next: u32,
}

impl Air {
    fn reached(&self, from: PortId) -> Vec<PortId> {
        let links = self.links.lock().expect("nobody panics with it");
        self.ports.iter().copied().filter(|to| links.contains(&(from, *to))).collect()
    }
}

impl Medium for Air {
    fn attach(&mut self, port: PortId) {
        self.ports.push(port);
    }

    fn handle_address(&mut self, port: PortId, address: IpAddr) {
        self.addresses.insert(address, port);
    }

    fn transmit(
        &mut self,
        delivery: &mut Delivery<'_>,
        from: PortId,
        to: LinkAddress,
        packet: PacketId,
    ) {
        let end = delivery.now() + SLOT;
        delivery.set_idle(from, end);
        let mut reached = self.reached(from);
        if let LinkAddress::Port(port) = to {
            reached.retain(|other| *other == port);
            if reached.is_empty() {
                self.failing.insert(self.next, (from, to, packet));
                delivery.wake(end, self.next);
                self.next += 1;
                return;
            }
        }
        if reached.is_empty() {
            delivery.lose(from, packet);
        }
        for (index, port) in reached.into_iter().enumerate() {
            if index > 0 {
                delivery.share(packet);
            }
            delivery.deliver(end, from, port, packet);
        }
    }

    fn handle_event(&mut self, delivery: &mut Delivery<'_>, token: u32) {
        if let Some((from, to, packet)) = self.failing.remove(&token) {
            delivery.fail(from, to, packet);
        }
    }

    fn resolve(&self, _port: PortId, address: IpAddr) -> Option<LinkAddress> {
        self.addresses.get(&address).copied().map(LinkAddress::Port)
    }

    fn neighbours(&self, _now: Time, port: PortId) -> Vec<Neighbour> {
        self.reached(port).into_iter().map(|port| Neighbour { port, cost: 1 }).collect()
    }
}

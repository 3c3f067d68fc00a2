//! Tests HBH between radio stations, with each way of finding routes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::quantity::BitRate;
use base::time::Time;
use hbh::Profile;
use manet::{aodv, olsr};
use sim::app::transfer;
use sim::mobility::{Motion, Position};
use sim::service::hbh::Hbh;
use sim::service::routing::{RoutingConfig, RoutingProtocol};
use sim::{
    AppId, Change, Class, InterfaceConfig, LinkConfig, NodeId, PortId, Prefix, World, channel,
    radio,
};

/// Octets of a transfer.
const LEN: u64 = 300_000;

#[test]
fn tcp_goes_hop_by_hop_over_radios_whoever_finds_the_routes() {
    for protocol in protocols() {
        let mut field = Field::row(3);
        field.start(protocol.as_ref(), false);
        let sink = field.transfer(0, 2);

        field.run_for(30);

        let what = format!("{protocol:?}");
        let finished = field.world.transfer_sink(sink).map(|sink| sink.octets);
        assert_eq!(finished, Some(LEN), "{what}");
        for (node, peers) in field.nodes.iter().zip([1, 2, 1]) {
            let Some(hbh) = field.world.services::<Hbh>(*node).next() else { panic!("{what}") };
            assert_eq!(hbh.peers(), peers, "{what}");
            assert_eq!(hbh.hellos().neighbours_down, 0, "{what}");
        }
        for (node, port) in field.nodes.iter().zip(&field.ports) {
            let sent = field.world.port_counters(*port).sent;
            let plain = sent[Class::Data].packets + sent[Class::Ack].packets;
            let stats = field.hbh(*node);
            let carried = stats.sent.data_sent + stats.sent.repairs_sent;
            assert!(plain > 0 && plain <= carried, "{what}: {plain} of {stats:?}");
        }
        assert_eq!(field.world.packets_under_way(), 0, "{what}");
    }
}

#[test]
fn routing_hears_of_a_break_under_hbh_and_what_hbh_has_goes_the_other_way() {
    for is_hbh_first in [true, false] {
        // The first node reaches the last by either of two relays.
        let mut field = Field::new(&[(0.0, 0.0), (200.0, 100.0), (200.0, -100.0), (400.0, 0.0)]);
        field.start(protocols()[1].as_ref(), is_hbh_first);
        let sink = field.transfer(0, 3);
        field.world.run_until(field.world.now() + Duration::from_secs(2));
        let last = field.world.address(field.nodes[3]).unwrap();
        let path = field.world.path(field.nodes[0], last).expect("a route");
        let relay = field.nodes.iter().position(|node| *node == path[1]).unwrap();
        let carried = field.world.transfer_sink(sink).map_or(0, |sink| sink.octets);
        assert!(carried > 0 && carried < LEN, "{carried}");
        field.world.at(field.world.now(), Change::RadioOff(field.ports[relay]));

        field.run_for(30);

        let what = format!("HBH first: {is_hbh_first}");
        assert_eq!(field.world.transfer_sink(sink).map(|sink| sink.octets), Some(LEN), "{what}");
        // Whichever end notices first.
        let routing = [0, 3].map(|end| field.world.routing_counters(field.nodes[end]));
        assert!(routing[0].unsent + routing[1].unsent > 0, "{what}: {routing:?}");
        assert_eq!(routing[0].rerouted, 0, "{what}: HBH's own frames are HBH's");
        let report = field.world.report();
        let hbh = report.nodes[0].services.iter().find(|service| service.service == "hbh").unwrap();
        assert!(hbh.state["unsent"].as_u64() > Some(0), "{what}: {}", hbh.state);
        assert!(hbh.state["rerouted"].as_u64() > Some(0), "{what}: {}", hbh.state);
    }
}

#[test]
fn a_way_is_looked_for_at_once_for_what_hbh_holds() {
    let mut field = Field::new(&[(0.0, 0.0), (200.0, 100.0), (200.0, -100.0), (400.0, 0.0)]);
    field.start(protocols()[1].as_ref(), false);
    field.transfer(0, 3);
    field.world.run_until(field.world.now() + Duration::from_secs(3));
    let last = field.world.address(field.nodes[3]).unwrap();
    let path = field.world.path(field.nodes[0], last).expect("a route");
    let relay = field.nodes.iter().position(|node| *node == path[1]).unwrap();
    field.world.at(field.world.now(), Change::RadioOff(field.ports[relay]));

    let off = field.world.now();
    while field.world.path(field.nodes[0], last).is_none_or(|now| now == path) {
        field.world.run_until(field.world.now() + Duration::from_millis(10));
    }

    // Two packets are given up, and TCP does not have to wait for its timeout.
    let gap = field.world.now().since(off);
    assert!(gap < Duration::from_millis(400), "{gap:?}");
}

#[test]
fn a_busy_channel_breaks_few_routes_under_hbh() {
    let mut breaks = [true, false].map(|is_hbh| {
        let mut field = Field::row(5);
        let protocol = protocols()[1].clone();
        if is_hbh {
            field.start(protocol.as_ref(), false);
        } else {
            field.start_routing(protocol.as_ref());
        }
        field.transfer(0, 4);
        field.run_for(30);
        let counted = field.nodes.iter().map(|node| field.world.routing_counters(*node).unsent);
        counted.sum::<u64>()
    });

    breaks[0] *= 40;
    assert!(breaks[0] < breaks[1], "{breaks:?}");
}

#[test]
fn a_flow_older_than_its_hop_by_hop_peer_learns_how_long_its_packets_may_be() {
    let mut world = World::new(1);
    let radio = world.add_radio(radio::Config::default());
    let manet = Prefix::new(Ipv4Addr::new(10, 128, 0, 0).into(), 16).unwrap();
    let [node, gateway] = [0.0, 200.0].map(|x| {
        let node = world.add_node(&format!("n{x}"));
        let at = Motion::at_rest(Position::new(x, 0.0));
        world.add_radio_station(radio, node, at, InterfaceConfig::default());
        node
    });
    let host = world.add_node("host");
    let rate = BitRate::from_bits_per_s(100_000_000).unwrap();
    let channel = channel::Config { rate, ..channel::Config::default() };
    world.connect(gateway, host, &LinkConfig::symmetric(channel, InterfaceConfig::default()));
    world.route(host, manet, gateway, 1);
    for station in [node, gateway] {
        let mut aodv = aodv::Config::link_layer_feedback();
        aodv.internet = aodv::Internet { manet, gateway: station == gateway, ..aodv.internet };
        world.enable_routing(station, &RoutingConfig::new(RoutingProtocol::Aodv(aodv)), &[]);
        world.enable_hbh(station, hbh::Config::new(Profile::Default));
    }
    let host = (host, world.address(host).unwrap());
    // The connection is established, for segments of 1460 octets, before HBH knows its neighbours.
    let sender = transfer::SenderConfig::new(SocketAddr::new(host.1, 9), 10 * LEN);
    world.add_app(node, transfer::Sender::new(sender));
    // A small window leaves room for hellos on the channel.
    let tcp = tcp::Config { receive_buffer: 8_000, ..tcp::Config::default() };
    let sink = transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) };
    let sink = world.add_app(host.0, transfer::Sink::new(sink));

    world.run_until(Time::ZERO + Duration::from_secs(60));

    assert_eq!(world.transfer_sink(sink).map(|sink| sink.octets), Some(10 * LEN));
    let hbh = world.services::<Hbh>(node).next().expect("HBH runs").stats();
    assert!(hbh.intake.packets_taken > 100 && hbh.intake.packets_too_big > 0, "{hbh:?}");
    assert!(world.routing_counters(node).too_big > 0, "the half tunnel is told");
}

#[test]
fn what_waits_in_a_queue_behind_the_interface_is_not_sent_again() {
    // As with a radio beside the gateway, on a cable that always has room.
    let interface = InterfaceConfig { hop_backlog: 1_000, ..InterfaceConfig::default() };
    let mut field = Field::with_interfaces(&[(0.0, 0.0), (200.0, 0.0), (400.0, 0.0)], interface);
    field.start(None, false);
    let sink = field.transfer(0, 2);

    field.run_for(10);

    assert_eq!(field.world.transfer_sink(sink).map(|sink| sink.octets), Some(LEN));
    for node in field.nodes.clone() {
        let sent = field.hbh(node).sent;
        // A queue of 50 packets is less than what a hop begins with.
        assert!(sent.data_repeated * 5 < sent.data_sent, "{sent:?}");
    }
}

/// `None` means shortest paths.
fn protocols() -> [Option<RoutingProtocol>; 3] {
    [
        None,
        Some(RoutingProtocol::Aodv(aodv::Config::link_layer_feedback())),
        Some(RoutingProtocol::Olsr(olsr::Config::default())),
    ]
}

struct Field {
    world: World,
    nodes: Vec<NodeId>,
    ports: Vec<PortId>,
}

impl Field {
    /// Stations in a row, 200 m apart.
    fn row(stations: u32) -> Self {
        let places: Vec<_> = (0..stations).map(|n| (f64::from(n) * 200.0, 0.0)).collect();
        Self::new(&places)
    }

    fn new(places: &[(f64, f64)]) -> Self {
        Self::with_interfaces(places, InterfaceConfig::default())
    }

    fn with_interfaces(places: &[(f64, f64)], interface: InterfaceConfig) -> Self {
        let mut world = World::new(1);
        let radio = world.add_radio(radio::Config::default());
        let (mut nodes, mut ports) = (Vec::new(), Vec::new());
        for (n, (x, y)) in places.iter().enumerate() {
            let node = world.add_node(&format!("n{n}"));
            let motion = Motion::at_rest(Position::new(*x, *y));
            ports.push(world.add_radio_station(radio, node, motion, interface));
            nodes.push(node);
        }
        Self { world, nodes, ports }
    }

    /// Starts HBH and the routing protocol, and lets nodes meet.
    fn start(&mut self, protocol: Option<&RoutingProtocol>, is_hbh_first: bool) {
        for node in self.nodes.clone() {
            for is_hbh in [is_hbh_first, !is_hbh_first] {
                if is_hbh {
                    self.world.enable_hbh(node, hbh::Config::new(Profile::Default));
                } else if let Some(protocol) = protocol {
                    self.world.enable_routing(node, &RoutingConfig::new(protocol.clone()), &[]);
                }
            }
        }
        if protocol.is_none() {
            self.world.auto_routes();
        }
        self.world.meet();
    }

    fn start_routing(&mut self, protocol: Option<&RoutingProtocol>) {
        for node in self.nodes.clone() {
            if let Some(protocol) = protocol {
                self.world.enable_routing(node, &RoutingConfig::new(protocol.clone()), &[]);
            }
        }
    }

    fn transfer(&mut self, from: usize, to: usize) -> AppId {
        let address =
            SocketAddr::new(self.world.address(self.nodes[to]).expect("it has a radio"), 9);
        let config = transfer::SenderConfig {
            start: self.world.now(),
            ..transfer::SenderConfig::new(address, LEN)
        };
        self.world.add_app(self.nodes[from], transfer::Sender::new(config));
        self.world.add_app(self.nodes[to], transfer::Sink::new(transfer::SinkConfig::new(9)))
    }

    fn run_for(&mut self, seconds: u64) {
        self.world.run_until(self.world.now() + Duration::from_secs(seconds));
    }

    fn hbh(&self, node: NodeId) -> hbh::Stats {
        self.world.services::<Hbh>(node).next().map(Hbh::stats).unwrap_or_default()
    }
}

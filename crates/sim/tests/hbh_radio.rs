//! HBH between radio stations, whoever finds the routes.

use std::net::SocketAddr;
use std::time::Duration;

use proto::hbh::{self, Profile};
use proto::routing::{aodv, olsr};
use sim::app::transfer;
use sim::mobility::{Motion, Position};
use sim::service::hbh::Hbh;
use sim::service::routing::{RoutingConfig, RoutingProtocol};
use sim::{AppId, Class, InterfaceConfig, NodeId, PortId, World, radio};

/// Octets of a transfer.
const LEN: u64 = 300_000;

#[test]
fn tcp_goes_hop_by_hop_over_radios_whoever_finds_the_routes() {
    for protocol in protocols() {
        let mut field = Field::row(3);
        field.start(protocol.as_ref());
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
            assert!(plain > 0 && plain <= stats.sent.data_sent, "{what}: {plain} of {stats:?}");
        }
        assert_eq!(field.world.packets_under_way(), 0, "{what}");
    }
}

/// None is for shortest paths.
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
        let mut world = World::new(1);
        let radio = world.add_radio(radio::Config::default());
        let (mut nodes, mut ports) = (Vec::new(), Vec::new());
        for (n, (x, y)) in places.iter().enumerate() {
            let node = world.add_node(&format!("n{n}"));
            let motion = Motion::at_rest(Position::new(*x, *y));
            let interface = InterfaceConfig::default();
            ports.push(world.add_radio_station(radio, node, motion, interface));
            nodes.push(node);
        }
        Self { world, nodes, ports }
    }

    /// Starts HBH and what finds routes, and lets nodes meet.
    fn start(&mut self, protocol: Option<&RoutingProtocol>) {
        for node in self.nodes.clone() {
            if let Some(protocol) = protocol {
                self.world.enable_routing(node, &RoutingConfig::new(protocol.clone()), &[]);
            }
            self.world.enable_hbh(node, hbh::Config::new(Profile::Default));
        }
        if protocol.is_none() {
            self.world.auto_routes();
        }
        self.world.meet();
    }

    fn transfer(&mut self, from: usize, to: usize) -> AppId {
        let address = SocketAddr::new(self.world.address(self.nodes[to]).unwrap(), 9);
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

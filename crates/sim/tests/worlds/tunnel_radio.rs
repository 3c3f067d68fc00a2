//! Tests a coded tunnel over radios with routes found on demand.

use std::net::SocketAddr;
use std::time::Duration;

use base::time::Time;
use manet::aodv;
use sim::app::transfer;
use sim::mobility::{Motion, Position};
use sim::service::routing::{RoutingConfig, RoutingProtocol};
use sim::{InterfaceConfig, Prefix, World, radio};
use tunnel as nc;

const LEN: u64 = 200_000;

#[test]
fn the_first_datagram_of_a_tunnel_has_its_route_looked_for() {
    let mut world = World::new(1);
    let radio = world.add_radio(radio::Config::default());
    let nodes = [0.0, 200.0, 400.0].map(|x| {
        let node = world.add_node(&format!("n{x}"));
        let at = Motion::at_rest(Position::new(x, 0.0));
        world.add_radio_station(radio, node, at, InterfaceConfig::default());
        let aodv = RoutingProtocol::Aodv(aodv::Config::link_layer_feedback());
        world.enable_routing(node, &RoutingConfig::new(aodv), &[]);
        node
    });
    let [near, _, far] = nodes;
    let tunnel = world.add_tunnel(near, far, nc::Config::default()).expect("both have addresses");
    for (node, other) in [(near, far), (far, near)] {
        let address = world.address(other).expect("a radio");
        assert!(world.route_into_tunnel(node, Prefix::host(address), tunnel));
    }
    let to = SocketAddr::new(world.address(far).expect("a radio"), 9);
    let sender = transfer::SenderConfig {
        start: Time::ZERO + Duration::from_secs(1),
        ..transfer::SenderConfig::new(to, LEN)
    };
    world.add_app(near, transfer::Sender::new(sender));
    let sink = world.add_app(far, transfer::Sink::new(transfer::SinkConfig::new(9)));

    world.run_until(Time::ZERO + Duration::from_secs(30));

    assert_eq!(world.transfer_sink(sink).map(|sink| sink.octets), Some(LEN));
    let carried = world.tunnel(near, tunnel).expect("it ends there").stats.inner.packets_in;
    assert!(carried > 100, "{carried}");
    assert_eq!(world.node_counters(near).no_route, 0);
}

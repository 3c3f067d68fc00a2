//! Routes, hops, ICMP, MTU.

use super::*;

#[test]
fn an_echo_comes_back_over_the_chain() {
    let (mut world, nodes) = chain(1, 4, &link(slow()));
    let (a, e) = (world.address(nodes[0]).unwrap(), world.address(nodes[4]).unwrap());

    world.inject(nodes[0], &echo_request(a, e));
    world.run(secs(10), |_| false);

    assert_eq!(world.total().sent.total().packets, 8);
    assert_eq!(world.node_counters(nodes[4]).originated, 1);
    assert_eq!(world.node_counters(nodes[0]).delivered, 1);
    assert_eq!(world.node_counters(nodes[2]).forwarded, 2);
}

#[test]
fn a_path_is_the_nodes_that_a_packet_passes() {
    let (mut world, nodes) = chain(1, 4, &link(slow()));
    let (c, e) = (world.address(nodes[2]).unwrap(), world.address(nodes[4]).unwrap());

    assert_eq!(world.path(nodes[0], e), Some(nodes.clone()));
    assert_eq!(world.path(nodes[0], "10.9.9.9".parse().unwrap()), None);

    // The second node sends packets for the last back to the first.
    world.route(nodes[1], Prefix::host(e), nodes[0], 1);
    assert_eq!(world.path(nodes[0], e), None);
    assert_eq!(world.path(nodes[0], c), Some(nodes[..3].to_vec()));
}

#[test]
fn a_v6_stream_takes_the_same_way() {
    let (mut world, nodes) = chain(1, 3, &link(slow()));
    let address = world.addresses(nodes[3]).find(IpAddr::is_ipv6).unwrap();
    let config = stream::SenderConfig {
        destination: SocketAddr::new(address, 9),
        ..stream_to(&world, nodes[3], 52, 5)
    };
    world.add_app(nodes[0], stream::Sender::new(config));
    let sink = world.add_app(nodes[3], stream::Sink::new(9));

    world.run(secs(10), |_| false);

    // 52 + 8 + 40 octets at 300 kbit/s are 2,666,666.67 ns.
    let stats = world.app::<stream::Sink>(sink).unwrap().stats();
    assert_eq!(stats.received, 5);
    assert_eq!(stats.delay.max(), Duration::from_nanos(3 * 52_666_667));
}

#[test]
fn the_sender_hears_that_the_hops_were_used_up() {
    let (mut world, nodes) = chain(1, 4, &link(slow()));
    let (a, e) = (world.address(nodes[0]).unwrap(), world.address(nodes[4]).unwrap());
    let mut packet = datagram(a, e, 20);
    packet[8] = 2;
    base::ip::rewrite_v4_checksum(&mut packet[..20]);

    world.inject(nodes[0], &packet);
    world.run(secs(10), |_| false);

    assert_eq!(world.node_counters(nodes[2]).hops_exceeded, 1);
    assert_eq!(world.node_counters(nodes[2]).errors_sent, 1);
    assert_eq!(world.node_counters(nodes[0]).errors_received, 1);
}

#[test]
fn the_application_hears_that_nobody_listens() {
    let (mut world, nodes) = chain(1, 2, &link(slow()));
    let sender = stream_to(&world, nodes[2], 20, 3);
    let sender = world.add_app(nodes[0], stream::Sender::new(sender));

    world.run(secs(10), |_| false);

    assert_eq!(world.app::<stream::Sender>(sender).unwrap().stats().errors, 3);
    assert_eq!(world.node_counters(nodes[2]).unwanted, 3);
}

#[test]
fn the_application_hears_that_there_is_no_route() {
    let (mut world, nodes) = chain(1, 2, &link(slow()));
    let config = stream::SenderConfig {
        destination: "10.0.0.77:9".parse().unwrap(),
        ..stream_to(&world, nodes[2], 20, 1)
    };
    let far =
        stream::SenderConfig { destination: "192.0.2.1:9".parse().unwrap(), port: 5_001, ..config };
    let far = world.add_app(nodes[0], stream::Sender::new(far));

    world.run(secs(10), |_| false);

    assert_eq!(world.app::<stream::Sender>(far).unwrap().stats().errors, 1);
    assert_eq!(world.node_counters(nodes[0]).no_route, 1);
}

#[test]
fn a_packet_too_long_for_a_later_link_is_reported_or_cut() {
    let mut world = World::new(1);
    let nodes = ["a", "b", "c"].map(|name| world.add_node(name));
    world.connect(nodes[0], nodes[1], &link(slow()));
    let short = InterfaceConfig { mtu: 600, ..InterfaceConfig::default() };
    world.connect(nodes[1], nodes[2], &LinkConfig::symmetric(slow(), short));
    world.auto_routes();
    let (a, c) = (world.address(nodes[0]).unwrap(), world.address(nodes[2]).unwrap());
    let whole = datagram(a, c, 1_000);
    let mut may_be_cut = whole.clone();
    may_be_cut[6] = 0;
    base::ip::rewrite_v4_checksum(&mut may_be_cut[..20]);

    world.inject(nodes[0], &whole);
    world.inject(nodes[0], &may_be_cut);
    world.run(secs(10), |_| false);

    assert_eq!(world.node_counters(nodes[1]).too_big, 1);
    assert_eq!(world.node_counters(nodes[0]).errors_received, 1);
    assert_eq!(world.node_counters(nodes[2]).fragments, 2);
    assert_eq!(world.packets_under_way(), 0);
}

#[test]
fn traffic_takes_the_other_way_when_a_link_goes_down() {
    let (mut world, nodes, links) = square();
    let sender = stream_to(&world, nodes[3], 20, 30);
    world.add_app(nodes[0], stream::Sender::new(sender));
    let sink = world.add_app(nodes[3], stream::Sink::new(9));
    let at = Time::from_nanos(950_000_000);
    world.at(at, Change::LinkDown(links[0]));
    world.at(at, Change::AutoRoutes);

    world.run(secs(10), |_| false);

    assert_eq!(world.app::<stream::Sink>(sink).unwrap().stats().received, 30);
    assert_eq!(world.node_counters(nodes[1]).forwarded, 10);
    assert_eq!(world.node_counters(nodes[2]).forwarded, 20);
}

#[test]
fn a_route_set_at_a_time_moves_the_traffic() {
    let (mut world, nodes, _) = square();
    let sender = stream_to(&world, nodes[3], 20, 30);
    let prefix = Prefix::host(sender.destination.ip());
    world.add_app(nodes[0], stream::Sender::new(sender));
    world.add_app(nodes[3], stream::Sink::new(9));
    let (node, via) = (nodes[0], nodes[2]);
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    world.at(at(950), Change::Route { node, prefix, via, metric: 1 });
    world.at(at(1_450), Change::Unroute { node, prefix });
    world.at(at(1_450), Change::AutoRoutes);

    world.run(secs(10), |_| false);

    assert_eq!(world.node_counters(nodes[1]).forwarded, 25);
    assert_eq!(world.node_counters(nodes[2]).forwarded, 5);
}

#[test]
fn octets_that_are_no_packet_are_counted_and_dropped() {
    let (mut world, nodes) = chain(1, 1, &link(slow()));
    let (a, b) = (world.address(nodes[0]).unwrap(), world.address(nodes[1]).unwrap());
    let mut damaged = datagram(a, b, 20);
    *damaged.last_mut().unwrap() ^= 1;

    world.inject(nodes[0], &[]);
    world.inject(nodes[0], &[0x45; 19]);
    world.inject(nodes[0], &damaged);
    world.run(secs(1), |_| false);

    assert_eq!(world.node_counters(nodes[0]).malformed, 2);
    assert_eq!(world.node_counters(nodes[1]).malformed_transport, 1);
    assert_eq!(world.packets_under_way(), 0);
}

/// From node 0 to node 3 through 1, or through 2.
fn square() -> (World, [NodeId; 4], [LinkId; 4]) {
    let mut world = World::new(1);
    let nodes = ["a", "b", "c", "d"].map(|name| world.add_node(name));
    let links = [(0, 1), (1, 3), (0, 2), (2, 3)]
        .map(|(a, b)| world.connect(nodes[a], nodes[b], &link(slow())));
    world.auto_routes();
    (world, nodes, links)
}

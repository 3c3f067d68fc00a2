//! Coded tunnels between nodes.

use std::sync::{Arc, Mutex};

use base::ip::Header;
use tunnel as nc;
use tunnel::secure::{self, wire};

use super::*;
use crate::engine::{Engine, PacketId};
use crate::node::service::hbh::Hbh;
use crate::node::service::tunnel::{Tunnel, TunnelReport};
use crate::node::service::{Hook, Service, Verdict};

#[test]
fn a_transfer_goes_through_a_tunnel_and_not_beside_it() {
    let (mut world, [source, near, far, sink]) = tunnelled(1, &link(slow()));
    let to = SocketAddr::new(world.address(sink).unwrap(), 9);
    let sender =
        world.add_app(source, transfer::Sender::new(transfer::SenderConfig::new(to, 60_000)));
    let receiver = world.add_app(sink, transfer::Sink::new(transfer::SinkConfig::new(9)));
    world.count_flows(16);

    run_for(&mut world, 60);

    let stats = world.transfer_sink(receiver).unwrap();
    assert_eq!((stats.octets, stats.corrupt), (60_000, 0));
    assert!(world.transfer_sender(sender).unwrap().acked.is_some());
    let tunnel = |node| end(&world, node).stats;
    let [there, back] = [near, far].map(tunnel);
    assert!(there.inner.packets_in >= 40, "{there:?}");
    assert_eq!(there.inner.packets_in, back.inner.packets_out + there.inner.queue_dropped);
    assert_eq!(back.inner.packets_in, there.inner.packets_out);
}

#[test]
fn an_echo_is_answered_through_the_tunnel() {
    let (mut world, [source, near, _, sink]) = tunnelled(1, &link(slow()));
    let (from, to) = (world.address(source).unwrap(), world.address(sink).unwrap());

    world.inject(source, &echo_request(from, to));
    run_for(&mut world, 5);

    assert_eq!(world.node_counters(source).unwanted, 1, "the reply, which nobody waits for");
    assert_eq!(end(&world, near).stats.inner.packets_out, 1);
}

#[test]
fn a_packet_too_long_for_the_tunnel_is_cut_or_refused() {
    for dont_fragment in [true, false] {
        let (mut world, [source, near, far, sink]) = tunnelled(1, &link(slow()));
        let (from, to) = (world.address(source).unwrap(), world.address(sink).unwrap());
        let mut packet = datagram(from, to, 1_472);
        if !dont_fragment {
            packet[6] = 0;
            base::ip::rewrite_v4_checksum(&mut packet[..20]);
        }

        world.inject(source, &packet);
        run_for(&mut world, 5);

        let report = world.report();
        let pieces = end(&world, far).stats.inner.packets_out;
        assert_eq!(pieces, if dont_fragment { 0 } else { 2 });
        assert_eq!(end(&world, near).counters.too_big, 1);
        let errors = report.nodes[source.index()].counters.errors_received;
        assert_eq!(errors, u64::from(dont_fragment));
    }
}

#[test]
fn a_run_with_a_tunnel_is_a_function_of_its_seed() {
    let run = |seed| {
        let (mut world, [source, _, _, sink]) = tunnelled(seed, &link(lossy(0.1)));
        let to = SocketAddr::new(world.address(sink).unwrap(), 9);
        world.add_app(source, transfer::Sender::new(transfer::SenderConfig::new(to, 50_000)));
        world.add_app(sink, transfer::Sink::new(transfer::SinkConfig::new(9)));
        run_for(&mut world, 60);
        world.report()
    };

    assert_eq!(run(1), run(1));
    assert_ne!(run(1).hash, run(2).hash);
}

#[test]
fn transits_say_how_long_packets_were_inside() {
    let (mut world, [source, near, _, sink]) = tunnelled(1, &link(slow()));
    let tunnel = end(&world, near).tunnel;
    world.record_transits(tunnel, 100);
    let sender = stream_to(&world, sink, 200, 10);
    world.add_app(source, stream::Sender::new(sender));
    world.add_app(sink, stream::Sink::new(9));

    run_for(&mut world, 10);

    let transits = world.transits();
    assert_eq!(transits.len(), 10);
    assert!(transits.iter().all(|it| it.from == near && it.took >= Duration::from_millis(50)));
}

#[test]
fn a_tunnel_over_one_hop_is_carried_by_hbh_there() {
    let run = |with_hbh| {
        let (mut world, [source, near, far, sink]) = tunnelled(1, &link(lossy(0.1)));
        if with_hbh {
            hops::enable(&mut world, &[near, far], hbh::Profile::Default);
        }
        let state = |world: &World| {
            let hbh = world.services::<Hbh>(near).next().map(Hbh::stats).unwrap_or_default();
            (end(world, near).stats, end(world, far).stats, hbh)
        };
        let (near_before, far_before, hbh_before) = state(&world);
        let sender = stream_to(&world, sink, 200, 100);
        world.add_app(source, stream::Sender::new(sender));
        let receiver = world.add_app(sink, stream::Sink::new(9));
        run_for(&mut world, 30);
        assert_eq!(world.app::<stream::Sink>(receiver).unwrap().stats().received, 100);

        let (near_after, far_after, hbh) = state(&world);
        let sent = near_after.sent.datagrams_sent - near_before.sent.datagrams_sent;
        let carried = hbh.intake.packets_taken - hbh_before.intake.packets_taken;
        // Beside data there are calls or answers, and keepalives.
        let expected = if with_hbh { sent..=sent + 5 } else { 0..=0 };
        assert!(expected.contains(&carried), "HBH carried {carried} of {sent}");
        assert_eq!(hbh.sent.data_repeated + hbh.sent.repairs_sent > 0, with_hbh, "{hbh:?}");
        let repairs = near_after.sent.repairs_sent - near_before.sent.repairs_sent;
        let recovered =
            far_after.received.sources_recovered - far_before.received.sources_recovered;
        (repairs, recovered, world.report().hash)
    };

    let (alone, recovered, hash) = run(false);
    let (over, rest, other) = run(true);

    // HBH makes up for the loss. A packet that nothing follows is repaired in advance while the path is
    // not known, and such repairs overtake what HBH sends again.
    assert!(rest < recovered, "{rest} recovered over HBH, {recovered} alone");
    assert!(over < alone, "{over} repairs over HBH, {alone} alone");
    assert_ne!(hash, other);
}

#[test]
fn connections_keep_to_what_the_tunnel_carries_from_their_first_segment_on() {
    let (mut world, [source, near, far, sink]) = tunnelled(1, &link(slow()));
    let to = SocketAddr::new(world.address(sink).unwrap(), 9);
    world.add_app(source, transfer::Sender::new(transfer::SenderConfig::new(to, 60_000)));
    let receiver = world.add_app(sink, transfer::Sink::new(transfer::SinkConfig::new(9)));

    run_for(&mut world, 60);

    assert_eq!(world.transfer_sink(receiver).unwrap().octets, 60_000);
    for node in [near, far] {
        let end = end(&world, node);
        assert_eq!((end.counters.too_big, end.stats.inner.packets_cut), (0, 0), "{end:?}");
    }
}

#[test]
fn between_the_ends_go_the_datagrams_of_gateways() {
    let mut world = World::new(1);
    let nodes = ["source", "near", "middle", "far", "sink"].map(|name| world.add_node(name));
    for pair in nodes.windows(2) {
        world.connect(pair[0], pair[1], &link(slow()));
    }
    world.auto_routes();
    let tap = Tap::default();
    let seen = Arc::clone(&tap.0);
    world.add_service(nodes[2], tap);
    let tunnel = world.add_tunnel(nodes[1], nodes[3], nc::Config::default()).unwrap();
    let sink = Prefix::host(world.address(nodes[4]).unwrap());
    assert!(world.route_into_tunnel(nodes[1], sink, tunnel));
    world.meet();
    let sender = stream_to(&world, nodes[4], 200, 10);
    world.add_app(nodes[0], stream::Sender::new(sender));
    world.add_app(nodes[4], stream::Sink::new(9));
    run_for(&mut world, 10);

    let seen = seen.lock().unwrap();
    let count = |kind| seen.iter().filter(|it| **it == kind).count();
    assert_eq!((count("call"), count("answer")), (1, 1), "{seen:?}");
    assert!(count("data") >= 10);
    assert_eq!(count("other"), 0);
}

#[test]
fn a_path_that_swallows_what_is_longer_than_1000_octets_carries_packets_of_1280() {
    for mtu in [1_000, 576] {
        let mut world = World::new(1);
        let nodes = ["source", "near", "middle", "far", "sink"].map(|name| world.add_node(name));
        for pair in nodes.windows(2) {
            world.connect(pair[0], pair[1], &link(slow()));
        }
        world.auto_routes();
        world.add_service(nodes[2], Narrow(mtu));
        let tunnel = world.add_tunnel(nodes[1], nodes[3], nc::Config::default()).unwrap();
        for (node, host) in [(nodes[1], nodes[4]), (nodes[3], nodes[0])] {
            let prefix = Prefix::host(world.address(host).unwrap());
            assert!(world.route_into_tunnel(node, prefix, tunnel));
        }
        world.meet();
        // Datagrams: TCP keeps to what goes through in one piece.
        let sender = stream_to(&world, nodes[4], 1_280 - 28, 40);
        world.add_app(nodes[0], stream::Sender::new(sender));
        let receiver = world.add_app(nodes[4], stream::Sink::new(9));
        run_for(&mut world, 60);

        assert_eq!(world.app::<stream::Sink>(receiver).unwrap().stats().received, 40, "{mtu}");
        let [near, far] = [nodes[1], nodes[3]].map(|node| end(&world, node));
        assert!((mtu - 8..=mtu).contains(&near.estimates.path_mtu), "{near:?}");
        assert_eq!(near.mtu, Some(1_280));
        assert!(near.stats.inner.packets_cut >= 30, "{near:?}");
        assert_eq!(near.stats.inner.packets_cut, far.stats.inner.packets_joined);
    }
}

#[test]
fn a_tunnel_keeps_a_share_of_a_queue_that_others_fill() {
    let (mut world, [source, _, far, sink]) = tunnelled(1, &link(slow()));
    let [beside, through] = [far, sink].map(|node| {
        let to = SocketAddr::new(world.address(node).unwrap(), 9);
        let octets = if node == far { 4_000_000 } else { 200_000 };
        world.add_app(source, transfer::Sender::new(transfer::SenderConfig::new(to, octets)));
        world.add_app(node, transfer::Sink::new(transfer::SinkConfig::new(9)))
    });

    run_for(&mut world, 60);

    assert_eq!(world.transfer_sink(through).unwrap().octets, 200_000);
    assert!(world.transfer_sink(beside).unwrap().octets > 200_000);
}

#[test]
fn jitter_by_which_datagrams_overtake_each_other_costs_a_flow_little() {
    let jittery = channel::Config {
        rate: BitRate::from_bits_per_s(50_000_000).unwrap(),
        delay: Duration::from_millis(20),
        jitter: Duration::from_millis(20),
        reorder: true,
        ..channel::Config::default()
    };
    let (mut world, [source, _, _, sink]) = tunnelled(1, &link(jittery));
    let to = SocketAddr::new(world.address(sink).unwrap(), 9);
    let congestion =
        tcp::Congestion { algorithm: tcp::Algorithm::CUBIC, ..tcp::Congestion::default() };
    let tcp = tcp::Config {
        send_buffer: 4_000_000,
        receive_buffer: 4_000_000,
        congestion,
        ..tcp::Config::default()
    };
    let sender = transfer::SenderConfig { octets: None, tcp, ..transfer::SenderConfig::new(to, 0) };
    world.add_app(source, transfer::Sender::new(sender));
    let receiver = transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) };
    let receiver = world.add_app(sink, transfer::Sink::new(receiver));

    run_for(&mut world, 5);
    let before = world.transfer_sink(receiver).unwrap().octets;
    run_for(&mut world, 5);

    let rate = (world.transfer_sink(receiver).unwrap().octets - before) as f64 * 8.0 / 5.0;
    assert!(rate > 35e6, "{rate}");
}

/// Drops what is longer than so many octets, and tells nobody.
#[derive(Debug)]
struct Narrow(usize);

impl Service for Narrow {
    fn claims(&self, hook: &Hook<'_>, octets: &[u8]) -> bool {
        matches!(hook, Hook::Forward { .. }) && octets.len() > self.0
    }

    fn handle(&mut self, engine: &mut Engine, _hook: &Hook<'_>, packet: PacketId) -> Verdict {
        engine.packets.remove(packet);
        Verdict::Taken
    }
}

/// Looks at what passes by, and leaves it.
#[derive(Debug, Default)]
struct Tap(Arc<Mutex<Vec<&'static str>>>);

impl Service for Tap {
    fn claims(&self, hook: &Hook<'_>, octets: &[u8]) -> bool {
        if let Hook::Forward { .. } = hook {
            let header = Header::parse(octets).unwrap();
            let datagram = udp::Datagram::parse(&header, octets, header.len).unwrap();
            let ports = [datagram.source.port(), datagram.destination.port()];
            self.0.lock().unwrap().push(match wire::Datagram::parse(datagram.payload) {
                _ if ports != [secure::PORT; 2] => "other",
                Ok(wire::Datagram::Answer(_)) => "answer",
                Ok(wire::Datagram::Call(_)) => "call",
                Ok(wire::Datagram::Data(_)) => "data",
                Ok(wire::Datagram::Keepalive(_)) => "keepalive",
                Ok(wire::Datagram::Cookie(_)) | Err(_) => "other",
            });
        }
        false
    }
}

/// The end of the only tunnel on a node.
fn end(world: &World, node: NodeId) -> TunnelReport {
    world.services::<Tunnel>(node).next().unwrap().report()
}

/// A source, two gateways with a tunnel over the given link, and a sink.
pub fn tunnelled(seed: u64, middle: &LinkConfig) -> (World, [NodeId; 4]) {
    let mut world = World::new(seed);
    let nodes = ["source", "near", "far", "sink"].map(|name| world.add_node(name));
    let edge = link(channel::Config::default());
    world.connect(nodes[0], nodes[1], &edge);
    world.connect(nodes[1], nodes[2], middle);
    world.connect(nodes[2], nodes[3], &edge);
    world.auto_routes();
    let tunnel = world.add_tunnel(nodes[1], nodes[2], nc::Config::default()).unwrap();
    for (node, host) in [(nodes[1], nodes[3]), (nodes[2], nodes[0])] {
        let prefix = Prefix::host(world.address(host).unwrap());
        assert!(world.route_into_tunnel(node, prefix, tunnel));
    }
    world.meet();
    (world, nodes)
}

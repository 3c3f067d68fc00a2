//! TCP/NC under hosts and between gateways.

use tcp::tcpnc;

use super::*;

/// What a run shows.
struct Outcome {
    sender: transfer::SenderStats,
    sink: transfer::SinkStats,
    hash: u64,
}

#[test]
fn every_octet_arrives_once_over_hosts_that_code() {
    for loss in [0.0, 0.05, 0.1, 0.2, 0.3] {
        let (mut world, [a, _, _, d]) = network(1, loss);
        for node in [a, d] {
            world.enable_tcpnc(node, tcpnc::Config::default());
        }

        let outcome = transfer_of(&mut world, a, d, 200_000);

        assert_eq!((outcome.sink.octets, outcome.sink.corrupt), (200_000, 0), "{loss}");
        assert_eq!(outcome.sender.end, Some(tcp::Event::Closed));
    }
}

#[test]
fn every_octet_arrives_once_through_a_tunnel() {
    for loss in [0.0, 0.05, 0.1, 0.2, 0.3] {
        let (mut world, [a, b, c, d]) = network(1, loss);
        let config = TcpncTunnelConfig { points: 100, ..TcpncTunnelConfig::default() };
        let tunnel = world.add_tcpnc_tunnel(b, c, &config).unwrap();

        let outcome = transfer_of(&mut world, a, d, 200_000);

        assert_eq!((outcome.sink.octets, outcome.sink.corrupt), (200_000, 0), "{loss}");
        let report = world.tcpnc_tunnel(tunnel).unwrap();
        assert_eq!(report.exit.broken, 0);
        assert!(report.exit.octets > 200_000, "all of it went through");
        assert_eq!(report.exit.packets, report.entry.packets);
        assert!(!world.tunnel_buffer(tunnel).is_empty());
    }
}

#[test]
fn coding_beats_plain_tcp_on_a_lossy_link() {
    let seconds = |code: bool, tunnel: bool| {
        let (mut world, [a, b, c, d]) = network(3, 0.1);
        if code {
            world.enable_tcpnc(a, tcpnc::Config::default());
            world.enable_tcpnc(d, tcpnc::Config::default());
        }
        if tunnel {
            world.add_tcpnc_tunnel(b, c, &TcpncTunnelConfig::default()).unwrap();
        }
        transfer_of(&mut world, a, d, 1_000_000).sink.last.unwrap().as_secs_f64()
    };

    let (plain, host, tunnel) = (seconds(false, false), seconds(true, false), seconds(false, true));

    assert!(host < plain / 2.0, "{host} {plain}");
    assert!(tunnel < host, "{tunnel} {host}");
}

#[test]
fn the_layer_learns_the_loss_rate_of_the_link() {
    for (loss, sizes) in [(0.0, 100..=100), (0.1, 11..=20), (0.3, 2..=4)] {
        let (mut world, [a, _, _, d]) = network(2, loss);
        for node in [a, d] {
            world.enable_tcpnc(node, tcpnc::Config::default());
        }
        let app = start(&mut world, a, d, 2_000_000).0;

        world.run_until(secs(15));

        let report = world.coding(app).unwrap();
        assert!((report.loss - loss).abs() < 0.06, "{} for {loss}", report.loss);
        assert!(sizes.contains(&report.window), "{} for {loss}", report.window);
    }
}

#[test]
fn a_full_send_buffer_drops_what_comes() {
    let (mut world, [a, b, c, d]) = network(1, 0.2);
    let tcp = tcp::Config { send_buffer: 5_000, ..TcpncTunnelConfig::default().tcp };
    let config = TcpncTunnelConfig { tcp, ..TcpncTunnelConfig::default() };
    let tunnel = world.add_tcpnc_tunnel(b, c, &config).unwrap();

    let outcome = transfer_of(&mut world, a, d, 100_000);

    assert_eq!(outcome.sink.octets, 100_000);
    assert!(world.tcpnc_tunnel(tunnel).unwrap().entry.overflowed > 0);
}

#[test]
fn packets_of_no_layer_are_counted_and_dropped() {
    let (mut world, [a, _, _, d]) = network(1, 0.0);
    world.enable_tcpnc(d, tcpnc::Config::default());
    let (from, to) = (world.address(a).unwrap(), world.address(d).unwrap());

    for payload in [&[0x11; 40][..], &[0x12; 3], &[]] {
        let mut packet = Vec::new();
        Spec::new(from, to, tcpnc::PROTOCOL).emit(payload.len(), &mut packet);
        packet.extend_from_slice(payload);
        world.inject(a, &packet);
    }
    world.run(secs(10), |_| false);

    assert_eq!(world.node_counters(d).malformed_transport, 3);
    assert_eq!(world.packets_under_way(), 0);
}

#[test]
fn two_runs_with_tcpnc_are_the_same() {
    let hash = |seed| {
        let (mut world, [a, b, c, d]) = network(seed, 0.1);
        world.add_tcpnc_tunnel(b, c, &TcpncTunnelConfig::default()).unwrap();
        transfer_of(&mut world, a, d, 100_000).hash
    };

    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

/// The paper's: a host, two gateways and a host; the middle link loses there.
fn network(seed: u64, loss: f64) -> (World, [NodeId; 4]) {
    let mut world = World::new(seed);
    let nodes = ["a", "b", "c", "d"].map(|name| world.add_node(name));
    let port = InterfaceConfig { queue_packets: 100, ..InterfaceConfig::default() };
    let line = |kbps: u64, ms| channel::Config {
        rate: BitRate::from_bits_per_s(kbps * 1_000).unwrap(),
        delay: Duration::from_millis(ms),
        ..channel::Config::default()
    };
    let edge = LinkConfig::symmetric(line(1_000, 1), port);
    let loss = Loss::random(Probability::new(loss).unwrap());
    let there = channel::Config { loss, ..line(4_000, 7) };
    let middle = LinkConfig { there, ..LinkConfig::symmetric(line(4_000, 7), port) };
    for (pair, link) in nodes.windows(2).zip([&edge, &middle, &edge]) {
        world.connect(pair[0], pair[1], link);
    }
    world.auto_routes();
    (world, nodes)
}

fn start(world: &mut World, from: NodeId, to: NodeId, octets: u64) -> (AppId, AppId) {
    let tcp = tcp::Config {
        mtu: 1_000,
        offer: tcp::Offer {
            window_scaling: false,
            timestamps: false,
            sack: false,
            ..tcp::Offer::default()
        },
        ..tcp::Config::default()
    };
    let destination = SocketAddr::new(world.address(to).unwrap(), 80);
    let config = transfer::SenderConfig { tcp, ..transfer::SenderConfig::new(destination, octets) };
    let sender = world.add_app(from, transfer::Sender::new(config));
    let sink = world.add_app(
        to,
        transfer::Sink::new(transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(80) }),
    );
    (sender, sink)
}

fn transfer_of(world: &mut World, from: NodeId, to: NodeId, octets: u64) -> Outcome {
    let (sender, sink) = start(world, from, to, octets);
    world.run(secs(2_000), |world| {
        world.transfer_sender(sender).is_some_and(|stats| stats.ended.is_some())
    });
    Outcome {
        sender: world.transfer_sender(sender).unwrap(),
        sink: world.transfer_sink(sink).unwrap(),
        hash: world.report().hash,
    }
}

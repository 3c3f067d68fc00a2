//! TCP over the network.

use tcp::vegas;

use super::*;

#[test]
fn a_transfer_over_a_clean_link_takes_what_a_hand_calculates() {
    let (mut world, nodes) = chain(1, 1, &link(slow()));
    let tcp = tcp::Config {
        mss: Some(1_012),
        nagle: false,
        congestion: tcp::Congestion {
            initial_window: tcp::InitialWindow::Segments(10),
            ..tcp::Congestion::default()
        },
        ..tcp::Config::default()
    };
    let (sender, sink) = transfer(&mut world, &nodes, 10_000, tcp);

    world.run(secs(100), |_| false);

    // SYN, SYN-ACK and ACK have 40 octets of headers and 24, then 12 of options; ten segments of
    // 1,000 octets and 52 more leave after the SYN-ACK has come. At 300 kbit/s an octet takes
    // 26,667 ns.
    let octet = 8.0 / 300_000.0;
    let syn = 64.0 * octet + 0.050;
    let stats = world.transfer_sender(sender).unwrap();
    let established = stats.established.unwrap().as_secs_f64();
    assert!((established - 2.0 * syn).abs() < 1e-7, "{established}");
    let last = world.transfer_sink(sink).unwrap().last.unwrap().as_secs_f64();
    let data = 10.0 * 1_052.0 * octet + 0.050;
    let handshake_ack = 52.0 * octet;
    let after = last - established - data;
    assert!(after.abs() < 1e-7 || (after - handshake_ack).abs() < 1e-7, "{after}");
    assert_eq!(stats.end, Some(tcp::Event::Closed));
    assert_eq!(world.packets_under_way(), 0);
}

#[test]
fn every_octet_arrives_once_in_order_whatever_is_lost() {
    let mut repeats = 0;
    for seed in 0..10 {
        let (mut world, nodes) = chain(seed, 3, &link(lossy(0.03)));
        let (sender, sink) = transfer(&mut world, &nodes, 60_000, tcp::Config::default());

        world.run(secs(100_000), |_| false);

        let stats = world.transfer_sink(sink).unwrap();
        assert_eq!((stats.octets, stats.corrupt, stats.accepted), (60_000, 0, 1), "{seed}");
        let sender = world.transfer_sender(sender).unwrap();
        repeats += sender.tcp.sent.retransmissions;
        assert!(sender.acked.unwrap() >= stats.last.unwrap());
        assert_eq!(sender.end, Some(tcp::Event::Closed));
    }
    assert!(repeats > 20, "{repeats}");
}

#[test]
fn an_echo_brings_every_octet_back() {
    let (mut world, nodes) = chain(1, 2, &link(lossy(0.02)));
    let to = SocketAddr::new(world.address(nodes[2]).unwrap(), 7);
    let config = transfer::SenderConfig::new(to, 30_000);
    let sender = world.add_app(nodes[0], transfer::Sender::new(config));
    let config = transfer::SinkConfig { echo: true, ..transfer::SinkConfig::new(7) };
    world.add_app(nodes[2], transfer::Sink::new(config));

    world.run(secs(10_000), |_| false);

    assert_eq!(world.transfer_sender(sender).unwrap().received, 30_000);
}

#[test]
fn a_port_where_nobody_listens_answers_with_a_reset() {
    let (mut world, nodes) = chain(1, 2, &link(slow()));
    let to = SocketAddr::new(world.address(nodes[2]).unwrap(), 81);
    let sender = world.add_app(nodes[0], transfer::Sender::new(transfer::SenderConfig::new(to, 1)));

    world.run(secs(10), |_| false);

    assert_eq!(world.transfer_sender(sender).unwrap().end, Some(tcp::Event::Reset));
}

#[test]
fn a_transfer_learns_the_mtu_of_a_later_link() {
    for v6 in [false, true] {
        let mut world = World::new(1);
        let nodes = ["a", "b", "c"].map(|name| world.add_node(name));
        world.connect(nodes[0], nodes[1], &link(slow()));
        let short = InterfaceConfig { mtu: 1_300, ..InterfaceConfig::default() };
        world.connect(nodes[1], nodes[2], &LinkConfig::symmetric(slow(), short));
        world.auto_routes();
        let address = world.addresses(nodes[2]).find(|it| it.is_ipv6() == v6).unwrap();
        let config = transfer::SenderConfig::new(SocketAddr::new(address, 9), 50_000);
        let sender = world.add_app(nodes[0], transfer::Sender::new(config));
        let sink = world.add_app(nodes[2], transfer::Sink::new(transfer::SinkConfig::new(9)));

        world.run(secs(100), |_| false);

        assert_eq!(world.transfer_sink(sink).unwrap().octets, 50_000);
        assert_eq!(world.transfer_sender(sender).unwrap().tcp.mtu_changes, 1);
    }
}

#[test]
fn a_sender_stops_when_told() {
    let (mut world, nodes) = chain(1, 1, &link(slow()));
    let to = SocketAddr::new(world.address(nodes[1]).unwrap(), 9);
    let config = transfer::SenderConfig {
        octets: None,
        stop: Some(secs(20)),
        window_points: 32,
        ..transfer::SenderConfig::new(to, 0)
    };
    let sender = world.add_app(nodes[0], transfer::Sender::new(config));
    let sink = world.add_app(nodes[1], transfer::Sink::new(transfer::SinkConfig::new(9)));

    world.run(secs(1_000), |_| false);

    let ended = world.transfer_sender(sender).unwrap().acked.unwrap();
    assert!(ended > secs(20) && ended < secs(25), "{ended:?}");
    // 1,448 of 1,500 octets at 300 kbit/s in 20 s.
    let octets = world.transfer_sink(sink).unwrap().octets;
    assert!((650_000..900_000).contains(&octets), "{octets}");
    assert!((10..=32).contains(&world.app::<transfer::Sender>(sender).unwrap().windows().len()));
}

/// Brakmo and Peterson's aim: each flow keeps between alpha and beta segments in the queue.
#[test]
fn two_vegas_flows_keep_between_alpha_and_beta_segments_each_in_the_queue() {
    // ns-2 rounds, so half a segment more or less for each flow is the same to it.
    let bounds = [(vegas::Variant::Published, 4.0..=8.0), (vegas::Variant::Ns2, 3.0..=9.0)];
    for (variant, bounds) in bounds {
        let mut world = World::new(1);
        let [a, b, router, end] = ["a", "b", "router", "end"].map(|name| world.add_node(name));
        let of_rate = |rate, delay| {
            link(channel::Config {
                rate: BitRate::from_bits_per_s(rate).unwrap(),
                delay: Duration::from_millis(delay),
                ..channel::Config::default()
            })
        };
        world.connect(a, router, &of_rate(100_000_000, 1));
        world.connect(b, router, &of_rate(100_000_000, 1));
        let bottleneck = world.connect(router, end, &of_rate(2_000_000, 40));
        world.auto_routes();
        let config = vegas::Config { alpha: 2.0, beta: 4.0, ..vegas::Config::of(variant) };
        let tcp = tcp::Config {
            offer: tcp::Offer { sack: false, timestamps: false, ..tcp::Offer::default() },
            delayed_ack: tcp::DelayedAck { segments: 1, delay: Duration::ZERO },
            congestion: tcp::Congestion {
                algorithm: tcp::Algorithm::Vegas(config),
                ..tcp::Congestion::default()
            },
            ..tcp::Config::default()
        };
        let to = SocketAddr::new(world.address(end).unwrap(), 9);
        let senders = [a, b].map(|node| {
            let config = transfer::SenderConfig { tcp, ..transfer::SenderConfig::new(to, 1 << 30) };
            world.add_app(node, transfer::Sender::new(config))
        });
        let config = transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) };
        world.add_app(end, transfer::Sink::new(config));

        world.run_until(secs(30));
        let mut waiting = Vec::new();
        for tick in 0..2_000 {
            world.run_until(secs(30) + Duration::from_millis(37) * tick);
            let [port, _] = world.ends(bottleneck);
            waiting.push(world.queue_len(port) as f64);
        }

        let mean = waiting.iter().sum::<f64>() / waiting.len() as f64;
        assert!(bounds.contains(&mean), "{variant:?}: {mean}");
        for sender in senders {
            let stats = world.connection(sender).unwrap().stats();
            assert_eq!(stats.sent.retransmissions, 0, "{variant:?}");
        }
    }
}

fn transfer(world: &mut World, nodes: &[NodeId], octets: u64, tcp: tcp::Config) -> (AppId, AppId) {
    let last = *nodes.last().unwrap();
    let to = SocketAddr::new(world.address(last).unwrap(), 9);
    let config = transfer::SenderConfig { tcp, ..transfer::SenderConfig::new(to, octets) };
    let sender = world.add_app(nodes[0], transfer::Sender::new(config));
    let config = transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) };
    (sender, world.add_app(last, transfer::Sink::new(config)))
}

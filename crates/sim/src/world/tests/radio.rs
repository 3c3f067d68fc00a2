//! Networks whose nodes have radios.

use super::*;
use crate::engine::{Engine, PacketId};
use crate::medium::LinkAddress;
use crate::mobility::{Motion, Position};
use crate::service::{LinkFeedback, Service};
use crate::{RadioId, radio};

#[test]
fn saturated_datagrams_over_one_hop_get_what_the_timing_table_says() {
    let (mut world, nodes, _) = row(2, 200.0);
    let sink = saturate(&mut world, nodes[0], nodes[1]);

    run_for(&mut world, 60);

    let stats = world.app::<stream::Sink>(sink).unwrap().stats();
    let rate = stats.received as f64 * 1_472.0 * 8.0 / 60.0;
    // 1,472 octets in DIFS, 15.5 slots, RTS, CTS, data and ACK; 0.2 % are five standard errors.
    let expected = 1_472.0 * 8.0 / 7_678e-6;
    assert!((rate / expected - 1.0).abs() < 0.002, "{rate} of {expected}");
    assert!(world.port_counters(world.radio_ports(RadioId(0))[0]).dropped_at_edge.packets > 0);
}

#[test]
fn tcp_falls_with_the_hops_of_a_chain_as_the_bounds_say() {
    let goodput = |hops: u32| {
        let (mut world, nodes, _) = row(hops + 1, 200.0);
        let sink = tcp_flow(&mut world, nodes[0], nodes[hops as usize]);
        run_for(&mut world, 10);
        let before = world.transfer_sink(sink).unwrap().octets;
        run_for(&mut world, 60);
        (world.transfer_sink(sink).unwrap().octets - before) as f64 * 8.0 / 60.0 / 1e3
    };

    let rates: Vec<f64> = (1..=6).map(goodput).collect();

    let text = format!("{rates:.0?}");
    // Stations count slots at the same time, so all is a little better than one exchange after the other.
    assert!((1_227.0..1_290.0).contains(&rates[0]), "{text}");
    for (hops, at_once) in [(2, 2.0), (3, 3.0), (4, 4.0), (5, 4.0), (6, 4.0)] {
        let bound = rates[0] / at_once;
        assert!(
            rates[hops - 1] < 1.01 * bound && rates[hops - 1] > 0.7 * bound,
            "{hops} hops: {text}"
        );
    }
    assert!(rates.windows(2).all(|pair| pair[1] < pair[0]), "{text}");
}

#[test]
fn a_packet_that_no_neighbour_acknowledges_is_given_back_to_the_services() {
    #[derive(Debug, Default)]
    struct Feedback(Vec<(usize, LinkAddress)>, bool);
    impl Service for Feedback {
        fn as_link_feedback(&mut self) -> Option<&mut dyn LinkFeedback> {
            Some(self)
        }
    }

    impl LinkFeedback for Feedback {
        fn handle_unsent(
            &mut self,
            engine: &mut Engine,
            interface: usize,
            to: LinkAddress,
            packet: PacketId,
        ) -> bool {
            self.0.push((interface, to));
            if self.1 {
                engine.remove(packet);
            }
            self.1
        }
    }
    for takes in [false, true] {
        let (mut world, nodes, ports) = row(2, 200.0);
        world.add_service(nodes[0], Feedback(Vec::new(), takes));
        let config = stream_to(&world, nodes[1], 100, 3);
        world.add_app(nodes[0], stream::Sender::new(config));
        let sink = world.add_app(nodes[1], stream::Sink::new(9));
        world.at(secs(0) + Duration::from_millis(50), Change::RadioOff(ports[1]));
        world.at(secs(0) + Duration::from_millis(150), Change::RadioOn(ports[1]));

        run_for(&mut world, 1);

        let told: Vec<_> =
            world.services::<Feedback>(nodes[0]).flat_map(|it| it.0.clone()).collect();
        assert_eq!(told, [(0, LinkAddress::Port(ports[1]))], "the second of three packets");
        assert_eq!(world.app::<stream::Sink>(sink).unwrap().stats().received, 2);
        assert_eq!(world.port_counters(ports[0]).lost.packets, u64::from(!takes));
        assert_eq!(world.packets_under_way(), 0);
    }
}

#[test]
fn a_radio_that_is_switched_off_loses_what_it_has_and_sends_again_when_it_is_on() {
    let (mut world, nodes, ports) = row(2, 200.0);
    let sink = saturate(&mut world, nodes[0], nodes[1]);
    world.at(secs(2), Change::RadioOff(ports[0]));
    world.at(secs(3), Change::RadioOn(ports[0]));
    let received = |world: &World| world.app::<stream::Sink>(sink).unwrap().stats().received;

    world.run_until(secs(2) + Duration::from_millis(20));
    let at_two = received(&world);
    world.run_until(secs(3));
    let at_three = received(&world);
    world.run_until(secs(5));

    assert_eq!(at_three, at_two);
    assert!(received(&world) - at_three > 200);
    assert!(world.port_counters(ports[0]).dropped_down.packets > 40);
}

#[test]
fn shortest_paths_follow_nodes_that_move() {
    let mut world = World::new(1);
    let radio = world.add_radio(radio::Config::default());
    let nodes = ["left", "right", "moves"].map(|name| world.add_node(name));
    let mut motion = Motion::at_rest(Position::new(0.0, 200.0));
    motion.go(secs(0), secs(40), Position::new(400.0, 200.0)).unwrap();
    let places =
        [Motion::at_rest(Position::new(0.0, 0.0)), Motion::at_rest(Position::new(400.0, 0.0))];
    let ports = nodes.iter().zip(places.into_iter().chain([motion]));
    let ports: Vec<_> = ports
        .map(|(node, motion)| {
            world.add_radio_station(radio, *node, motion, InterfaceConfig::default())
        })
        .collect();
    let addresses: Vec<_> = nodes.iter().map(|node| world.address(*node).unwrap()).collect();
    assert_eq!(addresses[2], IpAddr::from([10, 128, 0, 3]));
    let reaches = |world: &mut World| {
        world.auto_routes();
        [0, 1].map(|from| {
            let from = &mut world.nodes[from];
            from.route(&world.engine, addresses[2]).is_some()
        })
    };

    // It is within 250 m of the left one up to x = 150 m, of the right one from 250 m on.
    let mut seen = Vec::new();
    for at in [0, 14, 16, 24, 26] {
        world.run_until(secs(at));
        seen.push(reaches(&mut world));
    }

    assert_eq!(seen, [[true, false], [true, false], [false, false], [false, false], [false, true]]);
    assert_eq!(world.position(ports[2]), Some(Position::new(260.0, 200.0)));
    assert!(world.set_motion(ports[2], Motion::at_rest(Position::new(100.0, 0.0))));
    assert_eq!(reaches(&mut world), [true, false]);
}

#[test]
fn records_tell_what_was_on_the_air_and_are_bounded() {
    let (mut world, nodes, _) = row(2, 200.0);
    let radio = RadioId(0);
    world.record_radio(radio, 6);
    let config = stream_to(&world, nodes[1], 100, 3);
    world.add_app(nodes[0], stream::Sender::new(config));
    world.add_app(nodes[1], stream::Sink::new(9));

    run_for(&mut world, 1);

    let records: Vec<_> = std::iter::from_fn(|| world.poll_radio_record(radio)).collect();
    let kinds: Vec<_> = records.iter().map(|record| record.kind).collect();
    use radio::FrameKind::{Ack, Cts, Data, Rts};
    assert_eq!(kinds, [Rts, Cts, Data, Ack, Rts, Cts]);
    assert_eq!(world.radio_records_dropped(radio), 6);
    assert!(records.iter().all(|record| record.is_received && record.heard == 1));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let scenario = crate::bench::manet::Scenario {
            nodes: 12,
            side: 600.0,
            span: Duration::from_secs(5),
            ..Default::default()
        };
        let mut bench = scenario.build(seed);
        let done = bench.run(Duration::from_secs(5));
        assert!(done.octets > 0);
        (bench.world.report().hash, done)
    };

    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

/// Nodes in a row, so many metres apart, and the routes between them.
fn row(nodes: u32, apart: f64) -> (World, Vec<NodeId>, Vec<PortId>) {
    let mut world = World::new(1);
    let radio = world.add_radio(radio::Config::default());
    let nodes: Vec<_> = (0..nodes).map(|n| world.add_node(&format!("n{n}"))).collect();
    let ports = nodes.iter().zip(0..).map(|(node, n)| {
        let motion = Motion::at_rest(Position::new(f64::from(n) * apart, 0.0));
        world.add_radio_station(radio, *node, motion, InterfaceConfig::default())
    });
    let ports = ports.collect();
    world.auto_routes();
    (world, nodes, ports)
}

/// Datagrams of 1,500 octets, more than a hop can carry.
fn saturate(world: &mut World, from: NodeId, to: NodeId) -> AppId {
    let config = stream::SenderConfig {
        interval: Duration::from_millis(5),
        count: None,
        ..stream_to(world, to, 1_472, 0)
    };
    world.add_app(from, stream::Sender::new(config));
    world.add_app(to, stream::Sink::new(9))
}

/// TCP without end that acknowledges each segment of 1,460 octets.
fn tcp_flow(world: &mut World, from: NodeId, to: NodeId) -> AppId {
    let tcp = tcp::Config {
        receive_buffer: 20 * 1_460,
        offer: tcp::Offer { timestamps: false, window_scaling: false, ..tcp::Offer::default() },
        delayed_ack: tcp::DelayedAck { segments: 1, ..Default::default() },
        ..Default::default()
    };
    let address = SocketAddr::new(world.address(to).unwrap(), 9);
    let config =
        transfer::SenderConfig { octets: None, tcp, ..transfer::SenderConfig::new(address, 0) };
    world.add_app(from, transfer::Sender::new(config));
    world.add_app(
        to,
        transfer::Sink::new(transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) }),
    )
}

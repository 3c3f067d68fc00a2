//! HBH at the hooks of the IP stack.

use hbh::{Config, Profile};

use super::*;
use crate::Class;
use crate::channel::Outages;
use crate::node::service::hbh::Hbh;

#[test]
fn datagrams_cross_a_lossy_chain_under_hbh() {
    for profile in [Profile::Default, Profile::Paper] {
        let (mut world, nodes) = chain(5, 4, &link(lossy(0.1)));
        enable(&mut world, &nodes, profile);
        let sender = stream_to(&world, nodes[4], 200, 300);
        world.add_app(nodes[0], stream::Sender::new(sender));
        let sink = world.add_app(nodes[4], stream::Sink::new(9));

        run_for(&mut world, 600);

        let stats = world.app::<stream::Sink>(sink).unwrap().stats();
        assert!(stats.received >= 297, "{profile:?}: {stats:?}");
        assert!(world.total().sent[Class::HopAck].packets > 0);
    }
}

#[test]
fn v6_crosses_hbh_too() {
    for profile in [Profile::Default, Profile::Paper] {
        let (mut world, nodes) = chain(5, 4, &link(lossy(0.1)));
        enable(&mut world, &nodes, profile);
        let address = world.addresses(nodes[4]).find(IpAddr::is_ipv6).unwrap();
        let config = transfer::SenderConfig::new(SocketAddr::new(address, 9), 30_000);
        world.add_app(nodes[0], transfer::Sender::new(config));
        let sink = world.add_app(nodes[4], transfer::Sink::new(transfer::SinkConfig::new(9)));

        run_for(&mut world, 3_600);

        let stats = world.transfer_sink(sink).unwrap();
        assert_eq!((stats.octets, stats.corrupt), (30_000, 0), "{profile:?}");
    }
}

#[test]
fn a_run_under_hbh_is_a_function_of_its_seed() {
    let run = |seed, profile| {
        let (mut world, nodes) = chain(seed, 4, &link(lossy(0.1)));
        enable(&mut world, &nodes, profile);
        let to = SocketAddr::new(world.address(nodes[4]).unwrap(), 9);
        world.add_app(nodes[0], transfer::Sender::new(transfer::SenderConfig::new(to, 50_000)));
        world.add_app(nodes[4], transfer::Sink::new(transfer::SinkConfig::new(9)));
        run_for(&mut world, 600);
        world.report()
    };

    for profile in [Profile::Default, Profile::Paper] {
        assert_eq!(run(1, profile), run(1, profile));
        assert_ne!(run(1, profile).hash, run(2, profile).hash);
    }
}

#[test]
fn a_transfer_under_hbh_needs_no_repeats_by_tcp() {
    let (mut world, nodes) = chain(2, 4, &link(lossy(0.1)));
    enable(&mut world, &nodes, Profile::Default);
    let to = SocketAddr::new(world.address(nodes[4]).unwrap(), 9);
    world.add_app(nodes[0], transfer::Sender::new(transfer::SenderConfig::new(to, 100_000)));
    let sink = world.add_app(nodes[4], transfer::Sink::new(transfer::SinkConfig::new(9)));

    run_for(&mut world, 600);

    let stats = world.transfer_sink(sink).unwrap();
    assert_eq!((stats.octets, stats.corrupt), (100_000, 0));
    let took = stats.last.unwrap().since(Time::ZERO + MEETING);
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn packets_that_wait_for_their_pace_go_in_time_though_nothing_else_happens() {
    let took = |with_hbh| {
        let long = channel::Config {
            rate: BitRate::from_bits_per_s(50_000_000).unwrap(),
            delay: Duration::from_millis(90),
            ..channel::Config::default()
        };
        let (mut world, nodes) = chain(1, 1, &link(long));
        if with_hbh {
            enable(&mut world, &nodes, Profile::Default);
        } else {
            world.meet();
        }
        let to = SocketAddr::new(world.address(nodes[1]).unwrap(), 9);
        world.add_app(nodes[0], transfer::Sender::new(transfer::SenderConfig::new(to, 60_000)));
        let sink = world.add_app(nodes[1], transfer::Sink::new(transfer::SinkConfig::new(9)));
        run_for(&mut world, 60);
        let stats = world.transfer_sink(sink).unwrap();
        assert_eq!(stats.octets, 60_000);
        stats.last.unwrap().since(Time::ZERO + MEETING)
    };

    let (plain, hbh) = (took(false), took(true));

    assert!(hbh < plain.mul_f64(1.15), "{hbh:?} and {plain:?}");
}

#[test]
fn hbh_ends_where_the_next_hop_does_not_speak_it() {
    let (mut world, nodes) = chain(5, 4, &link(slow()));
    enable(&mut world, &nodes[1..4], Profile::Paper);
    let sender = stream_to(&world, nodes[4], 200, 10);
    world.add_app(nodes[0], stream::Sender::new(sender));
    let sink = world.add_app(nodes[4], stream::Sink::new(9));

    run_for(&mut world, 60);

    assert_eq!(world.app::<stream::Sink>(sink).unwrap().stats().received, 10);
    let report = world.report();
    let sent = |link: usize| report.links[link].counters.sent;
    assert_eq!(sent(0)[Class::Data], crate::Tally { packets: 10, octets: 10 * 228 });
    assert_eq!(sent(2)[Class::Data], crate::Tally { packets: 10, octets: 10 * 236 });
    assert_eq!(sent(6)[Class::Data], crate::Tally { packets: 10, octets: 10 * 228 });
    assert_eq!((sent(1).traffic().packets, sent(7).traffic().packets), (0, 0));
}

#[test]
fn a_packet_passes_as_many_hops_under_hbh_as_without() {
    for with_hbh in [false, true] {
        for (ttl, arrives) in [(4, true), (3, false)] {
            let (mut world, nodes) = chain(5, 4, &link(slow()));
            if with_hbh {
                enable(&mut world, &nodes, Profile::Default);
            }
            let (a, e) = (world.address(nodes[0]).unwrap(), world.address(nodes[4]).unwrap());
            let sink = world.add_app(nodes[4], stream::Sink::new(9));
            let mut packet = datagram(a, e, 20);
            packet[8] = ttl;
            base::ip::rewrite_v4_checksum(&mut packet[..20]);

            world.inject(nodes[0], &packet);
            run_for(&mut world, 60);

            let received = world.app::<stream::Sink>(sink).unwrap().stats().received == 1;
            assert_eq!(received, arrives, "{with_hbh} {ttl}");
            let error = world.node_counters(nodes[0]).errors_received == 1;
            assert_eq!(error, !arrives);
        }
    }
}

#[test]
fn full_segments_leave_room_for_what_hbh_adds() {
    let (mut world, nodes) = chain(1, 2, &link(slow()));
    enable(&mut world, &nodes, Profile::Default);
    let to = SocketAddr::new(world.address(nodes[2]).unwrap(), 9);
    let config = transfer::SenderConfig::new(to, 50_000);
    let sender = world.add_app(nodes[0], transfer::Sender::new(config));
    let sink = world.add_app(nodes[2], transfer::Sink::new(transfer::SinkConfig::new(9)));

    run_for(&mut world, 100);

    assert_eq!(world.transfer_sink(sink).unwrap().octets, 50_000);
    assert_eq!(world.transfer_sender(sender).unwrap().tcp.mtu_changes, 0);
    assert_eq!(world.node_counters(nodes[0]).errors_sent, 0);
}

#[test]
fn the_sender_hears_what_hbh_leaves_of_the_mtu() {
    let (mut world, nodes) = chain(1, 2, &link(slow()));
    enable(&mut world, &nodes, Profile::Default);
    let (from, to) = (world.address(nodes[0]).unwrap(), world.address(nodes[2]).unwrap());
    let sink = world.add_app(nodes[2], stream::Sink::new(9));

    // 28 octets of headers: the first just fits beside the 12 that HBH may need, the second does not.
    for payload in [1_460, 1_461] {
        world.inject(nodes[0], &datagram(from, to, payload));
    }
    run_for(&mut world, 100);

    assert_eq!(world.app::<stream::Sink>(sink).unwrap().stats().received, 1);
    assert_eq!(world.node_counters(nodes[0]).errors_sent, 1);
}

#[test]
fn packets_that_hbh_holds_take_the_new_way() {
    let mut world = World::new(1);
    let nodes = ["a", "b", "c", "d"].map(|name| world.add_node(name));
    let links = [(0, 1), (1, 3), (0, 2), (2, 3)]
        .map(|(a, b)| world.connect(nodes[a], nodes[b], &link(slow())));
    world.auto_routes();
    enable(&mut world, &nodes, Profile::Default);
    let config = stream::SenderConfig {
        interval: Duration::from_millis(5),
        ..stream_to(&world, nodes[3], 472, 60)
    };
    world.add_app(nodes[0], stream::Sender::new(config));
    let sink = world.add_app(nodes[3], stream::Sink::new(9));
    let at = world.now() + Duration::from_millis(250);
    for near in [links[0], links[1]] {
        world.at(at, Change::LinkDown(near));
    }
    world.at(at, Change::AutoRoutes);

    run_for(&mut world, 60);

    // What was acknowledged to b and not sent on is lost with b.
    let stats = world.app::<stream::Sink>(sink).unwrap().stats();
    assert!(stats.received >= 50, "{stats:?}");
}

#[test]
fn a_backlog_moves_packets_ahead_of_time() {
    let waiting = |hop_backlog| {
        let interface = InterfaceConfig { hop_backlog, ..InterfaceConfig::default() };
        let (mut world, nodes) = chain(1, 1, &LinkConfig::symmetric(slow(), interface));
        enable(&mut world, &nodes, Profile::Default);
        let (a, b) = (world.address(nodes[0]).unwrap(), world.address(nodes[1]).unwrap());
        for _ in 0..8 {
            world.inject(nodes[0], &datagram(a, b, 972));
        }
        world.queued(nodes[0])
    };

    assert_eq!(waiting(0), 0);
    assert_eq!(waiting(4), 4);
}

#[test]
fn a_queue_that_hbh_does_not_see_overflows() {
    let dropped = |hop_backlog| {
        let interface =
            InterfaceConfig { hop_backlog, queue_packets: 4, ..InterfaceConfig::default() };
        let (mut world, nodes) = chain(1, 1, &LinkConfig::symmetric(slow(), interface));
        enable(&mut world, &nodes, Profile::Default);
        let (a, b) = (world.address(nodes[0]).unwrap(), world.address(nodes[1]).unwrap());
        for _ in 0..8 {
            world.inject(nodes[0], &datagram(a, b, 972));
        }
        (world.queued(nodes[0]), world.total().dropped_at_edge.packets)
    };

    // One is on the link.
    assert_eq!(dropped(4), (4, 0));
    assert_eq!(dropped(5), (4, 3));
}

#[test]
fn neighbours_find_each_other_by_hellos() {
    let (mut world, nodes) = chain(3, 2, &link(lossy(0.1)));
    for node in &nodes[..2] {
        world.enable_hbh(*node, Config::new(Profile::Default));
    }
    assert_eq!(nodes[..2].iter().map(|node| peers(&world, *node)).sum::<usize>(), 0);

    world.meet();

    let found = nodes[..2].iter().map(|node| peers(&world, *node));
    assert_eq!(found.collect::<Vec<_>>(), [1, 1], "the third node does not speak HBH");
    assert!(world.total().sent[Class::Hello].packets > 60);
}

#[test]
fn a_transfer_goes_on_when_its_neighbour_is_back() {
    let begin = Time::ZERO + MEETING;
    let down = begin + Duration::from_secs(3)..begin + Duration::from_secs(33);
    let outages = Outages::new(vec![down.clone()]).unwrap();
    let (mut world, nodes) = chain(1, 2, &link(channel::Config { outages, ..slow() }));
    enable(&mut world, &nodes, Profile::Default);
    let to = SocketAddr::new(world.address(nodes[2]).unwrap(), 9);
    world.add_app(nodes[0], transfer::Sender::new(transfer::SenderConfig::new(to, 300_000)));
    let sink = world.add_app(nodes[2], transfer::Sink::new(transfer::SinkConfig::new(9)));
    let octets = |world: &World| world.transfer_sink(sink).unwrap().octets;

    world.run_until(down.end);
    let before = octets(&world);
    let missed: Vec<_> = nodes.iter().map(|node| peers(&world, *node)).collect();
    run_for(&mut world, 2);

    assert_eq!(missed, [0, 0, 0], "they are given up after some seconds of silence");
    assert!(octets(&world) > before, "segments that were kept go out at once");
    run_for(&mut world, 60);
    assert_eq!(octets(&world), 300_000);
}

/// With how many neighbours a node speaks HBH.
fn peers(world: &World, node: NodeId) -> usize {
    world.services::<Hbh>(node).map(Hbh::peers).sum()
}

pub fn enable(world: &mut World, nodes: &[NodeId], profile: Profile) {
    for node in nodes {
        world.enable_hbh(*node, Config::new(profile));
    }
    world.meet();
}

//! Networks whose nodes share a combat net.

use super::*;
use crate::cnr::{self, Hearing, LinkType, Precedence, StationId};
use crate::mobility::Motion;
use crate::{Class, CnrId};

/// Nodes in a row, each of which hears the next; nothing is lost to noise.
fn row(nodes: usize, link_type: LinkType) -> (World, Vec<NodeId>, CnrId) {
    let mut world = World::new(1);
    let config = cnr::Config { loss: 0.0, link_type, ..cnr::Config::default() };
    let pairs = (1..nodes).map(|it| [StationId(it - 1), StationId(it)]).collect();
    let net = world.add_cnr(config, Hearing::Pairs(pairs));
    let nodes: Vec<_> = (0..nodes).map(|n| world.add_node(&format!("n{n}"))).collect();
    for node in &nodes {
        world.add_cnr_station(net, *node, Motion::at_rest(Default::default()));
    }
    world.auto_routes();
    (world, nodes, net)
}

fn slowly(config: stream::SenderConfig, seconds: u64) -> stream::SenderConfig {
    stream::SenderConfig { interval: Duration::from_secs(seconds), ..config }
}

#[test]
fn a_net_is_one_link_for_ip_whatever_relays_it_needs() {
    for link_type in [LinkType::Unacknowledged, LinkType::Coupled, LinkType::Decoupled] {
        let (mut world, nodes, net) = row(4, link_type);
        assert_eq!(world.next_hop(nodes[0], world.address(nodes[3]).unwrap()), Some(nodes[3]));
        let config = slowly(stream_to(&world, nodes[3], 100, 10), 60);
        world.add_app(nodes[0], stream::Sender::new(config));
        let sink = world.add_app(nodes[3], stream::Sink::new(9));

        world.run_until(Time::ZERO + Duration::from_secs(1_200));

        let stats = world.app::<stream::Sink>(sink).unwrap().stats();
        assert_eq!(stats.received, 10, "{link_type:?}");
        let medium = world.cnr_medium(net);
        assert_eq!([1, 2].map(|it| medium.stats(world.now(), StationId(it)).relayed), [10, 10]);
        assert_eq!(world.packets_under_way(), 0, "{link_type:?}");
        assert_eq!(world.report().nodes[1].counters.forwarded, 0, "IP sees no relay");
    }
}

#[test]
fn packets_leave_by_the_precedence_of_their_traffic_class() {
    let classes = [0, 0x1f, 0x20, 0x5f, 0x60, 0xe0];

    let precedences = classes.map(Precedence::of_traffic_class);

    use Precedence::{Priority, Routine, Urgent};
    assert_eq!(precedences, [Routine, Routine, Priority, Priority, Urgent, Urgent]);

    let (mut world, nodes, _) = row(2, LinkType::Unacknowledged);
    let mut sinks = Vec::new();
    for (port, dscp) in [(9, 0), (10, 8), (11, 24)] {
        let mut config = stream_to(&world, nodes[1], 500, 20);
        (config.dscp, config.port) = (dscp, port);
        config.destination.set_port(port);
        world.add_app(nodes[0], stream::Sender::new(config));
        sinks.push(world.add_app(nodes[1], stream::Sink::new(port)));
    }
    world.run_until(Time::ZERO + Duration::from_secs(600));
    let delays = sinks.iter().map(|it| {
        let stats = world.app::<stream::Sink>(*it).unwrap().stats();
        assert_eq!(stats.received, 20);
        stats.delay.mean()
    });
    let delays: Vec<f64> = delays.collect();
    assert!(delays[0] > delays[1] + 5.0 && delays[1] > delays[2] + 5.0, "{delays:?}");
}

#[test]
fn what_a_station_has_no_room_for_and_what_nobody_hears_counts_as_lost() {
    let (mut world, nodes, net) = row(2, LinkType::Unacknowledged);
    let mut config = stream_to(&world, nodes[1], 500, 200);
    config.interval = Duration::from_millis(1);
    world.add_app(nodes[0], stream::Sender::new(config));
    let sink = world.add_app(nodes[1], stream::Sink::new(9));

    world.run_until(Time::ZERO + Duration::from_secs(600));

    let received = world.app::<stream::Sink>(sink).unwrap().stats().received;
    let dropped = world.cnr_medium(net).stats(world.now(), StationId(0)).dropped;
    // Two stations may have met once, when they told whom they hear.
    assert!(received >= 47 && dropped[2] > 140, "{received} {dropped:?}");
    let counters = world.port_counters(world.cnr_ports(net)[0]);
    assert_eq!(counters.lost.packets, 200 - received);
    assert_eq!(counters.sent[Class::Data].packets, 200);
    assert_eq!(world.packets_under_way(), 0);
}

#[test]
fn a_packet_that_nobody_acknowledges_is_given_up_and_lost() {
    let (mut world, nodes, net) = row(3, LinkType::Coupled);
    // A third station that sends all the time and is hidden from the first.
    for (from, count) in [(0, 5), (2, 2_000)] {
        let config = stream_to(&world, nodes[1], 500, count);
        world.add_app(nodes[from], stream::Sender::new(config));
    }

    world.run_until(Time::ZERO + Duration::from_secs(3_600));

    let medium = world.cnr_medium(net);
    let given_up = medium.total(world.now()).given_up;
    let lost = world.total().lost.packets;
    let dropped: u64 = medium.total(world.now()).dropped.iter().sum();
    assert!(given_up > 2, "{given_up}");
    assert_eq!(lost, given_up + dropped);
    assert_eq!(world.packets_under_way(), 0);
}

#[test]
fn tcp_passes_and_the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut world = World::new(seed);
        let net = world.add_cnr(cnr::Config::default(), Hearing::All);
        let nodes: Vec<_> = (0..4).map(|n| world.add_node(&format!("n{n}"))).collect();
        for node in &nodes {
            world.add_cnr_station(net, *node, Motion::at_rest(Default::default()));
        }
        world.auto_routes();
        let to = SocketAddr::new(world.address(nodes[1]).unwrap(), 9);
        let tcp = tcp::Config { mtu: 576, ..tcp::Config::default() };
        let config = transfer::SenderConfig { tcp, ..transfer::SenderConfig::new(to, 3_000) };
        world.add_app(nodes[0], transfer::Sender::new(config));
        let config = transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) };
        let sink = world.add_app(nodes[1], transfer::Sink::new(config));
        world.run_until(Time::ZERO + Duration::from_secs(600));
        assert_eq!(world.transfer_sink(sink).unwrap().octets, 3_000);
        world.report().hash
    };

    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

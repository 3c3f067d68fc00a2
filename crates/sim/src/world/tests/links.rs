//! Timing, queues, loss.

use super::*;

#[test]
fn delay_is_serialisation_and_propagation_to_the_nanosecond() {
    let framed = channel::Config { framing: 2, ..slow() };
    let (mut world, nodes) = chain(1, 2, &link(framed));
    let sender = stream_to(&world, nodes[2], 100, 1);
    world.add_app(nodes[0], stream::Sender::new(sender));
    let sink = world.add_app(nodes[2], stream::Sink::new(9));

    world.run(secs(10), |_| false);

    // 100 + 8 + 20 + 2 octets at 300 kbit/s are 3,466,666.67 ns.
    let stats = world.app::<stream::Sink>(sink).unwrap().stats();
    assert_eq!(stats.delay.min(), Duration::from_nanos(2 * (3_466_667 + 50_000_000)));
}

#[test]
fn a_link_changes_while_packets_flow() {
    let (mut world, nodes) = chain(1, 1, &link(slow()));
    let sender = stream_to(&world, nodes[1], 100, 2);
    let late = secs(1) + Duration::from_millis(500);
    world.add_app(
        nodes[0],
        stream::Sender::new(stream::SenderConfig { interval: Duration::from_secs(2), ..sender }),
    );
    let sink = world.add_app(nodes[1], stream::Sink::new(9));
    let faster = channel::Config { delay: Duration::from_millis(10), ..slow() };
    let link = crate::ids::LinkId(0);
    world.at(late, crate::Change::Channels(link, Box::new([faster.clone(), faster])));

    world.run(secs(10), |_| false);

    let delay = world.app::<stream::Sink>(sink).unwrap().stats().delay;
    assert_eq!(delay.max() - delay.min(), Duration::from_millis(40));
}

#[test]
fn a_full_queue_drops_what_comes_last() {
    let interface = InterfaceConfig { queue_packets: 5, ..InterfaceConfig::default() };
    let (mut world, nodes) = chain(1, 1, &LinkConfig::symmetric(slow(), interface));
    let (a, b) = (world.address(nodes[0]).unwrap(), world.address(nodes[1]).unwrap());
    let sink = world.add_app(nodes[1], stream::Sink::new(9));

    for _ in 0..20 {
        world.inject(nodes[0], &datagram(a, b, 972));
    }
    world.run(secs(10), |_| false);

    // One is on the link, five wait.
    let total = world.total();
    assert_eq!(total.sent.total().packets, 6);
    assert_eq!(total.dropped_at_edge, crate::Tally { packets: 14, octets: 14_000 });
    assert_eq!(total.longest_queue, 5);
    assert_eq!(
        world.app::<stream::Sink>(sink).unwrap().stats().received,
        1,
        "all have the same number"
    );
}

#[test]
fn a_queue_can_be_limited_in_octets() {
    let interface = InterfaceConfig { queue_octets: Some(2_500), ..InterfaceConfig::default() };
    let (mut world, nodes) = chain(1, 1, &LinkConfig::symmetric(slow(), interface));
    let (a, b) = (world.address(nodes[0]).unwrap(), world.address(nodes[1]).unwrap());

    for _ in 0..5 {
        world.inject(nodes[0], &datagram(a, b, 972));
    }

    assert_eq!(world.total().dropped_at_edge.packets, 2);
}

#[test]
fn a_drop_behind_the_first_link_is_inside_the_network() {
    let mut world = World::new(1);
    let nodes = ["a", "b", "c"].map(|name| world.add_node(name));
    world.connect(nodes[0], nodes[1], &link(channel::Config::default()));
    let interface = InterfaceConfig { queue_packets: 3, ..InterfaceConfig::default() };
    world.connect(nodes[1], nodes[2], &LinkConfig::symmetric(slow(), interface));
    world.auto_routes();
    let (a, c) = (world.address(nodes[0]).unwrap(), world.address(nodes[2]).unwrap());

    for _ in 0..10 {
        world.inject(nodes[0], &datagram(a, c, 972));
    }
    world.run(secs(10), |_| false);

    let total = world.total();
    assert_eq!((total.dropped_at_edge.packets, total.dropped_inside.packets), (0, 6));
}

#[test]
fn loss_is_within_the_confidence_interval_of_the_binomial() {
    const SENT: u64 = 20_000;
    let (mut world, nodes) = chain(3, 1, &link(lossy(0.1)));
    let sender = stream_to(&world, nodes[1], 20, SENT);
    let sender = world.add_app(nodes[0], stream::Sender::new(sender));
    let sink = world.add_app(nodes[1], stream::Sink::new(9));

    world.run(Time::MAX, |_| false);

    let lost = SENT - world.app::<stream::Sink>(sink).unwrap().stats().received;
    let (mean, deviation) = (0.1 * SENT as f64, (0.1 * 0.9 * SENT as f64).sqrt());
    assert!((lost as f64 - mean).abs() < 3.3 * deviation, "{lost}");
    assert_eq!(world.total().lost.packets, lost);
    assert_eq!(world.app::<stream::Sender>(sender).unwrap().stats().sent, SENT);
    assert_eq!(world.packets_under_way(), 0);
}

#[test]
fn directions_of_a_link_differ_where_they_are_told_to() {
    let mut world = World::new(1);
    let nodes = ["a", "b"].map(|name| world.add_node(name));
    let fast = channel::Config { rate: BitRate::from_bits_per_s(3_000_000).unwrap(), ..slow() };
    let config = LinkConfig { back: fast, ..link(slow()) };
    world.connect(nodes[0], nodes[1], &config);
    let request = stream_to(&world, nodes[1], 272, 1);
    let ping = world.add_app(nodes[0], ping::Ping::new(request));
    world.add_app(nodes[1], echo::Echo::new(9));

    world.run(secs(1), |_| false);

    // 300 octets: 8 ms there, 0.8 ms back.
    let stats = world.app::<ping::Ping>(ping).unwrap().stats();
    assert_eq!(stats.rtt.min(), Duration::from_micros(8_000 + 800 + 2 * 50_000));
}

#[test]
fn a_link_that_is_down_drops_until_it_is_up_again() {
    let (mut world, nodes) = chain(1, 1, &link(slow()));
    let sender = stream_to(&world, nodes[1], 100, 30);
    world.add_app(nodes[0], stream::Sender::new(sender));
    let sink = world.add_app(nodes[1], stream::Sink::new(9));
    let between = LinkId(0);
    world.at(Time::from_nanos(950_000_000), Change::LinkDown(between));
    world.at(Time::from_nanos(1_950_000_000), Change::LinkUp(between));

    world.run(secs(10), |_| false);

    assert_eq!(world.app::<stream::Sink>(sink).unwrap().stats().received, 20);
    assert_eq!(world.node_counters(nodes[0]).no_route, 10);
}

#[test]
fn transmissions_are_recorded_with_their_fate_up_to_the_limit() {
    let config = LinkConfig { back: lossy(1.0), ..link(slow()) };
    let (mut world, nodes) = chain(1, 1, &config);
    let (a, b) = (world.address(nodes[0]).unwrap(), world.address(nodes[1]).unwrap());
    for node in &nodes {
        world.add_app(*node, stream::Sink::new(9));
    }
    world.inject(nodes[0], &datagram(a, b, 972));
    assert_eq!(world.take_transmissions(), (vec![], 0), "nobody asked");
    world.record_transmissions(2);

    world.inject(nodes[1], &datagram(b, a, 972));
    world.run(secs(10), |_| false);
    let start = world.now();
    for _ in 0..3 {
        world.inject(nodes[0], &datagram(a, b, 972));
    }
    world.run(secs(10), |_| false);
    let (taken, missed) = world.take_transmissions();

    // 1,000 octets at 300 kbit/s are 26.667 ms, and 50 ms pass on the way.
    let air = Duration::from_nanos(26_666_667);
    let sent = [Time::ZERO, start].map(|start| (start, start + air));
    assert_eq!([taken[0].start, taken[0].end], [sent[0].0, sent[0].1]);
    assert_eq!([taken[1].start, taken[1].end], [start, sent[1].1 + Duration::from_millis(50)]);
    let told: Vec<_> = taken.iter().map(|it| (it.from, it.to, it.ends, it.is_lost)).collect();
    let [there, back] = [(nodes[0], Some(nodes[1])), (nodes[1], Some(nodes[0]))];
    assert_eq!(
        told,
        [(back.0, back.1, Some([b, a]), true), (there.0, there.1, Some([a, b]), false)]
    );
    assert_eq!(missed, 2);
    assert_eq!(world.take_transmissions(), (vec![], 0));
}

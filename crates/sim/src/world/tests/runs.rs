//! The same run gives the same, and does not grow.

use super::*;

#[test]
fn a_run_is_a_function_of_its_seed() {
    assert_eq!(busy(1).report(), busy(1).report());
    assert_ne!(busy(1).report().hash, busy(2).report().hash);
}

#[test]
fn steps_and_runs_are_the_same() {
    let whole = busy(5).report();
    let mut world = plan(5);

    for second in 0..=60 {
        world.run_until(secs(second));
    }

    assert_eq!(world.report(), whole);
}

#[test]
fn another_node_does_not_change_what_is_lost_elsewhere() {
    let lost = |with_stranger| {
        let mut world = plan(9);
        if with_stranger {
            let strangers = ["x", "y"].map(|name| world.add_node(name));
            world.connect(strangers[0], strangers[1], &link(lossy(0.5)));
            let to_stranger = stream_to(&world, strangers[1], 100, 100);
            world.add_app(strangers[0], stream::Sender::new(to_stranger));
        }
        world.run_until(secs(60));
        world.report().links[0].counters
    };

    assert_eq!(lost(true), lost(false));
}

pub fn busy(seed: u64) -> World {
    let mut world = plan(seed);
    world.run_until(secs(60));
    world
}

fn plan(seed: u64) -> World {
    let (mut world, nodes) = chain(seed, 3, &link(lossy(0.2)));
    let there = stream_to(&world, nodes[3], 500, 400);
    world.add_app(nodes[0], stream::Sender::new(there));
    world.add_app(nodes[3], stream::Sink::new(9));
    let back = stream_to(&world, nodes[0], 200, 400);
    world.add_app(nodes[3], ping::Ping::new(stream::SenderConfig { port: 6_000, ..back }));
    world.add_app(nodes[0], echo::Echo::new(9));
    world
}

/// A transfer without end over a link that takes no time: a round trip follows the other at one instant.
#[test]
fn an_instant_without_end_ends_the_run_and_says_who_is_at_it() {
    let (mut world, nodes) = chain(1, 2, &LinkConfig::default());
    world.limit_instants(20_000);
    let destination = SocketAddr::new(world.address(nodes[2]).unwrap(), 9);
    let endless = transfer::SenderConfig {
        octets: None,
        start: secs(3),
        ..transfer::SenderConfig::new(destination, 0)
    };
    world.add_app(nodes[0], transfer::Sender::new(endless));
    world.add_app(nodes[2], transfer::Sink::new(transfer::SinkConfig::new(9)));

    world.run_until(secs(60));

    let standstill = world.standstill().expect("it never ends").clone();
    assert_eq!((standstill.at, standstill.events), (secs(3), 20_000));
    assert_eq!(standstill.nodes, ["n0", "n1", "n2"]);
    let flow = standstill.flow.expect("packets arrive");
    assert!([flow.source_port, flow.destination_port].contains(&9), "{flow:?}");
    assert_eq!(world.now(), secs(3));
    assert!(!world.step(Time::MAX), "it goes on");
}

#[test]
fn an_instant_may_have_much_to_do() {
    let (mut world, nodes) = chain(1, 2, &LinkConfig::default());
    world.limit_instants(20_000);
    let destination = SocketAddr::new(world.address(nodes[2]).unwrap(), 9);
    let whole = transfer::SenderConfig::new(destination, 4_000_000);
    world.add_app(nodes[0], transfer::Sender::new(whole));
    let sink = world.add_app(nodes[2], transfer::Sink::new(transfer::SinkConfig::new(9)));

    world.run_until(secs(60));

    assert_eq!(world.standstill(), None);
    assert_eq!(world.transfer_sink(sink).unwrap().octets, 4_000_000);
}

/// The last datagram is lost on the way, and HBH has it and sends it again: the run is not over before.
#[test]
fn a_run_is_at_rest_when_nothing_of_its_applications_is_left_whatever_hellos_do() {
    let (mut world, nodes) = chain(7, 2, &link(lossy(0.2)));
    hops::enable(&mut world, &nodes, hbh::Profile::Default);
    let begin = world.now();
    let stream = stream::SenderConfig { count: Some(20), ..stream_to(&world, nodes[2], 500, 20) };
    world.add_app(nodes[0], stream::Sender::new(stream));
    let sink = world.add_app(nodes[2], stream::Sink::new(9));
    let mut pending = Pending::default();

    world.run(secs(1_000), |world| world.is_at_rest(&mut pending));

    let received = |world: &World| world.app::<stream::Sink>(sink).unwrap().stats().received;
    let (at_rest, came) = (world.now(), received(&world));
    let took = at_rest.since(begin);
    assert!((2..30).contains(&took.as_secs()), "{took:?}");
    assert!(came > 15, "{came}");
    run_for(&mut world, 600);
    assert_eq!(received(&world), came, "something came afterwards");
    let hellos = world.total().sent[crate::Class::Hello].packets;
    assert!(hellos > 600, "{hellos}");
}

#[test]
fn a_connection_in_time_wait_is_over() {
    let (mut world, nodes) = chain(1, 2, &link(lossy(0.1)));
    let destination = SocketAddr::new(world.address(nodes[2]).unwrap(), 9);
    let whole = transfer::SenderConfig::new(destination, 20_000);
    let sender = world.add_app(nodes[0], transfer::Sender::new(whole));
    let sink = world.add_app(nodes[2], transfer::Sink::new(transfer::SinkConfig::new(9)));
    let mut pending = Pending::default();
    world.run(secs(10), |world| world.transfer_sink(sink).is_some_and(|it| it.octets > 10_000));
    assert!(!world.is_at_rest(&mut pending), "in the middle");

    world.run(secs(1_000), |world| world.is_at_rest(&mut pending));

    let stats = world.transfer_sender(sender).unwrap();
    assert_eq!((stats.end, stats.ended), (Some(tcp::Event::Closed), None));
    assert_eq!(world.transfer_sink(sink).unwrap().octets, 20_000);
    assert_eq!(world.packets_under_way(), 0);
    let packets = world.total().sent.total();
    run_for(&mut world, 600);
    assert_eq!(world.total().sent.total(), packets, "something was sent afterwards");
}

//! Datagram applications over the network.

use super::*;

#[test]
fn loss_on_the_way_adds_up_over_hops() {
    const SENT: u64 = 5_000;
    let (mut world, nodes) = chain(11, 4, &link(lossy(0.1)));
    let sender = stream_to(&world, nodes[4], 20, SENT);
    world.add_app(nodes[0], stream::Sender::new(sender));
    let sink = world.add_app(nodes[4], stream::Sink::new(9));

    world.run(Time::MAX, |_| false);

    let share = world.app::<stream::Sink>(sink).unwrap().stats().received as f64 / SENT as f64;
    let expected = 0.9_f64.powi(4);
    let deviation = (expected * (1.0 - expected) / SENT as f64).sqrt();
    assert!((share - expected).abs() < 3.3 * deviation, "{share}");
}

#[test]
fn jitter_is_seen_and_bounded() {
    let shaky = channel::Config { jitter: Duration::from_millis(20), ..slow() };
    let (mut world, nodes) = chain(1, 1, &link(shaky));
    let sender = stream_to(&world, nodes[1], 20, 500);
    world.add_app(nodes[0], stream::Sender::new(sender));
    let sink = world.add_app(nodes[1], stream::Sink::new(9));

    world.run(Time::MAX, |_| false);

    let stats = world.app::<stream::Sink>(sink).unwrap().stats();
    let span = stats.delay.max() - stats.delay.min();
    assert!(stats.jitter > 0.005 && span < Duration::from_millis(40), "{stats:?}");
}

#[test]
fn a_stream_that_exceeds_the_link_fills_the_queue() {
    let (mut world, nodes) = chain(1, 1, &link(slow()));
    let config = stream::SenderConfig {
        interval: Duration::from_millis(10),
        ..stream_to(&world, nodes[1], 972, 1_000)
    };
    world.add_app(nodes[0], stream::Sender::new(config));
    let sink = world.add_app(nodes[1], stream::Sink::new(9));

    world.run(Time::MAX, |_| false);

    // The link carries 37.5 of 100 a second, for 10 s, and then the 50 that wait.
    let stats = world.app::<stream::Sink>(sink).unwrap().stats();
    assert_eq!(world.total().longest_queue, 50);
    assert!((424..=427).contains(&stats.received), "{}", stats.received);
}

#[test]
fn flows_are_counted_on_every_link_up_to_a_limit() {
    let (mut world, nodes) = chain(1, 3, &link(lossy(0.2)));
    world.count_flows(2);
    for port in [1, 2, 3] {
        let config = stream::SenderConfig { port, ..stream_to(&world, nodes[3], 72, 50) };
        world.add_app(nodes[0], stream::Sender::new(config));
    }
    world.add_app(nodes[3], stream::Sink::new(9));

    world.run(Time::MAX, |_| false);

    let flows: Vec<_> = world.flows().collect();
    let ports: Vec<_> = flows.iter().map(|(key, _)| key.source_port).collect();
    assert_eq!(ports, [1, 2]);
    let sent: u64 = flows.iter().map(|(_, counters)| counters.sent.packets).sum();
    assert_eq!(sent + world.other_flows().sent.packets, world.total().sent.total().packets);
    assert!(
        flows.iter().all(|(_, it)| (50..150).contains(&it.sent.packets) && it.lost.packets > 0)
    );
}

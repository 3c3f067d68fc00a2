//! Hellos, and links that work in one direction only.

use super::super::super::Received;
use super::bounds::reply;
use super::*;

fn hello(mode: Hellos) -> Config {
    let config = Config { jitter: Duration::ZERO, wait_after_reboot: false, ..Config::hello() };
    Config { hello: Hello { mode, ..config.hello }, ..config }
}

fn told(net: &mut Net, word: &str) -> Vec<String> {
    net.story().into_iter().filter(|told| told.contains(word)).collect()
}

#[test]
fn only_nodes_on_an_active_route_say_hello() {
    let mut net = Net::line(4, |_| hello(Hellos::Active));
    net.run(Duration::from_secs(10));
    assert_eq!(net.story(), [""; 0]);

    net.send(0, node(2));
    net.run(Duration::from_secs(20));

    let hellos: Vec<u64> = (0..4).map(|index| net.stats(index).sent.hellos).collect();
    assert!(hellos[..3].iter().all(|&hellos| (2..=4).contains(&hellos)), "{hellos:?}");
    assert_eq!(hellos[3], 0);
}

#[test]
fn all_nodes_say_hello_each_second_if_they_should() {
    let mut net = Net::line(2, |_| hello(Hellos::Always));
    net.run(millis(1_500));
    // The driver reports the interface again.
    net.start(0);
    net.run(millis(2_000));

    assert_eq!(
        told(&mut net, "0 hello"),
        ["0ns 0 hello ttl 1", "1s 0 hello ttl 1", "2s 0 hello ttl 1", "3s 0 hello ttl 1",]
    );
    assert_eq!(net.hops(0, 1), Some(1));
}

#[test]
fn a_request_stands_for_a_hello() {
    let mut net = Net::line(2, |_| hello(Hellos::Always));
    net.run(millis(500));
    net.send(0, node(7));
    net.run(millis(1_000));

    assert_eq!(told(&mut net, " 0 hello"), ["0ns 0 hello ttl 1"]);
}

#[test]
fn a_hello_tells_its_interval_where_the_profile_is_the_rfcs() {
    let feedback = Config { wait_after_reboot: false, ..Config::link_layer_feedback() };
    let told = [hello(Hellos::Always), feedback].map(|config| {
        let hello = Hello { mode: Hellos::Always, ..config.hello };
        let config = Config { jitter: Duration::ZERO, hello, ..config };
        let mut core = Aodv::new(config, Rng::stream(1, "hello"));
        core.handle_interface(at(0), 0, Some(&Interface { address: node(0), room: 1_000 }));
        core.handle_timeout(at(0));
        let mut octets = Vec::new();
        core.poll_transmit(at(0), 0, &mut octets).expect("a hello");
        let Ok((Message::Reply(hello), 0)) = Message::parse(&octets) else { panic!() };
        hello.hello_interval
    });

    assert_eq!(told, [Some(Duration::from_secs(1)), None]);
}

#[test]
fn what_one_node_counts_as_sent_its_neighbour_counts_as_received() {
    let config = hello(Hellos::Active);
    let unidirectional = Unidirectional { acknowledge: true, ..config.unidirectional };
    let config = Config { unidirectional, ..config };
    let mut net = Net::line(2, |_| config.clone());
    net.send(0, node(1));
    net.send(0, node(7));
    net.run(Duration::from_secs(1));
    let demand = Demand { destination: node(9), from: Some(neighbour(0)) };
    net.nodes[1].core.handle_demand(net.now, &demand);
    net.serve(1);
    net.run(millis(60_700));

    let [there, back] = [(0, 1), (1, 0)].map(|(from, to)| {
        let (sent, received) = (net.stats(from).sent, net.stats(to).received);
        let sent = [
            sent.requests + sent.requests_forwarded,
            sent.replies,
            sent.errors,
            sent.hellos,
            sent.acknowledgements,
        ];
        let Received { requests, replies, errors, hellos, acknowledgements } = received;
        assert_eq!(sent, [requests, replies, errors, hellos, acknowledgements]);
        sent
    });
    assert!(there.iter().zip(back).all(|(there, back)| there + back > 0), "{there:?} {back:?}");
}

#[test]
fn a_neighbour_that_is_silent_for_two_hellos_is_gone() {
    let mut net = Net::line(3, |_| hello(Hellos::Always));
    net.run(millis(2_500));
    net.send(0, node(2));
    net.run(millis(1_000));
    assert_eq!(net.hops(0, 2), Some(2));
    net.story();

    net.link(1, 2, false);
    // Its last hello came at 3.001 s.
    net.run(millis(3_000));

    let story = net.story();
    let of =
        |word: &str| story.iter().filter(|told| told.contains(word)).cloned().collect::<Vec<_>>();
    assert_eq!(of("1 loses 2"), ["5.101s 1 loses 2"]);
    assert_eq!(of("errs"), ["5.101s 1 errs 2 ttl 1 to 0"]);
    assert_eq!(of("0 loses 2"), ["5.102s 0 loses 2"]);
}

#[test]
fn a_next_hop_that_never_says_hello_is_gone_after_one_and_a_half_intervals() {
    let mut net = Net::new(1, 1, |_| hello(Hellos::Active));

    net.inject(node(1), 0, true, &Message::Reply(reply(node(20), node(0), 3)));
    net.run(Duration::from_secs(2));

    // A hello may be 100 ms late.
    assert_eq!(told(&mut net, "loses"), ["1.6s 0 loses 1", "1.6s 0 loses 20"]);
}

#[test]
fn one_hello_may_be_lost() {
    let mut net = Net::line(2, |_| hello(Hellos::Always));
    net.run(millis(1_500));
    net.link(0, 1, false);
    net.run(millis(1_000));
    net.link(0, 1, true);
    net.story();
    net.run(millis(5_000));

    assert_eq!(told(&mut net, "loses"), [""; 0]);
}

#[test]
fn a_neighbour_may_say_that_it_says_hello_less_often() {
    let mut net = Net::new(2, 1, |_| hello(Hellos::Active));
    let interval = Duration::from_secs(4);
    let message = Message::Reply(Reply {
        repair: false,
        acknowledge: false,
        prefix: 0,
        hops: 0,
        destination: node(1),
        sequence: 3,
        originator: node(1),
        lifetime: interval * 2,
        hello_interval: Some(interval),
        internet: None,
    });

    net.inject(node(1), 0, false, &message);
    net.run(millis(8_200));

    assert_eq!(told(&mut net, "0 loses"), ["8s 0 loses 1"]);
    assert_eq!(net.stats(0).breaks, 1);
}

#[test]
fn a_lost_neighbour_has_to_announce_its_interval_again() {
    let mut net = Net::new(1, 1, |_| hello(Hellos::Active));
    let interval = Duration::from_secs(4);
    let rare = Reply::new(node(1), 3, node(1), interval * 2);
    let rare = Reply { hello_interval: Some(interval), ..rare };
    net.inject(node(1), 0, false, &Message::Reply(rare));
    net.nodes[0].core.handle_break(net.now, neighbour(1));
    net.serve(0);

    net.inject(node(1), 0, true, &Message::Reply(reply(node(20), node(0), 3)));
    net.run(millis(500));
    net.inject(node(1), 0, true, &Message::Acknowledgement);
    net.story();
    net.run(Duration::from_secs(5));

    // Two of our own intervals and the slack after its last message.
    assert_eq!(told(&mut net, "loses"), ["2.6s 0 loses 1", "2.6s 0 loses 20"]);
}

#[test]
fn a_neighbour_with_hellos_is_one_hop_away_until_its_hello_is_late() {
    let hops = [1_250, 1_251].map(|later| {
        let mut net = Net::new(1, 1, |_| hello(Hellos::Active));
        let present = Reply::new(node(1), 1, node(1), Duration::from_secs(2));
        net.inject(node(1), 0, false, &Message::Reply(present));
        net.run(millis(later));

        let elsewhere = Reply { sequence: 2, ..reply(node(1), node(0), 3) };
        net.inject(node(5), 0, true, &Message::Reply(elsewhere));

        net.hops(0, 1)
    });

    assert_eq!(hops, [Some(1), Some(4)]);
}

#[test]
fn a_neighbour_that_does_not_acknowledge_is_ignored_until_another_way_is_found() {
    let config = || {
        let config = hello(Hellos::Off);
        let unidirectional = Unidirectional { acknowledge: true, ..config.unidirectional };
        Config { unidirectional, ..config }
    };
    let mut net = Net::line(4, |_| config());
    // What 0 sends comes to 3 directly, but not back.
    net.links.insert((0, 3));

    net.send(0, node(3));
    net.run(Duration::from_secs(3));

    assert_eq!(net.hops(0, 3), Some(3), "the way through the line");
    assert_eq!(net.stats(3).blacklisted, 1);
    assert!(net.stats(3).dropped.blacklisted > 0);
    assert_eq!(net.stats(0).sent.acknowledgements, 1);
    assert_eq!(net.stats(3).received.acknowledgements, 1);
    assert_eq!(net.stats(3).dropped.unexpected, 0);
    net.inject(node(2), 3, true, &Message::Acknowledgement);
    assert_eq!(net.stats(3).dropped.unexpected, 1);
}

#[test]
fn a_neighbour_is_ignored_for_a_while_only() {
    let config = hello(Hellos::Off);
    let unidirectional = Unidirectional { acknowledge: true, ..config.unidirectional };
    let config = Config { unidirectional, ..config };
    let mut net = Net::new(2, 1, |_| config.clone());
    net.links.insert((0, 1));
    net.send(0, node(1));
    net.run(Duration::from_secs(3));
    assert_eq!(net.stats(1).sent.replies, 1);

    net.link(0, 1, true);
    net.run(Duration::from_secs(30));
    net.send(0, node(1));
    net.run(Duration::from_secs(3));

    assert_eq!(net.hops(0, 1), Some(1));
}

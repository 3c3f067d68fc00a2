//! Nodes that have forgotten their sequence numbers.

use super::bounds::{reply, request};
use super::discovery::plain;
use super::*;

fn waiting() -> Config {
    Config { wait_after_reboot: true, ..plain() }
}

#[test]
fn a_node_that_starts_waits_before_it_asks_or_passes_on() {
    let mut net = Net::line(3, |index| if index == 1 { waiting() } else { plain() });
    net.send(1, node(2));
    net.send(0, node(2));
    net.run(Duration::from_secs(40));
    assert_eq!(net.stats(1).sent, Sent::default());
    assert!(net.stats(1).dropped.waiting > 0);
    assert_eq!(net.nodes[0].unreachable, [node(2)]);

    net.run(Duration::from_secs(20));

    assert_eq!(net.hops(1, 2), Some(1));
    net.send(0, node(2));
    net.run(Duration::from_secs(1));
    assert_eq!(net.hops(0, 2), Some(2));
}

#[test]
fn a_node_that_waits_uses_no_route_that_it_hears_of() {
    let mut net = Net::line(3, |index| if index == 1 { waiting() } else { plain() });

    net.send(0, node(1));
    net.run(Duration::from_secs(1));

    assert_eq!(net.hops(0, 1), Some(1), "it answers for itself");
    assert!(net.nodes[1].routes.is_empty());
    assert!(net.nodes[1].core.known(node(0)).is_some());
}

#[test]
fn packets_of_others_make_it_wait_for_longer_and_are_refused_to_all() {
    let mut net = Net::line(3, |_| waiting());
    net.run(Duration::from_secs(60));
    net.send(0, node(2));
    net.run(Duration::from_secs(5));
    assert_eq!(net.hops(0, 2), Some(2));
    net.restart(1);
    let restarted = net.now;
    net.run(Duration::from_secs(4));
    net.story();

    net.send(0, node(2));
    net.run(millis(100));

    assert!(net.story().contains(&"69.001s 1 errs 2 ttl 1".to_owned()));
    assert_eq!(net.hops(0, 2), None);
    let until = net.nodes[1].core.waits_until.unwrap();
    assert_eq!(until, restarted + millis(4_001) + Duration::from_secs(50));
}

#[test]
fn the_node_takes_up_its_number_from_who_knows_it() {
    let mut net = Net::line(2, |_| plain());
    net.nodes[1].core.sequence = 500;
    net.send(0, node(1));
    net.run(Duration::from_secs(1));
    net.restart(1);
    assert_eq!(net.nodes[1].core.sequence, 0);

    net.run(Duration::from_secs(30));
    net.send(0, node(1));
    net.run(Duration::from_secs(1));

    assert!(net.nodes[1].core.sequence > 500, "{}", net.nodes[1].core.sequence);
    assert_eq!(net.hops(0, 1), Some(1));
}

#[test]
fn a_request_repeated_with_a_raised_number_does_not_count_as_a_try() {
    let mut net = Net::new(1, 1, |_| plain());
    net.send(0, node(7));
    net.run(millis(2_500));
    net.story();

    // Somebody knows a number of node 0 from before: its requests counted as old.
    let echo = Request { originator_sequence: 100, ..request(node(0), node(7), 1) };
    net.inject(node(1), 0, false, &Message::Request(echo));
    net.run(Duration::from_secs(60));

    assert_eq!(
        net.story(),
        [
            "2.5s 0 asks 0 for 7 hops 0 ttl 35",
            "5.3s 0 asks 0 for 7 hops 0 ttl 35",
            "10.9s 0 asks 0 for 7 hops 0 ttl 35",
            "22.1s 0 cannot find 10.0.0.8",
        ]
    );
}

#[test]
fn a_node_whose_messages_count_as_old_is_told_the_number_that_others_know() {
    // A route with number 9 has ended, so messages of node 20 need at least number 10.
    let ended = || {
        let mut net = Net::new(1, 1, |_| plain());
        let known = Reply { sequence: 9, ..reply(node(20), node(0), 3) };
        net.inject(node(1), 0, true, &Message::Reply(known));
        net.run(Duration::from_secs(6));
        net.story();
        net
    };

    let mut net = ended();
    let old = Request { originator_sequence: 5, ..request(node(20), node(30), 1) };
    net.inject(node(1), 0, false, &Message::Request(old));
    assert_eq!(net.story(), ["6s 0 errs 20 ttl 1 to 1"], "a request");

    let mut net = ended();
    net.send(0, node(20));
    let old = Reply { sequence: 5, ..reply(node(20), node(0), 3) };
    net.inject(node(1), 0, true, &Message::Reply(old));
    net.run(millis(200));
    assert_eq!(
        net.story(),
        [
            "6s 0 asks 0 for 20 hops 0 ttl 6",
            "6s 0 errs 20 ttl 1 to 1",
            "6.16s 0 asks 0 for 20 hops 0 ttl 35",
        ],
        "a reply, and node 20 can know by then"
    );
}

#[test]
fn a_node_takes_up_its_number_from_a_reply_about_itself() {
    let mut net = Net::new(1, 1, |_| plain());

    let newer = Reply { sequence: 100, ..reply(node(0), node(20), 1) };
    net.inject(node(1), 0, true, &Message::Reply(newer));

    assert_eq!((net.nodes[0].core.sequence, net.stats(0).raised), (100, 1));
}

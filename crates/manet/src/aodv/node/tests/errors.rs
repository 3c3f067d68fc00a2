//! Routes that end.

use super::bounds::{reply, request};
use super::discovery::plain;
use super::*;

fn told(net: &mut Net, word: &str) -> Vec<String> {
    net.story().into_iter().filter(|told| told.contains(word)).collect()
}

#[test]
fn a_break_is_told_to_all_who_use_the_route() {
    let mut net = Net::line(5, |_| plain());
    net.has_feedback = true;
    net.send(0, node(4));
    net.run(Duration::from_secs(2));
    net.story();

    net.link(3, 4, false);
    net.send(0, node(4));
    net.run(millis(100));

    assert_eq!(
        told(&mut net, "errs"),
        ["2.004s 3 errs 4 ttl 1 to 2", "2.005s 2 errs 4 ttl 1 to 1", "2.006s 1 errs 4 ttl 1 to 0",]
    );
    assert!((0..4).all(|index| net.hops(index, 4).is_none()));
    assert_eq!(net.hops(0, 3), None, "it was not asked for");
    assert_eq!(net.stats(3).breaks, 1);
}

#[test]
fn two_who_use_a_route_are_told_together() {
    let mut net = Net::new(4, 1, |_| plain());
    net.has_feedback = true;
    // 0 and 1 behind 2, and 3 beyond it.
    for (one, other) in [(0, 2), (1, 2), (2, 3)] {
        net.link(one, other, true);
    }
    net.send(0, node(3));
    net.send(1, node(3));
    net.run(Duration::from_secs(2));
    net.story();

    net.link(2, 3, false);
    net.send(0, node(3));
    net.run(millis(100));

    assert_eq!(told(&mut net, "errs"), ["2.002s 2 errs 3 ttl 1"]);
    assert_eq!((net.hops(0, 3), net.hops(1, 3)), (None, None));
}

#[test]
fn a_long_error_is_told_in_messages_that_fit() {
    let mut net = Net::new(1, 1, |_| plain());
    // Room for two destinations.
    let narrow = Interface { address: node(0), room: ERROR_HEADER + 2 * UNREACHABLE_LEN };
    net.nodes[0].core.handle_interface(net.now, 0, Some(&narrow));
    let first = Request { hops: 0, ..request(node(2), node(0), 1) };
    net.inject(node(2), 0, false, &Message::Request(first));
    for last in [20, 21] {
        net.inject(node(1), 0, true, &Message::Reply(reply(node(last), node(2), 3)));
    }
    net.story();

    net.nodes[0].core.handle_break(net.now, neighbour(1));
    net.serve(0);

    assert_eq!(told(&mut net, "errs"), ["0ns 0 errs 1,20 ttl 1 to 2", "0ns 0 errs 21 ttl 1 to 2"]);
}

#[test]
fn a_route_is_found_again_another_way() {
    let mut net = Net::line(4, |_| plain());
    net.has_feedback = true;
    net.send(0, node(3));
    net.run(Duration::from_secs(2));

    net.link(2, 3, false);
    net.link(0, 3, true);
    net.send(0, node(3));
    net.run(millis(100));
    net.send(0, node(3));
    net.run(millis(100));

    assert_eq!(net.hops(0, 3), Some(1));
    assert_eq!(net.nodes[3].arrived.len(), 2);
}

#[test]
fn packets_keep_a_route_and_its_end_is_not_told_when_there_are_none() {
    let mut net = Net::line(3, |_| plain());
    net.send(0, node(2));
    for _ in 0..8 {
        net.run(Duration::from_secs(5));
        net.send(0, node(2));
    }
    assert_eq!(net.hops(0, 2), Some(2), "used for 40 s");
    assert_eq!(net.hops(1, 2), Some(1));
    assert_eq!(
        net.hops(2, 0),
        None,
        "nothing came back this way, and its packets do not refresh it"
    );
    net.story();

    net.run(Duration::from_secs(11));

    assert_eq!(net.hops(0, 2), None);
    assert_eq!(told(&mut net, "errs"), [""; 0]);
    let sequence = net.nodes[0].core.known(node(2)).unwrap().0;
    assert_eq!(sequence.map(|sequence| sequence > 1), Some(true));
    net.run(Duration::from_secs(51));
    assert_eq!(net.nodes[0].core.known(node(2)), None, "it is forgotten after the delete period");
}

#[test]
fn who_sends_where_there_is_no_route_is_told() {
    let mut net = Net::line(3, |_| plain());
    net.send(0, node(2));
    net.run(Duration::from_secs(2));
    net.restart(1);
    net.story();

    net.send(0, node(2));
    net.run(millis(10));

    assert_eq!(net.story()[..2], ["2.001s 1 errs 2 ttl 1 to 0", "2.002s 0 loses 2"]);
}

#[test]
fn packets_in_vain_keep_the_number_of_their_destination() {
    // The route ends after 5 s, and is forgotten 50 s later.
    let mut net = Net::new(1, 1, |_| plain());
    net.inject(node(1), 0, true, &Message::Reply(reply(node(20), node(0), 3)));
    net.run(millis(50_000));

    let demand = Demand { destination: node(20), from: Some(neighbour(2)) };
    net.nodes[0].core.handle_demand(net.now, &demand);
    net.serve(0);

    net.run(millis(49_999));
    assert_eq!(net.nodes[0].core.known(node(20)), Some((Some(2), 4, false)));
    net.run(millis(1));
    assert_eq!(net.nodes[0].core.known(node(20)), None);
}

#[test]
fn an_error_counts_only_from_the_next_hop_and_not_if_the_route_was_mended() {
    let mut net = Net::line(3, |_| plain());
    net.send(0, node(2));
    net.run(Duration::from_secs(2));
    let error = |no_delete| {
        Message::Error(Errors { no_delete, unreachable: vec![(node(2), 50), (node(7), 1)] })
    };

    net.inject(node(2), 0, false, &error(false));
    assert_eq!(net.hops(0, 2), Some(2), "2 is not the next hop");
    net.inject(node(1), 0, false, &error(true));
    assert_eq!(net.hops(0, 2), Some(2), "not to be deleted");
    assert_eq!(net.stats(0).sent.errors, 0, "nobody is to hear of them");
    net.inject(node(2), 1, true, &error(true));
    assert_eq!(net.hops(1, 2), Some(1));
    assert_eq!(net.stats(1).sent.errors, 1, "but to be passed on");
    net.inject(node(1), 0, false, &error(false));
    assert_eq!(net.hops(0, 2), None);
    assert_eq!(net.nodes[0].core.known(node(2)), Some((Some(50), 2, false)));
}

#[test]
fn an_error_never_makes_a_number_smaller() {
    let mut net = Net::line(3, |_| plain());
    net.nodes[2].core.sequence = 90;
    net.send(0, node(2));
    net.run(Duration::from_secs(2));

    let unreachable = vec![(node(2), 5)];
    net.inject(node(1), 0, false, &Message::Error(Errors { no_delete: false, unreachable }));

    assert_eq!(net.nodes[0].core.known(node(2)), Some((Some(91), 2, false)));
}

#[test]
fn a_route_that_ended_is_followed_by_a_newer_one_only() {
    // Node 3 did not hear that the route of 0 has ended, and offers its own, which leads by 0.
    let mut net = Net::new(4, 1, |_| plain());
    net.has_feedback = true;
    for (one, other) in [(0, 1), (1, 2), (0, 3)] {
        net.link(one, other, true);
    }
    net.send(3, node(2));
    net.run(Duration::from_secs(2));
    let (number, ..) = net.nodes[0].core.known(node(2)).unwrap();
    let offer = |sequence| {
        Message::Reply(Reply {
            repair: false,
            acknowledge: false,
            prefix: 0,
            hops: 3,
            destination: node(2),
            sequence,
            originator: node(0),
            lifetime: Duration::from_secs(5),
            hello_interval: None,
            internet: None,
        })
    };

    net.link(0, 1, false);
    net.link(0, 3, false);
    net.send(0, node(2));
    net.run(millis(100));
    net.inject(node(3), 0, true, &offer(number.unwrap()));
    assert_eq!(net.hops(0, 2), None);

    net.inject(node(3), 0, true, &offer(number.unwrap() + 1));
    assert_eq!(net.hops(0, 2), Some(4));
}

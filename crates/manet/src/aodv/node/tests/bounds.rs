//! What is too much, and what is forged.

use super::discovery::plain;
use super::*;

pub fn request(originator: Ipv4Addr, destination: Ipv4Addr, id: u32) -> Request {
    Request {
        join: false,
        repair: false,
        gratuitous: false,
        destination_only: false,
        hops: 3,
        id,
        destination,
        destination_sequence: None,
        originator,
        originator_sequence: id,
    }
}

pub fn reply(destination: Ipv4Addr, originator: Ipv4Addr, hops: u8) -> Reply {
    Reply {
        repair: false,
        acknowledge: false,
        prefix: 0,
        hops,
        destination,
        sequence: 1,
        originator,
        lifetime: Duration::from_secs(5),
        hello_interval: None,
        internet: None,
    }
}

#[test]
fn a_node_begins_ten_requests_a_second() {
    let mut net = Net::new(1, 1, |_| plain());

    for destination in 20..60 {
        net.send(0, node(destination));
    }

    assert_eq!(net.stats(0).sent.requests, 10);
    net.run(millis(999));
    assert_eq!(net.stats(0).sent.requests, 10);
    net.run(millis(1));
    assert_eq!(net.stats(0).sent.requests, 20, "the others wait their turn");
    net.run(Duration::from_secs(200));
    assert_eq!(net.nodes[0].unreachable.len(), 40);
}

#[test]
fn a_node_sends_ten_errors_a_second() {
    let mut net = Net::new(2, 1, |_| plain());
    let from = Some(Neighbour { interface: 0, address: node(1) });

    for last in 20..60 {
        let demand = Demand { destination: node(last), from };
        net.nodes[0].core.handle_demand(net.now, &demand);
    }

    assert_eq!(net.stats(0).sent.errors, 10);
    assert_eq!(net.stats(0).dropped.errors_limited, 30);
}

#[test]
fn a_neighbour_that_floods_is_not_heard() {
    let mut net = Net::new(2, 1, |_| plain());

    for id in 0..1_000 {
        net.inject(node(1), 0, false, &Message::Request(request(node(20), node(30), id)));
    }

    // As many are taken as are passed on with ten of the node's own in a second.
    assert_eq!(net.stats(0).dropped.flooded, 910);
    assert_eq!(net.stats(0).sent.requests_forwarded, 90);
}

#[test]
fn a_flood_of_errors_ends_no_route_that_is_younger_than_a_second() {
    let mut net = Net::new(1, 1, |_| plain());
    let hear = |net: &mut Net, lost| {
        let errors = Errors { no_delete: false, unreachable: vec![(lost, 0)] };
        net.inject(node(1), 0, true, &Message::Error(errors));
        net.hops(0, 20)
    };
    net.inject(node(1), 0, true, &Message::Reply(reply(node(20), node(0), 3)));
    net.run(millis(500));
    for _ in 0..1_000 {
        hear(&mut net, node(30));
    }

    net.run(millis(499));
    assert_eq!(hear(&mut net, node(20)), Some(4));
    net.run(millis(1));
    assert_eq!(hear(&mut net, node(20)), None);
}

#[test]
fn a_message_may_fill_the_room_of_its_interface() {
    // A request has 24 octets (RFC 3561, 5.1).
    let sent = [24, 23].map(|room| {
        let mut core = Aodv::new(plain(), Rng::stream(1, "room"));
        core.handle_interface(at(0), 0, Some(&Interface { address: node(0), room }));
        core.handle_demand(at(1), &Demand { destination: node(5), from: None });
        let stats = core.stats();
        (stats.sent.requests, stats.dropped.unsent)
    });

    assert_eq!(sent, [(1, 0), (0, 1)]);
}

#[test]
fn relayed_requests_leave_room_for_own_messages() {
    let bounds = Bounds { messages: 4, ..plain().bounds };
    let mut core = Aodv::new(Config { bounds, ..plain() }, Rng::stream(1, "room"));
    core.handle_interface(at(0), 0, Some(&Interface { address: node(0), room: 1_000 }));
    let arrival = Arrival { from: neighbour(1), is_unicast: false, ttl: 30 };
    for id in 0..6 {
        let mut octets = Vec::new();
        Message::Request(request(node(20), node(30), id)).emit(&mut octets);
        core.handle_message(at(1), &arrival, &octets);
    }
    core.handle_demand(at(1), &Demand { destination: node(5), from: None });

    let stats = core.stats();
    assert_eq!((stats.sent.requests_forwarded, stats.dropped.unsent), (2, 4));
    assert_eq!(stats.sent.requests, 1);
}

#[test]
fn strangers_do_not_use_up_what_is_relayed_for_neighbours_with_hellos() {
    let mut net = Net::new(1, 1, |_| Config { jitter: Duration::ZERO, ..Config::hello() });
    net.run(Duration::from_secs(60));
    let hello = Reply::new(node(1), 1, node(1), Duration::from_secs(2));
    net.inject(node(1), 0, false, &Message::Reply(hello));
    let relayed = [(5, 0..60), (1, 60..100)].map(|(from, ids)| {
        for id in ids {
            net.inject(node(from), 0, false, &Message::Request(request(node(20), node(30), id)));
        }
        net.stats(0).sent.requests_forwarded
    });

    assert_eq!(relayed, [45, 85]);
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    let config = || Config {
        bounds: Bounds { routes: 5, requests: 4, neighbours: 3, discoveries: 2, ..plain().bounds },
        ..plain()
    };
    let full = |net: &Net| net.stats(0).dropped.full;

    let mut net = Net::new(1, 1, |_| config());
    for last in 20..24 {
        net.inject(node(last), 0, true, &Message::Acknowledgement);
    }
    assert_eq!(full(&net), 1, "neighbours");

    let mut net = Net::new(1, 1, |_| config());
    for id in 0..6 {
        net.inject(node(1), 0, false, &Message::Request(request(node(20), node(30), id)));
    }
    assert_eq!(full(&net), 2, "requests");

    let mut net = Net::new(1, 1, |_| config());
    for last in 20..26 {
        net.inject(node(1), 0, true, &Message::Reply(reply(node(last), node(0), 3)));
    }
    assert_eq!(full(&net), 2, "routes: one is to the neighbour");
    assert_eq!((net.hops(0, 20), net.hops(0, 25)), (None, Some(4)), "the oldest makes room");

    let mut net = Net::new(1, 1, |_| config());
    for last in 20..23 {
        net.send(0, node(last));
    }
    assert_eq!(full(&net), 1, "searches");
    assert_eq!(net.nodes[0].unreachable, [node(22)]);

    let config = || Config { bounds: Bounds { precursors: 1, ..plain().bounds }, ..plain() };
    let mut net = Net::new(1, 1, |_| config());
    net.inject(node(1), 0, true, &Message::Reply(reply(node(30), node(0), 3)));
    for asker in [2, 3] {
        let first = Request { hops: 0, ..request(node(asker), node(30), 1) };
        net.inject(node(asker), 0, false, &Message::Request(first));
    }
    assert_eq!(full(&net), 1, "precursors");
}

#[test]
fn what_is_forged_is_dropped() {
    let none = Ipv4Addr::UNSPECIFIED;
    let first = |originator| Request { hops: 0, ..request(originator, node(30), 1) };
    let messages = [
        // Who has come no hop is the neighbour.
        Message::Request(first(node(20))),
        Message::Request(request(node(1), node(30), 1)),
        Message::Request(request(none, node(30), 1)),
        Message::Request(request(node(20), Ipv4Addr::BROADCAST, 1)),
        Message::Request(request(node(20), node(20), 1)),
        Message::Reply(reply(node(20), node(0), 0)),
        Message::Reply(reply(Ipv4Addr::new(224, 0, 0, 1), node(0), 1)),
        Message::Reply(reply(node(20), Ipv4Addr::LOCALHOST, 1)),
    ];
    for message in messages {
        let mut net = Net::new(2, 1, |_| plain());

        net.inject(node(1), 0, true, &message);

        assert_eq!(net.stats(0).dropped.forged, 1, "{message:?}");
        assert_eq!(net.nodes[0].routes.len(), 0, "{message:?}");
        assert_eq!(net.story(), [""; 0], "{message:?}");
    }
}

#[test]
fn a_message_from_no_host_or_by_no_interface_is_dropped() {
    for (interface, address) in [(0, Ipv4Addr::BROADCAST), (7, node(1))] {
        let mut net = Net::new(1, 1, |_| plain());
        let from = Neighbour { interface, address };
        let arrival = Arrival { from, is_unicast: false, ttl: 30 };
        let mut octets = Vec::new();
        Message::Request(request(node(20), node(30), 1)).emit(&mut octets);

        net.nodes[0].core.handle_message(net.now, &arrival, &octets);

        assert_eq!(net.stats(0).dropped.forged, 1, "{from:?}");
        assert_eq!(net.nodes[0].core.sizes(), [0; 5], "{from:?}");
    }
}

#[test]
fn a_request_counts_as_repeated_until_the_path_discovery_time_is_over() {
    let mut net = Net::new(1, 1, |_| plain());
    let copy = Message::Request(request(node(20), node(30), 1));

    let repeated = [0, 5_599, 1].map(|later| {
        net.run(millis(later));
        net.inject(node(1), 0, false, &copy);
        net.stats(0).dropped.repeated
    });

    assert_eq!(repeated, [0, 1, 1]);
}

#[test]
fn a_nodes_own_messages_tell_it_nothing() {
    let mut net = Net::new(2, 1, |_| plain());

    net.inject(node(1), 0, false, &Message::Request(request(node(0), node(30), 1)));
    net.inject(node(1), 0, true, &Message::Reply(reply(node(0), node(20), 1)));
    net.inject(node(0), 0, true, &Message::Acknowledgement);

    assert_eq!(net.stats(0).dropped.own, 3);
    assert_eq!(net.nodes[0].routes.len(), 0);
}

#[test]
fn a_node_says_that_another_one_has_its_address() {
    let mut net = Net::line(2, |_| plain());
    net.run(Duration::from_secs(60));
    net.send(0, node(30));
    net.run(Duration::from_secs(3));
    let (id, originator_sequence) = net.nodes[0].core.own_requests.last().expect("it asked");
    let echo = Request { originator_sequence, ..request(node(0), node(30), id) };
    assert!(net.stats(0).dropped.own > 0, "node 1 passes on what it hears");
    net.inject(node(1), 0, false, &Message::Request(echo));
    net.inject(node(1), 0, true, &Message::Reply(reply(node(0), node(20), 1)));
    assert_eq!(net.stats(0).dropped.disputed, 0);

    // With another number, to another destination, with a number of its own that is not ours.
    net.inject(node(1), 0, false, &Message::Request(request(node(0), node(30), 77)));
    net.inject(node(1), 0, false, &Message::Request(Request { destination: node(31), ..echo }));
    let newer = Reply { sequence: 100, ..reply(node(0), node(20), 1) };
    net.inject(node(1), 0, true, &Message::Reply(newer));

    assert_eq!(net.stats(0).dropped.disputed, 3);
    let from = Neighbour { interface: 0, address: node(1) };
    let notice = Notice::AddressDisputed { address: node(0), from };
    assert_eq!(net.nodes[0].notices, [notice; 3]);
}

#[test]
fn an_echo_is_known_for_the_path_discovery_time() {
    let mut net = Net::new(1, 1, |_| plain());
    net.run(Duration::from_secs(60));
    net.send(0, node(30));
    let (id, originator_sequence) = net.nodes[0].core.own_requests.last().expect("it asked");
    let echo = Message::Request(Request { originator_sequence, ..request(node(0), node(30), id) });

    net.run(millis(5_599));
    net.inject(node(1), 0, false, &echo);
    assert_eq!(net.stats(0).dropped.disputed, 0);
    net.run(millis(1));
    net.send(0, node(31));
    net.inject(node(1), 0, false, &echo);

    assert_eq!(net.stats(0).dropped.disputed, 1);
}

#[test]
fn what_was_written_before_a_restart_is_no_other_nodes() {
    let mut net = Net::line(2, |_| plain());

    net.inject(node(1), 0, false, &Message::Request(request(node(0), node(30), 77)));
    net.run(Duration::from_secs(60));
    net.inject(node(1), 0, false, &Message::Request(request(node(0), node(30), 78)));

    assert_eq!((net.stats(0).dropped.own, net.stats(0).dropped.disputed), (2, 1));
}

#[test]
fn parts_that_cannot_be_read_are_counted_and_the_rest_counts() {
    let mut net = Net::new(2, 1, |_| plain());
    let from = Neighbour { interface: 0, address: node(1) };
    let mut octets = Vec::new();
    Message::Reply(reply(node(20), node(0), 3)).emit(&mut octets);
    octets.extend([4, 2, 1]);

    net.inject_octets(node(1), 0, true, &octets);

    assert_eq!(net.stats(0).dropped.parts, 1);
    assert_eq!(net.nodes[0].notices, [Notice::Unreadable { from, originator: node(1) }]);
    assert_eq!(net.hops(0, 20), Some(4));
}

#[test]
fn what_has_come_too_far_goes_no_farther() {
    let mut net = Net::new(2, 1, |_| plain());
    let far = Request { hops: 255, ..request(node(20), node(30), 1) };

    net.inject(node(1), 0, false, &Message::Request(far));
    net.inject(node(1), 0, true, &Message::Reply(reply(node(20), node(0), 255)));

    assert_eq!(net.stats(0).dropped.expired, 2);
}

#[test]
fn a_route_is_not_told_to_last_longer_than_it_is_remembered() {
    let mut net = Net::new(1, 1, |_| plain());
    let long = Reply { lifetime: Duration::from_secs(1_000_000), ..reply(node(20), node(0), 3) };

    net.inject(node(1), 0, true, &Message::Reply(long));
    net.run(Duration::from_secs(50));

    assert_eq!(net.nodes[0].routes.len(), 0);
}

#[test]
fn each_drop_has_a_name() {
    let core = Aodv::new(plain(), Rng::stream(1, "names"));

    let mut names: Vec<&str> = core.counters().into_iter().map(|(it, _)| it.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();

    assert_eq!(names.len(), all);
    assert_eq!(all * size_of::<u64>(), size_of::<Stats>(), "every counter is named");
}

//! Looking for destinations, and finding them.

use super::bounds::{reply, request};
use super::*;

/// Without jitter, so that instants are whole; with the values of link-layer feedback.
pub fn plain() -> Config {
    Config { jitter: Duration::ZERO, ..Config::link_layer_feedback() }
}

#[test]
fn the_ring_grows_until_the_destination_is_in_it() {
    let mut net = Net::line(6, |_| plain());

    net.send(0, node(5));
    net.run(Duration::from_secs(2));

    let asks: Vec<String> =
        net.story().into_iter().filter(|told| told.contains(" 0 asks 0")).collect();
    assert_eq!(
        asks,
        [
            "0ns 0 asks 0 for 5 hops 0 ttl 1",
            "240ms 0 asks 0 for 5 hops 0 ttl 3",
            "640ms 0 asks 0 for 5 hops 0 ttl 5",
        ]
    );
    assert_eq!(net.nodes[5].arrived, [node(0)]);
    assert_eq!((net.hops(0, 5), net.hops(5, 0)), (Some(5), Some(5)));
    assert_eq!((net.hops(2, 5), net.hops(2, 0)), (Some(3), Some(2)));
}

#[test]
fn who_is_not_there_is_given_up_after_the_whole_network_was_asked_thrice() {
    let mut net = Net::line(2, |_| plain());

    net.send(0, node(7));
    net.run(Duration::from_secs(60));

    let asks: Vec<String> = net
        .story()
        .into_iter()
        .filter(|told| told.contains(" 0 asks 0") || told.contains("cannot"))
        .collect();
    assert_eq!(
        asks,
        [
            "0ns 0 asks 0 for 7 hops 0 ttl 1",
            "240ms 0 asks 0 for 7 hops 0 ttl 3",
            "640ms 0 asks 0 for 7 hops 0 ttl 5",
            "1.2s 0 asks 0 for 7 hops 0 ttl 7",
            "1.92s 0 asks 0 for 7 hops 0 ttl 35",
            "4.72s 0 asks 0 for 7 hops 0 ttl 35",
            "10.32s 0 asks 0 for 7 hops 0 ttl 35",
            "21.52s 0 cannot find 10.0.0.8",
        ]
    );
    assert_eq!(net.stats(0).discoveries_failed, 1);
    assert_eq!(net.nodes[0].core.next_timeout(), None, "nothing is left to wait for");
}

#[test]
fn a_destination_that_was_lost_is_looked_for_where_it_was_last() {
    let mut net = Net::line(4, |_| plain());
    net.send(0, node(3));
    net.run(Duration::from_secs(1));
    // The route is not used, and ends.
    net.run(Duration::from_secs(25));
    assert_eq!(net.hops(0, 3), None);
    net.story();

    net.send(0, node(3));

    assert_eq!(net.story(), ["26s 0 asks 0 for 3 hops 0 ttl 5"]);
    net.run(Duration::from_secs(1));
    assert_eq!(net.hops(0, 3), Some(3));
}

#[test]
fn a_distance_that_may_be_forged_costs_one_short_request_to_all() {
    let mut net = Net::new(1, 1, |_| plain());
    let short = Reply { lifetime: millis(500), ..reply(node(20), node(0), 8) };
    net.inject(node(1), 0, true, &Message::Reply(short));
    net.run(Duration::from_secs(20));
    net.story();

    net.send(0, node(20));
    net.run(Duration::from_secs(60));

    assert_eq!(
        net.story(),
        [
            "20s 0 asks 0 for 20 hops 0 ttl 35",
            "20.72s 0 asks 0 for 20 hops 0 ttl 35",
            "23.52s 0 asks 0 for 20 hops 0 ttl 35",
            "29.12s 0 asks 0 for 20 hops 0 ttl 35",
            "40.32s 0 cannot find 10.0.0.21",
        ]
    );
}

#[test]
fn a_request_leaves_in_the_round_of_its_packet() {
    let mut core = Aodv::new(plain(), Rng::stream(1, "at once"));
    core.handle_interface(at(0), 0, Some(&Interface { address: node(0), room: 1_000 }));

    core.handle_demand(at(1), &Demand { destination: node(5), from: None });

    let sending = core.poll_transmit(at(1), 0, &mut Vec::new());
    assert_eq!(sending, Some(Sending { to: Ipv4Addr::BROADCAST, ttl: 1 }));
}

#[test]
fn a_route_is_told_again_to_who_asks_for_it_again() {
    let mut net = Net::line(2, |_| plain());
    net.send(0, node(1));
    net.run(Duration::from_secs(1));
    net.story();

    net.nodes[0].core.handle_demand(net.now, &Demand { destination: node(1), from: None });
    net.serve(0);

    assert_eq!(net.story(), ["1s 0 routes 1 by 1 hops 1"]);
}

#[test]
fn a_neighbour_is_one_hop_away_whatever_was_known() {
    let mut net = Net::new(1, 1, |_| plain());
    let hear = |net: &mut Net, id| {
        net.inject(node(1), 0, false, &Message::Request(request(node(20), node(30), id)));
        net.hops(0, 1)
    };
    net.inject(node(2), 0, true, &Message::Reply(reply(node(1), node(0), 3)));
    assert_eq!(net.hops(0, 1), Some(4));

    assert_eq!(hear(&mut net, 1), Some(1), "nearer than others say");

    net.nodes[0].core.handle_break(net.now, neighbour(1));
    net.serve(0);
    assert_eq!(net.hops(0, 1), None);
    assert_eq!(hear(&mut net, 2), Some(1), "its route had ended");
}

#[test]
fn each_relay_takes_one_from_the_ttl_of_a_reply() {
    let mut net = Net::line(3, |_| plain());

    net.send(0, node(2));
    net.run(Duration::from_secs(1));

    let answers: Vec<String> =
        net.story().into_iter().filter(|told| told.contains("answers")).collect();
    assert_eq!(
        answers,
        ["242ms 2 answers 0 of 2 hops 0 ttl 35 to 1", "243ms 1 answers 0 of 2 hops 1 ttl 34 to 0",]
    );
}

#[test]
fn who_has_a_route_answers_and_asks_no_further() {
    let mut net = Net::line(5, |_| plain());
    net.send(1, node(4));
    net.run(Duration::from_secs(2));
    net.story();

    net.send(0, node(4));
    net.run(Duration::from_secs(1));

    assert_eq!(
        net.story(),
        [
            "2s 0 asks 0 for 4 hops 0 ttl 1",
            "2.001s 1 routes 0 by 0 hops 1",
            "2.001s 1 answers 0 of 4 hops 3 ttl 35 to 0",
            "2.002s 0 routes 4 by 1 hops 4",
        ]
    );
    assert_eq!(net.nodes[4].arrived, [node(1), node(0)]);
    assert_eq!(net.hops(4, 0), None, "the destination was not told");
}

#[test]
fn the_destination_learns_the_way_back_if_that_is_asked_for() {
    let mut net = Net::line(5, |_| Config { gratuitous: true, ..plain() });
    net.send(1, node(4));
    net.run(Duration::from_secs(2));

    net.send(0, node(4));
    net.run(Duration::from_secs(1));

    assert_eq!(net.hops(4, 0), Some(4));
    assert_eq!(net.stats(1).sent.replies, 2);
}

#[test]
fn only_the_destination_answers_if_that_is_asked_for() {
    let mut net = Net::line(5, |_| Config { destination_only: true, ..plain() });
    net.send(1, node(4));
    net.run(Duration::from_secs(2));

    net.send(0, node(4));
    net.run(Duration::from_secs(2));

    assert_eq!((net.hops(0, 4), net.hops(4, 0)), (Some(4), Some(4)));
    assert_eq!(net.stats(1).sent.replies, 0);
    assert_eq!(net.stats(4).sent.replies, 2);
}

#[test]
fn who_knows_an_older_route_than_is_asked_for_passes_on() {
    let mut net = Net::line(4, |_| plain());
    net.send(1, node(3));
    net.run(Duration::from_secs(2));
    let known = net.nodes[1].core.known(node(3)).unwrap().0.unwrap();
    let request = |id, wanted| {
        Message::Request(Request {
            join: false,
            repair: false,
            gratuitous: false,
            destination_only: false,
            hops: 0,
            id,
            destination: node(3),
            destination_sequence: wanted,
            originator: node(0),
            originator_sequence: id,
        })
    };
    net.story();

    for (id, wanted) in [(100, Some(known)), (101, Some(known.wrapping_add(1))), (102, None)] {
        net.inject(node(0), 1, false, &request(id, wanted));
        net.run(millis(1));
    }

    let said: Vec<String> = net.story().into_iter().filter(|told| told.contains(" 1 a")).collect();
    assert_eq!(
        said,
        [
            "2s 1 answers 0 of 3 hops 2 ttl 35 to 0",
            "2.001s 1 asks 0 for 3 hops 1 ttl 29",
            "2.002s 1 answers 0 of 3 hops 2 ttl 35 to 0",
        ]
    );
}

#[test]
fn who_asks_is_not_led_back_to_itself() {
    let mut net = Net::line(4, |_| plain());
    net.send(1, node(3));
    net.run(Duration::from_secs(2));
    net.story();
    let forgetful = Request {
        join: false,
        repair: false,
        gratuitous: false,
        destination_only: false,
        hops: 0,
        id: 100,
        destination: node(3),
        destination_sequence: None,
        originator: node(2),
        originator_sequence: 100,
    };

    net.inject(node(2), 1, false, &Message::Request(forgetful));

    assert_eq!(net.story(), ["2s 1 asks 2 for 3 hops 1 ttl 29"]);
}

#[test]
fn sequence_numbers_go_round() {
    let mut net = Net::line(3, |_| plain());
    net.nodes[2].core.sequence = u32::MAX - 1;
    for round in 0..4 {
        net.send(0, node(2));
        net.send(2, node(0));
        net.run(Duration::from_secs(2));
        assert_eq!(net.hops(0, 2), Some(2), "round {round}");
        net.run(Duration::from_secs(30));
        assert_eq!(net.hops(0, 2), None, "round {round}");
    }

    let number = net.nodes[2].core.sequence;
    assert!((1..100).contains(&number), "{number} has gone round, and left out 0");
}

#[test]
fn a_newer_or_shorter_way_is_taken_and_no_older_or_longer_one() {
    let mut net = Net::new(4, 1, |_| plain());
    let reply = |hops, sequence| {
        Message::Reply(Reply {
            repair: false,
            acknowledge: false,
            prefix: 0,
            hops,
            destination: node(9),
            sequence,
            originator: node(0),
            lifetime: Duration::from_secs(5),
            hello_interval: None,
            internet: None,
        })
    };

    let told = [(1, 4, 7), (2, 4, 7), (2, 3, 7), (3, 5, 7), (3, 1, 6), (3, 9, 8), (1, 1, 1 << 31)];
    let hops_after = told.map(|(from, hops, sequence)| {
        net.inject(node(from), 0, true, &reply(hops, sequence));
        let route = net.nodes[0].routes[&node(9)];
        (route.next.address, route.hops)
    });

    let by = |index, hops| (node(index), hops);
    assert_eq!(hops_after, [by(1, 5), by(1, 5), by(2, 4), by(2, 4), by(2, 4), by(3, 10), by(1, 2)]);
    assert_eq!(net.stats(0).dropped.stale, 3);
}

#[test]
fn the_profiles_have_the_times_of_the_rfc_and_of_aodv_uu() {
    let [hello, feedback] = [Config::hello(), Config::link_layer_feedback()];

    for config in [&hello, &feedback] {
        assert_eq!(config.net_traversal_time(), millis(2_800));
        assert_eq!(config.path_discovery_time(), millis(5_600));
        let blacklist = config.net_traversal_time() * u32::from(config.rreq_retries);
        assert_eq!(config.unidirectional.blacklist_timeout, blacklist);
        assert_eq!(config.my_route_timeout, 2 * config.active_route_timeout);
        assert_eq!(config.delete_period, 5 * config.active_route_timeout);
    }
    let ring = |config: &Config| [1, 2, 3, 4, 5, 6, 7].map(|ttl| config.ring_traversal_time(ttl));
    assert_eq!(ring(&hello), [240, 320, 400, 480, 560, 640, 720].map(millis));
    assert_eq!((hello.ring.start, feedback.ring.start), (2, 1));
}

#[test]
fn requests_go_out_of_all_interfaces() {
    let mut core = Aodv::new(plain(), Rng::stream(1, "two"));
    let near = Interface { address: node(0), room: 1_000 };
    let far = Interface { address: Ipv4Addr::new(10, 1, 0, 1), room: 1_000 };
    core.handle_interface(at(0), 0, Some(&near));
    core.handle_interface(at(0), 3, Some(&far));
    let request = |origin: Ipv4Addr, destination| {
        Message::Request(Request {
            join: false,
            repair: false,
            gratuitous: false,
            destination_only: false,
            hops: 0,
            id: 1,
            destination,
            destination_sequence: None,
            originator: origin,
            originator_sequence: 9,
        })
    };
    let mut octets = Vec::new();
    request(node(5), node(8)).emit(&mut octets);
    let from = Neighbour { interface: 0, address: node(5) };
    core.handle_message(at(1), &Arrival { from, is_unicast: false, ttl: 5 }, &octets);
    core.handle_timeout(at(1));

    let mut out = Vec::new();
    for interface in [0, 3] {
        let sending = core.poll_transmit(at(1), interface, &mut out).unwrap();
        assert!(sending.to.is_broadcast() && sending.ttl == 4);
        assert!(core.poll_transmit(at(1), interface, &mut out).is_none());
    }

    core.handle_interface(at(2), 0, None);
    let events: Vec<Event> = std::iter::from_fn(|| core.poll_event()).collect();
    assert_eq!(events, [], "routes that ended before they were told are not told");
    assert!(core.known(node(5)).is_some_and(|(_, _, is_valid)| !is_valid));
}

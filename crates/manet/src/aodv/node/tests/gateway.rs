//! The Internet behind gateways.

use super::bounds::reply;
use super::discovery::plain;
use super::*;

const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// Nodes of which some are gateways.
fn with_gateways(gateways: &'static [usize]) -> impl Fn(usize) -> Config {
    move |index| {
        let config = plain();
        let gateway = gateways.contains(&index);
        Config { internet: Internet { gateway, ..config.internet }, ..config }
    }
}

fn gateway(net: &Net, from: usize, host: Ipv4Addr) -> Option<(Ipv4Addr, Ipv4Addr, u8)> {
    let route = net.nodes[from].routes.get(&host)?;
    Some((route.gateway?, route.next.address, route.hops))
}

#[test]
fn a_gateway_answers_for_the_internet_with_a_route_to_itself() {
    let mut net = Net::line(4, with_gateways(&[3]));

    net.send(0, SERVER);
    net.run(Duration::from_secs(2));

    assert_eq!(gateway(&net, 0, SERVER), Some((node(3), node(1), 3)));
    assert_eq!(net.hops(0, 3), Some(3));
    assert_eq!(net.nodes[3].arrived, [node(0)], "in the tunnel");
    for between in [1, 2] {
        assert!(!net.nodes[between].routes.contains_key(&SERVER), "at {between}");
        assert!(net.hops(between, 3).is_some(), "at {between}");
    }
    assert_eq!(net.hops(3, 0), Some(3), "what comes back needs no tunnel");
}

#[test]
fn nodes_on_the_way_do_not_answer_for_the_internet() {
    let mut net = Net::line(4, with_gateways(&[3]));
    net.send(1, SERVER);
    net.run(Duration::from_secs(2));

    net.send(0, SERVER);
    net.run(Duration::from_secs(2));

    assert_eq!(gateway(&net, 0, SERVER), Some((node(3), node(1), 3)));
    assert_eq!(net.stats(1).sent.replies, 0);
    assert_eq!(net.stats(3).sent.replies, 2);
}

#[test]
fn another_host_is_reached_through_the_same_gateway_at_once() {
    let mut net = Net::line(3, with_gateways(&[2]));
    net.send(0, SERVER);
    net.run(Duration::from_secs(2));
    let asked = net.stats(0).sent.requests;

    net.send(0, OTHER);

    assert_eq!(gateway(&net, 0, OTHER), Some((node(2), node(1), 2)));
    assert_eq!(net.stats(0).sent.requests, asked);
}

#[test]
fn when_a_gateway_is_lost_another_one_is_found() {
    // A line with a gateway at each end.
    let mut net = Net::line(5, with_gateways(&[0, 4]));
    net.has_feedback = true;
    net.send(1, SERVER);
    net.run(Duration::from_secs(2));
    assert_eq!(gateway(&net, 1, SERVER), Some((node(0), node(0), 1)));

    net.link(0, 1, false);
    net.send(1, SERVER);
    net.run(millis(10));
    assert_eq!(gateway(&net, 1, SERVER), None, "the host went with its gateway");
    assert_eq!(net.nodes[1].core.sizes()[4], 0);
    net.send(1, SERVER);
    net.run(Duration::from_secs(2));

    assert_eq!(gateway(&net, 1, SERVER), Some((node(4), node(2), 3)));
    assert_eq!(net.nodes[4].arrived, [node(1)]);
}

#[test]
fn a_host_moves_to_a_nearer_gateway_only() {
    let mut net = Net::new(1, 1, with_gateways(&[]));
    let reply = |gateway: usize, hops, sequence| {
        Message::Reply(Reply {
            repair: false,
            acknowledge: false,
            prefix: 0,
            hops,
            destination: node(gateway),
            sequence,
            originator: node(0),
            lifetime: Duration::from_secs(10),
            hello_interval: None,
            internet: Some(SERVER),
        })
    };

    let gateways = [(20, 3), (30, 5), (50, 3), (40, 1)].map(|(address, hops)| {
        net.inject(node(1), 0, true, &reply(address, hops, 1));
        gateway(&net, 0, SERVER)
    });

    let by = |address, hops| Some((node(address), node(1), hops));
    assert_eq!(gateways, [by(20, 4), by(20, 4), by(20, 4), by(40, 2)]);
}

#[test]
fn the_way_to_the_gateway_takes_the_hosts_with_it() {
    let mut net = Net::line(4, with_gateways(&[3]));
    net.send(0, SERVER);
    net.run(Duration::from_secs(2));
    net.story();

    // 0 comes nearer, and hears of the shorter way.
    net.link(0, 2, true);
    net.send(3, node(0));
    net.send(0, node(2));
    net.run(Duration::from_secs(40));
    net.send(0, SERVER);
    net.run(Duration::from_secs(2));

    assert_eq!(gateway(&net, 0, SERVER), Some((node(3), node(2), 2)));
}

#[test]
fn an_error_about_a_host_counts_from_the_next_hop_to_its_gateway_only() {
    let mut net = Net::line(3, with_gateways(&[2]));
    net.send(0, SERVER);
    net.run(Duration::from_secs(2));
    let error = Message::Error(Errors { no_delete: false, unreachable: vec![(SERVER, 0)] });

    net.inject(node(5), 0, true, &error);
    assert!(gateway(&net, 0, SERVER).is_some());
    net.inject(node(1), 0, true, &error);

    assert_eq!(gateway(&net, 0, SERVER), None);
    assert_eq!(net.hops(0, 2), Some(2), "the gateway is still there");
}

#[test]
fn a_host_follows_the_new_way_to_its_gateway() {
    let mut net = Net::line(3, with_gateways(&[2]));
    net.send(0, SERVER);
    net.run(Duration::from_secs(2));
    let (number, ..) = net.nodes[0].core.known(node(2)).unwrap();
    let newer = Reply { sequence: number.unwrap() + 1, ..reply(node(2), node(0), 3) };

    net.inject(node(5), 0, true, &Message::Reply(newer));

    assert_eq!(gateway(&net, 0, SERVER), Some((node(2), node(5), 4)));
}

#[test]
fn a_host_for_which_there_is_no_room_is_not_remembered() {
    let config = |index| {
        let config = with_gateways(&[1])(index);
        Config { bounds: Bounds { internet: 1, ..config.bounds }, ..config }
    };
    let mut net = Net::line(2, config);
    net.send(0, SERVER);
    net.run(Duration::from_secs(1));

    net.send(0, OTHER);
    net.run(Duration::from_secs(1));

    assert_eq!((gateway(&net, 0, OTHER), net.nodes[0].core.sizes()[4]), (None, 1));
    assert!(net.stats(0).dropped.full > 0);
}

#[test]
fn hosts_of_a_lost_gateway_leave_their_room_to_others_at_once() {
    let mut net = Net::new(1, 1, |index| {
        let config = with_gateways(&[])(index);
        Config { bounds: Bounds { internet: 2, ..config.bounds }, ..config }
    });
    for (from, address, host) in [(1, 20, SERVER), (2, 30, OTHER)] {
        let answer = Reply { internet: Some(host), ..reply(node(address), node(0), 3) };
        net.inject(node(from), 0, true, &Message::Reply(answer));
    }
    let third = Ipv4Addr::new(192, 0, 2, 3);

    net.nodes[0].core.handle_break(net.now, neighbour(1));
    net.nodes[0].core.handle_demand(net.now, &Demand { destination: third, from: None });
    net.serve(0);

    assert_eq!(gateway(&net, 0, third), Some((node(30), node(2), 4)));
}

#[test]
fn packets_keep_a_host_and_without_them_it_is_forgotten() {
    let mut net = Net::line(2, with_gateways(&[1]));
    net.send(0, SERVER);
    for _ in 0..6 {
        net.run(Duration::from_secs(5));
        net.send(0, SERVER);
    }
    assert!(gateway(&net, 0, SERVER).is_some());

    net.run(Duration::from_secs(11));

    assert_eq!(gateway(&net, 0, SERVER), None);
    assert_eq!(net.nodes[0].core.sizes()[4], 0);
}

#[test]
fn an_answer_for_a_host_of_the_network_is_forged() {
    let mut net = Net::line(2, with_gateways(&[1]));
    let reply = Message::Reply(Reply {
        repair: false,
        acknowledge: false,
        prefix: 0,
        hops: 0,
        destination: node(1),
        sequence: 9,
        originator: node(0),
        lifetime: Duration::from_secs(10),
        hello_interval: None,
        internet: Some(node(7)),
    });

    net.inject(node(1), 0, true, &reply);

    assert_eq!(gateway(&net, 0, node(7)), None);
    assert_eq!(net.stats(0).dropped.forged, 1);
}

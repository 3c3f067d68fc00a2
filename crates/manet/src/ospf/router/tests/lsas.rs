//! How LSAs age, are refreshed, taken back, and forgotten.

use std::time::Duration;

use base::ip::Prefix;

use super::adjacency::{own_lsa, say};
use super::{Net, config, host, id, line, secs};
use crate::ospf::wire::{Body, Header, Key, Lsa, Packet, RouterLsa};
use crate::ospf::{Bounds, Config, Counter, State};
use crate::{Neighbour, Notice, Router as _};

#[test]
fn an_lsa_is_refreshed_after_half_an_hour() {
    let mut net = Net::new(3, &line(3));
    net.run(secs(100));
    let before = net.count(0, Counter::Originations);

    net.run(secs(1_790));
    assert_eq!(net.count(0, Counter::Originations), before);
    net.run(secs(1_830));

    assert_eq!(net.count(0, Counter::Originations), before + 1);
    net.run(secs(8_000));
    assert_eq!((net.faults(), net.total(Counter::LsasFlushed)), (Vec::new(), 0));
}

#[test]
fn lsas_age_on_each_link_and_in_each_database() {
    let mut net = Net::new(4, &line(4));
    net.run(secs(700));

    let key = Key::of_router(id(0));
    let age = |node: usize| net.nodes[node].ospf.database.get(&key).unwrap().header(net.now).age;

    assert!((690..=700).contains(&age(0)), "{}", age(0));
    for node in 1..4 {
        // A second for each link; parts of seconds are left out.
        assert!((0..=2).contains(&(age(node) - age(node - 1))), "{}", age(node));
    }
    assert!(age(3) >= age(0) + 2, "{} {}", age(3), age(0));
}

#[test]
fn what_its_router_does_not_refresh_is_taken_out_everywhere() {
    let mut net = Net::new(4, &line(4));
    net.run(secs(100));
    net.set(2, 3, false);

    net.run(secs(3_650));

    for node in 0..3 {
        assert_eq!(net.nodes[node].ospf.lsas(), 3, "{node}");
    }
    assert!(net.count(0, Counter::LsasFlushed) >= 1);
    assert_eq!(net.nodes[3].ospf.lsas(), 1);
}

#[test]
fn the_own_lsa_changes_no_more_often_than_once_in_five_seconds() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(100));
    let before = net.count(1, Counter::Originations);

    for second in 100..130 {
        net.nodes[1].ospf.handle_break(
            net.now,
            crate::Neighbour { interface: 0, address: [10, 0, 0, 1].into() },
        );
        net.run(secs(second + 1));
    }

    assert!(net.count(1, Counter::Originations) - before <= 7);
}

#[test]
fn an_lsa_that_comes_too_soon_after_the_one_before_is_not_taken_nor_acknowledged() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(100));
    let old = own_lsa(&net);
    let newer = |number| Lsa::new(old.header.key, 2, old.header.number + number, &old.body);
    let strays = net.count(1, Counter::AcknowledgementsStray);

    say(&mut net, Body::Update(vec![newer(1)]));
    say(&mut net, Body::Update(vec![newer(2)]));

    assert_eq!(net.count(0, Counter::LsasEarly), 1);
    assert_eq!(own_lsa(&net).header.number, old.header.number + 1);
    net.run(secs(105));
    assert_eq!(net.count(1, Counter::AcknowledgementsStray), strays + 1);
    say(&mut net, Body::Update(vec![newer(2)]));
    assert_eq!(own_lsa(&net).header.number, old.header.number + 2);
}

#[test]
fn who_sends_what_is_old_gets_what_is_new_once_a_second() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(100));
    let new = own_lsa(&net);
    let old = Lsa::new(new.header.key, 2, new.header.number - 1, &new.body);
    net.listens = true;

    // Once within MinLSArrival, which is 1 s (RFC 2328, 13, step 8).
    let answers = [0, 999, 1].map(|later| {
        net.run(net.now + Duration::from_millis(later));
        say(&mut net, Body::Update(vec![old.clone()]));
        let answers = net.heard.iter().filter(|(_, from, packet)| match &packet.body {
            Body::Update(lsas) => *from == 0 && lsas[0].header.number == new.header.number,
            _ => false,
        });
        answers.count()
    });

    assert_eq!(answers, [1, 1, 2]);
}

#[test]
fn a_damaged_lsa_is_left_out_and_the_others_of_its_update_are_taken() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(100));
    let lsa = |node: usize| Lsa::new(Key::of_router(id(node)), 2, 7, &[0, 0, 0, 0]);
    let mut damaged = lsa(8);
    damaged.header.checksum ^= 1;

    say(&mut net, Body::Update(vec![damaged, lsa(9)]));

    assert_eq!((net.count(0, Counter::LsasDamaged), net.nodes[0].ospf.lsas()), (1, 3));
    // Its packet was not damaged on the way: the neighbour sent it like that.
    let from = Neighbour { interface: 0, address: [10, 0, 0, 2].into() };
    assert_eq!(net.nodes[0].notices, [Notice::Unreadable { from, originator: id(8) }]);
}

#[test]
fn after_the_last_number_the_first_one_follows() {
    let mut net = Net::new(3, &line(3));
    net.run(secs(100));
    let mut body = Vec::new();
    RouterLsa::default().emit(&mut body);
    let last = Lsa::new(Key::of_router(id(0)), 2, Header::LAST, &body);
    // Somebody says the last number in the name of router 0; it can only begin again.
    say(&mut net, Body::Update(vec![last]));

    net.run(secs(130));

    let header = |node: usize| {
        let key = Key::of_router(id(0));
        net.nodes[node].ospf.database.get(&key).unwrap().header(net.now)
    };
    assert!((Header::FIRST..Header::FIRST + 3).contains(&header(0).number), "{:?}", header(0));
    assert_eq!(header(2).number, header(0).number);
    assert_eq!(net.faults(), [""; 0]);
}

#[test]
fn a_newer_lsa_in_a_routers_own_name_is_overtaken_in_the_same_round() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(100));
    let key = Key::of_router(id(0));
    let own = net.nodes[0].ospf.database.get(&key).unwrap().lsa(net.now);
    let forged = Lsa::new(key, 2, own.header.number + 5, &own.body);
    net.listens = true;

    say(&mut net, Body::Update(vec![forged]));

    let overtakes = |(_, from, packet): &(_, usize, Packet)| match &packet.body {
        Body::Update(lsas) => *from == 0 && lsas[0].header.number == own.header.number + 6,
        _ => false,
    };
    assert!(net.heard.iter().any(overtakes), "{:?}", net.heard);
}

#[test]
fn lsas_in_the_name_of_a_router_that_it_does_not_make_are_taken_back() {
    let mut net = Net::new(3, &line(3));
    net.run(secs(100));
    let key = Key { kind: 5, id: [192, 168, 0, 0].into(), router: id(0) };

    say(&mut net, Body::Update(vec![Lsa::new(key, 2, 1, &[0; 16])]));
    net.run(secs(120));

    assert!((0..3).all(|node| net.nodes[node].ospf.database.get(&key).is_none()));
}

#[test]
fn newer_instances_of_an_lsa_take_the_room_of_the_older_ones() {
    let bounds = Bounds { octets: 500, ..Bounds::default() };
    let mut net = Net::with(2, &line(2), |node| Config { bounds, ..config(node) });
    net.run(secs(20));

    for number in 1..=30 {
        net.run(net.now + Duration::from_secs(2));
        let lsa = Lsa::new(Key::of_router(id(9)), 2, number, &[0, 0, 0, 0]);
        say(&mut net, Body::Update(vec![lsa]));
    }

    let number = net.nodes[0].ospf.database.get(&Key::of_router(id(9))).unwrap().header(net.now);
    assert_eq!((number.number, net.count(0, Counter::LsasFull)), (30, 0));
}

#[test]
fn a_new_neighbour_hears_of_an_lsa_that_is_being_taken_out() {
    let mut net = Net::new(4, &[(0, 1), (0, 2), (0, 3)]);
    net.run(secs(100));
    let key = Key { kind: 5, id: [192, 168, 0, 0].into(), router: id(9) };
    let mut lsa = Lsa::new(key, 2, 1, &[0; 16]);
    say(&mut net, Body::Update(vec![lsa.clone()]));
    net.run(secs(102));
    net.set(0, 2, false);
    net.run(secs(150));
    let has_it = |net: &Net, node: usize| net.nodes[node].ospf.database.get(&key).is_some();
    assert!(has_it(&net, 2));

    // Router 0 keeps it as long as router 3 has not acknowledged.
    net.set(0, 3, false);
    lsa.header.age = Header::MAX_AGE;
    say(&mut net, Body::Update(vec![lsa]));
    net.set(0, 2, true);
    net.run(secs(175));

    assert!(has_it(&net, 0));
    assert!(!has_it(&net, 2));
}

#[test]
fn what_finds_no_room_is_acknowledged_and_counted_and_the_rest_goes_on() {
    let bounds = Bounds { lsas: 3, ..Bounds::default() };
    let mut net = Net::with(8, &line(8), |node| {
        if node == 0 { Config { bounds, ..config(node) } } else { config(node) }
    });

    net.run(secs(200));

    assert_eq!(net.nodes[0].ospf.lsas(), 4, "its own and three");
    assert!(net.count(0, Counter::LsasFull) > 0);
    assert_eq!(net.walk(0, 1), Some(1));
    assert_eq!(net.walk(7, 1), Some(6), "the others go on");
    let before = net.count(1, Counter::LsasRetransmitted);
    net.run(net.now + Duration::from_secs(600));
    assert_eq!(net.count(1, Counter::LsasRetransmitted), before);
    assert!(net.nodes[1].table.contains_key(&host(7)));
}

#[test]
fn an_adjacency_forms_though_not_all_that_the_neighbour_describes_finds_room() {
    let bounds = Bounds { lsas: 3, ..Bounds::default() };
    let mut net = Net::with(8, &line(8), |node| {
        if node == 0 { Config { bounds, ..config(node) } } else { config(node) }
    });
    net.set(0, 1, false);
    net.run(secs(200));

    net.set(0, 1, true);
    net.run(secs(230));

    assert!(net.count(0, Counter::LsasFull) > 0);
    assert_eq!((net.state(0, 1), net.state(1, 0)), (Some(State::Full), Some(State::Full)));
}

#[test]
fn an_lsa_that_is_longer_than_a_packet_stays_where_it_is_and_the_rest_goes_on() {
    let many = |node: usize| {
        let hosts = (0..60_u8).map(|host| Prefix::host([192, 168, 9, host].into()));
        let attached = if node == 0 { hosts.chain([host(0)]).collect() } else { vec![host(node)] };
        Config { attached, ..config(node) }
    };
    let mut net = Net::with(3, &line(3), many);

    net.run(secs(200));

    let before = net.count(0, Counter::LsasTooBig);
    assert_eq!(before, 2, "left out of the description, and of what was to be flooded");
    net.run(secs(400));
    assert_eq!(net.count(0, Counter::LsasTooBig), before, "it is given up");
    assert_eq!((net.state(0, 1), net.state(1, 0)), (Some(State::Full), Some(State::Full)));
    assert_eq!((net.walk(2, 1), net.walk(2, 0)), (Some(1), None));
}

#[test]
fn what_is_not_acknowledged_is_sent_again() {
    let mut net = Net::new(3, &line(3));
    net.run(secs(100));
    net.set(0, 1, false);
    let address = [10, 0, 1, 2].into();
    let gone = crate::Neighbour { interface: 1, address };
    net.nodes[1].ospf.handle_break(net.now, gone);

    net.run(net.now + Duration::from_secs(12));
    assert!(net.count(1, Counter::LsasRetransmitted) >= 1, "router 0 did not hear of it");
    net.set(0, 1, true);
    net.converge(20);
}

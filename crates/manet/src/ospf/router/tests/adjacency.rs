//! Two routers come to know the same, and notice when they cannot.

use std::time::Duration;

use super::{Net, config, line, secs};
use crate::ospf::wire::{Body, Description, Header, Hello, Key, Packet};
use crate::ospf::{Config, Counter, State};

#[test]
fn two_routers_are_full_soon_after_their_hellos() {
    let mut net = Net::new(2, &line(2));

    net.run(secs(4));

    assert_eq!((net.state(0, 1), net.state(1, 0)), (Some(State::Full), Some(State::Full)));
    // What they said of themselves before may not change sooner than after 5 s.
    assert_eq!(net.faults().len(), 2);
    net.run(secs(7));
    assert_eq!(net.faults(), [""; 0]);
    for node in 0..2 {
        assert_eq!(net.count(node, Counter::Adjacencies), 1);
        assert_eq!(net.count(node, Counter::ExchangesRestarted), 0);
        assert_eq!(net.nodes[node].ospf.lsas(), 2);
    }
}

#[test]
fn who_leads_the_exchange_is_the_one_with_the_higher_number() {
    let mut net = Net::new(2, &line(2));
    net.listens = true;

    net.run(secs(4));

    let parts = net.heard.iter().filter_map(|(_, from, packet)| match &packet.body {
        Body::Description(it) if !it.is_first => Some((*from, it.is_master)),
        _ => None,
    });
    let parts: Vec<_> = parts.collect();
    assert!(parts.len() >= 2);
    assert!(parts.iter().all(|(from, is_master)| *is_master == (*from == 1)), "{parts:?}");
}

#[test]
fn a_neighbour_that_is_silent_for_the_dead_interval_is_given_up() {
    let mut net = Net::new(3, &line(3));
    net.run(secs(60));

    net.set(0, 1, false);
    net.run(secs(60 + 29));
    assert_eq!(net.state(1, 0), Some(State::Full));
    net.run(secs(60 + 41));

    assert_eq!((net.state(1, 0), net.state(0, 1)), (None, None));
    assert_eq!(net.faults(), [""; 0]);
}

#[test]
fn what_differs_is_refused_and_counted() {
    let other = |change: fn(&mut Config), counter| {
        let mut net = Net::with(2, &line(2), |node| {
            let mut config = config(node);
            if node == 1 {
                change(&mut config);
            }
            config
        });
        net.run(secs(30));
        assert_eq!((net.state(0, 1), net.state(1, 0)), (None, None), "{counter:?}");
        assert!(net.count(0, counter) > 1 && net.count(1, counter) > 1, "{counter:?}");
    };

    other(|it| it.area = 7, Counter::AreaMismatches);
    other(|it| it.hello_interval = Duration::from_secs(9), Counter::IntervalMismatches);
    other(|it| it.dead_interval = Duration::from_secs(30), Counter::IntervalMismatches);
}

#[test]
fn the_mask_means_nothing_on_a_point_to_point_link() {
    let mut net = Net::with(2, &line(2), |node| Config {
        link_bits: if node == 0 { 24 } else { 30 },
        ..config(node)
    });

    net.run(secs(10));

    assert_eq!(net.state(0, 1), Some(State::Full));
}

#[test]
fn a_database_of_many_lsas_is_described_in_several_parts() {
    // A line of 60 has come to know all; then two ends meet.
    let mut net = Net::new(80, &line(80));
    net.set(39, 40, false);
    net.run(secs(120));
    net.listens = true;
    net.set(39, 40, true);

    net.converge(60);

    let parts = net.heard.iter().filter_map(|(_, from, packet)| match &packet.body {
        Body::Description(it) if *from == 40 && !it.headers.is_empty() => Some(it.headers.len()),
        _ => None,
    });
    let parts: Vec<usize> = parts.collect();
    assert!(parts.len() >= 2 && parts.iter().sum::<usize>() == 40, "{parts:?}");
}

#[test]
fn an_exchange_survives_the_loss_of_any_of_its_packets() {
    for seed in 0_u32..40 {
        let mut net = Net::new(4, &line(4));
        net.loss = 0.1 + 0.01 * f64::from(seed);
        net.latency = Duration::from_millis(20 * u64::from(seed.pow(2)));
        net.run(secs(u64::from(seed)));

        net.run(secs(300));
        (net.loss, net.latency) = (0.0, Duration::from_millis(500));
        net.run(secs(400));

        assert_eq!(net.faults(), [""; 0], "seed {seed}");
    }
}

#[test]
fn a_router_that_asks_for_what_is_not_there_is_told_to_begin_anew() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(20));
    let stranger = Key { kind: 1, id: super::id(9), router: super::id(9) };
    let request = Body::Request(vec![stranger]);

    say(&mut net, request);

    assert_eq!(net.count(0, Counter::ExchangesRestarted), 1);
    net.run(secs(60));
    assert_eq!(net.faults(), [""; 0]);
}

#[test]
fn a_description_out_of_turn_begins_the_exchange_anew() {
    let mut net = Net::new(2, &line(2));
    net.listens = true;
    net.run(secs(20));
    let mut last = last_description(&net);
    last.number += 7;

    say(&mut net, Body::Description(last));

    assert_eq!(net.count(0, Counter::ExchangesRestarted), 1);
    net.run(secs(60));
    assert_eq!((net.state(0, 1), net.faults()), (Some(State::Full), Vec::new()));
}

#[test]
fn a_slave_answers_a_repeated_description_again() {
    let mut net = Net::new(2, &line(2));
    net.listens = true;
    net.run(secs(20));
    let last = last_description(&net);
    let before = net.count(0, Counter::DescriptionsSent);

    say(&mut net, Body::Description(last));

    assert_eq!(net.count(0, Counter::DescriptionsSent), before + 1);
    assert_eq!(net.count(0, Counter::ExchangesRestarted), 0);
    assert_eq!(net.state(0, 1), Some(State::Full));
}

#[test]
fn a_master_goes_on_after_an_answer_to_its_own_claim_only() {
    let mut net = Net::new(2, &line(2));
    net.set(0, 1, false);
    net.listens = true;
    net.run(secs(20));
    // Router 1 hears only what the test says in the name of router 0.
    let hear = |net: &mut Net, body| {
        let packet = Packet { router: super::id(0), area: 0, body };
        let mut octets = Vec::new();
        packet.emit(&mut octets);
        net.inject((1, 0), std::net::Ipv4Addr::new(10, 0, 0, 1), &octets);
        net.state(1, 0)
    };
    let hello = Hello { neighbours: vec![super::id(1)], ..last_hello(&net) };
    assert_eq!(hear(&mut net, Body::Hello(hello)), Some(State::ExStart));
    let claim = last_description(&net);
    let number = claim.number;
    let answer = Description { is_first: false, is_master: false, ..claim };

    let stale = Description { number: number + 1, ..answer.clone() };
    assert_eq!(hear(&mut net, Body::Description(stale)), Some(State::ExStart));
    let claiming = Description { is_master: true, ..answer.clone() };
    assert_eq!(hear(&mut net, Body::Description(claiming)), Some(State::ExStart));

    assert_eq!(hear(&mut net, Body::Description(answer)), Some(State::Exchange));
}

#[test]
fn a_neighbour_that_has_started_anew_is_greeted_at_once() {
    let mut net = Net::new(2, &line(2));
    net.listens = true;
    net.run(secs(20));
    let hello = Hello { neighbours: Vec::new(), ..last_hello(&net) };
    net.heard.clear();

    say(&mut net, Body::Hello(hello));

    let greets = |(_, from, packet): &(_, usize, Packet)| {
        *from == 0 && matches!(&packet.body, Body::Hello(it) if it.neighbours == [super::id(1)])
    };
    assert!(net.heard.iter().any(greets), "{:?}", net.heard);
    assert_eq!(net.state(0, 1), Some(State::Init));
}

#[test]
fn a_neighbour_is_given_up_at_the_end_of_the_dead_interval_to_the_nanosecond() {
    let mut net = Net::new(2, &line(2));
    net.listens = true;
    net.run(secs(20));
    let hello = last_hello(&net);
    net.set(0, 1, false);
    say(&mut net, Body::Hello(hello.clone()));

    net.run(secs(60) - Duration::from_nanos(1));
    let before = net.state(0, 1);
    net.run(secs(60));
    assert_eq!((before, net.state(0, 1)), (Some(State::Full), None));

    // A hello that is handed in too late, by a driver that is late, does not save the neighbour.
    say(&mut net, Body::Hello(hello.clone()));
    assert_eq!((net.state(0, 1), net.count(0, Counter::NeighboursLost)), (Some(State::ExStart), 1));
    net.now += Duration::from_secs(40);
    say(&mut net, Body::Hello(hello));
    assert_eq!(net.count(0, Counter::NeighboursLost), 2);
}

#[test]
fn longer_packets_than_the_link_takes_are_not_agreed_to() {
    let mut net = Net::new(2, &line(2));
    net.listens = true;
    net.run(secs(20));
    let mut last = last_description(&net);
    last.mtu += 1;

    say(&mut net, Body::Description(last));

    assert_eq!(net.count(0, Counter::MtuMismatches), 1);
}

#[test]
fn acknowledgements_wait_for_each_other_but_duplicates_are_acknowledged_at_once() {
    let mut net = Net::new(2, &line(2));
    net.run(secs(100));
    let lsa = own_lsa(&net);
    net.listens = true;

    say(&mut net, Body::Update(vec![lsa.clone()]));

    let acks: Vec<Header> = acks(&net);
    assert_eq!(acks.len(), 1, "at once");
    assert_eq!(acks[0].key, lsa.header.key);
    assert_eq!(net.count(0, Counter::LsasDuplicate), 1);
}

/// The acknowledgements of router 0 that a test heard.
fn acks(net: &Net) -> Vec<Header> {
    let acks = net.heard.iter().filter_map(|(_, from, packet)| match &packet.body {
        Body::Acknowledgement(headers) if *from == 0 => Some(headers.clone()),
        _ => None,
    });
    acks.flatten().collect()
}

/// The last description that router 1 sent.
fn last_description(net: &Net) -> Description {
    let parts = net.heard.iter().rev().filter(|(_, from, _)| *from == 1);
    let mut parts = parts.filter_map(|(_, _, packet)| match &packet.body {
        Body::Description(it) => Some(it.clone()),
        _ => None,
    });
    parts.next().unwrap()
}

/// The last hello that router 1 sent.
fn last_hello(net: &Net) -> Hello {
    let hellos = net.heard.iter().rev().filter(|(_, from, _)| *from == 1);
    let mut hellos = hellos.filter_map(|(_, _, packet)| match &packet.body {
        Body::Hello(it) => Some(it.clone()),
        _ => None,
    });
    hellos.next().unwrap()
}

/// What router 1 says of itself, as router 0 knows it.
pub fn own_lsa(net: &Net) -> crate::ospf::wire::Lsa {
    let key = Key::of_router(super::id(1));
    net.nodes[0].ospf.database.get(&key).unwrap().lsa(net.now)
}

/// Router 1 says something to router 0.
pub fn say(net: &mut Net, body: Body) {
    let packet = Packet { router: super::id(1), area: 0, body };
    let mut octets = Vec::new();
    packet.emit(&mut octets);
    net.inject((0, 0), std::net::Ipv4Addr::new(10, 0, 0, 2), &octets);
}

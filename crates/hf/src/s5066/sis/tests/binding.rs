//! Who is bound, and who is not.

use std::time::Duration;

use base::time::Time;

use super::{A, B, Bench, non_arq, to_b};
use crate::s5066::sis::client::{self, Client, Fault, NotSent};
use crate::s5066::sis::primitive::{Arrival, Primitive, UnidataIndication};
use crate::s5066::sis::{Config, Event, Limits, NodeStatus, Sap, Service, UnavailableReason};

#[test]
fn a_client_is_bound_and_gives_its_access_point_back() {
    let mut bench = Bench::new(Config::default());
    bench.connect(client::Config::new(Sap::new(9)));
    assert_eq!(bench.take_trace(), ["0: bound 2048"]);

    bench.clients[0].1.unbind();
    bench.run();
    bench.connect(client::Config::new(Sap::new(9)));

    assert_eq!(bench.take_trace(), ["1: bound 2048"]);
    assert_eq!(bench.server.bound().count(), 1);
}

#[test]
fn an_access_point_has_one_client_and_the_higher_rank_takes_it() {
    let mut bench = Bench::new(Config::default());
    let rank = |rank| client::Config { rank, ..client::Config::new(Sap::new(3)) };
    for rank_of in [5, 5, 6] {
        bench.connect(rank(rank_of));
    }

    assert_eq!(
        bench.take_trace(),
        [
            "0: bound 2048",
            "1: refused: access point already in use",
            "2: bound 2048",
            "0: unbound: pre-empted by a client of higher rank",
        ]
    );
    assert_eq!(bench.clients[0].1.send(bench.now, to_b(b"x")), Err(NotSent::NotBound));
}

#[test]
fn a_node_says_why_it_does_not_bind() {
    let config = Config {
        saps: 1 << 9,
        may_manage: false,
        is_broadcast_only: true,
        mtu: 9_000,
        ..Config::default()
    };
    let mut bench = Bench::new(config);
    bench.connect(non_arq(8));
    bench.connect(client::Config { rank: 15, ..non_arq(9) });
    bench.connect(client::Config::new(Sap::new(9)));
    bench.connect(non_arq(9));

    assert_eq!(
        bench.take_trace(),
        [
            "0: refused: invalid access point",
            "1: refused: not enough resources",
            "2: refused: no ARQ while the node broadcasts",
            "3: bound 4096",
        ]
    );
}

#[test]
fn fifty_clients_connect_and_sixteen_are_bound() {
    let mut bench = Bench::new(Config {
        limits: Limits { max_clients: 50, ..Limits::default() },
        ..Config::default()
    });
    for number in 0..50 {
        bench.connect(client::Config::new(Sap::new(number)));
    }

    assert_eq!(bench.server.connections(), 50);
    assert_eq!(bench.server.bound().count(), 16);
    assert_eq!(bench.server.stats().clients.binds, 16);
    assert_eq!(bench.server.stats().clients.binds_refused, 34);
}

#[test]
fn who_does_not_bind_gives_way_to_a_new_connection_the_longest_unbound_first() {
    let mut bench = Bench::new(Config {
        limits: Limits { max_clients: 3, ..Limits::default() },
        ..Config::default()
    });
    for sap in [1, 2, 2] {
        bench.connect(client::Config::new(Sap::new(sap)));
        bench.wait(Duration::from_secs(1));
    }
    // Of an older connection, but unbound for less time.
    bench.clients[0].1.unbind();
    bench.run();
    bench.take_trace();

    bench.connect(client::Config::new(Sap::new(3)));
    bench.connect(client::Config::new(Sap::new(4)));
    let refused = bench.server.handle_connected(bench.now);

    assert_eq!(bench.take_trace(), ["3: bound 2048", "2: closed", "4: bound 2048", "0: closed"]);
    assert_eq!((bench.server.connections(), bench.server.bound().count()), (3, 3));
    assert_eq!(refused, None, "all are bound");
    let stats = bench.server.stats();
    assert_eq!((stats.connections.closed_unbound, stats.connections.refused), (2, 1));
}

#[test]
fn connections_that_nobody_closes_yet_are_no_more_than_may_be() {
    let mut bench = Bench::new(Config {
        limits: Limits { max_clients: 4, ..Limits::default() },
        ..Config::default()
    });
    bench.connect(client::Config::new(Sap::new(9)));

    let ids: Vec<_> = (0..100).map(|_| bench.server.handle_connected(bench.now)).collect();

    assert!(ids.iter().all(Option::is_some));
    assert_eq!((bench.server.connections(), bench.server.bound().count()), (4, 1));
    let closed: Vec<_> = std::iter::from_fn(|| bench.server.poll_event()).collect();
    let oldest = ids.iter().flatten().take(97).map(|&id| Event::Close(id));
    assert_eq!(closed, oldest.collect::<Vec<_>>());
}

#[test]
fn a_binding_to_another_access_point_is_not_ones_own() {
    let mut client = Client::new(client::Config::new(Sap::new(9)));
    client.handle_connected(Time::ZERO);
    let mut octets = Vec::new();
    Primitive::BindAccepted { sap: Sap::new(4), mtu: 2_048 }.emit(&mut octets);

    client.handle_octets(Time::ZERO, &octets);

    assert!(!client.is_ready());
}

#[test]
fn a_connection_that_is_never_bound_is_closed() {
    let mut bench = Bench::new(Config::default());
    let id = bench.server.handle_connected(bench.now).unwrap();
    bench.clients.push((id, client::Client::new(client::Config::new(Sap::new(1)))));
    bench.connect(client::Config::new(Sap::new(9)));

    bench.wait(Duration::from_secs(61));

    assert_eq!(bench.take_trace(), ["1: bound 2048", "0: closed"]);
    assert_eq!(bench.server.stats().connections.closed_unbound, 1);
    assert_eq!(bench.server.next_timeout(), None);
}

#[test]
fn clients_are_told_of_each_change_of_what_the_node_can_do_and_those_who_bind_meanwhile() {
    let mut bench = Bench::with_clients(&[9]);
    let tell = |bench: &mut Bench, status, reason| {
        bench.server.handle_availability(bench.now, status, reason);
        bench.run();
    };
    tell(&mut bench, NodeStatus::ON, UnavailableReason::UNSPECIFIED);
    tell(&mut bench, NodeStatus::OFF, UnavailableReason::UNSPECIFIED);
    tell(&mut bench, NodeStatus::OFF, UnavailableReason::UNSPECIFIED);
    bench.connect(non_arq(3));
    tell(&mut bench, NodeStatus::TRANSMIT_ONLY, UnavailableReason::LOCAL_EMCON);
    tell(&mut bench, NodeStatus::ON, UnavailableReason::UNSPECIFIED);
    bench.connect(non_arq(4));

    assert_eq!(
        bench.take_trace(),
        [
            "0: node off, unspecified",
            "1: bound 4096",
            "1: node off, reason 84",
            "0: node transmit only, local emission control",
            "1: node transmit only, local emission control",
            "0: node on, unspecified",
            "1: node on, unspecified",
            "2: bound 4096",
        ]
    );
}

#[test]
fn a_node_without_messages_tells_who_binds_only_that_it_is_not_on() {
    let mut bench = Bench::new(Config { has_messages: false, ..Config::default() });
    bench.connect(non_arq(3));
    let off = (NodeStatus::OFF, UnavailableReason::UNSPECIFIED);
    bench.server.handle_availability(bench.now, off.0, off.1);
    bench.connect(non_arq(4));

    let off = ["0: node off, unspecified", "1: bound 4096", "1: node off, unspecified"];
    assert_eq!(bench.take_trace(), [&["0: bound 4096"], &off[..]].concat());
}

#[test]
fn who_sends_to_an_access_point_that_nobody_has_is_told_of_once() {
    let mut near = Bench::with_clients(&[9]);
    let mut far = Bench::at(Config::default(), B);
    near.send(0, to_b(b"x"));
    let request = near.requests().remove(0);

    far.indicate(A, &request);

    assert_eq!(far.server.poll_unclaimed(), Some((A, Sap::new(9))));
    assert_eq!(far.server.poll_unclaimed(), None);
    assert_eq!(far.server.stats().delivered.not_bound, 1);
}

#[test]
fn what_was_on_its_way_when_a_binding_ended_does_not_end_the_next() {
    let mut bench = Bench::with_clients(&[9]);
    for _ in 0..3 {
        bench.clients[0].1.send(bench.now, to_b(b"x")).unwrap();
    }
    // One of higher rank comes and goes.
    let other = bench.server.handle_connected(bench.now).unwrap();
    let (sap, service) = (Sap::new(9), Service::ARQ.into());
    let mut octets = Vec::new();
    Primitive::BindRequest { sap, rank: 5, service }.emit(&mut octets);
    bench.server.handle_octets(bench.now, other, &octets);
    bench.server.handle_disconnected(bench.now, other);
    bench.run();
    bench.clients[0].1.rebind(bench.now);
    bench.run();

    assert_eq!(
        bench.take_trace(),
        ["0: unbound: pre-empted by a client of higher rank", "0: bound 2048"]
    );
    assert_eq!(bench.clients[0].1.stats().forsaken, 3);
    assert_eq!(bench.server.stats().clients.unbound_requests, 3);
}

#[test]
fn keep_alive_is_answered_once_in_120_s() {
    let mut bench = Bench::with_clients(&[9]);
    let id = bench.clients[0].0;
    let keep_alive = [0x90, 0xeb, 0, 0, 1, 0x11];
    let mut answers = Vec::new();

    // At 0 at once, at 60 not at all, at 111 when 120 s have passed, at 250 at once.
    for at in [0_u64, 60, 111, 119, 120, 250] {
        bench.now = base::time::Time::from_nanos(at * 1_000_000_000);
        if ![119, 120].contains(&at) {
            bench.server.handle_octets(bench.now, id, &keep_alive);
        }
        bench.server.handle_timeout(bench.now);
        let mut out = Vec::new();
        while bench.server.poll_octets(bench.now, id, &mut out) {}
        answers.push(out.len() / keep_alive.len());
    }

    assert_eq!(answers, [1, 0, 0, 0, 1, 1]);
}

#[test]
fn a_client_that_does_not_answer_is_unbound_when_that_is_asked_for() {
    let keep_alive = Some(Duration::from_secs(120));
    let mut bench = Bench::new(Config { keep_alive, ..Config::default() });
    bench.connect(client::Config::new(Sap::new(9)));

    // One that answers stays.
    bench.wait(Duration::from_secs(1_000));
    assert_eq!(bench.take_trace(), ["0: bound 2048"]);

    // One that is silent goes.
    let start = bench.now;
    while let Some(at) = bench.server.next_timeout().filter(|_| bench.trace.is_empty()) {
        bench.now = at;
        bench.server.handle_timeout(at);
        if bench.server.stats().clients.inactive > 0 {
            bench.run();
        }
    }
    assert_eq!(bench.take_trace(), ["0: unbound: inactivity", "0: closed"]);
    assert!(bench.now.since(start) <= Duration::from_secs(260));
}

#[test]
fn only_rank_15_manages() {
    let mut bench = Bench::new(Config::default());
    bench.connect(client::Config { rank: 14, ..client::Config::new(Sap::new(1)) });
    bench.connect(client::Config { rank: 15, ..client::Config::new(Sap::new(0)) });
    for (_, client) in &mut bench.clients {
        client.manage(3, b"?");
    }
    let mut octets = Vec::new();
    for (id, client) in &mut bench.clients {
        octets.clear();
        client.poll_octets(bench.now, &mut octets);
        bench.server.handle_octets(bench.now, *id, &octets);
    }
    let id = bench.clients[1].0;

    let event = bench.server.poll_event();
    bench.server.handle_message(bench.now, id, 4, b"!");
    bench.run();

    assert_eq!(
        event,
        Some(crate::s5066::sis::Event::Management { client: id, kind: 3, body: b"?".to_vec() })
    );
    assert_eq!(bench.server.stats().clients.management_refused, 1);
    assert_eq!(bench.take_trace()[2..], ["1: message 4 [33]"]);
}

#[test]
fn a_node_that_never_answers_a_bind_is_left() {
    let config = client::Config::new(Sap::new(9));
    let mut client = Client::new(config.clone());
    client.handle_connected(Time::ZERO);
    // It says other things meanwhile.
    client.handle_octets(Time::ZERO, &[0x90, 0xeb, 0, 0, 1, 17]);

    let until = client.next_timeout().expect("there is an end to waiting");
    client.handle_timeout(until - Duration::from_millis(1));
    assert_eq!(client.poll_event(), None);
    client.handle_timeout(until);

    assert_eq!(until.since(Time::ZERO), config.bind_wait);
    let within = config.bind_wait;
    assert_eq!(client.poll_event(), Some(client::Event::Close(Fault::BindUnanswered { within })));
    assert_eq!((client.stats().unanswered, client.next_timeout()), (1, None));

    // So is one that does not answer when it is asked again on the same connection.
    let mut bench = Bench::with_clients(&[9]);
    bench.clients[0].1.unbind();
    bench.run();
    bench.clients[0].1.rebind(bench.now);
    let until = bench.clients[0].1.next_timeout();
    assert_eq!(until, Some(bench.now + within));
    bench.run();
    assert_eq!(bench.clients[0].1.next_timeout(), None, "it has answered");
}

#[test]
fn a_node_that_takes_too_few_octets_is_left_with_the_likely_reason() {
    for (mtu, likely) in [
        (
            8_u16,
            "with its two octets swapped it would be 2048, so the node probably sends numbers low octet first",
        ),
        (200, "more can be set at the node"),
        (0, "more can be set at the node"),
    ] {
        let config = client::Config { least_mtu: 576, ..client::Config::new(Sap::new(9)) };
        let mut client = Client::new(config.clone());
        client.handle_connected(Time::ZERO);
        let [high, low] = mtu.to_be_bytes();
        // What follows the bind is not read any more.
        client.handle_octets(
            Time::ZERO,
            &[0x90, 0xeb, 0, 0, 4, 3, 0x90, high, low, 0x90, 0xeb, 0, 0, 1, 99],
        );

        let Some(client::Event::Close(fault)) = client.poll_event() else {
            panic!("it is believed")
        };
        assert_eq!(fault, Fault::Mtu { mtu, least: 576 });
        let said =
            format!("the node takes U_PDUs of {mtu} octets at most and 576 are needed: {likely}");
        assert_eq!(fault.to_string(), said);
        assert_eq!(
            (client.stats().mtu_refused, client.stats().invalid, client.mtu()),
            (1, 0, None)
        );
    }
}

/// A node's indication of a U_PDU for the client of an access point.
fn to_sap(sap: u8) -> Vec<u8> {
    let mut octets = Vec::new();
    let indication = UnidataIndication {
        priority: 0,
        to_sap: Sap::new(sap),
        to: A,
        arrival: Arrival::Arq,
        from_sap: Sap::new(9),
        from: B,
        u_pdu: b"x",
    };
    Primitive::UnidataIndication(indication).emit(&mut octets);
    octets
}

/// A node's acceptance of a bind of access point 9.
const ACCEPTED: [u8; 9] = [0x90, 0xeb, 0, 0, 4, 3, 0x90, 8, 0];

#[test]
fn a_client_that_leaves_receives_what_the_node_has_delivered_meanwhile() {
    let mut client = Client::new(client::Config::new(Sap::new(9)));
    client.handle_connected(Time::ZERO);
    client.handle_octets(Time::ZERO, &ACCEPTED);
    client.unbind();
    client.handle_octets(Time::ZERO, &to_sap(9));
    client.rebind(Time::ZERO);
    client.handle_octets(Time::ZERO, &to_sap(9));
    // The node has read both requests: from here on only a node that breaks rules delivers without a binding.
    client.handle_octets(Time::ZERO, &[0x90, 0xeb, 0, 0, 2, 4, 1]);
    client.handle_octets(Time::ZERO, &to_sap(9));

    assert_eq!((client.stats().received, client.stats().misplaced), (2, 1));
}

#[test]
fn u_pdus_that_are_not_for_this_client_or_come_too_early_are_dropped_and_counted() {
    let mut client = Client::new(client::Config::new(Sap::new(9)));
    client.handle_connected(Time::ZERO);
    client.handle_octets(Time::ZERO, &to_sap(9));
    client.handle_octets(Time::ZERO, &ACCEPTED);
    client.handle_octets(Time::ZERO, &to_sap(3));
    client.handle_octets(Time::ZERO, &to_sap(9));
    // An undefined mode.
    client.handle_octets(Time::ZERO, &[0x90, 0xeb, 0, 0, 1, 99]);

    assert_eq!(client.poll_event(), Some(client::Event::Bound { mtu: 2_048 }));
    assert!(matches!(client.poll_event(), Some(client::Event::Received(_))));
    assert_eq!(client.poll_event(), None);
    let stats = client.stats();
    assert_eq!((stats.misplaced, stats.received, stats.invalid), (2, 1, 1));
    let told = client.poll_unreadable().map(|what| what.to_string());
    assert_eq!(told.as_deref(), Some("primitive 99: undefined primitive type 99"));
}

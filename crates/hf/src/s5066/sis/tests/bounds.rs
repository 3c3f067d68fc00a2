//! Tests of each bound, and of clients that do not keep to the protocol.

use std::time::Duration;

use base::time::Time;
use proptest::prelude::*;

use super::{B, Bench, to_b};
use crate::s5066::sis::client::{self, NotSent, Send};
use crate::s5066::sis::primitive::{Primitive, UnidataRequest};
use crate::s5066::sis::server::Backlog;
use crate::s5066::sis::{Config, Delivery, Event, FlowControl, Limits, Sap, Server};

#[test]
fn flow_goes_off_when_much_waits_and_on_when_little_does() {
    let config = Config {
        flow: FlowControl {
            off: Backlog { octets: 1 << 20, u_pdus: 3 },
            on: Backlog { octets: 1 << 20, u_pdus: 1 },
            ..FlowControl::default()
        },
        ..Config::default()
    };
    let mut bench = Bench::new(config);
    bench.connect(client::Config::new(Sap::new(9)));
    let mut sent = 0;
    while bench.clients[0].1.is_ready() {
        bench.send(0, to_b(b"x"));
        sent += 1;
    }
    assert_eq!(sent, 4);
    assert_eq!(bench.clients[0].1.send(bench.now, to_b(b"x")), Err(NotSent::FlowOff));

    for _ in 0..2 {
        bench.server.poll_request(bench.now, 0).unwrap();
    }
    bench.run();
    assert!(!bench.clients[0].1.is_ready());
    bench.server.poll_request(bench.now, 0).unwrap();
    bench.run();

    assert_eq!(bench.take_trace(), ["0: bound 2048", "0: flow off", "0: flow on"]);
    assert_eq!(bench.server.stats().clients.flow_off, 1);
}

#[test]
fn a_client_that_is_deaf_to_flow_control_is_closed_and_others_are_not() {
    let config = Config {
        flow: FlowControl {
            off: Backlog { octets: 1_000, u_pdus: 100 },
            on: Backlog { octets: 500, u_pdus: 100 },
            flood: Backlog { octets: 5_000, u_pdus: 100 },
        },
        ..Config::default()
    };
    let mut bench = Bench::new(config);
    bench.connect(client::Config::new(Sap::new(9)));
    bench.connect(client::Config::new(Sap::new(3)));
    let id = bench.clients[0].0;
    for _ in 0..10 {
        bench.server.handle_octets(bench.now, id, &request(&[0; 1_000]));
    }
    bench.run();
    bench.send(1, to_b(b"x"));

    let trace = bench.take_trace();
    assert_eq!(trace[2..], ["0: flow off", "0: unbound: too many invalid primitives", "0: closed"]);
    assert_eq!(bench.server.stats().connections.closed_flood, 1);
    assert_eq!(bench.server.stats().submitted.dropped_unbound, 6);
    assert_eq!(bench.requests().len(), 1);
}

#[test]
fn a_client_of_which_much_waits_is_not_read_from() {
    let flood = Backlog { octets: 5_000, u_pdus: 100 };
    let flow = FlowControl { flood, ..FlowControl::default() };
    let mut bench = Bench::new(Config { flow, ..Config::default() });
    bench.connect(client::Config::new(Sap::new(9)));
    let id = bench.clients[0].0;
    for wants_octets in [true, true, false] {
        bench.server.handle_octets(bench.now, id, &request(&[0; 1_000]));
        assert_eq!(bench.server.wants_octets(id), wants_octets);
    }

    bench.server.poll_request(bench.now, 0).unwrap();
    assert!(bench.server.wants_octets(id));
}

#[test]
fn too_many_expedited_requests_unbind() {
    let mut bench = Bench::with_clients(&[9]);
    for _ in 0..17 {
        let _ = bench.clients[0].1.send(bench.now, Send { is_expedited: true, ..to_b(b"x") });
    }
    bench.run();

    assert_eq!(bench.take_trace(), ["0: unbound: too many expedited requests"]);
    assert!(bench.requests().is_empty());
}

#[test]
fn what_cannot_be_read_closes_the_connection() {
    for (octets, is_bound) in
        [(&b"GET / HTTP/1.1"[..], false), (&[0x90, 0xeb, 0, 0, 0], true), (&[0x90, 0xeb, 9], true)]
    {
        let mut bench = Bench::new(Config::default());
        bench.connect(client::Config::new(Sap::new(9)));
        if !is_bound {
            bench.clients[0].1.unbind();
            bench.run();
        }
        bench.take_trace();
        let id = bench.clients[0].0;
        bench.server.handle_octets(bench.now, id, octets);
        bench.server.handle_octets(bench.now, id, &request(b"after"));
        bench.run();

        let unbound = "0: unbound: too many invalid primitives".to_owned();
        let expected = is_bound.then_some(unbound).into_iter().chain(["0: closed".to_owned()]);
        assert_eq!(bench.take_trace(), expected.collect::<Vec<_>>());
        assert_eq!(bench.server.connections(), 0);
        assert_eq!(bench.server.stats().submitted.u_pdus_taken, 0);
    }
}

#[test]
fn some_invalid_primitives_are_forgiven() {
    let mut bench = Bench::with_clients(&[9]);
    let id = bench.clients[0].0;
    // A type that there is not, and one that is not for a client to send.
    for octets in [[0x90, 0xeb, 0, 0, 1, 99], [0x90, 0xeb, 0, 0, 1, 15]].iter().cycle().take(10) {
        bench.server.handle_octets(bench.now, id, octets);
    }
    bench.run();
    assert!(bench.take_trace().is_empty());

    bench.server.handle_octets(bench.now, id, &[0x90, 0xeb, 0, 0, 1, 0]);
    bench.run();

    assert_eq!(bench.take_trace(), ["0: unbound: too many invalid primitives", "0: closed"]);
}

#[test]
fn requests_of_the_unbound_are_refused_and_in_the_end_the_connection_closed() {
    let mut server = Server::new(Config::default(), B);
    let id = server.handle_connected(Time::ZERO).unwrap();
    for _ in 0..20 {
        server.handle_octets(Time::ZERO, id, &request(b"x"));
    }
    let mut out = Vec::new();
    while server.poll_octets(Time::ZERO, id, &mut out) {}

    assert_eq!(out, [0x90, 0xeb, 0, 0, 2, 5, 3].repeat(11));
    assert_eq!(server.poll_event(), Some(Event::Readable(id)));
    assert_eq!(server.poll_event(), Some(Event::Close(id)));
    assert_eq!(server.stats().submitted.u_pdus_taken, 0);
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let mut bench = Bench::new(Config {
        limits: Limits { max_unread: 1_000, ..Limits::default() },
        ..Config::default()
    });
    bench.connect(client::Config::new(Sap::new(9)));
    bench.send(0, to_b(&[7; 500]));
    let request = bench.requests().remove(0);
    let indication = crate::s5066::service::Indication {
        from: B,
        to: B,
        mode: request.mode,
        is_expedited: request.is_expedited,
        s_pdu: request.s_pdu.clone(),
        errored: Vec::new(),
        missing: Vec::new(),
    };
    for _ in 0..10 {
        bench.server.handle_indication(bench.now, &indication);
    }

    assert!(bench.server.buffered() < 1_600);
    assert_eq!(bench.server.stats().connections.closed_unread, 1);
    assert_eq!(bench.server.bound().count(), 0);
}

#[test]
fn what_waits_of_a_client_goes_with_its_connection() {
    let mut bench = Bench::with_clients(&[9]);
    for text in ["a", "b"] {
        let ttl = Duration::from_secs(1_000);
        bench.send(0, Send { ttl, ..to_b(text.as_bytes()) });
    }
    bench.server.poll_request(bench.now, 0).unwrap();
    let id = bench.clients[0].0;

    bench.server.handle_disconnected(bench.now, id);

    assert!(bench.server.poll_request(bench.now, 0).is_none());
    assert_eq!(bench.server.undecided(), 0);
    assert_eq!(bench.server.next_timeout(), None);
    assert_eq!(bench.server.stats().submitted.dropped_unbound, 2);
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn any_octets_are_survived_in_bounded_memory(
        pieces in prop::collection::vec(
            (0_usize..3, prop::collection::vec(any::<u8>(), 0..60), 0_u8..40, 0_u64..400), 0..60),
    ) {
        let flood = Backlog { octets: 4_000, u_pdus: 20 };
        let config = Config { flow: FlowControl { flood, ..FlowControl::default() }, limits: Limits { max_unread: 2_000, max_clients: 3, ..Limits::default() }, ..Config::default() };
        let mut server = Server::new(config, B);
        let mut now = Time::ZERO;
        let mut ids: Vec<_> = (0..3).map(|_| server.handle_connected(now).unwrap()).collect();
        for (at, octets, kind, seconds) in pieces {
            now += Duration::from_secs(seconds);
            // Mostly well framed, so that it gets far.
            let size = u16::try_from(octets.len() + 1).unwrap().to_be_bytes();
            let mut framed = vec![0x90, 0xeb, 0, size[0], size[1], kind];
            framed.extend(&octets);
            server.handle_octets(now, ids[at], if kind < 35 { &framed } else { &octets });
            for turn in 0.. {
                assert!(turn < 100, "it spins");
                server.handle_timeout(now);
                if server.next_timeout().is_none_or(|next| next > now) {
                    break;
                }
            }
            while let Some(event) = server.poll_event() {
                if let Event::Close(id) = event {
                    server.handle_disconnected(now, id);
                    let slot = ids.iter().position(|one| *one == id).unwrap();
                    ids[slot] = server.handle_connected(now).unwrap();
                }
            }
            if kind % 3 == 0 {
                let _ = server.poll_request(now, 0);
            }
            prop_assert!(!server.backlog().exceeds(flood));
            prop_assert!(server.buffered() <= 3 * (2_000 + 200 + 70_000));
        }
    }
}

fn request(u_pdu: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Primitive::UnidataRequest(UnidataRequest {
        priority: 0,
        to_sap: Sap::IP_CLIENT,
        to: B,
        delivery: Delivery::DEFAULT,
        ttl: 0,
        u_pdu,
    })
    .emit(&mut out);
    out
}

//! Tests of the reports to clients about their U_PDUs.

use std::time::Duration;

use super::{A, B, Bench, to_b};
use crate::s5066::Address;
use crate::s5066::service::{Failure, Indication, MAX_PRIORITY, Mode, Outcome};
use crate::s5066::sis::client::{self, Send};
use crate::s5066::sis::spdu::{Data, SPdu};
use crate::s5066::sis::{Config, Confirm, Confirmation, Sap, Service};

#[test]
fn the_node_confirms_what_the_other_node_has() {
    let mut bench = Bench::with_clients(&[9]);
    for text in ["same", "same", "else"] {
        bench.send(0, to_b(text.as_bytes()));
    }
    let requests = bench.requests();

    bench.outcome(&requests[2], Outcome::Done);
    bench.outcome(&requests[0], Outcome::Done);
    bench.outcome(&requests[1], Outcome::not_arrived(Failure::NoResponse));
    bench.outcome(&requests[1], Outcome::Done);

    assert_eq!(
        bench.take_trace(),
        ["0: confirmed 3", "0: confirmed 1", "0: rejected 2: destination node not responding"]
    );
    assert_eq!(bench.clients[0].1.pending(), 0);
}

#[test]
fn failures_have_their_reasons() {
    let mut bench = Bench::with_clients(&[9]);
    let failures = [Failure::Expired, Failure::NoResponse, Failure::Refused, Failure::LinkLost];
    for failure in failures {
        bench.send(0, to_b(b"x"));
        let request = bench.requests().remove(0);
        bench.outcome(&request, Outcome::not_arrived(failure));
    }

    assert_eq!(
        bench.take_trace(),
        [
            "0: rejected 1: time to live expired",
            "0: rejected 2: destination node not responding",
            "0: rejected 3: destination node not responding",
            "0: rejected 4: destination node not responding",
        ]
    );
}

#[test]
fn what_may_have_arrived_is_told_from_what_did_not() {
    let mut bench = Bench::with_clients(&[9]);
    for failure in [Failure::Expired, Failure::NoResponse, Failure::LinkLost] {
        bench.send(0, to_b(b"x"));
        let request = bench.requests().remove(0);
        bench.outcome(&request, Outcome::unknown(failure));
    }

    let told = |id| format!("0: rejected {id}: it may have arrived, nobody knows");
    assert_eq!(bench.take_trace(), [1, 2, 3].map(told));
}

#[test]
fn only_who_sets_a_time_to_live_and_asks_for_it_is_tried_again() {
    let mut bench = Bench::with_clients(&[9]);
    let again = Some(Service { is_retried: true, ..Service::ARQ });
    let minute = Duration::from_secs(60);
    bench.send(0, Send { service: again, ttl: minute, ..to_b(b"a") });
    bench.send(0, Send { service: again, ..to_b(b"b") });
    bench.send(0, Send { ttl: minute, ..to_b(b"c") });

    let tried: Vec<bool> = bench.requests().iter().map(|request| request.is_retried).collect();

    assert_eq!(tried, [true, false, false]);
}

#[test]
fn a_time_to_live_is_rounded_up_to_two_seconds() {
    let mut bench = Bench::with_clients(&[9]);
    for (millis, seconds) in [(1, 2), (2_000, 2), (2_500, 4)] {
        bench.send(0, Send { ttl: Duration::from_millis(millis), ..to_b(b"x") });

        let expires = bench.requests()[0].expires;
        assert_eq!(expires, Some(bench.now + Duration::from_secs(seconds)), "{millis}");
    }
}

#[test]
fn what_goes_to_a_node_that_pauses_waits_here() {
    let mut bench = Bench::with_clients(&[9]);
    bench.server.handle_pause(B, true);
    bench.send(0, to_b(b"B"));
    bench.send(0, Send { service: Some(Service::NON_ARQ), ..to_b(b"B, without ARQ") });
    bench.send(0, Send { to: Address::node(3), ..to_b(b"another") });

    let sent = |bench: &mut Bench| bench.requests().iter().map(|it| it.id.0).collect::<Vec<_>>();
    assert_eq!(sent(&mut bench), [2, 3]);
    bench.server.handle_pause(B, false);
    assert_eq!(sent(&mut bench), [1]);
}

#[test]
fn nobody_is_told_who_did_not_ask() {
    let mut bench = Bench::with_clients(&[9]);
    let service = Some(Service { confirmation: Confirmation::None, ..Service::ARQ });
    for _ in 0..2 {
        bench.send(0, Send { service, ..to_b(b"x") });
    }
    let requests = bench.requests();

    bench.outcome(&requests[0], Outcome::Done);
    bench.outcome(&requests[1], Outcome::not_arrived(Failure::LinkLost));

    assert!(bench.take_trace().is_empty());
    assert_eq!(bench.server.undecided(), 0);
}

/// Two nodes, both with a client at access point 9, and a U_PDU confirmed by the client.
fn across(config: Config, is_bound: bool, is_expedited: bool) -> (Vec<String>, Vec<String>) {
    let mut near = Bench::new(config.clone());
    near.connect(client::Config::new(Sap::new(4)));
    let mut far = Bench::new(config);
    if is_bound {
        far.connect(client::Config::new(Sap::IP_CLIENT));
    }
    near.take_trace();
    far.take_trace();
    let service = Some(Service { confirmation: Confirmation::Client, ..Service::ARQ });
    near.send(0, Send { service, is_expedited, ..to_b(b"hello, this is longer than the copy is") });
    let request = near.requests().remove(0);

    far.indicate(A, &request);
    let answer = far.requests().remove(0);
    near.outcome(&request, Outcome::Done);
    assert!(near.trace.is_empty());
    near.indicate(B, &answer);
    let traces = (near.take_trace(), far.take_trace());
    // Said again, it is about nothing.
    near.indicate(B, &answer);
    assert_eq!((near.take_trace(), near.server.stats().submitted.stray_confirms), (vec![], 1));
    traces
}

#[test]
fn the_other_client_confirms() {
    let received = [format!("0: received hello, this is longer than the copy is from {A} Arq")];
    for compact_confirm in [false, true] {
        let config = Config {
            confirm: Confirm { compact: compact_confirm, ..Confirm::default() },
            ..Config::default()
        };

        let (near, far) = across(config, true, false);

        assert_eq!(near, ["0: confirmed 1"]);
        assert_eq!(far, received);
    }
}

#[test]
fn the_other_client_confirms_what_is_expedited() {
    let (near, far) = across(Config::default(), true, true);

    assert_eq!(near, ["0: confirmed 1"]);
    assert!(far[0].contains(" expedited "), "{far:?}");
}

#[test]
fn the_other_node_says_that_nobody_is_bound_there() {
    for compact_confirm in [false, true] {
        let config = Config {
            confirm: Confirm { compact: compact_confirm, ..Confirm::default() },
            ..Config::default()
        };

        let (near, far) = across(config, false, false);

        assert_eq!(near, ["0: rejected 1: destination access point not bound"]);
        assert!(far.is_empty());
    }
}

#[test]
fn a_confirmation_that_does_not_come_is_a_rejection() {
    let mut bench = Bench::with_clients(&[9]);
    let service = Some(Service { confirmation: Confirmation::Client, ..Service::ARQ });
    bench.send(0, Send { service, ..to_b(b"x") });
    let request = bench.requests().remove(0);

    bench.outcome(&request, Outcome::Done);
    bench.wait(Duration::from_secs(301));

    assert_eq!(bench.take_trace(), ["0: rejected 1: it may have arrived, nobody knows"]);
    assert_eq!(bench.server.next_timeout(), None);
}

#[test]
fn what_confirms_expedited_data_is_as_urgent_as_expedited_data() {
    let mut bench = Bench::with_clients(&[9]);
    let mut expedited = Indication { is_expedited: true, ..indication(b"now") };
    expedited.s_pdu = data(b"now", true);
    bench.server.handle_indication(bench.now, &expedited);

    let answer = bench.server.poll_request(bench.now, MAX_PRIORITY).expect("a confirmation");

    assert!(answer.is_expedited);
    assert_eq!(answer.priority, MAX_PRIORITY);
}

#[test]
fn larger_than_the_mtu_is_delivered_all_the_same() {
    let mut bench = Bench::with_clients(&[9]);
    let u_pdu = vec![b'x'; 4_000];
    let expedited = Indication { is_expedited: true, ..indication(&u_pdu) };
    bench.server.handle_indication(bench.now, &expedited);
    bench.run();

    assert_eq!(bench.server.stats().delivered.octets_delivered, 4_000);
    assert!(bench.take_trace()[0].contains("expedited"));
}

#[test]
fn errors_reach_only_those_who_take_them() {
    let with_errors = Service { takes_errors: true, ..Service::NON_ARQ };
    let mut bench = Bench::with_clients(&[9]);
    let mut damaged = indication(b"HELLO");
    damaged.errored.push(4..6);
    damaged.missing.push(7..20);
    bench.server.handle_indication(bench.now, &damaged);
    assert_eq!(bench.server.stats().delivered.received_damaged, 1);

    bench.clients[0].1.unbind();
    let config = client::Config { service: with_errors, ..client::Config::new(Sap::IP_CLIENT) };
    bench.run();
    bench.connect(config);
    bench.server.handle_indication(bench.now, &damaged);
    damaged.errored.push(2..3);
    bench.server.handle_indication(bench.now, &damaged);
    bench.run();

    assert_eq!(
        bench.take_trace(),
        [
            "1: bound 4096".to_owned(),
            format!(
                "1: received HELLO from {B} NonArqWithErrors {{ errored: [Block {{ offset: 1, \
                 len: 2 }}], missing: [Block {{ offset: 4, len: 1 }}] }}"
            ),
        ]
    );
    assert_eq!(bench.server.stats().delivered.received_damaged, 2);
}

/// A U_PDU that came without ARQ.
fn indication(u_pdu: &[u8]) -> Indication {
    Indication {
        from: B,
        to: A,
        mode: Mode::ONCE,
        is_expedited: false,
        s_pdu: data(u_pdu, false),
        errored: Vec::new(),
        missing: Vec::new(),
    }
}

fn data(u_pdu: &[u8], is_confirmed: bool) -> Vec<u8> {
    let (from, to) = (Sap::new(1), Sap::IP_CLIENT);
    let mut s_pdu = Vec::new();
    SPdu::Data(Data { priority: 0, from, to, is_confirmed, ttd: None, id: None, u_pdu })
        .emit(&mut s_pdu);
    s_pdu
}

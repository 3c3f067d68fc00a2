//! Who goes first.

use std::time::Duration;

use super::{A, B, Bench, to_b};
use crate::s5066::Address;
use crate::s5066::service::Outcome;
use crate::s5066::service::{Mode, Request};
use crate::s5066::sis::client::{self, Send};
use crate::s5066::sis::spdu::SPdu;
use crate::s5066::sis::{Config, Confirmation, Limits, Sap, Service};

#[test]
fn expedited_goes_first_then_priority_then_clients_in_turn_then_age() {
    let mut bench = Bench::with_clients(&[1, 2]);
    for (client, priority, text) in
        [(0, 3, "a"), (0, 3, "b"), (0, 3, "c"), (1, 3, "d"), (1, 9, "e"), (1, 3, "f")]
    {
        bench.send(client, Send { priority, ..to_b(text.as_bytes()) });
    }
    bench.send(0, Send { is_expedited: true, ..to_b(b"g") });

    let order: Vec<_> = bench.requests().iter().map(tell).collect();

    assert_eq!(
        order,
        [
            "1 g expedited Arq { in_order: true } 15",
            "2 e Arq { in_order: true } 9",
            "1 a Arq { in_order: true } 3",
            "2 d Arq { in_order: true } 3",
            "1 b Arq { in_order: true } 3",
            "2 f Arq { in_order: true } 3",
            "1 c Arq { in_order: true } 3",
        ]
    );
}

#[test]
fn a_request_overrides_the_service_of_the_bind() {
    let mut bench = Bench::with_clients(&[1]);
    let non_arq = Service::of(Mode::NonArq { in_order: true, repeats: 2 });
    let as_it_arrives = Service::of(Mode::Arq { in_order: false });
    let client = Service { confirmation: Confirmation::Client, ..as_it_arrives };
    bench.send(0, to_b(b"a"));
    bench.send(0, Send { service: Some(non_arq), ..to_b(b"b") });
    bench.send(0, Send { service: Some(client), ..to_b(b"c") });
    bench.send(0, Send { service: Some(non_arq), is_expedited: true, ..to_b(b"d") });

    let order: Vec<_> = bench.requests().iter().map(tell).collect();

    assert_eq!(
        order,
        [
            "1 d expedited NonArq { in_order: false, repeats: 0 } 15",
            "1 a Arq { in_order: true } 0",
            "1 b NonArq { in_order: true, repeats: 2 } 0",
            "1 c Arq { in_order: false } 0",
        ]
    );
}

#[test]
fn what_cannot_be_delivered_is_rejected_at_once() {
    let mut bench = Bench::with_clients(&[1]);
    bench.send(0, Send { to: Address::BROADCAST, ..to_b(b"group") });
    bench.send(0, Send { to: A, ..to_b(b"self") });
    let strange = Service { confirmation: Confirmation::Node, ..Service::NON_ARQ };
    bench.send(0, Send { service: Some(strange), ..to_b(b"confirmed") });
    // The client's own check is gone round.
    let octets = {
        use crate::s5066::sis::primitive::{Primitive, UnidataRequest};
        let mut out = Vec::new();
        Primitive::UnidataRequest(UnidataRequest {
            priority: 0,
            to_sap: Sap::IP_CLIENT,
            to: B,
            delivery: Service::NON_ARQ.into(),
            ttl: 0,
            u_pdu: &[0; 4_097],
        })
        .emit(&mut out);
        out
    };
    let id = bench.clients[0].0;
    bench.server.handle_octets(bench.now, id, &octets);
    bench.run();

    assert!(bench.requests().is_empty());
    assert_eq!(
        bench.take_trace(),
        [
            "0: rejected 1: transmission mode not specified",
            "0: rejected 2: transmission mode not specified",
            "0: rejected 3: transmission mode not specified",
            "0: rejected: larger than the MTU",
        ]
    );
}

#[test]
fn what_is_too_old_is_not_sent_and_told_to_those_who_asked() {
    let mut bench = Bench::with_clients(&[1]);
    let ttl = Duration::from_secs(10);
    let none = Service { confirmation: Confirmation::None, ..Service::ARQ };
    bench.send(0, Send { ttl, ..to_b(b"a") });
    bench.send(0, Send { ttl, service: Some(none), ..to_b(b"b") });
    bench.send(0, to_b(b"c"));

    bench.wait(Duration::from_secs(11));

    assert_eq!(bench.take_trace(), ["0: rejected 1: time to live expired"]);
    assert_eq!(bench.server.stats().submitted.expired, 2);
    let left: Vec<_> = bench.requests().iter().map(tell).collect();
    assert_eq!(left, ["1 c Arq { in_order: true } 0"]);
}

#[test]
fn the_time_to_live_goes_along_and_counts_at_the_other_end() {
    let mut bench = Bench::with_clients(&[9]);
    bench.send(0, Send { ttl: Duration::from_secs(100), ..to_b(b"a") });
    let request = bench.requests().remove(0);
    assert_eq!(request.expires, Some(bench.now + Duration::from_secs(100)));

    bench.wait(Duration::from_secs(99));
    bench.indicate(B, &request);
    bench.wait(Duration::from_secs(20));
    bench.indicate(B, &request);

    assert_eq!(bench.take_trace(), [format!("0: received a from {B} Arq")]);
    assert_eq!(bench.server.stats().delivered.received_late, 1);
}

#[test]
fn a_node_may_set_a_longest_time_to_live() {
    let max_ttl = Some(Duration::from_secs(50));
    let mut bench = Bench::new(Config { max_ttl, ..Config::default() });
    bench.connect(client::Config::new(Sap::new(9)));
    bench.send(0, Send { ttl: Duration::from_secs(100), ..to_b(b"a") });
    bench.send(0, Send { ttl: Duration::from_secs(10), ..to_b(b"b") });
    bench.send(0, to_b(b"c"));

    let expires: Vec<_> = bench.requests().iter().map(|request| request.expires).collect();

    let after = |seconds| Some(bench.now + Duration::from_secs(seconds));
    assert_eq!(expires, [after(50), after(10), after(50)]);
}

#[test]
fn no_more_is_handed_down_than_may_be_undecided() {
    let mut bench = Bench::new(Config {
        limits: Limits { max_undecided: 2, ..Limits::default() },
        ..Config::default()
    });
    bench.connect(client::Config::new(Sap::new(9)));
    for text in ["a", "b", "c"] {
        bench.send(0, to_b(text.as_bytes()));
    }

    let first = bench.requests();
    bench.outcome(&first[0], Outcome::Done);
    let second = bench.requests();

    assert_eq!([first.len(), second.len()], [2, 1]);
}

fn tell(request: &Request) -> String {
    let Ok(SPdu::Data(data)) = SPdu::parse(&request.s_pdu) else { return "no data".into() };
    let text = String::from_utf8_lossy(data.u_pdu);
    let Request { mode, is_expedited, priority, .. } = request;
    let expedited = if *is_expedited { "expedited " } else { "" };
    format!("{} {text} {expedited}{mode:?} {priority}", data.from)
}

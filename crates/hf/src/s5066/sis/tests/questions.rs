//! Tests of clients' requests to a node of ours beyond the standard, and of its unasked reports.

use super::{A, B, Bench, to_b};
use crate::s5066::Address;
use crate::s5066::service::{Command, Failure, Outcome};
use crate::s5066::sis::client::{self, Send};
use crate::s5066::sis::server::Known;
use crate::s5066::sis::{Config, PeerState, Sap};

#[test]
fn what_waits_is_taken_back_at_once() {
    let mut bench = Bench::with_clients(&[9]);
    let ids = ["one", "two", "three"].map(|text| bench.send(0, to_b(text.as_bytes())));

    assert!(bench.clients[0].1.take_back(ids[1]));
    bench.run();

    assert_eq!(bench.take_trace(), ["0: rejected 2: taken back"]);
    assert_eq!(bench.server.backlog().u_pdus, 2);
    assert_eq!(bench.server.stats().submitted.taken_back, 1);
    assert!(!bench.clients[0].1.take_back(ids[1]), "it is not known any more");
    assert_eq!(bench.requests().len(), 2);
}

#[test]
fn what_the_layers_below_have_is_taken_back_if_they_can() {
    let mut bench = Bench::with_clients(&[9]);
    let ids = ["one", "two"].map(|text| bench.send(0, to_b(text.as_bytes())));
    let requests = bench.requests();
    for id in ids {
        assert!(bench.clients[0].1.take_back(id));
    }
    bench.run();
    let commands: Vec<_> = std::iter::from_fn(|| bench.server.poll_command()).collect();
    let asked = [0, 1].map(|at: usize| Command::TakeBack { id: requests[at].id });
    assert_eq!(commands, asked);

    bench.outcome(&requests[0], Outcome::Done);
    bench.outcome(&requests[1], Outcome::not_arrived(Failure::TakenBack));

    assert_eq!(bench.take_trace(), ["0: confirmed 1", "0: rejected 2: taken back"]);
    assert_eq!(
        (bench.server.stats().submitted.taken_back, bench.server.stats().submitted.failed),
        (1, 0)
    );
}

#[test]
fn nobody_takes_back_what_is_anothers() {
    let mut bench = Bench::with_clients(&[9, 4]);
    bench.send(0, to_b(b"same"));
    let own = bench.send(1, to_b(b"same"));
    assert!(bench.clients[1].1.take_back(own));
    bench.run();

    assert_eq!(bench.take_trace(), ["1: rejected 1: taken back"]);
    assert_eq!(bench.server.backlog().u_pdus, 1);
}

#[test]
fn a_client_learns_how_it_is_with_a_node() {
    let mut bench = Bench::with_clients(&[9, 4]);
    bench.send(0, to_b(&[1; 100]));
    bench.send(1, to_b(&[1; 20]));
    bench.send(1, Send { to: Address::node(3), ..to_b(&[1; 7]) });

    assert!(bench.clients[0].1.ask_about(B));
    bench.run();
    let Some(Command::Describe { client, node }) = bench.server.poll_command() else {
        panic!("the layers below are asked");
    };
    assert_eq!((client, node), (bench.clients[0].0, B));
    let known = Known { state: PeerState::Calling, bits_per_s: 9_600, backlog: 1_000 };
    bench.server.handle_described(bench.now, client, node, known);
    bench.run();

    assert_eq!(
        bench.take_trace(),
        [
            "0: peer PeerStatus { node: 0.10.20.31, state: Calling, bits_per_s: 9600, backlog: 1120, \
          own_backlog: 100 }"
        ]
    );
}

#[test]
fn only_rank_15_asks_for_a_rate() {
    let waveform = "600/short".parse().unwrap();
    for (rank, asked) in [(14, None), (15, Some(Command::AskRate { node: B, waveform }))] {
        let mut bench = Bench::new(Config::default());
        bench.connect(client::Config { rank, ..client::Config::new(Sap::IP_CLIENT) });

        assert!(bench.clients[0].1.ask_for_rate(B, waveform));
        bench.run();

        assert_eq!(bench.server.poll_command(), asked);
        assert_eq!(bench.server.stats().clients.management_refused, u64::from(asked.is_none()));
    }
}

#[test]
fn a_node_that_does_not_say_that_it_can_is_not_asked() {
    let mut bench = Bench::new(Config { has_messages: false, ..Config::default() });
    bench.connect(client::Config::new(Sap::IP_CLIENT));
    let id = bench.send(0, to_b(b"x"));

    assert!(!bench.clients[0].1.take_back(id));
    assert!(!bench.clients[0].1.ask_about(B));
}

#[test]
fn nonsense_counts_as_an_invalid_primitive() {
    let mut bench = Bench::with_clients(&[9]);
    bench.clients[0].1.manage(0x54, &[77]);
    bench.run();

    assert_eq!(bench.server.stats().clients.invalid, 1);
}

#[test]
fn a_node_of_ours_says_of_each_u_pdu_that_nobody_took_it() {
    for (is_ours, late) in [(true, false), (true, true), (false, true)] {
        let mut near = Bench::with_clients(&[4]);
        let mut far = Bench::at(Config::default(), B);
        near.server.handle_introduced(B, is_ours);
        far.server.handle_introduced(A, is_ours);
        for text in ["one", "two"] {
            near.send(0, to_b(text.as_bytes()));
        }
        let requests = near.requests();
        for request in &requests {
            far.indicate(A, request);
            if late {
                near.outcome(request, Outcome::Done);
            }
        }
        assert_eq!(far.server.stats().delivered.not_bound, 2);
        for told in far.requests() {
            near.indicate(B, &told);
        }
        for request in &requests {
            near.outcome(request, Outcome::Done);
        }

        let confirmed = ["0: confirmed 1", "0: confirmed 2"];
        let not_bound = "destination access point not bound";
        let expected = match (is_ours, late) {
            (false, _) => confirmed.map(str::to_owned).to_vec(),
            (true, true) => {
                let told = format!("0: rejected: {not_bound}");
                [confirmed.map(str::to_owned).to_vec(), vec![told.clone(), told]].concat()
            }
            (true, false) => [1, 2].map(|id| format!("0: rejected {id}: {not_bound}")).to_vec(),
        };
        assert_eq!(near.take_trace(), expected, "{is_ours} {late}");
        assert_eq!(near.server.stats().submitted.unreceived, if is_ours && late { 2 } else { 0 });
    }
}

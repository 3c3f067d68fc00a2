//! Tests of waiting datagrams, and of datagrams that need not be sent.

use std::time::Duration;

use base::tcp::{Flags, Options, SackBlocks};

use super::{Bench, config, tcp, tcp_with, tell, u_pdu, udp};
use crate::ipclient::Config;
use crate::s5066::service::{Mode, Outcome, Request};
use crate::s5066::sis;
use crate::s5066::sis::server::Backlog;

const ACK: Flags = Flags::ACK;

#[test]
fn the_highest_priority_goes_first_and_the_lowest_has_to_go() {
    let mut bench = closed(Config { queue: 1_000, ..config() });
    for (dscp, len) in [(0, 300), (0, 301), (8, 400), (0, 302), (16, 403)] {
        bench.send(&udp([10, 0, 2, 9], dscp, len));
    }

    let told: Vec<_> = open(&mut bench).iter().map(tell).collect();

    assert_eq!(
        told,
        ["0.0.0.2 Arq { in_order: true } 4: 403", "0.0.0.2 Arq { in_order: true } 2: 400"]
    );
    // Of the lowest, one found no room, and two made some.
    assert_eq!(bench.client.stats().taken.queue_full, 3);
}

#[test]
fn what_waited_for_too_long_is_not_sent_and_the_rest_of_its_time_goes_along() {
    let mut config = config();
    config.classes[0].ttl = Some(Duration::from_secs(10));
    config.classes[8].ttl = Some(Duration::from_secs(30));
    let mut bench = closed(config);
    for dscp in [0, 8, 16] {
        bench.send(&udp([10, 0, 2, 9], dscp, 100));
    }
    bench.now += Duration::from_secs(11);
    bench.client.handle_timeout(bench.now);

    let requests = open(&mut bench);

    let expires: Vec<_> = requests.iter().map(|request| request.expires).collect();
    // 19 s left, in units of 2 s.
    assert_eq!(expires, [None, Some(bench.now + Duration::from_secs(20))]);
    assert_eq!(bench.client.stats().taken.expired, 1);
}

#[test]
fn a_segment_that_is_on_its_way_is_not_sent_again() {
    let mut bench = closed(config());
    let segment = tcp(1, 1, ACK, b"data");
    bench.send(&segment);
    bench.send(&segment);
    // The acknowledgement and the push bit make no difference, the sequence number does.
    bench.send(&tcp(1, 9, ACK.with(Flags::PSH, true), b"data"));
    bench.send(&tcp(5, 1, ACK, b"data"));
    let requests = open(&mut bench);
    assert_eq!(requests.len(), 2);

    bench.send(&segment);
    assert!(bench.requests().is_empty());
    bench.outcome(&requests[0], Outcome::Done);
    bench.send(&segment);

    assert_eq!(bench.requests().len(), 1);
    assert_eq!(bench.client.stats().taken.absorbed, 3);
}

#[test]
fn an_acknowledgement_that_the_node_has_not_begun_gives_way_to_a_later_one() {
    let mut bench = Bench::new(config());
    for ack in [10, 20, 20, 30] {
        bench.send(&tcp(1, ack, ACK, b""));
    }
    // All were handed over at once, and duplicates are left alone.
    assert_eq!(bench.client.stats().queued, 0);
    let acks = |requests: &[Request]| -> Vec<u8> {
        requests.iter().map(|request| u_pdu(request)[20 + 11]).collect()
    };

    let requests = bench.requests();
    assert_eq!(acks(&requests), [20, 30]);
    assert_eq!(bench.client.stats().taken.superseded, 2);

    // Those are on the air: the next one does not take anything back.
    bench.send(&tcp(1, 40, ACK, b""));
    assert_eq!(acks(&bench.requests()), [40]);
    for request in requests {
        bench.outcome(&request, Outcome::Done);
    }
    let stats = bench.client.stats();
    assert_eq!((stats.handed.packets, stats.taken.superseded, stats.handed.confirmed), (5, 2, 2));
}

#[test]
fn what_was_taken_back_does_not_hide_the_acknowledgement_behind_it_from_the_next() {
    let mut bench = Bench::new(config());
    for ack in [10, 20, 30] {
        bench.send(&tcp(1, ack, ACK, b""));
    }

    let acks: Vec<u8> = bench.requests().iter().map(|it| u_pdu(it)[20 + 11]).collect();

    assert_eq!(acks, [30]);
    assert_eq!(bench.client.stats().taken.superseded, 2);
}

#[test]
fn what_the_stack_has_taken_leaves_room_for_the_next() {
    let mut bench = Bench::new(Config { received: 1_000, ..config() });
    let packet = udp([10, 0, 1, 9], 0, 400);
    for _ in 0..20 {
        bench.receive(&packet);
        assert_eq!(bench.packets(), std::slice::from_ref(&packet));
    }
    assert_eq!(bench.client.stats().received.received_full, 0);
}

#[test]
fn without_arq_a_segment_is_on_its_way_until_it_is_handed_over() {
    let mut config = config();
    config.set_unicast(Mode::ONCE);
    let mut bench = closed(config);
    let segment = tcp(1, 1, ACK, b"data");
    bench.send(&segment);
    bench.send(&segment);
    assert_eq!(open(&mut bench).len(), 1);

    bench.send(&segment);

    assert_eq!(bench.requests().len(), 1);
    assert_eq!(bench.client.stats().taken.absorbed, 1);
}

#[test]
fn a_waiting_acknowledgement_gives_way_to_a_later_one() {
    let mut bench = closed(config());
    bench.send(&tcp(7, 100, ACK, b""));
    bench.send(&udp([10, 0, 2, 9], 0, 60));
    bench.send(&tcp(7, 200, ACK, b""));
    bench.send(&tcp(7, 300, ACK, b""));

    let requests = open(&mut bench);

    // In the place of the first.
    assert_eq!(requests.iter().map(ack).collect::<Vec<_>>(), [Some(300), None]);
    assert_eq!(bench.client.stats().taken.superseded, 2);
}

#[test]
fn an_acknowledgement_that_says_something_else_is_kept() {
    let mut bench = closed(config());
    let mut sack = SackBlocks::default();
    sack.push(500, 600);
    let with_sack = Options { sack, ..Options::default() };
    bench.send(&tcp(7, 300, ACK, b""));
    // Duplicates, for fast retransmission; with SACK; congestion; an older one; data; a FIN.
    bench.send(&tcp(7, 300, ACK, b""));
    bench.send(&tcp_with(7, 300, ACK, b"", with_sack));
    bench.send(&tcp(7, 400, ACK.with(Flags::ECE, true), b""));
    bench.send(&tcp(7, 200, ACK, b""));
    bench.send(&tcp(7, 500, ACK, b"data"));
    bench.send(&tcp(11, 500, ACK.with(Flags::FIN, true), b""));

    let acks: Vec<_> = open(&mut bench).iter().map(ack).collect();

    assert_eq!(acks, [300, 300, 300, 400, 200, 500, 500].map(Some));
    assert_eq!(bench.client.stats().taken.superseded, 0);
}

#[test]
fn all_is_sent_when_that_is_asked_for() {
    let mut bench = closed(Config { supersede: false, ..config() });
    for packet in [tcp(1, 1, ACK, b"data"), tcp(1, 1, ACK, b"data")] {
        bench.send(&packet);
    }
    for ack in [100, 200] {
        bench.send(&tcp(7, ack, ACK, b""));
    }

    assert_eq!(open(&mut bench).len(), 4);
}

#[test]
fn fragments_and_resets_are_never_taken_for_repeats() {
    let mut bench = closed(config());
    let reset = tcp(1, 1, ACK.with(Flags::RST, true), b"");
    let mut fragment = tcp(1, 1, ACK, b"data");
    fragment[6] = 0x20;
    base::ip::rewrite_v4_checksum(&mut fragment[..20]);
    for packet in [&reset, &reset, &fragment, &fragment] {
        bench.send(packet);
    }

    assert_eq!(open(&mut bench).len(), 4);
}

#[test]
fn the_node_gets_what_it_confirms_in_the_horizon() {
    let horizon = Duration::from_secs(100);
    let mut bench =
        Bench::new(Config { horizon, queue: 2 << 20, window: (1_000, 1 << 20), ..config() });
    for _ in 0..1_000 {
        bench.send(&udp([10, 0, 2, 9], 0, 1_000));
    }
    assert_eq!(bench.client.stats().unconfirmed, 17_000);

    // It does 1,000 octets/s, then 100.
    let mut windows = Vec::new();
    for (pace, count) in [(1, 300), (10, 100)] {
        let mut waiting = bench.requests();
        for _ in 0..count {
            bench.now += Duration::from_secs(pace);
            let request = waiting.remove(0);
            bench.outcome(&request, Outcome::Done);
            waiting.extend(bench.requests());
        }
        windows.push(bench.client.stats().window);
        for request in waiting {
            bench.outcome(&request, Outcome::not_arrived(crate::s5066::service::Failure::LinkLost));
        }
    }

    assert!((90_000..110_000).contains(&windows[0]), "{windows:?}");
    assert!((9_000..20_000).contains(&windows[1]), "{windows:?}");
}

#[test]
fn flow_control_of_the_node_is_heeded() {
    let flow = |u_pdus| Backlog { octets: 1 << 20, u_pdus };
    let server = sis::Config {
        flow: sis::FlowControl { off: flow(3), on: flow(1), ..sis::FlowControl::default() },
        ..sis::Config::default()
    };
    let mut bench = Bench::unconnected(config(), server);
    bench.connect();
    for _ in 0..10 {
        bench.send(&udp([10, 0, 2, 9], 0, 100));
    }
    assert_eq!(bench.client.stats().queued, 600);

    let requests = bench.requests();

    assert_eq!(requests.len(), 10);
    assert_eq!(bench.client.stats().queued, 0);
}

/// A client that is not connected yet, so that all waits.
fn closed(config: Config) -> Bench {
    Bench::unconnected(config, sis::Config::default())
}

fn open(bench: &mut Bench) -> Vec<Request> {
    bench.connect();
    bench.requests()
}

/// What a TCP segment acknowledges.
fn ack(request: &Request) -> Option<u32> {
    let packet = u_pdu(request);
    (packet[9] == 6).then(|| u32::from_be_bytes(packet[28..32].try_into().unwrap()))
}

#[test]
fn little_traffic_does_not_narrow_what_the_node_may_have() {
    let mut bench = Bench::new(config());
    let before = bench.client.stats().window;
    for _ in 0..20 {
        bench.send(&udp([10, 0, 2, 9], 0, 60));
        let request = bench.requests().remove(0);
        bench.now += Duration::from_secs(2);
        bench.outcome(&request, Outcome::Done);
    }

    assert_eq!(bench.client.stats().window, before);
}

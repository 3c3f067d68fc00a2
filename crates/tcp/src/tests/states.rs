//! Every way through the state machine (RFC 9293, 3.3.2).

use std::time::Duration;

use base::ip::icmp;
use base::tcp::{Flags, Options, Segment};

use super::pair::{Pair, pattern};
use super::script::{ACK, FIN, NOTHING, RST, SYN, SYN_ACK, Script, mss_option, plain};
use crate::{Config, Event, Offer, State};

#[test]
fn an_active_open_connects() {
    let mut script = Script::connect(plain());
    assert_eq!(script.sent(), ["S 0+0"]);
    assert_eq!(script.tcp.state(), State::SynSent);
    script.options = mss_option();

    assert_eq!(script.peer(0, 1, SYN_ACK, 0), [". 1+0 ack 1"]);

    assert_eq!(script.tcp.state(), State::Established);
    assert_eq!(script.events(), [Event::Connected]);
    assert_eq!(script.tcp.mss(), 1_000);
}

#[test]
fn what_comes_with_a_syn_ack_is_kept() {
    let mut script = Script::connect(plain());
    let _ = script.sent();
    script.options = mss_option();

    assert_eq!(script.peer(0, 1, SYN_ACK, 5), [". 1+0 ack 6"]);
    assert_eq!(script.tcp.readable(), 5);
}

#[test]
fn a_connection_rests_while_nothing_is_unacknowledged_either_way() {
    let mut script = Script::open(plain());
    assert!(script.tcp.is_at_rest());

    let _ = script.write(100);
    assert!(!script.tcp.is_at_rest(), "the peer is to answer");
    let _ = script.peer(1, 101, ACK, 0);
    assert!(script.tcp.is_at_rest());
    let _ = script.peer(1, 101, ACK, 100);
    assert!(!script.tcp.is_at_rest(), "we are to answer");
    let _ = script.wait(500);
    assert!(script.tcp.is_at_rest());
}

#[test]
fn an_aborted_connection_keeps_nothing_to_send() {
    let mut script = Script::open(plain());
    let _ = script.write(60_000);
    assert_eq!(script.peer(1, 1, ACK, 100), NOTHING, "the acknowledgement waits");
    assert!(script.tcp.unsent() > 0);

    script.tcp.abort();

    assert_eq!(script.tcp.unsent(), 0);
    assert_eq!(script.sent().len(), 1, "the reset");
    assert_eq!(script.tcp.next_timeout(), None);
}

#[test]
fn a_passive_open_connects_and_takes_data_with_the_ack() {
    let mut script = Script::accept(plain(), mss_option());
    assert_eq!(script.sent(), ["S. 0+0 ack 1"]);
    assert_eq!(script.tcp.state(), State::SynReceived);

    assert_eq!(script.peer(1, 1, ACK, 5), NOTHING);

    assert_eq!(script.tcp.state(), State::Established);
    assert_eq!(script.events(), [Event::Connected, Event::Readable]);
    assert_eq!(script.tcp.readable(), 5);
}

#[test]
fn a_syn_that_comes_again_gets_its_answer_again() {
    let mut script = Script::accept(plain(), mss_option());
    let _ = script.sent();

    script.skip(900);
    assert_eq!(script.peer(0, 0, SYN, 0), ["S. 0+0 ack 1"], "at once");
    assert_eq!(script.wait(100), ["100: S. 0+0 ack 1"], "and by its own timer");
}

#[test]
fn two_syns_that_cross_make_one_connection() {
    let mut script = Script::connect(plain());
    let _ = script.sent();
    script.options = mss_option();

    assert_eq!(script.peer(0, 0, SYN, 0), ["S. 0+0 ack 1"]);
    assert_eq!(script.tcp.state(), State::SynReceived);
    assert_eq!(script.peer(0, 1, SYN_ACK, 0), [". 1+0 ack 1"]);
    assert_eq!(script.tcp.state(), State::Established);
    assert_eq!(script.events(), [Event::Connected]);
}

#[test]
fn crossing_syns_between_two_of_us_carry_data() {
    let mut pair = Pair::simultaneous(Config::default(), Config::default());
    pair.client.to_write = pattern(5_000);
    pair.server.to_write = pattern(3_000);
    pair.client.closes = true;
    pair.server.closes = true;

    assert!(pair.run_for(Duration::from_secs(200)), "{:#?}", pair.trace);

    assert!(pair.server.received == pattern(5_000) && pair.client.received == pattern(3_000));
    assert_eq!(pair.client().stats().sent.retransmissions, 0);
}

#[test]
fn closing_first_ends_in_time_wait() {
    let mut script = Script::open(plain());

    assert_eq!(script.close(), ["F. 1+0 ack 1"]);
    assert_eq!(script.tcp.state(), State::FinWait1);
    assert_eq!(script.peer(1, 2, ACK, 0), NOTHING);
    assert_eq!(script.tcp.state(), State::FinWait2);
    assert_eq!(script.peer(1, 2, FIN, 0), [". 2+0 ack 2"]);
    assert_eq!(script.tcp.state(), State::TimeWait);
    assert_eq!(script.events(), [Event::PeerClosed]);

    script.skip(30_000);
    assert_eq!(script.peer(1, 2, FIN, 0), [". 2+0 ack 2"], "the FIN came again: so does the ACK");
    script.skip(59_999);
    assert_eq!(script.tcp.state(), State::TimeWait);
    script.skip(1);
    assert_eq!(script.tcp.state(), State::Closed);
    assert_eq!(script.events(), [Event::Closed]);
}

#[test]
fn closing_second_ends_with_the_last_ack() {
    let mut script = Script::open(plain());

    assert_eq!(script.peer(1, 1, FIN, 0), [". 1+0 ack 2"]);
    assert_eq!(script.tcp.state(), State::CloseWait);
    assert_eq!(script.close(), ["F. 1+0 ack 2"]);
    assert_eq!(script.tcp.state(), State::LastAck);
    assert_eq!(script.peer(2, 2, ACK, 0), NOTHING);
    assert_eq!(script.tcp.state(), State::Closed);
    assert_eq!(script.events(), [Event::PeerClosed, Event::Closed]);
}

#[test]
fn fins_that_cross_close_both_ends() {
    let mut script = Script::open(plain());
    assert_eq!(script.close(), ["F. 1+0 ack 1"]);

    assert_eq!(script.peer(1, 1, FIN, 0), [". 2+0 ack 2"]);
    assert_eq!(script.tcp.state(), State::Closing);
    assert_eq!(script.peer(2, 2, ACK, 0), NOTHING);
    assert_eq!(script.tcp.state(), State::TimeWait);
}

#[test]
fn a_fin_that_acknowledges_ours_goes_straight_to_time_wait() {
    let mut script = Script::open(plain());
    let _ = script.close();

    assert_eq!(script.peer(1, 2, FIN, 0), [". 2+0 ack 2"]);
    assert_eq!(script.tcp.state(), State::TimeWait);
}

#[test]
fn a_half_closed_connection_still_takes_data() {
    let mut script = Script::open(plain());
    let _ = script.write(10);
    let _ = script.close();
    assert_eq!(script.tcp.write(b"late"), 0, "nothing goes after close");
    let _ = script.peer(1, 12, ACK, 0);

    assert_eq!(script.peer(1, 12, ACK, 100), NOTHING);
    assert_eq!(script.peer(101, 12, FIN, 100), [". 12+0 ack 202"]);
    assert_eq!(script.read(200), NOTHING);
    assert_eq!(script.tcp.state(), State::TimeWait);
}

#[test]
fn fin_goes_with_the_last_data_and_is_sent_again_with_it() {
    let mut script = Script::open(plain());
    assert_eq!(script.tcp.write(&[1; 1_500]), 1_500);

    assert_eq!(script.close(), [". 1+1000 ack 1", "F. 1001+500 ack 1"]);
    assert_eq!(script.wait(1_000), ["1000: . 1+1000 ack 1"]);
    assert_eq!(script.peer(1, 1_001, ACK, 0), ["F. 1001+500 ack 1"]);
    assert_eq!(script.peer(1, 1_502, ACK, 0), NOTHING);
    assert_eq!(script.tcp.state(), State::FinWait2);
}

#[test]
fn a_fin_ahead_of_its_data_waits_for_it() {
    let mut script = Script::open(plain());

    assert_eq!(script.peer(101, 1, FIN, 100), [". 1+0 ack 1"]);
    assert_eq!(script.tcp.state(), State::Established);
    assert_eq!(script.peer(1, 1, ACK, 100), [". 1+0 ack 202"]);
    assert_eq!(script.tcp.state(), State::CloseWait);
    assert_eq!(script.events(), [Event::Readable, Event::PeerClosed]);
}

#[test]
fn closing_while_connecting() {
    let mut script = Script::connect(plain());
    let _ = script.sent();
    assert_eq!(script.close(), NOTHING);
    assert_eq!(script.events(), [Event::Closed]);

    let mut script = Script::accept(plain(), mss_option());
    let _ = script.sent();
    assert_eq!(script.close(), NOTHING);
    assert_eq!(script.peer(1, 1, ACK, 0), ["F. 1+0 ack 1"]);
    assert_eq!(script.tcp.state(), State::FinWait1);
}

#[test]
fn abort_tells_the_peer() {
    let mut script = Script::open(plain());
    let _ = script.write(100);

    script.tcp.abort();

    assert_eq!(script.sent(), ["R. 101+0 ack 1"]);
    assert_eq!(script.events(), [Event::Closed]);
    assert_eq!(script.tcp.next_timeout(), None);
    assert_eq!(script.peer(1, 1, ACK, 10), ["R 1+0"], "there is no connection any more");
}

#[test]
fn a_refused_syn_ends_the_attempt() {
    let mut script = Script::connect(plain());
    let _ = script.sent();

    assert_eq!(script.peer(0, 7, RST | ACK, 0), NOTHING);
    assert_eq!(script.peer(0, 0, RST, 0), NOTHING);
    assert_eq!(script.tcp.state(), State::SynSent, "not about our SYN");
    let received = script.tcp.stats().received;
    assert_eq!((received.bad_acks, received.ignored_resets), (1, 1));
    assert_eq!(script.peer(0, 1, RST | ACK, 0), NOTHING);
    assert_eq!(script.events(), [Event::Reset]);
    assert_eq!(script.tcp.state(), State::Closed);
}

#[test]
fn an_old_acknowledgement_of_a_syn_is_reset() {
    let mut script = Script::connect(plain());
    let _ = script.sent();

    assert_eq!(script.peer(0, 99, SYN_ACK, 0), ["R 99+0"]);
    assert_eq!(script.tcp.state(), State::SynSent);
    let mut script = Script::accept(plain(), mss_option());
    let _ = script.sent();
    assert_eq!(script.peer(1, 99, ACK, 0), ["R 99+0"]);
    assert_eq!(script.tcp.state(), State::SynReceived);
    assert_eq!(script.tcp.stats().received.bad_acks, 1);
}

#[test]
fn only_an_exact_reset_is_believed() {
    let mut script = Script::open(plain());

    assert_eq!(script.peer(500, 1, RST, 0), [". 1+0 ack 1"], "in the window: challenged");
    assert_eq!(script.peer(0x7000_0000, 1, RST, 0), NOTHING, "outside: ignored");
    assert_eq!(script.tcp.state(), State::Established);
    assert_eq!(script.peer(1, 1, RST, 0), NOTHING);
    assert_eq!(script.events(), [Event::Reset]);
    assert_eq!(script.tcp.stats().received.ignored_resets, 2);
}

#[test]
fn a_syn_in_an_open_connection_is_challenged() {
    let mut script = Script::open(plain());

    assert_eq!(script.peer(500, 0, SYN, 0), [". 1+0 ack 1"]);
    assert_eq!(script.peer(0, 0, SYN, 0), [". 1+0 ack 1"]);
    assert_eq!(script.tcp.state(), State::Established);
}

#[test]
fn challenges_are_limited_per_second() {
    let mut script = Script::open(Config { challenge_acks_per_s: 3, ..plain() });

    let answers: usize = (0..10).map(|_| script.peer(500, 0, SYN, 0).len()).sum();
    assert_eq!(answers, 3);
    // A second after the connection was opened.
    script.skip(900);
    assert_eq!(script.peer(500, 0, SYN, 0).len(), 1);
    assert_eq!(script.tcp.stats().sent.challenge_acks_held, 7);
}

#[test]
fn acknowledgements_of_the_future_and_of_the_far_past_are_challenged() {
    let mut script = Script::open(plain());
    let _ = script.write(100);

    assert_eq!(script.peer(1, 102, ACK, 5), [". 101+0 ack 1"]);
    assert_eq!(script.peer(1, 0x8000_0000, ACK, 5), [". 101+0 ack 1"]);
    assert_eq!(script.tcp.stats().received.bad_acks, 2);
    assert_eq!(script.tcp.readable(), 0, "nor is their data taken");
}

#[test]
fn urgent_data_is_ordinary_data() {
    let mut script = Script::open(plain());

    assert_eq!(script.peer(1, 1, ACK | Flags::URG, 100), NOTHING);

    assert_eq!(script.read(100), NOTHING);
}

#[test]
fn icmp_errors_are_told_and_end_nothing_that_is_open() {
    let mut pair = Pair::new(plain(), plain());
    let _ = pair.run_for(Duration::from_secs(1));
    let now = pair.now;
    pair.client.to_write = pattern(100);
    let seq = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = seq.clone();
    let mut pair = pair.with_fate(move |_, _, segment: &Segment<'_>| {
        seen.set(segment.seq);
        Vec::new()
    });
    let _ = pair.run_for(Duration::ZERO);

    pair.client().handle_icmp(now, icmp::Error::PortUnreachable, seq.get());
    pair.client().handle_icmp(now, icmp::Error::TtlExceeded, seq.get().wrapping_add(100));

    let expected = Event::SoftError(icmp::Error::PortUnreachable);
    assert_eq!(pair.client().poll_event(), Some(expected));
    assert_eq!(pair.client().poll_event(), None, "not about anything in flight");
    assert_eq!(pair.client().state(), State::Established);
}

#[test]
fn an_unreachable_port_refuses_a_connection_that_is_opening() {
    let seq = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = seq.clone();
    let mut pair = Pair::new(plain(), plain()).with_fate(move |_, _, segment: &Segment<'_>| {
        seen.set(segment.seq);
        Vec::new()
    });
    let _ = pair.run_for(Duration::ZERO);
    let now = pair.now;

    pair.client().handle_icmp(now, icmp::Error::PortUnreachable, seq.get());

    assert_eq!(pair.client().poll_event(), Some(Event::Reset));
    assert_eq!(pair.client().state(), State::Closed);
    assert_eq!(pair.client().stats().received.icmp_errors, 1);
}

#[test]
fn the_window_is_scaled_from_the_first_segment_without_syn() {
    let offer = Offer { window_scaling: true, ..plain().offer };
    let options = Options { window_scale: Some(3), ..mss_option() };
    let mut script = Script::accept(Config { offer, ..plain() }, options);
    let _ = script.sent();
    script.window = 100;

    let _ = script.peer(1, 1, ACK, 0);

    assert_eq!(script.tcp.state(), State::Established);
    assert_eq!(script.tcp.peer_window(), 800);
}

#[test]
fn a_smaller_path_cuts_segments_and_sends_again_at_once() {
    let mut script = Script::open(plain());
    assert_eq!(script.write(3_000).len(), 3);

    script.tcp.handle_path_mtu(script.now, 540);

    assert_eq!(script.tcp.mss(), 500);
    assert_eq!(script.sent().len(), 6);
    assert_eq!(script.tcp.cwnd(), 10_000, "no sign of congestion");
    assert_eq!(script.peer(1, 3_001, ACK, 0), NOTHING);
}

#[test]
fn no_segment_is_longer_than_an_ip_packet_can_be() {
    let big = Config { mtu: usize::MAX, send_buffer: 1 << 20, ..Config::default() };
    let options = Options { mss: Some(u16::MAX), ..Options::default() };
    let mut script = Script::accept(big, options);
    let _ = script.sent();
    let _ = script.peer(1, 1, ACK, 0);
    script.tcp.handle_path_mtu(script.now, usize::MAX);

    assert_eq!(script.tcp.mss(), 65_535 - 40);
    assert_eq!(script.write(100_000).len(), 1, "the window takes no second one");
}

#[test]
fn a_peer_without_mss_gets_the_default_and_a_tiny_one_is_not_believed() {
    let open = |options| {
        let mut script = Script::accept(plain(), options);
        let _ = script.sent();
        let _ = script.peer(1, 1, ACK, 0);
        script.tcp.mss()
    };

    assert_eq!(open(Options::default()), 536);
    assert_eq!(open(Options { mss: Some(1), ..Options::default() }), 64);
}

//! Windows, acknowledgements, options, ECN, pacing: what flows when all goes well.

use std::time::Duration;

use base::ip::ecn;
use base::tcp::{Flags, Options, Segment, Timestamps};

use super::pair::{Pair, Side, pattern};
use super::script::{ACK, FIN, NOTHING, SYN_ACK, Script, mss_option, plain, with_sack};
use crate::{
    Config, Congestion, DelayedAck, Event, InitialWindow, IpFields, Limit, Offer, State, TimedOut,
};

#[test]
fn every_second_segment_is_acknowledged_at_once_and_a_single_one_later() {
    let mut script = Script::open(plain());

    assert_eq!(script.peer(1, 1, ACK, 1_000), NOTHING);
    assert_eq!(script.peer(1_001, 1, ACK, 1_000), [". 1+0 ack 2001"]);
    assert_eq!(script.peer(2_001, 1, ACK, 1_000), NOTHING);
    assert_eq!(script.wait(1_000), ["200: . 1+0 ack 3001"]);
}

#[test]
fn packets_have_the_code_point_asked_for() {
    let mut script = Script::connect(Config { ip: IpFields { dscp: 46, ..plain().ip }, ..plain() });
    let mut packet = Vec::new();

    assert!(script.tcp.poll_transmit(script.now, &mut packet));

    assert_eq!(packet[1], 46 << 2);
}

#[test]
fn an_older_segment_leaves_the_window_alone() {
    let mut script = Script::open(plain());
    script.window = 5_000;
    let _ = script.peer(1_001, 1, ACK, 10);
    script.window = 100;

    let _ = script.peer(1, 1, ACK, 10);

    assert_eq!(script.tcp.peer_window(), 5_000);
}

#[test]
fn the_delay_and_the_count_are_parameters() {
    let delayed_ack = DelayedAck { segments: 3, delay: Duration::from_millis(40) };
    let mut script = Script::open(Config { delayed_ack, ..plain() });
    assert_eq!(script.peer(1, 1, ACK, 10), NOTHING);
    assert_eq!(script.peer(11, 1, ACK, 10), NOTHING);
    assert_eq!(script.peer(21, 1, ACK, 10), [". 1+0 ack 31"]);
    assert_eq!(script.peer(31, 1, ACK, 10), NOTHING);
    assert_eq!(script.wait(1_000), ["40: . 1+0 ack 41"]);

    let at_once = DelayedAck { delay: Duration::ZERO, ..DelayedAck::default() };
    let mut script = Script::open(Config { delayed_ack: at_once, ..plain() });
    assert_eq!(script.peer(1, 1, ACK, 10), [". 1+0 ack 11"]);
}

#[test]
fn data_carries_the_acknowledgement_that_waits() {
    let mut script = Script::open(plain());

    assert_eq!(script.peer(1, 1, ACK, 10), NOTHING);
    assert_eq!(script.write(5), [". 1+5 ack 11"]);

    script.tcp.handle_timeout(script.now + Duration::from_millis(200));
    assert_eq!(script.sent(), NOTHING);
}

#[test]
fn holes_are_reported_at_once_newest_first() {
    let mut script = Script::open(with_sack());

    assert_eq!(script.peer(1_001, 1, ACK, 1_000), [". 1+0 ack 1 sack 1001-2001"]);
    assert_eq!(script.peer(3_001, 1, ACK, 1_000), [". 1+0 ack 1 sack 3001-4001 sack 1001-2001"]);
    assert_eq!(
        script.peer(2_001, 1, ACK, 500),
        [". 1+0 ack 1 sack 1001-2501 sack 3001-4001"],
        "a block that grows comes first"
    );
    assert_eq!(
        script.peer(1, 1, ACK, 1_000),
        [". 1+0 ack 2501 sack 3001-4001"],
        "a hole is filled"
    );
    assert_eq!(
        script.peer(1, 1, ACK, 1_000),
        [". 1+0 ack 2501 sack 1-1001 sack 3001-4001"],
        "what came twice is told (RFC 2883)"
    );
    assert_eq!(script.peer(2_501, 1, ACK, 500), [". 1+0 ack 4001"]);
    assert_eq!(script.tcp.readable(), 4_000);
}

#[test]
fn too_many_holes_are_refused_and_counted() {
    let mut script = Script::open(Config { max_holes: 2, ..with_sack() });
    for at in [1_001, 2_001, 3_001] {
        let _ = script.peer(at, 1, ACK, 10);
    }

    assert_eq!(script.tcp.stats().received.too_many_holes, 1);
    assert_eq!(script.peer(1_011, 1, ACK, 10)[0], ". 1+0 ack 1 sack 1001-1021 sack 2001-2011");
}

#[test]
fn nagle_holds_a_small_segment_while_data_is_in_flight() {
    let mut script = Script::open(Config { nagle: true, ..plain() });

    assert_eq!(script.write(10), [". 1+10 ack 1"], "nothing in flight");
    assert_eq!(script.write(10), NOTHING);
    assert_eq!(script.write(1_000), [". 11+1000 ack 1"], "a full one may go");
    assert_eq!(script.peer(1, 1_011, ACK, 0), [". 1011+10 ack 1"], "all is acknowledged");
    assert_eq!(script.write(10), NOTHING);
    assert_eq!(script.close(), ["F. 1021+10 ack 1"], "the end is worth sending");
}

#[test]
fn without_nagle_every_write_is_a_segment() {
    let mut script = Script::open(plain());

    assert_eq!(script.write(10), [". 1+10 ack 1"]);
    assert_eq!(script.write(10), [". 11+10 ack 1"]);
}

#[test]
fn a_small_window_gets_no_small_segment_until_the_override() {
    let mut script = Script::open(plain());
    script.window = 1_200;
    let _ = script.peer(1, 1, ACK, 0);
    assert_eq!(script.write(5_000), [". 1+1000 ack 1"]);
    script.window = 200;

    assert_eq!(script.peer(1, 1_001, ACK, 0), NOTHING, "200 octets would be silly");
    assert_eq!(script.wait(1_000), ["1000: . 1001+200 ack 1"], "but better than silence");
}

#[test]
fn a_closed_window_is_probed_and_its_opening_ends_that() {
    let mut script = Script::open(plain());
    script.window = 0;
    let _ = script.peer(1, 1, ACK, 0);
    assert_eq!(script.write(3_000), NOTHING);

    assert_eq!(script.wait(1_000), ["1000: . 1+1 ack 1"]);
    assert_eq!(script.peer(1, 1, ACK, 0), NOTHING);
    assert_eq!(script.wait(2_000), ["2000: . 1+1 ack 1"], "backed off");
    assert_eq!(script.peer(1, 1, ACK, 0), NOTHING);
    script.window = 60_000;
    assert_eq!(
        script.peer(1, 1, ACK, 0),
        [". 1+1000 ack 1", ". 1001+1000 ack 1", ". 2001+1000 ack 1"],
        "from the octet on that was refused"
    );
    assert_eq!(script.tcp.stats().sent.window_probes, 2);
}

#[test]
fn a_probe_that_is_taken_moves_on() {
    let mut script = Script::open(plain());
    script.window = 0;
    let _ = script.peer(1, 1, ACK, 0);
    let _ = script.write(3_000);
    assert_eq!(script.wait(1_000), ["1000: . 1+1 ack 1"]);

    assert_eq!(script.peer(1, 2, ACK, 0), NOTHING);
    let sent = script.wait(4_000);

    assert_eq!(sent.len(), 1);
    assert!(sent[0].ends_with(". 2+1 ack 1"), "{sent:?}");
}

#[test]
fn probes_that_are_answered_never_end_and_others_do() {
    let r2 = Limit::Retransmissions(3);
    let mut script = Script::open(Config { r2, ..plain() });
    script.window = 0;
    let _ = script.peer(1, 1, ACK, 0);
    let _ = script.write(3_000);

    for _ in 0..50 {
        let next = script.tcp.next_timeout().unwrap().since(script.now);
        assert_eq!(script.wait(u64::try_from(next.as_millis()).unwrap()).len(), 1);
        let _ = script.peer(1, 1, ACK, 0);
    }
    assert_eq!(script.tcp.state(), State::Established);
    let _ = script.wait(300_000);
    assert_eq!(script.tcp.state(), State::Closed);
    assert!(script.events().contains(&Event::TimedOut(TimedOut::Data)));
}

#[test]
fn a_fin_into_a_closed_window_probes_it() {
    let mut script = Script::open(plain());
    script.window = 0;
    let _ = script.peer(1, 1, ACK, 0);

    assert_eq!(script.close(), NOTHING);
    assert_eq!(script.wait(1_000), ["1000: F. 1+0 ack 1"]);
    script.window = 10;
    assert_eq!(script.peer(1, 1, ACK, 0), ["F. 1+0 ack 1"]);
    assert_eq!(script.peer(1, 2, ACK, 0), NOTHING);
    assert_eq!(script.tcp.state(), State::FinWait2);
}

#[test]
fn our_window_closes_and_opens_in_worthwhile_steps() {
    let mut script = Script::open(Config { receive_buffer: 2_500, ..plain() });
    script.is_verbose = true;

    assert_eq!(script.peer(1, 1, ACK, 1_000), NOTHING);
    assert_eq!(script.peer(1_001, 1, ACK, 1_000), [". 1+0 ack 2001 win 500"]);
    assert_eq!(script.peer(2_001, 1, ACK, 500), NOTHING);
    assert_eq!(script.wait(200), ["200: . 1+0 ack 2501 win 0"]);
    assert_eq!(script.peer(2_501, 1, ACK, 1), [". 1+0 ack 2501 win 0"], "a probe is refused");
    assert_eq!(script.read(999), NOTHING, "too little to tell");
    assert_eq!(script.read(1), [". 1+0 ack 2501 win 1000"]);
    assert_eq!(script.read(1_500), [". 1+0 ack 2501 win 2500"]);
}

#[test]
fn a_closed_window_still_takes_acknowledgements_and_resets() {
    let mut script = Script::open(Config { receive_buffer: 1_000, ..plain() });
    let _ = script.write(500);
    let _ = script.peer(1, 1, ACK, 1_000);
    let _ = script.wait(200);

    let _ = script.peer(1_001, 501, ACK, 10);
    assert_eq!(script.tcp.flight_size(), 0);
    assert_eq!(script.tcp.readable(), 1_000);
    let _ = script.peer(1_001, 501, Flags::RST, 0);
    assert_eq!(script.tcp.state(), State::Closed);
}

#[test]
fn data_beyond_the_window_is_cut_off() {
    let mut script = Script::open(Config { receive_buffer: 1_500, ..plain() });

    let _ = script.peer(1, 1, ACK, 1_000);
    let _ = script.peer(1_001, 1, FIN, 1_000);

    assert_eq!(script.tcp.readable(), 1_500);
    assert_eq!(script.tcp.state(), State::Established, "nor does the FIN fit");
}

#[test]
fn windows_are_scaled_after_the_handshake_when_both_agree() {
    let config = Config {
        offer: Offer { window_scaling: true, ..plain().offer },
        receive_buffer: 1 << 20,
        ..plain()
    };
    let mut script = Script::connect(config);
    script.is_verbose = true;
    assert_eq!(script.sent(), ["S 0+0 win 65535"]);
    script.options = Options { window_scale: Some(3), ..mss_option() };
    script.window = 1_000;
    assert_eq!(script.peer(0, 1, SYN_ACK, 0), [". 1+0 ack 1 win 32768"], "2^20 / 32");
    assert_eq!(script.tcp.peer_window(), 1_000, "that of a SYN is not scaled");
    script.options = Options::default();
    let _ = script.peer(1, 1, ACK, 0);
    assert_eq!(script.tcp.peer_window(), 8_000);

    let mut script = Script::connect(config);
    script.is_verbose = true;
    let _ = script.sent();
    script.options = mss_option();
    assert_eq!(script.peer(0, 1, SYN_ACK, 0), [". 1+0 ack 1 win 65535"]);
    script.options = Options::default();
    let _ = script.peer(1, 1, ACK, 0);
    assert_eq!(script.tcp.peer_window(), 60_000);
}

#[test]
fn timestamps_measure_what_was_sent_twice() {
    let mut script =
        Script::open(Config { offer: Offer { timestamps: true, ..plain().offer }, ..plain() });
    assert_eq!(script.tcp.mss(), 988);
    let _ = script.write(500);
    assert_eq!(script.wait(1_000), ["1000: . 1+500 ack 1"]);
    let echo = script.tcp.timestamp(script.now);
    script.skip(300);

    script.options.timestamps = Some(Timestamps { value: 2, echo });
    let _ = script.peer(1, 501, ACK, 0);

    let srtt = script.tcp.srtt().unwrap();
    assert_eq!(srtt, Duration::from_millis(125), "7/8 of 100 and 1/8 of 300");
    assert_eq!(script.tcp.rto(), Duration::from_secs(1), "no longer backed off");
}

/// The peer has the segment, its answers were lost: it echoes the timestamp of what it took first.
#[test]
fn an_echo_of_an_earlier_copy_gives_no_time() {
    let mut script =
        Script::open(Config { offer: Offer { timestamps: true, ..plain().offer }, ..plain() });
    let _ = script.write(988);
    script.skip(10);
    let _ = script.write(988);
    let echo = script.tcp.timestamp(script.now);
    assert_eq!(script.wait(1_000), ["990: . 1+988 ack 1"]);

    script.options.timestamps = Some(Timestamps { value: 2, echo });
    let _ = script.peer(1, 1_977, ACK, 0);

    assert_eq!(script.tcp.srtt(), Some(Duration::from_millis(100)));
    assert_eq!(script.tcp.rto(), Duration::from_secs(2), "still backed off");
}

#[test]
fn old_timestamps_are_dropped_and_acknowledged() {
    let mut script =
        Script::open(Config { offer: Offer { timestamps: true, ..plain().offer }, ..plain() });
    let stamp = |script: &mut Script, value| {
        script.options.timestamps = Some(Timestamps { value, echo: 0 });
    };
    stamp(&mut script, 1_000);
    let _ = script.peer(1, 1, ACK, 100);
    let _ = script.wait(200);

    stamp(&mut script, 999);
    assert_eq!(script.peer(101, 1, ACK, 100), [". 1+0 ack 101"]);
    assert_eq!(script.tcp.stats().received.paws_drops, 1);
    stamp(&mut script, 1_000);
    let _ = script.peer(101, 1, ACK, 100);
    assert_eq!(script.tcp.readable(), 200);
    script.options.timestamps = None;
    assert_eq!(script.peer(201, 1, ACK, 100), NOTHING);
    assert_eq!(script.tcp.stats().received.missing_timestamps, 1);

    let _ = script.wait(25 * 86_400_000);
    stamp(&mut script, 5);
    let _ = script.peer(201, 1, ACK, 100);
    assert_eq!(script.tcp.readable(), 300, "after 24 days the order means nothing");
}

#[test]
fn the_initial_window_and_writable_room() {
    let mut script = Script::open(Config { send_buffer: 3_000, ..plain() });

    assert_eq!(script.tcp.write(&[0; 5_000]), 3_000);
    assert_eq!(script.sent().len(), 3);
    assert_eq!(script.tcp.write(&[0; 10]), 0);
    let _ = script.peer(1, 1_001, ACK, 0);
    assert_eq!(script.events(), [Event::Writable]);
    assert_eq!(script.tcp.writable(), 1_000);
}

#[test]
fn ecn_is_agreed_on_echoed_and_answered_once_a_window() {
    let mut script =
        Script::connect(Config { offer: Offer { ecn: true, ..plain().offer }, ..plain() });
    script.is_verbose = true;
    assert_eq!(script.sent(), ["SEW 0+0 win 65535"]);
    script.options = mss_option();
    let _ = script.peer(0, 1, SYN_ACK | Flags::ECE, 0);
    script.options = Options::default();
    assert_eq!(script.write(2_000)[0], ". 1+1000 ack 1 win 65535 ect");

    script.traffic_class = ecn::CE;
    let _ = script.peer(1, 1, ACK, 10);
    script.traffic_class = 0;
    assert_eq!(script.wait(200), ["200: E. 2001+0 ack 11 win 65525"]);
    let _ = script.peer(11, 1, ACK | Flags::CWR, 10);
    assert_eq!(script.wait(200), ["200: . 2001+0 ack 21 win 65515"], "the echo ends");

    let _ = script.peer(21, 1_001, ACK | Flags::ECE, 0);
    let _ = script.peer(21, 1_001, ACK | Flags::ECE, 0);
    assert_eq!(script.tcp.stats().feedback.ecn_reductions, 1);
    assert_eq!(script.write(100), ["W. 2001+100 ack 21 win 65515 ect"]);

    // The peer acknowledged the last octet before that before it saw the W.
    let _ = script.peer(21, 2_001, ACK | Flags::ECE, 0);
    assert_eq!(script.tcp.stats().feedback.ecn_reductions, 1);
    let _ = script.peer(21, 2_101, ACK | Flags::ECE, 0);
    assert_eq!(script.tcp.stats().feedback.ecn_reductions, 2);
}

#[test]
fn a_controller_that_paces_holds_new_data_and_not_what_is_lost() {
    let mut script = Script::open(plain());
    assert_eq!(script.write(3_000).len(), 3);
    script.tcp.window_mut().next_send = Some(script.now + Duration::from_millis(30));

    assert_eq!(script.write(1_000), NOTHING);
    assert_eq!(script.wait(100), ["30: . 3001+1000 ack 1"]);
    script.tcp.window_mut().next_send = Some(script.now + Duration::from_secs(5));
    assert_eq!(script.write(1_000), NOTHING);
    assert_eq!(script.wait(1_000), ["900: . 1+1000 ack 1"]);
}

#[test]
fn a_peer_that_does_not_know_ecn_gets_none() {
    let mut script = Script::accept(
        Config { offer: Offer { ecn: true, ..plain().offer }, ..plain() },
        mss_option(),
    );
    script.is_verbose = true;

    assert_eq!(script.sent(), ["S. 0+0 ack 1 win 65535"]);
    let _ = script.peer(1, 1, ACK, 0);
    assert_eq!(script.write(10), [". 1+10 ack 1 win 65535"]);
}

#[test]
fn a_reader_that_wakes_up_late_gets_everything() {
    let config = Config { receive_buffer: 5_000, ..Config::default() };
    let mut pair = Pair::new(config, config);
    pair.client.to_write = pattern(20_000);
    pair.client.closes = true;
    pair.server.closes = true;
    pair.server.is_lazy = true;
    let _ = pair.run_for(Duration::from_secs(30));
    assert_eq!(pair.server().readable(), 5_000, "the window holds");

    pair.server.is_lazy = false;
    assert!(pair.run_for(Duration::from_secs(200)));

    assert!(pair.server.received == pattern(20_000));
    assert_eq!(pair.client().stats().feedback.timeouts, 0);
}

#[test]
fn with_ecn_all_new_data_says_so() {
    let config = Config { offer: Offer { ecn: true, ..Offer::default() }, ..Config::default() };
    let mut pair = Pair::new(config, config);
    pair.client.to_write = pattern(200_000);
    pair.client.closes = true;
    pair.server.closes = true;
    let delay = Duration::from_millis(50);
    let mut pair = pair.with_fate(move |side, index, segment: &Segment<'_>| {
        let is_data = side == Side::Client && !segment.payload.is_empty();
        assert!(!is_data || segment.traffic_class == ecn::ECT_0 || index < 2);
        vec![delay]
    });

    assert!(pair.run_for(Duration::from_secs(200)));

    assert!(pair.server.received == pattern(200_000));
    assert!(pair.client().stats().sent.retransmissions == 0);
}

#[test]
fn fin_takes_no_room_in_the_congestion_window() {
    let congestion =
        Congestion { initial_window: InitialWindow::Segments(4), ..plain().congestion };

    // It rides on data that fills the window.
    let mut script = Script::open(Config { congestion, ..plain() });
    assert_eq!(script.write(3_000).len(), 3);
    script.tcp.write(&[1; 1_000]);
    assert_eq!(script.close(), ["F. 3001+1000 ack 1"]);

    // It goes alone behind data that does.
    let mut script = Script::open(Config { congestion, ..plain() });
    assert_eq!(script.write(4_000).len(), 4);
    assert_eq!(script.close(), ["F. 4001+0 ack 1"]);

    // Data still waits, and FIN behind it.
    let mut script = Script::open(Config { congestion, ..plain() });
    assert_eq!(script.write(4_001).len(), 4);
    assert_eq!(script.close(), NOTHING);

    // Sent again, it takes none either.
    let mut script = Script::open(Config { congestion, ..plain() });
    assert_eq!(script.write(4_000).len(), 4);
    let _ = script.close();
    assert_eq!(script.wait(1_000), ["1000: . 1+1000 ack 1"]);
    assert_eq!(script.peer(1, 1_001, ACK, 0).len(), 2);
    assert_eq!(script.peer(1, 3_001, ACK, 0), ["F. 3001+1000 ack 1"]);
}

#[test]
fn fin_does_not_wait_for_a_recovery() {
    let mut script = Script::open(Config { offer: with_sack().offer, ..plain() });
    assert_eq!(script.write(4_000).len(), 4);
    let _ = script.peer_sacks(1, &[(1_001, 2_001)]);
    let _ = script.peer_sacks(1, &[(1_001, 3_001)]);
    assert_eq!(script.peer_sacks(1, &[(1_001, 4_001)]), [". 1+1000 ack 1"]);
    script.tcp.window_mut().cwnd = 1_000;

    assert_eq!(script.close(), ["F. 4001+0 ack 1"]);
}

#[test]
fn an_acknowledgement_too_old_to_set_the_window_does_not_move_its_edge() {
    let mut script = Script::open(plain());
    script.window = 1_000;
    assert_eq!(script.peer(1, 1, ACK, 5), NOTHING);
    assert_eq!(script.peer(7, 1, ACK, 0), NOTHING, "behind a FIN that was lost: the newest so far");
    assert_eq!(script.write(3_000), [". 1+1000 ack 6"]);

    // The FIN again says that the window is closed now, and is older than what set the window.
    script.window = 0;
    let sent = script.peer(6, 1_001, FIN | ACK, 0);

    assert_eq!(sent, [". 1001+0 ack 7"], "nothing beyond what the peer offered");
    assert_eq!(script.tcp.peer_window(), 0);
    script.window = 1_000;
    assert_eq!(script.peer(7, 1_001, ACK, 0), [". 1001+1000 ack 7"]);
}

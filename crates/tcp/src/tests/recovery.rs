//! Fast retransmit and recovery: NewReno, SACK, limited transmit.

use base::tcp::Timestamps;

use super::script::{ACK, NOTHING, Script, plain, with_sack};
use crate::Algorithm;
use crate::{Config, Congestion, FullAck, Growth, InitialWindow, Limit, LossRecovery, Offer};

/// Ten segments in one window and no more; the third and the fifth are lost.
fn ten_segments_up_to_the_partial_ack(config: Config) -> Script {
    let mut script = Script::open(config);
    assert_eq!(script.write(10_000).len(), 10);
    assert_eq!(script.peer(1, 1_001, ACK, 0), NOTHING);
    assert_eq!(script.peer(1, 2_001, ACK, 0), NOTHING);

    assert_eq!(script.peer(1, 2_001, ACK, 0), NOTHING, "segment 4 arrived");
    assert_eq!(script.peer(1, 2_001, ACK, 0), NOTHING, "segment 6");
    assert_eq!(script.peer(1, 2_001, ACK, 0), [". 2001+1000 ack 1"], "segment 7");
    assert_eq!((script.tcp.ssthresh(), script.tcp.cwnd()), (4_000, 7_000));
    for _ in 8..=10 {
        assert_eq!(script.peer(1, 2_001, ACK, 0), NOTHING);
    }
    assert_eq!(script.tcp.cwnd(), 10_000);
    assert_eq!(script.peer(1, 4_001, ACK, 0), [". 4001+1000 ack 1"]);
    assert_eq!(script.tcp.cwnd(), 9_000, "minus 2, plus 1");
    script
}

#[test]
fn newreno_repairs_two_losses_of_a_window_with_partial_acks() {
    let mut script = ten_segments_up_to_the_partial_ack(plain());
    assert_eq!(script.peer(1, 10_001, ACK, 0), NOTHING);
    assert_eq!(script.tcp.cwnd(), 2_000, "the careful way out");
    assert!(!script.tcp.is_recovering());
    assert_eq!(script.tcp.stats().feedback.fast_retransmits, 1);
    assert_eq!(script.tcp.next_timeout(), None);

    let config = Config {
        recovery: LossRecovery { full_ack: FullAck::Ssthresh, ..plain().recovery },
        ..plain()
    };
    let mut script = ten_segments_up_to_the_partial_ack(config);
    assert_eq!(script.peer(1, 10_001, ACK, 0), NOTHING);
    assert_eq!(script.tcp.cwnd(), 4_000, "the plain way out");
}

#[test]
fn only_the_first_partial_ack_restarts_an_impatient_timer() {
    let timeout_after_two_partial_acks = |impatient| {
        let mut script = Script::open(Config {
            recovery: LossRecovery { impatient, ..plain().recovery },
            ..plain()
        });
        let _ = script.write(10_000);
        script.skip(100);
        let _ = script.peer(1, 1_001, ACK, 0);
        for _ in 0..3 {
            let _ = script.peer(1, 1_001, ACK, 0);
        }
        script.skip(100);
        assert_eq!(script.peer(1, 3_001, ACK, 0)[0], ". 3001+1000 ack 1");
        script.skip(100);
        assert_eq!(script.peer(1, 5_001, ACK, 0)[0], ". 5001+1000 ack 1");
        script.tcp.next_timeout().unwrap().since(script.now).as_millis()
    };

    assert_eq!(timeout_after_two_partial_acks(true), 900);
    assert_eq!(timeout_after_two_partial_acks(false), 1_000);
}

#[test]
fn duplicates_after_a_timeout_start_no_second_recovery() {
    let mut script = Script::open(plain());
    let _ = script.write(5_000);
    assert_eq!(script.wait(1_000), ["1000: . 1+1000 ack 1"]);

    for _ in 0..5 {
        assert_eq!(script.peer(1, 1, ACK, 0), NOTHING);
    }

    assert_eq!(script.tcp.stats().feedback.fast_retransmits, 0);
    assert_eq!(script.tcp.cwnd(), 1_000);
}

#[test]
fn a_timeout_that_was_needless_is_undone() {
    let window = |undo_timeouts, echo_of_repeat: u32| {
        let mut script = Script::open(Config {
            recovery: LossRecovery { undo_timeouts, ..plain().recovery },
            offer: Offer { timestamps: true, ..plain().offer },
            ..plain()
        });
        let sent_at = script.tcp.timestamp(script.now);
        let _ = script.write(9_000);
        let before = script.tcp.cwnd();
        assert_eq!(script.wait(1_000).len(), 1, "the first segment again");
        let echo = sent_at + 1_000 * echo_of_repeat;
        script.options.timestamps = Some(Timestamps { value: 1_000, echo });
        script.skip(50);

        let _ = script.peer(1, 1_977, ACK, 0);

        (script.tcp.cwnd() > before, script.tcp.stats().feedback.timeouts_undone)
    };

    assert_eq!(window(true, 0), (true, 1));
    assert_eq!(window(true, 1), (false, 0), "the answer to what was sent again");
    assert_eq!(window(false, 0), (false, 0));
}

#[test]
fn only_bare_acks_count_as_duplicates() {
    let mut script = Script::open(plain());
    let _ = script.write(10_000);
    let _ = script.peer(1, 1, ACK, 0);

    for (index, at) in (0..5).zip((1_u32..).step_by(10)) {
        let _ = script.peer(at, 1, ACK, 10);
        script.window += 1_000 + index;
        let _ = script.peer(at + 10, 1, ACK, 0);
    }

    assert_eq!(
        script.tcp.stats().feedback.duplicate_acks,
        1,
        "the first only: data and windows are news"
    );
    assert_eq!(script.tcp.stats().sent.retransmissions, 0);
}

#[test]
fn limited_transmit_sends_new_data_on_the_first_two_duplicates() {
    let config = Config {
        congestion: Congestion { initial_window: InitialWindow::Segments(3), ..plain().congestion },
        ..plain()
    };
    let mut script = Script::open(config);
    assert_eq!(script.write(10_000).len(), 3);

    assert_eq!(script.peer(1, 1, ACK, 0), [". 3001+1000 ack 1"]);
    assert_eq!(script.peer(1, 1, ACK, 0), [". 4001+1000 ack 1"]);
    assert_eq!(script.tcp.cwnd(), 3_000);
    assert_eq!(script.peer(1, 1, ACK, 0)[0], ". 1+1000 ack 1");
    assert_eq!(script.tcp.ssthresh(), 2_000, "of the flight without the limited ones");
    assert_eq!(script.tcp.stats().sent.limited_transmits, 2);

    let mut script = Script::open(Config {
        recovery: LossRecovery { limited_transmit: false, ..config.recovery },
        ..config
    });
    let _ = script.write(10_000);
    assert_eq!(script.peer(1, 1, ACK, 0), NOTHING);
}

#[test]
fn duplicates_from_before_a_timeout_stretch_the_window_no_more() {
    let mut script = Script::open(plain());
    let _ = script.write(50_000);
    for _ in 0..2 {
        assert_eq!(script.peer(1, 1, ACK, 0).len(), 1);
    }

    assert_eq!(script.wait(1_500), ["1000: . 1+1000 ack 1"]);
}

#[test]
fn limited_transmit_with_sack_needs_new_blocks() {
    let config = Config {
        congestion: Congestion {
            initial_window: InitialWindow::Segments(3),
            ..with_sack().congestion
        },
        ..with_sack()
    };
    let mut script = Script::open(config);
    let _ = script.write(10_000);

    assert_eq!(script.peer_sacks(1, &[(1_001, 2_001)]), [". 3001+1000 ack 1"]);
    assert_eq!(script.peer_sacks(1, &[(1_001, 2_001)]), NOTHING, "nothing new");
    assert_eq!(script.peer_sacks(1, &[(1_001, 3_001)]), [". 4001+1000 ack 1"]);
    assert_eq!(script.tcp.stats().sent.limited_transmits, 2);
    assert_eq!(script.tcp.stats().feedback.duplicate_acks, 2);

    let mut script = Script::open(Config {
        recovery: LossRecovery { limited_transmit: false, ..config.recovery },
        ..config
    });
    let _ = script.write(10_000);
    assert_eq!(script.peer_sacks(1, &[(1_001, 2_001)]), NOTHING);
}

#[test]
fn sack_repairs_every_hole_within_the_pipe() {
    let mut script = Script::open(with_sack());
    assert_eq!(script.write(20_000).len(), 10);

    // Lost: segments 1, 3 and 5.
    assert_eq!(script.peer_sacks(1, &[(1_001, 2_001)]), [". 10001+1000 ack 1"]);
    assert_eq!(script.peer_sacks(1, &[(3_001, 4_001), (1_001, 2_001)]), [". 11001+1000 ack 1"]);
    let third = script.peer_sacks(1, &[(5_001, 6_001), (3_001, 4_001), (1_001, 2_001)]);
    assert_eq!(third, [". 1+1000 ack 1"], "three blocks above: lost");
    assert_eq!((script.tcp.ssthresh(), script.tcp.cwnd()), (5_000, 5_000));

    // Twelve were sent: 2, 4 and 6 are held, 1 is lost and sent again, so nine are in the pipe.
    let mut blocks = [(5_001, 6_001), (3_001, 4_001), (1_001, 2_001)];
    for (to, sent) in [
        (7_001, None),                      // 3 is lost: in the pipe are 1, 5, 8 to 12
        (8_001, None),                      // 5 is lost: 1, 9 to 12
        (9_001, Some(". 2001+1000 ack 1")), // 1, 3, 10 to 12
        (10_001, Some(". 4001+1000 ack 1")),
        // 1, 3, 5, 11, 12
    ] {
        blocks[0].1 = to;
        assert_eq!(script.peer_sacks(1, &blocks), sent.as_slice());
    }
    assert_eq!(script.peer_sacks(2_001, &blocks), [". 12001+1000 ack 1"], "no hole is left");
    assert!(script.tcp.is_recovering());
    assert_eq!(script.peer(1, 12_001, ACK, 0).len(), 4);
    assert!(!script.tcp.is_recovering());
    assert_eq!(script.tcp.cwnd(), 5_000);
    assert_eq!(script.tcp.stats().sent.retransmissions, 3);
}

#[test]
fn many_octets_above_mean_lost_before_the_third_duplicate() {
    let mut script = Script::open(with_sack());
    let _ = script.write(10_000);

    // One acknowledgement reports three segments: the others were lost or never sent.
    let sent = script.peer_sacks(1, &[(1_001, 4_001)]);

    assert_eq!(sent, [". 1+1000 ack 1"]);
    assert_eq!(script.tcp.stats().feedback.fast_retransmits, 1);
}

#[test]
fn a_rescue_retransmission_repairs_a_lost_tail() {
    let mut script = Script::open(with_sack());
    let _ = script.write(6_000);

    // Segments 1 and 6, the last, are lost.
    let _ = script.peer_sacks(1, &[(1_001, 2_001)]);
    let _ = script.peer_sacks(1, &[(1_001, 3_001)]);
    assert_eq!(script.peer_sacks(1, &[(1_001, 4_001)]), [". 1+1000 ack 1"]);
    assert_eq!(script.peer_sacks(1, &[(1_001, 5_001)]), NOTHING);
    assert_eq!(script.peer_sacks(5_001, &[]), [". 5001+1000 ack 1"]);

    assert_eq!(script.tcp.stats().sent.rescue_retransmissions, 1);
    assert_eq!(script.tcp.stats().feedback.timeouts, 0);
    assert_eq!(script.peer(1, 6_001, ACK, 0), NOTHING);
    assert_eq!(script.tcp.next_timeout(), None);
}

#[test]
fn after_a_timeout_what_the_peer_holds_is_not_sent_again() {
    let mut script = Script::open(with_sack());
    let _ = script.write(4_000);
    let _ = script.peer_sacks(1, &[(1_001, 2_001)]);

    assert_eq!(script.wait(1_000), ["1000: . 1+1000 ack 1"]);
    let sent = script.peer_sacks(2_001, &[]);

    assert_eq!(sent, [". 2001+1000 ack 1", ". 3001+1000 ack 1"], "not segment 2");
}

#[test]
fn a_peer_that_threw_octets_away_gets_them_again() {
    let mut script = Script::open(Config { r2: Limit::Never, ..with_sack() });
    let _ = script.write(3_000);
    let _ = script.peer_sacks(1, &[(1_001, 3_001)]);

    let _ = script.wait(10_000);
    // The head arrives at last; the peer holds nothing more.
    let sent = script.peer(1, 1_001, ACK, 0);

    assert_eq!(sent[0], ". 1001+1000 ack 1", "it held them once, and reneged");
}

#[test]
fn blocks_that_make_no_sense_are_counted_and_ignored() {
    let mut script = Script::open(with_sack());
    let _ = script.write(3_000);

    for block in [(2_001, 1_001), (1_001, 9_001), (0x8000_0000, 1)] {
        assert_eq!(script.peer_sacks(1, &[block]), NOTHING);
    }
    assert_eq!(script.tcp.stats().feedback.bad_sack_blocks, 3);
    assert_eq!(script.peer_sacks(1_001, &[(1, 1_001)]), NOTHING);
    assert_eq!(script.tcp.stats().feedback.spurious_retransmissions, 1, "arrived twice (RFC 2883)");
}

#[test]
fn the_window_grows_by_the_chosen_rule() {
    let cwnd_after_an_ack = |growth, ssthresh| {
        let mut script = Script::open(Config {
            congestion: Congestion {
                algorithm: Algorithm::NewReno { growth },
                initial_ssthresh: ssthresh,
                ..plain().congestion
            },
            ..plain()
        });
        let _ = script.write(20_000);
        let _ = script.peer(1, 4_001, ACK, 0);
        let _ = script.peer(1, 10_001, ACK, 0);
        script.tcp.cwnd()
    };

    assert_eq!(cwnd_after_an_ack(Growth::Octets { limit: 2 }, None), 14_000);
    assert_eq!(cwnd_after_an_ack(Growth::Octets { limit: 1 }, None), 12_000);
    assert_eq!(cwnd_after_an_ack(Growth::PerAck, None), 12_000);
    assert_eq!(cwnd_after_an_ack(Growth::Octets { limit: 2 }, Some(1)), 11_000);
    assert_eq!(cwnd_after_an_ack(Growth::PerAck, Some(1)), 10_199, "100 and 99");
}

#[test]
fn the_window_does_not_grow_while_the_application_holds_back() {
    let cwnd = |validate_window| {
        let mut script = Script::open(Config {
            congestion: Congestion { validate_window, ..plain().congestion },
            ..plain()
        });
        for round in 0..10 {
            let _ = script.write(1_000);
            let _ = script.peer(1, 1_001 + 1_000 * round, ACK, 0);
        }
        script.tcp.cwnd()
    };

    assert_eq!(cwnd(true), 10_000);
    assert_eq!(cwnd(false), 20_000);
}

#[test]
fn initial_windows_are_those_of_their_rfcs() {
    let octets = |window: InitialWindow| [1_095, 1_460, 2_190, 8_000].map(|mss| window.octets(mss));

    assert_eq!(octets(InitialWindow::Rfc5681), [4_380, 4_380, 6_570, 16_000]);
    assert_eq!(octets(InitialWindow::Rfc6928), [10_950, 14_600, 14_600, 16_000]);
    assert_eq!(octets(InitialWindow::Segments(10)), [10_950, 14_600, 21_900, 80_000]);
    assert_eq!(octets(InitialWindow::Octets(7)), [7; 4]);
}

#[test]
fn a_repair_that_is_lost_is_sent_once_more_when_what_came_after_it_has_arrived() {
    let repairs = |lost_repairs| {
        let config = Config {
            recovery: LossRecovery { lost_repairs, ..with_sack().recovery },
            ..with_sack()
        };
        let mut script = Script::open(config);
        assert_eq!(script.write(40_000).len(), 10);
        // Segment 1 is lost, and so is its repair.
        let _ = script.peer_sacks(1, &[(1_001, 3_001)]);
        let repaired = script.peer_sacks(1, &[(1_001, 4_001)]);
        assert!(repaired.contains(&". 1+1000 ack 1".to_owned()), "{repaired:?}");
        // All that was in flight arrives, and then what was sent after the repair.
        let mut sent = Vec::new();
        for to in (5_001..=20_001).step_by(1_000) {
            sent.extend(script.peer_sacks(1, &[(1_001, to)]));
        }
        sent.iter().filter(|segment| segment.starts_with(". 1+1000 ")).count()
    };

    assert_eq!(repairs(true), 1);
    assert_eq!(repairs(false), 0, "a timeout tells");
}

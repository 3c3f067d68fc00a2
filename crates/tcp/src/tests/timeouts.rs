//! Round-trip times, the retransmission timer, and when to give up.

use std::time::Duration;

use super::script::{ACK, NOTHING, SYN_ACK, Script, mss_option, plain};
use crate::{Config, Estimator, Event, KeepAlive, Limit, Rto, State, TimedOut};

#[test]
fn a_syn_has_a_timeout_of_its_own() {
    let rto = Rto { syn: Duration::from_millis(300), ..Rto::default() };
    let mut script = Script::connect(Config { rto, ..plain() });
    let _ = script.sent();

    assert_eq!(script.wait(500), ["300: S 0+0"]);
}

/// RFC 6298, section 2, by hand: samples of 100, 100 and 300 ms.
#[test]
fn the_estimator_follows_rfc_6298() {
    let mut estimator = Estimator::new(Rto { min: Duration::ZERO, ..Rto::default() });
    let mut sample = |ms| {
        estimator.sample(Duration::from_millis(ms));
        let tenths = |duration: Duration| (duration.as_secs_f64() * 10_000.0).round();
        let (srtt, rttvar) = (estimator.srtt().unwrap(), estimator.rttvar().unwrap());
        (tenths(srtt), tenths(rttvar), tenths(estimator.rto()))
    };

    assert_eq!(sample(100), (1_000.0, 500.0, 3_000.0));
    assert_eq!(sample(100), (1_000.0, 375.0, 2_500.0));
    assert_eq!(sample(300), (1_250.0, 781.0, 4_375.0));
}

#[test]
fn the_timeout_keeps_its_bounds_and_every_constant_counts() {
    let rto = |config: Rto| {
        let mut estimator = Estimator::new(config);
        estimator.sample(Duration::from_millis(100));
        estimator.sample(Duration::from_millis(200));
        estimator.rto().as_millis()
    };
    let free = Rto { min: Duration::ZERO, ..Rto::default() };

    assert_eq!(rto(Rto::default()), 1_000);
    assert_eq!(rto(free), 362, "112.5 + 4 * 62.5");
    assert_eq!(rto(Rto { k: 2.0, ..free }), 237);
    assert_eq!(rto(Rto { alpha: 0.5, ..free }), 400);
    assert_eq!(rto(Rto { beta: 0.5, ..free }), 412);
    assert_eq!(rto(Rto { max: Duration::from_millis(300), ..free }), 300);
    assert_eq!(rto(Rto { k: 0.0, granularity: Duration::from_millis(10), ..free }), 122);
}

#[test]
fn the_syn_backs_off_until_its_own_r2() {
    let r2_syn = Limit::Retransmissions(3);
    let mut script = Script::connect(Config { r2_syn, ..plain() });

    assert_eq!(script.sent(), ["S 0+0"]);
    assert_eq!(script.wait(60_000), ["1000: S 0+0", "3000: S 0+0", "7000: S 0+0"]);
    assert_eq!(
        script.events(),
        [Event::Unresponsive, Event::TimedOut(TimedOut::Connecting)],
        "R1 is 3 retransmissions"
    );
    assert_eq!(script.tcp.state(), State::Closed);
    assert_eq!(script.tcp.next_timeout(), None);
}

#[test]
fn the_syn_gives_up_after_a_time() {
    let r2_syn = Limit::Elapsed(Duration::from_secs(10));
    let mut script = Script::connect(Config { r2_syn, ..plain() });
    let _ = script.sent();

    assert_eq!(script.wait(9_999), ["1000: S 0+0", "3000: S 0+0", "7000: S 0+0"]);
    assert_eq!(script.tcp.state(), State::SynSent);
    assert_eq!(script.wait(1), NOTHING);
    assert_eq!(script.tcp.state(), State::Closed);
}

#[test]
fn after_a_lost_syn_data_starts_with_three_seconds_and_one_segment() {
    let mut script = Script::connect(plain());
    let _ = script.sent();
    assert_eq!(script.wait(1_500), ["1000: S 0+0"]);

    script.options = mss_option();
    assert_eq!(script.peer(0, 1, SYN_ACK, 0), [". 1+0 ack 1"]);

    assert_eq!(script.tcp.srtt(), None, "Karn: no sample from a SYN sent twice");
    assert_eq!(script.tcp.rto(), Duration::from_secs(3));
    assert_eq!(script.write(3_000), [". 1+1000 ack 1"]);
}

#[test]
fn the_timer_backs_off_and_r1_warns_and_r2_ends() {
    let mut script = Script::open(Config {
        r1: Limit::Retransmissions(2),
        r2: Limit::Retransmissions(4),
        ..plain()
    });
    assert_eq!(script.write(100), [". 1+100 ack 1"]);

    assert_eq!(
        script.wait(6_999),
        ["1000: . 1+100 ack 1", "3000: . 1+100 ack 1"],
        "RTO is 1 s, then 2 s, then 4 s"
    );
    assert_eq!(script.events(), [Event::Unresponsive]);
    assert_eq!(
        script.wait(100_000),
        ["1: . 1+100 ack 1", "8001: . 1+100 ack 1", "24001: R. 101+0 ack 1"]
    );
    assert_eq!(script.events(), [Event::TimedOut(TimedOut::Data)]);
}

/// "Retransmission 20 s after the first, 40 s later again (R1 = 2), and 80 s after that the end".
#[test]
fn r2_can_count_from_r1() {
    let seconds = Duration::from_secs;
    let mut script = Script::open(Config {
        rto: Rto { initial: seconds(20), min: seconds(20), max: seconds(600), ..Rto::default() },
        r1: Limit::Retransmissions(2),
        r2: Limit::ElapsedSinceR1(seconds(80)),
        ..plain()
    });
    let _ = script.write(100);

    assert_eq!(script.wait(139_999), ["20000: . 1+100 ack 1", "60000: . 1+100 ack 1"]);
    assert_eq!(script.wait(1), ["1: R. 101+0 ack 1"]);
    assert_eq!(script.tcp.state(), State::Closed);
}

#[test]
fn karn_keeps_the_backed_off_timeout_until_a_clear_sample() {
    let mut script = Script::open(plain());
    let _ = script.write(1_000);
    assert_eq!(script.wait(1_500), ["1000: . 1+1000 ack 1"]);

    assert_eq!(script.peer(1, 1_001, ACK, 0), NOTHING);
    assert_eq!(script.tcp.rto(), Duration::from_secs(2), "ambiguous: no sample");
    let _ = script.write(1_000);
    script.skip(100);
    assert_eq!(script.peer(1, 2_001, ACK, 0), NOTHING);
    assert_eq!(script.tcp.rto(), Duration::from_secs(1), "a clear sample ends the backing off");
}

#[test]
fn any_acknowledgement_can_end_backing_off() {
    let rto = Rto { forgive: true, ..Rto::default() };
    let mut script = Script::open(Config { rto, ..plain() });
    let _ = script.write(1_000);
    assert_eq!(script.wait(1_500), ["1000: . 1+1000 ack 1"]);

    assert_eq!(script.peer(1, 1_001, ACK, 0), NOTHING);

    assert_eq!(script.tcp.rto(), Duration::from_secs(1));
}

#[test]
fn the_factor_of_backing_off_is_a_parameter() {
    let mut script =
        Script::open(Config { rto: Rto { backoff: 1.0, ..Rto::default() }, ..plain() });
    let _ = script.write(100);

    let sent = script.wait(3_000);

    assert_eq!(sent, ["1000: . 1+100 ack 1", "2000: . 1+100 ack 1", "3000: . 1+100 ack 1"]);
}

#[test]
fn a_timeout_leaves_one_segment_and_half_the_flight_as_threshold() {
    let mut script = Script::open(plain());
    assert_eq!(script.write(20_000).len(), 10, "the initial window");

    assert_eq!(script.wait(1_000), ["1000: . 1+1000 ack 1"]);
    assert_eq!((script.tcp.cwnd(), script.tcp.ssthresh()), (1_000, 5_000));
    assert_eq!(script.wait(2_000), ["2000: . 1+1000 ack 1"]);
    assert_eq!(script.tcp.ssthresh(), 5_000, "the second timeout of a segment keeps it");
    assert_eq!(script.peer(1, 1_001, ACK, 0), [". 1001+1000 ack 1", ". 2001+1000 ack 1"]);
    assert_eq!(script.peer(1, 10_001, ACK, 0).len(), 4, "slow start: one or two more an ACK");
}

#[test]
fn an_idle_connection_starts_slowly_again() {
    let mut script = Script::open(plain());
    for round in 0..4_u32 {
        let sent = script.write(10_000).len();
        assert_eq!(sent, 10);
        let mut acked = round * 10_000 + 1;
        for _ in 0..5 {
            acked += 2_000;
            assert_eq!(script.peer(1, acked, ACK, 0), NOTHING);
        }
    }
    assert!(script.tcp.cwnd() > 15_000);

    script.skip(5_000);
    assert_eq!(script.write(30_000).len(), 10, "the restart window is the initial window");
}

#[test]
fn keep_alive_probes_are_answered_or_end_the_connection() {
    let keep_alive =
        KeepAlive { idle: Duration::from_secs(100), interval: Duration::from_secs(10), probes: 2 };
    let mut script = Script::open(Config { keep_alive: Some(keep_alive), ..plain() });

    assert_eq!(script.wait(100_000), ["100000: . 0+0 ack 1"]);
    assert_eq!(script.peer(1, 1, ACK, 0), NOTHING);
    assert_eq!(
        script.wait(300_000),
        ["100000: . 0+0 ack 1", "110000: . 0+0 ack 1", "120000: R. 1+0 ack 1"]
    );
    assert_eq!(script.events(), [Event::TimedOut(TimedOut::KeepAlive)]);
}

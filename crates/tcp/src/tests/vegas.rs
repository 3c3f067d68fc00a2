//! The rules of TCP Vegas: of the paper, and of ns-2.

use std::time::Duration;

use base::time::Time;

use super::script::{ACK, NOTHING, Script, plain};
use crate::vegas::{Config, Rebase, Variant, Vegas};
use crate::{
    self as tcp, Ack, Algorithm, Congestion, CongestionControl, Delivery, Duplicate, Finding, Head,
    InitialWindow, Verdict, Window,
};

const MSS: u64 = 1_000;
fn ns2() -> Config {
    Config::of(Variant::Ns2)
}

fn published() -> Config {
    Config::of(Variant::Published)
}

#[test]
fn ns2_rounds_diff_and_holds_at_its_bounds() {
    // Ten segments in flight at 100 ms without queues: Diff is 10 (1 - 100 ms / RTT).
    let step = |rtt| {
        let mut path = Path::avoiding(ns2(), 10);
        path.round(10, 100);
        path.round(10, rtt);
        path.window.cwnd = 10 * MSS;
        path.ack(10, rtt);
        (path.diff(), path.window.cwnd.cast_signed() - 10_000)
    };

    assert_eq!(step(100), (0, 100), "a segment by the window");
    assert_eq!(step(105), (0, 100), "0.48");
    assert_eq!(step(110), (1_000, 0), "0.91 is 1, which is not below alpha");
    assert_eq!(step(150), (3_000, 0), "3.3 is 3, which is not above beta");
    assert_eq!(step(155), (4_000, -1_000), "3.5 is 4");
}

#[test]
fn the_published_window_moves_by_a_segment_each_round_trip() {
    let step = |rtt| {
        let mut path = Path::avoiding(published(), 10);
        path.round(10, 100);
        path.window.cwnd = 10 * MSS;
        path.round(10, rtt);
        path.window.cwnd = 10 * MSS;
        path.ack(10, rtt);
        path.window.cwnd
    };

    assert_eq!(step(124), 11_000, "Diff is 1.9");
    assert_eq!(step(126), 10_000, "2.1");
    assert_eq!(step(166), 10_000, "3.98");
    assert_eq!(step(168), 9_000, "4.05");
}

#[test]
fn ns2_expects_what_is_in_flight_and_the_paper_what_the_window_allows() {
    let diff = |config| {
        let mut path = Path::avoiding(config, 20);
        path.round(10, 100);
        path.round(10, 100);
        path.window.cwnd = 20 * MSS;
        path.ack(10, 100);
        path.diff()
    };

    assert_eq!(diff(ns2()), 0);
    assert_eq!(diff(published()), 10_000);
}

#[test]
fn ns2_takes_a_round_trip_of_one_segment_for_the_base() {
    let base = |config, segments| {
        let mut path = Path::avoiding(config, 2);
        path.round(segments, 100);
        path.round(segments, 300);
        path.ack(segments, 300);
        path.finding().base_rtt.as_millis()
    };

    assert_eq!(base(ns2(), 1), 300);
    assert_eq!(base(ns2(), 2), 100);
    assert_eq!(base(published(), 1), 100);
}

#[test]
fn slow_start_grows_every_other_round_trip_and_ends_an_eighth_lower() {
    let up_to_the_fifth = |rtt| {
        let mut path = Path::starting(ns2(), 8);
        let mut windows = Vec::new();
        for rtt in [100, 100, 100, 100, rtt] {
            path.full_round(rtt);
            windows.push(path.window.cwnd / MSS);
        }
        assert_eq!(windows, [8, 16, 16, 32, 32], "the first, third and fifth hold");
        path.ack(32, rtt);
        (path.diff(), path.window.cwnd, path.window.ssthresh)
    };

    assert_eq!(up_to_the_fifth(103), (1_000, 33_000, u64::MAX), "0.9: the sixth grows");
    assert_eq!(up_to_the_fifth(106), (2_000, 28_000, 2_000), "1.8, above gamma");
}

#[test]
fn ns2_grows_no_window_that_is_not_used() {
    let growth = |flight| {
        let mut path = Path::avoiding(ns2(), 10);
        path.round(flight, 100);
        path.round(flight, 100);
        path.window.cwnd > 10 * MSS
    };

    assert!(growth(8), "two segments unused");
    assert!(!growth(7), "three");
}

#[test]
fn the_window_never_shrinks_below_two_segments() {
    for config in [ns2(), published()] {
        let mut path = Path::avoiding(Config { alpha: 0.0, beta: 1.0, ..config }, 3);
        path.round(3, 10);
        for _ in 0..6 {
            path.round(8, 1_000);
        }
        assert_eq!(path.window.cwnd, 2 * MSS, "{config:?}");
    }
}

#[test]
fn a_duplicate_repairs_once_the_fine_timer_has_expired() {
    // By one sample of 100 ms: ns-2 has (100 + 2 * 25) * 17 / 16 = 159.4 ms, RFC 6298's 300 ms.
    for (config, early, late) in [(ns2(), 159, 160), (published(), 299, 301)] {
        let verdict = |age| Path::avoiding(config, 10).after(100).duplicate(1, age, false);
        assert_eq!(verdict(early), Verdict::Continue);
        assert_eq!(verdict(late), Verdict::Retransmit);
        let third = |age| Path::avoiding(config, 10).after(100).duplicate(3, age, false);
        assert_eq!(third(50), Verdict::Retransmit, "three need no timer");
    }
}

#[test]
fn ns2_is_more_patient_after_each_repair() {
    let mut path = Path::avoiding(ns2(), 10).after(100);
    let _ = path.duplicate(1, 160, false);
    assert_eq!(path.duplicate(2, 179, false), Verdict::Continue, "159.4 * 9 / 8 = 179.3");
    assert_eq!(path.duplicate(2, 180, true), Verdict::Retransmit);
    assert_eq!(path.duplicate(3, 358, true), Verdict::Continue, "then twice that");
    assert_eq!(path.duplicate(3, 359, true), Verdict::Retransmit);
}

#[test]
fn a_loss_costs_a_quarter_and_one_of_a_repeat_half() {
    let after = |segments: u64, is_again| {
        let mut path = Path::avoiding(ns2(), segments).after(100);
        let _ = path.duplicate(3, 50, is_again);
        let inflated = path.window.cwnd / MSS;
        let _ = path.duplicate(4, 60, is_again);
        let further = path.window.cwnd / MSS;
        path.ack(segments, 100);
        (inflated, further, path.window.cwnd / MSS, path.window.ssthresh)
    };

    assert_eq!(after(10, false), (11, 12, 8, 2 * MSS));
    assert_eq!(after(10, true), (8, 9, 5, 2 * MSS));
    assert_eq!(after(3, false), (5, 6, 2, 2 * MSS));
}

#[test]
fn only_what_was_sent_after_the_last_cut_costs_again() {
    let mut path = Path::avoiding(ns2(), 20).after(100);
    let _ = path.duplicate(3, 50, false);
    path.ack(20, 100);
    assert_eq!(path.window.cwnd / MSS, 15);
    path.now += Duration::from_millis(60);

    let _ = path.duplicate(3, 61, false);
    path.ack(15, 100);
    assert_eq!(path.window.cwnd / MSS, 15, "sent before the cut");
    path.now += Duration::from_millis(60);

    let _ = path.duplicate(3, 30, false);
    path.ack(15, 100);
    assert_eq!(path.window.cwnd / MSS, 12, "sent after it: 15 - 3");
}

#[test]
fn two_acknowledgements_after_a_repair_look_at_the_next_segment() {
    let mut path = Path::avoiding(ns2(), 10).after(100);
    let _ = path.duplicate(3, 50, false);

    assert_eq!(path.ack_with_head(10, 500), Verdict::Retransmit);
    assert_eq!(path.ack_with_head(10, 500), Verdict::Retransmit);
    assert_eq!(path.ack_with_head(10, 500), Verdict::Continue, "the third does not");

    let _ = path.duplicate(3, 50, false);
    assert_eq!(path.ack_with_head(10, 20), Verdict::Continue);
    assert_eq!(path.ack_with_head(10, 500), Verdict::Continue, "what is in time ends the worry");
}

#[test]
fn a_coarse_timeout_leaves_two_segments_and_half_the_window() {
    let after = |config| {
        let mut path = Path::avoiding(config, 11);
        path.now += Duration::from_millis(100);
        for _ in 0..5 {
            path.ack(11, 100);
        }
        path.window.cwnd = 11 * MSS;
        let (now, flight) = (path.now, 7 * MSS);
        path.vegas.on_timeout(now, &mut path.window, flight, true);
        let (cwnd, ssthresh) = (path.window.cwnd, path.window.ssthresh);
        path.ack(2, 100);
        path.ack(1, 100);
        (cwnd, ssthresh, path.window.cwnd)
    };

    assert_eq!(after(ns2()), (2_000, 5_000, 2_180), "its round trip goes on as it grew");
    assert_eq!(after(published()), (1_000, 3_500, 3_000), "RFC 5681, and slow start at once");
}

#[test]
fn a_longer_path_is_taken_for_a_queue_until_the_base_is_forgotten() {
    // 100 segments a second over 100 ms, then over 200 ms: the path then holds 20.
    let rates = |rebase, ttl| {
        let mut path = Path::avoiding(Config { rebase, ..published() }, 10);
        path.rate_through(100.0, 100.0);
        let before = path.rate_through(100.0, 100.0);
        path.ttl = ttl;
        path.rate_through(100.0, 200.0);
        assert!(before > 85.0, "{before}");
        (path.rate_through(100.0, 200.0), path.finding().rebased)
    };

    let (rate, rebased) = rates(Rebase::Never, 64);
    assert!(rate < 50.0 && rebased == 0, "{rate}");
    let (rate, rebased) = rates(Rebase::Hops, 62);
    assert!(rate > 99.0 && rebased == 1, "{rate} {rebased}");
    let (rate, rebased) = rates(Rebase::Hops, 64);
    assert!(rate < 50.0 && rebased == 0, "the same number of hops: {rate}");
    let (rate, rebased) = rates(Rebase::Rounds(20), 64);
    assert!(rate > 85.0 && rebased >= 1, "{rate} {rebased}");
}

#[test]
fn our_own_queue_is_not_taken_for_a_longer_path() {
    for rounds in [1, 8] {
        let config = Config { rebase: Rebase::Rounds(rounds), ..published() };
        let mut path = Path::avoiding(config, 10);
        for _ in 0..20 {
            path.rate_through(100.0, 100.0);
        }

        assert_eq!(path.finding().base_rtt.as_millis(), 100);
        assert!(path.finding().rebased > 10, "two to four segments are beyond an eighth");
    }
}

/// A connection in segments of 1,000 octets with ten in flight; the first is acknowledged after
/// 100 ms.
fn in_flight(config: Config) -> Script {
    let mut script = Script::open(tcp::Config {
        congestion: Congestion {
            algorithm: Algorithm::Vegas(config),
            initial_window: InitialWindow::Segments(10),
            ..Congestion::default()
        },
        ..plain()
    });
    assert_eq!(script.write(10_000).len(), 10);
    script.skip(100);
    assert_eq!(script.peer(1, 1_001, ACK, 0), NOTHING);
    assert_eq!(script.tcp.cwnd(), 10_000, "the first round trip does not grow");
    script
}

#[test]
fn the_first_duplicate_after_the_fine_timeout_sends_the_oldest_segment_again() {
    let mut script = in_flight(ns2());
    script.skip(60);

    assert_eq!(script.peer(1, 1_001, ACK, 0), [". 1001+1000 ack 1"]);
    assert_eq!(script.tcp.cwnd(), 9_000, "three quarters, and one for the duplicate");
    let timeout = script.tcp.next_timeout().unwrap();
    assert_eq!(timeout.since(script.now), script.tcp.rto(), "the coarse timer restarts");
    assert_eq!(script.peer(1, 1_001, ACK, 0), NOTHING);
    assert_eq!(script.peer(1, 1_001, ACK, 0), NOTHING, "the third repeats nothing");
    assert_eq!(script.tcp.cwnd(), 11_000);
    assert!(script.tcp.is_recovering());

    assert_eq!(script.peer(1, 10_001, ACK, 0), NOTHING);
    assert_eq!((script.tcp.cwnd(), script.tcp.ssthresh()), (8_000, 2_000));
    assert!(!script.tcp.is_recovering());
    let stats = script.tcp.stats();
    assert_eq!((stats.feedback.fast_retransmits, stats.sent.retransmissions), (1, 1));
    let Finding::Vegas(finding) = stats.finding else { panic!("{:?}", stats.finding) };
    assert_eq!((finding.early, finding.base_rtt), (1, Duration::from_millis(100)));
}

#[test]
fn what_duplicates_inflate_lets_new_segments_go_and_no_more() {
    let mut script = in_flight(ns2());
    script.skip(60);
    let _ = script.peer(1, 1_001, ACK, 0);
    assert_eq!(script.write(10_000), NOTHING, "nine are in flight, and nine may be");

    assert_eq!(script.peer(1, 1_001, ACK, 0), [". 10001+1000 ack 1"]);
    assert_eq!(script.peer(1, 1_001, ACK, 0), [". 11001+1000 ack 1"]);
    assert_eq!(script.tcp.stats().sent.limited_transmits, 0);
}

#[test]
fn the_first_acknowledgement_after_a_repair_sends_a_late_segment_again() {
    let mut script = in_flight(ns2());
    script.skip(60);
    let _ = script.peer(1, 1_001, ACK, 0);
    script.skip(150);

    assert_eq!(script.peer(1, 3_001, ACK, 0), [". 3001+1000 ack 1"], "sent 310 ms ago");
    assert_eq!(script.peer(1, 4_001, ACK, 0), [". 4001+1000 ack 1"]);
    assert_eq!(script.peer(1, 5_001, ACK, 0), NOTHING);
}

#[test]
fn duplicates_after_a_coarse_timeout_repair_nothing() {
    let mut script = in_flight(ns2());
    assert_eq!(script.wait(1_000).len(), 2, "a window of two segments");

    for _ in 0..5 {
        assert_eq!(script.peer(1, 1_001, ACK, 0), NOTHING);
    }

    assert_eq!(script.tcp.cwnd(), 2_000);
    assert_eq!(script.tcp.stats().feedback.fast_retransmits, 0);
}

#[test]
fn with_sack_the_recovery_is_that_of_rfc_6675_and_costs_a_quarter() {
    let mut script = Script::open(tcp::Config {
        congestion: Congestion {
            algorithm: Algorithm::Vegas(published()),
            initial_window: InitialWindow::Segments(12),
            ..Congestion::default()
        },
        ..super::script::with_sack()
    });
    assert_eq!(script.write(12_000).len(), 12);
    script.skip(100);
    for end in [2_001, 3_001] {
        assert_eq!(script.peer_sacks(1, &[(1_001, end)]), NOTHING);
    }

    assert_eq!(script.peer_sacks(1, &[(1_001, 4_001)]), [". 1+1000 ack 1"]);
    assert_eq!((script.tcp.cwnd(), script.tcp.ssthresh()), (9_000, 9_000));
    let _ = script.peer(1, 12_001, ACK, 0);
    assert_eq!(script.tcp.cwnd(), 9_000);

    // Whether three duplicates start a recovery is not Vegas' to say; its fine timer is.
    for (age, verdict, cwnd) in [(50, Verdict::Continue, 10), (400, Verdict::Retransmit, 8)] {
        let mut path = Path::avoiding(published(), 10).after(100);
        let head = Some(path.head(age, false));
        let duplicate = Duplicate {
            count: 3,
            is_enough: true,
            in_recovery: false,
            has_sack: true,
            head,
            delivery: Delivery::default(),
        };
        assert_eq!(path.vegas.on_duplicate(path.now, &mut path.window, &duplicate), verdict);
        let head = Some(path.head(1, true));
        let fourth = Duplicate { count: 4, head, ..duplicate };
        let _ = path.vegas.on_duplicate(path.now, &mut path.window, &fourth);
        assert_eq!(path.window.cwnd, cwnd * MSS, "nothing is inflated");
    }
}

/// A sender all of whose segments come back, as the test says when.
struct Path {
    now: Time,
    window: Window,
    vegas: Vegas,
    ttl: u8,
}

impl Path {
    /// In slow start with a window of so many segments.
    fn starting(config: Config, segments: u64) -> Self {
        let window = Window { cwnd: segments * MSS, ssthresh: u64::MAX, mss: MSS, next_send: None };
        let mut vegas = Vegas::new(config);
        let now = Time::from_nanos(10_000_000_000);
        vegas.on_sent(now, &mut window.clone(), MSS);
        Self { now, window, vegas, ttl: 64 }
    }

    /// The same in congestion avoidance.
    fn avoiding(config: Config, segments: u64) -> Self {
        let mut path = Self::starting(config, segments);
        path.window.ssthresh = 2 * MSS;
        path
    }

    /// With one round-trip time known, and nothing grown by it.
    fn after(mut self, rtt: u64) -> Self {
        let window = self.window;
        self.ack(2, rtt);
        self.window = window;
        self
    }

    fn acknowledge(&mut self, flight: u64, rtt: Duration, head: Option<Head>) -> Verdict {
        let ack = Ack {
            octets: MSS,
            flight: flight * MSS,
            flight_after: (flight - 1) * MSS,
            rtt: Some(rtt),
            newest_rtt: Some(rtt),
            srtt: None,
            is_window_limited: true,
            in_recovery: false,
            ttl: self.ttl,
            head,
            delivery: Delivery::default(),
        };
        self.vegas.on_ack(self.now, &mut self.window, &ack)
    }

    /// One segment of so many in flight comes back after so many milliseconds.
    fn ack(&mut self, flight: u64, rtt: u64) {
        let _ = self.acknowledge(flight, Duration::from_millis(rtt), None);
    }

    /// The same after 100 ms; the oldest left was sent for the first time so long ago.
    fn ack_with_head(&mut self, flight: u64, age: u64) -> Verdict {
        let head = self.head(age, false);
        self.acknowledge(flight, Duration::from_millis(100), Some(head))
    }

    /// So many segments that are in flight together come back.
    fn round(&mut self, flight: u64, rtt: u64) {
        self.now += Duration::from_millis(rtt);
        for _ in 0..flight {
            self.ack(flight, rtt);
        }
    }

    /// All that the window allows comes back, and as much goes out again.
    fn full_round(&mut self, rtt: u64) {
        self.now += Duration::from_millis(rtt);
        for _ in 0..self.window.cwnd / MSS {
            self.ack(self.window.cwnd / MSS, rtt);
        }
    }

    /// Fifty windows through a bottleneck of so many segments a second and a path of `base`
    /// milliseconds; returns the segments a second that came through.
    fn rate_through(&mut self, rate: f64, base: f64) -> f64 {
        let start = self.now;
        let segments: u64 = (0..50).map(|_| self.through(rate, base)).sum();
        segments as f64 / self.now.since(start).as_secs_f64()
    }

    fn through(&mut self, rate: f64, base: f64) -> u64 {
        let flight = self.window.cwnd / MSS;
        let rtt = (flight as f64 / rate).max(base / 1_000.0);
        self.now += Duration::from_secs_f64(rtt);
        for _ in 0..flight {
            let _ = self.acknowledge(flight, Duration::from_secs_f64(rtt), None);
        }
        flight
    }

    fn duplicate(&mut self, count: u32, age: u64, is_again: bool) -> Verdict {
        let duplicate = Duplicate {
            count,
            is_enough: count >= 3,
            in_recovery: false,
            has_sack: false,
            head: Some(self.head(age, is_again)),
            delivery: Delivery::default(),
        };
        self.vegas.on_duplicate(self.now, &mut self.window, &duplicate)
    }

    fn head(&self, age: u64, is_retransmission: bool) -> Head {
        let sent_at = Time::from_nanos(self.now.as_nanos() - age * 1_000_000);
        Head { sent_at, is_retransmission }
    }

    fn finding(&self) -> tcp::vegas::Finding {
        self.vegas.finding()
    }

    /// In thousandths of a segment.
    fn diff(&self) -> i64 {
        self.finding().diff_milli
    }
}

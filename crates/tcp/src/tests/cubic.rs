//! The curve of RFC 9438, where it gives way to Reno's, and the end of slow start by RFC 9406.

use std::time::Duration;

use base::time::Time;

use crate::{Ack, CongestionControl, Cubic, Delivery, Window};

const MSS: u64 = 1_000;

#[test]
fn the_window_follows_the_curve_before_and_after_its_plateau() {
    let mut path = Path::new(Cubic::new(true, false), 200, Duration::from_millis(100));
    path.lose();
    let start = path.now;
    assert_eq!(path.window.cwnd, 140 * MSS);

    let k = ((200.0 - 140.0_f64) / 0.4).cbrt();
    while path.now.since(start) < Duration::from_secs(12) {
        path.round();
        let t = path.now.since(start).as_secs_f64();
        let expected = 0.4 * (t - k).powi(3) + 200.0;
        assert!(
            (path.cwnd() - expected).abs() < 0.01 * expected,
            "{t}: {} {expected}",
            path.cwnd()
        );
    }
    assert!(path.cwnd() > 300.0);
}

#[test]
fn a_small_window_grows_as_a_reno_of_the_same_mean_would() {
    let mut path = Path::new(Cubic::new(true, false), 20, Duration::from_millis(10));
    path.lose();
    assert_eq!(path.window.cwnd, 14 * MSS);

    for round in 1..=11 {
        path.round();
        let expected = 14.0 + f64::from(round) * 3.0 * 0.3 / 1.7;
        assert!((path.cwnd() - expected).abs() < 0.5, "{round}: {} {expected}", path.cwnd());
    }
    // Beyond the window of the loss, a segment each round trip.
    let from = path.cwnd();
    for _ in 0..20 {
        path.round();
    }
    assert!((path.cwnd() - from - 20.0).abs() < 1.5, "{from} {}", path.cwnd());
}

#[test]
fn a_flow_that_lost_ground_aims_lower_if_it_converges_fast() {
    let plateau = |fast_convergence| {
        let mut path =
            Path::new(Cubic::new(fast_convergence, false), 200, Duration::from_millis(100));
        path.lose();
        for _ in 0..10 {
            path.round();
        }
        let at_loss = path.cwnd();
        path.lose();
        let start = path.now;
        let k = |plateau: f64| ((plateau - 0.7 * at_loss) / 0.4).cbrt();
        let expected = if fast_convergence { 0.85 * at_loss } else { at_loss };
        while path.now.since(start).as_secs_f64() < k(expected) {
            path.round();
        }
        (path.cwnd(), expected)
    };

    for fast_convergence in [false, true] {
        let (reached, expected) = plateau(fast_convergence);
        assert!((reached - expected).abs() < 0.01 * expected, "{reached} {expected}");
    }
}

#[test]
fn time_in_which_the_window_is_not_used_does_not_count() {
    let mut path = Path::new(Cubic::new(true, false), 200, Duration::from_millis(100));
    path.lose();
    path.round();
    let before = path.window.cwnd;

    path.is_window_limited = false;
    for _ in 0..600 {
        path.round();
    }
    assert_eq!(path.window.cwnd, before);
    path.is_window_limited = true;
    path.round();

    assert!(path.window.cwnd < before + 10 * MSS, "{} {before}", path.window.cwnd);
}

#[test]
fn a_timeout_starts_from_one_segment_and_forgets_the_plateau() {
    let mut path = Path::new(Cubic::new(true, false), 100, Duration::from_millis(100));

    path.cubic.on_timeout(path.now, &mut path.window, 100 * MSS, true);
    path.cubic.on_timeout(path.now, &mut path.window, MSS, false);

    assert_eq!((path.window.cwnd, path.window.ssthresh), (MSS, 70 * MSS));
    while path.window.cwnd < path.window.ssthresh {
        path.round();
    }
    let from = path.cwnd();
    for _ in 0..10 {
        path.round();
    }
    assert!(path.cwnd() - from < 12.0, "it climbs to no old plateau: {} {from}", path.cwnd());
}

#[test]
fn a_mark_leaves_at_least_one_segment_and_a_loss_two() {
    let mut path = Path::new(Cubic::new(true, false), 1, Duration::from_millis(100));

    path.cubic.on_mark(path.now, &mut path.window, MSS);
    assert_eq!((path.window.cwnd, path.window.ssthresh), (MSS, 2 * MSS));

    path.cubic.on_loss(path.now, &mut path.window, MSS);
    assert_eq!((path.window.cwnd, path.window.ssthresh), (2 * MSS, 2 * MSS));
}

#[test]
fn slow_start_ends_when_the_round_trip_grows_for_good() {
    let mut path = Path::starting(Cubic::new(true, true));
    for _ in 0..3 {
        path.round();
    }
    assert_eq!(path.cwnd(), 80.0, "it doubles while nothing queues");

    path.rtt = Duration::from_millis(113);
    let mut sizes = Vec::new();
    for _ in 0..7 {
        path.round();
        sizes.push(path.cwnd());
    }

    assert_ne!(path.window.ssthresh, u64::MAX);
    assert!(sizes[0] < 160.0, "{sizes:?}");
    assert!(sizes.windows(2).all(|pair| pair[1] <= 1.3 * pair[0]), "{sizes:?}");
    assert_eq!(path.window.ssthresh, path.window.ssthresh.min(path.window.cwnd));
}

#[test]
fn slow_start_goes_on_when_the_round_trip_had_not_grown_after_all() {
    let mut path = Path::starting(Cubic::new(true, true));
    for _ in 0..3 {
        path.round();
    }
    path.rtt = Duration::from_millis(130);
    path.round();
    path.round();
    let before = path.cwnd();

    path.rtt = Duration::from_millis(100);
    path.round();
    path.round();

    assert!(path.cwnd() > 2.5 * before, "{} {before}", path.cwnd());
    assert_eq!(path.window.ssthresh, u64::MAX);
}

/// A sender whose whole window comes back every round trip, two segments to an acknowledgement.
struct Path {
    now: Time,
    rtt: Duration,
    window: Window,
    cubic: Cubic,
    is_window_limited: bool,
}

impl Path {
    /// In congestion avoidance with a window of `segments`.
    fn new(cubic: Cubic, segments: u64, rtt: Duration) -> Self {
        let window =
            Window { cwnd: segments * MSS, ssthresh: segments * MSS, mss: MSS, next_send: None };
        Self { now: Time::from_nanos(1), rtt, window, cubic, is_window_limited: true }
    }

    /// In slow start with a window of ten segments.
    fn starting(cubic: Cubic) -> Self {
        let mut path = Self::new(cubic, 10, Duration::from_millis(100));
        path.window.ssthresh = u64::MAX;
        path
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd as f64 / MSS as f64
    }

    fn lose(&mut self) {
        let flight = self.window.cwnd;
        self.cubic.on_loss(self.now, &mut self.window, flight);
    }

    fn round(&mut self) {
        let (end, flight) = (self.now + self.rtt, self.window.cwnd);
        let acks = flight.div_ceil(2 * MSS);
        let pause = self.rtt / u32::try_from(acks).unwrap();
        for index in 0..acks {
            self.now += pause;
            let ack = Ack {
                octets: (flight - index * 2 * MSS).min(2 * MSS),
                flight: self.window.cwnd,
                flight_after: self.window.cwnd,
                rtt: Some(self.rtt),
                newest_rtt: Some(self.rtt),
                srtt: Some(self.rtt),
                is_window_limited: self.is_window_limited,
                in_recovery: false,
                ttl: 64,
                head: None,
                delivery: Delivery::default(),
            };
            self.cubic.on_ack(self.now, &mut self.window, &ack);
        }
        self.now = end;
    }
}

//! BBR over a path with a rate, a delay, a buffer and losses: what it fills, and what it leaves alone.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use base::rng::Rng;

use super::pair::{DELAY, Pair, Side};
use crate::{Algorithm, Config, Congestion, Finding, LossRecovery};

/// Octets a second.
const RATE: f64 = 125_000.0;
/// What the path holds in a round trip: 12.5 kB.
const ROUND_TRIP: Duration = Duration::from_millis(100);

#[test]
fn it_finds_the_rate_and_the_least_round_trip_time() {
    let found = transfer(Algorithm::Bbr, Path::default(), 500_000);

    assert!(found.share > 0.9, "{found:?}");
    let Finding::Bbr(finding) = found.finding else { panic!("{found:?}") };
    assert!((0.85 * RATE..1.05 * RATE).contains(&(finding.rate as f64)), "{finding:?}");
    assert!(finding.min_rtt >= ROUND_TRIP, "{finding:?}");
    assert!(finding.min_rtt < ROUND_TRIP + Duration::from_millis(30), "{finding:?}");
}

#[test]
fn it_leaves_a_long_buffer_mostly_empty() {
    let [bbr, cubic] = [Algorithm::Bbr, Algorithm::CUBIC]
        .map(|algorithm| transfer(algorithm, Path { buffer: 200, ..Path::default() }, 1_000_000));

    // Two round trips' worth in flight at most once Startup is over.
    assert!(bbr.queued < Duration::from_millis(150), "{bbr:?}");
    assert!(cubic.queued > bbr.queued, "{cubic:?} {bbr:?}");
}

#[test]
fn losses_that_are_noise_do_not_slow_it_down() {
    let [bbr, cubic] = [Algorithm::Bbr, Algorithm::CUBIC]
        .map(|algorithm| transfer(algorithm, Path { loss: 0.05, ..Path::default() }, 2_000_000));

    assert!(bbr.share > 0.8, "{bbr:?}");
    assert!(cubic.share < 0.5, "{cubic:?}");
}

/// Radio links, and tunnels that keep the order, make clumps: the least round trip is far below the usual one.
#[test]
fn acknowledgements_that_come_in_clumps_do_not_slow_it_down() {
    let path = Path { clumps: Duration::from_millis(400), ..Path::default() };

    let found = transfer(Algorithm::Bbr, path, 2_000_000);

    assert!(found.share > 0.6, "{found:?}");
}

#[test]
fn a_path_that_became_longer_is_noticed_when_ten_seconds_are_over() {
    let path = Path { grows: Some(5.0), ..Path::default() };
    let found = transfer(Algorithm::Bbr, path, 2_500_000);

    assert!(found.lulls >= 1, "{found:?}");
    let Finding::Bbr(finding) = found.finding else { panic!("{found:?}") };
    assert!(finding.min_rtt >= ROUND_TRIP + LONGER, "{finding:?}");
    assert!(found.share > 0.9, "{found:?}");
}

/// What it loses, and how many segments wait.
#[derive(Clone, Copy, Debug)]
struct Path {
    buffer: u64,
    loss: f64,
    /// From when on it is [`LONGER`], in seconds.
    grows: Option<f64>,
    /// What arrives waits for the next multiple of this.
    clumps: Duration,
}

const LONGER: Duration = Duration::from_millis(20);

impl Default for Path {
    fn default() -> Self {
        Self { buffer: 40, loss: 0.0, grows: None, clumps: Duration::ZERO }
    }
}

#[derive(Clone, Copy, Debug)]
struct Found {
    /// Of the rate, from the first SYN to the last octet.
    share: f64,
    /// How long segments waited in the buffer at most, in the second half.
    queued: Duration,
    /// Times of more than a tenth of a second with a twentieth of a round trip in flight at most.
    lulls: u32,
    finding: Finding,
}

/// Sends octets over a path.
fn transfer(algorithm: Algorithm, path: Path, octets: usize) -> Found {
    let config = Config {
        mss: Some(1_012),
        send_buffer: 1 << 20,
        receive_buffer: 1 << 20,
        congestion: Congestion { algorithm, restart_after_idle: false, ..Congestion::default() },
        recovery: LossRecovery { lost_repairs: true, ..LossRecovery::default() },
        ..Config::default()
    };
    let queued = Rc::new(Cell::new(Duration::ZERO));
    let noted = Rc::clone(&queued);
    // When each segment that waits or is being sent has been sent, in seconds of the virtual link.
    let (mut departures, mut rng) = (VecDeque::new(), Rng::stream(1, "loss"));
    let clock = Rc::new(Cell::new(0.0_f64));
    let time = Rc::clone(&clock);
    let (mut passed, mut arrived) = (0, 0.0_f64);
    let mut pair = Pair::new(config, config).with_fate(move |side, _, segment| {
        if side == Side::Server {
            return vec![DELAY];
        }
        let now = time.get();
        while departures.front().is_some_and(|at| *at <= now) {
            departures.pop_front();
        }
        if departures.len() as u64 > path.buffer {
            return Vec::new();
        }
        let start = departures.back().copied().unwrap_or(now).max(now);
        let done = start + (segment.payload.len() + 52) as f64 / (RATE * 1.052);
        departures.push_back(done);
        passed += segment.payload.len();
        if passed > octets / 2 {
            noted.set(noted.get().max(Duration::from_secs_f64(start - now)));
        }
        if rng.chance(path.loss) {
            return Vec::new();
        }
        let longer = if path.grows.is_some_and(|at| at <= now) { LONGER } else { Duration::ZERO };
        let clumps = path.clumps.as_secs_f64();
        let arrives = if clumps > 0.0 { (done / clumps).ceil() * clumps } else { done };
        // In order, although the clock here goes on by whole milliseconds.
        arrived = if clumps > 0.0 { arrives.max(arrived + 1e-3) } else { arrives };
        vec![Duration::from_secs_f64(arrived - now) + DELAY + longer]
    });
    pair.client.to_write = vec![7; octets];
    let (begin, mut lulls, mut quiet) = (pair.now, 0, 0);
    let mut finding = Finding::default();
    while pair.server.received.len() < octets {
        clock.set(pair.now.since(begin).as_secs_f64());
        pair.run_for(Duration::from_millis(1));
        let client = pair.client();
        finding = client.stats().finding;
        // After its Startup: four segments in flight.
        let is_quiet = client.flight_size() <= 5_000;
        quiet =
            if is_quiet && pair.now.since(begin) > Duration::from_secs(5) { quiet + 1 } else { 0 };
        lulls += u32::from(quiet == 100);
        assert!(pair.now.since(begin) < Duration::from_secs(600), "it does not end");
    }
    let ideal = octets as f64 / RATE;
    let share = ideal / pair.now.since(begin).as_secs_f64();
    Found { share, queued: queued.get(), lulls, finding }
}

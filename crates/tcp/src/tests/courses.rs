//! Whole transfers, packet by packet as they always were: whoever changes what TCP sends sees where, and how much.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use base::rng::Rng;

use super::pair::{DELAY, Pair, Side, pattern};
use crate::{Algorithm, Config, Congestion, LossRecovery, Offer, State, adaptive_pacing, vegas};

/// Octets of a transfer, and octets a second of the path.
const OCTETS: usize = 150_000;
const RATE: f64 = 100_000.0;
const NEVER: (u64, u64) = (0, 0);

/// What happens to a transfer; spans are from one second to another.
#[derive(Clone, Copy, Debug)]
struct Course {
    name: &'static str,
    /// Segments that may wait for the link.
    buffer: usize,
    loss: f64,
    /// Of acknowledgements.
    loss_back: f64,
    /// Segments that arrive 120 ms late, and that arrive twice.
    late: f64,
    twice: f64,
    /// When nothing arrives.
    outage: (u64, u64),
    /// When the receiver does not read.
    lazy: (u64, u64),
    /// When the path takes packets of 600 octets at most.
    narrow: (u64, u64),
    /// When the sender has nothing to send after a part of its octets.
    pause: (u64, u64),
    /// A router marks one packet in so many, instead of dropping it.
    marks: u64,
    change: fn(&mut Config),
}

const USUAL: Course = Course {
    name: "usual",
    buffer: 20,
    loss: 0.0,
    loss_back: 0.0,
    late: 0.0,
    twice: 0.0,
    outage: NEVER,
    lazy: NEVER,
    narrow: NEVER,
    pause: NEVER,
    marks: 0,
    change: |_| (),
};

const COURSES: [Course; 11] = [
    USUAL,
    Course { name: "lossy", loss: 0.03, loss_back: 0.1, ..USUAL },
    Course { name: "shuffled", late: 0.05, twice: 0.03, ..USUAL },
    Course { name: "interrupted", buffer: 6, outage: (1, 9), ..USUAL },
    Course {
        name: "closed",
        lazy: (1, 30),
        change: |config| config.receive_buffer = 16_384,
        ..USUAL
    },
    Course { name: "narrow", loss: 0.01, narrow: (1, 3), ..USUAL },
    Course { name: "pausing", pause: (1, 6), ..USUAL },
    Course {
        name: "plain",
        loss: 0.03,
        change: |config| {
            config.offer = Offer {
                timestamps: false,
                sack: false,
                window_scaling: false,
                duplicate_sack: false,
                ..config.offer
            };
        },
        ..USUAL
    },
    Course {
        name: "small",
        loss: 0.05,
        change: |config| {
            (config.send_buffer, config.receive_buffer, config.max_holes) = (4_000, 2_500, 1);
        },
        ..USUAL
    },
    Course { name: "marked", marks: 9, change: |config| config.offer.ecn = true, ..USUAL },
    Course {
        name: "impatient",
        loss: 0.1,
        change: |config| {
            config.recovery =
                LossRecovery { impatient: true, lost_repairs: true, ..config.recovery };
        },
        ..USUAL
    },
];

fn algorithms() -> [(&'static str, Algorithm); 8] {
    let rebase = vegas::Rebase::Rounds(1);
    [
        ("new-reno", Algorithm::default()),
        ("cubic", Algorithm::CUBIC),
        ("bbr", Algorithm::Bbr),
        ("vegas of ns-2", Algorithm::Vegas(vegas::Config::of(vegas::Variant::Ns2))),
        ("vegas as published", Algorithm::Vegas(vegas::Config::of(vegas::Variant::Published))),
        ("vegas, rebased", Algorithm::Vegas(vegas::Config { rebase, ..vegas::Config::default() })),
        (
            "tcp-ap of ns-2",
            Algorithm::TcpAp(adaptive_pacing::Config::of(adaptive_pacing::Variant::Ns2)),
        ),
        (
            "tcp-ap as published",
            Algorithm::TcpAp(adaptive_pacing::Config::of(adaptive_pacing::Variant::Published)),
        ),
    ]
}

/// Runs a course: how long it took, what the sender did, and a hash of all packets, of counters and of what the sender
/// showed at each second.
fn run(course: Course, algorithm: Algorithm) -> String {
    let mut config = Config {
        mss: Some(1_012),
        congestion: Congestion { algorithm, ..Congestion::default() },
        ..Config::default()
    };
    (course.change)(&mut config);
    let clock = Rc::new(Cell::new(0.0_f64));
    let time = Rc::clone(&clock);
    let (mut departures, mut rng) = (VecDeque::new(), Rng::stream(1, course.name));
    let mut pair = Pair::new(config, config).with_fate(move |side, _, segment| {
        let now = time.get();
        let is_in = |(from, to): (u64, u64)| (from as f64..to as f64).contains(&now);
        let chances = [course.loss, course.loss_back, course.late, course.twice];
        let [is_lost, is_lost_back, is_late, is_twice] = chances.map(|chance| rng.chance(chance));
        let is_too_long = is_in(course.narrow) && segment.payload.len() > 548;
        if is_in(course.outage) || is_too_long {
            return Vec::new();
        }
        if side == Side::Server {
            return if is_lost_back { Vec::new() } else { vec![DELAY] };
        }
        while departures.front().is_some_and(|at| *at <= now) {
            departures.pop_front();
        }
        if departures.len() > course.buffer || is_lost {
            return Vec::new();
        }
        let start = departures.back().copied().unwrap_or(now).max(now);
        let done = start + (segment.payload.len() + 52) as f64 / RATE;
        departures.push_back(done);
        let late = if is_late { Duration::from_millis(120) } else { Duration::ZERO };
        let after = Duration::from_secs_f64(done - now) + DELAY + late;
        if is_twice { vec![after, after + DELAY] } else { vec![after] }
    });
    pair.marks = course.marks;
    let is_pausing = course.pause != NEVER;
    pair.client.to_write = pattern(if is_pausing { OCTETS / 3 } else { OCTETS });
    pair.server.to_write = pattern(3_000);
    pair.server.closes = true;
    let (begin, mut story) = (pair.now, String::new());
    for ms in 0..120_000 {
        let second = ms / 1_000;
        clock.set(pair.now.since(begin).as_secs_f64());
        let is_in = |(from, to): (u64, u64)| (from..to).contains(&second);
        if ms % 1_000 == 0 {
            pair.server.is_lazy = is_in(course.lazy);
            if course.narrow != NEVER && (second == course.narrow.0 || second == course.narrow.1) {
                let mtu = if is_in(course.narrow) { 600 } else { 1_500 };
                let now = pair.now;
                pair.client().handle_path_mtu(now, mtu);
            }
            let client = pair.client();
            writeln!(
                story,
                "{} {} {} {} {} {:?} {:?} {:?} {:?}",
                client.cwnd(),
                client.ssthresh(),
                client.flight_size(),
                client.unsent(),
                client.is_recovering(),
                client.srtt(),
                client.rttvar(),
                client.rto(),
                client.next_timeout(),
            )
            .unwrap();
        }
        if ms == course.pause.1 * 1_000 {
            pair.client.to_write = pattern(OCTETS);
            pair.client.closes = true;
        }
        pair.run_for(Duration::from_millis(1));
        // Where nothing is to happen, time goes on, too.
        pair.now = pair.now.max(begin + Duration::from_millis(ms + 1));
        let is_over = |state: State| matches!(state, State::Closed | State::TimeWait);
        if ms > 1_000 && is_over(pair.client().state()) && is_over(pair.server().state()) {
            break;
        }
    }
    assert!(pair.server.received == pattern(OCTETS) && pair.client.received == pattern(3_000));
    let seconds = pair.now.since(begin).as_secs_f64();
    let stats = *pair.client().stats();
    write!(story, "{stats:?} {:?} ", pair.server().stats()).unwrap();
    write!(story, "{:?} {:?}", pair.client.events, pair.server.events).unwrap();
    let all = pair.trace.iter().map(String::as_str).chain([&story[..]]);
    let hash = all.flat_map(str::bytes).fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    });
    let (sent, timeouts) = (stats.sent, stats.feedback.timeouts);
    format!(
        "{seconds:.1} s, {} segments, {} repeated, {timeouts} timeouts, {hash:016x}",
        sent.segments, sent.retransmissions
    )
}

fn judge(algorithms: &[(&str, Algorithm)]) {
    let (mut found, mut known) = (Vec::new(), Vec::new());
    for &(name, algorithm) in algorithms {
        for course in COURSES {
            found.push(format!("{name}, {}: {}", course.name, run(course, algorithm)));
        }
        known.extend(KNOWN.lines().filter(|line| line.starts_with(&format!("{name}, "))));
    }

    assert!(found == known, "the lines are now:\n{}", found.join("\n"));
}

#[test]
fn new_reno_sends_what_it_always_sent() {
    judge(&algorithms()[..1]);
}

#[test]
fn cubic_sends_what_it_always_sent() {
    judge(&algorithms()[1..2]);
}

#[test]
fn bbr_sends_what_it_always_sent() {
    judge(&algorithms()[2..3]);
}

#[test]
fn vegas_sends_what_it_always_sent() {
    judge(&algorithms()[3..6]);
}

#[test]
fn tcp_ap_sends_what_it_always_sent() {
    judge(&algorithms()[6..]);
}

const KNOWN: &str = "\
new-reno, usual: 1.8 s, 184 segments, 32 repeated, 0 timeouts, 3086c30d74e8ff32
new-reno, lossy: 1.8 s, 180 segments, 28 repeated, 0 timeouts, c3c1c853c78a2af1
new-reno, shuffled: 3.3 s, 158 segments, 6 repeated, 0 timeouts, da2ea7867536a3e3
new-reno, interrupted: 17.6 s, 165 segments, 13 repeated, 4 timeouts, 53825c73d4688944
new-reno, closed: 30.7 s, 157 segments, 4 repeated, 0 timeouts, 86c70c1b049e7276
new-reno, narrow: 3.0 s, 248 segments, 25 repeated, 0 timeouts, 708b12a7a2d461c8
new-reno, pausing: 7.2 s, 177 segments, 25 repeated, 0 timeouts, d3961e788c21bb6b
new-reno, plain: 1.8 s, 157 segments, 6 repeated, 0 timeouts, 14c1d361b2f66b01
new-reno, small: 19.2 s, 160 segments, 9 repeated, 9 timeouts, f5703eac0f48451f
new-reno, marked: 6.0 s, 152 segments, 0 repeated, 0 timeouts, ecfc2d6fc88a91c9
new-reno, impatient: 7.5 s, 174 segments, 21 repeated, 1 timeouts, 9a240c72f5584c02
cubic, usual: 2.5 s, 190 segments, 38 repeated, 1 timeouts, 527a4a28968590c9
cubic, lossy: 2.3 s, 191 segments, 39 repeated, 1 timeouts, b570c8dc2989355a
cubic, shuffled: 3.6 s, 158 segments, 6 repeated, 0 timeouts, af7c28045b05eff5
cubic, interrupted: 17.2 s, 168 segments, 16 repeated, 4 timeouts, c4872045a7b09bdf
cubic, closed: 30.7 s, 157 segments, 4 repeated, 0 timeouts, 86c70c1b049e7276
cubic, narrow: 2.4 s, 240 segments, 28 repeated, 0 timeouts, 23de4ad10486661a
cubic, pausing: 7.2 s, 171 segments, 19 repeated, 0 timeouts, 8830b3b48e57fa35
cubic, plain: 3.3 s, 158 segments, 7 repeated, 1 timeouts, 7ca84c4ec3f6a56b
cubic, small: 19.2 s, 160 segments, 9 repeated, 9 timeouts, f5703eac0f48451f
cubic, marked: 8.4 s, 152 segments, 0 repeated, 0 timeouts, 86da4021596ffed1
cubic, impatient: 10.2 s, 174 segments, 21 repeated, 3 timeouts, b203f9d96c40388c
bbr, usual: 2.5 s, 171 segments, 18 repeated, 1 timeouts, a87b45091ac28e7e
bbr, lossy: 2.4 s, 172 segments, 20 repeated, 1 timeouts, b7e3a9581a2170ae
bbr, shuffled: 3.1 s, 190 segments, 38 repeated, 1 timeouts, aa7c22f609262160
bbr, interrupted: 17.5 s, 223 segments, 71 repeated, 5 timeouts, 3398f2af5c58d7ed
bbr, closed: 31.0 s, 157 segments, 4 repeated, 0 timeouts, b7b013d94c84c054
bbr, narrow: 2.7 s, 284 segments, 97 repeated, 1 timeouts, e8c11de00cc27d92
bbr, pausing: 7.2 s, 152 segments, 0 repeated, 0 timeouts, 3b5f8492682a6e25
bbr, plain: 3.5 s, 188 segments, 37 repeated, 1 timeouts, a66e5b03410cbf20
bbr, small: 23.8 s, 160 segments, 9 repeated, 9 timeouts, 9011bfb3bf3543ae
bbr, marked: 2.5 s, 171 segments, 18 repeated, 1 timeouts, 9370986dabc29701
bbr, impatient: 2.9 s, 197 segments, 43 repeated, 1 timeouts, bcc643ce4603d968
vegas of ns-2, usual: 2.0 s, 152 segments, 0 repeated, 0 timeouts, 3362de46cc5a28ea
vegas of ns-2, lossy: 4.1 s, 159 segments, 7 repeated, 1 timeouts, 84beb12edf13bfe1
vegas of ns-2, shuffled: 3.3 s, 161 segments, 9 repeated, 0 timeouts, fed02a9b2c4f076e
vegas of ns-2, interrupted: 18.5 s, 168 segments, 16 repeated, 4 timeouts, 59399c3578856e52
vegas of ns-2, closed: 31.1 s, 157 segments, 4 repeated, 0 timeouts, 4fed8789c8e191f4
vegas of ns-2, narrow: 2.3 s, 243 segments, 20 repeated, 0 timeouts, 62230fbf25ce8a44
vegas of ns-2, pausing: 7.3 s, 152 segments, 0 repeated, 0 timeouts, 19f71ef5f50b8163
vegas of ns-2, plain: 2.6 s, 155 segments, 4 repeated, 0 timeouts, d83825705c10912a
vegas of ns-2, small: 19.2 s, 160 segments, 9 repeated, 9 timeouts, 370192aecccb605e
vegas of ns-2, marked: 5.8 s, 152 segments, 0 repeated, 0 timeouts, 73bab8417ad9b551
vegas of ns-2, impatient: 4.7 s, 177 segments, 24 repeated, 0 timeouts, 52a712fd94fc55fb
vegas as published, usual: 1.9 s, 152 segments, 0 repeated, 0 timeouts, 44585599dda45051
vegas as published, lossy: 2.4 s, 157 segments, 5 repeated, 0 timeouts, cc259d58f15b1997
vegas as published, shuffled: 2.4 s, 159 segments, 7 repeated, 0 timeouts, 2190f0c9c4aedb1b
vegas as published, interrupted: 17.8 s, 163 segments, 11 repeated, 4 timeouts, 6768c598c4b5c148
vegas as published, closed: 31.0 s, 157 segments, 4 repeated, 0 timeouts, 420d6e6b536d29f7
vegas as published, narrow: 2.2 s, 244 segments, 30 repeated, 0 timeouts, b3bd36de87c87632
vegas as published, pausing: 7.3 s, 152 segments, 0 repeated, 0 timeouts, 5a3b31a6a49e7ff4
vegas as published, plain: 2.2 s, 155 segments, 4 repeated, 0 timeouts, e067db5b5879545c
vegas as published, small: 20.7 s, 160 segments, 9 repeated, 9 timeouts, dd45e6ea802cdeb5
vegas as published, marked: 2.9 s, 152 segments, 0 repeated, 0 timeouts, 0a13f6842b11bbd5
vegas as published, impatient: 3.3 s, 175 segments, 22 repeated, 0 timeouts, 08c97ec5e3db647d
vegas, rebased, usual: 2.2 s, 152 segments, 0 repeated, 0 timeouts, 284812a107dda9a1
vegas, rebased, lossy: 2.4 s, 157 segments, 5 repeated, 0 timeouts, cc259d58f15b1997
vegas, rebased, shuffled: 2.4 s, 159 segments, 7 repeated, 0 timeouts, 2190f0c9c4aedb1b
vegas, rebased, interrupted: 18.7 s, 163 segments, 11 repeated, 4 timeouts, 955becfc387fd586
vegas, rebased, closed: 31.2 s, 157 segments, 4 repeated, 0 timeouts, c5e22ae8ff0102d0
vegas, rebased, narrow: 2.2 s, 244 segments, 30 repeated, 0 timeouts, b3bd36de87c87632
vegas, rebased, pausing: 7.6 s, 152 segments, 0 repeated, 0 timeouts, 5f99b85b69a63dac
vegas, rebased, plain: 2.7 s, 156 segments, 5 repeated, 0 timeouts, e038f0d22a06893b
vegas, rebased, small: 25.7 s, 160 segments, 9 repeated, 9 timeouts, 1fd02b7781516d14
vegas, rebased, marked: 2.9 s, 152 segments, 0 repeated, 0 timeouts, 0a13f6842b11bbd5
vegas, rebased, impatient: 3.3 s, 175 segments, 22 repeated, 0 timeouts, 08c97ec5e3db647d
tcp-ap of ns-2, usual: 8.7 s, 152 segments, 0 repeated, 0 timeouts, 6561bcde072a9b4e
tcp-ap of ns-2, lossy: 12.9 s, 157 segments, 5 repeated, 0 timeouts, 838e10f1f85ed5a1
tcp-ap of ns-2, shuffled: 14.4 s, 152 segments, 0 repeated, 0 timeouts, b4e3cf2b100866de
tcp-ap of ns-2, interrupted: 23.6 s, 164 segments, 12 repeated, 4 timeouts, 62d9b537f0167fe1
tcp-ap of ns-2, closed: 50.9 s, 157 segments, 4 repeated, 0 timeouts, 92053ed63ecee5d7
tcp-ap of ns-2, narrow: 10.5 s, 174 segments, 6 repeated, 0 timeouts, b38fca2c07f4b6a6
tcp-ap of ns-2, pausing: 15.0 s, 152 segments, 0 repeated, 0 timeouts, 15ca93fb8c00eb78
tcp-ap of ns-2, plain: 9.0 s, 154 segments, 3 repeated, 0 timeouts, 633eeb161d48f062
tcp-ap of ns-2, small: 31.1 s, 162 segments, 10 repeated, 10 timeouts, e439f3a4935f437f
tcp-ap of ns-2, marked: 9.6 s, 152 segments, 0 repeated, 0 timeouts, 89ad0d1854e622ac
tcp-ap of ns-2, impatient: 25.2 s, 173 segments, 21 repeated, 3 timeouts, 98b7b0c9c3ecc496
tcp-ap as published, usual: 8.7 s, 152 segments, 0 repeated, 0 timeouts, 6561bcde072a9b4e
tcp-ap as published, lossy: 12.7 s, 157 segments, 5 repeated, 0 timeouts, 20ff5f90197934d4
tcp-ap as published, shuffled: 14.4 s, 152 segments, 0 repeated, 0 timeouts, b4e3cf2b100866de
tcp-ap as published, interrupted: 23.6 s, 164 segments, 12 repeated, 4 timeouts, 62d9b537f0167fe1
tcp-ap as published, closed: 50.9 s, 157 segments, 4 repeated, 0 timeouts, 92053ed63ecee5d7
tcp-ap as published, narrow: 10.3 s, 174 segments, 6 repeated, 0 timeouts, 5b9e6ddf21aa3388
tcp-ap as published, pausing: 15.0 s, 152 segments, 0 repeated, 0 timeouts, 15ca93fb8c00eb78
tcp-ap as published, plain: 9.0 s, 154 segments, 3 repeated, 0 timeouts, 46c81b7d8beadf33
tcp-ap as published, small: 28.3 s, 162 segments, 10 repeated, 10 timeouts, 17dc4dac06eeadbe
tcp-ap as published, marked: 9.6 s, 152 segments, 0 repeated, 0 timeouts, 27ad0eff38de10c1
tcp-ap as published, impatient: 25.0 s, 173 segments, 21 repeated, 3 timeouts, e7ec82020a84c768
";

//! Packets that nothing follows come within a round trip and a half.

use super::*;

const RTT: Duration = Duration::from_millis(100);

#[test]
fn lone_packets_come_within_a_round_trip_and_a_half_whatever_is_lost() {
    for (loss, datagrams) in [(0.0, 1.1), (0.01, 2.2), (0.05, 3.2), (0.1, 4.2), (0.2, 5.4)] {
        let outcome = lone(loss, (1, 64));
        // With so many independent datagrams at most 0.0004 are late.
        assert!(outcome.late * 1_000 <= outcome.packets, "{loss}: {outcome:?}");
        assert!(outcome.cost <= datagrams, "{loss}: {outcome:?}");
    }
}

#[test]
fn the_last_of_a_burst_is_repaired_as_soon() {
    for (loss, datagrams) in [(0.0, 1.0), (0.01, 1.35), (0.05, 1.6), (0.1, 1.7)] {
        let outcome = lone(loss, (10, 1_300));
        assert!(outcome.late * 500 <= outcome.packets, "{loss}: {outcome:?}");
        assert!(outcome.cost <= datagrams, "{loss}: {outcome:?}");
    }
}

#[test]
fn a_path_that_is_not_known_or_no_longer_is_feared_to_lose() {
    let mut path = Path::new(3, Config::default());
    path.delay = RTT / 2;
    let equations =
        |path: &Path| path.stats(0).sent.repairs_sent + path.stats(0).sent.sources_resent;

    path.feed(0, 1, 64, RTT);
    path.run(secs(2));
    assert_eq!(equations(&path), 2, "the first packet");
    path.feed(0, 1_500, 1_000, 2 * MILLISECOND);
    path.run(secs(10));
    path.now = secs(10);
    let before = equations(&path);
    path.feed(0, 1, 64, RTT);
    path.run(secs(20));
    assert_eq!(equations(&path) - before, 0, "on a path that has lost none of hundreds");
    path.run(secs(900));
    path.now = secs(900);
    path.feed(0, 1, 64, RTT);
    path.run(secs(910));
    assert_eq!(equations(&path) - before, 2, "after a quarter of an hour");
}

#[test]
fn voice_on_a_path_that_loses_nothing_is_soon_no_longer_repaired_in_advance() {
    let mut path = Path::new(3, Config::default());
    path.delay = RTT / 2;

    path.feed(0, 500, 160, 20 * MILLISECOND);
    path.run(secs(12));

    let sent = path.stats(0).sent;
    assert!((50..200).contains(&(sent.repairs_sent + sent.sources_resent)), "{sent:?}");
}

#[test]
fn acknowledgements_that_later_ones_make_up_for_are_not_repaired_in_advance() {
    let mut path = Path::new(3, Config::default());
    path.delay = RTT / 2;

    for _ in 0..50 {
        path.feed_acknowledgement(Duration::ZERO);
        path.run(path.now + 3 * RTT);
    }

    assert_eq!(path.out[1].len(), 50);
    assert_eq!(path.stats(0).sent.repairs_sent + path.stats(0).sent.sources_resent, 0);
}

/// What became of packets that nothing followed.
#[derive(Debug, Default)]
struct Outcome {
    packets: usize,
    late: usize,
    /// Datagrams for each packet, without reports.
    cost: f64,
}

/// Bursts of packets with pauses between them, on a path that is known.
fn lone(loss: f64, (burst, payload): (u32, usize)) -> Outcome {
    const BURSTS: u32 = 1_500;
    let (mut outcome, mut sent) = (Outcome::default(), 0);
    for seed in 0..3 {
        let config = Config { deadline: Some(Duration::from_secs(30)), ..Config::default() };
        let mut path = Path::new(seed, config);
        (path.loss, path.delay) = (loss, RTT / 2);
        path.feed(0, 500, 1_000, 10 * MILLISECOND);
        path.run(secs(10));
        let first = path.out[1].len();
        let before = path.stats(0).sent;
        for _ in 0..BURSTS {
            let (came, began) = (path.out[1].len(), path.now);
            path.feed(0, burst, payload, Duration::ZERO);
            path.run(began + 2 * RTT);
            let last = path.out[1][came..].iter().map(|(at, _)| *at).max();
            outcome.late += usize::from(last.is_none_or(|at| at.since(began) > 3 * RTT / 2));
            path.run(began + 4 * RTT);
        }
        let after = path.stats(0).sent;
        outcome.packets += BURSTS as usize;
        assert_eq!(path.out[1].len() - first, (burst * BURSTS) as usize);
        let count =
            |sent: crate::stats::Sent| sent.sources_sent + sent.sources_resent + sent.repairs_sent;
        sent += count(after) - count(before);
    }
    outcome.cost = sent as f64 / (outcome.packets as f64 * f64::from(burst));
    outcome
}

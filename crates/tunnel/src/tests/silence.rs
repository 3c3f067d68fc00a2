//! What an end knows of a silent peer, and of what is lost.

use super::*;

#[test]
fn a_peer_that_does_not_answer_is_doubted_soon_and_once_and_given_up_later() {
    let mut path = Path::new(7, Config::default());
    path.feed(0, 20, 100, MILLISECOND);
    path.run(secs(1));
    path.events.clear();

    path.now = secs(1);
    path.loss = 1.0;
    path.feed(0, 1, 100, MILLISECOND);
    path.run(secs(2));
    assert_eq!(path.events, [(0, Event::Doubted)]);
    path.run(secs(12));

    assert_eq!(path.events, [(0, Event::Doubted), (0, Event::Silent), (0, Event::PathDown)]);
}

#[test]
fn long_packets_on_a_slow_link_are_not_taken_for_lost() {
    let mut path = Path::new(7, Config::default());
    path.run(secs(10));
    // 100 kbit/s.
    path.each_octet = Duration::from_micros(80);
    path.feed(0, 1, 40, MILLISECOND);
    path.run(secs(12));
    assert_eq!(path.out[1].len(), 1);

    path.feed(0, 10, 1_200, MILLISECOND);
    path.run(secs(20));

    assert_eq!(path.out[1].len(), 11);
    assert_eq!(path.stats(0).sent.timeouts, 0);
}

#[test]
fn an_idle_peer_is_asked_and_answers() {
    let mut path = Path::new(8, Config::default());
    path.feed(0, 20, 100, MILLISECOND);
    path.run(secs(5));
    path.events.clear();
    let before = path.stats(0).received.datagrams_received;

    path.now = secs(5);
    path.ends[0].handle_quiet(path.now);
    path.run(secs(6));
    assert_eq!(path.stats(0).received.datagrams_received, before + 1);
    path.run(secs(9));
    // Once it has answered it is left alone.
    assert_eq!(path.stats(0).received.datagrams_received, before + 1);
    assert_eq!(path.events, []);

    path.now = secs(9);
    path.loss = 1.0;
    path.ends[0].handle_quiet(path.now);
    path.run(secs(9) + 2_100 * MILLISECOND);

    assert_eq!(path.events, [(0, Event::Doubted), (0, Event::Silent)]);
}

#[test]
fn a_path_that_loses_a_third_makes_nobody_silent() {
    for seed in 0..10 {
        let mut path = Path::new(seed, Config::default());
        path.feed(0, 20, 100, MILLISECOND);
        path.run(secs(1));
        path.loss = 0.33;

        path.feed(0, 600, 100, 100 * MILLISECOND);
        path.run(secs(61));

        let told = |event: &&(usize, Event)| matches!(event.1, Event::Silent | Event::PathDown);
        assert_eq!(path.events.iter().filter(told).count(), 0, "{seed}: {:?}", path.events);
    }
}

#[test]
fn packets_that_come_end_a_burst_of_losses() {
    let mut path = Path::new(12, Config::default());
    path.feed(0, 20, 100, MILLISECOND);
    path.run(secs(1));
    path.now = secs(1);

    path.burst = 200;
    path.feed(0, 240, 100, 50 * MILLISECOND);
    path.run(secs(20));

    let heard = path.out[1].get(20).map(|(at, _)| *at);
    assert!(heard.is_some_and(|at| at < secs(7)), "{heard:?}: {:?}", path.stats(0));
}

#[test]
fn packets_that_are_refused_ask_a_lost_peer() {
    let mut path =
        Path::new(13, Config { dead_after: secs(1).since(Time::ZERO), ..Config::default() });
    path.feed(0, 1, 100, MILLISECOND);
    path.run(secs(1));
    path.events.clear();

    // One in a hundred microseconds is more than a dead path bears, one in a hundred milliseconds is not.
    path.now = secs(1);
    path.loss = 1.0;
    path.feed(0, 10, 100, 100 * MILLISECOND);
    path.run(secs(3));
    assert!(path.events.contains(&(0, Event::PathDown)), "{:?}", path.events);
    let before = path.stats(0).sent.datagrams_sent;
    path.now = secs(3);
    path.feed(0, 10_000, 100, 100 * Duration::from_micros(1));
    path.run(secs(4));
    let flooded = path.stats(0).sent.datagrams_sent - before;
    assert!((20..100).contains(&flooded), "{flooded}");

    path.now = secs(4);
    path.loss = 0.0;
    path.burst = 15;
    path.feed(0, 40, 100, 100 * MILLISECOND);
    path.run(secs(8));

    assert!(path.events.contains(&(0, Event::PathUp)), "{:?}", path.events);
    let refused = path.stats(0).inner.refused_down - 10_000;
    assert!(refused < 20, "{refused}");
}

/// TCP repeats a segment 1, 3, 7, 15 and 31 s after the beginning of the outage.
#[test]
fn after_an_outage_the_newest_segment_of_a_connection_comes_without_its_timer() {
    for outage in [5, 9, 20, 30] {
        let mut path = Path::new(14, Config::default());
        path.feed(0, 20, 100, MILLISECOND);
        path.run(secs(1));
        path.now = secs(1);
        path.loss = 1.0;

        for after in [1, 3, 7, 15].into_iter().filter(|after| *after < outage) {
            path.run(secs(1 + after));
            path.now = secs(1 + after);
            path.feed_segments(0, 1, 500, MILLISECOND);
        }
        path.run(secs(1 + outage));
        path.now = secs(1 + outage);
        path.loss = 0.0;
        path.run(secs(4 + outage));

        let segments: Vec<_> =
            path.out[1].iter().filter(|(_, packet)| packet.len() > 500).collect();
        assert_eq!(segments.len(), 1, "{outage}: {:?}", path.stats(0).inner);
        let waited = segments[0].0.since(secs(1 + outage));
        assert!(waited < Duration::from_millis(1_500), "{outage}: {waited:?}");
        assert_eq!(path.stats(0).inner.packets_resumed, 1);
    }
}

#[test]
fn the_rate_that_is_told_is_never_above_what_was_sent() {
    let mut path = Path::new(11, Config::default());
    path.feed(0, 5, 100, MILLISECOND);
    path.run(secs(1));
    let few = path.ends[0].estimates().rate;
    let most = 8.0 * path.stats(0).sent.octets_sent as f64 / 0.1;
    assert!(few <= most, "{few} of {most}");

    path.feed(0, 2_000, 1_000, MILLISECOND);
    path.run(secs(4));

    // 8 Mbit/s, headers, and what is repaired in advance.
    let rate = path.ends[0].estimates().rate;
    assert!((7e6..12e6).contains(&rate), "{rate}");
}

#[test]
fn a_peer_that_lost_one_answer_is_not_doubted() {
    let mut path = Path::new(9, Config::default());
    path.feed(0, 20, 100, MILLISECOND);
    path.run(secs(1));
    path.events.clear();

    // The question is lost, and asked again a second later.
    path.now = secs(1);
    path.loss = 1.0;
    path.ends[0].handle_quiet(path.now);
    path.run(secs(1) + 500 * MILLISECOND);
    path.loss = 0.0;
    path.run(secs(20));

    assert_eq!(path.events, []);
}

#[test]
fn losses_are_counted_at_both_ends() {
    let mut path = Path::new(10, Config::default());
    path.loss = 0.1;

    path.feed(0, 5_000, 1_000, MILLISECOND);
    path.run(secs(10));

    let (near, far) = (path.stats(0), path.stats(1));
    let share = |lost: u64, sent: u64| lost as f64 / sent as f64;
    let (lost, sent) = (near.sent.datagrams_lost, near.sent.datagrams_sent);
    assert!((0.08..0.12).contains(&share(lost, sent)), "{lost} of {sent}");
    let missed = far.received.datagrams_missed;
    assert!(missed.abs_diff(lost) < 20, "{missed}, {lost}");
    let estimates = [path.ends[0].estimates().loss, path.ends[1].estimates().loss_in];
    assert!(estimates.iter().all(|loss| (0.05..0.17).contains(loss)), "{estimates:?}");
    assert_eq!(far.received.sources_given_up, 0);
}

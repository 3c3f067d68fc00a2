//! Slow paths: what is not packets takes little of them, and what needs long is not given up.

use super::*;

/// 100 kbit/s, a round trip of 0.3 s without queues.
fn slow(seed: u64) -> Path {
    let mut path = Path::new(seed, Config::default());
    path.each_octet = Duration::from_micros(80);
    path.delay = 150 * MILLISECOND;
    path
}

#[test]
fn few_repairs_go_in_advance() {
    let mut path = slow(3);
    path.loss = 0.02;

    path.feed(0, 600, 1_000, 100 * MILLISECOND);
    path.run(secs(70));

    let equations = path.stats(0).sent.repairs_sent + path.stats(0).sent.sources_resent;
    let lost = path.stats(0).sent.datagrams_lost;
    // A twentieth of the 600, as much of the path, and what was saved up.
    assert!(equations <= lost + 90, "{equations} for {lost} losses");
    assert!(path.out[1].len() >= 598, "{}", path.out[1].len());
}

#[test]
fn lost_acknowledgements_that_later_ones_make_up_for_are_not_repaired_in_advance() {
    let mut path = slow(4);
    path.loss = 0.2;
    path.feed(0, 300, 200, 50 * MILLISECOND);
    path.run(secs(20));
    let before = path.stats(0).sent;

    for index in 0..400 {
        path.feed_acknowledgement(50 * MILLISECOND * index);
    }
    path.run(secs(45));

    let after = path.stats(0).sent;
    let equations = |sent: &crate::stats::Sent| sent.repairs_sent + sent.sources_resent;
    let equations = equations(&after) - equations(&before);
    let lost = after.datagrams_lost - before.datagrams_lost;
    // Those that a report misses are sent again, since it does not say what they were.
    assert!(equations <= lost * 3 / 2, "{equations} for {lost} losses");
}

#[test]
fn what_a_report_asks_for_is_still_there_however_long_the_round_trip() {
    let mut path = Path::new(6, Config::default());
    path.delay = 1_500 * MILLISECOND;
    path.feed(0, 10, 1_000, MILLISECOND);
    path.run(secs(10));
    path.loss = 0.1;

    path.feed(0, 400, 1_000, 100 * MILLISECOND);
    path.run(secs(80));

    let shed = path.stats(0).inner.queue_dropped;
    assert_eq!(path.out[1].len() as u64 + shed, 410, "{:?}", path.stats(0).sent);
    // One in ten thousand is lost four times.
    assert!(path.stats(0).sent.sources_expired <= 4, "{:?}", path.stats(0).sent);
    assert!(path.stats(1).received.sources_given_up <= 4, "{:?}", path.stats(1).received);
}

//! Tests of the data rate.

use super::*;

#[test]
fn the_rate_follows_the_channel() {
    let mut pair = Pair::new("9600", |config| config.rate = Rate::Adaptive);
    make_noise(&mut pair, 2e-2);
    for number in 0..20 {
        pair.send(Side::A, &[number; 1_000]);
    }
    // The noise damages only fast waveforms.
    pair.noise = Box::new(|_, octets| {
        if octets.len() > 700 {
            octets.fill(0);
        }
    });

    pair.run(HOUR * 3);

    assert_eq!(pair.received(Side::B).len(), 20);
    assert!(pair.node(Side::A).waveform().bits_per_s() < 9_600);
    assert!(pair.node(Side::A).stats().rate_changes > 0);
}

#[test]
fn three_lost_frames_of_a_hundred_are_few_enough_for_a_faster_rate() {
    for (lost, is_faster) in [(3, true), (4, false)] {
        let mut pair = Pair::new("600", |config| config.rate = Rate::Adaptive);
        let node = pair.node(Side::A);
        let before = node.waveform().bits_per_s();

        for _ in 0..3 {
            node.rate_by_report(100, lost);
        }

        assert_eq!(node.waveform().bits_per_s() > before, is_faster, "{lost}");
    }
}

#[test]
fn a_faster_rate_that_was_wrong_is_tried_later_than_one_that_was_right_for_a_while() {
    // Reports of few losses at the faster rate before those of many; and until it is tried again.
    for (right, until_again) in [(1, 3), (0, 5)] {
        let mut pair = Pair::new("600", |config| config.rate = Rate::Adaptive);
        let node = pair.node(Side::A);
        let (slow, mut reports) = (node.waveform(), 0);
        for lost in [vec![0; 3 + right], vec![60]].concat() {
            node.rate_by_report(100, lost);
        }
        assert_eq!(node.waveform(), slow);

        while node.waveform() == slow {
            node.rate_by_report(100, 0);
            reports += 1;
        }

        assert_eq!(reports, until_again);
    }
}

#[test]
fn a_rate_that_the_peer_requests_is_used() {
    let mut pair = Pair::new("2400", |_| {});
    let (peer, slow) = (pair.node(Side::A).address(), "600".parse().expect("a waveform"));
    assert!(pair.node(Side::B).request_rate(peer, slow));
    pair.send(Side::B, b"so that there is a link");

    pair.run(MINUTE * 5);

    assert_eq!(pair.node(Side::A).waveform(), slow);
}

#[test]
fn a_rate_that_the_modem_determines_changes_neither_by_losses_nor_by_the_peer() {
    let mut pair = Pair::new("2400", |config| config.rate = Rate::Modem);
    let (peer, slow) = (pair.node(Side::A).address(), "600".parse().expect("a waveform"));
    let waveform = pair.node(Side::A).waveform();
    assert!(pair.node(Side::B).request_rate(peer, slow));
    make_noise(&mut pair, 1e-3);
    for number in 0..10 {
        pair.send(Side::B, &[number; 1_000]);
        pair.send(Side::A, &[number; 1_000]);
    }

    pair.run(HOUR);

    assert_eq!(pair.received(Side::A).len(), 10);
    assert_eq!(pair.node(Side::A).waveform(), waveform);
    assert_eq!(pair.node(Side::A).stats().rate_changes, 0);
}

#[test]
fn timeouts_follow_the_modems_waveform() {
    let mut pair = Pair::new("9600", |config| config.rate = Rate::Modem);
    let slow: Waveform = "300/long".parse().expect("a waveform");
    pair.set_to = Some(slow);
    for side in [Side::A, Side::B] {
        let now = pair.now;
        pair.node(side).handle_waveform(now, slow, slow.block_time());
    }
    for number in 0..10 {
        pair.send(Side::A, &[number; 500]);
    }
    let last = pair.send(Side::A, b"the last");

    pair.run(MINUTE * 10);

    assert_eq!(pair.received(Side::B).len(), 11);
    assert!(pair.confirmed(Side::A).contains(&last));
    // Everybody waits long enough for an answer, and no transmission is too long.
    assert_eq!(pair.node(Side::A).stats().silences, 0);
    let mut longest = Duration::ZERO;
    while let Some(record) = pair.node(Side::A).poll_record() {
        if let Record::Keyed { start, end, waveform } = record {
            assert_eq!(waveform, slow);
            longest = longest.max(end.since(start));
        }
    }
    assert!((Duration::from_secs(60)..Duration::from_secs(128)).contains(&longest), "{longest:?}");
}

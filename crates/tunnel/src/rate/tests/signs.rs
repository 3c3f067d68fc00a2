//! What jitter, losses and phase effects look like, and are not taken for.

use super::*;
use crate::rate::bias::{Bias, RAISE};
use crate::rate::cause::Cause;
use crate::rate::compete::Compete;
use crate::rate::round::{Ambient, Ended};

#[test]
fn jitter_that_looks_like_a_queue_leaves_the_path_to_be_filled() {
    for (jitter, queue) in [(5, 0.006), (20, 0.012), (50, 0.03)] {
        let path = Path { jitter: jitter * MS, ..Path::clean(10e6, 50 * MS, 2.0) };
        for seed in 4..7 {
            let mut world = alone(seed, path.clone());
            world.run(60.0);

            let used = world.utilisation(10.0, 60.0);
            let met = world.queue(0.5, 10.0, 60.0);
            assert!(used > 0.93 && met < queue, "{jitter} ms: {used} used, {met} s");
        }
    }
}

#[test]
fn jitter_does_not_end_the_start() {
    let path = Path { jitter: 30 * MS, ..Path::clean(10e6, 50 * MS, 2.0) };
    let used = |seed| {
        let mut world = alone(seed, path.clone());
        world.run(4.0);
        world.utilisation(1.0, 4.0)
    };

    let mean = (4..12).map(used).sum::<f64>() / 8.0;

    assert!(mean > 0.88, "{mean} used");
    // What it sent too much is not taken for another's queue, with which it would compete.
    for seed in 1..7 {
        let mut world = alone(seed, path.clone());
        world.run(20.0);
        let queue = world.queue(0.5, 5.0, 20.0);
        assert!(queue < 0.03, "{seed}: {queue} s");
    }
}

/// The delays of a path with this much jitter, of which `queue` says how long the queue is at a report.
fn delays(bias: &mut Bias, rounds: u64, first: u64, queue: impl Fn(u64) -> f64) {
    for round in 0..rounds {
        for report in 0..8 {
            let number = first + 8 * round + report;
            let own = queue(number) + if report % 2 == 0 { 0.02 } else { 0.0 };
            bias.handle_report(number, own, queue(number));
        }
        bias.end_round(first + 8 * round + 7);
    }
}

#[test]
fn a_delay_that_does_not_grow_with_the_window_is_no_queue_and_another_is() {
    // A full path shows what the window grows by.
    for (grows, found) in [(0.0, 0.03), ((RAISE - 1.0) * 0.1, 0.0)] {
        let mut bias = Bias::default();
        delays(&mut bias, 40, 0, |_| 0.03);
        assert!(bias.begin(1e5, 0.005, 0.1, 320));

        delays(&mut bias, 3, 320, |_| 0.03 + grows);
        let before = bias.end();

        assert!(!bias.is_trying());
        assert_eq!(before, (found == 0.0).then_some(1e5), "the path was full, or was not");
        assert!((bias.delay() - found).abs() < 0.003, "{bias:?}");
    }
}

#[test]
fn without_jitter_or_with_a_delay_that_changes_there_is_no_trial() {
    let mut steady = Bias::default();
    for number in 0..400 {
        steady.handle_report(number, 0.03, 0.03);
        if number % 8 == 7 {
            steady.end_round(number);
        }
    }
    assert!(!steady.begin(1e5, 0.005, 0.1, 400));

    let mut growing = Bias::default();
    delays(&mut growing, 40, 0, |number| number as f64 * 0.003);
    assert!(!growing.begin(1e5, 0.005, 0.1, 320));
}

#[test]
fn bursts_of_a_radio_that_were_taken_for_ours_soon_are_not() {
    // A loss of 5 % in bursts passes for one that a smaller window avoids, now and then.
    for seed in 0..8 {
        let clean = Path::clean(10e6, 50 * MS, 2.0);
        let path = Path { loss: 0.05, burst: 5.0, report_loss: 0.05, ..clean };
        let mut world = alone(seed, path);
        world.run(60.0);

        let used = world.utilisation(10.0, 60.0);
        assert!(used > 0.93, "{seed}: {used}");
    }
}

/// Reports of ten datagrams each on a path whose queue is 10 ms at every other report and none between; one
/// datagram is lost at each of these numbers of reports.
fn causes(full: u64, empty: u64) -> Cause {
    let mut cause = Cause::default();
    let mut received = 0;
    for report in 0..800 {
        // The queue around a loss is the longer one of two reports.
        let is_full = report / 4 % 2 == 0;
        let every = if is_full { full } else { empty };
        let is_lost = report % 4 == 2 && (report / 8) % every == 0;
        received += 10 - u64::from(is_lost);
        cause.handle_report(10 * (report + 1), received, if is_full { 0.01 } else { 0.0 }, 0.001);
    }
    cause
}

#[test]
fn losses_where_the_queue_is_long_are_of_a_buffer_and_those_without_one_of_the_path() {
    let buffer = causes(3, u64::MAX);
    assert!(buffer.is_buffer() && buffer.is_path().is_none(), "{buffer:?}");
    assert!(buffer.path().is_some_and(|loss| loss < 0.002), "{buffer:?}");

    let radio = causes(3, 3);
    assert!(!radio.is_buffer(), "{radio:?}");
    assert!(radio.is_path().is_some_and(|loss| (0.005..0.012).contains(&loss)), "{radio:?}");
    assert!(radio.path().is_some_and(|loss| loss > 0.005), "{radio:?}");
}

#[test]
fn rare_losses_without_a_queue_are_of_the_path_too() {
    let mut cause = Cause::default();
    for report in 0..6_000 {
        let received = 10 * (report + 1) - report / 500;
        cause.handle_report(10 * (report + 1), received, 0.0, 0.001);
    }

    assert!(cause.is_path().is_some_and(|loss| (1e-4..3e-4).contains(&loss)), "{cause:?}");
}

#[test]
fn losses_rise_when_they_are_more_than_usual_however_few_a_round_trip_has() {
    let rises = |usual: f64, lost: f64| {
        let mut ambient = Ambient::default();
        ambient.set(usual);
        let round = Ended { sent: 12.0, lost, queue: 0.0 };
        (1..=40).find(|_| ambient.is_rising(&round))
    };

    assert_eq!(rises(0.0, 1.0), Some(1), "a single loss where there are none");
    assert_eq!(rises(0.08, 1.0), None, "one in twelve is usual");
    assert!(rises(0.08, 3.0).is_some_and(|rounds| rounds <= 3), "three in twelve are not");
}

#[test]
fn the_recent_loss_follows_a_quarter_of_each_long_round_trip() {
    let mut ambient = Ambient::default();
    let round = Ended { sent: 1e6, lost: 5e5, queue: 0.0 };

    let recent = [(), ()].map(|()| {
        ambient.note(&round);
        ambient.recent()
    });

    assert_eq!(recent, [0.125, 0.21875]);
}

#[test]
fn a_tcp_with_a_few_segments_in_flight_is_left_its_share_of_a_small_buffer() {
    let shares = [(20, 4.0), (20, 10.0), (50, 10.0)].map(|(delay, datagrams)| {
        let clean = Path::clean(2e6, delay * MS, 2.0);
        let path = Path { buffer: datagrams * 1_500.0, ..clean };
        let cubic = Sender::Cubic(Box::default());
        let mut world = World::new(1, path, vec![(0.0, f64::MAX, bulk()), (0.5, f64::MAX, cubic)]);
        world.run(120.0);
        world.throughput(0, 30.0, 120.0) / world.throughput(1, 30.0, 120.0)
    });

    assert!(shares.iter().all(|share| (0.3..2.0).contains(share)), "{shares:?}");
}

#[test]
fn the_window_is_hardly_above_that_of_a_tcp_with_as_many_losses() {
    let mut compete = Compete::new(Time::ZERO, 1e6, 1e6).by_loss();
    let grown =
        |compete: &mut Compete| compete.grow(Time::ZERO, 1e6, 1e5, 80 * MS, 1_500.0) / 1_500.0;
    assert!(grown(&mut compete) > 600.0, "nothing was lost yet");

    for _ in 0..60 {
        compete.note(50.0, true, 1e6 / 1_500.0, 0.08);
    }

    // RFC 5348, 3.1: 0.08 / (0.08 sqrt(2/150) + 0.28 * 3 sqrt(3/400) / 50 * (1 + 32/2500)) = 7.5 datagrams.
    let most = grown(&mut compete);
    assert!((8.4..8.8).contains(&most), "{most}");
}

//! Verdicts on losses: early where they are certain, and refuted where they were wrong.

use std::time::Duration;

use base::time::Time;

use crate::rate::round::Ended;
use crate::rate::trial::{Blame, Verdict};

const RTT: Duration = Duration::from_millis(100);
const DATAGRAM: f64 = 1_500.0;
/// Octets of the window, all of which are used.
const WINDOW: f64 = 300.0 * DATAGRAM;

/// A test of a loss of one in ten has begun; its first datagram is number 1,000.
fn tested() -> Blame {
    let mut blame = Blame::default();
    let at = Time::ZERO + 100 * RTT;
    let small = blame.handle_round(at, [0.1, 0.1, 1.0], RTT, [WINDOW, WINDOW, DATAGRAM], false);
    assert!(small.is_some_and(|small| small < WINDOW), "{blame:?}");
    assert!(blame.advance(at, [900, 800, 1_000], true, RTT).is_none());
    assert!(blame.advance(at, [1_000, 900, 1_100], true, RTT).is_none());
    blame
}

/// Datagrams after the first one until there is a verdict, every `every`th of which is lost.
fn verdict(blame: &mut Blame, every: u64) -> (u64, Verdict) {
    for sent in 1..2_000 {
        let numbers = [1_000 + sent, 900 + sent - sent / every, 1_100 + sent];
        if let Some(verdict) = blame.advance(Time::ZERO + 101 * RTT, numbers, true, RTT) {
            return (sent, verdict);
        }
    }
    panic!("no verdict: {blame:?}");
}

#[test]
fn a_verdict_comes_as_soon_as_it_is_certain() {
    // 25 losses are awaited of 250 datagrams; 8 say that they stay, and 80 without any that they do not.
    let (sent, stay) = verdict(&mut tested(), 10);
    assert!((70..=90).contains(&sent), "{sent}: {stay:?}");
    assert!(!stay.is_ours && (stay.loss - 0.1).abs() < 1e-9, "{stay:?}");

    let (sent, gone) = verdict(&mut tested(), u64::MAX);
    assert!((70..=90).contains(&sent), "{sent}: {gone:?}");
    assert!(gone.is_ours && gone.loss < 0.01, "{gone:?}");

    // Few losses are certain only in the end.
    let (sent, fewer) = verdict(&mut tested(), 50);
    assert!((240..=260).contains(&sent), "{sent}: {fewer:?}");
    assert!(fewer.is_ours, "{fewer:?}");
}

#[test]
fn of_many_losses_a_part_may_be_the_paths() {
    // 60 % are lost before the test, and 27 % in it.
    let mut blame = Blame::default();
    let at = Time::ZERO + 100 * RTT;
    blame.handle_round(at, [0.6, 0.6, 1.0], RTT, [WINDOW, WINDOW, DATAGRAM], false);
    blame.advance(at, [900, 800, 1_000], true, RTT);
    blame.advance(at, [1_000, 900, 1_100], true, RTT);
    let verdict = (1..2_000).find_map(|sent| {
        let received = 900 + sent - sent * 27 / 100;
        blame.advance(at, [1_000 + sent, received, 1_100 + sent], true, RTT)
    });

    let verdict = verdict.expect("a verdict");
    assert!(verdict.is_ours && (0.2..0.3).contains(&verdict.loss), "{verdict:?}");
}

#[test]
fn a_verdict_is_refuted_by_losses_that_stay_and_by_no_others() {
    let rounds_of = |lost: f64, window: f64| {
        let mut blame = tested();
        assert!(verdict(&mut blame, u64::MAX).1.is_ours);
        let mut refuted = |_| blame.refuted(&Ended { sent: 100.0, lost, queue: 0.0 }, window);
        (1..=10).find_map(|round| refuted(round).map(|loss| (round, loss)))
    };

    let rounds = |lost: f64| rounds_of(lost, WINDOW);

    // 250 datagrams are looked at together.
    let (round, loss) = rounds(10.0).expect("the losses stayed");
    assert!(round == 3 && (loss - 0.1).abs() < 1e-9, "{round}: {loss}");
    assert_eq!(rounds(5.0), None, "half as many losses");
    assert_eq!(
        rounds_of(10.0, 1.01 * WINDOW),
        None,
        "the window has grown beyond the one that caused them"
    );
}

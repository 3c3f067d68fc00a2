//! What a sender believes of its sources.

use std::time::Duration;

use base::time::Time;

use crate::sender::{Carried, PeerView, Sender};
use crate::{PATHS, PathId};

const NOW: Time = Time::ZERO;
const RTT: Duration = Duration::from_millis(50);

/// The horizons of a report about the first path alone.
fn only(horizon: u64) -> [Option<u64>; PATHS] {
    let mut horizons = [None; PATHS];
    horizons[0] = Some(horizon);
    horizons
}

#[test]
fn a_report_that_is_later_than_the_timeout_still_acknowledges() {
    let mut sender = Sender::new(1_000);
    for number in 0..100 {
        sender.add_source(NOW, vec![0; 900], number);
        sender.note(NOW, number, Carried::Source, 1_000, RTT);
    }

    sender.handle_silence(PathId::FIRST);
    let view = |came| PeerView {
        path: PathId::FIRST,
        horizons: only(came),
        first_missing: came,
        end: came,
        missing: 0,
        rank: 0,
        runs: &[],
    };
    sender.handle_report(NOW, &view(60), false).unwrap();
    let lacking = sender.deficit(0.0);
    // An older one, overtaken on its way, takes nothing back.
    sender.handle_report(NOW, &view(30), false).unwrap();

    assert_eq!((sender.floor(), lacking), (60, 40.0));
    assert_eq!(sender.next_lost(100).map(|(number, _)| number), Some(60));
}

#[test]
fn long_sources_are_kept_by_their_octets() {
    const WINDOW: usize = 100;
    let mut sender = Sender::new(WINDOW);
    let fill = |sender: &mut Sender, len| {
        let before = sender.end();
        while let Some(number) = sender.next_source() {
            let mut symbol = sender.buffer(len);
            symbol.resize(len, 0);
            sender.add_source(NOW, symbol, number);
            sender.note(NOW, number, Carried::Source, len, RTT);
            assert!(sender.octets() <= WINDOW * 1_536 + len, "{}", sender.octets());
        }
        let end = sender.end();
        let view = PeerView {
            path: PathId::FIRST,
            horizons: only(end),
            first_missing: end,
            end,
            missing: 0,
            rank: 0,
            runs: &[],
        };
        sender.handle_report(NOW, &view, false).unwrap();
        end - before
    };

    assert_eq!(fill(&mut sender, 1_400), 100);
    // Buffers that were short are used again.
    assert_eq!(fill(&mut sender, 9_000), 18);
    assert_eq!(fill(&mut sender, 1_400), 100);
}

#[test]
fn what_is_late_is_told_from_what_is_lost() {
    let mut sender = Sender::new(1_000);
    let report = |sender: &mut Sender, at: Duration, first_missing, came| {
        let view = PeerView {
            path: PathId::FIRST,
            horizons: only(came),
            first_missing,
            end: came,
            missing: 0,
            rank: 0,
            runs: &[],
        };
        sender.handle_report(NOW + at, &view, false).unwrap();
    };
    for number in 0..200 {
        sender.add_source(NOW, vec![0; 900], number);
        sender.note(NOW, number, Carried::Source, 1_000, RTT);
    }
    let ms = Duration::from_millis;

    report(&mut sender, ms(10), 10, 10);
    assert_eq!(sender.held_up(NOW + ms(10)), Duration::ZERO, "all in order");
    report(&mut sender, ms(20), 20, 30);
    report(&mut sender, ms(60), 30, 30);
    let late = sender.held_up(NOW + ms(60));
    assert_eq!(late, ms(10), "a quarter of the 40 ms for which source 20 was missing");
    report(&mut sender, ms(70), 40, 50);
    sender.note(NOW + ms(70), 200, Carried::Equation, 1_000, RTT);
    report(&mut sender, ms(170), 50, 50);
    assert!(sender.held_up(NOW + ms(170)) < late, "a repair may have made up for source 40");
}

#[test]
fn of_the_equations_under_way_those_count_that_will_arrive() {
    let mut sender = Sender::new(1_000);
    sender.add_source(NOW, vec![0; 900], 0);
    sender.note(NOW, 0, Carried::Source, 1_000, RTT);
    // Half of what was sent is lost.
    sender.handle_counts(NOW, PathId::FIRST, [10_000, 5_000, 2_500]);
    let before = sender.deficit(0.0);

    for number in 1..11 {
        sender.note(NOW, number, Carried::Equation, 1_000, RTT);
    }

    let made_good = before - sender.deficit(0.0);
    assert!((4.9..5.5).contains(&made_good), "{made_good}");
}

#[test]
fn what_goes_to_a_peer_that_never_reports_is_remembered_within_bounds() {
    let mut sender = Sender::new(64);
    for number in 0..20_000 {
        sender.note(NOW, number, Carried::Other, 100, RTT);
    }

    assert_eq!(sender.remembered(PathId::FIRST), 8 * 1_024);
}

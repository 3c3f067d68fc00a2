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
    sender.handle_report(&view(60), false).unwrap();
    let lacking = sender.deficit(0.0);
    // An older one, overtaken on its way, takes nothing back.
    sender.handle_report(&view(30), false).unwrap();

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
        sender.handle_report(&view, false).unwrap();
        end - before
    };

    assert_eq!(fill(&mut sender, 1_400), 100);
    // Buffers that were short are used again.
    assert_eq!(fill(&mut sender, 9_000), 18);
    assert_eq!(fill(&mut sender, 1_400), 100);
}

//! What a sender believes of its sources.

use std::time::Duration;

use crate::nc::loss::Loss;
use crate::nc::sender::{Carried, PeerView, Sender};
use crate::time::Time;

const NOW: Time = Time::ZERO;
const RTT: Duration = Duration::from_millis(50);

#[test]
fn a_report_that_is_later_than_the_timeout_still_acknowledges() {
    let mut sender = Sender::new(1_000);
    for number in 0..100 {
        sender.add_source(NOW, vec![0; 900], number);
        sender.note(NOW, Carried::Source, 1_000, RTT);
    }

    sender.handle_silence();
    let view = |came| PeerView {
        horizon: came,
        first_missing: came,
        end: came,
        missing: 0,
        rank: 0,
        runs: &[],
    };
    sender.handle_report(&view(60)).unwrap();
    let lacking = sender.deficit(&Loss::default(), 0.0);
    // An older one, overtaken on its way, takes nothing back.
    sender.handle_report(&view(30)).unwrap();

    assert_eq!((sender.floor(), lacking), (60, 40.0));
    assert_eq!(sender.next_lost(100).map(|(number, _)| number), Some(60));
}

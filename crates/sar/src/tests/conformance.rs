//! The two examples of MIL-STD-2045-47001D for S/R Basic.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bench::{Fate, GROUP, Net, rng};
use crate::wire::{Body, Pdu};
use crate::{Config, Failure, Options, Outcome, Profile, Sar, Times};

/// That of the examples: the timer of the window is 110 s, above the usual maximum.
fn config() -> Config {
    let mut config = Config::of(Profile::Basic);
    config.retries.requests = 2;
    config.retries.first_counts = true;
    config.times.round_trip = Duration::from_secs(10);
    config.times.most_timeout = Duration::from_secs(120);
    config.times.gap = Duration::from_secs(15);
    config.times.spread = Duration::ZERO;
    config
}

fn group() -> Options {
    Options { via: Some(GROUP), ..Options::default() }
}

fn segment(pdu: &Pdu<'_>) -> Option<u16> {
    match pdu.body {
        Body::Data { place, .. } => Some(place.number()),
        _ => None,
    }
}

#[test]
fn missed_segments() {
    let mut copies: BTreeMap<(usize, u16), u32> = BTreeMap::new();
    let mut net = Net::new(5, config()).with_air(move |_, to, pdu| {
        let Some(number) = segment(pdu) else { return Fate::Arrives };
        let copy = copies.entry((to, number)).or_default();
        *copy += 1;
        match (to, number, *copy) {
            (4, _, _) | (2, 3 | 4, 1) | (3, 5, 1 | 2) => Fate::Lost,
            _ => Fate::Arrives,
        }
    });

    let id = net.send(9 * 496, &[1, 2, 3, 4], group());
    net.run(Duration::from_secs(3_000));

    assert_eq!(
        net.said_by(0),
        [
            "0>* data 1/9 P",
            "0>* data 1/9 P",
            "0>4 abort",
            "0>* data 2/9",
            "0>* data 3/9",
            "0>* data 4/9",
            "0>* data 5/9",
            "0>* data 6/9 P",
            "0>* data 3/9",
            "0>* data 4/9",
            "0>* data 5/9",
            "0>* data 7/9",
            "0>* data 8/9 P",
            "0>3 abort",
            "0>* data 9/9 P",
        ]
    );
    let said = |node, what: &[&str]| {
        let what: Vec<String> = what.iter().map(|it| format!("{node}>0 {it}")).collect();
        assert_eq!(net.said_by(node), what);
    };
    said(1, &["partial 2 F", "partial 2 F", "partial 7 F", "partial 9 F", "complete F"]);
    said(2, &["partial 2 F", "partial 2 F", "partial 3 [5, 6] F", "partial 9 F", "complete F"]);
    said(3, &["partial 2 F", "partial 2 F", "partial 5 [6] F", "partial 5 [6, 7, 8] F"]);
    assert_eq!(
        net.fates(id),
        [
            (1, Outcome::Delivered),
            (2, Outcome::Delivered),
            (3, Outcome::Failed(Failure::Lost)),
            (4, Outcome::Failed(Failure::Silent)),
        ]
    );
    // The first timer runs 22 s from each transmission of segment 1; all else follows answers.
    assert!(net.story.contains(&"22s 0>* data 1/9 P".to_owned()), "{:?}", net.story);
    assert!(net.story.contains(&"44s 0>* data 2/9".to_owned()), "{:?}", net.story);
}

#[test]
fn by_the_pseudo_code_a_segment_is_sent_again_once_more() {
    let mut config = config();
    config.retries.first_counts = false;
    let mut copies = 0;
    let mut net = Net::new(3, config).with_air(move |_, to, pdu| {
        copies += u32::from(to == 2 && segment(pdu) == Some(3));
        let is_lost = to == 2 && segment(pdu) == Some(3) && copies <= 2;
        if is_lost { Fate::Lost } else { Fate::Arrives }
    });

    let id = net.send(4 * 496, &[1, 2], group());
    net.run(Duration::from_secs(3_000));

    assert_eq!(net.fates(id), [(1, Outcome::Delivered), (2, Outcome::Delivered)]);
    let third = net.said_by(0).iter().filter(|line| line.contains("data 3/4")).count();
    assert_eq!(third, 3);
}

#[test]
fn an_originator_out_of_range_asks_and_goes_on_with_those_that_are_left() {
    // Nothing arrives from when segment 6 has until the originator asks; node 2 gives up meanwhile.
    let config = config();
    let mut is_in_range = true;
    let mut net = Net::new(3, config).with_air(move |_, to, pdu| {
        is_in_range |= matches!(pdu.body, Body::AckRequest { .. });
        let fate = if is_in_range { Fate::Arrives } else { Fate::Lost };
        is_in_range &= !(to == 2 && segment(pdu) == Some(6));
        fate
    });
    let times = Times { gap: Duration::from_secs(9), ..config.times };
    net.nodes[2] = Sar::new(net.now, Config { times, ..config }, Some(1), rng(2));

    let id = net.send(8 * 496, &[1, 2], group());
    net.run(Duration::from_secs(5_000));

    assert_eq!(
        net.said_by(0),
        [
            "0>* data 1/8 P",
            "0>* data 2/8",
            "0>* data 3/8",
            "0>* data 4/8",
            "0>* data 5/8",
            "0>* data 6/8 P",
            "0>* ask 6",
            "0>1 data 7/8",
            "0>1 data 8/8 P",
        ]
    );
    let partial = net.said_by(1).iter().filter(|line| *line == "1>0 partial 7 F").count();
    assert_eq!(partial, 2, "the answer is repeated");
    let fates = net.fates(id);
    assert_eq!(fates, [(1, Outcome::Delivered), (2, Outcome::Failed(Failure::Aborted))]);
}

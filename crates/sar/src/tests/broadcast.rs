//! One sender and sixteen receivers of a lossy net.

use std::time::Duration;

use base::rng::Rng;

use super::bench::{Fate, GROUP, Net, address};
use crate::wire::Body;
use crate::{Config, Options, Outcome};

const RECEIVERS: usize = 16;
const LONG: Duration = Duration::from_secs(4_000);

/// Sends messages of 20 segments to all over a net that loses `loss` of what each hears; returns what was sent
/// besides the segments once each: segments again and repairs, and answers.
fn cost(has_coding: bool, loss: f64) -> (u64, u64) {
    let config = Config { coding: has_coding, ..Config::default() };
    let (mut extra, mut answers) = (0, 0);
    for seed in 0..10 {
        let mut air = Rng::stream(seed, "air");
        let mut net = Net::new(RECEIVERS + 1, config).with_air(move |from, _, _| {
            // Answers arrive: this is about segments.
            if from == 0 && air.chance(loss) { Fate::Lost } else { Fate::Arrives }
        });
        let to: Vec<usize> = (1..=RECEIVERS).collect();
        let options = Options { via: Some(GROUP), ..Options::default() };

        let id = net.send(20 * 496, &to, options);
        net.run(LONG);

        let fates = net.fates(id);
        assert!(fates.iter().all(|it| it.1 == Outcome::Delivered), "{fates:?}");
        assert_eq!(net.delivered.len(), RECEIVERS);
        let whole = super::bench::message(20 * 496).data;
        assert!(net.delivered.iter().all(|(_, it)| it.data == *whole));
        let sent = net.nodes[0].stats().sent;
        assert_eq!(sent.segments, 20);
        extra += sent.again + sent.repairs;
        answers += net.nodes[1..].iter().map(|node| node.stats().sent.answers).sum::<u64>();
    }
    (extra, answers)
}

#[test]
fn repairs_serve_many_that_lost_different_segments() {
    let (plain, _) = cost(false, 0.1);
    let (coded, _) = cost(true, 0.1);
    println!("10 % loss, 10 messages of 20 segments: {plain} segments again, {coded} repairs");

    assert!(plain > 150, "{plain}");
    assert!(coded * 10 < plain * 7, "{coded} instead of {plain}");
}

#[test]
fn a_net_without_coding_has_no_repairs_on_the_air() {
    for (has_coding, expects) in [(false, false), (true, true)] {
        let config = Config { coding: has_coding, ..Config::default() };
        let mut count = 0;
        let mut net = Net::new(3, config).with_air(move |from, _, _| {
            count += u32::from(from == 0);
            let is_lost = from == 0 && [3, 6].contains(&count);
            if is_lost { Fate::Lost } else { Fate::Arrives }
        });
        let options = Options { via: Some(GROUP), ..Options::default() };

        net.send(4 * 496, &[1, 2], options);
        net.run(LONG);

        let has_any = net.story.iter().any(|line| line.contains("repair"));
        assert_eq!(has_any, expects, "{:?}", net.story);
    }
}

#[test]
fn answers_of_a_group_are_spread_and_told_once_for_several_questions() {
    let mut net = Net::new(RECEIVERS + 1, Config::default());
    let to: Vec<usize> = (1..=RECEIVERS).collect();
    let options = Options { via: Some(GROUP), ..Options::default() };
    let spread = Config::default().times.spread;

    net.send(100, &to, options);
    let mut times = Vec::new();
    while net.outcomes.len() < RECEIVERS {
        let due = net.next().expect("there is more to come");
        let before = net.story.len();
        net.step(due);
        times.extend((before..net.story.len()).map(|_| net.now));
    }

    let (first, last) = (times[0], times[RECEIVERS - 1]);
    assert!(last.since(first) > spread / 2 && last.since(first) < spread, "{times:?}");
    assert_eq!(net.story.len(), 1 + RECEIVERS);
}

#[test]
fn the_last_destination_that_is_left_is_addressed_itself() {
    let mut net = Net::new(3, Config::default()).with_air({
        let mut count = 0;
        move |_, to, _| {
            count += u32::from(to == 2);
            if to == 2 && count == 1 { Fate::Lost } else { Fate::Arrives }
        }
    });
    let options = Options { via: Some(GROUP), ..Options::default() };

    let id = net.send(100, &[1, 2], options);
    net.run(LONG);

    let to_one = format!("0>{} data 1/1 P", 2);
    assert_eq!(net.said_by(0), ["0>* data 1/1 P".to_owned(), to_one]);
    assert_eq!(net.fates(id).len(), 2);
    assert_eq!(net.outcomes[1].2, address(2));
}

#[test]
fn those_whose_answers_are_missing_are_asked_three_at_a_time() {
    // All hear the message. Of those who answer it at about the same time only the first is understood.
    let mut count = 0;
    let config = Config::default();
    let mut net = Net::new(RECEIVERS + 1, config).with_air(move |from, _, _| {
        count += u32::from(from != 0);
        let is_lost = from != 0 && (2..=16).contains(&count);
        if is_lost { Fate::Lost } else { Fate::Arrives }
    });
    let to: Vec<usize> = (1..=RECEIVERS).collect();

    let id = net.send(496, &to, Options { via: Some(GROUP), ..Options::default() });
    net.run(LONG);

    assert!(net.fates(id).iter().all(|it| it.1 == Outcome::Delivered), "{:?}", net.fates(id));
    let asks: Vec<&str> = net
        .story
        .iter()
        .filter(|line| line.contains(" ask "))
        .filter_map(|line| line.split_once('s').map(|it| it.0))
        .collect();
    assert_eq!(asks.len(), RECEIVERS - 1, "each once: {:?}", net.story);
    let at_once = asks.chunk_by(|a, b| a == b).map(<[&str]>::len).max();
    assert_eq!(at_once, Some(3), "{:?}", net.story);
    assert_eq!(net.nodes[0].stats().sent.again, 0, "all have it");
    // Whoever was asked alone, once, has told how far it is.
    let known = (1..=RECEIVERS).filter(|node| net.nodes[0].has_answered(address(*node))).count();
    assert_eq!(known, RECEIVERS - 1);
}

#[test]
fn as_many_repairs_are_sent_as_one_of_a_group_lost_segments_unless_all_lost_the_same() {
    // What the two lose of four segments; then segments sent again, and repairs.
    for (lost, again, repairs) in [
        ([&[2][..], &[4]], 0, 1),
        ([&[2], &[3, 4]], 0, 2),
        ([&[2, 3], &[2, 3]], 2, 0),
        ([&[], &[3]], 1, 0),
    ] {
        let config = Config { coding: true, ..Config::default() };
        let mut has_lost = [false; 5].map(|_| [false; 2]);
        let mut net = Net::new(3, config).with_air(move |from, to, pdu| match pdu.body {
            Body::Data { place, .. } if from == 0 && lost[to - 1].contains(&place.number()) => {
                let before = &mut has_lost[usize::from(place.number())][to - 1];
                if std::mem::replace(before, true) { Fate::Arrives } else { Fate::Lost }
            }
            _ => Fate::Arrives,
        });

        let id = net.send(4 * 496, &[1, 2], Options { via: Some(GROUP), ..Options::default() });
        net.run(LONG);

        assert!(net.fates(id).iter().all(|it| it.1 == Outcome::Delivered), "{:?}", net.story);
        let sent = net.nodes[0].stats().sent;
        assert_eq!((sent.again, sent.repairs), (again, repairs), "{lost:?} {:?}", net.story);
    }
}

/// Each of them sends an answer of its own.
#[test]
fn a_group_of_four_has_four_times_as_much_under_way() {
    let mut net = Net::new(5, Config::default());

    net.send(20 * 496, &[1, 2, 3, 4], Options { via: Some(GROUP), ..Options::default() });
    net.run(Duration::from_millis(500));

    assert_eq!(net.nodes[0].stats().sent.segments, 20);
}

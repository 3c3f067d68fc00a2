//! Messages with a lifetime: whoever does not answer is waited for, at little cost, and tried as soon as there is a sign.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use base::time::Time;

use super::bench::{Fate, GROUP, Net, PORTS, address, rng};
use crate::wire::{Body, Pdu};
use crate::{Arrival, Config, Options, Outcome, Precedence, Profile, Sar};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Options = Options {
    precedence: Precedence::ROUTINE,
    lifetime: Some(Duration::from_secs(86_400)),
    is_acknowledged: true,
    via: None,
    resume: None,
};

/// A net in which these nodes can be cut off.
fn net(nodes: usize) -> (Net, Rc<Cell<[bool; 4]>>) {
    let cut = Rc::new(Cell::new([false; 4]));
    let seen = Rc::clone(&cut);
    let net = Net::new(nodes, Config::default()).with_air(move |from, to, _| {
        let cut = seen.get();
        if cut[from] || cut[to] { Fate::Lost } else { Fate::Arrives }
    });
    (net, cut)
}

fn cut_off(cut: &Cell<[bool; 4]>, nodes: &[usize]) {
    cut.set(std::array::from_fn(|node| nodes.contains(&node)));
}

/// Times in the story at which a node sent something, in seconds.
fn times(net: &Net, from: &str) -> Vec<u64> {
    let sent = net.story.iter().filter(|line| line.contains(&format!(" {from}")));
    sent.map(|line| line.split('s').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_destination_that_is_silent_for_hours_gets_its_message_when_it_is_back() {
    for octets in [100, 5_000] {
        let (mut net, cut) = net(2);
        cut_off(&cut, &[1]);
        let id = net.send(octets, &[1], DAY);
        net.run(HOUR * 2);

        assert_eq!(net.fates(id), [], "{octets} octets: it is waited for");
        let sent = times(&net, "0>1");
        assert!(sent.len() < 140, "{} datagrams in two hours", sent.len());
        let first_hour = sent.iter().filter(|at| **at < 3_600).count();
        assert!(first_hour < 75, "{first_hour}: once a minute at most, and some at first");
        let short = net.story.iter().rev().take(100).all(|line| line.contains("0>1 ask"));
        assert!(short, "what is asked now and then is short");
        assert_eq!(net.nodes[0].stats().levels.in_flight, 0, "nothing of it holds up others");

        cut_off(&cut, &[]);
        net.run(HOUR * 2 + SECOND * 75);

        assert_eq!(net.fates(id), [(1, Outcome::Delivered)], "{octets} octets");
        assert_eq!(net.delivered.len(), 1);
    }
}

#[test]
fn the_outcome_is_told_when_the_lifetime_ends() {
    let (mut net, cut) = net(3);
    cut_off(&cut, &[1]);
    let ids: Vec<_> = (0..30)
        .map(|hours| net.send(100, &[1], Options { lifetime: Some(HOUR + SECOND * hours), ..DAY }))
        .collect();

    net.run(HOUR - SECOND);
    assert!(net.outcomes.is_empty());
    net.run(HOUR * 2);

    for id in ids {
        assert_eq!(net.fates(id), [(1, Outcome::Expired)]);
    }
    let levels = net.nodes[0].stats().levels;
    assert_eq!((levels.waiting, levels.transfers, levels.in_flight), (0, 0, 0));
}

#[test]
fn other_profiles_and_messages_without_a_lifetime_are_given_up_as_before() {
    for (name, profile) in Profile::NAMES {
        let mut net = Net::new(2, Config::of(profile)).with_air(|_, _, _| Fate::Lost);
        let options = match profile {
            Profile::Default => Options::default(),
            _ => DAY,
        };
        let id = net.send(100, &[1], options);
        net.run(HOUR);
        assert_eq!(net.fates(id).len(), 1, "{name}");
    }
}

#[test]
fn many_messages_to_a_silent_destination_cost_no_more_than_one_and_hold_up_nobody() {
    let (mut net, cut) = net(3);
    // It is known, so that many transfers are under way when it falls silent.
    net.send(100, &[1], DAY);
    net.run(SECOND * 10);
    for _ in 0..40 {
        net.send(2_000, &[1], DAY);
    }
    cut_off(&cut, &[1]);
    net.run(SECOND * 600);
    let before = times(&net, "0>1").len();
    net.run(SECOND * 600 + HOUR);
    let quiet = times(&net, "0>1").len() - before;
    assert!(quiet <= 62, "{quiet} datagrams in an hour");

    let now = net.now;
    let other = net.send(2_000, &[2], DAY);
    net.run(now.since(Time::ZERO) + SECOND * 20);
    assert_eq!(net.fates(other), [(2, Outcome::Delivered)]);

    cut_off(&cut, &[]);
    let now = net.now;
    net.run(now.since(Time::ZERO) + SECOND * 150);
    let delivered = net.outcomes.iter().filter(|it| it.3 == Outcome::Delivered).count();
    assert_eq!(delivered, 42, "{:?}", net.nodes[0].stats());
    assert_eq!(net.delivered.len(), 42, "each once");
}

/// Cuts node 1 off for as long as everything to it is asked for at long intervals; `sign` is given when it is back.
/// Returns how long after that the last of ten messages had arrived.
fn recovery(sign: impl FnOnce(&mut Net)) -> Duration {
    let (mut net, cut) = net(2);
    net.send(100, &[1], DAY);
    net.run(SECOND * 10);
    cut_off(&cut, &[1]);
    for _ in 0..10 {
        net.send(300, &[1], DAY);
    }
    net.run(SECOND * 1_000);
    assert_eq!(net.outcomes.len(), 1);
    cut_off(&cut, &[]);
    let back = net.now;

    sign(&mut net);
    while net.delivered.iter().filter(|(node, _)| *node == 1).count() < 11 {
        let due = net.next().expect("something is due");
        net.step(due);
    }
    net.now.since(back)
}

#[test]
fn any_sign_of_a_silent_destination_has_its_messages_sent_at_once() {
    let two_round_trips = SECOND * 4;
    let first = recovery(|net| _ = net.send_from(1, 40, &[0], DAY));
    let start = recovery(|net| {
        let known = net.delivered[0].1.identity;
        net.nodes[1] = Sar::new(net.now, Config::default(), Some(1), rng(5));
        net.nodes[1].remember(net.now, known);
        net.nodes[1].announce(net.now, [address(0)]);
    });
    let stranger = recovery(|net| {
        net.nodes[1] = Sar::new(net.now, Config::default(), Some(1), rng(5));
        net.nodes[1].announce(net.now, [address(0)]);
    });
    let way = recovery(|net| {
        let silent: Vec<_> = net.nodes[0].silent().collect();
        assert_eq!(silent, [address(1)]);
        net.nodes[0].handle_way(net.now, address(1));
    });

    for (name, took) in [("first", first), ("start", start), ("stranger", stranger), ("way", way)] {
        assert!(took <= two_round_trips, "{name}: {took:?}");
    }
    assert!(recovery(|_| {}) > two_round_trips, "without a sign it takes longer");
}

#[test]
fn a_sign_counts_before_a_destination_was_asked_often() {
    let (mut net, cut) = net(2);
    cut_off(&cut, &[1]);
    // Nothing is known of it: the third question would wait for 40 s.
    let ids = [net.send(300, &[1], DAY), net.send(2_000, &[1], DAY)];
    net.run(SECOND * 31);
    cut_off(&cut, &[]);

    net.nodes[1].announce(net.now, [address(0)]);
    net.run(SECOND * (31 + 1 + 4));

    for id in ids {
        assert_eq!(net.fates(id), [(1, Outcome::Delivered)], "{:?}", net.story);
    }
}

#[test]
fn signs_that_are_made_up_cost_little() {
    let (mut net, cut) = net(2);
    cut_off(&cut, &[1]);
    net.send(400, &[1], DAY);
    net.run(SECOND * 1_000);
    let before = times(&net, "0>1").len();

    let mut octets = Vec::new();
    Pdu { ports: PORTS, serial: 9, body: Body::Complete { is_final: false } }.emit(&mut octets);
    let arrival = Arrival { from: address(1), is_group: false, precedence: Precedence::ROUTINE };
    for tenth in 0..6_000_u32 {
        net.run(SECOND * 1_000 + Duration::from_millis(100) * tenth);
        for _ in 0..10 {
            net.nodes[0].handle_datagram(net.now, arrival, &octets).unwrap();
        }
    }

    let tried = net.nodes[0].stats().sent.tried;
    assert!((5..=18).contains(&tried), "{tried} of 60,000 in ten minutes");
    let sent = times(&net, "0>1").len() - before;
    assert!(sent <= 100, "{sent} datagrams");
}

#[test]
fn of_a_group_those_that_answer_go_on_and_the_others_get_theirs_later() {
    let (mut net, cut) = net(4);
    let options = Options { via: Some(GROUP), ..DAY };
    cut_off(&cut, &[2, 3]);
    let id = net.send(20_000, &[1, 2, 3], options);
    let short = net.send(300, &[1, 2, 3], options);
    net.run(SECOND * 600);

    assert_eq!(net.fates(id), [(1, Outcome::Delivered)]);
    assert_eq!(net.fates(short), [(1, Outcome::Delivered)]);
    cut_off(&cut, &[3]);
    net.run(SECOND * 900);
    assert_eq!(net.fates(id), [(1, Outcome::Delivered), (2, Outcome::Delivered)]);
    assert_eq!(net.fates(short), [(1, Outcome::Delivered), (2, Outcome::Delivered)]);
    let before = net.story.len();
    net.run(SECOND * 900 + HOUR);
    assert!(net.story.len() - before <= 130, "{} in an hour", net.story.len() - before);
    cut_off(&cut, &[]);
    net.run(SECOND * 1_100 + HOUR);

    for id in [id, short] {
        assert_eq!(net.fates(id), [1, 2, 3].map(|node| (node, Outcome::Delivered)));
    }
    assert_eq!(net.delivered.len(), 6, "each once");
}

#[test]
fn a_destination_that_answers_and_takes_nothing_is_tried_more_and_more_rarely() {
    let is_full = Rc::new(Cell::new(true));
    let seen = Rc::clone(&is_full);
    let mut net = Net::new(2, Config::default()).with_air(move |_, _, pdu| match pdu.body {
        Body::Data { .. } if seen.get() => Fate::Lost,
        _ => Fate::Arrives,
    });
    let id = net.send(5_000, &[1], DAY);
    net.run(SECOND * 600);
    let before = net.story.len();
    net.run(SECOND * 600 + HOUR);

    let sent = net.story.len() - before;
    assert!(sent <= 120, "{sent} datagrams in an hour, answers included");
    assert_eq!(net.fates(id), []);
    is_full.set(false);
    net.run(SECOND * 800 + HOUR);
    assert_eq!(net.fates(id), [(1, Outcome::Delivered)]);
    assert_eq!(net.delivered.len(), 1);
}

#[test]
fn a_receiver_that_is_started_again_many_times_still_gets_its_message() {
    let (net, cut) = net(2);
    // The message needs 25 s without a break, and never has more than 10.
    let mut net = net.with_rate(2_000.0);
    let id = net.send(50_000, &[1], DAY);
    for round in 1..10 {
        net.run(SECOND * 300 * round - SECOND * 290);
        net.nodes[1] = Sar::new(net.now, Config::default(), Some(1), rng(7));
        cut_off(&cut, &[1]);
        net.run(SECOND * 300 * round);
        cut_off(&cut, &[]);
    }
    assert_eq!(net.fates(id), []);
    net.run(HOUR * 2);

    assert_eq!(net.fates(id), [(1, Outcome::Delivered)]);
    assert_eq!(net.delivered.len(), 1);
    assert!(net.nodes[0].stats().answered.forgotten > 0, "{:?}", net.nodes[0].stats());
}

#[test]
fn a_sign_of_one_destination_tries_no_other() {
    let (mut net, cut) = net(3);
    cut_off(&cut, &[1, 2]);
    let ids = [1, 2].map(|node| net.send(300, &[node], DAY));
    net.run(SECOND * 31);
    assert_eq!(net.nodes[0].silent().count(), 2);
    cut_off(&cut, &[]);
    let before = times(&net, "0>2").len();

    net.nodes[1].announce(net.now, [address(0)]);
    net.run(SECOND * (31 + 1 + 2));

    assert_eq!(net.fates(ids[0]), [(1, Outcome::Delivered)]);
    assert_eq!(times(&net, "0>2").len(), before, "{:?}", net.story);
}

#[test]
fn a_sign_that_comes_too_early_counts_at_the_end_of_the_pause() {
    let (mut net, cut) = net(2);
    cut_off(&cut, &[1]);
    let id = net.send(300, &[1], DAY);
    net.run(SECOND * 1_000);
    let tried = |net: &Net| net.nodes[0].stats().sent.tried;

    net.nodes[0].handle_way(net.now, address(1));
    assert_eq!(tried(&net), 1);
    net.run(SECOND * 1_000 + SECOND / 2);
    cut_off(&cut, &[]);
    net.nodes[0].handle_way(net.now, address(1));
    assert_eq!(tried(&net), 1);
    net.run(SECOND * 1_001);
    assert_eq!(tried(&net), 2);
    net.run(SECOND * 1_006);
    assert_eq!(net.fates(id), [(1, Outcome::Delivered)]);
}

#[test]
fn a_group_is_sent_what_its_silent_members_get_later() {
    let (mut net, cut) = net(3);
    cut_off(&cut, &[2]);
    net.send(300, &[2], DAY);
    net.run(SECOND * 1_000);
    let before = net.said_by(0).len();

    let id = net.send(300, &[1, 2], Options { via: Some(GROUP), ..DAY });
    net.run(SECOND * 1_003);

    assert_eq!(net.fates(id), [(1, Outcome::Delivered)]);
    // The group has one member that answers, so the datagram goes to this member alone.
    assert_eq!(net.said_by(0)[before..][0], "0>1 data 1/1 P");
}

#[test]
fn who_falls_silent_holds_up_no_transfer_to_others() {
    let (net, cut) = net(3);
    // The second message takes 260 s.
    let mut net = net.with_rate(500.0);
    let ids = [1, 2].map(|node| net.send(if node == 1 { 300 } else { 120_000 }, &[node], DAY));
    cut_off(&cut, &[1]);

    net.run(SECOND * 400);

    assert_eq!(net.nodes[0].silent().collect::<Vec<_>>(), [address(1)]);
    assert_eq!((net.fates(ids[0]), net.fates(ids[1])), (vec![], vec![(2, Outcome::Delivered)]));
}

#[test]
fn all_groups_that_wait_for_a_destination_go_on_when_it_answers_one() {
    let (mut net, cut) = net(3);
    cut_off(&cut, &[2]);
    let options = Options { via: Some(GROUP), ..DAY };
    let ids = [300, 2_000, 400].map(|octets| net.send(octets, &[1, 2], options));
    net.run(SECOND * 1_000);
    cut_off(&cut, &[]);

    while net.outcomes.len() < 4 {
        let due = net.next().expect("it is asked now and then");
        net.step(due);
    }
    let first = net.now.since(Time::ZERO);
    net.run(first + SECOND * 10);

    for id in ids {
        assert_eq!(net.fates(id).len(), 2, "{:?}", net.story);
    }
}

#[test]
fn who_has_answered_or_is_sent_nothing_any_more_is_not_called_silent() {
    let (mut net, cut) = net(3);
    cut_off(&cut, &[1, 2]);
    let ids = [1, 2].map(|node| net.send(300, &[node], DAY));
    net.run(SECOND * 31);
    let silent = |net: &Net| net.nodes[0].silent().collect::<Vec<_>>();
    assert_eq!(silent(&net), [1, 2].map(address));

    cut_off(&cut, &[]);
    net.nodes[0].cancel(net.now, ids[1]);
    assert_eq!(silent(&net), [address(1)]);
    net.run(SECOND * 100);

    assert_eq!(net.fates(ids[0]), [(1, Outcome::Delivered)]);
    assert!(silent(&net).is_empty());
}

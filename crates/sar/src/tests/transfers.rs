//! What becomes of messages, by each profile.

use std::time::Duration;

use base::time::Time;

use super::bench::{Fate, GROUP, Net, PORTS, address, message, rng};
use crate::wire::{Body, Cover, Pdu, Place};
use crate::{Arrival, Config, Failure, Options, Outcome, Precedence, Profile, Sar};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(4_000);

fn profiles() -> impl Iterator<Item = (&'static str, Config)> {
    Profile::NAMES.into_iter().map(|(name, profile)| (name, Config::of(profile)))
}

#[test]
fn a_message_of_one_segment_takes_two_datagrams_in_every_profile() {
    for (name, config) in profiles() {
        let mut net = Net::new(2, config);

        let id = net.send(100, &[1], Options::default());
        net.run(LONG);

        let (p, f) = if config.profile.polls() { (" P", " F") } else { ("", "") };
        let story = [format!("0s 0>1 data 1/1{p}"), format!("1s 1>0 complete{f}")];
        assert_eq!(net.story, story, "{name}");
        assert_eq!(net.fates(id), [(1, Outcome::Delivered)]);
        assert_eq!(net.delivered[0].1.data, *message(100).data);
    }
}

#[test]
fn profiles_can_talk_with_each_other() {
    for (sender, ours) in profiles() {
        for (receiver, theirs) in profiles() {
            // Each eighth datagram is lost.
            let mut count = 0;
            let mut net = Net::new(2, ours).with_air(move |_, _, _| {
                count += 1;
                if count % 8 == 5 { Fate::Lost } else { Fate::Arrives }
            });
            net.nodes[1] = Sar::new(net.now, theirs, Some(1), rng(1));

            let id = net.send(3_000, &[1], Options::default());
            net.run(LONG);

            assert_eq!(net.fates(id), [(1, Outcome::Delivered)], "{sender} to {receiver}");
            assert_eq!(net.delivered.len(), 1, "{sender} to {receiver}");
            assert_eq!(net.delivered[0].1.data, *message(3_000).data);
        }
    }
}

#[test]
fn the_seed_sends_everything_again_and_its_receiver_tells_what_is_missing() {
    let config = Config::of(Profile::Seed);
    let mut first = true;
    let mut net = Net::new(2, config).with_air(move |from, _, _| {
        let is_lost = from == 1 && std::mem::take(&mut first);
        if is_lost { Fate::Lost } else { Fate::Arrives }
    });
    net.send(1_000, &[1], Options::default());
    net.run(LONG);

    let again = [
        "0s 0>1 data 1/3",
        "0s 0>1 data 2/3",
        "0s 0>1 data 3/3",
        "1s 1>0 complete",
        "20s 0>1 data 1/3",
        "20s 0>1 data 2/3",
        "20s 0>1 data 3/3",
        "21s 1>0 complete",
    ];
    assert_eq!(net.story, again);

    let mut count = 0;
    let mut net = Net::new(2, config).with_air(move |_, _, _| {
        count += 1;
        if count == 2 { Fate::Lost } else { Fate::Arrives }
    });
    net.send(1_000, &[1], Options::default());
    net.run(LONG);

    let missing =
        ["16s 1>0 partial 2 [3]", "17s 0>1 data 2/3", "18s 1>0 complete"].map(str::to_owned);
    assert_eq!(net.story[3..], missing);
}

#[test]
fn the_early_protocol_asks_before_it_sends_again() {
    let mut count = 0;
    let mut net = Net::new(2, Config::of(Profile::Early)).with_air(move |from, _, _| {
        count += u32::from(from == 1);
        if from == 1 && count == 1 { Fate::Lost } else { Fate::Arrives }
    });

    let id = net.send(1_000, &[1], Options::default());
    net.run(LONG);

    assert_eq!(net.story[3..], ["1s 1>0 complete", "20s 0>1 ask 3", "21s 1>0 complete F"]);
    assert_eq!(net.fates(id), [(1, Outcome::Delivered)]);
}

#[test]
fn who_does_not_answer_is_given_up_in_every_profile() {
    for (name, config) in profiles() {
        let mut net = Net::new(2, config).with_air(|_, _, _| Fate::Lost);

        let id = net.send(3_000, &[1], Options::default());
        net.run(LONG);

        assert_eq!(net.fates(id), [(1, Outcome::Failed(Failure::Silent))], "{name}");
        assert_eq!(net.story.last().map(|it| it.ends_with("0>1 abort")), Some(true), "{name}");
        let levels = net.nodes[0].stats().levels;
        assert_eq!((levels.transfers, levels.in_flight), (0, 0), "{name}");
    }
}

#[test]
fn without_acknowledgements_each_segment_is_sent_once() {
    let mut net = Net::new(4, Config::default());
    let options = Options { is_acknowledged: false, ..Options::default() };

    let to = [GROUP];
    let id = net.nodes[0].submit(net.now, &message(900), &to, options).unwrap();
    net.run(LONG);

    assert_eq!(net.story, ["0s 0>* plain 1/2", "0s 0>* plain 2/2"]);
    assert_eq!(net.delivered.len(), 3);
    assert_eq!(net.outcomes, [(0, id, GROUP, Outcome::Sent)]);
}

#[test]
fn what_is_not_acknowledged_makes_room_for_what_waits() {
    let mut config = Config::default();
    config.flow.transfers = 2;
    let mut net = Net::new(2, config);
    let options = Options { is_acknowledged: false, ..Options::default() };

    (0..9).for_each(|_| _ = net.send(10, &[1], options));
    net.run(SECOND * 2);

    assert_eq!((net.outcomes.len(), net.delivered.len()), (9, 9));
}

#[test]
fn a_late_copy_is_answered_and_not_delivered_again() {
    let mut net = Net::new(2, Config::default()).with_air(|_, _, _| Fate::Twice);

    let id = net.send(2_000, &[1], Options::default());
    net.run(LONG);

    assert_eq!(net.delivered.len(), 1);
    assert_eq!(net.fates(id), [(1, Outcome::Delivered)]);
    let received = net.nodes[1].stats().received;
    assert!(received.late + received.again >= 5, "{received:?}");
}

#[test]
fn a_receiver_that_was_restarted_begins_anew_and_takes_nothing_twice() {
    let mut net = Net::new(2, Config::default());
    let id = net.send(50_000, &[1], Options::default());
    net.run(SECOND * 3);
    assert!(net.delivered.is_empty());

    net.nodes[1] = Sar::new(net.now, Config::default(), Some(1), rng(7));
    net.run(LONG);

    assert_eq!(net.fates(id), [(1, Outcome::Delivered)]);
    assert_eq!(net.delivered.len(), 1);
    assert_eq!(net.delivered[0].1.data, *message(50_000).data);

    // What has been delivered is known to a process that was told.
    let known = net.delivered[0].1.identity;
    let resume = net.started[0].3;
    for (is_told, delivered) in [(true, 0), (false, 1)] {
        let mut net = Net::new(2, Config::default());
        if is_told {
            net.nodes[1].remember(net.now, known);
        }
        let options = Options { resume: Some(resume), ..Options::default() };
        let id = net.send(50_000, &[1], options);
        net.run(LONG);
        assert_eq!(net.fates(id), [(1, Outcome::Delivered)]);
        assert_eq!(net.delivered.len(), delivered, "told: {is_told}");
    }
}

#[test]
fn a_sender_that_was_restarted_goes_on_with_its_transfer() {
    let mut net = Net::new(2, Config::default());
    net.send(5_000, &[1], Options::default());
    net.run(SECOND * 3);
    let resume = net.started[0].3;

    net.nodes[0] = Sar::new(net.now, Config::default(), Some(resume.serial + 1), rng(9));
    net.outcomes.clear();
    let (before, options) =
        (net.story.len(), Options { resume: Some(resume), ..Options::default() });
    let id = net.send(5_000, &[1], options);
    net.run(LONG);

    assert_eq!(net.fates(id), [(1, Outcome::Delivered)]);
    assert_eq!(net.delivered.len(), 1);
    let data = net.story[before..].iter().filter(|line| line.contains("data")).count();
    assert!(data <= 9, "it sends again what is there: {:?}", &net.story[before..]);
}

#[test]
fn a_lifetime_ends_while_a_message_waits_and_while_it_is_sent() {
    let mut config = Config::default();
    config.flow.transfers = 1;
    let mut net = Net::new(3, config).with_air(|_, to, _| match to {
        1 => Fate::Lost,
        _ => Fate::Arrives,
    });
    let lasting = |seconds| Options { lifetime: Some(SECOND * seconds), ..Options::default() };

    let sent = net.send(100, &[1], lasting(15));
    let waiting = net.send(100, &[2], lasting(10));
    let later = net.send(100, &[2], lasting(60));
    net.run(LONG);

    assert_eq!(net.fates(sent), [(1, Outcome::Expired)]);
    assert_eq!(net.fates(waiting), [(2, Outcome::Expired)]);
    assert_eq!(net.fates(later), [(2, Outcome::Delivered)]);
    assert!(net.story.contains(&"15s 0>1 abort".to_owned()), "{:?}", net.story);
}

#[test]
fn a_message_of_higher_precedence_goes_first_and_does_not_wait_for_room() {
    let mut config = Config::default();
    config.flow.transfers = 1;
    config.flow.queue = 600;
    let mut net = Net::new(2, config);
    let of = |level| Options { precedence: Precedence::new(level), ..Options::default() };

    net.send(400, &[1], of(0));
    net.send(401, &[1], of(0));
    net.send(402, &[1], of(1));
    net.send(403, &[1], of(5));
    net.run(LONG);

    let order: Vec<usize> = net.delivered.iter().map(|(_, it)| it.data.len()).collect();
    assert_eq!(order, [403, 402, 400, 401]);
}

#[test]
fn several_destinations_without_a_group_have_a_transfer_each() {
    let mut net = Net::new(4, Config::default()).with_air(|_, to, pdu| match (to, pdu.body) {
        (2, Body::Data { .. }) => Fate::Lost,
        _ => Fate::Arrives,
    });

    let id = net.send(100, &[1, 2, 3, 3], Options::default());
    net.run(LONG);

    assert_eq!(
        net.fates(id),
        [(1, Outcome::Delivered), (2, Outcome::Failed(Failure::Silent)), (3, Outcome::Delivered)]
    );
    assert_eq!(net.started.iter().map(|it| it.2).collect::<Vec<_>>().len(), 3);
    assert!(net.started.iter().any(|it| it.2 == Some(address(2))));
}

#[test]
fn who_has_nothing_to_do_is_not_woken() {
    let mut net = Net::new(2, Config::default());
    let lifetime = Some(Duration::from_secs(86_400));
    for octets in [40, 3_000] {
        net.send(octets, &[1], Options { lifetime, ..Options::default() });
    }

    while net.outcomes.len() < 2 {
        let due = net.next().expect("there is more to come");
        net.step(due);
    }

    assert_eq!([0, 1].map(|node| net.nodes[node].next_timeout()), [None, None]);
}

/// A receiver that is not asked speaks when segments stay away for longer than they did before.
#[test]
fn a_slow_message_is_waited_for_and_reported_on_when_its_segments_stay_away() {
    let config = Config::default();
    let mut node = Sar::new(Time::ZERO, config, Some(1), rng(1));
    let (mut now, mut reports) = (Time::ZERO, Vec::new());
    let bring = |node: &mut Sar, now, number| {
        let place = Place::new(number, 40).unwrap();
        let data = &[7; 100];
        let body = Body::Data { is_acknowledged: true, polls: false, place, data };
        let mut octets = Vec::new();
        Pdu { ports: PORTS, serial: 1, body }.emit(&mut octets);
        let (from, precedence) = (address(0), Precedence::ROUTINE);
        node.handle_datagram(now, Arrival { from, is_group: false, precedence }, &octets).unwrap();
    };
    let mut wait = |node: &mut Sar, now: &mut Time, time: Duration| {
        let end = *now + time;
        let mut out = Vec::new();
        while let Some(due) = node.next_timeout().filter(|due| *due <= end) {
            *now = due;
            node.handle_timeout(due);
            while node.poll_transmit(due, &mut out).is_some() {
                reports.push(due.since(Time::ZERO).as_secs());
            }
        }
        *now = end;
        reports.len()
    };

    // A segment in 100 s: no more than 210 s are waited for any.
    for number in 1..=30 {
        bring(&mut node, now, number);
        assert_eq!(wait(&mut node, &mut now, Duration::from_secs(100)), 0, "{number}");
    }
    assert_eq!(wait(&mut node, &mut now, Duration::from_secs(300)), 1);
    // It goes on, and the next silence is reported as late as this one.
    bring(&mut node, now, 31);
    assert_eq!(wait(&mut node, &mut now, Duration::from_secs(205)), 1);
    assert_eq!(wait(&mut node, &mut now, Duration::from_secs(10)), 2);
    // So it is when a segment comes again.
    bring(&mut node, now, 31);
    assert_eq!(wait(&mut node, &mut now, Duration::from_secs(205)), 2);
    assert_eq!(wait(&mut node, &mut now, Duration::from_secs(10)), 3);
    assert_eq!((node.stats().received.given_up, node.stats().received.again), (0, 1));
}

#[test]
fn a_receiver_that_is_asked_speaks_only_then() {
    let mut node = Sar::new(Time::ZERO, Config::default(), Some(1), rng(1));
    let place = Place::new(1, 3).unwrap();
    let body = Body::Data { is_acknowledged: true, polls: true, place, data: &[7; 100] };
    let mut octets = Vec::new();
    Pdu { ports: PORTS, serial: 1, body }.emit(&mut octets);
    let (from, precedence) = (address(0), Precedence::ROUTINE);
    let arrival = Arrival { from, is_group: false, precedence };
    node.handle_datagram(Time::ZERO, arrival, &octets).unwrap();

    let (mut sent, mut now, mut out) = (0, Time::ZERO, Vec::new());
    loop {
        sent += std::iter::from_fn(|| node.poll_transmit(now, &mut out)).count();
        let Some(due) = node.next_timeout() else { break };
        now = due;
        node.handle_timeout(now);
    }

    assert_eq!((sent, node.stats().received.given_up), (1, 1));
}

/// Two of four segments are lost. The sum of all tells nothing before one of the two has come.
#[test]
fn a_segment_that_comes_makes_a_repair_useful() {
    for last in [2, 4] {
        let message = message(usize::from(last) * 100);
        let config = Config { coding: true, ..Config::default() };
        let mut node = Sar::new(Time::ZERO, config, Some(1), rng(1));
        let mut bring = |body: Body<'_>| {
            let mut octets = Vec::new();
            Pdu { ports: PORTS, serial: 1, body }.emit(&mut octets);
            let (from, precedence) = (address(0), Precedence::ROUTINE);
            let arrival = Arrival { from, is_group: false, precedence };
            node.handle_datagram(Time::ZERO, arrival, &octets).unwrap();
        };
        let cover = Cover { first: Place::new(1, last).unwrap(), span: last, number: 0, tail: 100 };
        let mut symbol = Vec::new();
        crate::repair::encode(1, &cover, &message.data, 100, &mut symbol);
        let segment = |number: u16| {
            let place = Place::new(number, last).unwrap();
            let data = &message.data[usize::from(number - 1) * 100..usize::from(number) * 100];
            Body::Data { is_acknowledged: true, polls: false, place, data }
        };

        (1..last - 1).for_each(|number| bring(segment(number)));
        bring(Body::Repair { polls: false, cover, symbol: &symbol });
        bring(segment(last));

        let received = node.stats().received;
        assert_eq!((received.messages, received.repairs_useless), (1, 0), "{received:?}");
    }
}

#[test]
fn what_needs_no_acknowledgement_waits_for_no_room() {
    let mut config = Config::default();
    (config.flow.queue, config.flow.most_queue) = (4_000, 4_000);
    let mut net = Net::new(3, config).with_air(|_, to, _| match to {
        1 => Fate::Lost,
        _ => Fate::Arrives,
    });
    net.send(20_000, &[1], Options::default());
    net.run(Duration::from_millis(100));

    net.send(3_000, &[2], Options { is_acknowledged: false, ..Options::default() });
    net.run(Duration::from_secs(2));

    assert_eq!(net.delivered.len(), 1);
}

/// Three quarters of the queue have no room for a segment.
#[test]
fn one_segment_may_be_under_way_however_small_the_queue() {
    let mut config = Config::default();
    (config.flow.queue, config.flow.most_queue) = (576, 576);
    let mut net = Net::new(2, config);

    net.send(3_000, &[1], Options::default());
    net.run(Duration::from_secs(100));

    assert_eq!(net.delivered.len(), 1);
}

/// All 65,536 numbers are used; each rests for ten timeouts, because its segments may still be under way.
#[test]
fn a_number_rests_for_as_long_as_its_segments_may_be_under_way() {
    let config = Config::default();
    let mut node = Sar::new(Time::ZERO, config, Some(0), rng(0));
    let (shared, mut out) = (message(1), Vec::new());
    let options = Options { is_acknowledged: false, ..Options::default() };
    for _ in 0..=1 << 16 {
        node.submit(Time::ZERO, &shared, &[address(1)], options).unwrap();
        while node.poll_event().is_some() {}
        while node.poll_transmit(Time::ZERO, &mut out).is_some() {}
    }
    let mut now = Time::ZERO;
    while node.stats().levels.waiting > 0 {
        now = node.next_timeout().expect("a number is free some time");
        node.handle_timeout(now);
    }

    assert_eq!(now.since(Time::ZERO), config.times.round_trip * 10);
}

/// Once a round trip is known, twice that and a little is waited for an answer.
#[test]
fn basic_waits_for_no_longer_than_round_trips_explain() {
    let mut count = 0;
    let mut net = Net::new(2, Config::of(Profile::Basic)).with_air(move |from, _, _| {
        // Answers after the third are lost once.
        count += u32::from(from == 1);
        if from == 1 && count == 4 { Fate::Lost } else { Fate::Arrives }
    });

    net.send(30 * 496, &[1], Options::default());
    while net.outcomes.is_empty() {
        let due = net.next().expect("there is more to come");
        net.step(due);
    }

    let took = net.now.since(Time::ZERO);
    assert!(took < SECOND * 30, "{took:?} {:?}", net.story);
}

#[test]
fn by_enhanced_the_fourth_segment_under_way_asks() {
    let mut net = Net::new(2, Config::of(Profile::Enhanced));

    net.send(9 * 496, &[1], Options::default());
    net.run(Duration::from_millis(500));

    assert_eq!(net.said_by(0)[3..5], ["0>1 data 4/9 P", "0>1 data 5/9"]);
}

//! What is under way at a time, and how long is waited.

use std::time::Duration;

use base::time::Time;

use super::bench::{Fate, Net, PORTS, address, message};
use crate::{Config, Options, Outcome, Precedence, Profile, Sar};

const LONG: Duration = Duration::from_secs(40_000);

#[test]
fn no_more_is_under_way_than_the_queue_may_have() {
    let mut config = Config::default();
    (config.flow.queue, config.flow.most_queue) = (4_000, 4_000);
    let mut net = Net::new(4, config);
    for node in [1, 2, 3, 1, 2, 3] {
        net.send(20_000, &[node], Options::default());
    }

    let mut most = 0;
    while let Some(due) = net.next() {
        net.step(due);
        most = most.max(net.nodes[0].stats().levels.in_flight);
    }

    assert_eq!(net.delivered.len(), 6);
    assert!((2_400..=3_000).contains(&most), "{most}: routine messages have three quarters");
}

#[test]
fn whoever_fills_the_queue_hears_that_all_of_it_was_lost() {
    for (name, profile) in Profile::NAMES {
        let mut lost = 0;
        let mut net = Net::new(3, Config::of(profile)).with_air(move |from, to, _| {
            let is_lost = (from, to) == (0, 1) && lost < 60;
            lost += u32::from(is_lost);
            if is_lost { Fate::Lost } else { Fate::Arrives }
        });
        // Longer than the three quarters of the queue that routine messages have.
        let long = net.send(18_000, &[1], Options::default());
        let other = net.send(500, &[2], Options::default());

        net.run(LONG);

        assert_eq!(net.fates(long).len(), 1, "{name}");
        assert_eq!(net.fates(other), [(2, Outcome::Delivered)], "{name}: locked out");
    }
}

#[test]
fn the_window_grows_with_success_and_shrinks_with_loss() {
    let most_under_way = |one_in: u32| {
        let mut count = 0;
        let mut net = Net::new(2, Config::default()).with_air(move |from, _, _| {
            count += u32::from(from == 0);
            if from == 0 && count % one_in == one_in - 1 { Fate::Lost } else { Fate::Arrives }
        });
        net.send(100_000, &[1], Options::default());
        let mut most = 0;
        while let Some(due) = net.next() {
            net.step(due);
            most = most.max(net.nodes[0].stats().levels.in_flight / 508);
        }
        assert_eq!(net.outcomes.len(), 1);
        most
    };

    assert!(most_under_way(1_000) > 60);
    assert!(most_under_way(20) > 20, "a little is lost without a queue, too");
    assert!(most_under_way(2) < 15);
}

/// How long messages of so many octets take over a link with this rate in octets a second and this
/// delay each way, and the most octets that were under way meanwhile.
fn crossing(rate: f64, delay: Duration, messages: &[usize]) -> (f64, u64) {
    let mut net = Net::new(2, Config::default()).with_delay(delay).with_rate(rate);
    messages.iter().for_each(|octets| _ = net.send(*octets, &[1], Options::default()));
    let mut most = 0;
    while let Some(due) = net.next()
        && net.outcomes.len() < messages.len()
    {
        net.step(due);
        most = most.max(net.nodes[0].stats().levels.in_flight);
    }
    assert!(net.outcomes.iter().all(|it| it.3 == Outcome::Delivered));
    assert_eq!(net.nodes[0].stats().sent.again, 0, "nothing is lost");
    (net.now.since(Time::ZERO).as_secs_f64(), most)
}

#[test]
fn a_long_and_fast_path_is_filled() {
    let delay = Duration::from_millis(300);
    let (rate, octets) = (1.25e6, 1_000_000);

    let (one, _) = crossing(rate, delay, &[octets]);
    let many = [496; 2_000];
    let (small, _) = crossing(rate, delay, &many);

    let ideal = octets as f64 * 536.0 / 496.0 / rate + 0.6;
    assert!(
        one < ideal + 10.0 * 0.6,
        "{one} s of {ideal}: a window that doubles needs 9 round trips"
    );
    let ideal = many.len() as f64 * 536.0 / rate + 0.6;
    assert!(small < ideal + 10.0 * 0.6, "{small} s of {ideal}");
}

#[test]
fn a_slow_net_has_no_more_in_its_queue_than_at_first() {
    let (_, most) = crossing(2_000.0, Duration::from_millis(300), &[100_000, 100_000]);

    assert!(most <= 16_384 * 3 / 4, "{most}");
}

#[test]
fn segments_keep_their_distance() {
    let mut config = Config::default();
    config.flow.spacing = Duration::from_secs(3);
    let mut net = Net::new(2, config);

    net.send(2_000, &[1], Options::default());
    net.run(LONG);

    let data = net.story.iter().filter(|line| line.contains("data"));
    let times: Vec<&str> = data.filter_map(|line| line.split('s').next()).collect();
    assert_eq!(times, ["0", "3", "6", "9", "12"]);
}

/// Sends one message after the other over a net with this delay; returns how many datagrams each one took.
fn datagrams(delay: Duration, round_trip: Duration, messages: usize) -> Vec<u64> {
    let mut config = Config::default();
    config.times.round_trip = round_trip;
    config.times.most_timeout = Duration::from_secs(600);
    let mut net = Net::new(2, config).with_delay(delay);
    let mut took = Vec::new();
    for number in 0..messages {
        let before = net.nodes[0].stats().sent;
        net.send(100, &[1], Options::default());
        while net.outcomes.len() == number
            && let Some(due) = net.next()
        {
            net.step(due);
        }
        let after = net.nodes[0].stats().sent;
        took.push(after.segments + after.again - before.segments - before.again);
    }
    assert!(net.outcomes.iter().all(|it| it.3 == Outcome::Delivered));
    assert_eq!(net.delivered.len(), messages);
    took
}

#[test]
fn a_timeout_that_was_far_too_short_is_soon_long_enough() {
    // The round trip is 30 s, one second is guessed: the first message is repeated. What it took then is
    // known at most.
    let took = datagrams(Duration::from_secs(15), Duration::from_secs(1), 4);

    assert_eq!(took, [5, 1, 1, 1]);
}

#[test]
fn what_a_timeout_grew_to_is_forgotten_after_a_rest() {
    // Of the second message three datagrams are lost, of the third the first one.
    let mut count = 0;
    let mut net = Net::new(2, Config::default()).with_air(move |from, _, _| {
        count += u32::from(from == 0);
        let is_lost = from == 0 && [2, 3, 4, 6].contains(&count);
        if is_lost { Fate::Lost } else { Fate::Arrives }
    });
    for start in [0, 100, 1_000] {
        net.run(Duration::from_secs(start));
        net.send(100, &[1], Options::default());
    }
    net.run(Duration::from_secs(2_000));

    assert_eq!(net.outcomes.len(), 3);
    let sent = net.story.iter().filter(|line| line.contains(" 0>1 data"));
    let times: Vec<u64> =
        sent.filter_map(|line| line.split_once('s').and_then(|it| it.0.parse().ok())).collect();
    // The round trip of 2 s was measured once: a timeout of 6 s.
    assert_eq!(times, [0, 100, 106, 118, 142, 1_000, 1_006]);
}

#[test]
fn what_fits_into_the_window_is_asked_about_once() {
    let mut net = Net::new(2, Config::default());

    net.send(5 * 496, &[1], Options::default());
    net.run(LONG);

    let all = ["data 1/5", "data 2/5", "data 3/5", "data 4/5", "data 5/5 P"];
    assert_eq!(net.said_by(0), all.map(|it| format!("0>1 {it}")));
    assert_eq!(net.said_by(1), ["1>0 complete F"]);
}

#[test]
fn what_was_learnt_of_one_destination_is_the_guess_for_another() {
    let mut config = Config::default();
    config.times.round_trip = Duration::from_secs(60);
    let mut net = Net::new(3, config).with_delay(Duration::from_millis(50)).with_air({
        let mut count = 0;
        move |_, to, _| {
            count += u32::from(to == 2);
            if to == 2 && count == 1 { Fate::Lost } else { Fate::Arrives }
        }
    });
    net.send(100, &[1], Options::default());
    net.run(Duration::from_secs(1));

    net.send(100, &[2], Options::default());
    net.run(Duration::from_secs(3));

    assert_eq!(net.outcomes.len(), 2, "it did not wait for 60 s: {:?}", net.story);
}

#[test]
fn a_destination_that_does_not_answer_keeps_no_other_waiting() {
    let mut config = Config::default();
    config.flow.transfers = 8;
    config.flow.transfers_of_peer = 4;
    let mut net = Net::new(3, config).with_air(|_, to, _| match to {
        1 => Fate::Lost,
        _ => Fate::Arrives,
    });
    for _ in 0..40 {
        net.send(100, &[1], Options::default());
    }
    for _ in 0..40 {
        net.send(100, &[2], Options::default());
    }

    net.run(Duration::from_secs(60));
    assert_eq!(net.delivered.len(), 40);
    net.run(LONG);
    assert_eq!(net.outcomes.len(), 80, "each has an outcome");
}

#[test]
fn a_hundred_thousand_messages_wait_and_all_are_sent() {
    let mut config = Config::default();
    config.times.serial_rest = Duration::ZERO;
    let now = Time::ZERO;
    let mut node = Sar::new(now, config, Some(0), super::bench::rng(0));
    let shared = message(500);
    for number in 0..100_000_u32 {
        let level = u8::try_from(number % 6).unwrap();
        let options = Options { precedence: Precedence::new(level), ..Options::default() };
        let peer = 1 + usize::try_from(number % 100).unwrap();
        node.submit(now, &shared, &[address(peer)], options).unwrap();
    }
    assert!(node.stats().levels.waiting > 98_000);

    // Destinations answer at once.
    let mut now = now;
    let (mut out, mut outcomes) = (Vec::new(), 0);
    while outcomes < 100_000 {
        now += Duration::from_micros(100);
        node.handle_timeout(now);
        while let Some(transmit) = node.poll_transmit(now, &mut out) {
            let serial = u16::from_be_bytes([out[6], out[7]]);
            // Two segments: an answer is asked for with the second one.
            if out[5] & 1 == 0 {
                continue;
            }
            let mut answer = Vec::new();
            let body = crate::wire::Body::Complete { is_final: true };
            crate::wire::Pdu { ports: PORTS.swapped(), serial, body }.emit(&mut answer);
            let arrival = crate::Arrival {
                from: transmit.to,
                is_group: false,
                precedence: transmit.precedence,
            };
            node.handle_datagram(now, arrival, &answer).unwrap();
        }
        while let Some(event) = node.poll_event() {
            outcomes += u32::from(matches!(event, crate::Event::Outcome { .. }));
        }
    }
    assert_eq!(node.stats().messages.delivered, 100_000);
    assert_eq!(node.stats().levels.transfers, 0);
}

#[test]
fn a_transfer_with_more_under_way_than_there_is_room_for_asks_instead_of_waiting() {
    let mut config = Config::default();
    config.flow.queue = 4_000;
    let mut net = Net::new(3, config).with_delay(Duration::from_millis(50));
    for _ in 0..4 {
        net.send(200_000, &[1], Options::default());
        net.run(net.now.since(Time::ZERO) + Duration::from_secs(600));
    }
    assert_eq!(net.delivered.len(), 4, "the window and the room have grown");
    net.send(200_000, &[1], Options::default());
    let (node, mut now) = (&mut net.nodes[0], net.now);
    let mut out = Vec::new();
    while node.stats().levels.in_flight < 14_000 {
        let transmit = node.poll_transmit(now, &mut out).expect("there is room");
        assert_eq!(transmit.to, address(1));
        while node.poll_event().is_some() {}
    }
    let asked = node.stats().sent.requests;

    // Another destination does not answer, and each time the room is halved; the bearer takes one datagram at a time.
    let urgent = Options { precedence: Precedence::IMMEDIATE, ..Options::default() };
    node.submit(now, &message(100), &[address(2)], urgent).expect("it is taken");
    let mut last = node.poll_transmit(now, &mut out).expect("it is urgent");
    for _ in 0..12 {
        assert_eq!(last.to, address(2));
        while node.poll_event().is_some() {}
        now = node.next_timeout().unwrap_or(now);
        node.handle_timeout(now);
        let Some(next) = node.poll_transmit(now, &mut out) else { continue };
        last = next;
        if last.to == address(1) {
            break;
        }
    }

    assert_eq!(last.to, address(1));
    assert_eq!(node.stats().sent.requests, asked + 1, "{:?}", node.stats().levels);
}

#[test]
fn all_of_the_queue_may_be_used() {
    let mut config = Config::default();
    // Three quarters of it are four datagrams of 508 octets.
    (config.flow.queue, config.flow.most_queue) = (2_709, 2_709);
    let mut net = Net::new(2, config);

    net.send(20 * 496, &[1], Options::default());
    net.run(Duration::from_millis(500));

    assert_eq!(net.nodes[0].stats().levels.in_flight, 4 * 508);
}

/// A stranger has eight transfers at a time.
#[test]
fn more_messages_start_as_soon_as_a_destination_has_answered() {
    let mut net = Net::new(2, Config::default());
    for _ in 0..20 {
        net.send(20_000, &[1], Options::default());
    }
    net.run(Duration::from_secs(1));
    assert_eq!(net.started.len(), 8);

    net.run(Duration::from_millis(2_500));

    assert_eq!((net.started.len(), net.outcomes.len()), (20, 0));
}

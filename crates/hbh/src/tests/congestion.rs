//! A next hop that is slower than the one before.

use super::*;

const SLOW: Duration = Duration::from_millis(100);

#[test]
fn a_sender_that_is_told_slows_down_before_the_queue_is_full() {
    let mut line = bottleneck(Profile::Default, 150);
    let config = *line.relays[B].config();
    line.send(0..400);

    line.run_for(Duration::from_secs(20), |_| Fate::ARRIVES);
    let start = Time::ZERO + Duration::from_secs(5);
    let after = |from, to| line.between(from, to).filter(|sent| sent.at > start).count();
    let (there, on) = (line.between(A, B).count(), line.between(B, C).count());
    let (there_later, on_later) = (after(A, B), after(B, C));
    let longest = line.between(B, C).map(|sent| sent.backlog).max().unwrap();
    line.run(|_| Fate::ARRIVES);

    assert!((config.congestion..config.queue).contains(&longest), "{longest} waited");
    assert!(there_later < on_later * 3 / 2, "{there_later} to B, {on_later} on from there");
    assert!(there < on + config.queue, "{there} to B, {on} on from there");
    assert_eq!(line.relays[B].stats().received.data_deferred, 0);
    assert_eq!(line.order(), (0..400).collect::<Vec<_>>());
}

#[test]
fn a_full_next_hop_is_told_to_the_sender_and_nothing_is_lost() {
    // Less room than flies in a round trip.
    let mut line = bottleneck(Profile::Default, 16);
    line.send(0..200);

    line.run(|_| Fate::ARRIVES);

    let (a, b) = (line.relays[A].stats(), line.relays[B].stats());
    let longest = line.log.iter().filter(|sent| sent.from == B).map(|sent| sent.backlog).max();
    assert_eq!(longest, Some(16), "the queue fills, and no further");
    assert!(a.sent.congestion_received > 0 && b.received.data_deferred > 0, "{a:?} {b:?}");
    assert_eq!((line.refused, b.intake.packets_full_inside, a.sent.packets_abandoned), (0, 0, 0));
    let mut numbers = line.order();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
}

#[test]
fn a_packet_that_is_left_with_its_sender_is_not_given_up() {
    let mut line = bottleneck(Profile::Default, 16);
    line.slots[B] = Duration::from_secs(1);
    line.send(0..60);

    line.run(|_| Fate::ARRIVES);

    assert!(line.relays[B].stats().received.data_deferred > 0);
    assert_eq!(line.relays[A].stats().sent.packets_abandoned, 0);
    assert_eq!(line.delivered.len(), 60);
}

#[test]
fn the_seed_is_told_too_and_what_does_not_fit_is_counted() {
    let mut line = bottleneck(Profile::Paper, 16);
    line.send(0..200);

    line.run(|_| Fate::ARRIVES);

    let (a, b) = (line.relays[A].stats(), line.relays[B].stats());
    assert!(a.sent.congestion_received > 0, "{a:?}");
    assert_eq!(line.delivered.len() as u64 + b.intake.packets_full_inside, 200);
    assert!(line.delivered.len() > 150, "{}", line.delivered.len());
}

#[test]
fn congestion_is_told_at_once_and_its_end_as_well() {
    let config = bottleneck(Profile::Default, 100).relays[B].config().to_owned();
    let mut node = Arrivals::new(config);
    node.relay.add_peer(Peer(2), peer_config(1));

    // The first packet shows that the flow goes on.
    let mut told = Vec::new();
    for n in 0..config.congestion {
        assert_eq!(node.answer(), None, "{n} packets wait, and nothing is urgent");
        node.bring(&datagram("10.0.0.1:1", "10.9.0.2:2", 0));
        for packet in node.restored() {
            node.relay.handle_packet(node.now, Peer(2), &packet).unwrap();
        }
    }
    // By a timer, so that a driver which sends on the other link looks here as well.
    let moment = Duration::from_nanos(1);
    assert_eq!(node.relay.next_timeout(), Some(node.now + moment));
    node.wait(moment);
    told.push((config.congestion, node.answer().expect("news").is_congested));
    let mut out = Vec::new();
    for left in (config.clear..config.congestion).rev() {
        assert_eq!(node.answer(), None, "before {left} wait");
        assert!(node.relay.poll_transmit(node.now, Link(1), &mut out).is_some());
    }
    assert_eq!(node.relay.next_timeout(), Some(node.now + moment));
    node.wait(moment);
    told.push((config.clear, node.answer().expect("news").is_congested));

    assert_eq!(told, [(config.congestion, true), (config.clear, false)]);
}

#[test]
fn between_the_two_marks_a_queue_stays_what_it_was_called() {
    let mut line = bottleneck(Profile::Default, 100);
    let config = *line.relays[B].config();
    line.send(0..200);

    line.run(|_| Fate::ARRIVES);

    let mut was_congested = false;
    let (mut rising, mut falling) = (0, 0);
    for sent in line.between(B, A) {
        for ack in sent.acks() {
            let is_between = (config.clear + 1..config.congestion).contains(&sent.backlog);
            let expected = if is_between { was_congested } else { sent.backlog > config.clear };
            assert_eq!(ack.is_congested, expected, "{} wait at {:?}", sent.backlog, sent.at);
            rising += u32::from(is_between && !was_congested);
            falling += u32::from(is_between && was_congested);
            was_congested = ack.is_congested;
        }
    }
    assert!(rising > 0 && falling > 0, "{rising} {falling}: the run shows both");
    assert!(!was_congested);
}

#[test]
fn the_end_of_congestion_is_told() {
    let mut line = bottleneck(Profile::Default, 100);
    let config = *line.relays[B].config();
    // All of it fits there, so that nothing but the news makes B speak at the end.
    line.send(0..16);

    line.run(|_| Fate::ARRIVES);

    let fallen = line.between(B, C).filter(|sent| sent.backlog == config.clear).last().unwrap();
    let first_clear = line
        .between(B, A)
        .skip_while(|sent| !sent.acks().any(|ack| ack.is_congested))
        .find(|sent| sent.acks().any(|ack| !ack.is_congested))
        .expect("an acknowledgement that does not say congested");
    assert!(first_clear.at >= fallen.at, "{first_clear:?}");
    assert!(first_clear.at <= fallen.at + SLOT, "{first_clear:?}");
}

#[test]
fn the_rate_is_free_again_at_the_first_acknowledgement_that_does_not_say_congested() {
    let mut line = bottleneck(Profile::Default, 100);
    line.send(0..400);
    line.run_for(Duration::from_secs(5), |_| Fate::ARRIVES);

    // The second link becomes as fast as the first.
    line.slots[B] = SLOT;
    let start = line.now;
    line.run_for(Duration::from_secs(3), |_| Fate::ARRIVES);

    let cleared = line
        .between(B, A)
        .find(|sent| sent.at > start && sent.acks().any(|ack| !ack.is_congested))
        .expect("news")
        .at;
    let heard = cleared + SLOT + DELAY;
    let sent = line.between(A, B).filter(|sent| (heard..heard + DELAY).contains(&sent.at)).count();
    assert!(sent >= 5, "{sent} in as many slots");
}

#[test]
fn each_round_trip_of_congestion_takes_q_of_the_rate() {
    let (slot, round_trip) = (Duration::from_millis(5), Duration::from_millis(100));
    for q in [0.5, 0.8] {
        let mut node = congested(Config { rate_decrease: q, ..steady() }, (slot, round_trip));

        let start = node.now;
        node.run_for(round_trip * 6, (slot, round_trip), true);

        let sent = node.sent_at.iter().filter(|&&at| at >= start).collect::<Vec<_>>();
        let gap = |at: usize| sent[at + 1].since(*sent[at]).as_secs_f64();
        let slower = (1..sent.len() - 1).filter(|&at| gap(at) > gap(at - 1) * 1.01);
        let changes: Vec<usize> = slower.collect();
        assert!((3..=6).contains(&changes.len()), "about one a round trip: {changes:?}");
        for pair in changes.windows(2) {
            let ratio = gap(pair[0]) / gap(pair[1]);
            assert!((ratio / q - 1.0).abs() < 0.01, "{ratio}, not {q}");
            assert!(sent[pair[1]].since(*sent[pair[0]]) > round_trip * 3 / 4);
        }
    }
}

#[test]
fn a_congested_flow_sends_a_packet_at_least_once_a_second() {
    let (slot, round_trip) = (Duration::from_millis(5), Duration::from_millis(100));
    let mut node = congested(steady(), (slot, round_trip));

    node.run_for(Duration::from_secs(60), (slot, round_trip), true);

    let tail = &node.sent_at[node.sent_at.len() - 20..];
    for pair in tail.windows(2) {
        let gap = pair[1].since(pair[0]);
        assert!(gap <= Duration::from_secs(1), "{gap:?}");
        assert!(gap >= round_trip, "and no faster than a congested one: {gap:?}");
    }
}

#[test]
fn a_packet_that_enters_a_long_queue_is_marked_if_its_sender_understands_that() {
    const CAPABLE: u8 = 0b10;
    const CONGESTED: u8 = 0b11;
    for (profile, sent, expected) in [
        (Profile::Default, CAPABLE, CONGESTED),
        (Profile::Default, 0, 0),
        (Profile::Paper, CAPABLE, CAPABLE),
    ] {
        let config = quiet(profile);
        let mut pair = Line::pair(config);
        let mut packet = datagram("10.0.0.1:1", "10.9.0.2:2", 0);
        packet[1] = sent;
        rewrite_v4_checksum(&mut packet[..20]);
        for _ in 0..config.congestion + 5 {
            pair.give(&packet);
        }

        pair.run(|_| Fate::ARRIVES);

        let marks: Vec<u8> = pair.delivered.iter().map(|packet| packet[1]).collect();
        let (before, behind) = marks.split_at(config.congestion);
        assert!(before.iter().all(|&mark| mark == sent), "{profile:?} {marks:?}");
        assert_eq!(behind, [expected; 5], "{profile:?}");
        let marked = if expected == CONGESTED { 5 } else { 0 };
        assert_eq!(pair.relays[A].stats().intake.packets_marked, marked, "{profile:?}");
    }
}

#[test]
fn a_packet_that_a_peer_brought_is_not_marked() {
    let mut line = bottleneck(Profile::Default, 100);
    let mut packet = datagram("10.0.0.1:1", "10.9.0.2:2", 0);
    packet[1] = 0b10;
    rewrite_v4_checksum(&mut packet[..20]);
    line.relays[A] =
        Line::pair(Config { congestion: 1_000, ..*line.relays[A].config() }).relays.swap_remove(A);
    for _ in 0..60 {
        line.give(&packet);
    }

    line.run(|_| Fate::ARRIVES);

    assert!(line.between(B, C).any(|sent| sent.backlog > line.relays[B].config().congestion));
    assert_eq!(line.relays[B].stats().intake.packets_marked, 0);
    assert!(line.delivered.iter().all(|packet| packet[1] == 0b10));
}

/// 50 packets leave in a round trip: if fewer waited, the next hop would have nothing to send until more come.
#[test]
fn on_a_long_path_congestion_is_told_later_and_its_end_earlier() {
    for (queue, told, cleared) in [(200, 45..55, 22..28), (40, 28..32, 14..17)] {
        let inside = Config { congestion: 10, clear: 4, queue, ..quiet(Profile::Default) };
        let entry = Config { queue: 4_000, ..inside };
        let mut line = Line::new(&[entry, inside, inside], &[SLOT / 10, SLOT / 5]);
        // By an answer, B knows the round trip to A.
        let back = datagram("10.9.0.2:2", "10.0.0.1:1", 0);
        line.relays[C].handle_packet(line.now, Peer(1), &back).unwrap();
        line.send(0..4_000);

        line.run(|_| Fate::ARRIVES);

        // What waits at B when its word changes.
        let (mut was_congested, mut marks) = (false, [vec![], vec![]]);
        for sent in line.between(B, A) {
            for ack in sent.acks() {
                if ack.is_congested != was_congested {
                    marks[usize::from(ack.is_congested)].push(sent.backlog);
                }
                was_congested = ack.is_congested;
            }
        }
        // At first nobody knows how many leave.
        for (marks, expected) in marks.iter().zip([cleared, told]) {
            let last = &marks[marks.len() - 3..];
            assert!(last.iter().all(|it| expected.contains(it)), "{marks:?}, not {expected:?}");
        }
    }
}

#[test]
fn other_parameters_count_for_flows_that_are_slowed_down_already() {
    let (slot, round_trip) = (Duration::from_millis(5), Duration::from_millis(100));
    let sent = [None, Some(0.1)].map(|rate_decrease| {
        let config = Config { rate_decrease: 0.9, ..steady() };
        let mut node = congested(config, (slot, round_trip));
        if let Some(rate_decrease) = rate_decrease {
            node.relay.set_config(node.now, Config { rate_decrease, ..config });
        }
        let before = node.sent_at.len();
        node.run_for(round_trip * 6, (slot, round_trip), true);
        node.sent_at.len() - before
    });

    assert!(sent[1] < sent[0] / 2, "{sent:?}");
}

/// λ + p at each round trip; and the seed does not forget λ.
#[test]
fn the_rate_of_the_seed_grows_while_nobody_is_congested() {
    let (slot, round_trip) = (Duration::from_millis(5), Duration::from_millis(100));
    let seed = Config { queue: 2_000, rate_increase: 20_000.0, ..quiet(Profile::Paper) };
    let mut node = congested(seed, (slot, round_trip));
    node.run_for(round_trip * 6, (slot, round_trip), true);
    let mut in_a_second = || {
        let before = node.sent_at.len();
        node.run_for(Duration::from_secs(1), (slot, round_trip), false);
        node.sent_at.len() - before
    };

    let sent = [in_a_second(), in_a_second(), in_a_second()];

    assert!(sent[1] > sent[0] && sent[2] >= sent[0] + 20, "{sent:?}");
}

/// A packet that a congested neighbour left with us waits for its turn at the rate, and for nothing else.
#[test]
fn the_last_packet_left_with_its_sender_goes_when_the_rate_allows() {
    let mut node = Answered::new(quiet(Profile::Default));
    for number in 0..2 {
        let packet = datagram("10.0.0.1:1", "10.9.0.2:2", number);
        node.relay.handle_packet(node.now, Peer(1), &packet).unwrap();
    }
    let (flow, first, ..) = node.send().unwrap();
    let (_, second, name, _) = node.send().unwrap();
    node.now += DELAY;
    // The second came, and was not taken; nor was the first.
    node.hear_as(flow, first, name, true);
    while node.now < Time::ZERO + Duration::from_secs(20) && node.relay.stats().packets_held > 0 {
        if let Some((_, seq, of, _)) = node.send() {
            node.now += DELAY;
            let next = if seq == first { second } else { wire::Seq(second.0.wrapping_add(1)) };
            node.hear_as(flow, next, of, true);
        } else {
            node.expire();
        }
    }

    assert!(node.now < Time::ZERO + Duration::from_secs(3), "{:?}", node.now);
}

/// A rate that only falls, and packets that do not wear out.
fn steady() -> Config {
    let lifetime = Duration::from_secs(1_000);
    Config { rate_increase: 0.0, queue: 2_000, lifetime, ..quiet(Profile::Default) }
}

/// A node that has sent at full rate for a second.
fn congested(config: Config, link: (Duration, Duration)) -> Answered {
    let mut node = Answered::new(config);
    for n in 0..1_000 {
        let packet = long_datagram("10.0.0.1:1", "10.9.0.2:2", n, 1_300);
        node.relay.handle_packet(Time::ZERO, Peer(1), &packet).unwrap();
    }
    node.run_for(Duration::from_secs(1), link, false);
    node
}

/// Three nodes, and a slow link from the second to the third.
fn bottleneck(profile: Profile, queue: usize) -> Line {
    let lifetime = Duration::from_secs(1_000);
    // p fits packets of 100 octets on a link that carries ten of them a second.
    let (rate_increase, ours) = (1_000.0, quiet(profile));
    let inside = Config { congestion: 10, clear: 4, queue, rate_increase, lifetime, ..ours };
    // What enters at A waits there.
    let entry = Config { queue: 1_000, ..inside };
    Line::new(&[entry, inside, inside], &[SLOT, SLOW])
}

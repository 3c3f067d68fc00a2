//! What idle time and the room in packets are used for.

use super::*;

#[test]
fn an_idle_lossy_link_sends_segments_twice_and_a_clean_one_does_not() {
    let config = Config::new(Profile::Default);
    let mut pair = Line::pair(config);
    let send = |pair: &mut Line, number: u32| {
        let packet = segment(number * 100, 100, 0);
        pair.give(&packet);
        pair.run(|_| Fate::ARRIVES);
    };
    send(&mut pair, 0);
    assert_eq!(pair.relays[A].stats().sent.data_spare, 1, "nothing is known of the link yet");

    for number in 1..41 {
        send(&mut pair, number);
    }

    assert!(pair.relays[A].stats().sent.data_spare < 20, "{:?}", pair.relays[A].stats());
    assert_eq!(pair.delivered.len(), 41);
}

/// The answers of a neighbour may wait in a long queue of its own.
#[test]
fn while_a_neighbour_has_not_answered_few_acknowledgements_of_tcp_are_copied() {
    let mut pair = Line::pair(Config::new(Profile::Default));
    pair.give(&acknowledgement(0));
    pair.run(|_| Fate::ARRIVES);
    let before = pair.relays[A].stats().sent.data_spare;

    for number in 1..60 {
        pair.give(&acknowledgement(number * 1_000));
        pair.run_for(DELAY * 2, |_| Fate::LOST);
    }

    let copied = pair.relays[A].stats().sent.data_spare - before;
    assert!((1..=4).contains(&copied), "{copied}");
}

#[test]
fn what_the_driver_reports_of_a_link_counts_until_packets_tell_more() {
    let copies = |line: &mut Line, number: u32| {
        let before = line.relays[A].stats().sent.data_spare;
        line.give(&segment(number * 100, 100, 0));
        line.run(|_| Fate::ARRIVES);
        line.relays[A].stats().sent.data_spare - before
    };
    let report = |line: &mut Line, arrived, lost| {
        line.relays[A].handle_link_report(Peer(1), LinkReport { arrived, lost, round_trip: None });
    };
    let mut pair = Line::pair(Config::new(Profile::Default));

    report(&mut pair, 32, 0);
    assert_eq!(copies(&mut pair, 0), 0);
    report(&mut pair, 8, 24);
    assert_eq!(copies(&mut pair, 1), 0, "a packet has arrived");

    let mut pair = Line::pair(Config::new(Profile::Default));
    report(&mut pair, 32, 0);
    report(&mut pair, 0, 0);
    assert_eq!(copies(&mut pair, 0), 1, "nothing is known of the link any more");

    let mut pair = Line::pair(Config::new(Profile::Default));
    report(&mut pair, 16, 16);
    assert!(copies(&mut pair, 0) > 1, "it is known to be lossy");
}

/// While a link is busy, nobody strikes such flows off the list.
#[test]
fn flows_with_nothing_under_way_keep_no_segment_from_being_sent_twice() {
    let mut answered = Answered::new(Config::new(Profile::Default));
    let give = |answered: &mut Answered, connection: u16, seq: u32| {
        let mut packet = segment(seq, 100, 0);
        packet[20..22].copy_from_slice(&connection.to_be_bytes());
        answered.relay.handle_packet(answered.now, Peer(1), &packet).unwrap();
        answered.send().unwrap()
    };
    for connection in 1..100 {
        // One of three is lost.
        let (flow, first, ..) = give(&mut answered, connection, 0);
        let (_, second, name, _) = give(&mut answered, connection, 100);
        answered.now += Duration::from_millis(10);
        answered.hear(flow, first, name);
        let (_, _, name, _) = answered.send().unwrap();
        answered.now += Duration::from_millis(10);
        answered.hear(flow, wire::Seq(second.0.wrapping_add(1)), name);
    }

    let (flow, ..) = give(&mut answered, 100, 0);
    answered.now += Duration::from_millis(5);

    let copy = answered.send().expect("a copy");
    assert_eq!(copy.0, flow);
}

#[test]
fn a_repair_makes_a_loss_good_without_a_round_trip() {
    let mut pair = Line::pair(Config::new(Profile::Default));
    for number in 0..8 {
        let packet = segment(number * 100, 100, 0);
        pair.give(&packet);
    }

    pair.run(|sent| Fate::lost_if(sent.number == 2));

    let (a, b) = (pair.relays[A].stats(), pair.relays[B].stats());
    assert_eq!((b.received.packets_recovered, a.sent.data_repeated), (1, 0), "{a:?} {b:?}");
    assert_eq!(pair.delivered.len(), 8);
    let last = pair.delivered_at.last().unwrap();
    assert!(
        *last < 10 * SLOT + DELAY + SLOT,
        "the repair goes out right behind the burst: {last:?}"
    );
}

#[test]
fn datagrams_wait_for_nothing_and_are_sent_once() {
    let mut pair = Line::pair(Config::new(Profile::Default));
    pair.send(0..5);

    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.relays[A].stats().sent.data_sent, 5);
}

#[test]
fn an_acknowledgement_carries_older_ones_over_a_lossy_link() {
    let mut pair = Line::pair(quiet(Profile::Default));
    for number in 1..=4 {
        let packet = acknowledgement(number * 100);
        pair.give(&packet);
    }

    pair.run(|sent| Fate::lost_if(sent.number < 3));

    let numbers: Vec<u32> = pair.delivered.iter().map(|it| number_acknowledged(it)).collect();
    assert_eq!(numbers, [100, 200, 300, 400]);
    assert_eq!(pair.relays[A].stats().sent.data_repeated, 0);
    assert_eq!(pair.relays[B].stats().received.packets_recovered, 3);
}

#[test]
fn a_superseded_acknowledgement_is_not_sent_again() {
    let mut pair = Line::pair(quiet(Profile::Default));
    for number in 1..=9 {
        let packet = acknowledgement(number * 100);
        pair.give(&packet);
    }

    // More are lost than one carries.
    pair.run(|sent| Fate::lost_if(sent.number < 8));

    assert_eq!(pair.relays[A].stats().sent.data_repeated, 0);
    assert_eq!(pair.relays[A].stats().sent.data_superseded, 5);
    assert_eq!(pair.delivered.last().map(|last| number_acknowledged(last)), Some(900));
    assert_eq!(pair.relays[A].stats().packets_held, 0);
}

#[test]
fn each_lone_segment_is_copied_on_a_lossy_link() {
    let mut pair = Line::pair(Config::new(Profile::Default));
    let report = LinkReport { arrived: 16, lost: 16, round_trip: None };
    pair.relays[A].handle_link_report(Peer(1), report);

    for number in 0..3 {
        let before = pair.relays[A].stats().sent.data_spare;
        pair.give(&segment(number * 100, 100, 0));
        pair.run(|_| Fate::ARRIVES);

        assert!(pair.relays[A].stats().sent.data_spare > before, "{number}");
    }
}

/// Eight segments that fill packets, on a link of which nothing is known.
#[test]
fn segments_that_leave_no_room_for_a_repair_are_copied() {
    let mut pair = Line::pair(Config::new(Profile::Default));
    for number in 0..8 {
        pair.give(&segment(number * 1_448, 1_448, 0));
    }

    pair.run(|_| Fate::ARRIVES);

    let sent = pair.relays[A].stats().sent;
    assert!(sent.data_spare > 0 && sent.repairs_sent == 0, "{sent:?}");
}

/// An acknowledgement that rides on a later one takes its part out of a repair, and leaves the lost segment.
#[test]
fn an_acknowledgement_that_comes_on_a_later_one_makes_a_repair_useful() {
    let mut node = Arrivals::new(Config { hold: Duration::ZERO, ..quiet(Profile::Default) });
    let lost = [segment(100, 100, ACK), acknowledgement(100)];
    let later = acknowledgement(200);
    node.bring(&segment(0, 100, ACK));
    node.bring_repair(0, &[(1, &lost[0]), (2, &lost[1])]);
    node.restored();
    let mut older = Vec::new();
    assert!(wire::push_older(1, &lost[1][20..], &mut older));

    let (seq, outstanding) = (wire::Seq(3), Some(2));
    let rides = wire::Data { seq, outstanding, older: wire::older(&older), ..data(&later) };
    node.bring_as(rides, &later);

    let mut restored = node.restored();
    restored.sort();
    let mut expected = vec![lost[0].clone(), lost[1].clone(), later];
    expected.sort();
    assert_eq!(restored, expected);
    assert_eq!(node.relay.stats().received.packets_recovered, 2);
}

/// A link that loses packets now and then, one by one, needs few repairs.
#[test]
fn single_losses_cost_few_repairs() {
    let mut pair = Line::pair(Config::new(Profile::Default));
    let mut count = 0;
    for burst in 0..60 {
        for number in 0..8 {
            pair.give(&segment((burst * 8 + number) * 100, 100, 0));
        }
        pair.run_for(Duration::from_secs(1), |sent| {
            count += u32::from(sent.is_data());
            Fate::lost_if(sent.is_data() && count % 10 == 9)
        });
    }

    let repairs = pair.relays[A].stats().sent.repairs_sent;
    assert!((60..=60 * 7).contains(&repairs), "{repairs} for 60 times 8 segments");
}

//! What is sent again, when, how often, and how much may fly.

use super::*;

#[test]
fn a_flow_that_is_not_known_is_called_so_and_says_where_it_begins() {
    let mut pair = Line::pair(quiet(Profile::Default));
    pair.send(0..4);
    pair.run_for(SLOT * 40, |_| Fate::ARRIVES);

    pair.restart(B, false);
    pair.send(4..8);
    let first = pair.sent;
    pair.run(|sent| Fate::lost_if(sent.number == first));

    assert_eq!(pair.order().len(), 8);
    assert!(pair.relays[B].stats().received.data_stray > 0);
    assert!(pair.between(B, A).flat_map(Sent::acks).any(|ack| ack.is_unknown));
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    let mut node = Answered::new(quiet(Profile::Default));
    for number in 0..3 {
        let packet = datagram("10.0.0.1:1", "10.9.0.2:2", number);
        node.relay.handle_packet(node.now, Peer(1), &packet).unwrap();
    }
    let sent: Vec<_> = std::iter::from_fn(|| node.send()).collect();

    for ahead in [1, 100, 30_000] {
        node.hear(sent[0].0, wire::Seq(sent[2].1.0 + 1 + ahead), sent[0].2);
    }

    assert_eq!(node.relay.stats().sent.acks_absurd, 3);
    assert_eq!(node.relay.stats().packets_held, 3);
}

#[test]
fn nothing_goes_out_more_than_twice_in_the_first_second_while_no_round_trip_is_known() {
    for config in [quiet(Profile::Default), Config::new(Profile::Default)] {
        let mut pair = Line::pair(config);
        pair.give(&segment(0, 0, SYN));

        pair.run_for(Duration::from_millis(999), |_| Fate::LOST);

        assert_eq!(pair.sent, 2);
    }
}

#[test]
fn ours_repeats_a_packet_as_soon_as_a_later_one_is_acknowledged() {
    let mut pair = Line::pair(quiet(Profile::Default));
    pair.send(0..4);

    pair.run(|sent| Fate::lost_if(sent.is_data() && sent.number == 0));

    assert_eq!(pair.order(), [1, 2, 3, 0]);
    assert_eq!(pair.relays[A].stats().sent.data_repeated, 1);
    // Overtaken at 70 ms; the acknowledgement waits 20 ms and takes 50; then 50 more.
    assert!(pair.delivered_at[3] < Duration::from_millis(250), "{:?}", pair.delivered_at);
}

#[test]
fn the_seed_waits_for_its_timer() {
    let mut pair = Line::pair(quiet(Profile::Paper));
    pair.send(0..4);

    pair.run(|sent| Fate::lost_if(sent.is_data() && sent.number == 0));

    assert_eq!(pair.order(), [1, 2, 3, 0]);
    assert!(pair.delivered_at[3] > Duration::from_millis(280), "{:?}", pair.delivered_at);
}

#[test]
fn the_last_packet_of_a_burst_is_probed_for() {
    let mut pair = Line::pair(quiet(Profile::Default));
    pair.send(0..10);
    pair.run(|_| Fate::ARRIVES);
    let start = pair.now;
    pair.send(10..12);

    let first = pair.sent;
    pair.run(|sent| Fate::lost_if(sent.is_data() && sent.number == first + 1));

    assert_eq!(pair.order(), (0..12).collect::<Vec<_>>());
    let took = pair.delivered_at[11] - start.since(Time::ZERO);
    assert!(took < 3 * 2 * DELAY + SLOT * 3, "{took:?}");
}

#[test]
fn a_packet_is_sent_r_times_more_and_no_oftener() {
    for profile in [Profile::Default, Profile::Paper] {
        let mut pair = Line::pair(Config { retries: 3, ..quiet(profile) });
        pair.send(0..1);

        pair.run(|_| Fate::LOST);

        assert_eq!(pair.relays[A].stats().sent.data_sent, 4, "{profile:?}");
        assert_eq!(pair.relays[A].stats().sent.packets_abandoned, 1);
    }
}

#[test]
fn no_more_than_w_fly() {
    for (profile, window) in [(Profile::Default, (5, 5)), (Profile::Paper, (5, 5))] {
        let mut pair = Line::pair(Config { window, ..quiet(profile) });
        pair.send(0..40);
        let mut out = Vec::new();

        let flying =
            std::iter::from_fn(|| pair.relays[A].poll_transmit(Time::ZERO, Link(0), &mut out));

        assert_eq!(flying.count(), 5, "{profile:?}");
    }
}

#[test]
fn a_packet_given_up_does_not_freeze_the_acknowledgements() {
    for profile in [Profile::Default, Profile::Paper] {
        let mut pair = Line::pair(Config { retries: 2, queue: 1_000, ..quiet(profile) });
        // More packets than there are numbers before and behind the one that never comes.
        pair.send(0..600);
        let is_lost = |sent: &Sent| sent.is_data() && number_of(&restored(sent)) == 300;

        pair.run(|sent| Fate::lost_if(is_lost(sent)));

        assert_eq!(pair.log.iter().filter(|&sent| is_lost(sent)).count(), 3, "{profile:?}");
        assert_eq!(pair.relays[A].stats().sent.packets_abandoned, 1);
        assert_eq!(pair.relays[A].poll_event(), Some(Event::GaveUp { peer: Peer(1), packets: 1 }));
        let mut numbers = pair.order();
        numbers.sort_unstable();
        let expected: Vec<u32> = (0..600).filter(|&number| number != 300).collect();
        assert_eq!(numbers, expected, "{profile:?}");
        let after = pair.between(B, A).last().unwrap();
        let ack = after.acks().last().unwrap();
        let last = pair.between(A, B).last().unwrap().data().unwrap().seq;
        let layout = profile.layout();
        let next = layout.low(layout.complete(last, 1 << 32) + 1);
        assert_eq!((ack.next, ack.intervals.len()), (next, 0), "{profile:?}");
    }
}

/// The datagram in a transmission, without its header's changes.
fn restored(sent: &Sent) -> Vec<u8> {
    let data = sent.data().unwrap();
    [&sent.octets[..20], data.payload].concat()
}

#[test]
fn no_number_is_further_ahead_of_the_lowest_outstanding_one_than_the_wire_can_say() {
    let mut pair = Line::pair(Config { queue: 20_000, ..quiet(Profile::Default) });
    for number in 1..17_000 {
        pair.give(&acknowledgement(number * 100));
    }
    let mut out = Vec::new();

    // W does not hold acknowledgements.
    let flying = std::iter::from_fn(|| pair.relays[A].poll_transmit(Time::ZERO, Link(0), &mut out));

    assert_eq!(flying.count(), wire::Layout::Wide.span());
}

#[test]
fn the_packet_that_fills_the_window_asks_for_an_acknowledgement() {
    for profile in [Profile::Default, Profile::Paper] {
        let mut pair = Line::pair(Config { window: (5, 5), ..quiet(profile) });
        pair.send(0..7);

        pair.run_for(SLOT * 5, |_| Fate::ARRIVES);

        let asks: Vec<bool> =
            pair.between(A, B).map(|sent| sent.data().unwrap().wants_ack).collect();
        assert_eq!(asks, [false, false, false, false, true], "{profile:?}");
    }
}

#[test]
fn the_seed_asks_for_an_acknowledgement_when_nothing_is_left_to_send() {
    let mut pair = Line::pair(quiet(Profile::Paper));
    pair.send(0..3);

    pair.run(|_| Fate::ARRIVES);

    let asks: Vec<bool> = pair.between(A, B).map(|sent| sent.data().unwrap().wants_ack).collect();
    assert_eq!(asks, [false, false, true]);
}

#[test]
fn a_repeat_after_silence_asks_for_an_acknowledgement_and_gets_it_at_once() {
    let mut pair = Line::pair(quiet(Profile::Default));
    pair.send(0..1);

    pair.run(|sent| Fate::lost_if(sent.number == 0));

    let sent: Vec<&Sent> = pair.between(A, B).collect();
    let asks: Vec<bool> = sent.iter().map(|sent| sent.data().unwrap().wants_ack).collect();
    assert_eq!(asks, [false, true]);
    assert_eq!(pair.between(B, A).next().unwrap().at, sent[1].at + SLOT + DELAY);
}

#[test]
fn an_acknowledgement_that_nobody_asks_for_waits() {
    let mut pair = Line::pair(quiet(Profile::Default));
    pair.send(0..1);

    pair.run(|_| Fate::ARRIVES);

    let (data, ack) = (pair.between(A, B).next().unwrap(), pair.between(B, A).next().unwrap());
    assert!(!data.data().unwrap().wants_ack);
    assert!(ack.at > data.at + SLOT + DELAY, "{ack:?}");
}

#[test]
fn a_link_that_does_not_keep_order_is_learnt_and_its_late_packets_are_not_repeated() {
    let mut pair =
        Line::pair(Config { queue: 10_000, window: (64, 64), ..quiet(Profile::Default) });
    let late = Fate { late: SLOT * 4, ..Fate::ARRIVES };
    let fate = |sent: &Sent| match sent.data() {
        Some(data)
            if sent.is_data()
                && data.repeat.is_none()
                && Rng::stream(sent.number as u64, "late").bits().is_multiple_of(8) =>
        {
            late
        }
        _ => Fate::ARRIVES,
    };

    let mut repeats = Vec::new();
    for _ in 0..8 {
        let before = pair.relays[A].stats().sent.data_repeated;
        pair.send(0..500);
        pair.run_for(SLOT * 600, fate);
        repeats.push(pair.relays[A].stats().sent.data_repeated - before);
    }

    assert_eq!(pair.delivered.len(), 4_000);
    assert!(repeats[0] > 0, "the first are taken for lost: {repeats:?}");
    assert_eq!(repeats[7], 0, "{repeats:?}");
}

#[test]
fn an_echo_of_the_first_transmission_does_not_stand_for_the_newest() {
    for (is_first, repeats) in [(true, 0), (false, 2)] {
        let mut node = Answered::new(quiet(Profile::Default));
        for number in 0..3 {
            let packet = datagram("10.0.0.1:1", "10.9.0.2:2", number);
            node.relay.handle_packet(node.now, Peer(1), &packet).unwrap();
        }
        let first: Vec<_> = std::iter::from_fn(|| node.send()).collect();
        node.expire();
        let second: Vec<_> = std::iter::from_fn(|| node.send()).collect();
        assert_eq!((first.len(), second.len()), (3, 3), "all of them are sent again");

        // The last packet came; both before it were sent before its second copy.
        let flow = first[0].0;
        node.now += DELAY;
        node.hear(flow, first[0].1, if is_first { first[2].2 } else { second[2].2 });

        let third = std::iter::from_fn(|| node.send()).count();
        assert_eq!(third, repeats, "{is_first}");
    }
}

#[test]
fn an_echo_names_the_transmission_that_arrived_last() {
    let mut node = Arrivals::new(quiet(Profile::Default));
    let packet = datagram("10.0.0.1:1", "10.9.0.2:2", 0);
    let arrivals = [(5, None), (7, None), (6, Some(2)), (5, Some(40_000))];
    for (seq, repeat) in arrivals {
        let (seq, outstanding) = (wire::Seq(seq), Some(seq - 5));
        let repeat = repeat.map(wire::Seq);
        let brought = wire::Data { seq, repeat, outstanding, wants_ack: true, ..data(&packet) };
        node.bring_as(brought, &packet);

        let last = node.answer().unwrap().last;

        let name = repeat.map_or(wire::Transmission::First(seq), wire::Transmission::Repeat);
        assert_eq!(last, Some(name));
    }
}

#[test]
fn to_the_seed_a_number_proves_that_the_one_w_before_it_is_settled() {
    let window = 5;
    let mut node = Arrivals::new(Config { window: (window, window), ..quiet(Profile::Paper) });
    let packet = datagram("10.0.0.1:1", "10.9.0.2:2", 0);

    let mut next = Vec::new();
    for seq in [0, window, window + 1, window + 2] {
        let seq = wire::Seq(seq);
        node.bring_as(wire::Data { seq, wants_ack: true, ..data(&packet) }, &packet);
        next.push(node.answer().unwrap().next.0);
    }

    assert_eq!(next, [1, 1, 2, 3]);
}

#[test]
fn a_flow_that_begins_in_the_middle_misses_only_what_may_still_come() {
    let window = 5;
    for (profile, outstanding, next) in
        [(Profile::Default, 3, 97), (Profile::Default, 0, 101), (Profile::Paper, 0, 96)]
    {
        let outstanding = Some(outstanding);
        let mut node = Arrivals::new(Config { window: (window, window), ..quiet(profile) });
        let packet = datagram("10.0.0.1:1", "10.9.0.2:2", 0);
        let seq = wire::Seq(100);

        let brought = wire::Data { seq, outstanding, wants_ack: true, ..data(&packet) };
        node.bring_as(brought, &packet);

        assert_eq!(node.answer().unwrap().next.0, next, "{profile:?} {outstanding:?}");
    }
}

#[test]
fn only_a_link_that_loses_next_to_nothing_lets_acknowledgements_wait_for_long() {
    for (one_in, is_patient) in [(0, true), (5, false)] {
        let mut pair = Line::pair(quiet(Profile::Default));
        pair.send(0..150);

        pair.run(|sent| Fate::lost_if(one_in > 0 && sent.is_data() && sent.number % one_in == 1));

        let patient: Vec<bool> =
            pair.between(A, B).map(|sent| sent.data().unwrap().is_patient).collect();
        assert!(!patient[0], "nothing is known of the link at first");
        assert_eq!(patient.last(), Some(&is_patient), "one of {one_in} is lost");
    }
}

/// Without an echo, the newest packet that an acknowledgement names first tells how long it took.
#[test]
fn the_seed_times_the_packets_that_are_acknowledged() {
    let mut pair = Line::pair(quiet(Profile::Paper));
    assert_eq!(pair.relays[A].usual_round_trip(Peer(1)), Duration::from_secs(1));
    pair.send(0..1);
    pair.run_for(DELAY * 2, |_| Fate::ARRIVES);
    // This one is under way when the first is acknowledged.
    pair.send(1..2);

    pair.run_for(DELAY, |_| Fate::ARRIVES);

    assert_eq!(pair.relays[A].usual_round_trip(Peer(1)), 2 * (DELAY + SLOT));
}

//! A neighbour that is not heard.

use super::*;

#[test]
fn after_an_outage_of_any_length_packets_arrive_within_a_second() {
    for outage in [1, 10, 60, 600] {
        let mut pair = Line::pair(Config::new(Profile::Default));
        for seq in 0..8 {
            pair.give(&segment(seq * 100, 100, 0));
        }
        pair.until = Some(Time::ZERO + Duration::from_secs(outage));
        pair.run(|_| Fate::LOST);
        let sent = pair.sent;

        pair.until = None;
        pair.run(|_| Fate::ARRIVES);

        assert_eq!(pair.delivered.len(), 8, "{outage} s");
        let last = pair.delivered_at[7];
        assert!(last < Duration::from_secs(outage + 1), "{outage} s: {last:?}");
        assert_eq!(pair.relays[A].stats().sent.packets_abandoned, 0);
        // And the silence was not filled with repeats.
        assert!(sent as u64 <= 60 + 3 * outage, "{outage} s: {sent}");
    }
}

#[test]
fn only_one_flow_asks_a_silent_peer() {
    let mut pair = Line::pair(quiet(Profile::Default));
    for port in 1..=20 {
        let packet = datagram(&format!("10.0.0.1:{port}"), "10.9.0.2:2", 0);
        pair.give(&packet);
    }
    pair.until = Some(Time::ZERO + Duration::from_secs(10));
    pair.run(|_| Fate::LOST);
    let sent = pair.sent;

    pair.until = Some(Time::ZERO + Duration::from_secs(20));
    pair.run(|_| Fate::LOST);

    assert!(pair.sent - sent <= 22, "{}", pair.sent - sent);
}

#[test]
fn after_a_silence_four_packets_go_out_again_and_then_eight() {
    // A lone packet as often as several, where idle time is used.
    for (flying, config) in [(1, Config::new(Profile::Default)), (20, quiet(Profile::Default))] {
        let mut pair = Line::pair(config);
        for number in 0..4 {
            pair.give(&segment(number * 100, 100, 0));
            pair.run(|_| Fate::ARRIVES);
        }
        for number in 4..4 + flying {
            pair.give(&segment(number * 100, 100, 0));
        }

        let (mut count, mut last, mut runs) = (0, pair.now, Vec::new());
        while runs.len() < 3 {
            let before = pair.sent;
            pair.run_for(SLOT, |_| Fate::LOST);
            count += pair.sent - before;
            if pair.sent > before {
                last = pair.now;
            } else if count > 0 && pair.now.since(last) > 10 * SLOT {
                runs.push(std::mem::take(&mut count));
            }
        }

        assert_eq!(runs[1..], [4, 8], "{flying}");
    }
}

/// Its first flight keeps a slow radio busy for hundreds of the round trips that are known.
#[test]
fn while_only_short_packets_were_timed_long_ones_are_repeated_one_by_one_and_ever_more_seldom() {
    let repeated = |is_timed: bool| {
        let mut pair = Line::pair(quiet(Profile::Default));
        let first = if is_timed { 1_000 } else { 20 };
        pair.give(&segment(0, first, ACK));
        pair.run(|_| Fate::ARRIVES);
        for number in 0..10 {
            pair.give(&segment(1_000 * (1 + number), 1_000, ACK));
        }

        [1, 9].map(|seconds| {
            pair.run_for(Duration::from_secs(seconds), |_| Fate::LOST);
            pair.relays[A].stats().sent.data_repeated
        })
    };

    let ([early, late], [timed, _]) = (repeated(false), repeated(true));

    assert!((1..=2).contains(&early) && late <= 5, "{early}, then {late}");
    assert!(timed >= 12, "{timed}");
}

/// Otherwise the next flight would count as the first.
#[test]
fn an_answer_to_the_repeat_of_a_long_packet_times_it_too() {
    let mut pair = Line::pair(quiet(Profile::Default));
    pair.give(&segment(0, 1_000, ACK));
    pair.run(|sent| if sent.number == 0 { Fate::LOST } else { Fate::ARRIVES });
    assert_eq!((pair.delivered.len(), pair.relays[A].stats().sent.data_repeated), (1, 1));

    for number in 1..11 {
        pair.give(&segment(1_000 * number, 1_000, ACK));
    }
    pair.run_for(Duration::from_secs(1), |_| Fate::LOST);

    let repeated = pair.relays[A].stats().sent.data_repeated - 1;
    assert!(repeated >= 12, "{repeated}");
}

#[test]
fn what_waited_for_the_neighbour_to_be_heard_is_not_thinned_and_what_comes_later_is() {
    let config = quiet(Profile::Default);
    let mut pair = Line::new(&[config; 2], &[5 * SLOT]);
    let mut thinned_of = |packets| {
        for number in 0..packets {
            let port = 1 + number % 10;
            pair.give(&datagram(&format!("10.0.0.1:{port}"), "10.9.0.2:2", number));
        }
        let before = pair.relays[A].stats().sent.packets_thinned;
        pair.run(|_| Fate::ARRIVES);
        pair.relays[A].stats().sent.packets_thinned - before
    };

    assert_eq!(thinned_of(200), 0);
    assert!(thinned_of(200) > 0);
}

#[test]
fn what_several_flows_notice_at_once_is_one_silence() {
    let mut pair = Line::pair(quiet(Profile::Default));
    for port in 1..=20 {
        pair.give(&datagram(&format!("10.0.0.1:{port}"), "10.9.0.2:2", 0));
    }

    // Longer than the first silence, and shorter than six of them.
    pair.run_for(Duration::from_millis(1_000), |_| Fate::LOST);
    let sent = pair.sent;
    pair.run_for(Duration::from_millis(1_000), |_| Fate::LOST);

    // A peer taken to be away would be asked by one packet.
    assert!(pair.sent - sent >= 20, "{}", pair.sent - sent);
}

#[test]
fn a_flow_that_goes_on_sending_to_a_neighbour_that_has_gone_stops_soon() {
    let mut pair = Line::pair(roomy());
    for number in 0..4 {
        pair.give(&segment(number * 100, 100, ACK));
        pair.run(|_| Fate::ARRIVES);
    }

    let sent = pair.sent;
    for number in 4..204 {
        pair.give(&segment(number * 100, 100, ACK));
        pair.run_for(SLOT, |_| Fate::LOST);
    }

    assert!(pair.sent - sent < 100, "{}", pair.sent - sent);
}

#[test]
fn behind_many_packets_that_nobody_answers_only_acknowledgements_go_out() {
    let mut pair = Line::pair(roomy());
    for number in 0..20 {
        pair.give(&segment(number * 100, 100, ACK));
    }
    pair.run_for(Duration::from_secs(2), |_| Fate::LOST);

    let goes = |pair: &mut Line, packet: &[u8]| {
        let number = pair.relays[A].stats().sent;
        pair.give(packet);
        pair.run_for(SLOT, |_| Fate::LOST);
        let sent = pair.relays[A].stats().sent;
        sent.data_sent - sent.data_repeated > number.data_sent - number.data_repeated
    };

    assert!(goes(&mut pair, &acknowledgement(100)));
    assert!(!goes(&mut pair, &segment(2_000, 100, ACK)));
}

#[test]
fn of_a_long_packet_a_neighbour_that_has_not_answered_gets_one_copy_before_a_silence() {
    for (len, is_often) in [(1_000, false), (100, true)] {
        let mut pair = Line::pair(Config::new(Profile::Default));
        let report = LinkReport { arrived: 4, lost: 4, round_trip: Some(4 * SLOT) };
        pair.relays[A].handle_link_report(Peer(1), report);
        pair.give(&segment(0, len, ACK));

        pair.run_for(Duration::from_millis(100), |_| Fate::LOST);

        let copies = pair.relays[A].stats().sent.data_spare;
        assert_eq!(copies > 1, is_often, "{len}: {copies}");
    }
}

/// One flow asks whether the peer is back, and all of them go on when it is.
#[test]
fn all_flows_go_on_as_soon_as_a_peer_is_back() {
    let slow = Duration::from_millis(200);
    let mut pair = Line::new(&[quiet(Profile::Default); 2], &[slow]);
    pair.send(0..1);
    pair.run_for(Duration::from_secs(2), |_| Fate::ARRIVES);
    for flow in 1..=5 {
        pair.give(&datagram(&format!("10.0.0.1:{flow}"), "10.9.0.2:2", 0));
    }
    pair.run_for(Duration::from_secs(20), |_| Fate::LOST);

    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.delivered.len(), 6);
    let took = pair.delivered_at[5] - pair.delivered_at[1];
    // The answer to the first, and one slot for each of the others.
    let most = (slow + DELAY) + (4 * slow + DELAY) + SLOT;
    assert!(took < most, "{took:?}, not {most:?}");
}

/// Of a repeat the neighbour has nothing new to acknowledge, but it is there.
#[test]
fn an_answer_that_brings_nothing_new_ends_the_growth_of_the_timer() {
    let mut node = Answered::new(quiet(Profile::Default));
    node.relay.handle_packet(node.now, Peer(1), &datagram("10.0.0.1:1", "10.9.0.2:2", 0)).unwrap();
    node.relay.handle_packet(node.now, Peer(1), &datagram("10.0.0.1:1", "10.9.0.2:2", 1)).unwrap();
    let (flow, first, ..) = node.send().unwrap();
    let (_, second, name, _) = node.send().unwrap();
    node.now += DELAY;
    node.hear(flow, second, name);
    let first_wait = node.relay.next_timeout().unwrap().since(node.now);
    assert_eq!(first.0.wrapping_add(1), second.0);

    let mut name = name;
    for _ in 0..3 {
        node.expire();
        while let Some((_, _, of, _)) = node.send() {
            name = of;
        }
    }
    node.now += DELAY;
    node.hear(flow, second, name);
    while node.send().is_some() {}

    let wait = node.relay.next_timeout().unwrap().since(node.now);
    assert!(wait <= first_wait * 3 / 2, "{wait:?}, {first_wait:?} at first");
}

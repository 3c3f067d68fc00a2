//! Turns of the neighbours on a link, and of the flows to a neighbour.

use super::*;

/// A link for packets of 1,300 octets is busy with ten flows of twenty packets each.
fn busy() -> Line {
    let mut pair = Line::pair(roomy());
    for flow in 1..=10 {
        for number in 0..20 {
            pair.give(&long_datagram(&format!("10.0.0.1:{flow}"), "10.9.0.2:2", number, 1_300));
        }
    }
    pair.run_for(SLOT * 15, |_| Fate::ARRIVES);
    pair
}

/// The places, among the packets that A sends from now on, of the datagrams with these numbers.
fn places(pair: &mut Line, numbers: std::ops::Range<u32>) -> Vec<usize> {
    let before = pair.between(A, B).count();
    pair.run(|_| Fate::ARRIVES);
    // The number stands behind a header of UDP.
    let number = |sent: &Sent| {
        let octets = sent.data()?.payload.get(8..12)?.try_into().ok()?;
        Some(u32::from_be_bytes(octets))
    };
    let sent: Vec<Option<u32>> = pair.between(A, B).skip(before).map(number).collect();
    numbers
        .map(|number| sent.iter().position(|&it| it == Some(number)).expect("it is sent"))
        .collect()
}

#[test]
fn a_flow_that_had_nothing_to_send_goes_first() {
    let mut pair = busy();
    pair.give(&datagram("10.0.0.1:77", "10.9.0.2:2", 7_000));

    assert_eq!(places(&mut pair, 7_000..7_001), [0]);
}

#[test]
fn a_new_flow_has_one_turn_before_the_others_and_then_waits_like_them() {
    let mut pair = busy();
    for number in 7_000..7_003 {
        pair.give(&long_datagram("10.0.0.1:77", "10.9.0.2:2", number, 1_300));
    }

    let places = places(&mut pair, 7_000..7_003);

    assert_eq!(places[0], 0);
    assert!((9..=11).contains(&(places[1] - places[0])), "{places:?}");
    assert!((9..=11).contains(&(places[2] - places[1])), "{places:?}");
}

#[test]
fn neighbours_on_a_link_are_sent_as_many_octets() {
    let mut relay = Relay::new(roomy(), Rng::stream(1, "hbh"));
    for (neighbour, count, len) in [(1, 20, 1_300), (2, 80, 200)] {
        relay.add_peer(Peer(neighbour), peer_config(0));
        for number in 0..count {
            let packet = long_datagram("10.0.0.1:1", "10.9.0.2:2", number, len);
            relay.handle_packet(Time::ZERO, Peer(neighbour), &packet).unwrap();
        }
    }

    let (mut out, mut octets) = (Vec::new(), [0_usize; 2]);
    let mut most_apart = 0;
    while octets.iter().all(|sent| *sent < 15_000) {
        let Peer(neighbour) = relay.poll_transmit(Time::ZERO, Link(0), &mut out).unwrap();
        octets[usize::from(neighbour == 2)] += out.len();
        most_apart = most_apart.max(octets[0].abs_diff(octets[1]));
    }

    assert!(most_apart <= 3_000, "two packets of the greatest length: {most_apart} octets");
}

/// The queue behind A may be short, so what acknowledgements allow at once goes out over the round trip.
#[test]
fn long_packets_go_out_in_trains_and_follow_without_an_acknowledgement() {
    let fast = Duration::from_micros(1);
    let mut pair = Line::new(&[quiet(Profile::Default); 2], &[fast]);
    let long = |number| long_datagram("10.0.0.1:1", "10.9.0.2:2", number, 1_300);
    (0..40).for_each(|number| pair.give(&long(number)));
    pair.run_for(Duration::from_secs(1), |_| Fate::ARRIVES);
    let before = pair.between(A, B).count();

    (40..100).for_each(|number| pair.give(&long(number)));
    pair.run_for(DELAY / 50, |_| Fate::ARRIVES);
    let train = pair.between(A, B).count() - before;
    // No acknowledgement takes less than two delays.
    pair.run_for(DELAY, |_| Fate::ARRIVES);
    let all = pair.between(A, B).count() - before;

    assert!((10..=12).contains(&train), "{train}");
    assert!((40..60).contains(&all), "{all}");
}

/// A neighbour from which nothing has been heard is sent a train of long packets, and voice beside it.
#[test]
fn long_packets_that_must_wait_keep_no_short_ones_waiting() {
    let mut relay = Relay::new(Config::new(Profile::Default), Rng::stream(1, "hbh"));
    relay.add_peer(Peer(1), peer_config(0));
    for number in 0..40 {
        let packet = long_datagram("10.0.0.1:1", "10.9.0.2:2", number, 1_300);
        relay.handle_packet(Time::ZERO, Peer(1), &packet).unwrap();
    }
    let mut out = Vec::new();
    let mut sent = |relay: &mut Relay| {
        std::iter::from_fn(|| relay.poll_transmit(Time::ZERO, Link(0), &mut out)).count()
    };
    assert_eq!(sent(&mut relay), 16, "the first flight");

    for number in 0..60 {
        let packet = datagram("10.0.0.1:77", "10.9.0.2:2", number);
        relay.handle_packet(Time::ZERO, Peer(1), &packet).unwrap();
    }

    assert_eq!(sent(&mut relay), 64 - 16, "as many as the budget starts with");
}

/// TCP needs three packets behind a lost one to notice the loss without its timer (RFC 5681, 3.2).
#[test]
fn three_packets_of_a_flow_may_wait_for_long_and_the_first_of_four_is_dropped() {
    for (waiting, is_thinned) in [(3, false), (4, true)] {
        let slow = Duration::from_millis(100);
        let mut pair = Line::new(&[quiet(Profile::Default); 2], &[slow]);
        let mut given = [0; 10];
        for _ in 0..600 {
            let mut sent = [0; 10];
            for data in pair.between(A, B).filter_map(Sent::data) {
                // The lowest octet of the source port.
                sent[usize::from(data.payload[1])] += 1;
            }
            for (flow, given) in given.iter_mut().enumerate() {
                while *given < sent[flow] + waiting {
                    pair.give(&datagram(&format!("10.0.0.1:{}", 256 + flow), "10.9.0.2:2", 0));
                    *given += 1;
                }
            }
            pair.run_for(slow, |_| Fate::ARRIVES);
        }

        let thinned = pair.relays[A].stats().sent.packets_thinned;
        assert_eq!(thinned > 0, is_thinned, "{thinned} of queues of {waiting}");
    }
}

/// A slow link to a neighbour that has been heard.
fn slow() -> Line {
    let mut pair = Line::new(&[quiet(Profile::Default); 2], &[Duration::from_millis(100)]);
    pair.send(0..1);
    pair.run(|_| Fate::ARRIVES);
    pair
}

/// TCP that misses a segment sends it again, and if the repeat is lost too, waits for a timer that doubles each time.
#[test]
fn what_tcp_sends_again_is_not_dropped_however_long_it_waits() {
    let new: Vec<u32> = (0..20).map(|number| number * 100).collect();
    let behind_a_later_one = [&[100_000], &new[..]].concat();
    let twice = [&new[..], &new[..]].concat();
    for (seqs, is_thinned) in [(&new, true), (&behind_a_later_one, false), (&twice, false)] {
        let mut pair = slow();
        for seq in seqs {
            for flow in 0..10 {
                let mut packet = segment(*seq, 100, ACK);
                // The lowest octet of the source port.
                packet[21] = flow;
                pair.give(&packet);
            }
        }
        pair.run(|_| Fate::ARRIVES);

        let thinned = pair.relays[A].stats().sent.packets_thinned;
        assert_eq!(thinned > 0, is_thinned, "{thinned} of {} each", seqs.len());
    }
}

/// Where all packets of a flow wait for seconds, the answer of a sender to a drop is heard of as much later.
#[test]
fn a_flow_on_a_slow_link_is_not_dropped_from_again_before_its_sender_can_know() {
    let mut pair = slow();
    for number in 0..20 {
        for port in 1..=10 {
            pair.give(&datagram(&format!("10.0.0.1:{port}"), "10.9.0.2:2", number));
        }
    }
    pair.run(|_| Fate::ARRIVES);

    // At most one of each flow: what stood behind it leaves at the end.
    let thinned = pair.relays[A].stats().sent.packets_thinned;
    assert!((1..=10).contains(&thinned), "{thinned} of 200");
}

/// Its flow has had a turn for it, and at the last hop all of the flow behind it waits.
#[test]
fn what_the_link_lost_goes_before_new_packets_of_all_flows_and_costs_no_turn() {
    let mut pair = busy();
    let lost = pair.sent;
    pair.run(|sent| Fate::lost_if(sent.number == lost));

    let name = |sent: &Sent| sent.data().map(|data| (data.flow, data.seq, data.repeat.is_some()));
    let lost = pair.log.iter().find(|sent| sent.number == lost).unwrap();
    let (flow, seq, _) = name(lost).unwrap();
    let after: Vec<&Sent> = pair.between(A, B).filter(|sent| sent.at > lost.at).collect();
    let is_of_flow = |at: &usize| after[*at].data().is_some_and(|it| it.flow == flow);
    let of_flow: Vec<usize> = (0..after.len()).filter(is_of_flow).collect();
    let next = after[of_flow[0]];
    let repeat = after.iter().position(|sent| name(sent) == Some((flow, seq, true))).unwrap();
    let told = pair
        .between(B, A)
        .find(|sent| sent.at >= next.at + SLOT + DELAY && sent.acks().any(|ack| ack.flow == flow));
    let heard_at = told.unwrap().at + SLOT + DELAY;
    assert!(after[repeat].at <= heard_at + SLOT, "{:?} after {heard_at:?}", after[repeat].at);

    // Its new packets around the repeat are as close together as ever.
    let place = of_flow.iter().position(|&at| at == repeat).unwrap();
    assert!(of_flow[place + 1] - of_flow[place - 1] <= 11, "{of_flow:?} around {repeat}");
}

/// A whole flight may be lost at once.
#[test]
fn a_flow_that_had_nothing_to_send_goes_before_what_the_link_lost() {
    let mut pair = busy();
    let last = pair.sent + 30;
    pair.run_for(SLOT * 45, |sent| Fate::lost_if(sent.is_data() && sent.number < last));
    let before = pair.relays[A].stats().sent.data_repeated;
    pair.run_for(SLOT * 2, |_| Fate::ARRIVES);
    assert!(pair.relays[A].stats().sent.data_repeated > before, "it repeats now");

    pair.give(&datagram("10.0.0.1:77", "10.9.0.2:2", 7_000));

    assert_eq!(places(&mut pair, 7_000..7_001), [0]);
}

#[test]
fn a_flow_that_had_nothing_to_send_goes_first_also_behind_an_acknowledgement() {
    let mut node = Arrivals::new(roomy());
    let full = |flow: u16, number| {
        long_datagram(&format!("10.9.0.2:{flow}"), "10.0.0.1:1", number, 1_488 - 28)
    };
    let mut out = Vec::new();
    for flow in 1..=10 {
        for number in 0..5 {
            node.relay.handle_packet(node.now, Peer(0), &full(flow, number)).unwrap();
        }
    }
    for _ in 0..15 {
        assert!(node.relay.poll_transmit(node.now, Link(0), &mut out).is_some());
    }

    // An acknowledgement is due that does not fit beside it.
    let packet = datagram("10.0.0.1:1", "10.9.0.2:2", 0);
    node.bring_as(wire::Data { wants_ack: true, ..data(&packet) }, &packet);
    node.relay.handle_packet(node.now, Peer(0), &full(77, 7_000)).unwrap();

    assert!(node.answer().is_some(), "the acknowledgement");
    assert!(node.relay.poll_transmit(node.now, Link(0), &mut out).is_some());
    assert!(out.windows(4).any(|octets| octets == 7_000_u32.to_be_bytes()));
}

#[test]
fn a_sender_that_understands_marks_is_told_by_them_and_loses_nothing() {
    let mut pair = slow();
    for number in 0..15 {
        for port in 1..=10 {
            let mut packet = datagram(&format!("10.0.0.1:{port}"), "10.9.0.2:2", number);
            packet[1] = 0b10;
            rewrite_v4_checksum(&mut packet[..20]);
            pair.give(&packet);
        }
    }

    pair.run(|_| Fate::ARRIVES);

    let stats = pair.relays[A].stats();
    assert_eq!(pair.delivered.len(), 1 + 150);
    assert!(stats.intake.packets_marked > 0 && stats.sent.packets_thinned == 0, "{stats:?}");
}

//! TCP segments at the last hop.

use super::*;

#[test]
fn the_last_hop_puts_segments_in_order_and_gives_up_in_time() {
    let start = u32::MAX - 149;
    let mut arrivals = Arrivals::new(Config::new(Profile::Default));

    arrivals.bring(&segment(start, 100, 0));
    arrivals.bring(&segment(start.wrapping_add(200), 100, 0));
    assert_eq!(arrivals.restored_seqs(), [start]);

    arrivals.bring(&segment(start.wrapping_add(100), 100, 0));
    assert_eq!(arrivals.restored_seqs(), [start.wrapping_add(100), start.wrapping_add(200)]);

    arrivals.bring(&segment(start.wrapping_add(500), 100, 0));
    assert_eq!(arrivals.restored_seqs(), []);
    arrivals.wait(Duration::from_secs(4));
    assert_eq!(arrivals.restored_seqs(), [start.wrapping_add(500)]);
    assert_eq!(arrivals.relay.stats().received.gaps_given_up, 1);
}

/// TCP may send the beginning of a segment again, and all of it with more behind.
#[test]
fn of_two_segments_from_the_same_place_the_longer_one_is_kept_back() {
    let mut arrivals = Arrivals::new(Config::new(Profile::Default));
    arrivals.bring(&segment(1_000, 100, 0));
    arrivals.restored();
    for (seq, len) in [(1_200, 100), (1_200, 4), (1_300, 4), (1_300, 100)] {
        arrivals.bring(&segment(seq, len, 0));
    }

    arrivals.bring(&segment(1_100, 100, 0));

    let whole = [1_100, 1_200, 1_300].map(|seq| segment(seq, 100, 0));
    assert_eq!(arrivals.restored(), whole);
    assert_eq!(arrivals.relay.stats().received.segments_contained, 2);
}

/// While a neighbour is gone, the kernel of its host forwards by plain IP, past HBH.
#[test]
fn what_passed_by_plain_ip_while_a_neighbour_was_gone_is_no_gap_when_it_is_back() {
    let mut arrivals = Arrivals::new(Config::new(Profile::Default));
    arrivals.bring(&segment(1_000, 100, 0));
    arrivals.relay.remove_peer(Peer(0), |_, _| {});
    arrivals.relay.add_peer(Peer(0), peer_config(0));

    arrivals.bring(&segment(1_300, 100, 0));
    assert_eq!(arrivals.restored_seqs(), [1_000, 1_300]);

    // From there on, order is kept as before.
    arrivals.bring(&segment(1_500, 100, 0));
    arrivals.bring(&segment(1_400, 100, 0));
    assert_eq!(arrivals.restored_seqs(), [1_400, 1_500]);
}

#[test]
fn a_neighbour_that_is_gone_fills_no_gap_though_another_goes_on() {
    let mut arrivals = Arrivals::new(Config::new(Profile::Default));
    arrivals.relay.add_peer(Peer(1), peer_config(1));
    arrivals.bring(&segment(1_000, 100, 0));
    arrivals.bring(&segment(1_300, 100, 0));
    arrivals.from = Peer(1);
    arrivals.bring(&segment(1_500, 100, 0));
    assert_eq!(arrivals.restored_seqs(), [1_000]);

    arrivals.relay.remove_peer(Peer(0), |_, _| {});

    assert_eq!(arrivals.restored_seqs(), [1_300, 1_500]);
}

#[test]
fn what_comes_back_to_be_sent_on_is_not_put_in_order() {
    let mut arrivals = Arrivals::new(Config::new(Profile::Default));
    arrivals.relay.add_peer(Peer(2), peer_config(1));
    arrivals.bring(&segment(1_000, 100, 0));
    arrivals.bring(&segment(1_200, 100, 0));
    assert_eq!(arrivals.restored_seqs(), [1_000]);

    // What is kept back goes at once when the flow turns out to go on.
    arrivals.relay.handle_packet(Time::ZERO, Peer(2), &segment(1_000, 100, 0)).unwrap();
    assert_eq!(arrivals.restored_seqs(), [1_200]);
    arrivals.bring(&segment(1_400, 100, 0));
    assert_eq!(arrivals.restored_seqs(), [1_400]);

    // Once nothing comes back any more, the flow leaves HBH here.
    for number in 0..80 {
        arrivals.bring(&segment(2_000 + number * 100, 100, 0));
    }
    arrivals.restored_seqs();
    arrivals.bring(&segment(20_000, 100, 0));
    assert_eq!(arrivals.restored_seqs(), []);
}

#[test]
fn a_segment_behind_a_dropped_one_is_not_waited_with() {
    let mut pair = Line::pair(Config { queue: 4, ..quiet(Profile::Default) });
    for number in 0..100 {
        pair.give(&segment(number * 100, 100, 0));
    }

    pair.run(|_| Fate::ARRIVES);

    let dropped = pair.relays[A].stats().sent.packets_thinned;
    assert_eq!(dropped, 20, "a burst fills the queue twenty times");
    assert_eq!(pair.delivered.len(), 80);
    let took = pair.delivered_at[79];
    assert!(took <= DELAY + 82 * SLOT, "{took:?}");
    assert_eq!(pair.relays[B].stats().received.gaps_given_up, 0);
}

/// Segments that TCP sends again stand behind newer ones, and have no hole before them; acknowledgements tell of none.
#[test]
fn the_first_segment_after_a_dropped_one_tells_of_it() {
    let mut pair = Line::pair(Config { queue: 4, ..quiet(Profile::Default) });
    let segments = [(100, 100), (600, 0), (600, 100), (700, 100)];
    pair.give(&segment(500, 100, ACK));
    for (seq, len) in segments {
        pair.give(&segment(seq, len, ACK));
    }
    for _ in 0..76 {
        pair.give(&acknowledgement(7));
    }
    assert_eq!(pair.relays[A].stats().sent.packets_thinned, 1, "a burst fills it twenty times");

    pair.run(|_| Fate::ARRIVES);

    let marks: Vec<bool> =
        pair.between(A, B).filter_map(Sent::data).map(|data| data.has_hole).take(5).collect();
    assert_eq!(marks, [false, false, true, false, false]);
}

/// The hole bit is in the sums of repairs: if one transmission had it and another had not, a repair would give a packet
/// of a wrong length.
#[test]
fn all_transmissions_of_a_segment_tell_the_same_of_holes() {
    let mut pair = Line::pair(Config { retries: 1, ..quiet(Profile::Default) });
    // The first segment never arrives. The third is under way when the first is given up, and comes late.
    let mut losses = 0;
    let mut fate = |sent: &Sent| {
        let number = sent.data().filter(|_| sent.from == A).map(|data| data.seq.0);
        let is_lost = number == Some(0) || (number == Some(2) && losses == 0);
        losses += u32::from(is_lost && number == Some(2));
        Fate::lost_if(is_lost)
    };
    pair.give(&segment(100, 100, ACK));
    pair.give(&segment(200, 100, ACK));
    while pair.relays[A].stats().sent.data_repeated == 0 {
        pair.run_for(SLOT, &mut fate);
    }
    pair.give(&segment(300, 100, ACK));
    pair.give(&segment(400, 100, ACK));
    pair.run_for(Duration::from_secs(1), &mut fate);
    assert_eq!(pair.relays[A].stats().sent.packets_abandoned, 1);
    pair.give(&segment(500, 100, ACK));
    pair.run(&mut fate);

    let marks: Vec<(u16, bool)> =
        pair.between(A, B).filter_map(Sent::data).map(|it| (it.seq.0, it.has_hole)).collect();
    let expected =
        [(0, false), (1, false), (0, false), (2, false), (3, false), (2, false), (4, true)];
    assert_eq!(marks, expected);
}

/// An acknowledgement has the number of the segment after it. One that rides on another has no hole bit, and its sum in
/// repairs must not have it either.
#[test]
fn a_forwarded_acknowledgement_does_not_tell_of_the_hole_before_a_segment() {
    let mut arrivals = Arrivals::new(quiet(Profile::Default));
    arrivals.relay.add_peer(Peer(1), peer_config(1));
    let packets = [segment(600, 0, ACK), segment(600, 100, ACK)];
    arrivals.bring(&packets[0]);
    arrivals.bring_as(
        wire::Data { seq: wire::Seq(1), outstanding: Some(1), has_hole: true, ..data(&packets[1]) },
        &packets[1],
    );

    for packet in arrivals.restored() {
        arrivals.relay.handle_packet(arrivals.now, Peer(1), &packet).unwrap();
    }

    let mut out = Vec::new();
    let marks: Vec<bool> = std::iter::from_fn(|| {
        arrivals.relay.poll_transmit(arrivals.now, Link(1), &mut out)?;
        match wire::Message::split_first(wire::Layout::Wide, &out[20..]).unwrap().0 {
            wire::Message::Data(data) => Some(data.has_hole),
            other => panic!("a packet, not {other:?}"),
        }
    })
    .collect();
    assert_eq!(marks, [false, true]);
}

/// The packet that found the queue full stands behind all others, which arrive without those that were dropped for it.
#[test]
fn segments_behind_dropped_ones_do_not_wait_for_the_packet_that_found_the_queue_full() {
    let mut pair = Line::pair(Config { queue: 10, congestion: 10, ..quiet(Profile::Default) });
    let mut numbers = 0..;
    for count in [10, 10, 1] {
        for number in numbers.by_ref().take(count) {
            pair.give(&segment(number * 100, 100, 0));
        }
        pair.run_for(SLOT * 3, |_| Fate::ARRIVES);
    }

    pair.run(|_| Fate::ARRIVES);

    assert!(pair.relays[A].stats().sent.packets_thinned > 0);
    let gaps = pair.delivered_at.windows(2).map(|pair| pair[1] - pair[0]);
    let longest = gaps.max().unwrap();
    assert!(longest <= SLOT * 2, "{longest:?}");
    assert_eq!(pair.relays[B].stats().received.gaps_given_up, 0);
}

/// The time that the profile allows is for paths of which nothing is known.
#[test]
fn a_gap_is_waited_for_no_longer_than_the_round_trip_explains() {
    let mut pair = Line::pair(Config { hold: Duration::from_secs(60), ..quiet(Profile::Default) });
    // B measures the round trip, too.
    let back = datagram("10.9.0.2:2", "10.0.0.1:1", 0);
    pair.give(&segment(0, 100, 0));
    pair.relays[B].handle_packet(pair.now, Peer(0), &back).unwrap();
    pair.run_for(Duration::from_secs(1), |_| Fate::ARRIVES);

    pair.give(&segment(100, 100, 0));
    pair.give(&segment(200, 100, 0));
    let given = pair.now.since(Time::ZERO);
    let is_first = |data: wire::Data<'_>| data.payload[4..8] == 100_u32.to_be_bytes();
    pair.run_for(Duration::from_secs(20), |sent| Fate::lost_if(sent.data().is_some_and(is_first)));

    assert_eq!(pair.delivered.len(), 2, "all but the lost one");
    let waited = pair.delivered_at[1] - given;
    // Eight silences: a timer of 200 ms and more, and 90 ms for the acknowledgement.
    assert!((DELAY * 44..Duration::from_secs(4)).contains(&waited), "{waited:?}");
}

#[test]
fn a_gap_that_came_from_outside_is_not_waited_for() {
    let mut pair = Line::pair(quiet(Profile::Default));
    for seq in [0, 100, 300, 400] {
        pair.give(&segment(seq, 100, 0));
    }

    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.delivered.len(), 4);
    assert!(pair.delivered_at[3] <= DELAY + 5 * SLOT, "{:?}", pair.delivered_at);
}

#[test]
fn a_hole_is_told_even_when_its_packet_comes_by_a_repair() {
    let mut pair = Line::pair(Config::new(Profile::Default));
    for seq in [0, 100, 300, 400] {
        pair.give(&segment(seq, 100, 0));
    }

    // The segment behind the gap is lost.
    pair.run(|sent| Fate::lost_if(sent.number == 2));

    assert_eq!(pair.relays[B].stats().received.packets_recovered, 1);
    assert_eq!(pair.delivered.len(), 4);
    assert_eq!(pair.relays[B].stats().received.gaps_given_up, 0);
}

/// At 100 Mbit/s and 100 ms, 833 packets arrive while the hop sends one again.
#[test]
fn a_gap_is_waited_for_with_all_that_a_fast_and_long_hop_carries() {
    let mut arrivals = Arrivals::new(Config::new(Profile::Default));
    arrivals.bring(&segment(0, 100, 0));
    for number in 2..1_000 {
        arrivals.bring(&segment(number * 100, 100, 0));
    }
    assert_eq!(arrivals.restored_seqs(), [0]);

    arrivals.bring(&segment(100, 100, 0));

    assert_eq!(arrivals.restored_seqs(), (1..1_000).map(|number| number * 100).collect::<Vec<_>>());
}

#[test]
fn a_connection_keeps_a_bounded_number_of_segments_back_and_then_gives_up_the_gap() {
    let mut arrivals = Arrivals::new(Config::new(Profile::Default));
    arrivals.bring(&segment(0, 100, 0));
    assert_eq!(arrivals.restored_seqs(), [0]);

    // The segment at 100 never comes.
    let (last, left) = (2..10_000)
        .find_map(|number| {
            arrivals.bring(&segment(number * 100, 100, 0));
            let left = arrivals.restored_seqs();
            (!left.is_empty()).then_some((number, left))
        })
        .expect("a bound");

    assert_eq!(last - 2, 4_096, "segments kept for one that is missing");
    // Nothing is missing before the newest any more.
    assert_eq!(left, (2..=last).map(|number| number * 100).collect::<Vec<_>>());
    assert_eq!(arrivals.relay.stats().received.gaps_given_up, 1);
    arrivals.wait(Duration::from_secs(10));
    assert_eq!(arrivals.relay.stats().received.gaps_given_up, 1, "there is no other gap");
}

#[test]
fn a_node_keeps_a_bounded_number_of_segments_back_over_all_connections() {
    let mut arrivals = Arrivals::new(Config { packets: 100, ..Config::new(Profile::Default) });
    let of = |connection: u16, number: u32| {
        let mut packet = segment(number * 100, 100, 0);
        packet[20..22].copy_from_slice(&connection.to_be_bytes());
        packet
    };
    let mut seq = 0;
    let mut bring = |arrivals: &mut Arrivals, connection: u16, numbers: std::ops::Range<u32>| {
        for number in numbers {
            let packet = of(connection, number);
            let (flow, low) = (wire::FlowId(connection), wire::Seq(seq));
            arrivals.bring_as(wire::Data { flow, seq: low, ..data(&packet) }, &packet);
            seq += 1;
        }
    };
    for connection in [1, 2, 3] {
        bring(&mut arrivals, connection, 0..1);
    }
    bring(&mut arrivals, 1, 2..62);
    bring(&mut arrivals, 2, 2..42);
    assert_eq!(arrivals.restored().len(), 3, "the rest waits");

    // A connection that would keep one more gives up a gap of its own, also if the gap is the one before this segment.
    bring(&mut arrivals, 3, 2..4);
    assert_eq!(arrivals.restored(), [of(3, 2), of(3, 3)]);
    bring(&mut arrivals, 2, 44..45);
    let left: Vec<_> = (2..42).map(|number| of(2, number)).collect();
    assert_eq!(arrivals.restored(), left);
    assert_eq!(arrivals.relay.stats().received.gaps_given_up, 2);

    // Filled gaps make room again.
    bring(&mut arrivals, 1, 1..2);
    assert_eq!(arrivals.restored().len(), 61);
    bring(&mut arrivals, 3, 5..65);
    assert_eq!(arrivals.restored().len(), 0);
}

#[test]
fn a_pure_acknowledgement_leaves_no_hole_before_the_data_behind_it() {
    const ACK: u8 = 0x10;
    let mut pair = Line::pair(quiet(Profile::Default));
    for (seq, len) in [(0, 100), (100, 0), (100, 100), (200, 100), (300, 100)] {
        pair.give(&segment(seq, len, ACK));
    }

    // The segment behind the acknowledgement is lost, and waited for.
    pair.run(|sent| Fate::lost_if(sent.number == 2));

    let order: Vec<u32> = pair.delivered.iter().map(|packet| seq_of(packet)).collect();
    assert_eq!(order, [0, 100, 100, 200, 300]);
}

#[test]
fn after_a_gap_that_stayed_open_the_next_is_waited_for_half_as_long() {
    let mut node = Arrivals::new(Config::new(Profile::Default));
    for seq in [0, 200, 400] {
        node.bring(&segment(seq, 100, 0));
    }
    assert_eq!(node.restored_seqs(), [0]);

    let left = [2_990, 20, 1_470, 40].map(|ms| {
        node.wait(Duration::from_millis(ms));
        node.restored_seqs()
    });

    assert_eq!(left, [vec![], vec![200], vec![], vec![400]]);
    assert_eq!(node.relay.stats().received.gaps_given_up, 2);
}

#[test]
fn an_old_segment_that_comes_again_changes_nothing() {
    let mut node = Arrivals::new(Config::new(Profile::Default));
    for seq in [0, 100, 0, 200] {
        node.bring(&segment(seq, 100, 0));

        assert_eq!(node.restored_seqs(), [seq]);
    }
    // Nor does a reset or an acknowledgement from far ahead.
    node.bring(&segment(900, 0, ACK));
    node.bring(&segment(900, 0, RST));
    assert_eq!(node.restored_seqs(), [900, 900]);
    node.bring(&segment(400, 100, 0));
    assert_eq!(node.restored_seqs(), []);
}

#[test]
fn a_connection_in_use_is_remembered() {
    let mut node = Arrivals::new(Config::new(Profile::Default));
    node.bring(&segment(0, 100, 0));
    for _ in 0..10 {
        node.wait(Duration::from_secs(10));
        node.bring(&acknowledgement(0));
        while node.answer().is_some() {}
    }
    node.restored();
    // What was not used for long is forgotten meanwhile.
    node.wait(Duration::from_secs(20));

    node.bring(&segment(200, 100, 0));

    assert_eq!(node.restored_seqs(), []);
}

#[test]
fn a_flow_that_is_numbered_anew_has_nothing_to_do_with_its_former_connection() {
    let mut node = Arrivals::new(Config::new(Profile::Default));
    node.relay.add_peer(Peer(2), peer_config(1));
    let former = datagram("10.0.0.1:1", "10.9.0.2:2", 0);
    node.bring(&former);
    node.bring(&segment(0, 100, 0));
    node.restored();

    // This node sends it, for all that is known.
    node.relay.handle_packet(node.now, Peer(2), &former).unwrap();
    node.bring(&segment(200, 100, 0));

    assert_eq!(node.restored_seqs(), []);
}

#[test]
fn a_neighbour_that_goes_changes_nothing_for_what_another_brings() {
    let mut node = Arrivals::new(Config::new(Profile::Default));
    for (neighbour, link) in [(2, 1), (3, 2)] {
        node.relay.add_peer(Peer(neighbour), peer_config(link));
    }
    node.bring(&segment(0, 100, 0));
    node.bring(&segment(200, 100, 0));
    assert_eq!(node.restored_seqs(), [0]);

    node.relay.remove_peer(Peer(3), |_, _| {});
    node.relay.handle_packet(node.now, Peer(2), &segment(0, 100, 0)).unwrap();

    assert_eq!(node.restored_seqs(), [200], "it goes on, and is not kept for order");
}

//! What a node remembers, how much and for how long.

use super::super::sender::LOOKED;
use super::*;

#[test]
fn flows_and_packets_stay_within_their_bounds() {
    let config = Config { flows: 16, packets: 40, queue: 10, ..Config::new(Profile::Default) };
    let mut relay = Relay::new(config, Rng::stream(1, "hbh"));
    relay.add_peer(Peer(1), peer_config(0));

    for port in 1..1000 {
        let packet = datagram(&format!("10.0.0.1:{port}"), "10.9.0.2:2", 0);
        let _ = relay.handle_packet(Time::ZERO, Peer(1), &packet);
    }

    let stats = relay.stats();
    assert_eq!((stats.flows, stats.packets_held), (16, 16));
    assert_eq!(stats.intake.packets_taken + stats.intake.packets_full, 999);
}

#[test]
fn idle_flows_are_forgotten_and_the_timers_end() {
    let mut pair = Line::pair(Config::new(Profile::Default));
    pair.send(0..3);

    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.relays[A].stats().flows, 0);
    assert_eq!(pair.relays[B].stats().flows, 0);
    assert_eq!(pair.relays[A].next_timeout(), None);
}

#[test]
fn a_burst_is_bounded_however_short_it_is() {
    for profile in [Profile::Default, Profile::Paper] {
        let config = Config { queue: 10, ..Config::new(profile) };
        let mut pair = Line::pair(config);

        let mut refused = 0;
        for number in 0..1_000 {
            let packet = datagram("10.0.0.1:1", "10.9.0.2:2", number);
            refused += u64::from(pair.relays[A].handle_packet(pair.now, Peer(1), &packet).is_err());
        }

        let stats = pair.relays[A].stats();
        let thinned = stats.sent.packets_thinned;
        assert!(refused + thinned > 0, "{profile:?}");
        assert_eq!(refused > 0, profile == Profile::Paper);
        assert_eq!(stats.intake.packets_full, refused);
        assert_eq!(stats.packets_held, 1_000 - refused - thinned);
    }
}

/// TCP notices a loss by the packets that follow it, and a loss of its last packets only by a timer.
#[test]
fn a_full_queue_at_the_entrance_drops_its_first_packet_for_the_last() {
    let config = Config { queue: 10, congestion: 10, clear: 5, ..quiet(Profile::Default) };
    let mut pair = Line::pair(config);

    pair.send(0..1_000);
    pair.run(|_| Fate::ARRIVES);

    let order = pair.order();
    let last: Vec<u32> = (1_000 - 200..1_000).collect();
    assert_eq!(order[order.len() - 200..], last, "a burst fills it twenty times");
    let thinned = pair.relays[A].stats().sent.packets_thinned;
    assert_eq!((pair.refused, order.len() as u64 + thinned), (0, 1_000));
}

/// The queue of a fast path holds 4,000 packets.
#[test]
fn what_a_full_queue_takes_does_not_cost_a_search_of_all_that_waits() {
    const MORE: u32 = 1_000;
    let mut pair = Line::pair(quiet(Profile::Default));
    for number in 0..10_000 {
        pair.give(&segment(number * 100, 100, 0));
    }
    let before = LOOKED.get();

    // Each looks like a repeat, and the first packet is dropped for it.
    for number in 0..MORE {
        pair.give(&segment(number * 100 + 50, 100, 0));
    }

    let looked = LOOKED.get() - before;
    assert!(looked <= 1_024 * MORE as usize, "{looked}");
    let thinned = pair.relays[A].stats().sent.packets_thinned;
    assert_eq!(thinned, 7_000, "4,000 of 11,000 wait");
}

#[test]
fn each_lost_packet_is_found_without_a_search_of_all_that_flies() {
    let mut pair = Line::new(&[roomy(); 2], &[Duration::from_micros(1)]);
    pair.send(0..250);
    pair.run_for(Duration::from_millis(1), |_| Fate::LOST);
    let (before, sent) = (LOOKED.get(), pair.sent);
    assert_eq!(sent, 250);

    pair.run(|_| Fate::ARRIVES);

    let (looked, repeats) = (LOOKED.get() - before, pair.relays[A].stats().sent.data_repeated);
    assert_eq!((pair.delivered.len(), repeats), (250, 250));
    assert!(looked <= 4 * 250, "{looked}");
}

#[test]
fn a_flow_is_remembered_for_as_long_as_a_copy_of_its_packets_may_come() {
    let idle = Duration::from_secs(10);
    let mut node = Arrivals::new(Config { idle, ..quiet(Profile::Default) });
    let packet = datagram("10.0.0.1:1", "10.9.0.2:2", 0);
    node.bring(&packet);
    assert_eq!(node.restored().len(), 1);
    node.wait(Duration::from_secs(1));
    assert!(node.answer().is_some());

    // Its sender forgets it after `idle`; the receiver later, in any case.
    for _ in 0..18 {
        node.wait(idle / 10);
        node.relay.handle_timeout(node.now);
    }
    node.bring_as(data(&packet), &packet);
    assert_eq!(node.restored().len(), 0, "the same packet after {:?}", node.now);
    assert_eq!(node.relay.stats().received.data_duplicate, 1);

    for _ in 0..40 {
        node.wait(idle / 10);
    }
    assert_eq!(node.relay.stats().flows, 0);
}

#[test]
fn a_sender_keeps_a_flow_and_its_numbers_until_it_was_idle_for_long() {
    let idle = Duration::from_secs(10);
    let mut pair = Line::pair(Config { idle, ..quiet(Profile::Default) });
    let mut last = None;
    for number in 0..5 {
        pair.send(number..number + 1);
        pair.run_for(idle * 9 / 10, |_| Fate::ARRIVES);
        let sent = pair.between(A, B).last().unwrap();
        let data = sent.data().unwrap();

        let (flow, seq) = (data.flow, data.seq);

        assert!(last.is_none_or(|last| last == (flow, seq)), "{number}");
        last = Some((flow, wire::Seq(seq.0 + 1)));
    }
}

#[test]
fn a_repair_is_forgotten_with_the_packets_that_will_not_come() {
    let mut node = Arrivals::new(Config { hold: Duration::ZERO, ..quiet(Profile::Default) });
    let packets: Vec<Vec<u8>> = (0..3).map(|n| segment(n * 100, 100, 0)).collect();
    node.bring(&packets[0]);
    node.bring_repair(0, &[(1, &packets[1]), (2, &packets[2])]);

    // Both are given up, and their numbers come round again.
    for n in 3..=u16::MAX {
        node.bring_as(wire::Data { seq: wire::Seq(n), ..data(&packets[0]) }, &packets[0]);
    }
    for n in 0..=1 {
        let packet = &packets[usize::from(n)];
        node.bring_as(wire::Data { seq: wire::Seq(n), ..data(packet) }, packet);
    }

    assert_eq!(node.relay.stats().received.packets_recovered, 0);
    assert_eq!(node.restored().len(), 1 + 65_533 + 2);
}

#[test]
fn repairs_that_wait_are_used_while_their_packets_may_come() {
    let mut node = Arrivals::new(Config { hold: Duration::ZERO, ..quiet(Profile::Default) });
    let packets: Vec<Vec<u8>> = (0..3).map(|n| segment(n * 100, 100, 0)).collect();
    node.bring(&packets[0]);
    node.bring_repair(0, &[(1, &packets[1]), (2, &packets[2])]);

    let outstanding = Some(1);
    node.bring_as(wire::Data { seq: wire::Seq(2), outstanding, ..data(&packets[2]) }, &packets[2]);

    assert_eq!(node.restored_seqs(), [0, 200, 100]);
    assert_eq!(node.relay.stats().received.packets_recovered, 1);
}

#[test]
fn a_packet_that_has_waited_for_too_long_is_discarded_and_counted_but_a_segment_is_not() {
    let config = quiet(Profile::Default);
    for (packet, sent) in [(datagram("10.0.0.1:1", "10.9.0.2:2", 0), 0), (segment(0, 100, 0), 1)] {
        for is_late in [false, true] {
            let mut node = Answered::new(config);
            node.relay.handle_packet(node.now, Peer(1), &packet).unwrap();

            node.now += config.lifetime + Duration::from_secs(u64::from(is_late));
            let count = std::iter::from_fn(|| node.send()).count();

            let stats = node.relay.stats();
            let expected = if is_late { sent } else { 1 };
            assert_eq!(count, expected, "{is_late}");
            assert_eq!(stats.sent.packets_expired + count as u64, 1, "{is_late}");
            assert_eq!(stats.packets_held, count as u64, "{is_late}");
        }
    }
}

#[test]
fn a_node_with_too_many_flows_uses_no_repairs_and_mixes_no_old_packets_in() {
    let mut node = Arrivals::new(Config { hold: Duration::ZERO, ..quiet(Profile::Default) });
    let packets: Vec<Vec<u8>> = (0..300).map(|n| segment(n * 100, 100, 0)).collect();
    node.bring(&packets[0]);
    for n in 0..256 {
        let other = datagram(&format!("10.0.0.1:{}", 100 + n), "10.9.0.2:2", 0);
        let flow = wire::FlowId(1_000 + n);
        node.bring_as(wire::Data { flow, seq: wire::Seq(0), ..data(&other) }, &other);
    }
    // More packets of the first flow, none of which is kept.
    for n in 1..=256_u16 {
        let packet = &packets[usize::from(n)];
        node.bring_as(wire::Data { seq: wire::Seq(n), ..data(packet) }, packet);
    }
    node.restored();

    node.bring_repair(0, &[(256, &packets[256]), (257, &packets[257])]);

    assert_eq!(node.restored(), Vec::<Vec<u8>>::new());
    assert_eq!(node.relay.stats().received.repairs_stray, 1);
    // Once there are fewer flows, what comes then is repaired again.
    for _ in 0..40 {
        node.wait(Duration::from_secs(10));
        while node.answer().is_some() {}
    }
    node.bring(&packets[258]);
    node.bring_repair(1, &[(257, &packets[258]), (258, &packets[259])]);
    assert_eq!(node.restored(), [packets[258].clone(), packets[259].clone()]);
}

#[test]
fn flows_from_neighbours_beyond_the_bound_are_left_with_their_senders_and_counted() {
    let mut node = Arrivals::new(Config { flows: 2, ..quiet(Profile::Default) });
    for flow in 1..=5 {
        let packet = datagram(&format!("10.0.0.1:{flow}"), "10.9.0.2:2", flow.into());
        node.bring_as(wire::Data { flow: wire::FlowId(flow), ..data(&packet) }, &packet);
    }

    assert_eq!(node.restored().len(), 2);
    assert_eq!(node.relay.stats().received.data_deferred, 3);
}

#[test]
fn what_arrives_in_too_many_runs_is_left_with_its_sender() {
    let mut node = Arrivals::new(Config { hold: Duration::ZERO, ..quiet(Profile::Default) });
    let packet = datagram("10.0.0.1:1", "10.9.0.2:2", 0);

    for n in 1..=300 {
        let (seq, outstanding) = (wire::Seq(2 * n), Some(2 * n));
        node.bring_as(wire::Data { seq, outstanding, ..data(&packet) }, &packet);
    }

    assert_eq!(node.restored().len(), 256);
    assert_eq!(node.relay.stats().received.data_stray, 44);
}

#[test]
fn order_is_kept_in_a_bounded_number_of_connections() {
    let mut node = Arrivals::new(Config { flows: 10_000, ..quiet(Profile::Default) });
    for connection in 1..=4_200 {
        let mut packet = segment(0, 100, 0);
        packet[20..22].copy_from_slice(&u16::to_be_bytes(connection));
        node.bring_as(wire::Data { flow: wire::FlowId(connection), ..data(&packet) }, &packet);
    }

    assert_eq!(node.relay.stats().flows, 4_200 + 4_096);
}

/// A packet that is sent on or done with lends its memory to the next.
#[test]
fn steady_traffic_needs_no_more_memory_whatever_becomes_of_its_packets() {
    let config = Config { retries: 1, queue: 20, ..Config::new(Profile::Default) };
    let mut line = Line::new(&[config; 3], &[SLOT, SLOT * 2]);
    let mut numbers = 0..;
    let mut rng = Rng::stream(1, "losses");
    let mut run = |line: &mut Line, rounds: usize| {
        let before = pool::tests::MADE.get();
        for number in numbers.by_ref().take(rounds) {
            // More than goes at once, acknowledgements, and a connection that is reset now and then.
            for part in 0..30 {
                line.give(&segment(number * 3_000 + part * 100, 100, ACK));
            }
            for part in 1..8 {
                let back = reversed(&acknowledgement(number * 3_000 + part * 300));
                line.relays[C].handle_packet(line.now, Peer(1), &back).unwrap();
            }
            if number % 5 == 4 {
                line.give(&segment((number + 1) * 3_000, 0, RST));
            }
            line.run_for(Duration::from_millis(400), |_| Fate::lost_if(rng.chance(0.2)));
        }
        pool::tests::MADE.get() - before
    };

    let first = run(&mut line, 60);
    let second = run(&mut line, 60);

    let stats = [A, B, C].map(|node| line.relays[node].stats());
    let sum = |of: fn(&Stats) -> u64| stats.iter().map(of).sum::<u64>();
    for (what, count) in [
        ("repeated", sum(|it| it.sent.data_repeated)),
        ("abandoned", sum(|it| it.sent.packets_abandoned)),
        ("superseded", sum(|it| it.sent.data_superseded)),
        ("thinned", sum(|it| it.sent.packets_thinned)),
        ("reset", sum(|it| it.sent.packets_reset)),
        ("recovered", sum(|it| it.received.packets_recovered)),
        ("repairs", sum(|it| it.received.repairs_received)),
    ] {
        assert!(count > 40, "{what}: {count}");
    }
    assert!(second < 40, "{first}, then {second} more");
}

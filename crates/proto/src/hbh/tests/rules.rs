//! One test for each rule of version 2 that a fault in it would break.

use super::*;

const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// A pure acknowledgement of TCP.
fn acknowledgement(number: u32) -> Vec<u8> {
    let mut packet = segment(1, 0, ACK);
    packet[28..32].copy_from_slice(&number.to_be_bytes());
    packet
}

fn number_acknowledged(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[28..32].try_into().unwrap())
}

/// Gives A packets until it refuses one, and returns how many it took.
fn fill(hop: &mut Hop, mut packets: impl FnMut(u32) -> Vec<u8>) -> u32 {
    (0..10_000).find(|&n| hop.handle_packet(Time::ZERO, Peer(1), &packets(n)).is_err()).unwrap()
}

#[test]
fn a_segment_behind_a_refused_one_is_not_waited_with() {
    let mut pair = Pair::new(Config { queue: 4, ..quiet(Profile::Default) });
    let taken = fill(&mut pair.hops[A], |n| segment(n * 100, 100, 0));
    pair.run(|_| Fate::ARRIVES);
    let before = pair.delivered.len();

    let behind = segment((taken + 1) * 100, 100, 0);
    pair.hops[A].handle_packet(pair.now, Peer(1), &behind).unwrap();
    let start = pair.now;
    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.delivered[before..], [behind]);
    let took = pair.delivered_at[before] - start.since(Time::ZERO);
    assert!(took <= DELAY + 2 * SLOT, "{took:?}");
    assert_eq!(pair.hops[B].stats().gaps_given_up, 0);
}

#[test]
fn a_gap_that_came_from_outside_is_not_waited_for() {
    let mut pair = Pair::new(quiet(Profile::Default));
    for seq in [0, 100, 300, 400] {
        pair.hops[A].handle_packet(pair.now, Peer(1), &segment(seq, 100, 0)).unwrap();
    }

    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.delivered.len(), 4);
    assert!(pair.delivered_at[3] <= DELAY + 5 * SLOT, "{:?}", pair.delivered_at);
}

#[test]
fn a_pure_acknowledgement_leaves_no_hole_before_the_data_behind_it() {
    let mut pair = Pair::new(quiet(Profile::Default));
    for (seq, len) in [(0, 100), (100, 0), (100, 100), (200, 100), (300, 100)] {
        pair.hops[A].handle_packet(pair.now, Peer(1), &segment(seq, len, ACK)).unwrap();
    }

    // The segment behind the acknowledgement is lost, and waited for.
    pair.run(|sent| if sent.number == 2 { Fate::LOST } else { Fate::ARRIVES });

    let seq = |packet: &Vec<u8>| u32::from_be_bytes(packet[24..28].try_into().unwrap());
    let order: Vec<u32> = pair.delivered.iter().map(seq).collect();
    assert_eq!(order, [0, 100, 100, 200, 300]);
}

#[test]
fn a_hole_is_told_even_when_its_packet_comes_by_a_repair() {
    let mut pair = Pair::new(Config::new(Profile::Default));
    for seq in [0, 100, 300, 400] {
        pair.hops[A].handle_packet(pair.now, Peer(1), &segment(seq, 100, 0)).unwrap();
    }

    // The segment behind the gap is lost.
    pair.run(|sent| if sent.number == 2 { Fate::LOST } else { Fate::ARRIVES });

    assert_eq!(pair.hops[B].stats().packets_recovered, 1);
    assert_eq!(pair.delivered.len(), 4);
    assert_eq!(pair.hops[B].stats().gaps_given_up, 0);
}

#[test]
fn every_protocol_comes_through() {
    for protocol in 0..=255_u8 {
        let mut pair = Pair::new(Config::new(Profile::Default));
        let spec = Spec::new("10.0.0.1".parse().unwrap(), "10.9.0.2".parse().unwrap(), protocol);
        let mut packet = Vec::new();
        spec.emit(40, &mut packet);
        packet.extend([7; 40]);
        pair.hops[A].handle_packet(pair.now, Peer(1), &packet).unwrap();

        pair.run(|_| Fate::ARRIVES);

        assert_eq!(pair.delivered, [packet], "{protocol}");
    }
}

#[test]
fn only_a_reset_with_the_next_number_empties_the_queue() {
    for (seq, left) in [(1_200, 0), (1_199, 2), (1_201, 2), (0, 2)] {
        let mut pair = Pair::new(quiet(Profile::Default));
        for seq in [1_000, 1_100] {
            pair.hops[A].handle_packet(pair.now, Peer(1), &segment(seq, 100, 0)).unwrap();
        }

        pair.hops[A].handle_packet(pair.now, Peer(1), &segment(seq, 0, RST)).unwrap();
        pair.run(|_| Fate::ARRIVES);

        assert_eq!(pair.delivered.len(), left + 1, "{seq}");
    }
}

#[test]
fn an_acknowledgement_carries_older_ones_over_a_lossy_link() {
    let mut pair = Pair::new(quiet(Profile::Default));
    for number in 1..=4 {
        let packet = acknowledgement(number * 100);
        pair.hops[A].handle_packet(pair.now, Peer(1), &packet).unwrap();
    }

    pair.run(|sent| if sent.number < 3 { Fate::LOST } else { Fate::ARRIVES });

    let numbers: Vec<u32> = pair.delivered.iter().map(|it| number_acknowledged(it)).collect();
    assert_eq!(numbers, [100, 200, 300, 400]);
    assert_eq!(pair.hops[A].stats().data_repeated, 0);
    assert_eq!(pair.hops[B].stats().packets_recovered, 3);
}

#[test]
fn a_superseded_acknowledgement_is_not_sent_again() {
    let mut pair = Pair::new(quiet(Profile::Default));
    for number in 1..=9 {
        let packet = acknowledgement(number * 100);
        pair.hops[A].handle_packet(pair.now, Peer(1), &packet).unwrap();
    }

    // More are lost than one carries.
    pair.run(|sent| if sent.number < 8 { Fate::LOST } else { Fate::ARRIVES });

    assert_eq!(pair.hops[A].stats().data_repeated, 0);
    assert_eq!(pair.hops[A].stats().data_superseded, 5);
    assert_eq!(pair.delivered.last().map(|last| number_acknowledged(last)), Some(900));
    assert_eq!(pair.hops[A].stats().packets_held, 0);
}

#[test]
fn after_an_outage_of_any_length_packets_arrive_within_a_second() {
    for outage in [1, 10, 60, 600] {
        let mut pair = Pair::new(Config::new(Profile::Default));
        for seq in 0..8 {
            pair.hops[A].handle_packet(pair.now, Peer(1), &segment(seq * 100, 100, 0)).unwrap();
        }
        pair.until = Some(Time::ZERO + Duration::from_secs(outage));
        pair.run(|_| Fate::LOST);
        let sent = pair.sent;

        pair.until = None;
        pair.run(|_| Fate::ARRIVES);

        assert_eq!(pair.delivered.len(), 8, "{outage} s");
        let last = pair.delivered_at[7];
        assert!(last < Duration::from_secs(outage + 1), "{outage} s: {last:?}");
        assert_eq!(pair.hops[A].stats().packets_abandoned, 0);
        // And the silence was not filled with repeats.
        assert!(sent as u64 <= 60 + 3 * outage, "{outage} s: {sent}");
    }
}

#[test]
fn only_one_flow_asks_a_silent_peer() {
    let mut pair = Pair::new(quiet(Profile::Default));
    for port in 1..=20 {
        let packet = datagram(&format!("10.0.0.1:{port}"), "10.9.0.2:2", 0);
        pair.hops[A].handle_packet(pair.now, Peer(1), &packet).unwrap();
    }
    pair.until = Some(Time::ZERO + Duration::from_secs(10));
    pair.run(|_| Fate::LOST);
    let sent = pair.sent;

    pair.until = Some(Time::ZERO + Duration::from_secs(20));
    pair.run(|_| Fate::LOST);

    assert!(pair.sent - sent <= 22, "{}", pair.sent - sent);
}

#[test]
fn a_packet_is_sent_r_times_more_and_no_oftener() {
    for profile in [Profile::Default, Profile::Seed] {
        let mut pair = Pair::new(Config { retries: 3, ..quiet(profile) });
        pair.send(0..1);

        pair.run(|_| Fate::LOST);

        assert_eq!(pair.hops[A].stats().data_sent, 4, "{profile:?}");
        assert_eq!(pair.hops[A].stats().packets_abandoned, 1);
    }
}

#[test]
fn no_more_than_w_fly() {
    for (profile, window) in [(Profile::Default, (5, 5)), (Profile::Seed, (5, 5))] {
        let mut pair = Pair::new(Config { window, ..quiet(profile) });
        pair.send(0..40);
        let mut out = Vec::new();

        let flying =
            std::iter::from_fn(|| pair.hops[A].poll_transmit(Time::ZERO, Link(0), &mut out));

        assert_eq!(flying.count(), 5, "{profile:?}");
    }
}

#[test]
fn after_a_silence_even_a_lone_segment_is_sent_four_times_and_then_eight_times() {
    let mut pair = Pair::new(Config::new(Profile::Default));
    for number in 0..4 {
        pair.hops[A].handle_packet(pair.now, Peer(1), &segment(number * 100, 100, 0)).unwrap();
        pair.run(|_| Fate::ARRIVES);
    }
    pair.hops[A].handle_packet(pair.now, Peer(1), &segment(400, 100, 0)).unwrap();

    let (mut count, mut last, mut runs) = (0, pair.now, Vec::new());
    while runs.len() < 3 {
        let before = pair.sent;
        pair.until = Some(pair.now + SLOT);
        pair.run(|_| Fate::LOST);
        pair.now += SLOT;
        count += pair.sent - before;
        if pair.sent > before {
            last = pair.now;
        } else if count > 0 && pair.now.since(last) > 10 * SLOT {
            runs.push(std::mem::take(&mut count));
        }
    }

    assert_eq!(runs[1..], [4, 8]);
}

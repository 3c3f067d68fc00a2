//! Tests a flow's knowledge of the TCP connection inside.

use super::*;

#[test]
fn a_segment_that_is_on_its_way_is_not_sent_again() {
    let mut pair = Line::pair(quiet(Profile::Default));
    for seq in [1000, 1100, 1000, 1100, 1200] {
        let packet = segment(seq, 100, 0);
        pair.give(&packet);
    }

    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.delivered.len(), 3);
    assert_eq!(pair.relays[A].stats().intake.packets_absorbed, 2);
}

#[test]
fn a_reset_discards_what_waits_for_the_connection() {
    const RST: u8 = 0x04;
    let mut pair = Line::pair(quiet(Profile::Default));
    for (seq, flags) in [(1000, 0), (1100, 0), (1200, RST)] {
        let packet = segment(seq, if flags == RST { 0 } else { 100 }, flags);
        pair.give(&packet);
    }

    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.delivered.len(), 1);
    assert_eq!(pair.relays[A].stats().sent.packets_reset, 2);
}

#[test]
fn only_a_reset_with_the_next_number_empties_the_queue() {
    for (seq, left) in [(1_200, 0), (1_199, 2), (1_201, 2), (0, 2)] {
        let mut pair = Line::pair(quiet(Profile::Default));
        for seq in [1_000, 1_100] {
            pair.give(&segment(seq, 100, 0));
        }

        pair.give(&segment(seq, 0, RST));
        pair.run(|_| Fate::ARRIVES);

        assert_eq!(pair.delivered.len(), left + 1, "{seq}");
    }
}

#[test]
fn only_the_same_segment_is_absorbed() {
    // A waiting segment, an arriving segment, and whether the arriving segment is absorbed.
    for (waits, comes, is_same) in [
        ((1_000, 100, ACK), (1_000, 100, ACK), true),
        ((1_000, 0, SYN), (1_000, 0, SYN), true),
        ((1_000, 0, FIN | ACK), (1_000, 0, FIN | ACK), true),
        ((1_000, 100, ACK), (1_001, 100, ACK), false),
        ((1_000, 100, ACK), (1_000, 99, ACK), false),
        ((1_000, 99, ACK), (1_000, 100, ACK), false),
        ((1_000, 100, ACK), (1_000, 100, FIN | ACK), false),
        ((1_000, 100, FIN | ACK), (1_000, 100, ACK), false),
        ((1_000, 100, ACK), (1_000, 100, SYN), false),
        ((1_000, 0, SYN), (1_000, 0, FIN), false),
        ((1_000, 1, ACK), (1_000, 0, SYN), false),
    ] {
        // Once the first segment waits, once it is in flight.
        for is_sent in [false, true] {
            let mut pair = Line::pair(quiet(Profile::Default));
            learn_the_round_trip(&mut pair);
            let before = pair.delivered.len();
            pair.give(&segment(waits.0, waits.1, waits.2));
            if is_sent {
                pair.run_for(SLOT, |_| Fate::ARRIVES);
            }

            pair.give(&segment(comes.0, comes.1, comes.2));
            pair.run(|_| Fate::ARRIVES);

            let (count, absorbed) = if is_same { (1, 1) } else { (2, 0) };
            let name = format!("{waits:?} {comes:?} {is_sent}");
            assert_eq!(pair.delivered.len() - before, count, "{name}");
            assert_eq!(pair.relays[A].stats().intake.packets_absorbed, absorbed, "{name}");
        }
    }
}

#[test]
fn a_syn_that_is_repeated_after_data_goes_out_again() {
    let mut pair = Line::pair(quiet(Profile::Default));
    pair.give(&segment(1_000, 0, SYN));
    pair.run_for(DELAY * 6, |_| Fate::ARRIVES);
    pair.give(&segment(1_001, 100, ACK));

    pair.give(&segment(1_000, 0, SYN));
    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.delivered.len(), 3);
    assert_eq!(pair.relays[A].stats().intake.packets_absorbed, 0);
}

#[test]
fn what_waits_is_replaced_by_its_repeat() {
    let mut pair = Line::pair(quiet(Profile::Default));
    pair.give(&segment(1_000, 100, 0));
    let repeat = segment(1_000, 100, ACK);

    pair.give(&repeat);
    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.delivered, [repeat]);
}

#[test]
fn what_waits_before_others_is_not_replaced_by_a_repeat_with_a_newer_timestamp() {
    let mut pair = Line::pair(quiet(Profile::Default));
    let waiting = [1_000, 1_100].map(|seq| segment(seq, 100, 0));
    waiting.iter().for_each(|packet| pair.give(packet));

    pair.give(&segment(1_000, 100, ACK));
    pair.run(|_| Fate::ARRIVES);

    assert_eq!(pair.delivered, waiting);
    assert_eq!(pair.relays[A].stats().intake.packets_absorbed, 1);
}

#[test]
fn a_segment_that_was_sent_is_absorbed_for_a_round_trip() {
    for (later, is_absorbed) in [(DELAY, true), (DELAY * 5, false)] {
        let mut pair = Line::pair(quiet(Profile::Default));
        learn_the_round_trip(&mut pair);
        pair.give(&segment(1_000, 100, 0));
        // Nothing is heard of it.
        pair.run_for(later, |sent| Fate::lost_if(sent.from == B));

        pair.give(&segment(1_000, 100, 0));

        let absorbed = pair.relays[A].stats().intake.packets_absorbed;
        assert_eq!(absorbed, u64::from(is_absorbed), "{later:?} after");
    }
}

/// A way back that is slower than acknowledgements come has room for the newest alone.
#[test]
fn an_acknowledgement_that_waited_for_long_gives_way_to_a_newer_one() {
    for (wait, numbers, expected) in [
        (30, [100, 200, 300, 400], vec![100, 400]),
        (25, [100, 200, 300, 400], vec![100, 400]),
        // A burst, in which TCP's window may grow with each.
        (0, [100, 200, 300, 400], vec![100, 200, 300, 400]),
        // TCP counts those that repeat a number.
        (30, [100, 200, 200, 200], vec![100, 200, 200, 200]),
        // An older one says nothing new, and TCP reads its options.
        (30, [100, 300, 200, 400], vec![100, 300, 400]),
    ] {
        let mut pair = Line::new(&[quiet(Profile::Default); 2], &[Duration::from_secs(1)]);
        let [first, second, rest @ ..] = numbers;
        for number in [first, second] {
            pair.give(&acknowledgement(number));
        }
        pair.run_for(Duration::from_millis(wait), |_| Fate::ARRIVES);

        for number in rest {
            pair.give(&acknowledgement(number));
        }
        pair.run(|_| Fate::ARRIVES);

        let sent: Vec<u32> = pair.delivered.iter().map(|it| number_acknowledged(it)).collect();
        assert_eq!(sent, expected, "{wait} ms, {numbers:?}");
        let left = numbers.len() - expected.len();
        let stats = pair.relays[A].stats().intake;
        assert_eq!((stats.packets_taken, stats.packets_absorbed), (4, left as u64));
    }
}

#[test]
fn only_a_pure_acknowledgement_with_the_same_flags_gives_way() {
    const ECE: u8 = 0x40;
    for (flags, len) in [(ACK | ECE, 0), (FIN | ACK, 0), (ACK, 10)] {
        let mut pair = Line::new(&[quiet(Profile::Default); 2], &[Duration::from_secs(1)]);
        pair.give(&acknowledgement(1));
        let mut waits = segment(1, len, flags);
        waits[28..32].copy_from_slice(&100_u32.to_be_bytes());
        pair.give(&waits);
        pair.run_for(Duration::from_millis(30), |_| Fate::ARRIVES);

        pair.give(&acknowledgement(200));
        pair.run(|_| Fate::ARRIVES);

        assert_eq!(pair.delivered.len(), 3, "{flags:#x} {len}");
    }
}

fn learn_the_round_trip(pair: &mut Line) {
    pair.give(&segment(900, 100, 0));
    pair.run_for(DELAY * 10, |_| Fate::ARRIVES);
}

#[test]
fn a_new_connection_owes_nothing_to_the_numbers_of_the_one_before() {
    const SYN: u8 = 0x02;
    let mut pair = Line::pair(quiet(Profile::Default));
    let moment = Duration::from_secs(1);
    pair.give(&acknowledgement(2_000_000_000));
    pair.run_for(moment, |_| Fate::ARRIVES);
    pair.give(&segment(0, 0, SYN));
    pair.run_for(moment, |_| Fate::ARRIVES);

    // Its acknowledgements are lower, and none is superseded by one of the old connection.
    pair.give(&acknowledgement(1_000));
    let first = pair.sent;
    pair.run(|sent| Fate::lost_if(sent.number == first));

    assert_eq!(pair.relays[A].stats().sent.data_superseded, 0);
    assert_eq!(pair.delivered.len(), 3);
}

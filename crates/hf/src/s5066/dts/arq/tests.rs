//! Two ends by turns.

mod priority;
mod story;
mod window;

use base::time::Time;

use super::*;
use crate::s5066::dts::wire::{self, Body, CpduSegment, Fsn, Numbers};
use crate::s5066::service::{Failure, Outcome, RequestId};

const NUMBERS: [Numbers; 2] = [Numbers::Short, Numbers::Long];

#[test]
fn a_c_pdu_is_cut_into_equal_pieces_and_delivered_whole() {
    let mut sender = Sender::new(Numbers::Short, 128);
    let mut receiver = Receiver::new(Numbers::Short);
    sender.push(c_pdu(1, 1000, true)).unwrap();

    let sent = transmit(&mut sender, 1, 300, &mut |data| {
        receiver.handle_data(Numbers::Short, data).unwrap();
    });

    assert_eq!(sent, ["0 start 250 lower upper", "1 250 upper", "2 250 upper", "3 end 250 upper"]);
    assert_eq!(receiver.poll_delivered().unwrap().octets, vec![1; 1000]);
    assert!(receiver.is_ack_due());
    acknowledge(&mut sender, &receiver, 1).unwrap();
    assert_eq!(sender.poll_outcome(), Some((RequestId(1), Outcome::Done)));
    assert_eq!(sender.backlog(), ArqBacklog { window: 128, ..ArqBacklog::default() });
}

#[test]
fn what_was_lost_is_sent_again_in_the_same_pieces() {
    for numbers in NUMBERS {
        let mut sender = Sender::new(numbers, 128);
        let mut receiver = Receiver::new(numbers);
        sender.push(c_pdu(1, 1000, true)).unwrap();
        transmit(&mut sender, 1, 300, &mut |data| {
            if ![0, 2].contains(&data.fsn.0) {
                receiver.handle_data(numbers, data).unwrap();
            }
        });

        let acked = acknowledge(&mut sender, &receiver, 1).unwrap();
        let again = transmit(&mut sender, 2, 100, &mut |data| {
            receiver.handle_data(numbers, data).unwrap();
        });

        assert_eq!((acked.arrived, acked.lost, acked.lost_octets), (2, 2, 500));
        assert_eq!(again, ["0 start 250 lower", "2 250"]);
        assert_eq!(receiver.poll_delivered().unwrap().octets, vec![1; 1000]);
    }
}

#[test]
fn a_damaged_piece_counts_as_lost() {
    let mut sender = Sender::new(Numbers::Short, 128);
    let mut receiver = Receiver::new(Numbers::Short);
    sender.push(c_pdu(1, 100, true)).unwrap();
    transmit(&mut sender, 1, 50, &mut |data| {
        let is_good = data.fsn.0 != 0;
        let segment = CpduSegment { is_good, ..data.segment };
        receiver.handle_data(Numbers::Short, &wire::Data { segment, ..*data }).unwrap();
    });
    assert_eq!(receiver.poll_delivered(), None);

    let acked = acknowledge(&mut sender, &receiver, 1).unwrap();
    transmit(&mut sender, 2, 50, &mut |data| {
        receiver.handle_data(Numbers::Short, data).unwrap();
    });

    assert_eq!((acked.arrived, acked.lost), (1, 1));
    assert_eq!(delivered(&mut receiver), [1]);
    let stats = receiver.stats();
    assert_eq!((stats.bad, stats.frames, stats.delivered), (1, 2, 1));
}

#[test]
fn a_piece_of_a_begun_c_pdu_or_a_lost_one_has_its_length() {
    let mut sender = Sender::new(Numbers::Short, 127);
    sender.push(c_pdu(1, 130, true)).unwrap();
    assert_eq!(sender.uncuttable(), 0);

    for begun in [44, 42, 0] {
        let _ = sender.poll(Time::ZERO, 1, 50, 50).expect("a piece");
        assert_eq!(sender.uncuttable(), begun);
    }
    sender.set_cuts_to_fit(true);
    sender.repeat_unanswered(1, Repeat::All);
    assert_eq!(sender.uncuttable(), 44);

    sender.push(c_pdu(2, 130, true)).unwrap();
    while sender.uncuttable() == 44 {
        let _ = sender.poll(Time::ZERO, 2, 50, 50).expect("a piece");
    }
    let _ = sender.poll(Time::ZERO, 2, 50, 50).expect("the last lost piece");
    let _ = sender.poll(Time::ZERO, 2, 50, 50).expect("a piece of the second");
    assert_eq!(sender.uncuttable(), 0, "its peer takes shorter pieces");
}

#[test]
fn an_acknowledgement_says_nothing_of_later_turns() {
    let mut sender = Sender::new(Numbers::Short, 128);
    let receiver = Receiver::new(Numbers::Short);
    sender.push(c_pdu(1, 100, true)).unwrap();
    sender.push(c_pdu(2, 100, true)).unwrap();
    assert!(sender.poll(Time::ZERO, 1, 100, 100).is_some());
    assert!(sender.poll(Time::ZERO, 2, 100, 100).is_some());

    let acked = acknowledge(&mut sender, &receiver, 1).unwrap();

    assert_eq!(acked.lost, 1);
    assert_eq!((sender.backlog().due, sender.backlog().unanswered), (1, 1));
}

#[test]
fn the_order_is_kept_where_asked_and_nowhere_else() {
    let mut sender = Sender::new(Numbers::Short, 128);
    let mut receiver = Receiver::new(Numbers::Short);
    for (id, in_order) in [(1, true), (2, true), (3, false), (4, true)] {
        sender.push(c_pdu(id, 10, in_order)).unwrap();
    }

    transmit(&mut sender, 1, 100, &mut |data| {
        if data.fsn.0 != 0 {
            receiver.handle_data(Numbers::Short, data).unwrap();
        }
    });
    let early: Vec<u8> = delivered(&mut receiver);
    acknowledge(&mut sender, &receiver, 1).unwrap();
    transmit(&mut sender, 2, 100, &mut |data| {
        receiver.handle_data(Numbers::Short, data).unwrap();
    });

    assert_eq!(early, [3]);
    assert_eq!(delivered(&mut receiver), [1, 2, 4]);
    assert_eq!(receiver.stats().broken, 0);
}

#[test]
fn the_window_holds_new_frames_back_but_not_repeats() {
    let mut sender = Sender::new(Numbers::Short, 4);
    for id in 0..8 {
        sender.push(c_pdu(id, 10, true)).unwrap();
    }

    assert_eq!(transmit(&mut sender, 1, 100, &mut |_| {}).len(), 4);
    assert!(sender.backlog().is_blocked());
    sender.repeat_unanswered(1, Repeat::Probe);
    assert_eq!(
        transmit(&mut sender, 2, 100, &mut |_| {}),
        ["0 start end 10 lower", "3 start end 10 upper"]
    );
    sender.repeat_unanswered(2, Repeat::All);
    assert_eq!(transmit(&mut sender, 3, 100, &mut |_| {}).len(), 4);
}

#[test]
fn spare_room_is_filled_with_the_oldest_first_and_round_again() {
    let mut sender = Sender::new(Numbers::Short, 128);
    sender.push(c_pdu(1, 30, true)).unwrap();
    transmit(&mut sender, 1, 10, &mut |_| {});

    let numbers: Vec<u16> =
        std::iter::from_fn(|| sender.poll_spare(1, 10).map(|outgoing| outgoing.data.fsn.0))
            .take(4)
            .collect();

    assert_eq!(numbers, [0, 1, 2, 0]);
    assert_eq!(sender.poll_spare(1, 9), None);
}

#[test]
fn what_expires_is_dropped_at_both_ends() {
    let mut sender = Sender::new(Numbers::Short, 128);
    let mut receiver = Receiver::new(Numbers::Short);
    let expires = Some(Time::from_nanos(10));
    sender.push(ArqPdu { expires, ..c_pdu(1, 40, true) }).unwrap();
    sender.push(ArqPdu { expires, ..c_pdu(2, 40, true) }).unwrap();
    sender.push(c_pdu(3, 40, true)).unwrap();
    // Two of four pieces go out, one of them arrives.
    for _ in 0..2 {
        let outgoing = sender.poll(Time::ZERO, 1, 10, 10).unwrap();
        if outgoing.data.is_start {
            receiver.handle_data(Numbers::Short, &outgoing.data).unwrap();
        }
    }
    acknowledge(&mut sender, &receiver, 1).unwrap();
    assert_eq!(sender.next_timeout(), expires);

    sender.handle_timeout(Time::from_nanos(10));
    let sent = transmit(&mut sender, 2, 40, &mut |data| {
        receiver.handle_data(Numbers::Short, data).unwrap();
    });
    acknowledge(&mut sender, &receiver, 2).unwrap();

    assert_eq!(sent, ["1 drop 0 lower upper", "2 drop end 0 upper", "3 start end 40 upper"]);
    assert_eq!(delivered(&mut receiver), [3]);
    assert_eq!(receiver.stats().dropped, 1);
    let outcomes: Vec<_> = std::iter::from_fn(|| sender.poll_outcome()).collect();
    // Pieces of the first were left, and of the second all.
    let expired = Outcome::not_arrived(Failure::Expired);
    assert_eq!(
        outcomes,
        [(RequestId(1), expired), (RequestId(2), expired), (RequestId(3), Outcome::Done),]
    );
    assert_eq!(sender.backlog(), ArqBacklog { window: 128, ..ArqBacklog::default() });
}

#[test]
fn of_what_fails_it_is_told_whether_it_may_have_arrived() {
    let mut sender = Sender::new(Numbers::Short, 5);
    for id in 1..4 {
        sender.push(c_pdu(id, 20, true)).unwrap();
    }
    sender.push(ArqPdu { is_retried: true, ..c_pdu(4, 20, true) }).unwrap();
    // Two of two pieces of the first and the second, one of the third.
    transmit(&mut sender, 1, 10, &mut |_| {});

    sender.fail(Failure::NoResponse, true);

    let outcomes: Vec<_> = std::iter::from_fn(|| sender.poll_outcome()).collect();
    let unknown = Outcome::unknown(Failure::NoResponse);
    assert_eq!(
        outcomes,
        [
            (RequestId(1), unknown),
            (RequestId(2), unknown),
            (RequestId(3), Outcome::not_arrived(Failure::NoResponse)),
        ]
    );
    assert_eq!(transmit(&mut sender, 2, 20, &mut |_| {}), ["0 start end 20 lower upper"]);
}

#[test]
fn what_was_begun_is_not_taken_back() {
    let mut sender = Sender::new(Numbers::Short, 1);
    for id in 1..4 {
        sender.push(c_pdu(id, 20, true)).unwrap();
    }
    transmit(&mut sender, 1, 10, &mut |_| {});

    assert!(!sender.take_back(RequestId(1)));
    assert!(sender.take_back(RequestId(2)));
    assert!(!sender.take_back(RequestId(2)));

    let taken = Outcome::not_arrived(Failure::TakenBack);
    assert_eq!(sender.poll_outcome(), Some((RequestId(2), taken)));
    assert_eq!(sender.poll_outcome(), None);
    assert_eq!((sender.backlog().unsent_c_pdus, sender.backlog().unsent), (2, 30));
}

#[test]
fn after_a_reset_only_what_cannot_have_arrived_is_sent_again() {
    let mut sender = Sender::new(Numbers::Short, 3);
    for id in 1..4 {
        sender.push(c_pdu(id, 20, true)).unwrap();
    }
    transmit(&mut sender, 1, 10, &mut |_| {});

    sender.reset();
    let sent = transmit(&mut sender, 2, 20, &mut |_| {});

    assert_eq!(sender.poll_outcome(), Some((RequestId(1), Outcome::unknown(Failure::LinkLost))));
    assert_eq!(sender.poll_outcome(), None);
    assert_eq!(sent, ["0 start end 20 lower upper", "1 start end 20 upper"]);
    assert_eq!(sender.stats().begun_anew, 1);
}

#[test]
fn a_reset_delivers_whole_c_pdus_that_were_acknowledged() {
    let mut sender = Sender::new(Numbers::Short, 128);
    let mut receiver = Receiver::new(Numbers::Short);
    for id in 1..4 {
        sender.push(c_pdu(id, 20, true)).unwrap();
    }
    transmit(&mut sender, 1, 20, &mut |data| {
        if data.fsn.0 != 0 {
            receiver.handle_data(Numbers::Short, data).unwrap();
        }
    });
    acknowledge(&mut sender, &receiver, 1).unwrap();

    sender.reset();
    receiver.reset();

    assert_eq!(delivered(&mut receiver), [2, 3]);
    let done: Vec<_> = std::iter::from_fn(|| sender.poll_outcome()).map(|(id, _)| id.0).collect();
    assert_eq!(done, [1, 2, 3]);
}

#[test]
fn a_sender_that_restarted_is_noticed() {
    for numbers in NUMBERS {
        let mut receiver = Receiver::new(numbers);
        let mut sender = Sender::new(numbers, 100);
        sender.push(c_pdu(1, 500, true)).unwrap();
        transmit(&mut sender, 1, 10, &mut |data| {
            receiver.handle_data(numbers, data).unwrap();
        });
        let mut restarted = Sender::new(numbers, 100);
        restarted.push(c_pdu(2, 500, true)).unwrap();

        let mut errors = Vec::new();
        transmit(&mut restarted, 1, 10, &mut |data| {
            errors.extend(receiver.handle_data(numbers, data).err());
        });

        assert_eq!(errors[..], [OutOfSync::UpperEdge; 50]);
        assert_eq!(delivered(&mut receiver), [1]);
    }
}

#[test]
fn a_receiver_that_restarted_is_noticed() {
    for numbers in NUMBERS {
        let mut receiver = Receiver::new(numbers);
        let mut sender = Sender::new(numbers, 100);
        // The short numbers go round, so the new ones look like old ones.
        for id in 0..250 {
            sender.push(c_pdu(id, 10, true)).unwrap();
        }
        for turn in 0..3 {
            transmit(&mut sender, turn, 10, &mut |data| {
                receiver.handle_data(numbers, data).unwrap();
            });
            acknowledge(&mut sender, &receiver, turn).unwrap();
        }
        while sender.poll_outcome().is_some() {}
        for id in 0..20 {
            sender.push(c_pdu(id, 10, true)).unwrap();
        }

        let mut restarted = Receiver::new(numbers);
        let mut errors = 0;
        transmit(&mut sender, 4, 10, &mut |data| {
            errors += u32::from(restarted.handle_data(numbers, data).is_err());
        });

        assert_eq!(errors, 20);
        assert!(restarted.acks(1023).is_empty());
        assert!(!restarted.is_ack_due());
        assert_eq!(sender.poll_outcome(), None);
    }
}

#[test]
fn a_receiver_that_forgot_a_frame_is_noticed() {
    let mut receiver = Receiver::new(Numbers::Short);
    let mut sender = Sender::new(Numbers::Short, 100);
    sender.push(c_pdu(1, 100, true)).unwrap();
    transmit(&mut sender, 1, 10, &mut |data| {
        if data.fsn.0 != 0 {
            receiver.handle_data(Numbers::Short, data).unwrap();
        }
    });
    acknowledge(&mut sender, &receiver, 1).unwrap();

    let restarted = Receiver::new(Numbers::Short);

    assert_eq!(acknowledge(&mut sender, &restarted, 1), Err(OutOfSync::Forgotten));
    assert_eq!(sender.poll_spare(2, 10), None);
    sender.reset();
    assert_eq!(sender.poll_outcome(), Some((RequestId(1), Outcome::unknown(Failure::LinkLost))));
}

#[test]
fn thousands_of_frames_are_acknowledged_in_few_frames() {
    for (every, most) in [(50, 1), (2, 3)] {
        let mut sender = Sender::new(Numbers::Long, 20_000);
        let mut receiver = Receiver::new(Numbers::Long);
        for id in 0..2000 {
            sender.push(c_pdu(id, 1000, false)).unwrap();
        }
        let mut lost = 0;
        transmit(&mut sender, 1, 100, &mut |data| {
            if data.fsn.0 % every == 0 {
                lost += 1;
            } else {
                receiver.handle_data(Numbers::Long, data).unwrap();
            }
        });

        let acks = receiver.acks(1023);
        let acked = acknowledge(&mut sender, &receiver, 1).unwrap();

        assert!(acks.len() <= most, "{}", acks.len());
        assert_eq!((acked.lost, acked.arrived), (lost, 20_000 - lost));
    }
}

#[test]
fn a_list_of_what_has_arrived_is_filled_before_another_begins() {
    let mut receiver = Receiver::new(Numbers::Long);
    for number in (0..640).filter(|number| number % 40 != 0) {
        receiver.handle_data(Numbers::Long, &wire_data(number, true, &[7])).unwrap();
    }

    // 31 runs, and an empty one before the first, which has arrived.
    let octets = |list| receiver.acks(list).iter().map(Acknowledgement::size).collect::<Vec<_>>();
    assert_eq!([octets(32), octets(16)], [vec![32], vec![16, 16]]);
}

#[test]
fn hostile_frames_do_not_fill_the_memory() {
    let mut receiver = Receiver::new(Numbers::Long);
    let octets = [0; 1023];
    // One C_PDU without end, and pieces without beginning.
    for number in 0..40_000_u32 {
        let [low, high, ..] = number.to_le_bytes();
        let data = wire_data(u16::from_le_bytes([low, high]), number == 0, &octets);
        receiver.handle_data(Numbers::Long, &data).unwrap();
    }

    assert_eq!(receiver.poll_delivered(), None);
    assert!(receiver.held() <= MAX_C_PDU, "{}", receiver.held());
}

fn c_pdu(id: u64, len: usize, in_order: bool) -> ArqPdu {
    let octets = vec![id.to_le_bytes()[0]; len];
    ArqPdu { id: RequestId(id), octets, in_order, priority: 0, expires: None, is_retried: false }
}

/// Sends all there is in one turn, and tells it.
fn transmit(
    sender: &mut Sender,
    turn: u64,
    segment: usize,
    channel: &mut dyn FnMut(&wire::Data<'_>),
) -> Vec<String> {
    let mut sent = Vec::new();
    while let Some(DataFrame { data, .. }) = sender.poll(Time::ZERO, turn, segment, 1023) {
        channel(&data);
        let flags = [(data.is_drop, "drop "), (data.is_start, "start "), (data.is_end, "end ")];
        let edges = [(data.at_lower_edge, " lower"), (data.at_upper_edge, " upper")];
        let words = |all: &[(bool, &'static str)]| -> String {
            all.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| *word).collect()
        };
        let len = data.segment.octets.len();
        sent.push(format!("{} {}{len}{}", data.fsn.0, words(&flags), words(&edges)));
    }
    sent
}

fn acknowledge(sender: &mut Sender, receiver: &Receiver, turn: u64) -> Result<Acked, OutOfSync> {
    let mut all = Acked::default();
    for ack in receiver.acks(1023) {
        let acked = sender.handle_ack(&report(&ack, receiver.numbers()), turn)?;
        all.arrived += acked.arrived;
        all.lost += acked.lost;
        all.lost_octets += acked.lost_octets;
    }
    Ok(all)
}

fn report(ack: &Acknowledgement, numbers: Numbers) -> wire::Report<'_> {
    match ack.body() {
        Body::Ack { ack, .. } => ack.report(numbers),
        Body::LongAck(ack) => ack.report(),
        other => unreachable!("{other:?}"),
    }
}

/// The first octet of each C_PDU that is delivered.
fn delivered(receiver: &mut Receiver) -> Vec<u8> {
    std::iter::from_fn(|| receiver.poll_delivered()).map(|c_pdu| c_pdu.octets[0]).collect()
}

fn wire_data(number: u16, is_start: bool, octets: &[u8]) -> wire::Data<'_> {
    wire::Data {
        fsn: Fsn(number),
        is_start,
        is_end: false,
        in_order: false,
        is_drop: false,
        at_upper_edge: false,
        at_lower_edge: false,
        segment: CpduSegment::new(octets),
    }
}

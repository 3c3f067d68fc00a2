//! Tests that more urgent C_PDUs overtake.

use super::*;

const URGENT: u8 = 9;

#[test]
fn the_least_urgent_is_what_waits_whether_it_was_sent_or_not() {
    let mut sender = Sender::new(Numbers::Short, 128);
    assert_eq!((sender.urgency(), sender.least_urgency()), (0, None));
    sender.push(urgent(1, 30)).unwrap();
    assert_eq!(sender.least_urgency(), Some(URGENT));

    sender.push(c_pdu(2, 300, true)).unwrap();
    assert_eq!((sender.urgency(), sender.least_urgency()), (URGENT, Some(0)));
    transmit(&mut sender, 1, 100, &mut |_| {});
    assert_eq!(sender.least_urgency(), None, "all of it is on its way");
    sender.repeat_unanswered(1, Repeat::All);

    assert_eq!((sender.urgency(), sender.least_urgency()), (URGENT, Some(0)));
}

#[test]
fn an_urgent_c_pdu_overtakes_the_rest_of_the_one_being_cut() {
    for numbers in NUMBERS {
        let mut sender = Sender::new(numbers, 128);
        let mut receiver = Receiver::new(numbers);
        sender.push(c_pdu(1, 50, true)).unwrap();
        forward_one(&mut sender, &mut receiver, 1);
        sender.push(urgent(2, 20)).unwrap();

        let sent = transmit(&mut sender, 1, 10, &mut |data| {
            receiver.handle_data(numbers, data).unwrap();
        });

        // The pieces that are left keep their numbers, 1 to 4.
        let urgent_first = ["5 start 10 upper", "6 end 10 upper"];
        assert_eq!(sent[..2], urgent_first);
        assert_eq!(sent[2..], ["1 10", "2 10", "3 10", "4 end 10"]);
        let first = receiver.poll_delivered().unwrap();
        assert_eq!((first.octets, first.in_order), (vec![2; 20], false));
        assert_eq!(receiver.poll_delivered().unwrap().octets, vec![1; 50]);
        acknowledge(&mut sender, &receiver, 1).unwrap();
        assert_eq!(outcomes(&mut sender), [(2, Outcome::Done), (1, Outcome::Done)]);
        assert_eq!(sender.backlog(), ArqBacklog { window: 128, ..ArqBacklog::default() });
    }
}

#[test]
fn what_overtakes_is_delivered_while_the_rest_is_still_to_come() {
    let mut sender = Sender::new(Numbers::Short, 128);
    let mut receiver = Receiver::new(Numbers::Short);
    sender.push(c_pdu(1, 50, true)).unwrap();
    forward_one(&mut sender, &mut receiver, 1);
    sender.push(urgent(2, 10)).unwrap();

    forward_one(&mut sender, &mut receiver, 1);

    assert_eq!(delivered(&mut receiver), [2]);
}

#[test]
fn an_urgent_c_pdu_that_is_lost_is_repeated_first() {
    let mut sender = Sender::new(Numbers::Short, 128);
    let receiver = Receiver::new(Numbers::Short);
    sender.push(c_pdu(1, 20, true)).unwrap();
    sender.push(urgent(2, 10)).unwrap();
    transmit(&mut sender, 1, 10, &mut |_| {});
    acknowledge(&mut sender, &receiver, 1).unwrap();

    let again = transmit(&mut sender, 2, 10, &mut |_| {});

    assert_eq!(again, ["2 start end 10 upper", "0 start 10 lower", "1 end 10"]);
}

#[test]
fn the_order_of_a_priority_is_kept_when_a_frame_is_lost() {
    for numbers in NUMBERS {
        let mut sender = Sender::new(numbers, 128);
        let mut receiver = Receiver::new(numbers);
        sender.push(c_pdu(1, 20, true)).unwrap();
        sender.push(c_pdu(2, 20, true)).unwrap();
        for id in 3..6 {
            sender.push(urgent(id, 10)).unwrap();
        }

        // The first frame of each priority is lost: 0 and 4.
        let sent = transmit(&mut sender, 1, 10, &mut |data| {
            if ![0, 4].contains(&data.fsn.0) {
                receiver.handle_data(numbers, data).unwrap();
            }
        });
        let early = delivered(&mut receiver);
        acknowledge(&mut sender, &receiver, 1).unwrap();
        transmit(&mut sender, 2, 10, &mut |data| {
            receiver.handle_data(numbers, data).unwrap();
        });

        assert_eq!(sent[0], "4 start end 10 upper");
        assert_eq!(early, []);
        // The first urgent one overtakes; those after it wait for it, and so for what it overtook.
        assert_eq!(delivered(&mut receiver), [3, 1, 2, 4, 5]);
    }
}

#[test]
fn nothing_overtakes_where_the_window_has_no_numbers_for_what_is_overtaken() {
    // Of six numbers one is used, four are needed for the rest, and one for what overtakes.
    for (window, first) in [(5, "1 10 upper"), (6, "5 start end 10 upper")] {
        let mut sender = Sender::new(Numbers::Short, window);
        let mut receiver = Receiver::new(Numbers::Short);
        sender.push(c_pdu(1, 50, true)).unwrap();
        forward_one(&mut sender, &mut receiver, 1);
        sender.push(urgent(2, 10)).unwrap();

        let sent = transmit(&mut sender, 1, 10, &mut |_| {});

        assert_eq!(sent[0], first);
        assert_eq!(sent.len() + 1, window as usize);
    }
}

#[test]
fn a_reset_begins_anew_what_was_numbered_but_never_sent() {
    let mut sender = Sender::new(Numbers::Short, 128);
    let mut receiver = Receiver::new(Numbers::Short);
    sender.push(c_pdu(1, 50, true)).unwrap();
    forward_one(&mut sender, &mut receiver, 1);
    sender.push(urgent(2, 10)).unwrap();
    // The urgent one is sent and not acknowledged; of the other, one piece is never sent.
    for _ in 0..4 {
        forward_one(&mut sender, &mut receiver, 1);
    }

    sender.reset();
    receiver.reset();

    let lost = Outcome::unknown(Failure::LinkLost);
    assert_eq!(outcomes(&mut sender), [(2, lost)]);
    assert_eq!((sender.stats().unknown, sender.stats().begun_anew), (1, 1));
    assert_eq!((sender.backlog().unsent, sender.backlog().unsent_c_pdus), (50, 1));
    transmit(&mut sender, 2, 50, &mut |data| {
        receiver.handle_data(Numbers::Short, data).unwrap();
    });
    acknowledge(&mut sender, &receiver, 2).unwrap();
    assert_eq!(delivered(&mut receiver), [2, 1]);
    assert_eq!(outcomes(&mut sender), [(1, Outcome::Done)]);
}

#[test]
fn a_reset_does_not_know_of_what_was_overtaken_and_then_sent_whole() {
    let mut sender = Sender::new(Numbers::Short, 128);
    sender.push(c_pdu(1, 50, true)).unwrap();
    sender.push(urgent(2, 10)).unwrap();
    transmit(&mut sender, 1, 10, &mut |_| {});

    sender.reset();

    let lost = Outcome::unknown(Failure::LinkLost);
    assert_eq!(outcomes(&mut sender), [(1, lost), (2, lost)]);
}

#[test]
fn a_reset_since_a_turn_begins_anew_what_was_numbered_before_and_first_sent_in_it() {
    let mut sender = Sender::new(Numbers::Short, 128);
    sender.push(c_pdu(1, 50, true)).unwrap();
    sender.push(urgent(2, 10)).unwrap();
    assert_eq!(sender.poll(Time::ZERO, 1, 10, 10).unwrap().data.fsn, Fsn(5));
    transmit(&mut sender, 2, 10, &mut |_| {});

    sender.reset_since(2);

    assert_eq!(outcomes(&mut sender), [(2, Outcome::unknown(Failure::LinkLost))]);
    assert_eq!(sender.backlog().unsent, 50);
}

#[test]
fn a_reset_does_not_exchange_c_pdus_of_a_priority() {
    let mut sender = Sender::new(Numbers::Short, 128);
    let mut receiver = Receiver::new(Numbers::Short);
    sender.push(c_pdu(1, 30, true)).unwrap();
    sender.push(c_pdu(2, 5, true)).unwrap();
    sender.push(urgent(3, 10)).unwrap();
    sender.push(c_pdu(4, 5, true)).unwrap();
    // There is room for the urgent one; the first does not fit, nor goes one after it ahead of it.
    while let Some(next) = sender.poll(Time::ZERO, 1, 30, 10) {
        receiver.handle_data(Numbers::Short, &next.data).unwrap();
    }
    acknowledge(&mut sender, &receiver, 1).unwrap();
    let early = delivered(&mut receiver);

    sender.reset();
    receiver.reset();
    transmit(&mut sender, 2, 30, &mut |data| {
        receiver.handle_data(Numbers::Short, data).unwrap();
    });

    assert_eq!(early, [3]);
    assert_eq!(delivered(&mut receiver), [1, 2, 4]);
}

#[test]
fn a_number_that_was_never_sent_cannot_be_acknowledged() {
    for numbers in NUMBERS {
        let mut sender = Sender::new(numbers, 128);
        sender.push(c_pdu(1, 30, true)).unwrap();
        sender.push(urgent(2, 10)).unwrap();
        // Where nothing fits, frames get their numbers and are not sent.
        assert_eq!(sender.poll(Time::ZERO, 1, 10, 0), None);
        assert_eq!((sender.backlog().due, sender.has_sent()), (3, false));
        // Frame 3, and after it frame 0: 1 and 2 have only their numbers.
        for _ in 0..2 {
            assert!(sender.poll(Time::ZERO, 1, 10, 10).is_some());
        }
        assert!(sender.has_sent());
        let heard = |lwe: u16, bitmap: &[u8]| {
            let ack = wire::Ack { lwe: Fsn(lwe), bitmap };
            sender.clone().handle_ack(&ack.report(numbers), 1).map(|acked| acked.arrived)
        };

        assert_eq!(heard(1, &[0b10]), Ok(2));
        assert_eq!(heard(2, &[]), Err(OutOfSync::AckEdge));
        assert_eq!(heard(4, &[]), Err(OutOfSync::AckEdge));
        assert_eq!(heard(1, &[0b11]), Err(OutOfSync::AckNumber));
    }
}

#[test]
fn what_was_overtaken_and_expires_unsent_is_given_up_at_both_ends() {
    for sent_before in [0, 1] {
        let mut sender = Sender::new(Numbers::Short, 128);
        let mut receiver = Receiver::new(Numbers::Short);
        let expires = Some(Time::from_nanos(10));
        sender.push(ArqPdu { expires, ..c_pdu(1, 30, true) }).unwrap();
        for _ in 0..sent_before {
            forward_one(&mut sender, &mut receiver, 1);
        }
        sender.push(urgent(2, 10)).unwrap();
        forward_one(&mut sender, &mut receiver, 1);
        sender.push(c_pdu(3, 10, true)).unwrap();

        sender.handle_timeout(Time::from_nanos(10));
        let backlog = sender.backlog();
        let sent = transmit(&mut sender, 1, 10, &mut |data| {
            receiver.handle_data(Numbers::Short, data).unwrap();
        });
        acknowledge(&mut sender, &receiver, 1).unwrap();

        // Its numbers are still sent, else the lower edge would stand; its octets are not.
        assert_eq!((backlog.due, backlog.due_octets, backlog.unsent), (3 - sent_before, 0, 10));
        assert_eq!(sent[sent.len() - 3..], ["1 drop 0", "2 drop end 0", "4 start end 10 upper"]);
        assert_eq!(delivered(&mut receiver), [2, 3]);
        assert_eq!((receiver.stats().dropped, receiver.held()), (1, 0));
        let expired = Outcome::not_arrived(Failure::Expired);
        let expected = [(1, expired), (2, Outcome::Done), (3, Outcome::Done)];
        assert_eq!(outcomes(&mut sender), expected);
        assert_eq!(sender.backlog(), ArqBacklog { window: 128, ..ArqBacklog::default() });
    }
}

#[test]
fn what_was_overtaken_and_expired_is_not_begun_anew_by_a_reset() {
    let mut sender = Sender::new(Numbers::Short, 128);
    sender.push(ArqPdu { expires: Some(Time::from_nanos(10)), ..c_pdu(1, 30, true) }).unwrap();
    sender.push(urgent(2, 10)).unwrap();
    assert!(sender.poll(Time::ZERO, 1, 10, 10).is_some());
    sender.handle_timeout(Time::from_nanos(10));

    sender.reset();

    let expired = Outcome::not_arrived(Failure::Expired);
    let lost = Outcome::unknown(Failure::LinkLost);
    assert_eq!(outcomes(&mut sender), [(1, expired), (2, lost)]);
    assert_eq!(sender.backlog(), ArqBacklog { window: 128, ..ArqBacklog::default() });
}

fn urgent(id: u64, len: usize) -> ArqPdu {
    ArqPdu { priority: URGENT, ..c_pdu(id, len, true) }
}

/// Sends the next frame, of at most ten octets, to the other end.
fn forward_one(sender: &mut Sender, receiver: &mut Receiver, turn: u64) {
    let next = sender.poll(Time::ZERO, turn, 10, 10).unwrap();
    receiver.handle_data(receiver.numbers(), &next.data).unwrap();
}

fn outcomes(sender: &mut Sender) -> Vec<(u64, Outcome)> {
    std::iter::from_fn(|| sender.poll_outcome()).map(|(id, outcome)| (id.0, outcome)).collect()
}

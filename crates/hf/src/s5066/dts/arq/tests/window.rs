//! What lies in the windows and what lies just outside, all round the circle of the numbers (Annex C,
//! section 6.2).

use super::*;
use crate::s5066::dts::wire::Ack;

#[test]
fn an_acknowledgement_whose_lower_edge_lies_beyond_what_was_sent_is_refused() {
    for (numbers, lower) in places() {
        let window = u64::from(numbers.max_window());
        for sent in [1, 5, window] {
            let (mut sender, _) = ends(numbers, lower);
            send_octets(&mut sender, sent);
            let heard = |edge: u64| {
                let ack = Ack { lwe: numbers.fsn(edge), bitmap: &[] };
                sender.clone().handle_ack(&ack.report(numbers), 0).map(|acked| acked.arrived)
            };

            assert_eq!(heard(lower), Ok(0));
            assert_eq!(heard(lower + sent).map(u64::from), Ok(sent));
            for beyond in [sent + 1, window + 1, 2 * window - 1] {
                let text = format!("{numbers:?}, {sent} from {lower} on, edge {beyond} beyond");
                assert_eq!(heard(lower + beyond), Err(OutOfSync::AckEdge), "{text}");
            }
        }
    }
}

#[test]
fn an_acknowledgement_of_a_frame_beyond_what_was_sent_is_refused() {
    for (numbers, lower) in places() {
        let (mut sender, _) = ends(numbers, lower);
        send_octets(&mut sender, 8);
        let heard = |bitmap: &[u8]| {
            let ack = Ack { lwe: numbers.fsn(lower), bitmap };
            sender.clone().handle_ack(&ack.report(numbers), 0).map(|acked| acked.arrived)
        };

        assert_eq!(heard(&[0b0100_0000]), Ok(1));
        assert_eq!(heard(&[0b1000_0000]), Err(OutOfSync::AckNumber));
    }
}

#[test]
fn a_sender_has_at_most_a_window_of_unacknowledged_frames() {
    for (numbers, lower) in places() {
        let (mut sender, mut receiver) = ends(numbers, lower);
        let window = u64::from(numbers.max_window());
        send_octets(&mut sender, window);
        sender.push(c_pdu(0, 2, true)).unwrap();

        assert_eq!(sender.backlog().window, 0);
        assert_eq!(sender.poll(Time::ZERO, 0, 1, 1), None);

        // The frame at its edge is the last that the receiver takes.
        assert_eq!(take(&mut receiver, lower + window - 1), Ok(Verdict::New));
        // One more that is acknowledged makes room for one more.
        let ack = Ack { lwe: numbers.fsn(lower + 1), bitmap: &[] };
        sender.handle_ack(&ack.report(numbers), 0).unwrap();
        let next = first_new(&mut sender);
        assert_eq!(next, Some(numbers.fsn(lower + window)));
        assert_eq!(sender.backlog().window, 0);
    }
}

#[test]
fn a_sender_takes_no_wider_window_than_half_of_the_numbers() {
    for numbers in NUMBERS {
        let sender = Sender::new(numbers, u32::MAX);

        assert_eq!(sender.backlog().window, numbers.max_window() as usize);
    }
}

#[test]
fn a_number_is_new_in_the_window_and_nowhere_else() {
    for (numbers, lower) in places() {
        let window = u64::from(numbers.max_window());
        for ahead in [0, 1, 9, window - 1] {
            let (_, mut receiver) = ends(numbers, lower);
            // The newest frame lies that far ahead of the lower edge; between them all are missing.
            if ahead > 0 {
                assert_eq!(take(&mut receiver, lower + ahead), Ok(Verdict::New));
            }
            let upper = if ahead == 0 { lower } else { lower + ahead + 1 };
            for after in around(numbers, ahead) {
                // RX UWE - (W-1) <= FSN <= RX LWE + W-1.
                let expected = if after < window {
                    let has_arrived = ahead > 0 && after == ahead;
                    Ok(if has_arrived { Verdict::Duplicate } else { Verdict::New })
                } else {
                    match (lower + after).checked_sub(2 * window) {
                        Some(at) if at + window >= upper => Ok(Verdict::Duplicate),
                        _ => Err(OutOfSync::Number),
                    }
                };

                let arrival = take(&mut receiver.clone(), lower + after);

                assert_eq!(arrival, expected, "{numbers:?}, {lower} + {after}, newest + {ahead}");
            }
        }
    }
}

#[test]
fn a_number_a_window_ahead_is_refused_while_the_newest_frame_lies_ahead() {
    for (numbers, lower) in places() {
        let (_, mut receiver) = ends(numbers, lower);
        let window = u64::from(numbers.max_window());
        take(&mut receiver, lower + 1).unwrap();

        assert_eq!(take(&mut receiver.clone(), lower + window - 1), Ok(Verdict::New));
        assert_eq!(take(&mut receiver, lower + window), Err(OutOfSync::Number));
        assert_eq!(delivered(&mut receiver).len(), 1);
    }
}

#[test]
fn a_number_just_before_the_window_brings_nothing_new() {
    for (numbers, lower) in places() {
        let (_, receiver) = ends(numbers, lower);
        for before in [1, 2, u64::from(numbers.max_window())] {
            let mut receiver = receiver.clone();

            let arrival = take(&mut receiver, lower + 0x1_0000 - before);

            // Before the first frame of all there is none that could come again.
            let expected =
                if before <= lower { Ok(Verdict::Duplicate) } else { Err(OutOfSync::Number) };
            assert_eq!(arrival, expected, "{numbers:?}, {lower} - {before}");
            assert_eq!(delivered(&mut receiver), []);
            assert_eq!(receiver.held(), 0);
        }
    }
}

/// Lower edges at the start, from which on the window goes round, and beyond that.
fn places() -> Vec<(Numbers, u64)> {
    let mut places = Vec::new();
    for numbers in NUMBERS {
        let all = 2 * u64::from(numbers.max_window());
        places.extend([0, 3, all / 2 + 1, all - 1, all, all + 2].map(|lower| (numbers, lower)));
    }
    places
}

/// Two ends that have exchanged so many frames of one octet.
fn ends(numbers: Numbers, lower: u64) -> (Sender, Receiver) {
    let window = numbers.max_window();
    let mut sender = Sender::new(numbers, window);
    let mut receiver = Receiver::new(numbers);
    let mut left = lower;
    while left > 0 {
        let len = left.min(u64::from(window));
        for data in send_octets(&mut sender, len) {
            let data = wire::Data { fsn: data, ..wire_data(0, true, &[0]) };
            receiver.handle_data(numbers, &wire::Data { is_end: true, ..data }).unwrap();
        }
        acknowledge(&mut sender, &receiver, 0).unwrap();
        left -= len;
    }
    while sender.poll_outcome().is_some() {}
    while receiver.poll_delivered().is_some() {}
    (sender, receiver)
}

/// Sends so many frames of one octet, and tells their numbers.
fn send_octets(sender: &mut Sender, count: u64) -> Vec<Fsn> {
    let mut left = usize::try_from(count).unwrap();
    while left > 0 {
        let len = left.min(MAX_C_PDU);
        sender.push(c_pdu(0, len, true)).unwrap();
        left -= len;
    }
    std::iter::from_fn(|| sender.poll(Time::ZERO, 0, 1, 1).map(|next| next.data.fsn)).collect()
}

/// The number of the first frame that is sent now for the first time.
fn first_new(sender: &mut Sender) -> Option<Fsn> {
    let mut sent = std::iter::from_fn(|| {
        sender.poll(Time::ZERO, 1, 1, 1).map(|next| (next.is_repeat, next.data.fsn))
    });
    sent.find(|(is_repeat, _)| !is_repeat).map(|(_, fsn)| fsn)
}

/// Takes a C_PDU of one frame.
fn take(receiver: &mut Receiver, at: u64) -> Result<Verdict, OutOfSync> {
    let numbers = receiver.numbers();
    let data = wire::Data { is_end: true, fsn: numbers.fsn(at), ..wire_data(0, true, &[7]) };
    receiver.handle_data(numbers, &data)
}

/// Distances from the lower edge: with short numbers all, with long ones those at the edges.
fn around(numbers: Numbers, ahead: u64) -> Vec<u64> {
    let window = u64::from(numbers.max_window());
    match numbers {
        Numbers::Short => (0..2 * window).collect(),
        Numbers::Long => {
            let edges = [0, ahead, window, window + ahead, 2 * window];
            let near = |edge: u64| edge.saturating_sub(2)..edge + 3;
            edges.into_iter().flat_map(near).filter(|&after| after < 2 * window).collect()
        }
    }
}

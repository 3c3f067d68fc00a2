//! Pieces that get lost, damaged, repeated and exchanged.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use proptest::prelude::*;

use super::*;
use crate::s5066::Address;
use crate::s5066::dts::wire::{CpduSegment, Datagram};
use crate::s5066::service::{Failure, Outcome, RequestId};

const FROM: Address = Address::node(1);
const TO: Address = Address::node(2);

#[test]
fn a_c_pdu_is_sent_as_often_as_asked_and_handed_on_once() {
    let mut sender = Sender::new(4095);
    let mut receiver = Receiver::new();
    sender.push(DatagramPdu { repeats: 1, ..c_pdu(1, 100) }).unwrap();
    sender.push(c_pdu(2, 10)).unwrap();

    let mut sent = Vec::new();
    while let Some(DatagramFrame { to, datagram, is_repeat }) = sender.poll(at(sent.len()), 60, 100)
    {
        receiver.handle_datagram(at(sent.len()), FROM, to, &datagram);
        let Datagram { id, offset, window, .. } = datagram;
        sent.push((id, offset, window, is_repeat));
    }

    assert_eq!(
        sent,
        [
            (4095, 0, 20, false),
            (4095, 50, 18, false),
            (0, 0, 20, false),
            (4095, 0, 14, true),
            (4095, 50, 12, true),
        ]
    );
    assert_eq!(sender.poll_outcome(), Some((RequestId(2), Outcome::Done)));
    assert_eq!(sender.poll_outcome(), Some((RequestId(1), Outcome::Done)));
    let arrived = arrived(&mut receiver);
    assert_eq!(arrived.iter().map(|c_pdu| c_pdu.octets[0]).collect::<Vec<_>>(), [1, 2]);
    assert!(arrived.iter().all(Arrived::is_whole));
    assert_eq!(receiver.stats().duplicates, 2);
}

#[test]
fn a_c_pdu_that_was_begun_goes_on_in_shorter_pieces_where_transmissions_are_shorter() {
    let mut sender = Sender::new(0);
    let mut receiver = Receiver::new();
    sender.push(c_pdu(1, 100)).unwrap();

    let mut pieces = Vec::new();
    for segment in [50, 20, 20, 20] {
        let frame = sender.poll(Time::ZERO, segment, segment).expect("it fits");
        pieces.push(frame.datagram.segment.octets.len());
        receiver.handle_datagram(Time::ZERO, FROM, TO, &frame.datagram);
    }

    assert_eq!(pieces, [50, 20, 20, 10]);
    assert!(arrived(&mut receiver)[0].is_whole());
}

#[test]
fn expedited_ones_go_first_and_count_for_themselves() {
    let mut sender = Sender::new(7);
    sender.push(c_pdu(1, 10)).unwrap();
    sender.push(DatagramPdu { is_expedited: true, ..c_pdu(2, 10) }).unwrap();

    let mut kinds = Vec::new();
    while let Some(DatagramFrame { datagram, .. }) = sender.poll(Time::ZERO, 60, 100) {
        kinds.push((datagram.is_expedited, datagram.id));
    }

    assert_eq!(kinds, [(true, 7), (false, 7)]);
}

#[test]
fn what_waited_long_for_another_leaves_no_deadline_behind() {
    let mut receiver = Receiver::new();
    let piece = |id, window, octets| Datagram {
        is_expedited: false,
        id,
        in_order: true,
        size: 4,
        offset: 0,
        window,
        segment: CpduSegment::new(octets),
    };
    receiver.handle_datagram(at(0), FROM, TO, &piece(1, 200, &[1, 1]));
    receiver.handle_datagram(at(0), FROM, TO, &piece(2, 2, &[2, 2]));

    receiver.handle_timeout(at(100));

    assert_eq!(arrived(&mut receiver).len(), 2);
    assert!(receiver.next_timeout().is_some_and(|next| next > at(100)));
}

#[test]
fn nothing_is_sent_after_the_window_or_the_time_to_live() {
    let mut sender = Sender::new(0);
    sender.push(DatagramPdu { repeats: 15, ..c_pdu(1, 10) }).unwrap();
    sender.push(DatagramPdu { expires: Some(at(3)), ..c_pdu(2, 2000) }).unwrap();

    assert!(sender.poll(at(0), 100, 100).is_some());
    assert!(sender.poll(at(2), 100, 100).is_some());
    assert_eq!(sender.next_timeout(), Some(at(3)));
    sender.handle_timeout(at(3));
    sender.handle_timeout(at(10));

    assert_eq!(sender.poll_outcome(), Some((RequestId(2), Outcome::not_arrived(Failure::Expired))));
    assert_eq!(sender.poll_outcome(), Some((RequestId(1), Outcome::Done)));
    assert!(!sender.is_due());
    assert_eq!(sender.next_timeout(), None);
}

#[test]
fn errors_and_gaps_are_told_when_the_window_closes() {
    let mut receiver = Receiver::new();
    let piece = |offset, is_good| Datagram {
        offset,
        segment: CpduSegment { octets: &[9; 10], is_good },
        ..datagram(5, 40)
    };
    receiver.handle_datagram(at(0), FROM, TO, &piece(0, true));
    receiver.handle_datagram(at(0), FROM, TO, &piece(5, false));
    receiver.handle_datagram(at(1), FROM, Address::node(2), &piece(25, false));
    assert_eq!(receiver.next_timeout(), Some(at(11)));

    receiver.handle_timeout(at(11));

    let arrived = arrived(&mut receiver);
    assert_eq!(arrived[0].errored, [10..15, 25..35]);
    assert_eq!(arrived[0].missing, [15..25, 35..40]);
    assert_eq!(arrived[0].octets[..16], [[9; 15].as_slice(), &[0]].concat());
    receiver.handle_datagram(at(12), FROM, TO, &piece(0, true));
    assert_eq!(receiver.stats().duplicates, 1);
    receiver.handle_timeout(at(60));
    assert_eq!(receiver.next_timeout(), None);
}

#[test]
fn a_repeat_heals_what_was_damaged() {
    let mut receiver = Receiver::new();
    for is_good in [false, true] {
        let segment = CpduSegment { octets: &[9; 40], is_good };
        receiver.handle_datagram(at(0), FROM, TO, &Datagram { segment, ..datagram(5, 40) });
    }

    assert!(arrived(&mut receiver)[0].is_whole());
}

#[test]
fn the_order_is_that_of_the_numbers_until_a_window_closes() {
    let mut receiver = Receiver::new();
    let piece = |id, octets: &'static [u8]| Datagram {
        in_order: true,
        segment: CpduSegment::new(octets),
        ..datagram(id, 2)
    };

    receiver.handle_datagram(at(0), FROM, TO, &piece(4095, &[1]));
    receiver.handle_datagram(at(1), FROM, TO, &piece(0, &[2, 2]));
    receiver.handle_datagram(at(1), FROM, TO, &Datagram { in_order: false, ..piece(1, &[3, 3]) });
    receiver.handle_datagram(at(1), Address::node(7), TO, &piece(1, &[4, 4]));
    let early: Vec<u8> = arrived(&mut receiver).iter().map(|c_pdu| c_pdu.octets[0]).collect();
    receiver.handle_timeout(at(10));
    let late: Vec<u8> = arrived(&mut receiver).iter().map(|c_pdu| c_pdu.octets[0]).collect();

    assert_eq!(early, [3, 4]);
    assert_eq!(late, [1, 2]);
}

#[test]
fn what_waits_to_be_sent_is_bounded() {
    let mut sender = Sender::new(4090);
    let too_long = c_pdu(0, crate::s5066::dts::arq::MAX_C_PDU + 1);
    assert!(sender.push(too_long).is_err());

    let taken = (0..1_000).take_while(|&id| sender.push(c_pdu(id, 1)).is_ok());
    assert_eq!(taken.count(), 256);
}

#[test]
fn of_so_many_senders_the_one_longest_silent_is_forgotten() {
    let mut receiver = Receiver::new();
    for number in 0..65 {
        let segment = CpduSegment::new(&[7]);
        let from = Address::node(number);
        receiver.handle_datagram(at(0), from, TO, &Datagram { segment, ..datagram(1, 2) });
    }
    assert_eq!((receiver.held(), receiver.stats().evicted), (64 * 2, 1));
}

#[test]
fn of_so_many_c_pdus_of_one_sender_the_oldest_is_forgotten() {
    let mut receiver = Receiver::new();
    for id in 0..33 {
        let segment = CpduSegment::new(&[7]);
        receiver.handle_datagram(at(0), FROM, TO, &Datagram { segment, ..datagram(id, 2) });
    }
    assert_eq!((receiver.held(), receiver.stats().evicted), (32 * 2, 1));
}

#[test]
fn hostile_frames_do_not_fill_the_memory() {
    let mut receiver = Receiver::new();
    let octets = [0; 10];
    for number in 0..20_000_u16 {
        let from = Address::node(u32::from(number % 100));
        let segment = CpduSegment::new(&octets);
        let window = u16::MAX;
        let datagram = Datagram { window, segment, ..datagram(number / 3, 4112) };
        receiver.handle_datagram(at(0), from, TO, &datagram);

        assert!(receiver.held() <= 1 << 20);
    }
    assert!(receiver.stats().evicted > 0);
    for (size, offset, len) in [(0, 0, 0), (5, 0, 6), (5, 0, 0), (5, 65_535, 5), (65_535, 0, 5)] {
        let segment = CpduSegment::new(&octets[..len]);
        let datagram = Datagram { offset, segment, ..datagram(9, size) };
        receiver.handle_datagram(at(0), FROM, TO, &datagram);
    }
    assert_eq!(receiver.stats().invalid, 5);
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn each_c_pdu_is_handed_on_at_most_once_and_good_octets_are_right(
        seed in any::<u64>(),
        lengths in prop::collection::vec((1_usize..1000, 0_u8..4, any::<bool>()), 1..30),
        loss in 0.0..0.8,
    ) {
        let mut rng = Rng::stream(seed, "channel");
        let (mut sender, mut receiver) = (Sender::new(4090), Receiver::new());
        for (id, &(len, repeats, in_order)) in (0..).zip(&lengths) {
            let window = Duration::from_secs(3600);
            sender.push(DatagramPdu { repeats, in_order, window, ..c_pdu(id, len) }).unwrap();
        }
        let mut now = 0;
        while let Some(DatagramFrame { to, datagram, .. }) = sender.poll(at(now), 200, 200) {
            for _ in 0..=rng.below(2) {
                if rng.chance(loss) {
                    continue;
                }
                let mut octets = datagram.segment.octets.to_vec();
                let is_good = rng.chance(0.8);
                if !is_good {
                    octets[0] ^= 1;
                }
                let segment = CpduSegment { octets: &octets, is_good };
                receiver.handle_datagram(at(now), FROM, to, &Datagram { segment, ..datagram });
            }
            now += usize::try_from(rng.below(3)).unwrap();
        }
        receiver.handle_timeout(at(10_000));
        let arrived = arrived(&mut receiver);

        prop_assert_eq!(std::iter::from_fn(|| sender.poll_outcome()).count(), lengths.len());
        prop_assert_eq!(receiver.held(), 0);
        let mut seen = std::collections::BTreeSet::new();
        for c_pdu in arrived {
            let id = c_pdu.octets.iter().find(|&&octet| octet > 1);
            let bad = c_pdu.errored.iter().chain(&c_pdu.missing);
            let bad: usize = bad.map(ExactSizeIterator::len).sum();
            if bad == 0 {
                prop_assert!(c_pdu.octets.iter().all(|octet| Some(octet) == id || *octet < 2));
                prop_assert!(seen.insert(c_pdu.octets[0]));
            }
        }
    }
}

fn arrived(receiver: &mut Receiver) -> Vec<Arrived> {
    std::iter::from_fn(|| receiver.poll_arrived()).collect()
}

fn at(seconds: usize) -> Time {
    Time::ZERO + Duration::from_secs(seconds as u64)
}

fn c_pdu(id: u64, len: usize) -> DatagramPdu {
    DatagramPdu {
        id: RequestId(id),
        to: TO,
        octets: vec![id.to_le_bytes()[0]; len],
        is_expedited: false,
        in_order: false,
        repeats: 0,
        window: Duration::from_secs(10),
        expires: None,
    }
}

fn datagram(id: u16, size: u16) -> Datagram<'static> {
    let segment = CpduSegment::new(&[]);
    let (is_expedited, in_order) = (false, false);
    Datagram { is_expedited, id, in_order, size, offset: 0, window: 20, segment }
}

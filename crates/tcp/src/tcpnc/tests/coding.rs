//! Coding and solving, without TCP.

use base::rng::Rng;
use base::time::Time;
use proptest::prelude::*;

use super::super::receiver::Receiver;
use super::super::sender::{Sender, Verdict};
use super::super::wire::{Ack, Combination};
use super::super::{Config, Stats};

/// A combination that outlives its sender.
#[derive(Clone, Debug)]
struct Owned {
    first: u32,
    count: u8,
    back: u16,
    id: u32,
    key: u16,
    coded: Vec<u8>,
}

/// The two halves and their counters.
struct Pair {
    sender: Sender,
    receiver: Receiver,
    stats: Stats,
    end: u32,
    delivered: Vec<u32>,
}

const SEGMENT: usize = 100;

#[test]
fn two_losses_of_six_pass_unnoticed_as_in_the_papers_figure_3() {
    let mut pair = Pair::new(Config { window: Some(4), extra: 2, ..Config::default() });
    let combinations = pair.send(4);
    assert_eq!(combinations.iter().map(|it| it.count).collect::<Vec<_>>(), [1, 2, 3, 4, 4, 4]);

    // C[2] and C[4] are lost.
    let mut acks = Vec::new();
    for index in [0, 2, 4, 5] {
        let ack = pair.receive(&combinations[index]).unwrap();
        acks.push((ack.unseen, ack.is_hole, pair.delivered.len()));
    }

    // Each arrival makes one more packet seen; the last one solves what the second began.
    assert_eq!(acks, [(1, false, 1), (2, false, 1), (3, false, 1), (4, false, 4)]);
}

#[test]
fn redundancy_that_was_not_needed_is_no_duplicate() {
    let mut pair = Pair::new(Config { window: Some(4), extra: 3, ..Config::default() });

    let acks: Vec<_> = pair.send(4).iter().map(|it| pair.receive(it).unwrap()).collect();

    assert_eq!(acks.iter().map(|ack| ack.unseen).collect::<Vec<_>>(), [1, 2, 3, 4, 4, 4, 4]);
    assert!(acks.iter().all(|ack| !ack.is_hole && ack.echo.is_some()));
    assert_eq!(pair.stats.dependent, 3);
}

#[test]
fn a_window_beyond_its_redundancy_is_reported_with_what_it_lacks() {
    let mut pair = Pair::new(Config { window: Some(4), extra: 1, ..Config::default() });
    let combinations = pair.send(8);

    // Of the first window three of five are lost.
    for index in [0, 3, 5, 6] {
        pair.receive(&combinations[index]).unwrap();
    }
    let ack = pair.receive(&combinations[7]).unwrap();

    assert_eq!((ack.unseen, ack.is_hole), (2, true));
    assert_eq!(ack.runs.as_slice(), [(0, 2)]);
    assert_eq!(pair.delivered.len(), 1);
}

#[test]
fn one_retransmission_of_tcps_brings_all_that_is_missing() {
    let config = Config { window: Some(4), extra: 1, initial_loss: 0.0, ..Config::default() };
    let mut pair = Pair::new(config);
    let combinations = pair.send(12);
    // Of two windows three of five are lost each.
    for index in [0, 3, 5, 8, 10, 11] {
        let ack = pair.receive(&combinations[index]).unwrap();
        pair.acknowledge(&ack);
    }

    let again = pair.send_again(2);

    let mixed: Vec<_> = again.iter().map(|it| (it.first, it.count)).collect();
    assert_eq!(mixed, [(2, 2), (2, 2), (4, 4), (4, 4)]);
    let acks: Vec<_> = again.iter().map(|it| pair.receive(it).unwrap().unseen).collect();
    assert_eq!(acks, [3, 6, 7, 10]);
    assert_eq!(pair.delivered.len(), 10);
    assert_eq!(pair.stats.repairs, 2);
}

#[test]
fn without_enhanced_retransmission_only_what_tcp_sends_goes_again() {
    let config =
        Config { window: Some(4), extra: 1, enhanced_retransmission: false, ..Config::default() };
    let mut pair = Pair::new(config);
    let combinations = pair.send(8);
    for index in [0, 3, 5] {
        let ack = pair.receive(&combinations[index]).unwrap();
        pair.acknowledge(&ack);
    }

    assert_eq!(pair.send_again(2).len(), 1);
}

#[test]
fn a_window_that_waits_in_vain_is_closed() {
    let mut pair = Pair::new(Config { window: Some(50), ..Config::default() });
    assert_eq!(pair.send(2).len(), 2);
    let at = pair.sender.next_timeout().unwrap();

    pair.sender.handle_timeout(at, &mut pair.stats);

    assert_eq!(pair.take().len(), 3);
    assert_eq!(pair.sender.next_timeout(), None);
    assert_eq!((pair.stats.flushes, pair.stats.redundant_sent), (1, 3));
}

#[test]
fn a_running_window_keeps_its_size_when_the_estimate_changes() {
    let config = Config { period: 20, initial_loss: 0.3, ..Config::default() };
    let mut pair = Pair::new(config);
    assert_eq!(pair.sender.window_size(), 3);

    // Nothing is lost, so the next window is as long as they can be; this one is not.
    let mut counts = Vec::new();
    for _ in 0..40 {
        for combination in pair.send(1) {
            counts.push(combination.count);
            let ack = pair.receive(&combination).unwrap();
            pair.acknowledge(&ack);
        }
    }

    assert_eq!(pair.sender.window_size(), 100);
    assert_eq!(counts[..6], [1, 1, 1, 0, 0, 0].map(|n: u8| n.max(1))[..]);
    assert!(pair.stats.redundant_sent >= 9);
}

#[test]
fn hostile_numbers_are_refused() {
    let mut pair = Pair::new(Config::default());
    let good = pair.send(1).remove(0);
    let far = Owned { first: 5_000, ..good.clone() };
    let done = Owned { first: 7, back: 2, ..good.clone() };
    let before = Owned { first: u32::MAX, ..good.clone() };
    let unknown_past = Owned { back: 1, ..good.clone() };

    for hostile in [far, done, before, unknown_past] {
        assert_eq!(pair.receive(&hostile), None, "{hostile:?}");
    }
    assert_eq!(pair.stats.refused, 4);

    let beyond = Ack { unseen: 2, ..Ack::default() };
    let unsent = Ack { echo: Some(9), ..Ack::default() };
    let past = Ack { unseen: u32::MAX, ..Ack::default() };
    for ack in [beyond, unsent, past] {
        assert_eq!(pair.sender.handle_ack(&ack, &mut pair.stats), Verdict::Ignored);
    }
    assert_eq!(pair.stats.bad_acks, 3);
    assert_eq!(pair.receive(&good).map(|ack| ack.unseen), Some(1));
}

#[test]
fn what_is_held_is_bounded() {
    let mut pair = Pair::new(Config { max_packets: 40, ..Config::default() });

    let sent = pair.send(60);

    assert_eq!(pair.sender.held(), 40);
    assert_eq!(pair.stats.full, 20);
    assert!(sent.len() < 60);
}

proptest! {
    #![proptest_config(harness::cases(256))]

    /// Whatever is lost, doubled or late: packets come out right, once, in order, and as long as TCP
    /// goes on sending what is unseen, all of them do.
    #[test]
    fn all_packets_come_out_whatever_the_network_does(
        seed: u64,
        loss in 0.0..0.6,
        window in prop::option::of(1_usize..40),
        segments in prop::collection::vec(1_usize..300, 1..60),
    ) {
        let mut rng = Rng::stream(seed, "network");
        let mut pair = Pair::new(Config { window, ..Config::default() });
        let mut network: Vec<Owned> = Vec::new();
        let mut now = Time::ZERO;
        for len in &segments {
            network.extend(pair.send_one(now, *len));
        }

        let mut rounds = 0;
        while pair.delivered.len() < segments.len() {
            while !network.is_empty() {
                let late = rng.below(network.len().min(3) as u64);
                let combination = network.remove(usize::try_from(late).unwrap());
                if rng.chance(0.05) {
                    network.push(combination.clone());
                }
                if rng.chance(loss) {
                    continue;
                }
                if let Some(ack) = pair.receive(&combination) && !rng.chance(loss) {
                    pair.acknowledge(&ack);
                }
            }
            if let Some(at) = pair.sender.next_timeout() {
                now = at;
                pair.sender.handle_timeout(now, &mut pair.stats);
                network.extend(pair.take());
            }
            let oldest = pair.sender.unseen_octet().unwrap();
            if oldest != pair.end {
                network.extend(pair.send_octets(now, oldest, 200));
            }
            rounds += 1;
            prop_assert!(rounds < 2_000, "{} of {}", pair.delivered.len(), segments.len());
        }

        prop_assert_eq!(pair.stats.undecodable, 0);
        prop_assert_eq!(pair.stats.refused, 0);
        prop_assert!(pair.sender.held() <= segments.len());
    }
}

impl Pair {
    fn new(config: Config) -> Self {
        Self {
            sender: Sender::new(config, Rng::stream(1, "coefficients")),
            receiver: Receiver::new(&config),
            stats: Stats::default(),
            end: 0xffff_ff00,
            delivered: Vec::new(),
        }
    }

    /// Sends so many new segments.
    fn send(&mut self, segments: usize) -> Vec<Owned> {
        (0..segments).flat_map(|_| self.send_one(Time::ZERO, SEGMENT)).collect()
    }

    fn send_one(&mut self, now: Time, len: usize) -> Vec<Owned> {
        let seq = self.end;
        self.end = seq.wrapping_add(u32::try_from(len).unwrap());
        self.send_octets(now, seq, len)
    }

    /// Sends the packet with this number again, where all are of the same length.
    fn send_again(&mut self, number: u32) -> Vec<Owned> {
        let seq = 0xffff_ff00_u32.wrapping_add(number * u32::try_from(SEGMENT).unwrap());
        self.send_octets(Time::ZERO, seq, SEGMENT)
    }

    fn send_octets(&mut self, now: Time, seq: u32, len: usize) -> Vec<Owned> {
        let left = usize::try_from(self.end.wrapping_sub(seq)).unwrap();
        let payload: Vec<_> = (0..len.min(left)).map(|at| octet(seq, at)).collect();
        self.sender.handle_data(now, seq, &payload, &mut self.stats);
        self.take()
    }

    fn take(&mut self) -> Vec<Owned> {
        let mut taken = Vec::new();
        while let Some(it) = self.sender.poll_combination(&mut self.stats) {
            let Combination { first, count, back, id, key, coded } = it;
            taken.push(Owned { first, count, back, id, key, coded: coded.to_vec() });
        }
        taken
    }

    /// Gives a combination to the receiver, and checks what comes out.
    fn receive(&mut self, it: &Owned) -> Option<Ack> {
        let Owned { first, count, back, id, key, ref coded } = *it;
        let combination = Combination { first, count, back, id, key, coded };
        let ack = self.receiver.handle_combination(&combination, &mut self.stats);
        while let Some(delivery) = self.receiver.poll_delivery(&mut self.stats) {
            let payload = self.receiver.payload(delivery);
            assert!((0..delivery.len).all(|at| payload[at] == octet(delivery.seq, at)));
            if let Some(last) = self.delivered.last() {
                assert!(delivery.seq.wrapping_sub(*last).cast_signed() > 0, "in order");
            }
            self.delivered.push(delivery.seq);
        }
        ack
    }

    fn acknowledge(&mut self, ack: &Ack) {
        self.sender.handle_ack(ack, &mut self.stats);
    }
}

fn octet(seq: u32, at: usize) -> u8 {
    let place = seq.wrapping_add(u32::try_from(at).unwrap());
    place.wrapping_mul(2_654_435_761).to_be_bytes()[0]
}

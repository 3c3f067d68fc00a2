//! Any two ends, over a channel that loses, damages, repeats and exchanges frames.

use std::collections::BTreeMap;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use proptest::prelude::*;

use super::NUMBERS;
use crate::s5066::Address;
use crate::s5066::dts::arq::{ArqPdu, Delivered, Receiver, Repeat, Sender};
use crate::s5066::dts::wire::{self, Body, Eow, Frame, Header, Numbers};
use crate::s5066::service::{Outcome, RequestId};

proptest! {
    #![proptest_config(harness::cases(200))]

    #[test]
    fn each_c_pdu_arrives_once_or_is_known_to_have_failed(
        seed in any::<u64>(),
        is_long in any::<bool>(),
        given in prop::collection::vec(given(), 1..40),
        loss in 0.0..0.7,
        mischief in 0.0..0.3,
        resets in 0.0..0.05,
        window in 1_u32..200,
    ) {
        let numbers = NUMBERS[usize::from(!is_long)];
        let mut story = Story::new(seed, numbers, window, loss, mischief, resets);
        story.given = given;
        story.given.sort_by_key(|given| given.turn);

        story.run();

        prop_assert_eq!(story.outcomes.len(), story.given.len());
        for (&id, &outcome) in &story.outcomes {
            let times = story.delivered.iter().filter(|&&got| got == id).count();
            prop_assert!(times <= 1, "{} came {} times", id, times);
            prop_assert!(outcome != Outcome::Done || times == 1, "{} did not come", id);
        }
        for priority in 0..PRIORITIES {
            let is_ordered = |id: &u64| {
                let given = story.given[as_usize(*id)];
                given.in_order && given.priority == priority
            };
            let ordered: Vec<u64> = story.delivered.iter().copied().filter(is_ordered).collect();
            prop_assert!(ordered.is_sorted(), "of priority {}: {:?}", priority, ordered);
        }
        prop_assert_eq!(story.receiver.held(), 0);
    }
}

const PRIORITIES: u8 = 3;

/// A C_PDU that is given to the sender before a turn.
#[derive(Clone, Copy, Debug)]
struct Given {
    turn: u64,
    len: usize,
    in_order: bool,
    priority: u8,
    /// How many turns it is of use.
    ttl: Option<u64>,
}

fn given() -> impl Strategy<Value = Given> {
    let ttl = prop_oneof![Just(None), (1_u64..100).prop_map(Some), (100_u64..400).prop_map(Some)];
    (0_u64..60, 1_usize..600, any::<bool>(), 0..PRIORITIES, ttl).prop_map(
        |(turn, len, in_order, priority, ttl)| Given { turn, len, in_order, priority, ttl },
    )
}

/// A link on which one side sends data, the other acknowledgements.
struct Story {
    now: u64,
    rng: Rng,
    numbers: Numbers,
    sender: Sender,
    receiver: Receiver,
    loss: f64,
    mischief: f64,
    resets: f64,
    outcomes: BTreeMap<u64, Outcome>,
    delivered: Vec<u64>,
    /// What the sender is given, by turns, and how much of it it was given.
    given: Vec<Given>,
    pushed: usize,
}

impl Story {
    fn new(
        seed: u64,
        numbers: Numbers,
        window: u32,
        loss: f64,
        mischief: f64,
        resets: f64,
    ) -> Self {
        Self {
            now: 0,
            rng: Rng::stream(seed, "channel"),
            numbers,
            sender: Sender::new(numbers, window),
            receiver: Receiver::new(numbers),
            loss,
            mischief,
            resets,
            outcomes: BTreeMap::new(),
            delivered: Vec::new(),
            given: Vec::new(),
            pushed: 0,
        }
    }

    /// Gives the sender what is to be sent from this turn on.
    fn push(&mut self, turn: u64) {
        while let Some(&given) = self.given.get(self.pushed).filter(|given| given.turn <= turn) {
            let Given { len, in_order, priority, ttl, .. } = given;
            let id = self.pushed as u64;
            let mut octets = id.to_be_bytes().to_vec();
            octets.resize(octets.len() + len, 0x55);
            let expires = ttl.map(|ttl| Time::from_nanos(turn + ttl));
            self.sender
                .push(ArqPdu {
                    id: RequestId(id),
                    octets,
                    in_order,
                    priority,
                    expires,
                    is_retried: false,
                })
                .unwrap();
            self.pushed += 1;
        }
    }

    fn run(&mut self) {
        for turn in 0..2000 {
            self.now += 1;
            self.push(turn);
            if turn == 1000 {
                // The channel clears up, so that all comes to an end.
                (self.loss, self.mischief, self.resets) = (0.0, 0.0, 0.0);
            }
            let is_ok = self.forward(turn);
            let is_ok = is_ok && self.back(turn);
            if !is_ok || self.rng.chance(self.resets) {
                self.sender.reset();
                self.receiver.reset();
            }
            self.collect();
            let backlog = self.sender.backlog();
            let left = self.given.len() - self.pushed;
            if left + backlog.unanswered + backlog.due + backlog.unsent_c_pdus == 0 {
                break;
            }
        }
        self.receiver.reset();
        self.collect();
    }

    /// One transmission of data; within it frames get lost, damaged, repeated and exchanged.
    fn forward(&mut self, turn: u64) -> bool {
        let now = Time::ZERO + Duration::from_nanos(self.now);
        let segment = 10 + as_usize(self.rng.below(200));
        let mut frames = Vec::new();
        for _ in 0..self.rng.below(40) {
            let room = if turn < 1000 { as_usize(self.rng.below(500)) } else { 500 };
            let next = self.sender.poll(now, turn, segment, room);
            if let Some(outgoing) = next {
                frames.push(emitted(self.numbers, outgoing.data));
            } else if let Some(outgoing) = self.sender.poll_spare(turn, 500) {
                frames.push(emitted(self.numbers, outgoing.data));
            }
        }
        let times = if self.rng.chance(self.mischief) { 2 } else { 1 };
        for index in 0..times * frames.len() {
            let index = index % frames.len();
            if self.rng.chance(self.mischief) {
                let other = as_usize(self.rng.below(frames.len() as u64));
                frames.swap(index, other);
            }
            let Some(octets) = self.noise(&frames[index]) else { continue };
            if let Ok((Frame { body: Body::Data { numbers, data, .. }, .. }, _)) =
                Frame::read(&octets)
                && self.receiver.handle_data(numbers, &data).is_err()
            {
                return false;
            }
        }
        true
    }

    /// One transmission of acknowledgements.
    fn back(&mut self, turn: u64) -> bool {
        let mut acks = self.receiver.acks(16);
        self.receiver.handle_ack_sent();
        if self.numbers == Numbers::Short && self.rng.chance(0.3) {
            acks.extend(self.receiver.ack());
        }
        let mut has_heard = false;
        for ack in &acks {
            let mut octets = Vec::new();
            Frame { header: HEADER, body: ack.body() }.emit(&mut octets);
            let Some(octets) = self.noise(&octets) else { continue };
            let report = match Frame::read(&octets) {
                Ok((Frame { body: Body::Ack { ack, .. }, .. }, _)) => ack.report(self.numbers),
                Ok((Frame { body: Body::LongAck(ack), .. }, _)) => ack.report(),
                _ => continue,
            };
            has_heard = true;
            if self.sender.handle_ack(&report, turn).is_err() {
                return false;
            }
        }
        if !has_heard || self.rng.chance(0.5) {
            let repeat = if self.rng.chance(0.5) { Repeat::All } else { Repeat::Probe };
            self.sender.repeat_unanswered(turn, repeat);
        }
        true
    }

    /// The frame as it arrives, if it does.
    fn noise(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        if self.rng.chance(self.loss) {
            return None;
        }
        let mut octets = frame.to_vec();
        if self.rng.chance(self.mischief) {
            let bit = as_usize(self.rng.below(8 * octets.len() as u64));
            octets[bit / 8] ^= 1 << (bit % 8);
        }
        Some(octets)
    }

    fn collect(&mut self) {
        while let Some((id, outcome)) = self.sender.poll_outcome() {
            assert_eq!(self.outcomes.insert(id.0, outcome), None, "one outcome each");
        }
        while let Some(Delivered { octets, .. }) = self.receiver.poll_delivered() {
            let id = u64::from_be_bytes(*octets.first_chunk().unwrap());
            assert_eq!(octets.len(), 8 + self.given[as_usize(id)].len);
            assert!(octets[8..].iter().all(|&octet| octet == 0x55));
            self.delivered.push(id);
        }
    }
}

const HEADER: Header = Header {
    eow: Eow::None,
    eot: 1,
    to: Address::node(1),
    from: Address::node(2),
    address_size: 1,
};

fn emitted(numbers: Numbers, data: wire::Data<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    Frame { header: HEADER, body: Body::Data { numbers, data, ack: None } }.emit(&mut octets);
    octets
}

fn as_usize(value: u64) -> usize {
    usize::try_from(value).unwrap()
}

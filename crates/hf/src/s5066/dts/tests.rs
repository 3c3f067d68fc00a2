//! Two ends that both send, over a bad channel, with resets by the protocol and restarts.

use std::collections::BTreeMap;

use base::rng::Rng;
use base::time::Time;
use proptest::prelude::*;

use super::arq::{ArqPdu, Receiver, Repeat, Sender};
use super::reset::{Action, Resets};
use super::scan::{Heard, Scanner};
use super::wire::{Body, Eow, Frame, Header, Numbers};
use crate::s5066::Address;
use crate::s5066::service::{Outcome, RequestId};

proptest! {
    #![proptest_config(harness::cases(64))]

    #[test]
    fn resets_and_restarts_neither_double_nor_invent(
        seed in any::<u64>(),
        is_long in any::<bool>(),
        bit_errors in 0.0..0.001,
        upsets in 0.0..0.1,
        restarts in 0.0..0.03,
    ) {
        let numbers = if is_long { Numbers::Long } else { Numbers::Short };
        let mut rng = Rng::stream(seed, "channel");
        let mut ends = [End::new(0, numbers, &mut rng), End::new(1, numbers, &mut rng)];
        for turn in 0..400 {
            let is_clear = turn > 250;
            let from = usize::from(turn % 2 == 1);
            if !is_clear {
                ends[from].push(&mut rng);
                if rng.chance(restarts) {
                    ends[from].restart(numbers, &mut rng);
                }
                if rng.chance(upsets) {
                    ends[from].resets.request();
                }
            }
            let mut stream = ends[from].transmit(turn);
            for octet in &mut stream {
                for bit in 0..8 {
                    *octet ^= u8::from(!is_clear && rng.chance(bit_errors)) << bit;
                }
            }
            ends[1 - from].receive(&stream, turn.saturating_sub(1));
        }

        for (end, other) in [(0, 1), (1, 0)] {
            prop_assert!(!ends[end].resets.is_open());
            for id in 0..ends[end].next {
                let times = ends[other].delivered.get(&id).copied().unwrap_or_default();
                prop_assert!(times <= 1, "{} came {} times", id, times);
                match ends[end].outcomes.get(&id) {
                    Some(Outcome::Done) => prop_assert_eq!(times, 1, "{} did not come", id),
                    Some(Outcome::Failed { .. }) => {}
                    None => prop_assert!(id < ends[end].forgotten, "{} has no outcome", id),
                }
            }
        }
    }
}

struct End {
    name: u8,
    next: u64,
    /// All before this C_PDU were forgotten by a restart.
    forgotten: u64,
    sender: Sender,
    receiver: Receiver,
    resets: Resets,
    /// A number that no request had since the last restart.
    unused: u8,
    scanner: Scanner,
    has_answer: bool,
    outcomes: BTreeMap<u64, Outcome>,
    delivered: BTreeMap<u64, u32>,
}

impl End {
    fn new(name: u8, numbers: Numbers, rng: &mut Rng) -> Self {
        let [unused, ..] = rng.bits().to_le_bytes();
        Self {
            name,
            next: 0,
            forgotten: 0,
            sender: Sender::new(numbers, 40),
            receiver: Receiver::new(numbers),
            resets: Resets::new(unused, 1000),
            unused,
            scanner: Scanner::new(),
            has_answer: true,
            outcomes: BTreeMap::new(),
            delivered: BTreeMap::new(),
        }
    }

    fn push(&mut self, rng: &mut Rng) {
        for _ in 0..rng.below(5) {
            let mut octets = [&[self.name][..], &self.next.to_be_bytes()].concat();
            octets.resize(octets.len() + usize::try_from(rng.below(300)).unwrap(), 0x90);
            let id = RequestId(self.next);
            self.next += 1;
            let c_pdu = ArqPdu {
                id,
                octets,
                in_order: false,
                priority: 0,
                expires: None,
                is_retried: false,
            };
            self.sender.push(c_pdu).unwrap();
        }
    }

    /// All is forgotten but what was told to those above, and the link is begun anew. That the
    /// first request has the number of the last one before, by accident, is left out.
    fn restart(&mut self, numbers: Numbers, rng: &mut Rng) {
        let fresh = Self::new(self.name, numbers, rng);
        self.forgotten = self.next;
        (self.sender, self.receiver) = (fresh.sender, fresh.receiver);
        self.scanner = fresh.scanner;
        self.resets = Resets::new(self.unused, 1000);
        self.resets.request();
    }

    fn transmit(&mut self, turn: u64) -> Vec<u8> {
        if !self.has_answer {
            self.resets.handle_silence();
            self.sender.repeat_unanswered(turn, Repeat::All);
        }
        self.has_answer = false;
        let mut stream = Vec::new();
        let numbers = self.sender.numbers();
        while let Some(reset) = self.resets.poll() {
            if reset.is_full {
                self.unused = reset.id.wrapping_add(1).max(1);
            }
            emit(Body::Reset { numbers, reset }, &mut stream);
        }
        if self.resets.is_open() {
            return stream;
        }
        for ack in self.receiver.acks(50) {
            emit(ack.body(), &mut stream);
        }
        self.receiver.handle_ack_sent();
        for _ in 0..30 {
            let Some(outgoing) = self.sender.poll(Time::ZERO, turn, 60, 60) else { break };
            emit(Body::Data { numbers, data: outgoing.data, ack: None }, &mut stream);
        }
        stream
    }

    fn receive(&mut self, stream: &[u8], turn: u64) {
        let mut scanner = std::mem::take(&mut self.scanner);
        let mut rest = stream;
        while let Some(heard) = scanner.poll(&mut rest) {
            if let Heard::Frame { frame, .. } = heard {
                self.handle(&frame, turn);
            }
        }
        while let Some(heard) = scanner.flush() {
            if let Heard::Frame { frame, .. } = heard {
                self.handle(&frame, turn);
            }
        }
        self.scanner = scanner;
        while let Some((id, outcome)) = self.sender.poll_outcome() {
            assert_eq!(self.outcomes.insert(id.0, outcome), None, "one outcome each");
        }
        while let Some(c_pdu) = self.receiver.poll_delivered() {
            assert_eq!(c_pdu.octets[0], 1 - self.name);
            let id = u64::from_be_bytes(*c_pdu.octets[1..].first_chunk().unwrap());
            *self.delivered.entry(id).or_default() += 1;
        }
    }

    fn handle(&mut self, frame: &Frame<'_>, turn: u64) {
        let is_open = self.resets.is_open();
        let is_in_step = match &frame.body {
            Body::Reset { reset, .. } => {
                if self.resets.handle_reset(reset) == Action::Full {
                    self.sender.reset();
                    self.receiver.reset();
                }
                self.has_answer |= !self.resets.is_open();
                true
            }
            _ if is_open => true,
            Body::Data { numbers, data, .. } => self.receiver.handle_data(*numbers, data).is_ok(),
            Body::Ack { ack, .. } => {
                self.has_answer = true;
                self.sender.handle_ack(&ack.report(Numbers::Short), turn).is_ok()
            }
            Body::LongAck(ack) => {
                self.has_answer = true;
                self.sender.handle_ack(&ack.report(), turn).is_ok()
            }
            other => unreachable!("{other:?}"),
        };
        if !is_in_step {
            self.resets.request();
        }
    }
}

fn emit(body: Body<'_>, stream: &mut Vec<u8>) {
    let header = Header {
        eow: Eow::None,
        eot: 1,
        to: Address::node(1),
        from: Address::node(2),
        address_size: 7,
    };
    Frame { header, body }.emit(stream);
}

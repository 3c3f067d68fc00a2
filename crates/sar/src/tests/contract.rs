//! Nodes keep the contract whatever comes.

use std::time::Duration;

use base::time::Time;
use harness::{Between, Core, Pair, Peer, between, keeps, steps};
use proptest::prelude::*;

use super::bench::{GROUP, PORTS, address, message, rng};
use crate::wire::{Body, Pdu, Place};
use crate::{Arrival, Config, MessageId, Options, Precedence, Profile, Sar};

#[derive(Clone, Debug)]
pub enum Input {
    /// One of the first messages is not wanted any more.
    Cancel(u64),
    /// A segment of a transfer that nobody sends.
    Segment(u16, u16, u16, bool),
    Stray(Vec<u8>),
    Submit {
        octets: usize,
        level: u8,
        lifetime: u64,
        kind: u8,
    },
}

impl Core for Sar {
    type Input = Input;

    fn handle(&mut self, now: Time, input: Input) {
        let from = address(1);
        let arrival = Arrival { from, is_group: false, precedence: Precedence::ROUTINE };
        match input {
            Input::Cancel(id) => _ = self.cancel(now, MessageId(id)),
            Input::Segment(serial, number, last, polls) => {
                let Ok(place) = Place::new(number.min(last), last) else { return };
                let body = Body::Data { is_acknowledged: true, polls, place, data: b"stray" };
                let mut octets = Vec::new();
                Pdu { ports: PORTS, serial, body }.emit(&mut octets);
                let _ = self.handle_datagram(now, arrival, &octets);
            }
            Input::Stray(octets) => _ = self.handle_datagram(now, arrival, &octets),
            Input::Submit { octets, level, lifetime, kind } => {
                let options = Options {
                    precedence: Precedence::new(level),
                    lifetime: (lifetime > 0).then(|| Duration::from_secs(lifetime)),
                    is_acknowledged: kind % 4 != 0,
                    via: (kind % 3 == 0).then_some(GROUP),
                    resume: None,
                };
                let to = [address(0), address(1), address(2)];
                let to = &to[..1 + usize::from(kind % 3)];
                let _ = self.submit(now, &message(octets), to, options);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.handle_timeout(now);
    }

    fn poll(&mut self, _now: Time) -> bool {
        self.poll_event().is_some()
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.poll_transmit(now, out).is_some()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.next_timeout()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let (config, levels) = (self.config(), self.stats().levels);
        let flow = &config.flow;
        // Messages with a lifetime go back to those that wait while their destinations do not answer.
        let transfers = 6 * u64::from(flow.transfers) + 3;
        prop_assert!(levels.waiting <= config.limits.waiting as u64 + transfers, "{levels:?}");
        prop_assert!(levels.transfers <= transfers, "{levels:?}");
        prop_assert!(levels.reassemblies <= config.limits.reassemblies as u64, "{levels:?}");
        let octets = config.limits.reassembly_octets as u64;
        prop_assert!(levels.reassembly_octets <= octets, "{levels:?}");
        prop_assert!(levels.answers <= config.limits.answers as u64, "{levels:?}");
        prop_assert!(levels.remembered <= config.limits.remembered as u64, "{levels:?}");
        let alone = u64::from(config.segment) + 12;
        // What was under way to those that are back counts again.
        let back = transfers * u64::from(flow.credit) * alone;
        let queue = u64::from(flow.queue.max(flow.most_queue)).max(alone) + back;
        let is_bounded = config.profile.has_window();
        prop_assert!(!is_bounded || levels.in_flight <= queue, "{levels:?}");
        Ok(())
    }
}

impl Peer for Sar {
    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        // The other one has every address.
        for from in [address(0), address(1), address(2)] {
            let arrival = Arrival { from, is_group: true, precedence: Precedence::ROUTINE };
            let _ = self.handle_datagram(now, arrival, octets);
        }
    }
}

fn config(profile: Profile) -> Config {
    let mut config = Config::of(profile);
    config.segment = 100;
    config.coding = true;
    config.flow.queue = 700;
    config.flow.transfers = 2;
    config.flow.transfers_of_peer = 2;
    config.flow.spacing = Duration::from_millis(300);
    config.limits.message = 2_000;
    config.limits.waiting = 5;
    config.limits.reassemblies = 4;
    config.limits.reassembly_octets = 5_000;
    config.limits.remembered = 5;
    config.limits.answers = 8;
    config.limits.peers = 2;
    config
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        4 => (1_usize..900, 0_u8..6, 0_u64..40, any::<u8>()).prop_map(
            |(octets, level, lifetime, kind)| Input::Submit { octets, level, lifetime, kind }
        ),
        1 => (98_u16..104, 1_u16..5, 1_u16..5, any::<bool>())
            .prop_map(|(serial, number, last, polls)| Input::Segment(serial, number, last, polls)),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Input::Stray),
        1 => (0_u64..30).prop_map(Input::Cancel),
    ]
}

fn pair() -> impl Strategy<Value = Between<Input>> {
    between(input())
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn two_nodes_keep_the_contract(steps in steps(pair()), profile in 0_usize..5, serial: u16) {
        let config = config(Profile::NAMES[profile].1);
        let now = Time::from_nanos(5_000_000_000);
        let node = |number| Sar::new(now, config, Some(serial % 5 + 98), rng(number));
        let mut pair = Pair::new([node(0), node(1)]);

        keeps(&mut pair, now, steps)?;
    }
}

//! The contract of cores, and the bounds of what they remember.

use base::rng::Rng;
use base::time::Time;
use harness::{Core, keeps, steps};
use proptest::prelude::*;

use super::super::{Config, Dsdv};
use super::{arrival, interface, message};
use crate::{Interface, Router};

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn the_contract_is_kept(
        inputs in steps(input()),
        link_breaks in any::<bool>(),
        is_gateway in any::<bool>(),
    ) {
        let config = Config { link_breaks, is_gateway, destinations: 5, neighbours: 3, ..Config::default() };
        let mut bench = Bench(Dsdv::new(config, Rng::stream(1, "dsdv")));

        keeps(&mut bench, Time::ZERO, inputs)?;
    }
}

/// A core alone, with two interfaces.
#[derive(Debug)]
struct Bench(Dsdv);

#[derive(Clone, Debug)]
enum Input {
    Break(u8),
    Interface(usize, Option<u8>),
    Message(u8, Vec<u8>),
}

fn input() -> impl Strategy<Value = Input> {
    let entry = (0_u8..8, prop_oneof![0_u32..4, any::<u32>()], prop_oneof![0_u32..9, any::<u32>()]);
    prop_oneof![
        1 => (0_u8..8).prop_map(Input::Break),
        2 => (0_usize..2, prop::option::of(0_u8..4)).prop_map(|(at, it)| Input::Interface(at, it)),
        6 => (0_u8..8, prop::collection::vec(entry, 1..5))
            .prop_map(|(from, entries)| Input::Message(from, message(&entries))),
        1 => (0_u8..8, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(from, octets)| Input::Message(from, octets)),
    ]
}

impl Core for Bench {
    type Input = Input;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Break(host) => self.0.handle_break(now, arrival(host).from),
            Input::Interface(at, host) => {
                let interface = host.map(|host| Interface { room: 40, ..interface(host.into()) });
                self.0.handle_interface(now, at, interface.as_ref());
            }
            Input::Message(from, octets) => self.0.handle_message(now, &arrival(from), &octets),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }

    fn poll(&mut self, _now: Time) -> bool {
        self.0.poll_event().is_some()
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        (0..2).any(|interface| self.0.poll_transmit(now, interface, out).is_some())
    }

    fn next_timeout(&self) -> Option<Time> {
        self.0.next_timeout()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.0.known() <= 5);
        prop_assert!(self.0.routes().is_sorted_by_key(|(prefix, _)| *prefix));
        Ok(())
    }
}

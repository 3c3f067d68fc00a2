//! Two neighbours keep the contract whatever comes.

use std::net::Ipv4Addr;

use base::rng::Rng;
use base::time::Time;
use harness::{Core, Pair, Peer};
use proptest::prelude::*;

use super::main;
use crate::olsr::wire::{Header, Hello, Interval, Kind, LinkCode, Packet, Seq};
use crate::olsr::{Bounds, Config, Hysteresis, Olsr, TcRedundancy};
use crate::{Arrival, Interface, Neighbour, Router};

/// A node with two interfaces, and another one on the first.
#[derive(Debug)]
struct Node {
    olsr: Olsr,
    other: Ipv4Addr,
}

/// What happens to it.
#[derive(Clone, Debug)]
enum Input {
    Break(u8),
    Interface(usize, Option<usize>),
    /// A message of a kind with a body, from a neighbour on an interface.
    Message(usize, u8, Header, Vec<u8>),
    Octets(Vec<u8>),
}

fn input() -> impl Strategy<Value = Input> {
    let header = (0_u8..6, 1_u8..8, any::<u8>(), 0_u8..4, any::<u8>(), any::<u16>()).prop_map(
        |(kind, originator, validity, ttl, hops, seq)| Header {
            kind: Kind(kind),
            validity: Interval(validity),
            originator: main(usize::from(originator)),
            ttl,
            hops: hops / 128,
            seq: Seq(seq),
        },
    );
    let hello = prop::collection::vec((0_u8..11, 0_usize..9), 0..12).prop_map(|told| {
        let told: Vec<_> = told
            .into_iter()
            .filter_map(|(code, node)| Some((LinkCode::parse(code)?, main(node))))
            .collect();
        let mut body = Vec::new();
        Hello::emit(Interval(5), 3, &told, &mut body);
        body
    });
    let list = prop::collection::vec(0_usize..12, 0..12).prop_map(|nodes| {
        nodes.into_iter().flat_map(|node| main(node).octets()).collect::<Vec<u8>>()
    });
    let body = prop_oneof![hello, list];
    let room = prop::option::of(prop_oneof![Just(1_472_usize), 0_usize..80]);
    prop_oneof![
        8 => (0_usize..2, 0_u8..8, header, body)
            .prop_map(|(interface, from, header, body)| Input::Message(interface, from, header, body)),
        1 => prop::collection::vec(any::<u8>(), 0..60).prop_map(Input::Octets),
        1 => (0_usize..2, room).prop_map(|(index, room)| Input::Interface(index, room)),
        1 => (0_u8..8).prop_map(Input::Break),
    ]
}

impl Node {
    fn message(&mut self, now: Time, interface: usize, address: Ipv4Addr, octets: &[u8]) {
        let from = Neighbour { interface, address };
        self.olsr.handle_message(now, &Arrival { from, is_unicast: false, ttl: 1 }, octets);
    }
}

impl Core for Node {
    type Input = Input;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Break(node) => {
                let address = main(usize::from(node));
                self.olsr.handle_break(now, Neighbour { interface: 0, address });
            }
            Input::Interface(index, room) => {
                let address = main(if self.other == main(0) { 1 + 7 * index } else { 7 * index });
                let interface = room.map(|room| Interface { address, room });
                self.olsr.handle_interface(now, index, interface.as_ref());
            }
            Input::Message(interface, from, header, body) => {
                let mut octets = vec![0; 4];
                header.emit(&mut octets, |out| out.extend_from_slice(&body));
                Packet::finish(header.seq, &mut octets);
                self.message(now, interface, main(usize::from(from)), &octets);
            }
            Input::Octets(octets) => self.message(now, 0, self.other, &octets),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.olsr.handle_timeout(now);
    }

    fn poll(&mut self, _now: Time) -> bool {
        self.olsr.poll_event().is_some()
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        (0..2).any(|interface| self.olsr.poll_transmit(now, interface, out).is_some())
    }

    fn next_timeout(&self) -> Option<Time> {
        self.olsr.next_timeout()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let [links, aliases, networks, duplicates] = self.olsr.topology.sizes();
        let [near, two_hop] = self.olsr.hood.sizes();
        let sizes = [links, aliases, networks, duplicates, near, two_hop];
        prop_assert!(sizes.iter().all(|size| *size <= 16), "{:?}", sizes);
        Ok(())
    }
}

impl Peer for Node {
    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.message(now, 0, self.other, octets);
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn two_neighbours_keep_the_contract(
        is_on: bool,
        redundancy in 0_usize..3,
        steps in harness::steps(harness::between(input())),
    ) {
        let bounds = Bounds {
            links: 4,
            two_hop: 16,
            topology: 16,
            aliases: 4,
            networks: 4,
            duplicates: 8,
            queue: 4,
        };
        let config = Config {
            hysteresis: Hysteresis { is_on, ..Hysteresis::default() },
            tc_redundancy: TcRedundancy::ALL[redundancy],
            attached: vec!["0.0.0.0/0".parse().unwrap()],
            bounds,
            ..Config::default()
        };
        let ends = [(0, "near"), (1, "far")].map(|(node, name)| {
            let olsr = Olsr::new(config.clone(), Rng::stream(1, name));
            let mut node = Node { olsr, other: main(1 - node) };
            node.handle(Time::ZERO, Input::Interface(0, Some(1_472)));
            node
        });
        harness::keeps(&mut Pair::new(ends), Time::ZERO, steps)?;
    }
}

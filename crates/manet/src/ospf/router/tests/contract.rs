//! Two neighbours keep the contract whatever comes.

use std::net::Ipv4Addr;

use base::rng::Rng;
use base::time::Time;
use harness::{Core, Pair, Peer};
use proptest::prelude::*;

use crate::ospf::wire::{Body, Description, Hello, Key, Lsa, Packet};
use crate::ospf::{Bounds, Config, Ospf};
use crate::{Arrival, Interface, Neighbour, Router};

const MOST: usize = 6;

/// A router with two links, and another one on the first.
#[derive(Debug)]
struct Node {
    ospf: Ospf,
    own: u8,
}

/// What happens to it.
#[derive(Clone, Debug)]
enum Input {
    Break,
    Interface(usize, Option<usize>),
    /// Something from a router on a link.
    Message(usize, u8, Body),
    Octets(Vec<u8>),
}

fn router(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 16, 0, number)
}

fn lsa() -> impl Strategy<Value = Lsa> {
    (0_u8..7, 0_u8..9, prop_oneof![Just(i32::MAX), -9..9], 0_u16..4_000, any::<bool>()).prop_map(
        |(kind, about, number, age, is_long)| {
            let (id, body) = (router(about), vec![0; if is_long { 400 } else { 4 }]);
            let mut lsa = Lsa::new(Key { kind, id, router: id }, 2, number, &body);
            lsa.header.age = age;
            lsa
        },
    )
}

fn input() -> impl Strategy<Value = Input> {
    let hello = (0_u8..4).prop_map(|heard| {
        Body::Hello(Hello {
            mask: 0,
            interval: 10,
            options: 2,
            priority: 1,
            dead: 40,
            elected: [Ipv4Addr::UNSPECIFIED; 2],
            neighbours: vec![router(heard)],
        })
    });
    let lsas = || prop::collection::vec(lsa(), 0..9);
    let description =
        (lsas(), 0_u8..8, 0_u32..4, any::<bool>()).prop_map(|(lsas, bits, number, is_long)| {
            Body::Description(Description {
                mtu: if is_long { 9_000 } else { 500 },
                options: 2,
                is_first: bits & 4 != 0,
                has_more: bits & 2 != 0,
                is_master: bits & 1 != 0,
                number,
                headers: lsas.iter().map(|lsa| lsa.header).collect(),
            })
        });
    let body = prop_oneof![
        4 => hello,
        2 => description,
        1 => lsas().prop_map(|lsas| Body::Request(lsas.iter().map(|it| it.header.key).collect())),
        3 => lsas().prop_map(Body::Update),
        1 => lsas().prop_map(|it| Body::Acknowledgement(it.iter().map(|it| it.header).collect())),
    ];
    let room = prop::option::of(prop_oneof![Just(1_480_usize), 0_usize..300]);
    prop_oneof![
        8 => (0_usize..2, 1_u8..4, body).prop_map(|(at, from, body)| Input::Message(at, from, body)),
        1 => prop::collection::vec(any::<u8>(), 0..60).prop_map(Input::Octets),
        1 => (0_usize..2, room).prop_map(|(at, room)| Input::Interface(at, room)),
        1 => Just(Input::Break),
    ]
}

impl Node {
    fn message(&mut self, now: Time, interface: usize, from: u8, octets: &[u8]) {
        let from = Neighbour { interface, address: Ipv4Addr::new(10, 0, 0, from) };
        self.ospf.handle_message(now, &Arrival { from, is_unicast: false, ttl: 1 }, octets);
    }
}

impl Core for Node {
    type Input = Input;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Break => {
                let address = Ipv4Addr::new(10, 0, 0, 3 - self.own);
                self.ospf.handle_break(now, Neighbour { interface: 0, address });
            }
            Input::Interface(index, room) => {
                let last = self.own + if index == 0 { 0 } else { 100 };
                let address = Ipv4Addr::new(10, 0, 0, last);
                let interface = room.map(|room| Interface { address, room });
                self.ospf.handle_interface(now, index, interface.as_ref());
            }
            Input::Message(interface, from, body) => {
                let mut octets = Vec::new();
                Packet { router: router(from), area: 0, body }.emit(&mut octets);
                self.message(now, interface, from, &octets);
            }
            Input::Octets(octets) => self.message(now, 0, 3 - self.own, &octets),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.ospf.handle_timeout(now);
    }

    fn poll(&mut self, _now: Time) -> bool {
        self.ospf.poll_event().is_some()
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        (0..2).any(|interface| self.ospf.poll_transmit(now, interface, out).is_some())
    }

    fn next_timeout(&self) -> Option<Time> {
        self.ospf.next_timeout()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.ospf.lsas() <= MOST + 1, "{}", self.ospf.lsas());
        for link in self.ospf.ports.values() {
            prop_assert!(link.acks.delayed.len() <= MOST && link.acks.ready.len() <= 2 * MOST);
            let Some(peer) = &link.neighbour else { continue };
            prop_assert!(peer.requests.lsas.len() <= MOST + 1);
            prop_assert!(
                peer.retransmissions.lsas.len() <= 2 * MOST
                    && peer.retransmissions.answers.len() <= 2 * MOST
            );
        }
        Ok(())
    }
}

impl Peer for Node {
    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        self.message(now, 0, 3 - self.own, octets);
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn two_neighbours_keep_the_contract(steps in harness::steps(harness::between(input()))) {
        let bounds = Bounds { lsas: MOST, octets: 1_000 };
        let config = Config {
            attached: vec!["192.168.0.0/16".parse().unwrap()],
            bounds,
            ..Config::default()
        };
        let ends = [1, 2].map(|own| {
            let config = Config { router_id: Some(router(own)), ..config.clone() };
            let ospf = Ospf::new(config, Rng::stream(1, &format!("end {own}")));
            let mut node = Node { ospf, own };
            node.handle(Time::ZERO, Input::Interface(0, Some(1_480)));
            node
        });
        harness::keeps(&mut Pair::new(ends), Time::ZERO, steps)?;
    }
}

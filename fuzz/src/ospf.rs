//! Fuzzes an OSPF router with arbitrary neighbours: the router keeps working in bounded memory.

use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::Checksum;
use base::rng::Rng;
use base::time::Time;
use manet::ospf::wire::{self, Packet, RouterLsa};
use manet::ospf::{Bounds, Config, Ospf};
use manet::{Arrival, Interface, Neighbour, Router};

const ROOM: usize = 556;
const LSAS: usize = 16;

/// Reads the input as a packet, then as the actions of a router's neighbours.
pub(crate) fn router(input: &[u8]) {
    read_and_write(input);
    let _ = RouterLsa::parse(input);
    let mut run = Run::new();
    let mut rest = input;
    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = run.act(action, value, after);
        run.settle();
    }
}

/// A packet survives reading and writing unchanged.
fn read_and_write(input: &[u8]) {
    let octets = sealed(input);
    let Ok((packet, _)) = Packet::parse(&octets) else { return };
    let mut again = Vec::new();
    packet.emit(&mut again);
    assert_eq!(Packet::parse(&again), Ok((packet, false)));
}

/// Gives the octets a correct header: version, length, area, no authentication, checksum.
fn sealed(input: &[u8]) -> Vec<u8> {
    let mut octets = input.to_vec();
    if octets.len() >= wire::HEADER && octets.len() <= usize::from(u16::MAX) {
        octets[0] = 2;
        octets[2..4].copy_from_slice(&u16::try_from(input.len()).unwrap_or(0).to_be_bytes());
        octets[8..24].fill(0);
        let checksum = Checksum::default().with(&octets).finish();
        octets[12..14].copy_from_slice(&checksum.to_be_bytes());
    }
    octets
}

struct Run {
    now: Time,
    ospf: Ospf,
}

impl Run {
    fn new() -> Self {
        let config = Config {
            router_id: Some(Ipv4Addr::new(0, 0, 0, 5)),
            attached: vec!["10.9.0.0/16".parse().expect("a prefix")],
            bounds: Bounds { lsas: LSAS, octets: 4_096 },
            ..Config::default()
        };
        let mut run = Self { now: Time::ZERO, ospf: Ospf::new(config, Rng::stream(1, "fuzz")) };
        run.interface(0, Some(ROOM));
        run
    }

    /// Does the action in the next octets, and returns the remaining octets.
    fn act<'a>(&mut self, action: u8, value: u8, after: &'a [u8]) -> &'a [u8] {
        let index = usize::from(action >> 7);
        let address = Ipv4Addr::new(10, 0, 0, value & 15);
        match action & 7 {
            0 => self.now += Duration::from_millis(100) * u32::from(value),
            1 => self.now += Duration::from_secs(60) * u32::from(value),
            2 => self.interface(index, Some(usize::from(value) * 4)),
            3 => self.interface(index, None),
            4 => self.ospf.handle_break(self.now, Neighbour { interface: index, address }),
            // A packet with the following octets as its content.
            _ => {
                let Some((&len, after)) = after.split_first() else { return &[] };
                let (body, after) = after.split_at(after.len().min(len.into()));
                self.message(Neighbour { interface: index, address }, &sealed(body));
                return after;
            }
        }
        after
    }

    fn message(&mut self, from: Neighbour, octets: &[u8]) {
        let arrival = Arrival { from, is_unicast: false, ttl: 1 };
        self.ospf.handle_message(self.now, &arrival, octets);
    }

    fn interface(&mut self, index: usize, room: Option<usize>) {
        let last = if index == 0 { 200 } else { 201 };
        let interface = room.map(|room| Interface { address: Ipv4Addr::new(10, 0, 0, last), room });
        self.ospf.handle_interface(self.now, index, interface.as_ref());
    }

    fn settle(&mut self) {
        self.ospf.handle_timeout(self.now);
        while self.ospf.poll_event().is_some() {}
        assert!(self.ospf.lsas() <= LSAS + 1);
        let mut out = Vec::new();
        for index in 0..2 {
            while self.ospf.poll_transmit(self.now, index, &mut out).is_some() {
                assert!(out.len() <= ROOM.max(255 * 4));
                Packet::parse(&out).expect("what was written");
            }
        }
        assert!(self.ospf.next_timeout().is_none_or(|due| due > self.now));
    }
}

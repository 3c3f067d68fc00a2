//! Fuzzes an OLSR node among arbitrary neighbours: the node keeps working in bounded memory.

use std::net::Ipv4Addr;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use manet::olsr::wire::{
    Addresses, Hello, Hna, Kind, Message, PACKET_HEADER, Packet, TC_HEADER, Tc,
};
use manet::olsr::{Bounds, Config, Hysteresis, Olsr, TcRedundancy};
use manet::{Arrival, Interface, Neighbour, Router};

const ROOM: usize = 200;
const ENTRIES: usize = 32;
const ATTACHED: [&str; 2] = ["0.0.0.0/0", "10.9.0.0/16"];

/// Reads the input as a packet, then as the actions of a node's neighbours.
pub(crate) fn node(input: &[u8]) {
    read_and_write(input);
    let mut run = Run::new(input.first().is_some_and(|octet| octet & 1 == 1));
    let mut rest = input;
    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = run.act(action, value, after);
        run.settle();
    }
}

/// A packet survives reading and writing unchanged.
fn read_and_write(input: &[u8]) {
    let Ok(packet) = Packet::parse(input) else { return };
    let mut octets = vec![0; PACKET_HEADER];
    let mut is_whole = true;
    for message in packet.messages() {
        let Ok(Message { header, body, .. }) = message else {
            is_whole = false;
            break;
        };
        header.emit(&mut octets, |out| out.extend_from_slice(body));
        read_body(header.kind, body);
    }
    if is_whole {
        Packet::finish(packet.seq, &mut octets);
        assert_eq!(octets, input);
    }
}

fn read_body(kind: Kind, body: &[u8]) {
    let mut octets = Vec::new();
    match kind {
        Kind::HELLO => {
            let Ok(hello) = Hello::parse(body) else { return };
            let told = hello
                .blocks()
                .flat_map(|block| block.addresses.iter().map(move |address| (block.code, address)));
            let told: Vec<_> = told.collect();
            Hello::emit(hello.interval, hello.willingness, &told, &mut octets);
            let again = Hello::parse(&octets).expect("what was written");
            assert_eq!(again.blocks().flat_map(|it| it.addresses.iter()).count(), told.len());
        }
        Kind::TC => {
            let Ok(tc) = Tc::parse(body) else { return };
            Tc::emit(tc.ansn, &tc.neighbours.iter().collect::<Vec<_>>(), &mut octets);
            assert!(body[TC_HEADER..].starts_with(&octets[TC_HEADER..]));
            assert_eq!(octets.len() < body.len(), tc.neighbours.is_cut());
        }
        Kind::MID => {
            let addresses = Addresses::parse(body);
            Addresses::emit(&addresses.iter().collect::<Vec<_>>(), &mut octets);
            assert!(body.starts_with(&octets));
            assert_eq!(octets.len() < body.len(), addresses.is_cut());
        }
        Kind::HNA => {
            assert_eq!(Hna::parse(body).iter().count(), body.len() / 8);
        }
        Kind(_) => {}
    }
}

struct Run {
    now: Time,
    olsr: Olsr,
}

impl Run {
    fn new(has_hysteresis: bool) -> Self {
        let bounds = Bounds {
            links: ENTRIES,
            two_hop: ENTRIES,
            topology: ENTRIES,
            aliases: ENTRIES,
            networks: ENTRIES,
            duplicates: ENTRIES,
            queue: ENTRIES,
        };
        let config = Config {
            hysteresis: Hysteresis { is_on: has_hysteresis, ..Hysteresis::default() },
            tc_redundancy: TcRedundancy::Relays,
            attached: ATTACHED.map(|it| it.parse().expect("a prefix")).to_vec(),
            bounds,
            ..Config::default()
        };
        let mut run = Self { now: Time::ZERO, olsr: Olsr::new(config, Rng::stream(1, "fuzz")) };
        run.interface(0, Some(ROOM));
        run
    }

    /// Does the action in the next octets, and returns the remaining octets.
    fn act<'a>(&mut self, action: u8, value: u8, after: &'a [u8]) -> &'a [u8] {
        let index = usize::from(action >> 7);
        let from = Neighbour { interface: index, address: Ipv4Addr::new(10, 0, 0, value & 15) };
        match action & 7 {
            0 => self.now += Duration::from_millis(100) * u32::from(value),
            1 => self.interface(index, Some(usize::from(value))),
            2 => self.interface(index, None),
            3 => self.olsr.handle_break(self.now, from),
            // A packet with the following octets as its content.
            4..=6 => {
                let Some((&len, after)) = after.split_first() else { return &[] };
                let (body, after) = after.split_at(after.len().min(len.into()));
                let mut octets = vec![0; PACKET_HEADER];
                octets.extend_from_slice(body);
                Packet::finish(manet::olsr::wire::Seq(len.into()), &mut octets);
                self.message(from, &octets);
                return after;
            }
            _ => self.message(from, after),
        }
        after
    }

    fn message(&mut self, from: Neighbour, octets: &[u8]) {
        let arrival = Arrival { from, is_unicast: false, ttl: 1 };
        self.olsr.handle_message(self.now, &arrival, octets);
    }

    fn interface(&mut self, index: usize, room: Option<usize>) {
        let last = if index == 0 { 1 } else { 2 };
        let address = Ipv4Addr::new(10, 0, 0, last);
        let interface = room.map(|room| Interface { address, room });
        self.olsr.handle_interface(self.now, index, interface.as_ref());
    }

    fn settle(&mut self) {
        self.olsr.handle_timeout(self.now);
        while self.olsr.poll_event().is_some() {}
        // Neighbours, two-hop neighbours and the nodes behind, with two addresses each.
        assert!(self.olsr.routes().len() <= 5 * ENTRIES);
        let mut out = Vec::new();
        for index in 0..2 {
            while self.olsr.poll_transmit(self.now, index, &mut out).is_some() {
                assert!(out.len() <= ROOM.max(255));
                Packet::parse(&out).expect("what was written");
            }
        }
        assert!(self.olsr.next_timeout().is_none_or(|due| due > self.now));
    }
}

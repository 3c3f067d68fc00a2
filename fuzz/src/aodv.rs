//! Fuzzes AODV with arbitrary messages from neighbours.

use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::minimal;
use base::rng::Rng;
use base::time::Time;
use manet::aodv::wire::Message;
use manet::aodv::{Aodv, Config};
use manet::{Arrival, Demand, Interface, Neighbour, Passage, Router};

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Feeds messages to a node. Three octets precede each: sender and kind, time since the last message, length.
pub(crate) fn node(mut input: &[u8]) {
    let mut node = Aodv::new(Config::default(), Rng::stream(1, "fuzz"));
    let mut now = Time::ZERO;
    node.handle_interface(now, 0, Some(&Interface { address: OWN, room: 1_000 }));
    while let Some((&[how, wait, len], rest)) = input.split_first_chunk() {
        let (octets, rest) = rest.split_at(usize::from(len).min(rest.len()));
        input = rest;
        now += Duration::from_millis(1 << (wait % 16));
        let address = Ipv4Addr::new(10, 0, 0, how % 8);
        let from = Neighbour { interface: 0, address };
        let destination = octets.first_chunk().map_or(OWN, |&octets: &[u8; 4]| octets.into());
        match how >> 4 {
            0 => node.handle_break(now, from),
            1 => node.handle_demand(now, &Demand { destination, from: None }),
            2 => node.handle_demand(now, &Demand { destination, from: Some(from) }),
            3 => {
                let passage = Passage { source: OWN, destination, from: None, next: from };
                node.handle_passage(now, &passage);
            }
            way => {
                message(octets);
                let arrival = Arrival { from, is_unicast: way % 2 == 0, ttl: how % 8 };
                node.handle_message(now, &arrival, octets);
            }
        }
        node.handle_timeout(now);
        assert!(node.next_timeout().is_none_or(|due| due > now));
        while node.poll_event().is_some() {}
        let mut out = Vec::new();
        while node.poll_transmit(now, 0, &mut out).is_some() {
            Message::parse(&out).expect("what is written can be read");
        }
        assert!(node.routes().len() <= node.config().bounds.routes);
    }
}

/// A message read and written again reads as the same message.
fn message(octets: &[u8]) {
    let Ok((message, _)) = Message::parse(octets) else { return };
    let mut again = Vec::new();
    message.emit(&mut again);
    assert_eq!(Message::parse(&again), Ok((message, 0)));
}

/// Unwraps a packet from minimal encapsulation, and wraps one.
pub(crate) fn minimal(input: &[u8]) {
    let mut packet = input.to_vec();
    if minimal::decapsulate(&mut packet).is_ok() {
        let carried = packet.clone();
        minimal::encapsulate(&mut packet, OWN).expect("it fits, since it has been carried");
        minimal::decapsulate(&mut packet).expect("what was just put in");
        assert_eq!(packet, carried);
    }
}

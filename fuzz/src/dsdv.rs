//! Fuzzes a DSDV node with arbitrary messages from any sender.

use std::net::Ipv4Addr;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use manet::dsdv::wire::{ENTRY, Entry};
use manet::dsdv::{Config, Dsdv};
use manet::{Arrival, Interface, Neighbour, Router};

/// Reads the input as messages: sender, time since the last one, length, then the octets.
pub fn node(mut input: &[u8]) {
    let config = Config { destinations: 6, neighbours: 3, is_gateway: true, ..Config::default() };
    let mut node = Dsdv::new(config, Rng::stream(1, "dsdv"));
    let mut now = Time::ZERO;
    let here = Interface { address: Ipv4Addr::new(10, 0, 0, 1), room: 5 * ENTRY };
    node.handle_interface(now, 0, Some(&here));

    let mut out = Vec::new();
    while let [host, pause, len, rest @ ..] = input {
        let (payload, rest) = rest.split_at(rest.len().min((*len).into()));
        input = rest;
        now += Duration::from_millis(u64::from(*pause) * 200);
        node.handle_timeout(now);
        let from = Neighbour { interface: 0, address: Ipv4Addr::new(10, 0, 0, *host) };
        node.handle_message(now, &Arrival { from, is_unicast: false, ttl: 1 }, payload);
        if host % 16 == 15 {
            node.handle_break(now, from);
        }
        node.handle_timeout(now);
        assert!(node.next_timeout().is_none_or(|due| due > now));

        while node.poll_event().is_some() {}
        while node.poll_transmit(now, 0, &mut out).is_some() {
            let (entries, _) = Entry::parse_all(&out).expect("it reads what it writes");
            assert!((1..=5).contains(&entries.count()));
        }
        assert!(node.known() <= 6);
    }
}

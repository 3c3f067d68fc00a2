//! Datagrams, acknowledged or not.

use std::time::Duration;

use base::contract::Refused;

use super::bench::{Bench, Fate, NODES};
use crate::s5066::Address;
use crate::slep::{Addresses, Config, Datagram, DatagramId, Delivery, Event};

const ADDRESSES: Addresses = Addresses { to: 5, from: 0 };

fn bench() -> Bench {
    let mut bench = Bench::new(&Config::default());
    bench.events(0);
    bench.events(1);
    bench
}

fn send(bench: &mut Bench, is_reliable: bool, data: &[u8]) -> DatagramId {
    let delivery = Delivery { is_reliable, ..Delivery::default() };
    let now = bench.now;
    let id = bench.ends[0].core.send_datagram(now, NODES[1], ADDRESSES, delivery, data).unwrap();
    bench.run();
    id
}

fn arrived(bench: &mut Bench) -> Vec<Vec<u8>> {
    let slep = &mut bench.ends[1].core;
    let datagrams = std::iter::from_fn(|| slep.poll_datagram());
    datagrams
        .map(|Datagram { from, addresses, data }| {
            assert_eq!((from, addresses), (NODES[0], ADDRESSES));
            data
        })
        .collect()
}

#[test]
fn an_unreliable_datagram_is_a_u_pdu_and_nothing_comes_back() {
    let mut bench = bench();

    send(&mut bench, false, b"news");
    assert_eq!(bench.air.len(), 1);
    bench.deliver();

    assert_eq!(arrived(&mut bench), [b"news".to_vec()]);
    let stats = bench.ends[1].core.stats();
    assert_eq!((stats.handed.u_pdus, stats.datagrams.received), (0, 1));
}

#[test]
fn a_reliable_datagram_is_repeated_until_it_is_acknowledged_and_taken_once() {
    let mut bench = bench();
    let first = send(&mut bench, true, b"order");
    bench.carry(0, Fate::MayHave(true));
    bench.run();
    // The acknowledgement is lost with the connection.
    bench.carry(0, Fate::Arrives);
    bench.run_to_nodes();
    bench.disconnect(0);
    bench.connect(0);
    for _ in 0..3 {
        bench.deliver();
        bench.pass(Duration::from_secs(60));
    }

    assert_eq!(arrived(&mut bench), [b"order".to_vec()]);
    let events = bench.events(0);
    assert!(events.contains(&Event::Delivered(first)), "{events:?}");
    assert!(bench.ends[1].core.stats().datagrams.received_again > 0);
}

#[test]
fn a_datagram_that_shrinks_goes_as_deflate_makes_it_and_others_as_they_are() {
    let text = b"the same words, and the same words, and the same words again".repeat(5);
    for is_reliable in [false, true] {
        let mut bench = bench();
        let delivery = Delivery { is_reliable, is_compressed: true, ..Delivery::default() };
        let now = bench.now;
        let header = if is_reliable { 7 } else { 3 };
        for (data, handed) in [(&text[..], 0), (b"news", header + 4)] {
            let before = bench.ends[0].core.stats().handed.octets;
            let slep = &mut bench.ends[0].core;
            slep.send_datagram(now, NODES[1], ADDRESSES, delivery, data).unwrap();
            bench.run();
            let octets = bench.ends[0].core.stats().handed.octets - before;
            assert!(octets == handed || handed == 0 && octets < 80, "{octets}");
        }
        bench.deliver();

        assert_eq!(arrived(&mut bench), [text.clone(), b"news".to_vec()]);
        let stats = bench.ends[0].core.stats().datagrams;
        let length = text.len() as u64;
        assert_eq!(stats.coded, 1);
        assert!((length - 80..length).contains(&stats.saved), "{stats:?}");
        let too_long =
            bench.ends[0].core.send_datagram(now, NODES[1], ADDRESSES, delivery, &[0; 2_042]);
        assert_eq!(too_long, Err(Refused::TooBig { mtu: 2_041 }), "however short it would be");
    }
}

#[test]
fn what_is_not_acknowledged_in_time_is_told() {
    let mut bench = bench();
    let id = send(&mut bench, true, b"order");

    for _ in 0..30 {
        bench.air.clear();
        bench.pass(Duration::from_secs(30));
    }

    assert_eq!(bench.events(0), [Event::Undelivered(id)]);
    assert_eq!(bench.ends[0].core.stats().datagrams.expired, 1);
}

#[test]
fn what_cannot_be_carried_is_refused() {
    let mut bench = bench();
    let (now, reliable) = (bench.now, Delivery { is_reliable: true, ..Delivery::default() });
    let slep = &mut bench.ends[0].core;

    let to_all = slep.send_datagram(now, Address::BROADCAST, ADDRESSES, reliable, b"");
    let long = slep.send_datagram(now, NODES[1], ADDRESSES, reliable, &[0; 3_000]);

    assert_eq!(to_all, Err(Refused::Down));
    assert_eq!(long, Err(Refused::TooBig { mtu: 2_041 }));
}

#[test]
fn datagrams_beyond_what_the_node_may_have_wait() {
    let config = Config { node_window: (4 << 10, 16 << 10), ..Config::default() };
    let mut bench: Bench = Bench::new(&config);
    for _ in 0..50 {
        send(&mut bench, false, &[7; 1_000]);
    }
    assert!(bench.air.len() < 20, "{}", bench.air.len());

    bench.deliver();

    assert_eq!(arrived(&mut bench).len(), 50);
}

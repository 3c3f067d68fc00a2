//! Gateways whose programs speak different versions of the handshake.

use super::super::mac::{append_mac1, append_mac2, mac_key};
use super::super::noise;
use super::super::wire::{Call, Hello, Index};
use super::*;

/// The version of this program, which its handshake mixes in.
const OURS: u8 = 1;

/// The datagram with which a program of some version calls end 0, which knows its key.
fn call_of(version: u8, net: &Net) -> Vec<u8> {
    let (ours, its) = (&net.ends[0].key, &net.ends[1].key);
    let hello = Hello { timestamp: 1 << 62, incarnation: Incarnation(9), next_number: 0 };
    let mut entropy = Seeded(Rng::stream(u64::from(version), "another program"));
    let to = ours.public_key();
    let noise = noise::call_of_version(version, its, &to, &hello.emit(), &mut entropy);
    let mut datagram = Call::begin(Index::new(7), &noise);
    append_mac1(&mac_key(&to), &mut datagram);
    append_mac2(None, &mut datagram);
    datagram
}

#[test]
fn a_call_of_the_version_before_or_after_ours_is_counted_and_told_and_not_answered() {
    for version in [OURS - 1, OURS + 1] {
        let mut net = Net::pair();
        net.collect(0);
        net.wire.clear();
        let from = net.ends[1].address;

        let mut datagram = call_of(version, &net);
        let incoming = net.ends[0].peers.handle_datagram(net.now, from, &mut datagram);
        net.collect(0);

        assert_eq!(incoming, Incoming::Dropped(Dropped::Forged));
        assert_eq!(net.ends[0].peers.totals().forged, 1);
        assert_eq!(net.story(), ["a unreadable call"]);
        assert_eq!(net.wire.len(), 0);
    }
}

#[test]
fn a_call_of_our_version_made_in_the_same_way_is_answered() {
    let mut net = Net::pair();
    net.collect(0);
    net.wire.clear();
    let from = net.ends[1].address;

    let mut datagram = call_of(OURS, &net);
    let incoming = net.ends[0].peers.handle_datagram(net.now, from, &mut datagram);
    net.collect(0);

    assert_eq!(incoming, Incoming::Nothing);
    assert_eq!(net.wire.len(), 1);
}

#[test]
fn calls_that_cannot_be_read_fill_no_log_and_the_caller_hears_that_nobody_answers() {
    let mut net = Net::pair();
    net.settle();
    net.story();
    let from = net.ends[1].address;

    for _ in 0..1_000 {
        let mut datagram = call_of(OURS + 1, &net);
        net.ends[0].peers.handle_datagram(net.now, from, &mut datagram);
    }
    net.collect(0);
    assert_eq!(net.story(), ["a unreadable call"; 3]);

    // A program that answers nobody is to its caller like one that cannot read the call.
    let mut alone = Net::with(|_, _| ());
    alone.passes = |_, _| false;
    alone.wait(Duration::from_secs(30));
    assert!(alone.story().contains(&"a unanswered".to_owned()));
}

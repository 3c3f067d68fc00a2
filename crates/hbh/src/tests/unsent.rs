//! Tests a link layer that reports undelivered packets.

use super::super::wire::Message;
use super::*;

/// How long the link layer tries.
const TRIES: Duration = Duration::from_millis(25);

#[test]
fn what_the_link_layer_gave_up_goes_out_again_after_a_pause_and_costs_no_retry() {
    let mut node = Node::new(Config { retries: 1, ..quiet(Profile::Default) });
    node.give(0);
    node.give(1);

    let mut pauses = Vec::new();
    for _ in 0..8 {
        node.fail().expect("a packet");
        let from = node.now;
        let mut packet = node.send();
        while packet.is_none() {
            node.wait(from + 10 * TRIES * 1_000);
            packet = node.send();
        }
        assert_eq!(node.send(), None, "one packet asks whether it is there");
        pauses.push(node.now.since(from).as_millis());
        node.now += TRIES;
        node.relay.handle_timeout(node.now);
        node.relay.handle_unsent(node.now, Peer(1), &packet.unwrap_or_default());
        node.relay.handle_alive(node.now, Peer(1));
    }

    assert_eq!(pauses, [50; 8]);
    assert_eq!(node.relay.stats().sent.packets_abandoned, 0);
}

#[test]
fn pauses_grow_until_something_comes_from_the_neighbour() {
    let mut node = Node::new(Config::new(Profile::Default));
    node.give(0);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let before = node.now;
        while node.fail().is_none() {
            node.wait(before + Duration::from_secs(60));
        }
        pauses.push((node.now - TRIES).since(before).as_millis());
    }

    assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1_600, 1_600]);
    node.relay.handle_alive(node.now, Peer(1));
    assert!(node.send().is_some());
}

#[test]
fn a_neighbour_to_which_nothing_goes_is_left_alone() {
    let mut node = Node::new(Config::new(Profile::Default));
    for number in 0..20 {
        node.give(number);
    }
    let mut fail_until = |end| {
        let end = Time::ZERO + Duration::from_secs(end);
        let mut count = 0;
        while node.now < end {
            match node.fail() {
                Some(_) => count += 1,
                None => node.wait(end),
            }
        }
        count
    };

    fail_until(10);
    let asked = fail_until(20);

    assert!((5..=7).contains(&asked), "{asked}");
    assert_eq!(node.relay.stats().sent.packets_abandoned, 0);
    assert_eq!(node.relay.stats().packets_held, 20);
}

#[test]
fn what_the_link_layer_gave_up_is_no_loss_of_the_link() {
    for (is_told, is_patient) in [(true, true), (false, false)] {
        let mut node = Node::new(quiet(Profile::Default));
        let mut peer = Relay::new(quiet(Profile::Default), Rng::stream(2, "hbh"));
        peer.add_peer(Peer(1), peer_config(0));
        let mut was_patient = false;
        for number in 0..300 {
            node.give(number);
            node.now += SLOT;
            node.relay.handle_timeout(node.now);
            peer.handle_timeout(node.now);
            while let Some(packet) = node.send() {
                was_patient = is_patient_packet(&packet);
                if !node.sent.is_multiple_of(10) {
                    peer.handle_message(node.now, Peer(1), &packet);
                } else if is_told {
                    node.relay.handle_unsent(node.now, Peer(1), &packet);
                }
            }
            let mut out = Vec::new();
            while peer.poll_transmit(node.now, Link(0), &mut out).is_some() {
                node.relay.handle_message(node.now, Peer(1), &out);
            }
        }

        assert_eq!(was_patient, is_patient, "{is_told}");
        assert!(node.relay.stats().sent.data_repeated >= 25);
    }
}

#[test]
fn an_acknowledgement_that_was_given_up_is_owed_again_while_its_flow_is_alive() {
    let mut node = Arrivals::new(Config::new(Profile::Default));
    let mut fail = |after: Duration| {
        node.bring(&datagram("10.0.0.1:1", "10.9.0.2:2", 0));
        node.wait(Duration::from_millis(200));
        let mut out = Vec::new();
        assert_eq!(node.relay.poll_transmit(node.now, Link(0), &mut out), Some(Peer(0)));
        node.wait(after);
        node.relay.handle_unsent(node.now, Peer(0), &out);
        node.wait(Duration::from_millis(200));
        node.answer().is_some()
    };

    assert!(fail(TRIES));
    assert!(!fail(Duration::from_secs(2)));
}

#[test]
fn what_was_given_up_late_or_of_nobody_does_nothing() {
    let mut node = Node::new(quiet(Profile::Default));
    node.give(0);
    let first = node.send().expect("a packet");
    node.relay.handle_unsent(node.now, Peer(1), &first);
    node.relay.handle_alive(node.now, Peer(1));
    let second = node.send().expect("a repeat");

    node.relay.handle_unsent(node.now, Peer(1), &first);
    node.relay.handle_unsent(node.now, Peer(7), &second);
    node.relay.handle_unsent(node.now, Peer(1), &second[..30]);

    assert_eq!(node.send(), None, "the repeat is on its way");
}

#[test]
fn a_flow_that_began_while_its_neighbour_was_left_alone_goes_when_the_neighbour_is_heard() {
    let mut node = Node::new(quiet(Profile::Default));
    node.give(0);
    node.fail().expect("a packet");

    let other = datagram("10.0.0.1:77", "10.9.0.2:2", 0);
    node.relay.handle_packet(node.now, Peer(1), &other).expect("room");
    assert_eq!(node.send(), None);
    node.relay.handle_alive(node.now, Peer(1));

    let sent = std::iter::from_fn(|| node.send()).collect::<Vec<_>>();
    // The lowest octets of the source ports.
    let mut ports: Vec<u8> = sent.iter().map(|packet| packet[packet.len() - 79]).collect();
    ports.sort_unstable();
    assert_eq!(ports, [1, 77]);
}

/// A node whose neighbour is `Peer(1)`.
struct Node {
    now: Time,
    relay: Relay,
    sent: u64,
}

impl Node {
    fn new(config: Config) -> Self {
        let mut relay = Relay::new(config, Rng::stream(1, "hbh"));
        relay.add_peer(Peer(1), peer_config(0));
        Self { now: Time::ZERO, relay, sent: 0 }
    }

    fn give(&mut self, number: u32) {
        let packet = datagram("10.0.0.1:1", "10.9.0.2:2", number);
        self.relay.handle_packet(self.now, Peer(1), &packet).expect("room");
    }

    fn send(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.relay.poll_transmit(self.now, Link(0), &mut out)?;
        self.sent += 1;
        Some(out)
    }

    /// Sends, and the link layer gives it up.
    fn fail(&mut self) -> Option<Vec<u8>> {
        let packet = self.send()?;
        self.now += TRIES;
        self.relay.handle_timeout(self.now);
        self.relay.handle_unsent(self.now, Peer(1), &packet);
        Some(packet)
    }

    /// Jumps to what is due next, or to `end`.
    fn wait(&mut self, end: Time) {
        self.now = self.relay.next_timeout().map_or(end, |at| at.min(end));
        self.relay.handle_timeout(self.now);
    }
}

fn is_patient_packet(packet: &[u8]) -> bool {
    let header = Header::parse(packet).expect("an IP packet");
    matches!(Message::split_first(wire::Layout::Wide, &packet[header.len..]), Ok((Message::Data(data), _)) if data.is_patient)
}

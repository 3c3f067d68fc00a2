//! Tests of a node's status: airtime, other stations, and waiting data.

use super::*;
use crate::s5066::node::Link;
use crate::s5066::sis::PeerState;

#[test]
fn what_is_under_way_counts_as_it_goes() {
    let mut pair = Pair::new("1200", |_| {});
    pair.send(Side::A, b"HELLO");
    pair.run(MINUTE);
    let ends = |pair: &mut Pair| {
        let now = pair.now;
        [Side::A, Side::B].map(|side| pair.node(side).airtime(now))
    };
    let [a, b] = ends(&mut pair);
    pair.send(Side::A, &[7; 2_000]);

    pair.run(Duration::from_secs(10));
    let [a_later, b_later] = ends(&mut pair);
    let minute = pair.node(Side::A).stats().keyed;
    pair.run(MINUTE);
    let [a_done, b_done] = ends(&mut pair);

    // 2 kB take 13 s at 1200 bit/s.
    let (sent, heard) = (a_later.transmitted - a.transmitted, b_later.heard - b.heard);
    assert!((9.0..10.0).contains(&sent.as_secs_f64()), "{sent:?}");
    assert!((7.0..10.0).contains(&heard.as_secs_f64()), "{heard:?}");
    assert_eq!(minute, a.transmitted, "the transmission is not over");
    assert_eq!(a_done.transmitted, pair.node(Side::A).stats().keyed);
    assert!(a_done.sent - a.sent > 2_000 && b_done.delivered - b.delivered > 2_000);
    assert!(b_done.transmitted > b.transmitted && a_done.heard > a.heard, "it was acknowledged");
}

#[test]
fn stations_and_queues_are_those_there_are() {
    let mut pair = Pair::new("300", |_| {});
    pair.noise = Box::new(|_, octets| octets.fill(0));
    pair.send_as(Side::A, &[1; 300], |send| send.priority = 3);
    pair.send_as(Side::A, &[1; 200], |send| send.priority = 9);
    pair.run(Duration::from_secs(3));

    let queues = pair.node(Side::A).queues();
    let stations: Vec<_> = pair.node(Side::A).stations().collect();
    // Their S_PDUs have a few octets more.
    assert!((300..320).contains(&queues[3]) && (200..220).contains(&queues[9]), "{queues:?}");
    assert_eq!(queues.iter().filter(|octets| **octets > 0).count(), 2);
    assert_eq!((stations[0].address, stations[0].link), (B, Link::Calling));
    assert_eq!((stations[0].heard_at, stations[0].waiting), (None, queues[3] + queues[9]));

    pair.noise = Box::new(|_, _| {});
    pair.run(MINUTE * 10);
    assert_eq!(pair.node(Side::A).queues(), [0; 16]);
    assert!(pair.node(Side::A).stations().all(|it| it.heard_at.is_some() && it.waiting == 0));
}

#[test]
fn a_client_learns_whether_there_is_a_link_with_a_node_and_what_waits_for_it() {
    let mut pair = Pair::new("1200", |_| {});
    pair.send(Side::A, &[7; 1_000]);
    pair.run(Duration::from_secs(10));

    assert!(pair.client(Side::A).ask_about(B));
    pair.run(Duration::ZERO);

    let told = pair.events(Side::A).iter().find_map(|event| match event {
        client::Event::Peer(status) => Some((status.node, status.state, status.bits_per_s)),
        _ => None,
    });
    assert_eq!(told, Some((B, PeerState::Up, 1_200)));
}

#[test]
fn what_no_client_is_there_for_is_told_once() {
    let mut pair = Pair::new("1200", |_| {});
    pair.disconnect(Side::B);
    pair.send(Side::A, b"HELLO");
    pair.run(MINUTE);

    let a = pair.node(Side::A).address();
    assert_eq!(pair.node(Side::B).poll_unclaimed(), Some((a, SAP)));
    assert_eq!(pair.node(Side::B).poll_unclaimed(), None);
}

#[test]
fn what_of_a_client_cannot_be_read_is_told_once() {
    let mut pair = Pair::new("1200", |_| {});
    let now = pair.now;
    let node = pair.node(Side::A);
    let id = node.handle_connected(now).unwrap();

    node.handle_octets(now, id, &[0x90, 0xeb, 0, 0, 2, 6, 0xc3]);

    assert_eq!(node.poll_unreadable().map(|(client, _)| client), Some(id));
    assert_eq!(node.poll_unreadable(), None);
}

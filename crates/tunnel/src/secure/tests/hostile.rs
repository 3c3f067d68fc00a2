//! Strangers: floods, forgeries, replays, and any octets at all.

use std::net::Ipv4Addr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use base::rng::Rng;
use proptest::prelude::*;

use super::super::wire::{CALL, Datagram};
use super::*;
use crate::PathId;

#[test]
fn a_datagram_is_taken_once_in_any_order() {
    let mut net = Net::pair();
    net.settle();
    let sealed: Vec<_> = (0..20).map(|number| net.seal(0, &number.to_string()).unwrap()).collect();
    let from = net.ends[0].address;

    for at in [3, 1, 2, 19, 0] {
        net.deliver(from, sealed[at].clone());
    }
    for at in [0, 3, 19] {
        let again = net.deliver(from, sealed[at].clone());
        assert_eq!(again, Some(Incoming::Dropped(Dropped::Replayed)));
    }

    assert_eq!(net.ends[1].received, ["3", "1", "2", "19", "0"]);
    assert_eq!(net.ends[1].peers.totals().replayed, 3);
}

#[test]
fn what_lies_too_far_behind_is_dropped() {
    let mut net = Net::pair();
    net.settle();
    let late = net.seal(0, "late").unwrap();
    net.ends[0].numbers.insert(PeerId(0), 9_000);
    net.send(0, "new");

    let incoming = net.deliver(net.ends[0].address, late);

    assert_eq!(incoming, Some(Incoming::Dropped(Dropped::TooOld)));
}

#[test]
fn whatever_is_changed_or_cut_is_dropped() {
    let mut net = Net::pair();
    net.settle();
    let sealed = net.seal(0, "payload").unwrap();
    let from = net.ends[0].address;

    for bit in 0..sealed.datagram.len() * 8 {
        let mut forged = sealed.clone();
        forged.datagram[bit / 8] ^= 1 << (bit % 8);
        let incoming = net.deliver(from, forged);
        assert!(matches!(incoming, Some(Incoming::Dropped(_))), "{bit}: {incoming:?}");
    }
    for len in 0..sealed.datagram.len() {
        let mut cut = sealed.clone();
        cut.datagram.truncate(len);
        let incoming = net.deliver(from, cut);
        assert!(matches!(incoming, Some(Incoming::Dropped(_))), "{len}: {incoming:?}");
    }

    net.deliver(from, sealed);
    assert_eq!(net.ends[1].received, ["payload"], "forgeries do not use up the number");
    assert_eq!(net.ends[1].peers.endpoint(PeerId(0)), Some(from));
}

#[test]
fn forgeries_do_not_move_a_peer() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    net.story();
    let mut forged = net.seal(0, "payload").unwrap();
    *forged.datagram.last_mut().unwrap() ^= 1;

    let incoming = net.deliver(address("203.0.113.9:9"), forged);

    net.collect(1);
    assert_eq!(incoming, Some(Incoming::Dropped(Dropped::Forged)));
    assert!(net.story().is_empty());
    // Nor is it asked for there.
    assert_eq!(net.ends[1].peers.stats(PeerId(0)).moves_checked, 0);
}

#[test]
fn a_keepalive_that_was_changed_or_comes_again_moves_nobody() {
    let mut net = Net::with(|b_for_a, _| b_for_a.keepalive = Some(Duration::from_secs(15)));
    net.settle();
    net.story();
    net.now += Duration::from_secs(15);
    for end in &mut net.ends {
        end.peers.handle_timeout(net.now);
    }
    net.collect(0);
    let keepalive = net.wire.remove(0).1;
    let elsewhere = address("203.0.113.9:9");

    for bit in 0..keepalive.datagram.len() * 8 {
        let mut forged = keepalive.clone();
        forged.datagram[bit / 8] ^= 1 << (bit % 8);
        let incoming = net.deliver(elsewhere, forged);
        assert!(matches!(incoming, Some(Incoming::Dropped(_))), "{bit}: {incoming:?}");
    }
    let first = net.deliver(net.ends[0].address, keepalive.clone());
    let again = net.deliver(elsewhere, keepalive);

    assert_eq!(first, Some(Incoming::Nothing));
    assert_eq!(again, Some(Incoming::Dropped(Dropped::Replayed)));
    net.collect(1);
    assert!(net.story().is_empty());
}

/// Who has checked a number may find that it was taken while the datagram was opened. Two threads that
/// wait for each other before each are often at the same one.
#[test]
fn of_two_threads_that_open_the_same_one_takes_it() {
    const ALL: usize = 2_000;
    let mut net = Net::pair();
    net.settle();
    let long = "x".repeat(4_000);
    let sealed: Vec<_> = (0..ALL).map(|_| net.seal(0, &long).unwrap().datagram).collect();
    let (now, from) = (net.now, net.ends[0].address);
    let reached = [0, 1].map(|_| AtomicUsize::new(0));

    let taken: usize = std::thread::scope(|threads| {
        let take = |who: usize| {
            let (mut opener, mut sealed) = (net.ends[1].peers.opener(), sealed.clone());
            let reached = &reached;
            threads.spawn(move || {
                let mut taken = 0;
                for (at, datagram) in sealed.iter_mut().enumerate() {
                    reached[who].store(at, SeqCst);
                    while reached[1 - who].load(SeqCst) < at {
                        std::thread::yield_now();
                    }
                    let opened = opener.open(now, from, datagram);
                    taken += usize::from(matches!(opened, Opened::Payload { .. }));
                }
                reached[who].store(ALL, SeqCst);
                taken
            })
        };
        [take(0), take(1)].into_iter().map(|thread| thread.join().unwrap()).sum()
    });

    assert_eq!(taken, ALL);
}

#[test]
fn a_cookie_is_used_no_longer_than_it_is_good() {
    let mut net = Net::pair();
    let config = [peer(&net.ends[1].key, Some(net.ends[1].address))];
    for seed in 0..100 {
        let (rng, secrets) = (Rng::stream(seed, "flood"), seeded(seed, "flood"));
        let mut calls = Peers::new(net.now, UNIX, &key(66), &config, rng, secrets).unwrap();
        let call = calls.poll_transmit(net.now).unwrap();
        net.deliver(address("203.0.113.9:9"), call);
    }
    net.settle();
    assert_eq!(net.ends[0].peers.stats(PeerId(0)).cookies_received, 1);
    let got = net.now;

    // Nothing is heard of b any more.
    let mut has_cookie = Vec::new();
    while net.now.since(got) < Duration::from_secs(200) {
        net.now = net.ends[0].peers.next_timeout().unwrap();
        net.ends[0].peers.handle_timeout(net.now);
        net.collect(0);
        for (_, call) in net.wire.drain(..) {
            let is_there = call.datagram[CALL - 16..] != [0; 16];
            has_cookie.push((net.now.since(got), is_there));
        }
    }

    let until = Duration::from_secs(120);
    assert!(has_cookie.iter().all(|(age, is_there)| *is_there == (*age < until)), "{has_cookie:?}");
    assert!(has_cookie.len() > 20);
}

#[test]
fn a_flood_of_calls_is_answered_with_cookies_and_friends_get_through() {
    let mut net = Net::pair();
    // A stranger that knows b's public key, and whom b does not know.
    let stranger = key(66);
    let config = [peer(&net.ends[1].key, Some(net.ends[1].address))];
    let from = address("203.0.113.9:9");
    let mut tried = 0;
    for seed in 0..150 {
        let rng = Rng::stream(seed, "flood");
        let secrets = seeded(seed, "flood");
        let mut calls = Peers::new(net.now, UNIX, &stranger, &config, rng, secrets).unwrap();
        let call = calls.poll_transmit(net.now).unwrap();
        if net.deliver(from, call) == Some(Incoming::Dropped(Dropped::UnknownKey)) {
            tried += 1;
        }
    }
    assert_eq!(tried, 100, "keys are computed for so many only");
    let totals = net.ends[1].peers.totals();
    assert_eq!((totals.busy, totals.cookies), (50, 50));
    while let Some(cookie) = net.ends[1].peers.poll_transmit(net.now) {
        assert!(cookie.datagram.len() < CALL, "no amplification");
    }

    // The friend is sent a cookie too, and uses it at once.
    net.settle();
    assert_eq!(net.ends[1].peers.totals().cookies, 51);
    net.now = net.ends[0].peers.next_timeout().unwrap();
    assert!(net.now.since(Time::ZERO) < Duration::from_millis(10_400));
    // Meanwhile the flood has spent what there was for all.
    for seed in 150..300 {
        let rng = Rng::stream(seed, "flood");
        let secrets = seeded(seed, "flood");
        let mut calls = Peers::new(net.now, UNIX, &stranger, &config, rng, secrets).unwrap();
        let call = calls.poll_transmit(net.now).unwrap();
        net.deliver(from, call);
    }
    while net.ends[1].peers.poll_transmit(net.now).is_some() {}
    net.ends[0].peers.handle_timeout(net.now);
    net.settle();

    net.assert_connected();
}

#[test]
fn noise_costs_a_mac_and_leaves_nothing() {
    let mut net = Net::pair();
    let mut octets = vec![7; CALL];
    octets[0] = 1;

    for round in 0..1_000_u32 {
        octets[4..8].copy_from_slice(&round.to_be_bytes());
        let from = address("203.0.113.9:9");
        let incoming = net.ends[1].peers.handle_datagram(net.now, from, &mut octets.clone());
        assert_eq!(incoming, Incoming::Dropped(Dropped::NotForUs));
    }

    assert_eq!(net.ends[1].peers.totals().not_for_us, 1_000);
    assert!(net.ends[1].peers.poll_transmit(net.now).is_none());
    net.settle();
    net.assert_connected();
}

#[test]
fn queues_have_an_end_when_nobody_empties_them() {
    let mut net = Net::pair();
    net.collect(0);
    let call = net.wire[0].1.clone();
    let from = net.ends[0].address;
    for second in 0..1_000 {
        let now = net.now + Duration::from_secs(second);
        net.ends[1].peers.handle_datagram(now, from, &mut call.datagram.clone());
    }

    let mut answers = 0;
    while net.ends[1].peers.poll_transmit(net.now).is_some() {
        answers += 1;
    }
    assert_eq!(answers, 68);
    assert!(net.ends[1].peers.totals().overflow > 900);
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let own = key(1);
    let make = |peers: &[super::super::Peer]| {
        Peers::new(Time::ZERO, UNIX, &own, peers, Rng::stream(1, "x"), seeded(1, "x")).err()
    };

    assert_eq!(make(&[peer(&own, None)]), Some(Unusable::OwnKey(0)));
    assert_eq!(make(&[peer(&key(2), None), peer(&key(2), None)]), Some(Unusable::SameKey(1)));
    let many = vec![peer(&key(2), None); MAX_PEERS + 1];
    assert_eq!(make(&many), Some(Unusable::TooMany(1_025)));
    assert_eq!(make(&[]), None);
}

proptest! {
    #![proptest_config(harness::cases(64))]

    #[test]
    fn no_octets_panic_or_pass(
        datagrams in prop::collection::vec((0_u8..7, prop::collection::vec(any::<u8>(), 0..200)), 1..40),
    ) {
        let mut net = Net::pair();
        net.settle();

        for (kind, mut octets) in datagrams {
            octets.insert(0, kind);
            for end in &mut net.ends {
                let incoming = end.peers.handle_datagram(
                    net.now, address("203.0.113.9:9"), &mut octets.clone(),
                );
                prop_assert!(matches!(incoming, Incoming::Dropped(_)), "{incoming:?}");
            }
        }

        net.assert_connected();
    }

    #[test]
    fn any_loss_repetition_and_change_of_handshakes_ends_connected_or_still_calling(
        fates in prop::collection::vec((0_u8..6, any::<u16>()), 1..60),
    ) {
        let mut net = Net::with(|_, a_for_b| a_for_b.endpoint = Some(address("192.0.2.1:51900")));

        for (fate, at) in fates {
            for end in 0..2 {
                net.collect(end);
            }
            for (from, mut outgoing) in std::mem::take(&mut net.wire) {
                let source = net.ends[from].address;
                match fate {
                    0 => {}
                    1 => {
                        let len = outgoing.datagram.len();
                        outgoing.datagram[usize::from(at) % len] ^= 0x10;
                        net.deliver(source, outgoing);
                    }
                    2 => {
                        net.deliver(source, outgoing.clone());
                        net.deliver(source, outgoing);
                    }
                    _ => {
                        net.deliver(source, outgoing);
                    }
                }
            }
            let due = net.ends.iter().filter_map(|end| end.peers.next_timeout()).min().unwrap();
            net.now = net.now.max(due);
            for end in &mut net.ends {
                end.peers.handle_timeout(net.now);
            }
        }
        net.wait(Duration::from_secs(15));

        net.assert_connected();
        let known = net.wire.iter().all(|(_, sent)| Datagram::parse(&sent.datagram).is_ok());
        prop_assert!(known);
    }
}

#[test]
fn a_peer_that_writes_another_source_into_its_datagrams_moves_nowhere() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    net.story();
    let home = net.ends[0].address;
    let (mut asked, before) = (0, net.ends[1].peers.stats(PeerId(0)));

    // 2,000 in a second, some again and again.
    for number in 0..2_000_u16 {
        net.now += Duration::from_micros(500);
        let sealed = net.seal(0, "from wherever").unwrap();
        let [high, low] = (number % 500).to_be_bytes();
        net.deliver((Ipv4Addr::new(10, 2, high, low), 51_900).into(), sealed);
        net.ends.iter_mut().for_each(|end| end.peers.handle_timeout(net.now));
        net.collect(1);
        asked += net.wire.drain(..).filter(|(_, sent)| sent.to != home).count();
    }

    let stats = net.ends[1].peers.stats(PeerId(0));
    assert!(net.story().is_empty());
    assert_eq!((net.ends[1].peers.endpoint(PeerId(0)), stats.moves), (Some(home), before.moves));
    assert!((4..=5).contains(&stats.moves_checked), "four, and one a second: {stats:?}");
    assert!(asked <= 12, "{asked} datagrams to who may know nothing of it");
    // Afterwards it really moves.
    net.wait(Duration::from_secs(2));
    net.ends[0].address = address("198.51.100.7:4000");
    net.send(0, "from elsewhere");
    assert_eq!(net.ends[1].peers.endpoint(PeerId(0)), Some(net.ends[0].address));
}

#[test]
fn a_further_path_of_a_peer_makes_no_address_a_known_one() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    let path = PathId::new(1).unwrap();
    let home = net.ends[1].address;
    net.ends[0].peers.handle_further(PeerId(0), path, home);
    let known = |net: &Net| net.ends[1].peers.endpoints(PeerId(0)).collect::<Vec<_>>();
    let before = known(&net);
    net.story();

    // 2,000 in a second, each from another address.
    for count in 0..2_000_u16 {
        net.now += Duration::from_micros(500);
        let mut datagram = vec![0; OVERHEAD];
        let number = path.number(count.into());
        let to = net.ends[0].peers.seal(net.now, PeerId(0), number, &mut datagram).unwrap();
        let [high, low] = count.to_be_bytes();
        let from = (Ipv4Addr::new(10, 2, high, low), 51_900).into();
        net.deliver(from, Outgoing { to, datagram, fresh: None });
        net.collect(1);
    }

    let told = net.story().len();
    assert!((5..=10).contains(&told), "five, and five a second: {told}");
    assert_eq!(known(&net), before, "none of them is a place to call, or the first path's");
    assert!(net.wire.is_empty(), "and none is sent anything by a handshake");
}

#[test]
fn an_address_that_answers_nothing_is_asked_some_times_and_asked_anew_when_heard_again() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    let elsewhere = address("198.51.100.7:4000");
    let calls = |net: &Net| net.ends[1].peers.stats(PeerId(0)).calls_sent;
    let before = calls(&net);
    let sealed = net.seal(0, "from elsewhere").unwrap();
    net.deliver(elsewhere, sealed);

    net.wait(Duration::from_secs(10));
    let asked = calls(&net) - before;
    assert_eq!((asked, net.ends[1].peers.endpoint(PeerId(0))), (6, Some(net.ends[0].address)));

    net.ends[0].address = elsewhere;
    net.send(0, "from elsewhere, and there");
    assert_eq!(net.ends[1].peers.endpoint(PeerId(0)), Some(elsewhere));
}

#[test]
fn a_handshake_proves_where_its_messages_went_and_not_where_they_say_they_come_from() {
    let forged = address("10.2.0.1:51900");
    let mut net = Net::pair();
    let [home_a, home_b] = [0, 1].map(|end| net.ends[end].address);
    net.collect(0);
    let (_, call) = net.wire.remove(0);

    // b's answer to a with another source; then a's call again, and its first datagram.
    net.deliver(home_a, call.clone());
    net.collect(1);
    let (_, answer) = net.wire.remove(0);
    net.deliver(forged, call);
    net.deliver(forged, answer);
    net.collect(0);
    let sent = std::mem::take(&mut net.wire);
    let keepalive = sent.iter().find(|(_, it)| it.datagram[0] == 5 && it.to == home_b);
    net.deliver(forged, keepalive.unwrap().1.clone());

    assert_eq!(net.ends[0].peers.endpoint(PeerId(0)), Some(home_b));
    assert_eq!(net.ends[1].peers.endpoint(PeerId(0)), Some(home_a));
    net.settle();
    net.assert_connected();
    assert_eq!(net.ends[1].peers.endpoint(PeerId(0)), Some(home_a));
}

#[test]
fn an_answer_to_a_call_that_went_elsewhere_too_moves_nobody() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    let (home, forged) = (net.ends[0].address, address("10.2.0.1:51900"));
    // b calls a where it is, and has the call answered before it is heard from elsewhere.
    net.ends[1].peers.handle_silence(net.now, PeerId(0));
    net.collect(1);
    let (_, call) = net.wire.remove(0);
    net.deliver(net.ends[1].address, call);
    net.collect(0);
    let (_, answer) = net.wire.pop().unwrap();
    let sealed = net.seal(0, "from elsewhere").unwrap();
    net.deliver(forged, sealed);

    net.deliver(forged, answer);

    assert_eq!(net.ends[1].peers.endpoint(PeerId(0)), Some(home));
}

//! Keys that change while sessions go on.

use std::time::Duration;

use super::*;

const A_WHILE: Duration = Duration::from_secs(25);

/// The keys by which both ends agreed last, as the end `at` sees it: its own, and the other's.
fn used(net: &Net, at: usize) -> (PublicKey, PublicKey) {
    net.ends[at].peers.used_keys(PeerId(0)).unwrap()
}

/// The end has another key, and keeps the one before.
fn change_own(net: &mut Net, at: usize, new: &PrivateKey) {
    let before = net.ends[at].key.clone();
    net.ends[at].peers.set_own_keys(net.now, new, Some(&before)).unwrap();
    net.ends[at].key = new.clone();
}

/// The other end has another key, and may still have the one before.
fn change_its(net: &mut Net, at: usize, new: &PrivateKey) -> bool {
    let known = net.ends[at].config[0].clone();
    let previous_key = Some(known.public_key);
    let changed = super::super::Peer { public_key: new.public_key(), previous_key, ..known };
    net.ends[at].peers.set_peer_keys(net.now, PeerId(0), &changed).unwrap()
}

/// Sends a text each way every tenth of a second, and expects all of them.
fn talk(net: &mut Net, span: Duration) {
    let (end, mut turn) = (net.now + span, 0);
    for end in &mut net.ends {
        end.received.clear();
    }
    while net.now < end {
        let text = turn.to_string();
        net.send(0, &text);
        net.send(1, &text);
        turn += 1;
        net.wait(Duration::from_millis(100));
    }
    let all: Vec<_> = (0..turn).map(|turn| turn.to_string()).collect();
    assert_eq!((&net.ends[0].received, &net.ends[1].received), (&all, &all), "{:?}", net.trace);
}

#[test]
fn keys_of_both_ends_change_in_any_order_and_nothing_is_lost() {
    for order in [[0, 1], [1, 0]] {
        for whose in [0, 1] {
            let mut net = Net::pair();
            net.settle();
            net.assert_connected();
            let new = key(77);
            for who in order {
                if who == 0 {
                    change_own(&mut net, whose, &new);
                } else {
                    assert!(change_its(&mut net, 1 - whose, &new));
                }
                talk(&mut net, A_WHILE);
            }
            // The next session is by the new key at the latest, and the one before is not needed.
            talk(&mut net, Duration::from_secs(130));

            assert_eq!(used(&net, whose).0, new.public_key(), "{order:?} {whose}: {:?}", net.trace);
            assert_eq!(used(&net, 1 - whose).1, new.public_key());
            net.ends[whose].peers.set_own_keys(net.now, &new, None).unwrap();
            let known = super::super::Peer {
                public_key: new.public_key(),
                ..net.ends[1 - whose].config[0].clone()
            };
            assert!(net.ends[1 - whose].peers.set_peer_keys(net.now, PeerId(0), &known).unwrap());
            talk(&mut net, Duration::from_secs(400));
            let story = net.story();
            let is_bad = |said: &String| said.contains("new") || said.contains("expired");
            let bad: Vec<_> = story.iter().skip(2).filter(|said| is_bad(said)).collect();
            assert!(bad.is_empty(), "{story:?}");
        }
    }
}

#[test]
fn a_peer_that_knows_only_the_key_before_is_called_with_it_before_the_session_ends() {
    let mut net = Net::pair();
    net.settle();

    change_own(&mut net, 0, &key(77));
    change_own(&mut net, 1, &key(78));
    talk(&mut net, Duration::from_secs(1_000));

    assert_eq!(used(&net, 0), (key(1).public_key(), key(2).public_key()));
}

#[test]
fn what_was_agreed_on_with_a_key_that_is_ours_no_more_ends() {
    let mut net = Net::pair();
    net.settle();
    let _ = net.story();

    net.ends[0].peers.set_own_keys(net.now, &key(77), None).unwrap();
    net.settle();

    assert_eq!(net.story()[0], "a expired");
    assert!(!net.ends[0].peers.has_session(net.now, PeerId(0)));
}

#[test]
fn a_peer_with_none_of_its_keys_left_and_keys_of_others_are_refused() {
    let mut net = Net::pair();
    net.settle();
    let known = net.ends[0].config[0].clone();
    let with =
        |public_key, previous_key| super::super::Peer { public_key, previous_key, ..known.clone() };
    let (own, another, its) = (key(1).public_key(), key(77).public_key(), key(2).public_key());
    let peers = &mut net.ends[0].peers;

    let changed = peers.set_peer_keys(net.now, PeerId(0), &with(another, None));
    let refused = peers.set_peer_keys(net.now, PeerId(0), &with(another, Some(own)));
    let ours = peers.set_own_keys(net.now, &key(2), None);

    assert_eq!(changed, Ok(false));
    assert_eq!(refused, Err(Unusable::OwnKey(0)));
    assert_eq!(ours, Err(Unusable::OwnKey(0)));
    assert_eq!(peers.used_keys(PeerId(0)), Some((own, its)));
}

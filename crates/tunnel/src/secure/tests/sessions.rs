//! Agreeing on keys, and agreeing anew.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn two_who_know_each_other_agree_and_talk() {
    let mut net = Net::pair();

    net.settle();

    assert_eq!(net.story(), ["a new", "b new", "b moved to 192.0.2.1:51900"]);
    net.assert_connected();
    assert_eq!(net.ends[0].peers.stats(PeerId(0)).calls_sent, 1);
}

#[test]
fn it_does_not_matter_who_calls_nor_that_both_do() {
    let mut net = Net::with(|_, a_for_b| a_for_b.endpoint = Some(address("192.0.2.1:51900")));

    net.settle();

    let story = net.story();
    assert_eq!(story.iter().filter(|said| *said == "a new").count(), 1, "{story:?}");
    assert_eq!(story.iter().filter(|said| *said == "b new").count(), 1, "{story:?}");
    net.assert_connected();
    net.wait(SECOND * 600);
    net.assert_connected();
    assert!(!net.story().iter().any(|said| said.contains("expired")));
}

#[test]
fn a_shared_secret_has_to_be_shared() {
    let secret = |seed: u8| -> PresharedKey { key(seed).to_base64().parse().unwrap() };
    let mut net = Net::with(|b_for_a, a_for_b| {
        b_for_a.preshared_key = Some(secret(7));
        a_for_b.preshared_key = Some(secret(7));
    });
    net.settle();
    net.assert_connected();

    let mut net = Net::with(|b_for_a, _| b_for_a.preshared_key = Some(secret(7)));
    net.wait(SECOND * 30);

    // Each is told once, and both ends know what is likely to be wrong.
    assert_eq!(net.story(), ["a Unreadable", "a unanswered", "b Unconfirmed"]);
    let [a, b] = [0, 1].map(|end: usize| net.ends[end].peers.stats(PeerId(0)));
    assert!(a.bad_answers > 10 && a.answers_received == 0, "{a:?}");
    assert!(b.calls_received == 1 && b.calls_repeated > 10, "{b:?}");
    assert_eq!(net.ends[0].peers.last_handshake(PeerId(0)), None);
}

#[test]
fn a_key_that_is_not_known_gets_no_answer() {
    let mut net = Net::with(|_, a_for_b| a_for_b.public_key = key(9).public_key());
    let mut answers = 0;

    net.collect(0);
    let call = net.wire.remove(0).1;
    assert_eq!(
        net.deliver(net.ends[0].address, call),
        Some(Incoming::Dropped(Dropped::UnknownKey))
    );
    while net.ends[1].peers.poll_transmit(net.now).is_some() {
        answers += 1;
    }

    assert_eq!(answers, 0);
    net.wait(SECOND * 60);
    // Three in a row are told, then one in 20 s.
    let story = net.story();
    let told = story.iter().filter(|said| *said == "b unknown key").count();
    assert!((3..=6).contains(&told), "{story:?}");
    assert_eq!(story.iter().filter(|said| *said == "a unanswered").count(), 1, "{story:?}");
    assert!(net.ends[1].peers.totals().unknown_key > 10);
}

#[test]
fn a_call_that_was_made_for_another_key_is_told() {
    let mut net = Net::with(|b_for_a, _| b_for_a.public_key = key(9).public_key());

    net.wait(SECOND * 5);

    // Both ends say so within 5 s.
    let story = net.story();
    assert_eq!(story.iter().filter(|said| *said == "b another's call").count(), 3, "{story:?}");
    assert_eq!(story.iter().filter(|said| *said == "a unanswered").count(), 1, "{story:?}");
    assert_eq!(story.len(), 4, "{story:?}");
}

#[test]
fn calls_are_repeated_until_one_and_its_answer_pass() {
    for (lost, seconds) in [(1, 2), (4, 6), (9, 40)] {
        let mut net = Net::pair();
        for _ in 0..lost {
            net.collect(0);
            net.wire.clear();
            net.now = net.ends[0].peers.next_timeout().unwrap();
            net.ends[0].peers.handle_timeout(net.now);
        }

        net.settle();

        assert!(net.now.since(Time::ZERO) < SECOND * (10 + seconds), "{lost}: {:?}", net.now);
        net.assert_connected();
    }
}

#[test]
fn an_answer_that_takes_longer_than_a_repetition_is_understood() {
    let mut net = Net::pair();
    net.collect(0);
    let call = net.wire.remove(0).1;
    net.deliver(net.ends[0].address, call);
    net.collect(1);
    let answer = net.wire.remove(0).1;
    for _ in 0..5 {
        net.now = net.ends[0].peers.next_timeout().unwrap();
        net.ends[0].peers.handle_timeout(net.now);
    }

    net.deliver(net.ends[1].address, answer);
    net.settle();

    net.assert_connected();
    assert_eq!(net.ends[1].peers.stats(PeerId(0)).sessions, 1);
}

#[test]
fn a_lost_answer_is_repeated_without_new_keys() {
    let mut net = Net::pair();
    net.passes = |from, _| from == 0;
    net.wait(SECOND * 4);
    net.passes = |_, _| true;

    net.wait(SECOND * 4);

    net.assert_connected();
    let stats = net.ends[1].peers.stats(PeerId(0));
    assert!(stats.calls_answered > 1);
    assert_eq!((stats.sessions, net.ends[1].peers.totals().stale), (1, 0));
}

#[test]
fn keys_change_every_two_minutes_and_cores_stay() {
    let mut net = Net::pair();
    net.wait(SECOND * 119);
    net.story();

    net.wait(SECOND * 7);

    assert_eq!(net.story(), ["a rekeyed", "b rekeyed"]);
    net.assert_connected();
    net.wait(SECOND * 3_600);
    assert!(net.story().iter().all(|said| said.ends_with("rekeyed")));
    net.assert_connected();
}

#[test]
fn nothing_in_flight_is_lost_when_keys_change() {
    let mut net = Net::pair();
    net.settle();
    let old = (net.seal(0, "sealed before").unwrap(), net.seal(1, "sealed before").unwrap());

    net.wait(SECOND * 130);
    assert!(net.story().contains(&"a rekeyed".to_owned()));
    net.send(0, "sealed after");
    net.send(1, "sealed after");
    net.deliver(net.ends[0].address, old.0);
    net.deliver(net.ends[1].address, old.1);

    assert_eq!(net.ends[0].received, ["sealed after", "sealed before"]);
    assert_eq!(net.ends[1].received, ["sealed after", "sealed before"]);
}

#[test]
fn the_old_keys_are_used_until_the_new_are_confirmed() {
    let mut net = Net::pair();
    net.settle();
    net.story();
    // b answers the next call, but a's first word under the new keys does not arrive.
    net.passes = |from, datagram| from == 1 || datagram[0] != 5;
    net.wait(SECOND * 127);
    assert_eq!(net.story(), ["a rekeyed"]);

    net.send(1, "under the old keys");
    assert_eq!(net.ends[0].received, ["under the old keys"]);
    net.send(0, "under the new keys");

    assert_eq!(net.story(), ["b rekeyed"]);
    assert_eq!(net.ends[1].received, ["under the new keys"]);
}

#[test]
fn keys_end_after_three_minutes_and_calls_go_on() {
    let mut net = Net::pair();
    net.settle();
    net.story();
    net.passes = |_, _| false;

    net.wait(SECOND * 200);

    assert_eq!(net.story(), ["a unanswered", "b unanswered", "a expired", "b expired"]);
    assert_eq!(net.seal(0, "lost").unwrap_err(), Unsealed::NoSession);
    net.passes = |_, _| true;
    net.wait(SECOND * 12);
    let story = net.story();
    assert!(story.len() == 2 && story.iter().all(|said| said.ends_with("rekeyed")), "{story:?}");
    net.assert_connected();
}

#[test]
fn who_was_called_asks_for_new_keys_if_the_caller_does_not() {
    let mut net = Net::pair();
    net.settle();
    net.story();
    // a's calls are lost, b's are not.
    net.passes = |from, datagram| from == 1 || datagram[0] != 1;

    net.wait(SECOND * 172);

    assert_eq!(net.story(), ["a unanswered", "b rekeyed", "a rekeyed"]);
    net.assert_connected();
}

#[test]
fn numbers_go_on_over_sessions_and_above_32_bits() {
    let mut net = Net::pair();
    net.settle();
    net.ends[0].numbers.insert(PeerId(0), 0x3_ffff_fffe);
    net.wait(SECOND * 1);
    // The peer learns of the leap with the next handshake, not before.
    let leapt = net.seal(0, "leapt").unwrap();
    assert_eq!(net.deliver(net.ends[0].address, leapt), Some(Incoming::Dropped(Dropped::Forged)));

    net.wait(SECOND * 130);
    for text in ["1", "2", "3"] {
        net.send(0, text);
    }

    assert_eq!(net.ends[1].received, ["1", "2", "3"]);
}

#[test]
fn a_peer_that_comes_disturbs_nobody_and_one_that_left_is_not_heard() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    net.story();
    let of_c = vec![peer(&key(2), Some(address("192.0.2.2:51900")))];
    net.ends.push(End::new(net.now, "c", key(3), "192.0.2.3:51900", of_c));

    let c = net.ends[1].peers.add_peer(net.now, &peer(&key(3), None)).unwrap();
    net.wait(SECOND * 10);
    assert_eq!(net.story(), ["c new", "b new", "b moved to 192.0.2.3:51900"]);
    // The stage counts anew for all peers when one is new; the cores' numbers only grow.
    net.ends[1].numbers.insert(PeerId(0), 100);
    net.assert_connected();
    net.send(2, "from c");
    assert_eq!(net.ends[1].received.pop().as_deref(), Some("from c"));

    net.ends[1].peers.remove_peer(c);
    let sealed = net.seal(2, "from c").unwrap();
    let from_c = net.ends[2].address;
    assert_eq!(net.deliver(from_c, sealed), Some(Incoming::Dropped(Dropped::Unknown)));
    let mut datagram = [0; OVERHEAD];
    let sealed = net.ends[1].peers.seal(net.now, c, 9, &mut datagram);
    assert_eq!(sealed, Err(Unsealed::NoSession));
    net.assert_connected();

    // Another takes its place.
    assert_eq!(net.ends[1].peers.add_peer(net.now, &peer(&key(4), None)), Ok(c));
    let sealed = net.seal(2, "from c").unwrap();
    assert_eq!(net.deliver(from_c, sealed), Some(Incoming::Dropped(Dropped::Unknown)));
    net.assert_connected();
}

#[test]
fn calls_that_nobody_confirms_push_out_no_session() {
    let mut net = Net::pair();
    net.settle();
    let late = net.seal(0, "sealed with the keys before").unwrap();
    net.ends[0].peers.handle_silence(net.now, PeerId(0));
    net.settle();
    net.assert_connected();

    let from = net.ends[0].address;
    for life in 1..=3 {
        // As if by a peer that starts again and again, and hears no answer.
        let unix = UNIX + Duration::from_secs(life);
        let (config, rng) = (&net.ends[0].config, Rng::stream(life, "lives"));
        let secrets = seeded(life, "lives");
        let mut calling =
            Peers::new(net.now, unix, &net.ends[0].key, config, rng, secrets).unwrap();
        let call = calling.poll_transmit(net.now).unwrap();
        assert_eq!(net.deliver(from, call), Some(Incoming::Nothing));
        while net.ends[1].peers.poll_transmit(net.now).is_some() {}
    }

    net.ends[1].received.clear();
    net.deliver(from, late);
    assert_eq!(net.ends[1].received, ["sealed with the keys before"]);
    net.assert_connected();
}

#[test]
fn a_peer_that_is_taken_out_and_in_again_begins_afresh_at_both_ends() {
    let mut net = Net::pair();
    net.settle();
    for _ in 0..20 {
        net.assert_connected();
    }
    net.story();

    for at in 0..2 {
        let end = &mut net.ends[at];
        end.peers.remove_peer(PeerId(0));
        let other = super::Peer { keepalive: Some(SECOND * 7), ..end.config[0].clone() };
        assert_eq!(end.peers.add_peer(net.now, &other), Ok(PeerId(0)));
        // Who is not called, because nobody knows where it is, is called when it is missed.
        net.wait(SECOND * 2);
        net.ends[1 - at].peers.handle_silence(net.now, PeerId(0));
        net.settle();

        let story = net.story();
        for end in ["a new", "b new"] {
            assert!(story.iter().any(|said| said == end), "{at}: {story:?}");
        }
        net.assert_connected();
    }
}

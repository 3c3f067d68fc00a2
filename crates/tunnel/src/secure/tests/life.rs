//! Restarts, clocks that jump, peers that move, silence.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn either_end_may_start_again() {
    for end in [0, 1] {
        let mut net = Net::pair();
        net.settle();
        net.assert_connected();
        net.story();

        net.restart(end, UNIX + SECOND);
        net.settle();
        if end == 1 {
            // b does not know where a is: a has to notice that nobody answers.
            net.wire.clear();
            let _ = net.seal(0, "into the void").unwrap();
            net.wait(SECOND * 25);
        }

        let story = net.story();
        for said in ["a new", "b new"] {
            assert_eq!(story.iter().filter(|what| *what == said).count(), 1, "{end}: {story:?}");
        }
        net.assert_connected();
    }
}

#[test]
fn a_silent_peer_is_called_every_second_and_found_as_soon_as_it_is_back() {
    for outage in [SECOND / 10, SECOND, SECOND * 7, SECOND * 60, SECOND * 170] {
        let mut net = Net::pair();
        net.settle();
        net.assert_connected();
        net.passes = |_, _| false;
        net.ends[0].peers.handle_silence(net.now, PeerId(0));
        let called = net.ends[0].peers.stats(PeerId(0)).calls_sent;
        net.wait(outage);
        net.restart(1, UNIX + outage);
        net.passes = |_, _| true;
        net.story();

        // A second, and a third of one so that two who call each other do not stay in step.
        net.wait(SECOND * 4 / 3);

        let story = net.story();
        assert!(
            ["a new", "b new"].iter().all(|said| story.contains(&(*said).to_owned())),
            "{outage:?}"
        );
        net.assert_connected();
        let calls = net.ends[0].peers.stats(PeerId(0)).calls_sent - called;
        assert!(u128::from(calls) <= 4 + u128::from(outage.as_secs()), "{calls} in {outage:?}");
    }
}

#[test]
fn a_silent_peer_is_not_called_more_than_once_a_second() {
    let mut net = Net::pair();
    net.settle();
    let before = net.ends[0].peers.stats(PeerId(0)).calls_sent;

    for _ in 0..100 {
        net.ends[0].peers.handle_silence(net.now, PeerId(0));
        net.wait(SECOND / 20);
    }

    let calls = net.ends[0].peers.stats(PeerId(0)).calls_sent - before;
    assert!((4..=6).contains(&calls), "{calls} in 5 s");
}

#[test]
fn it_is_known_when_a_peer_was_heard_and_when_keys_were_agreed_on() {
    let mut net = Net::pair();
    let known = |net: &Net| {
        let peers = &net.ends[0].peers;
        (peers.last_handshake(PeerId(0)), peers.last_heard(PeerId(0)))
    };
    assert_eq!(known(&net), (None, None));
    net.settle();
    let begun = net.now;
    assert_eq!(known(&net), (Some(begun), Some(begun)));

    net.wait(SECOND * 20);
    net.send(1, "from b");

    assert_eq!(known(&net), (Some(begun), Some(net.now)));
}

#[test]
fn a_peer_that_is_called_in_vain_is_called_where_it_is_newly_configured() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    net.ends[1].address = address("198.51.100.9:1");
    net.ends[0].peers.handle_silence(net.now, PeerId(0));
    net.settle();

    net.ends[0].peers.handle_endpoints(net.now, PeerId(0), &[address("198.51.100.9:1")]);
    net.settle();

    net.assert_connected();
    assert_eq!(net.ends[0].peers.endpoint(PeerId(0)), Some(address("198.51.100.9:1")));
    // Being told the same again is no reason to call.
    let before = net.ends[0].peers.stats(PeerId(0)).calls_sent;
    net.ends[0].peers.handle_endpoints(net.now, PeerId(0), &[address("198.51.100.9:1")]);
    assert_eq!(net.ends[0].peers.stats(PeerId(0)).calls_sent, before);
}

#[test]
fn a_session_is_of_use_until_it_is_too_old_and_no_longer() {
    let mut net = Net::pair();
    net.settle();
    let expires = net.now + SECOND * 180;

    let is_there = |at| net.ends[0].peers.has_session(at, PeerId(0));

    assert_eq!([expires - Duration::from_nanos(1), expires].map(is_there), [true, false]);
}

#[test]
fn a_core_made_anew_never_meets_old_keys() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    let mut old = net.ends[0].peers.sealer(PeerId(0)).unwrap();
    let room = &mut [0; OVERHEAD];
    assert!(old.seal(net.now, 100, room).is_ok());

    net.restart(1, UNIX);
    net.ends[0].peers.handle_silence(net.now, PeerId(0));
    net.settle();

    assert_eq!(old.seal(net.now, 101, room), Err(Unsealed::Superseded));
    let mut new = net.ends[0].peers.sealer(PeerId(0)).unwrap();
    assert!(new.seal(net.now, 0, room).is_ok());
    assert_eq!(new.seal(net.now, 0, room), Err(Unsealed::NumberReused));
    assert!(new.seal(net.now, 7, room).is_ok());
    assert_eq!(new.seal(net.now, 6, room), Err(Unsealed::NumberReused));
    assert_eq!(new.seal(net.now, u64::MAX, room), Err(Unsealed::NumberReused));
    assert_eq!(new.seal(net.now, 8, &mut [0; OVERHEAD - 1]), Err(Unsealed::TooShort));
}

#[test]
fn the_halves_work_on_threads_of_their_own() {
    let mut net = Net::pair();
    // b has answered, and its next word from a comes by its opener.
    net.passes = |_, datagram| datagram[0] != 5;
    net.settle();
    let mut sealer = net.ends[0].peers.sealer(PeerId(0)).unwrap();
    let mut opener = net.ends[1].peers.opener();
    let (now, from) = (net.now, net.ends[0].address);

    let mut sealed = std::thread::spawn(move || {
        let mut datagram = vec![0x5a; 100 + OVERHEAD];
        sealer.seal(now, 3, &mut datagram).map(|_| datagram)
    })
    .join()
    .unwrap()
    .unwrap();
    let opened = std::thread::spawn(move || {
        let opened = opener.open(now, from, &mut sealed);
        (opened, sealed)
    });
    let (opened, datagram) = opened.join().unwrap();

    let Opened::Payload { number: 3, payload, heard: Some(heard), .. } = opened else {
        panic!("{opened:?}")
    };
    assert_eq!(&datagram[payload], [0x5a; 100]);
    net.ends[1].peers.handle_heard(now, heard);
    net.passes = |_, _| true;
    net.settle();
    let mut again = vec![0; OVERHEAD];
    let mut sealer = net.ends[0].peers.sealer(PeerId(0)).unwrap();
    sealer.seal(now, 4, &mut again).unwrap();
    let opened = net.ends[1].peers.opener().open(now, from, &mut again);
    assert!(matches!(opened, Opened::Payload { heard: None, .. }), "{opened:?}");
    net.send(1, "b has keys too");
    assert_eq!(net.ends[0].received, ["b has keys too"]);
}

#[test]
fn a_clock_that_went_back_costs_a_round_trip() {
    for unix in [Duration::ZERO, UNIX - SECOND * 86_400, UNIX * 20] {
        let mut net = Net::pair();
        net.settle();
        net.story();

        net.restart(0, unix);
        net.wait(SECOND / 10);

        let story = net.story();
        assert!(story.contains(&"a new".to_owned()), "{unix:?}: {story:?}");
        net.assert_connected();
        net.restart(0, UNIX);
        net.wait(SECOND / 10);
        net.assert_connected();
    }
}

#[test]
fn time_that_stands_leaps_or_goes_back_is_survived() {
    let mut net = Net::pair();
    net.settle();

    for now in [Time::ZERO, Time::from_nanos(5), net.now + SECOND * 1_000, net.now] {
        for end in &mut net.ends {
            end.peers.handle_timeout(now);
            while end.peers.poll_transmit(now).is_some() {}
        }
    }
    net.now += SECOND * 1_000;
    net.wait(SECOND * 60);

    net.assert_connected();
}

#[test]
fn a_replayed_call_changes_nothing_and_tells_nothing() {
    let mut net = Net::pair();
    net.collect(0);
    let call = net.wire[0].1.clone();
    net.settle();
    net.wait(SECOND * 130);
    net.story();
    let before = net.ends[1].peers.stats(PeerId(0)).sessions;
    let stranger = address("203.0.113.9:9");

    assert_eq!(net.deliver(stranger, call.clone()), Some(Incoming::Dropped(Dropped::Stale)));
    let answer = net.ends[1].peers.poll_transmit(net.now).unwrap();
    assert_eq!(answer.to, stranger);
    assert!(answer.datagram.len() < call.datagram.len());
    for _ in 0..20 {
        net.deliver(stranger, call.clone());
    }

    let mut answers = 0;
    while net.ends[1].peers.poll_transmit(net.now).is_some() {
        answers += 1;
    }
    assert!(answers <= 5, "{answers}");
    assert_eq!(net.ends[1].peers.stats(PeerId(0)).sessions, before);
    assert_eq!(net.ends[1].peers.endpoint(PeerId(0)), Some(net.ends[0].address));
    assert!(net.story().is_empty());
    net.assert_connected();
}

#[test]
fn a_call_replayed_after_a_restart_of_the_called_is_not_believed() {
    let mut net = Net::pair();
    net.collect(0);
    let call = net.wire[0].1.clone();
    net.settle();
    net.restart(1, UNIX);
    net.story();

    net.deliver(address("203.0.113.9:9"), call);

    net.collect(1);
    assert!(net.story().is_empty(), "it never proves that it has the keys");
    assert_eq!(net.ends[1].peers.endpoint(PeerId(0)), None);
    net.wire.clear();
    net.ends[0].peers.handle_silence(net.now, PeerId(0));
    net.settle();
    net.assert_connected();
}

#[test]
fn a_peer_that_moves_is_followed() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    net.story();

    let late = net.seal(0, "sealed at the old address").unwrap();
    net.ends[0].address = address("198.51.100.7:4000");
    net.send(0, "from elsewhere");
    // It has answered a call there.
    assert_eq!(net.story(), ["b rekeyed", "b moved to 198.51.100.7:4000", "a rekeyed"]);
    net.deliver(address("192.0.2.1:51900"), late);
    net.settle();

    assert!(net.story().is_empty(), "an older datagram says nothing of where the peer is now");
    net.assert_connected();
    assert_eq!(net.ends[1].peers.stats(PeerId(0)).moves, 2);
}

#[test]
fn a_keepalive_holds_the_path_and_follows_a_move() {
    let mut net = Net::with(|b_for_a, _| b_for_a.keepalive = Some(SECOND * 15));
    net.wait(SECOND);
    let before = net.ends[0].peers.stats(PeerId(0)).keepalives;

    net.wait(SECOND * 60);
    let sent = net.ends[0].peers.stats(PeerId(0)).keepalives - before;
    net.story();
    net.ends[0].address = address("198.51.100.7:4000");
    net.wait(SECOND * 16);

    assert!((3..=4).contains(&sent), "{sent}");
    assert_eq!(net.story(), ["b rekeyed", "b moved to 198.51.100.7:4000", "a rekeyed"]);
    assert_eq!(net.ends[1].peers.stats(PeerId(0)).keepalives, 1, "to confirm the keys");
}

#[test]
fn a_keepalive_that_was_late_does_not_lead_back() {
    let mut net = Net::with(|b_for_a, _| b_for_a.keepalive = Some(SECOND * 15));
    net.wait(SECOND);
    let left = net.ends[0].address;
    // The next keepalive is still on its way when the peer is heard from elsewhere.
    let late = loop {
        let due = net.ends.iter().map(|end| end.peers.next_timeout()).fold(None, earliest);
        net.now = due.unwrap();
        for end in &mut net.ends {
            end.peers.handle_timeout(net.now);
        }
        net.collect(0);
        if let Some((_, keepalive)) = net.wire.pop_if(|(_, outgoing)| outgoing.datagram[0] == 5) {
            break keepalive;
        }
        net.settle();
    };
    net.ends[0].address = address("198.51.100.7:4000");
    net.send(0, "from elsewhere");
    net.story();

    net.wait(SECOND / 4);
    net.deliver(left, late);
    net.settle();

    assert_eq!(net.story(), [""; 0]);
    assert_eq!(net.ends[1].peers.endpoint(PeerId(0)), Some(net.ends[0].address));
}

#[test]
fn data_without_answer_are_answered_by_a_keepalive() {
    let mut net = Net::pair();
    net.settle();

    net.send(0, "hello?");
    net.wait(SECOND * 30);

    assert_eq!(net.ends[1].peers.stats(PeerId(0)).keepalives, 1);
    assert_eq!(net.ends[0].peers.stats(PeerId(0)).calls_sent, 1, "it was answered");
}

#[test]
fn calls_go_where_the_peer_is_configured_if_it_left_where_it_was_heard() {
    let mut net = Net::with(|_, a_for_b| a_for_b.endpoint = Some(address("192.0.2.1:51900")));
    net.settle();
    net.ends[0].address = address("198.51.100.7:4000");
    net.send(0, "from elsewhere");
    net.story();

    // a is gone from there, without a word, and back at its home; b starts to notice by itself.
    net.ends[0].address = address("192.0.2.1:51900");
    net.restart(0, UNIX + SECOND);
    net.ends[0].config[0].endpoint = None;
    net.restart(0, UNIX + SECOND);
    let _ = net.seal(1, "hello?").unwrap();
    net.wait(SECOND * 120);

    assert!(net.story().contains(&"a new".to_owned()));
    net.assert_connected();
}

#[test]
fn a_peer_of_unknown_address_is_not_called_for_ever() {
    let mut net = Net::pair();
    net.settle();
    net.passes = |_, _| false;

    net.wait(SECOND * 600);
    let before = net.ends[1].peers.stats(PeerId(0)).calls_sent;
    net.wait(SECOND * 3_600);

    assert_eq!(net.ends[1].peers.stats(PeerId(0)).calls_sent, before);
    assert_eq!(net.ends[1].peers.next_timeout(), None);
    assert!(net.ends[0].peers.next_timeout().is_some(), "the other knows where to call");
}

#[test]
fn packets_that_want_keys_repeat_a_call_eight_times_in_a_row_and_four_times_a_second() {
    let mut net = Net::pair();
    net.passes = |_, _| false;
    net.wait(Duration::from_secs(60));
    let calls = |net: &Net| net.ends[0].peers.stats(PeerId(0)).calls_sent;
    let before = calls(&net);

    for _ in 0..200 {
        net.ends[0].peers.handle_wanted(net.now, PeerId(0));
        net.ends[0].peers.handle_timeout(net.now);
        net.wait(Duration::from_millis(50));
    }
    let wanted = calls(&net);
    net.wait(Duration::from_secs(60));

    assert!((30..=60).contains(&(wanted - before)), "{}", wanted - before);
    assert!((10..=14).contains(&(calls(&net) - wanted)), "as seldom as before");
}

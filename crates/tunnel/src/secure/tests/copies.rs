//! A machine that goes on twice: as itself, and as a copy that was made of it.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_machine_that_may_be_a_copy_seals_nothing_more_with_its_keys() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    net.story();
    let mut sealer = net.ends[0].peers.sealer(PeerId(0)).unwrap();
    let old = net.seal(1, "sealed before").unwrap();
    let wall = |net: &Net| UNIX + net.now.since(Time::ZERO);

    // A clock that is corrected gradually is no jump, however far that goes.
    for _ in 0..100 {
        net.wait(SECOND);
        let unix =
            wall(&net) + SECOND / 2 * u32::try_from(net.now.since(Time::ZERO).as_secs()).unwrap();
        assert!(!net.ends[0].peers.handle_wall_clock(net.now, unix));
    }
    assert_eq!(net.ends[0].peers.totals().copies, 0);
    assert!(sealer.seal(net.now, 1_000, &mut [0; OVERHEAD]).is_ok());

    net.story();
    let jumped = wall(&net) + SECOND * 1_000;
    assert!(net.ends[0].peers.handle_wall_clock(net.now, jumped));

    let sealed = sealer.seal(net.now, 1_001, &mut [0; OVERHEAD]);
    assert_eq!(sealed, Err(Unsealed::Superseded));
    assert!(!net.ends[0].peers.has_session(net.now, PeerId(0)));
    assert_eq!(net.ends[0].peers.totals().copies, 1);
    let opened = net.deliver(net.ends[1].address, old);
    assert!(matches!(opened, Some(Incoming::Dropped(_))), "{opened:?}");
    net.settle();
    let mut story = net.story();
    story.sort();
    assert_eq!(story, ["a expired", "a new", "b new"], "both ends begin anew, at once");
    net.assert_connected();
}

#[test]
fn the_side_that_is_called_is_copied_too() {
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    net.story();

    net.ends[1].peers.handle_copied(net.now);
    net.settle();

    net.assert_connected();
    assert!(net.story().contains(&"b new".to_owned()));
}

#[test]
fn a_clock_that_is_set_either_way_is_a_jump_from_a_second_on() {
    let half = SECOND / 2;
    let is_jump = |unix: Duration| {
        let mut net = Net::pair();
        assert!(!net.ends[0].peers.handle_wall_clock(net.now, UNIX), "nothing to compare with");
        net.now += SECOND * 5;
        net.ends[0].peers.handle_wall_clock(net.now, unix)
    };
    let expected = UNIX + SECOND * 5;

    assert!(!is_jump(expected + half) && !is_jump(expected - half));
    assert!(is_jump(expected + SECOND) && is_jump(expected - SECOND));
}

#[test]
fn all_peers_of_a_copy_are_called_anew() {
    let mut net = Net::pair();
    let of_c = vec![peer(&key(2), Some(address("192.0.2.2:51900")))];
    net.ends.push(End::new(net.now, "c", key(3), "192.0.2.3:51900", of_c));
    let c = net.ends[1].peers.add_peer(net.now, &peer(&key(3), None)).unwrap();
    net.settle();
    let all = [PeerId(0), c];
    assert!(all.iter().all(|peer| net.ends[1].peers.has_session(net.now, *peer)));

    net.ends[1].peers.handle_copied(net.now);

    assert!(!all.iter().any(|peer| net.ends[1].peers.has_session(net.now, *peer)));
    net.settle();
    assert!(all.iter().all(|peer| net.ends[1].peers.has_session(net.now, *peer)));
}

/// The original has the same handshake, and would agree on the same keys.
#[test]
fn a_copy_takes_no_answer_to_a_call_that_was_made_before() {
    let mut net = Net::pair();
    net.collect(0);
    let call = net.wire.remove(0).1;
    net.deliver(net.ends[0].address, call);
    net.collect(1);
    let answer = net.wire.remove(0).1;

    net.ends[0].peers.handle_copied(net.now);

    let heard = net.deliver(net.ends[1].address, answer);
    assert_eq!(heard, Some(Incoming::Dropped(Dropped::Unknown)));
    assert!(!net.ends[0].peers.has_session(net.now, PeerId(0)));
    net.settle();
    net.assert_connected();
}

#[test]
fn a_copy_does_not_repeat_an_answer_whose_keys_it_has_no_more() {
    let mut net = Net::pair();
    net.passes = |from, _| from == 0;
    net.settle();

    net.ends[1].peers.handle_copied(net.now);
    net.passes = |_, _| true;
    net.wait(SECOND * 2);

    net.assert_connected();
}

//! A gateway that ends and begins again, or one that takes the place of another with the same key.

use std::collections::BTreeSet;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_gateway_that_begins_again_calls_where_its_peer_was_heard_last() {
    // Nobody has told b where a is.
    let mut net = Net::pair();
    net.settle();
    net.assert_connected();
    net.story();
    let heard = net.ends[1].peers.endpoint(PeerId(0)).unwrap();

    net.now += SECOND;
    net.restart(1, UNIX + SECOND);
    net.collect(1);
    assert_eq!(net.wire.len(), 0, "b calls whom?");
    net.ends[1].peers.handle_last_heard(net.now, PeerId(0), heard);
    net.settle();

    let mut story = net.story();
    story.sort();
    assert_eq!(story, ["a new", "b new"]);
    assert_eq!(net.ends[1].peers.stats(PeerId(0)).calls_sent, 1);
    net.assert_connected();
}

#[test]
fn where_a_peer_was_heard_last_does_not_count_once_it_is_heard() {
    let mut net = Net::pair();
    net.settle();
    net.story();

    net.ends[1].peers.handle_last_heard(net.now, PeerId(0), address("198.51.100.9:1"));
    net.settle();

    assert_eq!(net.ends[1].peers.endpoint(PeerId(0)), Some(net.ends[0].address));
    assert_eq!(net.story(), [""; 0]);
    net.assert_connected();
}

/// Numbers begin at 0 in each life, and the static keys stay: only keys that are agreed on anew keep a nonce from being
/// used twice. What one life has sealed shows whether its key is another's: the same text with the same number differs.
#[test]
fn no_two_lives_of_a_gateway_seal_with_the_same_key_and_number() {
    let mut net = Net::pair();
    let (mut sealed, mut old) = (BTreeSet::new(), Vec::new());
    const LIVES: u64 = 20;

    for life in 0..LIVES {
        net.now += SECOND;
        if life > 0 {
            let which = usize::from(life % 2 == 0);
            net.restart(which, UNIX + SECOND * u32::try_from(life).unwrap());
            let other = net.ends[1 - which].address;
            net.ends[which].peers.handle_last_heard(net.now, PeerId(0), other);
        }
        net.settle();
        for end in [0, 1] {
            assert!(net.ends[end].numbers.get(&PeerId(0)).is_none_or(|number| *number == 0));
            let datagram = net.seal(end, "the same text").unwrap();
            assert!(sealed.insert(datagram.datagram[HEADER..].to_vec()), "life {life} of {end}");
            old.push((end, datagram));
        }
    }

    assert_eq!(sealed.len() as u64, 2 * LIVES);
    let (last, replayed) = (old.split_off(old.len() - 2), old);
    for (from, datagram) in replayed {
        let opened = net.deliver(net.ends[from].address, datagram);
        assert!(matches!(opened, Some(Incoming::Dropped(_))), "of an earlier life: {opened:?}");
    }
    for (from, datagram) in last {
        let opened = net.deliver(net.ends[from].address, datagram);
        assert!(matches!(opened, Some(Incoming::Payload { .. })), "{opened:?}");
    }
}

#[test]
fn an_answer_of_which_the_caller_made_nothing_is_counted_with_its_next_call() {
    let mut net = Net::pair();
    // No answer comes through.
    net.passes = |from, _| from == 0;
    net.settle();
    let unconfirmed = |net: &Net| net.ends[1].peers.stats(PeerId(0)).answers_unconfirmed;
    assert_eq!(unconfirmed(&net), 0);

    net.restart(0, UNIX + Duration::from_secs(1));
    net.settle();

    assert_eq!(unconfirmed(&net), 1);
}

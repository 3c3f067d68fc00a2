//! What a peer may do at most, also one whose keys somebody has stolen.

use super::super::mac::append_mac1;
use super::super::noise;
use super::super::wire::{Answer, CALL, Call, Datagram, Index, MAC, Reply};
use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// Of calls of each kind, so many are answered in a second.
const CALLS: u64 = 5;
/// Of answers, so many are looked at in a second.
const ANSWERS: usize = 20;
/// Times that a peer is believed that our clock is behind.
const MOST_STALE: u64 = 3;

/// A call as end 0 makes it when it has just started, so long after 1970 and with secrets of its own.
fn call_of_another_life(net: &Net, unix: Duration, life: u64) -> Outgoing {
    let (end, rng) = (&net.ends[0], Rng::stream(life, "lives"));
    let secrets = seeded(life, "lives");
    let mut life = Peers::new(net.now, unix, &end.key, &end.config, rng, secrets).unwrap();
    life.poll_transmit(net.now).unwrap()
}

#[test]
fn of_calls_in_a_row_some_are_answered() {
    let mut net = Net::pair();
    let from = net.ends[0].address;

    for life in 1..=20 {
        let call = call_of_another_life(&net, UNIX + SECOND * life, life.into());
        net.deliver(from, call);
    }

    let stats = net.ends[1].peers.stats(PeerId(0));
    assert_eq!((stats.calls_answered, stats.calls_busy), (CALLS, 20 - CALLS));
}

#[test]
fn of_repetitions_of_a_call_some_are_answered() {
    let mut net = Net::pair();
    let call = call_of_another_life(&net, UNIX, 1);

    for _ in 0..21 {
        net.deliver(net.ends[0].address, call.clone());
    }

    let stats = net.ends[1].peers.stats(PeerId(0));
    assert_eq!((stats.calls_answered, stats.calls_busy), (1 + CALLS, 20 - CALLS));
}

#[test]
fn of_wrong_answers_some_are_looked_at_and_the_right_one_still_counts() {
    let mut net = Net::pair();
    net.collect(0);
    let call = net.wire.remove(0).1;
    net.deliver(net.ends[0].address, call);
    net.collect(1);
    let answer = net.wire.remove(0).1;
    let from = net.ends[1].address;
    // Whoever knows a's public key and saw the call can make as many.
    let forged = |at: usize| {
        let mut forged = answer.clone();
        forged.datagram.truncate(forged.datagram.len() - MAC);
        forged.datagram[40 + at] ^= 1;
        append_mac1(&super::super::mac::mac_key(&key(1).public_key()), &mut forged.datagram);
        forged
    };
    let mut of_nobody = answer.clone();
    *of_nobody.datagram.last_mut().unwrap() ^= 1;

    assert_eq!(net.deliver(from, of_nobody), Some(Incoming::Dropped(Dropped::NotForUs)));
    let said: Vec<_> = (0..30).map(|at| net.deliver(from, forged(at)).unwrap()).collect();

    let count = |reason| said.iter().filter(|it| **it == Incoming::Dropped(reason)).count();
    assert_eq!((count(Dropped::Forged), count(Dropped::Busy)), (ANSWERS, 30 - ANSWERS));
    net.now += SECOND / 2;
    assert_eq!(net.deliver(from, answer), Some(Incoming::Nothing));
    net.settle();
    net.assert_connected();
}

#[test]
fn a_peer_that_finds_every_call_stale_is_not_called_without_end() {
    let mut net = Net::pair();
    let mut secrets = Seeded(Rng::stream(5, "b"));
    for round in 0..10 {
        net.collect(0);
        let Some((_, call)) = net.wire.pop() else { break };
        let Ok(Datagram::Call(call)) = Datagram::parse(&call.datagram) else { panic!("a call") };
        let heard = noise::hear(&key(2), call.noise, &mut secrets).unwrap();
        let reply = Reply::Stale { timestamp: 1 << 62 | round };
        let (_, noise) = heard.answer(&PresharedKey::none(), &reply.emit()).unwrap();
        let mut datagram = Answer::begin(call.sender, Index::new(0), &noise);
        append_mac1(&super::super::mac::mac_key(&key(1).public_key()), &mut datagram);
        net.deliver(
            net.ends[1].address,
            Outgoing { to: net.ends[0].address, datagram, fresh: None },
        );
    }

    assert_eq!(net.ends[0].peers.stats(PeerId(0)).calls_sent, 1 + MOST_STALE);
}

#[test]
fn a_peer_whose_name_leads_where_it_did_is_not_called_for_that() {
    let mut net = Net::pair();
    net.collect(0);
    let before = net.ends[0].peers.stats(PeerId(0)).calls_sent;

    for _ in 0..10 {
        let again = net.ends[1].address;
        net.ends[0].peers.handle_endpoints(net.now, PeerId(0), &[again]);
    }

    assert_eq!(net.ends[0].peers.stats(PeerId(0)).calls_sent, before);
}

#[test]
fn events_have_an_end_when_nobody_takes_them_and_those_of_a_peer_go_with_it() {
    let mut net = Net::pair();
    net.settle();
    // A session each, which end 1 has told nobody of.
    for _ in 0..100 {
        net.now += SECOND * 2;
        net.ends[0].peers.handle_silence(net.now, PeerId(0));
        for end in [0, 1, 0] {
            while let Some(outgoing) = net.ends[end].peers.poll_transmit(net.now) {
                net.deliver(net.ends[end].address, outgoing);
            }
        }
    }

    assert!(net.ends[1].peers.totals().overflow > 20, "{:?}", net.ends[1].peers.totals());
    net.ends[1].peers.remove_peer(PeerId(0));
    assert_eq!(net.ends[1].peers.poll_event(), None);
}

#[test]
fn sessions_that_follow_each_other_soon_are_four_at_most() {
    let mut net = Net::pair();
    net.settle();
    let mut sealed = Vec::new();
    for _ in 0..8 {
        sealed.push(net.seal(0, "late").unwrap());
        net.ends[0].peers.handle_silence(net.now, PeerId(0));
        net.wait(SECOND * 2);
    }

    let from = net.ends[0].address;
    let taken: Vec<bool> = sealed
        .into_iter()
        .map(|late| net.deliver(from, late) != Some(Incoming::Dropped(Dropped::Unknown)))
        .collect();
    assert_eq!(taken, [false, false, false, false, false, true, true, true], "and the current one");
}

#[test]
fn what_a_peer_sealed_before_it_started_anew_is_not_taken_afterwards() {
    let mut net = Net::pair();
    net.settle();
    let late = net.seal(0, "late").unwrap();

    net.restart(0, UNIX + SECOND);
    net.settle();

    let taken = net.deliver(net.ends[0].address, late);
    assert_eq!(taken, Some(Incoming::Dropped(Dropped::Unknown)));
    net.assert_connected();
}

#[test]
fn indexes_are_not_foreseen_from_those_before() {
    let net = Net::pair();
    let index = |life: u64| {
        let call = call_of_another_life(&net, UNIX, life);
        let Ok(Datagram::Call(Call { sender, .. })) = Datagram::parse(&call.datagram) else {
            panic!("a call of {CALL} octets")
        };
        sender
    };

    let all: std::collections::BTreeSet<_> = (0..50).map(index).collect();

    assert!(all.len() > 40, "{}", all.len());
}

/// Timers may be late; what they would do is not waited for.
#[test]
fn nothing_is_sealed_nor_opened_when_keys_are_too_old_though_no_timer_ran() {
    let mut net = Net::pair();
    net.settle();
    let born = net.now;
    let late = net.seal(0, "late").unwrap();
    let from = net.ends[0].address;

    net.now = born + SECOND * 180 - Duration::from_nanos(1);
    let last = net.seal(0, "the last").unwrap();
    assert!(matches!(net.deliver(from, last), Some(Incoming::Payload { .. })));
    net.now = born + SECOND * 180;

    assert_eq!(net.seal(0, "too late").unwrap_err(), Unsealed::NoSession);
    assert_eq!(net.deliver(from, late), Some(Incoming::Dropped(Dropped::Expired)));
}

#[test]
fn keys_that_nobody_confirms_have_a_timer_that_ends_them() {
    let mut net = Net::pair();
    let call = call_of_another_life(&net, UNIX, 1);
    net.deliver(net.ends[0].address, call);
    let b = &mut net.ends[1].peers;

    let due = b.next_timeout();
    assert_eq!(due, Some(net.now + SECOND * 180));
    b.handle_timeout(net.now + SECOND * 180);

    assert_eq!(b.next_timeout(), None);
}

#[test]
fn a_clock_beyond_the_next_century_is_not_said_to_peers() {
    let mut net = Net::pair();
    // They could be told nothing later.
    net.restart(0, UNIX * 5);
    net.settle();

    net.restart(0, UNIX);
    net.settle();

    assert_eq!(net.ends[1].peers.stats(PeerId(0)).calls_stale, 0);
    net.assert_connected();
}

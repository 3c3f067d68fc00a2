//! Tests of retries: which requests are retried, and for how long.

use base::time::Time;

use super::*;
use crate::s5066::node::Contact;

#[test]
fn undelivered_requests_to_a_lost_node_are_retried_within_their_time_to_live() {
    for (is_retried, gone) in [(true, MINUTE * 3), (true, HOUR), (false, HOUR)] {
        let mut pair = Pair::new("9600", |_| {});
        pair.send(Side::A, b"so that both are known");
        pair.run(MINUTE);
        // From now on neither node hears the other.
        pair.noise = Box::new(|_, octets| octets.fill(0));
        let ids: Vec<client::SendId> = (0..200_u8)
            .map(|number| {
                pair.send_as(Side::A, &[number; 2_000], |send| {
                    send.service = Some(Service { is_retried, ..Service::ARQ });
                    send.ttl = MINUTE * 30;
                })
            })
            .collect();
        pair.run(gone);
        pair.restart(Side::B);
        pair.noise = Box::new(|_, _| {});
        pair.run(MINUTE * 40);

        let rejected = pair.rejected(Side::A);
        let reasons: BTreeSet<u8> = rejected.iter().map(|(_, reason)| reason.0).collect();
        let arrived = pair.confirmed(Side::A).len() - 1;
        assert_eq!(arrived + rejected.len(), ids.len(), "each has one outcome");
        let unknown = rejected.iter().filter(|(_, it)| *it == UnidataReason::MAY_HAVE_ARRIVED);
        match (is_retried, gone == HOUR) {
            (true, false) => {
                assert_eq!(unknown.count(), rejected.len(), "{reasons:?}");
                assert!(arrived > 10, "{arrived}");
            }
            (true, true) => assert!(
                reasons.is_subset(
                    &[UnidataReason::EXPIRED, UnidataReason::MAY_HAVE_ARRIVED]
                        .map(|it| it.0)
                        .into()
                ),
                "{reasons:?}"
            ),
            (false, _) => assert!(!reasons.contains(&UnidataReason::EXPIRED.0), "{reasons:?}"),
        }
    }
}

#[test]
fn requests_that_wait_when_a_link_is_lost_use_the_next_one_if_they_may_be_retried() {
    for is_retried in [true, false] {
        let mut pair = Pair::new("1200", |_| {});
        pair.send(Side::A, b"so that both are known");
        pair.run(MINUTE);
        pair.noise = Box::new(|_, octets| octets.fill(0));
        for number in 0..200_u8 {
            pair.send_as(Side::A, &[number; 2_000], |send| {
                send.service = Some(Service { is_retried, ..Service::ARQ });
                send.ttl = HOUR * 3;
            });
        }
        // Eight transmissions of two minutes without an answer.
        pair.run(MINUTE * 40);
        assert_eq!(pair.node(Side::A).stats().links.links_broken, 1);
        pair.noise = Box::new(|_, _| {});
        pair.run(HOUR * 2);

        let (confirmed, rejected) = (pair.confirmed(Side::A).len() - 1, pair.rejected(Side::A));
        assert_eq!(confirmed + rejected.len(), 200);
        let unknown = rejected.iter().filter(|(_, it)| *it == UnidataReason::MAY_HAVE_ARRIVED);
        let unknown = unknown.count();
        assert!((5..120).contains(&unknown), "{unknown}");
        assert_eq!(confirmed > 0, is_retried, "{confirmed}");
        assert_eq!(rejected.len() == unknown, is_retried, "{rejected:?}");
    }
}

#[test]
fn requests_without_retries_are_rejected_when_a_call_is_not_answered() {
    let mut pair = Pair::new("9600", |_| {});
    pair.noise = Box::new(|_, octets| octets.fill(0));
    let id = pair.send(Side::A, b"HELLO");

    pair.run(MINUTE * 5);

    assert_eq!(pair.rejected(Side::A), [(Some(id), UnidataReason::NO_RESPONSE)]);
}

#[test]
fn an_absent_station_is_called_less_and_less_often() {
    let mut pair = Pair::new("9600", |_| {});
    pair.noise = Box::new(|_, octets| octets.fill(0));
    pair.send_as(Side::A, b"HELLO", |send| {
        send.service = Some(Service { is_retried: true, ..Service::ARQ });
        send.ttl = HOUR * 10;
    });
    pair.run(HOUR);
    let first = pair.transmissions()[0];
    pair.run(HOUR);
    let second = pair.transmissions()[0] - first;

    assert!((10..=40).contains(&first), "{first}");
    assert!((20..=26).contains(&second), "two calls every five minutes: {second}");

    pair.noise = Box::new(|_, _| {});
    pair.send(Side::B, b"here I am");
    pair.run(MINUTE);
    assert_eq!(
        pair.received(Side::B),
        [b"HELLO".to_vec()],
        "it is heard again, and called at once"
    );
}

#[test]
fn retries_to_a_station_that_was_heard_pause_as_shortly_as_at_first() {
    let (now, mut contact) = (Time::ZERO, Contact::new());
    let mut pause = || {
        contact.pause(now);
        contact.next_timeout()
    };
    let [first, second] = [pause(), pause()];
    assert!(first < second);

    contact.handle_heard(now);
    contact.pause(now);
    assert_eq!(contact.next_timeout(), first);
}

#[test]
fn absent_stations_leave_room_for_others() {
    let mut pair = Pair::new("9600", |config| config.peers = 4);
    for number in 1..12 {
        pair.send_as(Side::A, b"x", |send| {
            send.to = Address::node(number);
            send.service = Some(Service { is_retried: true, ..Service::ARQ });
            send.ttl = HOUR * 10;
        });
    }
    pair.run(HOUR);
    assert_eq!(pair.rejected(Side::A).len(), 9, "two are tried again");

    let id = pair.send(Side::A, b"HELLO");
    pair.run(MINUTE * 5);
    assert_eq!(pair.confirmed(Side::A), [id]);
}

/// The waits of 50 pairs of nodes that restart together until each has heard the other, if clients give them data for
/// each other that long after the restart and within the time in which no node hears the other begin. The fewest
/// transmissions come first.
fn waits_after_a_restart(waveform: &str, after: Duration) -> Vec<(u64, Duration)> {
    // A modem notices the other's transmission when its preamble is over.
    let unheard = waveform.parse::<Waveform>().unwrap().preamble() + Duration::from_millis(150);
    let mut waits: Vec<_> = (0..50_u32)
        .map(|seed| {
            let mut pair = Pair::new(waveform, |_| {});
            pair.run(Duration::from_millis(seed.into()));
            [Side::A, Side::B].into_iter().for_each(|side| pair.restart(side));
            pair.run(after);
            let restarted = pair.now;
            pair.send(Side::A, b"here I am");
            pair.run(unheard * seed / 50);
            pair.send(Side::B, b"here I am, too");
            let hears = |pair: &Pair, side| !pair.received(side).is_empty();
            while !(hears(&pair, Side::A) && hears(&pair, Side::B)) {
                pair.run(Duration::from_millis(10));
                assert!(pair.now.since(restarted) < MINUTE, "{waveform}, {seed}");
            }
            (pair.transmissions().into_iter().sum::<u64>(), pair.now.since(restarted))
        })
        .collect();
    waits.sort_unstable();
    let [first, half, last] = [0, 25, 49].map(|at| waits[at]);
    println!("{waveform}, {after:?}: {first:?}, half below {half:?}, all below {last:?}");
    waits
}

const WAVEFORMS: [&str; 4] = ["240000", "9600/short", "1200/short", "300/short"];

#[test]
fn nodes_whose_clients_have_data_at_once_after_a_restart_do_not_collide() {
    for waveform in WAVEFORMS {
        let waits = waits_after_a_restart(waveform, Duration::ZERO);

        // A call, its answer with data, and data.
        assert!(
            waits.iter().all(|(transmissions, _)| *transmissions <= 3),
            "{waveform}: {waits:?}"
        );
    }
}

#[test]
fn nodes_that_call_each_other_at_the_same_moment_collide_once() {
    for waveform in WAVEFORMS {
        let waits = waits_after_a_restart(waveform, MINUTE);

        // Two that collide before.
        assert!(
            waits.iter().all(|(transmissions, _)| *transmissions <= 5),
            "{waveform}: {waits:?}"
        );
    }
}

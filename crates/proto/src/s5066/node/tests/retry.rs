//! What is tried again, for how long, and what is not.

use super::*;

#[test]
fn what_did_not_arrive_before_the_other_node_was_gone_is_tried_again_within_its_time() {
    for (is_asked, gone) in [(true, MINUTE * 3), (true, HOUR), (false, HOUR)] {
        let mut pair = Pair::new("9600", |_| {});
        pair.send(Side::A, b"so that both are known");
        pair.run(MINUTE);
        // From now on nothing is heard of the other.
        pair.noise = Box::new(|_, octets| octets.fill(0));
        let repeats = u8::from(is_asked);
        let ids: Vec<client::SendId> = (0..200_u8)
            .map(|number| {
                pair.send_as(Side::A, &[number; 2_000], |send| {
                    send.service = Some(Service { repeats, ..Service::ARQ });
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
        match (is_asked, gone == HOUR) {
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
fn what_waits_when_a_link_is_lost_goes_over_the_next_if_that_was_asked_for() {
    for repeats in [1, 0] {
        let mut pair = Pair::new("1200", |_| {});
        pair.send(Side::A, b"so that both are known");
        pair.run(MINUTE);
        pair.noise = Box::new(|_, octets| octets.fill(0));
        for number in 0..200_u8 {
            pair.send_as(Side::A, &[number; 2_000], |send| {
                send.service = Some(Service { repeats, ..Service::ARQ });
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
        assert_eq!(confirmed > 0, repeats > 0, "{confirmed}");
        assert_eq!(rejected.len() == unknown, repeats > 0, "{rejected:?}");
    }
}

#[test]
fn what_is_not_to_be_tried_again_is_rejected_when_a_call_is_not_answered() {
    let mut pair = Pair::new("9600", |_| {});
    pair.noise = Box::new(|_, octets| octets.fill(0));
    let id = pair.send(Side::A, b"HELLO");

    pair.run(MINUTE * 5);

    assert_eq!(pair.rejected(Side::A), [(Some(id), UnidataReason::NO_RESPONSE)]);
}

#[test]
fn a_station_that_stays_away_is_called_less_and_less() {
    let mut pair = Pair::new("9600", |_| {});
    pair.noise = Box::new(|_, octets| octets.fill(0));
    pair.send_as(Side::A, b"HELLO", |send| {
        send.service = Some(Service { repeats: 1, ..Service::ARQ });
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
fn stations_that_stay_away_leave_room_for_others() {
    let mut pair = Pair::new("9600", |config| config.peers = 4);
    for number in 1..12 {
        pair.send_as(Side::A, b"x", |send| {
            send.to = Address::node(number);
            send.service = Some(Service { repeats: 1, ..Service::ARQ });
            send.ttl = HOUR * 10;
        });
    }
    pair.run(HOUR);
    assert_eq!(pair.rejected(Side::A).len(), 9, "two are tried again");

    let id = pair.send(Side::A, b"HELLO");
    pair.run(MINUTE * 5);
    assert_eq!(pair.confirmed(Side::A), [id]);
}

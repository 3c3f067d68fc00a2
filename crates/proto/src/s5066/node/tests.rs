//! Nodes that talk over a modem without noise, or with as much as a test wants.

mod doubt;
mod pair;

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::{Extensions, FrameKind, Rate, Record};
use crate::modem::{self, Waveform};
use crate::rng::Rng;
use crate::s5066::Address;
use crate::s5066::cas::Access;
use crate::s5066::dts::wire::{Body, Eow, Extensions as Profiles, Frame, Header, Reason};
use crate::s5066::sis::client::HardLinkEvent;
use crate::s5066::sis::primitive::{HardLink, LinkKind};
use crate::s5066::sis::{Service, UnidataReason, client};
use pair::{Pair, SAP, Side};

/// The address of side B.
const B: Address = Address::node(0x0a_141f);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_u_pdu_to_a_known_station_crosses_in_one_transmission_that_also_asks_for_the_link() {
    let mut pair = Pair::new("9600", |config| config.link.idle = MINUTE);
    let first = pair.send(Side::A, b"HELLO");
    pair.run(MINUTE * 5);
    assert_eq!(pair.confirmed(Side::A), [first]);
    assert_eq!(pair.node(Side::A).links().count(), 0);
    let [before_a, before_b] = pair.transmissions();

    let second = pair.send(Side::A, b"AGAIN");
    pair.run(MINUTE);

    assert_eq!(pair.received(Side::B), [b"HELLO".to_vec(), b"AGAIN".to_vec()]);
    assert_eq!(pair.confirmed(Side::A), [first, second]);
    assert_eq!(pair.transmissions(), [before_a + 1, before_b + 1]);
}

#[test]
fn a_station_that_said_nothing_yet_is_called_first() {
    let mut pair = Pair::new("9600", |_| {});
    let id = pair.send(Side::A, b"HELLO");

    pair.run(MINUTE);

    assert_eq!(pair.received(Side::B), [b"HELLO".to_vec()]);
    assert_eq!(pair.confirmed(Side::A), [id]);
    assert_eq!(pair.transmissions(), [2, 2]);
}

#[test]
fn a_station_of_edition_3_is_called_first() {
    let mut pair = Pair::new("9600", |config| {
        config.extensions = Extensions::NONE;
    });
    let id = pair.send(Side::A, b"HELLO");

    pair.run(MINUTE);

    assert_eq!(pair.received(Side::B), [b"HELLO".to_vec()]);
    assert_eq!(pair.confirmed(Side::A), [id]);
    assert_eq!(pair.transmissions(), [2, 2]);
}

#[test]
fn a_station_of_edition_3_sends_only_what_edition_3_knows() {
    let mut pair = Pair::new("9600", |config| {
        config.extensions = Extensions::NONE;
    });
    let (peer, slow) = (pair.node(Side::A).address(), "600".parse().expect("a waveform"));
    assert!(pair.node(Side::B).request_rate(peer, slow));
    for side in [Side::A, Side::B] {
        pair.send(side, &[7; 1_500]);
    }

    pair.run(MINUTE * 5);

    let mut seen = 0;
    for side in [Side::A, Side::B] {
        while let Some(record) = pair.node(side).poll_record() {
            let Record::Sent { octets, .. } = record else { continue };
            let (frame, _) = Frame::read(&octets).expect("our own frame");
            assert!(
                [0..=8, 15..=15].iter().any(|known| known.contains(&frame.kind())),
                "{frame:?}"
            );
            assert!(!matches!(frame.header.eow, Eow::Extensions(_)), "{frame:?}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} frames");
}

#[test]
fn a_station_that_did_not_introduce_itself_gets_nothing_that_is_ours() {
    let mut pair = Pair::new("240000", |config| {
        config.link.idle = MINUTE;
        if config.address == B {
            config.extensions = Extensions::NONE;
        }
    });
    // As a node of Edition 4 may: its bits promise layouts that are not ours.
    let profiles = Profiles::LONG_NUMBERS.with(Profiles::PADDING).with(Profiles::PIPELINING);
    pair.noise = Box::new(move |_, octets| show_profiles(octets, profiles));
    // With the second call data goes along.
    let ids = [0, 1].map(|_| {
        let id = pair.send(Side::A, &[7; 1_500]);
        pair.run(MINUTE * 10);
        id
    });

    assert_eq!(lengths(&pair), [1_500, 1_500]);
    assert_eq!(pair.confirmed(Side::A), ids);
    let kinds = kinds_sent(&mut pair, Side::A);
    assert!(kinds.contains(&0), "{kinds:?}");
    assert!(kinds.iter().all(|kind| !matches!(kind, 9..=12 | 14)), "{kinds:?}");
}

#[test]
fn data_that_went_along_with_a_call_arrives_once_when_the_answer_loses_its_introduction() {
    let mut pair = Pair::new("240000", |config| config.link.idle = MINUTE);
    pair.send(Side::A, b"so that both are known");
    pair.run(MINUTE * 10);
    let mut spoils = true;
    pair.noise = Box::new(move |_, octets| {
        let mut at = 0;
        while spoils && let Ok((frame, len)) = Frame::read(&octets[at..]) {
            spoils = frame.header.from != B || [8, 13].contains(&frame.kind());
            if frame.header.from == B && frame.kind() == 13 {
                octets[at + 3] ^= 1;
            }
            at += len;
        }
    });

    let id = pair.send(Side::A, &[7; 1_500]);
    pair.run(MINUTE * 10);

    assert_eq!(lengths(&pair), [22, 1_500]);
    let rejected = pair.rejected(Side::A);
    assert!(
        pair.confirmed(Side::A).contains(&id)
            || rejected == [(Some(id), UnidataReason::MAY_HAVE_ARRIVED)],
        "{rejected:?}"
    );
}

#[test]
fn who_changes_its_mind_about_what_is_ours_is_heeded_and_loses_nothing() {
    for reason in [Reason::UnknownKind, Reason::Invalid] {
        let mut pair = Pair::new("240000", |_| {});
        let first = pair.send(Side::A, &[7; 1_500]);
        pair.run(MINUTE);
        assert_eq!(pair.confirmed(Side::A), [first]);
        assert!(kinds_sent(&mut pair, Side::A).contains(&9));
        assert_eq!(pair.node(Side::A).stats().links_made, 1);

        let (now, a) = (pair.now, pair.node(Side::A).address());
        let mut warning = Vec::new();
        let header = Header { eow: Eow::None, eot: 0, to: a, from: B, address_size: 1 };
        Frame { header, body: Body::Warning { received: 9, reason } }.emit(&mut warning);
        for event in [modem::Event::Received(warning), modem::Event::CarrierLost] {
            pair.node(Side::A).handle_modem(now, event);
        }
        assert_eq!(pair.node(Side::A).links().count(), 0, "{reason:?}");

        let second = pair.send(Side::A, &[8; 1_500]);
        pair.run(MINUTE * 10);
        assert_eq!(lengths(&pair), [1_500, 1_500], "{reason:?}");
        assert_eq!(pair.confirmed(Side::A), [first, second], "{reason:?}");
        assert_eq!(pair.node(Side::A).stats().links_made, 2, "{reason:?}");
    }
}

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
        assert_eq!(pair.node(Side::A).stats().links_broken, 1);
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
fn much_data_crosses_a_noisy_channel_once_each_and_in_order() {
    for (waveform, errors_per_octet) in [("9600", 3e-4), ("300", 3e-4), ("2400", 0.0)] {
        let mut pair = Pair::new(waveform, |_| {});
        make_noise(&mut pair, errors_per_octet);
        let sent: Vec<Vec<u8>> = (0..60_u8).map(|number| vec![number; 700]).collect();
        for u_pdu in &sent {
            pair.send(Side::A, u_pdu);
        }

        pair.run(HOUR);

        assert_eq!(pair.received(Side::B), sent, "{waveform}");
        assert_eq!(pair.confirmed(Side::A).len(), sent.len(), "{waveform}");
    }
}

#[test]
fn both_directions_take_turns() {
    let mut pair = Pair::new("2400", |_| {});
    for number in 0..40 {
        pair.send(Side::A, &[number; 1_000]);
        pair.send(Side::B, &[number; 1_000]);
    }

    pair.run(HOUR);

    assert_eq!((pair.received(Side::A).len(), pair.received(Side::B).len()), (40, 40));
    assert_eq!((pair.confirmed(Side::A).len(), pair.confirmed(Side::B).len()), (40, 40));
}

#[test]
fn nobody_there_is_told_and_later_somebody_is_found() {
    let mut pair = Pair::new("9600", |_| {});
    pair.noise = Box::new(|_, octets| octets.fill(0));
    let lost = pair.send(Side::A, b"into the void");
    pair.run(MINUTE * 10);

    assert_eq!(pair.rejected(Side::A), [(Some(lost), UnidataReason::NO_RESPONSE)]);
    let calls = pair.transmissions();
    assert_eq!(calls, [5, 0], "so many calls are made");

    pair.noise = Box::new(|_, _| {});
    let found = pair.send(Side::A, b"hello again");
    pair.run(MINUTE);

    assert_eq!(pair.received(Side::B), [b"hello again".to_vec()]);
    assert_eq!(pair.confirmed(Side::A), [found]);
}

#[test]
fn the_urgent_overtakes_what_waits_and_the_late_expires() {
    let mut pair = Pair::new("300", |_| {});
    for number in 0..10 {
        pair.send(Side::A, &[number; 500]);
    }
    let late = pair.send_as(Side::A, b"late", |send| send.ttl = Duration::from_secs(10));
    pair.run(Duration::from_secs(20));
    pair.send_as(Side::A, b"urgent", |send| send.priority = 9);

    pair.run(HOUR);

    let place = pair.received(Side::B).iter().position(|u_pdu| u_pdu == b"urgent");
    assert!(place.is_some_and(|place| place < 9), "{place:?}");
    assert_eq!(pair.rejected(Side::A), [(Some(late), UnidataReason::EXPIRED)]);
    assert_eq!(pair.received(Side::B).len(), 11);
}

#[test]
fn datagrams_reach_a_group_without_a_link_or_an_answer() {
    let mut pair = Pair::new("1200", |_| {});
    for number in 0..5 {
        pair.send_as(Side::A, &[number; 1_500], |send| {
            send.to = Address::BROADCAST;
            send.service = Some(Service::NON_ARQ);
        });
    }

    pair.run(HOUR);

    assert_eq!(pair.received(Side::B).len(), 5);
    assert_eq!(pair.transmissions()[1], 0, "nobody answers");
}

#[test]
fn expedited_data_goes_first_with_and_without_acknowledgement() {
    let mut pair = Pair::new("1200", |_| {});
    pair.send(Side::A, &[0; 2_000]);
    let urgent = pair.send_as(Side::A, b"now", |send| send.is_expedited = true);
    pair.send_as(Side::A, b"all", |send| {
        send.is_expedited = true;
        send.service = Some(Service::NON_ARQ);
    });

    pair.run(HOUR);

    let received = pair.received(Side::B);
    assert_eq!(received.len(), 3);
    assert_eq!(received[2].len(), 2_000);
    assert!(pair.confirmed(Side::A).contains(&urgent));
}

#[test]
fn a_restarted_peer_is_called_again_and_nothing_is_confirmed_that_it_did_not_get() {
    for restarts in [Side::A, Side::B] {
        let mut pair = Pair::new("2400", |_| {});
        let before = pair.send(Side::A, &[1; 2_000]);
        pair.run(MINUTE);
        assert_eq!(pair.confirmed(Side::A), [before]);

        pair.restart(restarts);
        pair.send(Side::A, &[2; 1_000]);
        pair.run(MINUTE * 20);

        assert_eq!(lengths(&pair), [2_000, 1_000], "{restarts:?}");
        assert_eq!(pair.confirmed(Side::A).len(), 2, "{restarts:?}");
    }
}

#[test]
fn a_hard_link_is_made_and_keeps_until_it_is_ended() {
    let mut pair = Pair::new("2400", |_| {});
    let remote = pair.node(Side::B).address();
    let link = HardLink { kind: LinkKind::Reserved, priority: 1, remote_sap: SAP, remote };

    pair.client(Side::A).establish(link);
    pair.run(MINUTE * 10);
    pair.send(Side::A, b"over it");
    pair.run(MINUTE);
    pair.client(Side::A).terminate(remote);
    pair.run(MINUTE * 5);

    let of_links = |event: &&client::Event| matches!(event, client::Event::HardLink(_));
    let events: Vec<_> = pair.events(Side::A).iter().filter(of_links).collect();
    assert!(matches!(events[0], client::Event::HardLink(HardLinkEvent::Established(_))));
    assert!(events.len() == 1, "{events:?}");
    assert_eq!(pair.received(Side::B), [b"over it".to_vec()]);
    assert_eq!(pair.node(Side::A).links().count(), 0);
}

#[test]
fn a_modem_that_tells_nothing_does_not_silence_a_node_for_good() {
    let mut pair = Pair::new("9600", |_| {});
    let waveform = pair.node(Side::A).waveform();
    let carrier = modem::Event::CarrierDetected { waveform: Some(waveform) };
    let now = pair.now;
    pair.node(Side::A).handle_modem(now, carrier);
    pair.send(Side::A, b"HELLO");

    pair.run(MINUTE * 3);

    assert_eq!(lengths(&pair), [5]);
    assert_eq!(pair.node(Side::A).stats().modem_silences, 1);
}

#[test]
fn what_waits_for_a_modem_wakes_nobody_and_goes_when_there_is_one() {
    let accesses = [
        |_| Access::PointToPoint,
        |_| Access::Jitter { limit: Duration::from_secs(5) },
        |address| Access::Slotted { position: u8::from(address == B), stations: 2 },
    ];
    for access in accesses {
        let mut pair = Pair::new("9600", |config| config.access = access(config.address));
        pair.has_modems = false;
        let id = pair.send(Side::A, b"HELLO");
        // Each deadline is checked to be over once it was acted on.
        pair.run(HOUR);
        assert_eq!(pair.transmissions(), [0, 0]);

        pair.has_modems = true;
        pair.run(MINUTE);

        assert_eq!(lengths(&pair), [5]);
        assert_eq!(pair.confirmed(Side::A), [id]);
    }
}

#[test]
fn the_rate_follows_the_channel() {
    let mut pair = Pair::new("9600", |config| config.rate = Rate::Adaptive);
    make_noise(&mut pair, 2e-2);
    for number in 0..20 {
        pair.send(Side::A, &[number; 1_000]);
    }
    // What the noise does to fast waveforms it does not do to slow ones.
    pair.noise = Box::new(|_, octets| {
        if octets.len() > 700 {
            octets.fill(0);
        }
    });

    pair.run(HOUR * 3);

    assert_eq!(pair.received(Side::B).len(), 20);
    assert!(pair.node(Side::A).waveform().bits_per_s() < 9_600);
    assert!(pair.node(Side::A).stats().rate_changes > 0);
}

#[test]
fn a_rate_that_the_peer_asks_for_is_taken() {
    let mut pair = Pair::new("2400", |_| {});
    let (peer, slow) = (pair.node(Side::A).address(), "600".parse().expect("a waveform"));
    assert!(pair.node(Side::B).request_rate(peer, slow));
    pair.send(Side::B, b"so that there is a link");

    pair.run(MINUTE * 5);

    assert_eq!(pair.node(Side::A).waveform(), slow);
}

#[test]
fn a_rate_that_the_modem_rules_changes_neither_by_losses_nor_by_the_peer() {
    let mut pair = Pair::new("2400", |config| config.rate = Rate::Modem);
    let (peer, slow) = (pair.node(Side::A).address(), "600".parse().expect("a waveform"));
    let waveform = pair.node(Side::A).waveform();
    assert!(pair.node(Side::B).request_rate(peer, slow));
    make_noise(&mut pair, 1e-3);
    for number in 0..10 {
        pair.send(Side::B, &[number; 1_000]);
        pair.send(Side::A, &[number; 1_000]);
    }

    pair.run(HOUR);

    assert_eq!(pair.received(Side::A).len(), 10);
    assert_eq!(pair.node(Side::A).waveform(), waveform);
    assert_eq!(pair.node(Side::A).stats().rate_changes, 0);
}

#[test]
fn times_follow_what_the_modem_transmits_with() {
    let mut pair = Pair::new("9600", |config| config.rate = Rate::Modem);
    let slow: Waveform = "300/long".parse().expect("a waveform");
    pair.set_to = Some(slow);
    for side in [Side::A, Side::B] {
        let now = pair.now;
        pair.node(side).handle_waveform(now, slow, slow.block_time());
    }
    for number in 0..10 {
        pair.send(Side::A, &[number; 500]);
    }
    let last = pair.send(Side::A, b"the last");

    pair.run(MINUTE * 10);

    assert_eq!(pair.received(Side::B).len(), 11);
    assert!(pair.confirmed(Side::A).contains(&last));
    // Nobody waits too little for an answer, and no transmission is longer than it may be.
    assert_eq!(pair.node(Side::A).stats().silences, 0);
    let mut longest = Duration::ZERO;
    while let Some(record) = pair.node(Side::A).poll_record() {
        if let Record::Keyed { start, end, waveform } = record {
            assert_eq!(waveform, slow);
            longest = longest.max(end.since(start));
        }
    }
    assert!((Duration::from_secs(60)..Duration::from_secs(128)).contains(&longest), "{longest:?}");
}

#[test]
fn the_announced_end_is_the_true_one_rounded_up() {
    let mut pair = Pair::new("1200", |_| {});
    for number in 0..10 {
        pair.send(Side::A, &[number; 1_999]);
    }
    pair.run(MINUTE * 10);

    let mut frames = Vec::new();
    let mut seen = 0;
    while let Some(record) = pair.node(Side::A).poll_record() {
        match record {
            Record::Sent { start, octets, .. } => {
                let (frame, _) = Frame::read(&octets).expect("our own frame");
                frames.push(start + Duration::from_millis(500) * u32::from(frame.header.eot));
            }
            Record::Keyed { end, .. } => {
                for announced in frames.drain(..) {
                    assert!(announced >= end && announced.since(end).as_millis() < 500);
                    seen += 1;
                }
            }
            Record::Heard { .. } => {}
        }
    }
    assert!(seen > 20, "{seen} frames");
}

#[test]
fn a_recorded_exchange_tells_data_from_repeats_and_acknowledgements() {
    let mut pair = Pair::new("9600", |_| {});
    make_noise(&mut pair, 1e-3);
    for number in 0..30 {
        pair.send(Side::A, &[number; 1_000]);
    }
    pair.run(HOUR);

    let mut kinds = Vec::new();
    for side in [Side::A, Side::B] {
        while let Some(record) = pair.node(side).poll_record() {
            if let Record::Sent { kind, .. } = record {
                kinds.push(kind);
            }
        }
    }
    for kind in [FrameKind::Ack, FrameKind::Control, FrameKind::Data, FrameKind::Repeat] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn over_a_hostile_channel_each_u_pdu_arrives_once_or_its_sender_is_told(
        waveform in prop::sample::select(vec!["300", "2400", "9600", "240000"]),
        in_order in any::<bool>(),
        phases in prop::collection::vec((0_usize..12, 0_u32..5, any::<bool>()), 1..6),
        seed in any::<u64>(),
    ) {
        let mut pair = Pair::new(waveform, |_| {});
        let mut sent: Vec<(client::SendId, Vec<u8>)> = Vec::new();
        for (count, trouble, restarts) in phases {
            trouble_the_air(&mut pair, trouble, seed);
            for _ in 0..count {
                let number = u8::try_from(sent.len()).expect("fewer than 256");
                let u_pdu = vec![number; 100 + 13 * usize::from(number)];
                let id = pair.send_as(Side::A, &u_pdu, |send| {
                    send.service = Some(Service { in_order, ..Service::ARQ });
                });
                sent.push((id, u_pdu));
            }
            pair.run(MINUTE * 4);
            if restarts {
                pair.restart(Side::B);
            }
        }
        pair.noise = Box::new(|_, _| {});
        pair.run(HOUR * 4);

        let received = pair.received(Side::B);
        let confirmed = pair.confirmed(Side::A);
        let rejected = pair.rejected(Side::A);
        for (id, u_pdu) in &sent {
            let arrivals = received.iter().filter(|it| *it == u_pdu).count();
            let is_confirmed = confirmed.contains(id);
            let is_rejected = rejected.iter().any(|(about, _)| about == &Some(*id));
            prop_assert!(arrivals <= 1, "{:?} arrived {} times", id, arrivals);
            prop_assert!(is_confirmed != is_rejected, "{:?} has one outcome", id);
            prop_assert!(arrivals == 1 || !is_confirmed, "{:?} was confirmed and not delivered", id);
        }
        if in_order {
            let numbers: Vec<u8> = received.iter().map(|u_pdu| u_pdu[0]).collect();
            prop_assert!(numbers.is_sorted(), "{:?}", numbers);
        }
    }
}

/// The types of the frames that a node has sent so far.
fn kinds_sent(pair: &mut Pair, side: Side) -> BTreeSet<u8> {
    let records = std::iter::from_fn(|| pair.node(side).poll_record());
    let sent = records.filter_map(|record| match record {
        Record::Sent { octets, .. } => Some(Frame::read(&octets).expect("our own frame").0.kind()),
        Record::Heard { .. } | Record::Keyed { .. } => None,
    });
    sent.collect()
}

/// Lets each frame of B say that it has these extension profiles.
fn show_profiles(octets: &mut Vec<u8>, profiles: Profiles) {
    let mut changed = Vec::new();
    while let Ok((mut frame, _)) = Frame::read(&octets[changed.len()..]) {
        if frame.header.from == B && frame.header.eow == Eow::None {
            frame.header.eow = Eow::Extensions(profiles);
        }
        frame.emit(&mut changed);
    }
    octets.splice(..changed.len(), changed);
}

/// Octets of what B received.
fn lengths(pair: &Pair) -> Vec<usize> {
    pair.received(Side::B).iter().map(Vec::len).collect()
}

/// Bit errors, each on its own.
fn make_noise(pair: &mut Pair, errors_per_octet: f64) {
    let mut rng = Rng::stream(7, "noise");
    pair.noise = Box::new(move |_, octets| {
        for octet in octets {
            if rng.uniform() < errors_per_octet {
                *octet ^= 0x10;
            }
        }
    });
}

/// A kind of trouble: none, bit errors, more of them, lost blocks, silence.
fn trouble_the_air(pair: &mut Pair, trouble: u32, seed: u64) {
    let mut rng = Rng::stream(seed, "trouble");
    pair.noise = match trouble {
        0 => Box::new(|_, _| {}),
        1 | 2 => {
            let rate = if trouble == 1 { 5e-4 } else { 5e-3 };
            Box::new(move |_, octets| {
                for octet in octets {
                    if rng.uniform() < rate {
                        *octet ^= 0x04;
                    }
                }
            })
        }
        3 => Box::new(move |_, octets| {
            if rng.uniform() < 0.5 {
                octets.fill(0x55);
            }
        }),
        _ => Box::new(|_, octets| octets.fill(0)),
    };
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

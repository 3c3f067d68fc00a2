//! Tests of two nodes that communicate over modems, without noise or with some.

mod doubt;
mod introduction;
pub(crate) mod pair;
mod rate;
mod retry;
mod status;

use std::collections::BTreeSet;
use std::time::Duration;

use base::rng::Rng;
use pair::{Pair, SAP, Side};
use proptest::prelude::*;

use super::{Extensions, FrameKind, Rate, Record};
use crate::modem::{self, Waveform};
use crate::s5066::Address;
use crate::s5066::cas::Access;
use crate::s5066::dts::wire::{Body, Eow, Extensions as Profiles, Frame, Header, Reason};
use crate::s5066::sis::client::HardLinkEvent;
use crate::s5066::sis::primitive::{HardLink, LinkKind};
use crate::s5066::sis::{Mode, Service, UnidataReason, client};

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
fn data_arrives_however_short_transmissions_are_to_be() {
    for extensions in [Extensions::ALL, Extensions::NONE] {
        let mut pair = Pair::new("75/long", |config| {
            config.longest = Duration::from_secs(2);
            config.longest_beside_urgent = config.longest;
            config.extensions = extensions;
        });
        pair.send(Side::A, &[1; 100]);
        pair.send_as(Side::A, &[2; 200], |send| send.service = Some(Service::NON_ARQ));

        pair.run(HOUR * 2);

        assert_eq!(lengths(&pair).iter().sum::<usize>(), 300, "{extensions:?}");
    }
}

#[test]
fn what_comes_while_the_radio_keys_up_goes_along() {
    let mut pair = Pair::new("9600", |config| config.link.idle = MINUTE);
    pair.send(Side::A, b"HELLO");
    pair.run(MINUTE * 5);
    let [before_a, before_b] = pair.transmissions();

    pair.send(Side::A, &[1; 1_000]);
    pair.run(Duration::from_millis(50));
    pair.send(Side::A, &[2; 2_000]);
    pair.run(MINUTE);

    assert_eq!(lengths(&pair), [5, 1_000, 2_000]);
    assert_eq!(pair.transmissions(), [before_a + 1, before_b + 1]);
}

#[test]
fn over_a_noisy_channel_all_data_arrives_once_and_in_order() {
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
fn an_absent_peer_is_reported_and_found_when_it_appears() {
    let mut pair = Pair::new("9600", |_| {});
    pair.noise = Box::new(|_, octets| octets.fill(0));
    let lost = pair.send(Side::A, b"into the void");
    pair.run(MINUTE * 10);

    assert_eq!(pair.rejected(Side::A), [(Some(lost), UnidataReason::NO_RESPONSE)]);
    let calls = pair.transmissions();
    assert_eq!(calls, [5, 0], "the configured number of calls is made");

    pair.noise = Box::new(|_, _| {});
    let found = pair.send(Side::A, b"hello again");
    pair.run(MINUTE);

    assert_eq!(pair.received(Side::B), [b"hello again".to_vec()]);
    assert_eq!(pair.confirmed(Side::A), [found]);
}

#[test]
fn urgent_requests_overtake_waiting_ones_and_late_ones_expire() {
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
fn all_repeats_of_a_datagram_and_all_pieces_of_expedited_data_go_in_one_transmission() {
    let mut pair = Pair::new("1200/short", |config| {
        config.link.idle = HOUR * 3;
        config.longest_beside_urgent = config.longest;
    });
    pair.send(Side::A, b"so that there is a link");
    pair.run(MINUTE);
    let sent = |pair: &mut Pair, u_pdu: &[u8], change: fn(&mut client::Send<'_>)| {
        let before = pair.transmissions()[0];
        pair.send_as(Side::A, u_pdu, change);
        pair.run(MINUTE * 4);
        pair.transmissions()[0] - before
    };

    let repeated = sent(&mut pair, &[1; 500], |send| {
        send.to = Address::BROADCAST;
        send.service = Some(Service::of(Mode::NonArq { in_order: false, repeats: 3 }));
    });
    // The ends of some of these lie just before that of a block.
    let expedited = (0..48).map(|more| {
        let u_pdu = vec![2; 1_500 + more * 2];
        sent(&mut pair, &u_pdu, |send| send.is_expedited = true)
    });
    let expedited: Vec<u64> = expedited.collect();

    assert_eq!((repeated, expedited), (1, vec![1; 48]));
    assert_eq!(pair.received(Side::B).len(), 50);
}

#[test]
fn who_is_asked_answers_before_the_slots_of_others() {
    let mut pair = Pair::new("1200", |config| {
        config.access =
            Access::Slotted { position: u8::from(config.address == B) * 7, stations: 8 };
    });
    pair.send(Side::A, &[7; 500]);
    pair.run(MINUTE);

    let mut keyed = |side| -> Vec<_> {
        let records = std::iter::from_fn(|| pair.node(side).poll_record());
        let keyed = records.filter_map(|record| match record {
            Record::Keyed { start, end, .. } => Some((start, end)),
            Record::Heard { .. } | Record::Sent { .. } => None,
        });
        keyed.collect()
    };
    let (asked, answered) = (keyed(Side::A), keyed(Side::B));
    let waited = answered[0].0.since(asked[0].1);
    assert!(waited < Duration::from_secs(2), "{waited:?}");
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
fn a_restarted_peer_is_called_again_and_only_received_data_is_confirmed() {
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

/// How a client leaves its node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Leave {
    /// Its connection is lost.
    Lost,
    /// It ends its binding, and then its connection.
    Peace,
}

#[test]
fn what_a_lost_client_gave_is_not_begun_if_the_client_asked_for_that() {
    for (drops_if_lost, leave) in
        [(true, Leave::Lost), (true, Leave::Peace), (false, Leave::Lost), (false, Leave::Peace)]
    {
        let client = client::Config { drops_if_lost, ..client::Config::new(SAP) };
        let mut pair = Pair::of("2400", |_| {}, [client.clone(), client]);
        pair.run(Duration::from_secs(1));
        for number in 0..30 {
            pair.send(Side::A, &[number; 1_000]);
        }
        pair.run(Duration::from_secs(2));
        if leave == Leave::Peace {
            // Its last word comes together with its leave.
            let last = client::Send {
                to: B,
                to_sap: SAP,
                priority: 15,
                is_expedited: false,
                service: Some(Service::ARQ),
                ttl: Duration::ZERO,
                u_pdu: b"last",
            };
            let now = pair.now;
            pair.client(Side::A).send(now, last).unwrap();
            pair.client(Side::A).unbind();
            pair.run(Duration::ZERO);
        }
        pair.disconnect(Side::A);
        pair.run(HOUR);

        // Only the call was on the air.
        let came = pair.received(Side::B).len();
        let expected = match (drops_if_lost, leave) {
            (true, Leave::Lost) => 0..=2,
            (true, Leave::Peace) => 31..=31,
            (false, Leave::Lost | Leave::Peace) => 30..=30,
        };
        assert!(expected.contains(&came), "{drops_if_lost} {leave:?}: {came}");
        assert_eq!(pair.node(Side::A).queues().iter().sum::<usize>(), 0);
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
fn the_hard_link_of_a_client_ends_with_its_connection() {
    let mut pair = Pair::new("2400", |_| {});
    let link = HardLink { kind: LinkKind::Reserved, priority: 1, remote_sap: SAP, remote: B };
    pair.client(Side::A).establish(link);
    pair.run(MINUTE);
    let (now, node) = (pair.now, pair.node(Side::A));
    let (_, client) = node.sis.bound().next().unwrap();

    node.handle_disconnected(now, client);

    let next = node.poll_transmit(now, 0, &mut Vec::new());
    assert!(matches!(next, Some(modem::Keying::Start(_))), "B is told at once: {next:?}");
}

#[test]
fn nobody_transmits_before_an_end_that_was_announced() {
    // Its own echo announces nothing, and neither does a frame that does not know the end.
    let a = Pair::new("2400", |_| {}).node(Side::A).address();
    for (frames, is_free) in [
        (&[(B, 0)][..], true),
        (&[(a, 100)], true),
        (&[(B, 100)], false),
        (&[(B, 100), (B, 0)], false),
    ] {
        let mut pair = Pair::new("2400", |_| {});
        let mut octets = Vec::new();
        for &(from, eot) in frames {
            let header = Header { eow: Eow::None, eot, to: a, from, address_size: 4 };
            let body = Body::Warning { received: 9, reason: Reason::Invalid };
            Frame { header, body }.emit(&mut octets);
        }
        let now = pair.now;
        let waveform = Some(pair.node(Side::A).waveform());
        for event in [
            modem::Event::CarrierDetected { waveform },
            modem::Event::Received(octets),
            modem::Event::CarrierLost,
        ] {
            pair.node(Side::A).handle_modem(now, event);
        }

        pair.send(Side::A, b"HELLO");
        // Fifty seconds were announced.
        pair.run(Duration::from_secs(40));
        assert_eq!(pair.transmissions()[0] > 0, is_free, "{frames:?}");
        pair.run(MINUTE);
        assert!(pair.transmissions()[0] > 0);
    }
}

#[test]
fn a_modem_that_reports_nothing_does_not_block_a_node_forever() {
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
fn data_that_waits_for_a_modem_has_no_deadline_and_is_sent_once_there_is_one() {
    let accesses = [
        |_| Access::PointToPoint,
        |_| Access::Jitter { limit: Duration::from_secs(5) },
        |address| Access::Slotted { position: u8::from(address == B), stations: 2 },
    ];
    for access in accesses {
        let mut pair = Pair::new("9600", |config| config.access = access(config.address));
        pair.has_modems = false;
        let id = pair.send(Side::A, b"HELLO");
        // `run` checks that each deadline is over once it was acted on.
        pair.run(HOUR);
        assert_eq!(pair.transmissions(), [0, 0]);

        pair.has_modems = true;
        pair.run(MINUTE);

        assert_eq!(lengths(&pair), [5]);
        assert_eq!(pair.confirmed(Side::A), [id]);
    }
}

#[test]
fn each_request_that_waits_for_a_modem_expires_in_its_time() {
    let mut pair = Pair::new("9600", |_| {});
    pair.has_modems = false;
    let ids = [10, 20, 40].map(|seconds| {
        pair.send_as(Side::A, b"HELLO", |send| send.ttl = Duration::from_secs(seconds))
    });

    for expired in [1, 2, 2, 3] {
        pair.run(Duration::from_secs(11));
        let rejected = pair.rejected(Side::A);
        let expected = ids[..expired].iter().map(|id| (Some(*id), UnidataReason::EXPIRED));
        assert_eq!(rejected, expected.collect::<Vec<_>>());
    }
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
fn what_is_left_of_the_last_block_has_copies_and_is_not_padded() {
    let mut pair = Pair::new("9600", |_| {});
    for len in 1..40 {
        pair.send(Side::A, &vec![7; len * 50]);
        pair.run(MINUTE);
    }

    let records = [Side::A, Side::B]
        .into_iter()
        .flat_map(|side| std::iter::from_fn(|| pair.node(side).poll_record()).collect::<Vec<_>>());
    let kinds: Vec<_> = records
        .filter_map(|it| match it {
            Record::Sent { kind, .. } => Some(kind),
            Record::Heard { .. } | Record::Keyed { .. } => None,
        })
        .collect();
    assert!(kinds.contains(&FrameKind::Repeat), "of data that has not been lost");
    assert!(!kinds.contains(&FrameKind::Padding));
}

#[test]
fn a_record_distinguishes_data_retransmissions_and_acknowledgements() {
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
    #![proptest_config(harness::cases(24))]

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
                    send.service = Some(Service::of(Mode::Arq { in_order }));
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

/// The lengths of the U_PDUs that B received.
fn lengths(pair: &Pair) -> Vec<usize> {
    pair.received(Side::B).iter().map(Vec::len).collect()
}

/// Independent bit errors.
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

/// One of several impairments: none, few or many bit errors, lost blocks, silence.
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

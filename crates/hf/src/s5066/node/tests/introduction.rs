//! Stations of Edition 3 and of ours: what each is sent, before and after it has said what it knows.

use super::*;

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
fn much_data_goes_along_with_the_call_of_a_station_that_said_that_it_reads_long_numbers() {
    let mut pair = Pair::new("240000", |config| config.link.idle = MINUTE);
    pair.send(Side::A, b"so that both are known");
    pair.run(MINUTE * 10);
    kinds_sent(&mut pair, Side::A);

    pair.send(Side::A, &[7; 1_500]);
    pair.run(MINUTE * 10);

    let kinds = kinds_sent(&mut pair, Side::A);
    assert!(kinds.contains(&9) && !kinds.contains(&0), "{kinds:?}");
}

#[test]
fn a_link_that_only_an_acknowledgement_tells_of_has_the_numbers_of_that() {
    let mut pair = Pair::new("240000", |config| config.link.idle = MINUTE);
    pair.send(Side::A, b"so that both are known");
    pair.run(MINUTE * 10);
    // All answers to calls are lost.
    pair.noise = Box::new(|_, octets| {
        let mut at = 0;
        while let Ok((frame, len)) = Frame::read(&octets[at..]) {
            if frame.header.from == B && frame.kind() == 8 {
                octets[at + 3] ^= 1;
            }
            at += len;
        }
    });

    let id = pair.send(Side::A, &[7; 1_500]);
    pair.run(MINUTE / 2);

    assert_eq!(lengths(&pair), [22, 1_500]);
    assert!(pair.confirmed(Side::A).contains(&id));
    assert_eq!(pair.node(Side::A).stats().resets + pair.node(Side::B).stats().resets, 0);
}

#[test]
fn who_changes_its_mind_about_what_is_ours_is_heeded_and_loses_nothing() {
    for reason in [Reason::UnknownKind, Reason::Invalid] {
        let mut pair = Pair::new("240000", |_| {});
        let first = pair.send(Side::A, &[7; 1_500]);
        pair.run(MINUTE);
        assert_eq!(pair.confirmed(Side::A), [first]);
        assert!(kinds_sent(&mut pair, Side::A).contains(&9));
        assert_eq!(pair.node(Side::A).stats().links.links_made, 1);

        warn(&mut pair, 9, reason);
        assert_eq!(pair.node(Side::A).links().count(), 0, "{reason:?}");

        let second = pair.send(Side::A, &[8; 1_500]);
        pair.run(MINUTE * 10);
        assert_eq!(lengths(&pair), [1_500, 1_500], "{reason:?}");
        assert_eq!(pair.confirmed(Side::A), [first, second], "{reason:?}");
        assert_eq!(pair.node(Side::A).stats().links.links_made, 2, "{reason:?}");
    }
}

#[test]
fn who_does_not_read_padding_after_all_gets_none() {
    for has_warned in [false, true] {
        let mut pair = withdrawing("300/short", MINUTE);
        if has_warned {
            warn(&mut pair, 14, Reason::UnknownKind);
        }
        pair.run(Duration::from_secs(30));
        // Of what is left for copies, the last of the transmission does not fit another.
        pair.disconnect(Side::A);
        pair.run(MINUTE * 5);

        assert_eq!(kinds_sent(&mut pair, Side::A).contains(&14), !has_warned);
    }
}

#[test]
fn nothing_is_sent_in_place_of_what_is_withdrawn_while_the_radio_keys_up() {
    let mut pair = withdrawing("2400", Duration::from_secs(30));
    kinds_sent(&mut pair, Side::A);

    pair.run(Duration::from_millis(50));
    pair.disconnect(Side::A);
    pair.run(MINUTE);

    assert_eq!(kinds_sent(&mut pair, Side::A), BTreeSet::new());
}

/// Two stations that know each other, of which A has just got much to send by a client that withdraws it when it goes.
fn withdrawing(waveform: &str, known_after: Duration) -> Pair {
    let client = client::Config { drops_if_lost: true, ..client::Config::new(SAP) };
    let mut pair = Pair::of(waveform, |_| {}, [client.clone(), client]);
    pair.send(Side::A, b"so that both are known");
    pair.run(known_after);
    for number in 0..30 {
        pair.send(Side::A, &[number; 1_000]);
    }
    pair
}

/// B warns A of a frame that it has heard.
fn warn(pair: &mut Pair, received: u8, reason: Reason) {
    let (now, a) = (pair.now, pair.node(Side::A).address());
    let mut warning = Vec::new();
    let header = Header { eow: Eow::None, eot: 0, to: a, from: B, address_size: 1 };
    Frame { header, body: Body::Warning { received, reason } }.emit(&mut warning);
    for event in [modem::Event::Received(warning), modem::Event::CarrierLost] {
        pair.node(Side::A).handle_modem(now, event);
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

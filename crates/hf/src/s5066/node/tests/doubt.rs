//! Two ends that disagree about the state of a link: nothing arrives twice, and nothing is confirmed
//! that did not arrive.

use super::*;
use crate::s5066::dts::wire::{Ack, CpduSegment, Data, Datagram, Fsn, Numbers};

/// The address of side A.
const A: Address = Address::node(0x0a_141e);

#[test]
fn data_sent_with_a_call_whose_answer_was_lost_arrives_once() {
    let mut pair = Pair::new("9600", |_| {});
    let id = pair.send(Side::A, &[1; 500]);
    while pair.received(Side::B).is_empty() {
        pair.run(Duration::from_millis(10));
    }
    // The acceptance of the link and all acknowledgements are lost, but later data is heard.
    let mut lost = 2_000;
    pair.noise = Box::new(move |_, octets| {
        let len = octets.len().min(lost);
        octets[..len].fill(0);
        lost -= len;
    });
    for number in 2..8 {
        pair.send(Side::B, &[number; 700]);
    }

    pair.run(HOUR);

    assert_eq!(pair.received(Side::B), [vec![1; 500]]);
    assert_eq!(pair.confirmed(Side::A), [id]);
    assert_eq!(pair.received(Side::A).len(), 6);
}

#[test]
fn a_link_that_only_the_other_end_has_confirms_nothing() {
    let mut pair = Pair::new("9600", |config| config.link.idle = MINUTE);
    // The stations know each other's extensions, so data goes along with the next call.
    pair.send(Side::A, &[0; 60]);
    pair.run(MINUTE * 5);
    assert_eq!(pair.node(Side::A).links().count(), 0);
    pair.noise = Box::new(|_, octets| {
        if sender(octets) == Some(B) {
            octets.fill(0);
        }
    });
    for number in 1..4 {
        pair.send(Side::A, &[number; 60]);
    }
    pair.run(MINUTE * 10);
    assert_eq!(pair.rejected(Side::A).len(), 3, "nobody answers");

    // The next call is lost, but data sent with it is heard.
    let mut is_first = true;
    pair.noise = Box::new(move |_, octets| {
        if sender(octets) == Some(A) && std::mem::take(&mut is_first) {
            let len = octets.len().min(60);
            octets[..len].fill(0);
        }
    });
    for number in 4..7 {
        pair.send(Side::A, &[number; 60]);
    }
    pair.run(HOUR);

    let sent: Vec<Vec<u8>> = (0..7).map(|number| vec![number; 60]).collect();
    assert_eq!(pair.received(Side::B), sent);
    assert_eq!(pair.confirmed(Side::A).len(), 4);
}

#[test]
fn nothing_is_transmitted_for_a_station_that_an_exclusive_link_keeps_out() {
    // The hard link does not probe the other end meanwhile either.
    let mut pair = Pair::new("2400", |config| config.link.idle = HOUR * 2);
    let link = HardLink { kind: LinkKind::Reserved, priority: 1, remote_sap: SAP, remote: B };
    pair.client(Side::A).establish(link);
    pair.run(MINUTE * 10);
    let [before, _] = pair.transmissions();

    // The link with B keeps all others out meanwhile.
    let (other, slow) = (Address::node(0x0a_1420), "600".parse().expect("a waveform"));
    assert!(pair.node(Side::A).request_rate(other, slow));
    pair.run(HOUR);

    assert_eq!(pair.node(Side::A).links().collect::<Vec<_>>(), [B]);
    assert_eq!(pair.transmissions()[0], before);
}

#[test]
fn the_station_that_asked_for_an_exclusive_link_ends_its_others() {
    let mut pair = Pair::new("2400", |_| {});
    pair.send(Side::A, b"so that there is a link");
    pair.run(Duration::from_secs(20));
    assert_eq!(pair.node(Side::A).links().collect::<Vec<_>>(), [B]);

    let c = Address::node(0x0a_1420);
    let link = HardLink { kind: LinkKind::Reserved, priority: 1, remote_sap: SAP, remote: c };
    pair.client(Side::A).establish(link);
    pair.run(Duration::from_secs(5));
    // C accepts the call.
    hear(&mut pair, c, Body::Datagram(control(&[0x20])));
    pair.run(Duration::from_secs(20));

    assert_eq!(pair.node(Side::A).links().collect::<Vec<_>>(), [c]);
    assert_eq!(pair.node(Side::B).links().count(), 0, "it was told");
}

#[test]
fn the_station_that_was_asked_for_an_exclusive_link_keeps_its_others() {
    let mut pair = Pair::new("2400", |_| {});
    pair.send(Side::A, b"so that there is a link");
    pair.run(Duration::from_secs(20));

    let c = Address::node(0x0a_1420);
    hear(&mut pair, c, Body::Datagram(control(&[0x11])));
    pair.run(Duration::from_secs(20));

    assert_eq!(pair.node(Side::A).links().collect::<Vec<_>>(), [B, c]);
}

#[test]
fn a_hard_link_whose_other_end_is_gone_ends_in_time_on_a_shared_frequency() {
    let mut pair = Pair::new("2400", |config| {
        config.access = Access::Jitter { limit: Duration::from_secs(5) };
    });
    let link = HardLink { kind: LinkKind::Reserved, priority: 1, remote_sap: SAP, remote: B };
    pair.client(Side::A).establish(link);
    pair.run(MINUTE);
    assert_eq!(pair.node(Side::A).links().collect::<Vec<_>>(), [B]);
    pair.noise = Box::new(|_, octets| octets.fill(0));

    // Soft links on such a frequency may be idle for an hour, and nobody else may have this one meanwhile.
    pair.run(MINUTE * 20);

    assert_eq!(pair.node(Side::A).links().count(), 0);
}

/// A frame of another station comes to side A.
fn hear(pair: &mut Pair, from: Address, body: Body<'_>) {
    let header = Header { eow: Eow::None, eot: 0, to: A, from, address_size: 4 };
    let mut octets = Vec::new();
    Frame { header, body }.emit(&mut octets);
    let now = pair.now;
    for event in [modem::Event::Received(octets), modem::Event::CarrierLost] {
        pair.node(Side::A).handle_modem(now, event);
    }
}

/// What carries a C_PDU about a link.
fn control(c_pdu: &[u8]) -> Datagram<'_> {
    Datagram {
        is_expedited: true,
        id: 0,
        in_order: false,
        size: 1,
        offset: 0,
        window: 2,
        segment: CpduSegment::new(c_pdu),
    }
}

/// Who sends the transmission that begins with these octets.
fn sender(octets: &[u8]) -> Option<Address> {
    Frame::read(octets).ok().map(|(frame, _)| frame.header.from)
}

#[test]
fn a_frame_that_no_window_of_ours_has_makes_both_ends_begin_anew() {
    let mut pair = Pair::new("2400", |config| config.extensions = Extensions::NONE);
    pair.send(Side::A, b"so that there is a link");
    pair.run(Duration::from_secs(30));

    let data = Data {
        fsn: Fsn(200),
        is_start: true,
        is_end: true,
        in_order: true,
        is_drop: false,
        at_upper_edge: false,
        at_lower_edge: false,
        segment: CpduSegment::new(b"x"),
    };
    hear(&mut pair, B, Body::Data { numbers: Numbers::Short, data, ack: None });
    let id = pair.send(Side::A, b"HELLO");
    pair.run(MINUTE);

    assert_eq!(pair.node(Side::A).stats().resets, 1);
    assert!(pair.confirmed(Side::A).contains(&id));
}

#[test]
fn an_acknowledgement_of_nothing_is_counted() {
    let mut pair = Pair::new("2400", |_| {});
    pair.send(Side::A, b"so that there is a link");
    pair.run(Duration::from_secs(30));

    let ack = Ack { lwe: Fsn(0), bitmap: &[] };
    hear(&mut pair, B, Body::Ack { is_expedited: true, ack });

    assert_eq!(pair.node(Side::A).stats().received.stray_acks, 1);
}

#[test]
fn who_does_not_answer_calls_for_an_exclusive_link_lets_others_have_their_data() {
    let mut pair = Pair::new("2400", |_| {});
    pair.send(Side::A, b"so that there is a link");
    pair.run(Duration::from_secs(20));
    let absent = Address::node(0x0a_1420);
    let link = HardLink { kind: LinkKind::Reserved, priority: 1, remote_sap: SAP, remote: absent };
    pair.client(Side::A).establish(link);
    pair.run(Duration::from_secs(5));
    pair.send(Side::A, b"HELLO");

    let is_over = |event: &client::Event| matches!(event, client::Event::HardLink(_));
    while !pair.events(Side::A).iter().any(is_over) {
        pair.run(Duration::from_secs(1));
    }

    assert_eq!(lengths(&pair).last(), Some(&5), "before the last call");
}

#[test]
fn a_lost_reset_is_repeated() {
    let mut pair = Pair::new("9600", |_| {});
    pair.noise = Box::new(|_, octets| {
        if sender(octets) == Some(B) {
            octets.fill(0);
        }
    });
    pair.send(Side::A, b"whose answer is lost");
    while pair.rejected(Side::A).is_empty() {
        pair.run(Duration::from_secs(1));
    }
    // The next call is in doubt, and both ends begin anew.
    let mut losses = 1;
    pair.noise = Box::new(move |_, octets| {
        let mut at = 0;
        while let Ok((frame, len)) = Frame::read(&octets[at..]) {
            if matches!(frame.body, Body::Reset { .. }) && losses > 0 {
                losses -= 1;
                octets[at + 3] ^= 1;
            }
            at += len;
        }
    });

    let id = pair.send(Side::A, b"HELLO");
    pair.run(MINUTE);

    assert_eq!(pair.confirmed(Side::A), [id]);
    let records = std::iter::from_fn(|| pair.node(Side::A).poll_record());
    let resets = records.filter(|record| match record {
        Record::Sent { octets, .. } => {
            Frame::read(octets).is_ok_and(|(it, _)| matches!(it.body, Body::Reset { .. }))
        }
        Record::Heard { .. } | Record::Keyed { .. } => false,
    });
    assert_eq!(resets.count(), 2);
}

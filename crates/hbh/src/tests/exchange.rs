//! Tests one exchange: packets in, messages on the wire, packets out.

use base::contract::Refused;

use super::*;

#[test]
fn a_packet_comes_out_as_it_went_in() {
    for (source, destination) in [("10.0.0.1:1", "10.9.0.2:2"), ("[fd00::1]:1", "[fd09::2]:2")] {
        for profile in [Profile::Default, Profile::Paper] {
            let mut pair = Line::pair(Config::new(profile));
            let packet = datagram(source, destination, 0);

            pair.give(&packet);
            pair.run(|_| Fate::ARRIVES);

            assert_eq!(pair.delivered, [packet]);
            assert_eq!(pair.relays[A].stats().packets_held, 0);
        }
    }
}

#[test]
fn on_the_wire_it_is_protocol_253_with_eight_octets_more_and_two_until_the_flow_is_known() {
    for profile in [Profile::Default, Profile::Paper] {
        let mut pair = Line::pair(quiet(profile));
        let more = if profile == Profile::Default { wire::EXTRA } else { 0 };
        for extra in [more, 0] {
            let packet = datagram("10.0.0.1:1", "10.9.0.2:2", 0);
            pair.give(&packet);
            let mut out = Vec::new();

            let to = pair.relays[A].poll_transmit(pair.now, Link(0), &mut out);

            let header = Header::parse(&out).unwrap();
            assert_eq!(to, Some(Peer(1)));
            assert_eq!(header.protocol, protocol::EXPERIMENT);
            assert_eq!(header.total_len, packet.len() + wire::HEADER + extra, "{profile:?}");
            assert_eq!(out[20 + wire::HEADER + extra..], packet[20..]);
            pair.relays[B].handle_message(pair.now, Peer(0), &out);
            pair.run_for(Duration::from_secs(1), |_| Fate::ARRIVES);
        }
    }
}

#[test]
fn every_protocol_comes_through() {
    for protocol in 0..=255_u8 {
        let mut pair = Line::pair(Config::new(Profile::Default));
        let spec = Spec::new("10.0.0.1".parse().unwrap(), "10.9.0.2".parse().unwrap(), protocol);
        let mut packet = Vec::new();
        spec.emit(40, &mut packet);
        packet.extend([7; 40]);
        pair.give(&packet);

        pair.run(|_| Fate::ARRIVES);

        assert_eq!(pair.delivered, [packet], "{protocol}");
    }
}

#[test]
fn a_packet_that_does_not_fit_is_refused_with_what_does() {
    let mut relay = Line::pair(Config::new(Profile::Default)).relays.swap_remove(A);
    let mut packet = Vec::new();
    let payload = [0; 1500 - 28];
    let (source, destination) = ("10.0.0.1:1".parse().unwrap(), "10.9.0.2:2".parse().unwrap());
    udp::Datagram { source, destination, payload: &payload }.emit(&mut packet);

    let refused = relay.handle_packet(Time::ZERO, Peer(1), &packet);

    assert_eq!(refused, Err(Refused::TooBig { mtu: 1488 }));
    assert_eq!(relay.stats().intake.packets_too_big, 1);
}

#[test]
fn damaged_and_foreign_packets_are_counted_and_dropped() {
    let mut pair = Line::pair(Config::new(Profile::Default));
    let mut message = Vec::new();
    pair.send(0..1);
    assert!(pair.relays[A].poll_transmit(Time::ZERO, Link(0), &mut message).is_some());
    let mut out = Vec::new();
    let mut take = |octets: &[u8], from| {
        pair.relays[B].handle_message(Time::ZERO, from, octets);
        assert_eq!(pair.relays[B].poll_restored(&mut out), None);
    };

    let mut flipped = message.clone();
    *flipped.last_mut().unwrap() ^= 1;
    take(&flipped, Peer(0));
    take(&message[..27], Peer(0));
    take(&datagram("10.0.0.1:1", "10.9.0.2:2", 0), Peer(0));
    take(&message, Peer(77));

    let stats = pair.relays[B].stats();
    assert_eq!(
        (
            stats.received.messages_damaged,
            stats.received.messages_malformed,
            stats.received.messages_unknown_peer
        ),
        (1, 2, 1)
    );
}

#[test]
fn acknowledgements_ride_on_packets_that_go_their_way() {
    let mut pair = Line::pair(quiet(Profile::Default));
    for number in 0..20 {
        let there = datagram("10.0.0.1:1", "10.9.0.2:2", number);
        let back = datagram("10.9.0.2:2", "10.0.0.1:1", number);
        pair.give(&there);
        pair.relays[B].handle_packet(pair.now, Peer(0), &back).unwrap();
    }

    pair.run(|_| Fate::ARRIVES);

    let stats = pair.relays[A].stats();
    assert!(stats.received.acks_ridden >= 10, "{stats:?}");
    assert!(stats.received.acks_sent <= 2, "{stats:?}");
}

/// TCP fills a link with packets that leave no room for an acknowledgement.
#[test]
fn an_acknowledgement_goes_before_packets_that_have_no_room_for_it() {
    let mut node = Arrivals::new(quiet(Profile::Default));
    for number in 0..9 {
        let full = long_datagram("10.9.0.2:2", "10.0.0.1:1", number, 1_488 - 28);
        node.relay.handle_packet(node.now, Peer(0), &full).unwrap();
    }

    node.bring(&datagram("10.0.0.1:1", "10.9.0.2:2", 0));
    node.wait(Duration::from_secs(1));

    assert_eq!(node.answer().map(|answer| answer.next), Some(wire::Seq(1)));
}

#[test]
fn an_unknown_flow_is_reported_before_packets_to_the_same_neighbour() {
    let mut node = Arrivals::new(quiet(Profile::Default));
    let back = datagram("10.9.0.2:2", "10.0.0.1:1", 0);
    node.relay.handle_packet(node.now, Peer(0), &back).unwrap();
    let there = datagram("10.0.0.1:1", "10.9.0.2:2", 0);

    node.bring_as(wire::Data { outstanding: None, ..data(&there) }, &there);

    assert_eq!(node.answer().map(|answer| answer.is_unknown), Some(true));
}

proptest! {
    #![proptest_config(harness::cases(64))]

    #[test]
    fn no_octets_upset_a_node(octets in prop::collection::vec(any::<u8>(), 0..120)) {
        let mut pair = Line::pair(Config::new(Profile::Default));
        pair.send(0..2);
        let mut message = Vec::new();
        Spec::new("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap(), 253)
            .emit(octets.len(), &mut message);
        message.extend_from_slice(&octets);

        pair.relays[B].handle_message(Time::ZERO, Peer(0), &message);
        pair.relays[B].handle_message(Time::ZERO, Peer(0), &octets);
        let _ = pair.relays[A].handle_packet(Time::ZERO, Peer(1), &octets);
        pair.run(|_| Fate::ARRIVES);
    }
}

#[test]
fn an_unknown_flow_is_reported_once_for_all_that_came_and_few_are_remembered() {
    let mut node = Arrivals::new(quiet(Profile::Default));
    let packet = datagram("10.0.0.1:1", "10.9.0.2:2", 0);
    let mut reports = |flows: std::ops::Range<u16>| {
        for flow in flows.clone().chain(flows) {
            let flow = wire::FlowId(flow);
            node.bring_as(wire::Data { flow, outstanding: None, ..data(&packet) }, &packet);
        }
        std::iter::from_fn(|| node.answer()).filter(|answer| answer.is_unknown).count()
    };

    assert_eq!([reports(1..2), reports(1..10), reports(1..40)], [1, 9, 16]);
}

#[test]
fn as_many_acknowledgements_ride_as_a_packet_has_room_for() {
    for (room, expected) in [(2, 0), (12, 0), (13, 1), (26, 2), (100, 4)] {
        let mut node = Arrivals::new(quiet(Profile::Default));
        for flow in 1..=8 {
            let packet = datagram(&format!("10.0.0.1:{flow}"), "10.9.0.2:2", 0);
            node.bring_as(wire::Data { flow: wire::FlowId(flow), ..data(&packet) }, &packet);
        }
        let len = 1_500 - 28 - wire::HEADER - wire::EXTRA - room;
        let packet = long_datagram("10.9.0.2:2", "10.0.0.1:1", 0, len);
        node.relay.handle_packet(node.now, Peer(0), &packet).unwrap();

        let mut out = Vec::new();
        assert!(node.relay.poll_transmit(node.now, Link(0), &mut out).is_some());

        let ridden = node.relay.stats().received.acks_ridden;
        assert!(out.len() <= 1_500 && ridden == expected, "{} {ridden}, not {expected}", out.len());
    }
}

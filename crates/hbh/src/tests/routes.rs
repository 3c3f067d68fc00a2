//! Packets that take another way.

use super::*;

#[test]
fn what_is_not_acknowledged_can_take_another_way() {
    let mut pair = Line::pair(quiet(Profile::Default));
    pair.send(0..3);
    let mut out = Vec::new();
    assert!(pair.relays[A].poll_transmit(pair.now, Link(0), &mut out).is_some());

    let mut orphans = Vec::new();
    pair.relays[A].remove_peer(Peer(1), |packet, _| orphans.push(number_of(packet)));

    assert_eq!(orphans, [0, 1, 2]);
    assert_eq!(pair.relays[A].stats().packets_held, 0);
    assert_eq!(pair.relays[A].poll_transmit(pair.now, Link(0), &mut out), None);
}

#[test]
fn only_flows_that_have_moved_are_taken_back() {
    let mut pair = Line::pair(quiet(Profile::Default));
    pair.send(0..3);

    let mut asked = 0;
    let mut orphans = Vec::new();
    for is_moved in [false, true, true] {
        let ask = |flow: &base::ip::FlowKey, from| {
            assert_eq!((flow.protocol, from), (protocol::UDP, None));
            asked += 1;
            is_moved
        };
        pair.relays[A].reroute(Peer(1), ask, |packet, _| orphans.push(number_of(packet)));
    }

    // Of a flow without packets nobody asks.
    assert_eq!((asked, &orphans[..]), (2, &[0, 1, 2][..]));
}

#[test]
fn a_neighbour_that_restarts_is_spoken_to_again() {
    for profile in [Profile::Default, Profile::Paper] {
        for (node, is_noticed) in [(A, false), (A, true), (B, false), (B, true)] {
            let mut pair = Line::pair(quiet(profile));
            pair.send(0..30);
            pair.run(|_| Fate::ARRIVES);

            pair.restart(node, is_noticed);
            pair.send(30..60);
            pair.run(|_| Fate::ARRIVES);

            assert_eq!(
                pair.order(),
                (0..60).collect::<Vec<_>>(),
                "{profile:?} {node} {is_noticed}"
            );
        }
    }
}

#[test]
fn what_tcp_has_acknowledged_takes_no_other_way_unless_that_cannot_be() {
    for (acknowledged, expected) in [(200, &[200][..]), (301, &[0, 100, 200])] {
        let mut pair = Line::pair(quiet(Profile::Default));
        for number in 0..3 {
            pair.give(&segment(number * 100, 100, ACK));
        }
        pair.give(&reversed(&acknowledgement(acknowledged)));

        let mut orphans = Vec::new();
        let is_forwards = |flow: &base::ip::FlowKey, _| flow.source_port == 1;
        pair.relays[A].reroute(Peer(1), is_forwards, |packet, _| orphans.push(seq_of(packet)));

        assert_eq!(orphans, expected, "{acknowledged}");
        let useless = pair.relays[A].stats().sent.packets_useless;
        assert_eq!(useless, 3 - expected.len() as u64);
    }
}

#[test]
fn a_reset_takes_another_way_though_all_before_it_has_arrived() {
    let mut pair = Line::pair(quiet(Profile::Default));
    pair.give(&segment(0, 300, ACK));
    pair.give(&reversed(&acknowledgement(300)));
    pair.give(&segment(300, 0, RST | ACK));

    let mut orphans = Vec::new();
    let is_forwards = |flow: &base::ip::FlowKey, _| flow.source_port == 1;
    pair.relays[A].reroute(Peer(1), is_forwards, |packet, _| orphans.push(seq_of(packet)));

    assert_eq!(orphans, [300]);
}

#[test]
fn of_acknowledgements_only_the_newest_take_another_way() {
    for (profile, expected) in
        [(Profile::Default, &[300, 300][..]), (Profile::Paper, &[100, 200, 300, 300])]
    {
        let mut pair = Line::pair(quiet(profile));
        for number in [100, 200, 300, 300] {
            pair.give(&acknowledgement(number));
        }

        let mut orphans = Vec::new();
        pair.relays[A].remove_peer(Peer(1), |packet, _| orphans.push(number_acknowledged(packet)));

        assert_eq!(orphans, expected, "{profile:?}");
    }
}

#[test]
fn an_acknowledgement_that_took_the_place_of_another_says_what_has_arrived() {
    let mut pair = Line::new(&[quiet(Profile::Default); 2], &[Duration::from_secs(1)]);
    for number in 0..3 {
        pair.give(&segment(number * 100, 100, ACK));
    }
    for number in [50, 100] {
        pair.give(&reversed(&acknowledgement(number)));
    }
    pair.run_for(Duration::from_millis(30), |_| Fate::ARRIVES);
    pair.give(&reversed(&acknowledgement(200)));
    assert_eq!(pair.relays[A].stats().intake.packets_absorbed, 1);

    let mut orphans = Vec::new();
    let is_forwards = |flow: &base::ip::FlowKey, _| flow.source_port == 1;
    pair.relays[A].reroute(Peer(1), is_forwards, |packet, _| orphans.push(seq_of(packet)));

    assert_eq!(orphans, [200]);
}

#[test]
fn a_neighbour_that_goes_takes_no_copies_from_others_on_its_link() {
    let mut pair = Line::pair(Config::new(Profile::Default));
    pair.relays[A].add_peer(Peer(7), peer_config(0));
    let report = LinkReport { arrived: 16, lost: 16, round_trip: None };
    pair.relays[A].handle_link_report(Peer(1), report);
    pair.give(&segment(0, 100, 0));
    pair.run_for(Duration::from_millis(1), |_| Fate::LOST);

    pair.relays[A].remove_peer(Peer(7), |_, _| {});
    pair.run_for(SLOT * 2, |_| Fate::LOST);

    assert!(pair.relays[A].stats().sent.data_spare > 0);
}

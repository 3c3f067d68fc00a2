//! Who hears whom: overlaps, capture, relays, topology updates.

use super::*;

#[test]
fn stations_hidden_from_each_other_collide_at_the_one_between() {
    // 0 and 2 do not hear each other.
    let config = Config { access: AccessMethod::DeterministicAdaptive, ..quiet() };
    let mut lab = Lab::new(config, row(3), 3, 0.0);
    assert!(lab.send(0, 1, 576, Precedence::Routine));
    assert!(lab.send(2, 1, 576, Precedence::Routine));

    lab.run(secs(30));

    // Station 2 has the third slot, 514 ms after station 0 began, whose transmission takes longer.
    assert_eq!(lab.received(1), 0, "{:?}", lab.story());
    assert_eq!(lab.stats(1).collisions, 2);
    assert_eq!(lab.air.iter().map(|it| it.collided).collect::<Vec<_>>(), [1, 1]);

    let mut lab = Lab::new(config, Hearing::All, 3, 0.0);
    assert!(lab.send(0, 1, 200, Precedence::Routine));
    assert!(lab.send(2, 1, 200, Precedence::Routine));
    lab.run(secs(30));
    assert_eq!(lab.received(1), 2, "who hears waits: {:?}", lab.story());
}

#[test]
fn who_transmits_hears_nothing() {
    // All send at once, into the same slot.
    let mut config = Config { access: AccessMethod::RadioEmbedded, ..quiet() };
    config.scheduling.persistence = 1.0;
    let mut lab = Lab::new(config, Hearing::All, 2, 0.0);

    assert!(lab.send(0, 1, 200, Precedence::Routine));
    assert!(lab.send(1, 0, 200, Precedence::Routine));
    lab.run(secs(30));

    assert_eq!([lab.received(0), lab.received(1)], [0, 0]);
    assert_eq!([lab.stats(0).missed, lab.stats(1).missed], [1, 1]);
    assert_eq!([lab.stats(0).collisions, lab.stats(1).collisions], [0, 0]);
    assert_eq!(lab.air.iter().map(|it| it.collided).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_transmission_survives_one_that_is_weaker_by_the_capture_ratio() {
    // Stations 1 and 2 send at once to 0, from 1000 m and further; power falls with the fourth power.
    for (far, received) in [(1_300.0, 0), (1_500.0, 1)] {
        let mut config = Config { capture: 6.0, range: 5_000.0, ..quiet() };
        config.scheduling.persistence = 1.0;
        let mut medium = Medium::new(config, Hearing::Places, 1);
        for x in [0.0, 1_000.0, -far] {
            medium.add_station(&x.to_string(), Motion::at_rest(Position::new(x, 0.0)));
        }
        let mut lab = Lab::new(config, Hearing::All, 3, 0.0);
        lab.medium = medium;

        assert!(lab.send(1, 0, 200, Precedence::Routine));
        assert!(lab.send(2, 0, 200, Precedence::Routine));
        lab.run(secs(30));

        // 4.6 and 7.0 dB.
        assert_eq!(lab.received(0), received, "{far}");
        assert_eq!(lab.stats(0).collisions, 2 - received as u64, "{far}");
    }
}

#[test]
fn relays_bring_packets_over_three_hops() {
    for link_type in [LinkType::Unacknowledged, LinkType::Coupled, LinkType::Decoupled] {
        let access = AccessMethod::DeterministicAdaptive;
        let config = Config { link_type, access, retries: 5, ..quiet() };
        let mut lab = Lab::new(config, row(4), 4, 0.0);
        assert_eq!(lab.medium.hops(lab.now, StationId(0), StationId(3)), Some(3));

        assert!(lab.send(0, 3, 100, Precedence::Routine));
        lab.run(secs(120));

        assert_eq!(lab.received(3), 1, "{link_type:?}: {:?}", lab.story());
        let data = lab.air.iter().filter(|it| it.kind == TransmissionKind::Data);
        let way: Vec<_> = data.map(|it| (it.from.0, it.to.unwrap().0)).collect();
        assert_eq!(way, [(0, 1), (1, 2), (2, 3)], "{link_type:?}");
        assert_eq!([1, 2].map(|it| lab.stats(it).relayed), [1, 1]);
        let is_it = |it: &&(Time, Event)| {
            matches!(it.1, Event::Received { from: StationId(0), station: StationId(3), .. })
        };
        assert!(lab.events.iter().find(is_it).is_some(), "the origin is told, not the relay");
        let relayed = |it: &&(Time, Event)| matches!(it.1, Event::Relayed { .. });
        let done = |it: &&(Time, Event)| matches!(it.1, Event::Sent { .. });
        assert_eq!(lab.events.iter().filter(relayed).count(), 2);
        assert_eq!(lab.events.iter().filter(done).count(), 3);
    }
}

#[test]
fn no_way_and_too_many_hops_drop_a_packet() {
    let mut lab = Lab::new(Config { max_hops: 3, ..quiet() }, row(5), 6, 0.0);

    assert!(lab.send(0, 3, 100, Precedence::Routine));
    assert!(!lab.send(0, 4, 100, Precedence::Routine), "four hops");
    assert!(!lab.send(0, 5, 100, Precedence::Routine), "nobody hears station 5");

    assert_eq!(lab.stats(0).no_way, 2);
    assert!(!lab.medium.joins(lab.now, StationId(0), StationId(4)));
}

#[test]
fn a_relay_without_room_forsakes_the_packet() {
    let config = Config { queue: 1, access: AccessMethod::DeterministicAdaptive, ..quiet() };
    let mut lab = Lab::new(config, row(3), 3, 0.0);
    // Station 1 is told to send when the packet for 2 comes.
    assert!(lab.send(0, 2, 100, Precedence::Routine));
    while lab.stats(0).transmissions == 0 {
        lab.run(lab.medium.next_timeout().unwrap());
    }
    assert!(lab.send(1, 0, 100, Precedence::Routine));

    lab.run(secs(30));

    assert_eq!([lab.received(2), lab.received(0)], [0, 1]);
    assert_eq!(lab.stats(1).dropped, [0, 0, 1]);
    let forsaken =
        |it: &&(Time, Event)| matches!(it.1, Event::Forsaken { station: StationId(1), .. });
    assert_eq!(lab.events.iter().filter(forsaken).count(), 1);
}

#[test]
fn noise_destroys_as_many_frames_as_it_is_told_to() {
    let config = Config { loss: 0.1, ..quiet() };
    let mut lab = Lab::new(config, Hearing::All, 2, 0.0);
    lab.saturate(0, 1, 100);

    lab.run(secs(3_000));

    let sent = lab.stats(0).frames as f64;
    let lost = lab.stats(1).residual_losses as f64 / sent;
    let error = (0.1 * 0.9 / sent).sqrt();
    assert!(sent > 2_000.0 && (lost - 0.1).abs() < 4.0 * error, "{lost} of {sent}");
}

#[test]
fn stations_tell_whom_they_hear_once_and_again_when_that_changes() {
    let spacing = Duration::from_secs(60);
    let config =
        Config { loss: 0.0, range: 1_000.0, topology_spacing: spacing, ..Config::default() };
    let mut lab = Lab::new(config, Hearing::All, 4, 0.0);
    lab.run(secs(1_000));
    assert_eq!([0, 1, 2, 3].map(|it| lab.stats(it).updates), [1; 4]);

    // Station 3 drives past the others, out of their range from 300 s on.
    let mut motion = Motion::at_rest(Position::new(900.0, 0.0));
    motion.go(secs(290), secs(310), Position::new(1_500.0, 0.0)).unwrap();
    let mut medium = Medium::new(config, Hearing::Places, 1);
    for x in [0.0, 100.0] {
        medium.add_station(&x.to_string(), Motion::at_rest(Position::new(x, 0.0)));
    }
    medium.add_station("3", motion);
    lab.medium = medium;
    lab.now = Time::ZERO;
    lab.run(secs(280));
    assert_eq!([0, 1, 2].map(|it| lab.stats(it).updates), [1; 3]);
    lab.run(secs(400));
    assert_eq!([0, 1, 2].map(|it| lab.stats(it).updates), [2; 3]);
}

//! Types 3 and 4.

use super::*;

fn acknowledged(link_type: LinkType) -> Config {
    Config { link_type, access: AccessMethod::DeterministicAdaptive, ..quiet() }
}

#[test]
fn receivers_of_type_3_answer_one_behind_the_other_and_others_wait() {
    let mut lab = Lab::new(acknowledged(LinkType::Coupled), Hearing::All, 5, 0.0);
    let to = Targets::several(&[StationId(3), StationId(1), StationId(2)]).unwrap();
    let frame = Frame { token: 7, octets: 97, to, precedence: Precedence::Routine };
    assert!(lab.give(0, frame));
    lab.run(Time::from_nanos(10_000_000));
    assert!(lab.send(4, 0, 97, Precedence::Routine));

    lab.run(secs(30));

    // 97 and 3 octets, four addresses, control, check: 872 bits with 15 zeros and two flags, 903; coded
    // 5 * 384 and 192 of header: 132 ms, and 250 of key-up, phasing and lag.
    let end = 382_000;
    // An answer has 56 bits with one zero and two flags, 73; coded 384 and 192: 36 ms. With 250, TURN
    // of 50 and TOL of 10 a slot takes 346 ms.
    let answer = |place: u64, from: usize| {
        let start = end + place * 346_000 + 50_000;
        format!("{start} {} Ack {from}>0", start + 286_000)
    };
    let story = lab.story();
    let expected = [format!("0 {end} Data 0>3"), answer(0, 3), answer(1, 1), answer(2, 2)];
    assert_eq!(story[..4], expected);
    // The timeout period: three slots, TOL and TURN. Then station 4 has the fourth slot: 3 * 252 + 2 * 10.
    let next = end + 3 * 346_000 + 60_000 + 776_000;
    assert!(story[4].starts_with(&format!("{next} ")), "{story:?}");
    assert!(matches!(lab.events.last(), Some((_, Event::Sent { is_received: true, .. }))));
}

#[test]
fn a_frame_of_type_3_is_sent_again_to_those_who_did_not_answer_and_then_given_up() {
    // Station 2 is not there.
    let config = Config { retries: 2, ..acknowledged(LinkType::Coupled) };
    let pairs = Hearing::Pairs(vec![[StationId(0), StationId(1)]]);
    let mut lab = Lab::new(config, pairs, 3, 0.0);
    let to = Targets::several(&[StationId(1), StationId(2)]).unwrap();
    assert!(lab.give(0, Frame { token: 7, octets: 97, to, precedence: Precedence::Routine }));

    lab.run(secs(60));

    assert_eq!(lab.received(1), 1);
    let stats = lab.stats(0);
    assert_eq!([stats.frames, stats.repeats, stats.given_up], [3, 2, 1]);
    assert_eq!(lab.stats(1).acks, 1);
    let left = Targets::one(StationId(2));
    let Some((_, Event::Failed { frame, .. })) = lab.events.last() else { panic!() };
    assert_eq!(frame.to, to);
    assert_eq!(lab.air.last().unwrap().to, Some(StationId(left.named()[0].into())));
}

#[test]
fn acknowledgements_of_type_4_share_a_transmission_with_data() {
    let mut lab = Lab::new(acknowledged(LinkType::Decoupled), Hearing::All, 2, 0.0);
    assert!(lab.send(0, 1, 97, Precedence::Routine));
    assert!(lab.send(0, 1, 97, Precedence::Routine));
    assert!(lab.send(1, 0, 97, Precedence::Routine));

    lab.run(secs(15));

    let story = lab.story();
    let kinds: Vec<&str> = story.iter().map(|it| it.split_once(' ').unwrap().1).collect();
    assert_eq!(lab.air.len(), 6, "{kinds:?}");
    assert_eq!([lab.stats(0).transmissions, lab.stats(1).transmissions], [2, 1], "{kinds:?}");
    assert_eq!([lab.stats(0).acks, lab.stats(1).acks], [1, 2], "{kinds:?}");
    assert_eq!([lab.stats(0).repeats, lab.stats(1).repeats], [0, 0]);
    assert_eq!([lab.received(0), lab.received(1)], [1, 2]);
}

#[test]
fn every_packet_of_types_3_and_4_has_one_outcome_whatever_is_lost() {
    for link_type in [LinkType::Coupled, LinkType::Decoupled] {
        let config = Config { loss: 0.3, retries: 3, queue: 200, ..acknowledged(link_type) };
        let mut lab = Lab::new(config, Hearing::All, 4, 0.0);
        for number in 0..100 {
            assert!(lab.send(number % 4, (number + 1) % 4, 97, Precedence::ALL[number % 3]));
        }

        lab.run(secs(4_000));

        let is_sent = |it: &&(Time, Event)| matches!(it.1, Event::Sent { is_received: true, .. });
        let is_failed = |it: &&(Time, Event)| matches!(it.1, Event::Failed { .. });
        let sent = lab.events.iter().filter(is_sent).count();
        let failed = lab.events.iter().filter(is_failed).count();
        let received: usize = (0..4).map(|it| lab.received(it)).sum();
        assert_eq!(sent + failed, 100, "{link_type:?}");
        assert!(received >= sent && received <= 100, "{link_type:?}: {received} {sent}");
        // An attempt fails with probability 1 - 0.49, four with 0.068: 6.8 expected.
        assert!((1..=18).contains(&failed), "{link_type:?}: {failed} failed");
        let total = lab.medium.total(lab.now);
        assert!(total.duplicates > 0 && total.repeats > 50, "{link_type:?}: {total:?}");
        assert_eq!((0..4).map(|it| lab.medium.waiting(StationId(it))).sum::<usize>(), 0);
    }
}

#[test]
fn a_full_queue_drops_what_comes_next_and_counts_it_by_precedence() {
    let mut lab = Lab::new(Config { queue: 3, ..quiet() }, Hearing::All, 2, 0.0);

    let taken = [(); 5].map(|()| lab.send(0, 1, 97, Precedence::Routine));
    let urgent = lab.send(0, 1, 97, Precedence::Urgent);

    assert_eq!(taken, [true, true, true, false, false]);
    assert!(urgent, "each precedence has room of its own");
    assert_eq!(lab.stats(0).dropped, [0, 0, 2]);
}

#[test]
fn what_no_frame_has_room_for_is_refused() {
    let mut lab = Lab::new(quiet(), Hearing::All, 2, 0.0);

    assert!(lab.send(0, 1, 3_342, Precedence::Routine));
    assert!(!lab.send(0, 1, 3_343, Precedence::Routine));

    assert_eq!(lab.stats(0).too_long, 1);
}

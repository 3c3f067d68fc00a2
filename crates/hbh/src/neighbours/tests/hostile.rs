//! Tests neighbours against impostors and replayed hellos.

use super::*;

#[test]
fn those_merely_heard_are_bounded_and_those_sent_to_named_in_turn() {
    let mut gateway = with(Config { limit: 100, ..config() });
    for station in 2..202 {
        gateway.handle_hello(Time::ZERO, (0, mac(station)), hello(station));
    }

    let mut named = std::collections::BTreeSet::new();
    for second in 1..20 {
        let now = Time::ZERO + Duration::from_secs(10 * second);
        for station in 102..202 {
            gateway.handle_alive(now, (0, mac(station)));
        }
        for station in 120..160 {
            gateway.handle_next_hop(now, (0, mac(station)));
        }
        while let Some((to, hello)) = gateway.poll_transmit(now, 0) {
            if to == Mac::EVERYONE {
                assert!(hello.is_partial && hello.neighbours.len() == 8);
                named.extend(hello.neighbours.iter().map(|heard| heard.boot));
            }
        }
    }

    assert_eq!(gateway.stats().neighbours_evicted, 100);
    assert_eq!(named, (120..160).map(boot).collect());
}

#[test]
fn five_thousand_false_stations_do_not_keep_a_neighbour_out() {
    let mut pair = Pair::new();
    let mut station = 2;

    // 250 strangers in each tenth of a second, while two gateways meet that send packets to each other.
    let mut story = Vec::new();
    for _ in 0..20 {
        for _ in 0..250 {
            pair.left.handle_hello(pair.now, (0, mac(station)), hello(station));
            station += 1;
        }
        pair.left.handle_next_hop(pair.now, (0, mac(1)));
        pair.right.handle_next_hop(pair.now, (0, mac(0)));
        story.extend(pair.run(Duration::from_millis(100), |_| false));
    }

    assert_eq!(story.iter().filter(|line| line.ends_with("up")).count(), 2, "{story:?}");
    assert!(pair.left.stats().neighbours_evicted > 4_000);
}

#[test]
fn stations_that_nothing_is_sent_to_make_room() {
    let mut gateway = with(Config { limit: 10, ..config() });
    let mut now = Time::ZERO;
    let meet = |gateway: &mut Neighbours, now, station| {
        meet(gateway, now, hello(station));
        gateway.peer_at((0, mac(station))).is_some()
    };
    for station in 2..12 {
        assert!(meet(&mut gateway, now, station));
    }

    let is_early = meet(&mut gateway, now, 12);
    now += Duration::from_secs(19);
    for station in 2..12 {
        gateway.handle_alive(now, (0, mac(station)));
    }
    for station in 3..12 {
        gateway.handle_sent(now, (0, mac(station)), None);
    }
    now += Duration::from_secs(1);
    let is_later = meet(&mut gateway, now, 13);

    assert!(!is_early && is_later);
    assert_eq!(gateway.peer_at((0, mac(2))), None, "nothing was sent there for longest");
    assert_eq!(gateway.stats().hellos_full, 1);
}

#[test]
fn whoever_does_not_repeat_our_session_stays_down() {
    let mut gateway = with(config());
    gateway.handle_hello(Time::ZERO, (0, mac(2)), hello(2));
    let session = gateway.sessions.number((0, mac(2)), boot(2));

    for (counter, echo) in [(2, 0), (3, session.wrapping_add(1)), (4, session.wrapping_sub(1))] {
        let us = heard(gateway.boot, 7, echo);
        let hello = Hello { counter, neighbours: vec![us], ..hello(2) };
        gateway.handle_hello(Time::ZERO, (0, mac(2)), hello);
        assert_eq!(gateway.peer_at((0, mac(2))), None, "{echo}");
    }
    let us = heard(gateway.boot, 7, session);
    gateway.handle_hello(
        Time::ZERO,
        (0, mac(2)),
        Hello { counter: 5, neighbours: vec![us], ..hello(2) },
    );

    assert!(gateway.peer_at((0, mac(2))).is_some());
}

#[test]
fn what_was_recorded_takes_nobody_down_and_brings_nobody_up() {
    // The right one starts three times, says goodbye once, and goes at last.
    let mut pair = Pair::new();
    let mut recorded = Vec::new();
    for start in 0..3 {
        pair.run(Duration::from_secs(5), |_| false);
        recorded.append(&mut pair.from_right);
        if start == 1 {
            for goodbye in pair.right.goodbyes(pair.now, 0) {
                pair.left.handle_hello(pair.now, (0, mac(1)), goodbye.clone());
                recorded.push(goodbye);
            }
        }
        pair.right = gateway(10 + start, Profile::Default);
        pair.right.handle_interface(pair.now, 0, mac(1), &[address(1)], true);
    }
    pair.run(Duration::from_secs(5), |_| false);
    let up = pair.left.peer_at((0, mac(1)));
    assert!(up.is_some());

    for hello in recorded.iter().chain(&pair.from_right).chain(recorded.iter().rev()) {
        pair.left.handle_hello(pair.now, (0, mac(1)), hello.clone());
    }
    let is_disturbed = pair.left.poll_event().is_some();
    let story = pair.run(Duration::from_secs(5), |_| false);
    recorded.append(&mut pair.from_right);
    pair.run(Duration::from_secs(60), |from_left| !from_left);
    let is_down = pair.left.peer_at((0, mac(1))).is_none();
    for hello in recorded.iter().chain(recorded.iter().rev()) {
        pair.left.handle_hello(pair.now, (0, mac(1)), hello.clone());
        assert_eq!(pair.left.peer_at((0, mac(1))), None, "{hello:?}");
    }

    assert!(!is_disturbed && story.is_empty(), "{story:?}");
    assert!(is_down);
}

#[test]
fn what_was_said_to_another_takes_nobody_down() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);
    // A third station makes the right station answer to the third alone.
    let stranger = Hello { wants_answer: true, ..hello(2) };
    pair.right.handle_hello(pair.now, (0, mac(2)), stranger);
    pair.now += Duration::from_millis(100);
    let answers: Vec<_> = std::iter::from_fn(|| pair.right.poll_transmit(pair.now, 0)).collect();

    assert!(answers.iter().any(|(to, _)| *to == mac(2)), "{answers:?}");
    for (_, answer) in answers {
        pair.left.handle_hello(pair.now, (0, mac(1)), answer);
    }

    assert_eq!(pair.left.poll_event(), None);
}

#[test]
fn strangers_cause_few_hellos_each_and_in_all_and_none_to_everyone() {
    let answers = |heard: u16, station: &dyn Fn(u16) -> u16| {
        let mut gateway = with(config());
        for station in 2..2 + heard {
            gateway.handle_hello(Time::ZERO, (0, mac(station)), hello(station));
        }
        while gateway.poll_transmit(Time::ZERO + ANSWER_SPREAD * 5, 0).is_some() {}
        let mut answers = 0;
        for number in 0..1_000 {
            let now = Time::ZERO + Duration::from_millis(100 + u64::from(number));
            gateway.handle_stranger(now, (0, mac(station(number))));
            gateway.handle_timeout(now);
            while let Some((to, _)) = gateway.poll_transmit(now, 0) {
                answers += u32::from(to != Mac::EVERYONE);
            }
        }
        (answers, gateway.interfaces[0].hello_at)
    };

    let (to_one, next) = answers(0, &|_| 7);
    assert_eq!(to_one, 4);
    assert_eq!(answers(0, &|number| 2 + number), (10, next), "to everyone as to nobody");
    assert_eq!(answers(1, &|_| 2).0, 4, "to one that is heard");
    assert_eq!(answers(5, &|number| 2 + number % 5).0, 10, "to several");
    assert_eq!(answers(16, &|number| 2 + number % 16).0, 3, "in a crowd");
}

#[test]
fn a_hello_repeated_by_another_station_does_not_count() {
    let mut gateway = with(config());

    gateway.handle_hello(Time::ZERO, (0, mac(3)), hello(2));

    assert_eq!(gateway.stats().hellos_relayed, 1);
    assert!(gateway.known.is_empty());
}

#[test]
fn no_two_conversations_have_the_same_ends() {
    let mut pair = Pair::new();
    let mut ends = std::collections::BTreeSet::new();

    for round in 1..=5 {
        pair.run(Duration::from_secs(5), |_| false);
        let (ours, theirs) = pair.left.ends((0, mac(1))).unwrap();
        assert_eq!(pair.right.ends((0, mac(0))), Some((theirs, ours)));
        ends.insert((ours.session, theirs.session));
        assert_eq!(ends.len(), round);
        // One of them forgets the other, then both.
        let is_one_way = round % 2 == 0;
        pair.run(Duration::from_secs(30), |from_left| from_left || !is_one_way);
    }
}

#[test]
fn a_conversation_that_ended_does_not_go_on_under_its_number() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);
    let place = (0, mac(1));
    let (ours, theirs) = pair.left.ends(place).unwrap();

    // It does not hear us, and then tells the same numbers as before.
    let deaf = Hello { boot: theirs.boot, counter: 1_000, ..hello(1) };
    pair.left.handle_hello(pair.now, place, deaf.clone());
    let us = heard(ours.boot, theirs.session, ours.session);
    let again = Hello { counter: 1_001, neighbours: vec![us], ..deaf };
    pair.left.handle_hello(pair.now, place, again);

    assert_eq!(pair.left.peer_at(place), None);
    assert_ne!(pair.left.ends(place).unwrap().0.session, ours.session);
}

#[test]
fn only_those_on_the_list_come_up() {
    let listed = |text: &str| text.parse::<Listed>().unwrap();
    for (list, is_welcome) in [
        (vec![listed("10.0.0.1")], true),
        (vec![listed("10.0.0.9"), listed("10.0.0.1")], true),
        (vec![listed("10.0.0.9")], false),
        (vec![listed("10.0.0.1 at 02:00:00:00:00:01")], true),
        (vec![listed("10.0.0.1 at 02:00:00:00:00:09")], false),
    ] {
        let mut pair = Pair::new();
        pair.left = with(Config { only: Some(list.clone()), ..config() });

        let story = pair.run(Duration::from_secs(10), |_| false);

        let is_up = pair.left.peer_with(0, address(1)).is_some();
        assert_eq!(is_up, is_welcome, "{list:?}");
        assert_eq!(story.iter().any(|line| line.ends_with("left up")), is_welcome, "{list:?}");
    }
}

#[test]
fn a_bound_address_is_for_its_station_alone() {
    let bound = "10.0.0.1 at 02:00:00:00:00:01".parse().unwrap();
    let free = "10.0.0.2".parse().unwrap();
    let mut pair = Pair::new();
    pair.left = with(Config { only: Some(vec![bound, free]), ..config() });

    // The station has a listed address, and claims the bound address too.
    let greedy = Hello { addresses: vec![address(2), address(1)], ..hello(2) };
    pair.left.handle_hello(pair.now, (0, mac(2)), greedy);
    let event = pair.left.poll_event();

    assert_eq!(event, Some(Event::Misplaced((0, mac(2)))));
    assert_eq!(pair.left.stats().hellos_misplaced, 1);
    assert!(pair.left.known.is_empty());
}

#[test]
fn an_address_of_a_neighbour_that_is_up_is_not_given_away() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);
    let peer = pair.left.peer_with(0, address(1));

    let claim = Hello { addresses: vec![address(2), address(1)], ..hello(2) };
    pair.left.handle_hello(pair.now, (0, mac(2)), claim.clone());
    let event = pair.left.poll_event();
    let holder = pair.left.peer_with(0, address(1));
    pair.run(Duration::from_secs(60), |from_left| !from_left);
    meet(&mut pair.left, pair.now, claim);

    assert_eq!(event, Some(Event::Disputed((0, mac(2)))));
    assert_eq!(holder, peer);
    assert_eq!(pair.left.stats().hellos_disputed, 1);
    assert!(pair.left.peer_with(0, address(1)).is_some(), "the first is gone");
}

#[test]
fn a_goodbye_of_another_conversation_is_not_believed() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);
    let [goodbye] = &pair.right.goodbyes(pair.now, 0)[..] else { panic!("one neighbour") };
    let us = goodbye.neighbours[0];

    for false_one in [
        Hello { boot: goodbye.boot + 1, ..goodbye.clone() },
        Hello { counter: 1, ..goodbye.clone() },
        Hello { neighbours: Vec::new(), ..goodbye.clone() },
        Hello { neighbours: vec![Heard { echo: us.echo + 1, ..us }], ..goodbye.clone() },
    ] {
        pair.left.handle_hello(pair.now, (0, mac(1)), false_one);
        assert_eq!(pair.left.poll_event(), None);
    }
    pair.left.handle_hello(pair.now, (0, mac(1)), goodbye.clone());

    assert!(matches!(pair.left.poll_event(), Some(Event::Down(..))));
}

#[test]
fn goodbyes_name_all_neighbours() {
    let mut gateway = with(config());
    for station in 2..102 {
        gateway.handle_hello(Time::ZERO, (0, mac(station)), hello(station));
    }

    let goodbyes = gateway.goodbyes(Time::ZERO, 0);

    assert_eq!(goodbyes.iter().map(|hello| hello.neighbours.len()).sum::<usize>(), 100);
    assert!(goodbyes.iter().all(|hello| hello.is_goodbye));
    assert!(goodbyes.is_sorted_by(|one, next| one.counter < next.counter));
}

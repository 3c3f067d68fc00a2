//! What others make up.

use std::time::Duration;

use base::time::Time;

use super::bench::{Net, PORTS, address, message, rng};
use crate::wire::{Body, Cover, MaskBuffer, Pdu, Place};
use crate::{Arrival, Config, Event, NotTaken, Options, Outcome, Ports, Precedence, Profile, Sar};

const NOW: Time = Time::ZERO;

fn node(config: Config) -> Sar {
    Sar::new(NOW, config, Some(100), rng(0))
}

fn tell(node: &mut Sar, from: usize, ports: Ports, serial: u16, body: Body<'_>) {
    let mut octets = Vec::new();
    Pdu { ports, serial, body }.emit(&mut octets);
    let arrival = Arrival { from: address(from), is_group: false, precedence: Precedence::ROUTINE };
    node.handle_datagram(NOW, arrival, &octets).expect("it is well formed");
}

fn sent(node: &mut Sar) -> usize {
    let mut out = Vec::new();
    std::iter::from_fn(|| node.poll_transmit(NOW, &mut out)).count()
}

fn outcomes(node: &mut Sar) -> usize {
    let events = std::iter::from_fn(|| node.poll_event());
    events.filter(|event| matches!(event, Event::Outcome { .. })).count()
}

fn data(number: u16, last: u16, polls: bool) -> Body<'static> {
    let place = Place::new(number, last).unwrap();
    Body::Data { is_acknowledged: true, polls, place, data: &[7; 100] }
}

#[test]
fn only_a_destination_with_the_right_ports_is_believed_about_what_was_sent() {
    let mut node = node(Config::default());
    let complete = Body::Complete { is_final: true };
    let to = [address(1)];
    node.submit(NOW, &message(4_000), &to, Options::default()).unwrap();

    // Before anything was sent, from elsewhere, with other ports, of another number.
    tell(&mut node, 1, PORTS.swapped(), 100, complete);
    assert_eq!(sent(&mut node), 5, "the window");
    tell(&mut node, 2, PORTS.swapped(), 100, complete);
    tell(&mut node, 1, Ports { source: 9, ..PORTS }, 100, complete);
    tell(&mut node, 1, PORTS.swapped(), 101, complete);
    let mask = MaskBuffer::new(2);
    tell(&mut node, 2, PORTS.swapped(), 100, Body::Partial { is_final: true, mask: mask.mask() });
    // Segments are missing that were never sent, or are there.
    tell(&mut node, 1, PORTS.swapped(), 100, complete);
    let mut mask = MaskBuffer::new(2);
    mask.set(6);
    let beyond = Body::Partial { is_final: true, mask: mask.mask() };
    tell(&mut node, 1, PORTS.swapped(), 100, beyond);
    let mask = MaskBuffer::new(7);
    let beyond = Body::Partial { is_final: true, mask: mask.mask() };
    tell(&mut node, 1, PORTS.swapped(), 100, beyond);

    assert_eq!(outcomes(&mut node), 0);
    let answered = node.stats().answered;
    assert_eq!((answered.forged, answered.unknown), (7, 1), "{answered:?}");
}

#[test]
fn who_says_that_all_arrived_must_be_the_destination_and_name_the_ports() {
    let mut node = node(Config::default());
    let complete = Body::Complete { is_final: true };
    let to = [address(1)];
    node.submit(NOW, &message(40), &to, Options::default()).unwrap();
    assert_eq!(sent(&mut node), 1);

    tell(&mut node, 2, PORTS.swapped(), 100, complete);
    tell(&mut node, 1, Ports { source: 9, ..PORTS }, 100, complete);
    tell(&mut node, 1, Ports { source: 1_581, destination: 9 }, 100, complete);
    assert_eq!((outcomes(&mut node), node.stats().answered.forged), (0, 3));

    tell(&mut node, 1, PORTS.swapped(), 100, complete);
    assert_eq!(outcomes(&mut node), 1);
}

#[test]
fn an_outcome_is_told_once_however_often_it_is_answered() {
    let mut node = node(Config::default());
    let to = [address(1)];
    node.submit(NOW, &message(40), &to, Options::default()).unwrap();
    assert_eq!(sent(&mut node), 1);

    for body in [
        Body::Complete { is_final: true },
        Body::Complete { is_final: true },
        Body::AbortRequest { polls: false },
    ] {
        tell(&mut node, 1, PORTS.swapped(), 100, body);
    }

    assert_eq!(outcomes(&mut node), 1);
    assert_eq!(node.stats().messages.delivered, 1);
}

#[test]
fn floods_about_unknown_transfers_are_answered_at_a_limited_rate() {
    let mut node = node(Config::default());
    let limit = Config::default().limits.strange_answers as usize;
    let mask = MaskBuffer::new(1);
    let bodies = [
        Body::AbortRequest { polls: true },
        Body::AckRequest { last_sent: 3 },
        Body::Partial { is_final: true, mask: mask.mask() },
    ];

    for serial in 0..1_000 {
        for body in bodies {
            tell(&mut node, 3, PORTS, serial, body);
        }
    }

    assert!(sent(&mut node) <= 2 * limit);
    assert!(node.stats().sent.answers_limited >= 1_900, "{:?}", node.stats().sent);
}

#[test]
fn floods_of_transfers_are_bounded_and_leave_room_again() {
    let mut config = Config::default();
    config.limits.reassemblies = 10;
    config.limits.answers = 20;
    let mut node = node(config);

    for serial in 0..1_000 {
        tell(&mut node, 3, PORTS, serial, data(1, 3, true));
    }
    let stats = node.stats();
    assert_eq!((stats.levels.reassemblies, stats.received.evicted), (10, 990));
    assert!(sent(&mut node) <= 20);

    // Who is silent makes room in the end.
    let mut now = NOW;
    while let Some(due) = node.next_timeout() {
        now = due;
        node.handle_timeout(now);
    }
    assert_eq!(node.stats().levels.reassemblies, 0);
    assert_eq!(node.stats().received.given_up, 10);
    assert!(now < NOW + Duration::from_secs(1_000));
}

#[test]
fn a_message_that_is_too_long_is_not_begun() {
    let mut node = node(Config::default());

    tell(&mut node, 3, PORTS, 1, data(1, 65_535, true));
    tell(&mut node, 3, PORTS, 2, data(65_535, 65_535, true));

    let stats = node.stats();
    assert_eq!((stats.levels.reassemblies, stats.received.too_large), (0, 2));
}

#[test]
fn a_message_that_began_with_its_short_end_is_no_longer_than_allowed() {
    let mut config = Config::default();
    config.limits.message = 500;
    let mut node = node(config);
    let end = Place::new(10, 10).unwrap();
    let end = Body::Data { is_acknowledged: true, polls: false, place: end, data: &[7; 10] };
    tell(&mut node, 1, PORTS, 1, end);
    assert_eq!(node.stats().levels.reassemblies, 1, "ten such segments would fit");

    tell(&mut node, 1, PORTS, 1, data(1, 10, false));

    assert_eq!(node.stats().received.too_large, 1);
}

#[test]
fn segments_that_do_not_fit_are_left_out() {
    let mut node = node(Config::default());
    tell(&mut node, 3, PORTS, 1, data(1, 4, false));
    tell(&mut node, 3, PORTS, 1, data(2, 4, false));

    tell(&mut node, 3, PORTS, 1, data(3, 5, false));
    // Other ports are another transfer.
    tell(&mut node, 3, Ports { source: 1, ..PORTS }, 1, data(3, 4, false));
    let place = Place::new(3, 4).unwrap();
    let short = Body::Data { is_acknowledged: true, polls: false, place, data: b"short" };
    tell(&mut node, 3, PORTS, 1, short);
    let place = Place::new(4, 4).unwrap();
    let long = Body::Data { is_acknowledged: true, polls: false, place, data: &[7; 101] };
    tell(&mut node, 3, PORTS, 1, long);

    assert_eq!(node.stats().received.odd, 3);
    tell(&mut node, 3, PORTS, 1, data(3, 4, false));
    tell(&mut node, 3, PORTS, 1, data(4, 4, false));
    assert_eq!(node.stats().received.messages, 1);
}

#[test]
fn what_follows_a_short_last_segment_stays_within_the_room_for_reassembly() {
    let long = [7; 1_000];
    let place = |number| Place::new(number, 3).unwrap();
    let segment = |number, data| Body::Data {
        is_acknowledged: true,
        polls: false,
        place: place(number),
        data,
    };
    let cover = Cover { first: place(1), span: 3, number: 0, tail: 1 };

    for next in [segment(1, &long), Body::Repair { polls: false, cover, symbol: &long }] {
        let mut config = Config { coding: true, ..Config::default() };
        config.limits.reassembly_octets = 2_500;
        let mut node = node(config);
        tell(&mut node, 1, PORTS, 7, segment(3, &[7]));
        tell(&mut node, 1, PORTS, 7, next);

        let stats = node.stats();
        assert!(stats.levels.reassembly_octets <= 2_500, "{:?}", stats.levels);
        assert_eq!(stats.received.full, 1);
    }
}

#[test]
fn a_single_segment_that_was_made_up_does_not_keep_the_true_ones_out() {
    let mut node = node(Config::default());
    let place = Place::new(1, 3).unwrap();
    let long = Body::Data { is_acknowledged: true, polls: false, place, data: &[7; 101] };

    // With more segments than there are, and then a longer one.
    tell(&mut node, 3, PORTS, 1, data(1, 9, false));
    (1..=3).for_each(|number| tell(&mut node, 3, PORTS, 1, data(number, 3, false)));
    tell(&mut node, 3, PORTS, 2, long);
    for number in [2, 3, 1, 2] {
        tell(&mut node, 3, PORTS, 2, data(number, 3, false));
    }

    assert_eq!(node.stats().received.messages, 2);
}

#[test]
fn an_abort_that_was_made_up_costs_what_had_come_and_not_the_message() {
    let mut node = node(Config::default());
    tell(&mut node, 3, PORTS, 1, data(1, 2, false));

    tell(&mut node, 3, PORTS, 1, Body::AbortRequest { polls: false });
    assert_eq!((node.stats().levels.reassemblies, node.stats().received.aborts), (0, 1));
    (1..=2).for_each(|number| tell(&mut node, 3, PORTS, 1, data(number, 2, false)));

    assert_eq!(node.stats().received.messages, 1);
}

#[test]
fn what_a_program_may_not_ask_for_is_refused_with_the_reason() {
    let mut config = Config::default();
    config.limits.message = 1_000;
    config.limits.waiting = 2;
    config.flow.transfers = 1;
    let mut node = node(config);
    let one = [address(1)];
    let options = Options::default();
    let mut submit = |octets, to: &[_]| node.submit(NOW, &message(octets), to, options);

    assert_eq!(submit(0, &one), Err(NotTaken::Empty));
    assert_eq!(submit(1_001, &one), Err(NotTaken::TooLarge { have: 1_001, most: 1_000 }));
    assert_eq!(submit(1, &[]), Err(NotTaken::NoDestination));
    let many: Vec<_> = (0..17).map(address).collect();
    assert_eq!(submit(1, &many), Err(NotTaken::TooManyDestinations { have: 17, most: 16 }));
    assert!((0..3).all(|_| submit(1, &one).is_ok()), "one is sent, two wait");
    assert_eq!(submit(1, &one), Err(NotTaken::Full { waiting: 2 }));
    let resume = Some(crate::Resume { serial: 100, segment: 496 });
    let again = node.submit(NOW, &message(1), &one, Options { resume, ..options });
    assert!(again.is_err());
    let messages = node.stats().messages;
    assert_eq!((messages.taken, messages.full, messages.refused), (3, 2, 4));
}

#[test]
fn a_destination_that_always_lacks_another_segment_is_given_up() {
    let mut net = Net::new(1, Config::default());
    let to = [address(1)];
    let node = &mut net.nodes[0];
    node.submit(NOW, &message(4_000), &to, Options::default()).unwrap();

    let mut rounds = 0;
    while sent(node) > 0 {
        let mask = MaskBuffer::new(1 + rounds % 2);
        let partial = Body::Partial { is_final: true, mask: mask.mask() };
        tell(node, 1, PORTS.swapped(), 100, partial);
        rounds += 1;
        assert!(rounds < 100, "it goes on for ever");
    }
    net.run(Duration::from_secs(1_000));

    let failed = |it: &(_, _, _, Outcome)| matches!(it.3, Outcome::Failed(_));
    assert!(net.outcomes.len() == 1 && net.outcomes.iter().all(failed), "{:?}", net.outcomes);
}

#[test]
fn a_destination_that_talks_but_does_not_answer_is_given_up() {
    let mut node = node(Config::default());
    let to = [address(1)];
    node.submit(NOW, &message(4_000), &to, Options::default()).unwrap();
    let mask = MaskBuffer::new(2);
    let mut octets = Vec::new();
    let body = Body::Partial { is_final: false, mask: mask.mask() };
    Pdu { ports: PORTS.swapped(), serial: 100, body }.emit(&mut octets);
    let arrival = Arrival { from: address(1), is_group: false, precedence: Precedence::ROUTINE };

    let (mut now, mut told, mut out) = (NOW, 0, Vec::new());
    for _ in 0..100 {
        while node.poll_transmit(now, &mut out).is_some() {}
        let _ = node.handle_datagram(now, arrival, &octets);
        told += outcomes(&mut node);
        now = node.next_timeout().unwrap_or(now);
        node.handle_timeout(now);
    }

    assert_eq!(told, 1);
}

#[test]
fn who_has_sent_a_message_is_answered_while_strangers_flood() {
    let mut node = node(Config::default());
    tell(&mut node, 1, PORTS, 1, data(1, 1, true));
    for serial in 0..1_000 {
        tell(&mut node, 3, PORTS, serial, Body::AckRequest { last_sent: 3 });
    }
    sent(&mut node);

    let mut answered = |from, body| {
        tell(&mut node, from, PORTS, 5_000, body);
        sent(&mut node) == 1
    };

    let ask = Body::AckRequest { last_sent: 3 };
    assert_eq!([1, 2].map(|from| answered(from, ask)), [true, false]);
    let abort = Body::AbortRequest { polls: true };
    assert_eq!([1, 2].map(|from| answered(from, abort)), [true, false]);
}

#[test]
fn another_message_with_the_number_of_one_before_is_taken() {
    let mut node = node(Config::default());
    for octet in [7, 8, 8] {
        for number in 1..=2 {
            let place = Place::new(number, 2).unwrap();
            let data = &[octet; 100];
            let segment = Body::Data { is_acknowledged: true, polls: false, place, data };
            tell(&mut node, 3, PORTS, 1, segment);
        }
    }

    let received = node.stats().received;
    assert_eq!((received.messages, received.late), (2, 2), "{received:?}");
}

/// Answers to questions would be an amplifier if they had more octets than what was received.
#[test]
fn questions_pay_for_answers_too() {
    let mut node = node(Config::default());
    (2..=60).for_each(|number| tell(&mut node, 3, PORTS, 1, data(number, 60, false)));
    let ask = |node: &mut Sar| {
        tell(node, 3, PORTS, 1, Body::AckRequest { last_sent: 60 });
        let mut out = Vec::new();
        assert!(node.poll_transmit(NOW, &mut out).is_some());
        let Body::Partial { mask, .. } = Pdu::parse(&out).unwrap().body else { panic!() };
        (mask.highest_arrived(), out.len())
    };

    // Each question pays 12 octets, and its answer costs 20: so the octets of the segments last for 800 questions.
    let received = 59 * 112;
    let whole = (0..2_000).take_while(|_| ask(&mut node).0 == 60).count();
    assert!((received / 8 - 10..=received / 8 + 10).contains(&whole), "{whole}");
    assert!(ask(&mut node).1 <= 12);
}

#[test]
fn what_just_fits_into_the_room_for_reassembly_is_kept() {
    let mut config = Config::default();
    tell_all(&mut node(config), 0);
    let mut roomy = node(config);
    tell_all(&mut roomy, 3);
    config.limits.reassembly_octets =
        usize::try_from(roomy.stats().levels.reassembly_octets).unwrap();

    let mut node = node(config);
    tell_all(&mut node, 3);
    assert_eq!((node.stats().received.full, node.stats().received.evicted), (0, 0));
    tell(&mut node, 1, PORTS, 9, data(1, 3, false));
    assert!(node.stats().received.evicted > 0);
}

/// So many transfers with two of three segments each.
fn tell_all(node: &mut Sar, transfers: u16) {
    for serial in 0..transfers {
        (1..=2).for_each(|number| tell(node, 3, PORTS, serial, data(number, 3, false)));
    }
}

#[test]
fn octets_that_wait_are_counted_and_bounded() {
    let mut config = Config::default();
    (config.limits.waiting_octets, config.flow.transfers) = (1_000, 1);
    let mut node = node(config);
    let mut submit =
        |octets| node.submit(NOW, &message(octets), &[address(1)], Options::default()).is_ok();
    assert!(submit(50), "it is sent");

    assert_eq!([600, 401, 400, 1].map(&mut submit), [true, false, true, false]);

    assert_eq!(node.stats().levels.waiting_octets, 1_000);
}

#[test]
fn an_abort_of_a_destination_is_counted() {
    let mut node = node(Config::default());
    node.submit(NOW, &message(40), &[address(1)], Options::default()).unwrap();
    assert_eq!(sent(&mut node), 1);

    tell(&mut node, 1, PORTS.swapped(), 100, Body::AbortRequest { polls: false });

    let stats = node.stats();
    assert_eq!((stats.answered.aborts, stats.messages.aborted), (1, 1));
    assert_eq!((stats.levels.transfers, stats.levels.in_flight), (0, 0));
}

#[test]
fn who_has_acknowledged_is_known_and_answered_while_strangers_flood() {
    let mut node = node(Config::default());
    node.submit(NOW, &message(40), &[address(1), address(2)], Options::default()).unwrap();
    assert_eq!((sent(&mut node), node.stats().levels.peers), (2, 2));
    assert!(!node.has_answered(address(1)));
    tell(&mut node, 1, PORTS.swapped(), 100, Body::Complete { is_final: true });
    assert_eq!([1, 2].map(|it| node.has_answered(address(it))), [true, false]);
    for serial in 0..1_000 {
        tell(&mut node, 3, PORTS, serial, Body::AbortRequest { polls: true });
    }
    sent(&mut node);

    let answered = [1, 2].map(|from| {
        tell(&mut node, from, PORTS, 5_000, Body::AbortRequest { polls: true });
        sent(&mut node)
    });

    assert_eq!(answered, [1, 0]);
}

#[test]
fn one_segment_that_is_too_long_is_counted_and_not_delivered() {
    let mut config = Config::default();
    config.limits.message = 99;
    let mut node = node(config);

    tell(&mut node, 3, PORTS, 1, data(1, 1, true));

    let received = node.stats().received;
    assert_eq!((received.messages, received.too_large), (0, 1));
}

#[test]
fn a_repair_of_a_message_that_would_be_too_long_is_odd() {
    let mut config = Config { coding: true, ..Config::default() };
    config.limits.message = 500;
    let mut node = node(config);
    let last = Place::new(10, 10).unwrap();
    let end = Body::Data { is_acknowledged: true, polls: false, place: last, data: &[7; 10] };
    tell(&mut node, 1, PORTS, 1, end);

    let cover = Cover { first: Place::new(1, 10).unwrap(), span: 10, number: 0, tail: 10 };
    tell(&mut node, 1, PORTS, 1, Body::Repair { polls: false, cover, symbol: &[7; 100] });

    assert_eq!(node.stats().received.odd, 1);
}

#[test]
fn a_repair_of_a_message_that_has_arrived_is_answered_by_that() {
    let mut node = node(Config { coding: true, ..Config::default() });
    (1..=2).for_each(|number| tell(&mut node, 1, PORTS, 1, data(number, 2, false)));
    sent(&mut node);

    let cover = Cover { first: Place::new(1, 2).unwrap(), span: 2, number: 0, tail: 100 };
    tell(&mut node, 1, PORTS, 1, Body::Repair { polls: true, cover, symbol: &[7; 100] });

    let mut out = Vec::new();
    assert!(node.poll_transmit(NOW, &mut out).is_some());
    assert_eq!(Pdu::parse(&out).unwrap().body, Body::Complete { is_final: true });
}

#[test]
fn repairs_that_wait_count_against_the_room_for_reassembly() {
    let mut node = node(Config { coding: true, ..Config::default() });
    tell(&mut node, 1, PORTS, 1, data(1, 8, false));
    let octets = |node: &Sar| node.stats().levels.reassembly_octets;
    let before = octets(&node);

    for number in 0..3 {
        let cover = Cover { first: Place::new(1, 8).unwrap(), span: 8, number, tail: 100 };
        let symbol = [7 + number.to_le_bytes()[0]; 100];
        tell(&mut node, 1, PORTS, 1, Body::Repair { polls: false, cover, symbol: &symbol });
    }

    assert!(octets(&node) >= before + 300, "{} before, {} now", before, octets(&node));
}

#[test]
fn a_driver_is_told_which_transfers_are_known_no_more() {
    let mut config = Config::default();
    config.limits.remembered = 3;
    let mut node = node(config);
    (1..=5).for_each(|serial| tell(&mut node, 3, PORTS, serial, data(1, 1, false)));

    let events = std::iter::from_fn(|| node.poll_event());
    let forgotten: Vec<u16> = events
        .filter_map(|event| match event {
            Event::Forgotten { serial, .. } => Some(serial),
            _ => None,
        })
        .collect();
    assert_eq!((forgotten, node.stats().received.forgotten), (vec![1, 2], 2));
}

/// By the standard's profiles a transfer begins with its first segment, and one that is given up is aborted.
#[test]
fn by_the_standards_profiles_who_comes_in_the_middle_or_stays_away_is_sent_an_abort() {
    for profile in [Profile::Basic, Profile::Enhanced] {
        let mut node = node(Config::of(profile));
        let aborts = |node: &mut Sar, now| {
            let mut out = Vec::new();
            let mut count = 0;
            while node.poll_transmit(now, &mut out).is_some() {
                let body = Pdu::parse(&out).unwrap().body;
                count += u32::from(body == Body::AbortRequest { polls: false });
            }
            count
        };
        tell(&mut node, 3, PORTS, 1, data(2, 3, true));
        assert_eq!((aborts(&mut node, NOW), node.stats().received.stray), (1, 1));

        tell(&mut node, 3, PORTS, 2, data(1, 3, false));
        let mut count = 0;
        while let Some(due) = node.next_timeout() {
            node.handle_timeout(due);
            count += aborts(&mut node, due);
        }
        assert_eq!((count, node.stats().received.given_up), (1, 1));
    }
}

/// RSCT.
#[test]
fn by_enhanced_each_second_segment_is_answered_unasked() {
    let mut node = node(Config::of(Profile::Enhanced));

    let answers: Vec<usize> = (1..=6)
        .map(|number| {
            tell(&mut node, 3, PORTS, 1, data(number, 9, false));
            sent(&mut node)
        })
        .collect();

    assert_eq!(answers, [0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_source_that_floods_costs_another_neither_its_transfers_nor_its_answers() {
    let mut config = Config::default();
    (config.limits.answers, config.limits.reassemblies) = (80, 64);
    (config.limits.message, config.limits.reassembly_octets) = (2_000, 64_000);
    let mut node = node(config);
    let flood = |node: &mut Sar| {
        for serial in 0..300 {
            tell(node, 3, PORTS, serial, data(1, 9, true));
            (2..=serial % 9).for_each(|number| tell(node, 3, PORTS, serial, data(number, 9, true)));
        }
    };
    flood(&mut node);
    tell(&mut node, 1, PORTS, 1, data(1, 3, false));
    (1..=2).for_each(|number| tell(&mut node, 1, PORTS, 2, data(number, 3, true)));
    flood(&mut node);

    let mut out = Vec::new();
    let to = std::iter::from_fn(|| node.poll_transmit(NOW, &mut out).map(|it| it.to));
    assert_eq!(to.filter(|to| *to == address(1)).count(), 1, "the answer about the second");
    (2..=3).for_each(|number| tell(&mut node, 1, PORTS, 1, data(number, 3, false)));
    tell(&mut node, 1, PORTS, 2, data(3, 3, false));
    assert_eq!(node.stats().received.messages, 2, "{:?}", node.stats().received);
}

#[test]
fn a_destination_of_cancelled_messages_is_forgotten_as_others_are() {
    let mut config = Config::default();
    config.limits.peers = 1;
    let mut node = node(config);
    let submit = |node: &mut Sar, to| {
        node.submit(NOW, &message(40), &[address(to)], Options::default()).unwrap()
    };
    let ids: Vec<_> = (0..20).map(|_| submit(&mut node, 1)).collect();
    assert_eq!(node.stats().levels.waiting, 12, "a stranger has eight at a time");
    ids.into_iter().rev().for_each(|id| assert_eq!(node.cancel(NOW, id), 1));

    submit(&mut node, 2);

    assert_eq!(node.stats().levels.peers, 1);
}

#[test]
fn without_coding_repairs_are_useless() {
    let mut node = node(Config::default());
    let cover = Cover { first: Place::new(1, 8).unwrap(), span: 8, number: 0, tail: 100 };
    tell(&mut node, 1, PORTS, 1, Body::Repair { polls: true, cover, symbol: &[7; 100] });

    assert_eq!((node.stats().received.repairs_useless, sent(&mut node)), (1, 0));
}

#[test]
fn repairs_pay_for_answers_too() {
    let mut node = node(Config { coding: true, ..Config::default() });
    tell(&mut node, 3, PORTS, 1, data(60, 60, false));
    for number in 0..10 {
        let cover = Cover { first: Place::new(1, 60).unwrap(), span: 60, number, tail: 100 };
        tell(&mut node, 3, PORTS, 1, Body::Repair { polls: false, cover, symbol: &[7; 100] });
    }

    // Each answer costs 8 octets more than its question pays.
    let mut out = Vec::new();
    let whole = (0..1_000).take_while(|_| {
        tell(&mut node, 3, PORTS, 1, Body::AckRequest { last_sent: 60 });
        assert!(node.poll_transmit(NOW, &mut out).is_some());
        let body = Pdu::parse(&out).unwrap().body;
        matches!(body, Body::Partial { mask, .. } if mask.highest_arrived() == 60)
    });
    let paid = 112 + 10 * 120;
    assert!((paid / 8 - 5..=paid / 8 + 5).contains(&whole.count()));
}

//! Connections, one thing at a time.

use std::time::Duration;

use base::rng::Rng;

use super::contract::opening;
use crate::hfpep::wire::MAGIC;
use crate::hfpep::{Config, Event, HfPep, SessionId};
use crate::slep::tests::bench::{Bench, Fate, NODES};
use crate::slep::{Addresses, NotOpened, Options, Reason, Slep, Source};

fn bench(config: &Config) -> Bench<HfPep> {
    let mut bench = Bench::new(config);
    bench.events(0);
    bench.events(1);
    bench
}

/// Lets the first end open a stream that begins with these octets, which need be no opening.
fn begin(bench: &mut Bench<HfPep>, octets: &[u8]) {
    let now = bench.now;
    let slep: &mut Slep = bench.ends[0].core.slep_mut();
    let opened = slep.open(now, NODES[1], Addresses::default(), Options::default());
    slep.write(opened.unwrap(), octets);
    bench.deliver();
}

#[test]
fn the_node_takes_u_pdus_while_there_is_a_connection_to_it() {
    let mut bench = bench(&Config::default());
    assert!(bench.ends[0].core.is_bound());
    bench.disconnect(0);
    assert!(!bench.ends[0].core.is_bound());
}

#[test]
fn a_stream_that_begins_with_something_else_is_reset_and_nobody_is_asked_to_connect() {
    let mut wrong = Vec::new();
    opening(7).emit(MAGIC, &mut wrong);
    wrong[1] |= 0x20;

    for octets in [&b"GET / HTTP/1.0\r\n"[..], &wrong, &[MAGIC, 0x06], &[MAGIC, 0x01]] {
        let mut bench = bench(&Config::default());
        begin(&mut bench, octets);

        assert_eq!(bench.events(1), [], "{octets:x?}");
        let stats = bench.ends[1].core.stats();
        assert_eq!((stats.openings_malformed, stats.sessions), (1, 0), "{octets:x?}");
        assert_eq!(bench.ends[0].core.slep().stats().live, 0, "the other end is told");
    }
}

#[test]
fn a_stream_without_a_whole_opening_is_reset_when_a_silent_node_would_be_given_up() {
    let mut bench = bench(&Config::default());
    begin(&mut bench, &[MAGIC, 0, 0, 7]);
    bench.pass(Duration::from_secs(890));
    bench.deliver();
    assert_eq!(bench.ends[1].core.stats().sessions, 1);

    bench.pass(Duration::from_secs(11));
    bench.deliver();

    let stats = bench.ends[1].core.stats();
    assert_eq!((stats.openings_missing, stats.sessions), (1, 0));
    assert_eq!(bench.events(1), [], "nobody has heard of it");
    assert_eq!(bench.ends[0].core.slep().stats().live, 0, "the other end is told");
}

#[test]
fn an_opening_in_two_parts_is_one() {
    let mut octets = Vec::new();
    opening(7).emit(MAGIC, &mut octets);
    let mut bench = bench(&Config::default());
    begin(&mut bench, &octets[..9]);
    assert_eq!(bench.events(1), []);

    let now = bench.now;
    let stream = crate::slep::StreamId(1);
    bench.ends[0].core.slep_mut().write(stream, &[&octets[9..], b"hello"].concat());
    bench.deliver();

    let events = bench.events(1);
    let [Event::Connect { session, from, opening: said }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((*from, said), (NODES[0], &opening(7)));
    let pep = &mut bench.ends[1].core;
    let mut heard = Vec::new();
    pep.accept(*session);
    pep.read(now, *session, &mut heard, usize::MAX);
    assert_eq!(heard, b"hello");
    assert_eq!(pep.next_timeout().map(|due| due > now + Duration::from_secs(1)), Some(true));
}

#[test]
fn more_connections_than_there_is_room_for_are_refused_at_both_ends() {
    let mut far = Config::default();
    far.slep.limits.streams = 3;
    let mut bench = bench(&far);
    let now = bench.now;
    let near = &mut bench.ends[0].core;
    for port in 1..=3 {
        near.open(now, NODES[1], opening(port), Options::default()).unwrap();
    }
    assert!(near.open(now, NODES[1], opening(4), Options::default()).is_err());

    // A peer that keeps to no limit: its streams are its own.
    let mut bench = self::bench(&Config::default());
    bench.disconnect(1);
    bench.ends[1].core = HfPep::new(bench.now, far, Rng::stream(9, "slep"));
    bench.connect(1);
    bench.deliver();
    bench.events(1);
    for _ in 0..5 {
        begin(&mut bench, &[MAGIC]);
    }

    let pep = &bench.ends[1].core;
    assert_eq!((pep.stats().sessions, pep.slep().stats().streams.refused), (3, 2));
    assert_eq!(bench.ends[0].core.slep().stats().live, 3, "the others were reset");
}

/// A connection of a source, with so many octets.
fn open_of(bench: &mut Bench<HfPep>, source: u128, port: u16, octets: usize) -> SessionId {
    let (now, pep) = (bench.now, &mut bench.ends[0].core);
    let options = Options { source: Source(source), ..Options::default() };
    let session = pep.open(now, NODES[1], opening(port), options).unwrap();
    assert_eq!(pep.write(now, session, &vec![7; octets]), octets);
    session
}

#[test]
fn one_client_leaves_places_for_others() {
    let mut config = Config::default();
    config.slep.limits.streams = 100;
    let mut bench = bench(&config);
    let (now, pep) = (bench.now, &mut bench.ends[0].core);
    let of = |source| Options { source: Source(source), ..Options::default() };
    let mut open = |source| {
        let opened = (0..200).map(|port| pep.open(now, NODES[1], opening(port), of(source)));
        opened.filter_map(Result::ok).collect::<Vec<_>>()
    };

    let counts = [1, 2, 3, 1].map(|source| open(source).len());

    assert_eq!(counts, [75, 19, 5, 0]);
    assert_eq!(pep.stats().sessions_over_share, 701);
    assert_eq!(pep.open(now, NODES[1], opening(1), of(4)).err(), None, "there is one left");
    assert_eq!(pep.open(now, NODES[1], opening(1), of(5)).err(), Some(NotOpened::Full));
    pep.reset(SessionId(1), Reason::CANCELLED);
    assert_eq!(pep.open(now, NODES[1], opening(1), of(1)).err(), Some(NotOpened::Share));
    assert!(pep.open(now, NODES[1], opening(1), of(6)).is_ok());
}

#[test]
fn one_client_with_many_connections_does_not_keep_another_waiting() {
    for (many, octets) in [(1, 240_000), (300, 8_000)] {
        let mut bench = bench(&Config::default());
        for port in 0..many {
            open_of(&mut bench, 1, 1_000 + port, octets);
        }
        bench.run();
        let ahead = bench.air.len();
        open_of(&mut bench, 2, 7, 6_000);
        bench.run();

        // What goes until all of it is there, while the first has a turn for each of its own.
        let (mut carried, mut session, mut heard) = (0, None, Vec::new());
        while heard.len() < 6_000 {
            bench.carry(0, Fate::Arrives);
            bench.run();
            carried += 1;
            let now = bench.now;
            for event in bench.events(1) {
                match event {
                    Event::Connect { session: its, opening, .. } if opening == self::opening(7) => {
                        session = Some(its);
                        bench.ends[1].core.accept(its);
                    }
                    Event::Connect { session: its, .. } => bench.ends[1].core.accept(its),
                    _ => {}
                }
            }
            if let Some(session) = session {
                bench.ends[1].core.read(now, session, &mut heard, usize::MAX);
            }
            assert!(
                carried < ahead + 30,
                "{many}: {carried} U_PDUs with {ahead} ahead, {}",
                heard.len()
            );
        }
    }
}

#[test]
fn what_one_client_opens_and_resets_costs_as_much_as_the_node_has_at_once() {
    let mut bench = bench(&Config::default());
    for port in 0..3_000 {
        let session = open_of(&mut bench, 1, port, 10);
        bench.run();
        bench.ends[0].core.reset(session, Reason::CANCELLED);
        bench.run();
    }
    let streams = bench.ends[0].core.slep().stats().streams;
    assert_eq!((streams.cancelled, streams.cancelled_unsent), (3_000, 2_968));
    assert_eq!(bench.air.len(), 64, "32 openings and their ends");
    // Another is not held up by these.
    open_of(&mut bench, 2, 7, 10);
    bench.run();
    assert_eq!(bench.air.len(), 65);

    // They are in the order in which they were said: none is left at the other end but the last.
    bench.deliver();
    let now = bench.now;
    for event in bench.events(1) {
        if let Event::Connect { session, .. } = event {
            bench.ends[1].core.accept(session);
            bench.ends[1].core.read(now, session, &mut Vec::new(), usize::MAX);
        }
    }
    assert_eq!(bench.ends[1].core.stats().sessions, 1);
    open_of(&mut bench, 1, 8, 10);
    bench.deliver();
    assert_eq!(bench.ends[1].core.stats().sessions, 2, "there is room again");
}

#[test]
fn openings_that_had_to_wait_follow_those_that_are_confirmed() {
    let mut bench = bench(&Config::default());
    for port in 0..100 {
        open_of(&mut bench, 1, port, 10);
    }
    bench.run();
    assert_eq!(bench.air.len(), 32);
    for (fate, left) in [(Fate::Arrives, 32), (Fate::Arrives, 32), (Fate::Fails, 31)] {
        bench.carry(0, fate);
        bench.run();
        assert_eq!(bench.air.len(), left, "{fate:?}");
    }
    bench.pass(Duration::from_secs(10));
    bench.deliver();

    assert_eq!(bench.ends[1].core.stats().sessions, 100);
}

#[test]
fn one_client_keeps_no_more_octets_than_its_share_and_goes_on_when_there_is_room() {
    let mut config = Config::default();
    config.slep.limits.sent = 1_000_000;
    let mut bench = bench(&config);
    bench.disconnect(0);
    let now = bench.now;
    let fill = |bench: &mut Bench<HfPep>, source| {
        let mut all = 0;
        let options = Options { source: Source(source), ..Options::default() };
        for port in 0..20 {
            let pep = &mut bench.ends[0].core;
            let session = pep.open(now, NODES[1], opening(port), options).unwrap();
            all += pep.write(now, session, &[7; 100_000]);
        }
        all
    };

    let [first, second] = [1, 2].map(|source| fill(&mut bench, source));
    assert!((100_000..=113_000).contains(&first), "{first}");
    assert!((90_000..=113_000).contains(&second), "{second}");
    bench.events(0);
    bench.connect(0);
    let mut writable = 0;
    for _ in 0..10 {
        bench.deliver();
        for event in bench.events(1) {
            if let Event::Connect { session, .. } | Event::Readable(session) = event {
                let now = bench.now;
                bench.ends[1].core.accept(session);
                bench.ends[1].core.read(now, session, &mut Vec::new(), usize::MAX);
            }
        }
        bench.pass(Duration::from_secs(100));
        let events = bench.events(0);
        writable += events.iter().filter(|it| matches!(it, Event::Writable(_))).count();
    }
    assert!(writable > 30, "{writable}");
}

#[test]
fn what_came_with_the_opening_is_read_though_the_stream_is_over() {
    for said in [&b""[..], b"all of it"] {
        let mut bench = bench(&Config::default());
        let now = bench.now;
        let near = &mut bench.ends[0].core;
        let client = near.open(now, NODES[1], opening(7), Options::default()).unwrap();
        near.write(now, client, said);
        near.finish(now, client);
        bench.deliver();
        let events = bench.events(1);
        let [Event::Connect { session, .. }] = events[..] else { panic!("{events:?}") };

        let far = &mut bench.ends[1].core;
        far.accept(session);
        far.finish(now, session);
        bench.deliver();
        bench.ends[0].core.read(now, client, &mut Vec::new(), usize::MAX);
        bench.deliver();
        assert_eq!(bench.events(1), [Event::Readable(session)], "not finished: it has not read");

        let mut heard = Vec::new();
        let read = bench.ends[1].core.read(now, session, &mut heard, usize::MAX);
        assert!(read.is_end && heard == said);
        bench.run();
        assert_eq!(bench.events(1), [Event::Finished(session)]);
        assert_eq!(bench.ends[1].core.stats().sessions, 0);
    }
}

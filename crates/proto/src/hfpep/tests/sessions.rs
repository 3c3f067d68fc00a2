//! Connections, one thing at a time.

use std::time::Duration;

use super::contract::opening;
use crate::hfpep::wire::MAGIC;
use crate::hfpep::{Config, Event, HfPep};
use crate::rng::Rng;
use crate::slep::tests::bench::{Bench, NODES};
use crate::slep::{Addresses, Options, Slep};

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

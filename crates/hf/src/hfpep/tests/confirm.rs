//! Connections whose target is confirmed before anything is said.

use super::contract::opening;
use crate::hfpep::answer::Answer;
use crate::hfpep::wire::MAGIC;
use crate::hfpep::{Config, Event, HfPep, Phase, SessionId};
use crate::slep::tests::bench::{Bench, NODES};
use crate::slep::{Addresses, Break, Options, Reason};

/// A connection that waits for its target, at both ends.
fn asked() -> (Bench<HfPep>, SessionId, SessionId) {
    let mut bench = Bench::<HfPep>::new(&Config::default());
    bench.events(0);
    bench.events(1);
    let now = bench.now;
    let near = &mut bench.ends[0].core;
    let client = near.open_confirmed(now, NODES[1], opening(7), Options::default()).unwrap();
    bench.deliver();
    let events = bench.events(1);
    let [Event::Connect { session, from, opening: said }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((*from, said), (NODES[0], &opening(7)), "without data, and at once");
    let session = *session;
    (bench, client, session)
}

#[test]
fn nothing_goes_before_the_far_end_has_said_that_the_target_is_there() {
    let (mut bench, client, session) = asked();
    let now = bench.now;
    let near = &mut bench.ends[0].core;
    let phases: Vec<Phase> = near.status(now).map(|it| it.phase).collect();
    assert_eq!(phases, [Phase::Confirming]);
    assert_eq!((near.write(now, client, b"early"), near.room(client)), (0, 0));

    let far = &mut bench.ends[1].core;
    far.accept(session);
    far.write(now, session, b"220 ready");
    bench.deliver();

    assert_eq!(bench.events(0), [Event::Accepted(client), Event::Readable(client)]);
    let near = &mut bench.ends[0].core;
    let mut heard = Vec::new();
    near.read(now, client, &mut heard, usize::MAX);
    assert_eq!(heard, b"220 ready");
    assert_eq!(near.write(now, client, b"HELO"), 4);
    assert_eq!(near.stats().sessions_confirmed, 1);
    assert_eq!(bench.ends[1].core.stats().sessions_received, 1);
    bench.deliver();
    let mut heard = Vec::new();
    bench.ends[1].core.read(now, session, &mut heard, usize::MAX);
    assert_eq!(heard, b"HELO");
}

#[test]
fn a_target_that_says_all_and_ends_is_heard_to_its_end() {
    let (mut bench, client, session) = asked();
    let now = bench.now;
    let far = &mut bench.ends[1].core;
    far.accept(session);
    far.finish(now, session);
    bench.deliver();

    assert_eq!(bench.events(0), [Event::Accepted(client), Event::Readable(client)]);
    let near = &mut bench.ends[0].core;
    assert!(near.read(now, client, &mut Vec::new(), usize::MAX).is_end);
    near.finish(now, client);
    bench.deliver();
    bench.ends[1].core.read(now, session, &mut Vec::new(), usize::MAX);
    bench.run();

    assert_eq!(bench.events(0), [Event::Finished(client)]);
}

#[test]
fn a_refusal_is_a_reset_with_its_reason() {
    let (mut bench, client, session) = asked();

    bench.ends[1].core.reset(session, Reason::TARGET_REFUSED);
    bench.deliver();

    assert_eq!(
        bench.events(0),
        [Event::Reset(client, Break { in_doubt: 14, ..broken(Reason::TARGET_REFUSED) })]
    );
    assert_eq!(bench.ends[0].core.stats().sessions, 0);
}

#[test]
fn an_answer_that_is_none_or_a_refusal_leaves_no_stream() {
    let refusal = Answer::Refused(Reason::TARGET_REFUSED).octets(MAGIC);

    for answer in [&refusal, b"220"] {
        let (bench, _) = hear(answer, false);

        assert_eq!(bench.ends[0].core.slep().stats().live, 0);
        assert_eq!(bench.ends[1].core.slep().stats().live, 0, "the other end is told");
    }
}

/// Lets the other end say these octets first.
fn hear(octets: &[u8], is_all: bool) -> (Bench<HfPep>, SessionId) {
    let (mut bench, client, session) = asked();
    let far = &mut bench.ends[1].core;
    let stream = far.stream(session).unwrap();
    far.slep_mut().write(stream, octets);
    if is_all {
        far.slep_mut().finish(stream);
    }
    bench.deliver();
    (bench, client)
}

#[test]
fn the_answer_is_that_between_gateways() {
    let (mut bench, client) = hear(&[MAGIC, 0, 0], false);
    assert_eq!(bench.events(0), [Event::Accepted(client)]);

    let (mut bench, client) = hear(&[MAGIC, 1, Reason::BLOCKED.0], false);
    assert_eq!(bench.events(0), [Event::Reset(client, broken(Reason::BLOCKED))]);

    for (octets, is_all) in [(&[MAGIC, 0, 1][..], false), (b"220 ready", false), (&[MAGIC], true)] {
        let (mut bench, client) = hear(octets, is_all);
        assert_eq!(
            bench.events(0),
            [Event::Reset(client, broken(Reason::PROTOCOL_ERROR))],
            "{octets:x?}"
        );
        let stats = bench.ends[0].core.stats();
        assert_eq!((stats.answers_malformed, stats.sessions), (1, 0), "{octets:x?}");
    }
}

#[test]
fn an_answer_in_two_parts_is_one() {
    let (mut bench, client) = hear(&[MAGIC, 0], false);
    assert_eq!(bench.events(0), []);

    let far = bench.ends[1].core.slep_mut();
    far.write(crate::slep::StreamId(1), &[0]);
    bench.deliver();

    assert_eq!(bench.events(0), [Event::Accepted(client)]);
}

#[test]
fn another_extended_address_is_nobodys() {
    let mut bench = Bench::<HfPep>::new(&Config::default());
    let now = bench.now;
    let near = bench.ends[0].core.slep_mut();
    near.open(now, NODES[1], Addresses { to: 2, from: 0 }, Options::default()).unwrap();
    bench.deliver();

    assert_eq!(bench.ends[0].core.slep().stats().live, 0, "it was reset");
    assert_eq!(bench.ends[1].core.stats().sessions_received, 0);
}

fn broken(reason: Reason) -> Break {
    Break { reason, in_doubt: 0 }
}

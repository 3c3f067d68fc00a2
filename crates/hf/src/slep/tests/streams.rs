//! Streams, one thing at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use super::bench::{Bench, Fate, NODES};
use crate::s5066::Address;
use crate::s5066::service::{Outcome, Request};
use crate::s5066::sis::spdu::SPdu;
use crate::s5066::sis::{self, Sap, Server};
use crate::slep::wire::{Credit, DEFLATE, Data, Hello, Open, Pdu, Ranges, State};
use crate::slep::{
    Addresses, Break, Config, Event, NotOpened, Options, Read, Reason, Source, StreamId, Waiting,
};

fn bench() -> Bench {
    let mut bench = Bench::new(&Config::default());
    bench.events(0);
    bench.events(1);
    bench
}

fn open(bench: &mut Bench, octets: &[u8]) -> StreamId {
    let addresses = Addresses { to: 3, from: 4 };
    let slep = &mut bench.ends[0].core;
    let id = slep.open(bench.now, NODES[1], addresses, Options::default()).unwrap();
    assert_eq!(slep.write(id, octets), octets.len());
    id
}

fn opened(bench: &mut Bench) -> StreamId {
    let events = bench.events(1);
    let Some(Event::Opened { stream, from, addresses }) = events.first() else {
        panic!("{events:?}");
    };
    assert_eq!((*from, *addresses), (NODES[0], Addresses { to: 3, from: 4 }));
    *stream
}

fn broken(reason: Reason, in_doubt: usize) -> Break {
    Break { reason, in_doubt }
}

fn read(bench: &mut Bench, at: usize, id: StreamId) -> (Vec<u8>, Read) {
    let mut out = Vec::new();
    let read = bench.ends[at].core.read(id, &mut out, usize::MAX);
    (out, read)
}

#[test]
fn a_pdu_of_a_later_version_is_counted_and_told_and_nothing_else_comes_of_it() {
    let mut bench = bench();

    // Version 0 is ours and the first; the two highest bits have room for three more.
    for version in 1..=3 {
        bench.say(1, &[version << 6, 0, 0]);
        bench.run();
    }
    bench.say(1, &[0x07]);
    bench.run();

    let versions: Vec<_> = bench
        .events(1)
        .into_iter()
        .map(|event| match event {
            Event::OtherVersion { node, version } => (node, version),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(versions, [1, 2, 3].map(|version| (NODES[0], version)));
    let received = bench.ends[1].core.stats().received;
    assert_eq!((received.received_other_version, received.received_malformed), (3, 1));
}

#[test]
fn a_request_and_its_answer_are_a_u_pdu_each_way_and_one_to_close() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.ends[0].core.finish(here);

    bench.run();
    assert_eq!(bench.air.len(), 1);
    // What answers at once need not be told of.
    hear(&mut bench, Fate::Arrives);
    let there = opened(&mut bench);
    assert_eq!(
        read(&mut bench, 1, there),
        (b"question".to_vec(), Read { octets: 8, is_end: true })
    );
    bench.ends[1].core.write(there, b"answer");
    bench.ends[1].core.finish(there);
    bench.run();
    assert_eq!(bench.air.len(), 1, "the answer, which tells that the question has come");
    bench.deliver();

    assert_eq!(bench.events(0), [Event::Accepted(here), Event::Readable(here)],);
    assert_eq!(read(&mut bench, 0, here), (b"answer".to_vec(), Read { octets: 6, is_end: true }));
    bench.deliver();
    assert_eq!(bench.events(0), [Event::Finished(here)]);
    assert!(bench.events(1).contains(&Event::Finished(there)));
    let stats = bench.ends[0].core.stats();
    assert_eq!((stats.live, stats.unacknowledged, stats.unread), (0, 0, 0));
    assert_eq!(stats.handed.u_pdus, 2);
}

#[test]
fn an_answer_that_fills_u_pdus_tells_that_the_question_has_come() {
    let mut bench = bench();
    open(&mut bench, b"question");
    bench.run();
    hear(&mut bench, Fate::Arrives);
    let there = opened(&mut bench);
    read(&mut bench, 1, there);

    bench.ends[1].core.write(there, &[7; 10_000]);
    bench.run();

    assert!(matches!(pdu(&bench.air[0].1), Pdu::Open(Open { credit: Some(_), .. })));
    let handed = bench.ends[1].core.stats().handed;
    assert_eq!((handed.u_pdus, handed.parts), (5, 5), "and nothing else has to");
}

#[test]
fn data_that_goes_at_once_tells_how_far_the_other_way_has_come() {
    for answers in [false, true] {
        let mut bench = Bench::new(&Config { window: 1_024, ..Config::default() });
        bench.events(1);
        let here = open(&mut bench, b"question");
        bench.deliver();
        let there = opened(&mut bench);
        bench.ends[1].core.write(there, b"answer");
        bench.deliver();
        for _ in 0..255 {
            bench.ends[0].core.write(here, b"more");
            bench.deliver();
            read(&mut bench, 1, there);
        }
        let before = bench.ends[1].core.stats().handed;

        // A quarter of what it may send has come.
        bench.ends[0].core.write(here, b"more");
        bench.run();
        hear(&mut bench, Fate::Arrives);
        read(&mut bench, 1, there);
        if answers {
            bench.ends[1].core.write(there, b"thanks");
        }
        bench.run();

        let after = bench.ends[1].core.stats().handed;
        assert_eq!(after.u_pdus - before.u_pdus, 1, "{answers}");
        assert_eq!(after.parts - before.parts, u64::from(answers));
    }
}

#[test]
fn short_parts_of_a_stream_that_are_sent_again_go_together() {
    let mut bench = bench();
    let streams = [b"first", b"other"].map(|octets| open(&mut bench, octets));
    bench.deliver();
    for _ in 0..3 {
        for stream in streams {
            bench.ends[0].core.write(stream, b"more");
            bench.run();
        }
    }
    for _ in 0..6 {
        bench.carry(0, Fate::Fails);
    }
    bench.run();
    bench.pass(Duration::from_secs(5));

    let names = bench.air.iter().map(|(_, request)| match pdu(request) {
        Pdu::Open(Open { stream, .. }) | Pdu::Data(Data { stream, .. }) => stream.number,
        other => panic!("{other:?}"),
    });
    let names: Vec<u16> = names.collect();
    assert_eq!(names.len(), 6);
    assert_eq!(names.chunk_by(|one, next| one == next).count(), 2, "{names:?}");
}

#[test]
fn that_an_end_has_come_is_told_by_the_last_that_goes_the_other_way() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.ends[0].core.finish(here);
    bench.deliver();
    let there = opened(&mut bench);

    let (_, read) = read(&mut bench, 1, there);
    bench.deliver();
    let before = bench.ends[1].core.stats().handed.u_pdus;
    bench.ends[1].core.finish(there);
    bench.deliver();

    assert!(read.is_end);
    assert_eq!([before, bench.ends[1].core.stats().handed.u_pdus], [0, 1]);
    assert_eq!(bench.ends[0].core.unacknowledged(here), 0);
}

#[test]
fn a_reset_tells_its_reason() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    bench.events(0);

    bench.ends[1].core.reset(there, Reason::TARGET_REFUSED);
    bench.deliver();

    assert_eq!(bench.events(0), [Event::Reset(here, broken(Reason::TARGET_REFUSED, 8))]);
    assert_eq!(bench.ends[0].core.stats().live + bench.ends[1].core.stats().live, 0);
}

#[test]
fn a_stream_that_is_cancelled_before_its_first_octet_is_sent_costs_nothing_on_the_air() {
    let mut bench = bench();
    let sent = |bench: &Bench| bench.ends[0].core.stats().handed;
    let before = sent(&bench);

    // Nothing was polled yet; the node is full; the node has given the first part back.
    for _ in 0..100 {
        let here = open(&mut bench, b"question");
        bench.ends[0].core.reset(here, Reason::CANCELLED);
    }
    bench.deliver();
    assert_eq!(sent(&bench), before);
    bench.disconnect(0);
    let here = open(&mut bench, b"question");
    bench.pass(Duration::from_secs(1));
    bench.ends[0].core.reset(here, Reason::CANCELLED);
    bench.connect(0);
    bench.deliver();
    assert_eq!(sent(&bench).u_pdus, before.u_pdus);
    let here = open(&mut bench, b"question");
    bench.run();
    bench.carry(0, Fate::Fails);
    bench.run();
    bench.ends[0].core.reset(here, Reason::CANCELLED);
    bench.pass(Duration::from_secs(600));
    bench.deliver();

    assert_eq!(sent(&bench).u_pdus, before.u_pdus + 1, "the part that the node gave back");
    assert_eq!(bench.events(1), []);
    let streams = bench.ends[0].core.stats().streams;
    assert_eq!((streams.cancelled, streams.cancelled_unsent), (102, 102));

    // One that may have arrived is told of.
    let here = open(&mut bench, b"question");
    bench.run();
    bench.ends[0].core.reset(here, Reason::CANCELLED);
    bench.deliver();
    let there = opened(&mut bench);
    read(&mut bench, 1, there);
    assert_eq!(bench.ends[1].core.stats().live, 0);
    assert_eq!(bench.ends[1].core.stats().streams.broken, 1);
}

#[test]
fn streams_survive_other_parameters_and_another_access_point() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    assert_eq!(read(&mut bench, 1, there).0, b"question");

    let mut other = Config { rank: 3, sap: Sap::new(9), ..Config::default() };
    other.limits.streams = 1;
    for at in [0, 1] {
        let now = bench.now;
        assert!(bench.ends[at].core.set_config(now, other.clone()), "it is to connect anew");
        assert!(!bench.ends[at].core.set_config(now, other.clone()));
        bench.disconnect(at);
        bench.connect(at);
    }
    bench.deliver();
    bench.ends[0].core.write(here, b" and more");
    bench.deliver();

    assert_eq!(read(&mut bench, 1, there).0, b" and more");
    let (now, slep) = (bench.now, &mut bench.ends[0].core);
    let opened = slep.open(now, NODES[1], Addresses::default(), Options::default());
    assert_eq!(opened, Err(NotOpened::Full));
}

#[test]
fn a_node_that_does_not_answer_is_tried_again_later_and_given_up_at_last() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.run();

    bench.carry(0, Fate::Fails);
    bench.run();
    assert!(bench.air.is_empty());
    bench.pass(Duration::from_secs(5));
    assert_eq!(bench.air.len(), 1);
    while bench.ends[0].core.stats().live > 0 {
        bench.carry(0, Fate::Fails);
        let due = bench.next_timeout().unwrap();
        bench.now = due;
        bench.run();
    }

    let waited = bench.now.since(base::time::Time::ZERO) - Duration::from_secs(1_000);
    assert!((900..1_100).contains(&waited.as_secs()), "{waited:?}");
    assert_eq!(bench.events(0), [Event::Reset(here, broken(Reason::UNREACHABLE, 8))]);
}

#[test]
fn a_node_that_has_answered_is_tried_again_as_soon_as_after_the_first_failure() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.run();
    let fail = |bench: &mut Bench, seconds: u64| {
        bench.carry(0, Fate::Fails);
        bench.run();
        bench.pass(Duration::from_secs(seconds - 1));
        assert!(bench.air.is_empty(), "{seconds} s");
        bench.pass(Duration::from_secs(1));
        assert_eq!(bench.air.len(), 1, "{seconds} s");
    };
    for seconds in [5, 10, 20] {
        fail(&mut bench, seconds);
    }
    bench.deliver();

    bench.ends[0].core.write(here, b" and more");
    bench.run();
    fail(&mut bench, 5);
}

#[test]
fn a_stream_with_parts_too_long_for_the_node_that_has_come_is_broken_at_both_ends() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    read(&mut bench, 1, there);
    bench.events(0);
    bench.ends[0].core.write(here, &[7; 5_000]);
    bench.run();

    bench.restart_node(0, false);
    let config = sis::Config { mtu: 1_000, ..sis::Config::default() };
    bench.ends[0].server = Server::new(config, NODES[0]);
    bench.connect(0);
    bench.deliver();

    let ended = |events: Vec<Event>| events.into_iter().find(|it| matches!(it, Event::Reset(..)));
    assert_eq!(
        ended(bench.events(0)),
        Some(Event::Reset(here, broken(Reason::UNSPECIFIED, 5_000)))
    );
    assert_eq!(ended(bench.events(1)), Some(Event::Reset(there, broken(Reason::UNSPECIFIED, 0))));
    assert_eq!(bench.ends[0].core.stats().streams.broken, 1);
}

#[test]
fn a_stream_begun_late_waits_for_an_absent_node_as_long_as_any_other() {
    let mut bench = bench();
    let first = open(&mut bench, b"question");
    let start = bench.now;
    let mut later = None;
    let mut ended = Vec::new();
    while later.is_none() || bench.ends[0].core.stats().live > 0 {
        bench.run();
        while !bench.air.is_empty() {
            bench.carry(0, Fate::Fails);
        }
        if later.is_none() && bench.now.since(start) > Duration::from_secs(800) {
            later = Some(open(&mut bench, b"another"));
            continue;
        }
        bench.now = bench.next_timeout().unwrap();
        bench.run();
        ended.extend(bench.events(0).into_iter().map(|event| (bench.now.since(start), event)));
    }

    let [(at_first, Event::Reset(one, _)), (at_last, Event::Reset(two, _))] = ended[..] else {
        panic!("{ended:?}");
    };
    assert_eq!((one, Some(two)), (first, later));
    assert!((900..1_100).contains(&at_first.as_secs()), "{at_first:?}");
    assert!((1_700..1_950).contains(&at_last.as_secs()), "{at_last:?}");
}

#[test]
fn a_node_that_gives_a_sign_of_life_has_as_long_again() {
    let mut bench = bench();
    open(&mut bench, b"question");
    let fail = |bench: &mut Bench, seconds| {
        let end = bench.now + Duration::from_secs(seconds);
        while bench.now < end {
            bench.run();
            while !bench.air.is_empty() {
                bench.carry(0, Fate::Fails);
            }
            bench.run();
            bench.now = bench.next_timeout().map_or(end, |due| due.min(end));
        }
        bench.run();
    };

    fail(&mut bench, 800);
    bench.air.clear();
    let now = bench.now;
    bench.ends[1].core.announce(now, NODES[0]);
    bench.run();
    bench.carry(0, Fate::Arrives);
    fail(&mut bench, 800);
    assert_eq!(bench.ends[0].core.stats().live, 1);
    fail(&mut bench, 200);
    assert_eq!(bench.ends[0].core.stats().live, 0);
}

#[test]
fn an_absent_node_does_not_keep_a_source_from_opening_streams_to_others() {
    let mut bench = bench();
    let options = Options { source: Source(7), ..Options::default() };
    let open = |bench: &mut Bench, to| {
        let slep = &mut bench.ends[0].core;
        let id = slep.open(bench.now, to, Addresses::default(), options).unwrap();
        slep.write(id, b"question");
        bench.run();
    };
    for _ in 0..32 {
        open(&mut bench, Address::node(3));
    }
    open(&mut bench, NODES[1]);
    assert_eq!(bench.air.len(), 32, "a source has so many with the node at a time");

    for _ in 0..32 {
        bench.carry(0, Fate::Fails);
    }
    bench.run();

    assert_eq!(bench.air.iter().map(|(_, it)| it.to).collect::<Vec<_>>(), [NODES[1]]);
}

#[test]
fn a_source_that_has_no_room_yet_keeps_no_other_waiting() {
    let mut config = Config::default();
    config.limits.sent = 9_000;
    let mut bench = Bench::new(&config);
    // Of what may be kept, the first source has a ninth; of what a transfer leaves, the second has one.
    let open = |bench: &mut Bench, to, source| {
        let (slep, addresses) = (&mut bench.ends[0].core, Addresses { to: 3, from: 4 });
        let options = Options { source, ..Options::default() };
        slep.open(bench.now, to, addresses, options).unwrap()
    };
    let absent = Address::node(3);
    let first = open(&mut bench, absent, Source(1));
    let transfer = open(&mut bench, NODES[1], Source::NOBODY);
    let second = open(&mut bench, absent, Source(2));
    for (id, octets) in [(first, 2_000), (transfer, 4_000), (second, 2_000)] {
        bench.ends[0].core.write(id, &vec![7; octets]);
    }
    bench.run();
    bench.events(0);

    bench.ends[0].core.reset(transfer, Reason::CANCELLED);
    bench.run();

    assert_eq!(bench.events(0), [Event::Writable(second)]);
}

#[test]
fn a_client_whose_node_refuses_it_asks_again_ever_later() {
    let mut bench: Bench = Bench::unconnected([Config::default(), Config::default()]);
    let config = sis::Config { is_broadcast_only: true, ..sis::Config::default() };
    bench.ends[0].server = Server::new(config, NODES[0]);
    bench.connect(0);
    bench.run();

    for seconds in [1, 2, 4] {
        let events = bench.events(0);
        assert!(matches!(events[..], [Event::Refused(_)]), "{events:?}");
        bench.pass(Duration::from_millis(seconds * 1_000 - 1));
        assert_eq!(bench.events(0), []);
        bench.pass(Duration::from_millis(1));
        bench.run();
    }
}

#[test]
fn a_stream_takes_so_much_that_no_part_has_yet() {
    let mut config = Config::default();
    config.limits.unsent = 1_000;
    let mut bench = Bench::new(&config);
    bench.events(0);
    let here = open(&mut bench, &[7; 600]);
    let slep = &mut bench.ends[0].core;

    assert_eq!((slep.write(here, &[7; 600]), slep.room(here)), (400, 0));
    bench.run();
    assert!(bench.events(0).contains(&Event::Writable(here)));
    assert_eq!(bench.ends[0].core.room(here), 1_000);
}

#[test]
fn what_the_far_client_lost_is_sent_again_when_it_is_back() {
    let mut bench = bench();
    let here = open(&mut bench, b"one ");
    bench.deliver();
    let there = opened(&mut bench);
    bench.ends[0].core.write(here, b"two");
    bench.run();
    bench.carry(0, Fate::Arrives);
    bench.run_to_nodes();

    bench.disconnect(1);
    bench.connect(1);
    bench.deliver();

    assert_eq!(read(&mut bench, 1, there).0, b"one two");
}

#[test]
fn an_opening_in_doubt_is_not_taken_by_a_process_that_came_later() {
    let mut bench = bench();
    let here = open(&mut bench, b"pay once");
    bench.run();
    bench.carry(0, Fate::MayHave(true));
    bench.run();
    let there = opened(&mut bench);
    assert_eq!(read(&mut bench, 1, there).0, b"pay once");

    bench.pass(Duration::from_secs(1));
    bench.restart(1);
    for _ in 0..4 {
        bench.deliver();
        bench.pass(Duration::from_secs(60));
    }

    let events = bench.events(1);
    assert!(!events.iter().any(|event| matches!(event, Event::Opened { .. })), "{events:?}");
    assert_eq!(bench.events(0), [Event::Reset(here, broken(Reason::RESTARTED, 8))]);
}

#[test]
fn an_opening_in_doubt_goes_again_to_a_process_that_was_there_before() {
    let mut bench = bench();
    bench.pass(Duration::from_secs(10));
    let here = open(&mut bench, b"pay once");
    bench.run();
    bench.carry(0, Fate::MayHave(false));

    for _ in 0..4 {
        bench.deliver();
        bench.pass(Duration::from_secs(60));
    }

    let there = opened(&mut bench);
    assert_eq!(read(&mut bench, 1, there).0, b"pay once");
    assert_eq!(bench.events(0).first(), Some(&Event::Accepted(here)));
}

#[test]
fn an_opening_that_may_still_come_is_not_sent_again() {
    let mut bench = bench();
    bench.pass(Duration::from_secs(10));
    let here = open(&mut bench, b"pay once");
    bench.run();
    bench.disconnect(0);
    bench.connect(0);
    bench.run();
    // The node that has the opening has not sent it; the question and its answer overtake it.
    while bench.air.len() > 1 {
        bench.carry(1, Fate::Arrives);
        bench.run();
    }

    assert_eq!(bench.events(0), [Event::Bound, Event::Reset(here, broken(Reason::RESTARTED, 8))]);
    bench.deliver();
    let there = opened(&mut bench);
    read(&mut bench, 1, there);
    // When it asks whether the stream is still there, it is told that it is not.
    bench.pass(Duration::from_secs(900));
    bench.deliver();
    assert_eq!(bench.ends[1].core.stats().live, 0);
}

#[test]
fn an_exchange_overtakes_a_bulk_transfer() {
    let mut bench = bench();
    let bulk = open(&mut bench, &vec![7; 200_000]);
    bench.deliver();
    bench.ends[0].core.write(bulk, &vec![7; 200_000]);
    let here = open(&mut bench, b"question");

    bench.run();

    // All of it is with the node, which orders by priority.
    let waiting = bench.ends[0].core.status(bench.now);
    let waiting: Vec<_> = waiting.map(|status| (status.stream, status.waits_for)).collect();
    assert_eq!(waiting[1], (here, Waiting::Confirmation));
    let raised = bench.air.iter().filter(|(_, request)| request.priority == 5).count();
    assert!((1..=4).contains(&raised), "{raised}");
}

#[test]
fn an_exchange_goes_to_a_node_that_has_all_the_bulk_it_may_have() {
    let mut bench = Bench::new(&Config { node_window: (4 << 10, 16 << 10), ..Config::default() });
    let bulk = open(&mut bench, &vec![7; 200_000]);
    bench.deliver();
    bench.ends[0].core.write(bulk, &vec![7; 200_000]);
    bench.run();
    let (stats, given) = (bench.ends[0].core.stats(), bench.air.len());
    assert!(stats.unconfirmed >= stats.window, "{stats:?}");

    open(&mut bench, b"question");
    bench.run();

    assert_eq!(bench.air.len(), given + 1);
    assert_eq!(bench.air.back().map(|(_, request)| request.priority), Some(5));
}

#[test]
fn an_exchange_overtakes_a_transfer_that_compression_makes_small() {
    let mut bench = bench();
    let options = Options { is_compressed: true, ..Options::default() };
    let bulk = {
        let slep = &mut bench.ends[0].core;
        slep.open(bench.now, NODES[1], Addresses::default(), options).unwrap()
    };
    bench.deliver();
    for page in 0..40 {
        let text: String =
            (0..60).map(|line| format!("{} {line}\n", page * line * 7_919)).collect();
        bench.ends[0].core.write(bulk, text.as_bytes());
        bench.run();
    }
    let longest = bench.air.iter().map(|(_, request)| request.s_pdu.len()).max();
    assert!(longest.is_some_and(|longest| longest < 1_000), "{longest:?}");

    open(&mut bench, b"question");
    bench.run();

    assert_eq!(bench.air.back().map(|(_, request)| request.priority), Some(5));
}

#[test]
fn a_stream_with_nothing_in_its_way_is_not_raised() {
    let mut bench = bench();
    let alone = open(&mut bench, &[7; 20_000]);
    bench.run();
    let all_alike = bench.air.iter().all(|(_, request)| request.priority == 4);
    bench.deliver();
    bench.ends[0].core.write(alone, b"and more, after a pause");
    bench.run();

    assert!(all_alike && bench.air.iter().all(|(_, request)| request.priority == 4));
}

#[test]
fn thousands_of_streams_beside_a_bulk_transfer_all_come_to_their_end() {
    const STREAMS: usize = 9_999;
    let mut bench = bench();
    bench.pass(Duration::from_secs(10));
    let bulk = open(&mut bench, &[7; 200_000]);
    bench.run();
    let mut asking = BTreeSet::new();
    for at in 0..STREAMS {
        let id = open(&mut bench, format!("question {at}").as_bytes());
        bench.ends[0].core.finish(id);
        asking.insert(id);
    }

    let mut answered = 0;
    while !asking.is_empty() {
        bench.run();
        assert!(!bench.air.is_empty(), "{} are stalled", asking.len());
        for _ in 0..64 {
            bench.carry(0, Fate::Arrives);
        }
        bench.run();
        for event in bench.events(1) {
            let (Event::Readable(id) | Event::Opened { stream: id, .. }) = event else { continue };
            if read(&mut bench, 1, id).1.is_end {
                bench.ends[1].core.write(id, b"answer");
                bench.ends[1].core.finish(id);
            }
        }
        for event in bench.events(0) {
            match event {
                Event::Readable(id) => {
                    answered += usize::from(read(&mut bench, 0, id).0 == b"answer");
                }
                Event::Finished(id) => assert!(asking.remove(&id)),
                Event::Accepted(_) => {}
                Event::Writable(id) if id == bulk => {
                    bench.ends[0].core.write(id, &[7; 10_000]);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(answered, STREAMS);
}

/// Octets of the S_PDU that opens a compressed stream with this text, which the other end then answers.
fn octets_of_opening(bench: &mut Bench, text: &str) -> usize {
    let options = Options { is_compressed: true, ..Options::default() };
    let slep = &mut bench.ends[0].core;
    let here = slep.open(bench.now, NODES[1], Addresses { to: 3, from: 4 }, options).unwrap();
    slep.write(here, text.as_bytes());
    bench.run();
    let octets = bench.air.back().map(|(_, request)| request.s_pdu.len()).unwrap();
    bench.deliver();
    let there = opened(bench);
    assert_eq!(read(bench, 1, there).0, text.as_bytes());
    bench.ends[1].core.set_options(there, options);
    bench.ends[1].core.write(there, text.as_bytes());
    bench.deliver();
    assert_eq!(read(bench, 0, here).0, text.as_bytes());
    octets
}

#[test]
fn the_dictionary_is_used_with_an_end_that_has_said_that_it_has_it() {
    let text = "GET /status HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\
                Accept: text/html,application/xhtml+xml\r\nAccept-Language: en-US,en;q=0.5\r\n\r\n";
    let mut bench = bench();

    let unknown = octets_of_opening(&mut bench, text);
    let known = octets_of_opening(&mut bench, text);
    let hello = Hello { is_question: false, epoch: 7, uptime: 1, accepts: DEFLATE };
    let mut u_pdu = Vec::new();
    Pdu::Hello(hello).emit(&mut u_pdu);
    bench.say(0, &u_pdu);
    bench.run();
    let without = octets_of_opening(&mut bench, text);

    assert!(known < unknown / 2, "{known} of {unknown}");
    assert!(without >= unknown, "another process has said that it has none: {without}");
}

#[test]
fn a_stream_that_is_not_compressed_for_a_while_goes_on_as_it_was_coded() {
    let text =
        "GET /status HTTP/1.1\r\nHost: www.example.org\r\nAccept: text/html\r\n\r\n".repeat(4);
    let mut bench = bench();
    octets_of_opening(&mut bench, &text);
    let here = open(&mut bench, b"");

    for is_compressed in [true, false, true, false, true] {
        let options = Options { is_compressed, ..Options::default() };
        bench.ends[0].core.set_options(here, options);
        bench.ends[0].core.write(here, text.as_bytes());
        bench.deliver();
    }

    let there = opened(&mut bench);
    assert_eq!(read(&mut bench, 1, there).0, text.repeat(5).as_bytes());
    let coded = bench.ends[0].core.status_of(bench.now, here).unwrap().traffic.sent;
    assert!(coded < text.len() as u64 * 3, "{coded}");
}

#[test]
fn only_so_many_streams_have_state_for_compression() {
    const STREAMS: usize = 600;
    let mut bench = bench();
    let text =
        |at: usize, turn: usize| format!("stream {at}, turn {turn}, again and again\n").repeat(30);
    let slep = &mut bench.ends[0].core;
    let options = Options { is_compressed: true, ..Options::default() };
    let open = |_| slep.open(bench.now, NODES[1], Addresses::default(), options).unwrap();
    let streams: Vec<StreamId> = (0..STREAMS).map(open).collect();

    let mut most = 0;
    for turn in 0..3 {
        for (at, id) in streams.iter().enumerate() {
            let text = text(at, turn);
            assert_eq!(bench.ends[0].core.write(*id, text.as_bytes()), text.len());
        }
        bench.deliver();
        most = most.max(bench.ends[0].core.coders());
    }

    let opened = bench.events(1);
    let opened = opened.iter().filter_map(|event| match event {
        Event::Opened { stream, .. } => Some(*stream),
        _ => None,
    });
    for (at, id) in opened.collect::<Vec<_>>().into_iter().enumerate() {
        let all = (0..3).map(|turn| text(at, turn)).collect::<String>();
        assert_eq!(read(&mut bench, 1, id).0, all.as_bytes());
    }
    assert!((1..=256).contains(&most), "{most}");
    let handed = bench.ends[0].core.stats().handed.octets;
    assert!(handed < STREAMS as u64 * 3 * 300, "{handed}: it is compressed all the same");
}

#[test]
fn a_reset_behind_what_was_written_is_told_when_the_other_end_has_it_and_has_read_it() {
    for len in [10, 100_000] {
        let mut bench = bench();
        let here = open(&mut bench, b"question");
        bench.deliver();
        let there = opened(&mut bench);
        let said: Vec<u8> = (0..len).map(|at: u32| at.to_le_bytes()[0]).collect();

        bench.ends[1].core.write(there, &said);
        let now = bench.now;
        bench.ends[1].core.reset_behind(now, there, Reason::CONNECTION_RESET);
        let late = bench.ends[1].core.write(there, b"more");
        bench.deliver();

        assert_eq!(late, 0);
        assert_eq!(bench.events(1), [], "for its user it is no more");
        assert_eq!(bench.ends[1].core.stats().live, 0, "nothing waits for time to pass");
        let before: Vec<Event> = bench.events(0);
        assert!(!before.iter().any(|it| matches!(it, Event::Reset(..))), "{before:?}");
        assert_eq!(read(&mut bench, 0, here), (said, Read { octets: len as usize, is_end: false }));
        bench.run();
        let told = bench.events(0);
        assert_eq!(told, [Event::Reset(here, broken(Reason::CONNECTION_RESET, 0))]);
    }
}

#[test]
fn a_reset_behind_what_is_lost_on_the_way_comes_behind_its_repetition() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);

    bench.ends[1].core.write(there, &[7; 10_000]);
    let now = bench.now;
    bench.ends[1].core.reset_behind(now, there, Reason::CONNECTION_RESET);
    bench.run();
    // The node says that two parts have arrived, and its client has lost them.
    bench.carry(0, Fate::MayHave(false));
    bench.carry(1, Fate::Fails);
    for _ in 0..20 {
        bench.deliver();
        let due = bench.next_timeout();
        bench.now = due.filter(|_| bench.ends[1].core.stats().live > 0).unwrap_or(bench.now);
    }

    let (heard, _) = read(&mut bench, 0, here);
    bench.run();
    assert_eq!(heard, [7; 10_000]);
    assert!(bench.events(0).contains(&Event::Reset(here, broken(Reason::CONNECTION_RESET, 0))));
}

#[test]
fn who_takes_nothing_is_not_waited_for_without_end() {
    // Of those before a break, the user here; of those behind which a stream is left, the other end.
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    bench.events(0);
    bench.ends[1].core.write(there, b"answer");
    let now = bench.now;
    bench.ends[1].core.reset_behind(now, there, Reason::CONNECTION_RESET);
    bench.deliver();

    bench.pass(Duration::from_secs(59));
    let early = bench.events(0);
    bench.pass(Duration::from_secs(2));

    assert!(!early.iter().any(|it| matches!(it, Event::Reset(..))), "{early:?}");
    assert_eq!(bench.events(0), [Event::Reset(here, broken(Reason::CONNECTION_RESET, 0))]);
    let stats = bench.ends[0].core.stats();
    assert_eq!((stats.streams.unread_at_break, stats.unread, stats.live), (1, 0, 0));

    let left = open(&mut bench, b"to nobody");
    bench.run();
    let now = bench.now;
    bench.ends[0].core.reset_behind(now, left, Reason::CONNECTION_RESET);
    for _ in 0..200 {
        while !bench.air.is_empty() {
            bench.carry(0, Fate::MayHave(false));
        }
        let Some(due) = bench.next_timeout() else { break };
        bench.now = due;
        bench.run();
    }
    assert_eq!(bench.ends[0].core.stats().live, 0);
    assert!(bench.now.since(now) < Duration::from_secs(3_000), "{:?}", bench.now.since(now));
}

#[test]
fn who_is_left_behind_has_as_long_again_with_each_part_that_comes() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    bench.ends[1].core.write(there, b"answer");
    bench.deliver();
    let end = &mut bench.ends[0].core;
    end.write(here, &[7; 6_000]);
    end.reset_behind(bench.now, here, Reason::CONNECTION_RESET);
    let epoch = end.epoch();
    bench.run();
    let (Pdu::Open(Open { stream, .. }) | Pdu::Data(Data { stream, .. })) = pdu(&bench.air[0].1)
    else {
        panic!("{:?}", bench.air)
    };

    // The node says nothing. The other end has the third of these parts, and not the first.
    bench.pass(Duration::from_secs(800));
    let third = [Ranges::octets(3, 1)];
    let state = State {
        is_question: false,
        is_answer: false,
        has_heard: true,
        epoch,
        stream: stream.turned(),
        credit: Credit { next: 1, limit: 100 },
        ranges: Ranges::new(&third),
    };
    let mut u_pdu = Vec::new();
    Pdu::State(state).emit(&mut u_pdu);
    bench.say(0, &u_pdu);
    bench.run();
    bench.pass(Duration::from_secs(800));
    assert_eq!(bench.ends[0].core.stats().live, 1);
    bench.pass(Duration::from_secs(200));
    assert_eq!(bench.ends[0].core.stats().live, 0);
}

#[test]
fn what_the_node_was_not_given_yet_costs_nothing_when_its_user_leaves() {
    let mut bench = bench();
    let here = open(&mut bench, &[7; 100_000]);

    let now = bench.now;
    bench.ends[0].core.reset_behind(now, here, Reason::CONNECTION_RESET);
    bench.run();

    let stats = bench.ends[0].core.stats();
    assert_eq!((stats.live, stats.unacknowledged, stats.handed.u_pdus), (0, 0, 0));
}

#[test]
fn a_process_that_tells_of_itself_ends_what_others_have_with_the_one_before() {
    for (is_heard, is_asked) in [(true, false), (true, true), (false, false)] {
        let mut bench = bench();
        let here = open(&mut bench, b"question");
        bench.deliver();
        if is_asked {
            // It is heard of by a word that does not tell which process has it.
            bench.disconnect(0);
            bench.connect(0);
            bench.deliver();
        }
        if is_heard {
            let there = opened(&mut bench);
            bench.ends[1].core.write(there, b"answer");
            bench.deliver();
            read(&mut bench, 0, here);
        }
        bench.events(0);

        bench.pass(Duration::from_secs(5));
        bench.restart(1);
        bench.deliver();
        assert_eq!(bench.events(0), [], "nobody has said anything");
        let now = bench.now;
        bench.ends[1].core.announce(now, NODES[0]);
        bench.deliver();
        bench.pass(Duration::from_secs(1));
        bench.deliver();

        let events = bench.events(0);
        let [Event::Reset(id, Break { reason, .. })] = events[..] else { panic!("{events:?}") };
        assert_eq!((id, reason), (here, Reason::RESTARTED), "{is_heard} {is_asked}");
    }
}

#[test]
fn streams_with_a_process_that_has_a_successor_are_broken_by_the_first_word_of_that() {
    for restarted in [0, 1] {
        let mut bench = bench();
        // Whose answer tells which process is there.
        let first = open(&mut bench, b"question");
        bench.deliver();
        let there = opened(&mut bench);
        bench.ends[1].core.write(there, b"answer");
        bench.deliver();
        // To which nothing is answered.
        let second = open(&mut bench, b"upload");
        bench.deliver();
        bench.events(0);
        let opened = bench.events(1);

        let predecessor = bench.ends[restarted].core.epoch();
        bench.pass(Duration::from_secs(5));
        bench.restart(restarted);
        let now = bench.now;
        bench.ends[restarted].core.succeed(predecessor);
        bench.ends[restarted].core.announce(now, NODES[1 - restarted]);
        bench.run();
        bench.carry(0, Fate::Arrives);
        bench.run();

        let reset = bench.events(1 - restarted);
        let reset = reset.iter().filter(|event| {
            matches!(event, Event::Reset(_, Break { reason: Reason::RESTARTED, .. }))
        });
        // The server has not read the questions, and the client has not read the answer.
        let unread = if restarted == 0 { 2 } else { 1 };
        assert_eq!(reset.count() + unread, 2, "{first:?} {second:?} {opened:?}");
        let live: Vec<_> = bench.ends[1 - restarted].core.companions().collect();
        assert_eq!(live, [], "{restarted}");
        // Nobody is asked: there is but an answer to the word.
        assert_eq!(bench.air.len(), 1, "{:?}", bench.air);
    }
}

#[test]
fn what_may_have_gone_with_a_process_is_asked_before_data_of_the_node() {
    let mut bench = bench();
    let first = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    bench.ends[1].core.write(there, b"answer");
    bench.deliver();
    bench.events(0);

    bench.pass(Duration::from_secs(5));
    bench.restart(1);
    let now = bench.now;
    // Of its predecessor it knows nothing.
    bench.ends[1].core.announce(now, NODES[0]);
    bench.run();
    bench.carry(0, Fate::Arrives);
    bench.run();
    bench.ends[0].core.write(first, b"more");
    bench.run();

    let priorities = bench.air.iter().map(|(from, request)| (*from, request.priority));
    assert_eq!(priorities.collect::<Vec<_>>(), [(0, 15), (0, 15), (0, 4)]);
}

#[test]
fn a_stream_of_another_process_at_the_node_asks_for_those_that_may_have_gone() {
    let mut bench = bench();
    let first = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    bench.ends[1].core.write(there, b"answer");
    bench.deliver();
    read(&mut bench, 0, first);
    bench.events(0);

    bench.pass(Config::default().times.keep_alive - Duration::from_secs(1));
    bench.restart(1);
    let (now, slep) = (bench.now, &mut bench.ends[1].core);
    let other = slep.open(now, NODES[0], Addresses::default(), Options::default()).unwrap();
    slep.write(other, b"of another");
    bench.run();
    bench.carry(0, Fate::Arrives);
    bench.run();
    bench.pass(Duration::from_secs(2));
    let asked = bench.ends[0].core.stats().handed.asked;
    assert_eq!(asked, 1, "although nothing was heard for long");
    bench.deliver();

    let events = bench.events(0);
    assert!(events.contains(&Event::Reset(first, broken(Reason::RESTARTED, 0))), "{events:?}");
}

#[test]
fn an_opening_that_is_confirmed_behind_the_word_of_a_successor_is_broken_without_a_question() {
    let mut bench = bench();
    let first = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    bench.ends[1].core.write(there, b"answer");
    bench.deliver();
    read(&mut bench, 0, first);
    let second = open(&mut bench, b"upload");
    bench.run();
    // It arrives, of which the node hears with what comes back.
    let (_, request) = bench.air.pop_front().unwrap();
    bench.indicate(1, request.mode, request.s_pdu.clone());
    bench.run();
    bench.events(0);

    let predecessor = bench.ends[1].core.epoch();
    bench.pass(Duration::from_secs(5));
    bench.restart(1);
    let now = bench.now;
    bench.ends[1].core.succeed(predecessor);
    bench.ends[1].core.announce(now, NODES[0]);
    bench.run();
    bench.carry(0, Fate::Arrives);
    bench.run();
    bench.ends[0].server.handle_outcome(bench.now, request.id, Outcome::Done);
    bench.run();
    let at_once: Vec<_> = bench.events(0);
    bench.pass(Duration::from_secs(1));

    let ended = |event: &Event| match event {
        Event::Reset(id, Break { reason: Reason::RESTARTED, .. }) => Some(*id),
        _ => None,
    };
    assert_eq!(at_once.iter().filter_map(ended).collect::<Vec<_>>(), [first, second]);
    // There is but the answer to the word.
    assert_eq!(bench.air.len(), 1, "{:?}", bench.air);
}

#[test]
fn what_a_successor_cannot_use_is_taken_back_and_an_opening_is_made_for_it() {
    let mut bench = bench();
    bench.gives_back = true;
    let first = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    bench.ends[1].core.write(there, b"answer");
    bench.deliver();
    read(&mut bench, 0, first);
    // Nothing of all this is on the air yet.
    bench.ends[0].core.write(first, &[7; 10_000]);
    let second = open(&mut bench, b"upload");
    bench.ends[0].core.write(second, &[7; 5_000]);
    bench.run();
    assert!(bench.air.len() > 7, "{:?}", bench.air);
    bench.events(0);

    let predecessor = bench.ends[1].core.epoch();
    bench.pass(Duration::from_secs(5));
    bench.restart(1);
    let now = bench.now;
    bench.ends[1].core.succeed(predecessor);
    bench.ends[1].core.announce(now, NODES[0]);
    bench.run();
    let word = bench.air.len() - 1;
    bench.carry(word, Fate::Arrives);
    bench.run();

    assert!(matches!(bench.events(0)[..], [Event::Reset(id, _)] if id == first));
    let waiting: usize = bench.air.iter().map(|(_, request)| request.s_pdu.len()).sum();
    assert!(waiting < 6_000, "{waiting} octets");
    bench.events(1);
    bench.deliver();
    let there = opened(&mut bench);
    assert_eq!(read(&mut bench, 1, there).0.len(), 5_006);
    bench.deliver();
    assert_eq!(bench.events(0), [], "it goes on");
}

#[test]
fn after_the_loss_of_a_node_the_other_end_gets_nothing_that_it_has() {
    let mut bench = bench();
    let first = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    bench.ends[1].core.write(there, b"answer");
    bench.deliver();
    read(&mut bench, 0, first);
    bench.ends[0].core.write(first, &[7; 10_000]);
    bench.run();
    // Two of five parts arrive, of which nobody hears.
    for _ in 0..2 {
        let (_, request) = bench.air.pop_front().unwrap();
        bench.indicate(1, request.mode, request.s_pdu);
    }
    bench.run_to_nodes();
    bench.restart_node(0, false);
    bench.connect(0);
    bench.run();

    assert!(bench.air.iter().all(|(_, request)| request.s_pdu.len() < 100), "{:?}", bench.air);
    let before = bench.ends[1].core.stats().received.parts_again;
    bench.deliver();
    assert_eq!(read(&mut bench, 1, there).0.len(), 10_008);
    assert_eq!(bench.ends[1].core.stats().received.parts_again, before);
}

#[test]
fn parts_of_a_lost_node_are_repeated_though_nobody_says_what_has_come() {
    let mut bench = bench();
    let first = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    bench.ends[1].core.write(there, b"answer");
    bench.deliver();
    read(&mut bench, 0, first);
    bench.ends[0].core.write(first, &[7; 1_000]);
    bench.run();
    bench.restart_node(0, false);
    bench.connect(0);
    bench.run();
    // The question is confirmed, and not answered.
    while let Some((from, request)) = bench.air.pop_front() {
        bench.ends[from].server.handle_outcome(bench.now, request.id, Outcome::Done);
    }

    bench.pass(Config::default().times.ask_after + Duration::from_secs(1));

    assert!(bench.air.iter().any(|(_, request)| request.s_pdu.len() > 1_000), "{:?}", bench.air);
}

#[test]
fn late_words_of_a_process_with_a_successor_neither_bring_it_back_nor_open_anything() {
    let mut bench = bench();
    let first = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    bench.ends[1].core.write(there, b"answer");
    bench.deliver();
    read(&mut bench, 0, first);
    // The node of the process that ends has more of it: parts of an answer, and a stream of its own.
    bench.ends[1].core.write(there, &[7; 5_000]);
    let now = bench.now;
    let opened_there =
        bench.ends[1].core.open(now, NODES[0], Addresses::default(), Options::default());
    bench.ends[1].core.write(opened_there.unwrap(), b"of no use");
    bench.run();
    let late: Vec<_> = std::mem::take(&mut bench.air).into();
    bench.events(0);

    let predecessor = bench.ends[1].core.epoch();
    bench.restart(1);
    bench.ends[1].core.succeed(predecessor);
    bench.ends[1].core.announce(now, NODES[0]);
    bench.deliver();
    let reset = bench.events(0);
    for (_, request) in late {
        bench.indicate(0, request.mode, request.s_pdu);
    }
    bench.run();
    bench.events(1);

    assert!(matches!(reset[..], [Event::Reset(id, _)] if id == first), "{reset:?}");
    assert_eq!(bench.events(0), [], "nobody is left to go on with a stream");
    let core = &bench.ends[0].core;
    assert_eq!((core.stats().live, core.stats().received.parts_stray), (0, 1));
    // Nobody is told what its successor cannot know.
    assert_eq!(bench.air.len(), 0, "{:?}", bench.air);
    // The next stream is for the successor.
    let next = open(&mut bench, b"once more");
    bench.deliver();
    let there = opened(&mut bench);
    assert_eq!(read(&mut bench, 1, there).0, b"once more");
    assert_eq!(bench.ends[0].core.stats().handed.rejected, 0, "{next:?}");
}

#[test]
fn a_process_that_draws_the_number_of_one_that_has_ended_is_heard_again_after_a_while() {
    let mut bench = bench();
    let first = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    bench.ends[1].core.write(there, b"answer");
    bench.deliver();
    read(&mut bench, 0, first);
    let ended = bench.ends[1].core.epoch();
    for predecessor in [ended, ended.wrapping_sub(1)] {
        bench.restart(1);
        bench.ends[1].core.succeed(predecessor);
        let now = bench.now;
        bench.ends[1].core.announce(now, NODES[0]);
        bench.deliver();
    }
    bench.events(0);

    bench.pass(Config::default().times.give_up + Duration::from_secs(1));
    bench.deliver();
    let now = bench.now;
    let opened_there =
        bench.ends[1].core.open(now, NODES[0], Addresses::default(), Options::default());
    bench.ends[1].core.write(opened_there.unwrap(), b"hello");
    bench.deliver();

    assert_eq!(bench.ends[1].core.epoch(), ended);
    let events = bench.events(0);
    assert!(events.iter().any(|event| matches!(event, Event::Opened { .. })), "{events:?}");
}

#[test]
fn a_question_about_an_opening_is_not_forgotten_while_its_node_is_waited_for() {
    let mut bench = bench();
    let here = open(&mut bench, b"upload");
    bench.deliver();
    bench.events(0);
    bench.pass(Duration::from_secs(5));
    bench.restart(1);
    let now = bench.now;
    bench.ends[1].core.announce(now, NODES[0]);
    bench.run();
    bench.carry(0, Fate::Arrives);
    bench.run();

    // Something fails meanwhile, so that nothing is sent to the node for 5 s.
    bench.ends[0].core.write(here, b"more");
    bench.run();
    while !bench.air.is_empty() {
        bench.carry(0, Fate::Fails);
    }
    bench.run();
    for _ in 0..30 {
        bench.pass(Duration::from_secs(1));
        bench.deliver();
    }

    let events = bench.events(0);
    assert!(matches!(events[..], [Event::Reset(id, _)] if id == here), "{events:?}");
}

#[test]
fn what_no_client_took_goes_to_the_next_one_at_once_if_that_has_spoken() {
    for has_spoken in [true, false] {
        let mut bench = bench();
        bench.disconnect(1);
        for at in [0, 1] {
            bench.ends[at].server.handle_introduced(NODES[1 - at], true);
        }
        open(&mut bench, b"question");
        bench.run();
        bench.carry(0, Fate::Arrives);
        bench.run();
        assert_eq!(bench.air.len(), 1, "nobody is bound there");
        if has_spoken {
            bench.connect(1);
            let now = bench.now;
            bench.ends[1].core.announce(now, NODES[0]);
            bench.run();
            bench.carry(1, Fate::Arrives);
            bench.run();
        }
        bench.carry(0, Fate::Arrives);
        bench.run();

        let goes_again = bench.air.iter().any(|(from, request)| {
            *from == 0 && request.s_pdu.windows(8).any(|octets| octets == b"question")
        });
        assert_eq!(goes_again, has_spoken, "{:?}", bench.air);
    }
}

#[test]
fn an_opening_for_a_process_that_is_remembered_goes_to_no_other() {
    for is_there in [true, false] {
        let mut bench = bench();
        let process = bench.ends[1].core.epoch();
        if !is_there {
            bench.restart(1);
            bench.run();
            bench.events(1);
        }
        let now = bench.now;
        bench.ends[0].core.recall(now, NODES[1], process);
        let here = open(&mut bench, b"question");
        bench.deliver();

        // The other process says that it is another one, and gets it anew.
        let there = opened(&mut bench);
        let repaired = bench.ends[0].core.stats().handed.parts_repaired;
        assert_eq!(read(&mut bench, 1, there).0, b"question");
        assert_eq!(bench.ends[0].core.status_of(bench.now, here).map(|it| it.peer), Some(NODES[1]));
        assert_eq!(repaired, 0);
    }
}

#[test]
fn nobody_is_told_of_a_process_for_ever() {
    let mut bench = bench();
    let now = bench.now;
    bench.ends[1].core.announce(now, NODES[0]);
    bench.run();

    let mut tries = 0;
    while tries < 1_000 {
        while !bench.air.is_empty() {
            bench.carry(0, Fate::Fails);
            tries += 1;
        }
        bench.run();
        let Some(due) = bench.next_timeout() else { break };
        bench.now = bench.now.max(due);
        bench.run();
    }

    assert!((5..30).contains(&tries), "{tries}");
}

#[test]
fn an_end_that_is_held_is_not_over_for_the_other_end_until_it_is_confirmed() {
    for is_confirmed_first in [true, false] {
        let mut bench = bench();
        let here = open(&mut bench, b"question");
        bench.ends[0].core.finish(here);
        bench.deliver();
        let there = opened(&mut bench);
        bench.ends[1].core.hold_end(there);
        let heard = read(&mut bench, 1, there);
        if is_confirmed_first {
            bench.ends[1].core.confirm_end(there);
        }
        bench.ends[1].core.write(there, b"answer");
        bench.ends[1].core.finish(there);
        bench.deliver();
        let told = read(&mut bench, 0, here);
        bench.pass(Duration::from_secs(130));
        bench.deliver();

        assert_eq!(heard, (b"question".to_vec(), Read { octets: 8, is_end: true }));
        assert_eq!(told, (b"answer".to_vec(), Read { octets: 6, is_end: true }));
        let has_finished = bench.events(0).contains(&Event::Finished(here));
        assert_eq!(has_finished, is_confirmed_first);
        if !is_confirmed_first {
            assert_eq!(bench.ends[0].core.stats().handed.parts_repaired, 0, "it came");
            bench.ends[1].core.confirm_end(there);
            bench.deliver();
            assert_eq!(bench.events(0), [Event::Finished(here)]);
        }
        assert!(bench.events(1).contains(&Event::Finished(there)));
    }
}

#[test]
fn unreadable_octets_of_the_node_are_told_once() {
    let mut bench = bench();
    let now = bench.now;

    // An expedited U_PDU, cut off.
    bench.ends[0].core.handle_octets(now, &[0x90, 0xeb, 0, 0, 4, 25, 0x1f, 0xe0, 0x0a]);

    assert!(bench.ends[0].core.poll_unreadable().is_some());
    assert_eq!(bench.ends[0].core.poll_unreadable(), None);
}

#[test]
fn a_reader_is_told_once_that_there_is_more() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);

    bench.ends[0].core.write(here, b" and more");
    bench.deliver();
    assert_eq!(bench.events(1), [], "it has not read the first");
    assert_eq!(read(&mut bench, 1, there).0, b"question and more");
    bench.ends[0].core.write(here, b", at last");
    bench.deliver();

    assert_eq!(bench.events(1), [Event::Readable(there)]);
}

#[test]
fn a_part_without_room_waits_with_its_sender_until_what_came_is_read() {
    let mut config = Config::default();
    config.limits.received = 1_000;
    let mut bench: Bench = Bench::new(&config);
    bench.events(1);
    open(&mut bench, &[7; 10_000]);
    bench.deliver();
    let there = opened(&mut bench);
    let stats = bench.ends[1].core.stats();
    assert!(stats.received.parts_full > 0 && stats.unread <= 2_048, "{stats:?}");

    let mut octets = 0;
    for _ in 0..100 {
        octets += read(&mut bench, 1, there).1.octets;
        bench.pass(Duration::from_secs(10));
        bench.deliver();
    }

    assert_eq!(octets, 10_000);
}

#[test]
fn what_is_sent_again_is_counted_once() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    let sent = |bench: &Bench| {
        let core = &bench.ends[0].core;
        let traffic = core.status_of(bench.now, here).unwrap().traffic;
        (core.stats().handed.u_pdus, traffic.sent)
    };
    bench.run();
    assert_eq!(sent(&bench), (1, 8));

    bench.carry(0, Fate::Fails);
    bench.run();
    bench.pass(Duration::from_secs(5));
    bench.deliver();

    assert_eq!(sent(&bench), (2, 8));
}

#[test]
fn an_answer_goes_on_without_an_introduction_once_the_other_end_has_gone_on() {
    let mut bench = bench();
    let here = open(&mut bench, b"question");
    bench.deliver();
    let there = opened(&mut bench);
    let mut kinds = Vec::new();
    for (at, id) in [(1, there), (1, there), (0, here), (1, there)] {
        bench.ends[at].core.write(id, b"more");
        bench.run();
        kinds.push(last_kind(&bench));
        hear(&mut bench, Fate::MayHave(true));
    }

    assert_eq!(kinds, ["open", "open", "data", "data"]);
}

#[test]
fn an_exchange_overtakes_a_bulk_transfer_the_other_way() {
    // Compressed, a page is a few hundred octets.
    let page: String = (0..400).map(|line| format!("{} {line}\n", line * 7_919)).collect();
    for (octets, is_compressed) in [(&[7; 20_000][..], false), (page.as_bytes(), true)] {
        let mut bench = bench();
        let here = open(&mut bench, b"download");
        bench.deliver();
        let there = opened(&mut bench);
        bench.ends[1].core.set_options(there, Options { is_compressed, ..Options::default() });
        bench.ends[1].core.write(there, octets);
        bench.deliver();
        assert!(read(&mut bench, 0, here).1.octets > 0);

        open(&mut bench, b"question");
        bench.run();

        let last = bench.air.back().map(|(from, request)| (*from, request.priority));
        assert_eq!(last, Some((0, 5)), "{is_compressed}");
    }
}

#[test]
fn a_node_that_speaks_is_tried_again_at_once() {
    let mut bench = bench();
    open(&mut bench, b"question");
    bench.run();
    bench.carry(0, Fate::Fails);
    bench.run();
    assert!(bench.air.is_empty());

    let now = bench.now;
    bench.ends[1].core.announce(now, NODES[0]);
    bench.run();
    bench.carry(0, Fate::Arrives);
    bench.run();

    assert!(bench.air.iter().any(|(from, _)| *from == 0), "{:?}", bench.air);
}

#[test]
fn late_words_of_the_process_before_the_last_open_nothing() {
    let mut bench = bench();
    let (now, first) = (bench.now, bench.ends[1].core.epoch());
    bench.ends[1].core.announce(now, NODES[0]);
    bench.deliver();
    let opened = bench.ends[1].core.open(now, NODES[0], Addresses::default(), Options::default());
    bench.ends[1].core.write(opened.unwrap(), b"of no use");
    bench.run();
    let late: Vec<_> = std::mem::take(&mut bench.air).into();
    for predecessor in [first, first.wrapping_add(1)] {
        bench.restart(1);
        bench.ends[1].core.succeed(predecessor);
        bench.ends[1].core.announce(now, NODES[0]);
        bench.deliver();
    }
    bench.events(0);

    for (_, request) in late {
        bench.indicate(0, request.mode, request.s_pdu);
    }
    bench.run();

    assert_eq!(bench.events(0), []);
}

/// The oldest in the air comes to the other end, which says nothing of it yet.
fn hear(bench: &mut Bench, fate: Fate) {
    let at = 1 - bench.air[0].0;
    bench.carry(0, fate);
    bench.run_to_nodes();
    let socket = std::mem::take(bench.socket(at));
    bench.ends[at].core.handle_octets(bench.now, &socket);
    bench.run_events(at);
}

/// What the PDU that went into the air last is.
fn last_kind(bench: &Bench) -> &'static str {
    let (_, request) = bench.air.back().expect("something is in the air");
    match pdu(request) {
        Pdu::Open(_) => "open",
        Pdu::Data(_) => "data",
        _ => "another",
    }
}

fn pdu(request: &Request) -> Pdu<'_> {
    let Ok(SPdu::Data(data)) = SPdu::parse(&request.s_pdu) else {
        panic!("{request:?} is no data")
    };
    Pdu::parse(data.u_pdu).unwrap()
}

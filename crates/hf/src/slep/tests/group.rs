//! Streams between members of a group, and what strangers can do to them.

use std::time::Duration;

use super::bench::{Bench, Fate, NODES};
use crate::s5066::Address;
use crate::s5066::seal::{self, Key, Member, Notice, OVERHEAD, Refusal, Trouble};
use crate::s5066::service::{Indication, Mode};
use crate::s5066::sis::Sap;
use crate::s5066::sis::spdu::{Data, SPdu};
use crate::slep::{Addresses, Config, Event, Options, StreamId};

/// A member of the group whose secret is this octet, 32 times.
pub(crate) fn member(own: Address, group: u8) -> seal::Config {
    seal::Config {
        key: Key::new(&[group; 32]),
        own,
        unauthenticated: [].into(),
        clock: Duration::from_secs(1_790_000_000),
    }
}

/// Two ends of one group.
pub(crate) fn members(config: &Config) -> [Config; 2] {
    NODES.map(|own| Config { group: Some(member(own, 1)), ..config.clone() })
}

fn group(group: u8) -> [Config; 2] {
    NODES.map(|own| Config { group: Some(member(own, group)), ..Config::default() })
}

fn open(bench: &mut Bench, at: usize, octets: &[u8]) -> StreamId {
    let slep = &mut bench.ends[at].core;
    let to = NODES[1 - at];
    let id = slep.open(bench.now, to, Addresses::default(), Options::default()).unwrap();
    assert_eq!(slep.write(id, octets), octets.len());
    id
}

fn opened(bench: &mut Bench, at: usize) -> Option<StreamId> {
    bench.events(at).iter().find_map(|event| match event {
        Event::Opened { stream, .. } => Some(*stream),
        _ => None,
    })
}

fn troubles(bench: &mut Bench, at: usize) -> Vec<Trouble> {
    let node = NODES[1 - at];
    let troubles = bench.events(at).into_iter().filter_map(|event| match event {
        Event::Sealing { node: its, trouble } => {
            assert_eq!(its, node);
            Some(trouble)
        }
        _ => None,
    });
    troubles.collect()
}

fn seals(bench: &Bench, at: usize) -> crate::s5066::sis::client::Seals {
    bench.ends[at].core.client_stats().seals
}

fn u_pdu(s_pdu: &[u8]) -> Vec<u8> {
    match SPdu::parse(s_pdu) {
        Ok(SPdu::Data(data)) => data.u_pdu.to_vec(),
        other => panic!("{other:?} is no data"),
    }
}

#[test]
fn members_exchange_streams_and_each_u_pdu_is_twelve_octets_longer() {
    let [mut plain, mut sealed]: [Bench; 2] = [Bench::new(&Config::default()), Bench::of(group(1))];

    for bench in [&mut plain, &mut sealed] {
        let here = open(bench, 0, b"question");
        bench.ends[0].core.finish(here);
        bench.run();
    }

    let [before, after] = [&plain, &sealed].map(|bench| u_pdu(&bench.air[0].1.s_pdu).len());
    assert_eq!((before, after), (16, 16 + usize::from(OVERHEAD)));
    sealed.deliver();
    let there = opened(&mut sealed, 1).unwrap();
    let mut out = Vec::new();
    sealed.ends[1].core.read(there, &mut out, 100);
    assert_eq!(out, b"question");
    assert_eq!(troubles(&mut sealed, 1), []);
    assert_eq!((seals(&sealed, 0).sealed, seals(&plain, 0).sealed), (1, 0));
    assert_eq!(seals(&sealed, 1).opened, 1);
}

/// A long U_PDU has less in it instead.
#[test]
fn no_u_pdu_is_longer_than_the_mtu() {
    let mut bench: Bench = Bench::of(group(1));
    assert_eq!(bench.ends[0].core.mtu(), 2_048 - OVERHEAD);
    open(&mut bench, 0, &[7; 10_000]);
    bench.run();

    let longest = bench.air.iter().map(|(_, request)| u_pdu(&request.s_pdu).len()).max();
    assert_eq!(longest, Some(2_048));
    bench.deliver();
    let there = opened(&mut bench, 1).unwrap();
    let mut out = Vec::new();
    bench.ends[1].core.read(there, &mut out, 20_000);
    assert_eq!(out, [7; 10_000]);
}

#[test]
fn a_stranger_opens_nothing_and_both_are_told_once() {
    let [plain, _] = [Config::default(), Config::default()];
    let [_, member] = group(1);
    let mut bench: Bench = Bench::of([plain, member]);
    bench.events(0);
    bench.events(1);

    for _ in 0..3 {
        open(&mut bench, 0, b"let me in");
        bench.deliver();
    }

    assert_eq!(opened(&mut bench, 1), None);
    assert_eq!(seals(&bench, 1).unauthenticated, 3);
    assert_eq!(seals(&bench, 1).notices_sent, 1);
    assert_eq!(troubles(&mut bench, 0), [Trouble::Told(Notice::Unsealed)]);
    assert_eq!(bench.ends[1].core.stats().live, 0);
    // Ten minutes later it is told again.
    bench.pass(Duration::from_secs(600));
    open(&mut bench, 0, b"let me in");
    bench.deliver();
    assert_eq!(seals(&bench, 0).notices_received, 2);
}

#[test]
fn the_member_is_told_by_whom_it_is_not_understood() {
    let [member, other] = group(1);
    for (far, refused, told) in [
        (Config { group: None, ..other }, Refusal::Keyless, Notice::Keyless),
        (group(2)[1].clone(), Refusal::Forged, Notice::Forged),
    ] {
        let mut bench: Bench = Bench::of([member.clone(), far]);
        bench.events(0);

        open(&mut bench, 0, b"hello");
        bench.deliver();

        assert_eq!(troubles(&mut bench, 1), [Trouble::Refused(refused)]);
        assert_eq!(troubles(&mut bench, 0), [Trouble::Told(told)]);
        assert_eq!(bench.ends[1].core.stats().received.u_pdus, 0);
    }
}

#[test]
fn a_node_that_is_listed_needs_no_key() {
    let [mut member, other] = group(1);
    if let Some(group) = &mut member.group {
        group.unauthenticated.insert(NODES[1]);
    }
    let mut bench: Bench = Bench::of([member, Config { group: None, ..other }]);
    for at in [0, 1] {
        bench.events(at);
        open(&mut bench, at, b"hello");
        bench.deliver();
        assert!(opened(&mut bench, 1 - at).is_some());
    }
    assert_eq!(seals(&bench, 0).sealed, 0);
}

#[test]
fn what_is_repeated_on_the_air_or_sent_to_another_has_no_effect() {
    let mut bench: Bench = Bench::of(group(1));
    open(&mut bench, 0, b"order a pizza");
    bench.run();
    let (_, request) = bench.air[0].clone();
    let recorded = u_pdu(&request.s_pdu);
    bench.deliver();
    assert!(opened(&mut bench, 1).is_some());
    let taken = bench.ends[1].core.stats().streams.taken;

    for _ in 0..5 {
        bench.say(1, &recorded);
        bench.deliver();
    }

    assert_eq!(seals(&bench, 1).replayed, 5);
    assert_eq!(bench.ends[1].core.stats().streams.taken, taken);
    assert_eq!(troubles(&mut bench, 1), [Trouble::Refused(Refusal::Replayed); 5]);
    // Back to its sender, in the name of the other.
    bench.say(0, &recorded);
    bench.deliver();
    assert_eq!(troubles(&mut bench, 0), [Trouble::Refused(Refusal::Forged)]);
    // From a third node.
    let third = Address::node(3);
    let (from, to) = (third, NODES[1]);
    let mode = Mode::Arq { in_order: false };
    let (errored, missing) = (Vec::new(), Vec::new());
    let s_pdu = request.s_pdu;
    let indication = Indication { from, to, mode, is_expedited: false, s_pdu, errored, missing };
    bench.ends[1].server.handle_indication(bench.now, &indication);
    bench.run();
    assert_eq!(seals(&bench, 1).forged, 1);
    assert_eq!(bench.ends[1].core.stats().streams.taken, taken);
}

/// The binding with the node may change while all goes on.
#[test]
fn another_access_point_forgets_nothing_that_was_taken() {
    let mut bench: Bench = Bench::of(group(1));
    let config = group(1)[1].clone();
    // As a member would seal it for the other access point.
    let sap = Sap::new(12);
    let mut a = Member::new(member(NODES[0], 1));
    let hello = [0x50, 0, 7, 0, 0, 0, 1, 0];
    let sealed = a.seal(bench.now, sap, NODES[1], sap, &hello);
    let rebind = |bench: &mut Bench, number| {
        let config = Config { sap: Sap::new(number), ..config.clone() };
        assert!(bench.ends[1].core.set_config(bench.now, config));
        bench.disconnect(1);
        bench.connect(1);
        bench.run();
        bench.events(1);
    };
    let say = |bench: &mut Bench| {
        let (is_confirmed, ttd, id) = (false, None, None);
        let u_pdu = &sealed[..];
        let data = Data { priority: 4, from: sap, to: sap, is_confirmed, ttd, id, u_pdu };
        let mut s_pdu = Vec::new();
        SPdu::Data(data).emit(&mut s_pdu);
        bench.indicate(1, Mode::Arq { in_order: false }, s_pdu);
        bench.run();
    };
    rebind(&mut bench, 12);
    say(&mut bench);
    assert_eq!((seals(&bench, 1).opened, seals(&bench, 1).replayed), (1, 0));

    rebind(&mut bench, 11);
    rebind(&mut bench, 12);
    say(&mut bench);

    assert_eq!((seals(&bench, 1).opened, seals(&bench, 1).replayed), (1, 1));
}

#[test]
fn an_end_that_starts_again_is_heard_and_hears() {
    let mut bench: Bench = Bench::of(group(1));
    for (round, restarted) in [1, 0, 1, 0].into_iter().enumerate() {
        bench.now += Duration::from_secs(2);
        bench.restart(restarted);
        bench.deliver();
        for at in [0, 1] {
            bench.events(at);
            open(&mut bench, at, b"again");
            bench.deliver();
            let seals = [0, 1].map(|at| seals(&bench, at));
            let events: Vec<_> = bench.ends.iter().map(|it| it.events.clone()).collect();
            assert!(
                opened(&mut bench, 1 - at).is_some(),
                "round {round}, {at} {seals:?} {events:?}"
            );
        }
    }
    for at in [0, 1] {
        let seals = seals(&bench, at);
        assert_eq!((seals.forged, seals.replayed, seals.untimely), (0, 0, 0));
    }
}

/// Somebody records an opening, and sends it when its receiver has started again.
#[test]
fn an_opening_from_long_before_a_start_is_refused() {
    let mut bench: Bench = Bench::of(group(1));
    open(&mut bench, 0, b"once");
    bench.run();
    let recorded = u_pdu(&bench.air[0].1.s_pdu);
    bench.carry(0, Fate::MayHave(false));
    bench.run();
    bench.air.clear();
    bench.pass(Duration::from_secs(1_000));
    bench.restart(1);
    bench.run();
    bench.events(1);

    bench.say(1, &recorded);
    bench.run();

    // It was sealed 1,000 s before the start; 300 s are allowed.
    assert_eq!(seals(&bench, 1).untimely, 1);
    assert_eq!(opened(&mut bench, 1), None);
}

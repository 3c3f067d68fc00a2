//! Flows of UDP over datagrams of SLEP.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use crate::hfpep::flows::{self, Arrived, Client, NotCarried};
use crate::hfpep::{Config, Event, HfPep};
use crate::s5066::service::Mode;
use crate::s5066::sis::Sap;
use crate::s5066::sis::spdu::{Data, SPdu};
use crate::slep::tests::bench::{Bench, Fate, NODES};
use crate::slep::{Addresses, Delivery, Reason};

fn bench(config: &Config) -> Bench<HfPep> {
    let mut bench = Bench::new(config);
    bench.events(0);
    bench.events(1);
    bench
}

fn client(port: u16) -> Client {
    let address = ([10, 1, 0, 9], port).into();
    Client { peer: NODES[1], entrance: 0, address, target: ([10, 2, 0, 1], 53).into() }
}

fn send(
    bench: &mut Bench<HfPep>,
    port: u16,
    is_reliable: bool,
    data: &[u8],
) -> Result<(), NotCarried> {
    let delivery = Delivery { is_reliable, ..Delivery::default() };
    let sent = bench.ends[0].core.send_datagram(bench.now, client(port), delivery, data);
    bench.run();
    sent
}

fn arrived(bench: &mut Bench<HfPep>, at: usize) -> Vec<Arrived> {
    let (now, core) = (bench.now, &mut bench.ends[at].core);
    let arrived = std::iter::from_fn(|| core.poll_datagram(now)).collect();
    bench.run();
    arrived
}

/// The only message under way, without what the nodes have added.
fn on_the_air(bench: &Bench<HfPep>) -> &[u8] {
    let (1, Some((_, request))) = (bench.air.len(), bench.air.front()) else { panic!("{bench:?}") };
    let SPdu::Data(Data { u_pdu, .. }) = SPdu::parse(&request.s_pdu).unwrap() else { panic!() };
    u_pdu
}

#[test]
fn a_query_takes_nineteen_octets_more_than_it_has_and_its_answer_six() {
    let mut bench = bench(&Config::default());

    send(&mut bench, 7, false, b"query").unwrap();
    let query = on_the_air(&bench).to_vec();
    bench.deliver();
    let asked = arrived(&mut bench, 1);
    let [Arrived::Request { flow, .. }] = asked[..] else { panic!("{asked:?}") };
    let now = bench.now;
    bench.ends[1].core.answer(now, flow, b"answer").unwrap();
    bench.run();
    let answer = on_the_air(&bench).to_vec();
    bench.deliver();
    let told = arrived(&mut bench, 0);

    assert_eq!((query.len(), answer.len()), (19 + 5, 6 + 6));
    assert_eq!(&query[..3], [0x04, 2, 2], "an unreliable datagram between extended addresses");
    assert_eq!(answer[3..6], [query[3] | 0x20, query[4], query[5]]);
    assert_eq!(told, [Arrived::Answer { client: client(7), data: b"answer".to_vec() }]);
    assert!(bench.air.is_empty(), "nothing more is said");
}

#[test]
fn a_flow_that_is_not_admitted_is_told_so_and_asked_for_once_a_minute() {
    let mut bench = bench(&Config::default());
    send(&mut bench, 7, false, b"query").unwrap();
    bench.deliver();
    let asked = arrived(&mut bench, 1);
    let [Arrived::Request { flow, .. }] = asked[..] else { panic!("{asked:?}") };
    let now = bench.now;
    bench.ends[1].core.refuse(now, flow, Reason::BLOCKED);
    bench.deliver();
    assert_eq!(arrived(&mut bench, 0), []);

    assert_eq!(send(&mut bench, 7, false, b"query"), Err(NotCarried::Blocked(Reason::BLOCKED)));
    bench.pass(Duration::from_secs(60));
    assert_eq!(send(&mut bench, 7, false, b"query"), Ok(()));
}

#[test]
fn the_end_of_an_idle_flow_is_told() {
    let mut bench = bench(&Config::default());
    send(&mut bench, 7, false, b"query").unwrap();
    bench.deliver();
    let asked = arrived(&mut bench, 1);
    let [Arrived::Request { flow, .. }] = asked[..] else { panic!("{asked:?}") };

    bench.pass(Duration::from_secs(419));
    assert_eq!(bench.events(1), []);
    bench.pass(Duration::from_secs(1));

    assert_eq!(bench.events(1), [Event::FlowEnded(flow)]);
    // The client's datagram was worth sending for ten minutes.
    bench.pass(Duration::from_secs(480));
    assert_eq!(bench.ends[0].core.stats().flows.opened_here, 0);
}

#[test]
fn a_flow_that_has_too_much_waiting_leaves_room_for_others() {
    let flows = flows::Config { queue: 2_048, ..flows::Config::default() };
    let mut bench = bench(&Config { flows, ..Config::default() });
    bench.disconnect(0);

    let sent = (0..30).filter(|_| send(&mut bench, 7, false, &[7; 100]).is_ok()).count();

    // Header and a fixed sum for each.
    assert_eq!(sent, 2_048 / (100 + 16 + 64));
    assert_eq!(bench.ends[0].core.stats().flows.full, 30 - sent as u64);
    assert_eq!(send(&mut bench, 8, false, &[8; 100]), Ok(()));
    bench.connect(0);
    bench.deliver();
    assert_eq!(arrived(&mut bench, 1).len(), sent + 1);
    assert_eq!(send(&mut bench, 7, false, &[7; 100]), Ok(()), "what was sent makes room");
}

#[test]
fn datagrams_to_other_extended_addresses_are_for_nobody() {
    let mut bench = bench(&Config::default());
    let now = bench.now;
    for addresses in [Addresses::default(), Addresses { to: 2, from: 0 }] {
        let slep = bench.ends[0].core.slep_mut();
        slep.send_datagram(now, NODES[1], addresses, Delivery::default(), b"news").unwrap();
    }
    bench.deliver();

    assert_eq!(arrived(&mut bench, 1), []);
    assert_eq!(bench.ends[1].core.stats().datagrams_unwanted, 2);
}

#[test]
fn what_the_node_takes_no_more_after_it_was_bound_anew_is_dropped_and_holds_up_nothing() {
    let mut bench = bench(&Config::default());
    bench.disconnect(0);
    send(&mut bench, 7, false, &[7; 1_500]).unwrap();
    send(&mut bench, 8, false, b"short").unwrap();
    let small = crate::s5066::sis::Config { mtu: 1_000, ..Default::default() };
    bench.ends[0].server = crate::s5066::sis::Server::new(small, NODES[0]);
    bench.connect(0);
    bench.deliver();

    let asked = arrived(&mut bench, 1);

    let [Arrived::Request { data, .. }] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(data, b"short");
    assert_eq!(bench.ends[0].core.slep().stats().datagrams.expired, 1);
}

#[derive(Clone, Debug)]
enum Step {
    Carry(usize, Fate),
    Connect(usize),
    Disconnect(usize),
    RestartNode(usize, bool),
    Send(u16),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        6 => Just(Fate::Arrives),
        1 => Just(Fate::Fails),
        2 => any::<bool>().prop_map(Fate::MayHave),
    ];
    prop_oneof![
        12 => (0_usize..4, fate).prop_map(|(which, fate)| Step::Carry(which, fate)),
        3 => (0_usize..2).prop_map(Step::Connect),
        1 => (0_usize..2).prop_map(Step::Disconnect),
        1 => (0_usize..2, any::<bool>()).prop_map(|(end, came)| Step::RestartNode(end, came)),
        8 => (0_u16..3).prop_map(Step::Send),
        1 => (0_u64..400).prop_map(Step::Wait),
    ]
}

/// Lets targets answer, and notes what each datagram has come to: at the target, and as an answer.
fn look(bench: &mut Bench<HfPep>, seen: &mut BTreeMap<Vec<u8>, [u32; 2]>) {
    for arrived in arrived(bench, 1) {
        let Arrived::Request { flow, data, .. } = arrived else { panic!("{arrived:?}") };
        let now = bench.now;
        let _ = bench.ends[1].core.answer(now, flow, &data);
        seen.entry(data).or_default()[0] += 1;
    }
    for arrived in arrived(bench, 0) {
        let Arrived::Answer { client: asked, data } = arrived else { panic!("{arrived:?}") };
        assert_eq!(asked, client(u16::from(data[0])), "another client's");
        seen.entry(data).or_default()[1] += 1;
    }
    bench.run();
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn a_reliable_datagram_and_its_answer_come_once_whatever_nodes_and_the_air_do(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let flows = flows::Config { lifetime: Duration::from_secs(1_000_000), ..Default::default() };
        let mut bench = bench(&Config { flows, ..Config::default() });
        let delivery =
            Delivery { is_reliable: true, lifetime: flows.lifetime, ..Delivery::default() };
        let (mut seen, mut counted) = (BTreeMap::new(), 0_u32);
        for step in &steps {
            match *step {
                Step::Carry(which, fate) => bench.carry(which, fate),
                Step::Connect(end) => bench.connect(end),
                Step::Disconnect(end) => bench.disconnect(end),
                Step::RestartNode(end, came) => bench.restart_node(end, came),
                Step::Send(port) => {
                    counted += 1;
                    let data = [&port.to_le_bytes()[..], &counted.to_le_bytes()].concat();
                    let now = bench.now;
                    let sent = bench.ends[0].core.send_datagram(now, client(port), delivery, &data);
                    if sent.is_ok() {
                        seen.insert(data, [0, 0]);
                    }
                }
                Step::Wait(seconds) => bench.pass(Duration::from_secs(seconds)),
            }
            bench.run();
            look(&mut bench, &mut seen);
        }
        for _ in 0..60 {
            for end in [0, 1] {
                bench.connect(end);
            }
            bench.deliver();
            look(&mut bench, &mut seen);
            bench.pass(Duration::from_secs(130));
        }

        prop_assert!(seen.values().all(|times| *times == [1, 1]), "{seen:?}");
    }

    #[test]
    fn whatever_comes_as_a_datagram_is_survived(
        strays in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
    ) {
        let mut bench = bench(&Config::default());
        for stray in &strays {
            let (sap, u_pdu) = (Sap::new(13), [&[0x04, 2, 2][..], stray].concat());
            let (is_confirmed, ttd, id) = (false, None, None);
            let data =
                Data { priority: 4, from: sap, to: sap, is_confirmed, ttd, id, u_pdu: &u_pdu };
            let mut s_pdu = Vec::new();
            SPdu::Data(data).emit(&mut s_pdu);
            bench.indicate(1, Mode::Arq { in_order: false }, s_pdu);
            bench.deliver();
            arrived(&mut bench, 1);
        }
        let stats = bench.ends[1].core.stats().flows;
        prop_assert_eq!(stats.malformed + stats.requests + stats.unknown <= strays.len() as u64, true);
    }
}

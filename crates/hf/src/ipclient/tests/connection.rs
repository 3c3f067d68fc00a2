//! When the node refuses, unbinds or is gone.

use std::time::Duration;

use base::time::Time;

use super::{Bench, config, udp};
use crate::ipclient::{Config, Event, IpClient, Route};
use crate::s5066::service::Outcome;
use crate::s5066::sis::client::Fault;
use crate::s5066::sis::stream::Broken;
use crate::s5066::sis::{self, BindReason, NodeStatus, UnbindReason};

#[test]
fn a_client_is_bound_and_tells_its_mtu() {
    let mut bench =
        Bench::unconnected(config(), sis::Config { mtu: 1_500, ..sis::Config::default() });
    assert_eq!(bench.client.mtu(), 2_048);

    bench.connect();

    assert_eq!(bench.events, [Event::Bound { mtu: 1_500 }]);
    assert_eq!(bench.client.mtu(), 1_500);
    assert!(bench.client.is_bound());
}

#[test]
fn a_client_that_is_refused_asks_again_after_ever_longer_times() {
    let rebind = (Duration::from_secs(1), Duration::from_secs(4));
    let server = sis::Config { saps: 0, ..sis::Config::default() };
    let mut bench = Bench::unconnected(Config { rebind, ..config() }, server);
    bench.connect();
    let mut times = Vec::new();
    for _ in 0..4 {
        bench.now = bench.client.next_timeout().unwrap();
        times.push(bench.now.as_secs_f64());
        bench.client.handle_timeout(bench.now);
        bench.run();
    }

    assert_eq!(times, [1.0, 3.0, 7.0, 11.0]);
    assert_eq!(bench.events, [Event::Refused(BindReason::BAD_SAP); 5]);
}

#[test]
fn a_client_that_was_unbound_binds_again_and_sends_what_waits() {
    let mut bench = Bench::new(config());
    bench.send(&udp([10, 0, 2, 9], 0, 100));
    let other = bench.preempt();
    bench.send(&udp([10, 0, 2, 9], 0, 200));
    bench.server.handle_disconnected(bench.now, other);
    bench.now = bench.client.next_timeout().unwrap();
    bench.client.handle_timeout(bench.now);
    bench.run();

    let unbound = Event::Unbound(UnbindReason::PREEMPTED);
    assert_eq!(bench.events, [unbound, Event::Bound { mtu: 2_048 }]);
    assert_eq!(bench.client.stats().handed.forsaken, 1);
    assert_eq!(bench.requests().len(), 1);
    assert_eq!(bench.client.next_timeout(), None);
}

#[test]
fn a_lost_connection_forsakes_what_the_node_has_and_keeps_what_waits() {
    let mut bench = Bench::new(config());
    bench.send(&udp([10, 0, 2, 9], 0, 100));
    let id = bench.id.take().unwrap();
    bench.server.handle_disconnected(bench.now, id);
    bench.client.handle_disconnected(bench.now);
    bench.send(&udp([10, 0, 2, 9], 0, 200));
    assert!(!bench.client.is_bound());
    assert_eq!((bench.client.stats().handed.forsaken, bench.client.stats().unconfirmed), (1, 0));

    bench.connect();

    let requests = bench.requests();
    assert_eq!(requests.len(), 1);
    bench.outcome(&requests[0], Outcome::Done);
    assert_eq!(bench.client.stats().handed.confirmed, 1);
}

#[test]
fn a_node_that_cannot_be_read_is_left() {
    let mut bench = Bench::new(config());
    bench.client.handle_octets(bench.now, b"HTTP/1.1 400 Bad Request");

    let fault = Fault::Unreadable(Broken::Preamble(b'H', b'T'));
    assert_eq!(bench.client.poll_event(), Some(Event::Close(fault)));
    assert!(!bench.client.is_bound());
    assert_eq!((bench.client.fault(), bench.client.client_stats().invalid), (Some(fault), 1));

    let id = bench.id.take().unwrap();
    bench.server.handle_disconnected(bench.now, id);
    bench.client.handle_disconnected(bench.now);
    bench.connect();
    assert!(bench.client.is_bound());
    assert_eq!(bench.client.fault(), None);
}

#[test]
fn a_node_that_does_not_answer_is_left() {
    let mut client = IpClient::new(Time::ZERO, config());
    client.handle_connected(Time::ZERO);
    let until = client.next_timeout().unwrap();

    client.handle_timeout(until);

    let event = client.poll_event();
    assert!(matches!(event, Some(Event::Close(Fault::BindUnanswered { .. }))), "{event:?}");
}

#[test]
fn a_radio_is_off_from_when_the_node_says_so_until_it_says_otherwise_or_the_binding_ends() {
    let mut bench = Bench::new(config());
    assert!(!bench.client.is_radio_off());

    bench.tell(NodeStatus::OFF);
    assert!(bench.client.is_radio_off() && bench.client.is_bound());
    bench.tell(NodeStatus::ON);
    assert!(!bench.client.is_radio_off());

    bench.tell(NodeStatus::OFF);
    let other = bench.preempt();
    assert!(!bench.client.is_radio_off());
    bench.server.handle_disconnected(bench.now, other);
    bench.now = bench.client.next_timeout().unwrap();
    bench.client.handle_timeout(bench.now);
    bench.run();
    assert!(bench.client.is_radio_off() && bench.client.is_bound());

    bench.client.handle_disconnected(bench.now);
    assert!(!bench.client.is_radio_off());
}

#[test]
fn what_else_a_node_says_disturbs_nothing() {
    let mut bench = Bench::new(config());
    bench.tell(NodeStatus::HALF_DUPLEX);

    assert!(bench.events.is_empty());
    assert!(!bench.client.is_radio_off());
    assert_eq!(bench.client.next_timeout(), None);
    assert_eq!(bench.now, Time::ZERO);
}

#[test]
fn a_node_has_to_take_what_every_link_of_ip_takes() {
    let least = |routes: fn(&Route) -> bool, mtu| {
        let mut config = config();
        config.routes.retain(routes);
        config.addresses.retain(|address| {
            config.routes.iter().any(|it| it.prefix.address().is_ipv6() == address.is_ipv6())
        });
        let server = sis::Config { mtu, ..sis::Config::default() };
        let mut bench = Bench::unconnected(config, server);
        bench.connect();
        bench.client.fault().map(|fault| match fault {
            Fault::Mtu { least, .. } => least,
            other => panic!("{other}"),
        })
    };
    let only_v4 = |route: &Route| route.prefix.address().is_ipv4();

    assert_eq!(least(only_v4, 575), Some(576));
    assert_eq!(least(only_v4, 576), None);
    assert_eq!(least(|_| true, 1_279), Some(1_280));
    assert_eq!(least(|_| true, 1_280), None);
}

#[test]
fn datagrams_behind_counts_of_blocks_reach_the_stack_and_what_is_no_u_pdu_is_counted() {
    // Rockwell Collins up to 2.1 and open5066 put four octets before each U_PDU.
    let packet = udp([10, 0, 1, 9], 0, 40);
    let mut bench = Bench::new(config());
    let mut octets = vec![0x90, 0xeb, 0, 0, 0, 21, 0x09, 0xe0, 0, 0, 1, 0x19, 0xe0, 0, 0, 2, 0, 40];
    octets.extend([0; 4]);
    octets.extend(&packet);
    octets[4] = u8::try_from(octets.len() - 5).unwrap();
    bench.client.handle_octets(bench.now, &octets);

    assert_eq!(bench.packets(), [packet]);
    assert_eq!(bench.client.client_stats().invalid, 0);

    // Two octets too many are neither form.
    octets[4] += 2;
    octets.extend([0; 2]);
    bench.client.handle_octets(bench.now, &octets);

    assert!(bench.packets().is_empty());
    assert_eq!(bench.client.client_stats().invalid, 1);
    assert!(bench.client.poll_unreadable().is_some());
}

//! Hosts whose TCP an HF-PEP carries.

use ::hf::modem::Waveform;
use ::hf::s5066::{Address, node};
use tcp::Event;

use super::*;
use crate::app::dialogue::{self, Side, Speaker, Turn};
use crate::hf::{self, StationId};
use crate::ids::{AppId, HfId};

const PORT: u16 = 9;

#[test]
fn transfers_both_ways_arrive_whole_and_end() {
    let Net { mut world, hosts, hf } = net(1);
    let sinks =
        hosts.map(|host| world.add_app(host, transfer::Sink::new(transfer::SinkConfig::new(PORT))));
    let senders: Vec<AppId> =
        [(0, 1, 40_000, 300_000), (0, 1, 40_001, 3_000), (1, 0, 40_002, 20_000)]
            .map(|(from, to, port, octets)| {
                send(&mut world, [hosts[from], hosts[to]], port, octets)
            })
            .into();

    world.run_until(secs(600));

    for sender in senders {
        let stats = world.transfer_sender(sender).unwrap();
        assert!(stats.acked.is_some() && stats.peer_closed.is_some(), "{stats:?}");
        assert_eq!(stats.end, Some(Event::Closed));
    }
    let received = sinks.map(|sink| world.transfer_sink(sink).unwrap());
    assert_eq!(received.map(|it| (it.octets, it.corrupt)), [(20_000, 0), (303_000, 0)]);
    for station in [0, 1].map(StationId) {
        let core = world.hf_pep(hf, station).unwrap();
        assert_eq!((core.stats().sessions, core.stats().sessions_finished), (0, 3));
        assert_eq!(world.hf_pep_stats(hf, station).unwrap().unwanted, 0);
        assert_eq!(world.hf_client(hf, station).stats().handed.packets, 0, "no TCP for IP");
    }
}

#[test]
fn a_confirmation_comes_back_before_both_ends_close() {
    let Net { mut world, hosts, .. } = net(2);
    let sink = transfer::SinkConfig { confirm: Some(5_000), ..transfer::SinkConfig::new(PORT) };
    let sink = world.add_app(hosts[1], transfer::Sink::new(sink));
    let to = SocketAddr::new(world.address(hosts[1]).unwrap(), PORT);
    let sender = transfer::SenderConfig {
        close: transfer::Close::Answered,
        ..transfer::SenderConfig::new(to, 5_000)
    };
    let sender = world.add_app(hosts[0], transfer::Sender::new(sender));

    world.run_until(secs(600));

    let sent = world.transfer_sender(sender).unwrap();
    let received = world.transfer_sink(sink).unwrap();
    let story = [
        sent.established,
        received.established,
        received.last,
        sent.answered,
        received.closed,
        sent.peer_closed,
    ];
    assert!(story.iter().all(Option::is_some) && story.is_sorted(), "{story:?}");
}

#[test]
fn a_host_whose_target_refuses_gets_a_reset() {
    let Net { mut world, hosts, hf } = net(3);
    let sender = send(&mut world, hosts, 40_000, 1_000);

    world.run_until(secs(300));

    let stats = world.transfer_sender(sender).unwrap();
    assert!(stats.established.is_some(), "the near end completes the handshake");
    assert_eq!(stats.end, Some(Event::Reset));
    assert_eq!(world.hf_pep_stats(hf, StationId(1)).unwrap().failed, 1);
}

#[test]
fn a_host_without_a_route_over_the_radio_is_refused() {
    let Net { mut world, hosts, hf } = net(4);
    let near = world.node_of(world.hf_port(hf, StationId(0)));
    let nowhere = SocketAddr::new("192.0.2.1".parse().unwrap(), PORT);
    world.route(hosts[0], Prefix::host(nowhere.ip()), near, 0);
    let [port, there] = [0, 1].map(|station| world.hf_port(hf, StationId(station)));
    let via = world
        .addresses(world.node_of(there))
        .find(|address| address.to_string().starts_with("10.255."));
    world.add_route(port, Prefix::host(nowhere.ip()), via, 0);
    let sender = transfer::SenderConfig::new(nowhere, 10);
    let sender = world.add_app(hosts[0], transfer::Sender::new(sender));

    world.run_until(secs(60));

    assert_eq!(world.transfer_sender(sender).unwrap().end, Some(Event::Reset));
    assert_eq!(world.hf_pep_stats(hf, StationId(0)).unwrap().refused, 1);
}

#[test]
fn a_conversation_outlives_a_node_that_is_started_anew() {
    let Net { mut world, hosts, hf } = net(5);
    let said = |speaker, octets| Turn { speaker, octets: vec![7; octets].into() };
    let config = dialogue::Config {
        server: SocketAddr::new(world.address(hosts[1]).unwrap(), PORT),
        port: 40_000,
        start: Time::ZERO,
        turns: [said(Side::Client, 50_000), said(Side::Server, 20_000)].into(),
        tcp: tcp::Config::default(),
    };
    let speakers = [(1, Side::Server), (0, Side::Client)]
        .map(|(host, side)| world.add_app(hosts[host], Speaker::new(side, config.clone())));

    world.run_until(secs(30));
    let before = world.hf_node(hf, StationId(0)).stats().transmissions;
    let config = node::Config::new(Address::node(1), waveform());
    world.restart_hf_node(hf, StationId(0), config);
    let after = world.hf_node(hf, StationId(0)).stats().transmissions;
    world.run_until(secs(1_200));

    assert!(before > 0 && after == 0);
    for speaker in speakers {
        let stats = world.app::<Speaker>(speaker).unwrap().stats();
        assert!(stats.finished.is_some() && stats.ended.is_some(), "{stats:?}");
        assert_eq!((stats.connections, stats.corrupt, stats.end), (1, 0, Some(Event::Closed)));
    }
}

/// Two hosts, each behind a station with an HF-PEP.
struct Net {
    world: World,
    hosts: [NodeId; 2],
    hf: HfId,
}

fn net(seed: u64) -> Net {
    let mut world = World::new(seed);
    let [a, near, far, b] = ["a", "near", "far", "b"].map(|name| world.add_node(name));
    world.connect(a, near, &link(channel::Config::default()));
    world.connect(far, b, &link(channel::Config::default()));
    world.auto_routes();
    let (from, to) = (world.address(a).unwrap(), world.address(b).unwrap());
    let stations = [(near, 1, from), (far, 2, to)].map(|(host, address, behind)| HfStation {
        behind: vec![Prefix::host(behind)],
        pep: Some(PepConfig::default()),
        ..HfStation::new(host, node::Config::new(Address::node(address), waveform()))
    });
    let hf = world.add_hf(hf::Config::default(), stations.into());
    world.route(a, Prefix::host(to), near, 0);
    world.route(b, Prefix::host(from), far, 0);
    Net { world, hosts: [a, b], hf }
}

fn waveform() -> Waveform {
    "9600".parse().unwrap()
}

fn send(world: &mut World, [from, to]: [NodeId; 2], port: u16, octets: u64) -> AppId {
    let to = SocketAddr::new(world.address(to).unwrap(), PORT);
    let sender = transfer::SenderConfig { port, ..transfer::SenderConfig::new(to, octets) };
    world.add_app(from, transfer::Sender::new(sender))
}

//! Hosts that talk across HF.

use ::hf::modem::Waveform;
use ::hf::s5066::{Address, node};

use super::*;
use crate::hf::{self, Channel, StationId};
use crate::ids::HfId;

#[test]
fn a_ping_crosses_and_comes_back() {
    let (mut world, hosts, _) = pair(1, "9600", Channel::Clear);
    let requests = stream::SenderConfig {
        interval: Duration::from_secs(20),
        ..stream_to(&world, hosts[1], 64, 5)
    };
    let port = requests.destination.port();
    world.add_app(hosts[1], echo::Echo::new(port));
    let ping = world.add_app(hosts[0], ping::Ping::new(requests));

    world.run_until(secs(200));

    let stats = world.app::<ping::Ping>(ping).unwrap().stats();
    assert_eq!((stats.sent, stats.answered), (5, 5));
    // Two transmissions of two blocks at least, and two turnarounds.
    let rtt = stats.rtt.mean();
    assert!((2.0..15.0).contains(&rtt), "{rtt}");
}

#[test]
fn a_transfer_crosses_every_channel() {
    for channel in ["clear", "ber:1e-5", "moderate:30"] {
        let (mut world, hosts, hf) = pair(2, "9600", channel.parse().unwrap());
        let to = SocketAddr::new(world.address(hosts[1]).unwrap(), 9);
        let sender = world
            .add_app(hosts[0], transfer::Sender::new(transfer::SenderConfig::new(to, 100_000)));
        let sink = world.add_app(hosts[1], transfer::Sink::new(transfer::SinkConfig::new(9)));

        world.run(secs(3_600), |world| world.transfer_sender(sender).unwrap().acked.is_some());

        let stats = world.transfer_sink(sink).unwrap();
        assert_eq!((stats.octets, stats.corrupt), (100_000, 0), "{channel}");
        assert_eq!(world.hf_client(hf, StationId(0)).stats().handed.refused, 0);
    }
}

#[test]
fn hosts_behind_stations_reach_each_other() {
    let mut world = World::new(3);
    let [a, near, far, b] = ["a", "near", "far", "b"].map(|name| world.add_node(name));
    world.connect(a, near, &link(channel::Config::default()));
    world.connect(far, b, &link(channel::Config::default()));
    world.auto_routes();
    let (from, to) = (world.address(a).unwrap(), world.address(b).unwrap());
    let stations = [(near, 1, from), (far, 2, to)].map(|(host, address, behind)| HfStation {
        behind: vec![Prefix::host(behind)],
        ..station(host, address, "9600")
    });
    world.add_hf(hf::Config::default(), stations.into());
    world.route(a, Prefix::host(to), near, 0);
    world.route(b, Prefix::host(from), far, 0);

    world.inject(a, &echo_request(from, to));
    world.run_until(secs(60));

    assert_eq!(world.node_counters(a).unwanted, 1, "the reply, which no application waits for");
}

#[test]
fn an_unreachable_station_is_reported_to_the_sender() {
    let (mut world, hosts, _) = pair(4, "9600", Channel::Silent);
    let (from, to) = (world.address(hosts[0]).unwrap(), world.address(hosts[1]).unwrap());

    world.inject(hosts[0], &echo_request(from, to));
    world.run_until(secs(1_000));

    assert_eq!(world.node_counters(hosts[0]).errors_received, 1);
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let run = |seed| {
        let (mut world, hosts, hf) = pair(seed, "4800", Channel::poor(24.0));
        world.record_hf(hf);
        let to = SocketAddr::new(world.address(hosts[1]).unwrap(), 9);
        world.add_app(hosts[0], transfer::Sender::new(transfer::SenderConfig::new(to, 20_000)));
        world.add_app(hosts[1], transfer::Sink::new(transfer::SinkConfig::new(9)));
        world.run_until(secs(300));
        let records: Vec<_> = std::iter::from_fn(|| world.poll_hf_record(hf)).collect();
        (records, world.report())
    };

    let (records, report) = run(5);
    assert!(records.len() > 20);
    assert_eq!(run(5), (records, report.clone()));
    assert_ne!(run(6).1.hash, report.hash);
}

#[test]
fn frames_are_captured() {
    let folder = std::env::temp_dir().join(format!("trackway-hf-{}", std::process::id()));
    let (mut world, hosts, hf) = pair(7, "9600", Channel::Clear);
    world.capture_hf(hf, &folder).unwrap();
    let (from, to) = (world.address(hosts[0]).unwrap(), world.address(hosts[1]).unwrap());

    world.inject(hosts[0], &echo_request(from, to));
    world.run_until(secs(60));
    world.finish_captures().unwrap();

    let file = std::fs::read(folder.join("hf-0.pcapng")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let sync = file.windows(2).filter(|pair| *pair == [0x90, 0xeb]).count();
    assert!(sync > 4, "{sync}");
    let stats = world.hf_node(hf, StationId(0)).stats();
    assert!(stats.sent.data.count > 0);
}

/// Two hosts, each with a station.
fn pair(seed: u64, waveform: &str, channel: Channel) -> (World, [NodeId; 2], HfId) {
    let mut world = World::new(seed);
    let hosts = ["a", "b"].map(|name| world.add_node(name));
    let stations = vec![station(hosts[0], 1, waveform), station(hosts[1], 2, waveform)];
    let hf = world.add_hf(hf::Config { channel, ..hf::Config::default() }, stations);
    (world, hosts, hf)
}

fn station(host: NodeId, address: u32, waveform: &str) -> HfStation {
    let waveform: Waveform = waveform.parse().unwrap();
    HfStation::new(host, node::Config::new(Address::node(address), waveform))
}

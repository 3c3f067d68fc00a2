//! Tests IPv4 and IPv6 between hosts joined only by an HF frequency.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ::hf::s5066::{Address, node};
use base::ip::{Checksum, Spec, protocol, pseudo_header};
use base::time::Time;
use sim::app::transfer;
use sim::hf::{self, Channel, StationId};
use sim::{HfId, HfStation, NodeId, World};

const OCTETS: u64 = 20_000;

#[test]
fn hosts_are_pinged_and_send_by_both_versions_of_ip() {
    for (channel, seed) in [(Channel::Clear, 1), (Channel::poor(30.0), 2)] {
        for versions in [[true, true], [true, false]] {
            let (mut world, hosts, hf) = pair(seed, channel);
            // A transfer each way, by different ports, and pings of the version of the first.
            let transfers = [0, 1].map(|at: usize| {
                let to = address(&world, hosts[1 - at], versions[at]);
                let port = 9 + u16::try_from(at).expect("two");
                let config = transfer::SenderConfig::new(SocketAddr::new(to, port), OCTETS);
                let sender = world.add_app(hosts[at], transfer::Sender::new(config));
                let sink = transfer::SinkConfig::new(port);
                (sender, world.add_app(hosts[1 - at], transfer::Sink::new(sink)))
            });
            for minute in 0..5 {
                world.run_until(Time::ZERO + Duration::from_secs(60 * minute));
                for is_v6 in versions {
                    let ends = hosts.map(|host| address(&world, host, is_v6));
                    world.inject(hosts[0], &echo_request(ends[0], ends[1]));
                }
            }

            world.run_until(Time::ZERO + Duration::from_secs(3_600));

            for (sender, sink) in transfers {
                assert!(world.transfer_sender(sender).expect("it sends").acked.is_some());
                let sink = world.transfer_sink(sink).expect("it receives");
                assert_eq!((sink.octets, sink.corrupt), (OCTETS, 0), "{channel:?} {versions:?}");
            }
            assert_eq!(world.node_counters(hosts[0]).unwanted, 10, "the replies to the pings");
            for station in [0, 1].map(StationId) {
                let stats = world.hf_client(hf, station).stats();
                assert_eq!(
                    (stats.taken.no_route, stats.taken.malformed, stats.handed.refused),
                    (0, 0, 0)
                );
                assert_eq!((stats.queued, stats.unconfirmed), (0, 0), "all is confirmed");
                assert!(
                    stats.taken.superseded > 0,
                    "acknowledgements wait where later ones replace them"
                );
            }
        }
    }
}

#[test]
fn the_sender_of_a_ping6_is_told_that_nobody_answers() {
    for is_v6 in [true, false] {
        let (mut world, hosts, _) = pair(3, Channel::Silent);
        let ends = hosts.map(|host| address(&world, host, is_v6));

        world.inject(hosts[0], &echo_request(ends[0], ends[1]));
        world.run_until(Time::ZERO + Duration::from_secs(1_000));

        assert_eq!(world.node_counters(hosts[0]).errors_received, 1, "{is_v6}");
    }
}

/// Two hosts, each with a station.
fn pair(seed: u64, channel: Channel) -> (World, [NodeId; 2], HfId) {
    let mut world = World::new(seed);
    let hosts = ["a", "b"].map(|name| world.add_node(name));
    let waveform = "9600".parse().expect("a waveform");
    let stations = [(hosts[0], 1), (hosts[1], 2)].map(|(host, number)| {
        HfStation::new(host, node::Config::new(Address::node(number), waveform))
    });
    let config = hf::Config { channel, ..hf::Config::default() };
    let hf = world.add_hf(config, stations.into());
    (world, hosts, hf)
}

fn address(world: &World, host: NodeId, is_v6: bool) -> IpAddr {
    world.addresses(host).find(|it| it.is_ipv6() == is_v6).expect("one of each")
}

fn echo_request(from: IpAddr, to: IpAddr) -> Vec<u8> {
    const LEN: usize = 64;
    let (kind, protocol) =
        if from.is_ipv6() { (128, protocol::ICMPV6) } else { (8, protocol::ICMP) };
    let mut packet = Vec::new();
    Spec::new(from, to, protocol).emit(LEN, &mut packet);
    let start = packet.len();
    packet.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
    packet.resize(start + LEN, 0x55);
    let pseudo =
        if from.is_ipv6() { pseudo_header(from, to, protocol, LEN) } else { Checksum::default() };
    let sum = pseudo.with(&packet[start..]).finish();
    packet[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
    packet
}

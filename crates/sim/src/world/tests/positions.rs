//! What is random follows from what it is for: idle things that stand first in a description change nothing.

use ::hf::modem::Waveform;
use ::hf::s5066::{Address, node};
use tcp::tcpnc;
use tunnel as nc;

use super::*;
use crate::cnr::{self, Hearing, LinkType};
use crate::mobility::{Motion, Position};
use crate::{hf, radio};

#[test]
fn an_idle_link_changes_no_losses_elsewhere() {
    assert_same(100_000, |Case { world, hosts: [a, b], others: [e, f] }, has_idle| {
        if has_idle {
            world.connect(*e, *f, &LinkConfig::default());
            world.connect(*b, *e, &LinkConfig::default());
        }
        let channel = channel::Config { jitter: Duration::from_millis(20), ..lossy(0.05) };
        world.connect(*a, *b, &link(channel));
        world.auto_routes();
    });
}

#[test]
fn an_idle_link_changes_no_slots_elsewhere() {
    assert_same(2_000, |Case { world, hosts: [a, b], others: [e, f] }, has_idle| {
        let slots = Duration::from_secs(1);
        let needline = link(channel::Config { slots, ..lossy(0.02) });
        if has_idle {
            world.connect(*e, *f, &needline);
        }
        world.connect(*a, *b, &needline);
        world.auto_routes();
    });
}

#[test]
fn an_idle_radio_channel_changes_no_back_offs_elsewhere() {
    assert_same(100_000, |Case { world, hosts, others }, has_idle| {
        let channel = |world: &mut World, nodes: &[NodeId]| {
            let channel = world.add_radio(radio::Config::default());
            for (node, x) in nodes.iter().zip([0.0, 100.0, 200.0]) {
                let motion = Motion::at_rest(Position::new(x, 0.0));
                world.add_radio_station(channel, *node, motion, InterfaceConfig::default());
            }
        };
        if has_idle {
            channel(world, others);
        }
        channel(
            world,
            &if has_idle {
                [others[0], hosts[0], hosts[1]]
            } else {
                [hosts[0], hosts[1], others[0]]
            },
        );
        world.auto_routes();
    });
}

#[test]
fn an_idle_combat_net_changes_nothing_on_another() {
    assert_same(2_000, |Case { world, hosts, others }, has_idle| {
        let config =
            cnr::Config { link_type: LinkType::Decoupled, loss: 0.2, ..cnr::Config::default() };
        let net = |world: &mut World, nodes: &[NodeId]| {
            let net = world.add_cnr(config, Hearing::All);
            for node in nodes {
                world.add_cnr_station(net, *node, Motion::at_rest(Position::default()));
            }
        };
        if has_idle {
            net(world, others);
        }
        net(world, hosts);
        world.auto_routes();
    });
}

#[test]
fn an_idle_frequency_changes_nothing_on_another() {
    assert_same(20_000, |Case { world, hosts, others }, has_idle| {
        let frequency = |world: &mut World, hosts: &[NodeId]| {
            let waveform: Waveform = "4800".parse().unwrap();
            let station = |(host, address): (&NodeId, u32)| {
                HfStation::new(*host, node::Config::new(Address::node(address), waveform))
            };
            let stations = hosts.iter().zip(1..).map(station).collect();
            let channel = hf::Channel::poor(24.0);
            world.add_hf(hf::Config { channel, ..hf::Config::default() }, stations);
        };
        if has_idle {
            frequency(world, others);
        }
        frequency(world, hosts);
    });
}

#[test]
fn an_idle_tunnel_changes_nothing_in_another() {
    assert_same(100_000, |Case { world, hosts: [a, b], others: [e, f] }, has_idle| {
        let [near, far] = ["near", "far"].map(|name| world.add_node(name));
        for (from, to) in [(*a, near), (far, *b), (*e, near), (far, *f)] {
            world.connect(from, to, &LinkConfig::default());
        }
        world.connect(near, far, &link(lossy(0.05)));
        world.auto_routes();
        if has_idle {
            world.add_tunnel(near, *e, nc::Config::default()).unwrap();
        }
        let tunnel = world.add_tunnel(near, far, nc::Config::default()).unwrap();
        for (node, host) in [(near, *b), (far, *a)] {
            let address = world.address(host).unwrap();
            assert!(world.route_into_tunnel(node, Prefix::host(address), tunnel));
        }
        world.meet();
    });
}

#[test]
fn an_idle_tcpnc_tunnel_changes_nothing_in_another() {
    assert_same(100_000, |Case { world, hosts: [a, b], others: [e, _] }, has_idle| {
        let [near, far] = ["near", "far"].map(|name| world.add_node(name));
        for (from, to) in [(*a, near), (far, *b), (near, *e)] {
            world.connect(from, to, &LinkConfig::default());
        }
        world.connect(near, far, &link(lossy(0.05)));
        world.auto_routes();
        let layer = tcpnc::Config::default();
        if has_idle {
            let config = TcpncTunnelConfig { port: 7, layer, ..TcpncTunnelConfig::default() };
            world.add_tcpnc_tunnel(near, *e, &config).unwrap();
        }
        let config = TcpncTunnelConfig { layer, ..TcpncTunnelConfig::default() };
        world.add_tcpnc_tunnel(near, far, &config).unwrap();
    });
}

#[test]
fn links_between_the_same_two_nodes_lose_different_packets() {
    let mut world = World::new(3);
    let [a, b] = ["a", "b"].map(|name| world.add_node(name));
    let lossy = link(lossy(0.5));
    let links = [[a, b], [a, b], [b, a]].map(|[near, far]| world.connect(near, far, &lossy));

    let patterns = links.map(|link| {
        let ends = world.ends(link);
        let [from, to] = if world.node_of(ends[0]) == a { ends } else { [ends[1], ends[0]] };
        let [source, destination] = [from, to].map(|port| world.interface(port).addresses[0]);
        let mut lost = Vec::new();
        for _ in 0..64 {
            world.inject(a, &datagram(source, destination, 100));
            run_for(&mut world, 1);
            lost.push(world.port_counters(from).lost.packets);
        }
        assert!((16..48).contains(lost.last().unwrap()), "{lost:?}");
        lost
    });

    assert!(patterns[0] != patterns[1] && patterns[1] != patterns[2] && patterns[0] != patterns[2]);
}

/// Two hosts whose transfer is measured, and two beside them that have nothing to say.
struct Case {
    world: World,
    hosts: [NodeId; 2],
    others: [NodeId; 2],
}

/// Expects a transfer of so many octets to take the same time and repeats with and without what is idle.
#[track_caller]
fn assert_same(octets: u64, build: impl Fn(&mut Case, bool)) {
    let runs = [false, true].map(|has_idle| {
        let mut world = World::new(3);
        let hosts = ["a", "b"].map(|name| world.add_node(name));
        let others = ["e", "f"].map(|name| world.add_node(name));
        let mut case = Case { world, hosts, others };
        build(&mut case, has_idle);
        let Case { mut world, hosts: [from, to], .. } = case;
        let start = world.now();
        let to_address = SocketAddr::new(world.address(to).unwrap(), 9);
        let sender = transfer::SenderConfig::new(to_address, octets);
        let sender = transfer::SenderConfig { start, ..sender };
        let sender = world.add_app(from, transfer::Sender::new(sender));
        let sink = world.add_app(to, transfer::Sink::new(transfer::SinkConfig::new(9)));
        run_for(&mut world, 2_000);
        let received = world.transfer_sink(sink).unwrap();
        assert_eq!(received.octets, octets);
        let sent = world.transfer_sender(sender).unwrap().tcp.sent;
        (received.last.unwrap().since(start), sent.segments, sent.retransmissions)
    });

    assert_eq!(runs[0], runs[1]);
}

//! Tests that tshark reads every OSPF packet with the meaning we intend.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use manet::ospf::Config;
use sim::service::routing::{RoutingConfig, RoutingProtocol};
use sim::{LinkConfig, LinkId, NodeId, PortId, World};

/// No fault, no warning, and both checksums right; Wireshark calls a right checksum "good".
const COMPLAINTS: &str = "_ws.malformed || _ws.expert.severity >= warning || !ospf || \
    ip.checksum.status == 0 || ip.proto != 89 || ip.ttl != 1 || ip.dst != 224.0.0.5";

#[test]
#[ignore = "needs tshark: run by ./test"]
fn tshark_reads_what_routers_say_to_each_other() {
    let folder = std::env::temp_dir().join(format!("trackway-ospf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let mut world = World::new(7);
    let nodes = ["a", "b", "c", "d"].map(|name| world.add_node(name));
    let mut config = LinkConfig::default();
    for channel in [&mut config.there, &mut config.back] {
        channel.delay = Duration::from_millis(50);
        channel.loss = "20%".parse().expect("a loss");
    }
    let links = ring(&mut world, nodes, &config);
    for (at, node) in nodes.iter().enumerate() {
        let ports = ports(&world, &links, at);
        let attached = format!("192.168.{at}.0/24").parse().expect("a network");
        let config = Config { attached: vec![attached], ..Config::default() };
        let config = RoutingConfig::new(RoutingProtocol::Ospf(config));
        world.enable_routing(*node, &config, &ports);
    }
    world.capture_node(nodes[0], &folder).expect("a capture");
    world.run_until(base::time::Time::ZERO + Duration::from_secs(400));
    world.finish_captures().expect("a capture");
    let file = folder.join("a.pcapng");

    assert_eq!(tshark(&file, COMPLAINTS, "frame.number"), "");
    let counters = world.routing_protocol_counters(nodes[0]);
    for (kind, name) in [
        (1, "hellos_sent"),
        (2, "descriptions_sent"),
        (3, "requests_sent"),
        (4, "updates_sent"),
        (5, "acknowledgements_sent"),
    ] {
        let sent = counters.iter().find(|(counter, _)| *counter == name).expect("a counter").1;
        let own = format!("ospf.msg == {kind} && ospf.srcrouter == 10.0.0.1");
        let read = tshark(&file, &own, "frame.number").lines().count() as u64;
        assert!(sent > 0 && read == sent, "{name}: {sent}, and {read} read");
    }
    let checked = tshark(&file, "ospf.lsa.router.linktype", "ospf.lsa.router.linkid");
    assert!(checked.lines().any(|line| line.contains("192.168.")), "{checked}");
    std::fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn routers_of_the_simulator_find_a_way_around_a_link_that_fails() {
    let mut world = World::new(7);
    let nodes = ["a", "b", "c"].map(|name| world.add_node(name));
    let links = ring(&mut world, nodes, &LinkConfig::default());
    for (at, node) in nodes.into_iter().enumerate() {
        let ports = ports(&world, &links, at);
        let config = RoutingConfig::new(RoutingProtocol::Ospf(Config::default()));
        world.enable_routing(node, &config, &ports);
    }
    // The link between b and c: 10.0.1.1 and 10.0.1.2.
    let beyond = [10, 0, 1, 2].into();
    let next = |world: &World| world.next_hop(nodes[0], beyond);
    assert_eq!(next(&world), None);
    world.run_until(base::time::Time::ZERO + Duration::from_secs(20));
    assert_eq!(next(&world), Some(nodes[1]), "the first of two that cost the same");

    world.at(world.now(), sim::Change::LinkDown(links[0]));
    world.run_until(base::time::Time::ZERO + Duration::from_secs(30));

    assert_eq!(next(&world), Some(nodes[2]));
}

/// Joins each node with its successor.
fn ring<const N: usize>(world: &mut World, nodes: [NodeId; N], config: &LinkConfig) -> [LinkId; N] {
    std::array::from_fn(|at| world.connect(nodes[at], nodes[(at + 1) % N], config))
}

/// The ports of a node on the links of a ring.
fn ports<const N: usize>(world: &World, links: &[LinkId; N], node: usize) -> [PortId; 2] {
    [world.ends(links[node])[0], world.ends(links[(node + N - 1) % N])[1]]
}

/// Reads a field of all packets that pass the filter.
fn tshark(file: &Path, filter: &str, field: &str) -> String {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(["-Y", filter, "-T", "fields", "-e", field])
        .args(["-o", "ip.check_checksum:TRUE"])
        .output()
        .expect("tshark is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("fields are text")
}

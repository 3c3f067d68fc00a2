//! Runs whose every event is known: a change in behaviour shows, wanted or not.
//!
//! When behaviour is meant to change, `cargo test -p trackway-sim golden` fails and prints the new
//! table: put it in the place of the old one. The numbers are the same in debug and release builds.

use hbh::Profile;
use manet::{aodv, ospf};

use super::*;
use crate::cnr;
use crate::mobility::waypoint::Waypoint;
use crate::mobility::{Motion, Position};
use crate::service::routing::{RoutingConfig, RoutingProtocol};

/// Name, hash over all events, number of events.
type Golden = (&'static str, u64, u64);

#[rustfmt::skip]
const GOLDEN: [Golden; 9] = [
    ("datagrams", 0xc62b5e127ae2ff60, 2833),
    ("tcp", 0x68630914c34de262, 255),
    ("tcp, lossy", 0xbf2c46ad53f9ae64, 262),
    ("tcp over hbh, lossy", 0x63e38ad7b5b63dfe, 2987),
    ("tcp over hbh of the paper, lossy", 0xef9dd63ef8710140, 3678),
    ("tcp in a coded tunnel, lossy", 0x1394f69256918cd0, 745),
    ("tcp by AODV between radios that move", 0xe95e37a48e94be4a, 3347),
    ("tcp by OSPF over needlines", 0x2fbb83d01f0deff3, 3352),
    ("tcp over relays of a combat net", 0xc62c41ec84cb7055, 763),
];

#[test]
fn the_golden_runs_have_not_changed() {
    let plain = |loss| move || transfer(chain(42, 3, &link(lossy(loss))));
    let under_hbh = |profile| {
        move || {
            let (mut world, nodes) = chain(42, 4, &link(lossy(0.1)));
            hops::enable(&mut world, &nodes, profile);
            transfer((world, nodes))
        }
    };
    let tunnelled = || {
        let (world, nodes) = tunnels::tunnelled(42, &link(lossy(0.1)));
        transfer((world, nodes.to_vec()))
    };
    let runs: [(&str, &dyn Fn() -> World); 9] = [
        ("datagrams", &|| runs::busy(42)),
        ("tcp", &plain(0.0)),
        ("tcp, lossy", &plain(0.03)),
        ("tcp over hbh, lossy", &under_hbh(Profile::Default)),
        ("tcp over hbh of the paper, lossy", &under_hbh(Profile::Paper)),
        ("tcp in a coded tunnel, lossy", &tunnelled),
        ("tcp by AODV between radios that move", &|| transfer(wandering(42))),
        ("tcp by OSPF over needlines", &|| transfer_of(2_000, needlines(42), 600)),
        ("tcp over relays of a combat net", &|| transfer_of(2_000, combat_net(42), 600)),
    ];

    let now: Vec<Golden> = runs
        .iter()
        .map(|(name, run)| {
            let report = run().report();
            (*name, report.hash, report.events)
        })
        .collect();

    assert!(now == GOLDEN, "the table is now\n{}", table(&now));
}

/// The table as it stands above.
fn table(runs: &[Golden]) -> String {
    let line =
        |&(name, hash, events): &Golden| format!("    ({name:?}, {hash:#018x}, {events}),\n");
    runs.iter().map(line).collect()
}

/// Ten radios that wander about, the last of which is a gateway to a host on a wire: the first node and the
/// last are far apart, and reach each other through a half tunnel.
fn wandering(seed: u64) -> (World, Vec<NodeId>) {
    let mut world = World::new(seed);
    let radio = world.add_radio(crate::radio::Config::default());
    let mut nodes: Vec<NodeId> = (0..10).map(|n| world.add_node(&format!("n{n}"))).collect();
    let area = Waypoint { area: [600.0, 300.0], ..Waypoint::default() };
    for (n, node) in nodes.iter().enumerate() {
        let mut rng = world.stream(&format!("motion {n}"));
        let motion = match n {
            0 => Motion::at_rest(Position::new(0.0, 0.0)),
            9 => Motion::at_rest(Position::new(600.0, 300.0)),
            _ => area.motion(&mut rng, Duration::from_secs(60)).unwrap(),
        };
        world.add_radio_station(radio, *node, motion, InterfaceConfig::default());
    }
    let host = world.add_node("host");
    world.connect(nodes[9], host, &LinkConfig::default());
    world.auto_routes_of_links();
    for (n, node) in nodes.iter().enumerate() {
        let mut config = aodv::Config::link_layer_feedback();
        config.internet.manet = "10.128.0.0/16".parse().unwrap();
        config.internet.gateway = n == 9;
        world.enable_routing(*node, &RoutingConfig::new(RoutingProtocol::Aodv(config)), &[]);
    }
    world.route(host, "10.128.0.0/16".parse().unwrap(), nodes[9], 1);
    nodes.push(host);
    (world, nodes)
}

/// Five routers in a ring of needlines of 480 bit/s, which find their ways by OSPF.
fn needlines(seed: u64) -> (World, Vec<NodeId>) {
    let mut world = World::new(seed);
    let nodes: Vec<NodeId> = (0..5).map(|n| world.add_node(&format!("n{n}"))).collect();
    let mut needline = link(lossy(0.02));
    for channel in [&mut needline.there, &mut needline.back] {
        channel.rate = BitRate::from_bits_per_s(480).unwrap();
        channel.slots = Duration::from_secs(1);
    }
    let ring = |n: usize| (n + 1) % 5;
    let links: Vec<_> =
        (0..5).map(|n| world.connect(nodes[n], nodes[ring(n)], &needline)).collect();
    for n in 0..5 {
        let ports = [world.ends(links[ring(n)])[0], world.ends(links[n])[1]];
        let config = RoutingConfig::new(RoutingProtocol::Ospf(ospf::Config::default()));
        world.enable_routing(nodes[ring(n)], &config, &ports);
    }
    (world, vec![nodes[0], nodes[2]])
}

/// Four stations of a combat net in a row, of which each hears only those beside it.
fn combat_net(seed: u64) -> (World, Vec<NodeId>) {
    let mut world = World::new(seed);
    let pairs = [[0, 1], [1, 2], [2, 3]].map(|pair| pair.map(cnr::StationId));
    let config = cnr::Config {
        link_type: cnr::LinkType::Decoupled,
        ..cnr::Config::new(cnr::Preset::Sincgars16k)
    };
    let net = world.add_cnr(config, cnr::Hearing::Pairs(pairs.to_vec()));
    let nodes: Vec<NodeId> = (0..4).map(|n| world.add_node(&format!("n{n}"))).collect();
    for node in &nodes {
        world.add_cnr_station(net, *node, Motion::at_rest(Position::new(0.0, 0.0)));
    }
    world.auto_routes();
    (world, nodes)
}

/// A transfer from the first node to the last, run to its end.
fn transfer(network: (World, Vec<NodeId>)) -> World {
    transfer_of(60_000, network, 60)
}

fn transfer_of(octets: u64, (mut world, nodes): (World, Vec<NodeId>), seconds: u64) -> World {
    let (first, last) = (nodes[0], *nodes.last().unwrap());
    let to = SocketAddr::new(world.address(last).unwrap(), 9);
    let config = transfer::SenderConfig::new(to, octets);
    world.add_app(first, transfer::Sender::new(config));
    let sink = world.add_app(last, transfer::Sink::new(transfer::SinkConfig::new(9)));

    run_for(&mut world, seconds);

    assert_eq!(world.transfer_sink(sink).unwrap().octets, octets);
    world
}

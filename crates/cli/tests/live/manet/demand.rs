//! Tests AODV: packets wait for a route, routes in use stay, and senders learn of failures.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::manet::bed::{AODV, Manet, address};
use crate::namespaces::{SOON, wait_until};

/// How long something is waited for that may not come.
const MOMENT: Duration = Duration::from_secs(2);
/// How long a route stays that no packet takes.
const UNUSED: Duration = Duration::from_secs(3);

#[test]
#[ignore = "needs root: run by ./test"]
fn the_first_packet_waits_for_its_route_and_is_answered() {
    let manet = Manet::running(AODV, 4);
    assert!(manet.routes(0).is_empty(), "{}", manet.told(0));

    let unanswered = manet.nets.unanswered(&manet.nodes[0].name, &address(3), 1, 56);

    assert!(unanswered.is_empty(), "{}", manet.told(0));
    assert!(manet.routes(0).contains(&address(3)), "{}", manet.told(0));
    let status = manet.status(0);
    assert_eq!(status["routing_demands"], 1, "{status}");
    assert_eq!(status["routing_packets_released"], 1, "{status}");
    assert_eq!(manet.count(1, "routing_demands"), 0, "{}", manet.told(1));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_in_use_stays_and_one_that_is_not_ends() {
    let manet = Manet::running(AODV, 3);
    manet.expect_reachable(0, &address(2));
    let began = Instant::now();

    // Twice as long as a route stays without packets.
    while began.elapsed() < 2 * UNUSED {
        let unanswered = manet.nets.unanswered(&manet.nodes[0].name, &address(2), 1, 56);
        assert!(unanswered.is_empty(), "{}", manet.told(0));
        for (node, to) in [(0, 2), (1, 2), (1, 0), (2, 0)] {
            assert!(manet.routes(node).contains(&address(to)), "{}", manet.told(node));
        }
    }
    assert_eq!(manet.count(0, "routing_demands"), 1, "{}", manet.told(0));

    let ends = wait_until(SOON, || !manet.routes(0).contains(&address(2)));
    assert!(ends, "{}", manet.told(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn packets_find_the_device_again_that_lost_its_routes() {
    let manet = Manet::running(AODV, 2);
    let routes = || manet.run(0, "ip route show dev trackway-aodv0");
    let before = routes();
    assert!(!before.is_empty(), "{}", manet.told(0));

    let link = || manet.run(0, "ip link show dev trackway-aodv0");
    for commands in [
        &["link set trackway-aodv0 down"][..],
        &["link set trackway-aodv0 down", "link set trackway-aodv0 up"],
        // The kernel drops a device's routes with its last address.
        &["address add 10.99.9.9/32 dev trackway-aodv0", "address flush dev trackway-aodv0"],
    ] {
        commands.iter().for_each(|it| drop(manet.run(0, &format!("ip {it}"))));
        let is_back = wait_until(SOON, || link().contains("UP") && routes() == before);
        assert!(is_back, "{}{}", link(), routes());
    }
    manet.expect_reachable(0, &address(1));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_sender_in_vain_is_told_that_the_host_cannot_be_reached() {
    let manet = Manet::running(AODV, 2);
    let nobody = "10.66.0.77:9".parse().unwrap();

    let told = manet
        .nets
        .within(&manet.nodes[0].name, || TcpStream::connect_timeout(&nobody, SOON).unwrap_err());

    assert_eq!(told.kind(), io::ErrorKind::HostUnreachable, "{told}: {}", manet.told(0));
    let status = manet.status(0);
    assert!(status["routing_packets_unreachable"].as_u64() > Some(0), "{status}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_in_the_middle_that_lost_its_route_has_the_source_look_for_another() {
    let mut manet = Manet::chain(AODV, 3);
    for node in 0..3 {
        // Nothing but an error can tell: a route in use lasts.
        manet.configure(node, "hello.mode = \"off\"", "");
        manet.start(node);
    }
    manet.expect_reachable(0, &address(2));

    // The node in the middle forgets all its state, and reports nothing.
    manet.program(1).signal(Signal::SIGKILL);
    manet.program(1).finish(SOON);
    manet.start(1);

    manet.expect_reachable(0, &address(2));
    for counter in ["routing_demands_in_transit", "aodv_errors_sent"] {
        assert!(manet.count(1, counter) > 0, "{counter}: {}", manet.told(1));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_device_that_was_renamed_or_moved_is_there_again() {
    let mut manet = Manet::running(AODV, 2);
    let away = manet.nets.add("away");
    let routes = |manet: &Manet| {
        let shown = manet.nets.try_run(&manet.nodes[0].name, "ip route show dev trackway-aodv0");
        String::from_utf8_lossy(&shown.stdout).into_owned()
    };
    let before = routes(&manet);

    for change in ["name other", &format!("netns {away}")] {
        manet.run(0, &format!("ip link set trackway-aodv0 {change}"));
        let is_back = wait_until(SOON, || routes(&manet) == before);
        assert!(is_back, "{change}: {}{}", manet.run(0, "ip link"), manet.told(0));
        manet.expect_reachable(0, &address(1));
    }

    // Somebody else has the name now.
    let is_told = |manet: &Manet| manet.status(0)["faults"].to_string().contains("is called other");
    manet.run(0, "ip link add third type veth peer name fourth");
    let taken = "link set trackway-aodv0 name other\nlink set third name trackway-aodv0\n";
    fs::write(manet.nets.folder().join("taken"), taken).unwrap();
    let batch = format!("ip -batch {}", manet.nets.folder().join("taken").display());
    let is_taken = wait_until(SOON, || {
        let _ = manet.nets.try_run(&manet.nodes[0].name, &batch);
        wait_until(MOMENT, || is_told(&manet))
    });
    assert!(is_taken, "{}{}", manet.run(0, "ip link"), manet.status(0));
    manet.run(0, "ip link del trackway-aodv0");
    let is_back = wait_until(SOON, || routes(&manet) == before && !is_told(&manet));
    assert!(is_back, "{}{}", manet.run(0, "ip link"), manet.told(0));
}

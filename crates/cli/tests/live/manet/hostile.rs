//! Tests the routing port against datagrams of stations in radio range.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Instant;

use base::rng::Rng;
use manet::dsdv::wire::{Entry, INFINITE};

use crate::logs::{Kind, expect_bounded};
use crate::manet::bed::{ALL, AODV, DSDV, Manet, address};
use crate::namespaces::{SOON, wait_until};

/// The kernel's bits for what a node may do: to bind a port below 1024, change the network, and raw sockets.
const KEPT: u64 = 1 << 10 | 1 << 12 | 1 << 13;

#[test]
#[ignore = "needs root: run by ./test"]
fn messages_of_noise_disturb_nothing() {
    for spoken in ALL {
        let manet = Manet::running(spoken, 3);
        manet.settle();
        let port = match spoken.name {
            "aodv" => 654,
            "olsr" => 698,
            _ => 269,
        };
        // Beside the cable of nodes 0 and 1, in the name of a third host.
        manet.run(0, "ip address add 10.66.0.66/32 dev radio0");
        let socket = manet.nets.within(&manet.nodes[0].name, || {
            UdpSocket::bind((Ipv4Addr::new(10, 66, 0, 66), 0)).unwrap()
        });
        socket.set_broadcast(true).unwrap();
        manet.run(0, "ip route add 10.66.0.2/32 dev radio0 metric 1");
        let mut rng = Rng::stream(1, "hostile");

        let before = manet.count(1, "routing_messages_received");
        let mut round = 0_u8;
        let comes = wait_until(SOON, || {
            // No more at once than a socket holds.
            for _ in 0..100 {
                round = round.wrapping_add(1);
                let len = usize::try_from(rng.below(200)).unwrap();
                let mut noise: Vec<u8> = (0..len).map(|_| rng.bits().to_le_bytes()[0]).collect();
                // Some begin as messages of AODV do.
                if let Some(first) = noise.first_mut().filter(|_| round.is_multiple_of(2)) {
                    *first = round % 5;
                }
                let _ = socket.send_to(&noise, (Ipv4Addr::new(10, 66, 0, 2), port));
            }
            manet.count(1, "routing_messages_received") > before + 2_000
        });

        assert!(comes, "{spoken:?}: {}", manet.told(1));
        manet.expect_reachable(2, &address(0));
        let status = manet.status(1);
        assert_eq!(status["services"][0]["restarts"], 0, "{}", manet.told(1));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_neighbour_that_changes_its_routes_all_the_time_writes_few_lines() {
    const ROUTES: u8 = 50;
    const STATIONS: u8 = 100;
    let mut manet = Manet::chain(DSDV, 2);
    manet.configure(0, "", "");
    // As a gateway logs unless asked for more.
    let config = fs::read_to_string(manet.file(0)).unwrap();
    fs::write(manet.file(0), config.replace("log = \"debug\"\n", "")).unwrap();
    manet.start(0);
    // Another's route that is in the way of one of its.
    manet.run(0, "ip route add 10.70.0.0/32 dev radio0 metric 4096");
    let sockets: Vec<_> = (1..=STATIONS)
        .map(|station| {
            manet.run(1, &format!("ip address add 10.66.1.{station}/32 dev radio0"));
            let at = (Ipv4Addr::new(10, 66, 1, station), 269);
            manet.nets.within(&manet.nodes[1].name, || UdpSocket::bind(at).unwrap())
        })
        .collect();
    manet.run(1, "ip route replace 10.66.0.1/32 dev radio0 src 10.66.0.2");
    for station in 1..=STATIONS {
        manet.run(0, &format!("ip route add 10.66.1.{station}/32 dev radio0"));
    }
    let began = Instant::now();

    // Routes that come and go, of the first station, at first a few; what cannot be read whole, of all.
    let mut number = 1;
    let mut change = |routes| {
        for hops in [1, INFINITE.into()] {
            number += 1;
            let mut message = Vec::new();
            for last in 0..routes {
                let destination = Ipv4Addr::new(10, 70, 0, last);
                Entry { destination, hops, number }.emit(&mut message);
            }
            sockets[0].send_to(&message, "10.66.0.1:269").unwrap();
        }
    };
    change(5);
    let comes = wait_until(SOON, || manet.count(0, "routing_routes_removed") >= 4);
    assert!(comes, "{}", manet.told(0));
    let comes = wait_until(SOON, || {
        change(ROUTES);
        for socket in &sockets {
            socket.send_to(&[10, 70, 1, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0], "10.66.0.1:269").unwrap();
        }
        manet.count(0, "routing_routes_removed") > 20 * u64::from(ROUTES)
    });

    assert!(comes, "{}", manet.told(0));
    let noisy = began.elapsed();
    let (_, printed) = manet.program(0).stop();
    expect_bounded(
        &printed,
        noisy,
        &[
            Kind { lines: &["route to=", "route ends to="], most: 30 },
            Kind { lines: &["another's route has this prefix and metric"], most: 1 },
            // Each node is named once, and 64 at most for ever.
            Kind { lines: &["parts of this node's messages cannot be read"], most: 64 },
        ],
    );
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_keeps_the_rights_that_it_needs_and_no_others() {
    for spoken in ALL {
        let mut manet = Manet::running(spoken, 2);

        let pid = manet.program(0).pid().to_string();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        for thread in threads {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            for key in ["CapPrm:", "CapEff:"] {
                let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
                let held = u64::from_str_radix(line.trim(), 16).unwrap();
                assert_eq!(held & !KEPT, 0, "{spoken:?}: {status}");
            }
            assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        }
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn two_nodes_with_one_address_both_say_so() {
    let mut manet = Manet::chain(AODV, 3);
    manet.run(2, "ip address del 10.66.0.3/32 dev radio0");
    manet.run(2, "ip address add 10.66.0.1/32 dev radio0");
    for node in 0..3 {
        manet.configure(node, "delete-period = \"3s\"\n", "");
        manet.start(node);
    }

    // Each node looks for a node that does not exist, and the node between forwards the request.
    let is_said = |manet: &Manet, node: usize| manet.count(node, "aodv_dropped_disputed") > 0;
    let said = wait_until(SOON, || {
        for node in [0, 2] {
            let name = &manet.nodes[node].name;
            manet.nets.try_run(name, "ping -c 1 -W 1 10.66.0.77");
        }
        is_said(&manet, 0) && is_said(&manet, 2)
    });

    assert!(said, "{}\n{}", manet.told(0), manet.told(2));
    for node in [0, 2] {
        let printed = manet.nets.printed(manet.nodes[node].program.unwrap());
        let status = manet.status(node);
        let faults = status["faults"].to_string();
        assert!(faults.contains("another node has the address 10.66.0.1 too"), "{status}");
        assert!(faults.contains("address-disputed"), "{status}");
        assert_eq!(printed.matches("another node has this address too").count(), 1, "{printed}");
    }
    assert!(!is_said(&manet, 1), "{}", manet.told(1));
}

//! Tests the routing port against datagrams of stations in radio range.

use std::net::{Ipv4Addr, UdpSocket};

use base::rng::Rng;

use crate::manet::bed::{ALL, AODV, Manet, address};
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
        let told = manet.told(node);
        let status = manet.status(node);
        let faults = status["faults"].to_string();
        assert!(faults.contains("another node has the address 10.66.0.1 too"), "{status}");
        assert_eq!(told.matches("another node has this address too").count(), 1, "{told}");
    }
    assert!(!is_said(&manet, 1), "{}", manet.told(1));
}

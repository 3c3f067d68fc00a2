//! Tests MANET nodes that reach the Internet: by a half tunnel in AODV, by a default route in other protocols.

use base::ip::{Checksum, rewrite_v4_checksum};

use crate::manet::bed::{ALL, AODV, DSDV, Manet, OLSR, Spoken};
use crate::namespaces::{SOON, wait_until};
use testbed::traffic::Transfer;

/// A host of the Internet.
const SERVER: &str = "198.51.100.7";

/// Three nodes, the last of which is a gateway with a server behind it, and the server's namespace.
fn network(spoken: Spoken) -> (Manet, String) {
    let mut manet = Manet::chain(spoken, 3);
    let server = manet.nets.add("server");
    let gateway = manet.nodes[2].name.clone();
    manet.nets.cable((&gateway, "uplink"), (&server, "eth0"));
    manet.nets.address(&gateway, "uplink", "198.51.100.1/24");
    manet.nets.address(&server, "eth0", &format!("{SERVER}/24"));
    // The Internet knows no route to the MANET: the gateway translates.
    for order in [
        "add table ip nat",
        "add chain ip nat post { type nat hook postrouting priority 100 ; }",
        "add rule ip nat post oifname uplink masquerade",
    ] {
        manet.run(2, &format!("nft {order}"));
    }
    manet.run(2, "sysctl -qw net.ipv4.ip_forward=1");
    manet.run(2, &format!("ip route add default via {SERVER}"));
    let (node, gateway) = match spoken.name {
        "aodv" => ("internet = true\n", "gateway = true\n"),
        "olsr" => ("", "attached = [\"0.0.0.0/0\"]\n"),
        _ => ("", "gateway = true\n"),
    };
    for (position, more) in [node, node, gateway].into_iter().enumerate() {
        manet.configure(position, more, "");
        manet.start(position);
    }
    (manet, server)
}

#[test]
#[ignore = "needs root: run by ./test"]
fn nodes_reach_a_host_of_the_internet_by_the_gateway() {
    for spoken in ALL {
        let (manet, server) = network(spoken);

        manet.expect_reachable(0, SERVER);
        let unanswered = manet.nets.unanswered(&manet.nodes[0].name, SERVER, 5, 1_400);
        assert!(unanswered.is_empty(), "{spoken:?}: {}", manet.told(0));
        Transfer::start(&manet.nodes[0].name, (&server, SERVER), 1_000_000).finish(SOON);
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_gateway_of_aodv_behind_a_dead_link_answers_for_nobody() {
    let (manet, server) = network(AODV);
    manet.nets.run(&server, "ip link set eth0 down");
    let is_told = wait_until(SOON, || manet.status(2)["faults"][0]["code"] == "uplink-down");
    assert!(is_told, "{}", manet.told(2));

    let ping = format!("ping -c 1 -W 1 {SERVER}");
    let said = manet.nets.try_run(&manet.nodes[0].name, &ping);
    assert!(!said.status.success());
    assert_eq!(manet.count(0, "routing_packets_encapsulated"), 0, "{}", manet.told(0));
    manet.nets.run(&server, "ip link set eth0 up");
    manet.expect_reachable(0, SERVER);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_network_behind_a_dead_link_is_not_announced() {
    for spoken in [DSDV, OLSR] {
        expect_announced_while_up(spoken);
    }
}

fn expect_announced_while_up(spoken: Spoken) {
    let (manet, server) = network(spoken);
    manet.expect_reachable(0, SERVER);
    let has_default = |manet: &Manet| manet.run(0, "ip route").contains("default");
    assert!(has_default(&manet), "{}", manet.told(0));

    manet.nets.run(&server, "ip link set eth0 down");

    let is_told = wait_until(SOON, || manet.status(2)["faults"][0]["code"] == "uplink-down");
    assert!(is_told, "{}", manet.told(2));
    let is_gone = wait_until(SOON, || !has_default(&manet));
    assert!(is_gone, "{}", manet.told(0));
    manet.nets.run(&server, "ip link set eth0 up");
    manet.expect_reachable(0, SERVER);
    assert_eq!(manet.status(2)["faults"], serde_json::json!([]), "{}", manet.told(2));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_half_tunnel_ends_at_the_gateway_and_takes_packets_that_fit() {
    let (manet, _server) = network(AODV);
    manet.expect_reachable(0, SERVER);

    for (node, counter) in
        [(0, "routing_packets_encapsulated"), (2, "routing_packets_decapsulated")]
    {
        assert!(manet.count(node, counter) > 0, "{counter}: {}", manet.told(node));
    }
    // In the middle they are packets to the gateway like any others.
    assert_eq!(manet.count(1, "routing_demands"), 0, "{}", manet.told(1));
    let way = manet.run(0, &format!("ip route get {SERVER}"));
    assert!(way.contains("dev trackway-aodv0"), "{way}");
    // 1,500 octets less 8 of the half tunnel: 20 of IP and 8 of ICMP are not the ping's.
    for (len, fits) in [(1_464, true), (1_465, false)] {
        let ping = format!("ping -c 1 -W 1 -M do -s {len} {SERVER}");
        let answered = || manet.nets.try_run(&manet.nodes[0].name, &ping).status.success();
        assert_eq!(if fits { wait_until(SOON, answered) } else { answered() }, fits, "{len}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_half_tunnel_learns_how_long_packets_may_be_further_on() {
    let (manet, server) = network(AODV);
    manet.expect_reachable(0, SERVER);
    // Only the node in the middle knows, and tells it of packets that neither TCP nor the kernel has sent.
    manet.run(1, "ip link set radio1 mtu 1300");

    Transfer::start(&manet.nodes[0].name, (&server, SERVER), 1_000_000).finish(SOON);

    assert!(manet.count(0, "routing_half_tunnels_narrowed") > 0, "{}", manet.told(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn half_tunnels_carry_nothing_into_the_manet_or_from_elsewhere() {
    use std::os::fd::AsRawFd as _;

    use nix::sys::socket::{
        AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
    };

    let (manet, _server) = network(AODV);
    manet.expect_reachable(0, SERVER);
    let raw = manet.nets.within(&manet.nodes[1].name, || {
        socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)
            .unwrap()
    });
    let packet = |source: [u8; 4], destination: [u8; 4]| {
        let mut packet = Vec::new();
        let spec = base::ip::Spec::new(source.into(), destination.into(), 17);
        spec.emit(8, &mut packet);
        packet.extend([0, 9, 0, 9, 0, 8, 0, 0]);
        base::ip::minimal::encapsulate(&mut packet, [10, 66, 0, 3].into()).unwrap();
        packet
    };
    let node = [10, 66, 0, 2];
    let inward = packet(node, [10, 66, 0, 1]);
    let foreign = packet([192, 0, 2, 9], [198, 51, 100, 7]);
    let home = packet(node, [127, 0, 0, 1]);
    // Inside in the gateway's own name, which the kernel would believe of its own device: a header with the original
    // source (RFC 2004, 3.1).
    let mut own = packet(node, [198, 51, 100, 7]);
    own.splice(28..28, [10, 66, 0, 3]);
    own[3] += 4;
    own[21] = 0x80;
    own[22..24].fill(0);
    let sum = Checksum::default().with(&own[20..32]).finish();
    own[22..24].copy_from_slice(&sum.to_be_bytes());
    rewrite_v4_checksum(&mut own[..20]);
    let mut damaged = packet(node, [198, 51, 100, 7]);
    damaged[22] ^= 1;

    for packet in [&inward, &foreign, &home, &own, &damaged] {
        sendto(raw.as_raw_fd(), packet, &SockaddrIn::new(10, 66, 0, 3, 0), MsgFlags::empty())
            .unwrap();
    }

    let counters = || {
        ["misdirected", "from_self", "not_decapsulated"]
            .map(|it| manet.count(2, &format!("routing_packets_{it}")))
    };
    assert!(wait_until(SOON, || counters() == [3, 1, 1]), "{:?} {}", counters(), manet.told(2));
}

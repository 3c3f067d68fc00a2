//! Tests forged packets: of an outer host in the name of routers, and of a peer in the name of others.

use std::net::IpAddr;

use ::gateway::sys::port::{OFFLOAD, Port};
use base::ethernet::{self, Mac};
use base::ip::{Checksum, Spec, protocol, pseudo_header};

use super::{Net, SOON};
use crate::namespaces::wait_until;

/// A path of 1,500 octets, less the headers of each version.
const WHOLE: [u64; 2] = [1_438, 1_418];

/// "Packet too big" about the tunnel's datagrams from one gateway to the other, as a router would say it.
fn too_big(router: IpAddr, from: IpAddr, to: IpAddr, mtu: u16) -> Vec<u8> {
    let mut quoted = Vec::new();
    Spec::new(from, to, protocol::UDP).emit(1_400, &mut quoted);
    let port = 51_900_u16.to_be_bytes();
    quoted.extend_from_slice(&[port, port, 1_400_u16.to_be_bytes(), [0, 0]].concat());
    let [high, low] = mtu.to_be_bytes();
    let (number, mut message, sum) = match from {
        IpAddr::V4(_) => (protocol::ICMP, vec![3, 4, 0, 0, 0, 0, high, low], Checksum::default()),
        IpAddr::V6(_) => {
            let sum = pseudo_header(router, from, protocol::ICMPV6, 8 + quoted.len());
            (protocol::ICMPV6, vec![2, 0, 0, 0, 0, 0, high, low], sum)
        }
    };
    message.extend_from_slice(&quoted);
    let sum = sum.with(&message).finish().to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    let mut packet = Vec::new();
    Spec::new(router, from, number).emit(message.len(), &mut packet);
    packet.extend_from_slice(&message);
    packet
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_a_host_says_of_the_path_in_the_name_of_a_router_makes_no_packet_shorter() {
    for (version, (addresses, mtu)) in
        [(["10.9.1.1", "10.9.1.2"], 576), (["fd09::1", "fd09::2"], 1_280)].into_iter().enumerate()
    {
        let mut net = Net::pair("");
        if version == 1 {
            for (node, interface) in [(0, "eth1"), (1, "eth0")] {
                net.enable_v6(node, interface, &format!("{}/64", addresses[node]));
                net.edit(node, "[tunnel]\n", "[tunnel]\nlisten = \"[::]:51900\"\n");
                let other = format!("10.9.1.{}:51900", 2 - node);
                net.edit(node, &other, &format!("[{}]:51900", addresses[1 - node]));
            }
        }
        net.start_all();
        let mac: Mac = net.run(0, "cat /sys/class/net/eth1/address").trim().parse().unwrap();
        let host = net.nets.within(&net.cables[0].air, || Port::open("a").unwrap());
        let [from, to] = addresses.map(|address| address.parse().unwrap());
        let packet = too_big(to, from, to, mtu);
        let header = ethernet::header(mac, Mac([2, 0, 0, 0, 0, 9]), &packet);
        let frame = [&[0; OFFLOAD][..], &header[..], &packet[..]].concat();
        let is_believed = wait_until(SOON, || {
            host.send(&frame).unwrap();
            let route = net.run(0, &format!("ip route get {}", addresses[1]));
            route.contains(&format!("mtu {}", if version == 0 { 576 } else { 1_280 }))
        });
        assert!(is_believed, "the kernel does not believe it, so it is no attack");

        let (code, said) = net.gateway(0).stop();
        assert_eq!(code, Some(0), "{said}");
        net.start(0);
        net.expect_ping(0, "10.77.0.2");

        let whole = |net: &Net| net.status(0)["tunnels"][0]["whole"].as_u64();
        let is_found = wait_until(SOON, || whole(&net) == Some(WHOLE[version]));
        assert!(is_found, "{}", net.status(0));
        let octets = WHOLE[version] - 28;
        let said = net.try_run(0, &format!("ping -c 3 -i 0.2 -W 60 -M do -s {octets} 10.77.0.2"));
        assert!(said.contains(" 0% packet loss"), "{said}");
        let cut = net.status(0)["tunnels"][0]["packets_cut"].as_u64();
        assert_eq!(cut, Some(0), "{}", net.status(0));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_peer_that_writes_another_source_into_its_datagrams_moves_nobodys_routes() {
    let mut net = Net::star(2, "");
    net.edit(0, "\"10.77.0.3/32\"", "\"10.77.0.3/32\", \"10.60.0.0/16\"");
    net.start_all();
    let claimed = net.claimed(0);
    assert!(!claimed.contains("table 519"), "{claimed}");
    let mut spent = Vec::new();
    for is_forging in [false, true] {
        if is_forging {
            net.run(1, "nft add table ip forge");
            let chain = "{ type filter hook postrouting priority 300 ; }";
            net.run(1, &format!("nft add chain ip forge out {chain}"));
            let sources = "{ 0 : 10.60.0.1, 1 : 10.60.0.2, 2 : 10.60.0.3, 3 : 10.9.1.2 }";
            net.run(1, &format!("nft add rule ip forge out udp sport 51900 ip saddr set numgen inc mod 4 map {sources}"));
        }
        let pid = net.pid(0);
        let before = ticks(pid);
        // An answer each: 1,000 datagrams from wherever, and more that say what has come.
        let said = net.try_run(1, "ping -q -i 0.002 -c 1000 -W 60 10.77.0.1");
        assert!(said.contains(" 0% packet loss"), "{said}");
        spent.push(ticks(pid) - before);
    }
    println!("hundredths of a second of CPU for 1,000 pings, and with forged sources: {spent:?}");

    let status = net.status(0);
    let peer = &status["tunnels"][0];
    assert_eq!(peer["endpoint"], "10.9.1.2:51900", "{peer}");
    assert_eq!(peer["handshakes"]["moves"], 0, "{peer}");
    assert!(peer["handshakes"]["moves_checked"].as_u64().unwrap() >= 4, "{peer}");
    assert!(peer["handshakes"]["moves_unchecked"].as_u64().unwrap() > 50, "{peer}");
    assert_eq!(net.claimed(0), claimed);
    assert!(spent[1] <= 3 * spent[0] + 20, "{spent:?}");
    // It moves when it really does.
    net.run(1, "ip address add 10.9.1.7/24 dev eth0");
    net.run(1, "nft flush chain ip forge out");
    net.run(1, "nft add rule ip forge out udp sport 51900 ip saddr set 10.9.1.7");
    let is_moved = wait_until(SOON, || {
        net.try_run(1, "ping -c 1 -W 1 10.77.0.1");
        net.status(0)["tunnels"][0]["endpoint"] == "10.9.1.7:51900"
    });
    assert!(is_moved, "{}", net.status(0));
    net.expect_pings(1, "10.77.0.1", 3);
}

/// What a process has had of the CPU, in hundredths of a second.
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ');
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

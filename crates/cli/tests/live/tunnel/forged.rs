//! What a host on the outer network says in the name of routers, and a peer in the name of others.

use std::net::IpAddr;

use ::gateway::sys::port::{OFFLOAD, Port};
use proto::ethernet::{self, Mac};
use proto::ip::{Checksum, Spec, protocol, pseudo_header};

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

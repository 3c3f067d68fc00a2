//! Tests which DSCP values observers between tunnel gateways can see.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ::gateway::sys::port::{OFFLOAD, Port};

use super::Net;

/// Expedited forwarding, as the octet of an IP header has it.
const EXPEDITED: u8 = 46 << 2;
/// Every outer packet is ECN-capable, ECT(0).
const CAPABLE: u8 = 2;

#[test]
#[ignore = "needs root: run by ./test"]
fn outer_packets_carry_the_dscp_of_those_inside_if_asked() {
    for is_v6 in [false, true] {
        let mut net = Net::pair("");
        net.append(0, "copy-dscp = true\n");
        let ends = if is_v6 { ["fd09::1", "fd09::2"] } else { ["10.9.1.1", "10.9.1.2"] };
        if is_v6 {
            net.enable_v6(0, "eth1", "fd09::1/64");
            net.enable_v6(1, "eth0", "fd09::2/64");
            for (node, from, to) in [(0, "10.9.1.2", "[fd09::2]"), (1, "10.9.1.1", "[fd09::1]")] {
                net.edit(node, from, to);
                net.edit(node, "[tunnel]\n", "[tunnel]\nlisten = \"[::]:51900\"\n");
            }
        }
        net.start_all();
        for address in ["10.77.0.2", "fd77::2"] {
            net.expect_ping(0, address);
            let [out, back] = [(1, "eth0", ends[1]), (0, "eth1", ends[0])]
                .map(|(node, interface, to)| (net.port(node, interface), to.parse().unwrap()));

            net.run(0, &format!("ping -c 3 -i 0.2 -W 9 -Q {EXPEDITED} {address}"));
            net.run(0, &format!("ping -c 3 -i 0.2 -W 9 {address}"));

            let shown = BTreeSet::from([EXPEDITED | CAPABLE, CAPABLE]);
            assert_eq!(classes(&out), shown, "{address} in {ends:?}");
            // The answers have it inside, too; this end does not show it.
            assert_eq!(classes(&back), BTreeSet::from([CAPABLE]), "{address} in {ends:?}");
        }
    }
}

impl Net {
    fn port(&self, node: usize, interface: &str) -> Port {
        self.nets.within(&self.nodes[node], || Port::open(interface).unwrap())
    }
}

/// The traffic classes of the tunnel's datagrams to an address that came to an interface.
fn classes((port, to): &(Port, IpAddr)) -> BTreeSet<u8> {
    let mut frame = vec![0; 1 << 16];
    let mut classes = BTreeSet::new();
    while let Ok(Some(received)) = port.receive(&mut frame) {
        let packet = &frame[OFFLOAD + 14..received.len];
        let (class, protocol, destination): (u8, u8, IpAddr) = match packet[0] >> 4 {
            4 => (packet[1], packet[9], <[u8; 4]>::try_from(&packet[16..20]).unwrap().into()),
            6 => {
                let class = packet[0] << 4 | packet[1] >> 4;
                (class, packet[6], <[u8; 16]>::try_from(&packet[24..40]).unwrap().into())
            }
            _ => continue,
        };
        if protocol == 17 && destination == *to {
            classes.insert(class);
        }
    }
    classes
}

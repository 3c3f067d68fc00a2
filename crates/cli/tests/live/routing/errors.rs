//! Tests that ICMP errors of routers reach the sender of the packet.

use super::network::{Network, address};

#[test]
#[ignore = "needs root: run by ./test"]
fn errors_from_unknown_addresses_come_back_where_nothing_filters_them() {
    // Node 0 has no route to the addresses of the links further on.
    let mut network = Network::chain(&["", "", ""]);
    for (node, interface) in [(2, "eth1"), (3, "eth0")] {
        network.run(node, &format!("ip link set dev {interface} mtu 1300"));
    }
    let ask = |network: &Network| {
        let ends = format!("-I {} {}", address(0), address(3));
        let expired = network.try_run(0, &format!("ping -c 1 -W 60 -t 2 {ends}"));
        // Longer than the next interface takes, and just as long.
        let too_long = network.try_run(0, &format!("ping -c 1 -W 60 -M do -s 1372 {ends}"));
        let longest = network.try_run(0, &format!("ping -c 1 -W 60 -M do -s 1272 {ends}"));
        (expired, too_long, longest)
    };

    let (plain_expired, plain_too_long, plain_longest) = ask(&network);
    // Hosts forget the path MTU they have learnt.
    network.run(0, "ip route flush cache");
    network.start_gateways(&[0, 1, 2, 3], "");
    let (expired, too_long, longest) = ask(&network);

    let told = format!(
        "plain: {plain_expired}{plain_too_long}{plain_longest}by HBH: {expired}{too_long}{longest}"
    );
    assert!(plain_expired.contains("From 10.9.1.2"), "{told}");
    assert!(plain_too_long.contains("mtu = 1300"), "{told}");
    assert!(plain_longest.contains("1 received"), "{told}");
    assert!(expired.contains("From 10.9.1.2"), "{told}{}", network.statuses());
    assert!(expired.contains("Time to live exceeded"), "{told}");
    // The kernel speaks first; the header of HBH is on the gateway's account.
    assert!(too_long.contains("mtu = 1300"), "{told}{}", network.statuses());
    assert!(longest.contains("mtu = 1288"), "{told}{}", network.statuses());
}

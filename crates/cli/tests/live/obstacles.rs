//! What stands in the way of a tunnel beside firewalls and routes: IPsec, chains and filters at interfaces, ARP, wrong
//! neighbours. Each is a fault of a gateway that runs, `explain` says so of a flow, and the remedy mends it.

use std::time::Duration;

use serde_json::Value;

use crate::namespaces::{SOON, TRACKWAY, wait_until};
use crate::storm::{Bed, TUNNEL};

/// What somebody does to the host, in commands; the code of the fault, and a part of its text.
type Case<'c> = (&'c [&'c str], &'c str, &'c str);

fn run(bed: &Bed, command: &str) -> String {
    // What nftables takes for one word has spaces.
    let words: Vec<_> = match command.split_once(" '") {
        Some((before, quoted)) => {
            before.split(' ').chain([quoted.trim_end_matches('\'')]).collect()
        }
        None => command.split(' ').collect(),
    };
    let said = bed.nets.try_words(&bed.host, &words);
    assert!(said.status.success(), "{command}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8_lossy(&said.stdout).into_owned()
}

fn works(bed: &Bed) -> bool {
    bed.nets.try_run(&bed.host, "ping -c 1 -W 1 10.7.0.9").status.success()
}

fn faults(bed: &Bed) -> Vec<Value> {
    bed.status()["faults"].as_array().unwrap().clone()
}

/// The orders of all remedies that `doctor` names, but those of mere doubts.
fn remedies(bed: &Bed) -> Vec<String> {
    let asked = format!("{TRACKWAY} doctor --json {}", bed.file(0).display());
    let said = bed.nets.try_run(&bed.host, &asked).stdout;
    let found: Vec<Value> = serde_json::from_slice(&said).unwrap();
    let grave = found.iter().filter(|it| it["severity"] != "low" && it["code"] != "forwarding");
    let orders = grave.flat_map(|it| {
        let remedy = it["remedy"].as_str().unwrap();
        let orders = remedy.split(" (").next().unwrap().split("; ");
        orders.filter(|it| !it.starts_with("or ")).map(str::to_owned).collect::<Vec<_>>()
    });
    let mut orders: Vec<_> = orders.collect();
    orders.sort();
    orders.dedup();
    orders
}

fn expect(bed: &Bed, (harm, code, said): Case<'_>) {
    for command in harm {
        run(bed, command);
    }
    let is_it = |it: &Value| it["code"] == code && it["said"].as_str().unwrap().contains(said);
    let is_told = wait_until(SOON, || faults(bed).iter().any(is_it));
    assert!(is_told, "{harm:?}: {:?}", faults(bed));
    assert!(!works(bed), "{harm:?} is in nobody's way");

    for order in remedies(bed) {
        run(bed, &order);
    }

    assert!(wait_until(SOON, || works(bed)), "{harm:?}: {:?}", faults(bed));
    assert!(wait_until(SOON, || faults(bed).is_empty()), "{harm:?}: {:?}", faults(bed));
}

/// What `explain` says is in the way of packets to the far host.
fn obstacle(bed: &Bed) -> String {
    let said =
        bed.nets.try_run(&bed.host, &format!("{TRACKWAY} explain icmp 10.71.0.1 10.7.0.9 --json"));
    let explained: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said.status.success(), explained["obstacle"].is_null(), "{explained}");
    explained["obstacle"].to_string()
}

#[test]
#[ignore = "needs root: run by ./test"]
fn policies_of_ipsec_that_block_are_faults() {
    let bed = Bed::new(TUNNEL);
    expect(
        &bed,
        (
            &["ip xfrm policy add src 10.9.0.1 dst 10.9.0.2 dir out action block"],
            "firewall",
            "of IPsec drops what this host sends to the peer far at 10.9.0.2:51900",
        ),
    );
    expect(
        &bed,
        (
            &["ip xfrm policy add src 10.9.0.2 dst 10.9.0.1 proto udp dir in action block"],
            "firewall",
            "of IPsec drops what the peer far at 10.9.0.2:51900 sends to this host",
        ),
    );
    expect(
        &bed,
        (
            &["ip xfrm policy setdefault out block"],
            "firewall",
            "the default policy of IPsec drops what goes to 10.7.0.0/16 by trackway-nc0",
        ),
    );
    let block = "ip xfrm policy add src 0.0.0.0/0 dst 10.7.0.0/16 dir out action block";
    run(&bed, "ip xfrm policy add src 0.0.0.0/0 dst 10.8.0.0/16 dir out action block");
    assert_eq!(obstacle(&bed), "null");
    run(&bed, block);
    assert!(obstacle(&bed).contains("of IPsec: ip xfrm policy delete index"), "{}", obstacle(&bed));
    run(&bed, "ip xfrm policy flush");
    expect(&bed, (&[block], "firewall", "of IPsec drops what goes to 10.7.0.0/16 by trackway-nc0"));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn chains_and_filters_at_interfaces_that_drop_are_faults() {
    let bed = Bed::new(TUNNEL);
    let table = "nft add table netdev site";
    expect(
        &bed,
        (
            &[
                table,
                "nft 'add chain netdev site in { type filter hook ingress device eth1 priority 0; policy drop; }'",
            ],
            "firewall",
            "the policy of chain netdev site in drops what comes to UDP port 51900",
        ),
    );
    run(&bed, "nft delete table netdev site");
    let chain = "nft 'add chain netdev site out { type filter hook egress devices = { trackway-nc0, lo } priority 0; }'";
    let rule = "nft add rule netdev site out ip daddr 10.7.0.0/16 drop";
    expect(
        &bed,
        (
            &[table, chain, rule],
            "firewall",
            "in chain netdev site out drops what goes to 10.7.0.0/16 by trackway-nc0",
        ),
    );
    run(&bed, "nft delete table netdev site");
    let hole = "tc qdisc replace dev trackway-nc0 root blackhole";
    run(&bed, hole);
    assert!(
        obstacle(&bed).contains("discipline of trackway-nc0: tc qdisc del"),
        "{}",
        obstacle(&bed)
    );
    expect(
        &bed,
        (
            &[hole],
            "firewall",
            "the queueing discipline of trackway-nc0 drops what goes to 10.7.0.0/16",
        ),
    );
    let slow = "tc qdisc replace dev trackway-nc0 root tbf rate 8bit burst 10b limit 1000";
    let told = "the queueing discipline of trackway-nc0 drops what goes to 10.7.0.0/16";
    expect(&bed, (&[slow], "firewall", told));
    run(&bed, "tc qdisc add dev eth1 clsact");
    // A filter that HBH needs too, so that it is there.
    let steals = "tc filter add dev eth1 ingress protocol all pref 6 u32 match u32 0 0 action mirred egress redirect dev lo";
    expect(
        &bed,
        (
            &[steals],
            "firewall",
            "the filter of preference 6 at ingress of eth1 drops messages of ARP",
        ),
    );
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_gateway_with_one_interface_is_told_when_forwarding_is_dropped() {
    let bed = Bed::new(TUNNEL);
    run(&bed, "nft add table inet site");
    run(
        &bed,
        "nft 'add chain inet site forward { type filter hook forward priority 0; policy drop; }'",
    );
    let is_told = || {
        let said = "drops what is forwarded between trackway-nc0 and eth1";
        faults(&bed).iter().any(|it| it["said"].as_str().unwrap().contains(said))
    };
    assert!(wait_until(SOON, is_told), "{:?}", faults(&bed));

    for order in remedies(&bed) {
        run(&bed, &order);
    }

    assert!(wait_until(SOON, || faults(&bed).is_empty()), "{:?}", faults(&bed));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn neighbours_that_cannot_be_found_or_are_wrong_are_faults() {
    let bed = Bed::new(TUNNEL);
    expect(
        &bed,
        (
            &[
                "nft add table arp site",
                "nft 'add chain arp site in { type filter hook input priority 0; policy drop; }'",
                "ip neigh flush all",
            ],
            "firewall",
            "the policy of chain arp site in drops messages of ARP at eth1",
        ),
    );
    run(&bed, "nft delete table arp site");
    let wrong = "ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:99 dev eth1 nud permanent";
    let told = "the hardware address of 10.9.0.2 on eth1 is set by hand to 02:00:00:00:00:99, but ";
    expect(&bed, (&[wrong], "no-route", told));

    // The right one is no fault.
    let link = bed.nets.run(&bed.far, "ip -br link show eth0");
    let right = wrong.replace("02:00:00:00:00:99", link.split_whitespace().nth(2).unwrap());
    run(&bed, &right);
    run(&bed, "sysctl -qw net.ipv4.nexthop_compat_mode=0");
    let has = |code: &str| faults(&bed).iter().any(|it| it["code"] == code);
    // Told by a later look.
    assert!(wait_until(SOON, || has("setting-refused")), "{:?}", faults(&bed));
    assert!(!has("no-route"), "{:?}", faults(&bed));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_wrong_neighbour_is_a_fault_on_ipv6_too() {
    const NEAR: &str = "[tunnel]\nlisten = \"[::]:51900\"\nprivate-key = \"KEY\"\naddresses = [\"10.71.0.1/32\"]\n[[tunnel.peer]]\n\
        name = \"far\"\npublic-key = \"PEER\"\nendpoint = \"[fd09::2]:51900\"\nroutes = [\"10.7.0.0/16\"]\n";
    const FAR: &str = "[tunnel]\nlisten = \"[::]:51900\"\nprivate-key = \"KEY\"\naddresses = [\"10.72.0.1/32\"]\n[[tunnel.peer]]\n\
        name = \"near\"\npublic-key = \"PEER\"\nroutes = [\"10.71.0.1/32\"]\n";
    let bed = Bed::new(TUNNEL.between([NEAR, FAR], ["fd09::1/64", "fd09::2/64"]));

    let wrong = "ip neigh replace fd09::2 lladdr 02:00:00:00:00:99 dev eth1 nud permanent";
    let told = "the hardware address of fd09::2 on eth1 is set by hand to 02:00:00:00:00:99, but ";
    expect(&bed, (&[wrong], "no-route", told));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_bridge_that_takes_the_interface_to_a_peer_is_a_fault() {
    let bed = Bed::new(TUNNEL);
    expect(
        &bed,
        (
            &["ip link add br0 type bridge", "ip link set eth1 master br0"],
            "interface-missing",
            "eth1, which leads to the peer far at 10.9.0.2, is a port of a bridge",
        ),
    );
}

#[test]
#[ignore = "needs root: run by ./test"]
fn neighbour_discovery_that_is_dropped_is_a_fault_where_ipv6_is_carried() {
    const BOTH: &str = "[tunnel]\nprivate-key = \"KEY\"\naddresses = [\"10.71.0.1/32\", \"fd71::1/128\"]\n\
        [[tunnel.peer]]\nname = \"far\"\npublic-key = \"PEER\"\nendpoint = \"10.9.0.2:51900\"\n\
        routes = [\"10.7.0.0/16\", \"fd07::/64\"]\n";
    let harm = [
        "nft add table ip6 site",
        "nft 'add chain ip6 site in { type filter hook input priority 0; policy drop; }'",
        // It tracks no messages of neighbour discovery.
        "nft add rule ip6 site in ct state established,related,new accept",
    ];
    let is_told = |bed: &Bed| {
        let said = "chain ip6 site in drops messages of neighbour discovery at lan0";
        faults(bed).iter().any(|it| it["said"].as_str().unwrap().contains(said))
    };
    let v6 = Bed::new(TUNNEL.configured(BOTH));
    let v4 = Bed::new(TUNNEL);
    for bed in [&v6, &v4] {
        bed.nets.cable((&bed.host, "lan0"), (&bed.aside, "eth0"));
        run(bed, "sysctl -qw net.ipv6.conf.lan0.disable_ipv6=0");
        // For so many seconds the kernel asks for eth1's link-local address, and does not deliver to it: no fault.
        run(bed, "sysctl -qw net.ipv6.conf.eth1.dad_transmits=30");
        run(bed, "sysctl -qw net.ipv6.conf.eth1.disable_ipv6=0");
        bed.nets.address(&bed.host, "lan0", "fd09::1/64");
        for command in harm {
            run(bed, command);
        }
    }
    assert!(wait_until(SOON, || is_told(&v6)), "{:?}", faults(&v6));
    assert!(!is_told(&v4), "{:?}", faults(&v4));
    for bed in [&v6, &v4] {
        assert!(faults(bed).iter().all(|it| it["code"] != "rule-overruled"), "{:?}", faults(bed));
    }

    for order in remedies(&v6).iter().filter(|order| order.contains("ipv6-icmp")) {
        run(&v6, order);
    }
    assert!(wait_until(SOON, || !is_told(&v6)), "{:?}", faults(&v6));

    // Who lets messages pass by their types does so.
    run(&v6, "nft flush chain ip6 site in");
    assert!(wait_until(SOON, || is_told(&v6)), "{:?}", faults(&v6));
    let types =
        "nft add rule ip6 site in icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept";
    run(&v6, types);
    assert!(wait_until(SOON, || !is_told(&v6)), "{:?}", faults(&v6));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_address_without_its_local_route_is_put_back_or_a_fault() {
    let bed = Bed::new(TUNNEL);
    let local =
        |device: &str| run(&bed, &format!("ip route show table local dev {device} type local"));
    let before = local("trackway-nc0");

    run(&bed, "ip route del local 10.71.0.1 dev trackway-nc0 table local");
    let is_back = || local("trackway-nc0") == before;
    assert!(wait_until(Duration::from_secs(1), is_back), "{before}: {}", local("trackway-nc0"));
    assert!(works(&bed), "{:?}", faults(&bed));
    assert_eq!(faults(&bed), [Value::Null; 0]);

    let before = local("eth1");
    expect(
        &bed,
        (
            &["ip route del local 10.9.0.1 dev eth1 table local"],
            "no-route",
            "packets to 10.9.0.1, an address of this host on eth1, are not delivered to it",
        ),
    );
    assert_eq!(local("eth1"), before);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn next_hop_objects_that_cover_a_network_are_named_whatever_the_kernel_tells() {
    let bed = Bed::new(TUNNEL);
    let harm = [
        "sysctl -qw net.ipv4.nexthop_compat_mode=0",
        "ip nexthop add id 8 via 10.9.0.2 dev eth1",
        "ip route add 10.7.0.0/17 nhid 8",
        "ip route add 10.7.128.0/17 nhid 8",
    ];
    for command in harm {
        run(&bed, command);
    }
    let is_told = || {
        let all = faults(&bed);
        let its = all.iter().find(|it| it["code"] == "route-covered");
        its.is_some_and(|it| it["said"].to_string().contains("(10.7.0.0/17, 10.7.128.0/17)"))
    };
    assert!(wait_until(SOON, is_told), "{:?}", faults(&bed));

    for order in remedies(&bed) {
        run(&bed, &order);
    }

    assert!(wait_until(SOON, || works(&bed) && faults(&bed).is_empty()), "{:?}", faults(&bed));
}

//! Tests nested networks, a peer with the default route, and networks reachable by other routes.

use super::{Net, SOON, TRACKWAY};
use crate::namespaces::wait_until;
use testbed::traffic::{ENDLESS, Transfer};

/// Where peer 1 is called: by the default route.
const ENDPOINT: &str = "203.0.113.1";
/// Addresses beyond peer 1, and beyond peer 2, which has half of that network.
const FAR: [&str; 3] = ["198.51.100.1", "198.51.100.200", "fd51::1"];

impl Net {
    /// Gateway 0; peer 1 as the exit to all networks, reached by the default route; and peer 2 with its own networks,
    /// on the local network of gateway 0.
    fn with_exit() -> Self {
        let net = Self::star(2, "--rate 5mbit");
        net.edit(0, "\"10.77.0.2/32\"", "\"0.0.0.0/0\", \"::/0\", \"10.77.0.2/32\"");
        net.edit(0, "\"10.77.0.3/32\"", "\"10.77.0.3/32\", \"198.51.100.128/25\"");
        net.edit(0, "10.9.1.2:51900", &format!("{ENDPOINT}:51900"));
        net.enable_v6(0, "eth1", "fd09::1/64");
        net.enable_v6(1, "eth0", "fd09::2/64");
        net.run(0, "ip route add default via 10.9.1.2");
        net.run(0, "ip route add default via fd09::2");
        net.run(0, "sysctl -qw net.ipv4.conf.eth1.rp_filter=1");
        net.run(1, "sysctl -qw net.ipv6.conf.lo.disable_ipv6=0");
        for address in [ENDPOINT, FAR[0], FAR[2]] {
            net.run(1, &format!("ip address add {address} dev lo"));
        }
        // What it sends comes from where it is called.
        net.run(1, &format!("ip route replace 10.9.1.0/24 dev eth0 src {ENDPOINT}"));
        net.run(2, &format!("ip address add {} dev lo", FAR[1]));
        net
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_exit_peer_beside_another_leaves_endpoint_and_administrator_in_reach() {
    let mut net = Net::with_exit();
    let administrator = Transfer::start(&net.nodes[2], (&net.nodes[0], "10.9.2.1"), ENDLESS);
    administrator.wait_for(100_000, SOON);
    let goes_on = |administrator: &Transfer| {
        administrator.wait_for(administrator.received() + 200_000, SOON);
    };
    net.start_all();
    FAR.iter().for_each(|address| net.expect_ping(0, address));
    assert_eq!(net.clear((1, "eth0"), &FAR), 0);
    assert_eq!(net.clear((2, "eth0"), &FAR), 0);
    let tunnels = net.status(0)["tunnels"].clone();
    assert_eq!(tunnels[0]["endpoint"], format!("{ENDPOINT}:51900"), "{tunnels}");
    goes_on(&administrator);
    // The longest route decides between peers.
    let before = tunnels[1]["packets_in"].as_u64().unwrap();
    net.expect_pings(0, FAR[1], 5);
    let tunnels = net.status(0)["tunnels"].clone();
    assert!(tunnels[1]["packets_in"].as_u64().unwrap() >= before + 5, "{tunnels}");
    let strict = net.run(0, "sysctl -n net.ipv4.conf.eth1.rp_filter");
    assert_eq!(strict.trim(), "2");

    // Gone without a word: only the local network is reached.
    net.crash(0);
    assert_eq!(net.clear((1, "eth0"), &FAR), 0, "{}", net.claimed(0));
    assert_eq!(net.clear((2, "eth0"), &FAR), 0, "{}", net.claimed(0));
    goes_on(&administrator);
    net.expect_pings(2, "10.9.2.1", 3);

    net.start(0);
    FAR.iter().for_each(|address| net.expect_ping(0, address));
    net.run(0, "ip rule del pref 30769");
    let is_back = wait_until(SOON, || net.run(0, "ip rule").contains("30769:"));
    assert!(is_back, "{}", net.run(0, "ip rule"));
    let (code, said) = net.gateway(0).stop();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(net.claimed(0), "");
    goes_on(&administrator);
    administrator.end();
    assert_eq!(net.clear((1, "eth0"), &[FAR[0], FAR[2]]), 4);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn datagrams_whose_mark_a_firewall_changes_do_not_go_round_and_a_fault_says_so() {
    let mut net = Net::with_exit();
    net.start_all();
    let looped = |net: &Net| net.count(0, "tunnel_datagrams_looped");
    let is_told = |net: &Net| net.status(0)["faults"].to_string().contains("changes their mark");
    net.expect_ping(0, FAR[0]);
    assert_eq!(looped(&net), 0);
    let datagrams = |net: &Net| net.status(0)["tunnels"][0]["datagrams_sent"].as_u64().unwrap();
    let before = datagrams(&net);

    net.run(0, "nft add table inet other");
    net.run(0, "nft add chain inet other out { type route hook output priority mangle ; }");
    net.run(0, "nft add rule inet other out meta l4proto udp meta mark set 0x9");
    net.try_run(0, &format!("ping -c 3 -i 0.2 -W 0.2 {}", FAR[0]));
    assert!(wait_until(SOON, || is_told(&net)), "{}", net.status(0));
    let sent = datagrams(&net) - before;
    assert!(looped(&net) > 0 && sent < 200, "{sent} sent, {} come back", looped(&net));

    net.run(0, "nft delete table inet other");
    net.expect_ping(0, FAR[0]);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_network_that_holds_a_peers_endpoint_does_not_swallow_the_tunnel() {
    let mut net = Net::pair("");
    net.run(1, &format!("ip address add {ENDPOINT} dev lo"));
    net.run(1, "ip address add 203.0.113.9 dev lo");
    net.run(0, "ip route add default via 10.9.1.2");
    net.edit(0, "\"10.77.0.2/32\"", "\"10.77.0.2/32\", \"203.0.113.0/24\"");
    net.edit(0, "10.9.1.2:51900", &format!("{ENDPOINT}:51900"));
    net.run(1, &format!("ip route replace 10.9.1.0/24 dev eth0 src {ENDPOINT}"));
    net.start_all();

    net.expect_ping(0, "203.0.113.9");
    assert_eq!(net.clear((1, "eth0"), &["203.0.113.9", ENDPOINT]), 0);
    net.expect_ping(0, "10.77.0.2");

    // An address that is not configured, but lies within a network of the peer: a restarted gateway calls from the
    // address its kernel chooses.
    net.edit(0, "203.0.113.0/24", "10.9.0.0/16");
    net.run(1, "ip route replace 10.9.1.0/24 dev eth0 src 10.9.1.2");
    net.run(0, &format!("{TRACKWAY} reload"));
    net.crash(1);
    net.start(1);
    net.expect_ping(0, "10.77.0.2");
    let is_moved =
        wait_until(SOON, || net.claimed(0).contains("10.9.0.0/16 dev trackway-nc0 table 51916"));
    assert!(is_moved, "{}", net.claimed(0));
    net.expect_pings(0, "10.77.0.2", 3);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_network_that_another_route_leads_to_is_refused_or_replaced_when_asked() {
    let mut net = Net::pair("");
    net.run(0, "ip route add 10.60.0.0/16 via 10.9.1.2");
    net.run(1, "ip address add 10.60.0.1 dev lo");
    net.edit(0, "\"10.77.0.2/32\"", "\"10.77.0.2/32\", \"10.60.0.0/16\"");

    let file = net.nets.folder().join("0.toml");
    let refused =
        net.nets.try_run(&net.nodes[0], &format!("timeout 20 {TRACKWAY} run {}", file.display()));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let expected = "the route of peer1 to 10.60.0.0/16: there is one already, \
                    `10.60.0.0/16 via 10.9.1.2 dev eth1`";
    assert!(said.contains(expected), "{said}");
    assert!(said.contains("tunnel.replace-routes = true"), "{said}");
    assert_eq!(net.claimed(0), "");

    net.edit(0, "[tunnel]", "[tunnel]\nreplace-routes = true");
    net.start_all();
    net.expect_ping(0, "10.60.0.1");
    assert_eq!(net.clear((1, "eth0"), &["10.60.0.1"]), 0);
    net.crash(0);
    assert_eq!(net.clear((1, "eth0"), &["10.60.0.1"]), 0);
    net.start(0);
    net.expect_ping(0, "10.60.0.1");
    net.gateway(0).stop();
    assert_eq!(net.clear((1, "eth0"), &["10.60.0.1"]), 2);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_route_of_others_with_a_greater_metric_is_no_hindrance_and_no_way_out() {
    let mut net = Net::pair("");
    net.enable_v6(0, "eth1", "fd09::1/64");
    net.enable_v6(1, "eth0", "fd09::2/64");
    net.run(0, "ip route add 10.60.0.0/16 via 10.9.1.2 metric 100");
    net.run(0, "ip route add fd60::/64 via fd09::2 metric 1025");
    net.run(1, "sysctl -qw net.ipv6.conf.lo.disable_ipv6=0");
    net.run(1, "ip address add 10.60.0.1 dev lo");
    net.run(1, "ip address add fd60::1 dev lo");
    let routes = "\"10.77.0.2/32\", \"10.60.0.0/16\", \"fd60::/64\"";
    net.edit(0, "\"10.77.0.2/32\"", routes);
    let beyond = ["10.60.0.1", "fd60::1"];

    net.start_all();
    beyond.iter().for_each(|address| net.expect_ping(0, address));
    assert_eq!(net.clear((1, "eth0"), &beyond), 0);
    net.crash(0);
    assert_eq!(net.clear((1, "eth0"), &beyond), 0, "{}", net.claimed(0));

    // Who may fail open has it for the time without a tunnel.
    net.edit(0, "[tunnel]", "[tunnel]\nfail-open = true");
    net.start(0);
    net.expect_ping(0, "10.60.0.1");
    assert_eq!(net.clear((1, "eth0"), &beyond[..1]), 0);
    assert!(!net.claimed(0).contains("rule"), "{}", net.claimed(0));
    net.crash(0);
    assert_eq!(net.clear((1, "eth0"), &beyond[..1]), 2);

    // One that is as good would share the packets, or win.
    for (better, said) in [
        ("10.60.0.0/16 via 10.9.1.2", "10.60.0.0/16 via 10.9.1.2 dev eth1"),
        ("fd60::/64 via fd09::2 metric 1024", "fd60::/64 via fd09::2 dev eth1 metric 1024"),
    ] {
        net.run(0, &format!("ip route add {better}"));
        let file = net.nets.folder().join("0.toml");
        let command = format!("timeout 20 {TRACKWAY} run {}", file.display());
        let refused = net.nets.try_run(&net.nodes[0], &command);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{why}");
        assert!(why.contains(&format!("there is one already, `{said}`")), "{why}");
        net.run(0, &format!("ip route del {better}"));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_version_of_ip_that_the_peer_does_not_have_is_warned_of_and_can_be_refused() {
    let mut net = Net::with_exit();
    net.edit(0, "\"0.0.0.0/0\", \"::/0\"", "\"0.0.0.0/0\"");
    let check = |net: &Net| {
        let file = net.nets.folder().join("0.toml");
        let output =
            net.nets.try_run(&net.nodes[0], &format!("{TRACKWAY} check {}", file.display()));
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (is_right, said) = check(&net);
    assert!(is_right && said.contains("IPv6 leaves in clear beside them"), "{said}");
    net.start_all();
    let said = net.gateway(0).printed();
    assert!(said.contains("IPv6 leaves in clear beside them"), "{said}");
    let faults = net.status(0)["faults"].to_string();
    assert!(faults.contains("IPv6 leaves in clear beside them"), "{}", net.status(0));
    assert_eq!(net.clear((1, "eth0"), &[FAR[2]]), 2, "it does");
    let (code, said) = net.gateway(0).stop();
    assert_eq!(code, Some(0), "{said}");

    net.edit(0, "[tunnel]\n", "[tunnel]\nblock-ipv6 = true\n");
    let (is_right, said) = check(&net);
    assert!(is_right && !said.contains("in clear"), "{said}");
    net.start(0);
    net.expect_ping(0, FAR[0]);
    assert_eq!(net.clear((1, "eth0"), &[FAR[2]]), 0, "{}", net.claimed(0));
    assert!(!net.status(0)["faults"].to_string().contains("in clear"), "{}", net.status(0));
    let (code, said) = net.gateway(0).stop();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(net.claimed(0), "");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_device_by_the_name_of_an_interface_is_refused_before_anything_starts() {
    let net = Net::pair("");
    net.edit(0, "[tunnel]\n", "[tunnel]\ndevice = \"eth1\"\n");

    let file = net.nets.folder().join("0.toml");
    let output = net.nets.try_run(&net.nodes[0], &format!("{TRACKWAY} check {}", file.display()));

    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("tunnel.device: \"eth1\" is an interface of this host already"),
        "{said}"
    );
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_firewall_that_drops_what_the_tunnel_sends_is_named_in_the_log() {
    let mut net = Net::pair("");
    net.run(0, "nft add table inet strict");
    net.run(0, "nft add chain inet strict out { type filter hook output priority 0 ; }");
    net.run(0, "nft add rule inet strict out udp sport 51900 drop");
    net.start(0);

    net.gateway(0).wait_for("this host refuses to send datagrams of the tunnel", SOON);
}

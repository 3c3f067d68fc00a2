//! Tests faults of a running gateway: each is named while it lasts, with a code for programs, and an exit status.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;

use super::{Net, SOON, TRACKWAY};
use crate::namespaces::wait_until;

impl Net {
    /// The exit status of `trackway status`, and what it prints.
    fn asked(&self, node: usize) -> (Option<i32>, String) {
        let output = self.nets.try_run(&self.nodes[node], &format!("{TRACKWAY} status"));
        let said = [output.stdout, output.stderr];
        let said = said.map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        (output.status.code(), said)
    }

    pub fn expect_asked(&self, node: usize, expected: (i32, &str)) {
        let is_so = wait_until(SOON, || {
            let (code, said) = self.asked(node);
            code == Some(expected.0) && said.contains(expected.1)
        });
        assert!(is_so, "{expected:?}: {:?}", self.asked(node));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_address_to_listen_at_that_is_gone_is_a_fault_while_it_is_gone() {
    let mut net = Net::pair("");
    net.edit(0, "[tunnel]", "[tunnel]\nlisten = \"10.9.1.1:51900\"");
    net.expect_asked(0, (4, "no gateway runs in this network namespace"));
    net.start_all();
    net.expect_asked(0, (0, "tunnel: running"));

    net.run(0, "ip address del 10.9.1.1/24 dev eth1");
    net.expect_asked(0, (3, "fault: tunnel.listen names 10.9.1.1, no address of this host"));
    let fault = net.status(0)["faults"][0].clone();
    assert_eq!(
        (&fault["code"], &fault["severity"]),
        (&"listen-address-gone".into(), &"high".into())
    );

    // The order works as it is printed, and gives back what there was.
    let said = fault["said"].as_str().unwrap();
    let order = said.split('`').nth(1).unwrap();
    assert_eq!(order, "ip address add 10.9.1.1/24 dev eth1", "{said}");
    net.run(0, order);
    net.expect_asked(0, (0, "tunnel: running"));
    let (_, said) = net.gateway(0).stop();
    for told in ["fault code=listen-address-gone", "fault has ended code=listen-address-gone"] {
        assert_eq!(said.matches(told).count(), 1, "{told}: {said}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn without_descriptors_callers_are_missed_and_the_operator_is_told() {
    let mut net = Net::pair("");
    // A limit of another user's process is not ours to change.
    let node = "user = \"root\"\n[s5066]\naddress = \"0.0.0.1\"\nmodem = \"127.0.0.1:3000\"\nwaveform = \"9600/short\"\n";
    net.write_config(0, &net.keys, node);
    net.start_all();
    let pid = net.pid(0);
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let open: BTreeSet<u32> = open.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect();
    let free = (0..).find(|number| !open.contains(number)).unwrap();

    net.run(0, &format!("prlimit --pid {pid} --nofile={free}:"));
    let callers: Vec<_> = net.nets.within(&net.nodes[0], || {
        (0..16).map(|_| TcpStream::connect("127.0.0.1:5066").unwrap()).collect()
    });
    net.expect_asked(0, (3, "fault: s5066: clients are not accepted"));
    assert!(net.asked(0).1.contains("[descriptors-exhausted]"), "{:?}", net.asked(0));

    net.run(0, &format!("prlimit --pid {pid} --nofile=1024:"));
    net.expect_asked(0, (0, "s5066: running"));
    drop(callers);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_device_keeps_its_mtu_and_its_addresses_as_sources() {
    let mut net = Net::pair_with_default_routes();
    net.start_all();
    let mtu = |net: &Net| -> u32 {
        net.run(0, "cat /sys/class/net/trackway-nc0/mtu").trim().parse().unwrap()
    };
    let is_searched = wait_until(SOON, || mtu(&net) > 1_300);
    assert!(is_searched, "{}", mtu(&net));

    // Below 1280 the kernel takes IPv6 from the device too.
    for other in [1_300, 1_000] {
        let (before, claimed) = (mtu(&net), net.claimed(0));
        net.run(0, &format!("ip link set trackway-nc0 mtu {other}"));
        let is_back = wait_until(SOON, || mtu(&net) >= before && net.claimed(0) == claimed);
        assert!(is_back, "{other}: {}, {}", mtu(&net), net.claimed(0));
    }
    for (added, to, source) in [
        ("10.77.0.200/24", "10.77.0.2", "src 10.77.0.1 "),
        ("fd77::200/64", "fd77::2", "src fd77::1 "),
        ("fd77:ffff::1/128", "fd77::2", "src fd77::1 "),
    ] {
        net.run(0, &format!("ip address add {added} dev trackway-nc0"));
        let way = net.run(0, &format!("ip route get {to}"));
        assert!(way.contains(source), "{added}: {way}");
    }
    net.run(0, "ip route change 10.77.0.2 dev trackway-nc0 proto 117 scope link src 10.9.1.1");
    let is_back =
        wait_until(SOON, || net.run(0, "ip route get 10.77.0.2").contains("src 10.77.0.1 "));
    assert!(is_back, "{}", net.claimed(0));
    // With the address goes the source of IPv6's route, of which the kernel says nothing.
    net.run(0, "ip address del fd77::1/64 dev trackway-nc0");
    let is_back = wait_until(SOON, || net.run(0, "ip route get fd77::2").contains("src fd77::1 "));
    assert!(is_back, "{}", net.claimed(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn numbers_of_others_are_a_fault_and_others_can_be_chosen() {
    let mut net = Net::pair_with_default_routes();
    net.edit(0, "\"10.77.0.2/32\"", "\"0.0.0.0/0\", \"10.77.0.2/32\"");
    net.edit(0, "[tunnel]", "[tunnel]\nblock-ipv6 = true");
    let foreign = [
        "route add 198.51.100.0/24 dev eth1 table 51900",
        "route add 203.0.113.0/24 via 10.9.1.2 proto 117",
        "route add 192.0.2.0/24 dev eth1 proto 117",
        "rule add pref 29000 from 192.0.2.0/24 fwmark 0x5 lookup 7 protocol 117",
        "rule add pref 30769 to 198.51.100.0/24 table main",
    ];
    foreign.iter().for_each(|it| drop(net.run(0, &format!("ip {it}"))));
    net.start_all();

    for said in [
        "our table 51900: 198.51.100.0/24 dev eth1 table 51900; `tables` in [host]",
        "our protocol number 117: 203.0.113.0/24 via 10.9.1.2 dev eth1; `protocols` in [host]",
        "our protocol number 117: 192.0.2.0/24 dev eth1; `protocols` in [host]",
        "our protocol number 117: `ip rule show pref 29000`; `protocols` in [host]",
        "our priority 30769: `ip rule show pref 30769`; `priorities` in [host]",
    ] {
        net.expect_asked(0, (3, said));
    }
    assert!(net.asked(0).1.contains("[numbers-clash]"), "{:?}", net.asked(0));
    let of_rule = "our priority 30769";
    net.run(0, "ip rule del pref 30769 to 198.51.100.0/24 table main");
    assert!(wait_until(SOON, || !net.asked(0).1.contains(of_rule)), "{:?}", net.asked(0));
    net.run(0, "ip rule add pref 30769 to 198.51.100.0/24 table main");
    net.expect_asked(0, (3, of_rule));
    let (code, said) = net.gateway(0).stop();
    assert_eq!(code, Some(0), "{said}");
    let left = [net.run(0, "ip route show table all"), net.run(0, "ip rule")].concat();
    for theirs in [
        "198.51.100.0/24 dev eth1 table 51900",
        "203.0.113.0/24 via 10.9.1.2",
        "192.0.2.0/24 dev eth1",
        "29000:",
        "30769:",
    ] {
        assert!(left.contains(theirs), "{theirs}: {left}");
    }

    let numbers = "[host]\ntables = 7000\npriorities = 20000\nprotocols = 66\nmarks = 4660\n";
    net.edit(0, "[tunnel]", &format!("{numbers}[tunnel]"));
    net.start(0);
    net.expect_ping(0, "10.77.0.2");
    net.expect_asked(0, (0, "tunnel: running"));
    let claimed = net.nets.claimed(&net.nodes[0], 67);
    assert!(claimed.contains("default dev trackway-nc0 table 7000"), "{claimed}");
    assert!(claimed.contains("not from all fwmark 0x1234776c lookup 7000"), "{claimed}");
    net.crash(0);
    let said = net.run(0, &format!("{TRACKWAY} down"));
    assert!(said.contains("removed: unreachable 0.0.0.0/0 in table 7000"), "{said}");
    assert_eq!(net.nets.claimed(&net.nodes[0], 67), "");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_setting_of_whose_change_the_kernel_says_nothing_is_put_back() {
    let mut net = Net::pair("");
    net.start_all();
    let setting = "net.ipv4.conf.trackway-nc0.accept_local";
    let value = |net: &Net| net.run(0, &format!("sysctl -n {setting}")).trim().to_owned();
    assert_eq!(value(&net), "1");

    net.run(0, &format!("sysctl -qw {setting}=0"));

    let is_back = wait_until(SOON, || value(&net) == "1");
    assert!(is_back, "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_others_put_in_the_way_of_packets_is_a_fault_while_it_is_there() {
    let mut net = Net::pair("");
    net.run(0, "sysctl -qw net.ipv4.ip_forward=1");
    // Stands there from the start, and concerns other hosts, of which there may be none.
    net.run(0, "sysctl -qw net.ipv4.conf.default.forwarding=1");
    net.run(0, "ip link add early0 type veth peer name early1");
    net.run(0, "sysctl -qw net.ipv4.conf.early0.forwarding=0");
    net.run(0, "ip link add lan0 type veth peer name lan1");
    net.run(0, "ip address add 10.99.0.1/24 dev lan0");
    net.run(0, "ip link set lan1 up");
    net.run(0, "ip link set lan0 up");
    net.start_all();
    net.expect_asked(0, (0, "tunnel: running"));
    let chain = |hook: &str, rest: &str| {
        let file = net.nets.folder().join(format!("{hook}.nft"));
        let chain = format!("type filter hook {hook} priority 0; {rest}");
        fs::write(&file, format!("table inet other {{\nchain c {{\n{chain}\n}}\n}}\n")).unwrap();
        format!("nft -f {}", file.display())
    };
    let forward = chain("forward", "policy drop");
    let output = chain("output", "udp dport 51900 drop");
    let input = chain("input", "udp dport 51900 drop");
    let marks = chain("prerouting", "tcp dport 443 meta mark set 0x7472776c");

    for (comes, goes, said) in [
        (
            "sysctl -qw net.ipv4.ip_forward=0",
            "sysctl -qw net.ipv4.ip_forward=1",
            "fault: net.ipv4.ip_forward is 0",
        ),
        (
            "sysctl -qw net.ipv4.conf.eth1.forwarding=0",
            "sysctl -qw net.ipv4.conf.eth1.forwarding=1",
            "fault: net.ipv4.conf.eth1.forwarding is 0",
        ),
        (
            &forward,
            "nft delete table inet other",
            "drops what is forwarded between trackway-nc0 and lan0",
        ),
        (
            &output,
            "nft delete table inet other",
            "drops what this host sends to the peer peer1 at 10.9.1.2:51900",
        ),
        (&input, "nft delete table inet other", "drops what comes to UDP port 51900"),
        (
            "ip address del 10.9.1.1/24 dev eth1",
            "ip address add 10.9.1.1/24 dev eth1",
            "fault: no route leads to the peer peer1 at 10.9.1.2",
        ),
        (
            "ip rule add pref 60 fwmark 0x7472776c unreachable",
            "ip rule del pref 60",
            "fault: no route leads to the peer peer1 at 10.9.1.2",
        ),
        (
            "ip route add 10.9.1.2 dev trackway-nc0",
            "ip route del 10.9.1.2 dev trackway-nc0",
            "fault: the way to the peer peer1 at 10.9.1.2 leads into trackway-nc0 itself",
        ),
        (
            "ip route add default via 10.9.1.2 table 99; ip rule add pref 50 table 99",
            "ip rule del pref 50",
            "fault: packets to 10.77.0.2/32 bypass our device",
        ),
        // The kernel tells nobody of this setting, so something else has to change.
        (
            "sysctl -qw net.ipv4.nexthop_compat_mode=0; ip link set lan0 alias a",
            "sysctl -qw net.ipv4.nexthop_compat_mode=1; ip link set lan0 alias b",
            "fault: net.ipv4.nexthop_compat_mode is 0",
        ),
        (
            "ip rule add pref 50 iif lan0 table 99",
            "ip rule del pref 50",
            "rule of priority 50 (such as from 10.99.0.2 iif lan0) bypass our device",
        ),
        (
            "ip rule add pref 50 from 10.99.0.0/24 table 99",
            "ip rule del pref 50",
            "rule of priority 50 (such as from 10.99.0.2 iif lan0) bypass our device",
        ),
        (
            "ip rule add pref 50 tos 0x10 table 99",
            "ip rule del pref 50",
            "rule of priority 50 (such as tos 0x10) bypass our device",
        ),
        (
            "ip rule add pref 50 ipproto icmp table 99",
            "ip rule del pref 50",
            "rule of priority 50 (such as ipproto 1) bypass our device",
        ),
        (
            "ip rule add pref 50 ipproto tcp sport 1000-2000 dport 443 table 99",
            "ip rule del pref 50",
            "rule of priority 50 (such as ipproto 6 sport 1000 dport 443) bypass our device",
        ),
        (
            "ip rule add pref 50 uidrange 1234-1240 table 99",
            "ip rule del pref 50",
            "rule of priority 50 (such as uid 1234) bypass our device",
        ),
        (&marks, "nft delete table inet other", "gives packets the mark 0x7472776c, which is ours"),
        (
            "ip link set trackway-nc0 carrier off",
            "ip link set trackway-nc0 up carrier on",
            "trackway-nc0 has no carrier, or is down",
        ),
        (
            "ip rule add pref 50 to 10.77.0.0/24 unreachable",
            "ip rule del pref 50",
            "fault: packets to 10.77.0.2/32 are refused: another program's rule, or its refusing route",
        ),
        (
            "ip rule add pref 50 from 10.99.0.2 prohibit",
            "ip rule del pref 50",
            "rule of priority 50 (such as from 10.99.0.2 iif lan0) are refused",
        ),
    ] {
        for command in comes.split("; ") {
            net.run(0, command);
        }
        net.expect_asked(0, (3, said));
        let explained = match said {
            _ if said.contains("sends to the peer") => Some(("icmp 10.77.0.1 10.77.0.2", said)),
            _ if comes.contains("icmp") => {
                Some(("icmp 10.77.0.1 10.77.0.2", "the kernel's route leads to eth1"))
            }
            _ if comes.contains("tos") => Some((
                "icmp 10.77.0.1 10.77.0.2",
                "goes elsewhere if its type of service is 0x10: `ip rule show pref 50`",
            )),
            _ if said.contains("mark") => Some((
                "tcp 10.99.0.2:7 10.77.0.2:443",
                "may be given the mark 0x7472776c, which is ours, by the rule with handle",
            )),
            _ => None,
        };
        if let Some((flow, answer)) = explained {
            let asked = net.nets.try_run(&net.nodes[0], &format!("{TRACKWAY} explain {flow}"));
            let text = String::from_utf8(asked.stdout).unwrap();
            let is_sure = said.contains("sends to the peer");
            assert!(asked.status.success() != is_sure && text.contains(answer), "{text}");
        }
        goes.split("; ").for_each(|order| drop(net.run(0, order)));
        net.expect_asked(0, (0, "tunnel: running"));
    }
    // The table against packets in clear knows our devices by their group.
    net.run(0, "ip link set trackway-nc0 group 7");
    let has_group = || net.run(0, "ip -o link show dev trackway-nc0").contains("group 1953658731");
    assert!(wait_until(SOON, has_group), "{}", net.run(0, "ip -o link show dev trackway-nc0"));
    net.expect_ping(0, "10.77.0.2");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn longer_routes_of_others_are_a_fault_while_together_they_cover_a_network() {
    let mut net = Net::pair("");
    net.edit(0, "\"10.77.0.2/32\"", "\"10.77.0.2/32\", \"10.60.0.0/16\", \"0.0.0.0/0\"");
    net.start_all();
    net.expect_asked(0, (0, "tunnel: running"));
    let by = "via 10.9.1.2";
    let explained = |to: &str| {
        let asked = format!("{TRACKWAY} explain icmp 10.77.0.1 {to}");
        String::from_utf8(net.nets.try_run(&net.nodes[0], &asked).stdout).unwrap()
    };

    for (to, halves, how) in [
        (
            "10.60.0.9",
            [format!("10.60.0.0/17 {by}"), format!("10.60.128.0/17 {by}")],
            "(10.60.0.0/17, 10.60.128.0/17) bypass our device, perhaps in clear, for all packets to 10.60.0.0/16: ip route \
             delete 10.60.0.0/17; ip route delete 10.60.128.0/17; or take",
        ),
        (
            "198.18.0.9",
            [format!("128.0.0.0/1 {by}"), format!("0.0.0.0/1 {by}")],
            "(0.0.0.0/1, 128.0.0.0/1) bypass our device, perhaps in clear, for all packets to 0.0.0.0/0",
        ),
        (
            "",
            ["blackhole 10.60.0.0/17".to_owned(), "unreachable 10.60.128.0/17".to_owned()],
            "(10.60.0.0/17, 10.60.128.0/17) refuse all packets to 10.60.0.0/16",
        ),
    ] {
        for half in &halves {
            net.run(0, &format!("ip route add {half}"));
        }
        net.expect_asked(0, (3, how));
        net.expect_asked(0, (3, "[route-covered]"));
        // One alone is the right of others, and `explain` tells of it.
        net.run(0, &format!("ip route del {}", halves[1]));
        net.expect_asked(0, (0, "tunnel: running"));
        let said = explained(to);
        assert!(to.is_empty() || said.contains("in clear, past our device for"), "{said}");
        net.run(0, &format!("ip route del {}", halves[0]));
        let said = explained(to);
        assert!(!said.contains("in clear, past our device"), "{said}");
    }
    net.run(0, "ip route add default via 10.9.1.2 table 99");
    net.run(0, "ip rule add pref 50 table 99");
    let all = "packets to 0.0.0.0/0, 10.60.0.0/16, 10.77.0.2/32 bypass our device, and may leave in clear";
    net.expect_asked(0, (3, all));
    // The examination finds the rule too: `doctor` tells of it once.
    let file = net.nets.folder().join("0.toml");
    let doctor = net.try_run(0, &format!("{TRACKWAY} doctor {}", file.display()));
    assert_eq!(doctor.matches("[rule-overruled]").count(), 1, "{doctor}");
    net.run(0, "ip rule del pref 50");
    net.expect_asked(0, (0, "tunnel: running"));
}

/// As hosts with virtual routing tables (VRF) move it.
#[test]
#[ignore = "needs root: run by ./test"]
fn a_rule_for_this_hosts_own_addresses_that_comes_after_ours_is_a_fault() {
    let mut net = Net::pair("");
    net.edit(0, "\"10.77.0.2/32\"", "\"10.77.0.2/32\", \"0.0.0.0/0\", \"::/0\"");
    net.start_all();
    // The kernel keeps the address, and does not take it for this host's.
    net.run(0, "ip link add down0 type veth peer name down1");
    net.run(
        0,
        "sysctl -qw net.ipv6.conf.down0.disable_ipv6=0 net.ipv6.conf.down0.keep_addr_on_down=1",
    );
    net.run(0, "ip address add fd55::1/64 dev down0 nodad");
    net.run(0, "ip link set down0 up");
    net.run(0, "ip link set down0 down");
    net.expect_asked(0, (0, "tunnel: running"));

    net.run(0, "ip rule add pref 32765 lookup local");
    net.run(0, "ip rule del pref 0");

    net.expect_asked(0, (3, "an address of this host, are not delivered to it"));
    let said = net.status(0)["faults"].to_string();
    assert!(
        said.contains("rule-overruled") && said.contains(": ip rule add priority 0 "),
        "{said}"
    );
    net.run(0, "ip rule add priority 0 lookup local");
    net.expect_asked(0, (0, "tunnel: running"));
    net.expect_ping(0, "10.77.0.2");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_host_without_the_rule_for_its_own_addresses_is_a_fault() {
    let mut net = Net::pair("");
    net.start_all();
    net.expect_asked(0, (0, "tunnel: running"));

    net.run(0, "ip rule del pref 0");

    net.expect_asked(0, (3, "an address of this host, are not delivered to it"));
    net.run(0, "ip rule add pref 0 lookup local");
    net.expect_asked(0, (0, "tunnel: running"));
}

/// A tunnel of GRE waits for its address beside ours.
#[test]
#[ignore = "needs root: run by ./test"]
fn a_service_without_its_device_hides_no_rule_that_comes_before_anothers_routes() {
    let mut net = Net::pair("");
    let gre = "[[gre]]\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.9\"\nto = [\"10.4.0.0/16\"]\n\n[tunnel]";
    net.edit(0, "[tunnel]", gre);
    net.start_all();

    net.run(0, "ip route add default via 10.9.1.2 table 99");
    net.run(0, "ip rule add pref 50 table 99");

    net.expect_asked(0, (3, "packets to 10.77.0.2/32 bypass our device"));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_router_that_does_not_answer_is_a_fault_until_it_does() {
    let mut net = Net::pair("");
    net.edit(0, "10.9.1.2:51900", "10.8.0.2:51900");
    net.run(0, "ip route add 10.8.0.0/24 via 10.9.1.77");
    net.start(0);

    let said =
        "the router 10.9.1.77 on eth1, which leads to the peer peer1 at 10.8.0.2, does not answer";
    net.expect_asked(0, (3, said));
    net.run(1, "ip address add 10.9.1.77/24 dev eth0");

    net.expect_asked(0, (0, "tunnel: running"));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_device_that_others_rename_has_its_name_again_unless_it_is_taken() {
    let mut net = Net::pair("");
    net.start_all();
    let device = "trackway-nc0";
    let rename = |net: &Net, from: &str, to: &str| {
        net.run(0, &format!("ip link set {from} down"));
        net.run(0, &format!("ip link set {from} name {to}"));
    };

    rename(&net, device, "foo0");
    let is_back = wait_until(SOON, || net.has_device(0));
    assert!(is_back, "{}", net.run(0, "ip link"));
    net.expect_ping(0, "10.77.0.2");

    net.run(0, "ip link add holder0 type veth peer name holder1");
    let pid = net.pid(0);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGSTOP)
        .unwrap();
    net.expect_asked(
        0,
        (1, &format!("the gateway is stopped, and answers nobody: `kill -CONT {pid}`")),
    );
    rename(&net, device, "foo0");
    net.run(0, &format!("ip link set holder0 name {device}"));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGCONT)
        .unwrap();
    net.expect_asked(0, (3, "is called foo0 now, and cannot have its name again"));
    net.run(0, &format!("ip link del {device}"));
    net.expect_asked(0, (0, "tunnel: running"));
    net.expect_ping(0, "10.77.0.2");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_device_that_others_take_into_another_namespace_is_made_anew() {
    let mut net = Net::pair("");
    net.start_all();
    let other = net.nets.add("other");

    net.run(0, &format!("ip link set trackway-nc0 netns {other}"));

    net.expect_ping(0, "10.77.0.2");
    net.expect_asked(0, (0, "tunnel: running"));
    assert_eq!(net.nets.run(&other, "ip -o link show type tun"), "");
    assert!(net.gateway(0).printed().contains("trackway-nc0 is not in this network namespace"));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_counters_of_a_crashed_gateway_go_with_what_else_it_left() {
    let mut net = Net::pair("");
    let file = net.nets.folder().join("metrics");
    net.write_config(0, &net.keys, &format!("metrics = {file:?}\n"));
    net.start_all();
    let counted = || fs::read_to_string(&file).unwrap_or_default();
    assert!(wait_until(SOON, || counted().contains("trackway_service_up")));

    net.crash(0);
    assert!(counted().contains("trackway_service_up"));
    let said = net.run(0, &format!("{TRACKWAY} down"));

    assert!(said.contains(&format!("emptied: {}", file.display())), "{said}");
    assert_eq!(counted(), "");
    // With a clean end, too.
    net.start(0);
    assert!(wait_until(SOON, || counted().contains("trackway_service_up")));
    let (code, said) = net.gateway(0).stop();
    assert_eq!((code, counted().contains("trackway_service_up")), (Some(0), false), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_others_change_in_the_table_against_packets_in_clear_is_put_back() {
    let mut net = Net::pair("");
    net.start_all();
    let shown = |net: &Net| net.run(0, "nft --stateless list table inet trackway_tunnel");
    let before = shown(&net);
    let jump = before.lines().find(|line| line.contains("jump in_name")).unwrap().trim().to_owned();
    // The handle of the rule that decides about packets in peers' names.
    let handle = |net: &Net| {
        let listed = net.run(0, "nft --handle list table inet trackway_tunnel");
        let line = listed.lines().find(|line| line.contains(&jump)).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    let replace = |net: &Net| {
        let rule = format!("rule inet trackway_tunnel prerouting handle {}", handle(net));
        net.run(0, &format!("nft replace {rule} ip saddr 192.0.2.1 accept"));
    };
    let expect_back = |net: &Net, what: &str| {
        assert!(wait_until(SOON, || shown(net) == before), "{what}: {}", shown(net));
    };

    replace(&net);
    expect_back(&net, "a rule is replaced");
    for change in [
        "insert rule inet trackway_tunnel prerouting accept",
        "add table inet trackway_tunnel { flags dormant ; }",
        "add chain inet trackway_tunnel prerouting { policy drop ; }",
    ] {
        net.run(0, &format!("nft {change}"));
        expect_back(&net, change);
    }

    // While nobody watches, too: the next gateway looks at what is there.
    net.crash(0);
    replace(&net);
    assert_ne!(shown(&net), before);
    net.start(0);
    expect_back(&net, "a rule is replaced while no gateway runs");
}

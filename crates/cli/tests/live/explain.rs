//! Tests that `trackway explain` says what packets really do, whichever service of a gateway with all of them has them.
//!
//! ```text
//!                                 ┌ eth1 10.9.0.1 ──── 10.9.0.2 outer: everything else, HF-PEP's and S/R's other end
//!  lan 10.50.0.2 ── lan0  gateway ┼ radio0 10.66.0.1 ─ air ─ 10.66.0.2 mesh: HBH and OLSR, 10.5.0.0/16 behind it
//!                                 ├ radio1 10.67.0.1 ──── 10.67.0.2 plain: OLSR without HBH, 10.8.0.0/16 behind it
//!                                 ├ trackway-nc0: 10.2.0.0/16    the tunnel
//!                                 ├ trackway-hf0: 10.3.0.0/16    the IP client
//!                                 └ trackway-gre0: 10.4.0.0/16   GRE
//!                                   10.7.0.0/16 by HF-PEP, 10.6.0.0/16 port 514 by S/R
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Output;
use std::time::Duration;

use ::gateway::sys::port::{OFFLOAD, Port};
use serde_json::Value;

use crate::namespaces::{Namespaces, SOON, TRACKWAY, wait_until};
use testbed::traffic::call;

/// Devices of ours, whose counters tell what has gone into them.
const DEVICES: [&str; 3] = ["trackway-nc0", "trackway-hf0", "trackway-gre0"];
/// Packets of each flow but TCP, whose first is repeated after a second.
const PACKETS: usize = 5;
/// How OLSR goes here: fast.
const OLSR: &str = "protocol = \"olsr\"\nhello-interval = \"200ms\"\nneighbour-hold = \"700ms\"\n\
                    tc-interval = \"500ms\"\ntopology-hold = \"2s\"\nhna-interval = \"300ms\"\nmax-jitter = \"50ms\"\n";
const HBH: &str = "[hbh]\ninterfaces = [\"radio0\"]\nhello.interval = \"200ms\"\n";

struct Net {
    nets: Namespaces,
    gateway: String,
    lan: String,
    outer: String,
    /// Between the gateway and the mesh: what is seen here has left the gateway so.
    air: String,
    mesh: String,
    plain: String,
}

impl Net {
    fn start() -> Self {
        let mut nets = Namespaces::new();
        let [gateway, lan, outer, air, mesh, plain] =
            ["gateway", "lan", "outer", "air", "mesh", "plain"].map(|it| nets.add(it));
        for ends in [
            [(&gateway, "lan0"), (&lan, "eth0")],
            [(&gateway, "eth1"), (&outer, "eth0")],
            [(&gateway, "radio0"), (&air, "left")],
            [(&air, "right"), (&mesh, "radio0")],
            [(&gateway, "radio1"), (&plain, "radio1")],
        ] {
            nets.cable((ends[0].0, ends[0].1), (ends[1].0, ends[1].1));
        }
        for (host, interface, address) in [
            (&gateway, "lan0", "10.50.0.1/24"),
            (&lan, "eth0", "10.50.0.2/24"),
            (&gateway, "eth1", "10.9.0.1/24"),
            (&outer, "eth0", "10.9.0.2/24"),
            (&gateway, "radio0", "10.66.0.1/24"),
            (&mesh, "radio0", "10.66.0.2/24"),
            (&mesh, "lo", "10.5.0.9/32"),
            (&gateway, "radio1", "10.67.0.1/24"),
            (&plain, "radio1", "10.67.0.2/24"),
            (&plain, "lo", "10.8.0.9/32"),
        ] {
            nets.address(host, interface, address);
        }
        for command in [
            "ip link add bridge type bridge",
            "ip link set left master bridge",
            "ip link set right master bridge",
            "ip link set bridge up",
        ] {
            nets.run(&air, command);
        }
        nets.run(&gateway, "ip route add default via 10.9.0.2");
        nets.run(&gateway, "ip route add unreachable 198.51.100.0/24");
        nets.run(&gateway, "sysctl -qw net.ipv4.ip_forward=1");
        nets.run(&mesh, "sysctl -qw net.ipv4.ip_forward=1");
        nets.run(&mesh, "ip route add default via 10.66.0.1");
        nets.run(&plain, "ip route add default via 10.67.0.1");
        nets.run(&lan, "ip route add default via 10.50.0.1");
        let folder = nets.folder().to_owned();
        let [(key, _), (_, public)] = ["key", "other"].map(|name| nets.make_key(name).unwrap());
        let config = format!(
            "{HBH}[routing]\ninterfaces = [\"radio0\", \"radio1\"]\n{OLSR}[tunnel]\nprivate-key = {key:?}\naddresses = [\"10.77.0.1/24\"]\n\
             [[tunnel.peer]]\nname = \"nobody\"\npublic-key = \"{public}\"\nroutes = [\"10.2.0.0/16\"]\n\
             [ipclient]\naddresses = [\"10.88.0.1/24\"]\n\
             [[ipclient.route]]\nnode = \"0.0.0.2\"\nto = [\"10.3.0.0/16\"]\n\
             [[gre]]\nlocal = \"10.9.0.1\"\nremote = \"10.9.0.77\"\nto = [\"10.4.0.0/16\"]\n\
             addresses = [\"10.99.0.1/24\"]\n\
             [hfpep.bearer]\nlisten = \"10.9.0.1:5099\"\n\
             [[hfpep.peer]]\ngateway = \"10.9.0.2:5099\"\nto = [\"10.7.0.0/16\"]\n\
             [sar]\nsocket = {:?}\nstore = {:?}\n[sar.carry]\nports = [514]\n\
             [[sar.carry.peer]]\ngateway = \"10.9.0.2\"\nto = [\"10.6.0.0/16\"]\n",
            folder.join("run/sar.sock"),
            folder.join("store"),
        );
        for (host, name, config) in [
            (
                &mesh,
                "mesh",
                format!(
                    "{HBH}[routing]\ninterfaces = [\"radio0\"]\nattached = [\"10.5.0.0/16\"]\n{OLSR}"
                ),
            ),
            (
                &plain,
                "plain",
                format!(
                    "[routing]\ninterfaces = [\"radio1\"]\nattached = [\"10.8.0.0/16\"]\n{OLSR}"
                ),
            ),
            (&gateway, "gateway", config),
        ] {
            nets.start_gateway(host, name, &config);
        }
        let net = Self { nets, gateway, lan, outer, air, mesh, plain };
        let is_up = || {
            let routes = net.run("ip route show proto 116");
            routes.contains("10.5.0.0/16 via 10.66.0.2")
                && routes.contains("10.8.0.0/16 via 10.67.0.2")
                && net.status()["neighbours_up"].as_u64() == Some(1)
        };
        assert!(wait_until(SOON, is_up), "{}", net.status());
        net
    }

    fn run(&self, command: &str) -> String {
        self.nets.run(&self.gateway, command)
    }

    fn status(&self) -> Value {
        self.nets.status(&self.gateway)
    }

    fn explain(&self, flow: &str) -> (Value, Output) {
        let said = self.nets.try_run(&self.gateway, &format!("{TRACKWAY} explain {flow} --json"));
        (serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{flow}: {said:?}")), said)
    }

    /// Packets that have gone into each device of ours.
    fn sent_into(&self) -> [u64; DEVICES.len()] {
        let said: Value = serde_json::from_str(&self.run("ip -s -j link show")).unwrap();
        DEVICES.map(|device| {
            let its = said.as_array().unwrap().iter().find(|it| it["ifname"] == device);
            its.unwrap()["stats64"]["tx"]["packets"].as_u64().unwrap()
        })
    }

    /// Sends the first packets of a flow, and says where they were seen, and whether a connection was accepted.
    fn seen(
        &self,
        protocol: &str,
        from: &str,
        (to, port): (&str, u16),
    ) -> (BTreeSet<String>, bool) {
        let sender = match from {
            "10.50.0.2" => &self.lan,
            "10.66.0.2" => &self.mesh,
            _ => &self.gateway,
        };
        let sniffers = [(&self.outer, "eth0"), (&self.air, "left"), (&self.plain, "radio1")]
            .map(|(host, interface)| self.nets.within(host, || Port::open(interface).unwrap()));
        let before = self.sent_into();
        let to: SocketAddr = format!("{to}:{port}").parse().unwrap();
        let mut is_accepted = false;
        match protocol {
            "icmp" => drop(self.nets.try_run(
                sender,
                &format!("ping -c {PACKETS} -i 0.02 -W 0.2 -I {from} {}", to.ip()),
            )),
            "udp" => {
                let at = format!("{from}:0");
                let socket = self.nets.within(sender, || UdpSocket::bind(&at[..]).unwrap());
                for _ in 0..PACKETS {
                    let _ = socket.send_to(b"explained", to);
                }
            }
            _ => {
                let at: SocketAddr = format!("{from}:0").parse().unwrap();
                let called =
                    self.nets.within(sender, || call(Some(at), to, 0, Duration::from_millis(500)));
                is_accepted = called.is_ok();
            }
        }
        let mut seen = BTreeSet::new();
        let mut frame = vec![0; 1 << 16];
        wait_until(Duration::from_millis(300), || {
            for (sniffer, name) in sniffers.iter().zip(["eth1", "radio0", "radio1"]) {
                while let Ok(Some(received)) = sniffer.receive(&mut frame) {
                    let packet = &frame[OFFLOAD + 14..received.len];
                    let IpAddr::V4(to) = to.ip() else { continue };
                    if packet.len() < 20 || packet[0] >> 4 != 4 || packet[16..20] != to.octets() {
                        continue;
                    }
                    // A packet in HBH has the addresses of the packet within.
                    let name = if packet[9] == 253 { "hbh" } else { name };
                    seen.insert(name.to_owned());
                }
            }
            false
        });
        for ((device, before), after) in DEVICES.iter().zip(before).zip(self.sent_into()) {
            if after > before {
                seen.insert((*device).to_owned());
            }
        }
        (seen, is_accepted)
    }
}

/// The guide shows what `explain` says of this flow, word by word.
fn expect_in_guide(net: &Net, flow: &str) {
    let said = net.nets.try_run(&net.gateway, &format!("{TRACKWAY} explain {flow}"));
    let said = String::from_utf8(said.stdout).unwrap();
    let shown = format!("    # trackway explain {flow}\n")
        + &said.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let page = include_str!("../../../../docs/guide/rules.md");
    assert!(page.contains(&shown), "docs/guide/rules.md does not show this:\n{shown}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn all_services_and_firewalls_do_what_is_explained() {
    let net = Net::start();
    let mut flows = BTreeMap::new();
    for to in [
        "10.2.0.9",
        "10.3.0.9",
        "10.4.0.9",
        "10.5.0.9",
        "10.66.0.2",
        "10.6.0.9",
        "10.7.0.9",
        "10.7.1.9",
        "10.8.0.9",
        "203.0.113.9",
        "198.51.100.9",
    ] {
        for (protocol, port) in
            [("icmp", 0), ("udp", 53), ("udp", 514), ("tcp", 22), ("tcp", 80), ("tcp", 443)]
        {
            for from in ["10.50.0.2", "10.9.0.1"] {
                let (service, place) = match (to, protocol, port) {
                    ("10.2.0.9", ..) => ("tunnel", Some("trackway-nc0")),
                    ("10.3.0.9", ..) => ("ipclient", Some("trackway-hf0")),
                    ("10.4.0.9", ..) => ("gre", Some("trackway-gre0")),
                    ("10.5.0.9" | "10.66.0.2", ..) => ("hbh", Some("hbh")),
                    ("10.6.0.9", "udp", 514) => ("sar", None),
                    ("10.7.0.9" | "10.7.1.9", "tcp", _) => ("hfpep", None),
                    ("10.8.0.9", ..) => ("routing", Some("radio1")),
                    ("198.51.100.9", ..) => ("none", None),
                    _ => ("ip", Some("eth1")),
                };
                let flow = match protocol {
                    "icmp" => format!("icmp {from} {to}"),
                    _ => format!("{protocol} {from}:4000 {to}:{port}"),
                };
                let (explained, said) = net.explain(&flow);

                assert_eq!(explained["outcome"]["pass"]["service"], service, "{flow}: {explained}");
                let (seen, is_accepted) = net.seen(protocol, from, (to, port));
                let expected: BTreeSet<_> = place.iter().map(|it| (*it).to_owned()).collect();
                assert_eq!(seen, expected, "{flow}: {explained}");
                // HF-PEP answers in the name of hosts that are nowhere here.
                assert_eq!(is_accepted, service == "hfpep", "{flow}: {explained}");
                // The tunnel's peer never called, and says so as its fault.
                let is_expected = !matches!(service, "none" | "tunnel");
                assert_eq!(said.status.success(), is_expected, "{flow}: {explained}");
                assert_eq!(
                    explained["otherwise"].is_string(),
                    !matches!(service, "none" | "ip"),
                    "{flow}: {explained}"
                );
                *flows.entry(service).or_insert(0) += 1;
            }
        }
    }
    eprintln!("flows: {flows:?}");
    for service in ["tunnel", "ipclient", "gre", "hbh", "hfpep", "routing"] {
        assert!(flows[service] >= 10, "{service}: {flows:?}");
    }

    for chain in ["forward", "output"] {
        net.run("nft add table inet site");
        let hook = format!("type filter hook {chain} priority 0 ;");
        net.run(&format!("nft add chain inet site {chain} {{ {hook} }}"));
    }
    let mut is_guide_checked = false;
    for (rule, flow, is_dropped, expected) in [
        ("forward udp dport 7 drop", ("udp", "10.50.0.2", "10.4.0.9", 7), true, "obstacle"),
        ("forward udp dport 7 drop", ("udp", "10.50.0.2", "10.4.0.9", 8), false, ""),
        ("forward udp dport 7 drop", ("udp", "10.9.0.1", "10.4.0.9", 7), false, ""),
        (
            "output ip daddr 203.0.113.0/24 reject",
            ("icmp", "10.9.0.1", "203.0.113.9", 0),
            true,
            "obstacle",
        ),
        (
            "forward oifname trackway-hf0 ip protocol icmp drop",
            ("icmp", "10.50.0.2", "10.3.0.9", 0),
            true,
            "obstacle",
        ),
        (
            "forward ct state established,related drop",
            ("udp", "10.50.0.2", "203.0.113.8", 9),
            false,
            "",
        ),
        (
            "forward meta length > 5000 drop",
            ("udp", "10.50.0.2", "203.0.113.9", 9),
            false,
            "doubts",
        ),
    ] {
        net.run("nft flush table inet site");
        net.run(&format!("nft add rule inet site {rule}"));
        let (protocol, from, to, port) = flow;
        let asked = match protocol {
            "icmp" => format!("icmp {from} {to}"),
            _ => format!("{protocol} {from}:4000 {to}:{port}"),
        };
        let (explained, said) = net.explain(&asked);
        let (seen, _) = net.seen(protocol, from, (to, port));

        assert_eq!(seen.is_empty(), is_dropped, "{rule}, {asked}: {seen:?}, {explained}");
        assert_eq!(said.status.success(), !is_dropped, "{rule}, {asked}: {explained}");
        if !is_guide_checked {
            is_guide_checked = true;
            expect_in_guide(&net, &asked);
        }
        let obstacle = explained["obstacle"].to_string();
        assert_eq!(
            obstacle.contains("inet site"),
            expected == "obstacle",
            "{rule}, {asked}: {explained}"
        );
        let doubts = explained["doubts"].to_string();
        assert_eq!(
            doubts.contains("may be dropped by the rule"),
            expected == "doubts",
            "{rule}, {asked}: {explained}"
        );
    }
    net.run("nft delete table inet site");

    for action in ["unreachable", "blackhole", "prohibit"] {
        let (to, rule) = ("203.0.113.8", format!("pref 50 iif lan0 to 203.0.113.8 {action}"));
        net.run(&format!("ip rule add {rule}"));
        let (explained, said) = net.explain(&format!("udp 10.50.0.2:4000 {to}:9"));
        let (seen, _) = net.seen("udp", "10.50.0.2", (to, 9));
        assert_eq!((seen.len(), said.status.success()), (0, false), "{rule}: {explained}");
        let obstacle = explained["obstacle"].to_string();
        assert!(obstacle.contains("refuses what comes by lan0"), "{rule}: {explained}");
        // This host's own packets come by no interface.
        assert!(net.explain(&format!("udp 10.9.0.1:4000 {to}:9")).1.status.success());
        net.run(&format!("ip rule del {rule}"));
    }
    for command in [
        "nft add table inet site",
        "nft add chain inet site marks { type filter hook prerouting priority mangle ; }",
        "nft add rule inet site marks udp dport 99 meta mark set 7",
        "ip rule add pref 50 fwmark 7 blackhole",
    ] {
        net.run(command);
    }
    for (port, is_marked) in [(99, true), (98, false)] {
        let (explained, _) = net.explain(&format!("udp 10.50.0.2:4000 203.0.113.8:{port}"));
        let (seen, _) = net.seen("udp", "10.50.0.2", ("203.0.113.8", port));
        assert_eq!(seen.is_empty(), is_marked, "{port}: {seen:?}");
        let doubts = explained["doubts"].to_string();
        assert_eq!(doubts.contains("ip rule show pref 50"), is_marked, "{port}: {explained}");
    }
    net.run("nft delete table inet site");
    net.run("ip rule del pref 50");

    net.run("sysctl -qw net.ipv4.conf.lan0.rp_filter=1");
    net.nets.address(&net.lan, "lo", "203.0.113.50/32");
    let (explained, said) = net.explain("udp 203.0.113.50:4000 10.4.0.9:53 --interface lan0");
    assert!(!said.status.success(), "{explained}");
    assert!(
        explained["obstacle"].to_string().contains("the strict reverse path filter of lan0"),
        "{explained}"
    );
    let before = net.sent_into();
    let socket = net.nets.within(&net.lan, || UdpSocket::bind("203.0.113.50:4000").unwrap());
    socket.send_to(b"false", (Ipv4Addr::new(10, 4, 0, 9), 53)).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(net.sent_into(), before);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn forwarding_of_the_flows_own_version_of_ip_counts() {
    let net = Net::start();
    net.run("sysctl -qw net.ipv6.conf.eth1.disable_ipv6=0 net.ipv6.conf.lan0.disable_ipv6=0");
    net.run("ip address add fd50::1/64 dev lan0 nodad");
    net.run("ip address add fd09::1/64 dev eth1 nodad");
    let flows = [
        ("udp 10.50.0.2:4000 203.0.113.9:53", "net.ipv4.ip_forward"),
        ("udp [fd50::2]:4000 [fd09::9]:53", "net.ipv6.conf.all.forwarding"),
    ];
    for (v4, v6) in [(1, 0), (0, 1), (1, 1), (0, 0)] {
        net.run(&format!("sysctl -qw net.ipv4.ip_forward={v4} net.ipv6.conf.all.forwarding={v6}"));
        for ((flow, key), is_on) in flows.iter().zip([v4 == 1, v6 == 1]) {
            let (explained, said) = net.explain(flow);
            assert_eq!(said.status.success(), is_on, "{v4} {v6} {flow}: {explained}");
            let is_told = explained["obstacle"].to_string().contains(&format!("{key} is 0"));
            assert_eq!(is_told, !is_on, "{v4} {v6} {flow}: {explained}");
        }
        // This host's own packets are not forwarded.
        assert!(net.explain("udp 10.9.0.1:4000 203.0.113.9:53").1.status.success());
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn programs_of_the_gateways_host_need_some_route() {
    let net = Net::start();
    let connect = || net.nets.within(&net.gateway, || TcpStream::connect("10.7.0.9:80").is_ok());
    let explain = |flow| net.explain(flow).1.status.success();
    let own = ["tcp 10.9.0.1:4000 10.7.0.9:80", "udp 10.9.0.1:514 10.6.0.9:514"];
    net.run("ip route del default");

    let (explained, _) = net.explain(own[0]);
    let before = (own.map(explain), connect(), explain("tcp 10.50.0.2:4000 10.7.0.9:80"));
    net.run("ip route add 10.6.0.0/15 dev lo");
    let after = (own.map(explain), connect());

    assert_eq!(before, ([false; 2], false, true), "{explained}");
    assert!(
        explained["obstacle"].to_string().contains("ip route add 10.7.0.9 dev lo"),
        "{explained}"
    );
    assert_eq!(after, ([true; 2], true));
}

/// What HF-PEP and S/R take comes to this host itself: firewalls judge it as input, and what they forward does not count.
#[test]
#[ignore = "needs root: run by ./test"]
fn firewalls_judge_what_services_take_where_the_packets_really_go() {
    let net = Net::start();
    let carried = || net.status()["sar_carried"].as_u64().unwrap();
    for (from, is_own) in [("10.50.0.2", false), ("10.9.0.1", true)] {
        for (hook, rule, stops) in [
            ("forward", "drop", [false, false]),
            ("input", "drop", [true, true]),
            ("input", "iifname lan0 drop", [true, false]),
            ("input", "iifname lo drop", [false, true]),
            ("prerouting", "drop", [true, true]),
            ("output", "drop", [false, true]),
            ("output", "oifname eth1 drop", [false, true]),
            ("output", "oifname lo drop", [false, false]),
            ("postrouting", "oifname lo drop", [false, true]),
            ("input", "meta mark 0 drop", [false, false]),
        ] {
            net.run("nft add table inet site");
            net.run(&format!(
                "nft add chain inet site x {{ type filter hook {hook} priority 0 ; }}"
            ));
            let is_stopped = stops[usize::from(is_own)];
            for (which, flow) in [
                ("tcp dport 443", format!("tcp {from}:4000 10.7.0.9:443")),
                ("udp dport 514", format!("udp {from}:4000 10.6.0.9:514")),
            ] {
                net.run(&format!("nft add rule inet site x {which} {rule}"));
                let (explained, said) = net.explain(&flow);
                let what = format!("{hook} {rule}, {flow}: {explained}");
                let is_taken = if which.starts_with("tcp") {
                    net.seen("tcp", from, ("10.7.0.9", 443)).1
                } else {
                    let before = carried();
                    net.seen("udp", from, ("10.6.0.9", 514));
                    wait_until(Duration::from_millis(500), || carried() > before)
                };

                assert_eq!(is_taken, !is_stopped, "{what}");
                assert_eq!(said.status.success(), !is_stopped, "{what}");
                let names = explained["obstacle"].to_string().contains("inet site x");
                assert_eq!(names, is_stopped, "{what}");
            }
            net.run("nft delete table inet site");
        }
    }

    net.run("ip rule add pref 50 to 10.6.0.0/15 blackhole");
    for flow in ["tcp 10.50.0.2:4000 10.7.0.9:443", "udp 10.50.0.2:4000 10.6.0.9:514"] {
        let (explained, said) = net.explain(flow);
        assert!(!said.status.success(), "{flow}: {explained}");
        let obstacle = explained["obstacle"].to_string();
        assert!(obstacle.contains("another program's rule decides"), "{flow}: {explained}");
    }
    assert!(!net.seen("tcp", "10.50.0.2", ("10.7.0.9", 443)).1);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_relays_own_forwarding_counts_for_each_interface() {
    let net = Net::start();
    // From a neighbour in the mesh, and from a LAN, to a network behind another radio.
    let flows = [("10.66.0.2", "radio0"), ("10.50.0.2", "lan0")];
    let expect = |expected: [bool; 2], when: &str| {
        for ((from, interface), passes) in flows.into_iter().zip(expected) {
            let (explained, said) = net.explain(&format!("udp {from}:4000 10.8.0.9:53"));
            let (seen, _) = net.seen("udp", from, ("10.8.0.9", 53));
            assert_eq!(seen.contains("radio1"), passes, "{when} {from}: {explained}");
            assert_eq!(said.status.success(), passes, "{when} {from}: {explained}");
            let obstacle = explained["obstacle"].to_string();
            let is_named = obstacle.contains(&format!("{interface}.forwarding is 0"))
                || obstacle.contains("net.ipv4.ip_forward is 0");
            assert_eq!(is_named, !passes, "{when} {from}: {explained}");
        }
    };

    expect([true, true], "at first");
    net.run("sysctl -qw net.ipv4.conf.lan0.forwarding=0");
    expect([true, false], "without the LAN's");
    // Routing keeps the forwarding of its own interfaces.
    net.run("sysctl -qw net.ipv4.ip_forward=0");
    let is_back = || net.run("sysctl -n net.ipv4.conf.radio0.forwarding").trim() == "1";
    assert!(wait_until(SOON, is_back));
    expect([true, false], "without any but radios'");
}

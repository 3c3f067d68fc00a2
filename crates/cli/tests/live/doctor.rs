//! Tests that `trackway doctor` finds what is wrong with a host, and that each remedy mends it.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::clock::{Clock, HOUR};
use crate::namespaces::{Namespaces, SOON, TRACKWAY, wait_until};

/// How most firewalls treat what comes in: this host's own packets, answers, a few ports, and nothing else.
const USUAL: &str = "add table inet site; \
    add chain inet site input { type filter hook input priority 0; policy drop; }; \
    add rule inet site input iif lo accept; add rule inet site input ct state established,related accept; \
    add rule inet site input tcp dport 22 accept";
const HFPEP: &str = "[hfpep.bearer]\nlisten = \"192.0.2.1:5099\"\n[[hfpep.peer]]\ngateway = \"192.0.2.9:5099\"\n\
    to = [\"10.7.0.0/16\"]\n[[hfpep.listen]]\nat = \"192.0.2.1:2222\"\ngateway = \"192.0.2.9:5099\"\ntarget = \"10.7.0.9:22\"\n";
const TARGETS: &str = "[hfpep.bearer]\nlisten = \"192.0.2.1:5099\"\nfrom = [\"192.0.2.9/32\"]\n";
const SAR: &str = "[sar]\n[sar.carry]\nports = [514]\n[[sar.carry.peer]]\ngateway = \"192.0.2.9\"\nto = [\"10.6.0.0/16\"]\n";
const OLSR: &str = "[routing]\nprotocol = \"olsr\"\ninterfaces = [\"eth0\"]\n";
const HBH: &str = "[hbh]\ninterfaces = [\"eth0\"]\n";
const GRE: &str = "[[gre]]\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.9\"\nto = [\"10.4.0.0/16\"]\naddresses = [\"10.99.0.1/24\"]\n";
const STATION: &str = "[s5066]\naddress = \"0.0.0.1\"\nlisten = \"192.0.2.1:5066\"\nmodem = \"192.0.2.7:3000\"\nwaveform = \"9600/short\"\n";

/// A host with an uplink, and the configuration of a tunnel.
struct Host {
    nets: Namespaces,
    name: String,
    uplink: String,
    /// The file of its private key, and the public key of the peer.
    keys: (PathBuf, String),
}

impl Host {
    fn new(routes: &str) -> Self {
        let mut nets = Namespaces::new();
        let [name, uplink] = ["host", "uplink"].map(|name| nets.add(name));
        nets.cable((&name, "eth0"), (&uplink, "eth0"));
        nets.address(&name, "eth0", "192.0.2.1/24");
        nets.run(&name, "ip route add default via 192.0.2.254");
        nets.run(&name, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        let [(key, _), (_, other)] = ["key", "other"].map(|name| nets.make_key(name).unwrap());
        let keys = (key, other);
        let host = Self { nets, name, uplink, keys };
        host.route(routes);
        host
    }

    /// From now on these networks are behind the peer.
    fn route(&self, routes: &str) {
        let (key, other) = &self.keys;
        let config = format!(
            "[tunnel]\nprivate-key = {key:?}\naddresses = [\"10.77.0.1/24\"]\n[[tunnel.peer]]\nname = \"far\"\n\
             public-key = \"{other}\"\nendpoint = \"198.51.100.2:51900\"\nroutes = [{routes}]\n"
        );
        fs::write(self.nets.folder().join("a.toml"), config).unwrap();
    }

    /// From now on this is the configuration.
    fn configure(&self, config: &str) {
        fs::write(self.nets.folder().join("a.toml"), config).unwrap();
    }

    fn run(&self, command: &str) {
        self.nets.run(&self.name, command);
    }

    /// Gives `nft` orders, which `; ` separates where no brace is open.
    fn nft(&self, orders: &str) {
        let said = self.nets.try_words(&self.name, &["nft", &orders.replace("; add", "\nadd")]);
        assert!(said.status.success(), "{orders}: {}", String::from_utf8_lossy(&said.stderr));
    }

    /// All findings: code, text and remedy.
    fn all(&self) -> Vec<[String; 3]> {
        self.all_where("exec")
    }

    /// The same after the orders of a script, with mounts of its own; the last one goes before the command.
    fn all_where(&self, script: &str) -> Vec<[String; 3]> {
        let [file, to_run] = ["a.toml", "to-run"].map(|name| self.nets.folder().join(name));
        let doctor = format!("{script} {TRACKWAY} doctor --json {}", file.display());
        fs::write(&to_run, doctor).unwrap();
        let words = ["unshare", "-m", "sh", to_run.to_str().unwrap()];
        let said = self.nets.try_words(&self.name, &words);
        let all: Vec<Value> =
            serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
        let text = |of: &Value, key: &str| of[key].as_str().unwrap().to_owned();
        all.iter().map(|it| ["code", "what", "remedy"].map(|key| text(it, key))).collect()
    }

    /// The codes of all findings but those of low severity, and their remedies.
    fn findings(&self) -> Vec<(String, String)> {
        let low = ["perhaps", "running", "manager", "dns", "firewall-unread"];
        let grave = self.all().into_iter().filter(|it| !low.contains(&&it[0][..]));
        grave.map(|[code, _, remedy]| (code, remedy)).collect()
    }

    fn codes(&self) -> Vec<String> {
        self.findings().into_iter().map(|(code, _)| code).collect()
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_in_the_way_is_found_and_its_remedy_mends_it() {
    let host = Host::new("\"10.2.0.0/16\"");
    assert_eq!(host.findings(), []);

    for (harm, code) in [
        ("sysctl -qw net.ipv4.ip_forward=0", "forwarding"),
        ("ip link set eth0 mtu 1000", "mtu"),
        ("ip link set eth0 arp off", "interface-missing"),
    ] {
        host.run(harm);
        let findings = host.findings();
        assert_eq!(findings.len(), 1, "after {harm}: {findings:?}");
        assert_eq!(findings[0].0, code);
        let remedy = findings[0].1.split([',', '(']).next().unwrap().trim().to_owned();
        host.run(&remedy);
        assert_eq!(host.codes(), [""; 0], "after {remedy}");
    }

    // Who has the hardware address from elsewhere needs no ARP.
    host.run("ip link set eth0 arp off");
    let by_hand = "ip neigh replace 192.0.2.254 lladdr 02:00:00:00:00:01 dev eth0 nud permanent";
    host.run(by_hand);
    assert_eq!(host.codes(), [""; 0]);
    let set_by_hand = || {
        let mut all = host.all().into_iter();
        all.find(|[code, what, _]| code == "perhaps" && what.contains("is set by hand"))
    };
    assert_eq!(set_by_hand(), None);
    host.run("ip link set eth0 arp on");
    host.run(by_hand);
    let [_, _, remedy] = set_by_hand().unwrap();
    host.run(remedy.split('`').nth(3).unwrap());
    assert_eq!(set_by_hand(), None);

    host.run("nft add table inet filter");
    for hook in ["forward", "input"] {
        let chain = "type filter hook HOOK priority 0 ; policy drop ;".replace("HOOK", hook);
        host.run(&format!("nft add chain inet filter {hook} {{ {chain} }}"));
    }
    let findings = host.findings();
    let codes: Vec<_> = findings.iter().map(|(code, _)| &code[..]).collect();
    assert_eq!(codes, ["firewall", "firewall"], "{findings:?}");
    for (_, remedy) in findings {
        for order in remedy.split('(').next().unwrap().split(';') {
            host.run(order.trim());
        }
    }
    assert_eq!(host.codes(), [""; 0]);

    host.run("ip route del default");
    assert_eq!(host.codes(), ["no-route"]);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn networks_that_routing_announces_need_forwarding_and_its_own_interfaces_do_not() {
    let host = Host::new("\"10.2.0.0/16\"");
    host.run("ip route add 10.5.0.0/16 via 192.0.2.9");
    let announces = format!("{OLSR}attached = [\"10.5.0.0/16\"]\n");
    for (config, expected) in [(OLSR, &[""; 0][..]), (&announces, &["forwarding"])] {
        host.configure(config);
        host.run("sysctl -qw net.ipv4.ip_forward=0");
        assert_eq!(host.codes(), expected, "{config}");
        host.run("sysctl -qw net.ipv4.ip_forward=1");
        assert_eq!(host.codes(), [""; 0], "{config}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_folder_in_which_the_gateways_user_may_make_no_socket_is_found() {
    let host = Host::new("\"10.2.0.0/16\"");
    let folder = host.nets.folder().join("of-root");
    fs::create_dir(&folder).unwrap();
    let (socket, store) = (folder.join("sar.sock"), host.nets.folder().join("store"));
    host.configure(&format!("[sar]\nsocket = {socket:?}\nstore = {store:?}\n"));

    let findings = host.findings();
    assert_eq!(host.codes(), ["rights"], "{findings:?}");
    host.run(&findings[0].1);
    assert_eq!(host.codes(), [""; 0]);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_port_of_a_gateway_whose_files_are_elsewhere_is_not_another_programs() {
    let mut host = Host::new("\"10.2.0.0/16\"");
    let file = host.nets.folder().join("a.toml").display().to_string();
    // As in a container that shares the network of its host, and nothing else.
    let found = |host: &Host| {
        let all = host.all_where("mount -t tmpfs tmpfs /run && exec").into_iter();
        all.map(|[code, ..]| code)
            .filter(|code| code == "port" || code == "running")
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&host), [""; 0]);

    let taken = host.nets.within(&host.name, || UdpSocket::bind("0.0.0.0:51900").unwrap());
    assert_eq!(found(&host), ["port"]);
    drop(taken);
    let name = host.name.clone();
    host.nets.start(&name, &format!("{TRACKWAY} run {file}"), "gateway ready");
    assert_eq!(found(&host), ["running"]);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_gateway_of_hbh_alone_is_known_by_its_device() {
    let mut host = Host::new("\"10.2.0.0/16\"");
    let hbh = host.nets.folder().join("hbh.toml");
    fs::write(&hbh, "[hbh]\ninterfaces = [\"eth0\"]\n").unwrap();
    let name = host.name.clone();
    host.nets.start(&name, &format!("{TRACKWAY} run {}", hbh.display()), "gateway ready");

    let found = host.all_where("mount -t tmpfs tmpfs /run && exec");

    let is_known = |it: &[String; 3]| it[1].contains("a gateway of another container");
    assert!(found.iter().any(is_known), "{found:?}");
}

/// What no command in a network namespace can take away: the rest of a container, or of a machine without an installer.
#[test]
#[ignore = "needs root: run by ./test"]
fn what_the_machine_itself_lacks_is_found() {
    let host = Host::new("\"10.2.0.0/16\"");
    let folder = host.nets.folder().display().to_string();
    let clock = Clock::new(&host.nets);
    let long_ago = clock.as_ref().map_or_else(String::new, |clock| {
        clock.set(-100_000 * HOUR);
        format!("exec env {}", clock.variables)
    });
    let nft = format!("{folder}/nft");
    fs::write(&nft, "#!/bin/sh\n[ \"$1\" = list ] && exit 1\nexec /usr/sbin/nft \"$@\"\n").unwrap();
    fs::set_permissions(&nft, fs::Permissions::from_mode(0o755)).unwrap();
    host.nft("add table inet site");
    let etc = "mount -t tmpfs tmpfs /etc && mkdir -p /etc/NetworkManager/conf.d /etc/systemd/network && \
               mount -t tmpfs tmpfs /run &&";
    let networkd = format!(
        "{etc} echo > /etc/systemd/network/a.network && mkdir -p /run/systemd/netif/links &&"
    );
    let dns = format!(
        "echo nameserver 192.0.2.53 > {folder}/r && mount --bind {folder}/r /etc/resolv.conf && exec"
    );
    assert_eq!(host.findings(), []);

    for (code, lacks) in [
        ("tun", "mount -t tmpfs tmpfs /dev && exec"),
        ("nft", "exec env PATH=/nowhere"),
        ("firewall-unread", &format!("exec env PATH={folder}:/usr/sbin:/usr/bin:/sbin:/bin")),
        ("rights", "exec setpriv --bounding-set=-net_admin --inh-caps=-net_admin"),
        (
            "setting-refused",
            "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec",
        ),
        ("clock", &long_ago),
        ("manager", &format!("{etc} mkdir /run/NetworkManager && exec")),
        ("manager", &format!("{networkd} exec")),
        ("dns", &dns),
    ] {
        if lacks.is_empty() {
            continue;
        }
        host.route(if code == "dns" { "\"0.0.0.0/0\"" } else { "\"10.2.0.0/16\"" });
        let usual: Vec<_> = host.all().into_iter().map(|[code, ..]| code).collect();
        let found = host.all_where(lacks);
        assert!(!usual.iter().any(|it| it == code), "{code}");
        let its: Vec<_> = found.iter().filter(|it| it[0] == code).collect();
        assert_eq!(its.len(), 1, "{code} where {lacks}: {found:#?}");
        // What a manager is told is enough.
        if code == "manager" {
            let (tell, _) = its[0][2].split_once("; ").unwrap();
            let found = host.all_where(&lacks.replace("exec", &format!("{tell} && exec")));
            assert!(found.iter().all(|it| it[0] != code), "{tell}: {found:#?}");
        }
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_leaves_in_clear_beside_a_peer_for_everything_is_found() {
    let host = Host::new("\"0.0.0.0/0\"");
    assert_eq!(host.findings(), []);

    host.run("sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0");
    host.run("ip address add fd00::1/64 dev eth0 nodad");
    host.run("ip route add default via fd00::fe");
    assert_eq!(host.codes(), ["leaves-in-clear"]);
    host.route("\"0.0.0.0/1\", \"128.0.0.0/1\"");
    assert_eq!(host.codes(), ["leaves-in-clear"], "the halves of everything are everything");
    host.route("\"::/0\"");
    assert_eq!(host.codes(), ["leaves-in-clear"], "the same of IPv4");
    host.route("\"0.0.0.0/0\"");

    host.run("nft add table inet filter");
    host.run("nft add chain inet filter pre { type filter hook prerouting priority 0 ; }");
    host.run("nft add rule inet filter pre fib saddr . mark . iif oif missing drop");
    assert_eq!(host.codes(), ["leaves-in-clear", "reverse-path"]);
}

/// For each service: a firewall that drops its packets is found, each time by what is lost, and its remedy mends it.
#[test]
#[ignore = "needs root: run by ./test"]
fn a_firewall_that_drops_packets_of_any_service_is_found_and_its_remedy_mends_it() {
    let host = Host::new("\"10.2.0.0/16\"");
    host.run("ip route add 10.0.0.0/8 via 192.0.2.9");
    let output = "add table inet site; add chain inet site output { type filter hook output priority 0; }; \
                  add rule inet site output";
    let strict = "add table inet site; add chain inet site output { type filter hook output priority 0; policy drop; }; \
                  add rule inet site output oif lo accept";
    let to = |what: &str| format!("{output} {what} drop");
    let forward = "add table inet site; add chain inet site forward { type filter hook forward priority 0; policy drop; }";
    let early = "add table inet site; add chain inet site early { type filter hook prerouting priority raw; }; \
                 add rule inet site early ip daddr 10.6.0.0/15 drop";
    let before = |what: &str| {
        let chain = "add table inet site; add chain inet site before { type filter hook prerouting priority -160; }";
        format!("{chain}; add rule inet site before {what} drop")
    };
    let untold = "add table inet site; add chain inet site input { type filter hook input priority 0; policy drop; }; \
                  add rule inet site input iif lo accept";
    for (config, rules, expected) in [
        (
            SAR,
            USUAL,
            &["comes to UDP port 1624", "drops what sar takes on its way to 10.6.0.0/16"][..],
        ),
        (SAR, early, &["drops what sar takes on its way to 10.6.0.0/16"]),
        (SAR, &to("udp dport 1624"), &["sends to the gateway of [sar.carry] at 192.0.2.9:1624"]),
        (
            HFPEP,
            USUAL,
            &[
                "comes to TCP port 5099",
                "comes to TCP port 2222",
                "drops what hfpep takes on its way to 10.7.0.0/16",
            ],
        ),
        (HFPEP, early, &["drops what hfpep takes on its way to 10.7.0.0/16"]),
        (HFPEP, &to("ip daddr 192.0.2.9"), &["sends to the gateway of [hfpep] at 192.0.2.9:5099"]),
        (TARGETS, USUAL, &["comes to TCP port 5099"]),
        (
            TARGETS,
            strict,
            &["sends to targets of [hfpep]", "drops what hfpep answers to those who call it"],
        ),
        (
            HFPEP,
            strict,
            &[
                "sends to the gateway of [hfpep]",
                "sends to targets of [hfpep]",
                "drops what hfpep answers to those who call it",
            ],
        ),
        (
            STATION,
            strict,
            &["sends to the modem of [s5066]", "drops what s5066 answers to those who call it"],
        ),
        (SAR, &before("udp dport 1624"), &["comes to UDP port 1624"]),
        (SAR, &before("udp sport 1624"), &["the gateway of [sar.carry] at 192.0.2.9:1624 sends"]),
        (
            SAR,
            &before("ip saddr 192.0.2.9"),
            &["the gateway of [sar.carry] at 192.0.2.9:1624 sends"],
        ),
        (
            &format!("{SAR}[[sar.carry.peer]]\ngateway = \"192.0.2.8\"\nto = [\"10.5.0.0/16\"]\n"),
            &before("ip saddr 192.0.2.8/31"),
            &["[sar.carry] at 192.0.2.9:1624 sends", "[sar.carry] at 192.0.2.8:1624 sends"],
        ),
        (HFPEP, &before("tcp dport 2222"), &["comes to TCP port 2222"]),
        (HFPEP, &before("tcp sport 5099"), &["the gateway of [hfpep] at 192.0.2.9:5099 sends"]),
        (
            GRE,
            &before("meta l4proto gre"),
            &["drops what the router of [[gre]] at 192.0.2.9 sends"],
        ),
        (GRE, &before("iifname trackway-gre0"), &["is forwarded from trackway-gre0 to eth0"]),
        (OLSR, USUAL, &["UDP port 698 from neighbours on eth0: routing finds no routes"]),
        (
            OLSR,
            &to("udp sport 698"),
            &["UDP port 698 to neighbours on eth0: routing finds no routes"],
        ),
        (OLSR, forward, &["drops what is forwarded from eth0 to eth0"]),
        (HBH, forward, &["drops what is forwarded from eth0 to eth0"]),
        (GRE, USUAL, &["drops what the router of [[gre]] at 192.0.2.9 sends"]),
        (GRE, &to("meta l4proto gre"), &["sends to the router of [[gre]] at 192.0.2.9"]),
        (STATION, USUAL, &["comes to TCP port 5066"]),
        (STATION, &to("tcp dport 3000"), &["sends to the modem of [s5066] at 192.0.2.7:3000"]),
        (
            STATION,
            untold,
            &["comes to TCP port 5066", "drops what the modem of [s5066] at 192.0.2.7:3000 sends"],
        ),
    ] {
        host.configure(config);
        assert_eq!(host.findings(), [], "{config}");
        host.nft(rules);
        let found = host.all();
        let told: Vec<_> = found.iter().map(|it| &it[1]).collect();
        assert_eq!(told.len(), expected.len(), "{config}{rules}: {told:#?}");
        for expected in expected {
            assert!(told.iter().any(|it| it.contains(expected)), "{expected}: {told:#?}");
        }
        for [code, _, remedy] in &found {
            assert_eq!(code, "firewall");
            for order in remedy.split('(').next().unwrap().split(';') {
                host.run(order.trim());
            }
        }
        assert_eq!(host.findings(), [], "{config}{rules}: {found:#?}");
        host.nft("delete table inet site");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_port_that_another_program_has_is_found_for_any_service() {
    let host = Host::new("\"10.2.0.0/16\"");
    let port = |config: &str| {
        host.configure(config);
        host.findings()
    };

    for (config, at, is_tcp, key) in [
        (HFPEP, "192.0.2.1:5099", true, "hfpep.bearer.listen"),
        (HFPEP, "0.0.0.0:2222", true, "hfpep.listen.at"),
        (STATION, "192.0.2.1:5066", true, "s5066.listen"),
        (SAR, "0.0.0.0:1624", false, "sar.listen"),
        (OLSR, "0.0.0.0:698", false, "another routing daemon"),
    ] {
        assert_eq!(port(config), [], "{config}");
        let taken = host.nets.within(&host.name, || match is_tcp {
            true => (TcpListener::bind(at).ok(), None),
            false => (None, UdpSocket::bind(at).ok()),
        });
        let found = port(config);
        drop(taken);
        assert_eq!(found.len(), 1, "{config}: {found:?}");
        let number = at.split_once(':').unwrap().1;
        assert_eq!(found[0].0, "port", "{found:?}");
        assert!(found[0].1.contains(key) && found[0].1.contains(number), "{found:?}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_way_that_is_gone_is_found_for_any_service_and_is_a_fault_while_it_lasts() {
    let mut host = Host::new("\"10.2.0.0/16\"");
    host.run("ip link add link eth0 name mac0 type macvlan");
    host.run("ip link set mac0 up");
    host.run("ip address add 203.0.113.1/24 dev mac0");
    let behind = STATION.replace("192.0.2.7", "203.0.113.7");
    let uplink = host.uplink.clone();
    let codes = |config: &str| {
        host.configure(config);
        host.codes()
    };

    for config in [HFPEP, SAR, GRE, STATION, &behind] {
        assert_eq!(codes(config), [""; 0], "{config}");
    }
    host.nets.run(&uplink, "ip link set eth0 down");
    for config in [HFPEP, SAR, GRE, STATION, &behind, OLSR, HBH] {
        assert_eq!(codes(config), ["interface-missing"], "{config}");
    }
    host.nets.run(&uplink, "ip link set eth0 up");
    host.run("ip link set eth0 down");
    for config in [HFPEP, SAR, GRE, STATION] {
        let found = codes(config);
        assert!(found.iter().any(|it| it == "no-route"), "{config}: {found:?}");
    }
    host.run("ip link set eth0 up");
    host.run("ip route replace default via 192.0.2.254");

    host.configure(&behind);
    let (name, file) = (host.name.clone(), host.nets.folder().join("a.toml"));
    host.nets.start(&name, &format!("{TRACKWAY} run {}", file.display()), "gateway ready");
    let has_fault = |host: &Host| {
        let status = host.nets.status(&host.name);
        let faults = status["faults"].as_array().unwrap();
        faults.iter().any(|it| it["said"].to_string().contains("mac0, which leads to the modem"))
    };
    host.nets.run(&uplink, "ip link set eth0 down");
    assert!(wait_until(SOON, || has_fault(&host)), "{}", host.nets.status(&name));
    host.nets.run(&uplink, "ip link set eth0 up");
    assert!(wait_until(SOON, || !has_fault(&host)), "{}", host.nets.status(&name));
}

/// Its routes are missing, and nobody's rule comes before them.
#[test]
#[ignore = "needs root: run by ./test"]
fn a_service_that_waits_for_its_address_is_overruled_by_nobody() {
    let mut host = Host::new("\"10.2.0.0/16\"");
    host.run("ip address delete 192.0.2.1/24 dev eth0");
    host.configure(GRE);
    let (name, file) = (host.name.clone(), host.nets.folder().join("a.toml"));
    host.nets.start(&name, &format!("{TRACKWAY} run {}", file.display()), "gateway ready");

    let codes = host.codes();

    assert!(codes.iter().any(|code| code == "listen-address-gone"), "{codes:?}");
    assert!(!codes.iter().any(|code| code == "rule-overruled"), "{codes:?}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_not_judged_is_named_with_its_place() {
    let host = Host::new("\"10.2.0.0/16\"");
    host.configure(SAR);
    let perhaps = || {
        let all = host.all().into_iter().filter(|it| it[0] == "perhaps");
        all.map(|[_, what, remedy]| format!("{what} {remedy}")).collect::<Vec<_>>()
    };
    assert_eq!(perhaps(), [""; 0]);

    for (harm, undo, expected) in [
        (
            "nft add table bridge site; add chain bridge site in { type filter hook input priority 0; policy drop; }",
            "nft delete table bridge site",
            "chain bridge site in drops packets, and is not judged here `nft list chain bridge site in` shows it",
        ),
        (
            "nft add table netdev site; add chain netdev site in { type filter hook ingress device eth0 priority 0; }; \
             add rule netdev site in meta length > 1400 drop",
            "nft delete table netdev site",
            "in chain netdev site in may drop packets `nft list chain netdev site in` shows it",
        ),
        (
            "nft add table inet site; add chain inet site raw { type filter hook prerouting priority raw; }; \
             add chain inet site in { type filter hook input priority 0; }; add rule inet site raw udp dport 514 notrack; \
             add rule inet site in ct state invalid,untracked drop",
            "nft delete table inet site",
            "keeps packets from connection tracking, and the rule with handle",
        ),
        (
            "nft add table inet site; add chain inet site pre { type filter hook prerouting priority filter; }; \
             add rule inet site pre meta mark set 0",
            "nft delete table inet site",
            "in chain inet site pre may change the mark by which sar leads packets to itself",
        ),
        (
            "ip xfrm policy add src 192.0.2.1 dst 192.0.2.9 dir out tmpl proto esp mode transport",
            "ip xfrm policy flush",
            "of IPsec may drop packets `ip xfrm policy` shows it",
        ),
    ] {
        match harm.strip_prefix("nft ") {
            Some(orders) => host.nft(orders),
            None => harm.split("; ").for_each(|command| host.run(command)),
        }
        let told = perhaps();
        assert_eq!(told.len(), 1, "{harm}: {told:?}");
        assert!(told[0].contains(expected), "{harm}: {told:?}");
        host.run(undo);
        assert_eq!(perhaps(), [""; 0], "{undo}");
    }
}

/// The rules and routes by which HF-PEP leads connections here.
#[test]
#[ignore = "needs root: run by ./test"]
fn what_leads_connections_here_is_back_soon_and_a_clash_names_the_key_of_its_numbers() {
    let mut host = Host::new("\"10.2.0.0/16\"");
    host.run("sysctl -qw net.ipv6.conf.lo.disable_ipv6=0");
    let both = HFPEP.replace("\"10.7.0.0/16\"", "\"10.7.0.0/16\", \"fd07::/16\"");
    host.configure(&both);
    let (name, file) = (host.name.clone(), host.nets.folder().join("a.toml"));
    host.nets.start(&name, &format!("{TRACKWAY} run {}", file.display()), "gateway ready");
    let is_led = || host.nets.run(&name, "ip -6 route show table 29810").contains("local default");
    assert!(wait_until(SOON, is_led));

    host.run("sysctl -qw net.ipv6.conf.lo.disable_ipv6=1");
    assert!(wait_until(SOON, || !is_led()));
    let is_told = || host.nets.status(&name)["faults"].to_string().contains("route-missing");
    assert!(wait_until(SOON, is_told), "{}", host.nets.status(&name));
    // A reload puts nothing back that the host lacks, and does not fail for it.
    for config in [HFPEP, &both] {
        host.configure(config);
        host.run(&format!("{TRACKWAY} reload"));
    }
    host.run("sysctl -qw net.ipv6.conf.lo.disable_ipv6=0");
    // It takes 10 ms; without a notice it is tried again after 12 s.
    assert!(wait_until(Duration::from_secs(1), is_led), "{}", host.nets.status(&name));

    // Addresses of others come and go, and nothing of ours is touched.
    for _ in 0..40 {
        host.run("ip address add 203.0.113.50/32 dev lo");
        host.run("ip address del 203.0.113.50/32 dev lo");
    }
    let faults = host.nets.status(&name)["faults"].to_string();
    assert!(!faults.contains("contested"), "{faults}");

    host.run("ip rule add pref 100 from 203.0.113.9 lookup main");
    let is_clash = || {
        let faults = host.nets.status(&name)["faults"].to_string();
        faults.contains("numbers-clash") && faults.contains("local-priorities")
    };
    assert!(wait_until(SOON, is_clash), "{}", host.nets.status(&name));
    host.run("ip rule del pref 100 from 203.0.113.9");
    assert!(wait_until(SOON, || !is_clash()), "{}", host.nets.status(&name));
}

//! Tests that `trackway doctor` finds what is wrong with a host, and that each remedy mends it.

use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;

use serde_json::Value;

use crate::namespaces::{Namespaces, TRACKWAY};

/// A host with an uplink, and the configuration of a tunnel.
struct Host {
    nets: Namespaces,
    name: String,
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
        let host = Self { nets, name, keys };
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

    fn run(&self, command: &str) {
        self.nets.run(&self.name, command);
    }

    /// The codes of all findings but those of low severity, and their remedies.
    fn findings(&self) -> Vec<(String, String)> {
        let file = self.nets.folder().join("a.toml");
        let command = format!("{TRACKWAY} doctor --json {}", file.display());
        let said = self.nets.try_run(&self.name, &command);
        let all: Vec<Value> = serde_json::from_slice(&said.stdout).unwrap();
        let text = |of: &Value, key: &str| of[key].as_str().unwrap().to_owned();
        let grave = all.iter().filter(|it| it["severity"] != "low");
        grave.map(|it| (text(it, "code"), text(it, "remedy"))).collect()
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

    for (harm, code) in
        [("sysctl -qw net.ipv4.ip_forward=0", "forwarding"), ("ip link set eth0 mtu 1000", "mtu")]
    {
        host.run(harm);
        let findings = host.findings();
        assert_eq!(findings.len(), 1, "after {harm}: {findings:?}");
        assert_eq!(findings[0].0, code);
        let remedy = findings[0].1.split([',', '(']).next().unwrap().trim().to_owned();
        host.run(&remedy);
        assert_eq!(host.codes(), [""; 0], "after {remedy}");
    }

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
fn the_port_of_a_gateway_whose_files_are_elsewhere_is_not_another_programs() {
    let mut host = Host::new("\"10.2.0.0/16\"");
    let file = host.nets.folder().join("a.toml").display().to_string();
    // As in a container that shares the network of its host, and nothing else.
    let elsewhere = host.nets.folder().join("elsewhere");
    fs::write(
        &elsewhere,
        format!("mount -t tmpfs tmpfs /run && exec {TRACKWAY} doctor --json {file}"),
    )
    .unwrap();
    let found = |host: &Host| {
        let words = ["unshare", "-m", "sh", elsewhere.to_str().unwrap()];
        let said = host.nets.try_words(&host.name, &words);
        let all: Vec<Value> = serde_json::from_slice(&said.stdout).unwrap();
        let codes = all.iter().map(|it| it["code"].as_str().unwrap().to_owned());
        codes.filter(|code| code == "port" || code == "running").collect::<Vec<_>>()
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
    let (file, hbh) = (host.nets.folder().join("a.toml"), host.nets.folder().join("hbh.toml"));
    fs::write(&hbh, "[hbh]\ninterfaces = [\"eth0\"]\n").unwrap();
    let elsewhere = host.nets.folder().join("elsewhere");
    let script = "mount -t tmpfs tmpfs /run && exec";
    fs::write(&elsewhere, format!("{script} {TRACKWAY} doctor --json {}", file.display())).unwrap();
    let name = host.name.clone();
    host.nets.start(&name, &format!("{TRACKWAY} run {}", hbh.display()), "gateway ready");

    let words = ["unshare", "-m", "sh", elsewhere.to_str().unwrap()];
    let said = host.nets.try_words(&host.name, &words);

    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("a gateway that has its files elsewhere"), "{said}");
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
    host.route("\"0.0.0.0/0\"");

    host.run("nft add table inet filter");
    host.run("nft add chain inet filter pre { type filter hook prerouting priority 0 ; }");
    host.run("nft add rule inet filter pre fib saddr . mark . iif oif missing drop");
    assert_eq!(host.codes(), ["leaves-in-clear", "reverse-path"]);
}

//! Tests a router that hands over packets in GRE, played by a second gateway of ours.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::process::Command;

use base::ip::udp::Datagram;
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};
use serde_json::Value;

use crate::namespaces::{Namespaces, Program, SOON, TRACKWAY, undisturbed, wait_until};

/// Two hosts on a cable, each with GRE to the other.
struct Pair {
    nets: Namespaces,
    hosts: [String; 2],
    gateways: Vec<usize>,
}

impl Pair {
    fn new(more: [&str; 2]) -> Self {
        let mut nets = Namespaces::new();
        let hosts = ["a", "b"].map(|host| nets.add(host));
        nets.cable((&hosts[0], "eth0"), (&hosts[1], "eth0"));
        let mut pair = Self { nets, hosts, gateways: Vec::new() };
        for host in [0, 1] {
            let (own, other, name) = (host + 1, 2 - host, pair.hosts[host].clone());
            for command in [
                "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0".to_owned(),
                format!("ip address add 10.7.0.{own}/24 dev eth0"),
                format!("ip address add fd07::{own}/64 dev eth0 nodad"),
            ] {
                pair.nets.run(&name, &command);
            }
            let tunnel = |local: &str, to: &str, addresses: &str, more: &str| {
                format!(
                    "[[gre]]\nlocal = \"{local}{own}\"\nremote = \"{local}{other}\"\nto = [{to}]\n\
                     addresses = [{addresses}]\n{more}\n"
                )
            };
            let v4 = tunnel(
                "10.7.0.",
                &format!("\"10.{other}.0.0/16\", \"fd0{other}::/32\""),
                &format!("\"10.{own}.0.1/32\", \"fd0{own}::1/128\""),
                more[host],
            );
            let v6 = tunnel(
                "fd07::",
                &format!("\"10.1{other}.0.0/16\""),
                &format!("\"10.1{own}.0.1/32\""),
                "",
            );
            let file = pair.nets.folder().join(format!("{host}.toml"));
            fs::write(&file, v4 + &v6).unwrap();
            let gateway = pair.start(host);
            pair.gateways.push(gateway);
        }
        pair
    }

    fn start(&mut self, host: usize) -> usize {
        let file = self.nets.folder().join(format!("{host}.toml"));
        self.nets.run_gateway(&self.hosts[host], &file)
    }

    /// All that the gateway of a host has put into the kernel.
    fn claimed(&self, host: usize) -> String {
        self.nets.claimed(&self.hosts[host], 119)
    }

    /// Expects that a ping of host 0 is answered before long.
    fn expect_ping(&self, address: &str) {
        let command = format!("ping -c 1 -W 1 {address}");
        let comes =
            wait_until(SOON, || self.nets.try_run(&self.hosts[0], &command).status.success());
        assert!(comes, "no ping to {address}: {}", self.status(0));
    }

    fn status(&self, host: usize) -> Value {
        self.nets.status(&self.hosts[host])
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn packets_go_through_gre_over_both_versions_of_ip() {
    let mut pair = Pair::new(["key = 7\nchecksum = true"; 2]);

    for (to, len) in [("10.2.0.1", 56), ("fd02::1", 56), ("10.12.0.1", 56), ("10.2.0.1", 3000)] {
        let unanswered = pair.nets.unanswered(&pair.hosts[0], to, 3, len);
        assert!(unanswered.is_empty(), "{to}: {}\n{}", pair.status(0), pair.status(1));
    }
    let listener = pair.nets.within(&pair.hosts[1], || TcpListener::bind("10.2.0.1:7").unwrap());
    let mut client = pair.nets.within(&pair.hosts[0], || TcpStream::connect("10.2.0.1:7").unwrap());
    let (mut server, _) = listener.accept().unwrap();
    let sent = vec![7; 100_000];
    let text = sent.clone();
    let writer = std::thread::spawn(move || client.write_all(&text).unwrap());
    let mut heard = vec![0; sent.len()];
    server.set_read_timeout(Some(SOON)).unwrap();
    server.read_exact(&mut heard).unwrap();
    writer.join().unwrap();

    assert_eq!(heard, sent);
    let status = pair.status(1);
    assert!(status["gre_received"].as_u64() >= Some(80), "{status}");
    for dropped in ["key", "checksum", "malformed", "protocol", "device", "unsent"] {
        assert_eq!(status[format!("gre_dropped_{dropped}")], 0, "{dropped}: {status}");
    }

    // What is longer than this the kernel cuts, or tells its sender.
    let device = pair.nets.run(&pair.hosts[0], "ip link show trackway-gre0");
    assert!(device.contains("mtu 1468"), "{device}");

    for gateway in pair.gateways.clone() {
        pair.nets.program(gateway).stop();
    }
    for host in &pair.hosts {
        let left = pair.nets.run(host, "ip address") + &pair.nets.run(host, "ip route");
        assert!(!left.contains("trackway-gre"), "{left}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_lost_address_of_its_own_is_a_fault_with_the_order_that_gives_it_back() {
    let pair = Pair::new([""; 2]);
    pair.expect_ping("10.2.0.1");

    pair.nets.run(&pair.hosts[0], "ip address del 10.7.0.1/24 dev eth0");

    let order = "`ip address add 10.7.0.1/24 dev eth0`";
    let is_told = wait_until(SOON, || {
        let faults = pair.status(0)["faults"].to_string();
        faults.contains("gre.local names 10.7.0.1, no address of this host")
            && faults.contains(order)
    });
    assert!(is_told, "{}", pair.status(0));
    let file = pair.nets.folder().join("0.toml");
    let doctor = format!("{TRACKWAY} doctor {}", file.display());
    let doctor = pair.nets.try_run(&pair.hosts[0], &doctor);
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(doctor.contains("gre.local names 10.7.0.1, no address of this host"), "{doctor}");

    pair.nets.run(&pair.hosts[0], order.trim_matches('`'));
    pair.expect_ping("10.2.0.1");
    let ends = wait_until(SOON, || pair.status(0)["faults"].as_array().unwrap().is_empty());
    assert!(ends, "{}", pair.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_for_a_router_goes_nowhere_else() {
    let mut pair = Pair::new([""; 2]);
    let host = pair.hosts[0].clone();
    for router in ["10.7.0.2", "fd07::2"] {
        pair.nets.run(&host, &format!("ip route add default via {router}"));
    }
    let inside = ["10.2.0.1", "fd02::1", "10.12.0.1"];
    let clear = |pair: &Pair| pair.nets.clear(&host, (&pair.hosts[1], "eth0"), &inside);
    let devices = |pair: &Pair, state: &str| {
        for device in ["trackway-gre0", "trackway-gre1"] {
            pair.nets.run(&host, &format!("ip link set {device} {state}"));
        }
    };
    let addresses = |pair: &Pair| pair.nets.run(&host, "ip -o address show to fd01::1");
    let before = (pair.claimed(0), addresses(&pair));
    assert_eq!(before.0.lines().count(), 6, "{}", before.0);

    devices(&pair, "down");
    assert_eq!(clear(&pair), 0);
    devices(&pair, "up");
    inside.iter().for_each(|address| pair.expect_ping(address));
    assert_eq!((pair.claimed(0), addresses(&pair)), before);
    let status = pair.status(0);
    assert!(status["gre_routes_restored"].as_u64() >= Some(3), "{status}");

    let gateway = pair.gateways[0];
    pair.nets.program(gateway).signal(Signal::SIGKILL);
    pair.nets.program(gateway).finish(SOON);
    assert_eq!(clear(&pair), 0, "{}", pair.claimed(0));
    assert_eq!(pair.claimed(0).lines().count(), 3, "{}", pair.claimed(0));

    let gateway = pair.start(0);
    inside.iter().for_each(|address| pair.expect_ping(address));
    assert_eq!(pair.claimed(0), before.0);
    let (code, said) = pair.nets.program(gateway).stop();
    assert_eq!((code, &pair.claimed(0)[..]), (Some(0), ""), "{said}");
    // It is the default route that would have led them there, all the while.
    assert_eq!(clear(&pair), 6);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn packets_with_another_key_or_of_another_host_are_not_taken() {
    let pair = Pair::new(["key = 7", "key = 8"]);
    // A third address on the cable, which is nobody's router.
    pair.nets.run(&pair.hosts[0], "ip address add 10.7.0.9/24 dev eth0");

    let udp = pair.nets.within(&pair.hosts[0], || UdpSocket::bind("0.0.0.0:0").unwrap());
    udp.send_to(b"hello", "10.2.0.1:9").unwrap();
    assert!(pair.nets.unanswered(&pair.hosts[0], "10.12.0.1", 1, 56).is_empty());
    let status = pair.status(1);
    assert_eq!(status["gre_dropped_key"], 1, "{status}");

    let raw = pair.nets.within(&pair.hosts[0], || {
        socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)
            .unwrap()
    });
    // A whole IP packet from 10.7.0.9 with GRE, and one that is cut, from the router.
    for (source, gre) in [(9, &[0, 0, 8, 0, 0x45][..]), (1, &[0x20, 0, 8, 0, 0, 0, 0, 8, 0x45])] {
        let len = u8::try_from(20 + gre.len()).unwrap();
        let mut packet =
            vec![0x45, 0, 0, len, 0, 0, 0, 0, 64, 47, 0, 0, 10, 7, 0, source, 10, 7, 0, 2];
        packet.extend(gre);
        let to = SockaddrIn::new(10, 7, 0, 2, 0);
        sendto(raw.as_raw_fd(), &packet, &to, MsgFlags::empty()).unwrap();
    }
    let comes = wait_until(SOON, || pair.status(1)["gre_dropped_malformed"] == 1);
    let status = pair.status(1);
    assert!(comes && status["gre_dropped_key"] == 1, "{status}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_router_cannot_send_from_an_address_of_this_host_or_of_another_router() {
    let pair = Pair::new([""; 2]);
    let host = pair.hosts[1].clone();
    let heard = pair.nets.within(&host, || UdpSocket::bind("[fd02::1]:9").unwrap());
    heard.set_read_timeout(Some(SOON)).unwrap();
    let raw = pair.nets.within(&pair.hosts[0], || {
        socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)
            .unwrap()
    });
    let send = |from: &str, payload: &[u8]| {
        let to = if from.starts_with('[') { "[fd02::1]:9" } else { "10.2.0.1:9" };
        let [source, destination]: [SocketAddr; 2] = [from, to].map(|at| at.parse().unwrap());
        let mut inner = Vec::new();
        Datagram { source, destination, payload }.emit(&mut inner);
        let protocol = if source.is_ipv4() { [8, 0] } else { [0x86, 0xdd] };
        let len = u8::try_from(24 + inner.len()).unwrap();
        let outer = [0x45, 0, 0, len, 0, 0, 0, 0, 64, 47, 0, 0, 10, 7, 0, 1, 10, 7, 0, 2];
        let packet = [&outer[..], &[0, 0], &protocol, &inner].concat();
        let to = SockaddrIn::new(10, 7, 0, 2, 0);
        sendto(raw.as_raw_fd(), &packet, &to, MsgFlags::empty()).unwrap();
    };
    let count = |what: &str| pair.status(1)[format!("gre_packets_{what}")].as_u64();

    // Of its device; of another interface, learnt while it runs; behind the router of the other tunnel; nobody's.
    pair.nets.run(&host, "sysctl -qw net.ipv6.conf.lo.disable_ipv6=0");
    pair.nets.run(&host, "ip address add fd66::1/128 dev lo nodad");
    let spoofed = [
        ("10.2.0.1:9", "from_self"),
        ("[fd02::1]:9", "from_self"),
        ("[fd66::1]:9", "from_self"),
        ("10.11.0.9:9", "disallowed"),
        ("127.0.0.2:9", "not_unicast"),
        ("[ff02::1]:9", "not_unicast"),
    ];
    for (from, what) in spoofed {
        let before = count(what);
        let is_dropped = wait_until(SOON, || {
            send(from, b"spoofed");
            count(what) > before
        });
        assert!(is_dropped, "{from}: {}", pair.status(1));
    }
    // Some may have come before the new address was learnt, and none comes since.
    heard.set_nonblocking(true).unwrap();
    while heard.recv_from(&mut [0; 20]).is_ok() {}
    heard.set_nonblocking(false).unwrap();
    for (from, _) in spoofed {
        send(from, b"spoofed");
    }
    // Behind the router, and the router itself, which no network has.
    for from in ["[fd01::9]:9", "[fd07::9]:9"] {
        send(from, b"true");
        let mut data = [0; 20];
        let (len, named) = undisturbed(|| heard.recv_from(&mut data)).unwrap();
        assert_eq!((&data[..len], named), (&b"true"[..], from.parse().unwrap()));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn tshark_decodes_what_is_in_gre() {
    let pair = Pair::new(["key = 7\nchecksum = true"; 2]);
    let file = pair.nets.folder().join("gre.pcapng").display().to_string();
    let words = ["tshark", "-i", "eth0", "-f", "ip proto 47 or ip6 proto 47", "-w", &file];
    let mut tshark =
        Program::start(&mut pair.nets.words(&pair.hosts[1], &words), "tshark").unwrap();
    tshark.wait_for("Capture started", SOON);

    for to in ["10.2.0.1", "fd02::1", "10.12.0.1"] {
        let unanswered = pair.nets.unanswered(&pair.hosts[0], to, 1, 56);
        assert!(unanswered.is_empty(), "{to}: {}\n{}", pair.status(0), pair.status(1));
    }
    let read = |filter: &str, fields: &[&str]| {
        let fields = fields.iter().flat_map(|field| ["-e", field]);
        let mut command = Command::new("tshark");
        command.args(["-r", &file, "-Y", filter, "-T", "fields", "-E", "occurrence=l"]);
        String::from_utf8(command.args(fields).output().unwrap().stdout).unwrap()
    };
    let echoes = "(icmp.type == 8 || icmpv6.type == 128) && gre";
    let comes = wait_until(SOON, || read(echoes, &["frame.number"]).lines().count() >= 3);
    tshark.stop();

    assert!(comes, "{}", read("gre", &["gre.proto", "ip.dst", "ipv6.dst"]));
    let keyed = read("gre.key && ip", &["gre.key", "gre.checksum.status", "gre.proto"]);
    for expected in ["0x00000007\t1\t0x0800\n", "0x00000007\t1\t0x86dd\n"] {
        assert!(keyed.contains(expected), "{keyed}");
    }
    let plain = read("gre && !gre.key && ipv6", &["gre.flags_and_version", "ip.dst"]);
    assert!(plain.contains("0x0000\t10.12.0.1\n"), "{plain}");
    assert_eq!(read("_ws.malformed || gre.checksum.status == 0", &["frame.number"]), "");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_sends_too_long_a_packet_into_a_tunnel_is_told_how_long_it_may_be() {
    let mut pair = Pair::new(["key = 7\nchecksum = true"; 2]);
    let (client, router) = (pair.nets.add("c"), &pair.hosts[0]);
    pair.nets.cable((&client, "up"), (router, "down"));
    for (host, interface, own) in [(&client, "up", 2), (router, "down", 1)] {
        pair.nets.run(host, &format!("sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=0"));
        pair.nets.address(host, interface, &format!("10.1.7.{own}/24"));
        pair.nets.run(host, &format!("ip address add fd01:0:7::{own}/64 dev {interface} nodad"));
    }
    pair.nets.run(router, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    pair.nets.run(&client, "ip route add default via 10.1.7.1");
    pair.nets.run(&client, "ip route add default via fd01:0:7::1");

    // 1,500 octets less 20 of IPv4, 4 of GRE, 4 of the key and 4 of the checksum.
    let mtu = 1_468;
    for (from, to, headers) in [("10.1.7.2", "10.2.0.1", 28), ("fd01:0:7::2", "fd02::1", 48)] {
        let udp = pair.nets.within(&client, || UdpSocket::bind((from, 0)).unwrap());
        let route = || pair.nets.run(&client, &format!("ip route get {to}"));

        // The sender's kernel sets the flag that forbids routers to fragment the packet.
        udp.send_to(&vec![7; mtu - headers], (to, 9)).unwrap();
        let before = route();
        let is_told = wait_until(SOON, || {
            let _ = udp.send_to(&vec![7; mtu + 1 - headers], (to, 9));
            route().contains(&format!("mtu {mtu}"))
        });

        assert!(is_told && !before.contains("mtu"), "{before}{}{}", route(), pair.status(0));
    }
}

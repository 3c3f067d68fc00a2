//! Tests that a host's rules hold with HBH: each rule is tried without HBH first, then with HBH.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use ::gateway::sys::Raw;
use base::ip::udp::Datagram;

use crate::gateway::Net;
use crate::namespaces::{undisturbed, wait_until};

/// For what a rule forbids: the program gives up after it.
const MOMENT: Duration = Duration::from_millis(700);
const SOON: Duration = Duration::from_secs(15);

#[test]
#[ignore = "needs root: run by ./test"]
fn a_port_closed_to_an_interface_or_a_station_is_closed() {
    let mut net = Net::chain(2);
    let [a, b, c, d, e, f] = net.mac(0, "eth0");
    let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
    net.rule(1, "input", "iifname \"eth0\" tcp dport 2022 counter drop");
    net.rule(1, "input", &format!("ether saddr {mac} tcp dport 2023 counter drop"));

    plain_and_by_hbh(&mut net, |net| {
        for closed in ["10.9.0.2:2022", "10.9.0.2:2023", "[fd09::2]:2022"] {
            assert!(net.is_closed(0, 1, closed), "{closed}");
        }
        assert_eq!(net.connects(0, 1, "10.9.0.2:2024"), "10.9.0.1");
        assert_eq!(net.connects(0, 1, "[fd09::2]:2024"), "fd09::1");
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_forward_drops_is_not_forwarded() {
    // 3 is a host behind 1 that knows nothing of HBH.
    let mut net = Net::chain(3);
    net.add_node();
    net.join(2, 1, 3);
    net.route(0, "10.9.2.0/24 via 10.9.0.2");
    net.route(3, "10.9.0.0/24 via 10.9.2.1");
    let destinations = ["10.9.1.2", "10.9.2.2"];

    plain_and_by_hbh(&mut net, |net| {
        for destination in destinations {
            net.expect_pings(0, destination, 2);
        }
        net.nft(
            1,
            "add chain inet t forward { type filter hook forward priority 0 ; policy drop ; }",
        );
        for destination in destinations {
            let said = net.try_ping(0, &format!("-c 2 -i 0.05 -W 1 {destination}"));
            assert!(said.contains(" 100% packet loss"), "{said}");
        }
        net.expect_pings(0, "10.9.0.2", 2);
        net.nft(1, "delete table inet t");
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_forwarded_port_is_forwarded() {
    let mut net = Net::chain(3);
    net.nft(1, "add table ip n");
    net.nft(1, "add chain ip n pre { type nat hook prerouting priority -100 ; }");
    net.nft(1, "add rule ip n pre iifname \"eth0\" tcp dport 2080 dnat to 10.9.1.2:2081");

    plain_and_by_hbh(&mut net, |net| {
        let listener = net.listen(2, "10.9.1.2:2081");
        assert_eq!(net.reaches(0, "10.9.0.2:2080", &listener), "10.9.0.1");
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_masqueraded_network_is_seen_by_one_address() {
    let mut net = Net::chain(3);
    net.nft(1, "add table ip n");
    net.nft(1, "add chain ip n post { type nat hook postrouting priority 100 ; }");
    net.nft(1, "add rule ip n post oifname \"eth1\" masquerade");

    plain_and_by_hbh(&mut net, |net| {
        let listener = net.listen(2, "10.9.1.2:2081");
        assert_eq!(net.reaches(0, "10.9.1.2:2081", &listener), "10.9.1.1");
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_hosts_own_address_is_no_source() {
    let mut net = Net::chain(2);

    plain_and_by_hbh(&mut net, |net| {
        assert!(!net.hears(0, "10.9.0.2:2000", 1, "10.9.0.2:2001"));
        assert!(net.hears(0, "10.9.0.1:2000", 1, "10.9.0.2:2001"));
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_administrators_reverse_path_filter_decides() {
    let mut net = Net::chain(3);

    plain_and_by_hbh(&mut net, |net| {
        for (filter, is_heard) in [(1, false), (0, true), (2, true)] {
            for interface in ["all", "eth0"] {
                let name = &net.nodes[1].name;
                net.nets
                    .run(name, &format!("sysctl -qw net.ipv4.conf.{interface}.rp_filter={filter}"));
            }
            // It would come by the other interface.
            let heard = net.hears(0, "10.9.1.2:2000", 1, "10.9.0.2:2001");
            assert_eq!(heard, is_heard, "rp_filter = {filter}");
        }
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn only_what_was_asked_for_comes_in() {
    for version in [4, 6] {
        let mut net = Net::chain(2);
        net.rule(1, "input", "icmpv6 type 133-137 accept");
        net.rule(1, "input", "ct state established,related accept");
        net.rule(1, "input", "drop");
        let [here, there] = if version == 4 {
            ["10.9.0.1:2001", "10.9.0.2:2001"]
        } else {
            ["[fd09::1]:2001", "[fd09::2]:2001"]
        };

        plain_and_by_hbh(&mut net, |net| {
            assert!(net.is_closed(0, 1, there), "{there}");
            net.connects(1, 0, here);
        });
    }
}

/// The same must be true twice, and the second time HBH must have carried it.
fn plain_and_by_hbh(net: &mut Net, check: impl Fn(&Net)) {
    check(net);
    let nodes = net.nodes.len().min(3);
    for node in 0..nodes {
        net.start(node);
    }
    for node in 0..nodes {
        let expected = if node == 0 || node + 1 == nodes { 1 } else { 2 };
        let is_up = wait_until(SOON, || net.count(node, "neighbours") == expected);
        assert!(is_up, "node {node}: {}", net.status(node));
    }
    let before: Vec<_> = (0..nodes).map(|node| net.count(node, "packets_released")).collect();

    check(net);

    assert!(net.count(1, "packets_released") > before[1], "{}", net.status(1));
    for node in 0..nodes {
        assert_eq!(net.count(node, "packets_release_failed"), 0, "{}", net.status(node));
    }
}

impl Net {
    fn nft(&self, node: usize, order: &str) {
        let output = self.nets.try_run(&self.nodes[node].name, &format!("nft {order}"));
        let complaint = String::from_utf8_lossy(&output.stderr);
        // The table is made by whoever comes first.
        assert!(
            output.status.success() || complaint.contains("No such file"),
            "{order}: {complaint}"
        );
        if !output.status.success() {
            self.nets.run(&self.nodes[node].name, "nft add table inet t");
            self.nets.run(&self.nodes[node].name, &format!("nft {order}"));
        }
    }

    /// Adds a rule to a chain of filters.
    fn rule(&self, node: usize, hook: &str, rule: &str) {
        self.nft(
            node,
            &format!("add chain inet t {hook} {{ type filter hook {hook} priority 0 ; }}"),
        );
        self.nft(node, &format!("add rule inet t {hook} {rule}"));
    }

    fn listen(&self, node: usize, address: &str) -> TcpListener {
        self.nets.within(&self.nodes[node].name, || when_free(|| TcpListener::bind(address)))
    }

    /// Connects to a listener's port on another node, and returns the caller's address as the listener reports it.
    fn connects(&self, from: usize, to: usize, address: &str) -> String {
        let listener = self.listen(to, address);
        self.reaches(from, address, &listener)
    }

    fn reaches(&self, from: usize, address: &str, listener: &TcpListener) -> String {
        self.connect(from, address, SOON).unwrap();
        listener.accept().unwrap().1.ip().to_string()
    }

    /// Whether nothing answers at a port, although another node listens there.
    fn is_closed(&self, from: usize, to: usize, address: &str) -> bool {
        let _listener = self.listen(to, address);
        let refusal = self.connect(from, address, MOMENT).map_err(|error| error.kind());
        refusal.is_err_and(|kind| kind == io::ErrorKind::TimedOut)
    }

    fn connect(&self, from: usize, address: &str, at_most: Duration) -> io::Result<TcpStream> {
        let address: SocketAddr = address.parse().unwrap();
        let connect = || TcpStream::connect_timeout(&address, at_most);
        self.nets.within(&self.nodes[from].name, connect)
    }

    /// Whether a datagram with this source, sent by a node, reaches a port of another.
    fn hears(&self, from: usize, source: &str, to: usize, destination: &str) -> bool {
        let open = || when_free(|| UdpSocket::bind(destination));
        let socket = self.nets.within(&self.nodes[to].name, open);
        socket.set_read_timeout(Some(SOON)).unwrap();
        let raw = self.nets.within(&self.nodes[from].name, || Raw::open().unwrap());
        let destination: SocketAddr = destination.parse().unwrap();
        let forged: SocketAddr = source.parse().unwrap();
        let honest = SocketAddr::from((Ipv4Addr::new(10, 9, 0, 1), 2_002));
        for (source, payload) in [(forged, &b"forged"[..]), (honest, b"honest")] {
            let mut packet = Vec::new();
            Datagram { source, destination, payload }.emit(&mut packet);
            let header = base::ip::Header::parse(&packet).unwrap();
            raw.send(&header, &packet).unwrap();
            // Nothing overtakes an answer that was waited for.
            self.expect_pings(from, "10.9.0.2", 1);
        }
        let mut heard = [0; 16];
        let (len, _) = undisturbed(|| socket.recv_from(&mut heard)).unwrap();
        &heard[..len] == b"forged"
    }
}

/// Opens a socket on a port whose last owner has closed it. A program that another test starts at that
/// moment has a copy until it runs.
fn when_free<T>(open: impl Fn() -> io::Result<T>) -> T {
    let mut opened = open();
    wait_until(SOON, || {
        let is_used = opened.as_ref().is_err_and(|why| why.kind() == io::ErrorKind::AddrInUse);
        if is_used {
            opened = open();
        }
        !is_used
    });
    opened.unwrap()
}

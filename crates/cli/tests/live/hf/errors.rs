//! Tests that ICMP errors for borrowed addresses reach the socket using these addresses.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread::scope;

use super::pep::pep;
use super::{Net, SOON};
use testbed::traffic::call;

/// More than a packet, and than what is sent before an answer comes.
const OCTETS: usize = 100_000;

/// Two gateways, and a host behind routers on each side.
struct Sites {
    net: Net,
    hosts: [String; 2],
}

impl Sites {
    fn new(seed: u32) -> Self {
        let mut net = Net::with_radio(&format!("--speed 240000 --seed {seed}"));
        net.addresses();
        let hosts = [0, 1].map(|side| behind_routers(&mut net, side));
        for side in [0, 1] {
            net.start_gateway(side, &format!("[hfpep]\nhandshake = \"end-to-end\"\n{}", pep(side)));
        }
        for side in [0, 1] {
            net.expect_state(side, "hfpep", "bound");
        }
        Self { net, hosts }
    }

    /// What a host behind routers is told when it connects.
    fn told(&self, side: usize, to: &str) -> ErrorKind {
        let to: SocketAddr = to.parse().unwrap();
        let called = self.net.nets.within(&self.hosts[side], || call(None, to, 0, SOON));
        called.expect_err("nobody is there")
    }

    /// Octets both ways between the hosts behind the routers, by one connection.
    fn expect_octets(&self, side: usize, at: &str) {
        let at: SocketAddr = at.parse().unwrap();
        let (nets, hosts) = (&self.net.nets, &self.hosts);
        let listener = nets.within(&hosts[1 - side], || TcpListener::bind(at).unwrap());
        let mut client = nets.within(&hosts[side], || call(None, at, 0, SOON).unwrap());
        let (mut server, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        server.set_read_timeout(Some(SOON)).unwrap();
        let mut heard = vec![0; OCTETS];
        client.write_all(&vec![7; OCTETS]).unwrap();
        server.read_exact(&mut heard).expect("the path takes no packets of 1500 octets");
        server.write_all(&heard).unwrap();
        client.read_exact(&mut heard).expect("nor does the path back");
    }
}

/// A host behind two routers behind a gateway: between the routers, packets have 1300 octets at most, and only these
/// know that.
fn behind_routers(net: &mut Net, side: usize) -> String {
    let (own, gateway) = (side + 1, net.hosts[side].clone());
    let [near, far, host] = ["n", "f", "q"].map(|name| net.nets.add(&format!("{name}{side}")));
    net.nets.run(&gateway, "sysctl -qw net.ipv6.conf.default.disable_ipv6=0");
    for namespace in [&near, &far, &host] {
        let all =
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0";
        net.nets.run(namespace, all);
    }
    for namespace in [&gateway, &near, &far] {
        net.nets.run(namespace, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    }
    // Each link is a network, whose first address is nearer to the gateway.
    for (link, first, second, mtu) in
        [(97, &gateway, &near, 1_500), (98, &near, &far, 1_300), (99, &far, &host, 1_500)]
    {
        net.nets.cable((first, "down"), (second, "up"));
        for (namespace, interface, last) in [(first, "down", 1), (second, "up", 2)] {
            for command in [
                format!("ip link set dev {interface} mtu {mtu}"),
                format!("ip address add 10.{own}.{link}.{last}/24 dev {interface}"),
                format!("ip address add fd0{own}:0:{link}::{last}/64 dev {interface} nodad"),
            ] {
                net.nets.run(namespace, &command);
            }
        }
        for command in [
            format!("ip route replace default via 10.{own}.{link}.1"),
            format!("ip -6 route replace default via fd0{own}:0:{link}::1"),
        ] {
            net.nets.run(second, &command);
        }
    }
    for (namespace, link, from) in [(&gateway, 98, 97), (&gateway, 99, 97), (&near, 99, 98)] {
        for command in [
            format!("ip route add 10.{own}.{link}.0/24 via 10.{own}.{from}.2"),
            format!("ip -6 route add fd0{own}:0:{link}::/64 via fd0{own}:0:{from}::2"),
        ] {
            net.nets.run(namespace, &command);
        }
    }
    host
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_path_that_takes_shorter_packets_is_found_on_both_sides() {
    let sites = Sites::new(51);

    scope(|scope| {
        for (side, at) in [
            (0, "10.2.99.2:80"),
            (1, "10.1.99.2:80"),
            (0, "[fd02:0:99::2]:80"),
            (1, "[fd01:0:99::2]:80"),
        ] {
            let sites = &sites;
            scope.spawn(move || sites.expect_octets(side, at));
        }
    });
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_client_is_told_that_nobody_is_at_an_address_whoever_finds_out() {
    let sites = Sites::new(52);

    scope(|scope| {
        // A router behind the far gateway, and that gateway itself.
        for (side, at) in [
            (0, "10.2.99.77:80"),
            (1, "10.1.99.77:80"),
            (0, "[fd02:0:99::77]:80"),
            (1, "[fd01:0:99::77]:80"),
            (0, "10.2.97.77:80"),
            (1, "10.1.97.77:80"),
            (0, "[fd02:0:97::77]:80"),
            (1, "[fd01:0:97::77]:80"),
        ] {
            let sites = &sites;
            scope.spawn(move || {
                assert_eq!(sites.told(side, at), ErrorKind::HostUnreachable, "{at}");
            });
        }
    });

    let status = sites.net.status(0);
    assert_eq!(status["hfpep_handshakes_refused"], 4, "{status}");
}

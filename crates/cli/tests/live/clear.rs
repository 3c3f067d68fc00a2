//! Tests packets in clear with a source behind a device, or addressed to the device itself.
//!
//! ```text
//!   outer ── eth1  gateway  lan0 ── lan, 10.50.0.2
//!                  ├ trackway-nc0: 10.2.0.0/16, fd02::/64       nobody is there: all that comes
//!                  ├ trackway-hf0: 10.3.0.0/16, fd03::/64       from these networks is false
//!                  └ trackway-gre0: 10.4.0.0/16, fd04::/64
//! ```
//! And packets from behind a device for a network that has gone.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use ::gateway::sys::port::{OFFLOAD, Port};
use nix::sys::signal::Signal;

use crate::namespaces::{Namespaces, SOON, TRACKWAY, wait_until};

/// A service, a host of each version behind it, and an address of each version of its device.
const SERVICES: [(&str, [&str; 2], [&str; 2]); 3] = [
    ("tunnel", ["10.2.0.9", "fd02::9"], ["10.77.0.1", "fd77::1"]),
    ("ipclient", ["10.3.0.9", "fd03::9"], ["10.88.0.1", "fd88::1"]),
    ("gre", ["10.4.0.9", "fd04::9"], ["10.99.0.1", "fd99::1"]),
];
const LAN: [&str; 2] = ["10.50.0.2", "fd50::2"];
const OUTER: [&str; 2] = ["10.9.0.2", "fd09::2"];
/// How long something is watched for that must not come.
const MOMENT: Duration = Duration::from_millis(300);

struct Net {
    nets: Namespaces,
    gateway: String,
    lan: String,
    outer: String,
    program: usize,
}

impl Net {
    /// Starts a gateway with all three services; the tunnel's peer has these networks as well.
    fn start(more: &str) -> Self {
        let mut nets = Namespaces::new();
        let [gateway, lan, outer] = ["gateway", "lan", "outer"].map(|name| nets.add(name));
        nets.cable((&gateway, "lan0"), (&lan, "eth0"));
        nets.cable((&gateway, "eth1"), (&outer, "eth0"));
        for (host, interface, addresses) in [
            (&gateway, "lan0", ["10.50.0.1/24", "fd50::1/64"]),
            (&lan, "eth0", ["10.50.0.2/24", "fd50::2/64"]),
            (&gateway, "eth1", ["10.9.0.1/24", "fd09::1/64"]),
            (&outer, "eth0", ["10.9.0.2/24", "fd09::2/64"]),
        ] {
            nets.run(host, &format!("sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=0"));
            for address in addresses {
                nets.address(host, interface, address);
            }
        }
        for host in [&gateway, &outer] {
            nets.run(host, "sysctl -qw net.ipv6.conf.lo.disable_ipv6=0");
        }
        for host in SERVICES.iter().flat_map(|(_, hosts, _)| hosts) {
            nets.run(&outer, &format!("ip address add {host} dev lo"));
        }
        nets.run(&outer, "ip route add default via 10.9.0.1");
        nets.run(&outer, "ip route add default via fd09::1");
        nets.run(&lan, "ip route add default via 10.50.0.1");
        nets.run(&lan, "ip route add default via fd50::1");
        nets.run(&gateway, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        let [(key, _), (_, public)] = ["key", "other"].map(|name| nets.make_key(name).unwrap());
        let config = format!(
            "[tunnel]\nprivate-key = {key:?}\naddresses = [\"10.77.0.1/24\", \"fd77::1/64\"]\n\
             [[tunnel.peer]]\nname = \"nobody\"\npublic-key = \"{public}\"\n\
             routes = [\"10.2.0.0/16\", \"fd02::/64\"{more}]\n\
             [ipclient]\naddresses = [\"10.88.0.1/24\", \"fd88::1/64\"]\n\
             [[ipclient.route]]\nnode = \"0.0.0.2\"\nto = [\"10.3.0.0/16\", \"fd03::/64\"]\n\
             [[gre]]\nlocal = \"10.9.0.1\"\nremote = \"10.9.0.77\"\n\
             to = [\"10.4.0.0/16\", \"fd04::/64\"]\naddresses = [\"10.99.0.1/24\", \"fd99::1/64\"]\n"
        );
        let program = nets.start_gateway(&gateway, "gateway", &config);
        Self { nets, gateway, lan, outer, program }
    }

    /// A socket in a namespace.
    fn socket(&self, namespace: &str, at: &str) -> UdpSocket {
        let at = if at.contains(':') { format!("[{at}]") } else { at.to_owned() };
        // A program that another test is about to start has what we had for a moment.
        let mut bound = None;
        let is_bound = wait_until(SOON, || {
            bound = self.nets.within(namespace, || UdpSocket::bind(format!("{at}:4000")).ok());
            bound.is_some()
        });
        assert!(is_bound, "{at}");
        let socket = bound.unwrap();
        socket.set_read_timeout(Some(MOMENT)).unwrap();
        socket
    }

    /// Whether a datagram from an address of the outer host comes to the LAN.
    fn arrives(&self, from: &str) -> bool {
        let version = usize::from(from.contains(':'));
        let (heard, said) = (self.socket(&self.lan, LAN[version]), self.socket(&self.outer, from));
        said.send_to(b"in clear", (LAN[version], 4_000)).unwrap();
        heard.recv(&mut [0; 16]).is_ok()
    }

    /// Whether one does before long, of several.
    fn comes(&self, from: &str) -> bool {
        wait_until(SOON, || self.arrives(from))
    }

    fn count(&self, service: &str) -> u64 {
        self.nets.count(&self.gateway, &format!("{service}_packets_in_clear"))
    }

    /// What a service counts before and after packets that must not arrive, sent until one of them is counted.
    fn expect_dropped(&self, service: &str, what: &str, arrives: impl Fn() -> bool) {
        let before = self.count(service);
        let mut has_arrived = false;
        let is_counted = wait_until(SOON, || {
            has_arrived |= arrives();
            has_arrived || self.count(service) > before
        });
        assert!(!has_arrived, "{what} arrives");
        assert!(is_counted, "{what} is not counted: {before}, {}", self.count(service));
    }

    /// Number of our nftables tables, which keep packets out for services.
    fn tables(&self) -> usize {
        let said = self.nets.run(&self.gateway, "nft list tables");
        SERVICES.iter().filter(|(name, ..)| said.contains(&format!("trackway_{name}"))).count()
    }

    fn expect_ping(&self, from: &str, address: &str) {
        let unanswered = self.nets.unanswered(from, address, 1, 56);
        assert!(unanswered.is_empty(), "{address}: {}", self.nets.run(from, "ip address"));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_comes_in_clear_in_the_name_of_those_behind_a_device_is_dropped() {
    let mut net = Net::start("");

    for filter in [0, 2] {
        for interface in ["all", "eth1"] {
            let setting = format!("net.ipv4.conf.{interface}.rp_filter={filter}");
            net.nets.run(&net.gateway, &format!("sysctl -qw {setting}"));
        }
        // Both ways are open now; what is missing later was dropped.
        for source in OUTER {
            assert!(net.comes(source), "what comes in its own name passes");
        }
        for (service, hosts, own) in SERVICES {
            for version in [0, 1] {
                let host = hosts[version];
                net.expect_dropped(service, &format!("{host} with {filter}"), || net.arrives(host));
                // In its own name, to an address of the device.
                let ping = format!("ping -c 1 -W 1 -I {} {}", OUTER[version], own[version]);
                net.expect_dropped(service, &format!("{ping} with {filter}"), || {
                    net.nets.try_run(&net.outer, &ping).status.success()
                });
            }
        }
        for version in [0, 1] {
            net.expect_ping(&net.outer.clone(), ["10.9.0.1", "fd09::1"][version]);
            net.expect_ping(&net.lan.clone(), OUTER[version]);
            // Of this host itself.
            for (_, _, own) in SERVICES {
                net.expect_ping(&net.gateway.clone(), own[version]);
            }
        }
    }
    // Somebody clears all.
    net.nets.run(&net.gateway, "nft flush ruleset");
    let is_back = wait_until(SOON, || net.tables() == 3);
    assert!(is_back, "{}", net.nets.run(&net.gateway, "nft list ruleset"));
    assert!(!net.arrives("10.2.0.9"));

    // Killed: still kept out, until that is what nobody wants any more.
    net.nets.program(net.program).signal(Signal::SIGKILL);
    net.nets.program(net.program).finish(SOON);
    for (_, hosts, _) in SERVICES {
        assert!(hosts.iter().all(|host| !net.arrives(host)), "{hosts:?}");
    }
    let said = net.nets.run(&net.gateway, &format!("{TRACKWAY} down"));
    assert!(said.contains("removed: nftables table inet trackway_gre\n"), "{said}");
    assert_eq!(net.tables(), 0, "{said}");
    // So it was an attack. No route leads back any more.
    for interface in ["all", "eth1"] {
        let setting = format!("net.ipv4.conf.{interface}.rp_filter=0");
        net.nets.run(&net.gateway, &format!("sysctl -qw {setting}"));
    }
    assert!(net.comes("10.2.0.9") && net.comes("fd04::9"));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_peer_for_everything_keeps_nobody_out_who_is_no_part_of_it() {
    let mut net = Net::start(", \"0.0.0.0/0\", \"::/0\"");
    net.nets.run(&net.gateway, "ip route add 198.51.100.0/24 via 10.9.0.2");
    for address in ["198.51.100.1", "203.0.113.1", "2001:db8::1"] {
        net.nets.run(&net.outer, &format!("ip address add {address} dev lo"));
    }

    // From where only the peer leads back to, to others, and to a device.
    assert!(!net.arrives("203.0.113.1") && !net.arrives("2001:db8::1"));
    assert!(!net.arrives("10.2.0.9"));
    // From networks that other routes lead to, to others and to this host.
    for address in ["10.9.0.2", "fd09::2", "198.51.100.1"] {
        assert!(net.comes(address), "{address}");
    }
    net.expect_ping(&net.lan.clone(), "10.50.0.1");
    net.expect_ping(&net.lan.clone(), "198.51.100.1");
    // To this host from anywhere: it answers through the peer.
    let heard = net.socket(&net.gateway, "10.9.0.1");
    let afar = net.socket(&net.outer, "203.0.113.1");
    let is_heard = wait_until(SOON, || {
        afar.send_to(b"from afar", "10.9.0.1:4000").unwrap();
        heard.recv(&mut [0; 16]).is_ok()
    });
    assert!(is_heard);
    drop(afar);

    let (code, said) = net.nets.program(net.program).stop();
    assert_eq!((code, net.tables()), (Some(0), 0), "{said}");
    assert!(net.comes("203.0.113.1"));
}

/// A host behind a tunnel, and the gateway of a LAN whose default route leads to the other gateway in clear.
struct Inner {
    nets: Namespaces,
    gateway: String,
    lan: String,
    far: String,
    /// The gateway's program, and its configuration.
    program: usize,
    config: String,
}

impl Inner {
    fn start() -> Self {
        let mut nets = Namespaces::new();
        let [gateway, lan, far] = ["gateway", "lan", "far"].map(|name| nets.add(name));
        nets.cable((&gateway, "lan0"), (&lan, "eth0"));
        nets.cable((&gateway, "eth1"), (&far, "eth0"));
        for (host, interface, addresses) in [
            (&gateway, "lan0", ["10.50.0.1/24", "fd50::1/64"]),
            (&lan, "eth0", ["10.50.0.2/24", "fd50::2/64"]),
            (&gateway, "eth1", ["10.9.0.1/24", "fd09::1/64"]),
            (&far, "eth0", ["10.9.0.2/24", "fd09::2/64"]),
        ] {
            nets.run(host, &format!("sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=0"));
            addresses.iter().for_each(|it| nets.address(host, interface, it));
        }
        for (host, next) in [(&gateway, ["10.9.0.2", "fd09::2"]), (&lan, ["10.50.0.1", "fd50::1"])]
        {
            next.iter()
                .for_each(|it| drop(nets.run(host, &format!("ip route add default via {it}"))));
        }
        nets.run(&gateway, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        let [(key, public), (far_key, far_public)] =
            ["key", "far"].map(|name| nets.make_key(name).unwrap());
        let mut started = Vec::new();
        for (name, key, peer, endpoint, own, routes) in [
            (&gateway, key, far_public, "10.9.0.2", 1, "\"10.77.0.2/32\", \"fd77::2/128\""),
            (
                &far,
                far_key,
                public,
                "10.9.0.1",
                2,
                "\"10.77.0.1/32\", \"10.50.0.0/24\", \"fd50::/64\", \"10.60.0.0/24\", \"198.51.100.0/24\"",
            ),
        ] {
            let config = format!(
                "[tunnel]\nprivate-key = {key:?}\naddresses = [\"10.77.0.{own}/24\", \"fd77::{own}/64\"]\n\
                 [[tunnel.peer]]\nname = \"other\"\npublic-key = \"{peer}\"\n\
                 endpoint = \"{endpoint}:51900\"\nroutes = [{routes}]\n"
            );
            started.push((nets.start_gateway(name, &format!("tunnel{own}"), &config), config));
        }
        let (program, config) = started.remove(0);
        let net = Self { nets, gateway, lan, far, program, config };
        for host in LAN {
            assert!(wait_until(SOON, || net.answers(host)), "{}", net.nets.status(&net.far));
        }
        net
    }

    /// Whether a host answers to the host behind the tunnel.
    fn answers(&self, host: &str) -> bool {
        self.nets.try_run(&self.far, &format!("ping -c 1 -W 1 {host}")).status.success()
    }

    /// How many of some pings through the tunnel come back out of the gateway in clear.
    fn in_clear(&self, host: &str) -> usize {
        let cable = self.nets.within(&self.far, || Port::open("eth0").unwrap());
        self.nets.try_run(&self.far, &format!("ping -c 5 -i 0.05 -W 0.2 {host}"));
        let to = match host.parse().unwrap() {
            IpAddr::V4(it) => it.octets().to_vec(),
            IpAddr::V6(it) => it.octets().to_vec(),
        };
        let mut frame = vec![0; 1 << 16];
        let mut seen = 0;
        while let Ok(Some(received)) = cable.receive(&mut frame) {
            // Destinations stand at the ends of headers.
            let packet = &frame[OFFLOAD + 14..received.len];
            seen += usize::from(packet.get(16..20) == Some(&to) || packet.get(24..40) == Some(&to));
        }
        seen
    }

    /// Whether a fault says that packets for a network were dropped.
    fn tells(&self, network: &str) -> bool {
        let faults = self.nets.status(&self.gateway)["faults"].clone();
        faults.as_array().is_some_and(|all| {
            all.iter().any(|it| {
                it["code"] == "dropped-in-clear" && it["said"].as_str().unwrap().contains(network)
            })
        })
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_came_by_a_tunnel_for_a_network_that_is_gone_does_not_leave_in_clear() {
    let net = Inner::start();
    let run = |command: &str| drop(net.nets.run(&net.gateway, command));

    for (host, network) in LAN.iter().zip(["10.50.0.0/24", "fd50::/64"]) {
        assert!(wait_until(SOON, || net.answers(host)));
        for goes in ["ip link set lan0 down", "ip address flush dev lan0"] {
            run(goes);

            assert_eq!(net.in_clear(host), 0, "{goes}");
            let is_told = wait_until(SOON, || net.in_clear(host) == 0 && net.tells(network));
            assert!(is_told, "{goes}: {}", net.nets.status(&net.gateway));

            // Link-local addresses come with the interface.
            run("ip link set lan0 down");
            run("ip link set lan0 up");
            for address in ["10.50.0.1/24", "fd50::1/64"] {
                let _ =
                    net.nets.try_run(&net.gateway, &format!("ip address add {address} dev lan0"));
            }
            let answers = wait_until(SOON, || net.answers(host));
            assert!(answers, "{host} after {goes}: {}", net.nets.run(&net.gateway, "ip address"));
        }
    }
    // A route that somebody has for the network, or for a part of it, is meant.
    run("ip address add 10.60.0.1/24 dev lan0");
    run("ip address add 198.51.100.1/24 dev lan0");
    run("ip route add 10.60.0.64/26 via 10.9.0.2");
    assert!(wait_until(SOON, || net.in_clear("10.60.0.65") > 0));
    run("ip link set lan0 down");
    assert_eq!(net.in_clear("10.60.0.2"), 0);
    assert!(net.in_clear("10.60.0.65") > 0);
    run("ip route add 10.60.0.0/24 via 10.9.0.2 metric 9");
    assert!(wait_until(SOON, || net.in_clear("10.60.0.2") > 0));
    // Gone for good, as its administrator says.
    run("ip link delete lan0");
    assert_eq!(net.in_clear("198.51.100.2"), 0);
    run(&format!("{TRACKWAY} reload"));
    assert!(wait_until(SOON, || net.in_clear("198.51.100.2") > 0));
}

/// A killed gateway had counted some of its packets; then it was gone for good, and came back.
#[test]
#[ignore = "needs root: run by ./test"]
fn a_network_that_comes_back_and_goes_again_is_told_at_its_first_packets() {
    let mut net = Inner::start();
    let (host, network) = (LAN[0], "10.50.0.0/24");
    let run = |net: &Inner, command: &str| drop(net.nets.run(&net.gateway, command));
    run(&net, "ip link set lan0 down");
    assert!(wait_until(SOON, || net.in_clear(host) == 0 && net.tells(network)));
    net.nets.try_run(&net.far, &format!("ping -q -c 100 -i 0.01 -W 0.1 {host}"));
    run(&net, "ip link set lan0 up");
    // IPv6 addresses go with the link. The next gateway takes over the table only if all is as it was.
    run(&net, "ip address add fd50::1/64 dev lan0");
    assert!(wait_until(SOON, || LAN.iter().all(|host| net.answers(host))));

    net.nets.program(net.program).signal(Signal::SIGKILL);
    net.nets.program(net.program).finish(SOON);
    let (gateway, config) = (net.gateway.clone(), net.config.clone());
    net.program = net.nets.start_gateway(&gateway, "tunnel1", &config);
    assert!(wait_until(SOON, || net.answers(host)));
    run(&net, "ip link delete lan0");
    run(&net, &format!("{TRACKWAY} reload"));
    run(&net, "ip link add lan0 type veth peer name lan1");
    run(&net, "ip link set lan1 up");
    run(&net, "ip address add 10.50.0.1/24 dev lan0");
    run(&net, "ip link set lan0 up");
    assert!(wait_until(SOON, || net.answers("10.50.0.1")));
    run(&net, "ip link set lan0 down");

    assert_eq!(net.in_clear(host), 0);
    assert!(wait_until(SOON, || net.tells(network)), "{}", net.nets.status(&net.gateway));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_network_of_an_address_without_a_route_counts_once_its_route_is_there() {
    let net = Inner::start();
    let run = |command: &str| drop(net.nets.run(&net.gateway, command));
    let (host, in_clear) = ("198.51.100.2", || net.in_clear("198.51.100.2"));

    run("ip address add 198.51.100.1/24 dev lan0 noprefixroute");
    assert!(wait_until(SOON, || in_clear() > 0), "only the default route leads there");
    // As a network manager adds it.
    run("ip route add 198.51.100.0/24 dev lan0 metric 100");
    net.nets.run(&net.lan, &format!("ip address add {host}/24 dev eth0"));
    assert!(wait_until(SOON, || net.answers(host)));
    let is_known = || net.nets.run(&net.gateway, "nft list ruleset").contains("198.51.100.0/24");
    assert!(wait_until(SOON, is_known));
    run("ip link set lan0 down");
    assert_eq!(in_clear(), 0);
    assert!(wait_until(SOON, || net.tells("198.51.100.0/24")));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_came_by_a_tunnel_for_private_addresses_follows_no_default_route() {
    let mut net = Inner::start();
    let gateway = net.gateway.clone();
    let has_fault =
        |net: &Inner| net.tells("private addresses to which only a default route leads");

    // Started again without its LAN, the gateway has never seen the network.
    net.nets.run(&gateway, "ip link delete lan0");
    let (code, said) = net.nets.program(net.program).stop();
    assert_eq!(code, Some(0), "{said}");
    net.program = net.nets.start_gateway(&gateway, "again", &net.config);
    assert!(wait_until(SOON, || net.answers("10.77.0.1")), "{}", net.nets.status(&net.far));
    assert!(!has_fault(&net));
    for host in LAN {
        assert_eq!(net.in_clear(host), 0, "{host}");
    }
    assert!(wait_until(SOON, || has_fault(&net)), "{}", net.nets.status(&gateway));
    let explained = format!("{TRACKWAY} explain icmp 10.77.0.2 10.50.0.2 --interface trackway-nc0");
    let explained = net.nets.try_run(&gateway, &explained);
    let said = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(said.contains("would leave by eth1 in clear"), "{said}");
    // As an exit it lets others pass, and private addresses where a route leads.
    assert!(net.in_clear("198.51.100.2") > 0);
    for (host, route) in LAN.iter().zip(["10.50.0.0/24 via 10.9.0.2", "fd50::/64 via fd09::2"]) {
        net.nets.run(&gateway, &format!("ip route add {route}"));
        assert!(wait_until(SOON, || net.in_clear(host) > 0), "{route}");
        net.nets.run(&gateway, &format!("ip route delete {route}"));
        assert!(wait_until(SOON, || net.in_clear(host) == 0), "{route}");
    }
    // A route by another uplink does not open this one, to which somebody's rule leads.
    for command in [
        "ip link add eth2 type veth peer name modem",
        "ip link set modem up",
        "ip link set eth2 up",
        "ip route add default dev eth2 metric 9000",
        "ip route add default via 10.9.0.2 table 77",
        "ip rule add pref 100 iif trackway-nc0 table 77",
        "ip route add 10.50.0.0/24 dev eth2",
    ] {
        net.nets.run(&gateway, command);
    }
    let is_led = || {
        let rules = net.nets.run(&gateway, "nft list chain inet trackway_tunnel gone");
        rules
            .lines()
            .any(|it| ["eth2", "10.50.0.0/24", "accept"].iter().all(|word| it.contains(word)))
    };
    assert!(wait_until(SOON, is_led), "{}", net.nets.run(&gateway, "nft list ruleset"));
    assert_eq!(net.in_clear(LAN[0]), 0);
    net.nets.run(&gateway, "ip route replace 10.50.0.0/24 via 10.9.0.2");
    assert!(wait_until(SOON, || net.in_clear(LAN[0]) > 0));
    net.nets.run(&gateway, "ip route replace 10.50.0.0/24 dev lo");
    assert!(wait_until(SOON, || net.in_clear(LAN[0]) == 0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_network_that_the_configuration_names_is_known_although_it_was_never_there() {
    let net = Inner::start();
    let run = |command: &str| drop(net.nets.run(&net.gateway, command));
    let host = "198.51.100.2";
    assert!(wait_until(SOON, || net.in_clear(host) > 0), "as an exit");

    let reload = |more: &str| {
        let file = net.nets.folder().join("tunnel1.toml");
        fs::write(&file, format!("{}{more}", net.config)).unwrap();
        run(&format!("{TRACKWAY} reload"));
    };

    // Handles tell whether a rule was made again.
    let others = || net.nets.run(&net.gateway, "nft -a list chain inet trackway_tunnel prerouting");
    let counters = || net.nets.run(&net.gateway, "nft list counters table inet trackway_tunnel");
    let dropped = || net.nets.status(&net.gateway)["tunnel_packets_in_clear"].as_u64().unwrap();
    let before = others();

    reload("[host]\nnetworks = \"198.51.100.0/24\"\n");
    assert!(wait_until(SOON, || net.in_clear(host) == 0));
    let is_told = wait_until(SOON, || net.in_clear(host) == 0 && net.tells("which `networks`"));
    assert!(is_told, "{}", net.nets.status(&net.gateway));
    // An uplink has it for a while.
    let is_walled = || {
        let chain = net.nets.run(&net.gateway, "nft list chain inet trackway_tunnel gone");
        chain.contains("198.51.100.0/24")
    };
    run("ip address add 198.51.100.1/24 dev eth1");
    assert!(wait_until(SOON, || !is_walled()));
    run("ip address delete 198.51.100.1/24 dev eth1");
    assert!(wait_until(SOON, is_walled));
    assert_eq!(net.in_clear(host), 0);
    let so_far = dropped();
    assert!(so_far > 0 && counters().contains("gone-198.51.100.0/24"), "{so_far} {}", counters());
    reload("");
    assert!(wait_until(SOON, || net.in_clear(host) > 0), "not named any more");
    assert!(!counters().contains("gone-198"), "{}", counters());
    assert!(dropped() >= so_far, "{} after {so_far}", dropped());
    assert_eq!(others(), before, "what the wall does not concern");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_uplink_that_has_no_address_is_one_when_the_gateway_starts() {
    let mut net = Inner::start();
    let gateway = net.gateway.clone();
    net.nets.run(&gateway, "ip link delete lan0");
    let (code, said) = net.nets.program(net.program).stop();
    assert_eq!(code, Some(0), "{said}");
    // As PPP's.
    net.nets.run(&gateway, "ip link add wwan0 type veth peer name modem");
    net.nets.run(&gateway, "ip link set wwan0 addrgenmode none up");
    net.nets.run(&gateway, "ip link set modem up");
    net.nets.run(&gateway, "ip route replace default dev wwan0");

    net.program = net.nets.start_gateway(&gateway, "again", &net.config);

    assert!(wait_until(SOON, || net.answers("10.77.0.1")), "{}", net.nets.status(&net.far));
    let is_dropped = || {
        net.in_clear(LAN[0]);
        net.tells("private addresses to which only a default route leads")
    };
    assert!(wait_until(SOON, is_dropped), "{}", net.nets.status(&gateway));
}

/// Tests that measure time, with the machine for themselves.
mod timed {
    use std::time::Instant;

    use super::*;

    #[test]
    #[ignore = "needs root: run by ./test"]
    fn networks_that_come_one_after_another_are_known_within_a_second() {
        let net = Inner::start();

        for network in ["198.51.100", "203.0.113", "192.0.2", "192.88.99"] {
            net.nets.run(&net.gateway, &format!("ip address add {network}.1/24 dev lan0"));
            let began = Instant::now();
            let is_known = || {
                let rules = "nft list chain inet trackway_tunnel gone";
                net.nets.run(&net.gateway, rules).contains(network)
            };
            assert!(wait_until(SOON, is_known), "{network}");
            let took = began.elapsed();
            assert!(took < Duration::from_secs(1), "{network}: {took:?}");
        }
    }
}

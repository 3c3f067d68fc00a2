//! Traffic rules of IP over the radio.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use ::gateway::sys::Raw;
use base::ip::{Header, Spec, protocol, rewrite_v4_checksum};
use serde_json::Value;

use super::{Net, SOON, TRACKWAY, ip_client};
use crate::namespaces::{undisturbed, wait_until};

const RULES: &str = r#"
[[rule]]
name = "quiet"
protocol = "udp"
to-port = 7
block = "silent"
[[rule]]
name = "told"
protocol = "udp"
to-port = 8
block = "icmp"
[[rule]]
name = "reset"
protocol = "tcp"
to-port = 9
block = "reset"
[[rule]]
name = "elsewhere"
interface = "eth9"
block = "silent"
[[rule]]
name = "own"
interface = "lo"
protocol = "udp"
to-port = 10
priority = 15
[[rule]]
name = "ping"
protocol = "icmp"
ttl = "1min"
"#;

#[test]
#[ignore = "needs root: run by ./test"]
fn what_rules_block_is_refused_as_they_say_and_the_rest_passes() {
    let mut net = with_rules(12);
    let listener = net.nets.within(&net.hosts[1], || UdpSocket::bind("10.88.0.2:10").unwrap());
    listener.set_read_timeout(Some(SOON)).unwrap();

    let quiet = error_of_udp(&net, "10.88.0.2:7", Duration::from_secs(1));
    let told = error_of_udp(&net, "10.88.0.2:8", SOON);
    let reset = ["10.88.0.2:9", "[fd88::2]:9"].map(|to| error_of_tcp(&net, to));
    let sender = udp(&net, "10.88.0.2:10");
    sender.send(b"hello").unwrap();
    let mut heard = [0; 9];
    let arrived = listener.recv(&mut heard);
    net.expect_ping(0, "10.88.0.2");

    assert_eq!(quiet, ErrorKind::WouldBlock);
    assert_eq!(told, ErrorKind::HostUnreachable);
    assert_eq!(reset, [ErrorKind::ConnectionRefused; 2]);
    assert_eq!(arrived.unwrap(), 5);
    let status = net.status(0);
    for (name, hits, blocked) in
        [("quiet", 1, 1), ("told", 1, 1), ("reset", 2, 2), ("elsewhere", 0, 0), ("own", 1, 0)]
    {
        let rule = rule(&status, name);
        assert_eq!((&rule["hits"], &rule["blocked"]), (&hits.into(), &blocked.into()), "{status}");
        assert_eq!(rule["state"], "enabled", "{status}");
    }
    assert_eq!(rule(&status, "own")["octets"], 33, "{status}");
    assert!(rule(&status, "ping")["hits"].as_u64() > Some(0), "{status}");
    let printed = net.nets.run(&net.hosts[0], &format!("{TRACKWAY} status"));
    assert!(printed.contains("rule told: enabled, hits 1, octets 33, blocked 1\n"), "{printed}");
    net.gateway(0).stop();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn nothing_that_rules_block_passes_in_fragments() {
    let mut net = with_rules(14);
    let raw = net.nets.within(&net.hosts[0], || Raw::open().unwrap());
    let send = |packet: &[u8]| raw.send(&Header::parse(packet).unwrap(), packet).unwrap();
    let count = |net: &Net, counter: &str| net.status(0)[counter].as_u64().unwrap();
    // Whole packets that are cut by their sender pass, and their fragments are theirs.
    let cut = net.nets.run(&net.hosts[0], "ping -n -c 1 -W 60 -s 4000 10.88.0.2");
    let cut_v6 = net.nets.run(&net.hosts[0], "ping -n -c 1 -W 60 -s 4000 fd88::2");
    assert!([cut, cut_v6].iter().all(|it| it.contains(" 0% packet loss")));
    let orphaned = count(&net, "rules_fragments_orphaned");
    let [hits, blocked] =
        ["hits", "blocked"].map(|key| rule(&net.status(0), "quiet")[key].as_u64().unwrap());

    // Later fragments without their first fragment, as from a sender who sends the first by another way. The IPv6
    // fragment does not claim to be UDP.
    let payload = [7; 64];
    for number in 0..20 {
        send(&fragment(["10.88.0.1", "10.88.0.2"], 17, (5, 1_000 + number), &payload));
        send(&fragment(["fd88::1", "fd88::2"], 59, (5, 1_000 + number), &payload));
    }
    // A first fragment that ends before the ports: port 7 follows in the next.
    send(&fragment(["fd88::1", "fd88::2"], 60, (0, 2_000), &[17, 0, 1, 4, 0, 0, 0, 0]));
    send(&fragment(["fd88::1", "fd88::2"], 60, (1, 2_000), &[0x13, 0x88, 0, 7, 0, 16, 0, 0]));
    // One with a port that may pass, and another that would write another there.
    let options_and_port_10 =
        [&[17, 0, 1, 4, 0, 0, 0, 0][..], &[0x13, 0x88, 0, 10, 0, 24, 0, 0]].concat();
    send(&fragment(["fd88::1", "fd88::2"], 60, (0, 3_000), &options_and_port_10));
    send(&fragment(["fd88::1", "fd88::2"], 60, (1, 3_000), &[0x13, 0x88, 0, 7, 0, 24, 0, 0]));

    let is_counted = wait_until(SOON, || count(&net, "rules_fragments_orphaned") >= orphaned + 41);
    let status = net.status(0);
    assert!(is_counted, "{status}");
    let quiet = rule(&status, "quiet");
    assert_eq!(quiet["hits"].as_u64().unwrap() - hits, 41, "{status}");
    assert_eq!(quiet["blocked"].as_u64().unwrap() - blocked, 41, "{status}");
    assert!(wait_until(SOON, || count(&net, "rules_fragments_overlapping") == 1), "{status}");
    assert_eq!(count(&net, "rules_packets_headless"), 1, "{status}");
    net.expect_ping(0, "10.88.0.2");
    net.gateway(0).stop();
}

/// A fragment that more follow, at a place in units of 8 octets of the packet with a number, whose header says `kind`.
fn fragment(ends: [&str; 2], kind: u8, (place, ident): (u16, u16), octets: &[u8]) -> Vec<u8> {
    let [source, destination] = ends.map(|it| it.parse::<IpAddr>().unwrap());
    let mut packet = Vec::new();
    if source.is_ipv4() {
        let spec = Spec::new(source, destination, kind);
        Spec { dont_fragment: false, ident, ..spec }.emit(octets.len(), &mut packet);
        packet[6..8].copy_from_slice(&(place | 0x2000).to_be_bytes());
        rewrite_v4_checksum(&mut packet);
    } else {
        let spec = Spec::new(source, destination, protocol::V6_FRAGMENT);
        spec.emit(8 + octets.len(), &mut packet);
        packet.extend([kind, 0]);
        packet.extend(((place * 8) | 1).to_be_bytes());
        packet.extend(u32::from(ident).to_be_bytes());
    }
    packet.extend(octets);
    packet
}

#[test]
#[ignore = "needs root: run by ./test"]
fn traffic_is_switched_while_it_runs_and_stays_so_when_the_configuration_changes() {
    let net = with_rules(13);
    net.expect_ping(0, "10.88.0.2");
    let asked = |net: &Net, command: &str| {
        let output = net.nets.try_run(&net.hosts[0], &format!("{TRACKWAY} {command}"));
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).trim().to_owned())
    };

    let unknown = asked(&net, "hf disable pong");
    let disabled = asked(&net, "hf disable ping");
    let refused = ping(&net);
    let hits = rule(&net.status(0), "ping")["hits"].as_u64().unwrap();
    // The IP client has to start anew for it, and the rules stay.
    let file = net.nets.folder().join("0.toml");
    let config = ip_client(0).replace("[ipclient]", "[ipclient]\nmtu = 2000") + RULES;
    fs::write(&file, config).unwrap();
    let reloaded = asked(&net, "reload");
    net.expect_state(0, "ipclient", "bound");
    let still = ping(&net);
    let explained = asked(&net, "explain icmp 10.88.0.1 10.88.0.2");
    let enabled = asked(&net, "hf enable ping");
    net.expect_ping(0, "10.88.0.2");

    let (code, said) = unknown;
    assert!(code == Some(2) && said.contains("there is no such rule; there are quiet, "), "{said}");
    assert_eq!(disabled, (Some(0), "ipclient: rule ping: disabled".to_owned()));
    for said in [refused, still] {
        assert!(said.contains("Packet filtered"), "{said}");
    }
    assert_eq!(reloaded, (Some(0), "ipclient: started anew".to_owned()));
    let (_, said) = explained;
    assert!(said.contains("blocked: the rule is disabled; its sender gets ICMP"), "{said}");
    assert_eq!(enabled, (Some(0), "ipclient: rule ping: enabled".to_owned()));
    let counted = rule(&net.status(0), "ping")["hits"].as_u64().unwrap();
    assert!(counted > hits, "{counted} after {hits}");

    // All of it.
    assert_eq!(asked(&net, "hf disable"), (Some(0), "ipclient: traffic disabled".to_owned()));
    assert_eq!(error_of_tcp(&net, "10.88.0.2:22"), ErrorKind::ConnectionRefused);
    assert_eq!(net.status(0)["hf"]["state"], "disabled");
    assert_eq!(asked(&net, "hf enable"), (Some(0), "ipclient: traffic enabled".to_owned()));
    net.expect_ping(0, "10.88.0.2");
}

/// Two hosts with IP over the radio, the first with rules.
fn with_rules(seed: u32) -> Net {
    let mut net = Net::with_radio(&format!("--speed 240000 --seed {seed}"));
    net.start_gateway(0, &(ip_client(0) + RULES));
    net.start_ip_client(1);
    for host in [0, 1] {
        net.expect_state(host, "ipclient", "bound");
    }
    net
}

fn rule<'a>(status: &'a Value, name: &str) -> &'a Value {
    let rules = status["rules"].as_array().unwrap();
    rules.iter().find(|rule| rule["name"] == name).unwrap()
}

fn udp(net: &Net, to: &str) -> UdpSocket {
    let socket = net.nets.within(&net.hosts[0], || UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.connect(to).unwrap();
    socket
}

/// What the sender of a datagram is told until then.
fn error_of_udp(net: &Net, to: &str, patience: Duration) -> ErrorKind {
    let socket = udp(net, to);
    socket.send(b"hello").unwrap();
    socket.set_read_timeout(Some(patience)).unwrap();
    undisturbed(|| socket.recv(&mut [0; 9])).unwrap_err().kind()
}

fn error_of_tcp(net: &Net, to: &str) -> ErrorKind {
    let to: SocketAddr = to.parse().unwrap();
    let connected =
        net.nets.within(&net.hosts[0], || TcpStream::connect_timeout(&to, SOON).map(drop));
    connected.unwrap_err().kind()
}

/// The output of one unanswered ping.
fn ping(net: &Net) -> String {
    let mut said = String::new();
    wait_until(SOON, || {
        let output = net.nets.try_run(&net.hosts[0], "ping -n -c 1 -W 5 10.88.0.2");
        said = String::from_utf8_lossy(&output.stdout).into_owned();
        !output.status.success()
    });
    said
}

//! Tests nodes that use the Auth ID of another, a client's address, or an address of the gateway itself.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};

use base::ip::udp::Datagram;

use super::attack::{SAP, first_part, opening};
use super::divert::MOMENT;
use super::pep::{FAST, PATIENCE, pep};
use super::sis::Client;
use super::{B, Net, SOON, TRACKWAY};
use crate::namespaces::wait_until;

/// Where IP clients are.
const IP_SAP: u8 = 9;
/// The reason of a reset: blocked by a rule.
const BLOCKED: u8 = 4;
/// A peer that is not there: host A is none then.
const ABSENT: &str = "[[hfpep.peer]]\nnode = \"0.10.20.99\"\nto = [\"10.9.0.0/16\"]\n";

/// The reason for which the far end resets a stream.
fn reset_of(node: &mut Client, stream: u8) -> u8 {
    loop {
        if let [0x30, _, its, reason] = node.receive()[..]
            && its == stream
        {
            return reason;
        }
    }
}

/// Expects that nobody connects.
fn expect_nobody(listener: &TcpListener) {
    listener.set_nonblocking(true).unwrap();
    let comes = wait_until(MOMENT, || listener.accept().is_ok());
    listener.set_nonblocking(false).unwrap();
    assert!(!comes, "somebody has connected");
}

impl Net {
    /// Writes another configuration for a host, and has its gateway read it.
    fn follow(&self, host: usize, config: &str) {
        fs::write(self.nets.folder().join(format!("{host}.toml")), config).unwrap();
        self.nets.run(&self.hosts[host], &format!("{TRACKWAY} reload"));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_that_is_no_peer_gets_nothing_by_the_auth_id_of_a_client() {
    let mut net = Net::with_radio(FAST);
    net.addresses();
    net.certify("ca", "far", "");
    net.certify("issue", "far", "--san bob@unit.example --client");
    let config = |user: &str| {
        format!(
            "[hfpep]\nallow = []\ntls = \"shore\"\n{ABSENT}[[tls]]\nname = \"shore\"\nrole = \"client\"\n\
             trust-anchors = \"far/ca.crt\"\n[[tls.target]]\nid = \"bob\"\nto = \"10.2.0.1:8089\"\n\
             certificate = \"far/bob@unit.example.crt\"\nkey = \"far/bob@unit.example.key\"\n{user}"
        )
    };
    net.start_gateway(1, &config(""));
    net.expect_state(1, "hfpep", "bound");
    let target = net.listen(1, "10.2.0.1:8089");
    let mut node = net.bind(0, SAP);
    // TLS and an Auth ID.
    let bob = [&[0x50, 0x0a, 0, 3][..], b"bob"].concat();

    node.send(B, SAP, &first_part(0, &bob));
    assert_eq!(reset_of(&mut node, 0), BLOCKED);
    // Nor does a stranger learn which there are.
    node.send(B, SAP, &first_part(1, &[&[0x50, 0x0a, 0, 3][..], b"eve"].concat()));
    assert_eq!(reset_of(&mut node, 1), BLOCKED);
    expect_nobody(&target);
    let status = net.status(1);
    assert_eq!(status["hfpep_targets_forbidden"], 2, "{status}");
    assert_eq!(status["hfpep_tls_begun"], 0, "{status}");

    // The target may name whom it is for.
    net.follow(1, &config("node = \"0.10.20.30\"\n"));
    node.send(B, SAP, &first_part(2, &bob));
    let (mut server, _) = target.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut hello = [0; 1];
    server.read_exact(&mut hello).unwrap();
    assert_eq!(hello, [0x16], "a handshake record of TLS");

    net.follow(1, &config("node = \"0.10.20.98\"\n"));
    node.send(B, SAP, &first_part(3, &bob));
    assert_eq!(reset_of(&mut node, 3), BLOCKED);
    expect_nobody(&target);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_borrows_the_address_of_a_client_only_if_it_has_that_client() {
    let mut net = Net::with_radio(FAST);
    net.addresses();
    net.start_gateway(1, &(pep(1) + ABSENT));
    net.expect_state(1, "hfpep", "bound");
    let target = net.listen(1, "10.2.0.1:7");
    let mut node = net.bind(0, SAP);

    // Behind it; behind nobody that is known; the target's own address, which is this gateway's too.
    for (stream, from, seen) in [
        (0, [10, 1, 0, 9], "10.1.0.9"),
        (1, [10, 77, 0, 9], "10.2.0.1"),
        (2, [10, 2, 0, 1], "10.2.0.1"),
    ] {
        node.send(B, SAP, &first_part(stream, &opening([10, 2, 0, 1], 7, from)));
        let (mut server, named) = target.accept().unwrap();
        assert_eq!(named.ip().to_string(), seen, "{from:?}");
        server.write_all(b"hello").unwrap();
    }
    // Behind another.
    node.send(B, SAP, &first_part(3, &opening([10, 2, 0, 1], 7, [10, 9, 0, 1])));
    assert_eq!(reset_of(&mut node, 3), BLOCKED);
    expect_nobody(&target);

    // In a list, too, an address is believed of nobody but who has it.
    let listed = "[hfpep]\nallow = [{ to = \"10.2.0.1/32\", from = \"10.0.0.0/8\" }]\n";
    net.follow(1, &(listed.to_owned() + &pep(1) + ABSENT));
    node.send(B, SAP, &first_part(4, &opening([10, 2, 0, 1], 7, [10, 77, 0, 9])));
    assert_eq!(reset_of(&mut node, 4), BLOCKED);
    node.send(B, SAP, &first_part(5, &opening([10, 2, 0, 1], 7, [10, 1, 0, 9])));
    assert_eq!(target.accept().unwrap().1.ip().to_string(), "10.1.0.9");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn nobody_sends_by_radio_from_an_address_of_the_gateway_or_of_another_node() {
    let mut net = Net::with_radio(FAST);
    let config = super::ip_client(1)
        + "[[ipclient.route]]\nnode = \"0.10.20.99\"\nto = [\"10.99.0.0/16\", \"fd99::/64\"]\n";
    net.start_gateway(1, &config);
    net.expect_state(1, "ipclient", "bound");
    let host = net.hosts[1].clone();
    let heard = ["10.88.0.2:9", "[fd88::2]:9"].map(|at| {
        let socket = net.nets.within(&host, || UdpSocket::bind(at).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    });
    let mut node = net.bind(0, IP_SAP);
    let mut send = |from: &str, payload: &[u8]| {
        let to = if from.starts_with('[') { "[fd88::2]:9" } else { "10.88.0.2:9" };
        let [source, destination]: [SocketAddr; 2] = [from, to].map(|at| at.parse().unwrap());
        let mut packet = Vec::new();
        Datagram { source, destination, payload }.emit(&mut packet);
        node.send(B, IP_SAP, &packet);
    };
    let count = |what: &str| net.status(1)[format!("ipclient_packets_{what}")].as_u64();

    // Addresses of its device; one of another interface, learnt while it runs; another node's; nobody's.
    net.nets.run(&host, "ip address add 10.66.0.1/32 dev lo");
    for (from, what, sum) in [
        ("10.88.0.2:9", "from_self", 1),
        ("[fd88::2]:9", "from_self", 2),
        ("10.99.0.1:9", "disallowed", 1),
        ("[fd99::1]:9", "disallowed", 2),
        ("127.0.0.2:9", "not_unicast", 1),
        ("[ff02::1]:9", "not_unicast", 2),
        ("10.66.0.1:9", "from_self", 3),
    ] {
        send(from, b"spoofed");
        assert!(wait_until(SOON, || count(what) == Some(sum)), "{from}: {}", net.status(1));
    }

    // What comes by radio keeps its order: what was sent before has not been delivered.
    for (from, socket) in ["10.88.0.1:9", "[fd88::1]:9"].iter().zip(&heard) {
        send(from, b"true");
        let mut data = [0; 20];
        let (len, named) = loop {
            match socket.recv_from(&mut data) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => break outcome.unwrap(),
            }
        };
        assert_eq!((&data[..len], named), (&b"true"[..], from.parse().unwrap()));
    }
}

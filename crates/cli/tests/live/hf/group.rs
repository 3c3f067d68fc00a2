//! Tests gateways with a group key over the radio, beside stations without a key.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::pep::{FAST, PATIENCE, pep};
use super::sis::{BIND_ACCEPTED, Client};
use super::{B, Net, SOON, ip_client};
use crate::namespaces::{TRACKWAY, wait_until};

const EXAMPLE_A: &str = include_str!("../../../../../examples/hf/hf-group-a.toml");
const EXAMPLE_B: &str = include_str!("../../../../../examples/hf/hf-group-b.toml");
/// Where the IP client and SLEP are.
const IP: u8 = 9;
const SLEP: u8 = 13;
/// The U_PDU received by a station that does not seal.
const UNSEALED: [u8; 2] = [0x9f, 3];

/// TCP by HF-PEP and all else by the IP client, `more` in both sections.
fn config(host: usize, more: &str) -> String {
    let ip = ip_client(host).replacen("[ipclient]\n", &format!("[ipclient]\n{more}"), 1);
    format!("{ip}[hfpep]\n{more}{}", pep(host))
}

/// The same for a member of the group.
fn member(host: usize) -> String {
    config(host, &format!("group-key = \"group.key\"\nown-node = \"0.10.20.3{host}\"\n"))
}

impl Net {
    /// Two hosts whose gateways are members.
    fn with_members() -> Self {
        let mut net = Self::with_radio(FAST);
        net.addresses();
        let key = net.nets.folder().join("group.key");
        net.nets.run(&net.hosts[0], &format!("{TRACKWAY} keygen --group --out {}", key.display()));
        for host in [0, 1] {
            net.start_both(host, &member(host));
        }
        net
    }

    fn start_both(&mut self, host: usize, config: &str) {
        self.start_gateway(host, config);
        self.expect_state(host, "ipclient", "bound");
        self.expect_state(host, "hfpep", "bound");
    }

    fn kill_gateway(&mut self, host: usize) {
        self.gateway(host).signal(Signal::SIGKILL);
        self.gateway(host).finish(SOON);
    }

    /// Binds an access point as soon as its client has gone.
    fn take_over(&self, host: usize, sap: u8) -> Client {
        let mut taken = None;
        let mut take = || {
            let mut client = self.connect(host);
            client.bind(sap, 0);
            let answer = client.next(Instant::now() + SOON);
            taken = answer.filter(|it| it.kind == BIND_ACCEPTED).map(|_| client);
            taken.is_some()
        };
        assert!(wait_until(SOON, &mut take));
        taken.unwrap()
    }

    /// A question by TCP and its answer, and a ping.
    fn expect_exchange(&self, listener: &TcpListener) {
        let mut client = self.dial(0, "10.2.0.1:7");
        client.write_all(b"question").unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = [0; 8];
        server.read_exact(&mut heard).unwrap();
        server.write_all(b"answer!!").unwrap();
        let mut told = [0; 8];
        client.read_exact(&mut told).unwrap();
        assert_eq!((&heard, &told), (b"question", b"answer!!"));
        self.expect_ping(0, "10.88.0.2");
    }

    fn expect_at_least(&self, host: usize, counter: &str, least: u64) {
        let count = || self.status(host)[counter].as_u64().unwrap_or_default();
        assert!(wait_until(SOON, || count() >= least), "{counter}: {}", self.status(host));
    }

    fn expect_logged(&self, host: usize, what: &str) {
        let gateway = self.gateways[host].unwrap();
        let is_said = || self.nets.printed(gateway).contains(what);
        assert!(wait_until(SOON, is_said), "{what}: {}", self.nets.printed(gateway));
    }
}

/// An ICMP echo request from 10.88.0.1 to 10.88.0.2.
fn echo() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 1, 0, 0, 10, 88, 0, 1, 10, 88, 0, 2];
    let sum: u32 = packet.chunks(2).map(|it| u32::from(it[0]) << 8 | u32::from(it[1])).sum();
    let checksum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend([8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    packet
}

#[test]
#[ignore = "needs root: run by ./test"]
fn members_reach_each_other_and_a_stranger_with_a_members_address_does_nothing() {
    let mut net = Net::with_members();
    let listener = net.listen(1, "10.2.0.1:7");
    net.expect_exchange(&listener);
    net.expect_at_least(1, "slep_sis_opened", 1);
    net.expect_at_least(1, "ipclient_sis_opened", 1);

    // The stranger has the node of the first gateway, and so its address.
    net.kill_gateway(0);
    let before = net.status(1);
    let opening = [
        &[0x18, 0xa1, 0xb2, 0, 1, 0, 0, 1][..],
        &[0x50, 0, 0, 9, 0, 7],
        &[10, 1, 0, 1],
        &[10, 2, 0, 1],
    ];
    let opening = opening.concat();
    let forged = |u_pdu: &[u8]| [&[0x90; 12][..], u_pdu].concat();
    let [mut streams, mut packets] = [SLEP, IP].map(|sap| net.take_over(0, sap));
    for _ in 0..3 {
        streams.send(B, SLEP, &opening);
        streams.send(B, SLEP, &forged(&opening));
        packets.send(B, IP, &echo());
        packets.send(B, IP, &forged(&echo()));
    }

    // Beside what was on its way to the member, which is sealed.
    for client in [&mut streams, &mut packets] {
        while client.receive() != UNSEALED {}
    }
    for service in ["slep", "ipclient"] {
        net.expect_at_least(1, &format!("{service}_sis_unauthenticated"), 3);
        net.expect_at_least(1, &format!("{service}_sis_forged"), 3);
    }
    let after = net.status(1);
    for counter in ["ipclient_device_writes", "ipclient_packets_out", "slep_streams_taken"] {
        assert_eq!(after[counter], before[counter], "{counter}: {after}");
    }
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    listener.set_nonblocking(false).unwrap();
    net.expect_logged(1, "what this node sends is dropped");

    // Who comes back is heard at once.
    drop((streams, packets));
    net.start_both(0, &member(0));
    net.expect_exchange(&listener);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_examples_are_two_members_that_reach_each_other() {
    let mut net = Net::with_radio(FAST);
    net.addresses();
    let key = net.nets.folder().join("group.key");
    net.nets.run(&net.hosts[0], &format!("{TRACKWAY} keygen --group --out {}", key.display()));
    for (host, text) in [EXAMPLE_A, EXAMPLE_B].into_iter().enumerate() {
        net.start_both(host, text);
    }

    net.expect_exchange(&net.listen(1, "10.2.0.1:7"));
    for counter in ["slep_sis_opened", "ipclient_sis_opened"] {
        net.expect_at_least(1, counter, 1);
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_gateway_without_the_key_is_not_heard_and_both_logs_say_so() {
    let mut net = Net::with_members();
    let _listener = net.listen(1, "10.2.0.1:7");
    net.kill_gateway(0);
    net.start_both(0, &config(0, ""));

    // From the gateway without a key.
    let mut client = net.dial(0, "10.2.0.1:7");
    client.write_all(b"anybody?").unwrap();
    net.expect_logged(
        1,
        "it does not seal with the group key, and is not listed as unauthenticated",
    );
    net.expect_logged(
        0,
        "it takes only what is sealed with its group key, and we do not seal for it",
    );
    net.expect_at_least(1, "slep_sis_unauthenticated", 1);
    net.expect_at_least(0, "slep_sis_notices_received", 1);
    // And to it.
    let far = net.hosts[1].clone();
    net.nets.try_run(&far, "ping -n -c 1 -W 1 10.88.0.1");
    net.expect_logged(0, "it seals with a group key, and none is set here (group-key)");
    net.expect_logged(1, "it has no group key, and we seal what we send");
    net.expect_at_least(0, "ipclient_sis_keyless", 1);
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(client.read(&mut [0; 8]).is_err(), "nobody answers");
    assert_eq!(net.status(1)["hfpep_sessions"], 0, "{}", net.status(1));

    // A node that is listed needs none.
    net.kill_gateway(1);
    let listed = "group-key = \"group.key\"\nown-node = \"0.10.20.31\"\n\
                  unauthenticated = [\"0.10.20.30\"]\n";
    net.start_both(1, &config(1, listed));
    net.expect_ping(0, "10.88.0.2");
}

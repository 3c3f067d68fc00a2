//! Tests UDP of unmodified programs over the radio in direct mode.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::pep::{FAST, PATIENCE, pep};
use super::{Net, SOON};
use crate::namespaces::wait_until;

/// Where clients find the target, which is there.
const PORT: &str = "10.1.0.1:53";
const TARGET: &str = "10.2.0.1:53";

impl Net {
    /// Two hosts, the radio, and HF-PEP on both hosts. The first HF-PEP accepts datagrams; `listen` configures its
    /// port, and `near` and `far` go into the sections of the two.
    fn with_udp(listen: &str, [near, far]: [&str; 2]) -> Self {
        let mut net = Self::with_radio(FAST);
        net.addresses();
        let port = format!(
            "[[hfpep.listen]]\nprotocol = \"udp\"\nat = \"{PORT}\"\nnode = \"0.10.20.31\"\n\
             target = \"{TARGET}\"\n{listen}"
        );
        net.start_gateway(0, &format!("[hfpep]\n{near}\n{}{port}", pep(0)));
        net.start_gateway(1, &format!("[hfpep]\n{far}\n{}", pep(1)));
        for host in [0, 1] {
            net.expect_state(host, "hfpep", "bound");
        }
        net
    }

    fn socket(&self, host: usize, at: &str) -> UdpSocket {
        let socket = self.nets.within(&self.hosts[host], || UdpSocket::bind(at).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// A client that takes answers from the port only.
    fn client(&self) -> UdpSocket {
        let client = self.socket(0, "10.1.0.1:0");
        client.connect(PORT).unwrap();
        client
    }

    fn count(&self, host: usize, name: &str) -> u64 {
        self.status(host)[format!("hfpep_udp_{name}")].as_u64().unwrap_or_default()
    }

    fn expect_count(&self, host: usize, name: &str, expected: u64) {
        let comes = wait_until(SOON, || self.count(host, name) == expected);
        assert!(comes, "{name} is not {expected}: {}\n{}", self.status(0), self.status(1));
    }
}

fn heard(socket: &UdpSocket) -> (String, SocketAddr) {
    let mut data = [0; 4_096];
    // A stop and a continuation of this process interrupt it (signal(7)).
    let (len, from) = loop {
        match socket.recv_from(&mut data) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => break outcome.unwrap(),
        }
    };
    (String::from_utf8_lossy(&data[..len]).into_owned(), from)
}

/// Sends a question, lets the target answer, and expects the answer.
fn expect_answer(client: &UdpSocket, target: &UdpSocket, question: &str) {
    client.send(question.as_bytes()).unwrap();
    let (asked, from) = heard(target);
    assert_eq!(asked, question);
    target.send_to(format!("{question}? yes").as_bytes(), from).unwrap();
    assert_eq!(heard(client).0, format!("{question}? yes"));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn queries_of_two_clients_get_their_own_answers_from_the_port_that_they_asked() {
    let net = Net::with_udp("", [""; 2]);
    let target = net.socket(1, TARGET);
    let clients = [net.client(), net.client()];

    // Answered in another order than asked, and by another one than the first turn.
    for turn in 0..3 {
        for (number, client) in clients.iter().enumerate() {
            client.send(format!("{turn} of {number}").as_bytes()).unwrap();
        }
        let mut asked = clients.iter().map(|_| heard(&target)).collect::<Vec<_>>();
        asked.reverse();
        for (question, from) in asked {
            let number: usize = question.rsplit(' ').next().unwrap().parse().unwrap();
            assert_eq!(from, clients[number].local_addr().unwrap(), "in the client's name");
            target.send_to(format!("answer to {question}").as_bytes(), from).unwrap();
        }
        for (number, client) in clients.iter().enumerate() {
            assert_eq!(heard(client).0, format!("answer to {turn} of {number}"));
        }
    }

    let (near, far) = (net.status(0), net.status(1));
    assert_eq!([net.count(0, "sent"), net.count(0, "opening")], [6, 2], "{near}");
    assert_eq!([net.count(0, "words"), net.count(1, "words")], [0, 0], "{far}");
    let flow = &near["hfpep"]["flows"][0];
    assert_eq!(
        (&flow["state"], &flow["sent"], &flow["arrived"]),
        (&"open".into(), &3.into(), &3.into())
    );
    assert_eq!(far["hfpep"]["flows"][1]["client"], clients[1].local_addr().unwrap().to_string());
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_target_that_never_answers_gets_all_and_the_opening_ends() {
    let net = Net::with_udp("reliable = true\n", [""; 2]);
    let target = net.socket(1, TARGET);
    let client = net.client();

    let mut came = BTreeSet::new();
    for number in 0..6 {
        client.send(format!("report {number}").as_bytes()).unwrap();
        came.insert(heard(&target).0);
        net.expect_count(1, "words", u64::from(number >= 1));
        let is_open = || (net.status(0)["hfpep"]["flows"][0]["state"] == "open") == (number >= 1);
        assert!(wait_until(SOON, is_open), "{}", net.status(0));
    }

    assert_eq!(came.len(), 6);
    assert_eq!(net.count(0, "opening"), 2, "{}", net.status(0));
    let acknowledged = || net.status(0)["slep_datagrams_delivered"] == 6;
    assert!(wait_until(SOON, acknowledged), "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_target_that_is_not_admitted_hears_nothing_and_is_not_asked_for_again() {
    let net = Net::with_udp("", ["", "allow = [{ to = \"10.2.0.1/32\", to-port = 54 }]"]);
    let target = net.socket(1, TARGET);
    let client = net.client();

    client.send(b"let me in").unwrap();
    let is_told = || net.status(0)["hfpep"]["flows"][0]["state"] == "refused";
    assert!(wait_until(SOON, is_told), "{}", net.status(0));
    client.send(b"let me in").unwrap();
    net.expect_count(0, "blocked", 1);

    assert_eq!(net.status(1)["hfpep_targets_forbidden"], 1, "{}", net.status(1));
    assert_eq!(net.count(1, "requests"), 1);
    target.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(target.recv(&mut [0; 10]).is_err());
}

#[test]
#[ignore = "needs root: run by ./test"]
fn queries_go_on_after_gateways_and_nodes_have_restarted() {
    let mut net = Net::with_udp("reliable = true\n", [""; 2]);
    let target = net.socket(1, TARGET);
    let client = net.client();
    expect_answer(&client, &target, "before");

    net.gateway(1).signal(Signal::SIGKILL);
    net.gateway(1).finish(SOON);
    net.start_gateway(1, &pep(1));
    net.expect_state(1, "hfpep", "bound");
    expect_answer(&client, &target, "far gateway");
    assert_eq!(net.count(0, "again"), 1, "the datagram that it did not know: {}", net.status(0));

    // Both nodes, with what they hold; the datagram is repeated.
    net.radio().signal(Signal::SIGKILL);
    net.radio().finish(SOON);
    net.expect_state(0, "hfpep", "no connection");
    client.send(b"nodes").unwrap();
    net.start_radio(FAST);
    let (asked, from) = heard(&target);
    assert_eq!(asked, "nodes");
    target.send_to(b"yes", from).unwrap();
    assert_eq!(heard(&client).0, "yes");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_too_much_too_long_or_blocked_is_dropped_and_counted() {
    // Nobody can be answered at a loopback address of another host: the far gateway asks in its own name, and hears
    // from the kernel that nobody listens.
    let more = format!(
        "[[hfpep.listen]]\nprotocol = \"udp\"\nat = \"127.0.0.1:53\"\nnode = \"0.10.20.31\"\n\
         target = \"{TARGET}\"\n\
         [[rule]]\nname = \"quiet\"\nprotocol = \"udp\"\nfrom-port = 7777\nblock = \"silent\"\n"
    );
    let net = Net::with_udp(&more, ["udp-flows = 2", ""]);
    let target = net.socket(1, TARGET);
    let clients = [net.client(), net.socket(0, "127.0.0.1:0")];
    clients[1].connect("127.0.0.1:53").unwrap();
    for client in &clients {
        expect_answer(client, &target, "is there room");
    }

    net.client().send(b"one too many").unwrap();
    net.expect_count(0, "flows_refused", 1);
    clients[0].send(&[b'x'; 2_026]).unwrap();
    net.expect_count(0, "too_long", 1);
    let quiet = net.socket(0, "10.1.0.1:7777");
    quiet.send_to(b"psst", PORT).unwrap();
    net.expect_count(0, "refused", 1);

    // The longest that fits, and nobody listens: the others go on.
    let longest = "y".repeat(2_025);
    expect_answer(&clients[0], &target, &longest[..1_000]);
    clients[1].send(longest.as_bytes()).unwrap();
    assert_eq!(heard(&target).0, longest);
    assert_eq!(net.status(0)["slep_datagrams_coded"], 2, "they shrink: {}", net.status(0));
    drop(target);
    let began = Instant::now();
    clients[1].send(b"anybody?").unwrap();
    net.expect_count(1, "targets_failed", 1);
    assert!(began.elapsed() < SOON);
    let target = net.socket(1, TARGET);
    expect_answer(&clients[1], &target, "and now");
    let rule = &net.status(0)["rules"][0];
    assert_eq!((&rule["name"], &rule["blocked"]), (&"quiet".into(), &1.into()));
}

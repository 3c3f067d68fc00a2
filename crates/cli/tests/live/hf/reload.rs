//! Tests that a reload, accepted or refused, disturbs nothing it does not change.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};

use super::divert::{MOMENT, exchange};
use super::pep::{FAST, pep};
use super::{Net, SOON, TRACKWAY, ip_client};
use crate::namespaces::{undisturbed, wait_until};
use testbed::traffic::call;

/// The first gateway with connections of each kind, which are to go on.
struct Flows {
    net: Net,
    pairs: Vec<(TcpStream, TcpStream)>,
    datagrams: [UdpSocket; 2],
    resets: u64,
}

/// Ports that stand for targets, and IP beside.
fn standing() -> String {
    let target = "node = \"0.10.20.31\"\ntarget";
    format!(
        "{}[[hfpep.listen]]\nat = \"10.1.0.1:8080\"\n{target} = \"10.2.0.1:7\"\n[[hfpep.listen]]\n\
         protocol = \"udp\"\nreliable = true\nat = \"10.1.0.1:5353\"\n{target} = \"10.2.0.1:53\"\n{}",
        pep(0),
        ip_client(0)
    )
}

impl Flows {
    fn new() -> Self {
        let mut net = Net::with_radio(FAST);
        net.addresses();
        net.start_gateway(0, &standing());
        net.start_gateway(1, &pep(1));
        for (host, service) in [(0, "hfpep"), (1, "hfpep"), (0, "ipclient")] {
            net.expect_state(host, service, "bound");
        }
        let listener = net.listen(1, "10.2.0.1:7");
        let answering = net.nets.within(&net.hosts[1], || UdpSocket::bind("10.2.0.1:53").unwrap());
        let asking = net.nets.within(&net.hosts[0], || UdpSocket::bind("10.1.0.1:0").unwrap());
        asking.connect("10.1.0.1:5353").unwrap();
        for socket in [&asking, &answering] {
            socket.set_read_timeout(Some(SOON)).unwrap();
        }
        let mut flows = Self { net, pairs: Vec::new(), datagrams: [asking, answering], resets: 0 };
        for to in ["10.2.0.1:7", "10.1.0.1:8080"] {
            flows.open(&listener, to);
        }
        flows
    }

    fn open(&mut self, listener: &TcpListener, to: &str) {
        let mut client = self.net.dial(0, to);
        client.write_all(b"hello").unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(SOON)).unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        exchange(&mut client, &mut server);
        self.pairs.push((client, server));
    }

    /// What the operator is told, and whether it was accepted.
    fn reload(&self, config: &str) -> (Option<i32>, String) {
        fs::write(self.net.nets.folder().join("0.toml"), config).unwrap();
        let output = self.net.nets.try_run(&self.net.hosts[0], &format!("{TRACKWAY} reload"));
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    }

    /// All that there was goes on, both ways.
    fn expect_on(&mut self, after: &str) {
        for (client, server) in &mut self.pairs {
            exchange(client, server);
        }
        let [asking, answering] = &self.datagrams;
        asking.send(after.as_bytes()).unwrap();
        let mut heard = [0; 2_000];
        // A question from before may have come late.
        loop {
            let (len, from) = undisturbed(|| answering.recv_from(&mut heard)).expect(after);
            if heard[..len] == *after.as_bytes() {
                answering.send_to(&heard[..len], from).unwrap();
                break;
            }
        }
        while undisturbed(|| asking.recv(&mut heard)).expect(after) != after.len() {}
        let resets = self.net.status(0)["hfpep_sessions_reset"].as_u64().unwrap();
        assert_eq!(resets, self.resets, "{after}: {}", self.net.status(0));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_refused_resets_nothing() {
    let mut flows = Flows::new();
    let _taken = flows.net.listen(0, "10.1.0.1:7070");
    let port = |at: &str| {
        format!("[[hfpep.listen]]\nat = \"{at}\"\nnode = \"0.10.20.31\"\ntarget = \"10.2.0.1:9\"\n")
    };
    let other_peer = pep(0) + "[[hfpep.peer]]\nnode = \"0.10.20.31\"\nto = [\"10.3.0.0/16\"]\n";
    let gre = "[[gre]]\ndevice = \"gre7\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
               addresses = [\"10.99.0.1/30\"]\n";

    for (what, config) in [
        ("a line that is wrong", standing() + "[hfpep"),
        ("a port for root", standing() + &port("10.1.0.1:81")),
        ("a port that is taken", standing() + &port("10.1.0.1:7070")),
        ("an address of another host", standing() + &port("10.77.0.1:7070")),
        (
            "a port of UDP for root",
            standing() + &port("10.1.0.1:82").replace("at", "protocol = \"udp\"\nat"),
        ),
        (
            "another peer and a port for root",
            standing().replace(&pep(0), &other_peer) + &port("10.1.0.1:81"),
        ),
        ("no port at all and one for root", pep(0) + &ip_client(0) + &port("10.1.0.1:81")),
        (
            "other gateways at a taken port",
            format!("[hfpep.bearer]\nlisten = \"10.1.0.1:7070\"\n{}", standing()),
        ),
        ("a service that cannot be had", standing() + gre),
        ("an interface that is not there", standing() + "[hbh]\ninterfaces = [\"nope\"]\n"),
        (
            "another service anew, and one that cannot be had",
            standing().replace("[ipclient]", "[ipclient]\nmtu = 2000") + gre,
        ),
    ] {
        let (code, said) = flows.reload(&config);
        assert!(matches!(code, Some(1 | 2)), "{what}: {code:?} {said}");
        flows.expect_on(what);
    }
    assert!(flows.net.status(0)["hfpep"]["connections"] == 2, "{}", flows.net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_accepted_resets_nothing_that_stays() {
    let mut flows = Flows::new();
    let listener = flows.net.listen(1, "10.2.0.1:9");
    let port = "[[hfpep.listen]]\nat = \"10.1.0.1:8081\"\nnode = \"0.10.20.31\"\ntarget = \"10.2.0.1:9\"\n";
    let peer = "[[hfpep.peer]]\nnode = \"0.10.20.31\"\nto = [\"10.3.0.0/16\", \"fd03::/32\"]\n";
    let with = |own: &str| format!("[hfpep]\n{own}\n{}", standing());

    for (config, expected) in [
        (standing() + port, "hfpep: port 10.1.0.1:8081 added"),
        (standing() + peer, "hfpep: peer 10.3.0.0/16 added"),
        (standing(), "hfpep: peer fd03::/32 left"),
        (with("allow = []"), "hfpep: allow: changed"),
        (with("handshake = \"end-to-end\""), "hfpep: another handshake"),
        (with("interfaces = [\"lo\", \"eth9\"]"), "hfpep: other interfaces"),
        (with("streams = 500\nkeep-alive = \"10min\""), "hfpep: other parameters"),
        (with("rank = 3"), "hfpep: other parameters"),
        (
            with("bearer = { listen = \"10.1.0.1:5099\", from = [\"10.1.0.0/16\"] }"),
            "hfpep: bearer: changed",
        ),
        (standing().replace("[ipclient]", "[ipclient]\nmtu = 2000"), "ipclient: started anew"),
        (
            standing() + "[[rule]]\nname = \"all\"\nprotocol = \"tcp\"\nblock = \"reset\"\n",
            "hfpep: rule all",
        ),
        (standing(), "hfpep: rule all"),
    ] {
        let (code, said) = flows.reload(&config);
        assert_eq!(code, Some(0), "{expected}: {said}");
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("hfpep: started anew"), "{said}");
        flows.expect_on(expected);
    }

    // The new configuration's additions are used, and its removals are gone.
    flows.reload(&(standing() + port));
    flows.open(&listener, "10.1.0.1:8081");
    flows.reload(&pep(0));
    let told = |to: &str| {
        let to = to.parse().unwrap();
        flows.net.nets.within(&flows.net.hosts[0], || call(None, to, 0, MOMENT).map(drop))
    };
    for to in ["10.1.0.1:8080", "10.1.0.1:8081"] {
        assert_eq!(told(to).unwrap_err(), ErrorKind::ConnectionRefused, "{to}");
    }
    for (client, server) in &mut flows.pairs {
        exchange(client, server);
    }
    // Another node: streams go on as they do when a node is lost.
    let (code, said) = flows.reload(&format!("[hfpep]\nserver = \"127.0.0.1:5067\"\n{}", pep(0)));
    assert!(code == Some(0) && said.contains("hfpep: another server"), "{said}");
    assert!(wait_until(SOON, || flows.net.status(0)["hfpep"]["state"] != "bound"));
    flows.reload(&pep(0));
    flows.net.expect_state(0, "hfpep", "bound");
    for (client, server) in &mut flows.pairs {
        exchange(client, server);
    }
}

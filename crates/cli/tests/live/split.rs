//! Tests TCP connections of unmodified programs that two gateways split and carry over IP.

mod confirm;
mod failures;
mod flood;
mod gre;
mod handshake;
mod host;
mod shut;
mod timed;
mod tls;

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::namespaces::{Namespaces, Program, SOON, TRACKWAY, wait_until};
use testbed::Sites;
use testbed::traffic::Transfer;

/// How long a program waits for another.
const PATIENCE: Duration = Duration::from_secs(60);
const CLIENT: &str = Sites::CLIENT;
const SERVER: &str = Sites::SERVER;
/// Spare connections that gateways keep.
const SPARE: u64 = 2;

/// Two networks; their gateways forward no packets, so only split connections come through.
struct Net {
    nets: Namespaces,
    sites: Sites,
    programs: [Option<usize>; 2],
}

impl Net {
    /// The networks, and between the gateways a cable as `trackway link` takes it; a clean one
    /// without.
    fn new(link: Option<&str>) -> Self {
        let mut nets = Namespaces::new();
        let sites = Sites::new(&mut nets, link).unwrap();
        Self { nets, sites, programs: [None; 2] }
    }

    /// The networks and both gateways, which know each other.
    fn with_gateways(link: Option<&str>) -> Self {
        let mut net = Self::new(link);
        for gateway in [0, 1] {
            net.start(gateway, &bearer(gateway, "192.0.2."));
        }
        net.expect_spares();
        net
    }

    fn start(&mut self, gateway: usize, config: &str) {
        let name = &self.sites.gateways[gateway];
        self.programs[gateway] = Some(self.nets.start_gateway(name, &gateway.to_string(), config));
    }

    fn gateway(&mut self, gateway: usize) -> &mut Program {
        self.nets.program(self.programs[gateway].unwrap())
    }

    fn status(&self, gateway: usize) -> Value {
        self.nets.status(&self.sites.gateways[gateway])
    }

    fn expect_spares(&self) {
        for gateway in [0, 1] {
            self.expect(gateway, "spare connections", |status| {
                status["hfpep"]["gateways"][0]["spare"] == SPARE
            });
        }
    }

    fn expect_counter(&self, gateway: usize, counter: &str, value: u64) {
        self.expect(gateway, counter, |status| status[counter].as_u64() == Some(value));
    }

    fn expect(&self, gateway: usize, what: &str, is_so: impl Fn(&Value) -> bool) {
        let comes = wait_until(SOON, || is_so(&self.status(gateway)));
        let printed = self.nets.printed(self.programs[gateway].unwrap());
        assert!(comes, "{what} at {gateway}: {}\n{printed}", self.status(gateway));
    }

    fn listen(&self, port: u16) -> TcpListener {
        self.nets.within(&self.sites.server, || TcpListener::bind((SERVER, port)).unwrap())
    }

    fn dial(&self, to: &str) -> TcpStream {
        let to: SocketAddr = to.parse().unwrap();
        let connect = || TcpStream::connect_timeout(&to, PATIENCE).unwrap();
        let stream = self.nets.within(&self.sites.client, connect);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A connection over which something has come and gone.
    fn pair(&self, listener: &TcpListener) -> (TcpStream, TcpStream) {
        let mut client = self.dial(&listener.local_addr().unwrap().to_string());
        client.write_all(b"hello").unwrap();
        let mut server = accept(listener);
        server.read_exact(&mut [0; 5]).unwrap();
        server.write_all(b"hi").unwrap();
        client.read_exact(&mut [0; 2]).unwrap();
        (client, server)
    }

    /// What reading from a port nobody or nothing is behind gives.
    fn ends_of(&self, to: &str) -> ErrorKind {
        let to: SocketAddr = to.parse().unwrap();
        let connect = || TcpStream::connect_timeout(&to, PATIENCE);
        let ended = self.nets.within(&self.sites.client, connect).and_then(|mut client| {
            client.set_read_timeout(Some(PATIENCE))?;
            client.write_all(b"is anybody there?")?;
            client.read(&mut [0; 10])
        });
        ended.unwrap_err().kind()
    }

    /// A page comes by curl, and much goes both ways.
    fn expect_traffic(&mut self) {
        let page: Vec<u8> = (0..30_000_u32).flat_map(u32::to_be_bytes).collect();
        fs::write(self.nets.folder().join("page"), &page).unwrap();
        let server = self.sites.server.clone();
        let command = format!(
            "python3 -u -m http.server 8000 -b {SERVER} -d {}",
            self.nets.folder().display()
        );
        self.nets.start(&server, &command, "Serving");
        let fetch = format!("curl -s -S -m 60 http://{SERVER}:8000/page");
        let fetched = self.nets.try_run(&self.sites.client, &fetch);
        let said = String::from_utf8_lossy(&fetched.stderr).into_owned();
        assert!(fetched.stdout == page, "{said}\n{}\n{}", self.status(0), self.status(1));

        let there = Transfer::start(&self.sites.client, (&self.sites.server, SERVER), 4_000_000);
        let back = Transfer::start(&self.sites.server, (&self.sites.client, CLIENT), 4_000_000);
        for transfer in [there, back] {
            transfer.finish(2 * SOON);
        }
        for gateway in [0, 1] {
            self.expect(gateway, "no sessions", |status| status["hfpep"]["connections"] == 0);
        }
        let (near, far) = (self.status(0), self.status(1));
        assert_eq!(near["hfpep_bearer_sessions_reset"], 0, "{near}");
        assert_eq!(near["hfpep_bearer_octets_written"], far["hfpep_bearer_octets_read"], "{near}");
    }
}

/// A gateway whose bearer has the address of its number behind a prefix, and so has the other.
fn bearer(gateway: usize, prefix: &str) -> String {
    let (own, other) = (gateway + 1, 2 - gateway);
    format!(
        "[hfpep.bearer]\nlisten = \"{prefix}{own}:5099\"\nspare = {SPARE}\n\
         [[hfpep.peer]]\ngateway = \"{prefix}{other}:5099\"\nto = [\"10.{other}.0.0/24\"]\n"
    )
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    server
}

#[test]
#[ignore = "needs root: run by ./test"]
fn pages_and_transfers_go_over_a_plain_bearer() {
    let mut net = Net::with_gateways(None);

    net.expect_traffic();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn pages_and_transfers_go_over_the_coded_tunnel() {
    let mut net = Net::new(Some("--rate 50mbit --delay 5ms --loss 2% --seed 5"));
    let keys = ["0.key", "1.key"].map(|name| net.nets.make_key(name).unwrap());
    for gateway in [0, 1] {
        let (key, public) = (&keys[gateway].0, &keys[1 - gateway].1);
        let (own, other) = (gateway + 1, 2 - gateway);
        let tunnel = format!(
            "[tunnel]\nprivate-key = {key:?}\naddresses = [\"10.77.0.{own}/24\"]\n\
             [[tunnel.peer]]\nname = \"other\"\npublic-key = \"{public}\"\n\
             endpoint = \"192.0.2.{other}:51900\"\nroutes = [\"10.77.0.{other}/32\"]\n"
        );
        net.start(gateway, &(bearer(gateway, "10.77.0.") + &tunnel));
    }
    net.expect_spares();

    net.expect_traffic();

    let carried = net.status(0)["tunnels"][0].clone();
    assert_eq!(carried["state"], "up", "{carried}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn connections_keep_their_addresses_and_both_directions_end_by_themselves() {
    let net = Net::with_gateways(None);
    let listener = net.listen(7);

    let mut client = net.dial("10.2.0.2:7");
    client.write_all(b"a question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let (mut server, from) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut asked = String::new();
    server.read_to_string(&mut asked).unwrap();
    let status = net.status(0);
    server.write_all(b"the answer").unwrap();
    drop(server);
    let mut told = String::new();
    client.read_to_string(&mut told).unwrap();

    assert_eq!((asked.as_str(), told.as_str()), ("a question", "the answer"));
    assert_eq!(from, client.local_addr().unwrap());
    let session = &status["hfpep"]["sessions"][0];
    let told = ["gateway", "direction", "target", "state"].map(|key| session[key].as_str());
    let expected = ["192.0.2.2:5099", "out", "10.2.0.2:7", "open"].map(Some);
    assert_eq!(told, expected, "{status}");
    assert_eq!((&session["octets_written"], &session["octets_read"]), (&10.into(), &0.into()));
    for gateway in [0, 1] {
        net.expect(gateway, "no session", |status| status["hfpep"]["connections"] == 0);
        net.expect_counter(gateway, "hfpep_bearer_sessions_finished", 1);
    }
}

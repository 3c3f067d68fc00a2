//! Tests TCP connections of unmodified programs that two gateways split and carry over IP.

mod confirm;
mod failures;
mod flood;
mod gre;
mod handshake;
mod host;
mod timed;
mod tls;

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use gateway::keys::{self, System};
use nix::sys::signal::Signal;
use serde_json::Value;
use tunnel::secure::PrivateKey;

use crate::namespaces::{Namespaces, Program, SOON, TRACKWAY, wait_until};
use crate::transfer::Transfer;

/// How long a program waits for another.
const PATIENCE: Duration = Duration::from_secs(60);
const CLIENT: &str = "10.1.0.2";
const SERVER: &str = "10.2.0.2";
/// Spare connections that gateways keep.
const SPARE: u64 = 2;

/// Two networks; their gateways forward no packets, so only split connections come through.
///
/// ```text
///   client ──── gateway 0 ──── gateway 1 ──── server
///  10.1.0.2    192.0.2.1      192.0.2.2     10.2.0.2
/// ```
struct Net {
    nets: Namespaces,
    client: String,
    gateways: [String; 2],
    server: String,
    programs: [Option<usize>; 2],
    folder: PathBuf,
}

impl Net {
    /// The networks, and between the gateways a cable as `trackway link` takes it; a clean one
    /// without.
    fn new(link: Option<&str>) -> Self {
        let mut nets = Namespaces::new();
        let [client, near, far, server] = ["c", "g0", "g1", "s"].map(|name| nets.add(name));
        nets.cable((&client, "eth0"), (&near, "lan"));
        nets.cable((&server, "eth0"), (&far, "lan"));
        let lans = [
            (&client, "eth0", "10.1.0.2/24"),
            (&near, "lan", "10.1.0.1/24"),
            (&far, "lan", "10.2.0.1/24"),
            (&server, "eth0", "10.2.0.2/24"),
        ];
        for (namespace, interface, address) in lans {
            nets.address(namespace, interface, address);
        }
        nets.run(&client, "ip route add default via 10.1.0.1");
        nets.run(&server, "ip route add default via 10.2.0.1");
        match link {
            Some(options) => {
                let ends = [(&near[..], "wan", "192.0.2.1"), (&far[..], "wan", "192.0.2.2")];
                nets.emulate(ends, options);
            }
            None => {
                nets.cable((&near, "wan"), (&far, "wan"));
                nets.address(&near, "wan", "192.0.2.1/24");
                nets.address(&far, "wan", "192.0.2.2/24");
            }
        }
        let folder = std::env::temp_dir().join(&client);
        fs::create_dir(&folder).unwrap();
        Self { nets, client, gateways: [near, far], server, programs: [None; 2], folder }
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
        let file = self.folder.join(format!("{gateway}.toml"));
        fs::write(&file, config).unwrap();
        let command = format!("{TRACKWAY} run {}", file.display());
        let name = self.gateways[gateway].clone();
        self.programs[gateway] = Some(self.nets.start(&name, &command, "gateway ready"));
    }

    fn gateway(&mut self, gateway: usize) -> &mut Program {
        self.nets.program(self.programs[gateway].unwrap())
    }

    fn status(&self, gateway: usize) -> Value {
        let command = format!("{TRACKWAY} status --json");
        let said = self.nets.try_run(&self.gateways[gateway], &command).stdout;
        serde_json::from_slice(&said).unwrap_or_default()
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
        self.nets.within(&self.server, || TcpListener::bind((SERVER, port)).unwrap())
    }

    fn dial(&self, to: &str) -> TcpStream {
        let to: SocketAddr = to.parse().unwrap();
        let connect = || TcpStream::connect_timeout(&to, PATIENCE).unwrap();
        let stream = self.nets.within(&self.client, connect);
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
        let ended = self.nets.within(&self.client, connect).and_then(|mut client| {
            client.set_read_timeout(Some(PATIENCE))?;
            client.write_all(b"is anybody there?")?;
            client.read(&mut [0; 10])
        });
        ended.unwrap_err().kind()
    }

    /// A page comes by curl, and much goes both ways.
    fn expect_traffic(&mut self) {
        let page: Vec<u8> = (0..30_000_u32).flat_map(u32::to_be_bytes).collect();
        fs::write(self.folder.join("page"), &page).unwrap();
        let server = self.server.clone();
        let command =
            format!("python3 -u -m http.server 8000 -b {SERVER} -d {}", self.folder.display());
        self.nets.start(&server, &command, "Serving");
        let fetch = format!("curl -s -S -m 60 http://{SERVER}:8000/page");
        let fetched = self.nets.try_run(&self.client, &fetch);
        let said = String::from_utf8_lossy(&fetched.stderr).into_owned();
        assert!(fetched.stdout == page, "{said}\n{}\n{}", self.status(0), self.status(1));

        let there = Transfer::start(&self.nets, &self.client, (&self.server, SERVER), 4_000_000);
        let back = Transfer::start(&self.nets, &self.server, (&self.client, CLIENT), 4_000_000);
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

impl Drop for Net {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
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
    let secrets = [0, 1].map(|_| PrivateKey::generate(&mut System).unwrap());
    for gateway in [0, 1] {
        let key = net.folder.join(format!("{gateway}.key"));
        keys::write_new(&key, &secrets[gateway].to_base64()).unwrap();
        let (own, other) = (gateway + 1, 2 - gateway);
        let tunnel = format!(
            "[tunnel]\nprivate-key = {key:?}\naddresses = [\"10.77.0.{own}/24\"]\n\
             [[tunnel.peer]]\nname = \"other\"\npublic-key = \"{}\"\n\
             endpoint = \"192.0.2.{other}:51900\"\nroutes = [\"10.77.0.{other}/32\"]\n",
            secrets[1 - gateway].public_key(),
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

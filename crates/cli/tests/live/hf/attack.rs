//! Hostile clients on the LAN and hostile nodes on the air, against HF-PEP: each has one outcome and a
//! counter, and who is not hostile goes on.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};

use super::pep::{FAST, PATIENCE, pep};
use super::tls::{FAR, NEAR, as_bob};
use super::{B, Net, SOON, TRACKWAY};
use crate::logs::{Kind, expect_bounded};
use crate::namespaces::wait_until;
use testbed::traffic::Transfer;
use testbed::traffic::call;

/// Where SLEP is.
pub const SAP: u8 = 13;

impl Net {
    fn counter(&self, host: usize, name: &str) -> u64 {
        self.status(host)[name].as_u64().unwrap_or_default()
    }

    /// Waits until no connection is left at either gateway.
    fn expect_nothing_left(&self) {
        let is_over = || {
            [0, 1].iter().all(|&host| {
                let status = self.status(host);
                status["hfpep"]["connections"] == 0 && status["hfpep_sessions"] == 0
            })
        };
        assert!(wait_until(2 * SOON, is_over), "{}\n{}", self.status(0), self.status(1));
    }

    /// Expects that a connection carries a question and its answer.
    fn expect_answer(&self, port: u16) {
        let at = format!("10.2.0.1:{port}");
        let listener = self.listen(1, &at);
        let mut client = self.dial(0, &at);
        client.write_all(b"question").unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = [0; 8];
        server.read_exact(&mut heard).unwrap();
        server.write_all(b"answer!!").unwrap();
        let mut told = [0; 8];
        client.read_exact(&mut told).unwrap();

        assert_eq!((&heard, &told), (b"question", b"answer!!"));
    }

    /// So many connections to the far host that say nothing.
    fn flood(&self, port: u16, count: usize) -> Vec<TcpStream> {
        let to: SocketAddr = format!("10.2.0.1:{port}").parse().unwrap();
        let connect = || {
            let tried = (0..count).map(|_| TcpStream::connect_timeout(&to, PATIENCE));
            tried.filter_map(Result::ok).collect::<Vec<_>>()
        };
        self.nets.within(&self.hosts[0], connect)
    }

    /// Seconds of the processor that a gateway has used.
    fn cpu_seconds(&mut self, host: usize) -> f64 {
        let pid = self.gateway(host).pid();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // Hundredths of a second, in user mode and in the kernel.
        [11, 12].iter().map(|&at| fields[at].parse::<f64>().unwrap()).sum::<f64>() / 100.0
    }

    /// The most memory that a gateway has had, in kB.
    fn peak(&mut self, host: usize) -> u64 {
        self.memory(host, "VmHWM:")
    }

    /// What the kernel says of a gateway's memory, in kB.
    fn memory(&mut self, host: usize, what: &str) -> u64 {
        let pid = self.gateway(host).pid();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let said = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        said.trim().trim_end_matches(" kB").trim().parse().unwrap()
    }
}

/// Ends a connection by a reset.
fn reset(stream: TcpStream) {
    setsockopt(&stream, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 }).unwrap();
    drop(stream);
}

/// The connection on which this comes first.
fn accept_that_says(listener: &TcpListener, name: &[u8; 2]) -> TcpStream {
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut said = [0; 2];
        if stream.read_exact(&mut said).is_ok() && said == *name {
            return stream;
        }
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_burst_of_silent_clients_takes_what_room_there_is_and_gives_it_back() {
    let mut net = Net::with_radio(FAST);
    net.addresses();
    net.start_gateway(0, &format!("[hfpep]\nstreams = 100\n{}", pep(0)));
    net.start_gateway(1, &pep(1));
    for host in [0, 1] {
        net.expect_state(host, "hfpep", "bound");
    }
    let _target = net.listen(1, "10.2.0.1:7");

    let clients = net.flood(7, 2_000);

    // Each was taken or reset.
    let all = || {
        net.counter(0, "hfpep_connections_accepted") + net.counter(0, "hfpep_connections_refused")
    };
    assert!(wait_until(SOON, || all() == 2_000), "{} of {}", all(), clients.len());
    // One client has three quarters of the places, and the others are for others.
    assert_eq!(net.counter(0, "hfpep_connections_accepted"), 75, "{}", net.status(0));
    assert_eq!(net.counter(0, "hfpep_sessions_over_share"), 1_925, "{}", net.status(0));
    clients.into_iter().for_each(reset);
    net.expect_nothing_left();
    net.expect_answer(8);
    assert!(net.peak(0) < 100_000, "{} kB", net.peak(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn without_descriptors_clients_are_reset_and_the_gateway_does_not_spin() {
    let mut net = Net::with_radio(FAST);
    net.addresses();
    let file = net.nets.folder().join("0.toml");
    fs::write(&file, pep(0)).unwrap();
    let command = format!("prlimit --nofile=60:60 {TRACKWAY} run {}", file.display());
    let near = net.hosts[0].clone();
    net.gateways[0] = Some(net.nets.start(&near, &command, "gateway ready"));
    net.start_gateway(1, &pep(1));
    for host in [0, 1] {
        net.expect_state(host, "hfpep", "bound");
    }
    let _target = net.listen(1, "10.2.0.1:7");

    let clients = net.flood(7, 200);
    let turned_away = |net: &Net| net.counter(0, "hfpep_connections_without_descriptor");
    let all = |net: &Net| turned_away(net) + net.counter(0, "hfpep_connections_accepted");
    // Status needs a descriptor too, which there is as soon as a client is gone.
    clients.into_iter().for_each(reset);
    net.expect_nothing_left();

    assert!(wait_until(SOON, || all(&net) == 200), "{}", net.status(0));
    assert!(turned_away(&net) > 0, "{}", net.status(0));
    net.expect_answer(8);
    let used = net.cpu_seconds(0);
    assert!(used < 10.0, "{used} s");
    let (_, printed) = net.gateway(0).stop();
    let lines = printed.matches("a connection cannot be taken").count();
    assert!((1..=10).contains(&lines), "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_reset_in_any_state_ends_the_connection_at_both_gateways() {
    let net = Net::with_peps(FAST, "");
    let listener = net.listen(1, "10.2.0.1:7");

    // Before anything is said, with the first octets, and while the target has not answered.
    reset(net.dial(0, "10.2.0.1:7"));
    let mut client = net.dial(0, "10.2.0.1:7");
    client.write_all(b"gone").unwrap();
    reset(client);
    // While it carries octets, by either end, and after one direction has ended.
    for (by_client, has_finished) in [(true, false), (false, false), (true, true), (false, true)] {
        let name = [u8::from(by_client), u8::from(has_finished)];
        let mut client = net.dial(0, "10.2.0.1:7");
        client.write_all(&name).unwrap();
        let server = accept_that_says(&listener, &name);
        let (ending, mut other) = if by_client { (client, server) } else { (server, client) };
        if has_finished {
            ending.shutdown(Shutdown::Write).unwrap();
            assert_eq!(other.read_to_end(&mut Vec::new()).unwrap(), 0);
        }
        reset(ending);
        // Who has heard the end meets the reset with octets of its own.
        let is_told = || match other.write_all(b"more") {
            Ok(()) => false,
            Err(error) => {
                matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
            }
        };
        assert!(wait_until(SOON, is_told), "{by_client} {has_finished}");
    }

    drop(listener);
    net.expect_nothing_left();
    net.expect_answer(8);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_does_not_read_holds_up_nobody_else_and_memory_stays_bounded() {
    let mut net = Net::with_peps(FAST, "");
    let listener = net.listen(1, "10.2.0.1:7");
    let slow: Vec<_> = (0..8).map(|_| net.dial(0, "10.2.0.1:7")).collect();
    let mut servers = Vec::new();
    for mut client in &slow {
        client.write_all(b"all of it").unwrap();
        servers.push(listener.accept().unwrap().0);
    }
    // Servers write until their gateway takes no more, and nobody reads.
    for server in &mut servers {
        server.set_nonblocking(true).unwrap();
    }
    let mut written = 0;
    let mut write = || {
        let mut is_full = true;
        for server in &mut servers {
            match server.write(&[b'x'; 65_536]) {
                Ok(len) => (written, is_full) = (written + len, false),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        is_full && written > 1_000_000
    };
    assert!(wait_until(SOON, &mut write));
    // The near gateway has all that its clients' kernel and 64 KiB of each take: the rest stays as it came.
    let is_held = || {
        write();
        net.counter(0, "slep_octets_unread") > 10_000
    };
    assert!(wait_until(SOON, is_held), "{}", net.status(0));

    let [a, b] = &net.hosts;
    Transfer::start(a, (b, "10.2.0.1"), 50_000).finish(SOON);

    for host in [0, 1] {
        assert!(net.peak(host) < 150_000, "{} kB", net.peak(host));
    }
    slow.into_iter().for_each(reset);
    net.expect_nothing_left();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn hosts_that_vanish_are_asked_whether_they_are_there() {
    let net = Net::with_peps(FAST, "");
    let listener = net.listen(1, "10.2.0.1:7");
    let mut client = net.dial(0, "10.2.0.1:7");
    client.write_all(b"hello").unwrap();
    let (_server, _) = listener.accept().unwrap();

    for host in [0, 1] {
        let own = || {
            let sockets = net.nets.run(&net.hosts[host], "ss -tnoH state established");
            let asked = sockets.lines().filter(|line| line.contains("timer:(keepalive"));
            asked.filter(|line| line.contains("10.2.0.1:7")).count()
        };
        assert!(wait_until(SOON, || own() == 1), "{host}");
    }
}

/// A stream by a node that does as it likes: its first part.
pub fn first_part(stream: u8, octets: &[u8]) -> Vec<u8> {
    [&[0x18, 0xa1, 0xb2, 0, stream, 0, 0, 1][..], octets].concat()
}

/// An opening to an IPv4 address and port, in the name of a client's port 9.
pub fn opening(address: [u8; 4], port: u16, from: [u8; 4]) -> Vec<u8> {
    let port = port.to_be_bytes();
    [&[0x50, 0, 0, 9][..], &port, &from, &address].concat()
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_gets_no_connection_that_it_must_not_have() {
    let mut net = Net::with_radio(FAST);
    net.addresses();
    let more = "[[hfpep.peer]]\nnode = \"0.10.20.99\"\nto = [\"10.9.0.0/16\"]\n";
    net.start_gateway(1, &(pep(1) + more));
    net.expect_state(1, "hfpep", "bound");
    let own = ["127.0.0.1:22", "[::1]:22"].map(|at| net.listen(1, at));
    let client = [10, 1, 0, 9];
    let v6 = [&[0x50, 0x10, 0, 9, 0, 22][..], &[0xfd, 1], &[0; 13], &[9], &[0; 15], &[1]].concat();
    let mapped = |address: [u8; 4]| [&[0; 10][..], &[0xff; 2], &address].concat();
    let as_v6 = |from: [u8; 4], to: [u8; 4]| {
        [&[0x50, 0x10, 0, 9, 0, 22][..], &mapped(from), &mapped(to)].concat()
    };
    let auth = [&[0x50, 0x0a, 0, 3][..], b"bob"].concat();
    let tls = [&[0x50, 0x08, 0, 9, 1, 187][..], &client, &[10, 2, 0, 1]].concat();
    // What it says, and the reason of the reset.
    let cases: [(&str, Vec<u8>, u8); 13] = [
        ("no opening", b"GET / HTTP/1.0\r\n\r\n".to_vec(), 8),
        (
            "another magic number",
            [&[0x51][..], &opening([10, 2, 0, 1], 22, client)[1..]].concat(),
            8,
        ),
        ("another version", [&[0x50, 0x20][..], &[0; 12]].concat(), 8),
        ("SNI without TLS", [&[0x50, 0x04][..], &[0; 20]].concat(), 8),
        ("the gateway itself", opening([127, 0, 0, 1], 22, client), 4),
        ("as 0.0.0.0", opening([0, 0, 0, 0], 22, client), 4),
        ("in IPv6", v6, 4),
        ("as an IPv4-mapped address", as_v6(client, [127, 0, 0, 1]), 4),
        ("as another's client, mapped", as_v6([10, 9, 0, 1], [10, 2, 0, 1]), 4),
        ("multicast", opening([224, 0, 0, 1], 22, client), 4),
        ("as another's client", opening([10, 2, 0, 1], 22, [10, 9, 0, 1]), 4),
        ("an Auth ID", auth, 5),
        ("TLS", tls, 5),
    ];
    let mut node = net.bind(0, SAP);

    for (stream, (_, said, _)) in (0..).zip(&cases) {
        node.send(B, SAP, &first_part(stream, said));
    }
    let mut resets = vec![None; cases.len()];
    while resets.contains(&None) {
        let u_pdu = node.receive();
        if let [0x30, _, stream, reason] = u_pdu[..] {
            resets[usize::from(stream)] = Some(reason);
        }
    }

    for ((what, _, expected), reason) in cases.iter().zip(resets) {
        assert_eq!(reason, Some(*expected), "{what}");
    }
    for listener in own {
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    let status = net.status(1);
    for (counter, count) in [
        ("hfpep_openings_malformed", 4),
        ("hfpep_targets_forbidden", 7),
        ("hfpep_targets_unknown", 2),
        ("hfpep_sessions", 0),
    ] {
        assert_eq!(status[counter], count, "{counter}: {status}");
    }
    let (_, printed) = net.gateway(1).stop();
    assert!(printed.contains("connection for another end not made"), "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn streams_without_end_and_data_that_swells_take_bounded_room() {
    let mut net = Net::with_radio(FAST);
    net.addresses();
    net.start_gateway(1, &format!("[hfpep]\nstreams-of-peer = 20\n{}", pep(1)));
    net.expect_state(1, "hfpep", "bound");
    let listener = net.listen(1, "10.2.0.1:7");
    let mut node = net.bind(0, SAP);
    let before = net.peak(1);

    // A megabyte of zeros in each part, one DEFLATE stream in all.
    let swell = "import sys, zlib; c = zlib.compressobj(9, zlib.DEFLATED, -15); \
                 sys.stdout.buffer.write(c.compress(bytes(40 << 20)) + c.flush(zlib.Z_FULL_FLUSH))";
    let swollen = net.nets.try_words(&net.hosts[0], &["python3", "-c", swell]).stdout;
    node.send(B, SAP, &first_part(0, &opening([10, 2, 0, 1], 7, [10, 1, 0, 9])));
    let (mut server, _) = listener.accept().unwrap();
    for (number, piece) in (1_u8..).zip(swollen.chunks(1_900)) {
        let head = [0x1a, 0xa1, 0xb2, 0, 0, 0, number, 0x01];
        node.send(B, SAP, &[&head[..], piece].concat());
    }
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut zeros = vec![1; 100_000];
    server.read_exact(&mut zeros).unwrap();
    assert!(zeros.iter().all(|octet| *octet == 0));
    // Streams that are opened and never used.
    for stream in 1..=40 {
        node.send(B, SAP, &first_part(stream, &[0x50]));
    }
    let is_full =
        || net.counter(1, "hfpep_sessions") == 20 && net.counter(1, "slep_streams_refused") >= 21;
    assert!(wait_until(SOON, is_full), "{}", net.status(1));
    let peak = net.peak(1);
    assert!(peak - before < 20_000, "{before} to {peak} kB");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_node_that_does_all_it_can_writes_few_lines() {
    let mut net = Net::with_radio(FAST);
    net.addresses();
    net.certify("ca", "far", "");
    let shore = "[[tls]]\nname = \"shore\"\nrole = \"client\"\ntrust-anchors = \"far/ca.crt\"\n\
                 target = [{ id = \"bob\", to = \"10.2.0.1:8089\" }]\n";
    let allow = "allow = [{ to = \"10.2.0.1/32\", to-port = 7 }]\ntls = \"shore\"\n";
    net.start_gateway(1, &format!("[hfpep]\n{allow}{}{shore}", pep(1)));
    net.expect_state(1, "hfpep", "bound");
    let took = net.listen(1, "10.2.0.1:7");
    // Speaks no TLS. Closed with the hello unread, the connection would be reset, and its words could be lost.
    let plain = net.listen(1, "10.2.0.1:8089");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = plain.accept() {
            let _ = stream.read(&mut [0; 16_384]);
            let _ = stream.write_all(b"220 no TLS here\r\n");
        }
    });
    let mut node = net.bind(0, SAP);
    let began = Instant::now();

    let bob = [&[0x50, 0x0a, 0, 3][..], b"bob"].concat();
    for stream in 0..35 {
        node.send(B, SAP, &first_part(stream, &opening([10, 2, 0, 1], 22, [10, 1, 0, 9])));
        node.send(B, SAP, &first_part(50 + stream, &bob));
    }
    let failed = || {
        net.counter(1, "hfpep_targets_forbidden") == 35
            && net.counter(1, "hfpep_tls_violation") == 35
    };
    assert!(wait_until(3 * SOON, failed), "{}", net.status(1));
    // Streams that end because their node has started anew, as it says.
    let mut servers = Vec::new();
    for stream in 100..135 {
        node.send(B, SAP, &first_part(stream, &opening([10, 2, 0, 1], 7, [10, 1, 0, 9])));
        servers.push(took.accept().unwrap());
    }
    let mut anew = first_part(0, &opening([10, 2, 0, 1], 7, [10, 1, 0, 9]));
    anew[2] ^= 1;
    node.send(B, SAP, &anew);
    assert!(wait_until(SOON, || net.counter(1, "hfpep_sessions") == 1), "{}", net.status(1));

    let noisy = began.elapsed();
    let (_, printed) = net.gateway(1).stop();
    expect_bounded(
        &printed,
        noisy,
        &[
            Kind { lines: &["connection for another end not made"], most: 1 },
            Kind { lines: &["TLS: "], most: 30 },
            // One for each connection that a program lost.
            Kind { lines: &["connection broken off"], most: 600 },
        ],
    );

    // The same to a member of a group, and to its IP client.
    let key = net.nets.folder().join("group.key");
    net.nets.run(&net.hosts[0], &format!("{TRACKWAY} keygen --group --out {}", key.display()));
    let group = "group-key = \"group.key\"\nown-node = \"0.10.20.31\"\n";
    let ip = super::ip_client(1).replacen("[ipclient]\n", &format!("[ipclient]\n{group}"), 1);
    net.start_gateway(1, &format!("{ip}[hfpep]\n{group}{}", pep(1)));
    for service in ["hfpep", "ipclient"] {
        net.expect_state(1, service, "bound");
    }
    let mut packets = net.bind(0, 9);
    let began = Instant::now();
    for stream in 0..35 {
        node.send(B, SAP, &first_part(stream, &bob));
        // That it drops what is sent to it.
        node.send(B, SAP, &[0x9f, 1]);
        packets.send(B, 9, &[0x45; 40]);
        packets.send(B, 9, &[&[0x90; 12][..], &[0x45; 40]].concat());
    }
    let is_dropped = || {
        net.counter(1, "slep_sis_unauthenticated") == 35
            && net.counter(1, "ipclient_sis_forged") == 35
    };
    assert!(wait_until(3 * SOON, is_dropped), "{}", net.status(1));
    let noisy = began.elapsed();
    let (_, printed) = net.gateway(1).stop();
    // One of each service.
    expect_bounded(
        &printed,
        noisy,
        &[
            Kind { lines: &["what this node sends is dropped"], most: 2 },
            Kind { lines: &["this node says that it drops what we send"], most: 1 },
        ],
    );
}

#[test]
#[ignore = "needs root: run by ./test"]
fn no_key_and_nothing_that_is_carried_is_in_logs_or_status() {
    let mut net = Net::with_profiles("log = \"trace\"\n", NEAR, FAR);
    let far = net.hosts[1].clone();
    let folder = net.nets.folder().display().to_string();
    let server = "import http.server, os, ssl, sys\nos.chdir(sys.argv[1])\n\
                  open('page', 'w').write('S3cretAnswer' * 9)\n\
                  server = http.server.HTTPServer(('10.2.0.1', 8089), \
                  http.server.SimpleHTTPRequestHandler)\n\
                  c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
                  c.load_cert_chain('far/tak.example.crt', 'far/tak.example.key')\n\
                  server.socket = c.wrap_socket(server.socket, server_side=True)\n\
                  print('serving', flush=True)\nserver.serve_forever()\n";
    fs::write(net.nets.folder().join("serve.py"), server).unwrap();
    net.nets.start(&far, &format!("python3 {folder}/serve.py {folder}"), "serving");

    let asked = format!("{} -H X-Token:S3cretQuestion", as_bob(net.nets.folder(), "near"));
    let fetched = net.fetch(8089, "near", &asked);
    let refused = net.fetch(8089, "near", &as_bob(net.nets.folder(), "bad"));

    assert!(String::from_utf8_lossy(&fetched.stdout).starts_with("S3cretAnswer"), "{fetched:?}");
    assert!(!refused.status.success());
    let mut told = format!("{}{}", net.status(0), net.status(1));
    for host in [0, 1] {
        told += &net.gateway(host).stop().1;
    }
    assert!(told.contains("TLS: ") && told.contains("gateway ends"), "{told}");
    let mut secrets = vec!["S3cret".to_owned(), "PRIVATE KEY".to_owned()];
    for key in ["near/tak.example.key", "far/bob@unit.example.key", "near/bob@unit.example.key"] {
        let pem = fs::read_to_string(net.nets.folder().join(key)).unwrap();
        // What all keys have in common is in the first line of it.
        secrets.extend(pem.lines().skip(2).filter(|it| !it.contains("---")).map(str::to_owned));
    }
    assert!(secrets.len() > 5, "{secrets:?}");
    for secret in secrets {
        assert!(!told.contains(&secret), "{secret} is in what the gateways say");
    }
}

/// What needs the machine for itself: the octets that a client says between its opening and its reset.
mod timed {
    use super::*;

    #[test]
    #[ignore = "needs root: run by ./test"]
    fn who_connects_sends_and_resets_again_and_again_costs_little_and_starves_nobody() {
        let mut net = Net::with_peps(FAST, "");
        net.nets.run(&net.hosts[0], "ip address add 10.1.0.9/16 dev lan0");
        let _target = net.listen(1, "10.2.0.1:7");
        net.expect_answer(8);
        let idle = [0, 1].map(|host| net.memory(host, "VmRSS:"));
        let handed = net.counter(0, "slep_octets_handed");
        let from: SocketAddr = "10.1.0.9:0".parse().unwrap();

        // Send as much as the kernel accepts on each connection, so that streams are full.
        let mut sent = 0;
        for number in 0..1_500 {
            let to = "10.2.0.1:7".parse().unwrap();
            let called = net.nets.within(&net.hosts[0], || call(Some(from), to, 0, PATIENCE));
            let Ok(mut stream) = called else { continue };
            stream.set_nonblocking(true).unwrap();
            sent += stream.write(&[b'x'; 300_000]).unwrap_or_default();
            if number % 500 == 250 {
                // Another client is answered in the midst of it.
                net.expect_answer(9);
            }
            reset(stream);
        }
        net.expect_answer(10);
        net.expect_nothing_left();

        let handed = net.counter(0, "slep_octets_handed") - handed;
        let peaks = [0, 1].map(|host| net.peak(host));
        println!("sent {sent}, on the air {handed}, idle {idle:?}, peaks {peaks:?} kB");
        assert!(peaks.iter().all(|peak| *peak < 100_000), "{peaks:?} kB");
        let mut memory = idle;
        let is_idle = wait_until(SOON, || {
            memory = [0, 1].map(|host| net.memory(host, "VmRSS:"));
            memory.iter().zip(&idle).all(|(memory, idle)| *memory < idle + 12_000)
        });
        println!("idle again {memory:?}: {}", net.status(0));
        assert!(is_idle, "{memory:?} after {idle:?} kB");
        // Of 450 MB: streams that the node was given something of go on to what was said before the reset.
        assert!(handed < 200_000, "{handed} octets: {}", net.status(0));
        assert!(net.counter(0, "slep_streams_cancelled_unsent") > 0, "{}", net.status(0));
    }
}

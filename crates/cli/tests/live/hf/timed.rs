//! Programs learn how their HF-PEP connections really ended, even if programs, gateways or nodes fail.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::libc::linger;
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};

use super::pep::{FAST, PATIENCE, pep};
use super::{Net, SOON};
use crate::namespaces::{TRACKWAY, undisturbed, wait_until};

/// How long a program may wait after the restart of what was killed.
const WAITS: Duration = Duration::from_secs(5);
/// How much longer beside other programs on this machine.
const BESIDE_OTHERS: Duration = Duration::from_secs(1);

/// A connection over which something has come: the client's end and the server's.
fn pair(net: &Net, port: u16) -> (TcpStream, TcpStream) {
    let at = format!("10.2.0.1:{port}");
    let listener = net.listen(1, &at);
    let mut client = net.dial(0, &at);
    client.write_all(b"hello").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    server.read_exact(&mut [0; 5]).unwrap();
    (client, server)
}

fn reset(stream: TcpStream) {
    setsockopt(&stream, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 }).unwrap();
    drop(stream);
}

/// Writes as much as goes, more than the radio carries in a moment; how much.
fn fill(stream: &mut TcpStream) -> usize {
    stream.set_nonblocking(true).unwrap();
    let mut said = 0;
    while let Ok(len) = stream.write(&[7; 50_000]) {
        said += len;
    }
    stream.set_nonblocking(false).unwrap();
    said
}

/// All that there is to read, and how it ended.
fn hear(stream: &mut TcpStream) -> (Vec<u8>, Result<(), ErrorKind>) {
    let mut heard = Vec::new();
    let ended = stream.read_to_end(&mut heard).map(drop).map_err(|error| error.kind());
    (heard, ended)
}

const RESET: Result<(), ErrorKind> = Err(ErrorKind::ConnectionReset);

#[test]
#[ignore = "needs root: run by ./test"]
fn what_a_program_says_before_it_resets_comes_first() {
    let net = Net::with_peps(FAST, "");

    // As a server that answers "413" and closes, and pages of HTTP/1.0.
    for (port, len) in [(7001, 90), (7002, 10), (7003, 100_000)] {
        let (mut client, mut server) = pair(&net, port);
        let said: Vec<u8> = (0..len).map(|at: u32| at.to_le_bytes()[0]).collect();
        let upload = client.try_clone().unwrap();
        server.write_all(&said).unwrap();
        wait_until(Duration::from_millis(200), || false);
        reset(server);
        let _ = (&upload).write(&[7; 50_000]);

        let (heard, ended) = hear(&mut client);
        assert!(heard == said, "{} of {len}", heard.len());
        assert_eq!(ended, RESET, "{len}");
    }
    // A client that has not read what the server says, reports and closes.
    for len in [10, 100_000] {
        let (mut client, mut server) = pair(&net, 7100);
        server.write_all(b"hello, I am the collector").unwrap();
        assert!(wait_until(SOON, || client.peek(&mut [0; 25]).is_ok_and(|len| len == 25)));
        client.write_all(&vec![b'R'; len]).unwrap();
        drop(client);

        let (heard, ended) = hear(&mut server);
        assert_eq!((heard.len(), ended), (len, RESET));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_program_that_reads_slowly_has_all_before_a_reset() {
    let net = Net::with_peps(FAST, "");
    let (mut client, mut server) = pair(&net, 7002);

    server.write_all(&vec![7; 200_000]).unwrap();
    // What the server's own host still has is lost by its reset.
    let has_all = || net.status(1)["hfpep"]["sessions"][0]["octets_written"] == 200_000;
    assert!(wait_until(SOON, has_all), "{}", net.status(1));
    reset(server);
    let mut heard = 0;
    let ended = loop {
        // So slowly that all of it waits at gateways and in sockets for most of the time.
        wait_until(Duration::from_millis(50), || false);
        match client.read(&mut [0; 5_000]) {
            Ok(0) => break Ok(()),
            Ok(len) => heard += len,
            Err(error) => break Err(error.kind()),
        }
    };

    assert_eq!((heard, ended), (200_000, RESET));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_crash_of_either_gateway_is_no_end_for_either_program() {
    let mut net = Net::with_peps(FAST, "");

    for (killed, is_half_closed) in [(0, true), (1, true), (0, false), (1, false)] {
        let (mut client, mut server) = pair(&net, 7006);
        let said = fill(&mut client);
        if is_half_closed {
            client.shutdown(Shutdown::Write).unwrap();
        }
        server.read_exact(&mut vec![0; 20_000]).unwrap();

        net.gateway(killed).signal(Signal::SIGKILL);
        net.gateway(killed).finish(SOON);
        let config = pep(killed);
        net.start_gateway(killed, &config);
        let began = Instant::now();
        let heard = [hear(&mut client), hear(&mut server)];
        let waited = began.elapsed();

        let case = format!("{killed} killed, half closed: {is_half_closed}, {said} said");
        assert_eq!(heard[0], (Vec::new(), RESET), "{case}");
        assert_eq!(heard[1].1, RESET, "{case}: {} heard", heard[1].0.len());
        assert!(heard[1].0.len() + 20_000 < said, "{case}: killed too late to prove anything");
        assert!(waited < SOON, "{case}: {waited:?}");
        for host in [0, 1] {
            net.expect_state(host, "hfpep", "bound");
        }
    }
    // The surviving gateway has reported each broken connection.
    net.gateway(0).stop();
    let printed = net.nets.printed(net.gateways[0].unwrap());
    assert!(printed.contains("connection broken off: the far end may lack"), "{printed}");
    assert!(printed.contains("reason=\"the other end has restarted\" in_doubt="), "{printed}");
}

/// How a gateway ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// As by a broken promise that aborts.
    Abort,
    /// It is killed, and whatever it made in the kernel is removed by `trackway down`.
    Down,
}

#[test]
#[ignore = "needs root: run by ./test"]
fn neither_an_abort_nor_down_is_an_end_for_a_program() {
    let mut net = Net::with_peps(FAST, "");

    for way in [Way::Abort, Way::Down] {
        for host in [0, 1] {
            let (mut client, mut server) = pair(&net, 7007);
            let said = fill(&mut client);
            client.shutdown(Shutdown::Write).unwrap();
            server.read_exact(&mut [0; 1_000]).unwrap();

            let name = net.hosts[host].clone();
            match way {
                Way::Abort => net.gateway(host).signal(Signal::SIGABRT),
                Way::Down => net.gateway(host).signal(Signal::SIGKILL),
            }
            let is_gone = wait_until(SOON, || net.gateway(host).has_ended());
            let case = format!("{way:?} of {host}, {said} said");
            let printed = net.nets.printed(net.gateways[host].unwrap());
            assert!(is_gone, "{case}: {printed}");
            if way == Way::Down {
                net.nets.run(&name, &format!("{TRACKWAY} down"));
            }
            net.start_gateway(host, &pep(host));
            let heard = [hear(&mut client), hear(&mut server)];

            assert_eq!(heard[0], (Vec::new(), RESET), "{case}");
            assert_eq!(heard[1].1, RESET, "{case}: {} heard", heard[1].0.len());
            assert!(heard[1].0.len() + 1_000 < said, "{case}: too late to prove anything");
            for host in [0, 1] {
                net.expect_state(host, "hfpep", "bound");
            }
        }
    }
}

/// Lets a service of a gateway panic, which only a gateway built for tests does.
fn provoke_panic(net: &mut Net, host: usize, service: &str) {
    let pid = net.gateway(host).pid();
    let namespace = std::fs::metadata(format!("/proc/{pid}/ns/net")).unwrap().ino();
    let at = format!("/run/trackway/{namespace}/control.sock");
    let mut control = UnixStream::connect(&at).unwrap();
    control.write_all(format!("{{\"panic\":\"{service}\"}}").as_bytes()).unwrap();
    control.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    control.read_to_string(&mut answer).unwrap();
    assert_eq!(answer.trim(), "1", "services that panic");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_panic_of_the_service_resets_what_it_carries_and_the_service_comes_back() {
    let mut net = Net::with_peps(FAST, "");

    for host in [0, 1] {
        let (mut client, mut server) = pair(&net, 7006);
        let said = fill(&mut client);
        client.shutdown(Shutdown::Write).unwrap();
        server.read_exact(&mut [0; 1_000]).unwrap();

        provoke_panic(&mut net, host, "hfpep");
        let heard = [hear(&mut client), hear(&mut server)];

        assert_eq!(heard[0], (Vec::new(), RESET), "{host}");
        assert_eq!(heard[1].1, RESET, "{host}: {} heard", heard[1].0.len());
        assert!(heard[1].0.len() + 1_000 < said, "{host}: too late to prove anything");
        // The operator sees it, and the process went on.
        let of_service = |net: &Net| {
            let status = net.status(host);
            let all = status["services"].as_array().cloned().unwrap_or_default();
            all.into_iter().find(|it| it["name"] == "hfpep").unwrap_or_default()
        };
        assert!(wait_until(SOON, || of_service(&net)["restarts"] == 1), "{}", net.status(host));
        let why = of_service(&net)["why"].clone();
        assert!(why.as_str().is_some_and(|why| why.starts_with("it panicked")), "{why}");
        net.expect_state(host, "hfpep", "bound");
        drop(pair(&net, 7008));
    }
    // The host is as it was.
    for host in [0, 1] {
        net.gateway(host).stop();
        let name = net.hosts[host].clone();
        let left = ["nft list tables", "ip rule"].map(|command| net.nets.run(&name, command));
        let is_left = left.iter().any(|said| said.contains("trackway") || said.contains("29810"));
        assert!(!is_left, "{left:?}");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_gateway_or_service_that_is_ended_resets_what_it_carries() {
    let mut net = Net::with_peps(FAST, "");

    for is_removed in [true, false] {
        for host in [0, 1] {
            let (mut client, mut server) = pair(&net, 7006);
            fill(&mut client);
            client.shutdown(Shutdown::Write).unwrap();
            server.read_exact(&mut [0; 1_000]).unwrap();

            if is_removed {
                let file = net.nets.folder().join(format!("{host}.toml"));
                std::fs::write(&file, super::ip_client(host)).unwrap();
                net.nets.run(&net.hosts[host], &format!("{TRACKWAY} reload"));
            } else {
                net.gateway(host).stop();
            }
            let ends = [hear(&mut client).1, hear(&mut server).1];

            assert_eq!(ends, [RESET; 2], "removed: {is_removed}, {host}");
            if is_removed {
                std::fs::write(net.nets.folder().join(format!("{host}.toml")), pep(host)).unwrap();
                net.nets.run(&net.hosts[host], &format!("{TRACKWAY} reload"));
            } else {
                net.start_gateway(host, &pep(host));
            }
            net.expect_state(host, "hfpep", "bound");
        }
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_close_that_is_confirmed_means_that_all_has_arrived() {
    let mut net = Net::with_peps(FAST, "[hfpep]\nconfirm-close = true\n");

    // All is well: the end of the answer comes as before.
    let (mut client, mut server) = pair(&net, 7006);
    client.write_all(&[7; 50_000]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(hear(&mut server), (vec![7; 50_000], Ok(())));
    server.write_all(b"got it").unwrap();
    drop(server);
    assert_eq!(hear(&mut client), (b"got it".to_vec(), Ok(())));

    // A server that has ended, and whose host has not all: the client hears no end until it has.
    let (mut client, mut server) = pair(&net, 7006);
    server.write_all(b"thanks").unwrap();
    let mut told = [0; 6];
    client.read_exact(&mut told).unwrap();
    client.write_all(&[7; 200_000]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let early = undisturbed(|| client.read(&mut [0; 1])).map_err(|error| error.kind());
    net.gateway(1).signal(Signal::SIGKILL);
    net.gateway(1).finish(SOON);
    net.start_gateway(1, &pep(1));
    client.set_read_timeout(Some(PATIENCE)).unwrap();

    assert_eq!(early, Err(ErrorKind::WouldBlock));
    assert_eq!(hear(&mut client).1, RESET);
    assert_eq!(hear(&mut server).1, RESET);
}

/// A server of TLS that says a page without its length, and ends TCP without ending TLS.
const CUT: &str = r#"
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/far/tak.example.crt", sys.argv[1] + "/far/tak.example.key")
listener = socket.create_server(("10.2.0.1", 446))
print("serving", flush=True)
while True:
    try:
        plain, _ = listener.accept()
        peer = context.wrap_socket(plain, server_side=True)
        while b"\r\n\r\n" not in peer.recv(4096): pass
        peer.sendall(b"HTTP/1.0 200 OK\r\n\r\nhello without a length")
        peer.close()
    except OSError as error:
        print(error, flush=True)
"#;

#[test]
#[ignore = "needs root: run by ./test"]
fn who_ends_tcp_without_ending_tls_is_heard_at_once() {
    let mut net = Net::with_profiles("", super::tls::NEAR, super::tls::FAR);
    let folder = net.nets.folder().display().to_string();
    std::fs::write(net.nets.folder().join("cut.py"), CUT).unwrap();
    let far = net.hosts[1].clone();
    net.nets.start(&far, &format!("python3 {folder}/cut.py {folder}"), "serving");

    let began = Instant::now();
    let fetched = net.fetch(446, "near", "");
    let waited = began.elapsed();

    assert_eq!(String::from_utf8_lossy(&fetched.stdout), "hello without a length");
    // Somebody may have cut it: that is no good end.
    assert!(!fetched.status.success());
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    net.expect_counter(1, "hfpep_tls_cut", 1);
}

/// Octets of a transfer that is under way when something is killed.
const MUCH: usize = 150_000;

/// Octets that a program read, and how reading ended.
type Ended = (usize, Result<(), ErrorKind>);

/// Observations of the programs of one connection.
#[derive(Debug, Default)]
struct Known {
    /// Octets that came at either end.
    moved: AtomicU64,
    /// How each end ended, and after how many octets; none while it has not.
    ends: Mutex<[Option<Ended>; 2]>,
    /// Times that the server was connected to.
    accepted: AtomicU64,
    wrong: AtomicBool,
}

impl Known {
    /// Reads until it ends, and checks each octet.
    fn hear(&self, stream: &mut TcpStream, side: usize, from: usize) -> bool {
        let (mut piece, mut heard) = ([0; 4_096], from);
        let ended = loop {
            match stream.read(&mut piece) {
                Ok(0) => break Ok(()),
                Ok(len) => {
                    let is_right = (heard..).zip(&piece[..len]).all(|(at, it)| octet(at) == *it);
                    self.wrong.fetch_or(!is_right, Ordering::Relaxed);
                    self.moved.fetch_add(len as u64, Ordering::Relaxed);
                    heard += len;
                }
                Err(error) => break Err(error.kind()),
            }
        };
        self.ends.lock().unwrap()[side] = Some((heard, ended));
        ended.is_ok()
    }

    fn fail(&self, side: usize, error: &io::Error) {
        self.ends.lock().unwrap()[side].get_or_insert((0, Err(error.kind())));
    }

    fn is_over(&self) -> bool {
        self.ends.lock().unwrap().iter().all(Option::is_some)
    }

    /// Whether the client's end is over.
    fn has_left(&self) -> bool {
        self.ends.lock().unwrap()[0].is_some()
    }
}

/// What nobody compresses.
fn octet(at: usize) -> u8 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56).to_le_bytes()[0]
}

fn much() -> Vec<u8> {
    (0..MUCH).map(octet).collect()
}

/// What a client does, and the server with it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    /// The server says much and ends; the client reads to the end.
    Download,
    /// The client never reads, and the server says much.
    Deaf,
    /// The client says much and ends its direction; the server reads to the end, and then answers with
    /// 4 octets.
    Upload,
}

const KINDS: [Kind; 3] = [Kind::Download, Kind::Deaf, Kind::Upload];

/// One connection of a kind, both of whose programs run by themselves.
fn begin(net: &Net, kind: Kind, port: u16) -> (Arc<Known>, Vec<JoinHandle<()>>) {
    let at = format!("10.2.0.1:{port}");
    let listener = net.listen(1, &at);
    let mut client = net.dial(0, &at);
    let known = Arc::new(Known::default());
    let own = Arc::clone(&known);
    let server = thread::spawn(move || serve(&own, kind, &listener));
    let own = Arc::clone(&known);
    let client = thread::spawn(move || {
        let said = match kind {
            Kind::Upload => {
                client.write_all(&much()).and_then(|()| client.shutdown(Shutdown::Write))
            }
            Kind::Download | Kind::Deaf => client.write_all(b"much"),
        };
        if let Err(error) = said {
            return own.fail(0, &error);
        }
        if kind == Kind::Deaf {
            // It is told by the next thing that it does.
            client.set_read_timeout(Some(2 * PATIENCE)).unwrap();
            let is_broken = || matches!(client.take_error(), Ok(Some(_)) | Err(_));
            wait_until(2 * PATIENCE, || {
                is_broken() || own.ends.lock().unwrap()[1].is_some_and(|it| it.1.is_ok())
            });
            own.ends.lock().unwrap()[0] = Some((0, Err(ErrorKind::ConnectionReset)));
            return;
        }
        own.hear(&mut client, 0, 0);
    });
    (known, vec![server, client])
}

fn serve(known: &Known, kind: Kind, listener: &TcpListener) {
    let mut taken = None;
    listener.set_nonblocking(true).unwrap();
    // A client that is gone need not have been heard of here.
    wait_until(2 * PATIENCE, || {
        taken = listener.accept().ok();
        taken.is_some() || known.has_left()
    });
    let Some((mut server, _)) = taken else {
        return known.fail(1, &ErrorKind::NotConnected.into());
    };
    server.set_nonblocking(false).unwrap();
    known.accepted.fetch_add(1, Ordering::Relaxed);
    server.set_read_timeout(Some(2 * PATIENCE)).unwrap();
    server.set_write_timeout(Some(2 * PATIENCE)).unwrap();
    match kind {
        Kind::Upload => {
            if known.hear(&mut server, 1, 0) {
                // The client reads as many octets as fit the pattern.
                let _ = server.write_all(&much()[..4]);
            }
        }
        Kind::Download | Kind::Deaf => {
            let outcome = server.read_exact(&mut [0; 4]).and_then(|()| server.write_all(&much()));
            match outcome {
                Ok(()) => known.ends.lock().unwrap()[1] = Some((4, Ok(()))),
                Err(error) => known.fail(1, &error),
            }
        }
    }
    // A second connection would be the same request, taken twice.
    if listener.accept().is_ok() {
        known.accepted.fetch_add(1, Ordering::Relaxed);
    }
}

/// A program of a trial that can be killed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Victim {
    Gateway(usize),
    /// Both nodes, which run in one program.
    Nodes,
}

/// Numbers that look random, the same in each run.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// `TRACKWAY_KILLS=200` kills as often, `TRACKWAY_SEED` at other moments. The nodes transmit for 2 s at most, because
/// nobody hears anything during a transmission of their own; `TRACKWAY_NODES=" "` leaves that to the nodes. Only with
/// `TRACKWAY_KILLS` and turns that short are waits held to their limit: other tests occupy the machine.
#[test]
#[ignore = "needs root: run by ./test"]
fn whatever_is_killed_nothing_ends_early_comes_twice_or_waits() {
    let set = |name: &str, otherwise: u64| {
        std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(otherwise)
    };
    let options = std::env::var("TRACKWAY_NODES");
    let is_measured = std::env::var_os("TRACKWAY_KILLS").is_some() && options.is_err();
    let kills = set("TRACKWAY_KILLS", 3);
    let nodes = format!("{FAST} {}", options.as_deref().unwrap_or("--longest 2s"));
    let mut net = Net::with_peps(&nodes, "");
    let mut seed = set("TRACKWAY_SEED", 7);
    let mut waits = BTreeMap::<Victim, Vec<Duration>>::new();
    let (mut whole, mut broken, mut late) = (0, 0, Vec::new());

    for kill in 0..kills {
        let mut all = Vec::new();
        for (number, kind) in (0_u16..).zip(KINDS) {
            let port = 10_000 + u16::try_from(kill % 10_000).unwrap() * 4 + number;
            all.push((kind, begin(&net, kind, port)));
        }
        let after = Duration::from_millis(random(&mut seed) % 6_000);
        thread::sleep(after);
        let host = usize::from(random(&mut seed) % 2 == 1);
        let victim = match random(&mut seed) % 4 {
            0 => Victim::Nodes,
            _ => Victim::Gateway(host),
        };
        let case = format!("kill {kill} of {victim:?} after {after:?}");
        let began = match victim {
            Victim::Gateway(host) => {
                net.gateway(host).signal(Signal::SIGKILL);
                net.gateway(host).finish(SOON);
                net.start_gateway(host, &pep(host));
                Instant::now()
            }
            Victim::Nodes => {
                net.radio().signal(Signal::SIGKILL);
                net.radio().finish(SOON);
                net.start_radio(&nodes);
                Instant::now()
            }
        };
        let moved = |known: &Known| known.moved.load(Ordering::Relaxed);
        let before: Vec<u64> = all.iter().map(|(_, (known, _))| moved(known)).collect();
        // Each ends, or goes on: a client that does not read may wait for as long as it likes, unless
        // its connection is gone.
        for ((kind, (known, _)), before) in all.iter().zip(before) {
            let goes_on = || {
                known.is_over()
                    || moved(known) > before
                    || *kind == Kind::Deaf && victim == Victim::Nodes
            };
            assert!(wait_until(3 * SOON, goes_on), "{case}: {kind:?} hangs: {known:?}");
            let waited = began.elapsed();
            waits.entry(victim).or_default().push(waited);
            if waited >= WAITS + BESIDE_OTHERS {
                late.push(format!("{case}: {kind:?} waits {waited:?}"));
            }
        }
        if victim == Victim::Nodes {
            for (kind, (known, _)) in all.iter().filter(|(kind, _)| *kind != Kind::Deaf) {
                assert!(wait_until(2 * SOON, || known.is_over()), "{case}: {kind:?}: {known:?}");
            }
            // Who does not read would be there for ever.
            net.gateway(0).stop();
            net.start_gateway(0, &pep(0));
        }
        for (kind, (known, programs)) in all {
            for program in programs {
                program.join().unwrap();
            }
            let case = format!("{case}: {kind:?}: {known:?}");
            assert!(!known.wrong.load(Ordering::Relaxed), "{case}: other octets");
            assert!(known.accepted.load(Ordering::Relaxed) <= 1, "{case}: twice");
            let [client, server] = known.ends.lock().unwrap().map(Option::unwrap);
            let is_whole = match kind {
                Kind::Upload => {
                    assert!(server.1.is_err() || server.0 == MUCH, "{case}: cut short");
                    assert!(client.1.is_err() || client.0 == 4, "{case}: cut short");
                    assert!(client.1.is_err() || server.0 == MUCH, "{case}: a false end");
                    client.1.is_ok()
                }
                Kind::Download => {
                    assert!(client.1.is_err() || client.0 == MUCH, "{case}: cut short");
                    client.1.is_ok()
                }
                Kind::Deaf => false,
            };
            whole += u32::from(is_whole);
            broken += u32::from(!is_whole);
        }
        for host in [0, 1] {
            net.expect_state(host, "hfpep", "bound");
        }
    }
    println!("{kills} kills: {whole} connections whole, {broken} reset");
    for (victim, waits) in &mut waits {
        waits.sort_unstable();
        let [half, most, last] =
            [50, 90, 100].map(|share| waits[(waits.len() * share / 100).max(1) - 1]);
        let above = waits.iter().filter(|wait| **wait > WAITS).count();
        println!(
            "{victim:?}: {} waits, half below {half:.1?}, 90 % below {most:.1?}, all below {last:.1?}; {above} above {WAITS:?}",
            waits.len()
        );
    }
    assert!(
        late.is_empty() || !is_measured,
        "{} of {} waits are too long: {late:#?}",
        late.len(),
        kills * 3
    );
}

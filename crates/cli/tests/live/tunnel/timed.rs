//! Measures what needs the machine for itself.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ::gateway::keys::{self, System};
use ::gateway::sys::port::{OFFLOAD, Port};
use base::ethernet::{self, Mac};
use base::ip::udp::Datagram;
use base::time::Time;
use tunnel::secure::{HEADER, Incoming, PeerId, Peers, PrivateKey, PublicKey, TAG};

use super::{Net, SOON, caller};
use crate::namespaces::wait_until;

/// Calls a second. A gateway that was built without optimisation is too slow for more beside other programs.
const RATE: u32 = if cfg!(debug_assertions) { 10_000 } else { 40_000 };
/// Addresses that they are said to come from.
const SOURCES: u32 = 10_000;
/// Sessions begun beside them, one after the other.
const SESSIONS: u32 = 5;
/// The longest that a session may take, in the median.
const MOST: Duration = Duration::from_secs(1);
const GATEWAY: &str = "10.9.1.1:51900";

/// How long a peer that starts anew waits for its session.
fn session(socket: &UdpSocket, key: &PrivateKey, of: PublicKey, seed: u32) -> Duration {
    let began = Instant::now();
    let mut peers = caller(key, of, GATEWAY, seed);
    let mut datagram = [0; 2_048];
    loop {
        let now = Time::ZERO + began.elapsed();
        peers.handle_timeout(now);
        while let Some(said) = peers.poll_transmit(now) {
            let _ = socket.send_to(&said.datagram, said.to);
        }
        if let Ok((len, from)) = socket.recv_from(&mut datagram) {
            let now = Time::ZERO + began.elapsed();
            peers.handle_datagram(now, from, &mut datagram[..len]);
        }
        if peers.has_session(Time::ZERO + began.elapsed(), PeerId::new(0).unwrap()) {
            return began.elapsed();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "no session at all");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn in_real_time_forged_calls_delay_a_session_by_less_than_a_second() {
    let mut net = Net::pair("");
    let attacker = net.nets.add("attacker");
    net.nets.cable((&attacker, "evil0"), (&net.nodes[0], "evil1"));
    net.nets.address(&attacker, "evil0", "10.8.0.2/16");
    net.nets.address(&net.nodes[0], "evil1", "10.8.0.1/16");
    // Answers to the forged addresses go to the attacker, which drops them.
    net.run(0, "ip route add 10.66.0.0/16 via 10.8.0.2");
    net.start(0);
    let of: PublicKey = net.keys[0].parse().unwrap();
    let mac: Mac = net.run(0, "cat /sys/class/net/evil1/address").trim().parse().unwrap();
    // A call that knows the gateway's public key, from everywhere.
    let stranger = PrivateKey::generate(&mut System).unwrap();
    let call = caller(&stranger, of, GATEWAY, 0).poll_transmit(Time::ZERO).unwrap().datagram;
    let frames: Vec<Vec<u8>> = (0..SOURCES)
        .map(|number| {
            let [_, _, high, low] = number.to_be_bytes();
            let source = SocketAddr::from(([10, 66, high, low], 51_900));
            let destination = SocketAddr::from(([10, 9, 1, 1], 51_900));
            let mut packet = Vec::new();
            Datagram { source, destination, payload: &call }.emit(&mut packet);
            let header = ethernet::header(mac, Mac([2, 0, 0, 0, 0, 9]), &packet);
            [&[0; OFFLOAD][..], &header[..], &packet].concat()
        })
        .collect();
    let port = net.nets.within(&attacker, || Port::open("evil0").unwrap());
    let key: PrivateKey = keys::read(&net.nets.folder().join("1.key")).unwrap();
    let socket = net.nets.within(&net.nodes[1], || UdpSocket::bind("10.9.1.2:51900").unwrap());
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();

    let alone = session(&socket, &key, of, 1);
    let (is_over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    let mut waited: Vec<_> = thread::scope(|scope| {
        scope.spawn(|| {
            let mut frames = frames.iter().cycle();
            let mut due = 0;
            while !is_over.load(Ordering::Relaxed) {
                let until = began.elapsed().as_micros() * u128::from(RATE) / 1_000_000;
                while due < until && !is_over.load(Ordering::Relaxed) {
                    due += 1;
                    sent.fetch_add(
                        port.send(frames.next().unwrap()).is_ok().into(),
                        Ordering::Relaxed,
                    );
                }
                thread::sleep(Duration::from_micros(500));
            }
        });
        thread::sleep(Duration::from_secs(1));
        let waited = (2..2 + SESSIONS).map(|seed| session(&socket, &key, of, seed)).collect();
        is_over.store(true, Ordering::Relaxed);
        waited
    });
    let sent = sent.into_inner();
    let rate = sent as f64 / began.elapsed().as_secs_f64();

    let status = net.status(0);
    let cookies = status["secure_cookies"].as_u64().unwrap_or_default();
    let dropped = drops(&net.run(0, "cat /proc/net/udp")) as f64 / sent as f64;
    println!(
        "a session alone after {alone:?}; beside {rate:.0} calls a second, of which the kernel dropped {:.0} %, after \
         {waited:?}; {cookies} cookies",
        100.0 * dropped
    );
    assert!(
        rate > f64::from(RATE) * 0.9,
        "this machine is too slow to attack: {rate:.0} calls a second"
    );
    assert!(cookies > 1_000, "{status}");
    waited.sort();
    // A gateway that is too slow for all calls, beside other programs, loses some of a peer's too, which are sent again
    // a second later. The next one comes at once, as most do.
    let median = waited[waited.len() / 2];
    assert!(median < MOST + alone, "{waited:?}");
}

/// Datagrams that the kernel dropped because no socket had room, by its table of sockets.
fn drops(table: &str) -> u64 {
    let columns = table.lines().skip(1).filter_map(|line| line.split_whitespace().last());
    columns.map(|drops| drops.parse::<u64>().unwrap()).sum()
}

/// Datagrams of a hostile peer a second. A gateway that was built without optimisation takes ten times as long for each.
const HOSTILE: u32 = if cfg!(debug_assertions) { 1_000 } else { 10_000 };
/// How much longer 99 of 100 pings of an honest peer may take than without the hostile one, in milliseconds.
const PING_WITHIN: f64 = if cfg!(debug_assertions) { 100.0 } else { 20.0 };
/// The part of its goodput that an honest peer keeps.
const GOODPUT_LEFT: f64 = if cfg!(debug_assertions) { 0.7 } else { 0.9 };
/// Octets of an honest peer's transfer.
const TRANSFER: usize = 6_000_000;
const PINGS: usize = 300;

/// What an authenticated peer sends to make work.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// Repairs over 1,024 missing sources, with a floor that advances.
    Repairs,
    /// A source far ahead, then demands for reports about all that are missing before it.
    Demands,
    /// Sources full of packets whose headers are compressed to an octet.
    Packets,
    /// Long pings, and reports that of all what the gateway answers nothing came but its datagrams did, at once.
    Lies,
}

/// A peer that knows its keys. Its datagrams are written by hand: docs/protocols/nc.md.
struct Hostile {
    socket: UdpSocket,
    peers: Peers,
    began: Instant,
    number: u64,
    source: u32,
    /// The number of the gateway's newest datagram.
    heard: u32,
}

impl Hostile {
    /// The peer with the key of `node`, at the socket.
    fn new(net: &Net, node: usize, socket: UdpSocket, at: &str) -> Self {
        let key: PrivateKey = keys::read(&net.nets.folder().join(format!("{node}.key"))).unwrap();
        socket.set_nonblocking(true).unwrap();
        let peers = caller(&key, net.keys[0].parse().unwrap(), at, 7);
        Self { socket, peers, began: Instant::now(), number: 0, source: 0, heard: 0 }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    /// Keeps the session, and takes what the gateway sends; whether there is a session.
    fn is_up(&mut self) -> bool {
        let now = self.now();
        self.peers.handle_timeout(now);
        let mut datagram = [0; 2_048];
        while let Ok((len, from)) = self.socket.recv_from(&mut datagram) {
            let came = self.peers.handle_datagram(now, from, &mut datagram[..len]);
            if let Incoming::Payload { number, .. } = came {
                self.heard = self.heard.max(u32::try_from(number).unwrap());
            }
        }
        while self.peers.poll_event().is_some() {}
        while let Some(said) = self.peers.poll_transmit(now) {
            let _ = self.socket.send_to(&said.datagram, said.to);
        }
        self.peers.has_session(now, PeerId::new(0).unwrap())
    }

    fn send(&mut self, payload: &[u8]) {
        let mut datagram = [&[0; HEADER][..], payload, &[0; TAG]].concat();
        let now = self.now();
        if let Ok(to) = self.peers.seal(now, PeerId::new(0).unwrap(), self.number, &mut datagram) {
            let _ = self.socket.send_to(&datagram, to);
        }
        self.number += 1;
    }

    /// The next datagram of an attack.
    fn act(&mut self, attack: Attack) {
        let turn = self.number;
        match attack {
            Attack::Repairs => {
                self.source += 1;
                let first = &self.source.to_be_bytes()[1..];
                let symbol: Vec<_> = (0..60).map(|octet| octet ^ first[2]).collect();
                self.send(&[&[0x12], first, first, &1_024_u16.to_be_bytes(), &symbol].concat());
            }
            Attack::Demands if turn.is_multiple_of(1_000) => {
                self.source += 9_000;
                self.send(&[&[0x01], &self.source.to_be_bytes()[1..], &[0; 20][..]].concat());
            }
            Attack::Demands => self.send(&[0x20]),
            Attack::Packets => {
                self.source += 1;
                let mut payload = [&[0x01], &self.source.to_be_bytes()[1..]].concat();
                if turn.is_multiple_of(100) {
                    payload.extend_from_slice(&[0xc0, 20, 0, 5]);
                    payload.extend_from_slice(&BARE_PACKET);
                }
                while payload.len() < 1_300 {
                    payload.extend_from_slice(&[0x80, 1, 0, 5, 0]);
                }
                self.send(&payload);
            }
            Attack::Lies if turn.is_multiple_of(10) => {
                self.source += 1;
                let record = [&[0x04, 28, 0, 0][..], &PING, &[0; 1_024]].concat();
                self.send(&[&[0x01], &self.source.to_be_bytes()[1..], &record].concat());
            }
            Attack::Lies => {
                // A datagram a microsecond, and 60,000 sources that are missing.
                let newest = self.heard.to_be_bytes();
                let received = (self.heard + 1).to_be_bytes();
                let missing = 60_000_u16.to_be_bytes();
                let before = [&[0x08][..], &newest, &newest, &[0, 0], &received, &[0; 9]].concat();
                self.send(&[&before[..], &missing, &[0; 3]].concat());
            }
        }
    }

    /// Attacks until it is over; returns how many datagrams were sent.
    fn attack(&mut self, attack: Attack, is_over: &AtomicBool) -> u64 {
        let (began, mut sent) = (Instant::now(), 0);
        while !is_over.load(Ordering::Relaxed) {
            let due = began.elapsed().as_micros() * u128::from(HOSTILE) / 1_000_000;
            while u128::from(sent) < due {
                self.act(attack);
                sent += 1;
            }
            self.is_up();
            thread::sleep(Duration::from_micros(500));
        }
        sent
    }
}

/// An IPv4 header of a protocol that nobody has, from the inner address of gateway 2 to that of gateway 0.
const BARE_PACKET: [u8; 20] =
    [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0x65, 0x50, 10, 77, 0, 3, 10, 77, 0, 1];

/// The headers of a ping of 1,024 octets between the same two.
const PING: [u8; 28] = [
    0x45, 0, 4, 28, 0, 0, 0, 0, 64, 1, 0x62, 0x44, 10, 77, 0, 3, 10, 77, 0, 1, //
    8, 0, 0xf7, 0xff, 0, 0, 0, 0,
];

/// The times of the pings of the honest peer, in milliseconds, the shortest first; an unanswered one takes forever.
fn pings(net: &Net) -> Vec<f64> {
    let said = net.try_run(1, &format!("ping -i 0.02 -c {PINGS} -W 60 10.77.0.1"));
    let time = |line: &str| line.split_once("time=")?.1.split(' ').next()?.parse::<f64>().ok();
    let mut times: Vec<_> = said.lines().filter_map(time).collect();
    times.resize(PINGS, f64::INFINITY);
    times.sort_by(f64::total_cmp);
    times
}

/// The time within which 99 of 100 pings are answered.
fn p99(times: &[f64]) -> f64 {
    times[times.len() * 99 / 100]
}

/// Octets a second of a transfer from gateway 0 to the honest peer.
fn goodput(net: &Net) -> f64 {
    let began = Instant::now();
    net.transfer(0, 1, TRANSFER).finish(Duration::from_secs(120));
    TRANSFER as f64 / began.elapsed().as_secs_f64()
}

#[test]
#[ignore = "needs root: run by ./test"]
fn an_authenticated_peer_that_makes_work_delays_nobody_else() {
    let mut net = Net::star(2, "--rate 20mbit --delay 2ms");
    let attacker = net.nets.add("attacker");
    net.nets.cable((&attacker, "evil0"), (&net.nodes[0], "evil1"));
    net.nets.address(&attacker, "evil0", "10.8.0.2/24");
    net.nets.address(&net.nodes[0], "evil1", "10.8.0.1/24");
    net.start(0);
    net.start(1);
    net.expect_ping(1, "10.77.0.1");
    let socket = net.nets.within(&attacker, || UdpSocket::bind("10.8.0.2:51900").unwrap());
    let mut hostile = Hostile::new(&net, 2, socket, "10.8.0.1:51900");
    let is_up = wait_until(SOON, || hostile.is_up());
    assert!(is_up, "{}", net.status(0));
    goodput(&net);
    let alone = (p99(&pings(&net)), goodput(&net));

    let mut seen = Vec::new();
    for attack in [Attack::Repairs, Attack::Demands, Attack::Packets, Attack::Lies] {
        let is_over = AtomicBool::new(false);
        let (sent, times, beside) = thread::scope(|scope| {
            let attack = scope.spawn(|| hostile.attack(attack, &is_over));
            thread::sleep(Duration::from_secs(1));
            let times = pings(&net);
            let beside = goodput(&net);
            is_over.store(true, Ordering::Relaxed);
            (attack.join().unwrap(), times, beside)
        });
        println!(
            "{attack:?} ({sent} sent): pings p50 {:.2} ms, p99 {:.2} ms (alone {:.2} ms); goodput {:.2} of {:.2} \
             Mbit/s alone",
            times[times.len() / 2],
            p99(&times),
            alone.0,
            beside * 8e-6,
            alone.1 * 8e-6
        );
        seen.push((attack, p99(&times), beside / alone.1));
    }

    let status = net.status(0);
    let count = |name: &str| status["tunnels"][1][name].as_u64().unwrap();
    for name in
        ["repairs_over_budget", "reports_deferred", "packets_over_budget", "equations_deferred"]
    {
        println!("{name}: {}", count(name));
    }
    assert!(count("repairs_useful") > 500, "no attack by repairs: {status}");
    assert!(count("packets_over_budget") > 10_000, "no attack by packets: {status}");
    for (attack, p99, left) in seen {
        assert!(p99 < PING_WITHIN + alone.0, "{p99} ms beside {attack:?}");
        assert!(left > GOODPUT_LEFT, "{left} of the goodput beside {attack:?}");
    }
}

//! A peer that has its key, and does all it can to fill the log of the gateway that it calls.

use std::net::UdpSocket;
use std::time::{Duration, Instant, SystemTime};

use ::gateway::keys::{self, System};
use base::rng::Rng;
use base::time::Time;
use nix::sys::signal::Signal;
use tunnel::secure::{self, HEADER, Incoming, Peers, PresharedKey, PrivateKey, TAG};
use tunnel::{Config, PathId, Tunnel};

use super::Net;
use crate::logs::{Kind, expect_bounded};

/// Ports that it sends from, one after the other.
const PORTS: usize = 64;
/// How long it is noisy.
const NOISY: Duration = Duration::from_secs(45);
/// How long it is itself, and then somebody with another preshared key.
const TURN: Duration = Duration::from_millis(1_000);
/// Between two moves.
const MOVE: Duration = Duration::from_millis(300);
/// What another program might have.
const PRESHARED: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// The hostile peer: one life after the other, at one port after the other.
struct Noisy {
    key: PrivateKey,
    gateway: secure::PublicKey,
    sockets: Vec<UdpSocket>,
    began: Instant,
    lives: u64,
    peers: Peers,
    core: Option<Tunnel>,
    at: usize,
}

impl Noisy {
    fn new(net: &Net) -> Self {
        let key: PrivateKey = keys::read(&net.nets.folder().join("1.key")).unwrap();
        let gateway = net.keys[0].parse().unwrap();
        let sockets = net.nets.within(&net.nodes[1], || {
            let open = |port: usize| {
                let port = 40_000 + u16::try_from(port).unwrap();
                let socket = UdpSocket::bind(("10.9.1.2", port)).unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            };
            (0..PORTS).map(open).collect()
        });
        let began = Instant::now();
        let peers = life(&key, gateway, began, 0);
        Self { key, gateway, sockets, began, lives: 0, peers, core: None, at: 0 }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    /// Begins another life; every other one is of somebody with another preshared key.
    fn begin_life(&mut self) {
        self.lives += 1;
        self.peers = life(&self.key, self.gateway, self.began, self.lives);
        self.core = None;
    }

    /// Hears and says all that there is.
    fn turn(&mut self) {
        let now = self.now();
        let mut datagram = [0; 2_048];
        for socket in &self.sockets {
            while let Ok((len, from)) = socket.recv_from(&mut datagram) {
                let incoming = self.peers.handle_datagram(now, from, &mut datagram[..len]);
                if let (Incoming::Payload { number, payload, .. }, Some(core)) =
                    (incoming, &mut self.core)
                {
                    core.handle_datagram(now, number, false, &datagram[payload]);
                }
            }
        }
        self.peers.handle_timeout(now);
        while let Some(event) = self.peers.poll_event() {
            if let secure::Event::Established { is_new: true, .. } = event {
                let rng = Rng::stream(self.lives, "noisy");
                self.core = Some(Tunnel::new(now, Config::default(), rng));
            }
        }
        while let Some(said) = self.peers.poll_transmit(now) {
            let _ = self.sockets[self.at].send_to(&said.datagram, said.to);
        }
        let Some(core) = &mut self.core else { return };
        core.handle_timeout(now);
        while core.poll_event().is_some() {}
        let mut payload = Vec::new();
        while core.poll_packet(now, &mut payload) {}
        while let Some(transmit) = core.poll_transmit(now, PathId::FIRST, &mut payload) {
            let mut datagram = [&[0; HEADER][..], &payload, &[0; TAG]].concat();
            let peer = secure::PeerId::new(0).unwrap();
            if let Ok(to) = self.peers.seal(now, peer, transmit.number, &mut datagram) {
                let _ = self.sockets[self.at].send_to(&datagram, to);
            }
        }
    }
}

/// One life of the peer.
fn life(key: &PrivateKey, gateway: secure::PublicKey, began: Instant, number: u64) -> Peers {
    let preshared = |text: &str| text.parse::<PresharedKey>().unwrap();
    let peer = secure::Peer {
        public_key: gateway,
        previous_key: None,
        preshared_key: (number % 2 == 1).then(|| preshared(PRESHARED)),
        endpoint: Some("10.9.1.1:51900".parse().unwrap()),
        keepalive: None,
    };
    let unix = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let rng = Rng::stream(number, "life");
    let now = Time::ZERO + began.elapsed();
    Peers::new(now, unix, key, &[peer], rng, Box::new(System)).unwrap()
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_peer_that_does_all_it_can_writes_a_line_of_a_kind_a_minute() {
    let mut net = Net::pair("");
    // It calls from anywhere.
    net.edit(0, "endpoint = \"10.9.1.2:51900\"\n", "");
    net.start(0);
    let mut noisy = Noisy::new(&net);
    // Something to answer, at any time.
    let name = net.nodes[0].clone();
    let pings = net.nets.start(&name, "ping -i 0.02 -O 10.77.0.2", "PING");

    let mut moved_at = Instant::now();
    let mut lived_at = Instant::now();
    while noisy.began.elapsed() < NOISY {
        noisy.turn();
        if lived_at.elapsed() >= TURN {
            lived_at = Instant::now();
            noisy.begin_life();
        }
        if moved_at.elapsed() >= MOVE {
            moved_at = Instant::now();
            noisy.at = (noisy.at + 1) % PORTS;
        }
        std::thread::sleep(Duration::from_millis(1));
    }

    net.nets.program(pings).signal(Signal::SIGKILL);
    let status = net.status(0);
    let handshakes = &status["tunnels"][0]["handshakes"];
    println!("{} lives, {handshakes}", noisy.lives);
    let moves = handshakes["moves"].as_u64().unwrap();
    assert!(moves > 20, "{status}");
    let (_, printed) = net.gateway(0).stop();
    expect_bounded(
        &printed,
        NOISY,
        &[
            Kind { lines: &["peer is up"], most: 1 },
            Kind { lines: &["peer has moved"], most: 1 },
            Kind { lines: &["greatest packet"], most: 10 },
            Kind { lines: &["peer answers what cannot be read"], most: 1 },
        ],
    );
}

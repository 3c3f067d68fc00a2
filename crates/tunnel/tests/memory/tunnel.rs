//! An authenticated peer of the coded tunnel.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use base::entropy::Seeded;
use base::rng::Rng;
use base::time::Time;
use harness::memory::{MIB, assert_within, begin, most_resident};
use tunnel::secure::{OVERHEAD, Peer, PeerId, Peers, PrivateKey};
use tunnel::{Config, PathId, Tunnel};

/// docs/protocols/nc.md, "Memory of a peer".
const RECEIVER: usize = 32 * MIB;
const SENDER: usize = 13 * MIB;
const QUEUE: usize = 9 * MIB;
/// docs/guide/tunnel.md, "Memory".
const KEYS: usize = 16 << 10;

/// A peer that knows the keys, and one end of its tunnel.
struct Hostile {
    tunnel: Tunnel,
    now: Time,
    number: u64,
}

impl Hostile {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let now = Time::ZERO + Duration::from_secs(1);
        Self { tunnel: Tunnel::new(now, config, Rng::stream(1, "hostile")), now, number: 0 }
    }

    /// The answer to a probe with a payload of so many octets.
    fn reply(&mut self, payload: usize) {
        let [high, low] =
            u16::try_from(payload).expect("no longer than a path takes").to_be_bytes();
        self.say(&[4, high, low]);
    }

    fn say(&mut self, payload: &[u8]) {
        self.tunnel.handle_datagram(self.now, self.number, false, payload);
        self.number += 1;
    }

    /// A source of records of `len` octets that wait for source 0.
    fn source(&mut self, number: u32, len: u16, octets: usize) {
        let mut payload = vec![1];
        payload.extend_from_slice(&number.to_be_bytes()[1..]);
        let wait = u16::try_from(number).expect("few records");
        while payload.len() + 4 + usize::from(len) <= octets {
            payload.extend_from_slice(&len.to_be_bytes());
            payload.extend_from_slice(&wait.to_be_bytes());
            payload.resize(payload.len() + usize::from(len), 7);
        }
        self.say(&payload);
    }

    /// A repair over sources from `first` on.
    fn repair(&mut self, first: u32, count: u16, octets: usize) {
        let mut payload = vec![2];
        payload.extend_from_slice(&first.to_be_bytes()[1..]);
        payload.extend_from_slice(&count.to_be_bytes());
        payload.resize(octets, 7);
        self.say(&payload);
    }

    /// The driver takes what is released.
    fn drain(&mut self) -> usize {
        let (mut packet, mut count) = (Vec::new(), 0);
        while self.tunnel.poll_packet(self.now, &mut packet) {
            count += 1;
        }
        count
    }

    /// A report that everything came, and that no source did.
    fn report(&mut self, sent: u64) {
        let low = u32::try_from(sent - 1).expect("few datagrams").to_be_bytes();
        let micros = u32::try_from(self.now.as_nanos() / 1_000).expect("short").to_be_bytes();
        let mut payload = vec![8];
        payload.extend_from_slice(&low);
        payload.extend_from_slice(&micros);
        payload.extend_from_slice(&[0; 2]);
        payload.extend_from_slice(&u32::try_from(sent).expect("few datagrams").to_be_bytes());
        payload.extend_from_slice(&[0; 4]);
        payload.extend_from_slice(&[0; 3 + 2 + 2 + 2 + 1]);
        self.say(&payload);
    }
}

/// Octets of the longest payload of UDP, and of the longest that a path takes.
const UDP: usize = 65_000;
const JUMBO: usize = 9_150;

#[test]
fn sources_and_repairs_that_no_path_takes_are_refused() {
    let most =
        most_resident("tunnel::sources_and_repairs_that_no_path_takes_are_refused", &[()], |()| {
            let mut peer = Hostile::new();
            for number in 1..1_000 {
                peer.source(number, 1_000, UDP);
                peer.repair(0, 1_000, UDP);
            }
            assert_eq!(peer.tunnel.stats().received.symbols_too_long, 2 * 999);
        });

    assert!(most.is_none_or(|most| most < MIB), "{most:?}");
}

#[test]
fn a_receiver_keeps_no_more_than_is_said() {
    let cases = [(1, JUMBO), (1, 1_400), (40, 1_400), (1_390, 1_400), (9_000, JUMBO)];
    let most =
        most_resident("tunnel::a_receiver_keeps_no_more_than_is_said", &cases, |&(len, octets)| {
            let mut peer = Hostile::new();
            // Repairs over more sources that do not come than there may be equations, then sources that wait for the
            // first, which does not come until they are released at once.
            let repairs = if len == 40 { 512 } else { 0 };
            for _ in 0..repairs {
                peer.repair(7_680, 1_024, octets);
            }
            for number in 1..8_000 {
                peer.source(number, len, octets);
                if peer.tunnel.stats().received.sources_given_up > 0 {
                    break;
                }
                assert_eq!(peer.drain(), 0);
            }
            peer.source(0, len, octets);
            let released = peer.drain();
            assert!(released > 1_000, "{released}");
        });

    assert_within("a receiver", most, RECEIVER);
}

#[test]
fn a_sender_keeps_no_more_than_is_said() {
    let most =
        most_resident("tunnel::a_sender_keeps_no_more_than_is_said", &[1_500, 9_000], |mtu| {
            fill_a_sender(*mtu);
        });

    assert_within("a sender and its queue", most, SENDER + QUEUE);
}

/// Gives a sender more than its path takes, and acknowledges nothing.
fn fill_a_sender(max_mtu: usize) {
    let config = Config { max_mtu, ..Config::default() };
    let mut peer = Hostile::with(config);
    let packet = packet();
    let (mut payload, mut sent) = (Vec::new(), 0);
    while let Some(transmit) = peer.tunnel.poll_transmit(peer.now, PathId::FIRST, &mut payload) {
        sent += 1;
        if transmit.is_probe {
            peer.reply(payload.len());
        }
    }
    assert_eq!(peer.tunnel.estimates().path_mtu, max_mtu);
    // What was sent when, a round trip of 20 ms ago.
    let mut before = VecDeque::from([0; 20]);
    for _ in 0..3_000 {
        peer.now += Duration::from_millis(1);
        for _ in 0..8 {
            let _ = peer.tunnel.handle_packet(peer.now, &packet);
        }
        peer.tunnel.handle_timeout(peer.now);
        while peer.tunnel.poll_transmit(peer.now, PathId::FIRST, &mut payload).is_some() {
            sent += 1;
        }
        before.push_back(sent);
        if let Some(sent) = before.pop_front().filter(|sent| *sent > 0) {
            peer.report(sent);
        }
    }
}

#[test]
fn a_queue_keeps_no_more_than_is_said() {
    let most = most_resident("tunnel::a_queue_keeps_no_more_than_is_said", &[()], |()| {
        let mut peer = Hostile::new();
        let packet = packet();
        for _ in 0..20_000 {
            let _ = peer.tunnel.handle_packet(peer.now, &packet);
        }
    });

    assert_within("a queue", most, QUEUE);
}

/// IPv6 of 1 200 octets.
fn packet() -> Vec<u8> {
    let mut packet = vec![0; 1_200];
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&1_160_u16.to_be_bytes());
    packet[6..8].copy_from_slice(&[17, 64]);
    packet[8] = 0xfd;
    packet[24] = 0xfd;
    packet[44..46].copy_from_slice(&1_160_u16.to_be_bytes());
    packet
}

/// Peers that call, and change their keys, as often as they may.
#[test]
fn the_keys_of_a_peer_take_no_more_than_is_said() {
    let most = most_resident("tunnel::the_keys_of_a_peer_take_no_more_than_is_said", &[()], |()| {
        change_keys();
    });

    // With what the other ends take, which are in the same process.
    assert_within("the keys of a peer", most.map(|most| most / PEERS), KEYS);
}

const PEERS: usize = 128;

fn change_keys() {
    let mut entropy = Seeded(Rng::stream(1, "keys"));
    let own = PrivateKey::generate(&mut entropy).expect("a key");
    let keys: Vec<_> =
        (0..PEERS).map(|_| PrivateKey::generate(&mut entropy).expect("a key")).collect();
    let configured = |key: &PrivateKey, endpoint| Peer {
        public_key: key.public_key(),
        preshared_key: None,
        previous_key: None,
        endpoint,
        keepalive: None,
    };
    let addresses = |at: usize| {
        SocketAddr::from(([192, 0, 2, 1], u16::try_from(1_000 + at).expect("few peers")))
    };
    let mut now = Time::ZERO + Duration::from_secs(1);
    let peers = |key: &PrivateKey, peers: &[Peer], seed: u64| {
        let (rng, entropy) = (Rng::stream(seed, "times"), Seeded(Rng::stream(seed, "secrets")));
        Peers::new(now, Duration::from_secs(seed), key, peers, rng, Box::new(entropy))
            .expect("keys")
    };
    let of_gateway: Vec<_> =
        keys.iter().enumerate().map(|(at, key)| configured(key, Some(addresses(at)))).collect();
    let mut calling: Vec<_> = keys
        .iter()
        .enumerate()
        .map(|(at, key)| peers(key, &[configured(&own, Some(addresses(PEERS)))], at as u64))
        .collect();
    for calling in &mut calling {
        while calling.poll_transmit(now).is_some() {}
    }

    begin();
    let mut gateway = peers(&own, &of_gateway, 99);
    while gateway.poll_transmit(now).is_some() {}
    for _ in 0..5 {
        // Not all at once, or they would be sent cookies.
        for (at, peer) in calling.iter_mut().enumerate() {
            now += Duration::from_millis(500);
            peer.handle_timeout(now);
            peer.handle_silence(now, PeerId::new(0).expect("the first"));
            while let Some(mut outgoing) = peer.poll_transmit(now) {
                let _ = gateway.handle_datagram(now, addresses(at), &mut outgoing.datagram);
                while let Some(mut outgoing) = gateway.poll_transmit(now) {
                    if outgoing.to == addresses(at) && outgoing.datagram[0] == 2 {
                        let from = addresses(PEERS);
                        let _ = peer.handle_datagram(now, from, &mut outgoing.datagram);
                    }
                }
            }
            gateway.handle_silence(now, PeerId::new(at).expect("one of them"));
            while gateway.poll_event().is_some() {}
            while peer.poll_event().is_some() {}
        }
    }
    let sessions: u64 =
        (0..PEERS).map(|at| gateway.stats(PeerId::new(at).expect("one of them")).sessions).sum();
    assert!(sessions > 2 * PEERS as u64, "{sessions}");
    let mut datagram = vec![0; OVERHEAD];
    assert!(gateway.seal(now, PeerId::new(0).expect("the first"), 1, &mut datagram).is_ok());
}

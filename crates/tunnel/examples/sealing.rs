//! How fast datagrams are sealed and opened, and calls refused, on one core of this machine.
//!
//! `cargo run --release -p trackway-tunnel --example sealing`

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base::entropy::Seeded;
use base::rng::Rng;
use base::time::Time;
use tunnel::secure::{HEADER, OVERHEAD, Opened, Peer, Peers, PrivateKey, TAG};

const PAYLOAD: usize = 1_440;
const BATCH: usize = 512;
const BATCHES: usize = 4_000;

#[expect(clippy::disallowed_methods, reason = "it measures; the core it measures reads no clock")]
fn main() -> anyhow::Result<()> {
    let mut secrets = Seeded(Rng::stream(0, "sealing"));
    let (key_a, key_b) = (PrivateKey::generate(&mut secrets)?, PrivateKey::generate(&mut secrets)?);
    let (at_a, at_b): (SocketAddr, SocketAddr) = ("192.0.2.1:1".parse()?, "192.0.2.2:1".parse()?);
    let make = |key: &PrivateKey, other: &PrivateKey, endpoint, seed| {
        let public_key = other.public_key();
        let peer =
            Peer { public_key, preshared_key: None, previous_key: None, endpoint, keepalive: None };
        let rng = Rng::stream(seed, "sealing");
        let secrets = Box::new(Seeded(Rng::stream(seed, "secrets")));
        Peers::new(Time::ZERO, Duration::from_secs(1), key, &[peer], rng, secrets)
    };

    let begun = Instant::now();
    let handshakes = 500;
    let (mut a, mut b) = (make(&key_a, &key_b, Some(at_b), 1)?, make(&key_b, &key_a, None, 2)?);
    for _ in 0..handshakes {
        a = make(&key_a, &key_b, Some(at_b), 1)?;
        b = make(&key_b, &key_a, None, 2)?;
        let mut call = a.poll_transmit(Time::ZERO).context("a step of the handshake")?.datagram;
        b.handle_datagram(Time::ZERO, at_a, &mut call);
        let mut answer = b.poll_transmit(Time::ZERO).context("a step of the handshake")?.datagram;
        a.handle_datagram(Time::ZERO, at_b, &mut answer);
        let mut keepalive =
            a.poll_transmit(Time::ZERO).context("a step of the handshake")?.datagram;
        b.handle_datagram(Time::ZERO, at_a, &mut keepalive);
    }
    let each = begun.elapsed() / handshakes;
    println!("handshake, both sides, from nothing: {each:?}");

    let peer = tunnel::secure::PeerId::new(0).context("the first peer")?;
    let mut sealer = a.sealer(peer).context("a session")?;
    let mut opener = b.opener();
    let mut datagrams = vec![vec![0x5a_u8; PAYLOAD + OVERHEAD]; BATCH];
    let (mut best_seal, mut best_open) = (Duration::MAX, Duration::MAX);
    let mut number = 0;
    // The best batch, which is shorter than a turn of the scheduler: others may use the machine.
    for _ in 0..BATCHES {
        let begun = Instant::now();
        for datagram in &mut datagrams {
            sealer.seal(Time::ZERO, number, datagram)?;
            number += 1;
        }
        best_seal = best_seal.min(begun.elapsed());
        let begun = Instant::now();
        for datagram in &mut datagrams {
            let opened = opener.open(Time::ZERO, at_a, datagram);
            assert!(matches!(black_box(opened), Opened::Payload { .. }));
        }
        best_open = best_open.min(begun.elapsed());
    }
    for (what, best) in [("seal", best_seal), ("open", best_open)] {
        let count = BATCH as f64;
        let nanos = best.as_secs_f64() * 1e9 / count;
        println!(
            "{what} {PAYLOAD} octets (+{HEADER}+{TAG}): {:.2} GB/s, {nanos:.0} ns",
            PAYLOAD as f64 / nanos
        );
    }

    let refuse = |what: &str, peers: &mut Peers, datagram: &[u8]| {
        let (begun, count) = (Instant::now(), 200_000);
        for _ in 0..count {
            let mut datagram = datagram.to_vec();
            black_box(peers.handle_datagram(Time::ZERO, at_a, &mut datagram));
            while peers.poll_transmit(Time::ZERO).is_some() {}
        }
        println!("{what}: {:.0} a second", f64::from(count) / begun.elapsed().as_secs_f64());
    };
    let stranger = PrivateKey::generate(&mut secrets)?;
    let mut stranger = make(&stranger, &key_b, Some(at_b), 3)?;
    let mut call = stranger.poll_transmit(Time::ZERO).context("a call")?.datagram;
    refuse("calls of strangers to our key, busy", &mut b, &call);
    call[140..].fill(0);
    call[50] ^= 1;
    refuse("calls with a wrong mac, refused", &mut b, &call);
    Ok(())
}

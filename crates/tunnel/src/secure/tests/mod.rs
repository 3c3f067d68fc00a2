//! Stories of gateways that talk to each other.

mod copies;
mod endpoints;
mod flood;
mod guard;
mod hostile;
mod life;
mod limits;
mod restarts;
mod rotation;
mod sessions;
mod versions;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use base::entropy::{Entropy, Seeded};
use base::rng::Rng;
use base::time::{Time, earliest};

use super::*;

/// 2026-01-01.
const UNIX: Duration = Duration::from_secs(1_767_225_600);

/// Gateways and what is on the way between them. Nothing takes time but waiting.
struct Net {
    now: Time,
    ends: Vec<End>,
    /// What was sent and has not arrived: from whom, to where.
    wire: Vec<(usize, Outgoing)>,
    /// Whether a datagram of this end, with these octets, arrives.
    passes: fn(usize, &[u8]) -> bool,
    trace: Vec<String>,
    /// Times that an end started again.
    restarts: u64,
}

struct End {
    name: &'static str,
    key: PrivateKey,
    address: SocketAddr,
    config: Vec<super::Peer>,
    peers: Peers,
    numbers: BTreeMap<PeerId, u64>,
    received: Vec<String>,
}

impl Net {
    /// Two gateways, a and b, that know each other's keys; a knows where b is.
    fn pair() -> Self {
        Self::with(|_, _| ())
    }

    /// The same, with the configurations of both changed before they start.
    fn with(change: impl Fn(&mut super::Peer, &mut super::Peer)) -> Self {
        let (key_a, key_b) = (key(1), key(2));
        let mut b_for_a = peer(&key_b, Some(address("192.0.2.2:51900")));
        let mut a_for_b = peer(&key_a, None);
        change(&mut b_for_a, &mut a_for_b);
        let now = Time::ZERO + Duration::from_secs(10);
        let ends = vec![
            End::new(now, "a", key_a, "192.0.2.1:51900", vec![b_for_a]),
            End::new(now, "b", key_b, "192.0.2.2:51900", vec![a_for_b]),
        ];
        Self { now, ends, wire: Vec::new(), passes: |_, _| true, trace: Vec::new(), restarts: 0 }
    }

    /// Lets everything arrive that is on its way, and what comes of it.
    fn settle(&mut self) {
        for _ in 0..100 {
            for end in 0..self.ends.len() {
                self.collect(end);
            }
            if self.wire.is_empty() {
                return;
            }
            for (from, outgoing) in std::mem::take(&mut self.wire) {
                if (self.passes)(from, &outgoing.datagram) {
                    self.deliver(self.ends[from].address, outgoing);
                }
            }
        }
        panic!("there is no end of it: {:?}", self.trace);
    }

    /// Takes the events and datagrams that an end has.
    fn collect(&mut self, at: usize) {
        let end = &mut self.ends[at];
        while let Some(event) = end.peers.poll_event() {
            let said = match event {
                Event::Established { is_new: true, peer, .. } => {
                    end.numbers.remove(&peer);
                    "new".to_owned()
                }
                Event::Established { is_new: false, .. } => "rekeyed".to_owned(),
                Event::EndpointChanged { endpoint, .. } => format!("moved to {endpoint}"),
                Event::Further { path, endpoint, .. } => {
                    format!("at {endpoint} on path {}", path.index())
                }
                Event::Expired { .. } => "expired".to_owned(),
                Event::Unanswered { .. } => "unanswered".to_owned(),
                Event::Stranger { key: Some(_), .. } => "unknown key".to_owned(),
                Event::Stranger { key: None, .. } => "another's call".to_owned(),
                Event::Unreadable { .. } => "unreadable call".to_owned(),
                Event::Trouble { what, .. } => format!("{what:?}"),
            };
            self.trace.push(format!("{} {said}", end.name));
        }
        while let Some(outgoing) = end.peers.poll_transmit(self.now) {
            self.wire.push((at, outgoing));
        }
        assert!(end.peers.next_timeout().is_none_or(|due| due > self.now), "a driver would spin");
    }

    fn deliver(&mut self, from: SocketAddr, mut outgoing: Outgoing) -> Option<Incoming> {
        let end = self.ends.iter_mut().find(|end| end.address == outgoing.to)?;
        let incoming = end.peers.handle_datagram(self.now, from, &mut outgoing.datagram);
        if let Incoming::Payload { payload, .. } = &incoming {
            let payload = &outgoing.datagram[payload.clone()];
            end.received.push(String::from_utf8(payload.to_vec()).unwrap());
        }
        Some(incoming)
    }

    /// Waits, and does what is due on the way.
    fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        self.settle();
        for _ in 0..10_000 {
            let due = self.ends.iter().map(|end| end.peers.next_timeout()).fold(None, earliest);
            let Some(due) = due.filter(|due| *due <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(due);
            for end in &mut self.ends {
                end.peers.handle_timeout(self.now);
            }
            self.settle();
        }
        panic!("timers without end: {:?}", self.trace);
    }

    /// Seals a text at one end.
    fn seal(&mut self, from: usize, text: &str) -> Result<Outgoing, Unsealed> {
        let end = &mut self.ends[from];
        let peer = PeerId(0);
        let mut datagram = vec![0; HEADER];
        datagram.extend_from_slice(text.as_bytes());
        datagram.resize(datagram.len() + TAG, 0);
        let number = end.numbers.entry(peer).or_insert(0);
        let to = end.peers.seal(self.now, peer, *number, &mut datagram)?;
        *number += 1;
        Ok(Outgoing { to, datagram, fresh: None })
    }

    /// Seals a text at one end and lets it arrive.
    fn send(&mut self, from: usize, text: &str) {
        let sealed = self.seal(from, text).unwrap();
        self.wire.push((from, sealed));
        self.settle();
    }

    /// Both ends hear each other.
    fn assert_connected(&mut self) {
        for end in &mut self.ends {
            end.received.clear();
        }
        self.send(0, "from a");
        self.send(1, "from b");
        assert_eq!(self.ends[1].received, ["from a"]);
        assert_eq!(self.ends[0].received, ["from b"]);
    }

    /// An end starts again, with a clock that is so far off.
    fn restart(&mut self, at: usize, unix: Duration) {
        self.restarts += 1;
        let end = &mut self.ends[at];
        let rng = Rng::stream(99, end.name);
        // Another start has other secrets.
        let secrets = seeded(99 + self.restarts, end.name);
        end.peers = Peers::new(self.now, unix, &end.key, &end.config, rng, secrets).unwrap();
        end.numbers.clear();
    }

    fn story(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trace)
    }
}

impl End {
    fn new(
        now: Time,
        name: &'static str,
        key: PrivateKey,
        at: &str,
        config: Vec<super::Peer>,
    ) -> Self {
        let rng = Rng::stream(1, name);
        let peers = Peers::new(now, UNIX, &key, &config, rng, seeded(1, name)).unwrap();
        let (numbers, received) = (BTreeMap::new(), Vec::new());
        Self { name, key, address: address(at), config, peers, numbers, received }
    }
}

fn seeded(seed: u64, name: &str) -> Box<dyn Entropy> {
    Box::new(Seeded(Rng::stream(seed, &format!("secrets of {name}"))))
}

fn key(seed: u8) -> PrivateKey {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode([seed; 32]).parse().unwrap()
}

fn peer(key: &PrivateKey, endpoint: Option<SocketAddr>) -> super::Peer {
    super::Peer {
        public_key: key.public_key(),
        preshared_key: None,
        previous_key: None,
        endpoint,
        keepalive: None,
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

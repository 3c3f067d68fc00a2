//! Whoever gets hold of a gateway's memory later opens nothing that was recorded before: all writable
//! memory of this process is searched, as an attacker would search an image of it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::entropy::{Entropy, NoRandomness, Seeded};
use base::rng::Rng;
use base::time::{Time, earliest};
use blake2::{Blake2s256, Digest as _};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use tunnel::secure::{
    HEADER, Opened, Opener, Outgoing, Peer, PeerId, Peers, PrivateKey, Sealer, TAG,
};

/// What docs/guide/tunnel.md says.
const LIFE: Duration = Duration::from_secs(180);
/// A call is repeated for 30 s, and the next is made when the next repetition is due.
const CALL: Duration = Duration::from_secs(41);
/// What this test keeps, it keeps so, that the search does not find it here.
const MASK: u8 = 0xa5;
/// Octets of a round key, and of three of them.
const ROUND: usize = 16;
const ROUNDS: usize = 3 * ROUND;

#[test]
fn nothing_that_opens_what_was_recorded_outlives_its_time() {
    let blank = round_keys_of_zeros();
    let mut net = Net::new();
    // Copies that no thread uses any more must not keep keys alive.
    let idle = net.idle();

    let recorded = net.talk();
    net.wait(LIFE);
    // Each gateway is making a call, and that has a key. The round keys of processors without AES
    // are of another form.
    let has_schedules = blank.windows(ROUNDS).step_by(4).any(is_schedule);
    if has_schedules {
        assert!(schedules(&blank) <= 2, "a key schedule outlives its session");
        net.is_cut = false;
        net.wait(CALL);
        net.talk();
        assert!(schedules(&blank) > 4, "the search would not find any");
        net.is_cut = true;
        net.wait(LIFE);
    }

    // From here on the stack has keys that were tried.
    assert_eq!(found(&recorded), 0, "a key outlives its session");
    let (old, fresh) = net.drawn();
    assert!(old.len() > 10 && !fresh.is_empty(), "{} and {}", old.len(), fresh.len());
    assert_eq!(occurrences(&old), 0, "an ephemeral key outlives its handshake");
    assert_eq!(occurrences(&fresh), 1, "the search would not find any");
    net.is_cut = false;
    net.wait(CALL);
    assert_eq!(found(&net.talk()), 2, "the search would not find any");
    drop(idle);
}

/// Two gateways whose datagrams arrive at once, unless the way is cut.
struct Net {
    now: Time,
    ends: [End; 2],
    is_cut: bool,
    /// Answers are lost.
    is_one_way: bool,
    number: u64,
}

struct End {
    address: SocketAddr,
    peers: Peers,
    drawn: Arc<Mutex<Vec<Drawn>>>,
}

/// A secret, masked, and how many were drawn when it was.
type Drawn = ([u8; 32], Time);

/// Notes what is drawn.
struct Noted {
    seeded: Seeded,
    drawn: Arc<Mutex<Vec<Drawn>>>,
    now: Arc<Mutex<Time>>,
}

impl Entropy for Noted {
    fn fill(&mut self, octets: &mut [u8]) -> Result<(), NoRandomness> {
        self.seeded.fill(octets)?;
        if octets.len() == 32 {
            let mut noted = ([0; 32], *self.now.lock().unwrap());
            for (masked, octet) in noted.0.iter_mut().zip(octets) {
                *masked = *octet ^ MASK;
            }
            self.drawn.lock().unwrap().push(noted);
        }
        Ok(())
    }
}

/// A datagram as it was seen on the way.
struct Recorded {
    number: u64,
    datagram: Vec<u8>,
}

impl Net {
    fn new() -> Self {
        let keys = [1, 2].map(|seed| {
            PrivateKey::generate(&mut Seeded(Rng::stream(seed, "private keys"))).unwrap()
        });
        let addresses = ["192.0.2.1:51900", "192.0.2.2:51900"].map(|text| text.parse().unwrap());
        let now = Time::ZERO + Duration::from_secs(10);
        let clock = CLOCK.with(Arc::clone);
        *clock.lock().unwrap() = now;
        let ends = [0, 1].map(|at| {
            let peer = Peer {
                public_key: keys[1 - at].public_key(),
                preshared_key: None,
                previous_key: None,
                endpoint: (at == 0).then_some(addresses[1 - at]),
                keepalive: None,
            };
            let drawn = Arc::new(Mutex::new(Vec::new()));
            let entropy = Noted {
                seeded: Seeded(Rng::stream(at as u64, "secrets")),
                drawn: Arc::clone(&drawn),
                now: Arc::clone(&clock),
            };
            let rng = Rng::stream(at as u64, "times");
            let (unix, entropy) = (Duration::from_secs(1), Box::new(entropy));
            let peers = Peers::new(now, unix, &keys[at], &[peer], rng, entropy).unwrap();
            // The secret of cookies is not of a session.
            drawn.lock().unwrap().retain(|drawn: &Drawn| drawn.1 > now);
            End { address: addresses[at], peers, drawn }
        });
        let mut net = Self { now, ends, is_cut: false, is_one_way: false, number: 0 };
        net.settle();
        net
    }

    /// What threads have that will not be used again.
    fn idle(&mut self) -> Vec<(Sealer, Opener)> {
        let peer = PeerId::new(0).unwrap();
        let idle =
            self.ends.iter().map(|end| (end.peers.sealer(peer).unwrap(), end.peers.opener()));
        let mut idle: Vec<_> = idle.collect();
        for at in [0, 1] {
            self.number += 1;
            let mut datagram = vec![0; HEADER + 40 + TAG];
            idle[at].0.seal(self.now, self.number, &mut datagram).unwrap();
            let from = self.ends[at].address;
            let opened = idle[1 - at].1.open(self.now, from, &mut datagram);
            assert!(matches!(opened, Opened::Payload { .. }), "{opened:?}");
        }
        idle
    }

    /// Sessions that are new, replaced, and never confirmed; then the way is cut. One datagram each
    /// way of the last session is recorded.
    fn talk(&mut self) -> [Recorded; 2] {
        self.wait(Duration::from_secs(130));
        let recorded = [0, 1].map(|at| {
            self.number += 1;
            let mut datagram = vec![0; HEADER + 40 + TAG];
            let (end, peer) = (&mut self.ends[at], PeerId::new(0).unwrap());
            let to = end.peers.seal(self.now, peer, self.number, &mut datagram).unwrap();
            let outgoing = Outgoing { to, datagram: datagram.clone(), fresh: None };
            self.deliver(at, outgoing);
            Recorded { number: self.number, datagram }
        });
        self.is_one_way = true;
        self.ends[0].peers.handle_silence(self.now, PeerId::new(0).unwrap());
        self.settle();
        self.is_one_way = false;
        self.is_cut = true;
        recorded
    }

    fn settle(&mut self) {
        loop {
            let mut sent = Vec::new();
            for (at, end) in self.ends.iter_mut().enumerate() {
                while end.peers.poll_event().is_some() {}
                while let Some(outgoing) = end.peers.poll_transmit(self.now) {
                    sent.push((at, outgoing));
                }
            }
            if sent.is_empty() {
                return;
            }
            for (at, outgoing) in sent {
                if !(self.is_cut || self.is_one_way && at == 1) {
                    self.deliver(at, outgoing);
                }
            }
        }
    }

    fn deliver(&mut self, from: usize, mut outgoing: Outgoing) {
        let address = self.ends[from].address;
        let _ =
            self.ends[1 - from].peers.handle_datagram(self.now, address, &mut outgoing.datagram);
    }

    /// Waits, and does what is due on the way: nothing else drives the gateways.
    fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        self.settle();
        while let Some(due) = self
            .ends
            .iter()
            .map(|end| end.peers.next_timeout())
            .fold(None, earliest)
            .filter(|due| *due <= end)
        {
            self.now = self.now.max(due);
            CLOCK.with(|clock| *clock.lock().unwrap() = self.now);
            for end in &mut self.ends {
                end.peers.handle_timeout(self.now);
            }
            self.settle();
        }
        self.now = end;
        CLOCK.with(|clock| *clock.lock().unwrap() = self.now);
    }

    /// The ephemeral keys that were drawn too long ago, and the last one, of a call that waits.
    fn drawn(&self) -> (Vec<[u8; 32]>, Vec<[u8; 32]>) {
        let all = self.ends.iter().flat_map(|end| end.drawn.lock().unwrap().clone());
        let (fresh, old): (Vec<_>, Vec<_>) = all.partition(|(_, at)| *at + CALL > self.now);
        let keys = |drawn: Vec<Drawn>| drawn.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        let fresh = keys(fresh);
        (keys(old), fresh[fresh.len() - 1..].to_vec())
    }
}

thread_local! {
    static CLOCK: Arc<Mutex<Time>> = Arc::new(Mutex::new(Time::ZERO));
}

/// Calls `look` with all writable memory of this process, piece by piece.
fn search(mut look: impl FnMut(&[u8])) {
    /// Octets that are looked at together.
    const PIECE: usize = 1 << 20;
    let (maps, memory) = (fs::read_to_string("/proc/self/maps"), File::open("/proc/self/mem"));
    let memory = memory.unwrap();
    let mut piece = vec![0; PIECE];
    for line in maps.unwrap().lines().filter(|line| line.contains(" rw")) {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split_once(' ').unwrap().0;
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
        // Pieces overlap, so that what lies across their ends is seen.
        for at in (start..end).step_by(PIECE - 256) {
            let len = usize::try_from(end - at).unwrap().min(PIECE);
            // What has been unmapped since, or cannot be read, holds nothing.
            if let Ok(len) = memory.read_at(&mut piece[..len], at) {
                look(&piece[..len]);
                piece[..len].fill(0);
            }
        }
    }
}

/// How many of the datagrams can be opened with what lies in memory: as a key, or as the chaining key
/// from which the keys follow.
fn found(recorded: &[Recorded]) -> usize {
    let mut is_open = vec![false; recorded.len()];
    search(|piece| {
        for window in windows(piece) {
            let [one, other] = split(window);
            for key in [window, &one, &other] {
                for (is_open, recorded) in is_open.iter_mut().zip(recorded) {
                    *is_open |= opens(key, recorded);
                }
            }
        }
    });
    is_open.iter().filter(|is_open| **is_open).count()
}

/// What may be a key: 32 octets of which few are the same.
fn windows(piece: &[u8]) -> impl Iterator<Item = &[u8; 32]> {
    piece.windows(32).step_by(4).filter_map(|window| window.first_chunk()).filter(|window| {
        let mut seen = [false; 256];
        window.iter().for_each(|octet| seen[usize::from(*octet)] = true);
        window[..4] != [0; 4] && seen.iter().filter(|seen| **seen).count() >= 20
    })
}

fn opens(key: &[u8; 32], recorded: &Recorded) -> bool {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).unwrap());
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&recorded.number.to_be_bytes());
    let mut sealed = recorded.datagram[HEADER..].to_vec();
    key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut sealed).is_ok()
}

/// Noise's Split() of a chaining key.
fn split(chaining: &[u8; 32]) -> [[u8; 32]; 2] {
    let temporary = hmac(chaining, &[]);
    let one = hmac(&temporary, &[1]);
    let mut next = one.to_vec();
    next.push(2);
    [one, hmac(&temporary, &next)]
}

fn hmac(key: &[u8; 32], data: &[u8]) -> [u8; 32] {
    let [mut inner, mut outer] = [[0x36; 64], [0x5c; 64]];
    for (at, octet) in key.iter().enumerate() {
        inner[at] ^= octet;
        outer[at] ^= octet;
    }
    let hash = Blake2s256::new().chain_update(inner).chain_update(data).finalize();
    Blake2s256::new().chain_update(outer).chain_update(hash).finalize().into()
}

/// How many of the masked secrets lie in memory, wherever that is. The first and the last octet are
/// changed when they are used (RFC 7748, 5).
fn occurrences(masked: &[[u8; 32]]) -> usize {
    let wanted: Vec<_> = masked.iter().map(|masked| &masked[1..31]).collect();
    let firsts: Vec<_> = wanted.iter().map(|wanted| wanted[0] ^ MASK).collect();
    let mut found = vec![false; wanted.len()];
    search(|piece| {
        for at in 0..piece.len().saturating_sub(30) {
            if !firsts.contains(&piece[at]) {
                continue;
            }
            for (found, wanted) in found.iter_mut().zip(&wanted) {
                let pairs = piece[at..].iter().zip(*wanted);
                *found |= pairs.clone().all(|(octet, masked)| octet ^ MASK == *masked);
            }
        }
    });
    found.iter().filter(|found| **found).count()
}

/// How many key schedules, or remains of three round keys, lie in memory besides those of a key of
/// zeros. Two round keys are enough to compute the key.
fn schedules(blank: &[u8]) -> usize {
    let mut count = 0;
    search(|piece| {
        let mut last = None;
        for (at, window) in piece.windows(ROUNDS).enumerate().step_by(4) {
            let is_one = is_schedule(window) && !blank.windows(ROUNDS).any(|one| one == window);
            if is_one {
                count += usize::from(last.is_none_or(|last| at - last > 16 * ROUND));
                last = Some(at);
            }
        }
    });
    count
}

/// FIPS 197, 5.2: every word but each fourth is the one before, plus the one eight before.
fn is_schedule(window: &[u8]) -> bool {
    let word = |at: usize| u32::from_ne_bytes(*window[4 * at..].first_chunk().unwrap());
    let is_sum = |at: usize| word(at) == word(at - 1) ^ word(at - 8);
    word(8) != 0 && word(8) != word(9) && (9..12).all(is_sum)
}

/// What the cipher of a key of zeros has in memory.
fn round_keys_of_zeros() -> Vec<u8> {
    let key = Box::new(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[0; 32]).unwrap()));
    let mut octets = vec![0; size_of::<LessSafeKey>()];
    let address = (&raw const *key).addr() as u64;
    File::open("/proc/self/mem").unwrap().read_exact_at(&mut octets, address).unwrap();
    octets
}

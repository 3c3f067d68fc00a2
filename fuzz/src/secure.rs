//! Fuzzes the secure channel between two gateways against an attacker who changes datagrams on the way.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use base::entropy::Seeded;
use base::rng::Rng;
use base::time::Time;
use tunnel::secure::wire::Datagram;
use tunnel::secure::{
    Dropped, HEADER, Incoming, OVERHEAD, Outgoing, Peer, PeerId, Peers, PrivateKey, TAG, Unsealed,
};

/// Window of accepted numbers behind the newest.
const WINDOW: u64 = 8_128;
/// Numbers are rebuilt from their low 32 bits, around the newest.
const NEAR: u64 = 1 << 31;

/// A datagram on the way: its sender, whether it is unchanged, and the number of a data datagram.
#[derive(Clone)]
struct Passing {
    from: usize,
    outgoing: Outgoing,
    is_genuine: bool,
    number: Option<u64>,
}

/// Numbers of the data that one end accepted from the other. All numbers differ, even after a restart.
#[derive(Default)]
struct Taken(BTreeSet<u64>);

impl Taken {
    /// Checks the outcome of an unchanged datagram; `next` is the number after the last sealed number.
    fn check(&mut self, number: u64, next: u64, incoming: &Incoming) {
        let newest = self.0.last().copied().unwrap_or(0);
        // The receiver rebuilds a wrong number, which may be old, already accepted or new.
        let is_far = number.abs_diff(newest) >= NEAR || next - number >= NEAR;
        match incoming {
            Incoming::Payload { number: heard, .. } => {
                assert_eq!(*heard, number);
                assert!(self.0.insert(number), "{number} was taken twice");
            }
            Incoming::Dropped(Dropped::Replayed) => {
                assert!(self.0.contains(&number) || is_far, "{number} never came");
            }
            Incoming::Dropped(Dropped::TooOld) => {
                assert!(number + WINDOW < newest + 1 || is_far, "{number} is near {newest}");
            }
            Incoming::Dropped(Dropped::Forged) => {
                assert!(is_far, "{number} is genuine");
            }
            // Its session has ended.
            Incoming::Dropped(Dropped::Expired | Dropped::Unknown) => {}
            other => panic!("{other:?} of {number}"),
        }
    }
}

/// Reads the input as steps of the attacker: four octets and a payload each.
pub(crate) fn peers(input: &[u8]) {
    let keys = [
        "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg=",
        "eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXk=",
    ]
    .map(|text| text.parse::<PrivateKey>().expect("a key"));
    let addresses: [SocketAddr; 3] =
        [1, 2, 3].map(|last| SocketAddr::from(([192, 0, 2, last], 51_900)));
    let mut now = Time::from_nanos(1_000_000_000);
    let mut ends = [0, 1].map(|at| {
        let peer = Peer {
            public_key: keys[1 - at].public_key(),
            preshared_key: None,
            previous_key: None,
            endpoint: Some(addresses[1 - at]),
            keepalive: Some(Duration::from_secs(7)),
        };
        let rng = Rng::stream(1, ["a", "b"][at]);
        let secrets = Box::new(Seeded(Rng::stream(2, ["a", "b"][at])));
        Peers::new(now, Duration::from_secs(1), &keys[at], &[peer], rng, secrets).expect("two keys")
    });
    let peer = PeerId::new(0).expect("the first");
    let mut numbers = [0_u64; 2];
    let mut taken = [Taken::default(), Taken::default()];
    let mut wire: Vec<Passing> = Vec::new();
    let mut rest = input;
    for _ in 0..64 {
        let Some((&[step, a, b, len], after)) = rest.split_first_chunk() else { break };
        let (octets, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        let at = usize::from(a & 1);
        match step % 6 {
            // A stranger sends octets.
            0 => {
                let mut octets = octets.to_vec();
                let _ = Datagram::parse(&octets);
                let incoming = ends[at].handle_datagram(now, addresses[2], &mut octets);
                assert!(!matches!(incoming, Incoming::Payload { .. }), "nobody sealed this");
            }
            // A datagram on the way arrives, perhaps changed, perhaps again.
            1 | 2 => {
                if wire.is_empty() {
                    continue;
                }
                let place = usize::from(b) % wire.len();
                let mut passing =
                    if step & 8 == 0 { wire.remove(place) } else { wire[place].clone() };
                let (from, datagram) = (passing.from, &mut passing.outgoing.datagram);
                if step % 6 == 2 {
                    let place = usize::from(len) % datagram.len();
                    datagram[place] ^= a | 1;
                    passing.is_genuine = false;
                }
                let incoming = ends[1 - from].handle_datagram(now, addresses[from], datagram);
                if let Incoming::Payload { payload, .. } = &incoming {
                    assert!(passing.is_genuine, "it was changed");
                    assert!(datagram[payload.clone()].iter().all(|octet| *octet == 0x5a));
                }
                if let Some(number) = passing.number.filter(|_| passing.is_genuine) {
                    taken[1 - from].check(number, numbers[from] + 1, &incoming);
                }
            }
            // Time passes, or goes back.
            3 => now += Duration::from_millis(u64::from(b) * u64::from(len)),
            4 if b == 0 => now = now - Duration::from_secs(u64::from(len)),
            // The machine may be a copy.
            4 if b == 1 => ends[at].handle_copied(now),
            // Data are sealed.
            _ => {
                let mut datagram = vec![0x5a; usize::from(len) + OVERHEAD];
                numbers[at] += 1 + (u64::from(b) << (step >> 3));
                if let Ok(to) = ends[at].seal(now, peer, numbers[at], &mut datagram) {
                    assert!(datagram.len() == HEADER + usize::from(len) + TAG);
                    let again = ends[at].seal(now, peer, numbers[at], &mut datagram.clone());
                    assert_eq!(again, Err(Unsealed::NumberReused));
                    let (outgoing, number) =
                        (Outgoing { to, datagram, fresh: None }, Some(numbers[at]));
                    wire.push(Passing { from: at, outgoing, is_genuine: true, number });
                }
            }
        }
        for (at, end) in ends.iter_mut().enumerate() {
            end.handle_timeout(now);
            assert!(end.next_timeout().is_none_or(|due| due > now), "a driver would spin");
            while end.poll_event().is_some() {}
            while let Some(outgoing) = end.poll_transmit(now) {
                assert!(Datagram::parse(&outgoing.datagram).is_ok());
                wire.push(Passing { from: at, outgoing, is_genuine: true, number: None });
            }
        }
        wire.truncate(256);
    }
}

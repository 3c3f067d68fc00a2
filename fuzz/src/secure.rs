//! Two gateways that share keys, and someone on the way who changes what passes.

use std::net::SocketAddr;
use std::time::Duration;

use proto::rng::Rng;
use proto::secure::wire::Datagram;
use proto::secure::{
    HEADER, Incoming, OVERHEAD, Outgoing, Peer, PeerId, Peers, PrivateKey, Seeded, TAG,
};
use proto::time::Time;

/// Steps of four octets and what they carry: what the one on the way does next.
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
            endpoint: Some(addresses[1 - at]),
            keepalive: Some(Duration::from_secs(7)),
        };
        let rng = Rng::stream(1, ["a", "b"][at]);
        let secrets = Box::new(Seeded(Rng::stream(2, ["a", "b"][at])));
        Peers::new(now, Duration::from_secs(1), &keys[at], &[peer], rng, secrets).expect("two keys")
    });
    let peer = PeerId::new(0).expect("the first");
    let mut numbers = [0_u64; 2];
    let mut wire: Vec<(usize, Outgoing, bool)> = Vec::new();
    let mut rest = input;
    for _ in 0..64 {
        let Some((&[step, a, b, len], after)) = rest.split_first_chunk() else { break };
        let (octets, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        let at = usize::from(a & 1);
        match step % 6 {
            // Octets of a stranger.
            0 => {
                let mut octets = octets.to_vec();
                let _ = Datagram::parse(&octets);
                let incoming = ends[at].handle_datagram(now, addresses[2], &mut octets);
                assert!(!matches!(incoming, Incoming::Payload { .. }), "nobody sealed this");
            }
            // Something that is on the way arrives, perhaps changed, perhaps again.
            1 | 2 => {
                if wire.is_empty() {
                    continue;
                }
                let (from, mut outgoing, mut is_genuine) = if step & 8 == 0 {
                    wire.remove(usize::from(b) % wire.len())
                } else {
                    wire[usize::from(b) % wire.len()].clone()
                };
                if step % 6 == 2 {
                    let place = usize::from(len) % outgoing.datagram.len();
                    outgoing.datagram[place] ^= a | 1;
                    is_genuine = false;
                }
                let incoming =
                    ends[1 - from].handle_datagram(now, addresses[from], &mut outgoing.datagram);
                if let Incoming::Payload { payload, .. } = incoming {
                    assert!(is_genuine, "it was changed");
                    assert!(outgoing.datagram[payload].iter().all(|octet| *octet == 0x5a));
                }
            }
            // Time passes, or goes back.
            3 => now += Duration::from_millis(u64::from(b) * u64::from(len)),
            4 if b == 0 => now = now - Duration::from_secs(u64::from(len)),
            // Data are sealed.
            _ => {
                let mut datagram = vec![0x5a; usize::from(len) + OVERHEAD];
                numbers[at] += u64::from(b) << (step >> 3);
                if let Ok(to) = ends[at].seal(now, peer, numbers[at], &mut datagram) {
                    assert!(datagram.len() == HEADER + usize::from(len) + TAG);
                    wire.push((at, Outgoing { to, datagram }, true));
                }
            }
        }
        for (at, end) in ends.iter_mut().enumerate() {
            end.handle_timeout(now);
            assert!(end.next_timeout().is_none_or(|due| due > now), "a driver would spin");
            while end.poll_event().is_some() {}
            while let Some(outgoing) = end.poll_transmit(now) {
                assert!(Datagram::parse(&outgoing.datagram).is_ok());
                wire.push((at, outgoing, true));
            }
        }
        wire.truncate(256);
    }
}

//! Whatever comes, every datagram has one outcome and memory is bounded.

use std::fmt;
use std::time::Duration;

use base::tcp::Flags;
use base::time::{Time, earliest};
use harness::Core;
use proptest::prelude::*;

use super::{Bench, config, tcp, udp};
use crate::ipclient::stats::{Handed, Taken};
use crate::ipclient::{Config, Stats};
use crate::s5066::service::{Failure, Outcome, Request};

/// What happens to a client, or to the node that it is connected to.
#[derive(Clone, Debug)]
enum Input {
    Connect,
    Datagram(Vec<u8>),
    Disconnect,
    Outcome(usize, Outcome),
    Poll,
}

fn input() -> impl Strategy<Value = Input> {
    let outcome = prop_oneof![
        5 => Just(Outcome::Done),
        1 => Just(Outcome::not_arrived(Failure::NoResponse)),
        1 => Just(Outcome::not_arrived(Failure::Expired)),
    ];
    let datagram = prop_oneof![
        (0_u8..64, 100_usize..3_000, 0_u8..4).prop_map(|(dscp, len, host)| udp(
            [10, 0, 2 + host / 3, 9],
            dscp,
            len
        )),
        (0_u32..4, 0_u32..4).prop_map(|(seq, ack)| tcp(seq, ack, Flags::ACK, b"data")),
        (0_u32..9).prop_map(|ack| tcp(7, ack, Flags::ACK, b"")),
        prop::collection::vec(any::<u8>(), 0..60),
    ];
    prop_oneof![
        1 => Just(Input::Connect),
        1 => Just(Input::Disconnect),
        8 => datagram.prop_map(Input::Datagram),
        4 => (any::<prop::sample::Index>(), outcome)
            .prop_map(|(which, outcome)| Input::Outcome(which.index(8), outcome)),
        4 => Just(Input::Poll),
    ]
}

/// A client, its node, and what the node has been asked to send.
struct Stage {
    bench: Bench,
    below: Vec<Request>,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bench.client.fmt(f)
    }
}

impl Core for Stage {
    type Input = Input;

    fn handle(&mut self, now: Time, input: Input) {
        let Bench { server, id, client, .. } = &mut self.bench;
        match input {
            Input::Connect if id.is_none() => {
                *id = server.handle_connected(now);
                client.handle_connected(now);
            }
            Input::Connect => {}
            Input::Datagram(packet) => client.handle_packet(now, &packet),
            Input::Disconnect => {
                if let Some(id) = id.take() {
                    server.handle_disconnected(now, id);
                    client.handle_disconnected(now);
                }
            }
            Input::Outcome(which, outcome) => {
                if which < self.below.len() {
                    let request = self.below.remove(which);
                    server.handle_outcome(now, request.id, outcome);
                }
            }
            Input::Poll => self.below.extend(server.poll_request(now, 0)),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.bench.now = now;
        self.bench.client.handle_timeout(now);
        self.bench.server.handle_timeout(now);
    }

    fn poll(&mut self, now: Time) -> bool {
        let Bench { server, client, .. } = &mut self.bench;
        client.poll_packet(now, &mut Vec::new())
            || client.poll_event().is_some()
            || server.poll_event().is_some()
    }

    /// What one of client and node sends, the other has at once.
    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let Bench { server, id: Some(id), client, .. } = &mut self.bench else { return false };
        if client.poll_octets(now, out) {
            server.handle_octets(now, *id, out);
            return true;
        }
        let is_any = server.poll_octets(now, *id, out);
        if is_any {
            client.handle_octets(now, out);
        }
        is_any
    }

    fn next_timeout(&self) -> Option<Time> {
        earliest(self.bench.client.next_timeout(), self.bench.server.next_timeout())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let stats = self.bench.client.stats();
        prop_assert!(stats.queued <= 8_000 && stats.unconfirmed <= 2 * 6_000 + 2_048, "{stats:?}");
        Ok(())
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn every_datagram_has_one_outcome_and_memory_is_bounded(steps in harness::steps(input())) {
        let mut config = Config { queue: 8_000, window: (1_000, 6_000), compress_headers: true, ..config() };
        config.set_ttl(Some(Duration::from_secs(40)));
        let bench = Bench::unconnected(config, crate::s5066::sis::Config::default());
        let mut stage = Stage { bench, below: Vec::new() };
        let now = stage.bench.now;
        let now = harness::keeps(&mut stage, now, steps)?;
        let Stage { mut bench, mut below } = stage;
        bench.now = now;

        // All that waits or is unconfirmed ends when time does.
        if bench.id.is_none() {
            bench.connect();
        }
        for _ in 0..50 {
            bench.now += Duration::from_secs(60);
            bench.client.handle_timeout(bench.now);
            bench.server.handle_timeout(bench.now);
            bench.run();
            for request in below.drain(..).chain(bench.requests()).collect::<Vec<_>>() {
                bench.outcome(&request, Outcome::Done);
            }
        }
        let stats = bench.client.stats();
        prop_assert_eq!((stats.queued, stats.unconfirmed), (0, 0));
        prop_assert_eq!(bench.server.undecided(), 0);
        check(&stats)?;
    }
}

/// Pieces that entered the queue or were dropped before it.
fn check(stats: &Stats) -> Result<(), TestCaseError> {
    let Taken { packets_in, malformed, no_route, too_big, fragmented, .. } = stats.taken;
    let Taken { queue_full, expired, absorbed, superseded, .. } = stats.taken;
    let Handed { packets: handed, confirmed, unreachable, refused, forsaken, .. } = stats.handed;
    let dropped = malformed + no_route + too_big + queue_full + absorbed + superseded + expired;
    let outcomes = dropped + confirmed + unreachable + refused + forsaken;
    // A datagram of up to 3,000 octets makes two fragments at most.
    prop_assert!(outcomes >= packets_in && outcomes <= packets_in + fragmented, "{stats:?}");
    prop_assert!(handed <= outcomes);
    Ok(())
}

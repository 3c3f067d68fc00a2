//! Whatever comes, every datagram has one outcome and memory is bounded.

use std::time::Duration;

use proptest::prelude::*;

use super::bench::{Bench, config, tcp, udp};
use crate::ipclient::{Config, Stats};
use crate::s5066::service::{Failure, Outcome, Request};
use crate::tcp::wire::Flags;

#[derive(Clone, Debug)]
enum Step {
    Connect,
    Datagram(Vec<u8>),
    Disconnect,
    Outcome(usize, Outcome),
    Poll,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
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
        1 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        8 => datagram.prop_map(Step::Datagram),
        4 => (any::<prop::sample::Index>(), outcome)
            .prop_map(|(which, outcome)| Step::Outcome(which.index(8), outcome)),
        4 => Just(Step::Poll),
        2 => (0_u64..30).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn every_datagram_has_one_outcome_and_memory_is_bounded(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut config = Config { queue: 8_000, window: (1_000, 6_000), ..config() };
        config.set_ttl(Some(Duration::from_secs(40)));
        let mut bench = Bench::unconnected(config, crate::s5066::sis::Config::default());
        let mut below: Vec<Request> = Vec::new();
        for step in steps {
            match step {
                Step::Connect if bench.id.is_none() => bench.connect(),
                Step::Connect => {}
                Step::Datagram(packet) => bench.send(&packet),
                Step::Disconnect => {
                    if let Some(id) = bench.id.take() {
                        bench.server.handle_disconnected(bench.now, id);
                        bench.client.handle_disconnected(bench.now);
                    }
                }
                Step::Outcome(which, outcome) => {
                    if which < below.len() {
                        let request = below.remove(which);
                        bench.outcome(&request, outcome);
                    }
                }
                Step::Poll => {
                    if let Some(request) = bench.server.poll_request(bench.now, 0) {
                        below.push(request);
                        bench.run();
                    }
                }
                Step::Wait(seconds) => {
                    bench.now += Duration::from_secs(seconds);
                    bench.client.handle_timeout(bench.now);
                    bench.server.handle_timeout(bench.now);
                    bench.run();
                }
            }
            let _ = bench.packets();
            let stats = bench.client.stats();
            prop_assert!(stats.queued <= 8_000 && stats.unconfirmed <= 6_000 + 2_048, "{stats:?}");
            prop_assert!(bench.client.next_timeout().is_none_or(|at| at > bench.now));
        }

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
    let Stats { packets_in, malformed, no_route, too_big, fragmented, .. } = *stats;
    let Stats { queue_full, expired, absorbed, superseded, handed, .. } = *stats;
    let Stats { confirmed, unreachable, refused, forsaken, .. } = *stats;
    let outcomes = malformed
        + no_route
        + too_big
        + queue_full
        + absorbed
        + superseded
        + expired
        + confirmed
        + unreachable
        + refused
        + forsaken;
    // A datagram of up to 3,000 octets makes two fragments at most.
    prop_assert!(outcomes >= packets_in && outcomes <= packets_in + fragmented, "{stats:?}");
    prop_assert!(handed <= outcomes);
    Ok(())
}

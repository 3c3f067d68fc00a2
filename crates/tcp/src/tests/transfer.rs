//! Whatever the network does, every octet arrives once and in order, or somebody is told.

use std::time::Duration;

use base::tcp::Segment;
use proptest::prelude::*;

use super::pair::{DELAY, Pair, pattern};
use crate::{
    Algorithm, Config, Congestion, DelayedAck, Event, KeepAlive, Limit, LossRecovery, Offer, Rto,
    State, adaptive_pacing, vegas,
};

#[test]
fn a_clean_transfer_takes_no_retransmission() {
    let mut pair = Pair::new(Config::default(), Config::default());
    pair.client.to_write = pattern(1_000_000);
    pair.client.closes = true;
    pair.server.closes = true;

    assert!(pair.run_for(Duration::from_secs(600)), "{:#?}", pair.trace);

    assert!(pair.server.received == pattern(1_000_000));
    assert_eq!(pair.client().stats().sent.retransmissions, 0);
    assert_eq!(pair.server().stats().sent.retransmissions, 0);
    pair.client.events.retain(|event| *event != Event::Writable);
    assert_eq!(pair.client.events, [Event::Connected, Event::PeerClosed, Event::Closed]);
    assert_eq!(pair.client().state(), State::Closed);
    assert_eq!(pair.server().state(), State::Closed);
}

/// Every congestion control.
pub fn algorithms() -> impl Strategy<Value = Algorithm> {
    let rebase = vegas::Rebase::Rounds(1);
    prop_oneof![
        Just(Algorithm::default()),
        Just(Algorithm::CUBIC),
        Just(Algorithm::Bbr),
        Just(Algorithm::Vegas(vegas::Config::of(vegas::Variant::Ns2))),
        Just(Algorithm::Vegas(vegas::Config::of(vegas::Variant::Published))),
        Just(Algorithm::Vegas(vegas::Config { rebase, ..vegas::Config::default() })),
        Just(Algorithm::TcpAp(adaptive_pacing::Config::of(adaptive_pacing::Variant::Ns2))),
        Just(Algorithm::TcpAp(adaptive_pacing::Config::of(adaptive_pacing::Variant::Published))),
    ]
}

/// What can differ between the two ends of a test.
fn configs() -> impl Strategy<Value = Config> {
    let flags = any::<[bool; 9]>();
    let buffers =
        (prop_oneof![1_usize..3_000, Just(131_072)], prop_oneof![1_usize..3_000, Just(131_072)]);
    (flags, buffers, 80_u16..1_460, 1_u32..4, 1_usize..6, algorithms()).prop_map(
        |(flags, (send_buffer, receive_buffer), mss, segments, max_holes, algorithm)| Config {
            offer: Offer {
                timestamps: flags[0],
                sack: flags[1],
                window_scaling: flags[2],
                ecn: flags[5],
                duplicate_sack: flags[6],
                ..Offer::default()
            },
            nagle: flags[3],
            recovery: LossRecovery {
                limited_transmit: flags[4],
                impatient: flags[7],
                lost_repairs: flags[8],
                ..LossRecovery::default()
            },
            congestion: Congestion { algorithm, ..Congestion::default() },
            max_holes: max_holes * max_holes * max_holes,
            send_buffer,
            receive_buffer,
            mss: Some(mss),
            delayed_ack: DelayedAck { segments, ..DelayedAck::default() },
            rto: Rto { max: Duration::from_secs(8), ..Rto::default() },
            r2: Limit::Retransmissions(8),
            r2_syn: Limit::Retransmissions(8),
            // Else a FIN-WAIT-2 whose peer gave up would wait for ever.
            keep_alive: Some(KeepAlive {
                idle: Duration::from_secs(600),
                interval: Duration::from_secs(5),
                probes: 20,
            }),
            ..Config::default()
        },
    )
}

/// The fate of a packet: lost, late or doubled.
fn fates() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let fate = prop_oneof![
        6 => Just(vec![0]),
        2 => Just(vec![]),
        1 => (1_u8..40).prop_map(|late| vec![late]),
        1 => (0_u8..10).prop_map(|late| vec![0, late]),
    ];
    prop::collection::vec(fate, 1..80)
}

proptest! {
    #![proptest_config(harness::cases(400))]

    #[test]
    fn every_octet_arrives_once_and_in_order_or_somebody_is_told(
        client in configs(),
        server in configs(),
        there in fates(),
        back in fates(),
        forth_len in 0_usize..30_000,
        back_len in 0_usize..10_000,
        is_simultaneous: bool,
    ) {
        let fate = move |side, index: u64, _: &Segment<'_>| {
            let fates = if side == super::pair::Side::Client { &there } else { &back };
            // The troubles end at some time, so that every transfer can.
            let fate = usize::try_from(index).ok().filter(|index| *index < 4 * fates.len());
            let delays = fate.map_or(vec![0], |index| fates[index % fates.len()].clone());
            delays.iter().map(|late| DELAY + Duration::from_millis(u64::from(*late) * 10)).collect()
        };
        let pair = if is_simultaneous { Pair::simultaneous(client, server) } else { Pair::new(client, server) };
        let mut pair = pair.with_fate(fate);
        pair.client.to_write = pattern(forth_len);
        pair.server.to_write = pattern(back_len);
        pair.client.closes = true;
        pair.server.closes = true;

        let is_quiet = pair.run_for(Duration::from_secs(36_000));

        let trace = pair.trace[pair.trace.len().saturating_sub(60)..].join("\n");
        prop_assert!(is_quiet, "{trace}");
        prop_assert!(pattern(forth_len).starts_with(&pair.server.received));
        prop_assert!(pattern(back_len).starts_with(&pair.client.received));
        prop_assert_eq!(pair.client().state(), State::Closed);
        let told = |events: &[Event]| {
            events.iter().any(|event| matches!(event, Event::Reset | Event::TimedOut(_)))
        };
        if !told(&pair.client.events) && !told(&pair.server.events) {
            prop_assert_eq!(pair.server.received.len(), forth_len, "{}", trace);
            prop_assert_eq!(pair.client.received.len(), back_len, "{}", trace);
            prop_assert!(pair.client.events.contains(&Event::Closed), "{:?} {trace}", pair.client.events);
            prop_assert!(pair.server.events.contains(&Event::Closed), "{}", trace);
        }
    }
}

//! TCP-AP: its formulas, which hops count, and when segments leave.

use std::time::Duration;

use base::time::Time;

use super::pair::{Pair, pattern};
use super::script::{ACK, NOTHING, Script, plain};
use crate::adaptive_pacing::{
    AdaptivePacing, Config, Finding, HopCountMode, HopSource, Hops, ShortPath, Variant, Variation,
};
use crate::{
    self as tcp, Ack, Algorithm, Congestion, CongestionControl, DelayedAck, Delivery, Duplicate,
    InitialWindow, Offer, Window,
};

fn ns2() -> Config {
    Config::of(Variant::Ns2)
}

fn published() -> Config {
    Config::of(Variant::Published)
}

/// A data frame of 1,572 octets takes 6.288 ms at 2 Mbit/s, an acknowledgement's 0.448 ms.
#[test]
fn the_delay_over_four_hops_is_that_of_the_formulas() {
    assert_eq!(delay(over(4, published()), 50), 36.68, "t_q is 2.882 ms");
    assert_eq!(delay(over(5, published()), 50), 31.68, "a longer path counts four hops too");
    assert_eq!(delay(over(4, Config { reach: 2, ..published() }), 50), 18.34);
    assert_eq!(delay(over(4, Config { link_bits_per_s: 1_000_000, ..published() }), 60), 53.36);
}

#[test]
fn a_short_path_counts_one_hop_or_all_it_has() {
    assert_eq!(delay(over(3, ns2()), 60), 12.92);
    assert_eq!(delay(over(3, published()), 60), 38.76);
    assert_eq!(delay(over(3, Config { short_path: ShortPath::All, ..ns2() }), 60), 38.76);
}

#[test]
fn a_wired_link_behind_the_last_radio_slows_the_pace() {
    // 66 ms of a slow backhaul on round trips without queueing of 3 and 1 radio hops.
    let per_hop = |hops: u8, backhaul| {
        let idle = 6.736 * f64::from(hops);
        (delay_of(over(hops, ns2()), idle + backhaul) - 6.288) / f64::from(hops).recip()
    };

    assert!((per_hop(3, 66.0) / 3.0 - 11.0).abs() < 0.01, "11 ms of queueing at three hops");
    assert!((per_hop(1, 66.0) - 33.0).abs() < 0.01, "33 ms at one");
}

#[test]
fn a_queueing_delay_is_never_below_nothing_and_the_pace_is_then_464_kbit_a_second() {
    let finding = measured(over(4, published()), &[10.0]);

    assert_eq!((millis(finding.delay), finding.negative), (25.152, 1));
    let rate = 1_460.0 * 8.0 / finding.interval.as_secs_f64();
    assert!((rate - 464_377.0).abs() < 1.0, "{rate}");
}

#[test]
fn variation_stretches_the_interval() {
    // Delays of 41.68, 41.68 and 56.68 ms: their mean 46.68, smoothed 46.18.
    let interval = |variation| {
        let config = over(4, Config { variation, ..published() });
        millis(measured(config, &[60.0, 60.0, 90.0]).interval)
    };

    assert_eq!(interval(Variation::Stddev), 60.171, "46.18 (1 + 2 * 7.0711 / 46.68)");
    assert_eq!(interval(Variation::Mad), 59.371, "46.18 (1 + 2 * 6.6667 / 46.68)");
}

#[test]
fn alpha_is_the_weight_of_the_old_delay_and_old_variation_is_forgotten() {
    let smoothed = |alpha| {
        let config = over(4, Config { alpha, ..published() });
        millis(measured(config, &[60.0, 90.0]).delay)
    };
    assert_eq!(smoothed(0.7), 46.18);
    assert_eq!(smoothed(0.0), 56.68);

    let config = over(4, Config { history: 5, ..published() });
    let finding = measured(config, &[90.0, 60.0, 60.0, 60.0, 60.0, 60.0]);
    assert_eq!(finding.interval, finding.delay, "the last five are the same");
}

#[test]
fn a_delay_beyond_the_bound_is_replaced_in_ns2_and_not_used_by_the_formulas() {
    let replaced = measured(over(4, ns2()), &[50.0, 5_000.0]);
    assert_eq!((millis(replaced.delay), replaced.samples, replaced.beyond_bound), (36.68, 2, 1));

    let ignored = measured(over(4, published()), &[50.0, 5_000.0]);
    assert_eq!((millis(ignored.delay), ignored.samples, ignored.beyond_bound), (36.68, 1, 1));
    let alone = measured(over(4, ns2()), &[5_000.0]);
    assert_eq!((alone.samples, alone.beyond_bound), (0, 1), "there is no mean yet");
    assert_eq!(alone.interval, Duration::from_millis(50), "the initial interval");
}

#[test]
fn hops_are_counted_from_the_ttl_and_wired_ones_only_if_told() {
    let hops = |ttl, mode, wired| {
        let hops = Hops { source: HopSource::Ttl, mode, wired };
        let mut pacing = AdaptivePacing::new(Config { hops, ..published() });
        ack(&mut pacing, 50.0, ttl);
        (pacing.finding().hops, pacing.finding().no_hops)
    };
    let (all, wireless) = (HopCountMode::IncludeWired, HopCountMode::WirelessOnly);

    assert_eq!(hops(64, all, 1), (1, 0), "no router");
    assert_eq!(hops(61, all, 1), (4, 0));
    assert_eq!(hops(61, wireless, 1), (3, 0));
    assert_eq!(hops(30, all, 0), (3, 0), "a host that starts with 32");
    assert_eq!(hops(126, all, 0), (3, 0));
    assert_eq!(hops(253, all, 0), (3, 0));
    assert_eq!(hops(64, wireless, 1), (0, 1), "no radio: nothing to measure");
    assert_eq!(hops(0, all, 0), (33, 0));
}

#[test]
fn the_clock_of_ns2_ticks_on_while_nothing_waits() {
    let next = |config, at: u64| {
        let mut pacing = AdaptivePacing::new(config);
        let mut window = window();
        pacing.on_sent(Time::from_nanos(0), &mut window, 1_460);
        pacing.on_ack(Time::from_nanos(at * 1_000_000), &mut window, &answer(None, 64));
        window.next_send.map(|at| at.as_nanos() / 1_000_000)
    };

    assert_eq!(next(ns2(), 20), Some(50), "it has not ticked yet");
    assert_eq!(next(ns2(), 120), Some(150));
    assert_eq!(next(ns2(), 150), Some(150));
    assert_eq!(next(published(), 120), Some(50), "at once");
}

#[test]
fn segments_leave_an_interval_apart_and_a_repair_at_once() {
    let mut script = paced(over(4, ns2()), 5);
    assert_eq!(script.write(6_000), [". 1+1000 ack 1"]);
    let sent = script.wait(200);
    assert_eq!(
        sent,
        [
            "50: . 1001+1000 ack 1",
            "100: . 2001+1000 ack 1",
            "150: . 3001+1000 ack 1",
            "200: . 4001+1000 ack 1"
        ]
    );

    assert_eq!(script.peer(1, 1, ACK, 0), NOTHING);
    assert_eq!(script.peer(1, 1, ACK, 0), NOTHING);
    assert_eq!(script.peer(1, 1, ACK, 0), [". 1+1000 ack 1"], "10 ms before the next may go");
}

#[test]
fn after_a_timeout_segments_are_not_paced_until_an_acknowledgement() {
    let mut pacing = AdaptivePacing::new(ns2());
    let mut window = window();
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    pacing.on_sent(at(0), &mut window, 1_460);
    assert_eq!(window.next_send, Some(at(50)));

    pacing.on_timeout(at(10), &mut window, 14_600, true);
    assert_eq!(window.next_send, None, "what waits is forgotten");
    pacing.on_sent(at(10), &mut window, 1_460);
    assert_eq!(window.next_send, None);

    pacing.on_ack(at(20), &mut window, &answer(None, 64));
    pacing.on_sent(at(20), &mut window, 1_460);
    assert_eq!(window.next_send, Some(at(70)));
}

#[test]
fn a_loss_takes_the_pace_away_until_the_next_acknowledgement() {
    let mut pacing = AdaptivePacing::new(ns2());
    let mut window = window();
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    pacing.on_sent(at(0), &mut window, 1_460);

    pacing.on_loss(at(10), &mut window, 14_600);
    pacing.on_sent(at(10), &mut window, 1_460);
    assert_eq!(window.next_send, None, "what is sent again does not start the clock");

    let duplicate = Duplicate {
        count: 4,
        is_enough: true,
        in_recovery: true,
        has_sack: false,
        head: None,
        delivery: Delivery::default(),
    };
    let _ = pacing.on_duplicate(at(20), &mut window, &duplicate);
    pacing.on_sent(at(20), &mut window, 1_460);
    assert_eq!(window.next_send, Some(at(70)));
}

#[test]
fn a_flow_without_queueing_holds_the_rate_of_the_formula() {
    // Round trips of 10 ms over what counts as four hops: t_q is nothing.
    let config = tcp::Config {
        mss: Some(1_460),
        offer: Offer { timestamps: false, ..Offer::default() },
        delayed_ack: DelayedAck { segments: 1, delay: Duration::ZERO },
        congestion: Congestion {
            algorithm: Algorithm::TcpAp(over(4, published())),
            ..Congestion::default()
        },
        ..tcp::Config::default()
    };
    let mut pair = Pair::new(config, config).with_fate(|_, _, _| vec![Duration::from_millis(5)]);
    pair.client.to_write = pattern(2_000_000);
    let _ = pair.run_for(Duration::from_secs(1));
    let before = pair.server.received.len();

    let _ = pair.run_for(Duration::from_secs(20));

    let rate = (pair.server.received.len() - before) as f64 * 8.0 / 20.0;
    assert!((rate - 464_377.0).abs() < 1_000.0, "{rate}");
    assert_eq!(pair.client().stats().sent.retransmissions, 0);
}

/// So many hops, known.
fn over(hops: u8, config: Config) -> Config {
    let hops = Hops { source: HopSource::Fixed(hops), ..config.hops };
    Config { hops, ..config }
}

/// The delay by one round-trip time in milliseconds, in milliseconds.
fn delay(config: Config, rtt: u32) -> f64 {
    delay_of(config, f64::from(rtt))
}

fn delay_of(config: Config, rtt: f64) -> f64 {
    millis(measured(config, &[rtt]).delay)
}

fn measured(config: Config, rtts: &[f64]) -> Finding {
    let mut pacing = AdaptivePacing::new(config);
    for rtt in rtts {
        ack(&mut pacing, *rtt, 64);
    }
    pacing.finding()
}

fn ack(pacing: &mut AdaptivePacing, rtt: f64, ttl: u8) {
    let rtt = Duration::from_secs_f64(rtt / 1_000.0);
    let _ = pacing.on_ack(Time::from_nanos(1), &mut window(), &answer(Some(rtt), ttl));
}

fn answer(rtt: Option<Duration>, ttl: u8) -> Ack {
    Ack {
        octets: 1_460,
        flight: 14_600,
        flight_after: 14_600,
        rtt,
        newest_rtt: rtt,
        srtt: rtt,
        is_window_limited: true,
        in_recovery: false,
        ttl,
        head: None,
        delivery: Delivery::default(),
    }
}

fn window() -> Window {
    Window { cwnd: 14_600, ssthresh: u64::MAX, mss: 1_460, next_send: None }
}

/// To a microsecond.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

fn paced(config: Config, segments: u32) -> Script {
    Script::open(tcp::Config {
        congestion: Congestion {
            algorithm: Algorithm::TcpAp(config),
            initial_window: InitialWindow::Segments(segments),
            ..Congestion::default()
        },
        ..plain()
    })
}

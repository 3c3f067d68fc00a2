//! The link stays busy under every TCP, and what is sparse does not wait.

use std::time::Duration;

use tcp::{Algorithm, Config};

use super::link::Bottleneck;

const START: Duration = Duration::from_secs(2);
const SPAN: Duration = Duration::from_secs(20);

#[test]
fn one_flow_keeps_the_link_busy_and_waits_for_little_more_than_a_round_trip() {
    for (name, config) in tcps() {
        let delay = Duration::from_millis(50);
        let mut link = Bottleneck::new(delay, &[config]).with_pings();

        let first = link.run(START, SPAN);
        let later = link.run(Duration::ZERO, SPAN);

        assert!(first.busy > 0.99 && later.busy > 0.99, "{name}: {first:?} {later:?}");
        assert!(first.max_wait < 8 * delay, "{name}: {first:?}");
        assert!(later.mean_wait < delay * 5 / 2, "{name}: {later:?}");
        assert!(later.max_wait < 3 * delay, "{name}: {later:?}");
        assert!(later.max_ping < Duration::from_millis(2), "a packet is sent: {later:?}");
        assert!(later.signals > 0, "{name}: {later:?}");
    }
}

#[test]
fn several_flows_share_a_busy_link() {
    for (name, config) in tcps() {
        let mut link = Bottleneck::new(Duration::from_millis(20), &[config; 4]).with_pings();

        let seen = link.run(START, SPAN);

        let (least, most) = seen.received;
        assert!(seen.busy > 0.99, "{name}: {seen:?}");
        assert!(least as f64 > 0.95 * most as f64, "{name}: {seen:?}");
        assert!(seen.max_ping < Duration::from_millis(4), "{name}: {seen:?}");
    }
}

#[test]
fn a_short_path_is_kept_busy_by_small_windows() {
    for (name, config) in tcps() {
        let mut link = Bottleneck::new(Duration::from_millis(5), &[config; 2]);

        let seen = link.run(START, SPAN);

        assert!(seen.busy > 0.99, "{name}: {seen:?}");
    }
}

#[test]
fn packets_held_back_for_order_leave_the_link_busy() {
    for (name, config) in tcps() {
        let delay = Duration::from_millis(50);
        let mut link = Bottleneck::new(delay, &[config]).with_stalls(delay);

        let seen = link.run(START, SPAN);

        assert!(seen.busy > 0.99, "{name}: {seen:?}");
    }
}

/// BBR does not answer single losses, and keeps up to that much in flight.
#[test]
fn a_window_of_two_round_trips_is_left_alone() {
    let receive_buffer = 250_000;
    let config = Config { receive_buffer, ..tcp(Algorithm::default(), false) };
    let mut link = Bottleneck::new(Duration::from_millis(50), &[config]);

    let seen = link.run(START, SPAN);

    assert!(seen.busy > 0.99 && seen.signals == 0, "{seen:?}");
}

fn tcps() -> [(&'static str, Config); 4] {
    [
        ("reno", tcp(Algorithm::default(), false)),
        ("reno with ecn", tcp(Algorithm::default(), true)),
        ("cubic", tcp(Algorithm::CUBIC, false)),
        ("cubic with ecn", tcp(Algorithm::CUBIC, true)),
    ]
}

fn tcp(algorithm: Algorithm, ecn: bool) -> Config {
    let mut config = Config { receive_buffer: 4 << 20, ..Config::default() };
    config.congestion.algorithm = algorithm;
    config.offer.ecn = ecn;
    config
}

//! Stations that always have something to send.

use super::bianchi::{Counting, saturation};
use super::*;

#[test]
fn saturated_stations_share_the_channel_as_the_model_says() {
    let threshold = |rts_threshold| Config { rts_threshold, ..Config::default() };
    for (config, bound) in [(threshold(0), 0.003), (threshold(65_535), 0.005)] {
        for stations in [1, 2, 5, 10, 20] {
            let model = saturation(&config, stations, 1_500, Counting::Frozen);
            let bianchi = saturation(&config, stations, 1_500, Counting::Down);

            let (rate, collision) = measured(config, stations);

            let off = rate / model.octets_per_s - 1.0;
            let text = format!(
                "{stations} stations: {rate:.0} octets/s, {:+.2} % from the model, {:+.2} % from Bianchi's; \
                 collisions {collision:.4}, {:.4}, {:.4}",
                off * 100.0,
                (rate / bianchi.octets_per_s - 1.0) * 100.0,
                model.collision,
                bianchi.collision,
            );
            assert!(off.abs() < bound, "{text}");
            assert!((rate / bianchi.octets_per_s - 1.0).abs() < 0.05, "{text}");
        }
    }
}

#[test]
fn stations_that_hear_each_other_get_the_same_share() {
    let net = crowd(Config::default(), 5, 100);

    let shares: Vec<_> = net.counts[..5].iter().map(|[sent, ..]| *sent as f64).collect();

    let mean = shares.iter().sum::<f64>() / 5.0;
    // 2,500 packets each, with a deviation of some 50.
    assert!(shares.iter().all(|share| (share / mean - 1.0).abs() < 0.1), "{shares:?}");
}

/// Octets a second that arrive, and the share of attempts that fail.
fn measured(config: Config, stations: u32) -> (f64, f64) {
    const SECONDS: u64 = 300;
    let net = crowd(config, stations, SECONDS);
    let received = net.counts.last().unwrap()[2];
    let total = net.medium.total();
    let (attempts, failures) = if config.rts_threshold == 0 {
        (total.rts, total.rts_failures)
    } else {
        (total.data, total.data_failures)
    };
    (received as f64 * 1_500.0 / SECONDS as f64, failures as f64 / attempts as f64)
}

/// Stations at one place that all send to the last.
fn crowd(config: Config, stations: u32, seconds: u64) -> Net {
    let stations = stations as usize;
    let mut net = Net::new(config, &vec![(0.0, 0.0); stations + 1]);
    net.medium.observe(false);
    for station in 0..stations {
        net.send(station, Some(stations), 1_500, u64::MAX);
    }
    net.run(secs(seconds));
    net
}

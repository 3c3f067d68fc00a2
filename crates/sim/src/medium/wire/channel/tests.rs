//! The channel against arithmetic and against theory.

use std::time::Duration;

use base::quantity::{BitRate, Probability};
use base::rng::Rng;
use base::time::Time;
use proptest::prelude::*;

use super::*;

#[test]
fn a_packet_takes_its_serialisation_and_the_delay() {
    let mut channel = channel(Config {
        rate: rate(300_000),
        delay: Duration::from_millis(50),
        ..Config::default()
    });

    let sent = channel.transmit(at_ms(1_000), 1_500);

    assert_eq!(sent, Transmission { idle_at: at_ms(1_040), arrives_at: Some(at_ms(1_090)) });
}

#[test]
fn packets_wait_for_those_before_them() {
    let mut channel = channel(Config { rate: rate(8_000), ..Config::default() });

    let idle_at = [0, 0, 1, 10, 10].map(|now| channel.transmit(at_ms(now), 2).idle_at);

    assert_eq!(idle_at, [2, 4, 6, 12, 14].map(at_ms));
}

#[test]
fn a_change_holds_for_what_is_sent_after_it() {
    let slow = Config { rate: rate(8_000), delay: Duration::from_millis(50), ..Config::default() };
    let mut channel = channel(slow.clone());
    let before = channel.transmit(Time::ZERO, 10);

    let down = at_ms(30)..at_ms(40);
    let outages = Outages::new(vec![down]).expect("one span");
    let delay = Duration::from_millis(5);
    channel.change(Config { rate: rate(80_000), delay, outages, ..slow });
    let after = channel.transmit(at_ms(1), 10);
    let in_outage = channel.transmit(at_ms(31), 10);

    assert_eq!(before, Transmission { idle_at: at_ms(10), arrives_at: Some(at_ms(60)) });
    assert_eq!(after, Transmission { idle_at: at_ms(11), arrives_at: Some(at_ms(16)) });
    assert_eq!(in_outage.arrives_at, None);
}

#[test]
fn framing_takes_time_too() {
    let mut channel = channel(Config { rate: rate(8_000), framing: 3, ..Config::default() });

    let sent = channel.transmit(Time::ZERO, 2);

    assert_eq!(sent.idle_at, at_ms(5));
}

#[test]
fn framing_is_added_to_each_frame_of_a_packet() {
    let framing = Config { rate: rate(8_000), framing: 9, frame: Some(128), ..Config::default() };
    let mut channel = channel(framing);

    let idle_at = [1, 128, 129, 524].map(|octets| {
        let before = channel.idle_at();
        channel.transmit(before, octets).idle_at.since(before).as_millis()
    });

    assert_eq!(idle_at, [1 + 9, 128 + 9, 129 + 18, 524 + 45]);
}

#[test]
fn who_finds_the_link_idle_waits_for_its_slot_and_who_finds_it_busy_follows() {
    let mut waits = Duration::ZERO;
    for seed in 0..400 {
        let slots = Config { rate: rate(480), slots: Duration::from_secs(1), ..Config::default() };
        let mut channel = Channel::new(slots, Rng::stream(seed, "channel"));

        let first = channel.transmit(at_ms(10_000), 60);
        let second = channel.transmit(at_ms(10_100), 30);
        let third = channel.transmit(second.idle_at, 60);
        let later = channel.transmit(at_ms(20_000), 60);

        // 60 octets are what a second has.
        let wait = first.idle_at.since(at_ms(11_000));
        assert!(wait < Duration::from_secs(1), "{wait:?}");
        assert_eq!(second.idle_at, first.idle_at + Duration::from_millis(500));
        assert_eq!(third.idle_at, second.idle_at + Duration::from_secs(1));
        // Slots are where they were.
        assert_eq!(later.idle_at, first.idle_at + Duration::from_secs(10));
        waits += wait;
    }

    // Uniform between 0 and 1 s: five standard errors.
    let mean = waits.as_secs_f64() / 400.0;
    assert!((mean - 0.5).abs() < 5.0 * (1.0_f64 / 12.0 / 400.0).sqrt(), "{mean}");
}

#[test]
fn rounding_does_not_add_up() {
    // 1 octet at 7 bit/s: 8/7 s, not a whole number of nanoseconds.
    let mut channel = channel(Config { rate: rate(7), ..Config::default() });

    let mut idle_at = Time::ZERO;
    for _ in 0..7_000 {
        idle_at = channel.transmit(idle_at, 1).idle_at;
    }

    assert_eq!(idle_at, Time::ZERO + Duration::from_secs(8_000));
}

#[test]
fn without_a_rate_sending_takes_no_time() {
    let mut channel = channel(Config { delay: Duration::from_millis(5), ..Config::default() });

    let sent = channel.transmit(at_ms(3), 1_000_000);

    assert_eq!(sent, Transmission { idle_at: at_ms(3), arrives_at: Some(at_ms(8)) });
}

#[test]
fn jitter_is_uniform_around_the_delay() {
    let mut channel = channel(Config {
        delay: Duration::from_millis(50),
        jitter: Duration::from_millis(20),
        reorder: true,
        ..Config::default()
    });

    let delays: Vec<f64> = (0..10_000)
        .map(|k| channel.transmit(at_ms(k), 100).arrives_at.unwrap().since(at_ms(k)).as_secs_f64())
        .collect();

    let mean = delays.iter().sum::<f64>() / 10_000.0;
    let variance = delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 10_000.0;
    assert!(delays.iter().all(|d| (0.030..0.070).contains(d)));
    // Five standard errors: sigma = 40 ms / sqrt(12), a hundredth of that over 10,000 packets.
    assert!((mean - 0.050).abs() < 5.0 * 0.000_115_5, "{mean}");
    assert!((variance.sqrt() - 0.011_547).abs() < 0.000_3, "{variance}");
}

#[test]
fn jitter_keeps_the_order_unless_told_otherwise() {
    let arrivals = |reorder| {
        let jitter = Duration::from_millis(20);
        let config = Config { delay: jitter, jitter, reorder, ..Config::default() };
        let mut channel = channel(config);
        (0..1_000).map(|k| channel.transmit(at_ms(k), 100).arrives_at.unwrap()).collect::<Vec<_>>()
    };

    assert!(arrivals(false).is_sorted());
    assert!(!arrivals(true).is_sorted());
}

#[test]
fn jitter_leaves_the_mean_delay_whatever_the_order_and_the_gaps() {
    // Milliseconds from packet to packet, and how many packets.
    for (reorder, gap, count) in [
        (false, 0.01_f64, 2_000_000_u32),
        (false, 1.0, 2_000_000),
        (false, 45.0, 44_444),
        (true, 0.01, 2_000_000),
        (true, 45.0, 44_444),
    ] {
        let (delay, jitter) = (Duration::from_millis(50), Duration::from_millis(20));
        let mut channel = channel(Config { delay, jitter, reorder, ..Config::default() });

        let delays = (0..count).map(|k| {
            let at = Time::ZERO + Duration::from_millis(1).mul_f64(gap).saturating_mul(k);
            channel.transmit(at, 100).arrives_at.unwrap().since(at).as_secs_f64()
        });
        let (mut sum, mut least, mut most) = (0.0, f64::MAX, 0.0_f64);
        for delay in delays {
            (sum, least, most) = (sum + delay, least.min(delay), most.max(delay));
        }

        // Some 500 independent draws at least, of 11.5 ms each: five standard errors are 2.6 ms.
        let mean = sum / f64::from(count);
        assert!((mean - 0.050).abs() < 0.002_6, "{reorder} {gap}: {mean}");
        assert!(least >= 0.030 && most <= 0.070, "{least} {most}");
        assert!(most - least > 0.035, "{least} {most}");
    }
}

#[test]
fn a_jitter_beyond_the_delay_is_refused() {
    let delay = Duration::from_millis(10);
    let check = |jitter| Config { delay, jitter, ..Config::default() }.check();

    assert_eq!(check(delay), Ok(()));
    let error = check(Duration::from_millis(50)).unwrap_err();
    let expected = "jitter 50ms is more than delay 10ms: nothing arrives before it is sent";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn jitter_does_not_change_which_packets_are_lost() {
    let lost = |jitter| {
        let loss = Loss::random(probability(0.3));
        let mut channel = channel(Config { jitter, loss, ..Config::default() });
        (0..1_000).map(|_| channel.transmit(Time::ZERO, 100).arrives_at.is_none()).collect()
    };

    let (calm, jittery): (Vec<bool>, Vec<bool>) = (lost(Duration::ZERO), lost(Duration::MAX / 4));

    assert_eq!(calm, jittery);
}

#[test]
fn random_loss_has_its_mean_and_no_memory() {
    for p in [0.01, 0.1, 0.5, 0.9] {
        let lost = losses(Loss::random(probability(p)), 100_000);

        let runs = bursts(&lost);
        assert_near(share(&lost), p, (p * (1.0 - p) / 100_000.0).sqrt());
        // Bursts of independent losses are geometric: mean 1/q, standard deviation sqrt(p)/q.
        let q = 1.0 - p;
        assert_near(mean(&runs), 1.0 / q, p.sqrt() / q / (runs.len() as f64).sqrt());
    }
}

#[test]
fn gilbert_elliott_has_its_mean_and_its_bursts() {
    for (p, burst) in [(0.1, 4.0), (0.3, 10.0), (0.05, 1.0), (0.01, 2.5)] {
        let chain = GilbertElliott::from_bursts(probability(p), burst).unwrap();

        let lost = losses(Loss::GilbertElliott(chain), 400_000);

        let runs = bursts(&lost);
        assert_near(mean(&runs), burst, sigma_of_geometric(burst) / (runs.len() as f64).sqrt());
        assert_near(share(&lost), p, standard_error(&chain, 400_000.0));
        assert!((chain.mean() - p).abs() < 1e-12);
    }
}

#[test]
fn gilbert_elliott_with_raw_parameters_mixes_two_losses() {
    let chain = GilbertElliott {
        p: probability(0.02),
        r: probability(0.2),
        h: probability(0.4),
        k: probability(0.99),
    };

    let lost = losses(Loss::GilbertElliott(chain), 400_000);

    // One eleventh of the packets meet the bad state.
    let expected = (10.0 * 0.01 + 0.6) / 11.0;
    assert!((chain.mean() - expected).abs() < 1e-12);
    assert_near(share(&lost), expected, standard_error(&chain, 400_000.0));
}

#[test]
fn gilbert_elliott_starts_in_the_long_run() {
    let chain = GilbertElliott::from_bursts(probability(0.2), 50.0).unwrap();

    let config = Config { loss: Loss::GilbertElliott(chain), ..Config::default() };

    let first = |seed| {
        let mut channel = Channel::new(config.clone(), Rng::stream(seed, "first"));
        channel.transmit(Time::ZERO, 100).arrives_at.is_none()
    };
    let lost: Vec<bool> = (0..10_000).map(first).collect();
    assert_near(share(&lost), 0.2, 0.004);
}

#[test]
fn fades_have_their_mean_and_their_length_in_time() {
    let length = Duration::from_millis(20);
    let mut lengths = Vec::new();
    let mut shares = Vec::new();
    // Ten packets a millisecond, and one in three: as long either way.
    for every in [100_u32, 3_000] {
        let loss = Loss::Fades(Fades::new(probability(0.1), length).unwrap());
        let mut channel = channel(Config { loss, ..Config::default() });
        let step = Duration::from_micros(u64::from(every));
        let lost: Vec<bool> = (0..40_000_000 / every)
            .map(|k| channel.transmit(Time::ZERO + step * k, 100).arrives_at.is_none())
            .collect();
        shares.push(share(&lost));
        lengths.push(mean(&bursts(&lost)) * f64::from(every) / 1e3);
    }

    // Some 200 fades: their share varies by a tenth or less.
    assert!(shares.iter().all(|share| (0.08..0.12).contains(share)), "{shares:?}");
    assert!((shares[0] - shares[1]).abs() < 0.01, "{shares:?}");
    assert!(lengths.iter().all(|length| (19.0..23.0).contains(length)), "{lengths:?}");
}

#[test]
fn a_long_silence_passes_fades_by() {
    let fades = Fades::new(probability(0.2), Duration::from_millis(20)).unwrap();
    let config = Config { loss: Loss::Fades(fades), ..Config::default() };
    let mut channel = channel(config);

    let lost: Vec<bool> =
        (0..10_000).map(|k| channel.transmit(at_ms(1_000 * k), 100).arrives_at.is_none()).collect();

    assert_near(share(&lost), 0.2, 0.004);
}

#[test]
fn a_trace_repeats() {
    let loss = Loss::Trace([true, false, false].into());

    assert_eq!(losses(loss, 7), [true, false, false, true, false, false, true]);
}

#[test]
fn an_outage_loses_what_it_touches() {
    let outages = Outages::new([at_ms(10)..at_ms(20), at_ms(30)..at_ms(31)]).unwrap();
    let config = Config { rate: rate(8_000), outages: outages.clone(), ..Config::default() };
    let mut channel = channel(config);

    let arrives = [0, 8, 9, 15, 19, 20, 25, 28, 29, 40]
        .map(|now| (now, channel.transmit(at_ms(now), 2).arrives_at.is_some()));

    let lost = arrives.into_iter().filter(|(_, arrives)| !arrives).map(|(now, _)| now);
    // 9 waits for 8 and starts at 10; 20 waits for 19; 29 waits for 28 and starts at 30.
    assert_eq!(lost.collect::<Vec<_>>(), [9, 15, 19, 29]);
    assert!(outages.is_down(at_ms(10)) && !outages.is_down(at_ms(20)));
    assert_eq!(outages.next_change(at_ms(9)), Some(at_ms(10)));
    assert_eq!(outages.next_change(at_ms(10)), Some(at_ms(20)));
    assert_eq!(outages.next_change(at_ms(31)), None);
}

#[test]
fn outages_are_in_order_and_apart() {
    let (one, two) = (at_ms(1), at_ms(2));

    assert_eq!(Outages::new([one..one]), Err(BadOutages::Empty { at: one }));
    assert_eq!(Outages::new([one..two, two..at_ms(3)]), Err(BadOutages::Order { at: two }));
}

#[test]
fn losses_read_as_people_write_them() {
    let chain = GilbertElliott::from_bursts(probability(0.1), 4.0).unwrap();

    assert_eq!("none".parse(), Ok(Loss::None));
    assert_eq!("0%".parse(), Ok(Loss::None));
    assert_eq!("10%".parse(), Ok(Loss::Random(probability(0.1))));
    let fades = Fades::new(probability(0.1), Duration::from_millis(20)).unwrap();
    let text = "fades(mean=10%,length=20ms)";
    assert_eq!(text.parse(), Ok(Loss::Fades(fades)));
    assert_eq!(Loss::Fades(fades).to_string(), text);
    assert_eq!("trace(010)".parse(), Ok(Loss::Trace([false, true, false].into())));
    let text = "gilbert-elliott(mean=10%, burst=4)";
    assert_eq!(text.parse(), Ok(Loss::GilbertElliott(chain)));
    let text = "gilbert-elliott(p=1%,r=25%,h=0%,k=100%)";
    assert_eq!(text.parse::<Loss>().map(|loss| loss.to_string()).as_deref(), Ok(text));
}

#[test]
fn an_impossible_loss_is_refused_with_the_reason() {
    let error = |text: &str| text.parse::<Loss>().unwrap_err();

    assert_eq!(error("gilbert-elliott(mean=90%,burst=2)"), BadLoss::Mean);
    assert_eq!(error("gilbert-elliott(mean=100%,burst=2)"), BadLoss::Mean);
    assert_eq!(error("gilbert-elliott(mean=10%,burst=0.5)"), BadLoss::Burst);
    assert_eq!(error("gilbert-elliott(mean=10%)"), BadLoss::Parameters);
    assert_eq!(error("gilbert-elliott(mean=1%,mean=2%,burst=2)"), BadLoss::Parameters);
    assert_eq!(error("gilbert-elliott(mean=10%,burst=4,p=1%)"), BadLoss::Parameters);
    assert_eq!(error("fades(mean=100%,length=20ms)"), BadLoss::Fades);
    assert_eq!(error("fades(mean=10%,length=0)"), BadLoss::Fades);
    assert_eq!(error("fades(mean=10%)"), BadLoss::Fades);
    assert_eq!(error("trace()"), BadLoss::Trace);
    assert_eq!(error("trace(01x)"), BadLoss::Trace);
    assert!(matches!(error("120%"), BadLoss::Probability(_)));
    let question = "1 is not clear: 100% or 1%? Write \"100%\" or \"1%\"";
    assert_eq!(error("1").to_string(), question);
    assert!(matches!(error("sometimes"), BadLoss::Model { .. }));
    assert!(matches!(error("uniform(3)"), BadLoss::Model { .. }));
}

#[test]
fn repeating_at_once_without_loss_is_the_plain_link() {
    let sent = |repeat_at_once| {
        let config = Config {
            rate: rate(300_000),
            delay: Duration::from_millis(50),
            jitter: Duration::from_millis(7),
            framing: 2,
            repeat_at_once,
            ..Config::default()
        };
        let mut channel = channel(config);
        (0..1_000).map(|k| channel.transmit(at_ms(k * 11), 588)).collect::<Vec<_>>()
    };

    assert_eq!(sent(true), sent(false));
}

#[test]
fn what_is_repeated_takes_a_whole_number_of_sendings_in_order() {
    // 100 octets take 100 ms. Lost: the first try of the first, the first two of the second.
    let loss: Loss = "trace(101100)".parse().unwrap();
    let config = Config {
        rate: rate(8_000),
        delay: Duration::from_millis(5),
        loss,
        repeat_at_once: true,
        ..Config::default()
    };
    let mut channel = channel(config);

    let arrivals = [0, 0, 0].map(|now| channel.transmit(at_ms(now), 100).arrives_at);

    assert_eq!(arrivals, [200, 500, 600].map(|sent| Some(at_ms(sent + 5))));
}

#[test]
fn a_link_that_repeats_carries_what_a_lossy_link_brings_over() {
    const PACKETS: u32 = 20_000;
    for p in [0.05, 0.3] {
        let loss = Loss::random(probability(p));
        let repeating =
            Config { rate: rate(800_000), loss, repeat_at_once: true, ..Config::default() };
        let mut channel = channel(repeating);

        let idle_at = (0..PACKETS).map(|_| channel.transmit(Time::ZERO, 100).idle_at).last();

        // Each takes 1 ms and a geometric number of tries.
        let tries = idle_at.unwrap().as_secs_f64() * 1e3 / f64::from(PACKETS);
        let error = p.sqrt() / (1.0 - p) / f64::from(PACKETS).sqrt();
        assert!((tries - 1.0 / (1.0 - p)).abs() < 4.0 * error, "{tries} at {p}");
    }
}

#[test]
fn where_everything_is_lost_repeating_has_an_end() {
    let loss = Loss::random(Probability::ONE);
    let mut channel =
        channel(Config { rate: rate(8_000), loss, repeat_at_once: true, ..Config::default() });

    let sent = channel.transmit(Time::ZERO, 1);

    assert_eq!(sent.arrives_at, Some(at_ms(u64::from(MAX_TRIES))));
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn a_link_that_repeats_never_loses_nor_reorders(
        p in 0.0_f64..0.95,
        octets in prop::collection::vec(1_usize..1_500, 1..50),
    ) {
        let loss = Loss::random(probability(p));
        let mut channel =
            channel(Config { rate: rate(300_000), loss, repeat_at_once: true, ..Config::default() });

        let arrivals: Vec<Option<Time>> =
            octets.iter().map(|octets| channel.transmit(Time::ZERO, *octets).arrives_at).collect();

        prop_assert!(arrivals.iter().all(Option::is_some));
        prop_assert!(arrivals.is_sorted());
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn time_only_goes_forward(
        bits in 1_u64..10_000_000_000,
        jitter in 0_u64..100_000_000,
        seed: u64,
        packets in prop::collection::vec((0_u64..10_000_000, 0_usize..70_000), 1..100),
    ) {
        let mut channel = Channel::new(
            Config {
                rate: rate(bits),
                delay: Duration::from_millis(10),
                jitter: Duration::from_nanos(jitter),
                loss: Loss::random(probability(0.2)),
                ..Config::default()
            },
            Rng::stream(seed, "property"),
        );

        let (mut now, mut idle, mut latest) = (Time::ZERO, Time::ZERO, Time::ZERO);
        for (gap, octets) in packets {
            now += Duration::from_nanos(gap);
            let sent = channel.transmit(now, octets);
            let earliest = now.max(idle) + rate(bits).time_for(octets);
            let error = earliest.since(sent.idle_at) + sent.idle_at.since(earliest);
            prop_assert!(error <= Duration::from_nanos(1));
            idle = sent.idle_at;
            if let Some(arrival) = sent.arrives_at {
                prop_assert!(arrival >= idle && arrival >= latest);
                latest = arrival;
            }
        }
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in ".{0,40}") {
        let _ = text.parse::<Loss>();
        let _ = text.parse::<BitRate>();
        let _ = text.parse::<base::quantity::Span>();
    }
}

fn channel(config: Config) -> Channel {
    Channel::new(config, Rng::stream(1, "channel test"))
}

fn losses(loss: Loss, packets: usize) -> Vec<bool> {
    let mut channel = channel(Config { loss, ..Config::default() });
    (0..packets).map(|_| channel.transmit(Time::ZERO, 100).arrives_at.is_none()).collect()
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
}

/// The lengths of the runs of losses.
fn bursts(lost: &[bool]) -> Vec<f64> {
    lost.chunk_by(|a, b| a == b).filter(|run| run[0]).map(|run| run.len() as f64).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn sigma_of_geometric(mean: f64) -> f64 {
    (mean * (mean - 1.0)).sqrt()
}

/// Of the share lost over so many packets: the chain's memory 1 - p - r widens it.
fn standard_error(chain: &GilbertElliott, packets: f64) -> f64 {
    let memory = 1.0 - chain.p.get() - chain.r.get();
    let m = chain.mean();
    (m * (1.0 - m) / packets * (1.0 + memory) / (1.0 - memory)).sqrt()
}

/// Within four standard errors, which a right model misses once in 16,000 seeds.
fn assert_near(measured: f64, expected: f64, standard_error: f64) {
    let bound = 4.0 * standard_error + 1e-12;
    assert!((measured - expected).abs() <= bound, "{measured}, not {expected} ± {bound}");
}

fn rate(bits: u64) -> BitRate {
    BitRate::from_bits_per_s(bits).unwrap()
}

fn probability(p: f64) -> Probability {
    Probability::new(p).unwrap()
}

fn at_ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

//! Tests of the medium's timing and error rates, and of the requirements of the standard.

use base::time::Time;
use hf::modem::{Event, Waveform};

use super::*;

const A: StationId = StationId(0);
const B: StationId = StationId(1);
const C: StationId = StationId(2);

#[test]
fn a_transmission_lasts_as_long_as_its_waveform_requires() {
    let mut medium = medium(Channel::Clear, 2);
    let waveform = waveform("9600/short");
    let octets: Vec<u8> = (0..2_000_u32).map(|n| (n % 251) as u8).collect();

    medium.start(Time::ZERO, A, waveform);
    let story = drive(&mut medium, &mut [Some(octets.clone()), None], Time::MAX);

    // Keyed 100 ms, preamble 119.583 ms, 2 blocks of 1.08 s; 5 ms on the way, 50 ms to decode.
    let expected = [
        "0.224583333 B detects 9600/short",
        "1.354583333 B gets 1296",
        "2.399583333 A sent",
        "2.434583333 B gets 704",
        "2.434583333 B lost",
    ];
    assert_eq!(story.lines, expected);
    assert_eq!(story.received[1], octets);
    assert_eq!(medium.stats(A).blocks, 2);
}

#[test]
fn octets_are_requested_shortly_before_their_block() {
    let mut medium = medium(Channel::Clear, 2);
    let waveform = waveform("1200/short");
    let mut asked = Vec::new();
    let mut now = Time::ZERO;

    medium.start(now, A, waveform);
    while let Some(next) = medium.next_timeout() {
        now = next;
        medium.handle_timeout(now);
        let room = medium.room(A);
        if room > 0 {
            asked.push((now.as_nanos() / 1_000_000, room));
            medium.supply(A, &vec![1; room]);
            if asked.len() == 3 {
                medium.end(A);
            }
        }
    }

    // Block 0 begins at 0.7 s.
    assert_eq!(asked, [(650, 90), (1_250, 90), (1_850, 90)]);
    // The end of message and the flush need one more block.
    assert_eq!(medium.stats(A).blocks, 4);
}

#[test]
fn a_station_that_is_late_sends_zeros() {
    let mut medium = medium(Channel::Clear, 2);

    medium.start(Time::ZERO, A, waveform("2400/short"));
    medium.handle_timeout(Time::from_nanos(680_000_000));
    medium.supply(A, &[9; 100]);
    medium.handle_timeout(Time::from_nanos(1_400_000_000));
    medium.end(A);
    let story = drive(&mut medium, &mut [None, None], Time::MAX);

    assert_eq!(medium.stats(A).underrun_octets, 80 + 180);
    assert_eq!(story.received[1], [vec![9; 100], vec![0; 260]].concat());
}

#[test]
fn a_transmitting_station_hears_nothing_and_two_transmissions_collide() {
    let mut medium = medium(Channel::Clear, 3);
    let octets = vec![5; 1_000];

    medium.start(Time::ZERO, A, waveform("9600/short"));
    medium.start(Time::ZERO, B, waveform("9600/short"));
    let story = drive(&mut medium, &mut [Some(octets.clone()), Some(octets), None], Time::MAX);

    let expected = [
        "0.224583333 C detects something",
        "1.319583333 A sent",
        "1.319583333 B sent",
        "1.354583333 C lost",
    ];
    assert_eq!(story.lines, expected);
    assert_eq!(medium.stats(C).unreadable, 1);
}

#[test]
fn a_collision_corrupts_only_the_blocks_that_overlap() {
    let mut medium = medium(Channel::Clear, 3);
    let waveform = waveform("9600/short");
    let ours = vec![5; waveform.octets(4)];

    medium.start(Time::ZERO, A, waveform);
    let mut waiting = [Some(ours.clone()), None, None];
    // Halfway into block 1 of A; short enough to end inside block 2.
    let mut story = drive(&mut medium, &mut waiting, Time::from_nanos(1_800_000_000));
    medium.start(Time::from_nanos(1_800_000_000), B, waveform);
    waiting[1] = Some(vec![6; 100]);
    story.extend(drive(&mut medium, &mut waiting, Time::MAX));

    let heard = &story.received[2];
    let block = 1_296;
    assert_eq!(heard.len(), ours.len());
    assert_eq!(heard[..block], ours[..block]);
    assert_ne!(heard[block..2 * block], ours[block..2 * block]);
    assert_ne!(heard[2 * block..3 * block], ours[2 * block..3 * block]);
    assert_eq!(heard[3 * block..], ours[3 * block..]);
    assert_eq!(medium.path_stats(A, C).collided_blocks, 2);
    // B was receiving A until it transmitted, and finds A still there when it listens again.
    assert_eq!(medium.stats(B).receptions_cut, 1);
    assert!(story.lines.contains(&"3.119583333 B detects something".to_owned()));
}

#[test]
fn a_station_out_of_range_hears_nothing_and_causes_no_collision() {
    let mut medium = medium(Channel::Clear, 3);
    medium.set_channel(B, C, Channel::Silent);
    let octets = vec![5; 1_000];

    medium.start(Time::ZERO, A, waveform("9600/short"));
    medium.start(Time::ZERO, B, waveform("9600/short"));
    let story = drive(&mut medium, &mut [Some(octets.clone()), Some(vec![6; 9]), None], Time::MAX);

    assert_eq!(story.received[2], octets);
}

#[test]
fn the_bit_error_rate_is_the_configured_one() {
    for (ber, octets) in [(1e-5, 6_000_000), (1e-3, 500_000), (0.1, 100_000)] {
        let mut medium = medium(Channel::Ber(ber), 2);
        let sent = vec![0x5a; octets];

        medium.start(Time::ZERO, A, waveform("240000/long"));
        let story = drive(&mut medium, &mut [Some(sent.clone()), None], Time::MAX);

        let got = &story.received[1][..octets];
        let wrong: u32 = got.iter().zip(&sent).map(|(a, b)| (a ^ b).count_ones()).sum();
        let expected = ber * octets as f64 * 8.0;
        // Four standard deviations.
        let margin = 4.0 * expected.sqrt();
        assert!((f64::from(wrong) - expected).abs() < margin, "{ber}: {wrong} {expected}");
        let all = medium.path_stats(A, B);
        assert!(all.wrong_bits >= u64::from(wrong));
    }
}

#[test]
fn a_clear_channel_has_no_errors_and_noise_has_those_of_the_curve() {
    let errors = |channel| {
        let mut medium = medium(channel, 2);
        medium.start(Time::ZERO, A, waveform("9600/short"));
        drive(&mut medium, &mut [Some(vec![0; 1_000_000]), None], Time::MAX);
        let stats = medium.path_stats(A, B);
        stats.wrong_bits as f64 / stats.bits as f64
    };

    assert!(errors(Channel::Clear) == 0.0);
    let at_requirement = errors(Channel::Awgn { snr_db: 21.0 });
    assert!((0.5e-5..2e-5).contains(&at_requirement), "{at_requirement}");
    assert!(errors(Channel::Awgn { snr_db: 25.0 }) == 0.0);
    assert!(errors(Channel::Awgn { snr_db: 18.0 }) > 0.01);
}

#[test]
fn the_requirement_for_the_poor_channel_is_met_with_the_longest_interleaver() {
    let rates = [("2400/long", 18.0), ("4800/very-long", 19.0), ("9600/very-long", 31.0)];
    for (name, snr_db) in rates {
        let (mut wrong, mut bits) = (0, 0);
        for seed in 0..5 {
            let config = Config { channel: Channel::poor(snr_db), ..Config::default() };
            let mut medium = Medium::new(config, 2, seed);
            let waveform = waveform(name);
            medium.start(Time::ZERO, A, waveform);
            let octets = vec![0; waveform.octets(300)];
            drive(&mut medium, &mut [Some(octets), None], Time::MAX);
            wrong += medium.path_stats(A, B).wrong_bits;
            bits += medium.path_stats(A, B).bits;
        }
        let ber = wrong as f64 / bits as f64;
        // Rare deep fades make most of the errors, so the estimate is rough.
        assert!(ber < 2e-4, "{name}: {ber}");
    }
}

#[test]
fn a_longer_interleaver_and_a_better_channel_lower_the_error_rate() {
    let errors = |channel, name| {
        let (mut wrong, mut bits) = (0, 0);
        for seed in 0..10 {
            let config = Config { channel, ..Config::default() };
            let mut medium = Medium::new(config, 2, seed);
            medium.start(Time::ZERO, A, waveform(name));
            drive(&mut medium, &mut [Some(vec![0; 500_000]), None], Time::MAX);
            wrong += medium.path_stats(A, B).wrong_bits;
            bits += medium.path_stats(A, B).bits;
        }
        wrong as f64 / (bits as f64).max(1.0)
    };

    let short = errors(Channel::poor(28.0), "9600/ultra-short");
    let long = errors(Channel::poor(28.0), "9600/very-long");
    assert!(short > 3.0 * long, "{short} {long}");
    let weak = errors(Channel::poor(20.0), "9600/short");
    let strong = errors(Channel::poor(35.0), "9600/short");
    assert!(weak > 10.0 * strong, "{weak} {strong}");
}

#[test]
fn a_signal_in_the_noise_is_not_detected() {
    let mut medium = medium(Channel::Awgn { snr_db: -5.0 }, 2);

    medium.start(Time::ZERO, A, waveform("9600/short"));
    let story = drive(&mut medium, &mut [Some(vec![1; 100]), None], Time::MAX);

    assert_eq!(story.lines, ["1.319583333 A sent"]);
    assert_eq!(medium.path_stats(A, B).missed_preambles, 1);
}

#[test]
fn a_missed_end_of_message_is_noticed_a_block_later() {
    let mut medium = medium(Channel::Ber(0.5), 2);

    medium.start(Time::ZERO, A, waveform("9600/short"));
    let story = drive(&mut medium, &mut [Some(vec![1; 100]), None], Time::MAX);

    assert_eq!(medium.stats(B).missed_ends, 1);
    assert_eq!(story.received[1].len(), 1_296);
    assert_eq!(story.lines.last().unwrap(), "2.434583333 B lost");
}

#[test]
fn the_same_seed_gives_the_same_errors() {
    let run = |seed| {
        let config = Config { channel: Channel::moderate(22.0), ..Config::default() };
        let mut medium = Medium::new(config, 2, seed);
        medium.start(Time::ZERO, A, waveform("9600/short"));
        drive(&mut medium, &mut [Some(vec![0; 100_000]), None], Time::MAX).received
    };

    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

/// The events that stations got, as text.
#[derive(Default)]
struct Story {
    lines: Vec<String>,
    received: [Vec<u8>; 3],
}

impl Story {
    fn extend(&mut self, later: Self) {
        self.lines.extend(later.lines);
        for (all, more) in self.received.iter_mut().zip(later.received) {
            all.extend(more);
        }
    }
}

/// Runs until `end` or until no step is left; a station sends its waiting octets when it transmits.
fn drive(medium: &mut Medium, waiting: &mut [Option<Vec<u8>>], end: Time) -> Story {
    let mut story = Story::default();
    while let Some(now) = medium.next_timeout().filter(|&next| next <= end) {
        medium.handle_timeout(now);
        for (index, waiting) in waiting.iter_mut().enumerate() {
            let station = StationId(index);
            let room = medium.room(station);
            let Some(octets) = waiting.as_mut().filter(|_| room > 0) else { continue };
            let rest = octets.split_off(room.min(octets.len()));
            medium.supply(station, octets);
            *octets = rest;
            if octets.is_empty() {
                medium.end(station);
                *waiting = None;
            }
        }
        while let Some((StationId(index), event)) = medium.poll_event() {
            let name = ["A", "B", "C"][index];
            let what = match event {
                Event::CarrierDetected { waveform: Some(waveform) } => {
                    format!("detects {waveform}")
                }
                Event::CarrierDetected { waveform: None } => "detects something".to_owned(),
                Event::CarrierLost => "lost".to_owned(),
                Event::Received(octets) => {
                    story.received[index].extend(&octets);
                    format!("gets {}", octets.len())
                }
                Event::Sent => "sent".to_owned(),
            };
            story.lines.push(format!("{now} {name} {what}"));
        }
    }
    story
}

fn medium(channel: Channel, stations: usize) -> Medium {
    Medium::new(Config { channel, ..Config::default() }, stations, 1)
}

fn waveform(name: &str) -> Waveform {
    name.parse().unwrap()
}

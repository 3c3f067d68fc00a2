//! Simulates a day of eight stations: mixed loads, hours of a bad channel, and a station that dies twice.

use std::time::Duration;

use ::hf::s5066::cas::Access;
use base::rng::Rng;
use base::time::Time;
use sim::hf::{self, Channel};

use super::band::{Band, Message};
use super::books::{Books, Fate};

const STATIONS: u8 = 8;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// The station that dies.
const MORTAL: u8 = 5;
/// Most U_PDUs a client may have waiting here: its bursts and its other traffic.
const MOST_WAITING: usize = 60;

#[test]
fn a_day_with_slots() {
    let slotted = |position| Access::Slotted { position, stations: STATIONS };
    check("slotted", &slotted, 1);
}

#[test]
fn a_day_with_jitter() {
    let jitter = |_| Access::Jitter { limit: Duration::from_secs(8) };
    check("jitter", &jitter, 2);
}

#[test]
fn a_morning_is_a_function_of_its_seed() {
    let slotted = |position| Access::Slotted { position, stations: STATIONS };
    let story = |seed| {
        let mut band = band(&slotted, seed);
        live(&mut band, 3);
        let stats: Vec<String> =
            (0..STATIONS).map(|place| format!("{:?}", band.node(place).stats())).collect();
        (format!("{:?}", band.books), stats)
    };

    let first = story(3);
    assert_eq!(story(3), first);
    assert_ne!(story(4), first);
}

fn check(name: &str, access: &dyn Fn(u8) -> Access, seed: u64) {
    let mut band = band(access, seed);

    live(&mut band, 24);
    band.run_out(HOUR * 6);

    let damaged: u64 = (0..STATIONS).map(|place| band.node(place).stats().received.damaged).sum();
    assert!(damaged > 0, "{name}: the sky is bad for some hours");
    let books = &band.books;
    assert_eq!(books.faults(), Vec::<String>::new(), "{name}");
    assert_eq!(books.undecided(), 0, "{name}");
    assert_eq!(books.strays, 0, "{name}");
    assert!(band.most_waiting <= MOST_WAITING, "{name}: {}", band.most_waiting);
    let confirmed = books.count(Fate::Confirmed);
    assert!(confirmed * 10 > books.entries.len() * 8, "{name}: {confirmed}");
    // Before it dies, and after the sky has cleared.
    let bound = band.bound();
    for span in [(HOUR, HOUR * 4), (HOUR * 15, HOUR * 24)] {
        for place in 0..STATIONS {
            let (longest, turns) = longest_wait(books, place, span.0, span.1);
            assert!(turns > 5, "{name}, {place}: {turns}");
            assert!(longest <= bound, "{name}, {place}: {longest:?} of {bound:?}");
        }
    }
}

fn band(access: &dyn Fn(u8) -> Access, seed: u64) -> Band {
    Band::new(hf::Config::default(), "1200", STATIONS, seed, |place, config| {
        config.access = access(place);
    })
}

/// Lets stations send for so many hours.
fn live(band: &mut Band, hours: u32) {
    let mut load = Rng::stream(band.seed, "load");
    for minute in 0..hours * 60 {
        match minute {
            240 | 600 => band.kill(MORTAL),
            360 | 660 => band.revive(MORTAL),
            480 => band.set_channel(Channel::moderate(16.0)),
            840 => band.set_channel(Channel::Clear),
            _ => {}
        }
        // Some now and then, and a burst of one station each hour.
        for from in 0..STATIONS {
            if load.chance(1.0 / 12.0) {
                send(band, &mut load, from, 0);
            }
        }
        if minute % 60 == 30 {
            let from = u8::try_from(load.below(STATIONS.into())).expect("few stations");
            for _ in 0..15 {
                send(band, &mut load, from, 1_400);
            }
        }
        band.run_until(Time::ZERO + MINUTE * (minute + 1));
    }
}

fn send(band: &mut Band, load: &mut Rng, from: u8, len: usize) {
    let other = u8::try_from(load.below(u64::from(STATIONS) - 1)).expect("few stations");
    let short = 20 + usize::try_from(load.below(400)).expect("few");
    let message = Message {
        priority: u8::try_from(load.below(16)).expect("few"),
        is_expedited: len == 0 && load.chance(0.1),
        in_order: load.chance(0.5),
        ..Message::new(from, (from + 1 + other) % STATIONS, len.max(short))
    };
    band.send(message);
}

/// The longest time in which a station had a U_PDU for a living station and delivered none; and the number of
/// deliveries.
fn longest_wait(books: &Books, place: u8, from: Duration, until: Duration) -> (Duration, usize) {
    let (from, until) = (Time::ZERO + from, Time::ZERO + until);
    let entries = books.entries.iter().filter(|(key, entry)| {
        key.from == place && entry.to != MORTAL && (from..until).contains(&entry.sent_at)
    });
    // When one more waits, and when one arrived or was given up.
    let mut steps: Vec<(Time, bool)> = Vec::new();
    for (_, entry) in entries {
        steps.push((entry.sent_at, true));
        let end = entry.delivered.first().copied();
        steps.extend(end.or(entry.outcomes.first().map(|it| it.0)).map(|at| (at, false)));
    }
    steps.sort_unstable();
    let (mut waiting, mut since, mut longest, mut turns) = (0, Time::ZERO, Duration::ZERO, 0);
    for (at, is_new) in steps {
        if is_new {
            since = if waiting == 0 { at } else { since };
            waiting += 1;
        } else {
            longest = longest.max(at.since(since));
            since = at;
            waiting -= 1;
            turns += 1;
        }
    }
    (longest, turns)
}

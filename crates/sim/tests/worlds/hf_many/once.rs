//! Tests that collisions and losses on a shared frequency neither duplicate data nor confirm lost data.

use std::time::Duration;

use ::hf::s5066::cas::Access;
use base::rng::Rng;
use base::time::Time;
use sim::hf::{self, Channel, StationId};

use super::band::{Band, Message};
use super::books::Fate;

const STATIONS: u8 = 4;
const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn nothing_is_delivered_twice_or_confirmed_in_vain_where_transmissions_collide() {
    let jitter = |_| Access::Jitter { limit: Duration::from_millis(1_500) };
    let slotted = |position| Access::Slotted { position, stations: STATIONS };
    // For two stations only: four stations often spoil each other's transmissions.
    let plain = |_| Access::PointToPoint;
    let ways: [(&str, &dyn Fn(u8) -> Access); 3] =
        [("jitter", &jitter), ("slotted", &slotted), ("plain", &plain)];
    for (name, access) in ways {
        for seed in [7, 8] {
            let band = collide(access, seed);

            let books = &band.books;
            assert_eq!(books.faults(), Vec::<String>::new(), "{name}, {seed}");
            assert_eq!((books.undecided(), books.strays), (0, 0), "{name}, {seed}");
            let confirmed = books.count(Fate::Confirmed);
            let least = books.entries.len() / if name == "plain" { 8 } else { 2 };
            assert!(confirmed > least, "{name}, {seed}: {confirmed}");
        }
    }
}

/// An hour of stations that hear each other badly and now and then not at all; then a clear one.
fn collide(access: &dyn Fn(u8) -> Access, seed: u64) -> Band {
    let mut band = Band::new(hf::Config::default(), "1200", STATIONS, seed, |place, config| {
        config.access = access(place);
    });
    let mut sky = Rng::stream(seed, "weather");
    let mut load = Rng::stream(seed, "load");
    for step in 1..=120 {
        weather(&mut band, &mut sky);
        for _ in 0..2 {
            let from = u8::try_from(load.below(STATIONS.into())).expect("few stations");
            let other = u8::try_from(load.below(u64::from(STATIONS) - 1)).expect("few stations");
            let len = 20 + usize::try_from(load.below(600)).expect("few octets");
            let message = Message::new(from, (from + 1 + other) % STATIONS, len);
            let (in_order, is_expedited) = (load.chance(0.5), load.chance(0.1));
            band.send(Message { in_order, is_expedited, ..message });
        }
        band.run_until(Time::ZERO + HOUR / 120 * step);
    }
    band.set_channel(Channel::Clear);
    band.run_out(HOUR * 4);
    band
}

/// Gives each path a channel of its own for the next half a minute.
fn weather(band: &mut Band, sky: &mut Rng) {
    for from in (0..usize::from(STATIONS)).map(StationId) {
        for to in (0..usize::from(STATIONS)).map(StationId) {
            let channel = match sky.below(10) {
                0 => Channel::Silent,
                1 => Channel::Ber(3e-3),
                2..=4 => Channel::Ber(1e-3),
                _ => Channel::Ber(2e-4),
            };
            if from != to {
                band.air.medium.set_channel(from, to, channel);
            }
        }
    }
}

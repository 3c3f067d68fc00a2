//! What stations of a net do.

mod access;
mod acknowledgement;
mod hearing;
mod sensitivity;
mod timing;

use std::time::Duration;

use base::time::Time;

use super::*;
use crate::mobility::{Motion, Position};

/// A net whose every frame is told, and what its stations have to send.
struct Lab {
    medium: Medium,
    now: Time,
    /// Of each station: what it sends again and again.
    flows: Vec<Option<Frame>>,
    /// What was on the air.
    air: Vec<Transmission>,
    /// What happened besides.
    events: Vec<(Time, Event)>,
}

impl Lab {
    /// Stations that hear each other like this, at places in a row, so many metres apart.
    fn new(config: Config, hearing: Hearing, stations: u32, apart: f64) -> Self {
        Self::seeded(config, hearing, stations, apart, 1)
    }

    fn seeded(config: Config, hearing: Hearing, stations: u32, apart: f64, seed: u64) -> Self {
        let mut medium = Medium::new(config, hearing, seed);
        for station in 0..stations {
            let place = Position::new(f64::from(station) * apart, 0.0);
            medium.add_station(&station.to_string(), Motion::at_rest(place));
        }
        medium.observe(true);
        let flows = vec![None; stations as usize];
        Self { medium, now: Time::ZERO, flows, air: Vec::new(), events: Vec::new() }
    }

    fn send(&mut self, from: usize, to: usize, octets: u32, precedence: Precedence) -> bool {
        let to = Targets::one(StationId(to));
        self.give(from, Frame { token: 7, octets, to, precedence })
    }

    fn give(&mut self, from: usize, frame: Frame) -> bool {
        let is_taken = self.medium.send(self.now, StationId(from), frame);
        self.drain();
        is_taken
    }

    /// Has a station always have such a frame to send.
    fn saturate(&mut self, from: usize, to: usize, octets: u32) {
        let to = Targets::one(StationId(to));
        let frame = Frame { token: 7, octets, to, precedence: Precedence::Routine };
        self.flows[from] = Some(frame);
        assert!(self.give(from, frame));
        assert!(self.give(from, frame), "one waits while another is sent");
    }

    fn drain(&mut self) {
        while let Some(event) = self.medium.poll_event() {
            match event {
                Event::Transmitted(transmission) => self.air.push(transmission),
                other => self.events.push((self.now, other)),
            }
            if let Event::Failed { station, .. } | Event::Sent { station, .. } = event
                && let Some(frame) = self.flows[station.0]
            {
                assert!(self.medium.send(self.now, station, frame));
            }
        }
    }

    fn run(&mut self, end: Time) {
        while let Some(next) = self.medium.next_timeout().filter(|next| *next <= end) {
            assert!(next >= self.now, "time goes on");
            self.now = next;
            self.medium.handle_timeout(next);
            self.drain();
        }
        self.now = end;
    }

    /// Who transmitted when, in microseconds, and what became of it.
    fn story(&self) -> Vec<String> {
        let line = |it: &Transmission| {
            let micros = |time: Time| time.as_nanos() as f64 / 1e3;
            let to = it.to.map_or("*".to_owned(), |to| to.0.to_string());
            let fate = if it.is_received { "" } else { " lost" };
            let (start, end) = (micros(it.start), micros(it.end));
            format!("{start} {end} {:?} {}>{to}{fate}", it.kind, it.from.0)
        };
        self.air.iter().map(line).collect()
    }

    fn stats(&self, station: usize) -> Stats {
        self.medium.stats(self.now, StationId(station))
    }

    fn received(&self, station: usize) -> usize {
        let is_it =
            |event: &Event| matches!(event, Event::Received { station: at, .. } if at.0 == station);
        self.events.iter().filter(|(_, event)| is_it(event)).count()
    }
}

/// No noise, no updates.
fn quiet() -> Config {
    Config { loss: 0.0, topology_spacing: Duration::ZERO, ..Config::default() }
}

fn secs(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn row(stations: usize) -> Hearing {
    Hearing::Pairs((1..stations).map(|it| [StationId(it - 1), StationId(it)]).collect())
}

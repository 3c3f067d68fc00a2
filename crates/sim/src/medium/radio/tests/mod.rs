//! What stations do, frame by frame.

mod exchanges;
mod overlaps;
mod saturation;

use std::time::Duration;

use base::quantity::BitRate;
use base::time::Time;

use super::*;
use crate::mobility::{Motion, Position};

/// A channel whose every frame is told, and what its stations have to send.
struct Net {
    medium: Medium,
    now: Time,
    /// For each station: whom it sends to, how many octets, how often still.
    flows: Vec<Option<Flow>>,
    /// What was on the air.
    air: Vec<Transmission>,
    /// Packets sent, failed and received by each station.
    counts: Vec<[u64; 3]>,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    to: Option<usize>,
    octets: u32,
    left: u64,
}

impl Net {
    /// Stations at these places, in metres to the east and north.
    fn new(config: Config, places: &[(f64, f64)]) -> Self {
        Self::seeded(config, places, 1)
    }

    fn seeded(config: Config, places: &[(f64, f64)], seed: u64) -> Self {
        let mut medium = Medium::new(config, seed);
        for (station, (x, y)) in places.iter().enumerate() {
            medium.add_station(&station.to_string(), Motion::at_rest(Position::new(*x, *y)));
        }
        medium.observe(true);
        let (flows, counts) = (vec![None; places.len()], vec![[0; 3]; places.len()]);
        Self { medium, now: Time::ZERO, flows, air: Vec::new(), counts }
    }

    /// Has a station send so many packets, one after the other.
    fn send(&mut self, from: usize, to: Option<usize>, octets: u32, count: u64) {
        self.flows[from] = Some(Flow { to, octets, left: count });
        self.offer(from);
        self.drain();
    }

    fn offer(&mut self, station: usize) {
        let Some(flow) = self.flows[station].as_mut().filter(|flow| flow.left > 0) else { return };
        let to = flow.to.map(StationId);
        let frame = Frame { token: 7, octets: flow.octets, to };
        if self.medium.send(self.now, StationId(station), frame) {
            flow.left -= 1;
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.medium.poll_event() {
            match event {
                Event::Failed { station, .. } => {
                    self.counts[station.0][1] += 1;
                    self.offer(station.0);
                }
                Event::Received { station, .. } => self.counts[station.0][2] += 1,
                Event::Sent { station, .. } => {
                    self.counts[station.0][0] += 1;
                    self.offer(station.0);
                }
                Event::Transmitted(transmission) => self.air.push(transmission),
            }
        }
    }

    /// Runs until `end`.
    fn run(&mut self, end: Time) {
        while let Some(next) = self.medium.next_timeout().filter(|next| *next <= end) {
            assert!(next >= self.now, "time goes on");
            self.now = next;
            self.medium.handle_timeout(next);
            self.drain();
        }
        self.now = end;
    }

    /// The frames on the air: begin and end in microseconds from `origin`, kind, sender and receiver, and
    /// whether it was received.
    fn story(&self, origin: Time) -> Vec<String> {
        self.air.iter().map(|frame| line(frame, origin)).collect()
    }

    fn stats(&self, station: usize) -> Stats {
        self.medium.stats(StationId(station))
    }
}

fn line(frame: &Transmission, origin: Time) -> String {
    let micros = |time: Time| time.since(origin).as_nanos() as f64 / 1e3;
    let to = frame.to.map_or("*".to_owned(), |to| to.0.to_string());
    let (begin, end) = (micros(frame.start), micros(frame.end));
    let fate = if frame.is_received { "" } else { " lost" };
    format!("{begin} {end} {:?} {}>{to}{fate}", frame.kind, frame.from.0)
}

fn millis(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn secs(seconds: u64) -> Time {
    millis(seconds * 1_000)
}

/// No back-off before the first frame, so that every instant is known.
fn prompt() -> Config {
    Config { always_back_off: false, ..Config::default() }
}

fn basic(bits: u64) -> BitRate {
    BitRate::from_bits_per_s(bits).unwrap()
}

/// Stations in a row, so many metres apart.
fn row(stations: u32, apart: f64) -> Vec<(f64, f64)> {
    (0..stations).map(|station| (f64::from(station) * apart, 0.0)).collect()
}

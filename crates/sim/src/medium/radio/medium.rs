//! The radio channel: carries transmissions from each station to the stations in range.

use std::collections::VecDeque;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;

use super::agenda::{Agenda, Step};
use super::config::{Config, StationId, Stats};
use super::field::Field;
use super::frame::{Event, Frame, FrameKind, Transmission};
use super::propagation::Propagation;
use super::station::{Ear, Heard, Mac, Outcome, Phase};
use super::timing::Timing;
use crate::mobility::{Motion, Position};

/// A radio channel and the MACs of its stations.
///
/// It reads no clock. The driver hands each station one frame at a time with [`Medium::send`], calls
/// [`Medium::handle_timeout`] when [`Medium::next_timeout`] says so, and after each of both takes
/// events by [`Medium::poll_event`] until there is none.
#[derive(Debug)]
pub struct Medium {
    pub(super) timing: Timing,
    pub(super) config: Config,
    propagation: Propagation,
    pub(super) field: Field,
    pub(super) ears: Vec<Ear>,
    pub(super) macs: Vec<Mac>,
    /// What is on the air, and places for more.
    air: Vec<OnAir>,
    free: Vec<u32>,
    pub(super) agenda: Agenda,
    pub(super) events: VecDeque<Event>,
    is_observed: bool,
    seed: u64,
    steps: u64,
    listeners: u64,
}

/// A transmission on the air.
#[derive(Debug)]
struct OnAir {
    signal: Signal,
    start: u64,
    end: u64,
    /// Who hears it; the memory stays for the next.
    heard: Vec<Heard>,
    /// Whether its station was switched off on the way.
    is_cut: bool,
}

/// A frame being sent by a station.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    pub(super) kind: FrameKind,
    pub(super) from: u32,
    pub(super) to: Option<u32>,
    /// How long its receivers are to keep silent after it, in nanoseconds.
    pub(super) duration: u64,
    pub(super) token: u32,
    pub(super) octets: u32,
    pub(super) sequence: u16,
    pub(super) is_repeat: bool,
}

impl Medium {
    /// A channel without stations; `seed` decides the back-offs.
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            timing: Timing::new(&config),
            config,
            propagation: Propagation::new(&config),
            field: Field::new(config.sense_range.max(config.receive_range)),
            ears: Vec::new(),
            macs: Vec::new(),
            air: Vec::new(),
            free: Vec::new(),
            agenda: Agenda::default(),
            events: VecDeque::new(),
            is_observed: false,
            seed,
            steps: 0,
            listeners: 0,
        }
    }

    /// Adds a moving station, switched on. The seed and its name determine its back-offs, independent of
    /// other stations and channels.
    pub fn add_station(&mut self, name: &str, motion: Motion) -> StationId {
        let station = self.ears.len();
        let rng = Rng::stream(self.seed, &format!("radio {name}"));
        self.field.add(motion);
        self.ears.push(Ear::new());
        self.macs.push(Mac::new(self.config.cw_min, rng));
        StationId(station)
    }

    /// Gives a station another motion from now on.
    pub fn set_motion(&mut self, station: StationId, motion: Motion) {
        self.field.replace(station.0, motion);
    }

    /// Switches a station on or off. A station switched off loses its unsent frame, which is returned.
    pub fn set_on(&mut self, now: Time, station: StationId, is_on: bool) -> Option<Frame> {
        let StationId(index) = station;
        if self.ears[index].is_on == is_on {
            return None;
        }
        if is_on {
            self.switch_on(now.as_nanos(), index);
            None
        } else {
            self.switch_off(index)
        }
    }

    /// Tells of each frame on the air by [`Event::Transmitted`] from now on, or no longer.
    pub fn observe(&mut self, is_observed: bool) {
        self.is_observed = is_observed;
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let limit = now.as_nanos();
        while let Some((at, step)) = self.agenda.pop(limit) {
            self.steps += 1;
            match step {
                Step::Answer { station } => self.handle_answer(at, station as usize),
                Step::End { slot } => self.end(at, slot),
                Step::Timer { station, generation } => {
                    self.handle_timer(at, station as usize, generation);
                }
            }
        }
    }

    /// The next thing that the driver should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Medium::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.agenda.next().map(Time::from_nanos)
    }

    /// Whether a station takes a frame.
    #[must_use]
    pub fn is_ready(&self, station: StationId) -> bool {
        self.ears[station.0].is_on && self.macs[station.0].phase == Phase::Idle
    }

    /// Whether a station is switched on.
    #[must_use]
    pub fn is_on(&self, station: StationId) -> bool {
        self.ears[station.0].is_on
    }

    /// How many stations there are.
    #[must_use]
    pub fn stations(&self) -> usize {
        self.ears.len()
    }

    /// Where a station is.
    #[must_use]
    pub fn position(&self, station: StationId, now: Time) -> Position {
        self.field.position(station.0, now)
    }

    /// How a station moves.
    #[must_use]
    pub fn motion(&self, station: StationId) -> &Motion {
        self.field.motion(station.0)
    }

    /// Whether two different stations are switched on and can read each other's frames.
    #[must_use]
    pub fn are_neighbours(&self, now: Time, a: StationId, b: StationId) -> bool {
        a != b
            && self.is_on(a)
            && self.is_on(b)
            && self.propagation.is_readable(self.field.distance_squared(a.0, b.0, now))
    }

    /// The properties of the channel.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The counters of a station.
    #[must_use]
    pub fn stats(&self, station: StationId) -> Stats {
        let busy = Duration::from_nanos(self.ears[station.0].busy);
        Stats { busy, ..self.macs[station.0].stats }
    }

    /// The counters of all stations together.
    #[must_use]
    pub fn total(&self) -> Stats {
        let mut total = Stats::default();
        for station in 0..self.macs.len() {
            total.add(&self.stats(StationId(station)));
        }
        total
    }

    /// Work done by the medium: steps of its agenda, and receptions at stations.
    #[must_use]
    pub fn work(&self) -> (u64, u64) {
        (self.steps, self.listeners)
    }

    /// Puts a frame on the air.
    pub(crate) fn begin(&mut self, now: u64, length: u64, signal: Signal) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.air.push(OnAir { signal, start: 0, end: 0, heard: Vec::new(), is_cut: false });
            u32::try_from(self.air.len() - 1).expect("fewer transmissions at once than stations")
        });
        let Self { air, field, ears, propagation, .. } = self;
        let (end, slot_time) = (now + length, self.timing.slot);
        let on_air = &mut air[slot as usize];
        (on_air.signal, on_air.start, on_air.end, on_air.is_cut) = (signal, now, end, false);
        on_air.heard.clear();
        ears[signal.from as usize].begin(now, slot_time);
        field.refresh(now);
        field.around(signal.from as usize, now, |other, squared| {
            let ear = &mut ears[other];
            if !ear.is_on || !propagation.is_sensed(squared) {
                return;
            }
            let (power, is_strong) = (propagation.power(squared), propagation.is_readable(squared));
            let station = u32::try_from(other).expect("the agenda has room for fewer");
            on_air.heard.push(Heard { station, is_strong, power });
            ear.hear(now, slot, end, power, is_strong, slot_time, propagation);
        });
        self.listeners += on_air.heard.len() as u64;
        self.agenda.add(end, Step::End { slot });
    }

    /// Takes a frame from the air.
    fn end(&mut self, now: u64, slot: u32) {
        let OnAir { signal, start, is_cut, ref mut heard, .. } = self.air[slot as usize];
        let mut heard = std::mem::take(heard);
        let first = self.events.len();
        let (mut read, mut spoilt, mut is_received) = (0, 0, false);
        if !is_cut {
            self.ears[signal.from as usize].end(now);
            self.handle_sent(now, &signal);
            self.settle(now, signal.from as usize);
        }
        for &Heard { station, is_strong, power } in &heard {
            let index = station as usize;
            match self.ears[index].fade(slot, start, power) {
                Outcome::Read => {
                    read += 1;
                    is_received |= signal.to.is_none_or(|to| to == station);
                    self.handle_frame(now, index, &signal);
                }
                Outcome::Missed if is_strong => {
                    spoilt += 1;
                    self.macs[index].stats.missed += 1;
                }
                Outcome::Spoilt if is_strong => {
                    spoilt += 1;
                    self.macs[index].stats.collisions += 1;
                }
                Outcome::Missed | Outcome::Spoilt => {}
            }
            self.settle(now, index);
        }
        if !is_cut && signal.kind == FrameKind::Broadcast {
            // Last, because the driver may release a packet once it is reported as sent.
            self.finish(signal.from as usize, true);
        }
        if self.is_observed {
            let it = transmission(&signal, [start, now], read, spoilt, is_received);
            self.events.insert(first, Event::Transmitted(it));
        }
        heard.clear();
        self.air[slot as usize].heard = heard;
        self.free.push(slot);
    }

    /// Lets a station go on that hears and sends nothing any more.
    fn settle(&mut self, now: u64, station: usize) {
        let ear = &mut self.ears[station];
        if !ear.is_free() {
            return;
        }
        ear.calm(now, self.timing.difs, self.timing.eifs);
        if ear.contends {
            self.resume(station);
        }
    }

    fn switch_off(&mut self, station: usize) -> Option<Frame> {
        let index = u32::try_from(station).expect("the agenda has room for fewer");
        for (slot, on_air) in self.air.iter_mut().enumerate() {
            on_air.heard.retain(|heard| heard.station != index);
            if on_air.signal.from == index {
                let slot = u32::try_from(slot).expect("slots are numbered so");
                on_air.is_cut = true;
                for heard in &on_air.heard {
                    self.ears[heard.station as usize].spoil(slot);
                }
            }
        }
        self.ears[station].switch_off();
        self.reset(station)
    }

    fn switch_on(&mut self, now: u64, station: usize) {
        let ear = &mut self.ears[station];
        (ear.is_on, ear.slots_from) = (true, now + self.timing.difs);
        let index = u32::try_from(station).expect("the agenda has room for fewer");
        for slot in 0..self.air.len() {
            let from = self.air[slot].signal.from as usize;
            if self.air[slot].end <= now || self.is_free(slot) || from == station {
                continue;
            }
            let squared = self.field.distance_squared(station, from, Time::from_nanos(now));
            if self.propagation.is_sensed(squared) {
                let power = self.propagation.power(squared);
                let heard = Heard { station: index, is_strong: false, power };
                self.air[slot].heard.push(heard);
                self.ears[station].hear_rest(now, power);
            }
        }
    }

    fn is_free(&self, slot: usize) -> bool {
        self.free.iter().any(|free| *free as usize == slot)
    }
}

fn transmission(
    signal: &Signal,
    [start, end]: [u64; 2],
    heard: u32,
    spoilt: u32,
    is_received: bool,
) -> Transmission {
    let Signal { kind, from, to, duration, token, octets, sequence, is_repeat } = *signal;
    Transmission {
        start: Time::from_nanos(start),
        end: Time::from_nanos(end),
        kind,
        from: StationId(from as usize),
        to: to.map(|to| StationId(to as usize)),
        token,
        octets,
        duration: u16::try_from(duration.div_ceil(1_000)).unwrap_or(MOST_DURATION),
        sequence,
        is_repeat,
        heard,
        spoilt,
        is_received,
    }
}

/// The longest time that a duration field can say, in microseconds.
const MOST_DURATION: u16 = 32_767;

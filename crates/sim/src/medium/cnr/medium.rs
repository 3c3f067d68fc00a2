//! The channel: carries transmissions from each station to the stations in range.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, nanos};

use super::airtime::{AirTime, MOST_INFORMATION};
use super::config::{Config, StationId, Stats};
use super::frame::{Event, Frame, Precedence, Targets};
use super::hearing::{Ground, Hearing, MOST_STATIONS};
use super::outbox::{Ack, Queued};
use super::station::Station;
use crate::mobility::Motion;

/// A combat net radio channel and its stations.
///
/// It reads no clock. The driver adds all stations, hands packets to them with [`Medium::send`], calls
/// [`Medium::handle_timeout`] when [`Medium::next_timeout`] says so, and after each of both takes events
/// by [`Medium::poll_event`] until there is none.
#[derive(Debug)]
pub struct Medium {
    pub(super) config: Config,
    pub(super) times: AirTime,
    pub(super) ground: Ground,
    pub(super) stations: Vec<Station>,
    /// What is on the air, and places for more.
    air: Vec<OnAir>,
    free: Vec<usize>,
    agenda: BinaryHeap<Reverse<(u64, Step)>>,
    pub(super) events: VecDeque<Event>,
    pub(super) is_observed: bool,
    seed: u64,
}

/// Something that will happen. At one instant transmissions end before they are noticed and before
/// others begin, and stations act in their order, so nothing depends on the order of insertion.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Step {
    /// The last bit of a transmission arrives.
    End { slot: usize },
    /// The stations in range of a transmission notice it.
    Notice { slot: usize },
    /// The time for answers to a transmission is over.
    Deadline { station: usize },
    /// A station acknowledges received frames.
    Answer { station: usize },
    /// A frame may have waited too long for its acknowledgement.
    Repeat { station: usize },
    /// A station checks which stations it hears now.
    Update { station: usize },
    /// It is a station's turn, unless its timer was set anew.
    Access { station: usize, generation: u32 },
}

/// A transmission on the air; its memory stays for the next.
#[derive(Debug, Default)]
pub(crate) struct OnAir {
    pub(super) from: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) items: Vec<Item>,
    pub(super) heard: Vec<Heard>,
    /// How many stations answer it at once.
    pub(super) answers: u64,
    /// Whether this transmission is an immediate answer to another.
    pub(super) is_answer: bool,
    /// The highest precedence among the frames.
    pub(super) precedence: Precedence,
    /// Of DAP-NAD: the station that had the first slot.
    pub(super) first: usize,
    /// Whether the stations in range have noticed this transmission.
    is_noticed: bool,
}

/// A part of a transmission.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    /// An acknowledgement.
    Ack(Ack),
    /// A frame with a packet or a topology update.
    Frame(Queued),
}

/// Reception of a transmission at one station.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    pub(super) station: usize,
    power: f64,
    /// The fate of the transmission at this station so far.
    pub(super) fate: Fate,
}

/// Fate of a transmission at a station.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// The station can read it.
    Clean,
    /// Another destroyed it.
    Collided,
    /// The station transmitted itself.
    Missed,
}

impl Medium {
    /// A channel without stations; `seed` decides all that is random.
    #[must_use]
    pub fn new(config: Config, hearing: Hearing, seed: u64) -> Self {
        Self {
            times: AirTime::new(&config),
            ground: Ground::new(hearing, &config),
            config,
            stations: Vec::new(),
            air: Vec::new(),
            free: Vec::new(),
            agenda: BinaryHeap::new(),
            events: VecDeque::new(),
            is_observed: false,
            seed,
        }
    }

    /// Adds a moving station; its position counts if distance decides about hearing. The seed and the
    /// station's name determine its random choices and its noise.
    ///
    /// # Panics
    /// If the net has 92 stations already, for more of which its link layer has no addresses.
    pub fn add_station(&mut self, name: &str, motion: Motion) -> StationId {
        let station = self.stations.len();
        assert!(station < MOST_STATIONS, "a net has no addresses for more stations");
        let mut rng = Rng::stream(self.seed, &format!("cnr {name}"));
        let noise = Rng::stream(self.seed, &format!("cnr noise {name}"));
        self.ground.add(motion);
        self.plan_first_update(station, &mut rng);
        self.stations.push(Station::new(&self.config, rng, noise));
        StationId(station)
    }

    /// Hands a packet to a station. Returns false if the station drops the packet: no route leads to the
    /// destination, the packet is too long, or too many of its precedence wait. The station's [`Stats`] say which.
    #[must_use]
    pub fn send(&mut self, now: Time, StationId(station): StationId, frame: Frame) -> bool {
        let now = now.as_nanos();
        let way = match frame.to.named() {
            &[only] => self.ground.way(now, station, only.into(), self.config.max_hops),
            _ => Some(Default::default()),
        };
        let own = &mut self.stations[station];
        let Some(way) = way else {
            own.stats.no_way += 1;
            return false;
        };
        let origin = u8::try_from(station).expect("a net has fewer stations");
        let pending = way.next().map_or(frame.to, |next| Targets::one(StationId(next.into())));
        let number = own.peers.next_number();
        let is_update = false;
        let queued =
            Queued { frame, origin, is_update, way, pending, number, tries: 0, due: u64::MAX };
        if frame.octets.saturating_add(AirTime::intranet(way.hops())) > MOST_INFORMATION {
            own.stats.too_long += 1;
            return false;
        }
        self.enqueue(now, station, queued)
    }

    /// Tells of each frame on the air by [`Event::Transmitted`] from now on, or no longer.
    pub fn observe(&mut self, is_observed: bool) {
        self.is_observed = is_observed;
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let limit = now.as_nanos();
        while let Some(Reverse((at, step))) = self.agenda.peek().copied() {
            if at > limit {
                return;
            }
            self.agenda.pop();
            match step {
                Step::Access { station, generation } => {
                    if self.stations[station].turn.generation == generation {
                        self.handle_turn(at, station);
                    }
                }
                Step::Answer { station } => self.handle_answer(at, station),
                Step::Deadline { station } => self.handle_deadline(at, station),
                Step::End { slot } => self.end(at, slot),
                Step::Notice { slot } => self.notice(at, slot),
                Step::Repeat { station } => self.handle_overdue(at, station),
                Step::Update { station } => self.handle_update(at, station),
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
        self.agenda.peek().map(|Reverse((at, _))| Time::from_nanos(*at))
    }

    /// How many stations there are.
    #[must_use]
    pub fn stations(&self) -> usize {
        self.stations.len()
    }

    /// Whether packets get from one station to another, over relays or not.
    #[must_use]
    pub fn joins(&self, now: Time, from: StationId, to: StationId) -> bool {
        let most = self.config.max_hops;
        from != to && self.ground.way(now.as_nanos(), from.0, to.0, most).is_some()
    }

    /// How many hops it is from one station to another; `None` if no way leads there.
    #[must_use]
    pub fn hops(&self, now: Time, from: StationId, to: StationId) -> Option<u8> {
        let way = self.ground.way(now.as_nanos(), from.0, to.0, self.config.max_hops)?;
        Some(way.hops().max(1))
    }

    /// How many frames a station has that wait for their turn or for an acknowledgement.
    #[must_use]
    pub fn waiting(&self, station: StationId) -> usize {
        let own = &self.stations[station.0];
        own.outbox.len() + usize::from(own.peers.awaiting.is_some())
    }

    /// How a station moves.
    #[must_use]
    pub fn motion(&self, station: StationId) -> &Motion {
        self.ground.motion(station.0)
    }

    /// Whether the positions of stations decide about hearing.
    #[must_use]
    pub fn has_places(&self) -> bool {
        self.ground.has_places()
    }

    /// The properties of the net.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How long everything takes.
    #[must_use]
    pub fn times(&self) -> &AirTime {
        &self.times
    }

    /// The counters of a station up to now.
    #[must_use]
    pub fn stats(&self, now: Time, station: StationId) -> Stats {
        let Station { ear, stats, .. } = &self.stations[station.0];
        Stats {
            busy: Duration::from_nanos(ear.busy_until(now.as_nanos())),
            keyed: Duration::from_nanos(ear.keyed),
            ..*stats
        }
    }

    /// The counters of all stations together.
    #[must_use]
    pub fn total(&self, now: Time) -> Stats {
        let mut total = Stats::default();
        for station in 0..self.stations.len() {
            total.add(&self.stats(now, StationId(station)));
        }
        total
    }

    /// Puts something into a station's queue and has it wait for its turn; false if there is no room.
    pub(crate) fn enqueue(&mut self, now: u64, station: usize, queued: Queued) -> bool {
        let own = &mut self.stations[station];
        if !own.outbox.push(queued) {
            own.stats.dropped[queued.frame.precedence.index()] += 1;
            return false;
        }
        self.contend(now, station);
        true
    }

    pub(crate) fn plan(&mut self, at: u64, step: Step) {
        self.agenda.push(Reverse((at, step)));
    }

    /// A place for the next transmission, without items.
    pub(crate) fn place(&mut self) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.air.push(OnAir::default());
            self.air.len() - 1
        });
        self.air[slot].items.clear();
        slot
    }

    /// Takes a place back that was not needed.
    pub(crate) fn give_back(&mut self, slot: usize) {
        self.free.push(slot);
    }

    pub(crate) fn on_air(&mut self, slot: usize) -> &mut OnAir {
        &mut self.air[slot]
    }

    /// Puts what stands in this place on the air.
    pub(crate) fn begin(&mut self, now: u64, station: usize, slot: usize, length: u64) {
        let memory = nanos(self.config.scheduling.memory);
        self.stop_waiting(station);
        let own = &mut self.stations[station];
        own.ear.count(now, memory);
        own.ear.is_sending = true;
        // All receptions of the station are lost from now on.
        for other in &mut self.air {
            if other.end <= now {
                continue;
            }
            let heard = other.heard.iter_mut().filter(|heard| heard.station == station);
            heard.for_each(|heard| heard.fate = Fate::Missed);
        }
        let mut on_air = std::mem::take(&mut self.air[slot]);
        (on_air.from, on_air.start, on_air.end) = (station, now, now + length);
        on_air.is_noticed = false;
        on_air.heard.clear();
        for listener in 0..self.stations.len() {
            let Some(power) = self.ground.power(now, station, listener) else { continue };
            let is_deaf = self.stations[listener].ear.is_sending;
            let mut fate = if is_deaf { Fate::Missed } else { Fate::Clean };
            for other in self.air.iter_mut().filter(|other| other.end > now) {
                let also = other.heard.iter_mut().find(|heard| heard.station == listener);
                let Some(also) = also else { continue };
                if fate == Fate::Clean && !self.ground.survives(power, also.power) {
                    fate = Fate::Collided;
                }
                if also.fate == Fate::Clean && !self.ground.survives(also.power, power) {
                    also.fate = Fate::Collided;
                }
            }
            on_air.heard.push(Heard { station: listener, power, fate });
        }
        self.air[slot] = on_air;
        self.plan(now + length, Step::End { slot });
        if self.times.busy_detect() < length {
            self.plan(now + self.times.busy_detect(), Step::Notice { slot });
        }
    }

    /// Makes the stations in range notice a transmission.
    fn notice(&mut self, now: u64, slot: usize) {
        let memory = nanos(self.config.scheduling.memory);
        let heard = std::mem::take(&mut self.air[slot].heard);
        self.air[slot].is_noticed = true;
        for &Heard { station, .. } in &heard {
            let ear = &mut self.stations[station].ear;
            ear.count(now, memory);
            ear.noticed += 1;
            if !ear.is_sending {
                self.stop_waiting(station);
            }
        }
        self.air[slot].heard = heard;
    }

    /// Takes a transmission from the air.
    fn end(&mut self, now: u64, slot: usize) {
        let memory = nanos(self.config.scheduling.memory);
        let on_air = std::mem::take(&mut self.air[slot]);
        let from = on_air.from;
        let ear = &mut self.stations[from].ear;
        ear.count(now, memory);
        ear.is_sending = false;
        ear.keyed += now - on_air.start;
        for &Heard { station, .. } in on_air.heard.iter().filter(|_| on_air.is_noticed) {
            let ear = &mut self.stations[station].ear;
            ear.count(now, memory);
            ear.noticed -= 1;
        }
        self.settle(now, &on_air);
        self.read(now, &on_air);
        self.contend(now, from);
        for &Heard { station, .. } in &on_air.heard {
            self.contend(now, station);
        }
        self.air[slot] = on_air;
        self.free.push(slot);
    }

    /// Has all who heard a transmission count slots from its end on.
    fn settle(&mut self, now: u64, on_air: &OnAir) {
        let known = now + self.times.timeout_period(on_air.answers);
        let unknown = now + self.times.timeout_period(0);
        let until = if on_air.is_answer { now } else { known };
        let stations = self.stations.len();
        let own = std::iter::once((on_air.from, Fate::Clean));
        for (station, fate) in own.chain(on_air.heard.iter().map(|it| (it.station, it.fate))) {
            let Station { ear, turn, .. } = &mut self.stations[station];
            let from = match fate {
                Fate::Clean => until,
                Fate::Missed if ear.is_sending => continue,
                Fate::Collided | Fate::Missed => unknown,
            };
            ear.slots_from = ear.slots_from.max(from);
            turn.was_last = station == on_air.from;
            if fate == Fate::Clean && !on_air.is_answer {
                turn.first = (on_air.first + 1) % stations;
                turn.mode = on_air.precedence;
            }
            if !on_air.is_noticed {
                // It was too short to be noticed before: a turn that was found counts from its end.
                turn.at = None;
                turn.generation = turn.generation.wrapping_add(1);
            }
        }
    }
}

//! The channel and its stations: carries transmissions from each station to the stations in range; the link layer
//! with acknowledgements of types 3 and 4, the intranet layer with relays and topology updates.
//!
//! ```text
//!  type 1:  turn ─▶ transmission ─▶ Sent
//!  type 3:  turn ─▶ transmission ─▶ answers, one behind the other ─▶ deadline ─▶ Sent, again, or Failed
//!  type 4:  turn ─▶ transmission ─▶ flight ─▶ acknowledgement in a transmission of another ─▶ Sent
//!                        ▲              └─ ack timer ─┐
//!                        └────────────────────────────┘ or Failed
//! ```
//!
//! Routes over relays follow from actual hearing at the instant, as if all topology updates had arrived; updates
//! only cost time on the air.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, nanos};

use super::access::{Access, Slot, schedule, share};
use super::airtime::AirTime;
use super::config::{AccessMethod, Config, LinkType, StationId, Stats};
use super::frame::{Event, Frame, Precedence, Targets, Transmission, TransmissionKind};
use super::hearing::{Ground, Hearing, MOST_STATIONS, Way};
use super::layout::{self, MOST_INFORMATION};
use super::outbox::{Ack, Outbox, Queued};
use super::station::{Ear, Numbers, Turn};
use crate::mobility::Motion;

/// A combat net radio channel and its stations.
///
/// It reads no clock. The driver adds all stations, hands packets to them with [`Medium::send`], calls
/// [`Medium::handle_timeout`] when [`Medium::next_timeout`] says so, and after each of both takes events
/// by [`Medium::poll_event`] until there is none.
#[derive(Debug)]
pub struct Medium {
    config: Config,
    times: AirTime,
    ground: Ground,
    stations: Vec<Station>,
    /// What is on the air, and places for more.
    air: Vec<OnAir>,
    free: Vec<usize>,
    agenda: BinaryHeap<Reverse<(u64, Step)>>,
    events: VecDeque<Event>,
    is_observed: bool,
    seed: u64,
}

/// A station.
#[derive(Debug)]
struct Station {
    ear: Ear,
    turn: Turn,
    outbox: Outbox,
    numbers: Numbers,
    /// The acknowledgement to send in the station's answer slot.
    answer: Option<Answer>,
    /// The frame of type 3 that others answer now, and until when.
    awaiting: Option<(Queued, u64)>,
    /// The neighbours listed in the station's last topology update, one bit each.
    told: u128,
    rng: Rng,
    /// Decides which otherwise readable frames noise destroys.
    noise: Rng,
    stats: Stats,
}

/// An acknowledgement of type 3.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: u64,
    to: u8,
    number: u16,
}

/// Something that will happen. At one instant transmissions end before they are noticed and before
/// others begin, and stations act in their order, so nothing depends on the order of insertion.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Step {
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
struct OnAir {
    from: usize,
    start: u64,
    end: u64,
    items: Vec<Item>,
    heard: Vec<Heard>,
    /// How many stations answer it at once.
    answers: u64,
    /// Whether this transmission is an immediate answer to another.
    is_answer: bool,
    /// The highest precedence among the frames.
    precedence: Precedence,
    /// Of DAP-NAD: the station that had the first slot.
    first: usize,
    /// Whether the stations in range have noticed this transmission.
    is_noticed: bool,
}

/// A part of a transmission.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// An acknowledgement.
    Ack(Ack),
    /// A frame with a packet or a topology update.
    Frame(Queued),
}

/// Reception of a transmission at one station.
#[derive(Clone, Copy, Debug)]
struct Heard {
    station: usize,
    power: f64,
    /// The fate of the transmission at this station so far.
    fate: Fate,
}

/// Fate of a transmission at a station.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
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
        let number = own.numbers.next();
        let is_update = false;
        let queued =
            Queued { frame, origin, is_update, way, pending, number, tries: 0, due: u64::MAX };
        if frame.octets.saturating_add(layout::intranet(way.hops())) > MOST_INFORMATION {
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
                    if self.stations[station].turn.is_current(generation) {
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
        own.outbox.len() + usize::from(own.awaiting.is_some())
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
            keyed: Duration::from_nanos(ear.keyed()),
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
    fn enqueue(&mut self, now: u64, station: usize, queued: Queued) -> bool {
        let own = &mut self.stations[station];
        if !own.outbox.push(queued) {
            own.stats.dropped[queued.frame.precedence.index()] += 1;
            return false;
        }
        self.contend(now, station);
        true
    }

    fn plan(&mut self, at: u64, step: Step) {
        self.agenda.push(Reverse((at, step)));
    }

    /// A place for the next transmission, without items.
    fn place(&mut self) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.air.push(OnAir::default());
            self.air.len() - 1
        });
        self.air[slot].items.clear();
        slot
    }

    /// Takes a place back that was not needed.
    fn give_back(&mut self, slot: usize) {
        self.free.push(slot);
    }

    fn on_air(&mut self, slot: usize) -> &mut OnAir {
        &mut self.air[slot]
    }

    /// Puts what stands in this place on the air.
    fn begin(&mut self, now: u64, station: usize, slot: usize, length: u64) {
        let memory = nanos(self.config.scheduling.memory);
        self.stop_waiting(station);
        self.stations[station].ear.begin(now, memory);
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
            let is_deaf = self.stations[listener].ear.is_sending();
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
            ear.notice(now, memory);
            if !ear.is_sending() {
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
        self.stations[from].ear.end(now, memory, on_air.start);
        for &Heard { station, .. } in on_air.heard.iter().filter(|_| on_air.is_noticed) {
            self.stations[station].ear.fade(now, memory);
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
                Fate::Missed if ear.is_sending() => continue,
                Fate::Collided | Fate::Missed => unknown,
            };
            ear.hold_slots(from);
            turn.follow(station == on_air.from);
            if fate == Fate::Clean && !on_air.is_answer {
                turn.rotate((on_air.first + 1) % stations, on_air.precedence);
            }
            if !on_air.is_noticed {
                // It was too short to be noticed before: a turn that was found counts from its end.
                turn.cancel();
            }
        }
    }

    /// It is a station's turn: what waits goes on the air, as much as shares a transmission.
    fn handle_turn(&mut self, now: u64, station: usize) {
        let slot = self.place();
        let mut items = std::mem::take(&mut self.on_air(slot).items);
        let own = &mut self.stations[station];
        own.turn.take();
        let mut precedence = own.outbox.precedence().unwrap_or_default();
        let (mut bits, mut octets, mut answers) = (0, 0, 0);
        while let Some(ack) = own.outbox.pop_ack() {
            bits += AirTime::frame_bits(1, AirTime::control(LinkType::Decoupled), 0);
            own.stats.acks += 1;
            items.push(Item::Ack(ack));
        }
        let mut frames = 0;
        while let Some(mut queued) = own.outbox.take(frames, octets) {
            let wants_ack = queued.wants_ack(self.config.link_type);
            let link_type =
                if wants_ack { self.config.link_type } else { LinkType::Unacknowledged };
            let before = if queued.is_update { 0 } else { layout::intranet(queued.way.hops()) };
            bits += AirTime::frame_bits(
                queued.pending.addresses(),
                AirTime::control(link_type),
                queued.frame.octets + before,
            );
            octets = octets.saturating_add(queued.frame.octets);
            frames += 1;
            precedence = precedence.min(queued.frame.precedence);
            if queued.is_update {
                own.stats.updates += 1;
            } else {
                own.stats.frames += 1;
                own.stats.repeats += u64::from(queued.tries > 0);
            }
            queued.tries = queued.tries.saturating_add(1);
            let is_coupled = wants_ack && link_type == LinkType::Coupled;
            if wants_ack && !is_coupled {
                // The frame counts in the window at once, so the window is never exceeded.
                own.outbox.fly(queued);
            }
            items.push(Item::Frame(queued));
            if is_coupled {
                answers = queued.pending.addresses();
                break;
            }
        }
        if items.is_empty() {
            // What waited was acknowledged late, or may not go before something else is.
            self.on_air(slot).items = items;
            self.give_back(slot);
            return;
        }
        own.stats.transmissions += 1;
        let first = own.turn.first();
        let on_air = self.on_air(slot);
        on_air.items = items;
        (on_air.answers, on_air.is_answer) = (answers, false);
        (on_air.precedence, on_air.first) = (precedence, first);
        let length = self.times.transmission(bits);
        self.begin(now, station, slot, length);
    }

    /// Sends the acknowledgement of type 3 that a station owes.
    fn handle_answer(&mut self, now: u64, station: usize) {
        let own = &mut self.stations[station];
        let Some(Answer { to, number, .. }) = own.answer.take_if(|it| it.at == now) else {
            return;
        };
        if own.ear.is_sending() {
            return;
        }
        own.stats.acks += 1;
        let slot = self.place();
        let on_air = self.on_air(slot);
        on_air.items.push(Item::Ack(Ack { to, number, precedence: Precedence::Urgent }));
        (on_air.answers, on_air.is_answer) = (0, true);
        let bits = AirTime::frame_bits(1, AirTime::control(LinkType::Coupled), 0);
        let length = self.times.transmission(bits);
        self.begin(now, station, slot, length);
    }

    /// Acts when all answers of type 3 have come that come.
    fn handle_deadline(&mut self, now: u64, station: usize) {
        let awaiting = &mut self.stations[station].awaiting;
        let Some((queued, _)) = awaiting.take_if(|(_, until)| *until == now) else { return };
        if queued.pending.named().is_empty() {
            self.finish(station, &queued, true);
        } else {
            self.try_again(station, queued);
        }
        self.contend(now, station);
    }

    /// Sends frames of type 4 again that were not acknowledged in time.
    fn handle_overdue(&mut self, now: u64, station: usize) {
        let Some(queued) = self.stations[station].outbox.take_overdue(now) else { return };
        self.try_again(station, queued);
        self.contend(now, station);
    }

    /// Has those read a transmission who can, and its sender go on.
    fn read(&mut self, now: u64, on_air: &OnAir) {
        for heard in &on_air.heard {
            let stats = &mut self.stations[heard.station].stats;
            match heard.fate {
                Fate::Clean => {}
                Fate::Collided => stats.collisions += 1,
                Fate::Missed => stats.missed += 1,
            }
        }
        for item in &on_air.items {
            let (mut read, mut lost, mut is_received) = (0, 0, false);
            for heard in &on_air.heard {
                let is_lost = heard.fate != Fate::Clean || {
                    let noise = &mut self.stations[heard.station].noise;
                    noise.chance(self.config.loss)
                };
                if is_lost {
                    lost += 1;
                } else {
                    read += 1;
                    is_received |= self.receive(now, on_air.from, heard.station, item);
                    continue;
                }
                if heard.fate == Fate::Clean && is_for(item, heard.station) {
                    self.stations[heard.station].stats.residual_losses += 1;
                }
            }
            if self.is_observed {
                let heard = [read, lost];
                let it = transmission(on_air, now, item, heard, is_received);
                self.events.push_back(Event::Transmitted(it));
            }
            if let Item::Frame(queued) = item {
                self.handle_sent(now, on_air, queued, is_received);
            }
        }
    }

    /// Gives a station a readable item. Returns whether the item is for the station.
    fn receive(&mut self, now: u64, from: usize, station: usize, item: &Item) -> bool {
        if !is_for(item, station) {
            return false;
        }
        match item {
            Item::Ack(ack) => self.handle_ack(from, station, ack.number),
            Item::Frame(queued) => {
                self.acknowledge(now, from, station, queued);
                if queued.is_update {
                    return true;
                }
                let own = &mut self.stations[station];
                if queued.wants_ack(self.config.link_type)
                    && !own.numbers.is_new(from, queued.number)
                {
                    own.stats.duplicates += 1;
                } else if queued.way.next().is_none() || queued.way.onward().is_none() {
                    own.stats.received += 1;
                    let (station, from) = (StationId(station), StationId(queued.origin.into()));
                    let token = queued.frame.token;
                    self.events.push_back(Event::Received { station, from, token });
                } else {
                    self.pass_on(now, station, queued);
                }
            }
        }
        true
    }

    /// Takes a packet for the next relay or its receiver.
    fn pass_on(&mut self, now: u64, station: usize, queued: &Queued) {
        let Some(way) = queued.way.onward() else { return };
        let Some(next) = way.next() else { return };
        let own = &mut self.stations[station];
        own.stats.relayed += 1;
        let number = own.numbers.next();
        let pending = Targets::one(StationId(next.into()));
        let onward = Queued { way, pending, number, tries: 0, due: u64::MAX, ..*queued };
        let (relay, token) = (StationId(station), queued.frame.token);
        self.events.push_back(Event::Relayed { station: relay, token });
        if !self.enqueue(now, station, onward) {
            self.events.push_back(Event::Forsaken { station: relay, token });
        }
    }

    /// Has a station acknowledge a frame, in its slot or in its own time.
    fn acknowledge(&mut self, now: u64, from: usize, station: usize, queued: &Queued) {
        if !queued.wants_ack(self.config.link_type) {
            return;
        }
        let named = queued.pending.named().iter();
        let Some(place) = named.zip(0..).find(|(it, _)| usize::from(**it) == station) else {
            return;
        };
        let (to, number) = (u8::try_from(from).expect("a net has fewer"), queued.number);
        let own = &mut self.stations[station];
        if self.config.link_type == LinkType::Coupled {
            let at = now + self.times.response_hold(place.1);
            own.answer = Some(Answer { at, to, number });
            self.stop_waiting(station);
            self.plan(at, Step::Answer { station });
        } else {
            let ack = Ack { to, number, precedence: queued.frame.precedence };
            if !own.outbox.push_ack(ack) {
                own.stats.acks_dropped += 1;
            }
        }
    }

    /// A station receives another station's acknowledgement of a frame.
    fn handle_ack(&mut self, from: usize, station: usize, number: u16) {
        let from = u8::try_from(from).expect("a net has fewer");
        let own = &mut self.stations[station];
        if let Some((queued, _)) = &mut own.awaiting {
            if queued.number == number {
                queued.pending.remove(from);
            }
            return;
        }
        if let Some(queued) = own.outbox.handle_ack(number, from) {
            self.finish(station, &queued, true);
        }
    }

    /// Acts on the end of a station's own frame.
    fn handle_sent(&mut self, now: u64, on_air: &OnAir, queued: &Queued, is_received: bool) {
        let station = on_air.from;
        if !queued.wants_ack(self.config.link_type) {
            if !queued.is_update {
                self.finish(station, queued, is_received);
            }
        } else if self.config.link_type == LinkType::Coupled {
            let until = now + self.times.timeout_period(on_air.answers);
            self.stations[station].awaiting = Some((*queued, until));
            self.plan(until, Step::Deadline { station });
        } else {
            let due = now + nanos(self.config.ack_timer);
            self.stations[station].outbox.set_due(queued.number, due);
            self.plan(due, Step::Repeat { station });
        }
    }

    /// Queues a frame once more, or gives it up.
    fn try_again(&mut self, station: usize, queued: Queued) {
        let own = &mut self.stations[station];
        if queued.tries <= self.config.retries {
            own.outbox.push_again(queued);
            return;
        }
        own.stats.given_up += 1;
        let (frame, station) = (queued.frame, StationId(station));
        self.events.push_back(if usize::from(queued.origin) == station.0 {
            Event::Failed { station, frame }
        } else {
            Event::Forsaken { station, token: frame.token }
        });
    }

    fn finish(&mut self, station: usize, queued: &Queued, is_received: bool) {
        let (station, token) = (StationId(station), queued.frame.token);
        self.events.push_back(Event::Sent { station, token, is_received });
    }

    /// Has a station wait for its turn, if it has something to send and the net is free.
    ///
    /// A turn that stands already stays, unless a frame of a higher precedence has come.
    fn contend(&mut self, now: u64, station: usize) {
        let stations = self.stations.len();
        let own = &mut self.stations[station];
        let is_answering = own.awaiting.is_some() || own.answer.is_some();
        let Some(precedence) = own.outbox.precedence() else { return };
        if self.config.access == AccessMethod::RadioEmbedded {
            let octets = own.outbox.next().map_or(0, |queued| queued.frame.octets);
            let long = self.times.transmission(AirTime::frame_bits(1, 8, octets));
            let most = schedule(&self.config, stations, long, own.ear.load(), precedence);
            own.turn.release(precedence, || now.saturating_add(share(most, own.rng.uniform())));
        }
        if !own.ear.is_free() || is_answering {
            return;
        }
        if !own.turn.is_wanted(precedence) {
            return;
        }
        let from = own.ear.slots_from();
        let after = now.max(own.turn.released_at()).saturating_sub(from);
        let access = Access { config: &self.config, times: &self.times, stations };
        let found = match access.slots(station, precedence, &own.turn, after, &mut own.rng) {
            // These slots stand behind the last transmission, wherever the frame came from.
            Slot::OfGrid(slots) => from + self.times.access_delay(slots),
            Slot::FromNow(slots) => from.max(now) + self.times.access_delay(slots),
        };
        let (at, generation) = own.turn.set(found, precedence);
        self.plan(at, Step::Access { station, generation });
    }

    /// Ends the wait of a station whose net is no longer free.
    fn stop_waiting(&mut self, station: usize) {
        self.stations[station].turn.cancel();
    }

    /// Plans the first update of a station, at a time of its own.
    fn plan_first_update(&mut self, station: usize, rng: &mut Rng) {
        if self.config.topology_spacing.is_zero() {
            return;
        }
        let at = nanos(rng.within(self.config.topology_spacing));
        self.plan(at, Step::Update { station });
    }

    /// Sends a topology update if the neighbours of a station differ from its last update.
    fn handle_update(&mut self, now: u64, station: usize) {
        let heard = self.ground.neighbours(now, station);
        let own = &mut self.stations[station];
        let is_news = std::mem::replace(&mut own.told, heard) != heard;
        if self.ground.changes() {
            let spacing = nanos(self.config.topology_spacing);
            self.plan(now + spacing, Step::Update { station });
        }
        if !is_news {
            return;
        }
        let octets = layout::update(self.stations.len());
        let (to, precedence) = (Targets::All, Precedence::Priority);
        let frame = Frame { token: 0, octets, to, precedence };
        let update = Queued {
            frame,
            origin: u8::try_from(station).expect("a net has fewer stations"),
            is_update: true,
            way: Way::default(),
            pending: to,
            number: 0,
            tries: 0,
            due: u64::MAX,
        };
        // One without room is dropped and counted like a packet; the next change brings another.
        let _ = self.enqueue(now, station, update);
    }
}

impl Station {
    fn new(config: &Config, rng: Rng, noise: Rng) -> Self {
        Self {
            ear: Ear::default(),
            turn: Turn::default(),
            outbox: Outbox::new(config),
            numbers: Numbers::default(),
            answer: None,
            awaiting: None,
            told: 0,
            rng,
            noise,
            stats: Stats::default(),
        }
    }
}

/// Whether an item is for a station.
fn is_for(item: &Item, station: usize) -> bool {
    match item {
        Item::Ack(ack) => usize::from(ack.to) == station,
        Item::Frame(queued) => {
            let named = queued.pending.named();
            queued.pending == Targets::All || named.iter().any(|it| usize::from(*it) == station)
        }
    }
}

fn transmission(
    on_air: &OnAir,
    now: u64,
    item: &Item,
    heard: [u32; 2],
    is_received: bool,
) -> Transmission {
    let (kind, to, token, octets) = match item {
        Item::Ack(ack) => (TransmissionKind::Ack, Some(ack.to), 0, 0),
        Item::Frame(queued) if queued.is_update => (TransmissionKind::Update, None, 0, 0),
        Item::Frame(queued) => {
            let to = queued.pending.named().first().copied();
            (TransmissionKind::Data, to, queued.frame.token, queued.frame.octets)
        }
    };
    let collided = on_air.heard.iter().filter(|heard| heard.fate != Fate::Clean).count();
    let collided = u32::try_from(collided).expect("a net has fewer stations");
    Transmission {
        start: Time::from_nanos(on_air.start),
        end: Time::from_nanos(now),
        kind,
        from: StationId(on_air.from),
        to: to.map(|to| StationId(to.into())),
        token,
        octets,
        heard,
        collided,
        is_repeat: matches!(item, Item::Frame(queued) if queued.tries > 1),
        is_received,
    }
}

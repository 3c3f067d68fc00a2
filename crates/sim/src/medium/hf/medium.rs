//! The shared frequency: carries transmissions between HF stations.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use hf::modem::{Event, Waveform};

use super::channel::Channel;
use super::config::{Config, StationId, Stats, Timing};
use super::path::{Path, PathStats};
use super::signal::Signal;

/// How long before a block begins its octets are requested, so that a real-time driver is in time.
const LEAD: Duration = Duration::from_millis(50);
/// The most past transmissions that are remembered to detect collisions.
const SPANS: usize = 64;

/// Stations on one frequency.
#[derive(Debug)]
pub struct Medium {
    config: Config,
    stations: Vec<Station>,
    /// The paths from each station to each other.
    paths: Vec<Path>,
    signals: BTreeMap<u64, Signal>,
    /// When the latest transmissions were on the air.
    spans: VecDeque<Span>,
    agenda: BinaryHeap<Reverse<Entry>>,
    entries: u64,
    events: VecDeque<(StationId, Event)>,
    spare: Vec<Vec<u8>>,
    next_signal: u64,
    seed: u64,
}

#[derive(Debug)]
struct Station {
    /// Its own among the stations.
    name: String,
    /// Random data received where transmissions overlap.
    noise: Rng,
    state: State,
    /// When it last stopped transmitting.
    listens_since: Time,
    stats: Stats,
}

/// The state of a station's radio, which cannot receive while it transmits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    /// It listens and receives no signal.
    #[default]
    Idle,
    /// It receives a signal; `is_deaf` if the preamble was not recognised, so no octets come out.
    Receiving { signal: u64, is_deaf: bool },
    /// It transmits, until `key_down` after the end of the transmission.
    Transmitting { signal: u64 },
}

/// The time for which a transmission was on the air at its sender.
#[derive(Clone, Copy, Debug)]
struct Span {
    signal: u64,
    station: usize,
    from: Time,
    until: Option<Time>,
}

/// A scheduled step; steps at the same time happen in the order in which they were scheduled.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Entry {
    at: Time,
    number: u64,
    step: Step,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Step {
    /// The octets of a block are requested from the sender.
    Ask { signal: u64, block: u32 },
    /// A block begins, and octets that have not come are too late.
    Begin { signal: u64, block: u32 },
    /// A preamble ends at a listener.
    Detect { signal: u64, listener: usize },
    /// A block is decoded at a listener.
    Deliver { signal: u64, listener: usize, block: u32, is_last: bool },
    /// A listener notices the end of a signal.
    Lose { signal: u64, listener: usize },
    /// A station listens again.
    Release { signal: u64 },
    /// A signal is no longer needed and is removed.
    Forget { signal: u64 },
}

impl Medium {
    /// A medium with this many silent stations, which are called by their numbers; noise and fading follow
    /// from `seed`.
    #[must_use]
    pub fn new(config: Config, stations: usize, seed: u64) -> Self {
        Self::named(config, (0..stations).map(|station| station.to_string()), seed)
    }

    /// Creates a medium with named stations. Noise and fading between two stations depend on the seed and
    /// their names, not on other stations and frequencies.
    #[must_use]
    pub fn named(config: Config, names: impl IntoIterator<Item = String>, seed: u64) -> Self {
        let stations: Vec<Station> =
            names.into_iter().map(|name| Station::new(name, seed)).collect();
        let pairs = stations.iter().flat_map(|from| stations.iter().map(move |to| (from, to)));
        Self {
            config,
            paths: pairs.map(|(from, to)| path(config.channel, seed, from, to)).collect(),
            stations,
            signals: BTreeMap::new(),
            spans: VecDeque::new(),
            agenda: BinaryHeap::new(),
            entries: 0,
            events: VecDeque::new(),
            spare: Vec::new(),
            next_signal: 0,
            seed,
        }
    }

    /// The name of a station.
    #[must_use]
    pub fn name(&self, station: StationId) -> &str {
        &self.stations[station.0].name
    }

    /// Changes the channel from one station to another and restarts its fading.
    pub fn set_channel(&mut self, from: StationId, to: StationId, channel: Channel) {
        let index = from.0 * self.stations.len() + to.0;
        let [near, far] = [from, to].map(|station| &self.stations[station.0]);
        let new = path(channel, self.seed, near, far);
        self.paths[index].replace(new);
    }

    /// Turns a station's transmitter on. A reception under way is aborted.
    ///
    /// While the station transmits, the call is refused and counted.
    pub fn start(&mut self, now: Time, station: StationId, waveform: Waveform) {
        let StationId(index) = station;
        match self.stations[index].state {
            State::Transmitting { .. } => {
                self.stations[index].stats.refused_starts += 1;
                return;
            }
            State::Receiving { .. } => {
                self.stations[index].stats.receptions_cut += 1;
                self.events.push_back((station, Event::CarrierLost));
            }
            State::Idle => {}
        }
        let id = self.next_signal;
        self.next_signal += 1;
        let keyed = now + self.config.timing.key_up;
        let signal = Signal::new(index, waveform, keyed, self.spare.pop().unwrap_or_default());
        let first = signal.block_start(0);
        self.signals.insert(id, signal);
        self.stations[index].state = State::Transmitting { signal: id };
        self.stations[index].stats.transmissions += 1;
        self.spans.push_back(Span { signal: id, station: index, from: keyed, until: None });
        if self.spans.len() > SPANS {
            self.spans.pop_front();
        }
        for listener in self.others(index) {
            let at = first + self.config.timing.propagation;
            self.plan(at, Step::Detect { signal: id, listener });
        }
        self.plan((first - LEAD).max(now), Step::Ask { signal: id, block: 0 });
        self.plan(first, Step::Begin { signal: id, block: 0 });
    }

    /// Takes octets of a station's transmission, at most as many as [`Self::room`] returns.
    pub fn supply(&mut self, station: StationId, octets: &[u8]) {
        let refused = match self.signal_of(station) {
            Some(signal) => signal.supply(octets),
            None => octets.len(),
        };
        self.stations[station.0].stats.refused_octets += refused as u64;
    }

    /// Ends a station's transmission with the octets given so far.
    pub fn end(&mut self, station: StationId) {
        if let Some(signal) = self.signal_of(station) {
            signal.end();
        }
    }

    /// Carries out all steps that are due by `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(Reverse(entry)) = self.agenda.peek() {
            if entry.at > now {
                return;
            }
            let Entry { at, step, .. } = *entry;
            self.agenda.pop();
            self.take(at, step);
        }
    }

    /// The next event of a station's modem.
    pub fn poll_event(&mut self) -> Option<(StationId, Event)> {
        self.events.pop_front()
    }

    /// When the next step is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.agenda.peek().map(|Reverse(entry)| entry.at)
    }

    /// The number of octets that a station's modem requests now: those missing from the next block,
    /// once that is about to begin.
    #[must_use]
    pub fn room(&self, station: StationId) -> usize {
        match self.stations[station.0].state {
            State::Transmitting { signal } => self.signals.get(&signal).map_or(0, Signal::room),
            State::Idle | State::Receiving { .. } => 0,
        }
    }

    /// The number of stations.
    #[must_use]
    pub fn stations(&self) -> usize {
        self.stations.len()
    }

    /// Whether a station transmits.
    #[must_use]
    pub fn is_transmitting(&self, station: StationId) -> bool {
        matches!(self.stations[station.0].state, State::Transmitting { .. })
    }

    /// Whether nobody transmits or receives.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.stations.iter().all(|station| station.state == State::Idle)
    }

    /// The counters of a station.
    #[must_use]
    pub fn stats(&self, station: StationId) -> Stats {
        self.stations[station.0].stats
    }

    /// The counters of the path from one station to another.
    #[must_use]
    pub fn path_stats(&self, from: StationId, to: StationId) -> PathStats {
        self.path(from.0, to.0).stats()
    }

    /// The delays.
    #[must_use]
    pub fn timing(&self) -> Timing {
        self.config.timing
    }

    fn take(&mut self, at: Time, step: Step) {
        match step {
            Step::Ask { signal, block } => {
                if let Some(signal) = self.signals.get_mut(&signal) {
                    signal.ask(block);
                }
            }
            Step::Begin { signal, block } => self.begin(signal, block),
            Step::Detect { signal, listener } => self.detect(at, signal, listener),
            Step::Deliver { signal, listener, block, is_last } => {
                self.deliver(at, signal, listener, block, is_last);
            }
            Step::Lose { signal, listener } => self.lose(at, signal, listener),
            Step::Release { signal } => self.release(at, signal),
            Step::Forget { signal } => {
                if let Some(signal) = self.signals.remove(&signal) {
                    self.spare.push(signal.into_buffer());
                }
            }
        }
    }

    /// Puts a block on the air.
    fn begin(&mut self, id: u64, block: u32) {
        let Timing { decoder, propagation, key_down, .. } = self.config.timing;
        let Some(signal) = self.signals.get_mut(&id) else { return };
        let (station, waveform) = (signal.station(), signal.waveform());
        let missing = signal.fill();
        let is_last = signal.is_last(block);
        let end = signal.block_start(block + 1);
        // Listeners lag behind the sender by less than this many blocks.
        let behind = (decoder + propagation).as_nanos() / waveform.block_time().as_nanos() + 2;
        signal.forget_before(block.saturating_sub(u32::try_from(behind).unwrap_or(u32::MAX)));
        let stats = &mut self.stations[station].stats;
        stats.blocks += 1;
        stats.underrun_octets += missing as u64;

        let heard = end + propagation + decoder;
        for listener in self.others(station) {
            self.plan(heard, Step::Deliver { signal: id, listener, block, is_last });
        }
        if is_last {
            self.signals.get_mut(&id).expect("it was there above").stop(end);
            if let Some(span) = self.spans.iter_mut().find(|span| span.signal == id) {
                span.until = Some(end);
            }
            self.plan(end + key_down, Step::Release { signal: id });
            // Listeners that miss the end of the message take one more block.
            let forgotten = heard.max(end + key_down) + waveform.block_time() * 2;
            self.plan(forgotten, Step::Forget { signal: id });
        } else {
            self.plan(end - LEAD, Step::Ask { signal: id, block: block + 1 });
            self.plan(end, Step::Begin { signal: id, block: block + 1 });
        }
    }

    /// The preamble has ended at a listener.
    fn detect(&mut self, at: Time, id: u64, listener: usize) {
        if self.stations[listener].state != State::Idle {
            return;
        }
        let Some(signal) = self.signals.get(&id) else { return };
        let (from, waveform, keyed) = (signal.station(), signal.waveform(), signal.keyed());
        let index = self.index(from, listener);
        if self.paths[index].channel() == Channel::Silent {
            return;
        }
        if !self.paths[index].is_acquired(waveform, keyed) {
            self.paths[index].miss_preamble();
            return;
        }
        let arrived = keyed + self.config.timing.propagation;
        let is_deaf = self.stations[listener].listens_since > arrived
            || self.is_disturbed(id, listener, arrived, at);
        self.lock(listener, id, (!is_deaf).then_some(waveform));
    }

    /// A listener begins to receive a signal; `waveform` is `None` if it missed the preamble.
    fn lock(&mut self, listener: usize, signal: u64, waveform: Option<Waveform>) {
        let is_deaf = waveform.is_none();
        self.stations[listener].state = State::Receiving { signal, is_deaf };
        self.stations[listener].stats.unreadable += u64::from(is_deaf);
        self.events.push_back((StationId(listener), Event::CarrierDetected { waveform }));
    }

    /// A listener has decoded a block.
    fn deliver(&mut self, at: Time, id: u64, listener: usize, block: u32, is_last: bool) {
        let State::Receiving { signal, is_deaf } = self.stations[listener].state else { return };
        if signal != id {
            return;
        }
        if is_deaf {
            if is_last {
                self.lose(at, id, listener);
            }
            return;
        }
        let Some(signal) = self.signals.get(&id) else { return };
        let propagation = self.config.timing.propagation;
        let (start, end) = (signal.block_start(block), signal.block_start(block + 1));
        let waveform = signal.waveform();
        let is_hit = self.is_disturbed(id, listener, start + propagation, end + propagation);
        let index = self.index(self.signals[&id].station(), listener);
        let path = &mut self.paths[index];
        let ber = if is_hit { 0.5 } else { path.ber(waveform, start) };
        let is_end_missed = is_last && !path.is_end_found(ber);

        let mut octets = Vec::new();
        self.signals[&id].copy_block(block, is_end_missed, &mut octets);
        if is_hit {
            path.collide(&octets);
            let noise = &mut self.stations[listener].noise;
            octets.fill_with(|| noise.bits().to_be_bytes()[0]);
        } else {
            path.carry(ber, &mut octets);
        }
        if !octets.is_empty() {
            self.events.push_back((StationId(listener), Event::Received(octets)));
        }
        if is_end_missed {
            self.stations[listener].stats.missed_ends += 1;
            self.plan(at + waveform.block_time(), Step::Lose { signal: id, listener });
        } else if is_last {
            self.lose(at, id, listener);
        }
    }

    /// A listener has received all of a signal.
    fn lose(&mut self, at: Time, id: u64, listener: usize) {
        match self.stations[listener].state {
            State::Receiving { signal, .. } if signal == id => {
                self.stations[listener].state = State::Idle;
                self.events.push_back((StationId(listener), Event::CarrierLost));
                self.look_around(at, listener);
            }
            State::Idle | State::Receiving { .. } | State::Transmitting { .. } => {}
        }
    }

    /// A station has ended its transmission and listens again.
    fn release(&mut self, at: Time, id: u64) {
        let Some(signal) = self.signals.get(&id) else { return };
        let station = signal.station();
        self.stations[station].state = State::Idle;
        self.stations[station].listens_since = at;
        self.events.push_back((StationId(station), Event::Sent));
        self.look_around(at, station);
    }

    /// Lets a listener that has just become idle detect a signal whose preamble is already over.
    fn look_around(&mut self, at: Time, listener: usize) {
        let propagation = self.config.timing.propagation;
        let found = self.signals.iter().find(|(_, signal)| {
            let path = &self.paths[self.index(signal.station(), listener)];
            let is_on = signal.block_start(0) + propagation < at
                && signal.until().is_none_or(|until| until + propagation > at);
            let is_heard = path.channel() != Channel::Silent
                && path.is_acquired(signal.waveform(), signal.keyed());
            signal.station() != listener && is_on && is_heard
        });
        if let Some((&id, _)) = found {
            self.lock(listener, id, None);
        }
    }

    /// Whether another transmission reaches `listener` between these two times.
    fn is_disturbed(&self, id: u64, listener: usize, from: Time, until: Time) -> bool {
        let propagation = self.config.timing.propagation;
        self.spans.iter().any(|span| {
            let is_other = span.signal != id && span.station != listener;
            let begins_before = span.from + propagation < until;
            let ends_after = span.until.is_none_or(|end| end + propagation > from);
            let is_heard = || self.path(span.station, listener).channel() != Channel::Silent;
            is_other && begins_before && ends_after && is_heard()
        })
    }

    fn signal_of(&mut self, station: StationId) -> Option<&mut Signal> {
        match self.stations[station.0].state {
            State::Transmitting { signal } => self.signals.get_mut(&signal),
            State::Idle | State::Receiving { .. } => None,
        }
    }

    fn others(&self, station: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.stations.len()).filter(move |&other| other != station)
    }

    fn index(&self, from: usize, to: usize) -> usize {
        from * self.stations.len() + to
    }

    fn path(&self, from: usize, to: usize) -> &Path {
        &self.paths[self.index(from, to)]
    }

    fn plan(&mut self, at: Time, step: Step) {
        self.entries += 1;
        self.agenda.push(Reverse(Entry { at, number: self.entries, step }));
    }
}

impl Station {
    fn new(name: String, seed: u64) -> Self {
        Self {
            noise: Rng::stream(seed, &format!("hf collisions {name}")),
            name,
            state: State::Idle,
            listens_since: Time::ZERO,
            stats: Stats::default(),
        }
    }
}

fn path(channel: Channel, seed: u64, from: &Station, to: &Station) -> Path {
    Path::new(channel, Rng::stream(seed, &format!("hf path {} {}", from.name, to.name)))
}

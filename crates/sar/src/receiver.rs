//! The receiving half: reassembles transfers, delivers messages, and answers their originators.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use base::time::Time;

use super::answers::{About, Answer, Answers, Say};
use super::config::{Config, Profile};
use super::deadlines::Deadlines;
use super::finished::{Ending, Finished, Recognised, Remembered, fingerprint};
use super::incoming::{Incoming, PLACE, Stage, TRANSFER, Taken};
use super::message::{Arrival, Delivered, Event, Precedence};
use super::shares::{Shares, Source};
use super::stats::Received;
use super::wire::{Cover, DATA_HEADER, MaskBuffer, Place, Ports, REPAIR_HEADER};

/// All transfers from others.
#[derive(Debug)]
pub struct Receiver {
    all: BTreeMap<Key, Incoming>,
    /// Transfers of which one segment has arrived; each weighs 1.
    begun: Shares<Key>,
    /// Transfers with more segments; each weighs its octets.
    growing: Shares<Key>,
    finished: Finished,
    deadlines: Deadlines<Key>,
    /// What the driver has not taken.
    events: VecDeque<Event>,
    /// What all transfers keep.
    octets: usize,
    stats: Received,
}

/// Names a transfer: originator, serial number and ports. A forger must guess the ports to interfere.
type Key = (IpAddr, u16, Ports);

/// A segment as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    pub(super) ports: Ports,
    pub(super) serial: u16,
    pub(super) is_acknowledged: bool,
    pub(super) polls: bool,
    pub(super) place: Place,
    pub(super) data: &'a [u8],
}

/// One source may have this part of the transfers of a stage while others want room.
const FAIR: u64 = 16;

impl Receiver {
    pub fn new(config: &Config) -> Self {
        Self {
            all: BTreeMap::new(),
            begun: Shares::default(),
            growing: Shares::default(),
            finished: Finished::new(config.limits.remembered, config.times.remember),
            deadlines: Deadlines::default(),
            events: VecDeque::new(),
            octets: 0,
            stats: Received::default(),
        }
    }

    /// A segment arrived.
    pub fn handle_segment(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        arrival: Arrival,
        segment: Segment<'_>,
    ) {
        self.stats.segments += 1;
        let Segment { ports, serial, is_acknowledged, polls, place, data } = segment;
        let key = (arrival.from, serial, ports);
        let reply = Reply { now, config, arrival, ports, serial };
        if self.all.get(&key).is_some_and(|it| it.last() != place.last() && it.is_doubtful()) {
            // If two transfers contradict each other, the later one counts, as long as neither has more segments.
            self.stats.odd += 1;
            self.remove(key);
        }
        if !self.all.contains_key(&key) {
            let first = (place.number() == 1).then_some(data);
            match self.finished.recognise(now, (arrival.from, serial), ports, place.last(), first) {
                Some(Recognised::Late(Ending::Aborted)) => {
                    self.stats.late += 1;
                    if polls {
                        self.schedule_stray(&reply, answers, Say::AbortRequest, false);
                    }
                    return;
                }
                Some(Recognised::Late(Ending::Delivered)) => {
                    self.stats.late += 1;
                    // Without P the last segment of a message that is sent again stands for the whole.
                    if polls || is_acknowledged && place.is_last() {
                        reply.schedule(answers, Say::Complete, polls);
                    }
                    return;
                }
                Some(Recognised::New) | None => {}
            }
            if place.last() == 1 {
                self.take_single(answers, &reply, &segment);
                return;
            }
            if !self.begin(answers, &reply, place, data.len(), polls) {
                return;
            }
        }
        let growth = self.all.get(&key).map_or(0, |incoming| incoming.growth(data.len()));
        if !self.make_room(config, growth, Some(key)) {
            return;
        }
        let Some(incoming) = self.all.get_mut(&key) else { return };
        if incoming.last() != place.last() {
            self.stats.odd += 1;
            return;
        }
        let before = incoming.octets();
        if incoming.exceeds(config.limits.message, data.len()) {
            self.stats.too_large += 1;
            return;
        }
        incoming.earn(DATA_HEADER + data.len());
        match incoming.take(now, place, data) {
            Taken::Again => {
                self.stats.again += 1;
                self.touch(&reply);
                if polls {
                    reply.schedule(answers, Say::Partial, true);
                }
                return;
            }
            Taken::Odd => {
                self.stats.odd += 1;
                // What differs from the others may be forged: only the standard's profiles break off.
                if matches!(config.profile, Profile::Basic | Profile::Enhanced) {
                    self.give_up(now, key, Ending::Aborted);
                    reply.schedule(answers, Say::AbortRequest, false);
                } else if self.all.get(&key).is_some_and(Incoming::is_doubtful) {
                    // The earlier transfer may be forged as well.
                    self.remove(key);
                }
                return;
            }
            Taken::Stored => {}
        }
        self.octets = (self.octets + incoming.octets()).saturating_sub(before);
        self.rank(key);
        self.settle(answers, &reply, polls, is_acknowledged);
    }

    /// A message of a single segment needs no place.
    fn take_single(&mut self, answers: &mut Answers, reply: &Reply<'_>, segment: &Segment<'_>) {
        let Segment { ports, serial, is_acknowledged, polls, data, .. } = *segment;
        let Reply { now, config, arrival, .. } = *reply;
        if data.len() > config.limits.message as usize {
            self.stats.too_large += 1;
            return;
        }
        let identity = Remembered {
            source: arrival.from,
            serial,
            ports,
            last: 1,
            fingerprint: fingerprint(data),
            ending: Ending::Delivered,
        };
        self.deliver(now, identity, arrival.precedence, data.to_vec());
        if is_acknowledged || polls {
            reply.schedule(answers, Say::Complete, polls);
        }
    }

    /// A repair arrived.
    pub fn handle_repair(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        arrival: Arrival,
        repair: (Ports, u16, bool, Cover, &[u8]),
    ) {
        self.stats.repairs += 1;
        let (ports, serial, polls, cover, symbol) = repair;
        let key = (arrival.from, serial, ports);
        let reply = Reply { now, config, arrival, ports, serial };
        if !config.coding || cover.span > super::repair::MOST_SPAN {
            self.stats.repairs_useless += 1;
            return;
        }
        if !self.all.contains_key(&key) {
            let last = cover.first.last();
            match self.finished.recognise(now, (arrival.from, serial), ports, last, None) {
                Some(Recognised::Late(Ending::Delivered)) => {
                    self.stats.late += 1;
                    if polls {
                        reply.schedule(answers, Say::Complete, true);
                    }
                    return;
                }
                Some(Recognised::Late(Ending::Aborted)) => {
                    self.stats.late += 1;
                    return;
                }
                Some(Recognised::New) | None => {}
            }
            if !self.begin(answers, &reply, cover.first, symbol.len(), polls) {
                return;
            }
        }
        let growth = self.all.get(&key).map_or(0, |incoming| incoming.growth(symbol.len()));
        if !self.make_room(config, growth, Some(key)) {
            return;
        }
        let Some(incoming) = self.all.get_mut(&key) else { return };
        let before = incoming.octets();
        if incoming.exceeds(config.limits.message, symbol.len()) {
            self.stats.odd += 1;
            return;
        }
        incoming.earn(REPAIR_HEADER + symbol.len());
        match incoming.repair(now, serial, &cover, symbol) {
            Some(given) => self.stats.repaired += given as u64,
            None => self.stats.repairs_useless += 1,
        }
        self.octets = (self.octets + incoming.octets()).saturating_sub(before);
        self.rank(key);
        self.settle(answers, &reply, polls, true);
    }

    /// Makes room for a transfer; false if there is none, or if the segment cannot begin a transfer.
    fn begin(
        &mut self,
        answers: &mut Answers,
        reply: &Reply<'_>,
        place: Place,
        octets: usize,
        polls: bool,
    ) -> bool {
        let Reply { now, config, arrival, ports, serial } = *reply;
        let is_late_entry = place.number() != 1;
        if is_late_entry && matches!(config.profile, Profile::Basic | Profile::Enhanced) {
            self.stats.stray += 1;
            if polls {
                self.schedule_stray(reply, answers, Say::AbortRequest, false);
            }
            return false;
        }
        let most = config.limits.message as usize;
        if octets > most || (usize::from(place.last()) - 1).saturating_mul(octets) >= most {
            self.stats.too_large += 1;
            return false;
        }
        if !self.make_room(config, TRANSFER + octets + PLACE, None) {
            return false;
        }
        let key = (arrival.from, serial, ports);
        let mut incoming = Incoming::new(now, config, place.last(), arrival.precedence);
        let due = incoming.deadline(config);
        self.deadlines.set(incoming.noted_due(), Some(due), key);
        self.octets += incoming.octets();
        self.all.insert(key, incoming);
        self.rank(key);
        true
    }

    /// Makes room for so many octets, of a new transfer or of a growing one, by giving up others. False if the transfer
    /// itself would be the first to go.
    fn make_room(&mut self, config: &Config, octets: usize, of: Option<Key>) -> bool {
        let limits = &config.limits;
        loop {
            let has_octets = self.octets + octets <= limits.reassembly_octets;
            let has_place = of.is_some() || self.all.len() < limits.reassemblies;
            if has_octets && has_place {
                return true;
            }
            let given_up = self.first_to_go(config, has_place).filter(|key| Some(*key) != of);
            let Some(key) = given_up else {
                self.stats.full += 1;
                return false;
            };
            self.stats.evicted += 1;
            self.remove(key);
        }
    }

    /// Chooses the transfer to give up for a new one: transfers that have just begun may use half of the places and of
    /// the octets.
    fn first_to_go(&self, config: &Config, has_place: bool) -> Option<Key> {
        let limits = &config.limits;
        let begun = match has_place {
            true => {
                (self.octets as u64).saturating_sub(self.growing.total())
                    > limits.reassembly_octets as u64 / 2
            }
            false => self.begun.len() * 2 >= limits.reassemblies,
        };
        // A message has room in the share of its source, however long it may be.
        let octets = (limits.reassembly_octets as u64 / FAIR).max(2 * u64::from(limits.message));
        let of_begun = self.begun.first(limits.reassemblies as u64 / 2 / FAIR);
        let of_growing = self.growing.first(octets);
        match begun {
            true => of_begun.or(of_growing),
            false => of_growing.or(of_begun),
        }
    }

    /// Notes that something new came for a transfer.
    fn rank(&mut self, key: Key) {
        let Some(incoming) = self.all.get_mut(&key) else { return };
        let (stage, source) = (incoming.stage(), Source::of(key.0));
        match incoming.note_place(None) {
            Some((Stage::Begun, place)) => self.begun.remove(place),
            Some((Stage::Growing, place)) => self.growing.remove(place),
            None => {}
        }
        let place = match stage {
            Stage::Begun => self.begun.insert(source, key, 1),
            Stage::Growing => self.growing.insert(source, key, incoming.octets() as u64),
        };
        incoming.note_place(Some((stage, place)));
    }

    /// Schedules an answer about a transfer that is not known.
    fn schedule_stray(&self, reply: &Reply<'_>, answers: &mut Answers, say: Say, is_final: bool) {
        let is_known = self.finished.has_source(reply.arrival.from);
        reply.schedule_stray(answers, say, is_final, is_known);
    }

    /// Delivers a transfer that is complete, answers, and sets its deadline.
    fn settle(
        &mut self,
        answers: &mut Answers,
        reply: &Reply<'_>,
        polls: bool,
        is_acknowledged: bool,
    ) {
        let key = reply.key();
        let Some(incoming) = self.all.get_mut(&key) else { return };
        if incoming.is_complete() {
            self.complete(reply);
            if is_acknowledged || polls {
                reply.schedule(answers, Say::Complete, polls);
            }
            return;
        }
        if polls {
            incoming.handle_poll();
        }
        let unasked = reply.config.flow.unasked;
        if polls || is_acknowledged && unasked > 0 && incoming.has_unanswered(unasked) {
            incoming.handle_answer();
            reply.schedule(answers, Say::Partial, polls);
        }
        let due = incoming.deadline(reply.config);
        self.deadlines.set(incoming.noted_due(), Some(due), key);
    }

    fn complete(&mut self, reply: &Reply<'_>) {
        let key = reply.key();
        let Some(incoming) = self.remove(key) else { return };
        let precedence = incoming.precedence().max(reply.arrival.precedence);
        let identity = remembered(key, &incoming, Ending::Delivered);
        self.deliver(reply.now, identity, precedence, incoming.data());
    }

    fn deliver(&mut self, now: Time, identity: Remembered, precedence: Precedence, data: Vec<u8>) {
        self.stats.messages += 1;
        self.stats.octets += data.len() as u64;
        self.know(now, identity);
        let Remembered { source, ports, .. } = identity;
        let delivered = Delivered { source, ports, precedence, data, identity };
        self.events.push_back(Event::Received(delivered));
    }

    /// Keeps what a transfer was known by, and forgets others where there is no room.
    pub fn know(&mut self, now: Time, identity: Remembered) {
        for (source, serial) in self.finished.insert(now, identity) {
            self.stats.forgotten += 1;
            self.events.push_back(Event::Forgotten { source, serial });
        }
    }

    /// Finished transfers that are remembered.
    pub fn finished(&self) -> &Finished {
        &self.finished
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub fn stats(&self) -> Received {
        self.stats
    }

    /// The originator asks what has arrived.
    pub fn handle_request(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        arrival: Arrival,
        (ports, serial): (Ports, u16),
    ) {
        self.stats.requests += 1;
        let reply = Reply { now, config, arrival, ports, serial };
        if let Some(incoming) = self.all.get_mut(&reply.key()) {
            incoming.earn(REQUEST);
            incoming.handle_poll();
            self.touch(&reply);
            reply.schedule(answers, Say::Partial, true);
            return;
        }
        let known = self.finished.get(now, (arrival.from, serial));
        match known.filter(|known| known.ports == ports) {
            Some(Remembered { ending: Ending::Delivered, .. }) => {
                reply.schedule(answers, Say::Complete, true);
            }
            Some(Remembered { ending: Ending::Aborted, .. }) => {
                self.schedule_stray(&reply, answers, Say::AbortRequest, false);
            }
            None => self.schedule_stray(&reply, answers, Say::Partial, true),
        }
    }

    /// The originator is there, though nothing new came.
    fn touch(&mut self, reply: &Reply<'_>) {
        let key = reply.key();
        let Some(incoming) = self.all.get_mut(&key) else { return };
        incoming.touch(reply.now);
        let due = incoming.deadline(reply.config);
        self.deadlines.set(incoming.noted_due(), Some(due), key);
    }

    /// Handles an originator that gives up; false if the transfer is unknown.
    pub fn handle_abort(&mut self, now: Time, config: &Config, key: Key) -> bool {
        let is_meant = self.all.contains_key(&key);
        if is_meant {
            self.stats.aborts += 1;
            match config.profile {
                // Whoever sends it again all the same has not given up.
                Profile::Default => _ = self.remove(key),
                Profile::Basic | Profile::Early | Profile::Enhanced | Profile::Seed => {
                    self.give_up(now, key, Ending::Aborted);
                }
            }
        }
        is_meant
    }

    /// The mask of arrived segments; an unknown transfer has none.
    pub fn mask(&mut self, key: Key) -> MaskBuffer {
        match self.all.get_mut(&key) {
            Some(incoming) => incoming.mask(),
            None => MaskBuffer::new(1),
        }
    }

    pub fn handle_timeout(&mut self, now: Time, config: &Config, answers: &mut Answers) {
        while let Some(key) = self.deadlines.take(now) {
            let Some(incoming) = self.all.get_mut(&key) else { continue };
            *incoming.noted_due() = None;
            let arrival =
                Arrival { from: key.0, is_group: false, precedence: incoming.precedence() };
            let reply = Reply { now, config, arrival, ports: key.2, serial: key.1 };
            if incoming.may_report(config) {
                incoming.handle_report();
                // A late report counts from the time at which it was due.
                let next = incoming.deadline(config).max(now + config.times.least_timeout);
                self.deadlines.set(incoming.noted_due(), Some(next), key);
                // No received segment calls for this answer, so invented transfers must not get three of them.
                self.schedule_stray(&reply, answers, Say::Partial, false);
                continue;
            }
            self.stats.given_up += 1;
            match config.profile {
                Profile::Basic | Profile::Enhanced => {
                    self.give_up(now, key, Ending::Aborted);
                    self.schedule_stray(&reply, answers, Say::AbortRequest, false);
                }
                // Its originator may still come back to it, and then begins anew.
                Profile::Default | Profile::Early | Profile::Seed => _ = self.remove(key),
            }
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn octets(&self) -> usize {
        self.octets
    }

    fn give_up(&mut self, now: Time, key: Key, ending: Ending) {
        if let Some(incoming) = self.remove(key) {
            let known = remembered(key, &incoming, ending);
            self.know(now, known);
        }
    }

    fn remove(&mut self, key: Key) -> Option<Incoming> {
        let mut incoming = self.all.remove(&key)?;
        self.deadlines.set(incoming.noted_due(), None, key);
        match incoming.note_place(None) {
            Some((Stage::Begun, place)) => self.begun.remove(place),
            Some((Stage::Growing, place)) => self.growing.remove(place),
            None => {}
        }
        self.octets = self.octets.saturating_sub(incoming.octets());
        Some(incoming)
    }
}

/// Octets of an acknowledgement request.
const REQUEST: usize = 12;

fn remembered((source, serial, ports): Key, incoming: &Incoming, ending: Ending) -> Remembered {
    let fingerprint = incoming.first().map_or(0, fingerprint);
    Remembered { source, serial, ports, last: incoming.last(), fingerprint, ending }
}

/// What an answer follows from.
#[derive(Clone, Copy, Debug)]
struct Reply<'a> {
    now: Time,
    config: &'a Config,
    arrival: Arrival,
    ports: Ports,
    serial: u16,
}

impl Reply<'_> {
    fn key(&self) -> Key {
        (self.arrival.from, self.serial, self.ports)
    }

    fn schedule(&self, answers: &mut Answers, say: Say, is_final: bool) {
        let (about, answer) = self.answer(say, is_final);
        answers.schedule(self.now, self.config, about, answer, self.arrival.is_group);
    }

    fn schedule_stray(&self, answers: &mut Answers, say: Say, is_final: bool, is_known: bool) {
        let (about, answer) = self.answer(say, is_final);
        let who = (is_known, self.arrival.is_group);
        answers.schedule_stray(self.now, self.config, about, answer, who);
    }

    fn answer(&self, say: Say, is_final: bool) -> (About, Answer) {
        let about = About { peer: self.arrival.from, serial: self.serial, is_ours: false };
        let (ports, precedence) = (self.ports.swapped(), self.arrival.precedence);
        (about, Answer { say, ports, is_final, precedence })
    }
}

//! The receiving half: reassembles transfers, delivers messages, and answers their originators.

use std::collections::{BTreeMap, VecDeque};

use base::time::Time;

use super::answers::{Answers, Key, Reply, Say};
use super::config::{Config, Profile};
use super::deadlines::Deadlines;
use super::finished::{Ending, Finished, Recognised, Remembered, fingerprint};
use super::incoming::{Incoming, PLACE, Stage, TRANSFER, Taken};
use super::message::{Delivered, Event, Precedence};
use super::shares::{Shares, Source};
use super::stats::Received;
use super::wire::{Cover, DATA_HEADER, MaskBuffer, Place, REPAIR_HEADER};

/// All transfers from others.
#[derive(Debug)]
pub struct Receiver {
    config: Config,
    all: BTreeMap<Key, Incoming>,
    ranks: Ranks,
    finished: Finished,
    deadlines: Deadlines<Key>,
    /// What the driver has not taken.
    events: VecDeque<Event>,
    /// What all transfers keep.
    octets: usize,
    stats: Received,
}

/// All transfers in the order in which they give way to others.
#[derive(Debug, Default)]
struct Ranks {
    /// Transfers with a single segment so far; each weighs 1.
    begun: Shares<Key>,
    /// Transfers with more segments; each weighs its octets.
    growing: Shares<Key>,
}

/// A segment as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    pub is_acknowledged: bool,
    pub polls: bool,
    pub place: Place,
    pub data: &'a [u8],
}

/// A single source may use at most 1 / `FAIR` of a stage while other sources want room.
const FAIR: u64 = 16;

impl Receiver {
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            all: BTreeMap::new(),
            ranks: Ranks::default(),
            finished: Finished::new(config.limits.remembered, config.times.remember),
            deadlines: Deadlines::default(),
            events: VecDeque::new(),
            octets: 0,
            stats: Received::default(),
        }
    }

    /// A segment arrived.
    pub fn handle_segment(&mut self, reply: &mut Reply<'_>, segment: Segment<'_>) {
        self.stats.segments += 1;
        let Segment { is_acknowledged, polls, place, data } = segment;
        let key = reply.key;
        if self.all.get(&key).is_some_and(|it| it.last() != place.last() && it.is_doubtful()) {
            // If two transfers contradict each other, the later one counts, as long as neither has more segments.
            self.stats.odd += 1;
            self.remove(key);
        }
        let first = (place.number() == 1).then_some(data);
        if let Some(ending) = self.recognise(reply, place.last(), first) {
            match ending {
                Ending::Aborted if polls => self.schedule_stray(reply, Say::AbortRequest, false),
                // Without P the last segment of a message that is sent again stands for the whole.
                Ending::Delivered if polls || is_acknowledged && place.is_last() => {
                    reply.schedule(Say::Complete, polls);
                }
                Ending::Aborted | Ending::Delivered => {}
            }
            return;
        }
        if place.last() == 1 && !self.all.contains_key(&key) {
            self.take_single(reply, &segment);
            return;
        }
        if !self.admit(reply, place, data.len(), polls) {
            return;
        }
        let Some(incoming) = self.all.get_mut(&key) else { return };
        if incoming.last() != place.last() {
            self.stats.odd += 1;
            return;
        }
        let before = incoming.octets();
        if incoming.exceeds(self.config.limits.message, data.len()) {
            self.stats.too_large += 1;
            return;
        }
        incoming.earn(DATA_HEADER + data.len());
        match incoming.take(reply.now, place, data) {
            Taken::Again => {
                self.stats.again += 1;
                self.touch(reply);
                if polls {
                    reply.schedule(Say::Partial, true);
                }
                return;
            }
            Taken::Odd => {
                self.stats.odd += 1;
                // What differs from the others may be forged: only the standard's profiles break off.
                if matches!(self.config.profile, Profile::Basic | Profile::Enhanced) {
                    self.give_up(reply.now, key);
                    reply.schedule(Say::AbortRequest, false);
                } else if self.all.get(&key).is_some_and(Incoming::is_doubtful) {
                    // The earlier transfer may be forged as well.
                    self.remove(key);
                }
                return;
            }
            Taken::Stored => {}
        }
        self.settle(reply, before, polls, is_acknowledged);
    }

    /// How the transfer of a late segment or repair ended; `None` if no finished transfer is known for the segment.
    fn recognise(&mut self, reply: &Reply<'_>, last: u16, first: Option<&[u8]>) -> Option<Ending> {
        if self.all.contains_key(&reply.key) {
            return None;
        }
        let Key { peer, serial, ports } = reply.key;
        match self.finished.recognise(reply.now, (peer, serial), ports, last, first)? {
            Recognised::Late(ending) => {
                self.stats.late += 1;
                Some(ending)
            }
            Recognised::New => None,
        }
    }

    /// A message of a single segment needs no place.
    fn take_single(&mut self, reply: &mut Reply<'_>, segment: &Segment<'_>) {
        let Segment { is_acknowledged, polls, data, .. } = *segment;
        if data.len() > self.config.limits.message as usize {
            self.stats.too_large += 1;
            return;
        }
        let identity = remembered(reply.key, 1, Some(data), Ending::Delivered);
        self.deliver(reply.now, identity, reply.precedence, data.to_vec());
        if is_acknowledged || polls {
            reply.schedule(Say::Complete, polls);
        }
    }

    /// A repair arrived.
    pub fn handle_repair(
        &mut self,
        reply: &mut Reply<'_>,
        polls: bool,
        cover: &Cover,
        symbol: &[u8],
    ) {
        self.stats.repairs += 1;
        if !self.config.coding || cover.span > super::repair::MOST_SPAN {
            self.stats.repairs_useless += 1;
            return;
        }
        if let Some(ending) = self.recognise(reply, cover.first.last(), None) {
            if polls && ending == Ending::Delivered {
                reply.schedule(Say::Complete, true);
            }
            return;
        }
        if !self.admit(reply, cover.first, symbol.len(), polls) {
            return;
        }
        let Some(incoming) = self.all.get_mut(&reply.key) else { return };
        let before = incoming.octets();
        if incoming.exceeds(self.config.limits.message, symbol.len()) {
            self.stats.odd += 1;
            return;
        }
        incoming.earn(REPAIR_HEADER + symbol.len());
        match incoming.repair(reply.now, reply.key.serial, cover, symbol) {
            Some(given) => self.stats.repaired += given as u64,
            None => self.stats.repairs_useless += 1,
        }
        self.settle(reply, before, polls, true);
    }

    /// Makes room for a segment or a repair, and for its transfer if it is new; false if there is none, or if the
    /// segment cannot begin a transfer.
    fn admit(&mut self, reply: &mut Reply<'_>, place: Place, octets: usize, polls: bool) -> bool {
        let has_begun =
            self.all.contains_key(&reply.key) || self.begin(reply, place, octets, polls);
        let growth = self.all.get(&reply.key).map_or(0, |incoming| incoming.growth(octets));
        has_begun && self.make_room(growth, Some(reply.key))
    }

    fn begin(&mut self, reply: &mut Reply<'_>, place: Place, octets: usize, polls: bool) -> bool {
        let is_late_entry = place.number() != 1;
        if is_late_entry && matches!(self.config.profile, Profile::Basic | Profile::Enhanced) {
            self.stats.stray += 1;
            if polls {
                self.schedule_stray(reply, Say::AbortRequest, false);
            }
            return false;
        }
        let most = self.config.limits.message as usize;
        if octets > most || (usize::from(place.last()) - 1).saturating_mul(octets) >= most {
            self.stats.too_large += 1;
            return false;
        }
        if !self.make_room(TRANSFER + octets + PLACE, None) {
            return false;
        }
        let key = reply.key;
        let mut incoming = Incoming::new(reply.now, &self.config, place.last(), reply.precedence);
        let due = incoming.deadline(&self.config);
        self.deadlines.set(incoming.noted_due(), Some(due), key);
        self.octets += incoming.octets();
        self.ranks.place(key, &mut incoming);
        self.all.insert(key, incoming);
        true
    }

    /// Makes room for a new or growing transfer by giving up other transfers. False if the transfer itself would be the
    /// first to go.
    fn make_room(&mut self, octets: usize, of: Option<Key>) -> bool {
        let limits = self.config.limits;
        loop {
            let has_octets = self.octets + octets <= limits.reassembly_octets;
            let has_place = of.is_some() || self.all.len() < limits.reassemblies;
            if has_octets && has_place {
                return true;
            }
            let given_up = self.first_to_go(has_place).filter(|key| Some(*key) != of);
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
    fn first_to_go(&self, has_place: bool) -> Option<Key> {
        let limits = &self.config.limits;
        let Ranks { begun: of_begun, growing: of_growing } = &self.ranks;
        let begun = match has_place {
            true => {
                (self.octets as u64).saturating_sub(of_growing.total())
                    > limits.reassembly_octets as u64 / 2
            }
            false => of_begun.len() * 2 >= limits.reassemblies,
        };
        // A message has room in the share of its source, however long it may be.
        let octets = (limits.reassembly_octets as u64 / FAIR).max(2 * u64::from(limits.message));
        let of_begun = of_begun.first(limits.reassemblies as u64 / 2 / FAIR);
        let of_growing = of_growing.first(octets);
        match begun {
            true => of_begun.or(of_growing),
            false => of_growing.or(of_begun),
        }
    }

    /// Schedules an answer about a transfer that is not known.
    fn schedule_stray(&self, reply: &mut Reply<'_>, say: Say, is_final: bool) {
        reply.schedule_stray(say, is_final, self.finished.has_source(reply.key.peer));
    }

    /// Something new came for a transfer of `before` octets until now: delivers a complete message, answers, and sets
    /// the transfer's deadline.
    fn settle(&mut self, reply: &mut Reply<'_>, before: usize, polls: bool, is_acknowledged: bool) {
        let key = reply.key;
        let Some(incoming) = self.all.get_mut(&key) else { return };
        self.octets = (self.octets + incoming.octets()).saturating_sub(before);
        self.ranks.place(key, incoming);
        if incoming.is_complete() {
            let precedence = incoming.precedence().max(reply.precedence);
            let identity = remembered(key, incoming.last(), incoming.first(), Ending::Delivered);
            let data = incoming.data();
            self.remove(key);
            self.deliver(reply.now, identity, precedence, data);
            if is_acknowledged || polls {
                reply.schedule(Say::Complete, polls);
            }
            return;
        }
        if polls {
            incoming.handle_poll();
        }
        let unasked = self.config.flow.unasked;
        if polls || is_acknowledged && unasked > 0 && incoming.has_unanswered(unasked) {
            reply.schedule(Say::Partial, polls);
        }
        let due = incoming.deadline(&self.config);
        self.deadlines.set(incoming.noted_due(), Some(due), key);
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
    pub fn handle_request(&mut self, reply: &mut Reply<'_>) {
        self.stats.requests += 1;
        let Key { peer, serial, ports } = reply.key;
        if let Some(incoming) = self.all.get_mut(&reply.key) {
            incoming.earn(REQUEST);
            incoming.handle_poll();
            self.touch(reply);
            reply.schedule(Say::Partial, true);
            return;
        }
        let known = self.finished.get(reply.now, (peer, serial));
        match known.filter(|known| known.ports == ports).map(|known| known.ending) {
            Some(Ending::Delivered) => reply.schedule(Say::Complete, true),
            Some(Ending::Aborted) => self.schedule_stray(reply, Say::AbortRequest, false),
            None => self.schedule_stray(reply, Say::Partial, true),
        }
    }

    /// The originator is there, though nothing new came.
    fn touch(&mut self, reply: &Reply<'_>) {
        let Some(incoming) = self.all.get_mut(&reply.key) else { return };
        incoming.touch(reply.now);
        let due = incoming.deadline(&self.config);
        self.deadlines.set(incoming.noted_due(), Some(due), reply.key);
    }

    /// Handles an originator that gives up; false if the transfer is unknown.
    pub fn handle_abort(&mut self, now: Time, key: Key) -> bool {
        let is_meant = self.all.contains_key(&key);
        if is_meant {
            self.stats.aborts += 1;
            match self.config.profile {
                // Whoever sends it again all the same has not given up.
                Profile::Default => _ = self.remove(key),
                Profile::Basic | Profile::Early | Profile::Enhanced | Profile::Seed => {
                    self.give_up(now, key);
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

    pub fn handle_timeout(&mut self, now: Time, answers: &mut Answers) {
        while let Some(key) = self.deadlines.take(now) {
            let Some(incoming) = self.all.get_mut(&key) else { continue };
            *incoming.noted_due() = None;
            let precedence = incoming.precedence();
            let mut reply = Reply { answers, now, key, precedence, is_group: false };
            if incoming.may_report(&self.config) {
                incoming.handle_report();
                // A late report counts from the time at which it was due.
                let least = now + self.config.times.least_timeout;
                let next = incoming.deadline(&self.config).max(least);
                self.deadlines.set(incoming.noted_due(), Some(next), key);
                // No received segment calls for this answer, so invented transfers must not get three of them.
                self.schedule_stray(&mut reply, Say::Partial, false);
                continue;
            }
            self.stats.given_up += 1;
            match self.config.profile {
                Profile::Basic | Profile::Enhanced => {
                    self.give_up(now, key);
                    self.schedule_stray(&mut reply, Say::AbortRequest, false);
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

    /// Ends a transfer without its message, and remembers that.
    fn give_up(&mut self, now: Time, key: Key) {
        if let Some(incoming) = self.remove(key) {
            self.know(now, remembered(key, incoming.last(), incoming.first(), Ending::Aborted));
        }
    }

    fn remove(&mut self, key: Key) -> Option<Incoming> {
        let mut incoming = self.all.remove(&key)?;
        self.deadlines.set(incoming.noted_due(), None, key);
        self.ranks.remove(&mut incoming);
        self.octets = self.octets.saturating_sub(incoming.octets());
        Some(incoming)
    }
}

impl Ranks {
    /// Lets a transfer be the last of its stage to give way.
    fn place(&mut self, key: Key, incoming: &mut Incoming) {
        self.remove(incoming);
        let (stage, source) = (incoming.stage(), Source::of(key.peer));
        let place = match stage {
            Stage::Begun => self.begun.insert(source, key, 1),
            Stage::Growing => self.growing.insert(source, key, incoming.octets() as u64),
        };
        incoming.note_place(Some((stage, place)));
    }

    fn remove(&mut self, incoming: &mut Incoming) {
        match incoming.note_place(None) {
            Some((Stage::Begun, place)) => self.begun.remove(place),
            Some((Stage::Growing, place)) => self.growing.remove(place),
            None => {}
        }
    }
}

/// Octets of an acknowledgement request.
const REQUEST: usize = 12;

fn remembered(key: Key, last: u16, first: Option<&[u8]>, ending: Ending) -> Remembered {
    let Key { peer: source, serial, ports } = key;
    Remembered { source, serial, ports, last, fingerprint: first.map_or(0, fingerprint), ending }
}

//! What is received: transfers in parts, messages whole, and what their originators are told.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use super::answers::{About, Answer, Answers, Say};
use super::config::{Config, Profile};
use super::deadlines::Deadlines;
use super::finished::{Ending, Finished, Recognised, Remembered, fingerprint};
use super::incoming::{Incoming, PLACE, Taken};
use super::message::{Arrival, Delivered};
use super::stats::Received;
use super::wire::{Cover, MaskBuffer, Place, Ports};
use crate::time::Time;

/// All transfers from others.
#[derive(Debug)]
pub(super) struct Receiver {
    all: BTreeMap<Key, Incoming>,
    pub(super) finished: Finished,
    deadlines: Deadlines<Key>,
    /// Messages that the driver has not taken.
    pub(super) delivered: VecDeque<Delivered>,
    /// What all transfers keep.
    octets: usize,
    pub(super) stats: Received,
}

/// Names a transfer.
pub(super) type Key = (IpAddr, u16);

/// A segment as it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) ports: Ports,
    pub(super) serial: u16,
    pub(super) is_acknowledged: bool,
    pub(super) polls: bool,
    pub(super) place: Place,
    pub(super) data: &'a [u8],
}

impl Receiver {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            all: BTreeMap::new(),
            finished: Finished::new(config.limits.remembered, config.times.remember),
            deadlines: Deadlines::default(),
            delivered: VecDeque::new(),
            octets: 0,
            stats: Received::default(),
        }
    }

    /// A segment arrived.
    pub(super) fn handle_segment(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        arrival: Arrival,
        segment: Segment<'_>,
    ) {
        self.stats.segments += 1;
        let Segment { ports, serial, is_acknowledged, polls, place, data } = segment;
        let key = (arrival.from, serial);
        let reply = Reply { now, config, arrival, ports, serial };
        if !self.all.contains_key(&key) {
            let first = (place.number() == 1).then_some(data);
            match self.finished.recognise(now, key, ports, place.last(), first) {
                Some(Recognised::Late(Ending::Aborted)) => {
                    self.stats.late += 1;
                    if polls {
                        reply.owe_stranger(answers, Say::AbortRequest, false);
                    }
                    return;
                }
                Some(Recognised::Late(Ending::Delivered)) => {
                    self.stats.late += 1;
                    // Without P the last segment of a message that is sent again stands for the whole.
                    if polls || is_acknowledged && place.is_last() {
                        reply.owe(answers, Say::Complete, polls);
                    }
                    return;
                }
                Some(Recognised::New) | None => {}
            }
            if !self.begin(answers, &reply, place, data.len(), polls) {
                return;
            }
        }
        let Some(incoming) = self.all.get_mut(&key) else { return };
        if (incoming.ports, incoming.last) != (ports, place.last()) {
            self.stats.odd += 1;
            return;
        }
        let before = incoming.octets();
        if self.octets + data.len() + PLACE > config.limits.reassembly_octets {
            self.stats.full += 1;
            return;
        }
        if incoming.exceeds(config.limits.message, data.len()) {
            self.stats.too_large += 1;
            return;
        }
        match incoming.take(now, place, data) {
            Taken::Again => {
                self.stats.again += 1;
                self.touch(&reply);
                if polls {
                    reply.owe(answers, Say::Partial, true);
                }
                return;
            }
            Taken::Odd => {
                self.stats.odd += 1;
                // What differs from the others may be forged: only the standard's profiles break off.
                if matches!(config.profile, Profile::Basic | Profile::Enhanced) {
                    self.give_up(now, key, Ending::Aborted);
                    reply.owe(answers, Say::AbortRequest, false);
                }
                return;
            }
            Taken::Stored => {}
        }
        incoming.unanswered += 1;
        self.octets = (self.octets + incoming.octets()).saturating_sub(before);
        self.settle(answers, &reply, polls, is_acknowledged);
    }

    /// A repair arrived.
    pub(super) fn handle_repair(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        arrival: Arrival,
        repair: (Ports, u16, bool, Cover, &[u8]),
    ) {
        self.stats.repairs += 1;
        let (ports, serial, polls, cover, symbol) = repair;
        let key = (arrival.from, serial);
        let reply = Reply { now, config, arrival, ports, serial };
        if !config.coding || cover.span > super::repair::MOST_SPAN {
            self.stats.repairs_useless += 1;
            return;
        }
        if !self.all.contains_key(&key) {
            let last = cover.first.last();
            match self.finished.recognise(now, key, ports, last, None) {
                Some(Recognised::Late(Ending::Delivered)) => {
                    self.stats.late += 1;
                    if polls {
                        reply.owe(answers, Say::Complete, true);
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
        let Some(incoming) = self.all.get_mut(&key) else { return };
        let before = incoming.octets();
        if self.octets + symbol.len() + PLACE > config.limits.reassembly_octets {
            self.stats.full += 1;
            return;
        }
        if incoming.ports != ports || incoming.exceeds(config.limits.message, symbol.len()) {
            self.stats.odd += 1;
            return;
        }
        match incoming.repair(now, serial, &cover, symbol) {
            Some(given) => self.stats.repaired += given as u64,
            None => self.stats.repairs_useless += 1,
        }
        self.octets = (self.octets + incoming.octets()).saturating_sub(before);
        self.settle(answers, &reply, polls, true);
    }

    /// Makes room for a transfer; false if there is none, or if it does not begin so.
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
                reply.owe_stranger(answers, Say::AbortRequest, false);
            }
            return false;
        }
        let most = config.limits.message as usize;
        if octets > most || (usize::from(place.last()) - 1).saturating_mul(octets) >= most {
            self.stats.too_large += 1;
            return false;
        }
        let is_full = self.octets + octets + PLACE > config.limits.reassembly_octets;
        if is_full || self.all.len() >= config.limits.reassemblies {
            self.stats.full += 1;
            return false;
        }
        let key = (arrival.from, serial);
        let mut incoming = Incoming::new(now, config, ports, place.last(), arrival.precedence);
        let due = incoming.deadline(config);
        self.deadlines.set(&mut incoming.due, Some(due), key);
        self.all.insert(key, incoming);
        true
    }

    /// Delivers a transfer that is complete, answers, and sets its deadline.
    fn settle(
        &mut self,
        answers: &mut Answers,
        reply: &Reply<'_>,
        polls: bool,
        is_acknowledged: bool,
    ) {
        let key = (reply.arrival.from, reply.serial);
        let Some(incoming) = self.all.get_mut(&key) else { return };
        if incoming.is_complete() {
            self.deliver(reply, key);
            if is_acknowledged || polls {
                reply.owe(answers, Say::Complete, polls);
            }
            return;
        }
        incoming.is_polled |= polls;
        let unasked = reply.config.flow.unasked;
        if polls || is_acknowledged && unasked > 0 && incoming.unanswered >= unasked {
            incoming.unanswered = 0;
            reply.owe(answers, Say::Partial, polls);
        }
        let due = incoming.deadline(reply.config);
        self.deadlines.set(&mut incoming.due, Some(due), key);
    }

    fn deliver(&mut self, reply: &Reply<'_>, key: Key) {
        let Some(incoming) = self.remove(key) else { return };
        let data = incoming.data();
        self.stats.messages += 1;
        self.stats.octets += data.len() as u64;
        let identity = remembered(key, &incoming, Ending::Delivered);
        self.stats.forgotten += self.finished.insert(reply.now, identity);
        self.delivered.push_back(Delivered {
            source: key.0,
            ports: incoming.ports,
            precedence: incoming.precedence.max(reply.arrival.precedence),
            data,
            identity,
        });
    }

    /// The originator asks what has arrived.
    pub(super) fn handle_request(
        &mut self,
        now: Time,
        config: &Config,
        answers: &mut Answers,
        arrival: Arrival,
        (ports, serial): (Ports, u16),
    ) {
        self.stats.requests += 1;
        let key = (arrival.from, serial);
        let reply = Reply { now, config, arrival, ports, serial };
        if let Some(incoming) = self.all.get_mut(&key) {
            if incoming.ports != ports {
                self.stats.odd += 1;
                return;
            }
            incoming.is_polled = true;
            self.touch(&reply);
            reply.owe(answers, Say::Partial, true);
            return;
        }
        match self.finished.get(now, key).filter(|known| known.ports == ports) {
            Some(Remembered { ending: Ending::Delivered, .. }) => {
                reply.owe(answers, Say::Complete, true);
            }
            Some(Remembered { ending: Ending::Aborted, .. }) => {
                reply.owe_stranger(answers, Say::AbortRequest, false);
            }
            None => reply.owe_stranger(answers, Say::Partial, true),
        }
    }

    /// The originator is there, though nothing new came.
    fn touch(&mut self, reply: &Reply<'_>) {
        let key = (reply.arrival.from, reply.serial);
        let Some(incoming) = self.all.get_mut(&key) else { return };
        incoming.touch(reply.now);
        let due = incoming.deadline(reply.config);
        self.deadlines.set(&mut incoming.due, Some(due), key);
    }

    /// The originator gives up; false if it means no transfer that is known here.
    pub(super) fn handle_abort(&mut self, now: Time, key: Key, ports: Ports) -> bool {
        let is_meant = self.all.get(&key).is_some_and(|incoming| incoming.ports == ports);
        if is_meant {
            self.stats.aborts += 1;
            self.give_up(now, key, Ending::Aborted);
        }
        is_meant
    }

    /// What has arrived of a transfer; nothing if it is not known.
    pub(super) fn mask(&mut self, key: Key) -> MaskBuffer {
        match self.all.get_mut(&key) {
            Some(incoming) => {
                incoming.unanswered = 0;
                incoming.mask()
            }
            None => MaskBuffer::new(1),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time, config: &Config, answers: &mut Answers) {
        while let Some(key) = self.deadlines.take(now) {
            let Some(incoming) = self.all.get_mut(&key) else { continue };
            incoming.due = None;
            let arrival = Arrival { from: key.0, is_group: false, precedence: incoming.precedence };
            let reply = Reply { now, config, arrival, ports: incoming.ports, serial: key.1 };
            if incoming.reminds(config) {
                incoming.reminders += 1;
                // One that comes late looks to when it should have come.
                let next = incoming.deadline(config).max(now + config.times.least_timeout);
                self.deadlines.set(&mut incoming.due, Some(next), key);
                reply.owe(answers, Say::Partial, false);
                continue;
            }
            self.stats.given_up += 1;
            match config.profile {
                Profile::Basic | Profile::Enhanced => {
                    self.give_up(now, key, Ending::Aborted);
                    reply.owe(answers, Say::AbortRequest, false);
                }
                // Its originator may still come back to it, and then begins anew.
                Profile::Default | Profile::Early | Profile::Seed => _ = self.remove(key),
            }
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn octets(&self) -> usize {
        self.octets
    }

    fn give_up(&mut self, now: Time, key: Key, ending: Ending) {
        if let Some(incoming) = self.remove(key) {
            let known = remembered(key, &incoming, ending);
            self.stats.forgotten += self.finished.insert(now, known);
        }
    }

    fn remove(&mut self, key: Key) -> Option<Incoming> {
        let mut incoming = self.all.remove(&key)?;
        self.deadlines.set(&mut incoming.due, None, key);
        self.octets = self.octets.saturating_sub(incoming.octets());
        Some(incoming)
    }
}

fn remembered((source, serial): Key, incoming: &Incoming, ending: Ending) -> Remembered {
    let fingerprint = incoming.first().map_or(0, fingerprint);
    Remembered { source, serial, ports: incoming.ports, last: incoming.last, fingerprint, ending }
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
    fn owe(&self, answers: &mut Answers, say: Say, is_final: bool) {
        let (about, answer) = self.answer(say, is_final);
        answers.owe(self.now, self.config, about, answer, self.arrival.is_group);
    }

    fn owe_stranger(&self, answers: &mut Answers, say: Say, is_final: bool) {
        let (about, answer) = self.answer(say, is_final);
        answers.owe_stranger(self.now, self.config, about, answer, self.arrival.is_group);
    }

    fn answer(&self, say: Say, is_final: bool) -> (About, Answer) {
        let about = About { peer: self.arrival.from, serial: self.serial, is_ours: false };
        let (ports, precedence) = (self.ports.swapped(), self.arrival.precedence);
        (about, Answer { say, ports, is_final, precedence })
    }
}

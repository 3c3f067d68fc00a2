//! Keeps messages of programs: open messages in flight, and the outcomes of ended messages.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use sar::{MessageId, Outcome};

use super::api::{Fate, said};
use super::clients::ClientId;
use super::store::{Ended, Key, Record};
use crate::config::sar::Service;

/// Most programs to tell about one message.
const MOST_WATCHERS: usize = 8;

/// All messages that programs handed in.
#[derive(Debug, Default)]
pub struct Outbox {
    open: BTreeMap<u64, Open>,
    /// The core's names of them.
    cores: BTreeMap<MessageId, u64>,
    ended: BTreeMap<u64, Ended>,
    /// Ended messages in order of their end.
    ending: VecDeque<u64>,
    names: BTreeMap<String, u64>,
    /// Programs to tell of each message's outcomes, as far as not told yet.
    watchers: BTreeMap<u64, Vec<ClientId>>,
    /// The next message.
    next: u64,
    /// Ended messages whose outcomes nobody can ask for any more, for want of room.
    forgotten: u64,
}

/// A message that is under way.
#[derive(Debug)]
struct Open {
    name: String,
    parts: Vec<(IpAddr, Option<Outcome>)>,
    cores: Vec<MessageId>,
}

/// What is to be told: the outcome of a message for the destination at a position.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    pub id: u64,
    pub to: IpAddr,
    pub outcome: Outcome,
    pub left: usize,
}

impl Outbox {
    pub fn new(next: u64) -> Self {
        Self { next, ..Self::default() }
    }

    /// Ended messages whose outcomes nobody can ask for any more, for want of room.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The number of the next message.
    pub fn take_id(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        id
    }

    /// Takes a message with the known outcomes of its destinations.
    pub fn insert(
        &mut self,
        id: u64,
        name: String,
        parts: Vec<(IpAddr, Option<Outcome>)>,
        cores: Vec<MessageId>,
    ) {
        self.cores.extend(cores.iter().map(|core| (*core, id)));
        if !name.is_empty() {
            self.names.insert(name.clone(), id);
        }
        self.open.insert(id, Open { name, parts, cores });
    }

    /// Takes a message that ended earlier.
    pub fn insert_ended(&mut self, ended: Ended) {
        if !ended.name.is_empty() {
            self.names.insert(ended.name.clone(), ended.id);
        }
        self.ending.push_back(ended.id);
        self.ended.insert(ended.id, ended);
    }

    /// The message to which a program has given this name.
    pub fn find(&self, name: &str) -> Option<u64> {
        self.names.get(name).copied()
    }

    /// Which message the core means.
    pub fn of_core(&self, core: MessageId) -> Option<u64> {
        self.cores.get(&core).copied()
    }

    /// The core's names of a message that is under way.
    pub fn cores(&self, id: u64) -> Vec<MessageId> {
        self.open.get(&id).map_or_else(Vec::new, |open| open.cores.clone())
    }

    /// Where a destination of a message stands.
    pub fn position(&self, id: u64, address: IpAddr) -> Option<u16> {
        let parts = &self.open.get(&id)?.parts;
        u16::try_from(parts.iter().position(|(its, _)| *its == address)?).ok()
    }

    /// Notes the outcome of a message for a destination; returns the record to store and the notice to send then.
    pub fn conclude(
        &mut self,
        id: u64,
        to: IpAddr,
        outcome: Outcome,
        at: u64,
    ) -> Option<(Record, Notice)> {
        let part = self.position(id, to)?;
        let open = self.open.get_mut(&id)?;
        let slot = &mut open.parts[usize::from(part)].1;
        if slot.is_some() {
            return None;
        }
        *slot = Some(outcome);
        let left = open.parts.iter().filter(|(_, outcome)| outcome.is_none()).count();
        let notice = Notice { id, to, outcome, left };
        if left > 0 {
            return Some((Record::Outcome { id, part, outcome }, notice));
        }
        let Open { name, parts, cores } = self.open.remove(&id)?;
        for core in cores {
            self.cores.remove(&core);
        }
        let outcomes = parts.into_iter().filter_map(|(to, outcome)| Some((to, outcome?)));
        let ended = Ended { id, at, name, outcomes: outcomes.collect() };
        self.ending.push_back(id);
        self.ended.insert(id, ended.clone());
        Some((Record::Ended(ended), notice))
    }

    /// How a message is.
    pub fn fates(&self, id: u64) -> Option<Vec<Fate>> {
        let fate =
            |to: &IpAddr, outcome: Option<Outcome>| Fate { to: *to, outcome: outcome.map(said) };
        if let Some(open) = self.open.get(&id) {
            return Some(open.parts.iter().map(|(to, outcome)| fate(to, *outcome)).collect());
        }
        let ended = self.ended.get(&id)?;
        Some(ended.outcomes.iter().map(|(to, outcome)| fate(to, Some(*outcome))).collect())
    }

    /// The known outcomes of a message, as the notices sent when they became known.
    pub fn notices(&self, id: u64) -> Vec<Notice> {
        let known: Vec<_> = match (self.open.get(&id), self.ended.get(&id)) {
            (Some(open), _) => open.parts.clone(),
            (None, Some(ended)) => {
                ended.outcomes.iter().map(|(to, outcome)| (*to, Some(*outcome))).collect()
            }
            (None, None) => Vec::new(),
        };
        let mut left = known.len();
        let known = known.into_iter().filter_map(|(to, outcome)| Some((to, outcome?)));
        known
            .map(|(to, outcome)| {
                left -= 1;
                Notice { id, to, outcome, left }
            })
            .collect()
    }

    /// Adds a program to be told of the open outcomes of a message.
    pub fn watch(&mut self, id: u64, client: ClientId) {
        if self.open.contains_key(&id) {
            let watchers = self.watchers.entry(id).or_default();
            if !watchers.contains(&client) {
                // Programs that are gone are not looked for; the oldest watcher gives way.
                if watchers.len() == MOST_WATCHERS {
                    watchers.remove(0);
                }
                watchers.push(client);
            }
        }
    }

    /// Whom to tell; nobody afterwards when nothing is left.
    pub fn watchers(&mut self, notice: &Notice) -> Vec<ClientId> {
        match notice.left {
            0 => self.watchers.remove(&notice.id).unwrap_or_default(),
            _ => self.watchers.get(&notice.id).cloned().unwrap_or_default(),
        }
    }

    /// Forgets outcomes that are too old or too many; returns the keys that the store need not keep.
    pub fn prune(&mut self, now: u64, service: &Service) -> Vec<Key> {
        let kept = u64::try_from(service.outcomes_kept.as_millis()).unwrap_or(u64::MAX);
        let mut gone = Vec::new();
        while let Some(id) = self.ending.front().copied() {
            let at = self.ended.get(&id).map_or(0, |ended| ended.at);
            let is_old = at.saturating_add(kept) <= now;
            if !is_old && self.ended.len() <= service.outcomes {
                break;
            }
            self.ending.pop_front();
            if let Some(ended) = self.ended.remove(&id) {
                self.names.remove(&ended.name);
                self.forgotten += u64::from(!is_old);
                gone.push(Key::Ended(id));
            }
        }
        gone
    }

    /// Destinations of messages that have ended, the last ones first.
    pub fn destinations(&self) -> impl Iterator<Item = IpAddr> {
        let ended = self.ending.iter().rev().filter_map(|id| self.ended.get(id));
        ended.flat_map(|ended| ended.outcomes.iter().map(|(to, _)| *to))
    }

    pub fn open_len(&self) -> usize {
        self.open.len()
    }

    pub fn ended_len(&self) -> usize {
        self.ended.len()
    }
}

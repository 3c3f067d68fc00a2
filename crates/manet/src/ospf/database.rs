//! The link-state database: known LSAs and their ages (RFC 2328, 12.2 and 14).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::time::Time;

use super::config::Bounds;
use super::wire::{Header, Key, Lsa};

/// The map that all routers of the area have in common.
#[derive(Debug, Default)]
pub struct Database {
    entries: BTreeMap<Key, Entry>,
    /// When each LSA ends that is not over yet.
    ends: BTreeSet<(Time, Key)>,
    /// LSAs at their maximum age, kept until all neighbours know.
    over: BTreeSet<Key>,
    octets: usize,
}

/// An LSA in the database.
#[derive(Debug)]
pub struct Entry {
    lsa: Lsa,
    /// Time at which the age in the header was right.
    since: Time,
    /// When it came from a neighbour; `None` of the router's own.
    came_at: Option<Time>,
    /// When we last sent the LSA back to a neighbour with an older one.
    returned_at: Option<Time>,
}

impl Entry {
    /// The header with its present age.
    pub fn header(&self, now: Time) -> Header {
        let passed = u16::try_from(now.since(self.since).as_secs()).unwrap_or(Header::MAX_AGE);
        let age = self.lsa.header.age.saturating_add(passed).min(Header::MAX_AGE);
        Header { age, ..self.lsa.header }
    }

    /// The LSA with its present age.
    pub fn lsa(&self, now: Time) -> Lsa {
        Lsa { header: self.header(now), body: self.lsa.body.clone() }
    }

    pub fn body(&self) -> &[u8] {
        &self.lsa.body
    }

    fn end(&self) -> Time {
        let left = Header::MAX_AGE.saturating_sub(self.lsa.header.age);
        self.since + Duration::from_secs(left.into())
    }
}

impl Database {
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// When an LSA came from a neighbour.
    pub fn came_at(&self, key: &Key) -> Option<Time> {
        self.entries.get(key)?.came_at
    }

    /// Whether to send an LSA back to a neighbour with an older instance: not again within `least`, and not while its
    /// sequence numbers are about to begin from the first again.
    pub fn may_return(&mut self, now: Time, key: &Key, least: Duration) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        let header = entry.header(now);
        let is_wrapping = header.is_over() && header.number == Header::LAST;
        if is_wrapping || entry.returned_at.is_some_and(|at| now.since(at) < least) {
            return false;
        }
        entry.returned_at = Some(now);
        true
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether another router's LSA has room, which may take the place of an older instance.
    pub fn has_room(&self, lsa: &Lsa, bounds: &Bounds) -> bool {
        let old = self.entries.get(&lsa.header.key);
        let count = self.entries.len() + usize::from(old.is_none());
        let octets = self.octets - old.map_or(0, |it| it.lsa.size()) + lsa.size();
        // One is the router's own.
        count <= bounds.lsas + 1 && octets <= bounds.octets
    }

    /// Installs an LSA, replacing its older instance.
    pub fn install(&mut self, now: Time, mut lsa: Lsa, came_at: Option<Time>) {
        let key = lsa.header.key;
        self.remove(&key);
        self.octets += lsa.size();
        lsa.header.age = lsa.header.age.min(Header::MAX_AGE);
        if lsa.header.is_over() {
            self.over.insert(key);
        }
        let entry = Entry { lsa, since: now, came_at, returned_at: None };
        if !self.over.contains(&key) {
            self.ends.insert((entry.end(), key));
        }
        self.entries.insert(key, entry);
    }

    pub fn remove(&mut self, key: &Key) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.ends.remove(&(entry.end(), *key));
        self.over.remove(key);
        self.octets -= entry.lsa.size();
    }

    /// Ends an LSA before its time.
    pub fn end(&mut self, now: Time, key: &Key) {
        let Some(entry) = self.entries.get(key) else { return };
        let mut lsa = entry.lsa(now);
        let came_at = entry.came_at;
        lsa.header.age = Header::MAX_AGE;
        self.install(now, lsa, came_at);
    }

    /// The next LSA whose time is over since it was asked last.
    pub fn poll_over(&mut self, now: Time) -> Option<Key> {
        let (_, key) = *self.ends.first().filter(|(end, _)| *end <= now)?;
        self.ends.pop_first();
        self.over.insert(key);
        Some(key)
    }

    /// Those that are over.
    pub fn over(&self) -> impl Iterator<Item = &Key> {
        self.over.iter()
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.ends.first().map(|(end, _)| *end)
    }
}

//! Records the outcome of each U_PDU for all tests of this folder.

use std::collections::BTreeMap;

use base::time::Time;

/// Names a U_PDU: the station that sent it, and its number there. Its octets begin with both.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key {
    pub(crate) from: u8,
    pub(crate) number: u32,
}

/// The history of a U_PDU.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) to: u8,
    pub(crate) sent_at: Time,
    /// Outcomes told to the sender, with their times.
    pub(crate) outcomes: Vec<(Time, Fate)>,
    pub(crate) delivered: Vec<Time>,
}

/// The outcome told to the sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    Confirmed,
    /// The sender died, or lost its binding: nobody is told.
    Forsaken,
    Rejected,
}

/// All U_PDUs that nodes took.
#[derive(Clone, Debug, Default)]
pub struct Books {
    pub(crate) entries: BTreeMap<Key, Entry>,
    /// U_PDUs that arrived although nobody had sent them.
    pub(crate) strays: u32,
}

impl Key {
    pub const LEN: usize = 5;

    pub fn u_pdu(self, len: usize) -> Vec<u8> {
        let mut octets = vec![self.from];
        octets.extend_from_slice(&self.number.to_be_bytes());
        octets.resize(len.max(Self::LEN), self.from ^ 0x5a);
        octets
    }

    pub fn read(u_pdu: &[u8]) -> Option<Self> {
        let (&[from, ref number @ ..], _) = u_pdu.split_first_chunk::<{ Self::LEN }>()?;
        Some(Self { from, number: u32::from_be_bytes(*number) })
    }
}

impl Books {
    pub fn send(&mut self, key: Key, to: u8, now: Time) {
        let entry = Entry { to, sent_at: now, outcomes: Vec::new(), delivered: Vec::new() };
        assert!(self.entries.insert(key, entry).is_none(), "{key:?} is used twice");
    }

    pub fn end(&mut self, key: Key, now: Time, fate: Fate) {
        self.entries.get_mut(&key).expect("it was sent").outcomes.push((now, fate));
    }

    pub fn deliver(&mut self, key: Option<Key>, at: u8, now: Time) {
        match key.and_then(|key| self.entries.get_mut(&key)) {
            Some(entry) if entry.to == at => entry.delivered.push(now),
            Some(_) | None => self.strays += 1,
        }
    }

    pub fn count(&self, fate: Fate) -> usize {
        let fates = self.entries.values().flat_map(|entry| &entry.outcomes);
        fates.filter(|(_, one)| *one == fate).count()
    }

    pub fn undecided(&self) -> usize {
        self.entries.values().filter(|entry| entry.outcomes.is_empty()).count()
    }

    /// All violations: confirmed but not delivered, delivered twice, or two outcomes.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (key, entry) in &self.entries {
            let is_confirmed = entry.outcomes.iter().any(|(_, fate)| *fate == Fate::Confirmed);
            if is_confirmed && entry.delivered.is_empty() {
                faults.push(format!("{key:?} was confirmed and not delivered: {entry:?}"));
            }
            if entry.delivered.len() > 1 {
                faults.push(format!("{key:?} was delivered twice: {entry:?}"));
            }
            if entry.outcomes.len() > 1 {
                faults.push(format!("{key:?} has two outcomes: {entry:?}"));
            }
        }
        faults
    }
}

//! Transfers that are over and known, so that a late segment is answered and no message taken twice.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hasher as _;
use std::net::IpAddr;
use std::time::Duration;

use siphasher::sip::SipHasher13;

use super::wire::Ports;
use crate::time::Time;

/// A transfer that is over, as a driver keeps it over a restart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Remembered {
    /// Its originator.
    pub source: IpAddr,
    /// Its number there.
    pub serial: u16,
    /// Of the programs.
    pub ports: Ports,
    /// Segments that it had.
    pub last: u16,
    /// Of its first segment; 0 when that was never seen.
    pub fingerprint: u64,
    /// How it ended.
    pub ending: Ending,
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// By an abort.
    Aborted,
    /// The message was delivered.
    Delivered,
}

/// What a segment of a remembered transfer is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Recognised {
    /// A copy of what came before.
    Late(Ending),
    /// Of another transfer, which has the same number.
    New,
}

/// All that are known.
#[derive(Debug)]
pub(super) struct Finished {
    all: BTreeMap<(IpAddr, u16), (Remembered, Time)>,
    /// In the order in which they came; entries that were replaced are skipped.
    order: VecDeque<(Time, IpAddr, u16)>,
    /// The newest number of each source, and how many are known of it.
    newest: BTreeMap<IpAddr, (u16, u32)>,
    most: usize,
    lifetime: Duration,
}

/// A hash of the first segment's data.
pub(super) fn fingerprint(data: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(data);
    hasher.finish()
}

impl Finished {
    pub(super) fn new(most: usize, lifetime: Duration) -> Self {
        let (all, order, newest) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        Self { all, order, newest, most, lifetime }
    }

    /// Remembers a transfer. Returns how many were forgotten for want of room.
    pub(super) fn insert(&mut self, now: Time, remembered: Remembered) -> u64 {
        let key = (remembered.source, remembered.serial);
        self.remove(key);
        self.all.insert(key, (remembered, now));
        self.order.push_back((now, key.0, key.1));
        let (newest, count) = self.newest.entry(key.0).or_insert((key.1, 0));
        *count += 1;
        if is_after(key.1, *newest) {
            *newest = key.1;
        }
        let mut forgotten = 0;
        while let Some(&(at, source, serial)) = self.order.front() {
            let key = (source, serial);
            let is_current = self.all.get(&key).is_some_and(|(_, since)| *since == at);
            let is_old = now.since(at) > self.lifetime;
            if is_current && !is_old && self.all.len() <= self.most {
                break;
            }
            self.order.pop_front();
            if is_current {
                forgotten += u64::from(!is_old);
                self.remove(key);
            }
        }
        forgotten
    }

    /// What a segment with this number of this source is, if such a transfer is known. Its first
    /// segment's fingerprint is asked for only then.
    pub(super) fn recognise(
        &self,
        now: Time,
        key: (IpAddr, u16),
        ports: Ports,
        last: u16,
        first: Option<&[u8]>,
    ) -> Option<Recognised> {
        let (known, since) = self.all.get(&key)?;
        if now.since(*since) > self.lifetime {
            return None;
        }
        let newest = self.newest.get(&key.0).map_or(key.1, |(newest, _)| *newest);
        // Numbers are used in order: one ahead of the newest is of the next round.
        let is_ahead = is_after(key.1, newest);
        let is_same = (known.ports, known.last) == (ports, last)
            && first.is_none_or(|data| {
                known.fingerprint == 0 || known.fingerprint == fingerprint(data)
            });
        let is_late = is_same && !is_ahead;
        Some(if is_late { Recognised::Late(known.ending) } else { Recognised::New })
    }

    /// How the transfer of this number ended, if it is known.
    pub(super) fn get(&self, now: Time, key: (IpAddr, u16)) -> Option<&Remembered> {
        let (known, since) = self.all.get(&key)?;
        (now.since(*since) <= self.lifetime).then_some(known)
    }

    /// All of them, in order of source and number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Remembered> {
        self.all.values().map(|(known, _)| known)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    fn remove(&mut self, key: (IpAddr, u16)) {
        if self.all.remove(&key).is_none() {
            return;
        }
        if let Some((_, count)) = self.newest.get_mut(&key.0) {
            *count -= 1;
            if *count == 0 {
                self.newest.remove(&key.0);
            }
        }
    }
}

/// In the half circle after the other.
fn is_after(a: u16, b: u16) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const PORTS: Ports = Ports { source: 1, destination: 2 };

    fn known(serial: u16) -> Remembered {
        let ending = Ending::Delivered;
        let fingerprint = fingerprint(b"first");
        Remembered { source: SOURCE, serial, ports: PORTS, last: 3, fingerprint, ending }
    }

    fn finished() -> Finished {
        Finished::new(3, Duration::from_secs(60))
    }

    #[test]
    fn a_copy_is_recognised_and_another_message_with_its_number_is_new() {
        let mut finished = finished();
        finished.insert(Time::ZERO, known(7));
        let of = |serial, last, first: &[u8]| {
            finished.recognise(Time::ZERO, (SOURCE, serial), PORTS, last, Some(first))
        };

        let late = Some(Recognised::Late(Ending::Delivered));
        assert_eq!(of(7, 3, b"first"), late);
        assert_eq!(of(7, 3, b"other"), Some(Recognised::New));
        assert_eq!(of(7, 4, b"first"), Some(Recognised::New));
        assert_eq!(of(8, 3, b"first"), None);
        let later = finished.recognise(Time::ZERO, (SOURCE, 7), PORTS, 3, None);
        assert_eq!(later, late, "a later segment has no fingerprint");
    }

    #[test]
    fn a_number_of_the_next_round_is_new_though_all_is_equal() {
        let mut finished = finished();
        finished.insert(Time::ZERO, known(7));
        finished.insert(Time::ZERO, known(30_000));
        finished.insert(Time::ZERO, known(60_000));

        let of = finished.recognise(Time::ZERO, (SOURCE, 7), PORTS, 3, Some(b"first"));

        assert_eq!(of, Some(Recognised::New));
    }

    #[test]
    fn the_oldest_is_forgotten_when_there_is_no_room_or_its_time_is_over() {
        let mut finished = finished();
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);

        let forgotten: u64 = (0..5).map(|serial| finished.insert(at(0), known(serial))).sum();
        assert_eq!((forgotten, finished.len()), (2, 3));
        assert!(finished.get(at(0), (SOURCE, 1)).is_none());
        assert!(finished.get(at(60), (SOURCE, 2)).is_some());
        assert!(finished.get(at(61), (SOURCE, 2)).is_none());
        assert_eq!(finished.insert(at(61), known(9)), 0);
        assert_eq!(finished.len(), 1);
    }
}

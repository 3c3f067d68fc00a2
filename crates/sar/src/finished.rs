//! Remembers finished transfers, so that late segments are answered and no message is delivered twice.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hasher as _;
use std::net::IpAddr;
use std::time::Duration;

use base::serial::low16;
use base::time::Time;
use siphasher::sip::SipHasher13;

use super::wire::Ports;

/// A finished transfer, as a driver keeps it across restarts.
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

/// How a segment relates to a remembered transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Recognised {
    /// A copy of something received earlier.
    Late(Ending),
    /// A segment of a new transfer with the same number.
    New,
}

/// All that are known.
#[derive(Debug)]
pub struct Finished {
    all: BTreeMap<(IpAddr, u16), Known>,
    /// In order of arrival; replaced entries are skipped.
    order: VecDeque<(Time, IpAddr, u16)>,
    /// The newest number of each source, counted on from round to round, and how many are known of it.
    newest: BTreeMap<IpAddr, (u64, u32)>,
    most: usize,
    /// Of one source at most.
    share: u32,
    lifetime: Duration,
}

/// One of them.
#[derive(Debug)]
struct Known {
    remembered: Remembered,
    since: Time,
    /// Its number, counted on from round to round.
    number: u64,
}

/// A single source may use at most 1 / `FAIR` of the places for remembered transfers.
const FAIR: usize = 4;
/// With fewer places than this, a single source may use all.
const FEW: usize = 4_096;
/// Outdated entries allowed in the order, beyond the number of remembered transfers.
const STALE: usize = 1_024;

/// Where the count of the numbers of a source begins: far from where it could wrap.
const BEGIN: u64 = 1 << 32;

/// A hash of the first segment's data.
pub fn fingerprint(data: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(data);
    hasher.finish()
}

impl Finished {
    pub fn new(most: usize, lifetime: Duration) -> Self {
        let (all, order, newest) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        let share = if most < FEW { most } else { most / FAIR };
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        Self { all, order, newest, most, share, lifetime }
    }

    /// Remembers a transfer. Returns the transfers forgotten to make room: the oldest of the same source if the source
    /// has more than its share, otherwise the oldest of all.
    pub fn insert(&mut self, now: Time, remembered: Remembered) -> Vec<(IpAddr, u16)> {
        let key = (remembered.source, remembered.serial);
        self.remove(key);
        let number = self.number(key);
        self.all.insert(key, Known { remembered, since: now, number });
        self.order.push_back((now, key.0, key.1));
        let (newest, count) = self.newest.entry(key.0).or_insert((number, 0));
        *count += 1;
        *newest = number.max(*newest);
        let mut forgotten = Vec::new();
        while let Some(&(at, source, serial)) = self.order.front() {
            let key = (source, serial);
            let is_current = self.all.get(&key).is_some_and(|known| known.since == at);
            let is_old = now.since(at) > self.lifetime;
            if is_current && !is_old && self.all.len() <= self.most {
                break;
            }
            self.order.pop_front();
            if is_current {
                forgotten.extend((!is_old).then_some(key));
                self.remove(key);
            }
        }
        if self.newest.get(&key.0).is_some_and(|(_, count)| *count > self.share) {
            let oldest = self.oldest_of(key);
            forgotten.extend(oldest.inspect(|oldest| self.remove(*oldest)));
        }
        if self.order.len() > 2 * self.all.len() + STALE {
            let Self { all, order, .. } = self;
            order.retain(|(at, source, serial)| {
                all.get(&(*source, *serial)).is_some_and(|known| known.since == *at)
            });
        }
        forgotten
    }

    /// The source's oldest transfer, judged by the number: sources use numbers in order.
    fn oldest_of(&self, (source, serial): (IpAddr, u16)) -> Option<(IpAddr, u16)> {
        let above = serial.checked_add(1).map(|next| (source, next)..=(source, u16::MAX));
        let mut above = above.into_iter().flat_map(|range| self.all.range(range));
        let mut all = self.all.range((source, 0)..=(source, u16::MAX));
        above.next().or_else(|| all.next()).map(|(key, _)| *key)
    }

    /// Whether something is known of a source.
    pub fn has_source(&self, source: IpAddr) -> bool {
        self.newest.contains_key(&source)
    }

    /// The newest transfer of a source.
    pub fn newest_of(&self, source: IpAddr) -> Option<&Remembered> {
        let (newest, _) = self.newest.get(&source)?;
        self.all.get(&(source, low16(*newest))).map(|known| &known.remembered)
    }

    /// Tells what a segment is, if a transfer of this source and number is remembered. Only then is the fingerprint of
    /// the first segment calculated.
    pub fn recognise(
        &self,
        now: Time,
        key: (IpAddr, u16),
        ports: Ports,
        last: u16,
        first: Option<&[u8]>,
    ) -> Option<Recognised> {
        let Known { remembered: known, since, number } = self.all.get(&key)?;
        if now.since(*since) > self.lifetime {
            return None;
        }
        let is_same = (known.ports, known.last) == (ports, last)
            && first.is_none_or(|data| {
                known.fingerprint == 0 || known.fingerprint == fingerprint(data)
            });
        let is_late = is_same && *number == self.number(key);
        Some(if is_late { Recognised::Late(known.ending) } else { Recognised::New })
    }

    /// How the transfer of this number ended, if remembered and not from an earlier round of numbers.
    pub fn get(&self, now: Time, key: (IpAddr, u16)) -> Option<&Remembered> {
        let known = self.all.get(&key)?;
        let is_this = now.since(known.since) <= self.lifetime && known.number == self.number(key);
        is_this.then_some(&known.remembered)
    }

    /// The number counted on across rounds: the candidate nearest to the newest of its source, because sources use
    /// numbers in order.
    fn number(&self, (source, serial): (IpAddr, u16)) -> u64 {
        let newest = self.newest.get(&source).map_or(BEGIN + u64::from(serial), |(it, _)| *it);
        newest.wrapping_add_signed(serial.wrapping_sub(low16(newest)).cast_signed().into())
    }

    /// All remembered transfers, in order of source and number.
    pub fn iter(&self) -> impl Iterator<Item = &Remembered> {
        self.all.values().map(|known| &known.remembered)
    }

    pub fn len(&self) -> usize {
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
    fn a_number_of_the_next_round_is_new_though_a_later_one_overtook_it() {
        let mut finished = Finished::new(300_000, Duration::from_secs(60));
        (0..=u16::MAX).for_each(|serial| _ = finished.insert(Time::ZERO, known(serial)));
        let of = |finished: &Finished, serial| {
            finished.recognise(Time::ZERO, (SOURCE, serial), PORTS, 3, Some(b"first"))
        };
        assert_eq!(of(&finished, 65_535), Some(Recognised::Late(Ending::Delivered)));

        finished.insert(Time::ZERO, known(5));

        assert_eq!(of(&finished, 5), Some(Recognised::Late(Ending::Delivered)));
        assert_eq!(of(&finished, 3), Some(Recognised::New), "equal to one of the round before");
        assert!(finished.get(Time::ZERO, (SOURCE, 3)).is_none(), "nor is it answered for that one");
        assert_eq!(of(&finished, 65_535), Some(Recognised::Late(Ending::Delivered)));
    }

    #[test]
    fn the_oldest_is_forgotten_when_there_is_no_room_or_its_time_is_over() {
        let mut finished = finished();
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);

        let forgotten: Vec<_> =
            (0..5).flat_map(|serial| finished.insert(at(0), known(serial))).collect();
        assert_eq!((forgotten, finished.len()), (vec![(SOURCE, 0), (SOURCE, 1)], 3));
        assert!(finished.get(at(0), (SOURCE, 1)).is_none());
        assert!(finished.get(at(60), (SOURCE, 2)).is_some());
        assert!(finished.get(at(61), (SOURCE, 2)).is_none());
        assert!(finished.insert(at(61), known(9)).is_empty());
        assert_eq!(finished.len(), 1);
    }

    #[test]
    fn one_source_forgets_its_own_and_what_is_out_of_date_takes_no_memory() {
        let mut finished = Finished::new(8_000, Duration::from_secs(60));
        let honest = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
        finished.insert(Time::ZERO, Remembered { source: honest, ..known(7) });

        for round in 0..100_000_u32 {
            finished.insert(Time::from_nanos(round.into()), known(low16(u64::from(round))));
        }

        assert_eq!(finished.len(), 2_001, "a quarter, and the one of the other");
        assert!(finished.get(Time::ZERO, (honest, 7)).is_some());
        assert!(finished.order.len() <= 2 * finished.len() + STALE);
        let newest = finished.newest_of(SOURCE).map(|known| known.serial);
        assert_eq!(newest, Some(low16(99_999)));
        assert!(finished.get(Time::ZERO, (SOURCE, low16(99_999 - 1_999))).is_some());
    }

    #[test]
    fn a_transfer_that_ends_again_takes_no_second_place() {
        let mut finished = finished();
        let other = Remembered { source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), ..known(1) };
        finished.insert(Time::ZERO, other);

        for _ in 0..10 {
            assert_eq!(finished.insert(Time::ZERO, known(7)), []);
        }

        assert_eq!(finished.len(), 2);
        assert_eq!(finished.newest.get(&SOURCE).map(|(_, count)| *count), Some(1));
    }
}

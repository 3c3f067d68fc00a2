//! The receiving end: pieces to C_PDUs, with the places of errors and gaps.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use base::time::Time;

use super::WINDOW_UNIT_MS;
use crate::s5066::Address;
use crate::s5066::dts::arq::MAX_C_PDU;
use crate::s5066::dts::wire::{DATAGRAM_IDS, Datagram};

/// Senders that are known at a time, each kind for itself.
const MAX_SOURCES: usize = 64;
/// Most C_PDUs of one sender not yet handed on.
const MAX_OPEN: usize = 32;
/// Octets of all C_PDUs that are not handed on.
const MAX_HELD: usize = 1 << 20;
/// C_PDUs of one sender that are known to have been handed on.
const MAX_DONE: usize = 256;
/// How long after its window a C_PDU is still known: what a modem decodes comes late.
const GRACE: Duration = Duration::from_secs(20);

/// A C_PDU that arrived in whole or in part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Arrived {
    /// The sender.
    pub from: Address,
    /// To whom: this node or a group.
    pub to: Address,
    /// Whether the C_PDU came in frames of type 8.
    pub is_expedited: bool,
    /// Whether the C_PDU waited for earlier ones.
    pub in_order: bool,
    /// The C_PDU, zeros where octets are missing.
    pub octets: Vec<u8>,
    /// Octets that came in a bad segment only.
    pub errored: Vec<Range<u16>>,
    /// Octets that did not come.
    pub missing: Vec<Range<u16>>,
}

impl Arrived {
    /// Whether the C_PDU arrived without errors and gaps.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.errored.is_empty() && self.missing.is_empty()
    }
}

base::counters! {
    /// Counts since the start.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct ReceiverStats {
        /// Frames taken.
        pub frames: counter(frames);
        /// Frames of C_PDUs that had been handed on.
        pub duplicates: counter(frames);
        /// Frames with inconsistent sizes and places, or of C_PDUs that are too long.
        pub invalid: counter(frames);
        /// C_PDUs handed on whole.
        pub whole: counter(c_pdus);
        /// C_PDUs handed on with errors or gaps.
        pub partial: counter(c_pdus);
        /// C_PDUs forgotten because there was no room for them.
        pub evicted: counter(c_pdus);
        /// C_PDUs whose number was given to another one before their window closed.
        pub replaced: counter(c_pdus);
    }
}

/// The receiving end, for all senders.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    sources: BTreeMap<(Address, bool), Source>,
    /// Octets of all open C_PDUs.
    held: usize,
    /// How many C_PDUs were begun.
    begun: u64,
    arrived: VecDeque<Arrived>,
    stats: ReceiverStats,
}

/// C_PDUs from one sender in one kind of frames.
#[derive(Clone, Debug, Default)]
struct Source {
    open: BTreeMap<u16, PartialPdu>,
    /// Numbers of C_PDUs that were handed on, and until when those are known.
    done: VecDeque<(u16, Time)>,
}

/// A C_PDU that is not handed on.
#[derive(Clone, Debug)]
struct PartialPdu {
    to: Address,
    in_order: bool,
    octets: Vec<u8>,
    state: Vec<State>,
    good: usize,
    closes: Time,
    /// The serial number among all C_PDUs begun.
    serial: u64,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Errored,
    Good,
    Missing,
}

impl Receiver {
    /// A receiver that nothing has reached.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a frame whose header is good.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        from: Address,
        to: Address,
        datagram: &Datagram<'_>,
    ) {
        self.handle_timeout(now);
        let size = usize::from(datagram.size);
        let start = usize::from(datagram.offset);
        let end = start + datagram.segment.octets.len();
        if size == 0 || size > MAX_C_PDU || end > size || start == end {
            self.stats.invalid += 1;
            return;
        }
        let key = (from, datagram.is_expedited);
        let id = datagram.id % DATAGRAM_IDS;
        let window = u64::from(datagram.window) * WINDOW_UNIT_MS;
        let closes = now + Duration::from_millis(window);
        if let Some(source) = self.sources.get_mut(&key)
            && let Some((_, until)) = source.done.iter_mut().find(|(done, _)| *done == id)
        {
            *until = (*until).max(closes + GRACE);
            self.stats.duplicates += 1;
            return;
        }

        self.stats.frames += 1;
        self.make_room(key, id, size, to);
        let source = self.sources.entry(key).or_default();
        let open = source.open.entry(id).or_insert_with(|| {
            self.held += size;
            self.begun += 1;
            PartialPdu {
                to,
                in_order: datagram.in_order,
                octets: vec![0; size],
                state: vec![State::Missing; size],
                good: 0,
                closes,
                serial: self.begun,
                is_closed: false,
            }
        });
        open.closes = closes;
        open.take(start, datagram.segment.octets, datagram.segment.is_good);
        self.release(key);
    }

    /// Hands on what waited until now.
    pub fn handle_timeout(&mut self, now: Time) {
        let keys: Vec<_> = self.sources.keys().copied().collect();
        for key in keys {
            let Some(source) = self.sources.get_mut(&key) else { continue };
            let mut has_closed = false;
            for open in source.open.values_mut().filter(|open| open.closes <= now) {
                open.is_closed = true;
                has_closed = true;
            }
            if has_closed {
                self.release(key);
            }
        }
        // Last: what waited for another may be handed on when its number is long forgotten.
        self.sources.retain(|_, source| {
            source.done.retain(|(_, until)| *until > now);
            !source.open.is_empty() || !source.done.is_empty()
        });
    }

    /// The next C_PDU.
    pub fn poll_arrived(&mut self) -> Option<Arrived> {
        self.arrived.pop_front()
    }

    /// When the next window closes.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let open = self.sources.values().flat_map(|source| source.open.values());
        let done = self.sources.values().flat_map(|source| source.done.iter());
        let closes = open.filter(|open| !open.is_closed).map(|open| open.closes);
        closes.chain(done.map(|(_, until)| *until)).min()
    }

    /// Octets of C_PDUs that are not handed on.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Makes room for a C_PDU: forgets another with the same number, the oldest of the sender, the oldest of all.
    fn make_room(&mut self, key: (Address, bool), id: u16, size: usize, to: Address) {
        if let Some(source) = self.sources.get_mut(&key) {
            match source.open.get(&id) {
                Some(open) if open.octets.len() == size && open.to == to => return,
                Some(_) => {
                    self.held -= source.open.remove(&id).map_or(0, |open| open.octets.len());
                    self.stats.replaced += 1;
                }
                None => {}
            }
            if source.open.len() >= MAX_OPEN {
                self.evict(Some(key));
            }
        } else if self.sources.len() >= MAX_SOURCES {
            self.evict_source();
        }
        while self.held + size > MAX_HELD {
            self.evict(None);
        }
    }

    /// Forgets the oldest C_PDU, of one sender or of all.
    fn evict(&mut self, only: Option<(Address, bool)>) {
        let all = self.sources.iter().filter(|(key, _)| only.is_none_or(|only| only == **key));
        let oldest = all
            .flat_map(|(key, source)| source.open.iter().map(|(id, open)| (open.serial, *key, *id)))
            .min();
        if let Some((_, key, id)) = oldest
            && let Some(open) =
                self.sources.get_mut(&key).and_then(|source| source.open.remove(&id))
        {
            self.held -= open.octets.len();
            self.stats.evicted += 1;
            self.release(key);
        }
    }

    /// Forgets the sender that was longest silent.
    fn evict_source(&mut self) {
        let newest = |source: &Source| {
            let open = source.open.values().map(|open| open.closes);
            open.chain(source.done.iter().map(|(_, until)| *until)).max()
        };
        let oldest = self.sources.iter().map(|(key, source)| (newest(source), *key)).min();
        if let Some((_, key)) = oldest
            && let Some(source) = self.sources.remove(&key)
        {
            self.held -= source.open.values().map(|open| open.octets.len()).sum::<usize>();
            self.stats.evicted += source.open.len() as u64;
        }
    }

    /// Hands on what is over and waits for none before it.
    fn release(&mut self, key: (Address, bool)) {
        while let Some(source) = self.sources.get_mut(&key)
            && let Some(id) = source.next_over()
            && let Some(open) = source.open.remove(&id)
        {
            if source.done.len() == MAX_DONE {
                source.done.pop_front();
            }
            source.done.push_back((id, open.closes + GRACE));
            self.held -= open.octets.len();
            let (errored, missing) = (open.ranges(State::Errored), open.ranges(State::Missing));
            let (from, is_expedited) = key;
            let PartialPdu { to, in_order, octets, .. } = open;
            let arrived = Arrived { from, to, is_expedited, in_order, octets, errored, missing };
            let is_whole = arrived.is_whole();
            self.stats.whole += u64::from(is_whole);
            self.stats.partial += u64::from(!is_whole);
            self.arrived.push_back(arrived);
        }
    }
}

impl Source {
    /// A C_PDU that is over, in the order of their numbers.
    fn next_over(&self) -> Option<u16> {
        let is_before = |id: u16, other: u16| {
            id != other && other.wrapping_sub(id) % DATAGRAM_IDS < DATAGRAM_IDS / 2
        };
        let may_go = |id: u16, open: &PartialPdu| {
            let mut others = self.open.iter();
            open.is_over()
                && !(open.in_order
                    && others.any(|(&other, open)| open.in_order && is_before(other, id)))
        };
        self.open.iter().find(|&(&id, open)| may_go(id, open)).map(|(&id, _)| id)
    }
}

impl PartialPdu {
    fn is_over(&self) -> bool {
        self.is_closed || self.good == self.octets.len()
    }

    fn take(&mut self, start: usize, segment: &[u8], is_good: bool) {
        let places = self.octets[start..].iter_mut().zip(&mut self.state[start..]);
        for ((place, state), &octet) in places.zip(segment) {
            if *state == State::Good {
                continue;
            }
            *place = octet;
            *state = if is_good { State::Good } else { State::Errored };
            self.good += usize::from(is_good);
        }
    }

    /// The ranges of octets in this state.
    fn ranges(&self, wanted: State) -> Vec<Range<u16>> {
        let mut ranges: Vec<Range<u16>> = Vec::new();
        for (at, state) in (0_u16..).zip(&self.state) {
            if *state != wanted {
                continue;
            }
            match ranges.last_mut().filter(|range| range.end == at) {
                Some(range) => range.end = at + 1,
                None => ranges.push(at..at + 1),
            }
        }
        ranges
    }
}

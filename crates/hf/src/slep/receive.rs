//! Receiving side of a stream direction: reorders parts and grants credit.
//!
//! ```text
//!      read │ in order, unread │ missing, later                    │ not allowed
//!  ─────────┼──────────────────┼───────────────────────────────────┼───────────▶
//!                             next                               limit
//! ```

use std::collections::{BTreeMap, VecDeque};

use base::serial;

use super::coding::{Coding, Decoder};
use super::wire::{Credit, FIRST_LIMIT, MOST_RANGES, Part, Ranges};

#[derive(Debug)]
pub struct Receiving {
    window: u64,
    next: u64,
    /// In order and unread; of the first, `offset` octets were read.
    unread: VecDeque<Piece>,
    offset: usize,
    /// Once something coded was read.
    decoder: Option<Decoder>,
    /// How all coded parts are coded, once one has come.
    coding: Option<Coding>,
    /// Whether something coded cannot be decoded.
    is_broken: bool,
    later: BTreeMap<u64, Piece>,
    /// The number of the last part, when it is known.
    last: Option<u64>,
    has_read_end: bool,
    /// Whether the other end is to be told that all came only when the user says so.
    holds_end: bool,
    /// What the other end was told: `next` and `limit`.
    told: (u64, u64),
    octets: usize,
}

#[derive(Debug)]
struct Piece {
    data: Box<[u8]>,
    is_coded: bool,
}

/// What became of a part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Taken {
    /// Its number is not allowed.
    Beyond,
    /// The receiver has no room for the part.
    Full,
    /// It was there already.
    Known,
    /// It is new, and has so many octets.
    New(usize),
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Read {
    /// How many octets.
    pub octets: usize,
    /// Whether nothing comes after them.
    pub is_end: bool,
}

impl Receiving {
    pub fn new(window: u16) -> Self {
        Self {
            window: window.into(),
            next: 0,
            unread: VecDeque::new(),
            offset: 0,
            decoder: None,
            coding: None,
            is_broken: false,
            later: BTreeMap::new(),
            last: None,
            has_read_end: false,
            holds_end: false,
            told: (0, FIRST_LIMIT.into()),
            octets: 0,
        }
    }

    /// Takes a part. Without room it takes only what the user can read at once and waits for: otherwise
    /// those parts that wait for it would have the room for ever.
    pub fn take(&mut self, part: &Part<'_>, has_room: bool) -> Taken {
        let number = serial::expand(part.number.into(), 16, self.next);
        if number < self.next || self.later.contains_key(&number) {
            return Taken::Known;
        }
        let is_behind_end = self.last.is_some_and(|last| number > last);
        let is_no_end = part.is_last
            && self.later.last_key_value().is_some_and(|(greatest, _)| *greatest > number);
        if number >= self.told.1 || is_behind_end || is_no_end {
            return Taken::Beyond;
        }
        let is_awaited = number == self.next && self.unread.is_empty();
        if !has_room && !is_awaited {
            return Taken::Full;
        }
        if part.is_last {
            self.last = Some(number);
        }
        let data: Box<[u8]> = if part.is_coded {
            self.open(part.data).unwrap_or_else(|| {
                self.is_broken = true;
                Box::default()
            })
        } else {
            part.data.into()
        };
        let octets = data.len();
        self.octets += octets;
        self.later.insert(number, Piece { data, is_coded: part.is_coded });
        while let Some(piece) = self.later.remove(&self.next) {
            self.next += 1;
            if !piece.data.is_empty() {
                self.unread.push_back(piece);
            }
        }
        Taken::New(octets)
    }

    /// Extracts the octets to decode from a coded part, unless its coding differs from earlier parts.
    fn open(&mut self, data: &[u8]) -> Option<Box<[u8]>> {
        let (coding, octets) = Decoder::open(data).ok()?;
        (*self.coding.get_or_insert(coding) == coding).then_some(octets)
    }

    /// Appends at most `most` octets to `out`.
    pub fn read(&mut self, out: &mut Vec<u8>, most: usize) -> Read {
        let start = out.len();
        let end = start.saturating_add(most);
        while out.len() < end
            && !self.is_broken
            && let Some(piece) = self.unread.front()
        {
            let rest = &piece.data[self.offset..];
            let left = end - out.len();
            let is_read = if piece.is_coded {
                let coding = self.coding.unwrap_or(Coding::Plain);
                let decoder = self.decoder.get_or_insert_with(|| Decoder::new(coding));
                match decoder.decode(rest, out, left) {
                    Ok((taken, is_all)) => {
                        self.offset += taken;
                        is_all
                    }
                    Err(_) => {
                        self.is_broken = true;
                        break;
                    }
                }
            } else {
                let taken = rest.len().min(left);
                out.extend_from_slice(&rest[..taken]);
                self.offset += taken;
                self.offset == piece.data.len()
            };
            if is_read {
                self.octets -= piece.data.len();
                self.offset = 0;
                self.unread.pop_front();
            }
        }
        if self.unread.is_empty() {
            self.unread = VecDeque::new();
        }
        self.has_read_end = self.is_complete() && self.unread.is_empty();
        Read { octets: out.len() - start, is_end: self.has_read_end }
    }

    /// What is to be told to the other end now.
    pub fn credit(&mut self) -> Credit {
        self.told = (self.acknowledged(), self.limit());
        let [next, limit] = [self.told.0, self.told.1].map(serial::low16);
        Credit { next, limit }
    }

    /// Below which the other end may take all for delivered.
    fn acknowledged(&self) -> u64 {
        self.last.filter(|last| self.holds_end && self.next > *last).unwrap_or(self.next)
    }

    /// Lets the other end know that all came when the user says so, and not before.
    pub fn hold_end(&mut self) {
        // What was told cannot be taken back.
        self.holds_end = self.last.is_none_or(|last| self.told.0 <= last);
    }

    /// Whether that waits for the user.
    pub fn holds_end(&self) -> bool {
        self.holds_end
    }

    /// The user has what came, to the end.
    pub fn confirm_end(&mut self) {
        self.holds_end = false;
    }

    fn limit(&self) -> u64 {
        (self.next - self.unread.len() as u64 + self.window).max(self.told.1)
    }

    /// What arrived above `next`, in at most so many ranges.
    pub fn ranges(&self, most: usize) -> Vec<[u8; 4]> {
        let most = most.min(MOST_RANGES);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        // What is held came, and need not come again.
        for number in (self.acknowledged()..self.next).chain(self.later.keys().copied()) {
            let is_full = ranges.len() == most;
            match ranges.last_mut() {
                Some((first, count)) if *first + *count == number => *count += 1,
                _ if is_full => break,
                _ => ranges.push((number, 1)),
            }
        }
        let octets = |(first, count)| Ranges::octets(serial::low16(first), serial::low16(count));
        ranges.into_iter().map(octets).collect()
    }

    /// Whether the other end should be told how far this side is: when the sender has finished and no other message
    /// of ours will tell it (`is_last`), or when a quarter of its allowance has arrived and can be granted again.
    pub fn has_news(&self, is_last: bool) -> bool {
        let advance = self.acknowledged() - self.told.0;
        let is_end = advance > 0 && self.is_complete() && is_last;
        let growth = self.limit() - self.told.1;
        is_end || growth * 4 >= self.window.max(1) && advance * 4 >= self.told.1 - self.told.0
    }

    /// Whether data the other way should tell how far this is.
    pub fn has_advanced(&self) -> bool {
        self.acknowledged() > self.told.0
    }

    /// Whether something is missing that is known to have been sent.
    pub fn has_gap(&self) -> bool {
        !self.later.is_empty()
    }

    /// Whether something came that cannot be decoded.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether all has come.
    fn is_complete(&self) -> bool {
        self.last.is_some_and(|last| self.next > last)
    }

    /// Whether there is something to read, or the end to be read.
    pub fn is_readable(&self) -> bool {
        !self.unread.is_empty() || self.is_complete() && !self.has_read_end
    }

    /// Whether octets came in order that the user has not read.
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether the user has read all, to the end.
    pub fn is_done(&self) -> bool {
        self.has_read_end && !self.holds_end
    }

    /// Octets that are kept.
    pub fn octets(&self) -> usize {
        self.octets
    }
}

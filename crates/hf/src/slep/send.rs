//! Sending side of a stream direction: cuts parts and keeps them until acknowledged.
//!
//! ```text
//!        acknowledged │ retained: at the node, confirmed, to be sent again │ unsent
//!  ───────────────────┼─────────────────────────────────────────────────────┼──────────────▶
//!                    base                                            next ≤ limit
//! ```
//!
//! Parts are numbered from 0. A part is kept until the other end has acknowledged it: a confirmation by the node
//! means little, because the node may have lost its client meanwhile.

use std::collections::{BTreeSet, VecDeque};

use base::serial;

use super::coding::{self, Coder, Coding, Spares};
use super::wire::{Credit, FIRST_LIMIT, MOST_RANGES, Part, Ranges};

/// Octets by which the buffer of a stream grows.
const GROWTH: usize = 16 << 10;
/// Parts that may be under way at most, whatever the other end allows.
const MOST_WINDOW: u64 = 16_384;

#[derive(Debug)]
pub struct Sending {
    unsent: VecDeque<u8>,
    /// If it is to be compressed.
    coder: Option<Coder>,
    /// How it was coded, if it is no more.
    begun: Option<Coding>,
    end: End,
    /// Whether a part has to be sent even if there is nothing to say.
    owes_first: bool,
    base: u64,
    limit: u64,
    retained: VecDeque<Retained>,
    /// Octets of what is retained.
    retained_octets: usize,
    /// Retained parts that are to be sent again.
    again: BTreeSet<u64>,
    /// Retained parts that the node has and has not confirmed.
    in_flight: usize,
    /// Confirmations so far.
    confirmations: u64,
    /// Confirmations when the other end was last asked what it has.
    asked: u64,
}

/// Whether the direction ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// The user may write more.
    Open,
    /// The user has written all.
    Finishing,
    /// The last part has been made.
    Made,
}

/// A part that the other end is not known to have.
#[derive(Debug)]
struct Retained {
    data: Box<[u8]>,
    is_coded: bool,
    is_last: bool,
    place: Place,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    Again,
    /// The other end has it, and not all before it.
    Arrived,
    /// The node has confirmed the part; the number counts confirmations in this direction.
    Confirmed(u64),
    Handed,
}

/// Octets that were freed, and whether anything was new.
#[derive(Clone, Copy, Debug, Default)]
pub struct Freed {
    pub octets: usize,
    pub parts: u64,
}

impl Sending {
    pub fn new(owes_first: bool) -> Self {
        Self {
            unsent: VecDeque::new(),
            coder: None,
            begun: None,
            end: End::Open,
            owes_first,
            base: 0,
            limit: FIRST_LIMIT.into(),
            retained: VecDeque::new(),
            retained_octets: 0,
            again: BTreeSet::new(),
            in_flight: 0,
            confirmations: 0,
            asked: 0,
        }
    }

    /// Turns compression on or off, also for data written and not yet cut into parts.
    pub fn set_compressed(&mut self, is_compressed: bool) {
        let has_pending = self.coder.as_ref().is_some_and(|coder| coder.pending() > 0);
        if is_compressed && self.coder.is_none() {
            self.coder = Some(self.begun.map_or_else(Coder::new, Coder::resumed));
        } else if !is_compressed && !has_pending {
            let before = self.coder.take();
            self.begun = before.and_then(|coder| coder.begun()).or(self.begun);
        }
    }

    /// The best coding that the other end is known to take.
    pub fn offer(&mut self, coding: Coding) {
        if let Some(coder) = &mut self.coder {
            coder.offer(coding);
        }
    }

    /// Gives back what is costly to keep, unless octets wait in it; whether it has none now.
    pub fn rest(&mut self, spares: &mut Spares) -> bool {
        self.coder.as_mut().is_none_or(|coder| coder.rest(spares))
    }

    /// It is over: gives back what is costly to make.
    pub fn end(&mut self, spares: &mut Spares) {
        if let Some(coder) = &mut self.coder {
            coder.end(spares);
        }
    }

    /// Whether it has what is costly to keep.
    pub fn is_large(&self) -> bool {
        self.coder.as_ref().is_some_and(Coder::is_large)
    }

    /// Whether the next part may make it large.
    pub fn may_grow(&self) -> bool {
        self.again.is_empty() && self.coder.as_ref().is_some_and(Coder::may_grow)
    }

    /// One that is over: what waited is gone.
    pub fn over() -> Self {
        Self { end: End::Made, ..Self::new(false) }
    }

    /// Takes octets from the user, at most `room`.
    pub fn write(&mut self, octets: &[u8], room: usize) -> usize {
        if self.end != End::Open {
            return 0;
        }
        let taken = octets.len().min(room);
        if self.unsent.capacity() - self.unsent.len() < taken {
            // Doubling would keep twice what counts against the limits.
            self.unsent.reserve_exact(taken.next_multiple_of(GROWTH));
        }
        self.unsent.extend(&octets[..taken]);
        taken
    }

    pub fn finish(&mut self) {
        if self.end == End::Open {
            self.end = End::Finishing;
        }
    }

    /// Chooses the next part, which has at most `room` octets if it is a new one. A direction that is not
    /// large, and may not become so, is not compressed.
    pub fn take_part(&mut self, room: usize, may_grow: bool, spares: &mut Spares) -> Option<u64> {
        let number = match self.again.pop_first() {
            Some(number) => number,
            None if self.may_make() => {
                let (data, is_coded) = self.cut(room, may_grow, spares);
                let is_last = self.end == End::Finishing && !self.has_more();
                if is_last {
                    self.end = End::Made;
                }
                self.owes_first = false;
                self.retained_octets += data.len();
                self.retained.push_back(Retained {
                    data: data.into(),
                    is_coded,
                    is_last,
                    place: Place::Handed,
                });
                self.in_flight += 1;
                return Some(self.next() - 1);
            }
            None => return None,
        };
        if let Some(part) = self.part_mut(number) {
            part.place = Place::Handed;
        }
        self.in_flight += 1;
        Some(number)
    }

    fn cut(&mut self, room: usize, may_grow: bool, spares: &mut Spares) -> (Vec<u8>, bool) {
        let cut = match &mut self.coder {
            Some(coder) if !self.unsent.is_empty() || coder.pending() > 0 => {
                coder.cut(&mut self.unsent, room.max(2), may_grow, spares)
            }
            _ => {
                let len = room.min(self.unsent.len());
                let mut data = Vec::with_capacity(len);
                coding::append(&mut self.unsent, len, &mut data);
                (data, false)
            }
        };
        if self.unsent.is_empty() {
            self.unsent = VecDeque::new();
        }
        cut
    }

    /// Whether something was written that is in no part yet.
    fn has_more(&self) -> bool {
        !self.unsent.is_empty() || self.pending() > 0
    }

    fn pending(&self) -> usize {
        self.coder.as_ref().map_or(0, Coder::pending)
    }

    fn may_make(&self) -> bool {
        self.next() < self.limit.min(self.base + MOST_WINDOW)
            && (self.has_more() || self.end == End::Finishing || self.owes_first)
    }

    /// A part that was taken and is not acknowledged.
    pub fn part(&self, number: u64) -> Option<Part<'_>> {
        let Retained { data, is_coded, is_last, .. } = self.retained.get(self.index(number)?)?;
        let (is_coded, is_last) = (*is_coded, *is_last);
        Some(Part { number: serial::low16(number), is_coded, is_last, data })
    }

    fn part_mut(&mut self, number: u64) -> Option<&mut Retained> {
        let index = self.index(number)?;
        self.retained.get_mut(index)
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.base)?).ok()
    }

    /// The node has confirmed a part.
    pub fn handle_confirmed(&mut self, number: u64) {
        let order = self.confirmations + 1;
        let Some(part) = self.part_mut(number).filter(|part| part.place == Place::Handed) else {
            return;
        };
        part.place = Place::Confirmed(order);
        self.confirmations = order;
        self.in_flight -= 1;
    }

    /// Whether the node has confirmed a part, or the other end has said that it has it.
    pub fn is_confirmed(&self, number: u64) -> bool {
        let place =
            self.index(number).and_then(|index| self.retained.get(index)).map(|part| part.place);
        number < self.base || matches!(place, Some(Place::Arrived | Place::Confirmed(_)))
    }

    /// The node does not have a part any more, and perhaps the other end has not got it.
    pub fn handle_lost(&mut self, number: u64) {
        let was_sent =
            |part: &&mut Retained| matches!(part.place, Place::Handed | Place::Confirmed(_));
        let Some(part) = self.part_mut(number).filter(was_sent) else { return };
        let place = std::mem::replace(&mut part.place, Place::Again);
        self.release(number, place);
        self.again.insert(number);
    }

    /// Schedules all confirmed parts for retransmission: the other end received none of them.
    pub fn repeat_confirmed(&mut self) -> u64 {
        self.repeat(self.confirmations, u64::MAX)
    }

    /// Schedules retransmission of the parts below `end` confirmed up to the `order`-th confirmation.
    fn repeat(&mut self, order: u64, end: u64) -> u64 {
        let mut repeated = 0;
        for (number, part) in (self.base..end).zip(&mut self.retained) {
            if matches!(part.place, Place::Confirmed(at) if at <= order) {
                part.place = Place::Again;
                self.again.insert(number);
                repeated += 1;
            }
        }
        repeated
    }

    /// The other end is asked what it has.
    pub fn handle_asked(&mut self) {
        self.asked = self.confirmations;
    }

    /// The other end has all below `next`, and takes all below `limit`.
    pub fn handle_credit(&mut self, credit: Credit) -> Freed {
        let next = serial::expand(credit.next.into(), 16, self.base);
        let limit = serial::expand(credit.limit.into(), 16, self.next());
        self.limit = self.limit.max(limit);
        let mut freed = Freed::default();
        if next > self.next() {
            return freed;
        }
        while self.base < next
            && let Some(part) = self.retained.pop_front()
        {
            self.release(self.base, part.place);
            freed.octets += part.data.len();
            freed.parts += 1;
            self.base += 1;
        }
        if self.retained.is_empty() {
            self.retained = VecDeque::new();
        }
        self.retained_octets -= freed.octets;
        freed
    }

    /// The other end has these too. If it says so after it was asked (`is_answer`) or because it may
    /// have lost something, what it does not tell of, and was confirmed before, is to be sent again;
    /// returns how many parts that is.
    pub fn handle_ranges(
        &mut self,
        ranges: Ranges<'_>,
        is_answer: bool,
        is_question: bool,
    ) -> (Freed, u64) {
        let mut freed = Freed::default();
        let mut end = self.base;
        for (first, count) in ranges.iter() {
            let first = serial::expand(first.into(), 16, self.base);
            end = first.saturating_add(count.into());
            for number in first.max(self.base)..end.min(self.next()) {
                let Some(part) = self.part_mut(number) else { break };
                let data = std::mem::take(&mut part.data);
                let place = std::mem::replace(&mut part.place, Place::Arrived);
                self.release(number, place);
                freed.octets += data.len();
                freed.parts += u64::from(place != Place::Arrived);
            }
        }
        self.retained_octets -= freed.octets;
        if !is_answer && !is_question {
            return (freed, 0);
        }
        // What lies above the last range is not told of when there was no room for more.
        let end = if ranges.len() < MOST_RANGES { u64::MAX } else { end };
        let order = if is_answer { self.asked } else { self.confirmations };
        (freed, self.repeat(order, end))
    }

    /// A part is not waited for any more.
    fn release(&mut self, number: u64, place: Place) {
        match place {
            Place::Again => _ = self.again.remove(&number),
            Place::Handed => self.in_flight -= 1,
            Place::Arrived | Place::Confirmed(_) => {}
        }
    }

    /// Whether there is a part to send.
    pub fn is_ready(&self) -> bool {
        !self.again.is_empty() || self.may_make()
    }

    /// Whether the first part is to be sent again.
    pub fn repeats_first(&self) -> bool {
        self.again.first() == Some(&0)
    }

    /// Whether parts are to be sent again.
    pub fn repeats(&self) -> bool {
        !self.again.is_empty()
    }

    /// Whether the next part to send is a new one.
    pub fn is_new_ready(&self) -> bool {
        self.again.is_empty() && self.may_make()
    }

    /// Whether only a word of the other end lets it go on.
    pub fn is_held_up(&self) -> bool {
        let wants_more = self.has_more() || self.end == End::Finishing;
        self.in_flight == 0
            && !self.is_ready()
            && (wants_more || self.end == End::Made && !self.retained.is_empty())
    }

    /// Whether nothing waits, here or at the node or with the other end.
    pub fn is_settled(&self) -> bool {
        self.retained.is_empty() && !self.has_more() && self.end != End::Finishing
    }

    /// Whether the node has nothing of it, and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.is_handed()
    }

    /// Whether the node was given all.
    pub fn is_handed(&self) -> bool {
        !self.has_more() && self.again.is_empty()
    }

    /// Whether the node holds unconfirmed parts of this stream.
    pub fn is_with_node(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether the other end has all, to the end.
    pub fn is_done(&self) -> bool {
        self.end == End::Made && self.retained.is_empty()
    }

    /// Whether the last part has been made.
    pub fn is_made(&self) -> bool {
        self.end == End::Made
    }

    /// Whether the user has said that it writes no more.
    pub fn is_finished(&self) -> bool {
        self.end != End::Open
    }

    /// Whether credit is missing for what could be sent.
    pub fn lacks_credit(&self) -> bool {
        self.has_more() && self.next() >= self.limit
    }

    pub fn next(&self) -> u64 {
        self.base + self.retained.len() as u64
    }

    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Octets that are kept.
    pub fn octets(&self) -> usize {
        self.unsent.len() + self.pending() + self.retained_octets
    }
}

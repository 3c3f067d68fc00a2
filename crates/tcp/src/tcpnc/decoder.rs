//! Solves combinations as they arrive: reduced row-echelon form, oldest packet first.
//!
//! ```text
//!            p1 p2 p3 p4 p5
//!   seen     1  .  .  a  .     a row for each seen packet: itself, and unseen ones after it
//!   seen        1  .  b  .
//!   decoded        1  .  .     nothing after it
//!   unseen            -
//!   decoded              1
//! ```

use std::collections::VecDeque;

use super::coefficients;

/// State of packets not yet finished.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// The number of the first slot; earlier packets are done with.
    low: u64,
    slots: VecDeque<Slot>,
    next_unseen: u64,
    /// Slots and octets that may be held.
    max_packets: usize,
    max_octets: usize,
    octets: usize,
    /// The coefficients of the row at work, kept for its memory.
    row: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Slot {
    Seen(Row),
    Unseen,
}

/// A row: one packet, and a sum of later unseen packets.
#[derive(Clone, Debug, Default)]
struct Row {
    /// Coefficients of the packets after this one; the last is not zero. Empty once decoded.
    tail: Vec<u8>,
    sum: Vec<u8>,
}

/// What became of a combination.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It tells nothing new.
    Dependent,
    /// It made a packet seen.
    Innovative,
    /// The packet lies outside the range that the decoder can hold.
    Refused,
}

impl Decoder {
    pub fn new(max_packets: usize, max_octets: usize) -> Self {
        Self {
            low: 0,
            slots: VecDeque::new(),
            next_unseen: 0,
            max_packets,
            max_octets,
            octets: 0,
            row: Vec::new(),
        }
    }

    /// Takes a combination of `count` packets from `first` on.
    pub fn handle_combination(
        &mut self,
        first: u64,
        count: usize,
        key: u16,
        coded: &[u8],
    ) -> Outcome {
        let Some(offset) = first.checked_sub(self.low).and_then(|it| usize::try_from(it).ok())
        else {
            return Outcome::Refused;
        };
        let fits = offset.saturating_add(count) <= self.max_packets
            && self.octets + coded.len() <= self.max_octets;
        if !fits {
            return Outcome::Refused;
        }
        while self.slots.len() < offset + count {
            self.slots.push_back(Slot::Unseen);
        }

        let mut row = std::mem::take(&mut self.row);
        coefficients::expand(key, count, &mut row);
        let (pivot, terms) = self.eliminate(offset, &mut row);
        if let Some(pivot) = pivot {
            let new = self.normalise(&row[pivot..], &terms, coded);
            self.insert(offset + pivot, new);
        }
        self.row = row;
        if pivot.is_some() { Outcome::Innovative } else { Outcome::Dependent }
    }

    /// Forgets packets before `number` that are seen.
    pub fn forget_before(&mut self, number: u64) {
        while self.low < number.min(self.next_unseen) {
            if let Some(Slot::Seen(row)) = self.slots.pop_front() {
                self.octets -= row.sum.len();
            }
            self.low += 1;
        }
    }

    /// The oldest unseen packet.
    pub fn next_unseen(&self) -> u64 {
        self.next_unseen
    }

    /// A packet, possibly padded, if decoded and still held.
    pub fn decoded(&self, number: u64) -> Option<&[u8]> {
        let index = usize::try_from(number.checked_sub(self.low)?).ok()?;
        match self.slots.get(index)? {
            Slot::Seen(row) if row.tail.is_empty() => Some(&row.sum),
            Slot::Seen(_) | Slot::Unseen => None,
        }
    }

    /// Octets held.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// Runs of unseen packets before the last seen one: each with its first number and its length.
    pub fn runs(&self) -> impl Iterator<Item = (u64, usize)> {
        let mut at = usize::try_from(self.next_unseen - self.low).unwrap_or(usize::MAX);
        std::iter::from_fn(move || {
            let is_unseen = |at: &usize| matches!(self.slots.get(*at), Some(Slot::Unseen));
            let start = (at..self.slots.len()).find(is_unseen)?;
            let end = (start..self.slots.len()).find(|at| !is_unseen(at))?;
            at = end;
            Some((self.low + start as u64, end - start))
        })
    }

    /// Eliminates seen packets from a row that starts at `offset`.
    ///
    /// Returns the place in the row of the first packet left, and the slots to add with their
    /// factors.
    fn eliminate(&self, offset: usize, row: &mut Vec<u8>) -> (Option<usize>, Vec<(u8, usize)>) {
        let (mut pivot, mut terms) = (None, Vec::new());
        let mut at = 0;
        while at < row.len() {
            let factor = row[at];
            if factor != 0 {
                match &self.slots[offset + at] {
                    Slot::Seen(seen) => {
                        row[at] = 0;
                        add_scaled(row, at + 1, factor, &seen.tail);
                        terms.push((factor, offset + at));
                    }
                    Slot::Unseen => {
                        pivot.get_or_insert(at);
                    }
                }
            }
            at += 1;
        }
        (pivot, terms)
    }

    /// Scales a row so that its first coefficient, belonging to the row's own packet, is 1.
    fn normalise(&self, coefficients: &[u8], terms: &[(u8, usize)], coded: &[u8]) -> Row {
        let scale = gf::inverse(coefficients[0]);
        let mut sources = vec![(scale, coded)];
        for (factor, slot) in terms {
            if let Slot::Seen(seen) = &self.slots[*slot] {
                sources.push((gf::multiply(scale, *factor), &seen.sum));
            }
        }
        let len = sources.iter().map(|(_, source)| source.len()).max().unwrap_or(0);
        let mut sum = vec![0; len];
        gf::combine(&mut sum, &sources);
        let mut tail: Vec<_> =
            coefficients[1..].iter().map(|other| gf::multiply(scale, *other)).collect();
        trim(&mut tail);
        Row { tail, sum }
    }

    /// Puts a row into its slot, and takes its packet out of the rows before.
    fn insert(&mut self, index: usize, new: Row) {
        for earlier in 0..index {
            let Slot::Seen(row) = &mut self.slots[earlier] else { continue };
            let place = index - earlier - 1;
            let factor = row.tail.get(place).copied().unwrap_or(0);
            if factor == 0 {
                continue;
            }
            row.tail[place] = 0;
            add_scaled(&mut row.tail, place + 1, factor, &new.tail);
            trim(&mut row.tail);
            if row.sum.len() < new.sum.len() {
                self.octets += new.sum.len() - row.sum.len();
                row.sum.resize(new.sum.len(), 0);
            }
            gf::accumulate(&mut row.sum, &[(factor, &new.sum)]);
        }
        self.octets += new.sum.len();
        self.slots[index] = Slot::Seen(new);

        let unseen = |slot: &Slot| matches!(slot, Slot::Unseen);
        let from = usize::try_from(self.next_unseen - self.low).unwrap_or(usize::MAX);
        let seen = self.slots.range(from..).position(unseen).unwrap_or(self.slots.len() - from);
        self.next_unseen += seen as u64;
    }
}

/// Adds `factor * other` to `row` from `at` on, which grows as needed.
fn add_scaled(row: &mut Vec<u8>, at: usize, factor: u8, other: &[u8]) {
    if row.len() < at + other.len() {
        row.resize(at + other.len(), 0);
    }
    for (mine, theirs) in row[at..].iter_mut().zip(other) {
        *mine ^= gf::multiply(factor, *theirs);
    }
}

fn trim(row: &mut Vec<u8>) {
    let len = row.iter().rposition(|coefficient| *coefficient != 0).map_or(0, |last| last + 1);
    row.truncate(len);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_held_up_to_the_bound_and_given_back() {
        let mut decoder = Decoder::new(4, 10);

        assert_eq!(decoder.handle_combination(0, 1, 7, &[1; 6]), Outcome::Innovative);
        assert_eq!(decoder.handle_combination(1, 1, 7, &[2; 5]), Outcome::Refused);
        assert_eq!(decoder.handle_combination(1, 1, 7, &[2; 4]), Outcome::Innovative);
        assert_eq!(decoder.octets(), 10);
        decoder.forget_before(1);
        assert_eq!(decoder.octets(), 4);
        assert_eq!(decoder.handle_combination(2, 1, 7, &[3; 6]), Outcome::Innovative);
    }
}

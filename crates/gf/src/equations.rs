//! Linear equations between missing sources, from repairs, in reduced form until they can be solved.
//!
//! ```text
//!            missing sources, oldest first
//!            17  21  22  30
//!    row     1   .   5   .   = symbol      reduced row echelon form: the first entry of a row, its
//!    row     .   1   .   9   = symbol      pivot, is 1 and occurs in no other row; a row with no
//!                                          other entry is a source recovered
//! ```

use crate::{accumulate, inverse, multiply, scale};

/// The sum of `coefficient * source` over `entries` is `symbol`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The non-zero coefficients by source number.
    pub entries: Vec<(u64, u8)>,
    /// Their sum.
    pub symbol: Vec<u8>,
}

/// A reduced system of equations.
#[derive(Debug, Default)]
pub struct Equations {
    rows: Vec<Row>,
}

/// Whether an equation was useful.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It adds information.
    Innovative,
    /// It follows from the equations that were there.
    Redundant,
}

impl Equations {
    /// The number of independent equations.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rows.len()
    }

    /// Adds an equation. Sources that it solves are appended to `solved`.
    pub fn insert(&mut self, mut row: Row, solved: &mut Vec<(u64, Vec<u8>)>) -> Outcome {
        for known in &self.rows {
            if let Some(factor) = row.coefficient(known.pivot()) {
                row.add(factor, known);
            }
        }
        let Some(&(pivot, leading)) = row.entries.first() else { return Outcome::Redundant };
        row.multiply(inverse(leading));
        for known in &mut self.rows {
            if let Some(factor) = known.coefficient(pivot) {
                known.add(factor, &row);
            }
        }
        self.rows.push(row);
        self.take_solved(solved);
        Outcome::Innovative
    }

    /// Replaces a source by its symbol, which is now known. Sources that this solves are appended to
    /// `solved`.
    pub fn substitute(&mut self, source: u64, symbol: &[u8], solved: &mut Vec<(u64, Vec<u8>)>) {
        let mut bereft = None;
        for (index, row) in self.rows.iter_mut().enumerate() {
            let Some(factor) = row.coefficient(source) else { continue };
            if row.pivot() == source {
                bereft = Some(index);
            }
            row.entries.retain(|&(number, _)| number != source);
            row.symbol.resize(row.symbol.len().max(symbol.len()), 0);
            accumulate(&mut row.symbol, &[(factor, symbol)]);
        }
        if let Some(index) = bereft {
            let row = self.rows.swap_remove(index);
            self.insert(row, solved);
        }
        self.take_solved(solved);
    }

    /// Drops equations with sources before `number`, which can no longer be recovered.
    pub fn forget_before(&mut self, number: u64) {
        if self.rows.iter().any(|row| row.pivot() < number) {
            self.rows.retain(|row| row.pivot() >= number);
        }
    }

    /// Octets of memory that the equations take.
    pub fn octets(&self) -> usize {
        self.rows.iter().map(Row::octets).sum()
    }

    /// Drops the equation that takes the most memory; the others remain what they are.
    pub fn forget_greatest(&mut self) {
        let greatest = (0..self.rows.len()).max_by_key(|&at| self.rows[at].octets());
        if let Some(at) = greatest {
            self.rows.swap_remove(at);
        }
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.rows.clear();
    }

    fn take_solved(&mut self, solved: &mut Vec<(u64, Vec<u8>)>) {
        let mut index = 0;
        while let Some(row) = self.rows.get(index) {
            if row.entries.len() == 1 {
                let row = self.rows.swap_remove(index);
                solved.push((row.pivot(), row.symbol));
            } else {
                index += 1;
            }
        }
    }
}

impl Row {
    /// The oldest source in it; a row in the system has one.
    fn pivot(&self) -> u64 {
        self.entries.first().map_or(u64::MAX, |&(number, _)| number)
    }

    fn octets(&self) -> usize {
        self.entries.capacity() * size_of::<(u64, u8)>() + self.symbol.capacity()
    }

    fn coefficient(&self, source: u64) -> Option<u8> {
        let place = self.entries.binary_search_by_key(&source, |&(number, _)| number).ok()?;
        Some(self.entries[place].1)
    }

    fn multiply(&mut self, factor: u8) {
        for (_, coefficient) in &mut self.entries {
            *coefficient = multiply(*coefficient, factor);
        }
        scale(&mut self.symbol, factor);
    }

    /// Adds `factor * other`.
    fn add(&mut self, factor: u8, other: &Self) {
        let mut mine = std::mem::take(&mut self.entries).into_iter().peekable();
        let mut theirs = other.entries.iter().copied().peekable();
        while let Some(number) = match (mine.peek(), theirs.peek()) {
            (Some(&(a, _)), Some(&(b, _))) => Some(a.min(b)),
            (Some(&(a, _)), None) => Some(a),
            (None, Some(&(b, _))) => Some(b),
            (None, None) => None,
        } {
            let own = mine.next_if(|&(at, _)| at == number).map_or(0, |(_, value)| value);
            let added = theirs.next_if(|&(at, _)| at == number).map_or(0, |(_, value)| value);
            let sum = own ^ multiply(factor, added);
            if sum != 0 {
                self.entries.push((number, sum));
            }
        }
        self.symbol.resize(self.symbol.len().max(other.symbol.len()), 0);
        accumulate(&mut self.symbol, &[(factor, &other.symbol)]);
    }
}

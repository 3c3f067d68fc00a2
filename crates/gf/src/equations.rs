//! Linear equations between missing sources, from repairs, in reduced form until they can be solved.
//!
//! ```text
//!            missing sources, oldest first
//!            17  21  22  30
//!    row     1   .   5   .   = symbol      reduced row echelon form: the first entry of a row, its
//!    row     .   1   .   9   = symbol      pivot, is 1 and occurs in no other row; a row with no
//!                                          other entry is a source recovered
//! ```
//!
//! Rows are dense: each missing source of the system has a column, so that rows are added by the kernels. The columns
//! are in no order, because a source that leaves the system gives its column to the next one.
//!
//! The sender of repairs decides how much work they make. [`Equations::steps`] counts the work; [`MOST_SOURCES`] and
//! the caller's bound of the rank limit the cost of one repair.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::buffer::LINE;
use crate::{accumulate, inverse, scale};

/// The most sources that a system has at a time; a repair over more is refused.
pub const MOST_SOURCES: usize = 2_048;
/// Steps for looking up and storing one coefficient of a new equation: the octets that the kernels process in about
/// the same time.
const ENTRY: usize = 64;

/// The sum of `coefficient * source` over some sources is `symbol`.
#[derive(Debug)]
struct Row {
    /// By column; zero beyond the end.
    coefficients: Vec<u8>,
    symbol: Vec<u8>,
    /// The row's oldest source, and its column.
    pivot: u64,
    column: usize,
    /// A column besides the pivot's in which the row had an entry when it was last looked through.
    witness: usize,
}

/// A reduced system of equations.
#[derive(Debug, Default)]
pub struct Equations {
    rows: Vec<Row>,
    /// The sources of the system, oldest first, with the column of each.
    columns: Vec<(u64, usize)>,
    /// Columns below `width` without a source, free for new sources.
    unused: BinaryHeap<Reverse<usize>>,
    /// Number of columns, used and unused.
    width: usize,
    steps: u64,
}

/// Whether an equation was useful.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The equation is refused: the system would exceed [`MOST_SOURCES`] sources.
    Full,
    /// The equation adds information.
    Innovative,
    /// The earlier equations already imply the new one.
    Redundant,
}

impl Equations {
    /// The number of independent equations.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rows.len()
    }

    /// The work done so far: octets multiplied and added, and what takes as long.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Adds an equation with these sources, oldest first, each with its coefficient, which is not zero. `symbol` makes
    /// the sum, and is asked only when the equation is innovative. Sources that it solves are appended to `solved`.
    pub fn insert(
        &mut self,
        entries: &[(u64, u8)],
        symbol: impl FnOnce() -> Vec<u8>,
        solved: &mut Vec<(u64, Vec<u8>)>,
    ) -> Outcome {
        self.count(ENTRY * entries.len());
        let placed = self.place(entries).or_else(|| {
            self.sweep();
            self.place(entries)
        });
        let Some(mut coefficients) = placed else { return Outcome::Full };
        // A pivot occurs in its own row alone, so no factor depends on what is added before.
        let factors: Vec<u8> =
            self.rows.iter().map(|row| entry(&coefficients, row.column)).collect();
        let terms = |of: fn(&Row) -> &[u8]| {
            let pairs = factors.iter().copied().zip(self.rows.iter().map(of));
            pairs.filter(|&(factor, _)| factor != 0).collect::<Vec<_>>()
        };
        let known = terms(|row| &row.coefficients);
        let mut steps = add(&mut coefficients, &known);
        if coefficients.iter().all(|&coefficient| coefficient == 0) {
            self.count(steps);
            return Outcome::Redundant;
        }
        let mut symbol = symbol();
        let known = terms(|row| &row.symbol);
        steps += add(&mut symbol, &known);
        self.count(steps);
        self.establish(coefficients, symbol);
        self.take_solved(solved);
        Outcome::Innovative
    }

    /// Replaces a source, known from now on, by its symbol. Sources solved thereby are appended to
    /// `solved`.
    pub fn substitute(&mut self, source: u64, symbol: &[u8], solved: &mut Vec<(u64, Vec<u8>)>) {
        let Some(column) = self.give_back(source) else { return };
        let (mut bereft, mut steps) = (None, 0);
        for (index, row) in self.rows.iter_mut().enumerate() {
            let Some(place) = row.coefficients.get_mut(column) else { continue };
            let factor = std::mem::take(place);
            if factor == 0 {
                continue;
            }
            if row.column == column {
                bereft = Some(index);
            }
            steps += add(&mut row.symbol, &[(factor, symbol)]);
        }
        self.count(steps);
        if let Some(index) = bereft {
            // No pivot of another row occurs in this row, which has a further entry: it would have been solved.
            let Row { coefficients, symbol, .. } = self.rows.swap_remove(index);
            self.establish(coefficients, symbol);
        }
        self.take_solved(solved);
    }

    /// Drops the equations with this source, known from now on, where [`Self::substitute`] would be too much work.
    /// Returns the number of dropped equations.
    pub fn forget(&mut self, source: u64) -> usize {
        let Some(column) = self.give_back(source) else { return 0 };
        let before = self.rows.len();
        self.rows.retain(|row| entry(&row.coefficients, column) == 0);
        self.tidy();
        before - self.rows.len()
    }

    /// Drops equations with sources before `number`, which can no longer be recovered.
    pub fn forget_before(&mut self, number: u64) {
        let count = self.columns.partition_point(|&(source, _)| source < number);
        if count == 0 {
            return;
        }
        self.rows.retain(|row| row.pivot >= number);
        // In the remaining rows the pivot is the oldest source.
        self.unused.extend(self.columns.drain(..count).map(|(_, column)| Reverse(column)));
        self.tidy();
    }

    /// Memory of all equations, in octets.
    pub fn octets(&self) -> usize {
        self.rows.iter().map(Row::octets).sum()
    }

    /// Drops the equation that takes the most memory, and keeps the others unchanged.
    pub fn forget_greatest(&mut self) {
        let greatest = (0..self.rows.len()).max_by_key(|&at| self.rows[at].octets());
        if let Some(at) = greatest {
            self.rows.swap_remove(at);
            self.tidy();
        }
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.tidy();
    }

    fn count(&mut self, steps: usize) {
        self.steps += steps as u64;
    }

    /// The coefficients by column, with columns for new sources; `None` if there are too many.
    fn place(&mut self, entries: &[(u64, u8)]) -> Option<Vec<u8>> {
        let oldest = entries.first().map_or(0, |&(source, _)| source);
        let mut at = self.columns.partition_point(|&(source, _)| source < oldest);
        let (mut placed, mut fresh) = (Vec::with_capacity(entries.len()), Vec::new());
        for &(source, coefficient) in entries {
            while self.columns.get(at).is_some_and(|&(known, _)| known < source) {
                at += 1;
            }
            match self.columns.get(at) {
                Some(&(known, column)) if known == source => placed.push((column, coefficient)),
                Some(_) | None => fresh.push((source, coefficient)),
            }
        }
        if self.columns.len() + fresh.len() > MOST_SOURCES {
            return None;
        }
        let last = self.columns.last().map(|&(source, _)| source);
        let is_behind = fresh.first().map(|&(source, _)| source) > last;
        for &(source, coefficient) in &fresh {
            let column = self.unused.pop().map_or(self.width, |Reverse(column)| column);
            self.width = self.width.max(column + 1);
            self.columns.push((source, column));
            placed.push((column, coefficient));
        }
        if !fresh.is_empty() && !is_behind {
            // Of two ascending runs.
            self.columns.sort();
        }
        let width = placed.iter().map(|&(column, _)| column + 1).max().unwrap_or(0);
        let mut coefficients = vec![0; width.next_multiple_of(LINE)];
        for (column, coefficient) in placed {
            coefficients[column] = coefficient;
        }
        Some(coefficients)
    }

    /// Adds a row in which no pivot of another row occurs, and which is not zero.
    fn establish(&mut self, mut coefficients: Vec<u8>, mut symbol: Vec<u8>) {
        let oldest = self.columns.iter().find(|&&(_, column)| entry(&coefficients, column) != 0);
        let &(pivot, column) = oldest.expect("each entry is of a source of the system");
        let factor = inverse(coefficients[column]);
        scale(&mut coefficients, factor);
        scale(&mut symbol, factor);
        let mut steps = coefficients.len() + symbol.len();
        for known in &mut self.rows {
            let factor = entry(&known.coefficients, column);
            if factor != 0 {
                steps += add(&mut known.coefficients, &[(factor, &coefficients)]);
                steps += add(&mut known.symbol, &[(factor, &symbol)]);
            }
        }
        self.count(steps);
        self.rows.push(Row { coefficients, symbol, pivot, column, witness: column });
    }

    fn take_solved(&mut self, solved: &mut Vec<(u64, Vec<u8>)>) {
        let (mut index, mut steps) = (0, 0);
        while let Some(row) = self.rows.get_mut(index) {
            if row.has_others(&mut steps) {
                index += 1;
                continue;
            }
            let row = self.rows.swap_remove(index);
            // Its pivot occurs in no other row.
            self.give_back(row.pivot);
            solved.push((row.pivot, row.symbol));
        }
        self.count(steps);
        self.tidy();
    }

    /// Takes a source out of the system, and returns the column that it had.
    fn give_back(&mut self, source: u64) -> Option<usize> {
        let at = self.columns.binary_search_by_key(&source, |&(known, _)| known).ok()?;
        let (_, column) = self.columns.remove(at);
        self.unused.push(Reverse(column));
        Some(column)
    }

    /// Gives back the columns of sources that are in no equation any more, because theirs were dropped.
    fn sweep(&mut self) {
        let mut used = vec![0; self.width];
        for row in &self.rows {
            for (used, coefficient) in used.iter_mut().zip(&row.coefficients) {
                *used |= coefficient;
            }
        }
        self.count(self.rows.len() * self.width);
        let unused = &mut self.unused;
        self.columns.retain(|&(_, column)| {
            let is_used = used[column] != 0;
            if !is_used {
                unused.push(Reverse(column));
            }
            is_used
        });
    }

    /// Without equations there is no source in the system.
    fn tidy(&mut self) {
        if self.rows.is_empty() {
            self.columns.clear();
            self.unused.clear();
            self.width = 0;
        }
    }
}

impl Row {
    fn octets(&self) -> usize {
        self.coefficients.capacity() + self.symbol.capacity()
    }

    /// Whether it has more entries than its pivot. The octets looked through are added to `steps`.
    fn has_others(&mut self, steps: &mut usize) -> bool {
        let Self { coefficients, column, witness, .. } = self;
        if witness != column && entry(coefficients, *witness) != 0 {
            return true;
        }
        let others = coefficients.chunks(LINE).enumerate().find_map(|(line, octets)| {
            *steps += LINE;
            if octets.iter().fold(0, |all, octet| all | octet) == 0 {
                return None;
            }
            let at = octets.iter().zip(line * LINE..);
            at.filter(|&(&octet, at)| octet != 0 && at != *column).map(|(_, at)| at).next()
        });
        others.inspect(|&other| *witness = other).is_some()
    }
}

/// The coefficient in a column.
fn entry(coefficients: &[u8], column: usize) -> u8 {
    coefficients.get(column).copied().unwrap_or(0)
}

/// Adds the sum of the terms to `octets`, which become longer if need be; returns how many steps that took.
fn add(octets: &mut Vec<u8>, terms: &[(u8, &[u8])]) -> usize {
    let longest = terms.iter().map(|(_, term)| term.len()).max().unwrap_or(0);
    octets.resize(octets.len().max(longest), 0);
    accumulate(&mut octets[..longest], terms);
    terms.len() * longest
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::coefficients::Coefficients;
    use crate::multiply;

    type Solved = Vec<(u64, Vec<u8>)>;

    /// The same system octet by octet; each row lists its non-zero coefficients.
    #[derive(Default)]
    struct Sparse(Vec<Listed>);

    #[derive(Clone)]
    struct Listed {
        entries: Vec<(u64, u8)>,
        symbol: Vec<u8>,
    }

    impl Listed {
        fn coefficient(&self, source: u64) -> Option<u8> {
            let at = self.entries.binary_search_by_key(&source, |&(number, _)| number).ok()?;
            Some(self.entries[at].1)
        }

        fn pivot(&self) -> u64 {
            self.entries[0].0
        }

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

    impl Sparse {
        fn insert(&mut self, mut row: Listed, solved: &mut Solved) -> Outcome {
            for known in &self.0 {
                if let Some(factor) = row.coefficient(known.pivot()) {
                    row.add(factor, known);
                }
            }
            let Some(&(pivot, leading)) = row.entries.first() else { return Outcome::Redundant };
            let factor = inverse(leading);
            for (_, coefficient) in &mut row.entries {
                *coefficient = multiply(*coefficient, factor);
            }
            scale(&mut row.symbol, factor);
            for known in &mut self.0 {
                if let Some(factor) = known.coefficient(pivot) {
                    known.add(factor, &row);
                }
            }
            self.0.push(row);
            self.take_solved(solved);
            Outcome::Innovative
        }

        fn substitute(&mut self, source: u64, symbol: &[u8], solved: &mut Solved) {
            let mut bereft = None;
            for (index, row) in self.0.iter_mut().enumerate() {
                let Some(factor) = row.coefficient(source) else { continue };
                if row.pivot() == source {
                    bereft = Some(index);
                }
                row.entries.retain(|&(number, _)| number != source);
                row.symbol.resize(row.symbol.len().max(symbol.len()), 0);
                accumulate(&mut row.symbol[..symbol.len()], &[(factor, symbol)]);
            }
            if let Some(index) = bereft {
                let row = self.0.swap_remove(index);
                self.insert(row, solved);
            }
            self.take_solved(solved);
        }

        fn take_solved(&mut self, solved: &mut Solved) {
            while let Some(at) = self.0.iter().position(|row| row.entries.len() == 1) {
                let row = self.0.swap_remove(at);
                solved.push((row.pivot(), row.symbol));
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Change {
        Repair { first: u64, count: u64, seed: u64 },
        Source(u64),
        Forget(u64),
        ForgetBefore(u64),
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let change = prop_oneof![
            12 => (0_u64..90, 1_u64..40, any::<u64>())
                .prop_map(|(first, count, seed)| Change::Repair { first, count, seed }),
            3 => (0_u64..130).prop_map(Change::Source),
            1 => (0_u64..130).prop_map(Change::Forget),
            1 => (0_u64..60).prop_map(Change::ForgetBefore),
        ];
        vec(change, 1..120)
    }

    /// The packet of source `number`; lengths differ between sources.
    fn source(number: u64) -> Vec<u8> {
        let len = usize::try_from(number * 7 % 50).unwrap() + 1;
        Coefficients::of(number + 10_000).take(len).collect()
    }

    proptest! {
        #![proptest_config(harness::cases(if cfg!(miri) { 2 } else { 200 }))]

        #[test]
        fn dense_rows_say_what_lists_of_entries_say(changes in changes(), present: u64) {
            let (mut dense, mut sparse) = (Equations::default(), Sparse::default());
            let mut known: BTreeSet<u64> =
                (0..130).filter(|number| present >> (number % 64) & 1 == 1).collect();
            let mut forgotten = 0;
            for change in changes {
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                match change {
                    Change::Repair { first, count, seed } => {
                        let first = first.max(forgotten);
                        let missing = (first..first + count).zip(Coefficients::of(seed));
                        let entries: Vec<_> =
                            missing.filter(|(number, _)| !known.contains(number)).collect();
                        let mut symbol = vec![0; 50];
                        for &(number, factor) in &entries {
                            let source = source(number);
                            accumulate(&mut symbol[..source.len()], &[(factor, &source)]);
                        }
                        let outcome = dense.insert(&entries, || symbol.clone(), &mut ours);
                        let row = Listed { entries, symbol };
                        prop_assert_eq!(outcome, sparse.insert(row, &mut theirs));
                    }
                    Change::Source(number) => {
                        if known.insert(number) {
                            dense.substitute(number, &source(number), &mut ours);
                            sparse.substitute(number, &source(number), &mut theirs);
                        }
                    }
                    Change::Forget(number) => {
                        if known.insert(number) {
                            let count = sparse.0.len();
                            sparse.0.retain(|row| row.coefficient(number).is_none());
                            prop_assert_eq!(dense.forget(number), count - sparse.0.len());
                        }
                    }
                    Change::ForgetBefore(number) => {
                        forgotten = forgotten.max(number);
                        dense.forget_before(number);
                        let oldest = dense.columns.first().map(|&(source, _)| source);
                        prop_assert!(oldest.is_none_or(|oldest| oldest >= number));
                        sparse.0.retain(|row| row.pivot() >= number);
                    }
                }
                ours.sort();
                theirs.sort();
                prop_assert_eq!(ours.len(), theirs.len());
                for ((number, symbol), (other, _)) in ours.iter().zip(&theirs) {
                    prop_assert_eq!(number, other);
                    let source = source(*number);
                    let (said, padding) = symbol.split_at(source.len());
                    prop_assert_eq!(said, source);
                    prop_assert!(padding.iter().all(|&octet| octet == 0));
                    known.insert(*number);
                }
                prop_assert_eq!(dense.rank(), sparse.0.len());
                check_columns(&dense);
            }
        }
    }

    /// Each column below the width is of one source or unused, and without equations there is none.
    fn check_columns(equations: &Equations) {
        let used = equations.columns.iter().map(|&(_, column)| column);
        let unused = equations.unused.iter().map(|&Reverse(column)| column);
        let mut columns: Vec<usize> = used.chain(unused).collect();
        columns.sort_unstable();
        assert_eq!(columns, (0..equations.width).collect::<Vec<_>>());
        assert!(equations.columns.is_sorted(), "the oldest source first");
        assert!(equations.rank() > 0 || equations.width == 0);
    }

    #[test]
    fn steps_are_the_octets_that_are_multiplied_added_and_looked_through() {
        let mut equations = Equations::default();
        let (mut before, symbol) = (0, vec![7; 10]);
        let mut steps = |equations: &Equations| {
            let steps = equations.steps() - before;
            before = equations.steps();
            usize::try_from(steps).unwrap()
        };
        let insert = |equations: &mut Equations, entries: &[(u64, u8)]| {
            equations.insert(entries, || symbol.clone(), &mut Vec::new())
        };
        // Coefficients take a line, symbols 10 octets.
        let row = LINE + 10;

        insert(&mut equations, &[(1, 1), (2, 1)]);
        assert_eq!(steps(&equations), 2 * ENTRY + row + LINE, "stored, scaled, looked through");
        insert(&mut equations, &[(1, 1), (2, 1)]);
        assert_eq!(steps(&equations), 2 * ENTRY + LINE, "the coefficients alone show it");
        insert(&mut equations, &[(1, 1), (2, 2)]);
        assert_eq!(
            steps(&equations),
            2 * ENTRY + 3 * row + 2 * LINE,
            "added both ways, both solved"
        );
        insert(&mut equations, &[(5, 1), (6, 1)]);
        steps(&equations);
        equations.substitute(5, &[1; 4], &mut Vec::new());
        assert_eq!(steps(&equations), 4 + row + LINE);
        insert(&mut equations, &[(5, 1), (6, 1), (7, 1)]);
        steps(&equations);
        let too_many = over(10, MOST_SOURCES as u64, 1);
        assert_eq!(insert(&mut equations, &too_many), Outcome::Full);
        assert_eq!(steps(&equations), ENTRY * MOST_SOURCES + 3, "three columns of a row swept");
        check_columns(&equations);
    }

    /// The entries of a repair over missing sources.
    fn over(first: u64, count: u64, seed: u64) -> Vec<(u64, u8)> {
        (first..first + count).zip(Coefficients::of(seed)).collect()
    }

    #[test]
    fn a_repair_costs_no_more_than_two_passes_over_the_equations() {
        let (missing, longest) = (1_024, 100);
        let mut equations = Equations::default();
        for seed in 0..700 {
            let (rank, before) = (equations.rank() as u64, equations.steps());
            let first = seed % 900;
            equations.insert(&over(first, missing, seed), || vec![7; longest], &mut Vec::new());
            let row = (MOST_SOURCES + longest) as u64;
            let most = 2 * (rank + 1) * (row + MOST_SOURCES as u64) + ENTRY as u64 * missing;
            let steps = equations.steps() - before;
            assert!(steps <= most, "{steps} at rank {rank}, {most}");
            let least = ENTRY as u64 * missing + longest as u64;
            assert!(steps >= least, "work that does not count has no bound: {steps}, {least}");
        }
        assert_eq!(equations.rank(), 700);
    }

    /// A repair over five sources from `first` on, each one octet.
    fn repair_of_five(equations: &mut Equations, first: u64) -> Vec<(u64, u8)> {
        let entries = over(first, 5, first);
        let mut symbol = [0];
        for &(number, factor) in &entries {
            accumulate(&mut symbol, &[(factor, &octet(number))]);
        }
        equations.insert(&entries, || symbol.to_vec(), &mut Vec::new());
        entries
    }

    fn octet(number: u64) -> [u8; 1] {
        [u8::try_from(number % 251).unwrap()]
    }

    #[test]
    fn sources_of_a_dropped_equation_give_room_and_the_others_are_solved() {
        let mut equations = Equations::default();
        let most = MOST_SOURCES as u64;
        equations.insert(&over(0, most - 5, 1), || vec![7; 3_000], &mut Vec::new());
        let kept = repair_of_five(&mut equations, most);
        equations.forget_greatest();

        let outcome = equations.insert(&over(2 * most, most - 5, 1), || vec![1], &mut Vec::new());
        let mut solved = Vec::new();
        for &(number, _) in &kept[1..] {
            equations.substitute(number, &octet(number), &mut solved);
        }

        assert_eq!(outcome, Outcome::Innovative);
        assert_eq!(solved, [(most, octet(most).to_vec())]);
        check_columns(&equations);
    }

    #[test]
    fn columns_of_solved_sources_are_used_again() {
        let mut equations = Equations::default();
        repair_of_five(&mut equations, 0);

        for first in (1..400).map(|round| round * 5) {
            let mut solved = Vec::new();
            for (number, _) in repair_of_five(&mut equations, first).drain(1..) {
                equations.substitute(number, &octet(number), &mut solved);
            }
            assert_eq!(solved, [(first, octet(first).to_vec())]);
        }

        repair_of_five(&mut equations, 2_000);
        assert!(equations.octets() <= 4 * LINE, "{}", equations.octets());
    }

    #[test]
    fn the_equation_that_takes_the_most_memory_is_dropped_first() {
        let mut equations = Equations::default();
        for (first, longest) in [(0, 100), (10, 3_000), (20, 100)] {
            equations.insert(&over(first, 10, first), || vec![7; longest], &mut Vec::new());
        }
        assert!(equations.octets() >= 3_200, "{}", equations.octets());

        equations.forget_greatest();

        assert_eq!(equations.rank(), 2);
        assert!((200..3_000).contains(&equations.octets()), "{}", equations.octets());
        equations.forget_greatest();
        equations.forget_greatest();
        check_columns(&equations);
    }

    #[test]
    fn a_system_of_too_many_sources_takes_no_more() {
        let mut equations = Equations::default();
        let most = MOST_SOURCES as u64;
        let mut insert = |first, count| {
            equations.insert(&over(first, count, first), || vec![1], &mut Vec::new())
        };

        assert_eq!(insert(0, most / 2), Outcome::Innovative);
        assert_eq!(insert(most / 2, most / 2), Outcome::Innovative);
        assert_eq!(insert(most - 1, 2), Outcome::Full);
        assert_eq!(insert(most - 1, 1), Outcome::Innovative);
        equations.forget_before(1);
        assert_eq!(
            equations.insert(&over(most, 1_000, 1), || vec![1], &mut Vec::new()),
            Outcome::Innovative
        );
        equations.clear();
        assert_eq!((equations.rank(), equations.octets()), (0, 0));
        check_columns(&equations);
        assert_eq!(
            equations.insert(&over(0, most, 1), || vec![1], &mut Vec::new()),
            Outcome::Innovative
        );
    }
}

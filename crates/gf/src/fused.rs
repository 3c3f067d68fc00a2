//! The loops: many sources into one or several outputs that stay in registers.
//!
//! ```text
//!               columns ──▶
//!            ┌────┬────┬────┬─┐      A tile is as many outputs (rows) and vectors as fit the
//! ```
//!   outputs  │tile│    │    │ │      registers. All sources are added to it, two at a time, and
//! ```text
//!            ├────┼────┼────┼─┤      then it is written. So an output is written once, and a
//!            │    │    │    │ │      vector that was loaded is used for all rows of the tile.
//!            └────┴────┴────┴─┘
//! ```
#![expect(unsafe_code, reason = "loads and stores of vectors by pointers into checked slices")]

use crate::field::inverse;
use crate::lanes::Lanes;
use crate::terms::Terms;
use crate::work::Multiplied;

/// Sets `outs` to the sums, or adds those to them.
///
/// All `outs` are equally long, and no source is longer.
#[inline(always)]
pub(crate) fn combine<L: Lanes, T: Terms>(
    lanes: L,
    outs: &mut [&mut [u8]],
    terms: T,
    is_added: bool,
) {
    let Some(len) = outs.first().map(|out| out.len()) else { return };
    assert!(outs.iter().all(|out| out.len() == len), "outputs are equally long");
    let mut common = len;
    for index in 0..terms.count() {
        common = common.min(terms.source(index).len());
        assert!(terms.source(index).len() <= len, "no source is longer than an output");
    }
    let mut pass = Pass { lanes, outs, terms, is_added, len, common };

    let mut row = 0;
    while row < pass.outs.len() {
        let left = pass.outs.len() - row;
        row += match (left, L::HAS_32_REGISTERS) {
            (8.., true) => pass.rows::<8, 2, 1>(row),
            (4.., true) => pass.rows::<4, 4, 1>(row),
            (2.., true) => pass.rows::<2, 8, 2>(row),
            (_, true) => pass.rows::<1, 16, 4>(row),
            (4.., false) => pass.rows::<4, 2, 1>(row),
            (2.., false) => pass.rows::<2, 4, 1>(row),
            (_, false) => pass.rows::<1, 8, 2>(row),
        };
    }
}

/// Multiplies all of `octets` by `factor`.
#[inline(always)]
pub(crate) fn scale<L: Lanes>(lanes: L, octets: &mut [u8], factor: u8) {
    let factor = lanes.factor(factor);
    for chunk in octets.chunks_mut(L::WIDTH) {
        // SAFETY: as many octets as the chunk has are read and written.
        unsafe {
            let vector = lanes.load_up_to(chunk.as_ptr(), chunk.len());
            let product = lanes.product(lanes.split(vector), factor);
            lanes.store_up_to(chunk.as_mut_ptr(), chunk.len(), product);
        }
    }
}

/// A step of inverting in place: see [`Eliminate`](crate::work::Eliminate).
#[inline(always)]
pub(crate) fn eliminate<L: Lanes>(lanes: L, matrix: &mut [u8], stride: usize, pivot: usize) {
    assert!(stride.is_multiple_of(L::WIDTH), "a row is a number of whole vectors");
    let (before, rest) = matrix.split_at_mut(pivot * stride);
    let (pivot_row, after) = rest.split_at_mut(stride);
    let reciprocal = inverse(pivot_row[pivot]);
    pivot_row[pivot] = 1;
    scale(lanes, pivot_row, reciprocal);
    // Added `factor` times to the `factor` of another row, this leaves `factor * reciprocal` there.
    pivot_row[pivot] = reciprocal ^ 1;
    for row in before.chunks_exact_mut(stride).chain(after.chunks_exact_mut(stride)) {
        let factor = lanes.factor(row[pivot]);
        for at in (0..stride).step_by(L::WIDTH) {
            let row = row[at..][..L::WIDTH].as_mut_ptr();
            let pivot_row = pivot_row[at..][..L::WIDTH].as_ptr();
            // SAFETY: there is a vector at both.
            unsafe {
                let product = lanes.product(lanes.split(lanes.load(pivot_row)), factor);
                lanes.store(row, lanes.xor(lanes.load(row), product));
            }
        }
    }
    pivot_row[pivot] = reciprocal;
}

/// Multiplies some vectors that stay in registers, `rounds` times: as fast as products can be had.
#[inline(always)]
pub(crate) fn multiply_in_registers<L: Lanes>(lanes: L, rounds: u64, done: &mut Multiplied) {
    /// More than an instruction takes cycles, fewer than there are registers.
    const VECTORS: usize = 12;
    let seed: [u8; 64] = std::array::from_fn(|octet| octet.to_le_bytes()[0] + 1);
    let factor = lanes.factor(std::hint::black_box(0x53));
    // SAFETY: no vector is longer.
    let mut vectors = [unsafe { lanes.load(seed.as_ptr()) }; VECTORS];
    for _ in 0..rounds {
        for vector in &mut vectors {
            *vector = lanes.product(lanes.split(*vector), factor);
        }
    }

    let mut sum = lanes.zero();
    for vector in vectors {
        sum = lanes.xor(sum, vector);
    }
    done.octets += rounds * (VECTORS * L::WIDTH) as u64;
    done.sum.resize(L::WIDTH, 0);
    // SAFETY: it was just made as long.
    unsafe { lanes.store(done.sum.as_mut_ptr(), sum) };
}

struct Pass<'a, 'b, L, T> {
    lanes: L,
    outs: &'a mut [&'b mut [u8]],
    terms: T,
    is_added: bool,
    /// Of every output.
    len: usize,
    /// Of the shortest source.
    common: usize,
}

impl<L: Lanes, T: Terms> Pass<'_, '_, L, T> {
    /// Does `R` outputs from `row` on, in tiles of `V` vectors and then of `W`; returns `R`.
    #[inline(always)]
    fn rows<const R: usize, const V: usize, const W: usize>(&mut self, row: usize) -> usize {
        let mut at = 0;
        while at + V * L::WIDTH <= self.common {
            self.tile::<R, V, false>(row, at);
            at += V * L::WIDTH;
        }
        while at + V * L::WIDTH <= self.len {
            self.tile::<R, V, true>(row, at);
            at += V * L::WIDTH;
        }
        while at < self.len {
            self.tile::<R, W, true>(row, at);
            at += W * L::WIDTH;
        }
        R
    }

    /// Does `V` vectors from octet `at` on. If not `RAGGED`, all sources and outputs have them.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "all loops over a tile are alike, and unrolled")]
    fn tile<const R: usize, const V: usize, const RAGGED: bool>(&mut self, row: usize, at: usize) {
        let Self { lanes, terms, .. } = *self;
        let mut sums = [[lanes.zero(); V]; R];
        if self.is_added {
            for r in 0..R {
                for v in 0..V {
                    sums[r][v] = self.load::<RAGGED>(self.outs[row + r], at + v * L::WIDTH);
                }
            }
        }

        let mut index = 0;
        while index + 2 <= terms.count() {
            let (a, b) = (terms.source(index), terms.source(index + 1));
            let mut splits = [[lanes.split(lanes.zero()); V]; 2];
            for v in 0..V {
                splits[0][v] = lanes.split(self.load::<RAGGED>(a, at + v * L::WIDTH));
                splits[1][v] = lanes.split(self.load::<RAGGED>(b, at + v * L::WIDTH));
            }
            for r in 0..R {
                let a = lanes.factor(terms.factor(row + r, index));
                let b = lanes.factor(terms.factor(row + r, index + 1));
                for v in 0..V {
                    let products = (lanes.product(splits[0][v], a), lanes.product(splits[1][v], b));
                    sums[r][v] = lanes.xor3(sums[r][v], products.0, products.1);
                }
            }
            index += 2;
        }
        if index < terms.count() {
            let source = terms.source(index);
            let mut splits = [lanes.split(lanes.zero()); V];
            for v in 0..V {
                splits[v] = lanes.split(self.load::<RAGGED>(source, at + v * L::WIDTH));
            }
            for r in 0..R {
                let factor = lanes.factor(terms.factor(row + r, index));
                for v in 0..V {
                    sums[r][v] = lanes.xor(sums[r][v], lanes.product(splits[v], factor));
                }
            }
        }

        for r in 0..R {
            for v in 0..V {
                let at = at + v * L::WIDTH;
                let out = &mut self.outs[row + r];
                let left = out.len().saturating_sub(at);
                let to = out.as_mut_ptr().wrapping_add(at);
                if RAGGED {
                    // SAFETY: `left` octets follow.
                    unsafe { lanes.store_up_to(to, left, sums[r][v]) }
                } else {
                    debug_assert!(left >= L::WIDTH);
                    // SAFETY: `rows` checked that the output reaches so far.
                    unsafe { lanes.store(to, sums[r][v]) }
                }
            }
        }
    }

    /// The vector at octet `at`; with `RAGGED`, zeros for what is not there.
    #[inline(always)]
    fn load<const RAGGED: bool>(&self, octets: &[u8], at: usize) -> L::Vector {
        let left = octets.len().saturating_sub(at);
        let from = octets.as_ptr().wrapping_add(at);
        if RAGGED {
            // SAFETY: `left` octets follow.
            unsafe { self.lanes.load_up_to(from, left) }
        } else {
            debug_assert!(left >= L::WIDTH);
            // SAFETY: `rows` checked that all sources and outputs reach so far.
            unsafe { self.lanes.load(from) }
        }
    }
}

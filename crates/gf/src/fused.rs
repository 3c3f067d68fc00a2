//! The loops: many sources into one or several outputs that stay in registers.
//!
//! ```text
//!               columns ──▶
//!            ┌────┬────┬────┬─┐      A tile is as many outputs (rows) and vectors as fit the
//!   outputs  │tile│    │    │ │      registers. All sources are added to it, two at a time, and
//!            ├────┼────┼────┼─┤      then it is written. So an output is written once, and a
//!            │    │    │    │ │      vector that was loaded is used for all rows of the tile.
//!            └────┴────┴────┴─┘
//! ```
#![expect(unsafe_code, reason = "loads and stores of vectors by pointers into checked slices")]

use crate::buffer::LINE;
use crate::field::inverse;
use crate::lanes::Lanes;
use crate::operands::{Multiplied, Singular, System};
use crate::terms::Terms;

/// Sets `outs` to the sums, or adds the sums to `outs`.
///
/// All `outs` are equally long, and no source is longer.
#[inline(always)]
pub fn combine<L: Lanes, T: Terms>(lanes: L, outs: &mut [&mut [u8]], terms: T, is_added: bool) {
    let Some(len) = outs.first().map(|out| out.len()) else { return };
    assert!(outs.iter().all(|out| out.len() == len), "outputs are equally long");
    assert!(outs.len() <= terms.rows(), "factors for each output");
    let mut common = len;
    for source in terms.sources() {
        common = common.min(source.len());
        assert!(source.len() <= len, "no source is longer than an output");
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
pub fn scale<L: Lanes>(lanes: L, octets: &mut [u8], factor: u8) {
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

/// Inverts in place: see [`Invert`](crate::work::Invert).
#[inline(always)]
pub fn invert<L: Lanes>(lanes: L, system: System<'_>) -> Result<(), Singular> {
    let System { matrix, stride, order } = system;
    let rows = order.len();
    assert!(
        stride.is_multiple_of(LINE) && rows <= stride,
        "whole vectors in a row, a square in all"
    );
    assert!(matrix.len() == rows * stride, "as many rows as equations");
    for pivot in 0..rows {
        let row = (pivot..rows).find(|row| matrix[row * stride + pivot] != 0);
        let row = row.ok_or(Singular { unknown: pivot })?;
        if row != pivot {
            let (upper, lower) = matrix.split_at_mut(row * stride);
            upper[pivot * stride..][..stride].swap_with_slice(&mut lower[..stride]);
            order.swap(pivot, row);
        }

        let reciprocal = lanes.factor(inverse(matrix[pivot * stride + pivot]));
        // The factors are in the vector with the pivot: that one comes last.
        let last = pivot / L::WIDTH * L::WIDTH;
        let mut at = 0;
        while at < stride {
            if at != last {
                column(lanes, matrix, stride, pivot, at, reciprocal, lanes.zero());
            }
            at += L::WIDTH;
        }
        let from = UNIT[UNIT.len() / 2 - pivot % L::WIDTH..][..L::WIDTH].as_ptr();
        // SAFETY: there are as many octets.
        let unit = unsafe { lanes.load(from) };
        column(lanes, matrix, stride, pivot, last, reciprocal, unit);
    }
    Ok(())
}

/// A 1 in the middle of zeros.
static UNIT: [u8; 2 * LINE - 1] = {
    let mut unit = [0; 2 * LINE - 1];
    unit[LINE - 1] = 1;
    unit
};

/// Eliminates with the pivot's row in the vectors at octet `at` of all rows.
///
/// `unit` has a 1 at the pivot, if the pivot is in this vector. Then the added row has
/// `reciprocal + 1` in the pivot's column, which turns each `factor` there into
/// `factor * reciprocal`: the column of the inverse.
#[inline(always)]
fn column<L: Lanes>(
    lanes: L,
    matrix: &mut [u8],
    stride: usize,
    pivot: usize,
    at: usize,
    reciprocal: L::Factor,
    unit: L::Vector,
) {
    let rows = matrix.len() / stride;
    assert!(pivot < rows && pivot < stride && at + L::WIDTH <= stride, "within the matrix");
    let start = matrix.as_mut_ptr();
    // SAFETY: the pivot's row has a vector at `at`.
    let pivot_row = unsafe { lanes.load(start.add(pivot * stride + at)) };
    let added = lanes.product(lanes.split(lanes.xor(pivot_row, unit)), reciprocal);
    let split = lanes.split(added);
    for row in 0..rows {
        // SAFETY: every row has a vector at `at` and an octet at `pivot`.
        unsafe {
            let to = start.add(row * stride + at);
            let factor = lanes.factor(*start.add(row * stride + pivot));
            lanes.store(to, lanes.xor(lanes.load(to), lanes.product(split, factor)));
        }
    }
    // SAFETY: as above.
    unsafe { lanes.store(start.add(pivot * stride + at), lanes.xor(added, unit)) };
}

/// Multiplies some vectors `rounds` times within registers, as fast as the processor can.
#[inline(always)]
pub fn multiply_in_registers<L: Lanes>(lanes: L, rounds: u64, done: &mut Multiplied) {
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
    // SAFETY: `done.sum` was just resized to one vector.
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
        while L::HAS_32_REGISTERS && index + 2 <= terms.count() {
            // SAFETY: both are below the count.
            let (a, b) = unsafe { (terms.source(index), terms.source(index + 1)) };
            let mut splits = [[lanes.split(lanes.zero()); V]; 2];
            for v in 0..V {
                splits[0][v] = lanes.split(self.load::<RAGGED>(a, at + v * L::WIDTH));
                splits[1][v] = lanes.split(self.load::<RAGGED>(b, at + v * L::WIDTH));
            }
            for r in 0..R {
                // SAFETY: both are below the count, and there are factors for all outputs.
                let factors =
                    unsafe { (terms.factor(row + r, index), terms.factor(row + r, index + 1)) };
                let (a, b) = (lanes.factor(factors.0), lanes.factor(factors.1));
                for v in 0..V {
                    let products = (lanes.product(splits[0][v], a), lanes.product(splits[1][v], b));
                    sums[r][v] = lanes.xor3(sums[r][v], products.0, products.1);
                }
            }
            index += 2;
        }
        while index < terms.count() {
            // SAFETY: it is below the count.
            let source = unsafe { terms.source(index) };
            let mut splits = [lanes.split(lanes.zero()); V];
            for v in 0..V {
                splits[v] = lanes.split(self.load::<RAGGED>(source, at + v * L::WIDTH));
            }
            for r in 0..R {
                // SAFETY: it is below the count, and there are factors for all outputs.
                let factor = lanes.factor(unsafe { terms.factor(row + r, index) });
                for v in 0..V {
                    sums[r][v] = lanes.xor(sums[r][v], lanes.product(splits[v], factor));
                }
            }
            index += 1;
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
                    // SAFETY: `rows` checked the output's length.
                    unsafe { lanes.store(to, sums[r][v]) }
                }
            }
        }
    }

    /// The vector at octet `at`; with `RAGGED`, padded with zeros beyond the end of `octets`.
    #[inline(always)]
    fn load<const RAGGED: bool>(&self, octets: &[u8], at: usize) -> L::Vector {
        let left = octets.len().saturating_sub(at);
        let from = octets.as_ptr().wrapping_add(at);
        if RAGGED {
            // SAFETY: `left` octets follow.
            unsafe { self.lanes.load_up_to(from, left) }
        } else {
            debug_assert!(left >= L::WIDTH);
            // SAFETY: `rows` checked the lengths of all sources and outputs.
            unsafe { self.lanes.load(from) }
        }
    }
}

//! Small systems of equations, solved for packets.
//!
//! ```text
//!     for each repair i:   sums[i] = sum of a[i][j] * unknown[j] + sum of b[i][k] * known[k]
//!
//!     [ A | B ]  ──▶  [ A⁻¹ | A⁻¹ B ]      a row operation for each entry, on rows this long;
//!                                          then one pass over all packets.
//! ```

use crate::buffer::LINE;
use crate::operands::{Singular, System};
use crate::terms::Solved;
use crate::work::{Combine, Invert};
use crate::{Buffer, Kernel};

/// Recovers unknown packets from an equal number of sums of packets.
///
/// The solver keeps its memory from one system to the next.
#[derive(Clone, Debug)]
pub struct Solver {
    kernel: Kernel,
    unknowns: usize,
    known: usize,
    /// The equations, row by row, each followed by zeros up to `stride`.
    rows: Buffer,
    stride: usize,
    /// The equation from which each row of `rows` was made.
    order: Vec<usize>,
}

impl Default for Solver {
    fn default() -> Self {
        Self::new()
    }
}

impl Solver {
    /// A solver without a system.
    #[must_use]
    pub fn new() -> Self {
        Self::with_kernel(Kernel::best())
    }

    /// A solver that computes with `kernel`.
    #[must_use]
    pub fn with_kernel(kernel: Kernel) -> Self {
        let (rows, order) = (Buffer::new(), Vec::new());
        Self { kernel, unknowns: 0, known: 0, rows, stride: 0, order }
    }

    /// Starts a system of `unknowns` equations for as many unknown packets, with `known` known
    /// packets. All coefficients are 0.
    pub fn reset(&mut self, unknowns: usize, known: usize) {
        (self.unknowns, self.known) = (unknowns, known);
        self.stride = (unknowns + known).max(1).next_multiple_of(LINE);
        self.rows.clear();
        self.rows.resize(unknowns * self.stride);
        self.order.clear();
        self.order.extend(0..unknowns);
    }

    /// The coefficients of an equation: first of the unknown packets, then of the known packets.
    ///
    /// # Panics
    /// When the system has no equation `equation`.
    pub fn equation_mut(&mut self, equation: usize) -> &mut [u8] {
        assert!(equation < self.unknowns, "equation {equation} of {}", self.unknowns);
        &mut self.rows[equation * self.stride..][..self.unknowns + self.known]
    }

    /// Solves the system. This uses up the equations: [`Solver::reset`] begins the next system.
    ///
    /// # Errors
    /// When there is no single solution.
    pub fn solve(&mut self) -> Result<Solution<'_>, Singular> {
        let mut outcome = Ok(());
        let Self { rows, stride, order, .. } = self;
        let system = System { matrix: rows, stride: *stride, order };
        self.kernel.run(Invert { system, outcome: &mut outcome });
        outcome?;
        Ok(Solution { solver: self })
    }
}

/// A solved system, from which the unknown packets can be computed.
#[derive(Clone, Copy, Debug)]
pub struct Solution<'a> {
    solver: &'a Solver,
}

impl Solution<'_> {
    /// Sets `outs` to the unknown packets in order, from the sum of each equation and the known
    /// packets. One pass computes all packets; shorter packets count as zero padded.
    ///
    /// # Panics
    /// When there are more or fewer packets than the system has, when `outs` differ in length, or when
    /// a source is longer.
    pub fn recover(&self, outs: &mut [&mut [u8]], sums: &[&[u8]], known: &[&[u8]]) {
        let Solver { kernel, stride, .. } = *self.solver;
        assert_eq!(outs.len(), self.solver.unknowns, "an output for each unknown packet");
        assert_eq!(sums.len(), self.solver.unknowns, "a sum for each equation");
        assert_eq!(known.len(), self.solver.known, "all of the known packets");
        let (matrix, order) = (&self.solver.rows[..], &self.solver.order[..]);
        kernel.run(Combine {
            outs,
            terms: Solved::new(matrix, stride, order, sums, known),
            is_added: false,
        });
    }

    /// The coefficient of the sum of `equation` in the unknown packet `unknown`: an entry of the
    /// inverse matrix.
    ///
    /// # Panics
    /// When the system has no equation `equation`, or no packet `unknown`.
    #[must_use]
    pub fn inverse(&self, unknown: usize, equation: usize) -> u8 {
        let Solver { unknowns, stride, rows, order, .. } = self.solver;
        assert!(unknown < *unknowns, "packet {unknown} of {unknowns}");
        let column =
            order.iter().position(|&at| at == equation).expect("an equation of the system");
        rows[unknown * stride + column]
    }
}

//! What a kernel can be asked to do.

use crate::fused;
use crate::lanes::Lanes;
use crate::lanes::xor::Xor;
use crate::operands::{Multiplied, Singular, System};
use crate::portable;
use crate::terms::Terms;

/// A task that can be done with any vectors, or without.
pub(crate) trait Work {
    /// Does it with `lanes`; inlined into a function that enables the instructions.
    fn run<L: Lanes>(self, lanes: L);
    /// Does it in portable code.
    fn run_portably(self);
}

/// Sets outputs to sums, or adds the sums to the outputs.
pub struct Combine<'a, 'b, T> {
    pub(crate) outs: &'a mut [&'b mut [u8]],
    pub(crate) terms: T,
    pub(crate) is_added: bool,
}

impl<T: Terms> Work for Combine<'_, '_, T> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        fused::combine(lanes, self.outs, self.terms, self.is_added);
    }

    fn run_portably(self) {
        portable::combine(self.outs, self.terms, self.is_added);
    }
}

/// Sets an output to the sum of the sources, whatever their factors.
pub struct Sum<'a, 'b, T> {
    pub(crate) out: &'a mut &'b mut [u8],
    pub(crate) terms: T,
}

impl<T: Terms> Work for Sum<'_, '_, T> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        fused::combine(Xor(lanes), std::slice::from_mut(self.out), self.terms, false);
    }

    fn run_portably(self) {
        portable::sum(self.out, self.terms);
    }
}

/// Multiplies octets by a factor.
pub struct Scale<'a> {
    pub(crate) octets: &'a mut [u8],
    pub(crate) factor: u8,
}

impl Work for Scale<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        fused::scale(lanes, self.octets, self.factor);
    }

    fn run_portably(self) {
        portable::scale(self.octets, self.factor);
    }
}

/// Inverts the square at the left of a matrix in place, and multiplies the columns to its right by
/// the inverse.
///
/// For each pivot, on the diagonal: the pivot's row is divided by the pivot, and a multiple is
/// subtracted from every other row so that the pivot's column becomes 0. The freed column then
/// records these operations, as a column of the inverse.
pub struct Invert<'a> {
    pub(crate) system: System<'a>,
    pub(crate) outcome: &'a mut Result<(), Singular>,
}

impl Work for Invert<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        *self.outcome = fused::invert(lanes, self.system);
    }

    fn run_portably(self) {
        *self.outcome = portable::invert(self.system);
    }
}

/// Multiplies octets that stay in registers, `rounds` times.
pub struct Multiply<'a> {
    pub(crate) rounds: u64,
    pub(crate) out: &'a mut Multiplied,
}

impl Work for Multiply<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        fused::multiply_in_registers(lanes, self.rounds, self.out);
    }

    fn run_portably(self) {
        portable::multiply_in_registers(self.rounds, self.out);
    }
}

//! Measures the limits of this machine, for benchmarks to compare with.

use crate::Kernel;
use crate::operands::Multiplied;
use crate::terms::Single;
use crate::work::{Multiply, Sum};

impl Kernel {
    /// Sets `out` to the sum of the sources, ignoring the coefficients: the loops of
    /// [`Kernel::combine`] without the multiplications, so the limit of memory.
    ///
    /// # Panics
    /// When a source is longer than `out`.
    pub fn sum_sources(self, mut out: &mut [u8], terms: &[(u8, &[u8])]) {
        self.run(Sum { out: &mut out, terms: Single(terms) });
    }

    /// Whether the processor multiplies by an instruction, and not by looking products up. Only then
    /// does [`Kernel::multiply_in_registers`] tell a limit.
    #[must_use]
    pub fn has_multiplication(self) -> bool {
        self.name().ends_with("gfni")
    }

    /// Multiplies some hundreds of octets within registers, `rounds` times, and returns the number
    /// of multiplied octets: their rate is the limit of the multiplying instructions.
    #[must_use]
    pub fn multiply_in_registers(self, rounds: u64) -> u64 {
        let mut done = Multiplied::default();
        self.run(Multiply { rounds, out: &mut done });
        std::hint::black_box(&done.sum);
        done.octets
    }
}

//! What this machine allows, for benchmarks to compare with.

use crate::Kernel;
use crate::operands::Multiplied;
use crate::terms::Single;
use crate::work::{Multiply, Sum};

impl Kernel {
    /// Sets `out` to the sum of the sources, ignoring the coefficients: the loops of
    /// [`Kernel::combine`] without the multiplications, so what memory allows.
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

    /// Multiplies octets that stay in registers, `rounds` times some hundreds of them, and returns
    /// how many: the rate is what the multiplying instructions allow.
    #[must_use]
    pub fn multiply_in_registers(self, rounds: u64) -> u64 {
        let mut done = Multiplied::default();
        self.run(Multiply { rounds, out: &mut done });
        std::hint::black_box(&done.sum);
        done.octets
    }
}

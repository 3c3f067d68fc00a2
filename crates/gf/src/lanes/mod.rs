//! What a kernel needs of a machine's vectors; the loops over them are written once, in `fused`.

#![expect(unsafe_code, reason = "loads and stores by pointers")]

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod gfni;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
#[cfg(target_arch = "x86_64")]
pub mod ssse3;
pub mod xor;

/// Vectors of octets. A value of an implementing type is the proof that the processor has the
/// instructions: it is made only by a `detect` that asked. So all but the pointers is safe.
///
/// All methods are inlined into a function that enables the instructions.
pub(crate) trait Lanes: Copy {
    /// Octets in a vector.
    const WIDTH: usize;
    /// Whether there are 32 registers, not 16.
    const HAS_32_REGISTERS: bool;

    /// Octets.
    type Vector: Copy;
    /// Octets made ready to be multiplied, by any number of factors.
    type Split: Copy;
    /// A factor made ready.
    type Factor: Copy;

    fn zero(self) -> Self::Vector;
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn xor3(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    fn split(self, vector: Self::Vector) -> Self::Split;
    fn factor(self, factor: u8) -> Self::Factor;
    fn product(self, split: Self::Split, factor: Self::Factor) -> Self::Vector;

    /// The vector at `from`.
    ///
    /// # Safety
    /// So many octets can be read there.
    unsafe fn load(self, from: *const u8) -> Self::Vector;

    /// The octets at `from`, `len` or a whole vector of them, and zeros behind.
    ///
    /// # Safety
    /// `len` octets, or a vector if that is less, can be read there.
    unsafe fn load_up_to(self, from: *const u8, len: usize) -> Self::Vector;

    /// # Safety
    /// So many octets can be written there.
    unsafe fn store(self, to: *mut u8, vector: Self::Vector);

    /// Writes the first `len` octets of `vector`, or all of them.
    ///
    /// # Safety
    /// `len` octets, or a vector if that is less, can be written there.
    unsafe fn store_up_to(self, to: *mut u8, len: usize, vector: Self::Vector);
}

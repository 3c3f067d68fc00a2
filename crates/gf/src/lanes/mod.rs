//! The vector operations of each machine; the loops over vectors are written once, in `fused`.

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

use std::ptr;

use crate::buffer::LINE;

/// Vectors of octets. A value of an implementing type is the proof that the processor has the
/// instructions: only `detect` makes one, after asking the processor. So everything except the
/// pointers is safe.
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

    #[inline(always)]
    fn xor3(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        self.xor(self.xor(a, b), c)
    }

    fn split(self, vector: Self::Vector) -> Self::Split;
    fn factor(self, factor: u8) -> Self::Factor;
    fn product(self, split: Self::Split, factor: Self::Factor) -> Self::Vector;

    /// The vector at `from`.
    ///
    /// # Safety
    /// A whole vector can be read at `from`.
    unsafe fn load(self, from: *const u8) -> Self::Vector;

    /// The octets at `from`, `len` or a whole vector of them, and zeros behind.
    ///
    /// # Safety
    /// `len` octets, or a vector if that is less, can be read there.
    #[inline(always)]
    unsafe fn load_up_to(self, from: *const u8, len: usize) -> Self::Vector {
        const { assert!(Self::WIDTH <= LINE) };
        if len >= Self::WIDTH {
            // SAFETY: the caller's.
            return unsafe { self.load(from) };
        }
        let mut octets = [0_u8; LINE];
        // SAFETY: the caller proves that `len` octets can be read; the buffer fits a vector.
        unsafe {
            ptr::copy_nonoverlapping(from, octets.as_mut_ptr(), len);
            self.load(octets.as_ptr())
        }
    }

    /// # Safety
    /// A whole vector can be written at `to`.
    unsafe fn store(self, to: *mut u8, vector: Self::Vector);

    /// Writes the first `len` octets of `vector`, at most the whole vector.
    ///
    /// # Safety
    /// `len` octets, or a vector if that is less, can be written there.
    #[inline(always)]
    unsafe fn store_up_to(self, to: *mut u8, len: usize, vector: Self::Vector) {
        const { assert!(Self::WIDTH <= LINE) };
        if len >= Self::WIDTH {
            // SAFETY: the caller's.
            return unsafe { self.store(to, vector) };
        }
        let mut octets = [0_u8; LINE];
        // SAFETY: the caller proves that `len` octets can be written; the buffer fits a vector.
        unsafe {
            self.store(octets.as_mut_ptr(), vector);
            ptr::copy_nonoverlapping(octets.as_ptr(), to, len);
        }
    }
}

/// The vectors of the lanes in field 0, of type `$within`.
macro_rules! vectors_of {
    ($within:ty) => {
        const WIDTH: usize = <$within as Lanes>::WIDTH;
        const HAS_32_REGISTERS: bool = <$within as Lanes>::HAS_32_REGISTERS;
        type Vector = <$within as Lanes>::Vector;

        #[inline(always)]
        fn zero(self) -> Self::Vector {
            self.0.zero()
        }

        #[inline(always)]
        fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
            self.0.xor(a, b)
        }

        #[inline(always)]
        fn xor3(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
            self.0.xor3(a, b, c)
        }

        #[inline(always)]
        unsafe fn load(self, from: *const u8) -> Self::Vector {
            // SAFETY: the caller's.
            unsafe { self.0.load(from) }
        }

        #[inline(always)]
        unsafe fn load_up_to(self, from: *const u8, len: usize) -> Self::Vector {
            // SAFETY: the caller's.
            unsafe { self.0.load_up_to(from, len) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8, vector: Self::Vector) {
            // SAFETY: the caller's.
            unsafe { self.0.store(to, vector) }
        }

        #[inline(always)]
        unsafe fn store_up_to(self, to: *mut u8, len: usize, vector: Self::Vector) {
            // SAFETY: the caller's.
            unsafe { self.0.store_up_to(to, len, vector) }
        }
    };
}
pub(crate) use vectors_of;

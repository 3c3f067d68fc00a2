//! Addition alone, in the same loops: what the memory allows.
#![expect(unsafe_code, reason = "it passes pointers on")]

use super::Lanes;

/// The lanes `L`, but every product is with 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Xor<L>(pub(crate) L);

impl<L: Lanes> Lanes for Xor<L> {
    const WIDTH: usize = L::WIDTH;
    const HAS_32_REGISTERS: bool = L::HAS_32_REGISTERS;
    type Vector = L::Vector;
    type Split = L::Vector;
    type Factor = ();

    #[inline(always)]
    fn zero(self) -> L::Vector {
        self.0.zero()
    }

    #[inline(always)]
    fn xor(self, a: L::Vector, b: L::Vector) -> L::Vector {
        self.0.xor(a, b)
    }

    #[inline(always)]
    fn xor3(self, a: L::Vector, b: L::Vector, c: L::Vector) -> L::Vector {
        self.0.xor3(a, b, c)
    }

    #[inline(always)]
    fn split(self, vector: L::Vector) -> L::Vector {
        vector
    }

    #[inline(always)]
    fn factor(self, _: u8) {}

    #[inline(always)]
    fn product(self, split: L::Vector, (): ()) -> L::Vector {
        split
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> L::Vector {
        // SAFETY: the caller's.
        unsafe { self.0.load(from) }
    }

    #[inline(always)]
    unsafe fn load_up_to(self, from: *const u8, len: usize) -> L::Vector {
        // SAFETY: the caller's.
        unsafe { self.0.load_up_to(from, len) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8, vector: L::Vector) {
        // SAFETY: the caller's.
        unsafe { self.0.store(to, vector) }
    }

    #[inline(always)]
    unsafe fn store_up_to(self, to: *mut u8, len: usize, vector: L::Vector) {
        // SAFETY: the caller's.
        unsafe { self.0.store_up_to(to, len, vector) }
    }
}

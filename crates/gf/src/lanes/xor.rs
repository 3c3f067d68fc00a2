//! Addition alone, in the same loops: what the memory allows.
#![expect(unsafe_code, reason = "it passes pointers on")]

use super::{Lanes, vectors_of};

/// The lanes `L`, but every product is with 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Xor<L>(pub(crate) L);

impl<L: Lanes> Lanes for Xor<L> {
    vectors_of!(L);
    type Split = L::Vector;
    type Factor = ();

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
}

//! Products looked up by nibbles, 16 octets at a time: SSSE3.
#![expect(unsafe_code, reason = "instructions that are not in every processor, and pointers")]

use std::arch::x86_64::*;

use super::Lanes;
use crate::field::{NIBBLES, Nibbles};

/// Two look-ups of 16 octets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ssse3(());

impl Ssse3 {
    pub fn detect() -> Option<Self> {
        is_x86_feature_detected!("ssse3").then_some(Self(()))
    }
}

impl Lanes for Ssse3 {
    const WIDTH: usize = 16;
    const HAS_32_REGISTERS: bool = false;
    type Vector = __m128i;
    /// The low nibbles and the high ones.
    type Split = [__m128i; 2];
    /// The products with the low nibbles and those with the high ones.
    type Factor = [__m128i; 2];

    #[inline(always)]
    fn zero(self) -> __m128i {
        // SAFETY: `self` proves SSE2, which SSSE3 includes.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    fn xor(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: `self` proves SSE2, which SSSE3 includes.
        unsafe { _mm_xor_si128(a, b) }
    }

    #[inline(always)]
    fn split(self, vector: __m128i) -> [__m128i; 2] {
        // SAFETY: `self` proves SSE2, which SSSE3 includes.
        unsafe {
            let mask = _mm_set1_epi8(0x0f);
            [_mm_and_si128(vector, mask), _mm_and_si128(_mm_srli_epi64::<4>(vector), mask)]
        }
    }

    #[inline(always)]
    fn factor(self, factor: u8) -> [__m128i; 2] {
        let Nibbles { low, high } = &NIBBLES[usize::from(factor)];
        // SAFETY: a table has 16 octets.
        unsafe { [_mm_loadu_si128(low.as_ptr().cast()), _mm_loadu_si128(high.as_ptr().cast())] }
    }

    #[inline(always)]
    fn product(self, [low, high]: [__m128i; 2], factor: [__m128i; 2]) -> __m128i {
        // SAFETY: `self` proves SSSE3.
        unsafe { self.xor(_mm_shuffle_epi8(factor[0], low), _mm_shuffle_epi8(factor[1], high)) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> __m128i {
        // SAFETY: the caller proves that 16 octets can be read.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8, vector: __m128i) {
        // SAFETY: the caller proves that 16 octets can be written.
        unsafe { _mm_storeu_si128(to.cast(), vector) }
    }
}

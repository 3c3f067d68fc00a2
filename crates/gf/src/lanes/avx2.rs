//! Products looked up by nibbles, 32 octets at a time: AVX2.
#![expect(unsafe_code, reason = "instructions that are not in every processor, and pointers")]

use std::arch::x86_64::*;

use super::Lanes;
use crate::field::{NIBBLES, Nibbles};

/// Two look-ups of 32 octets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Avx2(());

impl Avx2 {
    pub fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

impl Lanes for Avx2 {
    const WIDTH: usize = 32;
    const HAS_32_REGISTERS: bool = false;
    type Vector = __m256i;
    /// The low nibbles and the high ones.
    type Split = [__m256i; 2];
    /// The products with the low nibbles and those with the high ones, twice each.
    type Factor = [__m256i; 2];

    #[inline(always)]
    fn zero(self) -> __m256i {
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn split(self, vector: __m256i) -> [__m256i; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let mask = _mm256_set1_epi8(0x0f);
            let high = _mm256_and_si256(_mm256_srli_epi64::<4>(vector), mask);
            [_mm256_and_si256(vector, mask), high]
        }
    }

    #[inline(always)]
    fn factor(self, factor: u8) -> [__m256i; 2] {
        let Nibbles { low, high } = &NIBBLES[usize::from(factor)];
        // SAFETY: `self` proves AVX2; a table has 16 octets.
        unsafe {
            let low = _mm_loadu_si128(low.as_ptr().cast());
            let high = _mm_loadu_si128(high.as_ptr().cast());
            [_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high)]
        }
    }

    #[inline(always)]
    fn product(self, [low, high]: [__m256i; 2], factor: [__m256i; 2]) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe {
            self.xor(_mm256_shuffle_epi8(factor[0], low), _mm256_shuffle_epi8(factor[1], high))
        }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> __m256i {
        // SAFETY: `self` proves AVX; the caller, that 32 octets can be read.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8, vector: __m256i) {
        // SAFETY: `self` proves AVX; the caller, that 32 octets can be written.
        unsafe { _mm256_storeu_si256(to.cast(), vector) }
    }
}

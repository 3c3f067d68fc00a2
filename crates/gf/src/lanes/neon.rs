//! Products looked up by nibbles, 16 octets at a time: NEON, which every AArch64 has.
#![expect(unsafe_code, reason = "pointers")]

use std::arch::aarch64::*;

use super::Lanes;
use crate::field::{NIBBLES, Nibbles};

/// Two look-ups of 16 octets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Neon(());

impl Neon {
    pub(crate) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

impl Lanes for Neon {
    const WIDTH: usize = 16;
    const HAS_32_REGISTERS: bool = true;
    type Vector = uint8x16_t;
    /// The low nibbles and the high ones.
    type Split = [uint8x16_t; 2];
    /// The products with the low nibbles and those with the high ones.
    type Factor = [uint8x16_t; 2];

    #[inline(always)]
    fn zero(self) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vdupq_n_u8(0) }
    }

    #[inline(always)]
    fn xor(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { veorq_u8(a, b) }
    }

    #[inline(always)]
    fn split(self, vector: uint8x16_t) -> [uint8x16_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { [vandq_u8(vector, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(vector)] }
    }

    #[inline(always)]
    fn factor(self, factor: u8) -> [uint8x16_t; 2] {
        let Nibbles { low, high } = &NIBBLES[usize::from(factor)];
        // SAFETY: `self` proves NEON; a table has 16 octets.
        unsafe { [vld1q_u8(low.as_ptr()), vld1q_u8(high.as_ptr())] }
    }

    #[inline(always)]
    fn product(self, [low, high]: [uint8x16_t; 2], factor: [uint8x16_t; 2]) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { self.xor(vqtbl1q_u8(factor[0], low), vqtbl1q_u8(factor[1], high)) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> uint8x16_t {
        // SAFETY: `self` proves NEON; the caller, that 16 octets can be read.
        unsafe { vld1q_u8(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8, vector: uint8x16_t) {
        // SAFETY: `self` proves NEON; the caller, that 16 octets can be written.
        unsafe { vst1q_u8(to, vector) }
    }
}

//! Multiplication by an 8 x 8 matrix over GF(2), an instruction: GFNI, with AVX-512 or AVX2.
#![expect(unsafe_code, reason = "instructions that are not in every processor, and pointers")]

use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::{Lanes, vectors_of};
use crate::field::MATRICES;

/// GFNI on 64 octets at a time; the ends of packets by masks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Avx512Gfni(());

impl Avx512Gfni {
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("gfni"))
        .then_some(Self(()))
    }
}

impl Lanes for Avx512Gfni {
    const WIDTH: usize = 64;
    const HAS_32_REGISTERS: bool = true;
    type Vector = __m512i;
    type Split = __m512i;
    type Factor = __m512i;

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn xor3(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_ternarylogic_epi64::<0x96>(a, b, c) }
    }

    #[inline(always)]
    fn split(self, vector: __m512i) -> __m512i {
        vector
    }

    #[inline(always)]
    fn factor(self, factor: u8) -> __m512i {
        let matrix = MATRICES[usize::from(factor)].cast_signed();
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_set1_epi64(matrix) }
    }

    #[inline(always)]
    fn product(self, split: __m512i, factor: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512F and GFNI.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(split, factor) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> __m512i {
        // SAFETY: `self` proves AVX-512F; the caller, that 64 octets can be read.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load_up_to(self, from: *const u8, len: usize) -> __m512i {
        // SAFETY: `self` proves AVX-512BW; octets that the mask leaves out are not read.
        unsafe { _mm512_maskz_loadu_epi8(self.mask(len), from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8, vector: __m512i) {
        // SAFETY: `self` proves AVX-512F; the caller, that 64 octets can be written.
        unsafe { _mm512_storeu_si512(to.cast(), vector) }
    }

    #[inline(always)]
    unsafe fn store_up_to(self, to: *mut u8, len: usize, vector: __m512i) {
        // SAFETY: `self` proves AVX-512BW; octets that the mask leaves out are not written.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), self.mask(len), vector) }
    }
}

impl Avx512Gfni {
    /// The first `len` of 64 bits.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "64 at most")]
    fn mask(self, len: usize) -> u64 {
        // SAFETY: `self` proves BMI2.
        unsafe { _bzhi_u64(u64::MAX, len.min(64) as u32) }
    }
}

/// GFNI on 32 octets at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Avx2Gfni(Avx2);

impl Avx2Gfni {
    pub fn detect() -> Option<Self> {
        is_x86_feature_detected!("gfni").then(Avx2::detect).flatten().map(Self)
    }
}

impl Lanes for Avx2Gfni {
    vectors_of!(Avx2);
    type Split = __m256i;
    type Factor = __m256i;

    #[inline(always)]
    fn split(self, vector: __m256i) -> __m256i {
        vector
    }

    #[inline(always)]
    fn factor(self, factor: u8) -> __m256i {
        let matrix = MATRICES[usize::from(factor)].cast_signed();
        // SAFETY: `self` proves AVX.
        unsafe { _mm256_set1_epi64x(matrix) }
    }

    #[inline(always)]
    fn product(self, split: __m256i, factor: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX and GFNI.
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(split, factor) }
    }
}

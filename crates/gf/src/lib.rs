//! GF(2^8) arithmetic on packets, polynomial 0x11D (RFC 8681, 3.3).
//!
//! ```text
//!                     combine, combine_many, accumulate, scale, Solver
//!                                         │
//!                                      Kernel     the best for this machine, found once
//!            ┌───────────┬──────────┬─────┴────┬─────────┬─────────┐
//!       avx512-gfni  avx2-gfni    avx2       ssse3      neon    portable
//!            └───────────┴──────────┴──── fused ─────────┘
//! ```
//!
//! Adding one multiple after the other to a packet is limited by loading and storing the packet.
//! Therefore pass all sources in one call, and all sums over the same sources too.

#![cfg_attr(
    not(any(target_arch = "aarch64", target_arch = "x86_64")),
    expect(dead_code, reason = "the loops over vectors have no vectors here")
)]

mod buffer;
pub mod coefficients;
pub mod equations;
pub mod field;
mod fused;
mod kernel;
mod lanes;
mod limits;
mod operands;
mod portable;
mod solve;
mod terms;
#[cfg(test)]
mod tests;
mod work;

pub use buffer::{Buffer, LINE};
pub use field::{inverse, multiply};
pub use kernel::Kernel;
pub use operands::Singular;
pub use solve::{Solution, Solver};

/// Sets `out` to the sum of `coefficient * source`; a source shorter than `out` counts as zero
/// padded.
///
/// # Panics
/// When a source is longer than `out`.
pub fn combine(out: &mut [u8], terms: &[(u8, &[u8])]) {
    Kernel::best().combine(out, terms);
}

/// Adds the sum of `coefficient * source` to `out`; as [`combine`] otherwise.
///
/// # Panics
/// When a source is longer than `out`.
pub fn accumulate(out: &mut [u8], terms: &[(u8, &[u8])]) {
    Kernel::best().accumulate(out, terms);
}

/// Sets each of `outs` to a sum of all `sources`. The coefficients of the first output come first;
/// a source shorter than the outputs counts as zero padded.
///
/// # Panics
/// When the outputs differ in length, a source is longer than they are, or the coefficients are not
/// `outs.len() * sources.len()`.
pub fn combine_many(outs: &mut [&mut [u8]], coefficients: &[u8], sources: &[&[u8]]) {
    Kernel::best().combine_many(outs, coefficients, sources);
}

/// Multiplies all of `octets` by `coefficient`.
pub fn scale(octets: &mut [u8], coefficient: u8) {
    Kernel::best().scale(octets, coefficient);
}

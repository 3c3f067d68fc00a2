//! GF(2^8) arithmetic on packets, polynomial 0x11D (RFC 8681, 3.3).

pub mod field;

pub use field::{inverse, multiply};

/// Sets `out` to the sum of `coefficient * source`; a source shorter than `out` counts as zero
/// padded.
///
/// # Panics
/// When a source is longer than `out`.
pub fn combine(out: &mut [u8], terms: &[(u8, &[u8])]) {
    out.fill(0);
    accumulate(out, terms);
}

/// Adds the sum of `coefficient * source` to `out`; as [`combine`] otherwise.
///
/// # Panics
/// When a source is longer than `out`.
pub fn accumulate(out: &mut [u8], terms: &[(u8, &[u8])]) {
    for &(coefficient, source) in terms {
        for (octet, &other) in out[..source.len()].iter_mut().zip(source) {
            *octet ^= multiply(coefficient, other);
        }
    }
}

/// Multiplies all of `octets` by `coefficient`.
pub fn scale(octets: &mut [u8], coefficient: u8) {
    for octet in octets {
        *octet = multiply(coefficient, *octet);
    }
}

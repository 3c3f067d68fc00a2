//! The kernel for every other machine: safe code that compilers turn into vectors.
//!
//! A sum is made bit by bit of the factors (Horner), the highest first: double the sum, then
//! add the sources whose factor has the bit. Only the doubling knows the field, so a source costs
//! no more than four additions.

use crate::field::{POLYNOMIAL, inverse, multiply};
use crate::operands::{Multiplied, Singular, System};
use crate::terms::Terms;

/// Octets summed at a time, few enough for registers and the nearest cache.
const BLOCK: usize = 256;

/// Sets `outs` to the sums, or adds the sums to `outs`.
pub fn combine<T: Terms>(outs: &mut [&mut [u8]], terms: T, is_added: bool) {
    let Some(len) = outs.first().map(|out| out.len()) else { return };
    assert!(outs.iter().all(|out| out.len() == len), "outputs are equally long");
    assert!(outs.len() <= terms.rows(), "factors for each output");
    assert!(
        terms.sources().all(|source| source.len() <= len),
        "no source is longer than an output"
    );

    for at in (0..len).step_by(BLOCK) {
        for (row, out) in outs.iter_mut().enumerate() {
            let mut sums = [0; BLOCK];
            for bit in (0..8).rev() {
                double(&mut sums);
                for (source, factor) in terms.sources().zip(terms.factors(row)) {
                    if factor >> bit & 1 == 1 {
                        add(&mut sums, source.get(at..).unwrap_or_default());
                    }
                }
            }
            let out = &mut out[at..];
            if !is_added {
                let here = out.len().min(BLOCK);
                out[..here].fill(0);
            }
            add(out, &sums);
        }
    }
}

/// Sets `out` to the sum of the sources, whatever their factors.
pub fn sum<T: Terms>(out: &mut [u8], terms: T) {
    for at in (0..out.len()).step_by(BLOCK) {
        let mut sums = [0; BLOCK];
        for source in terms.sources() {
            add(&mut sums, source.get(at..).unwrap_or_default());
        }
        let out = &mut out[at..];
        let here = out.len().min(BLOCK);
        out[..here].copy_from_slice(&sums[..here]);
    }
}

/// Multiplies octets, `rounds` times.
pub fn multiply_in_registers(rounds: u64, done: &mut Multiplied) {
    done.sum.resize(BLOCK, 1);
    for _ in 0..rounds {
        scale(&mut done.sum, std::hint::black_box(0x53));
    }
    done.octets += rounds * BLOCK as u64;
}

/// Multiplies all of `octets` by `factor`.
pub fn scale(octets: &mut [u8], factor: u8) {
    for octet in octets {
        *octet = multiply(factor, *octet);
    }
}

/// Inverts in place: see [`Invert`](crate::work::Invert).
pub fn invert(system: System<'_>) -> Result<(), Singular> {
    let System { matrix, stride, order } = system;
    let mut rows: Vec<&mut [u8]> = matrix.chunks_exact_mut(stride).collect();
    for pivot in 0..rows.len() {
        let row = (pivot..rows.len()).find(|&row| rows[row][pivot] != 0);
        let row = row.ok_or(Singular { unknown: pivot })?;
        let (upper, lower) = rows.split_at_mut(row);
        if let Some(upper) = upper.get_mut(pivot) {
            upper.swap_with_slice(lower[0]);
            order.swap(pivot, row);
        }

        let (before, rest) = rows.split_at_mut(pivot);
        let Some((pivot_row, after)) = rest.split_first_mut() else { continue };
        let reciprocal = inverse(pivot_row[pivot]);
        pivot_row[pivot] = 1;
        scale(pivot_row, reciprocal);
        // Adding this `factor` times turns a `factor` into `factor * reciprocal`.
        pivot_row[pivot] = reciprocal ^ 1;
        for row in before.iter_mut().chain(after) {
            let factor = row[pivot];
            for (octet, &other) in row.iter_mut().zip(&**pivot_row) {
                *octet ^= multiply(factor, other);
            }
        }
        pivot_row[pivot] = reciprocal;
    }
    Ok(())
}

/// Adds `source` to `sums`, up to the end of the shorter.
fn add(sums: &mut [u8], source: &[u8]) {
    match (sums.first_chunk_mut::<BLOCK>(), source.first_chunk::<BLOCK>()) {
        // A known length makes a loop without ends.
        (Some(sums), Some(source)) => sums.iter_mut().zip(source).for_each(|(a, b)| *a ^= b),
        _ => sums.iter_mut().zip(source).for_each(|(a, b)| *a ^= b),
    }
}

fn double(octets: &mut [u8; BLOCK]) {
    const REDUCTION: u8 = POLYNOMIAL.to_le_bytes()[0];
    for octet in octets {
        let reduction = if *octet & 0x80 == 0 { 0 } else { REDUCTION };
        *octet = *octet << 1 ^ reduction;
    }
}

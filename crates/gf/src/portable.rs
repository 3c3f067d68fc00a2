//! The kernel for every other machine: safe code on words, which compilers turn into vectors where there are any.
//!
//! A sum of several sources is made bit by bit of the factors (Horner), the highest first: double the sum, then
//! add the sources whose factor has the bit. Only the doubling knows the field, so a source costs
//! no more than four additions. Few sources do not pay for the doublings: they are multiplied octet by octet.

use crate::field::{NIBBLES, POLYNOMIAL, inverse};
use crate::operands::{Multiplied, Singular, System};
use crate::terms::Terms;

/// Octets summed at a time, few enough for registers and the nearest cache.
const BLOCK: usize = 256;
/// Octets of a word.
const WORD: usize = size_of::<usize>();
/// Up to so many sources, multiplying octets is faster than doubling sums.
const FEW: usize = 2;

/// A block of a sum, in words.
type Sums = [usize; BLOCK / WORD];

/// Sets `outs` to the sums, or adds the sums to `outs`.
pub fn combine<T: Terms>(outs: &mut [&mut [u8]], terms: T, is_added: bool) {
    let Some(len) = outs.first().map(|out| out.len()) else { return };
    assert!(outs.iter().all(|out| out.len() == len), "outputs are equally long");
    assert!(outs.len() <= terms.rows(), "factors for each output");
    assert!(
        terms.sources().all(|source| source.len() <= len),
        "no source is longer than an output"
    );

    if terms.count() <= FEW {
        for (row, out) in outs.iter_mut().enumerate() {
            if !is_added {
                out.fill(0);
            }
            for (source, factor) in terms.sources().zip(terms.factors(row)) {
                add_product(out, source, factor);
            }
        }
        return;
    }
    for at in (0..len).step_by(BLOCK) {
        for (row, out) in outs.iter_mut().enumerate() {
            let mut sums = [0; BLOCK / WORD];
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
            add_to(out, &sums);
        }
    }
}

/// Sets `out` to the sum of the sources, whatever their factors.
pub fn sum<T: Terms>(out: &mut [u8], terms: T) {
    for at in (0..out.len()).step_by(BLOCK) {
        let mut sums = [0; BLOCK / WORD];
        for source in terms.sources() {
            add(&mut sums, source.get(at..).unwrap_or_default());
        }
        let out = &mut out[at..];
        let here = out.len().min(BLOCK);
        out[..here].fill(0);
        add_to(out, &sums);
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
    let products = &NIBBLES[usize::from(factor)];
    for octet in octets {
        *octet = products.of(*octet);
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
            add_product(row, pivot_row, factor);
        }
        pivot_row[pivot] = reciprocal;
    }
    Ok(())
}

/// Adds `source`, `factor` times, to `out`.
fn add_product(out: &mut [u8], source: &[u8], factor: u8) {
    let products = &NIBBLES[usize::from(factor)];
    for (octet, &other) in out.iter_mut().zip(source) {
        *octet ^= products.of(other);
    }
}

/// Adds `source` to `sums`, up to the end of the shorter.
fn add(sums: &mut Sums, source: &[u8]) {
    if let Some(source) = source.first_chunk::<BLOCK>() {
        // A known length makes a loop without ends.
        let (words, _) = source.as_chunks::<WORD>();
        sums.iter_mut().zip(words).for_each(|(sum, word)| *sum ^= usize::from_ne_bytes(*word));
        return;
    }
    let (words, rest) = source.as_chunks::<WORD>();
    sums.iter_mut().zip(words).for_each(|(sum, word)| *sum ^= usize::from_ne_bytes(*word));
    if let Some(sum) = sums.get_mut(words.len()) {
        let mut word = [0; WORD];
        word[..rest.len()].copy_from_slice(rest);
        *sum ^= usize::from_ne_bytes(word);
    }
}

/// Adds `sums` to `out`, up to the end of the shorter.
fn add_to(out: &mut [u8], sums: &Sums) {
    let (words, rest) = out.as_chunks_mut::<WORD>();
    let count = words.len();
    for (word, sum) in words.iter_mut().zip(sums) {
        *word = (usize::from_ne_bytes(*word) ^ sum).to_ne_bytes();
    }
    if let Some(sum) = sums.get(count) {
        rest.iter_mut().zip(sum.to_ne_bytes()).for_each(|(octet, other)| *octet ^= other);
    }
}

/// Doubles all octets of the words at once.
fn double(sums: &mut Sums) {
    const HIGHEST: usize = usize::from_ne_bytes([0x80; WORD]);
    const REDUCTION: usize = usize::from_ne_bytes([POLYNOMIAL.to_le_bytes()[0]; WORD]);
    for sum in sums {
        let high = *sum & HIGHEST;
        // 0xff for each octet with its highest bit, which the doubling shifts out.
        let reduced = (high - (high >> 7)) | high;
        *sum = (*sum ^ high) << 1 ^ reduced & REDUCTION;
    }
}

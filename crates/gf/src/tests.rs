//! Every kernel against the scalar field, and the solver against what it is to find.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::operands::Multiplied;
use crate::{
    Buffer, Kernel, LINE, Singular, Solver, combine, combine_many, inverse, multiply, portable,
};

#[test]
fn the_field_has_the_polynomial_of_the_rfc() {
    // x * x^7 = x^8 = x^4 + x^3 + x^2 + 1.
    assert_eq!(multiply(0x02, 0x80), 0x1d);
    for a in 0..=255 {
        assert_eq!(multiply(a, 1), a);
        assert_eq!(multiply(a, 0), 0);
        if a != 0 {
            assert_eq!(multiply(a, inverse(a)), 1);
        }
        for b in 0..=255 {
            assert_eq!(multiply(a, b), by_shifts(a, b));
        }
    }
    assert_eq!(inverse(0), 0);
}

#[test]
fn every_kernel_multiplies_all_elements() {
    let all: Vec<u8> = (0..=255).collect();

    for kernel in Kernel::available() {
        for coefficient in 0..=255 {
            let mut scaled = all.clone();
            kernel.scale(&mut scaled, coefficient);
            let expected: Vec<u8> = all.iter().map(|&octet| multiply(coefficient, octet)).collect();
            assert_eq!(scaled, expected, "{kernel:?}");

            kernel.combine(&mut scaled, &[(coefficient, &all)]);
            assert_eq!(scaled, expected, "{kernel:?}");
        }
    }
}

#[test]
fn every_kernel_handles_every_length() {
    for kernel in Kernel::available() {
        let lengths = if cfg!(miri) { 60..140 } else { 0..1200 };
        for len in lengths {
            // One octet more, so that a write behind the end shows.
            let sources = [octets(len, 1), octets(len.saturating_sub(5), 2), octets(len / 2, 3)];
            let terms: Vec<(u8, &[u8])> = [0x53, 0x01, 0xca]
                .into_iter()
                .zip(sources.iter().map(|source| &source[..]))
                .collect();
            let mut out = vec![0xee; len + 1];
            let mut expected = out.clone();

            kernel.combine(&mut out[..len], &terms);
            set_to_sum(&mut expected[..len], &terms);

            assert_eq!(out, expected, "{kernel:?}, {len} octets");
        }
    }
}

#[test]
fn a_source_longer_than_the_output_is_refused_by_every_kernel() {
    for kernel in Kernel::available() {
        let refused = std::panic::catch_unwind(|| kernel.combine(&mut [0; 9], &[(1, &[0; 10])]));

        assert!(refused.is_err(), "{kernel:?}");
    }
}

#[test]
fn no_sources_are_a_sum_of_zero() {
    for kernel in Kernel::available() {
        let mut out = [7; 100];

        kernel.accumulate(&mut out, &[]);
        assert_eq!(out, [7; 100]);
        kernel.combine(&mut out, &[]);
        assert_eq!(out, [0; 100]);
        kernel.combine_many(&mut [], &[], &[&[1; 3]]);
    }
}

#[test]
fn a_sum_without_factors_is_one_with_factors_of_one() {
    for kernel in Kernel::available() {
        let sources: Vec<Vec<u8>> = (0..5).map(|seed| octets(700, seed)).collect();
        let terms: Vec<(u8, &[u8])> = sources.iter().map(|source| (1, &source[..])).collect();
        let (mut sum, mut expected) = (vec![0; 701], vec![0; 701]);

        kernel.sum_sources(&mut sum, &terms);
        set_to_sum(&mut expected, &terms);

        assert_eq!(sum, expected, "{kernel:?}");
        let [three, six] = [3, 6].map(|rounds| kernel.multiply_in_registers(rounds));
        assert_eq!((six, three % (3 * 16)), (2 * three, 0), "whole vectors, each round as many");
        assert!(three > 0);
    }
}

#[test]
fn multiplying_without_vectors_multiplies_in_each_round() {
    let mut done = Multiplied::default();

    portable::multiply_in_registers(2, &mut done);

    assert!(done.sum.iter().all(|&octet| octet == multiply(0x53, 0x53)));
    assert_eq!(done.octets, 2 * done.sum.len() as u64);
}

#[test]
fn all_kernels_of_this_machine_are_found_the_fastest_first() {
    #[cfg(target_arch = "x86_64")]
    let vectors = {
        let [avx2, gfni] = [is_x86_feature_detected!("avx2"), is_x86_feature_detected!("gfni")];
        let avx512 = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("bmi2");
        [
            ("avx512-gfni", avx512 && gfni),
            ("avx2-gfni", avx2 && gfni),
            ("avx2", avx2),
            ("ssse3", is_x86_feature_detected!("ssse3")),
        ]
    };
    #[cfg(not(target_arch = "x86_64"))]
    let vectors = [("neon", cfg!(target_arch = "aarch64"))];
    let there = vectors.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name);
    let expected: Vec<&str> = there.chain(["portable"]).collect();

    let found = Kernel::available();

    let shown: Vec<String> = found.iter().map(|kernel| format!("{kernel:?}")).collect();
    assert_eq!(shown, expected);
    assert_eq!(Kernel::best(), found[0]);
    for kernel in found {
        assert_eq!(kernel.has_multiplication(), kernel.name().contains("gfni"), "{kernel:?}");
    }
}

#[test]
fn the_best_kernel_is_used_where_none_is_named() {
    let (source, mut out, mut other) = (octets(100, 1), vec![9; 100], vec![9; 100]);
    let mut expected = out.clone();
    set_to_sum(&mut expected, &[(3, &source)]);

    combine(&mut out, &[(3, &source)]);
    combine_many(&mut [&mut other], &[3], &[&source]);

    assert_eq!([&out, &other], [&expected; 2]);
}

#[test]
fn equations_that_follow_from_others_are_reported() {
    for kernel in Kernel::available() {
        let mut solver = Solver::with_kernel(kernel);
        solver.reset(3, 0);
        solver.equation_mut(0).copy_from_slice(&[1, 2, 3]);
        solver.equation_mut(1).copy_from_slice(&[4, 5, 6]);
        solver.equation_mut(2).copy_from_slice(&[1 ^ 4, 2 ^ 5, 3 ^ 6]);
        assert_eq!(solver.solve().map(|_| ()), Err(Singular { unknown: 2 }));

        // It is as good as new afterwards.
        solver.reset(1, 0);
        assert_eq!(solver.solve().map(|_| ()), Err(Singular { unknown: 0 }));
        solver.reset(0, 0);
        assert!(solver.solve().is_ok());
        solver.reset(0, 4);
        assert!(solver.solve().is_ok());
    }
}

#[test]
fn a_buffer_starts_at_a_cache_line_and_ends_in_zeros() {
    let mut buffer = Buffer::new();
    assert!(buffer.is_empty());
    assert_eq!(buffer.padded(), []);

    buffer.extend_from_slice(&[1; 100]);
    buffer.push(2);

    assert_eq!(buffer.len(), 101);
    assert_eq!(buffer[99..], [1, 2]);
    assert!(buffer.as_ptr().addr().is_multiple_of(LINE));
    assert_eq!(buffer.padded().len(), 128);
    assert!(buffer.padded()[101..].iter().all(|&octet| octet == 0));
}

#[test]
fn a_buffer_keeps_its_memory() {
    let mut buffer = Buffer::from(&[3; 1500][..]);
    let (capacity, at) = (buffer.capacity(), buffer.as_ptr());

    buffer.clear();
    assert!(buffer.is_empty() && capacity >= 1500);
    buffer.resize(1500);

    assert_eq!((buffer.capacity(), buffer.as_ptr()), (capacity, at));
    assert_eq!(*buffer, [0; 1500]);
    assert_eq!(buffer, Buffer::zeroed(1500));
    assert_ne!(buffer, Buffer::zeroed(1499));
    assert_eq!(format!("{:?}", Buffer::from(&[7, 8][..])), "[7, 8]");
}

proptest! {
    #![proptest_config(harness::cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn sums_are_those_of_the_scalar_field(
        len in 0_usize..3000,
        sources in vec((any::<u64>(), 0_usize..64, 0_usize..3000, coefficient()), 0..20),
        seed: u64,
        shift in 0_usize..64,
        is_added: bool,
    ) {
        // Each source has its own length and distance from an aligned address.
        let sources: Vec<(Buffer, usize, u8)> = sources
            .into_iter()
            .map(|(seed, shift, short, factor)| {
                let len = len.saturating_sub(short.saturating_sub(1500));
                (Buffer::from(&octets(len + shift, seed)[..]), shift, factor)
            })
            .collect();
        let terms: Vec<(u8, &[u8])> =
            sources.iter().map(|(source, shift, factor)| (*factor, &source[*shift..])).collect();
        let before = octets(shift + len + 70, seed);
        let mut expected = before.clone();
        let inside = shift..shift + len;
        if !is_added {
            expected[inside.clone()].fill(0);
        }
        add_sum(&mut expected[inside.clone()], &terms);

        for kernel in Kernel::available() {
            let mut out = Buffer::from(&before[..]);
            match is_added {
                true => kernel.accumulate(&mut out[inside.clone()], &terms),
                false => kernel.combine(&mut out[inside.clone()], &terms),
            }
            prop_assert_eq!(&*out, &expected[..], "{:?}", kernel);
        }
    }

    #[test]
    fn several_sums_are_each_as_alone(
        len in 0_usize..1300,
        outputs in 0_usize..20,
        sources in vec((any::<u64>(), 0_usize..200), 0..12),
        coefficients in vec(coefficient(), 20 * 12),
        shift in 0_usize..64,
        is_added: bool,
    ) {
        let sources: Vec<Vec<u8>> = sources
            .into_iter()
            .map(|(seed, short)| octets(len.saturating_sub(short.saturating_sub(100)), seed))
            .collect();
        let sources: Vec<&[u8]> = sources.iter().map(|source| &source[..]).collect();
        let coefficients = &coefficients[..outputs * sources.len()];
        let before: Vec<Vec<u8>> = (0..outputs).map(|out| octets(shift + len, out as u64)).collect();

        for kernel in Kernel::available() {
            let mut outs: Vec<Buffer> = before.iter().map(|out| Buffer::from(&out[..])).collect();
            let mut slices: Vec<&mut [u8]> = outs.iter_mut().map(|out| &mut out[shift..]).collect();
            match is_added {
                true => kernel.accumulate_many(&mut slices, coefficients, &sources),
                false => kernel.combine_many(&mut slices, coefficients, &sources),
            }
            for (row, out) in outs.iter().enumerate() {
                let factors = coefficients[row * sources.len()..].iter().copied();
                let terms: Vec<(u8, &[u8])> = factors.zip(sources.iter().copied()).collect();
                let mut expected = before[row].clone();
                if !is_added {
                    expected[shift..].fill(0);
                }
                add_sum(&mut expected[shift..], &terms);
                prop_assert_eq!(&**out, &expected[..], "{:?}, output {}", kernel, row);
            }
        }
    }

    #[test]
    fn scaling_is_multiplying_each_octet(before in vec(any::<u8>(), 0..500), factor in coefficient()) {
        for kernel in Kernel::available() {
            let mut octets = before.clone();
            kernel.scale(&mut octets, factor);
            for (octet, before) in octets.iter().zip(&before) {
                prop_assert_eq!(*octet, multiply(factor, *before));
            }
        }
    }

    #[test]
    fn what_was_lost_is_recovered_or_the_equations_are_singular(
        unknowns in 1_usize..20,
        known in 0_usize..80,
        len in 1_usize..200,
        seed: u64,
        sparse: bool,
    ) {
        let packets: Vec<Vec<u8>> =
            (0..unknowns + known).map(|packet| octets(len, seed ^ packet as u64)).collect();
        let equations: Vec<Vec<u8>> = (0..unknowns)
            .map(|equation| {
                let mut factors = octets(unknowns + known, seed.wrapping_add(99 + equation as u64));
                if sparse {
                    // Many zeros: pivots must be searched for, and often there is none.
                    factors.iter_mut().filter(|factor| **factor % 4 != 0).for_each(|factor| *factor = 0);
                }
                factors
            })
            .collect();
        let sums: Vec<Vec<u8>> = equations
            .iter()
            .map(|factors| {
                let mut sum = vec![0; len];
                for (&factor, packet) in factors.iter().zip(&packets) {
                    add_sum(&mut sum, &[(factor, packet)]);
                }
                sum
            })
            .collect();
        let sums: Vec<&[u8]> = sums.iter().map(|sum| &sum[..]).collect();
        let (lost, received) = packets.split_at(unknowns);
        let received: Vec<&[u8]> = received.iter().map(|packet| &packet[..]).collect();
        let rank = rank(&equations, unknowns);

        for kernel in Kernel::available() {
            let mut solver = Solver::with_kernel(kernel);
            solver.reset(unknowns, known);
            for (number, factors) in equations.iter().enumerate() {
                solver.equation_mut(number).copy_from_slice(factors);
            }
            match solver.solve() {
                Err(Singular { unknown }) => {
                    prop_assert!(rank < unknowns, "{:?}", kernel);
                    prop_assert!(unknown < unknowns);
                }
                Ok(solution) => {
                    prop_assert_eq!(rank, unknowns, "{:?}", kernel);
                    let mut outs = vec![vec![0xee; len]; unknowns];
                    let mut slices: Vec<&mut [u8]> = outs.iter_mut().map(|out| &mut out[..]).collect();
                    solution.recover(&mut slices, &sums, &received);
                    prop_assert_eq!(&outs[..], lost, "{:?}", kernel);
                    // The inverse times the matrix is the identity.
                    for row in 0..unknowns {
                        for column in 0..unknowns {
                            let mut entry = 0;
                            for (equation, factors) in equations.iter().enumerate() {
                                entry ^= multiply(solution.inverse(row, equation), factors[column]);
                            }
                            prop_assert_eq!(entry, u8::from(row == column));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_buffer_is_a_vector_of_octets(steps in vec((0_u8..4, 0_usize..300, any::<u8>()), 0..20)) {
        let (mut buffer, mut model) = (Buffer::new(), Vec::new());

        for (step, len, octet) in steps {
            match step {
                0 => (buffer.resize(len), model.resize(len, 0)),
                1 => (buffer.push(octet), model.push(octet)),
                2 => {
                    let octets = vec![octet; len];
                    (buffer.extend_from_slice(&octets), model.extend_from_slice(&octets))
                }
                _ => (buffer.iter_mut().for_each(|own| *own ^= octet), model.iter_mut().for_each(|own| *own ^= octet)),
            };
            prop_assert_eq!(&*buffer, &model[..]);
            let padded = buffer.padded();
            prop_assert_eq!(padded.len(), model.len().next_multiple_of(LINE));
            prop_assert!(padded[model.len()..].iter().all(|&octet| octet == 0));
        }
    }
}

/// Coefficients; the special ones often.
fn coefficient() -> impl Strategy<Value = u8> {
    prop_oneof![1 => Just(0), 1 => Just(1), 4 => any::<u8>()]
}

/// Octets that look random (SplitMix64).
fn octets(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb).to_be_bytes()[0]
        })
        .collect()
}

fn set_to_sum(out: &mut [u8], terms: &[(u8, &[u8])]) {
    out.fill(0);
    add_sum(out, terms);
}

fn add_sum(out: &mut [u8], terms: &[(u8, &[u8])]) {
    for &(factor, source) in terms {
        for (octet, &other) in out[..source.len()].iter_mut().zip(source) {
            *octet ^= multiply(factor, other);
        }
    }
}

/// The product by definition.
fn by_shifts(a: u8, b: u8) -> u8 {
    let (mut product, mut a) = (0, u16::from(a));
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= crate::field::POLYNOMIAL;
        }
    }
    u8::try_from(product).expect("reduced")
}

/// The rank of the first `columns` columns, by scalar elimination.
fn rank(rows: &[Vec<u8>], columns: usize) -> usize {
    let mut rows = rows.to_vec();
    let mut rank = 0;
    for column in 0..columns {
        let Some(pivot) = (rank..rows.len()).find(|&row| rows[row][column] != 0) else { continue };
        rows.swap(rank, pivot);
        let pivot = rows[rank].clone();
        for row in &mut rows[rank + 1..] {
            let factor = multiply(row[column], inverse(pivot[column]));
            add_sum(row, &[(factor, &pivot)]);
        }
        rank += 1;
    }
    rank
}

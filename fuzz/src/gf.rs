//! GF(2^8): every kernel computes what the scalar field says, at every length and address.

use gf::{Buffer, Kernel, Singular, Solver, multiply};

/// Computes several sums of several sources; the input chooses their lengths and addresses.
pub fn kernels(input: &[u8]) {
    let mut input = Octets(input);
    let len = usize::from(input.u16()) % 2500;
    let (outputs, shift) = (usize::from(input.u8()) % 11, usize::from(input.u8()) % 64);
    let is_added = input.u8() & 1 == 1;
    let count = usize::from(input.u8()) % 20;
    let sources: Vec<(Buffer, usize)> = (0..count)
        .map(|_| {
            let shift = usize::from(input.u8()) % 64;
            let len = len - usize::from(input.u16()).min(len);
            (Buffer::from(&input.many(shift + len)[..]), shift)
        })
        .collect();
    let sources: Vec<&[u8]> = sources.iter().map(|(source, shift)| &source[*shift..]).collect();
    let coefficients = input.many(outputs * count);
    // Octets around an output must not change.
    let before = Buffer::from(&input.many(shift + len + 64)[..]);
    let inside = shift..shift + len;

    let expected: Vec<Buffer> = (0..outputs)
        .map(|row| {
            let mut out = before.clone();
            if !is_added {
                out[inside.clone()].fill(0);
            }
            for (source, factor) in sources.iter().zip(&coefficients[row * count..]) {
                for (octet, &other) in out[inside.clone()].iter_mut().zip(*source) {
                    *octet ^= multiply(*factor, other);
                }
            }
            out
        })
        .collect();
    for kernel in Kernel::available() {
        let mut outs = vec![before.clone(); outputs];
        let mut slices: Vec<&mut [u8]> =
            outs.iter_mut().map(|out| &mut out[inside.clone()]).collect();
        match is_added {
            true => kernel.accumulate_many(&mut slices, &coefficients, &sources),
            false => kernel.combine_many(&mut slices, &coefficients, &sources),
        }
        assert_eq!(outs, expected, "{kernel:?}");

        let terms: Vec<(u8, &[u8])> =
            coefficients.iter().copied().zip(sources.iter().copied()).collect();
        if let Some(expected) = expected.first() {
            let mut out = before.clone();
            match is_added {
                true => kernel.accumulate(&mut out[inside.clone()], &terms),
                false => kernel.combine(&mut out[inside.clone()], &terms),
            }
            assert_eq!(out, *expected, "{kernel:?}");
        }
    }
}

/// All kernels agree on whether a system of equations has a solution, and each solution fulfils it.
pub fn solver(input: &[u8]) {
    let mut input = Octets(input);
    let (unknowns, known) = (usize::from(input.u8()) % 24, usize::from(input.u8()) % 100);
    let len = usize::from(input.u8());
    let matrix: Vec<Vec<u8>> = (0..unknowns).map(|_| input.many(unknowns + known)).collect();
    let sums: Vec<Vec<u8>> = (0..unknowns).map(|_| input.many(len)).collect();
    let sums: Vec<&[u8]> = sums.iter().map(|sum| &sum[..]).collect();
    let known: Vec<Vec<u8>> = (0..known).map(|_| input.many(len)).collect();
    let known: Vec<&[u8]> = known.iter().map(|packet| &packet[..]).collect();

    let outcomes: Vec<Result<Vec<Vec<u8>>, Singular>> = Kernel::available()
        .into_iter()
        .map(|kernel| {
            let mut solver = Solver::with_kernel(kernel);
            solver.reset(unknowns, known.len());
            for (equation, coefficients) in matrix.iter().enumerate() {
                solver.equation_mut(equation).copy_from_slice(coefficients);
            }
            let mut outs = vec![vec![0; len]; unknowns];
            let mut slices: Vec<&mut [u8]> = outs.iter_mut().map(|out| &mut out[..]).collect();
            solver.solve()?.recover(&mut slices, &sums, &known);
            Ok(outs)
        })
        .collect();

    assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]));
    let Some(Ok(found)) = outcomes.first() else { return };
    for (coefficients, sum) in matrix.iter().zip(&sums) {
        let mut left = sum.to_vec();
        let packets = found.iter().map(|packet| &packet[..]).chain(known.iter().copied());
        for (&factor, packet) in coefficients.iter().zip(packets) {
            for (octet, &other) in left.iter_mut().zip(packet) {
                *octet ^= multiply(factor, other);
            }
        }
        assert!(left.iter().all(|&octet| octet == 0));
    }
}

/// The octets of the input, then octets derived from the input.
struct Octets<'a>(&'a [u8]);

impl Octets<'_> {
    fn u8(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or_default()
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// Derives `len` octets from one or two octets of the input, which keeps inputs short.
    fn many(&mut self, len: usize) -> Vec<u8> {
        let (mut octet, step) = (self.u8(), self.u8());
        let mut octets = Vec::with_capacity(len);
        for _ in 0..len {
            octets.push(octet);
            octet = octet.wrapping_mul(5).wrapping_add(step).rotate_left(3);
        }
        octets
    }
}

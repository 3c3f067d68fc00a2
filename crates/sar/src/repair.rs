//! Repairs: sums of segments in GF(2^8). One sum helps every destination with a missing segment in the sum.

use gf::coefficients::Coefficients;
use gf::equations::{Equations, Outcome};

use super::wire::Cover;

/// Most segments in one repair: limits the cost of encoding and solving.
pub const MOST_SPAN: u16 = 255;

/// The factors of the segments that a repair covers, in order.
fn factors(serial: u16, cover: &Cover) -> impl Iterator<Item = (u16, u8)> + use<> {
    let seed = u64::from(serial) << 16 | u64::from(cover.number);
    (cover.first.number()..=cover.end()).zip(Coefficients::of(seed))
}

/// Appends the sum of the segments of `message` in `cover`, each padded with zeros to the length `segment`.
pub fn encode(serial: u16, cover: &Cover, message: &[u8], segment: usize, out: &mut Vec<u8>) {
    let start = out.len();
    let parts = message.chunks(segment).skip(usize::from(cover.first.number() - 1));
    let terms: Vec<(u8, &[u8])> =
        factors(serial, cover).zip(parts).map(|((_, factor), part)| (factor, part)).collect();
    // If a transfer has only one segment, symbols have the length of this segment.
    out.resize(start + segment.min(message.len()), 0);
    gf::combine(&mut out[start..], &terms);
}

/// Equations of a transfer being received.
#[derive(Debug, Default)]
pub struct Solver {
    equations: Equations,
}

impl Solver {
    /// Octets that it keeps.
    pub fn octets(&self, symbol: usize) -> usize {
        self.equations.rank() * symbol
    }

    /// Takes a repair; `known` gives the present segments. Solved segments are appended to `solved`. False when the
    /// repair was redundant.
    pub fn add<'a>(
        &mut self,
        serial: u16,
        cover: &Cover,
        symbol: &[u8],
        known: impl Fn(u16) -> Option<&'a [u8]>,
        solved: &mut Vec<(u64, Vec<u8>)>,
    ) -> bool {
        let (mut entries, mut terms) = (Vec::new(), Vec::new());
        for (number, factor) in factors(serial, cover) {
            match known(number) {
                Some(data) => terms.push((factor, data)),
                None => entries.push((number.into(), factor)),
            }
        }
        if terms.iter().any(|(_, data)| data.len() > symbol.len()) {
            return false;
        }
        let sum = || {
            let mut sum = symbol.to_vec();
            gf::accumulate(&mut sum, &terms);
            sum
        };
        self.equations.insert(&entries, sum, solved) == Outcome::Innovative
    }

    /// A segment arrived by itself.
    pub fn substitute(&mut self, number: u16, data: &[u8], solved: &mut Vec<(u64, Vec<u8>)>) {
        if self.equations.rank() > 0 {
            self.equations.substitute(number.into(), data, solved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Place;

    #[test]
    fn each_transfer_and_each_repair_has_factors_of_its_own() {
        let cover = |number| Cover { first: Place::new(1, 9).unwrap(), span: 9, number, tail: 1 };
        let of = |serial, number| factors(serial, &cover(number)).collect::<Vec<_>>();

        assert_ne!(of(1, 0), of(2, 0));
        assert_ne!(of(1, 0), of(1, 1));
        assert_eq!(of(1, 0).len(), 9);
    }
}

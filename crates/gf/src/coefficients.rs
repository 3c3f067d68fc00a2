//! The coefficients of a repair, derived from the datagram's number so that none need be sent.

/// A generator of non-zero elements of GF(2^8).
///
/// The generator is `SplitMix64` (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", 2014), an octet at a time, zeros skipped.
#[derive(Clone, Debug)]
pub struct Coefficients {
    state: u64,
    word: u64,
    left: u32,
}

impl Coefficients {
    /// The coefficients of the repair in datagram `number`.
    #[must_use]
    pub fn of(number: u64) -> Self {
        Self { state: number.wrapping_mul(0xd134_2543_de82_ef95), word: 0, left: 0 }
    }
}

impl Iterator for Coefficients {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        loop {
            if self.left == 0 {
                self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut word = self.state;
                word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
                (self.word, self.left) = (word ^ word >> 31, 8);
            }
            let [octet, ..] = self.word.to_le_bytes();
            self.word >>= 8;
            self.left -= 1;
            if octet != 0 {
                return Some(octet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of a tunnel derive them, perhaps with other versions of this code: the first two words of `SplitMix64`
    /// from 0 on, as its authors' implementation prints them.
    #[test]
    fn the_coefficients_are_these() {
        let words = [0xe220_a839_7b1d_cdaf_u64, 0x6e78_9e6a_a1b9_65f4];

        let coefficients: Vec<u8> = Coefficients::of(0).take(16).collect();

        assert_eq!(coefficients, words.map(u64::to_le_bytes).concat());
        assert!(Coefficients::of(1).take(10_000).all(|coefficient| coefficient != 0));
        assert!(Coefficients::of(1).take(16).ne(coefficients));
    }
}

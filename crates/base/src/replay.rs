//! Replay protection: accepts each number once, in any order (RFC 6479).
//!
//! ```text
//!   ─── too old ───┤ 1 0 1 1 1 0 … 1 ├─── new ───▶
//!                  └──── bits ───────┘
//!          greatest - BITS       greatest
//! ```

use crate::serial;

const WORD: u64 = 64;

/// The window of accepted numbers: a ring of `WORDS` words, 64 bits each.
#[derive(Clone, Debug)]
pub struct Window<const WORDS: usize> {
    words: [u64; WORDS],
    /// The greatest number taken, and one more; 0 while there is none.
    end: u64,
}

/// Why a number is not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Stale {
    /// It was taken before.
    #[error("taken before")]
    Again,
    /// It is further behind the greatest than is remembered.
    #[error("too old")]
    TooOld,
}

impl<const WORDS: usize> Window<WORDS> {
    /// How far behind the greatest a number may be: less than the ring, so that a word can be
    /// cleared before it is used again.
    pub const BITS: u64 = WORD * (WORDS as u64 - 1);

    /// Nothing was taken yet.
    #[must_use]
    pub fn new() -> Self {
        Self { words: [0; WORDS], end: 0 }
    }

    /// The full number with these low `bits` (below 64) nearest to the greatest accepted number, or to `hint` if
    /// greater: the number that the peer announced.
    #[must_use]
    pub fn rebuild(&self, hint: u64, bits: u32, low: u32) -> u64 {
        serial::expand(low, bits, self.end.max(hint))
    }

    /// Whether `number` could be taken.
    ///
    /// # Errors
    /// When it was, or is too old to tell.
    pub fn check(&self, number: u64) -> Result<(), Stale> {
        if number >= self.end {
            return Ok(());
        }
        if number.saturating_add(Self::BITS) < self.end {
            return Err(Stale::TooOld);
        }
        let (word, bit) = Self::place(number);
        if self.words[word] & bit == 0 { Ok(()) } else { Err(Stale::Again) }
    }

    /// Takes `number` and says whether it is the greatest so far.
    ///
    /// # Errors
    /// When it was taken, or is too old to tell.
    pub fn take(&mut self, number: u64) -> Result<bool, Stale> {
        self.check(number)?;
        let is_newest = number >= self.end;
        if is_newest {
            let (first, last) = (self.end.div_ceil(WORD), number / WORD);
            // Words newly inside the window; a jump over all words clears each once.
            let entered = (last + 1).saturating_sub(first).min(WORDS as u64);
            for word in (last + 1 - entered)..=last {
                self.words[Self::slot(word)] = 0;
            }
            self.end = number.saturating_add(1);
        }
        let (word, bit) = Self::place(number);
        self.words[word] |= bit;
        Ok(is_newest)
    }

    fn slot(word: u64) -> usize {
        usize::try_from(word % WORDS as u64).expect("below the number of words")
    }

    fn place(number: u64) -> (usize, u64) {
        (Self::slot(number / WORD), 1 << (number % WORD))
    }
}

impl<const WORDS: usize> Default for Window<WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    type Window = super::Window<128>;
    const BITS: u64 = Window::BITS;

    #[test]
    fn a_number_is_taken_once_and_not_when_too_old() {
        let mut window = Window::new();

        assert_eq!(window.take(0), Ok(true));
        assert_eq!(window.take(0), Err(Stale::Again));
        assert_eq!(window.take(BITS), Ok(true));
        assert_eq!(window.take(1), Ok(false));
        assert_eq!(window.take(BITS + 100), Ok(true));
        assert_eq!(window.take(100), Err(Stale::TooOld));
        assert_eq!(window.take(101), Ok(false));
        assert_eq!(window.take(u64::MAX >> 1), Ok(true));
        assert_eq!(window.take(BITS + 99), Err(Stale::TooOld));
    }

    /// Several times around the ring, in pairs whose later one comes first: in the same word, in the
    /// next, and at the end of the window.
    #[test]
    fn numbers_that_come_late_are_taken_however_many_came_before() {
        for behind in [1, 63, 64, 65, BITS - 1] {
            let mut window = Window::new();
            for first in (0..40_000).step_by(usize::try_from(behind).unwrap() + 1) {
                assert_eq!(window.take(first + behind), Ok(true));
                assert_eq!(window.take(first), Ok(false), "{behind} behind {first}");
                assert_eq!(window.take(first), Err(Stale::Again));
            }
        }
    }

    #[test]
    fn numbers_are_rebuilt_around_the_greatest() {
        let mut window = Window::new();
        assert_eq!(window.rebuild(0, 32, 7), 7);
        assert_eq!(window.rebuild(0, 32, u32::MAX), u64::from(u32::MAX), "there is none below 0");

        window.take(0x5_ffff_fff0).unwrap();

        assert_eq!(window.rebuild(0, 32, 0xffff_ffe0), 0x5_ffff_ffe0);
        assert_eq!(window.rebuild(0, 32, 0x0000_0010), 0x6_0000_0010);
        assert_eq!(window.rebuild(0x9_0000_0000, 32, 0x10), 0x9_0000_0010);
        assert_eq!(window.rebuild(u64::MAX, 32, 0), 0xffff_ffff_0000_0000);
        assert_eq!(window.rebuild(0, 24, 0x00_0010), 0x6_0000_0010);
        assert_eq!(window.rebuild(0, 24, 0xff_ffe0), 0x5_ffff_ffe0);
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn each_number_is_taken_at_most_once_and_near_ones_always(
            steps in prop::collection::vec((0_u64..3, 0_u64..20_000), 1..300),
        ) {
            let mut window = Window::new();
            let mut taken = BTreeSet::new();
            let mut greatest = 0;

            for (kind, step) in steps {
                let number = match kind {
                    0 => greatest + step,
                    1 => greatest.saturating_sub(step),
                    _ => greatest + step % 3,
                };
                let is_near = number + BITS > greatest;
                match window.take(number) {
                    Ok(is_newest) => {
                        prop_assert!(taken.insert(number));
                        prop_assert_eq!(is_newest, taken.last() == Some(&number));
                    }
                    Err(Stale::Again) => prop_assert!(taken.contains(&number)),
                    Err(Stale::TooOld) => prop_assert!(!is_near),
                }
                greatest = greatest.max(number);
            }
        }
    }
}

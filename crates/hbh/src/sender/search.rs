//! Finds what TCP repeats among thousands of packets, in bounded work.

/// Places looked at from where the next repeat is expected, and as many from the first place: TCP repeats from its
/// oldest segment on, in order.
const LOOKS: usize = 256;

/// Where the next repeat of a connection is expected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search {
    next: u64,
}

impl Search {
    /// The index, below `len`, of a place that `is_it` selects; places have numbers in a row, from `first` on.
    pub fn find(
        &mut self,
        (first, len): (u64, usize),
        is_it: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let expected = usize::try_from(self.next.saturating_sub(first)).unwrap_or(len).min(len);
        let mut places = (expected..len).take(LOOKS).chain((0..expected).take(LOOKS));
        let found = places.find(|&index| {
            #[cfg(test)]
            tests::LOOKED.set(tests::LOOKED.get() + 1);
            is_it(index)
        });
        self.next = first + found.map_or(0, |index| index as u64 + 1);
        found
    }
}

#[cfg(test)]
pub mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Places that searches of this thread have looked at.
        pub static LOOKED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn repeats_in_order_are_found_one_after_the_other_wherever_they_begin() {
        let mut search = Search::default();
        let mut find = |first: u64, it: u64| {
            let before = LOOKED.get();
            let found = search.find((first, 4_000), |index| first + index as u64 == it);
            (found, LOOKED.get() - before)
        };

        assert_eq!(find(1_000, 1_200), (Some(200), 201));
        for it in 1_201..5_000 {
            assert_eq!(find(1_000, it).1, 1, "{it}");
        }
        // From the oldest again, of those that are left.
        assert_eq!(find(2_000, 2_000), (Some(0), LOOKS + 1));
        assert_eq!(find(3_000, 2_500).0, None);
    }

    #[test]
    fn what_is_nowhere_near_is_not_found_and_costs_little() {
        let mut search = Search { next: 2_000 };
        let before = LOOKED.get();

        assert_eq!(search.find((0, 16_384), |index| index == 1_000), None);

        assert_eq!(LOOKED.get() - before, 2 * LOOKS);
    }
}

//! Counts how much of a bounded place each source holds, so that no source takes all of it.

use std::collections::BTreeMap;

use sar::Source;

/// Messages and octets by source.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    by: BTreeMap<Source, Amount>,
    total: Amount,
}

/// A number of messages and of their octets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Amount {
    pub(super) messages: usize,
    pub(super) octets: usize,
}

impl Amount {
    /// A part of it.
    pub(super) fn part(self, divisor: usize) -> Self {
        Self { messages: self.messages.div_ceil(divisor), octets: self.octets.div_ceil(divisor) }
    }

    /// Both together.
    fn with(self, other: Self) -> Self {
        Self { messages: self.messages + other.messages, octets: self.octets + other.octets }
    }

    /// This amount less another one, but not below zero.
    pub(super) fn without(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(other.messages),
            octets: self.octets.saturating_sub(other.octets),
        }
    }

    /// Whether this amount is less than another one, in messages and in octets.
    pub(super) fn is_below(self, other: Self) -> bool {
        self.messages < other.messages && self.octets < other.octets
    }
}

impl Holdings {
    pub(super) fn add(&mut self, source: Source, octets: usize) {
        for amount in [self.by.entry(source).or_default(), &mut self.total] {
            amount.messages += 1;
            amount.octets += octets;
        }
    }

    pub(super) fn remove(&mut self, source: Source, octets: usize) {
        let Some(own) = self.by.get_mut(&source) else { return };
        let one = Amount { messages: 1, octets };
        *own = own.without(one);
        if own.messages == 0 {
            self.by.remove(&source);
        }
        self.total = self.total.without(one);
    }

    /// Whether a source may hold more, of `most` in all: no more than the source leaves to others. The holdings in
    /// `more` count as well.
    pub(super) fn admits(&self, source: Source, most: Amount, more: &Self) -> bool {
        let own = self.of(source).with(more.of(source));
        own.is_below(most.without(self.total).without(more.total))
    }

    fn of(&self, source: Source) -> Amount {
        self.by.get(&source).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_leaves_as_much_to_others_as_it_takes() {
        let most = Amount { messages: 100, octets: 1_000_000 };
        let (mut holdings, none) = (Holdings::default(), Holdings::default());
        let mut fill = |source, octets| {
            let source = Source::V4(source);
            let mut count = 0;
            while holdings.admits(source, most, &none) {
                holdings.add(source, octets);
                count += 1;
            }
            count
        };

        assert_eq!([fill(1, 1), fill(1, 1), fill(2, 1), fill(3, 1)], [50, 0, 25, 13]);
        assert_eq!(fill(4, 500_000), 1, "octets count as well");
        (0..50).for_each(|_| holdings.remove(Source::V4(1), 1));
        assert!(holdings.admits(Source::V4(2), most, &none));
        assert!(!holdings.by.contains_key(&Source::V4(1)));
    }
}

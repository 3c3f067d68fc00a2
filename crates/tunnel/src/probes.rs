//! Probes for the path MTU that were lost because they are too long: no losses of the path (RFC 8899, 3).
//!
//! A probe has a number like any datagram, so the peer's totals count a missing probe as lost. Such a probe
//! is left out as long as it is longer than the longest datagram known to pass: when probes of its length
//! pass after all, the loss was like any other.

use std::collections::VecDeque;

/// The most probes remembered one by one; a search sends some fifty that get no answer.
const REMEMBERED: usize = 64;

/// Probes that were not answered.
#[derive(Debug, Default)]
pub struct Probes {
    /// Number and octets of each, the oldest first.
    open: VecDeque<(u64, usize)>,
    /// Probes that are not remembered any more.
    forgotten: Excused,
}

/// Losses not caused by the path.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Excused {
    /// Datagrams.
    pub(super) datagrams: u64,
    /// Runs of datagrams.
    pub(super) runs: u64,
    /// The last one.
    last: Option<u64>,
}

impl Probes {
    /// A probe of so many octets was sent; more than `passing` are not known to pass.
    pub fn handle_sent(&mut self, number: u64, size: usize, passing: usize) {
        self.open.push_back((number, size));
        if self.open.len() > REMEMBERED
            && let Some((number, size)) = self.open.pop_front()
            && size > passing
        {
            self.forgotten.add(number);
        }
    }

    /// A probe of this size was answered. Other probes of at most this size would have passed too.
    pub fn handle_reply(&mut self, size: usize) {
        self.open.retain(|&(_, its)| its > size);
    }

    /// The losses among the datagrams before `end` not caused by the path, if the path takes
    /// packets of `passing` octets.
    pub fn excused(&self, end: u64, passing: usize) -> Excused {
        let mut excused = self.forgotten;
        let open = self.open.iter().take_while(|(number, _)| *number < end);
        for &(number, _) in open.filter(|(_, size)| *size > passing) {
            excused.add(number);
        }
        excused
    }
}

impl Excused {
    fn add(&mut self, number: u64) {
        self.datagrams += 1;
        self.runs += u64::from(self.last.is_none_or(|last| last + 1 != number));
        self.last = Some(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_too_long_is_excused() {
        let mut probes = Probes::default();
        for (number, size) in [(10, 296), (11, 1_280), (12, 1_500), (20, 1_500), (30, 1_400)] {
            probes.handle_sent(number, size, 1_280);
        }
        let excused = |probes: &Probes, end, passing| {
            let Excused { datagrams, runs, .. } = probes.excused(end, passing);
            (datagrams, runs)
        };

        // 1,280 octets pass; 1,500 were lost.
        assert_eq!(excused(&probes, 12, 1_280), (0, 0));
        assert_eq!(excused(&probes, 13, 1_280), (1, 1));
        assert_eq!(excused(&probes, 31, 1_280), (3, 3));
        assert_eq!(excused(&probes, 31, 600), (4, 3), "two in a row are one run");
        // A probe of 1,400 came, so the probe before was lost like any datagram.
        probes.handle_reply(1_400);
        assert_eq!(excused(&probes, 31, 1_400), (2, 2));
        probes.handle_reply(1_500);
        assert_eq!(excused(&probes, 31, 1_500), (0, 0));
    }

    #[test]
    fn probes_without_end_are_counted_in_bounded_memory() {
        let mut probes = Probes::default();

        for number in 0..10_000 {
            probes.handle_sent(2 * number, 1_500, 1_280);
            assert!(probes.open.len() <= REMEMBERED);
        }

        assert_eq!(probes.excused(30_000, 1_280).datagrams, 10_000);
    }
}

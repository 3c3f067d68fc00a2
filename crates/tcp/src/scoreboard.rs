//! The SACK scoreboard: data that the peer reported above its acknowledgement number (RFC 6675).

use super::seq::Seq;

/// Blocks kept; a peer with more holes than this is not served better by more.
const MAX_BLOCKS: usize = 1_024;

/// Octets that the peer received out of order.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    /// Ascending, with holes between.
    blocks: Vec<(Seq, Seq)>,
    /// Everything below that is not in a block is lost (IsLost).
    lost_below: Option<Seq>,
    octets: u64,
}

impl Scoreboard {
    /// Adds a block above the acknowledgement number; returns how many octets are new.
    pub fn insert(&mut self, from: Seq, to: Seq) -> u64 {
        let first = self.blocks.partition_point(|block| block.1 < from);
        let last = first + self.blocks[first..].partition_point(|block| block.0 <= to);
        let mut fresh = to.since(from);
        if first == last {
            if self.blocks.len() >= MAX_BLOCKS {
                return 0;
            }
            self.blocks.insert(first, (from, to));
        } else {
            let low = self.blocks[first].0.min(from);
            let high = self.blocks[last - 1].1.max(to);
            let known: u64 =
                self.blocks[first..last].iter().map(|block| block.1.since(block.0)).sum();
            fresh = high.since(low) - known;
            self.blocks[first] = (low, high);
            self.blocks.drain(first + 1..last);
        }
        self.octets += fresh;
        fresh
    }

    /// Forgets what lies below the acknowledgement number.
    pub fn advance(&mut self, una: Seq) {
        let passed = self.blocks.partition_point(|block| block.1 <= una);
        self.blocks.drain(..passed);
        if let Some(block) = self.blocks.first_mut() {
            block.0 = block.0.max(una);
        }
        self.octets = self.blocks.iter().map(|block| block.1.since(block.0)).sum();
    }

    /// Finds again what is lost: below `threshold` blocks, or below more than
    /// `threshold - 1` segments of `mss` (RFC 6675, IsLost).
    pub fn judge(&mut self, threshold: u32, mss: u64) {
        let enough = u64::from(threshold.saturating_sub(1)) * mss;
        let (mut blocks, mut octets) = (0_u32, 0);
        self.lost_below = None;
        for block in self.blocks.iter().rev() {
            blocks += 1;
            octets += block.1.since(block.0);
            if blocks >= threshold || octets > enough {
                self.lost_below = Some(block.0);
                break;
            }
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    #[cfg(test)]
    fn octets(&self) -> u64 {
        self.octets
    }

    /// Beyond all that was reported; the first place where nothing was.
    pub fn highest(&self) -> Seq {
        self.blocks.last().map_or(Seq::initial(0), |block| block.1)
    }

    /// Octets in blocks below `end`.
    pub fn octets_below(&self, end: Seq) -> u64 {
        if self.blocks.last().is_none_or(|block| block.1 <= end) {
            return self.octets;
        }
        self.blocks
            .iter()
            .take_while(|block| block.0 < end)
            .map(|block| block.1.min(end).since(block.0))
            .sum()
    }

    /// Everything below that is not in a block is lost.
    pub fn lost_below(&self) -> Option<Seq> {
        self.lost_below
    }

    /// The first octet from `from` on that is in no block, and where the next block starts.
    pub fn hole_at(&self, from: Seq) -> (Seq, Option<Seq>) {
        let next = self.blocks.partition_point(|block| block.1 <= from);
        match self.blocks.get(next) {
            Some(&(start, end)) if start <= from => {
                (end, self.blocks.get(next + 1).map(|block| block.0))
            }
            Some(&(start, _)) => (from, Some(start)),
            None => (from, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_blocks_or_two_segments_above_mean_lost() {
        let mut board = Scoreboard::default();
        let at = |offset: u64| Seq::initial(0) + offset;
        let lost = |board: &mut Scoreboard| {
            board.judge(3, 100);
            board.lost_below().map(|seq| seq.since(at(0)))
        };

        assert_eq!(board.insert(at(100), at(300)), 200);
        assert_eq!(lost(&mut board), None, "exactly two segments are not more than two");
        assert_eq!(board.insert(at(400), at(401)), 1);
        assert_eq!(lost(&mut board), Some(100));
        assert_eq!(board.insert(at(500), at(501)), 1);
        assert_eq!(board.insert(at(600), at(601)), 1);
        assert_eq!(lost(&mut board), Some(400), "three blocks at and above 400");
        assert_eq!(board.insert(at(250), at(450)), 149, "joins two");
        assert_eq!(board.octets(), 352);
        assert_eq!(board.octets_below(at(200)), 100);
        assert_eq!(board.hole_at(at(100)), (at(450), Some(at(500))));
        assert_eq!(board.hole_at(at(470)), (at(470), Some(at(500))));
        assert_eq!(board.hole_at(at(700)), (at(700), None));
        board.advance(at(445));
        assert_eq!(board.octets(), 7);
    }
    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn a_set_of_octets_says_the_same(
            steps in vec((any::<bool>(), 0_usize..200, 1_usize..30, 0_usize..240), 1..40),
            threshold in 1_u32..5,
            mss in 1_usize..40,
        ) {
            let at = |offset: usize| Seq::initial(u32::MAX - 100) + offset as u64;
            let mut board = Scoreboard::default();
            let (mut set, mut una) = ([false; 241], 0);
            for (is_block, from, len, place) in steps {
                let from = from.max(una);
                if is_block {
                    let range = from..from + len;
                    let fresh = set[range.clone()].iter().filter(|it| !**it).count() as u64;
                    set[range.clone()].fill(true);
                    prop_assert_eq!(board.insert(at(range.start), at(range.end)), fresh);
                } else {
                    una = from.min(una + 40);
                    set[..una].fill(false);
                    board.advance(at(una));
                }
                board.judge(threshold, mss as u64);

                let is_start = |it: &usize| set[*it] && (*it == 0 || !set[*it - 1]);
                let starts: Vec<usize> = (0..240).filter(is_start).collect();
                let count = |range: std::ops::Range<usize>| set[range].iter().filter(|it| **it).count();
                let is_lost_below = |it: &&usize| {
                    let blocks = starts.iter().filter(|start| start >= it).count();
                    let enough = (threshold as usize - 1) * mss;
                    blocks >= threshold as usize || count(**it..241) > enough
                };
                let lost = starts.iter().rev().find(is_lost_below).map(|it| at(*it));
                prop_assert_eq!(board.lost_below(), lost);
                prop_assert_eq!(board.is_empty(), starts.is_empty());
                prop_assert_eq!(board.octets(), count(0..241) as u64);
                prop_assert_eq!(board.octets_below(at(place)), count(0..place) as u64);
                let hole = (place..241).find(|it| !set[*it]).expect("nothing is there");
                let next = (hole..241).find(|it| set[*it]).map(at);
                prop_assert_eq!(board.hole_at(at(place)), (at(hole), next));
                if let Some(last) = (0..241).rev().find(|it| set[*it]) {
                    prop_assert_eq!(board.highest(), at(last + 1));
                }
            }
        }
    }

    #[test]
    fn a_peer_with_many_holes_takes_no_more_memory() {
        let mut board = Scoreboard::default();
        let at = |offset: usize| Seq::initial(0) + offset as u64;

        let taken: u64 =
            (0..2 * MAX_BLOCKS).map(|hole| board.insert(at(2 * hole), at(2 * hole + 1))).sum();

        assert_eq!((taken, board.octets()), (MAX_BLOCKS as u64, MAX_BLOCKS as u64));
        assert_eq!(board.insert(at(1), at(2)), 1, "what joins blocks needs no room");
    }
}

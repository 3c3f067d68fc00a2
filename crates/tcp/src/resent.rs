//! Retransmissions in a recovery by SACK: detects lost retransmissions.
//!
//! A repair counts as lost when three segments sent after it have arrived and the repair has not (RFC 8985 applies this
//! to all segments, by time; here sequence numbers are enough, because new data goes in order).

use std::collections::VecDeque;

use super::scoreboard::Scoreboard;
use super::seq::Seq;

/// Repairs remembered; later ones are left to the timer.
const MOST: usize = 4_096;

/// The repairs of a recovery.
#[derive(Clone, Debug, Default)]
pub struct Resent {
    /// Under way, in the order of sending: from where to where, and beyond all that was sent before.
    under_way: VecDeque<(Seq, Seq, Seq)>,
    /// Lost, and not sent once more.
    lost: VecDeque<(Seq, Seq)>,
}

impl Resent {
    /// A repair was sent; `max` is beyond everything ever sent.
    pub fn record(&mut self, from: Seq, to: Seq, max: Seq) {
        let place = self.lost.iter().position(|lost| lost.0 <= from && from < lost.1);
        if let Some(lost) = place.and_then(|place| self.lost.get_mut(place)) {
            lost.0 = to.min(lost.1);
        }
        self.lost.retain(|lost| lost.0 < lost.1);
        if self.under_way.len() < MOST {
            self.under_way.push_back((from, to, max));
        }
    }

    /// Finds lost retransmissions: `highest` exceeds everything sent before them by at least `margin` octets.
    pub fn judge(&mut self, highest: Seq, margin: u64) {
        while let Some(&(from, to, max)) = self.under_way.front()
            && max + margin <= highest
        {
            self.under_way.pop_front();
            self.lost.push_back((from, to));
        }
    }

    /// From where to send once more: what was lost and is still missing.
    pub fn next(&self, una: Seq, board: &Scoreboard) -> Option<(Seq, Seq)> {
        self.lost.iter().find_map(|&(from, to)| {
            let (hole, _) = board.hole_at(from.max(una));
            (hole < to).then_some((hole, to))
        })
    }

    /// Drops what has arrived from the lost.
    pub fn forget(&mut self, una: Seq, board: &Scoreboard) {
        while let Some(&(from, to)) = self.lost.front()
            && board.hole_at(from.max(una)).0 >= to
        {
            self.lost.pop_front();
        }
    }

    /// Octets lost and not retransmitted again.
    pub fn octets(&self, una: Seq, board: &Scoreboard) -> u64 {
        let missing = |&(from, to): &(Seq, Seq)| {
            let from = from.max(una).min(to);
            to.since(from) - (board.octets_below(to) - board.octets_below(from))
        };
        self.lost.iter().map(missing).sum()
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: u64) -> Seq {
        Seq::initial(0) + place
    }

    #[test]
    fn so_many_repairs_are_watched_at_most() {
        let mut resent = Resent::default();
        for place in 0..MOST as u64 + 10 {
            resent.record(at(place), at(place + 1), at(0));
        }
        resent.judge(at(0), 0);
        assert_eq!(resent.octets(at(0), &Scoreboard::default()), MOST as u64);
    }

    #[test]
    fn a_repair_is_lost_when_enough_has_arrived_that_was_sent_later() {
        let mut resent = Resent::default();
        let mut board = Scoreboard::default();
        resent.record(at(100), at(200), at(1_000));

        resent.judge(at(1_299), 300);
        assert_eq!((resent.next(at(100), &board), resent.octets(at(100), &board)), (None, 0));
        resent.judge(at(1_300), 300);
        assert_eq!(resent.next(at(100), &board), Some((at(100), at(200))));
        assert_eq!(resent.octets(at(100), &board), 100);

        // A part has arrived, and a part of the rest is sent once more, beside a part that nobody asked for.
        board.insert(at(120), at(150));
        assert_eq!(resent.octets(at(100), &board), 70);
        resent.record(at(100), at(130), at(1_300));
        assert_eq!(resent.next(at(100), &board), Some((at(150), at(200))));
        assert_eq!(resent.octets(at(100), &board), 50);
        resent.record(at(150), at(230), at(1_300));
        assert_eq!((resent.next(at(100), &board), resent.octets(at(100), &board)), (None, 0));
    }

    #[test]
    fn what_has_arrived_is_not_sent_once_more() {
        let mut resent = Resent::default();
        let mut board = Scoreboard::default();
        resent.record(at(100), at(200), at(1_000));
        resent.record(at(300), at(400), at(1_000));
        resent.judge(at(1_300), 300);
        board.insert(at(100), at(250));

        assert_eq!(resent.next(at(100), &board), Some((at(300), at(400))));
        resent.forget(at(100), &board);
        assert_eq!(resent.octets(at(100), &board), 100);
        resent.forget(at(400), &board);
        assert_eq!((resent.next(at(400), &board), resent.octets(at(400), &board)), (None, 0));
    }
}

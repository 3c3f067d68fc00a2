//! Sequence numbers of a node's own messages: tell echoes from messages that another node sent with the same address.

use std::time::Duration;

use base::time::Time;

use super::wire::Seq;

/// Hands out message sequence numbers, and remembers the recent ones.
#[derive(Debug)]
pub struct Numbers {
    next: Seq,
    /// The first number of the present period and of the previous one.
    marks: [Seq; 2],
    /// When the next period begins.
    turns_at: Option<Time>,
    /// Until when echoes may come of messages that the node made before it was started anew.
    quiet_until: Option<Time>,
    period: Duration,
}

impl Numbers {
    /// Numbers from this one on. Messages are no older than `period` when they come back.
    pub fn new(first: Seq, period: Duration) -> Self {
        Self { next: first, marks: [first; 2], turns_at: None, quiet_until: None, period }
    }

    /// The number of the next message.
    pub fn give(&mut self, now: Time) -> Seq {
        if self.turns_at.is_none_or(|at| at <= now) {
            self.marks = [self.next, self.marks[0]];
            self.turns_at = Some(now + self.period);
            self.quiet_until.get_or_insert(now + self.period);
        }
        let number = self.next;
        self.next = number.next();
        number
    }

    /// Another node used this number in our name. If the number lies ahead, ours continue after it, since others would
    /// take our own message of that number for a copy.
    pub fn overtake(&mut self, number: Seq) {
        if !self.next.is_after(number) {
            self.next = number.next();
            self.marks = [self.next; 2];
        }
    }

    #[cfg(test)]
    pub fn next(&self) -> Seq {
        self.next
    }

    /// Whether this node may have made a message with this number.
    pub fn may_be_ours(&self, now: Time, number: Seq) -> bool {
        let [_, oldest] = self.marks;
        let since = |seq: Seq| seq.0.wrapping_sub(oldest.0);
        self.quiet_until.is_none_or(|until| now < until) || since(number) < since(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_last_period_are_ours_and_older_and_later_ones_are_not() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut numbers = Numbers::new(Seq(0xffff), Duration::from_secs(30));

        assert_eq!(numbers.give(at(0)), Seq(0xffff));
        assert!(numbers.may_be_ours(at(29), Seq(77)), "it may be from before the start");
        for (second, seq) in [(31, 0), (62, 1), (93, 2)] {
            assert_eq!(numbers.give(at(second)), Seq(seq));
        }

        let ours = [0xffff, 0, 1, 2, 3].map(|seq| numbers.may_be_ours(at(95), Seq(seq)));
        assert_eq!(ours, [false, false, true, true, false]);
    }
}

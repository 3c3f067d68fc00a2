//! Records the send time of each unacknowledged segment.

use std::collections::VecDeque;

use base::time::Time;

use super::congestion::Head;
use super::seq::Seq;

/// The segments in flight, oldest first, without gaps.
#[derive(Clone, Debug, Default)]
pub struct Flight(VecDeque<Sent>);

#[derive(Clone, Copy, Debug)]
struct Sent {
    to: Seq,
    first_at: Time,
    last_at: Time,
    is_again: bool,
}

/// What an acknowledgement tells about time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Landed {
    /// When the oldest segment covered was sent.
    pub oldest: Option<Time>,
    /// When the newest segment covered was sent.
    pub newest: Option<Time>,
    /// When the segment covered that was sent last was sent.
    pub latest: Option<Time>,
    /// The send time of the oldest segment that `is_echoed`; if any such segment was sent more than once, of a
    /// retransmitted one.
    pub echoed: Option<Time>,
    /// Whether any covered segment was sent more than once.
    pub is_ambiguous: bool,
    /// Whether the newest was.
    pub is_newest_again: bool,
}

impl Flight {
    /// A segment from `from` to `to` was sent, again or for the first time.
    pub fn record(&mut self, now: Time, from: Seq, to: Seq) {
        let end = self.0.back().map_or(from, |sent| sent.to);
        if from < end {
            let first = self.0.partition_point(|sent| sent.to <= from);
            for sent in self.0.range_mut(first..) {
                sent.last_at = now;
                sent.is_again = true;
                if sent.to >= to {
                    break;
                }
            }
        }
        if to > end {
            self.0.push_back(Sent { to, first_at: now, last_at: now, is_again: false });
        }
    }

    /// Everything below `una` is acknowledged.
    pub fn land(&mut self, una: Seq, is_echoed: impl Fn(Time) -> bool) -> Landed {
        let mut landed = Landed::default();
        while let Some(sent) = self.0.front().copied().filter(|sent| sent.to <= una) {
            landed.oldest = landed.oldest.or(Some(sent.last_at));
            landed.newest = Some(sent.last_at);
            landed.latest = landed.latest.max(landed.newest);
            landed.is_newest_again = sent.is_again;
            if sent.is_again && !landed.is_ambiguous {
                landed.is_ambiguous = true;
                landed.echoed = None;
            }
            let counts = sent.is_again == landed.is_ambiguous && landed.echoed.is_none();
            if counts && is_echoed(sent.last_at) {
                landed.echoed = Some(sent.last_at);
            }
            self.0.pop_front();
        }
        landed
    }

    /// When the segment before `end` was last sent.
    pub fn sent_at(&self, end: Seq) -> Option<Time> {
        self.0.get(self.0.partition_point(|sent| sent.to < end)).map(|sent| sent.last_at)
    }

    /// The oldest segment.
    pub fn head(&self) -> Option<Head> {
        self.0.front().map(|sent| Head { sent_at: sent.last_at, is_retransmission: sent.is_again })
    }

    /// When the oldest segment was first sent.
    pub fn since(&self) -> Option<Time> {
        self.0.front().map(|sent| sent.first_at)
    }
}

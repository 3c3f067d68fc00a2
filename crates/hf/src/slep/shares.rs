//! Shares of each source in the common send buffer and in head starts.
//!
//! ```text
//!   kept by a source  ≤  an eighth of what is free of `sent`: a ninth if it is alone, less beside others
//!   head starts       ≤  64 KiB, and in the long run a quarter of what is sent, unless it is alone
//!   openings          ≤  32 with the node: others wait here, where it costs nothing to cancel them
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::config::Source;
use super::timers::StreamId;

/// Octets of head starts that a source may have at once, while others have streams too.
const AT_ONCE: u64 = 64 << 10;
/// An octet of a head start is worth so many that are sent meanwhile.
const WORTH: u64 = 4;

/// First parts of streams of a source that the node may have without having confirmed them.
const MOST_OPENINGS: usize = 32;

/// The shares of all sources. [`Source::NOBODY`] stands for streams that nobody in particular has: only the
/// limits for all hold there.
#[derive(Debug, Default)]
pub struct Shares {
    of: BTreeMap<Source, Share>,
    /// Sources with streams.
    live: usize,
    /// Octets sent so far.
    sent: u64,
}

#[derive(Debug, Default)]
struct Share {
    streams: usize,
    kept: usize,
    /// Its head starts are paid for when so many octets have been sent.
    owes_until: u64,
    /// Streams whose first part is with the node, including streams that have ended.
    openings: usize,
    /// Streams that wait for the node to confirm some openings.
    waiting: BTreeSet<StreamId>,
}

impl Shares {
    /// A source has another stream.
    pub fn add(&mut self, source: Source) {
        if self.of.len() > 2 * self.live + 16 {
            let sent = self.sent;
            self.of.retain(|_, share| !share.is_over(sent));
        }
        let share = self.of.entry(source).or_default();
        self.live += usize::from(share.streams == 0);
        share.streams += 1;
    }

    /// A stream of a source is over; its kept octets are freed. The source's debt of head starts remains.
    pub fn remove(&mut self, source: Source, kept: usize) {
        let Some(share) = self.of.get_mut(&source) else { return };
        share.kept -= kept;
        share.streams -= 1;
        self.live -= usize::from(share.streams == 0);
    }

    /// Octets of a source are kept.
    pub fn keep(&mut self, source: Source, octets: usize) {
        if let Some(share) = self.of.get_mut(&source) {
            share.kept += octets;
        }
    }

    /// Octets of a source are not kept any more.
    pub fn free(&mut self, source: Source, octets: usize) {
        if let Some(share) = self.of.get_mut(&source) {
            share.kept -= octets;
        }
    }

    /// Octets that may still be kept of a source, where so many are free for all.
    pub fn room(&self, source: Source, free: usize) -> usize {
        if source == Source::NOBODY {
            return free;
        }
        (free / 8).saturating_sub(self.kept(source))
    }

    /// Whether a source that was held up has enough room again, where so many octets are free for all.
    pub fn has_room(&self, source: Source, free: usize) -> bool {
        source == Source::NOBODY || self.kept(source) <= free / 32 * 3
    }

    fn kept(&self, source: Source) -> usize {
        self.of.get(&source).map_or(0, |share| share.kept)
    }

    /// Whether another stream of a source may be opened; otherwise it waits, and [`Self::close`] tells when it may.
    pub fn may_open(&mut self, source: Source, stream: StreamId) -> bool {
        let Some(share) = self.of.get_mut(&source) else { return true };
        if source == Source::NOBODY || share.openings < MOST_OPENINGS {
            return true;
        }
        share.waiting.insert(stream);
        false
    }

    /// The node is given the first part of a stream.
    pub fn open(&mut self, source: Source) {
        if let Some(share) = self.of.get_mut(&source) {
            share.openings += 1;
        }
    }

    /// The node has no more to do with the first part of a stream: which other stream may be opened instead.
    pub fn close(&mut self, source: Source) -> Option<StreamId> {
        let share = self.of.get_mut(&source)?;
        share.openings = share.openings.saturating_sub(1);
        share.waiting.pop_first()
    }

    /// A stream that may wait to be opened is over.
    pub fn give_up(&mut self, source: Source, stream: StreamId) {
        if let Some(share) = self.of.get_mut(&source) {
            share.waiting.remove(&stream);
        }
    }

    /// Whether octets of a source may go before those of others.
    pub fn may_lead(&self, source: Source) -> bool {
        self.live <= 1
            || self.of.get(&source).is_none_or(|it| it.owes_until <= self.sent + AT_ONCE * WORTH)
    }

    /// Counts octets sent for a source, and how many of them as a head start.
    pub fn send(&mut self, source: Source, octets: usize, leading: usize) {
        self.sent += octets as u64;
        if let Some(share) = self.of.get_mut(&source) {
            let owed = share.owes_until.max(self.sent);
            share.owes_until = owed + leading as u64 * WORTH;
        }
    }
}

impl Share {
    /// Whether nothing of it needs to be remembered, where so many octets have been sent.
    fn is_over(&self, sent: u64) -> bool {
        self.streams == 0 && self.openings == 0 && self.owes_until <= sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Source = Source(1);
    const OTHER: Source = Source(2);

    #[test]
    fn a_source_keeps_a_ninth_alone_and_the_next_a_ninth_of_what_is_left() {
        let (limit, mut shares, mut left) = (1_000_usize, Shares::default(), 1_000_usize);
        for source in [ONE, OTHER] {
            shares.add(source);
            while shares.room(source, left) > 0 {
                shares.keep(source, 1);
                left -= 1;
            }
        }

        assert_eq!((shares.kept(ONE), shares.kept(OTHER)), (limit / 9, limit * 8 / 81));
        assert_eq!(shares.room(Source::NOBODY, left), left);
        shares.remove(ONE, limit / 9);
        assert_eq!(shares.room(ONE, left + limit / 9), (left + limit / 9) / 8);
    }

    #[test]
    fn who_goes_first_too_often_takes_turns_like_others_until_that_is_paid_for() {
        let mut shares = Shares::default();
        shares.add(ONE);
        shares.send(ONE, 1_000_000, 1_000_000);
        assert!(shares.may_lead(ONE), "there is nobody else");

        shares.add(OTHER);
        assert!(!shares.may_lead(ONE) && shares.may_lead(OTHER));
        shares.remove(ONE, 0);
        shares.add(ONE);
        assert!(!shares.may_lead(ONE), "it is remembered");
        shares.send(OTHER, 4_000_000, 0);
        assert!(shares.may_lead(ONE));

        let mut led = 0_u64;
        for _ in 0..10_000 {
            let leads = shares.may_lead(ONE);
            led += u64::from(leads);
            shares.send(if leads { ONE } else { OTHER }, 1_000, if leads { 1_000 } else { 0 });
        }
        assert!((2_400..2_700).contains(&led), "{led} of 10,000");
    }

    #[test]
    fn sources_that_are_gone_are_forgotten() {
        let mut shares = Shares::default();
        for number in 1..10_000 {
            shares.add(Source(number));
            shares.send(Source(number), 100, 100);
            shares.remove(Source(number), 0);
        }

        assert!(shares.of.len() < 50, "{}", shares.of.len());
    }
}

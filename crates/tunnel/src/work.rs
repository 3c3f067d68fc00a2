//! Budgets for the work that a peer can make, in counted steps.
//!
//! A step is the time to multiply and add an octet. Decoding, making repairs, sending equations and reading reports have
//! a budget each: a peer whose budget for one kind of work is empty keeps the other kinds.

use std::time::Duration;

use base::time::{Time, nanos};

/// Each budget grows by this with each octet that the work is for. A source may be in one repair with 1,023 others, at
/// either end: a peer with which much is exchanged may cause much work.
const STEPS_AN_OCTET: u64 = 1_024;

/// The most steps of decoding, of making repairs and of reading reports: each takes about a millisecond. The driver
/// hands in 64 datagrams at one moment at most, and takes as many.
pub const MOST_STEPS: u64 = 32 << 20;
/// The steps of each that come back with each nanosecond: some percent of a core.
pub const STEPS_A_NANOSECOND: u64 = 2;
/// Steps for each equation that is sent: the system takes most of the time then.
pub const HANDED: u64 = 512 * STEPS_AN_OCTET;
/// The most equations that are sent without pause: two windows of sources, all of which were lost.
pub const MOST_EQUATIONS: u64 = 16_384;
/// The steps of sending equations that come back with each nanosecond: 15,260 equations in a second.
pub const SENDING_A_NANOSECOND: u64 = 8;

/// The budgets of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Budgets {
    /// For what the peer's datagrams make the receiver do.
    pub decoding: Budget,
    /// For repairs, of which the peer's reports decide how many are sent.
    pub repairing: Budget,
    /// For repairs and sources sent again, of which a peer that lies in its reports could have any number.
    pub sending: Budget,
    /// For what the peer's reports make the sender look at.
    pub reading: Budget,
}

impl Default for Budgets {
    fn default() -> Self {
        let computing = Budget::new(MOST_STEPS, STEPS_A_NANOSECOND);
        let sending = Budget::new(MOST_EQUATIONS * HANDED, SENDING_A_NANOSECOND);
        Self { decoding: computing, repairing: computing, sending, reading: computing }
    }
}

/// A budget of steps, which time and exchanged octets give back.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// What is left; a debt when negative, because the cost of a piece of work is known when it is done.
    left: i64,
    /// The most that is left.
    most: u64,
    /// The steps that come back with each nanosecond.
    in_a_nanosecond: u64,
    /// When time was counted last.
    at: Time,
    /// All steps so far.
    done: u64,
}

impl Budget {
    /// A full budget of `most` steps, of which some come back with each nanosecond.
    pub fn new(most: u64, in_a_nanosecond: u64) -> Self {
        Self { left: most.cast_signed(), most, in_a_nanosecond, at: Time::ZERO, done: 0 }
    }

    /// Whether the work so far has used up the budget.
    pub fn is_over(&mut self, now: Time) -> bool {
        self.give(nanos(now.since(self.at)).saturating_mul(self.in_a_nanosecond));
        self.at = now.max(self.at);
        self.left <= 0
    }

    /// When the budget is not over any more, unless something is added; in the past if it is not.
    pub fn ready_at(&self) -> Time {
        let debt = u64::try_from(-self.left).map_or(0, |debt| debt / self.in_a_nanosecond + 1);
        self.at + Duration::from_nanos(debt)
    }

    /// So many octets were exchanged.
    pub fn earn(&mut self, octets: usize) {
        self.give(STEPS_AN_OCTET * octets as u64);
    }

    /// So many steps were done.
    pub fn add(&mut self, steps: u64) {
        self.left = self.left.saturating_sub_unsigned(steps);
        self.done += steps;
    }

    /// All steps so far.
    pub fn done(&self) -> u64 {
        self.done
    }

    fn give(&mut self, steps: u64) {
        self.left = self.left.saturating_add_unsigned(steps).min(self.most.cast_signed());
    }
}

//! The agreement of two clients on header compression, from their messages to each other.
//!
//! ```text
//!             their announcement names our table, or
//!             they sent what only our table restores
//!   ┌────────┐ ─────────────────────────────────────▶ ┌────────┐  we compress,
//!   │doubtful│                                        │ agreed │  as long as this is
//!   └────────┘ ◀───────────────────────────────────── └────────┘  young
//!     we ask      they name another table, or
//!                 sent as it is what could be compressed, or
//!                 no client took what we sent, or we were bound anew
//! ```

use std::time::Duration;

use base::backoff::Backoff;
use base::budget::Budget;
use base::time::Time;

use super::announcement::Announcement;
use super::datagram::{Context, Undone};
use super::table::Table;
use crate::s5066::sis::Mode;

/// How long a sign of the other end's knowledge holds with ARQ, by which it could tell of its loss, ...
const HOLDS_ARQ: Duration = Duration::from_secs(3_600);
/// ... and without.
const HOLDS_NON_ARQ: Duration = Duration::from_secs(600);
/// How soon a client that did not answer is asked again, beside a datagram: at first and at most.
const ASK: (Duration, Duration) = (Duration::from_secs(600), Duration::from_secs(86_400));
/// Announcements in a row at most, whatever the other end says, ...
const BURST: u32 = 4;
/// ... and how long until there may be one more.
const SPACING: Duration = Duration::from_secs(60);

/// The client at another node.
#[derive(Debug)]
pub(super) struct Peer {
    /// The networks behind the peer, according to our routes.
    ours: Table,
    our_name: u32,
    /// The networks behind us, according to the peer's routes.
    theirs: Option<Table>,
    /// When it last showed that it knows our table, while it is not in doubt.
    shown_at: Option<Time>,
    /// Whether the peer compresses its datagrams.
    compresses: bool,
    /// Whether it is sent datagrams.
    is_sent_to: bool,
    owed: Option<Owed>,
    ask_at: Time,
    patience: Backoff,
    budget: Budget,
}

/// An announcement that the other end waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Owed {
    /// By itself: the announcement to be answered came with ARQ, so this node transmits anyway.
    AtOnce,
    /// Beside the next datagram.
    Beside,
}

impl Peer {
    pub(super) fn new(now: Time, ours: Table) -> Self {
        Self {
            our_name: ours.name(),
            ours,
            theirs: None,
            shown_at: None,
            compresses: false,
            is_sent_to: false,
            owed: None,
            ask_at: now,
            patience: Backoff::new(ASK),
            budget: Budget::new(now, BURST, SPACING),
        }
    }

    /// Whether it still knows our table has to be asked.
    pub(super) fn doubt(&mut self, now: Time) {
        self.shown_at = None;
        self.compresses = false;
        self.ask_at = now;
    }

    /// The context for compressing a datagram to the peer, if any.
    pub(super) fn context(&self, now: Time, mode: Mode) -> Option<Context<'_>> {
        let theirs = self.theirs.as_ref().filter(|_| self.is_shown(now, holds(mode)))?;
        Some(Context::new(&self.ours, theirs))
    }

    fn is_shown(&self, now: Time, holds: Duration) -> bool {
        self.shown_at.is_some_and(|at| now.since(at) < holds)
    }

    fn show(&mut self, now: Time) {
        self.shown_at = Some(now);
        self.patience.succeed();
    }

    /// The announcement that goes beside a datagram in this mode.
    pub(super) fn due(&mut self, now: Time, mode: Mode) -> Option<Announcement> {
        self.is_sent_to = true;
        let asks = self.ask_at <= now && !self.is_shown(now, holds(mode) / 2);
        if self.owed.is_none() && !asks {
            return None;
        }
        self.announce(now, asks)
    }

    /// Whether an announcement is to go by itself.
    pub(super) fn is_urgent(&self) -> bool {
        self.owed == Some(Owed::AtOnce)
    }

    /// The announcement that goes by itself.
    pub(super) fn urgent(&mut self, now: Time) -> Option<Announcement> {
        self.announce(now, self.is_sent_to && self.shown_at.is_none())
    }

    fn announce(&mut self, now: Time, asks: bool) -> Option<Announcement> {
        if !self.budget.spend(now) {
            self.owed = self.owed.map(|_| Owed::Beside);
            return None;
        }
        self.owed = None;
        self.ask_at = now + self.patience.fail();
        let heard = self.theirs.as_ref().map_or(0, Table::name);
        Some(Announcement { asks, heard, table: self.ours.clone() })
    }

    pub(super) fn handle_announcement(&mut self, now: Time, said: Announcement, is_arq: bool) {
        let Announcement { asks, heard, table } = said;
        let is_new = self.theirs.as_ref() != Some(&table);
        let knows_us = heard == self.our_name;
        self.compresses &= !is_new;
        self.theirs = Some(table);
        if knows_us {
            self.show(now);
        } else {
            self.shown_at = None;
        }
        if asks || !knows_us {
            self.owe(is_arq);
        }
    }

    /// Restores a datagram, which shows that the sender knows our table.
    pub(super) fn handle_compressed(
        &mut self,
        now: Time,
        octets: &[u8],
        is_arq: bool,
    ) -> Result<Vec<u8>, Undone> {
        let theirs = self.theirs.as_ref().ok_or(Undone::Unknown);
        let restored = theirs.and_then(|theirs| Context::new(theirs, &self.ours).restore(octets));
        if restored.is_ok() {
            self.compresses = true;
            self.show(now);
        } else {
            self.owe(is_arq);
        }
        restored
    }

    /// Whoever compressed and does not any more has forgotten us, or is another.
    pub(super) fn handle_plain(&mut self, now: Time, packet: &[u8]) {
        let Some(theirs) = self.theirs.as_ref().filter(|_| self.compresses) else { return };
        if Context::new(theirs, &self.ours).compress(packet).is_some() {
            self.doubt(now);
        }
    }

    fn owe(&mut self, is_arq: bool) {
        self.owed = Some(if is_arq { Owed::AtOnce } else { self.owed.unwrap_or(Owed::Beside) });
    }
}

/// How long a sign of the other end's knowledge holds.
fn holds(mode: Mode) -> Duration {
    if mode.is_arq() { HOLDS_ARQ } else { HOLDS_NON_ARQ }
}

//! Compressed headers between two IP clients of ours, by what both know anyway.
//!
//! ```text
//!  datagram ─▶ Headers::wrap ─▶ U_PDU ~~~~ HF ~~~~ U_PDU ─▶ Headers::unwrap ─▶ datagram
//!                  │    first half octet:                         │
//!               Peer    4, 6     a datagram as it is            Peer
//!                       12 to 15 one with compressed headers
//!                       10       an announcement: a table of networks
//! ```
//!
//! Nothing is kept from one datagram to the next: the context is the tables of both ends, which the
//! announcements exchange, and each datagram is checked against it. So no loss can make the ends differ.
//! The octets and the reasons are in `docs/protocols/ipclient.md`.

mod coder;
mod datagram;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::backoff::Backoff;
use base::budget::Budget;
use base::time::Time;

use super::route::Route;
use super::stats::Headers as Stats;
use crate::s5066::Address;
use crate::s5066::sis::Mode;
use crate::s5066::sis::client::Received;
use crate::s5066::sis::primitive::Arrival;

pub use datagram::{Context, Undone};
pub use table::Table;

/// Header compression: the peers with compressed headers, and their tables.
#[derive(Debug)]
pub(crate) struct Headers {
    /// The nodes that routes lead to, no groups; none when nothing is compressed.
    peers: BTreeMap<Address, Peer>,
    held: Held,
    stats: Stats,
}

impl Headers {
    /// The tables follow from the routes.
    pub(crate) fn new(now: Time, routes: &[Route], is_on: bool) -> Self {
        let nodes = routes.iter().map(|route| route.to).filter(|to| is_on && !to.is_group());
        let peers = nodes.map(|node| (node, Peer::new(now, Table::of(routes, node))));
        Self { peers: peers.collect(), held: Held::default(), stats: Stats::default() }
    }

    /// What this client told in an earlier binding has to be heard of again.
    pub(crate) fn handle_bound(&mut self, now: Time) {
        self.peers.values_mut().for_each(|peer| peer.doubt(now));
    }

    /// No client takes what is sent to this node.
    pub(crate) fn handle_unreceived(&mut self, now: Time, node: Address) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.doubt(now);
        }
    }

    /// The compressed form of a datagram, if its receiver is known to read it and it is shorter.
    pub(crate) fn wrap(
        &self,
        now: Time,
        to: Address,
        mode: Mode,
        packet: &[u8],
    ) -> Option<Vec<u8>> {
        self.peers.get(&to)?.context(now, mode)?.compress(packet)
    }

    /// A datagram was handed over, in this compressed form if one is given.
    pub(crate) fn handle_wrapped(&mut self, packet: &[u8], wrapped: Option<&[u8]>) {
        if let Some(wrapped) = wrapped {
            self.stats.compressed += 1;
            self.stats.octets_before += packet.len() as u64;
            self.stats.octets_after += wrapped.len() as u64;
        }
    }

    /// The announcement that goes along with a datagram to this node, if one is due.
    pub(crate) fn due(&mut self, now: Time, to: Address, mode: Mode) -> Option<Vec<u8>> {
        self.tell(to, |peer| peer.due(now, mode))
    }

    /// An announcement to be sent by itself, and its destination.
    pub(crate) fn urgent(&mut self, now: Time) -> Option<(Address, Vec<u8>)> {
        loop {
            let (&to, _) = self.peers.iter().find(|(_, peer)| peer.is_urgent())?;
            // One that may not be sent now is not urgent any more.
            if let Some(told) = self.tell(to, |peer| peer.urgent(now)) {
                return Some((to, told));
            }
        }
    }

    fn tell(
        &mut self,
        to: Address,
        which: impl FnOnce(&mut Peer) -> Option<Announcement>,
    ) -> Option<Vec<u8>> {
        let announcement = which(self.peers.get_mut(&to)?)?;
        self.stats.announcements_sent += 1;
        let mut u_pdu = Vec::new();
        announcement.emit(&mut u_pdu);
        Some(u_pdu)
    }

    /// The datagrams in a U_PDU from a client at our access point: none for an announcement, and none for octets that
    /// can be no datagram, which are counted.
    pub(crate) fn unwrap(&mut self, now: Time, received: Received) -> Vec<Vec<u8>> {
        let Received { from, to, arrival, u_pdu, .. } = received;
        let first = u_pdu.first().map_or(0, |first| first >> 4);
        let is_arq = matches!(arrival, Arrival::Arq);
        let peer = self.peers.get_mut(&from).filter(|_| !to.is_group());
        if Context::is_compressed(first) {
            return self.restore(now, from, to, u_pdu, is_arq).into_iter().collect();
        }
        if first == Announcement::FIRST {
            let (Some(peer), Ok(said)) = (peer, Announcement::parse(&u_pdu)) else {
                self.stats.announcements_refused += 1;
                return Vec::new();
            };
            self.stats.announcements_received += 1;
            peer.handle_announcement(now, said, is_arq);
            let (held, dropped) = self.held.take(now, from);
            self.stats.unknown += dropped;
            let restored = held.into_iter();
            return restored
                .filter_map(|u_pdu| self.restore(now, from, to, u_pdu, is_arq))
                .collect();
        }
        if let Some(peer) = peer {
            peer.handle_plain(now, &u_pdu);
        }
        vec![u_pdu]
    }

    /// The datagram that was compressed, if it can be told now.
    fn restore(
        &mut self,
        now: Time,
        from: Address,
        to: Address,
        u_pdu: Vec<u8>,
        is_arq: bool,
    ) -> Option<Vec<u8>> {
        let Some(peer) = self.peers.get_mut(&from).filter(|_| !to.is_group()) else {
            self.stats.unknown += 1;
            return None;
        };
        match peer.handle_compressed(now, &u_pdu, is_arq) {
            Ok(packet) => {
                self.stats.restored += 1;
                return Some(packet);
            }
            Err(Undone::Unknown) => self.stats.unknown += self.held.push(now, from, u_pdu),
            Err(Undone::Check | Undone::TooLong | Undone::Unreadable) => {
                self.stats.mismatched += 1;
            }
        }
        None
    }

    pub(crate) fn stats(&self) -> Stats {
        self.stats
    }
}

/// Whether a U_PDU is nothing but an announcement.
pub(crate) fn is_announcement(u_pdu: &[u8]) -> bool {
    u_pdu.first().is_some_and(|first| first >> 4 == Announcement::FIRST)
}

// The agreement of two clients on header compression, from their messages to each other.
//
// ```text
//             their announcement names our table, or
//             they sent what only our table restores
//   ┌────────┐ ─────────────────────────────────────▶ ┌────────┐  we compress,
//   │doubtful│                                        │ agreed │  as long as this is
//   └────────┘ ◀───────────────────────────────────── └────────┘  young
//     we ask      they name another table, or
//                 sent as it is what could be compressed, or
//                 no client took what we sent, or we were bound anew
// ```

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
struct Peer {
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
    fn new(now: Time, ours: Table) -> Self {
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
    fn doubt(&mut self, now: Time) {
        self.shown_at = None;
        self.compresses = false;
        self.ask_at = now;
    }

    /// The context for compressing a datagram to the peer, if any.
    fn context(&self, now: Time, mode: Mode) -> Option<Context<'_>> {
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
    fn due(&mut self, now: Time, mode: Mode) -> Option<Announcement> {
        self.is_sent_to = true;
        let asks = self.ask_at <= now && !self.is_shown(now, holds(mode) / 2);
        if self.owed.is_none() && !asks {
            return None;
        }
        self.announce(now, asks)
    }

    /// Whether an announcement is to go by itself.
    fn is_urgent(&self) -> bool {
        self.owed == Some(Owed::AtOnce)
    }

    /// The announcement that goes by itself.
    fn urgent(&mut self, now: Time) -> Option<Announcement> {
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

    fn handle_announcement(&mut self, now: Time, said: Announcement, is_arq: bool) {
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
    fn handle_compressed(
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
    fn handle_plain(&mut self, now: Time, packet: &[u8]) {
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

// Holds compressed datagrams that arrived before the table to restore them.

/// Octets at most, of all nodes together.
const MOST: usize = 64 << 10;
/// What a U_PDU counts for beside its octets.
const EACH: usize = 64;
/// How long it takes at most until a node has told its table.
const LIFETIME: Duration = Duration::from_secs(300);

/// The waiting datagrams, the oldest first.
#[derive(Debug, Default)]
struct Held {
    u_pdus: VecDeque<(Time, Address, Vec<u8>)>,
    octets: usize,
}

impl Held {
    /// Takes one; how many others had to go.
    fn push(&mut self, now: Time, from: Address, u_pdu: Vec<u8>) -> u64 {
        self.octets += u_pdu.len() + EACH;
        self.u_pdus.push_back((now, from, u_pdu));
        let mut dropped = self.expire(now);
        while self.octets > MOST {
            self.pop();
            dropped += 1;
        }
        dropped
    }

    /// Drops what is too old; how many.
    fn expire(&mut self, now: Time) -> u64 {
        let mut dropped = 0;
        while self.u_pdus.front().is_some_and(|(at, ..)| now.since(*at) > LIFETIME) {
            self.pop();
            dropped += 1;
        }
        dropped
    }

    fn pop(&mut self) {
        if let Some((_, _, u_pdu)) = self.u_pdus.pop_front() {
            self.octets -= u_pdu.len() + EACH;
        }
    }

    /// Takes out the datagrams of a node in order of arrival; also returns how many datagrams were too old.
    fn take(&mut self, now: Time, from: Address) -> (Vec<Vec<u8>>, u64) {
        let dropped = self.expire(now);
        let all = std::mem::take(&mut self.u_pdus);
        let (its, others): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|(_, node, _)| *node == from);
        self.u_pdus = others;
        let its: Vec<Vec<u8>> = its.into_iter().map(|(_, _, u_pdu)| u_pdu).collect();
        self.octets -= its.iter().map(|u_pdu| u_pdu.len() + EACH).sum::<usize>();
        (its, dropped)
    }
}

// Announces a client, and its table of networks, to another client that may be one of ours.
//
// ```text
//   octet 0          1         5
//      +------+------+---------+---------- - -
//      | 1010 | 000A | heard   | table        A asks for an answer
//      +------+------+---------+---------- - -
// ```
//
// `heard` names the table that its sender has of the receiver, 0 for none. The table has the networks that the
// sender's routes lead to the receiver.

const FIXED: usize = 5;
const ASKS: u8 = 1;

/// An announcement.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Announcement {
    /// Whether it is to be answered, though nothing in it may be new.
    asks: bool,
    /// The name of the sender's table for the receiver; 0 for none.
    heard: u32,
    /// The networks behind the receiver.
    table: Table,
}

/// Why octets are no announcement.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
enum Malformed {
    /// Another first octet.
    #[error("first octet {0:#04x}")]
    First(u8),
    /// What follows is no table.
    #[error(transparent)]
    Table(#[from] table::NoTable),
    /// There are too few octets.
    #[error("{have} octets, at least {FIXED} are needed")]
    Truncated {
        /// What is there.
        have: usize,
    },
}

impl Announcement {
    /// The first half octet.
    const FIRST: u8 = 10;

    /// Reads the announcement that fills `octets`.
    fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let Some((&[first, h0, h1, h2, h3], table)) = octets.split_first_chunk::<FIXED>() else {
            return Err(Malformed::Truncated { have: octets.len() });
        };
        if first & !ASKS != Self::FIRST << 4 {
            return Err(Malformed::First(first));
        }
        let heard = u32::from_be_bytes([h0, h1, h2, h3]);
        Ok(Self { asks: first & ASKS != 0, heard, table: Table::parse(table)? })
    }

    /// Appends the octets.
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(Self::FIRST << 4 | u8::from(self.asks));
        out.extend_from_slice(&self.heard.to_be_bytes());
        self.table.emit(out);
    }
}

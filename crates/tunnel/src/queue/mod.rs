//! Queues inner packets for the tunnel: a queue for each flow, served in turn.
//!
//! ```text
//!                    ┌ flow ┐
//!  push ──▶ hash ──▶ │ flow │ ──▶ new flows, then old ones, ──▶ CoDel: pass, ──▶ pop
//!                    └ flow ┘     a quantum each in turn        mark or drop
//! ```
//!
//! This is FQ-CoDel (RFC 8290) with targets for a tunnel that must not idle: see [`codel::Law`]. A flow
//! with an empty queue goes before flows with packets queued, so that sparse traffic passes at once. [`Queue`] calls
//! `classify`, which finds a packet's flow and kind, and `codel`, which decides on signals; neither calls anything
//! here.

mod classify;
mod codel;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use base::contract::Refused;
use base::ip::{self, FlowKey, Header};
use base::rng::Rng;
use base::tcp::Peek;
use base::time::Time;
use classify::{FLOWS, Hash, Kind, Payload, TcpProgress};
use codel::{Codel, FULL_SIZE, Law, Leaving};

use super::pool::Pool;

/// Octets that a flow may send in its turn: a packet of full size (RFC 8290, 5.2).
const QUANTUM: usize = FULL_SIZE;
/// Octets that each packet counts in addition to its own: the memory of its bookkeeping.
const BOOKKEEPING: usize = 64;
/// Among so many of the first packets of a flow, a repeated one's first copy is looked for.
const SEARCHED: usize = 256;
/// Buffers that are kept for further packets.
const KEPT: usize = 1_024;
/// Places for packets that a flow keeps when it has none.
const KEPT_PLACES: usize = 64;

/// Inner packets on their way into the tunnel.
#[derive(Debug)]
pub struct Queue {
    limit: usize,
    hash: Hash,
    flows: Vec<Flow>,
    pool: Pool,
    /// Octets that wait, with their bookkeeping, by flow.
    backlogs: Vec<usize>,
    /// One of the longest flows, and an upper bound of all backlogs.
    longest: (usize, usize),
    /// The law, and the round-trip time that it was made for.
    law: (Duration, Law),
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    packets: usize,
    octets: usize,
    stats: Counters,
}

/// A packet that left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Popped {
    /// Its flow, 0 to 1,023: the same for all packets of a flow, and seldom for those of another.
    pub flow: u32,
    /// When it was pushed.
    pub arrived: Time,
    /// Whether its flow had nothing waiting shortly before.
    pub is_sparse: bool,
    /// Whether it is a TCP segment without payload, SYN, FIN and RST.
    pub is_pure_ack: bool,
    /// Its six DSCP bits.
    pub dscp: u8,
}

/// What the queue counts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Packets marked with congestion experienced.
    pub marked: u64,
    /// Packets dropped because their flow queued for too long.
    pub dropped_by_codel: u64,
    /// Packets dropped because there was no more room.
    pub dropped_at_limit: u64,
    /// TCP segments not taken because an earlier copy still waited.
    pub repeated: u64,
    /// Packets thrown away by `clear`.
    pub cleared: u64,
    /// Flows that wait now.
    flows: usize,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    packets: VecDeque<Packet>,
    is_listed: bool,
    /// The rest of the flow's turn.
    credit: isize,
    codel: Codel,
    progress: TcpProgress,
}

/// A packet that waits.
#[derive(Clone, Debug)]
struct Packet {
    octets: Vec<u8>,
    arrived: Time,
    kind: Kind,
    /// The payload, if the packet is a TCP segment with one.
    payload: Option<Payload>,
    /// Octets of the flow in the queue on the packet's arrival.
    ahead: usize,
}

impl Flow {
    /// Whether a packet with this payload waits. That one is not dropped to slow the flow down then.
    fn holds(&mut self, payload: Option<Payload>) -> bool {
        let mut first = self.packets.iter_mut().take(SEARCHED);
        let copy = first.find(|packet| packet.payload.is_some() && packet.payload == payload);
        copy.map(|copy| copy.kind = Kind::Repeat).is_some()
    }
}

impl Queue {
    /// Holds packets of at most `limit` octets, counting 64 more for each.
    pub fn new(limit: usize, rng: &mut Rng) -> Self {
        Self {
            limit,
            hash: Hash::new(rng),
            flows: vec![Flow::default(); FLOWS],
            pool: Pool::new(KEPT, limit),
            backlogs: vec![0; FLOWS],
            longest: (0, 0),
            law: (Duration::ZERO, Law::new(Duration::ZERO)),
            new: VecDeque::with_capacity(FLOWS),
            old: VecDeque::with_capacity(FLOWS),
            packets: 0,
            octets: 0,
            stats: Counters::default(),
        }
    }

    /// The bucket of a packet's flow if the packet is a TCP segment that its receiver answers.
    pub fn answered(&self, packet: &[u8]) -> Option<usize> {
        let header = Header::parse(packet).ok()?;
        let (key, offset) = FlowKey::of(&header, packet);
        let segment = Peek::of(&key, &header, packet, offset)?;
        (segment.occupies() > 0).then(|| self.hash.tag(&key).bucket())
    }

    /// Takes an inner packet, cut to the length that its IP header says.
    ///
    /// When the limit is exceeded, the longest flow loses its first packets. A TCP segment whose first copy still waits is
    /// not taken: TCP took a long wait for a loss. It learns of its error by the first copy's timestamp (RFC 3522).
    pub fn push(&mut self, now: Time, packet: &[u8]) -> Result<(), Refused> {
        let header = Header::parse(packet).map_err(|_| Refused::Malformed)?;
        let (key, offset) = FlowKey::of(&header, packet);
        let len = header.total_len;
        let tag = self.hash.tag(&key);
        let index = tag.bucket();

        let flow = &mut self.flows[index];
        let segment = Peek::of(&key, &header, packet, offset);
        let kind = Kind::of(segment, tag, &mut flow.progress);
        let payload = segment.and_then(|segment| Payload::of(segment, tag));
        if kind == Kind::Repeat && flow.holds(payload) {
            self.stats.repeated += 1;
            return Ok(());
        }
        self.stats.flows += usize::from(flow.packets.is_empty());
        let mut octets = self.pool.take();
        octets.extend_from_slice(&packet[..len]);
        let ahead = self.backlogs[index];
        flow.packets.push_back(Packet { octets, arrived: now, kind, payload, ahead });
        if !flow.is_listed {
            flow.is_listed = true;
            flow.credit = QUANTUM.cast_signed();
            self.new.push_back(index);
        }
        self.packets += 1;
        self.octets += len;
        self.backlogs[index] += len + BOOKKEEPING;
        if self.backlogs[index] >= self.backlogs[self.longest.0] {
            self.longest = (index, self.backlogs[index].max(self.longest.1));
        }
        while self.octets + self.packets * BOOKKEEPING > self.limit {
            let longest = self.longest();
            self.remove(longest);
            self.stats.dropped_at_limit += 1;
        }
        Ok(())
    }

    /// Appends the next packet to `out` if it has at most `room` octets, and the given DSCP, if any.
    ///
    /// `round_trip` is the round trip of the tunnel's path without queues, plus the time that repairs
    /// take: bulk flows may queue for a little longer. `None` also when the next packet is longer than
    /// `room` or has another DSCP; it stays the next one unless a sparse flow goes before it.
    pub fn pop(
        &mut self,
        now: Time,
        room: usize,
        dscp: Option<u8>,
        round_trip: Duration,
        out: &mut Vec<u8>,
    ) -> Option<Popped> {
        if self.law.0 != round_trip {
            self.law = (round_trip, Law::new(round_trip));
        }
        loop {
            let (index, is_sparse) = self.turn()?;
            let flow = &mut self.flows[index];
            let Packet { octets, arrived, kind, ahead, .. } = flow.packets.front_mut()?;
            let (arrived, kind, ahead) = (*arrived, *kind, *ahead);
            let len = octets.len();
            let its = ip::dscp(octets);
            if len > room || dscp.is_some_and(|dscp| dscp != its) {
                return None;
            }
            let behind = self.backlogs[index] - len - BOOKKEEPING;
            let may_be_told = match kind {
                Kind::Opening | Kind::PureAck => !is_sparse,
                Kind::Other => true,
                // A retransmission answers an earlier signal, and losing it would cost a timeout.
                Kind::Repeat => false,
            };
            let wait = now.since(arrived);
            let leaving = Leaving { wait, ahead, behind, may_be_told };
            if flow.codel.is_due(now, &leaving, &self.law.1) {
                if !ip::mark_congestion(octets) {
                    self.remove(index);
                    self.stats.dropped_by_codel += 1;
                    continue;
                }
                self.stats.marked += 1;
            }
            out.extend_from_slice(octets);
            flow.credit -= len.cast_signed();
            self.remove(index);
            let flow = u32::try_from(index).expect("below the number of flows");
            let is_pure_ack = kind == Kind::PureAck;
            return Some(Popped { flow, arrived, is_sparse, is_pure_ack, dscp: its });
        }
    }

    /// Throws everything away.
    pub fn clear(&mut self) {
        self.stats.cleared += self.packets as u64;
        self.stats.flows = 0;
        self.pool = Pool::new(KEPT, self.limit);
        self.flows.fill_with(Flow::default);
        self.backlogs.fill(0);
        self.longest = (0, 0);
        self.new.clear();
        self.old.clear();
        (self.packets, self.octets) = (0, 0);
    }

    /// Octets of the packet that `pop` would give, unless it is to be dropped.
    pub fn next_size(&mut self) -> Option<usize> {
        let (index, _) = self.turn()?;
        self.flows[index].packets.front().map(|packet| packet.octets.len())
    }

    /// Drops what would come next while it is longer than `room` octets; returns how many packets.
    pub fn drop_longer(&mut self, room: usize) -> u64 {
        let mut dropped = 0;
        while let Some((index, _)) = self.turn()
            && self.flows[index].packets.front().is_some_and(|packet| packet.octets.len() > room)
        {
            self.remove(index);
            dropped += 1;
        }
        dropped
    }

    /// All packets, those of each flow in order.
    pub fn into_packets(self) -> impl Iterator<Item = Vec<u8>> {
        self.flows.into_iter().flat_map(|flow| flow.packets).map(|packet| packet.octets)
    }

    /// Octets that wait.
    pub fn len_octets(&self) -> usize {
        self.octets
    }

    /// How many flows have packets waiting.
    pub fn waiting_flows(&self) -> usize {
        self.stats.flows
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// The counters.
    pub fn stats(&self) -> Counters {
        self.stats
    }

    /// The next flow in turn, and whether the flow is new (RFC 8290, 4.2).
    fn turn(&mut self) -> Option<(usize, bool)> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = &mut self.flows[index];
            if !flow.packets.is_empty() && flow.credit > 0 {
                return Some((index, is_new));
            }

            list.pop_front();
            if !flow.packets.is_empty() {
                flow.credit += QUANTUM.cast_signed();
                self.old.push_back(index);
            } else if is_new && !self.old.is_empty() {
                // Otherwise a flow with one packet at a time would always go before the old ones.
                self.old.push_back(index);
            } else {
                flow.is_listed = false;
            }
        }
    }

    /// Takes the first packet off a flow.
    fn remove(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let Some(packet) = flow.packets.pop_front() else { return };
        let len = packet.octets.len();
        self.pool.give(packet.octets);
        if flow.packets.is_empty() {
            flow.packets.shrink_to(KEPT_PLACES);
            self.stats.flows -= 1;
        }
        self.backlogs[index] -= len + BOOKKEEPING;
        self.packets -= 1;
        self.octets -= len;
    }

    /// The longest flow, or one at least three quarters as long: the exact one takes time to find.
    fn longest(&mut self) -> usize {
        let (index, was) = self.longest;
        if self.backlogs[index] * 4 < was * 3 || was == 0 {
            let longest = self.backlogs.iter().copied().max().unwrap_or(0);
            let index = self.backlogs.iter().position(|&backlog| backlog == longest).unwrap_or(0);
            self.longest = (index, longest);
        }
        self.longest.0
    }
}

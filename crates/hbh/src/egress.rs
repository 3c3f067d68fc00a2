//! Hands packets to the driver's routing; the last hop puts TCP segments back in order.
//!
//! When a hop retransmits a lost packet, later packets overtake it. TCP would take the reordering
//! for loss, retransmit segments that are in flight and slow down. So the last hop, and no other,
//! keeps a segment back while an earlier one is missing, but never longer than `hold`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::ip::FlowKey;
use base::serial;
use base::tcp::Peek;
use base::time::Time;

use super::link::Peer;
use super::pool::Pool;

/// Segments that one connection keeps back at most; one more gives up the first gap. While a hop sends a lost packet
/// again, everything arrives that the hop carries meanwhile: at 100 Mbit/s and 100 ms, 833 packets for each round trip.
const HELD_PER_FLOW: usize = 4_096;
/// Connections remembered at most; the segments of other connections pass in order of arrival.
const FLOWS: usize = 4_096;

#[derive(Debug)]
pub struct Egress {
    flows: BTreeMap<FlowKey, Flow>,
    /// Segments that all connections keep back, and the most that they may.
    held: usize,
    most: usize,
    /// When the gaps of flows have lasted for too long.
    deadlines: BTreeSet<(Time, FlowKey)>,
    ready: VecDeque<(Peer, Vec<u8>)>,
    /// Gaps that were not filled in time, or before a connection or the node had to keep too many segments.
    given_up: u64,
    /// Segments dropped: another one from the same place has all their octets.
    contained: u64,
}

/// A TCP segment that leaves HBH here.
#[derive(Clone, Copy, Debug)]
pub struct LeavingSegment {
    pub key: FlowKey,
    pub tcp: Peek,
    /// Whether something before it will not come.
    pub has_hole: bool,
}

#[derive(Debug)]
struct Flow {
    /// The place after the last octet that left in order: a sequence number that does not wrap.
    next: u64,
    /// In order of their places.
    held: VecDeque<Held>,
    gives_up_at: Option<Time>,
    /// How long to wait for a gap to be filled: half as long after a gap that stayed open, for HBH
    /// may not have caused it, and twice as long after a filled gap.
    hold: Duration,
    /// Who brought the latest segment.
    from: Peer,
    used_at: Time,
}

#[derive(Debug)]
struct Held {
    start: u64,
    end: u64,
    from: Peer,
    octets: Vec<u8>,
}

impl Egress {
    /// Keeps back at most `most` segments.
    pub fn new(most: usize) -> Self {
        Self {
            flows: BTreeMap::new(),
            held: 0,
            most,
            deadlines: BTreeSet::new(),
            ready: VecDeque::new(),
            given_up: 0,
            contained: 0,
        }
    }

    /// Keeps back at most `most` segments from now on.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Takes a packet that `from` brought; only a `segment` that leaves HBH here is put in order.
    pub fn handle_packet(
        &mut self,
        now: Time,
        from: Peer,
        octets: Vec<u8>,
        segment: Option<LeavingSegment>,
        hold: Duration,
        pool: &mut Pool,
    ) {
        let Some(LeavingSegment { key, tcp, has_hole }) = segment.filter(|_| !hold.is_zero())
        else {
            self.ready.push_back((from, octets));
            return;
        };
        let Some(mut flow) = self.flows.remove(&key) else {
            if self.flows.len() < FLOWS {
                self.flows.insert(key, Flow::new(now, from, tcp, hold));
            }
            self.ready.push_back((from, octets));
            return;
        };

        self.deadlines.remove(&(flow.gives_up_at.unwrap_or(Time::MAX), key));
        (flow.from, flow.used_at) = (from, now);
        self.held -= flow.held.len();
        if tcp.is_syn() {
            flow.release_all(&mut self.ready);
            flow = Flow::new(now, from, tcp, hold);
            self.ready.push_back((from, octets));
        } else {
            if has_hole {
                flow.give_up_before(tcp, &mut self.ready);
            }
            let is_full =
                flow.held.len() >= HELD_PER_FLOW || self.held + flow.held.len() >= self.most;
            if is_full && flow.is_early(tcp) {
                self.given_up += 1;
                flow.give_up_first(now, tcp, &mut self.ready);
            }
            let contained = flow.handle_segment(now, tcp, (from, octets), hold, &mut self.ready);
            if let Some(contained) = contained {
                self.contained += 1;
                pool.give(contained);
            }
        }
        self.held += flow.held.len();
        if let Some(at) = flow.gives_up_at {
            self.deadlines.insert((at, key));
        }
        self.flows.insert(key, flow);
    }

    /// Returns the next outgoing packet, and the peer that brought it.
    pub fn poll(&mut self) -> Option<(Peer, Vec<u8>)> {
        self.ready.pop_front()
    }

    /// Releases a connection that goes on through HBH: none of its segments is kept back.
    pub fn let_go(&mut self, key: &FlowKey) {
        if let Some(mut flow) = self.flows.remove(key) {
            self.deadlines.remove(&(flow.gives_up_at.unwrap_or(Time::MAX), *key));
            self.held -= flow.held.len();
            flow.release_all(&mut self.ready);
        }
    }

    /// Releases and forgets the connections by `peer`, which is gone: it will fill no gap, and what goes on by plain IP
    /// is no gap when the peer is back.
    pub fn let_go_of(&mut self, peer: Peer) {
        let is_by =
            |flow: &Flow| flow.from == peer || flow.held.iter().any(|held| held.from == peer);
        let its = self.flows.iter().filter(|(_, flow)| is_by(flow));
        for key in its.map(|(&key, _)| key).collect::<Vec<_>>() {
            self.let_go(&key);
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Moves over gaps that have lasted for too long.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(&(at, key)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            let Some(flow) = self.flows.get_mut(&key) else { continue };
            self.given_up += 1;
            self.held -= flow.held.len();
            flow.hold /= 2;
            if let Some(first) = flow.take_first() {
                flow.next = first.end;
                self.ready.push_back((first.from, first.octets));
            }
            flow.release(&mut self.ready);
            flow.gives_up_at = (!flow.held.is_empty()).then(|| now + flow.hold);
            if let Some(at) = flow.gives_up_at.filter(|&at| at > now) {
                self.deadlines.insert((at, key));
            } else {
                flow.release_all(&mut self.ready);
            }
            self.held += flow.held.len();
        }
    }

    /// Forgets connections that keep nothing back and had no traffic since `before`.
    pub fn forget(&mut self, before: Time) {
        self.flows.retain(|_, flow| flow.used_at > before || !flow.held.is_empty());
    }

    /// Connections that are remembered.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Gaps that were not waited for until they were filled.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Segments dropped because another one has all their octets.
    pub fn contained(&self) -> u64 {
        self.contained
    }
}

impl Flow {
    fn new(now: Time, from: Peer, tcp: Peek, hold: Duration) -> Self {
        // One turn above zero, so that no segment lies before the start.
        let next = (1 << 32) + u64::from(tcp.seq) + u64::from(tcp.occupies());
        Self { next, held: VecDeque::new(), gives_up_at: None, hold, from, used_at: now }
    }

    /// Passes a segment on, or keeps it back. Returns a segment that is dropped, since one kept back has all its octets.
    fn handle_segment(
        &mut self,
        now: Time,
        tcp: Peek,
        (from, octets): (Peer, Vec<u8>),
        hold: Duration,
        ready: &mut VecDeque<(Peer, Vec<u8>)>,
    ) -> Option<Vec<u8>> {
        let start = self.place(tcp.seq);
        let end = start + u64::from(tcp.occupies());
        if !self.is_early(tcp) {
            ready.push_back((from, octets));
            if start <= self.next && end > self.next {
                self.next = end;
                if self.release(ready) {
                    self.hold = (self.hold * 2).min(hold);
                    self.gives_up_at = (!self.held.is_empty()).then(|| now + self.hold);
                }
            }
            return None;
        }
        self.gives_up_at.get_or_insert(now + self.hold.min(hold));
        let held = Held { start, end, from, octets };
        match self.held.binary_search_by_key(&start, |held| held.start) {
            Ok(same) if held.end < self.held[same].end => Some(held.octets),
            // A repeat has the newer acknowledgement.
            Ok(same) => Some(std::mem::replace(&mut self.held[same], held).octets),
            Err(at) => {
                self.held.insert(at, held);
                None
            }
        }
    }

    /// Whether something is missing before a segment. An acknowledgement alone carries nothing that could be out of order.
    fn is_early(&self, tcp: Peek) -> bool {
        self.place(tcp.seq) > self.next && tcp.occupies() > 0 && !tcp.is_reset()
    }

    /// Does not wait for the first gap any longer: the gap before the first segment kept back, or else before this one.
    fn give_up_first(&mut self, now: Time, tcp: Peek, ready: &mut VecDeque<(Peer, Vec<u8>)>) {
        match self.take_first() {
            Some(first) => {
                self.next = first.end;
                ready.push_back((first.from, first.octets));
                self.release(ready);
            }
            None => self.next = self.place(tcp.seq),
        }
        self.gives_up_at = (!self.held.is_empty()).then(|| now + self.hold);
    }

    /// What is missing before a segment will not come.
    fn give_up_before(&mut self, tcp: Peek, ready: &mut VecDeque<(Peer, Vec<u8>)>) {
        let start = self.place(tcp.seq);
        while self.held.front().is_some_and(|held| held.start < start)
            && let Some(held) = self.take_first()
        {
            self.next = self.next.max(held.end);
            ready.push_back((held.from, held.octets));
        }
        self.next = self.next.max(start);
        self.release(ready);
        self.gives_up_at = self.gives_up_at.filter(|_| !self.held.is_empty());
    }

    /// Where `seq` lies, given that it is within half the sequence space of `next`.
    fn place(&self, seq: u32) -> u64 {
        let low = serial::low32(self.next);
        let ahead = seq.wrapping_sub(low).cast_signed();
        self.next.saturating_add_signed(i64::from(ahead))
    }

    /// Releases the segments now in order; returns whether any were released.
    fn release(&mut self, ready: &mut VecDeque<(Peer, Vec<u8>)>) -> bool {
        let mut is_any = false;
        while self.held.front().is_some_and(|held| held.start <= self.next)
            && let Some(held) = self.take_first()
        {
            self.next = self.next.max(held.end);
            ready.push_back((held.from, held.octets));
            is_any = true;
        }
        is_any
    }

    fn release_all(&mut self, ready: &mut VecDeque<(Peer, Vec<u8>)>) {
        ready.extend(self.held.drain(..).map(|held| (held.from, held.octets)));
        self.gives_up_at = None;
    }

    fn take_first(&mut self) -> Option<Held> {
        self.held.pop_front()
    }
}

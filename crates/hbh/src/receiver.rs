//! Receives one flow from one peer: tracks arrivals (ooList) and schedules acknowledgements.

use std::collections::VecDeque;
use std::time::Duration;

use base::ip::FlowKey;
use base::time::Time;

use super::config::Profile;
use super::link::Peer;
use super::pool::Pool;
use super::repair::Decoder;
use super::wire::{
    ACK, Ack, Data, Echo, FlowId, INTERVAL, Intervals, MAX_INTERVALS, RECOVERED, Repair, Seq,
    Transmission,
};

/// An acknowledgement waits for no more than this many packets.
const PACKETS_PER_ACK: u8 = 16;

/// Packets that a flow may bring without one of them coming back, before it is taken to leave HBH
/// here after all.
const UNRETURNED: u16 = 64;

/// Holes that are remembered until the packet behind them goes on.
const HOLES: usize = 32;

#[derive(Debug)]
pub(super) struct Receiver {
    /// The addresses and ports of its packets, once one has come.
    key: Option<FlowKey>,
    /// The flow on its next hop, when it goes on through HBH.
    downstream: Option<(Peer, FlowId)>,
    /// Packets restored since one came back to be sent on.
    unreturned: u16,
    used_at: Time,
    decoder: Decoder,
    id: FlowId,
    /// The lowest number that has not arrived and may still come.
    next: Seq,
    /// Bit `i`: number `next + i` has arrived (ooList).
    arrived: u128,
    last: Option<Arrival>,
    /// When the next acknowledgement must go out.
    ack_at: Option<Time>,
    unacknowledged: u8,
    /// Whether the sender was told of congestion and not yet of its end.
    told_congested: bool,
    /// Packets that did not come by themselves, modulo 64.
    recovered: u8,
    /// TCP sequence numbers of packets that have a hole before them and go on from here.
    holes: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    of: Transmission,
    at: Time,
}

impl Receiver {
    /// The state after the first packet of a flow that came with `data`'s number.
    pub(super) fn new(now: Time, data: &Data<'_>, window: u8, profile: Profile) -> Self {
        let next = match profile {
            Profile::Default => data.seq.minus(data.outstanding),
            Profile::Paper if data.seq.0 < window => Seq(0),
            Profile::Paper => data.seq.minus(window - 1),
        };
        Self {
            key: None,
            downstream: None,
            unreturned: 0,
            used_at: now,
            decoder: Decoder::default(),
            id: data.flow,
            next,
            arrived: 0,
            last: None,
            ack_at: None,
            unacknowledged: 0,
            told_congested: false,
            recovered: 0,
            holes: VecDeque::new(),
        }
    }

    /// Takes a packet; returns whether it is new.
    ///
    /// Its acknowledgement may wait for the first of `wait`, for the second while something is
    /// missing. `window` is the seed's W, because a number `n` proves that the sender is done with
    /// `n - W`.
    pub(super) fn handle_data(
        &mut self,
        now: Time,
        data: &Data<'_>,
        wait: (Duration, Duration),
        window: u8,
        profile: Profile,
        pool: &mut Pool,
    ) -> bool {
        self.used_at = now;
        let lowest = match profile {
            Profile::Default => data.seq.minus(data.outstanding),
            Profile::Paper => data.seq.minus(window - 1),
        };
        self.advance(lowest, pool);
        let is_new = self.record(data.seq);
        let of = Transmission::Packet { seq: data.seq, copy: data.copy };
        self.last = Some(Arrival { of, at: now });
        self.unacknowledged = self.unacknowledged.saturating_add(1);

        match profile {
            // A duplicate has been acknowledged already; a sender that missed the acknowledgement
            // asks.
            Profile::Default if !is_new && !data.wants_ack => {}
            Profile::Default => {
                let is_urgent = data.wants_ack || self.unacknowledged >= PACKETS_PER_ACK;
                let wait = if self.arrived == 0 { wait.0 } else { wait.1 };
                self.schedule_ack(if is_urgent { now } else { now + wait });
            }
            Profile::Paper if data.wants_ack => self.schedule_ack(now),
            Profile::Paper => {}
        }
        is_new
    }

    /// Takes a repair.
    pub(super) fn handle_repair(&mut self, now: Time, repair: &Repair<'_>, pool: &mut Pool) {
        self.used_at = now;
        self.last = Some(Arrival { of: Transmission::Repair { id: repair.id }, at: now });
        let mut decoder = std::mem::take(&mut self.decoder);
        decoder.handle_repair(repair, |seq| self.has_arrived(seq), pool);
        self.decoder = decoder;
    }

    /// Whether `repair` covers a packet that has not arrived.
    pub(super) fn needs(&self, repair: &Repair<'_>) -> bool {
        repair.mask.iter().any(|offset| !self.has_arrived(repair.first.plus(offset)))
    }

    /// Keeps a packet that arrived for the repairs that may cover it.
    pub(super) fn keep(
        &mut self,
        seq: Seq,
        packet: &[u8],
        header_len: usize,
        has_hole: bool,
        pool: &mut Pool,
    ) {
        self.decoder.handle_packet(seq, packet, header_len, has_hole, pool);
    }

    /// Forgets all packets kept for repairs.
    pub(super) fn drop_kept(&mut self) {
        self.decoder = Decoder::default();
    }

    /// The next packet that repairs recover, whether it has a hole before it, and whether it is new; `header` is the
    /// IP header of a packet of the flow.
    pub(super) fn poll_recovered(
        &mut self,
        header: &[u8],
        protocol: u8,
        pool: &mut Pool,
    ) -> Option<(Vec<u8>, bool, bool)> {
        let (seq, packet, has_hole) = self.decoder.poll_recovered(header, protocol, pool)?;
        self.decoder.handle_packet(seq, &packet, header.len(), has_hole, pool);
        Some((packet, has_hole, self.handle_recovered(seq)))
    }

    /// The addresses and ports of its packets, once one has come.
    pub(super) fn key(&self) -> Option<FlowKey> {
        self.key
    }

    /// Notes the addresses and ports of its packets; returns those before.
    pub(super) fn set_key(&mut self, key: FlowKey) -> Option<FlowKey> {
        self.key.replace(key)
    }

    /// The flow on its next hop, when it goes on through HBH.
    pub(super) fn downstream(&self) -> Option<(Peer, FlowId)> {
        self.downstream
    }

    /// A packet was restored. After many of which none came back, the flow is taken to leave HBH here.
    pub(super) fn handle_restored(&mut self) {
        self.unreturned = self.unreturned.saturating_add(1);
        if self.unreturned > UNRETURNED {
            self.downstream = None;
        }
    }

    /// A packet came back to go on by the flow `downstream`; returns whether that was not known.
    pub(super) fn handle_returned(&mut self, downstream: (Peer, FlowId)) -> bool {
        self.unreturned = 0;
        self.downstream.replace(downstream).is_none()
    }

    /// When the flow last brought something.
    pub(super) fn used_at(&self) -> Time {
        self.used_at
    }

    /// Takes note of a packet that did not come by itself; returns whether it is new.
    pub(super) fn handle_recovered(&mut self, seq: Seq) -> bool {
        let is_new = self.record(seq);
        if is_new {
            self.recovered = (self.recovered + 1) % RECOVERED;
        }
        is_new
    }

    /// The packet with this TCP sequence number has a hole before it.
    pub(super) fn note_hole(&mut self, tcp_seq: u32) {
        if self.holes.len() == HOLES {
            self.holes.pop_front();
        }
        self.holes.push_back(tcp_seq);
    }

    /// Whether the packet with this TCP sequence number has a hole before it; told once.
    pub(super) fn take_hole(&mut self, tcp_seq: u32) -> bool {
        let found = self.holes.iter().position(|&seq| seq == tcp_seq);
        found.is_some_and(|at| self.holes.remove(at).is_some())
    }

    /// Whether the packet of this number has arrived, or will not come any more.
    fn has_arrived(&self, seq: Seq) -> bool {
        match u32::try_from(seq.since(self.next)) {
            Ok(ahead) => self.arrived >> ahead & 1 == 1,
            Err(_) => true,
        }
    }

    /// An acknowledgement must go out at `at` or before.
    pub(super) fn schedule_ack(&mut self, at: Time) {
        self.ack_at = Some(self.ack_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// When the next acknowledgement must go out.
    pub(super) fn ack_at(&self) -> Option<Time> {
        self.ack_at
    }

    /// Whether the sender has been told of congestion and not of its end.
    pub(super) fn told_congested(&self) -> bool {
        self.told_congested
    }

    /// Octets of the acknowledgement.
    pub(super) fn ack_len(&self) -> usize {
        ACK + runs(self.next, self.arrived).count() * INTERVAL
    }

    /// Appends the acknowledgement.
    pub(super) fn emit(
        &mut self,
        now: Time,
        profile: Profile,
        is_congested: bool,
        is_followed: bool,
        out: &mut Vec<u8>,
    ) {
        let is_ours = profile == Profile::Default;
        let echo = self
            .last
            .filter(|_| is_ours)
            .map(|last| Echo { of: last.of, delay: Some(now.since(last.at)) });
        let recovered = if is_ours { self.recovered } else { 0 };
        let mut intervals = [[0; INTERVAL]; MAX_INTERVALS];
        let mut count = 0;
        for (interval, (first, last)) in intervals.iter_mut().zip(runs(self.next, self.arrived)) {
            *interval = [first.0, last.0];
            count += 1;
        }
        let intervals = Intervals::new(&intervals[..count]);
        let (flow, next) = (self.id, self.next);
        Ack { flow, next, is_congested, recovered, echo, intervals, is_followed }.emit(out);

        self.told_congested = is_congested;
        self.ack_at = None;
        self.unacknowledged = 0;
    }

    /// Everything before `lowest` has arrived or will not come.
    fn advance(&mut self, lowest: Seq, pool: &mut Pool) {
        let steps = lowest.since(self.next);
        if steps > 0 {
            self.arrived = self.arrived.checked_shr(steps.unsigned_abs().into()).unwrap_or(0);
            self.next = lowest;
            self.skip();
            let next = self.next;
            self.decoder.forget(|seq| seq.since(next) < 0, pool);
        }
    }

    fn record(&mut self, seq: Seq) -> bool {
        let Ok(ahead) = u32::try_from(seq.since(self.next)) else { return false };
        let bit = 1 << ahead;
        if self.arrived & bit != 0 {
            return false;
        }
        self.arrived |= bit;
        self.skip();
        true
    }

    /// Moves `next` over what has arrived.
    fn skip(&mut self) {
        let run = self.arrived.trailing_ones();
        self.arrived = self.arrived.checked_shr(run).unwrap_or(0);
        self.next = self.next.plus(u8::try_from(run).expect("at most 128 bits"));
    }
}

/// The runs of ones of `arrived`, whose bit 0 stands for `base`.
fn runs(base: Seq, mut arrived: u128) -> impl Iterator<Item = (Seq, Seq)> {
    let mut at = 0_u32;
    std::iter::from_fn(move || {
        if arrived == 0 {
            return None;
        }
        let gap = arrived.trailing_zeros();
        let run = (arrived >> gap).trailing_ones();
        let first = at + gap;
        at = first + run;
        arrived = arrived.checked_shr(gap + run).unwrap_or(0);
        let number = |offset: u32| base.plus(u8::try_from(offset).expect("at most 128 bits"));
        Some((number(first), number(first + run - 1)))
    })
}

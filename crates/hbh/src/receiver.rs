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

/// Holes that are remembered until the packet behind them goes on.
const HOLES: usize = 32;

#[derive(Debug)]
pub(super) struct Receiver {
    /// The addresses and ports of its packets, once one has come.
    pub(super) key: Option<FlowKey>,
    /// The flow on its next hop, when it goes on through HBH.
    pub(super) downstream: Option<(Peer, FlowId)>,
    /// Packets restored since one came back to be sent on.
    pub(super) unreturned: u16,
    pub(super) used_at: Time,
    pub(super) decoder: Decoder,
    id: FlowId,
    /// The lowest number that has not arrived and may still come.
    next: Seq,
    /// Bit `i`: number `next + i` has arrived (ooList).
    arrived: u128,
    last: Option<Arrival>,
    /// When the acknowledgement that is owed must go out.
    owed_at: Option<Time>,
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
            owed_at: None,
            unacknowledged: 0,
            told_congested: false,
            recovered: 0,
            holes: VecDeque::new(),
        }
    }

    /// Takes a packet; returns whether it is new.
    ///
    /// Its acknowledgement may wait for the first of `patience`, for the second while something is
    /// missing. `window` is the seed's W, because a number `n` proves that the sender is done with
    /// `n - W`.
    pub(super) fn handle_data(
        &mut self,
        now: Time,
        data: &Data<'_>,
        patience: (Duration, Duration),
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
                let patience = if self.arrived == 0 { patience.0 } else { patience.1 };
                self.owe(if is_urgent { now } else { now + patience });
            }
            Profile::Paper if data.wants_ack => self.owe(now),
            Profile::Paper => {}
        }
        is_new
    }

    /// Takes note that a repair arrived.
    pub(super) fn handle_repair(&mut self, now: Time, repair: &Repair<'_>) {
        self.used_at = now;
        self.last = Some(Arrival { of: Transmission::Repair { id: repair.id }, at: now });
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
    pub(super) fn has_arrived(&self, seq: Seq) -> bool {
        match u32::try_from(seq.since(self.next)) {
            Ok(ahead) => self.arrived >> ahead & 1 == 1,
            Err(_) => true,
        }
    }

    /// An acknowledgement must go out at `at` or before.
    pub(super) fn owe(&mut self, at: Time) {
        self.owed_at = Some(self.owed_at.map_or(at, |owed| owed.min(at)));
    }

    /// When the acknowledgement that is owed must go out.
    pub(super) fn owed_at(&self) -> Option<Time> {
        self.owed_at
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
        self.owed_at = None;
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

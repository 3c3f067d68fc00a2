//! Receives a flow from a peer: tracks arrivals (ooList) and schedules acknowledgements.

use std::collections::VecDeque;
use std::time::Duration;

use base::ip::FlowKey;
use base::time::Time;

use super::config::Profile;
use super::link::Peer;
use super::pool::Pool;
use super::repair::Decoder;
use super::runs::Runs;
use super::wire::{
    ACK, Ack, Data, Echo, FlowId, INTERVAL, Intervals, Layout, MAX_INTERVALS, RECOVERED, Repair,
    Seq, Transmission,
};

/// An acknowledgement waits for no more than this many packets.
const PACKETS_PER_ACK: u8 = 16;

/// If more packets of a flow than this are restored and none comes back, the flow is taken to leave HBH here after all.
const UNRETURNED: u16 = 64;

/// Holes that are remembered until the packet behind them goes on.
const HOLES: usize = 32;

/// The least that the first number of a flow can be: no arithmetic gets below zero.
pub const START: u64 = 1 << 32;

#[derive(Debug)]
pub struct Receiver {
    /// The addresses and ports of the flow's packets, known after the first packet.
    key: Option<FlowKey>,
    /// The flow on the next hop, if the packets go on through HBH.
    downstream: Option<(Peer, FlowId)>,
    /// Packets restored since one came back to be sent on.
    unreturned: u16,
    used_at: Time,
    decoder: Decoder,
    id: FlowId,
    layout: Layout,
    /// Which numbers have arrived (ooList).
    arrived: Runs,
    last: Option<Arrival>,
    /// When the next acknowledgement must go out.
    ack_at: Option<Time>,
    unacknowledged: u8,
    /// Whether the sender was told of congestion, and not yet of the end of congestion.
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
    /// A flow whose first packet is about to come.
    ///
    /// `first` is the low bits of the lowest number that may come.
    pub fn new(now: Time, id: FlowId, first: Seq, layout: Layout) -> Self {
        Self {
            key: None,
            downstream: None,
            unreturned: 0,
            used_at: now,
            decoder: Decoder::default(),
            id,
            layout,
            arrived: Runs::new(layout.complete(first, START)),
            last: None,
            ack_at: None,
            unacknowledged: 0,
            told_congested: false,
            recovered: 0,
            holes: VecDeque::new(),
        }
    }

    /// The number with these low bits.
    pub fn number(&self, low: Seq) -> u64 {
        self.layout.complete(low, self.arrived.next())
    }

    /// Whether a packet with this number can be noted: numbers in too many runs cannot.
    pub fn has_room(&self, number: u64) -> bool {
        let most = self.arrived.next() + self.layout.span() as u64;
        number <= most && self.arrived.has_room(number)
    }

    /// Everything before `lowest` has arrived or will not come.
    pub fn settle(&mut self, lowest: u64, pool: &mut Pool) {
        if self.arrived.settle(lowest) {
            let next = self.arrived.next();
            self.decoder.forget(|number| number < next, pool);
        }
    }

    /// Takes the packet with this number; returns whether it is new.
    ///
    /// Its acknowledgement may wait for the first of `wait`, for the second while something is
    /// missing.
    pub fn handle_data(
        &mut self,
        now: Time,
        number: u64,
        data: &Data<'_>,
        wait: (Duration, Duration),
        profile: Profile,
    ) -> bool {
        self.used_at = now;
        let is_new = self.arrived.record(number);
        let of = data.repeat.map_or(Transmission::First(data.seq), Transmission::Repeat);
        self.last = Some(Arrival { of, at: now });
        self.unacknowledged = self.unacknowledged.saturating_add(1);

        match profile {
            // A duplicate has been acknowledged already; a sender that missed the acknowledgement
            // asks.
            Profile::Default if !is_new && !data.wants_ack => {}
            Profile::Default => {
                let is_urgent = data.wants_ack || self.unacknowledged >= PACKETS_PER_ACK;
                let wait = if self.arrived.is_whole() { wait.0 } else { wait.1 };
                self.schedule_ack(if is_urgent { now } else { now + wait });
            }
            Profile::Paper if data.wants_ack => self.schedule_ack(now),
            Profile::Paper => {}
        }
        is_new
    }

    /// Takes a repair.
    pub fn handle_repair(&mut self, now: Time, repair: &Repair<'_>, pool: &mut Pool) {
        self.used_at = now;
        self.last = Some(Arrival { of: Transmission::Repeat(repair.repeat), at: now });
        let first = self.number(repair.first);
        let arrived = &self.arrived;
        self.decoder.handle_repair(repair, first, |number| arrived.contains(number), pool);
    }

    /// Whether `repair` covers a packet that has not arrived.
    pub fn needs(&self, repair: &Repair<'_>) -> bool {
        let first = self.number(repair.first);
        repair.mask.iter().any(|offset| !self.arrived.contains(first + u64::from(offset)))
    }

    /// Keeps an arrived packet, because later repairs may cover the packet.
    pub fn keep(
        &mut self,
        number: u64,
        packet: &[u8],
        header_len: usize,
        has_hole: bool,
        pool: &mut Pool,
    ) {
        self.decoder.handle_packet(number, packet, header_len, has_hole, pool);
    }

    /// Forgets all packets kept for repairs.
    pub fn drop_kept(&mut self) {
        self.decoder = Decoder::default();
    }

    /// The next packet that repairs recover, whether a hole is before the packet, and whether the packet is new;
    /// `header` is the IP header of a packet of the flow.
    pub fn poll_recovered(
        &mut self,
        header: &[u8],
        protocol: u8,
        pool: &mut Pool,
    ) -> Option<(Vec<u8>, bool, bool)> {
        let (number, packet, has_hole) = self.decoder.poll_recovered(header, protocol, pool)?;
        self.decoder.handle_packet(number, &packet, header.len(), has_hole, pool);
        Some((packet, has_hole, self.handle_recovered(number)))
    }

    /// The addresses and ports of the flow's packets, known after the first packet.
    pub fn key(&self) -> Option<FlowKey> {
        self.key
    }

    /// Notes the addresses and ports of the flow's packets; returns the previous ones.
    pub fn set_key(&mut self, key: FlowKey) -> Option<FlowKey> {
        self.key.replace(key)
    }

    /// The flow on the next hop, if the packets go on through HBH.
    pub fn downstream(&self) -> Option<(Peer, FlowId)> {
        self.downstream
    }

    /// A packet was restored. After many of which none came back, the flow is taken to leave HBH here.
    pub fn handle_restored(&mut self) {
        self.unreturned = self.unreturned.saturating_add(1);
        if self.unreturned > UNRETURNED {
            self.downstream = None;
        }
    }

    /// A packet came back to go on by the flow `downstream`; returns whether that was not known.
    pub fn handle_returned(&mut self, downstream: (Peer, FlowId)) -> bool {
        self.unreturned = 0;
        self.downstream.replace(downstream).is_none()
    }

    /// When the flow last brought something.
    pub fn used_at(&self) -> Time {
        self.used_at
    }

    /// Takes note of a packet that did not come by itself; returns whether it is new.
    pub fn handle_recovered(&mut self, number: u64) -> bool {
        let is_new = self.has_room(number) && self.arrived.record(number);
        if is_new {
            self.recovered = (self.recovered + 1) % RECOVERED;
        }
        is_new
    }

    /// The packet with this TCP sequence number has a hole before it.
    pub fn note_hole(&mut self, tcp_seq: u32) {
        if self.holes.len() == HOLES {
            self.holes.pop_front();
        }
        self.holes.push_back(tcp_seq);
    }

    /// Whether the packet with this TCP sequence number has a hole before it; told once.
    pub fn take_hole(&mut self, tcp_seq: u32) -> bool {
        let found = self.holes.iter().position(|&seq| seq == tcp_seq);
        found.is_some_and(|at| self.holes.remove(at).is_some())
    }

    /// An acknowledgement must go out at `at` or before.
    pub fn schedule_ack(&mut self, at: Time) {
        self.ack_at = Some(self.ack_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// When the next acknowledgement must go out.
    pub fn ack_at(&self) -> Option<Time> {
        self.ack_at
    }

    /// Whether the sender was told of congestion, and not yet of the end of congestion.
    pub fn told_congested(&self) -> bool {
        self.told_congested
    }

    /// Octets of the acknowledgement.
    pub fn ack_len(&self) -> usize {
        ACK + self.arrived.runs().count().min(MAX_INTERVALS) * INTERVAL
    }

    /// Appends the acknowledgement.
    pub fn emit(
        &mut self,
        now: Time,
        profile: Profile,
        is_congested: bool,
        is_followed: bool,
        intervals: &mut Vec<[u8; INTERVAL]>,
        out: &mut Vec<u8>,
    ) {
        let is_ours = profile == Profile::Default;
        let echo = self
            .last
            .filter(|_| is_ours)
            .map(|last| Echo { of: last.of, delay: Some(now.since(last.at)) });
        let recovered = if is_ours { self.recovered } else { 0 };
        let next = self.arrived.next();
        Intervals::write(self.layout, next, self.arrived.runs(), intervals);
        let ack = Ack {
            is_congested,
            recovered,
            echo,
            intervals: Intervals::new(intervals),
            is_followed,
            ..Ack::new(self.id, self.layout.low(next))
        };
        ack.emit(self.layout, out);

        self.told_congested = is_congested;
        self.ack_at = None;
        self.unacknowledged = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_holes_that_wait_for_their_packet_the_latest_are_told_once() {
        let mut receiver = Receiver::new(Time::ZERO, FlowId(1), Seq(0), Layout::Wide);
        for seq in 0..40 {
            receiver.note_hole(seq);
        }

        let told: Vec<u32> = (0..40).filter(|&seq| receiver.take_hole(seq)).collect();

        assert_eq!(told, (8..40).collect::<Vec<_>>());
        assert!(!receiver.take_hole(39));
    }
}

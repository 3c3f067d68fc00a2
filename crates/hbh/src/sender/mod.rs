//! Sends one flow to one peer: waiting packets (outputQ), unacknowledged packets (nACKedQ), and the
//! choice of the next.
//!
//! ```text
//!            handle_packet                       transmit                   handle_ack
//!  ────────▶ queue (outputQ, at most L) ───────▶ flight (nACKedQ) ─────────▶ done
//!                                                   │  ▲
//!                                  overtaken, or    ▼  │ sent again, at most R times
//!                                  silence         lost
//! ```
//!
//! Links keep order, so a packet is lost once a later transmission is known to have arrived; an
//! echo names that transmission. The profile `seed` knows only its timer.

mod course;
mod queue;

use std::collections::VecDeque;
use std::time::Duration;

use base::ip::FlowKey;
use base::tcp::Peek;
use base::time::{Time, earliest};
use course::Course;
use queue::Queue;

use super::config::{Config, PROBE_INTERVAL, Profile};
use super::link::Peer;
use super::pacer::Pacer;
use super::packet::Packet;
use super::peer::{Learned, PeerPath};
use super::pool::Pool;
use super::repair;
use super::rtt::Estimator;
use super::stats::Sent;
use super::window::Window;
use super::wire::{
    self, Ack, COPIES, Data, FlowId, MAX_SPAN, Mask, RECOVERED, Repair, Seq, Transmission,
};

/// A flow towards a peer.
#[derive(Debug)]
pub(super) struct Sender {
    key: FlowKey,
    /// Where the flow comes from, when a peer sends it.
    upstream: Option<(Peer, FlowId)>,
    listing: Listing,
    used_at: Time,
    id: FlowId,
    queue: Queue,
    flight: Flight,
    course: Course,
    /// When anything was last sent.
    last_sent: Time,
    /// When a packet was last sent that was not a repair or a copy.
    last_packet: Time,
    /// Packets sent since an acknowledgement was last asked for; only the profile `seed` counts them.
    since_request: u8,
    /// Silences in a row.
    expiries: u8,
    /// Repairs that may still arrive.
    repairs: VecDeque<SentRepair>,
    next_repair: u8,
    /// Memory for the packets that ride on the next one.
    older: Vec<u8>,
    /// How many packets the peer has recovered, modulo 64, as it said last.
    recovered: u8,
    /// How much later a transmission may arrive than one after it.
    reordering: Duration,
    window: Window,
    pacer: Pacer,
}

/// A flow's place in the lists of its link and node.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Whether the link's turn list holds the flow.
    is_listed: bool,
    /// Whether the flow is in the link's list of flows that may use idle time.
    is_spare_listed: bool,
    /// Octets that the flow may still send in this turn.
    deficit: usize,
    /// The deadline in the node's timers.
    timer: Option<Time>,
}

impl Listing {
    /// Notes that the turn list of the link holds the flow; returns whether that is new.
    pub(super) fn list(&mut self) -> bool {
        !std::mem::replace(&mut self.is_listed, true)
    }

    pub(super) fn unlist(&mut self) {
        (self.is_listed, self.deficit) = (false, 0);
    }

    /// The same for the list of flows that may use idle time.
    pub(super) fn list_spare(&mut self) -> bool {
        !std::mem::replace(&mut self.is_spare_listed, true)
    }

    pub(super) fn unlist_spare(&mut self) {
        self.is_spare_listed = false;
    }

    /// Uses up `len` octets of the turn. If fewer are left, the next turn has `quantum` more; returns false.
    pub(super) fn spend(&mut self, len: usize, quantum: usize) -> bool {
        if self.deficit < len {
            self.deficit += quantum;
            return false;
        }
        self.deficit -= len;
        true
    }

    /// Sets the deadline to `at`, or just after `now`, unless it is earlier already; returns the new one and the one
    /// before it.
    pub(super) fn schedule(&mut self, now: Time, at: Time) -> Option<(Time, Option<Time>)> {
        if self.timer.is_some_and(|timer| timer <= at) {
            return None;
        }
        let at = at.max(now + Duration::from_nanos(1));
        Some((at, self.timer.replace(at)))
    }

    /// The deadline has passed.
    pub(super) fn handle_timeout(&mut self) {
        self.timer = None;
    }
}

#[derive(Clone, Copy, Debug)]
struct SentRepair {
    id: u8,
    order: u64,
    at: Time,
}

/// What to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Choice {
    /// The first packet that waits.
    New,
    /// The packet at this place of the flight, because it is lost.
    Repeat(usize),
    /// A sum of packets of the flight, because the link is idle.
    Repair,
    /// The packet at this place of the flight, because the link is idle.
    Spare(usize),
}

impl Sender {
    pub(super) fn new(now: Time, id: FlowId, key: FlowKey, config: &Config) -> Self {
        Self {
            key,
            upstream: None,
            listing: Listing::default(),
            used_at: now,
            id,
            queue: Queue::new(now),
            flight: Flight::default(),
            course: Course::default(),
            last_sent: now,
            last_packet: now,
            since_request: 0,
            expiries: 0,
            repairs: VecDeque::new(),
            next_repair: 0,
            older: Vec::new(),
            recovered: 0,
            reordering: Duration::ZERO,
            window: Window::new(config.window),
            pacer: Pacer::new(config),
        }
    }

    /// The addresses and ports of its packets.
    pub(super) fn key(&self) -> FlowKey {
        self.key
    }

    /// The flow from a peer that it continues, when a peer brings its packets.
    pub(super) fn upstream(&self) -> Option<(Peer, FlowId)> {
        self.upstream
    }

    pub(super) fn set_upstream(&mut self, upstream: Option<(Peer, FlowId)>) {
        self.upstream = upstream;
    }

    /// Its place in the lists of its link and node.
    pub(super) fn listing_mut(&mut self) -> &mut Listing {
        &mut self.listing
    }

    /// When the flow was last used.
    pub(super) fn used_at(&self) -> Time {
        self.used_at
    }

    /// Whether a packet that enters here may wait.
    pub(super) fn has_room(&mut self, now: Time, config: &Config) -> bool {
        self.queue.has_room(now, self.pacer.throughput(now), config)
    }

    /// Takes a packet; there is room.
    pub(super) fn handle_packet(&mut self, now: Time, mut packet: Packet) {
        self.used_at = now;
        self.course.handle_packet(&mut packet, self.upstream.is_some());
        self.queue.push(packet);
    }

    /// Notes a packet that was refused or will not be sent any more.
    pub(super) fn handle_loss(&mut self, tcp: Option<Peek>) {
        self.course.handle_loss(tcp);
    }

    /// Whether this segment is still to be sent, so that no repeat is needed.
    ///
    /// A waiting copy is replaced: the newer copy has the newer timestamp. A copy that was sent may
    /// have been lost behind the next hop, so it counts only until it can have been acknowledged,
    /// or while nothing is heard from the peer.
    pub(super) fn absorb(
        &mut self,
        now: Time,
        tcp: Peek,
        packet: &[u8],
        header_len: usize,
        peer: &PeerPath,
    ) -> bool {
        if tcp.occupies() == 0 || self.course.is_new(tcp) {
            return false;
        }
        let is_same = |held: &Packet| {
            held.tcp.is_some_and(|held| {
                (held.seq, held.len, held.is_syn(), held.occupies())
                    == (tcp.seq, tcp.len, tcp.is_syn(), tcp.occupies())
            })
        };
        if self.queue.replace(is_same, packet, header_len) {
            return true;
        }
        let round_trip = peer.rtt().mean().unwrap_or_default();
        self.flight.slots.iter().any(|slot| match &slot.state {
            State::Done => false,
            State::Lost(held) => is_same(held),
            State::Flying(held) => {
                is_same(held) && (peer.is_silent() || now < slot.sent_at() + round_trip)
            }
        })
    }

    /// Whether a TCP reset is the connection's own: its number is the next one (RFC 5961, 3.2).
    pub(super) fn believes_reset(&self, tcp: Peek) -> bool {
        self.course.is_next(tcp)
    }

    /// Chooses the next transmission, if anything may be sent now.
    pub(super) fn choose(&mut self, now: Time, is_silent: bool, config: &Config) -> Option<Choice> {
        let is_held = self.pacer.held_until(now).is_some();
        // Packets for which a congested peer had no room are no more urgent than new packets.
        let may_repeat = !is_held || config.profile == Profile::Paper;
        if self.flight.lost > 0 && may_repeat && self.flight.flying < self.window.size() {
            return Some(Choice::Repeat(self.flight.first_lost()));
        }
        // Nothing new goes to a peer that may not be there, while something old asks for it.
        let is_probing = is_silent && self.flight.flying + self.flight.lost > 0;
        let first = self.queue.front().filter(|_| !is_probing)?;
        let (span, window) = match config.profile {
            // Acknowledgements fill no link.
            Profile::Default if first.is_pure_ack() => (MAX_SPAN.into(), MAX_SPAN.into()),
            Profile::Default => (MAX_SPAN.into(), self.window.size()),
            Profile::Paper => (self.window.size(), self.window.size()),
        };
        if self.flight.flying >= window || self.flight.slots.len() >= span {
            self.window.handle_full();
            return None;
        }
        (!is_held).then_some(Choice::New)
    }

    /// Octets of the IP packet that `choice` would send, HBH's header included.
    pub(super) fn len_of(&self, choice: Choice) -> usize {
        wire::HEADER
            + match choice {
                Choice::New => self.queue.front().map_or(0, |packet| packet.octets.len()),
                Choice::Repair => 0,
                Choice::Repeat(index) | Choice::Spare(index) => {
                    self.flight.slots[index].packet_len()
                }
            }
    }

    /// Sends: appends the IP packet to `out`, with the messages `riders` before its own, and its
    /// older packets as far as `room` octets go. Returns the length of the IP header.
    pub(super) fn transmit(
        &mut self,
        now: Time,
        choice: Choice,
        (riders, room): (&[u8], usize),
        is_patient: bool,
        (config, stats): (&Config, &mut Sent),
        out: &mut Vec<u8>,
    ) -> usize {
        let index = match choice {
            Choice::New => self.flight.launch(self.queue.pop().expect("a packet waits")),
            Choice::Repeat(index) => {
                self.relaunch(index, config);
                stats.data_repeated += 1;
                index
            }
            Choice::Spare(index) => {
                stats.data_spare += 1;
                index
            }
            Choice::Repair => unreachable!("a sum is no packet: see emit_repair"),
        };
        stats.data_sent += 1;

        let order = self.flight.next_order();
        self.last_sent = now;
        if !matches!(choice, Choice::Spare(_)) {
            self.last_packet = now;
        }
        self.used_at = now;
        let is_full = self.flight.flying >= self.window.size();
        let is_probe = matches!(choice, Choice::Repeat(_)) && self.expiries > 0;
        self.since_request = self.since_request.saturating_add(1);
        let since_request = usize::from(self.since_request);
        let wants_ack = match config.profile {
            // Where the window is always full, an answer to each packet is more than a slow link has room for.
            Profile::Default => is_probe || (is_full && since_request * 4 >= self.window.size()),
            // "At the end of each transmission window": after W packets, or when none is left.
            Profile::Paper => {
                since_request >= self.window.size()
                    || (self.queue.is_empty() && self.flight.lost == 0)
            }
        };
        if wants_ack {
            self.since_request = 0;
        }
        let mut older = std::mem::take(&mut self.older);
        older.clear();
        if config.profile == Profile::Default && room > 0 {
            stats.data_older += u64::from(self.gather_older(index, room, &mut older));
        }
        let (id, base) = (self.id, self.flight.base());
        let slot = &mut self.flight.slots[index];
        slot.handle_sent(now, order);
        let copy = slot.copy();
        let State::Flying(packet) = &mut slot.state else {
            unreachable!("launched or flying just above");
        };
        if packet.tcp.is_some_and(|tcp| tcp.occupies() > 0) {
            packet.has_hole |= self.course.take_hole();
        }
        self.pacer.handle_sent(now, packet.octets.len());

        let seq = base.plus(u8::try_from(index).expect("within the span"));
        let (outstanding, has_hole, copy) = match config.profile {
            Profile::Default => {
                let outstanding = u8::try_from(index).expect("within the span");
                (outstanding, packet.has_hole, copy)
            }
            Profile::Paper => (0, false, 0),
        };
        let header_len = packet.header_len;
        let data = Data {
            flow: id,
            seq,
            wants_ack,
            outstanding,
            has_hole,
            is_patient,
            copy,
            protocol: packet.protocol,
            older: wire::older(&older),
            payload: &packet.octets[header_len..],
        };
        out.extend_from_slice(&packet.octets[..header_len]);
        out.extend_from_slice(riders);
        data.emit(out);
        self.older = older;
        header_len
    }

    /// When silence, the rate, or idle time that may be used, wants attention.
    pub(super) fn next_timeout(&self, now: Time, peer: &PeerPath, config: &Config) -> Option<Time> {
        let is_idle = self.queue.is_empty() && self.flight.lost == 0;
        let held = if is_idle { None } else { self.pacer.held_until(now) };
        let spare = self.spare_timeout(now, peer, config);
        earliest(earliest(self.silence_ends(peer, config), held), spare)
    }

    /// Whether it may have something to send.
    pub(super) fn has_work(&self, now: Time) -> bool {
        self.flight.lost > 0 || (!self.queue.is_empty() && self.pacer.held_until(now).is_none())
    }

    /// Whether something flies.
    pub(super) fn has_flying(&self) -> bool {
        self.flight.flying > 0
    }

    /// Packets that wait.
    pub(super) fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Packets that wait or are not acknowledged.
    pub(super) fn held(&self) -> usize {
        self.queue.len() + self.flight.flying + self.flight.lost
    }

    /// Discards packets that have waited for too long; returns how many.
    pub(super) fn expire(&mut self, now: Time, lifetime: Duration, pool: &mut Pool) -> u64 {
        let mut expired = 0;
        while self.queue.front().is_some_and(|packet| packet.is_expired(now, lifetime)) {
            let packet = self.queue.pop().expect("looked at");
            self.handle_loss(packet.tcp);
            pool.give(packet.octets);
            expired += 1;
        }
        expired
    }

    /// Hands every packet back, oldest first, and forgets it.
    pub(super) fn take_back(&mut self, pool: &mut Pool, mut take: impl FnMut(&Packet)) {
        self.flight.take_back(|packet| {
            take(&packet);
            pool.give(packet.octets);
        });
        while let Some(packet) = self.queue.pop() {
            take(&packet);
            pool.give(packet.octets);
        }
    }

    /// The flying packet at `index` is to be sent again, or given up.
    fn lose(
        &mut self,
        now: Time,
        index: usize,
        config: &Config,
        pool: &mut Pool,
        learned: &mut Learned,
    ) {
        let is_superseded = config.profile == Profile::Default && self.is_superseded(index);
        let slot = &mut self.flight.slots[index];
        let State::Flying(packet) = std::mem::replace(&mut slot.state, State::Done) else {
            return;
        };
        slot.flying_copies = 0;
        self.flight.flying -= 1;
        let slot = &mut self.flight.slots[index];
        if is_superseded {
            learned.superseded += 1;
            pool.give(packet.octets);
        } else if slot.retries >= config.retries || packet.is_expired(now, config.lifetime) {
            learned.abandoned += 1;
            self.handle_loss(packet.tcp);
            pool.give(packet.octets);
        } else {
            slot.state = State::Lost(packet);
            self.flight.lost += 1;
        }
    }

    /// Whether the packet at `index` is a pure acknowledgement, and a later packet says more.
    fn is_superseded(&self, index: usize) -> bool {
        let State::Flying(packet) = &self.flight.slots[index].state else { return false };
        let Some(tcp) = packet.tcp.filter(|_| packet.is_pure_ack()) else { return false };
        self.course.is_superseded(tcp)
    }

    fn relaunch(&mut self, index: usize, config: &Config) {
        let is_failure = !self.may_be_left(config);
        let slot = &mut self.flight.slots[index];
        if let State::Lost(packet) = std::mem::replace(&mut slot.state, State::Done) {
            slot.state = State::Flying(packet);
            slot.retries = slot.retries.saturating_add(is_failure.into());
            self.flight.lost -= 1;
            self.flight.flying += 1;
        }
    }

    /// Whether the peer may have left a packet with us because it is congested: such a packet says
    /// nothing about the link.
    fn may_be_left(&self, config: &Config) -> bool {
        config.profile == Profile::Default && self.pacer.is_limited()
    }
}

// Evaluates an acknowledgement for its flow.

impl Sender {
    /// Takes an acknowledgement.
    pub(crate) fn handle_ack(
        &mut self,
        now: Time,
        ack: &Ack<'_>,
        rtt: &mut Estimator,
        config: &Config,
        pool: &mut Pool,
    ) -> Learned {
        self.used_at = now;
        let mut learned = Learned::default();
        let arrived = match config.profile {
            Profile::Default => self.read_echo(now, ack, rtt),
            Profile::Paper => {
                self.sample_newest(now, ack, rtt);
                None
            }
        };

        let base = self.flight.base();
        let to_next = usize::try_from(ack.next.since(base)).unwrap_or(0);
        self.finish(now, 0, to_next, pool, &mut learned);
        for (first, last) in ack.intervals.iter() {
            let from = usize::try_from(first.since(base)).unwrap_or(0);
            let to = usize::try_from(last.plus(1).since(base)).unwrap_or(0);
            self.finish(now, from, to, pool, &mut learned);
        }
        if config.profile == Profile::Default {
            // What the peer recovered was lost, though it needs no repeat.
            let recovered = ack.recovered.wrapping_sub(self.recovered) % RECOVERED;
            if recovered < RECOVERED / 2 {
                self.recovered = ack.recovered;
                learned.recovered = u32::from(recovered);
            }
        }
        if learned.delivered > 0 || arrived.is_some() {
            self.expiries = 0;
        }
        if let Some(arrived) = arrived {
            let round_trip = rtt.mean().unwrap_or_default();
            self.find_overtaken(now, arrived, round_trip, config, pool, &mut learned);
        }

        let round_trip = rtt.mean().unwrap_or(config.rto.initial);
        if ack.is_congested {
            self.pacer.handle_congestion(now, round_trip);
        } else if config.profile == Profile::Default {
            self.pacer.handle_clear();
        }
        self.flight.slide();
        learned
    }

    /// Takes the round trip from the echo, and returns the number and time of the transmission
    /// that arrived last.
    fn read_echo(&mut self, now: Time, ack: &Ack<'_>, rtt: &mut Estimator) -> Option<(u64, Time)> {
        let echo = ack.echo?;
        let arrived = match echo.of {
            Transmission::Packet { seq, copy } => {
                let index = usize::try_from(seq.since(self.flight.base())).ok()?;
                let slot = self.flight.slots.get_mut(index)?;
                if slot.copy() != copy && slot.was_overtaken {
                    // It was not lost but late: this link does not keep order.
                    slot.was_overtaken = false;
                    let step = rtt.mean().unwrap_or_default();
                    self.reordering = (self.reordering * 2).max(step / 8).min(step);
                }
                // Older copies count, too: a sender that goes by the newest alone never learns that it
                // repeats too soon.
                slot.transmission(copy)?
            }
            Transmission::Repair { id } => {
                let repair = self.repairs.iter().rev().find(|repair| repair.id == id)?;
                (repair.order, repair.at)
            }
        };
        if let Some(delay) = echo.delay {
            let sample = now.since(arrived.1).saturating_sub(delay);
            rtt.handle_sample(sample);
            let shortest = rtt.shortest().unwrap_or(sample);
            self.window.handle_echo(arrived.0, self.flight.order + 1, sample, shortest);
        }
        Some(arrived)
    }

    /// The seed's sample: the newest packet that this acknowledges for the first time.
    fn sample_newest(&self, now: Time, ack: &Ack<'_>, rtt: &mut Estimator) {
        let base = self.flight.base();
        let is_named = |index: usize| {
            let at = i8::try_from(index).unwrap_or(i8::MAX);
            at < ack.next.since(base)
                || ack
                    .intervals
                    .iter()
                    .any(|(first, last)| first.since(base) <= at && at <= last.since(base))
        };
        let newest = self
            .flight
            .slots
            .iter()
            .enumerate()
            .filter(|(index, slot)| !matches!(slot.state, State::Done) && is_named(*index))
            .max_by_key(|(_, slot)| slot.order());
        if let Some((_, slot)) = newest {
            rtt.handle_sample(now.since(slot.sent_at()));
        }
    }

    /// Marks the flight's places `from..to` as arrived.
    fn finish(
        &mut self,
        now: Time,
        from: usize,
        to: usize,
        pool: &mut Pool,
        learned: &mut Learned,
    ) {
        let to = to.min(self.flight.slots.len());
        for slot in self.flight.slots.range_mut(from.min(to)..to) {
            let packet = match std::mem::replace(&mut slot.state, State::Done) {
                State::Done => continue,
                State::Flying(packet) => {
                    self.flight.flying -= 1;
                    packet
                }
                State::Lost(packet) => {
                    self.flight.lost -= 1;
                    packet
                }
            };
            learned.delivered += 1;
            self.pacer.handle_acked(now, packet.octets.len());
            pool.give(packet.octets);
        }
    }

    /// A transmission arrived: what was sent before it and has not is lost.
    fn find_overtaken(
        &mut self,
        now: Time,
        (order, sent_at): (u64, Time),
        round_trip: Duration,
        config: &Config,
        pool: &mut Pool,
        learned: &mut Learned,
    ) {
        // A repair that is still in flight may make one of these losses good.
        self.repairs.retain(|repair| repair.order >= order && repair.at + round_trip * 2 > now);
        let mut under_way = self.repairs.iter().filter(|repair| repair.order > order).count();
        let mut previous = None;
        let may_be_left = self.may_be_left(config);
        for index in 0..self.flight.slots.len() {
            let slot = &mut self.flight.slots[index];
            if matches!(slot.state, State::Flying(_))
                && slot.order() < order
                && sent_at.since(slot.sent_at()) >= self.reordering
            {
                if slot.doubted != slot.order() && !may_be_left {
                    slot.doubted = slot.order();
                    learned.lost += 1;
                    learned.runs += u32::from(previous != Some(slot.order().wrapping_sub(1)));
                    previous = Some(slot.order());
                }
                if under_way > 0 {
                    under_way -= 1;
                } else {
                    slot.was_overtaken = true;
                    self.lose(now, index, config, pool, learned);
                }
            }
        }
    }
}

// Acts on silence in a flow: declares packets lost, and probes the peer.

/// How many packets are sent after a first silence.
const PROBES: u8 = 4;
/// Each silence lasts longer than the one before, this many times.
const BACKOFFS: u8 = 3;

impl Sender {
    /// Declares lost what has been silent for too long; returns whether a silence has ended.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Time,
        peer: &PeerPath,
        config: &Config,
        pool: &mut Pool,
        learned: &mut Learned,
    ) -> bool {
        if let Some(mean) = peer.rtt().mean() {
            self.pacer.advance(now, mean);
        }
        if self.silence_ends(peer, config).is_none_or(|at| at > now) {
            return false;
        }
        self.expiries = self.expiries.saturating_add(1);
        let mut probes = match config.profile {
            Profile::Default if peer.is_silent() => 1,
            Profile::Default => self.probes().into(),
            Profile::Paper => usize::MAX,
        };
        for index in 0..self.flight.slots.len() {
            let slot = &mut self.flight.slots[index];
            let is_due = match config.profile {
                Profile::Default => true,
                Profile::Paper => slot.sent_at() + peer.rtt().timeout(slot.retries) <= now,
            };
            if probes > 0 && is_due && matches!(slot.state, State::Flying(_)) {
                if peer.is_silent() && config.profile == Profile::Default {
                    // The link is away: the timeout says nothing about this packet.
                    slot.retries = slot.retries.saturating_sub(1);
                }
                self.lose(now, index, config, pool, learned);
                probes -= usize::from(matches!(self.flight.slots[index].state, State::Lost(_)));
            }
        }
        self.last_sent = now;
        self.repairs.clear();
        self.flight.slide();
        true
    }

    /// A peer that was silent is heard again: what was sent to it meanwhile is lost.
    pub(crate) fn handle_revival(
        &mut self,
        now: Time,
        config: &Config,
        pool: &mut Pool,
        learned: &mut Learned,
    ) {
        self.expiries = 0;
        self.repairs.clear();
        for index in 0..self.flight.slots.len() {
            let slot = &mut self.flight.slots[index];
            if matches!(slot.state, State::Flying(_)) {
                slot.retries = slot.retries.saturating_sub(1);
                self.lose(now, index, config, pool, learned);
            }
        }
        self.flight.slide();
    }

    /// The link layer gave this transmission up: it is lost.
    pub(crate) fn handle_unsent(
        &mut self,
        now: Time,
        (seq, copy): (Seq, u8),
        config: &Config,
        pool: &mut Pool,
    ) -> Learned {
        let mut learned = Learned::default();
        let Ok(index) = usize::try_from(seq.since(self.flight.base())) else { return learned };
        let Some(slot) = self.flight.slots.get_mut(index) else { return learned };
        // If other copies are in flight, one may still arrive.
        if slot.copy() == copy && slot.flying_copies == 1 {
            slot.retries = slot.retries.saturating_sub(1);
            self.lose(now, index, config, pool, &mut learned);
            self.flight.slide();
        }
        learned
    }

    /// How many packets are sent at once after a silence, to hear from the peer. When even these were
    /// not heard of, losses seem to come in runs.
    fn probes(&self) -> u8 {
        if self.expiries < 2 { PROBES } else { 2 * PROBES }
    }

    /// How long a silent peer is left alone between two probes.
    pub(crate) fn probe_interval(&self, peer: &PeerPath, config: &Config) -> Duration {
        PROBE_INTERVAL.max(peer.rtt().timeout(0) + longest_ack_wait(peer, config))
    }

    /// When nothing has been heard for too long.
    fn silence_ends(&self, peer: &PeerPath, config: &Config) -> Option<Time> {
        if self.flight.flying == 0 {
            return None;
        }
        let rtt = peer.rtt();
        match config.profile {
            Profile::Default => {
                let backoffs = self.expiries.min(BACKOFFS);
                let usual = rtt.timeout(backoffs) + longest_ack_wait(peer, config);
                Some(self.last_sent + usual.min(self.probe_interval(peer, config)))
            }
            Profile::Paper => self
                .flight
                .slots
                .iter()
                .filter(|slot| matches!(slot.state, State::Flying(_)))
                .map(|slot| slot.sent_at() + rtt.timeout(slot.retries))
                .min(),
        }
    }
}

/// How long a peer's acknowledgement may wait.
///
/// The peer goes by the round trip that it has measured itself, which may be longer than ours. If
/// the peer waits for many round trips, the difference counts.
fn longest_ack_wait(peer: &PeerPath, config: &Config) -> Duration {
    let is_patient = peer.is_patient(config);
    let ours = config.ack_wait(peer.rtt().known(is_patient), is_patient);
    if is_patient { ours + ours / 4 } else { ours }
}

// Uses an idle link for a flow's packets in flight, and lets short packets ride on later ones.

impl Sender {
    /// What an idle link that loses packets may send without being asked.
    ///
    /// Repairs, until fewer losses than repairs are likely enough; copies where there is but one
    /// packet, or where a repair would be too long.
    pub(crate) fn choose_spare(
        &self,
        now: Time,
        peer: &PeerPath,
        config: &Config,
    ) -> Option<Choice> {
        // Cheap, and mostly enough: no packet needs less quiet than data.
        if self.quiet_after(peer, config.redundancy.quiet_data()) > now {
            return None;
        }
        self.spare_at(peer, config).filter(|&at| at <= now)?;
        let (index, longest) = self.covered().fold((0, 0), |(_, longest), (index, packet)| {
            (index, longest.max(packet.octets.len()))
        });
        let span = index + 1 - self.covered().next()?.0;
        let is_one = self.covered().nth(1).is_none();
        let room = Repair::overhead(span) + repair::PREFIX;
        if is_one || longest + room > peer.config().mtu {
            let most = self.copies(peer, config);
            return self
                .covered()
                .find(|&(index, _)| self.flight.slots[index].flying_copies < most)
                .map(|(index, _)| Choice::Spare(index));
        }
        Some(Choice::Repair)
    }

    /// When idle time may begin to be used for what flies, if that is later than `now`.
    pub(crate) fn spare_timeout(
        &self,
        now: Time,
        peer: &PeerPath,
        config: &Config,
    ) -> Option<Time> {
        // No packet needs more quiet than an acknowledgement.
        if self.quiet_after(peer, config.redundancy.quiet_ack()) <= now {
            return None;
        }
        self.spare_at(peer, config).filter(|&at| at > now)
    }

    /// This share of the shortest round trip after the last packet.
    fn quiet_after(&self, peer: &PeerPath, share: f64) -> Time {
        self.last_packet + peer.rtt().shortest().unwrap_or_default().mul_f64(share)
    }

    /// From when on idle time may be used for what flies; `None` if it needs nothing.
    fn spare_at(&self, peer: &PeerPath, config: &Config) -> Option<Time> {
        if self.flight.flying == 0 || peer.is_silent() || !peer.needs_repairs(config) {
            return None;
        }
        let mut covered = self.covered();
        let (first, _) = covered.next()?;
        let rest = covered.count();
        let is_enough = if rest == 0 {
            self.flight.slots[first].flying_copies >= self.copies(peer, config)
        } else {
            let oldest = self.flight.slots[first].order();
            let under_way = self.repairs.iter().filter(|repair| repair.order > oldest).count();
            peer.are_enough(rest + 1, under_way, config)
        };
        let quiet = if rest == 0 && self.is_ack(first) {
            config.redundancy.quiet_ack()
        } else {
            config.redundancy.quiet_data()
        };
        (!is_enough).then(|| self.quiet_after(peer, quiet))
    }

    /// The flying packets that others are held up by, the newest of them, in order: segments, and
    /// of pure acknowledgements the newest.
    fn covered(&self) -> impl Iterator<Item = (usize, &Packet)> {
        let newest = self.flight.slots.iter().rposition(|slot| match &slot.state {
            State::Done | State::Lost(_) => false,
            State::Flying(packet) => packet.is_pure_ack(),
        });
        let from = self.flight.slots.len().saturating_sub(repair::COVERED);
        self.flight.slots.iter().enumerate().skip(from).filter_map(move |(index, slot)| match &slot
            .state
        {
            State::Flying(packet)
                if packet.is_waited_for()
                    && (!packet.is_pure_ack() || newest == Some(index))
                    && repair::is_repairable(&packet.octets, packet.header_len) =>
            {
                Some((index, packet))
            }
            _ => None,
        })
    }

    /// How often a lone packet is sent before it is acknowledged: after a silence at least as often
    /// as several packets would be, because losses come in runs.
    fn copies(&self, peer: &PeerPath, config: &Config) -> u8 {
        let probes = if self.expiries == 0 { 1 } else { self.probes() };
        peer.copies(config).max(probes)
    }

    fn is_ack(&self, index: usize) -> bool {
        matches!(&self.flight.slots[index].state, State::Flying(packet) if packet.is_pure_ack())
    }

    /// Sends a sum of the packets in flight, as an IP packet of the flow; returns the length of the
    /// IP header.
    pub(crate) fn emit_repair(&mut self, now: Time, sum: &mut Vec<u8>, out: &mut Vec<u8>) -> usize {
        let order = self.flight.next_order();
        self.last_sent = now;
        let id = self.next_repair;
        self.next_repair = (id + 1) % wire::REPAIRS;
        let base = self.flight.base();
        let number = |index: usize| base.plus(u8::try_from(index).expect("within the span"));
        let Some((first, _)) = self.covered().next() else { return 0 };
        let mut mask = [0; 16];
        let mut span = 1;
        for (index, _) in self.covered() {
            let offset = index - first;
            mask[offset / 8] |= 1 << (offset % 8);
            span = offset + 1;
        }
        let covered = self.covered().map(|(index, packet)| {
            (number(index), &packet.octets[..], packet.header_len, packet.has_hole)
        });
        repair::sum(id, covered, sum);
        let Some((_, packet)) = self.covered().last() else { return 0 };
        let header_len = packet.header_len;
        out.extend_from_slice(&packet.octets[..header_len]);
        let mask = Mask::new(&mask[..span.div_ceil(8)]).expect("1 to 16 octets");
        let protocol = packet.protocol;
        Repair { flow: self.id, first: number(first), id, protocol, mask, sum }.emit(out);
        self.repairs.push_back(SentRepair { id, order, at: now });
        header_len
    }

    /// Collects pure acknowledgements before the one at `index` that are not acknowledged
    /// themselves, the newest as far as `room` octets go; returns how many.
    fn gather_older(&self, index: usize, room: usize, older: &mut Vec<u8>) -> u8 {
        if !self.is_ack(index) {
            return 0;
        }
        let mut chosen = [0; wire::MAX_OLDER];
        let (mut count, mut len) = (0, 1);
        for (at, slot) in self.flight.slots.range(..index).enumerate().rev() {
            let (State::Flying(packet) | State::Lost(packet)) = &slot.state else { continue };
            if !packet.is_pure_ack() {
                continue;
            }
            len += 2 + packet.octets.len() - packet.header_len;
            if count == wire::MAX_OLDER || len > room {
                break;
            }
            chosen[count] = at;
            count += 1;
        }
        let mut gathered = 0;
        for &at in chosen[..count].iter().rev() {
            if let State::Flying(packet) | State::Lost(packet) = &self.flight.slots[at].state {
                let back = u8::try_from(index - at).unwrap_or(0);
                let octets = &packet.octets[packet.header_len..];
                gathered += u8::from(wire::push_older(back, octets, older));
            }
        }
        gathered
    }
}

// The sent but unacknowledged packets of a flow (nACKedQ), by their numbers.

/// From the lowest outstanding packet to the one before `next`.
#[derive(Debug, Default)]
struct Flight {
    slots: VecDeque<Slot>,
    /// The number of the next packet.
    next: Seq,
    /// How many slots are in each of these states.
    flying: usize,
    lost: usize,
    /// The number of transmissions so far, which numbers the latest.
    order: u64,
}

/// The place of one packet.
#[derive(Debug)]
struct Slot {
    state: State,
    /// The latest transmissions that carried it, and when they did, each at its copy's place.
    sent: [(u64, Time); COPIES as usize],
    /// Transmissions in all.
    copies: u64,
    /// Transmissions since it was last found lost.
    flying_copies: u8,
    retries: u8,
    /// The transmission that was counted as lost.
    doubted: u64,
    was_overtaken: bool,
}

#[derive(Debug)]
enum State {
    /// The packet arrived, or was given up.
    Done,
    Flying(Packet),
    /// The packet is to be sent again.
    Lost(Packet),
}

impl Flight {
    /// The number of the lowest outstanding packet.
    fn base(&self) -> Seq {
        self.next.minus(u8::try_from(self.slots.len()).expect("within the span"))
    }

    /// Takes a packet that is sent for the first time, and returns its place.
    fn launch(&mut self, packet: Packet) -> usize {
        self.slots.push_back(Slot {
            state: State::Flying(packet),
            sent: [(0, Time::ZERO); COPIES as usize],
            copies: 0,
            flying_copies: 0,
            retries: 0,
            doubted: 0,
            was_overtaken: false,
        });
        self.next = self.next.plus(1);
        self.flying += 1;
        self.slots.len() - 1
    }

    /// Numbers a transmission.
    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// The place of the first lost packet; there is one.
    fn first_lost(&self) -> usize {
        let is_lost = |slot: &Slot| matches!(slot.state, State::Lost(_));
        self.slots.iter().position(is_lost).expect("as many as counted")
    }

    /// Hands every packet back, oldest first, and forgets it.
    fn take_back(&mut self, mut take: impl FnMut(Packet)) {
        for slot in self.slots.drain(..) {
            if let State::Flying(packet) | State::Lost(packet) = slot.state {
                take(packet);
            }
        }
        (self.flying, self.lost) = (0, 0);
    }

    /// Forgets the places before the lowest outstanding packet.
    fn slide(&mut self) {
        while self.slots.front().is_some_and(|slot| matches!(slot.state, State::Done)) {
            self.slots.pop_front();
        }
    }
}

impl Slot {
    /// Notes a transmission.
    fn handle_sent(&mut self, now: Time, order: u64) {
        self.copies += 1;
        self.flying_copies = self.flying_copies.saturating_add(1);
        self.sent[usize::from(self.copy())] = (order, now);
    }

    /// The number of the latest copy.
    #[expect(clippy::cast_possible_truncation, reason = "below COPIES")]
    fn copy(&self) -> u8 {
        (self.copies.saturating_sub(1) % u64::from(COPIES)) as u8
    }

    /// The transmission that carried the latest copy of this number, and its time.
    fn transmission(&self, copy: u8) -> Option<(u64, Time)> {
        (u64::from(copy) < self.copies).then(|| self.sent.get(usize::from(copy)).copied())?
    }

    /// Which transmission carried it last.
    fn order(&self) -> u64 {
        self.sent[usize::from(self.copy())].0
    }

    /// When it was sent last.
    fn sent_at(&self) -> Time {
        self.sent[usize::from(self.copy())].1
    }

    /// Octets of the packet.
    fn packet_len(&self) -> usize {
        match &self.state {
            State::Done => 0,
            State::Flying(packet) | State::Lost(packet) => packet.octets.len(),
        }
    }
}

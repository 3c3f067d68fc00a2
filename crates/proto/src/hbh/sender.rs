//! One flow towards one peer: what waits (outputQ), what is unacknowledged (nACKedQ), and what to
//! send next.
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
//! echo names that transmission. The seed knows only its timer.

mod spare;

use std::collections::VecDeque;
use std::time::Duration;

use super::config::{Config, Profile};
use super::hop::Peer;
use super::pacer::Pacer;
use super::packet::{Packet, Tcp};
use super::pool::Pool;
use super::rtt::Estimator;
use super::stats::Stats;
use super::window::Window;
use super::wire::{self, Ack, COPIES, Data, FlowId, MAX_SPAN, Seq};
use crate::ip::FlowKey;
use crate::time::{Time, earliest};

/// How many packets a silent peer is sent again at once, to hear from it.
const PROBES: usize = 2;

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) key: FlowKey,
    /// Where the flow comes from, when a peer sends it.
    pub(super) upstream: Option<(Peer, FlowId)>,
    /// Whether a link's turn list holds it.
    pub(super) is_listed: bool,
    /// Octets that it may still send in this turn.
    pub(super) deficit: usize,
    pub(super) used_at: Time,
    /// The deadline in the node's timers.
    pub(super) timer: Option<Time>,
    id: FlowId,
    queue: VecDeque<Packet>,
    /// From the lowest outstanding packet to the one before `next`.
    flight: VecDeque<Slot>,
    next: Seq,
    flying: usize,
    lost: usize,
    /// Transmissions so far; the number of the next one.
    order: u64,
    last_sent: Time,
    since_request: u8,
    expiries: u8,
    /// The highest TCP sequence number taken.
    newest_seq: Option<u32>,
    /// Repairs that may still arrive: their transmission and its time.
    repairs: VecDeque<(u64, Time)>,
    /// How much later a transmission may arrive than one after it.
    reordering: Duration,
    window: Window,
    pacer: Pacer,
    /// When fewer than L packets waited last.
    calm_at: Time,
}

/// For how long a burst may fill a queue beyond L.
const BURST_TIME: Duration = Duration::from_millis(20);
/// How many times L it may fill at most.
const BURST: usize = 20;
/// A packet, roughly.
const PACKET_BITS: f64 = 12_000.0;

#[derive(Debug)]
struct Slot {
    state: State,
    sent_at: Time,
    order: u64,
    copies: u8,
    retries: u8,
    /// The transmission that was counted as lost.
    doubted: u64,
    was_overtaken: bool,
}

#[derive(Debug)]
enum State {
    Done,
    Flying(Packet),
    Lost(Packet),
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

/// What an acknowledgement told about the path to the peer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Learned {
    pub(super) delivered: u32,
    pub(super) lost: u32,
    pub(super) abandoned: u32,
}

impl Sender {
    pub(super) fn new(now: Time, id: FlowId, key: FlowKey, config: &Config) -> Self {
        Self {
            key,
            upstream: None,
            is_listed: false,
            deficit: 0,
            used_at: now,
            timer: None,
            id,
            queue: VecDeque::new(),
            flight: VecDeque::new(),
            next: Seq(0),
            flying: 0,
            lost: 0,
            order: 0,
            last_sent: now,
            since_request: 0,
            expiries: 0,
            newest_seq: None,
            repairs: VecDeque::new(),
            reordering: Duration::ZERO,
            window: Window::new(config.window),
            pacer: Pacer::new(config),
            calm_at: now,
        }
    }

    /// Whether a packet that enters here may wait.
    ///
    /// L packets may. In our profile it is more on a link so fast that they are soon gone: L fits
    /// slow links, where a train of segments from a gigabit host would never fit twice.
    pub(super) fn has_room(&mut self, now: Time, config: &Config) -> bool {
        let backlog = self.backlog();
        if backlog < config.queue {
            self.calm_at = now;
            return true;
        }
        let drained_soon = self.pacer.throughput(now) * BURST_TIME.as_secs_f64() / PACKET_BITS;
        config.profile == Profile::Default
            && backlog < config.queue * BURST
            && (now.since(self.calm_at) < BURST_TIME || (backlog as f64) < drained_soon)
    }

    /// Takes a packet; there is room.
    pub(super) fn handle_packet(&mut self, now: Time, packet: Packet) {
        self.used_at = now;
        self.queue.push_back(packet);
    }

    /// Whether a copy of this segment waits or flies, so that a repeat of it is not needed.
    ///
    /// A copy that still waits is replaced: the newer one has the newer timestamp.
    pub(super) fn absorb(&mut self, tcp: Tcp, packet: &[u8], header_len: usize) -> bool {
        if tcp.occupies() == 0 {
            return false;
        }
        let newest = self.newest_seq.replace(tcp.seq);
        let Some(newest) = newest else { return false };
        if tcp.seq.wrapping_sub(newest).cast_signed() > 0 {
            return false;
        }
        self.newest_seq = Some(newest);
        let is_same = |held: &Packet| {
            held.tcp.is_some_and(|held| {
                (held.seq, held.len, held.is_syn, held.is_fin)
                    == (tcp.seq, tcp.len, tcp.is_syn, tcp.is_fin)
            })
        };
        if let Some(waiting) = self.queue.iter_mut().find(|held| is_same(held)) {
            waiting.octets.clear();
            waiting.octets.extend_from_slice(packet);
            waiting.header_len = header_len;
            return true;
        }
        self.flight.iter().any(|slot| match &slot.state {
            State::Done => false,
            State::Flying(held) | State::Lost(held) => is_same(held),
        })
    }

    /// Takes an acknowledgement.
    pub(super) fn handle_ack(
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
            Profile::Seed => {
                self.sample_newest(now, ack, rtt);
                None
            }
        };

        let base = self.base();
        let to_next = usize::try_from(ack.next.since(base)).unwrap_or(0);
        self.finish(now, 0, to_next, pool, &mut learned);
        for (first, last) in ack.intervals.iter() {
            let from = usize::try_from(first.since(base)).unwrap_or(0);
            let to = usize::try_from(last.plus(1).since(base)).unwrap_or(0);
            self.finish(now, from, to, pool, &mut learned);
        }
        if learned.delivered > 0 || arrived.is_some() {
            self.expiries = 0;
        }
        if let Some(arrived) = arrived {
            let round_trip = rtt.mean().unwrap_or_default().mul_f64(0.9);
            self.find_overtaken(now, arrived, round_trip, config, pool, &mut learned);
        }

        let round_trip = rtt.mean().unwrap_or(config.rto.initial);
        if ack.is_congested {
            self.pacer.handle_congestion(now, round_trip);
        } else if ack.is_clear {
            self.pacer.handle_clear();
        }
        self.slide();
        learned
    }

    /// Declares lost what has been silent for too long.
    pub(super) fn handle_timeout(
        &mut self,
        now: Time,
        rtt: &Estimator,
        config: &Config,
        pool: &mut Pool,
    ) -> Learned {
        let mut learned = Learned::default();
        if let Some(mean) = rtt.mean() {
            self.pacer.advance(now, mean);
        }
        if self.silence_ends(rtt, config).is_some_and(|at| at <= now) {
            let mut probes = match config.profile {
                Profile::Default => PROBES,
                Profile::Seed => usize::MAX,
            };
            for index in 0..self.flight.len() {
                let slot = &self.flight[index];
                let is_due = match config.profile {
                    Profile::Default => true,
                    Profile::Seed => slot.sent_at + rtt.timeout(slot.retries) <= now,
                };
                if probes > 0 && is_due && matches!(slot.state, State::Flying(_)) {
                    self.lose(now, index, config, pool, &mut learned);
                    probes -= 1;
                }
            }
            self.expiries = self.expiries.saturating_add(1);
            self.last_sent = now;
            self.slide();
        }
        learned
    }

    /// What to send now, if anything may be sent.
    pub(super) fn choose(&mut self, now: Time, config: &Config) -> Option<Choice> {
        if self.lost > 0 && self.flying < self.window.size() {
            let index = self
                .flight
                .iter()
                .position(|slot| matches!(slot.state, State::Lost(_)))
                .expect("as many as counted");
            return Some(Choice::Repeat(index));
        }
        if self.queue.is_empty() {
            return None;
        }
        let span = match config.profile {
            Profile::Default => usize::from(MAX_SPAN),
            Profile::Seed => self.window.size(),
        };
        if self.flying >= self.window.size() || self.flight.len() >= span {
            self.window.handle_full();
            return None;
        }
        self.pacer.held_until(now).is_none().then_some(Choice::New)
    }

    /// Octets of the IP packet that `choice` would send, HBH's header included.
    pub(super) fn len_of(&self, choice: Choice) -> usize {
        wire::HEADER
            + match choice {
                Choice::New => self.queue.front().map_or(0, |packet| packet.octets.len()),
                Choice::Repair => 0,
                Choice::Repeat(index) | Choice::Spare(index) => self.flight[index].packet_len(),
            }
    }

    /// Sends: returns the IP header and the message that goes behind it.
    pub(super) fn transmit(
        &mut self,
        now: Time,
        choice: Choice,
        config: &Config,
        stats: &mut Stats,
    ) -> (&[u8], Data<'_>) {
        let index = match choice {
            Choice::New => self.launch(),
            Choice::Repeat(index) => {
                self.relaunch(index);
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

        self.order += 1;
        self.last_sent = now;
        self.used_at = now;
        let is_full = self.flying >= self.window.size();
        let is_probe = matches!(choice, Choice::Repeat(_)) && self.expiries > 0;
        let wants_ack = match config.profile {
            Profile::Default => is_full || is_probe,
            // "At the end of each transmission window": after W packets, or when none is left.
            Profile::Seed => {
                self.since_request += 1;
                usize::from(self.since_request) >= self.window.size()
                    || (self.queue.is_empty() && self.lost == 0)
            }
        };
        if wants_ack {
            self.since_request = 0;
        }
        let (id, base) = (self.id, self.base());
        let slot = &mut self.flight[index];
        slot.sent_at = now;
        slot.order = self.order;
        slot.copies = slot.copies.saturating_add(1);
        let (copies, retries) = (slot.copies, slot.retries);
        let State::Flying(packet) = &slot.state else {
            unreachable!("launched or flying just above");
        };
        self.pacer.handle_sent(now, packet.octets.len());

        let seq = base.plus(u8::try_from(index).expect("within the span"));
        let (outstanding, budget, copy) = match config.profile {
            Profile::Default => {
                let outstanding = u8::try_from(index).expect("within the span");
                (outstanding, packet.budget.saturating_sub(retries), (copies - 1) % COPIES)
            }
            Profile::Seed => (0, 0, 0),
        };
        let data = Data {
            flow: id,
            seq,
            wants_ack,
            outstanding,
            budget,
            copy,
            protocol: packet.protocol,
            payload: &packet.octets[packet.header_len..],
        };
        (&packet.octets[..packet.header_len], data)
    }

    /// When silence, or the rate, wants attention.
    pub(super) fn next_timeout(&self, now: Time, rtt: &Estimator, config: &Config) -> Option<Time> {
        let held = if self.queue.is_empty() { None } else { self.pacer.held_until(now) };
        earliest(self.silence_ends(rtt, config), held)
    }

    /// Whether it may have something to send.
    pub(super) fn has_work(&self, now: Time) -> bool {
        self.lost > 0 || (!self.queue.is_empty() && self.pacer.held_until(now).is_none())
    }

    /// Packets that wait.
    pub(super) fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Packets that wait or are not acknowledged.
    pub(super) fn held(&self) -> usize {
        self.queue.len() + self.flying + self.lost
    }

    /// Discards packets that have waited for too long; returns how many.
    pub(super) fn expire(&mut self, now: Time, lifetime: Duration, pool: &mut Pool) -> u64 {
        let mut expired = 0;
        while self.queue.front().is_some_and(|packet| now.since(packet.taken_at) > lifetime) {
            pool.give(self.queue.pop_front().expect("looked at").octets);
            expired += 1;
        }
        expired
    }

    /// Hands every packet back, oldest first, and forgets it.
    pub(super) fn take_back(&mut self, pool: &mut Pool, mut take: impl FnMut(&Packet)) {
        for slot in &mut self.flight {
            if let State::Flying(packet) | State::Lost(packet) =
                std::mem::replace(&mut slot.state, State::Done)
            {
                take(&packet);
                pool.give(packet.octets);
            }
        }
        for packet in self.queue.drain(..) {
            take(&packet);
            pool.give(packet.octets);
        }
        (self.flying, self.lost) = (0, 0);
        self.slide();
    }

    fn base(&self) -> Seq {
        self.next.minus(u8::try_from(self.flight.len()).expect("within the span"))
    }

    /// Takes the round trip from the echo, and returns the number and time of the transmission
    /// that arrived last.
    fn read_echo(&mut self, now: Time, ack: &Ack<'_>, rtt: &mut Estimator) -> Option<(u64, Time)> {
        let echo = ack.echo?;
        let index = usize::try_from(echo.seq.since(self.base())).ok()?;
        let slot = self.flight.get_mut(index)?;
        if slot.copies == 0 || (slot.copies - 1) % COPIES != echo.copy {
            if slot.was_overtaken {
                // It was not lost but late: this link does not keep order.
                slot.was_overtaken = false;
                let step = rtt.mean().unwrap_or_default();
                self.reordering = (self.reordering * 2).max(step / 8).min(step);
            }
            return None;
        }
        let arrived = (slot.order, slot.sent_at);
        if let Some(delay) = echo.delay {
            let sample = now.since(slot.sent_at).saturating_sub(delay);
            rtt.handle_sample(sample);
            let shortest = rtt.shortest().unwrap_or(sample);
            self.window.handle_echo(arrived.0, self.order + 1, sample, shortest);
        }
        Some(arrived)
    }

    /// The seed's sample: the newest packet that this acknowledges for the first time.
    fn sample_newest(&self, now: Time, ack: &Ack<'_>, rtt: &mut Estimator) {
        let base = self.base();
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
            .iter()
            .enumerate()
            .filter(|(index, slot)| !matches!(slot.state, State::Done) && is_named(*index))
            .max_by_key(|(_, slot)| slot.order);
        if let Some((_, slot)) = newest {
            rtt.handle_sample(now.since(slot.sent_at));
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
        let to = to.min(self.flight.len());
        for slot in self.flight.range_mut(from.min(to)..to) {
            let packet = match std::mem::replace(&mut slot.state, State::Done) {
                State::Done => continue,
                State::Flying(packet) => {
                    self.flying -= 1;
                    packet
                }
                State::Lost(packet) => {
                    self.lost -= 1;
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
        let under_way = std::mem::take(&mut self.repairs);
        let mut repairs = under_way.iter().filter(|(_, at)| *at + round_trip > now);
        let mut repair = repairs.next();
        for index in 0..self.flight.len() {
            let slot = &mut self.flight[index];
            if matches!(slot.state, State::Flying(_))
                && slot.order < order
                && sent_at.since(slot.sent_at) >= self.reordering
            {
                if slot.doubted != slot.order {
                    slot.doubted = slot.order;
                    learned.lost += 1;
                }
                // A repair that is under way may make it good; each repair one packet.
                if repair.is_some_and(|(order, _)| *order > slot.order) {
                    repair = repairs.next();
                } else {
                    slot.was_overtaken = true;
                    self.lose(now, index, config, pool, learned);
                }
            }
        }
        self.repairs = under_way;
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
        let slot = &mut self.flight[index];
        let State::Flying(packet) = std::mem::replace(&mut slot.state, State::Done) else {
            return;
        };
        self.flying -= 1;
        let most = match config.profile {
            Profile::Default => config.retries.min(packet.budget),
            Profile::Seed => config.retries,
        };
        if slot.retries >= most || now.since(packet.taken_at) > config.lifetime {
            learned.abandoned += 1;
            pool.give(packet.octets);
        } else {
            self.lost += 1;
            slot.state = State::Lost(packet);
        }
    }

    fn launch(&mut self) -> usize {
        let packet = self.queue.pop_front().expect("a packet waits");
        self.flight.push_back(Slot {
            state: State::Flying(packet),
            sent_at: Time::ZERO,
            order: 0,
            copies: 0,
            retries: 0,
            doubted: 0,
            was_overtaken: false,
        });
        self.next = self.next.plus(1);
        self.flying += 1;
        self.flight.len() - 1
    }

    fn relaunch(&mut self, index: usize) {
        let slot = &mut self.flight[index];
        if let State::Lost(packet) = std::mem::replace(&mut slot.state, State::Done) {
            slot.state = State::Flying(packet);
            slot.retries += 1;
            self.lost -= 1;
            self.flying += 1;
        }
    }

    fn slide(&mut self) {
        while self.flight.front().is_some_and(|slot| matches!(slot.state, State::Done)) {
            self.flight.pop_front();
        }
    }

    fn silence_ends(&self, rtt: &Estimator, config: &Config) -> Option<Time> {
        if self.flying == 0 {
            return None;
        }
        match config.profile {
            Profile::Default => {
                Some(self.last_sent + rtt.timeout(self.expiries) + config.patience(rtt.mean()))
            }
            Profile::Seed => self
                .flight
                .iter()
                .filter(|slot| matches!(slot.state, State::Flying(_)))
                .map(|slot| slot.sent_at + rtt.timeout(slot.retries))
                .min(),
        }
    }
}

impl Slot {
    fn packet_len(&self) -> usize {
        match &self.state {
            State::Done => 0,
            State::Flying(packet) | State::Lost(packet) => packet.octets.len(),
        }
    }
}

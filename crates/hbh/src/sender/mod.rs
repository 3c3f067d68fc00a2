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

mod acknowledged;
mod course;
mod flight;
mod queue;
mod silence;
mod spare;

use std::collections::VecDeque;
use std::time::Duration;

use base::ip::FlowKey;
use base::tcp::Peek;
use base::time::{Time, earliest};

use self::course::Course;
use self::flight::{Flight, State};
use self::queue::Queue;
use super::config::{Config, Profile};
use super::link::Peer;
use super::pacer::Pacer;
use super::packet::Packet;
use super::peer::{Learned, PeerState};
use super::pool::Pool;
use super::stats::Sent;
use super::window::Window;
use super::wire::{self, Data, FlowId, MAX_SPAN};

/// A flow towards a peer.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) key: FlowKey,
    /// Where the flow comes from, when a peer sends it.
    pub(super) upstream: Option<(Peer, FlowId)>,
    pub(super) turn: Turn,
    pub(super) used_at: Time,
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
pub(super) struct Turn {
    /// Whether the link's turn list holds the flow.
    pub(super) is_listed: bool,
    /// Whether the flow is in the link's list of flows that may use idle time.
    pub(super) is_spare_listed: bool,
    /// Octets that the flow may still send in this turn.
    pub(super) deficit: usize,
    /// The deadline in the node's timers.
    pub(super) timer: Option<Time>,
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
            turn: Turn::default(),
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
        peer: &PeerState,
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
        let round_trip = peer.rtt.mean().unwrap_or_default();
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
    pub(super) fn next_timeout(
        &self,
        now: Time,
        peer: &PeerState,
        config: &Config,
    ) -> Option<Time> {
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

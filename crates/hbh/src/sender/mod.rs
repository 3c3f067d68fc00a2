//! Sends a flow to a peer: waiting packets (outputQ), unacknowledged packets (nACKedQ), and the choice of the next.
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
//! echo names that transmission. The profile `paper` knows only its timer.

mod codel;
mod course;
mod queue;
mod search;

use std::collections::VecDeque;
use std::time::Duration;

use base::ip::{FlowKey, mark_congestion};
use base::serial::is_after;
use base::tcp::Peek;
use base::time::{Time, earliest};
use codel::Codel;
use course::{Course, Hole};
use queue::Queue;
use search::Search;
#[cfg(test)]
pub use search::tests::LOOKED;

use super::budget::{Room, Sample};
use super::config::{Config, PROBE_INTERVAL, Profile};
use super::link::Peer;
use super::pacer::Pacer;
use super::packet::Packet;
use super::peer::{LONG, Learned, PeerPath};
use super::pool::Pool;
use super::receiver::START;
use super::repair;
use super::rtt::Estimator;
use super::stats::Sent;
use super::wire::{
    self, Ack, Data, FlowId, Layout, MAX_INTERVALS, Mask, RECOVERED, Repair, Seq, Transmission,
};

/// A flow towards a peer.
#[derive(Debug)]
pub struct Sender {
    key: FlowKey,
    /// Where the flow comes from, when a peer sends it.
    upstream: Option<(Peer, FlowId)>,
    listing: Listing,
    used_at: Time,
    id: FlowId,
    queue: Queue,
    codel: Codel,
    flight: Flight,
    course: Course,
    /// A segment that was given up or dropped before its turn, while no later transmission has told the peer.
    given_up: Hole,
    /// When anything was last sent.
    last_sent: Time,
    /// When a packet was last sent that was not a repair or a copy.
    last_packet: Time,
    /// Packets sent since an acknowledgement was last asked for; only the profile `paper` counts them.
    since_request: u8,
    /// Silences in a row.
    expiries: u8,
    /// When the peer was last heard to have taken anything, or the last silence ended.
    heard_at: Time,
    layout: Layout,
    /// Repairs that may still arrive.
    repairs: VecDeque<SentRepair>,
    /// Repeats that may still arrive, and the number of the next repeat.
    repeats: VecDeque<SentRepeat>,
    next_repeat: u64,
    /// The number up to which the peer has settled everything, as far as it said.
    told: u64,
    /// Whether the peer knows the flow.
    is_known: bool,
    /// Memory for the packets that ride on the next one.
    older: Vec<u8>,
    /// How many packets the peer has recovered, modulo 64, as it said last.
    recovered: u8,
    /// How much later a transmission may arrive than one after it, and until when that is remembered.
    reordering: (Duration, Time),
    /// When the latest of the transmissions known to have arrived was sent.
    newest_arrived: Time,
    pacer: Pacer,
}

/// A flow's place in the lists of its link and node.
#[derive(Debug, Default)]
pub struct Listing {
    /// Whether the neighbour's turn lists hold the flow.
    is_listed: bool,
    /// Whether the flow is in the link's list of flows that may use idle time.
    is_spare_listed: bool,
    /// Whether the neighbour's list of flows with a packet that the link lost holds the flow.
    is_urgent_listed: bool,
    /// Octets that the flow may still send in this turn.
    deficit: usize,
    /// The deadline in the node's timers.
    timer: Option<Time>,
}

impl Listing {
    /// Notes that a turn list of the neighbour holds the flow, which may send `quantum` octets in its first turn;
    /// returns whether that is new.
    pub fn list(&mut self, quantum: usize) -> bool {
        let is_new = !std::mem::replace(&mut self.is_listed, true);
        if is_new {
            self.deficit = quantum;
        }
        is_new
    }

    pub fn unlist(&mut self) {
        (self.is_listed, self.deficit) = (false, 0);
    }

    /// The same for the list of flows that may use idle time.
    pub fn list_spare(&mut self) -> bool {
        !std::mem::replace(&mut self.is_spare_listed, true)
    }

    pub fn unlist_spare(&mut self) {
        self.is_spare_listed = false;
    }

    /// The same for the list of flows with a packet that the link lost.
    pub fn list_urgent(&mut self) -> bool {
        !std::mem::replace(&mut self.is_urgent_listed, true)
    }

    pub fn unlist_urgent(&mut self) {
        self.is_urgent_listed = false;
    }

    /// Uses up `len` octets of the turn. If fewer are left, the next turn has `quantum` more; returns false.
    pub fn spend(&mut self, len: usize, quantum: usize) -> bool {
        if self.deficit < len {
            self.deficit += quantum;
            return false;
        }
        self.deficit -= len;
        true
    }

    /// Restores `len` octets of the turn, which were not sent after all.
    pub fn give_back(&mut self, len: usize) {
        self.deficit += len;
    }

    /// Sets the deadline to `at`, or just after `now`, unless the deadline is earlier already; returns the new and the
    /// previous deadline.
    pub fn schedule(&mut self, now: Time, at: Time) -> Option<(Time, Option<Time>)> {
        if self.timer.is_some_and(|timer| timer <= at) {
            return None;
        }
        let at = at.max(now + Duration::from_nanos(1));
        Some((at, self.timer.replace(at)))
    }

    /// The deadline has passed.
    pub fn handle_timeout(&mut self) {
        self.timer = None;
    }
}

#[derive(Clone, Copy, Debug)]
struct SentRepair {
    order: u64,
    at: Time,
}

/// A transmission with a separate number: a repeat or a repair.
#[derive(Clone, Copy, Debug)]
struct SentRepeat {
    number: u64,
    /// The packet; `None` for a repair.
    of: Option<u64>,
    order: u64,
    at: Time,
}

/// Packets at the entrance that were dropped, and marked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thinned {
    pub dropped: u64,
    pub marked: u64,
}

/// With this many flows the link stays full, whichever flow slows down. Fewer flows have longer queues: a single one
/// would leave a long path idle after each drop.
const MANY: usize = 8;
/// Packets whose time at the flow's own rate is always tolerated as wait.
const FEW: f64 = 1.0;
/// Packets that always may wait: TCP notices a loss by three packets that follow it (RFC 5681, 3.2), or else by a
/// timer.
const LEAST: usize = 3;

/// Repeats that are remembered at most.
const REPEATS: usize = 4_096;

/// The possible actions of a flow in its turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turn {
    /// The flow has something to send, but the neighbour's budget has no room.
    Blocked,
    /// The flow may send nothing now.
    Nothing,
    Send(Choice),
}

/// What to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Choice {
    /// The first packet that waits.
    New,
    /// The packet at this place of the flight, because the packet is lost.
    Repeat(usize),
    /// A sum of packets of the flight, because the link is idle.
    Repair,
    /// The packet at this place of the flight, because the link is idle.
    Spare(usize),
}

impl Sender {
    pub fn new(now: Time, id: FlowId, key: FlowKey, config: &Config) -> Self {
        Self {
            key,
            upstream: None,
            listing: Listing::default(),
            used_at: now,
            id,
            queue: Queue::new(now),
            codel: Codel::default(),
            flight: Flight::new(),
            course: Course::default(),
            given_up: Hole::default(),
            last_sent: now,
            last_packet: now,
            since_request: 0,
            expiries: 0,
            heard_at: now,
            layout: config.profile.layout(),
            repairs: VecDeque::new(),
            repeats: VecDeque::new(),
            next_repeat: START,
            told: START,
            is_known: false,
            older: Vec::new(),
            recovered: 0,
            reordering: (Duration::ZERO, now),
            newest_arrived: Time::ZERO,
            pacer: Pacer::new(config),
        }
    }

    /// Takes other parameters of the same profile.
    pub fn set_config(&mut self, config: &Config) {
        self.pacer.set_config(config);
    }

    /// The addresses and ports of the flow's packets.
    pub fn key(&self) -> FlowKey {
        self.key
    }

    /// The flow from a peer that this flow continues, if a peer brings the packets.
    pub fn upstream(&self) -> Option<(Peer, FlowId)> {
        self.upstream
    }

    pub fn set_upstream(&mut self, upstream: Option<(Peer, FlowId)>) {
        self.upstream = upstream;
    }

    /// The flow's place in the lists of its link and node.
    pub fn listing_mut(&mut self) -> &mut Listing {
        &mut self.listing
    }

    /// When the flow was last used.
    pub fn used_at(&self) -> Time {
        self.used_at
    }

    /// Whether a packet that enters here may wait.
    pub fn has_room(&mut self, now: Time, config: &Config) -> bool {
        self.queue.has_room(now, self.pacer.throughput(now), config)
    }

    /// Drops a packet from the front of the queue in favour of a new packet: the packets behind reveal the loss to the
    /// sender at once, while a loss of the last packets is noticed only by a timer. Returns whether a packet was waiting.
    pub fn make_room(&mut self, pool: &mut Pool) -> bool {
        let packet = self.queue.thin();
        self.give_up(packet, pool)
    }

    fn drop_first(&mut self, pool: &mut Pool) -> bool {
        let packet = self.queue.pop();
        self.give_up(packet, pool)
    }

    fn give_up(&mut self, packet: Option<Packet>, pool: &mut Pool) -> bool {
        let Some(packet) = packet else { return false };
        // The next segment that goes out says that the last hop need not wait for the dropped one.
        self.given_up.note(packet.tcp);
        pool.give(packet.octets);
        true
    }

    /// Takes a packet; there is room.
    pub fn handle_packet(&mut self, now: Time, mut packet: Packet) {
        self.used_at = now;
        packet.is_repeated =
            packet.tcp.is_some_and(|tcp| tcp.occupies() > 0 && !self.course.is_new(tcp));
        self.course.handle_packet(&mut packet, self.upstream.is_some());
        self.queue.push(packet);
    }

    /// Notes a packet that was refused.
    pub fn handle_loss(&mut self, tcp: Option<Peek>) {
        self.course.handle_loss(tcp);
    }

    /// Whether this segment is still to be sent, so that no repeat is needed.
    ///
    /// The last waiting packet is replaced by a newer copy, which has the newer timestamp. A copy that was sent may
    /// have been lost behind the next hop, so it counts only until it can have been acknowledged,
    /// or while nothing is heard from the peer.
    pub fn absorb(
        &mut self,
        now: Time,
        tcp: Peek,
        packet: &[u8],
        header_len: usize,
        peer: &PeerPath,
    ) -> bool {
        if tcp.occupies() == 0 {
            return self.supersede(now, tcp, packet, header_len);
        }
        if self.course.is_new(tcp) {
            return false;
        }
        let is_same = |held: &Packet| {
            held.tcp.is_some_and(|held| {
                (held.seq, held.len, held.is_syn(), held.occupies())
                    == (tcp.seq, tcp.len, tcp.is_syn(), tcp.occupies())
            })
        };
        if self.queue.renew(is_same, packet, header_len) {
            return true;
        }
        let round_trip = peer.rtt().mean().unwrap_or_default();
        let found = self.flight.find(is_same).map(|index| &self.flight.slots[index]);
        found.is_some_and(|slot| match slot.state {
            State::Done => false,
            State::Lost(_) => true,
            State::Flying(_) => peer.is_silent() || now < slot.sent_at() + round_trip,
        })
    }

    /// Puts a pure acknowledgement in place of an older one, if the older one is the flow's last waiting packet and the
    /// flow has waited for long: acknowledgements then come faster than the way carries them. A burst of them goes out
    /// whole, because TCP's window may grow with their number. Duplicates go out too, because TCP counts them (RFC
    /// 5681, 3.2).
    fn supersede(&mut self, now: Time, tcp: Peek, packet: &[u8], header_len: usize) -> bool {
        let is_slow =
            self.queue.front().is_some_and(|first| now.since(first.taken_at) >= codel::TARGET);
        let is_older = |held: &Packet| {
            held.is_pure_ack()
                && held.tcp.is_some_and(|held| {
                    held.flags == tcp.flags && held.seq == tcp.seq && is_after(tcp.ack, held.ack)
                })
        };
        if !is_slow || !self.queue.replace_last(is_older, (packet, header_len, tcp)) {
            return false;
        }
        self.course.handle_ack(tcp);
        true
    }

    /// Whether a TCP reset is the connection's own: the reset carries the next expected number (RFC 5961, 3.2).
    pub fn believes_reset(&self, tcp: Peek) -> bool {
        self.course.is_next(tcp)
    }

    /// Chooses the next transmission; `room` is what the neighbour's budget has room for.
    pub fn choose(&mut self, now: Time, (is_silent, room): (bool, Room), config: &Config) -> Turn {
        let is_held = self.pacer.held_until(now).is_some();
        // Packets for which a congested peer had no room are no more urgent than new packets.
        let may_repeat = !is_held || config.profile == Profile::Paper;
        // The paper's window is checked by `span` below.
        let blocks = |packet| config.profile == Profile::Default && !has_room(room, packet);
        if self.flight.lost > 0 && may_repeat {
            let index = self.flight.first_lost();
            if let State::Lost(packet) = &self.flight.slots[index].state {
                let is_blocked = blocks(packet);
                return if is_blocked { Turn::Blocked } else { Turn::Send(Choice::Repeat(index)) };
            }
        }
        let Some(first) = self.queue.front() else { return Turn::Nothing };
        if self.waits_to_hear(is_silent, first, config) {
            return Turn::Nothing;
        }
        let span = match config.profile {
            Profile::Default => self.layout.span(),
            Profile::Paper => config.fixed_window(),
        };
        if is_held || self.flight.slots.len() >= span {
            return Turn::Nothing;
        }
        if blocks(first) { Turn::Blocked } else { Turn::Send(Choice::New) }
    }

    /// Whether nothing new goes to a peer that may not be there: something old asks for it.
    ///
    /// After a first silence this holds only for many packets, which would fill the radio's queue: what the radio sends
    /// to a neighbour that has gone takes longest.
    fn waits_to_hear(&self, is_silent: bool, first: &Packet, config: &Config) -> bool {
        let outstanding = self.flight.flying + self.flight.lost;
        let is_burst = config.profile == Profile::Default
            && self.expiries > 0
            && outstanding > MOST_UNHEARD
            && !first.is_pure_ack();
        outstanding > 0 && (is_silent || is_burst)
    }

    /// Whether the link has lost a packet. What a congested peer left with us is no more urgent than new packets, and the
    /// profile `paper` knows no order but turns.
    pub fn is_urgent(&self, config: &Config) -> bool {
        self.flight.lost > 0 && config.profile == Profile::Default && !self.may_be_left(config)
    }

    /// Octets of the IP packet that `choice` would send, HBH's header included.
    pub fn len_of(&self, choice: Choice) -> usize {
        wire::HEADER
            + self.extras(choice) * wire::EXTRA
            + match choice {
                Choice::New => self.queue.front().map_or(0, |packet| packet.octets.len()),
                Choice::Repair => 0,
                Choice::Repeat(index) | Choice::Spare(index) => {
                    self.flight.slots[index].packet_len()
                }
            }
    }

    /// Numbers beyond the header that a transmission needs.
    fn extras(&self, choice: Choice) -> usize {
        let is_repeat = matches!(choice, Choice::Repeat(_) | Choice::Spare(_));
        match self.layout {
            Layout::Paper => 0,
            Layout::Wide => usize::from(is_repeat) + usize::from(self.must_tell_base()),
        }
    }

    /// Whether the peer may not know where the flow's outstanding packets begin.
    fn must_tell_base(&self) -> bool {
        !self.is_known || self.told < self.flight.base()
    }

    /// Gives a transmission a separate number; `of` is the packet's number, `None` for a repair.
    fn name_repeat(&mut self, now: Time, order: u64, of: Option<u64>) -> Seq {
        let number = self.next_repeat;
        self.next_repeat += 1;
        if self.repeats.len() == REPEATS {
            self.repeats.pop_front();
        }
        self.repeats.push_back(SentRepeat { number, of, order, at: now });
        self.layout.low(number)
    }

    /// Sends: appends the IP packet to `out`, with the messages `riders` before its own, and its
    /// older packets as far as `room` octets go. Returns the length of the IP header.
    pub fn transmit(
        &mut self,
        now: Time,
        choice: Choice,
        (riders, room): (&[u8], usize),
        peer: &mut PeerPath,
        (config, stats): (&Config, &mut Sent),
        out: &mut Vec<u8>,
    ) -> usize {
        let is_patient = peer.is_patient(config);
        let must_tell_base = self.must_tell_base();
        let index = match choice {
            Choice::New => self.flight.launch(self.queue.pop().expect("a packet waits")),
            Choice::Repeat(index) => {
                self.relaunch(index, config);
                stats.data_repeated += 1;
                index
            }
            Choice::Spare(index) => {
                stats.data_spare += 1;
                if self.is_ack(index) {
                    peer.handle_ack_copy();
                }
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
        let is_probe = matches!(choice, Choice::Repeat(_)) && self.expiries > 0;
        let (sample, wants_ack) = match config.profile {
            Profile::Default => {
                let is_counted = self.flight.is_counted(index);
                let len = self.flight.slots[index].packet_len();
                let (sample, asks) = peer.handle_sent(now, len, is_counted);
                (sample, is_probe || asks)
            }
            // "At the end of each transmission window": after W packets, or when none is left.
            Profile::Paper => {
                self.since_request = self.since_request.saturating_add(1);
                let asks = usize::from(self.since_request) >= config.fixed_window()
                    || (self.queue.is_empty() && self.flight.lost == 0);
                if asks {
                    self.since_request = 0;
                }
                (Sample::default(), asks)
            }
        };
        let mut older = std::mem::take(&mut self.older);
        older.clear();
        if config.profile == Profile::Default && room > 0 {
            stats.data_older += u64::from(self.gather_older(index, room, &mut older));
        }
        let base = self.flight.base();
        let number = base + index as u64;
        let is_ours = config.profile == Profile::Default;
        let repeat =
            (is_ours && choice != Choice::New).then(|| self.name_repeat(now, order, Some(number)));
        let slot = &mut self.flight.slots[index];
        slot.handle_sent(now, order, sample);
        let State::Flying(packet) = &mut slot.state else {
            unreachable!("launched or flying just above");
        };
        // The hole bit is in the sums of repairs, so no repeat may change it.
        if choice == Choice::New
            && let Some(tcp) = packet.tcp.filter(|tcp| tcp.occupies() > 0)
        {
            packet.has_hole |= self.given_up.take(tcp);
        }
        self.pacer.handle_sent(now, packet.octets.len());

        let header_len = packet.header_len;
        let seq = self.layout.low(number);
        let outstanding = (is_ours && must_tell_base).then(|| u16::try_from(index).unwrap_or(0));
        let data = Data {
            repeat,
            outstanding,
            wants_ack,
            has_hole: is_ours && packet.has_hole,
            is_patient: is_ours && is_patient,
            older: wire::older(&older),
            ..Data::new(self.id, seq, packet.protocol, &packet.octets[header_len..])
        };
        out.extend_from_slice(&packet.octets[..header_len]);
        out.extend_from_slice(riders);
        data.emit(self.layout, out);
        self.older = older;
        header_len
    }

    /// When silence, the rate, or idle time that may be used, wants attention.
    pub fn next_timeout(&self, now: Time, peer: &PeerPath, config: &Config) -> Option<Time> {
        let is_idle = self.queue.is_empty() && self.flight.lost == 0;
        let held = if is_idle { None } else { self.pacer.held_until(now) };
        let spare = self.spare_timeout(now, peer, config);
        earliest(earliest(self.silence_ends(peer, config), held), spare)
    }

    /// Whether it may have something to send.
    pub fn has_work(&self, now: Time) -> bool {
        self.flight.lost > 0 || (!self.queue.is_empty() && self.pacer.held_until(now).is_none())
    }

    /// Whether something flies.
    pub fn has_flying(&self) -> bool {
        self.flight.flying > 0
    }

    /// Packets that wait.
    pub fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Packets that wait or are not acknowledged.
    pub fn held(&self) -> usize {
        self.queue.len() + self.flight.flying + self.flight.lost
    }

    /// Packets in flight that count in the neighbour's budget.
    pub fn counted(&self) -> usize {
        self.flight.counted
    }

    /// Discards packets that have waited for too long; returns how many.
    pub fn expire(&mut self, now: Time, lifetime: Duration, pool: &mut Pool) -> u64 {
        let mut expired = 0;
        while self.queue.front().is_some_and(|packet| packet.is_expired(now, lifetime)) {
            expired += u64::from(self.drop_first(pool));
        }
        expired
    }

    /// Drops or marks the first packets of a queue that stays long, so that their sender slows down; only where the
    /// flow enters HBH. The neighbour has this many `flows` with something to send, and its budget `room` for some.
    pub fn thin_out(
        &mut self,
        now: Time,
        (peer, flows, room): (&PeerPath, usize, Room),
        config: &Config,
        pool: &mut Pool,
    ) -> Thinned {
        let mut thinned = Thinned::default();
        if config.profile == Profile::Paper || self.upstream.is_some() || flows < MANY {
            return thinned;
        }
        let rate = self.pacer.throughput(now).max(1.0);
        let round_trip = peer.rtt().mean().unwrap_or_default();
        // If a repeat were dropped too, only TCP's timer would send the segment again, and it doubles each time.
        let may_go = |first: &&Packet| !first.is_repeated && has_room(room, first);
        while let Some(first) = self.queue.front().filter(may_go) {
            let few = FEW * first.octets.len() as f64 * 8.0 / rate;
            let target = codel::TARGET.max(Duration::from_secs_f64(few.min(10.0)));
            // A recovering flow need not fill the link if others share the link.
            let interval = codel::INTERVAL.div_f64(1.0 + flows as f64 / 4.0);
            let waited = now.since(first.taken_at);
            // A sender notices when what stands behind the dropped packet has arrived: on a slow link a flow has too
            // few packets for a drop before that.
            let setting = (target, interval.max(waited + round_trip));
            // After an outage TCP's timer is as long as the outage was: until then it misses what is dropped.
            let stays = self.queue.len() <= LEAST || peer.kept_waiting(first.taken_at);
            let wait = if stays { Duration::ZERO } else { waited };
            if !self.codel.drops(now, wait, setting) {
                break;
            }
            if self.queue.front_mut().is_some_and(|first| mark_congestion(&mut first.octets)) {
                thinned.marked += 1;
                break;
            }
            thinned.dropped += u64::from(self.drop_first(pool));
        }
        thinned
    }

    /// The number of queued packets that leave within `time` at the recent rate.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    pub fn leaving(&self, now: Time, time: Duration) -> usize {
        let octets = self.pacer.throughput(now) / 8.0 * time.as_secs_f64();
        let each = self.queue.octets() as f64 / self.queue.len().max(1) as f64;
        (octets / each.max(1.0)) as usize
    }

    /// Hands back what another neighbour has use for, oldest first, and forgets all packets.
    ///
    /// `acknowledged` is the highest acknowledgement that the other direction of the connection brought here. A segment
    /// before it has arrived: only the neighbour's own acknowledgement is missing. And of TCP's acknowledgements that
    /// are handed back the newest says all. Returns how many packets were of no use.
    pub fn take_back(
        &mut self,
        acknowledged: Option<u32>,
        (config, pool): (&Config, &mut Pool),
        mut take: impl FnMut(&Packet),
    ) -> u64 {
        let course = &self.course;
        let tcp_of = |packet: &Packet| packet.tcp.filter(|_| config.profile == Profile::Default);
        let has_arrived = |tcp: Peek| {
            acknowledged.is_some_and(|acknowledged| course.has_arrived(tcp, acknowledged))
        };
        let newest = self
            .flight
            .packets()
            .chain(self.queue.packets())
            .filter_map(tcp_of)
            .filter(|&tcp| !tcp.is_syn() && !tcp.is_reset() && !has_arrived(tcp))
            .map(|tcp| tcp.ack)
            .reduce(|newest, ack| if is_after(ack, newest) { ack } else { newest });
        let is_useless = |packet: &Packet| {
            tcp_of(packet).is_some_and(|tcp| {
                let is_replaced = newest.is_some_and(|newest| is_after(newest, tcp.ack));
                has_arrived(tcp) || packet.is_pure_ack() && is_replaced
            })
        };
        let mut useless = 0;
        let mut hand_back = |packet: Packet| {
            if is_useless(&packet) {
                useless += 1;
            } else {
                take(&packet);
            }
            pool.give(packet.octets);
        };
        self.flight.take_back(&mut hand_back);
        while let Some(packet) = self.queue.pop() {
            hand_back(packet);
        }
        useless
    }

    /// The highest acknowledgement of the connection's other direction.
    pub fn newest_ack(&self) -> Option<u32> {
        self.course.newest_ack()
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
        self.flight.land(&packet);
        let slot = &mut self.flight.slots[index];
        if is_superseded {
            learned.superseded += 1;
            pool.give(packet.octets);
        } else if slot.retries >= config.retries || packet.is_expired(now, config.lifetime) {
            learned.abandoned += 1;
            self.given_up.note(packet.tcp);
            pool.give(packet.octets);
        } else {
            slot.state = State::Lost(packet);
            self.flight.note_lost(index);
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
            self.flight.fly(index);
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
    pub fn handle_ack(
        &mut self,
        now: Time,
        ack: &Ack<'_>,
        peer: &mut PeerPath,
        config: &Config,
        pool: &mut Pool,
    ) -> Learned {
        self.used_at = now;
        let mut learned = Learned::default();
        if ack.is_unknown {
            self.handle_unknown(now, config, pool, &mut learned);
            return learned;
        }
        let base = self.flight.base();
        let next = self.layout.complete(ack.next, base);
        if next > self.flight.next {
            // Nobody has sent such a packet.
            learned.absurd += 1;
            return learned;
        }
        let arrived = match config.profile {
            Profile::Default => self.read_echo(now, ack, peer),
            Profile::Paper => {
                self.sample_newest(now, (ack, next), peer.rtt_mut());
                None
            }
        };

        self.is_known = true;
        self.told = self.told.max(next);
        let place =
            |number: u64| usize::try_from(number.saturating_sub(base)).unwrap_or(usize::MAX);
        self.finish(now, 0, place(next), pool, &mut learned);
        let mut judged = u64::MAX;
        for (first, past) in ack.arrived(self.layout, next) {
            self.finish(now, place(first), place(past), pool, &mut learned);
            if ack.intervals.len() == MAX_INTERVALS {
                // A full acknowledgement may leave out later runs.
                judged = past;
            }
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
            self.heard_at = now;
        }
        if let Some(arrived) = arrived {
            let round_trip = peer.rtt().mean().unwrap_or_default();
            let to = place(judged).min(self.flight.slots.len());
            self.find_overtaken(now, arrived, (round_trip, to), config, pool, &mut learned);
        }

        let round_trip = peer.rtt().mean().unwrap_or(config.rto.initial);
        if ack.is_congested {
            self.pacer.handle_congestion(now, round_trip);
        } else if config.profile == Profile::Default {
            self.pacer.handle_clear();
        }
        self.flight.slide();
        learned
    }

    /// The peer has taken nothing of the flow: all is to be sent again, and says where the flow begins.
    fn handle_unknown(
        &mut self,
        now: Time,
        config: &Config,
        pool: &mut Pool,
        learned: &mut Learned,
    ) {
        // Once, or forged messages would have all of it sent over and over.
        if self.is_known {
            self.is_known = false;
            self.handle_revival(now, config, pool, learned);
        }
    }

    /// Takes the round trip from the echo, and returns the number and time of the transmission
    /// that arrived last.
    fn read_echo(&mut self, now: Time, ack: &Ack<'_>, peer: &mut PeerPath) -> Option<(u64, Time)> {
        let echo = ack.echo?;
        let (arrived, len) = match echo.of {
            Transmission::First(seq) => {
                let base = self.flight.base();
                let ahead = self.layout.complete(seq, base).checked_sub(base)?;
                let slot = self.flight.slots.get_mut(usize::try_from(ahead).ok()?)?;
                let (order, at) = slot.first;
                if slot.was_overtaken {
                    // It was not lost but late: this link does not keep order.
                    slot.was_overtaken = false;
                    let late = self.newest_arrived.since(at);
                    let most = peer.rtt().mean().unwrap_or_default();
                    let allowed = (late + late / 4).min(most).max(self.reordering.0);
                    self.reordering = (allowed, now + REORDERING_MEMORY);
                }
                ((order, at), slot.packet_len())
            }
            Transmission::Repeat(low) => {
                let number = self.layout.complete(low, self.next_repeat);
                let back = usize::try_from(self.next_repeat.checked_sub(number)?).ok()?;
                let index = self.repeats.len().checked_sub(back)?;
                let repeat = *self.repeats.get(index)?;
                debug_assert_eq!(repeat.number, number, "they have numbers in a row");
                ((repeat.order, repeat.at), self.flight.len_of(repeat.of))
            }
        };
        self.newest_arrived = self.newest_arrived.max(arrived.1);
        if let Some(delay) = echo.delay {
            peer.handle_sample(now, len, now.since(arrived.1).saturating_sub(delay));
        }
        Some(arrived)
    }

    /// The sample of the profile `paper`: the newest packet that this acknowledges for the first time.
    fn sample_newest(&self, now: Time, (ack, next): (&Ack<'_>, u64), rtt: &mut Estimator) {
        let base = self.flight.base();
        let is_named = |index: usize| {
            let at = base + index as u64;
            at < next
                || ack.arrived(self.layout, next).any(|(first, past)| first <= at && at < past)
        };
        let newest = self
            .flight
            .slots
            .iter()
            .enumerate()
            .filter(|(index, slot)| !matches!(slot.state, State::Done) && is_named(*index))
            .max_by_key(|(_, slot)| slot.order());
        if let Some((_, slot)) = newest {
            rtt.handle_sample(now, slot.packet_len(), now.since(slot.sent_at()));
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
                    self.flight.counted -= usize::from(!packet.is_pure_ack());
                    packet
                }
                State::Lost(packet) => {
                    self.flight.lost -= 1;
                    packet
                }
            };
            learned.handle_delivered(slot.sample, !packet.is_pure_ack());
            self.pacer.handle_acked(now, packet.octets.len());
            pool.give(packet.octets);
        }
    }

    /// A transmission arrived: what was sent before it and has not is lost.
    fn find_overtaken(
        &mut self,
        now: Time,
        (order, sent_at): (u64, Time),
        (round_trip, to): (Duration, usize),
        config: &Config,
        pool: &mut Pool,
        learned: &mut Learned,
    ) {
        // A repair still in flight may recover a lost packet.
        self.repairs.retain(|repair| repair.order >= order && repair.at + round_trip * 2 > now);
        let mut under_way = self.repairs.iter().filter(|repair| repair.order > order).count();
        let mut previous = None;
        let may_be_left = self.may_be_left(config);
        if self.reordering.1 < now {
            // Seldom needed lately.
            self.reordering = (self.reordering.0 / 2, now + REORDERING_MEMORY);
        }
        for index in 0..to {
            let slot = &mut self.flight.slots[index];
            if slot.first.0 > order {
                // All later slots were sent later still.
                break;
            }
            if matches!(slot.state, State::Flying(_))
                && slot.order() < order
                && sent_at.since(slot.sent_at()) >= self.reordering.0
            {
                if slot.doubted != slot.order() && !may_be_left {
                    slot.doubted = slot.order();
                    learned.handle_lost(slot.sample);
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

/// How long it is remembered how late packets may be.
const REORDERING_MEMORY: Duration = Duration::from_secs(10);
/// How many packets are sent after a first silence.
const PROBES: u8 = 4;
/// More outstanding packets than these wait for the answer to the probes.
const MOST_UNHEARD: usize = 8;
/// Each silence lasts longer than the one before, this many times.
const BACKOFFS: u8 = 3;
/// While nobody knows how long the packets in flight take, a silence lasts twice as long as the last one, so many times.
const DOUBLINGS: u8 = 6;

impl Sender {
    /// Declares lost what has been silent for too long; returns whether a silence has ended.
    pub fn handle_timeout(
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
            Profile::Default if peer.is_silent() || peer.is_untimed() => 1,
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
        (self.last_sent, self.heard_at) = (now, now);
        self.repairs.clear();
        self.flight.slide();
        true
    }

    /// A peer that was silent is heard again: packets sent to the peer meanwhile are lost.
    pub fn handle_revival(
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
    pub fn handle_unsent(
        &mut self,
        now: Time,
        data: &Data<'_>,
        config: &Config,
        pool: &mut Pool,
    ) -> Learned {
        let mut learned = Learned::default();
        let base = self.flight.base();
        let number = self.layout.complete(data.seq, base);
        let index = number.checked_sub(base).and_then(|index| usize::try_from(index).ok());
        let Some(index) = index else { return learned };
        let latest = self.repeats.iter().rev().find(|repeat| repeat.of == Some(number));
        let latest = latest.map(|repeat| self.layout.low(repeat.number));
        let Some(slot) = self.flight.slots.get_mut(index) else { return learned };
        // If other copies are in flight, one may still arrive.
        if latest == data.repeat && slot.flying_copies == 1 {
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
    pub fn probe_interval(&self, peer: &PeerPath, config: &Config) -> Duration {
        PROBE_INTERVAL.max(peer.rtt().timeout(0) + peer.longest_ack_wait(config))
    }

    /// When nothing has been heard for too long.
    fn silence_ends(&self, peer: &PeerPath, config: &Config) -> Option<Time> {
        if self.flight.flying == 0 {
            return None;
        }
        let rtt = peer.rtt();
        match config.profile {
            Profile::Default => {
                if rtt.mean().is_none() {
                    return Some(self.last_sent + self.first_silence(rtt, config));
                }
                if peer.is_untimed() {
                    let before = u32::try_from(self.flight.counted).unwrap_or(u32::MAX);
                    let usual = rtt.timeout(0)
                        + self.flight.allowance(rtt).saturating_mul(before.max(1))
                        + peer.longest_ack_wait(config);
                    return Some(self.waits_since(rtt) + self.doubled(usual));
                }
                let backoffs = self.expiries.min(BACKOFFS);
                let usual = rtt.timeout(backoffs)
                    + if self.expiries == 0 { self.flight.allowance(rtt) } else { Duration::ZERO }
                    + peer.longest_ack_wait(config);
                Some(self.waits_since(rtt) + usual.min(self.probe_interval(peer, config)))
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

impl Sender {
    /// When the wait for an answer began. Further packets delay the start of the wait by one timeout at most: a
    /// half-duplex peer answers only after a train of packets.
    fn waits_since(&self, rtt: &Estimator) -> Time {
        let oldest = self.flight.slots.front().map_or(self.last_sent, Slot::sent_at);
        self.last_sent.min(oldest.max(self.heard_at) + rtt.timeout(0))
    }

    /// Doubles a wait with each silence, as TCP does: repeats of long packets must not fill a link that may be slow.
    fn doubled(&self, wait: Duration) -> Duration {
        wait * (1 << self.expiries.min(DOUBLINGS))
    }

    /// How long to wait for the first acknowledgement ever.
    ///
    /// While nobody knows how long it takes, a packet goes out twice in the first second.
    fn first_silence(&self, rtt: &Estimator, config: &Config) -> Duration {
        let is_again = self.expiries > 0
            || self.flight.slots.front().is_some_and(|slot| slot.flying_copies > 1);
        if rtt.is_unknown() && is_again {
            return if self.expiries < 2 { UNKNOWN } else { PROBE_INTERVAL };
        }
        let longest = self.flight.slots.iter().map(Slot::packet_len).max().unwrap_or(0);
        let wait = config.ack_wait(None, false);
        let usual = rtt.first_timeout(longest) + wait;
        if longest >= LONG {
            return self.doubled(usual);
        }
        (usual * (1 << self.expiries.min(BACKOFFS))).min(PROBE_INTERVAL.max(usual))
    }
}

/// Whether a budget has room for a packet. Acknowledgements fill no link.
fn has_room(room: Room, packet: &Packet) -> bool {
    match room {
        Room::None => packet.is_pure_ack(),
        Room::Short => packet.octets.len() < LONG,
        Room::Any => true,
    }
}

/// The pause between two transmissions while nobody knows how long one takes.
const UNKNOWN: Duration = Duration::from_secs(1);

// Uses an idle link for a flow's packets in flight, and lets short packets ride on later ones.

impl Sender {
    /// Chooses an unrequested transmission for an idle link with losses.
    ///
    /// Repairs, until fewer losses than repairs are likely enough; copies where there is but one
    /// packet, or where a repair would be too long.
    pub fn choose_spare(&self, now: Time, peer: &PeerPath, config: &Config) -> Option<Choice> {
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
    pub fn spare_timeout(&self, now: Time, peer: &PeerPath, config: &Config) -> Option<Time> {
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
        if rest == 0 && self.is_ack(first) && !peer.may_copy_acks() {
            return None;
        }
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
        let from = self.flight.slots.len().saturating_sub(repair::COVERED);
        let newest = self.flight.slots.range(from..).rposition(|slot| match &slot.state {
            State::Done | State::Lost(_) => false,
            State::Flying(packet) => packet.is_pure_ack(),
        });
        let newest = newest.map(|at| from + at);
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
        let copies = peer.copies(config).max(probes);
        // Long packets cost too much to be sent many times to a peer that may not even be there.
        if peer.is_unheard() && self.flight.longest > LONG { copies.min(2) } else { copies }
    }

    fn is_ack(&self, index: usize) -> bool {
        matches!(&self.flight.slots[index].state, State::Flying(packet) if packet.is_pure_ack())
    }

    /// Sends a sum of the packets in flight, as an IP packet of the flow; returns the length of the
    /// IP header.
    pub fn emit_repair(&mut self, now: Time, sum: &mut Vec<u8>, out: &mut Vec<u8>) -> usize {
        let order = self.flight.next_order();
        self.last_sent = now;
        let repeat = self.name_repeat(now, order, None);
        let base = self.flight.base();
        let number = |index: usize| base + index as u64;
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
        repair::sum(repeat.0, covered, sum);
        let Some((_, packet)) = self.covered().last() else { return 0 };
        let header_len = packet.header_len;
        out.extend_from_slice(&packet.octets[..header_len]);
        let mask = Mask::new(&mask[..span.div_ceil(8)]).expect("1 to 16 octets");
        let (protocol, first) = (packet.protocol, self.layout.low(number(first)));
        Repair { flow: self.id, first, repeat, protocol, mask, sum }.emit(out);
        self.repairs.push_back(SentRepair { order, at: now });
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
        let from = index.saturating_sub(wire::MAX_BACK.into());
        for (at, slot) in self.flight.slots.range(from..index).enumerate().rev() {
            let at = from + at;
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
#[derive(Debug)]
struct Flight {
    slots: VecDeque<Slot>,
    /// The number of the next packet.
    next: u64,
    /// The numbers of slots in flight and of slots lost.
    flying: usize,
    lost: usize,
    /// No packet with a lower number is lost.
    lost_from: u64,
    search: Search,
    /// How many slots in flight count in the neighbour's budget.
    counted: usize,
    /// Octets of the longest packet so far.
    longest: usize,
    /// The number of transmissions so far, and so the number of the latest transmission.
    order: u64,
}

/// The place of one packet.
#[derive(Debug)]
struct Slot {
    state: State,
    /// The first and the latest transmission of the packet, with their times.
    first: (u64, Time),
    latest: (u64, Time),
    /// The state of the path at the latest transmission.
    sample: Sample,
    /// Transmissions since it was last found lost.
    flying_copies: u8,
    retries: u8,
    /// The transmission counted as lost.
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
    fn new() -> Self {
        Self {
            slots: VecDeque::new(),
            next: START,
            flying: 0,
            lost: 0,
            lost_from: START,
            search: Search::default(),
            counted: 0,
            longest: 0,
            order: 0,
        }
    }

    /// The number of the lowest outstanding packet.
    fn base(&self) -> u64 {
        self.next - self.slots.len() as u64
    }

    /// Whether the packet at `index` flies and counts in the neighbour's budget.
    fn is_counted(&self, index: usize) -> bool {
        matches!(&self.slots[index].state, State::Flying(packet) if !packet.is_pure_ack())
    }

    /// The packet at `index` flies from now on.
    fn fly(&mut self, index: usize) {
        self.flying += 1;
        self.counted += usize::from(self.is_counted(index));
    }

    /// A packet flies no more.
    fn land(&mut self, packet: &Packet) {
        self.flying -= 1;
        self.counted -= usize::from(!packet.is_pure_ack());
    }

    /// Takes a packet that is sent for the first time, and returns its place.
    fn launch(&mut self, packet: Packet) -> usize {
        self.longest = self.longest.max(packet.octets.len());
        self.slots.push_back(Slot {
            state: State::Flying(packet),
            first: (0, Time::ZERO),
            latest: (0, Time::ZERO),
            sample: Sample::default(),
            flying_copies: 0,
            retries: 0,
            doubted: 0,
            was_overtaken: false,
        });
        self.next += 1;
        self.fly(self.slots.len() - 1);
        self.slots.len() - 1
    }

    /// Numbers a transmission.
    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Octets of the packet with this number, if it is still here.
    fn len_of(&self, number: Option<u64>) -> usize {
        let ahead = number.and_then(|number| number.checked_sub(self.base()));
        let at = ahead.and_then(|ahead| usize::try_from(ahead).ok());
        at.and_then(|at| self.slots.get(at)).map_or(0, Slot::packet_len)
    }

    /// How much longer its longest packet may take.
    fn allowance(&self, rtt: &Estimator) -> Duration {
        rtt.allowance(self.longest)
    }

    /// The packet at `index` is lost from now on.
    fn note_lost(&mut self, index: usize) {
        self.lost += 1;
        self.lost_from = self.lost_from.min(self.base() + index as u64);
    }

    /// The place of the first lost packet; there is one. No place is looked at twice unless a packet before it was
    /// lost.
    fn first_lost(&mut self) -> usize {
        let base = self.base();
        let from = usize::try_from(self.lost_from.saturating_sub(base)).unwrap_or(0);
        let is_lost = |slot: &Slot| {
            #[cfg(test)]
            LOOKED.set(LOOKED.get() + 1);
            matches!(slot.state, State::Lost(_))
        };
        let ahead = self.slots.range(from..).position(is_lost).expect("as many as counted");
        self.lost_from = base + (from + ahead) as u64;
        from + ahead
    }

    /// The place of the packet selected by `is_it` that TCP may repeat now.
    fn find(&mut self, is_it: impl Fn(&Packet) -> bool) -> Option<usize> {
        let (places, slots) = ((self.base(), self.slots.len()), &self.slots);
        self.search.find(places, |index| match &slots[index].state {
            State::Done => false,
            State::Flying(packet) | State::Lost(packet) => is_it(packet),
        })
    }

    /// The packets that are not acknowledged, oldest first.
    fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.slots.iter().filter_map(|slot| match &slot.state {
            State::Done => None,
            State::Flying(packet) | State::Lost(packet) => Some(packet),
        })
    }

    /// Hands every packet back, oldest first, and forgets it.
    fn take_back(&mut self, mut take: impl FnMut(Packet)) {
        for slot in self.slots.drain(..) {
            if let State::Flying(packet) | State::Lost(packet) = slot.state {
                take(packet);
            }
        }
        (self.flying, self.lost, self.counted) = (0, 0, 0);
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
    fn handle_sent(&mut self, now: Time, order: u64, sample: Sample) {
        self.flying_copies = self.flying_copies.saturating_add(1);
        self.latest = (order, now);
        self.sample = sample;
        if self.first.0 == 0 {
            self.first = self.latest;
        }
    }

    /// Which transmission carried it last.
    fn order(&self) -> u64 {
        self.latest.0
    }

    /// When it was sent last.
    fn sent_at(&self) -> Time {
        self.latest.1
    }

    /// Octets of the packet.
    fn packet_len(&self) -> usize {
        match &self.state {
            State::Done => 0,
            State::Flying(packet) | State::Lost(packet) => packet.octets.len(),
        }
    }
}

//! An end of a tunnel: takes the driver's calls, and the peer's messages.

use std::collections::VecDeque;
use std::time::Duration;

use base::contract::Refused;
use base::rng::Rng;
use base::serial::expand;
use base::time::{Time, earliest};

use super::Config;
use super::liveness::Liveness;
use super::loss::Loss;
use super::mtu::Search;
use super::parts::Cut;
use super::queue::Queue;
use super::rate::Rate;
use super::receiver::Receiver;
use super::record::LONGEST_OUTER;
use super::recorder::Recorder;
use super::reported::Reported;
use super::reporter::{self, Reporter};
use super::sender::{PeerView, Sender};
use super::silence::Silence;
use super::stats::{Estimates, Inner, Received, Stats};
use super::understanding::{COMPRESSED_HEADERS, PARTS, Understanding};
use super::wire::{Body, FLAGS, Message, Report, SOURCE_HEADER};

/// The assumed round trip before the first measurement.
const UNKNOWN_RTT: Duration = Duration::from_millis(500);
/// The least time beyond a round trip that the sender waits for a report.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// How much longer the receiver waits for a source than the sender repairs it.
const GRACE: Duration = Duration::from_millis(500);
/// Octets of an outer packet that the peer may send, though we may not: its links may take more.
const JUMBO: usize = 9_216;
/// Replies to probes that wait to be sent, at most; the oldest gives way. A round has seven probes.
const PROBE_REPLIES: usize = 8;
/// The number of successive timeouts after which the path MTU is verified and the peer is probed.
const DOUBTS: u32 = 2;

/// One end of a tunnel to one peer: a core as [`base::contract`] describes it.
///
/// Inner IP packets go in by [`handle_packet`](Self::handle_packet) and wait in a queue for each flow.
/// [`poll_transmit`](Self::poll_transmit) fills datagrams from there as the rate allows: with *sources*,
/// which carry packets, and with *repairs*, which are sums of sources and make up for lost ones. The other
/// end takes them by [`handle_datagram`](Self::handle_datagram), recovers what was lost, and releases the
/// packets of each flow in order by [`poll_packet`](Self::poll_packet). Its reports of received datagrams
/// tell the sender rate, loss, and what to send again.
///
/// - Facts in: `handle_packet`, `handle_datagram`, `handle_path_changed`, `handle_too_big`.
/// - Decisions out: `poll_packet` and [`poll_event`](Self::poll_event) after each of these, then
///   `poll_transmit` while the socket has room.
/// - Time: [`next_timeout`](Self::next_timeout) and [`handle_timeout`](Self::handle_timeout).
/// - Getters: [`mtu`](Self::mtu), [`stats`](Self::stats), [`estimates`](Self::estimates).
#[derive(Debug)]
pub struct Tunnel {
    pub(super) config: Config,
    pub(super) stats: Stats,
    pub(super) events: VecDeque<Event>,
    /// The latest time that the driver passed in.
    pub(super) seen: Time,

    // Sending.
    pub(super) queue: Queue,
    pub(super) recorder: Recorder,
    pub(super) sender: Sender,
    pub(super) rate: Rate,
    pub(super) loss: Loss,
    pub(super) reported: Reported,
    pub(super) silence: Silence,
    /// The number of the next datagram.
    pub(super) next_number: u64,
    /// A small source of which a second copy is sent unasked, and when.
    pub(super) copy: Option<(u64, Time)>,
    /// Memory for a repair.
    pub(super) symbol: Vec<u8>,

    // Receiving.
    pub(super) receiver: Receiver,
    pub(super) reporter: Reporter,

    // The peer and the path.
    pub(super) understanding: Understanding,
    pub(super) liveness: Liveness,
    pub(super) mtu: Search,
    /// The sizes of received probes that must be answered, at most [`PROBE_REPLIES`]: a round of them may come at once.
    pub(super) probe_replies: VecDeque<u16>,
}

/// A datagram that [`Tunnel::poll_transmit`] made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transmit {
    /// Its number, never used twice by one `Tunnel`: the nonce of the cipher. The low 32 bits are
    /// enough on the wire.
    pub number: u64,
    /// Whether it must not be fragmented and may well be too big: a probe for the path MTU.
    pub is_probe: bool,
    /// The DSCP for its outer header: 0 unless [`Config::copy_dscp`] is set, and for what belongs to no packet.
    pub dscp: u8,
}

/// What the driver should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The path's MTU has changed: the longest inner packet now has this many octets, and what is longer
    /// than [`Tunnel::whole`] is cut.
    Mtu(usize),
    /// The peer has been silent for too long. The packets that waited are discarded.
    PathDown,
    /// The peer is heard again.
    PathUp,
    /// The peer does not answer, for a moment so far. It may have started anew: it should be called.
    Silent,
}

impl Tunnel {
    /// A tunnel to a peer whose keys were just agreed on.
    #[must_use]
    pub fn new(now: Time, config: Config, mut rng: Rng) -> Self {
        let own = PARTS | if config.compress_headers { COMPRESSED_HEADERS } else { 0 };
        Self {
            stats: Stats::default(),
            events: VecDeque::new(),
            seen: now,
            queue: Queue::new(config.queue, &mut rng),
            recorder: Recorder::default(),
            sender: Sender::new(config.window),
            rate: Rate::new(now, &config),
            loss: Loss::default(),
            reported: Reported::new(now),
            silence: Silence::new(now),
            next_number: 0,
            copy: None,
            symbol: Vec::new(),
            receiver: Receiver::new(
                config.window,
                config.deadline + GRACE,
                config.max_mtu.clamp(JUMBO, LONGEST_OUTER)
                    - config.overhead
                    - FLAGS
                    - SOURCE_HEADER,
            ),
            reporter: Reporter::default(),
            understanding: Understanding::new(now, own),
            liveness: Liveness::new(config.dead_after),
            mtu: Search::new(now, config.base_mtu, config.max_mtu.min(LONGEST_OUTER)),
            probe_replies: VecDeque::new(),
            config,
        }
    }

    /// Takes an inner IP packet to carry. The queue may later mark it (ECN), or drop it where its
    /// flow does not know ECN, when it has waited for too long.
    ///
    /// # Errors
    /// When it is not taken.
    pub fn handle_packet(&mut self, now: Time, packet: &[u8]) -> Result<(), Refused> {
        self.seen = now;
        if self.liveness.is_down() {
            self.stats.inner.refused_down += 1;
            return Err(Refused::Down);
        }
        if packet.len() > self.mtu() {
            self.note_too_long(1);
            return Err(Refused::TooBig { mtu: self.mtu() });
        }
        if let Err(error) = self.queue.push(now, packet) {
            self.stats.inner.refused_malformed += 1;
            return Err(error);
        }
        self.stats.inner.packets_in += 1;
        self.stats.inner.octets_in += packet.len() as u64;
        Ok(())
    }

    /// Takes the payload of a datagram from the peer, opened, and whether the outer packet came with
    /// congestion experienced. The driver sends all datagrams as ECN capable, ECT(0). What cannot be
    /// read is counted.
    pub fn handle_datagram(&mut self, now: Time, number: u64, is_marked: bool, payload: &[u8]) {
        self.seen = now;
        self.stats.received.datagrams_received += 1;
        let rtt = self.known_rtt();
        let is_overtaken = self.reporter.handle_datagram(now, number, is_marked, rtt);
        self.handle_heard(now);
        let Ok(message) = Message::parse(payload) else {
            self.stats.received.malformed += 1;
            return;
        };
        if let Some(report) = &message.report {
            self.handle_report(now, report);
        }
        if let Some(floor) = message.floor {
            let floor = expand(floor, 24, self.receiver.end());
            self.receiver.handle_floor(now, floor, &mut self.stats.received);
        }
        for &(id, source) in &message.contexts {
            self.recorder.handle_told(id, source);
        }
        self.handle_understanding(&message);
        let reference = self.receiver.end();
        match message.body {
            Body::Empty => {}
            Body::Probe { .. } => {
                if self.probe_replies.len() == PROBE_REPLIES {
                    self.probe_replies.pop_front();
                }
                self.probe_replies.extend(u16::try_from(payload.len()));
            }
            Body::ProbeReply { size } => self.handle_probe_reply(now, usize::from(size)),
            Body::Repair { first, count, symbol } => {
                let window = (expand(first, 24, reference), count);
                self.receiver.handle_repair(now, number, window, symbol, &mut self.stats.received);
            }
            Body::Source { number, symbol } => {
                let number = expand(number, 24, reference);
                self.receiver.handle_source(
                    now,
                    number,
                    symbol,
                    is_overtaken,
                    &mut self.stats.received,
                );
            }
        }
        let carries = matches!(message.body, Body::Repair { .. } | Body::Source { .. });
        if carries || message.wants_report {
            let octets = payload.len() + self.config.overhead;
            self.reporter.handle_eliciting(now, octets, self.known_rtt(), message.wants_report);
        }
    }

    /// The path has changed: the peer's address or our own. Everything learnt about it is forgotten. `max_mtu`
    /// and `overhead` are what they are in [`Config`].
    pub fn handle_path_changed(&mut self, now: Time, max_mtu: usize, overhead: usize) {
        self.seen = now;
        let before = self.longest_symbols();
        let min_rtt = self.rate.min_rtt();
        self.rate.reset(now);
        self.loss.restart();
        (self.config.max_mtu, self.config.overhead) = (max_mtu, overhead);
        self.mtu.handle_path_changed(now, max_mtu.min(LONGEST_OUTER), min_rtt);
        self.note_mtu(before);
    }

    /// The peer has said nothing for a while, nor was it asked to: it is asked for a sign of life, which is
    /// repeated until it is heard.
    pub fn handle_quiet(&mut self, now: Time) {
        self.seen = now;
        self.liveness.ask(now);
    }

    /// Acts on all deadlines up to `now`. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.seen = now;
        self.receiver.handle_timeout(now, &mut self.stats.received);
        let before = self.longest_symbols();
        self.mtu.handle_timeout(now);
        self.note_mtu(before);
        if self.oldest_expires_at().is_some_and(|at| at <= now) {
            let oldest = now - self.config.deadline + Duration::from_nanos(1);
            let count = self.sender.give_up_before(oldest);
            self.note_given_up(count);
        }
        if self.silence_ends_at().is_some_and(|at| at <= now) {
            self.stats.sent.timeouts += 1;
            let timeouts = self.silence.handle_timeout(now);
            self.sender.handle_silence();
            self.rate.handle_timeout_loss(now);
            if timeouts >= DOUBTS {
                self.mtu.verify(now);
                self.liveness.ask(now);
                self.doubt(now);
            }
        }
        if self.doubt_at().is_some_and(|at| at <= now) {
            self.doubt(now);
        }
        if self.stuck_at().is_some_and(|at| at <= now) {
            self.reported.restart(now);
            self.mtu.verify(now);
        }
        if self.liveness.handle_timeout(now) {
            self.events.push_back(Event::PathDown);
            self.queue.clear();
            let cut = self.recorder.cut.take();
            self.stats.inner.refused_down += u64::from(cut.is_some());
        }
    }

    /// Puts the next inner packet to release in place of what `out` holds; false when there is none.
    pub fn poll_packet(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.seen = now;
        let is_one = self.receiver.outlet.poll_packet(out);
        if is_one {
            self.stats.inner.packets_out += 1;
            self.stats.inner.octets_out += out.len() as u64;
        }
        is_one
    }

    /// What the driver should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether it holds no packet that the other end does not have.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.sender.has_unacknowledged()
    }

    /// When to call [`Tunnel::handle_timeout`] at the latest, and to poll again.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let deadlines = [
            self.receiver.next_timeout(),
            self.mtu.next_timeout(),
            self.oldest_expires_at(),
            self.silence_ends_at(),
            self.stuck_at(),
            self.doubt_at(),
            self.liveness.next_timeout(),
        ];
        // Datagrams that could have been sent before now wait for the bearer, not for time.
        let transmissions = self.next_transmissions().map(|at| at.filter(|at| *at > self.seen));
        deadlines.into_iter().chain(transmissions).fold(None, earliest)
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let queue = self.queue.stats();
        let (packets_joined, packets_broken) = self.receiver.outlet.joined_and_broken();
        let inner = Inner {
            packets_joined,
            packets_broken,
            queue_marked: queue.marked,
            queue_dropped: queue.dropped_by_codel,
            queue_overflowed: queue.dropped_at_limit,
            refused_down: self.stats.inner.refused_down + queue.cleared,
            ..self.stats.inner
        };
        let (headers_restored, headers_unknown) = self.receiver.outlet.counts();
        let datagrams_missed = self.reporter.missed();
        let received =
            Received { datagrams_missed, headers_restored, headers_unknown, ..self.stats.received };
        Stats { inner, received, ..self.stats }
    }

    /// The estimates of the path.
    #[must_use]
    pub fn estimates(&self) -> Estimates {
        Estimates {
            rtt: self.rate.rtt(),
            rate: self.rate.rate(),
            loss: self.loss.rate(),
            loss_in: self.reporter.loss(),
            burst: self.loss.burst(),
            queued: self.queue.len_octets() + self.recorder.cut.as_ref().map_or(0, Cut::left),
            unacknowledged: usize::try_from(self.sender.end() - self.sender.floor())
                .expect("within the window"),
            path_mtu: self.mtu.confirmed(),
            whole: self.whole(),
        }
    }

    /// Something was received from the peer, so the path works.
    fn handle_heard(&mut self, now: Time) {
        self.mtu.handle_heard(now);
        if self.liveness.handle_heard() {
            self.events.push_back(Event::PathUp);
            self.silence.handle_path_up(now);
            self.understanding.handle_path_up();
        }
    }

    fn handle_report(&mut self, now: Time, report: &Report) {
        let newest = expand(report.newest, 32, self.next_number);
        let end = newest + 1;
        if end > self.next_number {
            self.stats.sent.impossible_reports += 1;
            return;
        }
        let first_missing = expand(report.first_missing, 24, self.sender.floor());
        let view = PeerView {
            horizon: end,
            first_missing,
            end: first_missing + u64::from(report.extent),
            missing: report.missing,
            rank: report.rank,
            runs: &report.holes,
        };
        if self.sender.handle_report(&view).is_err() {
            self.stats.sent.impossible_reports += 1;
            return;
        }
        let about = (newest, self.mtu.confirmed());
        let for_rate = self.reported.handle_report(now, about, first_missing, report);
        let (received, runs) = self.reported.counts();
        let lost = end.saturating_sub(received);
        self.stats.sent.datagrams_lost = self.stats.sent.datagrams_lost.max(lost);
        self.loss.handle_counts(now, end, received, runs);
        self.rate.handle_report(now, &for_rate);
        self.silence.handle_report(now, self.sender.has_unacknowledged());
    }

    /// Accounts for sources that were given up. After the last of them no report is awaited: none
    /// would come to end the silence.
    pub(super) fn note_given_up(&mut self, count: u64) {
        self.stats.sent.sources_expired += count;
        if !self.sender.has_unacknowledged() {
            self.silence.handle_all_given_up();
        }
    }

    /// When the oldest source that is not acknowledged is given up.
    fn oldest_expires_at(&self) -> Option<Time> {
        self.sender.oldest_sent_at().map(|at| at + self.config.deadline)
    }

    /// When the retransmission timer expires.
    fn silence_ends_at(&self) -> Option<Time> {
        if !self.sender.has_unacknowledged() || self.liveness.is_down() {
            return None;
        }
        let wait = match self.known_rtt() {
            Some(rtt) => {
                rtt + (4 * self.rate.rtt_variation()).max(LEAST_WAIT) + reporter::longest_wait(rtt)
            }
            None => UNKNOWN_RTT,
        };
        self.silence.ends_at(wait)
    }

    /// The peer did not answer in time: the driver is told once.
    fn doubt(&mut self, now: Time) {
        if self.liveness.doubt(now, self.rate.rtt()) {
            self.events.push_back(Event::Silent);
        }
    }

    /// When the peer has been silent for so long that it may have started anew.
    fn doubt_at(&self) -> Option<Time> {
        self.liveness.doubt_at(self.rate.rtt())
    }

    /// When the peer has made no progress for so long that the path MTU is in doubt.
    fn stuck_at(&self) -> Option<Time> {
        self.sender.has_unacknowledged().then(|| self.reported.stuck_at(self.rate.rtt()))
    }

    /// The round trip if it was measured on this path.
    pub(super) fn known_rtt(&self) -> Option<Duration> {
        Some(self.rate.rtt()).filter(|rtt| *rtt > Duration::ZERO)
    }
}

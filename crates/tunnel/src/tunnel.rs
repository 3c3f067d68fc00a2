//! An end of a tunnel: takes the driver's calls, and the peer's messages.

use std::collections::VecDeque;
use std::time::Duration;

use base::contract::Refused;
use base::rng::Rng;
use base::serial::{expand, low24};
use base::time::{Time, earliest};

use super::Config;
use super::advance::Advance;
use super::kept::Kept;
use super::liveness::Liveness;
use super::mtu::Search;
use super::number::{PATHS, PathId, sequence};
use super::outlet::Restored;
use super::parts::{Cut, LEAST_PART};
use super::proof::{Proof, Proving, SECRET};
use super::queue::{Popped, Queue};
use super::rate::Rate;
use super::receiver::Receiver;
use super::record::{LONGEST_OUTER, PART_HEADER, RECORD_HEADER};
use super::recorder::{Filling, Recorder};
use super::reported::{Progress, Reported};
use super::reporter::{self, Reporter};
use super::secure::mac;
use super::sender::{Carried, PeerView, Sender, Tail, margin};
use super::silence::Silence;
use super::stats::{Estimates, Inner, OfPath, Received, Sent, Stats};
use super::understanding::{COMPRESSED_HEADERS, PARTS, PATHS as SEVERAL_PATHS, Understanding};
use super::wire::{
    self, Body, CONTEXT, FLAGS, FLOOR, HORIZONS, MAX_CONTEXTS, MAX_REPORT, Message, REPAIR_HEADER,
    Report, SOURCE_HEADER,
};
use super::work::{Budget, Budgets, HANDED};

/// The assumed round trip before the first measurement.
const UNKNOWN_RTT: Duration = Duration::from_millis(500);
/// The least time beyond a round trip that the sender waits for a report, and until the next report to a peer that has
/// made too much work.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// Before a long datagram was reported, the report about one is awaited for so many times as long as about a short one,
/// and for as long as TCP waits at first (RFC 6298, 2.1): on a slow link length takes most of the time.
const UNKNOWN_LENGTH: u32 = 3;
const LEAST_OF_LONG: Duration = Duration::from_secs(1);
/// Unless configured, a source is repaired for so long, and for so many round trips at least: a repair that answers a
/// report comes after one.
const DEADLINE: Duration = Duration::from_secs(2);
const REPAIRED_ROUNDS: u32 = 4;
/// A source is never repaired for longer, unless configured: a peer that reports late can feign any round trip.
const LONGEST_DEADLINE: Duration = Duration::from_secs(60);
/// How much longer the receiver waits for a source than the sender repairs it.
const GRACE: Duration = Duration::from_millis(500);
/// Octets of an outer packet that the peer may send, though we may not: its links may take more.
const JUMBO: usize = 9_216;
/// Octets of a reply to a probe.
const REPLY: usize = 2;
/// Replies to probes that wait to be sent, at most; the oldest gives way. A round has seven probes.
const PROBE_REPLIES: usize = 8;
/// Datagrams of handshakes that wait, at most.
const HANDSHAKES: usize = 4;
/// The number of successive timeouts after which the path MTU is verified and the peer is probed.
const DOUBTS: u32 = 2;

/// One end of a tunnel to a peer: a core in the sense of [`base::contract`].
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
    config: Config,
    stats: Stats,
    events: VecDeque<Event>,
    /// Whether the driver was told last that the peer is silent on all paths.
    was_down: bool,
    /// The latest time that the driver passed in.
    seen: Time,

    // Sending.
    queue: Queue,
    recorder: Recorder,
    sender: Sender,
    progress: Progress,
    /// Segments that came while the peer was silent.
    kept: Kept,
    /// A small source of which a second copy is sent unasked, and when.
    copy: Option<(u64, Time)>,
    /// How long packets may wait in the queue, and the moment for which this was worked out: it is asked for with each
    /// packet, and many packets leave at a time.
    stalling: Option<(Time, Duration)>,
    /// Memory for a repair.
    symbol: Vec<u8>,

    // Receiving.
    receiver: Receiver,

    // The peer and the paths to it, by their places; the first is always there.
    understanding: Understanding,
    paths: Vec<Path>,
    /// Datagrams of handshakes to send by a further path, and received by one: the newest [`HANDSHAKES`] of each.
    handshakes: [VecDeque<Vec<u8>>; 2],
    /// What the questions to the peer about its further addresses are made of, and how many there were.
    secret: [u8; 32],
    questions: u64,

    /// What the peer may still make this end do.
    budgets: Budgets,
    /// What equations in advance may still take.
    advance: Advance,
}

/// A path to the peer, with its measurements and timers. The [`Sender`] knows its loss rate.
#[derive(Debug)]
struct Path {
    id: PathId,
    /// Octets of an outer packet that the local interface takes, and octets that the driver adds to a datagram.
    max_mtu: usize,
    overhead: usize,
    /// Whether it serves only while no other does: by our configuration, by the peer's.
    is_backup: [bool; 2],
    proving: Proving,
    /// Whether it carries data: its address is proved, and its MTU is known.
    has_joined: bool,
    /// Whether the driver was told that it serves.
    was_serving: bool,
    /// Since when it has lost more than [`POOR`].
    poor_since: Option<Time>,
    /// The sequence of the next datagram.
    next: u64,
    rate: Rate,
    reported: Reported,
    /// Datagrams that did not arrive, by what the peer reports.
    lost: u64,
    silence: Silence,
    reporter: Reporter,
    liveness: Liveness,
    mtu: Search,
    /// Whether a round of probes for the path MTU is over and no data has gone since: on a slow path the next round
    /// would take all its room, so waiting packets go first.
    yields: bool,
    /// The sizes of received probes that must be answered, at most [`PROBE_REPLIES`]: a round of them may come at once.
    probe_replies: VecDeque<u16>,
}

/// A datagram that [`Tunnel::poll_transmit`] made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transmit {
    /// Its number, never used twice by one `Tunnel`: the nonce of the cipher. It says the path, too
    /// ([`PathId::of`]); of the rest the low 32 bits are enough on the wire.
    pub number: u64,
    /// Whether it must not be fragmented and may well be too big: a probe for the path MTU.
    pub is_probe: bool,
    /// The DSCP for its outer header: 0 unless [`Config::copy_dscp`] is set, and for what belongs to no packet.
    pub dscp: u8,
}

/// What the driver should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The path's MTU has changed: the longest inner packet now has this many octets, and packets
    /// longer than [`Tunnel::whole`] are cut.
    Mtu(usize),
    /// A further path serves from now on, or no more.
    Path {
        /// Which.
        path: PathId,
        /// Whether it serves.
        serves: bool,
    },
    /// The peer has been silent on all paths for too long. The packets that waited are discarded.
    PathDown,
    /// The peer is heard again.
    PathUp,
    /// The peer did not answer in time. It may have started anew: it should be called. A path that loses much causes
    /// this too, so it is nothing to tell an operator.
    Doubted,
    /// The peer has not answered for some seconds and round trips.
    Silent,
}

impl Tunnel {
    /// A tunnel to a peer whose keys were just agreed on.
    #[must_use]
    pub fn new(now: Time, config: Config, mut rng: Rng) -> Self {
        let own =
            PARTS | SEVERAL_PATHS | if config.compress_headers { COMPRESSED_HEADERS } else { 0 };
        let queue = Queue::new(config.queue, &mut rng);
        let mut secret = [0; 32];
        secret.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = rng.bits().to_be_bytes());
        Self {
            stats: Stats::default(),
            events: VecDeque::new(),
            was_down: false,
            seen: now,
            queue,
            recorder: Recorder::default(),
            sender: Sender::new(config.window),
            progress: Progress::new(now),
            kept: Kept::default(),
            copy: None,
            stalling: None,
            symbol: Vec::new(),
            receiver: Receiver::new(
                config.window,
                config.deadline.unwrap_or(DEADLINE) + GRACE,
                config.max_mtu.clamp(JUMBO, LONGEST_OUTER)
                    - config.overhead
                    - FLAGS
                    - SOURCE_HEADER,
            ),
            understanding: Understanding::new(now, own),
            paths: vec![Path::new(now, PathId::FIRST, Proving::done(), &config)],
            handshakes: Default::default(),
            secret,
            questions: 0,
            budgets: Budgets::default(),
            advance: Advance::new(now),
            config,
        }
    }

    /// A tunnel to the next life of the peer: its process has started anew, and knows nothing of this tunnel.
    ///
    /// Packets that the earlier life has not acknowledged are queued again, in order and before packets that have
    /// waited for their first transmission, so that the transport inside need not wait for its timer. Sources sent
    /// first longer than the deadline ago are given up. Received packets that waited for missing ones are released:
    /// nobody sends those any more.
    ///
    /// The earlier life may have passed on a packet without telling us: then the packet comes twice, as IP allows.
    #[must_use]
    pub fn next_life(self, now: Time, config: Config, rng: Rng) -> Self {
        let deadline = self.deadline();
        let Self { queue, recorder, sender, receiver, mut kept, .. } = self;
        let mut next = Self::new(now, config, rng);
        next.receiver.follow(receiver, &mut next.stats.received);
        // Without the deadlines that have passed, though nobody has looked.
        let oldest = Time::ZERO + now.since(Time::ZERO).saturating_sub(deadline);
        let young = sender.sent_since(oldest).count() as u64;
        next.stats.sent.sources_expired = sender.end() - sender.floor() - young;
        let taken_over = &mut next.stats.inner.packets_taken_over;
        let mut push = |packet: &[u8]| {
            *taken_over += u64::from(next.queue.push(now, packet).is_ok());
        };
        recorder.restore(sender.sent_since(oldest), &mut push);
        queue.into_packets().for_each(|packet| push(&packet));
        kept.take(now).for_each(|segment| push(&segment));
        next
    }

    /// Takes an inner IP packet to carry. The queue may later mark it (ECN), or drop it where its
    /// flow does not know ECN, when it has waited for too long.
    ///
    /// # Errors
    /// When it is not taken.
    pub fn handle_packet(&mut self, now: Time, packet: &[u8]) -> Result<(), Refused> {
        self.seen = now;
        let best = self.best();
        if self.kept.is_silent(now, 2 * self.paths[best].report_wait())
            && let Some(flow) = self.queue.answered(packet)
        {
            let has_copy = !self.is_down();
            let expires = if has_copy { now + self.deadline() } else { now };
            self.kept.keep(expires, flow, packet);
        }
        if self.is_down() {
            self.stats.inner.refused_down += 1;
            if self.paths[best].earns(now) {
                self.paths[best].liveness.ask(now);
            }
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
        let best = &mut self.paths[best];
        if best.silence.is_on() && best.earns(now) {
            best.silence.allow_one();
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
        self.stalling = None;
        self.stats.received.datagrams_received += 1;
        let Some(at) = PathId::of(number).map(|id| self.place(now, id)) else {
            self.stats.received.malformed += 1;
            return;
        };
        let path = &mut self.paths[at];
        let rtt = path.known_rtt();
        path.proving.handle_heard(payload.len());
        path.reporter.handle_datagram(now, sequence(number), is_marked, rtt);
        self.handle_heard(now, at);
        let Ok(message) = Message::parse(payload) else {
            self.stats.received.malformed += 1;
            return;
        };
        if let Some(report) = &message.report {
            self.handle_report(now, at, report, &message.horizons);
        }
        if let Some(floor) = message.floor {
            let floor = expand(floor, 24, self.receiver.end());
            self.receive(|it, work, stats| it.handle_floor(now, floor, work, stats));
        }
        for &(id, source) in &message.contexts {
            self.recorder.handle_told(id, source);
        }
        self.handle_understanding(&message);
        let reference = self.receiver.end();
        match message.body {
            Body::Empty => {}
            Body::Probe { .. } => {
                let replies = &mut self.paths[at].probe_replies;
                if replies.len() == PROBE_REPLIES {
                    replies.pop_front();
                }
                replies.extend(u16::try_from(payload.len()));
            }
            Body::ProbeReply { size } => self.handle_probe_reply(now, at, usize::from(size)),
            Body::Proof(proof) => self.handle_proof(now, at, &proof),
            Body::Handshake(datagram) => push_newest(&mut self.handshakes[1], datagram),
            Body::Repair { first, count, symbol } => {
                let window = (expand(first, 24, reference), count);
                self.receive(|it, work, stats| {
                    it.handle_repair(now, number, window, symbol, work, stats);
                });
            }
            Body::Source { number, symbol } => {
                let number = expand(number, 24, reference);
                self.receive(|it, work, stats| {
                    it.handle_source(now, number, symbol, work, stats);
                });
            }
        }
        let carries = matches!(message.body, Body::Repair { .. } | Body::Source { .. });
        if carries || message.wants_report {
            let path = &mut self.paths[at];
            let octets = payload.len() + path.overhead;
            let at_once = message.wants_report && !self.budgets.decoding.is_over(now);
            self.stats.received.reports_deferred += u64::from(at_once != message.wants_report);
            path.reporter.handle_eliciting(now, octets, path.known_rtt(), at_once);
        }
    }

    /// The path has changed: the peer's address or our own. Everything learnt about the old path is forgotten.
    /// `max_mtu` and `overhead` have the same meaning as in [`Config`].
    ///
    /// On a further path the peer has to prove its new address before anything else goes there.
    pub fn handle_path_changed(&mut self, now: Time, id: PathId, max_mtu: usize, overhead: usize) {
        self.seen = now;
        let at = self.place(now, id);
        let question = self.question();
        self.sender.restart_loss(id);
        self.change_mtu(|it| {
            let path = &mut it.paths[at];
            let min_rtt = path.rate.min_rtt();
            path.rate.reset(now);
            (path.max_mtu, path.overhead) = (max_mtu, overhead);
            path.mtu.handle_path_changed(now, max_mtu.min(LONGEST_OUTER), min_rtt);
            if id != PathId::FIRST {
                path.proving = Proving::heard(question);
                path.has_joined = false;
            }
        });
        self.note_down();
        self.note_serving(at);
    }

    /// Opens a further path, whose far address the driver knows: the peer is asked there until it answers. With
    /// `is_backup` nothing but that goes there while another path serves.
    pub fn open_path(&mut self, now: Time, id: PathId, mtus: [usize; 2], is_backup: bool) {
        self.seen = now;
        let at = self.place(now, id);
        let question = self.question();
        self.change_mtu(|it| {
            let path = &mut it.paths[at];
            let [max_mtu, overhead] = mtus;
            (path.max_mtu, path.overhead) = (max_mtu, overhead);
            path.mtu.handle_path_changed(now, max_mtu.min(LONGEST_OUTER), Duration::ZERO);
            path.is_backup[0] = is_backup;
            if id != PathId::FIRST {
                path.proving = Proving::opening(now, question);
                path.has_joined = false;
            }
        });
    }

    /// Takes a datagram of a handshake that is on its way to where the first path leads. It goes by another path as well
    /// if the first one does not serve: keys end, and the first path may be away for longer.
    pub fn handle_handshake(&mut self, datagram: &[u8]) {
        if self.best() == PathId::FIRST.index() || self.is_down() {
            self.handshakes[0].clear();
        } else {
            push_newest(&mut self.handshakes[0], datagram);
        }
    }

    /// The next datagram of a handshake that came by a further path; its answer takes [`Self::handle_handshake`].
    pub fn poll_handshake(&mut self) -> Option<Vec<u8>> {
        self.handshakes[1].pop_front()
    }

    /// The peer has said nothing for a while, and was not asked: asks for a sign of life, repeatedly until the
    /// peer is heard.
    pub fn handle_quiet(&mut self, now: Time) {
        self.seen = now;
        self.paths.iter_mut().for_each(|path| path.liveness.ask(now));
    }

    /// Acts on all deadlines up to `now`. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.seen = now;
        self.receive(|it, _, stats| it.handle_timeout(now, stats));
        self.change_mtu(|it| it.paths.iter_mut().for_each(|path| path.mtu.handle_timeout(now)));
        self.give_up_old(now);
        for at in 0..self.paths.len() {
            self.handle_silence(now, at);
            self.join(at);
            if self.paths.len() > 1 {
                self.try_poor(now, at);
            }
        }
        for at in 0..self.paths.len() {
            if self.paths[at].liveness.handle_timeout(now) {
                self.note_serving(at);
                self.note_down();
            }
        }
        // Again, and last: without a path that is down now the longest round trip is shorter, and so is the deadline.
        self.give_up_old(now);
        if self.stuck_at().is_some_and(|at| at <= now) {
            self.progress.restart(now);
            let flying = |path: &&mut Path| self.sender.is_flying(path.id);
            match &mut self.paths[..] {
                [only] => only.mtu.verify(now),
                several => several.iter_mut().filter(flying).for_each(|path| path.mtu.verify(now)),
            }
        }
    }

    /// Acts when no report has come on a path in time, or nothing at all.
    fn handle_silence(&mut self, now: Time, at: usize) {
        if self.silence_ends_at(at).is_some_and(|at| at <= now) {
            self.stats.sent.timeouts += 1;
            let path = &mut self.paths[at];
            let timeouts = path.silence.handle_timeout(now);
            self.sender.handle_silence(path.id);
            path.rate.handle_timeout_loss(now);
            if timeouts >= DOUBTS || self.paths.len() > 1 {
                let path = &mut self.paths[at];
                path.mtu.verify(now);
                path.liveness.ask(now);
                self.doubt(now, at);
            }
            self.note_serving(at);
        }
        if self.paths[at].silent_at().is_some_and(|at| at <= now) {
            self.doubt(now, at);
            self.paths[at].liveness.note_silent();
            if self.paths.iter().all(|path| path.is_down() || path.liveness.is_silent()) {
                self.events.push_back(Event::Silent);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn understanding(&self) -> &Understanding {
        &self.understanding
    }

    /// Forgets the features that the peer has shown; this end understands `own`.
    #[cfg(test)]
    pub(crate) fn forget_understanding(&mut self, now: Time, own: u8) {
        self.understanding = Understanding::new(now, own);
    }

    /// Puts the next inner packet to release in place of what `out` holds; false when there is none.
    pub fn poll_packet(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.seen = now;
        let is_one = self.receiver.poll_packet(out);
        if is_one {
            self.stats.inner.packets_out += 1;
            self.stats.inner.octets_out += out.len() as u64;
        }
        is_one
    }

    /// Lets the receiver act.
    fn receive(&mut self, act: impl FnOnce(&mut Receiver, &mut Budget, &mut Received)) {
        let patience = self.deadline() + GRACE;
        let Self { receiver, budgets, stats, .. } = self;
        receiver.set_patience(patience);
        act(receiver, &mut budgets.decoding, &mut stats.received);
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
        let deadlines = [self.receiver.next_timeout(), self.oldest_expires_at(), self.stuck_at()];
        let of_paths = self.paths.iter().enumerate().flat_map(|(at, path)| {
            let deadlines = [
                path.mtu.next_timeout(),
                self.silence_ends_at(at),
                path.silent_at(),
                path.liveness.next_timeout(),
                path.poor_until().filter(|_| self.paths.len() > 1),
            ];
            // Datagrams that could have been sent before now wait for the bearer, not for time.
            let transmissions = self.next_transmissions(at);
            deadlines.into_iter().chain(transmissions.map(|at| at.filter(|at| *at > self.seen)))
        });
        deadlines.into_iter().chain(of_paths).fold(None, earliest)
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let queue = self.queue.stats();
        let Restored { joined, broken, headers, unknown } = self.receiver.restored();
        let inner = Inner {
            packets_joined: joined,
            packets_broken: broken,
            queue_marked: queue.marked,
            queue_dropped: queue.dropped_by_codel,
            queue_overflowed: queue.dropped_at_limit,
            queue_repeated: queue.repeated,
            packets_over_budget: self.receiver.refused(),
            refused_down: self.stats.inner.refused_down + queue.cleared,
            ..self.stats.inner
        };
        let received = Received {
            datagrams_missed: self.paths.iter().map(|path| path.reporter.missed()).sum(),
            headers_restored: headers,
            headers_unknown: unknown,
            work: self.budgets.decoding.done(),
            ..self.stats.received
        };
        let sent = Sent {
            repair_work: self.budgets.repairing.done(),
            report_work: self.budgets.reading.done(),
            ..self.stats.sent
        };
        Stats { inner, sent, received }
    }

    /// The estimates of the path; of all paths together where there are several.
    #[must_use]
    pub fn estimates(&self) -> Estimates {
        let best = &self.paths[self.best()];
        let serving = || self.paths.iter().filter(|path| path.id == best.id || path.serves());
        let rate = serving().map(|path| path.rate.delivered()).sum();
        let loss = self.sender.loss(best.id);
        Estimates {
            rtt: best.rate.rtt(),
            rate,
            loss: loss.rate(),
            loss_in: best.reporter.loss(),
            burst: loss.burst(),
            queued: self.queue.len_octets() + self.recorder.cut().map_or(0, Cut::left),
            unacknowledged: usize::try_from(self.sender.end() - self.sender.floor())
                .expect("within the window"),
            path_mtu: best.mtu.confirmed(),
            whole: self.whole(),
        }
    }

    /// Each path, by its place.
    #[must_use]
    pub fn paths(&self) -> Vec<OfPath> {
        let of_path = |path: &Path| OfPath {
            path: path.id,
            serves: path.serves(),
            is_backup: path.is_backup.contains(&true),
            is_proved: path.proving.is_done(),
            rtt: path.rate.rtt(),
            rate: path.rate.delivered(),
            loss: self.sender.loss(path.id).rate(),
            loss_in: path.reporter.loss(),
            mtu: path.mtu.confirmed(),
            datagrams_sent: path.next,
        };
        self.paths.iter().map(of_path).collect()
    }

    /// The place of a path, which is opened if the peer was first to do so.
    fn place(&mut self, now: Time, id: PathId) -> usize {
        while self.paths.len() <= id.index() {
            let id = PathId::new(self.paths.len()).unwrap_or_default();
            let proving = Proving::heard(self.question());
            self.paths.push(Path::new(now, id, proving, &self.config));
        }
        id.index()
    }

    /// A question that nobody can guess.
    fn question(&mut self) -> [u8; SECRET] {
        self.questions += 1;
        let [question @ .., _, _, _, _, _, _, _, _] =
            mac(&self.secret, &self.questions.to_be_bytes());
        question
    }

    fn handle_proof(&mut self, now: Time, at: usize, proof: &Proof) {
        let path = &mut self.paths[at];
        path.is_backup[1] = proof.is_backup;
        if path.proving.handle(proof) {
            // The first measurement.
            path.liveness.ask(now);
        }
        self.note_down();
        self.join(at);
    }

    /// Lets a further path carry data once its address is proved and its MTU is known. Until then a source might be too
    /// long for it, or all sources as short as its first guess.
    fn join(&mut self, at: usize) {
        let path = &self.paths[at];
        let fits = path.symbol_of(path.mtu.confirmed()) >= self.max_symbol();
        if !path.has_joined && path.proving.is_done() && (fits || path.mtu.is_settled()) {
            self.change_mtu(|it| it.paths[at].has_joined = true);
            (0..self.paths.len()).for_each(|at| self.measure(self.seen, at));
        }
        self.note_serving(at);
    }

    /// Tells the driver if the peer is silent on all paths from now on, or on some path no more.
    fn note_down(&mut self) {
        let is_down = self.is_down();
        match (std::mem::replace(&mut self.was_down, is_down), is_down) {
            (false, true) => {
                self.events.push_back(Event::PathDown);
                self.queue.clear();
                self.stats.inner.refused_down += u64::from(self.recorder.drop_cut());
            }
            (true, false) => {
                self.events.push_back(Event::PathUp);
                self.understanding.handle_path_up();
            }
            (false, false) | (true, true) => {}
        }
    }

    /// Tells the driver if a further path has begun to serve, or serves no more.
    fn note_serving(&mut self, at: usize) {
        let path = &mut self.paths[at];
        let serves = path.serves();
        if path.id != PathId::FIRST && std::mem::replace(&mut path.was_serving, serves) != serves {
            self.events.push_back(Event::Path { path: path.id, serves });
        }
    }

    /// Something was received from the peer, so the path works.
    fn handle_heard(&mut self, now: Time, at: usize) {
        let path = &mut self.paths[at];
        path.mtu.handle_heard(now);
        if path.liveness.handle_heard() {
            path.silence.handle_path_up(now);
            self.note_down();
            self.note_serving(at);
        }
        if self.paths.len() > 1 {
            self.measure(now, at);
        }
    }

    /// Takes a report about path `at`; `horizons` has the newest number that the peer had received on each other path.
    fn handle_report(&mut self, now: Time, at: usize, report: &Report, horizons: &[(u8, u32)]) {
        let path = &self.paths[at];
        let newest = expand(report.newest, 32, path.next);
        let end = newest.wrapping_add(1);
        let id = path.id;
        let mut ends = [None; PATHS];
        for &(place, newest) in horizons {
            let Some(other) = self.paths.get(usize::from(place)) else {
                self.stats.sent.impossible_reports += 1;
                return;
            };
            ends[other.id.index()] = Some(expand(newest, 32, other.next).wrapping_add(1));
        }
        ends[at] = Some(end);
        let is_beyond = |(path, end): (&Path, &Option<u64>)| end.is_some_and(|end| end > path.next);
        if self.paths.iter().zip(&ends).any(is_beyond) {
            self.stats.sent.impossible_reports += 1;
            return;
        }
        let first_missing = expand(report.first_missing, 24, self.sender.floor());
        let view = PeerView {
            path: id,
            horizons: ends,
            first_missing,
            end: first_missing + u64::from(report.extent),
            missing: report.missing,
            rank: report.rank,
            runs: &report.holes,
        };
        let before = self.sender.steps();
        let is_over = self.budgets.reading.is_over(now);
        self.stats.sent.reports_over_budget += u64::from(is_over);
        if self.sender.handle_report(now, &view, is_over).is_err() {
            self.stats.sent.impossible_reports += 1;
            return;
        }
        self.budgets.reading.add(self.sender.steps() - before);
        self.progress.handle_report(now, first_missing);
        let path = &mut self.paths[at];
        let about = (newest, path.mtu.confirmed());
        let (known, _) = path.reported.counts();
        let for_rate = path.reported.handle_report(about, report);
        let (received, runs) = path.reported.counts();
        path.lost = path.lost.max(end.saturating_sub(received));
        self.sender.handle_counts(now, id, [end, received, runs]);
        path.rate.note_flows(self.queue.waiting_flows());
        path.rate.handle_report(now, &for_rate);
        let is_awaited = self.is_awaited(at);
        let path = &mut self.paths[at];
        if path.silence.is_on() && self.paths.len() > 1 {
            // What was lost while nothing arrived says nothing of the path as it is now.
            self.sender.restart_loss(id);
        }
        let path = &mut self.paths[at];
        path.silence.handle_report(now, is_awaited);
        self.stats.sent.datagrams_lost = self.paths.iter().map(|path| path.lost).sum();
        if received > known {
            self.resume(now);
        }
        self.note_serving(at);
    }

    /// Whether a report is still awaited on a path.
    fn is_awaited(&self, at: usize) -> bool {
        let is_flying = self.paths.len() == 1 || self.sender.is_flying(self.paths[at].id);
        is_flying && self.sender.has_unacknowledged()
    }

    /// Something of ours has arrived: queues the segments that came during the silence and are not on their way any more.
    fn resume(&mut self, now: Time) {
        self.kept.handle_arrival();
        for segment in self.kept.take(now) {
            let is_taken = segment.len() <= self.mtu() && self.queue.push(now, &segment).is_ok();
            self.stats.inner.packets_resumed += u64::from(is_taken);
        }
    }

    /// Gives up sources that are older than the deadline.
    fn give_up_old(&mut self, now: Time) {
        if self.oldest_expires_at().is_some_and(|at| at <= now) {
            let oldest = now - self.deadline() + Duration::from_nanos(1);
            let count = self.sender.give_up_before(oldest);
            self.note_given_up(count);
        }
    }

    /// Accounts for sources that were given up. After the last of them no report is awaited: none
    /// would come to end the silence.
    fn note_given_up(&mut self, count: u64) {
        self.stats.sent.sources_expired += count;
        if !self.sender.has_unacknowledged() {
            self.paths.iter_mut().for_each(|path| path.silence.handle_all_given_up());
        }
    }

    /// How long a source is repaired after it was sent first.
    fn deadline(&self) -> Duration {
        self.config.deadline.unwrap_or_else(|| {
            let rtt = Some(self.longest_rtt()).filter(|rtt| *rtt > Duration::ZERO);
            // Before the first report the round trip may be as long as a peer may be silent.
            let least = rtt.map_or(self.config.dead_after, |rtt| REPAIRED_ROUNDS * rtt);
            least.clamp(DEADLINE, LONGEST_DEADLINE)
        })
    }

    /// When the oldest source that is not acknowledged is given up.
    fn oldest_expires_at(&self) -> Option<Time> {
        self.sender.oldest_sent_at().map(|at| at + self.deadline())
    }

    /// When the retransmission timer of a path expires.
    fn silence_ends_at(&self, at: usize) -> Option<Time> {
        let path = &self.paths[at];
        if !self.is_awaited(at) || path.is_down() {
            return None;
        }
        path.silence.ends_at(path.report_wait())
    }

    /// The peer did not answer on a path in time: the driver is told once, if no other path is well.
    fn doubt(&mut self, now: Time, at: usize) {
        let path = &mut self.paths[at];
        if path.liveness.doubt(now, path.rate.rtt())
            && self.paths.iter().all(|path| path.is_down() || path.liveness.is_doubted())
        {
            self.events.push_back(Event::Doubted);
        }
    }

    /// When the peer has made no progress for so long that the path MTU is in doubt.
    fn stuck_at(&self) -> Option<Time> {
        self.sender.has_unacknowledged().then(|| self.progress.stuck_at(self.longest_rtt()))
    }

    /// The longest round trip of the paths that serve.
    fn longest_rtt(&self) -> Duration {
        let serving = self.paths.iter().filter(|path| path.id == PathId::FIRST || path.serves());
        serving.map(|path| path.rate.rtt()).max().unwrap_or_default()
    }

    /// Whether the peer is silent on all paths.
    fn is_down(&self) -> bool {
        self.paths.iter().all(Path::is_down)
    }
}

impl Path {
    fn new(now: Time, id: PathId, proving: Proving, config: &Config) -> Self {
        Self {
            id,
            max_mtu: config.max_mtu,
            overhead: config.overhead,
            is_backup: [false; 2],
            has_joined: proving.is_done(),
            proving,
            was_serving: false,
            poor_since: None,
            next: 0,
            rate: Rate::new(now, config),
            reported: Reported::default(),
            lost: 0,
            silence: Silence::new(now),
            reporter: Reporter::default(),
            liveness: Liveness::new(config.dead_after),
            mtu: Search::new(now, config.base_mtu, config.max_mtu.min(LONGEST_OUTER)),
            yields: false,
            probe_replies: VecDeque::new(),
        }
    }

    /// Whether nothing but questions goes there: the peer was silent for too long, or has not proved its address.
    fn is_down(&self) -> bool {
        self.liveness.is_down() || !self.proving.is_done()
    }

    /// When a path that loses much is measured anew.
    fn poor_until(&self) -> Option<Time> {
        self.poor_since.filter(|_| self.serves()).map(|since| since + POOR_FOR)
    }

    /// Whether data go there and arrive.
    fn serves(&self) -> bool {
        self.has_joined && !self.is_down() && !self.silence.is_on()
    }

    /// Whether the packet that came now earns a datagram, though the peer is silent.
    fn earns(&mut self, now: Time) -> bool {
        let wait = self.report_wait();
        self.silence.earns(now, wait)
    }

    /// How long a report takes at most.
    fn report_wait(&self) -> Duration {
        let Some(rtt) = self.known_rtt() else { return UNKNOWN_RTT };
        let wait = |rtt| {
            rtt + (4 * self.rate.rtt_variation()).max(LEAST_WAIT) + reporter::longest_wait(rtt)
        };
        match self.rate.expected_rtt() {
            Some(rtt) => wait(rtt),
            None if self.silence.is_on() => wait(rtt),
            None => (UNKNOWN_LENGTH * wait(rtt)).max(LEAST_OF_LONG),
        }
    }

    /// When the peer counts as silent unless it is heard.
    fn silent_at(&self) -> Option<Time> {
        self.liveness.silent_at(self.rate.rtt())
    }

    /// The round trip if it was measured on this path.
    fn known_rtt(&self) -> Option<Duration> {
        Some(self.rate.rtt()).filter(|rtt| *rtt > Duration::ZERO)
    }
}

/// Adds a datagram of a handshake; of too many the oldest gives way.
fn push_newest(datagrams: &mut VecDeque<Vec<u8>>, datagram: &[u8]) {
    if datagrams.len() == HANDSHAKES {
        datagrams.pop_front();
    }
    datagrams.push_back(datagram.to_vec());
}

// Chooses the path for what is sent.
//
// ```text
//   best: serves, is no backup if there is another, loses less than half, has the shortest round trip
//   another takes data too, once so much waits that the best would need longer for it than the other's detour
// ```

/// A path that loses more than this serves only if all others are worse.
const POOR: f64 = 0.5;
/// Data go by a longer path as well once what waits keeps the best path busy for this part of the detour.
const DETOUR: f64 = 0.5;

/// After so long such a path is measured anew.
const POOR_FOR: Duration = Duration::from_secs(10);

impl Tunnel {
    /// Lets a lossy path carry data again after a while, to measure its loss anew.
    fn try_poor(&mut self, now: Time, at: usize) {
        let path = &mut self.paths[at];
        if self.sender.loss(path.id).rate() <= POOR {
            path.poor_since = None;
        } else if path.poor_since.is_none() {
            path.poor_since = Some(now);
        } else if path.poor_until().is_some_and(|at| at <= now) {
            path.poor_since = None;
            self.sender.restart_loss(path.id);
        }
    }

    /// Asks for a report on a path that carries no data before one comes: its round trip is not known, or nothing came by
    /// it in time. What the peer asks there by itself is no report.
    fn measure(&mut self, now: Time, at: usize) {
        let path = &mut self.paths[at];
        if path.has_joined && (path.silence.is_on() || path.known_rtt().is_none()) {
            path.liveness.ask_again(now);
        }
    }

    /// The place of the path that is served first.
    fn best(&self) -> usize {
        let key = |path: &&Path| (self.rank(path), path.known_rtt().unwrap_or(UNKNOWN_RTT));
        match &self.paths[..] {
            [_] => 0,
            several => several.iter().min_by_key(key).map_or(0, |path| path.id.index()),
        }
    }

    /// How good a path is: paths of the best rank serve.
    fn rank(&self, path: &Path) -> u8 {
        let is_poor = self.sender.loss(path.id).rate() > POOR;
        match path {
            path if !path.has_joined => 5,
            path if path.is_down() => 4,
            path if path.silence.is_on() => 3,
            _ if is_poor => 2,
            path => u8::from(path.is_backup.contains(&true)),
        }
    }

    /// Whether data may go by a path now.
    fn takes(&self, at: usize) -> bool {
        let best = self.best();
        if at == best {
            return true;
        }
        let (path, best) = (&self.paths[at], &self.paths[best]);
        if self.rank(path) != self.rank(best) {
            return false;
        }
        let (Some(its), Some(least)) = (path.known_rtt(), best.known_rtt()) else { return false };
        let detour = its.saturating_sub(least).as_secs_f64() / 2.0;
        let waits = 8.0 * self.queue.len_octets() as f64 / best.rate.rate().max(1.0);
        waits >= DETOUR * detour
    }
}

// Chooses the next datagram that an end of a tunnel sends.
//
// ```text
//   1  a probe for the path MTU, or the reply to one
//   2  a probe of a silent peer
//   3  a report that is due and cannot be sent with data
//      as the rate allows:
//   4    the copy of a small source
//   5    an equation (a source again, or a repair) that the peer is likely to lack
//   6    a source with packets from the queue
//   7    an equation in advance, when nothing came for a moment
//   8  a report that is due
// ```

/// The additional margin in standard deviations while there is nothing else to send.
const IDLE_MARGIN: f64 = 1.5;
/// The additional margin after a small source: its repairs cost little, and it may be a request.
const SMALL_IDLE_MARGIN: f64 = 3.2;
/// The accepted probability that the latest source is still missing after the repairs in advance, on a path
/// with room for these: then only a report would help, a round trip later.
const RISK: f64 = 0.001;
/// Above this risk the next repair is sent soon; below, repairs are spread over the round trip, because
/// losses come in bursts and further packets bring equations of their own.
const HIGH_RISK: f64 = 0.05;
/// How long after the last source the next repair waits, in 16ths of a round trip, by the number of repairs
/// since: the last repair comes within a round trip and a half.
const SPREAD: [u32; 6] = [1, 4, 8, 10, 12, 14];
/// The round trip assumed for spreading repairs before any measurement: too long a guess does no harm.
const GUESSED_RTT: Duration = Duration::from_millis(100);
/// A path has room for additional repairs while less than this part of the window was sent, on the mean of
/// some round trips.
const BUSY: f64 = 0.5;
/// A source missing for this many round trips is retransmitted before new sources, even if the repairs
/// under way should suffice: a repair that also covers younger losses helps only once all of them can
/// be solved.
const OLD: f64 = 3.0;
/// Additional round trips that packets may wait in the queue while the rate is low to test losses.
const TESTING: f64 = 2.0;
/// From this loss rate on, flows regularly stall while a source is recovered.
const NOTICEABLE_LOSS: f64 = 0.005;
/// When the sender has nothing else to send, it waits this share of the round trip before it sends a
/// repair: more packets may come, and a burst of losses may pass.
const IDLE_SHARE: u32 = 16;
const MIN_IDLE_WAIT: Duration = Duration::from_millis(1);
const MAX_IDLE_WAIT: Duration = Duration::from_millis(10);
/// A source counts as small up to this share of a full source. A small source of a sparse flow, beside a
/// flow that fills the path, is sent twice: the copy costs less than to wait for a repair of full
/// length.
const SMALL_SHARE: usize = 8;

impl Tunnel {
    /// Replaces `out` by the payload of the next datagram on a path; `None` while there is nothing to send there or the
    /// rate forbids it (then [`Tunnel::next_timeout`] tells until when).
    ///
    /// The choice is made now, so ask only while the bearer has room, and first for the paths that come first in
    /// [`Tunnel::in_turn`].
    pub fn poll_transmit(&mut self, now: Time, id: PathId, out: &mut Vec<u8>) -> Option<Transmit> {
        self.seen = now;
        out.clear();
        let at = id.index();
        let path = self.paths.get_mut(at)?;
        let may_ask = self.understanding.agrees_on(SEVERAL_PATHS);
        if let Some(proof) = path.proving.poll(now, path.is_backup[0], may_ask) {
            return Some(self.send_bare(now, at, Body::Proof(proof), false, out));
        }
        if !path.proving.is_done() {
            return None;
        }
        if path.yields
            && self.has_packets()
            && let Some(transmit) = self.poll_data(now, at, out)
        {
            return Some(transmit);
        }
        let path = &mut self.paths[at];
        if let Some(size) = path.mtu.poll_probe(now, path.known_rtt(), path.rate.rate()) {
            let padding = size - path.overhead - FLAGS;
            let passing = path.mtu.confirmed();
            path.reported.handle_probe_sent(path.next, size, passing);
            path.yields |= path.mtu.next_probe().is_none();
            return Some(self.send_bare(now, at, Body::Probe { padding }, true, out));
        }
        if let Some(size) = path.probe_replies.pop_front() {
            return Some(self.send_control(now, at, Body::ProbeReply { size }, false, out));
        }
        if path.liveness.poll_question(now) {
            return Some(self.send_control(now, at, Body::Empty, true, out));
        }
        if id != PathId::FIRST
            && let Some(datagram) = self.handshakes[0].pop_front()
        {
            return Some(self.send_bare(now, at, Body::Handshake(&datagram), false, out));
        }
        if path.reporter.is_due_alone(now) && !self.has_room_for_report(now, at) {
            return Some(self.send_report(now, at, out));
        }
        if let Some(transmit) = self.poll_data(now, at, out) {
            return Some(transmit);
        }
        self.paths[at].reporter.is_due_alone(now).then(|| self.send_report(now, at, out))
    }

    /// The paths in use, the best first.
    pub fn in_turn(&self) -> impl Iterator<Item = PathId> + use<> {
        let best = self.best();
        let others = (0..self.paths.len()).filter(move |at| *at != best);
        std::iter::once(best).chain(others).filter_map(PathId::new)
    }

    /// The next source or equation on a path, as the rate allows.
    fn poll_data(&mut self, now: Time, at: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.paths[at].liveness.is_down() || !self.may_send(now, at) {
            return None;
        }
        let transmit = if self.takes(at) { self.send_data(now, at, out) } else { None };
        if transmit.is_none() && !self.paths[at].silence.is_on() && !self.fills(at) {
            self.paths[at].rate.handle_idle(now);
        }
        transmit
    }

    /// Whether what waits would go by this path.
    fn fills(&self, at: usize) -> bool {
        self.has_packets() && self.takes(at)
    }

    /// When each kind of datagram may be sent on a path, which may be in the past.
    fn next_transmissions(&self, at: usize) -> [Option<Time>; 6] {
        let path = &self.paths[at];
        let may_ask = self.understanding.agrees_on(SEVERAL_PATHS);
        let proof = path.proving.next(self.seen, may_ask);
        if !path.proving.is_done() {
            return [proof, None, None, None, None, None];
        }
        let (copy, data) = if !path.liveness.is_down() && path.silence.may_send() && self.takes(at)
        {
            (self.next_copy(at), self.next_data(at))
        } else {
            (None, None)
        };
        let reporter = path.reporter.next_alone();
        [proof, path.mtu.next_probe(), path.liveness.next_question(), reporter, copy, data]
    }

    /// When the copy of a small source may be sent.
    fn next_copy(&self, at: usize) -> Option<Time> {
        let (_, due) = self.copy?;
        Some(self.next_send(self.seen, at)?.max(due))
    }

    /// When a source or an equation may be sent.
    fn next_data(&self, at: usize) -> Option<Time> {
        // While the window is full, only a report helps.
        let has_next = self.has_packets() && self.sender.next_source().is_some();
        let next = self.next_send(self.seen, at)?;
        if has_next {
            return Some(next);
        }
        let due = if self.lacks_expected(at) {
            next
        } else {
            let wanted = if self.lacks(at) { Some(next) } else { self.spare_at(at) };
            let advance = wanted.map(|due| due.max(self.advance.ready_at(self.seen, false)));
            next.max(earliest(advance, self.hole_is_old_at())?)
        };
        Some(due.max(self.budgets.sending.ready_at()))
    }

    fn may_send(&self, now: Time, at: usize) -> bool {
        self.next_send(now, at).is_some_and(|due| due <= now)
    }

    /// When the rate allows a source or an equation; `None` while too much is in flight.
    ///
    /// During a silence only its allowance counts. The window may be full of reports, which are not
    /// reported themselves. Then a source must be sent so that the peer reports.
    fn next_send(&self, now: Time, at: usize) -> Option<Time> {
        let path = &self.paths[at];
        if path.silence.is_on() {
            return path.silence.may_send().then_some(now);
        }
        path.rate.next_send(now).or((!self.is_awaited(at)).then_some(now))
    }

    /// Sends the next equation or source.
    fn send_data(&mut self, now: Time, at: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Some((number, _)) = self.copy.take_if(|(_, due)| *due <= now)
            && let Some(transmit) = self.send_copy(now, at, number, out)
        {
            return Some(transmit);
        }
        let may_repair = !self.budgets.sending.is_over(now);
        let is_wanted = self.wants_equation(now, at);
        if may_repair && is_wanted {
            return self.send_equation(now, at, out);
        }
        if let Some(number) = self.sender.next_source()
            && let Some(transmit) = self.send_source(now, at, number, out)
        {
            return Some(transmit);
        }
        if may_repair
            && self.may_advance(now, false)
            && (self.lacks(at) || self.spare_at(at).is_some_and(|due| due <= now))
        {
            return self.send_equation(now, at, out);
        }
        self.stats.sent.equations_deferred += u64::from(is_wanted && !may_repair);
        None
    }

    /// Fills a source with packets that wait, and sends it.
    fn send_source(
        &mut self,
        now: Time,
        at: usize,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let max = self.max_symbol();
        self.drop_too_long();
        if !self.has_packets() {
            return None;
        }
        let compresses = self.understanding.agrees_on(COMPRESSED_HEADERS);
        let mut symbol = self.sender.buffer(max);
        let filling = Filling {
            number,
            floor: self.sender.floor(),
            reported: self.progress.first_missing(),
            rtt: self.longest_rtt(),
        };
        let (mut is_sparse, mut is_acknowledging) = (true, true);
        // Of all packets in the source, if that counts.
        let mut dscp = None;
        while let Some(room) = max.checked_sub(symbol.len() + RECORD_HEADER) {
            if let Some(popped) = self.begin_cut(now, room, dscp) {
                is_sparse &= popped.is_sparse;
            }
            if let Some(cut) = self.recorder.cut() {
                dscp = self.config.copy_dscp.then_some(cut.dscp());
                is_acknowledging = false;
                if !self.recorder.push_part(filling, max, &mut symbol) {
                    break;
                }
                continue;
            }
            let start = symbol.len();
            symbol.extend_from_slice(&[0; RECORD_HEADER]);
            let rtt = self.stalling_rtt(now);
            let Some(popped) = self.queue.pop(now, room, dscp, rtt, &mut symbol) else {
                symbol.truncate(start);
                // The queue may have dropped short packets just now and have come to a long one.
                if symbol.is_empty() {
                    self.drop_too_long();
                    if !self.queue.is_empty() {
                        continue;
                    }
                }
                break;
            };
            dscp = self.config.copy_dscp.then_some(popped.dscp);
            is_sparse &= popped.is_sparse && !popped.is_pure_ack;
            is_acknowledging &= popped.is_pure_ack;
            let stats = compresses.then_some(&mut self.stats.sent);
            self.recorder.finish(now, &popped, filling, &mut symbol, start, stats);
        }
        if symbol.is_empty() {
            return None;
        }
        if self.is_small(symbol.len())
            && is_sparse
            && self.has_packets()
            && self.sender.loss(self.paths[at].id).rate() > NOTICEABLE_LOSS
        {
            self.copy = self.copy.or(Some((number, now + self.idle_wait(at))));
        }
        self.stats.sent.sources_sent += 1;
        if !self.sender.has_unacknowledged() {
            self.progress.restart(now);
        }
        let extras = self.extras(now, at, symbol.len() + wire::SOURCE_HEADER);
        self.budgets.repairing.earn(symbol.len());
        self.budgets.sending.earn(symbol.len());
        let others = self.sender.end() - self.sender.floor();
        let path = (self.room(), self.longest_rtt());
        self.advance.earn(now, (symbol.len(), others), path);
        let symbol = self.sender.add_source(now, symbol, self.paths[at].number());
        let body = Body::Source { number: low24(number), symbol };
        Message { body, ..extras }.emit(out);
        let dscp = dscp.unwrap_or(0);
        self.sender.set_dscp(dscp);
        let carried = if is_acknowledging { Carried::Acknowledgements } else { Carried::Source };
        Some(Transmit { dscp, ..self.account(now, at, out, carried, false) })
    }

    /// Takes a packet from the queue that is too long for a source, if one is next and there is room for
    /// a part of it beside packets of this DSCP.
    fn begin_cut(&mut self, now: Time, room: usize, dscp: Option<u8>) -> Option<Popped> {
        let has_room = room + RECORD_HEADER >= PART_HEADER + LEAST_PART;
        let is_cut = self.recorder.cut().is_some();
        if is_cut || !has_room || self.queue.next_size()? <= self.whole() {
            return None;
        }
        let mut packet = Vec::new();
        let rtt = self.stalling_rtt(now);
        let popped = self.queue.pop(now, usize::MAX, dscp, rtt, &mut packet)?;
        self.recorder.begin_cut(Cut::new(packet, popped.flow, popped.dscp));
        self.stats.inner.packets_cut += 1;
        Some(popped)
    }

    /// Drops the next packets that cannot be sent at all: they came while longer packets still fitted.
    fn drop_too_long(&mut self) {
        let too_long = self.queue.drop_longer(self.mtu());
        self.note_too_long(too_long);
    }

    /// Whether packets, or the rest of one, wait to be sent.
    fn has_packets(&self) -> bool {
        self.recorder.cut().is_some() || !self.queue.is_empty()
    }

    /// Sends a second copy of a source unasked. The copy makes up for no other source, so it is not counted as
    /// an equation.
    fn send_copy(
        &mut self,
        now: Time,
        at: usize,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let symbol = self.sender.again(number, self.paths[at].number())?;
        let body = Body::Source { number: low24(number), symbol };
        Message { body, ..Message::default() }.emit(out);
        self.stats.sent.sources_resent += 1;
        let dscp = self.sender.dscp(Some(number));
        Some(Transmit { dscp, ..self.account(now, at, out, Carried::Other, false) })
    }

    /// Retransmits a source or sends a repair.
    fn send_equation(&mut self, now: Time, at: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        let is_in_advance = self.is_in_advance(now, at);
        let carrier = self.paths[at].number();
        let limit = self.max_symbol();
        let extras = self.extras(now, at, limit + REPAIR_HEADER);
        let silence = &self.paths[at].silence;
        let wants_report = silence.is_on();
        let is_wanted =
            self.sender.lacks_known() || self.hole_is_old_at().is_some_and(|due| due <= now);
        let lost = if silence.is_first_due() {
            self.sender.oldest(carrier)
        } else if is_wanted && self.sender.oldest_hole().is_some() {
            self.sender.next_lost(carrier)
        } else if self.budgets.repairing.is_over(now) {
            // A source makes up for a lost one as well as a repair does, if it is the lost one, and costs nothing.
            self.stats.sent.repairs_replaced += 1;
            self.sender.oldest(carrier)
        } else {
            None
        };
        let dscp = if let Some((number, symbol)) = lost {
            let body = Body::Source { number: low24(number), symbol };
            Message { wants_report, body, ..extras }.emit(out);
            self.stats.sent.sources_resent += 1;
            self.sender.dscp(Some(number))
        } else {
            let mut symbol = std::mem::take(&mut self.symbol);
            let (first, count) = self.sender.repair(carrier, &mut symbol)?;
            let body = Body::Repair { first: low24(first), count, symbol: &symbol };
            Message { wants_report, body, ..extras }.emit(out);
            self.budgets.repairing.add(u64::from(count) * symbol.len() as u64);
            self.symbol = symbol;
            self.stats.sent.repairs_sent += 1;
            // It goes out for what was sent just now.
            self.sender.dscp(None)
        };
        self.budgets.sending.add(HANDED);
        if is_in_advance {
            let octets = out.len() + self.paths[at].overhead;
            self.advance.spend(now, octets);
        }
        Some(Transmit { dscp, ..self.account(now, at, out, Carried::Equation, false) })
    }

    fn send_report(&mut self, now: Time, at: usize, out: &mut Vec<u8>) -> Transmit {
        self.stats.sent.reports_sent += 1;
        let transmit = self.send_control(now, at, Body::Empty, false, out);
        let Path { reporter, rate, overhead, .. } = &mut self.paths[at];
        reporter.handle_alone(now, out.len() + *overhead, rate.rate(), rate.rtt());
        transmit
    }

    /// Whether the next datagram of a path has room for a report.
    fn has_room_for_report(&mut self, now: Time, at: usize) -> bool {
        if self.understanding.is_urgent(now) || !self.takes(at) {
            return false;
        }
        let lacks = self.wants_equation(now, at);
        let cut = self.recorder.cut().map(|cut| cut.left() + 1);
        let next = cut.or_else(|| self.queue.next_size()).filter(|_| !lacks);
        let most = RECORD_HEADER + FLOOR + self.most_of_report();
        next.is_some_and(|next| next + most <= self.max_symbol())
    }

    /// Octets of a report at most.
    fn most_of_report(&self) -> usize {
        if self.paths.len() > 1 { MAX_REPORT + HORIZONS } else { MAX_REPORT }
    }

    fn send_control(
        &mut self,
        now: Time,
        at: usize,
        body: Body<'_>,
        wants_report: bool,
        out: &mut Vec<u8>,
    ) -> Transmit {
        let shows = body == Body::Empty;
        // A report goes without the reply to a probe as long as it has to show what we understand.
        let extras = self.extras(now, at, if shows { 0 } else { REPLY });
        let understands = if shows { self.understanding.show(now) } else { None };
        Message { wants_report, understands, body, ..extras }.emit(out);
        let transmit = self.account(now, at, out, Carried::Other, false);
        if wants_report {
            self.paths[at].liveness.handle_sent(now);
        }
        transmit
    }

    /// Sends what goes without a report.
    fn send_bare(
        &mut self,
        now: Time,
        at: usize,
        body: Body<'_>,
        is_probe: bool,
        out: &mut Vec<u8>,
    ) -> Transmit {
        Message { body, ..Message::default() }.emit(out);
        self.account(now, at, out, Carried::Other, is_probe)
    }

    /// A message with the report about a path, the floor and the contexts, if they are wanted and fit beside `body`
    /// octets.
    fn extras(&mut self, now: Time, at: usize, body: usize) -> Message<'static> {
        let mut room = (self.max_symbol() + REPAIR_HEADER).saturating_sub(body);
        let floor = (self.sender.floor() > self.progress.first_missing() && room >= FLOOR)
            .then(|| low24(self.sender.floor()));
        if floor.is_some() {
            room -= FLOOR;
        }
        let mut extras = Message { floor, ..Message::default() };
        let most = self.most_of_report();
        let Path { reporter, rate, .. } = &mut self.paths[at];
        let is_wanted = reporter.is_due(now) || reporter.has_news(now);
        let goes_alone = self.understanding.is_urgent(now) && body > 0;
        if !is_wanted || goes_alone || room < most {
            return extras;
        }
        // The count and the octet of understood features, beside four octets for each context.
        let fitting = (room - most).saturating_sub(2) / CONTEXT;
        let told = self.receiver.poll_told(fitting.min(MAX_CONTEXTS));
        extras.contexts = told.into_iter().map(|(id, source)| (id, low24(source))).collect();
        let work = &mut self.budgets.decoding;
        let lateness = reporter.lateness(now);
        let (holes, ripe_at) = self.receiver.holes(now, lateness, work);
        let mut soonest = if work.is_over(now) { now + LEAST_WAIT } else { now };
        let rtt = rate.rtt();
        let others = self.paths.iter().filter(|path| path.id.index() != at);
        let ends = others.filter_map(|path| Some((path.id, path.reporter.newest()?)));
        extras.horizons = ends
            .filter_map(|(id, newest)| Some((u8::try_from(id.index()).ok()?, newest)))
            .collect();
        if !extras.horizons.is_empty() {
            // Sources still under way on slower paths look missing; that alone makes no report due.
            soonest = soonest.max(now + reporter::usual_wait(rtt));
        }
        let ripe_at = ripe_at.map(|at| at.max(soonest));
        extras.report = Some(self.paths[at].reporter.report(now, holes, ripe_at));
        extras
    }

    /// Accounts for a datagram with payload `out`, and numbers it.
    fn account(
        &mut self,
        now: Time,
        at: usize,
        out: &[u8],
        carried: Carried,
        is_probe: bool,
    ) -> Transmit {
        let is_awaited = self.is_awaited(at);
        if !is_awaited && self.paths.len() > 1 {
            // What was awaited on this path has been made good by another.
            self.paths[at].silence.handle_nothing_awaited();
        }
        let path = &mut self.paths[at];
        let number = path.number();
        let octets = out.len() + path.overhead;
        self.stats.sent.datagrams_sent += 1;
        self.stats.sent.octets_sent += octets as u64;
        self.sender.note(now, number, carried, octets, path.rate.rtt());
        path.rate.handle_sent(now, path.next, octets);
        path.next += 1;
        if carried != Carried::Other {
            path.yields = false;
            path.rate.handle_data(path.next - 1, octets);
            path.silence.handle_sent(now);
            self.kept.handle_sent(now);
            path.liveness.handle_sent(now);
        }
        Transmit { number, is_probe, dscp: 0 }
    }

    /// Whether the peer is likely to lack an equation, with the path's margin.
    fn lacks(&self, at: usize) -> bool {
        self.sender.lacks(self.margin(at))
    }

    /// Whether the peer is likely to lack an equation though no more is lost than expected.
    fn lacks_expected(&self, at: usize) -> bool {
        self.sender.lacks(self.margin(at).min(0.0))
    }

    /// Whether an equation goes before the next source.
    fn wants_equation(&self, now: Time, at: usize) -> bool {
        !self.is_in_advance(now, at) || self.lacks(at) && self.may_advance(now, true)
    }

    /// Whether the next equation is for more losses than are expected and known.
    fn is_in_advance(&self, now: Time, at: usize) -> bool {
        !self.lacks_expected(at) && self.hole_is_old_at().is_none_or(|due| due > now)
    }

    /// Whether an equation in advance may be sent; `has_more`: sources wait.
    fn may_advance(&self, now: Time, has_more: bool) -> bool {
        self.advance.ready_at(now, has_more) <= now
    }

    /// What the best path has room for besides the flows' own packets and the repairs they need, in bit/s.
    fn room(&self) -> f64 {
        let best = &self.paths[self.best()];
        (BUSY * best.rate.rate() - self.load(best)).max(0.0)
    }

    /// What was sent on a path lately, in bit/s.
    fn load(&self, path: &Path) -> f64 {
        let rtt = path.known_rtt().unwrap_or(UNKNOWN_RTT);
        8.0 * self.sender.octets_per_round(path.id) / rtt.as_secs_f64()
    }

    fn margin(&self, at: usize) -> f64 {
        margin(self.paths[at].rate.rtt(), self.config.patience)
    }

    /// How long packets may wait in the queue: a round trip, and more if losses or jitter stall flows. While a
    /// source is recovered or late, the flows that wait for it send nothing, and the queue keeps the path busy.
    fn stalling_rtt(&mut self, now: Time) -> Duration {
        if let Some((_, rtt)) = self.stalling.filter(|(at, _)| *at == now) {
            return rtt;
        }
        let of_path = |path: &Path| {
            let p = self.sender.loss(path.id).rate();
            let test = if path.rate.is_testing() { TESTING } else { 0.0 };
            let stalls = (p / NOTICEABLE_LOSS).min(1.0) + 4.0 * p + test;
            path.rate.min_rtt().mul_f64(1.0 + stalls)
        };
        let best = self.rank(&self.paths[self.best()]);
        let serving = self.paths.iter().filter(|path| self.rank(path) == best);
        let stalled = serving.clone().map(of_path).max().unwrap_or_default();
        let least = serving.clone().map(|path| path.rate.min_rtt()).min().unwrap_or_default();
        let back = serving.map(|path| path.reporter.lateness(now)).max().unwrap_or_default();
        let rtt = stalled.max(least + self.sender.held_up(now) + back);
        self.stalling = Some((now, rtt));
        rtt
    }

    /// When a source that is known to be lost has been so for long enough to be sent again, however few
    /// equations the peer seems to lack.
    fn hole_is_old_at(&self) -> Option<Time> {
        Some(self.sender.oldest_hole()? + self.longest_rtt().mul_f64(OLD))
    }

    /// Whether a source of this many octets is small compared with a full one.
    fn is_small(&self, octets: usize) -> bool {
        octets <= self.max_symbol() / SMALL_SHARE
    }

    /// When a repair is sent on a path in advance because there is nothing else to send; `None` if none is needed.
    fn spare_at(&self, at: usize) -> Option<Time> {
        let path = &self.paths[at];
        let last_sent = self.paths.iter().map(|path| path.silence.last_sent()).max()?;
        let soon = last_sent + self.idle_wait(at);
        let is_small = self.is_small(self.sender.newest().map_or(0, <[u8]>::len));
        if self.is_busy(path) {
            let margin = if is_small { SMALL_IDLE_MARGIN } else { IDLE_MARGIN };
            let lacks = self.sender.lacks_lately(self.margin(at) + margin);
            return lacks.then_some(soon);
        }
        if self.sender.lacks(self.margin(at) + IDLE_MARGIN) {
            return Some(soon);
        }
        let Tail { since, equations } = self.sender.tail();
        let share = *SPREAD.get(equations)?;
        // The repairs of a small packet cost little, also where loss is only feared.
        let loss = self.sender.loss(path.id);
        let p = if is_small { loss.feared(since) } else { loss.rate() };
        let risk = self.sender.tail_risk(p, loss.burst());
        if risk > HIGH_RISK {
            return Some(soon);
        }
        let rtt = path.known_rtt().unwrap_or(GUESSED_RTT);
        (risk > RISK).then(|| soon.max(since + rtt * share / 16))
    }

    /// Whether a path has no room for more than the flows' own packets and the repairs they need.
    fn is_busy(&self, path: &Path) -> bool {
        path.known_rtt().is_some() && self.load(path) >= BUSY * path.rate.rate()
    }

    fn idle_wait(&self, at: usize) -> Duration {
        (self.paths[at].rate.rtt() / IDLE_SHARE).clamp(MIN_IDLE_WAIT, MAX_IDLE_WAIT)
    }
}

// Decides whether packets longer than a datagram are cut for the peer, which may be older.

impl Tunnel {
    /// Whether packets too long for a datagram are cut. They are cut even before the peer could show that it
    /// joins parts: an older peer ignores unknown records, and with all other peers no packet waits for the
    /// first round trip.
    fn cuts(&self) -> bool {
        !self.understanding.is_strange(PARTS)
    }

    /// Learns the features understood by the peer, and drops packets that need a missing feature.
    fn handle_understanding(&mut self, message: &Message<'_>) {
        let before = self.mtu();
        match message.understands {
            Some(shown) => self.understanding.handle_shown(shown),
            None if message.body == Body::Empty => self.understanding.handle_nothing_shown(),
            None => {}
        }
        if !self.cuts() && self.recorder.drop_cut() {
            self.note_too_long(1);
        }
        if self.mtu() != before {
            self.events.push_back(Event::Mtu(self.mtu()));
        }
    }

    /// So many packets were too long.
    fn note_too_long(&mut self, packets: u64) {
        if self.cuts() {
            self.stats.inner.refused_too_big += packets;
        } else {
            self.stats.inner.refused_uncut += packets;
        }
    }
}

// Limits the lengths of packets and datagrams by the known MTU of the path.

/// Octets that each tunnel carries, however short its datagrams are: a link has to for IPv6 (RFC 8200, 5).
const LEAST_PACKET: usize = 1_280;

impl Tunnel {
    /// The system refused a datagram of this payload on a path because the packet would be too big.
    pub fn handle_too_big(&mut self, now: Time, id: PathId, payload: usize) {
        self.seen = now;
        self.change_mtu(|it| {
            let path = it.paths.get_mut(id.index());
            path.into_iter().for_each(|it| it.mtu.handle_too_big(now, payload + it.overhead));
        });
    }

    /// The first link of a path, which leads where it led, takes outer packets of `max_mtu` octets now. Cheap if
    /// nothing has changed.
    pub fn handle_first_link(&mut self, now: Time, id: PathId, max_mtu: usize) {
        self.seen = now;
        self.change_mtu(|it| {
            let Some(path) = it.paths.get_mut(id.index()) else { return };
            path.max_mtu = max_mtu;
            path.mtu.handle_first_link(now, max_mtu.min(LONGEST_OUTER));
        });
    }

    /// Octets of the longest inner packet, at least 1,280 unless the peer is an older one that joins no
    /// parts.
    #[must_use]
    pub fn mtu(&self) -> usize {
        if !self.cuts() {
            return self.whole();
        }
        let [_, passing] = self.longest_symbols();
        (passing - RECORD_HEADER).max(LEAST_PACKET)
    }

    /// The longest inner packet that fits a single datagram, in octets; longer packets are cut.
    #[must_use]
    pub fn whole(&self) -> usize {
        self.max_symbol() - RECORD_HEADER
    }

    fn handle_probe_reply(&mut self, now: Time, at: usize, payload: usize) {
        self.change_mtu(|it| {
            let path = &mut it.paths[at];
            let outer = payload + path.overhead;
            path.reported.handle_probe_reply(outer);
            path.mtu.handle_reply(now, outer);
        });
        self.join(at);
    }

    /// Makes a change that may affect the path's MTU; then tells the driver, and gives up sources too long for it.
    fn change_mtu(&mut self, change: impl FnOnce(&mut Self)) {
        let before = self.longest_symbols();
        change(self);
        let after = self.longest_symbols();
        if after == before {
            return;
        }
        self.events.push_back(Event::Mtu(self.mtu()));
        let ([_, before], [_, passing]) = (before, after);
        if passing < before {
            let count = self.sender.give_up_longer(passing);
            self.note_given_up(count);
        }
    }

    /// Octets of a symbol at most: it may go by any path.
    fn max_symbol(&self) -> usize {
        let [made, _] = self.longest_symbols();
        made
    }

    /// Octets of the longest symbol that is made, and of the longest symbol not known to be too long for any path.
    fn longest_symbols(&self) -> [usize; 2] {
        let least = |of: fn(&Path) -> usize| {
            let joined = self.paths.iter().filter(|path| path.has_joined);
            joined.map(|path| path.symbol_of(of(path))).min().expect("the first path has joined")
        };
        [least(|path| path.mtu.confirmed()), least(|path| path.mtu.passing())]
    }
}

impl Path {
    /// The number of the next datagram.
    fn number(&self) -> u64 {
        self.id.number(self.next)
    }

    /// Octets of the symbol that fits an outer packet.
    fn symbol_of(&self, outer: usize) -> usize {
        outer - self.overhead - FLAGS - REPAIR_HEADER
    }
}

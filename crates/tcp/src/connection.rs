//! A connection: its state, and the calls of the driver.

use std::net::SocketAddr;
use std::time::Duration;

use base::ip::icmp;
use base::rng::Rng;
use base::tcp::Segment;
use base::time::Time;

use super::agreed::{Agreed, default_mss};
use super::clock::Clock;
use super::config::{Config, Limit};
use super::event::{Event, Events, State, TimedOut};
use super::receiver::{Due, Receiver};
use super::recovery::{Acknowledgement, Progress};
use super::sender::Sender;
use super::seq::Seq;
use super::stats::Stats;
use super::timers::Timers;

/// One end of a TCP connection (RFC 9293): a core in the sense of [`base::contract`].
///
/// It starts by [`connect`](Self::connect), or by [`accept`](Self::accept) with a SYN for a port on which the driver
/// listens. The connection is over when [`state`](Self::state) is `Closed`.
///
/// - Facts in: [`handle_segment`](Self::handle_segment), [`handle_icmp`](Self::handle_icmp),
///   [`handle_path_mtu`](Self::handle_path_mtu) from the network; [`write`](Self::write),
///   [`read`](Self::read), [`close`](Self::close), [`abort`](Self::abort) from the application.
/// - Decisions out: [`poll_event`](Self::poll_event) after each of these, then
///   [`poll_transmit`](Self::poll_transmit) while the network has room.
/// - Time: [`next_timeout`](Self::next_timeout) and [`handle_timeout`](Self::handle_timeout).
/// - Getters: all others.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(super) config: Config,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) state: State,
    pub(super) agreed: Agreed,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) timers: Timers,
    pub(super) events: Events,
    pub(super) stats: Stats,
    pub(super) path_mtu: usize,
    pub(super) peer_mss: u16,
    pub(super) clock: Clock,
    /// `close` was called before the handshake was over.
    pub(super) is_close_pending: bool,
    pub(super) due: Special,
    /// Our SYN was lost, or its answer was.
    pub(super) is_syn_repeated: bool,
    /// The peer shall know that we reduced the window.
    pub(super) reduced: bool,
    /// `write` refused octets.
    is_write_blocked: bool,
    challenges: Challenges,
}

/// Segments that are due besides data and acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Special {
    /// A SYN or SYN-ACK.
    pub(super) syn: bool,
    /// A reset due: its sequence number, and its acknowledgement number.
    pub(super) reset: Option<(u32, Option<u32>)>,
    pub(super) probe: Option<Probe>,
}

/// Challenge ACKs (RFC 5961, 7).
#[derive(Clone, Copy, Debug)]
struct Challenges {
    /// Start of the current second, and the number of challenges in it.
    since: Time,
    count: u32,
}

/// A segment to send only to hear from the peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Probe {
    Idle,
    Window,
}

impl Connection {
    /// Opens actively: the first `poll_transmit` gives the SYN.
    #[must_use]
    pub fn connect(
        now: Time,
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        rng: &mut Rng,
    ) -> Self {
        Self::new(now, config, local, remote, rng)
    }

    /// Opens passively, on `syn`: the first `poll_transmit` gives the SYN-ACK.
    ///
    /// What SYN carries is ignored, to be sent again.
    #[must_use]
    pub fn accept(
        now: Time,
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        syn: &Segment<'_>,
        rng: &mut Rng,
    ) -> Self {
        let mut connection = Self::new(now, config, local, remote, rng);
        connection.stats.received.segments = 1;
        connection.take_syn(now, syn);
        connection.state = State::SynReceived;
        connection
    }

    fn new(
        now: Time,
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        rng: &mut Rng,
    ) -> Self {
        let random = rng.bits().to_be_bytes();
        let [a, b, c, d, e, f, g, h] = random;
        Self {
            config,
            local,
            remote,
            state: State::SynSent,
            agreed: Agreed::offered(&config),
            sender: Sender::new(config, u32::from_be_bytes([a, b, c, d])),
            receiver: Receiver::new(&config, 0, 0, 1),
            timers: Timers::new(now),
            events: Events::default(),
            stats: Stats::default(),
            path_mtu: config.mtu,
            peer_mss: default_mss(local),
            clock: Clock::new(u32::from_be_bytes([e, f, g, h]), config.offer.timestamp_tick),
            is_close_pending: false,
            due: Special { syn: true, ..Special::default() },
            is_syn_repeated: false,
            reduced: false,
            is_write_blocked: false,
            challenges: Challenges { since: now, count: 0 },
        }
    }

    /// The path takes packets of at most `mtu` octets, headers included (RFC 1191; RFC 8201).
    ///
    /// Segments that were longer are sent again; a path that takes more than before is used.
    pub fn handle_path_mtu(&mut self, _now: Time, mtu: usize) {
        if mtu == self.path_mtu {
            return;
        }
        self.stats.mtu_changes += 1;
        self.path_mtu = mtu;
        if self.sender.is_syn_acked() {
            let mss = self.payload_limit();
            self.sender.set_mss(mss);
        }
    }

    /// An ICMP error came about a segment of ours that started at `seq`.
    ///
    /// Errors about data not in flight are ignored (RFC 5927, 4.1). No error ends an open connection; a port
    /// unreachable refuses one still opening.
    pub fn handle_icmp(&mut self, now: Time, error: icmp::Error, seq: u32) {
        self.stats.received.icmp_errors += 1;
        let place = self.sender.una.nearest(seq);
        if place < self.sender.una || place >= self.sender.max {
            return;
        }
        match error {
            icmp::Error::PortUnreachable if self.state == State::SynSent => {
                self.end(Event::Reset);
            }
            icmp::Error::TooBig { mtu } if usize::from(mtu) < self.path_mtu => {
                self.handle_path_mtu(now, usize::from(mtu));
            }
            icmp::Error::HostUnreachable
            | icmp::Error::PortUnreachable
            | icmp::Error::Prohibited
            | icmp::Error::TooBig { .. }
            | icmp::Error::TtlExceeded => self.events.soft_error = Some(error),
        }
    }

    /// Queues octets to be sent; returns how many the send buffer took.
    ///
    /// After fewer than asked, `Event::Writable` tells when there is room again.
    pub fn write(&mut self, octets: &[u8]) -> usize {
        let is_open = !self.is_close_pending
            && matches!(
                self.state,
                State::CloseWait | State::Established | State::SynReceived | State::SynSent
            );
        if !is_open {
            return 0;
        }
        let len = self.sender.write(octets);
        self.is_write_blocked = len < octets.len();
        len
    }

    /// Takes octets that arrived; returns how many there were.
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        self.receiver.reassembly.read(buffer)
    }

    /// Sends no more after what is written; reading goes on until the peer closes too.
    pub fn close(&mut self) {
        match self.state {
            State::SynSent => self.end(Event::Closed),
            State::SynReceived => self.is_close_pending = true,
            State::Established => self.finish(State::FinWait1),
            State::CloseWait => self.finish(State::LastAck),
            State::Closed
            | State::Closing
            | State::FinWait1
            | State::FinWait2
            | State::LastAck
            | State::TimeWait => {}
        }
    }

    /// Gives up at once, and tells the peer by a reset.
    pub fn abort(&mut self) {
        match self.state {
            State::CloseWait
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::SynReceived
            | State::Closing
            | State::LastAck => self.owe_reset(),
            State::Closed | State::SynSent | State::TimeWait => {}
        }
        if self.state != State::Closed {
            self.end(Event::Closed);
        }
    }

    /// What the driver should know; ask until `None`.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Where the connection stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The parameters.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Our end.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The peer's end.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// The congestion window, in octets.
    #[must_use]
    pub fn cwnd(&self) -> u64 {
        self.sender.window.cwnd
    }

    /// The slow-start threshold, in octets.
    #[must_use]
    pub fn ssthresh(&self) -> u64 {
        self.sender.window.ssthresh
    }

    /// Octets of payload in a full segment.
    #[must_use]
    pub fn mss(&self) -> u64 {
        self.sender.window.mss
    }

    /// The window that the peer offers, in octets.
    #[must_use]
    pub fn peer_window(&self) -> u64 {
        self.sender.offered.wnd
    }

    /// The smoothed round-trip time, once known.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.sender.rtt.srtt()
    }

    /// The smoothed deviation of the round-trip time, once known.
    #[must_use]
    pub fn rttvar(&self) -> Option<Duration> {
        self.sender.rtt.rttvar()
    }

    /// The present retransmission timeout, including back-off.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.sender.rtt.rto()
    }

    /// Places of the sequence space that are sent and not acknowledged.
    #[must_use]
    pub fn flight_size(&self) -> u64 {
        self.sender.max.since(self.sender.una)
    }

    /// Octets, and FIN, that are queued and were never sent.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// Octets that `write` would take.
    #[must_use]
    pub fn writable(&self) -> usize {
        self.sender.free()
    }

    /// Octets that `read` would give.
    #[must_use]
    pub fn readable(&self) -> usize {
        self.receiver.reassembly.readable()
    }

    /// Whether a loss detected by acknowledgements is being repaired.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.sender.reaction.is_repairing()
    }

    /// Our SYN is acknowledged and so is the peer's: data may flow.
    pub(super) fn establish(&mut self, now: Time) {
        self.state = State::Established;
        self.events.connected = true;
        self.due.syn = false;
        let mss = self.payload_limit();
        self.sender.start(mss, self.is_syn_repeated);
        self.timers.heard(now, self.config.keep_alive);
        if self.is_close_pending {
            self.finish(State::FinWait1);
        }
    }

    fn finish(&mut self, state: State) {
        self.state = state;
        self.sender.finish();
    }

    /// Hands an acknowledgement to the send side, and sets the retransmission timer by it.
    pub(super) fn take_ack(&mut self, now: Time, report: &Acknowledgement, echo: Option<u32>) {
        let clock = self.clock;
        let is_echoed = |at: Time| echo == Some(clock.show(at));
        let progress = self.sender.handle_ack(now, report, is_echoed, &mut self.stats.feedback);
        self.stats.finding = self.sender.controller.finding();
        match progress {
            Progress::Acked { restarts_timer } => {
                self.timers.patience.reset(now);
                if !self.sender.is_outstanding() {
                    self.timers.rto = None;
                } else if restarts_timer {
                    self.timers.rto = Some(now + self.sender.rtt.rto());
                }
                if self.is_write_blocked && self.sender.free() > 0 {
                    self.is_write_blocked = false;
                    self.events.writable = true;
                }
            }
            Progress::Lost => self.timers.rto = Some(now + self.sender.rtt.rto()),
            Progress::None => {}
        }
    }

    /// The connection is over.
    pub(super) fn end(&mut self, event: Event) {
        self.state = State::Closed;
        self.timers.stop();
        self.sender.discard();
        self.due.syn = false;
        self.due.probe = None;
        self.receiver.due = Due::Never;
        self.receiver.duplicates_due = 0;
        self.events.end.get_or_insert(event);
    }

    /// We gave up.
    pub(super) fn give_up(&mut self) {
        let reason = match self.state {
            State::SynReceived | State::SynSent => TimedOut::Connecting,
            _ => TimedOut::Data,
        };
        self.owe_reset();
        self.end(Event::TimedOut(reason));
    }

    /// The peer shall hear that the connection is over.
    pub(super) fn owe_reset(&mut self) {
        let ack = (self.state != State::SynSent).then(|| self.receiver.next().wire());
        if ack.is_some() {
            self.due.reset = Some((self.sender.max.wire(), ack));
        }
    }

    /// Schedules a challenge acknowledgement for a possibly forged or stray segment, within the rate limit (RFC 5961,
    /// 7).
    pub(super) fn challenge(&mut self, now: Time) {
        let Challenges { since, count } = self.challenges;
        let is_over = now.since(since) >= Duration::from_secs(1);
        let (since, count) = if is_over { (now, 0) } else { (since, count) };
        if count < self.config.challenge_acks_per_s.max(1) {
            self.challenges = Challenges { since, count: count + 1 };
            self.stats.sent.challenge_acks += 1;
            self.receiver.due = Due::Now;
        } else {
            self.stats.sent.challenge_acks_held += 1;
        }
    }

    /// Whether a limit is reached after so many retransmissions.
    pub(super) fn is_reached(limit: Limit, retransmissions: u32) -> bool {
        matches!(limit, Limit::Retransmissions(most) if retransmissions >= most)
    }

    /// Whether our FIN and all before it are acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.sender.is_fin_acked()
    }

    /// The sequence number of a received segment, as a full number.
    pub(super) fn place(&self, segment: &Segment<'_>) -> Seq {
        self.receiver.next().nearest(segment.seq)
    }
}

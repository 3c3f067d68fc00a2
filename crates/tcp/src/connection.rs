//! A connection: its state, and the calls of the driver.

use std::net::SocketAddr;
use std::time::Duration;

use base::ip::{V4_HEADER, V6_HEADER, ecn, icmp};
use base::rng::Rng;
use base::serial;
use base::tcp::{Flags, HEADER, MAX_SACK_BLOCKS, Options, SackBlocks, Segment, Timestamps};
use base::time::{Time, earliest};

use super::config::{Config, IpFields, KeepAlive, Limit};
#[cfg(test)]
use super::congestion::Window;
use super::event::{Event, State, TimedOut};
use super::receiver::{MAX_SHIFT, Receiver};
use super::sender::{Acknowledgement, Kind, Next, Plan, Progress, Sender, Wait};
use super::seq::Seq;
use super::stats::Stats;

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
    config: Config,
    local: SocketAddr,
    remote: SocketAddr,
    state: State,
    agreed: Agreed,
    sender: Sender,
    receiver: Receiver,
    timers: Timers,
    events: Events,
    stats: Stats,
    path_mtu: usize,
    peer_mss: u16,
    clock: Clock,
    /// `close` was called before the handshake was over.
    is_close_pending: bool,
    due: Special,
    /// Our SYN was lost, or its answer was.
    is_syn_repeated: bool,
    /// The peer shall know that we reduced the window.
    reduced: bool,
    /// `write` refused octets.
    is_write_blocked: bool,
    challenges: Challenges,
}

/// Segments that are due besides data and acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
struct Special {
    /// A SYN or SYN-ACK.
    syn: bool,
    /// A reset due: its sequence number, and its acknowledgement number.
    reset: Option<(u32, Option<u32>)>,
    probe: Option<Probe>,
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
enum Probe {
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
        let mut connection = Self::connect(now, config, local, remote, rng);
        connection.stats.received.segments = 1;
        connection.take_syn(now, syn);
        connection.state = State::SynReceived;
        connection
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
        let place = self.sender.una().nearest(seq);
        if place < self.sender.una() || place >= self.sender.max() {
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
            | icmp::Error::ProtocolUnreachable
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
        self.receiver.read(buffer)
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
            | State::LastAck => self.schedule_reset(),
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
        self.sender.window().cwnd
    }

    /// The slow-start threshold, in octets.
    #[must_use]
    pub fn ssthresh(&self) -> u64 {
        self.sender.window().ssthresh
    }

    /// Octets of payload in a full segment.
    #[must_use]
    pub fn mss(&self) -> u64 {
        self.sender.window().mss
    }

    /// The window that the peer offers, in octets.
    #[must_use]
    pub fn peer_window(&self) -> u64 {
        self.sender.peer_window()
    }

    /// The smoothed round-trip time, once known.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.sender.rtt().srtt()
    }

    /// The smoothed deviation of the round-trip time, once known.
    #[must_use]
    pub fn rttvar(&self) -> Option<Duration> {
        self.sender.rtt().rttvar()
    }

    /// The present retransmission timeout, including back-off.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.sender.rtt().rto()
    }

    /// Places of the sequence space that are sent and not acknowledged.
    #[must_use]
    pub fn flight_size(&self) -> u64 {
        self.sender.max().since(self.sender.una())
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
        self.receiver.readable()
    }

    #[cfg(test)]
    pub(crate) fn window_mut(&mut self) -> &mut Window {
        self.sender.window_mut()
    }

    /// Our timestamp at a time.
    #[cfg(test)]
    pub(crate) fn timestamp(&self, at: Time) -> u32 {
        self.clock.show(at)
    }

    /// Whether a loss detected by acknowledgements is being repaired.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.sender.is_repairing()
    }

    /// Our SYN is acknowledged and so is the peer's: data may flow.
    fn establish(&mut self, now: Time) {
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
    fn take_ack(&mut self, now: Time, report: &Acknowledgement, echo: Option<u32>) {
        let clock = self.clock;
        let is_echoed = |at: Time| echo == Some(clock.show(at));
        let progress = self.sender.handle_ack(now, report, is_echoed, &mut self.stats.feedback);
        self.stats.finding = self.sender.finding();
        match progress {
            Progress::Acked { restarts_timer } => {
                self.timers.retries = Retries::new(now);
                if !self.sender.is_outstanding() {
                    self.timers.rto = None;
                } else if restarts_timer {
                    self.timers.rto = Some(now + self.sender.rtt().rto());
                }
                if self.is_write_blocked && self.sender.free() > 0 {
                    self.is_write_blocked = false;
                    self.events.writable = true;
                }
            }
            Progress::Lost => self.timers.rto = Some(now + self.sender.rtt().rto()),
            Progress::None => {}
        }
    }

    /// The connection is over.
    fn end(&mut self, event: Event) {
        self.end_after_acks(event);
        self.receiver.cancel_acks();
    }

    /// The connection is over, but for acknowledgements that are due.
    fn end_after_acks(&mut self, event: Event) {
        self.state = State::Closed;
        self.timers.stop();
        self.sender.discard();
        self.due.syn = false;
        self.due.probe = None;
        self.events.end.get_or_insert(event);
    }

    /// We gave up.
    fn give_up(&mut self) {
        let reason = match self.state {
            State::SynReceived | State::SynSent => TimedOut::Connecting,
            _ => TimedOut::Data,
        };
        self.schedule_reset();
        self.end(Event::TimedOut(reason));
    }

    /// The peer shall hear that the connection is over.
    fn schedule_reset(&mut self) {
        let ack = (self.state != State::SynSent).then(|| self.receiver.next().wire());
        if ack.is_some() {
            self.due.reset = Some((self.sender.max().wire(), ack));
        }
    }

    /// Schedules a challenge acknowledgement for a possibly forged or stray segment, within the rate limit (RFC 5961,
    /// 7).
    fn challenge(&mut self, now: Time) {
        let Challenges { since, count } = self.challenges;
        let is_over = now.since(since) >= Duration::from_secs(1);
        let (since, count) = if is_over { (now, 0) } else { (since, count) };
        if count < self.config.challenge_acks_per_s.max(1) {
            self.challenges = Challenges { since, count: count + 1 };
            self.stats.sent.challenge_acks += 1;
            self.receiver.schedule_ack();
        } else {
            self.stats.sent.challenge_acks_held += 1;
        }
    }

    /// Whether a limit is reached after so many retransmissions.
    fn is_reached(limit: Limit, retransmissions: u32) -> bool {
        matches!(limit, Limit::Retransmissions(most) if retransmissions >= most)
    }

    /// The sequence number of a received segment, as a full number.
    fn place(&self, segment: &Segment<'_>) -> Seq {
        self.receiver.next().nearest(segment.seq)
    }
}

// Handles each received segment of a connection (RFC 9293, 3.10.7).

impl Connection {
    /// Handles a segment of this connection.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment<'_>) {
        self.stats.received.segments += 1;
        match self.state {
            State::Closed => self.refuse(segment),
            State::SynSent => self.handle_in_syn_sent(now, segment),
            State::CloseWait
            | State::Closing
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::LastAck
            | State::SynReceived
            | State::TimeWait => self.handle_synchronized(now, segment),
        }
    }

    /// RFC 9293, 3.10.7.3.
    fn handle_in_syn_sent(&mut self, now: Time, segment: &Segment<'_>) {
        let flags = segment.flags;
        let ack = self.sender.una().nearest(segment.ack);
        let is_acked = flags.has(Flags::ACK) && ack > self.sender.una() && ack <= self.sender.max();
        if flags.has(Flags::ACK) && !is_acked {
            self.stats.received.bad_acks += 1;
            self.refuse(segment);
            return;
        }
        if flags.has(Flags::RST) {
            if is_acked {
                self.end(Event::Reset);
            } else {
                self.stats.received.ignored_resets += 1;
            }
            return;
        }
        if !flags.has(Flags::SYN) {
            return;
        }

        self.take_syn(now, segment);
        if !is_acked {
            // Both ends opened at once: our SYN goes again, now with an acknowledgement.
            self.state = State::SynReceived;
            self.due.syn = true;
            return;
        }
        self.take_segment_ack(now, segment, ack, false);
        self.establish(now);
        self.receiver.schedule_ack();
        let after_syn = self.receiver.next();
        self.take_payload(now, segment, after_syn);
    }

    /// RFC 9293, 3.10.7.4: every state from SYN-RECEIVED on.
    fn handle_synchronized(&mut self, now: Time, segment: &Segment<'_>) {
        let flags = segment.flags;
        let mut seq = self.place(segment);
        let mut len = u64::from(segment.len());
        // Our SYN-ACK was lost, or both ends opened at once.
        let is_first_syn = flags.has(Flags::SYN)
            && self.state == State::SynReceived
            && seq + 1 == self.receiver.next();
        if is_first_syn {
            if !flags.has(Flags::ACK) {
                self.due.syn = true;
                self.is_syn_repeated = true;
            }
            seq += 1;
            len -= 1;
        }
        if !self.is_timely(now, segment) || !self.is_in_window(now, segment, seq, len) {
            return;
        }
        if flags.has(Flags::RST) {
            self.handle_reset(now, seq);
            return;
        }
        if flags.has(Flags::SYN) && !is_first_syn {
            // RFC 5961, 4.
            self.challenge(now);
            return;
        }
        if !flags.has(Flags::ACK) {
            return;
        }

        if let Some(timestamps) = segment.options.timestamps.filter(|_| self.agreed.timestamps) {
            self.receiver.take_timestamp(now, seq, timestamps.value);
        }
        if self.state != State::TimeWait {
            self.timers.heard(now, self.config.keep_alive);
        }
        if self.take_acknowledgement(now, segment, seq) {
            if is_first_syn {
                self.receiver.schedule_ack();
            }
            self.take_payload(now, segment, seq);
        }
    }

    /// PAWS (RFC 7323, 5.3), and the presence of agreed options (3.2).
    fn is_timely(&mut self, now: Time, segment: &Segment<'_>) -> bool {
        if !self.agreed.timestamps || segment.flags.has(Flags::RST) {
            return true;
        }
        let Some(timestamps) = segment.options.timestamps else {
            self.stats.received.missing_timestamps += 1;
            return false;
        };
        if self.receiver.is_old(now, timestamps.value) {
            self.stats.received.paws_drops += 1;
            if segment.payload.is_empty() {
                // Most likely an acknowledgement that another overtook.
                self.receiver.schedule_ack();
            } else {
                self.receiver.schedule_duplicate();
            }
            return false;
        }
        true
    }

    /// First check of RFC 9293, 3.10.7.4: where the segment lies.
    fn is_in_window(&mut self, now: Time, segment: &Segment<'_>, seq: Seq, len: u64) -> bool {
        if self.receiver.is_acceptable(seq, len) {
            return true;
        }
        // A closed window stops data, not the rest of the segment.
        let is_closed = self.receiver.window() == 0 && seq == self.receiver.next();
        let flags = segment.flags;
        if is_closed && !flags.has(Flags::SYN) {
            if len > 0 && !flags.has(Flags::RST) {
                self.stats.received.out_of_window += 1;
                self.receiver.schedule_ack();
            }
            return true;
        }

        if flags.has(Flags::RST) {
            self.stats.received.ignored_resets += 1;
            return false;
        }
        if self.state == State::TimeWait && flags.has(Flags::FIN) {
            self.timers.time_wait = Some(now + self.config.time_wait);
        }
        if segment.payload.is_empty() || seq >= self.receiver.edge() {
            self.stats.received.out_of_window += 1;
            self.challenge(now);
        } else {
            // All of it was there: report it (RFC 2883).
            self.receiver.take(now, seq, segment.payload, &mut self.stats.received);
        }
        false
    }

    /// RFC 5961, 3.2.
    fn handle_reset(&mut self, now: Time, seq: Seq) {
        if seq != self.receiver.next() {
            self.stats.received.ignored_resets += 1;
            self.challenge(now);
            return;
        }
        match self.state {
            State::Closing | State::LastAck | State::TimeWait => self.end(Event::Closed),
            State::CloseWait
            | State::Closed
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::SynReceived
            | State::SynSent => self.end(Event::Reset),
        }
    }

    /// Fifth check: the acknowledgement. Returns whether the payload is to be looked at.
    fn take_acknowledgement(&mut self, now: Time, segment: &Segment<'_>, seq: Seq) -> bool {
        let ack = self.sender.una().nearest(segment.ack);
        if self.state == State::SynReceived {
            if ack <= self.sender.una() || ack > self.sender.max() {
                self.stats.received.bad_acks += 1;
                self.refuse(segment);
                return false;
            }
            self.take_segment_ack(now, segment, ack, false);
            self.establish(now);
        } else if ack > self.sender.max()
            || ack + self.sender.largest_peer_window() < self.sender.una()
        {
            // RFC 5961, 5.
            self.stats.received.bad_acks += 1;
            self.challenge(now);
            return false;
        } else if ack >= self.sender.una() {
            let wnd = u64::from(segment.window) << self.agreed.peer_shift;
            let is_new_window = self.sender.set_window(seq, ack, wnd);
            let is_bare =
                !is_new_window && segment.payload.is_empty() && !segment.flags.has(Flags::FIN);
            self.take_segment_ack(now, segment, ack, is_bare);
            if self.sender.is_probing() || self.sender.peer_window() == 0 {
                // The peer lives, its window is closed: no reason to give up (RFC 1122, 4.2.2.17).
                self.timers.retries = Retries::new(now);
            }
        }
        if segment.flags.has(Flags::ECE) && self.agreed.ecn && self.sender.handle_echo(now) {
            self.stats.feedback.ecn_reductions += 1;
            self.reduced = true;
        }
        self.step_by_fin_ack(now);
        self.state != State::Closed
    }

    fn take_segment_ack(&mut self, now: Time, segment: &Segment<'_>, ack: Seq, is_bare: bool) {
        if self.state == State::SynReceived || self.state == State::SynSent {
            let is_scaled = !segment.flags.has(Flags::SYN);
            let shift = if is_scaled { self.agreed.peer_shift } else { 0 };
            let seq = self.receiver.next();
            self.sender.start_window(seq, ack, u64::from(segment.window) << shift);
        }
        let timestamps = segment.options.timestamps.filter(|_| self.agreed.timestamps);
        // A timestamp from the future is no echo of ours.
        let echo = timestamps.and_then(|it| Some((it.echo, self.clock.age(now, it.echo)?)));
        let sack = if self.agreed.sack { segment.options.sack } else { SackBlocks::default() };
        let report = Acknowledgement {
            ack,
            is_bare,
            sack,
            ttl: segment.ttl,
            echo_age: echo.map(|(_, age)| age),
        };
        self.take_ack(now, &report, echo.map(|(value, _)| value));
    }

    /// Changes the state after the acknowledgement of our FIN.
    fn step_by_fin_ack(&mut self, now: Time) {
        if !self.sender.is_fin_acked() {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.rest(now),
            State::LastAck => self.end(Event::Closed),
            State::CloseWait
            | State::Closed
            | State::Established
            | State::FinWait2
            | State::SynReceived
            | State::SynSent
            | State::TimeWait => {}
        }
    }

    /// Seventh and eighth check: payload and FIN. URG is taken as ordinary data (RFC 6093).
    fn take_payload(&mut self, now: Time, segment: &Segment<'_>, seq: Seq) {
        let flags = segment.flags;
        if self.agreed.ecn {
            let is_marked = segment.is_congestion_marked();
            self.stats.received.ecn_marks += u64::from(is_marked);
            self.receiver.take_ecn(flags.has(Flags::CWR), is_marked);
        }
        if !self.takes_data() {
            if flags.has(Flags::FIN) {
                self.receiver.schedule_ack();
            }
            return;
        }
        let is_closed = self.receiver.window() == 0;
        if !segment.payload.is_empty() && !is_closed {
            let octets = self.receiver.take(now, seq, segment.payload, &mut self.stats.received);
            self.events.readable |= octets > 0;
        }
        if flags.has(Flags::FIN) && !is_closed {
            self.receiver.take_fin(seq + segment.payload.len() as u64);
        }
        if self.receiver.reach_fin() {
            self.events.peer_closed = true;
            match self.state {
                State::Established => self.state = State::CloseWait,
                State::FinWait1 => self.state = State::Closing,
                State::FinWait2 => self.rest(now),
                State::CloseWait
                | State::Closed
                | State::Closing
                | State::LastAck
                | State::SynReceived
                | State::SynSent
                | State::TimeWait => {}
            }
        }
    }

    /// Both directions are closed: the ports rest (RFC 9293, 3.6.1).
    fn rest(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.timers.stop();
        if self.config.time_wait.is_zero() {
            self.end_after_acks(Event::Closed);
        } else {
            self.timers.time_wait = Some(now + self.config.time_wait);
        }
    }

    /// Answers a segment that belongs to no connection.
    fn refuse(&mut self, segment: &Segment<'_>) {
        if let Some(reset) = segment.reset_for() {
            let ack = reset.flags.has(Flags::ACK).then_some(reset.ack);
            self.due.reset = Some((reset.seq, ack));
        }
    }
}

// Decides which segment to send, and when.

impl Connection {
    /// Puts the next whole IP packet in place of what `out` holds; false when there is none.
    ///
    /// The choice is made now, so ask only while the bearer has room.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        out.clear();
        if let Some((seq, ack)) = self.due.reset.take() {
            self.emit_reset(seq, ack, out);
            return true;
        }
        match self.state {
            State::SynReceived | State::SynSent if self.due.syn => {
                self.emit_syn(now, out);
                true
            }
            State::SynSent => false,
            State::CloseWait
            | State::Closing
            | State::Established
            | State::FinWait1
            | State::LastAck => self.poll_data(now, out),
            State::Closed | State::FinWait2 | State::SynReceived | State::TimeWait => {
                self.poll_ack(now, out)
            }
        }
    }

    fn poll_data(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        if self.receiver.has_duplicate_due() {
            self.emit_ack(now, out);
            return true;
        }
        let extra = self.sack_len();
        if self.due.probe == Some(Probe::Window) {
            self.due.probe = None;
            if let Some(plan) = self.sender.probe(extra) {
                self.emit_data(now, plan, out);
                return true;
            }
        }
        self.sender.restart_if_idle(now);
        self.timers.pace = None;
        match self.sender.next(now, extra) {
            Next::Send(plan) => {
                self.emit_data(now, plan, out);
                return true;
            }
            Next::Wait(Wait::Peer) => {
                if !self.sender.is_outstanding() && self.timers.persist.is_none() {
                    let interval = self.sender.probe_interval(self.timers.probes);
                    self.timers.persist = Some(now + interval);
                }
            }
            Next::Wait(Wait::Pace(at)) => {
                self.timers.stop_probing();
                self.timers.pace = Some(at);
            }
            Next::Wait(Wait::Acks | Wait::Data) => self.timers.stop_probing(),
        }
        self.poll_ack(now, out)
    }

    fn poll_ack(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let receiver = &self.receiver;
        let is_due = receiver.is_ack_due() || (self.takes_data() && receiver.has_news());
        if is_due {
            self.emit_ack(now, out);
            return true;
        }
        if self.due.probe.take() == Some(Probe::Idle) {
            self.emit_idle_probe(now, out);
            return true;
        }
        false
    }

    fn takes_data(&self) -> bool {
        matches!(self.state, State::Established | State::FinWait1 | State::FinWait2)
    }

    fn emit_syn(&mut self, now: Time, out: &mut Vec<u8>) {
        self.due.syn = false;
        let is_answer = self.state == State::SynReceived;
        let agreed = self.agreed;
        // A peer or a box between may choke on ECN: only the first SYN asks (RFC 3168, 6.1.1.1).
        let ecn = agreed.ecn && (is_answer || !self.is_syn_repeated);
        if !ecn {
            self.agreed.ecn = false;
        }
        let flags = Flags::SYN
            .with(Flags::ACK, is_answer)
            .with(Flags::ECE, ecn)
            .with(Flags::CWR, ecn && !is_answer);
        let shift = Receiver::shift_for(&self.config);
        let options = Options {
            mss: Some(self.announced_mss()),
            window_scale: agreed.scaling.then_some(shift),
            sack_permitted: agreed.sack,
            timestamps: agreed.timestamps.then(|| self.timestamps(now)),
            ..Options::default()
        };
        let window = u16::try_from(self.config.receive_buffer).unwrap_or(u16::MAX);
        let ack = if is_answer { self.receiver.next().wire() } else { 0 };
        let seq = self.sender.iss().wire();
        self.stats.sent.data_segments += 1;
        self.stats.sent.retransmissions += u64::from(self.is_syn_repeated);
        self.send(Segment { seq, ack, flags, window, options, ..self.blank() }, out);
        self.sender.sent_syn(now);
        self.timers.rto.get_or_insert(now + self.sender.rtt().rto());
        if is_answer {
            self.receiver.acked();
        }
    }

    fn emit_data(&mut self, now: Time, plan: Plan, out: &mut Vec<u8>) {
        let is_new = plan.seq >= self.sender.max();
        let is_last = plan.seq + plan.len as u64 == self.sender.data_end();
        let flags = Flags::ACK
            .with(Flags::PSH, is_last && plan.len > 0)
            .with(Flags::FIN, plan.fin)
            .with(Flags::CWR, self.reduced && is_new)
            .with(Flags::ECE, self.receiver.echo());
        // Neither retransmissions nor probes are marked (RFC 3168, 6.1.5 and 6.1.6).
        let is_marked = self.agreed.ecn && is_new && plan.len > 0 && plan.kind == Kind::New;
        if is_new {
            self.reduced = false;
        }
        let options = self.options(now);
        let segment = Segment {
            seq: plan.seq.wire(),
            ack: self.receiver.next().wire(),
            flags,
            window: self.receiver.advertise(),
            options,
            traffic_class: self.config.ip.dscp << 2 | if is_marked { ecn::ECT_0 } else { 0 },
            ..self.blank()
        };
        let (front, back) = self.sender.payload(plan);
        segment.emit_with(plan.len, out, |out| {
            out.extend_from_slice(front);
            out.extend_from_slice(back);
        });
        self.stats.sent.segments += 1;
        self.stats.sent.data_segments += 1;
        self.stats.sent.rescue_retransmissions += u64::from(plan.kind == Kind::Rescue);
        self.receiver.acked();
        self.sender.sent(now, plan, &mut self.stats.sent);
        if self.sender.is_outstanding() {
            self.timers.stop_probing();
            self.timers.rto.get_or_insert(now + self.sender.rtt().rto());
        }
    }

    fn emit_ack(&mut self, now: Time, out: &mut Vec<u8>) {
        self.stats.sent.acks += 1;
        let seq = self.sender.nxt().wire();
        self.emit_bare(now, seq, out);
        self.receiver.sent_pure_ack();
    }

    /// A segment before the window, that the peer must answer (RFC 9293, 3.8.4).
    fn emit_idle_probe(&mut self, now: Time, out: &mut Vec<u8>) {
        self.stats.sent.keep_alive_probes += 1;
        let seq = (self.sender.una() - 1).wire();
        self.emit_bare(now, seq, out);
    }

    fn emit_bare(&mut self, now: Time, seq: u32, out: &mut Vec<u8>) {
        let options = self.options(now);
        let segment = Segment {
            seq,
            ack: self.receiver.next().wire(),
            flags: Flags::ACK.with(Flags::ECE, self.receiver.echo()),
            window: self.receiver.advertise(),
            options,
            ..self.blank()
        };
        self.send(segment, out);
    }

    fn emit_reset(&mut self, seq: u32, ack: Option<u32>, out: &mut Vec<u8>) {
        self.stats.sent.resets += 1;
        let flags = Flags::RST.with(Flags::ACK, ack.is_some());
        self.send(Segment { seq, ack: ack.unwrap_or(0), flags, ..self.blank() }, out);
    }

    fn send(&mut self, segment: Segment<'_>, out: &mut Vec<u8>) {
        self.stats.sent.segments += 1;
        segment.emit(out);
    }

    /// The options of a segment after the handshake.
    fn options(&mut self, now: Time) -> Options {
        let timestamps = self.agreed.timestamps.then(|| self.timestamps(now));
        let sack = if self.agreed.sack && self.receiver.has_blocks() {
            let room = self.sack_room();
            self.receiver.sack_blocks(room, self.config.offer.duplicate_sack)
        } else {
            base::tcp::SackBlocks::default()
        };
        Options { timestamps, sack, ..Options::default() }
    }

    fn sack_room(&self) -> usize {
        if self.agreed.timestamps { MAX_SACK_BLOCKS - 1 } else { MAX_SACK_BLOCKS }
    }

    /// Most octets for SACK blocks in the next segment.
    fn sack_len(&self) -> u64 {
        if !self.agreed.sack || !self.receiver.has_blocks() {
            return 0;
        }
        4 + 8 * self.sack_room() as u64
    }

    fn timestamps(&self, now: Time) -> Timestamps {
        Timestamps { value: self.clock.show(now), echo: self.receiver.recent() }
    }

    fn blank(&self) -> Segment<'static> {
        let IpFields { ttl, dscp, dont_fragment } = self.config.ip;
        let bare = Segment::bare(self.local, self.remote);
        Segment { ttl, traffic_class: dscp << 2, dont_fragment, ..bare }
    }
}

// Handles the deadlines of a connection.

impl Connection {
    /// When to call `handle_timeout` at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let timers = &self.timers;
        [
            timers.persist,
            timers.pace,
            timers.time_wait,
            timers.keep_alive,
            timers.retries.give_up_at,
            self.receiver.ack_at(),
        ]
        .into_iter()
        .fold(timers.rto, earliest)
    }

    /// Whether the connection rests until its program or its peer acts: all data is acknowledged, and no timer runs
    /// except the timers of TIME-WAIT and of keep-alive probes.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let timers = &self.timers;
        let acting = [timers.rto, timers.persist, timers.pace, timers.retries.give_up_at];
        acting.iter().all(Option::is_none) && !self.receiver.has_ack_scheduled()
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.timers.time_wait) {
            self.end(Event::Closed);
            return;
        }
        if is_due(self.timers.retries.give_up_at) {
            self.give_up();
            return;
        }
        self.receiver.handle_timeout(now);
        if is_due(self.timers.pace) {
            self.timers.pace = None;
        }
        if is_due(self.timers.rto) {
            self.handle_rto(now);
        }
        if is_due(self.timers.persist) {
            self.handle_persist(now);
        }
        if is_due(self.timers.keep_alive) {
            self.handle_keep_alive(now);
        }
    }

    fn handle_rto(&mut self, now: Time) {
        self.timers.rto = None;
        if self.are_retries_over(now) {
            self.give_up();
            return;
        }
        self.stats.feedback.timeouts += 1;
        self.sender.handle_timeout(now, self.timers.retries.retransmissions == 1);
        self.timers.rto = Some(now + self.sender.rtt().rto());
        if matches!(self.state, State::SynReceived | State::SynSent) {
            self.due.syn = true;
            self.is_syn_repeated = true;
        }
    }

    fn handle_persist(&mut self, now: Time) {
        if self.are_retries_over(now) {
            self.give_up();
            return;
        }
        self.timers.probes = self.timers.probes.saturating_add(1);
        self.timers.persist = Some(now + self.sender.probe_interval(self.timers.probes));
        self.due.probe = Some(Probe::Window);
    }

    fn handle_keep_alive(&mut self, now: Time) {
        self.timers.keep_alive = None;
        let Some(keep_alive) = self.config.keep_alive else { return };
        if self.sender.is_outstanding() || self.sender.is_probing() {
            // R2 watches over that.
            self.timers.heard(now, Some(keep_alive));
            return;
        }
        if self.timers.keep_alive_probes >= keep_alive.probes.max(1) {
            self.schedule_reset();
            self.end(Event::TimedOut(TimedOut::KeepAlive));
            return;
        }
        self.timers.keep_alive_probes += 1;
        self.timers.keep_alive = Some(now + at_least(keep_alive.interval));
        self.due.probe = Some(Probe::Idle);
    }

    /// A timer expired without an answer: counts it, warns at R1, and says whether R2 is reached.
    fn are_retries_over(&mut self, now: Time) -> bool {
        let is_opening = matches!(self.state, State::SynReceived | State::SynSent);
        let r2 = if is_opening { self.config.r2_syn } else { self.config.r2 };
        let r1 = self.config.r1;
        let retries = &mut self.timers.retries;
        if Self::is_reached(r2, retries.retransmissions) {
            return true;
        }
        retries.retransmissions += 1;

        let since = self.sender.oldest_sent_at().unwrap_or(now).max(retries.progress_at);
        let has_elapsed = matches!(r1, Limit::Elapsed(limit) if now.since(since) >= limit);
        let is_r1 = has_elapsed || Self::is_reached(r1, retries.retransmissions);
        if is_r1 && !retries.is_warned {
            retries.is_warned = true;
            self.events.unresponsive = true;
            if let Limit::ElapsedSinceR1(limit) = r2 {
                retries.give_up_at = Some(now + limit);
            }
        }
        if let Limit::Elapsed(limit) = r2 {
            retries.give_up_at = Some(since + limit);
        }
        retries.give_up_at.is_some_and(|at| at <= now)
    }
}

// Handles the peer's SYN, and calculates how long segments may be.

/// Smaller segments would be mostly header; a peer or router that asks for less gets this.
const MIN_MSS: usize = 64;
/// The maximum of the length field in an IP header.
const MAX_PACKET: usize = 65_535;
/// Octets of the timestamps option in each segment.
const TIMESTAMPS_LEN: usize = 12;

impl Connection {
    /// Handles the peer's SYN: the initial sequence number and the offered options.
    fn take_syn(&mut self, now: Time, syn: &Segment<'_>) {
        let options = &syn.options;
        let agreed = &mut self.agreed;
        agreed.timestamps &= options.timestamps.is_some();
        agreed.sack &= options.sack_permitted;
        agreed.scaling &= options.window_scale.is_some();
        agreed.ecn &= if syn.flags.has(Flags::ACK) {
            syn.flags.has(Flags::ECE) && !syn.flags.has(Flags::CWR)
        } else {
            syn.flags.has(Flags::ECE | Flags::CWR)
        };
        let scale = options.window_scale.filter(|_| agreed.scaling);
        agreed.peer_shift = scale.unwrap_or(0).min(MAX_SHIFT);
        let shift = if agreed.scaling { Receiver::shift_for(&self.config) } else { 0 };
        self.sender.set_sack(agreed.sack);
        self.peer_mss = options.mss.unwrap_or(self.peer_mss);
        let mss = self.payload_limit();
        self.receiver = Receiver::new(&self.config, syn.seq, shift, mss);
        if let Some(timestamps) = options.timestamps.filter(|_| self.agreed.timestamps) {
            self.receiver.take_timestamp(now, self.receiver.next(), timestamps.value);
        }
        // The window of a SYN is never scaled.
        let seq = self.receiver.next();
        self.sender.start_window(seq, self.sender.una(), u64::from(syn.window));
    }

    /// Octets that a segment can carry to the peer, timestamps counted off.
    fn payload_limit(&self) -> u64 {
        let path = self.path_mtu.min(MAX_PACKET).saturating_sub(self.headers());
        let own = self.config.mss.map_or(usize::MAX, usize::from);
        let mss = path.min(own).min(usize::from(self.peer_mss)).max(MIN_MSS);
        let options = if self.agreed.timestamps { TIMESTAMPS_LEN } else { 0 };
        (mss - options) as u64
    }

    /// The MSS that we announce.
    fn announced_mss(&self) -> u16 {
        let derived = self.config.mtu.saturating_sub(self.headers()).max(MIN_MSS);
        self.config.mss.unwrap_or(u16::try_from(derived).unwrap_or(u16::MAX))
    }

    fn headers(&self) -> usize {
        HEADER + if self.local.is_ipv4() { V4_HEADER } else { V6_HEADER }
    }
}

/// Events not yet fetched: at most one per kind, so memory stays bounded.
#[derive(Clone, Copy, Debug, Default)]
struct Events {
    connected: bool,
    readable: bool,
    writable: bool,
    unresponsive: bool,
    soft_error: Option<icmp::Error>,
    peer_closed: bool,
    end: Option<Event>,
}

impl Events {
    /// The next event, in the order in which events can have happened.
    fn pop(&mut self) -> Option<Event> {
        let mut take =
            |flag: fn(&mut Self) -> &mut bool, event| std::mem::take(flag(self)).then_some(event);
        take(|events| &mut events.connected, Event::Connected)
            .or_else(|| take(|events| &mut events.readable, Event::Readable))
            .or_else(|| take(|events| &mut events.writable, Event::Writable))
            .or_else(|| take(|events| &mut events.unresponsive, Event::Unresponsive))
            .or_else(|| take(|events| &mut events.peer_closed, Event::PeerClosed))
            .or_else(|| self.soft_error.take().map(Event::SoftError))
            .or_else(|| self.end.take())
    }
}

// The deadlines of a connection.

/// The deadlines of a connection, but for the delayed acknowledgement's.
#[derive(Clone, Debug)]
struct Timers {
    /// Retransmission.
    rto: Option<Time>,
    /// The next window probe, and how many there were.
    persist: Option<Time>,
    probes: u32,
    /// The controller's pace holds data until then.
    pace: Option<Time>,
    time_wait: Option<Time>,
    keep_alive: Option<Time>,
    keep_alive_probes: u32,
    retries: Retries,
}

/// How long the peer has not answered what we send again (R1 and R2; RFC 1122, 4.2.3.5).
#[derive(Clone, Debug)]
struct Retries {
    /// Retransmissions since the peer last made progress.
    retransmissions: u32,
    /// When it did.
    progress_at: Time,
    give_up_at: Option<Time>,
    is_warned: bool,
}

impl Retries {
    /// The peer answered at `now`.
    fn new(now: Time) -> Self {
        Self { retransmissions: 0, progress_at: now, give_up_at: None, is_warned: false }
    }
}

impl Timers {
    fn new(now: Time) -> Self {
        Self {
            rto: None,
            persist: None,
            probes: 0,
            pace: None,
            time_wait: None,
            keep_alive: None,
            keep_alive_probes: 0,
            retries: Retries::new(now),
        }
    }

    /// The peer was heard.
    fn heard(&mut self, now: Time, keep_alive: Option<KeepAlive>) {
        self.keep_alive_probes = 0;
        self.keep_alive = keep_alive.map(|keep_alive| now + at_least(keep_alive.idle));
    }

    /// The window is open: no more probes.
    fn stop_probing(&mut self) {
        self.persist = None;
        self.probes = 0;
    }

    fn stop(&mut self) {
        *self = Self::new(self.retries.progress_at);
    }
}

/// A timer of zero would make a driver spin.
fn at_least(duration: Duration) -> Duration {
    duration.max(Duration::from_millis(1))
}

// Options that the two SYNs agree on.

/// The payload that every host takes when it does not say (RFC 9293, 3.7.1).
const DEFAULT_MSS_V4: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1_220;

/// What the two SYNs agreed on.
#[derive(Clone, Copy, Debug, Default)]
struct Agreed {
    timestamps: bool,
    sack: bool,
    ecn: bool,
    /// The shift of the peer's window field.
    peer_shift: u8,
    scaling: bool,
}

impl Agreed {
    /// What our SYN asks for.
    fn offered(config: &Config) -> Self {
        Self {
            timestamps: config.offer.timestamps,
            sack: config.offer.sack,
            ecn: config.offer.ecn,
            peer_shift: 0,
            scaling: config.offer.window_scaling,
        }
    }
}

/// The payload that the peer takes when it does not say.
fn default_mss(local: SocketAddr) -> u16 {
    if local.is_ipv4() { DEFAULT_MSS_V4 } else { DEFAULT_MSS_V6 }
}

// The clock behind our timestamps (RFC 7323, 5.4).

/// It ticks from a random value on.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The clock's value at the epoch.
    base: u32,
    tick: Duration,
}

impl Clock {
    fn new(base: u32, tick: Duration) -> Self {
        Self { base, tick: tick.max(Duration::from_micros(1)) }
    }

    /// The clock's value at a time.
    fn show(self, at: Time) -> u32 {
        let nanos = u64::try_from(self.tick.as_nanos()).unwrap_or(u64::MAX);
        let ticks = at.as_nanos() / nanos;
        self.base.wrapping_add(serial::low32(ticks))
    }

    /// How long ago it showed `value`, in whole ticks; `None` for what lies in the future.
    fn age(self, now: Time, value: u32) -> Option<Duration> {
        let ticks = self.show(now).wrapping_sub(value);
        let ticks = u32::try_from(ticks.cast_signed()).ok()?;
        Some(self.tick.saturating_mul(ticks))
    }
}

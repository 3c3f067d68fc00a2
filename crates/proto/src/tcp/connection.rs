//! A connection: its state, and what the driver calls.

use std::net::SocketAddr;
use std::time::Duration;

use super::config::{Config, Limit};
use super::event::{Event, Events, State, TimedOut};
use super::receiver::{Due, MAX_SHIFT, Receiver};
use super::recovery::{Progress, Report};
use super::sender::Sender;
use super::seq::Seq;
use super::stats::Stats;
use super::timers::Timers;
use super::wire::{Flags, HEADER, Options, Segment};
use crate::ip::{V4_HEADER, V6_HEADER, icmp};
use crate::rng::Rng;
use crate::serial;
use crate::time::Time;

/// The payload that every host takes when it does not say (RFC 9293, 3.7.1).
const DEFAULT_MSS_V4: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1_220;
/// Smaller segments would be mostly header; a peer or router that asks for less gets this.
const MIN_MSS: usize = 64;
/// What the length field of an IP header can say.
const MAX_PACKET: usize = 65_535;
/// Octets that the timestamps option takes of each segment.
const TIMESTAMPS_LEN: usize = 12;

/// One end of a TCP connection (RFC 9293).
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
    path_mtu: usize,
    peer_mss: u16,
    /// What our timestamps clock shows at the epoch.
    timestamp_base: u32,
    /// `close` was called before the handshake was over.
    pub(super) is_close_pending: bool,
    /// A SYN or SYN-ACK is due.
    pub(super) syn_due: bool,
    /// It was lost, or its answer was.
    pub(super) is_syn_repeated: bool,
    /// A reset is due: its place, and what it acknowledges.
    pub(super) reset_due: Option<(u32, Option<u32>)>,
    pub(super) probe_due: Option<Probe>,
    /// The peer shall know that we reduced the window.
    pub(super) reduced: bool,
    /// `write` refused octets.
    is_write_blocked: bool,
    /// When the current second of challenge ACKs began, and how many it had.
    challenges: (Time, u32),
}

/// What the two SYNs agreed on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agreed {
    pub(super) timestamps: bool,
    pub(super) sack: bool,
    pub(super) ecn: bool,
    /// The shift of the peer's window field.
    pub(super) peer_shift: u8,
    pub(super) scaling: bool,
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
        let mut connection = Self::new(now, config, local, remote, rng);
        connection.agreed = Agreed {
            timestamps: config.timestamps,
            sack: config.sack,
            ecn: config.ecn,
            peer_shift: 0,
            scaling: config.window_scaling,
        };
        connection
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
        connection.agreed = Agreed {
            timestamps: config.timestamps,
            sack: config.sack,
            ecn: config.ecn,
            peer_shift: 0,
            scaling: config.window_scaling,
        };
        connection.stats.segments_received = 1;
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
            agreed: Agreed::default(),
            sender: Sender::new(config, u32::from_be_bytes([a, b, c, d])),
            receiver: Receiver::new(&config, 0, 0, 1),
            timers: Timers::new(now),
            events: Events::default(),
            stats: Stats::default(),
            path_mtu: config.mtu,
            peer_mss: if local.is_ipv4() { DEFAULT_MSS_V4 } else { DEFAULT_MSS_V6 },
            timestamp_base: u32::from_be_bytes([e, f, g, h]),
            is_close_pending: false,
            syn_due: true,
            is_syn_repeated: false,
            reset_due: None,
            probe_due: None,
            reduced: false,
            is_write_blocked: false,
            challenges: (now, 0),
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
    /// Errors about what is not in flight are ignored (RFC 5927, 4.1). None ends a connection
    /// that is open; a port unreachable refuses one that is opening.
    pub fn handle_icmp(&mut self, now: Time, error: icmp::Error, seq: u32) {
        self.stats.icmp_errors += 1;
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
        self.sender.wnd
    }

    /// The smoothed round-trip time, once there is one.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.sender.rtt.srtt()
    }

    /// The smoothed deviation of the round-trip time, once there is one.
    #[must_use]
    pub fn rttvar(&self) -> Option<Duration> {
        self.sender.rtt.rttvar()
    }

    /// The retransmission timeout, backed off as it is.
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

    /// Whether a fast recovery is under way.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.sender.recovery.is_some()
    }

    /// Takes the peer's SYN: where its numbers start, and what it offers.
    pub(super) fn take_syn(&mut self, now: Time, syn: &Segment<'_>) {
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
        self.sender.sack = agreed.sack;
        self.peer_mss = options.mss.unwrap_or(self.peer_mss);
        let mss = self.payload_limit();
        self.receiver = Receiver::new(&self.config, syn.seq, shift, mss);
        if let Some(timestamps) = options.timestamps.filter(|_| self.agreed.timestamps) {
            self.receiver.take_timestamp(now, self.receiver.next(), timestamps.value);
        }
        // The window of a SYN is never scaled.
        let seq = self.receiver.next();
        self.sender.start_window(seq, self.sender.una, u64::from(syn.window));
    }

    /// Our SYN is acknowledged and so is the peer's: data may flow.
    pub(super) fn establish(&mut self, now: Time) {
        self.state = State::Established;
        self.events.connected = true;
        self.syn_due = false;
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
    pub(super) fn take_ack(&mut self, now: Time, report: &Report, echo: Option<u32>) {
        let (base, tick) = (self.timestamp_base, self.config.timestamp_tick);
        let is_echoed = |at: Time| echo == Some(timestamp(base, tick, at));
        match self.sender.handle_ack(now, report, is_echoed, &mut self.stats) {
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
        self.syn_due = false;
        self.probe_due = None;
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
            self.reset_due = Some((self.sender.max.wire(), ack));
        }
    }

    /// Owes an acknowledgement in answer to a segment that may be forged or lost its way, if
    /// there were not too many of them (RFC 5961, 7).
    pub(super) fn challenge(&mut self, now: Time) {
        let (since, count) = self.challenges;
        let (since, count) =
            if now.since(since) >= Duration::from_secs(1) { (now, 0) } else { (since, count) };
        if count < self.config.challenge_acks_per_s.max(1) {
            self.challenges = (since, count + 1);
            self.stats.challenge_acks += 1;
            self.receiver.due = Due::Now;
        } else {
            self.stats.challenge_acks_held += 1;
        }
    }

    /// Octets that a segment can carry to the peer, timestamps counted off.
    pub(super) fn payload_limit(&self) -> u64 {
        let path = self.path_mtu.min(MAX_PACKET).saturating_sub(self.headers());
        let own = self.config.mss.map_or(usize::MAX, usize::from);
        let mss = path.min(own).min(usize::from(self.peer_mss)).max(MIN_MSS);
        let options = if self.agreed.timestamps { TIMESTAMPS_LEN } else { 0 };
        (mss - options) as u64
    }

    /// The MSS that we announce.
    pub(super) fn announced_mss(&self) -> u16 {
        let derived = self.config.mtu.saturating_sub(self.headers()).max(MIN_MSS);
        self.config.mss.unwrap_or(u16::try_from(derived).unwrap_or(u16::MAX))
    }

    fn headers(&self) -> usize {
        HEADER + if self.local.is_ipv4() { V4_HEADER } else { V6_HEADER }
    }

    /// What our timestamps clock shows.
    pub(super) fn timestamp(&self, now: Time) -> u32 {
        timestamp(self.timestamp_base, self.config.timestamp_tick, now)
    }

    /// How long ago the peer's echo left us, in whole ticks.
    pub(super) fn echo_age(&self, now: Time, options: &Options) -> Option<(u32, Duration)> {
        let echo = options.timestamps.filter(|_| self.agreed.timestamps)?.echo;
        let ticks = self.timestamp(now).wrapping_sub(echo);
        // What lies in the future is no echo of ours.
        let ticks = u32::try_from(ticks.cast_signed()).ok()?;
        Some((echo, tick(self.config.timestamp_tick).saturating_mul(ticks)))
    }

    /// Whether a limit is reached after so many retransmissions.
    pub(super) fn is_reached(limit: Limit, retransmissions: u32) -> bool {
        matches!(limit, Limit::Retransmissions(most) if retransmissions >= most)
    }

    /// Whether our FIN and all before it are acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.sender.is_fin_acked()
    }

    /// The place of a segment that arrived.
    pub(super) fn place(&self, segment: &Segment<'_>) -> Seq {
        self.receiver.next().nearest(segment.seq)
    }
}

fn timestamp(base: u32, length: Duration, now: Time) -> u32 {
    let nanos = u64::try_from(tick(length).as_nanos()).unwrap_or(u64::MAX);
    let ticks = now.as_nanos() / nanos;
    base.wrapping_add(serial::low32(ticks))
}

fn tick(length: Duration) -> Duration {
    length.max(Duration::from_micros(1))
}

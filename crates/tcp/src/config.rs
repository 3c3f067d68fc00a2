//! The settings of a connection, with their defaults.

use std::time::Duration;

use super::algorithm::Algorithm;

/// The parameters of a connection; the default is what current RFCs ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Octets of the longest IP packet that the local link carries, headers included; 68 to
    /// 65,535 (RFC 9293, 3.7.1).
    pub mtu: usize,
    /// The MSS to announce and never exceed, in octets, TCP options included (so with timestamps
    /// a segment carries 12 octets fewer); `None` derives it from `mtu` (RFC 9293, 3.7.1).
    pub mss: Option<u16>,
    /// Octets that `write` may run ahead of the peer's acknowledgements; at least 1.
    pub send_buffer: usize,
    /// Octets that may wait for `read`, out-of-order ones included; 1 to 2^30 (RFC 7323, 2.3).
    pub receive_buffer: usize,
    /// Holes kept among out-of-order octets; a segment that would make one more is dropped and
    /// counted, to be sent again; at least 1.
    pub max_holes: usize,
    /// Extensions of TCP offered to the peer.
    pub offer: Offer,
    /// Nagle's algorithm: no small segment while any data is unacknowledged (RFC 9293, 3.7.4).
    pub nagle: bool,
    /// When to acknowledge (RFC 5681, 4.2).
    pub delayed_ack: DelayedAck,
    /// The retransmission timer (RFC 6298).
    pub rto: Rto,
    /// The congestion window.
    pub congestion: Congestion,
    /// How losses are found and repaired.
    pub recovery: LossRecovery,
    /// When to warn the application that the peer does not answer (R1; RFC 1122, 4.2.3.5: at
    /// least 3 retransmissions).
    pub r1: Limit,
    /// When to give up (R2; RFC 1122, 4.2.3.5: at least 100 s).
    pub r2: Limit,
    /// When to give up opening a connection (R2 for SYN; RFC 1122, 4.2.3.5: at least 3 minutes).
    pub r2_syn: Limit,
    /// How long a closed connection keeps its ports: twice the maximum segment lifetime
    /// (RFC 9293, 3.4.2).
    pub time_wait: Duration,
    /// Probes of an idle peer (RFC 9293, 3.8.4); off unless asked for.
    pub keep_alive: Option<KeepAlive>,
    /// Answers per second to segments that may be forged (RFC 5961, 7); at least 1.
    pub challenge_acks_per_s: u32,
    /// IP header fields of our packets.
    pub ip: IpFields,
}

/// Extensions of TCP offered to the peer; an extension is used if both ends offer it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Offer {
    /// Window scaling (RFC 7323, 2).
    pub window_scaling: bool,
    /// Timestamps, for round-trip times and against wrapped sequence numbers (RFC 7323, 3 to 5).
    pub timestamps: bool,
    /// The tick of the timestamps clock, 1 ms to 1 s by RFC 7323, 5.4; at least 1 microsecond.
    pub timestamp_tick: Duration,
    /// Selective acknowledgements (RFC 2018) and recovery by them (RFC 6675); without, NewReno
    /// (RFC 6582).
    pub sack: bool,
    /// Duplicate SACK: tell the sender what came twice (RFC 2883).
    pub duplicate_sack: bool,
    /// ECN (RFC 3168).
    pub ecn: bool,
}

/// How large the congestion window is, and how it changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Congestion {
    /// Which congestion control.
    pub algorithm: Algorithm,
    /// The window to start with (RFC 6928, 2; RFC 5681, 3.1).
    pub initial_window: InitialWindow,
    /// The window to start with when the handshake lost a segment (RFC 5681, 3.1).
    pub window_after_syn_loss: InitialWindow,
    /// The slow-start threshold to start with, in octets; `None` is without limit (RFC 5681, 3.1).
    pub initial_ssthresh: Option<u64>,
    /// Whether an idle time of one RTO sets the window back (RFC 5681, 4.1).
    pub restart_after_idle: bool,
    /// Whether the window stops growing while something else holds the sender (RFC 7661).
    pub validate_window: bool,
}

/// How losses are found and repaired.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LossRecovery {
    /// Duplicate acknowledgements that mean a loss; 3 in RFC 5681, 3.2; at least 1.
    pub duplicate_threshold: u32,
    /// Send new data on the first duplicate acknowledgements (RFC 3042).
    pub limited_transmit: bool,
    /// Restart the retransmission timer only on the first partial acknowledgement, "impatient"
    /// (RFC 6582, 4); without SACK only.
    pub impatient: bool,
    /// Whether a timeout is undone when the first acknowledgement after it echoes a timestamp from
    /// before it: nothing was lost (RFC 3522), so the window is as before (RFC 4015); with
    /// timestamps only.
    pub undo_timeouts: bool,
    /// How the window leaves fast recovery without SACK (RFC 6582, 3.2, step 3).
    pub full_ack: FullAck,
    /// Whether a repair counts as lost after later segments have arrived, as in RFC 8985; in RFC 6675 only a timeout
    /// detects the loss; with SACK only.
    pub lost_repairs: bool,
}

/// IP header fields of our packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IpFields {
    /// The TTL or hop limit of our packets.
    pub ttl: u8,
    /// The six DSCP bits of our packets, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// Whether IPv4 routers may not fragment our packets (RFC 1191).
    pub dont_fragment: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mtu: 1_500,
            mss: None,
            send_buffer: 131_072,
            receive_buffer: 131_072,
            max_holes: 256,
            offer: Offer::default(),
            nagle: true,
            delayed_ack: DelayedAck::default(),
            rto: Rto::default(),
            congestion: Congestion::default(),
            recovery: LossRecovery::default(),
            r1: Limit::Retransmissions(3),
            r2: Limit::Retransmissions(15),
            r2_syn: Limit::Elapsed(Duration::from_secs(180)),
            time_wait: Duration::from_secs(60),
            keep_alive: None,
            challenge_acks_per_s: 10,
            ip: IpFields::default(),
        }
    }
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            window_scaling: true,
            timestamps: true,
            timestamp_tick: Duration::from_millis(1),
            sack: true,
            duplicate_sack: true,
            ecn: false,
        }
    }
}

impl Default for Congestion {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::default(),
            initial_window: InitialWindow::Rfc6928,
            window_after_syn_loss: InitialWindow::Segments(1),
            initial_ssthresh: None,
            restart_after_idle: true,
            validate_window: true,
        }
    }
}

impl Default for LossRecovery {
    fn default() -> Self {
        Self {
            duplicate_threshold: 3,
            limited_transmit: true,
            impatient: true,
            undo_timeouts: false,
            full_ack: FullAck::Flight,
            lost_repairs: false,
        }
    }
}

impl Default for IpFields {
    fn default() -> Self {
        Self { ttl: 64, dscp: 0, dont_fragment: true }
    }
}

/// When data that came in order is acknowledged; everything else is at once (RFC 5681, 4.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DelayedAck {
    /// At every how many segments, at the latest; 1 acknowledges each, RFC 5681 allows up to 2.
    pub segments: u32,
    /// How long an acknowledgement may wait; below 500 ms by RFC 5681; zero acknowledges at once.
    pub delay: Duration,
}

impl Default for DelayedAck {
    fn default() -> Self {
        Self { segments: 2, delay: Duration::from_millis(200) }
    }
}

/// The retransmission timer: RTO = SRTT + max(G, K * RTTVAR) (RFC 6298, 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rto {
    /// Before the first round-trip time is known, for data (RFC 6298, 2.1: 1 s).
    pub initial: Duration,
    /// For the first SYN or SYN-ACK (RFC 6298, 2.1: 1 s).
    pub syn: Duration,
    /// For the first data when the handshake timed out and gave no round-trip time: at least
    /// this (RFC 6298, 5.7: 3 s).
    pub after_syn_timeout: Duration,
    /// Never below (RFC 6298, 2.4: 1 s).
    pub min: Duration,
    /// Never above, also when backed off (RFC 6298, 2.5: at least 60 s).
    pub max: Duration,
    /// The gain of the mean, 0 to 1 (RFC 6298, 2.3: 1/8).
    pub alpha: f64,
    /// The gain of the deviation, 0 to 1 (RFC 6298, 2.3: 1/4).
    pub beta: f64,
    /// The coefficient of the deviation, at least 0 (RFC 6298, 2.2: 4).
    pub k: f64,
    /// The granularity of the clock, G (RFC 6298, 2).
    pub granularity: Duration,
    /// The factor for the RTO at each expiry; at least 1, which means no back-off (RFC 6298, 5.5: 2).
    pub backoff: f64,
    /// Whether timestamps also time retransmitted segments (RFC 7323, 4.1); only if the echo belongs to the last copy,
    /// because another may be as old as the segment.
    pub time_repeats: bool,
    /// Whether any acknowledgement of new data ends backing off, as some TCPs do, not only one
    /// that gives a round-trip time (RFC 6298, 5.7).
    pub forgive: bool,
}

impl Default for Rto {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            syn: Duration::from_secs(1),
            after_syn_timeout: Duration::from_secs(3),
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
            alpha: 0.125,
            beta: 0.25,
            k: 4.0,
            granularity: Duration::from_millis(1),
            backoff: 2.0,
            time_repeats: true,
            forgive: false,
        }
    }
}

/// A window to start with, where S is the octets of a full segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InitialWindow {
    /// That many octets.
    Octets(u64),
    /// 2, 3 or 4 segments, by their size (RFC 5681, 3.1).
    Rfc5681,
    /// min(10 S, max(2 S, 14,600)) (RFC 6928, 2).
    Rfc6928,
    /// That many segments.
    Segments(u32),
}

impl InitialWindow {
    /// In octets, when a full segment has `mss`.
    #[must_use]
    pub fn octets(self, mss: u64) -> u64 {
        match self {
            Self::Octets(octets) => octets,
            Self::Rfc5681 if mss > 2_190 => 2 * mss,
            Self::Rfc5681 if mss > 1_095 => 3 * mss,
            Self::Rfc5681 => 4 * mss,
            Self::Rfc6928 => (10 * mss).min((2 * mss).max(14_600)),
            Self::Segments(segments) => u64::from(segments) * mss,
        }
    }
}

/// A bound on how long a segment is sent again (RFC 1122, 4.2.3.5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Limit {
    /// Since the segment was first sent.
    Elapsed(Duration),
    /// Since the retransmission at which R1 was reached; for R2 only.
    ElapsedSinceR1(Duration),
    /// There is none.
    Never,
    /// That many retransmissions have gone unanswered for their timeout.
    Retransmissions(u32),
}

/// Probes of an idle peer (RFC 1122, 4.2.3.6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeepAlive {
    /// Silence before the first probe; 2 hours by RFC 1122.
    pub idle: Duration,
    /// Between probes.
    pub interval: Duration,
    /// Probes that go unanswered before the connection is given up; at least 1.
    pub probes: u32,
}

/// The window after NewReno's recovery (RFC 6582, 3.2, step 3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FullAck {
    /// min(ssthresh, max(flight, S) + S): no burst.
    Flight,
    /// ssthresh.
    Ssthresh,
}

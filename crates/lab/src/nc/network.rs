//! The network that all claims about the tunnel share.
//!
//! ```text
//!  source 0 ──┐                                                      ┌── sink 0
//!  source 1 ──┤ edge                       middle, lossy             ├── sink 1
//!    ...      ├────── near ─┬─(fast)─ left ─────── right ─(fast)─┬─ far ┤     ...
//!  source n ──┘     gateway └── left and right only if hidden ───┘ gateway
//! ```
//!
//! The middle starts at the gateways themselves, or a hop beyond, where no gateway sees its queue.

use std::time::Duration;

use proto::quantity::BitRate;
use proto::{nc, tcp, tcpnc};
use sim::channel::Loss;

use crate::tcp::as_ns3;

/// Octets of IPv4 and UDP headers.
pub(super) const UDP_HEADERS: usize = 28;
/// The least RTO of a current TCP.
const MIN_RTO: Duration = Duration::from_millis(200);
/// Octets of IPv4 and TCP headers.
const TCP_HEADERS: usize = 40;
/// Octets of TCP's timestamps option, as padded.
const TIMESTAMPS: usize = 12;
/// Octets of acknowledgements without options for each packet, where every second is acknowledged.
const ACKS: usize = TCP_HEADERS / 2;
/// Octets that the tunnel's own header adds to a packet that it carries plain.
pub(super) const TUNNEL_HEADER: usize = 8;
/// Octets of the longest packet that a tunnel takes whose own are of 1,500.
const LONG_PACKET: usize = 1_438;

/// What is alike in both directions of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wire {
    /// Bits a second.
    pub(super) rate: BitRate,
    /// One way.
    pub(super) delay: Duration,
}

/// The network and its traffic. All that can differ between two runs, but for the seed, is here.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Network {
    /// Pairs of a source and a sink.
    pub(super) sessions: usize,
    /// Between hosts and gateways.
    pub(super) edge: Wire,
    /// Between the gateways.
    pub(super) middle: Wire,
    /// Loss on the middle in the direction of the data.
    pub(super) loss: Loss,
    /// Loss on the middle against it.
    pub(super) loss_back: Loss,
    /// Packets that wait before a link at most.
    pub(super) queue: usize,
    /// Octets of the IP packets of the sources when they are full.
    pub(super) packet: usize,
    /// Whether the middle starts a hop beyond the gateways.
    pub(super) is_hidden: bool,
    /// Whether every sink is a source too, and every source a sink.
    pub(super) is_both_ways: bool,
    /// Whether one more source sends requests, which one more sink answers.
    pub(super) has_requests: bool,
    /// Points of each window and buffer over time to keep; 0 keeps none.
    pub(super) trace_points: usize,
    /// Who carries the packets between the gateways.
    pub(super) carrier: Carrier,
    /// What the sessions are.
    pub(super) traffic: Traffic,
    /// A plain TCP flow over the middle, beside the tunnel. Needs `is_hidden`.
    pub(super) rival: Option<Kind>,
}

/// Who carries the packets between the gateways.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Carrier {
    /// The coded tunnel.
    Coded(nc::Config),
    /// Plain IP.
    Plain,
    /// TCP/NC on the hosts, over plain IP.
    TcpNc,
    /// The TCP/NC tunnel of the paper, there; plain IP back.
    TcpNcTunnel {
        /// The least RTO of its TCP.
        min_rto: Duration,
    },
    /// The same with another layer below it than the usual one.
    TcpNcTunnelWith {
        /// The least RTO of its TCP.
        min_rto: Duration,
        /// The layer.
        layer: tcpnc::Config,
    },
    /// TCP/NC on the hosts with another layer than the usual one.
    TcpNcWith(tcpnc::Config),
}

/// What a session is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Traffic {
    /// A transfer without end.
    Tcp(Kind),
    /// Datagrams at this share of what the session can get at most.
    Udp {
        /// 1 is the limit itself.
        load: f64,
    },
}

/// Which TCP hosts speak.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// As hosts have it today: CUBIC, with buffers for the longest path here.
    Cubic,
    /// As the paper has it: NewReno without window scaling, so at most 64 KB in flight, without
    /// timestamps, and with a minimum RTO of 1 s.
    Seed,
    /// The same with window scaling and the buffers that ns-3 has by default.
    SeedScaled,
}

impl Kind {
    /// Its parameters in full packets of so many octets.
    pub(super) fn config(self, packet: usize) -> tcp::Config {
        // Announced with the options in it (RFC 9293, 3.7.1).
        let mss = u16::try_from(packet - TCP_HEADERS).unwrap_or(u16::MAX);
        let common = tcp::Config {
            mss: Some(mss),
            r2: tcp::Limit::Never,
            r2_syn: tcp::Limit::Never,
            ..tcp::Config::default()
        };
        match self {
            Self::Cubic => tcp::Config {
                send_buffer: 8 << 20,
                receive_buffer: 8 << 20,
                max_holes: 4_096,
                // As Linux has it: the deviation's part of the RTO is never below its least RTO.
                rto: tcp::Rto { min: MIN_RTO, granularity: MIN_RTO, ..common.rto },
                congestion: tcp::Congestion {
                    algorithm: tcp::Algorithm::CUBIC,
                    ..common.congestion
                },
                ..common
            },
            Self::Seed => as_ns3(tcp::Config {
                offer: tcp::Offer { window_scaling: false, timestamps: false, ..common.offer },
                send_buffer: 65_535,
                receive_buffer: 65_535,
                ..common
            }),
            Self::SeedScaled => tcp::Config {
                offer: tcp::Offer { window_scaling: true, ..Self::Seed.config(packet).offer },
                send_buffer: 128 << 10,
                receive_buffer: 128 << 10,
                ..Self::Seed.config(packet)
            },
        }
    }
}

impl Network {
    /// The topology of the paper's Figure 6, section IV.
    pub(super) fn seed(sessions: usize, loss: Loss, carrier: Carrier) -> Self {
        Self {
            sessions,
            edge: Wire { rate: bits_per_s(1_000_000), delay: Duration::from_millis(1) },
            middle: Wire { rate: bits_per_s(4_000_000), delay: Duration::from_millis(7) },
            loss,
            loss_back: Loss::None,
            queue: 100,
            packet: 1_000,
            is_hidden: false,
            is_both_ways: false,
            has_requests: false,
            trace_points: 0,
            carrier,
            traffic: Traffic::Tcp(Kind::Seed),
            rival: None,
        }
    }

    /// The long path: 10 Mbit/s, a round trip in which 500 packets of 1,500 octets are sent, one
    /// saturated session whose packets fill the tunnel's.
    pub(super) fn long(loss: Loss, carrier: Carrier) -> Self {
        const RATE: u64 = 10_000_000;
        const OUTER: usize = 1_500;
        let middle = bits_per_s(RATE);
        Self {
            edge: Wire { rate: BitRate::Unlimited, delay: Duration::ZERO },
            middle: Wire { rate: middle, delay: middle.time_for(OUTER) * 250 },
            queue: 500,
            packet: LONG_PACKET,
            traffic: Traffic::Udp { load: 0.95 },
            ..Self::seed(1, loss, carrier)
        }
    }

    /// Octets that the application gets out of a full packet.
    pub(super) fn payload(&self) -> usize {
        match self.traffic {
            Traffic::Tcp(Kind::Seed | Kind::SeedScaled) => self.packet - TCP_HEADERS,
            Traffic::Tcp(_) => self.packet - TCP_HEADERS - TIMESTAMPS,
            Traffic::Udp { .. } => self.packet - UDP_HEADERS,
        }
    }

    /// Octets of a full packet on the middle.
    pub(super) fn outer(&self) -> usize {
        match self.carrier {
            Carrier::Coded(config) => self.packet + config.overhead + TUNNEL_HEADER,
            // What theirs add is for them to make up.
            Carrier::Plain
            | Carrier::TcpNc
            | Carrier::TcpNcTunnel { .. }
            | Carrier::TcpNcTunnelWith { .. }
            | Carrier::TcpNcWith(_) => self.packet,
        }
    }

    /// The most that a session can get, in bit/s: what its edge lets through, or its share of what
    /// the middle does not lose, whichever is less, without headers, ours included, and where data goes
    /// both ways without the acknowledgements of the other way.
    pub(super) fn limit(&self) -> f64 {
        self.limit_with(self.outer())
    }

    /// The same without our headers: what the links allow.
    pub(super) fn links_limit(&self) -> f64 {
        self.limit_with(self.packet)
    }

    /// The same where packets have so many octets on the middle.
    fn limit_with(&self, outer: usize) -> f64 {
        let payload = self.payload() as f64;
        let share = (1.0 - self.loss.mean()) / self.sessions as f64;
        let acks = if self.is_both_ways { ACKS } else { 0 };
        let edge = rate_of(self.edge.rate) * payload / (self.packet + acks) as f64;
        let middle = rate_of(self.middle.rate) * share * payload / (outer + acks) as f64;
        edge.min(middle)
    }

    /// The time from entering the tunnel to leaving it that nothing can better.
    pub(super) fn transit(&self, octets: usize) -> Duration {
        self.middle.delay + self.middle.rate.time_for(octets + self.outer() - self.packet)
    }
}

fn bits_per_s(rate: u64) -> BitRate {
    BitRate::from_bits_per_s(rate).unwrap_or_default()
}

fn rate_of(rate: BitRate) -> f64 {
    match rate {
        BitRate::PerSecond(rate) => rate.get() as f64,
        BitRate::Unlimited => f64::INFINITY,
    }
}

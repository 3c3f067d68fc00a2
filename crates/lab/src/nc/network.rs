//! The network that all claims about the tunnel share.
//!
//! ```text
//!  source 0 ──┐                                                      ┌── sink 0
//!  source 1 ──┤ edge                       middle, lossy             ├── sink 1
//!    ...      ├────── near ─┬─(fast)─ left ─────── right ─(fast)─┬─ far ┤     ...
//!  source n ──┘     gateway └── left and right only if hidden ───┘ gateway
//! ```
//!
//! The middle link starts at the gateways, or a hop beyond them, where no gateway sees its queue.

use std::time::Duration;

use base::quantity::{BitRate, Probability, Span};
use sim::channel::{GilbertElliott, Loss};
use tcp::tcpnc;
use tunnel as nc;

use crate::name::{Name, rounded};
use crate::tcp::as_ns3;

/// Octets of IPv4 and UDP headers.
pub(crate) const UDP_HEADERS: usize = 28;
/// The minimum RTO of a current TCP.
const MIN_RTO: Duration = Duration::from_millis(200);
/// Octets of IPv4 and TCP headers.
const TCP_HEADERS: usize = 40;
/// Octets of TCP's timestamps option, padding included.
const TIMESTAMPS: usize = 12;
/// Octets of acknowledgements for each data packet: one without options for every second packet.
const ACKS: usize = TCP_HEADERS / 2;
/// Octets of the tunnel's own header before an uncoded packet.
pub(crate) const TUNNEL_HEADER: usize = 8;
/// Octets of the longest inner packet of a tunnel whose outer packets have 1,500 octets.
pub(crate) const LONG_PACKET: usize = 1_438;

/// The properties that both directions of a link share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wire {
    /// Bits per second.
    pub rate: BitRate,
    /// The one-way propagation delay.
    pub delay: Duration,
}

/// The network and its traffic: everything that can differ between two runs, except the seed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Network {
    /// The number of pairs of a source and a sink.
    pub sessions: usize,
    /// The links between hosts and gateways.
    pub edge: Wire,
    /// The link between the gateways.
    pub middle: Wire,
    /// Loss on the middle link in the direction of the data.
    pub loss: Loss,
    /// Loss on the middle link in the opposite direction.
    pub loss_back: Loss,
    /// The capacity of every link's queue, in packets.
    pub queue: usize,
    /// Octets of a source's full IP packet.
    pub packet: usize,
    /// Whether the middle link starts a hop beyond the gateways.
    pub is_hidden: bool,
    /// Whether every sink is also a source, and every source also a sink.
    pub is_both_ways: bool,
    /// Whether an additional source sends requests, which an additional sink answers.
    pub has_requests: bool,
    /// How many points of each window and buffer to record over time; 0 records none.
    pub trace_points: usize,
    /// How packets get from gateway to gateway.
    pub carrier: Carrier,
    /// The traffic of each session.
    pub traffic: Traffic,
    /// A plain TCP flow over the middle link, beside the tunnel. It needs `is_hidden`.
    pub rival: Option<Kind>,
}

/// How packets get from gateway to gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Carrier {
    /// The coded tunnel.
    Coded(nc::Config),
    /// Plain IP.
    Plain,
    /// TCP/NC on the hosts, over plain IP.
    TcpNc,
    /// The TCP/NC tunnel of the paper in the direction of the data; plain IP in the other.
    TcpNcTunnel {
        /// The least RTO of the tunnel's TCP.
        min_rto: Duration,
    },
    /// The TCP/NC tunnel of the paper with other parameters of the coding layer.
    TcpNcTunnelWith {
        /// The least RTO of the tunnel's TCP.
        min_rto: Duration,
        /// The parameters of the coding layer.
        layer: tcpnc::Config,
    },
    /// TCP/NC on the hosts with other parameters of the coding layer.
    TcpNcWith(tcpnc::Config),
}

/// The traffic of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Traffic {
    /// A TCP transfer that never ends.
    Tcp(Kind),
    /// UDP datagrams at a constant rate.
    Udp {
        /// The rate as a share of the session's limit.
        load: f64,
    },
}

/// The TCP of the hosts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// A TCP of today: CUBIC, with buffers for the longest path here.
    Cubic,
    /// The paper's TCP: NewReno without window scaling, so at most 64 KB in flight, without
    /// timestamps, and with a minimum RTO of 1 s.
    Seed,
    /// The paper's TCP with window scaling and ns-3's default buffers.
    SeedScaled,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Seed => "paper",
            Self::SeedScaled => "paper-scaled",
        }
    }

    fn draws(self) -> &'static str {
        match self {
            Self::Cubic => "Cubic",
            Self::Seed => "Seed",
            Self::SeedScaled => "SeedScaled",
        }
    }

    /// The parameters of this TCP when a full packet has `packet` octets.
    pub(crate) fn config(self, packet: usize) -> tcp::Config {
        // The announced MSS includes options (RFC 9293, 3.7.1).
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
                // As in Linux, the deviation's part of the RTO is never below the minimum RTO.
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

impl Wire {
    fn draws(self) -> String {
        let Self { rate, delay } = self;
        let rate = match rate {
            BitRate::PerSecond(rate) => format!("PerSecond({rate})"),
            BitRate::Unlimited => "Unlimited".to_owned(),
        };
        format!("Wire {{ rate: {rate}, delay: {delay:?} }}")
    }
}

impl Carrier {
    fn draws(&self) -> String {
        match self {
            Self::Coded(config) => format!("Coded({})", draws_of_tunnel(config)),
            Self::Plain => "Plain".to_owned(),
            Self::TcpNc => "TcpNc".to_owned(),
            Self::TcpNcTunnel { min_rto } => format!("TcpNcTunnel {{ min_rto: {min_rto:?} }}"),
            Self::TcpNcTunnelWith { min_rto, layer } => {
                let layer = draws_of_layer(layer);
                format!("TcpNcTunnelWith {{ min_rto: {min_rto:?}, layer: {layer} }}")
            }
            Self::TcpNcWith(layer) => format!("TcpNcWith({})", draws_of_layer(layer)),
        }
    }
}

fn draws_of_tunnel(config: &nc::Config) -> String {
    let nc::Config {
        base_mtu,
        max_mtu,
        overhead,
        deadline,
        patience,
        queue,
        window,
        max_rate,
        compress_headers,
        copy_dscp,
        dead_after,
    } = config;
    // The text draws the seeds, so an absent deadline is written as the former default.
    let deadline = deadline.unwrap_or(Duration::from_secs(2));
    format!(
        "Config {{ base_mtu: {base_mtu}, max_mtu: {max_mtu}, overhead: {overhead}, deadline: {deadline:?}, \
         patience: {patience:?}, queue: {queue}, window: {window}, max_rate: {max_rate:?}, \
         compress_headers: {compress_headers}, copy_dscp: {copy_dscp}, dead_after: {dead_after:?} }}"
    )
}

fn draws_of_layer(layer: &tcpnc::Config) -> String {
    let tcpnc::Config {
        protocol,
        extra,
        window,
        target,
        max_window,
        initial_loss,
        period,
        gain,
        enhanced_retransmission,
        repair_target,
        max_burst,
        flush_after,
        acknowledges_redundancy,
        max_packets,
        receive_buffer,
    } = layer;
    format!(
        "Config {{ protocol: {protocol}, extra: {extra}, window: {window:?}, target: {target:?}, \
         max_window: {max_window}, initial_loss: {initial_loss:?}, period: {period}, gain: {gain:?}, \
         enhanced_retransmission: {enhanced_retransmission}, repair_target: {repair_target:?}, \
         max_burst: {max_burst}, flush_after: {flush_after:?}, \
         acknowledges_redundancy: {acknowledges_redundancy}, max_packets: {max_packets}, \
         receive_buffer: {receive_buffer} }}"
    )
}

fn draws_of_loss(loss: &Loss) -> String {
    let of = |share: Probability| format!("Probability({:?})", share.get());
    match loss {
        Loss::None => "None".to_owned(),
        Loss::Random(share) => format!("Random({})", of(*share)),
        Loss::GilbertElliott(GilbertElliott { p, r, h, k }) => {
            let [p, r, h, k] = [*p, *r, *h, *k].map(of);
            format!("GilbertElliott(GilbertElliott {{ p: {p}, r: {r}, h: {h}, k: {k} }})")
        }
        Loss::Fades(_) | Loss::Trace(_) => loss.to_string(),
    }
}

/// What a link loses in the mean, and in bursts of what length if it loses in bursts.
fn lost(loss: &Loss) -> String {
    let mean = rounded(loss.mean());
    match loss {
        Loss::GilbertElliott(bursts) => format!("{mean}/{}", rounded(1.0 / bursts.r.get())),
        Loss::Fades(_) | Loss::None | Loss::Random(_) | Loss::Trace(_) => mean.to_string(),
    }
}

impl Name {
    /// The parameters of a coding layer that are not the usual ones.
    fn tcpnc(self, layer: &tcpnc::Config) -> Self {
        self.parameters("tcpnc", &tcpnc::PARAMETERS, &tcpnc::Config::default(), layer)
    }
}

impl Network {
    /// The topology of the paper's Figure 6, section IV.
    pub(crate) fn paper(sessions: usize, loss: Loss, carrier: Carrier) -> Self {
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

    /// The long path: 10 Mbit/s, a bandwidth-delay product of 500 packets of 1,500 octets, and one saturated session
    /// with packets that fill the tunnel's packets.
    pub(crate) fn long(loss: Loss, carrier: Carrier) -> Self {
        const RATE: u64 = 10_000_000;
        const OUTER: usize = 1_500;
        let middle = bits_per_s(RATE);
        Self {
            edge: Wire { rate: BitRate::Unlimited, delay: Duration::ZERO },
            middle: Wire { rate: middle, delay: middle.time_for(OUTER) * 250 },
            queue: 500,
            packet: LONG_PACKET,
            traffic: Traffic::Udp { load: 0.95 },
            ..Self::paper(1, loss, carrier)
        }
    }

    /// The part of a cell's name that names this network.
    pub(crate) fn name(&self) -> Name {
        let usual = Self::paper(self.sessions, Loss::None, Carrier::Plain);
        let name = Name::of("network").with("sessions", self.sessions);
        let name = name.with("loss", lost(&self.loss));
        let name = name.unless("back.loss", lost(&self.loss_back), lost(&usual.loss_back));
        let name = match &self.carrier {
            Carrier::Coded(config) => {
                let usual = nc::Config::default();
                name.with("carrier", "tunnel").parameters("tunnel", &nc::PARAMETERS, &usual, config)
            }
            Carrier::Plain => name.with("carrier", "plain"),
            Carrier::TcpNc => name.with("carrier", "tcpnc"),
            Carrier::TcpNcTunnel { min_rto } => {
                name.with("carrier", "tcpnc-tunnel").with("min-rto", Span(*min_rto))
            }
            Carrier::TcpNcTunnelWith { min_rto, layer } => {
                name.with("carrier", "tcpnc-tunnel").with("min-rto", Span(*min_rto)).tcpnc(layer)
            }
            Carrier::TcpNcWith(layer) => name.with("carrier", "tcpnc").tcpnc(layer),
        };
        let name = match self.traffic {
            Traffic::Tcp(kind) => name.with("tcp", kind.name()),
            Traffic::Udp { load } => name.with("udp", rounded(load)),
        };
        let name = match self.rival {
            Some(rival) => name.with("rival", rival.name()),
            None => name,
        };
        let name = name.unless("edge.rate", self.edge.rate, usual.edge.rate);
        let name = name.unless("edge.delay", Span(self.edge.delay), Span(usual.edge.delay));
        let name = name.unless("middle.rate", self.middle.rate, usual.middle.rate);
        let name = name.unless("middle.delay", Span(self.middle.delay), Span(usual.middle.delay));
        let name = name.unless("queue", self.queue, usual.queue);
        let name = name.unless("packet", self.packet, usual.packet);
        let name = name.unless("trace-points", self.trace_points, usual.trace_points);
        let name = name.when(self.is_hidden, "hidden").when(self.is_both_ways, "both-ways");
        name.when(self.has_requests, "requests")
    }

    /// The part of a cell's label that stands for this network: see [`crate::grid::Cell::new`].
    pub(crate) fn draws(&self) -> String {
        let Self { sessions, edge, middle, loss, loss_back, queue, packet, .. } = self;
        let Self { is_hidden, is_both_ways, has_requests, trace_points, carrier, .. } = self;
        let [edge, middle] = [edge.draws(), middle.draws()];
        let [loss, loss_back] = [loss, loss_back].map(draws_of_loss);
        let traffic = match self.traffic {
            Traffic::Tcp(kind) => format!("Tcp({})", kind.draws()),
            Traffic::Udp { load } => format!("Udp {{ load: {load:?} }}"),
        };
        let rival = self.rival.map_or("None".to_owned(), |it| format!("Some({})", it.draws()));
        format!(
            "Network {{ sessions: {sessions}, edge: {edge}, middle: {middle}, loss: {loss}, loss_back: {loss_back}, \
             queue: {queue}, packet: {packet}, is_hidden: {is_hidden}, is_both_ways: {is_both_ways}, \
             has_requests: {has_requests}, trace_points: {trace_points}, carrier: {}, traffic: {traffic}, \
             rival: {rival} }}",
            carrier.draws()
        )
    }

    /// Octets of application data in a full packet.
    pub(crate) fn payload(&self) -> usize {
        match self.traffic {
            Traffic::Tcp(Kind::Seed | Kind::SeedScaled) => self.packet - TCP_HEADERS,
            Traffic::Tcp(_) => self.packet - TCP_HEADERS - TIMESTAMPS,
            Traffic::Udp { .. } => self.packet - UDP_HEADERS,
        }
    }

    /// Octets of a full packet on the middle link, with the tunnel's headers.
    pub(crate) fn outer(&self) -> usize {
        match self.carrier {
            Carrier::Coded(config) => {
                let saved = if config.compress_headers { self.saved() } else { 0 };
                self.packet + config.overhead + TUNNEL_HEADER - saved
            }
            // The limit does not allow for the headers of the paper's schemes.
            Carrier::Plain
            | Carrier::TcpNc
            | Carrier::TcpNcTunnel { .. }
            | Carrier::TcpNcTunnelWith { .. }
            | Carrier::TcpNcWith(_) => self.packet,
        }
    }

    /// Octets by which a packet in the tunnel is shorter with compressed headers. Here the
    /// identification is always zero, and the acknowledgement in a segment with data.
    fn saved(&self) -> usize {
        match self.traffic {
            Traffic::Tcp(Kind::Seed | Kind::SeedScaled) => 33,
            Traffic::Tcp(_) => 41,
            Traffic::Udp { .. } => 27,
        }
    }

    /// The highest goodput of a session, in bit/s: the rate of its edge or its share of the middle link's throughput,
    /// if less. All headers are subtracted, including ours, and with data both ways also the acknowledgements of the
    /// opposite direction.
    pub(crate) fn limit(&self) -> f64 {
        self.limit_with(self.outer())
    }

    /// [`Self::limit`] with our headers not subtracted: what the links alone allow.
    pub(crate) fn links_limit(&self) -> f64 {
        self.limit_with(self.packet)
    }

    /// [`Self::limit`] for packets of `outer` octets on the middle link.
    fn limit_with(&self, outer: usize) -> f64 {
        let payload = self.payload() as f64;
        let share = (1.0 - self.loss.mean()) / self.sessions as f64;
        let acks = if self.is_both_ways { ACKS } else { 0 };
        let edge = rate_of(self.edge.rate) * payload / (self.packet + acks) as f64;
        let middle = rate_of(self.middle.rate) * share * payload / (outer + acks) as f64;
        edge.min(middle)
    }

    /// The least time that a packet needs from entering the tunnel to leaving it.
    pub(crate) fn transit(&self, octets: usize) -> Duration {
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

//! Two hosts, each behind a station, and a transfer from one to the other by TCP: end to end over
//! IP Client, or ended at the stations by HF-PEP.
//!
//! ```text
//!  host ── LAN ── gateway ~~~ HF ~~~ gateway ── LAN ── host
//!  sender         IpClient, Node     Node, IpClient    sink, which confirms
//!                 or HfPep           or HfPep
//! ```
//!
//! The stations had a link half an hour before, so they know each other's extensions. That link is
//! down again when the transfer begins.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::quantity::BitRate;
use base::time::Time;
use hf::hfpep;
use hf::modem::Waveform;
use hf::s5066::cas::Access;
use hf::s5066::node::{self, Record};
use hf::s5066::sis::Mode;
use hf::slep;
use sim::app::transfer::{self, SenderStats};
use sim::hf::Channel;
use sim::{
    AppId, HfId, HfStation, InterfaceConfig, LinkConfig, NodeId, PepConfig, Prefix, World, channel,
};

use super::radio;
use crate::tcp::as_linux;

const PORT: u16 = 5_001;
/// The port for an octet that lets the stations learn each other's extensions.
const FIRST_PORT: u16 = 5_002;
/// The begin of the transfer, from which all times count.
pub(crate) const BEGIN: Time = Time::from_nanos(1_800 * 1_000_000_000);

/// A transfer over a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The waveform of both stations.
    pub waveform: Waveform,
    /// The channel between the stations.
    pub channel: Channel,
    /// The time from the command to transmit until the preamble, at both stations.
    pub key_up: Duration,
    /// What carries TCP between the stations.
    pub carrier: Carrier,
    /// How the IP clients send.
    pub mode: Mode,
    /// How the stations share the frequency.
    pub is_slotted: bool,
    /// Octets to be transferred.
    pub octets: u64,
    /// Octets of the sender's socket buffer.
    pub send_buffer: usize,
    /// The time after which the transfer is given up.
    pub limit: Duration,
}

/// What carries TCP between stations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Carrier {
    /// An HF-PEP at each station.
    HfPep {
        /// How long a connection waits for its first data.
        first_data: Duration,
        /// Whether both directions are compressed where that helps.
        is_compressed: bool,
    },
    /// The IP clients, like all else.
    IpClient,
}

/// The outcome of a transfer; times count from its begin, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// When the connection was established: with an HF-PEP that to the target, as the sender's is
    /// established at once.
    pub connect_s: Option<f64>,
    /// When the last octet had arrived.
    pub delivered_s: Option<f64>,
    /// When the confirmation had arrived.
    pub total_s: Option<f64>,
    /// When both ends had closed, which is waited for with an HF-PEP.
    pub closed_s: Option<f64>,
    /// The time of the last octet from the sender's TCP to its delivery.
    pub latency_s: Option<f64>,
    /// The counters of the sender's TCP.
    pub tcp: tcp::Stats,
}

impl Link {
    /// Runs the transfer.
    #[must_use]
    pub fn run(&self, seed: u64) -> Transfer {
        let mut built = self.build(seed);
        built.run(self.limit);
        built.transfer()
    }

    /// The records of both stations.
    #[must_use]
    pub fn exchange(&self, seed: u64) -> Vec<(String, Vec<Record>)> {
        let mut built = self.build(seed);
        built.world.run_until(BEGIN);
        built.world.record_hf(built.hf);
        built.run(self.limit);
        records(&mut built.world, built.hf, BEGIN)
    }

    fn build(&self, seed: u64) -> Built {
        let Network { mut world, hf, hosts: [a, b], addresses: [_, to], tcp } = self.network(seed);
        let sink = transfer::SinkConfig {
            tcp,
            confirm: Some(self.octets),
            ..transfer::SinkConfig::new(PORT)
        };
        let sink = world.add_app(b, transfer::Sink::new(sink));
        let sender = transfer::SenderConfig {
            tcp,
            start: BEGIN,
            close: transfer::Close::Answered,
            ..transfer::SenderConfig::new(SocketAddr::new(to, PORT), self.octets)
        };
        let sender = world.add_app(a, transfer::Sender::new(sender));
        Built { world, hf, sender, sink, carrier: self.carrier }
    }

    /// The hosts and their stations, which learn each other's extensions before [`BEGIN`].
    pub(crate) fn network(&self, seed: u64) -> Network {
        let mut world = World::new(seed);
        let [a, near, far, b] =
            ["sender", "near", "far", "receiver"].map(|name| world.add_node(name));
        let lan = lan();
        world.connect(a, near, &lan);
        world.connect(far, b, &lan);
        world.auto_routes();
        let [from, to] =
            [a, b].map(|host| world.address(host).expect("a host on a LAN has an address"));
        let places = [(near, from), (far, to)].into_iter().zip(0_u8..);
        let stations = places.map(|((host, behind), position)| {
            let mut station = HfStation::new(host, self.station(position));
            station.behind = vec![Prefix::host(behind)];
            station.client.set_unicast(self.mode);
            station.pep = self.pep();
            station
        });
        let hf = world.add_hf(radio::air(self.channel, self.key_up), stations.collect());
        world.route(a, Prefix::host(to), near, 0);
        world.route(b, Prefix::host(from), far, 0);

        let send_buffer = self.send_buffer;
        let tcp = tcp::Config { send_buffer, ..as_linux(tcp::Config::default()) };
        let first = transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(FIRST_PORT) };
        world.add_app(b, transfer::Sink::new(first));
        let first = transfer::SenderConfig {
            tcp,
            ..transfer::SenderConfig::new(SocketAddr::new(to, FIRST_PORT), 1)
        };
        world.add_app(a, transfer::Sender::new(first));
        Network { world, hf, hosts: [a, b], addresses: [from, to], tcp }
    }

    /// The node of the station with this number.
    pub(crate) fn station(&self, position: u8) -> node::Config {
        let mut config = radio::station(u32::from(position) + 1, self.waveform, self.key_up);
        if self.is_slotted {
            config.access = Access::Slotted { position, stations: 2 };
        }
        config
    }

    /// The HF-PEP of each station, if the carrier is HF-PEP.
    fn pep(&self) -> Option<PepConfig> {
        let Carrier::HfPep { first_data, is_compressed } = self.carrier else { return None };
        let options = slep::Options { is_compressed, ..slep::Options::default() };
        Some(PepConfig {
            core: hfpep::Config { first_data, answers: options, ..hfpep::Config::default() },
            options,
            tcp: as_linux(tcp::Config::default()),
        })
    }
}

/// Two hosts and their stations, which know each other and have nothing to do from [`BEGIN`] on.
pub(crate) struct Network {
    pub world: World,
    pub hf: HfId,
    pub hosts: [NodeId; 2],
    /// Of the hosts.
    pub addresses: [IpAddr; 2],
    /// Of both hosts.
    pub tcp: tcp::Config,
}

/// A network at work.
pub(crate) struct Built {
    pub world: World,
    pub hf: HfId,
    pub sender: AppId,
    pub sink: AppId,
    carrier: Carrier,
}

impl Built {
    fn run(&mut self, limit: Duration) {
        let Self { ref mut world, sender, carrier, .. } = *self;
        world.run(BEGIN + limit, |world| {
            let last = |stats: SenderStats| match carrier {
                Carrier::HfPep { .. } => stats.peer_closed,
                Carrier::IpClient => stats.answered,
            };
            let sent = world.transfer_sender(sender);
            sent.is_some_and(|stats| last(stats).is_some() || stats.ended.is_some())
        });
    }

    fn transfer(&self) -> Transfer {
        let sent = self.world.transfer_sender(self.sender).unwrap_or_default();
        let received = self.world.transfer_sink(self.sink).unwrap_or_default();
        let seconds = |at: Option<Time>| at.map(|at| at.since(BEGIN).as_secs_f64());
        let established = match self.carrier {
            Carrier::HfPep { .. } => received.established,
            Carrier::IpClient => sent.established,
        };
        let delivered = received.last.filter(|_| sent.answered.is_some());
        Transfer {
            connect_s: seconds(established),
            delivered_s: seconds(delivered),
            total_s: seconds(sent.answered),
            closed_s: seconds(sent.peer_closed),
            latency_s: delivered.zip(sent.written).map(|(to, from)| to.since(from).as_secs_f64()),
            tcp: sent.tcp,
        }
    }
}

/// The records of both stations since recording began; times count from `begin`.
pub(crate) fn records(world: &mut World, hf: HfId, begin: Time) -> Vec<(String, Vec<Record>)> {
    let mut stations = vec![("sender".to_owned(), vec![]), ("receiver".to_owned(), vec![])];
    while let Some(record) = world.poll_hf_record(hf) {
        stations[record.station.0].1.push(since(record.record, begin));
    }
    stations
}

/// A station's record with times that count from `begin`.
fn since(record: Record, begin: Time) -> Record {
    let since = |at: Time| Time::ZERO + at.since(begin);
    match record {
        Record::Heard { at, is_good, octets } => Record::Heard { at: since(at), is_good, octets },
        Record::Keyed { start, end, waveform } => {
            Record::Keyed { start: since(start), end: since(end), waveform }
        }
        Record::Sent { start, end, kind, octets } => {
            Record::Sent { start: since(start), end: since(end), kind, octets }
        }
    }
}

/// The LAN of a host and its gateway: no packet is lost there.
fn lan() -> LinkConfig {
    let channel = channel::Config {
        rate: BitRate::from_bits_per_s(100_000_000).expect("not zero"),
        delay: Duration::from_millis(1),
        ..channel::Config::default()
    };
    LinkConfig::symmetric(channel, InterfaceConfig { queue_packets: 8_192, ..Default::default() })
}

//! HF frequencies in a scenario: read, built, reported.

use std::collections::BTreeMap;
use std::ops::Range;

use proto::ipclient::{self, Transport};
use proto::modem::Waveform;
use proto::s5066::cas::Access;
use proto::s5066::parameters::{Choices, JITTER, Parameter, Unfit};
use proto::s5066::{Address, node};
use serde::{Deserialize, Serialize};
use sim::hf::{Channel, Config, StationId};
use sim::units::Span;
use sim::{HfId, HfStation, NodeId, Prefix, World};
use toml::Spanned;

use super::human::Human;

/// A frequency as it stands in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Said {
    pub(super) stations: Spanned<Vec<Spanned<String>>>,
    #[serde(default = "default_waveform")]
    pub(super) waveform: Human<Waveform>,
    #[serde(default)]
    pub(super) channel: Human<Channel>,
    #[serde(default)]
    pub(super) carry: Carry,
    /// Which nodes are reached through which station.
    #[serde(default)]
    pub(super) behind: BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
    access: Option<Sharing>,
    pub(super) jitter: Option<Spanned<Human<Span>>>,
    ack_copies: Option<Spanned<i64>>,
    calls: Option<Spanned<i64>>,
    exchange: Option<Spanned<Human<Span>>>,
    idle: Option<Spanned<Human<Span>>>,
    longest: Option<Spanned<Human<Span>>>,
    longest_beside_urgent: Option<Spanned<Human<Span>>>,
    switching: Option<Spanned<Human<Span>>>,
}

/// How stations are kept apart.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Sharing {
    /// A random wait before each turn.
    Jitter,
    /// They alternate.
    PointToPoint,
    /// Each has a slot, in the order of the file.
    Slotted,
}

/// How datagrams are carried.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Carry {
    /// Repeated until acknowledged, delivered in order.
    #[default]
    Arq,
    /// Repeated until acknowledged, delivered as they arrive.
    ArqAnyOrder,
    /// Sent once.
    NonArq,
}

/// Stations on a frequency at least and at most.
pub(super) const STATIONS: (usize, usize) = (2, 32);

/// A frequency, checked.
#[derive(Clone, Debug)]
pub(super) struct Frequency {
    pub(super) channel: Channel,
    pub(super) carry: Carry,
    pub(super) stations: Vec<Station>,
}

/// A station, checked.
#[derive(Clone, Debug)]
pub(super) struct Station {
    /// The node that it serves.
    pub(super) host: usize,
    /// The nodes behind that.
    pub(super) behind: Vec<usize>,
    pub(super) config: node::Config,
}

/// What a frequency saw.
#[derive(Clone, Debug, Serialize)]
pub struct FrequencyReport {
    /// The nodes of its stations.
    pub stations: Vec<String>,
    /// Blocks that a station received while another transmitted into them, counted at each listener.
    pub collided_blocks: u64,
    /// Transmissions that a station could not read because another hid their beginning, or it
    /// transmitted itself then; counted at each listener.
    pub unreadable: u64,
    /// Seconds after which a station that has something to send has its turn, at most.
    pub turn_bound_s: f64,
}

/// What a station on HF did.
#[derive(Clone, Debug, Serialize)]
pub struct HfReport {
    /// The node.
    pub node: String,
    /// Its address on HF.
    pub address: String,
    /// The waveform at the end.
    pub waveform: String,
    /// Times that it transmitted.
    pub transmissions: u64,
    /// Seconds for which its transmitter was on.
    pub keyed_s: f64,
    /// Octets of D_PDUs with data for the first time.
    pub data_octets: u64,
    /// Octets of D_PDUs with data again.
    pub repeat_octets: u64,
    /// Octets of D_PDUs with nothing but an acknowledgement.
    pub ack_octets: u64,
    /// Octets of D_PDUs for links, management, resets and warnings.
    pub control_octets: u64,
    /// Octets that filled blocks.
    pub padding_octets: u64,
    /// IP packets taken.
    pub packets_in: u64,
    /// Of those, dropped: no room, too long, too old, or the other station does not answer.
    pub dropped: u64,
    /// Of those, confirmed by the other station.
    pub confirmed: u64,
    /// IP packets that came over the air.
    pub packets_out: u64,
}

impl Said {
    /// The parameters of the station in this place.
    pub(super) fn node(
        &self,
        address: Address,
        position: u8,
        stations: u8,
    ) -> Result<node::Config, Unfit> {
        let mut config = node::Config::new(address, self.waveform.0);
        config.access = match self.sharing(stations) {
            Sharing::Jitter => {
                let limit = self.jitter.as_ref().map_or(JITTER, |said| said.get_ref().0.0);
                Access::Jitter { limit }
            }
            Sharing::PointToPoint => Access::PointToPoint,
            Sharing::Slotted => Access::Slotted { position, stations },
        };
        self.choices().apply(&mut config)?;
        Ok(config)
    }

    /// The limit of random waits, where there are none.
    pub(super) fn stray_jitter(&self) -> Option<&Spanned<Human<Span>>> {
        self.jitter.as_ref().filter(|_| self.access != Some(Sharing::Jitter))
    }

    fn sharing(&self, stations: u8) -> Sharing {
        let usual = if stations > 2 { Sharing::Slotted } else { Sharing::PointToPoint };
        self.access.unwrap_or(usual)
    }

    fn choices(&self) -> Choices {
        let period = |said: &Option<Spanned<Human<Span>>>| Some(said.as_ref()?.get_ref().0.0);
        let number = |said: &Option<Spanned<i64>>| Some(*said.as_ref()?.get_ref());
        Choices {
            ack_copies: number(&self.ack_copies),
            calls: number(&self.calls),
            exchange: period(&self.exchange),
            idle: period(&self.idle),
            longest: period(&self.longest),
            longest_beside_urgent: period(&self.longest_beside_urgent),
            switching: period(&self.switching),
        }
    }

    /// Where a parameter stands in the file.
    pub(super) fn place(&self, parameter: Parameter) -> Range<usize> {
        let of_period = |said: &Option<Spanned<Human<Span>>>| Some(said.as_ref()?.span());
        let of_number = |said: &Option<Spanned<i64>>| Some(said.as_ref()?.span());
        let place = match parameter {
            Parameter::AckCopies => of_number(&self.ack_copies),
            Parameter::Calls => of_number(&self.calls),
            Parameter::Exchange => of_period(&self.exchange),
            Parameter::Idle => of_period(&self.idle),
            Parameter::Longest => of_period(&self.longest),
            Parameter::LongestBesideUrgent => of_period(&self.longest_beside_urgent),
            Parameter::Switching => of_period(&self.switching),
        };
        place.unwrap_or_else(|| self.stations.span())
    }
}

impl Frequency {
    /// Builds it; `prefixes` tells the addresses of a node of the plan.
    pub(super) fn build(
        &self,
        world: &mut World,
        nodes: &[NodeId],
        prefixes: impl Fn(&World, usize) -> Vec<Prefix>,
    ) -> HfId {
        let stations = self.stations.iter().map(|Station { host, behind, config }| {
            let mut station = HfStation::new(nodes[*host], config.clone());
            station.client = self.client();
            let reached = std::iter::once(host).chain(behind);
            station.behind = reached.flat_map(|node| prefixes(world, *node)).collect();
            station
        });
        let stations = stations.collect();
        let config = Config { channel: self.channel, ..Config::default() };
        world.add_hf(config, stations)
    }

    fn client(&self) -> ipclient::Config {
        let mut client = ipclient::Config::new(Vec::new());
        client.set_unicast(match self.carry {
            Carry::Arq => Transport::Arq { in_order: true },
            Carry::ArqAnyOrder => Transport::Arq { in_order: false },
            Carry::NonArq => Transport::NonArq { repeats: 0 },
        });
        client
    }
}

impl FrequencyReport {
    /// What the frequency saw, whose stations serve the nodes of these names.
    pub(super) fn new(world: &World, hf: HfId, planned: &Frequency, names: Vec<String>) -> Self {
        let medium = world.hf_medium(hf);
        let stations = || (0..planned.stations.len()).map(StationId);
        let paths = stations().flat_map(|from| stations().map(move |to| (from, to)));
        let bounds = planned.stations.iter().map(|station| station.config.turn_bound());
        Self {
            stations: names,
            collided_blocks: paths
                .map(|(from, to)| medium.path_stats(from, to).collided_blocks)
                .sum(),
            unreadable: stations().map(|station| medium.stats(station).unreadable).sum(),
            turn_bound_s: bounds.max().unwrap_or_default().as_secs_f64(),
        }
    }

    pub(super) const HEAD: [&'static str; 4] =
        ["stations", "collided blocks", "unreadable transmissions", "turn within"];

    pub(super) fn row(&self) -> Vec<String> {
        vec![
            self.stations.join(", "),
            self.collided_blocks.to_string(),
            self.unreadable.to_string(),
            format!("{:.1} s", self.turn_bound_s),
        ]
    }
}

impl HfReport {
    /// What the station of this name did.
    pub(super) fn new(world: &World, hf: HfId, station: StationId, node: &str) -> Self {
        let stack = world.hf_node(hf, station);
        let (stats, client) = (stack.stats(), world.hf_client(hf, station).stats());
        Self {
            node: node.to_owned(),
            address: stack.address().to_string(),
            waveform: stack.waveform().to_string(),
            transmissions: stats.transmissions,
            keyed_s: stats.keyed_nanos as f64 / 1e9,
            data_octets: stats.sent.data.octets,
            repeat_octets: stats.sent.repeat.octets,
            ack_octets: stats.sent.ack.octets,
            control_octets: stats.sent.control.octets,
            padding_octets: stats.sent.padding.octets,
            packets_in: client.packets_in,
            dropped: client.malformed
                + client.no_route
                + client.too_big
                + client.queue_full
                + client.expired
                + client.unreachable
                + client.refused
                + client.forsaken,
            confirmed: client.confirmed,
            packets_out: client.packets_out,
        }
    }

    pub(super) const HEAD: [&'static str; 9] =
        ["station", "on air", "turns", "data", "again", "acks", "control", "packets", "dropped"];

    pub(super) fn row(&self) -> Vec<String> {
        let counts = [
            self.transmissions,
            self.data_octets,
            self.repeat_octets,
            self.ack_octets,
            self.control_octets,
            self.packets_in,
            self.dropped,
        ];
        let mut row = vec![self.node.clone(), format!("{:.1} s", self.keyed_s)];
        row.extend(counts.map(|count| count.to_string()));
        row
    }
}

fn default_waveform() -> Human<Waveform> {
    Human("9600/short".parse().expect("a waveform of the catalogue"))
}

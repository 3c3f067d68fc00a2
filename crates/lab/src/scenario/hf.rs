//! HF frequencies in a scenario: read, built, reported.

use std::collections::BTreeMap;

use proto::ipclient::{self, Transport};
use proto::modem::Waveform;
use proto::s5066::cas::Access;
use proto::s5066::{Address, node};
use serde::{Deserialize, Serialize};
use sim::hf::{Channel, Config, StationId};
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
    pub(super) waveform: Waveform,
    pub(super) channel: Channel,
    pub(super) carry: Carry,
    /// Each station's node, and the nodes behind it.
    pub(super) stations: Vec<(usize, Vec<usize>)>,
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

impl Frequency {
    /// Builds it; `prefixes` tells the addresses of a node of the plan.
    pub(super) fn build(
        &self,
        world: &mut World,
        nodes: &[NodeId],
        first_address: u32,
        prefixes: impl Fn(&World, usize) -> Vec<Prefix>,
    ) -> HfId {
        let count = u8::try_from(self.stations.len()).unwrap_or(u8::MAX);
        let stations = (0_u8..).zip(&self.stations).map(|(position, (host, behind))| {
            let address = Address::node(first_address + u32::from(position));
            let mut config = node::Config::new(address, self.waveform);
            if count > 2 {
                config.access = Access::Slotted { position, stations: count };
            }
            let mut station = HfStation::new(nodes[*host], config);
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

impl HfReport {
    /// What the station of this name did.
    pub(super) fn new(world: &World, hf: HfId, station: StationId, node: &str) -> Self {
        let stack = world.hf(hf).node(station);
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

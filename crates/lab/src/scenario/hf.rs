//! HF frequencies in a scenario: read, built, reported.

use std::ops::RangeFrom;

use base::parameter::{Description, Value};
use hf::ipclient;
use hf::s5066::cas::Access;
use hf::s5066::node::PARAMETERS;
use hf::s5066::{Address, node};
use serde::Serialize;
use settings::{Complaint, Section};
use sim::hf::{Channel, Config, StationId, Timing};
use sim::{HfId, HfStation, NodeId, Prefix, World};

use super::names::Reader;

/// A frequency, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frequency {
    pub channel: Channel,
    /// How the stations carry IP.
    pub client: ipclient::Config,
    pub stations: Vec<Station>,
}

/// A station, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    /// The node that it serves.
    pub host: usize,
    /// The nodes behind that.
    pub behind: Vec<usize>,
    pub config: node::Config,
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
    /// The longest time before a station with data has its turn, in seconds.
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
    /// Seconds of transmission by the station.
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
    /// Taken packets confirmed by the other station.
    pub confirmed: u64,
    /// IP packets that came over the air.
    pub packets_out: u64,
}

/// Stations on a frequency at least and at most.
const STATIONS: (usize, usize) = (2, 32);
/// The waveform unless given.
const WAVEFORM: &str = "9600/short";
/// Keys that once were called otherwise.
const RENAMED: [(&str, &str); 1] = [("carry", "ipclient.unicast")];

impl Frequency {
    /// Reads it; `addresses` are those that are free on HF.
    pub(crate) fn read(
        section: &Section<'_>,
        reader: &Reader<'_>,
        addresses: &mut RangeFrom<u32>,
    ) -> Result<Self, Complaint> {
        section.refuse_moved(&RENAMED)?;
        let names = section.needed("stations")?;
        let (least, most) = STATIONS;
        let count = names.list()?.len();
        if !(least..=most).contains(&count) {
            let what = format!("{count} stations; allowed are {least} to {most}");
            return Err(names.complain(what));
        }
        let mut stations: Vec<Station> = Vec::new();
        for (name, address) in names.list()?.iter().zip(addresses) {
            let host = reader.node(name)?;
            if stations.iter().any(|other| other.host == host) {
                return Err(name.complain("a node is one station of a frequency"));
            }
            let config = station(section, Address::node(address), stations.len(), count)?;
            stations.push(Station { host, behind: Vec::new(), config });
        }
        for entry in section.section("behind")?.map(|it| it.entries()).unwrap_or_default() {
            let host = reader.named(entry.name(), |what| entry.complain_of_key(what))?;
            let Some(station) = stations.iter_mut().find(|other| other.host == host) else {
                let what = format!("\"{}\" is no station of this frequency", entry.name());
                return Err(entry.complain_of_key(what));
            };
            for node in entry.list()? {
                station.behind.push(reader.linked_node(&node)?);
            }
        }
        let channel = match section.get("channel")? {
            Some(channel) => channel.quantity()?,
            None => Channel::default(),
        };
        let mut client = ipclient::Config::new(Vec::new());
        if let Some(section) = section.section("ipclient")? {
            section.apply(&ipclient::PARAMETERS, &mut client)?;
        }
        Ok(Self { channel, client, stations })
    }

    /// The parameters to write for the frequency, shared by all stations.
    pub(crate) fn differences(&self) -> Vec<(String, Value)> {
        let client = ipclient::PARAMETERS
            .differences(&ipclient::Config::new(Vec::new()), &self.client)
            .into_iter()
            .map(|(name, value)| (format!("ipclient.{name}"), value));
        let station = self.stations.first().map(|first| {
            let usual = usual(first.config.address, 0, self.stations.len());
            PARAMETERS.differences(&usual, &first.config)
        });
        let station = station.into_iter().flatten();
        station.map(|(name, value)| (name.to_owned(), value)).chain(client).collect()
    }

    /// Builds it; `prefixes` tells the addresses of a node of the plan.
    pub(crate) fn build(
        &self,
        world: &mut World,
        nodes: &[NodeId],
        prefixes: impl Fn(&World, usize) -> Vec<Prefix>,
    ) -> HfId {
        let stations = self.stations.iter().map(|Station { host, behind, config }| {
            let mut station = HfStation::new(nodes[*host], config.clone());
            station.client = self.client.clone();
            let reached = std::iter::once(host).chain(behind);
            station.behind = reached.flat_map(|node| prefixes(world, *node)).collect();
            station
        });
        let stations = stations.collect();
        let config = Config { channel: self.channel, ..Config::default() };
        world.add_hf(config, stations)
    }
}

/// The parameters of the station in this place.
fn station(
    section: &Section<'_>,
    address: Address,
    position: usize,
    count: usize,
) -> Result<node::Config, Complaint> {
    let mut config = usual(address, position, count);
    section.apply(&PARAMETERS, &mut config)?;
    if let Access::Slotted { .. } = config.access {
        config.access = slotted(position, count);
    }
    Ok(config)
}

/// The parameters of a station, as documentation and editors have them.
pub fn station_parameters() -> Description {
    PARAMETERS.describe(&[("[[hf]]", usual(Address::node(1), 0, STATIONS.0))])
}

/// The usual configuration of a station, for a file without parameters.
fn usual(address: Address, position: usize, count: usize) -> node::Config {
    let waveform = WAVEFORM.parse().expect("one of the catalogue");
    let mut config = Timing::default().station(address, waveform);
    if count > 2 {
        config.access = slotted(position, count);
    }
    config
}

fn slotted(position: usize, count: usize) -> Access {
    let number = |count: usize| u8::try_from(count).unwrap_or(u8::MAX);
    Access::Slotted { position: number(position), stations: number(count) }
}

impl FrequencyReport {
    /// Counters of the frequency; `names` are the nodes of its stations.
    pub(crate) fn new(world: &World, hf: HfId, planned: &Frequency, names: Vec<String>) -> Self {
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

    pub(crate) const HEAD: [&'static str; 4] =
        ["stations", "collided blocks", "unreadable transmissions", "turn within"];

    pub(crate) fn row(&self) -> Vec<String> {
        vec![
            self.stations.join(", "),
            self.collided_blocks.to_string(),
            self.unreadable.to_string(),
            format!("{:.1} s", self.turn_bound_s),
        ]
    }
}

impl HfReport {
    /// Counters of the station at node `node`.
    pub(crate) fn new(world: &World, hf: HfId, station: StationId, node: &str) -> Self {
        let stack = world.hf_node(hf, station);
        let (stats, client) = (stack.stats(), world.hf_client(hf, station).stats());
        Self {
            node: node.to_owned(),
            address: stack.address().to_string(),
            waveform: stack.waveform().to_string(),
            transmissions: stats.transmissions,
            keyed_s: stats.keyed.as_nanos() as f64 / 1e9,
            data_octets: stats.sent.data.octets,
            repeat_octets: stats.sent.repeat.octets,
            ack_octets: stats.sent.ack.octets,
            control_octets: stats.sent.control.octets,
            padding_octets: stats.sent.padding.octets,
            packets_in: client.taken.packets_in,
            dropped: client.taken.malformed
                + client.taken.no_route
                + client.taken.too_big
                + client.taken.queue_full
                + client.taken.expired
                + client.handed.unreachable
                + client.handed.refused
                + client.handed.forsaken,
            confirmed: client.handed.confirmed,
            packets_out: client.received.packets_out,
        }
    }

    pub(crate) const HEAD: [&'static str; 9] =
        ["station", "on air", "turns", "data", "again", "acks", "control", "packets", "dropped"];

    pub(crate) fn row(&self) -> Vec<String> {
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

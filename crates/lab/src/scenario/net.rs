//! Combat nets in a scenario: read, written, built, reported.

use std::fmt::{self, Formatter};

use base::parameter::Written;
use base::quantity::UNCLEAR;
use serde::Serialize;
use settings::{Complaint, Entry, Section};
use sim::cnr::{self, Hearing, StationId};
use sim::mobility::Motion;
use sim::{CnrId, NodeId, World};

use super::names::{self, Reader};
use super::plan::{Net, Node};

/// What happened on a net.
#[derive(Clone, Debug, Serialize)]
pub struct NetReport {
    /// What it is called.
    pub name: String,
    /// The share of time in which stations sensed a busy net, as the mean over all stations.
    pub busy: f64,
    /// The stations, in the order of the file.
    pub stations: Vec<NetStationReport>,
}

/// Counters of a station.
#[derive(Clone, Debug, Serialize)]
pub struct NetStationReport {
    /// The node.
    pub node: String,
    /// Transmissions by the station, without answers of type 3.
    pub transmissions: u64,
    /// Frames with packets that it transmitted, repeats included.
    pub frames: u64,
    /// Of those, repeats.
    pub repeats: u64,
    /// Acknowledgements that it transmitted.
    pub acks: u64,
    /// Topology updates that it transmitted.
    pub updates: u64,
    /// Packets received for the node.
    pub received: u64,
    /// Packets received to be passed on.
    pub relayed: u64,
    /// Transmissions of others missed because of a third transmission, or of the station's own.
    pub collisions: u64,
    /// Frames for the station that noise destroyed.
    pub lost: u64,
    /// Packets given up after the last attempt.
    pub given_up: u64,
    /// Packets dropped because too many of their precedence waited: urgent, priority, routine.
    pub dropped: [u64; 3],
    /// Packets dropped because no way leads to their receiver.
    pub no_way: u64,
    /// Seconds for which it transmitted.
    pub keyed_s: f64,
}

/// Stations of a net at most: its link layer has no addresses for more.
pub const MAX_STATIONS: usize = 92;

impl Reader<'_> {
    /// The nets, and the nodes that are on them.
    pub(crate) fn nets(&mut self, root: &Section<'_>) -> Result<Vec<Net>, Complaint> {
        let mut nets = Vec::new();
        for section in root.sections("net")? {
            let net = self.net(&section)?;
            self.link(&net.stations);
            match &net.hearing {
                Hearing::Pairs(pairs) => {
                    for pair in pairs {
                        self.join(pair.map(|StationId(place)| net.stations[place]));
                    }
                }
                Hearing::All | Hearing::Places => self.join(net.stations.iter().copied()),
            }
            nets.push(net);
        }
        Ok(nets)
    }

    fn net(&self, section: &Section<'_>) -> Result<Net, Complaint> {
        let mut net = Net { name: names::name(section)?, ..Net::default() };
        section.apply(&cnr::PARAMETERS, &mut net.config)?;
        let loss = section.get("loss")?.filter(|it| it.written() == Written::Integer(1));
        if let Some(loss) = loss {
            return Err(loss.complain(UNCLEAR));
        }
        net.stations = self.stations(section, MAX_STATIONS)?;
        if let Some(hears) = section.get("hears")? {
            net.hearing = self.hearing(&hears, &net.stations)?;
        }
        Ok(net)
    }

    /// The nodes that `stations` lists, each once, or all nodes; at most `limit`.
    pub(super) fn stations(
        &self,
        section: &Section<'_>,
        limit: usize,
    ) -> Result<Vec<usize>, Complaint> {
        let mut nodes: Vec<usize> = Vec::new();
        match section.get("stations")? {
            None => nodes.extend(0..self.node_count()),
            Some(list) => {
                for name in list.list()? {
                    let node = self.node(&name)?;
                    if nodes.contains(&node) {
                        return Err(name.complain("this node is named twice: it is one station"));
                    }
                    nodes.push(node);
                }
            }
        }
        if nodes.is_empty() || nodes.len() > limit {
            let what = format!("{} stations; allowed are 1 to {limit}", nodes.len());
            return Err(section.complain(what));
        }
        Ok(nodes)
    }

    fn hearing(&self, hears: &Entry<'_>, stations: &[usize]) -> Result<Hearing, Complaint> {
        match hears.written() {
            Written::Text("all") => return Ok(Hearing::All),
            Written::Text("places") => return Ok(Hearing::Places),
            Written::List(_) => {}
            _ => {
                let what = "this is \"all\", \"places\", or a list of pairs of stations";
                return Err(hears.complain(what));
            }
        }
        let mut pairs = Vec::new();
        for pair in hears.list()? {
            let ends = pair.pair()?;
            let mut places = [StationId(0); 2];
            for (place, name) in places.iter_mut().zip(&ends) {
                let node = self.node(name)?;
                let Some(station) = stations.iter().position(|other| *other == node) else {
                    return Err(name.complain("this node is no station of the net"));
                };
                *place = StationId(station);
            }
            if places[0] == places[1] {
                return Err(pair.complain("a station does not hear itself"));
            }
            pairs.push(places);
        }
        Ok(Hearing::Pairs(pairs))
    }

    /// Complains about a node without a place in a net where places decide who hears whom.
    pub(crate) fn expect_places(
        root: &Section<'_>,
        nets: &[Net],
        nodes: &[Node],
    ) -> Result<(), Complaint> {
        for (section, net) in root.sections("net")?.iter().zip(nets) {
            if net.hearing != Hearing::Places {
                continue;
            }
            let mut own = net.stations.iter().map(|node| &nodes[*node]);
            if let Some(node) = own.find(|node| node.motion.is_none()) {
                return Err(section.complain(format!(
                    "node \"{}\" has neither position nor motion, by which this net has stations hear \
                     each other; [node.NAME] has them",
                    node.name
                )));
            }
        }
        Ok(())
    }
}

impl Net {
    /// Builds the net; `motions` are the motions of the nodes.
    pub(crate) fn build(
        &self,
        world: &mut World,
        nodes: &[NodeId],
        motions: &[Option<Motion>],
    ) -> CnrId {
        let id = world.add_cnr(self.config, self.hearing.clone());
        for node in &self.stations {
            let motion = motions[*node].clone();
            let motion = motion.unwrap_or_else(|| Motion::at_rest(Default::default()));
            world.add_cnr_station(id, nodes[*node], motion);
        }
        id
    }

    /// The table of a file.
    pub(crate) fn write(
        &self,
        f: &mut Formatter<'_>,
        name: impl Fn(usize) -> String,
    ) -> fmt::Result {
        let stations: Vec<String> = self.stations.iter().map(|it| name(*it)).collect();
        writeln!(f, "\n[[net]]\nstations = [{}]", stations.join(", "))?;
        if let Some(name) = &self.name {
            writeln!(f, "name = {name:?}")?;
        }
        match &self.hearing {
            Hearing::All => {}
            Hearing::Pairs(pairs) => {
                let end = |station: &StationId| name(self.stations[station.0]);
                let pairs = pairs.iter().map(|[a, b]| format!("[{}, {}]", end(a), end(b)));
                writeln!(f, "hears = [{}]", pairs.collect::<Vec<_>>().join(", "))?;
            }
            Hearing::Places => writeln!(f, "hears = \"places\"")?,
        }
        for (name, value) in cnr::PARAMETERS.differences(&cnr::Config::default(), &self.config) {
            writeln!(f, "{name} = {value}")?;
        }
        Ok(())
    }
}

impl NetStationReport {
    /// Counters of the station at node `node`.
    #[must_use]
    pub fn new(node: &str, stats: &cnr::Stats) -> Self {
        Self {
            node: node.to_owned(),
            transmissions: stats.transmissions,
            frames: stats.frames,
            repeats: stats.repeats,
            acks: stats.acks,
            updates: stats.updates,
            received: stats.received,
            relayed: stats.relayed,
            collisions: stats.collisions + stats.missed,
            lost: stats.residual_losses,
            given_up: stats.given_up,
            dropped: stats.dropped,
            no_way: stats.no_way + stats.too_long,
            keyed_s: stats.keyed.as_secs_f64(),
        }
    }
}

impl NetReport {
    /// Counters of net `id`; `names` are the nodes of its stations.
    pub(crate) fn new(world: &World, id: CnrId, planned: &Net, names: &[String]) -> Self {
        let (medium, now) = (world.cnr_medium(id), world.now());
        let name = planned.name.clone().unwrap_or_else(|| format!("net {}", id.index()));
        let stations = names
            .iter()
            .enumerate()
            .map(|(place, node)| NetStationReport::new(node, &medium.stats(now, StationId(place))));
        let lived = now.as_secs_f64() * names.len() as f64;
        let busy = medium.total(now).busy.as_secs_f64() / lived.max(f64::MIN_POSITIVE);
        Self { name, busy, stations: stations.collect() }
    }

    pub(crate) const HEAD: [&'static str; 12] = [
        "net",
        "node",
        "transmissions",
        "frames",
        "again",
        "acks",
        "received",
        "passed on",
        "collisions",
        "lost",
        "dropped",
        "keyed",
    ];

    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.stations.iter().map(|station| {
            let counts = [
                station.transmissions,
                station.frames,
                station.repeats,
                station.acks,
                station.received,
                station.relayed,
                station.collisions,
                station.lost,
                station.dropped.iter().sum::<u64>() + station.given_up + station.no_way,
            ];
            let mut row = vec![self.name.clone(), station.node.clone()];
            row.extend(counts.map(|count| count.to_string()));
            row.push(format!("{:.1} s", station.keyed_s));
            row
        })
    }
}

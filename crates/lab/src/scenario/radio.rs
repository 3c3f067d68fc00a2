//! Radio channels in a scenario: read, written, built, reported.

use std::collections::BTreeSet;
use std::fmt::{self, Formatter};
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use serde::Serialize;
use settings::{Complaint, Section};
use sim::channel::Outages;
use sim::mobility::{Motion, statistics};
use sim::radio::{self, StationId};
use sim::{Change, INTERFACE, InterfaceConfig, NodeId, PortId, QueueDiscipline, RadioId, World};

use super::link;
use super::motion::{Movement, Traces};
use super::names::{self, Reader};
use super::plan::{Node, Plan, Radio, Routing, Station};

/// What happened on a radio channel.
#[derive(Clone, Debug, Serialize)]
pub struct RadioReport {
    /// What it is called.
    pub name: String,
    /// The stations, in the order of the file.
    pub stations: Vec<StationReport>,
}

/// What a station counted. Frames are of its MAC.
#[derive(Clone, Debug, Serialize)]
pub struct StationReport {
    /// The node.
    pub node: String,
    /// Where it is at the end, in metres.
    pub position: [f64; 2],
    /// RTS frames sent.
    pub rts: u64,
    /// Data frames sent to one station, repeats included.
    pub data: u64,
    /// Frames sent to all.
    pub broadcasts: u64,
    /// Packets received.
    pub received: u64,
    /// RTS and data frames that were not answered.
    pub failures: u64,
    /// Packets given up after the last attempt.
    pub given_up: u64,
    /// Frames that others destroyed on their way to it.
    pub collisions: u64,
    /// Packets dropped before the radio because its queue was full.
    pub dropped: u64,
    /// The most packets that waited.
    pub longest_queue: usize,
    /// Seconds for which it transmitted or heard others.
    pub busy_s: f64,
}

/// Stations of a channel at most.
const MAX_STATIONS: usize = 1_000;

impl Reader<'_> {
    /// The channels, and the nodes that are on them.
    pub(crate) fn radios(
        &mut self,
        root: &Section<'_>,
        routing: &Routing,
    ) -> Result<Vec<Radio>, Complaint> {
        let mut radios = Vec::new();
        for section in root.sections("radio")? {
            let radio = self.radio(&section, routing)?;
            self.join(radio.stations.iter().map(|station| station.node));
            radios.push(radio);
        }
        Ok(radios)
    }

    fn radio(&self, section: &Section<'_>, routing: &Routing) -> Result<Radio, Complaint> {
        let mut radio = Radio::usual(routing);
        radio.name = names::name(section)?;
        section.apply(&radio::PARAMETERS, &mut radio.config)?;
        section.apply(&INTERFACE, &mut radio.interface)?;
        let nodes = self.stations(section, MAX_STATIONS)?;
        let station = |node| Station { node, off: Outages::default() };
        radio.stations = nodes.into_iter().map(station).collect();
        for entry in section.section("off")?.map(|it| it.entries()).unwrap_or_default() {
            let node = self.named(entry.name(), |what| entry.complain_of_key(what))?;
            let mut stations = radio.stations.iter_mut();
            let Some(station) = stations.find(|station| station.node == node) else {
                return Err(entry.complain_of_key("this node is no station of the channel"));
            };
            station.off = link::outages(&entry)?;
        }
        Ok(radio)
    }

    /// How nodes move, and when all radios of a node are off.
    pub(crate) fn motions(
        &self,
        root: &Section<'_>,
        nodes: &mut [Node],
        radios: &mut [Radio],
        traces: &mut Traces<'_>,
    ) -> Result<(), Complaint> {
        for entry in root.section("node")?.map(|it| it.entries()).unwrap_or_default() {
            let index = self.named(entry.name(), |what| entry.complain_of_key(what))?;
            let section = entry.section()?;
            nodes[index].motion = traces.movement(&section)?;
            let Some(off) = section.get("off")? else { continue };
            let outages = link::outages(&off)?;
            let stations = radios.iter_mut().flat_map(|radio| radio.stations.iter_mut());
            let own: Vec<_> = stations.filter(|station| station.node == index).collect();
            if own.is_empty() {
                return Err(off.complain("this node has no radio to switch off"));
            }
            for station in own {
                if !station.off.spans().is_empty() {
                    return Err(off.complain("a radio of this node says itself when it is off"));
                }
                station.off = outages.clone();
            }
        }
        for (section, radio) in root.sections("radio")?.iter().zip(radios) {
            let usual = section.section("motion")?;
            for (number, station) in radio.stations.iter().enumerate() {
                let node = &mut nodes[station.node];
                match &usual {
                    _ if node.motion.is_some() => {}
                    Some(usual) => node.motion = Some(traces.model(usual, number)?),
                    None => {
                        return Err(section.complain(format!(
                            "node \"{}\" has neither position nor motion; [node.NAME] has them, or \
                             motion of the radio for all its stations",
                            node.name
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Radio {
    /// A channel without stations, as files need not describe it: messages of a routing protocol do not
    /// wait behind packets, as in ns-2.
    pub(crate) fn usual(routing: &Routing) -> Self {
        let mut interface = InterfaceConfig::default();
        if matches!(routing, Routing::Protocol(_)) {
            interface.queue_discipline = QueueDiscipline::RoutingFirst;
        }
        Self { interface, ..Self::default() }
    }

    /// Builds the channel; `motions` are the motions of the nodes.
    pub(crate) fn build(
        &self,
        world: &mut World,
        nodes: &[NodeId],
        motions: &[Option<Motion>],
    ) -> RadioId {
        let id = world.add_radio(self.config);
        for Station { node, .. } in &self.stations {
            let motion = motions[*node].clone();
            let motion = motion.unwrap_or_else(|| Motion::at_rest(Default::default()));
            world.add_radio_station(id, nodes[*node], motion, self.interface);
        }
        id
    }

    /// When stations are switched off and on, from the beginning of the network.
    pub(crate) fn changes(&self, ports: &[PortId], before: Duration) -> Vec<(Time, Change)> {
        let mut changes = Vec::new();
        for (station, port) in self.stations.iter().zip(ports) {
            for span in station.off.spans() {
                changes.push((span.start + before, Change::RadioOff(*port)));
                changes.push((span.end + before, Change::RadioOn(*port)));
            }
        }
        changes
    }

    /// The times, one in each `step` at most, after which shortest paths may be others because stations
    /// moved.
    pub(crate) fn turns(
        &self,
        motions: &[Option<Motion>],
        step: Duration,
        end: Time,
    ) -> BTreeSet<Time> {
        let own = self.stations.iter().filter_map(|station| motions[station.node].clone());
        let own: Vec<Motion> = own.collect();
        let crossings = statistics::crossings(&own, self.config.receive_range, end);
        let step = base::time::nanos(step).max(1);
        let after = |at: Time| Time::from_nanos((at.as_nanos() / step + 1).saturating_mul(step));
        crossings.into_iter().map(|crossing| after(crossing.at)).collect()
    }

    /// The table of a file.
    pub(crate) fn write(
        &self,
        f: &mut Formatter<'_>,
        routing: &Routing,
        name: impl Fn(usize) -> String,
    ) -> fmt::Result {
        let stations: Vec<String> = self.stations.iter().map(|it| name(it.node)).collect();
        writeln!(f, "\n[[radio]]\nstations = [{}]", stations.join(", "))?;
        if let Some(name) = &self.name {
            writeln!(f, "name = {name:?}")?;
        }
        let usual = Self::usual(routing);
        let radio = radio::PARAMETERS.differences(&usual.config, &self.config);
        let interface = INTERFACE.differences(&usual.interface, &self.interface);
        for (name, value) in radio.into_iter().chain(interface) {
            writeln!(f, "{name} = {value}")?;
        }
        for station in self.stations.iter().filter(|it| !it.off.spans().is_empty()) {
            writeln!(f, "off.{} = {}", name(station.node), link::spans(&station.off))?;
        }
        Ok(())
    }
}

impl RadioReport {
    /// Counters of channel `id`; `names` are the nodes of its stations.
    pub(crate) fn new(world: &World, id: RadioId, planned: &Radio, names: &[String]) -> Self {
        let medium = world.radio_medium(id);
        let name = planned.name.clone().unwrap_or_else(|| format!("radio {}", id.index()));
        let stations = names.iter().zip(world.radio_ports(id)).enumerate();
        let stations = stations.map(|(place, (node, port))| {
            let stats = medium.stats(StationId(place));
            let queue = world.port_counters(*port);
            let position = medium.position(StationId(place), world.now());
            StationReport {
                node: node.clone(),
                position: [position.x, position.y],
                rts: stats.rts,
                data: stats.data,
                broadcasts: stats.broadcasts,
                received: stats.received,
                failures: stats.rts_failures + stats.data_failures,
                given_up: stats.given_up,
                collisions: stats.collisions,
                dropped: queue.dropped_at_edge.packets + queue.dropped_inside.packets,
                longest_queue: queue.longest_queue,
                busy_s: stats.busy.as_secs_f64(),
            }
        });
        Self { name, stations: stations.collect() }
    }

    pub(crate) const HEAD: [&'static str; 11] = [
        "radio",
        "node",
        "at",
        "data",
        "to all",
        "received",
        "failed",
        "given up",
        "collisions",
        "dropped",
        "busy",
    ];

    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.stations.iter().map(|station| {
            let [x, y] = station.position;
            let counts = [
                station.data,
                station.broadcasts,
                station.received,
                station.failures,
                station.given_up,
                station.collisions,
                station.dropped,
            ];
            let mut row =
                vec![self.name.clone(), station.node.clone(), format!("{x:.0} m, {y:.0} m")];
            row.extend(counts.map(|count| count.to_string()));
            row.push(format!("{:.1} s", station.busy_s));
            row
        })
    }
}

impl Plan {
    /// How each node moves that is somewhere, in a run of this seed. Who wanders rests after the
    /// scenario's duration.
    ///
    /// # Errors
    /// When a node cannot move as it is to.
    pub fn motions(&self, seed: u64) -> anyhow::Result<Vec<Option<Motion>>> {
        let motion = |node: &Node| {
            let mut rng = Rng::stream(seed, &format!("motion {}", node.name));
            let movement = node.motion.as_ref();
            movement.map(|it: &Movement| it.motion(&mut rng, self.duration)).transpose()
        };
        self.nodes.iter().map(motion).collect()
    }
}

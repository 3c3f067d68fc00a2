//! Routing protocols in a scenario: read, written, started, reported.
//!
//! ```text
//!  wired nodes ◀── shortest paths ──▶ gateway ◀── the protocol ──▶ nodes of the MANET
//!      └── the MANET's prefix ──────────▲
//!
//!  all nodes of a network of links ◀── OSPF ──▶ all others
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Formatter};
use std::net::{IpAddr, Ipv4Addr};

use base::ip::Prefix;
use base::parameter::Table;
use manet::{aodv, dsdv, olsr, ospf};
use serde::Serialize;
use settings::{Complaint, Section};
use sim::service::routing::{Routing as Service, RoutingConfig, RoutingCounters, RoutingProtocol};
use sim::{Class, LinkId, NodeId, PortId, RadioId, World};

use super::names::Reader;
use super::plan::{Node, Plan, Radio, Routing};

/// A node's routing protocol at the end of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RoutingReport {
    /// Prefixes in the routing table.
    pub routes: usize,
    /// Packets with its messages that the node sent.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// What the node did for the protocol.
    pub node: RoutingCounters,
    /// What the protocol counted.
    pub protocol: BTreeMap<&'static str, u64>,
}

/// What `routing` may say.
#[derive(Clone, Copy, Debug)]
pub enum Name {
    Shortest,
    Follow,
    None,
    Aodv,
    Dsdv,
    Olsr,
    Ospf,
}

pub const NAMES: [(&str, Name); 7] = [
    ("shortest", Name::Shortest),
    ("follow", Name::Follow),
    ("none", Name::None),
    ("aodv", Name::Aodv),
    ("dsdv", Name::Dsdv),
    ("olsr", Name::Olsr),
    ("ospf", Name::Ospf),
];

/// Reads who makes the routes.
pub fn read(root: &Section<'_>) -> Result<Routing, Complaint> {
    let Some(entry) = root.get("routing")? else { return Ok(Routing::default()) };
    let name = entry.word(&NAMES)?;
    let radios = root.sections("radio")?.len();
    let protocol = match name {
        Name::Shortest => return Ok(Routing::Shortest),
        Name::Follow => return Ok(Routing::Follow),
        Name::None => return Ok(Routing::None),
        Name::Aodv => {
            let mut config = usual_aodv(radios);
            let manet = config.internet.manet;
            if let Some(section) = changed(root, &aodv::PARAMETERS, &mut config)? {
                if section.get("manet")?.is_none() {
                    // A profile has set it to its own.
                    config.internet.manet = manet;
                }
                refuse_gateway(&section, config.internet.gateway)?;
            }
            RoutingProtocol::Aodv(config)
        }
        Name::Dsdv => {
            let mut config = dsdv::Config::default();
            if let Some(section) = changed(root, &dsdv::PARAMETERS, &mut config)? {
                refuse_gateway(&section, config.is_gateway)?;
            }
            RoutingProtocol::Dsdv(config)
        }
        Name::Olsr => {
            let mut config = olsr::Config::default();
            changed(root, &olsr::PARAMETERS, &mut config)?;
            RoutingProtocol::Olsr(config)
        }
        Name::Ospf => {
            let mut config = ospf::Config::default();
            changed(root, &ospf::PARAMETERS, &mut config)?;
            RoutingProtocol::Ospf(config)
        }
    };
    match (&protocol, radios) {
        (RoutingProtocol::Ospf(_), 0) => {}
        (RoutingProtocol::Ospf(_), _) => {
            let what = "ospf runs on links between two, and not on the radios of this network: \
                        remove [[radio]], or take aodv, dsdv or olsr";
            return Err(entry.complain(what));
        }
        (_, 0) => {
            let what = "a routing protocol runs on radios: [[radio]] adds a channel";
            return Err(entry.complain(what));
        }
        _ => {}
    }
    Ok(Routing::Protocol(Box::new(protocol)))
}

/// Reads what a file says of a protocol.
fn changed<'d, C>(
    root: &Section<'d>,
    table: &Table<C>,
    config: &mut C,
) -> Result<Option<Section<'d>>, Complaint> {
    let section = root.section(table.name)?;
    if let Some(section) = &section {
        section.apply(table, config)?;
    }
    Ok(section)
}

/// Complains where all nodes would be gateways.
fn refuse_gateway(section: &Section<'_>, is_gateway: bool) -> Result<(), Complaint> {
    match section.get("gateway")? {
        Some(entry) if is_gateway => {
            Err(entry.complain("a gateway says so itself: gateway = true in [node.NAME]"))
        }
        _ => Ok(()),
    }
}

/// The usual AODV in a network of `radios` channels: the link layer reports packets that could not be sent.
fn usual_aodv(radios: usize) -> aodv::Config {
    let mut config = aodv::Config::link_layer_feedback();
    config.internet.manet = manet(radios);
    config
}

/// The addresses of `radios` channels: each channel has 16 bits below 10.128.0.0.
fn manet(radios: usize) -> Prefix {
    let shared = radios.max(1).next_power_of_two().trailing_zeros().min(7);
    let bits = u8::try_from(16 - shared).unwrap_or(16);
    Prefix::new(IpAddr::V4(Ipv4Addr::new(10, 128, 0, 0)), bits).expect("an address has 32 bits")
}

/// Writes who makes the routes, in a network of so many radio channels.
pub fn write(f: &mut Formatter<'_>, routing: &Routing, radios: usize) -> fmt::Result {
    match routing {
        Routing::Shortest => Ok(()),
        Routing::Follow => writeln!(f, "routing = \"follow\""),
        Routing::None => writeln!(f, "routing = \"none\""),
        Routing::Protocol(protocol) => match &**protocol {
            RoutingProtocol::Aodv(config) => {
                protocol_of(f, &aodv::PARAMETERS, &usual_aodv(radios), config)
            }
            RoutingProtocol::Dsdv(config) => {
                protocol_of(f, &dsdv::PARAMETERS, &dsdv::Config::default(), config)
            }
            RoutingProtocol::Olsr(config) => {
                protocol_of(f, &olsr::PARAMETERS, &olsr::Config::default(), config)
            }
            RoutingProtocol::Ospf(config) => {
                protocol_of(f, &ospf::PARAMETERS, &ospf::Config::default(), config)
            }
        },
    }
}

fn protocol_of<C: Clone>(
    f: &mut Formatter<'_>,
    table: &Table<C>,
    usual: &C,
    config: &C,
) -> fmt::Result {
    writeln!(f, "routing = \"{}\"", table.name)?;
    for (name, value) in table.differences(usual, config) {
        writeln!(f, "{}.{name} = {value}", table.name)?;
    }
    Ok(())
}

impl Reader<'_> {
    /// Which nodes are gateways.
    pub(crate) fn gateways(
        &self,
        root: &Section<'_>,
        nodes: &mut [Node],
        (radios, routing): (&[Radio], &Routing),
    ) -> Result<(), Complaint> {
        for entry in root.section("node")?.map(|it| it.entries()).unwrap_or_default() {
            let index = self.named(entry.name(), |what| entry.complain_of_key(what))?;
            let section = entry.section()?;
            let Some(gateway) = section.get("gateway")? else { continue };
            nodes[index].is_gateway = gateway.flag()?;
            if !nodes[index].is_gateway {
                continue;
            }
            if !matches!(routing, Routing::Protocol(_)) {
                let what = "a gateway needs a routing protocol, such as routing = \"aodv\"";
                return Err(gateway.complain(what));
            }
            if !radios.iter().any(|radio| radio.stations.iter().any(|it| it.node == index)) {
                return Err(gateway.complain("this node has no radio, so it is no gateway"));
            }
        }
        Ok(())
    }
}

/// Starts a protocol on what it runs on: OSPF on all links, others on all radios.
pub fn start(
    world: &mut World,
    protocol: &RoutingProtocol,
    plan: &Plan,
    (nodes, links, radios): (&[NodeId], &[LinkId], &[RadioId]),
) {
    match protocol {
        RoutingProtocol::Ospf(config) => start_on_links(world, config, plan, (nodes, links)),
        _ => start_on_radios(world, protocol, plan, (nodes, radios)),
    }
}

/// Starts OSPF on the links of all nodes; the nodes announce their addresses from the file.
fn start_on_links(
    world: &mut World,
    config: &ospf::Config,
    plan: &Plan,
    (nodes, links): (&[NodeId], &[LinkId]),
) {
    let mut ports: BTreeMap<usize, Vec<PortId>> = BTreeMap::new();
    for (link, id) in plan.links.iter().zip(links) {
        for (end, port) in link.ends.iter().zip(world.ends(*id)) {
            ports.entry(*end).or_default().push(port);
        }
    }
    for (index, ports) in ports {
        let attached = plan.nodes[index].addresses.iter().copied().filter(IpAddr::is_ipv4);
        let attached = attached.map(Prefix::host).collect();
        let protocol = RoutingProtocol::Ospf(ospf::Config { attached, ..config.clone() });
        world.enable_routing(nodes[index], &RoutingConfig::new(protocol), &ports);
    }
}

/// Starts a protocol on the radios of all nodes. What has none finds its way along links.
fn start_on_radios(
    world: &mut World,
    protocol: &RoutingProtocol,
    plan: &Plan,
    (nodes, radios): (&[NodeId], &[RadioId]),
) {
    world.auto_routes_of_links();
    let manet = manet(plan.radios.len());
    let mut ports: BTreeMap<usize, Vec<PortId>> = BTreeMap::new();
    for (radio, id) in plan.radios.iter().zip(radios) {
        for (station, port) in radio.stations.iter().zip(world.radio_ports(*id)) {
            ports.entry(station.node).or_default().push(*port);
        }
    }
    let gateways = plan.nodes.iter().zip(nodes).filter(|(node, _)| node.is_gateway);
    let gateways: Vec<NodeId> = gateways.map(|(_, id)| *id).collect();
    for (index, (planned, node)) in plan.nodes.iter().zip(nodes).enumerate() {
        match ports.get(&index) {
            Some(ports) => {
                let own = on_node(protocol, planned.is_gateway);
                world.enable_routing(*node, &RoutingConfig::new(own), ports);
            }
            None => route_to_manet(world, *node, manet, &gateways),
        }
    }
}

/// A node on wires reaches the MANET through the gateway that is fewest links away.
fn route_to_manet(world: &mut World, node: NodeId, manet: Prefix, gateways: &[NodeId]) {
    let ways = gateways.iter().filter_map(|gateway| {
        let address = world.addresses(*gateway).find(IpAddr::is_ipv4)?;
        world.path(node, address)
    });
    let nearest = ways.min_by_key(Vec::len);
    if let Some(first) = nearest.and_then(|way| way.get(1).copied()) {
        world.route(node, manet, first, 1);
    }
}

/// A protocol as a node runs it that is a gateway or is not.
fn on_node(protocol: &RoutingProtocol, is_gateway: bool) -> RoutingProtocol {
    let mut protocol = protocol.clone();
    match &mut protocol {
        RoutingProtocol::Aodv(config) => config.internet.gateway = is_gateway,
        RoutingProtocol::Dsdv(config) => config.is_gateway = is_gateway,
        RoutingProtocol::Olsr(config) => {
            let all = Prefix::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
            config.attached = all.into_iter().filter(|_| is_gateway).collect();
        }
        // It runs on no radio, so no node is its gateway.
        RoutingProtocol::Ospf(_) => {}
    }
    protocol
}

impl RoutingReport {
    /// The report of a node, if a routing protocol runs there.
    pub(crate) fn new(world: &World, node: NodeId) -> Option<Self> {
        world.services::<Service>(node).next()?;
        let sent = world.sent_by(node).sent[Class::Routing];
        Some(Self {
            routes: world.routes(node).len(),
            packets: sent.packets,
            octets: sent.octets,
            node: world.routing_counters(node),
            protocol: world.routing_protocol_counters(node).into_iter().collect(),
        })
    }

    pub(crate) const HEAD: [&'static str; 8] =
        ["node", "routes", "changes", "packets", "octets", "unsent", "rerouted", "refused"];

    pub(crate) fn row(&self, node: &str) -> Vec<String> {
        let counts = [
            self.routes as u64,
            self.node.route_changes,
            self.packets,
            self.octets,
            self.node.unsent,
            self.node.rerouted,
            self.node.unreachable + self.node.expired + self.node.evicted,
        ];
        let mut row = vec![node.to_owned()];
        row.extend(counts.map(|count| count.to_string()));
        row
    }

    /// What the protocol counted on all nodes together, where it counted anything.
    pub(crate) fn totals<'a>(
        reports: impl Iterator<Item = &'a Self>,
    ) -> impl Iterator<Item = Vec<String>> {
        let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, count) in reports.flat_map(|report| &report.protocol) {
            *totals.entry(name).or_default() += count;
        }
        let some = totals.into_iter().filter(|(_, count)| *count > 0);
        some.map(|(name, count)| vec![name.to_owned(), count.to_string()])
    }
}

//! A scenario as a value: built in code or read from a file, written to one, run.

use std::net::IpAddr;
use std::time::Duration;

use base::time::Time;
use sim::channel::Outages;
use sim::service::routing::RoutingProtocol;
use sim::{InterfaceConfig, LinkConfig, PassiveOpens, Prefix, TcpncTunnelConfig, cnr, radio};
use tcp::tcpnc;
use tunnel as nc;

use super::hf::Frequency;
use super::motion::Movement;
use super::tactical::{Bgp, Messages};

/// How long a scenario runs at most if it does not say.
pub const DURATION: Duration = Duration::from_mins(10);

/// How often shortest paths are found anew at most, if a scenario does not say.
pub const FOLLOW_EVERY: Duration = Duration::from_millis(100);

/// A network and its traffic. Nodes are named by their place in the list.
///
/// ```
/// # use std::time::Duration;
/// use lab::scenario::{Flow, Plan, Transfer};
///
/// let mut plan = Plan::new(7, Duration::from_secs(60));
/// plan.add_chain([sim::LinkConfig::default(), sim::LinkConfig::default()]);
/// for node in &mut plan.nodes {
///     node.hbh = Some(hbh::Config::new(hbh::Profile::Default));
/// }
/// let (flow, tcp) = (Flow::new([0, 2], 9), tcp::Config::default());
/// plan.transfers.push(Transfer { flow, octets: Some(10_000), tcp });
///
/// assert!(plan.to_toml()?.contains("hbh = true"));
/// let mut built = plan.build(plan.seed)?;
/// built.run_until(built.end(), Duration::from_secs(1), |built| built.transfers_are_over());
/// assert!(built.last_octet(0).is_some());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// When to stop at the latest.
    pub duration: Duration,
    /// Of all that is random.
    pub seed: u64,
    /// The source of routes other than `routes`.
    pub routing: Routing,
    /// How often shortest paths are found anew at most, where they follow nodes that move.
    pub follow_every: Duration,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The links between them.
    pub links: Vec<Link>,
    /// Radio channels.
    pub radios: Vec<Radio>,
    /// Combat nets.
    pub nets: Vec<Net>,
    /// Routes set by hand.
    pub routes: Vec<Route>,
    /// Coded tunnels.
    pub tunnels: Vec<Tunnel>,
    /// TCP/NC tunnels, as the paper has them.
    pub tcpnc_tunnels: Vec<TcpncTunnel>,
    pub(crate) frequencies: Vec<Frequency>,
    /// Octets over TCP.
    pub transfers: Vec<Transfer>,
    /// Streams of datagrams, including answered streams.
    pub streams: Vec<Stream>,
    /// How many passive opens each listener of TCP has.
    pub passive_opens: PassiveOpens,
    /// BGP sessions.
    pub bgp: Option<Bgp>,
    /// Messages from anybody to anybody.
    pub messages: Option<Messages>,
    /// Notes for a reader on the source files, a line each.
    pub notes: Vec<String>,
}

/// A host, a router, or both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The node's name, also the name of its random streams.
    pub name: String,
    /// Addresses in addition to the addresses of its links.
    pub addresses: Vec<IpAddr>,
    /// Its HBH.
    pub hbh: Option<hbh::Config>,
    /// The TCP/NC below its TCP.
    pub tcpnc: Option<tcpnc::Config>,
    /// The node's place and motion.
    pub motion: Option<Movement>,
    /// Whether its routing protocol brings the nodes of a MANET to what is behind its links.
    pub is_gateway: bool,
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The nodes.
    pub ends: [usize; 2],
    /// What it is like.
    pub config: LinkConfig,
    /// Whether its ends notice when both directions are down.
    pub is_noticed: bool,
}

/// A radio channel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Radio {
    /// What a report calls it; unless given, it is numbered.
    pub name: Option<String>,
    /// What it is like.
    pub config: radio::Config,
    /// The interfaces of its stations.
    pub interface: InterfaceConfig,
    /// The stations. Their nodes have a motion.
    pub stations: Vec<Station>,
}

/// A radio of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Station {
    /// The node.
    pub node: usize,
    /// When it is switched off.
    pub off: Outages,
}

/// A combat net.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Net {
    /// What a report calls it; unless given, it is numbered.
    pub name: Option<String>,
    /// What it is like.
    pub config: cnr::Config,
    /// Which of its stations hear each other, by their places in `stations`.
    pub hearing: cnr::Hearing,
    /// The nodes of its stations.
    pub stations: Vec<usize>,
}

/// A route that a node gets or loses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// When.
    pub at: Time,
    /// The node.
    pub node: usize,
    /// Where it leads.
    pub to: Target,
    /// The neighbour; none ends the route.
    pub via: Option<usize>,
    /// The lower wins.
    pub metric: u32,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// To all addresses of a node.
    Node(usize),
    /// To what has this prefix.
    Prefix(Prefix),
}

/// A coded tunnel between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunnel {
    /// The nodes.
    pub ends: [usize; 2],
    /// The nodes behind each end.
    pub behind: [Vec<usize>; 2],
    /// Whether each link between both ends is a path of it.
    pub uses_all_links: bool,
    /// Its parameters.
    pub config: nc::Config,
}

/// A TCP/NC tunnel from one node to another.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpncTunnel {
    /// Where packets enter, and where they leave.
    pub ends: [usize; 2],
    /// The TCP of both ends.
    pub tcp: tcp::Config,
    /// What is below it.
    pub layer: tcpnc::Config,
}

/// Properties common to all kinds of flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    /// What a report calls it; unless given, it follows from the nodes.
    pub name: Option<String>,
    /// The node that sends.
    pub from: usize,
    /// The node that receives.
    pub to: usize,
    /// The port at the receiver.
    pub port: u16,
    /// The port at the sender; unless given, from 40,000 on.
    pub from_port: Option<u16>,
    /// Whether it goes over IPv6.
    pub ipv6: bool,
    /// When it begins.
    pub start: Time,
}

/// Octets over TCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// From where to where.
    pub flow: Flow,
    /// How many; without, there is no end.
    pub octets: Option<u64>,
    /// The TCP of both ends.
    pub tcp: tcp::Config,
}

/// Datagrams at a constant rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// From where to where.
    pub flow: Flow,
    /// Octets of each.
    pub payload: usize,
    /// From one to the next.
    pub interval: Duration,
    /// When to stop.
    pub stop: Option<Time>,
    /// How many at most.
    pub count: Option<u64>,
    /// Their code point.
    pub dscp: u8,
    /// Whether the receiver sends each back.
    pub is_answered: bool,
}

/// The source of routes other than the given ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Routing {
    /// Shortest paths, found anew when a link goes down or up, a radio off or on, and while nodes move.
    Follow,
    /// Nobody.
    None,
    /// A routing protocol on all radios, or OSPF on all links. Its parameters for gateways apply to
    /// [gateways](Node::is_gateway) only.
    Protocol(Box<RoutingProtocol>),
    /// Shortest paths, found once.
    #[default]
    Shortest,
}

/// What an interface of a node may be on: links, radios and combat nets.
pub type Media<'a> = (&'a [Link], &'a [Radio], &'a [Net]);

impl Plan {
    /// A scenario without nodes.
    #[must_use]
    pub fn new(seed: u64, duration: Duration) -> Self {
        Self {
            duration,
            seed,
            routing: Routing::default(),
            follow_every: FOLLOW_EVERY,
            nodes: Vec::new(),
            links: Vec::new(),
            radios: Vec::new(),
            nets: Vec::new(),
            routes: Vec::new(),
            tunnels: Vec::new(),
            tcpnc_tunnels: Vec::new(),
            frequencies: Vec::new(),
            transfers: Vec::new(),
            streams: Vec::new(),
            passive_opens: PassiveOpens::default(),
            notes: Vec::new(),
            bgp: None,
            messages: None,
        }
    }

    /// Adds a node; its place.
    pub fn add_node(&mut self, name: impl Into<String>) -> usize {
        self.nodes.push(Node { name: name.into(), ..Node::default() });
        self.nodes.len() - 1
    }

    /// Joins two nodes by a link; its place.
    pub fn connect(&mut self, a: usize, b: usize, config: LinkConfig) -> usize {
        self.links.push(Link { ends: [a, b], config, is_noticed: true });
        self.links.len() - 1
    }

    /// Adds nodes in a row, called `n0` and on, with such a link between any two that follow each
    /// other.
    pub fn add_chain(&mut self, links: impl IntoIterator<Item = LinkConfig>) {
        let mut near = self.add_node("n0");
        for (link, number) in links.into_iter().zip(1..) {
            let far = self.add_node(format!("n{number}"));
            self.connect(near, far, link);
            near = far;
        }
    }

    /// The name of a flow of this kind, for reports.
    pub(crate) fn name_of(&self, kind: &str, flow: &Flow) -> String {
        let [from, to] = [flow.from, flow.to].map(|node| &self.nodes[node].name);
        flow.name.clone().unwrap_or_else(|| format!("{kind} {from} to {to}"))
    }

    /// The default TCP of a transfer: its MTU is the shortest of the links, radios and nets at both ends.
    pub(crate) fn usual_tcp((links, radios, nets): Media<'_>, ends: [usize; 2]) -> tcp::Config {
        let [from, to] = ends;
        let own = links.iter().filter(|link| link.ends.contains(&from) || link.ends.contains(&to));
        let mtus = own.map(|link| link.config.near.mtu.min(link.config.far.mtu));
        let is_on = |radio: &&Radio| radio.stations.iter().any(|it| ends.contains(&it.node));
        let on_air = radios.iter().filter(is_on).map(|radio| radio.interface.mtu);
        let is_in = |net: &&Net| net.stations.iter().any(|it| ends.contains(it));
        let in_net = nets.iter().filter(is_in).map(|net| net.config.mtu);
        let mtu = mtus.chain(on_air).chain(in_net).min().unwrap_or(InterfaceConfig::default().mtu);
        tcp::Config { mtu, ..tcp::Config::default() }
    }
}

impl TcpncTunnel {
    /// The tunnel of the paper.
    #[must_use]
    pub fn new(ends: [usize; 2]) -> Self {
        let TcpncTunnelConfig { tcp, layer, .. } = TcpncTunnelConfig::default();
        Self { ends, tcp, layer }
    }
}

impl Flow {
    /// A flow to a port, from the beginning.
    #[must_use]
    pub fn new([from, to]: [usize; 2], port: u16) -> Self {
        Self { from, to, port, ..Self::default() }
    }

    /// The same from another port.
    #[must_use]
    pub fn from_port(self, port: u16) -> Self {
        Self { from_port: Some(port), ..self }
    }

    /// The same from this time on.
    #[must_use]
    pub fn starting(self, start: Time) -> Self {
        Self { start, ..self }
    }
}

impl Stream {
    /// Datagrams with so many octets, one after each interval.
    #[must_use]
    pub fn new(flow: Flow, payload: usize, interval: Duration) -> Self {
        Self { flow, payload, interval, stop: None, count: None, dscp: 0, is_answered: false }
    }
}

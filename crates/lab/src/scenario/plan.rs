//! From what stands in a file to what can be built: every name known, every number sensible.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::{Range, RangeFrom};
use std::time::Duration;

use proto::s5066::Address;
use proto::time::Time;
use proto::{hbh, tcp};
use sim::channel::{self, Outages};
use sim::units::{BitRate, Span};
use sim::{InterfaceConfig, LinkConfig, Prefix};
use toml::Spanned;

use super::file::{self, Direction, File, Routing};
use super::hf::{self, Frequency, Station};
use super::hop;
use super::human::{Human, Switch};
use super::source::{Complaint, Source};

/// How long a scenario runs at most if it does not say.
const DURATION: Duration = Duration::from_mins(10);
const MAX_NODES: usize = 1_000;
const MAX_LINKS: usize = 10_000;
const MAX_FLOWS: usize = 10_000;
const MAX_ROUTES: usize = 100_000;
const MAX_TUNNELS: usize = 1_000;
const MAX_FREQUENCIES: usize = 100;
/// Six bits (RFC 2474).
const MAX_DSCP: u8 = 63;
const MIN_MTU: usize = 576;
const MAX_MTU: usize = 65_535;
/// The first port of flows that do not say theirs.
const FIRST_PORT: u16 = 5_001;

/// A network and its traffic, checked.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) duration: Duration,
    pub(super) seed: u64,
    pub(super) routing: Routing,
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<Link>,
    pub(super) routes: Vec<Route>,
    pub(super) tunnels: Vec<Tunnel>,
    pub(super) frequencies: Vec<Frequency>,
    pub(super) transfers: Vec<Transfer>,
    pub(super) streams: Vec<Stream>,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) hbh: Option<hbh::Config>,
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Indices of nodes.
    pub(super) ends: [usize; 2],
    pub(super) config: LinkConfig,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) at: Time,
    pub(super) node: usize,
    pub(super) to: Target,
    /// The neighbour; none ends the route.
    pub(super) via: Option<usize>,
    pub(super) metric: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Tunnel {
    /// Indices of nodes.
    pub(super) ends: [usize; 2],
    /// The nodes behind each end.
    pub(super) behind: [Vec<usize>; 2],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Node(usize),
    Prefix(Prefix),
}

/// What flows of all kinds have.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) name: String,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) port: u16,
    pub(super) ipv6: bool,
    pub(super) start: Time,
}

#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) flow: Flow,
    pub(super) octets: u64,
    pub(super) tcp: tcp::Config,
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) flow: Flow,
    pub(super) payload: usize,
    pub(super) interval: Duration,
    pub(super) stop: Option<Time>,
    pub(super) count: Option<u64>,
    pub(super) dscp: u8,
}

/// A file while it is checked.
struct Reader<'a> {
    source: &'a Source,
    names: BTreeMap<String, usize>,
    /// The nodes that have a link or are on HF, and so have addresses.
    linked: BTreeSet<&'a str>,
}

/// Checks a whole file.
pub(super) fn plan(source: &Source, file: &File) -> Result<Plan, Complaint> {
    for (what, count, most) in [
        ("nodes", file.nodes.get_ref().len(), MAX_NODES),
        ("links", file.link.len(), MAX_LINKS),
        ("flows", file.tcp.len() + file.udp.len(), MAX_FLOWS),
        ("routes", file.route.len(), MAX_ROUTES),
        ("tunnels", file.tunnel.len(), MAX_TUNNELS),
        ("HF frequencies", file.hf.len(), MAX_FREQUENCIES),
    ] {
        if count > most {
            let what = format!("{count} {what}; allowed are {most}");
            return Err(Complaint::about(&source.path, what));
        }
    }
    let linked = file.link.iter().flat_map(|link| &link.get_ref().between);
    let on_air = file.hf.iter().flat_map(|hf| hf.stations.get_ref());
    let linked = linked.chain(on_air).map(|end| end.get_ref().as_str()).collect();
    let reader = Reader { source, names: names(source, file)?, linked };
    let nodes = reader.nodes(file)?;
    let links = file
        .link
        .iter()
        .map(|link| reader.link(link.get_ref(), &file.defaults.link))
        .collect::<Result<Vec<_>, _>>()?;
    let routes =
        file.route.iter().map(|route| reader.route(route, &links)).collect::<Result<_, _>>()?;
    let tunnels =
        file.tunnel.iter().map(|tunnel| reader.tunnel(tunnel)).collect::<Result<_, _>>()?;
    let mut addresses = 1..;
    let frequencies =
        file.hf.iter().map(|hf| reader.frequency(hf, &mut addresses)).collect::<Result<_, _>>()?;
    let mut ports = Ports::default();
    let transfers = file
        .tcp
        .iter()
        .map(|flow| reader.transfer(flow, file, &links, &mut ports))
        .collect::<Result<_, _>>()?;
    let streams =
        file.udp.iter().map(|flow| reader.stream(flow, &mut ports)).collect::<Result<_, _>>()?;
    let duration = file.duration.as_ref();
    if let Some(zero) = duration.filter(|duration| duration.get_ref().0.0.is_zero()) {
        return Err(source.complaint(&zero.span(), "a run takes more than no time"));
    }
    Ok(Plan {
        duration: duration.map_or(DURATION, |duration| duration.get_ref().0.0),
        seed: file.seed.unwrap_or(1),
        routing: file.routing,
        nodes,
        links,
        routes,
        tunnels,
        frequencies,
        transfers,
        streams,
    })
}

/// The nodes by name, in the order of the file.
fn names(source: &Source, file: &File) -> Result<BTreeMap<String, usize>, Complaint> {
    let mut names = BTreeMap::new();
    for (index, name) in file.nodes.get_ref().iter().enumerate() {
        let text = name.get_ref();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if text.is_empty() || text.len() > 32 || !text.chars().all(is_plain) {
            let what = format!(
                "\"{text}\" is not a node's name: up to 32 letters, digits, hyphens and underscores"
            );
            return Err(source.complaint(&name.span(), what));
        }
        if names.insert(text.clone(), index).is_some() {
            return Err(source.complaint(&name.span(), format!("node \"{text}\" is there twice")));
        }
    }
    if names.is_empty() {
        return Err(source.complaint(&file.nodes.span(), "at least one node is needed"));
    }
    Ok(names)
}

impl Reader<'_> {
    fn nodes(&self, file: &File) -> Result<Vec<Node>, Complaint> {
        let common = file.hbh.as_ref().map(|hbh| self.hbh(hbh, None)).transpose()?.flatten();
        let mut nodes: Vec<Node> = file
            .nodes
            .get_ref()
            .iter()
            .map(|name| Node { name: name.get_ref().clone(), addresses: Vec::new(), hbh: common })
            .collect();
        for (name, special) in &file.node {
            let node = &mut nodes[self.node(name)?];
            if let Some(first) = special.addresses.first() {
                self.expect_link(name, first)?;
            }
            node.addresses =
                special.addresses.iter().map(|a| self.address(a)).collect::<Result<_, _>>()?;
            if let Some(hbh) = &special.hbh {
                node.hbh = self.hbh(hbh, common)?;
            }
        }
        Ok(nodes)
    }

    fn address(&self, address: &Spanned<IpAddr>) -> Result<IpAddr, Complaint> {
        let ip = *address.get_ref();
        if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
            return Err(self.complain(address, format!("{ip} is not the address of a node")));
        }
        Ok(ip)
    }

    fn hbh(
        &self,
        hbh: &Spanned<Switch<hop::Options>>,
        base: Option<hbh::Config>,
    ) -> Result<Option<hbh::Config>, Complaint> {
        match hbh.get_ref() {
            Switch::Off => Ok(None),
            Switch::On(options) => {
                let config = options.config(base).map_err(|what| self.complain(hbh, what))?;
                Ok(Some(config))
            }
        }
    }

    fn link(&self, link: &file::Link, defaults: &Direction) -> Result<Link, Complaint> {
        let [a, b] = &link.between;
        let ends = [self.node(a)?, self.node(b)?];
        if ends[0] == ends[1] {
            return Err(self.complain(b, "a link joins two different nodes"));
        }
        let both = link.both().or(defaults);
        let (there, near) = self.direction(&link.there.clone().or(&both), a)?;
        let (back, far) = self.direction(&link.back.clone().or(&both), a)?;
        Ok(Link { ends, config: LinkConfig { there, back, near, far, cost: link.cost } })
    }

    fn direction(
        &self,
        said: &Direction,
        place: &Spanned<String>,
    ) -> Result<(channel::Config, InterfaceConfig), Complaint> {
        let interface = InterfaceConfig::default();
        let interface = InterfaceConfig {
            mtu: said.mtu.unwrap_or(interface.mtu),
            queue_packets: said.queue.unwrap_or(interface.queue_packets),
            queue_octets: said.queue_octets.or(interface.queue_octets),
            hop_backlog: said.hop_backlog.unwrap_or(interface.hop_backlog),
        };
        if !(MIN_MTU..=MAX_MTU).contains(&interface.mtu) {
            let what =
                format!("mtu is {}; allowed are {MIN_MTU} to {MAX_MTU} octets", interface.mtu);
            return Err(self.complain(place, what));
        }
        let channel = channel::Config {
            rate: said.rate.map(|rate| rate.0).unwrap_or_default(),
            delay: said.delay.map(|delay| delay.0.0).unwrap_or_default(),
            jitter: said.jitter.map(|jitter| jitter.0.0).unwrap_or_default(),
            reorder: said.reorder.unwrap_or_default(),
            loss: said.loss.clone().map(|loss| loss.0).unwrap_or_default(),
            repeat_at_once: false,
            framing: said.framing.unwrap_or_default(),
            outages: self.outages(said.down.as_ref())?,
        };
        Ok((channel, interface))
    }

    fn outages(&self, down: Option<&Spanned<Vec<[Human<Span>; 2]>>>) -> Result<Outages, Complaint> {
        let Some(down) = down else { return Ok(Outages::default()) };
        let span = |&[from, to]: &[Human<Span>; 2]| Range { start: at(from), end: at(to) };
        let spans: Vec<Range<Time>> = down.get_ref().iter().map(span).collect();
        Outages::new(spans).map_err(|error| self.complain(down, error))
    }

    fn route(&self, route: &Spanned<file::Route>, links: &[Link]) -> Result<Route, Complaint> {
        let file::Route { node, to, via, remove, at: time, metric } = route.get_ref();
        let index = self.node(node)?;
        let target = match to.get_ref().parse::<Prefix>() {
            Ok(prefix) => Target::Prefix(prefix),
            Err(_) => Target::Node(self.node(to)?),
        };
        let via = match (via, remove) {
            (Some(via), false) => {
                let neighbour = self.node(via)?;
                let joins = |link: &&Link| {
                    link.ends == [index, neighbour] || link.ends == [neighbour, index]
                };
                if links.iter().find(joins).is_none() {
                    let what =
                        format!("no link joins \"{}\" and \"{}\"", node.get_ref(), via.get_ref());
                    return Err(self.complain(via, what));
                }
                Some(neighbour)
            }
            (None, true) => None,
            _ => return Err(self.complain(node, "a route has either via or remove = true")),
        };
        Ok(Route { at: at(*time), node: index, to: target, via, metric: *metric })
    }

    fn tunnel(&self, tunnel: &file::Tunnel) -> Result<Tunnel, Complaint> {
        let [a, b] = &tunnel.between;
        let ends = self.apart([a, b], "a tunnel")?;
        let nodes = |names: &[Spanned<String>]| {
            names
                .iter()
                .map(|name| {
                    let node = self.node(name)?;
                    if ends.contains(&node) {
                        return Err(self.complain(name, "an end of a tunnel is not behind it"));
                    }
                    Ok(node)
                })
                .collect::<Result<Vec<_>, _>>()
        };
        let [near, far] = &tunnel.behind;
        Ok(Tunnel { ends, behind: [nodes(near)?, nodes(far)?] })
    }

    fn frequency(
        &self,
        said: &hf::Said,
        addresses: &mut RangeFrom<u32>,
    ) -> Result<Frequency, Complaint> {
        let (least, most) = hf::STATIONS;
        let names = said.stations.get_ref();
        if !(least..=most).contains(&names.len()) {
            let what = format!("{} stations; allowed are {least} to {most}", names.len());
            return Err(self.complain(&said.stations, what));
        }
        if let Some(jitter) = said.stray_jitter() {
            return Err(self.complain(jitter, "it is for access = \"jitter\""));
        }
        let count = u8::try_from(names.len()).unwrap_or(u8::MAX);
        let mut stations: Vec<Station> = Vec::new();
        for ((name, position), address) in names.iter().zip(0_u8..).zip(addresses) {
            let host = self.node(name)?;
            if stations.iter().any(|other| other.host == host) {
                return Err(self.complain(name, "a node is one station of a frequency"));
            }
            let config = said
                .node(Address::node(address), position, count)
                .map_err(|unfit| self.source.complaint(&said.place(unfit.parameter), unfit))?;
            stations.push(Station { host, behind: Vec::new(), config });
        }
        for (name, nodes) in &said.behind {
            let host = self.node(name)?;
            let Some(station) = stations.iter_mut().find(|other| other.host == host) else {
                let what = format!("\"{}\" is no station of this frequency", name.get_ref());
                return Err(self.complain(name, what));
            };
            for node in nodes {
                self.expect_link(node, node)?;
                station.behind.push(self.node(node)?);
            }
        }
        Ok(Frequency { channel: said.channel.0, carry: said.carry, stations })
    }

    fn transfer(
        &self,
        flow: &Spanned<file::Tcp>,
        file: &File,
        links: &[Link],
        ports: &mut Ports,
    ) -> Result<Transfer, Complaint> {
        let said = flow.get_ref();
        let [from, to] = self.apart([&said.from, &said.to], "a flow")?;
        let port = ports.take(to, said.port).map_err(|what| self.complain(&said.to, what))?;
        let mut tcp = tcp::Config { mtu: mtu(links, from, to), ..tcp::Config::default() };
        for options in [&file.defaults.tcp, &said.options].into_iter().flatten() {
            options.get_ref().apply(&mut tcp).map_err(|what| self.complain(options, what))?;
        }
        tcp.dscp = self.dscp(said.dscp.as_ref())?.unwrap_or(tcp.dscp);
        Ok(Transfer {
            flow: Flow {
                name: said
                    .name
                    .clone()
                    .unwrap_or_else(|| default_name("tcp", &said.from, &said.to)),
                from,
                to,
                port,
                ipv6: said.ipv6,
                start: at(said.start),
            },
            octets: said.octets,
            tcp,
        })
    }

    fn stream(&self, flow: &Spanned<file::Udp>, ports: &mut Ports) -> Result<Stream, Complaint> {
        let said = flow.get_ref();
        let [from, to] = self.apart([&said.from, &said.to], "a flow")?;
        let payload = *said.payload.get_ref();
        if !(16..=65_000).contains(&payload) {
            let what = format!("payload is {payload}; allowed are 16 to 65000 octets");
            return Err(self.complain(&said.payload, what));
        }
        let rate = said.rate.get_ref().0;
        if rate == BitRate::Unlimited {
            return Err(self.complain(&said.rate, "a stream has a rate, such as 64kbit"));
        }
        let port = ports.take(to, said.port).map_err(|what| self.complain(&said.to, what))?;
        Ok(Stream {
            flow: Flow {
                name: said
                    .name
                    .clone()
                    .unwrap_or_else(|| default_name("udp", &said.from, &said.to)),
                from,
                to,
                port,
                ipv6: said.ipv6,
                start: at(said.start),
            },
            payload,
            interval: rate.time_for(payload),
            stop: said.stop.map(at),
            count: said.count,
            dscp: self.dscp(said.dscp.as_ref())?.unwrap_or_default(),
        })
    }

    fn dscp(&self, said: Option<&Spanned<i64>>) -> Result<Option<u8>, Complaint> {
        let Some(said) = said else { return Ok(None) };
        let given = *said.get_ref();
        match u8::try_from(given) {
            Ok(dscp) if dscp <= MAX_DSCP => Ok(Some(dscp)),
            _ => {
                let what = format!("{given} is not allowed: 0 to {MAX_DSCP}");
                Err(self.complain(said, what))
            }
        }
    }

    /// Two different nodes with links, that `what` joins.
    fn apart(&self, [a, b]: [&Spanned<String>; 2], what: &str) -> Result<[usize; 2], Complaint> {
        let ends = [self.node(a)?, self.node(b)?];
        if ends[0] == ends[1] {
            return Err(self.complain(b, format!("{what} joins two different nodes")));
        }
        self.expect_link(a, a)?;
        self.expect_link(b, b)?;
        Ok(ends)
    }

    /// Complains about `place` if the node has no link.
    fn expect_link<T>(&self, name: &Spanned<String>, place: &Spanned<T>) -> Result<(), Complaint> {
        if self.linked.contains(name.get_ref().as_str()) {
            return Ok(());
        }
        Err(self.complain(place, format!("no link leads to \"{}\"", name.get_ref())))
    }

    fn node(&self, name: &Spanned<String>) -> Result<usize, Complaint> {
        self.names.get(name.get_ref()).copied().ok_or_else(|| {
            let known: Vec<&str> = self.names.keys().map(String::as_str).collect();
            let what = format!(
                "there is no node \"{}\"; the nodes are {}",
                name.get_ref(),
                abridged(&known),
            );
            self.complain(name, what)
        })
    }

    fn complain<T>(&self, place: &Spanned<T>, what: impl std::fmt::Display) -> Complaint {
        self.source.complaint(&place.span(), what)
    }
}

/// Ports that flows take at their receivers.
#[derive(Debug, Default)]
struct Ports(BTreeSet<(usize, u16)>);

impl Ports {
    /// The port asked for, or the next that is free.
    fn take(&mut self, node: usize, asked: Option<u16>) -> Result<u16, String> {
        let port = match asked {
            Some(port) => port,
            None => (FIRST_PORT..u16::MAX)
                .find(|port| !self.0.contains(&(node, *port)))
                .ok_or("all ports are taken")?,
        };
        if port == 0 {
            return Err("a port is 1 to 65535".to_owned());
        }
        if !self.0.insert((node, port)) {
            return Err(format!("port {port} is taken by another flow"));
        }
        Ok(port)
    }
}

/// The shortest MTU of the links at both ends of a flow.
fn mtu(links: &[Link], from: usize, to: usize) -> usize {
    let own = links.iter().filter(|link| link.ends.contains(&from) || link.ends.contains(&to));
    let mtus = own.map(|link| link.config.near.mtu.min(link.config.far.mtu));
    mtus.min().unwrap_or(InterfaceConfig::default().mtu)
}

fn default_name(kind: &str, from: &Spanned<String>, to: &Spanned<String>) -> String {
    format!("{kind} {} to {}", from.get_ref(), to.get_ref())
}

fn at(span: Human<Span>) -> Time {
    Time::ZERO + span.0.0
}

/// A list of names that fits in a sentence.
fn abridged(names: &[&str]) -> String {
    const MOST: usize = 10;
    let shown = names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{shown} and {} more", names.len() - MOST) } else { shown }
}

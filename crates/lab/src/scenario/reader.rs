//! Reads a scenario file into a plan: checks that every name is known and every number sensible.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use base::parameter::{Kind, Table, Written};
use base::quantity::{BitRate, Span};
use base::time::Time;
use settings::{Complaint, Document, Entry, Section, Source};
use sim::Prefix;
use tcp::tcpnc;
use tunnel as nc;

use super::hf::Frequency;
use super::link;
use super::motion::Traces;
use super::names::{self, Reader};
use super::network::SOURCE_PORTS;
use super::plan::{
    DURATION, FOLLOW_EVERY, Flow, Link, Media, Net, Node, Plan, Radio, Route, Stream, Target,
    TcpncTunnel, Transfer, Tunnel,
};
use super::{routing, tactical, timeless};

/// What a file may have of each list.
pub const MOST: [(&str, usize); 10] = [
    ("nodes", 1_000),
    ("link", 10_000),
    ("tcp", 10_000),
    ("udp", 10_000),
    ("route", 100_000),
    ("tunnel", 1_000),
    ("tcpnc-tunnel", 1_000),
    ("hf", 100),
    ("radio", 100),
    ("net", 16),
];
/// Six bits (RFC 2474).
pub const MAX_DSCP: u64 = 63;
/// The first port of flows that do not say theirs.
const FIRST_PORT: u16 = 5_001;

/// Reads a whole file.
pub fn read(source: &Source, folder: &Path) -> Result<Plan, Complaint> {
    read_document(&source.parse()?, source, folder)
}

/// Reads a parsed document, which records the keys asked for.
pub fn read_document(
    document: &Document<'_>,
    source: &Source,
    folder: &Path,
) -> Result<Plan, Complaint> {
    let root = document.root();
    for (name, most) in MOST {
        let count = root.get(name)?.map_or(Ok(0), |entry| entry.list().map(|list| list.len()))?;
        if count > most {
            return Err(source.about(format!("{name}: {count} of them; allowed are {most}")));
        }
    }
    let duration = duration(&root)?;
    let mut reader = Reader::new(&root, duration)?;
    let defaults = root.section("defaults")?;
    let links = reader.links(&root, defaults.as_ref())?;
    let routing = routing::read(&root)?;
    let mut radios = reader.radios(&root, &routing)?;
    let nets = reader.nets(&root)?;
    for frequency in root.sections("hf")? {
        let stations = frequency.needed("stations")?.list()?;
        let stations = stations.iter().map(|name| reader.node(name));
        let stations = stations.collect::<Result<Vec<_>, _>>()?;
        reader.join(stations);
    }
    let mut nodes = reader.nodes(&root)?;
    reader.gateways(&root, &mut nodes, (&radios, &routing))?;
    let mut traces = Traces::new(folder, duration);
    reader.motions(&root, &mut nodes, &mut radios, &mut traces)?;
    Reader::expect_places(&root, &nets, &nodes)?;
    let routes = root.sections("route")?;
    let media = (&links[..], &radios[..], &nets[..]);
    let routes = routes.iter().map(|it| reader.route(it, media)).collect::<Result<_, _>>()?;
    let tunnels = root.sections("tunnel")?;
    let tunnels = tunnels.iter().map(|it| reader.tunnel(it)).collect::<Result<_, _>>()?;
    let tcpnc_tunnels = root.sections("tcpnc-tunnel")?;
    let tcpnc_tunnels = tcpnc_tunnels.iter().map(|it| reader.tcpnc_tunnel(it));
    let tcpnc_tunnels = tcpnc_tunnels.collect::<Result<_, _>>()?;
    let mut addresses = 1..;
    let frequencies = root.sections("hf")?;
    let frequencies = frequencies.iter().map(|it| Frequency::read(it, &reader, &mut addresses));
    let frequencies = frequencies.collect::<Result<_, _>>()?;
    let usual = match &defaults {
        Some(defaults) => defaults.section("tcp")?,
        None => None,
    };
    if let Some(usual) = &usual {
        usual.apply(&tcp::PARAMETERS, &mut tcp::Config::default())?;
    }
    let mut flows = Flows::default();
    let transfers = root.sections("tcp")?;
    let transfers =
        transfers.iter().map(|it| reader.transfer(it, usual.as_ref(), media, &mut flows));
    let transfers = transfers.collect::<Result<Vec<_>, _>>()?;
    let streams = root.sections("udp")?;
    let streams = streams.iter().map(|it| reader.stream(it, &mut flows));
    let streams = streams.collect::<Result<Vec<_>, _>>()?;
    let bgp = reader.bgp(&root, usual.as_ref(), media)?;
    let messages = reader.messages(&root, usual.as_ref(), media)?;
    let plan = Plan {
        duration,
        seed: seed(&root)?,
        routing,
        follow_every: follow_every(&root)?,
        nodes,
        links,
        radios,
        nets,
        routes,
        tunnels,
        tcpnc_tunnels,
        frequencies,
        transfers,
        streams,
        passive_opens: tactical::passive_opens(&root)?,
        bgp,
        messages,
        notes: traces.notes(),
    };
    document.finish()?;
    expect_marks(&root, &plan)?;
    Ok(plan)
}

/// Complains of ECN where nothing on the way marks packets.
fn expect_marks(root: &Section<'_>, plan: &Plan) -> Result<(), Complaint> {
    let links = plan.links.iter().flat_map(|link| [&link.config.near, &link.config.far]);
    let mut interfaces = links.chain(plan.radios.iter().map(|radio| &radio.interface));
    let has_marks = interfaces.any(|interface| interface.mark_at.is_some())
        || plan.nodes.iter().any(|node| node.hbh.is_some())
        || !plan.tunnels.is_empty();
    if has_marks {
        return Ok(());
    }
    let mut tables = Vec::new();
    if let Some(defaults) = root.section("defaults")? {
        tables.extend(defaults.section("tcp")?);
    }
    for list in ["tcp", "tcpnc-tunnel"] {
        for section in root.sections(list)? {
            tables.extend(section.section("options")?);
        }
    }
    for name in ["bgp", "messages"] {
        if let Some(section) = root.section(name)? {
            tables.extend(section.section("options")?);
        }
    }
    for table in tables {
        if let Some(entry) = table.get("ecn")?.filter(|it| it.written() == Written::Flag(true)) {
            let what = "nothing here marks packets: no link or radio has mark-at, no node HBH, and there is no tunnel";
            return Err(entry.complain(what));
        }
    }
    Ok(())
}

fn duration(root: &Section<'_>) -> Result<Duration, Complaint> {
    let Some(entry) = root.get("duration")? else { return Ok(DURATION) };
    let Span(duration) = entry.quantity()?;
    if duration.is_zero() {
        return Err(entry.complain("a run takes more than no time"));
    }
    Ok(duration)
}

fn follow_every(root: &Section<'_>) -> Result<Duration, Complaint> {
    const KIND: Kind =
        Kind::Period { least: Duration::from_millis(1), most: Duration::from_secs(3_600) };
    let entry = root.get("follow-every")?;
    entry.map_or(Ok(FOLLOW_EVERY), |entry| Ok(entry.read(&KIND)?.period()))
}

/// A number, in quotes if TOML has none so great.
fn seed(root: &Section<'_>) -> Result<u64, Complaint> {
    let Some(entry) = root.get("seed")? else { return Ok(1) };
    match entry.written() {
        Written::Text(_) => entry.parsed(),
        _ => entry.count(0..=i64::MAX.unsigned_abs()),
    }
}

impl Reader<'_> {
    fn links(
        &mut self,
        root: &Section<'_>,
        defaults: Option<&Section<'_>>,
    ) -> Result<Vec<Link>, Complaint> {
        let mut usual = link::Direction::default();
        if let Some(section) = defaults.map_or(Ok(None), |it| it.section("link"))? {
            usual.read(&section)?;
        }
        let mut links = Vec::new();
        for section in root.sections("link")? {
            let [a, b] = section.needed("between")?.pair()?;
            let ends = [self.node(&a)?, self.node(&b)?];
            if ends[0] == ends[1] {
                return Err(b.complain("a link joins two different nodes"));
            }
            self.join(ends);
            let is_noticed = section.get("noticed")?.map_or(Ok(true), |it| it.flag())?;
            links.push(Link { ends, config: link::read(&section, &usual)?, is_noticed });
        }
        Ok(links)
    }

    fn nodes(&self, root: &Section<'_>) -> Result<Vec<Node>, Complaint> {
        let hbh_of = |section: &Section<'_>, base: Option<hbh::Config>| {
            let usual = hbh::Config::new(hbh::Profile::Default);
            layer(section, "hbh", &hbh::PARAMETERS, base.unwrap_or(usual))
        };
        let tcpnc_of = |section: &Section<'_>, base: Option<tcpnc::Config>| {
            layer(section, "tcpnc", &tcpnc::PARAMETERS, base.unwrap_or_default())
        };
        let (hbh, tcpnc) = (hbh_of(root, None)?.flatten(), tcpnc_of(root, None)?.flatten());
        let node = |name: &str| Node { name: name.to_owned(), hbh, tcpnc, ..Node::default() };
        let mut nodes: Vec<Node> = self.names().into_iter().map(node).collect();
        for entry in root.section("node")?.map(|it| it.entries()).unwrap_or_default() {
            let index = self.named(entry.name(), |what| entry.complain_of_key(what))?;
            let (section, node) = (entry.section()?, &mut nodes[index]);
            for address in section.get("addresses")?.map_or(Ok(Vec::new()), |it| it.list())? {
                self.expect_link(index, entry.name(), &address)?;
                node.addresses.push(node_address(&address)?);
            }
            node.hbh = hbh_of(&section, hbh)?.unwrap_or(hbh);
            node.tcpnc = tcpnc_of(&section, tcpnc)?.unwrap_or(tcpnc);
        }
        Ok(nodes)
    }

    fn route(
        &self,
        section: &Section<'_>,
        (links, radios, nets): (&[Link], &[Radio], &[Net]),
    ) -> Result<Route, Complaint> {
        let (node, to) = (section.needed("node")?, section.needed("to")?);
        let index = self.node(&node)?;
        let target = match (to.text()?.parse(), to.text()?.parse()) {
            (Ok(prefix), _) => Target::Prefix(prefix),
            (_, Ok(address)) => Target::Prefix(Prefix::host(address)),
            _ => Target::Node(self.node(&to)?),
        };
        let via = match (section.get("via")?, flag(section, "remove")?) {
            (Some(via), false) => {
                let neighbour = self.node(&via)?;
                let joins = |link: &&Link| {
                    link.ends == [index, neighbour] || link.ends == [neighbour, index]
                };
                let is_on = |radio: &Radio, node| radio.stations.iter().any(|it| it.node == node);
                let reaches = |radio: &Radio| is_on(radio, index) && is_on(radio, neighbour);
                let holds =
                    |net: &Net| [index, neighbour].iter().all(|it| net.stations.contains(it));
                let is_joined = links.iter().find(joins).is_some()
                    || radios.iter().any(reaches)
                    || nets.iter().any(holds);
                if !is_joined {
                    let (node, via_name) = (node.text()?, via.text()?);
                    let what = format!("no link, radio or net joins \"{node}\" and \"{via_name}\"");
                    return Err(via.complain(what));
                }
                Some(neighbour)
            }
            (None, true) => None,
            _ => return Err(node.complain("a route has either via or remove = true")),
        };
        let metric = number(section, "metric", 0, u32::MAX.into())?;
        let at = section.get("at")?.map(|at| self.time_within(&at)).transpose()?;
        Ok(Route { at: at.unwrap_or_default(), node: index, to: target, via, metric })
    }

    fn tunnel(&self, section: &Section<'_>) -> Result<Tunnel, Complaint> {
        let ends = self.apart(section.needed("between")?.pair()?, "a tunnel")?;
        let behind = |side: &Entry<'_>| {
            let node = |name: &Entry<'_>| {
                let node = self.node(name)?;
                if ends.contains(&node) {
                    return Err(name.complain("an end of a tunnel is not behind it"));
                }
                Ok(node)
            };
            side.list()?.iter().map(node).collect::<Result<Vec<_>, _>>()
        };
        let [near, far] = section.needed("behind")?.pair()?;
        let mut config = nc::Config::default();
        section.apply(&nc::PARAMETERS, &mut config)?;
        let uses_all_links = flag(section, "all-links")?;
        Ok(Tunnel { ends, behind: [behind(&near)?, behind(&far)?], uses_all_links, config })
    }

    fn tcpnc_tunnel(&self, section: &Section<'_>) -> Result<TcpncTunnel, Complaint> {
        let ends = self.apart(section.needed("between")?.pair()?, "a tunnel")?;
        let mut tunnel = TcpncTunnel::new(ends);
        if let Some(options) = section.section("options")? {
            options.apply(&tcp::PARAMETERS, &mut tunnel.tcp)?;
        }
        if let Some(below) = section.section("tcpnc")? {
            below.apply(&tcpnc::PARAMETERS, &mut tunnel.layer)?;
        }
        Ok(tunnel)
    }

    fn transfer(
        &self,
        section: &Section<'_>,
        usual: Option<&Section<'_>>,
        media: Media<'_>,
        flows: &mut Flows,
    ) -> Result<Transfer, Complaint> {
        let start = section.get("start")?.map(|it| self.time_within(&it)).transpose()?;
        let flow = self.flow(section, flows, "tcp", start.unwrap_or_default())?;
        let mut tcp = Plan::usual_tcp(media, [flow.from, flow.to]);
        let options = section.section("options")?;
        for options in [usual, options.as_ref()].into_iter().flatten() {
            options.apply(&tcp::PARAMETERS, &mut tcp)?;
        }
        tcp.ip.dscp = dscp(section)?.unwrap_or(tcp.ip.dscp);
        let octets = most(section, "octets")?;
        if octets.is_none() && timeless::joins_without_time(media, [flow.from, flow.to]) {
            let what = "a transfer without `octets` never ends here, and takes no time: the links on its way have \
                        neither rate nor delay; give one of them either, or the transfer `octets`";
            return Err(section.needed("to")?.complain(what));
        }
        Ok(Transfer { flow, octets, tcp })
    }

    fn stream(&self, section: &Section<'_>, flows: &mut Flows) -> Result<Stream, Complaint> {
        let (start, stop) = self.times(section)?;
        let flow = self.flow(section, flows, "udp", start)?;
        let payload = section.needed("payload")?.read(&PAYLOAD)?.count();
        let interval = match section.get("interval")? {
            Some(interval) if section.get("rate")?.is_none() => interval.read(&INTERVAL)?.period(),
            Some(interval) => return Err(interval.complain("a stream has either this or a rate")),
            None => {
                let rate = section.needed("rate")?;
                match rate.quantity()? {
                    BitRate::Unlimited => {
                        return Err(rate.complain("a stream has a rate, such as 64kbit"));
                    }
                    rate => rate.time_for(payload),
                }
            }
        };
        Ok(Stream {
            flow,
            payload,
            interval,
            stop,
            count: most(section, "count")?,
            dscp: dscp(section)?.unwrap_or_default(),
            is_answered: flag(section, "answered")?,
        })
    }

    /// Reads the properties of flows of all kinds.
    fn flow(
        &self,
        section: &Section<'_>,
        flows: &mut Flows,
        kind: &'static str,
        start: Time,
    ) -> Result<Flow, Complaint> {
        let ends = [section.needed("from")?, section.needed("to")?];
        let place = ends[1].clone();
        let usual = format!("{kind} {} to {}", ends[0].text()?, ends[1].text()?);
        let [from, to] = self.apart(ends, "a flow")?;
        let port = |key| section.get(key)?.map(|port| port.count(1..=65_535)).transpose();
        let (asked, from_port) = (port("port")?, port("from-port")?);
        let port = flows.take((kind, to), asked, from_port);
        let port = port.map_err(|what| place.complain(what))?;
        let given = names::name(section)?;
        let name = flows.name(given, usual).map_err(|what| {
            let name = section.get("name").ok().flatten();
            name.unwrap_or(place).complain(what)
        })?;
        Ok(Flow { name, from, to, port, from_port, ipv6: flag(section, "ipv6")?, start })
    }

    /// Finds two different nodes joined by links, as the ends of `what`.
    fn apart(&self, [a, b]: [Entry<'_>; 2], what: &str) -> Result<[usize; 2], Complaint> {
        let ends = [self.node(&a)?, self.node(&b)?];
        if ends[0] == ends[1] {
            return Err(b.complain(format!("{what} joins two different nodes")));
        }
        let ends = [self.linked_node(&a)?, self.linked_node(&b)?];
        self.expect_joined(ends, &b)?;
        Ok(ends)
    }
}

/// Octets of a datagram.
pub const PAYLOAD: Kind = Kind::Count { least: 16, most: 65_000, unit: "octets" };

/// The time from one datagram to the next.
pub const INTERVAL: Kind =
    Kind::Period { least: Duration::from_nanos(1), most: Duration::from_secs(86_400) };

/// Reads the parameters of a protocol of nodes, if the section switches it on; missing parameters come from `base`.
fn layer<C>(
    section: &Section<'_>,
    key: &str,
    table: &Table<C>,
    mut base: C,
) -> Result<Option<Option<C>>, Complaint> {
    let Some(entry) = section.get(key)? else { return Ok(None) };
    let Some(parameters) = entry.switch()? else { return Ok(Some(None)) };
    if let Some(parameters) = parameters {
        parameters.apply(table, &mut base)?;
    }
    Ok(Some(Some(base)))
}

fn node_address(entry: &Entry<'_>) -> Result<IpAddr, Complaint> {
    let ip: IpAddr = entry.parsed()?;
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
        return Err(entry.complain(format!("{ip} is not the address of a node")));
    }
    Ok(ip)
}

fn dscp(section: &Section<'_>) -> Result<Option<u8>, Complaint> {
    section.get("dscp")?.map(|dscp| dscp.count(0..=MAX_DSCP)).transpose()
}

fn flag(section: &Section<'_>, key: &str) -> Result<bool, Complaint> {
    section.get(key)?.map_or(Ok(false), |flag| flag.flag())
}

/// A number that may be missing.
fn most(section: &Section<'_>, key: &str) -> Result<Option<u64>, Complaint> {
    section.get(key)?.map(|it| it.count(0..=i64::MAX.unsigned_abs())).transpose()
}

fn number<T: Default + TryFrom<u64>>(
    section: &Section<'_>,
    key: &str,
    otherwise: u64,
    most: u64,
) -> Result<T, Complaint> {
    match section.get(key)? {
        Some(number) => number.count(0..=most),
        None => Ok(T::try_from(otherwise).unwrap_or_default()),
    }
}

/// Names and ports taken by the flows read so far; both identify a flow.
#[derive(Debug, Default)]
struct Flows {
    /// The ports that flows of a kind come from, for each port of a receiver.
    ports: BTreeMap<(&'static str, usize, u16), BTreeSet<u16>>,
    names: BTreeSet<String>,
    /// How many flows of each kind there are.
    counts: BTreeMap<&'static str, u16>,
}

/// What `lab tune --flow` calls all flows of a kind.
const KINDS: [&str; 4] = ["tcp", "udp", "bgp", "messages"];

impl Flows {
    /// The port asked for, or the next that is free. Several flows may go to one if they come from different
    /// ports.
    fn take(
        &mut self,
        (kind, node): (&'static str, usize),
        asked: Option<u16>,
        from_port: Option<u16>,
    ) -> Result<u16, String> {
        let count = self.counts.entry(kind).or_default();
        let from = from_port.unwrap_or(SOURCE_PORTS.saturating_add(*count));
        *count += 1;
        let is_free =
            |port: u16| KINDS.iter().all(|it| !self.ports.contains_key(&(*it, node, port)));
        let port = match asked {
            Some(port) => port,
            None => {
                (FIRST_PORT..u16::MAX).find(|port| is_free(*port)).ok_or("all ports are taken")?
            }
        };
        if !self.ports.entry((kind, node, port)).or_default().insert(from) {
            return Err(format!("another flow goes to port {port} from port {from} already"));
        }
        Ok(port)
    }

    /// The name of a flow: the one that it is given, or a number where several go by the usual one.
    fn name(&mut self, given: Option<String>, usual: String) -> Result<Option<String>, String> {
        if let Some(name) = given {
            if KINDS.contains(&name.as_str()) {
                return Err(format!("\"{name}\" stands for all flows of a kind"));
            }
            if !self.names.insert(name.clone()) {
                return Err(format!("another flow is called \"{name}\""));
            }
            return Ok(Some(name));
        }
        if self.names.insert(usual.clone()) {
            return Ok(None);
        }
        let numbered = (2..=self.names.len() + 1).map(|number| format!("{usual} {number}"));
        let name = numbered.into_iter().find(|name| !self.names.contains(name));
        let name = name.unwrap_or(usual);
        self.names.insert(name.clone());
        Ok(Some(name))
    }
}

//! Writes a plan as a scenario file, without parameters that have their defaults.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use anyhow::Context as _;
use base::parameter::{Table, Value};
use base::time::Time;
use tcp::tcpnc;
use tunnel as nc;

use super::hf::Frequency;
use super::link::{self, Direction};
use super::plan::{DURATION, FOLLOW_EVERY, Flow, Plan, Target, TcpncTunnel};
use super::{routing, tactical};

impl Plan {
    /// The file that reads back to this plan.
    ///
    /// # Errors
    /// When the plan says what no file can say.
    pub fn to_toml(&self) -> anyhow::Result<String> {
        let text = File(self).to_string();
        let read = Self::parse(Path::new("scenario.toml"), text.clone());
        let read = read.context("no file can say this")?;
        anyhow::ensure!(read == self.named_as(&read), "some parameter of this scenario has no key");
        Ok(text)
    }

    /// The same with the names that the reader gives to flows without one, where several have the same ends.
    fn named_as(&self, read: &Self) -> Self {
        let mut named = self.clone();
        let own = named.transfers.iter_mut().map(|it| &mut it.flow);
        let own = own.chain(named.streams.iter_mut().map(|it| &mut it.flow));
        let given = read.transfers.iter().map(|it| &it.flow);
        for (own, read) in own.zip(given.chain(read.streams.iter().map(|it| &it.flow))) {
            if own.name.is_none() {
                own.name.clone_from(&read.name);
            }
        }
        named
    }
}

struct File<'a>(&'a Plan);

impl Display for File<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Plan { duration, seed, routing, follow_every, nodes, .. } = self.0;
        writeln!(f, "nodes = {}", self.names(0..nodes.len()))?;
        if *duration != DURATION {
            writeln!(f, "duration = {}", Value::from(*duration))?;
        }
        match i64::try_from(*seed) {
            Ok(seed) => writeln!(f, "seed = {seed}")?,
            Err(_) => writeln!(f, "seed = \"{seed}\"")?,
        }
        routing::write(f, routing, self.0.radios.len())?;
        if *follow_every != FOLLOW_EVERY {
            writeln!(f, "follow-every = {}", Value::from(*follow_every))?;
        }
        tactical::write_passive_opens(f, self.0.passive_opens)?;
        self.nodes(f)?;
        self.links(f)?;
        for radio in &self.0.radios {
            radio.write(f, routing, |node| self.name(node))?;
        }
        for net in &self.0.nets {
            net.write(f, |node| self.name(node))?;
        }
        self.routes(f)?;
        self.tunnels(f)?;
        for frequency in &self.0.frequencies {
            self.frequency(f, frequency)?;
        }
        self.flows(f)?;
        tactical::write(f, self.0, |nodes| self.names(nodes.iter().copied()))
    }
}

impl File<'_> {
    fn name(&self, node: usize) -> String {
        format!("{:?}", self.0.nodes[node].name)
    }

    fn names(&self, nodes: impl IntoIterator<Item = usize>) -> String {
        let names: Vec<String> = nodes.into_iter().map(|node| self.name(node)).collect();
        format!("[{}]", names.join(", "))
    }

    fn nodes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let nodes = &self.0.nodes;
        let [hbh, layer] = [
            nodes.iter().all(|it| it.hbh == nodes[0].hbh),
            nodes.iter().all(|it| it.tcpnc == nodes[0].tcpnc),
        ];
        if let Some(first) = nodes.first() {
            layers(f, first.hbh.filter(|_| hbh), first.tcpnc.filter(|_| layer))?;
        }
        for node in nodes {
            let own = (node.hbh.filter(|_| !hbh), node.tcpnc.filter(|_| !layer));
            let is_plain = node.motion.is_none() && !node.is_gateway;
            if node.addresses.is_empty() && own == (None, None) && is_plain {
                continue;
            }
            writeln!(f, "\n[node.{:?}]", node.name)?;
            if !node.addresses.is_empty() {
                let addresses: Vec<String> =
                    node.addresses.iter().map(|it| format!("\"{it}\"")).collect();
                writeln!(f, "addresses = [{}]", addresses.join(", "))?;
            }
            if node.is_gateway {
                writeln!(f, "gateway = true")?;
            }
            if let Some(motion) = &node.motion {
                motion.write(f)?;
            }
            layers(f, own.0, own.1)?;
        }
        Ok(())
    }

    fn links(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for link in &self.0.links {
            writeln!(f, "\n[[link]]\nbetween = {}", self.names(link.ends))?;
            let [there, back] = Direction::of(&link.config).map(|it| it.differences());
            for (name, value) in there.iter().filter(|it| back.contains(it)) {
                writeln!(f, "{name} = {value}")?;
            }
            for (prefix, own, other) in [("there", &there, &back), ("back", &back, &there)] {
                for (name, value) in own.iter().filter(|it| !other.contains(it)) {
                    writeln!(f, "{prefix}.{name} = {value}")?;
                }
            }
            if link.config.cost != link::COST {
                writeln!(f, "cost = {}", link.config.cost)?;
            }
            if !link.is_noticed {
                writeln!(f, "noticed = false")?;
            }
        }
        Ok(())
    }

    fn routes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for route in &self.0.routes {
            let to = match route.to {
                Target::Node(node) => self.name(node),
                Target::Prefix(prefix) => format!("\"{prefix}\""),
            };
            writeln!(f, "\n[[route]]\nnode = {}\nto = {to}", self.name(route.node))?;
            match route.via {
                Some(via) => writeln!(f, "via = {}", self.name(via))?,
                None => writeln!(f, "remove = true")?,
            }
            time(f, "at", route.at)?;
            if route.metric != 0 {
                writeln!(f, "metric = {}", route.metric)?;
            }
        }
        Ok(())
    }

    fn tunnels(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for tunnel in &self.0.tunnels {
            writeln!(f, "\n[[tunnel]]\nbetween = {}", self.names(tunnel.ends))?;
            let [near, far] = [0, 1].map(|side| self.names(tunnel.behind[side].iter().copied()));
            writeln!(f, "behind = [{near}, {far}]")?;
            if tunnel.uses_all_links {
                writeln!(f, "all-links = true")?;
            }
            parameters(f, "", &nc::PARAMETERS, &nc::Config::default(), &tunnel.config)?;
        }
        for TcpncTunnel { ends, tcp, layer } in &self.0.tcpnc_tunnels {
            let usual = TcpncTunnel::new(*ends);
            writeln!(f, "\n[[tcpnc-tunnel]]\nbetween = {}", self.names(*ends))?;
            parameters(f, "options.", &tcp::PARAMETERS, &usual.tcp, tcp)?;
            parameters(f, "tcpnc.", &tcpnc::PARAMETERS, &usual.layer, layer)?;
        }
        Ok(())
    }

    fn frequency(&self, f: &mut Formatter<'_>, frequency: &Frequency) -> fmt::Result {
        let hosts = frequency.stations.iter().map(|station| station.host);
        writeln!(f, "\n[[hf]]\nstations = {}", self.names(hosts))?;
        for station in frequency.stations.iter().filter(|it| !it.behind.is_empty()) {
            let behind = self.names(station.behind.iter().copied());
            writeln!(f, "behind.{} = {behind}", self.name(station.host))?;
        }
        writeln!(f, "channel = \"{}\"", frequency.channel)?;
        for (name, value) in frequency.differences() {
            writeln!(f, "{name} = {value}")?;
        }
        Ok(())
    }

    fn flows(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for transfer in &self.0.transfers {
            self.flow(f, "tcp", &transfer.flow)?;
            if let Some(octets) = transfer.octets {
                writeln!(f, "octets = {octets}")?;
            }
            let Flow { from, to, .. } = transfer.flow;
            let Plan { links, radios, nets, .. } = self.0;
            let usual = Plan::usual_tcp((links, radios, nets), [from, to]);
            parameters(f, "options.", &tcp::PARAMETERS, &usual, &transfer.tcp)?;
        }
        for stream in &self.0.streams {
            self.flow(f, "udp", &stream.flow)?;
            writeln!(f, "payload = {}", stream.payload)?;
            writeln!(f, "interval = {}", Value::from(stream.interval))?;
            if let Some(stop) = stream.stop {
                writeln!(f, "stop = {}", Value::from(stop.since(Time::ZERO)))?;
            }
            if let Some(count) = stream.count {
                writeln!(f, "count = {count}")?;
            }
            if stream.dscp != 0 {
                writeln!(f, "dscp = {}", stream.dscp)?;
            }
            if stream.is_answered {
                writeln!(f, "answered = true")?;
            }
        }
        Ok(())
    }

    fn flow(&self, f: &mut Formatter<'_>, kind: &str, flow: &Flow) -> fmt::Result {
        let Flow { name, from, to, port, from_port, ipv6, start } = flow;
        let [from, to] = [from, to].map(|node| self.name(*node));
        writeln!(f, "\n[[{kind}]]\nfrom = {from}\nto = {to}\nport = {port}")?;
        if let Some(name) = name {
            writeln!(f, "name = {name:?}")?;
        }
        if let Some(port) = from_port {
            writeln!(f, "from-port = {port}")?;
        }
        if *ipv6 {
            writeln!(f, "ipv6 = true")?;
        }
        time(f, "start", *start)
    }
}

/// Writes the protocols that nodes run.
fn layers(
    f: &mut Formatter<'_>,
    hbh: Option<hbh::Config>,
    tcpnc: Option<tcpnc::Config>,
) -> fmt::Result {
    switch(f, "hbh", &hbh::PARAMETERS, hbh, &hbh::Config::new(hbh::Profile::Default))?;
    switch(f, "tcpnc", &tcpnc::PARAMETERS, tcpnc, &tcpnc::Config::default())
}

/// A time, unless it is the beginning.
fn time(f: &mut Formatter<'_>, key: &str, time: Time) -> fmt::Result {
    if time == Time::ZERO {
        return Ok(());
    }
    writeln!(f, "{key} = {}", Value::from(time.since(Time::ZERO)))
}

/// Writes a protocol that is switched on, with its parameters.
fn switch<C: Clone>(
    f: &mut Formatter<'_>,
    key: &str,
    table: &Table<C>,
    config: Option<C>,
    usual: &C,
) -> fmt::Result {
    let Some(config) = config else { return Ok(()) };
    if table.differences(usual, &config).is_empty() {
        return writeln!(f, "{key} = true");
    }
    parameters(f, &format!("{key}."), table, usual, &config)
}

fn parameters<C: Clone>(
    f: &mut Formatter<'_>,
    prefix: &str,
    table: &Table<C>,
    usual: &C,
    config: &C,
) -> fmt::Result {
    for (name, value) in table.differences(usual, config) {
        writeln!(f, "{prefix}{name} = {value}")?;
    }
    Ok(())
}

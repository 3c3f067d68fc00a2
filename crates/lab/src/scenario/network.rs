//! A plan becomes a network, runs, and is asked what happened.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::Context as _;
use proto::time::Time;
use sim::app::{stream, transfer};
use sim::hf::StationId;
use sim::{AppId, Change, HfId, LinkId, NodeId, Prefix, World};

use super::hf::{FrequencyReport, HfReport};
use super::plan::{Flow, Plan, Route, Routing, Stream, Target, Transfer};
use super::report::{FlowReport, Report, StreamReport, TransferReport};

/// How much of a run happens between two looks at whether it is over.
const STRIDES: u32 = 1_000;
/// The first port that flows send from.
const SOURCE_PORTS: u16 = 40_000;

/// A plan, built.
struct Network<'a> {
    plan: &'a Plan,
    world: World,
    nodes: Vec<NodeId>,
    frequencies: Vec<HfId>,
    transfers: Vec<[AppId; 2]>,
    streams: Vec<[AppId; 2]>,
}

impl Plan {
    /// Runs the scenario; captures go to the folder `captures`, one file a node.
    ///
    /// # Errors
    /// When a capture cannot be written, or a flow has no address to go to.
    pub fn run(&self, seed: Option<u64>, captures: Option<&Path>) -> anyhow::Result<Report> {
        let seed = seed.unwrap_or(self.seed);
        let mut network = Network::build(self, seed)?;
        if let Some(folder) = captures {
            let failed = || format!("cannot capture into {}", folder.display());
            network.capture(folder).with_context(failed)?;
        }
        network.run();
        if let Some(folder) = captures {
            let failed = || format!("cannot capture into {}", folder.display());
            network.world.finish_captures().with_context(failed)?;
        }
        Ok(network.report(seed))
    }
}

impl<'a> Network<'a> {
    fn build(plan: &'a Plan, seed: u64) -> anyhow::Result<Self> {
        let mut world = World::new(seed);
        let nodes: Vec<NodeId> = plan.nodes.iter().map(|node| world.add_node(&node.name)).collect();
        let links: Vec<LinkId> = plan
            .links
            .iter()
            .map(|link| {
                let [a, b] = link.ends.map(|end| nodes[end]);
                world.connect(a, b, &link.config)
            })
            .collect();
        let mut network = Self {
            plan,
            world,
            nodes,
            frequencies: Vec::new(),
            transfers: Vec::new(),
            streams: Vec::new(),
        };
        network.add_frequencies();
        network.add_addresses(&links)?;
        network.add_routes();
        network.add_tunnels()?;
        network.plan_outages(&links);
        for (node, id) in plan.nodes.iter().zip(network.nodes.clone()) {
            if let Some(config) = node.hbh {
                network.world.enable_hbh(id, config);
            }
        }
        network.add_flows()?;
        Ok(network)
    }

    /// Addresses that the file gives, on the node's first interface.
    fn add_addresses(&mut self, links: &[LinkId]) -> anyhow::Result<()> {
        for (index, node) in self.plan.nodes.iter().enumerate() {
            let mut ends = self.plan.links.iter().zip(links);
            let port = ends.find_map(|(link, id)| {
                let side = link.ends.iter().position(|end| *end == index)?;
                Some(self.world.ends(*id)[side])
            });
            let port = port.or_else(|| {
                let mut frequencies = self.plan.frequencies.iter().zip(&self.frequencies);
                frequencies.find_map(|(frequency, id)| {
                    let mut hosts = frequency.stations.iter().map(|station| station.host);
                    let place = hosts.position(|host| host == index)?;
                    Some(self.world.hf_port(*id, StationId(place)))
                })
            });
            for address in &node.addresses {
                let port = port.ok_or_else(|| {
                    anyhow::anyhow!(
                        "node \"{}\" has an address and no link to put it on",
                        node.name
                    )
                })?;
                self.world.add_address(port, *address);
            }
        }
        Ok(())
    }

    fn add_frequencies(&mut self) {
        for frequency in &self.plan.frequencies {
            let id = frequency.build(&mut self.world, &self.nodes, |world, node| {
                let given = self.plan.nodes[node].addresses.iter().copied();
                given.chain(world.addresses(self.nodes[node])).map(Prefix::host).collect()
            });
            self.frequencies.push(id);
        }
    }

    fn add_routes(&mut self) {
        if self.plan.routing != Routing::None {
            self.world.auto_routes();
        }
        for route in &self.plan.routes {
            for change in self.changes(*route) {
                self.world.at(route.at, change);
            }
        }
    }

    fn add_tunnels(&mut self) -> anyhow::Result<()> {
        for tunnel in &self.plan.tunnels {
            let [a, b] = tunnel.ends.map(|end| self.nodes[end]);
            let added = self.world.add_tunnel(a, b, tunnel.config);
            let id = added.with_context(|| {
                let [a, b] = tunnel.ends.map(|end| &self.plan.nodes[end].name);
                format!("no addresses for the tunnel between \"{a}\" and \"{b}\"")
            })?;
            for (end, behind) in [(a, &tunnel.behind[1]), (b, &tunnel.behind[0])] {
                for node in behind {
                    let addresses: Vec<IpAddr> = self.world.addresses(self.nodes[*node]).collect();
                    for address in addresses {
                        self.world.route_into_tunnel(end, Prefix::host(address), id);
                    }
                }
            }
        }
        Ok(())
    }

    /// What a route means: one to every address of a node, or one to a prefix.
    fn changes(&self, route: Route) -> Vec<Change> {
        let node = self.nodes[route.node];
        let prefixes: Vec<Prefix> = match route.to {
            Target::Node(target) => {
                self.world.addresses(self.nodes[target]).map(Prefix::host).collect()
            }
            Target::Prefix(prefix) => vec![prefix],
        };
        let change = |prefix| match route.via {
            Some(via) => Change::Route { node, prefix, via: self.nodes[via], metric: route.metric },
            None => Change::Unroute { node, prefix },
        };
        prefixes.into_iter().map(change).collect()
    }

    /// The ends of a link notice when both its directions are down, and routes may follow.
    fn plan_outages(&mut self, links: &[LinkId]) {
        for (link, id) in self.plan.links.iter().zip(links) {
            let down = link.config.there.outages.spans();
            if down != link.config.back.outages.spans() {
                continue;
            }
            for span in down {
                for (time, change) in
                    [(span.start, Change::LinkDown(*id)), (span.end, Change::LinkUp(*id))]
                {
                    self.world.at(time, change);
                    if self.plan.routing == Routing::Follow {
                        self.world.at(time, Change::AutoRoutes);
                    }
                }
            }
        }
    }

    fn add_flows(&mut self) -> anyhow::Result<()> {
        for (index, transfer) in self.plan.transfers.iter().enumerate() {
            let apps = self.add_transfer(transfer, source_port(index))?;
            self.transfers.push(apps);
        }
        for (index, stream) in self.plan.streams.iter().enumerate() {
            let apps = self.add_stream(stream, source_port(index))?;
            self.streams.push(apps);
        }
        Ok(())
    }

    fn add_transfer(&mut self, transfer: &Transfer, port: u16) -> anyhow::Result<[AppId; 2]> {
        let Transfer { flow, octets, tcp } = transfer;
        let destination = self.destination(flow)?;
        let sink = transfer::SinkConfig { tcp: *tcp, ..transfer::SinkConfig::new(flow.port) };
        let sender = transfer::SenderConfig {
            port,
            start: flow.start,
            tcp: *tcp,
            ..transfer::SenderConfig::new(destination, *octets)
        };
        Ok([
            self.world.add_app(self.nodes[flow.from], transfer::Sender::new(sender)),
            self.world.add_app(self.nodes[flow.to], transfer::Sink::new(sink)),
        ])
    }

    fn add_stream(&mut self, stream: &Stream, port: u16) -> anyhow::Result<[AppId; 2]> {
        let Stream { flow, payload, interval, stop, count, dscp } = stream;
        let sender = stream::SenderConfig {
            port,
            destination: self.destination(flow)?,
            payload: *payload,
            interval: *interval,
            start: flow.start,
            stop: *stop,
            count: *count,
            dscp: *dscp,
        };
        Ok([
            self.world.add_app(self.nodes[flow.from], stream::Sender::new(sender)),
            self.world.add_app(self.nodes[flow.to], stream::Sink::new(flow.port)),
        ])
    }

    fn destination(&self, flow: &Flow) -> anyhow::Result<SocketAddr> {
        let wanted = |address: &IpAddr| address.is_ipv6() == flow.ipv6;
        let given = self.plan.nodes[flow.to].addresses.iter().copied();
        let own = self.world.addresses(self.nodes[flow.to]);
        let address = given.chain(own).find(wanted).ok_or_else(|| {
            anyhow::anyhow!("flow \"{}\" goes to a node without an address", flow.name)
        })?;
        Ok(SocketAddr::new(address, flow.port))
    }

    fn capture(&mut self, folder: &Path) -> io::Result<()> {
        for node in &self.nodes {
            self.world.capture_node(*node, folder)?;
        }
        for hf in &self.frequencies {
            self.world.capture_hf(*hf, folder)?;
        }
        Ok(())
    }

    /// Runs until all flows are over and nothing is under way, or the time is up.
    fn run(&mut self) {
        let end = Time::ZERO + self.plan.duration;
        let stride = self.plan.duration / STRIDES;
        while self.world.now() < end && !self.is_over() {
            let Some(next) = self.world.next_event() else { break };
            let next = next.max(self.world.now() + stride);
            self.world.run_until(next.min(end));
        }
    }

    fn is_over(&self) -> bool {
        let now = self.world.now();
        let transfers = self.transfers.iter().all(|[sender, _]| {
            self.world.transfer_sender(*sender).is_none_or(|stats| stats.ended.is_some())
        });
        let streams = self.plan.streams.iter().zip(&self.streams).all(|(stream, [sender, _])| {
            let sent = self.world.app(*sender).map(stream::Sender::stats).unwrap_or_default().sent;
            stream.stop.is_some_and(|stop| stop <= now)
                || stream.count.is_some_and(|count| sent >= count)
        });
        transfers && streams && self.world.packets_under_way() == 0
    }

    fn report(&self, seed: u64) -> Report {
        let mut flows = Vec::new();
        for (transfer, [sender, sink]) in self.plan.transfers.iter().zip(&self.transfers) {
            let sent = self.world.transfer_sender(*sender).unwrap_or_default();
            let received = self.world.transfer_sink(*sink).unwrap_or_default();
            let details = TransferReport::new(transfer.octets, &sent, &received);
            flows.push(self.flow(&transfer.flow, Some(details), None));
        }
        for (stream, [sender, sink]) in self.plan.streams.iter().zip(&self.streams) {
            let sent = self.world.app(*sender).map(stream::Sender::stats).unwrap_or_default();
            let received = self.world.app(*sink).map(stream::Sink::stats).unwrap_or_default();
            let details = StreamReport::new(&sent, &received);
            flows.push(self.flow(&stream.flow, None, Some(details)));
        }
        let (mut stations, mut frequencies) = (Vec::new(), Vec::new());
        for (frequency, id) in self.plan.frequencies.iter().zip(&self.frequencies) {
            let names = frequency.stations.iter().map(|it| self.plan.nodes[it.host].name.clone());
            let names: Vec<String> = names.collect();
            for (place, name) in names.iter().enumerate() {
                stations.push(HfReport::new(&self.world, *id, StationId(place), name));
            }
            frequencies.push(FrequencyReport::new(&self.world, *id, frequency, names));
        }
        Report::new(seed, flows, stations, frequencies, &self.world)
    }

    fn flow(
        &self,
        flow: &Flow,
        tcp: Option<TransferReport>,
        udp: Option<StreamReport>,
    ) -> FlowReport {
        let name = |node: usize| self.plan.nodes[node].name.clone();
        FlowReport { name: flow.name.clone(), from: name(flow.from), to: name(flow.to), tcp, udp }
    }
}

/// The port that the flow of this number sends from.
fn source_port(index: usize) -> u16 {
    u16::try_from(index).ok().and_then(|index| SOURCE_PORTS.checked_add(index)).unwrap_or(u16::MAX)
}

//! Builds a network from a plan, runs it, and reports the results.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use base::time::Time;
use sim::app::{ping, stream};
use sim::hf::StationId;
use sim::mobility::Motion;
use sim::{
    AppId, Change, CnrId, HfId, LinkId, MEETING, NodeId, Pending, Prefix, RadioId, Standstill,
    TcpncTunnel, TcpncTunnelConfig, TunnelId, World,
};

use super::hf::{FrequencyReport, HfReport};
use super::net::NetReport;
use super::plan::{self, Flow, Plan, Route, Routing, Target};
use super::radio::RadioReport;
use super::report::{FlowReport, Report, StreamReport, TransferReport};
use super::routing;
use super::tactical::Apps;
use crate::animation::{Limits, Recorder, Recording};

/// The first port that flows send from.
pub const SOURCE_PORTS: u16 = 40_000;

/// A plan, built: the network, and what became of each part of the plan.
#[derive(Debug)]
pub struct Built<'a> {
    plan: &'a Plan,
    /// How long the network ran before, so that neighbours and tunnels know each other.
    before: Duration,
    /// The network.
    pub world: World,
    /// The nodes.
    pub nodes: Vec<NodeId>,
    /// The links.
    pub links: Vec<LinkId>,
    /// The radio channels.
    pub radios: Vec<RadioId>,
    /// The combat nets.
    pub nets: Vec<CnrId>,
    /// How each node moves that is somewhere, from the time on when the network begins.
    pub motions: Vec<Option<Motion>>,
    /// The coded tunnels.
    pub tunnels: Vec<TunnelId>,
    /// The TCP/NC tunnels.
    pub tcpnc_tunnels: Vec<TcpncTunnel>,
    frequencies: Vec<HfId>,
    /// The sending and the receiving application of each transfer.
    pub transfers: Vec<[AppId; 2]>,
    /// The same of each stream.
    pub streams: Vec<[AppId; 2]>,
    /// The applications for BGP and for messages.
    pub apps: Apps,
    /// Records the run for a picture.
    recorder: Option<Recorder>,
}

/// What a run leaves.
#[derive(Debug)]
pub struct Watched {
    /// What happened.
    pub report: Report,
    /// The recording for a picture, if one was wanted.
    pub recording: Option<Recording>,
    /// Whether all captures could be written: a full disk takes nothing of the report.
    pub captured: anyhow::Result<()>,
}

impl Plan {
    /// Runs the scenario; captures go to the folder `captures`, one file a node.
    ///
    /// # Errors
    /// When a capture cannot be written, or a flow has no address to go to.
    pub fn run(&self, seed: Option<u64>, captures: Option<&Path>) -> anyhow::Result<Report> {
        let watched = self.run_watched(seed, captures, None)?;
        watched.captured?;
        Ok(watched.report)
    }

    /// The same, watched for a picture of it where `limits` says how much of it is kept.
    ///
    /// # Errors
    /// When a capture cannot be begun, a flow has no address to go to, or time comes to a standstill.
    pub fn run_watched(
        &self,
        seed: Option<u64>,
        captures: Option<&Path>,
        limits: Option<Limits>,
    ) -> anyhow::Result<Watched> {
        let seed = seed.unwrap_or(self.seed);
        let mut network = self.build(seed)?;
        network.recorder = limits.map(|limits| {
            let (cast, received) = (network.cast(), network.received_by_flows());
            Recorder::new(&mut network.world, cast, &received, limits)
        });
        if let Some(folder) = captures {
            let failed = || format!("cannot capture into {}", folder.display());
            network.capture(folder).with_context(failed)?;
        }
        network.run()?;
        let captured = network.world.finish_captures().context("cannot capture");
        let report = network.report(seed);
        let received = network.received_by_flows();
        let recorder = network.recorder.take();
        let recording = recorder.map(|recorder| recorder.finish(&mut network.world, &received));
        Ok(Watched { report, recording, captured })
    }

    /// Builds the network. Where HBH or tunnels run it has run for a while already: what the plan
    /// calls time 0 is [`Built::begin`].
    ///
    /// # Errors
    /// When a flow or a tunnel has no address to go to.
    pub fn build(&self, seed: u64) -> anyhow::Result<Built<'_>> {
        self.build_traced(seed, 0)
    }

    /// The same, which keeps so many points of each congestion window and send buffer over time.
    ///
    /// # Errors
    /// As for [`Plan::build`].
    pub fn build_traced(&self, seed: u64, points: usize) -> anyhow::Result<Built<'_>> {
        Built::new(self, seed, points)
    }
}

impl<'a> Built<'a> {
    fn new(plan: &'a Plan, seed: u64, points: usize) -> anyhow::Result<Self> {
        let has_services = !plan.tunnels.is_empty() || plan.nodes.iter().any(|it| it.hbh.is_some());
        let before = if has_services { MEETING } else { Duration::ZERO };
        let mut world = World::new(seed);
        let nodes: Vec<NodeId> = plan.nodes.iter().map(|node| world.add_node(&node.name)).collect();
        let links: Vec<LinkId> = plan
            .links
            .iter()
            .map(|link| {
                let [a, b] = link.ends.map(|end| nodes[end]);
                let mut config = link.config.clone();
                for channel in [&mut config.there, &mut config.back] {
                    channel.outages = channel.outages.later(before);
                }
                world.connect(a, b, &config)
            })
            .collect();
        let mut network = Self {
            plan,
            before,
            world,
            nodes,
            links,
            radios: Vec::new(),
            nets: Vec::new(),
            motions: Vec::new(),
            tunnels: Vec::new(),
            tcpnc_tunnels: Vec::new(),
            frequencies: Vec::new(),
            transfers: Vec::new(),
            streams: Vec::new(),
            apps: Apps::default(),
            recorder: None,
        };
        network.add_radios(seed)?;
        network.add_frequencies();
        network.add_addresses()?;
        network.add_routes();
        network.add_tunnels()?;
        network.add_tcpnc_tunnels(points)?;
        network.plan_outages();
        for (node, id) in plan.nodes.iter().zip(network.nodes.clone()) {
            if let Some(config) = node.hbh {
                network.world.enable_hbh(id, config);
            }
            if let Some(layer) = node.tcpnc {
                network.world.enable_tcpnc(id, layer);
            }
        }
        network.world.run_until(network.begin());
        for (transfer, port) in plan.transfers.iter().zip(SOURCE_PORTS..) {
            let apps = network.add_transfer(transfer, port, points)?;
            network.transfers.push(apps);
        }
        for (stream, port) in plan.streams.iter().zip(SOURCE_PORTS..) {
            let apps = network.add_stream(stream, port)?;
            network.streams.push(apps);
        }
        network.apps = network.add_tactical()?;
        Ok(network)
    }

    fn add_radios(&mut self, seed: u64) -> anyhow::Result<()> {
        let made = self.plan.motions(seed)?;
        let later = |motion: Motion| motion.later(self.before);
        self.motions = made.iter().cloned().map(|motion| motion.map(later)).collect();
        let end = Time::ZERO + self.plan.duration;
        let mut turns = BTreeSet::new();
        for radio in &self.plan.radios {
            let id = radio.build(&mut self.world, &self.nodes, &self.motions);
            self.radios.push(id);
            let changes = radio.changes(self.world.radio_ports(id), self.before);
            for (time, change) in changes {
                self.world.at(time, change);
                turns.insert(time);
            }
            let moved = radio.turns(&made, self.plan.follow_every, end);
            turns.extend(moved.into_iter().map(|time| time + self.before));
        }
        for net in &self.plan.nets {
            self.nets.push(net.build(&mut self.world, &self.nodes, &self.motions));
        }
        if self.plan.routing == Routing::Follow {
            for time in turns {
                self.world.at(time, Change::AutoRoutes);
            }
        }
        Ok(())
    }

    /// Addresses that the file gives, on the node's first interface.
    fn add_addresses(&mut self) -> anyhow::Result<()> {
        for (index, node) in self.plan.nodes.iter().enumerate() {
            let mut ends = self.plan.links.iter().zip(&self.links);
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
            let port = port.or_else(|| {
                let mut radios = self.plan.radios.iter().zip(&self.radios);
                radios.find_map(|(radio, id)| {
                    let place = radio.stations.iter().position(|it| it.node == index)?;
                    self.world.radio_ports(*id).get(place).copied()
                })
            });
            let port = port.or_else(|| {
                let mut nets = self.plan.nets.iter().zip(&self.nets);
                nets.find_map(|(net, id)| {
                    let place = net.stations.iter().position(|it| *it == index)?;
                    self.world.cnr_ports(*id).get(place).copied()
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
        match &self.plan.routing {
            Routing::None => {}
            Routing::Shortest | Routing::Follow => self.world.auto_routes(),
            Routing::Protocol(protocol) => {
                let parts = (&self.nodes[..], &self.links[..], &self.radios[..]);
                routing::start(&mut self.world, protocol, self.plan, parts);
            }
        }
        for route in &self.plan.routes {
            for change in self.changes(*route) {
                self.world.at(route.at + self.before, change);
            }
        }
    }

    fn add_tunnels(&mut self) -> anyhow::Result<()> {
        for planned in &self.plan.tunnels {
            let [a, b] = planned.ends.map(|end| self.nodes[end]);
            let added = if planned.uses_all_links {
                let all = self.plan.links.iter().zip(&self.links);
                let joins = |ends: &[usize; 2]| planned.ends.iter().all(|end| ends.contains(end));
                let joining = all.filter(|(link, _)| joins(&link.ends)).map(|(_, id)| *id);
                let joining: Vec<_> = joining.take(tunnel::PATHS).collect();
                self.world.add_tunnel_over(&joining, planned.config)
            } else {
                self.world.add_tunnel(a, b, planned.config)
            };
            let id = added.with_context(|| self.no_addresses(planned.ends))?;
            self.tunnels.push(id);
            for (end, behind) in [(a, &planned.behind[1]), (b, &planned.behind[0])] {
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

    fn add_tcpnc_tunnels(&mut self, points: usize) -> anyhow::Result<()> {
        for plan::TcpncTunnel { ends, tcp, layer } in &self.plan.tcpnc_tunnels {
            let [near, far] = ends.map(|end| self.nodes[end]);
            let usual = TcpncTunnelConfig::default();
            let config = TcpncTunnelConfig { tcp: *tcp, layer: *layer, points, ..usual };
            let added = self.world.add_tcpnc_tunnel(near, far, &config);
            self.tcpnc_tunnels.push(added.with_context(|| self.no_addresses(*ends))?);
        }
        Ok(())
    }

    fn no_addresses(&self, ends: [usize; 2]) -> String {
        let [a, b] = ends.map(|end| &self.plan.nodes[end].name);
        format!("no addresses for the tunnel between \"{a}\" and \"{b}\"")
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
    fn plan_outages(&mut self) {
        for (link, id) in self.plan.links.iter().zip(&self.links) {
            let down = link.config.there.outages.spans();
            if !link.is_noticed || down != link.config.back.outages.spans() {
                continue;
            }
            for span in down {
                for (time, change) in
                    [(span.start, Change::LinkDown(*id)), (span.end, Change::LinkUp(*id))]
                {
                    let time = time + self.before;
                    self.world.at(time, change);
                    if self.plan.routing == Routing::Follow {
                        self.world.at(time, Change::AutoRoutes);
                    }
                }
            }
        }
    }

    fn capture(&mut self, folder: &Path) -> io::Result<()> {
        for node in &self.nodes {
            self.world.capture_node(*node, folder)?;
        }
        for radio in &self.radios {
            self.world.capture_radio(*radio, folder)?;
        }
        for net in &self.nets {
            self.world.capture_cnr(*net, folder)?;
        }
        for hf in &self.frequencies {
            self.world.capture_hf(*hf, folder)?;
        }
        Ok(())
    }

    /// Runs until all flows, sessions and messages are over for good, or the time is up. The moment does not depend
    /// on how much time there would be, nor on who watches.
    ///
    /// # Errors
    /// When time comes to a standstill.
    pub(crate) fn run(&mut self) -> anyhow::Result<()> {
        let end = self.end();
        let mut pending = Pending::default();
        let mut is_over = self.world.is_at_rest(&mut pending);
        while !is_over && self.world.now() < end {
            let stride = self.recorder.as_ref().map(Recorder::stride);
            let pause = stride.map_or(end, |stride| (self.world.now() + stride).min(end));
            while !is_over && self.world.step(pause) {
                is_over = self.world.is_at_rest(&mut pending);
            }
            if let Some(standstill) = self.world.standstill() {
                return Err(self.named(standstill));
            }
            if is_over || self.world.next_event().is_none() {
                break;
            }
            self.world.run_until(pause);
            self.look();
        }
        Ok(())
    }

    /// A standstill with the flow whose packets are at it.
    fn named(&self, standstill: &Standstill) -> anyhow::Error {
        let standstill =
            Standstill { at: Time::ZERO + standstill.at.since(self.begin()), ..standstill.clone() };
        let flows = self.plan.transfers.iter().map(|it| ("tcp", &it.flow));
        let mut flows = flows.chain(self.plan.streams.iter().map(|it| ("udp", &it.flow)));
        let flow = standstill.flow.and_then(|key| {
            let is_its = |flow: &Flow| {
                [key.source_port, key.destination_port].contains(&flow.port)
                    && self
                        .world
                        .addresses(self.nodes[flow.to])
                        .any(|it| [key.source, key.destination].contains(&it))
            };
            flows.find(|(_, flow)| is_its(flow))
        });
        let flow = flow.map(|(kind, flow)| format!(" (\"{}\")", self.plan.name_of(kind, flow)));
        anyhow::anyhow!(
            "{standstill}{}: give a link between them a rate or a delay",
            flow.unwrap_or_default()
        )
    }

    /// What it was built from.
    #[must_use]
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// When the plan begins: its time 0.
    #[must_use]
    pub fn begin(&self) -> Time {
        Time::ZERO + self.before
    }

    /// The time in the run of a time in the plan.
    pub(crate) fn at(&self, planned: Time) -> Time {
        planned + self.before
    }

    /// When the run ends at the latest.
    #[must_use]
    pub fn end(&self) -> Time {
        self.begin() + self.plan.duration
    }

    /// Runs until `end`, or until `is_over` says so, which is asked once in a stride, or until
    /// nothing is left to happen, or time comes to a standstill.
    pub fn run_until(&mut self, end: Time, stride: Duration, is_over: impl Fn(&Self) -> bool) {
        while self.world.now() < end && !is_over(self) {
            let Some(next) = self.world.next_event() else { break };
            let next = next.max(self.world.now() + stride);
            self.world.run_until(next.min(end));
            if self.world.standstill().is_some() {
                break;
            }
        }
    }

    /// Has whoever watches look.
    fn look(&mut self) {
        if let Some(mut recorder) = self.recorder.take() {
            let received = self.received_by_flows();
            recorder.look(&mut self.world, &received);
            self.recorder = Some(recorder);
        }
    }

    /// What has happened so far.
    pub(crate) fn report(&self, seed: u64) -> Report {
        let mut flows = Vec::new();
        for (transfer, [sender, sink]) in self.plan.transfers.iter().zip(&self.transfers) {
            let sent = self.world.transfer_sender(*sender).unwrap_or_default();
            let received = self.world.transfer_sink(*sink).unwrap_or_default();
            let times = [self.begin() + transfer.flow.start.since(Time::ZERO), self.end()];
            let tcp = TransferReport::new(transfer.octets, &sent, &received, times);
            flows.push(FlowReport { tcp: Some(tcp), ..self.flow("tcp", &transfer.flow) });
        }
        for (stream, [sender, sink]) in self.plan.streams.iter().zip(&self.streams) {
            let sent = self.world.app(*sender).map(stream::Sender::stats).unwrap_or_default();
            let received = self.world.app(*sink).map(stream::Sink::stats).unwrap_or_default();
            let udp = match self.world.app(*sender).map(ping::Ping::stats) {
                Some(answers) => answers.into(),
                None => StreamReport::new(&sent, &received),
            };
            flows.push(FlowReport { udp: Some(udp), ..self.flow("udp", &stream.flow) });
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
        let radios = self.plan.radios.iter().zip(&self.radios).map(|(radio, id)| {
            let names = radio.stations.iter().map(|it| self.plan.nodes[it.node].name.clone());
            RadioReport::new(&self.world, *id, radio, &names.collect::<Vec<_>>())
        });
        let radios = radios.collect();
        let nets = self.plan.nets.iter().zip(&self.nets).map(|(net, id)| {
            let names = net.stations.iter().map(|it| self.plan.nodes[*it].name.clone());
            NetReport::new(&self.world, *id, net, &names.collect::<Vec<_>>())
        });
        let nets = nets.collect();
        let tactical = (self.bgp(), self.messages());
        let world = (&self.world, self.begin());
        Report::new(seed, flows, (radios, nets), (stations, frequencies), tactical, world)
    }

    fn flow(&self, kind: &str, flow: &Flow) -> FlowReport {
        let [from, to] = [flow.from, flow.to].map(|node| self.plan.nodes[node].name.clone());
        FlowReport { name: self.plan.name_of(kind, flow), from, to, tcp: None, udp: None }
    }
}

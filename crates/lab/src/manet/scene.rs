//! A trial becomes a network, runs, and is measured.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use proto::quantity::BitRate;
use proto::routing::{aodv, dsdv};
use proto::time::Time;
use proto::{hbh, nc, tcp as protocol};
use sim::app::transfer;
use sim::mobility::{Motion, Position, paper};
use sim::radio::StationId;
use sim::service::routing::{RoutingConfig, RoutingProtocol};
use sim::{
    AppId, InterfaceConfig, LinkConfig, NodeId, Prefix, QueueDiscipline, RadioId, World, channel,
    radio,
};

use super::measure::{STEP, Samples};
use super::trial::{Carrier, Network, Routing, Tcp, Traffic, Trial, Uplink};
use super::{FIRST, GOODPUT, JAIN, SECOND, WINDOW};
use crate::claim::Outcome;
use crate::stats::Observation;
use crate::tcp;

/// When the first flow starts and the last ends.
const BEGIN: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(880);
/// Of two flows that overlap: when the first ends, and when the second starts.
const FIRST_ENDS: Duration = Duration::from_secs(440);
const SECOND_STARTS: Duration = Duration::from_secs(220);
/// Points of a congestion window that are kept.
const POINTS: usize = 1 << 14;
/// Octets of a segment.
const SEGMENT: f64 = 1_460.0;
/// Where flows go.
const PORT: u16 = 9;
/// The network of the radios.
const MANET: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 128, 0, 0), 16);

fn prefix((address, bits): (Ipv4Addr, u8)) -> Prefix {
    Prefix::new(address.into(), bits).expect("an address has 32 bits")
}

/// A flow: from where, to where (none is the fixed host), and when.
#[derive(Clone, Copy)]
struct Flow {
    from: usize,
    to: Option<usize>,
    start: Duration,
    stop: Duration,
}

/// A network with its flows.
struct Scene {
    world: World,
    radio: RadioId,
    nodes: Vec<NodeId>,
    gateway: usize,
    host: NodeId,
    flows: Vec<Flow>,
    apps: Vec<[AppId; 2]>,
}

/// Runs a trial with a seed and measures it.
pub(super) fn run(trial: Trial, seed: u64) -> Outcome {
    let mut scene = Scene::new(trial, seed);
    let (mut samples, mut both) = (Samples::default(), [Vec::new(), Vec::new()]);
    let mut now = Time::ZERO;
    while now < Time::ZERO + END {
        now += STEP;
        scene.world.run_until(now);
        if trial.routing == Routing::Ideal && !scene.is_way_whole() {
            scene.world.auto_routes();
        }
        let octets: Vec<u64> = (0..scene.apps.len()).map(|flow| scene.octets(flow)).collect();
        if now >= Time::ZERO + BEGIN {
            samples.push(now, scene.hops(), octets[0]);
        }
        for (all, octets) in both.iter_mut().zip(octets) {
            all.push(octets);
        }
    }
    let mut outcome = samples.outcome();
    outcome.extend(scene.outcome(&both));
    outcome
}

impl Scene {
    fn new(trial: Trial, seed: u64) -> Self {
        let mut world = World::new(seed);
        let (motions, gateway) = motions(trial.network, &world);
        let radio = world.add_radio(radio::Config::default());
        let interface = InterfaceConfig {
            queue_discipline: QueueDiscipline::RoutingFirst,
            ..InterfaceConfig::default()
        };
        let nodes: Vec<NodeId> = motions
            .into_iter()
            .enumerate()
            .map(|(number, motion)| {
                let node = world.add_node(&format!("n{number}"));
                world.add_radio_station(radio, node, motion, interface);
                node
            })
            .collect();
        let host = world.add_node("host");
        world.connect(nodes[gateway], host, &uplink(trial.network));
        // The fixed host reaches the MANET through the gateway.
        world.route(host, prefix(MANET), nodes[gateway], 1);
        let flows = flows(trial.network, trial.traffic);
        let mut scene = Self { world, radio, nodes, gateway, host, flows, apps: Vec::new() };
        scene.start_routing(trial.routing);
        scene.start_carrier(trial);
        scene.start_flows(trial);
        scene
    }

    fn start_routing(&mut self, routing: Routing) {
        let gateway = self.nodes[self.gateway];
        for node in self.nodes.clone() {
            let is_gateway = node == gateway;
            let protocol = match routing {
                Routing::Aodv => {
                    let mut config = aodv::Config::link_layer_feedback();
                    config.internet = aodv::Internet {
                        manet: prefix(MANET),
                        gateway: is_gateway,
                        ..config.internet
                    };
                    RoutingProtocol::Aodv(config)
                }
                Routing::Dsdv => {
                    RoutingProtocol::Dsdv(dsdv::Config { is_gateway, ..dsdv::Config::default() })
                }
                Routing::Ideal => continue,
            };
            self.world.enable_routing(node, &RoutingConfig::new(protocol), &[]);
        }
        if routing == Routing::Ideal {
            self.world.auto_routes();
        }
    }

    fn start_carrier(&mut self, trial: Trial) {
        match trial.carrier {
            Carrier::Plain => {}
            Carrier::Hbh => {
                for node in self.nodes.clone() {
                    self.world.enable_hbh(node, hbh());
                }
            }
            Carrier::Tunnel => {
                let mut ends: Vec<usize> = self
                    .flows
                    .iter()
                    .filter(|flow| flow.to.is_none())
                    .map(|flow| flow.from)
                    .collect();
                ends.sort_unstable();
                ends.dedup();
                let host = Prefix::host(self.address(None));
                for end in ends {
                    let (node, gateway) = (self.nodes[end], self.nodes[self.gateway]);
                    let added = self.world.add_tunnel(node, gateway, nc::Config::default());
                    let tunnel = added.expect("both have addresses");
                    let back = Prefix::host(self.address(Some(end)));
                    self.world.route_into_tunnel(node, host, tunnel);
                    self.world.route_into_tunnel(gateway, back, tunnel);
                }
            }
        }
    }

    fn start_flows(&mut self, trial: Trial) {
        for (flow, number) in self.flows.clone().into_iter().zip(0..) {
            let config = self.tcp(trial.tcp, flow);
            let destination = SocketAddr::new(self.address(flow.to), PORT + number);
            let sender = transfer::SenderConfig {
                port: 40_000 + number,
                octets: None,
                start: Time::ZERO + flow.start,
                stop: Some(Time::ZERO + flow.stop),
                tcp: config,
                window_points: POINTS,
                ..transfer::SenderConfig::new(destination, 0)
            };
            let sink =
                transfer::SinkConfig { tcp: config, ..transfer::SinkConfig::new(PORT + number) };
            let to = flow.to.map_or(self.host, |to| self.nodes[to]);
            let from = self.nodes[flow.from];
            let apps = [
                self.world.add_app(from, transfer::Sender::new(sender)),
                self.world.add_app(to, transfer::Sink::new(sink)),
            ];
            self.apps.push(apps);
        }
    }

    /// The TCP of a flow. To the fixed host TCP-AP is told of the wire, as the agent of ns-2 does not count it.
    fn tcp(&self, tcp: Tcp, flow: Flow) -> protocol::Config {
        match tcp {
            Tcp::NewReno => tcp::as_ns2(protocol::Config::default()),
            Tcp::Vegas => tcp::ns2_vegas(2.0, 2.0, 1.0),
            Tcp::AdaptivePacing => {
                let mut config = tcp::ns2_tcp_ap();
                if let protocol::Algorithm::TcpAp(pacing) = &mut config.congestion.algorithm {
                    pacing.hops.wired = u8::from(flow.to.is_none());
                }
                config
            }
            Tcp::Cubic => tcp::as_linux(protocol::Config::default()),
        }
    }

    /// The IPv4 address of a node, or of the fixed host.
    fn address(&self, node: Option<usize>) -> IpAddr {
        let node = node.map_or(self.host, |node| self.nodes[node]);
        self.world.address(node).expect("every node has an interface")
    }

    fn octets(&self, flow: usize) -> u64 {
        self.world.transfer_sink(self.apps[flow][1]).map_or(0, |sink| sink.octets)
    }

    /// Hops of the first flow in the MANET.
    fn hops(&self) -> Option<usize> {
        let flow = self.flows[0];
        let end = self.address(Some(flow.to.unwrap_or(self.gateway)));
        let path = self.world.path(self.nodes[flow.from], end)?;
        Some(path.len() - 1)
    }

    /// Whether the first flow's way to its destination still consists of links that there are: like AODV,
    /// ideal routing keeps a way until it breaks, and then takes a shortest one.
    fn is_way_whole(&self) -> bool {
        let flow = self.flows[0];
        let end = self.address(Some(flow.to.unwrap_or(self.gateway)));
        let Some(path) = self.world.path(self.nodes[flow.from], end) else { return false };
        let radio = self.world.radio_medium(self.radio);
        let station = |node: &NodeId| {
            StationId(self.nodes.iter().position(|it| it == node).expect("only they have radios"))
        };
        let now = self.world.now();
        path.windows(2).all(|pair| radio.are_neighbours(now, station(&pair[0]), station(&pair[1])))
    }

    fn outcome(&self, octets: &[Vec<u64>; 2]) -> Outcome {
        let kbit_s =
            |octets: u64, time: Duration| octets as f64 * 8.0 / 1_000.0 / time.as_secs_f64();
        let total: u64 = (0..self.apps.len()).map(|flow| self.octets(flow)).sum();
        let exact = |metric, value| (metric, Observation::Exact(value));
        let mut outcome = vec![exact(GOODPUT, kbit_s(total, END - BEGIN))];
        for (flow, metric) in [FIRST, SECOND].into_iter().enumerate().take(self.apps.len()) {
            let Flow { start, stop, .. } = self.flows[flow];
            outcome.push(exact(metric, kbit_s(self.octets(flow), stop - start)));
        }
        outcome.extend(self.window().map(|window| exact(WINDOW, window)));
        if let [first, second] = &self.flows[..] {
            let begin = first.start.max(second.start);
            let end = first.stop.min(second.stop);
            let at = |all: &[u64], time: Duration| {
                let index =
                    usize::try_from(time.as_nanos() / STEP.as_nanos()).unwrap_or(usize::MAX);
                all.get(index - 1).copied().unwrap_or_default() as f64
            };
            let [a, b] = octets.each_ref().map(|all| at(all, end) - at(all, begin));
            if a + b > 0.0 {
                outcome.push(exact(JAIN, (a + b) * (a + b) / 2.0 / (a * a + b * b)));
            }
        }
        outcome
    }

    /// The mean congestion window of the first flow over its time, in segments.
    fn window(&self) -> Option<f64> {
        let sender: &transfer::Sender = self.world.app(self.apps[0][0])?;
        let end = Time::ZERO + self.flows[0].stop;
        let points = sender.windows();
        let (first, _) = points.first()?;
        let ends = points.iter().skip(1).map(|(at, _)| *at).chain([end]);
        let areas = points
            .iter()
            .zip(ends)
            .map(|((at, window), until)| *window as f64 * until.since(*at).as_secs_f64());
        Some(areas.sum::<f64>() / end.since(*first).as_secs_f64() / SEGMENT)
    }
}

/// HBH for a radio that many share: what waits in a shorter queue waits less long behind TCP's bulk.
pub(super) fn hbh() -> hbh::Config {
    hbh::Config { queue: 50, ..hbh::Config::new(hbh::Profile::Default) }
}

/// Where nodes are and how they move, and which is the gateway.
fn motions(network: Network, world: &World) -> (Vec<Motion>, usize) {
    let chain = || paper::chain().map(Motion::at_rest).to_vec();
    match network {
        Network::Chain5 => (chain(), paper::GATEWAY),
        Network::Chain51(_) => {
            let mut motions = chain();
            motions.push(paper::passer());
            (motions, paper::GATEWAY)
        }
        Network::Random(side) => {
            let model = paper::random(side.into());
            let mut motions: Vec<Motion> = (0..47)
                .map(|node| {
                    let mut rng = world.stream(&format!("motion {node}"));
                    model.motion(&mut rng, paper::DURATION).expect("the paper's model is possible")
                })
                .collect();
            motions.push(Motion::at_rest(Position::new(400.0, 400.0)));
            (motions, 47)
        }
    }
}

/// The wire from the gateway to the fixed host.
fn uplink(network: Network) -> LinkConfig {
    let (rate, delay) = match network {
        Network::Chain51(Uplink::Slow) => (756_000, 25),
        Network::Chain5 | Network::Chain51(Uplink::Fast) | Network::Random(_) => (100_000_000, 2),
    };
    let channel = channel::Config {
        rate: BitRate::from_bits_per_s(rate).expect("more than nothing"),
        delay: Duration::from_millis(delay),
        ..channel::Config::default()
    };
    LinkConfig::symmetric(channel, InterfaceConfig::default())
}

/// Who sends to whom, and when.
fn flows(network: Network, traffic: Traffic) -> Vec<Flow> {
    let all = |from, to| Flow { from, to, start: BEGIN, stop: END };
    let first = |from, to| Flow { stop: FIRST_ENDS, ..all(from, to) };
    let second = |from, to| Flow { start: SECOND_STARTS, ..all(from, to) };
    let other = if matches!(network, Network::Chain51(_)) { 5 } else { 4 };
    match (network, traffic) {
        (Network::Chain51(_), Traffic::One) => vec![all(5, None)],
        (_, Traffic::One) => vec![all(0, None)],
        (Network::Chain5, Traffic::Inside) => vec![all(0, None), all(4, Some(0))],
        (Network::Chain51(_), Traffic::Inside) => vec![all(5, Some(0))],
        (Network::Random(_), Traffic::Inside) => vec![all(0, None), second(4, Some(0))],
        (Network::Random(_), Traffic::Overlapping) => vec![all(0, None), second(4, None)],
        (_, Traffic::Overlapping) => vec![first(0, None), second(other, None)],
        (_, Traffic::Simultaneous) => vec![all(0, None), all(other, None)],
    }
}

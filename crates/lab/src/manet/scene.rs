//! Builds the network of a trial, runs it, and measures it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::quantity::BitRate;
use base::time::Time;
use manet::aodv;
use sim::app::transfer;
use sim::mobility::{Motion, Position, paper};
use sim::radio::StationId;
use sim::{AppId, LinkConfig, NodeId, Prefix, RadioId, World, channel};
use tunnel as nc;

use super::measure::{self, EARLY, STEP, Samples};
use super::trial::{Carrier, Network, Routing, Traffic, Trial, Uplink};
use super::{BREAKS, FIRST, FOUND, GIVEN_UP, GOODPUT, JAIN, SECOND, TIMEOUTS, VARIATION, WINDOW};
use crate::prelude::*;

/// When the first flow starts and the last ends.
const BEGIN: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(880);
/// Of two flows that overlap: when the first ends, and when the second starts.
const FIRST_ENDS: Duration = Duration::from_secs(440);
const SECOND_STARTS: Duration = Duration::from_secs(220);
/// Points of a congestion window that are kept.
const POINTS: usize = 1 << 14;
/// The most changes of routes to keep, enough for the first 100 s.
const ROUTE_CHANGES: usize = 1 << 14;
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

/// The samples of a run.
struct Played {
    scene: Scene,
    first: Samples,
    /// Octets received of each flow at the end of each step.
    octets: [Vec<u64>; 2],
}

/// What is drawn of the first flow of a run, over seconds.
pub struct Traced {
    /// The congestion window, in segments.
    pub window: Vec<(f64, f64)>,
    /// Hops of the source to the gateway.
    pub hops: Vec<(f64, f64)>,
    /// Goodput in each second, in kbit/s.
    pub goodput: Vec<(f64, f64)>,
}

/// Runs a trial with a seed and measures it.
pub fn run(trial: Trial, seed: u64) -> Outcome {
    let Played { scene, first, octets } = play(trial, seed, END);
    let mut outcome = first.outcome();
    outcome.extend(scene.outcome(&octets));
    outcome
}

/// Runs a trial with a seed until `end`, for a picture.
pub fn trace(trial: Trial, seed: u64, end: Duration) -> Traced {
    let Played { scene, first, .. } = play(trial, seed, end);
    let sender: Option<&transfer::Sender> = scene.world.app(scene.apps[0][0]);
    let window = sender.map(transfer::Sender::windows).unwrap_or_default().iter();
    Traced {
        window: window.map(|(at, octets)| (at.as_secs_f64(), *octets as f64 / SEGMENT)).collect(),
        hops: first.changes().iter().map(|(at, hops)| (at.as_secs_f64(), *hops as f64)).collect(),
        goodput: first.goodput_over_time(),
    }
}

fn play(trial: Trial, seed: u64, end: Duration) -> Played {
    let mut scene = Scene::new(trial, seed);
    let (mut first, mut octets) = (Samples::default(), [Vec::new(), Vec::new()]);
    let mut now = Time::ZERO;
    while now < Time::ZERO + end {
        now += STEP;
        scene.world.run_until(now);
        if trial.routing == Routing::Ideal && !scene.is_way_whole() {
            scene.world.auto_routes();
        }
        let all: Vec<u64> = (0..scene.apps.len()).map(|flow| scene.octets(flow)).collect();
        if now >= Time::ZERO + BEGIN {
            first.push(now, scene.hops(), all[0]);
        }
        for (octets, now) in octets.iter_mut().zip(all) {
            octets.push(now);
        }
    }
    Played { scene, first, octets }
}

impl Scene {
    fn new(trial: Trial, seed: u64) -> Self {
        let mut world = World::new(seed);
        let (motions, gateway) = motions(trial.network, &world);
        let radio = world.add_radio(trial.assumed.radio());
        let nodes: Vec<NodeId> = motions
            .into_iter()
            .enumerate()
            .map(|(number, motion)| {
                let node = world.add_node(&format!("n{number}"));
                let interface = trial.assumed.interface(number == gateway);
                world.add_radio_station(radio, node, motion, interface);
                node
            })
            .collect();
        let host = world.add_node("host");
        world.connect(nodes[gateway], host, &uplink(trial));
        // The fixed host reaches the MANET through the gateway.
        world.route(host, prefix(MANET), nodes[gateway], 1);
        let flows = flows(trial.network, trial.traffic);
        let mut scene = Self { world, radio, nodes, gateway, host, flows, apps: Vec::new() };
        scene.world.record_routes(ROUTE_CHANGES);
        scene.start_routing(trial);
        scene.start_carrier(trial);
        scene.start_flows(trial);
        scene
    }

    fn start_routing(&mut self, trial: Trial) {
        for node in self.nodes.clone() {
            let gateway = node == self.nodes[self.gateway];
            let config = match trial.routing {
                Routing::Aodv => {
                    let reuse_gateway = aodv::Config::default().internet.reuse_gateway;
                    let manet = prefix(MANET);
                    trial.assumed.aodv(aodv::Internet { manet, gateway, reuse_gateway })
                }
                Routing::Dsdv => trial.assumed.dsdv(gateway),
                Routing::Ideal => continue,
            };
            self.world.enable_routing(node, &config, &[]);
        }
        if trial.routing == Routing::Ideal {
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
            let config = trial.assumed.tcp(trial.tcp, u8::from(flow.to.is_none()));
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
        let sums = octets[0].iter().enumerate();
        let sums = sums.map(|(step, it)| it + octets[1].get(step).copied().unwrap_or_default());
        let sums: Vec<u64> = sums.skip(steps(BEGIN) - 1).collect();
        let mut outcome = vec![
            exact(GOODPUT, kbit_s(total, END - BEGIN)),
            exact(VARIATION, measure::variation(&sums)),
        ];
        for (flow, metric) in [FIRST, SECOND].into_iter().enumerate().take(self.apps.len()) {
            let Flow { start, stop, .. } = self.flows[flow];
            outcome.push(exact(metric, kbit_s(self.octets(flow), stop - start)));
        }
        outcome.extend(self.window().map(|window| exact(WINDOW, window)));
        let radio = self.world.radio_medium(self.radio).total();
        outcome.push(exact(GIVEN_UP, radio.given_up as f64));
        outcome.push(exact(FOUND, self.found() as f64));
        let breaks = self.nodes.iter().flat_map(|it| self.world.routing_protocol_counters(*it));
        let breaks = breaks.filter(|(name, _)| *name == "breaks").map(|(_, count)| count);
        outcome.push(exact(BREAKS, breaks.sum::<u64>() as f64));
        // Also for a connection that has ended.
        let feedback = self.world.transfer_sender(self.apps[0][0]).map(|it| it.tcp.feedback);
        outcome.extend(feedback.map(|it| exact(TIMEOUTS, it.timeouts as f64)));
        if let [first, second] = &self.flows[..] {
            let begin = first.start.max(second.start);
            let end = first.stop.min(second.stop);
            let at = |all: &[u64], time: Duration| {
                all.get(steps(time) - 1).copied().unwrap_or_default() as f64
            };
            let [a, b] = octets.each_ref().map(|all| at(all, end) - at(all, begin));
            if a + b > 0.0 {
                outcome.push(exact(JAIN, (a + b) * (a + b) / 2.0 / (a * a + b * b)));
            }
        }
        outcome
    }

    /// How often the first flow's source was given a route to the gateway while changes of its hop count are
    /// counted, the first time not among them.
    fn found(&self) -> usize {
        let Flow { from, to, .. } = self.flows[0];
        let (from, end) = (self.nodes[from], self.address(Some(to.unwrap_or(self.gateway))));
        let counted = Time::ZERO + BEGIN..Time::ZERO + EARLY;
        let changes = self.world.route_changes().iter().filter(|it| {
            it.node == from && it.prefix == Prefix::host(end) && counted.contains(&it.time)
        });
        changes.filter(|it| it.route.is_some()).count().saturating_sub(1)
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
pub fn hbh() -> hbh::Config {
    hbh::Config { queue: 50, ..hbh::Config::new(hbh::Profile::Default) }
}

/// Steps in a time.
fn steps(time: Duration) -> usize {
    usize::try_from(time.as_nanos() / STEP.as_nanos()).unwrap_or(usize::MAX)
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
fn uplink(trial: Trial) -> LinkConfig {
    let (rate, delay) = match trial.network {
        Network::Chain51(Uplink::Slow) => (756_000, 25),
        Network::Chain5 | Network::Chain51(Uplink::Fast) | Network::Random(_) => (100_000_000, 2),
    };
    let channel = channel::Config {
        rate: BitRate::from_bits_per_s(rate).expect("more than nothing"),
        delay: Duration::from_millis(delay),
        ..channel::Config::default()
    };
    LinkConfig::symmetric(channel, trial.assumed.wire())
}

/// The flows: sender, receiver and times.
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

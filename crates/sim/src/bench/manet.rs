//! Mobile nodes on one radio channel, with endless flows between them.

use std::net::SocketAddr;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;
use manet::aodv;

use super::{Work, work};
use crate::app::{stream, transfer};
use crate::ids::{NodeId, PortId, RadioId};
use crate::mobility::{Motion, Position};
use crate::node::service::routing::{RoutingConfig, RoutingProtocol};
use crate::node::{InterfaceConfig, QueueDiscipline};
use crate::radio;
use crate::world::{Change, World};

/// What is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// Mobile nodes.
    pub nodes: usize,
    /// The side of the square area of motion, in metres.
    pub side: f64,
    /// Metres a second. Speeds are uniform from the least speed to twenty times as much; 0 for nodes at rest.
    pub least_speed: f64,
    /// Number of flows.
    pub flows: usize,
    /// Kind of traffic, and the end nodes of flows.
    pub load: Load,
    /// Nodes placed out of range of all others.
    pub far_nodes: usize,
    /// Where routes come from.
    pub routes: Routes,
    /// How long the nodes move; the network stands still after that.
    pub span: Duration,
}

/// The traffic of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// A TCP connection without end: flow `f` from node `2 f` to node `2 f + 1`.
    Tcp,
    /// Datagrams of 1,460 octets with an interval between them: flow `f` from node `f + 1` to the first.
    Datagrams(Duration),
}

/// Where routes come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Routes {
    /// They are made anew after each such time, along the fewest hops.
    Shortest(Duration),
    /// Nodes run AODV with link-layer feedback, and send its messages first.
    Aodv,
}

impl Default for Scenario {
    /// The random network of 48 nodes that papers on TCP in MANETs use.
    fn default() -> Self {
        Self {
            nodes: 48,
            side: 1_200.0,
            least_speed: 1.0,
            flows: 2,
            load: Load::Tcp,
            far_nodes: 0,
            routes: Routes::Shortest(Duration::from_secs(1)),
            span: Duration::from_secs(900),
        }
    }
}

/// A network to be run.
#[derive(Debug)]
pub struct Bench {
    /// The network.
    pub world: World,
    radio: RadioId,
    sinks: Vec<crate::ids::AppId>,
}

/// Results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    /// Events, packets and simulated time.
    pub work: Work,
    /// Frames on the air.
    pub frames: u64,
    /// Stations that frames reached, all together: what the medium had to look at.
    pub listeners: u64,
    /// Octets that came to applications.
    pub octets: u64,
}

impl Scenario {
    /// The network, ready to run.
    ///
    /// # Panics
    /// When it has more flows than nodes that send them.
    #[must_use]
    pub fn build(&self, seed: u64) -> Bench {
        let pairs = match self.load {
            Load::Tcp => self.nodes / 2,
            Load::Datagrams(_) => self.nodes.saturating_sub(1),
        };
        assert!(self.flows <= pairs, "each flow has a node of its own");
        let mut world = World::new(seed);
        let radio = world.add_radio(radio::Config::default());
        let mut rng = world.stream("motion");
        let mut nodes = Vec::new();
        for index in 0..self.nodes {
            let node = world.add_node(&format!("n{index}"));
            let motion = self.motion(&mut rng);
            world.add_radio_station(radio, node, motion, self.interface());
            nodes.push(node);
        }
        for index in 0..self.far_nodes {
            let node = world.add_node(&format!("far{index}"));
            let away = 100.0 * self.side + 1_000.0 * index as f64;
            let motion = Motion::at_rest(Position::new(away, away));
            world.add_radio_station(radio, node, motion, self.interface());
        }
        self.start_routing(&mut world, &nodes);
        let sinks = (0..self.flows).map(|flow| match self.load {
            Load::Tcp => add_transfer(&mut world, nodes[2 * flow], nodes[2 * flow + 1]),
            Load::Datagrams(interval) => {
                let port = 9 + u16::try_from(flow).unwrap_or_default();
                add_stream(&mut world, (nodes[flow + 1], nodes[0]), port, interval)
            }
        });
        let sinks = sinks.collect();
        Bench { world, radio, sinks }
    }

    fn interface(&self) -> InterfaceConfig {
        let queue_discipline = match self.routes {
            Routes::Shortest(_) => QueueDiscipline::DropTail,
            Routes::Aodv => QueueDiscipline::RoutingFirst,
        };
        InterfaceConfig { queue_discipline, ..InterfaceConfig::default() }
    }

    fn start_routing(&self, world: &mut World, nodes: &[NodeId]) {
        match self.routes {
            Routes::Shortest(every) => {
                world.auto_routes();
                let mut next = Time::ZERO + every;
                while self.least_speed > 0.0 && next <= Time::ZERO + self.span {
                    world.at(next, Change::AutoRoutes);
                    next += every;
                }
            }
            Routes::Aodv => {
                let aodv = RoutingProtocol::Aodv(aodv::Config::link_layer_feedback());
                for node in nodes {
                    world.enable_routing(*node, &RoutingConfig::new(aodv.clone()), &[]);
                }
            }
        }
    }

    /// Straight legs between random places in the square, with 5 s of rest behind each.
    fn motion(&self, rng: &mut Rng) -> Motion {
        let place =
            |rng: &mut Rng| Position::new(self.side * rng.uniform(), self.side * rng.uniform());
        let mut here = place(rng);
        let mut motion = Motion::at_rest(here);
        let mut now = Time::ZERO;
        while self.least_speed > 0.0 && now < Time::ZERO + self.span {
            let to = place(rng);
            let speed = self.least_speed * (1.0 + 19.0 * rng.uniform());
            let way = here.distance_squared(to).sqrt();
            let end = now + Duration::from_secs_f64(way / speed);
            motion.go(now, end, to).expect("it arrives after it has set out");
            (here, now) = (to, end + PAUSE);
        }
        motion
    }
}

const PAUSE: Duration = Duration::from_secs(5);

impl Bench {
    /// Runs the network for this long.
    #[must_use]
    pub fn run(&mut self, span: Duration) -> Done {
        let before = self.done();
        self.world.run_until(self.world.now() + span);
        let after = self.done();
        Done {
            work: Work {
                events: after.work.events - before.work.events,
                packets: after.work.packets - before.work.packets,
                simulated_s: after.work.simulated_s - before.work.simulated_s,
            },
            frames: after.frames - before.frames,
            listeners: after.listeners - before.listeners,
            octets: after.octets - before.octets,
        }
    }

    /// The ports of the stations, those far away last.
    #[must_use]
    pub fn ports(&self) -> &[PortId] {
        self.world.radio_ports(self.radio)
    }

    fn done(&self) -> Done {
        let medium = self.world.radio_medium(self.radio);
        let total = medium.total();
        let (_, listeners) = medium.work();
        let datagrams = |sink| self.world.app(sink).map(stream::Sink::stats).map(|it| it.octets);
        let octets = |sink| match self.world.transfer_sink(sink) {
            Some(stats) => stats.octets,
            None => datagrams(sink).unwrap_or_default(),
        };
        Done {
            work: work(&self.world),
            frames: total.rts + total.cts + total.acks + total.data + total.broadcasts,
            listeners,
            octets: self.sinks.iter().map(|sink| octets(*sink)).sum(),
        }
    }
}

/// Adds a TCP transfer as usual in ns-2 studies: a window of 20 segments of 1,460 octets, each acknowledged.
fn add_transfer(world: &mut World, from: NodeId, to: NodeId) -> crate::ids::AppId {
    let tcp = tcp::Config {
        receive_buffer: 20 * 1_460,
        offer: tcp::Offer { timestamps: false, window_scaling: false, ..tcp::Offer::default() },
        delayed_ack: tcp::DelayedAck { segments: 1, ..tcp::DelayedAck::default() },
        r2: tcp::Limit::Never,
        r2_syn: tcp::Limit::Never,
        ..tcp::Config::default()
    };
    let to_address = SocketAddr::new(world.address(to).expect("it has a radio"), 9);
    let config =
        transfer::SenderConfig { octets: None, tcp, ..transfer::SenderConfig::new(to_address, 0) };
    world.add_app(from, transfer::Sender::new(config));
    world.add_app(
        to,
        transfer::Sink::new(transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) }),
    )
}

/// Datagrams that begin after a second, each flow's a tenth after those of the one before.
fn add_stream(
    world: &mut World,
    (from, to): (NodeId, NodeId),
    port: u16,
    interval: Duration,
) -> crate::ids::AppId {
    let destination = SocketAddr::new(world.address(to).expect("it has a radio"), port);
    let start =
        Time::ZERO + Duration::from_secs(1) + Duration::from_millis(100) * (u32::from(port) - 9);
    let config = stream::SenderConfig {
        port,
        interval,
        start,
        ..stream::SenderConfig::new(destination, 1_460)
    };
    world.add_app(from, stream::Sender::new(config));
    world.add_app(to, stream::Sink::new(port))
}

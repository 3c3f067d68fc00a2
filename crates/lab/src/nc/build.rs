//! A network of nodes, links and applications, made from its description.

use std::net::SocketAddr;
use std::time::Duration;

use proto::rng::Rng;
use proto::tcp;
use proto::time::Time;
use sim::app::{echo, ping, stream, transfer};
use sim::channel::{self, Loss};
use sim::units::BitRate;
use sim::{
    AppId, InterfaceConfig, LinkConfig, LinkId, NodeId, Prefix, TcpncTunnel, TcpncTunnelConfig,
    TunnelId, World,
};

use super::network::{Carrier, Network, Traffic, UDP_HEADERS, Wire};

/// Octets of a request, and of its answer.
const REQUEST: usize = 64;
/// The time from one request to the next.
const REQUEST_INTERVAL: Duration = Duration::from_millis(100);
const REQUEST_PORT: u16 = 7_000;
/// The port of the first sink.
const PORT: u16 = 9_000;
/// What ports of sinks are greater by against the direction of the data.
const BACK: u16 = 1_000;
/// The port of the flow beside the tunnel.
const RIVAL_PORT: u16 = 8_000;
/// Sources start within this time.
const START: Duration = Duration::from_millis(100);

impl Network {
    /// Builds it.
    #[must_use]
    pub fn build(&self, seed: u64) -> Built {
        let mut world = World::new(seed);
        let [near, far] = ["near", "far"].map(|name| world.add_node(name));
        let (left, right) = if self.is_hidden {
            let [left, right] = ["left", "right"].map(|name| world.add_node(name));
            world.connect(near, left, &self.link(FAST));
            world.connect(right, far, &self.link(FAST));
            (left, right)
        } else {
            (near, far)
        };
        let middle = world.connect(left, right, &self.middle_link());

        let mut pairs = Vec::new();
        for session in 0..self.sessions {
            let source = world.add_node(&format!("source {session}"));
            let sink = world.add_node(&format!("sink {session}"));
            world.connect(source, near, &self.link(self.edge));
            world.connect(far, sink, &self.link(self.edge));
            pairs.push([source, sink]);
        }
        let asking = self.has_requests.then(|| {
            let [source, sink] = ["asks", "answers"].map(|name| world.add_node(name));
            world.connect(source, near, &self.link(self.edge));
            world.connect(far, sink, &self.link(self.edge));
            [source, sink]
        });
        let rivals = self.rival.map(|tcp| {
            let [source, sink] = ["rival", "rival's sink"].map(|name| world.add_node(name));
            world.connect(source, left, &self.link(FAST));
            world.connect(right, sink, &self.link(FAST));
            (tcp.config(self.packet), source, sink)
        });
        world.auto_routes();

        let all: Vec<_> = pairs.iter().copied().chain(asking).collect();
        let tunnel = self.add_tunnel(&mut world, [near, far], &all);
        let tcpnc = self.add_tcpnc(&mut world, [near, far], &pairs);
        let mut start = Rng::stream(seed, "start");
        let mut flows = Vec::new();
        for (session, [source, sink]) in pairs.iter().copied().enumerate() {
            let port = PORT + u16::try_from(session).unwrap_or_default();
            let starts_at = Time::ZERO + start.within(START);
            flows.push(self.add_flow(&mut world, source, sink, port, starts_at));
            if self.is_both_ways {
                // Ports of its own: it is not the other end of the first.
                flows.push(self.add_flow(&mut world, sink, source, port + BACK, starts_at));
            }
        }
        let requests = asking.map(|[source, sink]| add_requests(&mut world, source, sink));
        let rival = rivals.map(|(tcp, source, sink)| {
            add_transfer(&mut world, source, sink, RIVAL_PORT, Time::ZERO, tcp, 0)
        });
        Built { world, gateways: [near, far], middle, tunnel, tcpnc, flows, requests, rival }
    }

    fn add_tunnel(
        &self,
        world: &mut World,
        [near, far]: [NodeId; 2],
        pairs: &[[NodeId; 2]],
    ) -> Option<TunnelId> {
        let Carrier::Coded(config) = self.carrier else { return None };
        let tunnel = world.add_tunnel(near, far, config)?;
        for [source, sink] in pairs {
            for (gateway, host) in [(near, sink), (far, source)] {
                if let Some(address) = world.address(*host) {
                    world.route_into_tunnel(gateway, Prefix::host(address), tunnel);
                }
            }
        }
        Some(tunnel)
    }

    fn add_tcpnc(
        &self,
        world: &mut World,
        [near, far]: [NodeId; 2],
        pairs: &[[NodeId; 2]],
    ) -> Option<TcpncTunnel> {
        let usual = TcpncTunnelConfig::default();
        let (min_rto, layer) = match self.carrier {
            Carrier::Coded(_) | Carrier::Plain => return None,
            Carrier::TcpNc => (None, usual.layer),
            Carrier::TcpNcTunnel { min_rto } => (Some(min_rto), usual.layer),
            Carrier::TcpNcTunnelWith { min_rto, layer } => (Some(min_rto), layer),
            Carrier::TcpNcWith(layer) => (None, layer),
        };
        let Some(min) = min_rto else {
            for host in pairs.iter().flatten() {
                world.enable_tcpnc(*host, layer);
            }
            return None;
        };
        let tcp = tcp::Config { rto: tcp::Rto { min, ..usual.tcp.rto }, ..usual.tcp };
        let config = TcpncTunnelConfig { tcp, layer, points: self.trace_points, ..usual };
        world.add_tcpnc_tunnel(near, far, &config)
    }

    fn add_flow(
        &self,
        world: &mut World,
        source: NodeId,
        sink: NodeId,
        port: u16,
        start: Time,
    ) -> Flow {
        match self.traffic {
            Traffic::Tcp(kind) => {
                let tcp = kind.config(self.packet);
                add_transfer(world, source, sink, port, start, tcp, self.trace_points)
            }
            Traffic::Udp { load } => {
                let payload = self.packet - UDP_HEADERS;
                let bits = (payload * 8) as f64;
                let config = stream::SenderConfig {
                    port,
                    destination: address(world, sink, port),
                    payload,
                    interval: Duration::from_secs_f64(bits / (self.limit() * load)),
                    start,
                    stop: None,
                    count: None,
                    dscp: 0,
                };
                let from = world.add_app(source, stream::Sender::new(config));
                Flow { from, to: world.add_app(sink, stream::Sink::new(port)), is_tcp: false }
            }
        }
    }

    fn link(&self, wire: Wire) -> LinkConfig {
        LinkConfig::symmetric(wire.channel(Loss::None), self.interface())
    }

    fn middle_link(&self) -> LinkConfig {
        LinkConfig {
            there: self.middle.channel(self.loss.clone()),
            back: self.middle.channel(self.loss_back.clone()),
            ..self.link(self.middle)
        }
    }

    fn interface(&self) -> InterfaceConfig {
        InterfaceConfig { queue_packets: self.queue, ..InterfaceConfig::default() }
    }
}

/// A network, ready to run.
#[derive(Debug)]
pub struct Built {
    /// The network.
    pub world: World,
    /// Where the tunnel ends.
    pub gateways: [NodeId; 2],
    /// The lossy link.
    pub middle: LinkId,
    /// The tunnel, if there is one.
    pub tunnel: Option<TunnelId>,
    /// The tunnel of the paper, if it is that.
    pub tcpnc: Option<TcpncTunnel>,
    /// The sessions: with both ways each of them twice, there and back.
    pub flows: Vec<Flow>,
    /// What sends requests.
    pub requests: Option<AppId>,
    /// The flow beside the tunnel.
    pub rival: Option<Flow>,
}

/// A session's applications.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flow {
    /// What sends.
    pub from: AppId,
    /// What receives.
    pub to: AppId,
    is_tcp: bool,
}

impl Flow {
    /// Octets of the application that have arrived.
    #[must_use]
    pub fn received(&self, world: &World) -> u64 {
        if self.is_tcp {
            world.transfer_sink(self.to).unwrap_or_default().octets
        } else {
            world.app(self.to).map(stream::Sink::stats).unwrap_or_default().octets
        }
    }

    /// Segments that TCP sent again.
    #[must_use]
    pub fn retransmissions(&self, world: &World) -> u64 {
        world.transfer_sender(self.from).unwrap_or_default().tcp.retransmissions
    }
}

impl Wire {
    fn channel(self, loss: Loss) -> channel::Config {
        let Self { rate, delay } = self;
        channel::Config { rate, delay, loss, ..channel::Config::default() }
    }
}

/// A link that is never in the way.
const FAST: Wire = Wire { rate: BitRate::Unlimited, delay: Duration::ZERO };

fn add_requests(world: &mut World, source: NodeId, sink: NodeId) -> AppId {
    world.add_app(sink, echo::Echo::new(REQUEST_PORT));
    let config = stream::SenderConfig {
        port: REQUEST_PORT,
        destination: address(world, sink, REQUEST_PORT),
        payload: REQUEST,
        interval: REQUEST_INTERVAL,
        start: Time::ZERO + START,
        stop: None,
        count: None,
        dscp: 0,
    };
    world.add_app(source, ping::Ping::new(config))
}

fn add_transfer(
    world: &mut World,
    source: NodeId,
    sink: NodeId,
    port: u16,
    start: Time,
    tcp: tcp::Config,
    window_points: usize,
) -> Flow {
    let sender = transfer::SenderConfig {
        octets: None,
        start,
        tcp,
        port,
        window_points,
        ..transfer::SenderConfig::new(address(world, sink, port), 0)
    };
    let from = world.add_app(source, transfer::Sender::new(sender));
    let sink_config = transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(port) };
    Flow { from, to: world.add_app(sink, transfer::Sink::new(sink_config)), is_tcp: true }
}

fn address(world: &World, node: NodeId, port: u16) -> SocketAddr {
    let address = world.address(node).expect("every host has a link");
    SocketAddr::new(address, port)
}

//! The scenario of a network, and its nodes and applications that are measured.

use std::time::Duration;

use base::quantity::BitRate;
use base::rng::Rng;
use base::time::Time;
use sim::channel::{self, Loss};
use sim::{AppId, InterfaceConfig, LinkConfig, PortId};
use tcp::tcpnc;

use super::network::{Carrier, Network, Traffic, UDP_HEADERS, Wire};
use crate::scenario::{Built, Flow, Plan, Stream, TcpncTunnel, Transfer, Tunnel};

/// Octets of a request, and equally of its answer.
const REQUEST: usize = 64;
/// The time from one request to the next.
const REQUEST_INTERVAL: Duration = Duration::from_millis(100);
const REQUEST_PORT: u16 = 7_000;
/// The port of the first sink.
const PORT: u16 = 9_000;
/// The offset of port numbers for sessions against the direction of the data.
const BACK: u16 = 1_000;
/// The port of the flow beside the tunnel.
const RIVAL_PORT: u16 = 8_000;
/// Each source starts at a random time within this.
const START: Duration = Duration::from_millis(100);
/// The indices of the gateways in every scenario.
pub const GATEWAYS: [usize; 2] = [0, 1];

impl Network {
    /// A scenario of this network that lasts for `duration`, with random starts of its sources.
    pub(crate) fn plan(&self, seed: u64, duration: Duration) -> Plan {
        let mut plan = Plan::new(seed, duration);
        let [near, far] = ["near", "far"].map(|name| plan.add_node(name));
        let (left, right) = if self.is_hidden {
            let [left, right] = ["left", "right"].map(|name| plan.add_node(name));
            plan.connect(near, left, self.link(FAST));
            plan.connect(right, far, self.link(FAST));
            (left, right)
        } else {
            (near, far)
        };
        plan.connect(left, right, self.middle_link());

        let mut join = |names: [&str; 2], wire, [near, far]: [usize; 2]| {
            let [source, sink] = names.map(|name| plan.add_node(name));
            plan.connect(source, near, self.link(wire));
            plan.connect(far, sink, self.link(wire));
            [source, sink]
        };
        let mut pairs = Vec::new();
        for session in 0..self.sessions {
            let names = ["source", "sink"].map(|name| format!("{name} {session}"));
            pairs.push(join(names.each_ref().map(String::as_str), self.edge, GATEWAYS));
        }
        let asking = self.has_requests.then(|| join(["asks", "answers"], self.edge, GATEWAYS));
        let rivals = self.rival.map(|_| join(["rival", "rival sink"], FAST, [left, right]));

        self.add_carrier(&mut plan, &pairs, asking);
        let mut start = Rng::stream(seed, "start");
        for (pair, port) in pairs.into_iter().zip(PORT..) {
            let starts_at = Time::ZERO + start.within(START);
            self.add_flow(&mut plan, Flow::new(pair, port).from_port(port).starting(starts_at));
            if self.is_both_ways {
                // The flow back has its own ports because it is not the other end of the first flow.
                let (back, port) = ([pair[1], pair[0]], port + BACK);
                self.add_flow(&mut plan, Flow::new(back, port).from_port(port).starting(starts_at));
            }
        }
        if let Some(ends) = asking {
            let flow = Flow::new(ends, REQUEST_PORT).from_port(REQUEST_PORT);
            let flow = flow.starting(Time::ZERO + START);
            let stream = Stream::new(flow, REQUEST, REQUEST_INTERVAL);
            plan.streams.push(Stream { is_answered: true, ..stream });
        }
        if let Some((ends, kind)) = rivals.zip(self.rival) {
            let flow = Flow::new(ends, RIVAL_PORT).from_port(RIVAL_PORT);
            plan.transfers.push(Transfer { flow, octets: None, tcp: kind.config(self.packet) });
        }
        plan
    }

    fn add_carrier(&self, plan: &mut Plan, pairs: &[[usize; 2]], asking: Option<[usize; 2]>) {
        let layer = tcpnc::Config::default();
        let (min_rto, layer) = match self.carrier {
            Carrier::Plain => return,
            Carrier::Coded(config) => {
                let all = || pairs.iter().copied().chain(asking);
                let behind = [0, 1].map(|side| all().map(|pair| pair[side]).collect());
                plan.tunnels.push(Tunnel { ends: GATEWAYS, behind, uses_all_links: false, config });
                return;
            }
            Carrier::TcpNc => (None, layer),
            Carrier::TcpNcTunnel { min_rto } => (Some(min_rto), layer),
            Carrier::TcpNcTunnelWith { min_rto, layer } => (Some(min_rto), layer),
            Carrier::TcpNcWith(layer) => (None, layer),
        };
        if let Some(min) = min_rto {
            let usual = TcpncTunnel::new(GATEWAYS);
            let tcp = tcp::Config { rto: tcp::Rto { min, ..usual.tcp.rto }, ..usual.tcp };
            plan.tcpnc_tunnels.push(TcpncTunnel { tcp, layer, ..usual });
        } else {
            for host in pairs.iter().flatten() {
                plan.nodes[*host].tcpnc = Some(layer);
            }
        }
    }

    fn add_flow(&self, plan: &mut Plan, flow: Flow) {
        match self.traffic {
            Traffic::Tcp(kind) => {
                let tcp = kind.config(self.packet);
                plan.transfers.push(Transfer { flow, octets: None, tcp });
            }
            Traffic::Udp { load } => {
                let payload = self.packet - UDP_HEADERS;
                let bits = (payload * 8) as f64;
                let interval = Duration::from_secs_f64(bits / (self.limit() * load));
                plan.streams.push(Stream::new(flow, payload, interval));
            }
        }
    }

    fn link(&self, wire: Wire) -> LinkConfig {
        let interface = InterfaceConfig { queue_packets: self.queue, ..InterfaceConfig::default() };
        LinkConfig::symmetric(wire.channel(Loss::None), interface)
    }

    fn middle_link(&self) -> LinkConfig {
        LinkConfig {
            there: self.middle.channel(self.loss.clone()),
            back: self.middle.channel(self.loss_back.clone()),
            ..self.link(self.middle)
        }
    }

    /// The sender and the receiver of each session; with traffic both ways a session has two
    /// entries, first that in the direction of the data.
    pub(crate) fn flows<'b>(&self, built: &'b Built<'_>) -> &'b [[AppId; 2]] {
        let flows = match self.traffic {
            Traffic::Tcp(_) => &built.transfers,
            Traffic::Udp { .. } => &built.streams,
        };
        &flows[..self.sessions * if self.is_both_ways { 2 } else { 1 }]
    }

    /// The application that sends requests.
    pub(crate) fn requests(&self, built: &Built<'_>) -> Option<AppId> {
        built.streams.last().map(|[asks, _]| *asks).filter(|_| self.has_requests)
    }

    /// The receiver of the flow beside the tunnel.
    pub(crate) fn rival(&self, built: &Built<'_>) -> Option<AppId> {
        built.transfers.last().map(|[_, sink]| *sink).filter(|_| self.rival.is_some())
    }

    /// The port at which data enters the middle link.
    pub(crate) fn middle(&self, built: &Built<'_>) -> PortId {
        built.world.ends(built.links[if self.is_hidden { 2 } else { 0 }])[0]
    }
}

impl Wire {
    fn channel(self, loss: Loss) -> channel::Config {
        let Self { rate, delay } = self;
        channel::Config { rate, delay, loss, ..channel::Config::default() }
    }
}

/// A link that never limits the traffic.
const FAST: Wire = Wire { rate: BitRate::Unlimited, delay: Duration::ZERO };

//! One scenario of the paper: a network, its traffic, a TCP, a routing protocol, and who carries the
//! packets.

use crate::prelude::*;

/// A place of the grid: all of them together are the paper's 96 scenarios, and ours beside them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Trial {
    pub network: Network,
    pub traffic: Traffic,
    pub tcp: Tcp,
    pub routing: Routing,
    pub carrier: Carrier,
    pub assumed: Assumed,
}

/// Where the nodes are, and how they move.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Network {
    /// Five nodes at rest in a row, the gateway in their middle.
    Chain5,
    /// The same with a sixth node that passes along them.
    Chain51(Uplink),
    /// 47 nodes on the move around a gateway, in a square with sides of so many metres.
    Random(u16),
}

/// The wire from the gateway to the fixed host.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Uplink {
    /// 100 Mbit/s, 2 ms.
    Fast,
    /// 756 kbit/s, 25 ms.
    Slow,
}

/// The four traffic cases of a network, in the order of the paper.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Traffic {
    /// One flow to the fixed host.
    One,
    /// Chain5 and random: in addition a flow between two nodes. Chain5+1: only a flow between two nodes.
    Inside,
    /// Two flows to the fixed host that overlap for a part of their time.
    Overlapping,
    /// Two flows to the fixed host for the whole time.
    Simultaneous,
}

/// The TCP of the senders.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Tcp {
    NewReno,
    Vegas,
    AdaptivePacing,
    /// CUBIC as Linux has it: not in the paper.
    Cubic,
}

/// Who finds routes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Routing {
    /// AODV with link-layer feedback, and half tunnels to the gateway.
    Aodv,
    Dsdv,
    /// Shortest paths that are known at once.
    Ideal,
}

/// The carrier of the flows' packets.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Carrier {
    /// IP, as in the paper.
    Plain,
    /// HBH between all nodes of the MANET, our profile.
    Hbh,
    /// Our coded tunnel from each sending node to the gateway.
    Tunnel,
}

/// What is taken where the paper gives no number: the usual, or one thing else.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Assumed {
    #[default]
    Usual,
    /// `window_` of this many segments, and an equal first slow-start threshold.
    Window(u16),
    /// RTS, CTS, ACK and broadcasts at 2 Mbit/s.
    FastControl,
    /// Data without RTS and CTS.
    WithoutRts,
    /// Every station within hearing disturbs reception, however weak its signal.
    WithoutCapture,
    /// Stations sense others up to so many metres.
    Sense(u16),
    /// AODV finds lost neighbours by hellos, not by the link layer.
    Hellos,
    /// What the link layer could not bring to a neighbour is dropped, its own packets too.
    DropUnsent,
    /// What waits for a neighbour stays in the queue when the link layer could not reach it.
    KeepQueue,
    /// Messages of routing protocols wait behind packets.
    DropTail,
    /// DSDV hears of lost neighbours from the link layer.
    LinkBreaks,
    /// TCP-AP counts the wire as a hop.
    CountsWire,
    /// A path of fewer than four hops counts for TCP-AP with its own number of hops, not one.
    AllHops,
    /// Both of them.
    CountsWireAllHops,
    /// TCP-AP takes the mean deviation of delays in the place of their standard deviation.
    Mad,
    /// TCP-AP and Vegas as published, not as ns-2 has them.
    Published,
    /// Vegas forgets its least round-trip time when the number of hops changes.
    Rebase,
    /// The sink acknowledges every second segment, or after 100 ms.
    DelayedAck,
    /// Flows in turns in the queues of the gateway.
    FairGateway,
    /// Flows in turns in all queues.
    Fair,
    /// A new acknowledgement replaces a waiting one of its flow, in all queues.
    Thin,
}

pub const TRAFFICS: [Traffic; 4] =
    [Traffic::One, Traffic::Inside, Traffic::Overlapping, Traffic::Simultaneous];
pub const PAPER_TCPS: [Tcp; 3] = [Tcp::NewReno, Tcp::Vegas, Tcp::AdaptivePacing];

impl Trial {
    /// A trial of the paper, over AODV.
    pub fn new(network: Network, traffic: Traffic, tcp: Tcp) -> Self {
        Self {
            network,
            traffic,
            tcp,
            routing: Routing::Aodv,
            carrier: Carrier::Plain,
            assumed: Assumed::Usual,
        }
    }

    /// The same with another routing protocol.
    pub fn over(self, routing: Routing) -> Self {
        Self { routing, ..self }
    }

    /// The same, carried by somebody else.
    pub fn carried(self, carrier: Carrier) -> Self {
        Self { carrier, ..self }
    }

    /// The same where something else is taken for what the paper does not say.
    pub fn with(self, assumed: Assumed) -> Self {
        Self { assumed, ..self }
    }

    /// All of the paper's traffic cases and TCPs in a network, over AODV.
    pub fn all(network: Network) -> Vec<Self> {
        let of = |traffic| PAPER_TCPS.map(|tcp| Self::new(network, traffic, tcp));
        TRAFFICS.into_iter().flat_map(of).collect()
    }

    /// The label from which motion and chance are drawn: everything except TCP and carrier, so that TCPs and carriers
    /// are compared on the same ground.
    pub fn draws(self) -> String {
        let network = match self.network {
            Network::Chain5 => "Chain5".to_owned(),
            Network::Chain51(Uplink::Fast) => "Chain51(Fast)".to_owned(),
            Network::Chain51(Uplink::Slow) => "Chain51(Slow)".to_owned(),
            Network::Random(side) => format!("Random({side})"),
        };
        let traffic = match self.traffic {
            Traffic::One => "One",
            Traffic::Inside => "Inside",
            Traffic::Overlapping => "Overlapping",
            Traffic::Simultaneous => "Simultaneous",
        };
        format!("manet {network} {traffic}")
    }
}

impl Tcp {
    pub fn title(self) -> &'static str {
        match self {
            Self::NewReno => "NewReno",
            Self::Vegas => "Vegas",
            Self::AdaptivePacing => "TCP-AP",
            Self::Cubic => "CUBIC",
        }
    }

    pub fn line(self) -> Line {
        let (series, ink) = match self {
            Self::NewReno => ("newreno", Ink::Tcp),
            Self::Vegas => ("vegas", Ink::Default),
            Self::AdaptivePacing => ("tcp-ap", Ink::Paper),
            Self::Cubic => ("cubic", Ink::Other(0)),
        };
        Line::new(series, self.title(), ink)
    }
}

impl Routing {
    pub fn title(self) -> &'static str {
        match self {
            Self::Aodv => "AODV",
            Self::Dsdv => "DSDV",
            Self::Ideal => "shortest paths, known at once",
        }
    }
}

impl Carrier {
    pub fn title(self) -> &'static str {
        match self {
            Self::Plain => "plain IP",
            Self::Hbh => "HBH",
            Self::Tunnel => "coded tunnel",
        }
    }
}

impl Traffic {
    pub fn title(self, network: Network) -> &'static str {
        match (network, self) {
            (Network::Chain51(_), Self::One) => "5 to host",
            (_, Self::One) => "0 to host",
            (Network::Chain5, Self::Inside) => "0 to host and 4 to 0",
            (Network::Chain51(_), Self::Inside) => "5 to 0, in the MANET",
            (Network::Random(_), Self::Inside) => "0 to host, later 4 to 0",
            (Network::Chain51(_), Self::Overlapping) => "0 to host, later 5 to host",
            (_, Self::Overlapping) => "0 to host, later 4 to host",
            (Network::Chain51(_), Self::Simultaneous) => "0 and 5 to host",
            (_, Self::Simultaneous) => "0 and 4 to host",
        }
    }

    /// Its number in the paper's order, from 1.
    pub fn number(self) -> f64 {
        match self {
            Self::One => 1.0,
            Self::Inside => 2.0,
            Self::Overlapping => 3.0,
            Self::Simultaneous => 4.0,
        }
    }
}

impl Network {
    pub fn title(self) -> String {
        match self {
            Self::Chain5 => "Chain 5".to_owned(),
            Self::Chain51(Uplink::Fast) => "Chain 5+1, uplink 100 Mbit/s".to_owned(),
            Self::Chain51(Uplink::Slow) => "Chain 5+1, uplink 756 kbit/s".to_owned(),
            Self::Random(side) => format!("48 nodes, {side} x {side} m"),
        }
    }
}

impl Assumed {
    /// Whether it only shows what an assumption changes, and decides no claim of the paper.
    pub fn is_aside(self) -> bool {
        !matches!(
            self,
            Self::Usual | Self::CountsWireAllHops | Self::FairGateway | Self::Fair | Self::Thin
        )
    }

    /// In the words of a table.
    pub fn title(self) -> String {
        let text = match self {
            Self::Usual => "as in all other experiments",
            Self::Window(segments) => return format!("window_ of {segments} segments"),
            Self::FastControl => "control frames at 2 Mbit/s",
            Self::WithoutRts => "no RTS and CTS",
            Self::WithoutCapture => "no capture",
            Self::Sense(metres) => return format!("sensed up to {metres} m"),
            Self::Hellos => "AODV with hellos",
            Self::DropUnsent => "unsent packets are dropped",
            Self::KeepQueue => "queue kept at a break",
            Self::DropTail => "routing messages wait too",
            Self::LinkBreaks => "DSDV hears of breaks",
            Self::CountsWire => "TCP-AP counts the wire",
            Self::AllHops => "TCP-AP: delay of all hops",
            Self::CountsWireAllHops => "TCP-AP: both",
            Self::Mad => "TCP-AP: mean deviation",
            Self::Published => "TCP-AP, Vegas as published",
            Self::Rebase => "Vegas begins anew on another way",
            Self::DelayedAck => "delayed acknowledgements",
            Self::FairGateway => "fair at the gateway",
            Self::Fair => "fair everywhere",
            Self::Thin => "thinned acknowledgements",
        };
        text.to_owned()
    }
}

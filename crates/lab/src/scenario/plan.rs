//! A scenario, checked: what can be built.

use std::net::IpAddr;
use std::time::Duration;

use proto::time::Time;
use proto::{hbh, nc, tcp};
use sim::{LinkConfig, Prefix};

use super::hf::Frequency;

/// A network and its traffic, checked.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) duration: Duration,
    pub(super) seed: u64,
    pub(super) routing: Routing,
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<Link>,
    pub(super) routes: Vec<Route>,
    pub(super) tunnels: Vec<Tunnel>,
    pub(super) frequencies: Vec<Frequency>,
    pub(super) transfers: Vec<Transfer>,
    pub(super) streams: Vec<Stream>,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) hbh: Option<hbh::Config>,
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Indices of nodes.
    pub(super) ends: [usize; 2],
    pub(super) config: LinkConfig,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) at: Time,
    pub(super) node: usize,
    pub(super) to: Target,
    /// The neighbour; none ends the route.
    pub(super) via: Option<usize>,
    pub(super) metric: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Tunnel {
    /// Indices of nodes.
    pub(super) ends: [usize; 2],
    /// The nodes behind each end.
    pub(super) behind: [Vec<usize>; 2],
    pub(super) config: nc::Config,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Node(usize),
    Prefix(Prefix),
}

/// What flows of all kinds have.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) name: String,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) port: u16,
    pub(super) ipv6: bool,
    pub(super) start: Time,
}

#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) flow: Flow,
    pub(super) octets: u64,
    pub(super) tcp: tcp::Config,
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) flow: Flow,
    pub(super) payload: usize,
    pub(super) interval: Duration,
    pub(super) stop: Option<Time>,
    pub(super) count: Option<u64>,
    pub(super) dscp: u8,
}

/// Who makes the routes that the file does not give.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Routing {
    /// Shortest paths, found anew when a link goes down or up.
    Follow,
    /// Nobody.
    None,
    /// Shortest paths, found once.
    #[default]
    Shortest,
}

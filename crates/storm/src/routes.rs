//! Routing under storm: routes of AODV and DSDV never go round in circles; in the calm, routes of OLSR and OSPF are
//! shortest ways, and so they are soon after one more link is lost.
//!
//! With DSDV a restarted node may take a route from a neighbour whose own route leads through the restarted node
//! (`docs/protocols/manet.md`). Such a circle has to end within the silence after which DSDV gives up a neighbour.
//!
//! Nodes of AODV, DSDV and OLSR have one radio. Routers of OSPF have a wire to each other router. Links come and go, and
//! nobody is told.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::Prefix;
use base::rng::Rng;
use base::time::{Time, earliest};
use manet::aodv::{self, Aodv};
use manet::dsdv::{self, Dsdv};
use manet::olsr::{self, Olsr};
use manet::ospf::{self, Ospf};
use manet::{Arrival, Demand, Event, Interface, Neighbour, Passage, Route, Router, Sending};

use crate::course::{Course, choice, log, log_count};
use crate::drive::{Cores, Kept, Sent, To};
use crate::network::Network;

/// Octets of the longest message.
const ROOM: usize = 556;
/// The TTL of a user's packet.
const TTL: u8 = 64;
/// Packets of a node that wait to be sent.
const QUEUE: usize = 100;
/// Share of a user's actions that change a link.
const CHANGES: f64 = 0.3;
/// Packets of a flow, and the seconds between two of them.
const PACKETS: std::ops::Range<usize> = 1..40;
const SPACING: std::ops::Range<f64> = 0.1..6.0;
/// The node that users mostly send to, as to a gateway, and the share of such flows.
const SOUGHT: usize = 0;
const POPULAR: f64 = 0.6;
/// After this time of calm, OLSR and OSPF know the network.
const SETTLED: Duration = Duration::from_secs(300);
/// The longest validity time of an OLSR message: a message forged in a node's name is believed for as long.
const FORGED: Duration = Duration::from_secs(4_000);
/// OLSR gives up a neighbour that was silent for 6 s, tells it in the next HELLO after at most 2 s, and others in the
/// next TC after at most 5 s.
const OLSR_NOTICES: Duration = Duration::from_secs(15);
/// OSPF gives up a neighbour that was silent for 40 s.
const OSPF_NOTICES: Duration = Duration::from_secs(41);
/// Octets of a message, and of all that waits before it on a slow link.
const OCTETS: f64 = 300.0;
/// AODV takes for granted that no message is older than its delete period; with a margin for routes told on.
const OLDEST: Duration = Duration::from_secs(1);

/// The routing protocol of a course.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Protocol {
    Aodv,
    Dsdv,
    Olsr,
    Ospf,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aodv => "AODV",
            Self::Dsdv => "DSDV",
            Self::Olsr => "OLSR",
            Self::Ospf => "OSPF",
        })
    }
}

/// What a datagram carries.
#[derive(Clone, Copy, Debug)]
struct Head {
    is_packet: bool,
    is_unicast: bool,
    ttl: u8,
    sent_at: Time,
}

/// Packets of a user that follow each other.
#[derive(Debug)]
struct Flow {
    to: usize,
    left: usize,
    spacing: Duration,
    next_at: Time,
}

/// A node of the network.
#[derive(Debug)]
struct Node {
    router: Box<dyn Router>,
    /// The forwarding table.
    table: BTreeMap<Prefix, Route>,
    has_changed: bool,
    /// Users' packets with their next node.
    packets: VecDeque<(usize, Vec<u8>)>,
    flow: Option<Flow>,
    /// When the network is to be known.
    settles_at: Option<Time>,
    has_restarted: bool,
}

/// Nodes, links, and routes.
#[derive(Debug)]
pub struct Routes {
    protocol: Protocol,
    /// Whether the link layer tells of datagrams that it could not bring.
    has_feedback: bool,
    flags: [bool; 3],
    network: Network,
    nodes: Vec<Node>,
    /// Since when routes of DSDV go round in a circle through a node that has started again.
    circle_since: Option<Time>,
    /// Whether a stranger has sent a message in a node's name.
    is_forged: bool,
    is_calm: bool,
    /// Links of which one is lost in the calm, until then.
    losable: Vec<(usize, usize)>,
    /// How long routers may take to know that a link is lost.
    notices: Duration,
    fault: Option<String>,
}

impl Routes {
    pub fn new(course: &Course) -> Self {
        let rng = &mut Rng::stream(course.seed, "storm routing");
        let all = [Protocol::Aodv, Protocol::Dsdv, Protocol::Olsr, Protocol::Ospf];
        let mut routes = Self {
            protocol: all[choice(rng, all.len())],
            has_feedback: rng.chance(0.4),
            flags: [0.5; 3].map(|share| rng.chance(share)),
            network: Network::draw(course.nodes, rng),
            nodes: Vec::new(),
            circle_since: None,
            is_forged: false,
            is_calm: false,
            losable: Vec::new(),
            notices: Duration::ZERO,
            fault: None,
        };
        routes.draw_loss(course);
        for node in 0..course.nodes {
            let rng = Rng::stream(course.seed, &format!("router {node}"));
            let started = routes.start(crate::drive::start(), node, rng);
            routes.nodes.push(started);
        }
        routes
    }

    /// Draws the order in which links are tried for the loss in the calm, and the time until that is known.
    fn draw_loss(&mut self, course: &Course) {
        let silence = match self.protocol {
            Protocol::Aodv | Protocol::Dsdv => return,
            Protocol::Olsr => OLSR_NOTICES,
            Protocol::Ospf => OSPF_NOTICES,
        };
        let nodes = u32::try_from(course.nodes).expect("a few nodes");
        let hop = Duration::from_secs_f64(course.medium.delay + OCTETS * 8.0 / course.medium.rate);
        self.notices = silence + hop * nodes;
        let rng = &mut Rng::stream(course.seed, "storm lost link");
        let all = 0..course.nodes;
        let pairs = all.clone().flat_map(|one| all.clone().map(move |other| (one, other)));
        let mut keyed: Vec<_> = pairs.map(|pair| (rng.bits(), pair)).collect();
        keyed.sort_unstable();
        self.losable = keyed.into_iter().map(|(_, pair)| pair).collect();
    }

    fn start(&self, now: Time, node: usize, rng: Rng) -> Node {
        let [first, second, third] = self.flags;
        let mut router: Box<dyn Router> = match self.protocol {
            Protocol::Aodv => {
                let config = match self.has_feedback {
                    true => aodv::Config::link_layer_feedback(),
                    false => aodv::Config::hello(),
                };
                let unidirectional =
                    aodv::Unidirectional { acknowledge: third, ..config.unidirectional };
                let config = aodv::Config {
                    gratuitous: first,
                    destination_only: second,
                    unidirectional,
                    // Without, restarts may cause circles.
                    wait_after_reboot: true,
                    ..config
                };
                Box::new(Aodv::new(config, rng))
            }
            Protocol::Dsdv => {
                let config =
                    dsdv::Config { link_breaks: self.has_feedback, ..dsdv::Config::default() };
                Box::new(Dsdv::new(config, rng))
            }
            Protocol::Olsr => Box::new(Olsr::new(olsr::Config::default(), rng)),
            Protocol::Ospf => {
                let config = ospf::Config {
                    router_id: Some(main(node)),
                    attached: vec![host(node)],
                    ..ospf::Config::default()
                };
                Box::new(Ospf::new(config, rng))
            }
        };
        for index in self.interfaces(node) {
            let address = self.address(node, index);
            router.handle_interface(now, index, Some(&Interface { address, room: ROOM }));
        }
        Node {
            router,
            table: BTreeMap::new(),
            has_changed: false,
            packets: VecDeque::new(),
            flow: None,
            settles_at: None,
            has_restarted: false,
        }
    }

    /// The interfaces of a node: its radio, or a wire to each other node with the other node's number.
    fn interfaces(&self, node: usize) -> Vec<usize> {
        match self.protocol {
            Protocol::Ospf => (0..self.network.nodes()).filter(|other| *other != node).collect(),
            Protocol::Aodv | Protocol::Dsdv | Protocol::Olsr => vec![0],
        }
    }

    /// The address of a node on an interface.
    fn address(&self, node: usize, interface: usize) -> Ipv4Addr {
        if self.protocol != Protocol::Ospf {
            return main(node);
        }
        let (low, high) = (node.min(interface), node.max(interface));
        let wire = octet(low * self.network.nodes() + high);
        Ipv4Addr::new(10, 1, wire, octet(1 + usize::from(node == high)))
    }

    /// How a node knows another node.
    fn neighbour(&self, node: usize, other: usize) -> Neighbour {
        let is_wired = self.protocol == Protocol::Ospf;
        Neighbour {
            interface: if is_wired { other } else { 0 },
            address: self.address(other, node),
        }
    }

    /// The node that another node knows as a neighbour.
    fn node_of(&self, neighbour: Neighbour) -> usize {
        match self.protocol {
            Protocol::Ospf => neighbour.interface,
            Protocol::Aodv | Protocol::Dsdv | Protocol::Olsr => index(neighbour.address),
        }
    }

    /// Sends a user's packet on its way.
    fn forward(&mut self, now: Time, at: usize, octets: &[u8], ttl: u8, from: Option<usize>) {
        let Some((source, to)) = ends(octets) else { return };
        if to == at || ttl == 0 {
            return;
        }
        let from = from.map(|from| self.neighbour(at, from));
        let destination = main(to);
        let next = self.nodes[at].table.get(&host(to)).map(|route| route.next);
        let next_node = next.map(|next| self.node_of(next));
        let Node { router, packets, .. } = &mut self.nodes[at];
        let Some((next, next_node)) = next.zip(next_node) else {
            router.handle_demand(now, &Demand { destination, from });
            return;
        };
        router.handle_passage(now, &Passage { source: main(source), destination, from, next });
        if packets.len() < QUEUE {
            let head = Head { is_packet: true, is_unicast: true, ttl, sent_at: now };
            packets.push_back((next_node, head.before(octets)));
        }
    }

    /// Sends the next packet of a node's flow if that is due.
    fn flow(&mut self, now: Time, node: usize) {
        let flow = &mut self.nodes[node].flow;
        let Some(due) = flow.as_mut().filter(|flow| flow.next_at <= now) else { return };
        let to = due.to;
        due.next_at = now + due.spacing;
        due.left -= 1;
        flow.take_if(|flow| flow.left == 0);
        self.forward(now, node, &[octet(node), octet(to)], TTL, None);
    }

    /// Loses one more link in the calm once the network is known; false if no link may be lost.
    fn lose(&mut self) -> bool {
        if self.losable.is_empty() {
            return false;
        }
        self.fault = self.fault.take().or_else(|| self.judge_ways().err());
        let losable = std::mem::take(&mut self.losable);
        self.network.lose(&losable)
    }

    /// The first circle in the tables of all nodes: the nodes of a way into it and around, and what is wrong.
    fn circle(&self) -> Option<(Vec<usize>, String)> {
        let nodes = self.nodes.len();
        for to in 0..nodes {
            for from in (0..nodes).filter(|from| *from != to) {
                let mut way = vec![from];
                while let Some(route) = self.nodes[way[way.len() - 1]].table.get(&host(to)) {
                    let next = self.node_of(route.next);
                    if next == to || next >= nodes {
                        break;
                    }
                    if way.contains(&next) {
                        way.push(next);
                        let path: Vec<_> = way.iter().map(ToString::to_string).collect();
                        let (path, protocol) = (path.join(" to "), self.protocol);
                        let why = format!("circle: to node {to} packets go {path}, {protocol}");
                        return Some((way, why));
                    }
                    way.push(next);
                }
            }
        }
        None
    }

    /// Keeps the rule of AODV and DSDV about circles.
    fn judge_circles(&mut self, now: Time) -> Kept {
        let Some((way, why)) = self.circle() else {
            self.circle_since = None;
            return Ok(());
        };
        let of_restart = way.iter().any(|node| self.nodes[*node].has_restarted);
        if self.protocol == Protocol::Dsdv && of_restart {
            let since = *self.circle_since.get_or_insert(now);
            // A neighbour is given up after this silence, and its routes with it.
            let dsdv::Config { update_interval, hold, .. } = dsdv::Config::default();
            if now.since(since) <= update_interval * hold {
                return Ok(());
            }
        }
        Err(why)
    }

    /// Whether packets take the shortest ways between all nodes.
    fn judge_ways(&self) -> Kept {
        for from in 0..self.nodes.len() {
            for to in (0..self.nodes.len()).filter(|to| *to != from) {
                let (walked, shortest) = (self.walk(from, to), self.network.distance(from, to));
                if walked != shortest {
                    let hops = |way: Option<usize>| match way {
                        Some(hops) => format!("{hops} hops"),
                        None => "no way".to_owned(),
                    };
                    let (walked, shortest, protocol) =
                        (hops(walked), hops(shortest), self.protocol);
                    return Err(format!(
                        "way: {protocol}: from node {from} to node {to} {walked}, not {shortest}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Hops to a node by the tables; `None` if packets do not arrive.
    fn walk(&self, from: usize, to: usize) -> Option<usize> {
        let mut at = from;
        for hops in 0..self.nodes.len() {
            if at == to {
                return Some(hops);
            }
            let next = self.node_of(self.nodes[at].table.get(&host(to))?.next);
            if !self.network.hears(next, at) {
                return None;
            }
            at = next;
        }
        (at == to).then_some(self.nodes.len())
    }
}

impl Head {
    const LEN: usize = 11;

    /// A datagram: this head, then the octets.
    fn before(self, octets: &[u8]) -> Vec<u8> {
        let mut out = vec![self.is_packet.into(), self.is_unicast.into(), self.ttl];
        out.extend(self.sent_at.as_nanos().to_be_bytes());
        out.extend(octets);
        out
    }

    fn split(octets: &[u8]) -> Option<(Self, &[u8])> {
        let ([is_packet, is_unicast, ttl, sent_at @ ..], rest) =
            octets.split_first_chunk::<{ Self::LEN }>()?;
        let sent_at = Time::ZERO + Duration::from_nanos(u64::from_be_bytes(*sent_at));
        let (is_packet, is_unicast) = (*is_packet == 1, *is_unicast == 1);
        Some((Self { is_packet, is_unicast, ttl: *ttl, sent_at }, rest))
    }
}

impl Cores for Routes {
    const CALM: Duration = Duration::from_secs(4_200);
    const IS_OPEN: bool = true;

    fn act(&mut self, now: Time, node: usize, rng: &mut Rng) -> Kept {
        let other = (node + 1 + choice(rng, self.nodes.len() - 1)) % self.nodes.len();
        if rng.chance(CHANGES) {
            self.network.change(node, other);
        } else {
            let spacing = Duration::from_secs_f64(log(rng, SPACING));
            let left = log_count(rng, PACKETS);
            let to = if node != SOUGHT && rng.chance(POPULAR) { SOUGHT } else { other };
            self.nodes[node].flow = Some(Flow { to, left, spacing, next_at: now });
            self.flow(now, node);
        }
        Ok(())
    }

    fn arrive(&mut self, now: Time, node: usize, from: usize, octets: &[u8]) -> Kept {
        let Some((head, rest)) = Head::split(octets) else { return Ok(()) };
        if !self.network.hears(node, from) {
            return Ok(());
        }
        if head.is_packet {
            self.forward(now, node, rest, head.ttl.saturating_sub(1), Some(from));
            return Ok(());
        }
        if self.protocol == Protocol::Aodv && now.since(head.sent_at) > OLDEST {
            return Ok(());
        }
        let from = self.neighbour(node, from);
        let arrival = Arrival { from, is_unicast: head.is_unicast, ttl: head.ttl };
        self.nodes[node].router.handle_message(now, &arrival, rest);
        Ok(())
    }

    /// Whoever writes messages of AODV or DSDV can make circles.
    fn forge(&mut self, now: Time, node: usize, octets: &[u8]) {
        let Some((head, rest)) = Head::split(octets) else { return };
        let other = rest.iter().map(|octet| usize::from(*octet)).sum::<usize>() % self.nodes.len();
        if matches!(self.protocol, Protocol::Olsr | Protocol::Ospf) && other != node {
            let from = self.neighbour(node, other);
            let arrival = Arrival { from, is_unicast: head.is_unicast, ttl: head.ttl };
            self.nodes[node].router.handle_message(now, &arrival, rest);
            self.is_forged = true;
        }
    }

    fn told(&mut self, now: Time, node: usize, tag: u64, has_arrived: bool) {
        let to = usize::try_from(tag).expect("a node");
        if self.has_feedback && !(has_arrived && self.network.hears(node, to)) {
            let neighbour = self.neighbour(node, to);
            self.nodes[node].router.handle_break(now, neighbour);
        }
    }

    fn restart(&mut self, now: Time, node: usize, rng: Rng) -> Kept {
        self.nodes[node] = Node { has_restarted: true, ..self.start(now, node, rng) };
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time, node: usize) {
        self.flow(now, node);
        let is_settled = self.nodes[node].settles_at.take_if(|at| *at <= now).is_some();
        // The first node's clock decides.
        if is_settled && node == 0 && self.lose() {
            self.nodes[node].settles_at = Some(now + self.notices);
        }
        self.nodes[node].router.handle_timeout(now);
    }

    fn next_timeout(&self, node: usize) -> Option<Time> {
        let Node { router, settles_at, flow, .. } = &self.nodes[node];
        let due = earliest(*settles_at, flow.as_ref().map(|flow| flow.next_at));
        earliest(router.next_timeout(), due)
    }

    fn poll(&mut self, now: Time, node: usize) -> Result<bool, String> {
        let Node { router, table, has_changed, .. } = &mut self.nodes[node];
        if let Some(event) = router.poll_event() {
            if let Event::Route(prefix, route) = event {
                *has_changed = true;
                match route {
                    Some(route) => _ = table.insert(prefix, route),
                    None => _ = table.remove(&prefix),
                }
            }
            return Ok(true);
        }
        if !std::mem::take(has_changed) {
            return Ok(false);
        }
        if !table.iter().map(|(prefix, route)| (*prefix, *route)).eq(router.routes()) {
            return Err(format!("table: node {node} was told other routes than it has"));
        }
        if matches!(self.protocol, Protocol::Aodv | Protocol::Dsdv) {
            self.judge_circles(now)?;
        }
        Ok(false)
    }

    fn poll_transmit(&mut self, now: Time, node: usize, out: &mut Vec<u8>) -> Option<Sent> {
        if let Some((to, packet)) = self.nodes[node].packets.pop_front() {
            *out = packet;
            return Some(Sent { to: To::One(to), tag: to as u64 });
        }
        let mut message = Vec::new();
        for interface in self.interfaces(node) {
            let router = &mut self.nodes[node].router;
            let Some(Sending { to, ttl }) = router.poll_transmit(now, interface, &mut message)
            else {
                continue;
            };
            if message.len() > ROOM {
                self.fault = Some(format!("mtu: node {node} sends {} octets", message.len()));
            }
            let is_unicast = !(to.is_broadcast() || to.is_multicast());
            let head = Head { is_packet: false, is_unicast, ttl, sent_at: now };
            *out = head.before(&message);
            let to = match (self.protocol, is_unicast) {
                (Protocol::Ospf, _) => interface,
                (_, true) => index(to),
                (_, false) => return Some(Sent { to: To::Everyone, tag: 0 }),
            };
            // A node that nobody has takes the datagram.
            let to = to.min(self.nodes.len() - 1);
            return Some(Sent { to: To::One(to), tag: to as u64 });
        }
        None
    }

    fn check(&self, _node: usize) -> Kept {
        self.fault.clone().map_or(Ok(()), Err)
    }

    fn calm(&mut self, now: Time, node: usize) -> Kept {
        self.is_calm = true;
        self.nodes[node].flow = None;
        let holds = self.protocol == Protocol::Olsr && self.is_forged;
        self.nodes[node].settles_at = Some(now + if holds { FORGED } else { SETTLED });
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.is_calm && self.nodes.iter().all(|node| node.settles_at.is_none())
    }

    fn conclude(&self) -> Kept {
        if matches!(self.protocol, Protocol::Aodv | Protocol::Dsdv) {
            return self.circle().map_or(Ok(()), |(_, why)| Err(why));
        }
        self.judge_ways()
    }
}

/// The source and destination of a user's packet.
fn ends(octets: &[u8]) -> Option<(usize, usize)> {
    let [source, destination] = octets.first_chunk()?;
    Some(((*source).into(), (*destination).into()))
}

/// The address of a node, or the number of a router.
fn main(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, octet(node + 1))
}

fn host(node: usize) -> Prefix {
    Prefix::host(main(node).into())
}

/// The node with this address.
fn index(address: Ipv4Addr) -> usize {
    usize::from(address.octets()[3]).wrapping_sub(1)
}

fn octet(number: usize) -> u8 {
    u8::try_from(number).expect("a few nodes")
}

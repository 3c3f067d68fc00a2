//! HBH under storm: delivered packets were sent, and come no more often than by plain IP; in the calm, every node
//! reaches every node in time, beside a flow that fills all queues, and the memory of all nodes is free again.
//!
//! Each node routes as Linux or the simulator would. Some nodes run plain IP, and a restart makes a node plain or lets
//! it speak HBH again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hasher as _};
use std::time::Duration;

use base::ethernet::Mac;
use base::ip::{Header, V4_HEADER, V6_HEADER, decrement_ttl, udp};
use base::rng::Rng;
use base::tcp::{self, Flags};
use base::time::{Time, earliest};
use hbh::auth::{GroupKey, KEY, TRAILER};
use hbh::host::{self, Event, Host, Interface, NextHop};
use hbh::{OVERHEAD, Profile, Redundancy};

use crate::course::{Course, choice, log_count};
use crate::drive::{Cores, Kept, Sent, To, start};
use crate::network::{Network, station};
use crate::offered::{self, Content, Offered};
use crate::words;

/// Packets in one burst of a user.
const BURST: std::ops::Range<usize> = 1..40;
/// Octets of the longest packet on a course's links.
const MTUS: std::ops::Range<usize> = 576..1_501;
/// Flows from one node to another: enough to make a node drop packets of its longest queues.
const FLOWS: u16 = 8;
/// Share of a user's bursts that all flows join.
const CROWDS: f64 = 0.1;
/// The flow of probes, and the flow beside the probes that fills the queues.
const PROBES: u16 = FLOWS;
const BESIDE: u16 = FLOWS + 1;
/// Packets of a node that wait to be sent by plain IP.
const PLAIN: usize = 100;
/// The only interface of each node.
const INTERFACE: usize = 0;
/// After this time of calm, neighbours know each other, or know that the other node is plain.
const ACQUAINTED: Duration = Duration::from_secs(60);
/// A late copy of a frame may bring its packet again only when the receiver has forgotten the flow: twice `idle`.
const FORGOTTEN: Duration = Duration::from_secs(110);

/// A node of the network.
#[derive(Debug)]
struct Node {
    /// `None` while the node runs plain IP.
    host: Option<Host>,
    /// Packets that go by plain IP, each with its next node.
    plain: VecDeque<(usize, Vec<u8>)>,
    hellos: VecDeque<(Mac, Vec<u8>)>,
    /// Whether plain packets go before HBH's packets: the two kinds take turns.
    is_plain_next: bool,
    /// When the node learns that routes have changed.
    learns_at: Option<Time>,
    /// The latest frame sent, with its receiver; and the latest frame that came, with its sender.
    sent: Option<(usize, Vec<u8>)>,
    came: Option<(usize, Vec<u8>)>,
    /// In the calm: when the probe has to be there, or when to look again; the node of the probe and the probe.
    probe_at: Option<Time>,
    probed: usize,
    probe: Option<u32>,
}

/// The course of a packet so far.
#[derive(Debug)]
struct Packet {
    offered: Offered,
    /// Mishaps and excused copies before it was offered.
    mishaps: u32,
    late_copies: u32,
    /// Copies that plain IP's media made.
    copies: u32,
    delivered: u32,
    was_plain: bool,
    is_refused: bool,
}

/// Frames of HBH with the same octets from one node to another: sent but not arrived, and when the last was sent.
#[derive(Debug)]
struct Frames {
    under_way: i32,
    sent_at: Time,
}

/// Nodes, and the packets between them.
#[derive(Debug)]
pub struct Hops {
    config: host::Config,
    network: Network,
    nodes: Vec<Node>,
    packets: Vec<Packet>,
    /// Where the next segment of each flow begins.
    places: BTreeMap<(usize, usize, u16), u32>,
    mtu: usize,
    is_acknowledged: bool,
    /// Whether all packets of the flows fit into the nodes.
    is_roomy: bool,
    /// Whether a node with too many flows forgets what a flow has brought, or refuses packets of another flow.
    may_forget: bool,
    /// The time of the longest packet on a link, and the longest round trip of a hop.
    slot: Duration,
    round_trip: Duration,
    /// Restarts, neighbours that went down, and changes of routes: each may bring a packet on its way a second time.
    mishaps: u32,
    /// What `counted` said at the last mishap.
    counted_before: [u64; 2],
    /// Late copies of frames that may bring a packet again.
    late_copies: u32,
    flips: u32,
    frames: BTreeMap<(usize, usize, u64), Frames>,
    /// Plain packets sent and not arrived, by number, sender and receiver.
    plain: BTreeMap<(u32, usize, usize), u32>,
    is_calm: bool,
    fault: Option<String>,
}

impl Hops {
    pub fn new(course: &Course) -> Self {
        let mut rng = Rng::stream(course.seed, "storm hbh");
        let rng = &mut rng;
        let network = Network::draw(course.nodes, rng);
        let mut core = hbh::Config::new(Profile::Default);
        core.queue = course.limit(rng, 2, core.queue);
        core.congestion = core.congestion.min(core.queue);
        core.clear = core.clear.min(core.congestion);
        let usual = (core.packets, core.flows);
        core.packets = course.limit(rng, 16, core.packets);
        core.flows = course.limit(rng, 2, core.flows);
        let may_forget = core.flows != usual.1;
        let is_roomy = core.packets == usual.0 && !may_forget;
        let most = course.limit(rng, 4, core.window.1.into());
        core.window.1 = u16::try_from(most).expect("not more than usual");
        core.retries =
            u8::try_from(course.limit(rng, 1, core.retries.into())).expect("not more than usual");
        let kinds = [Redundancy::Auto, Redundancy::Off, Redundancy::Spare];
        core.redundancy = kinds[choice(rng, kinds.len())];
        let mut config = host::Config::new(core);
        config.key = rng.chance(0.5).then(|| GroupKey::new(&[7; KEY]));
        let mtu = log_count(rng, MTUS);
        let is_acknowledged = rng.chance(0.3);
        let slot = Duration::from_secs_f64((mtu * 8) as f64 / course.medium.rate);
        let round_trip = 2 * Duration::from_secs_f64(course.medium.delay);
        let mut hops = Self {
            config,
            network,
            nodes: Vec::new(),
            packets: Vec::new(),
            places: BTreeMap::new(),
            mtu,
            is_acknowledged,
            is_roomy,
            may_forget,
            slot,
            round_trip,
            mishaps: 0,
            counted_before: [0, 0],
            late_copies: 0,
            flips: 0,
            frames: BTreeMap::new(),
            plain: BTreeMap::new(),
            is_calm: false,
            fault: None,
        };
        for node in 0..course.nodes {
            let is_plain = rng.chance(0.15);
            let rng = Rng::stream(course.seed, &format!("hbh {node}"));
            let host = (!is_plain).then(|| hops.host(start(), node, rng));
            hops.nodes.push(Node::new(host));
        }
        hops
    }

    fn host(&self, now: Time, node: usize, mut rng: Rng) -> Host {
        let hellos = Rng::stream(rng.bits(), "neighbours");
        let mut host = Host::new(self.config.clone(), rng, hellos);
        let address = self.network.address(node);
        host.handle_addresses(BTreeSet::from([address]));
        let interface = Interface {
            station: station(node),
            addresses: vec![address],
            mtu: self.mtu,
            is_running: true,
            is_acknowledged: self.is_acknowledged,
        };
        host.handle_interface(now, INTERFACE, Some(interface));
        host
    }

    /// A user hands a packet to a node.
    fn offer(&mut self, now: Time, offered: Offered) -> u32 {
        let number = u32::try_from(self.packets.len()).expect("thousands of packets");
        self.packets.push(Packet {
            offered,
            mishaps: self.mishaps,
            late_copies: self.late_copies,
            copies: 0,
            delivered: 0,
            was_plain: false,
            is_refused: false,
        });
        let packet = offered.packet(number, &self.network);
        self.forward(now, offered.from, packet);
        number
    }

    /// Payload octets of a packet with IP's and HBH's headers.
    fn longest(&self, transport: usize) -> usize {
        let ip = if self.network.address(0).is_ipv4() { V4_HEADER } else { V6_HEADER };
        let seal = if self.config.key.is_some() { TRAILER } else { 0 };
        self.mtu - ip - transport - OVERHEAD - seal
    }

    /// A burst of one flow.
    fn burst(&mut self, now: Time, (node, to, flow): (usize, usize, u16), rng: &mut Rng) {
        let is_tcp = rng.chance(0.4);
        let most = self.longest(if is_tcp { tcp::HEADER } else { udp::HEADER });
        let is_of_acks = is_tcp && rng.chance(0.3);
        for _ in 0..log_count(rng, BURST) {
            // Many packets fill the link's MTU.
            let len = log_count(rng, offered::SHORTEST..most);
            let mut content = Content::Datagram(if 2 * len < most { len } else { most });
            if is_tcp {
                let place = self.places.entry((node, to, flow)).or_insert(0);
                let mut flags = Flags::ACK;
                if *place == 0 {
                    flags = Flags::SYN;
                } else if rng.chance(0.02) {
                    flags = Flags::ACK | [Flags::FIN, Flags::RST][choice(rng, 2)];
                }
                let len = if is_of_acks || !flags.has(Flags::ACK) { 0 } else { len };
                // Some segments are repeats, of a part of what was sent.
                let back = if rng.chance(0.1) { choice(rng, 3_000) } else { 0 };
                let seq = place.saturating_sub(u32::try_from(back).expect("thousands"));
                *place += u32::try_from(len.max(1)).expect("shorter than the MTU");
                content = Content::Segment { seq, len, flags };
            }
            self.offer(now, Offered { from: node, to, flow, content });
        }
    }

    /// Sends a packet of a node on its way.
    fn forward(&mut self, now: Time, node: usize, packet: Vec<u8>) {
        let number = offered::number(&packet);
        if !self.hand_on(now, node, packet)
            && let Some(known) = number.and_then(|at| self.packets.get_mut(at as usize))
        {
            known.is_refused = true;
        }
    }

    /// Hands a packet to HBH or to plain IP; returns whether the node has room for the packet.
    fn hand_on(&mut self, now: Time, node: usize, mut packet: Vec<u8>) -> bool {
        let to = Header::parse(&packet).ok().and_then(|it| self.network.node(it.destination));
        let Some(next) = to.map(|to| self.network.next(node, to)) else { return false };
        let Node { host, plain, .. } = &mut self.nodes[node];
        if let Some(host) = host
            && let Some(peer) = host.peer_at((INTERFACE, station(next)))
            && !host.goes_plain(peer, &packet)
        {
            return host.handle_packet(now, peer, &mut packet).is_ok();
        }
        if let Some(known) =
            offered::number(&packet).and_then(|at| self.packets.get_mut(at as usize))
        {
            known.was_plain = true;
        }
        let has_room = plain.len() < PLAIN;
        if has_room {
            plain.push_back((next, packet));
        }
        has_room
    }

    /// A node has a packet of a neighbour: for itself or for another node.
    fn route(&mut self, now: Time, node: usize, mut packet: Vec<u8>) -> Kept {
        let header = Header::parse(&packet).ok();
        let to = header.and_then(|header| self.network.node(header.destination));
        if to == Some(node) {
            return self.deliver(node, &packet);
        }
        if decrement_ttl(&mut packet) {
            self.forward(now, node, packet);
        }
        Ok(())
    }

    fn deliver(&mut self, node: usize, packet: &[u8]) -> Kept {
        if self.flips > 0 && offered::is_damaged(packet) {
            return Ok(());
        }
        let number = offered::number(packet);
        let known = number.and_then(|at| Some((at, self.packets.get_mut(at as usize)?)));
        let Some((number, known)) = known else {
            return Err(format!("corrupt: node {node} is given what nobody sent"));
        };
        if !known.offered.is_in(packet, number, &self.network) {
            return Err(format!("corrupt: packet {number} comes to node {node} changed"));
        }
        known.delivered += 1;
        // Each mishap makes of each copy two at most.
        let doubled = 1_u32.checked_shl(self.mishaps - known.mishaps).unwrap_or(u32::MAX);
        let copies = 1 + known.copies + self.late_copies - known.late_copies;
        if !self.may_forget && known.delivered > copies.saturating_mul(doubled) {
            return Err(format!("twice: packet {number} comes to node {node} again"));
        }
        Ok(())
    }

    /// Whether no node holds a packet.
    fn is_drained(&self) -> bool {
        self.nodes.iter().all(|node| {
            let held = |host: &Host| host.relay().stats().packets_held == 0 && host.waiting() == 0;
            node.plain.is_empty() && node.host.as_ref().is_none_or(held)
        })
    }

    /// How long the packet of a probe may take for a hop: some round trips of HBH's window, and a turn of each flow.
    fn promptness(&self) -> Duration {
        let flows = u32::try_from(2 * self.nodes.len() * self.nodes.len()).expect("a few");
        4 * self.round_trip + flows * self.slot + Duration::from_secs(1)
    }

    /// In the calm: judges the last probe, and sends the next one.
    fn probe(&mut self, now: Time, node: usize) {
        let Node { probe, probed, .. } = self.nodes[node];
        let mut next = probed;
        if let Some(number) = probe {
            let Packet { delivered, is_refused, .. } = self.packets[number as usize];
            // Probes of several nodes at once may be more flows than a node on the way has room for.
            if delivered == 0 && !(is_refused && self.may_forget) {
                self.fault = Some(format!(
                    "late: packet {number} from node {node} to {probed} is not there"
                ));
            }
            next += 1;
        }
        if next == node {
            next += 1;
        }
        let is_ready = next < self.nodes.len() && (probe.is_some() || self.is_drained());
        let mut wait = ACQUAINTED;
        let mut number = None;
        if is_ready {
            let most = self.longest(udp::HEADER);
            // Packets that wait for longer than their lifetime are dropped.
            let fits = self.is_roomy && self.promptness() < self.config.core.lifetime;
            if fits && self.nodes.iter().all(|node| node.host.is_some()) {
                for _ in 0..BURST.end {
                    let content = Content::Datagram(most);
                    self.offer(now, Offered { from: node, to: next, flow: BESIDE, content });
                }
            }
            let content = Content::Datagram(offered::SHORTEST);
            number = Some(self.offer(now, Offered { from: node, to: next, flow: PROBES, content }));
            let hops = u32::try_from(self.network.hops(node, next)).expect("a few");
            wait = hops * self.promptness();
        }
        let its = &mut self.nodes[node];
        (its.probe, its.probed) = (number, next);
        its.probe_at = (next < self.network.nodes()).then_some(now + wait);
    }

    /// Packets that went by HBH alone and met no mishap, did not arrive, and that no counter explains.
    fn missing(&self) -> Option<String> {
        let is_missing = |packet: &&Packet| {
            packet.delivered == 0
                && !packet.is_refused
                && !packet.was_plain
                && packet.mishaps == self.mishaps
        };
        let is_datagram = |packet: &&Packet| matches!(packet.offered.content, Content::Datagram(_));
        let missing = self.packets.iter().filter(is_missing);
        let missing = [missing.clone().filter(is_datagram).count(), missing.count()];
        let counted = self.counted();
        ["datagrams", "packets"].into_iter().enumerate().find_map(|(at, kind)| {
            let (missing, counted) = (missing[at] as u64, counted[at] - self.counted_before[at]);
            (missing > counted)
                .then(|| format!("uncounted: {missing} {kind} are gone, {counted} counted"))
        })
    }

    /// Packets that counters say are gone: those counted for any packet, and with those only counted for segments.
    fn counted(&self) -> [u64; 2] {
        let hosts = self.nodes.iter().filter_map(|node| node.host.as_ref());
        let stats = hosts.map(|host| host.relay().stats());
        let of_node = stats.map(|hbh::Stats { intake, sent, received, .. }| {
            let any = intake.packets_full_inside
                + sent.packets_expired
                + sent.packets_thinned
                + sent.packets_abandoned;
            let segments = intake.packets_absorbed
                + sent.packets_reset
                + sent.data_superseded
                + received.segments_contained;
            [any, any + segments]
        });
        of_node.fold([0, 0], |sum, its| [sum[0] + its[0], sum[1] + its[1]])
    }

    fn note_mishap(&mut self) {
        self.mishaps += 1;
        self.counted_before = self.counted();
    }
}

impl Node {
    fn new(host: Option<Host>) -> Self {
        Self {
            host,
            plain: VecDeque::new(),
            hellos: VecDeque::new(),
            is_plain_next: false,
            learns_at: None,
            sent: None,
            came: None,
            probe_at: None,
            probed: 0,
            probe: None,
        }
    }
}

impl Cores for Hops {
    const CALM: Duration = Duration::from_secs(2 * 3_600);
    const IS_OPEN: bool = true;

    fn act(&mut self, now: Time, node: usize, rng: &mut Rng) -> Kept {
        if rng.chance(0.05) {
            self.network.avoid(rng);
            self.nodes.iter_mut().for_each(|node| node.learns_at = Some(now));
            return Ok(());
        }
        let to = (node + 1 + choice(rng, self.nodes.len() - 1)) % self.nodes.len();
        let flow = u16::try_from(choice(rng, FLOWS.into())).expect("a few");
        self.burst(now, (node, to, flow), rng);
        // A queue that stays long is thinned only beside many others.
        if rng.chance(CROWDS) {
            (0..FLOWS).for_each(|flow| self.burst(now, (node, to, flow), rng));
        }
        Ok(())
    }

    fn arrive(&mut self, now: Time, node: usize, from: usize, octets: &[u8]) -> Kept {
        if !self.network.hears(node, from) {
            return Ok(());
        }
        let Ok(header) = Header::parse(octets) else { return Ok(()) };
        let is_hbh = header.protocol == self.config.core.protocol;
        let to = self.network.node(header.destination);
        if !is_hbh {
            if let Some(number) = offered::number(octets) {
                let under_way = self.plain.entry((number, from, node)).or_default();
                if *under_way == 0
                    && let Some(known) = self.packets.get_mut(number as usize)
                {
                    known.copies += 1;
                }
                *under_way = under_way.saturating_sub(1);
            }
            return self.route(now, node, octets.to_vec());
        }
        if let Some(frames) = self.frames.get_mut(&(from, node, digest(octets))) {
            frames.under_way -= 1;
            let is_late = now.since(frames.sent_at) > FORGOTTEN;
            self.late_copies += u32::from(frames.under_way < 0 && is_late);
        }
        let its = &mut self.nodes[node];
        its.came = Some((from, octets.to_vec()));
        match &mut its.host {
            // Refused hellos are counted.
            Some(host) => _ = host.handle_frame(now, (INTERFACE, station(from)), octets),
            // Plain IP knows nothing of HBH, and passes on packets for others.
            None if to != Some(node) => return self.route(now, node, octets.to_vec()),
            None => {}
        }
        Ok(())
    }

    /// With a key, anybody may send anything in the name of a neighbour. Without a key, one bit of a frame is flipped.
    fn forge(&mut self, now: Time, node: usize, octets: &[u8]) {
        let Node { host: Some(host), came: Some((from, frame)), .. } = &mut self.nodes[node] else {
            return;
        };
        let mut octets = octets.to_vec();
        if self.config.key.is_none() {
            let bit = octets.iter().map(|octet| usize::from(*octet)).sum::<usize>();
            octets.clone_from(frame);
            let at = bit / 8 % octets.len();
            octets[at] ^= 1 << (bit % 8);
            self.flips += 1;
        }
        let _ = host.handle_frame(now, (INTERFACE, station(*from)), &octets);
    }

    fn told(&mut self, now: Time, node: usize, _tag: u64, has_arrived: bool) {
        let Node { host, sent, .. } = &mut self.nodes[node];
        if self.is_acknowledged
            && !has_arrived
            && let (Some(host), Some((to, octets))) = (host, sent)
        {
            host.handle_unsent(now, (INTERFACE, station(*to)), octets);
        }
    }

    fn restart(&mut self, now: Time, node: usize, mut rng: Rng) -> Kept {
        let is_plain = rng.chance(0.2);
        let host = (!is_plain).then(|| self.host(now, node, rng));
        self.nodes[node] = Node::new(host);
        self.note_mishap();
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time, node: usize) {
        if self.nodes[node].probe_at.is_some_and(|at| at <= now) {
            self.probe(now, node);
        }
        let Node { host: Some(host), learns_at, .. } = &mut self.nodes[node] else { return };
        if learns_at.take_if(|at| *at <= now).is_some() {
            host.handle_route_change(now);
            self.note_mishap();
        }
        let Node { host: Some(host), hellos, .. } = &mut self.nodes[node] else { return };
        host.handle_timeout(now);
        // A host asks for a timeout until its hellos are taken.
        let mut hello = Vec::new();
        while let Some(to) = host.poll_hello(now, INTERFACE, &mut hello) {
            hellos.push_back((to, std::mem::take(&mut hello)));
        }
    }

    fn next_timeout(&self, node: usize) -> Option<Time> {
        let Node { host, learns_at, probe_at, .. } = &self.nodes[node];
        let of_host = host.as_ref().and_then(|host| earliest(host.next_timeout(), *learns_at));
        earliest(of_host, *probe_at)
    }

    fn poll(&mut self, now: Time, node: usize) -> Result<bool, String> {
        let Some(host) = &mut self.nodes[node].host else { return Ok(false) };
        if let Some(event) = host.poll_event() {
            if matches!(event, Event::Down { .. }) {
                self.note_mishap();
            }
            return Ok(true);
        }
        if host.needs_routes() {
            let network = &self.network;
            host.handle_routes(now, |flow, _| match network.node(flow.destination) {
                Some(to) if to == node => NextHop::Here,
                Some(to) => NextHop::Station((INTERFACE, station(network.next(node, to)))),
                None => NextHop::Nowhere,
            });
            return Ok(true);
        }
        let mut out = Vec::new();
        if host.poll_returned(&mut out).is_some() {
            self.forward(now, node, out);
            return Ok(true);
        }
        if host.poll_restored(&mut out).is_some() {
            self.route(now, node, out)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn poll_transmit(&mut self, now: Time, node: usize, out: &mut Vec<u8>) -> Option<Sent> {
        let Node { host, plain, hellos, is_plain_next, sent, .. } = &mut self.nodes[node];
        let mut is_plain = false;
        let to = if let Some((to, hello)) = hellos.pop_front() {
            *out = hello;
            to
        } else if *is_plain_next && let Some((to, packet)) = plain.pop_front() {
            (*is_plain_next, is_plain, *out) = (false, true, packet);
            station(to)
        } else if let Some(host) = host
            && let Some(to) = host.poll_transmit(now, INTERFACE, out)
        {
            *is_plain_next = true;
            to
        } else {
            let (to, packet) = plain.pop_front()?;
            (is_plain, *out) = (true, packet);
            station(to)
        };
        if out.len() > self.mtu {
            self.fault = Some(format!("mtu: node {node} sends {} octets", out.len()));
        }
        let others = 0..self.network.nodes();
        let receivers = others.clone().filter(|other| to == Mac::EVERYONE || to == station(*other));
        for other in receivers {
            if is_plain && let Some(number) = offered::number(out) {
                *self.plain.entry((number, node, other)).or_default() += 1;
            } else {
                let frames = self.frames.entry((node, other, digest(out)));
                let frames = frames.or_insert(Frames { under_way: 0, sent_at: now });
                frames.under_way += 1;
                frames.sent_at = now;
            }
        }
        let to = others.into_iter().find(|other| to == station(*other));
        *sent = to.map(|to| (to, out.clone()));
        Some(Sent { to: to.map_or(To::Everyone, To::One), tag: 0 })
    }

    fn check(&self, node: usize) -> Kept {
        if let Some(why) = &self.fault {
            return Err(why.clone());
        }
        let Some(host) = &self.nodes[node].host else { return Ok(()) };
        let (stats, core) = (host.relay().stats(), &self.config.core);
        // Of both directions, and what the last hop remembers of TCP's order.
        let most_flows = 2 * core.flows as u64 + LAST_HOP;
        if stats.packets_held > core.packets as u64 || stats.flows > most_flows {
            return Err(format!("bound: node {node} holds too much: {}", words::counted(&stats)));
        }
        Ok(())
    }

    fn calm(&mut self, now: Time, node: usize) -> Kept {
        self.is_calm = true;
        self.nodes[node].probe_at = Some(now + ACQUAINTED);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.nodes.iter().all(|node| {
            let is_idle = |host: &Host| host.relay().stats().flows == 0;
            node.probe_at.is_none() && node.host.as_ref().is_none_or(is_idle)
        }) && self.is_drained()
    }

    fn conclude(&self) -> Kept {
        if let Some(why) = self.missing() {
            return Err(why);
        }
        if self.is_over() {
            return Ok(());
        }
        let counted = |(at, node): (usize, &Node)| match &node.host {
            Some(host) => format!("node {at}: {}", words::counted(&host.relay().stats())),
            None => format!("node {at} does not run"),
        };
        let counted: Vec<_> = self.nodes.iter().enumerate().map(counted).collect();
        let counted = counted.join("; ");
        Err(format!("stuck: nodes hold packets or flows after the calm: {counted}"))
    }
}

/// Connections whose order the last hop remembers.
const LAST_HOP: u64 = 4_096;

fn digest(octets: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(octets);
    hasher.finish()
}

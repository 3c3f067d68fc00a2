//! A line of nodes, the links between them, and a driver that keeps the contract of [`Relay`].
//!
//! ```text
//!            Link(0)          Link(1)
//!   0 (A) ───────────▶ 1 (B) ───────────▶ 2 (C)      a node's neighbour n is its Peer(n)
//! ```
//!
//! A node in the middle hands what it restores to the next node; the ends deliver it.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use base::ip::Header;
use base::rng::Rng;
use base::time::{Time, earliest};

use super::super::wire::{Ack, Data, Layout, Message};
use super::super::{Config, Link, Peer, PeerConfig, Profile, Redundancy, Relay, Stats};
use super::packets::{datagram, number_of};

/// Time that a packet takes over a link.
pub const DELAY: Duration = Duration::from_millis(50);
/// Time that a packet occupies a link.
pub const SLOT: Duration = Duration::from_millis(10);
/// Octets of the longest packet on a link.
const MTU: usize = 1_500;
pub const A: usize = 0;
pub const B: usize = 1;
pub const C: usize = 2;

/// What becomes of a transmission.
#[derive(Clone, Copy, Debug)]
pub struct Fate {
    pub copies: u8,
    pub late: Duration,
}

impl Fate {
    pub const ARRIVES: Self = Self { copies: 1, late: Duration::ZERO };
    pub const LOST: Self = Self { copies: 0, late: Duration::ZERO };

    /// Lost if `is_lost`.
    pub fn lost_if(is_lost: bool) -> Self {
        if is_lost { Self::LOST } else { Self::ARRIVES }
    }
}

/// A transmission.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The number of the transmission, counted over all nodes.
    pub number: usize,
    pub from: usize,
    to: usize,
    pub at: Time,
    /// Packets waiting at `from` at the time of sending.
    pub backlog: usize,
    pub octets: Vec<u8>,
    layout: Layout,
}

/// Nodes, and links that carry one packet a slot each way.
pub struct Line {
    pub now: Time,
    pub relays: Vec<Relay>,
    /// How long a packet occupies each link.
    pub slots: Vec<Duration>,
    /// Transmissions so far.
    pub sent: usize,
    /// All of them.
    pub log: Vec<Sent>,
    /// Where `run` stops at the latest.
    pub until: Option<Time>,
    /// What arrived at the last node.
    pub delivered: Vec<Vec<u8>>,
    pub delivered_at: Vec<Duration>,
    /// Packets that each node restored.
    restored: Vec<u64>,
    /// Packets that a node in the middle could not send on.
    pub refused: u64,
    restarts: u64,
    /// Until when each link is busy, there and back.
    busy_until: Vec<[Time; 2]>,
    flying: BTreeMap<(Time, usize), (usize, usize, Vec<u8>)>,
}

impl Line {
    /// A and B.
    pub fn pair(config: Config) -> Self {
        Self::new(&[config, config], &[SLOT])
    }

    /// A node for each of `configs`, and links of these slots between them.
    pub fn new(configs: &[Config], slots: &[Duration]) -> Self {
        assert_eq!(configs.len(), slots.len() + 1);
        let mut line = Self {
            now: Time::ZERO,
            relays: Vec::new(),
            slots: slots.to_vec(),
            sent: 0,
            log: Vec::new(),
            until: None,
            delivered: Vec::new(),
            delivered_at: Vec::new(),
            restored: vec![0; configs.len()],
            refused: 0,
            restarts: 0,
            busy_until: vec![[Time::ZERO; 2]; slots.len()],
            flying: BTreeMap::new(),
        };
        for (node, &config) in configs.iter().enumerate() {
            let relay = line.start(node, config);
            line.relays.push(relay);
        }
        line
    }

    /// Gives A datagrams with these numbers for the last node.
    pub fn send(&mut self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            self.give(&datagram("10.0.0.1:1", "10.9.0.2:2", number));
        }
    }

    /// Gives A a packet; A accepts the packet.
    pub fn give(&mut self, packet: &[u8]) {
        self.relays[A].handle_packet(self.now, Peer(1), packet).unwrap();
    }

    /// Runs until nothing is left to happen, or until `until`.
    pub fn run(&mut self, mut fate: impl FnMut(&Sent) -> Fate) {
        loop {
            self.transmit(&mut fate);
            let arrival = self.flying.first_key_value().map(|(&(at, _), _)| at);
            let timer = self.relays.iter().filter_map(Relay::next_timeout).min();
            let free = self.busy_until.iter().flatten().copied().filter(|&at| at > self.now).min();
            let next = earliest(earliest(arrival, timer), free);
            if let Some(until) = self.until
                && next.is_none_or(|next| next > until)
            {
                self.now = self.now.max(until);
                return;
            }
            let Some(next) = next else { return };
            assert!(next > self.now || arrival == Some(next), "time must pass");
            self.now = next;
            self.arrive();
            for node in 0..self.relays.len() {
                self.relays[node].handle_timeout(self.now);
                let next = self.relays[node].next_timeout();
                assert!(next.is_none_or(|at| at > self.now), "a driver would spin");
                self.route(node);
            }
            self.assert_bounds();
        }
    }

    /// Runs for `duration`.
    pub fn run_for(&mut self, duration: Duration, fate: impl FnMut(&Sent) -> Fate) {
        self.until = Some(self.now + duration);
        self.run(fate);
        self.until = None;
    }

    /// A node loses its state. If the neighbours notice, the neighbours end the conversation and
    /// hand in again all packets for the node.
    pub fn restart(&mut self, node: usize, is_noticed: bool) {
        self.restarts += 1;
        self.relays[node] = self.start(node, *self.relays[node].config());
        self.restored[node] = 0;
        if is_noticed {
            for neighbour in self.neighbours(node).collect::<Vec<_>>() {
                self.meet_again(neighbour, node);
            }
        }
    }

    /// `node` loses its neighbour, finds the neighbour again, and hands in again all packets for
    /// the neighbour.
    pub fn meet_again(&mut self, node: usize, neighbour: usize) {
        let mut orphans = Vec::new();
        let orphan = |packet: &[u8], _| orphans.push(packet.to_vec());
        self.relays[node].remove_peer(peer(neighbour), orphan);
        self.relays[node].add_peer(peer(neighbour), peer_config(link_of(node, neighbour).0));
        self.hand_in(node, neighbour, &orphans);
    }

    /// `node` takes all packets back from its neighbour, and hands them in again.
    pub fn reroute(&mut self, node: usize, neighbour: usize) {
        let mut orphans = Vec::new();
        let orphan = |packet: &[u8], _| orphans.push(packet.to_vec());
        self.relays[node].reroute(peer(neighbour), |_, _| true, orphan);
        self.hand_in(node, neighbour, &orphans);
    }

    /// The numbers of the delivered datagrams.
    pub fn order(&self) -> Vec<u32> {
        self.delivered.iter().map(|packet| number_of(packet)).collect()
    }

    /// The transmissions from one node to another.
    pub fn between(&self, from: usize, to: usize) -> impl Iterator<Item = &Sent> {
        self.log.iter().filter(move |sent| (sent.from, sent.to) == (from, to))
    }

    /// Packets waiting at a node, without packets in flight.
    fn backlog(&self, node: usize) -> usize {
        self.relays[node].backlog()
    }

    /// An upper bound of the packets at a node: waiting, unacknowledged, or kept for order.
    pub fn held(&self, node: usize) -> u64 {
        self.relays[node].stats().packets_held + self.kept_for_order(node)
    }

    /// Packets at all nodes and in the air.
    pub fn on_their_way(&self) -> u64 {
        let held: u64 = (0..self.relays.len()).map(|node| self.held(node)).sum();
        held + self.flying.len() as u64
    }

    /// Segments that came and have not left. A segment that came twice, after its sender had handed
    /// the segment back, counts twice.
    fn kept_for_order(&self, node: usize) -> u64 {
        let stats = self.relays[node].stats();
        stats.received.data_received + stats.received.packets_recovered - self.restored[node]
    }

    /// Checks the limits of docs/protocols/hbh.md.
    fn assert_bounds(&self) {
        for (node, relay) in self.relays.iter().enumerate() {
            let (stats, config) = (relay.stats(), relay.config());
            assert!(stats.packets_held <= config.packets as u64, "{stats:?}");
            // One table for each direction, and one connection here.
            assert!(stats.flows <= 2 * config.flows as u64 + 1, "{stats:?}");
            assert!(self.kept_for_order(node) <= 4_096, "{stats:?}");
        }
    }

    fn start(&self, node: usize, config: Config) -> Relay {
        let seed = node as u64 + 1_000 * self.restarts;
        let mut relay = Relay::new(config, Rng::stream(seed, "hbh"));
        for neighbour in self.neighbours(node) {
            relay.add_peer(peer(neighbour), peer_config(link_of(node, neighbour).0));
        }
        relay
    }

    fn neighbours(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        let last = self.slots.len();
        [node.checked_sub(1), (node < last).then_some(node + 1)].into_iter().flatten()
    }

    fn hand_in(&mut self, node: usize, neighbour: usize, packets: &[Vec<u8>]) {
        for packet in packets {
            let taken = self.relays[node].handle_packet(self.now, peer(neighbour), packet);
            self.refused += u64::from(taken.is_err());
        }
    }

    /// Sends as much as the links have room for: packets on one link may cause packets on another.
    fn transmit(&mut self, fate: &mut impl FnMut(&Sent) -> Fate) {
        let mut before = usize::MAX;
        while self.sent != before {
            before = self.sent;
            self.transmit_once(fate);
        }
    }

    fn transmit_once(&mut self, fate: &mut impl FnMut(&Sent) -> Fate) {
        for link in 0..self.slots.len() {
            for (direction, from, to) in [(0, link, link + 1), (1, link + 1, link)] {
                let mut octets = Vec::new();
                let before = self.relays[from].stats();
                if self.busy_until[link][direction] > self.now
                    || self.relays[from]
                        .poll_transmit(self.now, link_of(from, to), &mut octets)
                        .is_none()
                {
                    continue;
                }
                let free_at = self.now + self.slots[link];
                self.busy_until[link][direction] = free_at;
                let (number, at, backlog) = (self.sent, self.now, self.backlog(from));
                let layout = self.relays[from].config().profile.layout();
                let sent = Sent { number, from, to, at, backlog, octets, layout };
                sent.assert_counted(&before, &self.relays[from].stats());
                let fate = fate(&sent);
                self.sent += 1;
                for copy in 0..fate.copies {
                    let at = free_at + DELAY + fate.late * u32::from(copy + 1);
                    let key = (at, self.sent * 2 + usize::from(copy));
                    self.flying.insert(key, (from, to, sent.octets.clone()));
                }
                self.log.push(sent);
            }
        }
    }

    fn arrive(&mut self) {
        while let Some(entry) = self.flying.first_entry()
            && entry.key().0 <= self.now
        {
            let (from, to, octets) = entry.remove();
            let (before, layout) =
                (self.relays[to].stats(), self.relays[to].config().profile.layout());
            self.relays[to].handle_message(self.now, peer(from), &octets);
            assert_all_counted(&before, &self.relays[to].stats(), &messages(&octets, layout));
            self.route(to);
        }
    }

    fn route(&mut self, node: usize) {
        let mut out = Vec::new();
        while let Some(Peer(from)) = self.relays[node].poll_restored(&mut out) {
            self.restored[node] += 1;
            let is_ahead = usize::try_from(from).unwrap() < node;
            if is_ahead && node < self.slots.len() {
                self.hand_in(node, node + 1, &[out.clone()]);
            } else if !is_ahead && node > 0 {
                self.hand_in(node, node - 1, &[out.clone()]);
            } else if node > 0 {
                self.delivered.push(out.clone());
                self.delivered_at.push(self.now.since(Time::ZERO));
            }
        }
    }
}

impl Sent {
    /// Whether A sent the message, with a packet inside.
    pub fn is_data(&self) -> bool {
        self.from == A && self.data().is_some()
    }

    /// The HDM in it.
    pub fn data(&self) -> Option<Data<'_>> {
        self.messages().into_iter().find_map(|message| match message {
            Message::Data(data) => Some(data),
            Message::Ack(_) | Message::Repair(_) => None,
        })
    }

    /// The HAMs in it.
    pub fn acks(&self) -> impl Iterator<Item = Ack<'_>> {
        self.messages().into_iter().filter_map(|message| match message {
            Message::Ack(ack) => Some(ack),
            Message::Data(_) | Message::Repair(_) => None,
        })
    }

    fn messages(&self) -> VecDeque<Message<'_>> {
        messages(&self.octets, self.layout)
    }

    /// The transmission fits, and is counted as what it is.
    fn assert_counted(&self, before: &Stats, after: &Stats) {
        assert!(self.octets.len() <= MTU, "{} octets", self.octets.len());
        let (is_data, acks) = (self.data().is_some(), self.acks().count() as u64);
        let is_repair = self.messages().iter().any(|it| matches!(it, Message::Repair(_)));
        let is_repeat = self.data().is_some_and(|data| data.repeat.is_some());
        let older = self.data().map_or(0, |data| data.older.iter().count());
        let (sent, sent_before) = (&after.sent, &before.sent);
        let repeated = sent.data_repeated + sent.data_spare;
        let is_alone = !is_data && !is_repair;
        assert_eq!(sent.data_sent - sent_before.data_sent, u64::from(is_data));
        assert_eq!(sent.repairs_sent - sent_before.repairs_sent, u64::from(is_repair));
        assert_eq!(sent.data_older - sent_before.data_older, older as u64);
        if self.layout == Layout::Wide {
            let repeated = repeated - sent_before.data_repeated - sent_before.data_spare;
            assert_eq!(repeated, u64::from(is_repeat));
        }
        let (answers, answers_before) = (&after.received, &before.received);
        let ridden = if is_alone { 0 } else { acks };
        assert_eq!(answers.acks_ridden - answers_before.acks_ridden, ridden);
        assert_eq!(answers.acks_sent - answers_before.acks_sent, u64::from(is_alone));
    }
}

fn messages(packet: &[u8], layout: Layout) -> VecDeque<Message<'_>> {
    let header = Header::parse(packet).unwrap();
    let mut rest = &packet[header.len..header.total_len];
    let mut messages = VecDeque::new();
    while !rest.is_empty() {
        let (message, after) = Message::split_first(layout, rest).unwrap();
        messages.push_back(message);
        rest = after;
    }
    messages
}

/// Each of the messages that came is counted as one thing.
fn assert_all_counted(before: &Stats, after: &Stats, messages: &VecDeque<Message<'_>>) {
    let fates = |stats: &Stats| {
        let it = &stats.received;
        let data = it.data_received + it.data_duplicate + it.data_stray + it.data_deferred;
        data + it.repairs_received + it.repairs_stray
    };
    let (acks, others): (Vec<_>, Vec<_>) =
        messages.iter().partition(|it| matches!(it, Message::Ack(_)));
    let congested =
        acks.iter().filter(|it| matches!(it, Message::Ack(ack) if ack.is_congested)).count();
    let [acks, others, congested] = [acks.len(), others.len(), congested].map(|it| it as u64);
    assert_eq!(fates(after) - fates(before), others, "{after:?}");
    assert_eq!(after.sent.acks_received - before.sent.acks_received, acks, "{after:?}");
    let more = after.sent.congestion_received - before.sent.congestion_received;
    assert_eq!(more, congested, "{after:?}");
}

/// A configuration in which nothing is sent without need.
pub fn quiet(profile: Profile) -> Config {
    Config { redundancy: Redundancy::Off, ..Config::new(profile) }
}

/// Where the budget is no limit from the start.
pub fn roomy() -> Config {
    Config { window: (256, 16_384), ..quiet(Profile::Default) }
}

pub fn peer_config(link: u32) -> PeerConfig {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    PeerConfig {
        link: Link(link),
        local: address("10.1.0.1"),
        remote: address("10.1.0.2"),
        mtu: MTU,
    }
}

fn peer(node: usize) -> Peer {
    Peer(u32::try_from(node).unwrap())
}

fn link_of(node: usize, neighbour: usize) -> Link {
    Link(u32::try_from(node.min(neighbour)).unwrap())
}

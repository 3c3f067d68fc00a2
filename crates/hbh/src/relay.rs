//! The relay of a node: sends the flows of all peers over the links, and restores packets from peers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::contract::Refused;
use base::ip::{FlowKey, Header, Spec, mark_congestion};
use base::rng::Rng;
use base::tcp::Peek;
use base::time::{Time, earliest};

use super::budget::Room;
use super::config::{Config, Profile};
use super::egress::{Egress, LeavingSegment};
use super::link::{Estimates, Link, LinkReport, Peer, PeerConfig};
use super::packet::{Packet, write_ip_header};
use super::peer::{Learned, PeerPath};
use super::pool::Pool;
use super::receiver::Receiver;
use super::repair::OVERHEAD;
use super::sender::{self, Choice, Sender, Thinned};
use super::stats::{Received, Stats};
use super::wire::{self, Ack, Data, FlowId, INTERVAL, Message, Repair, Seq};

/// What the driver should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The peer did not acknowledge packets and HBH gave up on them.
    GaveUp {
        /// Which peer.
        peer: Peer,
        /// How many packets.
        packets: u32,
    },
}

/// How strongly a packet without a tag shows that the peer's HBH runs: a host whose HBH has ended forwards what others
/// send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Evidence {
    /// The packet acknowledges a flow that we send to the peer.
    Answer,
    /// The packet continues a flow that the peer sends.
    Flow,
    /// Another node may have sent the packet.
    Unsure,
}

impl Evidence {
    /// Takes into account whether the packet continues a flow.
    fn or_of_flow(self, is_known: bool) -> Self {
        if self == Self::Unsure && is_known { Self::Flow } else { self }
    }
}

/// What a deadline is for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Timer {
    /// An acknowledgement to a peer has waited for long enough.
    Ack(Peer),
    /// A flow to a peer may send, or has heard nothing for too long.
    Flow(Peer, FlowId),
    /// A peer may be sent the next packet.
    Pace(Peer),
    /// A peer that could not be reached may be tried again.
    Pause(Peer),
}

/// The HBH of one node, towards all neighbours: a core according to [`base::contract`].
///
/// The driver routes. It hands a packet whose next hop speaks HBH to
/// [`handle_packet`](Self::handle_packet), where the packet waits in the queue of its flow until the link
/// to the neighbour has room. Messages of a neighbour go to [`handle_message`](Self::handle_message); the
/// packets in them come back out of [`poll_restored`](Self::poll_restored), to be routed again.
///
/// - Facts in: [`add_peer`](Self::add_peer), [`remove_peer`](Self::remove_peer) and
///   [`reroute`](Self::reroute) for what routing knows; `handle_packet`, `handle_message`,
///   [`handle_link_report`](Self::handle_link_report) and [`handle_unsent`](Self::handle_unsent) from drivers
///   that know.
/// - Decisions out: `poll_restored` and [`poll_event`](Self::poll_event) after each of these and after
///   timeouts, then [`poll_transmit`](Self::poll_transmit) for each link that has room.
/// - Time: [`next_timeout`](Self::next_timeout) and [`handle_timeout`](Self::handle_timeout).
/// - Getters: [`config`](Self::config), [`stats`](Self::stats).
#[derive(Debug)]
pub struct Relay {
    config: Config,
    rng: Rng,
    peers: BTreeMap<Peer, PeerState>,
    links: BTreeMap<Link, LinkQueue>,
    senders: BTreeMap<(Peer, FlowId), Sender>,
    flows: BTreeMap<(Peer, FlowKey), FlowId>,
    receivers: BTreeMap<(Peer, FlowId), Receiver>,
    timers: BTreeSet<(Time, Timer)>,
    sweep_at: Option<Time>,
    /// The peer and flow that bring packets, by addresses and ports.
    inbound: BTreeMap<FlowKey, (Peer, FlowId)>,
    egress: Egress,
    pool: Pool,
    /// Packets waiting or unacknowledged, over all flows.
    held: usize,
    events: VecDeque<Event>,
    stats: Stats,
    /// Acknowledgements on their way into a packet, and the intervals of one.
    scratch: Vec<u8>,
    intervals: Vec<[u8; INTERVAL]>,
}

/// A neighbour, with the transmissions scheduled for the neighbour.
#[derive(Debug)]
struct PeerState {
    path: PeerPath,
    /// The number of the next new flow to the neighbour.
    next_flow: FlowId,
    /// Flows that may have something to send, in turn: flows that had nothing before go first, for one turn.
    fresh: VecDeque<FlowId>,
    turns: VecDeque<FlowId>,
    /// Flows with a packet that the link lost, which goes before all turns but those of fresh flows.
    urgent: VecDeque<FlowId>,
    /// Whether the neighbour is in the turn list of its link.
    is_listed: bool,
    /// Octets that the neighbour has used of its turn on the link.
    used: usize,
    /// Unknown flows from the neighbour, to be reported to the neighbour.
    unknown: VecDeque<FlowId>,
    /// Flows from the neighbour with an acknowledgement due, oldest first.
    acks_due: VecDeque<FlowId>,
    /// Whether any due acknowledgement may wait no longer.
    is_ack_overdue: bool,
    /// The deadline of the due acknowledgements in the node's timers.
    ack_timer: Option<Time>,
    /// Packets given up by the link layer since the neighbour was last heard, and until when sending pauses.
    unsent: u8,
    unsent_at: Time,
    paused_until: Option<Time>,
}

impl PeerState {
    fn new(path: PeerPath, first: FlowId) -> Self {
        Self {
            path,
            next_flow: first,
            fresh: VecDeque::new(),
            turns: VecDeque::new(),
            urgent: VecDeque::new(),
            is_listed: false,
            used: 0,
            unknown: VecDeque::new(),
            acks_due: VecDeque::new(),
            is_ack_overdue: false,
            ack_timer: None,
            unsent: 0,
            unsent_at: Time::ZERO,
            paused_until: None,
        }
    }
}

/// The flows that may send over a link.
#[derive(Debug, Default)]
struct LinkQueue {
    peers: Vec<Peer>,
    /// Peers whose flows may have something to send, in turn.
    turns: VecDeque<Peer>,
    /// Flows that may use idle time, in turn.
    spares: VecDeque<(Peer, FlowId)>,
}

impl Relay {
    /// A relay without peers. `rng` draws where flow numbers start.
    #[must_use]
    pub fn new(config: Config, rng: Rng) -> Self {
        Self {
            config,
            rng,
            peers: BTreeMap::new(),
            links: BTreeMap::new(),
            senders: BTreeMap::new(),
            flows: BTreeMap::new(),
            receivers: BTreeMap::new(),
            timers: BTreeSet::new(),
            sweep_at: None,
            egress: Egress::new(config.packets),
            inbound: BTreeMap::new(),
            pool: Pool::default(),
            held: 0,
            events: VecDeque::new(),
            stats: Stats::default(),
            scratch: Vec::new(),
            intervals: Vec::new(),
        }
    }

    /// Takes other parameters of the same profile and protocol, and keeps all packets: those beyond a smaller queue at
    /// the entrance are dropped when the next packet comes.
    pub fn set_config(&mut self, now: Time, config: Config) {
        debug_assert_eq!(
            (config.profile, config.protocol),
            (self.config.profile, self.config.protocol)
        );
        self.config = config;
        self.egress.set_most(config.packets);
        self.senders.values_mut().for_each(|sender| sender.set_config(&config));
        let peers: Vec<Peer> = self.peers.keys().copied().collect();
        for peer in peers {
            if let Some(state) = self.peers.get_mut(&peer) {
                state.path.set_parameters(&config);
            }
            self.schedule_flows(now, peer);
        }
    }

    /// Adds a neighbour that speaks HBH, or changes its configuration.
    pub fn add_peer(&mut self, peer: Peer, config: PeerConfig) {
        for link in self.links.values_mut() {
            link.peers.retain(|&other| other != peer);
        }
        self.links.entry(config.link).or_default().peers.push(peer);
        match self.peers.get_mut(&peer) {
            Some(state) => state.path.set_config(config),
            None => {
                let [a, b, ..] = self.rng.bits().to_le_bytes();
                let first = FlowId(u16::from_le_bytes([a, b]));
                let path = PeerPath::new(config, &self.config);
                self.peers.insert(peer, PeerState::new(path, first));
            }
        }
    }

    /// Octets that HBH adds to a packet to `peer` at most: a TCP segment that leaves so much room of the link's MTU
    /// needs no fragments, and can be repaired where packets are lost.
    #[must_use]
    pub fn overhead(&self, peer: Peer) -> usize {
        self.peers.get(&peer).map_or(OVERHEAD, |state| state.path.overhead(&self.config))
    }

    /// Takes what the driver knows of the link to a peer; it counts until HBH has learnt more from
    /// its own packets. Only the default profile.
    pub fn handle_link_report(&mut self, peer: Peer, report: LinkReport) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.path.learn_from_report(report);
        }
    }

    /// Forgets a neighbour and hands back its unacknowledged packets as [`Self::reroute`] does, so that they can take
    /// another way.
    pub fn remove_peer(&mut self, peer: Peer, orphan: impl FnMut(&[u8], Option<Peer>)) {
        self.reroute(peer, |_, _| true, orphan);
        for link in self.links.values_mut() {
            link.peers.retain(|&other| other != peer);
            link.turns.retain(|&other| other != peer);
            link.spares.retain(|&(other, _)| other != peer);
        }
        self.links.retain(|_, link| !link.peers.is_empty());
        self.senders.retain(|&(other, _), _| other != peer);
        self.flows.retain(|&(other, _), _| other != peer);
        self.receivers.retain(|&(other, _), _| other != peer);
        self.inbound.retain(|_, &mut (other, _)| other != peer);
        self.egress.let_go_of(peer);
        self.timers.retain(|&(_, timer)| timer.peer() != peer);
        self.peers.remove(&peer);
    }

    /// Takes packets back from `peer`, for a route that changed.
    ///
    /// `orphan` gets, oldest first, the unacknowledged packets of each flow that `is_moved` selects, but no segment that
    /// has arrived and no acknowledgement that a later one replaces; `is_moved` and `orphan` both get the peer, if any,
    /// that brought the flow.
    pub fn reroute(
        &mut self,
        peer: Peer,
        mut is_moved: impl FnMut(&FlowKey, Option<Peer>) -> bool,
        mut orphan: impl FnMut(&[u8], Option<Peer>),
    ) {
        for flow in self.flows_to(peer) {
            let id = (peer, flow);
            let Some(sender) = self.senders.get(&id).filter(|sender| sender.held() > 0) else {
                continue;
            };
            let (key, from) = (sender.key(), sender.upstream().map(|(from, _)| from));
            if !is_moved(&key, from) {
                continue;
            }
            let acknowledged = self.acknowledged(&key);
            let useless = self.change(id, |sender, _, config, pool| {
                sender.take_back(acknowledged, (config, pool), |packet| {
                    orphan(&packet.octets, from);
                })
            });
            self.stats.sent.packets_useless += useless.unwrap_or(0);
        }
    }

    /// The highest acknowledgement that the other direction of a connection has brought here.
    fn acknowledged(&self, key: &FlowKey) -> Option<u32> {
        let key = key.reversed();
        let reverse = self.peers.keys().filter_map(|&peer| {
            let flow = *self.flows.get(&(peer, key))?;
            self.senders.get(&(peer, flow))
        });
        reverse.max_by_key(|sender| sender.used_at())?.newest_ack()
    }

    /// The flows to a peer.
    fn flows_to(&self, peer: Peer) -> Vec<FlowId> {
        self.senders.range(flows_of(peer)).map(|(&(_, flow), _)| flow).collect()
    }

    /// Changes a flow, and counts the packets that wait or fly in it anew; `None` if there is none.
    fn change<R>(
        &mut self,
        id: (Peer, FlowId),
        change: impl FnOnce(&mut Sender, &mut PeerPath, &Config, &mut Pool) -> R,
    ) -> Option<R> {
        let state = self.peers.get_mut(&id.0)?;
        let sender = self.senders.get_mut(&id)?;
        let (held, counted) = (sender.held(), sender.counted());
        let result = change(sender, &mut state.path, &self.config, &mut self.pool);
        self.held = self.held + sender.held() - held;
        state.path.budget_mut().handle_change(counted, sender.counted());
        Some(result)
    }

    /// Takes an IP packet whose next hop is `peer`; its TTL is already decremented.
    ///
    /// A packet that another peer brought is known by its addresses and ports, so it may have gone
    /// through the driver's own routing and filters in between.
    ///
    /// # Errors
    /// When the packet was not taken.
    pub fn handle_packet(&mut self, now: Time, peer: Peer, packet: &[u8]) -> Result<(), Refused> {
        let outcome = self.take(now, peer, packet);
        match outcome {
            Ok(()) => self.stats.intake.packets_taken += 1,
            Err(Refused::Full) => self.stats.intake.packets_full += 1,
            Err(Refused::Malformed) => self.stats.intake.packets_malformed += 1,
            Err(Refused::TooBig { .. }) => self.stats.intake.packets_too_big += 1,
            Err(Refused::Down) => self.stats.intake.packets_unknown_peer += 1,
        }
        outcome
    }

    /// Takes an HBH packet (an IP packet of our protocol) that `peer` sent. Returns how surely it is the
    /// peer's.
    ///
    /// The packets that it brings are asked for by `poll_restored`.
    pub fn handle_message(&mut self, now: Time, peer: Peer, packet: &[u8]) -> Evidence {
        let Ok(header) = Header::parse(packet) else {
            self.stats.received.messages_malformed += 1;
            return Evidence::Unsure;
        };
        if header.protocol != self.config.protocol {
            self.stats.received.messages_malformed += 1;
            return Evidence::Unsure;
        }
        if !self.peers.contains_key(&peer) {
            self.stats.received.messages_unknown_peer += 1;
            return Evidence::Unsure;
        }
        self.handle_alive(now, peer);

        let mut rest = &packet[header.len..header.total_len];
        let mut evidence = Evidence::Unsure;
        loop {
            match Message::split_first(self.config.profile.layout(), rest) {
                Ok((Message::Ack(ack), after)) => {
                    if self.senders.contains_key(&(peer, ack.flow)) {
                        evidence = Evidence::Answer;
                    }
                    self.handle_ack(now, peer, &ack);
                    if after.is_empty() {
                        return evidence;
                    }
                    rest = after;
                }
                Ok((Message::Data(data), _)) => {
                    let is_known = self.receivers.contains_key(&(peer, data.flow));
                    self.handle_data(now, peer, &data, &packet[..header.len]);
                    return evidence.or_of_flow(is_known);
                }
                Ok((Message::Repair(repair), _)) => {
                    let is_known = self.receivers.contains_key(&(peer, repair.flow));
                    self.handle_repair(now, peer, &repair, &packet[..header.len]);
                    return evidence.or_of_flow(is_known);
                }
                Err(wire::Malformed::Checksum) => {
                    self.stats.received.messages_damaged += 1;
                    return evidence;
                }
                Err(_) => {
                    self.stats.received.messages_malformed += 1;
                    return evidence;
                }
            }
        }
    }

    /// Replaces the content of `out` by the next restored packet from a peer, and returns the peer.
    ///
    /// The driver routes the packet: to this node, out of HBH, or on by `handle_packet`. Packets to be forwarded come
    /// in order of arrival; packets that leave HBH here come in the order of their flow, so ask after timeouts too,
    /// until `None`.
    #[must_use]
    pub fn poll_restored(&mut self, out: &mut Vec<u8>) -> Option<Peer> {
        let (peer, packet) = self.egress.poll()?;
        out.clear();
        out.extend_from_slice(&packet);
        self.pool.give(packet);
        Some(peer)
    }

    /// Acts on what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(&(at, timer)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            match timer {
                Timer::Ack(peer) => self.ack_is_due(now, peer),
                Timer::Pace(_) => {}
                Timer::Pause(peer) => self.pause_ends(now, peer),
                Timer::Flow(peer, flow) => self.flow_is_due(now, peer, flow),
            }
        }
        self.egress.handle_timeout(now);
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep(now);
        }
    }

    /// Replaces the content of `out` by the next IP packet to send over `link`, and returns its peer.
    ///
    /// The choice is made now, so ask only while the link has room.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Time, link: Link, out: &mut Vec<u8>) -> Option<Peer> {
        out.clear();
        let overdue = self.overdue(link);
        let chosen = self.next_turn(now, link).or_else(|| self.spare(now, link));
        let alone = overdue.filter(|&waiting| chosen.is_none_or(|it| self.goes_alone(waiting, it)));
        let sent = match (alone, chosen) {
            (Some(waiting), _) => {
                if let Some(turn) = chosen {
                    self.postpone(turn);
                }
                self.emit_acks(now, waiting, out);
                Some(waiting)
            }
            (None, Some(turn)) => {
                self.emit_data(now, turn, out);
                self.use_turn(link, turn.peer, out.len());
                Some(turn.peer)
            }
            (None, None) => None,
        };
        if let Some(peer) = sent {
            self.pause(now, peer);
        }
        sent
    }

    /// What the driver should know; ask until `None`.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call `handle_timeout`, and then `poll_transmit`, at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let flow = self.timers.first().map(|&(at, _)| at);
        earliest(flow, earliest(self.egress.next_timeout(), self.sweep_at))
    }

    /// The parameters.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Packets that wait, over all flows.
    #[cfg(test)]
    pub(crate) fn backlog(&self) -> usize {
        self.senders.values().map(Sender::backlog).sum()
    }

    /// The estimates of the path to a peer; `None` if the peer is unknown.
    #[must_use]
    pub fn estimates(&self, peer: Peer) -> Option<Estimates> {
        let path = &self.peers.get(&peer)?.path;
        let waiting = self.senders.range(flows_of(peer)).map(|(_, sender)| sender.held()).sum();
        Some(Estimates {
            loss: path.measured_loss(),
            round_trip: path.rtt().known(true),
            waiting,
            is_silent: path.is_silent(),
        })
    }

    /// How long a peer may take to answer a packet, if the answer is not lost. Only the default profile.
    #[must_use]
    pub fn patience(&self, peer: Peer) -> Option<Duration> {
        let path = &self.peers.get(&peer).filter(|_| self.config.profile == Profile::Default)?.path;
        Some(path.patience(&self.config))
    }

    /// The time to a peer and back; before anything is known, the first retransmission timer.
    #[must_use]
    pub fn usual_round_trip(&self, peer: Peer) -> Duration {
        let known = self.peers.get(&peer).and_then(|state| state.path.rtt().known(true));
        known.unwrap_or(self.config.rto.initial)
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let received = Received {
            gaps_given_up: self.egress.given_up(),
            segments_contained: self.egress.contained(),
            ..self.stats.received
        };
        Stats {
            received,
            flows: (self.senders.len() + self.receivers.len() + self.egress.flows()) as u64,
            packets_held: self.held as u64,
            ..self.stats
        }
    }
}

impl Timer {
    fn peer(self) -> Peer {
        match self {
            Self::Ack(peer) | Self::Pace(peer) | Self::Pause(peer) | Self::Flow(peer, _) => peer,
        }
    }
}

/// The keys of all flows of a peer.
fn flows_of(peer: Peer) -> std::ops::RangeInclusive<(Peer, FlowId)> {
    (peer, FlowId(0))..=(peer, FlowId(u16::MAX))
}

// Takes in the packets that the driver hands to a node.

/// Packets that were accepted and are between the driver's routing and their queue, at most.
const ON_THEIR_WAY: usize = 256;

impl Relay {
    fn take(&mut self, now: Time, peer: Peer, packet: &[u8]) -> Result<(), Refused> {
        let header = Header::parse(packet).map_err(|_| Refused::Malformed)?;
        let packet = &packet[..header.total_len];
        let state = self.peers.get(&peer).ok_or(Refused::Down)?;
        let mtu = state.path.config().mtu.saturating_sub(self.config.profile.layout().overhead());
        if packet.len() > mtu {
            return Err(Refused::TooBig { mtu });
        }
        let (key, offset) = FlowKey::of(&header, packet);
        let tcp = Peek::of(&key, &header, packet, offset);
        let upstream = self.inbound.get(&key).copied();
        let flow = self.flow_of(now, peer, key)?;
        if let Some(upstream) = upstream {
            self.goes_on(upstream, key, (peer, flow));
        }
        if let Some(tcp) = tcp
            && self.config.absorb
        {
            if tcp.is_reset() {
                self.discard_reset((peer, flow), tcp, key);
            }
            if let Some(state) = self.peers.get(&peer)
                && let Some(sender) = self.senders.get_mut(&(peer, flow))
                && sender.absorb(now, tcp, packet, header.len, &state.path)
            {
                self.stats.intake.packets_absorbed += 1;
                return Ok(());
            }
        }
        let Some(sender) = self.senders.get_mut(&(peer, flow)) else { return Err(Refused::Full) };
        let has_room = if upstream.is_none() {
            // The paper refuses what does not fit.
            while self.config.profile == Profile::Default
                && !sender.has_room(now, &self.config)
                && sender.make_room(&mut self.pool)
            {
                self.held -= 1;
                self.stats.sent.packets_thinned += 1;
            }
            sender.has_room(now, &self.config)
        } else {
            sender.backlog() < self.config.queue + ON_THEIR_WAY
        };
        if !has_room || self.held >= self.config.packets {
            sender.handle_loss(tcp);
            self.stats.intake.packets_full_inside += u64::from(upstream.is_some());
            return Err(Refused::Full);
        }

        let mut octets = self.pool.copy(packet);
        if upstream.is_none()
            && self.config.profile == Profile::Default
            && sender.backlog() >= self.config.congestion
            && mark_congestion(&mut octets)
        {
            self.stats.intake.packets_marked += 1;
        }
        // An acknowledgement has the number of the segment after it.
        let has_hole = tcp.filter(|tcp| tcp.occupies() > 0).is_some_and(|tcp| {
            upstream
                .and_then(|upstream| self.receivers.get_mut(&upstream))
                .is_some_and(|receiver| receiver.take_hole(tcp.seq))
        });
        let (header_len, protocol) = (header.len, header.protocol);
        let taken_at = now;
        sender.set_upstream(upstream);
        let packet =
            Packet { octets, header_len, protocol, taken_at, tcp, has_hole, is_repeated: false };
        sender.handle_packet(now, packet);
        self.held += 1;
        if self.config.profile == Profile::Default || sender.backlog() == self.config.congestion {
            self.tell_upstream(now, upstream);
        }
        self.schedule_flow(now, peer, flow);
        self.plan_sweep(now);
        Ok(())
    }

    /// The packets of a flow from a peer go on by a flow to another.
    fn goes_on(&mut self, upstream: (Peer, FlowId), key: FlowKey, downstream: (Peer, FlowId)) {
        let Some(receiver) = self.receivers.get_mut(&upstream) else { return };
        if receiver.handle_returned(downstream) {
            self.egress.let_go(&key);
        }
    }

    /// A connection is reset: packets waiting in either direction have no receiver any more.
    ///
    /// Only if the reset can be the connection's own, or anybody could empty its queues.
    fn discard_reset(&mut self, flow: (Peer, FlowId), reset: Peek, key: FlowKey) {
        if !self.senders.get(&flow).is_some_and(|sender| sender.believes_reset(reset)) {
            return;
        }
        let peers: Vec<Peer> = self.peers.keys().copied().collect();
        for peer in peers {
            for key in [key, key.reversed()] {
                let Some(&flow) = self.flows.get(&(peer, key)) else { continue };
                let discarded = self.change((peer, flow), |sender, _, config, pool| {
                    let before = sender.held();
                    sender.take_back(None, (config, pool), |_| {});
                    before - sender.held()
                });
                self.stats.sent.packets_reset += discarded.unwrap_or(0) as u64;
            }
        }
    }
}

// Handles messages from peers: acknowledgements, packets, and sums of packets.

/// Flows that are remembered for a peer as unknown here.
const UNKNOWN: usize = 16;
/// Silences of a peer for which a segment is held, and how long it is held at least.
const HELD_SILENCES: u32 = 8;
const SHORTEST_HOLD: Duration = Duration::from_millis(500);
/// With more flows from peers than these, no packets are kept for repairs.
const REPAIRED_FLOWS: usize = 256;

impl Relay {
    fn handle_ack(&mut self, now: Time, peer: Peer, ack: &Ack<'_>) {
        self.stats.sent.acks_received += 1;
        if ack.is_congested {
            self.stats.sent.congestion_received += 1;
        }
        let learned = self.change((peer, ack.flow), |sender, path, config, pool| {
            let learned = sender.handle_ack(now, ack, path, config, pool);
            (learned, path.handle_heard(now))
        });
        let Some((learned, was_silent)) = learned else {
            self.stats.sent.acks_stray += 1;
            return;
        };
        self.note(now, peer, learned);
        self.schedule_flow(now, peer, ack.flow);
        if was_silent {
            self.revive(now, peer);
        }
    }

    /// Takes an HDM; `header` is the IP header before it.
    fn handle_data(&mut self, now: Time, peer: Peer, data: &Data<'_>, header: &[u8]) {
        let profile = self.config.profile;
        let id = (peer, data.flow);
        let first = match (profile, data.outstanding) {
            (Profile::Default, outstanding) => {
                outstanding.map(|back| data.seq.0.wrapping_sub(back))
            }
            (Profile::Paper, _) => {
                // A number proves that the sender is done with the one W before it.
                let window = u16::try_from(self.config.fixed_window()).unwrap_or(u16::MAX);
                Some(data.seq.0.saturating_sub(window - 1))
            }
        };
        if !self.receivers.contains_key(&id) {
            let Some(first) = first else {
                // Earlier packets of the flow may not have arrived yet.
                self.stats.received.data_stray += 1;
                self.say_unknown(now, id);
                return;
            };
            if !self.has_room_for_receiver(now) {
                self.stats.received.data_deferred += 1;
                return;
            }
            let receiver = Receiver::new(now, data.flow, Seq(first), profile.layout());
            self.receivers.insert(id, receiver);
            self.plan_sweep(now);
        }
        if self.defers(now, id) {
            return;
        }
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let number = receiver.number(data.seq);
        match (profile, data.outstanding) {
            (Profile::Default, None) => {}
            (Profile::Default, Some(back)) => {
                receiver.settle(number.saturating_sub(back.into()), &mut self.pool);
            }
            (Profile::Paper, _) => {
                let window = self.config.fixed_window() as u64;
                receiver.settle(number.saturating_sub(window - 1), &mut self.pool);
            }
        }
        if !receiver.has_room(number) {
            self.stats.received.data_stray += 1;
            return;
        }
        for (back, octets) in data.older.iter() {
            self.handle_older(now, (id, number), data, (back, octets), header);
        }
        let waits = (self.ack_wait(peer, data.is_patient), self.ack_wait(peer, false));
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let is_new = receiver.handle_data(now, number, data, waits, profile);
        self.schedule_ack(now, peer, data.flow);
        if !is_new {
            self.stats.received.data_duplicate += 1;
            return;
        }
        self.stats.received.data_received += 1;
        let packet = self.rebuild(header, data.payload, data.protocol);
        self.keep(id, number, &packet, header.len(), data.has_hole);
        self.restore(now, id, packet, data.has_hole);
        self.recover(now, id, header, data.protocol);
    }

    /// Takes a repair; `header` is the IP header before it.
    fn handle_repair(&mut self, now: Time, peer: Peer, repair: &Repair<'_>, header: &[u8]) {
        let id = (peer, repair.flow);
        if self.config.profile != Profile::Default
            || self.receivers.len() > REPAIRED_FLOWS
            || !self.receivers.contains_key(&id)
        {
            self.stats.received.repairs_stray += 1;
            return;
        }
        if self.defers(now, id) {
            return;
        }
        self.stats.received.repairs_received += 1;
        let wait = self.ack_wait(peer, false);
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        if !receiver.needs(repair) {
            return;
        }
        receiver.handle_repair(now, repair, &mut self.pool);
        self.recover(now, id, header, repair.protocol);
        // Losses that the repair could not recover are reported to the sender at once: the repair may be the last of a
        // burst.
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        receiver.schedule_ack(if receiver.needs(repair) { now } else { now + wait });
        self.schedule_ack(now, peer, repair.flow);
    }

    /// Whether a packet could not be queued for its next hop now: the peer keeps the packet, and is told.
    fn defers(&mut self, now: Time, id: (Peer, FlowId)) -> bool {
        if self.config.profile != Profile::Default {
            return false;
        }
        let Some(receiver) = self.receivers.get_mut(&id) else { return false };
        let is_full = self.held >= self.config.packets
            || receiver
                .downstream()
                .and_then(|downstream| self.senders.get(&downstream))
                .is_some_and(|sender| sender.backlog() >= self.config.queue);
        if is_full {
            receiver.schedule_ack(now);
            self.stats.received.data_deferred += 1;
            self.schedule_ack(now, id.0, id.1);
        }
        is_full
    }

    /// How long an acknowledgement to a peer may wait.
    fn ack_wait(&self, peer: Peer, is_patient: bool) -> Duration {
        let round_trip = self.peers.get(&peer).and_then(|state| state.path.rtt().known(is_patient));
        self.config.ack_wait(round_trip, is_patient)
    }

    /// Takes an older packet that rode on `data`, a later packet of the same flow.
    fn handle_older(
        &mut self,
        now: Time,
        (id, number): ((Peer, FlowId), u64),
        data: &Data<'_>,
        (back, octets): (u8, &[u8]),
        header: &[u8],
    ) {
        let number = number.saturating_sub(back.into());
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        if !receiver.handle_recovered(number) {
            return;
        }
        self.stats.received.packets_recovered += 1;
        let packet = self.rebuild(header, octets, data.protocol);
        self.keep(id, number, &packet, header.len(), false);
        self.restore(now, id, packet, false);
    }

    /// Rebuilds the original packet, without HBH's header.
    fn rebuild(&mut self, header: &[u8], payload: &[u8], protocol: u8) -> Vec<u8> {
        let mut packet = self.pool.copy(header);
        packet.extend_from_slice(payload);
        write_ip_header(&mut packet, header.len(), protocol);
        packet
    }

    /// Keeps a packet for the repairs that may cover it.
    fn keep(
        &mut self,
        id: (Peer, FlowId),
        number: u64,
        packet: &[u8],
        header_len: usize,
        has_hole: bool,
    ) {
        if self.config.profile != Profile::Default {
            return;
        }
        let is_repaired = self.receivers.len() <= REPAIRED_FLOWS;
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        if is_repaired {
            receiver.keep(number, packet, header_len, has_hole, &mut self.pool);
        } else {
            // Numbers come again: old packets must not be taken for new ones.
            receiver.drop_kept();
        }
    }

    /// Passes a received packet on unchanged, or makes it wait for its turn if it leaves HBH here.
    ///
    /// A flow is known to go on when its packets come back to be sent to another peer.
    fn restore(&mut self, now: Time, id: (Peer, FlowId), packet: Vec<u8>, has_hole: bool) {
        let Ok(header) = Header::parse(&packet) else {
            self.stats.received.messages_malformed += 1;
            self.pool.give(packet);
            return;
        };
        let (key, offset) = FlowKey::of(&header, &packet);
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        if receiver.key() != Some(key) {
            if let Some(old) = receiver.set_key(key)
                && self.inbound.get(&old) == Some(&id)
            {
                self.inbound.remove(&old);
            }
            self.inbound.insert(key, id);
        }
        receiver.handle_restored();
        let tcp = Peek::of(&key, &header, &packet, offset);
        if has_hole && let Some(tcp) = tcp {
            receiver.note_hole(tcp.seq);
        }
        let tcp = tcp.filter(|_| receiver.downstream().is_none());
        let segment = tcp.map(|tcp| LeavingSegment { key, tcp, has_hole });
        let hold = self.hold(id.0);
        self.egress.handle_packet(now, id.0, packet, segment, hold, &mut self.pool);
        self.plan_sweep(now);
    }

    /// How long a segment from a peer may wait for one before it.
    ///
    /// A gap that the peer can close is closed within some silences of it, if the round trip there and back is like
    /// ours.
    fn hold(&self, peer: Peer) -> Duration {
        let path = self.peers.get(&peer).map(|state| state.path.rtt());
        let Some(rtt) = path.filter(|rtt| rtt.mean().is_some()) else { return self.config.hold };
        let silence = rtt.timeout(0) + self.config.ack_wait(rtt.mean(), false);
        self.config.hold.min((silence * HELD_SILENCES).max(SHORTEST_HOLD))
    }

    /// Passes on the packets that a flow's repairs recover now; `header` is the IP header of a
    /// packet of the flow.
    fn recover(&mut self, now: Time, id: (Peer, FlowId), header: &[u8], protocol: u8) {
        while let Some(receiver) = self.receivers.get_mut(&id)
            && let Some((packet, has_hole, is_new)) =
                receiver.poll_recovered(header, protocol, &mut self.pool)
        {
            if is_new {
                self.stats.received.packets_recovered += 1;
                self.restore(now, id, packet, has_hole);
            }
        }
    }

    fn has_room_for_receiver(&mut self, now: Time) -> bool {
        if self.receivers.len() >= self.config.flows {
            self.forget_receivers(now - Duration::from_secs(1));
        }
        self.receivers.len() < self.config.flows
    }

    /// Forgets flows from peers without packets since `before`.
    fn forget_receivers(&mut self, before: Time) {
        let inbound = &mut self.inbound;
        self.receivers.retain(|id, receiver| {
            let stays = receiver.used_at() >= before || receiver.ack_at().is_some();
            if !stays
                && let Some(key) = receiver.key()
                && inbound.get(&key) == Some(id)
            {
                inbound.remove(&key);
            }
            stays
        });
    }

    /// Lets a peer know that its flow is unknown here.
    fn say_unknown(&mut self, now: Time, (peer, flow): (Peer, FlowId)) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        if state.unknown.len() < UNKNOWN && !state.unknown.contains(&flow) {
            state.unknown.push_back(flow);
        }
        // The timer makes a driver look at the link.
        let at = now + Duration::from_nanos(1);
        if state.ack_timer.is_none_or(|timer| at < timer) {
            if let Some(old) = state.ack_timer.replace(at) {
                self.timers.remove(&(old, Timer::Ack(peer)));
            }
            self.timers.insert((at, Timer::Ack(peer)));
        }
    }

    /// Schedules the acknowledgement of a flow from `peer`.
    fn schedule_ack(&mut self, now: Time, peer: Peer, flow: FlowId) {
        let (Some(state), Some(receiver)) =
            (self.peers.get_mut(&peer), self.receivers.get(&(peer, flow)))
        else {
            return;
        };
        let Some(at) = receiver.ack_at() else { return };
        if !state.acks_due.contains(&flow) {
            state.acks_due.push_back(flow);
        }
        if at <= now {
            state.is_ack_overdue = true;
        } else if state.ack_timer.is_none_or(|timer| at < timer) {
            if let Some(old) = state.ack_timer.replace(at) {
                self.timers.remove(&(old, Timer::Ack(peer)));
            }
            self.timers.insert((at, Timer::Ack(peer)));
        }
    }
}

// Chooses a node's next transmission over a link: the flow in turn, and what rides along.

/// Acknowledgements that ride on one packet at most.
const RIDERS: usize = 4;
/// Flows looked at for a packet that fits a used-up budget.
const BLOCKED: usize = 64;
/// Flows with packets under way looked at for something to repair, each time that a link is idle.
const SPARE_SEARCH: usize = 64;

/// A flow, and its kind of transmission.
#[derive(Clone, Copy, Debug)]
struct Turn {
    peer: Peer,
    flow: FlowId,
    choice: Choice,
    /// Whether it costs the flow no turn.
    is_urgent: bool,
}

impl Relay {
    /// The peer on `link` to which an acknowledgement is overdue.
    fn overdue(&self, link: Link) -> Option<Peer> {
        let peers = &self.links.get(&link)?.peers;
        peers.iter().copied().find(|peer| {
            self.peers.get(peer).is_some_and(|state| {
                (state.is_ack_overdue || !state.unknown.is_empty()) && state.paused_until.is_none()
            })
        })
    }

    /// Returns the next flow in turn on `link`: neighbours take turns of as many octets, and so do the flows of each.
    fn next_turn(&mut self, now: Time, link: Link) -> Option<Turn> {
        for _ in 0..self.links.get(&link)?.turns.len() {
            let &peer = self.links.get(&link)?.turns.front()?;
            if let Some(turn) = self.turn_of(now, peer) {
                return Some(turn);
            }
            let is_done = self.peers.get_mut(&peer).is_none_or(|state| {
                state.used = 0;
                state.is_listed = !(state.turns.is_empty() && state.fresh.is_empty());
                !state.is_listed
            });
            let turns = &mut self.links.get_mut(&link)?.turns;
            turns.pop_front();
            if !is_done {
                turns.push_back(peer);
            }
        }
        None
    }

    /// Notes that `peer` was sent `len` octets over `link`. A turn is as long as the longest packet; what the last
    /// packet of a turn exceeds counts in the next turn.
    fn use_turn(&mut self, link: Link, peer: Peer, len: usize) {
        let (Some(state), Some(queue)) = (self.peers.get_mut(&peer), self.links.get_mut(&link))
        else {
            return;
        };
        let quantum = state.path.config().mtu;
        state.used += len;
        if state.used >= quantum && queue.turns.front() == Some(&peer) {
            state.used -= quantum;
            queue.turns.rotate_left(1);
        }
    }

    /// Returns the next flow to `peer` in turn: deficit round robin over the flows with something to send, as in
    /// RFC 8290; `None` if none may send now.
    fn turn_of(&mut self, now: Time, peer: Peer) -> Option<Turn> {
        let mut blocked = 0;
        loop {
            let state = self.peers.get(&peer)?;
            if state.paused_until.is_some() {
                return None;
            }
            let is_fresh = !state.fresh.is_empty();
            if !is_fresh && let Some(turn) = self.urgent_turn(now, peer) {
                return Some(turn);
            }
            let state = self.peers.get(&peer)?;
            let flows = state.fresh.len() + state.turns.len();
            let &flow = state.fresh.front().or(state.turns.front())?;
            let flags = (state.path.is_silent(), state.path.budget().room(now));
            let quantum = state.path.config().mtu;
            let (mut expired, mut thinned) = (0, Thinned::default());
            let chosen = self.change((peer, flow), |sender, path, config, pool| {
                expired = sender.expire(now, config.lifetime, pool);
                if !flags.0 && flags.1 != Room::None {
                    thinned = sender.thin_out(now, (path, flows, flags.1), config, pool);
                }
                let turn = sender.choose(now, flags, config);
                if let sender::Turn::Send(choice) = turn {
                    let len = sender.len_of(choice);
                    let goes = sender.listing_mut().spend(len, quantum.max(len));
                    return (turn, goes);
                }
                (turn, false)
            });
            self.stats.sent.packets_expired += expired;
            self.stats.sent.packets_thinned += thinned.dropped;
            self.stats.intake.packets_marked += thinned.marked;
            let state = self.peers.get_mut(&peer)?;
            if let Some((sender::Turn::Send(choice), true)) = chosen {
                return Some(Turn { peer, flow, choice, is_urgent: false });
            }
            if is_fresh {
                // A fresh flow has one turn before the others, and is looked at once more among the others.
                state.fresh.pop_front();
                state.turns.push_back(flow);
                continue;
            }
            match chosen {
                Some((sender::Turn::Send(_), _)) => {
                    // Its next turn is long enough, so all are looked at once more.
                    state.turns.rotate_left(1);
                    blocked = 0;
                }
                Some((sender::Turn::Blocked, _)) => {
                    match state.path.budget().held_until(now) {
                        Some(at) => drop(self.timers.insert((at, Timer::Pace(peer)))),
                        None => state.path.budget_mut().handle_full(),
                    }
                    state.turns.rotate_left(1);
                    blocked += 1;
                    if blocked >= state.turns.len().min(BLOCKED) {
                        return None;
                    }
                }
                Some((sender::Turn::Nothing, _)) | None => {
                    state.turns.pop_front();
                    if let Some(sender) = self.senders.get_mut(&(peer, flow)) {
                        sender.listing_mut().unlist();
                    }
                }
            }
        }
    }

    /// Returns the next packet that the link to `peer` lost: its flow has had a turn for it, and at the last hop all of
    /// the flow behind it waits.
    fn urgent_turn(&mut self, now: Time, peer: Peer) -> Option<Turn> {
        let config = self.config;
        loop {
            let state = self.peers.get_mut(&peer)?;
            let &flow = state.urgent.front()?;
            let flags = (state.path.is_silent(), state.path.budget().room(now));
            if let Some(sender) = self.senders.get_mut(&(peer, flow)) {
                if sender.is_urgent(&config) {
                    match sender.choose(now, flags, &config) {
                        sender::Turn::Send(choice) => {
                            return Some(Turn { peer, flow, choice, is_urgent: true });
                        }
                        sender::Turn::Blocked => return None,
                        sender::Turn::Nothing => {}
                    }
                }
                sender.listing_mut().unlist_urgent();
            }
            state.urgent.pop_front();
        }
    }

    /// Chooses an unrequested transmission for an idle link with losses; flows take turns.
    fn spare(&mut self, now: Time, link: Link) -> Option<Turn> {
        let state = self.links.get_mut(&link)?;
        let mut looked_at = 0;
        for _ in 0..state.spares.len() {
            if looked_at == SPARE_SEARCH {
                break;
            }
            let Some((peer, flow)) = state.spares.pop_front() else { break };
            let (Some(neighbour), Some(sender)) =
                (self.peers.get(&peer), self.senders.get_mut(&(peer, flow)))
            else {
                continue;
            };
            if !sender.has_flying() || !neighbour.path.needs_repairs(&self.config) {
                sender.listing_mut().unlist_spare();
                continue;
            }
            state.spares.push_back((peer, flow));
            looked_at += 1;
            let budget = neighbour.path.budget();
            if let Some(at) = budget.held_until(now) {
                self.timers.insert((at, Timer::Pace(peer)));
                continue;
            }
            if !neighbour.path.is_idle() || budget.is_full() || neighbour.paused_until.is_some() {
                continue;
            }
            if let Some(choice) = sender.choose_spare(now, &neighbour.path, &self.config) {
                return Some(Turn { peer, flow, choice, is_urgent: false });
            }
            // What another flow has taught about the neighbour may let this one send earlier.
            if let Some(at) = sender.spare_timeout(now, &neighbour.path, &self.config) {
                schedule_timeout(&mut self.timers, now, at, (peer, flow), sender);
            }
        }
        None
    }

    /// Whether overdue acknowledgements to `peer` go before the packet of `turn`, in a packet of their own: they cannot
    /// ride on the packet of `turn`.
    fn goes_alone(&self, peer: Peer, turn: Turn) -> bool {
        if peer != turn.peer {
            return true;
        }
        // In the paper's profile, acknowledgements wait until nothing else goes to the same neighbour.
        self.config.profile == Profile::Default
            && (self.peers.get(&peer).is_some_and(|state| !state.unknown.is_empty())
                || turn.choice == Choice::Repair
                || self.next_ack_len(peer) > self.room_beside(turn))
    }

    /// Octets that the packet of `turn` leaves for acknowledgements.
    fn room_beside(&self, Turn { peer, flow, choice, .. }: Turn) -> Option<usize> {
        let len = self.senders.get(&(peer, flow))?.len_of(choice);
        Some(self.peers.get(&peer)?.path.config().mtu.saturating_sub(len))
    }

    /// Returns the octets of `turn` to its flow, because another packet goes first; the flow keeps its turn.
    fn postpone(&mut self, Turn { peer, flow, choice, is_urgent }: Turn) {
        let is_in_turn = matches!(choice, Choice::New | Choice::Repeat(_)) && !is_urgent;
        if let Some(sender) = self.senders.get_mut(&(peer, flow))
            && is_in_turn
            && self.config.profile == Profile::Default
        {
            let len = sender.len_of(choice);
            sender.listing_mut().give_back(len);
        }
    }

    /// Writes the packet of `turn`, together with acknowledgements due to the same peer.
    fn emit_data(&mut self, now: Time, turn: Turn, out: &mut Vec<u8>) {
        let Turn { peer, flow, choice, .. } = turn;
        if choice == Choice::Repair {
            self.emit_repair(now, peer, flow, out);
            return;
        }
        let (Some(state), Some(mut room)) = (self.peers.get(&peer), self.room_beside(turn)) else {
            return;
        };
        let is_patient = state.path.is_patient(&self.config);

        // The riders stand between the IP header and the packet's own message, so they come first.
        let mut acks = std::mem::take(&mut self.scratch);
        acks.clear();
        for _ in 0..RIDERS {
            if self.config.profile == Profile::Paper || self.next_ack_len(peer) > Some(room) {
                break;
            }
            let before = acks.len();
            if !self.emit_ack(now, peer, true, &mut acks) {
                break;
            }
            room -= acks.len() - before;
            self.stats.received.acks_ridden += 1;
        }
        let room = if is_patient { 0 } else { room };
        let mut counters = self.stats.sent;
        let sent = self.change((peer, flow), |sender, path, config, _| {
            let counted = (config, &mut counters);
            let header_len = sender.transmit(now, choice, (&acks, room), path, counted, out);
            (header_len, sender.backlog(), sender.upstream())
        });
        self.stats.sent = counters;
        self.scratch = acks;
        let Some((header_len, backlog, upstream)) = sent else { return };
        write_ip_header(out, header_len, self.config.protocol);

        let is_mark = self.config.profile == Profile::Default || backlog == self.config.clear;
        if choice == Choice::New && is_mark {
            self.tell_upstream(now, upstream);
        }
        self.schedule_flow(now, peer, flow);
    }

    /// Writes a packet with a repair of a flow, and nothing else.
    fn emit_repair(&mut self, now: Time, peer: Peer, flow: FlowId, out: &mut Vec<u8>) {
        let Some(sender) = self.senders.get_mut(&(peer, flow)) else { return };
        let header_len = sender.emit_repair(now, &mut self.scratch, out);
        write_ip_header(out, header_len, self.config.protocol);
        self.stats.sent.repairs_sent += 1;
        self.schedule_flow(now, peer, flow);
    }

    /// Writes a packet with nothing but acknowledgements for `peer`, as many as fit.
    fn emit_acks(&mut self, now: Time, peer: Peer, out: &mut Vec<u8>) {
        let Some(state) = self.peers.get(&peer) else { return };
        let spec =
            Spec::new(state.path.config().local, state.path.config().remote, self.config.protocol);
        let mtu = state.path.config().mtu;
        spec.emit(0, out);
        let header_len = out.len();
        let mut follows = true;
        if let Some(state) = self.peers.get_mut(&peer)
            && let Some(flow) = state.unknown.pop_front()
        {
            let ack = Ack { is_unknown: true, ..Ack::new(flow, Seq(0)) };
            ack.emit(self.config.profile.layout(), out);
            follows = false;
        }
        while follows {
            let after = self.peers.get(&peer).and_then(|state| state.acks_due.get(1));
            let len = |flow: &FlowId| self.receivers.get(&(peer, *flow)).map(Receiver::ack_len);
            let both = self.next_ack_len(peer).zip(after.and_then(len));
            let fits = both.is_some_and(|(this, next)| out.len() + this + next <= mtu);
            follows = fits && self.config.profile == Profile::Default;
            if !self.emit_ack(now, peer, follows, out) {
                break;
            }
        }
        write_ip_header(out, header_len, self.config.protocol);
        self.stats.received.acks_sent += 1;
    }

    /// Octets of the acknowledgement that is due to `peer` for longest.
    fn next_ack_len(&self, peer: Peer) -> Option<usize> {
        let flow = self.peers.get(&peer)?.acks_due.front()?;
        self.receivers.get(&(peer, *flow)).map(Receiver::ack_len)
    }

    /// Appends the acknowledgement that is due to `peer` for longest; false for none.
    fn emit_ack(&mut self, now: Time, peer: Peer, is_followed: bool, out: &mut Vec<u8>) -> bool {
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        let Some(flow) = state.acks_due.pop_front() else { return false };
        if state.acks_due.is_empty() {
            state.is_ack_overdue = false;
        }
        // Every due acknowledgement has a receiver: both are removed together.
        let Some(receiver) = self.receivers.get_mut(&(peer, flow)) else { return false };
        let backlog = receiver
            .downstream()
            .and_then(|downstream| self.senders.get(&downstream))
            .map_or(0, |sender| sender.backlog());
        let marks = self.peers.get(&peer).map_or((0, 0), |state| {
            let downstream = receiver.downstream();
            let sender = downstream.and_then(|downstream| self.senders.get(&downstream));
            marks(now, sender, &state.path, &self.config)
        });
        let enough = match self.config.profile {
            Profile::Default if receiver.told_congested() => marks.1 + 1,
            _ => marks.0,
        };
        let is_congested = backlog >= enough;
        let intervals = &mut self.intervals;
        receiver.emit(now, self.config.profile, is_congested, is_followed, intervals, out);
        true
    }
}

// Handles packets that a link layer with acknowledgements gave up.

/// An acknowledgement that is lost is due again where its flow brought something so lately: who sends
/// no more will ask.
const RECENT: Duration = Duration::from_secs(1);

/// How long a peer is left alone after the first unsent packet; the pause doubles with each further
/// packet.
const PAUSE: Duration = Duration::from_millis(50);
/// Packets that come back within this time were given up for the same reason.
const TOGETHER: Duration = Duration::from_millis(1);
/// Pauses grow so many times.
const LONGEST: u8 = 5;

impl Relay {
    /// Handles a link layer's report that a packet from [`poll_transmit`](Self::poll_transmit) did not
    /// reach `peer`. Only the default profile.
    ///
    /// The packet's content is sent again without waiting for silence, and counts neither as a retry nor as a loss of
    /// the link: such a link layer has tried often enough before it gives up, so that neither repairs nor frequent
    /// acknowledgements would help. Until the peer is heard we send it one packet now and then: each packet to a lost
    /// neighbour keeps the radio busy for as long as dozens of delivered packets.
    pub fn handle_unsent(&mut self, now: Time, peer: Peer, packet: &[u8]) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        if self.config.profile != Profile::Default {
            return;
        }
        // Packets that waited behind this packet come back at the same time, and count once.
        if state.unsent == 0 || now.since(state.unsent_at) > TOGETHER {
            state.unsent = state.unsent.saturating_add(1);
            state.unsent_at = now;
        }
        self.pause(now, peer);
        let Ok(header) = Header::parse(packet) else { return };
        let mut rest = &packet[header.len..header.total_len];
        let layout = self.config.profile.layout();
        while let Ok((message, after)) = Message::split_first(layout, rest) {
            match message {
                Message::Ack(ack) => self.schedule_ack_again(now, peer, ack.flow),
                Message::Data(data) => self.lose(now, peer, &data),
                Message::Repair(_) => {}
            }
            rest = after;
        }
    }

    /// Whether the link layer gave up the last packets that were sent to `peer`.
    #[must_use]
    pub fn is_doubtful(&self, peer: Peer) -> bool {
        self.peers.get(&peer).is_some_and(|state| state.unsent > 0)
    }

    /// Leaves a peer alone for a while if the link layer gave up what was sent to it last.
    fn pause(&mut self, now: Time, peer: Peer) {
        let Some(state) = self.peers.get_mut(&peer).filter(|state| state.unsent > 0) else {
            return;
        };
        let at = now + PAUSE * (1 << (state.unsent - 1).min(LONGEST));
        if let Some(old) = state.paused_until.replace(at) {
            self.timers.remove(&(old, Timer::Pause(peer)));
        }
        self.timers.insert((at, Timer::Pause(peer)));
    }

    /// Takes that something came from `peer`, a hello say: what the link layer gave up is tried again.
    pub fn handle_alive(&mut self, now: Time, peer: Peer) {
        let Some(state) = self.peers.get_mut(&peer).filter(|state| state.unsent > 0) else {
            return;
        };
        state.unsent = 0;
        if let Some(at) = state.paused_until {
            self.timers.remove(&(at, Timer::Pause(peer)));
            self.pause_ends(now, peer);
        }
    }

    fn pause_ends(&mut self, now: Time, peer: Peer) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.paused_until = None;
        }
        self.schedule_flows(now, peer);
    }

    fn lose(&mut self, now: Time, peer: Peer, data: &Data<'_>) {
        let learned = self.change((peer, data.flow), |sender, _, config, pool| {
            sender.handle_unsent(now, data, config, pool)
        });
        let Some(learned) = learned else { return };
        self.note(now, peer, learned);
        self.schedule_flow(now, peer, data.flow);
    }

    fn schedule_ack_again(&mut self, now: Time, peer: Peer, flow: FlowId) {
        let at = now + self.ack_wait(peer, false);
        let Some(receiver) = self.receivers.get_mut(&(peer, flow)) else { return };
        if now.since(receiver.used_at()) <= RECENT {
            receiver.schedule_ack(at);
            self.schedule_ack(now, peer, flow);
        }
    }
}

// Maintains a node as time passes: turns and deadlines of flows, and forgetting.

/// Events that wait for the driver at most.
const EVENTS: usize = 256;

impl Relay {
    /// A flow's silence or pause may have ended.
    fn flow_is_due(&mut self, now: Time, peer: Peer, flow: FlowId) {
        let mut learned = Learned::default();
        let expired = self.change((peer, flow), |sender, path, config, pool| {
            sender.listing_mut().handle_timeout();
            let expired = sender.expire(now, config.lifetime, pool);
            if (!path.is_silent() || path.probe_at() <= now)
                && sender.handle_timeout(now, path, config, pool, &mut learned)
                && config.profile == Profile::Default
            {
                path.handle_silence(now);
                path.set_probe_at(now + sender.probe_interval(path, config));
            }
            expired
        });
        self.stats.sent.packets_expired += expired.unwrap_or(0);
        self.note(now, peer, learned);
        self.schedule_flow(now, peer, flow);
    }

    /// A peer that was silent is heard again.
    fn revive(&mut self, now: Time, peer: Peer) {
        let mut learned = Learned::default();
        for flow in self.flows_to(peer) {
            self.change((peer, flow), |sender, _, config, pool| {
                sender.handle_revival(now, config, pool, &mut learned);
            });
        }
        self.note(now, peer, learned);
        self.schedule_flows(now, peer);
    }

    /// Gives all flows of a peer their turns and deadlines.
    fn schedule_flows(&mut self, now: Time, peer: Peer) {
        for flow in self.flows_to(peer) {
            self.schedule_flow(now, peer, flow);
        }
    }

    /// An acknowledgement to `peer` has waited for long enough.
    fn ack_is_due(&mut self, now: Time, peer: Peer) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        state.ack_timer = None;
        let due = state
            .acks_due
            .iter()
            .filter_map(|&flow| self.receivers.get(&(peer, flow))?.ack_at())
            .min();
        match due {
            Some(at) if at <= now => state.is_ack_overdue = true,
            Some(at) => {
                state.ack_timer = Some(at);
                self.timers.insert((at, Timer::Ack(peer)));
            }
            None => {}
        }
    }

    /// Updates the turn and the deadline of a flow after any change.
    fn schedule_flow(&mut self, now: Time, peer: Peer, flow: FlowId) {
        let (Some(state), Some(sender)) =
            (self.peers.get_mut(&peer), self.senders.get_mut(&(peer, flow)))
        else {
            return;
        };
        // A flow that had nothing to send goes first, so its first turn is as long as any other.
        let (list, quantum) = match self.config.profile {
            Profile::Default => (&mut state.fresh, state.path.config().mtu),
            Profile::Paper => (&mut state.turns, 0),
        };
        if sender.has_work(now)
            && state.paused_until.is_none()
            && sender.listing_mut().list(quantum)
        {
            list.push_back(flow);
            if !std::mem::replace(&mut state.is_listed, true)
                && let Some(link) = self.links.get_mut(&state.path.config().link)
            {
                link.turns.push_back(peer);
            }
        }
        if sender.is_urgent(&self.config) && sender.listing_mut().list_urgent() {
            state.urgent.push_back(flow);
        }
        if sender.has_flying()
            && state.path.needs_repairs(&self.config)
            && sender.listing_mut().list_spare()
            && let Some(link) = self.links.get_mut(&state.path.config().link)
        {
            link.spares.push_back((peer, flow));
        }
        // Only one flow probes a silent peer at a time.
        let not_before = if state.path.is_silent() { state.path.probe_at() } else { now };
        if let Some(at) = sender.next_timeout(now, &state.path, &self.config) {
            schedule_timeout(&mut self.timers, now, at.max(not_before), (peer, flow), sender);
        }
    }

    /// Has the peer that feeds a flow told how its queue stands.
    fn tell_upstream(&mut self, now: Time, upstream: Option<(Peer, FlowId)>) {
        if let Some(id) = upstream
            && let Some(receiver) = self.receivers.get_mut(&id)
        {
            let sender = receiver.downstream().and_then(|it| self.senders.get(&it));
            let Some(state) = self.peers.get(&id.0) else { return };
            let (congestion, clear) = marks(now, sender, &state.path, &self.config);
            let backlog = sender.map_or(0, Sender::backlog);
            let is_news = match (self.config.profile, receiver.told_congested()) {
                (Profile::Default, true) => backlog <= clear,
                (Profile::Paper, true) => true,
                (_, false) => backlog >= congestion,
            };
            if is_news {
                // The timer makes a driver that sends on one link look at the other link, too.
                receiver.schedule_ack(now + Duration::from_nanos(1));
                self.schedule_ack(now, id.0, id.1);
            }
        }
    }

    /// Notes what an acknowledgement or a silence taught about a peer.
    fn note(&mut self, now: Time, peer: Peer, learned: Learned) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.path.learn(now, learned);
        }
        self.stats.sent.acks_absurd += u64::from(learned.absurd);
        self.stats.sent.data_superseded += u64::from(learned.superseded);
        if learned.abandoned > 0 {
            self.stats.sent.packets_abandoned += u64::from(learned.abandoned);
            if self.events.len() < EVENTS {
                self.events.push_back(Event::GaveUp { peer, packets: learned.abandoned });
            }
        }
    }

    /// Plans to forget what is no longer used.
    fn plan_sweep(&mut self, now: Time) {
        let period = self.config.idle / 4;
        self.sweep_at.get_or_insert_with(|| now + period);
    }

    /// Forgets what is no longer used.
    fn sweep(&mut self, now: Time) {
        let before = now - self.config.idle;
        self.forget_senders(|sender| sender.used_at() < before);
        // Longer than their senders, who number a flow anew once they have forgotten it.
        let long_before = before - self.config.idle;
        self.forget_receivers(long_before);
        self.egress.forget(before);
        self.sweep_at = None;
        if !(self.senders.is_empty() && self.receivers.is_empty() && self.egress.flows() == 0) {
            self.plan_sweep(now);
        }
    }

    /// The number of a flow to `peer`, new if it has none.
    fn flow_of(&mut self, now: Time, peer: Peer, key: FlowKey) -> Result<FlowId, Refused> {
        if let Some(&flow) = self.flows.get(&(peer, key)) {
            return Ok(flow);
        }
        if self.senders.len() >= self.config.flows {
            self.forget_senders(|_| true);
            if self.senders.len() >= self.config.flows {
                return Err(Refused::Full);
            }
        }
        let state = self.peers.get_mut(&peer).ok_or(Refused::Down)?;
        // Numbers are given in turn, so that a number is reused late; 0 is not given.
        let flow = loop {
            let flow = state.next_flow;
            state.next_flow = FlowId(flow.0.wrapping_add(1));
            if flow != FlowId(0) && !self.senders.contains_key(&(peer, flow)) {
                break flow;
            }
        };
        self.flows.insert((peer, key), flow);
        self.senders.insert((peer, flow), Sender::new(now, flow, key, &self.config));
        Ok(flow)
    }

    /// Forgets empty flows that satisfy `may_go`.
    fn forget_senders(&mut self, may_go: impl Fn(&Sender) -> bool) {
        let flows = &mut self.flows;
        self.senders.retain(|&(peer, _), sender| {
            let stays = sender.held() > 0 || !may_go(sender);
            if !stays {
                flows.remove(&(peer, sender.key()));
            }
            stays
        });
    }
}

/// The queue lengths at which a flow's previous hop is told of congestion, and of the end of congestion.
///
/// The previous hop reacts a round trip later, and a queue that empties meanwhile leaves the next hop idle: so each
/// mark is at least the number of packets that leave in a round trip, as far as the queue has room.
fn marks(now: Time, sender: Option<&Sender>, path: &PeerPath, config: &Config) -> (usize, usize) {
    let usual = (config.congestion, config.clear);
    let Some((sender, round_trip)) = sender.zip(path.rtt().mean()) else { return usual };
    if config.profile == Profile::Paper {
        return usual;
    }
    let leaving = sender.leaving(now, round_trip);
    let congestion = leaving.clamp(usual.0, (config.queue * 3 / 4).max(usual.0));
    (congestion, usual.1.max(congestion / 2))
}

/// Schedules a flow for `at`, unless it is due before.
fn schedule_timeout(
    timers: &mut BTreeSet<(Time, Timer)>,
    now: Time,
    at: Time,
    (peer, flow): (Peer, FlowId),
    sender: &mut Sender,
) {
    // A deadline that has moved later stays where it is and finds nothing to do.
    if let Some((at, before)) = sender.listing_mut().schedule(now, at) {
        if let Some(before) = before {
            timers.remove(&(before, Timer::Flow(peer, flow)));
        }
        timers.insert((at, Timer::Flow(peer, flow)));
    }
}

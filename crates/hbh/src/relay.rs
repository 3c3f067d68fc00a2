//! The relay of a node: its peers, their flows, and the links that lead to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::contract::Refused;
use base::ip::{FlowKey, Header, Spec, mark_congestion};
use base::rng::Rng;
use base::tcp::Peek;
use base::time::{Time, earliest};

use super::config::{Config, Profile};
use super::egress::{Egress, LeavingSegment};
use super::link::{Estimates, Link, LinkReport, Peer, PeerConfig};
use super::packet::{Packet, write_ip_header};
use super::peer::{Learned, PeerPath};
use super::pool::Pool;
use super::receiver::Receiver;
use super::sender::{Choice, Sender};
use super::stats::{Received, Stats};
use super::wire::{self, Ack, Data, FlowId, HEADER, Message, Repair, Seq};

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

/// What a deadline is for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Timer {
    /// An acknowledgement to a peer has waited for long enough.
    Ack(Peer),
    /// A flow to a peer may send, or has heard nothing for too long.
    Flow(Peer, FlowId),
    /// A peer that could not be reached may be tried again.
    Pause(Peer),
}

/// The HBH of one node, towards all its neighbours: a core as [`base::contract`] describes it.
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
    /// Which flow from a peer brings the packets of these addresses and ports.
    inbound: BTreeMap<FlowKey, (Peer, FlowId)>,
    egress: Egress,
    pool: Pool,
    /// Packets waiting or unacknowledged, over all flows.
    held: usize,
    events: VecDeque<Event>,
    stats: Stats,
    /// Acknowledgements on their way into a packet.
    scratch: Vec<u8>,
}

/// A neighbour, and what is scheduled for it.
#[derive(Debug)]
struct PeerState {
    path: PeerPath,
    /// The number of the next new flow to it.
    next_flow: FlowId,
    /// Flows from it to which an acknowledgement is due, oldest first.
    acks_due: VecDeque<FlowId>,
    /// Whether one of these acknowledgements may wait no longer.
    is_ack_overdue: bool,
    /// The deadline in the node's timers for them.
    ack_timer: Option<Time>,
    /// Packets that the link layer gave up since the neighbour was heard last, and until when it is left alone for
    /// them.
    unsent: u8,
    unsent_at: Time,
    paused_until: Option<Time>,
}

impl PeerState {
    fn new(path: PeerPath, first: FlowId) -> Self {
        Self {
            path,
            next_flow: first,
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
    /// Flows that may have something to send, in turn.
    turns: VecDeque<(Peer, FlowId)>,
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
            egress: Egress::default(),
            inbound: BTreeMap::new(),
            pool: Pool::default(),
            held: 0,
            events: VecDeque::new(),
            stats: Stats::default(),
            scratch: Vec::new(),
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

    /// Takes what the driver knows of the link to a peer; it counts until HBH has learnt more from
    /// its own packets. Only the default profile.
    pub fn handle_link_report(&mut self, peer: Peer, report: LinkReport) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.path.learn_from_report(report);
        }
    }

    /// Forgets a neighbour and hands back its unacknowledged packets, so that they can take another
    /// way: oldest first, one call of `orphan` for each packet and the peer that brought it.
    pub fn remove_peer(&mut self, peer: Peer, orphan: impl FnMut(&[u8], Option<Peer>)) {
        self.reroute(peer, |_, _| true, orphan);
        for link in self.links.values_mut() {
            link.peers.retain(|&other| other != peer);
            link.turns.retain(|&(other, _)| other != peer);
            link.spares.retain(|&(other, _)| other != peer);
        }
        self.links.retain(|_, link| !link.peers.is_empty());
        self.senders.retain(|&(other, _), _| other != peer);
        self.flows.retain(|&(other, _), _| other != peer);
        self.receivers.retain(|&(other, _), _| other != peer);
        self.inbound.retain(|_, &mut (other, _)| other != peer);
        self.timers.retain(|&(_, timer)| timer.peer() != peer);
        self.peers.remove(&peer);
    }

    /// Takes packets back from `peer`, for a route that changed.
    ///
    /// `orphan` gets, oldest first, those not acknowledged whose flow `is_moved`; both hear which
    /// peer, if any, brought it.
    pub fn reroute(
        &mut self,
        peer: Peer,
        mut is_moved: impl FnMut(&FlowKey, Option<Peer>) -> bool,
        mut orphan: impl FnMut(&[u8], Option<Peer>),
    ) {
        for (_, sender) in self.senders.range_mut(flows_of(peer)) {
            let from = sender.upstream().map(|(from, _)| from);
            let before = sender.held();
            if before == 0 || !is_moved(&sender.key(), from) {
                continue;
            }
            sender.take_back(&mut self.pool, |packet| orphan(&packet.octets, from));
            self.held -= before - sender.held();
        }
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

    /// Takes an HBH packet (an IP packet of our protocol) that `peer` sent.
    ///
    /// The packets that it brings are asked for by `poll_restored`.
    pub fn handle_message(&mut self, now: Time, peer: Peer, packet: &[u8]) {
        let Ok(header) = Header::parse(packet) else {
            self.stats.received.messages_malformed += 1;
            return;
        };
        if header.protocol != self.config.protocol {
            self.stats.received.messages_malformed += 1;
            return;
        }
        if !self.peers.contains_key(&peer) {
            self.stats.received.messages_unknown_peer += 1;
            return;
        }
        self.handle_alive(now, peer);

        let mut rest = &packet[header.len..header.total_len];
        loop {
            match Message::split_first(rest) {
                Ok((Message::Ack(ack), after)) => {
                    self.handle_ack(now, peer, &ack);
                    if after.is_empty() {
                        return;
                    }
                    rest = after;
                }
                Ok((Message::Data(data), _)) => {
                    self.handle_data(now, peer, &data, &packet[..header.len]);
                    return;
                }
                Ok((Message::Repair(repair), _)) => {
                    self.handle_repair(now, peer, &repair, &packet[..header.len]);
                    return;
                }
                Err(wire::Malformed::Checksum) => {
                    self.stats.received.messages_damaged += 1;
                    return;
                }
                Err(_) => {
                    self.stats.received.messages_malformed += 1;
                    return;
                }
            }
        }
    }

    /// Replaces the content of `out` by the next restored packet from a peer, and returns the peer.
    ///
    /// The driver routes the packet: to this node, out of HBH, or on by `handle_packet`. Packets
    /// that go on come in order of arrival, packets that leave HBH here in order of their flow, so
    /// ask after timeouts too, until `None`.
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
        let sent = match (chosen, overdue) {
            // An acknowledgement that is due rides along, or goes first.
            (Some(turn), Some(waiting)) if waiting != turn.peer => {
                self.emit_acks(now, waiting, out);
                Some(waiting)
            }
            (Some(turn), _) => {
                self.emit_data(now, turn, out);
                Some(turn.peer)
            }
            (None, Some(waiting)) => {
                self.emit_acks(now, waiting, out);
                Some(waiting)
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
    pub(super) fn backlog(&self) -> usize {
        self.senders.values().map(Sender::backlog).sum()
    }

    /// What is known of the path to a peer; `None` if there is no such peer.
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

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let received = Received { gaps_given_up: self.egress.given_up(), ..self.stats.received };
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
            Self::Ack(peer) | Self::Pause(peer) | Self::Flow(peer, _) => peer,
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
        let mtu = state.path.config().mtu.saturating_sub(HEADER);
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
        let has_hole = tcp.is_some_and(|tcp| {
            upstream
                .and_then(|upstream| self.receivers.get_mut(&upstream))
                .is_some_and(|receiver| receiver.take_hole(tcp.seq))
        });
        let (header_len, protocol) = (header.len, header.protocol);
        let taken_at = now;
        sender.set_upstream(upstream);
        let packet = Packet { octets, header_len, protocol, taken_at, tcp, has_hole };
        sender.handle_packet(now, packet);
        self.held += 1;
        if sender.backlog() == self.config.congestion {
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

    /// A connection is reset: what waits for it in either direction has no one to go to.
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
                let Some(sender) = self.senders.get_mut(&(peer, flow)) else { continue };
                let before = sender.held();
                sender.take_back(&mut self.pool, |_| {});
                self.held -= before - sender.held();
                self.stats.sent.packets_reset += (before - sender.held()) as u64;
            }
        }
    }
}

// Handles messages from peers: acknowledgements, packets, and sums of packets.

/// With more flows from peers than these, no packets are kept for repairs.
const REPAIRED_FLOWS: usize = 256;

impl Relay {
    fn handle_ack(&mut self, now: Time, peer: Peer, ack: &Ack<'_>) {
        self.stats.sent.acks_received += 1;
        if ack.is_congested {
            self.stats.sent.congestion_received += 1;
        }
        let (Some(state), Some(sender)) =
            (self.peers.get_mut(&peer), self.senders.get_mut(&(peer, ack.flow)))
        else {
            self.stats.sent.acks_stray += 1;
            return;
        };
        let before = sender.held();
        let learned =
            sender.handle_ack(now, ack, state.path.rtt_mut(), &self.config, &mut self.pool);
        self.held -= before - sender.held();
        let was_silent = state.path.handle_heard();
        self.note(peer, learned);
        self.schedule_flow(now, peer, ack.flow);
        if was_silent {
            self.revive(now, peer);
        }
    }

    /// Takes an HDM; `header` is the IP header before it.
    fn handle_data(&mut self, now: Time, peer: Peer, data: &Data<'_>, header: &[u8]) {
        let profile = self.config.profile;
        let window = self.config.window.1;
        let id = (peer, data.flow);
        if !self.receivers.contains_key(&id) {
            if !self.has_room_for_receiver(now) {
                self.stats.received.data_deferred += 1;
                return;
            }
            self.receivers.insert(id, Receiver::new(now, data, window, profile));
            self.plan_sweep(now);
        }
        if self.defers(now, id) {
            return;
        }
        for (back, octets) in data.older.iter() {
            self.handle_older(now, id, data, (back, octets), header);
        }
        let waits = (self.ack_wait(peer, data.is_patient), self.ack_wait(peer, false));
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let is_new = receiver.handle_data(now, data, waits, window, profile, &mut self.pool);
        self.schedule_ack(now, peer, data.flow);
        if !is_new {
            self.stats.received.data_duplicate += 1;
            return;
        }
        self.stats.received.data_received += 1;
        let packet = self.rebuild(header, data.payload, data.protocol);
        self.keep(id, data.seq, &packet, header.len(), data.has_hole);
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
        // What it could not make good, its sender is told at once: it may be the last of a burst.
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        receiver.schedule_ack(if receiver.needs(repair) { now } else { now + wait });
        self.schedule_ack(now, peer, repair.flow);
    }

    /// Whether a packet could not be queued for its next hop now: it is left with the peer, who is
    /// told.
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

    /// Takes a packet that rode on `data`, a later packet of its flow.
    fn handle_older(
        &mut self,
        now: Time,
        id: (Peer, FlowId),
        data: &Data<'_>,
        (back, octets): (u8, &[u8]),
        header: &[u8],
    ) {
        let seq = data.seq.minus(back);
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        if back > data.outstanding || !receiver.handle_recovered(seq) {
            return;
        }
        self.stats.received.packets_recovered += 1;
        let packet = self.rebuild(header, octets, data.protocol);
        self.keep(id, seq, &packet, header.len(), false);
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
        seq: Seq,
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
            receiver.keep(seq, packet, header_len, has_hole, &mut self.pool);
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
        self.egress.handle_packet(now, id.0, packet, segment, self.config.hold, &mut self.pool);
        self.plan_sweep(now);
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
            } else {
                self.pool.give(packet);
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
/// Flows looked at for something to repair, each time that a link is idle.
const SPARE_SEARCH: usize = 64;

/// A flow, and its kind of transmission.
#[derive(Clone, Copy, Debug)]
struct Turn {
    peer: Peer,
    flow: FlowId,
    choice: Choice,
}

impl Relay {
    /// The peer on `link` to which an acknowledgement is overdue.
    fn overdue(&self, link: Link) -> Option<Peer> {
        let peers = &self.links.get(&link)?.peers;
        peers.iter().copied().find(|peer| {
            self.peers
                .get(peer)
                .is_some_and(|state| state.is_ack_overdue && state.paused_until.is_none())
        })
    }

    /// Returns the next flow in turn on `link`: deficit round robin over the flows with something
    /// to send.
    fn next_turn(&mut self, now: Time, link: Link) -> Option<Turn> {
        let state = self.links.get_mut(&link)?;
        while let Some(&(peer, flow)) = state.turns.front() {
            let Some(sender) = self.senders.get_mut(&(peer, flow)) else {
                state.turns.pop_front();
                continue;
            };
            let before = sender.held();
            self.stats.sent.packets_expired +=
                sender.expire(now, self.config.lifetime, &mut self.pool);
            self.held -= before - sender.held();
            let neighbour = self.peers.get(&peer);
            let is_silent = neighbour.is_some_and(|it| it.path.is_silent());
            let is_paused = neighbour.is_some_and(|state| state.paused_until.is_some());
            let choice = sender.choose(now, is_silent, &self.config).filter(|_| !is_paused);
            let Some(choice) = choice else {
                sender.listing_mut().unlist();
                state.turns.pop_front();
                continue;
            };
            let len = sender.len_of(choice);
            let quantum = self.peers.get(&peer).map_or(len, |peer| peer.path.config().mtu.max(len));
            if !sender.listing_mut().spend(len, quantum) {
                state.turns.rotate_left(1);
                continue;
            }
            return Some(Turn { peer, flow, choice });
        }
        None
    }

    /// What an idle link that loses packets may send without being asked; flows take turns.
    fn spare(&mut self, now: Time, link: Link) -> Option<Turn> {
        let state = self.links.get_mut(&link)?;
        for _ in 0..state.spares.len().min(SPARE_SEARCH) {
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
            if !neighbour.path.is_idle() || neighbour.paused_until.is_some() {
                continue;
            }
            if let Some(choice) = sender.choose_spare(now, &neighbour.path, &self.config) {
                return Some(Turn { peer, flow, choice });
            }
            // What another flow has taught about the neighbour may let this one send earlier.
            if let Some(at) = sender.spare_timeout(now, &neighbour.path, &self.config) {
                schedule_timeout(&mut self.timers, now, at, (peer, flow), sender);
            }
        }
        None
    }

    /// Writes the packet of `turn`, and with it the acknowledgements that are due to its peer.
    fn emit_data(&mut self, now: Time, turn: Turn, out: &mut Vec<u8>) {
        let Turn { peer, flow, choice } = turn;
        if choice == Choice::Repair {
            self.emit_repair(now, peer, flow, out);
            return;
        }
        let (Some(state), Some(sender)) = (self.peers.get(&peer), self.senders.get(&(peer, flow)))
        else {
            return;
        };
        let mut room = state.path.config().mtu.saturating_sub(sender.len_of(choice));
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
        let Some(sender) = self.senders.get_mut(&(peer, flow)) else { return };
        let room = if is_patient { 0 } else { room };
        let counted = (&self.config, &mut self.stats.sent);
        let header_len = sender.transmit(now, choice, (&acks, room), is_patient, counted, out);
        write_ip_header(out, header_len, self.config.protocol);
        self.scratch = acks;

        let (backlog, upstream) = (sender.backlog(), sender.upstream());
        if backlog == self.config.clear && choice == Choice::New {
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
        // An acknowledgement that is due has its receiver: both go together.
        let Some(receiver) = self.receivers.get_mut(&(peer, flow)) else { return false };
        let backlog = receiver
            .downstream()
            .and_then(|downstream| self.senders.get(&downstream))
            .map_or(0, |sender| sender.backlog());
        let enough = match self.config.profile {
            Profile::Default if receiver.told_congested() => self.config.clear + 1,
            _ => self.config.congestion,
        };
        receiver.emit(now, self.config.profile, backlog >= enough, is_followed, out);
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
    /// The packet's content is sent again without waiting for silence, and counts neither as a retry nor as a
    /// loss of the link: such a link layer has tried often enough before it gives up, so that neither repairs
    /// nor frequent acknowledgements would help. Until the peer is heard we send it one packet now and then:
    /// each packet to a neighbour that is gone keeps the radio busy for as long as dozens that arrive.
    pub fn handle_unsent(&mut self, now: Time, peer: Peer, packet: &[u8]) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        if self.config.profile != Profile::Default {
            return;
        }
        // What waited behind the packet comes back with it.
        if state.unsent == 0 || now.since(state.unsent_at) > TOGETHER {
            state.unsent = state.unsent.saturating_add(1);
            state.unsent_at = now;
        }
        self.pause(now, peer);
        let Ok(header) = Header::parse(packet) else { return };
        let mut rest = &packet[header.len..header.total_len];
        while let Ok((message, after)) = Message::split_first(rest) {
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
        let Some(sender) = self.senders.get_mut(&(peer, data.flow)) else { return };
        let before = sender.held();
        let of = (data.seq, data.copy);
        let learned = sender.handle_unsent(now, of, &self.config, &mut self.pool);
        self.held -= before - sender.held();
        self.note(peer, learned);
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
        let (Some(state), Some(sender)) =
            (self.peers.get_mut(&peer), self.senders.get_mut(&(peer, flow)))
        else {
            return;
        };
        sender.listing_mut().handle_timeout();
        let before = sender.held();
        self.stats.sent.packets_expired += sender.expire(now, self.config.lifetime, &mut self.pool);
        let mut learned = Learned::default();
        if !state.path.is_silent() || state.path.probe_at() <= now {
            let (config, pool) = (&self.config, &mut self.pool);
            if sender.handle_timeout(now, &state.path, config, pool, &mut learned)
                && config.profile == Profile::Default
            {
                state.path.handle_silence(now);
                state.path.set_probe_at(now + sender.probe_interval(&state.path, config));
            }
        }
        self.held -= before - sender.held();
        self.note(peer, learned);
        self.schedule_flow(now, peer, flow);
    }

    /// A peer that was silent is heard again.
    fn revive(&mut self, now: Time, peer: Peer) {
        let mut learned = Learned::default();
        for (_, sender) in self.senders.range_mut(flows_of(peer)) {
            let before = sender.held();
            sender.handle_revival(now, &self.config, &mut self.pool, &mut learned);
            self.held -= before - sender.held();
        }
        self.note(peer, learned);
        self.schedule_flows(now, peer);
    }

    /// Gives all flows of a peer their turns and deadlines.
    fn schedule_flows(&mut self, now: Time, peer: Peer) {
        let flows: Vec<FlowId> =
            self.senders.range(flows_of(peer)).map(|(&(_, flow), _)| flow).collect();
        for flow in flows {
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

    /// Gives a flow its turn and its deadline, whatever has changed in it.
    fn schedule_flow(&mut self, now: Time, peer: Peer, flow: FlowId) {
        let (Some(state), Some(sender)) =
            (self.peers.get(&peer), self.senders.get_mut(&(peer, flow)))
        else {
            return;
        };
        if sender.has_work(now)
            && state.paused_until.is_none()
            && sender.listing_mut().list()
            && let Some(link) = self.links.get_mut(&state.path.config().link)
        {
            link.turns.push_back((peer, flow));
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
            let is_news = receiver.told_congested()
                || receiver
                    .downstream()
                    .and_then(|downstream| self.senders.get(&downstream))
                    .is_some_and(|sender| sender.backlog() >= self.config.congestion);
            if is_news {
                // The timer makes a driver that sends on one link look at the other link, too.
                receiver.schedule_ack(now + Duration::from_nanos(1));
                self.schedule_ack(now, id.0, id.1);
            }
        }
    }

    /// Notes what an acknowledgement or a silence taught about a peer.
    fn note(&mut self, peer: Peer, learned: Learned) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.path.learn(learned);
        }
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
        // One after the other, so that a number comes back late; 0 is not given.
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

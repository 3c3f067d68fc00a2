//! The relay of a node: its peers, their flows, and the links that lead to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::contract::Refused;
use base::ip::{FlowKey, Header};
use base::rng::Rng;
use base::time::{Time, earliest};

use super::config::Config;
use super::egress::Egress;
use super::link::{Link, LinkReport, Peer, PeerConfig};
use super::peer::{LinkState, PeerState};
use super::pool::Pool;
use super::receiver::Receiver;
use super::sender::Sender;
use super::stats::{Received, Stats};
use super::wire::{self, FlowId, Message};

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
pub(super) enum Timer {
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
    pub(super) config: Config,
    pub(super) rng: Rng,
    pub(super) peers: BTreeMap<Peer, PeerState>,
    pub(super) links: BTreeMap<Link, LinkState>,
    pub(super) senders: BTreeMap<(Peer, FlowId), Sender>,
    pub(super) flows: BTreeMap<(Peer, FlowKey), FlowId>,
    pub(super) receivers: BTreeMap<(Peer, FlowId), Receiver>,
    pub(super) timers: BTreeSet<(Time, Timer)>,
    pub(super) sweep_at: Option<Time>,
    /// Which flow from a peer brings the packets of these addresses and ports.
    pub(super) inbound: BTreeMap<FlowKey, (Peer, FlowId)>,
    pub(super) egress: Egress,
    pub(super) pool: Pool,
    /// Packets waiting or unacknowledged, over all flows.
    pub(super) held: usize,
    pub(super) events: VecDeque<Event>,
    pub(super) stats: Stats,
    /// Acknowledgements on their way into a packet.
    pub(super) scratch: Vec<u8>,
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
            Some(state) => state.config = config,
            None => {
                let [a, b, ..] = self.rng.bits().to_le_bytes();
                let first = FlowId(u16::from_le_bytes([a, b]));
                self.peers.insert(peer, PeerState::new(config, &self.config, first));
            }
        }
    }

    /// Takes what the driver knows of the link to a peer; it counts until HBH has learnt more from
    /// its own packets. Only the default profile.
    pub fn handle_link_report(&mut self, peer: Peer, report: LinkReport) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.loss.learn_from_report(report);
            state.rtt.learn_from_report(report);
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
            let from = sender.upstream.map(|(from, _)| from);
            let before = sender.held();
            if before == 0 || !is_moved(&sender.key, from) {
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
pub(super) fn flows_of(peer: Peer) -> std::ops::RangeInclusive<(Peer, FlowId)> {
    (peer, FlowId(0))..=(peer, FlowId(u16::MAX))
}

//! What a node does with what comes in: packets, acknowledgements, data, and time.

use super::config::Profile;
use super::hop::{Event, Hop, Peer, Refused, Timer};
use super::packet::{Packet, Tcp};
use super::receiver::Receiver;
use super::sender::{Learned, Sender};
use super::wire::{Ack, Data, FlowId, HEADER, MAX_BUDGET, REPAIR};
use crate::ip::{FlowKey, Header, mark_congestion};
use crate::time::Time;

/// With more flows from peers than these, no packets are kept for repairs.
const REPAIRED_FLOWS: usize = 256;
/// Packets that a flow may bring without one of them coming back, before it is taken to leave HBH
/// here after all.
const UNRETURNED: u16 = 64;
/// Packets that were accepted and are between the driver's routing and their queue, at most.
const ON_THEIR_WAY: usize = 256;
/// Events that wait for the driver at most.
const EVENTS: usize = 256;

impl Hop {
    pub(super) fn take(&mut self, now: Time, peer: Peer, packet: &[u8]) -> Result<(), Refused> {
        let header = Header::parse(packet)?;
        let packet = &packet[..header.total_len];
        let Some(state) = self.peers.get(&peer) else { return Err(Refused::UnknownPeer) };
        let mtu = state.config.mtu.saturating_sub(HEADER);
        if packet.len() > mtu {
            return Err(Refused::TooBig { mtu });
        }
        let (key, offset) = FlowKey::of(&header, packet);
        let tcp = Tcp::of(&key, &header, packet, offset);
        if self.config.absorb && tcp.is_some_and(|tcp| tcp.is_reset) {
            self.discard_reset(key);
        }
        let upstream = self.inbound.get(&key).copied();
        let flow = self.flow_of(now, peer, key)?;
        if let Some(upstream) = upstream {
            self.goes_on(upstream, key, (peer, flow));
        }
        let Some(sender) = self.senders.get_mut(&(peer, flow)) else { return Err(Refused::Full) };
        if let Some(tcp) = tcp
            && self.config.absorb
            && sender.absorb(tcp, packet, header.len)
        {
            self.stats.packets_absorbed += 1;
            return Ok(());
        }
        let has_room = if upstream.is_none() {
            sender.has_room(now, &self.config)
        } else {
            sender.backlog() < self.config.queue + ON_THEIR_WAY
        };
        if !has_room || self.held >= self.config.packets {
            self.stats.packets_full_inside += u64::from(upstream.is_some());
            return Err(Refused::Full);
        }

        let mut octets = self.pool.copy(packet);
        if upstream.is_none()
            && self.config.profile == Profile::Default
            && sender.backlog() >= self.config.congestion
            && mark_congestion(&mut octets)
        {
            self.stats.packets_marked += 1;
        }
        let budget = self.config.path_retries.min(MAX_BUDGET);
        let (header_len, protocol) = (header.len, header.protocol);
        let taken_at = now;
        sender.handle_packet(now, Packet { octets, header_len, protocol, budget, taken_at, tcp });
        self.held += 1;
        sender.upstream = upstream;
        if sender.backlog() == self.config.congestion {
            self.tell_upstream(now, upstream);
        }
        self.attend(now, peer, flow);
        self.plan_sweep(now);
        Ok(())
    }

    pub(super) fn handle_ack(&mut self, now: Time, peer: Peer, ack: &Ack<'_>) {
        self.stats.acks_received += 1;
        if ack.is_congested {
            self.stats.congestion_received += 1;
        }
        let (Some(state), Some(sender)) =
            (self.peers.get_mut(&peer), self.senders.get_mut(&(peer, ack.flow)))
        else {
            self.stats.acks_stray += 1;
            return;
        };
        let before = sender.held();
        let learned = sender.handle_ack(now, ack, &mut state.rtt, &self.config, &mut self.pool);
        self.held -= before - sender.held();
        self.note(peer, learned);
        self.attend(now, peer, ack.flow);
    }

    /// The packets of a flow from a peer go on by a flow to another.
    fn goes_on(&mut self, upstream: (Peer, FlowId), key: FlowKey, downstream: (Peer, FlowId)) {
        let Some(receiver) = self.receivers.get_mut(&upstream) else { return };
        receiver.unreturned = 0;
        if receiver.downstream.replace(downstream).is_none() {
            self.egress.let_go(&key);
        }
    }

    /// Takes an HDM; `header` is the IP header before it.
    pub(super) fn handle_data(&mut self, now: Time, peer: Peer, data: &Data<'_>, header: &[u8]) {
        let profile = self.config.profile;
        let window = self.config.window.1;
        let id = (peer, data.flow);
        if !self.receivers.contains_key(&id) {
            if !self.has_room_for_receiver(now) {
                self.stats.data_deferred += 1;
                return;
            }
            self.receivers.insert(id, Receiver::new(now, data, window, profile));
            self.plan_sweep(now);
        }
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        // A packet that could not be queued for its next hop is left with the peer, who is told.
        let is_full = self.held >= self.config.packets
            || receiver
                .downstream
                .and_then(|downstream| self.senders.get(&downstream))
                .is_some_and(|sender| sender.backlog() >= self.config.queue);
        if is_full && profile == Profile::Default {
            receiver.owe(now);
            self.stats.data_deferred += 1;
            self.owe(now, peer, data.flow);
            return;
        }
        let round_trip = self.peers.get(&peer).and_then(|state| state.rtt.mean());
        let patience = self.config.patience(round_trip);
        if data.protocol == REPAIR && profile == Profile::Default {
            let mut decoder = std::mem::take(&mut receiver.decoder);
            decoder.handle_repair(
                data.seq,
                data.payload,
                |seq| receiver.has_arrived(seq),
                &mut self.pool,
            );
            receiver.decoder = decoder;
            receiver.owe(now);
            self.stats.repairs_received += 1;
            self.recover(now, peer, data);
            self.owe(now, peer, data.flow);
            return;
        }
        let is_new = receiver.handle_data(now, data, patience, window, profile);
        self.owe(now, peer, data.flow);
        if !is_new {
            self.stats.data_duplicate += 1;
            return;
        }
        self.stats.data_received += 1;

        let mut packet = self.pool.copy(header);
        packet.extend_from_slice(data.payload);
        super::transmit::seal(&mut packet, header.len(), data.protocol);
        let keeps = profile == Profile::Default && self.receivers.len() <= REPAIRED_FLOWS;
        if keeps && let Some(receiver) = self.receivers.get_mut(&id) {
            receiver.decoder.handle_packet(data.seq, &packet, &mut self.pool);
        }
        self.restore(now, id, packet);
        if keeps {
            self.recover(now, peer, data);
        }
    }

    /// A packet has arrived: it goes on as it is, or waits for its turn if it leaves HBH here.
    ///
    /// Whether it goes on shows when packets of its flow come back to be sent to another peer.
    fn restore(&mut self, now: Time, id: (Peer, FlowId), packet: Vec<u8>) {
        let Ok(header) = Header::parse(&packet) else {
            self.stats.messages_malformed += 1;
            self.pool.give(packet);
            return;
        };
        let (key, offset) = FlowKey::of(&header, &packet);
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        if receiver.key != Some(key) {
            if let Some(old) = receiver.key.replace(key)
                && self.inbound.get(&old) == Some(&id)
            {
                self.inbound.remove(&old);
            }
            self.inbound.insert(key, id);
        }
        receiver.unreturned = receiver.unreturned.saturating_add(1);
        if receiver.unreturned > UNRETURNED {
            receiver.downstream = None;
        }
        let tcp = Tcp::of(&key, &header, &packet, offset).filter(|_| receiver.downstream.is_none());
        let segment = tcp.map(|tcp| (key, tcp));
        self.egress.handle_packet(now, id.0, packet, segment, self.config.hold, &mut self.pool);
        self.plan_sweep(now);
    }

    /// Passes on what the repairs of a flow give now.
    fn recover(&mut self, now: Time, peer: Peer, data: &Data<'_>) {
        let id = (peer, data.flow);
        while let Some(receiver) = self.receivers.get_mut(&id)
            && let Some((seq, packet)) = receiver.decoder.poll_recovered(&mut self.pool)
        {
            receiver.decoder.handle_packet(seq, &packet, &mut self.pool);
            if Header::parse(&packet).is_err() {
                self.stats.messages_malformed += 1;
            } else if receiver.handle_recovered(seq) {
                self.stats.packets_recovered += 1;
                self.restore(now, id, packet);
            }
        }
    }

    /// A flow's silence or pause may have ended.
    pub(super) fn flow_is_due(&mut self, now: Time, peer: Peer, flow: FlowId) {
        let (Some(state), Some(sender)) =
            (self.peers.get(&peer), self.senders.get_mut(&(peer, flow)))
        else {
            return;
        };
        sender.timer = None;
        let before = sender.held();
        let learned = sender.handle_timeout(now, &state.rtt, &self.config, &mut self.pool);
        self.held -= before - sender.held();
        self.note(peer, learned);
        self.attend(now, peer, flow);
    }

    /// An acknowledgement to `peer` has waited for long enough.
    pub(super) fn ack_is_due(&mut self, now: Time, peer: Peer) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        state.ack_timer = None;
        let due = state
            .owed
            .iter()
            .filter_map(|&flow| self.receivers.get(&(peer, flow))?.owed_at())
            .min();
        match due {
            Some(at) if at <= now => state.is_overdue = true,
            Some(at) => {
                state.ack_timer = Some(at);
                self.timers.insert((at, Timer::Ack(peer)));
            }
            None => {}
        }
    }

    /// Gives a flow its turn and its deadline, whatever has changed in it.
    pub(super) fn attend(&mut self, now: Time, peer: Peer, flow: FlowId) {
        let (Some(state), Some(sender)) =
            (self.peers.get(&peer), self.senders.get_mut(&(peer, flow)))
        else {
            return;
        };
        if sender.has_work(now) && !sender.is_listed {
            sender.is_listed = true;
            if let Some(link) = self.links.get_mut(&state.config.link) {
                link.turns.push_back((peer, flow));
            }
        }
        // A deadline that has moved later stays where it is and finds nothing to do.
        if let Some(at) = sender.next_timeout(now, &state.rtt, &self.config)
            && sender.timer.is_none_or(|timer| at < timer)
        {
            let at = at.max(now + std::time::Duration::from_nanos(1));
            if let Some(old) = sender.timer.replace(at) {
                self.timers.remove(&(old, Timer::Flow(peer, flow)));
            }
            self.timers.insert((at, Timer::Flow(peer, flow)));
        }
    }

    /// Has the peer that feeds a flow told how its queue stands.
    pub(super) fn tell_upstream(&mut self, now: Time, upstream: Option<(Peer, FlowId)>) {
        if let Some(id) = upstream
            && let Some(receiver) = self.receivers.get_mut(&id)
        {
            let is_news = receiver.told_congested()
                || receiver
                    .downstream
                    .and_then(|downstream| self.senders.get(&downstream))
                    .is_some_and(|sender| sender.backlog() >= self.config.congestion);
            if is_news {
                receiver.owe(now);
                self.owe(now, id.0, id.1);
            }
        }
    }

    /// Notes what an acknowledgement or a silence taught about a peer.
    pub(super) fn note(&mut self, peer: Peer, learned: Learned) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.loss.learn(learned.lost, learned.delivered);
        }
        if learned.abandoned > 0 {
            self.stats.packets_abandoned += u64::from(learned.abandoned);
            if self.events.len() < EVENTS {
                self.events.push_back(Event::GaveUp { peer, packets: learned.abandoned });
            }
        }
    }

    /// Plans to forget what is no longer used.
    pub(super) fn plan_sweep(&mut self, now: Time) {
        let period = self.config.idle / 4;
        self.sweep_at.get_or_insert_with(|| now + period);
    }

    /// Forgets what is no longer used.
    pub(super) fn sweep(&mut self, now: Time) {
        let before = now - self.config.idle;
        self.forget_senders(|sender| sender.used_at < before);
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
        let state = self.peers.get_mut(&peer).ok_or(Refused::UnknownPeer)?;
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

    /// Forgets flows that hold nothing and that `may_go`.
    fn forget_senders(&mut self, may_go: impl Fn(&Sender) -> bool) {
        let flows = &mut self.flows;
        self.senders.retain(|&(peer, _), sender| {
            let stays = sender.held() > 0 || !may_go(sender);
            if !stays {
                flows.remove(&(peer, sender.key));
            }
            stays
        });
    }

    fn has_room_for_receiver(&mut self, now: Time) -> bool {
        if self.receivers.len() >= self.config.flows {
            self.forget_receivers(now - std::time::Duration::from_secs(1));
        }
        self.receivers.len() < self.config.flows
    }

    /// Forgets flows from peers without packets since `before`.
    fn forget_receivers(&mut self, before: Time) {
        let inbound = &mut self.inbound;
        self.receivers.retain(|id, receiver| {
            let stays = receiver.used_at >= before || receiver.owed_at().is_some();
            if !stays
                && let Some(key) = receiver.key
                && inbound.get(&key) == Some(id)
            {
                inbound.remove(&key);
            }
            stays
        });
    }

    /// Puts a flow from `peer` among those that are owed an acknowledgement.
    fn owe(&mut self, now: Time, peer: Peer, flow: FlowId) {
        let (Some(state), Some(receiver)) =
            (self.peers.get_mut(&peer), self.receivers.get(&(peer, flow)))
        else {
            return;
        };
        let Some(at) = receiver.owed_at() else { return };
        if !state.owed.contains(&flow) {
            state.owed.push_back(flow);
        }
        if at <= now {
            state.is_overdue = true;
        } else if state.ack_timer.is_none_or(|timer| at < timer) {
            if let Some(old) = state.ack_timer.replace(at) {
                self.timers.remove(&(old, Timer::Ack(peer)));
            }
            self.timers.insert((at, Timer::Ack(peer)));
        }
    }

    /// A connection is reset: what waits for it in either direction has no one to go to.
    fn discard_reset(&mut self, key: FlowKey) {
        let peers: Vec<Peer> = self.peers.keys().copied().collect();
        for peer in peers {
            for key in [key, key.reversed()] {
                let Some(&flow) = self.flows.get(&(peer, key)) else { continue };
                let Some(sender) = self.senders.get_mut(&(peer, flow)) else { continue };
                let before = sender.held();
                sender.take_back(&mut self.pool, |_| {});
                self.held -= before - sender.held();
                self.stats.packets_reset += (before - sender.held()) as u64;
            }
        }
    }
}

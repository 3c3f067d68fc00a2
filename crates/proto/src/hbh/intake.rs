//! What a node does with what comes in: packets, acknowledgements, data, and time.

use super::config::Profile;
use super::hop::{Carried, Event, Hop, Peer, Refused, Timer};
use super::packet::{Packet, Tcp};
use super::receiver::Receiver;
use super::sender::{Learned, Sender};
use super::wire::{Ack, Data, FlowId, HEADER, MAX_BUDGET, REPAIR};
use crate::ip::{FlowKey, Header, mark_congestion};
use crate::time::Time;

/// With more flows from peers than these, no packets are kept for repairs.
const REPAIRED_FLOWS: usize = 256;
/// Events that wait for the driver at most.
const EVENTS: usize = 256;

impl Hop {
    pub(super) fn take(
        &mut self,
        now: Time,
        peer: Peer,
        packet: &[u8],
        carried: Carried,
    ) -> Result<(), Refused> {
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
        let flow = self.flow_of(now, peer, key)?;
        let Some(sender) = self.senders.get_mut(&(peer, flow)) else { return Err(Refused::Full) };
        if let Some(tcp) = tcp
            && self.config.absorb
            && sender.absorb(tcp, packet, header.len)
        {
            self.stats.packets_absorbed += 1;
            return Ok(());
        }
        let has_room = if carried.upstream.is_none() {
            sender.has_room(now, &self.config)
        } else {
            sender.backlog() < self.config.queue
        };
        if !has_room || self.held >= self.config.packets {
            return Err(Refused::Full);
        }

        let mut octets = self.pool.copy(packet);
        let is_ingress = carried.upstream.is_none();
        if is_ingress
            && self.config.profile == Profile::Default
            && sender.backlog() >= self.config.congestion
            && mark_congestion(&mut octets)
        {
            self.stats.packets_marked += 1;
        }
        let budget = carried.budget.unwrap_or(self.config.path_retries.min(MAX_BUDGET));
        let (header_len, protocol) = (header.len, header.protocol);
        let taken_at = now;
        sender.handle_packet(now, Packet { octets, header_len, protocol, budget, taken_at, tcp });
        self.held += 1;
        sender.upstream = carried.upstream;
        let backlog = sender.backlog();
        if let Some(upstream) = carried.upstream
            && let Some(receiver) = self.receivers.get_mut(&upstream)
        {
            receiver.downstream = Some((peer, flow));
        }
        if backlog == self.config.congestion {
            self.tell_upstream(now, carried.upstream);
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

    pub(super) fn handle_data(
        &mut self,
        now: Time,
        peer: Peer,
        data: &Data<'_>,
    ) -> Option<Carried> {
        let profile = self.config.profile;
        let window = self.config.window.1;
        let id = (peer, data.flow);
        if !self.receivers.contains_key(&id) {
            if !self.has_room_for_receiver(now) {
                self.stats.data_deferred += 1;
                return None;
            }
            self.receivers.insert(id, Receiver::new(now, data, window, profile));
            self.plan_sweep(now);
        }
        let receiver = self.receivers.get_mut(&id)?;
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
            return None;
        }
        let patience = self.config.patience(self.peers.get(&peer)?.rtt.mean());
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
            self.recover(peer, data);
            self.owe(now, peer, data.flow);
            return None;
        }
        let is_new = receiver.handle_data(now, data, patience, window, profile);
        self.owe(now, peer, data.flow);
        if !is_new {
            self.stats.data_duplicate += 1;
            return None;
        }
        self.stats.data_received += 1;
        let budget = match profile {
            Profile::Default => Some(data.budget),
            Profile::Seed => None,
        };
        Some(Carried { budget, upstream: Some(id) })
    }

    /// Keeps a packet that arrived for the repairs that cover it.
    pub(super) fn keep(&mut self, peer: Peer, data: &Data<'_>, packet: &[u8]) {
        if self.config.profile == Profile::Default
            && self.receivers.len() <= REPAIRED_FLOWS
            && let Some(receiver) = self.receivers.get_mut(&(peer, data.flow))
        {
            receiver.decoder.handle_packet(data.seq, packet, &mut self.pool);
            self.recover(peer, data);
        }
    }

    /// Passes on what the repairs of a flow give now.
    fn recover(&mut self, peer: Peer, data: &Data<'_>) {
        let id = (peer, data.flow);
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        while let Some((seq, packet)) = receiver.decoder.poll_recovered(&mut self.pool) {
            receiver.decoder.handle_packet(seq, &packet, &mut self.pool);
            if Header::parse(&packet).is_err() {
                self.stats.messages_malformed += 1;
            } else if receiver.handle_recovered(seq) {
                self.stats.packets_recovered += 1;
                let carried = Carried { budget: Some(data.budget), upstream: Some(id) };
                self.recovered.push_back((packet, carried));
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
        self.receivers
            .retain(|_, receiver| receiver.used_at >= long_before || receiver.owed_at().is_some());
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
            let before = now - std::time::Duration::from_secs(1);
            self.receivers
                .retain(|_, receiver| receiver.used_at >= before || receiver.owed_at().is_some());
        }
        self.receivers.len() < self.config.flows
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

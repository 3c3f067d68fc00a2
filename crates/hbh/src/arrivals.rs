//! Handles messages from peers: acknowledgements, packets, and sums of packets.

use std::time::Duration;

use base::ip::{FlowKey, Header};
use base::tcp::Peek;
use base::time::Time;

use super::config::Profile;
use super::egress::LeavingSegment;
use super::link::Peer;
use super::receiver::Receiver;
use super::relay::{Relay, Timer};
use super::repair::Decoder;
use super::transmit::seal;
use super::wire::{Ack, Data, FlowId, Repair, Seq};

/// With more flows from peers than these, no packets are kept for repairs.
const REPAIRED_FLOWS: usize = 256;
/// Packets that a flow may bring without one of them coming back, before it is taken to leave HBH
/// here after all.
const UNRETURNED: u16 = 64;

impl Relay {
    pub(super) fn handle_ack(&mut self, now: Time, peer: Peer, ack: &Ack<'_>) {
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
        let learned = sender.handle_ack(now, ack, &mut state.rtt, &self.config, &mut self.pool);
        self.held -= before - sender.held();
        let was_silent = state.is_silent();
        state.silences = 0;
        self.note(peer, learned);
        self.attend(now, peer, ack.flow);
        if was_silent {
            self.revive(now, peer);
        }
    }

    /// Takes an HDM; `header` is the IP header before it.
    pub(super) fn handle_data(&mut self, now: Time, peer: Peer, data: &Data<'_>, header: &[u8]) {
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
        let patiences = (self.patience(peer, data.is_patient), self.patience(peer, false));
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let is_new = receiver.handle_data(now, data, patiences, window, profile, &mut self.pool);
        self.owe(now, peer, data.flow);
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
    pub(super) fn handle_repair(
        &mut self,
        now: Time,
        peer: Peer,
        repair: &Repair<'_>,
        header: &[u8],
    ) {
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
        let patience = self.patience(peer, false);
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let is_needed =
            repair.mask.iter().any(|offset| !receiver.has_arrived(repair.first.plus(offset)));
        if !is_needed {
            return;
        }
        receiver.handle_repair(now, repair);
        let mut decoder = std::mem::take(&mut receiver.decoder);
        decoder.handle_repair(repair, |seq| receiver.has_arrived(seq), &mut self.pool);
        receiver.decoder = decoder;
        self.recover(now, id, header, repair.protocol);
        // What it could not make good, its sender is told at once: it may be the last of a burst.
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let is_left =
            repair.mask.iter().any(|offset| !receiver.has_arrived(repair.first.plus(offset)));
        receiver.owe(if is_left { now } else { now + patience });
        self.owe(now, peer, repair.flow);
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
                .downstream
                .and_then(|downstream| self.senders.get(&downstream))
                .is_some_and(|sender| sender.backlog() >= self.config.queue);
        if is_full {
            receiver.owe(now);
            self.stats.received.data_deferred += 1;
            self.owe(now, id.0, id.1);
        }
        is_full
    }

    /// How long an acknowledgement to a peer may wait.
    pub(super) fn patience(&self, peer: Peer, is_patient: bool) -> Duration {
        let round_trip = self.peers.get(&peer).and_then(|state| state.rtt.known(is_patient));
        self.config.patience(round_trip, is_patient)
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
        seal(&mut packet, header.len(), protocol);
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
            receiver.decoder.handle_packet(seq, packet, header_len, has_hole, &mut self.pool);
        } else {
            // Numbers come again: old packets must not be taken for new ones.
            receiver.decoder = Decoder::default();
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
        let tcp = Peek::of(&key, &header, &packet, offset);
        if has_hole && let Some(tcp) = tcp {
            receiver.note_hole(tcp.seq);
        }
        let tcp = tcp.filter(|_| receiver.downstream.is_none());
        let segment = tcp.map(|tcp| LeavingSegment { key, tcp, has_hole });
        self.egress.handle_packet(now, id.0, packet, segment, self.config.hold, &mut self.pool);
        self.plan_sweep(now);
    }

    /// Passes on the packets that a flow's repairs recover now; `header` is the IP header of a
    /// packet of the flow.
    fn recover(&mut self, now: Time, id: (Peer, FlowId), header: &[u8], protocol: u8) {
        while let Some(receiver) = self.receivers.get_mut(&id)
            && let Some((seq, packet, has_hole)) =
                receiver.decoder.poll_recovered(header, protocol, &mut self.pool)
        {
            let (pool, len) = (&mut self.pool, header.len());
            receiver.decoder.handle_packet(seq, &packet, len, has_hole, pool);
            if receiver.handle_recovered(seq) {
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
    pub(super) fn forget_receivers(&mut self, before: Time) {
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
    pub(super) fn owe(&mut self, now: Time, peer: Peer, flow: FlowId) {
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
}

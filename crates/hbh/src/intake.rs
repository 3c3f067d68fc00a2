//! Takes in the packets that the driver hands to a node.

use base::contract::Refused;
use base::ip::{FlowKey, Header, mark_congestion};
use base::tcp::Peek;
use base::time::Time;

use super::config::Profile;
use super::link::Peer;
use super::packet::Packet;
use super::relay::Relay;
use super::wire::{FlowId, HEADER};

/// Packets that were accepted and are between the driver's routing and their queue, at most.
const ON_THEIR_WAY: usize = 256;

impl Relay {
    pub(super) fn take(&mut self, now: Time, peer: Peer, packet: &[u8]) -> Result<(), Refused> {
        let header = Header::parse(packet).map_err(|_| Refused::Malformed)?;
        let packet = &packet[..header.total_len];
        let state = self.peers.get(&peer).ok_or(Refused::Down)?;
        let mtu = state.config.mtu.saturating_sub(HEADER);
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
                && sender.absorb(now, tcp, packet, header.len, state)
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
        sender.upstream = upstream;
        let packet = Packet { octets, header_len, protocol, taken_at, tcp, has_hole };
        sender.handle_packet(now, packet);
        self.held += 1;
        if sender.backlog() == self.config.congestion {
            self.tell_upstream(now, upstream);
        }
        self.attend(now, peer, flow);
        self.plan_sweep(now);
        Ok(())
    }

    /// The packets of a flow from a peer go on by a flow to another.
    fn goes_on(&mut self, upstream: (Peer, FlowId), key: FlowKey, downstream: (Peer, FlowId)) {
        let Some(receiver) = self.receivers.get_mut(&upstream) else { return };
        receiver.unreturned = 0;
        if receiver.downstream.replace(downstream).is_none() {
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

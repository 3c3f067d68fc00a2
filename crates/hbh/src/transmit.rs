//! Chooses a node's next transmission over a link: the flow in turn, and what rides along.

use base::ip::{Spec, rewrite_v4_checksum};
use base::time::Time;

use super::config::Profile;
use super::link::{Link, Peer};
use super::peer::PeerState;
use super::receiver::Receiver;
use super::relay::Relay;
use super::sender::Choice;
use super::upkeep::remind;
use super::wire::FlowId;

/// Acknowledgements that ride on one packet at most.
const RIDERS: usize = 4;
/// Flows looked at for something to repair, each time that a link is idle.
const SPARE_SEARCH: usize = 64;

/// A flow, and its kind of transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) peer: Peer,
    flow: FlowId,
    choice: Choice,
}

impl Relay {
    /// The peer on `link` to which an acknowledgement is overdue.
    pub(super) fn overdue(&self, link: Link) -> Option<Peer> {
        let peers = &self.links.get(&link)?.peers;
        peers.iter().copied().find(|peer| {
            self.peers
                .get(peer)
                .is_some_and(|state| state.is_overdue && state.paused_until.is_none())
        })
    }

    /// Returns the next flow in turn on `link`: deficit round robin over the flows with something
    /// to send.
    pub(super) fn next_turn(&mut self, now: Time, link: Link) -> Option<Turn> {
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
            let is_silent = neighbour.is_some_and(PeerState::is_silent);
            let is_paused = neighbour.is_some_and(|state| state.paused_until.is_some());
            let choice = sender.choose(now, is_silent, &self.config).filter(|_| !is_paused);
            let Some(choice) = choice else {
                sender.turn.is_listed = false;
                sender.turn.deficit = 0;
                state.turns.pop_front();
                continue;
            };
            let len = sender.len_of(choice);
            if sender.turn.deficit < len {
                sender.turn.deficit +=
                    self.peers.get(&peer).map_or(len, |peer| peer.config.mtu.max(len));
                state.turns.rotate_left(1);
                continue;
            }
            sender.turn.deficit -= len;
            return Some(Turn { peer, flow, choice });
        }
        None
    }

    /// What an idle link that loses packets may send without being asked; flows take turns.
    pub(super) fn spare(&mut self, now: Time, link: Link) -> Option<Turn> {
        let state = self.links.get_mut(&link)?;
        for _ in 0..state.spares.len().min(SPARE_SEARCH) {
            let Some((peer, flow)) = state.spares.pop_front() else { break };
            let (Some(neighbour), Some(sender)) =
                (self.peers.get(&peer), self.senders.get_mut(&(peer, flow)))
            else {
                continue;
            };
            if !sender.has_flying() || !neighbour.needs_repairs(&self.config) {
                sender.turn.is_spare_listed = false;
                continue;
            }
            state.spares.push_back((peer, flow));
            if !neighbour.is_idle() || neighbour.paused_until.is_some() {
                continue;
            }
            if let Some(choice) = sender.choose_spare(now, neighbour, &self.config) {
                return Some(Turn { peer, flow, choice });
            }
            // What another flow has taught about the neighbour may let this one send earlier.
            if let Some(at) = sender.spare_timeout(now, neighbour, &self.config) {
                remind(&mut self.timers, now, at, (peer, flow), sender);
            }
        }
        None
    }

    /// Writes the packet of `turn`, and with it the acknowledgements that are owed to its peer.
    pub(super) fn emit_data(&mut self, now: Time, turn: Turn, out: &mut Vec<u8>) {
        let Turn { peer, flow, choice } = turn;
        if choice == Choice::Repair {
            self.emit_repair(now, peer, flow, out);
            return;
        }
        let (Some(state), Some(sender)) = (self.peers.get(&peer), self.senders.get(&(peer, flow)))
        else {
            return;
        };
        let mut room = state.config.mtu.saturating_sub(sender.len_of(choice));
        let is_patient = state.is_patient(&self.config);

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
        seal(out, header_len, self.config.protocol);
        self.scratch = acks;

        let (backlog, upstream) = (sender.backlog(), sender.upstream);
        if backlog == self.config.clear && choice == Choice::New {
            self.tell_upstream(now, upstream);
        }
        self.attend(now, peer, flow);
    }

    /// Writes a packet with a repair of a flow, and nothing else.
    fn emit_repair(&mut self, now: Time, peer: Peer, flow: FlowId, out: &mut Vec<u8>) {
        let Some(sender) = self.senders.get_mut(&(peer, flow)) else { return };
        let header_len = sender.emit_repair(now, &mut self.scratch, out);
        seal(out, header_len, self.config.protocol);
        self.stats.sent.repairs_sent += 1;
        self.attend(now, peer, flow);
    }

    /// Writes a packet with nothing but acknowledgements for `peer`, as many as fit.
    pub(super) fn emit_acks(&mut self, now: Time, peer: Peer, out: &mut Vec<u8>) {
        let Some(state) = self.peers.get(&peer) else { return };
        let spec = Spec::new(state.config.local, state.config.remote, self.config.protocol);
        let mtu = state.config.mtu;
        spec.emit(0, out);
        let header_len = out.len();
        let mut follows = true;
        while follows {
            let after = self.peers.get(&peer).and_then(|state| state.owed.get(1));
            let len = |flow: &FlowId| self.receivers.get(&(peer, *flow)).map(Receiver::ack_len);
            let both = self.next_ack_len(peer).zip(after.and_then(len));
            let fits = both.is_some_and(|(this, next)| out.len() + this + next <= mtu);
            follows = fits && self.config.profile == Profile::Default;
            if !self.emit_ack(now, peer, follows, out) {
                break;
            }
        }
        seal(out, header_len, self.config.protocol);
        self.stats.received.acks_sent += 1;
    }

    /// Octets of the acknowledgement that has been owed to `peer` for longest.
    fn next_ack_len(&self, peer: Peer) -> Option<usize> {
        let flow = self.peers.get(&peer)?.owed.front()?;
        self.receivers.get(&(peer, *flow)).map(Receiver::ack_len)
    }

    /// Appends the acknowledgement that has been owed to `peer` for longest; false for none.
    fn emit_ack(&mut self, now: Time, peer: Peer, is_followed: bool, out: &mut Vec<u8>) -> bool {
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        let Some(flow) = state.owed.pop_front() else { return false };
        if state.owed.is_empty() {
            state.is_overdue = false;
        }
        // An owed acknowledgement has its receiver: both go together.
        let Some(receiver) = self.receivers.get_mut(&(peer, flow)) else { return false };
        let backlog = receiver
            .downstream
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

/// Makes `packet`, whose IP header has `header_len` octets, one of `protocol` with its length.
pub(super) fn seal(packet: &mut [u8], header_len: usize, protocol: u8) {
    let len = u16::try_from(packet.len()).unwrap_or(u16::MAX);
    if packet[0] >> 4 == 4 {
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet[9] = protocol;
        rewrite_v4_checksum(&mut packet[..header_len]);
    } else {
        let payload = len.saturating_sub(u16::try_from(header_len).unwrap_or(0));
        packet[4..6].copy_from_slice(&payload.to_be_bytes());
        packet[6] = protocol;
    }
}

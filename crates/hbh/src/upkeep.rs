//! Maintains a node as time passes: turns and deadlines of flows, and forgetting.

use std::collections::BTreeSet;
use std::time::Duration;

use base::contract::Refused;
use base::ip::FlowKey;
use base::time::Time;

use super::config::Profile;
use super::link::Peer;
use super::peer::Learned;
use super::relay::{Event, Relay, Timer, flows_of};
use super::sender::Sender;
use super::wire::FlowId;

/// Events that wait for the driver at most.
const EVENTS: usize = 256;

impl Relay {
    /// A flow's silence or pause may have ended.
    pub(super) fn flow_is_due(&mut self, now: Time, peer: Peer, flow: FlowId) {
        let (Some(state), Some(sender)) =
            (self.peers.get_mut(&peer), self.senders.get_mut(&(peer, flow)))
        else {
            return;
        };
        sender.turn.timer = None;
        let before = sender.held();
        self.stats.sent.packets_expired += sender.expire(now, self.config.lifetime, &mut self.pool);
        let mut learned = Learned::default();
        if !state.is_silent() || state.probe_at <= now {
            let (config, pool) = (&self.config, &mut self.pool);
            if sender.handle_timeout(now, state, config, pool, &mut learned)
                && config.profile == Profile::Default
            {
                state.handle_silence(now);
                state.probe_at = now + sender.probe_interval(state, config);
            }
        }
        self.held -= before - sender.held();
        self.note(peer, learned);
        self.attend(now, peer, flow);
    }

    /// A peer that was silent is heard again.
    pub(super) fn revive(&mut self, now: Time, peer: Peer) {
        let mut learned = Learned::default();
        for (_, sender) in self.senders.range_mut(flows_of(peer)) {
            let before = sender.held();
            sender.handle_revival(now, &self.config, &mut self.pool, &mut learned);
            self.held -= before - sender.held();
        }
        self.note(peer, learned);
        self.attend_all(now, peer);
    }

    /// Gives all flows of a peer their turns and deadlines.
    pub(super) fn attend_all(&mut self, now: Time, peer: Peer) {
        let flows: Vec<FlowId> =
            self.senders.range(flows_of(peer)).map(|(&(_, flow), _)| flow).collect();
        for flow in flows {
            self.attend(now, peer, flow);
        }
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
        if sender.has_work(now) && !sender.turn.is_listed && state.paused_until.is_none() {
            sender.turn.is_listed = true;
            if let Some(link) = self.links.get_mut(&state.config.link) {
                link.turns.push_back((peer, flow));
            }
        }
        if sender.has_flying() && !sender.turn.is_spare_listed && state.needs_repairs(&self.config)
        {
            sender.turn.is_spare_listed = true;
            if let Some(link) = self.links.get_mut(&state.config.link) {
                link.spares.push_back((peer, flow));
            }
        }
        // Only one flow probes a silent peer at a time.
        let not_before = if state.is_silent() { state.probe_at } else { now };
        if let Some(at) = sender.next_timeout(now, state, &self.config) {
            remind(&mut self.timers, now, at.max(not_before), (peer, flow), sender);
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
                // The timer makes a driver that sends on one link look at the other link, too.
                receiver.owe(now + Duration::from_nanos(1));
                self.owe(now, id.0, id.1);
            }
        }
    }

    /// Notes what an acknowledgement or a silence taught about a peer.
    pub(super) fn note(&mut self, peer: Peer, learned: Learned) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.loss.learn(learned);
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
    pub(super) fn flow_of(
        &mut self,
        now: Time,
        peer: Peer,
        key: FlowKey,
    ) -> Result<FlowId, Refused> {
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
                flows.remove(&(peer, sender.key));
            }
            stays
        });
    }
}

/// Sees to it that a flow is looked at no later than `at`.
pub(super) fn remind(
    timers: &mut BTreeSet<(Time, Timer)>,
    now: Time,
    at: Time,
    (peer, flow): (Peer, FlowId),
    sender: &mut Sender,
) {
    // A deadline that has moved later stays where it is and finds nothing to do.
    if sender.turn.timer.is_none_or(|timer| at < timer) {
        let at = at.max(now + Duration::from_nanos(1));
        if let Some(old) = sender.turn.timer.replace(at) {
            timers.remove(&(old, Timer::Flow(peer, flow)));
        }
        timers.insert((at, Timer::Flow(peer, flow)));
    }
}

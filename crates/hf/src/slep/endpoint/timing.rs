//! Acts on deadlines of the endpoint.

use std::time::Duration;

use base::time::{Time, earliest};

use super::incoming::SOON;
use super::{Event, Slep};
use crate::s5066::Address;
use crate::slep::reason::Reason;
use crate::slep::stream::{Parting, StreamId};
use crate::slep::timers::Timer;

/// Questions without an answer after which a stream may be given up, ...
const MOST_UNANSWERED: u32 = 5;
/// ... and for how many times as long as an absent node: this node is present, only slow.
const PRESENT_FACTOR: u32 = 4;
/// How long a user may take to read some of the data received before the other end broke a stream off: longer than to
/// connect to a target, ...
const LAST_WORDS: Duration = Duration::from_secs(60);
/// ... and of data received before the stream broke by itself, which may be anything.
const LOOSE_WORDS: Duration = Duration::from_secs(1);

/// How long a user may take nothing of what came before a break.
pub fn patience(reason: Reason) -> Duration {
    match reason {
        Reason::RESTARTED | Reason::UNREACHABLE | Reason::STOPPED => LOOSE_WORDS,
        _ => LAST_WORDS,
    }
}

impl Slep {
    /// A node that waited is tried again.
    pub(crate) fn wake(&mut self, address: Address) {
        let Some(peer) = self.peers.get_mut(&address) else { return };
        if peer.waits_until.take().is_none() {
            return;
        }
        for id in std::mem::take(&mut peer.parked) {
            if let Some(stream) = self.streams.get(&id) {
                self.ready.push(stream.priority(), stream.options.source, id);
            }
        }
        let parked = self.peers.get_mut(&address);
        let parked = parked.map(|peer| std::mem::take(&mut peer.datagrams.parked));
        parked.into_iter().flatten().for_each(|id| self.datagrams.list(id));
        self.talk(address);
    }

    /// Notes when a node is to be looked at.
    pub(crate) fn watch_peer(&mut self, address: Address) {
        let times = &self.config.times;
        let Some(peer) = self.peers.get_mut(&address) else { return };
        let early = peer.oldest_early().map(|since| since + times.early);
        let given_up = peer.failing_since.map(|since| since + times.give_up);
        let at = earliest(earliest(early, given_up), peer.waits_until);
        self.timers.set(&mut peer.timer, at, Timer::Peer(address));
    }

    pub(crate) fn check_peer(&mut self, now: Time, address: Address) {
        let times = self.config.times;
        let Some(peer) = self.peers.get_mut(&address) else { return };
        peer.timer = None;
        self.stats.received.parts_early += peer.expire_early(now - times.early);
        let is_given_up = peer.failing_since.is_some_and(|since| since + times.give_up <= now);
        if is_given_up {
            // With a node there will be another failure, if there is something to fail.
            peer.failing_since = self.client.mtu().is_none().then_some(now);
            peer.owed_hello = None;
            let ids: Vec<StreamId> = peer.streams.values().copied().collect();
            for id in ids {
                let waits =
                    self.streams.get(&id).is_some_and(|stream| !stream.sending.is_settled());
                if waits {
                    self.give_up(now, id);
                }
            }
        }
        let peer = self.peers.get(&address);
        if peer.is_some_and(|peer| peer.waits_until.is_some_and(|at| at <= now)) {
            self.wake(address);
        }
        if let Some(peer) = self.peers.get_mut(&address)
            && peer.streams.is_empty()
            && peer.owed_hello.is_none()
        {
            peer.failing_since = None;
        }
        self.watch_peer(address);
    }

    pub(crate) fn check_stream(&mut self, now: Time, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.check.timer = None;
        match &mut stream.parting {
            Some(Parting::Over { broken, read, until }) if *until <= now => {
                let broken = *broken;
                if *read < stream.traffic.read {
                    (*read, *until) = (stream.traffic.read, now + patience(broken.reason));
                    return self.watch(id);
                }
                self.stats.streams.unread_at_break += 1;
                self.end(id, Some(broken.reason), false);
                self.events.push_back(Event::Reset(id, broken));
                return;
            }
            Some(Parting::Behind { reason, until, .. }) if *until <= now => {
                let reason = *reason;
                return self.reset(id, reason);
            }
            Some(Parting::Over { .. }) => return self.watch(id),
            Some(Parting::Behind { .. }) | None => {}
        }
        if stream.take_late_repeats(now) {
            self.list(id);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.sending.is_settled() {
            stream.sending.rest(&mut self.kept.spares);
        }
        if stream.check_at(&self.config) <= now {
            let peer = self.peers.get(&stream.peer);
            let is_waiting = peer.is_some_and(|peer| peer.waits_until.is_some());
            stream.check.since = now;
            let is_urgent = stream.opening.ask_at.take().is_some();
            // Without a way to the other end nobody can be asked, and it is not its fault.
            if !is_waiting && self.client.mtu().is_some() {
                if stream.check.unanswered == 0 {
                    stream.check.first_asked = now;
                }
                stream.check.unanswered += 1;
                let waited = now.since(stream.check.first_asked);
                let may_wait = waited < self.config.times.give_up * PRESENT_FACTOR;
                if stream.check.unanswered > MOST_UNANSWERED && !may_wait {
                    self.give_up(now, id);
                    return;
                }
                self.ask_more(id, is_urgent);
            } else if is_urgent {
                // It is asked as soon as it can be, and not only when `ask_after` is over.
                stream.opening.ask_at = Some(now + SOON);
            }
        }
        self.watch(id);
    }

    fn ask_more(&mut self, id: StreamId, is_urgent: bool) {
        let Some(stream) = self.streams.get(&id) else { return };
        let address = stream.peer;
        let is_new = stream.is_initiator() && stream.opening.handed.is_none();
        let wants_process = stream.is_in_doubt() && stream.opening.is_unknown;
        match (is_new, is_urgent) {
            (true, _) => {}
            (false, true) => self.ask_first(id),
            (false, false) => self.ask(id),
        }
        if wants_process {
            self.owe_hello(address, true);
        }
    }

    fn give_up(&mut self, now: Time, id: StreamId) {
        self.stats.streams.unreachable += 1;
        self.break_off(now, id, Reason::UNREACHABLE, true);
    }
}

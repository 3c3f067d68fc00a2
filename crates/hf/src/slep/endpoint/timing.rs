//! Acts on deadlines of the endpoint.

use std::time::Duration;

use base::time::Time;

use super::incoming::SOON;
use super::{Event, Slep};
use crate::s5066::Address;
use crate::slep::peer::Peer;
use crate::slep::reason::Reason;
use crate::slep::stream::{Parting, Stream};
use crate::slep::timers::StreamId;

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
        let Some((streams, datagrams)) = peer.wake() else { return };
        for id in streams {
            if let Some(stream) = self.streams.get(&id) {
                self.ready.push(stream.priority(), stream.options().source, id);
            }
        }
        datagrams.into_iter().for_each(|id| self.datagrams.list(id));
        self.talk(address);
    }

    /// Notes when a node is to be looked at.
    pub(crate) fn watch_peer(&mut self, address: Address) {
        let Some(peer) = self.peers.get_mut(&address) else { return };
        let at = peer.next_timeout(&self.config.times);
        peer.watch(&mut self.timers, address, at);
    }

    pub(crate) fn check_peer(&mut self, now: Time, address: Address) {
        let times = self.config.times;
        let Some(peer) = self.peers.get_mut(&address) else { return };
        let is_next_try_due = peer.handle_timer(now);
        self.stats.received.parts_early += peer.expire_early(now - times.early);
        if let Some(began_by) = peer.take_given_up(now, &times, self.client.mtu().is_some()) {
            for id in peer.streams() {
                let stream = self.streams.get(&id);
                match stream.filter(|stream| !stream.sending().is_settled()).map(Stream::since) {
                    // It has as long as any other, though its node has not answered for longer.
                    Some(since) if since > began_by => {
                        if let Some(peer) = self.peers.get_mut(&address) {
                            peer.fail_since(since);
                        }
                    }
                    Some(_) => self.give_up(now, id),
                    None => {}
                }
            }
        }
        if is_next_try_due {
            self.wake(address);
        }
        if let Some(peer) = self.peers.get_mut(&address) {
            peer.settle_failures();
        }
        self.watch_peer(address);
    }

    pub(crate) fn check_stream(&mut self, now: Time, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.handle_timer();
        match stream.parting() {
            Some(Parting::Over { broken, read, until }) if until <= now => {
                if read < stream.traffic().read {
                    let (read, until) = (stream.traffic().read, now + patience(broken.reason));
                    stream.set_parting(Parting::Over { broken, read, until });
                    return self.watch(id);
                }
                self.stats.streams.unread_at_break += 1;
                self.end(id, Some(broken.reason), false);
                self.events.push_back(Event::Reset(id, broken));
                return;
            }
            Some(Parting::Behind { reason, until, .. }) if until <= now => {
                return self.reset(id, reason);
            }
            Some(Parting::Over { .. }) => return self.watch(id),
            Some(Parting::Behind { .. }) | None => {}
        }
        if stream.take_late_repeats(now) {
            self.list(id);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.sending().is_settled() {
            stream.sending_mut().rest(&mut self.kept.spares);
        }
        if stream.check_at(&self.config) <= now {
            let peer = self.peers.get(&stream.peer());
            let is_waiting = peer.is_some_and(Peer::is_waiting);
            stream.handle_sign(now);
            let is_urgent = stream.take_question();
            // Without a way to the other end nobody can be asked, and it is not its fault.
            if !is_waiting && self.client.mtu().is_some() {
                let (unanswered, since) = stream.handle_question(now);
                let may_wait = now.since(since) < self.config.times.give_up * PRESENT_FACTOR;
                if unanswered > MOST_UNANSWERED && !may_wait {
                    self.give_up(now, id);
                    return;
                }
                self.ask_more(id, is_urgent);
            } else if is_urgent {
                // It is asked as soon as it can be, and not only when `ask_after` is over.
                stream.ask_at(now + SOON);
            }
        }
        self.watch(id);
    }

    fn ask_more(&mut self, id: StreamId, is_urgent: bool) {
        let Some(stream) = self.streams.get(&id) else { return };
        let address = stream.peer();
        let is_new = stream.is_initiator() && stream.opened_at().is_none();
        let wants_process = stream.wants_process();
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

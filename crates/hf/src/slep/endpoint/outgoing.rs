//! Hands U_PDUs to the node.

use base::time::Time;

use super::{BULK, Content, Event, Handed, Loss, Slep, Submission};
use crate::s5066::Address;
use crate::s5066::service::MAX_PRIORITY;
use crate::s5066::sis::Confirmation;
use crate::s5066::sis::client::{NotSent, Send};
use crate::slep::coding::Coding;
use crate::slep::peer::{Greeting, Owed};
use crate::slep::reason::Reason;
use crate::slep::timers::StreamId;
use crate::slep::wire::{ACCEPTED, DICTIONARY, Hello, Ids, Name, Pdu, Ranges, State};

/// Header octets of a STATE, before the ranges.
const STATE: usize = 9;
/// Header octets of a RECEIPT, before the numbers.
const RECEIPT: usize = 3;

/// Streams that have state for compression at most, some 270 kB each.
const MOST_CODERS: usize = 128;

impl Slep {
    /// Hands to the node what it may have.
    pub(crate) fn pump(&mut self, now: Time) {
        while self.client.is_ready() {
            if !(self.say(now) || self.post(now) || self.send_part(now) || self.post(now)) {
                return;
            }
        }
    }

    /// Says something that is not data; whether there was anything.
    fn say(&mut self, now: Time) -> bool {
        let mtu = usize::from(self.mtu());
        while self.window.has_room(MAX_PRIORITY)
            && let Some(address) = self.talks.pop_front()
        {
            let Some(peer) = self.peers.get_mut(&address) else { continue };
            if !peer.unlist() {
                continue;
            }
            let hello = peer.take_hello();
            let room = mtu.saturating_sub(RECEIPT) / 2;
            let receipts =
                if hello.is_none() { peer.datagrams().take_receipts(room) } else { None };
            let is_other = hello.is_some() || receipts.is_some();
            let owed = if is_other { None } else { peer.take_owed() };
            // Others have their turn before it.
            self.talk(address);
            let mut octets = Vec::new();
            let (content, priority) = if let Some(Greeting { is_question }) = hello {
                let uptime = u32::try_from(self.uptime(now).as_secs()).unwrap_or(u32::MAX);
                let hello = Hello { is_question, epoch: self.epoch, uptime, accepts: ACCEPTED };
                Pdu::Hello(hello).emit(&mut octets);
                (Content::Hello { is_question }, MAX_PRIORITY)
            } else if let Some((epoch, ids)) = receipts {
                Pdu::Receipt { epoch, ids: Ids::new(&ids) }.emit(&mut octets);
                (Content::Receipt, MAX_PRIORITY)
            } else if let Some((name, owed)) = owed {
                let Some(priority) = self.write_owed(address, name, owed, &mut octets) else {
                    continue;
                };
                (Content::Owed(name, owed), priority)
            } else {
                continue;
            };
            return self
                .hand(
                    now,
                    &octets,
                    Submission { to: address, priority, ttl: None, service: None, content },
                )
                .is_ok();
        }
        false
    }

    /// Writes the message owed about a stream and returns its priority, or nothing if the message is no longer
    /// needed.
    fn write_owed(
        &mut self,
        address: Address,
        name: Name,
        owed: Owed,
        octets: &mut Vec<u8>,
    ) -> Option<u8> {
        let peer = self.peers.get(&address)?;
        let (is_question, is_answer, is_urgent) = match owed {
            Owed::Reset(reason) => {
                Pdu::Reset { stream: name, reason }.emit(octets);
                // The RESET must not overtake parts still with the node, or such a part would open the stream behind
                // its end.
                return Some(peer.closed(name).map_or(MAX_PRIORITY, |closed| closed.priority));
            }
            Owed::State { is_question, is_answer, is_urgent } => {
                (is_question, is_answer, is_urgent)
            }
        };
        let state = |has_heard, epoch, credit, ranges| {
            let stream = name;
            Pdu::State(State { is_question, is_answer, has_heard, epoch, stream, credit, ranges })
        };
        let Some(id) = peer.stream(name) else {
            let closed = peer.closed(name)?;
            let credit = closed.end.ok()?;
            state(true, closed.epoch, credit, Ranges::default()).emit(octets);
            return Some(MAX_PRIORITY);
        };
        let stream = self.streams.get_mut(&id)?;
        // Data that goes now says the same.
        let goes_now = stream.sending().is_new_ready()
            && stream.is_listed()
            && stream.has_heard()
            && self.ready.is_next(stream.priority());
        if !is_question && !is_answer && goes_now {
            return None;
        }
        if is_question {
            stream.sending_mut().handle_asked();
            self.stats.handed.asked += 1;
        }
        let room = usize::from(self.client.mtu().unwrap_or_default()).saturating_sub(STATE) / 4;
        let ranges = stream.receiving().ranges(room);
        let credit = stream.receiving_mut().credit();
        state(stream.has_heard(), stream.epoch(), credit, Ranges::new(&ranges)).emit(octets);
        Some(if is_urgent { MAX_PRIORITY } else { stream.options().priority })
    }

    /// Sends one part of the next stream in turn; returns whether one was sent.
    fn send_part(&mut self, now: Time) -> bool {
        let mtu = usize::from(self.mtu());
        while self.ready.highest().is_some_and(|priority| self.window.has_room(priority))
            && let Some(id) = self.ready.pop()
        {
            let may_grow = self.has_room_for_coder(id);
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let Some(peer) = self.peers.get_mut(&stream.peer()) else { continue };
            if !stream.is_ready() {
                stream.unlist();
                continue;
            }
            if peer.is_waiting() {
                peer.park(id);
                continue;
            }
            let source = stream.options().source;
            let opens = stream.is_unsent() && !stream.is_opening_with_node();
            if opens && !self.kept.shares.may_open(source, id) {
                continue;
            }
            if peer.accepts(DICTIONARY) {
                stream.sending_mut().offer(Coding::WithDictionary);
            }
            let priority = stream.priority();
            stream.begin_turn(mtu);
            let (next, before) = (stream.sending().next(), stream.sending().octets());
            let was_large = stream.sending().is_large();
            let room = stream.data_room(mtu);
            let Some(number) =
                stream.sending_mut().take_part(room, may_grow, &mut self.kept.spares)
            else {
                stream.unlist();
                continue;
            };
            if stream.sending().is_large() && !was_large {
                self.kept.coding.push_back(id);
            }
            // Compression usually shrinks the data.
            let after = stream.sending().octets();
            self.kept.sent = self.kept.sent + after - before;
            self.kept.shares.keep(source, after);
            self.kept.shares.free(source, before);
            let data = stream.sending().part(number).filter(|_| number == next);
            let sent = data.map_or(0, |part| part.data.len() as u64);
            stream.count().sent += sent;
            if opens {
                self.kept.shares.open(source);
                stream.begin_opening();
            }
            if number == 0 && stream.is_opening() {
                stream.handle_opening(now, peer.process().map(|process| process.epoch));
            }
            let mut octets = Vec::with_capacity(mtu);
            stream.write_part(number, mtu, self.epoch, &mut octets);
            // Compressed, parts may be short and many.
            if octets.len() >= BULK || stream.sending().octets() > self.config.interactive {
                self.bulk = Some(id);
            }
            let (to, ttl) = (stream.peer(), stream.options().ttl);
            self.kept.shares.send(source, octets.len(), stream.spend(octets.len()));
            let (is_listed, next_priority) = (stream.is_listed(), stream.priority());
            let goes_on = stream.has_turn();
            let has_room = stream.sending().unsent() <= self.config.limits.unsent / 2;
            if has_room && stream.tell_room() {
                self.events.push_back(Event::Writable(id));
            }
            if is_listed && goes_on {
                self.ready.push_first(next_priority, source, id);
            } else if is_listed {
                self.ready.push(next_priority, source, id);
            }
            let submission =
                Submission { to, priority, ttl, service: None, content: Content::Part(id, number) };
            match self.hand(now, &octets, submission) {
                Ok(()) => {
                    self.stats.handed.parts += 1;
                    self.see_off(id);
                    return true;
                }
                Err(NotSent::TooLarge { .. }) => {
                    // The node was bound anew, with an MTU below what the part was made for.
                    self.stats.streams.broken += 1;
                    self.break_off(now, id, Reason::UNSPECIFIED, true);
                }
                Err(NotSent::FlowOff | NotSent::Full | NotSent::NotBound) => {
                    self.hand_again(to, Content::Part(id, number), Loss::NotArrived);
                    return false;
                }
            }
        }
        false
    }

    /// Whether the next part of a stream may begin to compress. The state for compression is large, so the number of
    /// streams with state is limited, and the longest holders give it back.
    fn has_room_for_coder(&mut self, id: StreamId) -> bool {
        if !self.streams.get(&id).is_some_and(|stream| stream.sending().may_grow()) {
            return true;
        }
        for _ in 0..MOST_CODERS {
            if self.kept.coding.len() < MOST_CODERS {
                return true;
            }
            let Some(oldest) = self.kept.coding.pop_front() else { return true };
            let oldest_stream = self.streams.get_mut(&oldest);
            if oldest_stream.is_some_and(|stream| !stream.sending_mut().rest(&mut self.kept.spares))
            {
                self.kept.coding.push_back(oldest);
            }
        }
        false
    }

    /// Streams that have state for compression.
    #[cfg(test)]
    pub(crate) fn coders(&self) -> usize {
        self.streams.values().filter(|stream| stream.sending().is_large()).count()
    }

    pub(crate) fn hand(
        &mut self,
        now: Time,
        octets: &[u8],
        submission: Submission,
    ) -> Result<(), NotSent> {
        let Submission { to, priority, ttl, service, content } = submission;
        let send = Send {
            to,
            to_sap: self.config.sap,
            priority,
            is_expedited: false,
            service,
            ttl: ttl.unwrap_or_default(),
            u_pdu: octets,
        };
        let id = self.client.send(now, send)?;
        let is_confirmed = service.is_none_or(|service| service.confirmation != Confirmation::None);
        self.stats.handed.u_pdus += 1;
        self.stats.handed.octets += octets.len() as u64;
        if is_confirmed {
            let share = self.window.handle_sent(now, priority, octets.len());
            self.handed.insert(id, Handed { to, content, share });
        }
        Ok(())
    }
}

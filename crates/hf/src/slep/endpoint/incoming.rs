//! Handles the PDUs that other nodes send.

use std::time::Duration;

use base::time::Time;

use super::{BULK, Event, Slep};
use crate::s5066::Address;
use crate::s5066::sis::client::Received;
use crate::s5066::sis::primitive::Arrival;
use crate::slep::config::{Options, Source};
use crate::slep::peer::{EarlyPart, Novelty, Owed, Peer};
use crate::slep::reason::Reason;
use crate::slep::receive::Taken;
use crate::slep::send::Freed;
use crate::slep::stream::Stream;
use crate::slep::timers::StreamId;
use crate::slep::wire::{Credit, Data, First, Hello, Malformed, Name, Open, Part, Pdu, State};

/// Delay before we ask a process, just heard of, about a stream it should know: its own messages come first.
pub const SOON: Duration = Duration::from_secs(1);

impl Slep {
    pub(crate) fn receive(&mut self, now: Time, received: &Received) {
        self.stats.received.u_pdus += 1;
        let pdu = Pdu::parse(&received.u_pdu);
        // A client bound for errors would get them; this one is not, but the node may differ.
        let has_errors = matches!(received.arrival, Arrival::NonArqWithErrors { .. });
        let is_whole = !has_errors && !received.from.is_group();
        if let Err(Malformed::Version(version)) = pdu
            && is_whole
        {
            self.stats.received.received_other_version += 1;
            self.events.push_back(Event::OtherVersion { node: received.from, version });
            return;
        }
        let Some(pdu) = pdu.ok().filter(|_| is_whole) else {
            self.stats.received.received_malformed += 1;
            return;
        };
        let from = received.from;
        let Some(peer) = self.peer(now, from) else {
            self.stats.received.received_stranger += 1;
            return;
        };
        peer.handle_word(now);
        self.handle_sign(now, from);
        match pdu {
            Pdu::Open(open) if open.stream.is_responder => self.handle_answer(now, from, &open),
            Pdu::Open(open) => self.handle_open(now, from, &open, received.priority),
            Pdu::Data(data) => self.handle_data(now, from, &data),
            Pdu::State(state) => self.handle_state(now, from, &state),
            Pdu::Reset { stream, reason } => self.handle_reset(now, from, stream.turned(), reason),
            Pdu::Hello(hello) => self.handle_hello(now, from, hello),
            Pdu::Datagram { name, addresses, is_coded, data } => {
                self.handle_datagram(from, name, addresses, is_coded, data);
            }
            Pdu::Receipt { epoch, ids } => self.handle_receipt(from, epoch, ids),
        }
    }

    /// Notes a sign of life of a node, a PDU or a confirmation, and resumes sending to this node.
    pub(crate) fn handle_sign(&mut self, now: Time, from: Address) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        peer.handle_sign(now);
        self.wake(from);
    }

    /// Handles a part of a stream from its initiator.
    fn handle_open(&mut self, now: Time, from: Address, open: &Open<'_>, priority: u8) {
        let Open { epoch, stream, part, first, addresses, .. } = *open;
        if !self.handle_process(now, from, epoch, None) {
            // Its node still sends what it had said, and nobody is left to go on with the stream.
            self.stats.received.parts_stray += 1;
            return;
        }
        let name = stream.turned();
        if let Some(id) = self.stream_named(from, name) {
            if self.streams.get(&id).is_some_and(|stream| stream.epoch() == epoch) {
                self.deliver(now, id, &part);
                return;
            }
            if first.is_some() {
                // Another process has come to the number of a stream that its predecessor had.
                self.stats.streams.broken += 1;
                self.break_off(now, id, Reason::RESTARTED, false);
            }
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let is_closed = peer.closed(name).is_some_and(|closed| closed.epoch == epoch);
        if is_closed || peer.has_seen(epoch, stream.number) {
            self.answer_unknown(from, name, Some(epoch), Reason::CLOSED, false);
            return;
        }
        let Some(First { guard, accepts }) = first else {
            let limits = &self.config.limits;
            let Part { number, is_coded, is_last, data } = part;
            let early = EarlyPart { number, is_coded, is_last, data: data.to_vec() };
            if peer.keep_early(now, (epoch, stream.number), early, limits) {
                let at = now + self.config.times.early;
                peer.watch(&mut self.timers, from, Some(at));
            } else {
                self.stats.received.parts_early += 1;
            }
            return;
        };
        if guard.is_some_and(|guard| guard != self.epoch) {
            self.owe_hello(from, false);
            self.owe(from, name, Owed::Reset(Reason::RESTARTED));
            return;
        }
        peer.set_accepts(accepts);
        let of_peer = peer.stream_count();
        if peer.see(epoch, stream.number) == Novelty::Old {
            self.answer_unknown(from, name, Some(epoch), Reason::CLOSED, false);
            return;
        }
        peer.forget(name);
        let limits = &self.config.limits;
        if self.streams.len() >= limits.streams || of_peer >= limits.streams_of_peer {
            self.stats.streams.refused += 1;
            self.owe(from, name, Owed::Reset(Reason::NO_ROOM));
            return;
        }
        let early = peer.take_early(epoch, stream.number);
        let options = Options { priority, ..Options::default() };
        let stream = Stream::new(now, &self.config, from, name, epoch, addresses, options);
        self.stats.streams.taken += 1;
        let id = self.add(stream);
        self.events.push_back(Event::Opened { stream: id, from, addresses });
        self.deliver(now, id, &part);
        for EarlyPart { number, is_coded, is_last, data } in early {
            self.deliver(now, id, &Part { number, is_coded, is_last, data: &data });
        }
    }

    /// The responder of a stream says a part of it, and does not know yet that it was heard.
    fn handle_answer(&mut self, now: Time, from: Address, open: &Open<'_>) {
        let name = open.stream.turned();
        let id = self.stream_named(from, name).filter(|_| open.epoch == self.epoch);
        let Some(id) = id else {
            self.answer_unknown(from, name, Some(open.epoch), Reason::UNKNOWN_STREAM, false);
            return;
        };
        if let Some(First { guard: Some(epoch), accepts }) = open.first {
            if !self.handle_process(now, from, epoch, None) {
                // The process that had taken the stream is gone.
                self.stats.streams.broken += 1;
                self.break_off(now, id, Reason::RESTARTED, false);
                return;
            }
            if let Some(peer) = self.peers.get_mut(&from) {
                peer.set_accepts(accepts);
            }
        }
        if let Some(First { guard: Some(epoch), .. }) = open.first
            && let Some(stream) = self.streams.get_mut(&id)
        {
            stream.note_process(epoch);
        }
        self.handle_heard(now, id);
        if let Some(credit) = open.credit {
            self.handle_credit(id, credit);
        }
        self.deliver(now, id, &open.part);
    }

    fn handle_data(&mut self, now: Time, from: Address, data: &Data<'_>) {
        let name = data.stream.turned();
        let Some(id) = self.stream_named(from, name) else {
            self.answer_unknown(from, name, None, Reason::UNKNOWN_STREAM, false);
            return;
        };
        let is_unheard = self.streams.get(&id).is_some_and(Stream::is_opening);
        if is_unheard {
            // The PDU is meant for an earlier process here with a stream of this number.
            self.stats.received.parts_stray += 1;
            return;
        }
        self.handle_heard(now, id);
        if let Some(credit) = data.credit {
            self.handle_credit(id, credit);
        }
        self.deliver(now, id, &data.part);
    }

    fn handle_state(&mut self, now: Time, from: Address, state: &State<'_>) {
        let name = state.stream.turned();
        let id = self.stream_named(from, name);
        let id = id
            .filter(|id| self.streams.get(id).is_some_and(|stream| stream.epoch() == state.epoch));
        let Some(id) = id else {
            let is_opening = !state.stream.is_responder && !state.has_heard;
            let reason = if is_opening { Reason::NOT_OPEN } else { Reason::UNKNOWN_STREAM };
            // Nobody waits for an answer to what was well.
            let peer = self.peers.get(&from);
            let is_well = peer
                .and_then(|peer| peer.closed(name))
                .is_some_and(|closed| closed.epoch == state.epoch && closed.end.is_ok());
            if state.is_question || !is_well {
                self.answer_unknown(from, name, Some(state.epoch), reason, state.is_question);
            }
            return;
        };
        if state.stream.is_responder || state.has_heard {
            self.handle_heard(now, id);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.handle_word(now);
        self.handle_credit(id, state.credit);
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.release_repeats();
        let (freed, repeated) =
            stream.sending_mut().handle_ranges(state.ranges, state.is_answer, state.is_question);
        let source = stream.options().source;
        self.stats.handed.parts_repaired += repeated;
        self.free(source, freed);
        if state.is_question {
            self.owe(from, name, Owed::ANSWER);
        }
        self.list(id);
        self.watch(id);
        if freed.parts > 0 {
            self.see_off(id);
        }
        self.finish_both(id);
    }

    /// The other end of a stream has it, for certain.
    fn handle_heard(&mut self, now: Time, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if !stream.handle_heard(now) {
            return;
        }
        let (address, name) = (stream.peer(), stream.name());
        if stream.is_initiator() {
            self.events.push_back(Event::Accepted(id));
        }
        if let Some(peer) = self.peers.get_mut(&address) {
            peer.handle_opened(name);
        }
        self.list(id);
    }

    fn handle_credit(&mut self, id: StreamId, credit: Credit) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let freed = stream.sending_mut().handle_credit(credit);
        let source = stream.options().source;
        self.free(source, freed);
        self.list(id);
        self.watch(id);
        if freed.parts > 0 {
            self.see_off(id);
        }
    }

    fn free(&mut self, source: Source, freed: Freed) {
        self.kept.sent -= freed.octets;
        self.kept.shares.free(source, freed.octets);
        if !self.kept.blocked.is_empty() {
            self.make_room(source);
        }
    }

    /// Takes a part of a stream.
    fn deliver(&mut self, now: Time, id: StreamId, part: &Part<'_>) {
        let has_room = self.kept.received < self.config.limits.received;
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.handle_sign(now);
        if stream.has_left() {
            // Nobody is left for it.
            return;
        }
        match stream.receiving_mut().take(part, has_room) {
            Taken::New(octets) => {
                self.kept.received += octets;
                // Compressed, it stands for more.
                if octets >= if part.is_coded { BULK / 4 } else { BULK } {
                    self.bulk = Some(id);
                }
                stream.count().arrived += octets as u64;
            }
            Taken::Known => {
                self.stats.received.parts_again += 1;
                // Perhaps the other end does not know that it was heard.
                if part.number == 0 {
                    let (address, name) = (stream.peer(), stream.name());
                    self.owe(address, name, Owed::NEWS);
                }
            }
            Taken::Beyond => self.stats.received.parts_stray += 1,
            Taken::Full => {
                self.stats.received.parts_full += 1;
                self.kept.starved.insert(id);
            }
        }
        if self.streams.get(&id).is_some_and(|stream| stream.receiving().is_broken()) {
            self.stats.streams.broken += 1;
            self.break_off(now, id, Reason::PROTOCOL_ERROR, true);
            return;
        }
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.tell_readable()
        {
            self.events.push_back(Event::Readable(id));
        }
        self.tell(id);
        self.watch(id);
        self.finish_both(id);
    }

    /// Answers a PDU about a stream that does not exist here, unless the other end knows already and does not ask.
    fn answer_unknown(
        &mut self,
        from: Address,
        name: Name,
        epoch: Option<u16>,
        reason: Reason,
        is_question: bool,
    ) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let closed = peer.closed(name).filter(|closed| epoch.is_none_or(|it| it == closed.epoch));
        if closed.is_some_and(|closed| closed.is_known) && !is_question {
            return;
        }
        let owed = match closed.map(|closed| closed.end) {
            Some(Ok(_)) => Owed::ANSWER,
            Some(Err(reason)) => Owed::Reset(reason),
            None => {
                let has_seen = name.is_responder
                    && epoch.is_some_and(|epoch| peer.has_seen(epoch, name.number));
                Owed::Reset(if has_seen { Reason::CLOSED } else { reason })
            }
        };
        if owed == Owed::Reset(Reason::NOT_OPEN) {
            // The initiator needs it to open the stream again.
            self.owe_hello(from, false);
        }
        self.owe(from, name, owed);
    }

    fn handle_reset(&mut self, now: Time, from: Address, name: Name, reason: Reason) {
        let Some(id) = self.stream_named(from, name) else { return };
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.release_repeats();
        let is_opening = stream.is_opening();
        if reason == Reason::RESTARTED && is_opening && stream.has_one_copy() {
            // The only copy came to another process than the one it was for: no one has taken it.
            stream.handle_sign(now);
            stream.take_opening_back();
            stream.sending_mut().handle_lost(0);
            self.stats.handed.parts_repaired += stream.sending_mut().repeat_confirmed();
            if let Some(peer) = self.peers.get_mut(&from) {
                peer.forget_process();
            }
            self.list(id);
            return;
        }
        if reason != Reason::NOT_OPEN {
            let is_forgotten = reason == Reason::UNKNOWN_STREAM;
            self.stats.streams.broken += 1;
            self.break_off(now, id, if is_forgotten { Reason::RESTARTED } else { reason }, false);
            return;
        }
        // It is too late to say so to who has heard of it since.
        if is_opening && stream.opened_at().is_some() {
            stream.handle_sign(now);
            stream.handle_unknown();
            self.stats.handed.parts_repaired += stream.sending_mut().repeat_confirmed();
            self.resolve(now, id);
        }
    }

    fn handle_hello(&mut self, now: Time, from: Address, hello: Hello) {
        let uptime = Duration::from_secs(hello.uptime.into());
        if !self.handle_process(now, from, hello.epoch, Some(now - uptime)) {
            return;
        }
        if hello.is_question {
            self.owe_hello(from, false);
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        peer.set_accepts(hello.accepts);
        let unheard: Vec<StreamId> = peer.opening_streams().collect();
        let ids = peer.streams();
        for id in ids {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let is_older = stream.opened_at().is_some_and(|handed| handed < now - uptime);
            if is_older && stream.is_for_predecessor_of(hello.epoch) {
                // The node soon confirms the opening, which settles it, or gives it back.
                stream.ask_at(now + SOON);
                self.watch(id);
            } else if is_older || !stream.is_initiator() && stream.epoch() != hello.epoch {
                // An earlier process may have had it. The next transmission may be long: the question goes with it.
                self.ask_first(id);
            } else if stream.is_initiator() && stream.has_heard() {
                // The process was there before the stream was opened.
                stream.note_process(hello.epoch);
            }
        }
        for id in unheard {
            self.resolve(now, id);
        }
    }

    /// Notes which process is at a node. If the process has changed, its streams may be
    /// gone: the process is asked. Returns false for a process that is known to have ended.
    fn handle_process(
        &mut self,
        now: Time,
        from: Address,
        epoch: u16,
        started: Option<Time>,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(&from) else { return true };
        if peer.has_ended(epoch, now - self.config.times.give_up) {
            return false;
        }
        if !peer.handle_process(now, epoch, started) {
            return true;
        }
        let ids = peer.streams();
        for id in ids {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            if stream.is_outlived_by(epoch) {
                self.stats.streams.broken += 1;
                self.break_off(now, id, Reason::RESTARTED, false);
                continue;
            }
            stream.handle_sign(now);
            let is_for_ended = stream.is_for_predecessor_of(epoch);
            if stream.has_heard() || stream.name().is_responder && stream.epoch() != epoch {
                self.ask_first(id);
            }
            if is_for_ended {
                // An opening that is taken back can be made for the successor.
                self.withdraw(id);
            }
        }
        true
    }

    /// Breaks a stream off if the process that had taken it is known to have ended, which counts only once the node
    /// has confirmed the opening.
    pub(crate) fn break_if_outlived(&mut self, now: Time, id: StreamId) {
        let Some(stream) = self.streams.get(&id).filter(|stream| !stream.is_over()) else { return };
        let process = self.peers.get(&stream.peer()).and_then(Peer::process);
        if process.is_some_and(|process| stream.is_outlived_by(process.epoch)) {
            self.stats.streams.broken += 1;
            self.break_off(now, id, Reason::RESTARTED, false);
        }
    }

    /// Decides whether a stream whose opening is in doubt may be opened again.
    fn resolve(&mut self, now: Time, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let Some(handed) = stream.opened_at() else { return };
        if stream.wants_process() {
            let from = stream.peer();
            let process = self.peers.get(&from).and_then(Peer::process);
            let started = process.and_then(|process| Some((process.epoch, process.started?)));
            match started {
                Some((epoch, started)) if started < handed && !stream.may_come() => {
                    stream.guard(epoch);
                }
                Some(_) => {
                    self.stats.streams.broken += 1;
                    self.break_off(now, id, Reason::RESTARTED, true);
                    return;
                }
                None => self.owe_hello(from, true),
            }
        }
        self.list(id);
        self.watch(id);
    }

    pub(crate) fn stream_named(&self, address: Address, name: Name) -> Option<StreamId> {
        self.peers.get(&address)?.stream(name)
    }
}

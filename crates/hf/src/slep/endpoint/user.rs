//! Commands of the user: open, write, finish, reset and read streams.

use base::time::Time;

use super::{Event, Slep};
use crate::s5066::Address;
use crate::slep::config::{Options, Source};
use crate::slep::peer::{Owed, Peer};
use crate::slep::reason::Reason;
use crate::slep::receive::Read;
use crate::slep::stream::{NotOpened, Parting, Status, Stream};
use crate::slep::timers::StreamId;
use crate::slep::wire::Addresses;

impl Slep {
    /// Opens a stream. What is written before octets are next polled goes with the opening.
    ///
    /// # Errors
    /// When there are too many, or it is to a group.
    pub fn open(
        &mut self,
        now: Time,
        to: Address,
        addresses: Addresses,
        options: Options,
    ) -> Result<StreamId, NotOpened> {
        if to.is_group() {
            return Err(NotOpened::Group);
        }
        let limits = self.config.limits;
        let has_room = self.streams.len() < limits.streams;
        let name = self
            .peer(now, to)
            .filter(|peer| has_room && peer.stream_count() < limits.streams_of_peer);
        let Some(name) = name.and_then(|peer| peer.name()) else {
            self.stats.streams.refused += 1;
            return Err(NotOpened::Full);
        };
        let stream = Stream::new(now, &self.config, to, name, self.epoch, addresses, options);
        self.stats.streams.opened += 1;
        let id = self.add(stream);
        self.list(id);
        Ok(id)
    }

    /// Adds a stream.
    pub(crate) fn add(&mut self, mut stream: Stream) -> StreamId {
        self.counted += 1;
        let id = StreamId(self.counted);
        stream.lead(self.head_start(id, stream.options().source));
        self.kept.shares.add(stream.options().source);
        if let Some(peer) = self.peers.get_mut(&stream.peer()) {
            peer.add(stream.name(), id);
        }
        self.streams.insert(id, stream);
        self.watch(id);
        id
    }

    /// Carries a stream like this from now on.
    pub fn set_options(&mut self, id: StreamId, options: Options) {
        if let Some(stream) = self.streams.get_mut(&id) {
            let before = stream.set_options(options);
            let kept = stream.sending().octets();
            self.kept.shares.remove(before.source, kept);
            self.kept.shares.add(options.source);
            self.kept.shares.keep(options.source, kept);
            if self.kept.blocked.remove(&(before.source, id)) {
                self.kept.blocked.insert((options.source, id));
            }
        }
    }

    /// Takes octets to be sent, and returns how many. After a partial write, [`Event::Writable`] tells when there is
    /// room again.
    pub fn write(&mut self, id: StreamId, octets: &[u8]) -> usize {
        let Some(source) = self.streams.get(&id).map(|stream| stream.options().source) else {
            return 0;
        };
        let head_start = self.head_start(id, source);
        let free = self.config.limits.sent.saturating_sub(self.kept.sent);
        let of_source = self.kept.shares.room(source, free);
        let Some(stream) = self.streams.get_mut(&id) else { return 0 };
        if stream.sending().is_finished() || stream.has_left() || octets.is_empty() {
            return 0;
        }
        let limits = &self.config.limits;
        let of_stream = limits.unsent.saturating_sub(stream.sending().unsent());
        if stream.sending().is_idle() {
            stream.lead(head_start);
        }
        let taken = stream.sending_mut().write(octets, of_stream.min(of_source));
        if taken < octets.len() {
            if of_source < of_stream {
                self.kept.blocked.insert((source, id));
            } else {
                stream.set_wants_room(true);
            }
        }
        self.kept.sent += taken;
        self.kept.shares.keep(source, taken);
        stream.count().written += taken as u64;
        self.stats.streams.octets_in += taken as u64;
        self.list(id);
        taken
    }

    /// The head start, in octets, of a stream that was idle over others of its priority: none if no other stream is
    /// known to be in its way, because nodes keep transmissions short for a while beside urgent traffic, or if its
    /// source had head starts too often.
    fn head_start(&self, id: StreamId, source: Source) -> usize {
        let is_of_use = self.bulk.is_some_and(|bulk| bulk != id);
        if is_of_use && self.kept.shares.may_lead(source) { self.config.interactive } else { 0 }
    }

    /// Octets that [`Self::write`] takes.
    #[must_use]
    pub fn room(&self, id: StreamId) -> usize {
        let Some(stream) = self.streams.get(&id) else { return 0 };
        if stream.sending().is_finished() || stream.has_left() {
            return 0;
        }
        let limits = &self.config.limits;
        let of_stream = limits.unsent.saturating_sub(stream.sending().unsent());
        let free = limits.sent.saturating_sub(self.kept.sent);
        of_stream.min(self.kept.shares.room(stream.options().source, free))
    }

    /// Says that nothing more will be written.
    pub fn finish(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.sending_mut().finish();
            self.list(id);
        }
    }

    /// Breaks a stream off: what was not delivered is lost, and it is no more.
    pub fn reset(&mut self, id: StreamId, reason: Reason) {
        let Some(stream) = self.streams.get(&id) else { return };
        let (address, name, is_over) = (stream.peer(), stream.name(), stream.is_over());
        let is_unsent = stream.is_unsent();
        self.stats.streams.cancelled += 1;
        self.stats.streams.cancelled_unsent += u64::from(is_unsent);
        self.end(id, Some(reason), false);
        // The name may be another stream's by now.
        if !is_over && !is_unsent {
            self.owe(address, name, Owed::Reset(reason));
        }
    }

    /// Breaks a stream off behind what was written: the other end is told when it has all, or takes
    /// none of it for as long as a node may be silent. For its user it is no more, and nothing that
    /// arrives is for anybody. One of which the node was given nothing yet is forgotten.
    pub fn reset_behind(&mut self, now: Time, id: StreamId, reason: Reason) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.sending().is_settled() || stream.is_over() {
            return self.reset(id, reason);
        }
        if stream.is_unsent() {
            return self.reset(id, reason);
        }
        let until = now + self.config.times.give_up;
        let left = stream.sending().octets();
        stream.set_parting(Parting::Behind { reason, left, until });
        stream.set_wants_room(false);
        self.kept.blocked.remove(&(stream.options().source, id));
        self.watch(id);
        self.see_off(id);
    }

    /// Goes on with a stream that its user has left: the other end is asked what it has as soon as the
    /// node has all, and told of the break when it has all.
    pub(crate) fn see_off(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let Some(Parting::Behind { reason, left, .. }) = stream.parting() else { return };
        if stream.sending().is_settled() {
            return self.reset(id, reason);
        }
        if stream.sending().octets() < left {
            let left = stream.sending().octets();
            let until = stream.last_sign() + self.config.times.give_up;
            stream.set_parting(Parting::Behind { reason, left, until });
        }
        // A question ahead of the opening would be answered by doubts.
        let is_known = stream.has_heard() || !stream.is_initiator();
        if stream.sending().is_idle() || stream.sending().is_handed() && is_known {
            self.ask(id);
        }
    }

    /// Tells the other end that all came, to the end, only when [`Self::confirm_end`] says so: until then
    /// the stream is not over for it.
    pub fn hold_end(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.receiving_mut().hold_end();
        }
    }

    /// Whether the other end waits for [`Self::confirm_end`].
    #[must_use]
    pub fn holds_end(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_some_and(|stream| stream.receiving().holds_end())
    }

    /// The nodes we have streams with, each with the process last heard there.
    pub fn companions(&self) -> impl Iterator<Item = (Address, Option<u16>)> {
        let peers = self.peers.iter().filter(|(_, peer)| peer.stream_count() > 0);
        peers.map(|(node, peer)| (*node, peer.process().map(|process| process.epoch)))
    }

    /// What came of a stream, to the end, is where it was to go.
    pub fn confirm_end(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.receiving_mut().confirm_end();
            self.tell(id);
            self.finish_both(id);
        }
    }

    /// Tells another node our epoch and asks for its own: its streams with an earlier process of ours break at once,
    /// not only when data of those streams is in flight.
    pub fn announce(&mut self, now: Time, to: Address) {
        if !to.is_group() && self.peer(now, to).is_some() {
            self.owe_hello(to, true);
        }
    }

    /// Whether the other end cannot know of a stream: the node was given no part of the stream. Resetting it
    /// costs nothing on the air.
    #[must_use]
    pub fn is_unsent(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_some_and(Stream::is_unsent)
    }

    /// Appends at most `most` octets that arrived to `out`.
    pub fn read(&mut self, id: StreamId, out: &mut Vec<u8>, most: usize) -> Read {
        let Some(stream) = self.streams.get_mut(&id) else { return Read::default() };
        let before = stream.receiving().octets();
        let read = stream.receiving_mut().read(out, most);
        stream.handle_read();
        stream.count().read += read.octets as u64;
        self.kept.received -= before - stream.receiving().octets();
        self.stats.streams.octets_out += read.octets as u64;
        let source = stream.options().source;
        if stream.receiving().is_broken() {
            self.stats.streams.broken += 1;
            // What cannot be decoded leaves nothing to read, and so nothing to wait for.
            let now = stream.last_sign();
            self.break_off(now, id, Reason::PROTOCOL_ERROR, true);
            return read;
        }
        if let Some(Parting::Over { broken, .. }) = stream.parting() {
            if !stream.receiving().has_unread() {
                self.end(id, Some(broken.reason), false);
                self.events.push_back(Event::Reset(id, broken));
            }
            self.make_room(source);
            return read;
        }
        self.tell(id);
        self.make_room(source);
        self.finish_both(id);
        read
    }

    /// How each stream is, the oldest first.
    pub fn status(&self, now: Time) -> impl Iterator<Item = Status> {
        self.streams.keys().filter_map(move |id| self.status_of(now, *id))
    }

    /// How a stream is.
    #[must_use]
    pub fn status_of(&self, now: Time, id: StreamId) -> Option<Status> {
        let stream = self.streams.get(&id)?;
        let peer = self.peers.get(&stream.peer());
        let is_waiting = peer.is_some_and(Peer::is_waiting);
        Some(stream.status(now, id, is_waiting || self.client.mtu().is_none()))
    }

    /// Octets written and possibly missing at the other end.
    #[must_use]
    pub fn unacknowledged(&self, id: StreamId) -> usize {
        self.streams.get(&id).map_or(0, |stream| stream.sending().octets())
    }

    /// Whether there is something to read, or the end.
    #[must_use]
    pub fn is_readable(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_some_and(|stream| stream.receiving().is_readable())
    }

    /// Lets the other end know how far a stream has come, if that is of use to it.
    pub(crate) fn tell(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else { return };
        if !stream.is_over() && stream.receiving().has_news(stream.sending().is_made()) {
            let (address, name) = (stream.peer(), stream.name());
            self.owe(address, name, Owed::NEWS);
        }
    }

    /// Ends a stream that both ends have finished.
    pub(crate) fn finish_both(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else { return };
        if stream.sending().is_done() && stream.receiving().is_done() && stream.parting().is_none()
        {
            self.end(id, None, true);
            self.stats.streams.finished += 1;
            self.events.push_back(Event::Finished(id));
        }
    }
}

//! Connections whose initiator first waits for the far end to confirm the target.
//!
//! ```text
//!  initiator                                      responder
//!     opening, at once, to an address of its own ─▶  connects to the target
//!     octets, both ways            ◀─ answer: it is there, or a reset: why it is not
//! ```

use base::time::Time;

use super::HfPep;
use crate::hfpep::answer::{ANSWER, Answer};
use crate::hfpep::event::Event;
use crate::hfpep::session::{Session, SessionId, Stage};
use crate::hfpep::wire::Opening;
use crate::s5066::Address;
use crate::slep::{Addresses, Break, NotOpened, Options, Reason, StreamId};

/// The addresses to which such streams are opened: an end without this service answers "no service".
pub(super) const ADDRESSES: Addresses = Addresses { to: 1, from: 0 };

impl HfPep {
    /// Opens a connection that carries octets only when the far end has said that the target is
    /// there: [`Event::Accepted`], or [`Event::Reset`] with the reason why not. Its stream is opened at
    /// once.
    ///
    /// # Errors
    /// When there are too many, in all or of its source.
    pub fn open_confirmed(
        &mut self,
        now: Time,
        peer: Address,
        opening: Opening,
        options: Options,
    ) -> Result<SessionId, NotOpened> {
        self.check_room(options.source)?;
        let mut head = Vec::new();
        opening.emit(self.config.magic, &mut head);
        let stream = self.slep.open(now, peer, ADDRESSES, options)?;
        if self.slep.write(stream, &head) < head.len() {
            self.slep.reset(stream, Reason::NO_ROOM);
            return Err(NotOpened::Full);
        }
        let session = self.add(Session {
            peer,
            is_initiator: true,
            is_confirmed: true,
            opening: Some(opening),
            stage: Stage::Confirming { stream, answer: Vec::new() },
            has_heard_end: false,
            has_said: false,
            broken: None,
            since: now,
            source: options.source,
        });
        self.of_stream.insert(stream, session);
        self.stats.sessions_opened += 1;
        Ok(session)
    }

    /// Tells the other end that the connection is there; false if there is no room to say so.
    pub(super) fn confirm(&mut self, stream: StreamId) -> bool {
        let answer = Answer::Accepted.octets(self.config.magic);
        self.slep.write(stream, &answer) == ANSWER
    }

    /// Reads what the other end says before all octets.
    pub(super) fn hear_answer(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Stage::Confirming { stream, answer } = &mut session.stage else { return };
        let stream = *stream;
        let read = self.slep.read(stream, answer, ANSWER - answer.len());
        let said = match answer.first_chunk() {
            Some(octets) => Answer::parse(self.config.magic, *octets).ok(),
            None if !read.is_end => return,
            None => None,
        };
        match said {
            Some(Answer::Accepted) => {
                session.stage = Stage::Open { stream, data: Vec::new() };
                self.stats.sessions_confirmed += 1;
                self.events.push_back(Event::Accepted(id));
                if read.is_end || self.slep.is_readable(stream) {
                    self.events.push_back(Event::Readable(id));
                }
            }
            Some(Answer::Refused(reason)) => self.break_off(id, stream, reason),
            None => {
                self.stats.answers_malformed += 1;
                self.break_off(id, stream, Reason::PROTOCOL_ERROR);
            }
        }
    }

    /// Breaks a connection off that the user knows of.
    pub(super) fn break_off(&mut self, id: SessionId, stream: StreamId, reason: Reason) {
        self.of_stream.remove(&stream);
        self.slep.reset(stream, reason);
        self.stats.sessions_reset += 1;
        self.end(id, Event::Reset(id, Break { reason, in_doubt: 0 }));
    }
}

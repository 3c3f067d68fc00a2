//! A peer's sessions: begun, current, ended.

use std::net::SocketAddr;
use std::sync::Arc;

use base::entropy::draw;
use base::time::Time;

use super::super::Incarnation;
use super::super::local::{Event, Local};
use super::super::noise::Keys;
use super::super::open::{Inbound, ReceiveKey, SLOT_BITS, SLOTS_PER_PEER};
use super::super::seal::{Outbound, SendKey};
use super::super::wire::Index;
use super::{Life, MAX_SESSIONS, REJECT_AFTER, Remote, Session};

impl Remote {
    /// The state of reception from this life of the peer, which may be new.
    pub(super) fn inbound(&self, incarnation: Incarnation) -> Arc<Inbound> {
        let of_sessions = self.sessions.iter().map(|session| &session.inbound);
        let known = of_sessions.chain(self.life.as_ref().map(|life| &life.inbound));
        known
            .into_iter()
            .find(|inbound| inbound.incarnation == incarnation)
            .map_or_else(|| Inbound::new(incarnation, Arc::clone(&self.activity)), Arc::clone)
    }

    #[expect(clippy::too_many_arguments, reason = "it is what a session is made of")]
    pub(super) fn add_session(
        &mut self,
        now: Time,
        (index, remote_index): (Index, Index),
        keys: Keys,
        inbound: Arc<Inbound>,
        is_confirmed: bool,
        rekey_at: Time,
        local: &Local,
    ) {
        let expires = now + REJECT_AFTER;
        while self.sessions.len() >= MAX_SESSIONS {
            let current = self.current;
            let oldest =
                self.sessions.iter().position(|session| Some(session.receive.index) != current);
            let removed = self.sessions.remove(oldest.unwrap_or(0));
            local.table.remove(removed.receive.index);
        }
        let receive =
            ReceiveKey::new(keys.open, index, self.id, Arc::clone(&inbound), is_confirmed, expires);
        local.table.put(&receive);
        let send = SendKey::new(keys.seal, remote_index, expires);
        let rekey_at = Some(rekey_at);
        self.sessions.push(Session { send, receive, inbound, is_confirmed, rekey_at, expires });
    }

    /// The session is the one to use from now on. The peer is known to be at `from`.
    pub(super) fn establish(
        &mut self,
        now: Time,
        index: Index,
        from: SocketAddr,
        local: &mut Local,
    ) {
        let Some(session) = self.sessions.iter().find(|session| session.receive.index == index)
        else {
            return;
        };
        let (send, inbound) = (Arc::clone(&session.send), Arc::clone(&session.inbound));
        let incarnation = inbound.incarnation;
        let is_new = self.life.as_ref().is_none_or(|life| life.inbound.incarnation != incarnation);
        if is_new {
            self.remove_sessions(local, |session| session.inbound.incarnation != incarnation);
            if let Some(life) = &self.life {
                life.outbound.supersede();
            }
            let outbound = Outbound::new(Arc::clone(&self.activity));
            self.life = Some(Life { inbound, outbound });
            self.stats.incarnations += 1;
        }
        self.current = Some(index);
        self.calling.handshake = None;
        self.calling.has_found(from);
        self.calling.failing = None;
        self.calling.is_configured_new = false;
        self.calling.told.clear();
        self.called.unconfirmed_since = None;
        self.established_at = Some(now);
        self.activity.heard(now, false);
        self.activity.forget_unanswered();
        self.check_at = now + self.check_interval();
        self.stats.sessions += 1;
        if let Some(life) = &self.life {
            life.outbound.set_key(Some(send));
            life.outbound.set_endpoint(from);
        }
        let has_moved = self.endpoint.replace(from) != Some(from);
        local.tell(Event::Established { peer: self.id, incarnation, is_new });
        if has_moved {
            self.stats.moves += 1;
            local.tell(Event::EndpointChanged { peer: self.id, endpoint: from });
        }
    }

    /// Ends the sessions that are too old.
    pub(super) fn end_sessions(&mut self, now: Time, local: &mut Local) {
        self.remove_sessions(local, |session| session.expires <= now);
        let Some(current) = self.current else { return };
        if self.sessions.iter().any(|session| session.receive.index == current) {
            return;
        }
        self.current = None;
        if let Some(life) = &self.life {
            life.outbound.set_key(None);
        }
        self.stats.expired += 1;
        if let Some(handshake) = &mut self.calling.handshake {
            handshake.relax();
        }
        local.tell(Event::Expired { peer: self.id });
        if !self.configured.is_empty() {
            self.call(now, local);
        }
    }

    /// Ends all that was agreed on: another life of this program begins.
    pub(in crate::secure) fn begin_life(&mut self, now: Time, local: &mut Local) {
        self.end(local);
        self.life = None;
        self.own_incarnation = None;
        self.calling.forget();
        self.called.answered = None;
        if self.current.take().is_some() {
            local.tell(Event::Expired { peer: self.id });
        }
        self.call(now, local);
    }

    /// The incarnation that we tell the peer. Each peer is told its own: when all state of a peer is
    /// forgotten, its numbers begin anew, and only another incarnation tells the peer so. `None` without
    /// randomness.
    pub(super) fn own_incarnation(&mut self, local: &mut Local) -> Option<Incarnation> {
        if self.own_incarnation.is_none() {
            let drawn = draw(&mut *local.entropy).ok()?;
            self.own_incarnation = Some(Incarnation(u64::from_be_bytes(drawn)));
        }
        self.own_incarnation
    }

    /// The session that seals.
    pub(super) fn current_session(&self) -> Option<&Session> {
        self.sessions.iter().find(|session| Some(session.receive.index) == self.current)
    }

    /// Ends all that there is with the peer.
    pub(in crate::secure) fn end(&mut self, local: &Local) {
        self.remove_sessions(local, |_| true);
        if let Some(life) = &self.life {
            life.outbound.supersede();
        }
    }

    pub(super) fn remove_sessions(&mut self, local: &Local, is_gone: impl Fn(&Session) -> bool) {
        self.sessions.retain(|session| {
            let is_gone = is_gone(session);
            if is_gone {
                local.table.remove(session.receive.index);
            }
            !is_gone
        });
    }

    /// An index that no session and no handshake of the peer has: its place in the table, and
    /// random bits, so that datagrams of an ended session are not taken for datagrams of the next.
    pub(super) fn free_index(&self, local: &mut Local) -> Index {
        let base = u32::from(self.id.0) * SLOTS_PER_PEER;
        let mask = (1 << SLOT_BITS) - 1;
        let taken = |place: u32| {
            let sessions = self.sessions.iter().map(|session| session.receive.index);
            sessions.chain(self.calling.indexes()).any(|index| index.bits() & mask == place)
        };
        let place = (base..base + SLOTS_PER_PEER).find(|place| !taken(*place));
        let random = u32::try_from(local.rng.below(1 << (24 - SLOT_BITS))).expect("11 bits");
        Index::new(place.unwrap_or(base) | random << SLOT_BITS)
    }
}

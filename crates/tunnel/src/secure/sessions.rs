//! Keeps the sessions with one peer: those begun, the current one and earlier ones; and the peer's life.
//!
//! ```text
//!                 call, answer               first datagram under the new keys
//!   no session ───────────────▶ unconfirmed ──────────────────────────────────▶ current
//!        ▲                                                                        │ 120 s: call
//!        └──────────── 180 s after its birth, any session ends ◀──────────────────┘
//! ```
//! A session that we asked for is current at once: our next datagram confirms its keys to the other
//! side. Older sessions are opened until they end, so that nothing in flight is lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::time::{Time, earliest};

use super::activity::Activity;
use super::noise::Keys;
use super::open::{Inbound, ReceiveKey, Table};
use super::seal::{Outbound, Sealer, SendKey};
use super::wire::Index;
use super::{Incarnation, PeerId};
use crate::{PATHS, PathId};

/// The greatest age of a session.
const REJECT_AFTER: Duration = Duration::from_secs(180);
/// Sessions of a peer at most: the current session, earlier sessions, and an unconfirmed session.
pub const MAX_SESSIONS: usize = 4;

/// The sessions with a peer.
pub struct Sessions {
    peer: PeerId,
    activity: Arc<Activity>,
    all: Vec<Session>,
    current: Option<Index>,
    life: Option<Life>,
    /// Where the peer is on its further paths; the first place is empty.
    further: [Option<SocketAddr>; PATHS],
}

/// One life of the peer.
struct Life {
    inbound: Arc<Inbound>,
    outbound: Arc<Outbound>,
}

/// A session: two keys, and the life of the peer at the other end.
pub struct Session {
    send: Arc<SendKey>,
    receive: Arc<ReceiveKey>,
    inbound: Arc<Inbound>,
    is_confirmed: bool,
    rekey_at: Option<Time>,
    expires: Time,
}

/// What a handshake has agreed on.
pub struct Agreed {
    pub index: Index,
    /// The index of the session at the peer.
    pub remote_index: Index,
    pub keys: Keys,
    pub inbound: Arc<Inbound>,
    pub is_confirmed: bool,
    pub rekey_at: Time,
}

impl Drop for Session {
    /// Sealers, openers and the table may still refer to the keys. All these holders find the keys
    /// ended.
    fn drop(&mut self) {
        self.send.end();
        self.receive.end();
    }
}

impl Session {
    fn index(&self) -> Index {
        self.receive.index()
    }
}

impl Sessions {
    pub fn new(peer: PeerId, activity: Arc<Activity>) -> Self {
        let further = [None; PATHS];
        Self { peer, activity, all: Vec::new(), current: None, life: None, further }
    }

    /// Begins a session, in place of the oldest if there are too many.
    pub fn add(&mut self, now: Time, agreed: Agreed, table: &Table) {
        let Agreed { index, remote_index, keys, inbound, is_confirmed, rekey_at } = agreed;
        let expires = now + REJECT_AFTER;
        while self.all.len() >= MAX_SESSIONS {
            let oldest = self.all.iter().position(|session| Some(session.index()) != self.current);
            table.remove(self.all.remove(oldest.unwrap_or(0)).index());
        }
        let life = Arc::clone(&inbound);
        let receive = ReceiveKey::new(keys.open, index, self.peer, life, is_confirmed, expires);
        table.put(&receive);
        let send = SendKey::new(keys.seal, remote_index, expires);
        let rekey_at = Some(rekey_at);
        self.all.push(Session { send, receive, inbound, is_confirmed, rekey_at, expires });
    }

    /// A datagram of session `index` was opened; returns whether this was the first, and the state of reception.
    pub fn confirm(&mut self, index: Index) -> Option<(bool, Arc<Inbound>)> {
        let session = self.all.iter_mut().find(|session| session.index() == index)?;
        let is_first = !std::mem::replace(&mut session.is_confirmed, true);
        Some((is_first, Arc::clone(&session.inbound)))
    }

    /// The session is the current one from now on, and the peer is known to be at `at`. Returns the peer's life, and
    /// whether it is a new one; sessions with other lives have ended then.
    pub fn establish(
        &mut self,
        index: Index,
        at: SocketAddr,
        table: &Table,
    ) -> Option<(Incarnation, bool)> {
        let session = self.all.iter().find(|session| session.index() == index)?;
        let (send, inbound) = (Arc::clone(&session.send), Arc::clone(&session.inbound));
        let incarnation = inbound.incarnation();
        let known = self.life.take_if(|life| life.inbound.incarnation() == incarnation);
        let is_new = known.is_none();
        let life = known.unwrap_or_else(|| {
            self.supersede();
            let outbound = Outbound::new(Arc::clone(&self.activity));
            for (path, endpoint) in PathId::all().zip(self.further) {
                endpoint.into_iter().for_each(|endpoint| outbound.set_endpoint(path, endpoint));
            }
            Life { inbound, outbound }
        });
        if is_new {
            self.remove(table, |session| session.inbound.incarnation() != incarnation);
        }
        self.current = Some(index);
        life.outbound.set_key(Some(send));
        life.outbound.set_endpoint(PathId::FIRST, at);
        self.life = Some(life);
        Some((incarnation, is_new))
    }

    /// Ends the sessions that are too old, and says whether the current one is among them.
    pub fn end_old(&mut self, now: Time, table: &Table) -> bool {
        self.remove(table, |session| session.expires <= now);
        let has_ended = self.current.is_some() && self.current().is_none();
        if has_ended {
            self.current = None;
            if let Some(life) = &self.life {
                life.outbound.set_key(None);
            }
        }
        has_ended
    }

    /// Ends sessions that the peer has not confirmed.
    pub fn end_unconfirmed(&mut self, table: &Table) {
        self.remove(table, |session| !session.is_confirmed);
    }

    /// Ends all sessions, and says whether there was a current one.
    pub fn end(&mut self, table: &Table) -> bool {
        self.remove(table, |_| true);
        self.supersede();
        self.life = None;
        self.current.take().is_some()
    }

    /// Whether it is time to ask for the next session; said once for each.
    pub fn poll_rekey(&mut self, now: Time) -> bool {
        let current = self.current;
        let mut current = self.all.iter_mut().filter(|session| Some(session.index()) == current);
        current.any(|session| session.rekey_at.take_if(|due| *due <= now).is_some())
    }

    /// When a session ends, or the next is to be asked for.
    pub fn next_timeout(&self) -> Option<Time> {
        let rekey_at = self.current().and_then(|session| session.rekey_at);
        self.all.iter().map(|session| Some(session.expires)).fold(rekey_at, earliest)
    }

    /// The state of reception from the peer's life `incarnation`; for a new life a fresh state.
    pub fn inbound(&self, incarnation: Incarnation) -> Arc<Inbound> {
        let of_sessions = self.all.iter().map(|session| &session.inbound);
        let mut known = of_sessions.chain(self.life.as_ref().map(|life| &life.inbound));
        known
            .find(|inbound| inbound.incarnation() == incarnation)
            .map_or_else(|| Inbound::new(incarnation, Arc::clone(&self.activity)), Arc::clone)
    }

    /// The number that our datagrams to the peer's present life go on with.
    pub fn next_number(&self) -> u64 {
        self.life.as_ref().map_or(0, |life| life.outbound.next_number())
    }

    /// Whether this is the peer's present life.
    pub fn is_present(&self, incarnation: Incarnation) -> bool {
        self.life.as_ref().is_some_and(|life| life.inbound.incarnation() == incarnation)
    }

    /// Seals for the present life of the peer.
    pub fn sealer(&self) -> Option<Sealer> {
        self.life.as_ref().map(|life| Sealer::new(Arc::clone(&life.outbound)))
    }

    /// A sealed nothing under the current keys.
    pub fn keepalive(&self) -> Option<Vec<u8>> {
        self.current()?.send.keepalive()
    }

    /// The peer is known to be at this address, so that datagrams from there are no news.
    pub fn set_endpoint(&self, endpoint: SocketAddr) {
        if let Some(session) = self.current() {
            session.inbound.set_endpoint(endpoint);
        }
    }

    /// What is sealed for the first path goes to this address.
    pub fn set_first(&self, endpoint: SocketAddr) {
        if let Some(life) = &self.life {
            life.outbound.set_endpoint(PathId::FIRST, endpoint);
        }
    }

    /// The peer is at this address on a further path.
    pub fn set_further(&mut self, path: PathId, endpoint: SocketAddr) {
        self.further[path.index()] = Some(endpoint);
        if let Some(life) = &self.life {
            life.outbound.set_endpoint(path, endpoint);
        }
    }

    /// Where the peer is on its further paths.
    pub fn further(&self) -> &[Option<SocketAddr>; PATHS] {
        &self.further
    }

    pub fn has_current(&self) -> bool {
        self.current.is_some()
    }

    /// Whether something can be sealed.
    pub fn is_usable(&self, now: Time) -> bool {
        self.current().is_some_and(|session| now < session.expires)
    }

    pub fn indexes(&self) -> impl Iterator<Item = Index> {
        self.all.iter().map(Session::index)
    }

    /// The session that seals.
    fn current(&self) -> Option<&Session> {
        self.all.iter().find(|session| Some(session.index()) == self.current)
    }

    /// Nothing is sealed for the present life of the peer any more.
    fn supersede(&self) {
        if let Some(life) = &self.life {
            life.outbound.supersede();
        }
    }

    fn remove(&mut self, table: &Table, is_gone: impl Fn(&Session) -> bool) {
        self.all.extract_if(.., |it| is_gone(it)).for_each(|session| table.remove(session.index()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::secret::Aead;
    use super::*;

    #[test]
    fn who_still_has_the_key_of_an_ended_session_seals_nothing_with_it() {
        let (activity, table) = (Arc::new(Activity::default()), Table::new());
        table.grow();
        let mut sessions = Sessions::new(PeerId(0), Arc::clone(&activity));
        let [seal, open] = [1, 2].map(|octet| Aead::new(&[octet; 32]));
        let agreed = Agreed {
            index: Index::new(0),
            remote_index: Index::new(2),
            keys: Keys { seal, open },
            inbound: Inbound::new(Incarnation(1), activity),
            is_confirmed: true,
            rekey_at: Time::ZERO + REJECT_AFTER,
        };
        sessions.add(Time::ZERO, agreed, &table);
        let key = Arc::clone(&sessions.all[0].send);
        assert!(key.keepalive().is_some());

        sessions.end(&table);

        assert_eq!(key.keepalive(), None);
    }
}

//! One peer: manages sessions, handshake and timers.
//!
//! ```text
//!                 call, answer               first datagram under the new keys
//!   no session ───────────────▶ unconfirmed ──────────────────────────────────▶ current
//!        ▲                                                                        │ 120 s: call
//!        └──────────── 180 s after its birth, any session ends ◀──────────────────┘
//! ```
//! A session that we asked for is current at once: our next datagram confirms its keys to the other
//! side. Older sessions are opened until they end, so that nothing in flight is lost.

mod called;
mod calling;
mod sessions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::time::{Time, earliest};

use self::called::Called;
use self::calling::Calling;
use super::activity::Activity;
use super::guard;
use super::handshake::Handshake;
use super::keys::{PresharedKey, PublicKey};
use super::local::Local;
use super::open::{Heard, Inbound, ReceiveKey};
use super::seal::{Outbound, Sealer, SendKey};
use super::stats::Stats;
use super::wire::Index;
use super::{Incarnation, PeerId};

/// Jitter added to the age at which a session is replaced, so that both sides do not ask at once.
const REKEY_JITTER: Duration = Duration::from_secs(5);
/// A session's age at which it ends.
const REJECT_AFTER: Duration = Duration::from_secs(180);
/// Between looks at what was sent and heard.
const CHECK: Duration = Duration::from_secs(5);
/// Data unanswered for so long are a reason to call: the peer may have lost its keys.
const SILENCE: Duration = Duration::from_secs(15);
/// Sessions of a peer at most: the current session, earlier sessions, and an unconfirmed session.
const MAX_SESSIONS: usize = 4;
/// Addresses at most where a peer may be called.
const MAX_ENDPOINTS: usize = 16;

/// The configuration of a peer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Peer {
    /// What it is known by.
    pub public_key: PublicKey,
    /// A secret besides the keys, against those who may one day compute private keys.
    pub preshared_key: Option<PresharedKey>,
    /// Where it is called. Without, it has to call us.
    pub endpoint: Option<SocketAddr>,
    /// A sign of life after so much silence of ours, for address translators on the way.
    pub keepalive: Option<Duration>,
}

/// A peer and all its state.
pub(super) struct Remote {
    id: PeerId,
    public_key: PublicKey,
    preshared_key: PresharedKey,
    mac_key: [u8; 32],
    /// Addresses at which the peer may be called, as far as known.
    configured: Vec<SocketAddr>,
    keepalive: Option<Duration>,
    endpoint: Option<SocketAddr>,
    activity: Arc<Activity>,
    /// The incarnation by which the peer knows our present life; drawn when it is first told.
    own_incarnation: Option<Incarnation>,
    life: Option<Life>,
    sessions: Vec<Session>,
    current: Option<Index>,
    calling: Calling,
    called: Called,
    check_at: Time,
    /// When keys were agreed on last.
    established_at: Option<Time>,
    stats: Stats,
}

/// One life of the peer.
struct Life {
    inbound: Arc<Inbound>,
    outbound: Arc<Outbound>,
}

struct Session {
    send: Arc<SendKey>,
    receive: Arc<ReceiveKey>,
    inbound: Arc<Inbound>,
    is_confirmed: bool,
    rekey_at: Option<Time>,
    expires: Time,
}

impl Drop for Session {
    /// Sealers, openers and the table may still refer to the keys. All these holders find the keys
    /// ended.
    fn drop(&mut self) {
        self.send.end();
        self.receive.end();
    }
}

impl Remote {
    pub(super) fn new(now: Time, id: PeerId, peer: &Peer) -> Self {
        Self {
            id,
            public_key: peer.public_key,
            preshared_key: peer.preshared_key.clone().unwrap_or_else(PresharedKey::none),
            mac_key: guard::mac_key(&peer.public_key),
            configured: peer.endpoint.into_iter().collect(),
            keepalive: peer.keepalive,
            endpoint: peer.endpoint,
            activity: Arc::default(),
            own_incarnation: None,
            life: None,
            sessions: Vec::new(),
            current: None,
            calling: Calling::new(now),
            called: Called::new(now),
            check_at: now,
            established_at: None,
            stats: Stats::default(),
        }
    }

    /// Takes news of a session that came with a datagram, and says whether timers may have changed.
    pub(super) fn handle_heard(&mut self, now: Time, heard: Heard, local: &mut Local) -> bool {
        let Some(session) =
            self.sessions.iter_mut().find(|session| session.receive.index == heard.index)
        else {
            return false;
        };
        if !session.is_confirmed {
            session.is_confirmed = true;
            let inbound = Arc::clone(&session.inbound);
            let endpoint = self.confirm_answer().unwrap_or(heard.from);
            inbound.set_endpoint(endpoint);
            self.establish(now, heard.index, endpoint, local);
        } else if !heard.has_moved {
            return false;
        }
        self.consider(now, heard.from, local);
        true
    }

    /// The peer may be called at these addresses, and no more at those before. If it is being called, it is called
    /// there from now on.
    pub(super) fn handle_endpoints(
        &mut self,
        now: Time,
        endpoints: &[SocketAddr],
        local: &mut Local,
    ) {
        let endpoints = &endpoints[..endpoints.len().min(MAX_ENDPOINTS)];
        // Name servers turn their answers round, which is no news.
        let is_known = endpoints.iter().all(|it| self.configured.contains(it));
        if is_known && self.configured.iter().all(|it| endpoints.contains(it)) {
            return;
        }
        let was_heard = self.endpoint.is_some_and(|it| !self.configured.contains(&it));
        self.configured = endpoints.to_vec();
        if self.current.is_none() && !was_heard {
            self.endpoint = endpoints.first().copied();
        }
        if self.current.is_none() || self.calling.handshake.is_some() {
            self.calling.is_configured_new = true;
            self.calling.handshake = None;
            self.calling.turn = 0;
            self.call(now, local);
        }
    }

    /// Acts on what is due.
    pub(super) fn handle_timeout(&mut self, now: Time, local: &mut Local) {
        self.end_sessions(now, local);
        if self.calling.handshake.as_ref().is_some_and(|call| call.resend_at() <= now) {
            self.call_again(now, local);
        }
        if self.check_due().is_some_and(|due| due <= now) {
            self.check_again(now, local);
        }
        let current = self.current;
        let current =
            self.sessions.iter_mut().find(|session| Some(session.receive.index) == current);
        let Some(current) = current else { return };
        if current.rekey_at.is_some_and(|due| due <= now) {
            current.rekey_at = None;
            self.call(now, local);
        }
        if self.check_at <= now {
            self.check(now, local);
        }
    }

    /// When something is due.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let handshake = self.calling.handshake.as_ref().map(Handshake::resend_at);
        let mut next = earliest(handshake, self.check_due());
        for session in &self.sessions {
            next = earliest(next, Some(session.expires));
            if Some(session.receive.index) == self.current {
                next = earliest(next, earliest(session.rekey_at, Some(self.check_at)));
            }
        }
        next
    }

    pub(super) fn sealer(&self) -> Option<Sealer> {
        self.life.as_ref().map(|life| Sealer::new(Arc::clone(&life.outbound)))
    }

    pub(super) fn endpoint(&self) -> Option<SocketAddr> {
        self.endpoint
    }

    /// Where it is, and where it may be called.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = SocketAddr> {
        self.endpoint.into_iter().chain(self.configured.iter().copied())
    }

    pub(super) fn has_session(&self, now: Time) -> bool {
        self.current_session().is_some_and(|session| now < session.expires)
    }

    pub(super) fn last_heard(&self) -> Option<Time> {
        self.activity.last_heard()
    }

    pub(super) fn last_handshake(&self) -> Option<Time> {
        self.established_at
    }

    pub(super) fn stats(&self) -> Stats {
        self.stats
    }

    fn check(&mut self, now: Time, local: &mut Local) {
        let unanswered_for = self.activity.unanswered_since().map(|since| now.since(since));
        if unanswered_for.is_some_and(|silence| silence >= SILENCE) {
            self.activity.forget_unanswered();
            self.call(now, local);
        }
        let silent_for = now.since(self.activity.last_sent());
        let is_due = self.keepalive.is_some_and(|interval| silent_for >= interval);
        if is_due || self.activity.owes_a_sign() {
            self.send_keepalive(now, local);
        }
        let next = now + self.check_interval();
        let keepalive_at = self.keepalive.map(|interval| self.activity.last_sent() + interval);
        self.check_at = keepalive_at.filter(|due| *due > now).map_or(next, |due| due.min(next));
    }

    fn check_interval(&self) -> Duration {
        self.keepalive.map_or(CHECK, |interval| interval.min(CHECK))
    }

    fn send_keepalive(&mut self, now: Time, local: &mut Local) {
        let Some(datagram) = self.current_session().and_then(|session| session.send.keepalive())
        else {
            return;
        };
        if let Some(endpoint) = self.endpoint {
            local.send(endpoint, datagram);
            self.activity.sent_keepalive(now);
            self.stats.keepalives += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snow's handshake has boxes besides: three ciphers, a hash and two key pairs.
    const BOXES: usize = 3 * size_of::<ring::aead::LessSafeKey>() + 1_024;

    #[test]
    fn a_peer_takes_less_than_16_kib() {
        let keys = size_of::<SendKey>() + size_of::<ReceiveKey>();
        let sessions = MAX_SESSIONS * (keys + size_of::<Session>());
        let lives = 3 * (size_of::<Inbound>() + size_of::<Outbound>());
        let whole = size_of::<Remote>() + BOXES + sessions + lives;

        assert!(whole < 16 << 10, "{whole}: {}, {keys}, {lives}", size_of::<Remote>());
    }
}

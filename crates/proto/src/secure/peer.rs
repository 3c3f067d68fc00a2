//! One peer: its sessions, its handshake, its timers.
//!
//! ```text
//!                 call, answer               first datagram under the new keys
//!   no session ───────────────▶ unconfirmed ──────────────────────────────────▶ current
//!        ▲                                                                        │ 120 s: call
//!        └──────────── 180 s after its birth, any session ends ◀──────────────────┘
//! ```
//! A session that we asked for is current at once: its keys are confirmed to the other side by what
//! we send next. Older sessions are opened until they end, so that nothing in flight is lost.

mod sessions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::budget::Budget;
use crate::time::{Time, earliest};

use super::PeerId;
use super::data::{Activity, Heard, Inbound, Outbound, ReceiveKey, Sealer, SendKey};
use super::guard::{self, COOKIE_LIFE};
use super::handshake::Handshake;
use super::keys::{PresharedKey, PublicKey};
use super::noise;
use super::peers::{Event, Local, Peer};
use super::stats::{Dropped, Stats};
use super::wire::{Answer, Call, Cookie, Hello, Index, MAC, Reply};

/// A session's age at which who asked for it asks for the next.
const REKEY_AFTER: Duration = Duration::from_secs(120);
/// The same for the other side, should that one not.
const OTHERS_REKEY_AFTER: Duration = Duration::from_secs(165);
/// What is added to these at most, so that both do not ask at once.
const REKEY_JITTER: Duration = Duration::from_secs(5);
/// A session's age at which it ends.
const REJECT_AFTER: Duration = Duration::from_secs(180);
/// Unanswered calls for so long are told.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);
/// Calls to a peer of which we only learnt the address end after so long.
const STOP_AFTER: Duration = Duration::from_secs(120);
/// Between looks at what was sent and heard.
const CHECK: Duration = Duration::from_secs(5);
/// Data unanswered for so long are a reason to call: the peer may have lost its keys.
const SILENCE: Duration = Duration::from_secs(15);
/// Sessions of a peer at most: the current one, those before, one that is not confirmed.
const MAX_SESSIONS: usize = 4;
/// Of each a second: new calls, stale calls, repeated calls.
const CALLS: u32 = 5;
/// Answers looked at in a second.
const ANSWERS: u32 = 20;
/// Times in a row that we believe that our timestamp is stale.
const MAX_STALE: u32 = 3;

/// A peer and all that is known of it.
pub(super) struct Remote {
    id: PeerId,
    public_key: PublicKey,
    preshared_key: PresharedKey,
    mac_key: [u8; 32],
    configured: Option<SocketAddr>,
    keepalive: Option<Duration>,
    endpoint: Option<SocketAddr>,
    activity: Arc<Activity>,
    life: Option<Life>,
    sessions: Vec<Session>,
    current: Option<Index>,
    handshake: Option<Handshake>,
    /// Since when calls are unanswered, and whether that was told.
    failing: Option<(Time, bool)>,
    calls_made: u32,
    cookie: Option<([u8; MAC], Time)>,
    /// The last timestamp that the peer said, and that we said to it.
    heard_timestamp: u64,
    said_timestamp: u64,
    answered: Option<Answered>,
    new_calls: Budget,
    stale_calls: Budget,
    repeated_calls: Budget,
    answers: Budget,
    check_at: Time,
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

/// The last call that was answered. The answer is kept until the peer has it.
struct Answered {
    mac1: [u8; MAC],
    answer: Option<Vec<u8>>,
}

impl Remote {
    pub(super) fn new(now: Time, id: PeerId, peer: &Peer) -> Self {
        Self {
            id,
            public_key: peer.public_key,
            preshared_key: peer.preshared_key.clone().unwrap_or(PresharedKey::NONE),
            mac_key: guard::mac_key(&peer.public_key),
            configured: peer.endpoint,
            keepalive: peer.keepalive,
            endpoint: peer.endpoint,
            activity: Arc::default(),
            life: None,
            sessions: Vec::new(),
            current: None,
            handshake: None,
            failing: None,
            calls_made: 0,
            cookie: None,
            heard_timestamp: 0,
            said_timestamp: 0,
            answered: None,
            new_calls: Budget::per_second(now, CALLS),
            stale_calls: Budget::per_second(now, CALLS),
            repeated_calls: Budget::per_second(now, CALLS),
            answers: Budget::per_second(now, ANSWERS),
            check_at: now,
            stats: Stats::default(),
        }
    }

    /// Takes a call that the peer made, whenever that was.
    pub(super) fn handle_call(
        &mut self,
        now: Time,
        from: SocketAddr,
        call: &Call<'_>,
        heard: noise::Call,
        hello: Hello,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        if hello.timestamp <= self.heard_timestamp {
            // Replayed, or the peer's clock went back. Only the peer can read what it is told, and
            // only an answer to a call that it waits for; so nothing else comes of a replay.
            if self.stale_calls.spend(now) {
                let reply = Reply::Stale { timestamp: self.heard_timestamp };
                if let Some((_, noise)) = heard.answer(&self.preshared_key, &reply.emit()) {
                    self.send_answer(from, call.sender, Index::new(0), &noise, local);
                }
            }
            return Err(Dropped::Stale);
        }
        if !self.new_calls.spend(now) {
            return Err(Dropped::Busy);
        }
        let inbound = self.inbound(hello.incarnation);
        let next_number = match &self.life {
            Some(life) if life.inbound.incarnation == hello.incarnation => {
                life.outbound.next_number()
            }
            Some(_) | None => 0,
        };
        let reply = Reply::Taken { incarnation: local.incarnation, next_number };
        let Some((keys, noise)) = heard.answer(&self.preshared_key, &reply.emit()) else {
            return Err(Dropped::Busy);
        };
        self.heard_timestamp = hello.timestamp;
        inbound.expect(hello.next_number);
        // Only one session waits to be confirmed, so that calls alone never push out others.
        self.remove_sessions(local, |session| !session.is_confirmed);
        let index = self.free_index(local);
        let rekey_at = now + OTHERS_REKEY_AFTER + local.rng.within(REKEY_JITTER);
        self.add_session(now, (index, call.sender), &keys, inbound, false, rekey_at, local);
        let answer = self.send_answer(from, call.sender, index, &noise, local);
        self.answered = Some(Answered { mac1: *call.mac1, answer: Some(answer) });
        self.stats.calls_answered += 1;
        Ok(())
    }

    /// Whether the last call that was answered has this mac.
    pub(super) fn has_answered(&self, mac1: &[u8; MAC]) -> bool {
        self.answered.as_ref().is_some_and(|answered| answered.mac1 == *mac1)
    }

    /// The call that was answered last has come again.
    pub(super) fn repeat_answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        let answer = self.answered.as_ref().and_then(|answered| answered.answer.clone());
        let answer = answer.ok_or(Dropped::Replayed)?;
        if !self.repeated_calls.spend(now) {
            return Err(Dropped::Busy);
        }
        local.send(from, answer);
        self.stats.calls_answered += 1;
        Ok(())
    }

    /// Takes the answer to a call.
    pub(super) fn handle_answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        answer: &Answer<'_>,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        let Some(handshake) = self.handshake.as_mut().filter(|call| call.index == answer.index)
        else {
            return Err(Dropped::Unknown);
        };
        if !guard::is_mac(&local.mac_key, answer.before_mac1, answer.mac1) {
            return Err(Dropped::NotForUs);
        }
        if !self.answers.spend(now) {
            return Err(Dropped::Busy);
        }
        let Some((keys, payload)) = handshake.initiation.hear(answer.noise) else {
            self.stats.bad_answers += 1;
            return Err(Dropped::Forged);
        };
        let (index, stale) = (handshake.index, handshake.stale);
        match Reply::parse(payload) {
            None => {
                self.stats.bad_answers += 1;
                Err(Dropped::Malformed)
            }
            Some(Reply::Stale { timestamp }) => {
                self.said_timestamp = self.said_timestamp.max(timestamp);
                if stale < MAX_STALE {
                    self.handshake = None;
                    self.call(now, local);
                    if let Some(handshake) = &mut self.handshake {
                        handshake.stale = stale + 1;
                    }
                }
                Ok(())
            }
            Some(Reply::Taken { incarnation, next_number }) => {
                let inbound = self.inbound(incarnation);
                inbound.expect(next_number);
                inbound.set_endpoint(from);
                let rekey_at = now + REKEY_AFTER + local.rng.within(REKEY_JITTER);
                let indexes = (index, answer.sender);
                self.add_session(now, indexes, &keys, inbound, true, rekey_at, local);
                self.establish(now, index, from, local);
                self.send_keepalive(now, local);
                Ok(())
            }
        }
    }

    /// Takes a cookie: the peer is busy.
    pub(super) fn handle_cookie(
        &mut self,
        now: Time,
        cookie: &Cookie<'_>,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        let Some(handshake) = self.handshake.as_mut().filter(|call| call.index == cookie.index)
        else {
            return Err(Dropped::Unknown);
        };
        let opened = guard::open_cookie(&self.public_key, &handshake.mac1, cookie);
        self.cookie = Some((opened.ok_or(Dropped::Forged)?, now));
        handshake.handle_cookie(now, &mut local.rng);
        Ok(())
    }

    /// Takes news of a session that came with a datagram.
    pub(super) fn handle_heard(&mut self, now: Time, heard: Heard, local: &mut Local) {
        let Some(session) =
            self.sessions.iter_mut().find(|session| session.receive.index == heard.index)
        else {
            return;
        };
        if !session.is_confirmed {
            session.is_confirmed = true;
            if let Some(answered) = &mut self.answered {
                answered.answer = None;
            }
            self.establish(now, heard.index, heard.from, local);
        } else if heard.has_moved {
            self.move_to(heard.from, local);
        }
    }

    /// The peer is configured to be elsewhere.
    pub(super) fn handle_endpoint(&mut self, now: Time, endpoint: SocketAddr, local: &mut Local) {
        self.configured = Some(endpoint);
        if self.current.is_none() {
            self.endpoint = Some(endpoint);
            self.handshake = None;
            self.call(now, local);
        }
    }

    /// Acts on what is due.
    pub(super) fn handle_timeout(&mut self, now: Time, local: &mut Local) {
        self.end_sessions(now, local);
        if self.handshake.as_ref().is_some_and(|call| call.resend_at() <= now) {
            self.call_again(now, local);
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
        let mut next = self.handshake.as_ref().map(Handshake::resend_at);
        for session in &self.sessions {
            next = earliest(next, Some(session.expires));
            if Some(session.receive.index) == self.current {
                next = earliest(next, earliest(session.rekey_at, Some(self.check_at)));
            }
        }
        next
    }

    /// Calls the peer, unless it is being called or nobody knows where it is.
    pub(super) fn call(&mut self, now: Time, local: &mut Local) {
        if self.handshake.is_none() {
            self.make_call(now, local);
        }
    }

    pub(super) fn sealer(&self) -> Option<Sealer> {
        self.life.as_ref().map(|life| Sealer::new(Arc::clone(&life.outbound)))
    }

    pub(super) fn endpoint(&self) -> Option<SocketAddr> {
        self.endpoint
    }

    pub(super) fn has_session(&self, now: Time) -> bool {
        self.current_session().is_some_and(|session| now < session.expires)
    }

    pub(super) fn stats(&self) -> Stats {
        self.stats
    }

    /// Makes a call in place of the one before, and says whether it could.
    fn make_call(&mut self, now: Time, local: &mut Local) -> bool {
        let Some(target) = self.target() else { return false };
        let timestamp = local.timestamp(now).max(self.said_timestamp.saturating_add(1));
        let next_number = self.life.as_ref().map_or(0, |life| life.outbound.next_number());
        let hello = Hello { timestamp, incarnation: local.incarnation, next_number };
        let message = noise::call(
            &local.private_key,
            &self.public_key,
            &self.preshared_key,
            &hello.emit(),
            &mut *local.entropy,
        );
        let Some(message) = message else { return false };
        self.said_timestamp = timestamp;
        let index = self.free_index(local);
        let cookie = self.fresh_cookie(now);
        let (mut handshake, datagram) =
            Handshake::new(now, index, message, &self.mac_key, cookie.as_ref(), &mut local.rng);
        if let Some(previous) = &self.handshake {
            handshake.go_on_from(now, previous, &mut local.rng);
        }
        self.handshake = Some(handshake);
        self.failing.get_or_insert((now, false));
        self.calls_made = self.calls_made.wrapping_add(1);
        self.stats.calls_sent += 1;
        local.send(target, datagram);
        true
    }

    fn call_again(&mut self, now: Time, local: &mut Local) {
        let failing_for = self.failing.map_or(Duration::ZERO, |(since, _)| now.since(since));
        if failing_for >= GIVE_UP_AFTER
            && let Some((_, is_told @ false)) = &mut self.failing
        {
            *is_told = true;
            self.stats.gave_up += 1;
            local.tell(Event::GaveUp { peer: self.id });
        }
        if self.configured.is_none() && failing_for >= STOP_AFTER {
            self.handshake = None;
            self.failing = None;
            return;
        }
        if self.handshake.as_ref().is_some_and(|call| call.is_old(now))
            && self.make_call(now, local)
        {
            return;
        }
        let (target, cookie) = (self.target(), self.fresh_cookie(now));
        let Some(handshake) = &mut self.handshake else { return };
        let datagram = handshake.repeat(now, &self.mac_key, cookie.as_ref(), &mut local.rng);
        if let Some(target) = target {
            self.stats.calls_sent += 1;
            local.send(target, datagram);
        }
    }

    /// Where to call: where the peer was last heard; if that is in vain, where it should be.
    fn target(&self) -> Option<SocketAddr> {
        let has_given_up = matches!(self.failing, Some((_, true)));
        let is_configured_next = has_given_up && self.calls_made % 2 == 1;
        let endpoint = if is_configured_next { None } else { self.endpoint };
        endpoint.or(self.configured).or(self.endpoint)
    }

    fn fresh_cookie(&self, now: Time) -> Option<[u8; MAC]> {
        self.cookie.filter(|(_, since)| now.since(*since) < COOKIE_LIFE).map(|(cookie, _)| cookie)
    }

    fn send_answer(
        &mut self,
        to: SocketAddr,
        caller: Index,
        index: Index,
        noise: &[u8; noise::RESPONSE],
        local: &mut Local,
    ) -> Vec<u8> {
        let mut answer = Answer::begin(caller, index, noise);
        guard::append_mac1(&self.mac_key, &mut answer);
        local.send(to, answer.clone());
        answer
    }

    fn move_to(&mut self, endpoint: SocketAddr, local: &mut Local) {
        if self.endpoint.replace(endpoint) == Some(endpoint) {
            return;
        }
        if let Some(life) = &self.life {
            life.outbound.set_endpoint(endpoint);
        }
        self.stats.moves += 1;
        local.tell(Event::EndpointChanged { peer: self.id, endpoint });
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

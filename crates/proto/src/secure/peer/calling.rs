//! Our calls to a peer, and what it answers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use crate::budget::Budget;
use crate::time::Time;

use super::super::guard::{self, COOKIE_LIFE};
use super::super::handshake::Handshake;
use super::super::local::{Event, Fresh, Local, Trouble};
use super::super::mac;
use super::super::noise;
use super::super::stats::Dropped;
use super::super::wire::{Answer, Cookie, Hello, MAC, Reply};
use super::{REKEY_JITTER, Remote};

/// A session's age at which who asked for it asks for the next.
const REKEY_AFTER: Duration = Duration::from_secs(120);
/// Unanswered calls for so long are told.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);
/// Calls to a peer of which we only learnt the address end after so long.
const STOP_AFTER: Duration = Duration::from_secs(120);
/// After calls in vain for so long every other one leaves from a fresh port, and after as long again from another.
const FRESH_AFTER: Duration = Duration::from_secs(30);
/// Answers looked at in a second.
const ANSWERS: u32 = 20;
/// Between calls of a peer that is silent.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Calls to the address that a session is with before others have their turns.
const STEADY: usize = 4;
/// Times in a row that we believe that our timestamp is stale.
const MAX_STALE: u32 = 3;

/// How calling a peer stands.
pub(super) struct Calling {
    /// The call that waits for its answer.
    pub(super) handshake: Option<Handshake>,
    /// Since when calls are unanswered, and whether that was told.
    pub(super) failing: Option<(Time, bool)>,
    /// How many datagrams were sent since calls are unanswered: addresses have their turns by it.
    pub(super) turn: usize,
    /// When the last one was that the peer's silence was the reason for.
    urgent_at: Option<Time>,
    /// The configured addresses are newer than where the peer was heard last.
    pub(super) is_configured_new: bool,
    /// What was told of why calls fail, since the last that did not.
    pub(super) told: BTreeSet<Trouble>,
    cookie: Option<([u8; MAC], Time)>,
    /// The last timestamp that we said to the peer.
    said_timestamp: u64,
    /// How many answers may still be looked at.
    answers: Budget,
}

impl Calling {
    pub(super) fn new(now: Time) -> Self {
        Self {
            handshake: None,
            failing: None,
            turn: 0,
            urgent_at: None,
            is_configured_new: false,
            told: BTreeSet::new(),
            cookie: None,
            said_timestamp: 0,
            answers: Budget::per_second(now, ANSWERS),
        }
    }
}

impl Remote {
    /// Takes the answer to a call.
    pub(in crate::secure) fn handle_answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        answer: &Answer<'_>,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        let Some(handshake) =
            self.calling.handshake.as_mut().filter(|call| call.index == answer.index)
        else {
            return Err(Dropped::Unknown);
        };
        if !mac::is_mac(&local.mac_key, answer.before_mac1, answer.mac1) {
            return Err(Dropped::NotForUs);
        }
        if !self.calling.answers.spend(now) {
            return Err(Dropped::Busy);
        }
        let Some((keys, payload)) = handshake.initiation.hear(answer.noise) else {
            self.stats.bad_answers += 1;
            self.trouble(from, Trouble::Unreadable, local);
            return Err(Dropped::Forged);
        };
        let (index, stale) = (handshake.index, handshake.stale);
        match Reply::parse(payload) {
            None => {
                self.stats.bad_answers += 1;
                Err(Dropped::Malformed)
            }
            Some(Reply::Stale { timestamp }) => {
                self.stats.answers_stale += 1;
                self.trouble(from, Trouble::Clock, local);
                self.calling.said_timestamp = self.calling.said_timestamp.max(timestamp);
                if stale < MAX_STALE {
                    self.calling.handshake = None;
                    self.call(now, local);
                    if let Some(handshake) = &mut self.calling.handshake {
                        handshake.stale = stale + 1;
                    }
                }
                Ok(())
            }
            Some(Reply::Taken { incarnation, next_number }) => {
                self.stats.answers_received += 1;
                let inbound = self.inbound(incarnation);
                inbound.expect(next_number);
                inbound.set_endpoint(from);
                let rekey_at = now + REKEY_AFTER + local.rng.within(REKEY_JITTER);
                let indexes = (index, answer.sender);
                self.add_session(now, indexes, keys, inbound, true, rekey_at, local);
                self.establish(now, index, from, local);
                self.send_keepalive(now, local);
                Ok(())
            }
        }
    }

    /// Takes a cookie: the peer is busy.
    pub(in crate::secure) fn handle_cookie(
        &mut self,
        now: Time,
        cookie: &Cookie<'_>,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        let Some(handshake) =
            self.calling.handshake.as_mut().filter(|call| call.index == cookie.index)
        else {
            return Err(Dropped::Unknown);
        };
        let opened = guard::open_cookie(&self.public_key, &handshake.mac1, cookie);
        self.calling.cookie = Some((opened.ok_or(Dropped::Forged)?, now));
        self.stats.cookies_received += 1;
        handshake.handle_cookie(now, &mut local.rng);
        Ok(())
    }

    /// Calls the peer, unless it is being called or nobody knows where it is.
    pub(in crate::secure) fn call(&mut self, now: Time, local: &mut Local) {
        if self.calling.handshake.is_none() {
            self.make_call(now, local);
        }
    }

    /// The peer is silent: it is called at once and often, for it may have started anew.
    pub(in crate::secure) fn call_urgently(&mut self, now: Time, local: &mut Local) {
        let is_early = self.calling.urgent_at.is_some_and(|at| now.since(at) < AGAIN_AFTER);
        if self.calling.handshake.is_none() && !is_early {
            self.calling.urgent_at = Some(now);
            self.make_call(now, local);
        }
        if self.current.is_some()
            && let Some(handshake) = &mut self.calling.handshake
        {
            handshake.hurry(now, &mut local.rng);
        }
    }

    /// Tells why calls come to nothing, each reason once.
    pub(super) fn trouble(&mut self, from: SocketAddr, what: Trouble, local: &mut Local) {
        if self.calling.told.insert(what) {
            local.tell(Event::Trouble { peer: self.id, from, what });
        }
    }

    /// Makes a call in place of the one before, and says whether it could.
    fn make_call(&mut self, now: Time, local: &mut Local) -> bool {
        if self.calling.failing.is_none() {
            self.calling.turn = 0;
        }
        let Some(target) = self.target() else { return false };
        let timestamp = local.timestamp(now).max(self.calling.said_timestamp.saturating_add(1));
        let next_number = self.life.as_ref().map_or(0, |life| life.outbound.next_number());
        let Some(incarnation) = self.own_incarnation(local) else { return false };
        let hello = Hello { timestamp, incarnation, next_number };
        let message = noise::call(
            &local.private_key,
            &self.public_key,
            &self.preshared_key,
            &hello.emit(),
            &mut *local.entropy,
        );
        let Some(message) = message else { return false };
        self.calling.said_timestamp = timestamp;
        let index = self.free_index(local);
        let cookie = self.fresh_cookie(now);
        let (mut handshake, datagram) =
            Handshake::new(now, index, message, &self.mac_key, cookie.as_ref(), &mut local.rng);
        if let Some(previous) = &self.calling.handshake {
            handshake.go_on_from(now, previous, &mut local.rng);
        }
        self.calling.handshake = Some(handshake);
        self.calling.failing.get_or_insert((now, false));
        self.send_call(now, target, datagram, local);
        true
    }

    pub(super) fn call_again(&mut self, now: Time, local: &mut Local) {
        let failing_for =
            self.calling.failing.map_or(Duration::ZERO, |(since, _)| now.since(since));
        let target = self.target();
        if failing_for >= GIVE_UP_AFTER
            && let Some((_, is_told @ false)) = &mut self.calling.failing
        {
            *is_told = true;
            self.stats.gave_up += 1;
            if let Some(endpoint) = target {
                local.tell(Event::GaveUp { peer: self.id, endpoint });
            }
        }
        if self.configured.is_empty() && failing_for >= STOP_AFTER {
            self.calling.handshake = None;
            self.calling.failing = None;
            return;
        }
        if self.calling.handshake.as_ref().is_some_and(|call| call.is_old(now))
            && self.make_call(now, local)
        {
            return;
        }
        let (target, cookie) = (self.target(), self.fresh_cookie(now));
        let Some(handshake) = &mut self.calling.handshake else { return };
        let datagram = handshake.repeat(now, &self.mac_key, cookie.as_ref(), &mut local.rng);
        if let Some(target) = target {
            self.send_call(now, target, datagram, local);
        }
    }

    fn send_call(&mut self, now: Time, to: SocketAddr, datagram: Vec<u8>, local: &mut Local) {
        let fresh = self.fresh(now);
        self.calling.turn += 1;
        self.stats.calls_sent += 1;
        self.stats.calls_fresh += u64::from(fresh.is_some());
        local.send_from(fresh, to, datagram);
    }

    /// Which fresh port the next call is to leave from. All addresses have their turns from the usual port, then all from
    /// a fresh one.
    fn fresh(&self, now: Time) -> Option<Fresh> {
        let (since, _) = self.calling.failing?;
        let number = now.since(since).as_secs() / FRESH_AFTER.as_secs();
        let cycle = self.endpoints().count().max(1);
        let is_its_turn = number > 0 && self.calling.turn / cycle % 2 == 1;
        is_its_turn.then_some(Fresh { peer: self.id, number })
    }

    /// Where to call: where the peer was heard last; if that is in vain, the addresses where it should be have
    /// their turns, and that one among them.
    fn target(&self) -> Option<SocketAddr> {
        let Calling { turn, is_configured_new, .. } = self.calling;
        let count = self.configured.len();
        if count == 0 {
            return self.endpoint;
        }
        let has_given_up = matches!(self.calling.failing, Some((_, true)));
        let place = self.configured.iter().position(|it| Some(*it) == self.endpoint);
        match (self.endpoint, place) {
            // A call that is lost is no reason to leave an address that works.
            (Some(endpoint), Some(_))
                if self.current.is_some() && !is_configured_new && turn < STEADY =>
            {
                Some(endpoint)
            }
            (_, Some(place)) => Some(self.configured[(place + turn) % count]),
            (Some(heard), None) if !is_configured_new && !has_given_up => Some(heard),
            (heard, None) => match turn % (count + usize::from(heard.is_some())) {
                turn if turn < count => Some(self.configured[turn]),
                _ => heard,
            },
        }
    }

    fn fresh_cookie(&self, now: Time) -> Option<[u8; MAC]> {
        self.calling
            .cookie
            .filter(|(_, since)| now.since(*since) < COOKIE_LIFE)
            .map(|(cookie, _)| cookie)
    }
}

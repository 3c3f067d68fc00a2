//! Our calls to a peer, and what it answers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use base::budget::Budget;
use base::time::Time;

use super::super::guard::{self, COOKIE_LIFE};
use super::super::handshake::Handshake;
use super::super::local::{Event, Fresh, Local, Trouble};
use super::super::mac;
use super::super::noise;
use super::super::stats::Dropped;
use super::super::wire::{Answer, Cookie, Hello, Index, MAC, Reply};
use super::{REKEY_JITTER, Remote};

/// The age of a session at which its initiator asks for the next.
const REKEY_AFTER: Duration = Duration::from_secs(120);
/// Calls unanswered for this long are reported.
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
/// Addresses that a peer is asked for in a row, because it seems to have moved there, and between more of them.
const CHECKS: u32 = 4;
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Calls to such an address.
const CHECK_CALLS: u32 = 6;

/// How calling a peer stands.
pub(super) struct Calling {
    /// The call that waits for its answer.
    pub(super) handshake: Option<Handshake>,
    /// The peer was heard from elsewhere, and is asked whether it is there.
    check: Option<Check>,
    /// How many more addresses may be asked.
    checks: Budget,
    /// Since when calls are unanswered, and whether that was told.
    pub(super) failing: Option<(Time, bool)>,
    /// Where the last call went.
    called: Option<SocketAddr>,
    /// How many datagrams were sent since calls are unanswered: addresses have their turns by it.
    pub(super) turn: usize,
    /// When the last one was that the peer's silence was the reason for.
    urgent_at: Option<Time>,
    /// The configured addresses are newer than where the peer was heard last.
    pub(super) is_configured_new: bool,
    /// Reasons for failing calls reported since the last call that succeeded.
    pub(super) told: BTreeSet<Trouble>,
    cookie: Option<([u8; MAC], Time)>,
    /// The last timestamp that we said to the peer.
    said_timestamp: u64,
    /// How many answers may still be looked at.
    answers: Budget,
}

/// A separate call to an address from which the peer was heard: whoever answers has received the call there, or was
/// told of the call by somebody who has.
struct Check {
    endpoint: SocketAddr,
    handshake: Handshake,
    calls: u32,
}

impl Calling {
    pub(super) fn new(now: Time) -> Self {
        Self {
            handshake: None,
            check: None,
            checks: Budget::new(now, CHECKS, CHECK_INTERVAL),
            failing: None,
            called: None,
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

impl Calling {
    /// The peer is there: that needs to be asked no more.
    pub(super) fn has_found(&mut self, endpoint: SocketAddr) {
        self.check.take_if(|check| check.endpoint == endpoint);
    }

    /// No call that was made by now counts.
    pub(super) fn forget(&mut self) {
        (self.handshake, self.check) = (None, None);
    }

    /// The indexes of calls that wait for answers.
    pub(super) fn indexes(&self) -> impl Iterator<Item = Index> {
        let check = self.check.as_ref().map(|check| &check.handshake);
        self.handshake.iter().chain(check).map(|call| call.index)
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
        // Where the call went that this answers, if it went nowhere else.
        let mut asked = None;
        let mut handshake = self.calling.handshake.as_mut();
        if let Some(check) = &mut self.calling.check
            && check.handshake.index == answer.index
        {
            asked = Some(check.endpoint);
            handshake = Some(&mut check.handshake);
        }
        let Some(handshake) = handshake.filter(|call| call.index == answer.index) else {
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
                if asked.is_some() {
                    self.end_check();
                } else if stale < MAX_STALE {
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
                // What an answer says of where it comes from may be false. That the call arrived is true.
                let is_known = self.endpoints().any(|it| it == from);
                let endpoint =
                    asked.or(is_known.then_some(from)).or(self.calling.called).unwrap_or(from);
                let inbound = self.inbound(incarnation);
                inbound.expect(next_number);
                inbound.set_endpoint(endpoint);
                let rekey_at = now + REKEY_AFTER + local.rng.within(REKEY_JITTER);
                let indexes = (index, answer.sender);
                self.add_session(now, indexes, keys, inbound, true, rekey_at, local);
                self.establish(now, index, endpoint, local);
                self.send_keepalive(now, local);
                if asked.is_none() {
                    self.consider(now, from, local);
                }
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
        let check = self.calling.check.as_mut().map(|check| &mut check.handshake);
        let mut calls = self.calling.handshake.as_mut().into_iter().chain(check);
        let Some(handshake) = calls.find(|call| call.index == cookie.index) else {
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

    /// The peer was heard from this address, which anybody could have written into a datagram: before it counts, the peer
    /// has to answer a call that is sent there alone.
    pub(super) fn consider(&mut self, now: Time, endpoint: SocketAddr, local: &mut Local) {
        if self.endpoint == Some(endpoint) {
            self.calling.check = None;
            return;
        }
        if self.calling.check.as_ref().is_some_and(|check| check.endpoint == endpoint) {
            return;
        }
        if !self.calling.checks.spend(now) {
            self.stats.moves_unchecked += 1;
            if self.calling.check.is_none() {
                self.end_check();
            }
            return;
        }
        self.calling.check = None;
        let Some((mut handshake, datagram)) = self.new_call(now, local) else { return };
        handshake.hurry(now, &mut local.rng);
        self.calling.check = Some(Check { endpoint, handshake, calls: 1 });
        self.stats.moves_checked += 1;
        self.stats.calls_sent += 1;
        local.send(endpoint, datagram);
    }

    /// Where the peer is asked whether it has moved there.
    pub(in crate::secure) fn asked(&self) -> Option<SocketAddr> {
        self.calling.check.as_ref().map(|check| check.endpoint)
    }

    /// The time to ask again at the address from which the peer was heard.
    pub(super) fn check_due(&self) -> Option<Time> {
        self.calling.check.as_ref().map(|check| check.handshake.resend_at())
    }

    /// Asks at the address again, or gives the address up.
    pub(super) fn check_again(&mut self, now: Time, local: &mut Local) {
        let cookie = self.fresh_cookie(now);
        match &mut self.calling.check {
            Some(check) if check.calls < CHECK_CALLS => {
                check.calls += 1;
                self.stats.calls_sent += 1;
                let mac_key = &self.mac_key;
                let datagram =
                    check.handshake.repeat(now, mac_key, cookie.as_ref(), &mut local.rng);
                local.send(check.endpoint, datagram);
            }
            Some(_) | None => self.end_check(),
        }
    }

    /// Nobody is asked any more whether the peer has moved; if it is heard from elsewhere again, that is news.
    fn end_check(&mut self) {
        self.calling.check = None;
        if let (Some(session), Some(endpoint)) = (self.current_session(), self.endpoint) {
            session.inbound.set_endpoint(endpoint);
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
        let Some((mut handshake, datagram)) = self.new_call(now, local) else { return false };
        if let Some(previous) = &self.calling.handshake {
            handshake.go_on_from(now, previous, &mut local.rng);
        }
        self.calling.handshake = Some(handshake);
        self.calling.failing.get_or_insert((now, false));
        self.send_call(now, target, datagram, local);
        true
    }

    /// A call like no other, and the datagram to send; `None` without randomness.
    fn new_call(&mut self, now: Time, local: &mut Local) -> Option<(Handshake, Vec<u8>)> {
        let timestamp = local.timestamp(now).max(self.calling.said_timestamp.saturating_add(1));
        let next_number = self.life.as_ref().map_or(0, |life| life.outbound.next_number());
        let incarnation = self.own_incarnation(local)?;
        let hello = Hello { timestamp, incarnation, next_number };
        let message = noise::call(
            &local.private_key,
            &self.public_key,
            &self.preshared_key,
            &hello.emit(),
            &mut *local.entropy,
        )?;
        self.calling.said_timestamp = timestamp;
        let index = self.free_index(local);
        let cookie = self.fresh_cookie(now);
        Some(Handshake::new(now, index, message, &self.mac_key, cookie.as_ref(), &mut local.rng))
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
        self.calling.called = Some(to);
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

    /// The address to call: the address where the peer was heard last; if calls there are in vain, the
    /// addresses where the peer should be take turns, including the last one heard.
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

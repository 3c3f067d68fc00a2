//! One peer: calls it and answers its calls, follows it to other addresses, and looks after its [`Sessions`].

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::budget::Budget;
use base::entropy::draw;
use base::time::{Time, earliest};

use super::activity::Activity;
use super::guard::{COOKIE_LIFE, open_cookie};
use super::handshake::{Handshake, Pair};
use super::keys::{PresharedKey, PublicKey};
use super::local::{Event, Fresh, Local, Trouble};
use super::mac::{append_mac1, mac_key};
use super::noise;
use super::open::{Heard, SLOT_BITS, SLOTS_PER_PEER};
use super::seal::Sealer;
use super::sessions::{Agreed, Sessions};
use super::stats::{Dropped, Stats};
use super::wire::{Answer, Call, Cookie, Hello, Index, MAC, Reply};
use super::{Incarnation, PeerId};
use crate::{PATHS, PathId};

/// Jitter added to the age at which a session is replaced, so that both sides do not ask at once.
const REKEY_JITTER: Duration = Duration::from_secs(5);
/// The time between checks of the traffic sent and heard.
const CHECK: Duration = Duration::from_secs(5);
/// Data unanswered for so long are a reason to call: the peer may have lost its keys.
const SILENCE: Duration = Duration::from_secs(15);
/// Moves of a peer on its further paths that are believed in a second.
const MOVES: u32 = 5;
/// Addresses at most where a peer may be called.
const MAX_ENDPOINTS: usize = 16;

/// The configuration of a peer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Peer {
    /// What it is known by.
    pub public_key: PublicKey,
    /// What it was known by before, and still may be: for the time in which its key is changed.
    pub previous_key: Option<PublicKey>,
    /// A secret besides the keys, against those who may one day compute private keys.
    pub preshared_key: Option<PresharedKey>,
    /// Where it is called. Without, it has to call us.
    pub endpoint: Option<SocketAddr>,
    /// A sign of life after so much silence of ours, for address translators on the way.
    pub keepalive: Option<Duration>,
}

impl Peer {
    /// What it is known by, the newest first.
    pub fn public_keys(&self) -> impl Iterator<Item = PublicKey> + use<> {
        [Some(self.public_key), self.previous_key].into_iter().flatten()
    }
}

/// A peer and all its state.
pub struct Remote {
    id: PeerId,
    /// What it is known by, the newest first.
    keys: Vec<PublicKey>,
    preshared_key: PresharedKey,
    /// The keys of the last handshake.
    used: Option<Pair>,
    /// Addresses at which the peer may be called, as far as known.
    configured: Vec<SocketAddr>,
    keepalive: Option<Duration>,
    endpoint: Option<SocketAddr>,
    /// Where further paths lead by our configuration; the first place is empty.
    further: [Option<SocketAddr>; PATHS],
    /// How many more moves on further paths are believed.
    moves: Budget,
    activity: Arc<Activity>,
    /// The incarnation by which the peer knows our present life; drawn when it is first told.
    own_incarnation: Option<Incarnation>,
    sessions: Sessions,
    calling: Calling,
    called: Called,
    check_at: Time,
    /// When keys were agreed on last.
    established_at: Option<Time>,
    stats: Stats,
}

impl Remote {
    pub fn new(now: Time, id: PeerId, peer: &Peer) -> Self {
        let activity = Arc::<Activity>::default();
        Self {
            id,
            keys: peer.public_keys().collect(),
            preshared_key: peer.preshared_key.clone().unwrap_or_else(PresharedKey::none),
            used: None,
            configured: peer.endpoint.into_iter().collect(),
            keepalive: peer.keepalive,
            endpoint: peer.endpoint,
            further: [None; PATHS],
            moves: Budget::per_second(now, MOVES),
            sessions: Sessions::new(id, Arc::clone(&activity)),
            activity,
            own_incarnation: None,
            calling: Calling::new(now),
            called: Called::new(now),
            check_at: now,
            established_at: None,
            stats: Stats::default(),
        }
    }

    /// Takes news of a session that came with a datagram, and says whether timers may have changed.
    pub fn handle_heard(&mut self, now: Time, heard: Heard, local: &mut Local) -> bool {
        let Some((is_first, inbound)) = self.sessions.confirm(heard.index) else { return false };
        if is_first {
            // A further path says nothing of where the first one leads.
            let is_further = heard.path != PathId::FIRST;
            let known = self.confirm_answer().or(self.endpoint.filter(|_| is_further));
            let endpoint = known.unwrap_or(heard.from);
            inbound.set_endpoint(endpoint);
            self.establish(now, heard.index, endpoint, local);
        } else if !heard.has_moved {
            return false;
        }
        if heard.path == PathId::FIRST {
            self.consider(now, heard.from, local);
        } else if heard.has_moved
            && self.further[heard.path.index()].is_none()
            && self.further(heard.path) != Some(heard.from)
        {
            // A path of our configuration leads where that says, wherever somebody sends from.
            if !self.moves.spend(now) {
                // Its next datagram is news again.
                self.stats.moves_unchecked += 1;
                inbound.forget_endpoint(heard.path);
                return true;
            }
            self.sessions.set_further(heard.path, heard.from);
            let (peer, path, endpoint) = (self.id, heard.path, heard.from);
            local.tell(Event::Further { peer, path, endpoint });
        }
        true
    }

    /// The peer may be called at these addresses, and no more at those before. If it is being called, it is called
    /// there from now on.
    pub fn handle_endpoints(&mut self, now: Time, endpoints: &[SocketAddr], local: &mut Local) {
        let endpoints = &endpoints[..endpoints.len().min(MAX_ENDPOINTS)];
        // Name servers turn their answers round, which is no news.
        let is_known = endpoints.iter().all(|it| self.configured.contains(it));
        if is_known && self.configured.iter().all(|it| endpoints.contains(it)) {
            return;
        }
        let was_heard = self.endpoint.is_some_and(|it| !self.configured.contains(&it));
        self.configured = endpoints.to_vec();
        if !self.sessions.has_current() && !was_heard {
            self.endpoint = endpoints.first().copied();
        }
        if !self.sessions.has_current() || self.calling.handshake.is_some() {
            self.calling.is_configured_new = true;
            self.calling.handshake = None;
            self.calling.turn = 0;
            self.call(now, local);
        }
    }

    /// An earlier process of this gateway heard the peer at this address last: we call there until the peer is heard.
    pub fn handle_last_heard(&mut self, now: Time, endpoint: SocketAddr, local: &mut Local) {
        if !self.sessions.has_current() && self.endpoint != Some(endpoint) {
            self.endpoint = Some(endpoint);
            self.calling.handshake = None;
            self.call(now, local);
        }
    }

    /// Acts on deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Time, local: &mut Local) {
        self.end_sessions(now, local);
        if self.calling.handshake.as_ref().is_some_and(|call| call.resend_at() <= now) {
            self.call_again(now, local);
        }
        if self.check_due().is_some_and(|due| due <= now) {
            self.check_again(now, local);
        }
        if self.sessions.poll_rekey(now) {
            self.call(now, local);
        }
        if self.sessions.has_current() && self.check_at <= now {
            self.check(now, local);
        }
    }

    /// When something is due.
    pub fn next_timeout(&self) -> Option<Time> {
        let handshake = self.calling.handshake.as_ref().map(Handshake::resend_at);
        let check_at = self.sessions.has_current().then_some(self.check_at);
        [handshake, self.check_due(), check_at]
            .into_iter()
            .fold(self.sessions.next_timeout(), earliest)
    }

    pub fn sealer(&self) -> Option<Sealer> {
        self.sessions.sealer()
    }

    pub fn endpoint(&self) -> Option<SocketAddr> {
        self.endpoint
    }

    /// The first path leads to the peer at this address, even if the peer was last heard elsewhere: while the path was
    /// broken, it may have called by another. This leaves unchanged where the peer was heard.
    pub fn handle_first(&mut self, endpoint: SocketAddr) {
        self.endpoint = Some(endpoint);
        self.sessions.set_first(endpoint);
    }

    /// A further path leads to the peer at this address.
    pub fn handle_further(&mut self, path: PathId, endpoint: SocketAddr) {
        self.further[path.index()] = Some(endpoint);
        self.sessions.set_further(path, endpoint);
    }

    /// Where it is on a further path.
    pub fn further(&self, path: PathId) -> Option<SocketAddr> {
        self.sessions.further()[path.index()]
    }

    /// Where it is by the first path, and where it may be called. Where it says by itself that a further path leads is
    /// none of them: nobody has proved that.
    pub fn endpoints(&self) -> impl Iterator<Item = SocketAddr> {
        let further = self.further.iter().flatten().copied();
        self.endpoint.into_iter().chain(self.configured.iter().copied()).chain(further)
    }

    pub fn has_session(&self, now: Time) -> bool {
        self.sessions.is_usable(now)
    }

    pub fn last_heard(&self) -> Option<Time> {
        self.activity.last_heard()
    }

    pub fn last_handshake(&self) -> Option<Time> {
        self.established_at
    }

    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The keys of the last handshake.
    pub fn used(&self) -> Option<Pair> {
        self.used
    }

    fn check(&mut self, now: Time, local: &mut Local) {
        let unanswered_for = self.activity.unanswered_since().map(|since| now.since(since));
        if unanswered_for.is_some_and(|silence| silence >= SILENCE) {
            self.activity.forget_unanswered();
            self.call(now, local);
        }
        let silent_for = now.since(self.activity.last_sent());
        let is_due = self.keepalive.is_some_and(|interval| silent_for >= interval);
        if is_due || self.activity.has_unanswered_data() {
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
        let Some(datagram) = self.sessions.keepalive() else { return };
        if let Some(endpoint) = self.endpoint {
            local.send(endpoint, datagram);
            self.activity.sent_keepalive(now);
            self.stats.keepalives += 1;
        }
    }
}

// Our calls to a peer, and what it answers.

/// The age of a session at which its initiator asks for the next.
const REKEY_AFTER: Duration = Duration::from_secs(120);
/// Calls unanswered for this long are reported.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);
/// That is told sooner: who has just written a wrong key looks at the log now.
const TELL_AFTER: Duration = Duration::from_secs(3);
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
/// How many times in a row we believe the peer calling our timestamp stale.
const MAX_STALE: u32 = 3;
/// How many addresses in a row are asked for a peer that seems to have moved there, and the pause before each further
/// address.
const CHECKS: u32 = 4;
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Calls to such an address.
const CHECK_CALLS: u32 = 6;

/// Calls that nobody answers.
#[derive(Clone, Copy)]
struct Failing {
    since: Time,
    /// Whether that was told.
    is_told: bool,
    /// Whether it has been so for [`GIVE_UP_AFTER`].
    has_given_up: bool,
}

/// How calling a peer stands.
struct Calling {
    /// The call without an answer so far.
    handshake: Option<Handshake>,
    /// The peer was heard from elsewhere, and is asked whether it is there.
    check: Option<Check>,
    /// How many more addresses may be asked.
    checks: Budget,
    /// Since when calls are unanswered.
    failing: Option<Failing>,
    /// Where the last call went.
    called: Option<SocketAddr>,
    /// How many datagrams were sent since calls are unanswered: addresses have their turns by it.
    turn: usize,
    /// How many times other keys had their turn since then.
    pair: usize,
    /// When the last one was that the peer's silence was the reason for.
    urgent_at: Option<Time>,
    /// The configured addresses are newer than where the peer was heard last.
    is_configured_new: bool,
    /// Reasons for failing calls reported since the last call that succeeded.
    told: BTreeSet<Trouble>,
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
    fn new(now: Time) -> Self {
        Self {
            handshake: None,
            check: None,
            checks: Budget::new(now, CHECKS, CHECK_INTERVAL),
            failing: None,
            called: None,
            turn: 0,
            pair: 0,
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
    fn has_found(&mut self, endpoint: SocketAddr) {
        self.check.take_if(|check| check.endpoint == endpoint);
    }

    /// No call that was made by now counts.
    fn forget(&mut self) {
        (self.handshake, self.check) = (None, None);
    }

    /// The unanswered call with index `index`; and its destination, if the call went to a single address.
    fn waiting(&mut self, index: Index) -> Option<(&mut Handshake, Option<SocketAddr>)> {
        let check = self.check.as_mut().map(|check| (&mut check.handshake, Some(check.endpoint)));
        let call = self.handshake.as_mut().map(|call| (call, None));
        check.into_iter().chain(call).find(|(call, _)| call.index() == index)
    }

    /// The indexes of unanswered calls.
    fn indexes(&self) -> impl Iterator<Item = Index> {
        let check = self.check.as_ref().map(|check| &check.handshake);
        self.handshake.iter().chain(check).map(|call| call.index())
    }
}

impl Remote {
    /// Takes the answer to a call.
    pub fn handle_answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        answer: &Answer<'_>,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        if !self.calling.indexes().any(|index| index == answer.index) {
            return Err(Dropped::Unknown);
        }
        if local.addressed(answer.before_mac1, answer.mac1).is_none() {
            return Err(Dropped::NotForUs);
        }
        if !self.calling.answers.spend(now) {
            return Err(Dropped::Busy);
        }
        let (handshake, asked) = self.calling.waiting(answer.index).ok_or(Dropped::Unknown)?;
        let Some((keys, payload)) = handshake.hear(answer.noise) else {
            self.stats.bad_answers += 1;
            self.trouble(from, Trouble::Unreadable, local);
            return Err(Dropped::Forged);
        };
        let (index, stale, pair) = (handshake.index(), handshake.stale(), handshake.pair());
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
                        handshake.set_stale(stale + 1);
                    }
                }
                Ok(())
            }
            Some(Reply::Taken { incarnation, next_number }) => {
                self.stats.answers_received += 1;
                self.used = Some(pair);
                // What an answer says of where it comes from may be false. That the call arrived is true.
                let is_known = self.endpoints().any(|it| it == from);
                let endpoint =
                    asked.or(is_known.then_some(from)).or(self.calling.called).unwrap_or(from);
                let inbound = self.sessions.inbound(incarnation);
                inbound.expect(next_number);
                inbound.set_endpoint(endpoint);
                let rekey_at = now + REKEY_AFTER + local.rng().within(REKEY_JITTER);
                let remote_index = answer.sender;
                let agreed =
                    Agreed { index, remote_index, keys, inbound, is_confirmed: true, rekey_at };
                self.sessions.add(now, agreed, local.table());
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
    pub fn handle_cookie(
        &mut self,
        now: Time,
        cookie: &Cookie<'_>,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        let (handshake, _) = self.calling.waiting(cookie.index).ok_or(Dropped::Unknown)?;
        let opened = open_cookie(&handshake.pair().its, handshake.mac1(), cookie);
        let opened = opened.ok_or(Dropped::Forged)?;
        handshake.handle_cookie(now, local.rng());
        self.calling.cookie = Some((opened, now));
        self.stats.cookies_received += 1;
        Ok(())
    }

    /// Calls the peer, unless it is being called or nobody knows where it is.
    pub fn call(&mut self, now: Time, local: &mut Local) {
        if self.calling.handshake.is_none() {
            self.make_call(now, local);
        }
    }

    /// The peer is silent: it is called at once and often, for it may have started anew.
    pub fn call_urgently(&mut self, now: Time, local: &mut Local) {
        let is_early = self.calling.urgent_at.is_some_and(|at| now.since(at) < AGAIN_AFTER);
        if self.calling.handshake.is_none() && !is_early {
            self.calling.urgent_at = Some(now);
            self.make_call(now, local);
        }
        if self.sessions.has_current()
            && let Some(handshake) = &mut self.calling.handshake
        {
            handshake.hurry(now, local.rng());
        }
    }

    /// A packet for the peer came while there are no keys. Returns whether a call is repeated sooner for it.
    pub fn handle_wanted(&mut self, now: Time) -> bool {
        self.calling.handshake.as_mut().is_some_and(|handshake| handshake.hasten(now))
    }

    /// The peer was heard from this address, which anybody could have written into a datagram: before it counts, the
    /// peer has to answer a call that is sent there alone.
    fn consider(&mut self, now: Time, endpoint: SocketAddr, local: &mut Local) {
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
        let pair = self.used.unwrap_or_else(|| self.pair(local));
        let Some((mut handshake, datagram)) = self.new_call(now, pair, local) else { return };
        handshake.hurry(now, local.rng());
        self.calling.check = Some(Check { endpoint, handshake, calls: 1 });
        self.stats.moves_checked += 1;
        self.stats.calls_sent += 1;
        local.send(endpoint, datagram);
    }

    /// Where the peer is asked whether it has moved there.
    pub fn asked(&self) -> Option<SocketAddr> {
        self.calling.check.as_ref().map(|check| check.endpoint)
    }

    /// The time to ask again at the address from which the peer was heard.
    fn check_due(&self) -> Option<Time> {
        self.calling.check.as_ref().map(|check| check.handshake.resend_at())
    }

    /// Asks at the address again, or gives the address up.
    fn check_again(&mut self, now: Time, local: &mut Local) {
        let cookie = self.fresh_cookie(now);
        match &mut self.calling.check {
            Some(check) if check.calls < CHECK_CALLS => {
                check.calls += 1;
                self.stats.calls_sent += 1;
                let datagram = check.handshake.repeat(now, cookie.as_ref(), local.rng());
                local.send(check.endpoint, datagram);
            }
            Some(_) | None => self.end_check(),
        }
    }

    /// Nobody is asked any more whether the peer has moved; if it is heard from elsewhere again, that is news.
    fn end_check(&mut self) {
        self.calling.check = None;
        if let Some(endpoint) = self.endpoint {
            self.sessions.set_endpoint(endpoint);
        }
    }

    /// Tells why calls come to nothing, each reason once.
    fn trouble(&mut self, from: SocketAddr, what: Trouble, local: &mut Local) {
        if self.calling.told.insert(what) {
            local.tell(Event::Trouble { peer: self.id, from, what });
        }
    }

    /// Makes a call in place of the one before, and says whether it could.
    fn make_call(&mut self, now: Time, local: &mut Local) -> bool {
        if self.calling.failing.is_none() {
            (self.calling.turn, self.calling.pair) = (0, 0);
        }
        let Some(target) = self.target() else { return false };
        let pair = self.pair(local);
        let Some((mut handshake, datagram)) = self.new_call(now, pair, local) else { return false };
        if let Some(previous) = &self.calling.handshake {
            handshake.go_on_from(now, previous, local.rng());
        }
        self.calling.handshake = Some(handshake);
        let failing = Failing { since: now, is_told: false, has_given_up: false };
        self.calling.failing.get_or_insert(failing);
        self.send_call(now, target, datagram, local);
        true
    }

    /// How many pairs of keys the peer may be called with.
    fn pairs(&self, local: &Local) -> usize {
        local.identities().len() * self.keys.len()
    }

    /// The keys whose turn it is to call the peer with: first the newest of both, then its previous one, then ours.
    fn pair(&self, local: &Local) -> Pair {
        let at = self.calling.pair % self.pairs(local);
        let own = local.identities()[at / self.keys.len()].public_key();
        Pair { own, its: self.keys[at % self.keys.len()] }
    }

    /// A call like no other, and the datagram to send; `None` without randomness.
    fn new_call(
        &mut self,
        now: Time,
        pair: Pair,
        local: &mut Local,
    ) -> Option<(Handshake, Vec<u8>)> {
        let timestamp = local.timestamp(now).max(self.calling.said_timestamp.saturating_add(1));
        let next_number = self.sessions.next_number();
        let incarnation = self.own_incarnation(local)?;
        let hello = Hello { timestamp, incarnation, next_number };
        let own = local.identities().iter().position(|it| it.public_key() == pair.own)?;
        let (private_key, entropy) = local.private_key_and_entropy(own);
        let psk = &self.preshared_key;
        let message = noise::call(private_key, &pair.its, psk, &hello.emit(), entropy)?;
        self.calling.said_timestamp = timestamp;
        let index = self.free_index(local);
        let cookie = self.fresh_cookie(now);
        Some(Handshake::new(now, (index, pair), message, cookie.as_ref(), local.rng()))
    }

    fn call_again(&mut self, now: Time, local: &mut Local) {
        let failing_for =
            self.calling.failing.map_or(Duration::ZERO, |failing| now.since(failing.since));
        let target = self.target();
        if let Some(failing) = &mut self.calling.failing {
            if failing_for >= TELL_AFTER
                && !std::mem::replace(&mut failing.is_told, true)
                && let Some(endpoint) = target
            {
                local.tell(Event::Unanswered { peer: self.id, endpoint });
            }
            if failing_for >= GIVE_UP_AFTER && !std::mem::replace(&mut failing.has_given_up, true) {
                self.stats.gave_up += 1;
            }
        }
        if self.configured.is_empty() && failing_for >= STOP_AFTER {
            self.calling.handshake = None;
            self.calling.failing = None;
            return;
        }
        let has_others = self.pairs(local) > 1;
        if self.calling.handshake.as_ref().is_some_and(|call| call.is_old(now, has_others)) {
            self.calling.pair = self.calling.pair.wrapping_add(1);
            if self.make_call(now, local) {
                return;
            }
        }
        let (target, cookie) = (self.target(), self.fresh_cookie(now));
        let Some(handshake) = &mut self.calling.handshake else { return };
        let datagram = handshake.repeat(now, cookie.as_ref(), local.rng());
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

    /// Which fresh port the next call is to leave from. All addresses have their turns from the usual port, then all
    /// from a fresh one.
    fn fresh(&self, now: Time) -> Option<Fresh> {
        let Failing { since, .. } = self.calling.failing?;
        let number = now.since(since).as_secs() / FRESH_AFTER.as_secs();
        let cycle = self.configured.len() + usize::from(self.endpoint.is_some());
        let cycle = cycle.max(1);
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
        let has_given_up = self.calling.failing.is_some_and(|failing| failing.has_given_up);
        let place = self.configured.iter().position(|it| Some(*it) == self.endpoint);
        match (self.endpoint, place) {
            // A lost call is no reason to leave a working address.
            (Some(endpoint), Some(_))
                if self.sessions.has_current() && !is_configured_new && turn < STEADY =>
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

// The calls of a peer, and what we answer.

/// A session's age at which the called side asks for the next session, if the calling side has not.
const OTHERS_REKEY_AFTER: Duration = Duration::from_secs(165);
/// Calls of each kind that are answered in a second.
const CALLS: u32 = 5;
/// Unconfirmed answers, which may be slow or lost, are reported after this long.
const UNCONFIRMED: Duration = Duration::from_secs(20);

/// How answering a peer stands.
struct Called {
    /// The last timestamp that the peer said.
    heard_timestamp: u64,
    answered: Option<Answered>,
    /// The time since which no answer was confirmed.
    unconfirmed_since: Option<Time>,
    /// The remaining budgets for new calls, stale calls and repeated calls.
    new: Budget,
    stale: Budget,
    repeated: Budget,
}

/// The last call that was answered. The answer is kept until the peer has it.
struct Answered {
    mac1: [u8; MAC],
    answer: Option<Vec<u8>>,
    /// Where the answer went, first at the address of the first call; at most [`DESTINATIONS`].
    to: Vec<SocketAddr>,
}

/// So many addresses of a repeated call are remembered.
const DESTINATIONS: usize = 4;

impl Called {
    fn new(now: Time) -> Self {
        let budget = Budget::per_second(now, CALLS);
        Self {
            heard_timestamp: 0,
            answered: None,
            unconfirmed_since: None,
            new: budget,
            stale: budget,
            repeated: budget,
        }
    }
}

impl Remote {
    /// Takes a call from the peer, new or old.
    pub fn handle_call(
        &mut self,
        now: Time,
        from: SocketAddr,
        call: &Call<'_>,
        (own, heard): (PublicKey, noise::Call),
        hello: Hello,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        let pair = Pair { own, its: heard.from() };
        if hello.timestamp <= self.called.heard_timestamp {
            self.stats.calls_stale += 1;
            // Replayed, or the peer's clock went back. Only the peer can read our reply, and only
            // while waiting for the answer to this call; so a replay has no other effect.
            if self.called.stale.spend(now) {
                let reply = Reply::Stale { timestamp: self.called.heard_timestamp };
                if let Some((_, noise)) = heard.answer(&self.preshared_key, &reply.emit()) {
                    self.send_answer(from, pair.its, (call.sender, Index::new(0)), &noise, local);
                }
            }
            return Err(Dropped::Stale);
        }
        if !self.called.new.spend(now) {
            self.stats.calls_busy += 1;
            return Err(Dropped::Busy);
        }
        self.stats.calls_received += 1;
        if self.called.answered.as_ref().is_some_and(|answered| answered.answer.is_some()) {
            self.stats.answers_unconfirmed += 1;
        }
        self.note_unconfirmed(now, from, local);
        let inbound = self.sessions.inbound(hello.incarnation);
        let is_present = self.sessions.is_present(hello.incarnation);
        let next_number = if is_present { self.sessions.next_number() } else { 0 };
        let incarnation = self.own_incarnation(local).ok_or(Dropped::Busy)?;
        let reply = Reply::Taken { incarnation, next_number };
        let Some((keys, noise)) = heard.answer(&self.preshared_key, &reply.emit()) else {
            return Err(Dropped::Busy);
        };
        self.called.heard_timestamp = hello.timestamp;
        inbound.expect(hello.next_number);
        // Only one session waits to be confirmed, so that calls alone never push out others.
        self.sessions.end_unconfirmed(local.table());
        let index = self.free_index(local);
        let rekey_at = now + OTHERS_REKEY_AFTER + local.rng().within(REKEY_JITTER);
        let remote_index = call.sender;
        let agreed = Agreed { index, remote_index, keys, inbound, is_confirmed: false, rekey_at };
        self.sessions.add(now, agreed, local.table());
        let answer = self.send_answer(from, pair.its, (call.sender, index), &noise, local);
        self.used = Some(pair);
        self.called.answered =
            Some(Answered { mac1: *call.mac1, answer: Some(answer), to: vec![from] });
        self.stats.calls_answered += 1;
        Ok(())
    }

    /// The mac of the last call that was answered.
    pub fn answered(&self) -> Option<&[u8; MAC]> {
        self.called.answered.as_ref().map(|answered| &answered.mac1)
    }

    /// The peer has the last answer, which it shows by its keys: where the peer is. If the answer also went to where
    /// the peer was before, it is still there; otherwise the first call tells, since whoever saw a call can repeat it
    /// from anywhere.
    fn confirm_answer(&mut self) -> Option<SocketAddr> {
        let answered = self.called.answered.as_mut()?;
        answered.answer = None;
        let stays = self.endpoint.filter(|it| answered.to.contains(it));
        stays.or_else(|| answered.to.first().copied())
    }

    /// The call that was answered last has come again.
    pub fn repeat_answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        local: &mut Local,
    ) -> Result<(), Dropped> {
        let answered = self.called.answered.as_mut().ok_or(Dropped::Replayed)?;
        let answer = answered.answer.clone().ok_or(Dropped::Replayed)?;
        if answered.to.len() < DESTINATIONS && !answered.to.contains(&from) {
            answered.to.push(from);
        }
        self.stats.calls_repeated += 1;
        self.note_unconfirmed(now, from, local);
        if !self.called.repeated.spend(now) {
            self.stats.calls_busy += 1;
            return Err(Dropped::Busy);
        }
        local.send(from, answer);
        self.stats.calls_answered += 1;
        Ok(())
    }

    /// The peer calls though it was answered, or for the first time.
    fn note_unconfirmed(&mut self, now: Time, from: SocketAddr, local: &mut Local) {
        let since = *self.called.unconfirmed_since.get_or_insert(now);
        if now.since(since) >= UNCONFIRMED {
            self.trouble(from, Trouble::Unconfirmed, local);
        }
    }

    fn send_answer(
        &self,
        to: SocketAddr,
        key: PublicKey,
        (caller, index): (Index, Index),
        noise: &[u8; noise::RESPONSE],
        local: &mut Local,
    ) -> Vec<u8> {
        let mut answer = Answer::begin(caller, index, noise);
        append_mac1(&mac_key(&key), &mut answer);
        local.send(to, answer.clone());
        answer
    }
}

// What begins and ends with the sessions.

impl Remote {
    /// The session is the one to use from now on. The peer is known to be at `from`.
    fn establish(&mut self, now: Time, index: Index, from: SocketAddr, local: &mut Local) {
        let Some((incarnation, is_new)) = self.sessions.establish(index, from, local.table())
        else {
            return;
        };
        self.stats.incarnations += u64::from(is_new);
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
        let has_moved = self.endpoint.replace(from) != Some(from);
        local.tell(Event::Established { peer: self.id, incarnation, is_new });
        if has_moved {
            self.stats.moves += 1;
            local.tell(Event::EndpointChanged { peer: self.id, endpoint: from });
        }
    }

    /// Ends the sessions that are too old.
    fn end_sessions(&mut self, now: Time, local: &mut Local) {
        if !self.sessions.end_old(now, local.table()) {
            return;
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

    /// The peer is known by these keys from now on, the newest first. Keys are agreed on with the newest at once, and
    /// what there is goes on meanwhile.
    pub fn set_keys(
        &mut self,
        now: Time,
        keys: impl Iterator<Item = PublicKey>,
        local: &mut Local,
    ) {
        self.keys = keys.collect();
        self.renew(now, local);
    }

    /// Our keys have changed: keys are agreed on with the newest at once. What was agreed on with a key that is no more
    /// ours ends.
    pub fn handle_own_keys(&mut self, now: Time, local: &mut Local) {
        if self.used.is_some_and(|used| !local.is_ours(&used.own)) {
            self.used = None;
            self.begin_life(now, local);
        } else {
            self.renew(now, local);
        }
    }

    /// Calls in place of calls with other keys.
    fn renew(&mut self, now: Time, local: &mut Local) {
        self.calling.forget();
        self.calling.pair = 0;
        self.call(now, local);
    }

    /// Ends all sessions and calls, because a new life of this program begins.
    pub fn begin_life(&mut self, now: Time, local: &mut Local) {
        let had_session = self.sessions.end(local.table());
        self.own_incarnation = None;
        self.calling.forget();
        self.called.answered = None;
        if had_session {
            local.tell(Event::Expired { peer: self.id });
        }
        self.call(now, local);
    }

    /// The incarnation that we tell the peer. Each peer is told its own: when all state of a peer is
    /// forgotten, its numbers begin anew, and only another incarnation tells the peer so. `None` without
    /// randomness.
    fn own_incarnation(&mut self, local: &mut Local) -> Option<Incarnation> {
        if self.own_incarnation.is_none() {
            let drawn = draw(local.entropy()).ok()?;
            self.own_incarnation = Some(Incarnation(u64::from_be_bytes(drawn)));
        }
        self.own_incarnation
    }

    /// Ends all that there is with the peer.
    pub fn end(&mut self, local: &Local) {
        self.sessions.end(local.table());
    }

    /// An index that no session and no handshake of the peer has: its place in the table, and
    /// random bits, so that datagrams of an ended session are not taken for datagrams of the next.
    fn free_index(&self, local: &mut Local) -> Index {
        let base = u32::from(self.id.0) * SLOTS_PER_PEER;
        let mask = (1 << SLOT_BITS) - 1;
        let taken = |place: u32| {
            self.sessions
                .indexes()
                .chain(self.calling.indexes())
                .any(|index| index.bits() & mask == place)
        };
        let place = (base..base + SLOTS_PER_PEER).find(|place| !taken(*place));
        let random = u32::try_from(local.rng().below(1 << (24 - SLOT_BITS))).expect("11 bits");
        Index::new(place.unwrap_or(base) | random << SLOT_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::super::open::{Inbound, ReceiveKey};
    use super::super::seal::{Outbound, SendKey};
    use super::super::sessions::{MAX_SESSIONS, Session};
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

//! Manages all peers of a gateway: the deciding half, on a single thread.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use base::budget::Budget;
use base::entropy::{Entropy, NoRandomness};
use base::rng::Rng;
use base::time::{Time, earliest};

use super::guard::{Guard, Verdict};
use super::handshake::Pair;
use super::keys::{PrivateKey, PublicKey};
use super::local::{Event, Local, Outgoing};
use super::noise;
use super::open::{Heard, Opened, Opener, peer_of};
use super::peer::{Peer, Remote};
use super::seal::{Sealer, Unsealed};
use super::stats::{Dropped, Stats, Totals};
use super::wire::{Answer, Call, Cookie, Datagram, Hello, Index, MAC};
use super::{Incarnation, MAX_PEERS, PeerId};
use crate::PathId;

/// Why peers cannot be had.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unusable {
    /// No secrets can be drawn.
    #[error("{0}")]
    NoRandomness(#[from] NoRandomness),
    /// A peer with our own key.
    #[error("peer {0} has this gateway's own key")]
    OwnKey(usize),
    /// Two peers with one key.
    #[error("peer {0} has the key of one before it")]
    SameKey(usize),
    /// There are too many.
    #[error("{0} peers: at most {MAX_PEERS}")]
    TooMany(usize),
}

/// What became of a datagram.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Incoming {
    /// It was dropped, and counted.
    Dropped(Dropped),
    /// It was taken: a part of a handshake, a keepalive.
    Nothing,
    /// The datagram's content now stands at `payload` in it. Ask [`Peers::poll_event`] before using
    /// it.
    Payload {
        /// The sender.
        peer: PeerId,
        /// The sender's life in which the datagram was sealed.
        incarnation: Incarnation,
        /// Its number, which says the path, too ([`PathId::of`]).
        number: u64,
        /// Where the payload stands.
        payload: Range<usize>,
    },
}

/// All peers of a gateway.
pub struct Peers {
    local: Local,
    guard: Guard,
    /// By their positions; a place that is free is taken again.
    remotes: Vec<Option<Remote>>,
    by_key: BTreeMap<PublicKey, PeerId>,
    /// By the macs of the calls that were answered last: strangers' calls are looked for here first.
    answered: BTreeMap<[u8; MAC], PeerId>,
    opener: Opener,
    sealers: Vec<Option<Sealer>>,
    strangers: Strangers,
    next_timeout: Option<Time>,
}

impl Peers {
    /// The peers of a gateway with this key. `unix` is the time since 1970, read once; `rng` only
    /// spreads repetitions, secrets come from `entropy`. Those with an endpoint are called at once.
    ///
    /// # Errors
    /// When two have the same key, one has our own, there are too many, or no randomness.
    pub fn new(
        now: Time,
        unix: Duration,
        private_key: &PrivateKey,
        peers: &[Peer],
        rng: Rng,
        mut entropy: Box<dyn Entropy>,
    ) -> Result<Self, Unusable> {
        if peers.len() > MAX_PEERS {
            return Err(Unusable::TooMany(peers.len()));
        }
        let guard = Guard::new(now, &mut *entropy)?;
        let local = Local::new(now, unix, private_key, rng, entropy);
        let opener = Opener::new(Arc::clone(local.table()));
        let mut all = Self {
            local,
            guard,
            remotes: Vec::new(),
            by_key: BTreeMap::new(),
            answered: BTreeMap::new(),
            opener,
            sealers: Vec::new(),
            strangers: Strangers::new(now),
            next_timeout: None,
        };
        for peer in peers {
            all.add_peer(now, peer)?;
        }
        Ok(all)
    }

    /// Takes another peer, in the first place that is free. It is called at once if it has an
    /// endpoint.
    ///
    /// # Errors
    /// When the peer has our own key or another peer's key, or when there are too many peers.
    pub fn add_peer(&mut self, now: Time, peer: &Peer) -> Result<PeerId, Unusable> {
        let free = self.remotes.iter().position(Option::is_none);
        let position = free.unwrap_or(self.remotes.len());
        let id = PeerId::new(position).ok_or(Unusable::TooMany(position + 1))?;
        self.judge_keys(id, peer)?;
        if free.is_none() {
            self.remotes.push(None);
            self.sealers.push(None);
            self.local.grow();
        }
        self.by_key.extend(peer.public_keys().map(|key| (key, id)));
        self.remotes[position].insert(Remote::new(now, id, peer)).call(now, &mut self.local);
        self.note_timeout();
        Ok(id)
    }

    /// Our private key is `key` from now on, and `previous` counts too as long as peers know us by that one. Sessions
    /// go on, but for those agreed on with a key that is ours no more.
    ///
    /// # Errors
    /// When a key is a peer's. Nothing has changed then.
    pub fn set_own_keys(
        &mut self,
        now: Time,
        key: &PrivateKey,
        previous: Option<&PrivateKey>,
    ) -> Result<(), Unusable> {
        for own in [Some(key), previous].into_iter().flatten() {
            if let Some(peer) = self.by_key.get(&own.public_key()) {
                return Err(Unusable::OwnKey(peer.index()));
            }
        }
        self.local.set_identities([Some(key), previous].into_iter().flatten());
        for remote in self.remotes.iter_mut().flatten() {
            remote.handle_own_keys(now, &mut self.local);
        }
        self.note_timeout();
        Ok(())
    }

    /// A peer is known by the keys of `new` from now on. The session goes on, and keys are agreed on with its newest at
    /// once. Returns whether it could be done so: not if the session was agreed on with a key that is the peer's no
    /// more.
    ///
    /// # Errors
    /// When a key is ours or another peer's. Nothing has changed then.
    pub fn set_peer_keys(&mut self, now: Time, peer: PeerId, new: &Peer) -> Result<bool, Unusable> {
        self.judge_keys(peer, new)?;
        let Some(Some(remote)) = self.remotes.get_mut(peer.index()) else { return Ok(false) };
        if remote.used().is_none_or(|used| new.public_keys().all(|key| key != used.its)) {
            return Ok(false);
        }
        self.by_key.retain(|_, id| *id != peer);
        self.by_key.extend(new.public_keys().map(|key| (key, peer)));
        remote.set_keys(now, new.public_keys(), &mut self.local);
        self.note_timeout();
        Ok(true)
    }

    /// Forgets a peer and its keys. Its place may be another's afterwards.
    pub fn remove_peer(&mut self, peer: PeerId) {
        let Some(mut remote) = self.remotes.get_mut(peer.index()).and_then(Option::take) else {
            return;
        };
        remote.end(&self.local);
        self.by_key.retain(|_, id| *id != peer);
        self.answered.retain(|_, id| *id != peer);
        self.sealers[peer.index()] = None;
        self.local.drop_events(peer);
        self.note_timeout();
    }

    /// Takes a datagram. Data are opened in place.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Incoming {
        match self.opener.open(now, from, datagram) {
            Opened::Payload { peer, incarnation, number, payload, heard } => {
                if let Some(heard) = heard {
                    self.handle_heard(now, heard);
                }
                Incoming::Payload { peer, incarnation, number, payload }
            }
            Opened::Dropped(dropped) => Incoming::Dropped(dropped),
            Opened::Other => match self.handle_control(now, from, datagram) {
                Ok(()) => {
                    self.note_timeout();
                    Incoming::Nothing
                }
                Err(dropped) => {
                    self.local.table().note(|totals| totals.count(dropped));
                    Incoming::Dropped(dropped)
                }
            },
        }
    }

    /// Takes a datagram of a handshake that came sealed, by a further path: it counts as if it came from where the first
    /// path leads. Anything else is dropped, and counted.
    pub fn handle_carried(&mut self, now: Time, peer: PeerId, datagram: &mut [u8]) {
        let endpoint = self.endpoint(peer);
        let is_handshake = Datagram::parse(datagram).is_ok_and(|it| it.is_handshake());
        match endpoint.filter(|_| is_handshake) {
            Some(endpoint) => drop(self.handle_datagram(now, endpoint, datagram)),
            None => self.local.table().note(|totals| totals.count(Dropped::Malformed)),
        }
    }

    /// Takes what an [`Opener`] had to tell.
    pub fn handle_heard(&mut self, now: Time, heard: Heard) {
        let remote = owner(&mut self.remotes, heard.index);
        if remote.is_some_and(|remote| remote.handle_heard(now, heard, &mut self.local)) {
            self.note_timeout();
        }
    }

    /// The peer is silent, says its core: it is called at once, unless it is already.
    pub fn handle_silence(&mut self, now: Time, peer: PeerId) {
        self.let_act(peer, |remote, local| remote.call_urgently(now, local));
    }

    /// A packet for the peer came while there are no keys. It brings the next repetition of an unanswered call forward:
    /// eight in a row, then four a second at most.
    pub fn handle_wanted(&mut self, now: Time, peer: PeerId) {
        let remote = self.remotes.get_mut(peer.index()).and_then(Option::as_mut);
        if remote.is_some_and(|remote| remote.handle_wanted(now)) {
            self.note_timeout();
        }
    }

    /// Sets the addresses that the peer's name has now, where the peer may be called: 16 at most. The address where
    /// the peer is heard counts for more as long as the peer is heard there.
    pub fn handle_endpoints(&mut self, now: Time, peer: PeerId, endpoints: &[SocketAddr]) {
        self.let_act(peer, |remote, local| remote.handle_endpoints(now, endpoints, local));
    }

    /// A further path leads to the peer at this address, until the peer is heard from another one there.
    pub fn handle_further(&mut self, peer: PeerId, path: PathId, endpoint: SocketAddr) {
        self.let_act(peer, |remote, _| remote.handle_further(path, endpoint));
    }

    /// The first path leads to this address, even if the peer was last heard elsewhere: while the path was broken, it may
    /// have called by another.
    pub fn handle_first(&mut self, peer: PeerId, endpoint: SocketAddr) {
        self.let_act(peer, |remote, _| remote.handle_first(endpoint));
    }

    /// Tells where an earlier process of this gateway heard the peer last. The peer is called there at once, unless
    /// there is a session with it.
    pub fn handle_last_heard(&mut self, now: Time, peer: PeerId, endpoint: SocketAddr) {
        self.let_act(peer, |remote, local| remote.handle_last_heard(now, endpoint, local));
    }

    /// Takes the time since 1970, `unix`, from the wall clock. To be called before anything is
    /// sealed: if the wall clock has jumped, this machine may have been restored from a snapshot, as in
    /// [`Self::handle_copied`]. Returns whether a restored snapshot was assumed:
    /// there are events and datagrams then.
    pub fn handle_wall_clock(&mut self, now: Time, unix: Duration) -> bool {
        let has_jumped = self.local.has_jumped(now, unix);
        if has_jumped {
            self.handle_copied(now);
        }
        has_jumped
    }

    /// This machine may be a copy of another that goes on as well, with the same keys and numbers. All
    /// sessions end, and peers are called as by a gateway that has just started: a number used twice
    /// under a key would reveal the sealed content, and let others forge.
    pub fn handle_copied(&mut self, now: Time) {
        self.local.table().note(|totals| totals.copies += 1);
        self.answered.clear();
        for remote in self.remotes.iter_mut().flatten() {
            remote.begin_life(now, &mut self.local);
        }
        self.note_timeout();
    }

    /// Acts on deadlines that have passed. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.next_timeout.is_none_or(|due| due > now) {
            return;
        }
        for remote in self.remotes.iter_mut().flatten() {
            remote.handle_timeout(now, &mut self.local);
        }
        self.note_timeout();
    }

    /// Seals in place; see [`Sealer::seal`].
    ///
    /// # Errors
    /// When it is not sealed. The present core of the peer is meant, so that
    /// [`Unsealed::Superseded`] does not come.
    pub fn seal(
        &mut self,
        now: Time,
        peer: PeerId,
        number: u64,
        datagram: &mut [u8],
    ) -> Result<SocketAddr, Unsealed> {
        let sealer = self.sealers.get_mut(peer.index()).ok_or(Unsealed::NoSession)?;
        if let Some(sealer) = sealer {
            match sealer.seal(now, number, datagram) {
                Err(Unsealed::Superseded) => {}
                sealed => return sealed,
            }
        }
        let remote = self.remotes.get(peer.index()).and_then(Option::as_ref);
        let anew = remote.and_then(Remote::sealer);
        sealer.insert(anew.ok_or(Unsealed::NoSession)?).seal(now, number, datagram)
    }

    /// What the driver should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.local.poll_event()
    }

    /// The next handshake message or keepalive to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        let _ = now;
        self.local.poll_transmit()
    }

    /// When to call [`Peers::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.next_timeout
    }

    /// Seals for the present life of a peer; `None` before the first session with it.
    #[must_use]
    pub fn sealer(&self, peer: PeerId) -> Option<Sealer> {
        self.remote(peer)?.sealer()
    }

    /// Opens for all peers, on another thread.
    #[must_use]
    pub fn opener(&self) -> Opener {
        self.opener.clone()
    }

    /// Where the peer is.
    #[must_use]
    pub fn endpoint(&self, peer: PeerId) -> Option<SocketAddr> {
        self.remote(peer)?.endpoint()
    }

    /// Where the peer is on a further path.
    #[must_use]
    pub fn further(&self, peer: PeerId, path: PathId) -> Option<SocketAddr> {
        self.remote(peer)?.further(path)
    }

    /// Where the peer was heard from and is being asked whether it has moved there.
    #[must_use]
    pub fn asked(&self, peer: PeerId) -> Option<SocketAddr> {
        self.remote(peer)?.asked()
    }

    /// Where the peer is, and where it may be called.
    pub fn endpoints(&self, peer: PeerId) -> impl Iterator<Item = SocketAddr> {
        self.remote(peer).into_iter().flat_map(Remote::endpoints)
    }

    /// Whether something can be sealed for the peer now.
    #[must_use]
    pub fn has_session(&self, now: Time, peer: PeerId) -> bool {
        self.remote(peer).is_some_and(|remote| remote.has_session(now))
    }

    /// Our key and the peer's by which keys were agreed on last; `None` if never.
    #[must_use]
    pub fn used_keys(&self, peer: PeerId) -> Option<(PublicKey, PublicKey)> {
        let Pair { own, its } = self.remote(peer)?.used()?;
        Some((own, its))
    }

    /// When the peer was heard last; `None` if never.
    #[must_use]
    pub fn last_heard(&self, peer: PeerId) -> Option<Time> {
        self.remote(peer)?.last_heard()
    }

    /// When keys were agreed on with the peer last; `None` if never.
    #[must_use]
    pub fn last_handshake(&self, peer: PeerId) -> Option<Time> {
        self.remote(peer)?.last_handshake()
    }

    /// The counters of a peer.
    #[must_use]
    pub fn stats(&self, peer: PeerId) -> Stats {
        self.remote(peer).map(Remote::stats).unwrap_or_default()
    }

    /// The counters of what belongs to no peer.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals { overflow: self.local.overflow(), ..self.local.table().totals() }
    }

    fn handle_control(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Result<(), Dropped> {
        match Datagram::parse(datagram) {
            Ok(Datagram::Call(call)) => self.handle_call(now, from, &call),
            Ok(Datagram::Answer(answer)) => self.handle_answer(now, from, &answer),
            Ok(Datagram::Cookie(cookie)) => self.handle_cookie(now, &cookie),
            Ok(Datagram::Keepalive(sealed)) => {
                let heard = self.opener.open_keepalive(now, from, sealed, datagram)?;
                if let Some(heard) = heard {
                    self.handle_heard(now, heard);
                }
                Ok(())
            }
            Ok(Datagram::Data(_)) | Err(_) => Err(Dropped::Malformed),
        }
    }

    fn handle_call(&mut self, now: Time, from: SocketAddr, call: &Call<'_>) -> Result<(), Dropped> {
        let Some(place) = self.local.addressed(call.before_mac1, call.mac1) else {
            self.strangers.tell(now, from, None, &mut self.local);
            return Err(Dropped::NotForUs);
        };
        let answered = self.answered.get(call.mac1);
        if let Some(remote) = answered.and_then(|peer| self.remotes[peer.index()].as_mut()) {
            return remote.repeat_answer(now, from, &mut self.local);
        }
        let identity = &self.local.identities()[place];
        let (own, cookie_key) = (identity.public_key(), *identity.cookie_key());
        match self.guard.judge(now, from, call, &cookie_key, self.local.entropy()) {
            Verdict::Admit => {}
            Verdict::Refuse => return Err(Dropped::Busy),
            Verdict::SendCookie(cookie) => {
                self.local.table().note(|totals| totals.cookies += 1);
                self.local.send(from, cookie);
                return Err(Dropped::Busy);
            }
        }
        let (private_key, entropy) = self.local.private_key_and_entropy(place);
        let Some(heard) = noise::hear(private_key, call.noise, entropy) else {
            self.strangers.tell_unreadable(now, from, &mut self.local);
            return Err(Dropped::Forged);
        };
        let Some(peer) = self.by_key.get(&heard.from()) else {
            self.strangers.tell(now, from, Some(heard.from()), &mut self.local);
            return Err(Dropped::UnknownKey);
        };
        let hello = Hello::parse(heard.payload()).ok_or(Dropped::Malformed)?;
        let remote = self.remotes[peer.index()].as_mut().ok_or(Dropped::UnknownKey)?;
        let before = remote.answered().copied();
        let outcome = remote.handle_call(now, from, call, (own, heard), hello, &mut self.local);
        if outcome.is_ok() {
            if let Some(mac1) = before {
                self.answered.remove(&mac1);
            }
            self.answered.extend(remote.answered().map(|mac1| (*mac1, *peer)));
        }
        outcome
    }

    fn handle_answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        answer: &Answer<'_>,
    ) -> Result<(), Dropped> {
        let remote = owner(&mut self.remotes, answer.index).ok_or(Dropped::Unknown)?;
        remote.handle_answer(now, from, answer, &mut self.local)
    }

    fn handle_cookie(&mut self, now: Time, cookie: &Cookie<'_>) -> Result<(), Dropped> {
        let remote = owner(&mut self.remotes, cookie.index).ok_or(Dropped::Unknown)?;
        remote.handle_cookie(now, cookie, &mut self.local)
    }

    /// Whether no key of a peer is ours or another's.
    fn judge_keys(&self, id: PeerId, peer: &Peer) -> Result<(), Unusable> {
        for key in peer.public_keys() {
            if self.local.is_ours(&key) {
                return Err(Unusable::OwnKey(id.index()));
            }
            if self.by_key.get(&key).is_some_and(|other| *other != id) {
                return Err(Unusable::SameKey(id.index()));
            }
        }
        Ok(())
    }

    fn remote(&self, peer: PeerId) -> Option<&Remote> {
        self.remotes.get(peer.index())?.as_ref()
    }

    /// Lets a peer act, which may change when something is due.
    fn let_act(&mut self, peer: PeerId, act: impl FnOnce(&mut Remote, &mut Local)) {
        if let Some(Some(remote)) = self.remotes.get_mut(peer.index()) {
            act(remote, &mut self.local);
            self.note_timeout();
        }
    }

    fn note_timeout(&mut self) {
        let remotes = self.remotes.iter().flatten();
        self.next_timeout = remotes.map(Remote::next_timeout).fold(None, earliest);
    }
}

/// Reports callers that are no peers, but seldom, lest strangers fill the log.
struct Strangers {
    with_our_key: Budget,
    with_another: Budget,
    unreadable: Budget,
}

impl Strangers {
    const MOST: u32 = 3;
    const INTERVAL: Duration = Duration::from_secs(20);

    fn new(now: Time) -> Self {
        let budget = Budget::new(now, Self::MOST, Self::INTERVAL);
        Self { with_our_key: budget, with_another: budget, unreadable: budget }
    }

    fn tell(&mut self, now: Time, from: SocketAddr, key: Option<PublicKey>, local: &mut Local) {
        // A caller with our key deserves more attention than a sender of arbitrary octets.
        let budget = if key.is_some() { &mut self.with_our_key } else { &mut self.with_another };
        if budget.spend(now) {
            local.tell(Event::Stranger { from, key });
        }
    }

    fn tell_unreadable(&mut self, now: Time, from: SocketAddr, local: &mut Local) {
        if self.unreadable.spend(now) {
            local.tell(Event::Unreadable { from });
        }
    }
}

/// The peer that an index was drawn for.
fn owner(remotes: &mut [Option<Remote>], index: Index) -> Option<&mut Remote> {
    remotes.get_mut(peer_of(index))?.as_mut()
}

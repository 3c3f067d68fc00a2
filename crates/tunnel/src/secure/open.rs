//! Opens datagrams of all peers, by the indexes of their sessions.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use base::replay::{Stale, Window};
use base::time::Time;

use super::activity::Activity;
use super::data::{END_OF_NUMBERS, KEEPALIVES, SessionKey, lock, nonce};
use super::secret::Aead;
use super::stats::{Dropped, Totals};
use super::wire::{Datagram, Index, Sealed};
use super::{HEADER, Incarnation, PeerId};
use crate::{PATHS, PathId};

/// Length of the window of accepted numbers in words: 1 KiB.
const WINDOW_WORDS: usize = 128;

/// For so long after data a keepalive does not move the peer. A late keepalive from a path that the peer has
/// left would otherwise lead us back there, because keepalives are not numbered along with data. With a
/// longer time, we would lose a peer that has moved and only receives, if its only keepalive comes within
/// this time.
const DATA_DECIDE: Duration = Duration::from_millis(500);

/// Opens for all peers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Opener {
    table: Arc<Table>,
    seen: u64,
    slots: Vec<Option<Arc<ReceiveKey>>>,
}

/// What became of a datagram.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Opened {
    /// It was dropped, and counted.
    Dropped(Dropped),
    /// No data: for [`super::Peers::handle_datagram`].
    Other,
    /// The datagram's content now stands at `payload` in it.
    Payload {
        /// The sender.
        peer: PeerId,
        /// The sender's life in which the datagram was sealed.
        incarnation: Incarnation,
        /// Its number, which says the path, too ([`PathId::of`]).
        number: u64,
        /// Where the payload stands.
        payload: Range<usize>,
        /// To be told to [`super::Peers::handle_heard`], before the payload is used.
        heard: Option<Heard>,
    },
}

/// News of a peer that came with a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Heard {
    pub(crate) index: Index,
    pub(crate) path: PathId,
    pub(crate) from: SocketAddr,
    pub(crate) has_moved: bool,
}

impl Opener {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Self { table, seen: u64::MAX, slots: Vec::new() }
    }

    /// Opens a datagram of data in place.
    pub fn open(&mut self, now: Time, from: SocketAddr, datagram: &mut [u8]) -> Opened {
        match Datagram::parse(datagram) {
            Ok(Datagram::Data(sealed)) => match self.open_data(now, from, sealed, datagram) {
                Ok(opened) => opened,
                Err(dropped) => self.drop(dropped),
            },
            Ok(
                Datagram::Answer(_)
                | Datagram::Call(_)
                | Datagram::Cookie(_)
                | Datagram::Keepalive(_),
            ) => Opened::Other,
            Err(_) => self.drop(Dropped::Malformed),
        }
    }

    fn open_data(
        &mut self,
        now: Time,
        from: SocketAddr,
        sealed: Sealed,
        datagram: &mut [u8],
    ) -> Result<Opened, Dropped> {
        let key = self.key(now, sealed.index)?;
        let path = sealed.path;
        let counted = {
            let check = |heard: &HeardOf| {
                let counted = heard.window.rebuild(heard.hint, u32::BITS, sealed.low);
                heard.window.check(counted).map(|()| counted)
            };
            match key.inbound.known(path) {
                Some(heard) => check(&lock(heard)),
                None => check(&HeardOf::nothing()),
            }?
        };
        if counted >= END_OF_NUMBERS {
            return Err(Dropped::Forged);
        }
        let number = path.number(counted);
        let len = key.open(number, datagram)?;
        let has_moved = {
            let mut heard = lock(key.inbound.heard(path));
            // Another thread may have taken it in the meantime.
            let is_newest = heard.window.take(counted)?;
            if is_newest {
                heard.data_at = Some(now);
            }
            is_newest && heard.has_moved(from)
        };
        key.inbound.activity.heard(now, true);
        let heard = key.news(path, from, has_moved);
        let (peer, incarnation) = (key.peer, key.inbound.incarnation);
        Ok(Opened::Payload { peer, incarnation, number, payload: HEADER..HEADER + len, heard })
    }

    /// Opens a keepalive.
    pub(crate) fn open_keepalive(
        &mut self,
        now: Time,
        from: SocketAddr,
        sealed: Sealed,
        datagram: &mut [u8],
    ) -> Result<Option<Heard>, Dropped> {
        let key = self.key(now, sealed.index)?;
        if sealed.low < key.next_keepalive.load(Relaxed) {
            return Err(Dropped::Replayed);
        }
        key.open(KEEPALIVES | u64::from(sealed.low), datagram)?;
        if key.next_keepalive.fetch_max(sealed.low.saturating_add(1), Relaxed) > sealed.low {
            return Err(Dropped::Replayed);
        }
        let has_moved = {
            let mut heard = lock(key.inbound.heard(PathId::FIRST));
            let is_decided = heard.data_at.is_some_and(|at| now.since(at) < DATA_DECIDE);
            !is_decided && heard.has_moved(from)
        };
        key.inbound.activity.heard(now, false);
        Ok(key.news(PathId::FIRST, from, has_moved))
    }

    fn key(&mut self, now: Time, index: Index) -> Result<&ReceiveKey, Dropped> {
        let generation = self.table.generation.load(Acquire);
        if generation != self.seen {
            self.slots.clone_from(&lock(&self.table.slots));
            self.seen = generation;
        }
        match self.slots.get(slot(index)) {
            Some(Some(key)) if key.index != index => Err(Dropped::Unknown),
            Some(Some(key)) if now >= key.expires => Err(Dropped::Expired),
            Some(Some(key)) => Ok(key),
            Some(None) | None => Err(Dropped::Unknown),
        }
    }

    fn drop(&self, dropped: Dropped) -> Opened {
        self.table.note(|totals| totals.count(dropped));
        Opened::Dropped(dropped)
    }
}

/// All sessions of a gateway, by index.
#[derive(Debug)]
pub struct Table {
    generation: AtomicU64,
    slots: Mutex<Vec<Option<Arc<ReceiveKey>>>>,
    totals: Mutex<Totals>,
}

/// Sessions and handshakes of one peer at most.
pub const SLOTS_PER_PEER: u32 = 8;
/// The low bits of an index are the place in the table, the rest is random.
pub const SLOT_BITS: u32 = 13;

fn slot(index: Index) -> usize {
    const { assert!(SLOT_BITS <= u16::BITS) };
    let [_, _, high, low] = (index.bits() & ((1 << SLOT_BITS) - 1)).to_be_bytes();
    usize::from(u16::from_be_bytes([high, low]))
}

/// The position of the peer that an index was drawn for.
pub fn peer_of(index: Index) -> usize {
    slot(index) / SLOTS_PER_PEER as usize
}

impl Table {
    /// A table without a place for any peer.
    pub fn new() -> Arc<Self> {
        let (slots, totals) = (Mutex::default(), Mutex::default());
        Arc::new(Self { generation: AtomicU64::new(0), slots, totals })
    }

    /// Makes places for one more peer.
    pub fn grow(&self) {
        let mut slots = lock(&self.slots);
        let len = slots.len() + SLOTS_PER_PEER as usize;
        slots.resize(len, None);
        drop(slots);
        self.generation.fetch_add(1, Release);
    }

    pub fn put(&self, key: &Arc<ReceiveKey>) {
        if let Some(slot) = lock(&self.slots).get_mut(slot(key.index)) {
            *slot = Some(Arc::clone(key));
        }
        self.generation.fetch_add(1, Release);
    }

    pub fn remove(&self, index: Index) {
        if let Some(slot) = lock(&self.slots).get_mut(slot(index)) {
            *slot = None;
        }
        self.generation.fetch_add(1, Release);
    }

    /// Counts something that belongs to no peer.
    pub fn note(&self, count: impl FnOnce(&mut Totals)) {
        count(&mut lock(&self.totals));
    }

    pub fn totals(&self) -> Totals {
        *lock(&self.totals)
    }
}

/// A session's key for opening received datagrams.
#[derive(Debug)]
pub struct ReceiveKey {
    key: SessionKey,
    index: Index,
    peer: PeerId,
    inbound: Arc<Inbound>,
    is_confirmed: AtomicBool,
    next_keepalive: AtomicU32,
    expires: Time,
}

impl ReceiveKey {
    /// A key; `is_confirmed` if the peer is known to have its counterpart.
    pub fn new(
        key: Aead,
        index: Index,
        peer: PeerId,
        inbound: Arc<Inbound>,
        is_confirmed: bool,
        expires: Time,
    ) -> Arc<Self> {
        Arc::new(Self {
            key: SessionKey::new(key),
            index,
            peer,
            inbound,
            is_confirmed: AtomicBool::new(is_confirmed),
            next_keepalive: AtomicU32::new(0),
            expires,
        })
    }

    pub fn index(&self) -> Index {
        self.index
    }

    /// The session has ended: nothing is opened any more, and the key is overwritten.
    pub fn end(&self) {
        self.key.end();
    }

    fn open(&self, number: u64, datagram: &mut [u8]) -> Result<usize, Dropped> {
        let key = self.key.get();
        let key = key.as_ref().ok_or(Dropped::Expired)?;
        key.open(nonce(number), &[], &mut datagram[HEADER..]).ok_or(Dropped::Forged)
    }

    /// What the control half should know, if anything: the first use, or another address.
    fn news(&self, path: PathId, from: SocketAddr, has_moved: bool) -> Option<Heard> {
        let is_first = !self.is_confirmed.load(Relaxed) && !self.is_confirmed.swap(true, Relaxed);
        (has_moved || is_first).then_some(Heard { index: self.index, path, from, has_moved })
    }
}

/// The state of reception from one life of a peer, under any keys.
#[derive(Debug)]
pub struct Inbound {
    incarnation: Incarnation,
    first: Mutex<HeardOf>,
    /// The further paths, once something was heard by one of them.
    further: OnceLock<Box<[Mutex<HeardOf>; PATHS - 1]>>,
    activity: Arc<Activity>,
}

#[derive(Debug)]
struct HeardOf {
    window: Window<WINDOW_WORDS>,
    /// The next number announced by the peer.
    hint: u64,
    /// Where its newest datagram came from.
    endpoint: Option<SocketAddr>,
    /// When the newest data came.
    data_at: Option<Time>,
}

impl Inbound {
    pub fn new(incarnation: Incarnation, activity: Arc<Activity>) -> Arc<Self> {
        let (first, further) = (Mutex::new(HeardOf::nothing()), OnceLock::new());
        Arc::new(Self { incarnation, first, further, activity })
    }

    /// What was heard by a path; `None` if nothing was by any further one.
    fn known(&self, path: PathId) -> Option<&Mutex<HeardOf>> {
        let Some(place) = path.index().checked_sub(1) else { return Some(&self.first) };
        self.further.get().map(|further| &further[place])
    }

    /// What was heard by a path.
    fn heard(&self, path: PathId) -> &Mutex<HeardOf> {
        let Some(place) = path.index().checked_sub(1) else { return &self.first };
        let nothing = || Box::new(std::array::from_fn(|_| Mutex::new(HeardOf::nothing())));
        &self.further.get_or_init(nothing)[place]
    }

    /// The peer's life from which datagrams are received.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The peer announces the number of its next datagram.
    pub fn expect(&self, number: u64) {
        let mut heard = lock(&self.first);
        heard.hint = heard.hint.max(number);
    }

    /// The next datagram of a path is news, wherever it comes from.
    pub fn forget_endpoint(&self, path: PathId) {
        lock(self.heard(path)).endpoint = None;
    }

    /// The peer is known to be at this address: datagrams from there are no news.
    pub fn set_endpoint(&self, endpoint: SocketAddr) {
        lock(&self.first).endpoint = Some(endpoint);
    }
}

impl HeardOf {
    fn nothing() -> Self {
        Self { window: Window::new(), hint: 0, endpoint: None, data_at: None }
    }

    fn has_moved(&mut self, from: SocketAddr) -> bool {
        self.endpoint.replace(from) != Some(from)
    }
}

impl From<Stale> for Dropped {
    fn from(stale: Stale) -> Self {
        match stale {
            Stale::Again => Self::Replayed,
            Stale::TooOld => Self::TooOld,
        }
    }
}

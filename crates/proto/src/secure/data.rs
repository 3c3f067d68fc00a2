//! The data plane: sealing and opening, on any thread, with the keys that [`super::Peers`] gives.
//!
//! ```text
//!   Outbound, one per life of a peer      Table, one per gateway
//!     key, endpoint ◀── Sealer              index ─▶ key, Inbound ◀── Opener
//!     next number                                     window, where the peer is heard
//! ```
//! Both halves keep a copy of what they use and look at one atomic number to see whether it is
//! still the newest. A number is sealed once: they have to increase, and an [`Outbound`] belongs to
//! one life of the peer, so that a core made anew never meets the keys of the one before.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::replay::{Stale, Window};
use crate::serial;
use crate::time::Time;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::stats::{Dropped, Totals};
use super::wire::{Datagram, Index, Sealed};
use super::{HEADER, Incarnation, OVERHEAD, PeerId, TAG};

/// Keepalives are counted from here; the cores' numbers stay below.
const KEEPALIVES: u64 = 1 << 63;
/// Numbers from here on are not sealed: far from the keepalives', and from any wrap.
const END_OF_NUMBERS: u64 = 1 << 62;
/// Words of the window of numbers that were taken: 1 KiB.
const WINDOW_WORDS: usize = 128;

/// Why a payload was not sealed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unsealed {
    /// There are no keys that are young enough, or no address.
    #[error("there is no session with the peer")]
    NoSession,
    /// It is not greater than one before. Nothing is ever sealed twice under a number.
    #[error("the number was used, or is out of order")]
    NumberReused,
    /// The peer has started anew: make the core anew, and take its new [`Sealer`].
    #[error("the peer has started anew")]
    Superseded,
    /// There is no room for header and tag.
    #[error("the datagram has no room for header and tag")]
    TooShort,
}

/// Seals for one peer while it lives. Cheap to clone; one thread at a time seals for a peer.
#[derive(Clone, Debug)]
pub struct Sealer {
    outbound: Arc<Outbound>,
    seen: u64,
    route: Option<(Arc<SendKey>, SocketAddr)>,
}

impl Sealer {
    pub(super) fn new(outbound: Arc<Outbound>) -> Self {
        Self { outbound, seen: 0, route: None }
    }

    /// Seals in place and says where it goes. `datagram` is [`HEADER`] octets of room, the payload,
    /// and [`TAG`] octets of room.
    ///
    /// # Errors
    /// When it is not sealed; the octets are unchanged then, and the number is still free unless
    /// it was used.
    pub fn seal(
        &mut self,
        now: Time,
        number: u64,
        datagram: &mut [u8],
    ) -> Result<SocketAddr, Unsealed> {
        let generation = self.outbound.generation.load(Acquire);
        if generation != self.seen {
            let route = lock(&self.outbound.route);
            if route.is_superseded {
                return Err(Unsealed::Superseded);
            }
            self.route = route.key.clone().zip(route.endpoint);
            self.seen = generation;
        }
        let Some((key, endpoint)) = self.route.as_ref().filter(|(key, _)| now < key.expires) else {
            return Err(Unsealed::NoSession);
        };
        if datagram.len() < OVERHEAD {
            return Err(Unsealed::TooShort);
        }
        if number >= END_OF_NUMBERS
            || self.outbound.next_number.fetch_max(number + 1, Relaxed) > number
        {
            return Err(Unsealed::NumberReused);
        }
        let low = serial::low32(number);
        key.seal(Sealed { index: key.receiver, low }.data(), number, datagram);
        self.outbound.activity.sent(now);
        Ok(*endpoint)
    }
}

/// Where sealed datagrams go, while one life of a peer lasts.
#[derive(Debug)]
pub(super) struct Outbound {
    generation: AtomicU64,
    route: Mutex<Route>,
    next_number: AtomicU64,
    activity: Arc<Activity>,
}

#[derive(Debug, Default)]
struct Route {
    key: Option<Arc<SendKey>>,
    endpoint: Option<SocketAddr>,
    is_superseded: bool,
}

impl Outbound {
    pub(super) fn new(activity: Arc<Activity>) -> Arc<Self> {
        Arc::new(Self {
            generation: AtomicU64::new(1),
            route: Mutex::default(),
            next_number: AtomicU64::new(0),
            activity,
        })
    }

    pub(super) fn set_key(&self, key: Option<Arc<SendKey>>) {
        lock(&self.route).key = key;
        self.generation.fetch_add(1, Release);
    }

    pub(super) fn set_endpoint(&self, endpoint: SocketAddr) {
        lock(&self.route).endpoint = Some(endpoint);
        self.generation.fetch_add(1, Release);
    }

    /// Nothing is sealed by this any more.
    pub(super) fn supersede(&self) {
        *lock(&self.route) = Route { is_superseded: true, ..Route::default() };
        self.generation.fetch_add(1, Release);
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next_number.load(Relaxed)
    }
}

/// One session's key for what we send.
pub(super) struct SendKey {
    key: LessSafeKey,
    receiver: Index,
    keepalives: AtomicU32,
    pub(super) expires: Time,
}

impl SendKey {
    pub(super) fn new(key: &[u8; 32], receiver: Index, expires: Time) -> Arc<Self> {
        Arc::new(Self { key: cipher(key), receiver, keepalives: AtomicU32::new(0), expires })
    }

    /// A sealed nothing; `None` when there were too many.
    pub(super) fn keepalive(&self) -> Option<Vec<u8>> {
        let low =
            self.keepalives.fetch_update(Relaxed, Relaxed, |count| count.checked_add(1)).ok()?;
        let mut datagram = vec![0; OVERHEAD];
        let header = Sealed { index: self.receiver, low }.keepalive();
        self.seal(header, KEEPALIVES | u64::from(low), &mut datagram);
        Some(datagram)
    }

    fn seal(&self, header: [u8; HEADER], number: u64, datagram: &mut [u8]) {
        let end = datagram.len() - TAG;
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce(number), Aad::empty(), &mut datagram[HEADER..end])
            .expect("a datagram is shorter than what AES-GCM can seal");
        datagram[..HEADER].copy_from_slice(&header);
        datagram[end..].copy_from_slice(tag.as_ref());
    }
}

impl std::fmt::Debug for SendKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SendKey({:06x}, until {:?})", self.receiver.bits(), self.expires)
    }
}

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
    /// What it carried now stands at `payload` in it.
    Payload {
        /// Whose it is.
        peer: PeerId,
        /// The peer's life that it belongs to.
        incarnation: Incarnation,
        /// Its number.
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
    pub(super) index: Index,
    pub(super) from: SocketAddr,
    pub(super) has_moved: bool,
}

impl Opener {
    pub(super) fn new(table: Arc<Table>) -> Self {
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
        let number = {
            let heard = lock(&key.inbound.heard);
            let number = heard.window.rebuild(heard.hint, u32::BITS, sealed.low);
            heard.window.check(number)?;
            number
        };
        if number >= END_OF_NUMBERS {
            return Err(Dropped::Forged);
        }
        let len = key.open(number, datagram)?;
        let has_moved = {
            let mut heard = lock(&key.inbound.heard);
            // Another thread may have taken it in the meantime.
            let is_newest = heard.window.take(number)?;
            is_newest && heard.has_moved(from)
        };
        key.inbound.activity.heard(now, true);
        let heard = key.news(from, has_moved);
        let (peer, incarnation) = (key.peer, key.inbound.incarnation);
        Ok(Opened::Payload { peer, incarnation, number, payload: HEADER..HEADER + len, heard })
    }

    /// Opens a keepalive.
    pub(super) fn open_keepalive(
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
        let has_moved = lock(&key.inbound.heard).has_moved(from);
        key.inbound.activity.heard(now, false);
        Ok(key.news(from, has_moved))
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
        lock(&self.table.totals).count(dropped);
        Opened::Dropped(dropped)
    }
}

/// All sessions of a gateway, by index.
#[derive(Debug)]
pub(super) struct Table {
    generation: AtomicU64,
    slots: Mutex<Vec<Option<Arc<ReceiveKey>>>>,
    totals: Mutex<Totals>,
}

/// Sessions and handshakes of one peer at most.
pub(super) const SLOTS_PER_PEER: u32 = 8;
/// The low bits of an index are the place in the table, the rest is random.
pub(super) const SLOT_BITS: u32 = 13;

fn slot(index: Index) -> usize {
    let low = index.bits() & ((1 << SLOT_BITS) - 1);
    usize::try_from(low).expect("13 bits")
}

/// The position of the peer that an index was drawn for.
pub(super) fn peer_of(index: Index) -> usize {
    slot(index) / SLOTS_PER_PEER as usize
}

impl Table {
    /// A table without a place for any peer.
    pub(super) fn new() -> Arc<Self> {
        let (slots, totals) = (Mutex::default(), Mutex::default());
        Arc::new(Self { generation: AtomicU64::new(0), slots, totals })
    }

    /// Makes places for one more peer.
    pub(super) fn grow(&self) {
        let mut slots = lock(&self.slots);
        let len = slots.len() + SLOTS_PER_PEER as usize;
        slots.resize(len, None);
        drop(slots);
        self.generation.fetch_add(1, Release);
    }

    pub(super) fn put(&self, key: &Arc<ReceiveKey>) {
        if let Some(slot) = lock(&self.slots).get_mut(slot(key.index)) {
            *slot = Some(Arc::clone(key));
        }
        self.generation.fetch_add(1, Release);
    }

    pub(super) fn remove(&self, index: Index) {
        if let Some(slot) = lock(&self.slots).get_mut(slot(index)) {
            *slot = None;
        }
        self.generation.fetch_add(1, Release);
    }

    pub(super) fn totals(&self) -> Totals {
        *lock(&self.totals)
    }
}

/// One session's key for what we receive.
pub(super) struct ReceiveKey {
    key: LessSafeKey,
    pub(super) index: Index,
    peer: PeerId,
    inbound: Arc<Inbound>,
    is_confirmed: AtomicBool,
    next_keepalive: AtomicU32,
    expires: Time,
}

impl ReceiveKey {
    /// A key; `is_confirmed` if the peer is known to have its counterpart.
    pub(super) fn new(
        key: &[u8; 32],
        index: Index,
        peer: PeerId,
        inbound: Arc<Inbound>,
        is_confirmed: bool,
        expires: Time,
    ) -> Arc<Self> {
        Arc::new(Self {
            key: cipher(key),
            index,
            peer,
            inbound,
            is_confirmed: AtomicBool::new(is_confirmed),
            next_keepalive: AtomicU32::new(0),
            expires,
        })
    }

    fn open(&self, number: u64, datagram: &mut [u8]) -> Result<usize, Dropped> {
        let sealed = &mut datagram[HEADER..];
        let opened = self.key.open_in_place(nonce(number), Aad::empty(), sealed);
        opened.map(|payload| payload.len()).map_err(|_| Dropped::Forged)
    }

    /// What the control half should know, if anything: the first use, or another address.
    fn news(&self, from: SocketAddr, has_moved: bool) -> Option<Heard> {
        let is_first = !self.is_confirmed.load(Relaxed) && !self.is_confirmed.swap(true, Relaxed);
        (has_moved || is_first).then_some(Heard { index: self.index, from, has_moved })
    }
}

impl std::fmt::Debug for ReceiveKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReceiveKey({:06x}, until {:?})", self.index.bits(), self.expires)
    }
}

/// What was heard of one life of a peer, under whatever keys.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) incarnation: Incarnation,
    heard: Mutex<HeardOf>,
    activity: Arc<Activity>,
}

#[derive(Debug)]
struct HeardOf {
    window: Window<WINDOW_WORDS>,
    /// The peer said that it would go on with this number.
    hint: u64,
    /// Where its newest datagram came from.
    endpoint: Option<SocketAddr>,
}

impl Inbound {
    pub(super) fn new(incarnation: Incarnation, activity: Arc<Activity>) -> Arc<Self> {
        let heard = Mutex::new(HeardOf { window: Window::new(), hint: 0, endpoint: None });
        Arc::new(Self { incarnation, heard, activity })
    }

    /// The peer says that its datagrams go on with this number.
    pub(super) fn expect(&self, number: u64) {
        let mut heard = lock(&self.heard);
        heard.hint = heard.hint.max(number);
    }

    /// The peer is known to be at this address, so that hearing it there is no news.
    pub(super) fn set_endpoint(&self, endpoint: SocketAddr) {
        lock(&self.heard).endpoint = Some(endpoint);
    }
}

impl HeardOf {
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

/// When a peer was last spoken to and heard, in nanoseconds; 0 is never.
#[derive(Debug, Default)]
pub(super) struct Activity {
    sent: AtomicU64,
    heard_data: AtomicU64,
    unanswered: AtomicU64,
}

impl Activity {
    fn sent(&self, now: Time) {
        let now = now.as_nanos().max(1);
        self.sent.store(now, Relaxed);
        if self.unanswered.load(Relaxed) == 0 {
            self.unanswered.store(now, Relaxed);
        }
    }

    /// A keepalive went out: it asks for no answer.
    pub(super) fn sent_keepalive(&self, now: Time) {
        self.sent.store(now.as_nanos().max(1), Relaxed);
    }

    fn heard(&self, now: Time, is_data: bool) {
        if is_data {
            self.heard_data.store(now.as_nanos().max(1), Relaxed);
        }
        if self.unanswered.load(Relaxed) != 0 {
            self.unanswered.store(0, Relaxed);
        }
    }

    /// Since when the peer has not answered, though it was sent something.
    pub(super) fn unanswered_since(&self) -> Option<Time> {
        match self.unanswered.load(Relaxed) {
            0 => None,
            nanos => Some(Time::from_nanos(nanos)),
        }
    }

    pub(super) fn forget_unanswered(&self) {
        self.unanswered.store(0, Relaxed);
    }

    pub(super) fn last_sent(&self) -> Time {
        Time::from_nanos(self.sent.load(Relaxed))
    }

    /// Whether data came after the last that was sent.
    pub(super) fn owes_a_sign(&self) -> bool {
        self.heard_data.load(Relaxed) > self.sent.load(Relaxed)
    }
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("a key of 32 octets"))
}

/// The nonce of Noise's AESGCM: 32 zero bits, then the number.
fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// What these locks guard is whole at any instant, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Seals datagrams to one life of a peer, under the current session's key.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

use base::serial;
use base::time::Time;

use super::activity::Activity;
use super::data::{END_OF_NUMBERS, KEEPALIVES, SessionKey, lock, nonce};
use super::secret::Aead;
use super::wire::{Index, Sealed};
use super::{HEADER, OVERHEAD, TAG};
use crate::number::sequence;
use crate::{PATHS, PathId};

/// Why a payload was not sealed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unsealed {
    /// No keys are young enough, or no address is known.
    #[error("there is no session with the peer")]
    NoSession,
    /// The number is not greater than an earlier one. Nothing is ever sealed twice under a number.
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
    route: Route,
}

impl Sealer {
    pub(crate) fn new(outbound: Arc<Outbound>) -> Self {
        Self { outbound, seen: 0, route: Route::default() }
    }

    /// Seals a datagram in place and returns its destination, where the peer is on the path that `number` says.
    /// `datagram` is [`HEADER`] octets of room, the payload, and [`TAG`] octets of room.
    ///
    /// # Errors
    /// When the datagram is not sealed; the octets are unchanged then, and the number is still free
    /// unless used before.
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
            self.route = route.clone();
            self.seen = generation;
        }
        let Some(path) = PathId::of(number) else { return Err(Unsealed::NumberReused) };
        let counted = sequence(number);
        let key = self.route.key.as_ref().filter(|key| now < key.expires);
        let Some((key, endpoint)) = key.zip(self.route.endpoints[path.index()]) else {
            return Err(Unsealed::NoSession);
        };
        if datagram.len() < OVERHEAD {
            return Err(Unsealed::TooShort);
        }
        let sealed = key.key.get();
        let Some(aead) = &*sealed else { return Err(Unsealed::NoSession) };
        let next = &self.outbound.next[path.index()];
        if counted >= END_OF_NUMBERS || next.fetch_max(counted + 1, Relaxed) > counted {
            return Err(Unsealed::NumberReused);
        }
        let low = serial::low32(counted);
        seal(aead, Sealed { index: key.receiver, low, path }.data(), number, datagram);
        self.outbound.activity.sent(now);
        Ok(endpoint)
    }
}

/// Where sealed datagrams go, while one life of a peer lasts.
#[derive(Debug)]
pub struct Outbound {
    generation: AtomicU64,
    route: Mutex<Route>,
    /// What the next datagram of each path is counted.
    next: [AtomicU64; PATHS],
    activity: Arc<Activity>,
}

#[derive(Clone, Debug, Default)]
struct Route {
    key: Option<Arc<SendKey>>,
    /// Where the peer is on each path.
    endpoints: [Option<SocketAddr>; PATHS],
    is_superseded: bool,
}

impl Outbound {
    pub fn new(activity: Arc<Activity>) -> Arc<Self> {
        Arc::new(Self {
            generation: AtomicU64::new(1),
            route: Mutex::default(),
            next: Default::default(),
            activity,
        })
    }

    pub fn set_key(&self, key: Option<Arc<SendKey>>) {
        lock(&self.route).key = key;
        self.generation.fetch_add(1, Release);
    }

    pub fn set_endpoint(&self, path: PathId, endpoint: SocketAddr) {
        lock(&self.route).endpoints[path.index()] = Some(endpoint);
        self.generation.fetch_add(1, Release);
    }

    /// Nothing is sealed by this any more.
    pub fn supersede(&self) {
        *lock(&self.route) = Route { is_superseded: true, ..Route::default() };
        self.generation.fetch_add(1, Release);
    }

    /// The number of the next datagram on the first path.
    pub fn next_number(&self) -> u64 {
        self.next[0].load(Relaxed)
    }
}

/// A session's key for sealing datagrams.
#[derive(Debug)]
pub struct SendKey {
    key: SessionKey,
    receiver: Index,
    keepalives: AtomicU32,
    expires: Time,
}

impl SendKey {
    pub fn new(key: Aead, receiver: Index, expires: Time) -> Arc<Self> {
        let key = SessionKey::new(key);
        Arc::new(Self { key, receiver, keepalives: AtomicU32::new(0), expires })
    }

    /// The session has ended: nothing is sealed any more, and the key is overwritten.
    pub fn end(&self) {
        self.key.end();
    }

    /// A sealed nothing; `None` when there were too many.
    pub fn keepalive(&self) -> Option<Vec<u8>> {
        let key = self.key.get();
        let low =
            self.keepalives.fetch_update(Relaxed, Relaxed, |count| count.checked_add(1)).ok()?;
        let mut datagram = vec![0; OVERHEAD];
        let header = Sealed { index: self.receiver, low, path: PathId::FIRST }.keepalive();
        seal(key.as_ref()?, header, KEEPALIVES | u64::from(low), &mut datagram);
        Some(datagram)
    }
}

fn seal(key: &Aead, header: [u8; HEADER], number: u64, datagram: &mut [u8]) {
    let end = datagram.len() - TAG;
    let tag = key.seal(nonce(number), &[], &mut datagram[HEADER..end]);
    datagram[..HEADER].copy_from_slice(&header);
    datagram[end..].copy_from_slice(tag.as_ref());
}

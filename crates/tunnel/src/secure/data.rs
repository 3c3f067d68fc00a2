//! The data plane, sealing and opening on any thread with the keys that [`super::Peers`] gives: what
//! both halves share.
//!
//! ```text
//!   Outbound, one per life of a peer      Table, one per gateway
//!     key; of each path:                    index ─▶ key, Inbound ◀── Opener
//!     endpoint, next ◀── Sealer                       of each path: window, where the peer is heard
//! ```
//! Both halves keep a copy of what they use and look at one atomic number to see whether it is
//! still the newest. A number is sealed once: they have to increase, and an `Outbound` belongs to
//! one life of the peer, so that a core made anew never meets the keys of the one before.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use ring::aead::Nonce;

use super::secret::Aead;

/// Keepalives are counted from here; the cores' numbers stay below.
pub const KEEPALIVES: u64 = 1 << 63;
/// Of each path, what is counted from here on is not sealed: far from the numbers of the next path, of the keepalives,
/// and from any wrap.
pub const END_OF_NUMBERS: u64 = 1 << 55;

/// The nonce of Noise's AESGCM: 32 zero bits, then the number.
pub fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// What these locks guard is whole at any instant, so a panic elsewhere does not spoil it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session's key, which is overwritten when the session ends, whoever still refers to it.
pub struct SessionKey(RwLock<Option<Aead>>);

impl SessionKey {
    pub fn new(key: Aead) -> Self {
        Self(RwLock::new(Some(key)))
    }

    /// The key, while the session lasts.
    pub fn get(&self) -> RwLockReadGuard<'_, Option<Aead>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session has ended.
    pub fn end(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(secret)")
    }
}

//! Open devices of a gateway, which the service manager keeps for the next gateway during a restart.
//!
//! ```text
//!   gateway ── FDSTORE=1, FDNAME=…, descriptor ──▶ service manager ── LISTEN_FDS, descriptor ──▶ next gateway
//! ```
//! No key is left, and no number of a datagram: a successor agrees on new keys with every peer.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use crate::sys::passing;

/// A descriptor, and the name by which the successor finds it.
#[derive(Debug)]
pub struct Left {
    pub(crate) name: &'static str,
    pub(crate) descriptor: OwnedFd,
}

/// The descriptors that a predecessor has left to this process.
#[derive(Clone, Debug, Default)]
pub struct Legacy(Arc<Mutex<Vec<(String, OwnedFd)>>>);

impl Legacy {
    /// The descriptors that the service manager has handed to this process.
    ///
    /// # Errors
    /// When the service manager's words about them make no sense.
    pub fn find() -> io::Result<Self> {
        let all = passing::inherit()?;
        Ok(Self(Arc::new(Mutex::new(all))))
    }

    /// Takes the descriptor called `name`, to continue its use.
    pub fn take(&self, name: &str) -> Option<OwnedFd> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = all.iter().position(|(its, _)| its == name)?;
        Some(all.swap_remove(place).1)
    }

    /// The names of the descriptors that nobody has taken.
    pub fn names(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Closes the descriptors that nobody has taken.
    pub fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

//! Tries services that wait for an address of this host again as soon as the host has other addresses.
//!
//! A gateway that stands by for another waits for the address that both share, and has to speak at once when it comes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use base::time::Time;
use host::Observer;
use host::observer::{Interest, Subscription};
use tracing::warn;

use super::Supervisor;
use super::slot::Slot;

/// Notices that are read before others have their turn.
const NOTICES: usize = 256;

/// The notices of the host, and the addresses with which services were tried last.
#[derive(Debug)]
pub struct Awaited {
    changes: Subscription,
    addresses: BTreeSet<IpAddr>,
}

impl Awaited {
    fn new(observer: &Observer) -> anyhow::Result<Self> {
        let changes = observer.subscribe(Interest::Host)?;
        Ok(Self { changes, addresses: observer.addresses() })
    }

    /// Whether the host has other addresses than when this was asked last.
    fn have_changed(&mut self, observer: &Observer) -> bool {
        self.changes.read(NOTICES, |_| {});
        let now = observer.addresses();
        let have_changed = now != self.addresses;
        self.addresses = now;
        have_changed
    }
}

impl AsFd for Awaited {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

impl Supervisor {
    /// Hears of addresses while a service waits for something of this host.
    pub fn await_addresses(&mut self) {
        let is_waiting = self.slots.iter().any(Slot::awaits_host);
        if !is_waiting {
            self.awaited = None;
        } else if self.awaited.is_none() {
            match Awaited::new(&self.observer) {
                Ok(awaited) => self.awaited = Some(awaited),
                // Services are tried every second all the same.
                Err(why) => warn!(why = %format!("{why:#}"), "new addresses are not heard"),
            }
        }
    }

    /// Retries services that wait for a missing part of this host, if the host's addresses have changed.
    pub fn retry_with_addresses(&mut self, now: Time) {
        let Some(awaited) = &mut self.awaited else { return };
        if awaited.have_changed(&self.observer) {
            let waiting = self.slots.iter_mut().filter(|slot| slot.awaits_host());
            waiting.for_each(|slot| slot.retry_now(now));
        }
    }
}

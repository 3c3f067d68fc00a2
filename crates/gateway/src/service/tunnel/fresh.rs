//! Decides when calls leave from fresh ports: a peer called in vain for long may be behind an address translator with
//! a dead mapping for the usual port.

use std::time::Duration;

use base::time::Time;

use super::sockets::Way;

/// Least time between two changes of the fresh port, so that an answer may reach the port.
const PAUSE: Duration = Duration::from_secs(10);

/// The fresh ports, which all peers share.
#[derive(Debug, Default)]
pub struct Ports {
    /// Number of sockets at the addresses of `listen`; the sockets behind them have the fresh ports.
    listening: usize,
    changed_at: Option<Time>,
    /// Nobody needs them any more.
    is_over: bool,
}

/// Where a handshake or keepalive leaves from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum From {
    /// By this way, or else by a suitable way.
    Usual(Option<Way>),
    /// From a fresh port; if `is_new`, from another port than before.
    Fresh {
        /// Whether it is another.
        is_new: bool,
    },
}

impl Ports {
    pub fn new(listening: usize) -> Self {
        Self { listening, ..Self::default() }
    }

    /// Whether a way is from a fresh port.
    pub fn is_fresh(&self, way: Way) -> bool {
        way.socket >= self.listening
    }

    /// The way of a peer's handshakes and keepalives, except calls that ask for a fresh port: after calls in vain from
    /// a fresh port, the usual port has its turns again.
    pub fn usual(&self, way: Option<Way>, is_called_afresh: bool) -> Option<Way> {
        way.filter(|way| !is_called_afresh || !self.is_fresh(*way))
    }

    /// The usable rest of a way whose address may be unreachable now. A fresh port stays: it is in use because the
    /// other ports do not work.
    pub fn loosened(&self, way: Option<Way>) -> Option<Way> {
        way.filter(|way| self.is_fresh(*way)).map(|way| Way {
            source: None,
            interface: None,
            ..way
        })
    }

    /// Changes the fresh ports, unless that was done a moment ago.
    pub fn change(&mut self, now: Time) -> bool {
        let may = self.changed_at.is_none_or(|at| now.since(at) >= PAUSE);
        if may {
            self.changed_at = Some(now);
        }
        may
    }

    /// Nobody is called from fresh ports any more, or heard at them.
    pub fn give_back(&mut self) {
        self.is_over |= self.changed_at.take().is_some();
    }

    /// Whether the fresh ports are to be given back now.
    pub fn take_over(&mut self) -> bool {
        std::mem::take(&mut self.is_over)
    }
}

//! When calls leave from fresh ports: a peer that was called in vain for long may be behind an address translator that keeps
//! a dead mapping for the port that all else leaves from.

use std::time::Duration;

use proto::secure::{Fresh, PeerId};
use proto::time::Time;

use super::sockets::Way;
use super::state::{Link, State};

/// Between two changes of the fresh port at least, so that an answer to it may come.
const PAUSE: Duration = Duration::from_secs(10);

/// The fresh ports, which all peers share.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// Sockets at the addresses of `listen`; those behind them have the fresh ports.
    listening: usize,
    changed_at: Option<Time>,
    /// Nobody needs them any more.
    is_over: bool,
}

/// Where a handshake or keepalive leaves from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum From {
    /// By this way, or one that suits.
    Usual(Option<Way>),
    /// From a fresh port, and another than before if it is new.
    Fresh {
        /// Whether it is another.
        is_new: bool,
    },
}

impl Ports {
    pub(super) fn new(listening: usize) -> Self {
        Self { listening, ..Self::default() }
    }

    /// Whether a way is from a fresh port.
    pub(super) fn is_fresh(&self, way: Way) -> bool {
        way.socket >= self.listening
    }

    /// The way of a peer's handshakes and keepalives but for those that ask for a fresh port: after calls in vain from such a
    /// port the usual one has its turns again.
    pub(super) fn usual(&self, link: &Link) -> Option<Way> {
        link.way.filter(|way| link.fresh == 0 || !self.is_fresh(*way))
    }

    /// What is left of a way whose address may not be reached any more. A fresh port stays: it is in use because the others
    /// do not work.
    pub(super) fn loosened(&self, way: Option<Way>) -> Option<Way> {
        way.filter(|way| self.is_fresh(*way)).map(|way| Way { source: None, ..way })
    }
}

impl State {
    /// Where a call leaves from that asks for a fresh port.
    pub(super) fn fresh(&mut self, now: Time, Fresh { peer, number }: Fresh) -> From {
        let is_asked = self.link(peer).is_some_and(|link| link.fresh != number);
        let is_in_use = self.links().any(|link| {
            link.peer != peer
                && link.is_heard()
                && link.way.is_some_and(|way| self.ports.is_fresh(way))
        });
        let may = self.ports.changed_at.is_none_or(|at| now.since(at) >= PAUSE);
        let is_new = is_asked && may && !is_in_use;
        if is_new {
            self.ports.changed_at = Some(now);
        }
        if (is_new || is_in_use)
            && let Some(link) = self.link_mut(peer)
        {
            link.fresh = number;
        }
        From::Fresh { is_new }
    }

    /// A peer is heard: if nobody is called from fresh ports or heard at them, they are given back.
    pub(super) fn note_heard(&mut self, peer: PeerId) {
        if let Some(link) = self.link_mut(peer) {
            link.fresh = 0;
        }
        let needs =
            |link: &Link| link.fresh > 0 || link.way.is_some_and(|way| self.ports.is_fresh(way));
        let is_over = !self.links().any(needs);
        if is_over && self.ports.changed_at.take().is_some() {
            self.ports.is_over = true;
        }
    }

    /// Whether the fresh ports are to be given back now.
    pub(super) fn take_fresh_over(&mut self) -> bool {
        std::mem::take(&mut self.ports.is_over)
    }
}

//! Keeps local clients during their TLS handshake, while their target is unknown.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use base::time::Time;
use hf::hfpep::has_share;
use hf::slep::Options;
use nix::poll::{PollFd, PollFlags};

use super::wire::{Parties, Wire};
use crate::config::hfpep::Far;
use crate::tls::{Failure, HANDSHAKE, Terms};

/// Clients that may wait here; more are refused.
const MAX_HANDSHAKES: usize = 1024;

/// The clients that wait here.
#[derive(Debug, Default)]
pub struct Handshakes {
    clients: Vec<Handshaking>,
}

/// A client in its handshake.
#[derive(Debug)]
struct Handshaking {
    wire: Wire,
    call: Call,
    until: Time,
}

/// Where a connection goes, and how.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub far: Far,
    pub client: SocketAddr,
    pub target: SocketAddr,
    pub options: Options,
    /// Whether the client is told the end only when the target has all that it said.
    pub confirms_close: bool,
}

/// A client whose handshake is complete.
pub struct Greeted {
    pub wire: Wire,
    pub call: Call,
    pub terms: Terms,
}

impl Handshakes {
    /// Lets a client wait until its handshake is complete.
    ///
    /// # Errors
    /// When there is no room, or its address has its share; the client is given back.
    pub fn add(&mut self, now: Time, wire: Wire, call: Call) -> Result<(), Wire> {
        let its = self.clients.iter().filter(|it| it.call.client.ip() == call.client.ip()).count();
        if !has_share(its, MAX_HANDSHAKES.saturating_sub(self.clients.len())) {
            return Err(wire);
        }
        self.clients.push(Handshaking { wire, call, until: now + HANDSHAKE });
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Appends what to wait for: [`Self::len`] descriptors.
    pub fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.extend(self.clients.iter().map(|client| {
            let write =
                if client.wire.wants_flush() { PollFlags::POLLOUT } else { PollFlags::empty() };
            PollFd::new(client.wire.as_fd(), PollFlags::POLLIN | write)
        }));
    }

    /// Clients whose handshake is complete, and why others have none; `ready` answers
    /// [`Self::watch`].
    pub fn handle_ready(
        &mut self,
        ready: &[PollFlags],
    ) -> Vec<Result<Greeted, (Failure, Parties)>> {
        let mut outcomes = Vec::new();
        // In reverse order: the client that moves into a free place has had its turn already.
        for (at, ready) in ready.iter().enumerate().rev() {
            if ready.is_empty() {
                continue;
            }
            match self.clients[at].wire.greet() {
                Ok(None) => {}
                Ok(Some(terms)) => {
                    let terms = terms.clone();
                    let Handshaking { wire, call, .. } = self.clients.swap_remove(at);
                    outcomes.push(Ok(Greeted { wire, call, terms }));
                }
                Err(failure) => {
                    // The alert that says why still goes.
                    let wire = self.clients.swap_remove(at).wire;
                    outcomes.push(Err((failure, wire.parties())));
                    wire.close();
                }
            }
        }
        outcomes
    }

    /// Sends away clients that have waited too long, and returns the parties of each.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<Parties> {
        let late = self.clients.extract_if(.., |client| client.until <= now);
        let send_away = |client: Handshaking| {
            let parties = client.wire.parties();
            client.wire.abort();
            parties
        };
        late.map(send_away).collect()
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.clients.iter().map(|client| client.until).min()
    }
}

//! A session of a speaker: what waits for TCP, what came in parts, and what is known of each message.

use std::net::SocketAddr;

use base::time::Time;
use tcp::Connection;

use super::wire::{self, Kind, Malformed};

/// The ends of a connection: one's own, and the peer's.
pub type Ends = (SocketAddr, SocketAddr);

/// A message that was handed to TCP, or came from it. The order on a connection is the same at both
/// ends, so the first that was sent is the first that came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Record {
    /// The connection, as the speaker sees it.
    pub ends: Ends,
    /// What it is.
    pub kind: Kind,
    /// When.
    pub at: Time,
}

/// Octets that wait for TCP at most, but for the message that reaches this.
const MOST_WAITING: usize = 1 << 16;

/// A session.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Whether the peer has said OPEN.
    pub(super) is_established: bool,
    pub(super) keepalive_at: Option<Time>,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
}

impl Session {
    /// Whether another message may wait for TCP.
    pub(super) fn has_room(&self) -> bool {
        self.outbox.len() < MOST_WAITING
    }

    /// Where messages go that are to be sent.
    pub(super) fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// Hands TCP as much as it takes.
    pub(super) fn write(&mut self, connection: &mut Connection) {
        let written = connection.write(&self.outbox);
        self.outbox.drain(..written);
    }

    /// Takes octets that came.
    pub(super) fn push(&mut self, octets: &[u8]) {
        self.inbox.extend_from_slice(octets);
    }

    /// The next message that came as a whole.
    pub(super) fn poll(&mut self) -> Result<Option<Kind>, Malformed> {
        let Some((kind, len)) = wire::split_first(&self.inbox)? else { return Ok(None) };
        self.inbox.drain(..len);
        Ok(Some(kind))
    }
}

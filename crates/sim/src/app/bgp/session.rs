//! A BGP session of a speaker: buffers octets to and from TCP, and records each message.

use std::net::SocketAddr;

use base::time::Time;
use tcp::Connection;

use super::wire::{self, Kind, Malformed};

/// The ends of a connection: one's own, and the peer's.
pub type Ends = (SocketAddr, SocketAddr);

/// Record of a message handed to TCP or received from TCP. Both ends of a connection see the same order, so
/// the n-th message sent is the n-th message received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Record {
    /// The ends of the connection, seen from the speaker.
    pub ends: Ends,
    /// What it is.
    pub kind: Kind,
    /// When.
    pub at: Time,
}

/// Most octets waiting for TCP; the message that reaches the limit is still added.
const MOST_WAITING: usize = 1 << 16;

/// A session.
#[derive(Debug, Default)]
pub struct Session {
    /// Whether the peer has said OPEN.
    is_established: bool,
    keepalive_at: Option<Time>,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
}

impl Session {
    /// Whether the peer has said OPEN.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// The peer has said OPEN: a keepalive is due then.
    pub fn establish(&mut self, keepalive_at: Time) {
        (self.is_established, self.keepalive_at) = (true, Some(keepalive_at));
    }

    /// When the next keepalive is due.
    pub fn keepalive_at(&self) -> Option<Time> {
        self.keepalive_at
    }

    /// Whether a keepalive is due; the next is due at `next`, if at all.
    pub fn take_keepalive(&mut self, now: Time, next: Option<Time>) -> bool {
        let is_due = self.keepalive_at.is_some_and(|at| at <= now);
        if is_due {
            self.keepalive_at = next;
        }
        is_due && next.is_some()
    }

    /// Whether another message may wait for TCP.
    pub fn has_room(&self) -> bool {
        self.outbox.len() < MOST_WAITING
    }

    /// Where messages go that are to be sent.
    pub fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// Writes as many waiting octets as TCP accepts.
    pub fn write(&mut self, connection: &mut Connection) {
        let written = connection.write(&self.outbox);
        self.outbox.drain(..written);
    }

    /// Takes octets that came.
    pub fn push(&mut self, octets: &[u8]) {
        self.inbox.extend_from_slice(octets);
    }

    /// The next message that came as a whole.
    pub fn poll(&mut self) -> Result<Option<Kind>, Malformed> {
        let Some((kind, len)) = wire::split_first(&self.inbox)? else { return Ok(None) };
        self.inbox.drain(..len);
        Ok(Some(kind))
    }
}

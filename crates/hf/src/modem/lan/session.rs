//! The part of a session common to both ends: shake hands, stay alive, drop damaged packets, close on errors.

use base::time::{Time, earliest};

use super::scan::{Found, scan};
use super::wire::{self, Id, Order, Packet};
use super::{HANDSHAKE, KEEP_ALIVE, SILENCE};

/// Why a session is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Closed {
    /// No CONNECT, no acknowledgement, or no answer to the probe in time.
    #[error("the other end does not complete the handshake")]
    Handshake,
    /// More octets came than there was room for, or were not fetched.
    #[error("the other end sends or leaves too much")]
    Overflow,
    /// The other end sent what is not allowed.
    #[error("the other end does not keep to the protocol")]
    Protocol,
    /// The other end reports that we sent something not allowed.
    #[error("the other end reports an error of the protocol")]
    Refused,
    /// Nothing came for 30 s.
    #[error("the other end is silent")]
    Silence,
    /// The other end has another version of the protocol.
    #[error("the other end has version {0} of the protocol, not 12")]
    Version(u8),
}

base::counters! {
    /// Counters of a session.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Packets taken.
        pub packets: counter(packets);
        /// Octets that belonged to no packet.
        pub skipped_octets: counter(octets);
        /// Packets with a damaged payload.
        pub damaged: counter(packets);
        /// Transmissions begun.
        pub transmissions: counter(times);
        /// Transmissions that the modem ended for want of octets.
        pub underruns: counter(octets);
        /// Transfers that were not taken.
        pub naks: counter(transfers);
        /// Octets that were offered without room.
        pub refused_octets: counter(octets);
        /// Transmissions at another rate than the one asked for, which is not in the station's power.
        pub other_waveforms: counter(transmissions);
    }
}

/// Octets received and not fetched, or to be sent and not fetched, at most.
const BUFFER: usize = 4 << 20;

/// One end of a session.
#[derive(Debug)]
pub struct Session {
    input: Vec<u8>,
    output: Vec<u8>,
    /// Until when CONNECT, and its acknowledgement, have to be here; `None`: they are.
    connect_by: Option<Time>,
    ack_by: Option<Time>,
    sent_at: Time,
    heard_at: Time,
    next_id: u64,
    closed: Option<Closed>,
    stats: Stats,
}

impl Session {
    pub fn new(now: Time) -> Self {
        let mut session = Self {
            input: Vec::new(),
            output: Vec::new(),
            connect_by: Some(now + HANDSHAKE),
            ack_by: Some(now + HANDSHAKE),
            sent_at: now,
            heard_at: now,
            next_id: 0,
            closed: None,
            stats: Stats::default(),
        };
        session.send(now, &Packet::Connect { version: wire::VERSION });
        session
    }

    /// Its counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The counters of what only the user of the session sees.
    pub fn count(&mut self) -> &mut Stats {
        &mut self.stats
    }

    /// Takes octets from the other end.
    pub fn handle_octets(&mut self, octets: &[u8]) {
        if self.closed.is_some() {
            return;
        }
        if self.input.len() + octets.len() > BUFFER {
            self.close(Closed::Overflow);
            return;
        }
        self.input.extend_from_slice(octets);
    }

    pub fn handle_timeout(&mut self, now: Time) {
        if self.closed.is_some() {
            return;
        }
        if [self.connect_by, self.ack_by].into_iter().flatten().any(|by| by <= now) {
            self.close(Closed::Handshake);
        } else if self.is_established() && self.heard_at + SILENCE <= now {
            self.close(Closed::Silence);
        } else if self.is_established() && self.sent_at + KEEP_ALIVE <= now {
            self.send(now, &Packet::KeepAlive);
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        if self.closed.is_some() {
            return None;
        }
        let established = self.is_established();
        let upkeep = established.then(|| (self.heard_at + SILENCE).min(self.sent_at + KEEP_ALIVE));
        earliest(upkeep, earliest(self.connect_by, self.ack_by))
    }

    /// Appends what is to be sent; false if that is nothing.
    pub fn poll_octets(&mut self, out: &mut Vec<u8>) -> bool {
        let has_any = !self.output.is_empty();
        out.append(&mut self.output);
        has_any
    }

    pub fn send(&mut self, now: Time, packet: &Packet<'_>) {
        if self.closed.is_some() {
            return;
        }
        if self.output.len() > BUFFER {
            self.close(Closed::Overflow);
            return;
        }
        packet.emit(&mut self.output);
        self.sent_at = now;
    }

    /// Sends octets as transfers, the first in this order and the others as continuations.
    pub fn transfer(&mut self, now: Time, mut order: Order, octets: &[u8]) {
        for octets in octets.chunks(wire::MAX_DATA) {
            let id = self.id();
            self.send(now, &Packet::Transfer { order, id, octets });
            order = Order::Continuation;
        }
    }

    /// A name for a transfer.
    pub fn id(&mut self) -> Id {
        self.next_id += 1;
        let mut id = [0; 12];
        id[4..].copy_from_slice(&self.next_id.to_be_bytes());
        id
    }

    /// The octets that wait to be read; to be given back with [`Self::keep`].
    pub fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// Keeps what stands after the first `read` octets.
    pub fn keep(&mut self, mut input: Vec<u8>, read: usize) {
        input.drain(..read);
        self.input = input;
    }

    /// The next packet for the user of the session, if a whole one follows from `read` on.
    pub fn read<'a>(&mut self, now: Time, input: &'a [u8], read: &mut usize) -> Option<Packet<'a>> {
        while self.closed.is_none() {
            match scan(&input[*read..]) {
                Found::Nothing => return None,
                Found::Noise(len) => {
                    *read += len;
                    self.stats.skipped_octets += len as u64;
                }
                Found::Damaged(len) => {
                    *read += len;
                    self.stats.damaged += 1;
                }
                Found::Wrong(len) => {
                    *read += len;
                    self.fail(now);
                }
                Found::Packet(len, packet) => {
                    *read += len;
                    self.stats.packets += 1;
                    if let Some(packet) = self.take(now, packet) {
                        return Some(packet);
                    }
                }
            }
        }
        None
    }

    /// The other end has made a mistake.
    pub fn fail(&mut self, now: Time) {
        self.send(now, &Packet::Error);
        self.close(Closed::Protocol);
    }

    pub fn close(&mut self, why: Closed) {
        self.closed.get_or_insert(why);
        self.input = Vec::new();
    }

    pub fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Whether both have said CONNECT and heard it acknowledged.
    pub fn is_established(&self) -> bool {
        self.connect_by.is_none() && self.ack_by.is_none()
    }

    fn take<'a>(&mut self, now: Time, packet: Packet<'a>) -> Option<Packet<'a>> {
        let awaited = match packet {
            Packet::Connect { version } | Packet::ConnectAck { version }
                if version != wire::VERSION =>
            {
                self.close(Closed::Version(version));
                return None;
            }
            Packet::Connect { .. } => self.connect_by.take(),
            Packet::ConnectAck { .. } => self.ack_by.take(),
            Packet::Error => {
                self.close(Closed::Refused);
                return None;
            }
            _ => self.is_established().then_some(now),
        };
        if awaited.is_none() {
            self.fail(now);
            return None;
        }
        self.heard_at = now;
        match packet {
            Packet::Connect { .. } => {
                self.send(now, &Packet::ConnectAck { version: wire::VERSION });
                None
            }
            Packet::ConnectAck { .. } | Packet::KeepAlive => None,
            _ => Some(packet),
        }
    }
}

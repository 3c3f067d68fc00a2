//! Queue of messages to send on an interface (RFC 3626, 3.4.1 and 18.2).

use std::sync::Arc;

use base::time::Time;

use super::wire::{Kind, PACKET_HEADER, Packet, Seq};

/// Messages that wait for their time, and then for the interface.
#[derive(Debug)]
pub struct Outbox {
    waiting: Vec<Waiting>,
    /// Whether a waiting message is due.
    is_ready: bool,
    /// The number of the next packet.
    seq: Seq,
}

#[derive(Debug)]
struct Waiting {
    due: Time,
    /// The kind of an own message: a later message of the same kind replaces it.
    own: Option<Kind>,
    octets: Arc<[u8]>,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    Full,
    TooBig,
}

impl Outbox {
    pub fn new(seq: Seq) -> Self {
        Self { waiting: Vec::new(), is_ready: false, seq }
    }

    /// Takes a message that another node made, to be sent at `due`.
    pub fn forward(
        &mut self,
        due: Time,
        octets: Arc<[u8]>,
        room: usize,
        most: usize,
    ) -> Result<(), Refused> {
        if self.waiting.len() >= most {
            return Err(Refused::Full);
        }
        if PACKET_HEADER + octets.len() > room {
            return Err(Refused::TooBig);
        }
        self.push(due, None, octets);
        Ok(())
    }

    /// Takes a message of the node's own that fits a packet, to be sent at once.
    pub fn push_own(&mut self, now: Time, kind: Kind, octets: Arc<[u8]>) {
        self.is_ready = true;
        self.push(now, Some(kind), octets);
    }

    fn push(&mut self, due: Time, own: Option<Kind>, octets: Arc<[u8]>) {
        // Those that are due at the same time stay in their order.
        let at = self.waiting.partition_point(|waiting| waiting.due <= due);
        self.waiting.insert(at, Waiting { due, own, octets });
    }

    /// Drops the node's own messages of a kind because their content is outdated.
    pub fn withdraw(&mut self, kind: Kind) {
        self.waiting.retain(|waiting| waiting.own != Some(kind));
    }

    /// Drops messages too big for `room`, the room from now on; returns their number.
    pub fn shrink(&mut self, room: usize) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| PACKET_HEADER + waiting.octets.len() <= room);
        before - self.waiting.len()
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.is_ready |= self.waiting.first().is_some_and(|waiting| waiting.due <= now);
    }

    /// Fills a packet with the messages that are due, and with as many others as fit.
    pub fn poll(&mut self, now: Time, room: usize, out: &mut Vec<u8>) -> bool {
        self.handle_timeout(now);
        if !self.is_ready || self.waiting.is_empty() {
            self.is_ready = false;
            return false;
        }
        out.clear();
        out.resize(PACKET_HEADER, 0);
        self.waiting.retain(|waiting| {
            let fits = out.len() + waiting.octets.len() <= room;
            if fits {
                out.extend_from_slice(&waiting.octets);
            }
            !fits
        });
        Packet::finish(self.seq, out);
        self.seq = self.seq.next();
        self.is_ready = self.waiting.first().is_some_and(|waiting| waiting.due <= now);
        true
    }

    pub fn next_timeout(&self) -> Option<Time> {
        if self.is_ready { None } else { self.waiting.first().map(|waiting| waiting.due) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_had_no_room_in_a_packet_waits_for_its_own_time() {
        let [now, later] = [1, 2].map(|seconds| Time::ZERO + Duration::from_secs(seconds));
        let room = PACKET_HEADER + 100;
        let mut outbox = Outbox::new(Seq(0));
        for (due, octet) in [(now, 1), (later, 2)] {
            assert_eq!(outbox.forward(due, vec![octet; 100].into(), room, 10), Ok(()));
        }
        let mut out = Vec::new();

        assert!(outbox.poll(now, room, &mut out));
        assert_eq!(out[PACKET_HEADER..], [1; 100]);
        assert!(!outbox.poll(now, room, &mut out));
        assert_eq!(outbox.next_timeout(), Some(later));
        assert!(outbox.poll(later, room, &mut out));
        assert_eq!(out[PACKET_HEADER..], [2; 100]);
    }
}

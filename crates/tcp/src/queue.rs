//! The send buffer: written octets not yet acknowledged, by sequence number.

use super::ring::Ring;
use super::seq::Seq;

/// Octets, and FIN after them once the application has closed.
#[derive(Clone, Debug)]
pub struct Queue {
    ring: Ring,
    /// The place of the first octet.
    start: Seq,
    has_fin: bool,
}

impl Queue {
    /// Nothing written; the first octet will be at `start`.
    pub fn new(start: Seq) -> Self {
        Self { ring: Ring::default(), start, has_fin: false }
    }

    pub fn write(&mut self, octets: &[u8]) {
        self.ring.write(self.ring.len(), octets);
    }

    /// Puts FIN behind what was written.
    pub fn finish(&mut self) {
        self.has_fin = true;
    }

    /// Forgets the octets before `ack`, and returns how many there were.
    pub fn advance(&mut self, ack: Seq) -> u64 {
        let done = ack.offset_from(self.start).min(self.ring.len());
        self.ring.consume(done);
        self.start += done as u64;
        done as u64
    }

    /// Gives the memory back.
    pub fn clear(&mut self) {
        self.ring = Ring::default();
    }

    /// The `len` octets from `seq` on, in two pieces.
    pub fn slices(&self, seq: Seq, len: usize) -> (&[u8], &[u8]) {
        self.ring.slices(seq.offset_from(self.start), len)
    }

    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// The place of the first octet.
    pub fn start(&self) -> Seq {
        self.start
    }

    /// Beyond the last octet.
    pub fn end(&self) -> Seq {
        self.start + self.ring.len() as u64
    }

    pub fn has_fin(&self) -> bool {
        self.has_fin
    }
}

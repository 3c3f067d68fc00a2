//! A fingerprint of all transmissions, for comparing runs.

use base::time::Time;

use crate::ids::PortId;

/// A hash over the time, port and content of every transmission.
#[derive(Debug, Default)]
pub struct Trace(u64);

impl Trace {
    /// Adds the start of a transmission.
    ///
    /// Only some octets enter the hash: the first ones, with addresses and the transport header with its
    /// checksum, and the last ones. Hashing all octets would cost more than the rest of a transmission.
    pub fn add_packet(&mut self, now: Time, port: PortId, octets: &[u8]) {
        self.add(now.as_nanos());
        self.add(u64::from(port.0) << 32 | octets.len() as u64);
        let (head, tail) = octets.split_at(octets.len().min(HEAD));
        for word in head.chunks(8).chain(tail.rchunks(8).take(1)) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.add(u64::from_le_bytes(padded));
        }
    }

    pub fn hash(&self) -> u64 {
        self.0
    }

    fn add(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }
}

const HEAD: usize = 48;

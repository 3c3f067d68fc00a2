//! A transmission: which octets each block holds, and when each block is on the air.
//!
//! ```text
//!  octets  |0       |1       |2       |3   ...     a block need not be whole octets (75 bit/s: 45
//!  blocks  |0          |1          |2      ...     bits): an octet comes with the block it ends in
//! ```

use base::time::Time;
use hf::modem::Waveform;

/// Octets no longer needed that a signal collects before discarding them.
const COMPACT: usize = 1 << 16;

/// A transmission under way.
#[derive(Debug)]
pub struct Signal {
    station: usize,
    waveform: Waveform,
    /// When the preamble begins.
    keyed: Time,
    /// When block 0 begins.
    first: Time,
    /// The octets from number `base` on.
    octets: Vec<u8>,
    base: usize,
    /// The number of blocks whose octets were requested.
    asked: u32,
    /// Whether the station has given its last octet.
    is_ended: bool,
    /// When the last block ends, once that is known.
    until: Option<Time>,
}

impl Signal {
    pub fn new(station: usize, waveform: Waveform, keyed: Time, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self {
            station,
            waveform,
            keyed,
            first: keyed + waveform.preamble(),
            octets: buffer,
            base: 0,
            asked: 0,
            is_ended: false,
            until: None,
        }
    }

    /// Whose transmission it is.
    pub fn station(&self) -> usize {
        self.station
    }

    pub fn waveform(&self) -> Waveform {
        self.waveform
    }

    /// When the preamble begins.
    pub fn keyed(&self) -> Time {
        self.keyed
    }

    /// When the last block ends, once that is known.
    pub fn until(&self) -> Option<Time> {
        self.until
    }

    /// Requests the octets of all blocks up to this one.
    pub fn ask(&mut self, block: u32) {
        self.asked = block + 1;
    }

    /// The station has given its last octet.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// The last block ends then.
    pub fn stop(&mut self, until: Time) {
        self.until = Some(until);
    }

    /// When a block begins.
    pub fn block_start(&self, block: u32) -> Time {
        self.first + self.waveform.block_time() * block
    }

    /// Octets that are missing from the requested blocks.
    pub fn room(&self) -> usize {
        if self.is_ended { 0 } else { self.wanted() - self.len() }
    }

    /// Takes octets; returns how many did not fit.
    pub fn supply(&mut self, octets: &[u8]) -> usize {
        let taken = octets.len().min(self.room());
        self.octets.extend_from_slice(&octets[..taken]);
        octets.len() - taken
    }

    /// Fills the requested blocks with zeros where octets are missing; returns how many.
    pub fn fill(&mut self) -> usize {
        let missing = self.room();
        self.octets.resize(self.octets.len() + missing, 0);
        missing
    }

    /// Whether this block is the last.
    pub fn is_last(&self, block: u32) -> bool {
        self.is_ended && block + 1 >= self.waveform.blocks(self.len())
    }

    /// Appends the octets that a receiver decodes from a block. The end of message and the fill after
    /// the station's last octet are included only if `with_end` is set.
    pub fn copy_block(&self, block: u32, with_end: bool, out: &mut Vec<u8>) {
        let bits = self.waveform.block_bits() as usize;
        let block = block as usize;
        let (from, until) = (block * bits / 8, (block + 1) * bits / 8);
        let len = self.len();
        let (first, last) = (from.min(len).max(self.base), until.min(len));
        if first < last {
            out.extend_from_slice(&self.octets[first - self.base..last - self.base]);
        }
        if with_end {
            let end = END_OF_MESSAGE.iter().chain(std::iter::repeat(&0));
            let skipped = from.saturating_sub(len);
            out.extend(end.skip(skipped).take(until.saturating_sub(from.max(len))));
        }
    }

    /// Discards the octets of all blocks before `block`.
    pub fn forget_before(&mut self, block: u32) {
        let until = block as usize * self.waveform.block_bits() as usize / 8;
        let unused = until.saturating_sub(self.base).min(self.octets.len());
        if unused >= COMPACT {
            self.octets.drain(..unused);
            self.base += unused;
        }
    }

    /// Returns the buffer for reuse.
    pub fn into_buffer(self) -> Vec<u8> {
        self.octets
    }

    /// Number of octets supplied since the start.
    fn len(&self) -> usize {
        self.base + self.octets.len()
    }

    /// The number of octets that fill the requested blocks.
    fn wanted(&self) -> usize {
        let bits = self.asked as usize * self.waveform.block_bits() as usize;
        bits.div_ceil(8).max(self.len())
    }
}

/// The pattern that ends a message.
const END_OF_MESSAGE: [u8; 4] = [0x4b, 0x65, 0xa5, 0xb2];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_not_whole_octets_lose_none() {
        let waveform: Waveform = "75/short".parse().unwrap();
        let mut signal = Signal::new(0, waveform, Time::ZERO, Vec::new());
        let octets: Vec<u8> = (0..100).collect();
        let mut given = 0;
        let mut heard = Vec::new();
        let mut block = 0;

        loop {
            signal.asked = block + 1;
            let room = signal.room().min(octets.len() - given);
            assert_eq!(signal.supply(&octets[given..given + room]), 0);
            given += room;
            signal.is_ended |= given == octets.len();
            signal.copy_block(block, false, &mut heard);
            if signal.is_last(block) {
                break;
            }
            block += 1;
        }

        assert_eq!(heard, octets);
        assert_eq!(block + 1, waveform.blocks(octets.len()));
    }

    #[test]
    fn a_missed_end_of_message_is_received_with_the_fill() {
        let waveform: Waveform = "9600/ultra-short".parse().unwrap();
        let mut signal = Signal::new(0, waveform, Time::ZERO, Vec::new());
        signal.asked = 1;
        signal.supply(&[7; 10]);
        signal.is_ended = true;

        let mut heard = Vec::new();
        signal.copy_block(0, true, &mut heard);

        assert_eq!(heard.len(), 144);
        assert_eq!(heard[..16], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0x4b, 0x65, 0xa5, 0xb2, 0, 0]);
    }

    #[test]
    fn a_long_transmission_discards_the_octets_of_past_blocks() {
        let waveform: Waveform = "240000/short".parse().unwrap();
        let mut signal = Signal::new(0, waveform, Time::ZERO, Vec::new());
        for block in 0..100_u32 {
            signal.asked = block + 1;
            let octet = u8::try_from(block).unwrap();
            signal.supply(&vec![octet; signal.room()]);
            signal.forget_before(block.saturating_sub(2));

            let mut heard = Vec::new();
            signal.copy_block(block, false, &mut heard);

            assert_eq!(heard, vec![octet; 14_400]);
            assert!(signal.octets.len() < 200_000);
        }
    }
}

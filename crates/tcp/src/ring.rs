//! A buffer of octets: read from the front, written anywhere.

use std::collections::VecDeque;

/// A contiguous buffer of octets; memory grows with the content only.
#[derive(Clone, Debug, Default)]
pub struct Ring(VecDeque<u8>);

impl Ring {
    /// How many octets there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Writes `octets` from index `at` on; zeros fill a gap before them.
    pub fn write(&mut self, at: usize, octets: &[u8]) {
        if at > self.0.len() {
            self.0.resize(at, 0);
        }
        let inside = octets.len().min(self.0.len() - at);
        let (over, beyond) = octets.split_at(inside);
        if !over.is_empty() {
            let (front, back) = self.0.as_mut_slices();
            let split = front.len().saturating_sub(at).min(over.len());
            if split > 0 {
                front[at..at + split].copy_from_slice(&over[..split]);
            }
            if split < over.len() {
                let at = at + split - front.len();
                back[at..at + over.len() - split].copy_from_slice(&over[split..]);
            }
        }
        self.0.extend(beyond);
    }

    /// The `len` octets from index `at` on, in two pieces; fewer where there are fewer.
    pub fn slices(&self, at: usize, len: usize) -> (&[u8], &[u8]) {
        let (front, back) = self.0.as_slices();
        let end = at.saturating_add(len);
        let cut = |slice: &[u8], from: usize, to: usize| {
            from.min(slice.len())..to.min(slice.len()).max(from.min(slice.len()))
        };
        let in_back = |index: usize| index.saturating_sub(front.len());
        (&front[cut(front, at, end)], &back[cut(back, in_back(at), in_back(end))])
    }

    /// Drops `len` octets from the front, or all.
    pub fn consume(&mut self, len: usize) {
        self.0.drain(..len.min(self.0.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_what_was_written_across_the_seam() {
        let mut ring = Ring::default();
        ring.write(0, &[0; 6]);
        for turn in 0..50_u8 {
            ring.consume(3);
            ring.write(4, &[turn, turn + 1]);
            ring.write(3, &[9]);

            let (front, back) = ring.slices(2, 10);
            let seen = [front, back].concat();
            assert_eq!(seen[1..], [9, turn, turn + 1]);
            assert_eq!(ring.len(), 6);
        }
        assert_eq!(ring.slices(40, 5), (&[][..], &[][..]));
    }
}

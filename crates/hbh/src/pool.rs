//! Reuses buffers, so that a steady flow allocates nothing.

/// How many buffers are kept; more are freed.
const KEPT: usize = 1_024;

#[derive(Debug, Default)]
pub struct Pool(Vec<Vec<u8>>);

impl Pool {
    /// A buffer that holds `octets`.
    pub fn copy(&mut self, octets: &[u8]) -> Vec<u8> {
        let mut buffer = self.0.pop().unwrap_or_else(|| {
            #[cfg(test)]
            tests::MADE.set(tests::MADE.get() + 1);
            Vec::new()
        });
        buffer.clear();
        buffer.extend_from_slice(octets);
        buffer
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Vec<u8>) {
        if self.0.len() < KEPT && buffer.capacity() > 0 {
            self.0.push(buffer);
        }
    }
}

#[cfg(test)]
pub mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Buffers that a thread has made.
        pub static MADE: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn buffers_are_used_again_and_no_more_than_are_needed_are_kept() {
        let mut pool = Pool::default();
        let buffers: Vec<Vec<u8>> = (0..KEPT + 5).map(|_| pool.copy(&[1, 2, 3])).collect();
        let before = MADE.get();
        buffers.into_iter().for_each(|buffer| pool.give(buffer));
        pool.give(Vec::new());

        assert_eq!(pool.0.len(), KEPT);
        for left in (0..KEPT).rev() {
            assert_eq!((pool.copy(&[4]), pool.0.len()), (vec![4], left));
        }
        assert_eq!(MADE.get(), before);
        pool.copy(&[5]);
        assert_eq!(MADE.get(), before + 1);
    }
}

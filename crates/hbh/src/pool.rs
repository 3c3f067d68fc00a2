//! Reuses buffers, so that a steady flow allocates nothing.

/// How many buffers are kept; more are freed.
const KEPT: usize = 1_024;

#[derive(Debug, Default)]
pub struct Pool(Vec<Vec<u8>>);

impl Pool {
    /// A buffer that holds `octets`.
    pub fn copy(&mut self, octets: &[u8]) -> Vec<u8> {
        let mut buffer = self.0.pop().unwrap_or_default();
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

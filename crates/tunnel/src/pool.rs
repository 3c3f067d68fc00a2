//! Reuses buffers, so that a steady flow allocates nothing.

/// Buffers that are not in use, limited in number and in octets.
#[derive(Debug)]
pub struct Pool {
    buffers: Vec<Vec<u8>>,
    octets: usize,
    most: usize,
    most_octets: usize,
}

impl Pool {
    pub fn new(most: usize, most_octets: usize) -> Self {
        Self { buffers: Vec::new(), octets: 0, most, most_octets }
    }

    /// Octets of the buffers in the pool.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// An empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        self.octets -= buffer.capacity();
        buffer.clear();
        buffer
    }

    /// Keeps a buffer if there is room.
    pub fn give(&mut self, buffer: Vec<u8>) {
        let octets = self.octets + buffer.capacity();
        if buffer.capacity() > 0 && self.buffers.len() < self.most && octets <= self.most_octets {
            self.octets = octets;
            self.buffers.push(buffer);
        }
    }
}

//! Primitives that wait for the socket.

use super::primitive::Primitive;

/// Octets that a socket is given at once.
const CHUNK: usize = 16 * 1024;

#[derive(Clone, Debug, Default)]
pub struct OutputBuffer {
    octets: Vec<u8>,
    start: usize,
}

impl OutputBuffer {
    pub fn push(&mut self, primitive: &Primitive<'_>) {
        self.push_with(|out| primitive.emit(out));
    }

    /// Takes the primitive that `emit` appends.
    pub fn push_with(&mut self, emit: impl FnOnce(&mut Vec<u8>)) {
        if self.start > self.octets.len() / 2 {
            self.octets.drain(..self.start);
            self.start = 0;
        }
        emit(&mut self.octets);
    }

    /// Appends at most a chunk; whether there was anything.
    pub fn poll(&mut self, out: &mut Vec<u8>) -> bool {
        let end = self.octets.len().min(self.start + CHUNK);
        let has_any = end > self.start;
        out.extend_from_slice(&self.octets[self.start..end]);
        self.start = end;
        if end == self.octets.len() {
            self.octets.clear();
            self.start = 0;
        }
        has_any
    }

    pub fn len(&self) -> usize {
        self.octets.len() - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

//! Octets in memory that the kernels like best.
#![expect(unsafe_code, reason = "shows cache lines as octets")]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::slice;

/// The alignment of a [`Buffer`] and what its length is padded to, in octets: a cache line.
pub const LINE: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Octets that start at a cache line and are followed by zeros to the end of their last one.
///
/// It is a `Vec<u8>` for symbols: it keeps its memory when cleared, and reads as a slice.
#[derive(Clone, Default)]
pub struct Buffer {
    /// As many as `len` needs. Zero from `len` on.
    lines: Vec<Line>,
    len: usize,
}

impl Buffer {
    /// An empty buffer, without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self { lines: Vec::new(), len: 0 }
    }

    /// An empty buffer with room for so many octets.
    #[must_use]
    pub fn with_capacity(octets: usize) -> Self {
        Self { lines: Vec::with_capacity(octets.div_ceil(LINE)), len: 0 }
    }

    /// So many zeros.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let mut buffer = Self::new();
        buffer.resize(len);
        buffer
    }

    /// Removes all octets and keeps the memory.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.len = 0;
    }

    /// Cuts off octets or appends zeros until there are `len`.
    pub fn resize(&mut self, len: usize) {
        self.lines.resize(len.div_ceil(LINE), Line([0; LINE]));
        let used = self.len.min(len);
        self.len = len;
        // Of the last line only: the others are new, or gone.
        if let Some(Line(line)) = self.lines.get_mut(used / LINE) {
            line[used % LINE..].fill(0);
        }
    }

    /// Appends an octet.
    pub fn push(&mut self, octet: u8) {
        self.extend_from_slice(&[octet]);
    }

    /// Appends octets.
    pub fn extend_from_slice(&mut self, octets: &[u8]) {
        let at = self.len;
        self.resize(at + octets.len());
        self[at..].copy_from_slice(octets);
    }

    /// How many octets fit before more memory is needed.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.lines.capacity() * LINE
    }

    /// The octets and the zeros to the end of the last line: the fastest source for sums into an
    /// output that is as long.
    #[must_use]
    pub fn padded(&self) -> &[u8] {
        let Self { lines, .. } = self;
        // SAFETY: a line is `LINE` octets without padding (`repr(C)`), all of them initialised.
        unsafe { slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LINE) }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.padded()[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let Self { lines, len } = self;
        debug_assert!(*len <= lines.len() * LINE);
        // SAFETY: a line is `LINE` octets without padding (`repr(C)`), all of them initialised, and
        // every change of `len` makes as many lines as it needs.
        unsafe { slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), *len) }
    }
}

impl From<&[u8]> for Buffer {
    fn from(octets: &[u8]) -> Self {
        let mut buffer = Self::with_capacity(octets.len());
        buffer.extend_from_slice(octets);
        buffer
    }
}

impl Eq for Buffer {}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

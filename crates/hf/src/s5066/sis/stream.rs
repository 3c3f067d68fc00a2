//! Primitives in a stream of octets that comes in any pieces.

use super::primitive::{self, ENVELOPE, MAX, Malformed, PREAMBLE, VERSION};

/// Takes octets, and yields the contents of envelopes.
///
/// At most one incomplete primitive is kept, of 65,540 octets, beside the octets pushed last.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    octets: Vec<u8>,
    start: usize,
}

/// Why a stream cannot be read on: nothing tells where the next primitive starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Broken {
    /// There is a size where the version should be, as before the standard had versions.
    #[error(
        "a primitive of type {number} without a version: it belongs between 0x90eb and the size"
    )]
    NoVersion {
        /// The type, where the size should be.
        number: u8,
    },
    /// No primitive starts like this.
    #[error("a primitive starts with 0x{0:02x}{1:02x}, not 0x90eb")]
    Preamble(u8, u8),
    /// A primitive has a type at least.
    #[error("a primitive of no octets")]
    Size,
    /// All primitives of this type have the same size, and this is that size the wrong way round.
    #[error(
        "primitive {number} of {size} octets: its size has its two octets swapped, and numbers are \
         sent high octet first"
    )]
    Swapped {
        /// The type.
        number: u8,
        /// The size field as received.
        size: u16,
    },
    /// There is no such version.
    #[error("version {0}, not 0")]
    Version(u8),
}

/// Received octets that form no primitive.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unreadable {
    /// A single primitive, behind which the next one starts.
    #[error("primitive {number}: {why}")]
    Primitive {
        /// Its type.
        number: u8,
        /// The fault.
        why: Malformed,
    },
    /// The stream, and all that would follow.
    #[error(transparent)]
    Stream(#[from] Broken),
}

impl Unreadable {
    /// The primitive whose type and fields these are.
    pub(crate) fn primitive(octets: &[u8], why: Malformed) -> Self {
        Self::Primitive { number: octets.first().copied().unwrap_or_default(), why }
    }
}

impl Stream {
    /// Octets to push at most before the primitives are taken, so that memory stays bounded.
    pub const PIECE: usize = MAX;

    /// Takes octets that follow the last ones.
    pub fn push(&mut self, octets: &[u8]) {
        self.octets.drain(..self.start);
        self.start = 0;
        self.octets.extend_from_slice(octets);
    }

    /// The type and the fields of the next primitive, when it is complete.
    ///
    /// # Errors
    /// When the octets are no primitives; this stays so.
    pub fn take(&mut self) -> Result<Option<&[u8]>, Broken> {
        let waiting = &self.octets[self.start..];
        for (at, octet) in waiting.iter().take(PREAMBLE.len()).enumerate() {
            if *octet != PREAMBLE[at] {
                return Err(Broken::Preamble(waiting[0], waiting.get(1).copied().unwrap_or(0)));
            }
        }
        if let Some(version) = waiting.get(2).filter(|version| **version != VERSION) {
            return Err(Broken::Version(*version));
        }
        let Some(&[_, _, version, high, low]) = waiting.first_chunk::<ENVELOPE>() else {
            return Ok(None);
        };
        let size = u16::from_be_bytes([high, low]);
        if size == 0 {
            return Err(Broken::Size);
        }
        if let Some(&number) = waiting.get(ENVELOPE) {
            // What has always the same size tells at once who counts otherwise; the octets that such a size
            // asks for would never come.
            let is_swapped = |right: u16| right != size && right == size.swap_bytes();
            if primitive::size(number).is_some_and(is_swapped) {
                return Err(Broken::Swapped { number, size });
            }
            let earlier = u16::from_be_bytes([version, high]);
            if !primitive::is_type(number) && primitive::size(low) == Some(earlier) {
                return Err(Broken::NoVersion { number: low });
            }
        }
        let size = usize::from(size);
        let start = self.start + ENVELOPE;
        let Some(fields) = self.octets.get(start..start + size) else { return Ok(None) };

        self.start = start + size;
        Ok(Some(fields))
    }

    /// Octets of the incomplete primitive.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.octets.len() - self.start
    }
}

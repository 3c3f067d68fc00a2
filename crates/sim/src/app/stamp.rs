//! The header of our test datagrams: a number and the time of sending.
//!
//! ```text
//!  octet 0          8          16
//!      +----------+----------+----- - -
//!      |  number  |   nanos  |  filling
//!      +----------+----------+----- - -
//! ```

use base::time::Time;

/// Octets of a stamp, so the smallest payload of our datagrams.
pub const LEN: usize = 16;

/// A number and the time of sending.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stamp {
    /// How many came before.
    pub number: u64,
    /// When it was sent.
    pub sent: Time,
}

impl Stamp {
    /// The stamp of a datagram's payload; `None` if that is too short.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (number, rest) = payload.split_first_chunk()?;
        let (nanos, _) = rest.split_first_chunk()?;
        let sent = Time::from_nanos(u64::from_be_bytes(*nanos));
        Some(Self { number: u64::from_be_bytes(*number), sent })
    }

    /// Writes the stamp over the start of a payload of at least [`LEN`] octets.
    pub(crate) fn write(self, payload: &mut [u8]) {
        payload[..8].copy_from_slice(&self.number.to_be_bytes());
        payload[8..LEN].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
    }
}

/// A payload of this length, at least a stamp.
pub(crate) fn payload(len: usize) -> Vec<u8> {
    (0..len.max(LEN)).map(|index| index.to_le_bytes()[0]).collect()
}

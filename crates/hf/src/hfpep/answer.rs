//! The far end's answer to an opening: the first octets on a connection of its own between two gateways, and over HF
//! where the initiator waits for the answer. The octets of the connection follow an acceptance, and the end follows a
//! refusal; over HF a reset reports the refusal.
//!
//! ```text
//!  octet 0         1          2
//!       +---------+----------+--------+
//!       | magic   | verdict  | reason |   verdict 0 = accepted, and reason 0; 1 = refused
//!       +---------+----------+--------+
//! ```

use crate::slep::Reason;

/// Octets of an answer.
pub const ANSWER: usize = 3;

const ACCEPTED: u8 = 0;
const REFUSED: u8 = 1;

/// The outcome of a requested connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// The connection to the target is there.
    Accepted,
    /// There is none.
    Refused(Reason),
}

/// Octets that are no answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no answer to an opening: {0:02x?}")]
pub struct NoAnswer(pub [u8; ANSWER]);

impl Answer {
    /// Reads an answer.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(magic: u8, octets: [u8; ANSWER]) -> Result<Self, NoAnswer> {
        match octets {
            [first, ACCEPTED, 0] if first == magic => Ok(Self::Accepted),
            [first, REFUSED, reason] if first == magic => Ok(Self::Refused(Reason(reason))),
            _ => Err(NoAnswer(octets)),
        }
    }

    /// Its octets.
    #[must_use]
    pub fn octets(self, magic: u8) -> [u8; ANSWER] {
        match self {
            Self::Accepted => [magic, ACCEPTED, 0],
            Self::Refused(reason) => [magic, REFUSED, reason.0],
        }
    }
}

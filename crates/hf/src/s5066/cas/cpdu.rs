//! C_PDUs: octets in, octets out (Annex B, section 3.1).
//!
//! ```text
//!  octet 0   7..4   3     2     1      0
//!          +------+-----+-----+------+-----------+
//!          |  1   |        0         | EXCLUSIVE |   link request
//!          |  2   |  0                           |   accepted
//!          |  3   |  reason                      |   rejected
//!          |  4   |  reason                      |   break
//!          |  5   |  0                           |   break confirmed
//!          |  0   |  0                           | S_PDU ...   data
//!          +------+------------------------------+
//! ```
//!
//! Bits without a meaning are sent as 0 and ignored: later editions use some to agree on long
//! sequence numbers, which ones is not public.

/// A C_PDU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cpdu<'a> {
    /// A link was accepted.
    Accepted,
    /// A link ends.
    Break(BreakReason),
    /// The end of a link is confirmed.
    BreakConfirm,
    /// An S_PDU.
    Data(&'a [u8]),
    /// A link is refused.
    Rejected(RejectReason),
    /// A link is requested.
    Request {
        /// Whether it is exclusive, as hard links need.
        is_exclusive: bool,
    },
}

/// Why a link is refused; numbers without a name are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RejectReason {
    /// No reason is given.
    Unknown,
    /// The station only broadcasts.
    BroadcastOnly,
    /// Something more important is pending.
    HigherPriority,
    /// An exclusive link is up.
    ExclusiveLink,
    /// A number that the standard does not name.
    Other(u8),
}

/// Why a link ends; numbers without a name are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakReason {
    /// No reason is given.
    Unknown,
    /// The layer above asked for it.
    HigherLayer,
    /// The station only broadcasts from now on.
    BroadcastOnly,
    /// Something more important is pending.
    HigherPriority,
    /// There is nothing more to send.
    NoMoreData,
    /// A number that the standard does not name.
    Other(u8),
}

/// Why octets are no C_PDU.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// There are no octets.
    #[error("a C_PDU of no octets")]
    Empty,
    /// The type is not between 0 and 5.
    #[error("unknown C_PDU type {0}")]
    Type(u8),
}

const EXCLUSIVE: u8 = 1;

impl<'a> Cpdu<'a> {
    /// Octets before an S_PDU.
    pub const HEADER: usize = 1;

    /// Reads the C_PDU that fills `octets`.
    ///
    /// # Errors
    /// When its type is missing or unknown.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let Some((&first, rest)) = octets.split_first() else { return Err(Malformed::Empty) };
        let low = first & 0xf;
        match first >> 4 {
            0 => Ok(Self::Data(rest)),
            1 => Ok(Self::Request { is_exclusive: low & EXCLUSIVE != 0 }),
            2 => Ok(Self::Accepted),
            3 => Ok(Self::Rejected(RejectReason::from_bits(low))),
            4 => Ok(Self::Break(BreakReason::from_bits(low))),
            5 => Ok(Self::BreakConfirm),
            unknown => Err(Malformed::Type(unknown)),
        }
    }

    /// Appends the C_PDU.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Data(s_pdu) => {
                out.push(0);
                out.extend_from_slice(s_pdu);
            }
            Self::Request { is_exclusive } => {
                out.push(1 << 4 | if is_exclusive { EXCLUSIVE } else { 0 });
            }
            Self::Accepted => out.push(2 << 4),
            Self::Rejected(reason) => out.push(3 << 4 | reason.bits()),
            Self::Break(reason) => out.push(4 << 4 | reason.bits()),
            Self::BreakConfirm => out.push(5 << 4),
        }
    }
}

impl RejectReason {
    fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::Unknown,
            1 => Self::BroadcastOnly,
            2 => Self::HigherPriority,
            3 => Self::ExclusiveLink,
            other => Self::Other(other),
        }
    }

    fn bits(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::BroadcastOnly => 1,
            Self::HigherPriority => 2,
            Self::ExclusiveLink => 3,
            Self::Other(bits) => bits & 0xf,
        }
    }
}

impl BreakReason {
    fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::Unknown,
            1 => Self::HigherLayer,
            2 => Self::BroadcastOnly,
            3 => Self::HigherPriority,
            4 => Self::NoMoreData,
            other => Self::Other(other),
        }
    }

    fn bits(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::HigherLayer => 1,
            Self::BroadcastOnly => 2,
            Self::HigherPriority => 3,
            Self::NoMoreData => 4,
            Self::Other(bits) => bits & 0xf,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by hand from the figures of Annex B.
    const EXAMPLES: [(Cpdu<'static>, &[u8]); 7] = [
        (Cpdu::Data(&[0x02, 0x99, 0x00]), &[0x00, 0x02, 0x99, 0x00]),
        (Cpdu::Request { is_exclusive: false }, &[0x10]),
        (Cpdu::Request { is_exclusive: true }, &[0x11]),
        (Cpdu::Accepted, &[0x20]),
        (Cpdu::Rejected(RejectReason::ExclusiveLink), &[0x33]),
        (Cpdu::Break(BreakReason::NoMoreData), &[0x44]),
        (Cpdu::BreakConfirm, &[0x50]),
    ];

    #[test]
    fn every_c_pdu_is_written_and_read_as_drawn() {
        for (c_pdu, octets) in EXAMPLES {
            let mut out = Vec::new();
            c_pdu.emit(&mut out);

            assert_eq!(out, octets);
            assert_eq!(Cpdu::parse(octets), Ok(c_pdu));
        }
    }

    #[test]
    fn every_first_octet_is_read_or_refused_and_reasons_without_a_name_are_kept() {
        assert_eq!(Cpdu::parse(&[]), Err(Malformed::Empty));
        for first in 0..=u8::MAX {
            match Cpdu::parse(&[first]) {
                Ok(c_pdu) => {
                    assert!(first >> 4 < 6);
                    let mut out = Vec::new();
                    c_pdu.emit(&mut out);
                    assert!(out == [first] || !matches!(first >> 4, 3 | 4), "{c_pdu:?}");
                }
                Err(error) => assert_eq!(error, Malformed::Type(first >> 4)),
            }
        }
    }
}

//! Answers to unreadable requests, so that nobody waits in vain for an outcome.

use super::emit::cut;
use super::{ENVELOPE, Malformed, PREAMBLE, RESULT, VERSION};
use crate::s5066::sis::{BindReason, LinkReason, UnidataReason};

/// The primitive that refuses an unreadable request, if the standard has one: returns the fields of the request
/// unchanged, 0 for missing fields, and an address always with a length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal<'a> {
    fields: &'a [u8],
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Bind,
    Link,
    Unidata { number: u8, reason: UnidataReason },
}

/// Octets of a hard link: its type, and the address.
const LINK: usize = 5;
/// Octets of a request for a U_PDU before its size, without the type.
const BEFORE_SIZE: usize = 9;

impl<'a> Refusal<'a> {
    /// The answer to a primitive, whose type and fields fill `octets`.
    pub(crate) fn of(octets: &'a [u8], why: Malformed) -> Option<Self> {
        let (&number, fields) = octets.split_first()?;
        let kind = match number {
            1 => Kind::Bind,
            6 => Kind::Link,
            20 | 24 => Kind::Unidata {
                number: number + 3,
                // The standard knows nobody without an address, and of sizes only that they are too large.
                reason: match why {
                    Malformed::Address => UnidataReason::NO_RESPONSE,
                    _ => UnidataReason::TOO_LARGE,
                },
            },
            _ => return None,
        };
        Some(Self { fields, kind })
    }

    /// Whether it is about a bind.
    pub(crate) fn is_of_bind(&self) -> bool {
        matches!(self.kind, Kind::Bind)
    }

    /// Appends it in its envelope, with at most `prefix` octets of a U_PDU.
    pub(crate) fn emit(&self, prefix: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[PREAMBLE[0], PREAMBLE[1], VERSION, 0, 0]);
        match self.kind {
            Kind::Bind => out.extend([4, BindReason::NO_RESOURCES.0]),
            Kind::Link => {
                out.extend([9, LinkReason::NO_RESPONSE.0]);
                let [link, address @ ..] = self.field::<LINK>(0);
                out.push(link);
                out.extend(readable(address));
            }
            Kind::Unidata { number, reason } => {
                let [to_sap] = self.field(0);
                out.extend([number, reason.0 << 4 | to_sap & 0x0f]);
                out.extend(readable(self.field(1)));
                let size = usize::from(u16::from_be_bytes(self.field(BEFORE_SIZE)));
                let u_pdu = self.fields.get(BEFORE_SIZE + 2..).unwrap_or_default();
                let start = cut(u_pdu, size.min(prefix).min(usize::from(u16::MAX) - RESULT));
                out.extend(u16::try_from(start.len()).unwrap_or_default().to_be_bytes());
                out.extend_from_slice(start);
            }
        }
        let size = u16::try_from(out.len() - start - ENVELOPE).unwrap_or_default();
        out[start + 3..start + ENVELOPE].copy_from_slice(&size.to_be_bytes());
    }

    /// A field of the request; missing octets read as 0.
    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|octet| self.fields.get(at + octet).copied().unwrap_or_default())
    }
}

/// An address as it came, but with a length, without which nobody could read the answer.
fn readable([first, rest @ ..]: [u8; 4]) -> [u8; 4] {
    let size = if first >> 5 == 0 { 7 << 5 } else { first & 7 << 5 };
    let [a, b, c] = rest;
    [size | first & 0x1f, a, b, c]
}

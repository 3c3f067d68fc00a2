//! S_PDUs, what the interface sublayers of two nodes say to each other (A.3.1; types 8 and 9: EP9).
//!
//! ```text
//!  octet 0             1               2
//!      +-------+-------+-------+-------+-----------------------------------+
//!      | type  | low   | SAP from, SAP to                                  |
//!      +-------+-------+-------+-------+-----------------------------------+
//!
//!  0 data                   low: priority; SAPs; confirm:1 TTD follows:1 unused:2 TTD day:4;
//!                           [TTD time 2]; U_PDU
//!  1 delivery confirm       SAPs as in the data; start of the U_PDU
//!  2 delivery fail          low: reason; SAPs as in the data; start of the U_PDU
//!  3 hard link request      low: type:2 priority:2; requesting and remote SAP
//!  4 hard link confirm
//!  5 hard link rejected     low: reason
//!  6 hard link terminate    low: reason
//!  7 ... terminate confirm
//!  8 data with ID           as data, with an ID of 4 octets before the U_PDU
//!  9 compact confirm        SAPs as in the data; ID 4
//! ```

use super::primitive::LinkKind;
use super::{LinkReason, Sap, TerminateReason, Ttd};

/// Octets before the U_PDU at most.
pub const MAX_HEADER: usize = 9;

/// A message from one node to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SPdu<'a> {
    /// A U_PDU.
    Data(Data<'a>),
    /// A U_PDU reached its client.
    DeliveryConfirm {
        /// Who sent it.
        from: Sap,
        /// Who got it.
        to: Sap,
        /// It, or its start.
        u_pdu: &'a [u8],
    },
    /// A U_PDU did not reach its client.
    DeliveryFail {
        /// 1: the client is not bound.
        reason: u8,
        /// Who sent it.
        from: Sap,
        /// Who was to get it.
        to: Sap,
        /// It, or its start.
        u_pdu: &'a [u8],
    },
    /// A client wants a hard link.
    HardLinkRequest {
        /// For whom.
        kind: LinkKind,
        /// 0 to 3, the highest.
        priority: u8,
        /// Who wants it.
        requesting: Sap,
        /// The remote client; only for a link between one client and one other.
        remote: Sap,
    },
    /// There is a hard link.
    HardLinkConfirm,
    /// There is no hard link.
    HardLinkRejected(LinkReason),
    /// The hard link is to end.
    HardLinkTerminate(EndReason),
    /// The hard link has ended.
    HardLinkTerminateConfirm,
    /// A U_PDU with a number reached its client.
    CompactConfirm {
        /// Who sent it.
        from: Sap,
        /// Who got it.
        to: Sap,
        /// Its number.
        id: u32,
    },
}

/// A U_PDU from a client to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Data<'a> {
    /// 0 to 15, the highest.
    pub priority: u8,
    /// Who sends it.
    pub from: Sap,
    /// Who is to get it.
    pub to: Sap,
    /// Whether the sender is to be told of the delivery.
    pub is_confirmed: bool,
    /// The time after which the U_PDU is useless.
    pub ttd: Option<Ttd>,
    /// A number that no other pending one has; makes it a data with ID.
    pub id: Option<u32>,
    /// What the client gave.
    pub u_pdu: &'a [u8],
}

/// Why a node ends a hard link, four bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EndReason(pub u8);

impl EndReason {
    /// A client wants it.
    pub const CLIENT: Self = Self(1);
    /// Another link goes first.
    pub const HIGHER_PRIORITY: Self = Self(2);
    /// The client at the other end is gone.
    pub const SAP_UNBOUND: Self = Self(4);

    /// What the clients at the other end are told.
    #[must_use]
    pub const fn as_told(self) -> TerminateReason {
        TerminateReason(self.0)
    }
}

/// Why octets are no S_PDU.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// Hard links of type 3 do not exist.
    #[error("hard link of type 3")]
    LinkType,
    /// The S_PDU ends before its last field.
    #[error("it ends too early")]
    Truncated,
    /// No edition defines it.
    #[error("undefined type {0}")]
    Type(u8),
}

const CONFIRM: u8 = 0x80;
const HAS_TTD: u8 = 0x40;
const DAY: u8 = 0x0f;

impl<'a> SPdu<'a> {
    /// Reads the S_PDU that fills `octets`; more than the fields is ignored, as later editions add.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let (&first, rest) = octets.split_first().ok_or(Malformed::Truncated)?;
        let [number, low] = [first >> 4, first & 0x0f];
        match number {
            4 => return Ok(Self::HardLinkConfirm),
            5 => return Ok(Self::HardLinkRejected(LinkReason(low))),
            6 => return Ok(Self::HardLinkTerminate(EndReason(low))),
            7 => return Ok(Self::HardLinkTerminateConfirm),
            0..=3 | 8 | 9 => {}
            other => return Err(Malformed::Type(other)),
        }
        let (&saps, rest) = rest.split_first().ok_or(Malformed::Truncated)?;
        let [from, to] = [Sap::high(saps), Sap::new(saps)];
        match number {
            1 => Ok(Self::DeliveryConfirm { from, to, u_pdu: rest }),
            2 => Ok(Self::DeliveryFail { reason: low, from, to, u_pdu: rest }),
            3 => Ok(Self::HardLinkRequest {
                kind: LinkKind::from_bits(low >> 2).map_err(|_| Malformed::LinkType)?,
                priority: low & 3,
                requesting: from,
                remote: to,
            }),
            9 => {
                let (id, _) = split_u32(rest)?;
                Ok(Self::CompactConfirm { from, to, id })
            }
            _ => {
                let (&flags, mut rest) = rest.split_first().ok_or(Malformed::Truncated)?;
                let mut ttd = None;
                if flags & HAS_TTD != 0 {
                    let (time, after) = rest.split_first_chunk().ok_or(Malformed::Truncated)?;
                    let half_seconds = u16::from_be_bytes(*time);
                    ttd = Some(Ttd { day: flags & DAY, half_seconds });
                    rest = after;
                }
                let mut id = None;
                if number == 8 {
                    let (number, after) = split_u32(rest)?;
                    id = Some(number);
                    rest = after;
                }
                let is_confirmed = flags & CONFIRM != 0;
                Ok(Self::Data(Data { priority: low, from, to, is_confirmed, ttd, id, u_pdu: rest }))
            }
        }
    }

    /// Appends the S_PDU.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Data(data) => data.emit(out),
            Self::DeliveryConfirm { from, to, u_pdu } => {
                out.extend([1 << 4, saps(from, to)]);
                out.extend_from_slice(u_pdu);
            }
            Self::DeliveryFail { reason, from, to, u_pdu } => {
                out.extend([2 << 4 | reason & 0x0f, saps(from, to)]);
                out.extend_from_slice(u_pdu);
            }
            Self::HardLinkRequest { kind, priority, requesting, remote } => {
                let kind = match kind {
                    LinkKind::Shared => 0,
                    LinkKind::Reserved => 1,
                    LinkKind::Exclusive => 2,
                };
                out.extend([3 << 4 | kind << 2 | priority & 3, saps(requesting, remote)]);
            }
            Self::HardLinkConfirm => out.push(4 << 4),
            Self::HardLinkRejected(LinkReason(reason)) => out.push(5 << 4 | reason & 0x0f),
            Self::HardLinkTerminate(EndReason(reason)) => out.push(6 << 4 | reason & 0x0f),
            Self::HardLinkTerminateConfirm => out.push(7 << 4),
            Self::CompactConfirm { from, to, id } => {
                out.extend([9 << 4, saps(from, to)]);
                out.extend_from_slice(&id.to_be_bytes());
            }
        }
    }
}

impl Data<'_> {
    /// Octets before the U_PDU.
    #[must_use]
    pub fn header(&self) -> usize {
        3 + if self.ttd.is_some() { 2 } else { 0 } + if self.id.is_some() { 4 } else { 0 }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let number = if self.id.is_some() { 8 } else { 0 };
        out.extend([number << 4 | self.priority & 0x0f, saps(self.from, self.to)]);
        let confirm = if self.is_confirmed { CONFIRM } else { 0 };
        out.push(confirm | self.ttd.map_or(0, |ttd| HAS_TTD | ttd.day & DAY));
        if let Some(ttd) = self.ttd {
            out.extend_from_slice(&ttd.half_seconds.to_be_bytes());
        }
        if let Some(id) = self.id {
            out.extend_from_slice(&id.to_be_bytes());
        }
        out.extend_from_slice(self.u_pdu);
    }
}

fn saps(from: Sap, to: Sap) -> u8 {
    from.number() << 4 | to.number()
}

fn split_u32(octets: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    let (number, rest) = octets.split_first_chunk().ok_or(Malformed::Truncated)?;
    Ok((u32::from_be_bytes(*number), rest))
}

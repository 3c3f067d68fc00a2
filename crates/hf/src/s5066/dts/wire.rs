//! Frames (D_PDUs), Annex C section 3: octets in, octets out.
//!
//! ```text
//!       sync         0             1           2      3        4 .. 3+m          h            size   4
//!  +------+------+------+-------+----------+-------+---+---+-----------------+------+--------+------+-------+
//!  | 0x90 | 0xeb | kind | eow 11-8 | 7-0   |  eot  | m | h |  to   |  from   | body | CRC-16 | segm.| CRC-32|
//!  +------+------+------+-------+----------+-------+---+---+-----------------+------+--------+------+-------+
//!                4 bits                             3   5     4m bits each     kinds 0 2 4 7 8: ^^^^^^^^^^^^^
//!
//!  body, by kind                           h: octets 0 to 3, body and CRC-16; m: octets of the addresses
//!   0  data       flags(6) size(10) | fsn
//!   1  ack        lwe | bitmap 0..16       bit 0 of the first octet is lwe + 1
//!   2  data, ack  0, then 1
//!   3  reset      flags | lwe | id
//!   4  expedited  start end id(4) size(10) | fsn
//!   5  its ack    1
//!   6  management flags | id | message 0..23
//!   7  datagram   id 11-8, in order, group, size(10) | id 7-0 | C_PDU size (2) | offset (2) | window (2)
//!   8  expedited  7
//!  15  warning    kind(4) reason(4)
//!
//!  ours: what EP5, EP10 and EP2 leave open
//!   9  data       flags(6) size(10) | fsn (2)
//!  10  ack        lwe (2) | last(1) runs(1) 0(4) size(10) | base (2)        segment: see `LongAck`
//!  11  data, ack  9, then lwe (2) | bitmap 0..16
//!  12  reset      flags | lwe (2) | id
//!  13  extension  type | octets
//!  14  padding    count (2)                count octets follow the header, at most 1023
//! ```
//!
//! Numbers are big-endian, check sums little-endian. Bits without a meaning are sent as 0 and
//! ignored.

mod ack;
mod emit;
mod eow;
mod numbers;
mod parse;
#[cfg(test)]
mod tests;

pub use ack::{Ack, Coding, LongAck, MAX_BITMAP, Report, Run, Runs};
pub(crate) use ack::{emit_length, length_octets};
pub use eow::{Capabilities, Eow, Extensions, RATES, RateRequest, Response};
pub use numbers::{Fsn, Numbers};
pub use parse::Malformed;

use crate::s5066::Address;

/// The octets that a frame begins with: Maury-Styles, low octet first (Annex C, section 3.2).
pub const SYNC: [u8; 2] = [0x90, 0xeb];
/// The most octets of a C_PDU in one frame: their number has ten bits (Annex C, section 3.2.10).
pub const MAX_SEGMENT: usize = 1023;
/// The most octets that one padding frame adds to its header.
pub const MAX_PADDING: usize = 1023;
/// The most octets of an extended management message (Annex C, section 3.9).
pub const MAX_MESSAGE: usize = 23;
/// The most octets of a frame: sync, addresses, header, segment, check sum.
pub const MAX_FRAME: usize = SYNC.len() + 7 + 31 + MAX_SEGMENT + CRC32;
/// Values of the 12 bits that name a C_PDU without ARQ (Annex C, section 3.10).
pub const DATAGRAM_IDS: u16 = 4096;

/// Octets 0 to 3, and the CRC-16.
const FIXED: usize = 4 + CRC16;
const CRC16: usize = 2;
const CRC32: usize = 4;

/// A D_PDU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame<'a> {
    /// The header, common to all frames.
    pub header: Header,
    /// The body, by the frame's purpose.
    pub body: Body<'a>,
}

/// Fields common to all frames (Annex C, section 3.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// The order wire.
    pub eow: Eow,
    /// Half seconds from the start of this frame to the end of the transmission, rounded up; 0 if
    /// it has none (section 3.2.3).
    pub eot: u8,
    /// For whom; a group only in datagrams.
    pub to: Address,
    /// From whom.
    pub from: Address,
    /// Octets of both addresses together, 1 to 7 (section 3.2.4); longer addresses take more.
    pub address_size: u8,
}

/// The purpose of a frame, and its fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Body<'a> {
    /// Kinds 1 and 5, told apart by `is_expedited` (sections 3.4 and 3.8).
    Ack {
        /// Whether expedited data is acknowledged.
        is_expedited: bool,
        /// The frames that arrived.
        ack: Ack<'a>,
    },
    /// Kinds 0 and 9; with an acknowledgement 2 and 11 (sections 3.3 and 3.5).
    Data {
        /// How long numbers are, in both.
        numbers: Numbers,
        /// A piece of a C_PDU.
        data: Data<'a>,
        /// The frames that arrived from the other side.
        ack: Option<Ack<'a>>,
    },
    /// Kinds 7 and 8 (sections 3.10 and 3.11).
    Datagram(Datagram<'a>),
    /// Kind 4 (section 3.7).
    Expedited(Expedited<'a>),
    /// Kind 13 (EP10): an extension of unknown type; octets after the header do not belong to it.
    Extension {
        /// The extended type.
        kind: u8,
        /// The rest of the header.
        octets: &'a [u8],
    },
    /// Kind 10: ours.
    LongAck(LongAck<'a>),
    /// Kind 6 (section 3.9).
    Management(Management<'a>),
    /// Kind 14 (EP2): octets to fill a block; at most [`MAX_PADDING`].
    Padding {
        /// How many follow the header.
        count: u16,
    },
    /// Kinds 3 and 12 (section 3.6).
    Reset {
        /// How long numbers are.
        numbers: Numbers,
        /// The windows to reset.
        reset: Reset,
    },
    /// Kind 15 (section 3.12).
    Warning {
        /// The kind of the frame it is about, 4 bits.
        received: u8,
        /// The fault.
        reason: Reason,
    },
}

/// A part of a C_PDU, with its check sum.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct CpduSegment<'a> {
    /// At most [`MAX_SEGMENT`].
    pub octets: &'a [u8],
    /// Whether the CRC-32 holds.
    pub is_good: bool,
}

impl<'a> CpduSegment<'a> {
    /// A segment to be sent.
    #[must_use]
    pub const fn new(octets: &'a [u8]) -> Self {
        Self { octets, is_good: true }
    }
}

impl std::fmt::Debug for CpduSegment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.is_good { "" } else { ", bad" };
        write!(f, "CpduSegment({} octets{mark})", self.octets.len())
    }
}

/// A segment of a C_PDU by selective-repeat ARQ (Annex C, section 3.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Data<'a> {
    /// The number of the frame.
    pub fsn: Fsn,
    /// The segment is the first piece.
    pub is_start: bool,
    /// The segment is the last piece.
    pub is_end: bool,
    /// In-order delivery: the C_PDU waits for those sent before it.
    pub in_order: bool,
    /// The sender has given the C_PDU up: the receiver is to discard it.
    pub is_drop: bool,
    /// The number is the sender's upper window edge: the newest one sent.
    pub at_upper_edge: bool,
    /// The number is the sender's lower window edge: the oldest one not acknowledged.
    pub at_lower_edge: bool,
    /// The octets.
    pub segment: CpduSegment<'a>,
}

/// A segment of an expedited C_PDU by ARQ (Annex C, section 3.7).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Expedited<'a> {
    /// The segment is the first piece.
    pub is_start: bool,
    /// The segment is the last piece.
    pub is_end: bool,
    /// The C_PDU, 0 to 15.
    pub id: u8,
    /// Which piece, from 0.
    pub fsn: u8,
    /// The octets.
    pub segment: CpduSegment<'a>,
}

/// A segment of a C_PDU without ARQ (Annex C, sections 3.10 and 3.11). It is for a group if the
/// header's address is one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Datagram<'a> {
    /// Kind 8, not 7.
    pub is_expedited: bool,
    /// The C_PDU, below [`DATAGRAM_IDS`]; each kind counts for itself.
    pub id: u16,
    /// The C_PDU waits for those before it.
    pub in_order: bool,
    /// Octets of the C_PDU.
    pub size: u16,
    /// Where in it the segment lies.
    pub offset: u16,
    /// Half seconds during which pieces of the C_PDU are still sent.
    pub window: u16,
    /// The octets.
    pub segment: CpduSegment<'a>,
}

/// A management frame (Annex C, section 3.9); its message begins in the order wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Management<'a> {
    /// The order wire holds a message to be acknowledged.
    pub is_valid: bool,
    /// The frame acknowledges frame `id` of the other side.
    pub is_ack: bool,
    /// The number of the frame.
    pub id: u8,
    /// The rest of the message, at most [`MAX_MESSAGE`] octets.
    pub extended: Option<&'a [u8]>,
}

/// The windows to reset (Annex C, section 3.6).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reset {
    /// All windows of both sides begin anew.
    pub is_full: bool,
    /// The receiver of this is asked to send `is_rx_command`.
    pub is_tx_request: bool,
    /// The receiver sets its lower edge to `lwe`.
    pub is_rx_command: bool,
    /// The reset was done.
    pub is_ack: bool,
    /// The new lower edge.
    pub lwe: Fsn,
    /// The number of the frame.
    pub id: u8,
}

/// What was wrong with a frame (Annex C, section 3.12).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// 2: it is no valid frame.
    Invalid,
    /// 3: it is not valid now.
    InvalidNow,
    /// 1: it needs a connection.
    NotConnected,
    /// A number without a meaning, 4 to 15.
    Other(u8),
    /// 0: its kind is not known.
    UnknownKind,
}

impl<'a> Frame<'a> {
    /// The D_PDU type, 0 to 15.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match &self.body {
            Body::Data { numbers: Numbers::Short, ack: None, .. } => 0,
            Body::Ack { is_expedited: false, .. } => 1,
            Body::Data { numbers: Numbers::Short, ack: Some(_), .. } => 2,
            Body::Reset { numbers: Numbers::Short, .. } => 3,
            Body::Expedited(_) => 4,
            Body::Ack { is_expedited: true, .. } => 5,
            Body::Management(_) => 6,
            Body::Datagram(Datagram { is_expedited: false, .. }) => 7,
            Body::Datagram(Datagram { is_expedited: true, .. }) => 8,
            Body::Data { numbers: Numbers::Long, ack: None, .. } => 9,
            Body::LongAck(_) => 10,
            Body::Data { numbers: Numbers::Long, ack: Some(_), .. } => 11,
            Body::Reset { numbers: Numbers::Long, .. } => 12,
            Body::Extension { .. } => 13,
            Body::Padding { .. } => 14,
            Body::Warning { .. } => 15,
        }
    }

    /// Whether both check sums hold.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.body.segment().is_none_or(|segment| segment.is_good)
    }
}

impl<'a> Body<'a> {
    /// The segment, if the frame has one.
    #[must_use]
    pub const fn segment(&self) -> Option<CpduSegment<'a>> {
        match self {
            Body::Data { data, .. } => Some(data.segment),
            Body::Datagram(datagram) => Some(datagram.segment),
            Body::Expedited(expedited) => Some(expedited.segment),
            Body::LongAck(ack) if !ack.list.octets.is_empty() => Some(ack.list),
            Body::Ack { .. }
            | Body::Extension { .. }
            | Body::LongAck(_)
            | Body::Management(_)
            | Body::Padding { .. }
            | Body::Reset { .. }
            | Body::Warning { .. } => None,
        }
    }
}

//! S_primitives, what clients and nodes say to each other over TCP (A.2.2; Annex F, F.16).
//!
//! ```text
//!  octet 0    1      2       3    4     5      6 ...
//!      +------+------+---------+-----------+------+------ - -
//!      | 0x90 | 0xeb | version |   size    | type | fields       size: octets from 5 on
//!      +------+------+---------+-----------+------+------ - -
//!
//!   1 bind request          SAP:4 rank:4, service type:12 unused:4
//!   2 unbind request
//!   3 bind accepted         SAP:4 unused:4, MTU 2
//!   4 bind rejected         reason
//!   5 unbind indication     reason
//!   6 hard link establish   link 5                   link: type:2 priority:2 remote SAP:4, address 4
//!   7 hard link terminate   address 4
//!   8 ... established       status, link 5
//!   9 ... rejected          reason, link 5
//!  10 ... terminated        reason, link 5
//!  11 ... indication        status, link 5
//!  12 ... accept            link 5
//!  13 ... reject            reason, link 5
//!  14 subnet availability   status, reason
//!  15 data flow on
//!  16 data flow off
//!  17 keep alive
//!  18 management request    type, body
//!  19 management indication type, body
//!  20 unidata request       priority:4 SAP:4, address 4, delivery mode:12 time to live:20,
//!                           size 2, U_PDU
//!  21 unidata indication    priority:4 SAP:4, address 4, mode:4 source SAP:4, source address 4,
//!                           size 2, blocks if mode is 3, U_PDU
//!                           blocks: count 2, (offset 2, size 2) each, with errors; then the missing.
//!                           Some nodes put the counts there in any mode: the length tells
//!  22 ... confirm           unused:4 SAP:4, address 4, size 2, start of the U_PDU
//!  23 ... rejected          reason:4 SAP:4, address 4, size 2, start of the U_PDU
//!  24 to 27                 as 20 to 23 for the expedited service, with a priority of 0
//!
//!  address: size in half octets:3 group:1 address:28
//! ```

mod emit;
mod parse;
mod refusal;

pub(crate) use refusal::Refusal;

use super::Sap;
use super::delivery::Delivery;
use super::reason::{
    BindReason, LinkReason, NodeStatus, TerminateReason, UnavailableReason, UnbindReason,
    UnidataReason,
};
use crate::s5066::Address;

/// The two octets that every primitive starts with.
pub const PREAMBLE: [u8; 2] = [0x90, 0xeb];
/// The only version there is.
pub const VERSION: u8 = 0;
/// Octets before the type.
pub const ENVELOPE: usize = 5;
/// Octets of the longest primitive, envelope included.
pub const MAX: usize = ENVELOPE + u16::MAX as usize;
/// The longest U_PDU that fits an indication without blocks.
pub const MAX_U_PDU: usize = u16::MAX as usize - INDICATION;
/// Octets before a U_PDU, from the type on: in a request, ...
const REQUEST: usize = 12;
/// ... in an indication without blocks, ...
const INDICATION: usize = 13;
/// ... and in what is told of a request.
const RESULT: usize = 8;
/// The longest time to live in units of 2 s; 0 is no limit.
pub const MAX_TTL: u32 = 648_000;

/// The octets of a primitive of this type, from the type field on, if their number is fixed.
pub(crate) const fn size(number: u8) -> Option<u16> {
    Some(match number {
        2 | 15..=17 => 1,
        4 | 5 => 2,
        14 => 3,
        1 | 3 => 4,
        7 => 5,
        6 | 12 => 6,
        8..=11 | 13 => 7,
        _ => return None,
    })
}

/// Whether the standard defines this type.
pub(crate) const fn is_type(number: u8) -> bool {
    matches!(number, 1..=27)
}

/// A message between a client and its node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Primitive<'a> {
    /// A client wants to be bound to an access point.
    BindRequest {
        /// To which.
        sap: Sap,
        /// How important it is, 0 to 15.
        rank: u8,
        /// How its U_PDUs are carried unless a request says otherwise.
        service: Delivery,
    },
    /// A client goes.
    UnbindRequest,
    /// A client is bound.
    BindAccepted {
        /// To which access point.
        sap: Sap,
        /// The longest U_PDU it may send, in octets.
        mtu: u16,
    },
    /// A client is not bound.
    BindRejected(BindReason),
    /// A client is bound no more.
    UnbindIndication(UnbindReason),
    /// A client wants a hard link.
    HardLinkEstablish(HardLink),
    /// A client wants no hard link with this node any more.
    HardLinkTerminate {
        /// The node.
        remote: Address,
    },
    /// There is a hard link.
    HardLinkEstablished {
        /// The abilities of the remote node.
        status: NodeStatus,
        /// As it was asked for.
        link: HardLink,
    },
    /// There is no hard link.
    HardLinkRejected {
        /// Why.
        reason: LinkReason,
        /// As it was asked for.
        link: HardLink,
    },
    /// There is no hard link any more.
    HardLinkTerminated {
        /// Why.
        reason: TerminateReason,
        /// As it was.
        link: HardLink,
    },
    /// A remote client wants a hard link.
    HardLinkIndication {
        /// The abilities of the remote node.
        status: NodeStatus,
        /// The link; its remote access point belongs to the requesting client.
        link: HardLink,
    },
    /// A client takes the hard link.
    HardLinkAccept(HardLink),
    /// A client does not take the hard link.
    HardLinkReject {
        /// Why.
        reason: LinkReason,
        /// As it was indicated.
        link: HardLink,
    },
    /// What the node can do.
    SubnetAvailability {
        /// What.
        status: NodeStatus,
        /// Why.
        reason: UnavailableReason,
    },
    /// The client may send U_PDUs again.
    DataFlowOn,
    /// The client may send no U_PDU until flow is on.
    DataFlowOff,
    /// The other end is to say the same.
    KeepAlive,
    /// A client of rank 15 tells or asks its node something.
    ManagementRequest(Management<'a>),
    /// A node tells a client something.
    ManagementIndication(Management<'a>),
    /// A client sends.
    UnidataRequest(UnidataRequest<'a>),
    /// A client receives.
    UnidataIndication(UnidataIndication<'a>),
    /// A U_PDU was delivered.
    UnidataConfirm(UnidataConfirm<'a>),
    /// A U_PDU was not delivered.
    UnidataRejected(UnidataRejected<'a>),
    /// A client sends before all others.
    ExpeditedUnidataRequest(UnidataRequest<'a>),
    /// A client receives what was sent before all others.
    ExpeditedUnidataIndication(UnidataIndication<'a>),
    /// An expedited U_PDU was delivered.
    ExpeditedUnidataConfirm(UnidataConfirm<'a>),
    /// An expedited U_PDU was not delivered.
    ExpeditedUnidataRejected(UnidataRejected<'a>),
}

/// A hard link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HardLink {
    /// For whom it is.
    pub kind: LinkKind,
    /// 0 to 3, the highest.
    pub priority: u8,
    /// The access point at the other node; only type 2 has one.
    pub remote_sap: Sap,
    /// The other node.
    pub remote: Address,
}

/// For whom a hard link is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum LinkKind {
    /// Type 0: for all clients of both nodes.
    Shared,
    /// Type 1: for the requesting client, and every client in contact with it.
    Reserved,
    /// Type 2: for the requesting client and one other.
    Exclusive,
}

/// A message whose contents no edition defines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Management<'a> {
    /// What it is.
    pub kind: u8,
    /// Its contents, at most 65,533 octets.
    pub body: &'a [u8],
}

/// A U_PDU to be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnidataRequest<'a> {
    /// 0 to 15, the highest; 0 for the expedited service.
    pub priority: u8,
    /// The client it is for.
    pub to_sap: Sap,
    /// The node or group that it is for.
    pub to: Address,
    /// How.
    pub delivery: Delivery,
    /// The time to live in units of 2 s, 20 bits; 0 is no limit.
    pub ttl: u32,
    /// At most [`MAX_U_PDU`] octets.
    pub u_pdu: &'a [u8],
}

/// A U_PDU that arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnidataIndication<'a> {
    /// 0 to 15, the highest; 0 for the expedited service.
    pub priority: u8,
    /// The client it is for.
    pub to_sap: Sap,
    /// The node or group that it was sent to.
    pub to: Address,
    /// How it came.
    pub arrival: Arrival,
    /// The client that sent it.
    pub from_sap: Sap,
    /// The node that sent it.
    pub from: Address,
    /// The octets, at most [`MAX_U_PDU`].
    pub u_pdu: &'a [u8],
}

/// How a U_PDU came.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Arrival {
    /// Mode 0: the node does not tell, which the standard does not allow but some do.
    Unspecified,
    /// With ARQ.
    Arq,
    /// Without ARQ, and without errors.
    NonArq,
    /// Without ARQ, and perhaps with errors.
    NonArqWithErrors {
        /// Parts of the U_PDU that have errors.
        errored: Vec<Block>,
        /// Parts of the U_PDU that are missing.
        missing: Vec<Block>,
    },
}

/// A part of a U_PDU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Block {
    /// Octets before it.
    pub offset: u16,
    /// Octets of it.
    pub len: u16,
}

/// A U_PDU was delivered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnidataConfirm<'a> {
    /// The client it was for.
    pub to_sap: Sap,
    /// The node it was for.
    pub to: Address,
    /// It, or its start.
    pub u_pdu: &'a [u8],
}

/// A U_PDU was not delivered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnidataRejected<'a> {
    /// Why.
    pub reason: UnidataReason,
    /// The client it was for.
    pub to_sap: Sap,
    /// The node or group it was for.
    pub to: Address,
    /// It, or its start.
    pub u_pdu: &'a [u8],
}

/// Why octets in an envelope are not a primitive.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// An address with no half octet.
    #[error("an address of no length")]
    Address,
    /// A block ends after the U_PDU.
    #[error("a block of errors lies outside of the U_PDU")]
    Block,
    /// Hard links of type 3 do not exist.
    #[error("hard link of type 3")]
    LinkType,
    /// The standard defines no such mode.
    #[error("undefined transmission mode {0}")]
    Mode(u8),
    /// There are octets after the last field.
    #[error("{extra} octets too many")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// The primitive ends before its last field.
    #[error("it ends too early")]
    Truncated,
    /// The standard defines no such primitive.
    #[error("undefined primitive type {0}")]
    Type(u8),
}

impl Primitive<'_> {
    /// The type.
    #[must_use]
    pub fn number(&self) -> u8 {
        match self {
            Self::BindRequest { .. } => 1,
            Self::UnbindRequest => 2,
            Self::BindAccepted { .. } => 3,
            Self::BindRejected(_) => 4,
            Self::UnbindIndication(_) => 5,
            Self::HardLinkEstablish(_) => 6,
            Self::HardLinkTerminate { .. } => 7,
            Self::HardLinkEstablished { .. } => 8,
            Self::HardLinkRejected { .. } => 9,
            Self::HardLinkTerminated { .. } => 10,
            Self::HardLinkIndication { .. } => 11,
            Self::HardLinkAccept(_) => 12,
            Self::HardLinkReject { .. } => 13,
            Self::SubnetAvailability { .. } => 14,
            Self::DataFlowOn => 15,
            Self::DataFlowOff => 16,
            Self::KeepAlive => 17,
            Self::ManagementRequest(_) => 18,
            Self::ManagementIndication(_) => 19,
            Self::UnidataRequest(_) => 20,
            Self::UnidataIndication(_) => 21,
            Self::UnidataConfirm(_) => 22,
            Self::UnidataRejected(_) => 23,
            Self::ExpeditedUnidataRequest(_) => 24,
            Self::ExpeditedUnidataIndication(_) => 25,
            Self::ExpeditedUnidataConfirm(_) => 26,
            Self::ExpeditedUnidataRejected(_) => 27,
        }
    }
}

impl LinkKind {
    /// The kind with this number, of which only the low two bits count.
    pub(crate) fn from_bits(bits: u8) -> Result<Self, Malformed> {
        match bits & 3 {
            0 => Ok(Self::Shared),
            1 => Ok(Self::Reserved),
            2 => Ok(Self::Exclusive),
            _ => Err(Malformed::LinkType),
        }
    }
}

impl<'a> From<UnidataRejected<'a>> for UnidataConfirm<'a> {
    /// They are laid out alike, but for the reason.
    fn from(rejected: UnidataRejected<'a>) -> Self {
        Self { to_sap: rejected.to_sap, to: rejected.to, u_pdu: rejected.u_pdu }
    }
}

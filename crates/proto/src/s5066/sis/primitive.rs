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
//!                           blocks: count 2, (offset 2, size 2) each, with errors; then the missing
//!  22 ... confirm           unused:4 SAP:4, address 4, size 2, start of the U_PDU
//!  23 ... rejected          reason:4 SAP:4, address 4, size 2, start of the U_PDU
//!  24 to 27                 as 20 to 23 for the expedited service, with a priority of 0
//!
//!  address: size in half octets:3 group:1 address:28
//! ```

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

/// What a client or a node says.
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
        /// What the remote node can do.
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
        /// What the remote node can do.
        status: NodeStatus,
        /// Its remote access point is that of the client that asks.
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
    /// Type 1: for the client that asked for it, and whom it speaks to.
    Reserved,
    /// Type 2: for the client that asked for it and one other.
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
    /// How long it is of use, in units of 2 s, 20 bits; 0 is no limit.
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
    /// There is no hard link of type 3.
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
    /// It ends before its last field does.
    #[error("it ends too early")]
    Truncated,
    /// The standard defines no such primitive.
    #[error("undefined primitive type {0}")]
    Type(u8),
}

impl<'a> Primitive<'a> {
    /// Reads the primitive whose type and fields fill `octets`, the envelope taken off.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(octets);
        let number = reader.u8()?;
        let primitive = Self::parse_fields(number, &mut reader)?;
        match reader.0.len() {
            0 => Ok(primitive),
            extra => Err(Malformed::Trailing { extra }),
        }
    }

    fn parse_fields(number: u8, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match number {
            1 => {
                let [first, service] = [u16::from(reader.u8()?), reader.u16()?];
                let [sap, rank] = halves(first.to_be_bytes()[1]);
                let service = Delivery::from_bits(service >> 4);
                Self::BindRequest { sap: Sap::new(sap), rank, service }
            }
            2 => Self::UnbindRequest,
            3 => Self::BindAccepted { sap: Sap::high(reader.u8()?), mtu: reader.u16()? },
            4 => Self::BindRejected(BindReason(reader.u8()?)),
            5 => Self::UnbindIndication(UnbindReason(reader.u8()?)),
            6 => Self::HardLinkEstablish(reader.link()?),
            7 => Self::HardLinkTerminate { remote: reader.address()? },
            8 => {
                let status = NodeStatus(reader.u8()?);
                Self::HardLinkEstablished { status, link: reader.link()? }
            }
            9 => {
                let reason = LinkReason(reader.u8()?);
                Self::HardLinkRejected { reason, link: reader.link()? }
            }
            10 => {
                let reason = TerminateReason(reader.u8()?);
                Self::HardLinkTerminated { reason, link: reader.link()? }
            }
            11 => {
                let status = NodeStatus(reader.u8()?);
                Self::HardLinkIndication { status, link: reader.link()? }
            }
            12 => Self::HardLinkAccept(reader.link()?),
            13 => {
                let reason = LinkReason(reader.u8()?);
                Self::HardLinkReject { reason, link: reader.link()? }
            }
            14 => {
                let status = NodeStatus(reader.u8()?);
                Self::SubnetAvailability { status, reason: UnavailableReason(reader.u8()?) }
            }
            15 => Self::DataFlowOn,
            16 => Self::DataFlowOff,
            17 => Self::KeepAlive,
            18 => Self::ManagementRequest(reader.management()?),
            19 => Self::ManagementIndication(reader.management()?),
            20 => Self::UnidataRequest(reader.request()?),
            21 => Self::UnidataIndication(reader.indication()?),
            22 => Self::UnidataConfirm(reader.rejected()?.into()),
            23 => Self::UnidataRejected(reader.rejected()?),
            24 => {
                let request = reader.request()?;
                Self::ExpeditedUnidataRequest(UnidataRequest { priority: 0, ..request })
            }
            25 => {
                let indication = reader.indication()?;
                Self::ExpeditedUnidataIndication(UnidataIndication { priority: 0, ..indication })
            }
            26 => Self::ExpeditedUnidataConfirm(reader.rejected()?.into()),
            27 => Self::ExpeditedUnidataRejected(reader.rejected()?),
            other => return Err(Malformed::Type(other)),
        })
    }

    /// Appends the primitive in its envelope; what is too long is cut.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[PREAMBLE[0], PREAMBLE[1], VERSION, 0, 0, self.number()]);
        self.emit_fields(out);
        let size = u16::try_from(out.len() - start - ENVELOPE).expect("fields are cut to fit");
        out[start + 3..start + 5].copy_from_slice(&size.to_be_bytes());
    }

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

    fn emit_fields(&self, out: &mut Vec<u8>) {
        match *self {
            Self::BindRequest { sap, rank, service } => {
                out.push(octet(sap.number(), rank));
                out.extend_from_slice(&(service.bits() << 4).to_be_bytes());
            }
            Self::BindAccepted { sap, mtu } => {
                out.push(octet(sap.number(), 0));
                out.extend_from_slice(&mtu.to_be_bytes());
            }
            Self::BindRejected(BindReason(reason)) => out.push(reason),
            Self::UnbindIndication(UnbindReason(reason)) => out.push(reason),
            Self::HardLinkEstablish(link) | Self::HardLinkAccept(link) => link.emit(out),
            Self::HardLinkTerminate { remote } => emit_address(remote, out),
            Self::HardLinkEstablished { status: NodeStatus(first), link }
            | Self::HardLinkRejected { reason: LinkReason(first), link }
            | Self::HardLinkTerminated { reason: TerminateReason(first), link }
            | Self::HardLinkIndication { status: NodeStatus(first), link }
            | Self::HardLinkReject { reason: LinkReason(first), link } => {
                out.push(first);
                link.emit(out);
            }
            Self::SubnetAvailability { status, reason } => out.extend([status.0, reason.0]),
            Self::UnbindRequest | Self::DataFlowOn | Self::DataFlowOff | Self::KeepAlive => {}
            Self::ManagementRequest(message) | Self::ManagementIndication(message) => {
                out.push(message.kind);
                out.extend_from_slice(cut(message.body, usize::from(u16::MAX) - 2));
            }
            Self::UnidataRequest(request) => request.emit(request.priority, out),
            Self::ExpeditedUnidataRequest(request) => request.emit(0, out),
            Self::UnidataIndication(ref indication) => {
                indication.emit(indication.priority, out);
            }
            Self::ExpeditedUnidataIndication(ref indication) => indication.emit(0, out),
            Self::UnidataConfirm(confirm) | Self::ExpeditedUnidataConfirm(confirm) => {
                emit_result(0, confirm.to_sap, confirm.to, confirm.u_pdu, out);
            }
            Self::UnidataRejected(rejected) | Self::ExpeditedUnidataRejected(rejected) => {
                let UnidataRejected { reason, to_sap, to, u_pdu } = rejected;
                emit_result(reason.0, to_sap, to, u_pdu, out);
            }
        }
    }
}

impl HardLink {
    fn emit(&self, out: &mut Vec<u8>) {
        let kind = match self.kind {
            LinkKind::Shared => 0,
            LinkKind::Reserved => 1,
            LinkKind::Exclusive => 2,
        };
        out.push(kind << 6 | (self.priority & 3) << 4 | self.remote_sap.number());
        emit_address(self.remote, out);
    }
}

impl LinkKind {
    /// The kind with this number, of which only the low two bits count.
    pub(super) fn from_bits(bits: u8) -> Result<Self, Malformed> {
        match bits & 3 {
            0 => Ok(Self::Shared),
            1 => Ok(Self::Reserved),
            2 => Ok(Self::Exclusive),
            _ => Err(Malformed::LinkType),
        }
    }
}

impl UnidataRequest<'_> {
    fn emit(&self, priority: u8, out: &mut Vec<u8>) {
        out.push(octet(priority, self.to_sap.number()));
        emit_address(self.to, out);
        let both = u32::from(self.delivery.bits()) << 20 | self.ttl & 0x000f_ffff;
        out.extend_from_slice(&both.to_be_bytes());
        emit_u_pdu(cut(self.u_pdu, usize::from(u16::MAX) - REQUEST), out);
    }
}

impl UnidataIndication<'_> {
    fn emit(&self, priority: u8, out: &mut Vec<u8>) {
        out.push(octet(priority, self.to_sap.number()));
        emit_address(self.to, out);
        let (mode, blocks) = match &self.arrival {
            Arrival::Unspecified => (0, None),
            Arrival::Arq => (1, None),
            Arrival::NonArq => (2, None),
            Arrival::NonArqWithErrors { errored, missing } => (3, Some([errored, missing])),
        };
        out.push(octet(mode, self.from_sap.number()));
        emit_address(self.from, out);
        let Some(blocks) = blocks else {
            emit_u_pdu(cut(self.u_pdu, MAX_U_PDU), out);
            return;
        };

        let u_pdu = cut(self.u_pdu, MAX_U_PDU - 4);
        let mut room = (MAX_U_PDU - 4 - u_pdu.len()) / 4;
        out.extend_from_slice(&len16(u_pdu));
        for blocks in blocks {
            let blocks = &blocks[..blocks.len().min(room)];
            room -= blocks.len();
            out.extend_from_slice(&u16::try_from(blocks.len()).unwrap_or_default().to_be_bytes());
            for block in blocks {
                out.extend_from_slice(&block.offset.to_be_bytes());
                out.extend_from_slice(&block.len.to_be_bytes());
            }
        }
        out.extend_from_slice(u_pdu);
    }
}

impl<'a> From<UnidataRejected<'a>> for UnidataConfirm<'a> {
    /// They are laid out alike, but for the reason.
    fn from(rejected: UnidataRejected<'a>) -> Self {
        Self { to_sap: rejected.to_sap, to: rejected.to, u_pdu: rejected.u_pdu }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(*chunk)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.chunk().map(|[octet]| octet)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.chunk().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.chunk().map(u32::from_be_bytes)
    }

    /// An address, which is right-aligned whatever its size says.
    fn address(&mut self) -> Result<Address, Malformed> {
        let bits = self.u32()?;
        match (bits >> 29, bits & 1 << 28) {
            (0, _) => Err(Malformed::Address),
            (_, 0) => Ok(Address::node(bits)),
            _ => Ok(Address::group(bits)),
        }
    }

    fn link(&mut self) -> Result<HardLink, Malformed> {
        let [high, remote_sap] = halves(self.u8()?);
        Ok(HardLink {
            kind: LinkKind::from_bits(high >> 2)?,
            priority: high & 3,
            remote_sap: Sap::new(remote_sap),
            remote: self.address()?,
        })
    }

    fn management(&mut self) -> Result<Management<'a>, Malformed> {
        let kind = self.u8()?;
        Ok(Management { kind, body: std::mem::take(&mut self.0) })
    }

    fn request(&mut self) -> Result<UnidataRequest<'a>, Malformed> {
        let [priority, to_sap] = halves(self.u8()?);
        let to = self.address()?;
        let both = self.u32()?;
        let [_, _, high, low] = (both >> 20).to_be_bytes();
        Ok(UnidataRequest {
            priority,
            to_sap: Sap::new(to_sap),
            to,
            delivery: Delivery::from_bits(u16::from_be_bytes([high, low])),
            ttl: both & 0x000f_ffff,
            u_pdu: self.u_pdu()?,
        })
    }

    fn indication(&mut self) -> Result<UnidataIndication<'a>, Malformed> {
        let [priority, to_sap] = halves(self.u8()?);
        let to = self.address()?;
        let [mode, from_sap] = halves(self.u8()?);
        let from = self.address()?;
        let len = self.u16()?;
        let arrival = match mode {
            0 => Arrival::Unspecified,
            1 => Arrival::Arq,
            2 => Arrival::NonArq,
            3 => {
                Arrival::NonArqWithErrors { errored: self.blocks(len)?, missing: self.blocks(len)? }
            }
            other => return Err(Malformed::Mode(other)),
        };
        Ok(UnidataIndication {
            priority,
            to_sap: Sap::new(to_sap),
            to,
            arrival,
            from_sap: Sap::new(from_sap),
            from,
            u_pdu: self.take(usize::from(len))?,
        })
    }

    fn blocks(&mut self, u_pdu: u16) -> Result<Vec<Block>, Malformed> {
        let count = usize::from(self.u16()?);
        let octets = self.take(count * 4)?;
        let mut blocks = Vec::with_capacity(count);
        for &[a, b, c, d] in octets.as_chunks::<4>().0 {
            let [offset, len] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
            if offset.checked_add(len).is_none_or(|end| end > u_pdu) {
                return Err(Malformed::Block);
            }
            blocks.push(Block { offset, len });
        }
        Ok(blocks)
    }

    fn rejected(&mut self) -> Result<UnidataRejected<'a>, Malformed> {
        let [reason, to_sap] = halves(self.u8()?);
        Ok(UnidataRejected {
            reason: UnidataReason(reason),
            to_sap: Sap::new(to_sap),
            to: self.address()?,
            u_pdu: self.u_pdu()?,
        })
    }

    fn u_pdu(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::from(self.u16()?);
        self.take(len)
    }
}

fn emit_result(first: u8, to_sap: Sap, to: Address, u_pdu: &[u8], out: &mut Vec<u8>) {
    out.push(octet(first, to_sap.number()));
    emit_address(to, out);
    emit_u_pdu(cut(u_pdu, usize::from(u16::MAX) - RESULT), out);
}

/// Always all seven half octets: for shorter ones the figure and the text of A.2.2.28.1 differ.
fn emit_address(address: Address, out: &mut Vec<u8>) {
    let group = if address.is_group() { 1 << 28 } else { 0 };
    out.extend_from_slice(&(7 << 29 | group | address.value()).to_be_bytes());
}

fn emit_u_pdu(u_pdu: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&len16(u_pdu));
    out.extend_from_slice(u_pdu);
}

fn len16(octets: &[u8]) -> [u8; 2] {
    u16::try_from(octets.len()).unwrap_or(u16::MAX).to_be_bytes()
}

fn cut(octets: &[u8], limit: usize) -> &[u8] {
    &octets[..octets.len().min(limit)]
}

fn octet(high: u8, low: u8) -> u8 {
    high << 4 | low & 0x0f
}

fn halves(octet: u8) -> [u8; 2] {
    [octet >> 4, octet & 0x0f]
}

//! Octets to primitives.

use super::{
    Arrival, Block, HardLink, LinkKind, Malformed, Management, Primitive, UnidataIndication,
    UnidataRejected, UnidataRequest,
};
use crate::s5066::Address;
use crate::s5066::sis::{
    BindReason, Delivery, LinkReason, NodeStatus, Sap, TerminateReason, UnavailableReason,
    UnbindReason, UnidataReason,
};

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
        // Nodes of Rockwell Collins up to 2.1 and open5066 put the counts of blocks there in any mode.
        let has_blocks = mode == 3 || self.0.len() > usize::from(len);
        let arrival = match mode {
            0 => Arrival::Unspecified,
            1 => Arrival::Arq,
            2 => Arrival::NonArq,
            3 => Arrival::NonArqWithErrors { errored: Vec::new(), missing: Vec::new() },
            other => return Err(Malformed::Mode(other)),
        };
        let arrival = if has_blocks { self.arrival(arrival, len)? } else { arrival };
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

    /// How a U_PDU came, with the blocks that are told: where there are some it has errors, in any mode.
    fn arrival(&mut self, told: Arrival, u_pdu: u16) -> Result<Arrival, Malformed> {
        let (errored, missing) = (self.blocks(u_pdu)?, self.blocks(u_pdu)?);
        let is_whole = errored.is_empty() && missing.is_empty();
        Ok(match told {
            told @ (Arrival::Unspecified | Arrival::Arq | Arrival::NonArq) if is_whole => told,
            _ => Arrival::NonArqWithErrors { errored, missing },
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

fn halves(octet: u8) -> [u8; 2] {
    [octet >> 4, octet & 0x0f]
}

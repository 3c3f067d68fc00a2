//! Primitives to octets.

use super::{
    Arrival, ENVELOPE, HardLink, LinkKind, MAX_U_PDU, PREAMBLE, Primitive, REQUEST, RESULT,
    UnidataIndication, UnidataRejected, UnidataRequest, VERSION,
};
use crate::s5066::Address;
use crate::s5066::sis::{BindReason, LinkReason, NodeStatus, Sap, TerminateReason, UnbindReason};

impl Primitive<'_> {
    /// Appends the primitive in its envelope; what is too long is cut.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[PREAMBLE[0], PREAMBLE[1], VERSION, 0, 0, self.number()]);
        self.emit_fields(out);
        let size = u16::try_from(out.len() - start - ENVELOPE).expect("fields are cut to fit");
        out[start + 3..start + 5].copy_from_slice(&size.to_be_bytes());
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

pub fn cut(octets: &[u8], limit: usize) -> &[u8] {
    &octets[..octets.len().min(limit)]
}

fn octet(high: u8, low: u8) -> u8 {
    high << 4 | low & 0x0f
}

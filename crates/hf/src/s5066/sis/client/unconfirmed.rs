//! U_PDUs sent and not confirmed yet. A confirmation names no U_PDU: it copies the U_PDU's start.

use std::collections::VecDeque;

use crate::s5066::Address;
use crate::s5066::sis::Sap;
use crate::s5066::sis::primitive::UnidataConfirm;

/// Octets by which a confirmation is told from others.
const KEPT: usize = 64;

/// Names a U_PDU until its confirmation; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SendId(pub u64);

/// The U_PDUs of a client that wait for their confirmation, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed {
    u_pdus: VecDeque<Sent>,
}

/// A U_PDU that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    id: SendId,
    pub(super) to: Address,
    pub(super) to_sap: Sap,
    is_expedited: bool,
    /// Its first octets.
    pub(super) start: Vec<u8>,
}

impl Unconfirmed {
    pub(super) fn push(
        &mut self,
        id: SendId,
        to: Address,
        to_sap: Sap,
        is_expedited: bool,
        u_pdu: &[u8],
    ) {
        let start = u_pdu[..u_pdu.len().min(KEPT)].to_vec();
        self.u_pdus.push_back(Sent { id, to, to_sap, is_expedited, start });
    }

    /// Takes the oldest that a confirmation or rejection can mean.
    pub(super) fn take(&mut self, which: UnidataConfirm<'_>, is_expedited: bool) -> Option<SendId> {
        let is_it = |sent: &Sent| {
            let len = which.u_pdu.len().min(sent.start.len());
            sent.to == which.to
                && sent.to_sap == which.to_sap
                && sent.is_expedited == is_expedited
                && sent.start[..len] == which.u_pdu[..len]
        };
        let at = self.u_pdus.iter().position(is_it)?;
        self.u_pdus.remove(at).map(|sent| sent.id)
    }

    pub(super) fn find(&self, id: SendId) -> Option<&Sent> {
        self.u_pdus.iter().find(|sent| sent.id == id)
    }

    pub(super) fn clear(&mut self) {
        self.u_pdus.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.u_pdus.len()
    }
}
